//! `isomer demo --scenario hotspot`: suppliers of one site become hot, and the controller moves
//! load away.
//!
//! ```text
//!   calm ── 1/6 of the time ──▶ six suppliers of s1 are hot ── to 1/2 ──▶ six of s3 instead
//!             each second: the load of each site, and reports of the controller
//!   at the end: duration of each overload, moves against it, and whether all rows exist
//! ```
//!
//! The workload is PPS (`isomer_workload::Pps`): suppliers share parts, and products use them. A
//! hot supplier must move with the rows that are accessed with it; otherwise all of its
//! transactions are over several sites.

use super::args::{DemoArgs, Elasticity};
use crate::checks::{Check, copies, invariants, no_failures, sums};
use crate::failure::Failure;
use crate::work::{Client, Layout, Spread, Tally, inspect, load};
use crate::{clock, out, text};
use isomer_cluster::{Database, Options, Session};
use isomer_design::{Backups, TableId, Time};
use isomer_plan::elastic::{Episode, Outcome};
use isomer_plan::strategy::Elastic;
use isomer_workload::{HotSuppliers, Pps, PpsOptions, Workload, random};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const TABLE: TableId = TableId(1);
/// Suppliers of each site.
const SUPPLIERS_PER_SITE: u64 = 50;
/// Hot suppliers, and their share of the requests.
const HOT_COUNT: u64 = 6;
const HOT_SHARE: f64 = 0.9;
/// The load, as a multiple of the mean, of a full bar.
const BAR_TIMES: f64 = 4.0;
const BAR_WIDTH: usize = 16;

/// An overload, and the moves against it.
#[derive(Serialize)]
struct Cured {
    what: String,
    /// The load of the hottest site over the mean, before and after.
    times_before: f64,
    times_after: Option<f64>,
    noticed_s: f64,
    /// Seconds until the changes of the first plans were made.
    moved_s: Option<f64>,
    changes: usize,
    footprints: usize,
}

#[derive(Serialize)]
struct Report {
    scenario: &'static str,
    strategy: &'static str,
    sites: u16,
    threads: u16,
    seed: u64,
    seconds: u64,
    committed: u64,
    failed: u64,
    overloads: Vec<Cured>,
    partitions_at_first: usize,
    partitions: usize,
    checks: Vec<Check>,
}

/// Runs the scenario.
///
/// # Errors
/// [`Failure::Told`] if a check fails.
pub(super) fn run(args: &DemoArgs, elasticity: Elasticity) -> Result<(), Failure> {
    let elastic = Arc::new(Elastic::new(elasticity.planner()));
    let db = Database::open(Options::in_memory(args.sites).strategy(elastic.clone()))?;
    let suppliers = SUPPLIERS_PER_SITE * u64::from(args.sites);
    let pps = Pps::new(PpsOptions { suppliers, hot: None }, TABLE)?;
    let say = |line: String| if args.json { eprintln!("{line}") } else { out::line(line) };
    let layout = Layout {
        sites: args.sites,
        rows_per_partition: args.partition_keys.unwrap_or(1000),
        spread: Spread::Range,
    };
    load(&db, &pps, layout)?;
    if elasticity == Elasticity::DrTmB {
        for (table, _) in pps.tables() {
            db.set_backups(table, Backups { count: 1, on_disk: false })?;
        }
    }
    let partitions_at_first = db.design().partition_count();
    say(format!(
        "{} sites; {suppliers} suppliers, {} products, {} parts in {} partitions; strategy {}",
        args.sites,
        text::count(10 * suppliers),
        text::count(100 * suppliers),
        text::count(partitions_at_first as u64),
        db.strategy()
    ));
    let spots = spots(args.sites, suppliers);
    let (mut tally, session, onsets) = watch(args, &db, &elastic, &pps, &spots, &say);
    let overloads = elastic.with_controller(|controller| cured(controller.episodes(), &onsets));
    let found = inspect(&db, &session)?;
    let added = std::mem::take(&mut tally.added);
    let checks = vec![
        no_failures(&tally),
        sums(&pps, &found, added),
        invariants(&db.design()),
        copies(&found),
        is_cured(&overloads, &onsets),
    ];
    let report = Report {
        scenario: "hotspot",
        strategy: db.strategy(),
        sites: args.sites,
        threads: args.threads,
        seed: args.seed,
        seconds: args.seconds,
        committed: tally.committed,
        failed: tally.failed,
        overloads,
        partitions_at_first,
        partitions: db.design().partition_count(),
        checks,
    };
    match args.json {
        true => out::line(serde_json::to_string(&report).map_err(Failure::failed)?),
        false => out::print(report.to_text()),
    }
    let is_ok = report.checks.iter().all(|check| check.ok);
    if is_ok { Ok(()) } else { Err(Failure::Told) }
}

/// The two hot spots: the first suppliers of the first site, then those of a site in the middle.
fn spots(sites: u16, suppliers: u64) -> [HotSuppliers; 2] {
    let middle = suppliers / u64::from(sites) * u64::from(sites / 2);
    [0, middle].map(|first| HotSuppliers { first, count: HOT_COUNT, share: HOT_SHARE })
}

/// Runs clients while the hot spot appears and moves, and reports the load of the sites each
/// second. Returns the clients' counts, a session that has seen all of their commits, and the times
/// of the hot spots.
fn watch(
    args: &DemoArgs,
    db: &Database,
    elastic: &Elastic,
    pps: &Pps,
    spots: &[HotSuppliers],
    say: &dyn Fn(String),
) -> (Tally, Session, Vec<(Time, String)>) {
    let (stop, phase) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (mut tally, mut session, mut onsets) = (Tally::default(), db.session(), Vec::new());
    std::thread::scope(|scope| {
        let (stop, phase) = (&stop, &phase);
        let clients: Vec<_> = (0..u64::from(args.threads))
            .map(|number| {
                let rng = random(args.seed.wrapping_mul(1000).wrapping_add(number));
                let mut client = Client::new(db, pps.clone(), rng);
                scope.spawn(move || {
                    let (mut tally, mut now) = (Tally::default(), 0);
                    while !stop.load(Ordering::Relaxed) {
                        let next = phase.load(Ordering::Relaxed);
                        if next != now {
                            now = next;
                            let heated = client.workload().heat(Some(spots[now - 1]));
                            heated.expect("the suppliers of a hot spot exist");
                        }
                        let transaction = client.draw();
                        client.run(&transaction, &mut tally);
                    }
                    (tally, client.session().clone())
                })
            })
            .collect();
        let mut told = 0;
        for second in 0..args.seconds {
            let is_due = |at: u64| second == at.max(1);
            for (number, at) in [(1, args.seconds / 6), (2, args.seconds / 2)] {
                if is_due(at) && phase.load(Ordering::Relaxed) < number {
                    phase.store(number, Ordering::Relaxed);
                    let first = spots[number - 1].first;
                    let what =
                        format!("suppliers[{first}] and {} near it become hot", HOT_COUNT - 1);
                    say(format!("      {what}"));
                    onsets.push((db.now(), what));
                }
            }
            clock::sleep(Duration::from_secs(1));
            say(format!("{:3} s  {}", second + 1, loads(db)));
            elastic.with_controller(|controller| told = tell(controller.episodes(), told, say));
        }
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            let (counted, seen) = client.join().expect("a client does not panic");
            tally.add(&counted);
            if seen.seen() > session.seen() {
                session = seen;
            }
        }
    });
    (tally, session, onsets)
}

/// The load of each site, as bars and as multiples of the mean.
fn loads(db: &Database) -> String {
    let sites = db.sites();
    let busy: Vec<f64> = sites.iter().map(|site| site.busy.unwrap_or(0.0)).collect();
    let mean = busy.iter().sum::<f64>() / busy.len() as f64;
    let one = |(site, busy): (&isomer_cluster::SiteReport, &f64)| {
        let times = if mean > 0.0 { busy / mean } else { 0.0 };
        format!("{} {times:.1} {}", site.site, text::bar(times / BAR_TIMES, BAR_WIDTH))
    };
    sites.iter().zip(&busy).map(one).collect::<Vec<_>>().join("  ")
}

/// Reports the incidents that ended after the first `told` of them; returns the new number.
fn tell<'e>(
    episodes: impl Iterator<Item = &'e Episode>,
    told: usize,
    say: &dyn Fn(String),
) -> usize {
    let all: Vec<&Episode> = episodes.collect();
    let mut told = told;
    for episode in all.iter().rev().skip(told) {
        if matches!(episode.outcome, Outcome::Recording | Outcome::Moving) {
            break;
        }
        told += 1;
        say(format!("      {}", episode.overload));
        let [before, after] = episode.planned.imbalance;
        let (footprints, seconds) = episode.recorded;
        say(format!(
            "      {} footprints of {seconds:.1} s; {} plans; foreseen: {before:.1} to {after:.1} times the mean",
            text::count(footprints as u64),
            episode.planned.plans.len(),
        ));
        for plan in episode.planned.plans.iter().take(4) {
            say(format!("        {}: {} changes", plan.reason, plan.steps.len()));
        }
        match episode.planned.plans.len().checked_sub(4) {
            None | Some(0) => {}
            Some(more) => say(format!("        and {more} more")),
        }
    }
    told
}

/// The result for each hot spot, from the first and the last incident that began in its time.
fn cured<'e>(episodes: impl Iterator<Item = &'e Episode>, onsets: &[(Time, String)]) -> Vec<Cured> {
    let all: Vec<&Episode> = episodes.collect();
    let since = |at: Time, time: Time| time.0.saturating_sub(at.0) as f64 / 1e9;
    let mut cured = Vec::new();
    for (number, (at, what)) in onsets.iter().enumerate() {
        let ends = onsets.get(number + 1).map_or(Time(u64::MAX), |(at, _)| *at);
        let within: Vec<&&Episode> = all
            .iter()
            .rev()
            .filter(|episode| episode.begun > *at && episode.begun < ends)
            .collect();
        let (Some(first), Some(last)) = (within.first(), within.last()) else { continue };
        let times_after = match last.outcome {
            Outcome::Settled { times, .. } => Some(times),
            _ => None,
        };
        let plans = within.iter().flat_map(|episode| &episode.planned.plans);
        cured.push(Cured {
            what: what.clone(),
            times_before: first.times,
            times_after,
            noticed_s: since(*at, first.begun),
            moved_s: within.iter().find_map(|episode| episode.moved).map(|moved| since(*at, moved)),
            changes: plans.map(|plan| plan.steps.len()).sum(),
            footprints: first.recorded.0,
        });
    }
    cured
}

/// Checks that each hot spot was noticed, and that rows moved because of it.
fn is_cured(overloads: &[Cured], onsets: &[(Time, String)]) -> Check {
    let name = "each hot spot was noticed and moved";
    let moved = overloads.iter().filter(|cured| cured.moved_s.is_some()).count();
    let detail = format!("{moved} of {}", onsets.len());
    Check::new(name, moved == onsets.len(), detail)
}

impl Report {
    fn to_text(&self) -> String {
        let mut text = String::from("\n");
        for cured in &self.overloads {
            let moved =
                cured.moved_s.map_or("not moved".to_owned(), |s| format!("moved after {s:.1} s"));
            let after = cured.times_after.map_or("?".to_owned(), |times| format!("{times:.1}"));
            text += &format!(
                "{}:\n  noticed after {:.1} s, {moved}: {} changes; the hottest site had {:.1} times the mean load, and has {after}\n",
                cured.what, cured.noticed_s, cured.changes, cured.times_before
            );
        }
        text += &format!(
            "\n{} transactions; {} partitions at first, {} now\n\n",
            text::count(self.committed),
            text::count(self.partitions_at_first as u64),
            text::count(self.partitions as u64)
        );
        self.checks.iter().for_each(|check| text += &format!("{}\n", check.line()));
        text
    }
}
