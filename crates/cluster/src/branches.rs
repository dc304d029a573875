//! The distribution of a transaction's footprint over several sites.
//!
//! Writes are served by their master. A read is served by a site that takes part anyway, if one
//! holds the rows, so that few sites take part:
//!
//! ```text
//!   accounts   [..5) s1      [5..10) s2, replica s3      [10..) s3
//!
//!   write 3, write 12, read 7, read [8..11)     coordinator s1
//!   s1: write 3       s3: write 12, read 7, read [8..10), read [10..11)       s2: nothing
//! ```

use isomer_design::{
    Access, Footprint, Item, KeyRange, Placement, RoutingTable, SiteId, SiteSet, Span, TableId,
};
use std::collections::BTreeMap;

/// The footprint of a transaction by site, under a routing table. Tables that do not exist are left
/// out.
pub(crate) fn branches(
    routing: &RoutingTable,
    footprint: &Footprint,
    coordinator: SiteId,
    ticket: u64,
) -> BTreeMap<SiteId, Footprint> {
    let mut branches: BTreeMap<SiteId, Footprint> = BTreeMap::new();
    for access in [Access::Write, Access::Read] {
        let items = footprint.items().iter().filter(|item| item.access == access);
        for (table, span, placement) in items.flat_map(|item| pieces(routing, item)) {
            let taking_part = |site: &SiteId| branches.contains_key(site);
            let holders = placement.holders();
            let site = match access {
                Access::Write => placement.master,
                Access::Read if holders.contains(coordinator) => coordinator,
                Access::Read => {
                    holders.iter().find(taking_part).unwrap_or_else(|| any(&holders, ticket))
                }
            };
            branches.entry(site).or_default().add(table, span, access);
        }
    }
    branches
}

fn any(sites: &SiteSet, ticket: u64) -> SiteId {
    let at = ticket as usize % sites.len();
    sites.nth(at).expect("a partition has at least one holder")
}

/// An item, cut at the borders of different placements.
fn pieces(routing: &RoutingTable, item: &Item) -> Vec<(TableId, Span, Placement)> {
    let mut pieces = Vec::new();
    let range = match &item.span {
        Span::Key(key) => {
            let placement = routing.placement(item.table, key);
            return placement
                .map(|p| (item.table, item.span.clone(), p.clone()))
                .into_iter()
                .collect();
        }
        Span::Range(range) => range,
    };
    let mut rest = range.clone();
    while !rest.is_empty() {
        let Some((placement, next)) = routing.stretch(item.table, &rest.start) else { break };
        let next = next.filter(|next| rest.is_below_end(next)).cloned();
        let piece = KeyRange::new(rest.start.clone(), next.clone().or_else(|| rest.end.clone()));
        pieces.push((item.table, Span::Range(piece), placement.clone()));
        match next {
            Some(next) => rest.start = next,
            None => break,
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_design::{Column, ColumnType, Design, Key, Schema};

    const ACCOUNTS: TableId = TableId(1);

    #[test]
    fn the_example_above_holds() {
        let mut design = Design::new([1, 2, 3].map(SiteId)).unwrap();
        let schema = Schema::new("accounts", vec![Column::new("id", ColumnType::Int64)], &["id"]);
        let at = |site: u16, replicas: &[u16]| {
            Placement::new(SiteId(site), replicas.iter().map(|&site| SiteId(site)))
        };
        let partitions =
            [(Key::min(), at(1, &[])), (Key::int(5), at(2, &[3])), (Key::int(10), at(3, &[]))];
        design.create_table(ACCOUNTS, schema.unwrap(), partitions).unwrap();
        let footprint = Footprint::new()
            .write(ACCOUNTS, Key::int(3))
            .write(ACCOUNTS, Key::int(12))
            .read(ACCOUNTS, Key::int(7))
            .read_range(ACCOUNTS, KeyRange::ints(8, 11));
        let branches = branches(&RoutingTable::of(&design), &footprint, SiteId(1), 0);
        let words: Vec<String> =
            branches.iter().map(|(site, share)| format!("{site}: {share}")).collect();
        let third = "s3: read t1[7], read t1[8..10), read t1[10..11), write t1[12]";
        assert_eq!(words, ["s1: write t1[3]", third]);
    }
}
