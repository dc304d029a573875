//! Keeping the routing table small: clumps that have cooled go home (Clay, section 7.4).
//!
//! Every move splits a range. The index remembers each clump by the hot key that started it, with
//! the homes of its keys. Before the next search, clumps whose first key is no longer hot go home.
//! So the routing table grows with the keys that are hot now, and not with every past move.
//!
//! ```text
//!   plan 1      s1: 1 2 3 4 5 6     2 and 4 are hot: both go to s2     6 ranges instead of 2
//!   index       clump of 2: home of 2 is s1, home of 4 is s1
//!   plan 2      2 has cooled: 2 and 4 go home first                    2 ranges again
//! ```
//!
//! The index contains tables and keys instead of vertices, because each recording numbers its
//! vertices anew. Its text form ([`ClumpIndex::to_text`]) is kept between plans. An indexed key
//! without accesses in the new recording can go home only if the recording knows it: pass
//! [`ClumpIndex::keys`] to [`Recording::read_knowing`](crate::recording::Recording::read_knowing).
//!
//! Invariants: a key is in at most one clump, that of its last move, with its first home. A key
//! that is at home is in none.

use crate::heat::HeatGraph;
use crate::problem::{Cost, parse_site, site_name};
use crate::problem::{Move, Placement, Proposal, Site, vertex_load};
use crate::recording::{
    KeyRef, Lines, OnFault, RecordedKey, RecordingError, Vertex, parse_key, write_key, write_text,
};
use std::collections::BTreeMap;

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
#[derive(Clone, PartialEq, Default, Debug)]
pub struct ClumpIndex {
    clumps: Vec<MovedClump>,
}

impl ClumpIndex {
    /// An index of no clumps.
    pub fn new() -> ClumpIndex {
        ClumpIndex::default()
    }

    /// The clumps that are not at home.
    pub fn clumps(&self) -> &[MovedClump] {
        &self.clumps
    }

    /// All keys that are not at home.
    pub fn keys(&self) -> impl Iterator<Item = (&str, KeyRef<'_>)> {
        let homes = self.clumps.iter().flat_map(|clump| &clump.homes);
        homes.map(|((table, key), _)| (table.as_str(), key.as_ref()))
    }

    /// Remembers the moves of a proposal.
    pub fn record(&mut self, graph: &HeatGraph, before: &Placement, proposal: &Proposal) {
        // Each key's home, and the clump that moved it last.
        let mut known: BTreeMap<Named, (usize, Site)> = BTreeMap::new();
        for (at, clump) in self.clumps.iter().enumerate() {
            known.extend(clump.homes.iter().map(|(key, home)| (key.clone(), (at, *home))));
        }
        for moved in &proposal.moves {
            let Some(&start) = moved.keys.first() else { continue };
            let at = self.clumps.len();
            let mut homes = Vec::with_capacity(moved.keys.len());
            for &key in &moved.keys {
                let entry = known.entry(name(graph, key)).or_insert((at, before.site(key)));
                entry.0 = at;
                if entry.1 == proposal.placement.site(key) {
                    entry.0 = usize::MAX; // At home again: in no clump.
                }
                homes.push((name(graph, key), entry.1));
            }
            self.clumps.push(MovedClump { start: name(graph, start), homes });
        }
        for (at, clump) in self.clumps.iter_mut().enumerate() {
            clump.homes.retain(|(key, _)| known.get(key).is_some_and(|entry| entry.0 == at));
        }
        self.clumps.retain(|clump| !clump.homes.is_empty());
    }

    /// Sends clumps home, and removes them from the index, if their first key is no longer hot: not
    /// among the hottest `hot_share` of the accessed keys by load. Returns the new placement and
    /// the moves.
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
            let (heat, bound) = (graph.rate(heat), graph.rate(bound));
            let reason = format!("{table}/{key} cooled: load {heat} < {bound}, go home");
            go_home(graph, clump, &mut compacted, &reason, &mut moves);
            false
        });
        (compacted, moves)
    }

    /// The text form: one line per key that is not at home, by clump, with the key that started the
    /// clump.
    pub fn to_text(&self) -> String {
        let mut text = Vec::from(format!("{HEADER}\n"));
        for (at, MovedClump { start, homes }) in self.clumps.iter().enumerate() {
            for ((table, key), home) in homes {
                // Writing to memory cannot fail.
                let _ = write_line(&mut text, at + 1, start, table, key, *home);
            }
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Reads the text form.
    pub fn parse(text: &str) -> Result<ClumpIndex, RecordingError> {
        let mut lines = Lines::new(text.as_bytes(), OnFault::Stop);
        if !lines.advance()? || lines.whole() != HEADER {
            let (found, expected) = (lines.whole().to_owned(), HEADER.to_owned());
            return Err(RecordingError::Header { found, expected });
        }
        let mut clumps: BTreeMap<u64, MovedClump> = BTreeMap::new();
        while lines.advance()? {
            let wrong = |at: usize, field, right: &str| {
                let problem = format!("\"{}\" is no {field}: {right}", lines.field(at));
                RecordingError::Malformed(lines.fault_in(at, field, problem))
            };
            if lines.count() != 6 {
                return Err(wrong(0, "line", "6 fields are needed"));
            }
            let number = lines.field(0).parse::<u64>();
            let number = number.map_err(|_| wrong(0, "clump", "a number is needed"))?;
            let home = parse_site(lines.field(5));
            let home = home.ok_or_else(|| wrong(5, "home", "s1, s2, ... are"))?;
            let named = |at: usize| -> Named {
                (lines.field(at).to_owned(), parse_key(lines.field(at + 1)).into())
            };
            let new = || MovedClump { start: named(1), homes: Vec::new() };
            clumps.entry(number).or_insert_with(new).homes.push((named(3), home));
        }
        Ok(ClumpIndex { clumps: clumps.into_values().collect() })
    }
}

/// The columns of the text form.
const HEADER: &str = "clump,start_table,start_key,table,key,home";

fn write_line(
    text: &mut Vec<u8>,
    clump: usize,
    start: &Named,
    table: &str,
    key: &RecordedKey,
    home: Site,
) -> std::io::Result<()> {
    use std::io::Write as _;
    write!(text, "{clump},")?;
    write_text(text, &start.0)?;
    write!(text, ",")?;
    write_key(text, start.1.as_ref())?;
    write!(text, ",")?;
    write_text(text, table)?;
    write!(text, ",")?;
    write_key(text, key.as_ref())?;
    writeln!(text, ",{}", site_name(home))
}

/// Moves the clump's keys that the graph knows to their homes, one move per home.
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
