//! Writing frames: one buffer, to which records are appended. The number of records and the time of
//! the frame are filled in at the end.

use super::read::check_rows;
use super::{DELETED, Event, MANY, Record, Rows};
use crate::frame::{DECIDE, FrameKind};
use isomer_design::{Key, KeyRange, SiteSet, TableId, Time, Version};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cell::Cell;
use std::sync::Arc;

const TIME_BYTES: usize = 8;

/// Larger buffers are not reused for the next frame.
const SPARE_BYTES_MAX: usize = 64 << 10;

thread_local! {
    /// The buffer of this thread's last frame, for the next one: a frame is built for every commit.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Drop for FrameWriter {
    fn drop(&mut self) {
        if self.bytes.capacity() <= SPARE_BYTES_MAX {
            SPARE.set(std::mem::take(&mut self.bytes));
        }
    }
}

/// Builds a frame.
pub(crate) struct FrameWriter {
    bytes: Vec<u8>,
    /// Offset of the number of records, and that number so far.
    records_at: usize,
    records: u32,
    /// Whether that number has four more bytes.
    is_wide: bool,
    /// Offset of the open record's number of rows.
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
        FrameWriter { bytes, records_at, records: 0, is_wide: false, rows_at: 0, rows: 0 }
    }

    /// Adds a record without rows, or with rows that are copied whole.
    pub(crate) fn record(&mut self, record: &Record<'_>) {
        self.head(record.table, &record.start, record.previous, record.version, &record.event);
        match &record.event {
            Event::Write(rows) => self.copy_rows(rows),
            Event::Create { range, followers } => {
                self.range(range);
                put_sites(&mut self.bytes, followers);
            }
            Event::Split { at } => self.key(at),
            Event::Merge { right, right_version } => {
                self.key(right);
                self.u64(*right_version);
            }
            Event::Follow(site) | Event::Unfollow(site) => self.u16(site.0),
            Event::Release { to, followers } => {
                self.u16(to.0);
                put_sites(&mut self.bytes, followers);
            }
            Event::Acquire { followers } => put_sites(&mut self.bytes, followers),
            Event::Promote { to, followers } => {
                self.u16(to.0);
                put_sites(&mut self.bytes, followers);
            }
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
            Event::Backups(backups) => {
                self.bytes.extend([backups.count, u8::from(backups.on_disk)]);
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

    /// Adds a row to the open record.
    pub(crate) fn row(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.rows += 1;
        self.key(key);
        self.bytes.extend_from_slice(&value.map_or(DELETED, |v| v.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(value.unwrap_or_default());
    }

    /// Closes the open record.
    pub(crate) fn close_write(&mut self) {
        let at = self.rows_at;
        self.bytes[at..at + 4].copy_from_slice(&self.rows.to_le_bytes());
    }

    /// The frame with its time filled in. May be called again with another time.
    pub(crate) fn finish(&mut self, time: Time) -> &[u8] {
        self.bytes[..TIME_BYTES].copy_from_slice(&time.0.to_le_bytes());
        let (at, few) = (self.records_at, self.records as u16);
        if self.records < u32::from(MANY) {
            self.bytes[at..at + 2].copy_from_slice(&few.to_le_bytes());
            return &self.bytes;
        }
        self.bytes[at..at + 2].copy_from_slice(&MANY.to_le_bytes());
        if !self.is_wide {
            self.bytes.splice(at + 2..at + 2, self.records.to_le_bytes());
            self.is_wide = true;
        }
        &self.bytes
    }

    /// True if the frame is a coordinator's decision.
    pub(crate) fn is_decision(&self) -> bool {
        self.bytes[TIME_BYTES] == DECIDE
    }

    /// Rows without a record, for a checkpoint.
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
        put_range(&mut self.bytes, range);
    }

    fn key(&mut self, key: &[u8]) {
        put_key(&mut self.bytes, key);
    }

    fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }
}

fn put_key(bytes: &mut Vec<u8>, key: &[u8]) {
    let length = u16::try_from(key.len()).expect("keys are at most KEY_BYTES_MAX bytes");
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(key);
}

pub(crate) fn put_range(bytes: &mut Vec<u8>, range: &KeyRange) {
    put_key(bytes, &range.start);
    bytes.push(u8::from(range.end.is_some()));
    put_key(bytes, range.end.as_ref().unwrap_or(&Key::min()));
}

pub(crate) fn put_sites(bytes: &mut Vec<u8>, sites: &SiteSet) {
    bytes.extend_from_slice(&(sites.len() as u16).to_le_bytes());
    sites.iter().for_each(|site| bytes.extend_from_slice(&site.0.to_le_bytes()));
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
            Event::Backups(_) => 14,
            Event::Copy { .. } => 12,
            Event::Promote { .. } => 13,
        }
    }
}

/// Collects rows with their times, as a snapshot of a partition. Clones share the rows, because a
/// step is kept for repetition, and must not double their memory.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Debug)]
pub struct RowsBuffer {
    count: u32,
    #[serde(serialize_with = "as_bytes")]
    bytes: Arc<Vec<u8>>,
}

fn as_bytes<S: Serializer>(bytes: &Arc<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

/// Rows from another process are checked once, like those of a frame.
impl<'de> Deserialize<'de> for RowsBuffer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RowsBuffer, D::Error> {
        let (count, bytes) = <(u32, serde_bytes::ByteBuf)>::deserialize(deserializer)?;
        let rows = RowsBuffer { count, bytes: Arc::new(bytes.into_vec()) };
        check_rows(&rows.rows()).map_err(D::Error::custom)?;
        Ok(rows)
    }
}

impl RowsBuffer {
    /// An empty buffer with room for about this many bytes.
    pub fn with_capacity(bytes: usize) -> RowsBuffer {
        RowsBuffer { count: 0, bytes: Arc::new(Vec::with_capacity(bytes)) }
    }

    /// Adds a row.
    pub fn push(&mut self, key: &[u8], value: &[u8], time: Time) {
        self.count += 1;
        let bytes = Arc::make_mut(&mut self.bytes);
        bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        bytes.extend_from_slice(value);
        bytes.extend_from_slice(&time.0.to_le_bytes());
    }

    /// The rows, for a record.
    pub fn rows(&self) -> Rows<'_> {
        Rows { count: self.count, timed: true, bytes: &self.bytes }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// True if there is no row.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The number of bytes in which they are sent.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
}
