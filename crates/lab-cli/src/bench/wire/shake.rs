//! Changes of the design while clients work: splits, merges, remasters, added and dropped replicas.
//!
//! The changes are SQL statements, as an operator's are. Each table is split first, so that a later
//! change copies and hands over a part of it. Each later change is drawn from a seed. The server
//! refuses a change that the design cannot take, such as a merge where nothing was split; then
//! the next draw replaces it.
//!
//! ```text
//!   due        0     100    200    300    400 ms        a change that copies rows can take longer
//!   asker 1    ▇▇▇▇▇▇▇▇▇▇▇▇         ▇                   than a pause, so there are several askers:
//!   asker 2          ▇      ▇             ▇▇▇▇          the next free one takes what is due
//! ```

use isomer::clock;
use isomer::failure::Failure;
use isomer_workload::Random;
use postgres::Client;
use postgres::error::SqlState;
use rand::RngExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Connections that ask for changes.
pub(super) const ASKERS: usize = 4;

/// Splits of a table: a table gets the first number of them before any other change, and never more
/// than the last.
const SPLITS: std::ops::Range<usize> = 8..16;

/// The longest sleep between two looks at whether a change is due.
const LOOK: Duration = Duration::from_millis(10);

/// A table, and the ranges of the first columns of its key, each from 1 to this number.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) table: &'static str,
    pub(super) keys: Vec<i32>,
}

/// Changes the design of some tables again and again.
pub(super) struct Shaker {
    askers: Vec<Client>,
    chance: Mutex<Chance>,
    pause: Duration,
}

/// The random state: the next change, and when it is due.
struct Chance {
    rng: Random,
    targets: Vec<Target>,
    sites: u16,
    /// Places where tables were split: the index of the table, and the key.
    splits: Vec<(usize, String)>,
    due: Instant,
}

impl Shaker {
    /// Begins a change every `pause`, or when an asker is free again.
    pub(super) fn new(
        askers: Vec<Client>,
        rng: Random,
        targets: Vec<Target>,
        sites: u16,
        pause: Duration,
    ) -> Shaker {
        let chance = Chance { rng, targets, sites, splits: Vec::new(), due: clock::now() };
        Shaker { askers, chance: Mutex::new(chance), pause }
    }

    /// Makes changes until `stop`; returns the number that took effect, as the server counts them.
    pub(super) fn shake_until(&mut self, stop: &AtomicBool) -> Result<u64, Failure> {
        let before = made(&mut self.askers[0])?;
        let (chance, pause) = (&self.chance, self.pause);
        std::thread::scope(|scope| {
            let ask = |asker| scope.spawn(move || ask_until(stop, asker, chance, pause));
            let asking: Vec<_> = self.askers.iter_mut().map(ask).collect();
            asking.into_iter().try_for_each(|it| it.join().expect("an asker does not panic"))
        })?;
        Ok(made(&mut self.askers[0])? - before)
    }
}

/// The number of changes of the design that the server has made.
fn made(client: &mut Client) -> Result<u64, Failure> {
    let query = "SELECT coalesce(max(number), 0) FROM isomer.changes";
    let made = client.query_one(query, &[]).map_err(|error| Failure::of_server(query, &error))?;
    Ok(made.get::<_, i64>(0) as u64)
}

fn ask_until(
    stop: &AtomicBool,
    asker: &mut Client,
    chance: &Mutex<Chance>,
    pause: Duration,
) -> Result<(), Failure> {
    while !stop.load(Ordering::Relaxed) {
        if chance.lock().expect("drawing does not panic").is_due(pause) {
            ask(asker, chance)?;
        } else {
            clock::sleep(LOOK.min(pause));
        }
    }
    Ok(())
}

/// Makes one change: draws up to 20 until one of them fits the design.
fn ask(asker: &mut Client, chance: &Mutex<Chance>) -> Result<(), Failure> {
    for _ in 0..20 {
        let text = chance.lock().expect("drawing does not panic").draw();
        match asker.batch_execute(&text) {
            Ok(()) => return Ok(()),
            Err(error) if error.code() == Some(&SqlState::INVALID_PARAMETER_VALUE) => {}
            Err(error) => return Err(Failure::of_server(&text, &error)),
        }
    }
    Ok(())
}

impl Chance {
    /// Takes the change that is due, if one is. Askers make up for at most ten pauses of delay.
    fn is_due(&mut self, pause: Duration) -> bool {
        let now = clock::now();
        let is_due = now >= self.due;
        if is_due {
            self.due = (self.due + pause).max(now - pause * 10);
        }
        is_due
    }

    fn draw(&mut self) -> String {
        let at = self.rng.random_range(0..self.targets.len());
        let Target { table, keys } = &self.targets[at];
        let key: Vec<String> =
            keys.iter().map(|most| self.rng.random_range(1..=*most).to_string()).collect();
        let key = key.join(", ");
        let parts = self.splits.iter().filter(|(of, _)| *of == at).count();
        let (change, site) = (self.rng.random_range(0..8), self.rng.random_range(1..=self.sites));
        match change {
            _ if parts < SPLITS.start => self.split(at, key),
            0 | 1 if parts < SPLITS.end => self.split(at, key),
            0..=2 => {
                let at = self.rng.random_range(0..self.splits.len());
                let (of, key) = self.splits.swap_remove(at);
                format!("ALTER TABLE {} MERGE AT ({key})", self.targets[of].table)
            }
            3 => format!("ALTER TABLE {table} ADD REPLICA AT ({key}) ON SITE {site}"),
            4 => format!("ALTER TABLE {table} DROP REPLICA AT ({key}) ON SITE {site}"),
            _ => format!("ALTER TABLE {table} REMASTER AT ({key}) TO SITE {site}"),
        }
    }

    fn split(&mut self, at: usize, key: String) -> String {
        let text = format!("ALTER TABLE {} SPLIT AT ({key})", self.targets[at].table);
        self.splits.push((at, key));
        text
    }
}
