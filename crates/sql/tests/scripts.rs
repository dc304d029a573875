//! Golden scripts of queries without tables: the results of expressions and functions, without a
//! server.
//!
//! `> select ..` shows the rows, or the error with its code. The clock stands at 2026-11-26 09:30
//! UTC, the zone is that of New York.

use goldenscript::{Command, Context, Runner};
use isomer_design::{Backups, Direction, Key, KeyRange, TableId};
use isomer_sql::budget::Budget;
use isomer_sql::catalog::Catalog;
use isomer_sql::dates::{Order, TimeStyle};
use isomer_sql::foreign::Check;
use isomer_sql::rights::Identity;
use isomer_sql::sequence::Sequence;
use isomer_sql::system::{Counts, DesignView, LockRow, Sessions, SessionsView, SettingsView};
use isomer_sql::transaction::{Base, LockKind, LockedRow, Surroundings, Transaction, Visit};
use isomer_sql::zone::Zone;
use isomer_sql::{Datum, SqlError};
use std::error::Error;
use std::fmt::Write;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// 2026-11-26 09:30 UTC.
const NOW_US: i64 = 1_795_685_400_000_000;

/// An environment without tables.
struct Nothing {
    times: TimeStyle,
}

fn none<T>() -> Result<T, SqlError> {
    Err(SqlError::unsupported("a table"))
}

impl Transaction for Nothing {
    fn get(&mut self, _: TableId, _: &Key, _: &mut dyn FnMut(&[u8])) -> Result<bool, SqlError> {
        none()
    }

    fn scan(
        &mut self,
        _: TableId,
        _: &KeyRange,
        _: Direction,
        _: Visit<'_>,
    ) -> Result<(), SqlError> {
        none()
    }

    fn scan_newest(&mut self, _: TableId, _: &KeyRange, _: Visit<'_>) -> Result<(), SqlError> {
        none()
    }

    fn lock(&mut self, _: TableId, _: &Key, _: LockKind, _: bool) -> Result<bool, SqlError> {
        none()
    }

    fn lock_number(&mut self, _: &Key, _: LockKind, _: bool) -> Result<bool, SqlError> {
        none()
    }

    fn lock_number_for_session(&mut self, _: &Key, _: LockKind, _: bool) -> Result<bool, SqlError> {
        none()
    }

    fn unlock_number(&mut self, _: &Key, _: LockKind) -> bool {
        false
    }

    fn unlock_numbers(&mut self) {}

    fn export_snapshot(&mut self) -> Result<String, SqlError> {
        none()
    }

    fn wait_for_holders(&mut self, _: TableId, _: &Key, _: bool) -> Result<(), SqlError> {
        none()
    }

    fn unlock(&mut self, _: TableId, _: &[Key]) {}

    fn look_again(&mut self) {}

    fn keep_view(&mut self) {}

    fn is_written_in_view(&self, _: TableId, _: &Key) -> bool {
        false
    }

    fn get_locked(
        &mut self,
        _: TableId,
        _: &Key,
        _: &mut dyn FnMut(&[u8]),
    ) -> Result<LockedRow, SqlError> {
        none()
    }

    fn put(&mut self, _: TableId, _: Key, _: Base, _: Option<Vec<u8>>) -> Result<(), SqlError> {
        none()
    }

    fn hold(&mut self, _: TableId) -> Result<(), SqlError> {
        none()
    }

    fn put_off(&mut self, _: &Check) -> Result<bool, SqlError> {
        none()
    }

    fn next_value(&mut self, _: &str) -> Result<i64, SqlError> {
        none()
    }

    fn next_number(&mut self, _: &Sequence) -> Result<i64, SqlError> {
        none()
    }

    fn set_number(&mut self, _: &Sequence, _: i64, _: bool) -> Result<(), SqlError> {
        none()
    }

    fn check_cancel(&self) -> Result<(), SqlError> {
        Ok(())
    }

    fn pause(&self, _: Duration) -> Result<(), SqlError> {
        none()
    }
}

impl SettingsView for Nothing {
    fn setting(&self, _: &str) -> Option<String> {
        None
    }

    fn settings(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn times(&self) -> &TimeStyle {
        &self.times
    }

    fn checked(&self, _: &str, _: &str) -> Result<String, SqlError> {
        none()
    }
}

impl DesignView for Nothing {
    fn password(&self, _: &str) -> Option<String> {
        None
    }

    fn rows(&self, _: &str, _: &Catalog, _: &Budget) -> Result<Vec<Vec<Datum>>, SqlError> {
        none()
    }

    fn last_number(&self, _: &Sequence) -> Result<(i64, bool), SqlError> {
        none()
    }

    fn locks(&self) -> Vec<LockRow> {
        Vec::new()
    }

    fn blockers(&self, _: u64) -> Vec<u64> {
        Vec::new()
    }

    fn bytes(&self, _: TableId) -> u64 {
        0
    }

    fn default_backups(&self) -> Backups {
        Backups::NONE
    }

    fn backups(&self, _: TableId) -> Backups {
        Backups::NONE
    }

    fn is_ordered(&self, _: TableId) -> bool {
        false
    }

    fn autopilot(&self, _: TableId) -> Option<&'static str> {
        None
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }
}

impl SessionsView for Nothing {
    fn sessions(&self) -> Sessions {
        Sessions::default()
    }

    fn signal(&self, _: i32, _: bool) -> bool {
        false
    }
}

impl Nothing {
    fn new() -> Nothing {
        let zone = Zone::named("America/New_York").expect("a zone");
        Nothing { times: TimeStyle { zone, order: Order::Mdy } }
    }
}

/// The result of a query.
fn shown(text: &str) -> Result<String, SqlError> {
    let (catalog, budget) = (Catalog::default(), Budget::unlimited());
    let parsed = isomer_sql::parse::parse(text)?.pop().expect("a statement");
    let compiled = isomer_sql::statement::compile(&parsed, text, &catalog, &[], &budget)?;
    let around = Surroundings {
        settings: Arc::new(Nothing::new()),
        begun_us: NOW_US,
        now_us: NOW_US,
        user: Arc::from("isomer"),
        identity: Arc::new(Identity::system()),
        database: Arc::from("isomer"),
        process: 1,
        budget,
        design: Arc::new(Nothing::new()),
        seed: 1,
        random: |bytes| bytes.fill(7),
        sessions: Arc::new(Nothing::new()),
        wanted: Rc::default(),
        warnings: Rc::default(),
        given: Rc::default(),
        cursors: Rc::default(),
        prepared: Rc::default(),
    };
    let output = compiled.output.clone().unwrap_or_default();
    let zone = around.settings.zone().clone();
    let mut rows = String::new();
    let mut sink = |values: &[Datum]| {
        let one = |(value, column): (&Datum, &isomer_sql::plan::OutputColumn)| match value {
            Datum::Null => "NULL".to_owned(),
            value => isomer_sql::text::format_in(value, column.ty, &zone).into_owned(),
        };
        let row: Vec<String> = values.iter().zip(&output).map(one).collect();
        writeln!(rows, "{}", row.join(" | ")).expect("a text takes what it is given");
        Ok(())
    };
    compiled.run(&mut Nothing::new(), &[], &around, &catalog, &mut sink)?;
    Ok(rows)
}

struct Scripts;

impl Runner for Scripts {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Result<String, Box<dyn Error>> {
        Ok(shown(&command.name)
            .unwrap_or_else(|error| format!("{}: {}\n", error.code, error.message)))
    }
}

#[test]
fn scripts() {
    let folder = std::path::Path::new("scripts");
    let mut names: Vec<_> = std::fs::read_dir(folder).expect("scripts").collect();
    names.sort_by_key(|entry| entry.as_ref().map(std::fs::DirEntry::path).ok());
    for entry in names {
        goldenscript::run(&mut Scripts, entry.expect("a script").path()).expect("it is as it was");
    }
}

/// The queries in a file, one per line, with their results: for a comparison with another database.
#[test]
#[ignore = "it is asked for by name, with ISOMER_QUERIES"]
fn queries_of_a_file() {
    let path = std::env::var("ISOMER_QUERIES").expect("a file");
    for line in std::fs::read_to_string(path).expect("it can be read").lines() {
        println!("=== {line}");
        print!(
            "{}",
            shown(line).unwrap_or_else(|error| format!("{} {}\n", error.code, error.message))
        );
    }
}
