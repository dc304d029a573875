//! A change budget that decays while the workload holds still.
//!
//! Something could always be a little better: a lock with a few waiters, a partition warmer than
//! others. Each such change gains less than the one before, and costs as much. So the budget for
//! changes around single transactions halves every 0.8 s from the last disturbance on, down to one
//! change in 20 s:
//!
//! ```text
//!   seconds since the last disturbance   0      0.8    1.6    4      8      12 and later
//!   changes per second, at most          1500   750    375    47     1.5    0.05
//! ```
//!
//! **A disturbance** is anything that shows that the past is no guide: throughput that differs from
//! the baseline by 20 %, a share of distributed transactions that is 0.05 lower or 0.1 higher, or a
//! global plan that was adopted. While changes gain much, they go on. Where 0.2 of all transactions
//! or more are distributed there is no calm: masters are in the wrong places, and in a large
//! database it takes long to see what moving them gains.
//!
//! **The baseline** follows the measured rates slowly. Frozen at the start of a disturbance, it
//! would let later steady growth look like a new one, some day, by chance.
//!
//! Global plans ([`super::global_plan`]), sites without memory and very hot locks have rules of their
//! own, and are not held back.
//!
//! **Left out**: latency. With open-loop clients throughput stays the same however long
//! transactions take; then only the share of distributed transactions shows that a hot spot has
//! moved.

/// Changes per second right after a disturbance, and at rest.
const RATE: (f64, f64) = (1500.0, 0.05);
/// The rate halves in this time, in seconds.
const HALVES_S: f64 = 0.8;
/// Time constants in seconds: of the current rates, and of the baseline that follows them.
const AVERAGED_S: [f64; 2] = [4.0, 10.0];
/// Throughput that differs from the baseline by this share is a disturbance.
const SERVED: f64 = 0.2;
/// So is a share of distributed transactions that is lower or higher than the baseline by these.
const ACROSS: (f64, f64) = (0.05, 0.1);
/// A share of distributed transactions from here on is a disturbance as long as it lasts.
const ACROSS_MAX: f64 = 0.2;

/// See the [module documentation](self).
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChangeThrottle {
    /// Since when it is still.
    since_ns: u64,
    /// How things are, and how they were of late.
    now: Signals,
    usual: Signals,
    seen_ns: u64,
    /// How many changes may be made.
    budget: f64,
    filled_ns: u64,
}

/// How things are.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Signals {
    /// Transactions per second.
    pub(crate) served: f64,
    /// The share of them that runs over several sites.
    pub(crate) across: f64,
}

impl Signals {
    /// Comes nearer to what is seen by a share of the way.
    fn follow(&mut self, seen: Signals, share: f64) {
        self.served += share * (seen.served - self.served);
        self.across += share * (seen.across - self.across);
    }
}

impl Default for ChangeThrottle {
    fn default() -> ChangeThrottle {
        let (now, usual) = (Signals::default(), Signals::default());
        ChangeThrottle { since_ns: 0, now, usual, seen_ns: 0, budget: RATE.0, filled_ns: 0 }
    }
}

impl ChangeThrottle {
    /// Looks how things are.
    pub(crate) fn see(&mut self, now_ns: u64, sight: Signals) {
        let seconds = now_ns.saturating_sub(self.seen_ns) as f64 / 1e9;
        self.seen_ns = now_ns;
        let [soon, late] = AVERAGED_S.map(|over_s| 1.0 - (-seconds / over_s).exp());
        self.now.follow(sight, soon);
        self.usual.follow(self.now, late);
        let (less, more) = ACROSS;
        let across = self.usual.across - less..self.usual.across + more;
        let is_usual = across.contains(&self.now.across) && self.now.across < ACROSS_MAX;
        let served = (self.now.served - self.usual.served).abs();
        if served > SERVED * self.usual.served || !is_usual {
            self.reset(now_ns);
        }
    }

    /// There is unrest.
    pub(crate) fn reset(&mut self, now_ns: u64) {
        (self.since_ns, self.usual) = (now_ns, self.now);
    }

    /// How many changes may be made now.
    pub(crate) fn budget(&mut self, now_ns: u64) -> usize {
        let still_s = now_ns.saturating_sub(self.since_ns) as f64 / 1e9;
        let rate = (RATE.0 * 0.5f64.powf(still_s / HALVES_S)).max(RATE.1);
        let seconds = now_ns.saturating_sub(self.filled_ns) as f64 / 1e9;
        self.filled_ns = now_ns.max(self.filled_ns);
        self.budget = (self.budget + seconds * rate).min(rate.max(1.0));
        self.budget.max(0.0) as usize
    }

    /// So many are made.
    pub(crate) fn spend(&mut self, changes: usize) {
        self.budget -= changes as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many changes are made in each ten seconds, if everything is changed that may be.
    fn made(sight: impl Fn(u64) -> (f64, f64)) -> Vec<usize> {
        let mut throttle = ChangeThrottle::default();
        let mut tens = vec![0; 9];
        for tenth in 0..900 {
            let now_ns = tenth * 100_000_000;
            let (served, across) = sight(tenth / 10);
            throttle.see(now_ns, Signals { served, across });
            let changes = throttle.budget(now_ns);
            throttle.spend(changes);
            tens[tenth as usize / 100] += changes;
        }
        tens
    }

    #[test]
    fn what_holds_still_becomes_quiet_and_stays_quiet() {
        let tens = made(|second| (if second % 2 == 0 { 9500.0 } else { 10_500.0 }, 0.1));
        assert!(tens[0] > 1000 && tens[5..].iter().all(|made| *made <= 1), "{tens:?}");
    }

    #[test]
    fn what_rose_a_little_since_the_last_unrest_is_usual() {
        // It is 0.8 of what it comes to when the last unrest begins, and later a tenth more for a
        // while.
        let tens = made(|second| match second {
            0..20 => (8000.0 + 100.0 * second as f64, 0.05),
            60..64 => (11_500.0, 0.05),
            _ => (10_000.0, 0.05),
        });
        assert!(tens[4..].iter().all(|made| *made <= 1), "{tens:?}");
    }

    #[test]
    fn what_serves_much_less_is_unrest() {
        let tens = made(|second| (if second < 60 { 10_000.0 } else { 5000.0 }, 0.02));
        assert!(tens[5] <= 1 && tens[6] > 1000, "{tens:?}");
    }

    #[test]
    fn as_long_as_changes_bring_much_they_go_on() {
        let served = made(|second| (1000.0 * 1.03f64.powi(second as i32), 0.02));
        assert!(served.iter().all(|made| *made > 100), "{served:?}");
        let across = made(|second| (1000.0, 0.9 - 0.01 * second as f64));
        assert!(across.iter().all(|made| *made > 50), "{across:?}");
    }

    #[test]
    fn there_is_no_calm_where_many_run_over_several_sites() {
        let tens = made(|_| (1000.0, 0.3));
        assert!(tens.iter().all(|made| *made > 10_000), "{tens:?}");
    }
}
