//! The total order: assigns places to batches and keeps them durably.
//!
//! ```text
//!   sequencers ── append ──▶  0 │ 1 │ 2 │ 3 ┊ 4   ── read ──▶ every site, each at its own place
//!                                 durable ──┘ └── may still be lost
//! ```
//!
//! The order is the log of the database. Rows are a function of it, so a client can be answered
//! before any row is durable. An implementation must guarantee:
//!
//! 1. A batch that was read once can be read again at the same place, unchanged, even after a
//!    crash.
//! 2. Only durable batches can be read. An appended batch may be lost until it is durable.
//! 3. Places count from 0 without gaps.
//!
//! A log file or one partition of a message broker can guarantee this.

use crate::request::Batch;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

/// A total order of batches.
pub trait Order {
    /// The error of the underlying log.
    type Error: std::error::Error;

    /// Appends a batch after all others.
    ///
    /// # Errors
    /// If the append fails. The batch may be in the order nevertheless; this is harmless, because a
    /// repeated request runs once.
    fn append(&mut self, batch: Batch) -> Result<(), Self::Error>;

    /// Returns the durable batch at a place, or `None` if there is none yet.
    ///
    /// # Errors
    /// If the read fails, or the batch was [truncated](Order::truncate).
    fn read(&mut self, place: u64) -> Result<Option<Arc<Batch>>, Self::Error>;

    /// Drops the batches before a place. Every site must have a checkpoint that contains them.
    ///
    /// # Errors
    /// If the truncation fails.
    fn truncate(&mut self, place: u64) -> Result<(), Self::Error>;
}

/// An order in memory. Appended batches become durable at the next [`sync`](MemoryOrder::sync).
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

    /// Makes all appended batches durable.
    pub fn sync(&mut self) {
        self.durable = self.batches.len();
    }

    /// Drops the batches that are not durable, as a crash does.
    pub fn crash(&mut self) {
        self.batches.truncate(self.durable);
    }

    /// The number of durable batches so far, including truncated ones.
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
