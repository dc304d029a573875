//! The check of a run: a serial execution of the same order on one set of rows.
//!
//! ```text
//!   plans ──▶ serial execution ──────▶ all rows, and a sum over all answers
//!   sites ──▶ time, cores, links ────▶ the same, or the run does not count
//! ```

use isomer_batch::{
    ClientId, MemoryRows, Outcome, Plan, Procedures, RecordId, Row, Rows, Work, Writes, run,
};
use isomer_design::{Key, KeyRange, TableId};

/// A serial execution of the order. See the module documentation.
pub struct Serial {
    procedures: Procedures,
    rows: MemoryRows,
    answers: u64,
}

/// Rows outside of footprints: none, because all footprints here are complete.
struct Nothing;

impl Rows for Nothing {
    fn get(&self, _: &RecordId) -> Option<Row> {
        None
    }

    fn scan(&self, _: TableId, _: &KeyRange) -> Vec<(Key, Row)> {
        Vec::new()
    }

    fn apply(&mut self, _: &Writes) {}
}

impl Serial {
    /// Begins without rows: a record that was never written counts as 0.
    pub fn new(procedures: Procedures) -> Serial {
        Serial { procedures, rows: MemoryRows::new(), answers: 0 }
    }

    /// Runs the calls of a batch.
    pub fn run(&mut self, plan: &Plan) {
        for step in &plan.steps {
            let Work::Call(request) = &step.work else { continue };
            let outcome = run(&self.procedures, request, &self.rows, &Nothing);
            if let Outcome::Committed { output, writes } = outcome {
                self.rows.apply(&writes);
                self.answers = add_answer(self.answers, request.client, request.sequence, &output);
            }
        }
    }

    /// Compares the answers to clients and the rows of the sites.
    ///
    /// # Errors
    /// The first difference in words.
    pub fn judge(&self, answers: u64, sites: &[&MemoryRows]) -> Result<(), String> {
        if answers != self.answers {
            return Err("clients were told other than a serial execution of the order".to_owned());
        }
        let mut left = self.rows.iter().count();
        for (record, row) in sites.iter().flat_map(|rows| rows.iter()) {
            if self.rows.get(record).as_ref() != Some(row) {
                let (table, key) = record;
                return Err(format!("{table}[{key}] is not what a serial execution makes it"));
            }
            left = left.checked_sub(1).ok_or("a row is at two sites")?;
        }
        match left {
            0 => Ok(()),
            rows => Err(format!("{rows} rows of a serial execution are nowhere")),
        }
    }
}

/// Adds an answer to a sum over all answers, which is independent of their order.
pub fn add_answer(sum: u64, client: ClientId, sequence: u64, output: &[u8]) -> u64 {
    use std::hash::BuildHasher;
    let hasher = foldhash::fast::FixedState::default();
    sum.wrapping_add(hasher.hash_one((client, sequence, output)))
}
