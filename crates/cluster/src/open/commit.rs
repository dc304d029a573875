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
//! **A serializable commit** names its reads as well, and as if they were writes. They are locked
//! at their masters until the commit has its time, and validated under these locks ([`ReadSet`]).
//! If one site serves all reads, many spans of a partition become one range. Over several sites
//! each span is named, and its rows are gathered once more.
//!
//! The strategy decides whether the rows are brought together first, or committed where they are
//! ([`Place`](isomer_strategy::Place)). The request is the same.

use crate::router::Router;
use crate::transport::Transport;
use isomer_design::{
    Access, Footprint, Key, KeyRange, Route, RoutingTable, SiteSet, Span, TableId,
};
use isomer_site::{CheckedWrites, ReadSet};
use std::collections::BTreeSet;

/// The most keys that a commit at one site names one by one. Beyond, it names ranges.
const KEYS_MAX: usize = 24;

/// The sites whose logs will hold the writes of a commit. If rows have to move first, these are
/// their current masters, whose logs will hold the event of the move.
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

/// The footprint of a commit: its writes, and the reads that are validated.
pub(super) fn footprint<T: Transport>(
    router: &Router<T>,
    writes: &CheckedWrites,
    reads: &ReadSet,
) -> Footprint {
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
    for (table, spans) in reads.tables() {
        if spans.len() <= KEYS_MAX {
            add_spans(&mut footprint, table, spans);
        } else {
            for range in hulls(router, table, spans) {
                footprint.add(table, Span::Range(range), Access::Write);
            }
        }
    }
    if !matches!(router.routing_table().home(&footprint), Route::Nowhere { .. }) {
        return footprint;
    }
    let mut by_key = Footprint::new();
    writes.iter().for_each(|(table, rows)| add_keys(&mut by_key, *table, rows.keys()));
    reads.tables().for_each(|(table, spans)| add_spans(&mut by_key, table, spans));
    by_key
}

fn add_spans<'s>(footprint: &mut Footprint, table: TableId, spans: impl Iterator<Item = &'s Span>) {
    spans.for_each(|span| footprint.add(table, span.clone(), Access::Write));
}

/// For each partition in which spans begin, a range that covers all of each of them.
fn hulls<'s, T: Transport>(
    router: &Router<T>,
    table: TableId,
    spans: impl Iterator<Item = &'s Span>,
) -> Vec<KeyRange> {
    let design = router.design();
    let mut rest = spans.peekable();
    let mut hulls = Vec::new();
    while let Some(first) = rest.next() {
        let partition = design.partition_of(table, first.start()).map(|(range, _)| range);
        let inside = |span: &&Span| partition.as_ref().is_none_or(|p| p.contains(span.start()));
        let mut end = end_of(first);
        while let Some(span) = rest.next_if(inside) {
            end = later_end(end, end_of(span));
        }
        hulls.push(KeyRange::new(first.start().clone(), end));
    }
    hulls
}

/// The exclusive end of a span, if it has one.
fn end_of(span: &Span) -> Option<Key> {
    match span {
        Span::Key(key) => Some(key.successor()),
        Span::Range(range) => range.end.clone(),
    }
}

fn later_end(one: Option<Key>, other: Option<Key>) -> Option<Key> {
    Some(one?.max(other?))
}

fn add_keys<'k>(footprint: &mut Footprint, table: TableId, keys: impl Iterator<Item = &'k Key>) {
    keys.for_each(|key| footprint.add(table, Span::Key(key.clone()), Access::Write));
}

/// For each partition, the range from the first to the last of its keys. The partition is locked as
/// a whole anyway.
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
