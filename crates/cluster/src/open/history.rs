//! The history lease: sites keep what open snapshots may still ask for, without being asked by each.
//!
//! A snapshot is a time. It costs no request until a site is read; so a site must not forget what was
//! there at that time before its first read comes. The gateway knows the times of its open snapshots, and
//! tells all sites from when on they have to keep history: its **low watermark**. A site holds on to that
//! until it is told a later one; or, if the gateway is gone, until the watermark is 10 s old.
//!
//! ```text
//!   gateway    snapshots open at  41  47  52     watermark 41     (one look at all, each tick)
//!                │                                  │
//!                │ read at 47                       ├─ lease 41 ─▶ s1: history from 41 on, answers 40
//!                ▼                                  └─ lease 41 ─▶ s2: history from 41 on, answers 44
//!              s2: 47 is not before 41: it is there
//! ```
//!
//! Whoever runs the gateway renews the lease every few milliseconds ([`super::Gateway::renew`]), so the
//! watermark moves on when nobody reads, and sites can free.
//!
//! The answers say from which time on the site has everything; the site's clock may be ahead of real time.
//! No later snapshot is before any of them.
//!
//! **Safety is the site's.** A site never reads at a time whose history may be gone: it says
//! [`Failure::Forgotten`](isomer_site::Failure::Forgotten) ([`Site::read_at`](isomer_site::Site::read_at)).
//! The lease only makes that rare: after a site's restart, or if the gateway was silent for 10 s.
//!
//! **Which snapshots hold the watermark.** Each, until it is pinned at all sites ([`super::snapshot`]): a
//! pin costs requests, but lets a site free what lies between the pin and the present.
//!
//! **One look at all** is the [store](isomer_store::Store)'s: its contexts, their floor, and the argument
//! why nobody can begin below it. The gateway has a store without rows.

use crate::transport::Transport;
use futures_util::future::join_all;
use isomer_design::{RoutingTable, Time};
use isomer_store::{SnapshotPin, Store};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The lease is renewed at most this often.
const RENEW_NS: u64 = 2_000_000;
/// A lease that was renewed this long ago is not relied on any more: sites hold it for 10 s.
const RELY_NS: u64 = 5_000_000_000;

/// See the [module documentation](self).
pub(super) struct History {
    /// A store without rows: its contexts are the open snapshots, its floor is the watermark.
    open: Store,
    /// All sites have everything from this time on.
    base: AtomicU64,
    /// When the last renewal began that has ended; 0 if there was none.
    renewed: AtomicU64,
    renewing: AtomicBool,
}

impl History {
    pub(super) fn new() -> History {
        let [base, renewed] = [0, 0].map(AtomicU64::new);
        History { open: Store::new(Time::ZERO), base, renewed, renewing: AtomicBool::new(false) }
    }

    /// Opens a snapshot at `present` or as soon after as all sites can; `None` if too many are open. It is
    /// to be [closed](History::close).
    pub(super) fn open(&self, present: Time) -> Option<(SnapshotPin, Time)> {
        let snapshot_pin = self.open.keep()?;
        let base = Time(self.base.load(Ordering::SeqCst));
        let time = present.max(base).max(snapshot_pin.least());
        self.open.keep_from(&snapshot_pin, time);
        Some((snapshot_pin, time))
    }

    /// The snapshot needs no history any more, but what is pinned for it.
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

    /// Moves the watermark, and lets all sites know.
    pub(super) async fn renew<T: Transport>(&self, transport: &T, sites: &RoutingTable, now: Time) {
        if self.age_ns(now) < RENEW_NS {
            return;
        }
        // One at a time, unless it is urgent: then each who waits does it himself.
        if self.renewing.swap(true, Ordering::SeqCst) && self.is_leased(now) {
            return;
        }
        let _over = Over(&self.renewing);
        self.open.clock.raise(now);
        self.open.collect_idle(0);
        let from = self.open.floor();
        let lease = |site| transport.lease(site, from);
        // A site that does not answer now has none, and says so when it is read.
        for least in join_all(sites.sites().iter().map(lease)).await.into_iter().flatten() {
            self.base.fetch_max(least.0, Ordering::SeqCst);
        }
        self.renewed.fetch_max(now.0, Ordering::SeqCst);
    }
}

/// Ends a renewal, even one that is given up.
struct Over<'h>(&'h AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}
