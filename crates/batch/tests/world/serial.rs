//! The strongest checker: executes the same order serially on one set of rows.
//!
//! It knows no sites, locks or messages. From the plans it uses only the order of the steps.

use isomer_batch::{
    Answer, Batch, ClientId, MemoryRows, Outcome, Planner, Procedures, RecordId, Row, Rows, StepId,
    Work, Writes, run,
};
use isomer_design::{KeyRange, Span, TableId};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) struct Serial {
    pub(crate) planner: Planner,
    procedures: Procedures,
    pub(crate) rows: MemoryRows,
    /// The answer that each client must get to each of its requests.
    pub(crate) answers: BTreeMap<(ClientId, u64), Answer>,
    /// Aborted transactions.
    pub(crate) aborted: BTreeSet<StepId>,
}

/// The rows of a footprint, as an executor gathers them.
fn gathered(rows: &MemoryRows, footprint: &isomer_design::Footprint) -> MemoryRows {
    let mut gathered = MemoryRows::new();
    for item in footprint.items() {
        match &item.span {
            Span::Key(key) => {
                let record = (item.table, key.clone());
                rows.get(&record).into_iter().for_each(|row| gathered.put(record.clone(), row));
            }
            Span::Range(range) => {
                let found = rows.scan(item.table, range).into_iter();
                found.for_each(|(key, row)| gathered.put((item.table, key), row));
            }
        }
    }
    gathered
}

/// Rows for [`run`] to read outside of a footprint: none, because they affect no outcome here.
struct Nothing;

impl Rows for Nothing {
    fn get(&self, _: &RecordId) -> Option<Row> {
        None
    }

    fn scan(&self, _: TableId, _: &KeyRange) -> Vec<(isomer_design::Key, Row)> {
        Vec::new()
    }

    fn apply(&mut self, _: &Writes) {}
}

impl Serial {
    pub(crate) fn new(planner: Planner, procedures: Procedures, rows: MemoryRows) -> Serial {
        let (answers, aborted) = (BTreeMap::new(), BTreeSet::new());
        Serial { planner, procedures, rows, answers, aborted }
    }

    pub(crate) fn run(&mut self, batch: &Batch) {
        let plan = self.planner.plan(batch);
        for (at, step) in plan.steps.iter().enumerate() {
            let (request, answer) = match &step.work {
                Work::Carry => continue,
                Work::Refuse(request, abort) => (request, Err(abort.clone())),
                Work::Call(request) => {
                    let rows = gathered(&self.rows, &request.footprint);
                    match run(&self.procedures, request, &rows, &Nothing) {
                        Outcome::Committed { output, writes } => {
                            self.rows.apply(&writes);
                            (request, Ok(output))
                        }
                        Outcome::Aborted(abort) => {
                            self.aborted.insert(plan.id(at));
                            (request, Err(abort))
                        }
                        Outcome::Restart(_) => continue,
                    }
                }
            };
            self.answers.insert((request.client, request.sequence), answer);
        }
    }
}
