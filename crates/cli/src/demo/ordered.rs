//! `isomer demo --isolation ordered`: rows of an ordered table move to the processes that write
//! them, over SQL, in a cluster on this machine.
//!
//! ```text
//!   at home ── 1/3 of the time ──▶ fused_rows, order_router ── 1/3 ──▶ moved ── 1/3 ──▶
//!             each second: transfers, and the number of rows that are elsewhere
//!   at the end: both throughputs, and whether each transfer is in all copies once
//! ```
//!
//! Each process is the home of one row of each group of accounts. A transfer is a CALL that writes
//! two rows of a group, so at first each one is over two processes, and transfers of one group
//! meet. Then the conductor routes them in batches, and the rows of a group gather at one process.

use super::args::DemoArgs;
use crate::checks::Check;
use crate::cluster::{LogsAt, Running, UpArgs, WhenOneEnds};
use crate::failure::Failure;
use crate::ratings::{Request, percentile, within};
use crate::stop::Stop;
use crate::{clock, out, text};
use isomer_server::Trust;
use parking_lot::Mutex;
use postgres::error::SqlState;
use postgres::{Client, NoTls};
use serde::Serialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The number of groups of accounts.
const GROUPS: u64 = 6;
/// The distance between the accounts of a group.
const APART: u64 = 10;
/// The longest wait for the processes of the cluster.
const START: Duration = Duration::from_secs(60);
/// The interval between two looks at a condition.
const LOOK: Duration = Duration::from_millis(100);

const MOVED: &str = "select count(*) from isomer.fused where relation = 'accounts'";

/// Figures of one part of the run.
#[derive(Serialize)]
struct Part {
    seconds: f64,
    transfers: usize,
    per_second: f64,
    p50_ms: f64,
    /// Transfers that failed with 40001.
    conflicts: usize,
}

#[derive(Serialize)]
struct Report {
    isolation: &'static str,
    processes: u16,
    clients: u64,
    rows: u64,
    transfers: usize,
    rows_moved: u64,
    at_home: Part,
    moving: Part,
    moved: Part,
    checks: Vec<Check>,
    summary: String,
}

/// The folder of the cluster, until this is dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the demo.
///
/// # Errors
/// [`Failure::Told`] if a check fails.
pub(super) fn run(args: &DemoArgs) -> Result<(), Failure> {
    if !(3..=9).contains(&args.sites) {
        return Err(Failure::usage(
            "--isolation ordered starts a process for each site: --sites 3 to 9",
        ));
    }
    let stop = Stop::on_signals()?;
    let say = |line: String| if args.json { eprintln!("{line}") } else { out::line(line) };
    let folder = std::env::temp_dir().join(format!("isomer-demo-{}", std::process::id()));
    let folder = Folder(folder);
    let up = UpArgs {
        nodes: args.sites,
        kafka: false,
        logs: Some(LogsAt::Nodes),
        sites: 1,
        data: folder.0.clone(),
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        when_one_ends: WhenOneEnds::Leave,
        trust: Trust::Loopback,
        http: None,
        keys: String::new(),
    };
    let Some(running) = Running::start(&up, false, &stop)? else { return Ok(()) };
    let shown = running.file.processes.iter().filter_map(|process| process.clients.as_ref());
    let ports: Vec<u16> = shown
        .filter_map(|address| address.parse::<SocketAddr>().ok())
        .map(|address| address.port())
        .collect();
    let done = ready(args, &ports, &stop).and_then(|ready| match ready {
        Some(client) => demonstrate(args, &ports, client, &stop, &say).map(Some),
        None => Ok(None),
    });
    running.stop();
    let Some(report) = done? else { return Ok(()) };
    tell(&report, args.json, &say)?;
    if report.checks.iter().all(|check| check.ok) { Ok(()) } else { Err(Failure::Told) }
}

fn connect(port: u16) -> Result<Client, Failure> {
    let config = format!("host=127.0.0.1 port={port} user=isomer dbname=isomer connect_timeout=5");
    Client::connect(&config, NoTls).map_err(|error| Failure::of_server("connecting", &error))
}

fn count(client: &mut Client, query: &str) -> Result<i64, Failure> {
    let row = client.query_one(query, &[]);
    row.map(|row| row.get(0)).map_err(|error| Failure::of_server(query, &error))
}

fn execute(client: &mut Client, statements: &str) -> Result<(), Failure> {
    let done = client.batch_execute(statements);
    done.map_err(|error| Failure::of_server("an SQL statement", &error))
}

/// A client of the first process, once all processes serve and have the accounts; `None` if a stop
/// was requested.
fn ready(args: &DemoArgs, ports: &[u16], stop: &Stop) -> Result<Option<Client>, Failure> {
    let begun = clock::now();
    let others = "select count(*) from isomer.gateways where not has_conductor";
    let mut client = loop {
        if stop.is_asked() {
            return Ok(None);
        }
        let found = connect(ports[0]).and_then(|mut client| {
            let there = count(&mut client, others)?;
            Ok((client, there))
        });
        match found {
            Ok((client, there)) if there + 1 == ports.len() as i64 => break client,
            Ok((_, there)) if begun.elapsed() > START => {
                let all = ports.len();
                let why = format!("only {} of {all} processes have started", there + 1);
                return Err(Failure::failed(why));
            }
            Err(failure) if begun.elapsed() > START => return Err(failure),
            _ => clock::sleep(LOOK),
        }
    };
    let last = u64::from(args.sites) * APART - 1;
    execute(
        &mut client,
        &format!(
            "alter system set autopilot = off;
             create table accounts (id int primary key, v bigint not null, times int not null)
                 with (isolation = ordered);
             insert into accounts select g, 0, 0 from generate_series(0, {last}) g
                 where g % {APART} < {GROUPS};
             create procedure pay(payer int, payee int) language sql as
                 'update accounts set v = v - 1 where id = payer;
                  update accounts set v = v + 1, times = times + 1 where id = payee'"
        ),
    )?;
    for site in 2..=u64::from(args.sites) {
        let at = (site - 1) * APART;
        let split = format!("alter table accounts split at ({at})");
        execute(&mut client, &split)?;
        execute(&mut client, &format!("alter table accounts remaster at ({at}) to site {site}"))?;
    }
    Ok(Some(client))
}

/// The transfers of all clients.
#[derive(Default)]
struct Tally {
    requests: Mutex<Vec<Request>>,
    paid: AtomicU64,
    /// The errors that were no conflicts.
    errors: Mutex<Vec<String>>,
    is_over: AtomicBool,
}

fn demonstrate(
    args: &DemoArgs,
    ports: &[u16],
    mut client: Client,
    stop: &Stop,
    say: &(dyn Fn(String) + Sync),
) -> Result<Report, Failure> {
    let (rows, clients) =
        (u64::from(args.sites) * GROUPS, u64::from(args.sites) * u64::from(args.threads));
    say(format!(
        "{} processes; {rows} accounts in {GROUPS} groups, one of each group at home in each process; {clients} \
         clients move amounts within groups, by CALL",
        args.sites
    ));
    let part = Duration::from_secs(args.seconds) / 3;
    let tally = Tally::default();
    let users = (0..clients).map(|number| connect(ports[number as usize % ports.len()]));
    let users = users.collect::<Result<Vec<_>, _>>()?;
    let begun = clock::now();
    let marks = std::thread::scope(|scope| {
        for (number, user) in users.into_iter().enumerate() {
            let tally = &tally;
            scope.spawn(move || pay(user, number as u64, u64::from(args.sites), begun, tally));
        }
        let marks = watch(&mut client, (begun, part), &tally, stop, say);
        tally.is_over.store(true, Ordering::Relaxed);
        marks
    })?;
    let mut requests = tally.requests.into_inner();
    requests.sort_by_key(|request| request.at);
    let [first, second, third] = marks;
    let parts = [(Duration::ZERO, first), (first, second), (second, third)];
    let [at_home, moving, moved] = parts.map(|(from, to)| summary(&requests, from, to));
    let rows_moved = count(&mut client, MOVED)?.unsigned_abs();
    let paid = tally.paid.into_inner();
    let checks = checks(&mut client, paid, rows_moved, &tally.errors.into_inner())?;
    let summary = format!(
        "With every row at home there were {:.0} transfers a second. Then {rows_moved} of {rows} rows moved to the \
         processes that run the transfers, and there were {:.0} a second, {:.1} times as many.",
        at_home.per_second,
        moved.per_second,
        moved.per_second / at_home.per_second.max(1.0)
    );
    let (isolation, processes, transfers) = ("ordered", args.sites, paid as usize);
    let report = Report {
        isolation,
        processes,
        clients,
        rows,
        transfers,
        rows_moved,
        at_home,
        moving,
        moved,
        checks,
        summary,
    };
    Ok(report)
}

/// A client that moves amounts between the accounts of one group after the other.
fn pay(mut client: Client, number: u64, processes: u64, begun: Instant, tally: &Tally) {
    let mut noted = Vec::new();
    for round in number.. {
        if tally.is_over.load(Ordering::Relaxed) {
            break;
        }
        let (group, turn) = (round % GROUPS, round / GROUPS % processes);
        let (from, to) = (group + APART * turn, group + APART * ((turn + 1) % processes));
        let at = begun.elapsed();
        let paid = client.batch_execute(&format!("call pay({from}, {to})"));
        let took = begun.elapsed() - at;
        noted.push(Request { at, took, is_read: false, is_ok: paid.is_ok() });
        match paid {
            Ok(()) => drop(tally.paid.fetch_add(1, Ordering::Relaxed)),
            Err(error) if error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE) => {}
            Err(error) => {
                tally.errors.lock().push(error.to_string());
                if error.is_closed() {
                    break;
                }
            }
        }
    }
    tally.requests.lock().extend(noted);
}

/// Reports each second, and lets rows move after a part of the time. Returns the ends of the parts.
fn watch(
    client: &mut Client,
    (begun, part): (Instant, Duration),
    tally: &Tally,
    stop: &Stop,
    say: &(dyn Fn(String) + Sync),
) -> Result<[Duration; 3], Failure> {
    let (mut marks, mut before, mut told) = ([Duration::ZERO; 3], 0, Duration::ZERO);
    for at in 0..3_u32 {
        while begun.elapsed() < part * (at + 1) && !stop.is_asked() {
            clock::sleep(LOOK);
            let now = begun.elapsed();
            if now - told < Duration::from_secs(1) {
                continue;
            }
            let paid = tally.paid.load(Ordering::Relaxed);
            say(format!(
                "{:>4.0} s  {:>7} transfers/s  {:>3} rows moved",
                now.as_secs_f64(),
                text::count(((paid - before) as f64 / (now - told).as_secs_f64()) as u64),
                count(client, MOVED)?
            ));
            (before, told) = (paid, now);
        }
        marks[at as usize] = begun.elapsed();
        if at == 0 {
            for set in ["fused_rows = 1000", "order_router = hermes"] {
                say(format!("alter system set {set};"));
                execute(client, &format!("alter system set {set}"))?;
            }
        }
    }
    Ok(marks)
}

fn summary(requests: &[Request], from: Duration, to: Duration) -> Part {
    let all = within(requests, from, to);
    let paid: Vec<Request> = all.iter().filter(|request| request.is_ok).copied().collect();
    let seconds = (to - from).as_secs_f64();
    Part {
        seconds,
        transfers: paid.len(),
        per_second: paid.len() as f64 / seconds.max(0.001),
        p50_ms: percentile(&paid, 50).as_secs_f64() * 1000.0,
        conflicts: all.len() - paid.len(),
    }
}

fn checks(
    client: &mut Client,
    paid: u64,
    rows_moved: u64,
    errors: &[String],
) -> Result<Vec<Check>, Failure> {
    let sum = count(client, "select sum(v)::bigint from accounts")?;
    let times = count(client, "select sum(times)::bigint from accounts")?;
    let copies = count(client, "select count(*) from isomer.order_hashes")?;
    let different = count(
        client,
        "select count(*) from (select relation, first_key from isomer.order_hashes
             group by 1, 2 having count(distinct hash) <> 1 or count(*) <> count(hash)) as parts",
    )?;
    let found = format!("{} of {}", text::count(times.unsigned_abs()), text::count(paid));
    Ok(vec![
        Check::new(
            "no transfer failed, but for conflicts",
            errors.is_empty(),
            errors.first().cloned().unwrap_or_default(),
        ),
        Check::new(
            "every acknowledged transfer is there once",
            sum == 0 && times.unsigned_abs() == paid,
            format!("{found} transfers, which sum up to {sum}"),
        ),
        Check::new("rows have moved", rows_moved > 0, format!("{rows_moved} rows")),
        Check::new(
            "all copies have run the same batches",
            different == 0,
            format!("{copies} copies, {different} partitions whose hashes differ"),
        ),
    ])
}

fn tell(report: &Report, json: bool, say: &dyn Fn(String)) -> Result<(), Failure> {
    for (name, part) in
        [("at home", &report.at_home), ("moving", &report.moving), ("moved", &report.moved)]
    {
        say(format!(
            "{name:<7} {:>5.1} s  {:>7} transfers/s  p50 {:.1} ms  {} conflicts",
            part.seconds,
            text::count(part.per_second as u64),
            part.p50_ms,
            text::count(part.conflicts as u64)
        ));
    }
    report.checks.iter().for_each(|check| say(check.line()));
    say(report.summary.clone());
    if json {
        out::line(serde_json::to_string(report).map_err(Failure::failed)?);
    }
    Ok(())
}
