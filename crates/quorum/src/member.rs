//! One process's copies of all logs: a state machine. Its inputs are messages, requests and ticks;
//! its outputs are messages and outcomes. The caller sends, syncs the journal, and waits.
//!
//! ```text
//!   receive, append, ask, tick ──▶ ┌────────┐ ── envelopes ──▶ the other members
//!                                  │ Member │ ── outcomes ─▶ the callers of requests
//!   journal is durable ──────────▶ └────────┘ ── frames ───▶ journal (a `Log`)
//!                      step: all of the above
//! ```
//!
//! # The caller's loop
//!
//! 1. Pass inputs.
//! 2. [`Member::step`], and send what it returns. A leader sends entries before its own journal is
//!    synced, so the disks of all members work at once.
//! 3. If it says so, sync the journal, and go to 2: a vote, or the word that an entry was received,
//!    leaves only when the journal has it.
//!
//! Time is a number of ticks, and chance is an argument, so the simulation of `tests` drives the
//! same code.

use crate::command::{Body, Records, Ticket};
use crate::group::{Group, GroupState, Outcome, record};
use crate::journal::{Found, Frame, Mark, recover};
use crate::roster::{Membership, Said, Standing};
use isomer_log::{Log, LogError, Position};
use isomer_owned::ORDER;
use protobuf::Message as _;
use raft::eraftpb::Message;
use serde::{Deserialize, Serialize};
use serde_bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Ticks between two introductions of a member that does not take part yet.
const INTRODUCES: u64 = 5;

/// The options of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberOptions {
    /// The bytes of the last entries that each log keeps in memory.
    pub cached_bytes_max: usize,
    /// The journal is cut when it has this many bytes more than twice those that are needed.
    pub slack_bytes: u64,
}

impl Default for MemberOptions {
    /// 4 MiB of each log in memory, and 64 MiB of the journal that may be waste.
    fn default() -> MemberOptions {
        MemberOptions { cached_bytes_max: 4 << 20, slack_bytes: 64 << 20 }
    }
}

/// A message to another member.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
enum Envelope<'l> {
    /// An introduction; an answer is wanted, or not.
    Meet {
        number: u128,
        names: Vec<String>,
        roster: Option<Vec<u128>>,
        listener: Option<u128>,
        asks: bool,
    },
    /// A message of a group.
    Group {
        roster: u128,
        group: u32,
        #[serde(borrow)]
        message: &'l Bytes,
    },
}

/// The output of a step.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Output {
    /// Messages, each to the member at this place of the list.
    pub envelopes: Vec<(usize, Vec<u8>)>,
    /// Outcomes of requests.
    pub done: Vec<(Ticket, Outcome)>,
    /// The journal must be synced, and the next step follows.
    pub wants_sync: bool,
}

/// See the [module documentation](self).
pub struct Member {
    own: usize,
    run: u64,
    journal: Arc<dyn Log>,
    options: MemberOptions,
    membership: Membership,
    groups: BTreeMap<u32, Group>,
    /// The time, in ticks.
    now: u64,
    last_ticket: Ticket,
    envelopes: Vec<(usize, Vec<u8>)>,
    /// The roster that the journal does not have yet.
    new_roster: Option<Vec<(String, u128)>>,
    /// No message leaves before the journal is durable up to here: it has this folder's number and
    /// the roster.
    introduced: Position,
    /// The journal is cut here, once it is durable up to the second position.
    cut: Option<(Position, Position)>,
}

impl Member {
    /// Opens the copies in a journal. `names` are those of all members, this process's included, in
    /// the same order everywhere. `run` is another number in each run of the process, and `drawn` a
    /// random number, for the case that the journal is new.
    ///
    /// # Errors
    /// A message, if the journal cannot be used.
    pub fn open(
        names: Vec<String>,
        own: usize,
        (run, drawn): (u64, u128),
        journal: Arc<dyn Log>,
        options: MemberOptions,
    ) -> Result<Member, String> {
        let found = recover(&*journal, &crate::command::is_record)?;
        let number = match found.own {
            Some(number) => number,
            None => {
                let frame = Frame::Own(drawn);
                journal.append(&frame.write()).map_err(|error| error.to_string())?;
                drawn
            }
        };
        let (members, introduced) = (names.len(), journal.end());
        let membership = Membership::new(names, own, number, found.roster)?;
        let group = |(number, found): (u32, Found)| {
            let place = (own, members);
            let cached = options.cached_bytes_max;
            (number, Group::new(number, place, run, journal.clone(), found, cached))
        };
        let groups = found.groups.into_iter().map(group).collect();
        Ok(Member {
            own,
            run,
            journal,
            options,
            membership,
            groups,
            now: 0,
            last_ticket: 0,
            envelopes: Vec::new(),
            new_roster: None,
            introduced,
            cut: None,
        })
    }

    /// Whether this member takes part.
    pub fn standing(&self) -> Standing {
        self.membership.standing()
    }

    /// The state of all groups that this member knows.
    pub fn states(&self) -> Vec<GroupState> {
        self.groups.values().map(Group::state).collect()
    }

    /// The newest record of each group, committed or not, if it has one.
    pub(crate) fn newest_records(&self) -> impl Iterator<Item = (u32, Option<Mark>)> + '_ {
        self.groups.iter().map(|(number, group)| (*number, group.store().newest_record()))
    }

    /// A tick has passed.
    pub fn tick(&mut self) {
        self.now += 1;
        if self.membership.roster().is_none() && self.now % INTRODUCES == 1 {
            self.introduce_to_all(true);
        }
        if self.membership.roster().is_some() {
            self.groups.values_mut().for_each(|group| group.tick(self.now));
        }
    }

    fn introduce_to_all(&mut self, ask: bool) {
        let (members, own) = (self.membership.names().len(), self.own);
        (0..members).filter(|to| *to != own).for_each(|to| self.introduce(to, ask));
    }

    fn introduce(&mut self, to: usize, asks: bool) {
        let Said { number, names, roster, listener } = self.membership.says(to);
        let envelope = Envelope::Meet { number, names, roster, listener, asks };
        self.envelopes.push((to, write(&envelope)));
    }

    /// Takes a message of the member at this place of the list. Returns false if it cannot be
    /// parsed.
    pub fn receive(&mut self, from: usize, envelope: &[u8]) -> bool {
        let Ok(envelope) = postcard::from_bytes::<Envelope<'_>>(envelope) else { return false };
        match envelope {
            Envelope::Meet { number, names, roster, listener, asks } => {
                let new = self.membership.hears(from, Said { number, names, roster, listener });
                self.new_roster = new.or(self.new_roster.take());
                if asks {
                    self.introduce(from, false);
                }
            }
            Envelope::Group { roster, group, message } => {
                if self.membership.roster() != Some(roster) {
                    self.introduce(from, true);
                    return true;
                }
                let Ok(message) = Message::parse_from_bytes(message) else { return false };
                // A request that was forwarded has the name of the member that asks.
                if !(1..=self.membership.names().len() as u64).contains(&message.from) {
                    return false;
                }
                self.group(group).receive(message);
            }
        }
        true
    }

    /// The group of this number, which is created if it is new.
    fn group(&mut self, number: u32) -> &mut Group {
        let place = (self.own, self.membership.names().len());
        let (run, journal, cached) = (self.run, &self.journal, self.options.cached_bytes_max);
        self.groups.entry(number).or_insert_with(|| {
            Group::new(number, place, run, journal.clone(), Found::default(), cached)
        })
    }

    fn ticket(&mut self) -> Ticket {
        self.last_ticket += 1;
        self.last_ticket
    }

    /// Appends a record to a group's partition. The outcome is [`Outcome::Written`].
    pub fn append(&mut self, group: u32, bytes: &[u8]) -> Ticket {
        let (ticket, now) = (self.ticket(), self.now);
        self.group(group).propose(ticket, record(bytes), now);
        ticket
    }

    /// Removes the records before an offset. The outcome is [`Outcome::Removed`].
    pub fn remove_before(&mut self, group: u32, offset: u64) -> Ticket {
        let (ticket, now) = (self.ticket(), self.now);
        self.group(group).propose(ticket, Body::RemoveBefore(offset), now);
        ticket
    }

    /// Waits until all records that were acknowledged before can be read here. The outcome is
    /// [`Outcome::UpToDate`].
    pub fn ask(&mut self, group: u32) -> Ticket {
        let (ticket, now) = (self.ticket(), self.now);
        self.group(group).ask(ticket, now);
        ticket
    }

    /// The caller of a request does not wait any more. An append may still take effect.
    pub fn forget(&mut self, group: u32, ticket: Ticket) {
        self.group(group).forget(ticket);
    }

    /// True if there is a group of this number here.
    pub fn has(&self, group: u32) -> bool {
        self.groups.contains_key(&group)
    }

    /// The number of groups for the catalog and for sites: one more than the highest number.
    pub fn partitions(&self) -> u32 {
        self.groups.range(..ORDER).next_back().map_or(0, |(number, _)| number + 1)
    }

    /// The first offset of a group, and the one after the last record that can be read here.
    pub fn bounds(&mut self, group: u32) -> (u64, u64) {
        self.group(group).bounds()
    }

    /// Records of a group from an offset on, up to `bytes_max` bytes, and the offset from which the
    /// next read continues: the same one at the end.
    ///
    /// # Errors
    /// [`LogError`], if the journal cannot be read.
    pub fn read(
        &mut self,
        group: u32,
        from: u64,
        bytes_max: u64,
    ) -> Result<(Records, u64), LogError> {
        self.group(group).read(from, bytes_max)
    }

    /// Carries out all that follows from the inputs, and from what is durable in the journal.
    ///
    /// # Errors
    /// [`LogError`], if the journal fails. Then the member must be dropped: only its journal knows
    /// what it has promised.
    pub fn step(&mut self) -> Result<Output, LogError> {
        if let Some(roster) = self.new_roster.take() {
            self.introduced = self.journal.append(&Frame::Roster(roster).write())?;
            // The others need not ask for it.
            self.introduce_to_all(false);
        }
        if self.journal.durable() < self.introduced {
            return Ok(Output { wants_sync: true, ..Output::default() });
        }
        let mut output =
            Output { envelopes: std::mem::take(&mut self.envelopes), ..Output::default() };
        let Some(roster) = self.membership.roster() else { return Ok(output) };
        let mut messages = Vec::new();
        for (number, group) in &mut self.groups {
            output.wants_sync |=
                group.work(&*self.journal, self.now, &mut messages, &mut output.done)?;
            for message in messages.drain(..) {
                group.sent(&message);
                let to = (message.to - 1) as usize;
                let bytes = message.write_to_bytes().expect("a message can be written");
                let message = Bytes::new(&bytes);
                let envelope = Envelope::Group { roster, group: *number, message };
                output.envelopes.push((to, write(&envelope)));
            }
        }
        output.wants_sync |= self.clean()?;
        Ok(output)
    }

    /// Cuts the journal, if much of it is waste. Returns true if it must be synced for that.
    fn clean(&mut self) -> Result<bool, LogError> {
        let (begin, end) = (self.journal.begin(), self.journal.end());
        if let Some((at, until)) = self.cut {
            if self.journal.durable() < until {
                return Ok(true);
            }
            self.cut = None;
            // Files that cannot be removed now are removed by the next cut.
            let _ = self.journal.truncate_before(at);
            return Ok(false);
        }
        // The sums are long only if there is a reason to look.
        if end - begin <= self.options.slack_bytes {
            return Ok(false);
        }
        let live: u64 = self.groups.values().map(|group| group.store().live().1).sum();
        if end - begin <= 2 * live + self.options.slack_bytes {
            return Ok(false);
        }
        let middle = begin + (end - begin) / 2;
        for group in self.groups.values_mut() {
            match group.store().live().0 {
                Some(oldest) if oldest < middle => group.store_mut().move_all()?,
                _ => group.store_mut().repeat_begin()?,
            }
        }
        self.journal.append(&Frame::Own(self.membership.number()).write())?;
        let roster = self.membership.stored().expect("only a member has groups");
        self.journal.append(&Frame::Roster(roster).write())?;
        let oldest = self.groups.values().filter_map(|group| group.store().live().0).min();
        self.cut = Some((oldest.unwrap_or(end).min(end), self.journal.end()));
        Ok(true)
    }
}

fn write(envelope: &Envelope<'_>) -> Vec<u8> {
    postcard::to_allocvec(envelope).expect("envelopes have no rules of their own")
}
