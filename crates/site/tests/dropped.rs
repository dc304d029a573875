//! Dropped rows are freed piece by piece: no tick delays the commits of its site for long, and all
//! of the memory is freed in the end.

mod mailboxes;

use isomer_design::{Footprint, Key, KeyRange, SiteId, TableId, Time};
use isomer_log::{MemoryLog, MemoryOptions};
use isomer_site::{PURGED_PER_TICK, Site, SiteOptions, Step, Txn};
use mailboxes::Mailboxes;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

const ROWS: usize = 20_000;
const KEPT: TableId = TableId(1);
const DROPPED: TableId = TableId(2);

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

#[test]
fn a_dropped_table_goes_in_small_pieces_and_leaves_nothing_behind() {
    let mailboxes = Arc::new(Mailboxes::default());
    let log = Arc::new(MemoryLog::new(MemoryOptions::default()));
    let site =
        Site::open(SiteOptions::new(SiteId(1), log, mailboxes.clone(), mailboxes.clone())).unwrap();
    for table in [KEPT, DROPPED] {
        ready(site.step(Step::Create(table, vec![KeyRange::all()]))).unwrap();
    }
    write(&site, KEPT, 0..100);
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
        // Memory is freed like the rows, a piece at a time.
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
