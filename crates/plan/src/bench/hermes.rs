//! The fast router against the textbook one and the exact optimum.

use super::{BenchError, Scale, best_of, timed};
use crate::generate::{Random, Zipf};
use crate::route::{
    Batch, Fused, FusionTable, Home, Options, Replacement, Transaction, hermes as fast, optimum,
    textbook,
};
use rand::{RngExt, SeedableRng};

/// The figures.
#[derive(Clone, PartialEq, Debug)]
pub struct HermesFigures {
    /// Seconds of the fast router.
    pub fast_s: f64,
    /// Seconds of the textbook router.
    pub textbook_s: f64,
    /// Textbook time over fast time.
    pub speedup: f64,
    /// True if both gave the same routes, here and on all small batches.
    pub identical: bool,
    /// Remote reads of the polished routes above the optimum, over the optimum, summed over all
    /// small batches.
    pub gap_to_optimum: f64,
    /// The same for Algorithm 1 of the paper, without polish.
    pub gap_of_paper: f64,
    /// Seconds of the fast router with polish, on the large batch.
    pub polished_s: f64,
    /// Remote reads of the large batch: by the paper's algorithm, and polished.
    pub remote_reads: [u64; 2],
    /// The small batches.
    pub small_batches: usize,
}

/// A batch like those of Hermes' Google workload: half of the reads from one site, the others from
/// anywhere, both by Zipf. Half of the records read are also written.
fn batch(
    transactions: u64,
    home: Home,
    width: u64,
    reads: std::ops::RangeInclusive<u64>,
    seed: u64,
) -> Result<Batch, BenchError> {
    let mut random = Random::seed_from_u64(seed);
    let zipf = Zipf::new(width, 0.9)?;
    let sites = u64::from(home.sites());
    let mut batch = Vec::new();
    for id in 1..=transactions {
        let main = random.random_range(0..sites);
        let mut read = Vec::new();
        for _ in 0..random.random_range(reads.clone()) {
            let far = random.random_bool(0.5);
            let site = if far { random.random_range(0..sites) } else { main };
            read.push(site * width + zipf.draw(&mut random));
        }
        let write = read.iter().copied().filter(|_| random.random_bool(0.5)).collect();
        batch.push(Transaction { id, read, write });
    }
    Ok(Batch::new(batch)?)
}

/// Measures.
pub fn hermes(scale: Scale, clock: &mut dyn FnMut() -> f64) -> Result<HermesFigures, BenchError> {
    let (transactions, small_batches) = if scale == Scale::Full { (1000, 200) } else { (40, 5) };
    let (width, options) = (10_000, Options::default());
    let fusion = FusionTable::new(Replacement::Clock, None);
    let home = Home::new(20, width)?;
    let large = batch(transactions, home, width, 2..=20, 1)?;
    let (fast_s, mine) =
        best_of(5, clock, || fast(&large, &Fused { home, fusion: &fusion }, options));
    let (textbook_s, oracle) =
        timed(clock, || textbook(&large, &Fused { home, fusion: &fusion }, options));
    let mut identical = mine == oracle;
    let polish = Options { polish: true, ..options };
    let (polished_s, polished) =
        best_of(3, clock, || fast(&large, &Fused { home, fusion: &fusion }, polish));
    let remote_reads = [mine.remote_reads, polished.remote_reads];
    let (mut paper, mut polished, mut best) = (0, 0, 0);
    let home = Home::new(3, 12)?;
    for seed in 0..small_batches {
        let small = batch(6, home, 12, 2..=4, seed)?;
        let routed = fast(&small, &Fused { home, fusion: &fusion }, options);
        identical &= routed == textbook(&small, &Fused { home, fusion: &fusion }, options);
        paper += routed.remote_reads;
        polished += fast(&small, &Fused { home, fusion: &fusion }, polish).remote_reads;
        best +=
            optimum(&small, &Fused { home, fusion: &fusion }, options.alpha, true)?.remote_reads;
    }
    Ok(HermesFigures {
        fast_s,
        textbook_s,
        speedup: textbook_s / fast_s,
        identical,
        gap_to_optimum: polished as f64 / best.max(1) as f64 - 1.0,
        gap_of_paper: paper as f64 / best.max(1) as f64 - 1.0,
        polished_s,
        remote_reads,
        small_batches: small_batches as usize,
    })
}
