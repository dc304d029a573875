//! Compares two servers: ratios of their throughput in alternating runs.

use super::autopilot::{Load, Switched};
use super::clients::{Clients, pgbench_init};
use super::direct::Direct;
use super::servers::Server;
use super::{Part, WireArgs, pgbench_targets, tpcc, tpcc_targets};
use isomer::clock;
use isomer::failure::Failure;
use isomer::isolation::IsolationLevel;
use isomer::{out, text};
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

/// Session settings for READ COMMITTED, and for the levels that are compared with it. Commits are
/// asynchronous, because waiting for the disk would hide the cost of a level.
const PLAIN: &str = "-c synchronous_commit=off";
const LEVELS: [(&str, &str); 2] = [
    (
        "repeatable_read",
        r"-c synchronous_commit=off -c default_transaction_isolation=repeatable\ read",
    ),
    ("serializable", "-c synchronous_commit=off -c default_transaction_isolation=serializable"),
];

/// Reads ten accounts and writes another.
const MIXED: &str = r"\set a random(1, 100000 * :scale - 9)
\set b random(1, 100000 * :scale)
begin;
select sum(abalance) from pgbench_accounts where aid between :a and :a + 9;
update pgbench_accounts set abalance = abalance + 1 where aid = :b;
commit;
";

/// Two servers, and the figures so far.
pub(super) struct Bench<'a> {
    args: &'a WireArgs,
    clients: Clients,
    pg: Server,
    isomer: Server,
    figures: Map<String, Value>,
    runs: Map<String, Value>,
}

impl Bench<'_> {
    pub(super) fn start(args: &WireArgs) -> Result<Bench<'_>, Failure> {
        let (seconds, clients, seed) = (args.seconds, args.clients, args.changes.seed);
        Ok(Bench {
            args,
            clients: Clients { seconds, clients, threads: args.threads, seed },
            pg: Server::postgres(args.transport, IsolationLevel::ReadCommitted)?,
            isomer: Server::isomer(
                args.changes.sites,
                true,
                args.transport,
                IsolationLevel::ReadCommitted,
            )?,
            figures: Map::new(),
            runs: Map::new(),
        })
    }

    /// Measures both servers in turn; the median of the ratios is the figure.
    fn compare(
        &mut self,
        key: &str,
        rounds: usize,
        measure: impl Fn(&Bench<'_>, &Server) -> Result<f64, Failure>,
    ) -> Result<(), Failure> {
        self.compare_with(key, rounds, |bench| {
            Ok((measure(bench, &bench.pg)?, measure(bench, &bench.isomer)?))
        })
    }

    fn compare_with(
        &mut self,
        key: &str,
        rounds: usize,
        mut measure: impl FnMut(&mut Bench<'_>) -> Result<(f64, f64), Failure>,
    ) -> Result<(), Failure> {
        let mut pairs = Vec::new();
        for round in 1..=rounds {
            eprintln!("{key}: {round} of {rounds}");
            pairs.push(measure(self)?);
        }
        let ratio = median(pairs.iter().map(|(one, other)| other / one).collect());
        self.figures.insert(key.to_owned(), rounded(ratio));
        self.runs.insert(key.to_owned(), json!(pairs));
        Ok(())
    }

    /// Creates the tables of the parts to be measured.
    pub(super) fn load(&mut self) -> Result<(), Failure> {
        let (args, scale) = (self.args, self.args.scale);
        let (sizes, seed) = (args.sizes, args.changes.seed);
        if [Part::Pgbench, Part::Change, Part::Isolation].iter().any(|part| args.measures(*part)) {
            self.compare("load_time_vs_pg", 1, |_, server| {
                let begun = clock::now();
                pgbench_init(server, scale)?;
                Ok(begun.elapsed().as_secs_f64())
            })?;
        }
        if args.measures(Part::Tpcc) || args.measures(Part::Change) {
            self.compare("tpcc_load_time_vs_pg", 1, |_, server| {
                let begun = clock::now();
                tpcc::load(server, sizes, seed)?;
                Ok(begun.elapsed().as_secs_f64())
            })?;
        }
        Ok(())
    }

    pub(super) fn pgbench(&mut self) -> Result<(), Failure> {
        let args = self.args;
        let (rounds, scale) = (args.rounds, args.scale);
        self.compare("select_only_vs_pg", rounds, |bench, server| {
            bench.clients.pgbench(server, &["-S"])
        })?;
        self.overhead()?;
        let tpcb = |bench: &Bench<'_>, server: &Server| bench.clients.pgbench(server, &[]);
        self.compare("tpcb_vs_pg", rounds, tpcb)?;
        let hasty = Server::isomer(
            args.changes.sites,
            false,
            args.transport,
            IsolationLevel::ReadCommitted,
        )?;
        pgbench_init(&hasty, scale)?;
        let patient = std::mem::replace(&mut self.isomer, hasty);
        self.pg.options("-c synchronous_commit=off");
        self.compare("tpcb_async_vs_pg", rounds, tpcb)?;
        self.pg.options("");
        self.isomer = patient;
        Ok(())
    }

    /// Compares the library with its own server, in turns, as [`Bench::compare`] does.
    fn overhead(&mut self) -> Result<(), Failure> {
        let (time, args) = (Duration::from_secs(self.args.seconds), self.args);
        let direct = Direct::load(args.changes.sites, i64::from(args.scale) * 100_000)?;
        self.compare_with("statement_overhead", args.rounds, |bench| {
            let called = direct.read(args.clients, time, args.changes.seed)?;
            Ok((bench.clients.pgbench(&bench.isomer, &["-S"])?, called))
        })
    }

    pub(super) fn sysbench(&mut self) -> Result<(), Failure> {
        for server in [&self.pg, &self.isomer] {
            self.clients.sysbench_prepare(server)?;
        }
        for (key, test) in
            [("point_select_vs_pg", "oltp_point_select"), ("read_write_vs_pg", "oltp_read_write")]
        {
            self.compare(key, self.args.rounds, |bench, server| {
                bench.clients.sysbench(server, test)
            })?;
        }
        Ok(())
    }

    pub(super) fn tpcc(&mut self) -> Result<(), Failure> {
        let (sizes, seed) = (self.args.sizes, self.args.changes.seed);
        let time = Duration::from_secs(self.args.seconds);
        self.compare("tpcc_vs_pg", self.args.rounds, |bench, server| {
            let clients = bench.clients.clients;
            let ran = tpcc::run(server, sizes, clients, time, seed, None)?;
            Ok(ran.per_second())
        })
    }

    /// Compares pgbench at the stricter isolation levels with READ COMMITTED, in turns, at each
    /// server.
    pub(super) fn isolation(&mut self) -> Result<(), Failure> {
        let (rounds, scale) = (self.args.rounds, self.args.scale.to_string());
        let path = self.isomer.folder().join("mixed.sql");
        std::fs::write(&path, MIXED).map_err(Failure::failed)?;
        let path = path.display().to_string();
        let mixed = ["-f", &path, "-s", &scale];
        for (workload, script) in [("tpcb", &[][..]), ("mixed", &mixed)] {
            for (level, options) in LEVELS {
                let more = [script, &["--max-tries=0"]].concat();
                self.levels(&format!("{workload}_{level}"), rounds, options, &more)?;
            }
        }
        Ok(())
    }

    fn levels(
        &mut self,
        key: &str,
        rounds: usize,
        options: &'static str,
        more: &[&str],
    ) -> Result<(), Failure> {
        for is_pg in [false, true] {
            let key = if is_pg { format!("{key}_of_pg") } else { key.to_owned() };
            self.compare_with(&key, rounds, |bench| {
                let server = if is_pg { &mut bench.pg } else { &mut bench.isomer };
                server.options(PLAIN);
                let plain = bench.clients.pgbench(server, more);
                server.options(options);
                let strict = bench.clients.pgbench(server, more);
                server.options("");
                Ok((plain?, strict?))
            })?;
        }
        Ok(())
    }

    /// Measures TPC-B and TPC-C while the design changes, and checks TPC-C's tables afterwards.
    pub(super) fn under_change(&mut self) -> Result<(), Failure> {
        let (mut ratios, mut errors, mut pairs) = (Vec::new(), 0, Vec::new());
        for round in 1..=self.args.rounds {
            eprintln!("p99_under_change: {round} of {}", self.args.rounds);
            let calm = self.clients.latencies(&self.isomer)?;
            let targets = pgbench_targets(self.args.scale);
            let shaker = self.args.changes.shaker(&self.isomer, targets)?;
            let stop = AtomicBool::new(false);
            let (shaken, changes) = std::thread::scope(|scope| {
                let stop = &stop;
                let shaking = shaker.map(|mut it| scope.spawn(move || it.shake_until(stop)));
                let shaken = self.clients.latencies(&self.isomer);
                stop.store(true, Ordering::Relaxed);
                let join = |it: ScopedJoinHandle<'_, _>| it.join().expect("it does not panic");
                (shaken, shaking.map_or(Ok(0), join))
            });
            let (shaken, changes) = (shaken?, changes?);
            ratios.push(shaken.p99_us as f64 / calm.p99_us as f64);
            errors += shaken.errors;
            pairs.push(json!([calm.p99_us, shaken.p99_us, changes]));
        }
        self.tpcc_under_change()?;
        self.figures.insert("p99_under_change".to_owned(), rounded(median(ratios)));
        self.figures.insert("errors_under_change".to_owned(), json!(errors));
        self.runs.insert("p99_under_change".to_owned(), json!(pairs));
        Ok(())
    }

    /// Runs and checks TPC-C while the design changes. The first error ends the benchmark, so there
    /// are no errors to count.
    fn tpcc_under_change(&self) -> Result<(), Failure> {
        let (sizes, seed) = (self.args.sizes, self.args.changes.seed);
        let shaker = self.args.changes.shaker(&self.isomer, tpcc_targets(sizes))?;
        let (time, clients) = (Duration::from_secs(self.args.seconds), self.clients.clients);
        let isomer = &self.isomer;
        tpcc::run(isomer, sizes, clients, time, seed ^ 1, shaker)?;
        tpcc::check(&mut self.isomer.connect()?, &mut self.pg.connect()?, sizes)
    }

    /// Measures loads with and without the autopilot, in turns.
    pub(super) fn autopilot(&mut self) -> Result<(), Failure> {
        let (sites, transport) = (self.args.changes.sites, self.args.transport);
        let switched = Switched::start(sites, transport, self.clients)?;
        for load in Load::ALL {
            let key = format!("autopilot_{}", load.name());
            let mut percents = Vec::new();
            self.compare_with(&key, self.args.rounds, |_| {
                let (pair, percent) = switched.measure(load)?;
                percents.push(percent);
                Ok(pair)
            })?;
            self.figures.insert(format!("{key}_percent"), rounded(median(percents.clone())));
            self.runs.insert(format!("{key}_percent"), json!(percents));
        }
        Ok(())
    }

    pub(super) fn report(self) -> Result<(), Failure> {
        if !self.args.json {
            let mut rows: Vec<Vec<String>> = self
                .figures
                .iter()
                .map(|(key, value)| vec![key.clone(), value.to_string()])
                .collect();
            rows.push(vec!["transport".to_owned(), self.args.transport.name().to_owned()]);
            out::print(text::columns(&rows, 0));
            return Ok(());
        }
        let sizes = self.args.sizes;
        let mut line = self.figures;
        line.insert("bench".to_owned(), json!("wire"));
        line.insert(
            "inputs".to_owned(),
            json!({
                "transport": self.args.transport.name(),
                "seconds": self.args.seconds, "rounds": self.args.rounds,
                "clients": self.args.clients, "threads": self.args.threads, "scale": self.args.scale,
                "warehouses": sizes.warehouses, "items": sizes.items,
                "customers": sizes.customers, "sites": self.args.changes.sites,
                "change_ms": self.args.changes.change_ms, "seed": self.args.changes.seed,
            }),
        );
        line.insert("runs".to_owned(), Value::Object(self.runs));
        out::line(Value::Object(line));
        Ok(())
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn rounded(value: f64) -> Value {
    json!((value * 1000.0).round() / 1000.0)
}
