//! Gateways in several processes: the conductor's, and others whose locks, definitions and news
//! pass through it as bytes.

use super::channel::Cluster;
use super::{ACCOUNTS, HALVES, START, bank, begin, read, total, until, write};
use isomer_cluster::gateways::{Listener, Replied};
use isomer_cluster::{
    CancelReason, CancelToken, Database, Gateway, Isolation, LockMode, OpenError, Options,
};
use isomer_design::{Change, Column, ColumnType, Direction, Key, Schema, SiteId, TableId};
use isomer_strategy::TwoPhase;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A gateway of the second process.
fn second(cluster: &Cluster) -> Arc<Gateway> {
    let followed = Database::follow(cluster.nodes[0].clone(), "b", || false);
    Gateway::new(followed.expect("the conductor is there"))
}

fn two_gateways() -> (Cluster, [Arc<Gateway>; 2], TableId) {
    let (cluster, table) = bank(HALVES, Options::in_memory(4).strategy(TwoPhase));
    let both = [cluster.gateway.clone(), second(&cluster)];
    (cluster, both, table)
}

#[test]
fn each_gateway_sees_at_once_what_the_other_has_committed() {
    let (_cluster, gateways, table) = two_gateways();
    for round in 0..200 {
        let (here, there) = (&gateways[round % 2], &gateways[(round + 1) % 2]);
        let id = (round as i64 * 7) % ACCOUNTS;
        let mut writer = begin(here, Isolation::ReadCommitted);
        write(&mut writer, table, id, round as i64).expect("no other transaction runs");
        writer.commit().expect("nothing is in the way");
        for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
            let found = read(&mut begin(there, isolation), table, id);
            assert_eq!(found, Some(round as i64), "round {round}");
        }
    }
}

#[test]
fn a_row_lock_of_one_gateway_keeps_the_other_out() {
    let (_cluster, [a, b], table) = two_gateways();
    let mut first = begin(&a, Isolation::ReadCommitted);
    write(&mut first, table, 5, 1).expect("it is free");
    let mut second = begin(&b, Isolation::ReadCommitted);
    let taken = second.lock(table, &Key::int(5), LockMode::Exclusive, false);
    assert!(matches!(taken, Err(OpenError::Locked)), "{taken:?}");
    let waiting = thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            write(&mut second, table, 5, 2).expect("it is its turn");
            second.commit().expect("it saw what the first has written")
        });
        until("the second waits", || b.waiting() == 1);
        first.commit().expect("it holds the lock");
        waiting.join().expect("no panic")
    });
    assert!(waiting.is_some());
    assert_eq!(read(&mut begin(&a, Isolation::ReadCommitted), table, 5), Some(2));
    until("all locks are released", || a.locked_rows() == 0);
}

#[test]
fn a_deadlock_over_two_gateways_is_found() {
    let (_cluster, [a, b], table) = two_gateways();
    let mut first = begin(&a, Isolation::ReadCommitted);
    let mut second = begin(&b, Isolation::ReadCommitted);
    write(&mut first, table, 5, 1).expect("it is free");
    write(&mut second, table, 35, 1).expect("it is free");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            write(&mut first, table, 35, 1).expect("the other has ended");
            first.commit().expect("it holds both locks");
        });
        until("the first waits", || a.waiting() == 1);
        let closed = write(&mut second, table, 5, 2);
        assert!(matches!(closed, Err(OpenError::Deadlock(_))), "{closed:?}");
        drop(second);
        waiting.join().expect("no panic");
    });
}

#[test]
fn a_wait_that_is_canceled_leaves_no_lock_behind() {
    let (_cluster, [a, b], table) = two_gateways();
    for round in 0..30 {
        let mut first = begin(&a, Isolation::ReadCommitted);
        write(&mut first, table, 5, 1).expect("it is free");
        let cancel = Arc::new(CancelToken::default());
        let mut second = b.begin(Isolation::ReadCommitted, cancel.clone());
        thread::scope(|scope| {
            let waiting = scope.spawn(|| write(&mut second, table, 5, 2));
            // In some rounds the lock is free just then.
            until("the second waits", || b.waiting() == 1);
            if round % 3 == 0 {
                drop(first);
                cancel.end(CancelReason::Asked);
            } else {
                cancel.end(CancelReason::Asked);
                drop(first);
            }
            let waited = waiting.join().expect("no panic");
            let is_fine = matches!(waited, Ok(()) | Err(OpenError::Canceled(_)));
            assert!(is_fine, "{waited:?}");
        });
        drop(second);
        until("no lock is left", || a.locked_rows() == 0);
    }
}

#[test]
fn definitions_and_changes_of_either_gateway_are_known_at_both() {
    let (_cluster, [a, b], table) = two_gateways();
    let (here, there) = (a.database(), b.database());
    let columns = || vec![Column::new("id", ColumnType::Int64)];
    for (at, (db, name)) in [(here, "one"), (there, "two")].into_iter().enumerate() {
        let schema = Schema::new(name, columns(), &["id"]).expect("a schema");
        let made = db.create_table(schema, &[(Key::min(), SiteId(3))]).expect("a table");
        until("both have it", || {
            here.find_table(name).is_some() && there.find_table(name).is_some()
        });
        assert_eq!(there.table(name).expect("it is there").0, made);
        let split = Change::Split { table: made, at: Key::int(9) };
        db.change(split, "for the test").expect("a split");
        let remaster = [
            Change::AddReplica { table: made, start: Key::int(9), site: SiteId(1) },
            Change::Remaster { table: made, start: Key::int(9), to: SiteId(1) },
        ];
        for change in remaster {
            db.change(change, "for the test").expect("a change");
        }
        until("both have the changes", || here.design() == there.design());
        let mut writer = begin([&a, &b][at], Isolation::ReadCommitted);
        for id in [3, 12] {
            write(&mut writer, made, id, 7).expect("a new row");
        }
        writer.commit().expect("nothing is in the way");
        assert_eq!(read(&mut begin(&b, Isolation::ReadCommitted), made, 12), Some(7));
    }
    let two = there.table("two").expect("it is there").0;
    there.drop_table(two).expect("it is there");
    assert!(here.find_table("two").is_none() && there.find_table("two").is_none());
    let twice = Schema::new("one", columns(), &["id"]).expect("a schema");
    let refused = there.create_table(twice, &[(Key::min(), SiteId(3))]);
    assert!(matches!(refused, Err(isomer_cluster::Error::TableExists(_))), "{refused:?}");
    assert_eq!(
        total(&mut begin(&b, Isolation::ReadCommitted), table, Direction::Forward).0,
        ACCOUNTS
    );
}

/// Rows move all the time: each gateway looks for them where they were, and finds them.
#[test]
fn transfers_of_both_gateways_keep_the_sum_while_rows_move() {
    let (_cluster, gateways, table) = two_gateways();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let mover = scope.spawn(|| {
            let mut round = 0;
            while !is_over.load(Ordering::SeqCst) {
                round += 1;
                move_partition(gateways[round % 2].database(), table, round);
            }
        });
        let clients: Vec<_> = (0..4u64)
            .map(|client| {
                let gateway = &gateways[client as usize % 2];
                scope.spawn(move || {
                    let mut done = 0;
                    for round in 0..150u64 {
                        let at = |salt: u64| (round * salt + client * 17) as i64 % ACCOUNTS;
                        let (from, to) = (at(7), at(29));
                        if from == to {
                            continue;
                        }
                        let mut txn = begin(gateway, Isolation::ReadCommitted);
                        let moved = move_one(&mut txn, table, from, to);
                        match moved.and_then(|()| txn.commit()) {
                            Ok(_) => done += 1,
                            Err(OpenError::Deadlock(_) | OpenError::Changed) => {}
                            Err(error) => panic!("client {client}, round {round}: {error}"),
                        }
                    }
                    done
                })
            })
            .collect();
        let done: u64 = clients.into_iter().map(|client| client.join().expect("no panic")).sum();
        is_over.store(true, Ordering::SeqCst);
        mover.join().expect("no panic");
        assert!(done > 300, "only {done} of 600 transfers were made");
    });
    for gateway in &gateways {
        let mut reader = begin(gateway, Isolation::RepeatableRead);
        let found = total(&mut reader, table, Direction::Forward);
        assert_eq!(found, (ACCOUNTS, ACCOUNTS * START));
    }
    let seat = gateways[1].database().others().seat().expect("its conductor is elsewhere");
    assert!(seat.is_seated);
}

/// Makes the next site in turn the master of a partition.
fn move_partition(db: &Database, table: TableId, round: usize) {
    let design = db.design();
    let partitions = design.table(table).expect("it is there").partitions();
    let (start, placement) = partitions.iter().nth(round % 4).expect("it has four");
    let (master, start) = (placement.master, start.clone());
    let to = SiteId(master.0 % 4 + 1);
    let changes = [
        Change::AddReplica { table, start: start.clone(), site: to },
        Change::Remaster { table, start: start.clone(), to },
        Change::RemoveReplica { table, start, site: master },
    ];
    for change in changes {
        db.change(change, "for the test").expect("a change");
    }
}

fn move_one(
    txn: &mut isomer_cluster::OpenTransaction,
    table: TableId,
    from: i64,
    to: i64,
) -> Result<(), OpenError> {
    for (id, by) in [(from, -1), (to, 1)] {
        let key = Key::int(id);
        txn.next_statement();
        txn.lock(table, &key, LockMode::Exclusive, true)?;
        txn.look_again();
        let mut found = 0;
        let locked = txn.get_locked(table, &key, |row| found = super::balance(row))?;
        txn.put(table, key, locked.base, Some((found + by).to_le_bytes().to_vec()))?;
    }
    Ok(())
}

#[derive(Default)]
struct Heard {
    all: Mutex<Vec<Vec<u8>>>,
    past: AtomicU64,
}

impl Listener for Heard {
    fn hear(&self, _: u64, _: u64, announcement: &[u8]) -> bool {
        self.all.lock().expect("no panic").push(announcement.to_vec());
        true
    }

    fn past(&self) -> u64 {
        self.past.load(Ordering::SeqCst)
    }

    fn leaving(&self) {}

    fn joined(&self, number: u64) -> bool {
        self.past.store(number, Ordering::SeqCst);
        true
    }

    fn left(&self, _: u64, from: u64) -> bool {
        self.all.lock().expect("no panic").push(format!("{from} left").into_bytes());
        true
    }

    fn answer(&self, question: &[u8]) -> Vec<u8> {
        question.iter().rev().copied().collect()
    }

    fn reply(&self, question: &[u8]) -> Vec<u8> {
        [question, b"?"].concat()
    }
}

/// The conductor's process, and two others with a site each.
const THREE: &[&[u16]] = &[&[1, 2], &[3], &[4]];

/// A gateway stands still after it has looked at its lease: its commits arrive after its seat has
/// ended and another gateway has announced a definition. At the conductor's sites, at those of
/// another process, and at both.
#[test]
fn a_commit_of_a_seat_that_has_ended_is_refused_once_a_definition_was_announced() {
    let (cluster, table) = bank(THREE, Options::in_memory(4).strategy(TwoPhase));
    let a = cluster.gateway.clone();
    let [b, c] = [0, 1].map(|at| {
        let name = ["b", "c"][at];
        let followed = Database::follow(cluster.nodes[at].clone(), name, || false);
        Gateway::new(followed.expect("the conductor is there"))
    });
    let listener = Arc::<Heard>::default();
    c.database().others().listen(listener.clone());
    let writes: [&[i64]; 3] = [&[5], &[35], &[7, 37]];
    cluster.weather.are_commits_held.store(true, Ordering::SeqCst);
    let ended: Vec<Result<_, OpenError>> = thread::scope(|scope| {
        let commits: Vec<_> = writes
            .iter()
            .map(|ids| {
                let mut txn = begin(&b, Isolation::ReadCommitted);
                ids.iter().for_each(|id| write(&mut txn, table, *id, 1).expect("it is free"));
                scope.spawn(move || txn.commit())
            })
            .collect();
        until("they are on their way", || cluster.weather.held.load(Ordering::SeqCst) == 3);
        *cluster.weather.is_cut_off.lock().expect("no panic") = Some(SiteId(3));
        until("its seat ends", || a.database().others().seats().len() == 1);
        a.database().others().announce(b"a definition").expect("it has the conductor");
        assert_eq!(listener.all.lock().expect("no panic").last(), Some(&b"a definition".to_vec()));
        cluster.weather.are_commits_held.store(false, Ordering::SeqCst);
        commits.into_iter().map(|commit| commit.join().expect("no panic")).collect()
    });
    for (ids, ended) in writes.iter().zip(ended) {
        let is_refused = matches!(ended, Err(OpenError::Database(isomer_cluster::Error::NoSeat)));
        assert!(is_refused, "{ids:?}: {ended:?}");
        for id in *ids {
            assert_eq!(read(&mut begin(&a, Isolation::ReadCommitted), table, *id), Some(START));
        }
    }
    *cluster.weather.is_cut_off.lock().expect("no panic") = None;
    until("it has a seat again", || {
        b.database().others().seat().is_some_and(|seat| seat.is_seated)
    });
    let mut after = begin(&b, Isolation::ReadCommitted);
    [5, 35].into_iter().for_each(|id| write(&mut after, table, id, 2).expect("it is free"));
    after.commit().expect("nothing is in the way");
    assert_eq!(read(&mut begin(&c, Isolation::ReadCommitted), table, 35), Some(2));
}

#[test]
fn a_conductor_whose_gateways_have_left_asks_no_process_for_its_time() {
    let (cluster, [a, b], table) = two_gateways();
    let latest = || cluster.weather.sent(9);
    let mut last = begin(&b, Isolation::ReadCommitted);
    write(&mut last, table, 35, 7).expect("it is free");
    last.commit().expect("nothing is in the way");
    let before = latest();
    assert_eq!(read(&mut begin(&a, Isolation::ReadCommitted), table, 35), Some(7));
    assert!(latest() > before, "there is another gateway");
    cluster.weather.is_conductor_silent.store(true, Ordering::SeqCst);
    until("its seat ends", || a.database().others().seats().is_empty());
    until("nothing is asked any more", || {
        let before = latest();
        assert_eq!(read(&mut begin(&a, Isolation::ReadCommitted), table, 35), Some(7));
        latest() == before
    });
    cluster.weather.is_conductor_silent.store(false, Ordering::SeqCst);
    until("it has a seat again", || {
        b.database().others().seat().is_some_and(|seat| seat.is_seated)
    });
    let mut next = begin(&b, Isolation::ReadCommitted);
    write(&mut next, table, 35, 8).expect("it is free");
    next.commit().expect("nothing is in the way");
    let before = latest();
    assert_eq!(read(&mut begin(&a, Isolation::ReadCommitted), table, 35), Some(8));
    assert!(latest() > before, "there is another gateway again");
}

#[test]
fn a_question_to_all_gateways_names_those_that_do_not_reply() {
    let (cluster, [a, b], _) = two_gateways();
    let listeners: [Arc<Heard>; 2] = Default::default();
    for (gateway, listener) in [&a, &b].into_iter().zip(&listeners) {
        gateway.database().others().listen(listener.clone());
    }
    let ask = |gateway: &Arc<Gateway>| {
        gateway.database().others().inquire(b"who".to_vec()).map(|mut replies| {
            let Replied { name, reply } = replies.pop().expect("there is one other gateway");
            assert!(replies.is_empty());
            (name, reply)
        })
    };
    assert_eq!(ask(&a).expect("it asks itself"), ("b".to_owned(), Some(b"who?".to_vec())));
    let of_conductor = (String::new(), Some(b"who?".to_vec()));
    assert_eq!(ask(&b).expect("it has a seat"), of_conductor);
    cluster.weather.is_conductor_silent.store(true, Ordering::SeqCst);
    assert_eq!(ask(&a).expect("it asks itself"), ("b".to_owned(), None));
    let refused = ask(&b);
    assert!(matches!(refused, Err(isomer_cluster::Error::NoSeat)), "{refused:?}");
}

#[test]
fn an_announcement_is_heard_everywhere_else_before_it_returns() {
    let (_cluster, [a, b], _) = two_gateways();
    let listeners: [Arc<Heard>; 2] = Default::default();
    for (gateway, listener) in [&a, &b].into_iter().zip(&listeners) {
        gateway.database().others().listen(listener.clone());
    }
    let heard = |at: usize| listeners[at].all.lock().expect("no panic").clone();
    a.database().others().announce(b"one").expect("it has the conductor");
    assert_eq!((heard(0), heard(1)), (vec![], vec![b"one".to_vec()]));
    assert_eq!(
        b.database().others().question(b"abc".to_vec(), None).expect("it has a seat"),
        b"cba"
    );
    let number = b.database().others().announce(b"two").expect("it has a seat");
    assert_eq!(heard(0), [b"two".to_vec()], "its own gateway is not told");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let never = CancelToken::default();
            b.database().others().until_past(number, &never).expect("it has a seat");
        });
        thread::park_timeout(Duration::from_millis(50));
        assert!(!waiting.is_finished(), "a statement from before still runs");
        listeners[0].past.store(number, Ordering::SeqCst);
        waiting.join().expect("no panic");
    });
}

#[test]
fn a_gateway_that_is_silent_loses_its_locks_and_its_transactions() {
    let (cluster, [a, b], table) = two_gateways();
    let mut lost = begin(&b, Isolation::ReadCommitted);
    write(&mut lost, table, 5, 1).expect("it is free");
    let held = begin(&a, Isolation::ReadCommitted);
    drop(held);
    cluster.weather.is_conductor_silent.store(true, Ordering::SeqCst);
    until("its seat ends", || a.database().others().seats().is_empty());
    // By then it has stopped by itself.
    assert!(!b.database().others().seat().expect("it has a link").is_seated);
    let mut early = begin(&b, Isolation::ReadCommitted);
    let refused = early.get(table, &Key::int(5), |_| {});
    assert!(matches!(refused, Err(OpenError::Database(isomer_cluster::Error::NoSeat))));
    let mut next = begin(&a, Isolation::ReadCommitted);
    write(&mut next, table, 5, 2).expect("the lock has ended");
    next.commit().expect("nothing is in the way");

    cluster.weather.is_conductor_silent.store(false, Ordering::SeqCst);
    until("it has a seat again", || {
        b.database().others().seat().is_some_and(|seat| seat.is_seated)
    });
    let refused = lost.commit();
    let is_lost = matches!(refused, Err(OpenError::Database(isomer_cluster::Error::NoSeat)));
    assert!(is_lost, "{refused:?}");
    let mut after = begin(&b, Isolation::ReadCommitted);
    assert_eq!(read(&mut after, table, 5), Some(2));
    write(&mut after, table, 5, 3).expect("it is free");
    after.commit().expect("nothing is in the way");
}
