//! A log whose earlier owner may still serve reads: transactions that write wait for its lease.

mod mailboxes;

use isomer_design::{Footprint, Key, KeyRange, SiteId, TableId, Time};
use isomer_log::{Counters, Log, LogError, MemoryLog, MemoryOptions, Position};
use isomer_site::{CloseAhead, Committed, Failure, Site, SiteOptions, Step, Txn};
use mailboxes::Mailboxes;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

const T: TableId = TableId(1);
const S1: SiteId = SiteId(1);
const SECOND: u64 = 1_000_000_000;

/// A log that was taken from another process.
struct TakenLog {
    log: MemoryLog,
    is_sole: AtomicBool,
}

impl Log for TakenLog {
    fn append(&self, payload: &[u8]) -> Result<Position, LogError> {
        self.log.append(payload)
    }

    fn end(&self) -> Position {
        self.log.end()
    }

    fn durable(&self) -> Position {
        self.log.durable()
    }

    fn begin(&self) -> Position {
        self.log.begin()
    }

    fn sync(&self) -> Result<Position, LogError> {
        self.log.sync()
    }

    fn poll_durable(&self, position: Position, waker: &Waker) -> Poll<Result<(), LogError>> {
        self.log.poll_durable(position, waker)
    }

    fn poll_work(&self, waker: &Waker) -> Poll<Result<(), LogError>> {
        self.log.poll_work(waker)
    }

    fn read(
        &self,
        from: Position,
        visit: &mut dyn FnMut(Position, &[u8]) -> ControlFlow<()>,
    ) -> Result<Position, LogError> {
        self.log.read(from, visit)
    }

    fn truncate_before(&self, position: Position) -> Result<(), LogError> {
        self.log.truncate_before(position)
    }

    fn counters(&self) -> Counters {
        self.log.counters()
    }

    fn failure(&self) -> Option<LogError> {
        self.log.failure()
    }

    fn is_sole(&self) -> bool {
        self.is_sole.load(Ordering::Relaxed)
    }
}

/// Polls a future while disks are synced and ticks pass; `None` if it still waits after 100 ticks.
fn drive<F: Future>(site: &Site, future: &mut std::pin::Pin<&mut F>) -> Option<F::Output> {
    for _ in 0..100 {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Some(done);
        }
        site.log().sync().unwrap();
        site.tick();
    }
    None
}

#[test]
fn commits_wait_until_the_earlier_owner_serves_no_reads_and_are_later_than_these() {
    let log = MemoryLog::new(MemoryOptions::default());
    let log = Arc::new(TakenLog { log, is_sole: AtomicBool::new(false) });
    let mailboxes = Arc::new(Mailboxes::default());
    mailboxes.now.store(1000 * SECOND, Ordering::Relaxed);
    let (network, time) = (mailboxes.clone(), mailboxes.clone());
    let site = Site::open(SiteOptions::new(S1, log.clone(), network, time)).unwrap();
    let create = pin!(site.step(Step::Create(T, vec![KeyRange::all()])));
    drive(&site, &mut { create }).expect("it needs no lease").unwrap();

    let write = Footprint::new().write(T, Key::int(1));
    let mut put = |txn: &mut Txn<'_>| txn.put(T, &Key::int(1), b"x");
    let mut writing = pin!(site.execute(&write, Time::ZERO, &mut put));
    assert!(drive(&site, &mut writing).is_none(), "the earlier owner serves reads");

    let read = Footprint::new().read(T, Key::int(1));
    let mut get = |txn: &mut Txn<'_>| {
        assert!(txn.get(T, &Key::int(1))?.is_none());
        Ok(())
    };
    let reading = pin!(site.execute(&read, Time::ZERO, &mut get));
    drive(&site, &mut { reading }).expect("a read does not wait").unwrap();

    // The earlier owner can be read at any time that a site can have promised by now.
    let end = mailboxes.now.fetch_add(5 * SECOND, Ordering::Relaxed) + 5 * SECOND;
    log.is_sole.store(true, Ordering::Relaxed);
    let done: Result<Committed, Failure> = drive(&site, &mut writing).expect("its lease is over");
    let at = done.unwrap().commit.expect("it has written");
    assert!(at.0 > end + CloseAhead::default().most_ns, "{at} may have been read before");
}
