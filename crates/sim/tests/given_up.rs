//! A client that gives up at the moment in which it is granted a row leaves nothing behind.

use futures_util::FutureExt;
use isomer_cluster::CancelToken;
use isomer_cluster::{Isolation, LockMode};
use isomer_design::{Key, SiteId, TableId};
use isomer_sim::cluster::Cluster;
use isomer_sim::world::{Manners, World};
use isomer_strategy::TwoPhase;
use std::sync::Arc;

#[test]
fn a_row_that_was_granted_to_who_gave_up_is_free() {
    let world = World::new(1, Manners::orderly());
    let cluster = Cluster::start(world.clone(), &[SiteId(1)], Box::new(TwoPhase)).expect("a site");
    let begin =
        || cluster.gateway.begin(Isolation::ReadCommitted, Arc::new(CancelToken::default()));
    let (mut first, mut second, mut third) = (begin(), begin(), begin());
    let (table, key) = (TableId(1), Key::int(5));
    let lock = first.lock(table, &key, LockMode::Exclusive, true).now_or_never();
    lock.expect("nobody else has it").expect("nobody else has it");
    {
        let mut waits = Box::pin(second.lock(table, &key, LockMode::Exclusive, true));
        assert!((&mut waits).now_or_never().is_none(), "it waits");
        drop(first);
        // It has the row now, and never hears of it.
    }
    let lock = third.lock(table, &key, LockMode::Exclusive, true).now_or_never();
    lock.expect("nobody has it").expect("nobody has it");
    drop((second, third));
    world.end();
}
