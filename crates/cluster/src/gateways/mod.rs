//! Gateways at every node: the conductor serves those of other processes.
//!
//! A *gateway* is where clients connect: it runs their statements and their transactions. Each
//! process can have one. One process has the conductor as well, and with it the design and the row
//! locks.
//!
//! ```text
//!   process b: gateway, seat 1                        process a: gateway, conductor
//!   ──────────────────────────                        ─────────────────────────────
//!   join ───────────────────────────────────────────▶ Desk: a seat, the design
//!   poll: I have the news up to 17 ─────────────────▶ waits for the next, at most 300 ms
//!        ◀── 18: remaster accounts[5] to s3 ─────────
//!   lock accounts 7 ────────────────────────────────▶ RowLocks: the transactions of all gateways
//!        ◀── granted ────────────────────────────────
//!   commit: writes of accounts 7 ──────▶ site s3      (the conductor has no part in it)
//!   free accounts 7 ────────────────────────────────▶
//! ```
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`messages`] | requests of gateways, and the conductor's answers |
//! | [`news`] | changes of the design and announcements, numbered, until all gateways have them |
//! | [`desk`] | the conductor's side: seats, locks of gateways elsewhere, requests in their names |
//! | [`inquiries`] | questions of a gateway to all others, and their replies |
//! | [`samples`] | transactions of other gateways, for the strategy |
//! | [`shipping`] | statements that run at another process, beside their rows |
//! | [`link`] | the side of a gateway whose conductor is in another process |
//!
//! **Routing.** A gateway elsewhere has a copy of the design, which the news keep up to date. The
//! copy may be old. A site that does not have what it is asked for says so, and the gateway looks
//! again. A transaction that meets changes too often is run by the conductor, which reserves its
//! partitions.
//!
//! **Locks.** The lock table is the conductor's, so deadlocks of transactions of several gateways
//! are cycles in one table. An owner is a seat and the number of a transaction ([`link::owner`]).
//! Releases are sent in order and in batches; a batch that gets no answer is sent again, and the
//! desk knows its number.
//!
//! **Leases.** Each poll renews the lease of a seat. The seat of a gateway that has been silent for
//! [`LEASE_NS`] ends: its locks are released, and no announcement waits for it. A gateway stops
//! [`MARGIN_NS`] earlier, by its own clock, so only the rates of clocks matter. Transactions that
//! were open then fail, also under the next conductor.
//!
//! **Time.** With one gateway, its clock and the commits that it has acknowledged say which time
//! includes all of them. With several, an acknowledged commit of one may be ahead of the clock of
//! the next. So a gateway that is not alone asks the processes for the
//! [latest time](crate::Transport::latest) of their sites before it takes a snapshot. The
//! conductor's stops once all other seats have ended ([`Desk::settle`]).
//!
//! **Announcements** are for the layer above: a definition of SQL tells all gateways
//! ([`Desk::announce`]), and continues when each of them has taken note.
//!
//! **Questions** to the layers above all gateways, such as which sessions they have, travel like
//! announcements, and replies with the polls ([`Desk::inquire`]).
//!
//! **Commits** name the seat of their gateway, and sites refuse those of seats that have ended
//! ([`isomer_site::Admission`]). Each gateway that hears of the end of a seat tells the sites of
//! its process before it acknowledges the news, and an announcement waits for that. So a gateway
//! that was paused between its look at its lease and a commit writes nothing after a definition
//! that did not wait for it.
//!
//! **Left out.** Row locks at the masters of their partitions. A definition that a new conductor
//! makes in its first seconds does not wait for gateways with a lease of the conductor before it.

pub(crate) mod desk;
pub(crate) mod inquiries;
pub(crate) mod link;
pub(crate) mod messages;
pub(crate) mod news;
pub(crate) mod samples;
pub mod shipping;

pub use desk::{Desk, SeatShown};
pub use inquiries::Replied;
pub use link::{Link, LinkShown};

/// A seat that was not heard of for this long, in nanoseconds, ends.
const LEASE_NS: u64 = 5_000_000_000;
/// A gateway relies on its lease for this much less, in nanoseconds.
const MARGIN_NS: u64 = 1_000_000_000;
/// The longest wait of a poll for news, in nanoseconds.
const POLL_NS: u64 = 300_000_000;

/// The layer above a gateway, as a receiver of announcements. They come one at a time, but at the
/// conductor several may come at once.
pub trait Listener: Send + Sync {
    /// Takes note of an announcement of the gateway with seat `from`. From the return on, new
    /// statements of this gateway obey it. Returns false if it was missed, so that the gateway must
    /// join anew; the same for the next methods.
    fn hear(&self, number: u64, from: u64, announcement: &[u8]) -> bool;

    /// A gateway has lost its seat, and announces nothing more.
    fn left(&self, number: u64, from: u64) -> bool;

    /// The last announcement that has taken effect: no statement of this gateway runs that began
    /// before it.
    fn past(&self) -> u64;

    /// The gateway is about to take a seat, and announcements were missed. Statements wait until
    /// [`joined`](Self::joined) has returned.
    fn leaving(&self);

    /// The gateway has a seat, and the news up to a number.
    fn joined(&self, number: u64) -> bool;

    /// Answers a question of another gateway's layer, at the conductor.
    fn answer(&self, question: &[u8]) -> Vec<u8>;

    /// Answers a question of another gateway's layer to all gateways. Should take no time, because
    /// news wait for it.
    fn reply(&self, question: &[u8]) -> Vec<u8>;
}
