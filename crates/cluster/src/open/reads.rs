//! What an open transaction has read, for a strategy that wants to know.
//!
//! ```text
//!   BEGIN            a ticket: wanted, or not
//!   SELECT … k = 3   read 3, one row
//!   UPDATE … k = 7   read 7, one row
//!   COMMIT           write 7, where it was logged    ─▶  read 3, write 7: told once, as one footprint
//! ```
//!
//! The strategy learns from transactions whose footprint is known. A sampled one is told with the footprint that it
//! would have had as a procedure, wherever its rows were, so what is learned over SQL is what is learned from
//! procedures. What reads very much is told with its writes alone.

use crate::router::{Heard, Router, Session};
use crate::transport::Transport;
use isomer_design::{Access, Span, TableId, Time};

/// What a transaction reads beyond this is too much to be told.
const ITEMS_MAX: usize = 64;

/// See the [module documentation](self).
pub(super) struct Reads {
    /// The number of the transaction.
    pub(super) ticket: u64,
    /// The strategy wants to hear of it.
    pub(super) is_wanted: bool,
    heard: Option<Heard>,
}

impl Reads {
    /// Of a transaction that begins.
    pub(super) fn begin<T: Transport>(router: &Router<T>, session: &mut Session) -> Reads {
        let (ticket, is_wanted) = router.ticket(session);
        Reads { ticket, is_wanted, heard: is_wanted.then(Heard::default) }
    }

    /// True if what is read is to be noted.
    pub(super) fn is_noted(&self) -> bool {
        self.heard.is_some()
    }

    /// What there is to tell.
    pub(super) fn heard(&self) -> Option<&Heard> {
        self.heard.as_ref()
    }

    /// Something was read, so many rows of it were there, and it took from one time to the other.
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
