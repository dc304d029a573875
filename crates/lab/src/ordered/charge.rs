//! The core time that each part of a step costs, derived from its plan.
//!
//! ```text
//!   scheduler   at every site: plan + items·plan_item + sites·plan_cell for each transaction of
//!               the batch (without plan_cell if the router places transactions one by one);
//!               lock for each lock at this site
//!   begin       read the rows held here, remove those that move away, send to each executor
//!   run         begin, the transaction's own code, writes and arriving rows, commit, answer
//! ```

use super::spec::Cluster;
use crate::costs::{Costs, MESSAGE_BYTES};
use isomer_batch::{Leg, Plan, Step, Work};
use isomer_design::{Access, SiteId, Span};

/// The costs in nanoseconds of a core of the virtual machines.
pub(super) struct Charge {
    pub(super) costs: Costs,
    logic_ns: f64,
    record_bytes: u64,
    /// True if the router considers every site for each transaction.
    looks_ahead: bool,
    /// The number of records of a chunk of cold records.
    chunk: u64,
}

/// The cost of a batch for the scheduler of each site.
pub(super) struct Scheduling {
    plan_ns: f64,
    /// The number of locks, by site number.
    locks: Vec<u32>,
}

impl Charge {
    pub(super) fn new(costs: &Costs, cluster: &Cluster, looks_ahead: bool, chunk: u64) -> Charge {
        let costs = costs.slowed(cluster.slowdown);
        Charge {
            costs,
            logic_ns: cluster.logic_us * 1000.0,
            record_bytes: cluster.record_bytes,
            looks_ahead,
            chunk,
        }
    }

    /// The cost of a batch at the schedulers of all sites.
    pub(super) fn scheduling(&self, plan: &Plan, sites: usize) -> Scheduling {
        let mut locks = vec![0; sites + 1];
        let (mut items, mut calls) = (0, 0);
        for step in &plan.steps {
            items += step.legs.len();
            calls += usize::from(step.work != Work::Carry);
            for leg in &step.legs {
                for site in 1..=sites as u16 {
                    locks[usize::from(site)] += u32::from(leg.is_locked_at(SiteId(site)));
                }
            }
        }
        let cells = if self.looks_ahead { sites } else { 0 };
        let per_call = self.costs.plan + cells as f64 * self.costs.plan_cell;
        let plan_ns = calls as f64 * per_call + items as f64 * self.costs.plan_item;
        Scheduling { plan_ns, locks }
    }

    /// The number of records of a leg. A range is a moving chunk.
    fn records(&self, leg: &Leg) -> u64 {
        match leg.span().1 {
            Span::Key(_) => 1,
            Span::Range(_) => self.chunk,
        }
    }

    /// The cost of beginning a step at a site: reading, removing rows that move away, and pushing.
    pub(super) fn begin_ns(&self, step: &Step, site: SiteId) -> u64 {
        let here = || step.legs.iter().filter(|leg| leg.is_from(site));
        let read: u64 = here().map(|leg| self.records(leg)).sum();
        let leaves = here().filter(|leg| moves_from(leg, site));
        let removed: u64 = leaves.map(|leg| self.records(leg)).sum();
        let others = step.executors.iter().filter(|&&other| other != site).count();
        let pushes = if read > 0 { others } else { 0 };
        let Costs { read: read_ns, write, send, .. } = self.costs;
        (read as f64 * read_ns + removed as f64 * write + pushes as f64 * send) as u64
    }

    /// The cost of running a step at a site.
    pub(super) fn run_ns(&self, step: &Step, site: SiteId) -> u64 {
        let stays = |leg: &&Leg| match leg {
            Leg::Record { to, access, .. } => *to == site && *access == Access::Write,
            Leg::Range { to, .. } => *to == Some(site),
        };
        let written: u64 = step.legs.iter().filter(stays).map(|leg| self.records(leg)).sum();
        let Costs { begin, write, commit, send, .. } = self.costs;
        let mut ns = written as f64 * write + if written > 0 { commit } else { 0.0 };
        if step.work != Work::Carry {
            ns += begin + self.logic_ns;
            ns += if step.executors[0] == site { send } else { 0.0 };
        }
        ns as u64
    }

    /// The size of a push of a step in bytes.
    pub(super) fn push_bytes(&self, step: &Step, from: SiteId) -> u64 {
        let here = step.legs.iter().filter(|leg| leg.is_from(from));
        MESSAGE_BYTES + here.map(|leg| self.records(leg) * self.record_bytes).sum::<u64>()
    }
}

impl Scheduling {
    pub(super) fn ns(&self, site: SiteId, costs: &Costs) -> u64 {
        (self.plan_ns + f64::from(self.locks[usize::from(site.0)]) * costs.lock) as u64
    }
}

fn moves_from(leg: &Leg, site: SiteId) -> bool {
    match leg {
        Leg::Record { from, to, .. } => *from == site && *to != site,
        Leg::Range { to, .. } => to.is_some_and(|to| to != site),
    }
}
