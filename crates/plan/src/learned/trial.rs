//! Trial and rollback of a global plan: throughput after it, beside throughput before.
//!
//! A forecast may promise a gain that does not come, and it then goes on promising: of the worse
//! design it predicts what it predicted before. So measurement decides:
//!
//! ```text
//!   10,400/s   a plan: 732 moves, 728 splits   when the signals tell what has come of it
//!                                                9,800/s   it stays
//!                                                5,900/s   all masters return to where they were
//! ```
//!
//! Splits stay, as merging has its own rules. **Left out:** a load that falls by itself looks the
//! same. Rolling back then costs its moves, once, as the next plan must predict a larger gain.

use super::Range;
use super::tuning::Tuning;
use isomer_design::SiteId;

/// A global plan that is carried out, or was a moment ago.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    /// Transactions that were served in a second before it.
    pub(crate) before: f64,
    /// Where what it moves was mastered.
    pub(crate) masters: Vec<(Range, SiteId)>,
    /// Since when all of it is carried out.
    since_ns: Option<u64>,
}

/// How a trial ended.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum TrialOutcome {
    /// It stays.
    Keep,
    /// It was better before; now so many transactions are served in a second.
    RollBack(f64),
}

impl Trial {
    pub(crate) fn new(before: f64, masters: Vec<(Range, SiteId)>) -> Trial {
        Trial { before, masters, since_ns: None }
    }

    /// The verdict, when there is one. `served` is what is served a second, if that is known.
    pub(crate) fn judge(
        &mut self,
        now_ns: u64,
        is_carried_out: bool,
        served: Option<f64>,
        tuning: &Tuning,
    ) -> Option<TrialOutcome> {
        if !is_carried_out {
            self.since_ns = None;
            return None;
        }
        let since_ns = now_ns.saturating_sub(*self.since_ns.get_or_insert(now_ns));
        // What was before it is hardly left in the signals by then.
        let is_told = since_ns >= 2 * tuning.signal_ns();
        is_told.then_some(match served {
            Some(served) if served < tuning.rollback_ratio * self.before => {
                TrialOutcome::RollBack(served)
            }
            _ => TrialOutcome::Keep,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// The verdict on a global plan that is carried out at second 2, and when.
    fn judged(served: Option<f64>) -> (u64, TrialOutcome) {
        let (mut trial, tuning) = (Trial::new(10_000.0, Vec::new()), Tuning::default());
        let verdict = |at| Some((at, trial.judge(at * SECOND, at >= 2, served, &tuning)?));
        (1..60).find_map(verdict).expect("there is one")
    }

    #[test]
    fn what_serves_less_goes_back_and_what_serves_as_much_or_is_not_known_stays() {
        assert_eq!(judged(Some(6000.0)), (6, TrialOutcome::RollBack(6000.0)));
        assert_eq!(judged(Some(9000.0)), (6, TrialOutcome::Keep));
        assert_eq!(judged(None), (6, TrialOutcome::Keep));
    }

    #[test]
    fn it_begins_again_if_there_is_more_to_carry_out() {
        let (mut trial, tuning) = (Trial::new(10_000.0, Vec::new()), Tuning::default());
        let mut at = |second, is_done| trial.judge(second * SECOND, is_done, Some(6e3), &tuning);
        assert_eq!([at(1, true), at(3, false), at(5, true)], [None; 3]);
        assert_eq!(at(9, true), Some(TrialOutcome::RollBack(6000.0)));
    }
}
