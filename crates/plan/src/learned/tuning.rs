//! Every tuned parameter of the autopilot, in one place, with its unit and purpose.
//!
//! The fields can be set: a weight of zero, or a bound that is never reached, disables a rule.
//! `isomer-lab ablation` measures in this way what each rule is worth
//! ([results](../../../../docs/results/ablation.md)). Values that only bound memory and work, or
//! belong to a numerical method, are associated constants.

use super::reservoir::Damping;
use std::fmt;
use std::str::FromStr;

/// Whether decisions are executed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Mode {
    /// Changes nothing: transactions that no site can run alone commit over several.
    Off,
    /// As `Off`, but decides and records changes: a dry run.
    Recommend,
    /// Hands each plan out as a proposal, for an operator to approve or reject.
    Approve,
    /// Executes the changes that pay off.
    #[default]
    Auto,
}

impl Mode {
    const ALL: [(Mode, &'static str); 4] = [
        (Mode::Off, "off"),
        (Mode::Recommend, "recommend"),
        (Mode::Approve, "approve"),
        (Mode::Auto, "auto"),
    ];

    /// The mode in one word.
    pub fn name(self) -> &'static str {
        Mode::ALL[self as usize].1
    }

    /// The mode with this number.
    pub(crate) fn of(number: u8) -> Mode {
        Mode::ALL.into_iter().map(|(mode, _)| mode).nth(number.into()).unwrap_or_default()
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Mode, String> {
        let found = Mode::ALL.into_iter().find(|(_, name)| *name == text).map(|(mode, _)| mode);
        let known = Mode::ALL.map(|(_, name)| name).join(", ");
        found.ok_or(format!("`{text}` is no mode of the autopilot; there are: {known}"))
    }
}

/// See the [module documentation](self). Values from the public code of MorphoSys' descendant are
/// marked.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tuning {
    /// Whether decisions are executed.
    pub mode: Mode,

    // Observe.
    /// Transactions that are measured per second, or all if there are fewer. The rate is a fifth of
    /// that once hardly anything changes. The same holds while the autopilot is off, so that it
    /// knows the past when it is turned on.
    pub measured_per_second: f64,
    /// The sampling of measured transactions. (Descendant.)
    pub damping: Damping,
    /// Signals are averages over this time, in seconds; their usual values are averages over a
    /// window of the damping. Twice this time after a change, the signals reflect hardly anything
    /// else.
    pub signal_s: f64,
    /// Throughput that differs from the usual by this share is a disturbance. So is a change by
    /// half of this in the distance of the busiest site from the average. So is a change by a
    /// quarter of it in the share of distributed transactions. So is a share of distributed
    /// transactions as large as this, because masters are in the wrong places then.
    pub disturbed: f64,

    // Judge.
    /// The time for which the future is expected to be like the past, in nanoseconds: a change has
    /// to pay off within it. For as long, undoing the change is charged more, and its effect is
    /// measured.
    pub horizon_ns: u64,
    /// A benefit counts as its estimate minus this number of standard errors.
    pub standard_errors: f64,
    /// The number of emulated transactions that are added to the samples to judge a change.
    pub emulated: usize,
    /// The saving of one copy of a partition less, within the horizon, in microseconds.
    pub upkeep_us: f64,

    // Propose.
    /// A lock that is held for this share of the time may be split.
    pub hot: f64,
    /// A lock with this number of waiters is split into two parts, with twice the number into
    /// three; twice the number is also a disturbance.
    pub queue_max: f64,
    /// Two neighbours may be merged if each has at most this multiple of the average accesses
    /// (descendant: 0.5) and this share of the bound of a hot partition. So both together are not
    /// hot.
    pub cold: f64,
    /// The number of samples required to draw a global plan.
    pub plan_samples_min: usize,
    /// The weight of an edge between adjacent partitions, in co-accesses.
    pub neighbours: f64,
    /// A site that is busy for this share of its time is full, and hands partitions over.
    pub full_from: f64,
    /// A global plan splits partitions whose locks would be held for a larger share of the time.
    pub held_max: f64,

    // Govern.
    /// A global plan must promise this multiple of the present throughput.
    pub gain_min: f64,
    /// A global plan is rolled back if throughput afterwards is below this share of the throughput
    /// before.
    pub rollback_ratio: f64,
    /// The share of one core that learning and planning may use.
    pub processor_share: f64,
    /// The most changes per second while the workload changes.
    pub changes_per_second: f64,
    /// While the workload holds still, the rate halves in this time, in seconds …
    pub halves_s: f64,
    /// … down to this number of changes per second.
    pub changes_at_rest: f64,
    /// The charge for undoing a recent change, as a multiple of its cost.
    pub undo_charge: f64,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            mode: Mode::Auto,
            measured_per_second: 1000.0,
            damping: Damping::default(),
            signal_s: 1.0,
            disturbed: 0.2,
            horizon_ns: 7_000_000_000,
            standard_errors: 2.0,
            emulated: 0,
            upkeep_us: 333.0,
            hot: 0.5,
            queue_max: 16.0,
            cold: 0.5,
            plan_samples_min: 500,
            neighbours: 0.25,
            full_from: 0.8,
            held_max: 0.1,
            gain_min: 1.1,
            rollback_ratio: 0.85,
            processor_share: 0.02,
            changes_per_second: 1500.0,
            halves_s: 1.6,
            changes_at_rest: 0.05,
            undo_charge: 4.0,
        }
    }
}

impl Tuning {
    // Limits of effort, and sufficient sample sizes.
    /// Candidate sites for one transaction; partitions of its footprint that are considered;
    /// iterations of the fixed point of lock waits and hold times.
    pub(crate) const FEW: usize = 4;
    /// The most parts of one split, and the most copies dropped at once; of masters, one in this
    /// many is handed over at once. One in this many transactions that several sites can run
    /// compares another site.
    pub(crate) const SEVERAL: usize = 8;
    /// With fewer samples nothing is judged and no effect is reported; a change is judged on at
    /// most this many. A sample that accesses up to this many partitions connects each with each, a
    /// larger one each with the next. A partition with one in this many of all accesses is too
    /// large to be placed well, and not cold.
    pub const MANY: usize = 32;
    /// The accesses to a range that are counted exactly. A range with more is estimated from this
    /// number of samples.
    pub const LOOKED_AT: usize = 1024;
    /// The most items of a footprint that the sample keeps and a plan considers.
    pub const ITEMS_MAX: usize = 64;
    /// A sample that accesses more partitions than this (a scan of everything) adds no edges.
    pub(crate) const CHAIN_MAX: usize = 1024;
    /// The most measured transactions, and changes, that are tracked in flight.
    pub(crate) const UNDER_WAY_MAX: usize = 4096;
    /// The most partitions with statistics. Of larger designs only the partitions that a sample
    /// accesses are numbered.
    pub(crate) const PARTITIONS_MAX: usize = 16_384;
    /// Decisions that are kept.
    pub const JOURNAL_MAX: usize = 500;

    // Observe.
    /// The weight of a new observation in the averages of lock hold times and of rows.
    pub(crate) const HELD_PACE: f64 = 0.1;
    /// The weight of a new interval in the averages of sites.
    pub(crate) const TRAFFIC_PACE: f64 = 0.5;
    /// A first guess of lock hold times, at one site and over several, in microseconds.
    pub(crate) const HELD_US: [f64; 2] = [500.0, 10_000.0];
    /// A site that uses this share of its memory is full and must drop replicas (MorphoSys 5.3.3).
    pub(crate) const MEMORY_FULL: f64 = 0.95;
    /// A site has room below this share of its memory. Between the two it gets only what a global
    /// plan brings, and loses nothing: hysteresis. Up to this utilisation the queueing formula
    /// applies, and response times are compared at this share of the present throughput. Near
    /// saturation, a few samples outweigh all others.
    pub(crate) const NEARLY_FULL: f64 = 0.8;
    /// The pause between two reports of the sites' loads, and the longest pause between two
    /// planning passes, in nanoseconds.
    pub(crate) const LOADS_EVERY_NS: u64 = 100_000_000;
    /// The shortest pause between two planning passes, in nanoseconds.
    pub(crate) const PASS_PAUSE_NS: u64 = 5_000_000;
    /// A site that is busier than another by this share of its time loses some of its readers to
    /// it.
    pub(crate) const REROUTE_IMBALANCE: f64 = 0.1;

    // Model.
    /// The forgetting factor: the share of an observation's weight that remains at the next one.
    pub(crate) const MEMORY: f64 = 0.998;
    /// The initial variance of the weights.
    pub(crate) const UNSURE: f64 = 100.0;
    /// Errors are clipped at this multiple of the usual error; beyond its square they do not even
    /// raise the usual error.
    pub(crate) const FAR: f64 = 6.0;
    /// Utilisation from which a site or a lock counts as saturated.
    pub(crate) const SATURATED: f64 = 0.99;
    /// The factor by which locks of a distributed transaction are held longer than measured. The
    /// measurement begins when it has all locks, but each site acquires its own before that, and
    /// releases them later.
    pub(crate) const HELD_ACROSS: f64 = 2.0;
    /// The share of the wait for a lock that counts as hold time of the earlier locks. The rest
    /// would have been waited for there instead.
    pub(crate) const HELD_WHILE_WAITING: f64 = 0.5;
    /// Bisections of the interval that contains the throughput.
    pub(crate) const BISECTIONS: usize = 14;

    // Propose.
    /// The weight of one access, because METIS takes integers.
    pub(crate) const WEIGHT_UNIT: f64 = 1000.0;
    /// A part may be heavier than its target by this share.
    pub(crate) const IMBALANCE: f64 = 0.1;
    /// A share of distributed transactions below this counts as zero, and so does a smaller rise.
    pub(crate) const ACROSS_MIN: f64 = 0.005;

    /// A partition is cut between the values of its key's first column, to spread its accesses over
    /// processes, if the samples have at most this many of them.
    pub(crate) const CUTS_MAX: usize = 256;

    // Govern.
    /// Credit of processor time accumulates for at most this time, in nanoseconds.
    pub(crate) const CREDIT_NS: f64 = 10e9;
    /// A new budget has the credit of this time, in nanoseconds.
    pub(crate) const FIRST_CREDIT_NS: f64 = 60e9;
    /// The length of a window for which the used share is reported, in nanoseconds.
    pub(crate) const USED_WINDOW_NS: u64 = 10_000_000_000;
    /// The share of the budget of processor time that learning may take while credit is short.
    pub(crate) const LEARNING_SHARE: f64 = 0.25;
    /// The longest pause before the next plan, in nanoseconds; the shortest is
    /// [`Tuning::signal_ns`].
    pub(crate) const PLAN_PAUSE_MAX_NS: u64 = 20_000_000_000;

    /// The time after which the signals reflect a change, in nanoseconds.
    pub(crate) fn signal_ns(&self) -> u64 {
        (2e9 * self.signal_s) as u64
    }
}
