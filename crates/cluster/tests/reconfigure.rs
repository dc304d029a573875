//! Plans of operators: carried out beside transactions, paused, canceled and reversed.

#![allow(clippy::disallowed_methods, reason = "a test of threads waits for them")]

mod common;

use common::{ACCOUNTS, START, bank, total, transfer};
use isomer_cluster::{
    Control, Database, DiskFaults, Durability, Error, Options, Progress, Reconfiguration,
};
use isomer_design::{Change, Design, Footprint, Key, Plan, SiteId, TableId};
use isomer_strategy::{Changed, Decision, Refused, Request, Strategy, TwoPhase, Verdict};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The reason of the plans here.
const REASON: &str = "a test";

/// Longer than any wait here takes.
const LIMIT: Duration = Duration::from_secs(60);

fn plan(db: &Database, text: &str) -> Plan {
    Plan::parse(text, &db.design(), REASON).expect("the plan is valid")
}

/// Waits until a reconfiguration satisfies a condition.
fn wait(db: &Database, number: u64, is_so: impl Fn(&Reconfiguration) -> bool) -> Reconfiguration {
    let begun = Instant::now();
    loop {
        let all = db.reconfigurations();
        let found = all.into_iter().find(|it| it.number == number).expect("it is remembered");
        if is_so(&found) {
            return found;
        }
        assert!(begun.elapsed() < LIMIT, "{found:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn ended(db: &Database, number: u64) -> Reconfiguration {
    wait(db, number, Reconfiguration::has_ended)
}

/// Pauses the conductor after each change of a plan until the test opens the gate.
struct Gate {
    made: Receiver<()>,
    go_on: Sender<()>,
}

impl Gate {
    fn of(db: &Database) -> Gate {
        let ((tell, made), (go_on, may)) = (channel(), channel());
        let (tell, may) = (Mutex::new(tell), Mutex::new(may));
        db.watch(move |event| {
            if !event.reason.contains(REASON) {
                return;
            }
            // After the end of the test, neither side waits.
            let _ = tell.lock().unwrap().send(());
            let _ = may.lock().unwrap().recv();
        });
        Gate { made, go_on }
    }

    /// Waits until a change was made.
    fn wait(&self) {
        self.made.recv_timeout(LIMIT).expect("a change is made");
    }

    fn open(&self) {
        self.go_on.send(()).expect("the conductor waits");
    }
}

/// Opens the gate when it is dropped, also by a panic.
struct Opens<'g>(&'g Gate);

impl Drop for Opens<'_> {
    fn drop(&mut self) {
        let _ = self.0.go_on.send(());
    }
}

const MOVE: &str = "
    split accounts at 8
    split accounts at 16
    add_replica accounts[8] s2
    # The rows are there: only the right to write moves.
    remaster accounts[8] s2
    remove_replica accounts[8] s1";

#[test]
fn a_plan_is_carried_out_beside_transactions_and_reversed() {
    let db = Database::open(Options::in_memory(2).strategy(TwoPhase)).unwrap();
    let table = bank(&db, 1);
    let before = db.design();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (db, done) = (&db, &done);
        scope.spawn(move || {
            let mut session = db.session();
            let mut at = 0;
            while !done.load(Ordering::Relaxed) {
                at += 1;
                transfer(db, &mut session, table, at % 16, 16 + at % 16, 1).unwrap();
            }
        });
        let number = db.reconfigure(plan(db, MOVE)).unwrap();
        let it = ended(db, number);
        assert_eq!((it.progress, it.made, it.why), (Progress::Done, 5, None));
        assert!(it.rows > 0, "rows were copied");
        let (_, placement) = db.design().partition_of(table, &Key::int(10)).unwrap();
        assert_eq!(placement.master, SiteId(2));
        let back = db.reverse_reconfiguration(number).unwrap();
        assert_eq!(ended(db, back).progress, Progress::Done);
        assert_eq!(db.design(), before);
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(total(&db, &mut db.session(), table), ACCOUNTS * START);
}

#[test]
fn a_paused_plan_can_be_resumed_and_a_canceled_one_leaves_nothing() {
    let db = Database::open(Options::in_memory(2).strategy(TwoPhase)).unwrap();
    bank(&db, 1);
    let (before, gate) = (db.design(), Gate::of(&db));
    let number = db.reconfigure(plan(&db, MOVE)).unwrap();
    gate.wait();
    db.control_reconfiguration(number, Control::Pause).unwrap();
    gate.open();
    let it = wait(&db, number, |it| it.made == 1);
    assert_eq!((it.progress, it.due().is_some()), (Progress::Paused, true));

    db.control_reconfiguration(number, Control::Resume).unwrap();
    gate.wait();
    // It is canceled while its second change is being made, so that change is undone as well.
    db.control_reconfiguration(number, Control::Cancel).unwrap();
    (0..4).for_each(|_| gate.go_on.send(()).unwrap());
    assert_eq!(ended(&db, number).progress, Progress::Cancelled);
    assert_eq!(db.design(), before);
    let refused = db.control_reconfiguration(number, Control::Resume).unwrap_err();
    assert_eq!(refused.to_string(), "reconfiguration 1 is cancelled, and cannot be resumed");
    let refused = db.control_reconfiguration(7, Control::Pause).unwrap_err();
    assert_eq!(refused.to_string(), "there is no reconfiguration 7");
}

#[test]
fn a_plan_is_undone_if_a_site_refuses_a_change() {
    let folder = tempfile::tempdir().unwrap();
    let faults = Arc::new(DiskFaults::default());
    let options = Options::in_folder(folder.path(), 2).durability(Durability::None);
    let options = options.strategy(TwoPhase).disk_faults(SiteId(2), faults.clone());
    let db = Database::open(options).unwrap();
    bank(&db, 1);
    let (before, gate) = (db.design(), Gate::of(&db));
    let number = db.reconfigure(plan(&db, MOVE)).unwrap();
    gate.wait();
    faults.fail_syncs(true);
    (0..20).for_each(|_| gate.go_on.send(()).unwrap());
    let it = ended(&db, number);
    assert_eq!((it.progress, it.made), (Progress::Failed, 0));
    // The takeover from the site may have removed its replica before the site was asked.
    let why = it.why.expect("it says why");
    assert!(why.contains("log") || why.contains("s2 has no replica"), "{why}");
    assert_eq!(db.design(), before);
}

#[test]
fn an_invalid_plan_is_refused_before_any_change() {
    let db = Database::open(Options::in_memory(2).strategy(TwoPhase)).unwrap();
    bank(&db, 1);
    let before = db.design();
    let refused = |text: &str| Plan::parse(text, &before, "a test").unwrap_err();
    assert_eq!(
        refused("split accounts at 8\n\nremaster accounts[8] s2"),
        "line 3: `remaster accounts[8] s2`: s2 has no replica of accounts[8]: add_replica it before it becomes the master"
    );
    assert!(refused("split cheese at 8").starts_with("line 1: `split cheese at 8`: "));
    let long = refused(&"split accounts at 8; ".repeat(5000));
    assert!(
        long.contains("split accounts at 8; split accounts at 8; ") && long.len() < 200,
        "{long}"
    );
    let reconfigure = |plan: Plan| db.reconfigure(plan).unwrap_err().to_string();
    assert_eq!(reconfigure(Plan::new("nothing")), "the plan has no changes");
    let of_sites = Plan::of(Change::AddSite { site: SiteId(3) }, "more");
    assert!(reconfigure(of_sites).contains("cannot add or remove sites"));
    let plan = plan(&db, MOVE);
    db.change(Change::Split { table: TableId(1), at: Key::int(8) }, "meanwhile").unwrap();
    let error = db.reconfigure(plan).unwrap_err();
    assert!(matches!(error, Error::InvalidPlan(_)), "{error}");
    assert!(db.reconfigurations().is_empty());
}

/// Defers one change at each transaction.
struct Wants {
    change: Change,
    begins: AtomicBool,
    left: Mutex<Vec<String>>,
}

impl Strategy for Wants {
    fn name(&self) -> &'static str {
        "wants"
    }

    fn decide(&self, request: &Request<'_>) -> Result<Verdict, Refused> {
        let Verdict::Run(decision) = TwoPhase.decide(request)? else { return Ok(Verdict::Reserve) };
        if !self.begins.load(Ordering::Relaxed) {
            return Ok(Verdict::Run(decision));
        }
        let deferred = Plan::of(self.change.clone(), "it may pay");
        Ok(Verdict::Run(Decision { deferred, ..decision }))
    }

    fn changed(&self, changed: &Changed<'_>) {
        if let (true, Err(why)) = (*changed.change == self.change, &changed.took_ns) {
            self.left.lock().unwrap().push(why.why.clone());
        }
    }

    fn memory(&self, _: &Design) -> Option<String> {
        None
    }

    fn recall(&self, _: &str) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn a_plan_holds_its_tables_until_it_has_ended() {
    let change = Change::Split { table: TableId(1), at: Key::int(24) };
    let wants = Arc::new(Wants { change, begins: AtomicBool::default(), left: Mutex::default() });
    let db = Database::open(Options::in_memory(2).strategy(wants.clone())).unwrap();
    let table = bank(&db, 1);
    let gate = Gate::of(&db);
    let number = db.reconfigure(plan(&db, MOVE)).unwrap();
    gate.wait();
    let other = db.reconfigure(plan(&db, "split accounts at 30")).unwrap_err();
    assert_eq!(
        other.to_string(),
        "reconfiguration 1 holds a table of the plan; wait until it has ended, or cancel it"
    );
    wants.begins.store(true, Ordering::Relaxed);
    let mut session = db.session();
    let footprint = Footprint::new().write(table, Key::int(30));
    db.run(&mut session, &footprint, |_| Ok(())).unwrap();
    let begun = Instant::now();
    while wants.left.lock().unwrap().is_empty() {
        assert!(begun.elapsed() < LIMIT, "the strategy's change is dropped, and reported to it");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(wants.left.lock().unwrap()[0], "reconfiguration 1 holds a table of it");
    (0..10).for_each(|_| gate.go_on.send(()).unwrap());
    assert_eq!(ended(&db, number).progress, Progress::Done);
}

/// An operator turns changes off while plans of the strategy wait: 16 for their turn, and 64, which
/// have begun, for a partition.
#[test]
fn plans_of_the_strategy_that_wait_are_dropped_when_changes_are_turned_off() {
    const BEGUN: usize = 64;
    const QUEUED: usize = 16;
    let change = Change::Split { table: TableId(1), at: Key::int(24) };
    let wants = Arc::new(Wants { change, begins: AtomicBool::default(), left: Mutex::default() });
    let db = Database::open(Options::in_memory(2).strategy(wants.clone())).unwrap();
    let table = bank(&db, 1);
    let gate = Gate::of(&db);
    let is_left = |count: usize| {
        let begun = Instant::now();
        while wants.left.lock().unwrap().len() < count {
            assert!(begun.elapsed() < LIMIT, "{:?}", wants.left.lock().unwrap());
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let ask = |times: usize| {
        let mut session = db.session();
        let footprint = Footprint::new().write(table, Key::int(30));
        for _ in 0..times {
            db.run(&mut session, &footprint, |_| Ok(())).unwrap();
        }
    };
    let waiting = || db.jobs().iter().filter(|job| job.begun.is_none()).count();
    let until_waiting = |count: usize| {
        let begun = Instant::now();
        while waiting() != count {
            assert!(begun.elapsed() < LIMIT, "{} plans wait for their turn", waiting());
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    std::thread::scope(|scope| {
        let holder = Change::Split { table, at: Key::int(8) };
        scope.spawn(|| db.change(holder, REASON).unwrap());
        gate.wait();
        let opens = Opens(&gate);
        wants.begins.store(true, Ordering::Relaxed);
        // Those that begin wait for the partition, which the operator's change still holds. One
        // after the other, because only 64 may wait for their turn.
        for _ in 0..BEGUN {
            ask(1);
            until_waiting(0);
        }
        ask(QUEUED);
        until_waiting(QUEUED);
        db.turn_plans(false);
        assert_eq!((waiting(), wants.left.lock().unwrap().len()), (0, QUEUED));
        ask(1);
        drop(opens);
    });
    is_left(BEGUN + QUEUED + 1);
    let off = "changes of the design are turned off";
    assert!(wants.left.lock().unwrap().iter().all(|why| why == off), "{:?}", wants.left);
    let partitions = || db.design().partitions_in(table, &isomer_design::KeyRange::all()).count();
    assert_eq!(partitions(), 2, "only the operator's change was made");
    db.turn_plans(true);
    ask(1);
    let begun = Instant::now();
    while partitions() != 3 {
        assert!(begun.elapsed() < LIMIT, "the strategy changes the design again");
        std::thread::sleep(Duration::from_millis(1));
    }
}
