//! The effect of a moving hot spot on latency: how far it rises, and how long it takes to recover.
//!
//! ```text
//!   latency                 ▲ rise
//!            ╭╮   ╱╲        │
//!   ─────────╯╰──╱  ╲───────┴──╲___________   5 percent above the best before the move
//!        best ▲  │      recovery  │
//!             move
//! ```
//!
//! Latency is a moving mean over one second. The best latency is the smallest mean over five
//! seconds since the previous move.

use serde::Serialize;

/// The length of a slice in nanoseconds.
pub(crate) const SLICE_NS: u64 = 250_000_000;
const SLICES_PER_S: usize = (1_000_000_000 / SLICE_NS) as usize;
/// Latency has recovered when it is within this factor of the best.
const BACK: f64 = 1.05;

/// See the [module documentation](self).
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Shift {
    /// The rise of latency over its best in percent, as a mean over all moves.
    pub rise_percent: f64,
    /// The seconds until latency has recovered, as a mean over all moves. A move without recovery
    /// counts until the next move or the end.
    pub recovery_s: f64,
}

/// The number of transactions in a slice of time, and the sum of their latencies in microseconds.
pub(crate) type Slice = (u64, u64);

impl Shift {
    /// The effect of moves every `every_s` seconds, of which the first is after `every_s`. `None`
    /// if there was no move.
    pub(crate) fn of(slices: &[Slice], every_s: f64) -> Option<Shift> {
        let every = (every_s * SLICES_PER_S as f64) as usize;
        let moves = (every..slices.len()).step_by(every.max(1));
        let effects: Vec<(f64, f64)> =
            moves.filter_map(|at| effect(slices, at - every, at, every)).collect();
        let mean =
            |of: fn(&(f64, f64)) -> f64| effects.iter().map(of).sum::<f64>() / effects.len() as f64;
        let (rise_percent, recovery_s) = (mean(|effect| effect.0), mean(|effect| effect.1));
        (!effects.is_empty()).then_some(Shift { rise_percent, recovery_s })
    }
}

/// The rise in percent and the recovery in seconds of the move at slice `at`.
fn effect(slices: &[Slice], since: usize, at: usize, every: usize) -> Option<(f64, f64)> {
    let best = windows(&slices[since..at], 5 * SLICES_PER_S).fold(f64::INFINITY, f64::min);
    let end = slices.len().min(at + every);
    let after: Vec<f64> = windows(&slices[at..end], SLICES_PER_S).collect();
    let (worst_at, worst) = after.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let rise = (worst / best - 1.0) * 100.0;
    if worst <= BACK * best {
        return Some((rise, 0.0));
    }
    let back = after[worst_at..].iter().position(|latency| *latency <= BACK * best);
    let last = back.map_or(end - at, |back| worst_at + back + SLICES_PER_S);
    Some((rise, last as f64 / SLICES_PER_S as f64))
}

/// The mean latencies of all windows of `length` slices; infinite for a window without
/// transactions.
fn windows(slices: &[Slice], length: usize) -> impl Iterator<Item = f64> {
    slices.windows(length).map(|window| {
        let sum = |of: fn(&Slice) -> u64| window.iter().map(of).sum::<u64>() as f64;
        let (count, us) = (sum(|slice| slice.0), sum(|slice| slice.1));
        if count == 0.0 { f64::INFINITY } else { us / count }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` seconds with this latency.
    fn seconds(count: usize, us: u64) -> Vec<Slice> {
        vec![(10, 10 * us); count * SLICES_PER_S]
    }

    #[test]
    fn a_move_is_followed_until_latency_is_back() {
        let slices =
            [seconds(5, 900), seconds(5, 100), seconds(2, 120), seconds(2, 150), seconds(6, 104)];
        let shift = Shift::of(&slices.concat(), 10.0).unwrap();
        assert!((shift.rise_percent - 50.0).abs() < 1e-9, "{shift:?}");
        assert_eq!(shift.recovery_s, 5.0, "four seconds, and the window that shows it");
    }

    #[test]
    fn a_move_without_recovery_counts_to_the_end_and_one_without_rise_not_at_all() {
        let never = Shift::of(&[seconds(10, 100), seconds(10, 130)].concat(), 10.0).unwrap();
        assert_eq!(never.recovery_s, 10.0);
        let flat = Shift::of(&seconds(20, 100), 10.0).unwrap();
        assert_eq!(flat, Shift { rise_percent: 0.0, recovery_s: 0.0 });
        assert_eq!(Shift::of(&seconds(10, 100), 10.0), None);
    }
}
