//! A master whose followers acknowledge nothing: what it may show of its commits, and which changes
//! wait for them.

mod mailboxes;

use futures_util::future::join;
use isomer_design::{Backups, Footprint, Key, KeyRange, SiteId, TableId, Time};
use isomer_log::{Log, MemoryLog, MemoryOptions};
use isomer_site::{Abort, Failure, Read, ReadSpan, SeenUpTo, Site, SiteOptions, Step, Txn, latest};
use mailboxes::Mailboxes;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The table with backups.
const BACKED: TableId = TableId(1);
const OTHER: TableId = TableId(2);
const S1: SiteId = SiteId(1);
const S2: SiteId = SiteId(2);
const S3: SiteId = SiteId(3);

struct Master {
    site: Arc<Site>,
    log: Arc<MemoryLog>,
}

impl Master {
    /// `s1` with both tables. `s2` and `s3` follow the first one, and acknowledge nothing.
    fn new() -> Master {
        let log = Arc::new(MemoryLog::new(MemoryOptions::default()));
        let mailboxes = Arc::new(Mailboxes::default());
        let options = SiteOptions::new(S1, log.clone(), mailboxes.clone(), mailboxes);
        let master = Master { site: Arc::new(Site::open(options).unwrap()), log };
        for table in [BACKED, OTHER] {
            master.drive(master.site.step(Step::Create(table, vec![KeyRange::all()]))).unwrap();
        }
        for follower in [S2, S3] {
            master.drive(master.site.follow(BACKED, &Key::min(), follower)).unwrap();
        }
        let backups = Step::Backups(BACKED, Backups { count: 1, on_disk: true });
        assert!(master.poll(master.site.step(backups)).is_none(), "it waits for one");
        master
    }

    fn poll<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        for _ in 0..1000 {
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
                return Some(done);
            }
            self.log.sync().unwrap();
            self.site.tick();
        }
        None
    }

    fn drive<F: Future>(&self, future: F) -> F::Output {
        self.poll(future).expect("it does not wait for ever")
    }

    /// Writes row 5 of a table. True if the client has an answer.
    fn write(&self, table: TableId) -> bool {
        let footprint = Footprint::new().write(table, Key::int(5));
        let mut put =
            |txn: &mut Txn<'_>| -> Result<(), Abort> { txn.put(table, &Key::int(5), b"new") };
        self.poll(self.site.execute(&footprint, Time::ZERO, &mut put)).is_some()
    }

    /// Reads row 5 of a table. Returns the number of rows, and what the reader has seen.
    fn read(&self, table: TableId) -> (usize, SeenUpTo) {
        let key = Key::int(5);
        let read = Read { table, span: ReadSpan::Key(&key), limit: 1 };
        let mut rows = 0;
        let mut visit = |_: &[u8], _: &[u8], _: Time| {
            rows += 1;
            ControlFlow::Continue(())
        };
        let now = latest(&self.site);
        let seen = self.drive(self.site.read_at(read, now, None, &mut visit)).unwrap();
        (rows, seen)
    }

    fn until_durable(&self, seen: SeenUpTo) -> Result<(), Failure> {
        self.drive(self.site.until_durable(seen))
    }
}

/// Other sites have taken the table over. Its commits that no backup has acknowledged are void.
#[test]
fn a_reader_of_a_void_commit_is_refused_also_when_it_asks_late() {
    let master = Master::new();
    assert!(!master.write(BACKED), "no backup has acknowledged it");
    let (rows, seen) = master.read(BACKED);
    assert_eq!(rows, 1, "it is visible to other transactions at once");
    master.drive(master.site.step(Step::Discard(BACKED, KeyRange::all()))).unwrap();
    assert!(matches!(master.until_durable(seen), Err(Failure::Unknown(_))));

    assert!(master.write(OTHER));
    let (rows, seen) = master.read(OTHER);
    assert_eq!((rows, master.until_durable(seen).is_ok()), (1, true), "a later reader");
}

/// The rows are discarded while a read visits them.
#[test]
fn a_reader_of_a_commit_that_becomes_void_during_the_read_is_refused() {
    let master = Master::new();
    assert!(!master.write(BACKED), "no backup has acknowledged it");
    let key = Key::int(5);
    let read = Read { table: BACKED, span: ReadSpan::Key(&key), limit: 1 };
    let mut rows = 0;
    let mut visit = |_: &[u8], _: &[u8], _: Time| {
        rows += 1;
        master.drive(master.site.step(Step::Discard(BACKED, KeyRange::all()))).unwrap();
        ControlFlow::Continue(())
    };
    let seen = master.site.read_at(read, latest(&master.site), None, &mut visit);
    let seen = master.drive(seen).unwrap();
    assert_eq!(rows, 1);
    assert!(matches!(master.until_durable(seen), Err(Failure::Unknown(_))));
}

/// Their copies were dropped while the master was away, so none of them ever acknowledges.
#[test]
fn followers_without_copies_leave_together() {
    let master = Master::new();
    let leaves = async |site| master.site.unfollow(BACKED, &Key::min(), site).await;
    assert!(master.poll(leaves(S2)).is_none(), "the acknowledgements of s3 are unknown");
    let both = join(leaves(S2), leaves(S3));
    let (s2, s3) = master.drive(both);
    s2.and(s3).unwrap();
}
