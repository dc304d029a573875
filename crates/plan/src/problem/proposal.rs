//! The planners' output.

use super::{Placement, Site, site_name};
use crate::recording::Vertex;
use std::collections::BTreeMap;

/// Keys that move together, and why.
#[derive(Clone, PartialEq, Debug)]
pub struct Move {
    /// The keys; the first one started the move.
    pub keys: Vec<Vertex>,
    /// The destination.
    pub to: Site,
    /// The reason, in words.
    pub reason: String,
}

/// A better placement, explained.
#[derive(Clone, PartialEq, Debug)]
pub struct Proposal {
    /// The planner.
    pub strategy: &'static str,
    /// The placement after all moves.
    pub placement: Placement,
    /// The moves, in the order of the decisions.
    pub moves: Vec<Move>,
    /// Rejected alternatives with the reason; the first of each kind.
    pub lost: Vec<String>,
    /// Further remarks for the reader.
    pub notes: Vec<String>,
}

impl Proposal {
    /// A proposal of a planner that starts from scratch. Its moves are all differences to `before`,
    /// one per pair of sites, with one reason.
    pub fn from_scratch(
        strategy: &'static str,
        before: &Placement,
        placement: Placement,
        reason: &str,
    ) -> Proposal {
        let mut groups: BTreeMap<(Site, Site), Vec<Vertex>> = BTreeMap::new();
        for vertex in placement.moved_from(before) {
            let pair = (before.site(vertex), placement.site(vertex));
            groups.entry(pair).or_default().push(vertex);
        }
        let group = |((from, to), keys): ((Site, Site), Vec<Vertex>)| {
            let reason = format!("{} keys of {}: {reason}", keys.len(), site_name(from));
            Move { keys, to, reason }
        };
        let moves = groups.into_iter().map(group).collect();
        Proposal { strategy, placement, moves, lost: Vec::new(), notes: Vec::new() }
    }

    /// The number of keys with another site than before.
    pub fn keys_moved(&self, before: &Placement) -> usize {
        self.placement.moved_from(before).count()
    }
}

/// `1 key`, `2 keys`.
pub(crate) fn plural(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
