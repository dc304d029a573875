//! Procedures: pure functions from parameters and rows to writes and an answer.
//!
//! ```text
//!   run ──▶ touches only its footprint ──▶ committed: its output, its writes
//!       ──▶ returns an error, panics, or exceeds its budget ──▶ aborted
//!       ──▶ touches anything else ──▶ restart, with a larger footprint
//! ```
//!
//! All executors run a procedure on the same rows and reach the same outcome, so they need no vote
//! on whether to commit.
//!
//! # Reconnaissance
//!
//! A run that leaves its footprint cannot commit. It continues only to find out what else it needs.
//! It reads whatever rows its site holds, without locks, and adds all that it touches to the
//! footprint of the next attempt. This footprint may be wrong, because other transactions write
//! meanwhile; then another attempt follows.
//!
//! Whether a run leaves its footprint depends only on the rows of the footprint, so all executors
//! agree on it. The larger footprint is part of a new request, which is ordered like any other. A
//! client that does not know its footprint declares an empty one.
//!
//! # What is left out
//!
//! The budget counts rows, so it stops neither a procedure that loops without reading rows nor one
//! that allocates all memory.

use crate::request::{Abort, Answer, Request};
use crate::rows::{Row, Rows, Writes};
use isomer_design::{Access, Footprint, Item, KEY_BYTES_MAX, Key, KeyRange, Span, TableId};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The maximum number of rows that a transaction may read and write.
pub const STEPS_MAX: u64 = 100_000;

/// The maximum number of attempts of a request until its footprint is complete.
pub const ATTEMPTS_MAX: u32 = 16;

/// The code of a transaction. It must depend only on its parameters and on the rows that it reads.
pub trait Procedure: Send + Sync {
    /// Runs the transaction.
    ///
    /// # Errors
    /// [`Abort::Logic`], or an error of [`Txn`]. The transaction then has no effect.
    fn run(&self, params: &[u8], txn: &mut Txn<'_>) -> Answer;
}

impl<F: Fn(&[u8], &mut Txn<'_>) -> Answer + Send + Sync> Procedure for F {
    fn run(&self, params: &[u8], txn: &mut Txn<'_>) -> Answer {
        self(params, txn)
    }
}

/// Procedures by name. All sites must have the same ones.
#[derive(Clone, Default)]
pub struct Procedures(BTreeMap<String, Arc<dyn Procedure>>);

impl Procedures {
    /// An empty set.
    pub fn new() -> Procedures {
        Procedures::default()
    }

    /// Adds a procedure, or replaces the one of this name.
    #[must_use]
    pub fn with(mut self, name: &str, procedure: impl Procedure + 'static) -> Procedures {
        self.0.insert(name.to_owned(), Arc::new(procedure));
        self
    }

    /// Makes each procedure run twice on the same rows, and abort with [`Abort::NotDeterministic`]
    /// if the two runs differ.
    #[must_use]
    pub fn checked(self) -> Procedures {
        let checked = |(name, procedure): (String, Arc<dyn Procedure>)| {
            let twice: Arc<dyn Procedure> = Arc::new(Twice { name: name.clone(), procedure });
            (name, twice)
        };
        Procedures(self.0.into_iter().map(checked).collect())
    }
}

struct Twice {
    name: String,
    procedure: Arc<dyn Procedure>,
}

impl Procedure for Twice {
    fn run(&self, params: &[u8], txn: &mut Txn<'_>) -> Answer {
        let before = txn.steps_left;
        let first = self.procedure.run(params, txn);
        if txn.is_lost() {
            return first;
        }
        let writes = std::mem::take(&mut txn.writes);
        txn.steps_left = before;
        let second = self.procedure.run(params, txn);
        if first == second && writes == txn.writes && !txn.is_lost() {
            return second;
        }
        Err(Abort::NotDeterministic(self.name.clone()))
    }
}

/// The database as a procedure sees it: the rows of its footprint, overlaid with its own writes.
pub struct Txn<'a> {
    footprint: &'a Footprint,
    rows: &'a dyn Rows,
    nearby: &'a dyn Rows,
    writes: Writes,
    steps_left: u64,
    exhausted: bool,
    /// The footprint of the next attempt, if this one has left its own.
    larger: Option<Footprint>,
}

impl<'a> Txn<'a> {
    /// Returns a row, or `None` if the key has none.
    ///
    /// # Errors
    /// [`Abort::Budget`].
    pub fn get(&mut self, table: TableId, key: &Key) -> Result<Option<Row>, Abort> {
        self.count(1)?;
        let source = self.touch(table, Span::Key(key.clone()), Access::Read);
        let record = (table, key.clone());
        Ok(self.writes.get(&record).cloned().unwrap_or_else(|| source.get(&record)))
    }

    /// Returns the rows of a range in key order.
    ///
    /// # Errors
    /// [`Abort::Budget`].
    pub fn scan(&mut self, table: TableId, range: &KeyRange) -> Result<Vec<(Key, Row)>, Abort> {
        let source = self.touch(table, Span::Range(range.clone()), Access::Read);
        let mut found: BTreeMap<Key, Row> = source.scan(table, range).into_iter().collect();
        for ((written_table, key), row) in &self.writes {
            if *written_table == table && range.contains(key) {
                match row {
                    Some(row) => found.insert(key.clone(), row.clone()),
                    None => found.remove(key),
                };
            }
        }
        self.count(1 + found.len() as u64)?;
        Ok(found.into_iter().collect())
    }

    /// Inserts or replaces a row.
    ///
    /// # Errors
    /// [`Abort::Budget`], [`Abort::KeyTooLong`].
    pub fn put(&mut self, table: TableId, key: &Key, row: &[u8]) -> Result<(), Abort> {
        if key.len() > KEY_BYTES_MAX {
            return Err(Abort::KeyTooLong { bytes: key.len() });
        }
        self.write(table, key, Some(row.into()))
    }

    /// Deletes a row, if it exists.
    ///
    /// # Errors
    /// [`Abort::Budget`].
    pub fn delete(&mut self, table: TableId, key: &Key) -> Result<(), Abort> {
        self.write(table, key, None)
    }

    fn write(&mut self, table: TableId, key: &Key, row: Option<Row>) -> Result<(), Abort> {
        self.count(1)?;
        self.touch(table, Span::Key(key.clone()), Access::Write);
        self.writes.insert((table, key.clone()), row);
        Ok(())
    }

    fn count(&mut self, steps: u64) -> Result<(), Abort> {
        self.exhausted |= self.steps_left < steps;
        self.steps_left = self.steps_left.saturating_sub(steps);
        if self.exhausted { Err(Abort::Budget(STEPS_MAX)) } else { Ok(()) }
    }

    /// Returns the rows to read `span` from: the gathered rows inside of the footprint, the nearby
    /// rows outside. Outside, it also adds `span` to the footprint of the next attempt.
    fn touch(&mut self, table: TableId, span: Span, access: Access) -> &'a dyn Rows {
        let allowed = match &span {
            Span::Key(key) => allows(self.footprint, table, key, access),
            Span::Range(range) => self.footprint.allows_scan(table, range),
        };
        if allowed {
            return self.rows;
        }
        self.larger.get_or_insert_with(|| self.footprint.clone()).add(table, span, access);
        self.nearby
    }

    /// True if the run cannot commit, whatever the procedure returns.
    fn is_lost(&self) -> bool {
        self.exhausted || self.larger.is_some()
    }
}

/// Like [`Footprint::allows`], but first looks for an item of exactly this key by binary search,
/// because most items of a large footprint are single keys.
fn allows(footprint: &Footprint, table: TableId, key: &Key, access: Access) -> bool {
    let items = footprint.items();
    let at = items.partition_point(|item| (item.table, item.span.start()) < (table, key));
    let is_it = |item: &Item| {
        item.table == table
            && item.access >= access
            && matches!(&item.span, Span::Key(found) if found == key)
    };
    items.get(at).is_some_and(is_it) || footprint.allows(table, key, access)
}

/// The outcome of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The transaction takes effect.
    Committed {
        /// The answer for the client.
        output: Vec<u8>,
        /// The rows written and deleted.
        writes: Writes,
    },
    /// The transaction has no effect.
    Aborted(Abort),
    /// The run left its footprint. Contains the footprint for the next attempt.
    Restart(Footprint),
}

/// Runs the procedure of a request. `rows` contains all rows of its footprint. `nearby` is read
/// after the procedure has left its footprint; its rows affect only the next footprint.
pub fn run(
    procedures: &Procedures,
    request: &Request,
    rows: &dyn Rows,
    nearby: &dyn Rows,
) -> Outcome {
    let Some(procedure) = procedures.0.get(&request.procedure) else {
        return Outcome::Aborted(Abort::NoProcedure(request.procedure.clone()));
    };
    let mut txn = Txn {
        footprint: &request.footprint,
        rows,
        nearby,
        writes: Writes::new(),
        steps_left: STEPS_MAX,
        exhausted: false,
        larger: None,
    };
    let run = AssertUnwindSafe(|| procedure.run(&request.params, &mut txn));
    let ended = catch_unwind(run).unwrap_or_else(|panic| Err(Abort::Panicked(message(&*panic))));
    match (txn.larger, ended) {
        (Some(_), _) if request.attempt + 1 >= ATTEMPTS_MAX => {
            Outcome::Aborted(Abort::NoFootprint(ATTEMPTS_MAX))
        }
        (Some(larger), _) => Outcome::Restart(larger),
        (None, Err(abort)) => Outcome::Aborted(abort),
        (None, Ok(_)) if txn.exhausted => Outcome::Aborted(Abort::Budget(STEPS_MAX)),
        (None, Ok(output)) => Outcome::Committed { output, writes: txn.writes },
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::ClientId;
    use crate::rows::MemoryRows;
    use std::sync::atomic::{AtomicU64, Ordering};

    const T: TableId = TableId(1);

    fn request(footprint: Footprint) -> Request {
        let (procedure, params) = ("p".to_owned(), Vec::new());
        Request { client: ClientId(1), sequence: 1, attempt: 0, procedure, params, footprint }
    }

    fn outcome(procedure: impl Procedure + 'static, footprint: Footprint) -> Outcome {
        let mut rows = MemoryRows::new();
        (0..9).for_each(|key| rows.put((T, Key::int(key)), vec![key as u8 + 1].into()));
        run(&Procedures::new().with("p", procedure), &request(footprint), &rows, &rows)
    }

    #[test]
    fn accesses_outside_of_a_footprint_extend_the_next_one() {
        let chase = |_: &[u8], txn: &mut Txn<'_>| {
            let next = txn.get(T, &Key::int(0))?.map_or(0, |row| row[0]);
            let next = txn.get(T, &Key::int(next.into()))?.map_or(0, |row| row[0]);
            txn.put(T, &Key::int(next.into()), b"x")?;
            Ok(Vec::new())
        };
        let footprint = Footprint::new().read(T, Key::int(0));
        let larger = footprint.clone().read(T, Key::int(1)).write(T, Key::int(2));
        assert_eq!(outcome(chase, footprint), Outcome::Restart(larger.clone()));
        assert!(matches!(outcome(chase, larger), Outcome::Committed { .. }));
    }

    #[test]
    fn a_swallowed_error_still_aborts() {
        let spin = |_: &[u8], txn: &mut Txn<'_>| {
            while txn.get(T, &Key::int(0)).is_ok() {}
            Ok(b"fine".to_vec())
        };
        let footprint = Footprint::new().read(T, Key::int(0));
        assert_eq!(outcome(spin, footprint), Outcome::Aborted(Abort::Budget(STEPS_MAX)));
    }

    #[test]
    fn a_panic_is_an_abort() {
        let panics = |_: &[u8], txn: &mut Txn<'_>| {
            txn.put(T, &Key::int(0), b"half")?;
            panic!("at {}", 1)
        };
        let footprint = Footprint::new().write(T, Key::int(0));
        let aborted = Outcome::Aborted(Abort::Panicked("at 1".to_owned()));
        assert_eq!(outcome(panics, footprint), aborted);
    }

    #[test]
    fn a_nondeterministic_procedure_is_reported_by_name() {
        let runs = AtomicU64::new(0);
        let counts = move |_: &[u8], _: &mut Txn<'_>| {
            Ok(runs.fetch_add(1, Ordering::Relaxed).to_be_bytes().to_vec())
        };
        let procedures = Procedures::new().with("p", counts).checked();
        let rows = MemoryRows::new();
        let outcome = run(&procedures, &request(Footprint::new()), &rows, &rows);
        assert_eq!(outcome, Outcome::Aborted(Abort::NotDeterministic("p".to_owned())));
    }

    #[test]
    fn own_writes_are_seen_by_reads_of_rows_and_ranges() {
        let writes = |_: &[u8], txn: &mut Txn<'_>| {
            txn.delete(T, &Key::int(1))?;
            txn.put(T, &Key::int(2), &[77])?;
            assert_eq!(txn.get(T, &Key::int(1))?, None);
            let rows = txn.scan(T, &KeyRange::ints(0, 4))?;
            Ok(rows.iter().map(|(_, row)| row[0]).collect())
        };
        let footprint = Footprint::new().write_range(T, KeyRange::ints(0, 4));
        let Outcome::Committed { output, .. } = outcome(writes, footprint) else { panic!() };
        assert_eq!(output, [1, 77, 4]);
    }
}
