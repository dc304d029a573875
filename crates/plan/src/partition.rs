//! Graph partitioning: assigns keys to sites so that few edges are cut and no site is overloaded.
//!
//! METIS divides the accessed vertices of the heat graph by recursive bisection. It minimises the
//! weight of cut edges while no part weighs more than (1 + η) times its share.
//!
//! ```text
//!   heat graph ──▶ METIS ──▶ parts 0, 1, 2 ──▶ assignment ──▶ sites s2, s0, s1
//!                                              the most vertices stay where they are
//! ```
//!
//! METIS knows nothing of the current placement, so its parts are matched to sites afterwards such
//! that most keys stay.
//!
//! METIS installs a handler for SIGTERM while it runs, which is correct only on the calling thread.
//! A program that handles this signal must block it in all threads except the one that waits for
//! it. METIS' random numbers come from the C library, which has one sequence for all threads. Calls
//! are therefore serialized, and the same graph gets the same parts.

use crate::assign::{AssignError, Worth};
use crate::heat::HeatGraph;
use crate::problem::{Placement, PlanError, Problem, Site};
use crate::recording::Vertex;
use parking_lot::Mutex;

/// Held by the thread that runs METIS.
static ALONE: Mutex<()> = Mutex::new(());

/// METIS' parts as sites.
pub(crate) fn place(problem: &Problem<'_>, eta: f64) -> Result<Placement, PlanError> {
    let (vertices, parts) = parts(problem, eta)?;
    let parts: Vec<u32> = parts.into_iter().map(|part| part as u32).collect();
    let placed = named(problem.placement, &vertices, &parts);
    placed.map_err(|error| PlanError::Metis(error.to_string()))
}

/// The accessed vertices, and the part that METIS assigns to each.
fn parts(problem: &Problem<'_>, eta: f64) -> Result<(Vec<Vertex>, Vec<i32>), PlanError> {
    if !(eta.is_finite() && eta > 0.0 && eta <= 1000.0) {
        let right = "a number above 0 and up to 1000";
        return Err(PlanError::Number { what: "METIS' imbalance", value: eta, right });
    }
    let graph = problem.graph;
    let vertices: Vec<Vertex> =
        (0..graph.len() as Vertex).filter(|&v| graph.weight(v) > 0.0).collect();
    let mut parts = vec![0; vertices.len()];
    let sites = problem.placement.sites();
    if sites == 1 {
        return Ok((vertices, parts));
    }
    let Layout { starts, targets, edge_weights, weights } = layout(graph, &vertices)?;
    let refused = |error: &dyn std::fmt::Display| PlanError::Metis(error.to_string());
    let _alone = ALONE.lock();
    ::metis::Graph::new(1, sites as i32, &starts, &targets)
        .map_err(|error| refused(&error))?
        .set_vwgt(&weights)
        .set_adjwgt(&edge_weights)
        .set_option(::metis::option::UFactor((eta * 1000.0) as i32))
        .set_option(::metis::option::Seed(1))
        .part_recursive(&mut parts)
        .map_err(|error| refused(&error))?;
    Ok((vertices, parts))
}

/// The graph in METIS' form: 32-bit numbers, accessed vertices only.
struct Layout {
    starts: Vec<i32>,
    targets: Vec<i32>,
    edge_weights: Vec<i32>,
    weights: Vec<i32>,
}

fn layout(graph: &HeatGraph, vertices: &[Vertex]) -> Result<Layout, PlanError> {
    let found = 2 * graph.edges() as u64;
    let limit = i32::MAX as u64;
    if found > limit {
        return Err(PlanError::TooLarge { planner: "METIS", what: "directed edges", limit, found });
    }
    let mut number = vec![0i32; graph.len()];
    for (at, &vertex) in vertices.iter().enumerate() {
        number[vertex as usize] = at as i32;
    }
    let whole = |weight: f64| weight.round().clamp(1.0, 1e9 / vertices.len() as f64 + 1e4) as i32;
    let mut layout = Layout {
        starts: vec![0],
        targets: Vec::with_capacity(found as usize),
        edge_weights: Vec::with_capacity(found as usize),
        weights: vertices.iter().map(|&vertex| whole(graph.weight(vertex))).collect(),
    };
    for &vertex in vertices {
        for (to, weight) in graph.neighbours(vertex).filter(|&(to, _)| graph.weight(to) > 0.0) {
            layout.targets.push(number[to as usize]);
            layout.edge_weights.push(whole(weight));
        }
        layout.starts.push(layout.targets.len() as i32);
    }
    Ok(layout)
}

/// The placement that gives each part its own site such that most vertices stay. Vertices without a
/// part stay.
///
/// # Errors
/// Those of [`Worth::assign`]: too many sites.
fn named(before: &Placement, vertices: &[Vertex], parts: &[u32]) -> Result<Placement, AssignError> {
    let sites = before.sites();
    let mut overlap = vec![vec![0u64; sites]; sites];
    for (&vertex, &part) in vertices.iter().zip(parts) {
        overlap[part as usize][usize::from(before.site(vertex))] += 1;
    }
    let mut worth = Worth::new(sites);
    for row in overlap {
        worth.push((0..).zip(row))?;
    }
    let names = worth.assign(1)?;
    let mut placement = before.clone();
    for (&vertex, &part) in vertices.iter().zip(parts) {
        placement.set(vertex, names[part as usize] as Site);
    }
    Ok(placement)
}
