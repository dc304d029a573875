//! Asynchronous commit: which clients are answered before a commit is durable.

mod mailboxes;

use isomer_design::{Footprint, Key, KeyRange, SiteId, TableId};
use isomer_log::{Durability, MemoryLog, MemoryOptions};
use isomer_site::{Body, Failure, Reply, Request, Site, SiteOptions, Step, Txn};
use mailboxes::Mailboxes;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

const T: TableId = TableId(1);

fn poll<T>(future: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Adds a byte to a row, unless the footprint is read-only.
async fn run(site: &Site, footprint: &Footprint, is_asynchronous: bool) -> Result<Reply, Failure> {
    let mut procedure = |txn: &mut Txn<'_>| {
        let mut row = txn.get(T, &Key::int(7))?.unwrap_or_default().to_vec();
        row.push(b'x');
        if footprint.is_read_only() { Ok(()) } else { txn.put(T, &Key::int(7), &row) }
    };
    let body = Body::Here(&mut procedure);
    site.run(Request { is_asynchronous, ..Request::new(footprint, body) }, &mut |_| {}).await
}

#[test]
fn an_asynchronous_commit_is_answered_at_once_and_others_once_durable() {
    let mailboxes = Arc::new(Mailboxes::default());
    let options = MemoryOptions { durability: Durability::Commit, ..MemoryOptions::default() };
    let (log, network, time) = (Arc::new(MemoryLog::new(options)), mailboxes.clone(), mailboxes);
    let site = Site::open(SiteOptions::new(SiteId(1), log, network, time)).unwrap();
    let mut created = pin!(site.step(Step::Create(T, vec![KeyRange::new(Key::min(), None)])));
    assert!(poll(created.as_mut()).is_pending());
    site.log().sync().unwrap();
    assert!(poll(created.as_mut()).is_ready());

    let (write, read) =
        (Footprint::new().write(T, Key::int(7)), Footprint::new().read(T, Key::int(7)));
    for is_asynchronous in [true, false] {
        let mut wrote = pin!(run(&site, &write, is_asynchronous));
        assert_eq!(poll(wrote.as_mut()).is_ready(), is_asynchronous);
        assert!(poll(pin!(run(&site, &read, true))).is_ready());
        let mut waits = pin!(run(&site, &read, false));
        assert!(poll(waits.as_mut()).is_pending(), "it has read a row that is not durable");
        site.log().sync().unwrap();
        assert!(poll(waits.as_mut()).is_ready());
        assert!(is_asynchronous || poll(wrote.as_mut()).is_ready());
    }
}
