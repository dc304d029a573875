//! Failover: a process fails, others take over its tables with backups, and no acknowledged commit
//! is lost.

use crate::bank::{ACCOUNTS, Plan, START, accounts, get, set, total, until};
use crate::{THREE, conserve};
use isomer_cluster::Gateway;
use isomer_design::{Backups, Domains, Key, SiteId, TableId};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const IN_MEMORY: Backups = Backups { count: 1, on_disk: false };

fn plan(folder: Option<&Path>) -> Plan {
    let mut plan = Plan::new(THREE, folder);
    plan.failover_after = Some(Duration::from_millis(300));
    plan
}

fn master(gateway: &Gateway, table: TableId, key: i64) -> SiteId {
    let found = gateway.database().design().partition_of(table, &Key::int(key));
    found.expect("a partition").1.master
}

/// Waits until a failed site masters nothing.
fn taken_over(gateway: &Arc<Gateway>, site: SiteId) {
    let db = gateway.database();
    until("others take over", || db.failed_over().iter().any(|over| over.site == site));
    let over = db.failed_over().pop().expect("it was just seen");
    assert!(over.unavailable.is_empty(), "{over}");
}

#[test]
fn others_take_over_from_a_node_that_is_gone_and_it_comes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = plan(Some(folder.path()));
    let (b, _c) = (plan.node(1), plan.node(2));
    let (gateway, _net) = plan.router();
    let table = accounts(&gateway);
    gateway.database().set_backups(table, IN_MEMORY).expect("there are sites for them");
    let mut b = Some(b);
    conserve(&gateway, table, |rounds| {
        until("rounds", || rounds.load(Ordering::SeqCst) > 5);
        drop(b.take());
        taken_over(&gateway, SiteId(3));
        assert_ne!(master(&gateway, table, 25), SiteId(3));
        let seen = rounds.load(Ordering::SeqCst);
        until("rounds", || rounds.load(Ordering::SeqCst) > seen + 5);
    });
    set(&gateway, table, 25, 7).expect("another site masters it");
    let (node, net) = plan.node(1);
    until("each partition has a backup again", || {
        gateway.database().design().lacking(&Domains::default(), |_| true).is_empty()
    });
    assert_eq!(get(&gateway, table, 25).expect("it is there"), 7);
    let (_, sum) = total(&gateway, table).expect("all are there");
    set(&gateway, table, 25, 7 + ACCOUNTS * START - sum).expect("all are there");
    conserve(&gateway, table, |rounds| until("rounds", || rounds.load(Ordering::SeqCst) > 5));
    drop((node, net));
}
