//! What a transaction needs of the design: the partitions of its footprint, and how it uses them.

use isomer_design::{
    Access, Change, Design, Footprint, KeyRange, Placement, SiteId, Span, Step, TableId,
};

/// A partition of a footprint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Need {
    /// Its table.
    pub table: TableId,
    /// Its keys.
    pub range: KeyRange,
    /// Written, if any item of the footprint writes there.
    pub access: Access,
    /// Where it is.
    pub placement: Placement,
}

/// The partitions of a footprint, ordered by table and key, each once. Tables that do not exist need
/// nothing.
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
    // Written first, so that this is what stays.
    needs.sort_by(|a, b| {
        let place = |need: &Need| (need.table, std::cmp::Reverse(need.access));
        (a.table, &a.range.start).cmp(&(b.table, &b.range.start)).then(place(a).cmp(&place(b)))
    });
    needs.dedup_by(|next, kept| next.table == kept.table && next.range.start == kept.range.start);
    needs
}

impl Need {
    /// A replica must be brought to the site, before all else.
    pub fn lacks_replica(&self, site: SiteId) -> bool {
        !self.placement.holds(site)
    }

    /// The site must become the master.
    pub fn lacks_master(&self, site: SiteId) -> bool {
        self.access == Access::Write && self.placement.master != site
    }

    /// The site cannot serve it as it is.
    pub fn is_lacked_by(&self, site: SiteId) -> bool {
        self.lacks_replica(site) || self.lacks_master(site)
    }

    /// The changes that let a site serve it.
    pub fn changes(&self, site: SiteId) -> impl Iterator<Item = Change> {
        let (table, start) = (self.table, || self.range.start.clone());
        let replica = self.lacks_replica(site);
        let replica = replica.then(|| Change::AddReplica { table, start: start(), site });
        let master = self.lacks_master(site);
        let remaster = master.then(|| Change::Remaster { table, start: start(), to: site });
        replica.into_iter().chain(remaster)
    }

    /// These changes, with reasons.
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

    /// What takes it to a site, and leaves nothing behind where its master was.
    pub fn move_to(&self, site: SiteId, why: &str) -> Vec<Step> {
        let removal = Step::new(self.removal(self.placement.master), why);
        let steps = self.changes(site).map(|change| Step::new(change, why));
        steps.chain([removal]).collect()
    }

    /// What takes a copy away.
    pub fn removal(&self, site: SiteId) -> Change {
        Change::RemoveReplica { table: self.table, start: self.range.start.clone(), site }
    }
}
