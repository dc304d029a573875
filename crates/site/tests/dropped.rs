//! What was dropped goes piece by piece: no tick holds up the commits of its site for long, and all of
//! the memory comes back.

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
const KEPT: TableId = TableId(1);
const DROPPED: TableId = TableId(2);

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

fn write(site: &Site, table: TableId, keys: std::ops::Range<usize>) {
    let range = KeyRange::ints(keys.start as i64, keys.end as i64);
    let footprint = Footprint::new().write_range(table, range);
    let mut procedure = |txn: &mut Txn<'_>| {
        keys.clone().try_for_each(|key| txn.put(table, &Key::int(key as i64), &[7; 40]))
    };
    ready(site.execute(&footprint, Time::ZERO, &mut procedure)).unwrap();
}

/// A site with two tables, of which one has a few rows.
fn empty() -> (Site, Arc<Mailboxes>) {
    let mailboxes = Arc::new(Mailboxes::default());
    let log = Arc::new(MemoryLog::new(MemoryOptions::default()));
    let site =
        Site::open(SiteOptions::new(SiteId(1), log, mailboxes.clone(), mailboxes.clone())).unwrap();
    for table in [KEPT, DROPPED] {
        ready(site.step(Step::Create(table, vec![KeyRange::all()]))).unwrap();
    }
    write(&site, KEPT, 0..100);
    (site, mailboxes)
}

#[test]
fn a_dropped_table_goes_in_small_pieces_and_leaves_nothing_behind() {
    let (site, mailboxes) = empty();
    let before = site.memory_bytes();
    (0..ROWS / 100).for_each(|part| write(&site, DROPPED, 100 * part..100 * (part + 1)));
    let full = site.memory_bytes();
    assert!(full - before > ROWS * 40);
    ready(site.step(Step::Forget(DROPPED))).unwrap();

    let (mut rows, mut largest, mut memory) = (0, 0, full);
    loop {
        mailboxes.now.fetch_add(2_000_000, Ordering::Relaxed);
        let freed = site.tick();
        (rows, largest) = (rows + freed.rows, largest.max(freed.rows));
        // The memory goes as the rows do, a piece at a time.
        assert!(memory.saturating_sub(site.memory_bytes()) < full / 4);
        memory = site.memory_bytes();
        if !freed.is_more && memory < before + before / 2 {
            break;
        }
        assert!(
            mailboxes.now.load(Ordering::Relaxed) < 10_000_000_000,
            "{memory} of {full} are left"
        );
    }
    assert_eq!((rows, largest), (ROWS, PURGED_PER_TICK));
    write(&site, KEPT, 0..100);
}

#[test]
fn who_waits_for_a_range_to_be_free_frees_it_without_a_tick() {
    let (site, _) = empty();
    (0..ROWS / 100).for_each(|part| write(&site, DROPPED, 100 * part..100 * (part + 1)));
    ready(site.step(Step::Forget(DROPPED))).unwrap();
    let snapshot = Snapshot {
        table: DROPPED,
        range: KeyRange::all(),
        version: 1,
        last: Time(1),
        since: Time(1),
        source: SiteId(2),
        incarnation: 1,
        position: 1,
        pieces: vec![RowsBuffer::default()],
    };
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let mut again = pin!(site.step(Step::Install(Box::new(snapshot))));
    let mut polls = 1;
    while again.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
        assert!(woken.0.swap(false, Ordering::Relaxed), "it waits for a tick");
        polls += 1;
    }
    assert!(polls >= ROWS / PURGED_PER_TICK, "others have their turn between two pieces");
}
