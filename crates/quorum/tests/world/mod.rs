//! A world of members, with a modelled network, disks and clocks. Each event is triggered by the
//! caller.
//!
//! ```text
//!   member ── envelopes ──▶ in flight ── deliver ──▶ member      or lost, repeated, reordered, cut off
//!     │ frames                                                 in one direction
//!     ▼
//!   journal   durable │ not synced ── crash: some of the tail is there, the rest is lost
//! ```
//!
//! [`Bug`]s are planted here: in what a disk promises, in what a member finds after a crash, and in
//! the moment at which a client is told.

#![allow(dead_code, reason = "each test uses a part")]

use isomer_log::{Counters, Durability, Log, LogError, MemoryLog, MemoryOptions, Position};
use isomer_quorum::journal::{Frame, Hard};
use isomer_quorum::roster::Standing;
use isomer_quorum::{Member, MemberOptions, Outcome, Ticket};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// A planted bug (a mutation).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bug {
    /// A leader tells its client that a record is written when only its own journal has it.
    EarlyAnswer,
    /// A member that crashes forgets its vote.
    ForgottenVote,
    /// A disk says that it has what it has not.
    LyingDisk,
    /// A member whose folder was emptied takes part again under its old number.
    EmptyFolder,
}

pub(crate) const GROUP: u32 = 1;

/// A journal, as a disk has it.
struct Disk {
    log: MemoryLog,
    lies: bool,
}

impl Log for Disk {
    fn append(&self, payload: &[u8]) -> Result<Position, LogError> {
        self.log.append(payload)
    }

    fn end(&self) -> Position {
        self.log.end()
    }

    fn durable(&self) -> Position {
        if self.lies { self.log.end() } else { self.log.durable() }
    }

    fn begin(&self) -> Position {
        self.log.begin()
    }

    fn sync(&self) -> Result<Position, LogError> {
        self.log.sync()
    }

    fn poll_durable(&self, position: Position, waker: &Waker) -> Poll<Result<(), LogError>> {
        self.log.poll_durable(position, waker)
    }

    fn poll_work(&self, waker: &Waker) -> Poll<Result<(), LogError>> {
        self.log.poll_work(waker)
    }

    fn read(
        &self,
        from: Position,
        visit: &mut dyn FnMut(Position, &[u8]) -> ControlFlow<()>,
    ) -> Result<Position, LogError> {
        self.log.read(from, visit)
    }

    fn truncate_before(&self, position: Position) -> Result<(), LogError> {
        self.log.truncate_before(position)
    }

    fn counters(&self) -> Counters {
        self.log.counters()
    }

    fn failure(&self) -> Option<LogError> {
        self.log.failure()
    }
}

/// A process.
struct Process {
    /// `None` while it is down.
    member: Option<Member>,
    disk: Arc<Disk>,
    /// It does nothing, although its messages arrive.
    is_paused: bool,
    run: u64,
}

/// An envelope on its way.
pub(crate) struct Envelope {
    pub(crate) from: usize,
    pub(crate) to: usize,
    bytes: Vec<u8>,
}

/// An append of a client, as the client knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Asked {
    pub(crate) member: usize,
    pub(crate) record: Vec<u8>,
    /// The offset in the acknowledgement.
    pub(crate) offset: Option<u64>,
}

/// See the [module documentation](self).
pub(crate) struct World {
    pub(crate) names: Vec<String>,
    processes: Vec<Process>,
    pub(crate) envelopes: Vec<Envelope>,
    /// Pairs of members between which nothing arrives, in this direction.
    cuts: BTreeSet<(usize, usize)>,
    asked: BTreeMap<(usize, u64, Ticket), usize>,
    pub(crate) appends: Vec<Asked>,
    /// The records at each offset that some member has shown.
    seen: BTreeMap<u64, Vec<u8>>,
    /// The leader of each term.
    leaders: BTreeMap<u64, usize>,
    /// Offsets below this may be removed.
    pub(crate) removed: u64,
    bug: Option<Bug>,
    runs: u64,
    options: MemberOptions,
    /// The members whose folders were emptied.
    pub(crate) lost: BTreeSet<usize>,
    /// The members whose folders were emptied while another member had the roster: they must not
    /// take part any more.
    pub(crate) emptied: BTreeSet<usize>,
}

fn disk(log: MemoryLog, bug: Option<Bug>) -> Arc<Disk> {
    Arc::new(Disk { log, lies: bug == Some(Bug::LyingDisk) })
}

fn memory() -> MemoryOptions {
    MemoryOptions { segment_bytes: 512, keep_bytes: None, durability: Durability::Commit }
}

impl World {
    pub(crate) fn new(members: usize, bug: Option<Bug>) -> World {
        let names = ('a'..).take(members).map(String::from).collect();
        let process = || Process {
            member: None,
            disk: disk(MemoryLog::new(memory()), bug),
            is_paused: false,
            run: 0,
        };
        let mut world = World {
            names,
            processes: (0..members).map(|_| process()).collect(),
            envelopes: Vec::new(),
            cuts: BTreeSet::new(),
            asked: BTreeMap::new(),
            appends: Vec::new(),
            seen: BTreeMap::new(),
            leaders: BTreeMap::new(),
            removed: 0,
            bug,
            runs: 0,
            options: MemberOptions { cached_bytes_max: 300, slack_bytes: 4 << 10 },
            lost: BTreeSet::new(),
            emptied: BTreeSet::new(),
        };
        (0..members).for_each(|at| world.start(at));
        world
    }

    pub(crate) fn members(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn is_up(&self, at: usize) -> bool {
        self.processes[at].member.is_some()
    }

    pub(crate) fn is_paused(&self, at: usize) -> bool {
        self.processes[at].is_paused
    }

    /// True if emptied folders get their old numbers, by the bug.
    pub(crate) fn is_fooled(&self) -> bool {
        self.bug == Some(Bug::EmptyFolder)
    }

    /// True if a process has written a roster; durably, if that is asked.
    pub(crate) fn has_roster(&self, at: usize, durably: bool) -> bool {
        let log = &self.processes[at].disk.log;
        let end = if durably { log.durable() } else { log.end() };
        let mut found = false;
        let read = log.read(log.begin(), &mut |position, bytes| {
            found |= position < end && matches!(Frame::read(bytes), Ok(Frame::Roster(_)));
            ControlFlow::Continue(())
        });
        read.is_ok() && found
    }

    /// A member that is up and not paused.
    fn active(&mut self, at: usize) -> Option<&mut Member> {
        let process = &mut self.processes[at];
        if process.is_paused { None } else { process.member.as_mut() }
    }

    pub(crate) fn standing(&self, at: usize) -> Option<Standing> {
        self.processes[at].member.as_ref().map(Member::standing)
    }

    /// The term and the leader, as a member knows them.
    pub(crate) fn leader(&self, at: usize) -> Option<(u64, Option<usize>)> {
        let states = self.processes[at].member.as_ref()?.states();
        states.iter().find(|state| state.group == GROUP).map(|state| (state.term, state.leader))
    }

    pub(crate) fn start(&mut self, at: usize) {
        self.runs += 1;
        let process = &mut self.processes[at];
        // Numbers of folders and runs never repeat, unless the bug says so.
        let drawn = match self.bug {
            Some(Bug::EmptyFolder) => 1000 + at as u128,
            _ => u128::from(self.runs) * 7919,
        };
        let opened = Member::open(
            self.names.clone(),
            at,
            (self.runs, drawn),
            process.disk.clone(),
            self.options,
        );
        process.member = Some(opened.expect("a journal that a crash has left can be read"));
        (process.run, process.is_paused) = (self.runs, false);
        self.step(at);
    }

    /// The process is killed. `share` of the bytes that were not synced are there all the same.
    pub(crate) fn crash(&mut self, at: usize, share: f64) {
        let process = &mut self.processes[at];
        process.member = None;
        let log = &process.disk.log;
        let tail = log.end() - log.durable();
        let keep = log.durable() + (tail as f64 * share) as u64;
        let mut log = log.crash(keep);
        if self.bug == Some(Bug::ForgottenVote) {
            log = without_votes(&log);
        }
        process.disk = disk(log, self.bug);
    }

    /// The folder of a process that is down is emptied.
    pub(crate) fn empty(&mut self, at: usize) {
        assert!(!self.is_up(at), "a running process has its folder");
        self.lost.insert(at);
        let mut others = (0..self.members()).filter(|other| *other != at);
        if others.any(|other| self.has_roster(other, true)) {
            self.emptied.insert(at);
        }
        self.processes[at].disk = disk(MemoryLog::new(memory()), self.bug);
    }

    pub(crate) fn pause(&mut self, at: usize, is_paused: bool) {
        self.processes[at].is_paused = is_paused;
    }

    pub(crate) fn cut(&mut self, from: usize, to: usize) {
        self.cuts.insert((from, to));
    }

    pub(crate) fn heal(&mut self) {
        self.cuts.clear();
    }

    pub(crate) fn tick(&mut self, at: usize) {
        if let Some(member) = self.active(at) {
            member.tick();
            self.step(at);
        }
    }

    /// Carries out what a member has to do; its disk is synced later.
    fn step(&mut self, at: usize) {
        let run = self.processes[at].run;
        let Some(member) = self.active(at) else { return };
        let output = member.step().expect("a disk in memory does not fail");
        let envelope = |(to, bytes)| Envelope { from: at, to, bytes };
        self.envelopes.extend(output.envelopes.into_iter().map(envelope));
        for (ticket, outcome) in output.done {
            let Outcome::Written(offset) = outcome else { continue };
            if let Some(asked) = self.asked.remove(&(at, run, ticket)) {
                self.appends[asked].offset = Some(offset);
            }
        }
    }

    /// A member syncs its journal.
    pub(crate) fn sync(&mut self, at: usize) {
        if self.active(at).is_some() {
            self.processes[at].disk.log.sync().expect("memory does not fail");
            self.step(at);
        }
    }

    pub(crate) fn wants_sync(&self, at: usize) -> bool {
        let disk = &self.processes[at].disk.log;
        self.is_up(at) && !self.is_paused(at) && disk.durable() < disk.end()
    }

    /// An envelope arrives, or is lost because of a cut or a process that is down.
    pub(crate) fn deliver(&mut self, at: usize, is_repeated: bool) {
        let Envelope { from, to, bytes } = self.envelopes.remove(at);
        if is_repeated {
            self.envelopes.push(Envelope { from, to, bytes: bytes.clone() });
        }
        if self.cuts.contains(&(from, to)) {
            return;
        }
        if let Some(member) = self.active(to) {
            assert!(member.receive(from, &bytes), "an envelope is read");
            self.step(to);
        }
    }

    pub(crate) fn lose(&mut self, at: usize) {
        self.envelopes.remove(at);
    }

    /// A client asks a member to append a record.
    pub(crate) fn append(&mut self, at: usize, record: &[u8]) {
        let early = self.bug == Some(Bug::EarlyAnswer) && {
            matches!(self.leader(at), Some((_, Some(leader))) if leader == at)
        };
        let run = self.processes[at].run;
        let Some(member) = self.active(at) else { return };
        if member.standing() != Standing::Member {
            return;
        }
        let ticket = member.append(GROUP, record);
        let mut asked = Asked { member: at, record: record.to_vec(), offset: None };
        if early {
            // The next entry of the leader's journal.
            let last = member.states().iter().find(|state| state.group == GROUP).map(|s| s.last);
            asked.offset = last.map(|last| last - 1);
        }
        self.asked.insert((at, run, ticket), self.appends.len());
        self.appends.push(asked);
        self.step(at);
    }

    /// An owner does not need the records before an offset.
    pub(crate) fn remove_before(&mut self, at: usize, offset: u64) {
        let Some(member) = self.active(at) else { return };
        if member.standing() == Standing::Member {
            member.remove_before(GROUP, offset);
            self.removed = self.removed.max(offset);
            self.step(at);
        }
    }

    /// All records that a member shows, from its first one on.
    pub(crate) fn records(&mut self, at: usize) -> Vec<(u64, Vec<u8>)> {
        let Some(member) = self.processes[at].member.as_mut() else { return Vec::new() };
        if member.standing() != Standing::Member {
            return Vec::new();
        }
        let (mut found, (mut from, _)) = (Vec::new(), member.bounds(GROUP));
        loop {
            let (records, next) = member.read(GROUP, from, 100).expect("memory can be read");
            found.extend(records.into_iter().map(|(offset, _, record)| (offset, record)));
            if next == from {
                return found;
            }
            from = next;
        }
    }

    /// The first offset of a member, and the one after its last record.
    pub(crate) fn bounds(&mut self, at: usize) -> (u64, u64) {
        self.processes[at].member.as_mut().map_or((0, 0), |member| member.bounds(GROUP))
    }

    /// Bytes in a member's journal.
    pub(crate) fn journal_bytes(&self, at: usize) -> u64 {
        let log = &self.processes[at].disk.log;
        log.end() - log.begin()
    }

    /// Checks that no two members, now or ever, show different records at one offset, and that a
    /// term has one leader.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        for at in 0..self.members() {
            if let Some((term, Some(leader))) = self.leader(at) {
                let before = *self.leaders.entry(term).or_insert(leader);
                if before != leader {
                    let names = [before, leader].map(|at| &*self.names[at]);
                    return Err(format!("term {term} has the leaders {}", names.join(" and ")));
                }
            }
            for (offset, record) in self.records(at) {
                let before = self.seen.entry(offset).or_insert_with(|| record.clone());
                if *before != record {
                    return Err(format!(
                        "{} shows {} at offset {offset}, where {} was",
                        self.names[at],
                        text(&record),
                        text(before)
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks that a member shows every acknowledged record at its offset, unless it was removed.
    pub(crate) fn check_acknowledged(&mut self, at: usize) -> Result<(), String> {
        let shown: BTreeMap<u64, Vec<u8>> = self.records(at).into_iter().collect();
        let (first, _) = self.bounds(at);
        if first > self.removed {
            return Err(format!("{} begins at {first}, and {} are removed", at, self.removed));
        }
        for asked in &self.appends {
            let Some(offset) = asked.offset.filter(|offset| *offset >= first) else { continue };
            match shown.get(&offset) {
                Some(record) if *record == asked.record => {}
                other => {
                    return Err(format!(
                        "{} was acknowledged at offset {offset}, and {} shows {}",
                        text(&asked.record),
                        self.names[at],
                        other.map_or("nothing".to_owned(), |record| text(record))
                    ));
                }
            }
        }
        Ok(())
    }
}

pub(crate) fn text(record: &[u8]) -> String {
    String::from_utf8_lossy(record).into_owned()
}

/// A journal in which no vote is.
fn without_votes(log: &MemoryLog) -> MemoryLog {
    let new = MemoryLog::starting_at(memory(), log.begin());
    let read = log.read(log.begin(), &mut |_, bytes| {
        let frame = match Frame::read(bytes).expect("a frame") {
            Frame::State(group, hard) => Frame::State(group, Hard { vote: 0, ..hard }),
            other => other,
        };
        new.append(&frame.write()).expect("memory has room");
        ControlFlow::Continue(())
    });
    read.expect("memory can be read");
    new.sync().expect("memory does not fail");
    new
}
