//! From what the sites hold to the design: how a database that was stopped anywhere goes on.
//!
//! The design is not kept anywhere as such: each site knows from its own log what it masters and what
//! it replicates, and that is the design. If the database stopped in the middle of a change, the sites'
//! accounts show how far it had come, and what is left to do:
//!
//! | found | so the change | to do |
//! | --- | --- | --- |
//! | a range that nobody masters, released to a site | remaster had begun | that site acquires it |
//! | a follower that holds no copy | add_replica had begun, or remove_replica was nearly done | the master lets it go |
//! | a copy at a site that does not follow | remove_replica had begun, or add_replica was refused | the site drops it |
//! | a range that nobody has | the table was being created | a site creates it |
//! | a table that the catalog does not have | drop_table had begun | whoever holds it forgets it |
//!
//! A pure function; carried out by [`crate::Database::open`].

use isomer_design::{Design, Key, KeyRange, Placement, Schema, SiteId, SiteSet, TableId};
use isomer_site::{Holding, Step};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The design, and the steps that make it wholly true.
pub(crate) struct Assembled {
    pub(crate) design: Design,
    pub(crate) repairs: Vec<(SiteId, Step)>,
}

/// Puts a design together. `holdings` are those of each site.
///
/// # Errors
/// A sentence, if two sites claim to master the same keys, or a site is missing.
pub(crate) fn assemble(
    tables: &[(TableId, Arc<Schema>)],
    holdings: &[(SiteId, Vec<Holding>)],
) -> Result<Assembled, String> {
    let sites = holdings.iter().map(|(site, _)| *site);
    let mut design = Design::new(sites).map_err(|invalid| invalid.to_string())?;
    let mut repairs = Vec::new();
    for (table, schema) in tables {
        let all = |site: &SiteId, held: &[Holding]| -> Vec<(SiteId, Holding)> {
            held.iter().filter(|h| h.table == *table).map(|h| (*site, h.clone())).collect()
        };
        let held: Vec<(SiteId, Holding)> =
            holdings.iter().flat_map(|(site, held)| all(site, held)).collect();
        let partitions = partitions(*table, schema, &held, holdings[0].0, &mut repairs)?;
        design
            .create_table(*table, schema.clone(), partitions)
            .map_err(|invalid| invalid.to_string())?;
        drop_strays(*table, &design, &held, &mut repairs);
    }
    forget_strangers(tables, holdings, &mut repairs);
    Ok(Assembled { design, repairs })
}

fn forget_strangers(
    tables: &[(TableId, Arc<Schema>)],
    holdings: &[(SiteId, Vec<Holding>)],
    repairs: &mut Vec<(SiteId, Step)>,
) {
    let known: BTreeSet<TableId> = tables.iter().map(|(table, _)| *table).collect();
    for (site, held) in holdings {
        let held: BTreeSet<TableId> = held.iter().map(|holding| holding.table).collect();
        repairs.extend(held.difference(&known).map(|table| (*site, Step::Forget(*table))));
    }
}

fn partitions(
    table: TableId,
    schema: &Schema,
    held: &[(SiteId, Holding)],
    first_site: SiteId,
    repairs: &mut Vec<(SiteId, Step)>,
) -> Result<Vec<(Key, Placement)>, String> {
    let mut masters: Vec<&(SiteId, Holding)> =
        held.iter().filter(|(_, holding)| holding.source.is_none()).collect();
    masters.sort_by(|(_, a), (_, b)| a.range.cmp(&b.range));
    let mut partitions = Vec::new();
    let mut from = Some(Key::min());
    for (site, holding) in masters {
        let Some(next) = &from else { return Err(overlap(schema, *site, &holding.range)) };
        if holding.range.start < *next {
            return Err(overlap(schema, *site, &holding.range));
        }
        let gap = KeyRange::new(next.clone(), Some(holding.range.start.clone()));
        fill(table, &gap, held, first_site, &mut partitions, repairs);
        let replicas = replicas(table, *site, holding, &holding.followers, held, repairs);
        partitions.push((holding.range.start.clone(), Placement { master: *site, replicas }));
        from = holding.range.end.clone();
    }
    if let Some(next) = from {
        fill(table, &KeyRange::new(next, None), held, first_site, &mut partitions, repairs);
    }
    Ok(partitions)
}

fn overlap(schema: &Schema, site: SiteId, range: &KeyRange) -> String {
    let range = schema.format_range(range);
    format!("table {} has two masters for keys of {range}, one of them {site}", schema.name())
}

/// Finds who is to master a range that nobody does.
fn fill(
    table: TableId,
    gap: &KeyRange,
    held: &[(SiteId, Holding)],
    first_site: SiteId,
    partitions: &mut Vec<(Key, Placement)>,
    repairs: &mut Vec<(SiteId, Step)>,
) {
    let mut from = gap.start.clone();
    while gap.is_below_end(&from) {
        // Of several accounts of the same keys the one with the highest version is the last.
        let released = held
            .iter()
            .filter(|(_, holding)| holding.released_to.is_some() && holding.range.start == from)
            .max_by_key(|(_, holding)| holding.version);
        let Some((_, holding)) = released else {
            let rest = KeyRange::new(from.clone(), gap.end.clone());
            repairs.push((first_site, Step::Create(table, vec![rest])));
            partitions.push((from, Placement::at(first_site)));
            return;
        };
        let to = holding.released_to.expect("filtered by it");
        repairs.push((to, Step::Acquire(table, from.clone())));
        let replicas = replicas(table, to, holding, &holding.followers.without(to), held, repairs);
        partitions.push((from, Placement { master: to, replicas }));
        match &holding.range.end {
            Some(end) => from = end.clone(),
            None => return,
        }
    }
}

/// The followers that hold a copy; the master lets the others go.
fn replicas(
    table: TableId,
    master: SiteId,
    holding: &Holding,
    followers: &SiteSet,
    held: &[(SiteId, Holding)],
    repairs: &mut Vec<(SiteId, Step)>,
) -> SiteSet {
    let mut replicas = SiteSet::EMPTY;
    for follower in followers.iter() {
        if covers(held.iter().filter(|(site, _)| *site == follower), &holding.range) {
            replicas.insert(follower);
        } else {
            let start = holding.range.start.clone();
            repairs.push((master, Step::Unfollow(table, start, follower)));
        }
    }
    replicas
}

/// True if the holdings, which do not overlap each other, cover the whole range.
fn covers<'h>(held: impl Iterator<Item = &'h (SiteId, Holding)>, range: &KeyRange) -> bool {
    let mut ranges: Vec<&KeyRange> =
        held.map(|(_, holding)| &holding.range).filter(|held| held.overlaps(range)).collect();
    ranges.sort();
    let mut from = Some(range.start.clone());
    for held in ranges {
        match &from {
            Some(next) if held.start <= *next => from = held.end.clone(),
            _ => return false,
        }
    }
    match (&from, &range.end) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(reached), Some(end)) => reached >= end,
    }
}

/// Copies at sites that the design does not know as replicas.
fn drop_strays(
    table: TableId,
    design: &Design,
    held: &[(SiteId, Holding)],
    repairs: &mut Vec<(SiteId, Step)>,
) {
    for (site, holding) in held.iter().filter(|(_, holding)| holding.source.is_some()) {
        let known = design
            .partitions_in(table, &holding.range)
            .any(|(_, placement)| placement.holds(*site));
        if !known {
            repairs.push((*site, Step::Drop(table, holding.range.clone())));
        }
    }
}
