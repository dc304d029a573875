//! The run: client threads, and a loop that samples them.

use super::DemoArgs;
use super::changes::ChangeLog;
use super::lines::Lines;
use super::series::Series;
use super::view::{self, View};
use crate::clock;
use crate::failure::Failure;
use crate::screen::Screen;
use crate::work::{Client, Memory, Tally};
use isomer_cluster::{Database, Session};
use isomer_design::Design;
use isomer_workload::{TraceWorkload, random};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The result of a run.
pub(super) struct Ran {
    pub(super) series: Series,
    pub(super) log: Arc<ChangeLog>,
    /// The design at the beginning.
    pub(super) before: Design,
    /// A session that has seen everything that the clients' sessions have seen.
    pub(super) session: Session,
}

/// Runs clients for `--seconds`.
pub(super) fn run(
    args: &DemoArgs,
    db: &Database,
    workloads: Vec<TraceWorkload>,
) -> Result<Ran, Failure> {
    let begun = clock::now();
    let log = Arc::new(ChangeLog::new(begun));
    let (before, listener) = (db.design(), log.clone());
    db.watch(move |event| listener.enter(event));
    let stop = AtomicBool::new(false);
    let tallies: Vec<Mutex<Tally>> = workloads.iter().map(|_| Mutex::default()).collect();
    let mut session = db.session();
    let mut series = Series::default();
    let shown = std::thread::scope(|scope| {
        let stop = &stop;
        let mut clients = Vec::new();
        for (number, (workload, tally)) in (0u64..).zip(workloads.into_iter().zip(&tallies)) {
            let rng = random(args.seed.wrapping_mul(1000).wrapping_add(number));
            let mut client = Client::new(db, workload, rng);
            client.memory = Some(Memory::default());
            clients.push(scope.spawn(move || replay(client, tally, stop)));
        }
        let shown = look(args, db, begun, &tallies, &log, &mut series);
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            session.has_seen(client.join().expect("a client does not panic").seen());
        }
        shown
    });
    let changes = log.changes().all.len() as u64;
    series.finish(begun.elapsed().as_secs_f64(), &take(&tallies), changes);
    shown.map(|()| Ran { series, log, before, session })
}

/// Runs one client until `stop`; returns its session.
fn replay(
    mut client: Client<'_, TraceWorkload>,
    tally: &Mutex<Tally>,
    stop: &AtomicBool,
) -> Session {
    while !stop.load(Ordering::Relaxed) {
        let transaction = client.draw();
        // Contention is rare: the sampling loop takes the tally only a few times a second.
        client.run(&transaction, &mut tally.lock().unwrap_or_else(PoisonError::into_inner));
    }
    client.session().clone()
}

/// Samples the tallies until the time is over, and shows them.
fn look(
    args: &DemoArgs,
    db: &Database,
    begun: Instant,
    tallies: &[Mutex<Tally>],
    log: &ChangeLog,
    series: &mut Series,
) -> Result<(), Failure> {
    let is_live = !args.plain && !args.json && std::io::stdout().is_terminal();
    let mut screen = if is_live { Some(Screen::open().map_err(Failure::failed)?) } else { None };
    let mut lines = Lines::new(args.json);
    let end = Duration::from_secs(args.seconds);
    let pause = (end / 60).clamp(Duration::from_millis(100), Duration::from_millis(500));
    while begun.elapsed() < end {
        let pause = pause.min(end.saturating_sub(begun.elapsed()));
        let is_over = match &mut screen {
            Some(screen) => screen.wait(pause).map_err(Failure::failed)?,
            None => {
                clock::sleep(pause);
                false
            }
        };
        let changes = log.changes().all.len() as u64;
        series.push(begun.elapsed().as_secs_f64(), take(tallies), changes);
        let view = View { db, series, log, seconds: args.seconds };
        match &mut screen {
            Some(screen) => {
                screen.draw(|_, height| view::lines(&view, height)).map_err(Failure::failed)?
            }
            None => lines.show(&view),
        }
        if is_over {
            break;
        }
    }
    Ok(())
}

/// Takes the counts of all clients since the last call.
fn take(tallies: &[Mutex<Tally>]) -> Tally {
    let mut sum = Tally::default();
    for tally in tallies {
        let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
        sum.add(&std::mem::take(&mut *tally));
    }
    sum
}
