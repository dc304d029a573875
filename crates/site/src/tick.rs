//! What a site does from time to time, apart from what it is asked to.
//!
//! A tick is short: whoever calls it also drives the site's disk, which every commit waits for. So what
//! was dropped, a table of a million rows perhaps, goes a piece at a time:
//!
//! ```text
//!   drop table ─▶ partitions gone     dropped: [ .. ∞ )
//!   tick                              once nobody reads it: 1,024 rows, [ 1024 .. ∞ ) is left
//!   tick, soon, as there is more                            1,024 rows, [ 2048 .. ∞ ) is left
//! ```
//!
//! Who reads it is who has taken the table's map of partitions before it was dropped, for one read. A transaction
//! that keeps an old snapshot for an hour is not among them: its next read does not find the partition here
//! any more, and goes elsewhere. So nobody who wants the range again, for a new replica, waits for that hour.

use crate::partition::Table;
use crate::site::{Site, woken};
use isomer_design::{KeyRange, Time};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

/// History is kept for snapshots that read replicas, and for those of a [lease](Site::lease), but not longer
/// than this, in nanoseconds: a master that is silent for longer must not make memory grow, nor a gateway
/// that is gone.
pub const HISTORY_NS_MAX: u64 = 10_000_000_000;
/// The most rows of what was dropped that one tick takes out of an index: about a millisecond.
pub const PURGED_PER_TICK: usize = 1024;
/// About so many versions that nobody needs any more are freed by one tick: less than a millisecond.
const FREED_PER_TICK: usize = 4096;

/// What a tick has freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Freed {
    /// Rows of what was dropped; at most [`PURGED_PER_TICK`].
    pub rows: usize,
    /// There is more that can be freed: the next tick should come soon.
    pub is_more: bool,
}

/// Lets others go on first.
async fn next_turn() {
    poll_fn(|cx| {
        cx.waker().wake_by_ref();
        Poll::Ready(())
    })
    .await;
    woken().await;
}

impl Site {
    /// To be called every few milliseconds: sends heartbeats to followers, asks for what was lost
    /// on the way, lets go of history that nobody needs, and frees what was dropped, a piece of it.
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

    /// Keeps history from a time on, until it is told a later one, or that time is 10 s ago. Says from when
    /// on everything is there: what is read at that time or later is not [`Failure::Forgotten`].
    ///
    /// [`Failure::Forgotten`]: crate::Failure::Forgotten
    pub fn lease(&self, from: Time) -> Time {
        let mut leased = self.leased.lock();
        let from = leased.map_or(from, |leased| leased.max(from));
        *leased = Some(from);
        self.move_horizon(*leased);
        drop(leased);
        // In this order: who raised the floor by an older horizon has looked at the clock before.
        self.store.clock.last()
    }

    fn move_horizon(&self, leased: Option<Time>) {
        let closed = self.closed();
        let oldest = Time(self.time.now().0.saturating_sub(HISTORY_NS_MAX));
        let replicas = if closed == Time::MAX { closed } else { closed.max(oldest) };
        let readers = leased.filter(|from| *from >= oldest).unwrap_or(Time::MAX);
        self.store.set_horizon(replicas.min(readers));
    }

    /// Frees some rows of dropped replicas that nobody reads any more, and says how many.
    /// `None`: there are none.
    fn purge_dropped(&self) -> Option<usize> {
        if self.dropped.lock().is_empty() {
            return None;
        }
        // One at a time. A second one could still be at rows that the first has seen gone, and take
        // those of a new copy of the range for them.
        let _purging = self.purging.try_lock()?;
        let (at, table, range) = {
            let dropped = self.dropped.lock();
            let at = dropped.iter().position(|dropped| dropped.readers.are_gone())?;
            (at, dropped[at].table.clone(), dropped[at].range.clone())
        };
        let mut context = self.store.context()?;
        let (rows, rest) = context.purge_some(&table.index, range, PURGED_PER_TICK);
        drop(context);
        // Others only add to the end meanwhile.
        let mut dropped = self.dropped.lock();
        match rest {
            Some(rest) => dropped[at].range = rest,
            None => drop(dropped.remove(at)),
        }
        Some(rows)
    }

    /// Frees all rows of dropped replicas: during recovery, which nobody reads beside.
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

    /// Waits until nothing is left of an earlier replica of a range.
    pub(crate) async fn purged(&self, table: &Arc<Table>, range: &KeyRange) {
        let waits = || {
            let dropped = self.dropped.lock();
            dropped.iter().any(|d| Arc::ptr_eq(&d.table, table) && d.range.overlaps(range))
        };
        while waits() {
            match self.purge_dropped() {
                // Whoever waits for it does the work; others have their turn between two pieces.
                Some(_) => next_turn().await,
                // The next tick may find the last reader gone: ask again then.
                None => self.next_tick().await,
            }
        }
    }
}
