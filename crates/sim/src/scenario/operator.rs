//! Operators: change the design at random while transactions run.

use super::Run;
use crate::plant::Plant;
use isomer_cluster::Transport;
use isomer_design::{Change, Design, Key, KeyRange, SiteId, TableId};
use isomer_site::Step;
use std::rc::Rc;

/// The most attempts to draw a change that is possible.
const DRAWS_MAX: usize = 8;
/// The operator splits no table into more partitions than this.
const PARTITIONS_MAX: usize = 12;
/// The tasks that end once the conductor is closed.
pub(super) const CONDUCTOR: [&str; 2] = ["the conductor", "the strategy"];

/// Starts the tasks of the router and the strategy, and the operators, if the run has any.
pub(crate) fn start(run: &Rc<Run>) {
    of_conductor(run);
    if run.draw.change_every_ns == 0 {
        return;
    }
    for number in 1..=2 {
        let operator = run.clone();
        run.world().spawn(format!("operator {number}"), async move { go(&operator).await });
    }
}

/// Starts the tasks of the conductor, which end with its process.
pub(super) fn of_conductor(run: &Rc<Run>) {
    let (tending, thinking) = (run.cluster.conductor(), run.cluster.conductor());
    let tends = async move { tending.run_deferred().await };
    let thinks = async move { thinking.plan().await };
    let tasks = [
        run.world().spawn(CONDUCTOR[0].into(), tends),
        run.world().spawn(CONDUCTOR[1].into(), thinks),
    ];
    run.of_front.borrow_mut().extend(tasks);
}

async fn go(run: &Run) {
    let world = run.world();
    while !run.stopping.get() {
        world.doing(|| "looks at the design".into());
        world.sleep(world.draw(0..run.draw.change_every_ns)).await;
        if world.plant() == Some(Plant::SecondMaster) && world.chance(50) {
            begin_a_second_master(run).await;
        }
        let Some(change) = draw(run) else { continue };
        world.doing(|| format!("asks for {change}"));
        if run.cluster.conductor().change(change, "at random").await.is_ok() {
            run.changes.set(run.changes.get() + 1);
        }
    }
}

fn draw(run: &Run) -> Option<Change> {
    let design = run.cluster.conductor().design();
    let possible = |change: &Change| design.validate(change).is_ok();
    (0..DRAWS_MAX).map(|_| draw_one(run, &design)).find(possible)
}

fn draw_one(run: &Run, design: &Design) -> Change {
    let world = run.world();
    let table = TableId(world.draw(1..u64::from(run.draw.tables) + 1) as u32);
    let at = Key::int(world.draw(0..run.draw.keys) as i64);
    let site = SiteId(world.draw(1..u64::from(run.draw.sites) + 1) as u16);
    let start = design.partition_of(table, &at).map_or(Key::min(), |(range, _)| range.start);
    let starts = |id| {
        design.partitions_in(id, &KeyRange::all()).map(|(range, _)| range.start).collect::<Vec<_>>()
    };
    match world.draw(0..6) {
        0 if starts(table).len() < PARTITIONS_MAX => Change::Split { table, at },
        0 | 1 => Change::Merge { table, at: start },
        2 => Change::AddReplica { table, start, site },
        3 => Change::RemoveReplica { table, start, site },
        _ => Change::Remaster { table, start, to: site },
    }
}

/// The planted bug: a site is told to create partitions of keys that another site masters.
async fn begin_a_second_master(run: &Run) {
    let design = run.cluster.conductor().design();
    let at = Key::int(run.world().draw(0..run.draw.keys) as i64);
    let Some((range, placement)) = design.partition_of(TableId(1), &at) else { return };
    let others = design.sites().iter().filter(|site| !placement.holds(*site));
    for site in others {
        let step = Step::Create(TableId(1), vec![range.clone()]);
        // A site that holds a part of them already refuses.
        let _ = run.cluster.conductor().transport().step(site, step).await;
    }
}
