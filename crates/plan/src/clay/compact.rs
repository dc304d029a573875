//! Keeping the routing table small: clumps that cooled go home (Clay, section 7.4).
//!
//! Every move tears a range. The index remembers each clump by the hot key that started it, with
//! the homes of its keys. Before the next search, clumps whose first key is no longer hot are put
//! back; so the routing table follows what is hot now, not all that ever was. The index speaks of
//! tables and keys, not of vertices, because the next recording numbers them anew.

use crate::heat::HeatGraph;
use crate::problem::{Cost, site_name};
use crate::problem::{Move, Placement, Proposal, Site, vertex_load};
use crate::recording::{RecordedKey, Vertex};

/// A key by name.
type Named = (String, RecordedKey);

/// One clump that is not at home.
#[derive(Clone, PartialEq, Debug)]
pub struct MovedClump {
    /// The hot key that started it.
    pub start: Named,
    /// Its keys and their homes, the start included.
    pub homes: Vec<(Named, Site)>,
}

/// All clumps that are not at home, oldest first.
#[derive(Clone, Default, Debug)]
pub struct ClumpIndex {
    clumps: Vec<MovedClump>,
}

impl ClumpIndex {
    /// Nothing was ever moved.
    pub fn new() -> ClumpIndex {
        ClumpIndex::default()
    }

    /// The clumps that are not at home.
    pub fn clumps(&self) -> &[MovedClump] {
        &self.clumps
    }

    /// Remembers the moves of a proposal. A key that was moved before keeps its first home.
    pub fn record(&mut self, graph: &HeatGraph, before: &Placement, proposal: &Proposal) {
        for moved in &proposal.moves {
            let Some(&start) = moved.keys.first() else { continue };
            let homes = moved.keys.iter().map(|&key| {
                let name = name(graph, key);
                let home = self.take_home(&name).unwrap_or(before.site(key));
                (name, home)
            });
            let homes: Vec<(Named, Site)> = homes.collect();
            self.clumps.push(MovedClump { start: name(graph, start), homes });
        }
        self.clumps.retain(|clump| !clump.homes.is_empty());
    }

    fn take_home(&mut self, name: &Named) -> Option<Site> {
        for clump in &mut self.clumps {
            if let Some(at) = clump.homes.iter().position(|(other, _)| other == name) {
                return Some(clump.homes.remove(at).1);
            }
        }
        None
    }

    /// Puts clumps back whose first key is not among the hottest `hot_share` of the accessed keys
    /// (by load, as in the hot list); returns the new placement and the moves. Those clumps are
    /// forgotten.
    pub fn compact(
        &mut self,
        graph: &HeatGraph,
        placement: &Placement,
        cost: Cost,
        hot_share: f64,
    ) -> (Placement, Vec<Move>) {
        let bound = hot_bound(graph, placement, cost, hot_share);
        let mut compacted = placement.clone();
        let mut moves = Vec::new();
        self.clumps.retain(|clump| {
            let (table, key) = &clump.start;
            let start = graph.keys().find(table, key.as_ref());
            let heat = start.map_or(0.0, |start| vertex_load(graph, placement, cost, start));
            if heat >= bound {
                return true;
            }
            let reason = format!("{table}/{key} cooled: load {heat:.1} < {bound:.1}, go home");
            go_home(graph, clump, &mut compacted, &reason, &mut moves);
            false
        });
        (compacted, moves)
    }
}

/// Moves what the graph knows of a clump to its homes, one move for each home.
fn go_home(
    graph: &HeatGraph,
    clump: &MovedClump,
    placement: &mut Placement,
    reason: &str,
    moves: &mut Vec<Move>,
) {
    let mut homes: Vec<Site> = clump.homes.iter().map(|&(_, home)| home).collect();
    homes.sort_unstable();
    homes.dedup();
    for home in homes {
        let here = clump.homes.iter().filter(|&&(_, site)| site == home);
        let keys: Vec<Vertex> = here
            .filter_map(|((table, key), _)| graph.keys().find(table, key.as_ref()))
            .filter(|&key| placement.site(key) != home)
            .collect();
        keys.iter().for_each(|&key| placement.set(key, home));
        if !keys.is_empty() {
            let reason = format!("{reason} to {}", site_name(home));
            moves.push(Move { keys, to: home, reason });
        }
    }
}

/// The load of the coolest key that still counts as hot.
fn hot_bound(graph: &HeatGraph, placement: &Placement, cost: Cost, hot_share: f64) -> f64 {
    let mut heat: Vec<f64> = (0..graph.len() as Vertex)
        .filter(|&key| graph.weight(key) > 0.0)
        .map(|key| vertex_load(graph, placement, cost, key))
        .collect();
    let hot = (heat.len() as f64 * hot_share.clamp(0.0, 1.0)).ceil() as usize;
    match hot.checked_sub(1) {
        Some(last) if last < heat.len() => {
            *heat.select_nth_unstable_by(last, |a, b| b.total_cmp(a)).1
        }
        _ => f64::INFINITY,
    }
}

fn name(graph: &HeatGraph, key: Vertex) -> Named {
    let (table, key) = graph.keys().vertex(key);
    (graph.keys().table_name(table).to_owned(), key.clone())
}
