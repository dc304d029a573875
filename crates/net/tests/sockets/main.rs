//! Clusters over real sockets: transactions while connections are cut, and processes fail and
//! restart.

mod bank;
mod certificates;
mod envelopes;
mod failover;
mod proxy;

use bank::{ACCOUNTS, Plan, START, accounts, get, set, total, transfer, until};
use isomer_cluster::{Abort, Error, Failure, Gateway, OpenError, Wire};
use isomer_design::{Change, Key, KeyRange, SiteId, TableId};
use isomer_net::Role;
use isomer_site::Message;
use proxy::Proxy;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// The router with two sites, and two nodes with one each.
const THREE: &[&[u16]] = &[&[1, 2], &[3], &[4]];

/// Transfers until `stop`; returns the numbers of committed transfers and of unknown outcomes.
fn transfers(gateway: &Arc<Gateway>, table: TableId, seed: u64, stop: &AtomicBool) -> (u64, u64) {
    let (db, mut rng) = (gateway.database(), Xoshiro256PlusPlus::seed_from_u64(seed));
    let (mut session, mut committed, mut unknown) = (db.session(), 0, 0);
    while !stop.load(Ordering::SeqCst) {
        let from = rng.random_range(0..ACCOUNTS);
        let to = (from + rng.random_range(1..ACCOUNTS)) % ACCOUNTS;
        match transfer(db, &mut session, table, [from, to, rng.random_range(0..20)]) {
            Ok(()) => committed += 1,
            Err(Error::Abort(Abort::Rolled(_))) => {}
            Err(Error::Failure(Failure::Participant(_) | Failure::Unreachable { .. })) => {}
            Err(error) if error.is_unknown() => unknown += 1,
            Err(error) => panic!("{from} to {to}: {error}"),
        }
    }
    (committed, unknown)
}

/// Ends the background threads, also if the test fails.
struct End<'s>(&'s AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Transfers during `trouble`. The sum of all balances is unchanged in every snapshot, and
/// afterwards.
fn conserve(gateway: &Arc<Gateway>, table: TableId, trouble: impl FnOnce(&AtomicU64)) {
    let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let stop = &stop;
        let movers: Vec<_> =
            (0..3).map(|seed| scope.spawn(move || transfers(gateway, table, seed, stop))).collect();
        let rounds = &rounds;
        let end = End(stop);
        scope.spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                match total(gateway, table) {
                    Ok(found) => assert_eq!(found, (ACCOUNTS, ACCOUNTS * START)),
                    Err(OpenError::Database(
                        Error::Gone | Error::Failure(Failure::Unreachable { .. }),
                    )) => {}
                    Err(error) => panic!("no total: {error}"),
                }
                rounds.fetch_add(1, Ordering::SeqCst);
            }
        });
        trouble(rounds);
        drop(end);
        let done = movers.into_iter().map(|mover| mover.join().expect("a mover has moved"));
        let (committed, unknown) = done.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
        assert!(committed > 0, "nothing was moved");
        eprintln!("{committed} transfers, {unknown} unknown");
    });
    let mut found = None;
    until("all accounts can be read", || {
        found = total(gateway, table).ok();
        found.is_some()
    });
    assert_eq!(found, Some((ACCOUNTS, ACCOUNTS * START)));
}

#[test]
fn a_cluster_of_three_processes_moves_money_and_partitions() {
    let plan = Plan::new(THREE, None);
    let (_b, _c) = (plan.node(1), plan.node(2));
    let (gateway, net) = plan.router();
    let table = accounts(&gateway);
    conserve(&gateway, table, |rounds| {
        let db = gateway.database();
        for round in 0..8u16 {
            let start = match round % 4 {
                0 => Key::min(),
                place => Key::int(i64::from(place) * 10),
            };
            // There and back.
            let site = SiteId(1 + (round + if round < 4 { 2 } else { 0 }) % 4);
            if round < 4 {
                let replica = Change::AddReplica { table, start: start.clone(), site };
                db.change(replica, "test").expect("it has none there");
            }
            db.change(Change::Remaster { table, start, to: site }, "test").expect("it is there");
        }
        until("a reader has read", || rounds.load(Ordering::SeqCst) > 3);
    });
    // Copies in different processes agree.
    let (db, session) = (gateway.database(), gateway.database().session());
    let rows = |site: u16| {
        let mut rows = Vec::new();
        db.read_at(SiteId(site), &session, table, &KeyRange::ints(10, 20), |key, row| {
            rows.push((key.to_vec(), row.to_vec()));
        })
        .expect("it holds a copy");
        rows
    };
    assert_eq!(rows(2), rows(4));
    let status = plan.status(1).expect("it is there");
    assert_eq!((&*status.name, status.role, status.cluster), ("b", Role::Node, Some(0x1234)));
    assert!(status.is_open);
    until("all see all", || {
        let sees = |at: usize| {
            let status = plan.status(at);
            status.is_ok_and(|status| status.peers.iter().all(|(_, why)| why.is_none()))
        };
        (0..3).all(sees)
    });
    assert!(net.peers().iter().all(|peer| peer.reached.is_ok()));
}

#[test]
fn connections_that_are_cut_anywhere_lose_nothing_that_was_acknowledged() {
    let mut plan = Plan::new(THREE, None);
    let proxies: Vec<Proxy> = plan.listen.iter().map(|to| Proxy::new(*to)).collect();
    plan.dial = proxies.iter().map(|proxy| proxy.address).collect();
    let (_b, _c) = (plan.node(1), plan.node(2));
    let (gateway, _net) = plan.router();
    let table = accounts(&gateway);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(11);
    conserve(&gateway, table, |_| {
        for round in 0..12 {
            let proxy = &proxies[round % 3];
            proxy.cut_after(rng.random_range(1..3000));
            proxy.until_cut();
        }
    });
    // All processes reconnect.
    proxies.iter().for_each(Proxy::cut);
    conserve(&gateway, table, |rounds| until("rounds", || rounds.load(Ordering::SeqCst) > 5));
}

#[test]
fn strangers_and_garbage_disturb_no_process() {
    let mut plan = Plan::new(&[&[1, 2], &[3, 4]], None);
    plan.outage_wait = Duration::from_secs(60);
    let (_node, _) = plan.node(1);
    let (gateway, _net) = plan.router();
    let table = accounts(&gateway);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    conserve(&gateway, table, |_| {
        for round in 0..60 {
            let address = plan.listen[round % 2];
            let mut stranger = TcpStream::connect(address).expect("it listens");
            let length = rng.random_range(1..200);
            let mut bytes: Vec<u8> = (0..length).map(|_| rng.random()).collect();
            if round % 3 == 0 {
                // A head with a great length.
                bytes[0] = isomer_site::wire::VERSION;
            }
            let _ = stranger.write_all(&bytes);
            if round % 4 == 0 {
                drop(stranger);
                continue;
            }
            let _ = stranger.shutdown(std::net::Shutdown::Write);
            let mut answer = Vec::new();
            let _ = stranger.read_to_end(&mut answer);
            assert!(answer.len() < 1000, "a stranger was told {} bytes", answer.len());
        }
    });
}

#[test]
fn a_slow_process_makes_no_other_keep_more_than_the_limit() {
    let mut plan = Plan::new(&[&[1, 2], &[3, 4]], None);
    (plan.queue_bytes, plan.silence) = (200_000, Duration::from_secs(60));
    plan.outage_wait = Duration::ZERO;
    let proxy = Proxy::new(plan.listen[1]);
    plan.dial[1] = proxy.address;
    let (_node, _) = plan.node(1);
    let (gateway, net) = plan.router();
    let table = accounts(&gateway);
    set(&gateway, table, 35, 7).expect("it is reached");
    proxy.hold(true);
    // Bytes that the network accepts do not count; then the queue is full.
    for length in [50, 1, 0] {
        let keys = (0..length).map(|at| (table, Key::from_bytes(&[at; 1000])));
        let asks = Message::AskAck { partitions: keys.collect() };
        let message = isomer_site::wire::message(SiteId(1), SiteId(3), &asks);
        let before = net.peers()[0].dropped;
        until("messages are dropped", || {
            net.send(SiteId(3), message.clone());
            net.peers()[0].dropped > before
        });
    }
    let refused = set(&gateway, table, 35, 8).expect_err("too much waits").to_string();
    assert!(refused.contains("too much waits to be sent"), "{refused}");
    set(&gateway, table, 5, 8).expect("its site is here");
}

#[test]
fn a_node_that_is_gone_is_waited_for_and_has_what_was_acknowledged() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut plan = Plan::new(THREE, Some(folder.path()));
    plan.outage_wait = Duration::from_secs(100);
    let (node, net) = plan.node(1);
    let (_c, _) = plan.node(2);
    let (gateway, _net) = plan.router();
    let table = accounts(&gateway);
    set(&gateway, table, 25, 77).expect("its node is there");
    drop((node, net));
    until("it is missed", || {
        gateway
            .database()
            .sites_elsewhere()
            .iter()
            .any(|(_, reach)| reach.as_ref().is_some_and(|reach| reach.trouble.is_some()))
    });
    set(&gateway, table, 5, START - 77 + START).expect("others go on");
    thread::scope(|scope| {
        let reader = scope.spawn(|| get(&gateway, table, 25));
        let writer = scope.spawn(|| set(&gateway, table, 26, START));
        set(&gateway, table, 35, START).expect("others go on");
        let (_node, _net) = plan.node(1);
        assert_eq!(reader.join().expect("no panic").expect("it waits for the node"), 77);
        writer.join().expect("no panic").expect("it waits for the node");
        conserve(&gateway, table, |rounds| until("rounds", || rounds.load(Ordering::SeqCst) > 3));
    });
}

#[test]
fn a_client_that_does_not_wait_is_told_where_the_node_should_be() {
    let mut plan = Plan::new(&[&[1, 2], &[3, 4]], None);
    plan.outage_wait = Duration::ZERO;
    let (node, net) = plan.node(1);
    let (gateway, _net) = plan.router();
    let table = accounts(&gateway);
    drop((node, net));
    let db = gateway.database();
    until("it is refused", || set(&gateway, table, 35, 1).is_err());
    let refused = set(&gateway, table, 35, 1).expect_err("no process is there").to_string();
    let address = plan.listen[1];
    let expected = format!("site s4 cannot be reached, so nothing was done: node b at {address}: ");
    assert!(refused.starts_with(&expected), "{refused}");
    let split =
        db.change(Change::Split { table, at: Key::int(35) }, "test").expect_err("no process");
    assert!(split.to_string().starts_with(&expected), "{split}");
    transfer(db, &mut db.session(), table, [5, 15, 1]).expect("both are here");
    let over_both = transfer(db, &mut db.session(), table, [5, 35, 1]).expect_err("one is not");
    assert!(!over_both.is_unknown(), "{over_both}");
}

#[test]
fn a_router_that_starts_again_finds_the_design_at_the_nodes() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = Plan::new(THREE, Some(folder.path()));
    // The process that starts first waits for the others.
    let nodes = thread::scope(|scope| {
        let router = scope.spawn(|| plan.router());
        let nodes = (plan.node(1), plan.node(2));
        let (gateway, net) = router.join().expect("it opens");
        let table = accounts(&gateway);
        let db = gateway.database();
        let to = SiteId(4);
        let start = Key::int(20);
        let replica = Change::AddReplica { table, start: start.clone(), site: to };
        db.change(replica, "test").expect("a replica");
        db.change(Change::Remaster { table, start, to }, "test").expect("it is there");
        set(&gateway, table, 25, 1).expect("all are there");
        drop((gateway, net));
        nodes
    });
    let (gateway, _net) = plan.router();
    let db = gateway.database();
    let (table, _) = db.table("accounts").expect("it was created");
    let (_, placement) = db.design().partition_of(table, &Key::int(20)).expect("a partition");
    assert_eq!((placement.master, placement.replicas.contains(SiteId(3))), (SiteId(4), true));
    assert_eq!(get(&gateway, table, 25).expect("it is there"), 1);
    set(&gateway, table, 25, START).expect("all are there");
    conserve(&gateway, table, |rounds| until("rounds", || rounds.load(Ordering::SeqCst) > 3));
    drop(nodes);
}

#[test]
fn a_second_process_of_one_name_is_refused() {
    let plan = Plan::new(&[&[1, 2], &[3, 4]], None);
    let (_node, _) = plan.node(1);
    let (gateway, _net) = plan.router();
    let table = accounts(&gateway);
    // Another router, with the same list, is told why it is refused.
    let mut twin = Plan::new(&[&[1, 2], &[3, 4]], None);
    twin.dial[1] = plan.dial[1];
    let second = twin.net(0, Some(plan.cluster));
    second.dial();
    let told = |net: &isomer_net::Net, what: &str| {
        until(what, || net.peers()[0].reached.as_ref().is_err_and(|why| why.contains(what)));
    };
    told(&second, "a process named `a` is connected already");
    drop(second);
    let third = twin.net(0, Some(0x99));
    third.dial();
    told(&third, "belongs to the cluster 0000000000000099");
    set(&gateway, table, 35, 1).expect("the first one goes on");
}

/// Measures the cost of a site at a node, compared with one in this process: `cargo test -p
/// isomer-net cost -- --ignored --nocapture`.
#[test]
#[ignore = "it measures, and asserts nothing"]
#[allow(clippy::disallowed_methods, reason = "it measures")]
fn cost_of_a_site_at_a_node() {
    let plan = Plan::new(&[&[1, 2], &[3, 4]], None);
    let (_node, _) = plan.node(1);
    let (gateway, _net) = plan.router();
    let table = accounts(&gateway);
    let rate = |clients: i64, what: &(dyn Fn(i64) + Sync)| {
        let begun = std::time::Instant::now();
        let done = AtomicU64::new(0);
        thread::scope(|scope| {
            for client in 0..clients {
                let done = &done;
                scope.spawn(move || {
                    while begun.elapsed() < Duration::from_secs(3) {
                        what(client);
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        done.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64()
    };
    for clients in [1, 8] {
        for (place, first) in [("here", 10), ("node", 30)] {
            let reads = rate(clients, &|client| {
                get(&gateway, table, first + client).expect("it is there");
            });
            let commits = rate(clients, &|client| {
                set(&gateway, table, first + client, 1).expect("no other client writes it");
            });
            eprintln!("{clients} clients, {place}: {reads:.0} reads/s, {commits:.0} commits/s");
        }
    }
}
