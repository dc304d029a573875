//! A task that waits for rows of a dropped range to be freed frees them, without a tick for each
//! piece.

mod mailboxes;

use isomer_design::{Footprint, Key, KeyRange, SiteId, TableId, Time};
use isomer_log::{MemoryLog, MemoryOptions};
use isomer_site::{PURGED_PER_TICK, RowsBuffer, Site, SiteOptions, Snapshot, Step, Txn};
use mailboxes::Mailboxes;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

const ROWS: usize = 20_000;
const TABLE: TableId = TableId(1);

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Woken>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("nothing here has to wait"),
    }
}

/// A replica without rows.
fn empty_copy() -> Snapshot {
    Snapshot {
        table: TABLE,
        range: KeyRange::all(),
        version: 1,
        last: Time(1),
        since: Time(1),
        source: SiteId(2),
        incarnation: 1,
        position: 1,
        pieces: vec![RowsBuffer::default()],
    }
}

#[test]
fn a_copy_that_comes_back_does_not_wait_for_ticks() {
    let mailboxes = Arc::new(Mailboxes::default());
    let log = Arc::new(MemoryLog::new(MemoryOptions::default()));
    let site =
        Site::open(SiteOptions::new(SiteId(1), log, mailboxes.clone(), mailboxes.clone())).unwrap();
    ready(site.step(Step::Create(TABLE, vec![KeyRange::all()]))).unwrap();
    for first in (0..ROWS as i64).step_by(100) {
        let footprint = Footprint::new().write_range(TABLE, KeyRange::ints(first, first + 100));
        let mut procedure = |txn: &mut Txn<'_>| {
            (first..first + 100).try_for_each(|key| txn.put(TABLE, &Key::int(key), &[7; 40]))
        };
        ready(site.execute(&footprint, Time::ZERO, &mut procedure)).unwrap();
    }
    ready(site.step(Step::Forget(TABLE))).unwrap();

    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let mut again = pin!(site.step(Step::Install(Box::new(empty_copy()))));
    let mut polls = 1;
    while again.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
        assert!(woken.0.swap(false, Ordering::Relaxed), "it waits for a tick");
        polls += 1;
    }
    assert!(polls >= ROWS / PURGED_PER_TICK, "other tasks run between two pieces");
}
