//! Design changes at one site: the steps of the operators of MorphoSys (section 4.4).
//!
//! ```text
//!   split, merge       one step at the master
//!   add_replica        follow at the master (gives a snapshot), install at the new replica: `copy`
//!   remove_replica     unfollow at the master, drop at the replica
//!   remaster           release at the old master, acquire at the new one
//! ```
//!
//! Every step is one event: it takes the partition's lock, raises its version, and is one frame of
//! the log, or it has not happened. The router (`isomer-cluster`) composes steps at two sites, and
//! can resume a change after a crash. Steps are idempotent: a repeated step gives the same answer,
//! once its effect is durable.
//!
//! **remaster.** The release turns the old master into a replica that follows the new one. From
//! then on no site writes, until the new master has applied the release, and with it all earlier
//! events. It then takes the mastership with an event of its own. Only that partition waits.

use crate::backup::{Ending, begin_acks};
use crate::error::Refusal;
use crate::failover::until_sole;
use crate::forget::hold;
use crate::frame::FrameKind;
use crate::held::Held;
use crate::partition::{SitePartition, Table, Term};
use crate::record::{Event, FrameWriter, Record};
use crate::site::{Dropped, Site, woken};
use crate::tail::{end_tail_of, replace_tail_of};
use isomer_design::{Key, KeyRange, SiteId, SiteSet, TableId, Time, Version};
use isomer_log::{LogError, Position};
use isomer_store::{Feed, Partition, Stamp};
use serde::{Deserialize, Serialize};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

/// The state of a partition at a site.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Holding {
    /// The table.
    pub table: TableId,
    /// The keys.
    pub range: KeyRange,
    /// Events so far.
    pub version: Version,
    /// The master's site; `None` if that is this one.
    pub source: Option<SiteId>,
    /// At the master: its followers. At a replica, if the partition was released: the next
    /// followers.
    pub followers: SiteSet,
    /// The last master has released it to this site, and no acquisition is known here.
    pub released_to: Option<SiteId>,
}

impl Site {
    /// The partitions of the site, by table and key.
    pub fn holdings(&self) -> Vec<Holding> {
        let tables = self.tables();
        let mut holdings = Vec::new();
        for table in tables.iter() {
            let map = table.partitions.load();
            holdings.extend(map.iter().map(|(_, partition)| Holding {
                table: table.id,
                range: partition.range.clone(),
                version: partition.version(),
                source: partition.source(),
                followers: partition.followers(),
                released_to: partition.released_to(),
            }));
        }
        holdings
    }

    /// Creates partitions of a table, mastered here; all of them or none.
    ///
    /// # Errors
    /// [`Refusal::Unfit`] if a range overlaps one that the site holds; [`Refusal::Log`].
    pub async fn create(&self, table: TableId, ranges: Vec<KeyRange>) -> Result<(), Refusal> {
        let table = self.table_or_new(table);
        for range in &ranges {
            if let Some(there) = table.overlapping(range).first() {
                return Err(self.unfit(there, "overlaps a partition that is to be made".into()));
            }
        }
        let mut frame = FrameWriter::new(FrameKind::Commit);
        for range in &ranges {
            let event = Event::Create { range: range.clone(), followers: SiteSet::EMPTY };
            let (table, start) = (table.id, range.start.clone());
            frame.record(&Record { table, start, previous: 0, version: 1, event });
        }
        let nobody = ranges.iter().map(|_| SiteSet::EMPTY);
        let shaping = self.shaping.read();
        let (time, position) = self.append(frame, nobody)?;
        let stamp = Stamp { version: 1, last: time };
        let new: Vec<Arc<SitePartition>> = ranges
            .into_iter()
            .map(|range| {
                let core = Partition::new(table.id, range, stamp, Time::MAX, time);
                let partition = SitePartition::new(core, None, SiteSet::EMPTY);
                partition.set_position(position);
                partition.set_term(Term { begin: position, first: stamp.version });
                Arc::new(partition)
            })
            .collect();
        self.reshape(&table, &[], &new);
        drop(shaping);
        self.lasting(position).await
    }

    /// Splits the partition that holds `at`, so that `at` is the first key of the right part.
    /// Touches no row.
    ///
    /// # Errors
    /// [`Refusal`] if no partition mastered here holds `at` inside its range.
    pub async fn split(&self, table: TableId, at: &Key) -> Result<(), Refusal> {
        let (table, partition, _held) = loop {
            let found = self.mastered_table(table)?;
            let covering = Table::find(&found.partitions.load(), at).cloned();
            let partition =
                covering.ok_or_else(|| self.no_partition(table, format!("holds {at}")))?;
            self.still_master(&partition)?;
            if partition.range.start == *at {
                return self.lasting(self.log.end()).await; // It was split there before.
            }
            let mut held = Held::default();
            if held.wait_for(&partition).await {
                self.still_master(&partition)?;
                break (found, partition, held);
            }
        };
        let mut frame = FrameWriter::new(FrameKind::Commit);
        frame.record(&partition.next_record(Event::Split { at: at.clone() }));
        let position = self.change(&[&partition], frame, |time, position| {
            let stamp = Stamp { version: partition.version() + 1, last: time };
            self.split_in_two(&table, &partition, at, stamp, position);
        })?;
        self.lasting(position).await
    }

    /// Merges the two partitions that meet at `at`. Touches no row.
    ///
    /// # Errors
    /// [`Refusal`] unless both are mastered here and have the same followers.
    pub async fn merge(&self, table: TableId, at: &Key) -> Result<(), Refusal> {
        let (table, left, right, _held) = loop {
            let found = self.mastered_table(table)?;
            let map = found.partitions.load_full();
            let wanted = || self.no_partition(table, format!("begins at {at}"));
            let right = Table::find(&map, at).ok_or_else(wanted)?;
            self.still_master(right)?;
            if right.range.start != *at {
                return self.lasting(self.log.end()).await; // They were merged before.
            }
            let wanted = || self.no_partition(table, format!("ends at {at}"));
            let left = map.before(at).map(|(_, left)| left).ok_or_else(wanted)?;
            if left.range.end.as_ref() != Some(at) {
                return Err(wanted());
            }
            self.still_master(left)?;
            if let Some(held) = hold(self, [left, right].into_iter(), || false).await {
                self.still_master(left)?;
                self.still_master(right)?;
                break (found, left.clone(), right.clone(), held);
            }
        };
        if left.followers() != right.followers() {
            let (ours, theirs) = (left.followers(), right.followers());
            let why = format!(
                "has replicas at {ours}, its neighbour at {theirs}; give both the same first"
            );
            return Err(self.unfit(&left, why));
        }
        let version = left.version().max(right.version()) + 1;
        let event =
            Event::Merge { right: right.range.start.clone(), right_version: right.version() };
        let mut frame = FrameWriter::new(FrameKind::Commit);
        frame.record(&Record { version, ..left.next_record(event) });
        let position = self.change(&[&left, &right], frame, |time, position| {
            self.join(&table, &left, &right, Stamp { version, last: time }, position);
        })?;
        self.lasting(position).await
    }

    /// Ends the following of a partition by `site`.
    ///
    /// # Errors
    /// [`Refusal`] unless the partition that begins at `start` is mastered here, and has enough
    /// backups without `site`.
    pub async fn unfollow(&self, table: TableId, start: &Key, site: SiteId) -> Result<(), Refusal> {
        let found = self.mastered_table(table)?;
        let wanted = || self.no_partition(table, format!("begins at {start}"));
        let partition = found.starting_at(start).ok_or_else(wanted)?;
        self.still_master(&partition)?;
        if !partition.followers().contains(site) {
            // It was unfollowed before.
            self.lasting(self.log.end()).await?;
            return Ok(replace_tail_of(self, site).await?);
        }
        let (partition, held) = loop {
            // Not under the lock: its holder may wait for this follower.
            self.stop_counting(&partition, site).await?;
            let (_, locked, held) = self.lock_mastered(table, start).await?;
            // It counts again if its subscription has arrived meanwhile.
            if !self.is_backed(table) || self.is_learner(&locked, site) {
                break (locked, held);
            }
        };
        self.end_all_learning(&partition);
        // The event itself still goes to the follower, as the last one of its stream.
        let position = loop {
            let mut frame = FrameWriter::new(FrameKind::Commit);
            frame.record(&partition.next_record(Event::Unfollow(site)));
            match self.publish(&[&partition], frame, |_| {}) {
                Ok((_, position)) => break position,
                // The follower no longer counts, so the change must go through.
                Err(error) if error.is_worth_retrying() => self.next_tick().await,
                Err(error) => return Err(error.into()),
            }
        };
        partition.set_followers(partition.followers().without(site));
        self.recount(&partition);
        // The copy arrived, or never will. Its next answer tells whether it still needs the log.
        self.has_copies(site, std::iter::once(&partition));
        drop(held);
        self.lasting(position).await?;
        // Ships first: a follower applies only events whose tail it keeps.
        self.ship();
        // Before the answer: the follower then drops its copy, and with it the knowledge that it
        // has kept the tail.
        Ok(end_tail_of(self, site).await?)
    }

    /// Drops the replicas here within a range, once they have applied the event that unfollows
    /// them. Running readers finish; the rows are freed after them.
    ///
    /// # Errors
    /// [`Refusal::Unfit`] if the site is the master; [`Refusal::Log`].
    pub async fn drop_replica(&self, table: TableId, range: &KeyRange) -> Result<(), Refusal> {
        let table = self.table_or_new(table);
        while let Some(partition) = table.overlapping(range).first().cloned() {
            let mut held = Held::default();
            if !held.wait_for(&partition).await {
                continue;
            }
            if partition.is_master() || partition.released_to() == Some(self.id) {
                return Err(self.unfit(&partition, "is mastered here; remaster it first".into()));
            }
            let is_let_go = || partition.is_unfollowed() || self.hears_no_master_of(&partition);
            if !is_let_go() {
                // The replica is behind: it may still have to be split, or merged with a neighbour.
                drop(held);
                self.progress_of(&partition, || is_let_go() || partition.is_gone()).await?;
                continue;
            }
            self.end_copy(&table, &partition, Ending::Closed)?;
        }
        self.forget_early_events(table.id, range);
        self.lasting(self.log.end()).await
    }

    /// True for a copy that cannot be told of its end, because the site that it follows is fenced
    /// here.
    fn hears_no_master_of(&self, partition: &SitePartition) -> bool {
        partition.source().is_some_and(|source| self.is_fenced(source))
    }

    /// Ends a partition at this site. The caller holds its lock.
    pub(crate) fn end_copy(
        &self,
        table: &Arc<Table>,
        partition: &Arc<SitePartition>,
        ending: Ending,
    ) -> Result<(), Refusal> {
        self.begin_publishing(partition);
        let mut frame = FrameWriter::new(FrameKind::Commit);
        let (table_id, start) = (table.id, partition.range.start.clone());
        let (previous, version) = (partition.version(), partition.version());
        let event = Event::Drop;
        frame.record(&Record { table: table_id, start, previous, version, event });
        let _shaping = self.shaping.read();
        match self.append(frame, std::iter::once(SiteSet::EMPTY)) {
            Ok(_) => {
                self.end_replica(table, partition, ending);
                Ok(())
            }
            Err(error) => {
                partition.cancel_publishing();
                Err(error.into())
            }
        }
    }

    pub(crate) fn forget_early_events(&self, table: TableId, range: &KeyRange) {
        let mut early_events = self.links.early_events.lock();
        early_events.retain(|(id, start), _| *id != table || !range.contains(start));
    }

    /// Releases the mastership of a partition to a follower.
    ///
    /// # Errors
    /// [`Refusal`] unless the partition is mastered here, `to` follows it, and `to` is not fenced.
    pub async fn release(&self, table: TableId, start: &Key, to: SiteId) -> Result<(), Refusal> {
        if let Some(there) = self.table_or_new(table).starting_at(start)
            && there.released_to() == Some(to)
        {
            // It was released before.
            self.lasting(self.log.end()).await?;
            return Ok(replace_tail_of(self, to).await?);
        }
        // The next master may commit at any time after that of the release.
        until_sole(self).await?;
        let (_, partition, held) = self.lock_mastered(table, start).await?;
        if !partition.followers().contains(to) {
            let why = format!("has no replica at {to}; add one before the mastership goes there");
            return Err(self.unfit(&partition, why));
        }
        self.end_all_learning(&partition);
        if !self.settled(&partition).await {
            let why = "waits for backups that do not acknowledge; try again".into();
            return Err(self.unfit(&partition, why));
        }
        if self.is_backed(table) {
            // If this site fails next, no other site could send `to` the events that it lacks.
            self.await_ack(&partition, to, partition.version()).await?;
        }
        if self.is_fenced(to) {
            return Err(self.unfit(&partition, format!("hears nothing of {to}")));
        }
        let followers = partition.followers().without(to).with(self.id);
        let mut frame = FrameWriter::new(FrameKind::Commit);
        frame.record(&partition.next_record(Event::Release { to, followers: followers.clone() }));
        let (_, position) = self.publish(&[&partition], frame, |time| {
            // Before the mark is removed: from now on this copy is a replica, and a checkpoint must
            // agree with the log.
            partition.follow(time, None);
            partition.set_followers(followers);
            partition.set_source(Some(to));
            partition.set_released_to(Some(to));
        })?;
        drop(held);
        self.ship();
        // As every replica does after a change of the master: the new one may not have a stream to
        // this site.
        self.subscribe(std::slice::from_ref(&partition));
        self.lasting(position).await?;
        self.ship();
        // Before the answer: a site that has acquired the partition is no follower any more.
        Ok(replace_tail_of(self, to).await?)
    }

    /// Takes the mastership that was released to this site, once the release, and so all earlier
    /// events, have been applied here.
    ///
    /// # Errors
    /// [`Refusal::NoPartition`] if the site holds no replica that begins at `start`;
    /// [`Refusal::Unfit`] if the release has not arrived, and the old master is fenced.
    pub async fn acquire(&self, table: TableId, start: &Key) -> Result<(), Refusal> {
        let mut held = Held::default();
        let partition = loop {
            let found = self.mastered_table(table)?;
            let covering = Table::find(&found.partitions.load(), start).cloned();
            let wanted = || format!("begins at {start}, nor a replica that could become one");
            let partition = covering.ok_or_else(|| self.no_partition(table, wanted()))?;
            let begins_there = partition.range.start == *start;
            if begins_there && partition.is_master() {
                return self.lasting(self.log.end()).await; // It was acquired before.
            }
            // The replica may still have to apply the split that made the partition, and later
            // events.
            let ready = || begins_there && partition.released_to() == Some(self.id);
            if ready() {
                if held.wait_for(&partition).await && ready() {
                    break partition;
                }
                held.release();
                continue;
            }
            if self.hears_no_master_of(&partition) {
                return Err(self.unfit(&partition, "hears nothing of its last master".into()));
            }
            self.progress_of(&partition, || ready() || partition.is_gone()).await?;
        };
        let followers = partition.followers();
        let mut frame = FrameWriter::new(FrameKind::Commit);
        frame.record(&partition.next_record(Event::Acquire { followers: followers.clone() }));
        let (begin, first) = (self.log.end(), partition.version() + 1);
        let (_, position) = self.publish(&[&partition], frame, |_| {
            partition.set_source(None);
            partition.set_released_to(None);
            partition.set_origin(0);
            partition.set_term(Term { begin, first });
            partition.become_master();
        })?;
        begin_acks(self, &partition, partition.version());
        self.expect_followers(&followers, begin);
        self.begin_keeping(&partition);
        drop(held);
        self.lasting(position).await
    }

    /// Waits until a replica moves on, unless `enough` holds; applies its pending events. A failed
    /// log, which stops the replica, is noticed at the next tick.
    async fn progress_of(
        &self,
        partition: &Arc<SitePartition>,
        enough: impl Fn() -> bool,
    ) -> Result<(), LogError> {
        poll_fn(|cx| {
            partition.progress.register(cx.waker());
            self.ticked.register(cx.waker());
            Poll::Ready(())
        })
        .await;
        self.apply_pending(partition);
        if !enough() {
            self.serving()?;
            woken().await;
        }
        Ok(())
    }

    // ------------------------------------------------------------------------ shared by all roles

    /// Replaces a partition by its two parts, which begin with its version, rows and followers.
    pub(crate) fn split_in_two(
        &self,
        table: &Arc<Table>,
        old: &Arc<SitePartition>,
        at: &Key,
        stamp: Stamp,
        position: Position,
    ) -> (Arc<SitePartition>, Arc<SitePartition>) {
        let left = KeyRange::new(old.range.start.clone(), Some(at.clone()));
        let right = KeyRange::new(at.clone(), old.range.end.clone());
        let [left, right] =
            [left, right].map(|range| self.successor(&[old], range, stamp, position));
        self.split_tickets(old, at);
        self.succeed(table, &[old], &[left.clone(), right.clone()]);
        (left, right)
    }

    /// Replaces two neighbours by one partition.
    pub(crate) fn join(
        &self,
        table: &Arc<Table>,
        left: &Arc<SitePartition>,
        right: &Arc<SitePartition>,
        stamp: Stamp,
        position: Position,
    ) -> Arc<SitePartition> {
        let range = KeyRange::new(left.range.start.clone(), right.range.end.clone());
        let merged = self.successor(&[left, right], range, stamp, position);
        self.merge_tickets(left, &right.range.start, stamp.version);
        self.succeed(table, &[left, right], std::slice::from_ref(&merged));
        merged
    }

    /// A partition that replaces others, in the same role.
    fn successor(
        &self,
        old: &[&Arc<SitePartition>],
        range: KeyRange,
        stamp: Stamp,
        position: Position,
    ) -> Arc<SitePartition> {
        let first = old[0];
        let complete = old.iter().map(|p| p.safe_time()).min().expect("at least one");
        let since = old.iter().map(|p| p.since()).max().expect("at least one");
        let core = Partition::new(first.table, range, stamp, complete, since);
        let successor = SitePartition::new(core, first.source(), first.followers());
        successor.inherit(first, position);
        successor.set_origin(old.iter().map(|p| p.origin()).min().expect("at least one"));
        successor.set_term(old.iter().map(|p| p.term()).reduce(Term::with).expect("at least one"));
        if !first.is_master() {
            // Until its queue is known to be empty: the feed may be closed beyond queued events.
            successor.set_lagging(true);
            successor.follow(complete, None);
            inherit_feed(&successor, old);
        }
        Arc::new(successor)
    }

    /// Replaces old partitions, which are locked and publishing, by their successors, and moves the
    /// queued events to these.
    fn succeed(&self, table: &Table, old: &[&Arc<SitePartition>], new: &[Arc<SitePartition>]) {
        let mut early_events = self.links.early_events.lock();
        for old in old {
            old.retire();
            let waiting = std::mem::take(&mut *old.pending.lock());
            let place = (old.table, old.range.start.clone());
            early_events.entry(place).or_default().extend(waiting);
        }
        Table::adopt(&mut early_events, new);
        early_events.retain(|_, events| !events.is_empty());
        let starts: Vec<&Key> = old.iter().map(|old| &old.range.start).collect();
        self.reshape(table, &starts, new);
    }

    /// Removes a replica from the site; its rows are freed later.
    pub(crate) fn end_replica(
        &self,
        table: &Arc<Table>,
        partition: &SitePartition,
        ending: Ending,
    ) {
        let range = partition.range.clone();
        partition.retire();
        self.end_unheard(partition);
        {
            // A reader that misses the partition finds its rows in `dropped`, and waits for them.
            let mut dropped = self.dropped.lock();
            let readers = self.reshape(table, &[&partition.range.start], &[]);
            dropped.push(Dropped { table: table.clone(), range, readers });
        }
        self.end_tickets(partition, ending);
    }

    fn change(
        &self,
        partitions: &[&Arc<SitePartition>],
        frame: FrameWriter,
        take_effect: impl FnOnce(Time, Position),
    ) -> Result<Position, LogError> {
        partitions.iter().for_each(|partition| self.begin_publishing(partition));
        let _shaping = self.shaping.read();
        // The record is in the stream of the first partition; all of them have the same followers.
        match self.append(frame, std::iter::once(partitions[0].followers())) {
            Ok((time, position)) => {
                take_effect(time, position);
                Ok(position)
            }
            Err(error) => {
                partitions.iter().for_each(|partition| partition.cancel_publishing());
                Err(error)
            }
        }
    }

    /// Waits until a step is durable. If the log fails first, it is unknown whether the step was
    /// taken, and the caller must ask the site again after its restart.
    pub(crate) async fn lasting(&self, position: Position) -> Result<(), Refusal> {
        self.durable(position).await.map_err(|_| Refusal::Unavailable(self.id))
    }

    fn mastered_table(&self, table: TableId) -> Result<Arc<Table>, Refusal> {
        self.table(table).ok_or(Refusal::NoTable { site: self.id, table })
    }

    pub(crate) async fn lock_mastered(
        &self,
        table: TableId,
        start: &Key,
    ) -> Result<(Arc<Table>, Arc<SitePartition>, Held), Refusal> {
        loop {
            let found = self.mastered_table(table)?;
            let wanted = || format!("begins at {start}");
            let partition =
                found.starting_at(start).ok_or_else(|| self.no_partition(table, wanted()))?;
            let mut held = Held::default();
            if held.wait_for(&partition).await {
                self.still_master(&partition)?;
                return Ok((found, partition, held));
            }
        }
    }

    fn still_master(&self, partition: &SitePartition) -> Result<(), Refusal> {
        if partition.is_master() {
            return Ok(());
        }
        Err(self.unfit(partition, "is a replica here; ask its master".into()))
    }

    pub(crate) fn no_partition(&self, table: TableId, wanted: String) -> Refusal {
        Refusal::NoPartition { site: self.id, table, wanted }
    }

    pub(crate) fn unfit(&self, partition: &SitePartition, why: String) -> Refusal {
        let (table, range) = (partition.table, partition.range.to_string());
        Refusal::Unfit { site: self.id, table, range, why }
    }
}

/// Lets a successor use the feed of the partitions that it replaces. The right part of a split has
/// a feed only if that covers all keys; a merged partition uses the left part's stream.
fn inherit_feed(successor: &SitePartition, old: &[&Arc<SitePartition>]) {
    let whole: Vec<Option<Arc<Feed>>> = old.iter().map(|p| p.whole_feed()).collect();
    match (&whole[..], old[0].feed()) {
        ([Some(feed)], _) => successor.join(feed.clone(), true),
        ([Some(left), Some(right)], _) if Arc::ptr_eq(left, right) => {
            successor.join(left.clone(), true)
        }
        ([_, _], Some(feed)) => successor.join(feed, false),
        _ => {}
    }
}
