//! The strongest checker: the same order, one transaction after the other, on one set of rows.
//!
//! It knows of no site, lock or message: it takes what order the plans have, and nothing else.

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
    /// What each client must be told of its requests.
    pub(crate) answers: BTreeMap<(ClientId, u64), Answer>,
    /// Transactions that abort.
    pub(crate) aborted: BTreeSet<StepId>,
}

/// The rows that a footprint has, as an executor gathers them.
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

/// Nothing is nearby.
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
