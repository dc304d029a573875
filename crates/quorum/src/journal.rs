//! The journal of a process: one [`Log`] with everything that its copies of all logs must remember.
//!
//! ```text
//!   own │ roster │ entry 0/1 │ state 0 │ entry 1/1 │ entry 1/2 │ state 1 │ begin 0/1 │ entry 0/2 …
//!                    group 0, index 1                            group 0 begins after index 1
//! ```
//!
//! All groups share the journal, so one sync makes the entries of all groups durable. A frame is
//! the [postcard](https://postcard.jamesmunns.com/wire-format) encoding of a [`Frame`]. The journal
//! keeps the order in which a group has written: a later entry with the same or a lower index
//! replaces the entries from that index on, as Raft demands.
//!
//! # Cutting
//!
//! A group that is rarely written would keep the whole journal. So the [member](crate::Member)
//! writes the entries of such groups anew at the end: *moved* entries, and a frame that puts them
//! in the place of all earlier ones. A crash between the two leaves the earlier ones valid. Then
//! the journal is cut.
//!
//! **Recovery from a cut journal.** The frames that a group has had before the cut are gone, and
//! its first entry may be any. A group is *whole* once a frame says where it begins, and all
//! entries from there on were read:
//!
//! ```text
//!   cut ▼
//!   ░░░░│ entry 0/7 │ entry 1/40 │ begin 1/39 │ moved 0/5 │ moved 0/6 │ moved 0/7 │ moved all 0 │
//!         no begin                 1 is whole                                       0 is whole
//! ```

use isomer_log::{Log, LogError, Position};
use serde::{Deserialize, Serialize};
use serde_bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;

/// The index and the term of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct Mark {
    /// The entry's index in its group; the first one has 1.
    pub index: u64,
    /// The term of the leader that has made the entry.
    pub term: u64,
}

/// The state of a group that Raft must remember, beside the entries.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct Hard {
    /// The latest term that this member has seen.
    pub term: u64,
    /// Its vote in that term; 0: none.
    pub vote: u64,
    /// The last committed entry that it knows.
    pub commit: u64,
}

/// A frame of the journal. Frames are stored: variants are added at the end only.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub enum Frame<'f> {
    /// The number of this folder, drawn once: [`crate::roster`].
    Own(u128),
    /// The numbers of all members' folders, in the order of their names.
    Roster(Vec<(String, u128)>),
    /// The state of a group.
    State(u32, Hard),
    /// An entry of a group.
    Entry {
        /// The group.
        group: u32,
        /// Its place.
        mark: Mark,
        /// Its data.
        #[serde(borrow)]
        data: &'f Bytes,
    },
    /// A group begins after this entry: the earlier ones, and this one, are not needed any more.
    Begin(u32, Mark),
    /// A repetition of an entry, which counts once `MovedAll` is there.
    Moved {
        /// The group.
        group: u32,
        /// Its place.
        mark: Mark,
        /// Its data.
        #[serde(borrow)]
        data: &'f Bytes,
    },
    /// The last moved entries, this many, are all entries of the group, which begins after the
    /// mark. None are moved if the leader has told the group to begin there.
    MovedAll {
        /// The group.
        group: u32,
        /// The entry after which it begins.
        begin: Mark,
        /// Its state.
        hard: Hard,
        /// The number of its entries.
        entries: u64,
    },
}

impl Frame<'_> {
    /// The bytes of a frame.
    pub fn write(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("frames have no rules of their own")
    }

    /// Parses a frame.
    ///
    /// # Errors
    /// A message.
    pub fn read(bytes: &[u8]) -> Result<Frame<'_>, String> {
        postcard::from_bytes(bytes).map_err(|error| format!("it is no frame of a journal: {error}"))
    }
}

/// An entry in the journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    pub(crate) term: u64,
    /// The position of its frame.
    pub(crate) position: Position,
    /// The length of its data.
    pub(crate) bytes: u32,
    /// It contains a record, and no other command.
    pub(crate) is_record: bool,
}

/// A group as the journal has it.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Where it begins, if that is known.
    pub(crate) begin: Option<Mark>,
    /// The index before that of the first slot.
    before: u64,
    pub(crate) slots: VecDeque<Slot>,
    pub(crate) hard: Hard,
    moved: Vec<Slot>,
}

impl Default for Found {
    /// A group without entries.
    fn default() -> Found {
        Found {
            begin: Some(Mark::default()),
            before: 0,
            slots: VecDeque::new(),
            hard: Hard::default(),
            moved: Vec::new(),
        }
    }
}

impl Found {
    fn last(&self) -> u64 {
        self.before + self.slots.len() as u64
    }

    fn entry(&mut self, index: u64, slot: Slot) {
        if index <= self.before || index > self.last() + 1 {
            // Entries before it were cut off. If it is the first of all, none are missing.
            self.slots.clear();
            self.before = index - 1;
            self.begin = (index == 1).then(Mark::default);
        }
        self.slots.truncate((index - 1 - self.before) as usize);
        self.slots.push_back(slot);
    }

    fn begins(&mut self, mark: Mark) {
        if mark.index < self.before {
            // Some entries after it are cut off, so a later frame says where the group begins.
            return;
        }
        let dropped = (mark.index - self.before).min(self.slots.len() as u64);
        self.slots.drain(..dropped as usize);
        self.before = mark.index;
        self.begin = Some(mark);
    }

    fn moved_all(&mut self, begin: Mark, hard: Hard, entries: u64) {
        // Before them are those of an attempt that a crash has interrupted. If some are cut off, a
        // later frame says where the group begins.
        let there = (self.moved.len() as u64).min(entries);
        let interrupted = self.moved.len() - there as usize;
        self.slots = self.moved.drain(..).skip(interrupted).collect();
        self.before = begin.index + (entries - there);
        self.begin = (there == entries).then_some(begin);
        self.hard = hard;
    }
}

/// The contents of a journal.
#[derive(Default, Debug)]
pub(crate) struct Recovered {
    pub(crate) own: Option<u128>,
    pub(crate) roster: Option<Vec<(String, u128)>>,
    pub(crate) groups: BTreeMap<u32, Found>,
}

/// Reads a journal. `is_record` tells from an entry's data whether it contains a record.
///
/// # Errors
/// A message, also if a group is not whole.
pub(crate) fn recover(
    journal: &dyn Log,
    is_record: &dyn Fn(&[u8]) -> bool,
) -> Result<Recovered, String> {
    let (mut found, mut wrong) = (Recovered::default(), None);
    let read = journal.read(journal.begin(), &mut |position, bytes| match Frame::read(bytes) {
        Ok(frame) => {
            take(&mut found, position, frame, is_record);
            ControlFlow::Continue(())
        }
        Err(error) => {
            wrong = Some(format!("position {position:#x}: {error}"));
            ControlFlow::Break(())
        }
    });
    read.map_err(|error: LogError| error.to_string())?;
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    match found.groups.iter().find(|(_, group)| group.begin.is_none()) {
        Some((number, _)) => Err(format!("the entries of log {number} are not complete")),
        None => Ok(found),
    }
}

fn of(found: &mut Recovered, group: u32) -> &mut Found {
    found.groups.entry(group).or_default()
}

fn take(
    found: &mut Recovered,
    position: Position,
    frame: Frame<'_>,
    is_record: &dyn Fn(&[u8]) -> bool,
) {
    let slot = |term: u64, data: &[u8]| Slot {
        term,
        position,
        bytes: data.len() as u32,
        is_record: is_record(data),
    };
    match frame {
        Frame::Own(number) => found.own = Some(number),
        Frame::Roster(roster) => found.roster = Some(roster),
        Frame::State(group, hard) => of(found, group).hard = hard,
        Frame::Entry { group, mark, data } => {
            of(found, group).entry(mark.index, slot(mark.term, data));
        }
        Frame::Begin(group, mark) => of(found, group).begins(mark),
        Frame::Moved { group, mark, data } => {
            of(found, group).moved.push(slot(mark.term, data));
        }
        Frame::MovedAll { group, begin, hard, entries } => {
            of(found, group).moved_all(begin, hard, entries);
        }
    }
}
