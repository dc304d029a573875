//! Homes: the sites of all records that are not fused elsewhere.
//!
//! Homes are ranges and change rarely, by provisions. The [fusion table](super::FusionTable)
//! contains the exceptions. Initially, the home of a record is the master of its partition in a
//! [`Design`].

use isomer_design::{Design, Key, KeyRange, RangeMap, SiteId, SiteSet, TableId};
use std::collections::BTreeMap;

/// The home of every record. A clone shares the range maps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Homes {
    sites: SiteSet,
    tables: BTreeMap<TableId, RangeMap<SiteId>>,
}

impl Homes {
    /// Homes at the masters of a design.
    pub fn of(design: &Design) -> Homes {
        Homes::mapped(design, |site| site)
    }

    /// Homes at the masters of a design, with one site in place of several.
    pub fn mapped(design: &Design, of: impl Fn(SiteId) -> SiteId) -> Homes {
        let mut tables = BTreeMap::new();
        for (id, table) in design.tables() {
            let partitions = table.partitions().iter();
            let masters =
                partitions.map(|(start, placement)| (start.clone(), of(placement.master)));
            tables.insert(id, RangeMap::from_sorted(masters));
        }
        Homes { sites: design.sites().iter().map(of).collect(), tables }
    }

    /// The sites to which transactions may be routed.
    pub fn sites(&self) -> &SiteSet {
        &self.sites
    }

    /// Returns the home of a record, or `None` if the table does not exist.
    pub fn home(&self, table: TableId, key: &Key) -> Option<SiteId> {
        Some(*self.tables.get(&table)?.get(key)?.1)
    }

    /// Returns the homes of a range as adjacent pieces in key order; empty if the table does not
    /// exist.
    pub fn pieces(&self, table: TableId, range: &KeyRange) -> Vec<(KeyRange, SiteId)> {
        let homes = self.tables.get(&table);
        let entries = homes.into_iter().flat_map(|homes| homes.iter_from(&range.start));
        let mut pieces: Vec<(KeyRange, SiteId)> = Vec::new();
        for (start, &site) in entries.take_while(|(start, _)| range.is_below_end(start)) {
            let start = start.max(&range.start).clone();
            match pieces.last_mut() {
                Some((_, last)) if *last == site => {}
                last => {
                    last.into_iter().for_each(|(piece, _)| piece.end = Some(start.clone()));
                    pieces.push((KeyRange::new(start, range.end.clone()), site));
                }
            }
        }
        pieces
    }

    /// The first range with its home at a site.
    pub fn first_at(&self, site: SiteId) -> Option<(TableId, KeyRange)> {
        let mut all = self.tables.keys().flat_map(|&table| {
            let pieces = self.pieces(table, &KeyRange::all()).into_iter();
            pieces.map(move |(piece, site)| (table, piece, site))
        });
        all.find(|(.., at)| *at == site).map(|(table, piece, _)| (table, piece))
    }

    /// Adds a site, to which transactions may be routed from then on.
    pub fn add_site(&mut self, site: SiteId) {
        self.sites.insert(site);
    }

    /// Removes a site, to which no more transactions may be routed.
    pub fn remove_site(&mut self, site: SiteId) {
        self.sites = self.sites.without(site);
    }

    /// Sets the home of a range. Has no effect if the table does not exist.
    pub fn set(&mut self, table: TableId, range: &KeyRange, site: SiteId) {
        let Some(homes) = self.tables.get_mut(&table) else { return };
        if let Some(end) = &range.end
            && let Some((_, &after)) = homes.get(end)
        {
            homes.set(end.clone(), after);
        }
        let below_end = homes.iter_from(&range.start).map(|(start, _)| start);
        let below_end = below_end.take_while(|start| range.is_below_end(start));
        let inside: Vec<Key> = below_end.filter(|start| range.contains(start)).cloned().collect();
        for start in inside {
            homes.unset(&start);
        }
        homes.set(range.start.clone(), site);
        for start in [Some(&range.start), range.end.as_ref()].into_iter().flatten() {
            if homes.before(start).map(|(_, site)| *site) == homes.get_exact(start).copied() {
                homes.unset(start);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: TableId = TableId(1);

    fn text(homes: &Homes, range: &KeyRange) -> String {
        let pieces = homes.pieces(T, range).into_iter();
        pieces.map(|(piece, site)| format!("{piece}{site} ")).collect()
    }

    #[test]
    fn ranges_get_a_new_home_and_merge_with_their_neighbours() {
        let design = Design::parse(
            "sites s1 s2 s3\ntable a\n column id int64\n key id\n \
             partition [] master s1\n partition [10] master s2",
        );
        let mut homes = Homes::of(&design.unwrap());
        assert_eq!(text(&homes, &KeyRange::ints(5, 20)), "[5..10)s1 [10..20)s2 ");
        homes.set(T, &KeyRange::ints(8, 12), SiteId(3));
        assert_eq!(text(&homes, &KeyRange::all()), "[..8)s1 [8..12)s3 [12..)s2 ");
        homes.set(T, &KeyRange::ints(8, 12), SiteId(1));
        assert_eq!(text(&homes, &KeyRange::all()), "[..12)s1 [12..)s2 ");
        homes.set(T, &KeyRange::ints(12, 15), SiteId(1));
        assert_eq!(text(&homes, &KeyRange::all()), "[..15)s1 [15..)s2 ");
        assert_eq!(homes.home(T, &Key::int(15)), Some(SiteId(2)));
        homes.set(T, &KeyRange::all(), SiteId(2));
        assert_eq!(
            (text(&homes, &KeyRange::all()), homes.first_at(SiteId(1))),
            ("[..)s2 ".to_owned(), None)
        );
        assert_eq!(homes.home(TableId(9), &Key::int(1)), None);
    }
}
