//! ARCHITECTURE.md is true: each crate depends on the crates in its table, and on no others.
//!
//! The library that applications embed (`isomer-cluster`) compiles no planner: `isomer-plan`
//! contains a graph partitioner in C, for which an embedder without a planner should not wait.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates without the prefix `isomer-`, and those on which each depends.
type Dependencies = BTreeMap<String, BTreeSet<String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The dependencies in the crates' manifests, without those for tests.
fn declared() -> Dependencies {
    let manifests = fs::read_dir(root().join("crates")).expect("the crates are here");
    let manifests = manifests.map(|entry| entry.unwrap().path().join("Cargo.toml"));
    manifests.filter(|path| path.exists()).map(|path| read_manifest(&path)).collect()
}

fn read_manifest(path: &Path) -> (String, BTreeSet<String>) {
    let manifest: toml::Table = fs::read_to_string(path).unwrap().parse().unwrap();
    let name = manifest["package"]["name"].as_str().unwrap();
    let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
    let on = dependencies.into_iter().flat_map(|table| table.keys());
    let ours = on.filter(|other| other.split('-').next() == Some("isomer"));
    let on = ours.map(|other| other.trim_start_matches("isomer-").to_owned()).collect();
    (name.trim_start_matches("isomer-").to_owned(), on)
}

/// The dependencies in the table of ARCHITECTURE.md: `| crate | builds on | … |`, `–` for none.
fn documented() -> Dependencies {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let table = text.split_once("| crate | builds on |").expect("the table of crates").1;
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let mut cells = row.split('|').skip(1).map(str::trim);
        let name = cells.next().unwrap().trim_matches('`').trim_start_matches("isomer-");
        let on = cells.next().unwrap().split_whitespace().filter(|word| *word != "–");
        let on = on.map(str::to_owned).collect();
        (name.to_owned(), on)
    })
    .collect()
}

#[test]
fn crates_build_on_what_the_architecture_says() {
    assert_eq!(declared(), documented(), "declared in Cargo.toml, and as ARCHITECTURE.md says");
}

#[test]
fn the_embedded_library_compiles_no_planner() {
    let declared = declared();
    let (mut reached, mut rest) = (BTreeSet::new(), vec!["cluster"]);
    while let Some(name) = rest.pop() {
        if reached.insert(name) {
            rest.extend(declared[name].iter().map(String::as_str));
        }
    }
    assert!(!reached.contains("plan"), "isomer-cluster reaches isomer-plan: {reached:?}");
}

/// The largest knot that each crate may have: files that import each other in a circle. A crate
/// that is not here has none of more than [`KNOT_MAX`]. The numbers may only fall.
const KNOTS: &[(&str, usize)] = &[("server", 13), ("sql", 21)];
const KNOT_MAX: usize = 12;

/// Types with methods in more than [`IMPL_FILES_MAX`] files or with more than [`METHODS_MAX`]
/// methods, and how many each has. The numbers may only fall.
const LARGE_TYPES: &[(&str, &str, usize, usize)] = &[
    ("cluster", "OpenTransaction", 3, 66),
    ("design", "Schema", 6, 40),
    ("server", "Definer", 15, 139),
    ("server", "Engine", 14, 122),
    ("server", "Session", 8, 116),
    ("sim", "World", 8, 142),
    ("site", "Site", 25, 287),
    ("sql", "Binder", 28, 206),
    ("sql", "Catalog", 11, 77),
    ("sql", "Decimal", 3, 71),
    ("sql", "Exec", 14, 107),
];
const IMPL_FILES_MAX: usize = 5;
const METHODS_MAX: usize = 60;

/// The code of a crate without comments and tests, by the path of its module.
fn modules(name: &str) -> BTreeMap<Vec<String>, String> {
    let folder = root().join("crates").join(name).join("src");
    let (mut found, mut folders) = (BTreeMap::new(), vec![folder.clone()]);
    while let Some(inside) = folders.pop() {
        for entry in fs::read_dir(inside).expect("a folder of the crate") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = fs::read_to_string(&path).expect("code is text");
                let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
                let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
                let module = path.strip_prefix(&folder).expect("it is inside").with_extension("");
                let names = module.iter().map(|part| part.to_string_lossy().into_owned());
                let names = names.filter(|part| !matches!(&**part, "mod" | "lib" | "main"));
                found.insert(names.collect(), code.collect::<Vec<_>>().join("\n"));
            }
        }
    }
    found
}

/// The paths after `use`, with groups spelled out.
fn imports(code: &str) -> Vec<String> {
    fn spell(before: &str, text: &str, into: &mut Vec<String>) {
        let (mut depth, mut part) = (0, String::new());
        for sign in text.chars().chain([',']) {
            match sign {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if sign != ',' || depth > 0 {
                part.push(sign);
                continue;
            }
            match part.split_once('{') {
                Some((head, group)) => {
                    let group = group.strip_suffix('}').unwrap_or(group);
                    spell(&format!("{before}{head}"), group, into);
                }
                None if !part.is_empty() => into.push(format!("{before}{part}")),
                None => {}
            }
            part.clear();
        }
    }
    let mut found = Vec::new();
    for statement in code.split("use ").skip(1).filter_map(|rest| rest.split(';').next()) {
        let path: String = statement.split_whitespace().collect();
        if ["crate::", "super::", "self::"].iter().any(|start| path.starts_with(start)) {
            spell("", &path, &mut found);
        }
    }
    found
}

/// The files of a crate that each file imports. The root is left out: it names all others.
fn arrows(name: &str) -> BTreeMap<Vec<String>, BTreeSet<Vec<String>>> {
    let modules = modules(name);
    let files: BTreeSet<&Vec<String>> = modules.keys().filter(|path| !path.is_empty()).collect();
    let file_of = |from: &[String], path: &str| {
        let mut base: Vec<String> = from.to_vec();
        for part in path.split("::") {
            match part {
                "crate" => base.clear(),
                "self" => {}
                "super" => drop(base.pop()),
                part => base.push(part.to_owned()),
            }
        }
        while !base.is_empty() && !files.contains(&base) {
            base.pop();
        }
        (!base.is_empty() && base != from).then_some(base)
    };
    let of = |(path, code): (&Vec<String>, &String)| {
        let imported = imports(code).into_iter();
        (path.clone(), imported.filter_map(|import| file_of(path, &import)).collect())
    };
    modules.iter().filter(|(path, _)| !path.is_empty()).map(of).collect()
}

/// The number of files in the largest circle of imports.
fn largest_knot(name: &str) -> usize {
    let arrows = arrows(name);
    let mut reached: BTreeMap<&Vec<String>, BTreeSet<&Vec<String>>> = BTreeMap::new();
    for file in arrows.keys() {
        let (mut found, mut rest) = (BTreeSet::new(), vec![file]);
        while let Some(at) = rest.pop() {
            rest.extend(arrows.get(at).into_iter().flatten().filter(|to| found.insert(*to)));
        }
        reached.insert(file, found);
    }
    let knot = |file: &Vec<String>| {
        reached[file].iter().filter(|other| reached[**other].contains(file)).count()
    };
    arrows.keys().map(knot).max().unwrap_or(0)
}

/// The number of files with methods of each type of a crate, and of the methods.
fn types(name: &str) -> BTreeMap<String, (usize, usize)> {
    let mut found: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for code in modules(name).values() {
        let (mut inside, mut here) = (None, BTreeSet::new());
        for line in code.lines() {
            if let Some(head) = line.strip_prefix("impl") {
                inside = (!head.contains(" for ")).then(|| name_of(head)).filter(|n| !n.is_empty());
                here.extend(inside.clone());
            } else if line.starts_with('}') {
                inside = None;
            }
            let mut words = line.split_whitespace();
            let is_method = line.starts_with("    ") && !line.starts_with("     ");
            let is_method = is_method
                && words.find(|word| !is_qualifier(word)).is_some_and(|word| word == "fn");
            if let Some(name) = inside.as_ref().filter(|_| is_method) {
                found.entry(name.clone()).or_default().1 += 1;
            }
        }
        here.into_iter().for_each(|name| found.entry(name).or_default().0 += 1);
    }
    found
}

fn is_qualifier(word: &str) -> bool {
    word.starts_with("pub") || matches!(word, "const" | "async" | "unsafe" | "in" | "super)")
}

/// The type of `impl<T: Transport> Router<T> {`.
fn name_of(head: &str) -> String {
    let mut depth = 0;
    let bare = head.chars().filter(|sign| {
        depth += i32::from(*sign == '<');
        let is_outside = depth == 0;
        depth -= i32::from(*sign == '>');
        is_outside
    });
    let bare: String = bare.collect();
    bare.trim().trim_end_matches('{').trim().to_owned()
}

fn crates() -> Vec<String> {
    let entries = fs::read_dir(root().join("crates")).expect("the crates are here");
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn files_that_import_each_other_in_a_circle_are_few() {
    let ceiling = |name: &str| KNOTS.iter().find(|(of, _)| *of == name).map(|(_, most)| *most);
    for name in crates() {
        let (knot, most) = (largest_knot(&name), ceiling(&name).unwrap_or(KNOT_MAX));
        println!("{name}: {knot} files in the largest knot");
        assert!(knot <= most, "{name} has a knot of {knot} files, and may have {most}");
    }
}

#[test]
fn types_have_few_methods_in_few_files() {
    let mut listed: BTreeSet<(String, String)> =
        LARGE_TYPES.iter().map(|(name, of, ..)| ((*name).to_owned(), (*of).to_owned())).collect();
    for name in crates() {
        for (of, (files, methods)) in types(&name) {
            let row = LARGE_TYPES.iter().find(|row| row.0 == name && row.1 == of);
            let (files_max, methods_max) = row
                .map_or((IMPL_FILES_MAX, METHODS_MAX), |(_, _, files, methods)| (*files, *methods));
            let is_within = files <= files_max && methods <= methods_max;
            assert!(is_within, "{name}: {of} has {methods} methods in {files} files");
            if files > IMPL_FILES_MAX || methods > METHODS_MAX {
                listed.remove(&(name.clone(), of));
            }
        }
    }
    assert!(listed.is_empty(), "these are not large any more, and need no row: {listed:?}");
}
