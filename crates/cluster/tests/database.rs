//! The embedded database, with real threads: transactions while the design changes under them.

mod common;

use common::{ACCOUNTS, START, balance, bank, schema, total, transfer};
use isomer_cluster::{Abort, Database, Durability, Error, Options, look};
use isomer_design::{
    Change, Column, ColumnType, Footprint, Key, KeyRange, Pins, Plan, Schema, SiteId, Step, TableId,
};
use isomer_plan::learned::Memory;
use isomer_plan::strategy::Learned;
use isomer_strategy::{Changed, Decision, Refused, Request, Strategy, TwoPhase, Verdict};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

#[test]
fn transfers_over_all_sites_conserve_money_while_the_design_changes() {
    conserve_money(Options::in_memory(4));
}

#[test]
fn transfers_in_two_phases_conserve_money_while_the_design_changes() {
    conserve_money(Options::in_memory(4).strategy(TwoPhase));
}

fn conserve_money(options: Options) {
    let db = Database::open(options).expect("nothing is in the way");
    let table = bank(&db, 4);
    let (stop, transfers) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for worker in 0..3u64 {
            let (db, stop, transfers) = (&db, &stop, &transfers);
            scope.spawn(move || {
                let mut session = db.session();
                let mut x = worker + 1;
                while !stop.load(Ordering::Relaxed) {
                    x = x.wrapping_mul(6364136223846793005).wrapping_add(1);
                    let (from, to) = ((x >> 33) as i64 % ACCOUNTS, (x >> 43) as i64 % ACCOUNTS);
                    if from != to {
                        transfer(db, &mut session, table, from, to, 1).expect("a transfer commits");
                        transfers.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let (db, stop, transfers) = (&db, &stop, &transfers);
        scope.spawn(move || {
            let mut session = db.session();
            let mut at = 0;
            while transfers.load(Ordering::Relaxed) < 3000 {
                at = (at + 5) % ACCOUNTS;
                let _ = db.change(Change::Split { table, at: Key::int(at) }, "a test");
                assert_eq!(total(db, &mut session, table), ACCOUNTS * START);
                let _ = db
                    .change(Change::Merge { table, at: Key::int((at + 30) % ACCOUNTS) }, "a test");
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
    db.design().check().expect("the design is sound");
    assert_eq!(total(&db, &mut db.session(), table), ACCOUNTS * START);
}

/// Two accounts at two sites. Each of two clients withdraws from its own account if both accounts
/// together have two. Exactly one of them succeeds in each round.
#[test]
fn serializable_transactions_do_not_both_withdraw_the_last_money() {
    for options in [Options::in_memory(2).strategy(TwoPhase), Options::in_memory(2)] {
        take_turns(&Database::open(options).expect("nothing is in the way"));
    }
}

fn take_turns(db: &Database) {
    let placement = [(Key::min(), SiteId(1)), (Key::int(1), SiteId(2))];
    let table = db.create_table(schema(), &placement).expect("a table");
    let all = Footprint::new().write(table, Key::int(0)).write(table, Key::int(1));
    for round in 0..200 {
        db.run(&mut db.session(), &all, |txn| {
            txn.put(table, &Key::int(0), &[1])?;
            txn.put(table, &Key::int(1), &[1])
        })
        .expect("it commits");
        std::thread::scope(|scope| {
            for mine in 0..2 {
                scope.spawn(move || {
                    let (own, other) = (Key::int(mine), Key::int(1 - mine));
                    let footprint =
                        Footprint::new().write(table, own.clone()).read(table, other.clone());
                    db.run_serializable(&mut db.session(), &footprint, |txn| {
                        let left = txn.get(table, &own)?.map_or(0, |row| row[0])
                            + txn.get(table, &other)?.map_or(0, |row| row[0]);
                        if left == 2 { txn.put(table, &own, &[0]) } else { Ok(()) }
                    })
                    .expect("it commits");
                });
            }
        });
        let mut left = 0;
        let both = Footprint::new().read(table, Key::int(0)).read(table, Key::int(1));
        db.run_serializable(&mut db.session(), &both, |txn| {
            left = 0;
            for key in 0..2 {
                left += txn.get(table, &Key::int(key))?.map_or(0, |row| row[0]);
            }
            Ok(())
        })
        .expect("it reads");
        assert_eq!(left, 1, "round {round}: both clients have read two");
    }
}

#[test]
fn a_database_in_a_folder_comes_back_with_its_rows_and_its_design() {
    come_back(|options| options);
}

#[test]
fn a_database_that_commits_in_two_phases_comes_back() {
    come_back(|options| options.strategy(TwoPhase));
    let unforced = Durability::Interval(std::time::Duration::from_secs(1));
    come_back(|options| options.strategy(TwoPhase).durability(unforced));
}

fn come_back(with: impl Fn(Options) -> Options) {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let path = folder.path().join("bank");
    let open = |sites| Database::open(with(Options::in_folder(&path, sites)));
    let (design, table) = {
        let db = open(3).expect("a new database");
        let table = bank(&db, 3);
        let mut session = db.session();
        for i in 0..20 {
            transfer(&db, &mut session, table, i, ACCOUNTS - 1 - i, 5).expect("a transfer commits");
        }
        db.checkpoint().expect("there is room for a checkpoint");
        for i in 0..20 {
            transfer(&db, &mut session, table, i, (i * 7 + 1) % ACCOUNTS, 5).ok();
        }
        db.change(Change::Split { table, at: Key::int(3) }, "a test").expect("it can be split");
        assert!(matches!(
            open(3),
            Err(Error::Open(isomer_cluster::OpenDatabaseError::InUse { .. }))
        ));
        (db.design().to_text(), table)
    };
    let db = open(1).expect("it opens again");
    assert_eq!(db.design().to_text(), design);
    assert_eq!(total(&db, &mut db.session(), table), ACCOUNTS * START);
    let moved = transfer(&db, &mut db.session(), table, 1, 40, 1).expect("it works on");
    assert!(moved <= 2);
}

#[test]
fn a_dropped_table_is_gone_from_every_site_while_transfers_run() {
    let db = Database::open(Options::in_memory(3)).expect("nothing is in the way");
    let table = bank(&db, 3);
    let replica = Change::AddReplica { table, start: Key::min(), site: SiteId(2) };
    db.change(replica, "a reader").expect("a free place");
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let (db, done) = (&db, &done);
            scope.spawn(move || {
                let mut session = db.session();
                // Until the table does not exist any more; any other error is a failure.
                let error = (seed..)
                    .inspect(|_| _ = done.fetch_add(1, Ordering::Relaxed))
                    .find_map(|n| transfer(db, &mut session, table, n % 64, (n + 32) % 64, 1).err())
                    .expect("the table is dropped");
                assert_eq!(error.to_string(), "there is no table t1; create it first");
            });
        }
        while done.load(Ordering::Relaxed) < 100 {
            std::thread::yield_now();
        }
        db.drop_table(table).expect("there is one");
    });
    assert!(matches!(db.drop_table(table), Err(Error::Invalid(_))));
    let again = bank(&db, 3);
    assert_ne!(again, table, "a number is not given twice");
    assert_eq!(total(&db, &mut db.session(), again), ACCOUNTS * START);
}

#[test]
fn a_dropped_table_stays_dropped_even_if_the_sites_had_not_received_the_drop() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let open = || Database::open(Options::in_folder(folder.path(), 2)).expect("it is whole");
    let db = open();
    let kept = db.create_table(schema(), &[(Key::min(), SiteId(1))]).expect("a valid table");
    let catalog = folder.path().join("catalog");
    let before = std::fs::read(&catalog).expect("it is there");
    let columns = vec![Column::new("id", ColumnType::Int64)];
    let other = Schema::new("other", columns, &["id"]).expect("the columns fit together");
    let other = db.create_table(other, &[(Key::min(), SiteId(2))]).expect("a valid table");
    let put = |db: &Database, table: TableId| {
        let footprint = Footprint::new().write(table, Key::int(7));
        db.run(&mut db.session(), &footprint, |txn| txn.put(table, &Key::int(7), b""))
    };
    put(&db, other).expect("it is there");
    drop(db);
    // As a crash leaves it that came before the catalog was written.
    std::fs::write(&catalog, before).expect("it can be replaced");
    let db = open();
    assert!(matches!(db.table("other"), Err(Error::UnknownTable { .. })));
    assert!(put(&db, other).is_err());
    drop(db);

    let db = open();
    db.drop_table(kept).expect("it is there");
    db.checkpoint().expect("there is room");
    drop(db);
    let db = open();
    assert!(matches!(db.table("accounts"), Err(Error::UnknownTable { .. })));
    // Numbers of tables that no site holds are free again, but their rows must not reappear.
    let table = bank(&db, 2);
    drop(db);
    let db = open();
    assert_eq!(total(&db, &mut db.session(), table), ACCOUNTS * START);
}

#[test]
fn a_checkpoint_stops_when_its_client_does_not_wait_any_more() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let open = || Database::open(Options::in_folder(folder.path(), 2)).expect("it can be opened");
    let db = open();
    let table = bank(&db, 2);
    let made =
        |db: &Database| db.sites().iter().filter(|report| report.checkpoint.last.is_some()).count();
    for patience in 0..4 {
        let looks = AtomicU64::new(0);
        let goes_on = || looks.fetch_add(1, Ordering::SeqCst) < patience;
        assert!(!db.checkpoint_while(&goes_on).expect("there is room"), "{patience}");
    }
    assert!(made(&db) < 2, "the first site may have made its checkpoint");
    drop(db);
    let db = open();
    assert_eq!(total(&db, &mut db.session(), table), ACCOUNTS * START);
    assert!(db.checkpoint_while(&|| true).expect("there is room"));
    assert_eq!(made(&db), 2);
}

#[test]
fn a_strategy_finds_its_state_when_the_database_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let learned = Arc::new(Learned::default());
        let options = Options::in_folder(folder.path(), 2).durability(Durability::None);
        (learned.clone(), Database::open(options.strategy(learned)).unwrap())
    };
    {
        let (_, db) = open();
        let table = bank(&db, 2);
        let mut session = db.session();
        for at in 0..2000 {
            transfer(&db, &mut session, table, at % 32, 32 + at % 32, 1).unwrap();
        }
    }
    let (design, memory) = look(folder.path(), "learned").unwrap();
    assert_eq!(design.tables().count(), 1);
    let memory = Memory::parse(&memory.unwrap()).unwrap();
    let observed = memory.costs.functions().map(|(_, function)| function.observed());
    assert!(observed.iter().sum::<u64>() > 0);

    let (learned, db) = open();
    assert!(db.notes().is_empty(), "{:?}", db.notes());
    assert_eq!(learned.costs().functions().map(|(_, f)| f.observed()), observed);
    drop((learned, db));

    std::fs::write(folder.path().join("strategy-learned"), "{}").unwrap();
    let (learned, db) = open();
    assert!(db.notes()[0].contains("cannot be read"), "{:?}", db.notes());
    assert_eq!(learned.costs().functions().map(|(_, f)| f.observed()), [0; 12]);
}

/// Defers changes at the first transaction.
struct ChangesOnce {
    changes: fn(TableId) -> Vec<Change>,
    asked: AtomicBool,
    /// The changes that were reported as not made.
    left: Arc<Mutex<Vec<Change>>>,
}

impl ChangesOnce {
    fn new(changes: fn(TableId) -> Vec<Change>) -> ChangesOnce {
        ChangesOnce { changes, asked: AtomicBool::new(false), left: Arc::default() }
    }
}

impl Strategy for ChangesOnce {
    fn name(&self) -> &'static str {
        "changes-once"
    }

    fn decide(&self, request: &Request<'_>) -> Result<Verdict, Refused> {
        let mut decision = Decision::at(SiteId(1));
        if !self.asked.swap(true, Ordering::SeqCst) {
            let changes = (self.changes)(request.footprint.items()[0].table).into_iter();
            let steps = changes.map(|change| Step::new(change, "to see it done")).collect();
            decision.deferred = Plan { reason: "a test".to_owned(), steps };
        }
        Ok(Verdict::Run(decision))
    }

    fn changed(&self, changed: &Changed<'_>) {
        if changed.took_ns.is_err() {
            self.left.lock().unwrap().push(changed.change.clone());
        }
    }

    fn memory(&self, _design: &isomer_design::Design) -> Option<String> {
        None
    }

    fn recall(&self, _memory: &str) -> Result<(), String> {
        Ok(())
    }
}

/// Waits for a condition; fails if it does not become true in two minutes.
#[track_caller]
#[allow(clippy::disallowed_methods, reason = "the limit ends a test that has failed already")]
fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is() {
        assert!(begun.elapsed().as_secs() < 120, "not within two minutes: {what}");
        std::thread::yield_now();
    }
}

fn splits_at_7(table: TableId) -> Vec<Change> {
    vec![Change::Split { table, at: Key::int(7) }]
}

#[test]
fn deferred_changes_do_not_depend_on_the_transaction_that_caused_them() {
    let options = Options::in_memory(1).strategy(ChangesOnce::new(splits_at_7));
    let db = Database::open(options).expect("opens");
    let table = db.create_table(schema(), &[(Key::min(), SiteId(1))]).expect("a valid table");
    let footprint = Footprint::new().write(table, Key::int(1));
    let ended = db.run(&mut db.session(), &footprint, |_| Err(Abort::because("changed my mind")));
    assert!(ended.is_err());
    let is_split = || db.design().partition_of(table, &Key::int(7)).unwrap().0.start == Key::int(7);
    wait_until("the deferred change is made", is_split);
}

/// Two partitions, of which the second is pinned; the strategy wants both changed.
#[test]
fn changes_of_pinned_partitions_are_left_out_of_plans() {
    let changes = |table| {
        let add = |start| Change::AddReplica { table, start, site: SiteId(2) };
        vec![add(Key::int(5)), Change::Split { table, at: Key::int(7) }, add(Key::min())]
    };
    let strategy = ChangesOnce::new(changes);
    let left = strategy.left.clone();
    let db = Database::open(Options::in_memory(2).strategy(strategy)).expect("opens");
    let placement = [(Key::min(), SiteId(1)), (Key::int(5), SiteId(1))];
    let table = db.create_table(schema(), &placement).expect("a valid table");
    let pinned = KeyRange::new(Key::int(5), None);
    db.set_pins(table, Pins::default().with(&pinned)).expect("the table is there");
    let footprint = Footprint::new().write(table, Key::int(1));
    db.run(&mut db.session(), &footprint, |_| Ok(())).expect("an empty transaction");
    let replicas = |key: Key| db.design().partition_of(table, &key).expect("a table").1.replicas;
    wait_until("the free partition has its replica", || replicas(Key::min()).len() == 1);
    assert_eq!(replicas(Key::int(5)).len(), 0);
    assert_eq!(*left.lock().unwrap(), changes(table)[..2]);
}

/// A transaction over pinned partitions runs at several sites, and the design stays; pins survive a
/// restart, and an operator's changes are made.
#[test]
fn transactions_run_around_pinned_partitions() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let open = || Database::open(Options::in_folder(folder.path(), 2)).expect("opens");
    let db = open();
    let table = bank(&db, 2);
    let all = Pins::default().with(&KeyRange::all());
    db.set_pins(table, all.clone()).expect("the table is there");
    let before = db.design();
    let far = ACCOUNTS - 1;
    let transfer = |db: &Database| transfer(db, &mut db.session(), table, 0, far, 1);
    assert_eq!(transfer(&db).expect("in two phases"), 0);
    assert_eq!(db.design(), before);
    drop(db);
    let db = open();
    assert_eq!(db.design().table(table).expect("it is there").pins(), &all);
    assert_eq!(transfer(&db).expect("in two phases"), 0);
    assert_eq!(db.design(), before);
    let add = Change::AddReplica { table, start: Key::min(), site: SiteId(2) };
    db.change(add, "asked for by an operator").expect("it is made");
    db.set_pins(table, Pins::default()).expect("the table is there");
    assert!(transfer(&db).expect("at one site, after changes") > 0);
    assert_eq!(total(&db, &mut db.session(), table), ACCOUNTS * START);
}

/// A remaster to a site without a copy fails. The later change of that partition is dropped, and
/// reported. Changes of other partitions are made, also later ones.
fn fails_at_the_first_partition(table: TableId) -> Vec<Change> {
    let (first, site) = (Key::min(), SiteId(2));
    vec![
        Change::Remaster { table, start: first.clone(), to: site },
        Change::AddReplica { table, start: first, site },
        Change::AddReplica { table, start: Key::int(5), site },
        Change::Split { table, at: Key::int(7) },
    ]
}

#[test]
fn a_failed_change_stops_later_ones_of_its_partition_and_no_others() {
    let strategy = ChangesOnce::new(fails_at_the_first_partition);
    let left = strategy.left.clone();
    let db = Database::open(Options::in_memory(2).strategy(strategy)).expect("opens");
    let placement = [(Key::min(), SiteId(1)), (Key::int(5), SiteId(1))];
    let table = db.create_table(schema(), &placement).expect("a valid table");
    let footprint = Footprint::new().write(table, Key::int(1));
    db.run(&mut db.session(), &footprint, |_| Ok(())).expect("runs");
    let is_split = || db.design().partition_of(table, &Key::int(7)).unwrap().0.start == Key::int(7);
    wait_until("the changes of other partitions are made", is_split);
    let holds = |key| db.design().partition_of(table, &Key::int(key)).unwrap().1.holds(SiteId(2));
    assert!(holds(6) && holds(8) && !holds(1));
    assert_eq!(*left.lock().unwrap(), fails_at_the_first_partition(table)[..2]);
}

/// Adds to accounts of the first table. The parameters are pairs of an id and an amount, the output
/// is the sum.
fn add(txn: &mut isomer_cluster::Txn<'_>, params: &[u8]) -> Result<Vec<u8>, Abort> {
    let mut sum = 0;
    for pair in params.chunks_exact(16) {
        let (id, amount) = (Key::int(balance(&pair[..8])), balance(&pair[8..]));
        let new = balance(txn.get(TableId(1), &id)?.expect("it exists")) + amount;
        txn.put(TableId(1), &id, &new.to_le_bytes())?;
        sum += new;
    }
    Ok(sum.to_le_bytes().to_vec())
}

#[test]
fn a_procedure_is_called_by_name_at_one_site_and_over_several() {
    let options = Options::in_memory(2).strategy(TwoPhase).procedure("add", add);
    let db = Database::open(options).expect("a database in memory");
    let table = bank(&db, 2);
    let mut session = db.session();
    for (ids, places) in [([1, 2], 1), ([1, 63], 2)] {
        let params: Vec<u8> =
            ids.into_iter().flat_map(|id: i64| [id, 5]).flat_map(i64::to_le_bytes).collect();
        let footprint =
            Footprint::new().write(table, Key::int(ids[0])).write(table, Key::int(ids[1]));
        let (ran, output) = db.call(&mut session, &footprint, "add", &params).expect("it runs");
        let across = matches!(ran.place, isomer_cluster::Place::Distributed { .. });
        assert_eq!(across, places == 2);
        assert_eq!(balance(&output), 2 * START + if across { 15 } else { 10 });
    }
    assert_eq!(total(&db, &mut session, table), ACCOUNTS * START + 20);
    let footprint = Footprint::new().write(table, Key::int(1));
    let error = db.call(&mut session, &footprint, "sub", &[]).expect_err("there is none");
    assert_eq!(error.to_string(), "there is no procedure `sub`; there are: add");
}
