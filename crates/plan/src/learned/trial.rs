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

impl Trial {
    pub(crate) fn new(before: f64, masters: Vec<(Range, SiteId)>) -> Trial {
        Trial { before, masters, since_ns: None }
    }

    /// What is served a second, when that is told; `None` before. Of what is not known the best is thought.
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
        // What was before it is hardly left in the signals by then.
        let is_told = since_ns >= 2 * tuning.signal_ns();
        is_told.then_some(served.unwrap_or(self.before))
    }

    /// True if so much less is served than before that it is to be taken back.
    pub(crate) fn is_worse(&self, served: f64, tuning: &Tuning) -> bool {
        served < tuning.rollback_ratio * self.before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// When a global plan is judged that is carried out at second 2, and whether it is taken back.
    fn judged(served: Option<f64>) -> (u64, bool) {
        let (mut trial, tuning) = (Trial::new(10_000.0, Vec::new()), Tuning::default());
        let mut told = |at| trial.judge(at * SECOND, at >= 2, served, &tuning).map(|s| (at, s));
        let (at, served) = (1..60).find_map(&mut told).expect("there is a verdict");
        (at, trial.is_worse(served, &tuning))
    }

    #[test]
    fn what_serves_less_goes_back_and_what_serves_as_much_or_is_not_known_stays() {
        assert_eq!(judged(Some(6000.0)), (6, true));
        assert_eq!(judged(Some(9000.0)), (6, false));
        assert_eq!(judged(None), (6, false));
    }

    #[test]
    fn it_begins_again_if_there_is_more_to_carry_out() {
        let (mut trial, tuning) = (Trial::new(10_000.0, Vec::new()), Tuning::default());
        let mut at = |second, is_done| trial.judge(second * SECOND, is_done, Some(6e3), &tuning);
        assert_eq!([at(1, true), at(3, false), at(5, true)], [None; 3]);
        assert_eq!(at(9, true), Some(6e3));
    }
}
