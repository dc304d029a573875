//! The value of a design for the transactions that are likely to come: the expected benefit E(S) of
//! MorphoSys, section 5.3.2.
//!
//! The samples of the workload represent the future, each with its share of the transactions per
//! second. Under a design, each is placed where it would run, with the waits it would have there:
//!
//! ```text
//!   sample                   before                  after `remaster items[10] s1`
//!   write 3, write 12        800 µs over s1 and s2   80 µs at s1             saved: 720 µs
//!   write 12, write 30       80 µs at s2             800 µs over s1 and s2   lost: 720 µs
//!   write 7                  60 µs at s1             60 µs at s1, busier by the first
//! ```
//!
//! A sample that no site can run alone under the design commits over several sites.
//!
//! The saving is the difference between two designs. It covers all samples that touch the changed
//! ranges, and all transactions of the sites whose load changes. The time is the one for which the
//! future is expected to be like the past ([`Tuning::horizon_ns`]). A design under which single
//! sites can run more transactions is therefore worth more. The result includes its uncertainty:
//! each sample stands for a number of transactions that could by chance have been zero.
//!
//! At most [`Tuning::MANY`] samples are placed, evenly chosen, so the work does not grow with the
//! heat of the changed ranges.

use super::cost::{Effort, Work, queue};
use super::known::Known;
use super::range::Range;
use super::tuning::Tuning;
use super::workload::Sample;
use isomer_design::{Access, Change, Design, Footprint, Placement, SiteId, SiteSet};
use isomer_strategy::{Need, needs};
use std::collections::BTreeMap;

/// The saving of a change within the horizon, in microseconds: the estimate, and its lower bound,
/// which is low if there are few samples.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Saved {
    pub(crate) us: f64,
    pub(crate) surely_us: f64,
}

/// The sites and waits of some samples, per second.
#[derive(Default)]
struct Flow {
    /// The microseconds of all of them, without the service.
    time_us: f64,
    /// Per site: the processor share they use, and the number that runs there alone.
    sites: BTreeMap<SiteId, [f64; 2]>,
}

impl Flow {
    fn add(&mut self, site: SiteId, busy: f64, alone: f64) {
        let sums = self.sites.entry(site).or_default();
        *sums = [sums[0] + busy, sums[1] + alone];
    }
}

impl Known {
    /// The saving within the horizon if `after` replaces `before`. The designs may differ in the
    /// ranges only.
    pub(crate) fn saved(&self, before: &Design, after: &Design, ranges: &[Range]) -> Saved {
        let touching = self.workload.touching_any(ranges);
        let found = touching.samples.len();
        let used = found.min(Tuning::MANY);
        let some: Vec<&Sample> =
            (0..used).map(|at| &**touching.samples[at * found / used]).collect();
        if some.is_empty() {
            return Saved::default();
        }
        let emulated = self.workload.emulated(before, &some, self.tuning.emulated);
        let some: Vec<&Sample> = some.into_iter().chain(&emulated).collect();
        let rate = self.traffic.transactions() / self.workload.len() as f64;
        let per_sample = rate * touching.count() / some.len() as f64;
        let seconds = self.tuning.horizon_ns as f64 / 1e9;
        let (mut then, mut now, mut variance) = (Flow::default(), Flow::default(), 0.0);
        for sample in &some {
            let gained = self.flow(&mut now, before, sample, per_sample)
                - self.flow(&mut then, after, sample, per_sample);
            variance += (seconds * gained).powi(2);
        }
        let us = seconds * (now.time_us - then.time_us - self.service_gained(&now, &then));
        Saved { us, surely_us: us - self.tuning.standard_errors * variance.sqrt() }
    }

    /// The work of a transaction at a site under a design, without the changes that it needs.
    pub(crate) fn work(&self, needs: &[Need], rows: [f64; 2], site: SiteId) -> Work {
        let mut work = Work { load: self.traffic.site(site).busy, rows, ..Work::default() };
        for need in needs {
            match need.access {
                Access::Write => {
                    work.queue_us += self.queue_us(&Range::of(need));
                    work.partitions[1] += 1.0;
                }
                Access::Read => {
                    work.partitions[0] += 1.0;
                    if need.placement.master != site {
                        work.updates = work.updates.max(self.workload.writers(&Range::of(need)));
                    }
                }
            }
        }
        work
    }

    /// The predicted cost of a change of a partition.
    pub(crate) fn change_us(&self, change: &Change, range: &Range, placement: &Placement) -> f64 {
        self.costs.change(change, &self.effort(change, range, placement))
    }

    /// The part of the cost of moving a partition to a site that comes from copying rows.
    pub(crate) fn copying_us(&self, need: &Need, site: SiteId) -> f64 {
        let each = need.changes(site).map(|change| {
            let effort = self.effort(&change, &Range::of(need), &need.placement);
            let [all, rest] = [effort, Effort { rows: 0.0, ..effort }]
                .map(|effort| self.costs.change(&change, &effort));
            (all - rest).max(0.0)
        });
        each.sum()
    }

    /// The effort of a change of a partition.
    pub(crate) fn effort(&self, change: &Change, range: &Range, placement: &Placement) -> Effort {
        let busy = |site: SiteId| self.traffic.site(site).busy;
        let other = match change {
            Change::AddReplica { site, .. } => Some(*site),
            Change::Remaster { to, .. } => Some(*to),
            _ => None,
        };
        let copies = matches!(change, Change::AddReplica { .. } | Change::RemoveReplica { .. });
        Effort {
            load: busy(placement.master) + other.map_or(0.0, busy),
            holder_us: if copies { 0.0 } else { self.holder_us(range) },
            rows: self.rows.get(&range.table).copied().unwrap_or(0.0),
        }
    }

    /// The share of the time for which the lock of a range is held. Above 1, the lock limits the
    /// number of transactions.
    pub(crate) fn held(&self, range: &Range) -> f64 {
        self.writes(range) * self.held_us(range) / 1e6
    }

    /// The number of transactions per second that write to a range.
    fn writes(&self, range: &Range) -> f64 {
        self.traffic.transactions() * self.workload.writers(range)
    }

    /// The time for which each writer of a range holds its lock.
    fn held_us(&self, range: &Range) -> f64 {
        let [usual, _] = self.traffic.held_us();
        self.workload.held_us(range).unwrap_or(usual)
    }

    /// The wait for the lock of a range, if all its writers run at one site.
    fn queue_us(&self, range: &Range) -> f64 {
        let [us, _] = self.traffic.held_us();
        us * queue(self.writes(range) * us / 1e6)
    }

    /// The remaining hold time of the lock holder of a range.
    fn holder_us(&self, range: &Range) -> f64 {
        self.held_us(range) * self.held(range).min(1.0)
    }

    /// Adds `per_second` transactions per second like a sample; returns their time.
    fn flow(&self, flow: &mut Flow, design: &Design, sample: &Sample, per_second: f64) -> f64 {
        let before_us = flow.time_us;
        let needs = needs(design, &sample.footprint);
        let rows = sample.rows.map(|rows| rows as f64);
        let free = free_sites(design, &needs);
        if free.is_empty() {
            let sites = masters(&needs);
            let coordinator =
                sites.first().expect("a transaction that no site can run has accesses");
            flow.time_us += per_second * self.across_us(&needs, coordinator);
            let busy = per_second * self.busy_across(rows, sites.len());
            sites.iter().for_each(|site| flow.add(site, busy, 0.0));
        }
        // The router spreads the transactions that several sites can run.
        let share = per_second / free.len().max(1) as f64;
        free.iter().for_each(|site| self.place(flow, &needs, rows, site, share));
        flow.time_us - before_us
    }

    /// The predicted latency of a transaction that commits over all sites of its partitions.
    pub(crate) fn across_us(&self, needs: &[Need], coordinator: SiteId) -> f64 {
        let work = self.work(needs, [0.0; 2], coordinator);
        self.costs.across(&work, masters(needs).len())
    }

    /// The processor time of a transaction with these rows that runs at one site, in seconds.
    pub(crate) fn busy_alone(&self, [read, written]: [f64; 2]) -> f64 {
        self.costs.load([read, written, 0.0, 1.0, 0.0])
    }

    /// The processor time at each of `sites` sites, if it is distributed over all of them.
    pub(crate) fn busy_across(&self, rows: [f64; 2], sites: usize) -> f64 {
        let [read, written] = rows.map(|rows| rows / sites.max(1) as f64);
        self.costs.load([read, written, 0.0, 0.0, 1.0])
    }

    /// The processor time of a replica for rows that are written elsewhere.
    pub(crate) fn busy_following(&self, rows: f64) -> f64 {
        self.costs.load([0.0, 0.0, rows, 0.0, 0.0])
    }

    fn place(
        &self,
        flow: &mut Flow,
        needs: &[Need],
        rows: [f64; 2],
        site: SiteId,
        per_second: f64,
    ) {
        let parts = self.costs.transaction(&self.work(needs, rows, site));
        flow.time_us += per_second * parts.at_site();
        flow.add(site, per_second * self.busy_alone(rows), per_second);
        let written = needs.iter().filter(|need| need.access == Access::Write);
        let each = rows[1] / written.clone().count().max(1) as f64;
        let followed = per_second * self.busy_following(each);
        for need in written {
            // Every site with a copy must apply the write, except the one that runs the
            // transaction.
            let followers = need.placement.holders().without(site);
            followers.iter().for_each(|follower| flow.add(follower, followed, 0.0));
        }
    }

    /// The additional wait for service per second of all transactions of the sites, if `then`
    /// replaces `now`.
    fn service_gained(&self, now: &Flow, then: &Flow) -> f64 {
        let sites: SiteSet = now.sites.keys().chain(then.sites.keys()).copied().collect();
        let gained = sites.iter().map(|site| {
            let traffic = self.traffic.site(site);
            let [was, will] =
                [now, then].map(|flow| flow.sites.get(&site).copied().unwrap_or_default());
            let busy = (traffic.busy + will[0] - was[0]).max(0.0);
            // The rates of the samples and the counted ones differ a little.
            let before = traffic.transactions.max(was[1]);
            let after = before - was[1] + will[1];
            after * self.costs.service(busy) - before * self.costs.service(traffic.busy)
        });
        gained.sum()
    }
}

/// The sites of a transaction that runs over the masters of its partitions.
pub(crate) fn masters(needs: &[Need]) -> SiteSet {
    needs.iter().map(|need| need.placement.master).collect()
}

/// The sites that can run a transaction alone under the design.
pub(crate) fn free_sites(design: &Design, needs: &[Need]) -> SiteSet {
    let able = needs.iter().map(|need| match need.access {
        Access::Write => SiteSet::of(need.placement.master),
        Access::Read => need.placement.holders(),
    });
    able.reduce(|all, these| &all & &these).unwrap_or_else(|| design.sites().clone())
}

/// The rows of a footprint whose transaction has not run yet: one per item.
pub(crate) fn rows_of(footprint: &Footprint) -> [f64; 2] {
    let written = footprint.items().iter().filter(|item| item.access == Access::Write).count();
    [footprint.items().len() as f64, written as f64]
}
