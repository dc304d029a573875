//! Trial and rollback of a global plan: compares throughput before and after it.
//!
//! A forecast may promise a gain that does not come, and then repeats its promise, because it
//! predicts the same for the worse design. So measurement decides:
//!
//! ```text
//!   10,400/s   a plan: 732 moves, 728 splits   when the signals tell what has come of it
//!                                                9,800/s   it stays
//!                                                5,900/s   all masters return to where they were
//! ```
//!
//! Splits stay, as merging has its own rules. **Left out:** a load that falls by itself looks the
//! same. A rollback then costs its moves once, because the next plan must predict a larger gain.

use super::Range;
use super::tuning::Tuning;
use isomer_design::SiteId;

/// A global plan that is being executed, or was a moment ago.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    /// Transactions per second before it.
    pub(crate) before: f64,
    /// The former masters of the moved ranges.
    pub(crate) masters: Vec<(Range, SiteId)>,
    /// The time at which its execution was complete.
    since_ns: Option<u64>,
}

impl Trial {
    pub(crate) fn new(before: f64, masters: Vec<(Range, SiteId)>) -> Trial {
        Trial { before, masters, since_ns: None }
    }

    /// Returns the throughput after the plan once it is meaningful, and `None` before. An unknown
    /// throughput counts as unchanged.
    pub(crate) fn judge(
        &mut self,
        now_ns: u64,
        is_carried_out: bool,
        served: Option<f64>,
        tuning: &Tuning,
    ) -> Option<f64> {
        if !is_carried_out {
            self.since_ns = None;
            return None;
        }
        let since_ns = now_ns.saturating_sub(*self.since_ns.get_or_insert(now_ns));
        // The signals hardly contain the time before the plan any more.
        let is_told = since_ns >= 2 * tuning.signal_ns();
        is_told.then_some(served.unwrap_or(self.before))
    }

    /// True if throughput has fallen enough to roll the plan back.
    pub(crate) fn is_worse(&self, served: f64, tuning: &Tuning) -> bool {
        served < tuning.rollback_ratio * self.before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// The time of the verdict for a global plan whose execution is complete at second 2, and true
    /// for a rollback.
    fn judged(served: Option<f64>) -> (u64, bool) {
        let (mut trial, tuning) = (Trial::new(10_000.0, Vec::new()), Tuning::default());
        let mut told = |at| trial.judge(at * SECOND, at >= 2, served, &tuning).map(|s| (at, s));
        let (at, served) = (1..60).find_map(&mut told).expect("there is a verdict");
        (at, trial.is_worse(served, &tuning))
    }

    #[test]
    fn lower_throughput_is_rolled_back_and_equal_or_unknown_is_not() {
        assert_eq!(judged(Some(6000.0)), (6, true));
        assert_eq!(judged(Some(9000.0)), (6, false));
        assert_eq!(judged(None), (6, false));
    }

    #[test]
    fn a_trial_restarts_if_more_changes_follow() {
        let (mut trial, tuning) = (Trial::new(10_000.0, Vec::new()), Tuning::default());
        let mut at = |second, is_done| trial.judge(second * SECOND, is_done, Some(6e3), &tuning);
        assert_eq!([at(1, true), at(3, false), at(5, true)], [None; 3]);
        assert_eq!(at(9, true), Some(6e3));
    }
}
