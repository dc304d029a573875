//! What a site writes into its redo log, byte by byte.
//!
//! A frame of the log is one step of the site, all or nothing: the records of a transaction over
//! several partitions, or one design change. Little-endian throughout.
//!
//! ```text
//!   frame    time u64 │ kind u8 │ of the kind │ records u16 │ record*
//!
//!   kind  1  commit         (nothing more)
//!         2  refresh        site u16 │ position u64
//!         3  prepare        transaction
//!         4  decide         transaction │ other sites u64
//!         5  end            transaction
//!   transaction             coordinator u16 │ incarnation u64 │ number u64
//!
//!   record   table u32 │ start: key │ previous u64 │ version u64 │ event u8 │ body
//!   key      length u16 │ bytes
//!
//!   event 1  write          rows u32 │ row*          row: key │ length u32 (2³²−1: deleted) │ bytes
//!         2  create         range │ followers u64
//!         3  split          at: key
//!         4  merge          right: key │ right's version u64
//!         5  follow         site u16
//!         6  unfollow       site u16
//!         7  release        to u16 │ followers u64
//!         8  acquire        followers u64
//!         9  install        range │ source u16 │ incarnation u64 │ last u64 │ since u64 │ rows, each
//!                           followed by its time u64
//!        10  drop           (no body)
//!        11  forget         (no body); of the whole table, with all its partitions
//!        12  copy           range │ number u32 │ rows, each followed by its time u64
//!   range    start: key │ bounded u8 │ end: key
//! ```
//!
//! A record belongs to the stream of one partition, named by its first key. `previous` is the version
//! it applies to and `version` the one it leads to; they chain the stream across sites, splits and
//! merges, so that a replica can tell a duplicate from a gap.

use crate::frame::{FrameHead, FrameKind};
use isomer_design::{Key, KeyRange, SiteId, SiteSet, TableId, Time, Version};
use std::cell::Cell;

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
    /// What happens.
    pub event: Event<'a>,
}

/// What can happen to a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event<'a> {
    /// A transaction wrote rows.
    Write(Rows<'a>),
    /// The partition begins, mastered here.
    Create {
        /// Its keys.
        range: KeyRange,
        /// The sites that follow it.
        followers: SiteSet,
    },
    /// It becomes two, which meet at a key.
    Split {
        /// First key of the right part.
        at: Key,
    },
    /// It takes in its right neighbour.
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
    /// The master gives the mastership up.
    Release {
        /// Who is to be master.
        to: SiteId,
        /// Who will follow then.
        followers: SiteSet,
    },
    /// The new master takes the mastership.
    Acquire {
        /// Who follows.
        followers: SiteSet,
    },
    /// A replica begins at this site, as a snapshot of the master's copy.
    Install(Install<'a>),
    /// Rows of a replica whose install follows, if no crash does.
    Copy {
        /// The replica's keys.
        range: KeyRange,
        /// Counts the pieces; 0: a copy begins.
        number: u32,
        /// The rows, with their times.
        rows: Rows<'a>,
    },
    /// The replica at this site ends.
    Drop,
    /// The table ends: of no one partition, so `start` and the versions say nothing.
    Forget,
}

/// The beginning of a replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Install<'a> {
    /// Its keys.
    pub range: KeyRange,
    /// The master's site.
    pub source: SiteId,
    /// The master's run that the snapshot came from.
    pub incarnation: u64,
    /// Time of the last event in the snapshot.
    pub last: Time,
    /// From when on the copy holds history.
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
    /// The row's own time, where the record holds rows of many times.
    pub time: Option<Time>,
}

/// A frame whose bytes are not those of a frame of this format.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the redo record at byte {at} of its frame is damaged: {what}")]
pub struct BadFrame {
    /// Offset in the frame.
    pub at: usize,
    /// What was expected there.
    pub what: &'static str,
}

/// Larger buffers are not kept for the next frame.
const SPARE_BYTES_MAX: usize = 64 << 10;

thread_local! {
    /// The bytes of this thread's last frame, for its next: a frame is built for every commit.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Drop for FrameWriter {
    fn drop(&mut self) {
        if self.bytes.capacity() <= SPARE_BYTES_MAX {
            SPARE.set(std::mem::take(&mut self.bytes));
        }
    }
}

const DELETED: u32 = u32::MAX;
const TIME_BYTES: usize = 8;

/// Builds a frame.
pub(crate) struct FrameWriter {
    bytes: Vec<u8>,
    /// Where the number of records is, and what it is so far.
    records_at: usize,
    records: u16,
    /// Where the row count of the open record is.
    rows_at: usize,
    rows: u32,
}

impl FrameWriter {
    /// An empty frame.
    pub(crate) fn new(kind: FrameKind) -> FrameWriter {
        let mut bytes = SPARE.take();
        bytes.clear();
        bytes.extend_from_slice(&[0; TIME_BYTES]);
        kind.write(&mut bytes);
        let records_at = bytes.len();
        bytes.extend_from_slice(&0u16.to_le_bytes());
        FrameWriter { bytes, records_at, records: 0, rows_at: 0, rows: 0 }
    }

    /// Adds a record that holds no rows, or whose rows are copied whole.
    pub(crate) fn record(&mut self, record: &Record<'_>) {
        self.head(record.table, &record.start, record.previous, record.version, &record.event);
        match &record.event {
            Event::Write(rows) => self.copy_rows(rows),
            Event::Create { range, followers } => {
                self.range(range);
                self.u64(followers.bits());
            }
            Event::Split { at } => self.key(at),
            Event::Merge { right, right_version } => {
                self.key(right);
                self.u64(*right_version);
            }
            Event::Follow(site) | Event::Unfollow(site) => self.u16(site.0),
            Event::Release { to, followers } => {
                self.u16(to.0);
                self.u64(followers.bits());
            }
            Event::Acquire { followers } => self.u64(followers.bits()),
            Event::Install(install) => {
                self.range(&install.range);
                self.u16(install.source.0);
                self.u64(install.incarnation);
                self.u64(install.last.0);
                self.u64(install.since.0);
                self.copy_rows(&install.rows);
            }
            Event::Copy { range, number, rows } => {
                self.range(range);
                self.bytes.extend_from_slice(&number.to_le_bytes());
                self.copy_rows(rows);
            }
            Event::Drop | Event::Forget => {}
        }
    }

    /// Opens a `write` record; rows follow.
    pub(crate) fn open_write(&mut self, table: TableId, start: &[u8], previous: Version) {
        let none = Rows { count: 0, timed: false, bytes: &[] };
        self.head(table, start, previous, previous + 1, &Event::Write(none));
        self.open_rows();
    }

    /// Adds a row to the record that was opened.
    pub(crate) fn row(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.rows += 1;
        self.key(key);
        self.bytes.extend_from_slice(&value.map_or(DELETED, |v| v.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(value.unwrap_or_default());
    }

    /// Closes the record that was opened.
    pub(crate) fn close_write(&mut self) {
        let at = self.rows_at;
        self.bytes[at..at + 4].copy_from_slice(&self.rows.to_le_bytes());
    }

    /// The frame with its time filled in; can be asked again with another time.
    pub(crate) fn finish(&mut self, time: Time) -> &[u8] {
        self.bytes[..TIME_BYTES].copy_from_slice(&time.0.to_le_bytes());
        let at = self.records_at;
        self.bytes[at..at + 2].copy_from_slice(&self.records.to_le_bytes());
        &self.bytes
    }

    /// Rows on their own, for a checkpoint.
    pub(crate) fn bare_rows(rows: &Rows<'_>) -> Vec<u8> {
        let mut bytes = rows.count.to_le_bytes().to_vec();
        bytes.extend_from_slice(rows.bytes);
        bytes
    }

    fn open_rows(&mut self) {
        self.rows_at = self.bytes.len();
        self.rows = 0;
        self.bytes.extend_from_slice(&0u32.to_le_bytes());
    }

    fn copy_rows(&mut self, rows: &Rows<'_>) {
        self.bytes.extend_from_slice(&rows.count.to_le_bytes());
        self.bytes.extend_from_slice(rows.bytes);
    }

    fn head(
        &mut self,
        table: TableId,
        start: &[u8],
        from: Version,
        to: Version,
        event: &Event<'_>,
    ) {
        self.records += 1;
        self.bytes.extend_from_slice(&table.0.to_le_bytes());
        self.key(start);
        self.u64(from);
        self.u64(to);
        self.bytes.push(event.code());
    }

    fn range(&mut self, range: &KeyRange) {
        self.key(&range.start);
        self.bytes.push(u8::from(range.end.is_some()));
        self.key(range.end.as_ref().unwrap_or(&Key::min()));
    }

    fn key(&mut self, key: &[u8]) {
        self.u16(u16::try_from(key.len()).expect("keys are at most KEY_BYTES_MAX bytes"));
        self.bytes.extend_from_slice(key);
    }

    fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }
}

impl Event<'_> {
    fn code(&self) -> u8 {
        match self {
            Event::Write(_) => 1,
            Event::Create { .. } => 2,
            Event::Split { .. } => 3,
            Event::Merge { .. } => 4,
            Event::Follow(_) => 5,
            Event::Unfollow(_) => 6,
            Event::Release { .. } => 7,
            Event::Acquire { .. } => 8,
            Event::Install(_) => 9,
            Event::Drop => 10,
            Event::Forget => 11,
            Event::Copy { .. } => 12,
        }
    }
}

/// Collects rows with their times, as a snapshot of a partition.
#[derive(Clone, Default, Debug)]
pub struct RowsBuffer {
    count: u32,
    bytes: Vec<u8>,
}

impl RowsBuffer {
    /// Adds a row.
    pub fn push(&mut self, key: &[u8], value: &[u8], time: Time) {
        self.count += 1;
        self.bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(&time.0.to_le_bytes());
    }

    /// The rows, for a record.
    pub fn rows(&self) -> Rows<'_> {
        Rows { count: self.count, timed: true, bytes: &self.bytes }
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// True if there is no row.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many bytes they take on their way.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

// --------------------------------------------------------------------------------------- reading

/// Reads a frame: its head, and its records that are in effect. Those of a prepare are not.
///
/// # Errors
/// [`BadFrame`] if the bytes are no frame.
pub fn read_frame(frame: &[u8]) -> Result<(FrameHead, Vec<Record<'_>>), BadFrame> {
    let (head, mut records) = read_any_frame(frame)?;
    if let FrameKind::Prepare(_) = head.kind {
        records.clear();
    }
    Ok((head, records))
}

/// As [`read_frame`], with records that may never take effect.
///
/// # Errors
/// As [`read_frame`].
pub fn read_any_frame(frame: &[u8]) -> Result<(FrameHead, Vec<Record<'_>>), BadFrame> {
    let mut reader = Reader::new(frame);
    let head = FrameHead { time: Time(reader.u64()?), kind: FrameKind::read(&mut reader)? };
    let count = reader.u16()?;
    let records = (0..count).map(|_| reader.record()).collect::<Result<_, _>>()?;
    if reader.at != frame.len() {
        return Err(reader.bad("the end of the frame"));
    }
    Ok((head, records))
}

/// Reads what [`FrameWriter::bare_rows`] wrote.
pub(crate) fn read_bare_rows(bytes: &[u8]) -> Result<Rows<'_>, BadFrame> {
    Reader::new(bytes).rows(true)
}

pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    pub(crate) fn bad(&self, what: &'static str) -> BadFrame {
        BadFrame { at: self.at, what }
    }

    fn take(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], BadFrame> {
        let end = self.at.checked_add(count).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or(self.bad(what))?;
        let bytes = &self.bytes[self.at..end];
        self.at = end;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], BadFrame> {
        Ok(self.take(N, "a number")?.try_into().expect("took as many"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, BadFrame> {
        Ok(self.array::<1>()?[0])
    }

    fn u16(&mut self) -> Result<u16, BadFrame> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, BadFrame> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, BadFrame> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn key_bytes(&mut self) -> Result<&'a [u8], BadFrame> {
        let count = self.u16()?;
        self.take(usize::from(count), "the bytes of a key")
    }

    fn key(&mut self) -> Result<Key, BadFrame> {
        Ok(Key::from_bytes(self.key_bytes()?))
    }

    fn range(&mut self) -> Result<KeyRange, BadFrame> {
        let start = self.key()?;
        let bounded = self.u8()? != 0;
        let end = self.key()?;
        Ok(KeyRange::new(start, bounded.then_some(end)))
    }

    pub(crate) fn site(&mut self) -> Result<SiteId, BadFrame> {
        let site = SiteId(self.u16()?);
        if SiteSet::can_hold(site) { Ok(site) } else { Err(self.bad("the number of a site")) }
    }

    pub(crate) fn sites(&mut self) -> Result<SiteSet, BadFrame> {
        Ok(SiteSet::from_bits(self.u64()?))
    }

    fn rows(&mut self, timed: bool) -> Result<Rows<'a>, BadFrame> {
        let count = self.u32()?;
        let from = self.at;
        for _ in 0..count {
            self.row(timed)?;
        }
        Ok(Rows { count, timed, bytes: &self.bytes[from..self.at] })
    }

    fn row(&mut self, timed: bool) -> Result<RowChange<'a>, BadFrame> {
        let key = self.key_bytes()?;
        let value = match self.u32()? {
            DELETED => None,
            length => Some(self.take(length as usize, "the bytes of a row")?),
        };
        let time = if timed { Some(Time(self.u64()?)) } else { None };
        Ok(RowChange { key, value, time })
    }

    fn record(&mut self) -> Result<Record<'a>, BadFrame> {
        let table = TableId(self.u32()?);
        let start = self.key()?;
        let previous = self.u64()?;
        let version = self.u64()?;
        let event = match self.u8()? {
            1 => Event::Write(self.rows(false)?),
            2 => Event::Create { range: self.range()?, followers: self.sites()? },
            3 => Event::Split { at: self.key()? },
            4 => Event::Merge { right: self.key()?, right_version: self.u64()? },
            5 => Event::Follow(self.site()?),
            6 => Event::Unfollow(self.site()?),
            7 => Event::Release { to: self.site()?, followers: self.sites()? },
            8 => Event::Acquire { followers: self.sites()? },
            9 => Event::Install(Install {
                range: self.range()?,
                source: self.site()?,
                incarnation: self.u64()?,
                last: Time(self.u64()?),
                since: Time(self.u64()?),
                rows: self.rows(true)?,
            }),
            10 => Event::Drop,
            11 => Event::Forget,
            12 => Event::Copy { range: self.range()?, number: self.u32()?, rows: self.rows(true)? },
            _ => return Err(self.bad("the code of an event, 1 to 12")),
        };
        Ok(Record { table, start, previous, version, event })
    }
}

impl<'a> Rows<'a> {
    /// The rows, in the order in which they were written.
    pub fn iter(&self) -> impl Iterator<Item = RowChange<'a>> + use<'a> {
        let timed = self.timed;
        let mut reader = Reader::new(self.bytes);
        (0..self.count).map(move |_| reader.row(timed).expect("rows were checked when read"))
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// True if there is no row.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::TxnId;

    fn samples() -> Vec<Event<'static>> {
        let sites = SiteSet::from_bits(0b110);
        let none = Rows { count: 0, timed: true, bytes: &[] };
        vec![
            Event::Create { range: KeyRange::all(), followers: sites },
            Event::Split { at: Key::int(5) },
            Event::Merge { right: Key::int(10), right_version: 7 },
            Event::Follow(SiteId(2)),
            Event::Unfollow(SiteId(3)),
            Event::Release { to: SiteId(2), followers: sites },
            Event::Acquire { followers: sites },
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
        let mut writer = FrameWriter::new(kind);
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
    fn every_kind_of_frame_comes_back_and_only_a_prepare_hides_its_records() {
        let txn = TxnId { coordinator: SiteId(2), incarnation: 77, number: 8 };
        let others = SiteSet::from_bits(0b1010);
        let decide = FrameKind::Decide { txn, others };
        for kind in [FrameKind::Commit, FrameKind::Prepare(txn), decide, FrameKind::End(txn)] {
            let mut writer = FrameWriter::new(kind);
            writer.open_write(TableId(2), &Key::int(0), 41);
            writer.row(&Key::int(1), Some(b"one"));
            writer.close_write();
            let frame = writer.finish(Time(99)).to_vec();
            let (head, records) = read_frame(&frame).unwrap();
            assert_eq!(head, FrameHead { time: Time(99), kind });
            assert_eq!(records.is_empty(), kind == FrameKind::Prepare(txn));
            assert_eq!(read_any_frame(&frame).unwrap().1.len(), 1);
            for cut in 0..frame.len() {
                assert!(read_any_frame(&frame[..cut]).is_err(), "cut at {cut}");
            }
        }
    }
}
