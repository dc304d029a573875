//! The figures of `isomer-lab bench plan`: speed and quality of the planners, as ratios in one run.
//!
//! Time comes from a clock that the caller passes in (seconds since any moment). Inputs are
//! generated from fixed seeds. Ratios hold on any machine, seconds for the machine of the run.

mod assign;
mod clay;
mod hermes;

pub use assign::{AssignFigures, assign};
pub use clay::{ClayFigures, ClaySize, clay};
pub use hermes::{HermesFigures, hermes};

/// The size of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// The size behind the published figures.
    Full,
    /// Small enough for a test: the same code, meaningless ratios.
    Smoke,
}

/// Why a benchmark cannot run: a fault of the benchmark itself.
pub type BenchError = Box<dyn std::error::Error>;

/// The seconds that `work` takes, and its result.
pub(crate) fn timed<T>(clock: &mut dyn FnMut() -> f64, work: impl FnOnce() -> T) -> (f64, T) {
    let start = clock();
    let result = work();
    (clock() - start, result)
}

/// The least time of a few runs, and the last result.
pub(crate) fn best_of<T>(
    runs: usize,
    clock: &mut dyn FnMut() -> f64,
    mut work: impl FnMut() -> T,
) -> (f64, T) {
    let (mut best, mut result) = timed(clock, &mut work);
    for _ in 1..runs {
        let (seconds, again) = timed(clock, &mut work);
        (best, result) = (best.min(seconds), again);
    }
    (best, result)
}
