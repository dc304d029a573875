//! The periodic work of a site.
//!
//! A tick is short, because its driver also syncs the site's disk, for which every commit waits. So
//! a dropped range, perhaps of a million rows, is freed piece by piece:
//!
//! ```text
//!   drop table ─▶ removed             dropped: [ .. ∞ )
//!   tick                              after its last reader: 1,024 rows, [ 1024 .. ∞ ) is left
//!   tick, soon, as there is more                            1,024 rows, [ 2048 .. ∞ ) is left
//! ```
//!
//! A reader of a dropped range has loaded the table's map of partitions before the drop, for one
//! read. A transaction with an old snapshot is not one: its next read does not find the partition
//! here, and goes to another site. So a new replica of the range never waits for long transactions.

use crate::partition::Table;
use crate::site::{Site, woken};
use isomer_design::{KeyRange, TableId, Time};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

/// The longest history, in nanoseconds, that is kept for snapshots that read replicas, and for
/// those of a [lease](Site::lease). The limit keeps memory bounded when a master is silent or a
/// gateway has failed.
pub const HISTORY_NS_MAX: u64 = 10_000_000_000;
/// The most dropped rows that a tick removes from an index: about a millisecond.
pub const PURGED_PER_TICK: usize = 1024;
/// About the most unused versions that a tick frees: less than a millisecond.
const FREED_PER_TICK: usize = 4096;

/// The work of a tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Freed {
    /// Rows of dropped ranges that were freed; at most [`PURGED_PER_TICK`].
    pub rows: usize,
    /// More can be freed: the next tick should follow soon.
    pub is_more: bool,
}

/// Yields to other tasks once.
async fn next_turn() {
    poll_fn(|cx| {
        cx.waker().wake_by_ref();
        Poll::Ready(())
    })
    .await;
    woken().await;
}

impl Site {
    /// To be called every few milliseconds. Sends heartbeats to followers, asks again for lost
    /// messages, frees history that no snapshot needs, and frees a piece of the dropped ranges.
    pub fn tick(&self) -> Freed {
        self.ship_at_tick();
        self.watch_links();
        self.answer_what_is_received();
        self.ask_for_acks();
        self.ask_for_unheard();
        let retry = std::mem::take(&mut *self.retry.lock());
        retry.iter().for_each(|partition| self.apply_pending(partition));
        self.pursue();
        self.move_horizon(*self.leased.lock());
        let left_behind = self.store.collect_idle(FREED_PER_TICK);
        let rows = self.purge_dropped();
        self.ticked.wake();
        Freed { rows: rows.unwrap_or(0), is_more: left_behind || rows.is_some() }
    }

    /// Keeps history from a time on, until a later call raises it, or the time is
    /// [`HISTORY_NS_MAX`] ago. Returns the time from which history is complete: a read at that time
    /// or later does not fail with [`Failure::Forgotten`].
    ///
    /// [`Failure::Forgotten`]: crate::Failure::Forgotten
    pub fn lease(&self, from: Time) -> Time {
        let mut leased = self.leased.lock();
        let from = leased.map_or(from, |leased| leased.max(from));
        *leased = Some(from);
        self.move_horizon(*leased);
        drop(leased);
        // The order matters: a concurrent move to an older horizon has read the clock before.
        self.store.clock.last()
    }

    fn move_horizon(&self, leased: Option<Time>) {
        let closed = self.closed();
        let oldest = Time(self.time.now().0.saturating_sub(HISTORY_NS_MAX));
        let replicas = if closed == Time::MAX { closed } else { closed.max(oldest) };
        let readers = leased.filter(|from| *from >= oldest).unwrap_or(Time::MAX);
        self.store.set_horizon(replicas.min(readers));
    }

    /// Frees some rows of dropped ranges without readers, and returns their number. `None` if there
    /// are none.
    fn purge_dropped(&self) -> Option<usize> {
        if self.dropped.lock().is_empty() {
            return None;
        }
        // One call at a time. A second one could be at rows that the first has freed, and take the
        // rows of a new copy of the range for them.
        let _purging = self.purging.try_lock()?;
        let (at, table, range) = {
            let dropped = self.dropped.lock();
            let at = dropped.iter().position(|dropped| dropped.readers.are_gone())?;
            (at, dropped[at].table.clone(), dropped[at].range.clone())
        };
        let mut context = self.store.context()?;
        let (rows, rest) = context.purge_some(&table.index, range, PURGED_PER_TICK);
        drop(context);
        // Concurrent calls only append.
        let mut dropped = self.dropped.lock();
        match rest {
            Some(rest) => dropped[at].range = rest,
            None => drop(dropped.remove(at)),
        }
        Some(rows)
    }

    /// Frees all rows of dropped ranges. For recovery only, which has no readers.
    pub(crate) fn purge_all_dropped(&self) {
        while self.purge_dropped().is_some() {}
    }

    /// Waits for the next tick.
    pub async fn next_tick(&self) {
        poll_fn(|cx| {
            self.ticked.register(cx.waker());
            Poll::Ready(())
        })
        .await;
        woken().await;
    }

    /// Waits until no rows of an earlier replica of a range are left.
    pub(crate) async fn purged(&self, table: &Arc<Table>, range: &KeyRange) {
        let waits = || {
            let dropped = self.dropped.lock();
            dropped.iter().any(|d| Arc::ptr_eq(&d.table, table) && d.range.overlaps(range))
        };
        while waits() {
            match self.purge_dropped() {
                // The waiting task does the work, and yields between pieces.
                Some(_) => next_turn().await,
                // The next tick may find that the last reader is done.
                None => self.next_tick().await,
            }
        }
    }
}

/// The latest time that a site has given to a commit, or was read at. Every commit that was visible
/// there when this is called has this time or an earlier one.
pub fn latest(site: &Site) -> Time {
    site.store.clock.last()
}

/// A time that includes all commits of these rows that were visible anywhere when this is called.
/// `None` unless the site is their master, and no commit is about to be visible among them.
///
/// In this order: a commit over several sites is visible at another site only once it has marked
/// its rows here. So without a mark all earlier ones are installed, and the time comes after them.
pub fn present_of(site: &Site, table: TableId, range: &KeyRange) -> Option<Time> {
    let (mut present, mut rest) = (Time::ZERO, Some(range.start.clone()));
    for partition in site.table(table)?.overlapping(range) {
        let begins = rest.as_ref().is_some_and(|start| partition.range.start <= *start);
        if !begins || !partition.is_master() || partition.is_publishing() || partition.is_gone() {
            return None;
        }
        present = present.max(partition.last());
        rest.clone_from(&partition.range.end);
    }
    let is_whole = match (&rest, &range.end) {
        (None, _) => true,
        (Some(rest), Some(end)) => end <= rest,
        (Some(_), None) => false,
    };
    is_whole.then(|| present.max(latest(site)))
}
