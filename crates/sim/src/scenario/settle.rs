//! Loading, healing, settling, and reading the final state.

use super::Run;
use super::nemesis::start_again;
use super::operator::CONDUCTOR;
use crate::cluster::{Client, Recorder};
use crate::history::History;
use crate::order;
use crate::world::Manners;
use isomer_design::{Footprint, Key};
use std::cell::RefCell;
use std::rc::Rc;

/// Loading takes less than this.
pub(crate) const LOAD_NS: u64 = 20_000_000_000;
/// The longest duration of the breaking phase; a long run multiplies it.
pub(crate) const BREAK_NS: u64 = 5_000_000_000;
/// After healing, everything in progress finishes within this time.
const FINISH_NS: u64 = 20_000_000_000;
/// Then every replica reaches its master within this time.
const SETTLE_NS: u64 = 5_000_000_000;

/// Creates the tables, and fills three quarters of them.
pub(crate) fn load(run: &Rc<Run>) -> Result<(), String> {
    let loader = run.clone();
    await_it(run, "the loader", LOAD_NS, async move {
        let world = loader.world();
        let mut client = Client::new(0);
        while world.sites().into_iter().any(|site| world.site(site).is_none()) {
            world.sleep(1_000_000).await; // Until nodes have opened them.
        }
        for id in loader.draw.table_ids() {
            let (schema, partitions) = loader.draw.table(world, id);
            loader.cluster.create_table(id, schema, partitions).await?;
            let backups = loader.cluster.set_backups(id, loader.draw.backups);
            backups.await.map_err(|error| error.to_string())?;
            for key in (0..loader.draw.keys as i64).map(Key::int) {
                if world.chance(250) {
                    continue;
                }
                let value = loader.cluster.fresh_value();
                let footprint = Footprint::new().write(id, key.clone());
                let mut insert = |txn: &mut Recorder<'_, '_>| txn.insert(id, &key, value);
                let ran = loader.cluster.run(&mut client, &footprint, &mut insert).await;
                ran.map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    })
}

/// Heals all faults, begins nothing new, and waits until everything in progress has finished.
pub(crate) fn finish(run: &Rc<Run>) -> Result<(), String> {
    let world = run.world();
    world.note(format_args!("heal"));
    run.stopping.set(true);
    let may_return = run.draw.lose_every_ns > 0;
    if !may_return {
        run.cluster.conductor().close();
    }
    world.set_manners(Manners::orderly());
    world.let_all_go();
    world.heal_nodes();
    for site in world.sites() {
        if world.site(site).is_some_and(|site| site.failure().is_some()) {
            world.crash(site);
        }
        start_again(run, site);
    }
    if may_return {
        // Before it is closed, the conductor tells sites that return how many backups tables have.
        let is_conductor = |task: &String| CONDUCTOR.iter().any(|name| task.starts_with(name));
        world.run_for(FINISH_NS, || world.foreground().iter().all(is_conductor));
        run.cluster.conductor().close();
    }
    let is_of_order = |task: &String| order::TASKS.iter().any(|name| task.starts_with(name));
    world.run_for(FINISH_NS, || world.foreground().iter().all(is_of_order));
    run.cluster.close_order();
    let is_disk = |task: &String| task.starts_with(order::TASKS[2]);
    world.run_for(FINISH_NS, || world.foreground().iter().all(is_disk));
    run.cluster.end_order();
    match &world.foreground()[..] {
        [] => Ok(()),
        waiting => {
            let why = run.cluster.why_not_settled().unwrap_or("all copies are up to date".into());
            Err(format!("not finished: {}; and {why}", waiting.join("; ")))
        }
    }
}

/// Waits until all replicas have reached their masters.
pub(crate) fn settle(run: &Rc<Run>) -> Result<(), String> {
    let world = run.world();
    // The check is expensive, so it is repeated only 100 times.
    for _ in 0..100 {
        if run.cluster.why_not_settled().is_none() {
            return Ok(());
        }
        world.run_for(SETTLE_NS / 100, || false);
    }
    match run.cluster.why_not_settled() {
        None => Ok(()),
        Some(why) => Err(format!("not settled: {why}")),
    }
}

/// Reads every copy, and assembles the history.
pub(crate) fn gather(run: &Rc<Run>) -> Result<History, String> {
    let reader = run.clone();
    await_it(run, "the reader", FINISH_NS, async move { reader.cluster.gather().await })
}

/// Runs the world until a task is done.
pub(super) fn await_it<T: 'static>(
    run: &Rc<Run>,
    name: &str,
    ns: u64,
    future: impl Future<Output = Result<T, String>> + 'static,
) -> Result<T, String> {
    let world = run.world();
    let result = Rc::new(RefCell::new(None));
    let slot = result.clone();
    let task = world.spawn(name.into(), async move {
        let done = future.await;
        *slot.borrow_mut() = Some(done);
    });
    world.run_for(ns, || world.is_done(task));
    let done = result.borrow_mut().take();
    done.unwrap_or_else(|| {
        Err(format!("not finished: {}", world.what_is_done_by(task).unwrap_or_default()))
    })
}
