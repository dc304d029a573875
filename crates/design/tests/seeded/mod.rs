//! Random numbers and random designs from a seed, so that a failure repeats.

use isomer_design::{
    Change, Column, ColumnType, Design, Key, Placement, Schema, SiteId, SiteSet, TableId,
};

/// A seeded source of numbers (splitmix64).
pub(crate) struct Seeded(pub(crate) u64);

impl Seeded {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % bound
    }

    pub(crate) fn site(&mut self, sites: &SiteSet) -> SiteId {
        let index = self.below(sites.len() as u64) as usize;
        sites.iter().nth(index).unwrap()
    }

    pub(crate) fn placement(&mut self, sites: &SiteSet) -> Placement {
        let master = self.site(sites);
        let replicas = sites.iter().filter(|&site| site != master && self.below(2) == 0);
        Placement::new(master, replicas.collect::<Vec<_>>())
    }

    pub(crate) fn key(&mut self, keys: u64) -> Key {
        let key = Key::int(self.below(keys) as i64);
        if self.below(4) == 0 { key.successor() } else { key }
    }

    /// A design of two tables, in which neighbours often share a placement.
    pub(crate) fn design(&mut self, keys: u64) -> Design {
        // Few sites or many, with low numbers or all of them.
        let (count, apart) = if self.below(2) == 0 { (6, 1) } else { (16, 64) };
        let sites = (1..=count).filter(|_| self.below(3) > 0);
        let sites: Vec<SiteId> = sites.map(|site| SiteId(site * apart)).collect();
        let sites = if sites.is_empty() { vec![SiteId(7)] } else { sites };
        let mut design = Design::new(sites).unwrap();
        for (id, name) in [(TableId(1), "accounts"), (TableId(4), "orders")] {
            let mut starts: Vec<Key> = (0..self.below(keys)).map(|_| self.key(keys)).collect();
            starts.push(Key::min());
            starts.sort();
            starts.dedup();
            let some = [self.placement(design.sites()), self.placement(design.sites())];
            let placed =
                starts.into_iter().map(|start| (start, some[self.below(2) as usize].clone()));
            let schema =
                Schema::new(name, vec![Column::new("id", ColumnType::Int64)], &["id"]).unwrap();
            design.create_table(id, schema, placed).unwrap();
        }
        design
    }

    /// A change that may or may not be possible.
    pub(crate) fn change(&mut self, design: &Design, keys: u64) -> Change {
        let table = [TableId(1), TableId(4)][self.below(2) as usize];
        let at = self.key(keys);
        let start = match design.partition_of(table, &at) {
            Some((range, _)) if self.below(8) > 0 => range.start,
            _ => at.clone(),
        };
        let site = SiteId(self.below(8) as u16);
        match self.below(16) {
            0..=3 => Change::Split { table, at },
            4..=6 => Change::Merge { table, at: start },
            7..=9 => Change::AddReplica { table, start, site },
            10..=11 => Change::RemoveReplica { table, start, site },
            12..=13 => Change::Remaster { table, start, to: site },
            14 => Change::AddSite { site },
            _ => Change::RemoveSite { site },
        }
    }
}
