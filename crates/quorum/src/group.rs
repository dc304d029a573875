//! One group: a partition, replicated by Raft, as one member sees it.
//!
//! ```text
//!   append ─▶ propose ─┬─ leader here ─────▶ entry ─▶ journal ┐
//!                      └─ elsewhere ─▶ forwarded             ├─▶ committed ─▶ answered
//!                                            followers ───────┘
//! ```
//!
//! **An append is proposed until it is committed.** A proposal may be lost: by the network, or with
//! a leader. This member proposes it again when the leader changes, or after [`AGAIN`] ticks. So a
//! record may be in the partition twice, which the owner's protocol expects, and an append never
//! fails while the member works: without a majority it waits.
//!
//! **The leader follows the owner.** A member with an append for a leader elsewhere asks for the
//! leadership. Then the owner's commits take one message to the followers and one back.

use crate::command::{Body, Command, Records, Ticket};
use crate::journal::{Found, Mark};
use crate::store::Store;
use isomer_log::{Log, LogError, Position};
use raft::eraftpb::{Entry, Message, MessageType};
use raft::{Config, RawNode, SnapshotStatus, StateRole};
use serde::{Deserialize, Serialize};
use serde_bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Ticks after which a proposal without an outcome is repeated.
const AGAIN: u64 = 40;
/// Ticks after which a question about the end of the partition is repeated.
const ASKS_AGAIN: u64 = 4;
/// Ticks between two requests for the leadership, or between two candidacies.
const SEEKS: u64 = 20;
/// Ticks without a leader's message after which the first member is a candidate; each other member
/// waits a few more.
const ELECTION_TICKS: usize = 10;
const ELECTION_STEP: usize = 3;
const HEARTBEAT_TICKS: usize = 2;
/// The most bytes of entries in one message, unless one entry has more.
const MESSAGE_BYTES_MAX: u64 = 1 << 20;
/// The most messages with entries on their way to one follower.
const MESSAGES_MAX: usize = 64;

/// The place of a member in the list of names, as Raft wants it: 0 means none.
pub(crate) fn id_of(member: usize) -> u64 {
    member as u64 + 1
}

/// The member with an identity.
pub(crate) fn member_of(id: u64) -> Option<usize> {
    id.checked_sub(1).map(|member| member as usize)
}

/// A command that is not committed yet.
struct Proposal {
    command: Vec<u8>,
    /// When it was last proposed, and the term; `None` if no leader was there to take it.
    sent: Option<(u64, u64)>,
}

/// A question for the end of the partition.
struct Question {
    asked_at: Option<u64>,
    /// The end must be applied here up to this entry.
    known: Option<u64>,
}

/// The outcome of a request.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub enum Outcome {
    /// The record is at this offset, at a majority of the members, durably.
    Written(u64),
    /// The records are removed.
    Removed,
    /// All records that were acknowledged before the question can be read here.
    UpToDate,
}

/// A part of Raft's output that waits for the journal.
struct Held {
    number: u64,
    /// The journal must be durable up to here.
    until: Position,
    messages: Vec<Message>,
}

/// A group. See the [module documentation](self).
pub(crate) struct Group {
    number: u32,
    me: usize,
    run: u64,
    raw: RawNode<Store>,
    applied: u64,
    proposals: BTreeMap<Ticket, Proposal>,
    questions: BTreeMap<Ticket, Question>,
    held: Vec<Held>,
    /// It has begun anew, and the journal does not have that yet: until then it does nothing.
    is_frozen: bool,
    /// The last time that this member tried to become the leader.
    sought_at: Option<u64>,
    /// The term and the leader of the last proposals.
    known: (u64, u64),
}

/// A group's state, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupState {
    /// Its number.
    pub group: u32,
    /// The current term.
    pub term: u64,
    /// The leader, as a place in the list of names.
    pub leader: Option<usize>,
    /// The last entry that this member has, safe or not.
    pub last: u64,
    /// The first offset, and the one after the last that this member knows to be safe.
    pub offsets: (u64, u64),
    /// At the leader: how many entries each member lacks, and whether it answers.
    pub lags: Vec<(u64, bool)>,
}

impl Group {
    pub(crate) fn new(
        number: u32,
        (me, members): (usize, usize),
        run: u64,
        journal: Arc<dyn Log>,
        found: Found,
        cached_bytes_max: usize,
    ) -> Group {
        let voters = (0..members).map(id_of).collect();
        let store = Store::new(journal, number, voters, found, cached_bytes_max);
        // Different members, so that two seldom are candidates at once; other ones in each group.
        let rank = (me + number as usize) % members;
        let ticks = ELECTION_TICKS + rank * ELECTION_STEP;
        let applied = store.hard().commit;
        let config = Config {
            id: id_of(me),
            election_tick: ELECTION_TICKS,
            heartbeat_tick: HEARTBEAT_TICKS,
            min_election_tick: ticks,
            max_election_tick: ticks + 1,
            applied,
            max_size_per_msg: MESSAGE_BYTES_MAX,
            max_inflight_msgs: MESSAGES_MAX,
            check_quorum: true,
            pre_vote: true,
            max_committed_size_per_ready: MESSAGE_BYTES_MAX,
            ..Config::default()
        };
        let silent = slog::Logger::root(slog::Discard, slog::o!());
        let raw = RawNode::new(&config, store, &silent).expect("the configuration is valid");
        Group {
            number,
            me,
            run,
            raw,
            applied,
            proposals: BTreeMap::new(),
            questions: BTreeMap::new(),
            held: Vec::new(),
            is_frozen: false,
            sought_at: None,
            known: (0, 0),
        }
    }

    pub(crate) fn store(&self) -> &Store {
        self.raw.store()
    }

    pub(crate) fn store_mut(&mut self) -> &mut Store {
        self.raw.mut_store()
    }

    fn leads(&self) -> bool {
        self.raw.raft.state == StateRole::Leader
    }

    /// The first offset, and the one after the last record that is applied here.
    pub(crate) fn bounds(&self) -> (u64, u64) {
        let first = self.store().begin().index;
        // Entry 1 has offset 0.
        let end = self.store().last_record(self.applied).unwrap_or(first);
        (first, end)
    }

    pub(crate) fn state(&self) -> GroupState {
        let raft = &self.raw.raft;
        let last = raft.raft_log.last_index();
        let lag = |id: u64| match raft.prs().get(id) {
            Some(progress) => (last.saturating_sub(progress.matched), progress.recent_active),
            None => (last, false),
        };
        let members = raft.prs().iter().count();
        let lags =
            if self.leads() { (0..members).map(|at| lag(id_of(at))).collect() } else { vec![] };
        GroupState {
            group: self.number,
            term: raft.term,
            leader: member_of(raft.leader_id),
            last,
            offsets: self.bounds(),
            lags,
        }
    }

    /// The time passes by a tick.
    pub(crate) fn tick(&mut self, now: u64) {
        if self.is_frozen {
            return;
        }
        self.raw.tick();
        self.propose_all(now);
        self.ask_all(now);
    }

    pub(crate) fn receive(&mut self, message: Message) {
        if self.is_frozen {
            return;
        }
        // A message of a member that does not belong to the group is refused.
        let _ = self.raw.step(message);
    }

    /// Adds a command, to be proposed until it is committed.
    pub(crate) fn propose(&mut self, ticket: Ticket, body: Body<'_>, now: u64) {
        let command = Command { origin: self.me as u64, run: self.run, ticket, body };
        let command = command.write();
        self.proposals.insert(ticket, Proposal { command, sent: None });
        self.propose_all(now);
    }

    /// Adds a question for the end of the partition.
    pub(crate) fn ask(&mut self, ticket: Ticket, now: u64) {
        self.questions.insert(ticket, Question { asked_at: None, known: None });
        if self.raw.raft.term == 0 {
            // The group is new, and need not wait for a leader that is not there.
            self.seek(now);
        }
        self.ask_all(now);
    }

    /// The caller of a request does not wait any more.
    pub(crate) fn forget(&mut self, ticket: Ticket) {
        self.questions.remove(&ticket);
        self.proposals.remove(&ticket);
    }

    fn propose_all(&mut self, now: u64) {
        if self.proposals.is_empty() || self.is_frozen {
            return;
        }
        self.seek(now);
        let (leads, term, leader) = (self.leads(), self.raw.raft.term, self.raw.raft.leader_id);
        if leader == 0 {
            return;
        }
        for proposal in self.proposals.values_mut() {
            let is_due = match proposal.sent {
                None => true,
                Some((_, sent_in)) if sent_in != term => true,
                Some((sent_at, _)) => !leads && now >= sent_at + AGAIN,
            };
            if is_due && self.raw.propose(Vec::new(), proposal.command.clone()).is_ok() {
                proposal.sent = Some((now, term));
            }
        }
    }

    /// Becomes the leader, if that is sensible: this member has something to append.
    fn seek(&mut self, now: u64) {
        if self.leads() || self.sought_at.is_some_and(|at| now < at + SEEKS) {
            return;
        }
        self.sought_at = Some(now);
        match self.raw.raft.leader_id {
            0 => {
                let _ = self.raw.campaign();
            }
            _ => self.raw.transfer_leader(id_of(self.me)),
        }
    }

    fn ask_all(&mut self, now: u64) {
        if self.raw.raft.leader_id == 0 || self.is_frozen {
            return;
        }
        for (ticket, question) in &mut self.questions {
            let is_due = question.asked_at.is_none_or(|at| now >= at + ASKS_AGAIN);
            if question.known.is_none() && is_due {
                question.asked_at = Some(now);
                // The run is in the context, because an answer may be late.
                self.raw.read_index([self.run, *ticket].map(u64::to_le_bytes).concat());
            }
        }
    }

    /// Does what Raft wants done: writes to the journal, applies committed entries. `send` takes
    /// messages that need not wait for the journal, `done` the outcomes of requests. Returns true
    /// if the journal must be synced.
    pub(crate) fn work(
        &mut self,
        journal: &dyn Log,
        now: u64,
        send: &mut Vec<Message>,
        done: &mut Vec<(Ticket, Outcome)>,
    ) -> Result<bool, LogError> {
        loop {
            self.release(journal.durable(), send);
            if self.is_frozen || !self.raw.has_ready() {
                break;
            }
            let mut ready = self.raw.ready();
            send.append(&mut ready.take_messages());
            for read in ready.take_read_states() {
                self.learn_end(&read.request_ctx, read.index);
            }
            if !ready.snapshot().is_empty() {
                let about = ready.snapshot().get_metadata();
                let mark = Mark { index: about.index, term: about.term };
                self.raw.mut_store().begin_anew(mark)?;
                self.applied = mark.index;
                self.is_frozen = true;
            }
            let committed = ready.take_committed_entries();
            let entries = ready.take_entries();
            self.raw.mut_store().append(entries)?;
            for entry in committed {
                self.apply(&entry, done)?;
            }
            if let Some(state) = ready.hs() {
                self.raw.mut_store().save(state)?;
            }
            let must_wait = self.held.last().map_or(0, |held| held.until);
            let until = if ready.must_sync() { journal.end() } else { must_wait };
            let messages = ready.take_persisted_messages();
            self.held.push(Held { number: ready.number(), until, messages });
            self.raw.advance_append_async(ready);
            self.advance();
        }
        self.answer_questions(done);
        let known = (self.raw.raft.term, self.raw.raft.leader_id);
        if known != self.known && known.1 != 0 {
            // A new leader has none of the proposals that the last one had not committed.
            self.known = known;
            self.propose_all(now);
            self.ask_all(now);
            return self.work(journal, now, send, done);
        }
        Ok(!self.held.is_empty())
    }

    /// Releases output for which the journal is durable.
    fn release(&mut self, durable: Position, send: &mut Vec<Message>) {
        let ready = self.held.iter().take_while(|held| held.until <= durable).count();
        for held in self.held.drain(..ready) {
            self.raw.on_persist_ready(held.number);
            send.extend(held.messages);
        }
        self.is_frozen &= !self.held.is_empty();
        self.advance();
    }

    /// Tells Raft what is applied, as far as it is durable here: a snapshot may not be yet.
    fn advance(&mut self) {
        let log = &self.raw.raft.raft_log;
        let applied = self.applied.min(log.persisted);
        if applied > log.applied {
            self.raw.advance_apply_to(applied);
        }
    }

    fn apply(&mut self, entry: &Entry, done: &mut Vec<(Ticket, Outcome)>) -> Result<(), LogError> {
        self.applied = entry.index;
        let Some(command) = Command::read(&entry.data) else { return Ok(()) };
        let is_own = (command.origin, command.run) == (self.me as u64, self.run);
        let outcome = match command.body {
            Body::Record(_) => Outcome::Written(entry.index - 1),
            Body::RemoveBefore(offset) => {
                // The first entry that stays has this offset.
                self.raw.mut_store().drop_up_to(offset.min(entry.index - 1))?;
                Outcome::Removed
            }
        };
        if is_own && self.proposals.remove(&command.ticket).is_some() {
            done.push((command.ticket, outcome));
        }
        Ok(())
    }

    fn learn_end(&mut self, context: &[u8], index: u64) {
        let Some((run, ticket)) = context.split_first_chunk() else { return };
        let Some((ticket, _)) = ticket.split_first_chunk() else { return };
        if u64::from_le_bytes(*run) != self.run {
            return;
        }
        if let Some(question) = self.questions.get_mut(&u64::from_le_bytes(*ticket)) {
            question.known = Some(index);
        }
    }

    fn answer_questions(&mut self, done: &mut Vec<(Ticket, Outcome)>) {
        let applied = self.applied;
        let known = self
            .questions
            .extract_if(.., |_, question| question.known.is_some_and(|index| index <= applied));
        done.extend(known.map(|(ticket, _)| (ticket, Outcome::UpToDate)));
    }

    /// Records from an offset on that are applied here, each with the place of its writer: up to
    /// `bytes_max` bytes. The offset after them is that of the next read.
    pub(crate) fn read(&self, from: u64, bytes_max: u64) -> Result<(Records, u64), LogError> {
        let low = (from + 1).max(self.store().begin().index + 1);
        if low > self.applied {
            return Ok((Vec::new(), from.max(self.applied)));
        }
        let entries = self.store().fetch(low, self.applied + 1, bytes_max)?;
        let next = entries.last().map_or(from, |entry| entry.index);
        let record = |entry: &Entry| match Command::read(&entry.data)? {
            Command { origin, body: Body::Record(record), .. } => {
                Some((entry.index - 1, origin as usize, record.to_vec()))
            }
            Command { body: Body::RemoveBefore(_), .. } => None,
        };
        Ok((entries.iter().filter_map(record).collect(), next))
    }

    /// A message was handed to the network, and may be lost.
    pub(crate) fn sent(&mut self, message: &Message) {
        if message.get_msg_type() == MessageType::MsgSnapshot {
            // It has no contents to wait for. If it was lost, the next entries are refused.
            self.raw.report_snapshot(message.to, SnapshotStatus::Finish);
        }
    }
}

/// A record as the body of a command.
pub(crate) fn record(bytes: &[u8]) -> Body<'_> {
    Body::Record(Bytes::new(bytes))
}
