//! Loads a workload, runs it at full speed, and checks it.

use super::options::{Common, StrategyName, durability_text};
use super::report::Report;
use crate::checks::{copies, invariants, no_failures, sums};
use crate::failure::Failure;
use crate::work::{Client, Layout, Tally, inspect, load};
use crate::{clock, out, text};
use isomer_cluster::{Database, Options, Session};
use isomer_plan::strategy::Static;
use isomer_workload::{Workload, random};
use serde_json::Value;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

/// Clients run, and what they count does not matter yet.
const WARM: u8 = 0;
/// Clients count.
const MEASURE: u8 = 1;
const STOP: u8 = 2;

/// Progress is told this often.
const PAUSE: Duration = Duration::from_secs(2);

/// Runs a benchmark: `workload` gives the workload of each client.
pub(super) fn run<W: Workload + Send>(
    common: &Common,
    name: &'static str,
    inputs: Value,
    workload: impl Fn(usize) -> Result<W, Failure>,
) -> Result<(), Failure> {
    let db = open(common)?;
    let first = workload(0)?;
    let layout = Layout {
        sites: common.sites,
        rows_per_partition: common.partition_keys,
        spread: common.spread,
    };
    load(&db, &first, layout)?;
    eprintln!(
        "{name}: {} rows in {} partitions at {} sites, strategy {}, durability {}, {} clients, \
         seed {}: {inputs}",
        text::count(first.loaded().rows),
        text::count(db.design().partition_count() as u64),
        common.sites,
        db.strategy(),
        durability_text(common.durability()),
        common.threads,
        common.seed,
    );
    let clients: Result<Vec<W>, Failure> = (0..usize::from(common.threads)).map(workload).collect();
    let measured = measure(&db, common, clients?);
    let added = measured.warm.added + measured.counted.added;
    let mut all = measured.warm.clone();
    all.add(&measured.counted);
    let found = inspect(&db, &measured.session)?;
    let design = db.design();
    let checks =
        vec![no_failures(&all), sums(&first, &found, added), invariants(&design), copies(&found)];
    let report = Report::of(common, name, inputs, &db, &measured, checks);
    match common.json {
        true => out::line(serde_json::to_string(&report).map_err(Failure::failed)?),
        false => out::print(report.to_text()),
    }
    if report.is_ok() { Ok(()) } else { Err(Failure::Told) }
}

fn open(common: &Common) -> Result<Database, Failure> {
    let options = match &common.folder {
        Some(folder) => Options::in_folder(folder, common.sites),
        None => Options::in_memory(common.sites),
    };
    let options = options.durability(common.durability());
    let options = match common.strategy {
        StrategyName::Static => options.strategy(Static),
        StrategyName::OnDemand => options,
    };
    let db = Database::open(options)?;
    if db.design().tables().next().is_some() {
        let folder = common.folder.as_ref().map(|f| f.display().to_string()).unwrap_or_default();
        return Err(Failure::failed(format!(
            "{folder} holds a database with tables; a benchmark needs a new folder"
        )));
    }
    Ok(db)
}

/// What clients did.
pub(super) struct Measured {
    /// Before the measurement began.
    pub(super) warm: Tally,
    pub(super) counted: Tally,
    pub(super) seconds: f64,
    /// A session that has seen all that any client's has.
    pub(super) session: Session,
}

fn measure<W: Workload + Send>(db: &Database, common: &Common, workloads: Vec<W>) -> Measured {
    let phase = AtomicU8::new(WARM);
    let mut measured = Measured {
        warm: Tally::default(),
        counted: Tally::default(),
        seconds: 0.0,
        session: db.session(),
    };
    std::thread::scope(|scope| {
        let mut clients = Vec::new();
        for (number, workload) in (0u64..).zip(workloads) {
            let rng = random(common.seed.wrapping_mul(1000).wrapping_add(number));
            let (client, phase) = (Client::new(db, workload, rng), &phase);
            clients.push(scope.spawn(move || work(client, phase)));
        }
        let seconds = Duration::from_secs(common.seconds);
        clock::sleep(seconds / 10);
        phase.store(MEASURE, Ordering::SeqCst);
        let begun = clock::now();
        while let Some(left) = seconds.checked_sub(begun.elapsed()) {
            clock::sleep(left.min(PAUSE));
            if left > PAUSE {
                eprintln!("{:.0} of {} s", begun.elapsed().as_secs_f64(), common.seconds);
            }
        }
        phase.store(STOP, Ordering::SeqCst);
        measured.seconds = begun.elapsed().as_secs_f64();
        for client in clients {
            let (warm, counted, session) = client.join().expect("a client does not panic");
            measured.warm.add(&warm);
            measured.counted.add(&counted);
            measured.session.has_seen(session.seen());
        }
    });
    measured
}

/// A client's thread: counts of the warm-up, of the measurement, and the session at the end.
fn work<W: Workload>(mut client: Client<'_, W>, phase: &AtomicU8) -> (Tally, Tally, Session) {
    let (mut warm, mut counted) = (Tally::default(), Tally::default());
    loop {
        let tally = match phase.load(Ordering::Relaxed) {
            WARM => &mut warm,
            MEASURE => &mut counted,
            _ => break,
        };
        let transaction = client.next();
        client.run(&transaction, tally);
    }
    (warm, counted, client.session().clone())
}
