//! What a design means for the transactions that are likely to come: the expected benefit E(S) of
//! MorphoSys, section 5.3.2.
//!
//! The samples of the workload stand for the future: each for so many transactions a second. Under
//! a design, each of them is placed where it would run, with what it would have to wait for:
//!
//! ```text
//!   sample                   before                  after `remaster items[10] s1`
//!   write 3, write 12        800 µs over s1 and s2   80 µs at s1             saved: 720 µs
//!   write 12, write 30       80 µs at s2             800 µs over s1 and s2   lost: 720 µs
//!   write 7                  60 µs at s1             60 µs at s1, busier by the first
//! ```
//!
//! A sample that no site can run as the design is commits over several.
//!
//! What is saved is the difference, for all samples that touch what changes, and for all
//! transactions of the sites whose load changes, over the time for which the future is thought to
//! be like the past ([`Tuning::horizon_ns`]). So designs under which one site can
//! run more are worth more, and those that take that away are worth less. How much of it may be
//! chance is told with it: each sample stands for a number of transactions that could as well have
//! been none.
//!
//! At most [`Tuning::MANY`] samples are placed, evenly chosen, so the work does not grow with the
//! heat of what changes.

use super::cost::{Effort, Work, queue};
use super::known::Known;
use super::range::Range;
use super::tuning::Tuning;
use super::workload::Sample;
use isomer_design::{Access, Change, Design, Footprint, Placement, SiteId, SiteSet};
use isomer_strategy::{Need, needs};
use std::collections::BTreeMap;

/// What a change saves within the horizon, in microseconds; and at least, as far as can be told: few samples say little.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Saved {
    pub(crate) us: f64,
    pub(crate) surely_us: f64,
}

/// Where some samples run, and what they wait for; per second.
#[derive(Default)]
struct Flow {
    /// Microseconds of all of them, but for the service.
    time_us: f64,
    /// How busy each site is with them, and how many run there alone.
    sites: BTreeMap<SiteId, [f64; 2]>,
}

impl Flow {
    fn add(&mut self, site: SiteId, busy: f64, alone: f64) {
        let sums = self.sites.entry(site).or_default();
        *sums = [sums[0] + busy, sums[1] + alone];
    }
}

impl Known {
    /// What is saved within the horizon, if `after` takes the place of `before`. They may differ in
    /// the ranges only.
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

    /// What a transaction will take at a site under a design, without the changes that it needs.
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

    /// What a change of a partition takes.
    pub(crate) fn change_us(&self, change: &Change, range: &Range, placement: &Placement) -> f64 {
        self.costs.change(change, &self.effort(change, range, placement))
    }

    /// Of what it takes to bring a partition to a site, what copying rows does.
    pub(crate) fn copying_us(&self, need: &Need, site: SiteId) -> f64 {
        let each = need.changes(site).map(|change| {
            let effort = self.effort(&change, &Range::of(need), &need.placement);
            let [all, rest] = [effort, Effort { rows: 0.0, ..effort }]
                .map(|effort| self.costs.change(&change, &effort));
            (all - rest).max(0.0)
        });
        each.sum()
    }

    /// What a change of a partition has to do.
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

    /// For which share of all time the lock of a range is held. Above one, there would be more
    /// transactions if it were not for this lock.
    pub(crate) fn held(&self, range: &Range) -> f64 {
        self.writes(range) * self.held_us(range) / 1e6
    }

    /// How many transactions a second write to a range.
    fn writes(&self, range: &Range) -> f64 {
        self.traffic.transactions() * self.workload.writers(range)
    }

    /// For how long each who writes to a range holds its lock.
    fn held_us(&self, range: &Range) -> f64 {
        let [usual, _] = self.traffic.held_us();
        self.workload.held_us(range).unwrap_or(usual)
    }

    /// How long the lock of a range is waited for, if all who write there run at one site.
    fn queue_us(&self, range: &Range) -> f64 {
        let [us, _] = self.traffic.held_us();
        us * queue(self.writes(range) * us / 1e6)
    }

    /// What whoever holds the lock of a range still needs.
    fn holder_us(&self, range: &Range) -> f64 {
        self.held_us(range) * self.held(range).min(1.0)
    }

    /// Adds so many transactions a second like a sample; gives what they take.
    fn flow(&self, flow: &mut Flow, design: &Design, sample: &Sample, per_second: f64) -> f64 {
        let before_us = flow.time_us;
        let needs = needs(design, &sample.footprint);
        let rows = sample.rows.map(|rows| rows as f64);
        let free = free_sites(design, &needs);
        if free.is_empty() {
            let sites = masters(&needs);
            let coordinator = sites.first().expect("what no site can run accesses something");
            flow.time_us += per_second * self.across_us(&needs, coordinator);
            let busy = per_second * self.busy_across(rows, sites.len());
            sites.iter().for_each(|site| flow.add(site, busy, 0.0));
        }
        // The router spreads what several sites can run.
        let share = per_second / free.len().max(1) as f64;
        free.iter().for_each(|site| self.place(flow, &needs, rows, site, share));
        flow.time_us - before_us
    }

    /// What a transaction will take that commits over all the sites where its partitions are.
    pub(crate) fn across_us(&self, needs: &[Need], coordinator: SiteId) -> f64 {
        let work = self.work(needs, [0.0; 2], coordinator);
        self.costs.across(&work, masters(needs).len())
    }

    /// For how long a transaction that reads and writes so many rows keeps a site busy, in seconds, if it runs there
    /// alone.
    pub(crate) fn busy_alone(&self, [read, written]: [f64; 2]) -> f64 {
        self.costs.load([read, written, 0.0, 1.0, 0.0])
    }

    /// And each of so many sites, if it runs over all of them.
    pub(crate) fn busy_across(&self, rows: [f64; 2], sites: usize) -> f64 {
        let [read, written] = rows.map(|rows| rows / sites.max(1) as f64);
        self.costs.load([read, written, 0.0, 0.0, 1.0])
    }

    /// And whoever follows so many rows that are written elsewhere.
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
            // Whoever holds a copy, but for the site that runs it, has to follow.
            let followers = need.placement.holders().without(site);
            followers.iter().for_each(|follower| flow.add(follower, followed, 0.0));
        }
    }

    /// How much more all transactions of the sites wait for service per second, if `then` takes the
    /// place of `now`.
    fn service_gained(&self, now: &Flow, then: &Flow) -> f64 {
        let sites: SiteSet = now.sites.keys().chain(then.sites.keys()).copied().collect();
        let gained = sites.iter().map(|site| {
            let traffic = self.traffic.site(site);
            let [was, will] =
                [now, then].map(|flow| flow.sites.get(&site).copied().unwrap_or_default());
            let busy = (traffic.busy + will[0] - was[0]).max(0.0);
            // What the samples say and what was counted differ a little.
            let before = traffic.transactions.max(was[1]);
            let after = before - was[1] + will[1];
            after * self.costs.service(busy) - before * self.costs.service(traffic.busy)
        });
        gained.sum()
    }
}

/// The sites that a transaction runs over if it is run where its partitions are.
pub(crate) fn masters(needs: &[Need]) -> SiteSet {
    needs.iter().map(|need| need.placement.master).collect()
}

/// The sites that can run a transaction as the design is.
pub(crate) fn free_sites(design: &Design, needs: &[Need]) -> SiteSet {
    let able = needs.iter().map(|need| match need.access {
        Access::Write => SiteSet::of(need.placement.master),
        Access::Read => need.placement.holders(),
    });
    able.reduce(|all, these| &all & &these).unwrap_or_else(|| design.sites().clone())
}

/// Rows of a footprint whose transaction has not run yet: one for each item.
pub(crate) fn rows_of(footprint: &Footprint) -> [f64; 2] {
    let written = footprint.items().iter().filter(|item| item.access == Access::Write).count();
    [footprint.items().len() as f64, written as f64]
}
