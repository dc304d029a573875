//! Sites that were away when this conductor began, and of which some ranges are known to no other
//! site.
//!
//! ```text
//!   the conductor's process fails, and with it s1 and s2
//!   the next conductor asks s3 and s4 ─▶ no one knows [20, 30): s1 or s2 masters it   unheard
//!                                        the design names s1; the range waits
//!   s1 returns                         ─▶ waits: s2 may hold a later term of the range
//!   s2 returns                         ─▶ both are asked, and the design names the right one
//! ```
//!
//! A site that returns drops what the design does not give it. So no unheard site is readmitted
//! before the design is right about all of them.

use super::describe;
use crate::assemble::{Assembled, assemble};
use crate::conductor::Conductor;
use crate::transport::Transport;
use isomer_design::{Change, Design, KeyRange, Placement, SiteId, SiteSet, TableId};
use isomer_site::{Holding, Refusal};

/// See the [module documentation](self).
#[derive(Clone, Default, Debug)]
pub(crate) struct Unheard {
    /// The sites that were away.
    pub(crate) sites: SiteSet,
    /// Ranges, each of which one of these sites masters.
    pub(crate) ranges: Vec<(TableId, KeyRange)>,
}

impl Unheard {
    fn has(&self, holding: &Holding) -> bool {
        self.ranges
            .iter()
            .any(|(table, range)| *table == holding.table && range.overlaps(&holding.range))
    }
}

/// Notes the sites that could not be asked when the design was assembled. Sites that the
/// conductor's log has as `lost` are readmitted, if they are there.
pub(crate) fn has_not_heard<T: Transport>(
    conductor: &Conductor<T>,
    unheard: Unheard,
    lost: SiteSet,
) {
    let membership = &conductor.membership;
    if !unheard.ranges.is_empty() {
        *membership.unheard.lock() = unheard;
    }
    for site in lost.iter() {
        membership.replace(site, 0, None, &SiteSet::EMPTY);
        conductor.site_returned(site);
    }
    *membership.lost.lock() = lost;
}

/// Asks the unheard sites which of them masters what no other site knows, and enters that in the
/// design. Does nothing for a site that was asked before.
///
/// # Errors
/// [`Refusal::Unavailable`] while one of the unheard sites is away.
pub(super) async fn hear<T: Transport>(
    conductor: &Conductor<T>,
    site: SiteId,
) -> Result<(), Refusal> {
    let unheard = conductor.membership.unheard.lock().clone();
    if !unheard.sites.contains(site) {
        return Ok(());
    }
    let is_away = |site: &SiteId| conductor.check_site(*site).is_err();
    if let Some(away) = unheard.sites.iter().find(is_away) {
        return Err(Refusal::Unavailable(away));
    }
    let mut holdings = Vec::new();
    for site in unheard.sites.iter() {
        let mut held = describe(&conductor.transport, site).await?;
        held.retain(|holding| unheard.has(holding));
        holdings.push((site, held));
    }
    let design = conductor.design();
    let of_unheard = |table: &TableId| unheard.ranges.iter().any(|(of, _)| of == table);
    let tables = design.tables().filter(|(table, _)| of_unheard(table));
    let tables: Vec<_> = tables.map(|(id, table)| (id, table.schema().clone())).collect();
    let found = assemble(&tables, &holdings, &SiteSet::EMPTY);
    let Ok(Assembled { design: found, .. }) = found else {
        return Err(Refusal::Unavailable(site));
    };
    for (table, range) in &unheard.ranges {
        for change in placed(&conductor.design(), &found, *table, range) {
            conductor.enter(&change).expect("nothing else changes a range that is not heard");
        }
    }
    *conductor.membership.unheard.lock() = Unheard::default();
    Ok(())
}

/// The changes that give a range, which is one partition of the design, the placement that was
/// found.
fn placed(design: &Design, found: &Design, table: TableId, range: &KeyRange) -> Vec<Change> {
    let (mut design, mut changes) = (design.clone(), Vec::new());
    let mut make = |change: Change| {
        if design.apply(&change).is_ok() {
            changes.push(change);
        }
    };
    for (piece, placement) in found.partitions_in(table, range) {
        let start = (&piece.start).max(&range.start).clone();
        let Placement { master, replicas } = placement;
        make(Change::Split { table, at: start.clone() });
        let add = |site| Change::AddReplica { table, start: start.clone(), site };
        make(add(master));
        make(Change::Remaster { table, start: start.clone(), to: master });
        replicas.iter().for_each(|site| make(add(site)));
        let others = found.sites() - &replicas.with(master);
        others.iter().for_each(|site| {
            make(Change::RemoveReplica { table, start: start.clone(), site });
        });
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_design::{Column, ColumnType, Key, Schema};
    use std::sync::Arc;

    #[test]
    fn a_range_gets_the_placement_that_its_sites_tell() {
        let (table, columns) = (TableId(1), vec![Column::new("id", ColumnType::Int64)]);
        let schema = Arc::new(Schema::new("t", columns, &["id"]).expect("a schema"));
        let design = |partitions: Vec<(Key, Placement)>| {
            let mut design = Design::new([1, 2, 3].map(SiteId)).expect("three sites");
            design.create_table(table, schema.clone(), partitions).expect("they fit");
            design
        };
        let at = |master: u16, replicas: &[u16]| Placement {
            master: SiteId(master),
            replicas: replicas.iter().map(|site| SiteId(*site)).collect(),
        };
        // Site 3 was asked. Of the keys from 20 on, it is only known that site 1 or 2 has them.
        let known =
            |rest: Vec<(Key, Placement)>| design([vec![(Key::min(), at(3, &[]))], rest].concat());
        let mut now = known(vec![(Key::int(20), at(1, &[]))]);
        let right = vec![
            (Key::int(20), at(2, &[])),
            (Key::int(30), at(1, &[2])),
            (Key::int(40), at(2, &[1])),
        ];
        // Partitions outside of the range do not count.
        let found = design([vec![(Key::min(), at(1, &[]))], right.clone()].concat());
        let range = KeyRange::new(Key::int(20), None);
        for change in placed(&now, &found, table, &range) {
            now.apply(&change).expect("they fit");
        }
        assert_eq!(now.to_text(), known(right).to_text());
    }
}
