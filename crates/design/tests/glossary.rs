//! GLOSSARY.md and the code agree: each term is where the glossary says, and no item has a name
//! that the glossary avoids.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The cells of the table rows below a heading, up to the next one; of all tables, if `None`.
fn rows(text: &str, heading: Option<&str>) -> Vec<Vec<String>> {
    let text = match heading {
        Some(heading) => {
            let (_, below) = text.split_once(heading).expect("the heading is there");
            below.split_once("\n## ").map_or(below, |(section, _)| section)
        }
        None => text,
    };
    let lines = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
    lines.map(|line| line.split('|').skip(1).map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// The words in backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// `a/{b,c}.rs` is `a/b.rs` and `a/c.rs`.
fn paths(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let (names, after) = rest.split_once('}').expect("a brace is closed");
    names.split(',').map(|name| format!("{before}{name}{after}")).collect()
}

fn glossary() -> String {
    fs::read_to_string(root().join("GLOSSARY.md")).unwrap()
}

/// All Rust sources.
fn sources() -> Vec<PathBuf> {
    let (mut sources, mut folders) = (Vec::new(), vec![root().join("crates")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push(path);
            }
        }
    }
    sources
}

#[test]
fn each_term_is_where_the_glossary_says() {
    let text = glossary();
    let mut wrong = Vec::new();
    for row in rows(&text, None).iter().filter(|row| row.len() > 3) {
        let mut there: Vec<PathBuf> = Vec::new();
        for word in quoted(&row[2]) {
            if word.contains('/') || word.ends_with(".rs") {
                there = paths(word).iter().map(|path| root().join("crates").join(path)).collect();
                wrong.extend(there.iter().filter(|path| !path.exists()).cloned());
            } else {
                let has_it =
                    |path: &PathBuf| fs::read_to_string(path).unwrap_or_default().contains(word);
                let is_crate = root().join("crates").join(word).exists();
                if !is_crate && !there.iter().any(has_it) {
                    wrong.push(PathBuf::from(format!("{}: `{word}`", row[0])));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "not where GLOSSARY.md says: {wrong:#?}");
}

#[test]
fn no_item_is_named_by_a_word_to_avoid() {
    let text = glossary();
    let avoided = rows(&text, Some("## Words to avoid"));
    let avoided: BTreeSet<&str> = avoided.iter().flat_map(|row| quoted(&row[0])).collect();
    assert!(avoided.len() > 20, "the table is there: {avoided:?}");
    let mut wrong = Vec::new();
    for path in sources() {
        let source = fs::read_to_string(&path).unwrap();
        for line in source.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let words: Vec<&str> = line
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .filter(|w| !w.is_empty())
                .collect();
            let kinds = ["struct", "enum", "trait", "type", "fn", "mod", "const", "static"];
            let named =
                words.windows(2).find(|pair| kinds.contains(&pair[0]) && avoided.contains(pair[1]));
            if let Some(pair) = named {
                wrong.push(format!("{}: {} {}", path.display(), pair[0], pair[1]));
            }
        }
    }
    assert!(wrong.is_empty(), "GLOSSARY.md says to avoid: {wrong:#?}");
}
