//! Assembles the design from the sites' holdings: how a database that was stopped at any point
//! continues.
//!
//! The design itself is stored nowhere. Each site knows from its own log which partitions it
//! masters and replicates, and together these are the design. If the database stopped in the middle
//! of a change, the holdings show how far the change had come, and which steps are left:
//!
//! | found | the change | repair |
//! | --- | --- | --- |
//! | a range without a master, released to a site | remaster had begun | that site acquires it |
//! | a follower without a copy | add_replica had begun, or remove_replica was nearly done | the master unfollows it |
//! | a copy at a site that does not follow | remove_replica had begun, or add_replica was refused | the site discards it |
//! | a mastership or copy of an earlier [term](isomer_site::term) | a replica was promoted, because the site's log had failed | the site discards it |
//! | copies without a master, or ahead of their master | a log has lost its end, and that was accepted | the most advanced one is promoted |
//! | a range that no site has | a site has lost its files | refused; if the loss is accepted, a site creates it, empty |
//! | a table that the catalog does not have | create_table or drop_table had begun | the sites that hold it forget it |
//!
//! A pure function. [`crate::Database::open`] carries out its steps.

use isomer_design::{Design, Key, KeyRange, Placement, Schema, SiteId, SiteSet, TableId};
use isomer_site::{Holding, Step, term};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The design, and the steps that make the sites match it.
pub(crate) struct Assembled {
    pub(crate) design: Design,
    pub(crate) repairs: Vec<(SiteId, Step)>,
    /// Ranges of tables that no site has, in the form of error messages. The repairs create them
    /// anew, empty.
    pub(crate) lost: Vec<String>,
}

/// Assembles a design from the holdings of each site.
///
/// # Errors
/// A message, if two sites claim to master the same keys, or a site is missing.
pub(crate) fn assemble(
    tables: &[(TableId, Arc<Schema>)],
    holdings: &[(SiteId, Vec<Holding>)],
) -> Result<Assembled, String> {
    let sites = holdings.iter().map(|(site, _)| *site);
    let mut design = Design::new(sites).map_err(|invalid| invalid.to_string())?;
    let (mut repairs, mut lost) = (Vec::new(), Vec::new());
    let mut by_table: BTreeMap<TableId, Vec<(SiteId, Holding)>> = BTreeMap::new();
    for (site, held) in holdings {
        for holding in held {
            by_table.entry(holding.table).or_default().push((*site, holding.clone()));
        }
    }
    for (table, schema) in tables {
        let held = by_table.remove(table).unwrap_or_default();
        let accounts = Accounts::of(&held);
        let (overtaken, held): (Vec<_>, Vec<_>) =
            held.iter().cloned().partition(|holding| accounts.have_overtaken(holding));
        let discard =
            |(site, holding): (SiteId, Holding)| (site, Step::Discard(*table, holding.range));
        repairs.extend(overtaken.into_iter().map(discard));
        let partitions = partitions(*table, schema, &held, holdings[0].0, &mut repairs)?;
        let is_lost =
            |step: &&(SiteId, Step)| matches!(&step.1, Step::Create(of, _) if of == table);
        for (_, step) in repairs.iter().filter(is_lost) {
            let Step::Create(_, ranges) = step else { continue };
            lost.extend(
                ranges
                    .iter()
                    .map(|range| format!("{}{}", schema.name(), schema.format_range(range))),
            );
        }
        design
            .create_table(*table, schema.clone(), partitions)
            .map_err(|invalid| invalid.to_string())?;
        drop_strays(*table, &design, &held, &mut repairs);
    }
    forget_strangers(tables, holdings, &mut repairs);
    Ok(Assembled { design, repairs, lost })
}

/// The sites' holdings of one table, indexed by range.
struct Accounts<'h>(BTreeMap<SiteId, BTreeMap<&'h Key, &'h Holding>>);

impl<'h> Accounts<'h> {
    fn of(held: &'h [(SiteId, Holding)]) -> Accounts<'h> {
        let mut sites: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for (site, holding) in held {
            sites.entry(*site).or_default().insert(&holding.range.start, holding);
        }
        Accounts(sites)
    }

    /// The holdings that overlap a range. The holdings of one site do not overlap each other.
    fn overlapping(&self, range: &KeyRange) -> impl Iterator<Item = (SiteId, &'h Holding)> {
        self.0.iter().flat_map(move |(site, holdings)| {
            let before = holdings.range::<Key, _>(..&range.start).next_back();
            let from = holdings.range::<Key, _>(&range.start..);
            let inside = from.take_while(|(start, _)| range.is_below_end(start));
            let overlapping = before.into_iter().chain(inside).map(|(_, holding)| *holding);
            overlapping
                .filter(|holding| holding.range.overlaps(range))
                .map(|holding| (*site, holding))
        })
    }

    /// True if the site does not know that a promotion has replaced it, or the master that it
    /// follows: other sites are in a later term. Also true for a master with a copy that is ahead
    /// of it, because its log has then lost its end.
    fn have_overtaken(&self, (site, holding): &(SiteId, Holding)) -> bool {
        let others = || self.overlapping(&holding.range);
        let latest = others().map(|(_, other)| term(other.version)).max().unwrap_or(0);
        let is_behind = |source: SiteId| {
            // A site that follows a master of the latest term, or the next master in it, will
            // receive the event.
            let mut latest = others().filter(|(_, other)| term(other.version) == latest);
            !latest.any(|(of, other)| source == of || other.released_to == Some(source))
        };
        match holding.source {
            _ if term(holding.version) < latest => holding.source.is_none_or(is_behind),
            None => others().any(|(_, copy)| {
                copy.source == Some(*site)
                    && copy.range == holding.range
                    && copy.version > holding.version
                    && copy.released_to.is_none()
            }),
            Some(_) => false,
        }
    }
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

/// Finds a master for a range that has none.
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
        // Of several holdings of the same keys, the one with the highest version is the latest.
        let released = held
            .iter()
            .filter(|(_, holding)| holding.released_to.is_some() && holding.range.start == from)
            .max_by_key(|(_, holding)| holding.version);
        let furthest = held
            .iter()
            .filter(|(_, holding)| holding.source.is_some() && holding.range.start == from)
            .max_by_key(|(_, holding)| holding.version);
        if let (None, Some((site, copy))) = (released, furthest) {
            let step = Step::Promote(table, from.clone(), copy.version, SiteSet::EMPTY);
            repairs.push((*site, step));
            partitions.push((from, Placement::at(*site)));
            match &copy.range.end {
                Some(end) => from = end.clone(),
                None => return,
            }
            continue;
        }
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

/// The followers that hold a copy. The master unfollows the others.
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

/// Adds steps that discard copies at sites that are no replicas in the design.
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
            repairs.push((*site, Step::Discard(table, holding.range.clone())));
        }
    }
}
