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
    /// The same once the workload holds still, and while the autopilot is off: so that it knows what went before when
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
    /// long as it lasts, and splitting what they wait for cures nothing.
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
            held_max: 0.1,
            gain_min: 1.2,
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
    /// Samples that are compared at most, of the old and of the new ones.
    pub(crate) const COMPARED_MAX: usize = 2000;
}
