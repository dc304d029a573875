//! The reads of an open transaction, for a strategy that learns.
//!
//! ```text
//!   BEGIN            a ticket: wanted, or not
//!   SELECT … k = 3   read 3, one row
//!   UPDATE … k = 7   read 7, one row
//!   COMMIT           write 7, where it was logged  ─▶  read 3, write 7: one report, one footprint
//! ```
//!
//! The strategy learns from transactions with a known footprint. A sampled open transaction is
//! reported with the footprint that it would have had as a procedure, wherever its rows were. So
//! SQL teaches the strategy the same as procedures do. A transaction with more than [`ITEMS_MAX`]
//! reads is reported with its writes alone.

use crate::router::{Heard, Router, Session};
use crate::transport::Transport;
use isomer_design::{Access, Span, TableId, Time};

/// The most reads that are reported.
const ITEMS_MAX: usize = 64;

/// See the [module documentation](self).
pub(super) struct Reads {
    /// The number of the transaction.
    pub(super) ticket: u64,
    /// True if the strategy wants a report of it.
    pub(super) is_wanted: bool,
    heard: Option<Heard>,
}

impl Reads {
    /// For a transaction that begins.
    pub(super) fn begin<T: Transport>(router: &Router<T>, session: &mut Session) -> Reads {
        let (ticket, is_wanted) = router.ticket(session);
        Reads { ticket, is_wanted, heard: is_wanted.then(Heard::default) }
    }

    /// The time at which a read begins, if it is to be noted.
    pub(super) fn begin_read(&self, transport: &impl Transport) -> Option<Time> {
        self.heard.is_some().then(|| transport.now())
    }

    /// The report, unless it was not wanted or has too many reads.
    pub(super) fn heard(&self) -> Option<&Heard> {
        self.heard.as_ref()
    }

    /// Notes a read of `rows` rows between two times.
    pub(super) fn note(&mut self, table: TableId, span: Span, rows: usize, from: Time, to: Time) {
        let Some(heard) = &mut self.heard else { return };
        heard.footprint.add(table, span, Access::Read);
        heard.measured.rows[0] += rows;
        heard.measured.run_ns += to.0.saturating_sub(from.0);
        if heard.footprint.items().len() > ITEMS_MAX {
            self.heard = None;
        }
    }
}
