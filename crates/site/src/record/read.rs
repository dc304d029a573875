//! Reading frames. Every length is checked before it is used; rows are checked once, and borrowed.

use super::{BadFrame, DELETED, Event, Install, MANY, Record, RowChange, Rows};
use crate::frame::{FrameHead, FrameKind};
use isomer_design::{Backups, Key, KeyRange, SiteId, SiteSet, TableId, Time};

/// Reads a frame: its head, and its records that are in effect. Those of a prepare are left out.
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

/// As [`read_frame`], with the records of a prepare, which may never take effect.
///
/// # Errors
/// As [`read_frame`].
pub fn read_any_frame(frame: &[u8]) -> Result<(FrameHead, Vec<Record<'_>>), BadFrame> {
    let mut reader = Reader::new(frame);
    let head = FrameHead { time: Time(reader.u64()?), kind: FrameKind::read(&mut reader)? };
    let count = match reader.u16()? {
        MANY => reader.u32()?,
        few => u32::from(few),
    };
    let records = (0..count).map(|_| reader.record()).collect::<Result<_, _>>()?;
    if reader.at != frame.len() {
        return Err(reader.bad("the end of the frame"));
    }
    Ok((head, records))
}

/// Reads rows that [`FrameWriter::bare_rows`] wrote.
pub(crate) fn read_bare_rows(bytes: &[u8]) -> Result<Rows<'_>, BadFrame> {
    Reader::new(bytes).rows(true)
}

/// Checks rows of an untrusted sender: their number, and that none of them is deleted.
pub(super) fn check_rows(rows: &Rows<'_>) -> Result<(), BadFrame> {
    let mut reader = Reader::new(rows.bytes);
    for _ in 0..rows.count {
        if reader.row(rows.timed)?.value.is_none() {
            return Err(reader.bad("a row that is there"));
        }
    }
    if reader.at == rows.bytes.len() { Ok(()) } else { Err(reader.bad("the end of the rows")) }
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

    pub(crate) fn u32(&mut self) -> Result<u32, BadFrame> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, BadFrame> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Bytes after their length.
    pub(crate) fn bytes_with_length(&mut self) -> Result<&'a [u8], BadFrame> {
        let length = self.u32()? as usize;
        self.take(length, "as many bytes as their length says")
    }

    fn key_bytes(&mut self) -> Result<&'a [u8], BadFrame> {
        let count = self.u16()?;
        self.take(usize::from(count), "the bytes of a key")
    }

    fn key(&mut self) -> Result<Key, BadFrame> {
        Ok(Key::from_bytes(self.key_bytes()?))
    }

    pub(crate) fn range(&mut self) -> Result<KeyRange, BadFrame> {
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
        let count = self.u16()?;
        (0..count).map(|_| self.site()).collect()
    }

    pub(crate) fn backups(&mut self) -> Result<Backups, BadFrame> {
        let [count, on_disk] = self.array()?;
        Ok(Backups { count, on_disk: on_disk != 0 })
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
            13 => Event::Promote { to: self.site()?, followers: self.sites()? },
            14 => Event::Backups(self.backups()?),
            _ => return Err(self.bad("the code of an event, 1 to 14")),
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

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// True if there is no row.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}
