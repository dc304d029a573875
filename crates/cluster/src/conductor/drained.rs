//! Drained sites: an operator has emptied them, so that their process can be stopped.
//!
//! ```text
//!   ALTER SYSTEM DRAIN SITE 3     a plan with the reason "drain of s3": s3 gets nothing new
//!   the plan is cancelled,        s3 is used like all others
//!   or s3 holds something again
//!   or its process restarts
//! ```
//!
//! While a site is drained, new tables get neither a master nor a backup there. Changes that an
//! operator or a strategy asks for by name are made nevertheless.
//!
//! **Left out.** The next conductor, after this one has failed, does not know which sites are
//! drained.

use super::{Conductor, membership, reconfigure};
use crate::ordered::ahead::Map;
use crate::reconfiguration::Progress;
use crate::transport::Transport;
use isomer_design::{Design, Key, Placement, Plan, RoutingTable, SiteId, SiteSet};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The beginning of the reason of a plan that drains sites.
const REASON: &str = "drain of";

/// The sites that are drained, with the number of the reconfiguration that empties each.
#[derive(Default)]
pub(super) struct Drained(Mutex<BTreeMap<SiteId, u64>>);

/// The reason of a plan that drains these sites.
pub fn drain_reason(sites: &SiteSet) -> String {
    sites.iter().fold(REASON.to_owned(), |reason, site| format!("{reason} {site}"))
}

/// The sites that a plan drains, as its reason says.
pub(super) fn drained_by(plan: &Plan) -> SiteSet {
    let sites = plan.reason.strip_prefix(REASON).unwrap_or_default().split_whitespace();
    sites.filter_map(|site| site.strip_prefix('s')?.parse().ok().map(SiteId)).collect()
}

/// A reconfiguration drains these sites.
pub(super) fn note<T: Transport>(conductor: &Conductor<T>, sites: &SiteSet, number: u64) {
    conductor.drained.0.lock().extend(sites.iter().map(|site| (site, number)));
}

/// The process of a site has restarted.
pub(super) fn forget<T: Transport>(conductor: &Conductor<T>, site: SiteId) {
    conductor.drained.0.lock().remove(&site);
}

/// True if nothing new is to be placed at a site.
pub(crate) fn is_drained<T: Transport>(conductor: &Conductor<T>, site: SiteId) -> bool {
    let Some(number) = conductor.drained.0.lock().get(&site).copied() else { return false };
    match reconfigure::progress_of(conductor, number) {
        Some(Progress::Running | Progress::Paused) => true,
        Some(Progress::Undoing | Progress::Cancelled | Progress::Failed) => false,
        // An operator or a strategy may have used it since.
        Some(Progress::Done) | None => !membership::holds_any(&conductor.design(), site),
    }
}

impl<T: Transport> Map for Conductor<T> {
    fn table(&self) -> Arc<RoutingTable> {
        self.routing_table()
    }

    fn plan(&self) -> Design {
        self.design()
    }

    fn usable(&self) -> SiteSet {
        let sites = self.design().sites().clone();
        let is_free = |site: &SiteId| self.is_usable(*site) && !is_drained(self, *site);
        sites.iter().filter(is_free).collect()
    }

    fn process_of(&self, site: SiteId) -> Option<String> {
        self.transport().reach(site).map(|reach| reach.node)
    }
}

/// Moves the partitions of a new table from drained sites to one that is not, if there is one.
pub(super) fn keep_away<T: Transport>(
    conductor: &Conductor<T>,
    mut partitions: Vec<(Key, Placement)>,
) -> Vec<(Key, Placement)> {
    let design = conductor.design();
    let is_free = |site: &SiteId| conductor.is_usable(*site) && !is_drained(conductor, *site);
    for (_, placement) in &mut partitions {
        if is_drained(conductor, placement.master)
            && let Some(site) = design.sites().iter().find(is_free)
        {
            *placement = Placement::at(site);
        }
    }
    partitions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_plan_says_which_sites_it_drains() {
        let sites: SiteSet = [SiteId(3), SiteId(12)].into_iter().collect();
        let plan = |reason: String| Plan { reason, steps: Vec::new() };
        assert_eq!(drain_reason(&sites), "drain of s3 s12");
        assert_eq!(drained_by(&plan(drain_reason(&sites))), sites);
        assert_eq!(drained_by(&plan("asked for in SQL".to_owned())), SiteSet::default());
    }
}
