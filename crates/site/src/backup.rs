//! Synchronous backups: a reply waits until enough followers have acknowledged what it rests on.
//!
//! A backup is a follower like any other ([`crate::link`]): it receives the same events by the same
//! stream, and applies them in the same order. The difference is that replies wait for it:
//!
//! ```text
//!   s1, master of p; the table asks for 1 backup        s2, which follows p
//!   commit: p 7→8, logged, installed, unlocked
//!   durable ─▶ feed ──────────────────────────────────▶ p 7→8 applied and logged
//!   its reply waits: ticket 31, p v8
//!                        ◀────────────────── ack p v8 ─ at once, or when s2 has it on disk
//!   ticket 31 is closed: the reply goes out
//! ```
//!
//! **Acknowledgements are of versions.** The events of a partition form a chain, so a follower with
//! version 8 has all earlier ones. Restarts and reopened links do not change that. An
//! acknowledgement therefore stays true however late it arrives, and may be repeated. If a
//! partition is split, its open tickets wait for both parts.
//!
//! **Which followers count.** Any k of the followers with a copy count, or all of them if there are
//! fewer. So a table stays available while a lost backup is replaced; it has then lost one of the k
//! sites that it may lose. The k followers are in k processes other than the master's, or in as
//! many as the followers are in ([`Domains`]), because the sites of a process fail together. A
//! follower whose copy is incomplete is a *learner*. It counts once it subscribes, or when the next
//! change begins.
//!
//! **Which operations wait.**
//!
//! | operation | waits for |
//! | --- | --- |
//! | the reply to a commit | its own tickets |
//! | the reply to a read at the master | all tickets up to the last one when it read |
//! | a participant, before it reports that it has ended | the same, as of its end |
//! | a coordinator, before it replies | the participants' tickets, if one wrote to a table with backups |
//! | a release of mastership | the partition's tickets, which the next master need not know, and an acknowledgement of all by the next master |
//! | a site that has recovered | acknowledgements of all that it masters, as it does not know what backups had |
//! | a change that adds a copy | its acknowledgement of earlier commits, and that it keeps the tail up to there: from then on it counts |
//! | a change that drops a copy | acknowledgements by enough others of the commits that it has acknowledged, as far as this master may know: before its term, its last restart or a merge, of all |
//!
//! Locks are released earlier: other transactions may read and write unacknowledged versions, and
//! their replies wait in turn. A request with [asynchronous
//! commit](crate::Request::is_asynchronous) does not wait here either.
//!
//! **Loss.** A follower sends each acknowledgement once. After a timeout the master
//! [asks](Message::AskAck) the followers for it again, and repeats that.
//!
//! **Void.** If other sites take a partition over ([`crate::tail`]), no backup will acknowledge the
//! events that its former master has in doubt. Clients that wait for them get an unknown outcome.
//! Readers that have seen them are refused, also if they ask only after the rows were discarded.
//!
//! **A replica in its master's process** fails with the master, so it shows events only once
//! backups in other processes have them: its feed is not closed before
//! ([`backed_until`](crate::tail::backed_until)).
//!
//! **Left out.** A reply to a read at a replica in another process rests on the master and that
//! replica only, whatever number of backups the table asks for.

use crate::error::{Failure, Refusal};
use crate::frame::FrameKind;
use crate::limits::PATIENCE_NS;
use crate::message::Message;
use crate::partition::{SitePartition, Table};
use crate::place::{Place, Reached};
use crate::record::{Event, FrameWriter, Record};
use crate::site::Site;
use futures_util::future::{Either, select};
use isomer_design::{Backups, Domains, Key, SiteId, SiteSet, TableId, Time, Version};
use isomer_log::{LogError, Position};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};

/// Number of an event that backups must acknowledge; counts from 1 over a run of the site.
pub(crate) type Ticket = u64;

/// The tickets of a commit.
pub(crate) type Tickets = SmallVec<[Ticket; 2]>;

/// The state that a reader has seen, which must be durable before the reply.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Seen {
    /// The log up to this position.
    pub(crate) position: Position,
    /// All tickets up to this one; 0: none.
    pub(crate) ticket: Ticket,
}

/// At a master, the tickets of its events; at a follower, the acknowledgements that it owes.
#[derive(Default)]
pub(crate) struct BackupTable {
    waits: Mutex<Waits>,
    due: Mutex<Vec<Due>>,
    /// The number of times at which tickets became void: the length of `Waits::voided`.
    void_count: AtomicUsize,
}

/// A moment before a read, as the number of times at which tickets had become void.
#[derive(Clone, Copy)]
pub(crate) struct BeforeRead(usize);

/// The end of the tickets of a partition that has left the site.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// They need no acknowledgement any more.
    Closed,
    /// Other sites have taken the partition over, and will never acknowledge them.
    Void,
}

/// At a master: tickets that are not closed.
#[derive(Default)]
struct Waits {
    last: Ticket,
    open: BTreeMap<Ticket, Open>,
    books: BTreeMap<Place, Book>,
    /// Replies that wait for all tickets up to one.
    readers: BTreeMap<Ticket, Vec<Waker>>,
    /// Tickets of events that a takeover has made void.
    void: BTreeSet<Ticket>,
    /// For each time at which tickets became void, the number of the next ticket then, and the
    /// first void one. That next ticket is never opened, so it tells earlier readers from later
    /// ones.
    voided: BTreeMap<Ticket, Ticket>,
}

/// A ticket that is not closed.
struct Open {
    /// The partition, or the parts that it was split into: each of them must be acknowledged.
    places: Vec<Place>,
    /// When the ticket was opened, or followers were last asked for it.
    asked: Time,
    waiting: Vec<Waker>,
}

/// The number of backups of a table, as seen from the site that masters a partition of it.
pub(crate) struct Asked<'s> {
    count: u8,
    site: SiteId,
    domains: &'s Domains,
}

impl Asked<'_> {
    /// True if the followers `has` are enough, where `all` are those that count.
    pub(crate) fn is_met_by(&self, all: &SiteSet, has: &SiteSet) -> bool {
        self.domains.suffice(self.count, self.site, all, has)
    }
}

/// The acknowledgements of one partition.
#[derive(Default)]
struct Book {
    reached: SmallVec<[(SiteId, Version); 2]>,
    /// Followers may have acknowledged versions up to this one to an earlier master, to an earlier
    /// run of this one, or for a part that was merged.
    unknown: Version,
    learners: SiteSet,
    /// Followers whose copies are about to be dropped.
    leaving: SiteSet,
    open: Vec<(Version, Ticket)>,
}

/// A follower is about to leave a partition, until this is dropped. Others that leave with it do
/// not wait for its acknowledgements: none of them may have a copy any more.
struct Leaving<'s> {
    waits: &'s Mutex<Waits>,
    place: &'s Place,
    site: SiteId,
}

impl<'s> Leaving<'s> {
    fn begin(waits: &'s Mutex<Waits>, place: &'s Place, site: SiteId) -> Leaving<'s> {
        let mut locked = waits.lock();
        let book = locked.books.entry(place.clone()).or_default();
        book.leaving = std::mem::take(&mut book.leaving).with(site);
        drop(locked);
        Leaving { waits, place, site }
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if let Some(book) = self.waits.lock().books.get_mut(self.place) {
            book.leaving = book.leaving.without(self.site);
        }
    }
}

/// At a follower: an acknowledgement that is sent when the site's own log is durable up to `end`.
struct Due {
    to: SiteId,
    reached: Reached,
    end: Position,
}

/// Adds a waker, unless it is in the list.
fn leave(wakers: &mut Vec<Waker>, waker: &Waker) {
    if !wakers.iter().any(|other| other.will_wake(waker)) {
        wakers.push(waker.clone());
    }
}

impl Book {
    /// Raises the version that a follower has acknowledged.
    fn reach(&mut self, site: SiteId, version: Version) {
        match self.reached.iter_mut().find(|(other, _)| *other == site) {
            Some((_, reached)) => *reached = version.max(*reached),
            None => self.reached.push((site, version)),
        }
    }

    /// The last version that a follower may have acknowledged, here or elsewhere.
    fn reached_by(&self, site: SiteId) -> Version {
        let reached = self.reached.iter().find(|(other, _)| *other == site);
        reached.map_or(0, |(_, reached)| *reached).max(self.unknown)
    }

    /// True if enough of the followers that count have this version.
    fn is_safe(&self, followers: &SiteSet, asked: &Asked<'_>, version: Version) -> bool {
        let counted = followers - &self.learners;
        let has = self.reached.iter().filter(|(_, reached)| *reached >= version);
        let has: SiteSet = has.map(|(site, _)| *site).collect();
        asked.is_met_by(&counted, &(&has & &counted))
    }
}

fn place(partition: &SitePartition) -> Place {
    (partition.table, partition.range.start.clone())
}

fn void() -> LogError {
    LogError::Gone { what: "others had taken over from it".into() }
}

fn reached(partition: &SitePartition) -> Reached {
    let (table, start) = place(partition);
    Reached { table, start, version: partition.version() }
}

/// True if backups have acknowledged all events of a partition, whose lock the caller holds.
pub(crate) fn is_backed_up(master: &Site, partition: &SitePartition) -> bool {
    let waits = master.backups.waits.lock();
    waits.books.get(&place(partition)).is_none_or(|book| book.open.is_empty())
}

impl Waits {
    /// Closes a partition's tickets that enough followers have acknowledged. Returns the wakers of
    /// replies that need not wait any longer.
    fn settle(&mut self, place: &Place, followers: &SiteSet, asked: &Asked<'_>) -> Vec<Waker> {
        let Some(book) = self.books.get_mut(place) else { return Vec::new() };
        let mut open = std::mem::take(&mut book.open);
        let closed: Vec<Ticket> = open
            .extract_if(.., |(version, _)| book.is_safe(followers, asked, *version))
            .map(|(_, ticket)| ticket)
            .collect();
        book.open = open;
        self.close(place, &closed)
    }

    /// Closes tickets for one partition. Returns the wakers of the replies whose tickets are all
    /// closed.
    fn close(&mut self, place: &Place, tickets: &[Ticket]) -> Vec<Waker> {
        let mut woken = Vec::new();
        for ticket in tickets {
            let Some(open) = self.open.get_mut(ticket) else { continue };
            open.places.retain(|other| other != place);
            if open.places.is_empty() {
                woken.extend(self.open.remove(ticket).into_iter().flat_map(|open| open.waiting));
            }
        }
        let first = self.open.first_key_value().map_or(Ticket::MAX, |(ticket, _)| *ticket);
        let later = self.readers.split_off(&first);
        woken.extend(std::mem::replace(&mut self.readers, later).into_values().flatten());
        woken
    }

    /// True if a reader that has seen all tickets up to this one may have seen one that became void
    /// since. Readers that begin later cannot find the rows of a void ticket.
    fn may_have_seen_void(&self, ticket: Ticket) -> bool {
        self.voided.range(ticket + 1..).any(|(_, first)| *first <= ticket)
    }

    fn is_closed_up_to(&self, ticket: Ticket) -> bool {
        self.open.first_key_value().is_none_or(|(first, _)| *first > ticket)
    }
}

/// A site has become the master of a partition, or has merged it: it does not know which versions
/// followers have acknowledged up to now.
pub(crate) fn begin_acks(site: &Site, partition: &SitePartition, version: Version) {
    if partition.is_master() && site.is_backed(partition.table) {
        let mut waits = site.backups.waits.lock();
        waits.books.entry(place(partition)).or_default().unknown = version;
    }
}

impl Site {
    // ------------------------------------------------------------------------------ at the master

    /// Opens a ticket for the event that brings a partition to a version. Returns `None` if the
    /// table has no backups, or enough of them have that version. To be called before the event can
    /// be read, so that each reader of it finds the ticket.
    pub(crate) fn open_ticket(
        &self,
        backups: Backups,
        partition: &SitePartition,
        version: Version,
    ) -> Option<Ticket> {
        if backups.count == 0 {
            return None;
        }
        let place = place(partition);
        let mut waits = self.backups.waits.lock();
        let book = waits.books.entry(place.clone()).or_default();
        if book.is_safe(&partition.followers(), &self.asked(backups.count), version) {
            return None;
        }
        let ticket = waits.last + 1;
        waits.last = ticket;
        let (asked, waiting) = (self.time.now(), Vec::new());
        let open = Open { places: vec![place.clone()], asked, waiting };
        waits.open.insert(ticket, open);
        waits.books.entry(place).or_default().open.push((version, ticket));
        Some(ticket)
    }

    /// Begins a read, for [`Site::seen_ticket`]. To be called before it looks its partitions up.
    pub(crate) fn begin_read(&self) -> BeforeRead {
        BeforeRead(self.backups.void_count.load(Ordering::SeqCst))
    }

    /// The last ticket that a read of these tables may have seen; 0 if none has backups. If tickets
    /// have become void during the read, the read may have seen one of these. Then this is a ticket
    /// from before, so that the reply is refused.
    pub(crate) fn seen_ticket<'t>(
        &self,
        BeforeRead(void_count): BeforeRead,
        mut tables: impl Iterator<Item = &'t Table>,
    ) -> Ticket {
        if !tables.any(Table::is_backed) {
            return 0;
        }
        let waits = self.backups.waits.lock();
        let since = waits.voided.len() - void_count;
        let next = since.checked_sub(1).and_then(|nth| waits.voided.keys().nth_back(nth));
        next.map_or(waits.last, |next| next - 1)
    }

    pub(crate) fn last_ticket(&self) -> Ticket {
        self.backups.waits.lock().last
    }

    /// Ready when the log is durable up to `seen.position`, and backups have acknowledged the
    /// tickets up to `seen.ticket` and those of `own`.
    ///
    /// # Errors
    /// [`LogError`] if the log has failed, or tickets have become void.
    pub(crate) async fn safe(&self, seen: Seen, own: &[Ticket]) -> Result<(), LogError> {
        self.durable(seen.position).await?;
        if own.is_empty() && seen.ticket == 0 {
            return Ok(());
        }
        // Followers receive durable frames only, also if commits do not wait for the disk.
        self.lasting_for_others(seen.position).await?;
        self.ship();
        self.acknowledged(own).await?;
        self.acknowledged_up_to(seen.ticket).await
    }

    /// As [`Site::safe`], for a read-only reply. Such a reply can be refused without loss, so it is
    /// refused when the site no longer knows whether its data is current.
    ///
    /// # Errors
    /// [`Failure::Log`] if the site may not [serve](isomer_log::Log::serving) from its log;
    /// [`Failure::Unknown`] if the log has failed.
    pub(crate) async fn safe_to_show(&self, seen: Seen) -> Result<(), Failure> {
        // The common case: durable, and tables without backups.
        if seen.ticket == 0 && self.log.durable() >= seen.position {
            return Ok(());
        }
        // Boxed, to keep the future of the common case small.
        Box::pin(self.until_safe_to_show(seen)).await
    }

    async fn until_safe_to_show(&self, seen: Seen) -> Result<(), Failure> {
        let refused = async {
            loop {
                self.next_tick().await;
                if let Err(error) = self.confirmed().await {
                    return error;
                }
            }
        };
        match select(pin!(self.safe(seen, &[])), pin!(refused)).await {
            Either::Left((safe, _)) => safe.map_err(Failure::Unknown),
            Either::Right((error, _)) => Err(Failure::Log(error)),
        }
    }

    /// Ready when backups have acknowledged these tickets.
    ///
    /// # Errors
    /// [`LogError::Gone`] if they are void: other sites have taken over from this one.
    async fn acknowledged(&self, tickets: &[Ticket]) -> Result<(), LogError> {
        for ticket in tickets {
            poll_fn(|cx| {
                let mut waits = self.backups.waits.lock();
                if waits.void.contains(ticket) {
                    return Poll::Ready(Err(void()));
                }
                let Some(open) = waits.open.get_mut(ticket) else { return Poll::Ready(Ok(())) };
                leave(&mut open.waiting, cx.waker());
                if self.is_replaced() { Poll::Ready(Err(void())) } else { Poll::Pending }
            })
            .await?;
        }
        Ok(())
    }

    /// Ready when backups have acknowledged all tickets up to this one.
    ///
    /// # Errors
    /// [`LogError::Gone`] if any of these tickets have become void since the read.
    async fn acknowledged_up_to(&self, ticket: Ticket) -> Result<(), LogError> {
        poll_fn(|cx| {
            let mut waits = self.backups.waits.lock();
            if waits.may_have_seen_void(ticket) {
                return Poll::Ready(Err(void()));
            }
            if waits.is_closed_up_to(ticket) {
                return Poll::Ready(Ok(()));
            }
            leave(waits.readers.entry(ticket).or_default(), cx.waker());
            if self.is_replaced() { Poll::Ready(Err(void())) } else { Poll::Pending }
        })
        .await
    }

    /// Wakes all replies that wait for acknowledgements, so that they check again.
    pub(crate) fn wake_unacknowledged(&self) {
        let waits = self.backups.waits.lock();
        let own = waits.open.values().flat_map(|open| &open.waiting);
        own.chain(waits.readers.values().flatten()).for_each(Waker::wake_by_ref);
    }

    /// Waits until a site with a new copy of a partition has acknowledged all earlier commits; from
    /// then on it counts as a backup. Returns at once if the table has no backups. The site must
    /// also have the tail of the log up to that point: the copy does not come with the tail, and a
    /// successor could otherwise find commits in the copy that lie after the end of the tail.
    ///
    /// # Errors
    /// [`Refusal`]; the site does not count as a backup then.
    pub(crate) async fn backed_by(
        &self,
        table: TableId,
        start: &Key,
        site: SiteId,
    ) -> Result<(), Refusal> {
        if !self.is_backed(table) {
            return Ok(());
        }
        let (_, partition, held) = self.lock_mastered(table, start).await?;
        self.end_learning(site, std::iter::once(&partition));
        let (version, position) = (partition.version(), self.log.end());
        drop(held);
        self.await_ack(&partition, site, version).await?;
        self.await_tail(&partition, site, position).await
    }

    /// Waits until a follower of a partition has acknowledged a version.
    ///
    /// # Errors
    /// [`Refusal::Unfit`] if it has not after [`PATIENCE_NS`].
    pub(crate) async fn await_ack(
        &self,
        partition: &SitePartition,
        site: SiteId,
        version: Version,
    ) -> Result<(), Refusal> {
        let until = self.time.now().0 + PATIENCE_NS;
        self.expect_acks_of(&place(partition));
        while !self.acknowledged_by(&place(partition), version).contains(site) {
            self.serving()?;
            if self.time.now().0 > until {
                let why = format!("is not acknowledged by {site}; try again");
                return Err(self.unfit(partition, why));
            }
            self.send(site, Message::AskAck { partitions: vec![place(partition)] });
            self.next_tick().await;
        }
        Ok(())
    }

    /// Waits until a follower of a partition keeps the tail up to a position.
    ///
    /// # Errors
    /// [`Refusal::Unfit`] if it does not after [`PATIENCE_NS`].
    async fn await_tail(
        &self,
        partition: &SitePartition,
        site: SiteId,
        position: Position,
    ) -> Result<(), Refusal> {
        self.lasting_for_others(position).await?;
        let until = self.time.now().0 + PATIENCE_NS;
        let mut ask_at = 0;
        while !self.is_tailed_by(site, position) {
            self.serving()?;
            let now = self.time.now().0;
            if now > until {
                let why = format!("{site} does not have the end of the log; try again");
                return Err(self.unfit(partition, why));
            }
            if now >= ask_at {
                ask_at = now + self.link_timeouts.gap_ns;
                self.ask_for_tail(site);
            }
            self.next_tick().await;
        }
        Ok(())
    }

    /// Stops counting a follower whose copy is to be dropped, once enough other backups have
    /// acknowledged the version that it has. Otherwise its copy could be the only one of some
    /// commits. Does not wait for fenced followers, nor for those that leave at the same time. A
    /// learner has acknowledged nothing that a reply rests on, so it leaves at once.
    ///
    /// # Errors
    /// [`Refusal::Unfit`] if the others have not after [`PATIENCE_NS`].
    pub(crate) async fn stop_counting(
        &self,
        partition: &SitePartition,
        site: SiteId,
    ) -> Result<(), Refusal> {
        let backups = self.table(partition.table).map_or(Backups::NONE, |table| table.backups());
        if backups.count == 0 {
            return Ok(());
        }
        let (place, until) = (place(partition), self.time.now().0 + PATIENCE_NS);
        let _leaving = Leaving::begin(&self.backups.waits, &place, site);
        loop {
            let leaving = self.backups.waits.lock().books.get(&place).map(|b| b.leaving.clone());
            let others = &partition.followers().without(site) - &leaving.unwrap_or_default();
            let others: SiteSet = others.iter().filter(|other| !self.is_fenced(*other)).collect();
            let is_lost = others.is_empty() || self.is_fenced(site);
            {
                let mut waits = self.backups.waits.lock();
                let book = waits.books.entry(place.clone()).or_default();
                if is_lost
                    || book.learners.contains(site)
                    || book.is_safe(&others, &self.asked(backups.count), book.reached_by(site))
                {
                    // Its later acknowledgements do not count.
                    book.learners.insert(site);
                    break;
                }
            }
            self.serving()?;
            if self.time.now().0 > until {
                let why = format!("what {site} has acknowledged no other backup has; try again");
                return Err(self.unfit(partition, why));
            }
            for other in others.iter() {
                self.send(other, Message::AskAck { partitions: vec![place.clone()] });
            }
            self.next_tick().await;
        }
        self.recount(partition);
        Ok(())
    }

    /// Stores acknowledgements of a partition from now on, also if no ticket is open.
    pub(crate) fn expect_acks_of(&self, place: &Place) {
        self.backups.waits.lock().books.entry(place.clone()).or_default();
    }

    /// The followers that have acknowledged a version of a partition.
    pub(crate) fn acknowledged_by(&self, place: &Place, version: Version) -> SiteSet {
        let waits = self.backups.waits.lock();
        let reached = waits.books.get(place).map_or(&[][..], |book| &book.reached);
        reached.iter().filter(|(_, has)| *has >= version).map(|(site, _)| *site).collect()
    }

    /// True if backups have acknowledged all tickets up to this one.
    pub(crate) fn is_acknowledged(&self, ticket: Ticket) -> bool {
        self.backups.waits.lock().is_closed_up_to(ticket)
    }

    /// True once backups have acknowledged all events of a partition, whose lock the caller holds.
    /// False after [`PATIENCE_NS`], because a change that drops a lost backup may wait for this
    /// lock.
    pub(crate) async fn settled(&self, partition: &SitePartition) -> bool {
        let (place, until) = (place(partition), self.time.now().0 + PATIENCE_NS);
        poll_fn(|cx| {
            let mut waits = self.backups.waits.lock();
            let first = waits.books.get(&place).and_then(|book| book.open.first().copied());
            let Some(open) = first.and_then(|(_, ticket)| waits.open.get_mut(&ticket)) else {
                return Poll::Ready(true);
            };
            leave(&mut open.waiting, cx.waker());
            drop(waits);
            self.ticked.register(cx.waker());
            if self.time.now().0 > until { Poll::Ready(false) } else { Poll::Pending }
        })
        .await
    }

    /// A site begins to follow a partition, and has no copy yet.
    pub(crate) fn begin_learning(&self, partition: &SitePartition, site: SiteId) {
        if self.is_backed(partition.table) {
            let mut waits = self.backups.waits.lock();
            waits.books.entry(place(partition)).or_default().learners = SiteSet::of(site);
        }
    }

    /// True if a follower of a partition has no copy yet, or is about to lose it.
    pub(crate) fn is_learner(&self, partition: &SitePartition, site: SiteId) -> bool {
        let waits = self.backups.waits.lock();
        waits.books.get(&place(partition)).is_some_and(|book| book.learners.contains(site))
    }

    /// Ends learning, because another change has begun. Earlier changes are complete, so every
    /// follower of the partition has its copy, even if its subscription has not arrived.
    pub(crate) fn end_all_learning(&self, partition: &SitePartition) {
        let mut waits = self.backups.waits.lock();
        if let Some(book) = waits.books.get_mut(&place(partition)) {
            book.learners = SiteSet::EMPTY;
        }
        drop(waits);
        self.begin_keeping(partition);
    }

    /// Ends learning for a site that has a copy of these partitions.
    pub(crate) fn end_learning<'p>(
        &self,
        site: SiteId,
        partitions: impl Iterator<Item = &'p Arc<SitePartition>>,
    ) {
        for partition in partitions.filter(|partition| self.is_learner(partition, site)) {
            let mut waits = self.backups.waits.lock();
            let book = waits.books.entry(place(partition)).or_default();
            book.learners = book.learners.without(site);
            drop(waits);
            self.begin_keeping(partition);
        }
    }

    /// Closes tickets after the followers of a partition, or the backups of its table, have
    /// changed.
    pub(crate) fn recount(&self, partition: &SitePartition) {
        let backups = self.table(partition.table).map_or(Backups::NONE, |table| table.backups());
        let (place, asked) = (place(partition), self.asked(backups.count));
        let woken = self.backups.waits.lock().settle(&place, &partition.followers(), &asked);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Makes the open tickets of a partition that was split wait for both parts.
    pub(crate) fn split_tickets(&self, partition: &SitePartition, at: &Key) {
        let (left, right) = (place(partition), (partition.table, at.clone()));
        let mut waits = self.backups.waits.lock();
        let Some(book) = waits.books.get(&left) else { return };
        let open = book.open.clone();
        for (_, ticket) in &open {
            if let Some(open) = waits.open.get_mut(ticket) {
                open.places.push(right.clone());
            }
        }
        waits.books.insert(right, Book { open, ..Book::default() });
    }

    /// Moves the tickets of the right partition to the left one, which is at `version` after the
    /// merge.
    pub(crate) fn merge_tickets(&self, left: &SitePartition, right: &Key, version: Version) {
        begin_acks(self, left, version);
        let (left, right) = (place(left), (left.table, right.clone()));
        let mut waits = self.backups.waits.lock();
        let Some(merged) = waits.books.remove(&right) else { return };
        for (_, ticket) in merged.open {
            if let Some(open) = waits.open.get_mut(&ticket) {
                open.places.retain(|other| *other != right && *other != left);
                open.places.push(left.clone());
            }
            // Acknowledgements of the left partition do not cover versions of the right one.
            let book = waits.books.entry(left.clone()).or_default();
            book.open.retain(|(_, other)| *other != ticket);
            book.open.push((version, ticket));
        }
    }

    /// Ends the tickets of a partition that has left the site. New reads do not find it any more.
    pub(crate) fn end_tickets(&self, partition: &SitePartition, ending: Ending) {
        let place = place(partition);
        let mut waits = self.backups.waits.lock();
        let Some(book) = waits.books.remove(&place) else { return };
        let open: Vec<Ticket> = book.open.into_iter().map(|(_, ticket)| ticket).collect();
        if ending == Ending::Void
            && let Some(first) = open.iter().min().copied()
        {
            waits.last += 1;
            let next = waits.last;
            waits.voided.insert(next, first);
            waits.void.extend(&open);
            self.backups.void_count.store(waits.voided.len(), Ordering::SeqCst);
        }
        let woken = waits.close(&place, &open);
        drop(waits);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Records the acknowledgements of a follower.
    pub(crate) fn hear_ack(&self, from: SiteId, events: Vec<Reached>) {
        for Reached { table, start, version } in events {
            let Some(table) = self.table(table) else { continue };
            let Some(partition) = table.starting_at(&start) else { continue };
            let (followers, place) = (partition.followers(), (table.id, start));
            let mut waits = self.backups.waits.lock();
            let Some(book) = waits.books.get_mut(&place) else { continue };
            book.reach(from, version);
            let asked = self.asked(table.backups().count);
            let woken = waits.settle(&place, &followers, &asked);
            drop(waits);
            woken.into_iter().for_each(Waker::wake);
        }
        self.tell_done_early();
    }

    /// Asks followers for acknowledgements that may have been lost. Part of a tick.
    pub(crate) fn ask_for_acks(&self) {
        let now = self.time.now();
        let is_due = |open: &Open| now.0.saturating_sub(open.asked.0) >= self.link_timeouts.gap_ns;
        let mut asked: BTreeMap<SiteId, Vec<Place>> = BTreeMap::new();
        let mut places: Vec<Place> = {
            let mut waits = self.backups.waits.lock();
            let due = waits.open.values_mut().filter(|open| is_due(open));
            due.flat_map(|open| {
                open.asked = now;
                open.places.clone()
            })
            .collect()
        };
        places.sort();
        places.dedup();
        for place in places {
            let partition = self.table(place.0).and_then(|table| table.starting_at(&place.1));
            let Some(partition) = partition else { continue };
            for site in partition.followers().iter() {
                asked.entry(site).or_default().push(place.clone());
            }
        }
        for (site, partitions) in asked {
            self.send(site, Message::AskAck { partitions });
        }
    }

    /// Sets the number of backups that a table's commits wait for. Ready when backups have
    /// acknowledged all earlier commits.
    ///
    /// # Errors
    /// [`Refusal::Log`]; nothing has changed then.
    pub async fn set_backups(&self, table: TableId, backups: Backups) -> Result<(), Refusal> {
        let table = self.table_or_new(table);
        // All partitions are locked, so that every later commit sees the new number.
        let held = self.hold_all(&table).await;
        if table.backups() != backups {
            let mut frame = FrameWriter::new(FrameKind::Commit);
            let (id, start, event) = (table.id, Key::min(), Event::Backups(backups));
            frame.record(&Record { table: id, start, previous: 0, version: 0, event });
            let _shaping = self.shaping.read();
            self.append(frame, std::iter::once(SiteSet::EMPTY))?;
            table.set_backups(backups);
        }
        self.expect_acks(&table);
        self.expect_heard(&table);
        drop(held);
        let seen = Seen { position: self.log.end(), ticket: self.last_ticket() };
        self.safe(seen, &[]).await.map_err(|_| Refusal::Unavailable(self.id))
    }

    /// Opens tickets for all partitions of a table that this site masters, because it does not know
    /// what followers have. The next tick asks them. Closes tickets that need no acknowledgement.
    pub(crate) fn expect_acks(&self, table: &Table) {
        for (_, partition) in table.partitions.load().iter().filter(|(_, p)| p.is_master()) {
            begin_acks(self, partition, partition.version());
            self.recount(partition);
            self.begin_keeping(partition);
            let ticket = self.open_ticket(table.backups(), partition, partition.version());
            let mut waits = self.backups.waits.lock();
            if let Some(open) = ticket.and_then(|ticket| waits.open.get_mut(&ticket)) {
                open.asked = Time::ZERO;
            }
        }
    }

    // ----------------------------------------------------------------------------- at a follower

    /// Owes an acknowledgement for an event of another site's log. It was applied to a partition,
    /// and is in the site's own log up to `end`.
    pub(crate) fn owe_ack(
        &self,
        table: &Table,
        partition: &SitePartition,
        to: SiteId,
        (event, end): (&Event<'_>, Position),
    ) {
        if table.is_backed() {
            // Waits for the disk: a follower with a change of the design on disk does not request
            // it again.
            let is_in_memory = !table.backups().on_disk && matches!(event, Event::Write(_));
            let end = if is_in_memory { 0 } else { end };
            let due = Due { to, reached: reached(partition), end };
            self.backups.due.lock().push(due);
        }
    }

    /// Answers a master's question for acknowledgements, also if the tables have no backups here.
    pub(crate) fn asked_for_acks(&self, from: SiteId, partitions: Vec<(TableId, Key)>) {
        for (table, start) in partitions {
            let Some(table) = self.table(table) else { continue };
            if let Some(partition) = table.starting_at(&start) {
                let due = Due { to: from, reached: reached(&partition), end: self.log.end() };
                self.backups.due.lock().push(due);
            }
        }
        self.send_acks();
    }

    /// Sends the acknowledgements whose log position is durable.
    pub(crate) fn send_acks(&self) {
        let durable = self.log.durable();
        let mut acks: BTreeMap<SiteId, BTreeMap<(TableId, Key), Version>> = BTreeMap::new();
        for Due { to, reached, .. } in
            self.backups.due.lock().extract_if(.., |due| due.end <= durable)
        {
            let Reached { table, start, version } = reached;
            let last = acks.entry(to).or_default().entry((table, start)).or_default();
            *last = version.max(*last);
        }
        for (to, reached) in acks {
            let events = reached
                .into_iter()
                .map(|((table, start), version)| Reached { table, start, version })
                .collect();
            self.send(to, Message::Ack { events });
        }
    }

    /// The number of backups of a table, as seen from this site.
    pub(crate) fn asked(&self, count: u8) -> Asked<'_> {
        Asked { count, site: self.id, domains: &self.domains }
    }

    pub(crate) fn is_backed(&self, table: TableId) -> bool {
        self.table(table).is_some_and(|table| table.is_backed())
    }
}
