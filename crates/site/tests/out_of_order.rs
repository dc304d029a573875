//! A batch that is entered again keeps its locks, and may wait for one before them: a partition has
//! come to the site since. Changes that hold several locks let it go first.

mod mailboxes;

use isomer_design::{Backups, Footprint, Key, KeyRange, SiteId, TableId};
use isomer_log::{Log, MemoryLog, MemoryOptions};
use isomer_site::{
    Answer, BatchAnswer, BatchOutcome, BatchStep, Failure, OrderedSite, Refusal, Site, SiteOptions,
    Step,
};
use mailboxes::Mailboxes;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

const T: TableId = TableId(1);

type Under<'s, R> = Pin<Box<dyn Future<Output = R> + 's>>;

struct Alone {
    site: Site,
    log: Arc<MemoryLog>,
}

impl Alone {
    /// A site with a table of two partitions, which begin at the least key and at 10.
    fn new() -> Alone {
        let log = Arc::new(MemoryLog::new(MemoryOptions::default()));
        let mailboxes = Arc::new(Mailboxes::default());
        let options = SiteOptions::new(SiteId(1), log.clone(), mailboxes.clone(), mailboxes);
        let alone = Alone { site: Site::open(options).unwrap(), log };
        let ten = Key::int(10);
        let parts =
            vec![KeyRange::new(Key::min(), Some(ten.clone())), KeyRange::new(ten.clone(), None)];
        alone.ends(&mut alone.step(Step::Create(T, parts))).unwrap();
        alone
    }

    fn step(&self, step: Step) -> Under<'_, Result<Answer, Refusal>> {
        Box::pin(self.site.step(step))
    }

    fn batch(&self, step: BatchStep) -> Under<'_, Result<BatchAnswer, Failure>> {
        Box::pin(async { OrderedSite(&self.site).take(step).await })
    }

    /// The second attempt to enter batch 7 names both partitions, the first one that of 15 alone.
    fn enter(&self, attempt: u64) -> Under<'_, Result<BatchAnswer, Failure>> {
        let later = Footprint::new().write(T, Key::int(15));
        let footprint = if attempt == 1 { later } else { later.write(T, Key::int(5)) };
        self.batch(BatchStep::Enter { number: 7, attempt, footprint, checks: Vec::new() })
    }

    /// Lets tasks run for some ticks. Returns the results of those that have ended.
    fn run<R>(&self, under: &mut Under<'_, R>) -> Option<R> {
        for _ in 0..100 {
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(done) = under.as_mut().poll(&mut context) {
                return Some(done);
            }
            self.log.sync().unwrap();
            self.site.tick();
        }
        None
    }

    fn ends<R>(&self, under: &mut Under<'_, R>) -> R {
        self.run(under).expect("it does not wait for ever")
    }

    /// A batch has entered, with one partition; a change waits for it. Then the batch is entered
    /// again, with both.
    fn both_end(&self, change: Step) {
        self.ends(&mut self.enter(1)).unwrap();
        self.ends(&mut self.batch(BatchStep::Propose { number: 7 })).unwrap();
        let mut change = self.step(change);
        assert!(self.run(&mut change).is_none(), "the batch holds a partition");
        let mut again = self.enter(2);
        let entered = (0..100).find_map(|_| {
            let mut context = Context::from_waker(Waker::noop());
            assert!(change.as_mut().poll(&mut context).is_pending(), "the batch is first");
            self.site.tick();
            match again.as_mut().poll(&mut context) {
                Poll::Ready(entered) => Some(entered),
                Poll::Pending => None,
            }
        });
        entered.expect("it does not wait for ever").unwrap();
        drop(again);
        let proposed = self.ends(&mut self.batch(BatchStep::Propose { number: 7 })).unwrap();
        let BatchAnswer::Proposed(time) = proposed else { panic!("it was to propose a time") };
        let outcomes = vec![BatchOutcome { number: 7, time, applied: vec![] }];
        let install = BatchStep::Install { outcomes, writes: Vec::new(), is_repeated: false };
        self.ends(&mut self.batch(install)).unwrap();
        self.ends(&mut change).unwrap();
    }
}

#[test]
fn a_number_of_backups_waits_for_a_batch_that_is_entered_again() {
    Alone::new().both_end(Step::Backups(T, Backups { count: 1, on_disk: true }));
}

#[test]
fn a_merge_waits_for_a_batch_that_is_entered_again() {
    Alone::new().both_end(Step::Merge(T, Key::int(10)));
}

#[test]
fn the_end_of_a_table_waits_for_a_batch_that_is_entered_again() {
    Alone::new().both_end(Step::Forget(T));
}
