//! Recent transactions: footprints of a sample of the transactions of all gateways, for advice.
//!
//! About [`PER_SECOND`] of the sampled transactions are kept, and the last [`KEPT_MAX`] of them,
//! for up to an hour: more than three minutes of a busy server. **Memory.** Up to [`BYTES_MAX`]; a
//! transaction with more than [`ITEMS_MAX`] keys is not kept.

use isomer_design::{Footprint, Item, Time};
use std::collections::VecDeque;

/// Transactions that are kept of each second.
const PER_SECOND: u64 = 50;
/// Transactions that are kept in all.
pub(crate) const KEPT_MAX: usize = 10_000;
/// The most keys and ranges of a transaction that is kept.
const ITEMS_MAX: usize = 64;
/// The memory of what is kept.
const BYTES_MAX: usize = 8 << 20;
const HOUR_NS: u64 = 3_600_000_000_000;
const NS: u64 = 1_000_000_000;

struct Kept {
    at: Time,
    /// The number of transactions that it stands for.
    weight: u64,
    bytes: usize,
    footprint: Footprint,
}

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct Recent {
    kept: VecDeque<Kept>,
    bytes: usize,
    second: u64,
    /// Transactions that were offered in the current second, and the part that is kept.
    offered: u64,
    one_in: u64,
}

/// Footprints in the order of their ends, and the time in which as many transactions would run.
pub(crate) struct Recorded {
    pub(crate) footprints: Vec<Footprint>,
    pub(crate) seconds: f64,
    /// From the first one to the last.
    pub(crate) span_seconds: f64,
}

impl Recent {
    /// Offers a transaction that stands for `weight` transactions.
    pub(crate) fn offer(&mut self, now: Time, weight: u64, footprint: &Footprint) {
        let second = now.0 / NS;
        if second != self.second {
            self.one_in = self.offered.div_ceil(PER_SECOND).max(1);
            (self.second, self.offered) = (second, 0);
        }
        self.offered += 1;
        let items = footprint.items();
        let is_kept = self.offered.is_multiple_of(self.one_in.max(1));
        if !is_kept || items.is_empty() || items.len() > ITEMS_MAX {
            return;
        }
        let of = |item: &Item| 96 + item.span.start().as_bytes().len();
        let bytes = items.iter().map(of).sum();
        let weight = weight * self.one_in.max(1);
        self.kept.push_back(Kept { at: now, weight, bytes, footprint: footprint.clone() });
        self.bytes += bytes;
        let is_old = |kept: &Kept| now.0.saturating_sub(kept.at.0) > HOUR_NS;
        while self.kept.len() > KEPT_MAX
            || self.bytes > BYTES_MAX
            || self.kept.front().is_some_and(is_old)
        {
            let Some(oldest) = self.kept.pop_front() else { break };
            self.bytes -= oldest.bytes;
        }
    }

    /// The kept transactions, with the items for which `is_asked`.
    pub(crate) fn recorded(&self, is_asked: impl Fn(&Item) -> bool) -> Recorded {
        let span = |first: &Kept, last: &Kept| (last.at.0 - first.at.0) as f64 / NS as f64;
        let ends = self.kept.front().zip(self.kept.back());
        let span_seconds = ends.map_or(0.0, |(first, last)| span(first, last));
        let weight: u64 = self.kept.iter().map(|kept| kept.weight).sum();
        let mean = weight as f64 / self.kept.len().max(1) as f64;
        let mut footprints = Vec::with_capacity(self.kept.len());
        for kept in &self.kept {
            let mut footprint = Footprint::new();
            for item in kept.footprint.items().iter().filter(|item| is_asked(item)) {
                footprint.add(item.table, item.span.clone(), item.access);
            }
            if !footprint.items().is_empty() {
                footprints.push(footprint);
            }
        }
        let seconds = (span_seconds / mean.max(1.0)).max(1e-3);
        Recorded { footprints, seconds, span_seconds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_design::{Access, Key, Span, TableId};

    fn writes(keys: std::ops::Range<i64>) -> Footprint {
        let mut footprint = Footprint::new();
        for key in keys {
            footprint.add(TableId(1), Span::Key(Key::int(key)), Access::Write);
        }
        footprint
    }

    #[test]
    fn some_of_each_second_are_kept_with_their_weight() {
        let mut recent = Recent::default();
        for second in 1..=10 {
            for at in 0..1000 {
                recent.offer(Time(second * NS + at * 1000), 2, &writes(0..2));
            }
        }
        let recorded = recent.recorded(|_| true);
        // All of the first second, and 50 of each other.
        assert_eq!(recorded.footprints.len(), 1000 + 9 * 50);
        assert!((9.0..9.1).contains(&recorded.span_seconds));
        // 2 × 10,000 transactions ran in 9 seconds.
        let rate = recorded.footprints.len() as f64 / recorded.seconds;
        assert!((2200.0..2230.0).contains(&rate), "{rate}");
        assert!(recent.recorded(|item| item.table == TableId(2)).footprints.is_empty());
    }

    #[test]
    fn memory_is_bounded() {
        let mut recent = Recent::default();
        for second in 0..5000 {
            (0..10).for_each(|_| recent.offer(Time(second * NS), 1, &writes(0..60)));
            recent.offer(Time(second * NS), 1, &writes(0..1000));
            assert!(recent.bytes <= BYTES_MAX && recent.kept.len() <= KEPT_MAX);
        }
        assert!(recent.kept.iter().all(|kept| kept.footprint.items().len() == 60));
        let first = recent.kept.front().expect("some are kept").at;
        recent.offer(Time(first.0 + 2 * HOUR_NS), 1, &writes(0..1));
        assert_eq!(recent.kept.len(), 1, "the others are older than an hour");
    }
}
