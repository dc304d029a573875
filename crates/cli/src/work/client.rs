//! A client: one session that runs the transactions of a workload one after the other.

use super::tally::Tally;
use crate::clock;
use isomer_cluster::{Abort, Database, Error, Session};
use isomer_design::{Footprint, TableId};
use isomer_workload::{Outcome, Random, Transaction, Watch, Watched, Workload};

/// A client of a workload.
pub struct Client<'d, W> {
    db: &'d Database,
    workload: W,
    rng: Random,
    session: Session,
    footprint: Footprint,
    /// If set, the client checks that its session never goes back in time. Only for workloads whose
    /// numbers grow.
    pub memory: Option<Memory>,
}

impl<'d, W: Workload> Client<'d, W> {
    /// A client with a session of its own.
    pub fn new(db: &'d Database, workload: W, rng: Random) -> Client<'d, W> {
        let session = db.session();
        Client { db, workload, rng, session, footprint: Footprint::new(), memory: None }
    }

    /// The client's session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The workload that it draws transactions from.
    pub fn workload(&mut self) -> &mut W {
        &mut self.workload
    }

    /// Draws the next transaction.
    pub fn draw(&mut self) -> W::Transaction {
        self.workload.next(&mut self.rng)
    }

    /// Runs a transaction, and counts its outcome.
    pub fn run(&mut self, transaction: &W::Transaction, tally: &mut Tally) {
        self.footprint.clear();
        transaction.footprint_into(&mut self.footprint);
        let seen = self.session.seen();
        let (mut outcome, memory) = (None, &mut self.memory);
        let begun = clock::now();
        let result = self.db.run(&mut self.session, &self.footprint, |txn| {
            let mut data = Watched { txn, watch: Remembering(memory.as_mut()) };
            let end = transaction.run(&mut data)?;
            let abort = end.rolled_back().map(Abort::because);
            outcome = Some(end);
            abort.map_or(Ok(()), Err)
        });
        tally.took(clock::elapsed_ns(begun));
        if let Some(memory) = &mut self.memory {
            tally.went_back += std::mem::take(&mut memory.went_back);
        }
        match (result, outcome) {
            (Ok(ran), Some(Outcome::Commit { added })) => {
                tally.commit(&ran, added);
                tally.went_back += u64::from(ran.committed.snapshot < seen);
            }
            (Err(Error::Abort(Abort::Rolled(_))), Some(Outcome::Rollback { .. })) => {
                tally.rolled_back += 1;
            }
            (Err(Error::Refused(_)), _) => tally.refused += 1,
            (Err(error), _) => tally.fail(format!("{}: {error}", transaction.name())),
            (Ok(_), _) => tally.fail(format!("{}: committed without an end", transaction.name())),
        }
    }
}

/// Slots for remembered rows. A row with the same slot replaces an earlier one.
const ROWS: usize = 1 << 14;

/// The numbers that a session has read. They only grow, so a smaller one is a read of an older
/// state.
#[derive(Clone, Debug)]
pub struct Memory {
    rows: Vec<(u64, i64)>,
    went_back: u64,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory { rows: vec![(0, i64::MIN); ROWS], went_back: 0 }
    }
}

impl Memory {
    /// Compares the number at the front of a row with the last one read, and keeps it.
    fn note(&mut self, table: TableId, key: &[u8], row: &[u8]) {
        let Some(number) = row.first_chunk().map(|bytes| i64::from_le_bytes(*bytes)) else {
            return;
        };
        let hash = hash(table, key);
        let last = &mut self.rows[hash as usize % ROWS];
        if last.0 == hash && last.1 > number {
            self.went_back += 1;
        }
        *last = (hash, number);
    }
}

/// Passes each row that is read to the memory, if there is one.
struct Remembering<'m>(Option<&'m mut Memory>);

impl Watch for Remembering<'_> {
    fn read(&mut self, table: TableId, key: &[u8], row: Option<&[u8]>) {
        if let (Some(memory), Some(row)) = (&mut self.0, row) {
            memory.note(table, key, row);
        }
    }
}

/// Distinct for keys of up to seven bytes, which integers below 2^48 have.
fn hash(table: TableId, key: &[u8]) -> u64 {
    let mut hash = u64::from(table.0);
    for byte in key {
        hash = hash.rotate_left(8) ^ u64::from(*byte);
    }
    hash.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_design::Key;

    #[test]
    fn a_smaller_number_is_a_read_of_an_older_state() {
        let mut memory = Memory::default();
        for (key, number) in [(1, 5i64), (2, 3), (1, 5), (1, 6), (2, 2), (1, 7)] {
            memory.note(TableId(1), &Key::int(key), &number.to_le_bytes());
        }
        assert_eq!(memory.went_back, 1);
    }
}
