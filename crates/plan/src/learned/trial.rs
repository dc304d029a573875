//! Trial and rollback of a global plan: throughput after it, beside throughput before.
//!
//! A forecast may promise a gain that does not come, and it then goes on promising: of the worse
//! design it predicts what it predicted before. So measurement decides:
//!
//! ```text
//!   10,400/s   a plan: 732 moves, 728 splits   3.5 s after the last change, and steady
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

    /// The verdict, when there is one. `lately` is what was served in the last moment and in the
    /// one before it, per second.
    pub(crate) fn judge(
        &mut self,
        now_ns: u64,
        is_carried_out: bool,
        lately: Option<[f64; 2]>,
        rollback_ratio: f64,
    ) -> Option<TrialOutcome> {
        if !is_carried_out {
            self.since_ns = None;
            return None;
        }
        let since_ns = now_ns.saturating_sub(*self.since_ns.get_or_insert(now_ns));
        if since_ns < Tuning::TRIAL_SETTLES_NS {
            return None;
        }
        let steady =
            lately.filter(|[last, before]| (last / before - 1.0).abs() <= Tuning::STEADY_TOLERANCE);
        match steady {
            Some([last, _]) if last < rollback_ratio * self.before => {
                Some(TrialOutcome::RollBack(last))
            }
            Some(_) => Some(TrialOutcome::Keep),
            None => (since_ns > Tuning::TRIAL_TIMEOUT_NS).then_some(TrialOutcome::Keep),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// The verdict on a global plan that is carried out at second 2, and when: each second has the
    /// figures of the function.
    fn judged(lately: impl Fn(u64) -> Option<[f64; 2]>) -> (u64, TrialOutcome) {
        let mut trial = Trial::new(10_000.0, Vec::new());
        let verdict = |at| Some((at, trial.judge(at * SECOND, at >= 2, lately(at), 0.85)?));
        (1..60).find_map(verdict).expect("there is one")
    }

    #[test]
    fn what_serves_less_goes_back_and_what_serves_as_much_stays() {
        assert_eq!(judged(|_| Some([6000.0, 6500.0])), (6, TrialOutcome::RollBack(6000.0)));
        assert_eq!(judged(|_| Some([9000.0, 8800.0])), (6, TrialOutcome::Keep));
    }

    #[test]
    fn nothing_is_judged_before_it_is_steady() {
        let rising = |at| Some(if at < 9 { [6000.0, 3000.0] } else { [9500.0, 9000.0] });
        assert_eq!(judged(rising), (9, TrialOutcome::Keep));
        let falling = |at| Some(if at < 9 { [9000.0, 12_000.0] } else { [5000.0, 5000.0] });
        assert_eq!(judged(falling), (9, TrialOutcome::RollBack(5000.0)));
    }

    #[test]
    fn what_is_never_steady_or_not_known_stays() {
        assert_eq!(judged(|_| Some([2000.0, 9000.0])), (23, TrialOutcome::Keep));
        assert_eq!(judged(|_| Some([0.0, 0.0])), (23, TrialOutcome::Keep), "nobody asks any more");
        assert_eq!(judged(|_| None), (23, TrialOutcome::Keep));
    }

    #[test]
    fn it_begins_again_if_there_is_more_to_carry_out() {
        let mut trial = Trial::new(10_000.0, Vec::new());
        let lately = Some([6000.0, 6000.0]);
        assert_eq!(trial.judge(SECOND, true, lately, 0.85), None);
        assert_eq!(trial.judge(3 * SECOND, false, lately, 0.85), None);
        assert_eq!(trial.judge(5 * SECOND, true, lately, 0.85), None);
        assert_eq!(
            trial.judge(9 * SECOND, true, lately, 0.85),
            Some(TrialOutcome::RollBack(6000.0))
        );
    }
}
