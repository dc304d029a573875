//! Makes only those changes without which a transaction cannot run.
//!
//! If no site masters the write set and holds the read set, this strategy enables one site to do
//! so. For each written partition that the site does not master, it remasters the partition, after
//! adding a replica if the site has none. For each read partition that the site does not hold, it
//! adds a replica.
//!
//! It chooses the site with the lowest cost. A replica costs as much as ten remasters, because its
//! rows must be copied. Among equals it chooses the site that has run the fewest transactions, so
//! that a distributed workload stays distributed.
//!
//! ```text
//!   write 5, write 12, read 30          needs at s1              at s2
//!   [0..10)  master s1, replica s2      –                        remaster
//!   [10..20) master s2                  replica, remaster        –
//!   [30..40) master s1                  –                        replica
//!                                       11                       11
//! ```
//!
//! Left out: the effects of the changes on later transactions. The learned strategy considers them.

use crate::needs::{Need, needs};
use crate::{Decision, Refused, Report, Request, Strategy, Verdict, pick};
use isomer_design::{Plan, Route, SITES_MAX, SiteId};
use std::sync::atomic::{AtomicU64, Ordering};

const REMASTER_COST: u64 = 1;
const REPLICA_COST: u64 = 10;

/// See the [module documentation](self).
pub struct OnDemand {
    /// The number of transactions that ran at each site, by site id. Used only to choose among
    /// sites of equal cost.
    ran: Vec<AtomicU64>,
}

impl Default for OnDemand {
    fn default() -> OnDemand {
        OnDemand { ran: (0..=SITES_MAX).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Strategy for OnDemand {
    fn name(&self) -> &'static str {
        "on-demand"
    }

    fn decide(&self, request: &Request<'_>) -> Result<Verdict, Refused> {
        match &request.route {
            Route::Sites(sites) => Ok(Verdict::Run(Decision::at(pick(sites, request)))),
            Route::UnknownTable(table) => Err(Refused::UnknownTable(*table)),
            Route::Nowhere { .. } if request.reserved => Ok(Verdict::Run(self.arrange(request))),
            Route::Nowhere { .. } => Ok(Verdict::Reserve),
        }
    }

    fn observe(&self, report: &Report<'_>) {
        self.ran[usize::from(report.site.0)].fetch_add(1, Ordering::Relaxed);
    }

    fn memory(&self, _design: &isomer_design::Design) -> Option<String> {
        None
    }

    fn recall(&self, _memory: &str) -> Result<(), String> {
        Ok(())
    }
}

impl OnDemand {
    fn arrange(&self, request: &Request<'_>) -> Decision {
        let design = (request.design)();
        let needs = needs(&design, request.footprint);
        let busy = |site: SiteId| self.ran[usize::from(site.0)].load(Ordering::Relaxed);
        let rank = |site: &SiteId| (cost(&needs, *site), busy(*site), *site);
        // Sites without any copy cost more than any site with one.
        let holders = needs.iter().map(|need| need.placement.holders());
        let sites = holders.reduce(|all, these| &all | &these).unwrap_or_default();
        let site =
            sites.iter().min_by_key(rank).expect("an unroutable transaction has a partition");
        let others: Vec<String> = sites
            .iter()
            .filter(|&other| other != site)
            .map(|other| format!("{other}: {}", cost(&needs, other)))
            .collect();
        let reason = format!(
            "one site must run a transaction over {} partitions; {site} needs least: {} ({})",
            needs.len(),
            cost(&needs, site),
            others.join(", ")
        );
        let mut first = Plan::new(reason);
        needs.iter().flat_map(|need| need.steps(site)).for_each(|step| first.push(step));
        Decision { first, ..Decision::at(site) }
    }
}

fn cost(needs: &[Need], site: SiteId) -> u64 {
    let each = needs.iter().map(|need| {
        let replica = if need.lacks_replica(site) { REPLICA_COST } else { 0 };
        let remaster = if need.lacks_master(site) { REMASTER_COST } else { 0 };
        replica + remaster
    });
    each.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Place, Stage, Static};
    use isomer_design::{
        Change, Column, ColumnType, Design, Footprint, Key, Placement, RoutingTable, Schema,
        TableId, Time,
    };

    const ITEMS: TableId = TableId(1);

    fn design() -> Design {
        let mut design = Design::new([1, 2, 3].map(SiteId)).unwrap();
        let schema = Schema::new("items", vec![Column::new("id", ColumnType::Int64)], &["id"]);
        let at = |site: u16, replicas: &[u16]| {
            Placement::new(SiteId(site), replicas.iter().map(|&site| SiteId(site)))
        };
        let partitions =
            [(Key::min(), at(1, &[2])), (Key::int(10), at(2, &[])), (Key::int(30), at(1, &[]))];
        design.create_table(ITEMS, schema.unwrap(), partitions).unwrap();
        design
    }

    fn decide(strategy: &dyn Strategy, footprint: &Footprint) -> Result<Decision, Refused> {
        let design = design();
        let route = RoutingTable::of(&design).home(footprint);
        let design = &|| design.clone();
        let (last_site, ticket, now, reserved) = (None, 0, Time::ZERO, true);
        let stage = Stage::Whole;
        let request = Request { footprint, route, last_site, ticket, now, reserved, stage, design };
        strategy.decide(&request).map(|verdict| match verdict {
            Verdict::Run(decision) => decision,
            Verdict::Reserve => panic!("it was reserved"),
        })
    }

    #[test]
    fn a_transaction_of_one_site_runs_there_without_changes() {
        let footprint = Footprint::new().write(ITEMS, Key::int(5)).read(ITEMS, Key::int(31));
        assert_eq!(decide(&OnDemand::default(), &footprint), Ok(Decision::at(SiteId(1))));
        assert_eq!(decide(&Static, &footprint), Ok(Decision::at(SiteId(1))));
    }

    #[test]
    fn missing_copies_move_to_the_site_with_the_lowest_cost() {
        let footprint = Footprint::new().write(ITEMS, Key::int(5)).write(ITEMS, Key::int(12));
        let decision = decide(&OnDemand::default(), &footprint).unwrap();
        assert_eq!(
            decision.place,
            Place::At(SiteId(2)),
            "a replica of 5 is there, so a remaster is enough"
        );
        let changes: Vec<String> = decision.first.changes().map(Change::to_string).collect();
        assert_eq!(changes, ["remaster t1[] s2"]);
        assert!(decision.first.validate(&design()).is_ok());
    }

    #[test]
    fn a_static_design_refuses_and_says_what_would_help() {
        let footprint = Footprint::new().write(ITEMS, Key::int(5)).write(ITEMS, Key::int(12));
        let refused = decide(&Static, &footprint).unwrap_err().to_string();
        assert!(
            refused.contains("`static` does not change the design; use `on-demand`"),
            "{refused}"
        );
    }
}
