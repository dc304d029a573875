//! `isomer-lab bench moves`: the effect of moving a block of rows on clients, by the kind of move.
//!
//! ```text
//!   capacity   closed loop: a client sends when it has an answer
//!   paced      half of the capacity, and a probe      gaps, latency, throughput, disturbed
//!   closed     as capacity                            throughput
//!   metadata   two sites and their messages           bytes of a switch (metadata.rs)
//!   fetch      a model of wires and cores             one replica beside three (fetch.rs)
//!   backups    paced, TPC-C                           throughput with a backup and without
//! ```
//!
//! Under the paced and the closed load, each [kind of move](kind::Kind) is repeated there and back.
//! Each move is compared with a quiet window just before it ([`figures`]). The workloads are those
//! of DrTM+B's evaluation (6.1, 6.2). In each case the hottest block moves, the first block of the
//! first site:
//!
//! | case | transactions |
//! | --- | --- |
//! | `tpcc-low` | Zipf: two thirds go to a third of the warehouses |
//! | `tpcc-high` | 60 % to four warehouses of the first site; the others as in `tpcc-low` |
//! | `smallbank-low` | two thirds go to a quarter of the customers |
//! | `smallbank-high` | 90 % go to a tenth of the customers |
//! | `smallbank-spike` | 90 % go to one of 192 partitions |
//!
//! Sites, clients and other work of the machine share its cores, so the figures compare kinds of
//! moves with each other rather than with other databases. The summary has the worst case of each
//! figure; `cases` has all of them.
//!
//! Stop-and-copy and post-copy are the baselines. The benchmark builds them from the public
//! interface of the database, which does not offer them: `kind.rs` and `postcopy.rs` say why.

mod backups;
mod bed;
mod clients;
mod fetch;
mod figures;
mod kind;
mod metadata;
mod plot;
mod postcopy;

use bed::{Bed, Case};
use clients::{Load, Noted, work_while};
use figures::{Figures, Pair, WINDOW_MIN, Window};
use isomer::checks::{Check, copies, sums};
use isomer::failure::Failure;
use isomer::work::inspect;
use isomer::{clock, out, text};
use isomer_design::TableId;
use isomer_workload::{
    Blocks, HotSpot, HotWarehouses, Skew, SmallBank, SmallBankOptions, Tpcc, TpccOptions, Workload,
};
use kind::Kind;
use postcopy::Cut;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

const TABLE: TableId = TableId(1);
const CASES: [&str; 5] =
    ["tpcc-low", "tpcc-high", "smallbank-low", "smallbank-high", "smallbank-spike"];
/// Warm-up before each measurement.
const WARM: Duration = Duration::from_millis(500);
/// Slices of `WARM / 2` that [`capacity`] takes the median of.
const SLICES: usize = 5;
/// Bounds of the pause between a move and the next quiet window. The pause is 1.5 times the
/// duration of the move, because clients that are late catch up meanwhile.
const REST: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(600)];
/// The longest quiet window. A quiet window is as long as the move before it, up to this.
const QUIET_MAX: Duration = Duration::from_millis(300);
/// Partitions of SmallBank's customers, as in the paper.
const PARTITIONS: i64 = 192;

/// Moves a block of rows under load, by several kinds of moves, and measures the effect on clients
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  isomer-lab bench moves
  isomer-lab bench moves --only tpcc-high --plot moves.svg
  isomer-lab bench moves --customers 300 --items 10000 --accounts 5000 --json
  isomer-lab bench moves --only tpcc-low --chunk-rows 100 --sub-plans 10       another post-copy")]
pub(crate) struct MovesArgs {
    /// Sites of the database; at least one more than copies
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u16).range(3..=64))]
    sites: u16,
    /// Copies of each partition; commits wait for all of them, in memory
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..=63))]
    copies: u16,
    /// Clients
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    clients: u16,
    /// Warehouses of TPC-C
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(12..=1000))]
    warehouses: u32,
    /// Customers of each of its districts
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(10..=3000))]
    customers: u32,
    /// Its items
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    items: u32,
    /// Customers of each of SmallBank's 192 partitions
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(i64).range(10..=1_000_000))]
    accounts: i64,
    /// Round trips of a mastership to a replica and back
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    switches: u64,
    /// Round trips of a block, for each of the other kinds
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
    /// Rows of a chunk of post-copy
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    chunk_rows: u64,
    /// Parts in which post-copy switches the block
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    sub_plans: u64,
    /// Seed of the run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs this case only
    #[arg(long, value_name = "CASE", value_parser = CASES)]
    only: Option<String>,
    /// Draws throughput and latency through a move of each kind, as SVG, for the first case that
    /// runs
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Prints one line of JSON
    #[arg(long)]
    json: bool,
}

/// The figures of the benchmark. Each summary figure is the worst of all cases.
#[derive(Serialize)]
struct Report {
    bench: &'static str,
    sites: u16,
    copies: u16,
    clients: u16,
    seed: u64,
    chunk_rows: u64,
    sub_plans: u64,
    /// The longest time without a commit on the block around a switch, at the 99th percentile.
    switch_gap_p99_ms: f64,
    /// The same in quiet windows: the noise of the machine.
    quiet_gap_p99_ms: f64,
    switch_metadata_bytes: usize,
    throughput_no_copy: f64,
    throughput_copy: f64,
    throughput_stop_and_copy: f64,
    throughput_postcopy: f64,
    p99_ratio_no_copy: f64,
    p99_ratio_copy: f64,
    p99_ratio_stop_and_copy: f64,
    p99_ratio_postcopy: f64,
    /// Disturbed transactions of a switch, and of a move with a copy, as shares of post-copy's.
    disturbed_vs_postcopy: f64,
    disturbed_copy_vs_postcopy: f64,
    failed: u64,
    fetch3_speedup: f64,
    backup_throughput: f64,
    backups: backups::Report,
    fetch: Vec<fetch::Fetch>,
    cases: Vec<CaseReport>,
}

/// The figures of one workload.
#[derive(Serialize)]
struct CaseReport {
    case: &'static str,
    /// Transactions a second, without pauses between them.
    capacity: f64,
    /// Tables whose partitions are switched together.
    partitions: usize,
    paced: BTreeMap<Kind, Figures>,
    closed: BTreeMap<Kind, Figures>,
    failed: u64,
    failure: Option<String>,
    checks: Vec<Check>,
}

/// Runs the benchmark and prints its report.
///
/// # Errors
/// [`Failure::Usage`] if no site is left for a block to move to without a copy, [`Failure::Told`]
/// if a transaction or a check failed.
pub(super) fn run(args: &MovesArgs) -> Result<(), Failure> {
    if args.sites <= args.copies {
        let (sites, copies) = (args.sites, args.copies);
        return Err(Failure::usage(format!(
            "{sites} sites have no room for a block that moves to one without a copy; give more than --copies {copies}"
        )));
    }
    let mut cases = Vec::new();
    for name in CASES.into_iter().filter(|name| args.only.as_ref().is_none_or(|only| only == name))
    {
        let plot = args.plot.as_ref().filter(|_| cases.is_empty());
        say(args, name.to_owned());
        cases.push(match name {
            "tpcc-low" | "tpcc-high" => measure(|| tpcc(name, args), args, plot)?,
            _ => measure(|| smallbank(name, args), args, plot)?,
        });
    }
    let backups = backups::measure(tpcc("tpcc-low", args)?, args)?;
    say(args, backups.to_text());
    let report = Report::of(args, cases, backups)?;
    match args.json {
        true => out::line(serde_json::to_string(&report).map_err(Failure::failed)?),
        false => out::print(report.to_text()),
    }
    let is_right = |case: &CaseReport| case.failed == 0 && case.checks.iter().all(|check| check.ok);
    match report.failed == 0 && report.cases.iter().all(is_right) {
        true => Ok(()),
        false => Err(Failure::Told),
    }
}

fn say(args: &MovesArgs, line: String) {
    if args.json { eprintln!("{line}") } else { out::line(line) }
}

fn tpcc(name: &'static str, args: &MovesArgs) -> Result<Case<Tpcc>, Failure> {
    let warehouses = args.warehouses;
    let third = u64::from(warehouses) / 3;
    let hot = HotWarehouses { count: 4, share: 0.6 };
    let options = TpccOptions {
        warehouses,
        customers: args.customers,
        items: args.items,
        mix: TpccOptions::FULL_MIX,
        skew: Skew::giving(2.0 / 3.0, third, u64::from(warehouses))?,
        hot: (name == "tpcc-high").then_some(hot),
        ..TpccOptions::default()
    };
    let workload = Tpcc::new(options, TABLE)?;
    let constant = workload.constant_tables();
    Ok(Case { name, workload, blocks: i64::from(warehouses), keys: 1, constant })
}

fn smallbank(name: &'static str, args: &MovesArgs) -> Result<Case<SmallBank>, Failure> {
    let keys = args.accounts;
    let customers = (PARTITIONS * keys) as u64;
    let (hot, share) = match name {
        "smallbank-low" => (customers / 4, 2.0 / 3.0),
        "smallbank-high" => (customers / 10, 0.9),
        _ => (keys as u64, 0.9),
    };
    let options = SmallBankOptions {
        customers,
        hot_spot: Some(HotSpot { customers: hot, share }),
        blocks: Some(Blocks { customers: keys as u64, across: 0.01 }),
        ..SmallBankOptions::default()
    };
    let workload = SmallBank::new(options, TABLE)?;
    Ok(Case { name, workload, blocks: PARTITIONS, keys, constant: Vec::new() })
}

/// Makes all kinds of moves in one case, paced and closed. Each kind has a database of its own,
/// because the workload adds rows.
fn measure<W: Workload + Clone + Send + Sync>(
    case: impl Fn() -> Result<Case<W>, Failure>,
    args: &MovesArgs,
    plot: Option<&PathBuf>,
) -> Result<CaseReport, Failure> {
    let closed = Load { clients: args.clients, rate: None, has_probe: false, seed: args.seed };
    let mut rate = None;
    let mut by_load = [BTreeMap::new(), BTreeMap::new()];
    let (mut courses, mut sums) = (Vec::new(), Sums::default());
    for kind in Kind::ALL {
        let bed = Bed::new(case()?, args)?;
        let mut all = Noted::default();
        let capacity = match rate {
            Some(capacity) => capacity,
            None => capacity(&bed, closed, &mut all)?,
        };
        if rate.replace(capacity).is_none() {
            say(args, format!("  capacity       {capacity:.0}/s"));
        }
        let paced = Load { rate: Some(capacity / 2.0), has_probe: true, ..closed };
        if plot.is_some() {
            courses.push(plot::course(&bed, kind, paced, cut(args), &mut all)?);
        }
        for (figures, (name, load)) in
            by_load.iter_mut().zip([("paced", paced), ("closed", closed)])
        {
            let measured = moves(&bed, kind, load, args, &mut all)?;
            say(args, measured.line(name, kind));
            figures.insert(kind, measured);
        }
        sums.check(&bed, kind, all)?;
    }
    let case = case()?;
    if let Some(path) = plot {
        plot::draw(path, case.name, &courses).map_err(Failure::failed)?;
        say(args, format!("  plot           {}", path.display()));
    }
    let [paced, closed] = by_load;
    let Sums { failed, failure, checks } = sums;
    Ok(CaseReport {
        case: case.name,
        capacity: rate.unwrap_or_default(),
        partitions: case.workload.tables().len() - case.constant.len(),
        paced,
        closed,
        failed,
        failure,
        checks,
    })
}

/// Failures of all kinds of moves of one case.
#[derive(Default)]
struct Sums {
    failed: u64,
    failure: Option<String>,
    checks: Vec<Check>,
}

impl Sums {
    /// Checks a database after its clients have ended.
    fn check<W: Workload>(&mut self, bed: &Bed<W>, kind: Kind, all: Noted) -> Result<(), Failure> {
        let mut session = bed.db.session();
        session.has_seen(bed.db.now());
        let found = inspect(&bed.db, &session)?;
        let checks = [sums(&bed.case.workload, &found, all.added), copies(&found)];
        for check in checks.iter().filter(|check| !check.ok) {
            eprintln!("{} {}: {}", bed.case.name, kind.name(), check.line());
        }
        if let Some(failure) = &all.failure {
            let (name, failed) = (bed.case.name, all.failed);
            eprintln!("{name} {}: {failed} failed; the first: {failure}", kind.name());
        }
        self.checks.extend(checks);
        self.failed += all.failed;
        self.failure = self.failure.take().or(all.failure);
        Ok(())
    }
}

fn cut(args: &MovesArgs) -> Cut {
    Cut { chunk_rows: args.chunk_rows as usize, sub_plans: args.sub_plans as usize }
}

/// Measures the closed-loop throughput in transactions a second, as the median of [`SLICES`]
/// slices.
fn capacity<W: Workload + Clone + Send + Sync>(
    bed: &Bed<W>,
    load: Load,
    all: &mut Noted,
) -> Result<f64, Failure> {
    let (noted, slices) = work_while(bed, load, |shift| {
        clock::sleep(WARM);
        let slice = |_| {
            let from = shift.now();
            clock::sleep(WARM / 2);
            Window { from, to: shift.now() }
        };
        Ok((0..SLICES).map(slice).collect::<Vec<_>>())
    })?;
    let mut rates: Vec<f64> = slices.iter().map(|slice| slice.rate(&noted.notes)).collect();
    rates.sort_by(f64::total_cmp);
    all.count(noted);
    Ok(rates[SLICES / 2])
}

/// Makes moves of one kind, there and back, each after a quiet window.
fn moves<W: Workload + Clone + Send + Sync>(
    bed: &Bed<W>,
    kind: Kind,
    load: Load,
    args: &MovesArgs,
    all: &mut Noted,
) -> Result<Figures, Failure> {
    let turns = 2 * if kind == Kind::Switch { args.switches } else { args.rounds };
    let (noted, pairs) = work_while(bed, load, |shift| {
        clock::sleep(WARM);
        let (mut pairs, mut quiet_for, mut rest) = (Vec::new(), WINDOW_MIN, REST[0]);
        for turn in 0..turns {
            let ready = kind.prepare(bed, turn, cut(args))?;
            clock::sleep(rest);
            shift.forget_delays();
            clock::sleep(REST[0]);
            let from = shift.now();
            clock::sleep(quiet_for);
            let quiet = Window { from, to: shift.now() };
            let from = shift.now();
            let rows = kind.make(bed, ready, cut(args))?;
            let took = Duration::from_nanos(shift.now() - from);
            clock::sleep(WINDOW_MIN.saturating_sub(took));
            let moving = Window { from, to: shift.now() };
            pairs.push(Pair { quiet, moving, took_ns: took.as_nanos() as u64, rows });
            quiet_for = took.clamp(WINDOW_MIN, QUIET_MAX);
            rest = (took * 3 / 2).clamp(REST[0], REST[1]);
        }
        clock::sleep(REST[0]);
        Ok(pairs)
    })?;
    bed.come_home();
    let figures = Figures::of(&noted.notes, &pairs);
    all.count(noted);
    Ok(figures)
}

impl Figures {
    fn line(&self, load: &str, kind: Kind) -> String {
        format!(
            "  {load:<6} {:<13}  {:>7.2} ms, {:>6} rows; throughput {:.3}, p99 {:>6.2} times, disturbed {:>8.1}, gap {:.2} ms ({:.2} quiet)",
            kind.name(),
            self.took_ms,
            self.rows,
            self.throughput,
            self.p99_ratio,
            self.disturbed,
            self.gap_p99_ms,
            self.gap_p99_quiet_ms,
        )
    }
}

impl Report {
    fn of(
        args: &MovesArgs,
        cases: Vec<CaseReport>,
        backups: backups::Report,
    ) -> Result<Report, Failure> {
        let figures = |kind: Kind, figure: fn(&Figures) -> f64| -> Vec<f64> {
            cases.iter().map(|case| figure(&case.paced[&kind])).collect()
        };
        let most = |values: Vec<f64>| values.into_iter().fold(0.0, f64::max);
        let least = |values: Vec<f64>| values.into_iter().fold(f64::INFINITY, f64::min);
        let throughput = |kind| least(figures(kind, |one| one.throughput));
        let p99 = |kind| most(figures(kind, |one| one.p99_ratio));
        let gap = |figure| most(figures(Kind::Switch, figure));
        let beside_postcopy = |kind| {
            let disturbed = |kind| figures(kind, |one: &Figures| one.disturbed);
            let theirs = disturbed(Kind::PostCopy);
            let pairs = disturbed(kind).into_iter().zip(theirs);
            most(pairs.map(|(ours, theirs)| ours / theirs.max(1.0)).collect())
        };
        let partitions = cases.iter().map(|case| case.partitions).max().unwrap_or(1);
        let fetch = fetch::table().map_err(Failure::failed)?;
        Ok(Report {
            bench: "moves",
            sites: args.sites,
            copies: args.copies,
            clients: args.clients,
            seed: args.seed,
            chunk_rows: args.chunk_rows,
            sub_plans: args.sub_plans,
            switch_gap_p99_ms: gap(|one| one.gap_p99_ms),
            quiet_gap_p99_ms: gap(|one| one.gap_p99_quiet_ms),
            switch_metadata_bytes: metadata::bytes(partitions, args.copies)?,
            throughput_no_copy: throughput(Kind::Switch),
            throughput_copy: throughput(Kind::Copy),
            throughput_stop_and_copy: throughput(Kind::StopAndCopy),
            throughput_postcopy: throughput(Kind::PostCopy),
            p99_ratio_no_copy: p99(Kind::Switch),
            p99_ratio_copy: p99(Kind::Copy),
            p99_ratio_stop_and_copy: p99(Kind::StopAndCopy),
            p99_ratio_postcopy: p99(Kind::PostCopy),
            disturbed_vs_postcopy: beside_postcopy(Kind::Switch),
            disturbed_copy_vs_postcopy: beside_postcopy(Kind::Copy),
            failed: cases.iter().map(|case| case.failed).sum::<u64>() + backups.failed,
            fetch3_speedup: fetch::speedup(&fetch),
            backup_throughput: backups.paced,
            backups,
            fetch,
            cases,
        })
    }

    fn to_text(&self) -> String {
        let number = |value: f64| format!("{value:.3}");
        let rows = [
            ("switch_gap_p99_ms", number(self.switch_gap_p99_ms), "at most 1"),
            ("  where nothing is switched", number(self.quiet_gap_p99_ms), ""),
            (
                "switch_metadata_bytes",
                text::count(self.switch_metadata_bytes as u64),
                "at most 4096",
            ),
            ("throughput_no_copy", number(self.throughput_no_copy), "at least 0.97"),
            ("throughput_copy", number(self.throughput_copy), "at least 0.93"),
            ("  stop-and-copy", number(self.throughput_stop_and_copy), ""),
            ("  post-copy", number(self.throughput_postcopy), ""),
            ("p99_ratio_copy", number(self.p99_ratio_copy), "at most 1.5"),
            ("  switch", number(self.p99_ratio_no_copy), ""),
            ("  stop-and-copy", number(self.p99_ratio_stop_and_copy), ""),
            ("  post-copy", number(self.p99_ratio_postcopy), ""),
            ("disturbed_vs_postcopy", number(self.disturbed_vs_postcopy), "at most 0.02"),
            ("  with a copy", number(self.disturbed_copy_vs_postcopy), ""),
            ("failed", text::count(self.failed), "0"),
            ("fetch3_speedup (a model)", number(self.fetch3_speedup), "at least 1.3"),
            ("backup_throughput", number(self.backup_throughput), "at least 0.7"),
        ];
        let rows: Vec<Vec<String>> = rows
            .into_iter()
            .map(|(name, value, aim)| vec![name.to_owned(), value, aim.to_owned()])
            .collect();
        text::columns(&rows, 0)
    }
}
