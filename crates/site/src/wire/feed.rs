//! The encoding of feeds: each frame once, followed by its records that the receiver follows.
//!
//! ```text
//!   frames   0: of s1, up to 300 │ bytes      1: of s1, up to 400 │ bytes
//!   items    frame 0, record 0 │ frame 0, record 2 │ joined t1[5..9) │ frame 1, record 0
//! ```
//!
//! The items of a log's tail ([`crate::tail`]) are among the items, and share the frames.
//!
//! An item of a merge may belong to its left or its right partition ([`crate::link`]), so it names
//! the partition. All other fields of a [`FeedItem`] are read from the frame.

use crate::frame::TxnId;
use crate::message::{Epoch, Feed, FeedItem, TailItem};
use crate::record::{Event, Record, read_any_frame, read_frame};
use crate::tail::Settled;
use isomer_design::{Key, KeyRange, SiteId, TableId, Time, Version};
use isomer_log::Position;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::Arc;

#[derive(Serialize, Deserialize)]
struct Sent<'a> {
    from: u64,
    epoch: Epoch,
    since: Position,
    number: u64,
    closed: Time,
    #[serde(borrow)]
    frames: Vec<SentFrame<'a>>,
    items: Vec<SentItem>,
}

#[derive(Serialize, Deserialize)]
struct SentFrame<'a> {
    from: SiteId,
    position: Position,
    #[serde(with = "serde_bytes", borrow)]
    bytes: &'a [u8],
}

#[derive(Serialize, Deserialize)]
enum SentItem {
    Record { frame: usize, at: usize, start: Key, previous: Version },
    Joined { table: TableId, range: KeyRange },
    TailBegins { received: Position, settled: Position, before: Settled },
    TailFrame { frame: usize },
    TailSettled(Position),
    TailFinished(TxnId),
    TailEnds,
}

/// The frames of a feed, each once, provided that items of one frame are adjacent.
#[derive(Default)]
struct Frames<'a>(Vec<SentFrame<'a>>);

impl<'a> Frames<'a> {
    /// The index of a frame.
    fn number(&mut self, from: SiteId, position: Position, bytes: &'a [u8]) -> usize {
        if !self.0.last().is_some_and(|last| std::ptr::eq(last.bytes, bytes)) {
            self.0.push(SentFrame { from, position, bytes });
        }
        self.0.len() - 1
    }
}

impl SentItem {
    fn of<'a>(item: &'a FeedItem, frames: &mut Frames<'a>) -> SentItem {
        match item {
            FeedItem::Joined { table, range } => {
                SentItem::Joined { table: *table, range: range.clone() }
            }
            FeedItem::Record { from, start, previous, frame, at, position, .. } => {
                let frame = frames.number(*from, *position, frame);
                SentItem::Record { frame, at: *at, start: start.clone(), previous: *previous }
            }
            FeedItem::Tail(TailItem::Begins { received, settled, before }) => {
                let (received, settled, before) = (*received, *settled, before.clone());
                SentItem::TailBegins { received, settled, before }
            }
            FeedItem::Tail(TailItem::Frame { from, position, frame }) => {
                SentItem::TailFrame { frame: frames.number(*from, *position, frame) }
            }
            FeedItem::Tail(TailItem::Settled(up_to)) => SentItem::TailSettled(*up_to),
            FeedItem::Tail(TailItem::Finished(txn)) => SentItem::TailFinished(*txn),
            FeedItem::Tail(TailItem::Ends) => SentItem::TailEnds,
        }
    }
}

impl Serialize for Feed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut frames = Frames::default();
        let items = self.items.iter().map(|item| SentItem::of(item, &mut frames)).collect();
        let frames = frames.0;
        let Feed { from, epoch, since, number, closed, .. } = *self;
        Sent { from, epoch, since, number, closed, frames, items }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Feed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Feed, D::Error> {
        let sent = Sent::deserialize(deserializer)?;
        let read = |frame: &SentFrame<'de>| {
            // A prepare is checked as well; it has no records for followers.
            read_any_frame(frame.bytes).map_err(D::Error::custom)?;
            let (_, records) = read_frame(frame.bytes).map_err(D::Error::custom)?;
            Ok((Arc::from(frame.bytes), records))
        };
        let frames = sent.frames.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let item = |item| match item {
            SentItem::Joined { table, range } => Ok(FeedItem::Joined { table, range }),
            SentItem::TailBegins { received, settled, before } => {
                Ok(FeedItem::Tail(TailItem::Begins { received, settled, before }))
            }
            SentItem::TailFrame { frame } => {
                let no_frame = || D::Error::custom("no such frame");
                let (bytes, _) = frames.get(frame).ok_or_else(no_frame)?;
                let SentFrame { from, position, .. } = sent.frames[frame];
                let frame = Arc::clone(bytes);
                Ok(FeedItem::Tail(TailItem::Frame { from, position, frame }))
            }
            SentItem::TailSettled(up_to) => Ok(FeedItem::Tail(TailItem::Settled(up_to))),
            SentItem::TailFinished(txn) => Ok(FeedItem::Tail(TailItem::Finished(txn))),
            SentItem::TailEnds => Ok(FeedItem::Tail(TailItem::Ends)),
            SentItem::Record { frame, at, start, previous } => {
                let (bytes, records) =
                    frames.get(frame).ok_or(D::Error::custom("no such frame"))?;
                let record = records.get(at).ok_or(D::Error::custom("no such record"))?;
                if !is_event_of(record, &start, previous) {
                    return Err(D::Error::custom("a record of another partition"));
                }
                let SentFrame { from, position, .. } = sent.frames[frame];
                let (table, version, frame) = (record.table, record.version, Arc::clone(bytes));
                Ok(FeedItem::Record { from, table, start, previous, version, frame, at, position })
            }
        };
        let items = sent.items.into_iter().map(item).collect::<Result<_, _>>()?;
        let Sent { from, epoch, since, number, closed, .. } = sent;
        Ok(Feed { from, epoch, since, number, items, closed })
    }
}

/// True if the record is an event of the partition that begins at `start`, at this version.
fn is_event_of(record: &Record<'_>, start: &Key, previous: Version) -> bool {
    let is_right = match &record.event {
        Event::Merge { right, right_version } => right == start && *right_version == previous,
        _ => false,
    };
    is_right || (record.start == *start && record.previous == previous)
}
