//! Scratch.
#![allow(clippy::disallowed_methods)]
use isomer_plan::*;
use std::time::Instant;
fn main() {
    let n: u64 = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(300_000);
    let sites: usize = std::env::args().nth(3).and_then(|a| a.parse().ok()).unwrap_or(30);
    let hot: f64 = std::env::args().nth(4).and_then(|a| a.parse().ok()).unwrap_or(0.2);
    let metis_on = std::env::args().nth(2).is_some_and(|a| a == "metis");
    let t = Instant::now();
    let suppliers: u64 = std::env::args().nth(5).and_then(|a| a.parse().ok()).unwrap_or(45_000);
    let pps = generate::Pps::new(suppliers, hot).unwrap();
    let mut src = generate::Generated::new(pps, n, n as f64 / 20.0, 1).unwrap();
    let mut w = recording::CsvWriter::new(Vec::new()).unwrap();
    let mut b = recording::BinaryWriter::new(Vec::new()).unwrap();
    let mut acc = 0u64;
    use recording::Source;
    while let Some(a) = src.next_access().unwrap() { w.push(&a).unwrap(); b.push(&a).unwrap(); acc += 1; }
    let csv = w.finish().unwrap(); let bin = b.finish().unwrap();
    println!("generate {:?} accesses {acc} csv {} bin {}", t.elapsed(), csv.len(), bin.len());
    for (name, bytes) in [("csv", &csv), ("bin", &bin)] {
        let t = Instant::now();
        let rec = recording::Recording::read(recording::open(&bytes[..], recording::OnFault::Stop).unwrap()).unwrap();
        println!("{name} read {:?}", t.elapsed());
        let t = Instant::now();
        let g = heat::HeatGraph::of(&rec, heat::Sampling::ALL).unwrap();
        println!("graph {:?} v {} e {}", t.elapsed(), g.accessed(), g.edges());
        let t = Instant::now();
        let g = heat::HeatGraph::stream(recording::open(&bytes[..], recording::OnFault::Stop).unwrap(), heat::Sampling::ALL).unwrap();
        println!("stream graph {:?} v {} e {}", t.elapsed(), g.accessed(), g.edges());
    }
    let rec = recording::Recording::read(recording::open(&bin[..], recording::OnFault::Stop).unwrap()).unwrap();
    let g = heat::HeatGraph::of(&rec, heat::Sampling::ALL).unwrap();
    let before = problem::Placement::by_range(g.keys(), sites);
    for eps in [0.5, 0.3, 0.2, 0.15, 0.1, 0.05, 0.03] {
        let p = problem::Problem { graph: &g, placement: &before, cost: problem::Cost::flat(50.0), imbalance: eps };
        let t = Instant::now();
        let out = clay::plan(&p, &clay::Options::default()).unwrap();
        let dt = t.elapsed();
        let l = problem::Loads::of(&g, &out.placement, p.cost);
        println!("eps {eps} clay {dt:?} before max {:.0} mean {:.0} after max {:.0} mean {:.0} moved {} moves {} notes {}", p.loads().max(), p.loads().mean(), l.max(), l.mean(), out.keys_moved(&before), out.moves.len(), out.notes.len());
    }
    let p = problem::Problem { graph: &g, placement: &before, cost: problem::Cost::flat(50.0), imbalance: 0.1 };
    let t = Instant::now();
    let out = drift::plan(&p, &drift::Options::default()).unwrap();
    let dt = t.elapsed();
    let l = problem::Loads::of(&g, &out.placement, p.cost);
    println!("drift {dt:?} after max {:.0} mean {:.0} moved {}", l.max(), l.mean(), out.keys_moved(&before));
    if metis_on {
        for eta in [0.1, 0.5, 1.0, 3.0, 10.0] {
            let p = problem::Problem { graph: &g, placement: &before, cost: problem::Cost::flat(50.0), imbalance: 0.1 };
            let t = Instant::now();
            let out = baseline::metis::plan(&p, eta).unwrap();
            let dt = t.elapsed();
            let l = problem::Loads::of(&g, &out.placement, p.cost);
            println!("metis {eta} {dt:?} after max {:.0} mean {:.0} moved {} cut {:.4}", l.max(), l.mean(), out.keys_moved(&before), baseline::schism::cut_share(&g, &out.placement));
        }
    }
}
