//! Copies of a partition in pieces, stopped between any two of them, on a real log.
//!
//! A master `s1` gives snapshots. `s2` writes them to its log, is stopped, and opened again. Pieces
//! have two rows, so that a partition of a few rows is larger than the largest frame.

mod mailboxes;

use isomer_design::{Footprint, Key, KeyRange, SiteId, TableId, Time};
use isomer_log::{
    Checkpoints, Durability, FileCheckpoints, FileLog, MemoryLog, MemoryOptions, Options,
};
use isomer_site::{AtOnce, Failure, Site, SiteOptions, Snapshot, Step, TimeSource, Txn};
use mailboxes::Mailboxes;
use std::ops::ControlFlow;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

const S1: SiteId = SiteId(1);
const S2: SiteId = SiteId(2);
const T: TableId = TableId(1);
const PIECE_BYTES: usize = 30;
/// A piece, a row, and the overhead of a frame.
const FRAME_BYTES_MAX: usize = 150;
const ROWS: u8 = 11;

/// A master and its replica.
struct Pair {
    folder: tempfile::TempDir,
    mailboxes: Arc<Mailboxes>,
    master: Site,
    replica: Option<Site>,
}

impl Pair {
    fn new() -> Pair {
        let mailboxes = Arc::new(Mailboxes::default());
        mailboxes.now.store(1_000_000_000, Ordering::Relaxed);
        let log = Arc::new(MemoryLog::new(MemoryOptions::default()));
        let (network, time) = (mailboxes.clone(), mailboxes.clone());
        let usual = SiteOptions::new(S1, log, network, time);
        let options = SiteOptions { piece_bytes: PIECE_BYTES, ..usual };
        let master = Site::open(options).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut pair = Pair { folder, mailboxes, master, replica: None };
        pair.drive(pair.master.step(Step::Create(T, vec![KeyRange::all()]))).unwrap();
        pair.restart();
        (0..ROWS).for_each(|number| pair.write(number, Some(1)));
        pair
    }

    /// Stops the replica as a crash does, and restarts it.
    fn restart(&mut self) {
        self.replica = None;
        self.mailboxes.messages.lock().unwrap().retain(|(_, to, _)| *to != S2);
        self.mailboxes.now.fetch_add(1_000_000, Ordering::Relaxed);
        self.replica = Some(open(self.folder.path(), &self.mailboxes));
        self.replica().greet(std::iter::once(S1));
    }

    fn replica(&self) -> &Site {
        self.replica.as_ref().unwrap()
    }

    /// Polls, and syncs the disks and delivers messages in between.
    fn drive<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        for _ in 0..10_000 {
            if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            {
                return done;
            }
            self.deliver();
        }
        panic!("it waits for ever");
    }

    /// Syncs the disks, and delivers all messages.
    fn deliver(&self) {
        self.mailboxes.now.fetch_add(1_000_000, Ordering::Relaxed);
        for site in std::iter::once(&self.master).chain(&self.replica) {
            site.log().sync().unwrap();
            site.tick();
        }
        loop {
            let Some((from, to, envelope)) = self.mailboxes.next_letter() else { return };
            match &self.replica {
                Some(replica) if to == S2 => replica.receive(from, envelope),
                _ if to == S1 => self.master.receive(from, envelope),
                _ => {}
            }
        }
    }

    fn write(&self, number: u8, value: Option<u8>) {
        let key = Key::int(number.into());
        let footprint = Footprint::new().write(T, key.clone());
        let mut procedure = |txn: &mut Txn<'_>| match value {
            Some(value) => txn.put(T, &key, &[value]),
            None => txn.delete(T, &key).map(drop),
        };
        let done = self.master.execute(&footprint, Time::ZERO, &mut procedure);
        self.drive(done).unwrap();
    }

    fn rows(&self, site: &Site) -> Vec<(Key, Vec<u8>)> {
        let footprint = Footprint::new().read_range(T, KeyRange::all());
        let mut rows = Vec::new();
        let mut procedure = |txn: &mut Txn<'_>| {
            rows.clear();
            txn.scan(T, &KeyRange::all(), |key, row| {
                rows.push((Key::from_bytes(key), row.to_vec()));
                ControlFlow::Continue(())
            })
        };
        // Covers all commits of the master so far.
        let session = self.mailboxes.now();
        self.drive(site.execute(&footprint, session, &mut procedure)).unwrap();
        rows
    }

    fn snapshot(&self) -> Snapshot {
        self.drive(self.master.follow(T, &Key::min(), S2)).unwrap()
    }

    /// The copy fails: both sites end it, as the router lets them.
    fn give_up(&self) {
        let unfollow = Step::Unfollow(T, Key::min(), S2);
        self.drive(self.master.step(unfollow)).unwrap();
        let drop = Step::Drop(T, KeyRange::all());
        self.drive(self.replica().step(drop)).unwrap();
    }

    /// Installs a copy, but stops after some syncs. True if the install was complete before.
    fn install_until(&self, snapshot: Snapshot, syncs: usize) -> bool {
        let mut install = pin!(self.replica().install(snapshot));
        for _ in 0..=syncs {
            if install.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                return true;
            }
            self.replica().log().sync().unwrap();
        }
        false
    }

    fn assert_alike(&self) {
        assert_eq!(self.rows(self.replica()), self.rows(&self.master));
    }
}

fn open(folder: &Path, mailboxes: &Arc<Mailboxes>) -> Site {
    let options = Options { durability: Durability::Commit, ..Options::default() };
    let (log, _) = FileLog::open(folder.join("log"), options).unwrap();
    let (log, network, time) = (Arc::new(log), mailboxes.clone(), mailboxes.clone());
    let checkpoints: Arc<dyn Checkpoints> = Arc::new(FileCheckpoints::open(folder).unwrap());
    let (checkpoints, piece_bytes) = (Some(checkpoints), PIECE_BYTES);
    let usual = SiteOptions::new(S2, log, network, time);
    Site::open(SiteOptions { checkpoints, piece_bytes, ..usual }).unwrap()
}

#[test]
fn no_frame_of_a_copy_is_larger_than_a_piece_and_a_row() {
    let mut pair = Pair::new();
    let snapshot = pair.snapshot();
    assert_eq!((snapshot.rows(), snapshot.pieces.len()), (ROWS.into(), 6));
    assert!(snapshot.bytes() > FRAME_BYTES_MAX, "else one frame would do");
    pair.drive(pair.replica().install(snapshot)).unwrap();
    let mut frames = Vec::new();
    let log = pair.replica().log();
    log.read(log.begin(), &mut |_, frame| {
        frames.push(frame.len());
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(
        frames.len() >= 6 && frames.iter().all(|bytes| *bytes <= FRAME_BYTES_MAX),
        "{frames:?}"
    );
    pair.assert_alike();
    pair.restart();
    pair.assert_alike();
}

#[test]
fn a_partition_that_no_copy_can_have_is_refused_before_anything_is_done() {
    let mailboxes = Arc::new(Mailboxes::default());
    mailboxes.now.store(1_000_000_000, Ordering::Relaxed);
    let log = Arc::new(MemoryLog::new(MemoryOptions::default()));
    let usual = SiteOptions::new(S1, log, mailboxes.clone(), mailboxes.clone());
    let master = Site::open(SiteOptions { copy_bytes_max: 20, ..usual }).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let pair = Pair { folder, mailboxes, master, replica: None };
    pair.drive(pair.master.step(Step::Create(T, vec![KeyRange::all()]))).unwrap();
    (0..ROWS).for_each(|number| pair.write(number, Some(1)));
    let follow = Step::Follow(T, Key::min(), S2);
    let refused = pair.drive(pair.master.step(follow.clone())).unwrap_err().to_string();
    assert!(refused.contains("split it first"), "{refused}");
    assert!(pair.master.holdings()[0].followers.is_empty());
    let at = Key::int((ROWS / 2).into());
    pair.drive(pair.master.step(Step::Split(T, at))).unwrap();
    pair.drive(pair.master.step(follow)).unwrap();
}

#[test]
fn half_a_copy_is_forgotten_and_the_next_is_whole() {
    let mut stopped = 0;
    for syncs in 0.. {
        let mut pair = Pair::new();
        if pair.install_until(pair.snapshot(), syncs) {
            break;
        }
        stopped += 1;
        pair.restart();
        let half = pair.replica().holdings().is_empty();
        if half {
            // The first, incomplete copy has rows that the second one lacks.
            pair.give_up();
            pair.write(0, None);
            pair.write(3, None);
            pair.write(7, Some(2));
            pair.drive(pair.replica().install(pair.snapshot())).unwrap();
        }
        pair.assert_alike();
        pair.restart();
        pair.assert_alike();
    }
    assert_eq!(stopped, 6, "after each of five pieces, and before the install is durable");
}

#[test]
fn a_copy_that_was_given_up_leaves_no_rows_behind() {
    let mut pair = Pair::new();
    assert!(!pair.install_until(pair.snapshot(), 2));
    pair.give_up();
    (1..ROWS).for_each(|number| pair.write(number, None));
    // One piece: no record in the log begins the copy.
    let snapshot = pair.snapshot();
    assert_eq!(snapshot.pieces.len(), 1);
    pair.drive(pair.replica().install(snapshot)).unwrap();
    pair.assert_alike();
    pair.restart();
    pair.assert_alike();
    assert_eq!(pair.rows(pair.replica()).len(), 1);
}

/// The drop may wait for a change that waits for a lock of the reader.
#[test]
fn a_reader_of_a_copy_that_is_no_longer_fed_goes_elsewhere_before_the_drop() {
    let pair = Pair::new();
    pair.drive(pair.replica().install(pair.snapshot())).unwrap();
    pair.assert_alike();
    pair.drive(pair.master.step(Step::Unfollow(T, Key::min(), S2))).unwrap();
    pair.write(0, Some(2));
    let footprint = Footprint::new().read(T, Key::int(0));
    let mut read = |txn: &mut Txn<'_>| txn.get(T, &Key::int(0)).map(drop);
    let done = pair.replica().execute(&footprint, pair.mailboxes.now(), &mut read);
    assert!(matches!(pair.drive(done), Err(Failure::NotHere { site: S2, .. })));
}

#[test]
fn a_checkpoint_in_the_middle_of_a_copy_loses_none_of_it() {
    let mut pair = Pair::new();
    {
        let snapshot = pair.snapshot();
        let mut install = pin!(pair.replica().install(snapshot));
        let mut poll = || install.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        for _ in 0..3 {
            assert!(poll().is_pending());
            pair.replica().log().sync().unwrap();
        }
        for _ in 0..2 {
            pair.drive(pair.replica().checkpoint(&mut AtOnce)).unwrap();
        }
        pair.drive(install).unwrap();
    }
    pair.assert_alike();
    pair.restart();
    pair.assert_alike();
    pair.drive(pair.replica().checkpoint(&mut AtOnce)).unwrap();
    pair.restart();
    pair.assert_alike();
}
