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
//! **Absent sites.** A successor of a failed conductor cannot ask the sites of the failed process.
//! Their masterships are deduced: a range whose copies follow an absent site is mastered there. A
//! range that no present site holds is *unheard*: some absent site masters it, and the design names
//! the first of them until all have returned. Nothing is repaired at an absent site, and none of
//! its copies is missed, because its readmission or a takeover ends what it has begun.
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
    /// Ranges that only an absent site can hold. The design names the first of these as the master.
    pub(crate) unheard: Vec<(TableId, KeyRange)>,
}

/// Assembles a design from the holdings of each site. The holdings of `absent` sites are unknown.
///
/// # Errors
/// A message, if two sites claim to master the same keys, or a site is missing.
pub(crate) fn assemble(
    tables: &[(TableId, Arc<Schema>)],
    holdings: &[(SiteId, Vec<Holding>)],
    absent: &SiteSet,
) -> Result<Assembled, String> {
    let sites = holdings.iter().map(|(site, _)| *site).chain(absent.iter());
    let mut design = Design::new(sites).map_err(|invalid| invalid.to_string())?;
    let (mut repairs, mut lost, mut unheard) = (Vec::new(), Vec::new(), Vec::new());
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
        let first = holdings.first().map(|(site, _)| *site).ok_or("no site is present")?;
        let of = Of { table: *table, schema, held: &held, first, absent };
        let partitions = of.partitions(&mut repairs, &mut unheard)?;
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
    Ok(Assembled { design, repairs, lost, unheard })
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

/// One table, and what the present sites hold of it.
struct Of<'a> {
    table: TableId,
    schema: &'a Schema,
    held: &'a [(SiteId, Holding)],
    /// The site that creates what is lost.
    first: SiteId,
    absent: &'a SiteSet,
}

impl Of<'_> {
    fn partitions(
        &self,
        repairs: &mut Vec<(SiteId, Step)>,
        unheard: &mut Vec<(TableId, KeyRange)>,
    ) -> Result<Vec<(Key, Placement)>, String> {
        let mut masters: Vec<&(SiteId, Holding)> =
            self.held.iter().filter(|(_, holding)| holding.source.is_none()).collect();
        masters.sort_by(|(_, a), (_, b)| a.range.cmp(&b.range));
        let mut partitions = Vec::new();
        let mut from = Some(Key::min());
        for (site, holding) in masters {
            let Some(next) = &from else { return Err(self.overlap(*site, &holding.range)) };
            if holding.range.start < *next {
                return Err(self.overlap(*site, &holding.range));
            }
            let gap = KeyRange::new(next.clone(), Some(holding.range.start.clone()));
            self.fill(&gap, &mut partitions, repairs, unheard);
            let replicas = self.replicas(*site, holding, &holding.followers, repairs);
            partitions.push((holding.range.start.clone(), Placement { master: *site, replicas }));
            from = holding.range.end.clone();
        }
        if let Some(next) = from {
            self.fill(&KeyRange::new(next, None), &mut partitions, repairs, unheard);
        }
        Ok(partitions)
    }

    fn overlap(&self, site: SiteId, range: &KeyRange) -> String {
        let (name, range) = (self.schema.name(), self.schema.format_range(range));
        format!("table {name} has two masters for keys of {range}, one of them {site}")
    }

    /// Finds a master for a range that has none.
    fn fill(
        &self,
        gap: &KeyRange,
        partitions: &mut Vec<(Key, Placement)>,
        repairs: &mut Vec<(SiteId, Step)>,
        unheard: &mut Vec<(TableId, KeyRange)>,
    ) {
        let mut from = gap.start.clone();
        while gap.is_below_end(&from) {
            // Of several holdings of the same keys, the one with the highest version is the latest.
            let furthest = |is_so: &dyn Fn(&Holding) -> bool| {
                let begins = self.held.iter().filter(|(_, holding)| holding.range.start == from);
                begins.filter(|(_, holding)| is_so(holding)).max_by_key(|(_, held)| held.version)
            };
            let released = furthest(&|holding| holding.released_to.is_some());
            let copied = furthest(&|holding| holding.source.is_some());
            let (placement, holding) = match (released, copied) {
                (Some((_, holding)), _) => {
                    let to = holding.released_to.expect("filtered by it");
                    if self.can_acquire(to, &from) {
                        repairs.push((to, Step::Acquire(self.table, from.clone())));
                    }
                    let others = holding.followers.without(to);
                    let replicas = self.replicas(to, holding, &others, repairs);
                    (Placement { master: to, replicas }, holding)
                }
                (None, Some((site, copy))) => (self.without_master(*site, copy, repairs), copy),
                (None, None) => {
                    let rest = KeyRange::new(from.clone(), self.end_of_unknown(gap, &from));
                    let end = rest.end.clone();
                    let master = match self.absent.first() {
                        Some(site) => {
                            unheard.push((self.table, rest));
                            site
                        }
                        None => {
                            repairs.push((self.first, Step::Create(self.table, vec![rest])));
                            self.first
                        }
                    };
                    partitions.push((from, Placement::at(master)));
                    match end {
                        Some(end) => from = end,
                        None => return,
                    }
                    continue;
                }
            };
            partitions.push((from, placement));
            match &holding.range.end {
                Some(end) => from = end.clone(),
                None => return,
            }
        }
    }

    /// True if a site that a partition was released to can acquire it: it has the release, or the
    /// site that released it is present and sends it.
    fn can_acquire(&self, to: SiteId, start: &Key) -> bool {
        let has_release = |(site, holding): &(SiteId, Holding)| {
            *site == to && holding.range.start == *start && holding.released_to == Some(to)
        };
        self.absent.is_empty() || self.held.iter().any(has_release)
    }

    /// Where a part of a gap ends that no present site holds: at the next copy, if a site is
    /// absent. All of a gap without absent sites is lost.
    fn end_of_unknown(&self, gap: &KeyRange, from: &Key) -> Option<Key> {
        let starts = self.held.iter().map(|(_, holding)| &holding.range.start);
        let next = starts.filter(|start| *start > from && gap.is_below_end(start)).min();
        next.filter(|_| !self.absent.is_empty()).or(gap.end.as_ref()).cloned()
    }

    /// The placement of a range that only has copies, of which `site` has the most advanced. An
    /// absent site may master them; otherwise the log of their master has lost its end, and the
    /// copy is promoted.
    fn without_master(
        &self,
        site: SiteId,
        copy: &Holding,
        repairs: &mut Vec<(SiteId, Step)>,
    ) -> Placement {
        let Some(master) = copy.source.filter(|source| self.absent.contains(*source)) else {
            let start = copy.range.start.clone();
            repairs.push((site, Step::Promote(self.table, start, copy.version, SiteSet::EMPTY)));
            return Placement::at(site);
        };
        let of_master = |(_, other): &&(SiteId, Holding)| other.source == Some(master);
        let copies = self.held.iter().filter(of_master).map(|(site, _)| *site);
        let replicas = copies.filter(|site| self.covers(*site, &copy.range)).collect();
        Placement { master, replicas }
    }

    /// The followers that hold a copy, and the absent ones. The master unfollows the others, unless
    /// it is absent.
    fn replicas(
        &self,
        master: SiteId,
        holding: &Holding,
        followers: &SiteSet,
        repairs: &mut Vec<(SiteId, Step)>,
    ) -> SiteSet {
        let mut replicas = SiteSet::EMPTY;
        for follower in followers.iter() {
            if self.absent.contains(follower) || self.covers(follower, &holding.range) {
                replicas.insert(follower);
            } else if !self.absent.contains(master) {
                let start = holding.range.start.clone();
                repairs.push((master, Step::Unfollow(self.table, start, follower)));
            }
        }
        replicas
    }

    /// True if the holdings of a site, which do not overlap each other, cover a whole range.
    fn covers(&self, site: SiteId, range: &KeyRange) -> bool {
        let held = self.held.iter().filter(|(holder, _)| *holder == site);
        let mut held: Vec<&KeyRange> = held.map(|(_, holding)| &holding.range).collect();
        held.sort();
        range.is_covered(held.into_iter())
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

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_design::{Column, ColumnType};

    const S1: SiteId = SiteId(1);
    const S2: SiteId = SiteId(2);
    const S3: SiteId = SiteId(3);
    const TABLE: TableId = TableId(1);

    fn range(from: Option<i64>, to: Option<i64>) -> KeyRange {
        KeyRange::new(from.map_or_else(Key::min, Key::int), to.map(Key::int))
    }

    fn held(range: KeyRange, version: u64, source: Option<SiteId>) -> Holding {
        let (followers, released_to) = (SiteSet::EMPTY, None);
        Holding { table: TABLE, range, version, source, followers, released_to }
    }

    fn tables() -> Vec<(TableId, Arc<Schema>)> {
        let columns = vec![Column::new("id", ColumnType::Int64)];
        vec![(TABLE, Arc::new(Schema::new("t", columns, &["id"]).expect("a schema")))]
    }

    /// The partitions of the design: first key, master, replicas.
    fn shown(design: &Design) -> Vec<String> {
        let everything = KeyRange::all();
        let all = design.partitions_in(TABLE, &everything);
        let shown = all.map(|(range, placement)| {
            let replicas: Vec<String> = placement.replicas.iter().map(|s| s.to_string()).collect();
            format!("{range} {} [{}]", placement.master, replicas.join(" "))
        });
        shown.collect()
    }

    #[test]
    fn the_masterships_of_absent_sites_are_deduced_from_their_copies() {
        let followed =
            Holding { followers: SiteSet::of(S1), ..held(range(None, Some(10)), 3, None) };
        let holdings = [
            (S2, vec![followed, held(range(Some(10), Some(20)), 5, Some(S1))]),
            (S3, vec![held(range(Some(10), Some(20)), 7, Some(S1))]),
        ];
        let found = assemble(&tables(), &holdings, &SiteSet::of(S1)).expect("a design");
        // Site 1 follows what site 2 masters, for all that is known; it masters what both copy, and
        // what they do not know.
        let expected = ["[..10) s2 [s1]", "[10..20) s1 [s2 s3]", "[20..) s1 []"];
        assert_eq!(shown(&found.design), expected);
        assert_eq!(found.unheard, [(TABLE, range(Some(20), None))]);
        assert!(found.repairs.is_empty() && found.lost.is_empty());
        // If site 1 is present and holds nothing, the copies are promoted, and the rest is lost.
        let mut holdings = holdings.to_vec();
        holdings.insert(0, (S1, vec![]));
        let found = assemble(&tables(), &holdings, &SiteSet::EMPTY).expect("a design");
        assert_eq!((found.unheard.len(), found.repairs.len(), found.lost.len()), (0, 4, 1));
    }

    #[test]
    fn a_release_of_an_absent_site_is_acquired_only_where_it_has_arrived() {
        let released = |to, source| Holding {
            released_to: Some(to),
            followers: SiteSet::of(S3),
            ..held(range(None, None), 4, Some(source))
        };
        let repairs = |holdings: [(SiteId, Vec<Holding>); 2]| {
            let found = assemble(&tables(), &holdings, &SiteSet::of(S1)).expect("a design");
            assert!(shown(&found.design)[0].contains(" s2 ["), "{:?}", shown(&found.design));
            format!("{:?}", found.repairs)
        };
        let behind = held(range(None, None), 3, Some(S1));
        let arrived = repairs([(S2, vec![released(S2, S1)]), (S3, vec![behind.clone()])]);
        assert_eq!(arrived, format!("{:?}", [(S2, Step::Acquire(TABLE, Key::min()))]));
        let on_its_way = repairs([(S2, vec![behind]), (S3, vec![released(S2, S1)])]);
        assert_eq!(on_its_way, "[]");
    }
}
