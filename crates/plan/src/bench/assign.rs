//! Placing new chunks: the flow over sites against a third-party solver over slots.

use super::{BenchError, Scale, best_of, timed};
use crate::generate::Random;
use crate::reshard::{Chunks, Placement};
use rand::{RngExt, SeedableRng};

/// The figures.
#[derive(Clone, PartialEq, Debug)]
pub struct AssignFigures {
    /// Seconds of the flow for 1000 chunks.
    pub flow_s: f64,
    /// Seconds of the Jonker-Volgenant solver on the same problem, matrix ready.
    pub solver_s: f64,
    /// Solver time over flow time.
    pub speedup_1000: f64,
    /// True if both found the same least transfer.
    pub cost_equal: bool,
    /// Seconds of the flow for 100 thousand chunks over 1000 sites.
    pub large_s: f64,
    /// Seconds of the flow for half as many chunks.
    pub half_s: f64,
}

/// New chunks of 1000 rows each: most rows on a few sites, the others anywhere.
fn chunks(count: usize, sites: u32, seed: u64) -> Result<Chunks, BenchError> {
    let mut random = Random::seed_from_u64(seed);
    let mut chunks = Chunks::new(sites as usize);
    for _ in 0..count {
        let parts: Vec<(u32, u64)> = (0..16)
            .map(|_| (random.random_range(0..sites), random.random_range(1..=125)))
            .collect();
        chunks.push(parts)?;
    }
    Ok(chunks)
}

/// Measures.
pub fn assign(scale: Scale, clock: &mut dyn FnMut() -> f64) -> Result<AssignFigures, BenchError> {
    let (small, large) = if scale == Scale::Full { (1000, 100_000) } else { (40, 400) };
    let problem = chunks(small, 10, 1)?;
    let (flow_s, placement) = best_of(5, clock, || Placement::balanced(&problem));
    let placement = placement?;
    let matrix = slots(&problem);
    let (solver_s, solved) = best_of(2, clock, || lapjv::lapjv(&matrix));
    let (of_chunk, _) = solved?;
    let cap = problem.cap();
    let sites = of_chunk.iter().map(|&slot| (slot / cap) as u32).collect();
    let cost_equal = Placement { sites }.transfer(&problem) == placement.transfer(&problem);
    let wide = chunks(large, (large / 100) as u32, 2)?;
    let (large_s, placed) = timed(clock, || Placement::balanced(&wide));
    placed?;
    let half = chunks(large / 2, (large / 100) as u32, 3)?;
    let (half_s, placed) = timed(clock, || Placement::balanced(&half));
    placed?;
    Ok(AssignFigures {
        flow_s,
        solver_s,
        speedup_1000: solver_s / flow_s,
        cost_equal,
        large_s,
        half_s,
    })
}

/// The matrix of section 3.2: a row for each chunk, ⌈m/N⌉ columns for each site. The cost of an
/// edge is the amount that would have to travel.
fn slots(chunks: &Chunks) -> ndarray::Array2<f64> {
    let (count, cap) = (chunks.len(), chunks.cap());
    ndarray::Array2::from_shape_fn((count, count), |(chunk, slot)| {
        let size: u64 = chunks.local().of(chunk).map(|(_, amount)| amount).sum();
        (size - chunks.local().at(chunk, (slot / cap) as u32)) as f64
    })
}
