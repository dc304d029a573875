//! Undecided transactions survive checkpoints and restarts: two sites with folders, and messages
//! that the test delivers.

mod mailboxes;

use isomer_design::{Footprint, Key, KeyRange, SiteId, TableId, Time};
use isomer_log::{Checkpoints, Durability, FileCheckpoints, FileLog, Options};
use isomer_site::{
    AtOnce, Body, Failure, Part, PartAnswer, Peers, Reply, Request, Site, SiteOptions, Step, Txn,
};
use mailboxes::Mailboxes;
use std::collections::BTreeMap;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

const T: TableId = TableId(1);
const S1: SiteId = SiteId(1);
const S2: SiteId = SiteId(2);

/// The other site, reached without delay.
struct There<'s>(&'s Site);

impl Peers for There<'_> {
    async fn part(&self, _: SiteId, part: Part) -> Result<PartAnswer, Failure> {
        self.0.part(part).await
    }
}

struct Pair {
    folder: tempfile::TempDir,
    mailboxes: Arc<Mailboxes>,
    sites: BTreeMap<SiteId, Site>,
}

impl Pair {
    /// Accounts below 10 at s1, the others at s2.
    fn new() -> Pair {
        let (folder, mailboxes) = (tempfile::tempdir().unwrap(), Arc::default());
        let mut pair = Pair { folder, mailboxes, sites: BTreeMap::new() };
        for (id, range) in [
            (S1, KeyRange::new(Key::min(), Some(Key::int(10)))),
            (S2, KeyRange::new(Key::int(10), None)),
        ] {
            pair.restart(id);
            ready(pair.sites[&id].step(Step::Create(T, vec![range]))).unwrap();
        }
        pair
    }

    /// Stops a site, after a sync, and restarts it. Undelivered messages to it are lost.
    fn restart(&mut self, id: SiteId) {
        if let Some(site) = self.sites.remove(&id) {
            site.log().sync().unwrap();
        }
        self.mailboxes.messages.lock().unwrap().retain(|(_, to, _)| *to != id);
        self.mailboxes.now.fetch_add(1_000_000, Ordering::Relaxed);
        self.sites.insert(id, open(self.folder.path(), id, &self.mailboxes));
    }

    /// Writes 3 and 13, coordinated by s1.
    fn transfer(&self, value: u8) -> Result<Reply, Failure> {
        let footprint = Footprint::new().write(T, Key::int(3)).write(T, Key::int(13));
        let share = |key| Footprint::new().write(T, Key::int(key));
        let branches = [(S1, share(3)), (S2, share(13))].into();
        let mut procedure = |txn: &mut Txn<'_>| {
            txn.put(T, &Key::int(3), &[value])?;
            txn.put(T, &Key::int(13), &[value])
        };
        let body = Body::Here(&mut procedure);
        let request = Request { branches: Some(&branches), ..Request::new(&footprint, body) };
        let there = There(&self.sites[&S2]);
        ready(self.sites[&S1].coordinate(request, &mut |_| {}, &there))
    }

    /// Advances the time and delivers messages until none is left.
    fn settle(&self) {
        for _ in 0..4 {
            self.mailboxes.now.fetch_add(250_000_000, Ordering::Relaxed);
            for site in self.sites.values() {
                site.log().sync().unwrap();
                site.tick();
            }
            while let Some((from, to, envelope)) = self.mailboxes.next_letter() {
                self.sites[&to].receive(from, envelope);
            }
        }
        for site in self.sites.values() {
            assert_eq!(site.unfinished(), 0, "{} has finished every transaction", site.id());
        }
    }

    fn read(&self, id: SiteId, key: i64) -> Option<Vec<u8>> {
        let mut found = None;
        let footprint = Footprint::new().read(T, Key::int(key));
        let mut procedure = |txn: &mut Txn<'_>| {
            found = txn.get(T, &Key::int(key))?.map(<[u8]>::to_vec);
            Ok(())
        };
        ready(self.sites[&id].execute(&footprint, Time::ZERO, &mut procedure)).unwrap();
        found
    }
}

fn open(folder: &Path, id: SiteId, mailboxes: &Arc<Mailboxes>) -> Site {
    let folder = folder.join(id.to_string());
    // Commits do not wait for the disk, but state on which other sites rely must be on disk all the
    // same.
    let options = Options { durability: Durability::None, ..Options::default() };
    let (log, _) = FileLog::open(folder.join("log"), options).unwrap();
    let (log, network, time) = (Arc::new(log), mailboxes.clone(), mailboxes.clone());
    let usual = SiteOptions::new(id, log, network, time);
    let checkpoints: Arc<dyn Checkpoints> = Arc::new(FileCheckpoints::open(folder).unwrap());
    Site::open(SiteOptions { checkpoints: Some(checkpoints), ..usual }).unwrap()
}

fn ready<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("nothing here has to wait"),
    }
}

#[test]
fn a_decision_is_found_in_the_checkpoint_by_a_participant_that_asks_late() {
    let mut pair = Pair::new();
    pair.transfer(1).unwrap();
    ready(pair.sites[&S1].checkpoint(&mut AtOnce)).unwrap();
    pair.restart(S1);
    pair.restart(S2);
    assert_eq!(pair.sites[&S2].unfinished(), 1, "it was prepared, and heard nothing");
    pair.settle();
    assert_eq!((pair.read(S1, 3), pair.read(S2, 13)), (Some(vec![1]), Some(vec![1])));
    assert!(pair.transfer(2).is_ok());
}

#[test]
fn a_checkpoint_waits_for_prepared_transactions_and_holds_their_writes() {
    let mut pair = Pair::new();
    pair.transfer(1).unwrap();
    {
        let mut pace = AtOnce;
        let mut checkpoint = pin!(pair.sites[&S2].checkpoint(&mut pace));
        let mut poll = || checkpoint.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll().is_pending(), "its partition is locked");
        pair.settle();
        assert!(matches!(poll(), Poll::Ready(Ok(()))));
    }
    pair.restart(S2);
    pair.settle();
    assert_eq!(pair.read(S2, 13), Some(vec![1]));
}

#[test]
fn a_dropped_request_is_an_abort_that_the_participant_hears_of() {
    let pair = Pair::new();
    let footprint = Footprint::new().write(T, Key::int(3)).write(T, Key::int(13));
    let share = |key| Footprint::new().write(T, Key::int(key));
    let branches = [(S1, share(3)), (S2, share(13))].into();
    let mut procedure = |_: &mut Txn<'_>| panic!("the procedure is at fault");
    let there = There(&pair.sites[&S2]);
    let body = Body::Here(&mut procedure);
    let request = Request { branches: Some(&branches), ..Request::new(&footprint, body) };
    let mut unheard = |_| {};
    let coordination = pair.sites[&S1].coordinate(request, &mut unheard, &there);
    let fault = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| ready(coordination)));
    assert!(fault.is_err());
    assert_eq!(pair.sites[&S2].unfinished(), 1, "it has entered");
    pair.settle();
    assert!(pair.transfer(2).is_ok(), "nothing is locked any more");
}
