//! The results of a run, and the metrics derived from them.

use super::tally::{PARTS, Slice, Tally};
use crate::sample::Mean;
use serde::{Deserialize, Serialize};

/// The results of a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Measured {
    /// Transactions per virtual second.
    pub throughput_per_s: f64,
    /// Mean latency.
    pub latency_ms: f64,
    /// 99th percentile of latency.
    pub p99_ms: f64,
    /// The parts of the mean latency; see [`PARTS`].
    pub parts_ms: [f64; PARTS.len()],
    /// The share of distributed transactions.
    pub distributed_percent: f64,
    /// Records that move between sites, including those that move home, per transaction.
    pub moved: f64,
    /// The number of transactions at the busiest site, divided by the mean over all sites.
    pub imbalance: f64,
    /// Core time per transaction, over all sites.
    pub core_ms: f64,
    /// Kilobytes sent by sites per transaction.
    pub sent_kb: f64,
    /// The share of the sites' cores in use.
    pub busy: f64,
    /// The number of records away from home at the end.
    pub fused: usize,
    /// The time at which the last cold chunk had arrived, if any moved.
    pub cold_end_s: Option<f64>,
    /// The number of measured transactions.
    pub transactions: u64,
    /// The number of all transactions.
    pub simulated: u64,
    /// Time slices.
    pub slices: Vec<Slice>,
    /// Throughput around changes of the workload or the sites, if there are any.
    pub change: Option<AroundChange>,
}

/// Throughput around changes, relative to the throughput before or after them.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct AroundChange {
    /// In the first second after the change, as a share of the throughput before it.
    pub first_second: f64,
    /// The lowest second in the first quarter of the time after the change, as a share of the
    /// throughput before it.
    pub dip: f64,
    /// In the last quarter of the time after the change, as a share of the throughput before it.
    pub last: f64,
    /// Seconds until throughput is at least 95 percent of that in the last quarter.
    pub settles_s: f64,
}

/// A number that is measured in a run. See [`Metric::name`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Transactions per virtual second.
    Throughput,
    /// Mean latency.
    Latency,
    /// 99th percentile of latency.
    TailLatency,
    /// The share of distributed transactions.
    Distributed,
    /// Records that move, per transaction.
    Moved,
    /// Transactions at the busiest site, divided by the mean.
    Imbalance,
    /// Core time per transaction.
    CoreTime,
    /// Kilobytes sent by sites per transaction.
    Sent,
    /// The share of the cores in use.
    Busy,
    /// Records away from home at the end.
    Fused,
    /// Ordering a request, and delivering its batch to the site. The first part of the mean
    /// latency.
    Order,
    /// Planning the batch and requesting its locks, including the wait for earlier batches.
    Scheduling,
    /// The wait for locks.
    Locks,
    /// The wait for pushes of other sites.
    Remote,
    /// Execution, including the wait for a core.
    Execution,
    /// The transfer of the answer.
    Answer,
    /// The share of scheduling in the mean latency.
    SchedulingShare,
    /// Throughput in the first second after a change.
    FirstSecond,
    /// The lowest throughput after a change.
    Dip,
    /// Throughput long after a change.
    Last,
    /// The time after a change until throughput has settled.
    Settles,
    /// The time at which the cold records had arrived.
    ColdEnd,
}

impl Metric {
    /// All metrics.
    pub const ALL: [Metric; 22] = [
        Metric::Throughput,
        Metric::Latency,
        Metric::TailLatency,
        Metric::Distributed,
        Metric::Moved,
        Metric::Imbalance,
        Metric::CoreTime,
        Metric::Sent,
        Metric::Busy,
        Metric::Fused,
        Metric::Order,
        Metric::Scheduling,
        Metric::Locks,
        Metric::Remote,
        Metric::Execution,
        Metric::Answer,
        Metric::SchedulingShare,
        Metric::FirstSecond,
        Metric::Dip,
        Metric::Last,
        Metric::Settles,
        Metric::ColdEnd,
    ];
    /// The parts of the latency.
    pub const PARTS: [Metric; PARTS.len()] = [
        Metric::Order,
        Metric::Scheduling,
        Metric::Locks,
        Metric::Remote,
        Metric::Execution,
        Metric::Answer,
    ];

    /// The name and, after a comma, the unit.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Throughput => "throughput, transactions/s",
            Metric::Latency => "mean latency, ms",
            Metric::TailLatency => "99th percentile of latency, ms",
            Metric::Distributed => "transactions over several sites, percent",
            Metric::Moved => "records that move, per transaction",
            Metric::Imbalance => "transactions of the busiest site, times the mean",
            Metric::CoreTime => "time of cores per transaction, ms",
            Metric::Sent => "sent by sites per transaction, kB",
            Metric::Busy => "cores in use, percent",
            Metric::Fused => "records not at home at the end",
            Metric::Order => "until ordered and at its site, ms",
            Metric::Scheduling => "scheduling, ms",
            Metric::Locks => "waiting for locks, ms",
            Metric::Remote => "waiting for remote data, ms",
            Metric::Execution => "execution, ms",
            Metric::Answer => "answer, ms",
            Metric::SchedulingShare => "scheduling, percent of latency",
            Metric::FirstSecond => "throughput in the first second after a change, percent",
            Metric::Dip => "lowest throughput after a change, percent",
            Metric::Last => "throughput long after a change, percent",
            Metric::Settles => "until throughput is within 5 percent of the new best, s",
            Metric::ColdEnd => "when the cold records had arrived, s",
        }
    }

    /// The value in a run, or `None` if the run has none.
    pub fn of(self, run: &Measured) -> Option<f64> {
        let part = |at: usize| Some(run.parts_ms[at]);
        match self {
            Metric::Throughput => Some(run.throughput_per_s),
            Metric::Latency => Some(run.latency_ms),
            Metric::TailLatency => Some(run.p99_ms),
            Metric::Distributed => Some(run.distributed_percent),
            Metric::Moved => Some(run.moved),
            Metric::Imbalance => Some(run.imbalance),
            Metric::CoreTime => Some(run.core_ms),
            Metric::Sent => Some(run.sent_kb),
            Metric::Busy => Some(run.busy * 100.0),
            Metric::Fused => Some(run.fused as f64),
            Metric::Order => part(0),
            Metric::Scheduling => part(1),
            Metric::Locks => part(2),
            Metric::Remote => part(3),
            Metric::Execution => part(4),
            Metric::Answer => part(5),
            Metric::SchedulingShare => Some(run.parts_ms[1] / run.latency_ms * 100.0),
            Metric::FirstSecond => run.change.map(|change| change.first_second * 100.0),
            Metric::Dip => run.change.map(|change| change.dip * 100.0),
            Metric::Last => run.change.map(|change| change.last * 100.0),
            Metric::Settles => run.change.map(|change| change.settles_s),
            Metric::ColdEnd => run.cold_end_s,
        }
    }
}

/// The runs of one system at one point of an experiment.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// The system.
    pub system: String,
    /// The value of the varied parameter.
    pub x: Option<f64>,
    /// The finished runs, one for each seed.
    pub runs: Vec<Measured>,
    /// The reasons why other runs failed.
    pub failures: Vec<String>,
}

impl Sample {
    /// The mean of a metric over all runs; `None` without values.
    pub fn mean(&self, metric: Metric) -> Option<Mean> {
        let values: Vec<f64> = self.runs.iter().filter_map(|run| metric.of(run)).collect();
        Mean::of(&values)
    }
}

impl Measured {
    /// Converts the counts of `seconds` seconds. `used_ns` and `sent` are sums over all sites,
    /// which have `cores` cores in total.
    pub(super) fn of(
        tally: &Tally,
        seconds: f64,
        (used_ns, sent): (u64, u64),
        cores: f64,
        sites: u16,
        changes_s: &[f64],
    ) -> Measured {
        let (count, planned) = (tally.count.max(1) as f64, tally.planned.max(1) as f64);
        let most = tally.routed.iter().copied().max().unwrap_or_default() as f64;
        Measured {
            throughput_per_s: tally.count as f64 / seconds,
            latency_ms: tally.all.mean() / 1e3,
            p99_ms: tally.all.value_at_quantile(0.99) as f64 / 1e3,
            parts_ms: tally.parts_ns.map(|ns| ns as f64 / count / 1e6),
            distributed_percent: tally.distributed as f64 * 100.0 / planned,
            moved: tally.moved as f64 / planned,
            imbalance: most * f64::from(sites) / planned,
            core_ms: used_ns as f64 / count / 1e6,
            sent_kb: sent as f64 / count / 1e3,
            busy: used_ns as f64 / (seconds * 1e9 * cores),
            fused: 0,
            cold_end_s: tally.cold_end_s,
            transactions: tally.count,
            simulated: tally.simulated,
            slices: tally.slices.clone(),
            change: around(&tally.slices, changes_s),
        }
    }
}

/// Mean throughput around the changes at these times. The last time is the end of the measurement.
fn around(slices: &[Slice], changes_s: &[f64]) -> Option<AroundChange> {
    let each = changes_s.windows(2).filter_map(|pair| around_one(slices, pair[0], pair[1]));
    let all: Vec<AroundChange> = each.collect();
    let n = all.len() as f64;
    let mean = |of: fn(&AroundChange) -> f64| all.iter().map(of).sum::<f64>() / n;
    (!all.is_empty()).then(|| AroundChange {
        first_second: mean(|one| one.first_second),
        dip: mean(|one| one.dip),
        last: mean(|one| one.last),
        settles_s: mean(|one| one.settles_s),
    })
}

fn around_one(slices: &[Slice], at_s: f64, until_s: f64) -> Option<AroundChange> {
    let width_s = slices.first()?.end_s;
    let rate = |from: f64, to: f64| {
        let within =
            slices.iter().filter(|slice| slice.end_s > from + 1e-6 && slice.end_s <= to + 1e-6);
        let counts: Vec<u64> = within.map(|slice| slice.count).collect();
        let seconds = counts.len() as f64 * width_s;
        (seconds > 0.0).then(|| counts.iter().sum::<u64>() as f64 / seconds)
    };
    let long_s = (until_s - at_s) / 4.0;
    let before = rate(at_s - long_s, at_s)?;
    let last = rate(until_s - long_s, until_s)?;
    let step_s = width_s.max(1.0f64.min(long_s));
    let starts = |until_s: f64| {
        let count = ((until_s - at_s) / width_s) as usize;
        (0..count).map(move |at| at_s + at as f64 * width_s)
    };
    let over_step = |from: f64| rate(from, from + step_s);
    let dip = starts(at_s + long_s).filter_map(over_step).fold(f64::INFINITY, f64::min);
    let settled =
        starts(until_s).find(|&from| over_step(from).is_some_and(|now| now >= 0.95 * last));
    Some(AroundChange {
        first_second: over_step(at_s)? / before,
        dip: dip / before,
        last: last / before,
        settles_s: settled.unwrap_or(until_s) - at_s,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dip_and_its_length_are_measured() {
        let counts = [10, 10, 10, 10, 10, 2, 2, 12, 20, 20, 20, 20, 20];
        let slice = |(at, &count): (usize, &u64)| Slice {
            end_s: at as f64 + 1.0,
            count,
            ..Slice::default()
        };
        let slices: Vec<Slice> = counts.iter().enumerate().map(slice).collect();
        let change = around(&slices, &[5.0, 13.0]).unwrap();
        let expected = AroundChange { first_second: 0.2, dip: 0.2, last: 2.0, settles_s: 3.0 };
        assert_eq!(change, expected);
        assert_eq!(around(&slices, &[13.0]), None);
    }
}
