//! Every number that the autopilot was tuned with, in one place, with its unit and what it is for.
//!
//! The fields can be set: a weight of zero, or a bound that is never reached, takes a rule out, and so `isomer lab
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
    /// The mode of this number.
    pub(crate) fn of(number: u8) -> Mode {
        match number {
            mode if mode == Mode::Off as u8 => Mode::Off,
            mode if mode == Mode::Recommend as u8 => Mode::Recommend,
            _ => Mode::Auto,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Off => "off",
            Mode::Recommend => "recommend",
            Mode::Auto => "auto",
        })
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Mode, String> {
        match text {
            "off" => Ok(Mode::Off),
            "recommend" => Ok(Mode::Recommend),
            "auto" => Ok(Mode::Auto),
            _ => Err(format!(
                "`{text}` is no mode of the autopilot; there are: off, recommend, auto"
            )),
        }
    }
}

/// See the [module documentation](self). Those of the public code of MorphoSys' descendant are marked.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tuning {
    /// Whether decisions are carried out.
    pub mode: Mode,

    // Observe.
    /// Transactions that are measured, per second; as many as there are, if there are fewer.
    pub measured_per_second: f64,
    /// The same once hardly anything is changed any more, and while the autopilot is off: so that it knows what went before when
    /// it is turned on.
    pub measured_when_quiet: f64,
    /// Of the transactions, those that are kept. (Descendant.)
    pub damping: Damping,
    /// Signals are averages over this time, in seconds.
    pub signal_s: f64,
    /// What is usual follows them over this time, in seconds.
    pub usual_s: f64,
    /// Throughput that differs from the usual by this share is a disturbance.
    pub served_differs: f64,
    /// So is a share of distributed transactions that is lower or higher than usual by these.
    pub across_differs: (f64, f64),
    /// Where this share of all transactions is distributed masters are in the wrong places: that is a disturbance as
    /// long as it lasts.
    pub across_many: f64,
    /// A lock with this many waiters is a disturbance.
    pub long_queue: usize,
    /// A drop to this share of the usual throughput is suspicious …
    pub drop_ratio: f64,
    /// … when it is e to this power times as likely as none.
    pub drop_surely: f64,
    /// So is a busiest site that is farther above the average than usual by this share of its time.
    pub uneven_rise: f64,
    /// Nothing is suspicious for so many seconds after masters have moved.
    pub settles_s: f64,
    /// An interval of this many seconds is a lull: under overload, some transactions still come through.
    pub lull_s: f64,
    /// Two groups of samples are of different workloads if their chi-square distance exceeds its expectation under
    /// chance by this.
    pub distance_min: f64,

    // Judge.
    /// For how long the future is thought to be like the past, in nanoseconds: within this time a change has to pay.
    pub horizon_ns: u64,
    /// By which share a benefit must be larger than its cost.
    pub margin: f64,
    /// A benefit counts at its estimate less this many standard errors.
    pub standard_errors: f64,
    /// What it saves to have one copy of a partition less, within the horizon, in microseconds.
    pub upkeep_us: f64,

    // Propose.
    /// A lock that is held for this share of the time may be split; one of a quarter of that may be merged.
    pub hot: f64,
    /// A lock with this many waiters is split into two parts, with twice as many into three.
    pub queue_max: f64,
    /// Accessed so many times the average: may be merged. (Descendant: 0.5.)
    pub cold: f64,

    /// Samples that are needed to draw a global plan.
    pub plan_samples_min: usize,
    /// Weight of an edge between adjacent partitions, or equal keys of different tables, in co-accesses.
    pub neighbours: f64,
    /// A site that uses this share of its time is full, and hands partitions over.
    pub full_from: f64,
    /// A global plan splits partitions whose locks would be held for a larger share of the time.
    pub held_max: f64,

    // Govern.
    /// A global plan must promise this many times the present throughput …
    pub gain_min: f64,
    /// … and this many times more for each that was adopted lately.
    pub gain_raised: f64,
    /// It is taken back if what is served afterwards is below this share of what was served before.
    pub rollback_ratio: f64,
    /// Changes a second, while the workload changes.
    pub changes_per_second: f64,
    /// While it holds still, that halves in this time, in seconds …
    pub halves_s: f64,
    /// … down to this many changes a second.
    pub changes_at_rest: f64,
    /// How long a changed partition is left alone, in nanoseconds.
    pub cooldown_ns: u64,
    /// How long a change may not be taken back at its price, in nanoseconds.
    pub undo_ns: u64,
    /// What taking it back costs, in its cost.
    pub undo_charge: f64,
}

impl Default for Tuning {
    fn default() -> Tuning {
        let second = 1_000_000_000;
        Tuning {
            mode: Mode::Auto,
            measured_per_second: 1000.0,
            measured_when_quiet: 100.0,
            damping: Damping::default(),
            signal_s: 4.0,
            usual_s: 10.0,
            served_differs: 0.2,
            across_differs: (0.05, 0.1),
            across_many: 0.2,
            long_queue: 32,
            drop_ratio: 0.7,
            drop_surely: 8.0,
            uneven_rise: 0.15,
            settles_s: 2.0,
            lull_s: 0.5,
            distance_min: 0.05,
            horizon_ns: 10 * second,
            margin: 0.5,
            standard_errors: 2.0,
            upkeep_us: 500.0,
            hot: 0.5,
            queue_max: 16.0,
            cold: 0.5,
            plan_samples_min: 500,
            neighbours: 0.25,
            full_from: 0.8,
            held_max: 0.1,
            gain_min: 1.1,
            gain_raised: 1.05,
            rollback_ratio: 0.85,
            changes_per_second: 1500.0,
            halves_s: 0.8,
            changes_at_rest: 0.05,
            cooldown_ns: second / 2,
            undo_ns: 10 * second,
            undo_charge: 4.0,
        }
    }
}

impl Tuning {
    // Observe.
    /// The most items of one footprint that are kept, and that are planned for.
    pub const ITEMS_MAX: usize = 64;
    /// Partitions that anything is remembered of. Of larger designs only those are numbered that a sample accesses.
    pub(crate) const PARTITIONS_MAX: usize = 16_384;
    /// Who writes to a range is counted again when one in this many samples is new: in a large range that takes long.
    pub(crate) const RECOUNTED: u64 = 8;
    /// Weight of a new observation in the running average of how long a lock is held.
    pub(crate) const HELD_PACE: f64 = 0.1;
    /// Items go up to this share of the expiry too late.
    pub(crate) const EXPIRY_LOOKS: u64 = 100;
    /// After so long, few new items have to do: the second of [`Damping::enough`].
    pub(crate) const COMPARISON_NS: u64 = 2_000_000_000;
    /// Weight of a new interval in the averages of sites.
    pub(crate) const TRAFFIC_PACE: f64 = 0.5;
    /// The same for the number of concurrent transactions: under overload they end all together, or not
    /// at all.
    pub(crate) const CLIENTS_PACE: f64 = 0.05;
    /// The least number of concurrent transactions: a database that is hardly used differs from one
    /// that is never used.
    pub(crate) const CLIENTS_MIN: f64 = 0.01;
    /// In so many first intervals hardly anybody has come back.
    pub(crate) const BEGINNING: u64 = 10;
    /// For how long locks are held, at one site and over several, until it was measured: a first guess,
    /// in microseconds.
    pub(crate) const BARE_US: [f64; 2] = [500.0, 10_000.0];
    /// What is served is told for moments of this length, in seconds.
    pub(crate) const MOMENT_S: f64 = 1.5;
    /// A site that uses this share of its memory is full: replicas have to go (MorphoSys 5.3.3).
    pub(crate) const MEMORY_FULL: f64 = 0.95;
    /// A site has room below this share. Between the two it gets nothing but what a global plan brings,
    /// and loses nothing: hysteresis.
    pub(crate) const MEMORY_ROOM: f64 = 0.8;
    /// The pause between two reports of how busy the sites are, in nanoseconds.
    pub(crate) const LOADS_EVERY_NS: u64 = 100_000_000;
    /// The shortest and longest pause between two planning passes, in nanoseconds.
    pub(crate) const PASS_PAUSE_NS: (u64, u64) = (5_000_000, 100_000_000);
    /// Measured transactions, and changes, that are remembered while they are under way.
    pub(crate) const UNDER_WAY_MAX: usize = 4096;
    /// A site that is busier than another by this share of its time loses some of its readers to it.
    pub(crate) const REROUTE_IMBALANCE: f64 = 0.1;
    /// One transaction in this many looks for another site then.
    pub(crate) const REROUTED_ONE_IN: u64 = 8;
    /// The smallest share that is measured is one in this many, plus one.
    pub(crate) const MASK_MAX: u64 = 0xffff;

    // Model.
    /// The forgetting factor: what is left of an observation's weight at the next one.
    pub(crate) const MEMORY: f64 = 0.998;
    /// The initial variance of the weights.
    pub(crate) const UNSURE: f64 = 100.0;
    /// Errors are clipped at this many times the usual one; beyond its square they do not even raise the usual one.
    pub(crate) const FAR: f64 = 6.0;
    /// Weight of a new observation in averages of predictions and their errors.
    pub(crate) const SCORE_PACE: f64 = 0.004;
    /// Up to this utilisation, waiting follows the queueing formula.
    pub(crate) const USED_MAX: f64 = 0.9;
    /// Iterations: hold times follow from waits, and waits from hold times.
    pub(crate) const WAIT_ROUNDS: usize = 3;
    /// Utilisation from which a site or a lock counts as saturated.
    pub(crate) const SATURATED: f64 = 0.99;
    /// Locks of a distributed transaction are held longer than is measured by this factor, which is
    /// from the moment when it has all: each site takes its own before that, and releases them after
    /// it.
    pub(crate) const HELD_ACROSS: f64 = 2.0;
    /// While a lock is waited for, those before it are held. This share of that wait counts, as part of
    /// it would have been waited there instead.
    pub(crate) const HELD_WHILE_WAITING: f64 = 0.5;
    /// A saving is not chance if it exceeds this many standard errors.
    pub(crate) const SIGNIFICANT: f64 = 2.0;
    /// Bisections of the interval in which the throughput lies.
    pub(crate) const BISECTIONS: usize = 14;
    /// With fewer samples nothing is judged, and to judge a change no more are placed.
    pub(crate) const SAMPLES_FEW: usize = 32;

    // Propose.
    /// Candidate sites for one transaction: those that need the least, and besides the least busy.
    pub(crate) const CANDIDATES_MAX: usize = 4;
    /// Partitions of a footprint that are considered: those that are accessed most.
    pub(crate) const SPLIT_LOOKS_MAX: usize = 4;
    /// The most parts that one split makes.
    pub(crate) const SPLIT_PARTS_MAX: usize = 8;
    /// Copies that are considered when a site is full.
    pub(crate) const EVICTION_LOOKS_MAX: usize = 64;
    /// Copies that go at once; of masters, one in this many.
    pub(crate) const EVICTED_MAX: usize = 8;
    /// A partition with this share of all accesses is too large to be placed well, and not cold.
    pub(crate) const SHARE_MAX: f64 = 1.0 / 32.0;
    /// Partitions are split at a heat of 1; two that are merged have less than this each.
    pub(crate) const COLD_HEAT: f64 = 0.25;
    /// Of the accesses of the judging half, this share must be to partitions that the proposing half
    /// accesses.
    pub(crate) const COVERAGE_MIN: f64 = 0.5;
    /// A sample that accesses up to this many partitions ties each with each; a larger one, each with
    /// the next.
    pub(crate) const CLIQUE_MAX: usize = 32;
    /// A sample that accesses more partitions than this (a scan of everything) adds no edges.
    pub(crate) const CHAIN_MAX: usize = 1024;
    /// Weight of a partition that no sample accesses, in accesses.
    pub(crate) const UNACCESSED_WEIGHT: f64 = 0.02;
    /// METIS takes integers: the weight of one access.
    pub(crate) const WEIGHT_UNIT: f64 = 1000.0;
    /// A part may be heavier than its target by this share.
    pub(crate) const IMBALANCE: f64 = 0.1;
    /// If the share of distributed transactions is below this, there is nothing to gain.
    pub(crate) const ACROSS_MIN: f64 = 0.005;
    /// Response times are compared at this share of the current throughput: near saturation, a few
    /// samples that wait without end would outweigh all others.
    pub(crate) const COMPARED_AT: f64 = 0.8;
    /// A site may hand partitions over if it is busier than the mean by this factor.
    pub(crate) const UNEVEN_MIN: f64 = 1.06;
    /// A rebalance may raise the share of distributed transactions by this much.
    pub(crate) const ACROSS_MORE: f64 = 0.01;
    /// Rounds of splits in a global plan: what is cut may have to be cut again.
    pub(crate) const SPLIT_ROUNDS: usize = 2;
    /// Steps per site, on average.
    pub(crate) const REFINEMENT_ROUNDS: usize = 8;
    /// A site is even if it is at most this share busier than the mean.
    pub(crate) const EVEN: f64 = 0.02;
    /// Cut ratio: co-accesses that may become distributed, per access that goes.
    pub(crate) const CUT_RATIO_MAX: f64 = 0.1;
    /// Cut ratios are integers in the heap: this is one.
    pub(crate) const RATIO_UNIT: f64 = 1e6;

    // Govern.
    /// The number of recent adoptions halves in this time.
    pub(crate) const ADOPTION_HALF_LIFE_NS: u64 = 20_000_000_000;
    /// A rebalance must make the busiest site less busy by this share for each 2 s of the current
    /// pause.
    pub(crate) const RELIEF_MIN: f64 = 0.02;
    /// A plan that was rolled back counts as this many adoptions.
    pub(crate) const ROLLBACK_WEIGHT: f64 = 4.0;
    /// Partitions that move in one decision.
    pub(crate) const BATCH: usize = 128;
    /// The pause before the next plan, in nanoseconds: after an adopted one, and the longest after
    /// others.
    pub(crate) const PLAN_PAUSE_NS: (u64, u64) = (2_000_000_000, 20_000_000_000);
    /// Throughput is steady if two successive moments differ by at most this share.
    pub(crate) const STEADY_TOLERANCE: f64 = 0.15;
    /// This long after its last change a plan is judged, in nanoseconds.
    pub(crate) const TRIAL_SETTLES_NS: u64 = 3_500_000_000;
    /// If throughput is not steady for this long, the plan stays, in nanoseconds.
    pub(crate) const TRIAL_TIMEOUT_NS: u64 = 20_000_000_000;
    /// Up to this many recent changes count as none.
    pub(crate) const QUIET_MAX: usize = 10;
    /// The size of the token bucket, in seconds of its rate.
    pub(crate) const BURST_S: f64 = 0.25;
    /// A change in flight that was not heard of for this long is not in flight any more, in
    /// nanoseconds.
    pub(crate) const LOST_NS: u64 = 5_000_000_000;

    // Remember.
    /// Decisions that are kept.
    pub const JOURNAL_MAX: usize = 1000;
    /// Transactions that an effect is measured on.
    pub const EFFECT_OF: u32 = 32;
    /// Decisions whose effect is measured at one time.
    pub(crate) const EFFECTS_MAX: usize = 16;
    /// An effect is given up after this time, in nanoseconds.
    pub(crate) const EFFECT_NS: u64 = 10_000_000_000;
    /// Decisions that are remembered.
    pub const REMEMBERED_MAX: usize = 300;

    /// Samples that are compared at most, of the old and of the new ones.
    pub(crate) const COMPARED_MAX: usize = 2000;
}
