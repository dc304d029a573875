//! A client whose wait is cancelled at the moment when the lock is granted leaves no lock behind.

use futures_util::FutureExt;
use isomer_cluster::CancelToken;
use isomer_cluster::{Isolation, LockMode};
use isomer_design::{Key, SiteId, TableId};
use isomer_sim::cluster::Cluster;
use isomer_sim::world::{Manners, World};
use isomer_strategy::TwoPhase;
use std::sync::Arc;

#[test]
fn a_row_lock_that_was_granted_to_a_cancelled_wait_is_free() {
    let world = World::new(1, Manners::orderly());
    let cluster = Cluster::start(world.clone(), &[SiteId(1)], Box::new(TwoPhase)).expect("a site");
    let begin =
        || cluster.gateway().begin(Isolation::ReadCommitted, Arc::new(CancelToken::default()));
    let (mut first, mut second, mut third) = (begin(), begin(), begin());
    let (table, key) = (TableId(1), Key::int(5));
    let lock = first.lock(table, &key, LockMode::Exclusive, true).now_or_never();
    lock.expect("the lock is free").expect("the lock is free");
    {
        let mut waits = Box::pin(second.lock(table, &key, LockMode::Exclusive, true));
        assert!((&mut waits).now_or_never().is_none(), "it waits");
        drop(first);
        // The second transaction has the lock now, and is not polled again.
    }
    let lock = third.lock(table, &key, LockMode::Exclusive, true).now_or_never();
    lock.expect("the lock is free").expect("the lock is free");
    drop((second, third));
    world.end();
}
