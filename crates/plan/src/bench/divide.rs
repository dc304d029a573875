//! The divider against METIS: how much is cut, and how long it takes.
//!
//! Two graphs: what a blueprint sees of YCSB in the laboratory (a row of partitions, a few thousand transactions
//! over three near ones, and weak ties between neighbours), and the heat graph of products, parts and suppliers.

use super::{BenchError, Scale, best_of};
use crate::baseline::metis;
use crate::divide::{self, Graph};
use crate::generate::{Generated, Pps, Random};
use crate::heat::{HeatGraph, Sampling};
use crate::problem::{Cost, Placement, Problem};
use crate::recording::Recording;
use rand::{RngExt, SeedableRng};

/// What came out for one graph.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DivideFigures {
    /// Vertices of the graph.
    pub vertices: usize,
    /// What the divider cuts, over what METIS cuts.
    pub cut_ratio: f64,
    /// Its time over METIS'.
    pub time_ratio: f64,
    /// The heaviest part over the average: the divider's, METIS'.
    pub heaviest: [f64; 2],
}

const SITES: usize = 8;
const IMBALANCE: f64 = 0.1;
const RUNS: usize = 5;

/// Measures: YCSB, then products, parts and suppliers.
pub fn divide(
    scale: Scale,
    clock: &mut dyn FnMut() -> f64,
) -> Result<[DivideFigures; 2], BenchError> {
    let (partitions, suppliers) = if scale == Scale::Full { (4000, 500) } else { (100, 20) };
    let pps = Generated::new(Pps::new(suppliers, 0.2)?, 50 * suppliers, 1000.0, 1)?;
    let pps = HeatGraph::of(&Recording::read(pps)?, Sampling::ALL)?;
    Ok([compare(&ycsb(partitions)?, clock)?, compare(&pps, clock)?])
}

fn ycsb(partitions: u32) -> Result<HeatGraph, BenchError> {
    let mut random = Random::seed_from_u64(5);
    let mut weights = vec![10.0; partitions as usize];
    let mut edges: Vec<(u32, u32, f64)> = (1..partitions).map(|at| (at - 1, at, 25.0)).collect();
    for _ in 0..partitions {
        let first = random.random_range(0..partitions);
        let near: [u32; 3] = [0; 3].map(|_| (first + random.random_range(0..10)) % partitions);
        near.iter().for_each(|at| weights[*at as usize] += 100.0);
        let pairs = [(near[0], near[1]), (near[0], near[2]), (near[1], near[2])];
        edges.extend(pairs.iter().filter(|(a, b)| a != b).map(|&(a, b)| (a, b, 50.0)));
    }
    Ok(HeatGraph::from_parts(&weights, &edges)?)
}

fn compare(heat: &HeatGraph, clock: &mut dyn FnMut() -> f64) -> Result<DivideFigures, BenchError> {
    let vertices = heat.len() as u32;
    let weights: Vec<u64> = (0..vertices).map(|at| heat.weight(at).round() as u64).collect();
    let edges = (0..vertices).flat_map(|from| {
        let later = heat.neighbours(from).filter(move |(to, _)| *to > from);
        later.map(move |(to, weight)| (from, to, weight.round() as u64))
    });
    let graph = Graph::new(weights, &edges.collect::<Vec<_>>());
    let before = Placement::new(SITES, vec![0; heat.len()]);
    let problem =
        Problem { graph: heat, placement: &before, cost: Cost::flat(1.0), imbalance: IMBALANCE };
    let (ours_s, ours) = best_of(RUNS, clock, || divide::divide(&graph, SITES, IMBALANCE, 1));
    let (metis_s, theirs) = best_of(RUNS, clock, || metis::plan(&problem, IMBALANCE));
    let theirs = theirs?.placement;
    let theirs: Vec<u32> = (0..vertices).map(|at| u32::from(theirs.site(at))).collect();
    let heaviest = [&ours, &theirs].map(|division| {
        let mut parts = [0; SITES];
        (0..).zip(division).for_each(|(at, part)| parts[*part as usize] += graph.weight_of(at));
        let most = parts.iter().max().copied().unwrap_or(0);
        most as f64 * SITES as f64 / graph.weight() as f64
    });
    Ok(DivideFigures {
        vertices: graph.len(),
        cut_ratio: graph.cut(&ours) as f64 / graph.cut(&theirs).max(1) as f64,
        time_ratio: ours_s / metis_s,
        heaviest,
    })
}
