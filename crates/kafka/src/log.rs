//! A log in a partition, for the process that owns it, driven by threads. What decides is in [`owned`](crate::owned).
//!
//! A **sync** takes one [`Step`] after the other, and waits for brokers where that says so. If none answers for a moment it
//! returns, and the next one goes on waiting: who drives the log has other things to do. It ends the log if another process
//! has claimed it ([`LogError::Fenced`]), or if no broker answered for too long ([`LogError::Failed`]).

use crate::owned::{OpenReport, Opening, Options, OwnedLog, Sent, Step, VisitRecord};
use crate::partition::{Connection, Partition, Refused, clock, pause};
use crate::record::{Offset, Term};
use isomer_cluster::ClaimNote;
use isomer_log::{Counters, Log, LogError, OpenError, Position};
use parking_lot::Mutex;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

/// How long a sync waits for brokers: then who drives the log looks after the rest of its site.
const LONGEST: Duration = Duration::from_millis(500);
/// How long a log that is closed waits for its release to be written.
const RELEASE: Duration = Duration::from_secs(2);
/// The pause before something is read again that is not there yet.
const AGAIN: Duration = Duration::from_millis(20);

/// A log in a partition. See the [module documentation](self).
pub struct KafkaLog {
    owned: OwnedLog,
    partition: Partition,
    /// One sync at a time.
    syncing: Mutex<()>,
    /// Where the claim is noted; the folder of the note stays locked while this process has the log.
    note: Option<ClaimNote>,
    is_noted: AtomicBool,
}

/// Reads what is there.
fn read(partition: &Partition, opening: &mut Opening) -> Result<(), Refused> {
    let (mut broken, next) = (None, opening.next());
    partition.read(next, &mut |offset, record| match opening.take(offset, record) {
        Ok(flow) => flow,
        Err(error) => {
            broken = Some(error);
            ControlFlow::Break(())
        }
    })?;
    broken.map_or(Ok(()), |error| Err(Refused(error.to_string())))
}

/// Reads up to the claim.
fn read_claim(
    partition: &Partition,
    opening: &mut Opening,
    timeout: Duration,
) -> Result<(), Refused> {
    let begun = clock();
    loop {
        read(partition, opening)?;
        if opening.has_read_claim() {
            return Ok(());
        }
        // A broker that leads since a moment ago may show less than it has.
        if clock() - begun > timeout {
            return Err(Refused("what was written cannot be read".to_owned()));
        }
        pause(AGAIN);
    }
}

impl KafkaLog {
    /// Opens the log in a partition, which belongs to this process from then on. `number` is the log's in its database,
    /// and the partition's in the topic. `name` is what others call this process.
    ///
    /// # Errors
    /// [`OpenError::Elsewhere`], which names the partition.
    pub fn open(
        connection: &Connection,
        database: u128,
        number: u32,
        name: &str,
        options: Options,
    ) -> Result<(KafkaLog, OpenReport), OpenError> {
        let place: Arc<str> = format!("{}, partition {number}", connection.address).into();
        let opened = KafkaLog::claim(connection, database, number, name, options, &place);
        let opened = opened.and_then(|(log, report)| {
            log.confirm(connection.timeouts.ask).map_err(Refused)?;
            Ok((log, report))
        });
        opened.map_err(|Refused(what)| OpenError::Elsewhere { place: place.to_string(), what })
    }

    fn claim(
        connection: &Connection,
        database: u128,
        number: u32,
        name: &str,
        options: Options,
        place: &Arc<str>,
    ) -> Result<(KafkaLog, OpenReport), Refused> {
        let ask = connection.timeouts.ask;
        let partition = Partition::new(connection, number, options.record_bytes_max)?;
        let partition = partition.written_by(name);
        let (first, end) = partition.bounds()?;
        if options.must_exist && first == end {
            return Err(Refused("it is empty, although the log was made before".to_owned()));
        }
        let mut opening = Opening::new(place.clone(), database, number, first, options);
        read(&partition, &mut opening)?;
        let drawn =
            getrandom::u64().map_err(|error| Refused(format!("no random number: {error}")))?;
        let claim = opening.claim(drawn, name).map_err(Refused)?;
        match partition.send(&claim, ask) {
            Some(Sent::Written(_)) => {}
            Some(Sent::Doubtful(why)) => {
                return Err(Refused(format!("it cannot be written: {why}")));
            }
            None => {
                let why = partition.why();
                return Err(Refused(format!("it cannot be written in {} s{why}", ask.as_secs())));
            }
        }
        read_claim(&partition, &mut opening, ask)?;
        let (owned, report) = opening.own(clock()).map_err(Refused)?;
        partition.rest();
        Ok((
            KafkaLog {
                owned,
                partition,
                syncing: Mutex::new(()),
                note: None,
                is_noted: false.into(),
            },
            report,
        ))
    }

    /// Has the first record of the term written, which shows where the stream goes on.
    fn confirm(&self, longest: Duration) -> Result<(), String> {
        let until = clock() + longest;
        self.drive(until).map_err(|error| error.to_string())?;
        match self.owned.next_offset() {
            Some(_) => Ok(()),
            None => Err(format!("it cannot be written{}", self.partition.why())),
        }
    }

    /// Has the claim noted, once it waits for nobody: then it need not be waited for either.
    pub(crate) fn noted(mut self, note: Option<ClaimNote>) -> KafkaLog {
        self.note = note;
        self.note_claim();
        self
    }

    fn note_claim(&self) {
        if let Some(note) = &self.note
            && self.owned.has_waited(clock())
            && !self.is_noted.swap(true, Ordering::AcqRel)
        {
            note.write(&self.term().to_note());
        }
    }

    /// In which term this process owns the log, or has owned it.
    pub fn term(&self) -> Term {
        self.owned.term()
    }

    /// Has everything sent that was appended so far, and waits for it; until `until` at most.
    fn drive(&self, until: Duration) -> Result<(), LogError> {
        let end = self.end();
        loop {
            match self.owned.step(clock())? {
                Step::Send(record) => self.partition.start(&record),
                Step::Await => match self.partition.wait(until.saturating_sub(clock())) {
                    Some(sent) => self.owned.answered(sent)?,
                    None => return Ok(()),
                },
                Step::ReadBack(from) => self.read_back(from)?,
                Step::Wait(moment) if moment > until => {
                    pause(until.saturating_sub(clock()));
                    return Ok(());
                }
                Step::Wait(moment) => pause(moment.saturating_sub(clock())),
                Step::Rest => return Ok(()),
            }
            // What is appended meanwhile is for the next sync.
            if self.owned.next_offset().is_some() && self.durable() >= end {
                return Ok(());
            }
        }
    }

    /// Reads what others have written, until a record is found that was written, or that it is void.
    fn read_back(&self, from: Offset) -> Result<(), LogError> {
        let (begun, mut from) = (clock(), from);
        loop {
            let mut ended = None;
            let read = self.partition.read(from, &mut |offset, record| {
                from = offset + 1;
                let taken = self.owned.read_back(offset, record);
                let flow = taken.as_ref().map_or(ControlFlow::Break(()), |flow| *flow);
                if flow.is_break() {
                    ended = Some(taken.map(|_| ()));
                }
                flow
            });
            if let Some(ended) = ended {
                self.partition.rest();
                return ended;
            }
            if read.is_err()
                && let Ok((first, _)) = self.partition.bounds()
            {
                self.owned.begins_at(first)?;
            }
            // As with writing: what cannot be read now is read later, up to a time.
            if clock() - begun > self.partition.timeouts().write {
                let why = read.err().map_or_else(String::new, |why| format!(": {why}"));
                return Err(self.owned.fail(&format!("a record was not found again{why}")));
            }
            pause(AGAIN);
        }
    }
}

impl Log for KafkaLog {
    fn append(&self, payload: &[u8]) -> Result<Position, LogError> {
        self.owned.append(payload)
    }

    fn end(&self) -> Position {
        self.owned.end()
    }

    fn durable(&self) -> Position {
        self.owned.durable()
    }

    fn begin(&self) -> Position {
        self.owned.begin()
    }

    fn sync(&self) -> Result<Position, LogError> {
        let _syncing = self.syncing.lock();
        self.drive(clock() + LONGEST)?;
        if self.owned.next_offset().is_none() {
            // Whoever drives the log comes again.
            self.owned.ask();
        }
        Ok(self.durable())
    }

    fn poll_durable(&self, position: Position, waker: &Waker) -> Poll<Result<(), LogError>> {
        self.owned.poll_durable(position, waker)
    }

    fn poll_work(&self, waker: &Waker) -> Poll<Result<(), LogError>> {
        self.owned.poll_work(waker)
    }

    fn read(
        &self,
        from: Position,
        visit: &mut dyn FnMut(Position, &[u8]) -> ControlFlow<()>,
    ) -> Result<Position, LogError> {
        let records = |offset, visit: &mut VisitRecord<'_>| {
            self.partition.read(offset, visit).map_err(|Refused(what)| what)
        };
        self.owned.read(from, &records, visit)
    }

    fn truncate_before(&self, position: Position) -> Result<(), LogError> {
        let remove = |offset| self.partition.remove_before(offset).map_err(|Refused(what)| what);
        self.owned.truncate_before(position, &remove)
    }

    fn counters(&self) -> Counters {
        self.owned.counters()
    }

    fn look_for_others(&self) {
        self.note_claim();
        // Whoever is writing finds out by that; what cannot be asked now is asked again.
        if let (Some(next), Some(end)) = (self.owned.next_offset(), self.partition.end())
            && end > next
        {
            self.owned.ask();
        }
    }

    fn failure(&self) -> Option<LogError> {
        self.owned.failure()
    }

    fn serving(&self) -> Result<(), LogError> {
        self.owned.serving(clock())
    }
}

impl Drop for KafkaLog {
    /// Releases the log, so that the next owner need not wait. Nobody shows anything of it any more.
    fn drop(&mut self) {
        if self.owned.next_offset().is_none() && self.owned.failure().is_none() {
            let _ = self.drive(clock() + RELEASE);
        }
        if let Some(release) = self.owned.release(clock()) {
            // If it is not written, the next owner waits.
            let _ = self.partition.send(&release, RELEASE);
        }
    }
}
