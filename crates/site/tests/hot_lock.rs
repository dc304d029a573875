//! A hot lock is reported while its queue is long.

mod mailboxes;

use isomer_design::{Footprint, HotLock, Key, KeyRange, SiteId, TableId, Time};
use isomer_log::{Durability, MemoryLog, MemoryOptions};
use isomer_site::{Message, Part, Site, SiteOptions, Step, Txn, TxnId};
use mailboxes::Mailboxes;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

const T: TableId = TableId(1);
const S1: SiteId = SiteId(1);
const S2: SiteId = SiteId(2);

fn poll<T>(future: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// The hot locks while `waiting` transactions wait for one, and after they have got it.
fn hot_locks(waiting: usize) -> [Vec<HotLock>; 2] {
    let mailboxes = Arc::new(Mailboxes::default());
    let options = MemoryOptions { durability: Durability::None, ..MemoryOptions::default() };
    let (log, network, time) = (Arc::new(MemoryLog::new(options)), mailboxes.clone(), mailboxes);
    let site = Site::open(SiteOptions::new(S1, log, network, time)).unwrap();
    let from_five = KeyRange::new(Key::int(5), None);
    assert!(poll(pin!(site.step(Step::Create(T, vec![from_five])))).is_ready());
    let footprint = Footprint::new().write(T, Key::int(7));
    let txn = TxnId { coordinator: S2, incarnation: 1, number: 1 };
    let enter = Part::Enter { txn, footprint: footprint.clone(), at: Time::ZERO };
    assert!(poll(pin!(site.part(enter))).is_ready(), "it holds the lock from now on");

    let mut procedures: Vec<_> =
        (0..waiting).map(|_| |txn: &mut Txn<'_>| txn.put(T, &Key::int(7), b"x")).collect();
    let each = procedures.iter_mut();
    let each = each.map(|procedure| Box::pin(site.execute(&footprint, Time::ZERO, procedure)));
    let mut futures: Vec<_> = each.collect();
    assert!(futures.iter_mut().all(|future| poll(future.as_mut()).is_pending()));
    let before = site.hot_locks();
    site.receive(S2, Message::Outcome { txn, at: None });
    futures.iter_mut().for_each(|future| drop(poll(future.as_mut())));
    [before, site.hot_locks()]
}

#[test]
fn a_lock_is_hot_while_eight_wait_for_it() {
    let hot_lock = |waiting: usize| {
        // The first seven queued behind fewer than eight.
        let keys = vec![Key::int(7); waiting - 7];
        HotLock { table: T, start: Key::int(5), waiting, keys }
    };
    assert_eq!(hot_locks(8), [vec![hot_lock(8)], vec![]]);
    assert_eq!(hot_locks(20), [vec![hot_lock(20)], vec![]]);
    assert_eq!(hot_locks(7), [vec![], vec![]]);
}
