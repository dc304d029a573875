//! Running a transaction at a site.
//!
//! ```text
//!   footprint ─▶ partitions ─▶ locks of the write set, in key order ─▶ snapshot ─▶ procedure
//!                                  busy: wait, holding what is held      replica behind: wait
//!   ─▶ mark as publishing ─▶ time and place in the log ─▶ install ─▶ unmark, unlock ─▶ durable
//! ```
//!
//! An attempt goes as far as it can without waiting. If a lock is held or a replica lags, it
//! registers a waker, and is repeated from the start when woken, with the locks that it already
//! has. Locks are taken in order, so holding them while waiting cannot deadlock. And the versions
//! of the write set cannot change while a replica in the read set catches up.
//!
//! **Snapshot isolation** by strict two-phase locking of written partitions. The snapshot is taken
//! after the locks, so it is not earlier than the last commit to them. No other transaction can
//! have written in between, and there are no conflict aborts. Reads take no lock. **Sessions.** The
//! snapshot is at least the session's time, so a transaction sees all that its session has seen, at
//! any site.
//!
//! **Durability.** With `Durability::Commit`, a reply waits until both the writes and the reads of
//! the transaction are durable. So no client learns of a state that a crash could undo, unless it
//! asked for [asynchronous commit](Request::is_asynchronous).

mod read_at;

pub use read_at::{Pin, Read, ReadSpan, SeenUpTo, VisitRow};

use crate::backup::{BeforeRead, Seen, Tickets};
use crate::error::Failure;
use crate::failover::until_sole;
use crate::frame::FrameKind;
use crate::held::{Held, NotHeld};
use crate::partition::{PartitionMap, SitePartition, Table};
use crate::record::FrameWriter;
use crate::request::{Body, Committed, Mark, Procedure, Progress, Published, Reply, Request};
use crate::site::{Site, woken};
use crate::source::{Copies, Source};
use crate::txn::Txn;
use arc_swap::Guard as Swap;
use isomer_design::{Access, Footprint, Item, RangeMap, Span, Time};
use isomer_log::Position;
use isomer_store::{Context, Index, NotYet, pin, prefetch_all};
use smallvec::SmallVec;
use std::cell::Cell;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// State of a transaction that is kept between attempts.
struct Hold<'s> {
    locks: Held,
    context: Context<'s>,
}

/// A transaction that has run: its times, the state that it has read, and the tickets of its
/// writes.
type Done = (Committed, Seen, Tickets);

/// An attempt must wait. Its waker is registered.
pub(crate) struct Wait;

/// The partitions of a footprint at this site.
pub(crate) struct Resolved<'m> {
    pub(crate) tables: SmallVec<[&'m Arc<Table>; 4]>,
    /// Ordered by table and key, without duplicates.
    pub(crate) partitions: SmallVec<[&'m Arc<SitePartition>; 4]>,
    /// For each partition, whether the footprint writes to it.
    pub(crate) written: SmallVec<[bool; 4]>,
}

impl Site {
    /// Runs code of this process as a transaction: [`Site::run`] with default options.
    ///
    /// # Errors
    /// As [`Site::run`].
    pub async fn execute(
        &self,
        footprint: &Footprint,
        session: Time,
        procedure: &mut dyn Procedure,
    ) -> Result<Committed, Failure> {
        let request = Request { session, ..Request::new(footprint, Body::Here(procedure)) };
        self.run(request, &mut |_| {}).await.map(|reply| reply.committed)
    }

    /// Runs a transaction at this site.
    ///
    /// # Errors
    /// [`Failure::NotHere`] and [`Failure::NotMaster`] if it must run elsewhere;
    /// [`Failure::Abort`] if its body ended it; see [`Failure`] for the others.
    pub async fn run(
        &self,
        mut request: Request<'_>,
        published: Published<'_>,
    ) -> Result<Reply, Failure> {
        self.confirmed().await?;
        if !request.footprint.is_read_only() {
            until_sole(self).await?;
        }
        let mut progress = self.progress(&request, published);
        let mut hold = Hold { locks: Held::default(), context: self.context()? };
        let (committed, seen, own) = loop {
            let attempt =
                |waker: &Waker| self.attempt(&mut request, &mut progress, &mut hold, waker);
            match once(attempt).await? {
                Ok(done) => break done,
                Err(Wait) => woken().await,
            }
        };
        drop(hold);
        match committed.commit {
            _ if request.is_asynchronous => {}
            Some(_) => self.safe(seen, &own).await.map_err(Failure::Unknown)?,
            None => self.safe_to_show(seen).await?,
        }
        if committed.commit.is_none() {
            self.confirmed().await?;
        }
        Ok(progress.reply(committed))
    }

    /// Starts the progress record of a transaction that has just arrived.
    pub(crate) fn progress<'a>(
        &'a self,
        request: &Request<'_>,
        published: Published<'a>,
    ) -> Progress<'a> {
        let mut progress = Progress::new(request.is_measured.then_some(&*self.time), published);
        progress.pass(Mark::Arrived);
        progress
    }

    /// Prefetches the rows of several footprints at once. A caller with several transactions at
    /// hand calls this first, so that their cache misses overlap.
    pub fn warm<'f>(&self, footprints: impl Iterator<Item = &'f Footprint> + Clone) {
        let guard = pin();
        let tables = self.tables();
        let items = footprints.flat_map(|footprint| footprint.items());
        let maps = Maps::load(&tables, items.clone());
        let keys = items.filter_map(|item| match &item.span {
            Span::Key(key) => maps.of(item).map(|(table, map)| (table, map, key.as_bytes())),
            Span::Range(_) => None,
        });
        RangeMap::get_each(keys.clone().map(|(_, map, key)| (map, key)), |_, partition| {
            prefetch_all(&**partition);
        });
        Index::spots(keys.map(|(table, _, key)| (&*table.index, key)), &guard);
    }

    fn attempt(
        &self,
        request: &mut Request<'_>,
        progress: &mut Progress<'_>,
        hold: &mut Hold<'_>,
        waker: &Waker,
    ) -> Result<Result<Done, Wait>, Failure> {
        let footprint = request.footprint;
        let before = self.begin_read();
        let tables = self.tables();
        let maps = Maps::load(&tables, footprint.items().iter());
        let resolved = self.resolve(&maps, footprint)?;
        if self.lock_written(footprint, &resolved, &mut hold.locks, waker)?.is_err() {
            return Ok(Err(Wait));
        }
        progress.pass(Mark::Locked);
        let partitions = resolved.partitions.iter().map(|partition| &****partition);
        let snapshot = match hold.context.snapshot(partitions, request.session, waker) {
            Ok(snapshot) => snapshot,
            Err(not_yet) => {
                self.request_close(&resolved, not_yet, waker)?;
                return Ok(Err(Wait));
            }
        };
        self.run_at((before, snapshot), &resolved, request, progress, hold).map(Ok)
    }

    /// Locks the partitions to write, in the order of keys.
    #[inline]
    pub(crate) fn lock_written(
        &self,
        footprint: &Footprint,
        resolved: &Resolved<'_>,
        locks: &mut Held,
        waker: &Waker,
    ) -> Result<Result<(), Wait>, Failure> {
        for (partition, _) in resolved.partitions.iter().zip(&resolved.written).filter(|(_, w)| **w)
        {
            match locks.lock(partition, waker) {
                Ok(()) if partition.is_master() => {}
                Ok(()) => return Err(self.not_master(footprint, partition)),
                Err(NotHeld::Busy) => {
                    self.hot_locks.track(partition, footprint);
                    return Ok(Err(Wait));
                }
                // Another thread has just replaced it: resolve again at once.
                Err(NotHeld::Gone) => {
                    waker.wake_by_ref();
                    return Ok(Err(Wait));
                }
            }
        }
        Ok(Ok(()))
    }

    fn run_at(
        &self,
        (before, snapshot): (BeforeRead, Time),
        resolved: &Resolved<'_>,
        request: &mut Request<'_>,
        progress: &mut Progress<'_>,
        hold: &mut Hold<'_>,
    ) -> Result<Done, Failure> {
        let footprint = request.footprint;
        // Leaves of single keys are remembered under a guard. A scan takes a guard for each leaf,
        // so that a long scan does not keep others from freeing memory.
        let guard = resolved.keys(footprint).next().is_some().then(pin);
        let mut found =
            guard.iter().flat_map(|guard| Index::spots(resolved.keys(footprint), guard));
        let spot = |item: &Item| match &item.span {
            Span::Key(_) => found.next().map(Cell::new),
            Span::Range(_) => None,
        };
        let spots = footprint.items().iter().map(spot).collect();
        let copies = Copies {
            tables: &resolved.tables,
            partitions: &resolved.partitions,
            context: &hold.context,
            guard: guard.as_ref(),
            spots,
        };
        let mut txn = Txn::new(footprint, Source::Here(copies), snapshot);
        progress.run(&mut request.body, &mut txn, &self.procedures)?;
        let read_only = resolved.written.iter().any(|written| !written);
        let tables = resolved.tables.iter().map(|table| &***table);
        let ticket = if read_only { self.seen_ticket(before, tables) } else { 0 };
        if txn.writes.is_empty() {
            let read = resolved.partitions.iter().map(|partition| partition.position()).max();
            let seen = Seen { position: read.unwrap_or(0), ticket };
            return Ok((Committed { snapshot, commit: None }, seen, Tickets::new()));
        }
        self.admission.check(self.id, request.seat, self.time.now())?;
        let committed = self.commit(&txn);
        drop(txn);
        if matches!(committed, Err(Failure::Full(_))) {
            hold.context.unpin();
            hold.context.collect();
        }
        let (commit, position, own) = committed?;
        hold.locks.release();
        progress.published(commit);
        hold.context.unpin();
        hold.context.collect_some();
        Ok((Committed { snapshot, commit: Some(commit) }, Seen { position, ticket }, own))
    }

    fn commit(&self, txn: &Txn<'_>) -> Result<(Time, Position, Tickets), Failure> {
        let (copies, items, writes) = (txn.source.here(), txn.footprint.items(), &txn.writes);
        let mut order: SmallVec<[(usize, &crate::txn::Write); 4]> = writes
            .iter()
            .map(|write| (copies.partition_of(items[write.item].table, writes.key(write)), write))
            .collect();
        order.sort_by_key(|(partition, _)| *partition);
        let touched: SmallVec<[&Arc<SitePartition>; 4]> =
            order.chunk_by(|a, b| a.0 == b.0).map(|group| copies.partitions[group[0].0]).collect();

        self.room_for(
            writes
                .iter()
                .map(|write| (items[write.item].table, writes.key(write), writes.value(write))),
        )?;
        let mut frame = FrameWriter::new(FrameKind::Commit);
        for group in order.chunk_by(|a, b| a.0 == b.0) {
            let partition = copies.partitions[group[0].0];
            frame.open_write(partition.table, &partition.range.start, partition.version());
            for (_, write) in group {
                frame.row(writes.key(write), writes.value(write));
            }
            frame.close_write();
        }
        let mut own = Tickets::new();
        let (time, position) = self.publish(&touched, frame, |time| {
            let guard = pin();
            for (_, write) in &order {
                let key = writes.key(write);
                let index = &copies.tables[write.item].index;
                let mut spot = match &copies.spots[write.item] {
                    Some(spot) => spot.get(),
                    None => index.spot(key, &guard),
                };
                copies.context.install(index, &mut spot, key, writes.value(write), time, &guard);
            }
            for group in order.chunk_by(|a, b| a.0 == b.0) {
                let (at, write) = group[0];
                let (partition, backups) =
                    (copies.partitions[at], copies.tables[write.item].backups());
                own.extend(self.open_ticket(backups, partition, partition.version() + 1));
            }
        })?;
        Ok((time, position, own))
    }

    /// Publishes an event of this site: each partition's version rises by one. The caller holds the
    /// locks. If the log refuses, nothing has changed.
    pub(crate) fn publish(
        &self,
        partitions: &[&Arc<SitePartition>],
        frame: FrameWriter,
        install: impl FnOnce(Time),
    ) -> Result<(Time, Position), isomer_log::LogError> {
        partitions.iter().for_each(|partition| self.begin_publishing(partition));
        let followers = partitions.iter().map(|partition| partition.followers());
        match self.append(frame, followers) {
            Ok((time, position)) => {
                install(time);
                for partition in partitions {
                    partition.set_position(position);
                    partition.end_publishing(partition.version() + 1, time);
                }
                Ok((time, position))
            }
            Err(error) => {
                partitions.iter().for_each(|partition| partition.cancel_publishing());
                Err(error)
            }
        }
    }

    pub(crate) fn resolve<'m>(
        &self,
        maps: &'m Maps<'_>,
        footprint: &Footprint,
    ) -> Result<Resolved<'m>, Failure> {
        let mut resolved = Resolved {
            tables: SmallVec::new(),
            partitions: SmallVec::new(),
            written: SmallVec::new(),
        };
        for item in footprint.items() {
            let not_here = || Failure::NotHere { site: self.id, item: Box::new(item.clone()) };
            let (table, map) = maps.of(item).ok_or_else(not_here)?;
            resolved.tables.push(table);
            match &item.span {
                Span::Key(key) => {
                    resolved.add(Table::find(map, key).ok_or_else(not_here)?, item.access);
                }
                Span::Range(range) => {
                    let mut from = Some(&range.start);
                    while let Some(start) = from {
                        let partition = Table::find(map, start).ok_or_else(not_here)?;
                        resolved.add(partition, item.access);
                        from = partition.range.end.as_ref().filter(|end| range.is_below_end(end));
                    }
                }
            }
        }
        Ok(resolved)
    }

    fn not_master(&self, footprint: &Footprint, partition: &SitePartition) -> Failure {
        let written = |item: &&Item| {
            item.access == Access::Write
                && item.table == partition.table
                && item.span.reaches(&partition.range.start)
                && partition.range.is_below_end(item.span.start())
        };
        let item = footprint.items().iter().find(written).expect("it was locked to be written");
        Failure::NotMaster { site: self.id, item: Box::new(item.clone()) }
    }

    /// Shortens the wait for a snapshot. Retries at once if the partition was replaced; applies
    /// queued events; asks the master to close the feed.
    ///
    /// # Errors
    /// [`Failure::Unreachable`] if the master is fenced; [`Failure::NotHere`] if the copy is about
    /// to be dropped.
    pub(crate) fn request_close(
        &self,
        resolved: &Resolved<'_>,
        not_yet: NotYet,
        waker: &Waker,
    ) -> Result<(), Failure> {
        let (NotYet::Publishing(at) | NotYet::Behind(at, _)) = not_yet;
        let partition = resolved.partitions[at];
        if partition.is_gone() {
            waker.wake_by_ref();
            return Ok(());
        }
        let NotYet::Behind(_, time) = not_yet else { return Ok(()) };
        self.apply_pending(partition);
        if let Some(site) = partition.source().filter(|source| self.is_fenced(*source)) {
            let why = "others are to take over from it".to_owned();
            return Err(Failure::Unreachable { site, why });
        }
        if partition.is_unfollowed() {
            // The drop of the copy may wait for a change that waits for a lock of this transaction.
            let (table, span) = (partition.table, Span::Range(partition.range.clone()));
            let item = Box::new(Item { table, span, access: Access::Read });
            return Err(Failure::NotHere { site: self.id, item });
        }
        if !resolved.written.iter().any(|written| *written) {
            self.request_feed_close(partition, time);
            return Ok(());
        }
        // Others wait for the locks of this transaction, so all requests are sent at once.
        for partition in resolved.partitions.iter().filter(|p| p.safe_time() < time) {
            self.apply_pending(partition);
            self.request_partition_close(partition, time);
        }
        Ok(())
    }
}

impl<'m> Resolved<'m> {
    /// The single keys of the footprint, each with its index.
    fn keys<'a>(
        &'a self,
        footprint: &'a Footprint,
    ) -> impl Iterator<Item = (&'a Index, &'a [u8])> + Clone {
        footprint.items().iter().zip(&self.tables).filter_map(|(item, table)| match &item.span {
            Span::Key(key) => Some((&*table.index, key.as_bytes())),
            Span::Range(_) => None,
        })
    }

    fn add(&mut self, partition: &'m Arc<SitePartition>, access: Access) {
        let place = (partition.table, &partition.range.start);
        let is_before = |p: &&Arc<SitePartition>| (p.table, &p.range.start) < place;
        let write = access == Access::Write;
        let at = match self.partitions.last() {
            Some(last) if Arc::ptr_eq(last, partition) => self.partitions.len() - 1,
            Some(last) if !is_before(last) => self.partitions.partition_point(is_before),
            _ => self.partitions.len(),
        };
        match self.partitions.get(at) {
            Some(there) if Arc::ptr_eq(there, partition) => self.written[at] |= write,
            _ => {
                self.partitions.insert(at, partition);
                self.written.insert(at, write);
            }
        }
    }
}

/// The current maps of a footprint's tables, each loaded once.
pub(crate) struct Maps<'t> {
    maps: SmallVec<[Map<'t>; 2]>,
}

type Map<'t> = (&'t Arc<Table>, Swap<Arc<PartitionMap>>);

impl<'t> Maps<'t> {
    pub(crate) fn load<'f>(
        tables: &'t [Arc<Table>],
        items: impl Iterator<Item = &'f Item>,
    ) -> Maps<'t> {
        let mut maps: SmallVec<[Map<'t>; 2]> = SmallVec::new();
        for item in items {
            if maps.iter().any(|(table, _)| table.id == item.table) {
                continue;
            }
            if let Ok(at) = tables.binary_search_by_key(&item.table, |table| table.id) {
                maps.push((&tables[at], tables[at].partitions.load()));
            }
        }
        Maps { maps }
    }

    fn of(&self, item: &Item) -> Option<(&'t Arc<Table>, &PartitionMap)> {
        let (table, map) = self.maps.iter().find(|(table, _)| table.id == item.table)?;
        Some((*table, map))
    }
}

/// Calls a function once with the waker of the current task.
pub(crate) async fn once<T>(mut call: impl FnMut(&Waker) -> T) -> T {
    poll_fn(|cx| Poll::Ready(call(cx.waker()))).await
}
