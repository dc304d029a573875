//! Changes of the design while clients work: splits, merges, remasters, replicas that come and go.
//!
//! They are asked for in SQL, as an operator would. Each table is split first, so that what is copied and handed
//! over is a part of it; then what to change is drawn from a seed. A change that the design cannot take (a merge
//! where nothing was split) is refused, and another is drawn.
//!
//! ```text
//!   due        0     100    200    300    400 ms            a change that copies rows takes longer than a pause,
//!   asker 1    ▇▇▇▇▇▇▇▇▇▇▇▇         ▇                       so several ask: whoever is free takes what is due
//!   asker 2          ▇      ▇             ▇▇▇▇
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

/// So many ask for changes.
pub(super) const ASKERS: usize = 4;

/// A table is split into so many parts before anything else is changed, and into so many at most.
const SPLITS: std::ops::Range<usize> = 8..16;

/// A pause is looked at so often whether it still is one.
const LOOK: Duration = Duration::from_millis(10);

/// A table, and the ranges that the first columns of its key have: from 1.
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

/// What is asked for next, and when.
struct Chance {
    rng: Random,
    targets: Vec<Target>,
    sites: u16,
    /// Where tables were split: the number of the table, and the key.
    splits: Vec<(usize, String)>,
    due: Instant,
}

impl Shaker {
    /// One that begins a change every `pause`, or as soon as one of its askers is free again.
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

    /// Makes changes until it is told to stop; returns how many took effect, as the server counts them.
    pub(super) fn shake_until(&mut self, stop: &AtomicBool) -> Result<u64, Failure> {
        let before = made(&mut self.askers[0])?;
        let (chance, pause) = (&self.chance, self.pause);
        std::thread::scope(|scope| {
            let ask = |asker| scope.spawn(move || ask_until(stop, asker, chance, pause));
            let asking: Vec<_> = self.askers.iter_mut().map(ask).collect();
            asking.into_iter().try_for_each(|it| it.join().expect("it says what is wrong"))
        })?;
        Ok(made(&mut self.askers[0])? - before)
    }
}

/// How many changes of the design the server has made.
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
        if chance.lock().expect("nobody fails while drawing").is_due(pause) {
            ask(asker, chance)?;
        } else {
            clock::sleep(LOOK.min(pause));
        }
    }
    Ok(())
}

/// Makes one change, if one of those that are drawn fits the design.
fn ask(asker: &mut Client, chance: &Mutex<Chance>) -> Result<(), Failure> {
    for _ in 0..20 {
        let text = chance.lock().expect("nobody fails while drawing").draw();
        match asker.batch_execute(&text) {
            Ok(()) => return Ok(()),
            Err(error) if error.code() == Some(&SqlState::INVALID_PARAMETER_VALUE) => {}
            Err(error) => return Err(Failure::of_server(&text, &error)),
        }
    }
    Ok(())
}

impl Chance {
    /// Takes what is due, if anything is. Who is late is late once, not for ever.
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
