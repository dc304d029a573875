//! The course of a run, cut into equal intervals.

use crate::work::{Latency, Tally};

/// One interval.
#[derive(Clone, Debug)]
pub(crate) struct Interval {
    /// When it ended, in seconds since the beginning.
    pub(crate) end_s: f64,
    pub(crate) seconds: f64,
    pub(crate) committed: u64,
    pub(crate) single_site: u64,
    pub(crate) latency: Latency,
    /// Changes of the design that ended in it.
    pub(crate) changes: u64,
}

impl Interval {
    pub(crate) fn throughput(&self) -> f64 {
        self.committed as f64 / self.seconds
    }

    pub(crate) fn single_site_share(&self) -> f64 {
        self.single_site as f64 / self.committed.max(1) as f64
    }

    pub(crate) fn change_rate(&self) -> f64 {
        self.changes as f64 / self.seconds
    }
}

/// All intervals, and their sum.
#[derive(Default)]
pub(crate) struct Series {
    pub(crate) intervals: Vec<Interval>,
    pub(crate) total: Tally,
    /// The counts of the last interval.
    pub(crate) last: Tally,
    changes: u64,
}

impl Series {
    /// Adds the counts up to `end_s` as an interval; `changes` counts from the beginning.
    pub(crate) fn push(&mut self, end_s: f64, tally: Tally, changes: u64) {
        let begin_s = self.intervals.last().map_or(0.0, |last| last.end_s);
        self.intervals.push(Interval {
            end_s,
            seconds: (end_s - begin_s).max(1e-9),
            committed: tally.committed,
            single_site: tally.single_site,
            latency: tally.latency(),
            changes: changes - self.changes,
        });
        self.changes = changes;
        self.total.add(&tally);
        self.last = tally;
    }

    /// Adds the counts after the last interval to it, because they are too few for one of their
    /// own.
    pub(crate) fn finish(&mut self, end_s: f64, tally: &Tally, changes: u64) {
        self.total.add(tally);
        let Some(last) = self.intervals.last_mut() else { return };
        last.committed += tally.committed;
        last.single_site += tally.single_site;
        last.changes += changes - self.changes;
        last.seconds += end_s - last.end_s;
        last.end_s = end_s;
    }

    /// The single-site shares of the first and of the last tenth of the time.
    pub(crate) fn first_and_last_tenth(&self) -> (f64, f64) {
        let tenth = (self.intervals.len() / 10).max(1).min(self.intervals.len());
        let last = self.intervals.len() - tenth;
        (share(&self.intervals[..tenth]), share(&self.intervals[last..]))
    }

    /// The value of `number` for each interval.
    pub(crate) fn of(&self, number: impl Fn(&Interval) -> f64) -> Vec<f64> {
        self.intervals.iter().map(number).collect()
    }
}

fn share(intervals: &[Interval]) -> f64 {
    let committed: u64 = intervals.iter().map(|interval| interval.committed).sum();
    let single_site: u64 = intervals.iter().map(|interval| interval.single_site).sum();
    single_site as f64 / committed.max(1) as f64
}
