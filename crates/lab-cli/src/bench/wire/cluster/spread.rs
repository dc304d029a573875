//! TPC-C that begins at one of three nodes, each with a third of the machine, and is spread by the
//! autopilot.
//!
//! ```text
//!   autopilot off    all tables at site 1: the throughput of one node
//!   autopilot auto   spreads the tables; the last run after `--spread-seconds` counts
//! ```
//!
//! The limits do not apply to the broker and the terminals.

use super::thirds::Limited;
use super::{ask, asked};
use crate::bench::wire::servers::Server;
use crate::bench::wire::tpcc::{self, Ran, Sizes};
use isomer::clock;
use isomer::cluster::Running;
use isomer::failure::Failure;
use std::time::Duration;

/// Small enough to load fast, with enough warehouses for three nodes.
const SIZES: Sizes = Sizes { warehouses: 6, items: 2000, customers: 120 };
const TERMINALS: u16 = 12;
/// Duration of one run of the terminals; the last of several runs counts.
const RUN: Duration = Duration::from_secs(15);

/// The result.
pub(super) struct Spread {
    /// Throughput over that of one node.
    pub(super) speedup: f64,
    /// Share of the transactions with writes that committed at one site.
    pub(super) single_site: f64,
}

/// Measures one node, then runs TPC-C with the autopilot for at least `seconds`.
pub(super) fn spread(running: &Running, cluster: &Server, seconds: u64) -> Result<Spread, Failure> {
    tpcc::load(cluster, SIZES, 1)?;
    let names = running.file.processes.iter().map(|process| &process.member.name);
    let pids: Vec<u32> = names.map(|name| running.pid(name)).collect();
    let limited = Limited::to_shares(&pids).map_err(Failure::failed)?;
    eprintln!("a third of the machine for each process, by {}", limited.how);
    let alone = run(cluster, 1)?.per_second();
    ask(cluster, "alter system set autopilot = auto")?;
    let begun = clock::now();
    for seed in 2.. {
        let before = commits(cluster)?;
        let per_second = run(cluster, seed)?.per_second();
        let after = commits(cluster)?;
        let masters = "select string_agg(site || ' ' || masters, ', ') from isomer.sites";
        eprintln!(
            "TPC-C: {per_second:.0} transactions a second, {alone:.0} at one node, after {} s; masters: {}",
            begun.elapsed().as_secs(),
            asked::<String>(cluster, masters)?
        );
        if begun.elapsed() >= Duration::from_secs(seconds) {
            let [at_one, over_several] = [0, 1].map(|at| (after[at] - before[at]) as f64);
            ask(cluster, "alter system set autopilot = off")?;
            return Ok(Spread {
                speedup: per_second / alone,
                single_site: at_one / (at_one + over_several).max(1.0),
            });
        }
    }
    unreachable!("time passes")
}

fn run(cluster: &Server, seed: u64) -> Result<Ran, Failure> {
    tpcc::run(cluster, SIZES, TERMINALS, RUN, seed, None)
}

/// Commits so far, at one site and over several sites.
fn commits(cluster: &Server) -> Result<[i64; 2], Failure> {
    let of =
        |column: &str| asked(cluster, &format!("select sum({column})::bigint from isomer.sites"));
    Ok([of("commits")?, of("coordinated")?])
}
