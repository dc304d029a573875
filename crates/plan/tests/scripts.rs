//! Golden scripts: each planner's decisions in words. `UPDATE_GOLDENFILES=1 cargo test` rewrites
//! them.

#[path = "scripts/learned.rs"]
mod learned;
#[path = "scripts/placement.rs"]
mod placement;
#[path = "scripts/recording.rs"]
mod recording;
#[path = "scripts/reshard.rs"]
mod reshard;
#[path = "scripts/route.rs"]
mod route;

use std::error::Error;
use std::str::FromStr;

/// Runs all scripts of a folder, each with a new runner.
fn run<R: goldenscript::Runner>(folder: &str, new: impl Fn() -> R) {
    let folder = format!("{}/scripts/{folder}", env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> = std::fs::read_dir(&folder)
        .expect(&folder)
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "{folder} has no scripts");
    for path in paths {
        goldenscript::run(&mut new(), &path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    }
}

/// Reads a value, or says which one is wrong.
fn parse<T: FromStr>(what: &str, text: &str) -> Result<T, Box<dyn Error>> {
    text.parse().map_err(|_| format!("{what}: cannot read \"{text}\"").into())
}

/// Reads a site, `s1` or beyond.
fn site(text: &str) -> Result<u16, Box<dyn Error>> {
    isomer_plan::problem::parse_site(text).ok_or_else(|| format!("no site: \"{text}\"").into())
}
