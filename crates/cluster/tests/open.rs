//! Open transactions on real threads: row locks, snapshots, and concurrent changes of the design.

use isomer_cluster::{
    CancelReason, CancelToken, Database, Gateway, Isolation, LockMode, OpenError, OpenTransaction,
    Options, Place,
};
use isomer_design::{
    Change, Column, ColumnType, Direction, Footprint, Key, KeyRange, Schema, SiteId, Span, TableId,
};
use isomer_strategy::TwoPhase;
use std::ops::ControlFlow;
use std::sync::Arc;

fn gateway() -> (Arc<Gateway>, TableId) {
    gateway_of(Options::in_memory(3))
}

/// Accounts at three sites, whose transactions commit where the rows are.
fn gateway_across() -> (Arc<Gateway>, TableId) {
    gateway_of(Options::in_memory(3).strategy(TwoPhase))
}

fn gateway_of(options: Options) -> (Arc<Gateway>, TableId) {
    let db = Database::open(options).expect("a database in memory");
    let columns =
        vec![Column::new("id", ColumnType::Int64), Column::new("balance", ColumnType::Int64)];
    let schema = Schema::new("accounts", columns, &["id"]).expect("the columns fit together");
    let placement = [(Key::min(), SiteId(1)), (Key::int(50), SiteId(2)), (Key::int(90), SiteId(3))];
    let table = db.create_table(schema, &placement).expect("a valid table");
    (Gateway::new(db), table)
}

fn begin(gateway: &Arc<Gateway>, isolation: Isolation) -> OpenTransaction {
    gateway.begin(isolation, Arc::new(CancelToken::default()))
}

fn read(txn: &mut OpenTransaction, table: TableId, id: i64) -> Option<i64> {
    let mut found = None;
    txn.next_statement();
    txn.get(table, &Key::int(id), |row| {
        found = Some(i64::from_le_bytes(row.try_into().expect("a balance has eight bytes")));
    })
    .expect("a read");
    found
}

/// Reads as the only read of a statement.
fn read_alone(txn: &mut OpenTransaction, table: TableId, id: i64) -> Option<i64> {
    let mut found = None;
    txn.next_statement();
    txn.get(table, &Key::int(id), |row| {
        found = Some(i64::from_le_bytes(row.try_into().expect("a balance has eight bytes")));
    })
    .expect("a read");
    found
}

fn write(
    txn: &mut OpenTransaction,
    table: TableId,
    id: i64,
    balance: i64,
) -> Result<(), OpenError> {
    let key = Key::int(id);
    txn.next_statement();
    txn.lock(table, &key, LockMode::Exclusive, true)?;
    txn.look_again();
    let locked = txn.get_locked(table, &key, |_| {})?;
    txn.put(table, key, locked.base, Some(balance.to_le_bytes().to_vec()))
}

fn sum(txn: &mut OpenTransaction, table: TableId) -> (usize, i64) {
    let (mut rows, mut sum) = (0, 0);
    txn.next_statement();
    txn.scan(table, &KeyRange::all(), Direction::Forward, |_, row| {
        rows += 1;
        sum += i64::from_le_bytes(row.try_into().expect("a balance has eight bytes"));
        ControlFlow::Continue(())
    })
    .expect("a scan");
    (rows, sum)
}

#[test]
fn a_transaction_sees_its_writes_at_once_and_others_see_them_after_the_commit() {
    let (gateway, table) = gateway();
    let mut writer = begin(&gateway, Isolation::ReadCommitted);
    let mut reader = begin(&gateway, Isolation::ReadCommitted);
    let mut repeatable = begin(&gateway, Isolation::RepeatableRead);
    assert_eq!(read(&mut repeatable, table, 7), None);
    for id in [7, 57, 97] {
        write(&mut writer, table, id, id).expect("there is no other writer");
    }
    assert_eq!(read(&mut writer, table, 57), Some(57));
    assert_eq!(sum(&mut writer, table), (3, 161));
    assert_eq!(sum(&mut reader, table), (0, 0));
    writer.commit().expect("nothing is in the way");
    assert_eq!(sum(&mut reader, table), (3, 161));
    assert_eq!(sum(&mut repeatable, table), (0, 0), "its snapshot was taken before");
    assert!(matches!(write(&mut repeatable, table, 7, 1), Err(OpenError::Changed)));
    drop((reader, repeatable));
    assert_eq!(gateway.locked_rows(), 0);
}

#[test]
fn a_savepoint_takes_writes_and_locks_back() {
    let (gateway, table) = gateway();
    let mut txn = begin(&gateway, Isolation::ReadCommitted);
    write(&mut txn, table, 1, 10).expect("free");
    let savepoint = txn.savepoint();
    write(&mut txn, table, 1, 11).expect("held");
    write(&mut txn, table, 2, 20).expect("free");
    assert_eq!(gateway.locked_rows(), 2);
    txn.back_to(savepoint);
    assert_eq!(gateway.locked_rows(), 1);
    assert_eq!((read(&mut txn, table, 1), read(&mut txn, table, 2)), (Some(10), None));
    txn.commit().expect("nothing is in the way");
}

/// More keys than a commit names one by one: it locks ranges, and validates the keys.
#[test]
fn reads_of_many_keys_are_validated_key_by_key() {
    for (changed, is_read) in [(40, true), (41, false)] {
        let (gateway, table) = gateway();
        let mut txn = begin(&gateway, Isolation::Serializable);
        for id in (0..48).filter(|id| *id != 41) {
            assert_eq!(read(&mut txn, table, id), None);
        }
        assert!(txn.read_bytes() > 0);
        let mut other = begin(&gateway, Isolation::ReadCommitted);
        write(&mut other, table, changed, 1).expect("there is no other writer");
        other.commit().expect("it has read nothing");
        write(&mut txn, table, 49, 1).expect("there is no other writer");
        match txn.commit() {
            Err(OpenError::ReadChanged { span, .. }) if is_read => {
                assert_eq!(span, Span::Key(Key::int(changed)));
            }
            result => assert!(result.is_ok() && !is_read, "{changed}: {result:?}"),
        }
    }
}

#[test]
fn embedded_callers_cannot_cause_a_lost_update() {
    let (gateway, table) = gateway();
    let mut txn = begin(&gateway, Isolation::ReadCommitted);
    write(&mut txn, table, 1, 10).expect("free");
    let footprint = Footprint::new().write(table, Key::int(1));
    let mut session = gateway.database().session();
    gateway
        .database()
        .run(&mut session, &footprint, |txn| txn.put(table, &Key::int(1), &99i64.to_le_bytes()))
        .expect("it knows no row locks");
    assert!(matches!(txn.commit(), Err(OpenError::Changed)));
}

#[test]
fn a_commit_over_several_sites_leaves_the_design_as_it_is() {
    let (gateway, table) = gateway_across();
    let design = gateway.database().design();
    let mut txn = begin(&gateway, Isolation::ReadCommitted);
    // More rows than a commit at one site names one by one.
    (0..100).for_each(|id| write(&mut txn, table, id, id).expect("free"));
    let place = txn.commit().expect("nothing is in the way").expect("it wrote").place;
    assert!(matches!(place, Place::Distributed { .. }), "{place:?}");
    let mut txn = begin(&gateway, Isolation::RepeatableRead);
    assert_eq!(sum(&mut txn, table), (100, 4950));
    txn.lock(table, &Key::int(7), LockMode::Exclusive, true).expect("free");
    let seven = txn.get_locked(table, &Key::int(7), |_| {}).expect("there");
    txn.put(table, Key::int(7), seven.base, None).expect("small");
    write(&mut txn, table, 57, 64).expect("free");
    txn.commit().expect("nothing is in the way");
    assert_eq!(sum(&mut begin(&gateway, Isolation::ReadCommitted), table), (99, 4950));
    let mut txn = begin(&gateway, Isolation::ReadCommitted);
    write(&mut txn, table, 7, 7).expect("free");
    let place = txn.commit().expect("nothing is in the way").expect("it wrote").place;
    assert_eq!(place, Place::At(SiteId(1)), "one site is enough");
    assert_eq!(gateway.database().design(), design);
    let across: u64 = (1..=3).map(|site| gateway.commits(SiteId(site))[1]).sum();
    assert_eq!((across, gateway.commits(SiteId(1))[0]), (2, 1));
}

#[test]
fn a_commit_over_several_sites_checks_each_row_where_it_is() {
    let (gateway, table) = gateway_across();
    let mut txn = begin(&gateway, Isolation::ReadCommitted);
    for id in [1, 51, 91] {
        write(&mut txn, table, id, 10).expect("free");
    }
    let footprint = Footprint::new().write(table, Key::int(91));
    let mut session = gateway.database().session();
    let put =
        |txn: &mut isomer_cluster::Txn<'_>| txn.put(table, &Key::int(91), &99i64.to_le_bytes());
    gateway.database().run(&mut session, &footprint, put).expect("it knows no row locks");
    assert!(matches!(txn.commit(), Err(OpenError::Changed)));
    assert_eq!(sum(&mut begin(&gateway, Isolation::ReadCommitted), table), (1, 99));
}

#[test]
fn increments_while_the_design_changes_all_count() {
    count_increments(gateway());
}

#[test]
fn increments_over_several_sites_while_the_design_changes_all_count() {
    count_increments(gateway_across());
}

fn count_increments((gateway, table): (Arc<Gateway>, TableId)) {
    const THREADS: i64 = 4;
    const ROUNDS: i64 = 200;
    let mut first = begin(&gateway, Isolation::ReadCommitted);
    (0..100).for_each(|id| write(&mut first, table, id, 0).expect("free"));
    first.commit().expect("nothing is in the way");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let gateway = &gateway;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let mut txn = begin(gateway, Isolation::ReadCommitted);
                    for id in [round % 5, 50 + (round + thread) % 40, 99] {
                        increment(&mut txn, table, id);
                    }
                    txn.commit().expect("locks were taken in order");
                }
            });
        }
        for round in 0..60i64 {
            let at = Key::int(10 + round % 80);
            let _ = gateway.database().change(Change::Split { table, at: at.clone() }, "a test");
            let to = SiteId(1 + (round % 3) as u16);
            let start = at.clone();
            let replica = Change::AddReplica { table, start, site: to };
            let _ = gateway.database().change(replica, "a test");
            let _ = gateway.database().change(Change::Remaster { table, start: at, to }, "a test");
        }
    });
    let mut reader = begin(&gateway, Isolation::ReadCommitted);
    assert_eq!(sum(&mut reader, table), (100, THREADS * ROUNDS * 3));
}

fn increment(txn: &mut OpenTransaction, table: TableId, id: i64) {
    let key = Key::int(id);
    txn.next_statement();
    txn.lock(table, &key, LockMode::Exclusive, true).expect("no cycle");
    txn.look_again();
    let mut balance = 0;
    let locked = txn
        .get_locked(table, &key, |row| {
            balance = i64::from_le_bytes(row.try_into().expect("a balance has eight bytes"));
        })
        .expect("a read");
    txn.put(table, key, locked.base, Some((balance + 1).to_le_bytes().to_vec())).expect("small");
}

#[test]
fn reads_of_one_row_see_each_commit_wherever_the_row_moves() {
    let (gateway, table) = gateway();
    let mut fixed = begin(&gateway, Isolation::RepeatableRead);
    assert_eq!(read_alone(&mut fixed, table, 60), None);
    for round in 0..30 {
        let mut writer = begin(&gateway, Isolation::ReadCommitted);
        write(&mut writer, table, 60, round).expect("free");
        writer.commit().expect("there is no other writer");
        let to = SiteId(1 + (round % 3) as u16);
        let start = Key::int(50);
        let replica = Change::AddReplica { table, start: start.clone(), site: to };
        let _ = gateway.database().change(replica, "a test");
        let _ = gateway.database().change(Change::Remaster { table, start, to }, "a test");
        let mut reader = begin(&gateway, Isolation::ReadCommitted);
        assert_eq!(read_alone(&mut reader, table, 60), Some(round));
        assert_eq!(read_alone(&mut reader, table, 61), None);
        assert_eq!(read_alone(&mut reader, table, 3), read(&mut reader, table, 3));
    }
    assert_eq!(read_alone(&mut fixed, table, 60), None, "a snapshot stays as it is");
}

#[test]
fn an_old_snapshot_keeps_no_replica_from_coming_back() {
    let (gateway, table) = gateway();
    let start = Key::int(50);
    let change = |change| gateway.database().change(change, "a test").expect("a valid change");
    let mut writer = begin(&gateway, Isolation::ReadCommitted);
    write(&mut writer, table, 60, 1).expect("free");
    writer.commit().expect("there is no other writer");
    for site in [SiteId(1), SiteId(3)] {
        change(Change::AddReplica { table, start: start.clone(), site });
    }
    let mut fixed = begin(&gateway, Isolation::RepeatableRead);
    assert_eq!(read(&mut fixed, table, 60), Some(1));
    for _ in 0..3 {
        for site in [SiteId(1), SiteId(3)] {
            change(Change::RemoveReplica { table, start: start.clone(), site });
            change(Change::AddReplica { table, start: start.clone(), site });
        }
        let mut writer = begin(&gateway, Isolation::ReadCommitted);
        write(&mut writer, table, 60, 2).expect("free");
        writer.commit().expect("there is no other writer");
    }
    assert_eq!(read(&mut fixed, table, 60), Some(1), "a snapshot stays as it is");
}

#[test]
fn a_cycle_of_waits_is_refused() {
    let (gateway, table) = gateway();
    let mut one = begin(&gateway, Isolation::ReadCommitted);
    let mut two = begin(&gateway, Isolation::ReadCommitted);
    write(&mut one, table, 1, 1).expect("free");
    write(&mut two, table, 2, 2).expect("free");
    std::thread::scope(|scope| {
        // The refused transaction ends, so the other transaction continues.
        let waits = scope.spawn(move || write(&mut two, table, 1, 2));
        let first = write(&mut one, table, 2, 1);
        drop(one);
        let second = waits.join().expect("no panic");
        let refused = |result: &Result<_, _>| matches!(result, Err(OpenError::Deadlock(_)));
        assert!(refused(&first) != refused(&second), "{first:?} {second:?}");
        assert!(first.is_ok() || second.is_ok());
    });
}

#[test]
fn a_cancel_ends_a_wait() {
    let (gateway, table) = gateway();
    let mut one = begin(&gateway, Isolation::ReadCommitted);
    write(&mut one, table, 1, 1).expect("free");
    let cancel = Arc::new(CancelToken::default());
    let mut two = gateway.begin(Isolation::ReadCommitted, cancel.clone());
    std::thread::scope(|scope| {
        let waits = scope.spawn(move || write(&mut two, table, 1, 2));
        cancel.end(CancelReason::Asked);
        let ended = waits.join().expect("no panic");
        assert!(matches!(ended, Err(OpenError::Canceled(CancelReason::Asked))), "{ended:?}");
    });
    assert_eq!(gateway.locked_rows(), 1);
}

#[test]
fn a_lock_timeout_ends_a_wait_and_leaves_no_trace() {
    let (gateway, table) = gateway();
    let mut one = begin(&gateway, Isolation::ReadCommitted);
    write(&mut one, table, 1, 1).expect("free");
    let cancel = Arc::new(CancelToken::default());
    cancel.set_lock_limit(20);
    let mut two = gateway.begin(Isolation::ReadCommitted, cancel);
    let ended = write(&mut two, table, 1, 2);
    assert!(matches!(ended, Err(OpenError::Canceled(CancelReason::LockTime))), "{ended:?}");
    drop(one);
    write(&mut two, table, 1, 2).expect("free again");
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a timestamp is closed ahead only after some time")]
fn a_commit_ahead_of_real_time_is_seen_by_the_next_transaction() {
    let (gateway, table) = gateway();
    let db = gateway.database();
    db.change(Change::AddReplica { table, start: Key::min(), site: SiteId(2) }, "to be read there")
        .expect("a replica");
    let put = |txn: &mut isomer_cluster::Txn<'_>, id: i64, balance: i64| {
        txn.put(table, &Key::int(id), &balance.to_le_bytes())
    };
    for balance in 1..=4 {
        // s1 closes its timestamp ahead for readers of the replica at s2 that hold a lock there.
        std::thread::sleep(std::time::Duration::from_millis(250));
        let footprint = Footprint::new().read(table, Key::int(3)).write(table, Key::int(60));
        for _ in 0..20 {
            db.run(&mut db.session(), &footprint, |txn| {
                let _ = txn.get(table, &Key::int(3))?;
                put(txn, 60, balance)
            })
            .expect("it runs at s2");
        }
        // A write at s1 then gets a commit time ahead of the clock.
        let footprint = Footprint::new().write(table, Key::int(3));
        db.run(&mut db.session(), &footprint, |txn| put(txn, 3, balance)).expect("it runs at s1");
        let mut txn = begin(&gateway, Isolation::RepeatableRead);
        assert_eq!(read(&mut txn, table, 3), Some(balance));
        assert_eq!(read(&mut txn, table, 60), Some(balance));
    }
}
