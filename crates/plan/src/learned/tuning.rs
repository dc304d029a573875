//! Every number that the autopilot was tuned with, in one place, with its unit and what it is for.
//!
//! The fields can be set: a weight of zero, or a bound that is never reached, takes a rule out, and so `isomer-lab
//! ablation` measures what each is worth ([results](../../../../docs/results/ablation.md)). What only bounds memory and
//! work, or belongs to a numerical method, is an associated constant.

use super::reservoir::Damping;
use std::fmt;
use std::str::FromStr;

/// Whether decisions are carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// Nothing is changed: what no site can run commits over several.
    Off,
    /// As off; but what would be done is decided and recorded: a dry run.
    Recommend,
    /// What pays is done.
    #[default]
    Auto,
}

impl Mode {
    const ALL: [(Mode, &'static str); 3] =
        [(Mode::Off, "off"), (Mode::Recommend, "recommend"), (Mode::Auto, "auto")];

    /// The mode of this number.
    pub(crate) fn of(number: u8) -> Mode {
        Mode::ALL.into_iter().map(|(mode, _)| mode).nth(number.into()).unwrap_or_default()
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Mode::ALL[*self as usize].1)
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

/// See the [module documentation](self). Those of the public code of MorphoSys' descendant are marked.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tuning {
    /// Whether decisions are carried out.
    pub mode: Mode,

    // Observe.
    /// Transactions that are measured, per second; as many as there are, if there are fewer. A fifth of that once hardly
    /// anything is changed any more, and while the autopilot is off: so that it knows what went before when it is turned on.
    pub measured_per_second: f64,
    /// Of the transactions, those that are kept. (Descendant.)
    pub damping: Damping,
    /// Signals are averages over this time, in seconds, and what is usual is one over a window of the damping; twice as long after something new they tell of hardly anything else.
    pub signal_s: f64,
    /// Throughput that differs from the usual by this share is a disturbance; and so is a busiest site that is farther
    /// above the average, or less far, by half of this, and a share of distributed transactions that differs by a quarter of
    /// it or is as large as this, as masters are in the wrong places then.
    pub disturbed: f64,

    // Judge.
    /// For how long the future is thought to be like the past, in nanoseconds: within this time a change has to pay. So
    /// long it is also dear to take back, and its effect is looked for.
    pub horizon_ns: u64,
    /// A benefit counts at its estimate less this many standard errors.
    pub standard_errors: f64,
    /// With so many emulated transactions besides the samples a change is judged.
    pub emulated: usize,
    /// What it saves to have one copy of a partition less, within the horizon, in microseconds.
    pub upkeep_us: f64,

    // Propose.
    /// A lock that is held for this share of the time may be split.
    pub hot: f64,
    /// A lock with this many waiters is split into two parts, with twice as many into three; and twice as many are a
    /// disturbance.
    pub queue_max: f64,
    /// Two neighbours may be merged if each is accessed this many times the average (descendant: 0.5) and has this share of
    /// what is hot, so that both together are not.
    pub cold: f64,
    /// Samples that are needed to draw a global plan.
    pub plan_samples_min: usize,
    /// Weight of an edge between adjacent partitions, in co-accesses.
    pub neighbours: f64,
    /// A site that uses this share of its time is full, and hands partitions over.
    pub full_from: f64,
    /// A global plan splits partitions whose locks would be held for a larger share of the time.
    pub held_max: f64,

    // Govern.
    /// A global plan must promise this many times the present throughput.
    pub gain_min: f64,
    /// It is taken back if what is served afterwards is below this share of what was served before.
    pub rollback_ratio: f64,
    /// The share of one core that learning and planning may use.
    pub processor_share: f64,
    /// Changes a second, while the workload changes.
    pub changes_per_second: f64,
    /// While it holds still, that halves in this time, in seconds …
    pub halves_s: f64,
    /// … down to this many changes a second.
    pub changes_at_rest: f64,
    /// What taking back a recent change costs, in its cost.
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
    // How much is looked at, and what is enough.
    /// Candidate sites for one transaction, and partitions of its footprint that are considered. Rounds in which waits and
    /// hold times follow from each other.
    pub(crate) const FEW: usize = 4;
    /// The most parts that one split makes; copies that go at once, and of masters one in this many. One transaction in this
    /// many that several sites can run looks for another site.
    pub(crate) const SEVERAL: usize = 8;
    /// With fewer samples nothing is judged and no effect is told; and to judge a change no more are placed. A sample
    /// that accesses up to this many partitions ties each with each, a larger one each with the next. A partition with one
    /// in this many of all accesses is too large to be placed well, and not cold.
    pub const MANY: usize = 32;
    /// The accesses to a range that are counted one by one. A range with more is estimated from
    /// this number of samples.
    pub const LOOKED_AT: usize = 1024;
    /// The most items of one footprint that are kept, and that are planned for.
    pub const ITEMS_MAX: usize = 64;
    /// A sample that accesses more partitions than this (a scan of everything) adds no edges.
    pub(crate) const CHAIN_MAX: usize = 1024;
    /// Measured transactions, and changes, that are remembered while they are under way.
    pub(crate) const UNDER_WAY_MAX: usize = 4096;
    /// Partitions that anything is remembered of. Of larger designs only those are numbered that a sample accesses.
    pub(crate) const PARTITIONS_MAX: usize = 16_384;
    /// Decisions that are kept.
    pub const JOURNAL_MAX: usize = 500;

    // Observe.
    /// Weight of a new observation in the averages of how long a lock is held, and of rows.
    pub(crate) const HELD_PACE: f64 = 0.1;
    /// Weight of a new interval in the averages of sites.
    pub(crate) const TRAFFIC_PACE: f64 = 0.5;
    /// For how long locks are held, at one site and over several, until it was measured: a first guess,
    /// in microseconds.
    pub(crate) const HELD_US: [f64; 2] = [500.0, 10_000.0];
    /// A site that uses this share of its memory is full: replicas have to go (MorphoSys 5.3.3).
    pub(crate) const MEMORY_FULL: f64 = 0.95;
    /// A site has room below this share. Between the two it gets nothing but what a global plan brings, and loses
    /// nothing: hysteresis. Up to this utilisation a queue counts as long as the formula says, and at this share of the
    /// present throughput response times are compared: near saturation, a few samples outweigh all others.
    pub(crate) const NEARLY_FULL: f64 = 0.8;
    /// The pause between two reports of how busy the sites are, and the longest between two planning passes, in
    /// nanoseconds.
    pub(crate) const LOADS_EVERY_NS: u64 = 100_000_000;
    /// The shortest pause between two planning passes, in nanoseconds.
    pub(crate) const PASS_PAUSE_NS: u64 = 5_000_000;
    /// A site that is busier than another by this share of its time loses some of its readers to it.
    pub(crate) const REROUTE_IMBALANCE: f64 = 0.1;

    // Model.
    /// The forgetting factor: what is left of an observation's weight at the next one.
    pub(crate) const MEMORY: f64 = 0.998;
    /// The initial variance of the weights.
    pub(crate) const UNSURE: f64 = 100.0;
    /// Errors are clipped at this many times the usual one; beyond its square they do not even raise the usual one.
    pub(crate) const FAR: f64 = 6.0;
    /// Utilisation from which a site or a lock counts as saturated.
    pub(crate) const SATURATED: f64 = 0.99;
    /// Locks of a distributed transaction are held longer than is measured by this factor, which is
    /// from the moment when it has all: each site takes its own before that, and releases them after
    /// it.
    pub(crate) const HELD_ACROSS: f64 = 2.0;
    /// While a lock is waited for, those before it are held. This share of that wait counts, as part of
    /// it would have been waited there instead.
    pub(crate) const HELD_WHILE_WAITING: f64 = 0.5;
    /// Bisections of the interval in which the throughput lies.
    pub(crate) const BISECTIONS: usize = 14;

    // Propose.
    /// METIS takes integers: the weight of one access.
    pub(crate) const WEIGHT_UNIT: f64 = 1000.0;
    /// A part may be heavier than its target by this share.
    pub(crate) const IMBALANCE: f64 = 0.1;
    /// A share of distributed transactions below this is nothing, and so is a rise by it.
    pub(crate) const ACROSS_MIN: f64 = 0.005;

    // Govern.
    /// Credit of processor time is saved up for at most this time, in nanoseconds.
    pub(crate) const CREDIT_NS: f64 = 60e9;
    /// The length of a window for which the used share is reported, in nanoseconds.
    pub(crate) const USED_WINDOW_NS: u64 = 10_000_000_000;
    /// The share of the budget of processor time that learning may take while credit is short.
    pub(crate) const LEARNING_SHARE: f64 = 0.25;
    /// The longest pause before the next plan, in nanoseconds; the shortest is what it takes the signals to tell of one.
    pub(crate) const PLAN_PAUSE_MAX_NS: u64 = 20_000_000_000;

    /// The time after which the signals tell of something new, in nanoseconds.
    pub(crate) fn signal_ns(&self) -> u64 {
        (2e9 * self.signal_s) as u64
    }
}
