//! The same trace on a design that does not change, with two-phase commit over several sites.

use super::DemoArgs;
use crate::clock;
use crate::work::{Client, Tally};
use isomer_cluster::Database;
use isomer_workload::{TraceWorkload, random};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The share of the demo's time that it runs.
const SHARE: f64 = 1.0 / 3.0;

/// The counts of its clients.
pub(super) struct Compared {
    pub(super) tally: Tally,
    pub(super) seconds: f64,
}

/// Runs clients at full speed for a share of the demo's time.
pub(super) fn run(args: &DemoArgs, db: &Database, workloads: Vec<TraceWorkload>) -> Compared {
    let (begun, stop) = (clock::now(), AtomicBool::new(false));
    let mut tally = Tally::default();
    std::thread::scope(|scope| {
        let stop = &stop;
        let mut clients = Vec::new();
        for (number, workload) in (0u64..).zip(workloads) {
            let rng = random(args.seed.wrapping_mul(1000).wrapping_add(number));
            let mut client = Client::new(db, workload, rng);
            clients.push(scope.spawn(move || {
                let mut tally = Tally::default();
                while !stop.load(Ordering::Relaxed) {
                    let transaction = client.draw();
                    client.run(&transaction, &mut tally);
                }
                tally
            }));
        }
        clock::sleep(Duration::from_secs_f64(args.seconds as f64 * SHARE));
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            tally.add(&client.join().expect("a client does not panic"));
        }
    });
    Compared { tally, seconds: begun.elapsed().as_secs_f64() }
}
