//! `isomer-lab sim`: the real site, router and strategies under virtual time and faults.

use isomer::failure::Failure;
use isomer::{clock, out};
use isomer_sim::{Faults, Plant, SimOptions, run as run_seed};
use serde_json::json;
use std::io::IsTerminal;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// Interval between messages about passed seeds on a terminal.
const PAUSE: Duration = Duration::from_millis(200);

/// Runs random scenarios in a simulated world, and checks the guarantees of the database
///
/// Each seed draws a database, clients, changes of the design and faults. It runs the real code on
/// one thread under virtual time, and checks the result. A seed repeats exactly.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  isomer-lab sim --seeds 1..500
  isomer-lab sim --seeds 42 --steps 1000 --faults crashes,network
  isomer-lab sim --seeds 1..500 --backups
  isomer-lab sim --seeds 1..500 --failover
  isomer-lab sim --seeds 1..1000 --isolation serializable
  isomer-lab sim --seeds 1..1000 --isolation ordered
  isomer-lab sim --seeds 1..1000 --reshard
  isomer-lab sim --seeds 1..1000 --cluster
  isomer-lab sim --seeds 1..200 --plant dropped-events      must fail")]
pub(crate) struct SimArgs {
    /// Seeds: the first and the last one, or a single one
    #[arg(long, value_name = "A..B", default_value = "1..100", value_parser = seeds)]
    seeds: RangeInclusive<u64>,
    /// Transactions of each run
    #[arg(long, default_value_t = SimOptions::default().steps,
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    steps: u64,
    /// Possible faults: all, none, or some of crashes,network,loss,stalls,disks
    #[arg(long, default_value = "all")]
    faults: Faults,
    /// Gives tables synchronous backups, as the seed draws them
    #[arg(long)]
    backups: bool,
    /// Takes processes of one or two sites down, one after the other, so that others take over from
    /// them
    #[arg(long)]
    failover: bool,
    /// Changes the order of a table again and again, as ALTER TABLE .. SHARD BY does, with crashes
    /// in every phase
    #[arg(long)]
    reshard: bool,
    /// Lets nodes own the sites, with their logs in a modelled Kafka. Processes are killed, paused,
    /// cut off from it, and replaced while they still run; brokers do not answer, change their
    /// leaders, and store records twice
    #[arg(long, conflicts_with = "failover")]
    cluster: bool,
    /// Isolation of transactions that come statement by statement: snapshot (READ COMMITTED or
    /// REPEATABLE READ, as the seed draws them), serializable, or ordered: the tables are ordered,
    /// their rows move between sites, and the process with the order fails
    #[arg(long, value_name = "LEVEL", default_value = "snapshot")]
    isolation: Isolation,
    /// Plants a bug, to test that the checks find it; an unknown name lists the bugs
    #[arg(long, value_name = "BUG")]
    plant: Option<Plant>,
    /// Lines of its trace that a failure shows, the last ones
    #[arg(long, value_name = "N", default_value_t = SimOptions::default().lines)]
    lines: usize,
    /// Prints one line of JSON for each seed
    #[arg(long)]
    json: bool,
}

/// The isolation of transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Isolation {
    /// READ COMMITTED or REPEATABLE READ
    Snapshot,
    /// SERIALIZABLE
    Serializable,
    /// Ordered tables, at any level
    Ordered,
}

/// Reads `3..8`, which includes both ends, or `3`.
fn seeds(text: &str) -> Result<RangeInclusive<u64>, String> {
    let number = |text: &str| {
        text.parse().map_err(|_| format!("`{text}` is no seed; write 1..500, or a single number"))
    };
    let (first, last) = match text.split_once("..") {
        Some((first, last)) => (number(first)?, number(last.trim_start_matches('='))?),
        None => (number(text)?, number(text)?),
    };
    if first > last {
        return Err(format!("{first}..{last} has no seed in it"));
    }
    Ok(first..=last)
}

/// Runs all seeds.
///
/// # Errors
/// [`Failure::Told`] if a check failed.
pub(crate) fn run(args: &SimArgs) -> Result<(), Failure> {
    let SimArgs { steps, faults, plant, lines, backups, failover, reshard, cluster, .. } = *args;
    let serializable = args.isolation == Isolation::Serializable;
    let ordered = args.isolation == Isolation::Ordered;
    if ordered && (reshard || cluster || failover) {
        return Err(Failure::usage(
            "--isolation ordered cannot be used with --failover, --reshard or --cluster",
        ));
    }
    let options = SimOptions {
        steps,
        faults,
        plant,
        lines,
        backups,
        serializable,
        ordered,
        failover,
        reshard,
        cluster,
    };
    let mut told = Told { is_line: !args.json && std::io::stdout().is_terminal(), last: None };
    let (mut passed, mut failed) = (0u64, 0u64);
    for seed in args.seeds.clone() {
        match run_seed(seed, &options) {
            Ok(summary) => {
                passed += 1;
                match args.json {
                    true => out::line(summary_json(&summary)),
                    false => told.passed(&summary.to_string()),
                }
            }
            Err(failure) => {
                failed += 1;
                told.end();
                match args.json {
                    true => out::line(failure_json(&failure)),
                    false => {
                        failure.lines.iter().for_each(|line| out::line(format_args!("    {line}")));
                        out::line(failure);
                    }
                }
            }
        }
    }
    told.end();
    if !args.json {
        out::line(format_args!("{passed} seeds passed, {failed} failed"));
    }
    if failed == 0 { Ok(()) } else { Err(Failure::Told) }
}

/// Reports of passed seeds: a line each, or one line of a terminal that is overwritten.
struct Told {
    is_line: bool,
    last: Option<Instant>,
}

impl Told {
    fn passed(&mut self, summary: &str) {
        if !self.is_line {
            out::line(summary);
        } else if self.last.is_none_or(|last| last.elapsed() >= PAUSE) {
            self.last = Some(clock::now());
            eprint!("\r{summary}\x1b[K");
        }
    }

    fn end(&mut self) {
        if self.last.take().is_some() {
            eprint!("\r\x1b[K");
        }
    }
}

fn summary_json(summary: &isomer_sim::Summary) -> serde_json::Value {
    json!({
        "seed": summary.seed, "ok": true, "sites": summary.sites, "clients": summary.clients,
        "committed": summary.committed, "without_effect": summary.without_effect,
        "unknown": summary.unknown, "changes": summary.changes,
        "switches": summary.switches, "restarts": summary.restarts, "crashes": summary.crashes,
        "taken": summary.taken,
        "virtual_ms": summary.virtual_ms, "trace_hash": format!("{:016x}", summary.trace_hash),
    })
}

fn failure_json(failure: &isomer_sim::Failure) -> serde_json::Value {
    json!({
        "seed": failure.seed, "ok": false, "checker": failure.checker, "what": failure.what,
        "command": failure.command(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_have_both_ends() {
        assert_eq!(seeds("3..8"), Ok(3..=8));
        assert_eq!(seeds("3..=8"), Ok(3..=8));
        assert_eq!(seeds("7"), Ok(7..=7));
        assert_eq!(seeds("8..3").unwrap_err(), "8..3 has no seed in it");
        assert!(seeds("a..3").unwrap_err().contains("`a` is no seed"));
    }
}
