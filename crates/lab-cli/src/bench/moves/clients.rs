//! Clients at work, and their notes: when each transaction was due, when it ended, and whether it
//! used the block that moves.
//!
//! * **paced**: each client has turns at fixed times. A late client goes on at once, and its
//!   transactions count from their turns. A client that waits for a move thus delays its later
//!   transactions, as real clients would. Late wake-ups by the operating system do not count, and
//!   clients forget the delay of a move before the next one.
//! * **closed**: each client starts the next transaction when it has an answer.
//! * The **probe** writes one row of the block that moves, with a pause of 50 µs after each write.
//!   Its commits show a gap to a tenth of a millisecond.

use super::bed::Bed;
use super::postcopy::Redirected;
use isomer::clock;
use isomer::failure::Failure;
use isomer_cluster::{Abort, Error, Session};
use isomer_design::{Access, Footprint, Key, Span};
use isomer_workload::{DataAccess, Outcome, Random, Transaction, Workload, random};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PROBE_PAUSE: Duration = Duration::from_micros(50);

/// A load: the clients and their pace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) clients: u16,
    /// Transactions a second of all clients together; `None` for a closed loop.
    pub(super) rate: Option<f64>,
    pub(super) has_probe: bool,
    pub(super) seed: u64,
}

/// A transaction that committed, or that its procedure rolled back. Times are nanoseconds since the
/// shift began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Note {
    pub(super) begun: u64,
    pub(super) ended: u64,
    /// True if it used the block that moves.
    pub(super) on_unit: bool,
    pub(super) is_probe: bool,
}

impl Note {
    pub(super) fn took(&self) -> u64 {
        self.ended - self.begun
    }
}

/// The notes of all clients.
#[derive(Default)]
pub(super) struct Noted {
    /// In the order of their ends.
    pub(super) notes: Vec<Note>,
    pub(super) failed: u64,
    /// The message of the first failure.
    pub(super) failure: Option<String>,
    /// Added to the sum of the workload by committed transactions.
    pub(super) added: i128,
}

impl Noted {
    fn add(&mut self, mut other: Noted) {
        self.notes.append(&mut other.notes);
        self.count(other);
    }

    /// Adds the counters of `other`, but not its notes.
    pub(super) fn count(&mut self, other: Noted) {
        self.failed += other.failed;
        self.failure = self.failure.take().or(other.failure);
        self.added += other.added;
    }

    fn fail(&mut self, what: String) {
        self.failed += 1;
        self.failure.get_or_insert(what);
    }
}

/// A period in which clients work.
pub(super) struct Shift {
    begun: Instant,
    is_over: AtomicBool,
    /// Number of calls of [`Shift::forget_delays`].
    forgotten: AtomicU64,
}

impl Shift {
    /// Nanoseconds since it began.
    pub(super) fn now(&self) -> u64 {
        clock::elapsed_ns(self.begun)
    }

    /// Makes each late client start its turns anew from now, so that a measurement does not suffer
    /// from earlier delays.
    pub(super) fn forget_delays(&self) {
        self.forgotten.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs `meanwhile` while clients work; afterwards stops them and returns their notes.
pub(super) fn work_while<W: Workload + Clone + Send + Sync, T>(
    bed: &Bed<W>,
    load: Load,
    meanwhile: impl FnOnce(&Shift) -> Result<T, Failure>,
) -> Result<(Noted, T), Failure> {
    let (is_over, forgotten) = (AtomicBool::new(false), AtomicU64::new(0));
    let shift = &Shift { begun: clock::now(), is_over, forgotten };
    std::thread::scope(|scope| {
        let mut threads: Vec<_> = (0..load.clients)
            .map(|number| {
                let client = Client::new(bed, shift, load, number);
                scope.spawn(move || client.run(load, number))
            })
            .collect();
        if load.has_probe {
            let client = Client::new(bed, shift, load, load.clients);
            threads.push(scope.spawn(move || client.probe()));
        }
        let came = meanwhile(shift);
        shift.is_over.store(true, Ordering::Relaxed);
        let mut all = Noted::default();
        threads.into_iter().for_each(|one| all.add(one.join().expect("no client panics")));
        all.notes.sort_by_key(|note| note.ended);
        came.map(|came| (all, came))
    })
}

struct Client<'b, W> {
    bed: &'b Bed<W>,
    workload: W,
    session: Session,
    rng: Random,
    shift: &'b Shift,
    noted: Noted,
}

impl<'b, W: Workload + Clone> Client<'b, W> {
    fn new(bed: &'b Bed<W>, shift: &'b Shift, load: Load, number: u16) -> Client<'b, W> {
        let mut session = bed.db.session();
        // Rows may have moved here from another table.
        session.has_seen(bed.db.now());
        let rng = random(load.seed.wrapping_mul(1000).wrapping_add(u64::from(number)));
        let workload = bed.case.workload.clone();
        Client { bed, workload, session, rng, shift, noted: Noted::default() }
    }

    fn now(&self) -> u64 {
        self.shift.now()
    }

    fn is_over(&self) -> bool {
        self.shift.is_over.load(Ordering::Relaxed)
    }

    fn run(mut self, load: Load, number: u16) -> Noted {
        let every = load.rate.map(|rate| 1e9 * f64::from(load.clients) / rate.max(1.0));
        let first = every.map_or(0.0, |every| every * f64::from(number) / f64::from(load.clients));
        let (mut from, mut turn, mut forgotten) = (0, 0u64, 0);
        while !self.is_over() {
            let now = self.now();
            let asked = self.shift.forgotten.load(Ordering::Relaxed);
            if std::mem::replace(&mut forgotten, asked) != asked {
                (from, turn) = (now, 0);
            }
            let due = every.map(|every| from + (first + every * turn as f64) as u64);
            turn += 1;
            let begun = match due {
                Some(due) if due > now => {
                    clock::sleep(Duration::from_nanos(due - now));
                    self.now()
                }
                Some(due) => due,
                None => now,
            };
            let transaction = self.workload.next(&mut self.rng);
            self.execute(begun, &transaction);
        }
        self.noted
    }

    fn execute(&mut self, begun: u64, transaction: &W::Transaction) {
        let footprint = transaction.footprint();
        let mut outcome = None;
        let ended = self.on_rows(&footprint, |data| {
            let end = transaction.run(data)?;
            let abort = end.rolled_back().map(Abort::because);
            outcome = Some(end);
            abort.map_or(Ok(()), Err)
        });
        match (ended, outcome) {
            (Ok(on_unit), Some(Outcome::Commit { added })) => {
                self.noted.added += i128::from(added);
                self.note(begun, on_unit);
            }
            (Err(Error::Abort(Abort::Rolled(_))), Some(Outcome::Rollback { .. })) => {
                self.note(begun, false);
            }
            (Err(error), _) => self.noted.fail(format!("{}: {error}", transaction.name())),
            (Ok(_), _) => self.noted.fail(format!("{}: has no end", transaction.name())),
        }
    }

    fn note(&mut self, begun: u64, on_unit: bool) {
        let ended = self.now();
        self.noted.notes.push(Note { begun, ended, on_unit, is_probe: false });
    }

    /// Runs a procedure where its rows are; returns true if it touches the unit.
    fn on_rows(
        &mut self,
        footprint: &Footprint,
        mut procedure: impl FnMut(&mut Redirected<'_, '_>) -> Result<(), Abort>,
    ) -> Result<bool, Error> {
        let bed = self.bed;
        let on_unit = footprint.items().iter().any(|item| bed.unit.touches(item));
        let gate = on_unit.then(|| bed.gate.read());
        let moved = gate.as_ref().and_then(|gate| gate.as_deref());
        let there = match moved {
            Some(moved) => Some(moved.bring(&bed.db, &mut self.session, footprint)?),
            None => None,
        };
        let footprint = there.as_ref().unwrap_or(footprint);
        bed.db
            .run(&mut self.session, footprint, |txn| procedure(&mut Redirected { txn, moved }))?;
        Ok(on_unit)
    }

    /// Writes the first row of the unit again and again, unchanged.
    fn probe(mut self) -> Noted {
        let (table, key) = (self.bed.unit.tables[0], Key::int(0));
        let mut footprint = Footprint::new();
        footprint.add(table, Span::Key(key.clone()), Access::Write);
        while !self.is_over() {
            let begun = self.now();
            match self.on_rows(&footprint, |data| data.update(table, &key, |_| {}).map(drop)) {
                Ok(_) => {
                    let ended = self.now();
                    self.noted.notes.push(Note { begun, ended, on_unit: true, is_probe: true });
                }
                Err(error) => self.noted.fail(format!("the probe: {error}")),
            }
            clock::sleep(PROBE_PAUSE);
        }
        self.noted
    }
}
