//! A fence is a promise to the successors: a restart does not lift it, only an admission does. This
//! site may have followed the fenced one, and a restart loses the tail that it kept.

mod mailboxes;

use isomer_design::{Backups, Footprint, Key, KeyRange, SiteId, TableId, Time};
use isomer_log::{Checkpoints, Log, MemoryCheckpoints, MemoryLog, MemoryOptions};
use isomer_site::{Answer, AtOnce, Part, Site, SiteOptions, Step, TxnId};
use mailboxes::Mailboxes;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

const T: TableId = TableId(1);
/// The table that `s2` follows.
const FOLLOWED: TableId = TableId(2);
const S1: SiteId = SiteId(1);
const S2: SiteId = SiteId(2);

/// `s2`, and its durable state.
struct Fencer {
    site: Site,
    log: Arc<MemoryLog>,
    checkpoints: Arc<MemoryCheckpoints>,
}

fn open(id: SiteId, log: &Arc<MemoryLog>, checkpoints: &Arc<MemoryCheckpoints>) -> Site {
    let mailboxes = Arc::new(Mailboxes::default());
    let usual = SiteOptions::new(id, log.clone(), mailboxes.clone(), mailboxes);
    let checkpoints: Option<Arc<dyn Checkpoints>> = Some(checkpoints.clone());
    Site::open(SiteOptions { checkpoints, ..usual }).unwrap()
}

impl Fencer {
    fn new() -> Fencer {
        let fencer = Fencer::of(S2);
        fencer.step(Step::Create(T, vec![KeyRange::all()]));
        fencer
    }

    fn of(id: SiteId) -> Fencer {
        let log = Arc::new(MemoryLog::new(MemoryOptions::default()));
        let checkpoints = Arc::new(MemoryCheckpoints::new());
        Fencer { site: open(id, &log, &checkpoints), log, checkpoints }
    }

    /// Follows a table of `s1`, which has backups from then on.
    fn follow(&self) {
        let master = Fencer::of(S1);
        let all = KeyRange::all();
        master.step(Step::Create(FOLLOWED, vec![all.clone()]));
        let whole = master.drive(master.site.follow(FOLLOWED, &all.start, S2)).unwrap();
        self.drive(self.site.install(whole)).unwrap();
        self.step(Step::Backups(FOLLOWED, Backups { count: 1, on_disk: true }));
    }

    fn drive<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        for _ in 0..1000 {
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
                return done;
            }
            self.log.sync().unwrap();
            self.site.tick();
        }
        panic!("it waits for ever");
    }

    fn step(&self, step: Step) -> Answer {
        self.drive(self.site.step(step)).unwrap()
    }

    /// Restarts `s2`, which loses everything that is not durable.
    fn restart(&mut self) {
        self.log = Arc::new(self.log.crash(self.log.durable()));
        self.site = open(S2, &self.log, &self.checkpoints);
    }

    fn checkpoint(&self) {
        self.drive(self.site.checkpoint(&mut AtOnce)).unwrap();
    }

    /// Fences `s1`. True if its tail may have been lost here.
    fn has_lost_tail(&self) -> bool {
        let Answer::Fenced(fenced) = self.step(Step::Fence(S1)) else {
            panic!("the answer to a fence is the knowledge of s1")
        };
        assert!(fenced.tail.is_none(), "it has sent nothing");
        fenced.has_lost_tail
    }

    /// True if `s1` may still coordinate a transaction here.
    fn hears(&self, number: u64) -> bool {
        let txn = TxnId { coordinator: S1, incarnation: 1, number };
        let footprint = Footprint::new().write(T, Key::int(number as i64));
        self.drive(self.site.part(Part::Enter { txn, footprint, at: Time::ZERO })).is_ok()
    }
}

#[test]
fn a_restart_lifts_no_fence() {
    for has_checkpoint in [false, true] {
        let mut fencer = Fencer::new();
        fencer.step(Step::Fence(S1));
        assert!(!fencer.hears(1));
        if has_checkpoint {
            fencer.checkpoint();
        }
        fencer.restart();
        assert!(!fencer.hears(2), "with a checkpoint: {has_checkpoint}");

        fencer.step(Step::Admit(S1));
        fencer.restart();
        assert!(fencer.hears(3), "with a checkpoint: {has_checkpoint}");
    }
}

#[test]
fn a_restart_may_have_lost_the_tail_of_a_followed_site() {
    for has_checkpoint in [false, true] {
        let mut fencer = Fencer::new();
        fencer.restart();
        assert!(!fencer.has_lost_tail(), "it followed nothing");
        fencer.follow();
        assert!(!fencer.has_lost_tail(), "it has followed since a moment, and has not restarted");
        if has_checkpoint {
            fencer.checkpoint();
        }
        fencer.restart();
        assert!(fencer.has_lost_tail(), "with a checkpoint: {has_checkpoint}");
    }
}

#[test]
fn a_table_that_is_dropped_hides_no_lost_tail() {
    let mut fencer = Fencer::new();
    fencer.follow();
    assert!(!fencer.has_lost_tail());
    fencer.restart();
    fencer.step(Step::Forget(FOLLOWED));
    assert!(fencer.has_lost_tail(), "s1 may have voted by it, and may be master of other tables");

    // Nothing was lost that was there after the restart.
    let mut fencer = Fencer::new();
    fencer.restart();
    fencer.follow();
    fencer.step(Step::Forget(FOLLOWED));
    assert!(!fencer.has_lost_tail());
}
