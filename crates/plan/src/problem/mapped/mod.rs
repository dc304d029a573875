//! Converts placements and proposals to designs and plans, and back.
//!
//! A planner numbers the *recorded* keys; a design gives the site of *every* key. The recorded keys
//! of a partition divide it among them. Each represents the keys from itself up to the next
//! recorded one, and the first also those before it.
//!
//! ```text
//!   design        partition []  master s1                        partition [50]  master s2
//!   recorded                    10            30                         60
//!   speaks for    [ ........... 10 .......... [30 .............. [50 ... 60 .................
//!
//!   proposal      30 to s2: cooler there
//!   plan          split orders at 30        # cooler there
//!                 add_replica orders[30] s2
//!                 remaster orders[30] s2
//!                 remove_replica orders[30] s1
//!                 merge orders at 50        # s2 has both sides
//! ```
//!
//! Each step is valid in its turn, and has the reason of its move. Where the new master was a
//! replica, it exchanges roles with the old one; otherwise the number of copies stays the same.
//! Boundaries that a move leaves without a difference are merged away; earlier boundaries between
//! equal placements stay.
//!
//! Invariants: the placement of the design that [`MappedDesign::plan`] leads to is the proposal's
//! placement. A plan from [`MappedDesign::of_placement`] leads to the design that `of_placement`
//! gives for the proposal's placement. Neither direction loses information.
//!
//! Left out: backups that a strategy assumes (DrTM+B's) are not in the design unless it has them. A
//! recorded key whose rows are on several sites is refused, because a vertex has one site.

mod draft;
mod error;
mod share;

pub(crate) use draft::Draft;
pub use draft::plan_text;
pub use error::MappedError;
pub(crate) use share::{encode_key, key_type};

use super::{Move, Placement as SiteOfKey, Proposal, Site, site_name};
use crate::recording::{KeyTable, Vertex};
use isomer_design::{
    Change, Column, Design, Key, KeyRange, Placement, Plan, SITES_MAX, Schema, SiteId, TableId,
};
use share::{Share, bounds, divide, vertices_of};
use std::collections::BTreeMap;

/// A design, and the part of it that each recorded key represents.
#[derive(Clone, Debug)]
pub struct MappedDesign {
    design: Design,
    /// By vertex: the table, the represented keys, and the master's site.
    shares: Vec<Share>,
}

impl MappedDesign {
    /// The design of a placement. Each recorded table becomes a table with one key column (int64 if
    /// all its keys are, else text). Each run of keys at one site becomes a partition. Sites are s1
    /// to s*n* for the placement's *n* sites.
    pub fn of_placement(
        keys: &KeyTable,
        placement: &SiteOfKey,
    ) -> Result<MappedDesign, MappedError> {
        let sites = placement.sites();
        if sites > usize::from(SITES_MAX) {
            return Err(MappedError::Sites { sites });
        }
        let mut design = Design::new((1..=sites as u16).map(SiteId))?;
        for (number, name) in keys.tables().enumerate() {
            let (id, number) = (TableId(number as u32 + 1), number as u16);
            let mine = vertices_of(keys, number);
            let ty = key_type(mine.clone().map(|key| keys.vertex(key).1));
            let schema = Schema::new(name, vec![Column::new("key", ty)], &["key"])?;
            let mut sorted = bounds(keys, &schema, mine)?;
            sorted.sort();
            sorted.dedup_by_key(|(_, key)| placement.site(*key));
            let start = |at: usize, bound| if at == 0 { Key::min() } else { bound };
            let placed = |key| Placement::at(SiteId(placement.site(key) + 1));
            let runs = sorted.into_iter().enumerate();
            design.create_table(
                id,
                schema,
                runs.map(|(at, (bound, key))| (start(at, bound), placed(key))),
            )?;
        }
        MappedDesign::new(design, keys)
    }

    /// An existing design, for the keys of a recording. The design's sites must be s1, s2, …
    pub fn new(design: Design, keys: &KeyTable) -> Result<MappedDesign, MappedError> {
        if let Some((at, _)) =
            design.sites().iter().enumerate().find(|(at, site)| usize::from(site.0) != at + 1)
        {
            return Err(MappedError::Gap { missing: SiteId(at as u16 + 1) });
        }
        let none = Share { table: TableId(0), range: KeyRange::all(), site: 0 };
        let mut shares = vec![none; keys.len()];
        for (number, name) in keys.tables().enumerate() {
            let Some((id, table)) = design.find_table(name) else {
                let known: Vec<&str> = design.tables().map(|(_, table)| table.name()).collect();
                let known = if known.is_empty() { "none".into() } else { known.join(", ") };
                return Err(MappedError::UnknownTable { table: name.to_owned(), known });
            };
            divide(keys, number as u16, id, table, &mut shares)?;
        }
        Ok(MappedDesign { design, shares })
    }

    /// The design.
    pub fn design(&self) -> &Design {
        &self.design
    }

    /// The site of the master of each recorded key.
    pub fn placement(&self) -> SiteOfKey {
        SiteOfKey::new(
            self.design.sites().len(),
            self.shares.iter().map(|share| share.site).collect(),
        )
    }

    /// The changes that carry out a proposal, each with its reason and valid in its turn.
    ///
    /// # Errors
    /// [`MappedError::Sites`] if the proposal has more sites than a design can have.
    pub fn plan(&self, proposal: &Proposal) -> Result<Plan, MappedError> {
        let sites = proposal.placement.sites();
        if sites > usize::from(SITES_MAX) {
            return Err(MappedError::Sites { sites });
        }
        let mut draft = Draft::new(self.design.clone(), proposal.strategy);
        for site in self.design.sites().len()..sites {
            let change = Change::AddSite { site: SiteId(site as u16 + 1) };
            draft.push(change, "the plan has more sites")?;
        }
        for Move { keys, to, reason } in &proposal.moves {
            let stays = |key: &&Vertex| proposal.placement.site(**key) == *to;
            let ranges = self.spoken_for(keys.iter().filter(stays));
            draft.move_all(ranges, SiteId(*to + 1), reason)?;
        }
        // Moves that a strategy did not list are added, so the plan still leads to its placement.
        let mut silent: BTreeMap<Site, Vec<Vertex>> = BTreeMap::new();
        for key in 0..self.shares.len() as Vertex {
            silent.entry(proposal.placement.site(key)).or_default().push(key);
        }
        for (to, keys) in silent {
            let reason = format!("{} has it in the plan of {}", site_name(to), proposal.strategy);
            draft.move_all(self.spoken_for(keys.iter()), SiteId(to + 1), &reason)?;
        }
        draft.merge(&self.design)?;
        Ok(draft.plan)
    }

    /// The ranges that keys represent, with neighbours joined.
    fn spoken_for<'a>(
        &'a self,
        keys: impl Iterator<Item = &'a Vertex>,
    ) -> Vec<(TableId, KeyRange)> {
        let share = |&key: &Vertex| &self.shares[key as usize];
        let mut shares: Vec<&Share> = keys.map(share).collect();
        shares.sort_by(|a, b| (a.table, &a.range.start).cmp(&(b.table, &b.range.start)));
        let mut joined: Vec<(TableId, KeyRange)> = Vec::new();
        for Share { table, range, .. } in shares {
            match joined.last_mut() {
                Some((last, whole))
                    if last == table && whole.end.as_ref() == Some(&range.start) =>
                {
                    whole.end = range.end.clone();
                }
                _ => joined.push((*table, range.clone())),
            }
        }
        joined
    }
}
