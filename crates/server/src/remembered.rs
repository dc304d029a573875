//! Decisions and proposals over restarts: the rows of `isomer.decisions` and `isomer.proposals`.
//!
//! ```text
//!   this start       journal, proposals ──▶ rows ─┐
//!   earlier starts   decisions.json ────▶ rows ───┴──▶ isomer.decisions
//!                         ▲      the last of both, every ten seconds and at the end
//!                         └──────────────────────────────┘
//! ```
//!
//! Such a row changes for minutes: its changes are made, its effect is measured, and a later
//! decision may take it back. So the files have rows as they were shown last, and are written as a
//! whole. A crash loses the news of the last ten seconds. Numbers go on where earlier starts have
//! ended. A proposal that was open at the end of its start is [`INTERRUPTED`].
//!
//! The process with the conductor has these rows. It tells the other gateways which are new or have
//! changed, so the next conductor has them as well.

use crate::engine::Engine;
use crate::engine::questions::Cell;
use crate::engine::{Told, mention};
use crate::pilot::Decider;
use crate::proposals::proposal_rows;
use isomer_design::Time;
use isomer_sql::datum::Datum;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The state of a plan or a proposal that was open when its process ended.
pub(crate) const INTERRUPTED: &str = "interrupted";

/// The most rows that a file has.
const KEPT_MAX: usize = 1000;
/// The time between two writes.
const EVERY_NS: u64 = 10_000_000_000;
/// The columns with the number, and the state of a proposal.
const NUMBER: usize = 0;
const STATE: usize = 1;

/// The views.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) enum View {
    Decisions,
    Proposals,
}

impl View {
    const ALL: [View; 2] = [View::Decisions, View::Proposals];

    /// The name of the file in the data folder.
    fn file(self) -> &'static str {
        match self {
            View::Decisions => "decisions.json",
            View::Proposals => "proposals.json",
        }
    }

    /// The rows of this start.
    fn here(self, engine: &Engine) -> Vec<Vec<Cell>> {
        let rows = match self {
            View::Decisions => engine.decision_rows(),
            View::Proposals => proposal_rows(engine),
        };
        rows.into_iter().map(|row| row.into_iter().map(Cell::of).collect()).collect()
    }

    /// The rows of this start begin after a number.
    fn number_after(self, engine: &Engine, number: u64) {
        match (self, engine.autopilot()) {
            (View::Decisions, Decider::Learned(learned)) => learned.number_after(number),
            (View::Decisions, Decider::Elastic(elastic)) => elastic.number_after(number),
            (View::Proposals, _) => engine.steering.proposals.lock().number_after(number),
        }
    }
}

/// The rows of earlier starts, and the files with all of them.
#[derive(Default)]
pub(crate) struct Remembered {
    kept: Mutex<[Kept; 2]>,
    /// When the rows were compared last.
    looked: Mutex<Time>,
}

#[derive(Default)]
struct Kept {
    earlier: Vec<Vec<Cell>>,
    path: Option<PathBuf>,
    /// The rows of this start as they were written last.
    written: Vec<Vec<Cell>>,
}

impl Kept {
    /// Reads a file, and adds the rows of memory. A file that makes no sense is as good as none.
    fn open(path: PathBuf, memory: Vec<Vec<Cell>>) -> io::Result<Kept> {
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let earlier = serde_json::from_str(&text).unwrap_or_default();
        let mut kept = Kept { earlier, path: Some(path), written: Vec::new() };
        memory.into_iter().for_each(|row| kept.put(row));
        Ok(kept)
    }

    /// Puts a row in the place of the one with its number.
    fn put(&mut self, row: Vec<Cell>) {
        match self.earlier.iter_mut().find(|known| known.first() == row.first()) {
            Some(known) => *known = row,
            None => self.earlier.push(row),
        }
    }

    /// The largest number.
    fn last(&self) -> u64 {
        let numbers = self.earlier.iter().filter_map(|row| match row.get(NUMBER) {
            Some(Cell::Int(number)) => u64::try_from(*number).ok(),
            _ => None,
        });
        numbers.max().unwrap_or(0)
    }

    /// Writes the file with these rows of the present start. Returns those that are new or have
    /// changed.
    fn write(&mut self, here: Vec<Vec<Cell>>) -> io::Result<Vec<Vec<Cell>>> {
        let is_new = |row: &&Vec<Cell>| !self.written.contains(row);
        let news: Vec<Vec<Cell>> = here.iter().filter(is_new).cloned().collect();
        let Some(path) = self.path.as_ref().filter(|_| !news.is_empty()) else { return Ok(news) };
        let all: Vec<&Vec<Cell>> = self.earlier.iter().chain(&here).collect();
        let text = serde_json::to_string(&all[all.len().saturating_sub(KEPT_MAX)..])
            .expect("numbers and texts can be written");
        let new = path.with_extension("new");
        fs::write(&new, &text)?;
        fs::rename(&new, path)?;
        self.written = here;
        Ok(news)
    }
}

/// Reads the rows of earlier starts, and keeps those of this one in the same folder.
///
/// # Errors
/// If a file cannot be read.
pub(crate) fn open(engine: &Engine, folder: &Path) -> io::Result<()> {
    for view in View::ALL {
        let memory = std::mem::take(&mut engine.remembered.kept.lock()[view as usize].earlier);
        let mut kept = Kept::open(folder.join(view.file()), memory)?;
        if view == View::Proposals {
            let open = ["proposed", "approved", "running"];
            for row in &mut kept.earlier {
                if let Some(Cell::Text(state)) = row.get_mut(STATE)
                    && open.contains(&&**state)
                {
                    *state = INTERRUPTED.to_owned();
                }
            }
        }
        view.number_after(engine, kept.last());
        engine.remembered.kept.lock()[view as usize] = kept;
    }
    Ok(())
}

/// Writes the files if some time has passed since the last call.
pub(crate) fn keep(engine: &Engine) {
    let (now, looked) = (engine.database().now(), *engine.remembered.looked.lock());
    if now.0.saturating_sub(looked.0) >= EVERY_NS {
        keep_now(engine);
    }
}

/// Writes the decisions and proposals of this start, with those of earlier ones.
pub fn keep_now(engine: &Engine) {
    *engine.remembered.looked.lock() = engine.database().now();
    if engine.database().is_gateway_only() {
        // The process with the conductor does.
        return;
    }
    for view in View::ALL {
        let here = view.here(engine);
        let written = engine.remembered.kept.lock()[view as usize].write(here);
        match written {
            Ok(news) if news.is_empty() => {}
            Ok(news) => mention(engine, &Told::Remembered(view, news)),
            // A full disk must not stop the database. The next attempt comes in ten seconds.
            Err(error) => tracing::warn!("{} is not written: {error}", view.file()),
        }
    }
}

/// The gateway of the conductor has these rows.
pub(crate) fn learn(engine: &Engine, view: View, rows: Vec<Vec<Cell>>) {
    let kept = &mut engine.remembered.kept.lock()[view as usize];
    rows.into_iter().for_each(|row| kept.put(row));
    let over = kept.earlier.len().saturating_sub(KEPT_MAX);
    kept.earlier.drain(..over);
}

/// All rows, for a gateway that joins.
pub(crate) fn all(engine: &Engine) -> Vec<(View, Vec<Vec<Cell>>)> {
    let rows = |view: View| {
        let mut all = engine.remembered.kept.lock()[view as usize].earlier.clone();
        all.extend(view.here(engine));
        (view, all)
    };
    View::ALL.map(rows).into()
}

/// All rows of a view, those of earlier starts first.
pub(crate) fn rows(engine: &Engine, view: View) -> Vec<Vec<Datum>> {
    let mut all = engine.remembered.kept.lock()[view as usize].earlier.clone();
    all.extend(view.here(engine));
    all.into_iter().map(|row| row.into_iter().map(Cell::datum).collect()).collect()
}
