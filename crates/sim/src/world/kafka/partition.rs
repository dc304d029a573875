//! A partition as its brokers have it: records in one order, how many of them are safe, and who has written what.
//!
//! ```text
//!   removed │ 0 │ 1 │ 2 │ 3 │ 4 │ 5 │ 6 │        the leader has all of these
//!        begin ─┘               │       │
//!                  shown ─┘     └─ safe └─ the end
//! ```
//!
//! What is **safe** all replicas have, and every later leader will. Another leader may have less of the rest, and at first
//! **shows** less than is safe, as it does not know yet what the others have. Whoever has written a record that is there
//! already is told so, and not written again: producers number their records.
//!
//! Beside them is the **history**: the redo log that the safe records make, from the first one on, as any reader would put
//! it together. It is what checkers look at.

use isomer_kafka::ownership::{Reader, Verdict};
use isomer_kafka::record::{Head, Offset};
use isomer_kafka::stream::Assembly;
use isomer_log::{Log, MemoryLog, MemoryOptions};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// All logs of a world are one database's.
pub(super) const DATABASE: u128 = 1;

/// Records with their offsets.
pub(super) type Records = Vec<(Offset, Arc<[u8]>)>;

/// See the [module documentation](self).
pub(super) struct Partition {
    records: Vec<Record>,
    /// The last record of each producer that the leader has.
    producers: BTreeMap<u64, (u64, Offset)>,
    safe: Offset,
    shown: Offset,
    begin: Offset,
    /// Counts the leaders.
    leader: u64,
    /// False while no broker answers.
    is_available: bool,
    history: History,
}

#[derive(Clone)]
struct Record {
    bytes: Arc<[u8]>,
    producer: u64,
    sequence: u64,
}

/// What a record is to the leader that arrives there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Appended {
    /// It is a new one.
    At(Offset),
    /// It was there already: here, if it was the last one of its producer.
    Again(Option<Offset>),
}

/// The redo log that the safe records make.
struct History {
    reader: Reader,
    assembly: Assembly,
    log: Arc<MemoryLog>,
    broken: Option<String>,
}

impl Partition {
    /// An empty one, for the log of this number. Its history is kept as `options` say.
    pub(super) fn new(number: u32, options: MemoryOptions) -> Partition {
        let history = History {
            reader: Reader::new(DATABASE, number, 0),
            assembly: Assembly::default(),
            log: Arc::new(MemoryLog::new(options)),
            broken: None,
        };
        Partition {
            records: Vec::new(),
            producers: BTreeMap::new(),
            safe: 0,
            shown: 0,
            begin: 0,
            leader: 0,
            is_available: true,
            history,
        }
    }

    pub(super) fn is_available(&self) -> bool {
        self.is_available
    }

    pub(super) fn set_available(&mut self, is_available: bool) {
        self.is_available = is_available;
    }

    /// Which leader it has.
    pub(super) fn leader(&self) -> u64 {
        self.leader
    }

    /// The offset of the next record.
    pub(super) fn end(&self) -> Offset {
        self.records.len() as Offset
    }

    /// So many records are safe.
    pub(super) fn safe(&self) -> Offset {
        self.safe
    }

    /// The first record that a reader finds, and the one after the last.
    pub(super) fn bounds(&self) -> (Offset, Offset) {
        (self.begin, self.shown.max(self.begin))
    }

    /// A record arrives at the leader.
    pub(super) fn append(&mut self, producer: u64, sequence: u64, record: &[u8]) -> Appended {
        if let Some((last, offset)) = self.producers.get(&producer)
            && sequence <= *last
        {
            return Appended::Again((sequence == *last).then_some(*offset));
        }
        let offset = self.end();
        self.producers.insert(producer, (sequence, offset));
        self.records.push(Record { bytes: record.into(), producer, sequence });
        Appended::At(offset)
    }

    /// All replicas have the records up to an offset.
    pub(super) fn replicate(&mut self, up_to: Offset) {
        let up_to = up_to.min(self.end());
        for offset in self.safe..up_to {
            self.history.take(offset, &self.records[offset as usize].bytes);
        }
        self.safe = self.safe.max(up_to);
        self.shown = self.safe;
    }

    /// Another broker leads, which has the records up to `end`, and shows those up to `shown`.
    pub(super) fn elect(&mut self, end: Offset, shown: Offset) {
        assert!(end >= self.safe && shown <= self.safe, "a leader has what is safe");
        self.records.truncate(end as usize);
        self.shown = shown;
        self.leader += 1;
        self.producers.clear();
        for (offset, record) in (0..).zip(&self.records) {
            self.producers.insert(record.producer, (record.sequence, offset));
        }
    }

    /// The records from an offset on, as many of those that are shown; an error if they were removed.
    pub(super) fn read(&self, from: Offset, most: usize) -> Result<Records, String> {
        if from < self.begin {
            return Err(format!("cannot be read at offset {from}: it begins at {}", self.begin));
        }
        let shown = (0..self.shown).zip(&self.records).skip(from as usize).take(most);
        Ok(shown.map(|(offset, record)| (offset, record.bytes.clone())).collect())
    }

    /// Removes the records before an offset.
    pub(super) fn remove_before(&mut self, offset: Offset) {
        self.begin = self.begin.max(offset.min(self.safe));
    }

    /// The redo log that was ever written here.
    pub(super) fn history(&self) -> &Arc<MemoryLog> {
        &self.history.log
    }

    /// Why it cannot be read, if so.
    pub(super) fn broken(&self) -> Option<&String> {
        self.history.broken.as_ref()
    }
}

impl History {
    fn take(&mut self, offset: Offset, record: &[u8]) {
        if self.broken.is_some() {
            return;
        }
        let (head, body) = Head::read(record).expect("all records are ours");
        match self.reader.pass(offset, &head, body) {
            Ok(Verdict::Begins) => self.assembly.begin(),
            Ok(Verdict::Counts(from)) => {
                let log = &self.log;
                let position = head.position + u64::from(from);
                let _ = self.assembly.push(position, &body[from as usize..], &mut |at, frame| {
                    assert_eq!(at, log.end(), "frames follow each other");
                    log.append(frame).expect("memory takes everything");
                    ControlFlow::Continue(())
                });
                log.sync().expect("memory does not fail");
            }
            Ok(Verdict::Released | Verdict::Void(_)) => {}
            Err(broken) => self.broken = Some(broken.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition() -> Partition {
        Partition::new(1, MemoryOptions::default())
    }

    #[test]
    fn another_leader_keeps_what_is_safe_and_a_record_that_was_lost_can_be_written_again() {
        let mut partition = partition();
        let claim = isomer_kafka::ownership::Owner::claim(&Reader::new(DATABASE, 1, 0), 7, "a");
        assert_eq!(partition.append(1, 1, &claim.write(b"a")), Appended::At(0));
        partition.replicate(1);
        assert_eq!(partition.append(1, 2, b"lost"), Appended::At(1));
        assert_eq!(partition.append(1, 2, b"lost"), Appended::Again(Some(1)));
        assert_eq!(partition.append(1, 1, b"late"), Appended::Again(None));
        partition.elect(1, 0);
        assert_eq!((partition.end(), partition.bounds()), (1, (0, 0)));
        assert_eq!(partition.append(1, 2, b"again"), Appended::At(1));
        assert_eq!(partition.append(1, 1, b"late"), Appended::Again(None));
        assert_eq!(partition.read(0, 9).map(|records| records.len()), Ok(0));
    }
}
