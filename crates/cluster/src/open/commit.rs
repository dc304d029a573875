//! The commit of an open transaction: checked writes, whose footprint is what was written.
//!
//! ```text
//!   intents   accounts/7, accounts/700, history/12          strategy: where?
//!   masters   s1          s2            s1
//!                                       at one site          over several
//!   footprint, few writes               their keys           their keys
//!   footprint, many writes              from .. to           their keys: a range would be gathered
//!                                                            with all that is in it
//! ```
//!
//! Whether the rows are brought together first or committed where they are is the strategy's to say
//! ([`Place`](isomer_strategy::Place)); what is asked for is the same.

use crate::router::Router;
use crate::transport::Transport;
use isomer_design::{
    Access, Footprint, Key, KeyRange, Route, RoutingTable, SiteSet, Span, TableId,
};
use isomer_site::CheckedWrites;
use std::collections::BTreeSet;

/// A commit at one site names its keys one by one up to this many; beyond, ranges of them.
const KEYS_MAX: usize = 24;

/// The sites whose logs will hold what a commit writes, or that it was moved away from by an event in their
/// logs.
pub(super) fn logged_at(routing: &RoutingTable, footprint: &Footprint) -> SiteSet {
    match routing.home(footprint) {
        Route::Sites(sites) => sites,
        Route::Nowhere { .. } | Route::UnknownTable(_) => {
            let items = footprint.items().iter();
            let placed = items.filter_map(|item| routing.placement(item.table, item.span.start()));
            placed.map(|placement| placement.master).collect()
        }
    }
}

/// What a commit writes.
pub(super) fn footprint<T: Transport>(router: &Router<T>, writes: &CheckedWrites) -> Footprint {
    let mut footprint = Footprint::new();
    for (&table, rows) in writes {
        if rows.len() <= KEYS_MAX {
            add_keys(&mut footprint, table, rows.keys());
        } else {
            for range in ranges(router, table, rows.keys()) {
                footprint.add(table, Span::Range(range), Access::Write);
            }
        }
    }
    if !matches!(router.routing_table().home(&footprint), Route::Nowhere { .. }) {
        return footprint;
    }
    let mut by_key = Footprint::new();
    writes.iter().for_each(|(table, rows)| add_keys(&mut by_key, *table, rows.keys()));
    by_key
}

fn add_keys<'k>(footprint: &mut Footprint, table: TableId, keys: impl Iterator<Item = &'k Key>) {
    keys.for_each(|key| footprint.add(table, Span::Key(key.clone()), Access::Write));
}

/// For each partition, the range from the first to the last of its keys: locks are the partition's
/// anyway.
fn ranges<'k, T: Transport>(
    router: &Router<T>,
    table: TableId,
    keys: impl Iterator<Item = &'k Key>,
) -> Vec<KeyRange> {
    let design = router.design();
    let mut rest = keys.peekable();
    let mut ranges = BTreeSet::new();
    while let Some(first) = rest.next() {
        let partition = design.partition_of(table, first).map(|(range, _)| range);
        let inside = |key: &&Key| partition.as_ref().is_none_or(|range| range.contains(key));
        let mut last = first;
        while let Some(key) = rest.next_if(inside) {
            last = key;
        }
        ranges.insert((first.clone(), last.successor()));
    }
    ranges.into_iter().map(|(first, end)| KeyRange::new(first, Some(end))).collect()
}
