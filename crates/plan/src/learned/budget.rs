//! The budget of processor time for learning and planning.
//!
//! ```text
//!   credit   ▔▔╲                           at first what a minute gives
//!               ╲       ╱▔▔▔╲              grows with time, up to what ten seconds give
//!                ╲    ╱      ╲    ╱
//!            0 ───╲╱──────────╲╱────       below zero: nothing is looked for until it is back
//! ```
//!
//! A token bucket. Its rate is a share of one core, independent of the number of cores. A long
//! planning pass is followed by a long pause. The first global plan comes soon, from the credit of
//! a minute. Later ones can spend little at once, so that clients who return after a pause do not
//! lose the processor to savings. The caller measures the processor time of the planning thread.
//! The simulator measures none, so there the budget is never exceeded.

use super::tuning::Tuning;

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Budget {
    /// The share of a core.
    share: f64,
    credit_ns: f64,
    /// The time up to which credit was added.
    at_ns: u64,
    spent_ns: u64,
    /// When the current window began, and `spent_ns` at that time.
    window: (u64, u64),
    /// The share of a core that was used in the last complete window.
    used: f64,
}

impl Budget {
    /// A budget with the credit for the first plan.
    pub fn new(share: f64) -> Budget {
        let credit_ns = share * Tuning::FIRST_CREDIT_NS;
        Budget { share, credit_ns, at_ns: 0, spent_ns: 0, window: (0, 0), used: 0.0 }
    }

    /// Sets the share of a core from now on.
    pub fn set_share(&mut self, share: f64) {
        self.share = share;
        self.credit_ns = self.credit_ns.min(share * Tuning::FIRST_CREDIT_NS);
    }

    /// The share of a core that may be used.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// The share of a core that was used in the last [window](Tuning::USED_WINDOW_NS).
    pub fn used(&self) -> f64 {
        self.used
    }

    /// The processor time that was spent so far, in nanoseconds.
    pub fn spent_ns(&self) -> u64 {
        self.spent_ns
    }

    /// Adds the credit for the time up to `now_ns`.
    pub fn pass(&mut self, now_ns: u64) {
        let passed = now_ns.saturating_sub(self.at_ns) as f64;
        self.at_ns = self.at_ns.max(now_ns);
        // The rest of the first credit stays.
        let most = self.credit_ns.max(self.share * Tuning::CREDIT_NS);
        self.credit_ns = (self.credit_ns + passed * self.share).min(most);
        let (began, before) = self.window;
        let long = now_ns.saturating_sub(began);
        if long >= Tuning::USED_WINDOW_NS {
            self.used = (self.spent_ns - before) as f64 / long as f64;
            self.window = (now_ns, self.spent_ns);
        }
    }

    /// Subtracts processor time from the credit.
    pub fn spend(&mut self, ns: u64) {
        self.spent_ns += ns;
        self.credit_ns -= ns as f64;
    }

    /// True while the credit is negative.
    pub fn is_exceeded(&self) -> bool {
        self.credit_ns < 0.0
    }

    /// True if less than half of the credit that can be saved is left.
    pub fn is_short(&self) -> bool {
        self.credit_ns < self.share * Tuning::CREDIT_NS / 2.0
    }

    /// The time at which there is credit again.
    pub fn ready_ns(&self) -> u64 {
        let wait = (-self.credit_ns / self.share.max(f64::MIN_POSITIVE)).max(0.0);
        self.at_ns.saturating_add(wait as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn credit_may_be_spent_at_once_and_debt_delays() {
        let mut budget = Budget::new(0.02);
        budget.pass(100 * S);
        budget.spend(12 * S / 10);
        assert!(!budget.is_exceeded() && budget.is_short(), "the credit of a minute");
        budget.spend(S / 10);
        assert!(budget.is_exceeded());
        assert_eq!(budget.ready_ns(), 105 * S);
        budget.pass(105 * S);
        assert!(!budget.is_exceeded());
        assert_eq!(budget.spent_ns(), 13 * S / 10);
        budget.pass(1000 * S);
        budget.spend(2 * S / 10);
        assert!(!budget.is_exceeded(), "the credit of ten seconds");
        budget.spend(1);
        assert!(budget.is_exceeded(), "no more is saved");
    }

    #[test]
    fn without_a_budget_nothing_is_ever_ready() {
        let mut budget = Budget::new(0.0);
        budget.spend(1);
        budget.pass(1000 * S);
        assert!(budget.is_exceeded());
        assert_eq!(budget.ready_ns(), u64::MAX);
    }

    #[test]
    fn use_is_reported_for_the_last_window() {
        let mut budget = Budget::new(0.02);
        budget.pass(20 * S);
        budget.spend(S / 10);
        assert_eq!(budget.used(), 0.0, "it is not over");
        budget.pass(30 * S);
        assert_eq!(budget.used(), 0.01);
        budget.pass(40 * S);
        assert_eq!(budget.used(), 0.0);
    }
}
