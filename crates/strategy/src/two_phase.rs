//! A strategy that never changes the design and runs transactions across several sites.
//!
//! A transaction that a single site can run runs there. Any other runs at several sites by
//! two-phase commit. Its coordinator is the site that masters the most written partitions; among
//! equals, the one that holds the most partitions of the footprint; among these, one chosen by
//! ticket, to spread the work. This is how a partitioned database with a fixed design behaves.

use crate::{Decision, Refused, Request, Strategy, Verdict, pick};
use isomer_design::{Access, Placement, Route, SiteId, Span};
use std::collections::BTreeMap;

/// The size of the ring of site ids on which ties are broken. The ticket rotates the ring, and the
/// site that is last on it wins.
const TURNS: u64 = 65;

/// See the [module documentation](self).
#[derive(Clone, Copy, Default, Debug)]
pub struct TwoPhase;

impl Strategy for TwoPhase {
    fn name(&self) -> &'static str {
        "static-2pc"
    }

    fn decide(&self, request: &Request<'_>) -> Result<Verdict, Refused> {
        match &request.route {
            Route::Sites(sites) => Ok(Verdict::Run(Decision::at(pick(sites, request)))),
            Route::UnknownTable(table) => Err(Refused::UnknownTable(*table)),
            Route::Nowhere { .. } => Ok(Verdict::Run(Decision::across(coordinator(request)))),
        }
    }

    fn memory(&self, _design: &isomer_design::Design) -> Option<String> {
        None
    }

    fn recall(&self, _memory: &str) -> Result<(), String> {
        Ok(())
    }
}

/// Chooses the coordinator of a distributed transaction.
pub fn coordinator(request: &Request<'_>) -> SiteId {
    let design = (request.design)();
    // By site: the numbers of written partitions that it masters, and of partitions that it holds.
    let mut tally = BTreeMap::<SiteId, (u32, u32)>::new();
    let mut count = |access: Access, placement: Placement| {
        if access == Access::Write {
            tally.entry(placement.master).or_default().0 += 1;
        }
        placement.holders().iter().for_each(|site| tally.entry(site).or_default().1 += 1);
    };
    for item in request.footprint.items() {
        match &item.span {
            Span::Key(key) => {
                let found = design.partition_of(item.table, key);
                found.into_iter().for_each(|(_, placement)| count(item.access, placement));
            }
            Span::Range(range) => {
                let found = design.partitions_in(item.table, range);
                found.for_each(|(_, placement)| count(item.access, placement));
            }
        }
    }
    let turn = |site: SiteId| (u64::from(site.0) + request.ticket) % TURNS;
    let site = tally.into_iter().max_by_key(|(site, has)| (*has, turn(*site)));
    site.expect("a transaction that no site can run accesses something").0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Place;
    use crate::Stage;
    use isomer_design::{
        Column, ColumnType, Design, Footprint, Key, KeyRange, RoutingTable, Schema, TableId, Time,
    };

    const ITEMS: TableId = TableId(1);

    fn decide(footprint: &Footprint, ticket: u64) -> Place {
        let mut design = Design::new([1, 2, 3].map(SiteId)).unwrap();
        let schema = Schema::new("items", vec![Column::new("id", ColumnType::Int64)], &["id"]);
        let at = |site: u16| Placement::at(SiteId(site));
        let partitions = [(Key::min(), at(1)), (Key::int(10), at(2)), (Key::int(20), at(3))];
        design.create_table(ITEMS, schema.unwrap(), partitions).unwrap();
        let route = RoutingTable::of(&design).home(footprint);
        let (now, design) = (Time::ZERO, &|| design.clone());
        let (last_site, reserved, stage) = (None, false, Stage::Whole);
        let request = Request { footprint, route, last_site, ticket, now, reserved, stage, design };
        let Verdict::Run(decision) = TwoPhase.decide(&request).unwrap() else {
            panic!("this strategy reserves nothing")
        };
        assert!(decision.first.is_empty(), "the design never changes");
        decision.place
    }

    #[test]
    fn a_transaction_of_one_site_runs_there() {
        let footprint = Footprint::new().write(ITEMS, Key::int(12)).read(ITEMS, Key::int(15));
        assert_eq!(decide(&footprint, 0), Place::At(SiteId(2)));
    }

    #[test]
    fn the_site_with_most_writes_coordinates_then_the_one_with_most_copies() {
        let footprint =
            Footprint::new().write(ITEMS, Key::int(22)).read_range(ITEMS, KeyRange::ints(0, 20));
        assert_eq!(decide(&footprint, 0), Place::Distributed { coordinator: SiteId(3) });
        let footprint = Footprint::new()
            .write(ITEMS, Key::int(1))
            .write(ITEMS, Key::int(12))
            .read(ITEMS, Key::int(13));
        assert_eq!(decide(&footprint, 0), Place::Distributed { coordinator: SiteId(2) });
    }

    #[test]
    fn equal_sites_take_turns() {
        let footprint = Footprint::new().write(ITEMS, Key::int(1)).write(ITEMS, Key::int(12));
        let chosen: Vec<Place> = (0..200).map(|ticket| decide(&footprint, ticket)).collect();
        for coordinator in [SiteId(1), SiteId(2)] {
            assert!(chosen.contains(&Place::Distributed { coordinator }));
        }
    }
}
