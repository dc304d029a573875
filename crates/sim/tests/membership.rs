//! Sites that were replaced, and do not answer: nothing else waits for them.

use isomer_cluster::FailedOver;
use isomer_design::{Backups, Change, Column, ColumnType, Key, Placement, Schema, SiteId, TableId};
use isomer_sim::cluster::Cluster;
use isomer_sim::world::{Gate, Manners, TaskId, World};
use isomer_strategy::TwoPhase;
use std::rc::Rc;

const TABLE: TableId = TableId(1);
const S1: SiteId = SiteId(1);
const S2: SiteId = SiteId(2);
const S3: SiteId = SiteId(3);
const SECOND_NS: u64 = 1_000_000_000;

fn schema(name: &str) -> Schema {
    let columns =
        vec![Column::new("id", ColumnType::Int64), Column::new("value", ColumnType::Int64)];
    Schema::new(name, columns, &["id"]).expect("two columns and a key")
}

/// Starts work of the conductor, and lets it run for a second.
fn begin<F: Future<Output = ()> + 'static>(
    cluster: &Rc<Cluster>,
    work: impl FnOnce(Rc<Cluster>) -> F,
) -> TaskId {
    let task = cluster.world.spawn("a test".into(), work(cluster.clone()));
    cluster.world.run_for(SECOND_NS, || cluster.world.is_done(task));
    task
}

/// Lets other sites take over from a site.
fn lose(cluster: &Rc<Cluster>, site: SiteId) -> TaskId {
    cluster.world.crash_hard(site);
    cluster.world.give_up(site);
    begin(cluster, move |cluster| async move {
        let told = |over: &FailedOver| cluster.world.note(format_args!("{over}"));
        cluster.conductor().pass_by(site, &told).await;
    })
}

/// Sites 1 and 2 master a partition each, and site 3 has the backups of both.
fn three_sites() -> Rc<Cluster> {
    let world = World::new(1, Manners::orderly());
    let cluster = Cluster::start(world, &[S1, S2, S3], Box::new(TwoPhase)).expect("three sites");
    let made = begin(&cluster, |cluster| async move {
        let starts = [(Key::min(), S1), (Key::int(10), S2)];
        let partitions = starts.map(|(start, site)| (start, Placement::at(site)));
        let created = cluster.create_table(TABLE, schema("accounts"), partitions.to_vec()).await;
        created.expect("there is room");
        for start in [Key::min(), Key::int(10)] {
            let change = Change::AddReplica { table: TABLE, start, site: S3 };
            cluster.conductor().change(change, "the test says so").await.expect("it is possible");
        }
        let backups = Backups { count: 1, on_disk: true };
        cluster.set_backups(TABLE, backups).await.expect("there are enough");
    });
    assert!(cluster.world.is_done(made));
    cluster
}

#[test]
fn a_table_is_created_while_a_site_cannot_be_readmitted() {
    let cluster = three_sites();
    let world = cluster.world.clone();
    assert!(world.is_done(lose(&cluster, S2)));
    world.start(S2);
    world.wait_for_again(S2);
    world.hold(Gate::Requests(S2));
    cluster.conductor().site_returned(S2);
    let readmitting =
        begin(&cluster, |cluster| async move { cluster.conductor().readmit_returned().await });
    let created = begin(&cluster, |cluster| async move {
        let partitions = vec![(Key::min(), Placement::at(S1))];
        let created = cluster.create_table(TableId(2), schema("branches"), partitions).await;
        created.expect("it needs no other site");
    });
    assert!(world.is_done(created) && !world.is_done(readmitting));
    // Backups need all sites, and wait for them.
    let refused = begin(&cluster, |cluster| async move {
        let backups = Backups { count: 1, on_disk: true };
        let refused = cluster.set_backups(TableId(2), backups).await.expect_err("s2 is not back");
        assert!(refused.to_string().contains("s2"), "{refused}");
    });
    assert!(!world.is_done(refused), "it waits for the readmission");
    world.run_for(10 * SECOND_NS, || world.is_done(refused));
    assert!(world.is_done(refused), "it does not wait for long");
    let backed = begin(&cluster, |cluster| async move {
        let backups = Backups { count: 1, on_disk: true };
        cluster.set_backups(TableId(2), backups).await.expect("s2 is readmitted");
    });
    assert!(!world.is_done(backed));
    world.let_all_go();
    world.run_for(SECOND_NS, || world.is_done(backed));
    assert!(world.is_done(backed));
    world.end();
}

#[test]
fn a_takeover_does_not_wait_for_a_replaced_site() {
    let cluster = three_sites();
    let world = cluster.world.clone();
    assert!(world.is_done(lose(&cluster, S2)));
    // It restarts, and answers until the takeover from s1 has its history.
    world.start(S2);
    world.wait_for_again(S2);
    world.hold(Gate::Disk(S3));
    let takeover = lose(&cluster, S1);
    assert!(!world.is_done(takeover), "s3 has not fenced s1 durably");
    world.hold(Gate::Disk(S2));
    world.let_go(Gate::Disk(S3));
    world.run_for(SECOND_NS, || false);
    assert!(!world.is_done(takeover), "s2 has not noted durably that s1 is replaced");
    world.crash_hard(S2);
    world.run_for(SECOND_NS, || world.is_done(takeover));
    assert!(world.is_done(takeover));
    world.end();
}

#[test]
fn a_site_is_removed_once_it_is_readmitted() {
    let world = World::new(1, Manners::orderly());
    let cluster = Cluster::start(world.clone(), &[S1, S2, S3], Box::new(TwoPhase)).expect("sites");
    let made = begin(&cluster, |cluster| async move {
        let partitions = vec![(Key::min(), Placement::at(S1))];
        let created = cluster.create_table(TABLE, schema("accounts"), partitions).await;
        created.expect("there is room");
    });
    assert!(world.is_done(made));
    // Site 3 returns while site 2 is down, which must hear that before site 3 is a member.
    world.crash_hard(S2);
    assert!(!world.is_done(lose(&cluster, S3)), "it cannot ask site 2");
    world.start(S3);
    world.wait_for_again(S3);
    cluster.conductor().site_returned(S3);
    let readmitting =
        begin(&cluster, |cluster| async move { cluster.conductor().readmit_returned().await });
    let removed = begin(&cluster, |cluster| async move {
        let change = Change::RemoveSite { site: S3 };
        cluster.conductor().change(change, "the test says so").await.expect("it is readmitted");
    });
    assert!(!world.is_done(readmitting) && !world.is_done(removed));
    world.start(S2);
    world.run_for(SECOND_NS, || world.is_done(removed));
    assert!(world.is_done(removed) && !cluster.conductor().design().sites().contains(S3));
    world.end();
}
