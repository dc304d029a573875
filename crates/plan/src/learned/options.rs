//! What the learned strategy is told.

use super::recent::Limits;
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

/// Constants of the learned strategy. Those of the public code of MorphoSys' descendant are marked.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Options {
    /// Whether decisions are carried out.
    pub mode: Mode,
    /// For how long the future is thought to be like the past: within this time a change has to
    /// pay.
    pub horizon_ns: u64,
    /// By which share a benefit must be larger than its cost.
    pub margin: f64,
    /// Its lock is held for this share of the time: may be split.
    pub hot: f64,
    /// Accessed so many times the average: may be merged. (Descendant: 0.5.)
    pub cold: f64,
    /// What it saves to have one copy of a partition less, within the horizon, in microseconds.
    pub upkeep_us: f64,
    /// Transactions that are measured, per second; as many as there are, if there are fewer.
    pub measured_per_second: f64,
    /// The same while hardly anything is changed any more, and while it is off: so that it knows
    /// what went before when it is turned on.
    pub measured_when_quiet: f64,
    /// Of the transactions, those that are kept. (Descendant.)
    pub damping: Damping,
    /// How often things may change.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            mode: Mode::Auto,
            horizon_ns: 10_000_000_000,
            margin: 0.5,
            hot: 0.5,
            cold: 0.5,
            upkeep_us: 500.0,
            measured_per_second: 1000.0,
            measured_when_quiet: 100.0,
            damping: Damping::default(),
            limits: Limits::default(),
        }
    }
}
