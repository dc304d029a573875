//! The entries of one group: Raft's storage, over the [`journal`](crate::journal).
//!
//! ```text
//!     begin                    cached from                last
//!       │ slots: where each entry is in the journal        │
//!       ▼                           ▼                      ▼
//!   ░░░░│ 41 │ 42 │ 43 │ 44 │ 45 │ 46 │ 47 │ 48 │ 49 │ 50 │
//!                                   └─ the entries themselves, for followers and for the owner ─┘
//! ```
//!
//! A group's state is its entries, and nothing else. So a snapshot has no contents: it says where
//! the group begins, and a follower that is too far behind begins there as well.

use crate::command::is_record;
use crate::journal::{Found, Frame, Hard, Mark, Slot};
use isomer_log::{Log, LogError, Position};
use raft::eraftpb::{ConfState, Entry, HardState, Snapshot};
use raft::{Error, GetEntriesContext, RaftState, Storage, StorageError};
use serde_bytes::Bytes;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A read skips up to this many bytes of other groups before it seeks.
const SKIPPED_BYTES_MAX: u64 = 256 << 10;

/// See the [module documentation](self).
pub(crate) struct Store {
    journal: Arc<dyn Log>,
    group: u32,
    voters: Vec<u64>,
    begin: Mark,
    slots: VecDeque<Slot>,
    hard: Hard,
    /// The last entries.
    cache: VecDeque<Entry>,
    cached_bytes: usize,
    cached_bytes_max: usize,
}

impl Store {
    pub(crate) fn new(
        journal: Arc<dyn Log>,
        group: u32,
        voters: Vec<u64>,
        found: Found,
        cached_bytes_max: usize,
    ) -> Store {
        let begin = found.begin.expect("a recovered group is whole");
        let mut hard = found.hard;
        hard.commit = hard.commit.clamp(begin.index, begin.index + found.slots.len() as u64);
        Store {
            journal,
            group,
            voters,
            begin,
            slots: found.slots,
            hard,
            cache: VecDeque::new(),
            cached_bytes: 0,
            cached_bytes_max,
        }
    }

    pub(crate) fn begin(&self) -> Mark {
        self.begin
    }

    pub(crate) fn hard(&self) -> Hard {
        self.hard
    }

    pub(crate) fn last(&self) -> u64 {
        self.begin.index + self.slots.len() as u64
    }

    fn slot(&self, index: u64) -> &Slot {
        &self.slots[(index - self.begin.index - 1) as usize]
    }

    /// The last entry up to `index` that contains a record.
    pub(crate) fn last_record(&self, index: u64) -> Option<u64> {
        let known = (index - self.begin.index) as usize;
        let at = self.slots.iter().take(known).rposition(|slot| slot.is_record)?;
        Some(self.begin.index + 1 + at as u64)
    }

    /// The position of its oldest frame in the journal, and the bytes of its entries.
    pub(crate) fn live(&self) -> (Option<Position>, u64) {
        let bytes = self.slots.iter().map(|slot| u64::from(slot.bytes)).sum();
        (self.slots.front().map(|slot| slot.position), bytes)
    }

    /// The newest entry with a record, committed or not.
    pub(crate) fn newest_record(&self) -> Option<Mark> {
        let back = self.slots.iter().rev().position(|slot| slot.is_record)?;
        let at = self.slots.len() - 1 - back;
        Some(Mark { index: self.begin.index + 1 + at as u64, term: self.slots[at].term })
    }

    /// Appends entries, in place of earlier ones from the same index on.
    pub(crate) fn append(&mut self, entries: Vec<Entry>) -> Result<(), LogError> {
        for entry in entries {
            let mark = Mark { index: entry.index, term: entry.term };
            assert!(mark.index > self.begin.index, "committed entries are not replaced");
            assert!(mark.index <= self.last() + 1, "entries follow each other");
            let frame = Frame::Entry { group: self.group, mark, data: Bytes::new(&entry.data) };
            let position = self.journal.end();
            self.journal.append(&frame.write())?;
            self.forget_from(mark.index);
            let bytes = entry.data.len() as u32;
            let is_record = is_record(&entry.data);
            self.slots.push_back(Slot { term: mark.term, position, bytes, is_record });
            self.cached_bytes += entry.data.len();
            self.cache.push_back(entry);
            while self.cached_bytes > self.cached_bytes_max && self.cache.len() > 1 {
                let dropped = self.cache.pop_front().expect("there are several");
                self.cached_bytes -= dropped.data.len();
            }
        }
        Ok(())
    }

    fn forget_from(&mut self, index: u64) {
        self.slots.truncate((index - self.begin.index - 1) as usize);
        while self.cache.back().is_some_and(|entry| entry.index >= index) {
            let dropped = self.cache.pop_back().expect("there is one");
            self.cached_bytes -= dropped.data.len();
        }
    }

    /// Saves Raft's state.
    pub(crate) fn save(&mut self, state: &HardState) -> Result<(), LogError> {
        self.hard = Hard { term: state.term, vote: state.vote, commit: state.commit };
        self.journal.append(&Frame::State(self.group, self.hard).write()).map(drop)
    }

    fn replace_all(&self, entries: u64) -> Result<(), LogError> {
        let (group, begin, hard) = (self.group, self.begin, self.hard);
        let all = Frame::MovedAll { group, begin, hard, entries };
        self.journal.append(&all.write()).map(drop)
    }

    /// Drops all entries, and begins after this one, which the leader has committed.
    pub(crate) fn begin_anew(&mut self, mark: Mark) -> Result<(), LogError> {
        self.begin = mark;
        self.slots.clear();
        self.cache.clear();
        self.cached_bytes = 0;
        self.replace_all(0)
    }

    /// Drops the entries up to `index`.
    pub(crate) fn drop_up_to(&mut self, index: u64) -> Result<(), LogError> {
        if index <= self.begin.index {
            return Ok(());
        }
        let mark = Mark { index, term: self.slot(index).term };
        self.journal.append(&Frame::Begin(self.group, mark).write())?;
        self.slots.drain(..(mark.index - self.begin.index) as usize);
        self.begin = mark;
        while self.cache.front().is_some_and(|entry| entry.index <= mark.index) {
            let dropped = self.cache.pop_front().expect("there is one");
            self.cached_bytes -= dropped.data.len();
        }
        Ok(())
    }

    /// Appends the frames by which recovery knows this group although earlier ones are cut off.
    pub(crate) fn repeat_begin(&self) -> Result<(), LogError> {
        self.journal.append(&Frame::Begin(self.group, self.begin).write())?;
        self.journal.append(&Frame::State(self.group, self.hard).write()).map(drop)
    }

    /// Appends all entries once more, so that none is in the older part of the journal.
    pub(crate) fn move_all(&mut self) -> Result<(), LogError> {
        let mut moved = VecDeque::with_capacity(self.slots.len());
        let mut next = self.begin.index + 1;
        while next <= self.last() {
            for entry in self.fetch(next, self.last() + 1, SKIPPED_BYTES_MAX)? {
                let mark = Mark { index: entry.index, term: entry.term };
                let data = Bytes::new(&entry.data);
                let position = self.journal.end();
                let frame = Frame::Moved { group: self.group, mark, data };
                self.journal.append(&frame.write())?;
                moved.push_back(Slot { position, ..*self.slot(entry.index) });
                next = entry.index + 1;
            }
        }
        self.replace_all(moved.len() as u64)?;
        self.slots = moved;
        Ok(())
    }

    /// Entries from `low` on, before `high`: at least one, and then up to `bytes_max` bytes.
    pub(crate) fn fetch(
        &self,
        low: u64,
        high: u64,
        bytes_max: u64,
    ) -> Result<Vec<Entry>, LogError> {
        let (mut entries, mut bytes) = (Vec::new(), 0);
        let is_enough = |bytes: u64| bytes >= bytes_max;
        if let Some(first) = self.cache.front().filter(|first| first.index <= low) {
            let cached = self.cache.iter().skip((low - first.index) as usize);
            for entry in cached.take((high - low) as usize) {
                bytes += entry.data.len() as u64;
                entries.push(entry.clone());
                if is_enough(bytes) {
                    break;
                }
            }
            return Ok(entries);
        }
        let mut at = low;
        while at < high && !is_enough(bytes) {
            let begun = at;
            self.journal.read(self.slot(at).position, &mut |position, frame| {
                let Slot { position: wanted, term, .. } = *self.slot(at);
                if position < wanted {
                    let is_far = wanted - position > SKIPPED_BYTES_MAX;
                    return if is_far { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
                }
                let Ok(Frame::Entry { data, .. } | Frame::Moved { data, .. }) = Frame::read(frame)
                else {
                    return ControlFlow::Break(());
                };
                bytes += data.len() as u64;
                let mut entry = Entry { term, index: at, ..Entry::default() };
                entry.data = data.to_vec().into();
                entries.push(entry);
                at += 1;
                if at == high || is_enough(bytes) {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })?;
            assert!(at > begun, "the frame of entry {at} is where it was written");
        }
        Ok(entries)
    }
}

impl Storage for Store {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let hard_state = HardState {
            term: self.hard.term,
            vote: self.hard.vote,
            commit: self.hard.commit,
            ..HardState::default()
        };
        Ok(RaftState::new(hard_state, self.members()))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low <= self.begin.index {
            return Err(Error::Store(StorageError::Compacted));
        }
        assert!(high <= self.last() + 1, "entries up to {high}, and the last is {}", self.last());
        let bytes_max = max_size.into().unwrap_or(u64::MAX);
        self.fetch(low, high, bytes_max)
            .map_err(|error| Error::Store(StorageError::Other(Box::new(error))))
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        match index {
            index if index == self.begin.index => Ok(self.begin.term),
            index if index < self.begin.index => Err(Error::Store(StorageError::Compacted)),
            index if index > self.last() => Err(Error::Store(StorageError::Unavailable)),
            index => Ok(self.slot(index).term),
        }
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.begin.index + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last())
    }

    fn snapshot(&self, request_index: u64, _: u64) -> raft::Result<Snapshot> {
        if request_index > self.begin.index {
            return Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable));
        }
        let mut snapshot = Snapshot::default();
        let about = snapshot.mut_metadata();
        (about.index, about.term) = (self.begin.index, self.begin.term);
        about.set_conf_state(self.members());
        Ok(snapshot)
    }
}

impl Store {
    fn members(&self) -> ConfState {
        ConfState { voters: self.voters.clone(), ..ConfState::default() }
    }
}
