//! The total order: where batches get their places, and are kept.
//!
//! ```text
//!   sequencers ── append ──▶  0 │ 1 │ 2 │ 3 ┊ 4   ── read ──▶ every site, from where it is
//!                                 durable ──┘ └── may still be lost
//! ```
//!
//! The order is the database's log: rows are a function of it, so nothing else must be durable for a client
//! to be told. Whoever implements it keeps three promises:
//!
//! 1. A batch that was read once is read again, at the same place and unchanged, also after a crash.
//! 2. So only what is durable is read. A batch that is appended may be lost until then.
//! 3. Places count from 0 without a gap.
//!
//! A log in a file, and a partition of a message broker, can promise that.

use crate::request::Batch;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

/// One total order of batches.
pub trait Order {
    /// Why it cannot be used.
    type Error: std::error::Error;

    /// Adds a batch after all that are there.
    ///
    /// # Errors
    /// If it cannot be added. It may be there all the same: a repeated request runs once.
    fn append(&mut self, batch: Batch) -> Result<(), Self::Error>;

    /// The durable batch at a place; `None` if there is none yet.
    ///
    /// # Errors
    /// If it cannot be read, or is [forgotten](Order::truncate).
    fn read(&mut self, place: u64) -> Result<Option<Arc<Batch>>, Self::Error>;

    /// Forgets the batches before a place: every site has a checkpoint that has them.
    ///
    /// # Errors
    /// If they cannot be forgotten.
    fn truncate(&mut self, place: u64) -> Result<(), Self::Error>;
}

/// An order in memory. What is appended is durable once it is [synced](MemoryOrder::sync).
#[derive(Debug, Default)]
pub struct MemoryOrder {
    first: u64,
    batches: VecDeque<Arc<Batch>>,
    durable: usize,
}

impl MemoryOrder {
    /// Without batches.
    pub fn new() -> MemoryOrder {
        MemoryOrder::default()
    }

    /// Makes durable what is there.
    pub fn sync(&mut self) {
        self.durable = self.batches.len();
    }

    /// Loses what is not durable.
    pub fn crash(&mut self) {
        self.batches.truncate(self.durable);
    }

    /// How many durable batches there have been.
    pub fn durable(&self) -> u64 {
        self.first + self.durable as u64
    }
}

impl Order for MemoryOrder {
    type Error = Infallible;

    fn append(&mut self, batch: Batch) -> Result<(), Infallible> {
        self.batches.push_back(Arc::new(batch));
        Ok(())
    }

    fn read(&mut self, place: u64) -> Result<Option<Arc<Batch>>, Infallible> {
        assert!(
            place >= self.first,
            "batch {place} is read after all before {} were forgotten",
            self.first
        );
        let at = (place - self.first) as usize;
        Ok(self.batches.get(at).filter(|_| at < self.durable).cloned())
    }

    fn truncate(&mut self, place: u64) -> Result<(), Infallible> {
        while self.first < place.min(self.first + self.durable as u64) {
            self.batches.pop_front();
            (self.first, self.durable) = (self.first + 1, self.durable - 1);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_durable_batches_are_read_and_those_survive() {
        let mut order = MemoryOrder::new();
        order.append(Batch::default()).unwrap();
        assert_eq!(order.read(0).unwrap(), None);
        order.sync();
        order.append(Batch::default()).unwrap();
        order.crash();
        assert_eq!((order.durable(), order.read(0).unwrap().is_some()), (1, true));
        assert_eq!(order.read(1).unwrap(), None);
        order.truncate(1).unwrap();
        order.append(Batch::default()).unwrap();
        order.sync();
        assert!(order.read(1).unwrap().is_some() && order.durable() == 2);
    }
}
