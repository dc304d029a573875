//! Clients at full speed, and their counts.

use super::options::Common;
use isomer::clock;
use isomer::work::{Client, Tally};
use isomer_cluster::{Database, Session};
use isomer_workload::{Workload, random};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

/// Clients run, but their counts are of the warm-up.
const WARM: u8 = 0;
/// Clients run, and their counts are of the measurement.
const MEASURE: u8 = 1;
const STOP: u8 = 2;

/// Interval between messages of progress.
const PAUSE: Duration = Duration::from_secs(2);

/// Counts of all clients.
pub(super) struct Measured {
    /// Before the measurement began.
    pub(super) warm: Tally,
    pub(super) counted: Tally,
    pub(super) seconds: f64,
    /// A session that has seen everything that the clients' sessions have seen.
    pub(super) session: Session,
}

/// Runs each workload in a thread at full speed: a warm-up of a tenth of the time, then the
/// measurement.
pub(super) fn measure<W: Workload + Send>(
    db: &Database,
    common: &Common,
    workloads: Vec<W>,
) -> Measured {
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

/// Runs one client; returns counts of the warm-up, of the measurement, and its session.
fn work<W: Workload>(mut client: Client<'_, W>, phase: &AtomicU8) -> (Tally, Tally, Session) {
    let (mut warm, mut counted) = (Tally::default(), Tally::default());
    loop {
        let tally = match phase.load(Ordering::Relaxed) {
            WARM => &mut warm,
            MEASURE => &mut counted,
            _ => break,
        };
        let transaction = client.draw();
        client.run(&transaction, tally);
    }
    (warm, counted, client.session().clone())
}
