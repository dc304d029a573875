//! The format of the redo log.
//!
//! A frame of the log is one atomic step of the site: the records of a transaction over several
//! partitions, or one design change. All numbers are little-endian.
//!
//! ```text
//!   frame    time u64 │ kind u8 │ fields of the kind │ records u16 (2¹⁶−1: u32 follows) │ record*
//!
//!   kind  1  commit         (no fields)
//!         2  refresh        site u16 │ position u64
//!         3  prepare        transaction
//!         4  decide         transaction │ participants: sites
//!         5  end            transaction
//!         6  hears          site u16 │ how u8 (0 open, 1 fenced, 2 replaced)
//!         7  batch          length u32 │ outcomes of batches (postcard)
//!   transaction             coordinator u16 │ incarnation u64 │ number u64
//!
//!   record   table u32 │ start: key │ previous u64 │ version u64 │ event u8 │ body
//!   key      length u16 │ bytes
//!   sites    count u16 │ site u16*
//!
//!   event 1  write          rows u32 │ row*          row: key │ length u32 (2³²−1: deleted) │ bytes
//!         2  create         range │ followers: sites
//!         3  split          at: key
//!         4  merge          right: key │ right's version u64
//!         5  follow         site u16
//!         6  unfollow       site u16
//!         7  release        to u16 │ followers: sites
//!         8  acquire        followers: sites
//!         9  install        range │ source u16 │ incarnation u64 │ last u64 │ since u64 │ rows, each
//!                           followed by its time u64
//!        10  drop           (no body)
//!        11  forget         (no body); of the whole table, with all its partitions
//!        12  copy           range │ number u32 │ rows, each followed by its time u64
//!        13  promote        to u16 │ followers: sites
//!        14  backups        count u8 │ on disk u8; of the whole table
//!   range    start: key │ bounded u8 │ end: key
//! ```
//!
//! A record belongs to the stream of one partition, named by its first key. `previous` is the
//! version to which it applies and `version` the one to which it leads. They chain the stream
//! across sites, splits and merges, so that a replica can distinguish a duplicate from a gap.

mod read;
mod write;

pub(crate) use read::{Reader, read_bare_rows};
pub use read::{read_any_frame, read_frame};
pub use write::RowsBuffer;
pub(crate) use write::{FrameWriter, put_range, put_sites};

use isomer_design::{Backups, Key, KeyRange, SiteId, SiteSet, TableId, Time, Version};

/// The number of records that stands for a greater one, in four more bytes.
const MANY: u16 = u16::MAX;

/// The length of a deleted row.
const DELETED: u32 = u32::MAX;

/// One event in the stream of one partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// The table.
    pub table: TableId,
    /// First key of the partition.
    pub start: Key,
    /// The version the event applies to.
    pub previous: Version,
    /// The version it leads to.
    pub version: Version,
    /// The event.
    pub event: Event<'a>,
}

/// Events of a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event<'a> {
    /// A transaction wrote rows.
    Write(Rows<'a>),
    /// The partition is created, mastered here.
    Create {
        /// Its keys.
        range: KeyRange,
        /// Its followers.
        followers: SiteSet,
    },
    /// It is split in two parts, which meet at a key.
    Split {
        /// First key of the right part.
        at: Key,
    },
    /// It is merged with its right neighbour.
    Merge {
        /// First key of the right neighbour.
        right: Key,
        /// The neighbour's version.
        right_version: Version,
    },
    /// A site begins to follow it.
    Follow(SiteId),
    /// A site no longer follows it.
    Unfollow(SiteId),
    /// The master releases the mastership.
    Release {
        /// The next master.
        to: SiteId,
        /// The next master's followers.
        followers: SiteSet,
    },
    /// The new master takes the mastership.
    Acquire {
        /// Its followers.
        followers: SiteSet,
    },
    /// A replica takes the mastership from a site whose log has failed. A new term of versions
    /// begins.
    Promote {
        /// The site of the replica.
        to: SiteId,
        /// Its followers.
        followers: SiteSet,
    },
    /// A replica begins at this site, as a snapshot of the master's copy.
    Install(Install<'a>),
    /// Rows of a replica. They count once the install follows.
    Copy {
        /// The replica's keys.
        range: KeyRange,
        /// Counts the pieces; 0 begins a copy.
        number: u32,
        /// The rows, with their times.
        rows: Rows<'a>,
    },
    /// The partition ends at this site.
    Drop,
    /// The table ends here. Concerns no single partition, so `start` and the versions mean nothing.
    Forget,
    /// The number of backups that commits wait for from now on. Of the whole table, as
    /// [`Event::Forget`].
    Backups(Backups),
}

/// The beginning of a replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Install<'a> {
    /// Its keys.
    pub range: KeyRange,
    /// The master's site.
    pub source: SiteId,
    /// The master's incarnation that took the snapshot.
    pub incarnation: u64,
    /// Time of the last event in the snapshot.
    pub last: Time,
    /// The earliest time at which the copy can be read.
    pub since: Time,
    /// The rows, with their times.
    pub rows: Rows<'a>,
}

/// Rows in their encoded form; each is decoded when it is visited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rows<'a> {
    count: u32,
    timed: bool,
    bytes: &'a [u8],
}

/// One row of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowChange<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The new value; `None`: deleted.
    pub value: Option<&'a [u8]>,
    /// The row's own time, in records with rows of several times.
    pub time: Option<Time>,
}

/// A frame that does not have this format.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the redo record at byte {at} of its frame is damaged: {what}")]
pub struct BadFrame {
    /// Offset in the frame.
    pub at: usize,
    /// The expected contents.
    pub what: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{FrameHead, FrameKind, Hearing, TxnId};

    fn samples() -> Vec<Event<'static>> {
        let sites = SiteSet::from_iter([2, 3, 900].map(SiteId));
        let none = Rows { count: 0, timed: true, bytes: &[] };
        vec![
            Event::Create { range: KeyRange::all(), followers: sites.clone() },
            Event::Split { at: Key::int(5) },
            Event::Merge { right: Key::int(10), right_version: 7 },
            Event::Follow(SiteId(2)),
            Event::Unfollow(SiteId(3)),
            Event::Release { to: SiteId(2), followers: sites.clone() },
            Event::Acquire { followers: sites.clone() },
            Event::Promote { to: SiteId(2), followers: sites },
            Event::Install(Install {
                range: KeyRange::ints(5, 9),
                source: SiteId(1),
                incarnation: 3,
                last: Time(9),
                since: Time(8),
                rows: none,
            }),
            Event::Drop,
            Event::Forget,
            Event::Copy { range: KeyRange::ints(5, 9), number: 3, rows: none },
        ]
    }

    #[test]
    fn frames_come_back_and_any_cut_is_an_error() {
        let kind = FrameKind::Refresh { from: SiteId(3), position: 4711 };
        let mut writer = FrameWriter::new(kind.clone());
        for event in samples() {
            let start = Key::int(5);
            writer.record(&Record { table: TableId(1), start, previous: 1, version: 2, event });
        }
        writer.open_write(TableId(2), &Key::int(0), 41);
        writer.row(&Key::int(1), Some(b"one"));
        writer.row(&Key::int(2), None);
        writer.close_write();
        let frame = writer.finish(Time(99)).to_vec();

        let (head, records) = read_frame(&frame).unwrap();
        assert_eq!(head, FrameHead { time: Time(99), kind });
        let events: Vec<_> = records.iter().map(|record| record.event.clone()).collect();
        let (last, others) = events.split_last().unwrap();
        assert_eq!(others, samples());
        let Event::Write(rows) = last else { panic!("a write was written") };
        let values: Vec<_> = rows.iter().map(|row| row.value).collect();
        assert_eq!(values, [Some(&b"one"[..]), None]);
        for cut in 0..frame.len() {
            assert!(read_frame(&frame[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn a_transaction_may_write_more_partitions_than_two_bytes_can_count() {
        for count in [65_534, 65_535, 65_536, 70_000] {
            let mut writer = FrameWriter::new(FrameKind::Commit);
            for key in 0..count {
                writer.open_write(TableId(1), &Key::int(key), 1);
                writer.row(&Key::int(key), Some(b"it"));
                writer.close_write();
            }
            // A frame is finished anew when its time changes.
            writer.finish(Time(8));
            let frame = writer.finish(Time(9)).to_vec();
            let (head, records) = read_frame(&frame).unwrap();
            assert_eq!((head.time, records.len()), (Time(9), count as usize));
            assert_eq!(records.last().map(|record| &record.start), Some(&Key::int(count - 1)));
        }
    }

    #[test]
    fn every_kind_of_frame_comes_back_and_only_a_prepare_hides_its_records() {
        let txn = TxnId { coordinator: SiteId(2), incarnation: 77, number: 8 };
        let others = (2..=1024).map(SiteId).collect::<SiteSet>();
        let decide = FrameKind::Decide { txn, others };
        let hears = FrameKind::Hears(SiteId(1024), Hearing::Replaced);
        for kind in [FrameKind::Commit, FrameKind::Prepare(txn), decide, FrameKind::End(txn), hears]
        {
            let mut writer = FrameWriter::new(kind.clone());
            writer.open_write(TableId(2), &Key::int(0), 41);
            writer.row(&Key::int(1), Some(b"one"));
            writer.close_write();
            let frame = writer.finish(Time(99)).to_vec();
            let (head, records) = read_frame(&frame).unwrap();
            assert_eq!(head, FrameHead { time: Time(99), kind: kind.clone() });
            assert_eq!(records.is_empty(), kind == FrameKind::Prepare(txn));
            assert_eq!(read_any_frame(&frame).unwrap().1.len(), 1);
            for cut in 0..frame.len() {
                assert!(read_any_frame(&frame[..cut]).is_err(), "cut at {cut}");
            }
        }
    }
}
