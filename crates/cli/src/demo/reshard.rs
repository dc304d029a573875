//! `isomer demo --scenario reshard`: ratings by film become ratings by viewer, while viewers use
//! them.
//!
//! ```text
//!   by film ── 1/3 of the time ──▶ ALTER TABLE ratings SHARD BY (viewer) ──▶ by viewer ── 1/3 ──▶
//!             each second: requests, share of single-site transactions, state of the job
//!   at the end: the effect of the change on clients, and whether all rows exist
//! ```
//!
//! Each transaction reads and writes rows of one viewer. So most transactions are over several
//! sites while the table is sharded by film, and none is when it is sharded by viewer.

use super::args::DemoArgs;
use crate::checks::Check;
use crate::failure::Failure;
use crate::ratings::{Keys, Ratings, Request, Work, percentile, within};
use crate::{clock, out, text};
use isomer_server::Engine;
use postgres::Client;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CHANGE: &str = "alter table ratings shard by (viewer)";

/// Figures of one part of the run.
#[derive(Serialize)]
struct Part {
    seconds: f64,
    requests: usize,
    /// Share of single-site transactions among those that wrote.
    single_site: f64,
    p50_ms: f64,
    p99_ms: f64,
    longest_ms: f64,
}

#[derive(Serialize)]
struct Report {
    scenario: &'static str,
    sites: u16,
    threads: u16,
    seed: u64,
    rows: usize,
    requests: usize,
    failed: usize,
    before: Part,
    during: Part,
    after: Part,
    checks: Vec<Check>,
}

/// The begin and end of the change and the end of the run, each with the commits at one site and
/// over several sites until then.
struct Marks {
    begun: (Duration, [u64; 2]),
    changed: (Duration, [u64; 2]),
    ended: (Duration, [u64; 2]),
}

/// Runs the scenario.
///
/// # Errors
/// [`Failure::Told`] if a check fails.
pub(super) fn run(args: &DemoArgs) -> Result<(), Failure> {
    let say = |line: String| if args.json { eprintln!("{line}") } else { out::line(line) };
    let mut ratings = Ratings::serve(args.sites, 1)?;
    if let Some(listen) = args.console() {
        say(format!("console: {}", ratings.open_console(listen)?));
    }
    say(format!(
        "{} ratings by film at {} sites, {} clients; everything they do is about one viewer",
        text::count(ratings.rows() as u64),
        args.sites,
        args.threads
    ));
    let (clients, seed) = (args.threads, args.seed);
    let work = Work { clients, seed, keys: Keys::Uniform, every: None };
    let mut client = ratings.connect()?;
    let first = ratings.commits();
    let part = Duration::from_secs(args.seconds) / 3;
    let (noted, marks) =
        ratings.use_while(work, |begun| change(&ratings, &mut client, begun, part, &say))?;
    let parts = [
        summary(&noted, (Duration::ZERO, first), marks.begun),
        summary(&noted, marks.begun, marks.changed),
        summary(&noted, marks.changed, marks.ended),
    ];
    let failed = noted.iter().filter(|request| !request.is_ok).count();
    let checks = vec![
        Check::new("no request failed", failed == 0, format!("{} of {}", failed, noted.len())),
        whole(&ratings, &mut client)?,
    ];
    let [before, during, after] = parts;
    let report = Report {
        scenario: "reshard",
        sites: args.sites,
        threads: args.threads,
        seed: args.seed,
        rows: ratings.rows(),
        requests: noted.len(),
        failed,
        before,
        during,
        after,
        checks,
    };
    tell(&report, args.json, &say)?;
    if args.console().is_some() {
        say("the console goes on; Ctrl-C ends it".to_owned());
        loop {
            clock::sleep(Duration::from_secs(1));
        }
    }
    if report.checks.iter().all(|check| check.ok) { Ok(()) } else { Err(Failure::Told) }
}

/// Waits, changes the shard key, and waits again; reports each second.
fn change(
    ratings: &Ratings,
    client: &mut Client,
    begun: Instant,
    part: Duration,
    say: &(dyn Fn(String) + Sync),
) -> Result<Marks, Failure> {
    let over = AtomicBool::new(false);
    let mut looker = ratings.connect()?;
    std::thread::scope(|scope| {
        let over = &over;
        scope.spawn(move || look(ratings, &mut looker, begun, over, say));
        let mark = || (begun.elapsed(), ratings.commits());
        clock::sleep(part.saturating_sub(begun.elapsed()));
        let at = mark();
        say(format!("{CHANGE};"));
        let changed = client.batch_execute(CHANGE);
        let changed = changed.map_err(|error| Failure::of_server(CHANGE, &error)).map(|()| mark());
        if let Ok((time, _)) = &changed {
            say(format!("changed in {:.1} s", (*time - at.0).as_secs_f64()));
            clock::sleep(part);
        }
        over.store(true, Ordering::Relaxed);
        Ok(Marks { begun: at, changed: changed?, ended: mark() })
    })
}

fn look(
    ratings: &Ratings,
    looker: &mut Client,
    begun: Instant,
    over: &AtomicBool,
    say: &(dyn Fn(String) + Sync),
) {
    let mut before = ratings.commits();
    while !over.load(Ordering::Relaxed) {
        clock::sleep(Duration::from_secs(1));
        let now = ratings.commits();
        let state = looker.query_opt("select state from isomer.jobs", &[]).ok().flatten();
        let state: String =
            state.map_or(String::new(), |row| format!("  {}", row.get::<_, String>(0)));
        say(format!(
            "{:>4.0} s  {:>7} writes/s  {} {} at one site{state}",
            begun.elapsed().as_secs_f64(),
            text::count(now.iter().sum::<u64>() - before.iter().sum::<u64>()),
            text::bar(single_site(before, now), 16),
            text::percent(single_site(before, now)),
        ));
        before = now;
    }
}

fn single_site(from: [u64; 2], to: [u64; 2]) -> f64 {
    let [one, several] = [0, 1].map(|at| (to[at] - from[at]) as f64);
    one / (one + several).max(1.0)
}

fn summary(noted: &[Request], from: (Duration, [u64; 2]), to: (Duration, [u64; 2])) -> Part {
    let requests = within(noted, from.0, to.0);
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    Part {
        seconds: (to.0 - from.0).as_secs_f64(),
        requests: requests.len(),
        single_site: single_site(from.1, to.1),
        p50_ms: ms(percentile(requests, 50)),
        p99_ms: ms(percentile(requests, 99)),
        longest_ms: ms(percentile(requests, 100)),
    }
}

/// Checks that each row exists once, and that the change left no tables behind.
fn whole(ratings: &Ratings, client: &mut Client) -> Result<Check, Failure> {
    let mut count = |query: &str| -> Result<i64, Failure> {
        let row = client.query_one(query, &[]);
        row.map(|row| row.get(0)).map_err(|error| Failure::of_server(query, &error))
    };
    let rows = count("select count(*) from ratings")?;
    let pairs =
        count("select count(*) from (select distinct movie, viewer from ratings) as pairs")?;
    let left = left_over(&ratings.engine);
    let ok = rows == pairs && rows >= ratings.rows() as i64 && left.is_empty();
    let left = if left.is_empty() { String::new() } else { format!(", and left over: {left}") };
    Ok(Check::new("every rating is there once", ok, format!("{rows} of {pairs} ratings{left}")))
}

/// Tables of the store that belong to no SQL table.
fn left_over(engine: &Arc<Engine>) -> String {
    let (design, catalog) = (engine.database().design(), engine.catalog());
    let is_own = |name: &str| name.starts_with("isomer_");
    let left = design.tables().filter(|(id, table)| {
        !is_own(table.name())
            && catalog.tables.values().all(|one| one.parts().all(|(part, _)| part != *id))
    });
    left.map(|(_, table)| table.name().to_owned()).collect::<Vec<_>>().join(", ")
}

fn tell(report: &Report, json: bool, say: &dyn Fn(String)) -> Result<(), Failure> {
    for (name, part) in
        [("before", &report.before), ("during", &report.during), ("after", &report.after)]
    {
        say(format!(
            "{name:<7} {:>5.1} s  {:>7} requests/s  {:>6} at one site  p50 {:.2} ms  p99 {:.2} ms  longest {:.1} ms",
            part.seconds,
            text::count((part.requests as f64 / part.seconds.max(0.001)) as u64),
            text::percent(part.single_site),
            part.p50_ms,
            part.p99_ms,
            part.longest_ms
        ));
    }
    report.checks.iter().for_each(|check| say(check.line()));
    if json {
        out::line(serde_json::to_string(report).map_err(Failure::failed)?);
    }
    Ok(())
}
