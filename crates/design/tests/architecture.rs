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
