//! `isomer-lab bench reshard`: the duration of a change of the shard key, and its effect on
//! clients.
//!
//! ```text
//!   capacity    closed loop: clients send when they have an answer   requests a second
//!   closed      the same; the shard key changes, film to viewer      throughput over that before
//!   copy        no clients; rows are copied into another table       duration
//!   paced       half of the capacity, viewer to film and back        latency, failures, memory
//!   1 %, 20 %   these shares of the capacity                         duration of each change
//!   zipf        capacity, closed and paced, with skewed ratings
//!   latest      the same, with the newest ratings preferred
//!   placement   planners on the rows                                 rows that change sites
//!   network     the planners' transfers on a model of the paper's networks (network.rs)
//! ```
//!
//! [`isomer::ratings`] has the ratings and the clients. Server and clients share the machine, so
//! the figures compare phases with each other rather than with other servers.

mod network;
mod placement;
mod plot;

use isomer::failure::Failure;
use isomer::ratings::{Keys, Ratings, Request, Work, percentile, read_keys, within};
use isomer::{clock, out, text};
use postgres::Client;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

const BY_VIEWER: &str = "alter table ratings shard by (viewer)";
const BY_FILM: &str = "alter table ratings shard by default";
/// Interval at which memory and the state of the change are sampled.
const LOOK: Duration = Duration::from_millis(20);
/// Clients that copy rows.
const COPIERS: usize = 4;

/// Changes the shard key of a table under load, and measures the effect on clients
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  isomer-lab bench reshard
  isomer-lab bench reshard --plot reshard.svg
  isomer-lab bench reshard --copies 10 --json          a million ratings
  isomer-lab bench reshard --network                   only the model of networks")]
pub(crate) struct ReshardArgs {
    /// Sites of the database
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    sites: u16,
    /// Copies of the 100,000 ratings, each for other viewers
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    copies: u16,
    /// Clients
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    clients: u16,
    /// Seconds that clients work before each change
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Seed of the run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Draws latency and throughput through the phases of a change, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Only the planners' transfers, on a model of the paper's networks
    #[arg(long)]
    network: bool,
    /// Prints one line of JSON
    #[arg(long)]
    json: bool,
}

/// The figures. A ratio compares the time of the change with the time before it.
#[derive(Serialize)]
struct Report {
    rows: usize,
    sites: u16,
    clients: u16,
    seconds: u64,
    seed: u64,
    /// With uniformly chosen ratings.
    #[serde(flatten)]
    uniform: Notice,
    copy_s: f64,
    duration_vs_copy: f64,
    /// Memory at its peak over memory before, less 1; only for the first change, because freed
    /// memory does not return to the system.
    extra_memory_ratio: f64,
    /// The duration of a change at 20 percent of the capacity over that at 1 percent.
    growth_20x_rate: f64,
    /// Share of the rows that change their site: film to viewer, and to a key that is the old one
    /// backwards.
    moved: placement::Moved,
    moved_related: placement::Moved,
    zipf: Notice,
    latest: Notice,
    network: network::Report,
}

/// The effect of a change on clients, for one distribution of the ratings they use.
#[derive(Serialize)]
struct Notice {
    /// Closed-loop requests a second.
    capacity: f64,
    /// Shares of the requests that succeeded.
    reads_ok: f64,
    writes_ok: f64,
    /// The longest request of those that began during the change, and of those before.
    longest_pause_ms: f64,
    longest_before_ms: f64,
    p99_ratio: f64,
    throughput_ratio: f64,
    change_s: f64,
}

/// A change, and the clients' requests before it and during it.
struct Run {
    noted: Vec<Request>,
    begun: Duration,
    changed: Duration,
    /// Memory of all sites before the change, and its peak during it, in bytes.
    memory: [i64; 2],
    /// States of the change, each with the time at which it was first seen.
    phases: Vec<(Duration, String)>,
}

impl Run {
    fn seconds(&self) -> f64 {
        (self.changed - self.begun).as_secs_f64()
    }

    /// The start of the time before the change that counts; clients and server have warmed up by
    /// then.
    fn warm(&self) -> Duration {
        self.begun / 2
    }

    fn before(&self) -> &[Request] {
        within(&self.noted, self.warm(), self.begun)
    }

    fn during(&self) -> &[Request] {
        within(&self.noted, self.begun, self.changed)
    }

    /// Requests a second before the change and during it.
    fn rates(&self) -> [f64; 2] {
        let rate = |requests: &[Request], seconds: f64| requests.len() as f64 / seconds.max(1e-9);
        let before = self.begun - self.warm();
        [rate(self.before(), before.as_secs_f64()), rate(self.during(), self.seconds())]
    }
}

/// Runs all phases and prints the report.
///
/// # Errors
/// [`Failure::Told`] if a request failed.
pub(super) fn run(args: &ReshardArgs) -> Result<(), Failure> {
    if args.network {
        return network(args);
    }
    let say = |line: String| if args.json { eprintln!("{line}") } else { out::line(line) };
    let ratings = Ratings::serve(args.sites, args.copies)?;
    let quiet = Duration::from_secs(args.seconds);
    let work = |every| Work { clients: args.clients, seed: args.seed, keys: Keys::Uniform, every };
    let at = |share: f64, capacity: f64| work(Some(pace(args, share * capacity)));
    say(format!(
        "{} ratings, {} sites, {} clients",
        text::count(ratings.rows() as u64),
        args.sites,
        args.clients
    ));
    let closed = change(&ratings, work(None), BY_VIEWER, quiet)?;
    let [capacity, during] = closed.rates();
    say(format!(
        "closed   {capacity:.0} requests/s, {during:.0} during a change of {:.2} s",
        closed.seconds()
    ));
    let copy_s = copy(&ratings)?;
    say(format!("copy     {copy_s:.2} s with {COPIERS} clients, no other load"));
    let back = change(&ratings, at(0.5, capacity), BY_FILM, quiet)?;
    let paced = change(&ratings, at(0.5, capacity), BY_VIEWER, quiet)?;
    for (name, run) in [("back", &back), ("paced", &paced)] {
        say(format!(
            "{name:<8} p99 {:.2} ms before, {:.2} ms during a change of {:.2} s; longest {:.1} and {:.1} ms",
            ms(percentile(run.before(), 99)),
            ms(percentile(run.during(), 99)),
            run.seconds(),
            ms(percentile(run.before(), 100)),
            ms(percentile(run.during(), 100)),
        ));
    }
    let mut slow = Vec::new();
    for share in [0.01, 0.2] {
        change(&ratings, at(share, capacity), BY_FILM, Duration::from_secs(1))?;
        let run = change(&ratings, at(share, capacity), BY_VIEWER, Duration::from_secs(1))?;
        say(format!("{:>3.0} %    a change of {:.2} s", 100.0 * share, run.seconds()));
        slow.push(run.seconds());
    }
    let [zipf, latest] = [("zipf", Keys::Zipf), ("latest", Keys::Latest)]
        .map(|(name, keys)| noticed(&ratings, args, keys).inspect(|one| say(one.line(name))));
    if let Some(path) = &args.plot {
        plot::draw(path, &paced, &closed).map_err(Failure::failed)?;
        say(format!("plot     {}", path.display()));
    }
    let report = Report {
        rows: ratings.rows(),
        sites: args.sites,
        clients: args.clients,
        seconds: args.seconds,
        seed: args.seed,
        uniform: Notice::of(&[&closed, &back, &paced], &closed, &paced),
        copy_s,
        duration_vs_copy: paced.seconds() / copy_s,
        extra_memory_ratio: (closed.memory[1] - closed.memory[0]) as f64
            / closed.memory[0].max(1) as f64,
        growth_20x_rate: slow[1] / slow[0],
        moved: placement::moved(ratings.keys(), args.sites)?,
        moved_related: placement::related(args.sites)?,
        zipf: zipf?,
        latest: latest?,
        network: network::report(&read_keys()?)?,
    };
    if args.json {
        out::line(serde_json::to_string(&report).map_err(Failure::failed)?);
    } else {
        tell(&report);
    }
    let all = [&report.uniform, &report.zipf, &report.latest];
    match all.iter().all(|one| (one.reads_ok, one.writes_ok) == (1.0, 1.0)) {
        true => Ok(()),
        false => Err(Failure::Told),
    }
}

/// Runs the model of networks only.
fn network(args: &ReshardArgs) -> Result<(), Failure> {
    let report = network::report(&read_keys()?)?;
    if args.json {
        out::line(serde_json::to_string(&report).map_err(Failure::failed)?);
    } else {
        network::tell(&report);
    }
    Ok(())
}

/// The pause between two requests of one client, for `rate` requests a second of all clients.
fn pace(args: &ReshardArgs, rate: f64) -> Duration {
    Duration::from_secs_f64(f64::from(args.clients) / rate.max(1.0))
}

/// Share of the reads, or writes, that succeeded.
fn succeeded(runs: &[&Run], is_read: bool) -> f64 {
    let all = runs.iter().flat_map(|run| &run.noted);
    let of: Vec<&Request> = all.filter(|request| request.is_read == is_read).collect();
    of.iter().filter(|request| request.is_ok).count() as f64 / of.len().max(1) as f64
}

/// Makes a change under closed-loop load and one at half of the capacity, with such a choice of
/// keys.
fn noticed(ratings: &Ratings, args: &ReshardArgs, keys: Keys) -> Result<Notice, Failure> {
    let quiet = Duration::from_secs(args.seconds);
    let work = |every| Work { clients: args.clients, seed: args.seed, keys, every };
    let by_film = || -> Result<(), Failure> {
        let done = ratings.connect()?.batch_execute(BY_FILM);
        done.map_err(|error| Failure::of_server(BY_FILM, &error))
    };
    by_film()?;
    let closed = change(ratings, work(None), BY_VIEWER, quiet)?;
    let [capacity, _] = closed.rates();
    by_film()?;
    let paced = change(ratings, work(Some(pace(args, capacity / 2.0))), BY_VIEWER, quiet)?;
    Ok(Notice::of(&[&closed, &paced], &closed, &paced))
}

impl Notice {
    /// Computes successes from all runs, the other figures from the closed and the paced one.
    fn of(all: &[&Run], closed: &Run, paced: &Run) -> Notice {
        let [capacity, during] = closed.rates();
        Notice {
            capacity,
            reads_ok: succeeded(all, true),
            writes_ok: succeeded(all, false),
            longest_pause_ms: ms(percentile(paced.during(), 100)),
            longest_before_ms: ms(percentile(paced.before(), 100)),
            p99_ratio: ratio(percentile(paced.during(), 99), percentile(paced.before(), 99)),
            throughput_ratio: during / capacity,
            change_s: paced.seconds(),
        }
    }

    fn line(&self, name: &str) -> String {
        format!(
            "{name:<8} {:.0} requests/s; throughput {:.2}, p99 {:.2} of that before, longest {:.1} ms ({:.1} before)",
            self.capacity,
            self.throughput_ratio,
            self.p99_ratio,
            self.longest_pause_ms,
            self.longest_before_ms,
        )
    }
}

fn tell(report: &Report) {
    let rows = [
        ("reads that succeeded", text::percent(report.uniform.reads_ok)),
        ("writes that succeeded", text::percent(report.uniform.writes_ok)),
        (
            "longest request",
            format!(
                "{:.1} ms ({:.1} before)",
                report.uniform.longest_pause_ms, report.uniform.longest_before_ms
            ),
        ),
        ("p99 of that before", format!("{:.2}", report.uniform.p99_ratio)),
        ("throughput of that before", format!("{:.2}", report.uniform.throughput_ratio)),
        ("duration of a bare copy's", format!("{:.2}", report.duration_vs_copy)),
        ("more memory", text::percent(report.extra_memory_ratio)),
        ("duration at 20 % of that at 1 %", format!("{:.2}", report.growth_20x_rate)),
        ("rows that move, film to viewer", moved(&report.moved)),
        ("rows that move, key backwards", moved(&report.moved_related)),
    ];
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|(what, value)| vec![what.to_owned(), value]).collect();
    out::print(text::columns(&rows, 0));
    network::tell(&report.network);
}

fn moved(moved: &placement::Moved) -> String {
    let [balanced, greedy, random] =
        [moved.balanced, moved.greedy, moved.random].map(text::percent);
    format!("{balanced} (each where most of it is: {greedy}; at random: {random})")
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn ratio(during: Duration, before: Duration) -> f64 {
    during.as_secs_f64() / before.as_secs_f64().max(1e-9)
}

/// Lets clients work for `quiet`, then changes the shard key with `statement` while they go on.
fn change(ratings: &Ratings, work: Work, statement: &str, quiet: Duration) -> Result<Run, Failure> {
    let (mut client, mut looker) = (ratings.connect()?, ratings.connect()?);
    let before = ratings.memory_bytes(&mut looker)?;
    let (most, over) = (AtomicI64::new(before), AtomicBool::new(false));
    let (noted, times) = ratings.use_while(work, |begun| {
        std::thread::scope(|scope| {
            let (most, over) = (&most, &over);
            let looks = scope.spawn(move || {
                let mut phases = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    let memory = ratings.memory_bytes(&mut looker).unwrap_or(0);
                    most.fetch_max(memory, Ordering::Relaxed);
                    note_phase(&mut looker, begun, &mut phases);
                    clock::sleep(LOOK);
                }
                phases
            });
            clock::sleep(quiet);
            let from = begun.elapsed();
            let done = client.batch_execute(statement);
            let to = begun.elapsed();
            // The plot shows a while after the change, too.
            clock::sleep(quiet / 5);
            over.store(true, Ordering::Relaxed);
            let phases = looks.join().expect("the sampling thread does not panic");
            done.map_err(|error| Failure::of_server(statement, &error)).map(|()| (from, to, phases))
        })
    })?;
    let memory = [before, most.load(Ordering::Relaxed)];
    let (begun, changed, phases) = times;
    Ok(Run { noted, begun, changed, memory, phases })
}

/// Notes the state of the change if it differs from the last one.
fn note_phase(looker: &mut Client, begun: Instant, phases: &mut Vec<(Duration, String)>) {
    let Ok(Some(row)) = looker.query_opt("select state from isomer.jobs", &[]) else { return };
    let state: String = row.get(0);
    let doing = state.split(',').next().unwrap_or_default().to_owned();
    // A copier waits for transactions now and then; that is no phase.
    let is_pause = doing == "waits for transactions" && !phases.is_empty();
    if !is_pause && phases.last().is_none_or(|(_, last)| *last != doing) {
        phases.push((begun.elapsed(), doing));
    }
}

/// Copies all rows into a table with the same partitions, in key order; returns the seconds that
/// took.
fn copy(ratings: &Ratings) -> Result<f64, Failure> {
    let failed = |error| Failure::of_server("copying", &error);
    let mut client = ratings.connect()?;
    client
        .batch_execute("create table copy (viewer int, movie int, rating int not null, primary key (viewer, movie))")
        .map_err(failed)?;
    let viewers =
        client.query("select distinct viewer from ratings order by viewer", &[]).map_err(failed)?;
    let viewers: Vec<i32> = viewers.iter().map(|row| row.get(0)).collect();
    let begun = clock::now();
    std::thread::scope(|scope| {
        let parts = viewers.chunks(viewers.len().div_ceil(COPIERS));
        let copy = |part: &[i32]| -> Result<(), Failure> {
            let mut client = ratings.connect()?;
            for few in part.chunks(part.len().div_ceil(100)) {
                let (from, to) = (few[0], few[few.len() - 1]);
                client
                    .execute(
                        "insert into copy select viewer, movie, rating from ratings where viewer between $1 and $2",
                        &[&from, &to],
                    )
                    .map_err(failed)?;
            }
            Ok(())
        };
        let threads: Vec<_> = parts.map(|part| scope.spawn(move || copy(part))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no client panics"))
    })?;
    let took = begun.elapsed().as_secs_f64();
    client.batch_execute("drop table copy").map_err(failed)?;
    Ok(took)
}
