//! What an open transaction has read, for a strategy that wants to know.
//!
//! The strategy learns from transactions whose footprint is known. Of an open one it hears twice: its
//! commit is a transaction that writes, and what its statements have read, at one time and wherever the
//! rows were, is told as another that only reads. A few are noted, by chance; those that read much are not.

use crate::router::{Router, Session};
use crate::transport::Transport;
use isomer_design::{Access, Footprint, Span, TableId, Time};
use isomer_strategy::Measured;

/// A transaction that reads more than this is not told of.
const ITEMS_MAX: usize = 64;

/// See the [module documentation](self).
pub(super) struct Reads {
    ticket: u64,
    footprint: Footprint,
    measured: Measured,
}

impl Reads {
    /// Of a transaction that begins; `None` if nobody wants to know.
    pub(super) fn begin<T: Transport>(router: &Router<T>, session: &mut Session) -> Option<Reads> {
        let ticket = router.wants_reads(session)?;
        Some(Reads { ticket, footprint: Footprint::new(), measured: Measured::default() })
    }

    /// Something was read, so many rows of it were there, and it took from one time to the other.
    pub(super) fn note(&mut self, table: TableId, span: Span, rows: usize, from: Time, to: Time) {
        self.footprint.add(table, span, Access::Read);
        self.measured.rows[0] += rows;
        self.measured.run_ns += to.0.saturating_sub(from.0);
    }

    /// True if the transaction reads too much to be told of.
    pub(super) fn is_too_much(&self) -> bool {
        self.footprint.items().len() > ITEMS_MAX
    }

    /// Tells the strategy.
    pub(super) fn tell<T: Transport>(self, router: &Router<T>, session: &Session) {
        if !self.footprint.items().is_empty() {
            router.hear(session, self.ticket, &self.footprint, self.measured);
        }
    }
}
