//! Faults of nodes. Processes are killed, stopped, paused, cut off, and replaced while they still
//! run; brokers stop answering, and leaders change.

use super::Run;
use super::nemesis::spawn_return;
use crate::world::{LEASE_NS, NodeId};
use isomer_design::SiteId;
use std::rc::Rc;

/// The number of concurrent faults.
const AT_ONCE: usize = 2;

/// Starts the faults, if there are nodes.
pub(crate) fn start(run: &Rc<Run>) {
    if run.draw.lose_every_ns > 0 {
        let returned = Rc::downgrade(run);
        run.world().set_on_return(move |site| {
            if let Some(run) = returned.upgrade() {
                spawn_return(&run, site);
            }
        });
    }
    if run.draw.trouble_every_ns == 0 {
        return;
    }
    for number in 1..=AT_ONCE {
        let run = run.clone();
        run.world()
            .clone()
            .spawn(format!("trouble {number}"), async move { make_trouble(&run).await });
    }
}

async fn make_trouble(run: &Run) {
    let world = run.world();
    while !run.stopping.get() {
        world.doing(|| "waits for a good moment".into());
        world.sleep(world.draw(1..run.draw.trouble_every_ns)).await;
        if run.stopping.get() {
            return;
        }
        let node = world.draw(1..run.draw.nodes.len() as u64 + 1) as NodeId;
        match world.draw(0..12) {
            0 => {
                world.kill_process(node);
                start_later(run, node).await;
            }
            1 => {
                world.stop_process(node);
                start_later(run, node).await;
            }
            2 => world.start_process(node),
            3..5 => pause(run, node).await,
            5..8 => cut_off(run, node).await,
            8 => silence(run).await,
            _ => lose_brokers(run, node).await,
        }
    }
}

async fn start_later(run: &Run, node: NodeId) {
    let world = run.world();
    world.sleep(world.draw(1..2 * LEASE_NS)).await;
    world.start_node(node);
}

/// Pauses a process, often for longer than its lease; often its sites are taken meanwhile.
async fn pause(run: &Run, node: NodeId) {
    let world = run.world();
    let Some(process) = world.process_of(node) else { return };
    world.pause_process(process);
    replace_by_chance(run, node).await;
    world.resume_process(process);
}

/// The same with a process that cannot reach the brokers.
async fn cut_off(run: &Run, node: NodeId) {
    let world = run.world();
    let Some(process) = world.process_of(node) else { return };
    world.set_cut_off(process, true);
    replace_by_chance(run, node).await;
    world.set_cut_off(process, false);
}

async fn replace_by_chance(run: &Run, node: NodeId) {
    let world = run.world();
    world.sleep(world.draw(1..2 * LEASE_NS)).await;
    if world.chance(750) && !run.stopping.get() {
        world.start_process(node);
        world.sleep(world.draw(1..6 * LEASE_NS)).await;
    }
}

/// Changes leaders; by chance a node fails together with the former leaders.
async fn lose_brokers(run: &Run, node: NodeId) {
    let world = run.world();
    let is_killed = world.chance(300);
    if is_killed {
        world.kill_process(node);
    }
    some_logs(run).into_iter().for_each(|site| world.change_leader(site));
    if is_killed {
        start_later(run, node).await;
    }
}

/// No broker answers for a while.
async fn silence(run: &Run) {
    let world = run.world();
    let sites = some_logs(run);
    sites.iter().for_each(|site| world.set_available(*site, false));
    world.sleep(world.draw(1..3 * LEASE_NS)).await;
    sites.iter().for_each(|site| world.set_available(*site, true));
}

/// One site's log, or all of them.
fn some_logs(run: &Run) -> Vec<SiteId> {
    let world = run.world();
    if world.chance(300) {
        return world.sites();
    }
    vec![SiteId(world.draw(1..u64::from(run.draw.sites) + 1) as u16)]
}
