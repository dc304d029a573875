//! `isomer-lab bench compare`: the autopilot beside strategies that keep the design, on real
//! threads.
//!
//! Each case gives the same rows and the same stream of transactions to one database for each
//! strategy. The databases take turns, in another order each round, so that noise of the machine
//! affects all of them. The figure is the ratio within a round, and of those the median:
//!
//! ```text
//!   round 0   learned   static-2pc  on-demand    warm-up, not counted
//!   round 1   static-2pc  on-demand  learned     ratios: learned / static-2pc, learned / on-demand
//!   round 2   on-demand  learned  static-2pc     …
//! ```
//!
//! | case | workload |
//! | --- | --- |
//! | `trace` | a production trace, over partitions at hashed sites |
//! | `ycsb-shift` | skewed updates of neighbouring keys; the hot spot moves every other round |
//! | `nothing-to-do` | only single-site transactions: the overhead of the autopilot |
//! | `long-5`, `long-25`, `long-100` | the same, with updates of 5, 25, 100 rows in one partition |

use isomer::checks::{Check, no_failures, sums};
use isomer::failure::Failure;
use isomer::work::{Client, Layout, Spread, Tally, inspect, load};
use isomer::{clock, out, text, trace};
use isomer_cluster::{Database, Durability, Options};
use isomer_design::TableId;
use isomer_plan::strategy::Learned;
use isomer_strategy::{OnDemand, TwoPhase};
use isomer_workload::{
    Companions, Skew, TraceOptions, TraceWorkload, Workload, Ycsb, YcsbOptions, random,
};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const TABLE: TableId = TableId(1);
const CASES: [&str; 6] = ["trace", "ycsb-shift", "nothing-to-do", "long-5", "long-25", "long-100"];
const STRATEGIES: [&str; 3] = ["learned", "static-2pc", "on-demand"];

/// Throughput of the autopilot over `static-2pc` and `on-demand`, which take turns in one run
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  isomer-lab bench compare
  isomer-lab bench compare --only nothing-to-do
  isomer-lab bench compare --rounds 20 --turn-ms 1000 --json")]
pub(crate) struct CompareArgs {
    /// Sites of each database
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    sites: u16,
    /// Clients that run transactions at once
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Rows of the YCSB cases
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(5000..))]
    rows: u64,
    /// Turns of each strategy, after the warm-up
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    rounds: u64,
    /// Milliseconds of a turn
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    turn_ms: u64,
    /// Seed of the run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs this case only
    #[arg(long, value_name = "CASE", value_parser = CASES)]
    only: Option<String>,
    /// Prints one line of JSON for each case
    #[arg(long)]
    json: bool,
}

/// The result of a case.
#[derive(Serialize)]
struct Report {
    bench: &'static str,
    case: &'static str,
    sites: u16,
    threads: u16,
    rounds: u64,
    turn_ms: u64,
    seed: u64,
    /// Transactions a second, the median of the rounds.
    throughput: Vec<(&'static str, f64)>,
    /// Throughput of the autopilot over that of each other strategy: the median of the rounds, and
    /// the quartiles around it.
    learned_over: Vec<(&'static str, f64, [f64; 2])>,
    checks: Vec<Check>,
}

/// One strategy's database and its clients.
struct Contestant<'d, W> {
    db: &'d Database,
    clients: Vec<Client<'d, W>>,
    tally: Tally,
    /// Transactions a second, round by round.
    rates: Vec<f64>,
}

/// Runs all cases.
pub(super) fn run(args: &CompareArgs) -> Result<(), Failure> {
    let named = trace::read(None)?;
    let clients = usize::from(args.threads);
    let replay = |client| {
        let options = TraceOptions { client, clients, ..TraceOptions::default() };
        Ok(TraceWorkload::new(named.trace.clone(), options, TABLE)?)
    };
    let anywhere = Layout { sites: args.sites, rows_per_partition: 16, spread: Spread::Hash };
    let stays = |_: &mut TraceWorkload, _| {};
    let mut ok = compare(args, "trace", anywhere, replay, stays)?;

    let ycsb = |skew, distance| -> Result<Ycsb, Failure> {
        let companions = Companions::Near(distance);
        let options = YcsbOptions {
            keys: args.rows,
            scan_share: 0.1,
            skew,
            companions,
            ..YcsbOptions::default()
        };
        Ok(Ycsb::new(options, TABLE)?)
    };
    let parts = Layout { rows_per_partition: 1000, ..anywhere };
    let shifting = ycsb(Skew::Zipf(0.75), 500)?;
    let moves =
        |ycsb: &mut Ycsb, round: u64| ycsb.move_hot_spot(round / 2 * (args.rows * 3 / 8 + 1));
    ok &= compare(args, "ycsb-shift", parts, |_| Ok(shifting.clone()), moves)?;

    let calm = ycsb(Skew::Uniform, 1)?;
    let in_order = Layout { spread: Spread::Range, ..parts };
    ok &= compare(args, "nothing-to-do", in_order, |_| Ok(calm.clone()), |_, _| {})?;

    let whole = Layout { sites: 1, rows_per_partition: args.rows, spread: Spread::Range };
    for (case, updates) in [("long-5", 5), ("long-25", 25), ("long-100", 100)] {
        let options = YcsbOptions { keys: args.rows, updates, ..YcsbOptions::default() };
        let long = Ycsb::new(options, TABLE)?;
        ok &= compare(args, case, whole, |_| Ok(long.clone()), |_, _| {})?;
    }
    if ok { Ok(()) } else { Err(Failure::Told) }
}

/// Runs one case. `workload` makes the workload of each client; `before_round` may change it.
fn compare<W: Workload + Send>(
    args: &CompareArgs,
    case: &'static str,
    layout: Layout,
    workload: impl Fn(usize) -> Result<W, Failure>,
    before_round: impl Fn(&mut W, u64),
) -> Result<bool, Failure> {
    if args.only.as_ref().is_some_and(|only| only != case) {
        return Ok(true);
    }
    eprintln!("{case}");
    let databases: Result<Vec<Database>, Failure> =
        STRATEGIES.iter().map(|name| Ok(Database::open(options(args.sites, name))?)).collect();
    let databases = databases?;
    let mut contestants = Vec::new();
    for db in &databases {
        load(db, &workload(0)?, layout)?;
        let client = |at: usize| {
            let rng = random(args.seed.wrapping_mul(1000).wrapping_add(at as u64));
            Ok(Client::new(db, workload(at)?, rng))
        };
        let clients: Result<Vec<_>, Failure> = (0..usize::from(args.threads)).map(client).collect();
        let (tally, rates) = (Tally::default(), Vec::new());
        contestants.push(Contestant { db, clients: clients?, tally, rates });
    }
    for round in 0..=args.rounds {
        for turn in 0..contestants.len() {
            let at = (turn + round as usize) % contestants.len();
            let contestant = &mut contestants[at];
            let workloads = contestant.clients.iter_mut().map(Client::workload);
            workloads.for_each(|workload| before_round(workload, round));
            let rate = contestant.take_turn(Duration::from_millis(args.turn_ms));
            if round > 0 {
                contestant.rates.push(rate);
            }
        }
    }
    let mut checks = Vec::new();
    for contestant in &contestants {
        let found = inspect(contestant.db, &contestant.db.session())?;
        checks.push(no_failures(&contestant.tally));
        checks.push(sums(&workload(0)?, &found, contestant.tally.added));
    }
    let report = Report::of(args, case, &contestants, checks);
    match args.json {
        true => out::line(serde_json::to_string(&report).map_err(Failure::failed)?),
        false => out::print(report.to_text()),
    }
    Ok(report.checks.iter().all(|check| check.ok))
}

fn options(sites: u16, strategy: &str) -> Options {
    let options = Options::in_memory(sites).durability(Durability::None);
    match strategy {
        "learned" => options.strategy(Learned::default()),
        "static-2pc" => options.strategy(TwoPhase),
        _ => options.strategy(OnDemand::default()),
    }
}

impl<W: Workload + Send> Contestant<'_, W> {
    /// Runs the clients for `turn`; returns transactions a second.
    fn take_turn(&mut self, turn: Duration) -> f64 {
        let stop = AtomicBool::new(false);
        let (begun, before) = (clock::now(), self.tally.committed);
        std::thread::scope(|scope| {
            let stop = &stop;
            let running: Vec<_> = self
                .clients
                .iter_mut()
                .map(|client| {
                    scope.spawn(move || {
                        let mut tally = Tally::default();
                        while !stop.load(Ordering::Relaxed) {
                            let transaction = client.draw();
                            client.run(&transaction, &mut tally);
                        }
                        tally
                    })
                })
                .collect();
            clock::sleep(turn);
            stop.store(true, Ordering::Relaxed);
            for client in running {
                self.tally.add(&client.join().expect("a client does not panic"));
            }
        });
        (self.tally.committed - before) as f64 / begun.elapsed().as_secs_f64()
    }
}

impl Report {
    fn of<W>(
        args: &CompareArgs,
        case: &'static str,
        contestants: &[Contestant<'_, W>],
        checks: Vec<Check>,
    ) -> Report {
        let rates = |at: usize| &contestants[at].rates;
        let over = |at: usize| -> Vec<f64> {
            rates(0).iter().zip(rates(at)).map(|(ours, theirs)| ours / theirs).collect()
        };
        let names = || STRATEGIES.into_iter().enumerate();
        Report {
            bench: "compare",
            case,
            sites: args.sites,
            threads: args.threads,
            rounds: args.rounds,
            turn_ms: args.turn_ms,
            seed: args.seed,
            throughput: names().map(|(at, name)| (name, quantile(rates(at), 0.5))).collect(),
            learned_over: names()
                .skip(1)
                .map(|(at, name)| {
                    let ratios = over(at);
                    let around = [0.25, 0.75].map(|share| quantile(&ratios, share));
                    (name, quantile(&ratios, 0.5), around)
                })
                .collect(),
            checks,
        }
    }

    fn to_text(&self) -> String {
        let mut rows: Vec<Vec<String>> = Vec::new();
        for (name, rate) in &self.throughput {
            rows.push(vec![self.case.to_owned(), (*name).to_owned(), format!("{rate:.0}/s")]);
        }
        for (name, ratio, [low, high]) in &self.learned_over {
            let ratio = format!("{ratio:.3} ({low:.3} to {high:.3})");
            rows.push(vec![self.case.to_owned(), format!("learned / {name}"), ratio]);
        }
        let checks: Vec<String> =
            self.checks.iter().filter(|check| !check.ok).map(|check| check.line() + "\n").collect();
        text::columns(&rows, 0) + &checks.concat() + "\n"
    }
}

/// The value at quantile `share`.
fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (share * (sorted.len().max(1) - 1) as f64).round() as usize;
    sorted.get(at).copied().unwrap_or_default()
}
