//! A partition at its brokers: ordered records, the number of safe ones, and the producers.
//!
//! ```text
//!   removed │ 0 │ 1 │ 2 │ 3 │ 4 │ 5 │ 6 │        the leader has all of these
//!        begin ─┘               │       │
//!                  shown ─┘     └─ safe └─ the end
//! ```
//!
//! A record is **safe** if all replicas have it, so every later leader will. Another leader may
//! lack some of the others, and at first **shows** less than the safe records, because it does not
//! know yet what the other replicas have. A retry of a record that is there is acknowledged and not
//! written again: producers number their records.
//!
//! Beside the records is the **history**: the redo log that the safe records make, from the first
//! one on, as any reader would assemble it. The checkers read it.

use isomer_log::{Log, MemoryLog, MemoryOptions};
use isomer_owned::ownership::{Reader, Verdict};
use isomer_owned::record::{Head, Offset};
use isomer_owned::stream::Assembly;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The database of all logs of a world.
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

/// The result of a record's arrival at the leader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Appended {
    /// It was new, and is at this offset.
    At(Offset),
    /// It was there already: at this offset, if it was the last one of its producer.
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
    /// An empty partition for the log of this number. `options` are those of its history.
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

    /// The number of the current leader.
    pub(super) fn leader(&self) -> u64 {
        self.leader
    }

    /// The offset of the next record.
    pub(super) fn end(&self) -> Offset {
        self.records.len() as Offset
    }

    /// The number of safe records.
    pub(super) fn safe(&self) -> Offset {
        self.safe
    }

    /// The offset of the first record that a reader finds, and the one after the last.
    pub(super) fn bounds(&self) -> (Offset, Offset) {
        (self.begin, self.shown.max(self.begin))
    }

    /// Appends a record at the leader, unless it is a retry.
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

    /// Elects another leader, which has the records up to `end`, and shows those up to `shown`.
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

    /// Up to `most` of the shown records from an offset on; an error if these were removed.
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

    /// The redo log of all records that were ever written here.
    pub(super) fn history(&self) -> &Arc<MemoryLog> {
        &self.history.log
    }

    /// Why the history cannot be read, if so.
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
    use isomer_owned::lease::WAITS;

    fn partition() -> Partition {
        Partition::new(1, MemoryOptions::default())
    }

    #[test]
    fn another_leader_keeps_what_is_safe_and_a_record_that_was_lost_can_be_written_again() {
        let mut partition = partition();
        let claim =
            isomer_owned::ownership::Owner::claim(&Reader::new(DATABASE, 1, 0), 7, "a", WAITS);
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
