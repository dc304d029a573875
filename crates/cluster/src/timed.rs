//! A procedure that notes when its transaction came how far.
//!
//! ```text
//!   router    site: arrived   locked   procedure begins   ends        durable    router
//!     ├─ service ─┼── lock ─────┼── wait ──────┼──── run ────┼── commit ──┼─ service ─┤
//! ```
//!
//! Locks are given back when the writes are published, somewhere within the commit. Only transactions that the
//! strategy wants to know about are timed: the clock is asked seven times for each.

use crate::transport::Transport;
use isomer_design::Time;
use isomer_site::{Abort, Milestone, Procedure, Txn};
use isomer_strategy::Measured;

/// See the [module documentation](self).
pub(crate) struct Timed<'p, T> {
    procedure: &'p mut dyn Procedure,
    transport: &'p T,
    sent: Time,
    arrived: Time,
    locked: Time,
    begun: Time,
    ended: Time,
    published: Time,
    durable: Time,
    rows: [usize; 2],
}

impl<'p, T: Transport> Timed<'p, T> {
    pub(crate) fn new(procedure: &'p mut dyn Procedure, transport: &'p T) -> Timed<'p, T> {
        let sent = transport.now();
        let [arrived, locked, begun, ended, published, durable] = [sent; 6];
        let rows = [0, 0];
        Timed {
            procedure,
            transport,
            sent,
            arrived,
            locked,
            begun,
            ended,
            published,
            durable,
            rows,
        }
    }

    /// Where the time went, now that the answer is back.
    pub(crate) fn measured(&self) -> Measured {
        let between = |from: Time, to: Time| to.0.saturating_sub(from.0);
        let at_site = between(self.arrived, self.durable);
        Measured {
            service_ns: between(self.sent, self.transport.now()).saturating_sub(at_site),
            lock_ns: between(self.arrived, self.locked),
            wait_ns: between(self.locked, self.begun),
            run_ns: between(self.begun, self.ended),
            commit_ns: between(self.ended, self.durable),
            held_ns: between(self.locked, self.published),
            rows: self.rows,
        }
    }
}

impl<T: Transport> Procedure for Timed<'_, T> {
    fn run(&mut self, txn: &mut Txn<'_>) -> Result<(), Abort> {
        self.begun = self.transport.now();
        let result = self.procedure.run(txn);
        self.ended = self.transport.now();
        self.rows = txn.rows();
        result
    }

    fn published(&mut self, time: Time) {
        self.published = self.transport.now();
        self.procedure.published(time);
    }

    fn is_hasty(&self) -> bool {
        self.procedure.is_hasty()
    }

    fn passed(&mut self, milestone: Milestone) {
        let now = self.transport.now();
        match milestone {
            Milestone::Arrived => self.arrived = now,
            // A second attempt passes again; what it waits for then is not the lock.
            Milestone::Locked if self.locked <= self.arrived => self.locked = now,
            Milestone::Locked => {}
            Milestone::Durable => self.durable = now,
        }
        self.procedure.passed(milestone);
    }
}
