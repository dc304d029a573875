//! Clients that send statements: open transactions at all levels of isolation.

use super::Run;
use crate::statements::Statements;
use crate::world::TaskId;
use isomer_cluster::open::{CancelReason, CancelToken, Isolation, LockMode, OpenError};
use isomer_design::{Key, KeyRange, SiteId, TableId};
use std::rc::Rc;
use std::sync::Arc;

/// The interval between renewals of the lease.
const RENEW_NS: u64 = 5_000_000;
/// The latest time at which a transaction is cancelled, after its begin.
const PATIENCE_NS: u64 = 200_000_000;

/// The number of contended rows, if the run has any.
const HOT_ROWS: u64 = 3;

/// Starts all clients, and the renewal of the lease on history for them.
pub(crate) fn start(run: &Rc<Run>) -> Vec<TaskId> {
    if run.draw.statements == 0 && !run.draw.reshards {
        return Vec::new();
    }
    let renewing = run.clone();
    let renews = run.world().spawn("the gateway".into(), async move {
        while !renewing.stopping.get() {
            renewing.cluster.gateway().renew().await;
            renewing.world().sleep(RENEW_NS).await;
        }
    });
    run.of_front.borrow_mut().push(renews);
    let client = |number| {
        let client = run.clone();
        let name = format!("statements {number}");
        let task = run.world().spawn(name, async move { go(&client).await });
        if run.draw.ordered.is_some() {
            run.world().set_home(task, SiteId((number % u64::from(run.draw.sites)) as u16 + 1));
        }
        task
    };
    (1..=run.draw.statements).map(client).collect()
}

async fn go(run: &Rc<Run>) {
    let world = run.world();
    while !run.stopping.get() && (run.cluster.begun() as u64) < run.steps {
        let isolation = match world.draw(0..2) {
            _ if run.draw.serializable => Isolation::Serializable,
            0 => Isolation::ReadCommitted,
            _ => Isolation::RepeatableRead,
        };
        let cancel = Arc::new(CancelToken::default());
        if world.chance(run.draw.cancel_per_mille) {
            let cancel = cancel.clone();
            world.after(world.draw(0..PATIENCE_NS), move || cancel.end(CancelReason::Asked));
        }
        let mut open = Statements::begin(&run.cluster, isolation, cancel);
        match statements(run, &mut open).await {
            Ok(()) if world.chance(100) => open.roll_back("the client thought better of it"),
            Ok(()) => {
                world.doing(|| "commits".into());
                if let Ok(Some(ran)) = open.commit().await {
                    run.changes.set(run.changes.get() + ran.changes as u64);
                }
            }
            Err(error) => {
                world.note(format_args!("a statement fails: {error}"));
                open.roll_back(&error.to_string());
            }
        }
        world.doing(|| "thinks".into());
        world.sleep(world.draw(0..3_000_000)).await;
    }
}

async fn statements(run: &Run, open: &mut Statements) -> Result<(), OpenError> {
    let world = run.world();
    for _ in 0..world.draw(1..7) {
        open.next();
        world.doing(|| "is in a statement".into());
        match world.draw(0..10) {
            0 | 1 => {
                for _ in 0..world.draw(1..4) {
                    let (table, key) = place(run);
                    open.get(table, &key).await?;
                }
            }
            2 | 3 => {
                let (table, key) = place(run);
                let from = key.to_ints().map_or(0, |ints| ints[0]);
                let to = from + 1 + world.draw(0..run.draw.keys) as i64;
                open.scan(table, &KeyRange::ints(from, to)).await?;
            }
            4 => {
                let (table, key) = place(run);
                open.lock(table, &key, LockMode::Shared).await?;
            }
            5 => {
                let (table, key) = place(run);
                open.put(table, &key, None).await?;
            }
            6 => open.savepoint(),
            7 if open.savepoints() > 0 => {
                open.back_to(world.draw(0..open.savepoints() as u64) as usize);
            }
            _ => {
                let (table, key) = place(run);
                open.put(table, &key, Some(run.cluster.fresh_value())).await?;
                open.get(table, &key).await?;
            }
        }
        world.sleep(world.draw(0..2_000_000)).await;
    }
    Ok(())
}

fn place(run: &Run) -> (TableId, Key) {
    let world = run.world();
    if world.chance(run.draw.hot_per_mille) {
        return (TableId(1), Key::int(world.draw(0..HOT_ROWS) as i64));
    }
    let table = TableId(world.draw(1..u64::from(run.draw.tables) + 1) as u32);
    (table, Key::int(world.draw(0..run.draw.keys) as i64))
}
