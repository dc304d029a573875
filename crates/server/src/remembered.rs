//! Decisions and proposals over restarts: the rows of `isomer.decisions` and `isomer.proposals`.
//!
//! ```text
//!   this start       journal, proposals ──▶ rows ─┐
//!   earlier starts   decisions.json ────▶ rows ───┴──▶ isomer.decisions
//!                         ▲      the last of both, every ten seconds, and when a proposal changes
//!                         └──────────────────────────────┘
//! ```
//!
//! Such a row changes for minutes: its changes are made, its effect is measured, and a later
//! decision may take it back. So the files have rows as they were shown last, and are written as a
//! whole. A statement about a proposal ends after that is written. A crash loses other news of the
//! last ten seconds. Numbers go on where earlier starts have ended. A proposal that was open at the
//! end of its start is [`INTERRUPTED`].
//!
//! The process with the conductor has these rows. It tells the other gateways which are new or have
//! changed, so the next conductor has them as well.

use crate::cells::Cell;
use isomer_design::Time;
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
    pub(crate) const ALL: [View; 2] = [View::Decisions, View::Proposals];

    /// The name of the file in the data folder.
    fn file(self) -> &'static str {
        match self {
            View::Decisions => "decisions.json",
            View::Proposals => "proposals.json",
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

impl Remembered {
    /// Reads the rows of earlier starts, and keeps those of this one in the same folder. Returns
    /// the largest number.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn open(&self, view: View, folder: &Path) -> io::Result<u64> {
        let kept = &mut self.kept.lock()[view as usize];
        *kept = Kept::open(folder.join(view.file()), std::mem::take(&mut kept.earlier))?;
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
        Ok(kept.last())
    }

    /// True once in some time.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        let mut looked = self.looked.lock();
        let is_due = now.0.saturating_sub(looked.0) >= EVERY_NS;
        if is_due {
            *looked = now;
        }
        is_due
    }

    /// Writes the rows of this start. Returns those that are new or have changed.
    pub(crate) fn write(&self, view: View, here: Vec<Vec<Cell>>) -> Vec<Vec<Cell>> {
        match self.kept.lock()[view as usize].write(here) {
            Ok(news) => news,
            Err(error) => {
                // A full disk must not stop the database. The next attempt comes in ten seconds.
                tracing::warn!("{} is not written: {error}", view.file());
                Vec::new()
            }
        }
    }

    /// The gateway of the conductor has these rows.
    pub(crate) fn learn(&self, view: View, rows: Vec<Vec<Cell>>) {
        let kept = &mut self.kept.lock()[view as usize];
        rows.into_iter().for_each(|row| kept.put(row));
        let over = kept.earlier.len().saturating_sub(KEPT_MAX);
        kept.earlier.drain(..over);
    }

    /// The rows of earlier starts.
    pub(crate) fn earlier(&self, view: View) -> Vec<Vec<Cell>> {
        self.kept.lock()[view as usize].earlier.clone()
    }

    /// All rows as they were written last, for a gateway that joins.
    pub(crate) fn all(&self) -> Vec<(View, Vec<Vec<Cell>>)> {
        let kept = self.kept.lock();
        let rows = |view: View| {
            let Kept { earlier, written, .. } = &kept[view as usize];
            (view, earlier.iter().chain(written).cloned().collect())
        };
        View::ALL.map(rows).into()
    }
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
        if news.is_empty() {
            return Ok(news);
        }
        let Some(path) = &self.path else {
            self.written = here;
            return Ok(news);
        };
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
