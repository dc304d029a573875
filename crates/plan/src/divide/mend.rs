//! Mending a cut in two (Fiduccia and Mattheyses 1982): vertices move to the other side one after the other, the
//! one that saves most first, even if it saves nothing; then all is taken back after the best moment.
//!
//! ```text
//!   cut   20 ── 17 ── 18 ── 21 ── 15 ── 16 ── 19      seven vertices have moved
//!                                  └ kept              as if the last two had not
//! ```
//!
//! So a crowd can move of which no single one should. Each vertex moves once in a pass, and passes go on as long as
//! they help. A side that is too heavy gives until it is not.

use super::graph::Graph;
use super::grow::saved;
use std::collections::BinaryHeap;

/// A pass ends after so many moves in a row that did not help.
const PATIENCE: usize = 64;
const PASSES_MAX: usize = 3;

/// A graph cut in two.
pub(super) struct Cut {
    /// By vertex: 0 or 1.
    pub(super) sides: Vec<u8>,
    weights: [u64; 2],
    room: [u64; 2],
    cut: i64,
}

impl Cut {
    /// Less is better: too much weight first, then what is cut.
    pub(super) fn rank(&self) -> (u64, i64) {
        let over = |side: usize| self.weights[side].saturating_sub(self.room[side]);
        (over(0) + over(1), self.cut)
    }

    fn flip(&mut self, graph: &Graph, vertex: u32, saved: i64) {
        let side = &mut self.sides[vertex as usize];
        let weight = graph.weight_of(vertex);
        self.weights[usize::from(*side)] -= weight;
        *side = 1 - *side;
        self.weights[usize::from(*side)] += weight;
        self.cut -= saved;
    }
}

pub(super) fn mend(graph: &Graph, sides: Vec<u8>, room: [u64; 2]) -> Cut {
    let mut weights = [0; 2];
    for (vertex, side) in (0..).zip(&sides) {
        weights[usize::from(*side)] += graph.weight_of(vertex);
    }
    let cut = graph.cut(&sides) as i64;
    let mut cut = Cut { sides, weights, room, cut };
    let mut pass = Pass::new(graph);
    for _ in 0..PASSES_MAX {
        let before = cut.rank();
        pass.run(&mut cut);
        if cut.rank() >= before {
            break;
        }
    }
    cut
}

/// What the passes over one graph work with.
struct Pass<'g> {
    graph: &'g Graph,
    saved: Vec<i64>,
    moved: Vec<bool>,
    /// Of each side: by what a move saves; out of date where `saved` says otherwise.
    border: [BinaryHeap<(i64, u32)>; 2],
    moves: Vec<u32>,
}

impl Pass<'_> {
    fn new(graph: &Graph) -> Pass<'_> {
        let (saved, moved) = (vec![0; graph.len()], vec![false; graph.len()]);
        Pass { graph, saved, moved, border: Default::default(), moves: Vec::new() }
    }

    fn run(&mut self, cut: &mut Cut) {
        self.begin(cut);
        let (mut best, mut kept) = (cut.rank(), 0);
        while self.moves.len() < kept + PATIENCE {
            let Some(vertex) = self.next(cut) else { break };
            self.flip(cut, vertex);
            if cut.rank() < best {
                (best, kept) = (cut.rank(), self.moves.len());
            }
        }
        for vertex in self.moves.drain(kept..).rev() {
            let saved = saved(self.graph, &cut.sides, vertex);
            cut.flip(self.graph, vertex, saved);
        }
    }

    fn begin(&mut self, cut: &Cut) {
        self.moved.fill(false);
        self.moves.clear();
        self.border.iter_mut().for_each(BinaryHeap::clear);
        let is_over = cut.rank().0 > 0;
        for vertex in 0..self.graph.len() as u32 {
            let side = cut.sides[vertex as usize];
            let saved = saved(self.graph, &cut.sides, vertex);
            self.saved[vertex as usize] = saved;
            let mut neighbours = self.graph.neighbours(vertex).iter();
            // What is no border moves only for the weight of it.
            if is_over || neighbours.any(|(to, _)| cut.sides[*to as usize] != side) {
                self.border[usize::from(side)].push((saved, vertex));
            }
        }
    }

    /// The vertex whose move saves most, of those that may move.
    fn next(&mut self, cut: &Cut) -> Option<u32> {
        let over = [0, 1].map(|side| cut.weights[side] > cut.room[side]);
        let mut tops = [None; 2];
        for from in [0, 1] {
            // The heavier side gives, and does not take.
            if over[1 - from] {
                continue;
            }
            while let Some(&(saved, vertex)) = self.border[from].peek() {
                let is_old = self.moved[vertex as usize]
                    || saved != self.saved[vertex as usize]
                    || usize::from(cut.sides[vertex as usize]) != from;
                let weight = self.graph.weight_of(vertex);
                let fits = over[from] || cut.weights[1 - from] + weight <= cut.room[1 - from];
                if !is_old && fits {
                    tops[from] = Some((saved, vertex));
                    break;
                }
                self.border[from].pop();
            }
        }
        // Of equals, from the side with less room left.
        let room = |side: usize| cut.room[side] as i64 - cut.weights[side] as i64;
        let from = match tops {
            [Some((a, _)), Some((b, _))] if a == b => usize::from(room(1) < room(0)),
            [a, b] => usize::from(b > a),
        };
        tops[from].map(|(_, vertex)| vertex)
    }

    fn flip(&mut self, cut: &mut Cut, vertex: u32) {
        cut.flip(self.graph, vertex, self.saved[vertex as usize]);
        self.moved[vertex as usize] = true;
        self.moves.push(vertex);
        let side = cut.sides[vertex as usize];
        for &(to, weight) in self.graph.neighbours(vertex) {
            if self.moved[to as usize] {
                continue;
            }
            let (other, known) = (cut.sides[to as usize], &mut self.saved[to as usize]);
            *known += if other == side { -2 } else { 2 } * weight as i64;
            self.border[usize::from(other)].push((*known, to));
        }
    }
}
