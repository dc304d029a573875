//! Documents and comments: links work, README stays short, and prose follows its rules.
//!
//! The rules of prose: the subject of a sentence is a noun, a quantity is a number with its unit, a
//! role has its name, and a comment ends at column 100. The ceilings below may only fall.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The most places that break a rule of prose in each part of the tree. Parts that are not listed
/// have none.
const CEILINGS: &[(&str, usize)] = &[("crates/log", 1), ("crates/strategy", 1)];

/// Sentences whose subject is no noun begin with one of these.
const RELATIVES: [&str; 5] = ["Who ", "What ", "Whoever ", "Whatever ", "Whichever "];
/// Quantities without a number or a unit.
const QUANTITIES: [&str; 5] = ["so many", "so much", "so long", "as many as", "as much as"];
/// Roles without a name.
const ROLES: [&str; 7] =
    ["obody", "omebody", "nybody", "verybody", "another one", "the other one", "that one"];
/// The last column of a comment.
const COLUMNS: usize = 100;

/// README is read in two minutes.
const README_LINES: usize = 120;
/// Papers that README names in its last section only.
const PAPERS: [&str; 5] = ["MorphoSys", "Clay", "DrTM", "Hermes", "Morphus"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files below a folder, without those that cargo and git make.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the project") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !name.starts_with('.') && name != "target" && name != "scripts" {
            files(&path, found);
        } else if path.is_file() {
            found.push(path);
        }
    }
}

fn of_kind(ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(&root(), &mut found);
    found.retain(|path| path.extension().is_some_and(|it| it == ending));
    found
}

#[test]
fn links_lead_to_files() {
    let mut broken = Vec::new();
    for page in of_kind("md") {
        let text = fs::read_to_string(&page).expect("a page is text");
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://") && !link.starts_with('#')) {
            let path = link.split('#').next().unwrap_or_default();
            let is_path = !path.is_empty() && !path.contains(' ');
            if is_path && !page.with_file_name(path).exists() {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn readme_is_short_and_leads_with_the_product() {
    let text = fs::read_to_string(root().join("README.md")).expect("README.md");
    assert!(text.lines().count() <= README_LINES, "README.md has at most {README_LINES} lines");
    let (before, _) = text.rsplit_once("\n## ").expect("README.md has sections");
    let named: Vec<&str> = PAPERS.into_iter().filter(|paper| before.contains(paper)).collect();
    assert!(named.is_empty(), "papers named before the last section: {named:?}");
}

/// The rows of README's status table, and the file of tests that shows each; `None` for a feature
/// that is not there.
const STATUS: [(&str, Option<&str>); 10] = [
    ("SQL over the PostgreSQL protocol", Some("crates/server/tests/cases.rs")),
    ("Snapshot isolation; SERIALIZABLE by validation", Some("crates/cli/tests/histories/main.rs")),
    ("Split, merge, remaster, replicate", Some("crates/server/tests/resharding.rs")),
    ("Autopilot that learns from transactions", Some("crates/server/tests/learning.rs")),
    ("Logs in files, at a majority of the nodes", Some("crates/cli/tests/logs_at_nodes.rs")),
    ("Several processes; takeover where tables have backups", Some("crates/cli/tests/nodes.rs")),
    ("[Ordered tables]", Some("crates/cluster/src/ordered/tests.rs")),
    ("[Console]", Some("crates/console/tests")),
    ("Clients at every process", Some("crates/cli/tests/gateways.rs")),
    ("Processes join a running cluster", Some("crates/cli/tests/joining.rs")),
];

#[test]
fn each_status_in_readme_has_its_tests() {
    let text = fs::read_to_string(root().join("README.md")).expect("README.md");
    let (_, section) = text.split_once("\n## Status\n").expect("a section");
    let (section, _) = section.split_once("\n## ").expect("the next section");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")).skip(1);
    let rows: Vec<&str> = rows.filter(|row| !row.starts_with("---")).collect();
    assert_eq!(rows.len(), STATUS.len(), "the table and this test have the same rows: {rows:#?}");
    for (row, (begins, tests)) in rows.iter().zip(STATUS) {
        assert!(row.starts_with(begins), "{row} is where {begins} is expected");
        let state = row.split(" | ").nth(1).unwrap_or_default();
        match tests {
            Some(tests) => {
                assert!(root().join(tests).exists(), "{tests} shows that it works: {row}");
                assert!(state.starts_with("works") || state.starts_with("a library"), "{row}");
            }
            None => assert!(state.starts_with("not yet"), "no test shows it: {row}"),
        }
    }
}

/// The comment or the text of a line; `None` for code.
fn prose(line: &str, is_rust: bool) -> Option<&str> {
    if !is_rust {
        return Some(line);
    }
    let comment = line.trim_start().strip_prefix("//")?;
    Some(comment.trim_start_matches(['/', '!']).trim_start())
}

/// Whether prose breaks a rule; code in backticks does not count.
fn breaks(text: &str) -> bool {
    let bare: String = text.split('`').step_by(2).collect::<Vec<_>>().join("x");
    let begins = |word: &str| {
        bare.starts_with(word)
            || [". ", ": ", "; ", "! "].iter().any(|end| bare.contains(&format!("{end}{word}")))
    };
    let asks = bare.contains('?');
    (!asks && RELATIVES.into_iter().any(begins))
        || QUANTITIES.into_iter().chain(ROLES).any(|words| bare.contains(words))
}

/// Lines of a file that break a rule.
fn places(path: &Path, is_rust: bool) -> usize {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut is_code = false;
    let mut count = 0;
    for line in text.lines() {
        let Some(text) = prose(line, is_rust) else { continue };
        is_code ^= text.starts_with("```");
        let is_drawn = text.starts_with(['|', '│', '┌', '└', '├', '─', '▶']);
        let is_wide = is_rust && line.chars().count() > COLUMNS;
        count += usize::from(!is_code && !is_drawn && (is_wide || breaks(text)));
    }
    count
}

#[test]
fn prose_is_read_once() {
    let root = root();
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for (ending, is_rust) in [("rs", true), ("md", false)] {
        for path in of_kind(ending) {
            // This file names the words.
            if path.ends_with("design/tests/documents.rs") {
                continue;
            }
            let inside = path.strip_prefix(&root).expect("a file of the project");
            let depth =
                if inside.starts_with("crates") || inside.starts_with("docs") { 2 } else { 1 };
            let part = inside.iter().take(depth).collect::<PathBuf>().display().to_string();
            *found.entry(part).or_default() += places(&path, is_rust);
        }
    }
    let ceilings: BTreeMap<&str, usize> = CEILINGS.iter().copied().collect();
    let most = |part: &str| ceilings.get(part).copied().unwrap_or_default();
    let beyond: Vec<_> = found.iter().filter(|(part, count)| **count > most(part)).collect();
    assert!(beyond.is_empty(), "more places than the ceilings of this test allow: {beyond:#?}");
}
