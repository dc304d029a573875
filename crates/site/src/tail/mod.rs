//! The tail of a log at the sites with backups: what others need to go on if its site is gone.
//!
//! A backup applies the events of the partitions that it follows. That is all that anybody needs who can still read
//! the master's log. If the master is gone, the rest of what it knew is needed as well: the other halves of its
//! transactions, what it was prepared to commit, and what it had decided. So the sites that follow a partition with
//! backups are sent *all* that concerns such partitions, in the order of the log, until nobody needs it any more:
//!
//! ```text
//!   log of s1          F1: q 4→5    F2: p 7→8, q 5→6    P: prepared, q    D: decided, with s3
//!   s2 follows p       kept         applied and kept    kept              kept
//!   s3 follows q       applied, …   (has not come yet)
//!
//!   s1 is gone. The longest tail is that of s2: so F1, F2, P and D are history, and nothing after D is.
//!   s3 takes q 5→6 from the tail; whoever coordinates P says what became of it; s3 hears of D.
//! ```
//!
//! **The cut is a position of the log.** All sites are sent the same log, so of two tails one is the beginning of the
//! other, and the longest has all that any site was sent. A commit that was acknowledged is in it: some site that
//! acknowledged it is left, as no more than k sites are lost. Nobody has heard of the rest.
//!
//! **Settled** is a frame whose writes enough backups have acknowledged, and whose changes of the design all followers
//! have: nobody who is needed lacks it, and it is dropped. Writes that one follower lacks another one has, who can be the
//! master in its place. Of a change of the design it matters who has heard: nobody else can acquire what was released
//! to a site, and replicas that were split differently cannot be told apart. What is prepared stays until it has ended, and
//! a decision until all have heard of it.
//!
//! **Before anybody relies on it.** A participant says that it is prepared, and a coordinator tells its decision, when
//! as many sites as a table asks for backups have the tail up to there ([`Site::tailed`]). Commits need not wait:
//! their events come by the same stream.
//!
//! **A copy** brings rows another way than the tail. So it counts as a backup once its site has the tail up to where the copy
//! ends: whoever takes over finds no commit in it that is behind the cut.
//!
//! **Fence.** A site may be gone for the router and still reach others. So before anything is taken from a tail, every
//! site is told to hear no more of it: messages, parts and prepared votes of a fenced site are void. What it commits
//! from then on is at no backup, so nobody is told of it; when it comes back it is told to discard that. A fence is
//! in the log of who has set it: a restart does not lift it.
//!
//! **A restart loses the tails of others** that a site kept, as they are in memory: a vote that only this site had, say. Until
//! such a tail has come anew the site says so ([`Fenced::has_lost_tail`]), and nobody takes over from a site that it follows.
//!
//! **Left out.** After a restart, a site's tail begins once its backups have acknowledged what they lack; if it is
//! gone once more before, its partitions wait for it. Likewise after a tail that grew beyond [`TAIL_BYTES_MAX`]. A
//! transaction that writes tables with and without backups may be cut in two if nobody was told of it: what it wrote
//! to those without comes back with the site.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `own` | at the site itself: its own tail, and who has it |
//! | `others` | at the others: tails that are kept, and fences |
//! | `takeover` | what was history at a site that is gone: a pure function |

mod others;
mod own;
mod takeover;

pub use others::Fenced;
pub(crate) use others::OtherTails;
pub(crate) use own::{OwnTail, TailNews};
pub use takeover::{Lost, TakeOver, take_over};

use crate::backup::Place;
use crate::frame::{FrameHead, FrameKind, TxnId};
use crate::record::{Record, read_any_frame, read_frame};
use isomer_design::{Key, TableId, Time, Version};
use isomer_log::Position;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A transaction over several sites that has not come to its end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Unended {
    /// The site is prepared to commit what is in this frame.
    Prepared(FrameBytes),
    /// The site has decided to commit it, at this time.
    Decided(Time),
}

/// What is kept of a log.
#[derive(Clone, Default)]
pub(crate) struct Tail {
    /// The run of the log's site.
    run: u64,
    /// Up to where it has come.
    received: Position,
    /// Up to where it is settled.
    settled: Position,
    /// Frames that are not settled, by the positions behind them.
    frames: BTreeMap<Position, Arc<[u8]>>,
    bytes: usize,
    /// What those that are settled have left open.
    unended: BTreeMap<TxnId, Unended>,
    /// The version to which they have brought each partition.
    versions: BTreeMap<Place, Version>,
}

impl Tail {
    fn push(&mut self, position: Position, frame: &Arc<[u8]>) {
        self.received = self.received.max(position);
        if position > self.settled && self.frames.insert(position, frame.clone()).is_none() {
            self.bytes += frame.len();
        }
    }

    /// Everything up to a position is settled.
    fn settle(&mut self, up_to: Position) {
        self.settled = up_to.max(self.settled);
        // What is sent comes in the order of the log.
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

/// What a frame begins or ends.
fn note_unended(unended: &mut BTreeMap<TxnId, Unended>, frame: &[u8]) {
    let (head, _) = read_any_frame(frame).expect("it was read before");
    match head.kind {
        FrameKind::Prepare(txn) => {
            unended.insert(txn, Unended::Prepared(FrameBytes::of(frame)));
        }
        FrameKind::End(txn) => drop(unended.remove(&txn)),
        FrameKind::Decide { txn, .. } => drop(unended.insert(txn, Unended::Decided(head.time))),
        FrameKind::Commit | FrameKind::Refresh { .. } | FrameKind::Hears(..) => {}
    }
}

/// To which version a frame brings each of its partitions.
fn note_versions(versions: &mut BTreeMap<Place, Version>, frame: &[u8]) {
    let (_, records) = read_frame(frame).expect("it was read before");
    for record in records {
        let version = versions.entry((record.table, record.start)).or_default();
        *version = record.version.max(*version);
    }
}

/// The tail of a log, as a value.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TailCopy {
    /// Up to where it has come.
    pub received: Position,
    /// Its frames, in order.
    pub frames: Vec<TailFrame>,
    /// What is known of earlier ones.
    pub before: Settled,
}

/// What is known of the settled frames of a log, which nobody keeps.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Settled {
    /// What they have left open.
    pub unended: Vec<(TxnId, Unended)>,
    /// The version to which they have brought each partition: that a backup has acknowledged it in memory does not mean
    /// that it has it still.
    pub versions: Vec<((TableId, Key), Version)>,
}

/// A frame of a log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TailFrame {
    /// Position behind it.
    pub position: Position,
    /// The frame.
    pub bytes: FrameBytes,
}

/// The bytes of a frame; whole, also if they have come from elsewhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrameBytes(Arc<[u8]>);

impl FrameBytes {
    /// A frame that was written here, or read before.
    pub(crate) fn of(frame: &[u8]) -> FrameBytes {
        FrameBytes(Arc::from(frame))
    }

    /// What there is in it, prepared or in effect.
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
