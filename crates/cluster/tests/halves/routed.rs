//! Statements on ordered tables that ask the conductor where to run, and wait for their turns
//! (`isomer_cluster::ordered::ahead`). The conductor has sites 1 and 2; a second gateway is at site
//! 3.

use super::channel::Cluster;
use super::ordered::{accounts, second};
use super::service::Service;
use super::succession::started;
use super::until;
use isomer_cluster::{CancelReason, CancelToken, Gateway, OrderRouter, StatementTurn};
use isomer_design::{Footprint, Key, SiteId, TableId};
use isomer_plan::route::Options;
use isomer_plan::route::engine::{EngineRouter, LiveRouter};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

#[allow(clippy::disallowed_methods, reason = "a test gives others the time to wait")]
fn pause() {
    thread::sleep(std::time::Duration::from_millis(50));
}

fn route(gateway: &Arc<Gateway>) {
    let router = LiveRouter(EngineRouter::Hermes(Options::default()));
    OrderRouter(gateway.database()).set("hermes", Some(Arc::new(router)));
}

fn writes(table: TableId, ids: &[i64]) -> Footprint {
    ids.iter().fold(Footprint::new(), |footprint, id| footprint.write(table, Key::int(*id)))
}

fn turn(gateway: &Arc<Gateway>, table: TableId, ids: &[i64]) -> StatementTurn {
    let turn = OrderRouter(gateway.database()).turn(writes(table, ids), &CancelToken::default());
    turn.expect("nothing cancels it")
}

/// Two gateways that ask for turns, and an ordered table: accounts 0 to 9 have their home at site
/// 1, the next ten at site 2, and so on.
fn routed(folder: &Path, logs: &Arc<Service>) -> (Cluster, Arc<Gateway>, Arc<Gateway>, TableId) {
    let cluster = started(folder, logs);
    let (a, b) = (cluster.gateway.clone(), second(&cluster));
    let table = accounts(a.database(), 0);
    [&a, &b].into_iter().for_each(route);
    (cluster, a, b, table)
}

#[test]
fn statements_get_their_sites_and_their_turns() {
    let (logs, folder) = (Service::new(1), tempfile::tempdir().expect("a folder"));
    let (_cluster, a, b, table) = routed(folder.path(), &logs);
    // Each runs where its rows are: none of these sites is that of the other gateway.
    assert_eq!(turn(&a, table, &[5]).elsewhere, None);
    assert_eq!(turn(&a, table, &[25]).elsewhere, Some(SiteId(3)));
    assert_eq!(turn(&b, table, &[25]).elsewhere, None);
    assert_eq!(turn(&b, table, &[15]).elsewhere, Some(SiteId(1)), "the first of its process");
    // Those about one row have their turns one after the other.
    let inside = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..12 {
            let (gateway, inside) = ([&a, &b][number % 2], &inside);
            scope.spawn(move || {
                for _ in 0..20 {
                    let held = turn(gateway, table, &[7, 30 + number as i64 % 3]);
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "they exclude each other");
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    drop(held);
                }
            });
        }
    });
    assert!(OrderRouter(a.database()).counters().statements >= 240);
}

#[test]
fn a_turn_passes_on_when_its_client_cancels_or_its_gateway_fails() {
    let (logs, folder) = (Service::new(1), tempfile::tempdir().expect("a folder"));
    let (cluster, a, b, table) = routed(folder.path(), &logs);
    let held = turn(&a, table, &[5]);
    let cancel = Arc::new(CancelToken::default());
    thread::scope(|scope| {
        let (b, token) = (&b, cancel.clone());
        let waits = scope
            .spawn(move || OrderRouter(b.database()).turn(writes(table, &[5]), &token).map(drop));
        pause();
        cancel.end(CancelReason::Asked);
        waits.join().expect("no panic").expect_err("it was canceled");
    });
    drop(held);
    drop(turn(&a, table, &[5]));
    // A router that is turned off lets those go on that wait.
    let held = turn(&a, table, &[5]);
    thread::scope(|scope| {
        let waits = scope.spawn(|| turn(&b, table, &[5]));
        pause();
        OrderRouter(a.database()).set("off", None);
        assert_eq!(waits.join().expect("no panic").elsewhere, None);
    });
    drop(held);
    route(&a);
    // The seat of a gateway that is silent ends, and its turns with it.
    let lost = turn(&b, table, &[5]);
    cluster.weather.end(&[3]);
    until("its turn has ended", || {
        let waits = CancelToken::default();
        OrderRouter(a.database()).turn(writes(table, &[5]), &waits).is_ok()
    });
    drop(lost);
}
