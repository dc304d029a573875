//! The process with the order: its fused rows, and its failures.
//!
//! Each client is at a gateway of its own site's process, as far as fused rows are concerned: rows
//! move to where they are written. All share one gateway otherwise.
//!
//! ```text
//!   sites apart       the process with the order fails: clients and gateway end with it, and another
//!                     process opens the order; sites go on, and fail by themselves
//!   sites together    all of it fails at one time
//! ```

use super::{Run, statements};
use isomer_cluster::FusedTable;
use isomer_design::SiteId;
use std::rc::Rc;

/// The most attempts to prepare the fused table.
const PREPARED_MAX: usize = 100;
const MS: u64 = 1_000_000;

/// Makes the tables ordered, once they have rows.
pub(crate) fn load(run: &Rc<Run>) -> Result<(), String> {
    let Some(ordered) = run.draw.ordered else { return Ok(()) };
    let loader = run.clone();
    super::settle::await_it(run, "the order", super::settle::LOAD_NS, async move {
        let cluster = &loader.cluster;
        cluster.begin_order(!ordered.together, ordered.is_lax).await?;
        if ordered.fused == 0 {
            return Ok(());
        }
        let conductor = cluster.conductor();
        for _ in 0..PREPARED_MAX {
            FusedTable(&conductor).prepare().await.map_err(|error| error.to_string())?;
        }
        FusedTable(&conductor).set_limit(ordered.fused);
        Ok(())
    })
}

/// Starts the care for fused rows, and the failures of the process with the order.
pub(crate) fn start(run: &Rc<Run>) {
    look_after(run);
    let cut = run.draw.ordered.map_or(0, |ordered| ordered.fail_every_ns);
    if cut > 0 {
        let run = run.clone();
        run.world().clone().spawn("the order's nemesis".into(), async move { fail(&run).await });
    }
}

/// Starts a task for each process, which brings rows home that are over the limit.
fn look_after(run: &Rc<Run>) {
    let Some(most) = run.draw.ordered.map(|it| it.fused).filter(|most| *most > 0) else { return };
    for site in (1..=run.draw.sites).map(SiteId) {
        let looking = run.clone();
        let task = run.world().spawn(format!("fused rows of {site}"), async move {
            let world = looking.world();
            while !looking.stopping.get() {
                world.sleep(world.draw(1..20 * MS)).await;
                let conductor = looking.cluster.conductor();
                if world.chance(50) {
                    let limit = world.draw(0..most as u64 + 1) as usize;
                    FusedTable(&conductor).set_limit(limit);
                }
                // The next look repeats what fails.
                let _ = FusedTable(&conductor).look_after().await;
            }
        });
        run.world().set_home(task, site);
        run.of_front.borrow_mut().push(task);
    }
}

async fn fail(run: &Rc<Run>) {
    let (world, ordered) = (run.world(), run.draw.ordered.expect("there is an order"));
    while !run.stopping.get() {
        world.doing(|| "waits for a good moment".into());
        world.sleep(world.draw(1..ordered.fail_every_ns)).await;
        if run.stopping.get() {
            return;
        }
        run.is_down.set(true);
        let ended = run.clients.take().into_iter().chain(run.of_front.take());
        ended.for_each(|task| world.kill(task));
        run.cluster.crash_order();
        if ordered.together {
            world.sites().into_iter().for_each(|site| world.crash(site));
        }
        world.sleep(world.draw(1..60 * MS)).await;
        if ordered.together {
            world.sites().into_iter().for_each(|site| world.start(site));
        }
        run.cluster.succeed(run.draw.strategy());
        world.doing(|| "opens the order".into());
        if let Err(why) = run.cluster.reopen_order(!ordered.together).await {
            panic!("the order cannot be opened: {why}");
        }
        FusedTable(&run.cluster.conductor()).set_limit(ordered.fused);
        if !run.stopping.get() {
            run.clients.borrow_mut().extend(statements::start(run));
            look_after(run);
            super::operator::of_conductor(run);
        }
        run.is_down.set(false);
    }
}
