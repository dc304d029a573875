//! Refresh transactions: a replica applies the events that its master ships.
//!
//! The events of one partition are applied in the order of its versions, each as soon as the
//! version to which it applies is reached. Partitions are independent, so any thread may apply: the
//! one that received the feed, or a reader that waits for the partition. Rows keep the master's
//! commit time, so readers at earlier times are not disturbed. The only lock taken is the
//! partition's write lock, for which no reader waits.
//!
//! ```text
//!   pending of t1[0..10) at version 7:    8→9 write    7→8 split at 5     10→11 write (a gap: waits)
//!   apply 7→8: [0..10) becomes [0..5) and [5..10), both at 8; pending events stay with [0..5), and
//!              those that arrived early for [5..10) are taken from the early events
//!   apply 8→9: rows of [0..5)
//! ```
//!
//! **Changes in the stream** (MorphoSys, section 4.4). A **split** is applied as at the master. A
//! **merge** waits until both parts have the versions that they had at the master. After a
//! **release** the replica follows the new master; the new master itself waits for its acquire
//! step. An **acquire** is the new master's first event: from it on, that master's feed covers the
//! partition. So is a **promote**, which comes without a release, from a site that was a replica
//! itself.
//!
//! **Durability.** Each event is logged by the replica when it is applied, so a site recovers
//! without other sites. If its table has backups, the event is acknowledged then
//! ([`crate::backup`]). An event that is still queued is neither logged nor acknowledged.

use crate::frame::FrameKind;
use crate::held::{Held, NotHeld};
use crate::message::FeedItem;
use crate::partition::{SitePartition, Table};
use crate::record::{Event, FrameWriter, Record, Rows, read_frame};
use crate::site::Site;
use isomer_design::{Key, SiteId, Time, Version};
use isomer_log::Position;
use isomer_store::{Stamp, pin};
use std::sync::Arc;

/// Time and place of an event.
#[derive(Clone, Copy)]
pub(crate) struct Came {
    pub(crate) time: Time,
    /// The site whose log it is from, and the position there from which to read on.
    pub(crate) from: SiteId,
    pub(crate) origin: Position,
    /// Its end in this site's own log.
    pub(crate) position: Position,
}

impl Site {
    /// Applies the queued events of a partition, as far as its versions allow, unless its lock is
    /// held. Then continues with the parts that splits have made of it, and with its left
    /// neighbour, if that waits to be merged with it.
    pub(crate) fn apply_pending(&self, partition: &Arc<SitePartition>) {
        let mut work = vec![partition.clone()];
        let mut look_around = true;
        while let Some(partition) = work.pop() {
            look_around |= self.apply_run(&partition, &mut work);
            if look_around {
                work.extend(self.left_to_merge(&partition));
            }
            look_around = false;
        }
    }

    /// Applies a partition's events one after the other; false if there was none to apply. Adds the
    /// right parts of splits to `work`.
    fn apply_run(
        &self,
        partition: &Arc<SitePartition>,
        work: &mut Vec<Arc<SitePartition>>,
    ) -> bool {
        let mut partition = partition.clone();
        let mut applied = false;
        while self.has_next(&partition) {
            let Some(next) = self.apply_next(&partition) else { break };
            if !Arc::ptr_eq(&partition, &next) {
                work.extend(self.table(next.table).and_then(|table| {
                    let map = table.partitions.load();
                    map.after(&next.range.start).map(|(_, right)| right.clone())
                }));
            }
            partition = next;
            applied = true;
        }
        applied
    }

    /// The left neighbour, if it waits to be merged.
    fn left_to_merge(&self, partition: &SitePartition) -> Option<Arc<SitePartition>> {
        let table = self.table(partition.table)?;
        let map = table.partitions.load();
        let left = map.before(&partition.range.start).map(|(_, left)| left.clone());
        left.filter(|left| !left.is_master() && self.merge_is_next(left))
    }

    /// True if the partition's next event has arrived. Drops the events that it has seen already;
    /// once none is left, the partition no longer lags, and its waiters are woken.
    fn has_next(&self, partition: &SitePartition) -> bool {
        let mut pending = partition.pending.lock();
        let version = partition.version();
        let mut forgot = false;
        while pending.first_key_value().is_some_and(|(&previous, _)| previous < version) {
            pending.pop_first();
            forgot = true;
        }
        if forgot && pending.is_empty() {
            partition.set_lagging(false);
        }
        pending.contains_key(&version) && !partition.is_gone()
    }

    fn merge_is_next(&self, partition: &SitePartition) -> bool {
        let pending = partition.pending.lock();
        let Some(FeedItem::Record { frame, at, .. }) = pending.get(&partition.version()) else {
            return false;
        };
        let (_, records) = read_frame(frame).expect("the master wrote a frame");
        matches!(records[*at].event, Event::Merge { .. })
    }

    /// Applies the next event. Returns the partition to continue with, or `None` if the lock is
    /// held, or an event is missing.
    fn apply_next(&self, partition: &Arc<SitePartition>) -> Option<Arc<SitePartition>> {
        let mut held = Held::default();
        match held.lock_once(partition) {
            Ok(()) => {}
            // The holder may not check the queue after it releases the lock.
            Err(NotHeld::Busy) => {
                self.retry.lock().push(partition.clone());
                return None;
            }
            Err(NotHeld::Gone) => {
                return self.table(partition.table)?.starting_at(&partition.range.start);
            }
        }
        let item = partition.pending.lock().get(&partition.version()).cloned();
        let Some(FeedItem::Record { frame, at, position, .. }) = item else {
            return Some(partition.clone());
        };
        let (head, records) = read_frame(&frame).expect("the master wrote a frame");
        if records[at].start != partition.range.start {
            return None; // It ends by a merge, which its left neighbour applies.
        }
        let from = match &records[at].event {
            Event::Promote { to, .. } => *to,
            _ => partition.source()?,
        };
        let came = Came { time: head.time, from, origin: position, position: 0 };
        let after = self.refresh(partition, &records[at], came, &mut held)?;
        self.apply_delays.add(self.time.now().0.saturating_sub(came.time.0) / 1000);
        Some(after)
    }

    /// Logs and applies one event to a replica whose lock is held.
    fn refresh(
        &self,
        partition: &Arc<SitePartition>,
        record: &Record<'_>,
        mut came: Came,
        held: &mut Held,
    ) -> Option<Arc<SitePartition>> {
        let table = self.table(partition.table)?;
        let right = match &record.event {
            Event::Merge { right, right_version } => {
                Some(self.ready_to_merge(&table, right, *right_version, held)?)
            }
            _ => None,
        };
        let mut frame =
            FrameWriter::new(FrameKind::Refresh { from: came.from, position: came.origin });
        frame.record(record);
        let _shaping = self.shaping.read();
        match self.append_refresh(frame, came.time) {
            Ok(position) => came.position = position,
            Err(error) => {
                // The replica stays behind. The next tick retries, unless the log has failed.
                self.trouble(&format!("a replica cannot go on: {error}"));
                if self.failure().is_none() {
                    self.retry.lock().push(partition.clone());
                }
                return None;
            }
        }
        partition.begin_publishing();
        right.iter().for_each(|right| right.begin_publishing());
        let after = self.take_effect(&table, partition, right.as_ref(), record, came);
        self.owe_ack(&table, &after, came.from, (&record.event, came.position));
        self.follow_on(&after, record, came);
        Some(after)
    }

    fn ready_to_merge(
        &self,
        table: &Table,
        start: &Key,
        version: Version,
        held: &mut Held,
    ) -> Option<Arc<SitePartition>> {
        let right = table.starting_at(start)?;
        if held.lock_once(&right).is_err() {
            self.retry.lock().push(right);
            return None;
        }
        (right.version() == version).then_some(right)
    }

    /// Applies an event that is in the log to the partition, at a replica or during recovery. The
    /// partition (and its right neighbour, for a merge) is locked and marked as publishing. Returns
    /// the partition with which the stream continues.
    pub(crate) fn take_effect(
        &self,
        table: &Arc<Table>,
        partition: &Arc<SitePartition>,
        right: Option<&Arc<SitePartition>>,
        record: &Record<'_>,
        came: Came,
    ) -> Arc<SitePartition> {
        let stamp = Stamp { version: record.version, last: came.time };
        match &record.event {
            Event::Split { at } => {
                let (left, _) = self.split_in_two(table, partition, at, stamp, came.position);
                return left;
            }
            Event::Merge { .. } => {
                let right = right.expect("a merge is applied with its right neighbour");
                return self.join(table, partition, right, stamp, came.position);
            }
            Event::Write(rows) => self.install_rows(table, rows, came.time),
            Event::Follow(_) => {}
            Event::Unfollow(site) => {
                if *site == self.id {
                    partition.follow(partition.safe_time(), None);
                    partition.set_unfollowed();
                }
            }
            Event::Release { to, followers } => {
                partition.set_followers(followers.clone());
                partition.set_released_to(Some(*to));
                // No further: the new master's first event may be just after.
                partition.follow(came.time, None);
                if *to != self.id {
                    partition.set_source(Some(*to));
                }
            }
            Event::Acquire { .. } | Event::Promote { .. } => {
                partition.set_released_to(None);
                partition.set_source(Some(came.from));
            }
            Event::Create { .. }
            | Event::Install(_)
            | Event::Copy { .. }
            | Event::Drop
            | Event::Forget
            | Event::Backups(_) => {}
        }
        partition.set_position(came.position);
        if came.from != self.id {
            // A position in the old master's log means nothing in the new one's.
            let released = matches!(record.event, Event::Release { .. });
            partition.set_origin(if released { 0 } else { came.origin });
        }
        partition.end_publishing(stamp.version, stamp.last);
        partition.clone()
    }

    /// After a change of the master or of the bounds: determines the feed that covers the
    /// partition.
    fn follow_on(&self, partition: &Arc<SitePartition>, record: &Record<'_>, came: Came) {
        match &record.event {
            // No feed covered all keys of the split partition, so the parts subscribe again.
            Event::Split { at } if partition.feed().is_none() => {
                let right = self.table(partition.table).and_then(|table| table.starting_at(at));
                let parts: Vec<_> = std::iter::once(partition.clone()).chain(right).collect();
                self.subscribe(&parts);
            }
            Event::Release { to, .. } if *to != self.id => {
                self.subscribe(std::slice::from_ref(partition));
            }
            Event::Acquire { .. } | Event::Promote { .. } => {
                self.follow_new_master(partition, came);
            }
            _ => {}
        }
    }

    /// Applies the consequences of a new master's first event. The master's current stream covers
    /// the partition if it has all later events: the event was logged after the stream had been
    /// opened, or the master has declared the partition joined. Otherwise an earlier stream may
    /// have lost some.
    fn follow_new_master(&self, partition: &Arc<SitePartition>, came: Came) {
        let complete = partition.safe_time().max(came.time);
        let Some(stream) = self.stream_from(came.from) else {
            return self.subscribe(std::slice::from_ref(partition));
        };
        let joined = partition.feed().filter(|feed| Arc::ptr_eq(feed, &stream.feed));
        let is_joined = joined.is_some();
        partition.follow(complete, joined);
        if stream.since.is_some_and(|since| came.origin > since) {
            partition.join(stream.feed, true);
        } else if !is_joined {
            self.subscribe(std::slice::from_ref(partition));
        }
    }

    /// Installs rows unless newer ones are there. During recovery, they may be there already.
    pub(crate) fn install_rows(&self, table: &Table, rows: &Rows<'_>, time: Time) {
        let mut context = self.store.context().expect("transactions are fewer than contexts");
        context.hold();
        let guard = pin();
        for row in rows.iter() {
            let mut spot = table.index.spot(row.key, &guard);
            let time = row.time.unwrap_or(time);
            let newest = context.newest(&mut spot, row.key, &guard);
            if newest.is_none_or(|newest| newest.time() < time) {
                context.install(&table.index, &mut spot, row.key, row.value, time, &guard);
            }
        }
        context.unpin();
        context.collect_some();
    }
}
