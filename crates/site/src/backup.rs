//! Synchronous backups: a reply waits until enough followers have acknowledged what it rests on.
//!
//! A backup is a follower like any other ([`crate::link`]): it gets the same events by the same stream, and
//! applies them in the same order. What is different is what waits for it:
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
//! **Acknowledgements are of versions.** The events of a partition are a chain, so who has version 8 has all
//! before; and restarts and links that are opened anew change nothing about that. So an acknowledgement is right
//! however late it comes, and may be repeated. What waits for a partition that is split waits for both parts.
//!
//! **Who counts.** Any k of the followers whose copies are there, or all of them if there are
//! fewer: a table goes on while a lost backup is replaced, and has then lost one of the k sites
//! that it may lose. They are at k other processes than the master, or at as many as the followers
//! are at ([`Domains`]): the sites of a process are lost together. A follower whose copy is on its
//! way is a *learner*. It counts once it subscribes, or the next change begins.
//!
//! **Who waits.**
//!
//! | what | for |
//! | --- | --- |
//! | the reply to a commit | its own tickets |
//! | the reply to what was read at the master | all tickets up to the last one when it read |
//! | a participant, before it says that it is done | the same, as of its end |
//! | a coordinator, before it replies | that, if a participant wrote to such a table |
//! | a release of mastership | the partition's tickets: whoever is master next need not know of them; and that the next one has all |
//! | a site that has recovered | acknowledgements of all that it masters: it does not know what it had |
//! | a change that adds a copy | its acknowledgement of what was committed without it, and that it keeps the tail up to there: from then on it counts |
//! | a change that lets a copy go | acknowledgements by enough others of what was committed with its own |
//!
//! Locks are given back before: others may read and write what is not acknowledged yet, and wait for it in turn.
//! A request that [does not wait for the disk](crate::Request::is_asynchronous) does not wait here either.
//!
//! **Loss.** A follower acknowledges once. A master that waits for long [asks](Message::AskAck) those who may have
//! what it waits for, again and again.
//!
//! **Void.** If others take a partition over ([`crate::tail`]), nobody will acknowledge what its former master has in
//! doubt: who waits for that hears that the outcome is unknown.
//!
//! **Left out.** A reply to what was read at a replica rests on the master and that replica only, however many
//! backups the table asks for.

use crate::error::{Failure, Refusal};
use crate::failover::PATIENCE_NS;
use crate::frame::FrameKind;
use crate::message::Message;
use crate::partition::{SitePartition, Table};
use crate::record::{Event, FrameWriter, Record};
use crate::site::Site;
use futures_util::future::{Either, select};
use isomer_design::{Backups, Domains, Key, SiteId, SiteSet, TableId, Time, Version};
use isomer_log::{LogError, Position};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// Names an event that backups have to acknowledge; counts from 1 over the run of the site.
pub(crate) type Ticket = u64;

/// A partition that has reached a version.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reached {
    /// The table.
    pub table: TableId,
    /// The partition's first key.
    pub start: Key,
    /// The version.
    pub version: Version,
}

/// The tickets of a commit.
pub(crate) type Tickets = SmallVec<[Ticket; 2]>;

/// What was read at a site, and is to be safe before anybody is told of it.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Seen {
    /// Up to where in the log.
    pub(crate) position: Position,
    /// Up to which of the events that backups have to acknowledge; 0: to none.
    pub(crate) ticket: Ticket,
}

/// What a site knows of backups: those that it waits for, and those that wait for it.
#[derive(Default)]
pub(crate) struct BackupTable {
    waits: Mutex<Waits>,
    due: Mutex<Vec<Due>>,
}

/// A partition, by its table and first key.
pub(crate) type Place = (TableId, Key);

/// At a master: what has not been acknowledged.
#[derive(Default)]
struct Waits {
    last: Ticket,
    open: BTreeMap<Ticket, Open>,
    books: BTreeMap<Place, Book>,
    /// Who waits for all tickets up to one.
    readers: BTreeMap<Ticket, Vec<Waker>>,
    /// Tickets of events that others have made void.
    void: BTreeSet<Ticket>,
}

/// An event that waits.
struct Open {
    /// The partition, or what it was split into: each has to be acknowledged.
    places: Vec<Place>,
    /// When it was opened, or somebody was asked for it last.
    asked: Time,
    waiting: Vec<Waker>,
}

/// What the table of a partition asks for, of the site that masters it.
pub(crate) struct Asked<'s> {
    count: u8,
    site: SiteId,
    domains: &'s Domains,
}

impl Asked<'_> {
    /// True if `has` are enough of the followers `all`.
    pub(crate) fn is_met_by(&self, all: &SiteSet, has: &SiteSet) -> bool {
        self.domains.suffice(self.count, self.site, all, has)
    }
}

/// What is known of the followers of a partition.
#[derive(Default)]
struct Book {
    reached: SmallVec<[(SiteId, Version); 2]>,
    learners: SiteSet,
    open: Vec<(Version, Ticket)>,
}

/// At a follower: an acknowledgement that goes out when our own log is durable up to `end`.
struct Due {
    to: SiteId,
    reached: Reached,
    end: Position,
}

/// Adds a waker, unless it is there.
fn leave(wakers: &mut Vec<Waker>, waker: &Waker) {
    if !wakers.iter().any(|other| other.will_wake(waker)) {
        wakers.push(waker.clone());
    }
}

impl Book {
    /// Raises what a follower is known to have.
    fn reach(&mut self, site: SiteId, version: Version) {
        match self.reached.iter_mut().find(|(other, _)| *other == site) {
            Some((_, reached)) => *reached = version.max(*reached),
            None => self.reached.push((site, version)),
        }
    }

    /// The last version that a follower has acknowledged.
    fn reached_by(&self, site: SiteId) -> Version {
        self.reached.iter().find(|(other, _)| *other == site).map_or(0, |(_, reached)| *reached)
    }

    /// True if enough of the followers have this version.
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

impl Waits {
    /// Closes the tickets of a partition that enough followers have acknowledged. Gives who waited.
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

    /// Closes tickets as far as a partition is concerned. Gives who waited for those that are closed altogether.
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

    fn is_closed_up_to(&self, ticket: Ticket) -> bool {
        self.open.first_key_value().is_none_or(|(first, _)| *first > ticket)
    }
}

impl Site {
    // ------------------------------------------------------------------------------ at the master

    /// Opens a ticket for the event that leads a partition to a version, unless its table asks for no backups.
    /// Before the event can be seen: whoever reads it finds the ticket.
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

    /// Up to which event somebody may have seen who has just read these tables.
    pub(crate) fn seen_ticket<'t>(&self, mut tables: impl Iterator<Item = &'t Table>) -> Ticket {
        if tables.any(Table::is_backed) { self.last_ticket() } else { 0 }
    }

    pub(crate) fn last_ticket(&self) -> Ticket {
        self.backups.waits.lock().last
    }

    /// Ready when the log and the backups are as safe as they promise to be: what was seen, and these events.
    ///
    /// # Errors
    /// [`LogError`], if the log has failed.
    pub(crate) async fn safe(&self, seen: Seen, own: &[Ticket]) -> Result<(), LogError> {
        self.durable(seen.position).await?;
        if own.is_empty() && seen.ticket == 0 {
            return Ok(());
        }
        // Followers are sent what is durable, whether or not commits wait for the disk.
        self.lasting_for_others(seen.position).await?;
        self.ship();
        self.acknowledged(own).await?;
        self.acknowledged_up_to(seen.ticket).await
    }

    /// As [`Site::safe`], for whoever has only read. It waits for what others have written, and nothing is lost if it is
    /// refused: so it is, when nobody knows any more whether that is the newest.
    ///
    /// # Errors
    /// [`Failure::Log`] if the log does not [serve](isomer_log::Log::serving); [`Failure::Unknown`] if it has failed.
    pub(crate) async fn safe_to_show(&self, seen: Seen) -> Result<(), Failure> {
        // Most of what is read is durable, and of tables without backups: it is shown at once.
        if seen.ticket == 0 && self.log.durable() >= seen.position {
            return Ok(());
        }
        // In a box, so that who does not wait is not the larger for it.
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

    /// Ready when backups have acknowledged these events.
    ///
    /// # Errors
    /// [`LogError::Gone`] if they are void: others had taken over from this site.
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

    /// Ready when backups have acknowledged all events up to this one.
    ///
    /// # Errors
    /// [`LogError::Gone`] if events become void while they are waited for.
    async fn acknowledged_up_to(&self, ticket: Ticket) -> Result<(), LogError> {
        let mut before = None;
        poll_fn(|cx| {
            let mut waits = self.backups.waits.lock();
            if *before.get_or_insert(waits.void.len()) != waits.void.len() {
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

    /// Those who wait for acknowledgements may have to wait no more.
    pub(crate) fn wake_unacknowledged(&self) {
        let waits = self.backups.waits.lock();
        let own = waits.open.values().flat_map(|open| &open.waiting);
        own.chain(waits.readers.values().flatten()).for_each(Waker::wake_by_ref);
    }

    /// Waits until a site with a new copy of a partition has acknowledged all that was committed before, if the table
    /// has backups: from then on it is one. It has the tail of the log up to there as well: a copy goes another way, and
    /// whoever takes over would find commits in it that are behind the end of the log, with their other halves nowhere.
    ///
    /// # Errors
    /// [`Refusal`]; it is none then.
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
    /// [`Refusal::Unfit`] if it does not for long.
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
    /// [`Refusal::Unfit`] if it does not for long.
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

    /// Counts a follower of a partition no more, as it is to be let go, once the others who back it have acknowledged as
    /// much: what only this one has would be nowhere else. Of those that are not heard nothing is waited for.
    ///
    /// # Errors
    /// [`Refusal::Unfit`] if they do not for long.
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
        loop {
            let others = partition.followers().without(site);
            let others: SiteSet = others.iter().filter(|other| !self.is_fenced(*other)).collect();
            let is_lost = others.is_empty() || self.is_fenced(site);
            {
                let mut waits = self.backups.waits.lock();
                let book = waits.books.entry(place.clone()).or_default();
                if is_lost
                    || book.is_safe(&others, &self.asked(backups.count), book.reached_by(site))
                {
                    // From this moment on: what it acknowledges from now on counts for nobody.
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

    /// Acknowledgements of a partition are of use, whether or not anything waits for them.
    pub(crate) fn expect_acks_of(&self, place: &Place) {
        self.backups.waits.lock().books.entry(place.clone()).or_default();
    }

    /// Who has acknowledged a version of a partition.
    pub(crate) fn acknowledged_by(&self, place: &Place, version: Version) -> SiteSet {
        let waits = self.backups.waits.lock();
        let reached = waits.books.get(place).map_or(&[][..], |book| &book.reached);
        reached.iter().filter(|(_, has)| *has >= version).map(|(site, _)| *site).collect()
    }

    /// True if backups have acknowledged all events up to this one.
    pub(crate) fn is_acknowledged(&self, ticket: Ticket) -> bool {
        self.backups.waits.lock().is_closed_up_to(ticket)
    }

    /// True when backups have acknowledged all events of a partition, whose lock is held; false if they do not for
    /// long: who lets a lost backup go may wait for whoever holds the partition.
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

    /// A step of another change: those before it are complete, so whoever follows the partition has its copy,
    /// whether or not it has been heard of.
    pub(crate) fn end_all_learning(&self, partition: &SitePartition) {
        let mut waits = self.backups.waits.lock();
        if let Some(book) = waits.books.get_mut(&place(partition)) {
            book.learners = SiteSet::EMPTY;
        }
        drop(waits);
        self.begin_keeping(partition);
    }

    /// A site has a copy of these partitions.
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

    /// The followers of a partition, or what its table asks for, are others now.
    pub(crate) fn recount(&self, partition: &SitePartition) {
        let backups = self.table(partition.table).map_or(Backups::NONE, |table| table.backups());
        let (place, asked) = (place(partition), self.asked(backups.count));
        let woken = self.backups.waits.lock().settle(&place, &partition.followers(), &asked);
        woken.into_iter().for_each(Waker::wake);
    }

    /// A partition was split: what waits for it waits for both parts.
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

    /// The right of two partitions has become part of the left one, which is at `version` now.
    pub(crate) fn merge_tickets(&self, left: &SitePartition, right: &Key, version: Version) {
        let (left, right) = (place(left), (left.table, right.clone()));
        let mut waits = self.backups.waits.lock();
        let Some(merged) = waits.books.remove(&right) else { return };
        for (_, ticket) in merged.open {
            if let Some(open) = waits.open.get_mut(&ticket) {
                open.places.retain(|other| *other != right && *other != left);
                open.places.push(left.clone());
            }
            // What followers have of the left one says nothing of the right one's versions.
            let book = waits.books.entry(left.clone()).or_default();
            book.open.retain(|(_, other)| *other != ticket);
            book.open.push((version, ticket));
        }
    }

    /// Others have taken a partition over from this site: what nobody has acknowledged of it is void.
    pub(crate) fn void_tickets(&self, partition: &SitePartition) {
        let mut waits = self.backups.waits.lock();
        if let Some(book) = waits.books.get(&place(partition)) {
            let open: Vec<Ticket> = book.open.iter().map(|(_, ticket)| *ticket).collect();
            waits.void.extend(open);
        }
    }

    /// A partition has left the site: nobody waits for it here any more.
    pub(crate) fn end_tickets(&self, partition: &SitePartition) {
        let place = place(partition);
        let mut waits = self.backups.waits.lock();
        let Some(book) = waits.books.remove(&place) else { return };
        let open: Vec<Ticket> = book.open.into_iter().map(|(_, ticket)| ticket).collect();
        let woken = waits.close(&place, &open);
        drop(waits);
        woken.into_iter().for_each(Waker::wake);
    }

    /// A follower has acknowledged events.
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

    /// Sees to it that a table's commits are acknowledged by as many backups from now on; all that was committed
    /// before is when this is done.
    ///
    /// # Errors
    /// [`Refusal::Log`]; nothing has changed then.
    pub async fn set_backups(&self, table: TableId, backups: Backups) -> Result<(), Refusal> {
        let table = self.table_or_new(table);
        // Nobody commits who has not heard of it.
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

    /// Opens tickets for all that this site masters of a table, as nobody knows what followers have: the next tick
    /// asks. Closes those that nobody needs.
    pub(crate) fn expect_acks(&self, table: &Table) {
        for (_, partition) in table.partitions.load().iter().filter(|(_, p)| p.is_master()) {
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

    /// An event of another site's log was applied to a partition, and is in our log up to `end`.
    pub(crate) fn owe_ack(
        &self,
        table: &Table,
        partition: &SitePartition,
        to: SiteId,
        (event, end): (&Event<'_>, Position),
    ) {
        if table.is_backed() {
            // A change of the design is not asked for again by who has it.
            let is_in_memory = !table.backups().on_disk && matches!(event, Event::Write(_));
            let end = if is_in_memory { 0 } else { end };
            let due = Due { to, reached: reached(partition), end };
            self.backups.due.lock().push(due);
        }
    }

    /// A master asks what this site has of some partitions: whether or not it has heard that they have backups.
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

    /// Sends the acknowledgements whose time has come.
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

    /// What a table asks for that wants `count` backups.
    pub(crate) fn asked(&self, count: u8) -> Asked<'_> {
        Asked { count, site: self.id, domains: &self.domains }
    }

    pub(crate) fn is_backed(&self, table: TableId) -> bool {
        self.table(table).is_some_and(|table| table.is_backed())
    }
}
