//! A site's own tail: which frames are stable, and which followers have it.

use super::others::is_awaited_kind;
use super::{Tail, Unended};
use crate::backup::Ticket;
use crate::frame::TxnId;
use crate::link::outgoing::{end_keeping, review_leaving};
use crate::message::{FeedItem, Message, TailItem};
use crate::partition::{SitePartition, Table};
use crate::place::Place;
use crate::record::{Event, read_any_frame, read_frame};
use crate::site::{Outgoing, Site};
use isomer_design::{SiteId, SiteSet, Time, Version};
use isomer_log::{LogError, Position};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

/// A tail of more than this many bytes is dropped and begins again.
const TAIL_BYTES_MAX: usize = 64 << 20;

/// A site's own tail, as its followers are to have it.
#[derive(Default)]
pub(crate) struct OwnTail {
    tail: Tail,
    /// The end positions of the frames of the tail. Each has the last ticket that was open when the
    /// frame's events had their tickets; `None` until then.
    marks: VecDeque<(Position, Option<Ticket>)>,
    /// Changes of the design that followers may not have acknowledged.
    unheard: Vec<Unheard>,
    /// When followers were last asked about those changes.
    asked: Time,
    /// At least one follower keeps the tail.
    is_kept: bool,
    /// The end of the last vote or decision in the tail, stable or not.
    votes_end: Position,
    /// Closed times that backups may not have: all events up to a time are in the log up to a
    /// position.
    closed: VecDeque<(Position, Time)>,
    /// Enough backups have all events up to this time.
    backed: Time,
    /// The tail is sent once backups have acknowledged all tickets up to this one.
    begins_after: Ticket,
    has_begun: bool,
}

/// A change of the design that all followers of its partition must acknowledge.
struct Unheard {
    /// The end position of its frame; 0 if an earlier run wrote it.
    position: Position,
    place: Place,
    /// The version to which it brings the partition.
    version: Version,
    by: SiteSet,
}

/// The results of extending the own tail.
#[derive(Default)]
pub(crate) struct TailNews {
    pub(crate) finished: Vec<TxnId>,
    pub(crate) settled: Position,
    /// The tail is being sent to followers.
    pub(crate) has_begun: bool,
}

impl Site {
    /// True if a partition with backups and followers has an event in this frame.
    pub(crate) fn has_backers(&self, outgoing: &Outgoing) -> bool {
        let (_, records) = read_any_frame(&outgoing.frame).expect("the site wrote it");
        let mut records = records.iter().zip(&outgoing.followers);
        records.any(|(record, followers)| !followers.is_empty() && self.is_backed(record.table))
    }

    /// Appends frames to the own tail, which then reaches `up_to`, and drops the stable ones.
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
            if is_awaited_kind(&outgoing.frame) {
                own.votes_end = outgoing.position;
            }
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

    /// Frames of the own tail up to this position are stable.
    pub(crate) fn tail_settled(&self) -> Position {
        self.links.own_tail.lock().tail.settled
    }

    /// Records the changes of the design in the next frame of the log.
    fn note_unheard(&self, unheard: &mut Vec<Unheard>, outgoing: &Outgoing) {
        let (_, records) = read_frame(&outgoing.frame).expect("the site wrote it");
        for (record, followers) in records.iter().zip(&outgoing.followers) {
            let place = (record.table, record.start.clone());
            match &record.event {
                Event::Write(_) => continue,
                // A follower of the merged partition has the events of both parts.
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
                // The site has dropped its copy, or does not have it yet.
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

    /// Followers that are not fenced and have not acknowledged a change of the design.
    fn lacking(&self, change: &Unheard) -> SiteSet {
        let (table, start) = &change.place;
        let is_here = |table: Arc<Table>| Table::find(&table.partitions.load(), start).is_some();
        if !self.table(*table).is_some_and(is_here) {
            return SiteSet::EMPTY; // It was discarded before the frame was sent.
        }
        let lacking = &change.by - &self.acknowledged_by(&change.place, change.version);
        &lacking - &self.links.other_tails.lock().fenced
    }

    /// Asks followers for overdue acknowledgements of changes of the design. Part of a tick.
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
        for (position, ticket) in own.marks.iter_mut().filter(|(_, ticket)| ticket.is_none()) {
            let frame = own.tail.frames.get(position).expect("marks are of frames");
            if self.is_installed(frame) {
                *ticket = Some(self.last_ticket());
            }
        }
        while let Some((position, ticket)) = own.marks.front().copied() {
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

    /// True if the events of a frame have their tickets: a ticket is opened before its event is
    /// installed.
    fn is_installed(&self, frame: &[u8]) -> bool {
        let (_, records) = read_frame(frame).expect("the site wrote it");
        records.iter().all(|record| {
            let held = self.table(record.table).and_then(|table| table.starting_at(&record.start));
            held.is_none_or(|partition| partition.version() >= record.version)
        })
    }

    /// Decisions that all participants have acknowledged.
    fn finished(&self, tail: &mut Tail) -> Vec<TxnId> {
        if tail.unended.is_empty() {
            return Vec::new();
        }
        let is_over = |txn: &TxnId, how: &mut Unended| {
            matches!(how, Unended::Decided(_)) && !self.is_decided(*txn)
        };
        tail.unended.extract_if(.., is_over).map(|(txn, _)| txn).collect()
    }

    /// The items that bring a follower with all frames of the tail up to date: one position if all
    /// frames are stable, otherwise the whole tail.
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

    /// The tail from its beginning, for a stream that has just been opened.
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

    /// Drops the own tail, because no follower keeps it any longer.
    pub(crate) fn end_tail(&self) {
        let mut own = self.links.own_tail.lock();
        if own.is_kept {
            let (end, unheard) = (own.tail.received, std::mem::take(&mut own.unheard));
            *own = OwnTail { unheard, votes_end: own.votes_end, ..OwnTail::default() };
            own.tail.settle(end);
        }
    }

    /// Begins the own tail, for the first follower of this run. Earlier frames are known only by
    /// the state that they left, so the tail is not sent before backups have acknowledged all of
    /// that.
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

    /// Waits for all followers to acknowledge what this site masters of a table, or has released.
    /// After a restart it is unknown which changes of the design they have.
    pub(crate) fn expect_heard(&self, table: &Table) {
        if !table.is_backed() {
            return;
        }
        let map = table.partitions.load();
        let unheard: Vec<Unheard> =
            map.iter().filter_map(|(_, partition)| self.unheard_of(partition)).collect();
        self.links.own_tail.lock().unheard.splice(0..0, unheard);
    }

    /// Forgets the changes of a partition that has left the site.
    pub(crate) fn end_unheard(&self, partition: &SitePartition) {
        let place = (partition.table, partition.range.start.clone());
        self.links.own_tail.lock().unheard.retain(|change| change.place != place);
    }

    /// The current state of a partition that this site masters, or has released, as a change that
    /// others may lack.
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

    /// Ready when enough followers to be the backups of every table keep this site's tail up to a
    /// position.
    ///
    /// # Errors
    /// [`LogError::Gone`]: other sites have taken over from this one, and ignore it.
    pub(crate) async fn tailed(&self, position: Position) -> Result<(), LogError> {
        self.ship();
        let mut asked = self.time.now();
        poll_fn(|cx| {
            if self.is_tailed(position) {
                return Poll::Ready(Ok(()));
            }
            self.serving()?;
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

    /// True if a site keeps the tail up to a position, or if the tail has not been sent to any
    /// follower yet: it will begin after that position.
    pub(crate) fn is_tailed_by(&self, site: SiteId, position: Position) -> bool {
        !self.links.own_tail.lock().has_begun || self.keeps_tail_up_to(site, position)
    }

    fn is_tailed(&self, position: Position) -> bool {
        let tables = self.tables();
        let count = tables.iter().map(|table| table.backups().count).max().unwrap_or(0);
        let (keeping, have) = self.tail_keepers(position);
        !self.links.own_tail.lock().has_begun || self.asked(count).is_met_by(&keeping, &have)
    }
}

/// The time up to which another site of a master's process may show the master's events: enough
/// backups have all of them. All events up to `closed` are in the log up to `durable`.
pub(crate) fn backed_until(master: &Site, durable: Position, closed: Time) -> Time {
    let mut own = master.links.own_tail.lock();
    if !own.is_kept {
        return closed; // No commit waits for a backup.
    }
    match own.closed.back_mut().filter(|(position, _)| *position == durable) {
        Some((_, time)) => *time = closed,
        None => own.closed.push_back((durable, closed)),
    }
    let is_open = |(_, ticket): &&(Position, Option<Ticket>)| {
        !ticket.is_some_and(|ticket| master.is_acknowledged(ticket))
    };
    let first = own.marks.iter().find(is_open).map_or(Position::MAX, |(position, _)| *position);
    if master.is_acknowledged(own.begins_after) {
        while let Some((_, time)) = own.closed.pop_front_if(|(position, _)| *position < first) {
            own.backed = time.max(own.backed);
        }
    }
    own.backed
}

/// Ends the reliance of a site on the tail that a follower keeps, if the follower has stopped
/// following its partitions with backups. Ready when enough others have all votes and decisions
/// that only this follower may have had. Until then, the follower's log must show that it follows
/// the site, so that it reports the loss of the tail after a restart.
///
/// # Errors
/// [`LogError`].
pub(crate) async fn replace_tail_of(master: &Site, follower: SiteId) -> Result<(), LogError> {
    if review_leaving(master, follower) {
        return Ok(());
    }
    let votes_end = master.links.own_tail.lock().votes_end;
    master.tailed(votes_end).await
}

/// As [`replace_tail_of`]; the follower then drops the tail, which would be an old one soon.
///
/// # Errors
/// [`LogError`].
pub(crate) async fn end_tail_of(master: &Site, follower: SiteId) -> Result<(), LogError> {
    replace_tail_of(master, follower).await?;
    end_keeping(master, follower);
    Ok(())
}
