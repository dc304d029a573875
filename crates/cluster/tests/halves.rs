//! A database in two processes: every request, answer and message between its halves is bytes.

#[path = "halves/channel.rs"]
mod channel;
#[path = "halves/fused.rs"]
mod fused;
#[path = "halves/gateways.rs"]
mod gateways;
#[path = "halves/ordered.rs"]
mod ordered;
#[path = "halves/routed.rs"]
mod routed;
#[path = "common/service.rs"]
mod service;
#[path = "halves/succession.rs"]
mod succession;

use channel::Cluster;
use isomer_cluster::{
    Abort, CancelToken, Database, Error, Failure, Gateway, Isolation, LockMode, OpenError,
    OpenTransaction, Options, Place, Procedures, Session, Txn,
};
use isomer_design::{
    Change, Column, ColumnType, Direction, Footprint, Key, KeyRange, Schema, SiteId, Span, TableId,
};
use isomer_site::wire;
use isomer_site::{Refusal, Step};
use isomer_strategy::TwoPhase;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Half of the sites with the router, half at a node.
const HALVES: &[&[u16]] = &[&[1, 2], &[3, 4]];
/// The router alone, and two nodes.
const APART: &[&[u16]] = &[&[], &[1, 2], &[3, 4]];

const ACCOUNTS: i64 = 40;
const START: i64 = 100;

fn balance(row: &[u8]) -> i64 {
    i64::from_le_bytes(row.try_into().expect("a balance has eight bytes"))
}

/// Parameters as bytes: a table, and numbers.
fn params(table: TableId, numbers: &[i64]) -> Vec<u8> {
    let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
    table.0.to_le_bytes().into_iter().chain(numbers).collect()
}

fn number(params: &[u8], at: usize) -> i64 {
    let from = 4 + 8 * at;
    i64::from_le_bytes(params[from..from + 8].try_into().expect("as it was written"))
}

fn table_of(params: &[u8]) -> TableId {
    TableId(u32::from_le_bytes(params[..4].try_into().expect("as it was written")))
}

fn procedures() -> Procedures {
    let mut procedures = Procedures::default();
    procedures.add("transfer", |txn: &mut Txn<'_>, params: &[u8]| {
        let (table, amount) = (table_of(params), number(params, 2));
        let [from, to] = [0, 1].map(|at| Key::int(number(params, at)));
        let left = txn.get(table, &from)?.map_or(0, balance) - amount;
        if left < 0 {
            return Err(Abort::because(format!("account {from} has no {amount}")));
        }
        let there = txn.get(table, &to)?.map_or(0, balance) + amount;
        txn.put(table, &from, &left.to_le_bytes())?;
        txn.put(table, &to, &there.to_le_bytes())?;
        Ok(left.to_le_bytes().to_vec())
    });
    procedures.add("open", |txn: &mut Txn<'_>, params: &[u8]| {
        let row = number(params, 1).to_le_bytes();
        txn.insert(table_of(params), &Key::int(number(params, 0)), &row)?;
        Ok(Vec::new())
    });
    procedures
}

/// Ten accounts at each of four sites.
fn bank(processes: &[&[u16]], options: Options) -> (Cluster, TableId) {
    let cluster = Cluster::open(processes, options, procedures);
    let columns =
        vec![Column::new("id", ColumnType::Int64), Column::new("balance", ColumnType::Int64)];
    let schema = Schema::new("accounts", columns, &["id"]).expect("the columns fit together");
    let start = |site: u16| match site {
        1 => Key::min(),
        _ => Key::int(i64::from(site - 1) * 10),
    };
    let placement: Vec<_> = (1..=4).map(|site| (start(site), SiteId(site))).collect();
    let db = cluster.gateway.database();
    let table = db.create_table(schema, &placement).expect("a valid table");
    let mut session = db.session();
    for id in 0..ACCOUNTS {
        let footprint = Footprint::new().write(table, Key::int(id));
        let params = params(table, &[id, START]);
        db.call(&mut session, &footprint, "open", &params).expect("a new account");
    }
    (cluster, table)
}

fn transfer(
    db: &Database,
    session: &mut Session,
    table: TableId,
    [from, to, amount]: [i64; 3],
) -> Result<Place, Error> {
    let footprint = Footprint::new().write(table, Key::int(from)).write(table, Key::int(to));
    let params = params(table, &[from, to, amount]);
    let (ran, left) = db.call(session, &footprint, "transfer", &params)?;
    assert!(balance(&left) >= 0);
    Ok(ran.place)
}

fn begin(gateway: &Arc<Gateway>, isolation: Isolation) -> OpenTransaction {
    gateway.begin(isolation, Arc::new(CancelToken::default()))
}

fn read(txn: &mut OpenTransaction, table: TableId, id: i64) -> Option<i64> {
    let mut found = None;
    txn.next_statement();
    txn.get(table, &Key::int(id), |row| found = Some(balance(row))).expect("a read");
    found
}

fn write(txn: &mut OpenTransaction, table: TableId, id: i64, to: i64) -> Result<(), OpenError> {
    let key = Key::int(id);
    txn.next_statement();
    txn.lock(table, &key, LockMode::Exclusive, true)?;
    txn.look_again();
    let locked = txn.get_locked(table, &key, |_| {})?;
    txn.put(table, key, locked.base, Some(to.to_le_bytes().to_vec()))
}

/// All accounts, as one statement sees them.
fn total(txn: &mut OpenTransaction, table: TableId, way: Direction) -> (i64, i64) {
    let (mut rows, mut sum) = (0, 0);
    txn.next_statement();
    txn.scan(table, &KeyRange::all(), way, |_, row| {
        rows += 1;
        sum += balance(row);
        ControlFlow::Continue(())
    })
    .expect("a scan");
    (rows, sum)
}

/// Waits for a condition that other threads make true.
fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..60_000 {
        if is_so() {
            return;
        }
        thread::park_timeout(Duration::from_millis(1));
    }
    panic!("never: {what}");
}

#[test]
fn open_transactions_span_both_halves() {
    for processes in [HALVES, APART] {
        let (cluster, table) = bank(processes, Options::in_memory(4).strategy(TwoPhase));
        let gateway = &cluster.gateway;
        let mut writer = begin(gateway, Isolation::ReadCommitted);
        let mut reader = begin(gateway, Isolation::ReadCommitted);
        let mut repeatable = begin(gateway, Isolation::RepeatableRead);
        assert_eq!(read(&mut repeatable, table, 35), Some(START));
        for id in [5, 15, 25, 35] {
            write(&mut writer, table, id, START + id).expect("there is no other writer");
        }
        assert_eq!(read(&mut writer, table, 35), Some(START + 35), "its own");
        let all = ACCOUNTS * START;
        assert_eq!(total(&mut reader, table, Direction::Forward), (ACCOUNTS, all));
        let ran = writer.commit().expect("nothing is in the way").expect("it has written");
        assert!(matches!(ran.place, Place::Distributed { .. }), "it is committed in two phases");
        assert_eq!(total(&mut reader, table, Direction::Forward), (ACCOUNTS, all + 80));
        assert_eq!(total(&mut reader, table, Direction::Backward), (ACCOUNTS, all + 80));
        assert_eq!(total(&mut repeatable, table, Direction::Forward), (ACCOUNTS, all));
        let conflict = write(&mut repeatable, table, 25, 1);
        assert!(matches!(conflict, Err(OpenError::Changed)), "it was changed since its snapshot");
        reader.until_durable().expect("it is in memory");

        let pins = || cluster.nodes.iter().map(|node| node.endpoint().pins()).sum::<usize>();
        let elsewhere = processes[1..].iter().map(|sites| sites.len()).sum::<usize>();
        assert_eq!(pins(), elsewhere, "each site keeps the snapshot of the repeatable one");
        drop(repeatable);
        until("a lease says that the pins are not needed", || pins() == 0);
        // Every kind of request was sent and answered, as bytes.
        until("sites of both halves spoke", || cluster.weather.sent(64) > 0);
        for kind in [1, 2, 3, 4, 5, 6, 7] {
            assert!(cluster.weather.sent(kind) > 0, "nothing of kind {kind} was asked");
            assert!(cluster.weather.sent(128 + kind) > 0, "nothing of kind {kind} was answered");
        }
        assert!(cluster.weather.sent(127) > 0, "no notice of a publication came");
    }
}

/// Reads at sites of other processes are validated there, key by key and by range.
#[test]
fn serializable_transactions_span_both_halves() {
    for processes in [HALVES, APART] {
        let (cluster, table) = bank(processes, Options::in_memory(4).strategy(TwoPhase));
        let gateway = &cluster.gateway;
        let mut one = begin(gateway, Isolation::Serializable);
        let mut other = begin(gateway, Isolation::Serializable);
        assert_eq!(
            (read(&mut one, table, 35), read(&mut other, table, 5)),
            (Some(START), Some(START))
        );
        write(&mut one, table, 5, 0).expect("there is no other writer");
        write(&mut other, table, 35, 0).expect("there is no other writer");
        let ran = one.commit().expect("nothing was changed").expect("it has written");
        assert!(matches!(ran.place, Place::Distributed { .. }), "its reads are part of it");
        let skew = other.commit();
        let is_key = |span: &Span| *span == Span::Key(Key::int(5));
        assert!(
            matches!(&skew, Err(OpenError::ReadChanged { span, .. }) if is_key(span)),
            "{skew:?}"
        );

        let mut sums = begin(gateway, Isolation::Serializable);
        let mut adds = begin(gateway, Isolation::Serializable);
        assert_eq!(total(&mut sums, table, Direction::Backward).0, ACCOUNTS);
        write(&mut adds, table, ACCOUNTS, 1).expect("there is no other writer");
        adds.commit().expect("it has read nothing else");
        write(&mut sums, table, 0, 1).expect("there is no other writer");
        assert!(matches!(sums.commit(), Err(OpenError::ReadChanged { .. })), "a row more");

        let footprint = Footprint::new().read(table, Key::int(15)).write(table, Key::int(25));
        let params = params(table, &[25, 25, 0]);
        let db = gateway.database();
        let (ran, _) = db
            .call_serializable(&mut db.session(), &footprint, "transfer", &params)
            .expect("it is there");
        assert!(matches!(ran.place, Place::Distributed { .. }), "its reads are locked");
    }
}

#[test]
fn a_wire_without_early_bytes_releases_rows_with_the_answer() {
    let (cluster, table) = bank(APART, Options::in_memory(4).strategy(TwoPhase));
    cluster.weather.is_plain.store(true, Ordering::SeqCst);
    let early = cluster.weather.sent(127);
    let mut writer = begin(&cluster.gateway, Isolation::ReadCommitted);
    write(&mut writer, table, 5, 1).expect("there is no other writer");
    write(&mut writer, table, 35, 2).expect("there is no other writer");
    writer.commit().expect("nothing is in the way");
    let mut reader = begin(&cluster.gateway, Isolation::ReadCommitted);
    assert_eq!((read(&mut reader, table, 5), read(&mut reader, table, 35)), (Some(1), Some(2)));
    assert_eq!(cluster.weather.sent(127), early);
    assert_eq!(cluster.gateway.locked_rows(), 0);
}

#[test]
fn partitions_are_copied_and_remastered_from_half_to_half() {
    for processes in [HALVES, APART] {
        let (cluster, table) = bank(processes, Options::in_memory(4).strategy(TwoPhase));
        let db = cluster.gateway.database();
        let start = Key::int(20);
        let change = |change: Change| db.change(change, "test").expect("a valid change");
        change(Change::AddReplica { table, start: start.clone(), site: SiteId(1) });

        // Writes at the master reach the replica in the other half.
        let mut session = db.session();
        transfer(db, &mut session, table, [25, 26, 7]).expect("both are at site 3");
        let range = KeyRange::ints(20, 30);
        let rows = |site: u16, session: &Session| {
            let mut rows = Vec::new();
            db.read_at(SiteId(site), session, table, &range, |key, row| {
                rows.push((Key::from_bytes(key), balance(row)));
            })
            .expect("the site holds a copy");
            rows
        };
        assert_eq!(rows(1, &session), rows(3, &session));
        assert_eq!(rows(1, &session)[5].1, START - 7);

        change(Change::Remaster { table, start: start.clone(), to: SiteId(1) });
        let place = transfer(db, &mut session, table, [25, 5, 3]).expect("both are at site 1");
        assert_eq!(place.site(), SiteId(1));
        assert_eq!(rows(3, &session)[5].1, START - 10, "the old master follows");
        change(Change::Split { table, at: Key::int(25) });
        change(Change::RemoveReplica { table, start: Key::int(25), site: SiteId(3) });
        let gone = db.read_at(SiteId(3), &session, table, &KeyRange::ints(25, 30), |_, _| {});
        assert!(matches!(gone, Err(Error::Failure(Failure::NotHere { site: SiteId(3), .. }))));
        transfer(db, &mut session, table, [25, 35, 1]).expect("over both halves");
        assert!(cluster.weather.sent(64) > 0, "sites of both halves spoke");
    }
}

#[test]
fn failures_arrive_as_they_were_sent() {
    let (cluster, table) = bank(HALVES, Options::in_memory(4).strategy(TwoPhase));
    let db = cluster.gateway.database();
    let mut session = db.session();
    let mut call = |id: i64, name: &str, more: i64| {
        let footprint = Footprint::new().write(table, Key::int(id));
        let params = params(table, &[id, more, more]);
        db.call(&mut session, &footprint, name, &params).expect_err("something is wrong")
    };
    let aborted = |error: Error| match error {
        Error::Abort(abort) => abort,
        error => panic!("it was no abort: {error}"),
    };
    let duplicate = aborted(call(35, "open", 1));
    assert_eq!(duplicate, Abort::DuplicateKey { table, key: Key::int(35) });
    let unknown = aborted(call(35, "close", 1));
    let (name, known) = ("close".to_owned(), "open, transfer".to_owned());
    assert_eq!(unknown, Abort::UnknownProcedure { name, known });
    assert!(matches!(aborted(call(35, "transfer", 1)), Abort::OutsideFootprint { .. }));

    // In two phases, the procedure runs at one half for rows of both.
    let poor = transfer(db, &mut session, table, [35, 5, 1000]);
    let poor = aborted(poor.expect_err("the account has not as much"));
    assert_eq!(poor, Abort::Rolled("account 35 has no 1000".to_owned()));

    let nowhere = TableId(99);
    let read = db.read_at(SiteId(4), &session, nowhere, &KeyRange::all(), |_, _| {});
    let Err(Error::Failure(Failure::NotHere { site: SiteId(4), item })) = read else {
        panic!("there is no such table: {read:?}")
    };
    assert_eq!((item.table, item.span.start()), (nowhere, &Key::min()));

    let never_over = CancelToken::default();
    let split = wire::ask(SiteId(3), &Step::Split(nowhere, Key::int(5)));
    let answer = cluster.nodes[0].endpoint().serve(&split, &never_over, |_| {}).expect("an answer");
    let refused = wire::read_answer::<Step>(&answer).expect("it is an answer");
    let Err(Refusal::NoTable { site: SiteId(3), table: TableId(99) }) = refused else {
        panic!("there is no such table: {refused:?}")
    };
    let misled = wire::ask(SiteId(1), &Step::Describe);
    let answer =
        cluster.nodes[0].endpoint().serve(&misled, &never_over, |_| {}).expect("an answer");
    let refused = wire::read_answer::<Step>(&answer).expect("it is an answer");
    assert!(matches!(refused, Err(Refusal::Unavailable(SiteId(1)))), "it is at the other half");
}

#[test]
fn requests_that_cannot_be_sent_or_understood_are_refused_by_name() {
    let (cluster, table) = bank(HALVES, Options::in_memory(4).strategy(TwoPhase));
    let db = cluster.gateway.database();
    let mut session = db.session();
    let footprint = Footprint::new().write(table, Key::int(35));
    let code = db.run(&mut session, &footprint, |txn| txn.put(table, &Key::int(35), b"new"));
    let refused = code.expect_err("code stays where it is").to_string();
    assert_eq!(
        refused,
        "site s4 was not asked: its process is another one, and code cannot be sent; \
         ask for checked writes, or call a procedure by its name"
    );
    let here = Footprint::new().write(table, Key::int(5));
    db.run(&mut session, &here, |txn| txn.put(table, &Key::int(5), &START.to_le_bytes()))
        .expect("its site is in this process");

    let weather = &cluster.weather;
    weather.is_foreign.store(true, Ordering::SeqCst);
    let foreign = transfer(db, &mut session, table, [35, 36, 1]).expect_err("another release");
    weather.is_foreign.store(false, Ordering::SeqCst);
    assert!(!foreign.is_unknown(), "nothing was done");
    assert_eq!(
        foreign.to_string(),
        format!(
            "site s4 was not asked: it was not understood: a message of version {}; \
             this program knows version {}, so let both be of one release",
            wire::VERSION + 1,
            wire::VERSION
        )
    );
    weather.is_noisy.store(true, Ordering::SeqCst);
    let noisy = transfer(db, &mut session, table, [35, 36, 1]).expect_err("the answer is lost");
    weather.is_noisy.store(false, Ordering::SeqCst);
    assert!(noisy.is_unknown(), "it may have been done: {noisy}");
    let mut reader = begin(&cluster.gateway, Isolation::ReadCommitted);
    assert_eq!(read(&mut reader, table, 35), Some(START - 1), "it was");
}

#[test]
fn a_site_that_no_process_hosts_cannot_be_added() {
    let (cluster, _) = bank(HALVES, Options::in_memory(4));
    let db = cluster.gateway.database();
    let refused = db.change(Change::AddSite { site: SiteId(5) }, "a site that is nowhere");
    assert!(refused.is_err(), "no process hosts it");
    assert_eq!(db.design().sites().len(), 4);
}

#[test]
fn sites_of_both_processes_can_be_removed() {
    let (cluster, table) = bank(HALVES, Options::in_memory(4));
    let (db, to) = (cluster.gateway.database(), SiteId(1));
    for site in [SiteId(4), SiteId(2)] {
        let full = db.change(Change::RemoveSite { site }, "it has a partition");
        assert!(matches!(full, Err(Error::Invalid(_))), "{full:?}");
        let start = Key::int(i64::from(site.0 - 1) * 10);
        for change in [
            Change::AddReplica { table, start: start.clone(), site: to },
            Change::Remaster { table, start: start.clone(), to },
            Change::RemoveReplica { table, start: start.clone(), site },
            Change::RemoveSite { site },
        ] {
            db.change(change, "to empty it").expect("it can be emptied, and removed");
        }
    }
    assert_eq!(db.design().sites().iter().collect::<Vec<_>>(), [SiteId(1), SiteId(3)]);
    transfer(db, &mut db.session(), table, [15, 35, 1]).expect("site 1 has both");
    transfer(db, &mut db.session(), table, [25, 35, 1]).expect("site 3 is still there");
}

#[test]
fn transfers_over_both_halves_conserve_money_while_the_design_changes() {
    for options in [Options::in_memory(4), Options::in_memory(4).strategy(TwoPhase)] {
        let (cluster, table) = bank(HALVES, options);
        let (db, gateway) = (cluster.gateway.database(), &cluster.gateway);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let movers: Vec<_> = (0..3)
                .map(|client| {
                    scope.spawn(move || {
                        let mut session = db.session();
                        for i in 0..60 {
                            let from = (client * 17 + i * 7) % ACCOUNTS;
                            let to = (from + 1 + i * 11 % (ACCOUNTS - 1)) % ACCOUNTS;
                            match transfer(db, &mut session, table, [from, to, i % 20]) {
                                Ok(_) | Err(Error::Abort(Abort::Rolled(_))) => {}
                                Err(error) => panic!("{from} to {to}: {error}"),
                            }
                        }
                    })
                })
                .collect();
            scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    let mut txn = begin(gateway, Isolation::ReadCommitted);
                    let found = total(&mut txn, table, Direction::Forward);
                    assert_eq!(found, (ACCOUNTS, ACCOUNTS * START));
                }
            });
            for round in 0..10u16 {
                let start = Key::int(i64::from(round % 4) * 10);
                let start = if round % 4 == 0 { Key::min() } else { start };
                let site = SiteId(1 + (round + 2) % 4);
                // The strategy may have made the same changes, or others, in the meantime.
                let _ = db.change(Change::AddReplica { table, start: start.clone(), site }, "test");
                let _ = db.change(Change::Remaster { table, start, to: site }, "test");
            }
            for mover in movers {
                mover.join().expect("a mover has moved all");
            }
            done.store(true, Ordering::SeqCst);
        });
        assert_eq!(db.design().check(), Ok(()));
    }
}
