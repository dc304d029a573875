//! Seeds of crashes: clients, the engine, real sites and real logs on one thread. A seed decides
//! which of them goes on next, when each disk syncs, and when everything stops.
//!
//! ```text
//!   clients      read at a snapshot, submit, note the answer
//!   engine       orderer, executor; each step at a site may be interrupted before and after
//!   disks        the order's log, and a log of each site, sync when the seed says so
//!   checkpoints  of each site, interrupted at each stage; its log is cut
//!   crash        what is not synced is lost; sites and engine are opened again
//!   apart        a site crashes alone and is opened again; or the engine does, and sites wait
//!   check        a model applies the durable order by what commits have read: the rows are equal, and
//!                so are the answers. Clients check that no read sees a part of a commit
//! ```
//!
//! Each [`Plant`] is a fault of the protocol that the checks must find.

use super::{NotOrdered, OrderQueue, Ordering};
use crate::conductor::Conductor;
use crate::router::Router;
use crate::transport::Transport;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use isomer_design::{
    Column, ColumnType, Design, Direction, Key, KeyRange, Placement, Schema, SiteId, Span, TableId,
    Time,
};
use isomer_log::{Checkpoints, Durability, Log, MemoryCheckpoints, MemoryLog, MemoryOptions};
use isomer_site::{
    Answer, BatchAnswer, BatchStep, CheckedWrite, CheckedWrites, Expect, Failure, Message, Network,
    OrderedBatch, OrderedCommit, OrderedSite, Pace, Published, Read, ReadSet, ReadSpan, Refusal,
    Reply, Request, SeenUpTo, Site, SiteOptions, Stage, Step, TimeSource, VisitRow,
};
use isomer_strategy::{SiteLoad, Static};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Order};
use std::task::{Context, Poll, Waker};

const SITES: u16 = 3;
const CLIENTS: u64 = 4;
const KEYS: i64 = 8;
/// Keys and values that commits read and write.
const ROWS: TableId = TableId(1);
/// The numbers of all applied commits: each writes its own.
const IDS: TableId = TableId(2);

/// A fault of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Plant {
    None,
    /// Frames of a site have the outcome of their own batch only.
    ForgetsOutcomes,
    /// A site applies a batch at a time of its own.
    OwnTime,
    /// A site's checks all hold.
    ChecksNothing,
    /// A batch is executed before it is durable.
    NotDurable,
    /// A site that has crashed alone does not wait for the order.
    GoesOn,
    /// The next batch begins before all sites have the last one durably.
    NotSettled,
}

/// A clock that moves when it is read.
#[derive(Default)]
struct Clock(AtomicU64);

impl TimeSource for Clock {
    fn now(&self) -> Time {
        Time(self.0.fetch_add(10, Order::SeqCst))
    }
}

struct Nowhere;

impl Network for Nowhere {
    fn send(&self, _: SiteId, _: SiteId, _: Message) {}
}

/// The sites of one run, between two crashes.
struct World {
    sites: Sites,
    clock: Arc<Clock>,
    plant: Plant,
}

type Sites = Rc<RefCell<BTreeMap<SiteId, Rc<Site>>>>;

async fn step_aside() {
    let mut waited = false;
    poll_fn(|_| if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending })
        .await;
}

impl World {
    fn site(&self, site: SiteId) -> Rc<Site> {
        self.sites.borrow()[&site].clone()
    }

    /// The result of some work at a site, unless the site crashes meanwhile.
    async fn at<R>(
        &self,
        id: SiteId,
        work: impl AsyncFnOnce(&Site) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let site = self.site(id);
        let mut work = pin!(work(&site));
        poll_fn(|cx| match Rc::ptr_eq(&site, &self.site(id)) {
            true => work.as_mut().poll(cx),
            false => Poll::Ready(Err(Failure::Stopped(id))),
        })
        .await
    }
}

impl Transport for World {
    fn drop_revokes(&self, _: SiteId) -> bool {
        true
    }

    async fn execute(
        &self,
        site: SiteId,
        _: Request<'_>,
        _: Published<'_>,
    ) -> Result<Reply, Failure> {
        Err(Failure::Stopped(site))
    }

    type Pin = ();

    async fn read_at(
        &self,
        site: SiteId,
        read: Read<'_>,
        at: Time,
        _: Option<&()>,
        visit: VisitRow<'_>,
    ) -> Result<SeenUpTo, Failure> {
        self.at(site, async |site: &Site| site.read_at(read, at, None, visit).await).await
    }

    async fn pin(&self, _: SiteId, _: Time) -> Result<(), Failure> {
        Ok(())
    }

    async fn lease(&self, _: SiteId, from: Time) -> Result<Time, Failure> {
        Ok(from)
    }

    async fn until_durable(&self, _: SiteId, _: SeenUpTo) -> Result<(), Failure> {
        Ok(())
    }

    async fn step(&self, site: SiteId, step: Step) -> Result<Answer, Refusal> {
        self.site(site).step(step).await
    }

    async fn batch(&self, site: SiteId, mut step: BatchStep) -> Result<BatchAnswer, Failure> {
        step_aside().await;
        match (self.plant, &mut step) {
            (Plant::ForgetsOutcomes, BatchStep::Install { outcomes, .. }) => {
                outcomes.drain(..outcomes.len() - 1);
            }
            (Plant::OwnTime, BatchStep::Install { outcomes, is_repeated: false, .. }) => {
                let own = outcomes.last_mut().expect("the batch's own");
                own.time = Time(own.time.0 + u64::from(site.0));
            }
            (Plant::ChecksNothing, BatchStep::Enter { checks, .. }) => checks.clear(),
            (Plant::NotSettled, BatchStep::Settle { .. }) => return Ok(BatchAnswer::Done),
            _ => {}
        }
        let answer = self.at(site, async |site: &Site| OrderedSite(site).take(step).await).await;
        step_aside().await;
        // The site may crash before the answer has arrived.
        self.at(site, async |_: &Site| answer).await
    }

    async fn retry(&self, _: SiteId) {
        step_aside().await;
    }

    fn load(&self, site: SiteId) -> SiteLoad {
        crate::load_of(site, None)
    }

    fn now(&self) -> Time {
        self.clock.now()
    }
}

fn design() -> Design {
    let mut design = Design::new((1..=SITES).map(SiteId)).expect("sites");
    for (id, name, width) in [(ROWS, "rows", KEYS / 3), (IDS, "ids", 50)] {
        let columns = vec![Column::new("k", ColumnType::Int64)];
        let schema = Schema::new(name, columns, &["k"]).expect("a schema");
        let begins = (1..SITES)
            .map(|site| (Key::int(i64::from(site) * width), Placement::at(SiteId(site + 1))));
        let partitions = [(Key::min(), Placement::at(SiteId(1)))].into_iter().chain(begins);
        design.create_table(id, schema, partitions).expect("a table");
    }
    design
}

/// The logs, which survive a crash as far as they are durable.
struct Disks {
    order: Arc<MemoryLog>,
    sites: BTreeMap<SiteId, Arc<MemoryLog>>,
    checkpoints: BTreeMap<SiteId, Arc<MemoryCheckpoints>>,
}

impl Disks {
    fn new(plant: Plant) -> Disks {
        let log = |durability| {
            Arc::new(MemoryLog::new(MemoryOptions { durability, ..MemoryOptions::default() }))
        };
        let is_lax = plant == Plant::NotDurable;
        let order = log(if is_lax { Durability::None } else { Durability::Commit });
        let ids = (1..=SITES).map(SiteId);
        let sites = ids.clone().map(|site| (site, log(Durability::None))).collect();
        let checkpoints = ids.map(|site| (site, Arc::default())).collect();
        Disks { order, sites, checkpoints }
    }

    fn crash(&mut self) {
        self.order = Arc::new(self.order.crash(self.order.durable()));
        (1..=SITES).for_each(|site| self.crash_site(SiteId(site)));
    }

    fn crash_site(&mut self, site: SiteId) {
        let log = &self.sites[&site];
        let log = Arc::new(log.crash(log.durable()));
        self.sites.insert(site, log);
        let checkpoints = Arc::new(self.checkpoints[&site].crash());
        self.checkpoints.insert(site, checkpoints);
    }

    fn open_site(&self, id: SiteId, clock: &Arc<Clock>) -> Rc<Site> {
        let log = self.sites[&id].clone();
        let options = SiteOptions::new(id, log, Arc::new(Nowhere), clock.clone());
        let checkpoints: Option<Arc<dyn Checkpoints>> = Some(self.checkpoints[&id].clone());
        let site = Site::open(SiteOptions { checkpoints, ..options });
        // Later than the promises that the site may have made before.
        clock.0.fetch_add(10_000_000_000, Order::SeqCst);
        Rc::new(site.expect("its log is sound"))
    }
}

/// Keys and values.
type Content = Vec<(Key, Vec<u8>)>;

/// The knowledge of a client about its commit.
#[derive(Clone, Debug)]
struct Sent {
    /// The content of what it has read, by key; ranges have all of their rows.
    saw: Vec<(KeyRange, Content)>,
    /// Whether it was applied, once it was answered.
    answer: Option<bool>,
}

/// Everything that survives: what was sent, by the numbers of commits.
type Notes = Rc<RefCell<BTreeMap<i64, Sent>>>;
type Rows = BTreeMap<(TableId, Key), Vec<u8>>;
type Engine = Arc<Ordering<World>>;

struct Run {
    engine: Engine,
    queue: Arc<OrderQueue>,
}

/// Opens all sites on what the disks have.
fn open_sites(disks: &Disks, clock: &Arc<Clock>) -> Sites {
    let sites = (1..=SITES).map(|site| (SiteId(site), disks.open_site(SiteId(site), clock)));
    Rc::new(RefCell::new(sites.collect()))
}

/// Opens the engine.
#[allow(clippy::arc_with_non_send_sync, reason = "all runs on one thread")]
fn open(disks: &Disks, sites: &Sites, clock: &Arc<Clock>, (plant, is_apart): (Plant, bool)) -> Run {
    let world = World { sites: sites.clone(), clock: clock.clone(), plant };
    let conductor = Conductor::new(world, design(), IDS, Box::new(Static), Box::new(()));
    let queue = conductor.order.clone();
    let router = Arc::new(Router::new(Arc::new(conductor)));
    let engine = Ordering::new(router, disks.order.clone(), false, is_apart);
    let found = settle(engine.read()).expect("an order");
    let recovered = engine.recover(found);
    settle_while(recovered, || disks.sites.values().for_each(|log| drop(log.sync())))
        .expect("the order fits the sites");
    Run { engine: Arc::new(engine), queue }
}

/// Runs a future alone, to its end.
fn settle<F: Future>(future: F) -> F::Output {
    settle_while(future, || {})
}

fn settle_while<F: Future>(future: F, disks: impl Fn()) -> F::Output {
    let mut future = Box::pin(future);
    for _ in 0..100_000 {
        disks();
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return done;
        }
    }
    panic!("it waits for something that does not come");
}

fn create_tables(disks: &Disks, clock: &Arc<Clock>) {
    for (&id, log) in &disks.sites {
        let options = SiteOptions::new(id, log.clone(), Arc::new(Nowhere), clock.clone());
        let site = Site::open(options).expect("a new site");
        for table in [ROWS, IDS] {
            let (design, all) = (design(), KeyRange::all());
            let placed = design.partitions_in(table, &all);
            let own = placed.filter(|(_, p)| p.master == id).map(|(range, _)| range).collect();
            settle(site.step(Step::Create(table, own))).expect("a new table");
        }
        log.sync().expect("a log in memory");
    }
}

/// Reads a range of a table as of a time: keys, values and their versions. `None` if a site no
/// longer has the history, or crashes.
async fn read(
    world: &World,
    table: TableId,
    range: &KeyRange,
    at: Time,
) -> Option<Vec<(Key, Vec<u8>, Time)>> {
    let (design, mut rows) = (design(), Vec::new());
    for (piece, placement) in design.partitions_in(table, range) {
        let part = piece.intersection(range);
        let span = ReadSpan::Range(&part, Direction::Forward);
        let read = Read { table, span, limit: usize::MAX };
        let mut visit = |key: &[u8], row: &[u8], time: Time| {
            rows.push((Key::from_bytes(key), row.to_vec(), time));
            ControlFlow::Continue(())
        };
        world.read_at(placement.master, read, at, None, &mut visit).await.ok()?;
    }
    Some(rows)
}

/// Reads a range of [`ROWS`] as of a time, and checks that each row's commit is there as a whole.
async fn read_rows(world: &World, range: &KeyRange, at: Time) -> Option<Vec<(Key, Vec<u8>, Time)>> {
    let rows = read(world, ROWS, range, at).await?;
    for (key, row, _) in &rows {
        let id: i64 = String::from_utf8_lossy(row).parse().expect("the number of its commit");
        let own = read(world, IDS, &KeyRange::single(Key::int(id)), at).await?;
        assert!(!own.is_empty(), "a part of commit {id} is read: its row {key}, not its number");
    }
    Some(rows)
}

/// One client: reads, writes, notes the answers.
async fn client(run: &Run, notes: &Notes, number: &AtomicU64, seed: u64) {
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed);
    let router = run.engine.router.clone();
    let world = router.transport();
    'anew: loop {
        step_aside().await;
        let id = number.fetch_add(1, Order::SeqCst) as i64;
        let at = router.present();
        let (mut reads, mut saw) = (ReadSet::default(), Vec::new());
        for _ in 0..chance.random_range(0..3) {
            let from = chance.random_range(0..KEYS);
            let range = match chance.random_bool(0.3) {
                true => KeyRange::ints(from, from + chance.random_range(1..4)),
                false => KeyRange::single(Key::int(from)),
            };
            let Some(rows) = read_rows(world, &range, at).await else { continue 'anew };
            let span = match range == KeyRange::single(Key::int(from)) {
                true => Span::Key(Key::int(from)),
                false => Span::Range(range.clone()),
            };
            reads.add(at, ROWS, span, rows.len() as u64);
            saw.push((
                range,
                rows.iter().map(|(key, row, _)| (key.clone(), row.clone())).collect(),
            ));
        }
        let mut written: BTreeMap<Key, CheckedWrite> = BTreeMap::new();
        for _ in 0..chance.random_range(0..3) {
            let key = Key::int(chance.random_range(0..KEYS));
            if written.contains_key(&key) {
                continue;
            }
            let range = KeyRange::single(key.clone());
            let Some(rows) = read_rows(world, &range, at).await else { continue 'anew };
            let version = rows.first().map(|(_, _, time)| *time);
            let row = chance.random_bool(0.8).then(|| format!("{id}").into_bytes());
            let expect = match chance.random_bool(0.2) {
                true => Expect::Anything,
                false => {
                    let rows: Vec<_> =
                        rows.iter().map(|(key, row, _)| (key.clone(), row.clone())).collect();
                    saw.push((range, rows.clone()));
                    Expect::Version(version)
                }
            };
            written.insert(key, CheckedWrite { expect, row });
        }
        let own = CheckedWrite { expect: Expect::Anything, row: Some(Vec::new()) };
        let mut writes = CheckedWrites::from([(IDS, [(Key::int(id), own)].into_iter().collect())]);
        if !written.is_empty() {
            writes.insert(ROWS, written);
        }
        let commit = OrderedCommit { reads: vec![reads], writes, ..OrderedCommit::default() };
        notes.borrow_mut().insert(id, Sent { saw, answer: None });
        let answer = run.queue.submit(commit).await;
        let is_applied = match answer {
            Ok(_) => Some(true),
            Err(NotOrdered::Conflict(_)) => Some(false),
            Err(_) => None,
        };
        notes.borrow_mut().get_mut(&id).expect("it was sent").answer = is_applied;
    }
}

/// A checkpoint stops at each stage.
struct Slowly;

impl Pace for Slowly {
    async fn reached(&mut self, _: Stage) {
        step_aside().await;
    }
}

/// Makes checkpoints of a site, one after the other.
async fn checkpoint(run: &Run, site: SiteId) {
    let router = run.engine.router.clone();
    loop {
        let world = router.transport();
        let make = async |site: &Site| Ok(site.checkpoint(&mut Slowly).await);
        let made = world.at(site, make).await;
        assert!(!matches!(made, Ok(Err(_))), "a checkpoint in memory");
        for _ in 0..20 {
            step_aside().await;
        }
    }
}

/// Applies the order to a model: a commit counts if it has read what is there.
fn model(batches: &[OrderedBatch], notes: &BTreeMap<i64, Sent>) -> Result<Rows, String> {
    let mut rows = Rows::new();
    for batch in batches {
        let mut touched = BTreeSet::new();
        for commit in &batch.commits {
            let Some(ids) = commit.writes.get(&IDS) else { continue };
            let id = ids.keys().next().and_then(|key| key.to_ints()).expect("a number")[0];
            let sent = &notes[&id];
            let now = |range: &KeyRange| -> Vec<(Key, Vec<u8>)> {
                let own =
                    rows.iter().filter(|((table, key), _)| *table == ROWS && range.contains(key));
                own.map(|((_, key), row)| (key.clone(), row.clone())).collect()
            };
            // Rows of an earlier commit of the batch were not read, whatever they are.
            let is_touched = |range: &KeyRange| touched.iter().any(|key: &Key| range.contains(key));
            let holds =
                sent.saw.iter().all(|(range, saw)| now(range) == *saw && !is_touched(range));
            if sent.answer.is_some_and(|answer| answer != holds) {
                return Err(format!("commit {id} was answered {:?}, not {holds}", sent.answer));
            }
            if holds {
                touched
                    .extend(commit.writes.get(&ROWS).into_iter().flatten().map(|(k, _)| k.clone()));
                for (&table, written) in &commit.writes {
                    for (key, write) in written {
                        let place = (table, key.clone());
                        match &write.row {
                            Some(row) => drop(rows.insert(place, row.clone())),
                            None => drop(rows.remove(&place)),
                        }
                    }
                }
            }
        }
    }
    Ok(rows)
}

/// All rows of the sites, as of now.
fn rows_of(run: &Run) -> Rows {
    let (router, design) = (run.engine.router.clone(), design());
    let world = router.transport();
    let mut rows = Rows::new();
    for table in [ROWS, IDS] {
        for (range, placement) in design.partitions_in(table, &KeyRange::all()) {
            let span = ReadSpan::Range(&range, Direction::Forward);
            let read = Read { table, span, limit: usize::MAX };
            let site = world.site(placement.master);
            let mut visit = |key: &[u8], row: &[u8], _: Time| {
                rows.insert((table, Key::from_bytes(key)), row.to_vec());
                ControlFlow::Continue(())
            };
            let at = router.present();
            settle(site.read_at(read, at, None, &mut visit)).expect("it holds the range");
        }
    }
    rows
}

fn check(run: &Run, all: &[OrderedBatch], notes: &Notes) -> Result<(), String> {
    let model = model(all, &notes.borrow())?;
    let rows = rows_of(run);
    if rows != model {
        return Err(format!("the rows are {rows:?}, not {model:?}"));
    }
    let notes = notes.borrow();
    let lost = notes.iter().find(|(id, sent)| {
        sent.answer == Some(true) && !model.contains_key(&(IDS, Key::int(**id)))
    });
    lost.map_or(Ok(()), |(id, _)| Err(format!("commit {id} was answered, and is lost")))
}

fn play(seed: u64, plant: Plant, is_apart: bool) -> Result<usize, String> {
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (clock, mut disks) = (Arc::new(Clock(AtomicU64::new(1000))), Disks::new(plant));
    create_tables(&disks, &clock);
    let (notes, number) = (Notes::default(), AtomicU64::new(1));
    let mut sites = open_sites(&disks, &clock);
    for _ in 0..4 {
        let run = open(&disks, &sites, &clock, (plant, is_apart));
        check(&run, &run.engine.order.read().expect("a sound order"), &notes)?;
        {
            let mut tasks: Vec<LocalBoxFuture<'_, ()>> = vec![
                run.engine.order_batches().boxed_local(),
                run.engine.execute_batches().boxed_local(),
            ];
            for at in 0..CLIENTS {
                let seed = seed * 1000 + number.load(Order::SeqCst) + at;
                tasks.push(client(&run, &notes, &number, seed).boxed_local());
            }
            for site in (1..=SITES).map(SiteId) {
                tasks.push(checkpoint(&run, site).boxed_local());
            }
            for _ in 0..chance.random_range(200..2000) {
                let at = chance.random_range(0..tasks.len());
                let polled = tasks[at].as_mut().poll(&mut Context::from_waker(Waker::noop()));
                assert!(polled.is_pending(), "no task of a run ends");
                if chance.random_bool(0.02) {
                    disks.order.sync().expect("a log in memory");
                }
                if chance.random_bool(0.03) {
                    let site = SiteId(chance.random_range(1..=SITES));
                    disks.sites[&site].sync().expect("a log in memory");
                }
                if is_apart && chance.random_bool(0.01) {
                    let id = SiteId(chance.random_range(1..=SITES));
                    disks.crash_site(id);
                    let site = disks.open_site(id, &clock);
                    if plant != Plant::GoesOn {
                        OrderedSite(&site).wait_for_order();
                    }
                    sites.borrow_mut().insert(id, site);
                    run.queue.may_wait(id);
                }
            }
        }
        if is_apart && chance.random_bool(0.5) {
            // The sites go on.
            disks.order = Arc::new(disks.order.crash(disks.order.durable()));
        } else {
            disks.crash();
            sites = open_sites(&disks, &clock);
        }
    }
    let run = open(&disks, &sites, &clock, (plant, is_apart));
    check(&run, &run.engine.order.read().expect("a sound order"), &notes)?;
    let done = notes.borrow().values().filter(|sent| sent.answer == Some(true)).count();
    Ok(done)
}

#[test]
fn nothing_is_lost_torn_or_decided_twice_whatever_a_crash_cuts_off() {
    let mut done = 0;
    for seed in 1..=150 {
        let played = play(seed, Plant::None, false);
        done += played.unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
    assert!(done > 3_000, "few commits were applied: {done}");
}

#[test]
fn sites_and_the_engine_may_crash_one_by_one() {
    let mut done = 0;
    for seed in 1..=150 {
        let played = play(seed, Plant::None, true);
        done += played.unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
    assert!(done > 1_000, "few commits were applied: {done}");
}

#[test]
fn planted_faults_are_found() {
    let together =
        [Plant::ForgetsOutcomes, Plant::OwnTime, Plant::ChecksNothing, Plant::NotDurable];
    let apart = [Plant::GoesOn, Plant::NotSettled];
    for (plant, is_apart) in
        together.map(|plant| (plant, false)).into_iter().chain(apart.map(|plant| (plant, true)))
    {
        let finds = |seed: u64| {
            let played = std::panic::catch_unwind(|| play(seed, plant, is_apart));
            !matches!(played, Ok(Ok(_)))
        };
        assert!((1..=600).any(finds), "{plant:?} is not found");
    }
}
