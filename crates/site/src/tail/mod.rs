//! The tail of a log: the suffix that backups keep, so that other sites can take over from its
//! site.
//!
//! A backup applies the events of the partitions that it follows. That is enough for a site that
//! can still read the master's log. If the master is down, its successors also need the rest of
//! that log: the other halves of its transactions, its prepared votes and its decisions. Each
//! follower of a partition with backups therefore receives *every* frame that concerns such
//! partitions, in the order of the log, and keeps it until no site can need it:
//! ```text
//!   log of s1          F1: q 4→5    F2: p 7→8, q 5→6    P: prepared, q    D: decided, with s3
//!   s2 follows p       kept         applied and kept    kept              kept
//!   s3 follows q       applied, …   (has not come yet)
//!
//!
//!   s1 fails. s2 has the longest tail: F1, F2, P and D are history, and nothing after D is.
//!   s3 takes q 5→6 from the tail; the coordinator of P gives its outcome; s3 learns of D.
//! ```
//!
//! **The cut is a position of the log.** All followers receive the same log, so of two tails one is
//! a prefix of the other, and the longest holds every frame that any follower has received. It
//! holds every acknowledged commit: at most k sites are lost, so a site that acknowledged it
//! remains. No client has been told of the commits after the cut.
//!
//! **A frame is stable** (`settled` in the code) once enough backups have acknowledged its writes
//! and all followers have its changes of the design. Stable frames are dropped. For a write, any k
//! followers will do, because one of them can become master. A change of the design must reach
//! every follower: only the site named in a release can acquire the partition, and replicas that
//! were split differently cannot be compared. A prepare stays until its transaction ends, and a
//! decision until all participants have acknowledged it.
//!
//! **Votes and decisions wait for the tail.** A participant votes *prepared*, and a coordinator
//! announces its decision, once the tail is at as many sites as a table has backups
//! ([`Site::tailed`]). Commits of one site need not wait: the same stream carries their events.
//!
//! **A copy** of rows does not come with the tail. It counts as a backup once its site also has the
//! tail up to the position at which the copy ends. Otherwise a successor could find commits in the
//! copy that lie after the cut.
//!
//! **Fence.** A site can be unreachable for the router and still reach other sites. Before a
//! takeover, every site is therefore told to fence it: messages, requests and prepared votes of a
//! fenced site are void. Its later commits reach no backup, so no client learns of them; when it
//! rejoins, it discards them. Each site logs the fences that it sets, so a restart does not lift
//! them.
//!
//! **A restart loses the tails of other sites**, because they are kept in memory. A lost tail may
//! have held the only copy of a vote. Until the tail has been sent again, the restarted site
//! reports the loss ([`Fenced::has_lost_tail`]), and a takeover from the tail's site is refused.
//! A site knows by its replicas whose tails it kept. So a master that ends the following of its
//! last partition at a site, by a release, by dropping a copy or with the table, first makes sure
//! that enough others have the tail ([`replace_tail_of`]).
//!
//! **Old tails.** A master tells a site whose tail it has replaced to drop it, but the message may
//! be lost. A tail at a site that follows the master no longer ([`Fenced::follows`]) is therefore
//! no history by itself: the master may have decided since.
//!
//! **A log that outlives its process** (in a broker, or at the nodes) is its own history, and the
//! longest one: the site that plans the takeover takes it over and reads it ([`TailCopy::of_log`]),
//! and no tail is needed.
//!
//! **Left out.** After a restart, a site's tail begins once its backups have acknowledged all
//! earlier events. If the site fails before that, its partitions wait for it. The same holds after
//! a tail has exceeded [`TAIL_BYTES_MAX`]. A transaction that writes tables with and without
//! backups may be half lost if its client was not told of the commit: the writes to tables without
//! backups return with the site.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `batch` | the batch of the total order that a failed site may lack |
//! | `own` | at the site itself: its own tail, and who has it |
//! | `others` | at other sites: the tails of masters, and fences |
//! | `takeover` | the history of a failed site: a pure function |

mod batch;
mod others;
mod own;
pub(crate) mod settled;
mod takeover;

pub use others::Fenced;
pub(crate) use others::{OtherTails, forget_masters};
pub(crate) use own::{OwnTail, TailNews, backed_until, end_tail_of, replace_tail_of};
pub use settled::{Settled, Unended};
pub use takeover::{Lost, TakeOver, take_over};

use crate::frame::{FrameHead, FrameKind, TxnId};
use crate::place::Place;
use crate::record::{Record, read_any_frame, read_frame};
use isomer_design::Version;
use isomer_log::Position;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The tail of one log.
#[derive(Clone, Default)]
pub(crate) struct Tail {
    /// The incarnation of the log's site.
    run: u64,
    /// The log is known up to this position.
    received: Position,
    /// Frames up to this position are stable.
    settled: Position,
    /// Frames that are not stable, by their end positions.
    frames: BTreeMap<Position, Arc<[u8]>>,
    bytes: usize,
    /// Transactions that the stable frames have left open.
    unended: BTreeMap<TxnId, Unended>,
    /// The version to which the stable frames have brought each partition.
    versions: BTreeMap<Place, Version>,
}

impl Tail {
    fn push(&mut self, position: Position, frame: &Arc<[u8]>) {
        self.received = self.received.max(position);
        if position > self.settled && self.frames.insert(position, frame.clone()).is_none() {
            self.bytes += frame.len();
        }
    }

    /// Marks all frames up to a position as stable, and drops them.
    fn settle(&mut self, up_to: Position) {
        self.settled = up_to.max(self.settled);
        // Frames arrive in the order of the log.
        self.received = up_to.max(self.received);
        while let Some(entry) = self.frames.first_entry().filter(|entry| *entry.key() <= up_to) {
            let frame = entry.remove();
            self.bytes -= frame.len();
            note_unended(&mut self.unended, &frame);
            note_versions(&mut self.versions, &frame);
        }
    }

    fn before(&self) -> Settled {
        let unended = self.unended.iter().map(|(txn, how)| (*txn, how.clone())).collect();
        let versions = self.versions.iter().map(|(place, version)| (place.clone(), *version));
        Settled { unended, versions: versions.collect() }
    }
}

/// Records which transactions a frame begins or ends.
fn note_unended(unended: &mut BTreeMap<TxnId, Unended>, frame: &[u8]) {
    let (head, _) = read_any_frame(frame).expect("it was read before");
    match head.kind {
        FrameKind::Prepare(txn) => {
            unended.insert(txn, Unended::Prepared(FrameBytes::of(frame)));
        }
        FrameKind::End(txn) => drop(unended.remove(&txn)),
        FrameKind::Decide { txn, .. } => drop(unended.insert(txn, Unended::Decided(head.time))),
        FrameKind::Commit
        | FrameKind::Refresh { .. }
        | FrameKind::Hears(..)
        | FrameKind::Batch(_) => {}
    }
}

/// Records the version to which a frame brings each of its partitions.
fn note_versions(versions: &mut BTreeMap<Place, Version>, frame: &[u8]) {
    let (_, records) = read_frame(frame).expect("it was read before");
    for record in records {
        let version = versions.entry((record.table, record.start)).or_default();
        *version = record.version.max(*version);
    }
}

/// The tail of a log, as a value to send to the site that plans a takeover.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TailCopy {
    /// The log is known up to this position.
    pub received: Position,
    /// Its frames that are not stable, in order.
    pub frames: Vec<TailFrame>,
    /// The effects of the stable frames before them.
    pub before: Settled,
}

impl TailCopy {
    /// The history of a failed site whose log can be read. `frames` are those of the log, each with
    /// its end position.
    ///
    /// # Errors
    /// A message, if one is no frame.
    pub fn of_log(frames: Vec<(Position, Vec<u8>)>) -> Result<TailCopy, String> {
        let mut copy = TailCopy::default();
        for (position, frame) in frames {
            copy.received = position;
            let (head, _) = read_any_frame(&frame).map_err(|error| error.to_string())?;
            // Events that the site has read from other logs are the history of those.
            if !matches!(head.kind, FrameKind::Refresh { .. } | FrameKind::Hears(..)) {
                copy.frames.push(TailFrame { position, bytes: FrameBytes::of(&frame) });
            }
        }
        Ok(copy)
    }
}

/// A frame of a log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TailFrame {
    /// Its end position.
    pub position: Position,
    /// The frame.
    pub bytes: FrameBytes,
}

/// The bytes of a frame. Always a whole, readable frame: deserialization checks it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrameBytes(Arc<[u8]>);

impl FrameBytes {
    /// Wraps a frame that this site wrote, or has read before.
    pub(crate) fn of(frame: &[u8]) -> FrameBytes {
        FrameBytes(Arc::from(frame))
    }

    /// The head and the records of the frame, also if it is a prepare.
    fn read(&self) -> (FrameHead, Vec<Record<'_>>) {
        read_any_frame(&self.0).expect("it was read before")
    }
}

impl Serialize for FrameBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for FrameBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FrameBytes, D::Error> {
        let bytes: &[u8] = serde_bytes::deserialize(deserializer)?;
        read_any_frame(bytes).map_err(D::Error::custom)?;
        Ok(FrameBytes::of(bytes))
    }
}
