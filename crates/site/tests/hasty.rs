//! Who is told of a commit before it is durable, and who is not.

mod post;

use isomer_design::{Footprint, Key, KeyRange, SiteId, TableId, Time};
use isomer_log::{Durability, MemoryLog, MemoryOptions};
use isomer_site::{Abort, Procedure, Site, SiteOptions, Step, Txn};
use post::Post;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

const T: TableId = TableId(1);

fn poll<T>(future: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Adds a byte to a row, or only looks at it.
struct Client {
    is_hasty: bool,
    writes: bool,
}

impl Procedure for Client {
    fn run(&mut self, txn: &mut Txn<'_>) -> Result<(), Abort> {
        let mut row = txn.get(T, &Key::int(7))?.unwrap_or_default().to_vec();
        row.push(b'x');
        if self.writes { txn.put(T, &Key::int(7), &row) } else { Ok(()) }
    }

    fn is_hasty(&self) -> bool {
        self.is_hasty
    }
}

#[test]
fn who_is_hasty_is_told_at_once_and_others_only_of_what_is_durable() {
    let post = Arc::new(Post::default());
    let options = MemoryOptions { durability: Durability::Commit, ..MemoryOptions::default() };
    let (log, network, time) = (Arc::new(MemoryLog::new(options)), post.clone(), post);
    let site = Site::open(SiteOptions::new(SiteId(1), log, network, time)).unwrap();
    let mut created = pin!(site.step(Step::Create(T, vec![KeyRange::new(Key::min(), None)])));
    assert!(poll(created.as_mut()).is_pending());
    site.log().sync().unwrap();
    assert!(poll(created.as_mut()).is_ready());

    let (write, read) =
        (Footprint::new().write(T, Key::int(7)), Footprint::new().read(T, Key::int(7)));
    let client = |is_hasty, writes| Client { is_hasty, writes };
    for is_hasty in [true, false] {
        let (mut writer, mut patient, mut hasty) =
            (client(is_hasty, true), client(false, false), client(true, false));
        let mut wrote = pin!(site.execute(&write, Time::ZERO, &mut writer));
        assert_eq!(poll(wrote.as_mut()).is_ready(), is_hasty);
        assert!(poll(pin!(site.execute(&read, Time::ZERO, &mut hasty))).is_ready());
        let mut waits = pin!(site.execute(&read, Time::ZERO, &mut patient));
        assert!(poll(waits.as_mut()).is_pending(), "it has read what may yet be lost");
        site.log().sync().unwrap();
        assert!(poll(waits.as_mut()).is_ready());
        assert!(is_hasty || poll(wrote.as_mut()).is_ready());
    }
}
