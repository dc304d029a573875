//! The last touch, with all parts in view: single vertices go where they are tied most, and parts that are too heavy
//! give some away.

use super::graph::Graph;

const PASSES_MAX: usize = 8;

pub(super) fn settle(graph: &Graph, division: &mut [u32], parts: usize, imbalance: f64) {
    let mut weights = vec![0; parts];
    for (vertex, part) in (0..).zip(division.iter()) {
        weights[*part as usize] += graph.weight_of(vertex);
    }
    let room = (graph.weight() as f64 / parts as f64 * (1.0 + imbalance)).floor() as u64;
    let ties = (vec![0; parts], Vec::new());
    let mut settling = Settling { graph, division, weights, room, ties };
    for _ in 0..PASSES_MAX {
        let given = settling.give();
        if !settling.improve() && !given {
            break;
        }
    }
    settling.give();
}

struct Settling<'a> {
    graph: &'a Graph,
    division: &'a mut [u32],
    weights: Vec<u64>,
    /// What a part may weigh.
    room: u64,
    /// Of the vertex at hand: what ties it to each part, and to which parts at all.
    ties: (Vec<u64>, Vec<u32>),
}

impl Settling<'_> {
    /// Moves vertices for which that saves something, or evens out weights and costs nothing. True if any did.
    fn improve(&mut self) -> bool {
        let mut any = false;
        for vertex in 0..self.graph.len() as u32 {
            let (weight, from) = (self.graph.weight_of(vertex), self.division[vertex as usize]);
            self.look(vertex);
            let (ties, around) = &self.ties;
            let own = ties[from as usize];
            let better = around.iter().filter(|&&to| {
                let after = self.weights[to as usize] + weight;
                let tied = ties[to as usize];
                after <= self.room
                    && (tied > own || tied == own && after < self.weights[from as usize])
            });
            let better = better.max_by_key(|&&to| {
                (ties[to as usize], std::cmp::Reverse((self.weights[to as usize], to)))
            });
            if let Some(&to) = better {
                self.go(vertex, to);
                any = true;
            }
        }
        any
    }

    /// Parts that are too heavy give what costs least, to where it does not make things worse. True if any did.
    fn give(&mut self) -> bool {
        let mut any = false;
        for part in 0..self.weights.len() as u32 {
            while self.weights[part as usize] > self.room {
                let Some((vertex, to)) = self.cheapest(part) else { break };
                self.go(vertex, to);
                any = true;
            }
        }
        any
    }

    /// What leaves a part at the least cost, and where to.
    fn cheapest(&mut self, part: u32) -> Option<(u32, u32)> {
        let lightest =
            (0..self.weights.len() as u32).min_by_key(|to| self.weights[*to as usize])?;
        let mut best: Option<(i64, u32, u32)> = None;
        for vertex in 0..self.graph.len() as u32 {
            let weight = self.graph.weight_of(vertex);
            if self.division[vertex as usize] != part || weight == 0 {
                continue;
            }
            self.look(vertex);
            let (ties, around) = &self.ties;
            let here = self.weights[part as usize];
            for &to in around.iter().chain([&lightest]) {
                let after = self.weights[to as usize] + weight;
                let cost = ties[part as usize] as i64 - ties[to as usize] as i64;
                let helps = to != part && (after <= self.room || to == lightest && after < here);
                if helps && best.is_none_or(|best| (cost, vertex, to) < best) {
                    best = Some((cost, vertex, to));
                }
            }
        }
        best.map(|(_, vertex, to)| (vertex, to))
    }

    /// Finds out what ties a vertex to the parts around it.
    fn look(&mut self, vertex: u32) {
        let (ties, around) = &mut self.ties;
        around.drain(..).for_each(|part| ties[part as usize] = 0);
        ties[self.division[vertex as usize] as usize] = 0;
        for &(to, weight) in self.graph.neighbours(vertex) {
            let part = self.division[to as usize];
            if ties[part as usize] == 0 {
                around.push(part);
            }
            ties[part as usize] += weight;
        }
    }

    fn go(&mut self, vertex: u32, to: u32) {
        let (weight, from) = (self.graph.weight_of(vertex), self.division[vertex as usize]);
        self.weights[from as usize] -= weight;
        self.weights[to as usize] += weight;
        self.division[vertex as usize] = to;
    }
}
