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
//! **Fence.** A site may be gone for the router and still reach others. So before anything is taken from a tail, every
//! site is told to hear no more of it: messages, parts and prepared votes of a fenced site are void. What it commits
//! from then on is at no backup, so nobody is told of it; when it comes back it is told to discard that. A fence is
//! in the log of who has set it: a restart does not lift it.
//!
//! **Left out.** After a restart, a site's tail begins once its backups have acknowledged what they lack; if it is
//! gone once more before, its partitions wait for it. Likewise after a tail that grew beyond [`TAIL_BYTES_MAX`]. A
//! transaction that writes tables with and without backups may be cut in two if nobody was told of it: what it wrote
//! to those without comes back with the site.

use crate::backup::{Place, Ticket};
use crate::error::Refusal;
use crate::failover::PATIENCE_NS;
use crate::frame::{FrameHead, FrameKind, Hearing, TxnId};
use crate::link::outgoing::feed_item;
use crate::message::{FeedItem, Message, TailItem};
use crate::partition::{SitePartition, Table};
use crate::record::{Event, FrameWriter, Record, read_any_frame, read_frame};
use crate::site::{Outgoing, Site};
use isomer_design::{Key, SiteId, SiteSet, TableId, Time, Version};
use isomer_log::{LogError, Position};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

/// A tail with more frames than fit into so many bytes begins anew.
const TAIL_BYTES_MAX: usize = 64 << 20;

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

/// At the site itself: its own tail, as the others are to have it.
#[derive(Default)]
pub(crate) struct OwnTail {
    tail: Tail,
    /// The frames of the tail, with the last ticket when all of their own were open; `None`: not yet.
    marks: VecDeque<(Position, Option<Ticket>)>,
    /// Changes of the design that followers may lack.
    unheard: Vec<Unheard>,
    /// When followers were asked for those last.
    asked: Time,
    /// Somebody keeps it.
    is_kept: bool,
    /// Others are sent the tail once backups have acknowledged up to here.
    begins_after: Ticket,
    has_begun: bool,
}

/// A change of the design that all followers of its partition are to hear of.
struct Unheard {
    /// Of its frame; 0: of an earlier run.
    position: Position,
    place: Place,
    /// The version that it leads the partition to.
    version: Version,
    by: SiteSet,
}

/// What became known of the site's own tail when it was extended.
#[derive(Default)]
pub(crate) struct TailNews {
    pub(crate) finished: Vec<TxnId>,
    pub(crate) settled: Position,
    /// It is sent to others.
    pub(crate) has_begun: bool,
}

/// What a site keeps of the logs of others, and whom it does not hear any more.
#[derive(Default)]
pub(crate) struct OtherTails {
    tails: BTreeMap<SiteId, Tail>,
    fenced: SiteSet,
    /// Those whose part others have taken over: nobody waits for them.
    replaced: SiteSet,
}

/// What a site knows of one that is gone, after [`Step::Fence`](crate::Step::Fence).
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Fenced {
    /// The last run of it that was heard of; 0: none.
    pub run: u64,
    /// Its tail, if there is one of that run.
    pub tail: Option<TailCopy>,
    /// Transactions that it coordinates, and whose outcome is not known here.
    pub in_doubt: Vec<TxnId>,
    /// Transactions that were committed here, and that it has not acknowledged; with the times of their commits.
    pub decided: Vec<(TxnId, Time)>,
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

/// What is to be done so that others go on where a site has ended. See [`take_over`].
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct TakeOver {
    /// Where its log has ended; `None`: it masters nothing of what others would have kept that.
    pub end: Option<Position>,
    /// What followers may lack.
    pub frames: Vec<TailFrame>,
    /// The version of each partition that these frames, and those before them, lead to.
    pub versions: BTreeMap<Place, Version>,
    /// What became of the transactions that it coordinated, and somebody is in doubt of; `None`: they were aborted.
    pub outcomes: BTreeMap<TxnId, Option<Time>>,
    /// Partitions that it was prepared to write for a coordinator that cannot be asked.
    pub undecided: BTreeSet<Place>,
}

/// Works out what was history at a site that is gone, from what the sites that are left know of it. `is_kept`: it
/// masters something with backups, so whoever follows that keeps its tail; without, a tail that somebody has is an old one.
///
/// # Errors
/// In words, if nobody has its tail, and that is needed.
pub fn take_over(known: &BTreeMap<SiteId, Fenced>, is_kept: bool) -> Result<TakeOver, String> {
    if !is_kept {
        return match known.values().find_map(|fenced| fenced.in_doubt.first()) {
            Some(txn) => Err(format!("nobody has kept the end of its log, and {txn} is in doubt")),
            None => Ok(TakeOver::default()),
        };
    }
    let run = known.values().map(|fenced| fenced.run).max().unwrap_or(0);
    let tails = known.values().filter(|fenced| fenced.run == run);
    let tail = tails.filter_map(|fenced| fenced.tail.as_ref()).max_by_key(|tail| tail.received);
    let tail = tail.ok_or("no site that can be reached has the end of its log")?;
    let mut unended: BTreeMap<TxnId, Unended> = tail.before.unended.iter().cloned().collect();
    tail.frames.iter().for_each(|frame| note_unended(&mut unended, &frame.bytes.0));

    let (end, frames) = (Some(tail.received), tail.frames.clone());
    let mut found = TakeOver { end, frames, ..TakeOver::default() };
    let mut decided_here = BTreeMap::new();
    for (txn, how) in unended {
        match (how, known.get(&txn.coordinator)) {
            (Unended::Decided(at), _) => drop(decided_here.insert(txn, at)),
            (Unended::Prepared(frame), Some(coordinator)) => {
                let at = coordinator.decided.iter().find(|(other, _)| *other == txn);
                if let Some((_, at)) = at {
                    // Its own log goes on from there, should nobody take over.
                    let (position, bytes) = (tail.received, ended(txn, &frame, *at));
                    found.frames.push(TailFrame { position, bytes });
                }
            }
            (Unended::Prepared(frame), None) => {
                let (_, records) = frame.read();
                found.undecided.extend(records.into_iter().map(|r| (r.table, r.start)));
            }
        }
    }
    found.versions = tail.before.versions.iter().cloned().collect();
    for frame in &found.frames {
        note_versions(&mut found.versions, &frame.bytes.0);
    }
    let in_doubt = known.values().flat_map(|fenced| &fenced.in_doubt);
    found.outcomes = in_doubt.map(|txn| (*txn, decided_here.get(txn).copied())).collect();
    Ok(found)
}

/// True for what nobody may rely on before others have it.
fn is_awaited_kind(frame: &[u8]) -> bool {
    let (head, _) = read_any_frame(frame).expect("it was read before");
    matches!(head.kind, FrameKind::Prepare(_) | FrameKind::Decide { .. })
}

/// The end of what is prepared in a frame.
fn ended(txn: TxnId, prepared: &FrameBytes, at: Time) -> FrameBytes {
    let (_, records) = prepared.read();
    let mut frame = FrameWriter::new(FrameKind::End(txn));
    records.iter().for_each(|record| frame.record(record));
    FrameBytes::of(frame.finish(at))
}

impl Site {
    // ---------------------------------------------------------------------------- at the site itself

    /// True if somebody follows, with a partition that has backups, something in this frame.
    pub(crate) fn has_backers(&self, outgoing: &Outgoing) -> bool {
        let (_, records) = read_any_frame(&outgoing.frame).expect("the site wrote it");
        let mut records = records.iter().zip(&outgoing.followers);
        records.any(|(record, followers)| !followers.is_empty() && self.is_backed(record.table))
    }

    /// Adds frames to the site's own tail, which comes up to a position with them, and settles what is settled.
    pub(crate) fn extend_tail<'f>(
        &self,
        frames: impl Iterator<Item = &'f Outgoing>,
        up_to: Position,
    ) -> TailNews {
        let mut own = self.links.own_tail.lock();
        let own = &mut *own;
        if !std::mem::replace(&mut own.is_kept, true) {
            self.begin_tail(own);
        }
        if own.unheard.is_empty() {
            own.asked = self.time.now();
        }
        for outgoing in frames {
            own.tail.push(outgoing.position, &outgoing.frame);
            own.marks.push_back((outgoing.position, None));
            self.note_unheard(&mut own.unheard, outgoing);
        }
        own.tail.received = up_to;
        self.settle_tail(own);
        if own.tail.bytes > TAIL_BYTES_MAX {
            let end = own.tail.received;
            own.tail.settle(end);
            own.marks.clear();
            own.unheard.iter_mut().for_each(|change| change.position = 0);
            (own.has_begun, own.begins_after) = (false, self.last_ticket());
        }
        let is_known = own.unheard.first().is_none_or(|change| change.position > 0);
        own.has_begun = own.has_begun || is_known && self.is_acknowledged(own.begins_after);
        let finished = self.finished(&mut own.tail);
        TailNews { finished, settled: own.tail.settled, has_begun: own.has_begun }
    }

    /// Up to where the site's own tail is settled.
    pub(crate) fn tail_settled(&self) -> Position {
        self.links.own_tail.lock().tail.settled
    }

    /// Notes the changes of the design in a frame, which is the next one of the log.
    fn note_unheard(&self, unheard: &mut Vec<Unheard>, outgoing: &Outgoing) {
        let (_, records) = read_frame(&outgoing.frame).expect("the site wrote it");
        for (record, followers) in records.iter().zip(&outgoing.followers) {
            let place = (record.table, record.start.clone());
            match &record.event {
                Event::Write(_) => continue,
                // Who has the merged partition has all of both.
                Event::Merge { right, .. } => {
                    let ended = (record.table, right.clone());
                    for change in unheard.iter_mut().filter(|change| change.place == ended) {
                        (change.place, change.version) = (place.clone(), record.version);
                    }
                }
                Event::Unfollow(site) => {
                    let of = unheard.iter_mut().filter(|change| change.place == place);
                    of.for_each(|change| change.by = change.by.without(*site));
                }
                _ => {}
            }
            let by = match &record.event {
                // It has no copy any more, or not yet.
                Event::Unfollow(site) | Event::Follow(site) => followers.without(*site),
                _ => followers.clone(),
            };
            if !by.is_empty() && self.is_backed(record.table) {
                self.expect_acks_of(&place);
                let (position, version) = (outgoing.position, record.version);
                unheard.push(Unheard { position, place, version, by });
            }
        }
    }

    /// Followers that are heard, and may lack a change of the design.
    fn lacking(&self, change: &Unheard) -> SiteSet {
        let (table, start) = &change.place;
        let is_here = |table: Arc<Table>| Table::find(&table.partitions.load(), start).is_some();
        if !self.table(*table).is_some_and(is_here) {
            return SiteSet::EMPTY; // It was discarded before the frame was sent.
        }
        let lacking = &change.by - &self.acknowledged_by(&change.place, change.version);
        &lacking - &self.links.other_tails.lock().fenced
    }

    /// Asks followers of whose changes of the design nothing was heard, now and then. Part of a tick.
    pub(crate) fn ask_for_unheard(&self) {
        let mut own = self.links.own_tail.lock();
        let now = self.time.now();
        if own.unheard.is_empty() || now.0.saturating_sub(own.asked.0) < self.link_timeouts.gap_ns {
            return;
        }
        own.asked = now;
        let mut asked: BTreeMap<SiteId, Vec<Place>> = BTreeMap::new();
        for change in &own.unheard {
            for site in self.lacking(change).iter() {
                asked.entry(site).or_default().push(change.place.clone());
            }
        }
        drop(own);
        for (site, partitions) in asked {
            self.send(site, Message::AskAck { partitions });
        }
    }

    fn settle_tail(&self, own: &mut OwnTail) {
        own.unheard.retain(|change| !self.lacking(change).is_empty());
        let heard = own.unheard.first().map_or(Position::MAX, |change| change.position);
        while let Some((position, ticket)) = own.marks.front_mut() {
            let frame = own.tail.frames.get(position).expect("marks are of frames");
            if ticket.is_none() && self.is_installed(frame) {
                *ticket = Some(self.last_ticket());
            }
            let position = *position;
            if position >= heard || !ticket.is_some_and(|ticket| self.is_acknowledged(ticket)) {
                break;
            }
            own.marks.pop_front();
            own.tail.settle(position);
        }
        if own.marks.is_empty() {
            let end = own.tail.received;
            own.tail.settle(end);
        }
    }

    /// True if the events of a frame have their tickets: those are opened before an event is installed.
    fn is_installed(&self, frame: &[u8]) -> bool {
        let (_, records) = read_frame(frame).expect("the site wrote it");
        records.iter().all(|record| {
            let held = self.table(record.table).and_then(|table| table.starting_at(&record.start));
            held.is_none_or(|partition| partition.version() >= record.version)
        })
    }

    /// Decisions of which all have heard.
    fn finished(&self, tail: &mut Tail) -> Vec<TxnId> {
        if tail.unended.is_empty() {
            return Vec::new();
        }
        let is_over = |txn: &TxnId, how: &mut Unended| {
            matches!(how, Unended::Decided(_)) && !self.is_decided(*txn)
        };
        tail.unended.extract_if(.., is_over).map(|(txn, _)| txn).collect()
    }

    /// For who keeps the tail, and has all frames of it: up to where it has come. That can be said with what is settled, or
    /// with the whole tail.
    pub(crate) fn tail_up_to_now(&self) -> Vec<FeedItem> {
        let (settled, received) = {
            let own = self.links.own_tail.lock();
            (own.tail.settled, own.tail.received)
        };
        match settled == received {
            true => vec![FeedItem::Tail(TailItem::Settled(settled))],
            false => self.whole_tail(),
        }
    }

    /// The tail from its beginning, for a stream that has begun.
    pub(crate) fn whole_tail(&self) -> Vec<FeedItem> {
        let own = self.links.own_tail.lock();
        let (received, settled, before) = (own.tail.received, own.tail.settled, own.tail.before());
        let begins = TailItem::Begins { received, settled, before };
        let frames = own.tail.frames.iter().map(|(position, frame)| TailItem::Frame {
            from: self.id,
            position: *position,
            frame: frame.clone(),
        });
        std::iter::once(begins).chain(frames).map(FeedItem::Tail).collect()
    }

    /// Nobody keeps the site's tail any more.
    pub(crate) fn end_tail(&self) {
        let mut own = self.links.own_tail.lock();
        if own.is_kept {
            let (end, unheard) = (own.tail.received, std::mem::take(&mut own.unheard));
            *own = OwnTail { unheard, ..OwnTail::default() };
            own.tail.settle(end);
        }
    }

    /// Somebody is to keep the tail, and nobody has before: in this run, or at all. What has happened before is known only by
    /// what is left of it, so nobody is sent a tail before backups have acknowledged all.
    fn begin_tail(&self, own: &mut OwnTail) {
        own.unheard.iter_mut().for_each(|change| change.position = 0);
        own.tail.unended = self.unended().into_iter().collect();
        for table in self.tables().iter() {
            let map = table.partitions.load();
            let mastered = map.iter().filter(|(_, partition)| partition.is_master());
            let place = |p: &SitePartition| (p.table, p.range.start.clone());
            own.tail.versions.extend(mastered.map(|(_, p)| (place(p), p.version())));
        }
        own.begins_after = self.last_ticket();
    }

    /// Expects followers to acknowledge what this site masters of a table, or has released: nobody knows which changes of
    /// the design they have heard of.
    pub(crate) fn expect_heard(&self, table: &Table) {
        if !table.is_backed() {
            return;
        }
        let map = table.partitions.load();
        let unheard: Vec<Unheard> =
            map.iter().filter_map(|(_, partition)| self.unheard_of(partition)).collect();
        self.links.own_tail.lock().unheard.splice(0..0, unheard);
    }

    /// A partition has left the site: nobody waits for it here any more.
    pub(crate) fn end_unheard(&self, partition: &SitePartition) {
        let place = (partition.table, partition.range.start.clone());
        self.links.own_tail.lock().unheard.retain(|change| change.place != place);
    }

    /// What others may lack of a partition that this site masters, or has released.
    fn unheard_of(&self, partition: &SitePartition) -> Option<Unheard> {
        let by = match (partition.is_master(), partition.released_to()) {
            (true, _) => partition.followers(),
            (false, Some(to)) if to != self.id => SiteSet::of(to),
            (false, _) => return None,
        };
        let place = (partition.table, partition.range.start.clone());
        self.expect_acks_of(&place);
        let version = partition.version();
        (!by.is_empty()).then_some(Unheard { position: 0, place, version, by })
    }

    /// Ready when the sites that keep this site's tail have it up to a position: as many as there are to be backups.
    ///
    /// # Errors
    /// [`LogError::Gone`]: others have taken over from this site meanwhile, and hear nothing of it.
    pub(crate) async fn tailed(&self, position: Position) -> Result<(), LogError> {
        self.ship();
        let mut asked = self.time.now();
        poll_fn(|cx| {
            if self.is_tailed(position) {
                return Poll::Ready(Ok(()));
            }
            if self.is_replaced() {
                let what = "others had taken over from it";
                return Poll::Ready(Err(LogError::Gone { what: what.into() }));
            }
            self.ticked.register(cx.waker());
            let now = self.time.now();
            if now.0.saturating_sub(asked.0) >= self.link_timeouts.gap_ns {
                asked = now;
                self.ask_for_tails(position);
            }
            if self.is_tailed(position) { Poll::Ready(Ok(())) } else { Poll::Pending }
        })
        .await
    }

    fn is_tailed(&self, position: Position) -> bool {
        let tables = self.tables();
        let needed = tables.iter().map(|table| usize::from(table.backups().count)).max();
        let (keeping, have) = self.tail_keepers(position);
        !self.links.own_tail.lock().has_begun || have >= keeping.min(needed.unwrap_or(0))
    }

    // ----------------------------------------------------------------------------- at the others

    /// True if a site is not heard any more.
    pub(crate) fn is_fenced(&self, site: SiteId) -> bool {
        self.links.other_tails.lock().fenced.contains(site)
    }

    /// True if others have taken over from all of these.
    pub(crate) fn are_replaced(&self, sites: &SiteSet) -> bool {
        (sites - &self.links.other_tails.lock().replaced).is_empty()
    }

    /// Keeps what a feed of a site brings of its tail. Says whether the site waits for word of it.
    pub(crate) fn keep_tail(&self, from: SiteId, run: u64, items: &[FeedItem]) -> bool {
        let mut others = self.links.other_tails.lock();
        let mut is_awaited = false;
        for item in items {
            if let FeedItem::Tail(TailItem::Begins { received, settled, before }) = item {
                let (received, settled) = (*received, *settled);
                let unended = before.unended.iter().cloned().collect();
                let versions = before.versions.iter().cloned().collect();
                let tail = Tail { run, received, settled, unended, versions, ..Tail::default() };
                others.tails.insert(from, tail);
                is_awaited = true;
                continue;
            }
            let Some(tail) = others.tails.get_mut(&from).filter(|tail| tail.run == run) else {
                continue;
            };
            match item {
                FeedItem::Tail(TailItem::Frame { frame, position, .. }) => {
                    tail.push(*position, frame);
                    is_awaited |= is_awaited_kind(frame);
                }
                FeedItem::Tail(TailItem::Settled(up_to)) => tail.settle(*up_to),
                FeedItem::Tail(TailItem::Finished(txn)) => drop(tail.unended.remove(txn)),
                FeedItem::Tail(TailItem::Ends) => drop(others.tails.remove(&from)),
                FeedItem::Tail(TailItem::Begins { .. })
                | FeedItem::Record { .. }
                | FeedItem::Joined { .. } => {}
            }
        }
        is_awaited
    }

    /// Says how much of a site's tail is here.
    pub(crate) fn tell_tail(&self, of: SiteId) {
        let others = self.links.other_tails.lock();
        let tail = others.tails.get(&of).map(|tail| (tail.run, tail.received));
        drop(others);
        if let Some((incarnation, received)) = tail {
            self.send(of, Message::Tailed { incarnation, received });
        }
    }

    /// Hears no more of a site, and says what is known of it.
    ///
    /// # Errors
    /// [`Refusal::Log`].
    pub async fn fence(&self, site: SiteId) -> Result<Fenced, Refusal> {
        {
            // Who decides after this finds the site fenced.
            let _shaping = self.shaping.write();
            if !self.is_fenced(site) {
                self.log_hearing(site, Hearing::Fenced)?;
                self.set_hearing(site, Hearing::Fenced);
            }
        }
        // Who waits for it to say that there is no more asks elsewhere.
        let replicas = self.followed().remove(&site).unwrap_or_default();
        replicas.iter().for_each(|replica| replica.progress.wake());
        // Who waits for it to keep this site's tail may hold what it is waited for.
        self.stop_keeping(site);
        // What was decided before may be durable yet.
        self.lasting_for_others(self.log.end()).await?;
        let run = self.run_of(site);
        let (in_doubt, decided) = self.shared_with(site);
        let others = self.links.other_tails.lock();
        let tail = others.tails.get(&site).filter(|tail| tail.run == run).map(|tail| TailCopy {
            received: tail.received,
            frames: tail
                .frames
                .iter()
                .map(|(position, frame)| TailFrame {
                    position: *position,
                    bytes: FrameBytes(frame.clone()),
                })
                .collect(),
            before: tail.before(),
        });
        Ok(Fenced { run, tail, in_doubt, decided })
    }

    /// Applies what was history at a fenced site, as if it had come from there. Done when it is applied.
    ///
    /// # Errors
    /// [`Refusal::Unavailable`] if something stays in the way of it for long; [`Refusal::Log`].
    pub(crate) async fn take_frames(
        &self,
        from: SiteId,
        frames: &[TailFrame],
    ) -> Result<(), Refusal> {
        let mut items = Vec::new();
        for TailFrame { position, bytes } in frames {
            let frame = &bytes.0;
            let (_, records) = read_frame(frame).expect("it was read before");
            for (at, record) in records.iter().enumerate() {
                items.extend(feed_item(from, record, at, frame, *position));
            }
        }
        let touched = self.take_items(from, items);
        let until = self.time.now().0 + PATIENCE_NS;
        while touched
            .iter()
            .any(|partition| !partition.is_gone() && !partition.pending.lock().is_empty())
        {
            self.serving()?;
            if self.time.now().0 > until {
                return Err(Refusal::Unavailable(self.id));
            }
            touched.iter().for_each(|partition| self.apply_pending(partition));
            self.next_tick().await;
        }
        self.lasting(self.log.end()).await
    }

    /// Ends transactions as a fenced site, their coordinator, had decided.
    ///
    /// # Errors
    /// [`Refusal::Log`].
    pub(crate) async fn end_in_doubt(
        &self,
        outcomes: Vec<(TxnId, Option<Time>)>,
    ) -> Result<(), Refusal> {
        outcomes.into_iter().for_each(|(txn, at)| self.hear_outcome(txn, at));
        self.lasting_for_others(self.log.end()).await?;
        Ok(())
    }

    /// Others have taken over from a site: no client waits for its word. If it is this one, nothing that it has begun
    /// waits any more for those who do not hear it.
    ///
    /// # Errors
    /// [`Refusal::Log`].
    pub(crate) async fn replaced(&self, site: SiteId) -> Result<(), Refusal> {
        // Of itself a site is told again after a restart, before others hear it.
        if site != self.id && !self.are_replaced(&SiteSet::of(site)) {
            let _shaping = self.shaping.read();
            self.log_hearing(site, Hearing::Replaced)?;
        }
        self.set_hearing(site, Hearing::Replaced);
        self.wake_coordinators();
        self.wake_unacknowledged();
        self.ticked.wake();
        Ok(self.lasting_for_others(self.log.end()).await?)
    }

    /// True if others have taken over from this site itself.
    pub(crate) fn is_replaced(&self) -> bool {
        self.links.other_tails.lock().replaced.contains(self.id)
    }

    /// A fenced site has come back, and has let go of what is not its own any more.
    ///
    /// # Errors
    /// [`Refusal::Log`]; it is not heard yet.
    pub(crate) async fn admit(&self, site: SiteId) -> Result<(), Refusal> {
        if !self.is_fenced(site) {
            self.set_hearing(site, Hearing::Open);
            return Ok(());
        }
        {
            let _shaping = self.shaping.read();
            self.log_hearing(site, Hearing::Open)?;
        }
        self.set_hearing(site, Hearing::Open);
        self.review_keeping(site);
        // What it has said meanwhile was not heard.
        self.meet(&[site]);
        Ok(self.lasting_for_others(self.log.end()).await?)
    }

    /// To be called with the shape held still.
    fn log_hearing(&self, site: SiteId, how: Hearing) -> Result<(), LogError> {
        let mut frame = FrameWriter::new(FrameKind::Hears(site, how));
        let time = self.store.clock.tick(self.time.now());
        self.log.append(frame.finish(time)).map(drop)
    }

    /// How a site is heard from now on, or was as the log says.
    pub(crate) fn set_hearing(&self, site: SiteId, how: Hearing) {
        let mut others = self.links.other_tails.lock();
        let put = |set: &mut SiteSet, is_in: bool| {
            let all = std::mem::take(set);
            *set = if is_in { all.with(site) } else { all.without(site) };
        };
        put(&mut others.fenced, how != Hearing::Open && site != self.id);
        put(&mut others.replaced, how == Hearing::Replaced);
    }

    /// The sites that are fenced.
    pub(crate) fn hearings(&self) -> Vec<(SiteId, Hearing)> {
        let others = self.links.other_tails.lock();
        let how = |site| match others.replaced.contains(site) {
            true => (site, Hearing::Replaced),
            false => (site, Hearing::Fenced),
        };
        others.fenced.iter().map(how).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_design::Key;

    const S1: SiteId = SiteId(1);
    const S2: SiteId = SiteId(2);
    const S3: SiteId = SiteId(3);
    const T: TableId = TableId(1);

    fn txn(coordinator: SiteId, number: u64) -> TxnId {
        TxnId { coordinator, incarnation: 7, number }
    }

    /// A frame that writes to partitions, each from a version.
    fn frame(position: Position, kind: FrameKind, writes: &[(i64, Version)]) -> TailFrame {
        let mut frame = FrameWriter::new(kind);
        for (start, previous) in writes {
            frame.open_write(T, &Key::int(*start), *previous);
            frame.row(&Key::int(*start), Some(b"row"));
            frame.close_write();
        }
        TailFrame { position, bytes: FrameBytes::of(frame.finish(Time(position))) }
    }

    fn tail(frames: Vec<TailFrame>) -> Option<TailCopy> {
        let received = frames.last().map_or(0, |frame| frame.position);
        Some(TailCopy { received, frames, before: Settled::default() })
    }

    fn known(fenced: [(SiteId, Fenced); 2]) -> BTreeMap<SiteId, Fenced> {
        BTreeMap::from(fenced)
    }

    fn versions(found: &TakeOver) -> Vec<(i64, Version)> {
        let start = |key: &Key| (0..100).find(|at| Key::int(*at) == *key).expect("a small one");
        found.versions.iter().map(|((_, key), version)| (start(key), *version)).collect()
    }

    #[test]
    fn the_longest_tail_of_the_last_run_is_history() {
        let (first, second) = (
            frame(10, FrameKind::Commit, &[(5, 4)]),
            frame(20, FrameKind::Commit, &[(0, 7), (5, 5)]),
        );
        let short = Fenced { run: 3, tail: tail(vec![first.clone()]), ..Fenced::default() };
        let long = Fenced { run: 3, tail: tail(vec![first.clone(), second]), ..Fenced::default() };
        let found =
            take_over(&known([(S2, short.clone()), (S3, long)]), true).expect("there is a tail");
        assert_eq!(versions(&found), [(0, 8), (5, 6)]);

        let lines = vec![first, frame(90, FrameKind::Commit, &[(5, 5)])];
        let old = Fenced { run: 2, tail: tail(lines), ..Fenced::default() };
        let found =
            take_over(&known([(S2, short), (S3, old.clone())]), true).expect("there is a tail");
        assert_eq!(versions(&found), [(5, 5)], "what an earlier run had in doubt is not");

        let heard = Fenced { run: 3, tail: None, ..Fenced::default() };
        let refused = take_over(&known([(S2, heard), (S3, old)]), true).expect_err("of this run");
        assert!(refused.contains("the end of its log"), "{refused}");
    }

    #[test]
    fn what_it_was_prepared_for_ends_as_the_coordinator_says() {
        let [committed, aborted, lost] = [txn(S2, 1), txn(S2, 2), txn(SiteId(9), 3)];
        let frames = vec![
            frame(10, FrameKind::Prepare(committed), &[(5, 4)]),
            frame(20, FrameKind::Prepare(aborted), &[(6, 4)]),
            frame(30, FrameKind::Prepare(lost), &[(7, 4)]),
            frame(40, FrameKind::Prepare(txn(S2, 4)), &[(8, 4)]),
            frame(50, FrameKind::End(txn(S2, 4)), &[(8, 4)]),
        ];
        let coordinator = Fenced { decided: vec![(committed, Time(77))], ..Fenced::default() };
        let backup = Fenced { run: 1, tail: tail(frames), ..Fenced::default() };
        let found =
            take_over(&known([(S2, coordinator), (S3, backup)]), true).expect("there is a tail");
        assert_eq!(versions(&found), [(5, 5), (8, 5)]);
        assert_eq!(found.undecided, BTreeSet::from([(T, Key::int(7))]));
        let last = found.frames.last().expect("the end of what was prepared");
        let (head, records) = last.bytes.read();
        assert_eq!((head.time, head.kind, records.len()), (Time(77), FrameKind::End(committed), 1));
    }

    #[test]
    fn what_it_had_decided_is_committed_and_all_else_that_it_coordinated_was_aborted() {
        let [decided, earlier, not] = [txn(S1, 1), txn(S1, 2), txn(S1, 3)];
        let kind = FrameKind::Decide { txn: decided, others: SiteSet::of(S2) };
        let mut kept = tail(vec![frame(10, kind, &[(0, 7)])]).expect("it is one");
        kept.before.unended = vec![(earlier, Unended::Decided(Time(5)))];
        let backup = Fenced { run: 1, tail: Some(kept), ..Fenced::default() };
        let doubtful = Fenced { in_doubt: vec![decided, earlier, not], ..Fenced::default() };
        let found =
            take_over(&known([(S2, doubtful), (S3, backup)]), true).expect("there is a tail");
        let expected = [(decided, Some(Time(10))), (earlier, Some(Time(5))), (not, None)];
        assert_eq!(found.outcomes, BTreeMap::from(expected));
    }

    #[test]
    fn a_tail_keeps_what_is_not_settled_and_what_that_has_left_open() {
        let mut kept = Tail::default();
        let push = |kept: &mut Tail, frame: TailFrame| kept.push(frame.position, &frame.bytes.0);
        let (open, over) = (txn(S2, 1), txn(S2, 2));
        push(&mut kept, frame(10, FrameKind::Prepare(open), &[(5, 4)]));
        push(&mut kept, frame(20, FrameKind::Prepare(over), &[(6, 4)]));
        push(&mut kept, frame(30, FrameKind::End(over), &[(6, 4)]));
        push(&mut kept, frame(40, FrameKind::Commit, &[(0, 1)]));
        kept.settle(30);
        assert_eq!(kept.frames.keys().copied().collect::<Vec<_>>(), [40]);
        assert_eq!(kept.unended.keys().copied().collect::<Vec<_>>(), [open]);
        // What comes late is settled as well.
        push(&mut kept, frame(20, FrameKind::Prepare(over), &[(6, 4)]));
        assert_eq!((kept.frames.len(), kept.received), (1, 40));
        kept.settle(40);
        assert_eq!((kept.frames.len(), kept.bytes), (0, 0));
    }
}
