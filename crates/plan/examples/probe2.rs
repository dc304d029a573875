//! Scratch.
#![allow(clippy::disallowed_methods)]
use isomer_plan::route::*;
use rand::{RngExt, SeedableRng};
use std::time::Instant;
fn batch(b: u64, sites: u64, width: u64, reads: std::ops::RangeInclusive<u64>, seed: u64) -> Batch {
    let mut r = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(seed);
    Batch::new((1..=b).map(|id| {
        let n = r.random_range(reads.clone());
        let main = r.random_range(0..sites);
        let read: Vec<u64> = (0..n).map(|_| if r.random_bool(0.5) { main * width + r.random_range(0..width) } else { r.random_range(0..sites*width) }).collect();
        let write = read.iter().copied().filter(|_| r.random_bool(0.5)).collect();
        Transaction { id, read, write }
    }).collect()).unwrap()
}
fn main() {
    for width in [50u64, 1000, 100000] {
    let b = batch(1000, 20, width, 2..=20, 5);
    let home = Home::new(20, width).unwrap();
    let f = FusionTable::new(Replacement::Clock, None);
    for reorder in [true, false] {
    let o = Options { reorder, ..Options::default() };
    let t = Instant::now(); let fast = hermes(&b, home, &f, o); let tf = t.elapsed();
    let t = Instant::now(); let slow = textbook(&b, home, &f, o); let ts = t.elapsed();
    println!("w {width} reorder {reorder} fast {tf:?} slow {ts:?} ratio {:.0} same {} remote {} migr {} max {:?}", ts.as_secs_f64()/tf.as_secs_f64(), fast==slow, fast.remote_reads, fast.migrations, fast.loads.iter().max());
    }
    for (n, r) in [("calvin", calvin(&b, home)), ("gstore", gstore(&b, home)), ("leap", leap(&b, home)), ("tpart", tpart(&b, home, 8000))] { println!("  {n} remote {} migr {} max {:?}", r.remote_reads, r.migrations, r.loads.iter().max()); }
    }
    let mut sum = [0u64; 2]; let mut worst = 0.0f64;
    for seed in 0..200 {
        let b = batch(6, 3, 10, 2..=4, seed);
        let home = Home::new(3, 10).unwrap();
        let f = FusionTable::new(Replacement::Clock, None);
        let o = Options { alpha: Alpha::ZERO, ..Options::default() };
        let g = hermes(&b, home, &f, o); let e = optimum(&b, home, &f, Alpha::ZERO, true).unwrap();
        sum[0] += g.remote_reads; sum[1] += e.remote_reads;
        worst = worst.max(g.remote_reads as f64 - e.remote_reads as f64);
    }
    println!("gap {sum:?} {:.3} worst +{worst}", sum[0] as f64 / sum[1] as f64);
    // assignment
    use isomer_plan::assign::Worth;
    let mut r = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(1);
    for (m, n, skew) in [(1000usize, 50u32, false), (1000, 1000, false), (100_000, 1000, false), (100_000, 1000, true)] {
        let mut w = Worth::new(n as usize);
        for _ in 0..m {
            if skew { w.push((0..20).map(|_| { let s = (r.random::<f64>().powi(3) * n as f64) as u32; (s, r.random_range(0..1000u64)) }).collect::<Vec<_>>()).unwrap(); }
            else { w.push((0..n).map(|s| (s, r.random_range(0..1000u64))).collect::<Vec<_>>()).unwrap(); }
        }
        let t = Instant::now();
        let a = w.assign(m.div_ceil(n as usize)).unwrap();
        println!("assign {m}x{n} skew {skew} {:?} total {} greedy {}", t.elapsed(), w.total(&a), w.total(&w.greedy()));
    }
}
