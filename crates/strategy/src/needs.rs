//! The partitions that a transaction needs, and how it uses them.

use isomer_design::{
    Access, Change, Design, Footprint, KeyRange, Placement, SiteId, Span, Step, TableId,
};

/// A partition in a footprint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Need {
    /// The table of the partition.
    pub table: TableId,
    /// The keys of the partition.
    pub range: KeyRange,
    /// `Write`, if any item of the footprint writes to the partition.
    pub access: Access,
    /// The current placement of the partition.
    pub placement: Placement,
}

/// Returns the partitions of a footprint, each once, ordered by table and key. Items of unknown
/// tables are ignored.
pub fn needs(design: &Design, footprint: &Footprint) -> Vec<Need> {
    let mut needs: Vec<Need> = Vec::with_capacity(footprint.items().len());
    for item in footprint.items() {
        let mut add = |(range, placement): (KeyRange, Placement)| match needs.last_mut() {
            Some(last) if last.table == item.table && last.range == range => {
                last.access = last.access.max(item.access);
            }
            _ => needs.push(Need { table: item.table, range, access: item.access, placement }),
        };
        match &item.span {
            Span::Key(key) => design.partition_of(item.table, key).into_iter().for_each(add),
            Span::Range(range) => design.partitions_in(item.table, range).for_each(&mut add),
        }
    }
    // Written partitions come first among equals, so that `dedup_by` keeps them.
    needs.sort_by(|a, b| {
        let place = |need: &Need| (need.table, std::cmp::Reverse(need.access));
        (a.table, &a.range.start).cmp(&(b.table, &b.range.start)).then(place(a).cmp(&place(b)))
    });
    needs.dedup_by(|next, kept| next.table == kept.table && next.range.start == kept.range.start);
    needs
}

impl Need {
    /// True if the site needs a replica first.
    pub fn lacks_replica(&self, site: SiteId) -> bool {
        !self.placement.holds(site)
    }

    /// True if the site must become the master.
    pub fn lacks_master(&self, site: SiteId) -> bool {
        self.access == Access::Write && self.placement.master != site
    }

    /// True if the site cannot serve the partition under the current placement.
    pub fn is_lacked_by(&self, site: SiteId) -> bool {
        self.lacks_replica(site) || self.lacks_master(site)
    }

    /// The changes that enable a site to serve the partition.
    pub fn changes(&self, site: SiteId) -> impl Iterator<Item = Change> {
        let (table, start) = (self.table, || self.range.start.clone());
        let replica = self.lacks_replica(site);
        let replica = replica.then(|| Change::AddReplica { table, start: start(), site });
        let master = self.lacks_master(site);
        let remaster = master.then(|| Change::Remaster { table, start: start(), to: site });
        replica.into_iter().chain(remaster)
    }

    /// The same changes with their reasons.
    pub fn steps(&self, site: SiteId) -> impl Iterator<Item = Step> {
        self.changes(site).map(move |change| {
            let why = match (&change, self.access) {
                (Change::Remaster { .. }, _) => {
                    format!("{site} has to write it together with what it masters")
                }
                (_, Access::Read) => format!("{site} has to read it"),
                (_, Access::Write) => {
                    format!("{site} has to write it, and masters come from replicas")
                }
            };
            Step::new(change, why)
        })
    }

    /// The steps that move the partition to a site and remove the copy at the old master.
    pub fn move_to(&self, site: SiteId, why: &str) -> Vec<Step> {
        let removal = Step::new(self.removal(self.placement.master), why);
        let steps = self.changes(site).map(|change| Step::new(change, why));
        steps.chain([removal]).collect()
    }

    /// The change that removes a copy.
    pub fn removal(&self, site: SiteId) -> Change {
        Change::RemoveReplica { table: self.table, start: self.range.start.clone(), site }
    }
}
