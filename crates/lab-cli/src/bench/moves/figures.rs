//! Turns the notes of clients into figures: each move is compared with a quiet window just before
//! it.
//!
//! ```text
//!   ──┤ quiet ├──┤ move ├─── pause ──┤ quiet ├──┤ move ├────        a pair: quiet, move
//! ```
//!
//! * **throughput**: commits a second in moves, divided by those in the quiet windows before them.
//!   The pairs are cut into ten groups of consecutive ones; the figure is the median of the groups.
//! * **latency**: percentiles of the transactions that began in moves, divided by those of the
//!   transactions that began in quiet windows.
//! * **disturbed**: transactions that took more than 5 times the median of quiet windows. The
//!   figure is the count of those that began in moves, less the count in quiet windows of that
//!   length, per move.
//! * **gap**: the longest time without a commit on the block; the 99th percentile of all moves.
//!
//! The window of a move is at least [`WINDOW_MIN`] long, because shorter ones have too few commits.

use super::clients::Note;
use serde::Serialize;
use std::time::Duration;

/// See the [module documentation](self).
pub(super) const WINDOW_MIN: Duration = Duration::from_millis(10);
const GROUPS: usize = 10;
/// A transaction is disturbed if it takes more than this many times the median of quiet windows.
const DISTURBED: u64 = 5;

/// A window of time, in nanoseconds since the clients began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) from: u64,
    pub(super) to: u64,
}

/// A quiet window and the move after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) quiet: Window,
    pub(super) moving: Window,
    /// How long the move took.
    pub(super) took_ns: u64,
    pub(super) rows: usize,
}

/// The figures of moves of one kind; see the [module documentation](self).
#[derive(Clone, Default, Debug, Serialize)]
pub(super) struct Figures {
    pub(super) moves: usize,
    pub(super) rows: usize,
    pub(super) took_ms: f64,
    pub(super) throughput: f64,
    pub(super) p99_ratio: f64,
    pub(super) p50_ratio: f64,
    pub(super) disturbed: f64,
    pub(super) gap_p99_ms: f64,
    pub(super) gap_median_ms: f64,
    pub(super) gap_p99_quiet_ms: f64,
    pub(super) gap_median_quiet_ms: f64,
}

impl Window {
    fn seconds(self) -> f64 {
        (self.to - self.from) as f64 / 1e9
    }

    /// The notes that ended within it.
    fn ended(self, notes: &[Note]) -> &[Note] {
        let at = |time| notes.partition_point(|note| note.ended < time);
        &notes[at(self.from)..at(self.to)]
    }

    /// Latencies of the transactions that began within it, without the probe's.
    fn latencies(self, notes: &[Note]) -> impl Iterator<Item = u64> {
        let first = notes.partition_point(|note| note.ended < self.from);
        // A transaction that begins in the window ends at most 10 s after it.
        let last = notes.partition_point(|note| note.ended < self.to + 10_000_000_000);
        let began = move |note: &&Note| (self.from..self.to).contains(&note.begun);
        let notes = notes[first..last].iter().filter(began);
        notes.filter(|note| !note.is_probe).map(Note::took)
    }

    /// The latency at quantile `share` of the transactions that began within it.
    pub(super) fn latency(self, notes: &[Note], share: f64) -> Option<u64> {
        let mut all: Vec<u64> = self.latencies(notes).collect();
        all.sort_unstable();
        (!all.is_empty()).then(|| at(&all, share))
    }

    /// Commits a second.
    pub(super) fn rate(self, notes: &[Note]) -> f64 {
        self.committed(notes) as f64 / self.seconds()
    }

    fn committed(self, notes: &[Note]) -> usize {
        self.ended(notes).iter().filter(|note| !note.is_probe).count()
    }

    /// The longest time without a commit on the block, including gaps that begin before the window
    /// or end after it.
    fn gap_ms(self, notes: &[Note]) -> f64 {
        let first = notes.partition_point(|note| note.ended < self.from);
        let last = notes.partition_point(|note| note.ended < self.to);
        let before = notes[..first].iter().rev().find(|note| note.on_unit);
        let after = notes[last..].iter().find(|note| note.on_unit);
        let within = notes[first..last].iter().filter(|note| note.on_unit);
        let ends: Vec<u64> =
            before.into_iter().chain(within).chain(after).map(|note| note.ended).collect();
        let gap = ends.windows(2).map(|pair| pair[1] - pair[0]).max();
        gap.unwrap_or(self.to - self.from) as f64 / 1e6
    }
}

impl Figures {
    /// Computes figures from pairs, and from notes in the order of their ends.
    pub(super) fn of(notes: &[Note], pairs: &[Pair]) -> Figures {
        let all = |window: fn(&Pair) -> Window| -> Vec<u64> {
            let mut all: Vec<u64> =
                pairs.iter().flat_map(|pair| window(pair).latencies(notes)).collect();
            all.sort_unstable();
            all
        };
        let (quiet, moving) = (all(|pair| pair.quiet), all(|pair| pair.moving));
        let ratio = |share| at(&moving, share) as f64 / at(&quiet, share).max(1) as f64;
        let limit = DISTURBED * at(&quiet, 0.5).max(1);
        let slow = |latencies: &[u64]| {
            (latencies.len() - latencies.partition_point(|took| *took <= limit)) as f64
        };
        let seconds = |window: fn(&Pair) -> Window| -> f64 {
            pairs.iter().map(|pair| window(pair).seconds()).sum()
        };
        let by_length = seconds(|pair| pair.moving) / seconds(|pair| pair.quiet).max(1e-9);
        let disturbed = slow(&moving) - slow(&quiet) * by_length;
        let of_pairs = |value: &dyn Fn(&Pair) -> f64, share: f64| {
            let mut values: Vec<f64> = pairs.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            quantile(&values, share)
        };
        let rate = |pairs: &[Pair], window: fn(&Pair) -> Window| {
            let count = |pair| window(pair).committed(notes) as f64;
            pairs.iter().map(count).sum::<f64>()
                / pairs.iter().map(|p| window(p).seconds()).sum::<f64>()
        };
        let mut rates: Vec<f64> = pairs
            .chunks(pairs.len().div_ceil(GROUPS).max(1))
            .map(|some| rate(some, |pair| pair.moving) / rate(some, |pair| pair.quiet).max(1e-9))
            .collect();
        rates.sort_by(f64::total_cmp);
        Figures {
            moves: pairs.len(),
            rows: pairs.iter().map(|pair| pair.rows).sum::<usize>() / pairs.len().max(1),
            took_ms: of_pairs(&|pair| pair.took_ns as f64 / 1e6, 0.5),
            throughput: quantile(&rates, 0.5),
            p99_ratio: ratio(0.99),
            p50_ratio: ratio(0.5),
            disturbed: disturbed.max(0.0) / pairs.len().max(1) as f64,
            gap_p99_ms: of_pairs(&|pair| pair.moving.gap_ms(notes), 0.99),
            gap_median_ms: of_pairs(&|pair| pair.moving.gap_ms(notes), 0.5),
            gap_p99_quiet_ms: of_pairs(&|pair| pair.quiet.gap_ms(notes), 0.99),
            gap_median_quiet_ms: of_pairs(&|pair| pair.quiet.gap_ms(notes), 0.5),
        }
    }
}

/// The value at quantile `share` of sorted values; 0 if there are none.
fn at(sorted: &[u64], share: f64) -> u64 {
    sorted.get(place(sorted.len(), share)).copied().unwrap_or_default()
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted.get(place(sorted.len(), share)).copied().unwrap_or_default()
}

fn place(count: usize, share: f64) -> usize {
    ((count as f64 * share).ceil() as usize).clamp(1, count.max(1)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// One transaction each millisecond, which takes a tenth of one. The one at 30 ms takes 6 ms,
    /// and there is none from 31 to 35 ms.
    fn notes() -> Vec<Note> {
        let note = |at: u64| {
            let took = if at == 30 { 6 * MS } else { MS / 10 };
            Note { begun: at * MS, ended: at * MS + took, on_unit: true, is_probe: false }
        };
        (0..60).filter(|at| !(31..36).contains(at)).map(note).collect()
    }

    #[test]
    fn a_move_is_compared_with_the_time_before_it() {
        let quiet = Window { from: 10 * MS, to: 20 * MS };
        let moving = Window { from: 28 * MS, to: 38 * MS };
        let mut notes = notes();
        notes.sort_by_key(|note| note.ended);
        let figures = Figures::of(&notes, &[Pair { quiet, moving, took_ns: MS, rows: 7 }]);
        assert_eq!((figures.moves, figures.rows, figures.took_ms), (1, 7, 1.0));
        assert_eq!(figures.throughput, 0.5, "five of ten");
        assert_eq!(figures.disturbed, 1.0);
        assert_eq!(figures.p99_ratio, 60.0);
        assert!((figures.gap_p99_ms - 6.9).abs() < 0.11, "{}", figures.gap_p99_ms);
        assert_eq!(figures.gap_p99_quiet_ms, 1.0);
    }

    #[test]
    fn a_window_without_commits_is_one_gap() {
        let window = Window { from: 0, to: 5 * MS };
        assert_eq!(window.gap_ms(&[]), 5.0);
    }
}
