//! What a site does from time to time, apart from what it is asked to.

use crate::partition::Table;
use crate::site::{Dropped, Site, woken};
use isomer_design::{KeyRange, Time};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

/// History is kept for snapshots that read replicas, but not longer than this, in nanoseconds: a
/// master that is silent for longer must not make memory grow.
const HORIZON_NS_MAX: u64 = 10_000_000_000;

impl Site {
    /// To be called every few milliseconds: sends heartbeats to followers, asks for what was lost
    /// on the way, lets go of history that nobody needs, and frees what was dropped.
    pub fn tick(&self) {
        self.ship_at_tick();
        self.watch_links();
        let retry = std::mem::take(&mut *self.retry.lock());
        retry.iter().for_each(|partition| self.apply_pending(partition));
        self.pursue();
        let closed = self.closed();
        let oldest = Time(self.time.now().0.saturating_sub(HORIZON_NS_MAX));
        self.store.set_horizon(if closed == Time::MAX { closed } else { closed.max(oldest) });
        self.store.collect_idle();
        self.purge_dropped();
        self.ticked.wake();
    }

    /// Frees the rows of dropped replicas that no snapshot can see any more.
    pub(crate) fn purge_dropped(&self) {
        if self.dropped.lock().is_empty() {
            return;
        }
        let Some(mut context) = self.store.context() else { return };
        context.collect();
        let floor = self.store.floor();
        let mut dropped = self.dropped.lock();
        dropped.retain(|Dropped { table, range, at }| {
            if *at > floor {
                return true;
            }
            context.purge(&table.index, range);
            false
        });
    }

    /// Waits for the next tick.
    pub(crate) async fn next_tick(&self) {
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
            self.purge_dropped();
            if waits() {
                // The next tick may find the last reader gone: ask again then.
                self.next_tick().await;
            }
        }
    }
}
