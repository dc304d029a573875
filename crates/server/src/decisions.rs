//! The decisions of strategies over restarts: the rows of `isomer.decisions`.
//!
//! ```text
//!   this start       the journal of the strategy ──▶ rows ─┐
//!   earlier starts   decisions.json ─────────────▶ rows ───┴──▶ isomer.decisions
//!                         ▲      the last of both, every ten seconds and at the end
//!                         └──────────────────────────────┘
//! ```
//!
//! A decision changes for minutes: its changes are made, its effect is measured, and a later one
//! may take it back. So the file has rows as they were shown last, and is written as a whole. A
//! crash loses the news of the last ten seconds. Numbers go on where earlier starts have ended.

use crate::engine::Engine;
use crate::engine::questions::Cell;
use crate::pilot::Decider;
use isomer_design::Time;
use isomer_sql::datum::Datum;
use parking_lot::Mutex;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The most rows that the file has.
const KEPT_MAX: usize = 1000;
/// The time between two writes.
const EVERY_NS: u64 = 10_000_000_000;
/// The name of the file in the data folder.
const NAME: &str = "decisions.json";
/// The column with the number.
const NUMBER: usize = 0;

/// The decisions of earlier starts, and the file with all of them.
#[derive(Default)]
pub(crate) struct Decisions {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    earlier: Vec<Vec<Cell>>,
    path: Option<PathBuf>,
    /// The contents of the file.
    written: String,
    /// When it was compared last.
    looked: Time,
}

/// Reads the decisions of earlier starts, and keeps those of this one in the same folder.
///
/// # Errors
/// If the file cannot be read. One that makes no sense is as good as none.
pub(crate) fn open(engine: &Engine, folder: &Path) -> io::Result<()> {
    let path = folder.join(NAME);
    let written = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    let earlier: Vec<Vec<Cell>> = serde_json::from_str(&written).unwrap_or_default();
    let numbers = earlier.iter().filter_map(|row| match row.get(NUMBER) {
        Some(Cell::Int(number)) => u64::try_from(*number).ok(),
        _ => None,
    });
    let last = numbers.max().unwrap_or(0);
    match engine.autopilot() {
        Decider::Learned(learned) => learned.number_after(last),
        Decider::Elastic(elastic) => elastic.number_after(last),
    }
    *engine.decisions.kept.lock() =
        Kept { earlier, path: Some(path), written, looked: engine.database().now() };
    Ok(())
}

/// Writes the file if some time has passed since the last call.
pub(crate) fn keep(engine: &Engine) {
    let (now, looked) = (engine.database().now(), engine.decisions.kept.lock().looked);
    if now.0.saturating_sub(looked.0) >= EVERY_NS {
        keep_now(engine);
    }
}

/// Writes the file, unless it has all of it.
pub fn keep_now(engine: &Engine) {
    let here = engine.decision_rows();
    let mut kept = engine.decisions.kept.lock();
    kept.looked = engine.database().now();
    let Some(path) = kept.path.clone() else { return };
    let here = here.into_iter().map(|row| row.into_iter().map(Cell::of).collect());
    let mut all: Vec<Vec<Cell>> = kept.earlier.iter().cloned().chain(here).collect();
    all.drain(..all.len().saturating_sub(KEPT_MAX));
    let text = serde_json::to_string(&all).expect("numbers and texts can be written");
    if text == kept.written {
        return;
    }
    let new = path.with_extension("new");
    match fs::write(&new, &text).and_then(|()| fs::rename(&new, &path)) {
        Ok(()) => kept.written = text,
        // A full disk must not stop the database. The next attempt comes in ten seconds.
        Err(error) => tracing::warn!("decisions are not kept: {}: {error}", path.display()),
    }
}

/// The decisions of earlier starts, the oldest first.
pub(crate) fn earlier(engine: &Engine) -> Vec<Vec<Datum>> {
    let kept = engine.decisions.kept.lock();
    let row = |row: &Vec<Cell>| row.iter().cloned().map(Cell::datum).collect();
    kept.earlier.iter().map(row).collect()
}
