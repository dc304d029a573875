//! Dividing a graph into parts of about equal weight, so that little is cut.
//!
//! *Problem.* Partitions that are accessed together should be at one site, and every site should get about as
//! much to do. As a graph, vertices weigh how often a partition is accessed, edges how often two are accessed
//! together; the weight of the edges between parts is what transactions over several sites will cost. The best
//! division is out of reach (the problem is NP-hard); good ones are not.
//!
//! *Answer.* Looking vertex by vertex, one cannot see that a whole crowd should move. So the graph is made
//! smaller and smaller, by joining what hangs together most; the smallest is cut in two; and on the way back
//! every level mends the border that it got from the one above (multilevel bisection: Hendrickson and Leland
//! 1995; Karypis and Kumar 1998):
//!
//! ```text
//!   ○─○─○─○   join    ○═○   join         cut       ●┆○   mend   ●═●┆○   mend   ●─●─●┆○
//!   │ │ │ │  ──────▶  ║ ║  ──────▶  ○═○ ─────▶  ●┆○  ─────▶  ║ ║┆║  ─────▶  │ │ │┆│
//!   ○─○─○─○           ○═○                                     ●═●┆○          ●─●─●┆○
//!
//!          coarsen                   grow               mend
//! ```
//!
//! For more than two parts, both halves are divided again, in the proportion of the parts that each of them will
//! become; and at the end single vertices move between all parts ([`mod@settle`]).
//!
//! *Balance.* No part is heavier than its share by more than the tolerated imbalance, as far as vertices allow:
//! one that is too heavy for that makes its part so. In any case no part weighs more than a share and the
//! heaviest vertex.
//!
//! *Deterministic.* Chance comes from a seed; weights are whole numbers, so no sum depends on its order.
//!
//! *Left out.* Bisection that knows of all parts at once (k-way coarsening): it saves time with many parts, and is
//! no better. Where vertices are now: parts are named after sites afterwards, such that most stays ([`named`]).

mod coarsen;
mod graph;
mod grow;
mod mend;
mod name;
mod settle;

pub use graph::Graph;
pub use name::named;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

pub(crate) type Random = Xoshiro256PlusPlus;

/// A graph with no more vertices is cut as it is.
const SMALL: usize = 64;
/// Cuts of the smallest graph that are tried.
const TRIALS: usize = 8;
/// Coarsening has come to its end if a level has more than this share of the vertices of the one before.
const STUCK: f64 = 0.95;

/// Divides a graph: gives the part of each vertex, from 0 to below `parts`. A part may be heavier than the average
/// by the share `imbalance`, and more only if a vertex is too heavy for that. With more parts than vertices, some
/// are empty.
///
/// # Panics
/// If there is no part, or if the imbalance is no number of at least 0.
pub fn divide(graph: &Graph, parts: usize, imbalance: f64, seed: u64) -> Vec<u32> {
    assert!(parts > 0, "a graph is divided into one part at least");
    assert!(imbalance >= 0.0, "an imbalance is a share of at least 0, not {imbalance}");
    let mut division = vec![0; graph.len()];
    // What each bisection may add to what its parts weigh.
    let depth = (parts as f64).log2().ceil().max(1.0);
    let tolerance = (1.0 + imbalance).powf(1.0 / depth);
    let mut random = Random::seed_from_u64(seed);
    let everything: Vec<u32> = (0..graph.len() as u32).collect();
    let mut halving = Halving { division: &mut division, tolerance, random: &mut random };
    halving.divide(graph, &everything, 0..parts as u32);
    if parts > 1 {
        settle::settle(graph, &mut division, parts, imbalance);
    }
    division
}

/// Bisection of bisections.
struct Halving<'a> {
    division: &'a mut [u32],
    tolerance: f64,
    random: &'a mut Random,
}

impl Halving<'_> {
    /// Divides a graph, whose vertices are these of the whole one, into a range of parts.
    fn divide(&mut self, graph: &Graph, names: &[u32], parts: std::ops::Range<u32>) {
        if parts.len() == 1 || graph.is_empty() {
            names.iter().for_each(|name| self.division[*name as usize] = parts.start);
            return;
        }
        let middle = parts.start + parts.len() as u32 / 2;
        let shares = [parts.start..middle, middle..parts.end];
        let room = shares.clone().map(|share| {
            let fair = graph.weight() as f64 * share.len() as f64 / parts.len() as f64;
            (fair * self.tolerance).ceil() as u64
        });
        let sides = bisect(graph, room, self.random);
        for (side, share) in shares.into_iter().enumerate() {
            let (part, inside) = graph.part(&sides, side as u8);
            let names: Vec<u32> = inside.iter().map(|at| names[*at as usize]).collect();
            self.divide(&part, &names, share);
        }
    }
}

/// Cuts a graph in two, neither heavier than it has room.
fn bisect(graph: &Graph, room: [u64; 2], random: &mut Random) -> Vec<u8> {
    let mut levels: Vec<coarsen::Coarse> = Vec::new();
    loop {
        let finest = levels.last().map_or(graph, |level| &level.graph);
        if finest.len() <= SMALL {
            break;
        }
        let coarse = coarsen::coarsen(finest, graph.weight() / SMALL as u64 * 3 / 2 + 1, random);
        let is_stuck = coarse.graph.len() as f64 > STUCK * finest.len() as f64;
        if is_stuck {
            break;
        }
        levels.push(coarse);
    }
    let smallest = levels.last().map_or(graph, |level| &level.graph);
    let trials =
        (0..TRIALS).map(|_| mend::mend(smallest, grow::grow(smallest, room, random), room));
    let best = trials.min_by_key(|cut| cut.rank()).expect("there are trials");
    let mut sides = best.sides;
    while let Some(level) = levels.pop() {
        let finer = levels.last().map_or(graph, |level| &level.graph);
        let given = level.of.iter().map(|coarse| sides[*coarse as usize]).collect();
        sides = mend::mend(finer, given, room).sides;
    }
    sides
}
