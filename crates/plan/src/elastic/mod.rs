//! Elasticity: a loop that notices an overload, finds out what causes it, and moves that.
//!
//! ```text
//!   watch ── overload ──▶ record ── enough ──▶ plan ── moves ──▶ move ── done ──▶ settle ──▶ watch
//!     counters, always      footprints, for      on a thread       one plan         what did
//!     (cheap)               a second or so       of its own        at a time        it bring?
//!     ▲                                            │ nothing helps
//!     └──────────── patience, doubled each time ◀──┘
//! ```
//!
//! Monitoring has two phases, as E-Store's (section 4) and Clay's (section 4) has: counters of each site's load are
//! always on; which rows cause it is recorded only once a site is overloaded, and only until enough is known.
//!
//! # Worked example
//!
//! ```text
//!   s1  2,600 accesses/s  ████████████████████████████          mean 1,000: s1 has 2.6 times as much,
//!   s2    500             █████                                 in two periods in a row
//!   s3    450             ████
//!   s4    450             ████
//!
//!   recorded: 10,000 footprints. accounts[7] has 1,100/s, and goes with orders[7], 900/s
//!   Clay:     both to s3 together? it would have 2,450, more than 1.15 times the mean
//!             accounts[3] with orders[3], 500/s together, to s3, which has 950 then; ...
//! ```
//!
//! Three planners take the heat graph over [blocks](blocks::Blocks): [Clay](crate::clay) moves clumps of what is
//! accessed together; [E-Store](crate::baseline::estore) moves what is hot; [DrTM+B](crate::baseline::drtmb) lets
//! backups become masters, which copies nothing.
//!
//! **What has cooled goes home** ([`away`]): what was cut out of a partition and moved is remembered. When hardly
//! anybody asks for it any more, it goes back and is merged with its neighbours; so the routing table is as large as
//! what is hot, not as what ever was.
//!
//! **As many sites as are needed** ([`fleet`]), where that is wanted: one is added when no move gives relief, and one that
//! the others can do without is emptied and removed. Otherwise all sites are used that there are: one that holds nothing
//! is one that load can be moved to.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`monitor`] | loads of a period; is a site overloaded? |
//! | [`blocks`] | what moves as a whole; the heat graph over it |
//! | [`planner`] | from what was recorded to plans |
//! | [`away`] | what is away from home |
//! | [`fleet`] | how many sites there are to be |
//! | [`controller`] | the loop, as a state machine |
//!
//! # Invariants
//!
//! * At most one plan is under way. Nothing is planned before the last plan's changes have been made, or refused.
//! * Without an overload, or a site that is not needed, nothing is recorded, planned or changed.
//! * A plan is valid for the design that it was made from; what the design says by then, the router checks.
//!
//! **Left out.** Replicas are not made for the sake of readers.

pub mod away;
pub mod blocks;
pub mod controller;
pub mod fleet;
pub mod monitor;
pub mod planner;

pub use controller::{Controller, Episode, Outcome};
pub use fleet::Fleet;
pub use monitor::{Overload, Period, SitePeriod};
pub use planner::{Planned, Planner};

/// The constants of the loop.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// How long a period of the counters is, in nanoseconds.
    pub period_ns: u64,
    /// A site is overloaded if it has so much load above the mean, as a share of it.
    pub overload: f64,
    /// Plans leave a site at most so much above the mean (ε; Clay's paper: 0.15). Less than an overload, so that what
    /// was cured stays so.
    pub imbalance: f64,
    /// A latency that 99 of 100 transactions are to stay below, in microseconds.
    pub p99_us_max: Option<f64>,
    /// Fewer transactions a second overload nobody.
    pub rate_min: f64,
    /// An overload counts when it was seen in so many periods, one after the other.
    pub periods: u32,
    /// So many footprints are enough to plan from,
    pub footprints: usize,
    /// or so many, when this many nanoseconds are over.
    pub footprints_min: usize,
    /// See `footprints_min`.
    pub window_ns: u64,
    /// After moves the loads are not looked at for so many periods.
    pub settle: u32,
    /// When a plan has brought nothing, the next is made after so many nanoseconds, and twice as many each time,
    /// unless the overload is another one by then,
    pub patience_ns: u64,
    /// up to so many.
    pub patience_max_ns: u64,
    /// A change that nobody has heard of for so many nanoseconds is not waited for.
    pub give_up_ns: u64,
    /// Between which limits sites are added and removed; `None`: there are as many as there are.
    pub fleet: Option<Fleet>,
}

impl Default for Options {
    fn default() -> Options {
        const SECOND: u64 = 1_000_000_000;
        Options {
            period_ns: SECOND / 2,
            overload: 0.3,
            imbalance: 0.15,
            p99_us_max: None,
            rate_min: 100.0,
            periods: 2,
            footprints: 10_000,
            footprints_min: 200,
            window_ns: 3 * SECOND,
            settle: 4,
            patience_ns: 10 * SECOND,
            patience_max_ns: 300 * SECOND,
            give_up_ns: 30 * SECOND,
            fleet: None,
        }
    }
}
