//! Golden scripts: each planner's decisions in words. `UPDATE_GOLDENFILES=1 cargo test` rewrites
//! them.

#[path = "scripts/elastic.rs"]
mod elastic;
#[path = "scripts/learned.rs"]
mod learned;
#[path = "scripts/placement.rs"]
mod placement;
#[path = "scripts/recording.rs"]
mod recording;
#[path = "scripts/reshard.rs"]
mod reshard;
#[path = "scripts/restraints.rs"]
mod restraints;
#[path = "scripts/route.rs"]
mod route;
#[path = "scripts/strategy.rs"]
mod strategy;

use goldenscript::Command;
use isomer_design::{
    Backups, Change, Column, ColumnType, Design, Key, Placement, Schema, SiteId, TableId,
};
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

/// Runs a command that sets up a design, if it is one: `sites N`, `table NAME` (its key is one
/// number, mastered at s1), `change CHANGE…`, `design`.
fn set_up(design: &mut Design, command: &Command) -> Option<Result<String, Box<dyn Error>>> {
    let set_up = match command.name.as_str() {
        "sites" => sites,
        "table" => table,
        "change" => change,
        "backups" => backups,
        "design" => return Some(Ok(design.summary())),
        _ => return None,
    };
    Some(set_up(design, command).map(|()| String::new()))
}

fn sites(design: &mut Design, command: &Command) -> Result<(), Box<dyn Error>> {
    let mut args = command.consume_args();
    let count: u16 = parse("sites", args.next_pos().ok_or("how many?")?)?;
    *design = Design::new((1..=count).map(SiteId))?;
    args.reject_next()?;
    Ok(())
}

fn table(design: &mut Design, command: &Command) -> Result<(), Box<dyn Error>> {
    let mut args = command.consume_args();
    let name = args.next_pos().ok_or("which?")?;
    let id = TableId(design.tables().count() as u32 + 1);
    let columns = vec![Column::new("id", ColumnType::Int64)];
    let schema = Schema::new(name, columns, &["id"])?;
    design.create_table(id, schema, [(Key::min(), Placement::at(SiteId(1)))])?;
    args.reject_next()?;
    Ok(())
}

fn change(design: &mut Design, command: &Command) -> Result<(), Box<dyn Error>> {
    let mut args = command.consume_args();
    while let Some(text) = args.next_pos() {
        let change = Change::parse(text, design)?;
        design.apply(&change)?;
    }
    Ok(())
}

fn backups(design: &mut Design, command: &Command) -> Result<(), Box<dyn Error>> {
    let mut args = command.consume_args();
    let name = args.next_pos().ok_or("of which table?")?;
    let (id, _) = design.find_table(name).ok_or("there is no such table")?;
    let count = parse("backups", args.next_pos().ok_or("how many?")?)?;
    design.set_backups(id, Backups { count, on_disk: true })?;
    args.reject_next()?;
    Ok(())
}

/// Parses a value, or names the invalid one.
fn parse<T: FromStr>(what: &str, text: &str) -> Result<T, Box<dyn Error>> {
    text.parse().map_err(|_| format!("{what}: cannot read \"{text}\"").into())
}

/// Reads a site, `s1` or beyond.
fn site(text: &str) -> Result<u16, Box<dyn Error>> {
    isomer_plan::problem::parse_site(text).ok_or_else(|| format!("no site: \"{text}\"").into())
}
