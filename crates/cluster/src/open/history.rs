//! The history lease: sites keep the history that open snapshots may still read, without a request
//! for each.
//!
//! A snapshot is a time. It costs no request until a site is read, so a site must keep what was
//! there at that time until the first read arrives. The gateway knows the times of its open
//! snapshots. It tells all sites the time from which on they have to keep history: its **low
//! watermark**. A site obeys until it receives a later watermark. If the gateway fails, the site
//! obeys until the watermark is 10 s old.
//!
//! ```text
//!   gateway    snapshots open at  41  47  52    watermark 41        (one scan of all, each tick)
//!                │                                 │
//!                │ read at 47                      ├─ lease 41 ─▶ s1: keeps from 41 on, answers 40
//!                ▼                                 └─ lease 41 ─▶ s2: keeps from 41 on, answers 44
//!              s2: 47 is not before 41: it is there
//! ```
//!
//! The gateway's process renews the lease every few milliseconds ([`super::Gateway::renew`]). So
//! the watermark advances when no transaction reads, and sites can free history.
//!
//! The answers say from which time on the site has all history, because the site's clock may be
//! ahead of real time. No later snapshot is before any of these times.
//!
//! **Safety is up to the site.** A site never reads at a time whose history may be freed. It
//! answers [`Failure::Forgotten`](isomer_site::Failure::Forgotten) instead
//! ([`Site::read_at`](isomer_site::Site::read_at)). The lease only makes that rare: it happens
//! after a restart of the site, or if the gateway did not renew for 10 s.
//!
//! **Which snapshots hold the watermark.** Each, until it is pinned at all sites
//! ([`super::snapshot`]). A pin costs requests, but lets a site free history between the pin and
//! the present.
//!
//! **The scan of all open snapshots** is the [store](isomer_store::Store)'s: its contexts, their
//! floor, and the proof that no snapshot can begin below it. The gateway has a store without rows.

use crate::transport::Transport;
use futures_util::future::join_all;
use isomer_design::{RoutingTable, Time};
use isomer_store::{SnapshotPin, Store};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The least time between two renewals.
const RENEW_NS: u64 = 2_000_000;
/// The age from which on a lease is not trusted. Sites hold it for 10 s.
const RELY_NS: u64 = 5_000_000_000;

/// See the [module documentation](self).
pub(super) struct History {
    /// A store without rows: its contexts are the open snapshots, its floor is the watermark.
    open: Store,
    /// All sites have all history from this time on.
    base: AtomicU64,
    /// When the last renewal that has ended began; 0 if there was none.
    renewed: AtomicU64,
    renewing: AtomicBool,
}

impl History {
    pub(super) fn new() -> History {
        let [base, renewed] = [0, 0].map(AtomicU64::new);
        History { open: Store::new(Time::ZERO), base, renewed, renewing: AtomicBool::new(false) }
    }

    /// Opens a snapshot at `present`, or at the earliest later time that all sites can read. `None`
    /// if too many are open. The caller [closes](History::close) it.
    pub(super) fn open(&self, present: Time) -> Option<(SnapshotPin, Time)> {
        let snapshot_pin = self.open.keep()?;
        let base = Time(self.base.load(Ordering::SeqCst));
        let time = present.max(base).max(snapshot_pin.least());
        self.open.keep_from(&snapshot_pin, time);
        Some((snapshot_pin, time))
    }

    /// The snapshot needs no history any more, except at sites where it is pinned.
    pub(super) fn close(&self, snapshot_pin: SnapshotPin) {
        self.open.release_pin(snapshot_pin);
    }

    /// True if all sites that could be asked hold the lease.
    pub(super) fn is_leased(&self, now: Time) -> bool {
        self.age_ns(now) < RELY_NS
    }

    fn age_ns(&self, now: Time) -> u64 {
        match self.renewed.load(Ordering::SeqCst) {
            0 => u64::MAX,
            renewed => now.0.saturating_sub(renewed),
        }
    }

    /// Advances the watermark, and sends it to all sites.
    pub(super) async fn renew<T: Transport>(&self, transport: &T, sites: &RoutingTable, now: Time) {
        if self.age_ns(now) < RENEW_NS {
            return;
        }
        // One renewal at a time. Without a valid lease, each waiting task renews it itself.
        if self.renewing.swap(true, Ordering::SeqCst) && self.is_leased(now) {
            return;
        }
        let _over = Over(&self.renewing);
        self.open.clock.raise(now);
        self.open.collect_idle(0);
        let from = self.open.floor();
        let lease = |site| transport.lease(site, from);
        // A site that does not answer now has no lease, and says so when it is read.
        for least in join_all(sites.sites().iter().map(lease)).await.into_iter().flatten() {
            self.base.fetch_max(least.0, Ordering::SeqCst);
        }
        self.renewed.fetch_max(now.0, Ordering::SeqCst);
    }
}

/// Ends a renewal, even one whose future is dropped.
struct Over<'h>(&'h AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}
