//! Elasticity: a loop that detects an overload, finds its cause, and moves that.
//!
//! ```text
//!   watch ── overload ──▶ record ── enough ──▶ plan ── moves ──▶ move ── done ──▶ settle ──▶ watch
//!     counters, always      footprints, for      on a thread       one plan         measure
//!     (cheap)               a second or so       of its own        at a time        the effect
//!     ▲                                            │ nothing helps
//!     └───────────── pause, doubled each time ◀────┘
//! ```
//!
//! Monitoring has two phases, as in E-Store (section 4) and Clay (section 4). Counters of each
//! site's load are always on. The rows that cause the load are recorded only once a site is
//! overloaded, and only until the recording is large enough.
//!
//! # Worked example
//!
//! ```text
//!   s1  2,600 accesses/s  ████████████████████████████      mean 1,000: s1 has 2.6 times the
//!   s2    500             █████                             mean in two consecutive periods
//!   s3    450             ████
//!   s4    450             ████
//!
//!   recorded: 10,000 footprints. accounts[7] has 1,100/s, co-accessed with orders[7], 900/s
//!   Clay:     both to s3? it would have 2,450, more than 1.15 times the mean
//!             accounts[3] with orders[3], 500/s together, to s3, which then has 950; ...
//! ```
//!
//! Three planners use the heat graph over [blocks](blocks::Blocks): [Clay](crate::clay) moves
//! clumps of co-accessed blocks; [E-Store](crate::baseline::estore) moves hot blocks;
//! [DrTM+B](crate::baseline::drtmb) promotes backups to masters, which copies nothing.
//!
//! **Cooled ranges go home** ([`away`]). The loop remembers each range that it cut out of a
//! partition and moved. Once the range is hardly accessed any more, it goes back and is merged with
//! its neighbours. So the routing table grows with the hot ranges of today, not with all past ones.
//!
//! **The number of sites follows the load** ([`fleet`]), if enabled. A site is added when no move
//! gives relief; a site that the others can replace is emptied and removed. Otherwise all existing
//! sites are used, and an empty site is a target for load.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`monitor`] | loads of a period; is a site overloaded? |
//! | [`blocks`] | the units of movement, and their heat graph |
//! | [`planner`] | plans from a recording |
//! | [`advice`] | plans beside each other, judged by a later part of the recording |
//! | [`away`] | the ranges that are away from home |
//! | [`fleet`] | the number of sites |
//! | [`controller`] | the loop, as a state machine |
//!
//! # Invariants
//!
//! * At most one plan is under way. The loop plans again only after the last plan's changes have
//!   been made or refused.
//! * Without an overload or a spare site, the loop records, plans and changes nothing.
//! * A plan is valid for the design that it was made from; the router checks it against the design
//!   at execution.
//!
//! **Left out.** No replicas are made for the sake of readers.

pub mod advice;
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
    /// The length of a period of the counters, in nanoseconds.
    pub period_ns: u64,
    /// A site is overloaded if its load exceeds the mean by this share of the mean.
    pub overload: f64,
    /// The most that plans leave a site above the mean (ε; Clay's paper: 0.15). It is less than
    /// `overload`, so that a cured overload does not return at once.
    pub imbalance: f64,
    /// The limit of the 99th percentile of latencies, in microseconds.
    pub p99_us_max: Option<f64>,
    /// Below this rate, in transactions per second, no overload is reported.
    pub rate_min: f64,
    /// The number of consecutive periods before an overload counts.
    pub periods: u32,
    /// The number of footprints that is always enough to plan from.
    pub footprints: usize,
    /// The number that is enough after `window_ns`.
    pub footprints_min: usize,
    /// The time after which `footprints_min` is enough, in nanoseconds.
    pub window_ns: u64,
    /// The periods after moves in which loads are ignored.
    pub settle: u32,
    /// The pause after a plan without effect, in nanoseconds. It doubles each time, unless a
    /// different overload appears.
    pub patience_ns: u64,
    /// The longest such pause.
    pub patience_max_ns: u64,
    /// The time after which a change without a reported result is no longer awaited, in
    /// nanoseconds.
    pub give_up_ns: u64,
    /// The limits on the number of sites; `None` keeps the number.
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
