//! The nemesis: kills sites, breaks disks, and stalls disks, links and requests.

use super::Run;
use crate::world::{Gate, TaskId};
use isomer_cluster::FailedOver;
use isomer_design::{KeyRange, SiteId};
use std::cell::Cell;
use std::rc::Rc;

/// Starts the nemeses that the run has drawn.
pub(crate) fn start(run: &Rc<Run>) {
    let (killer, staller) = (run.clone(), run.clone());
    if run.draw.crash_every_ns > 0 {
        run.world().spawn("killer".into(), async move { kill(&killer).await });
    }
    if run.draw.break_every_ns > 0 {
        let breaker = run.clone();
        run.world().spawn("breaker".into(), async move { break_disks(&breaker).await });
    }
    if run.draw.lose_every_ns > 0 {
        let loser = run.clone();
        run.world().spawn("loser".into(), async move { lose(&loser).await });
    }
    if run.draw.stall_every_ns > 0 {
        run.world().spawn("staller".into(), async move { stall(&staller).await });
    }
}

/// Kills a site, and restarts it; sometimes two at once, or with a disk that broke before. In some
/// runs it is always the same site, which is hardly up when it is killed again.
async fn kill(run: &Rc<Run>) {
    let world = run.world();
    while !run.stopping.get() {
        world.doing(|| "waits for a good moment".into());
        world.sleep(world.draw(1..run.draw.crash_every_ns)).await;
        if run.stopping.get() {
            return;
        }
        let restless = Some(run.draw.restless).filter(|site| *site != 0).map(SiteId);
        let (one, other) = (restless.unwrap_or_else(|| site(run)), site(run));
        let both = restless.is_none() && world.chance(150);
        if world.chance(run.draw.break_disk_per_mille) {
            world.break_disk(one);
            world.sleep(world.draw(1..30_000_000)).await;
        }
        world.crash(one);
        if both {
            world.crash(other);
        }
        world.sleep(world.draw(1..if restless.is_some() { 20_000_000 } else { 60_000_000 })).await;
        start_again(run, one);
        start_again(run, other);
    }
}

/// Restarts a site that was killed. If other sites may have taken over, also lets it rejoin.
pub(super) fn start_again(run: &Rc<Run>, site: SiteId) {
    let world = run.world();
    let is_down = world.site(site).is_none();
    world.start(site);
    world.wait_for_again(site);
    if is_down && run.draw.lose_every_ns > 0 {
        spawn_return(run, site);
    }
}

/// The readmission of a node's site, which goes on until the site is a member.
pub(super) struct Return {
    task: TaskId,
    /// The site was lost or started once more.
    again: Rc<Cell<bool>>,
}

/// Readmits a site. If the site goes down meanwhile, the nemesis that restarts it readmits it. A
/// node restarts its sites by itself, so one task goes on until its site is a member.
pub(super) fn spawn_return(run: &Rc<Run>, site: SiteId) -> TaskId {
    let (world, returned) = (run.world(), run.clone());
    let name = format!("return of {site}");
    if run.draw.nodes.is_empty() {
        return world.spawn(name, async move {
            let is_there = || returned.world().site(site).is_some();
            readmit(&returned, site, is_there).await;
        });
    }
    let mut returns = run.returns.borrow_mut();
    if let Some(Return { task, again }) = returns.get(&site).filter(|it| !world.is_done(it.task)) {
        again.set(true);
        return *task;
    }
    let again = Rc::new(Cell::new(true));
    let is_again = again.clone();
    let task = world.spawn(name, async move {
        while is_again.replace(false) {
            readmit(&returned, site, || true).await;
        }
    });
    returns.insert(site, Return { task, again });
    task
}

/// Readmits a site, retrying while that may succeed.
async fn readmit(run: &Run, site: SiteId, may_succeed: impl Fn() -> bool) {
    while run.cluster.conductor().readmit(site).await.is_err() && may_succeed() {
        run.world().sleep(10_000_000).await;
    }
}

/// Breaks a disk, and lets its site continue without it, until the site restarts.
async fn break_disks(run: &Rc<Run>) {
    let world = run.world();
    while !run.stopping.get() {
        world.doing(|| "waits for a good moment".into());
        world.sleep(world.draw(1..run.draw.break_every_ns)).await;
        if run.stopping.get() {
            return;
        }
        let site = site(run);
        world.break_disk(site);
        world.sleep(world.draw(1..600_000_000)).await;
        world.crash(site);
        world.sleep(world.draw(1..60_000_000)).await;
        start_again(run, site);
    }
}

/// Kills a process, and lets other sites take over; restarts it after some time.
async fn lose(run: &Rc<Run>) {
    let world = run.world();
    while !run.stopping.get() {
        world.doing(|| "waits for a good moment".into());
        world.sleep(world.draw(1..run.draw.lose_every_ns)).await;
        if run.stopping.get() {
            return;
        }
        let (one, domains) = (site(run), world.domains());
        let mut lost = world.sites();
        lost.retain(|site| domains.share(*site, one));
        lost.iter().for_each(|site| world.crash(*site));
        world.sleep(world.draw(1..60_000_000)).await;
        lost.iter().for_each(|site| world.give_up(*site));
        let passed_by: Vec<TaskId> = lost.iter().map(|site| pass_by(run, *site)).collect();
        world.sleep(world.draw(1..400_000_000)).await;
        lost.iter().for_each(|site| start_again(run, *site));
        world.doing(|| format!("waits until {lost:?} are passed by"));
        while !passed_by.iter().all(|task| world.is_done(*task)) {
            world.sleep(5_000_000).await;
        }
        // They may have been up all the time.
        world.doing(|| format!("waits until {lost:?} are readmitted"));
        let returns: Vec<TaskId> = lost.iter().map(|site| spawn_return(run, *site)).collect();
        while !returns.iter().all(|task| world.is_done(*task)) {
            world.sleep(5_000_000).await;
        }
    }
}

/// Lets other sites take over from a site.
fn pass_by(run: &Rc<Run>, site: SiteId) -> TaskId {
    let run = run.clone();
    run.world().clone().spawn(format!("failover of {site}"), async move {
        let world = run.world();
        let told = |over: &FailedOver| world.note(format_args!("{over}"));
        told(&run.cluster.conductor().pass_by(site, &told).await);
        check_let_go(&run, site);
    })
}

/// While a site that was failed over is down, no reachable master may count a backup there, because
/// commits would wait for it.
fn check_let_go(run: &Run, site: SiteId) {
    let (world, design) = (run.world(), run.cluster.conductor().design());
    if !world.is_given_up(site) {
        return; // It has restarted.
    }
    for (table, _) in design.tables().filter(|(_, table)| table.backups().count > 0) {
        for (range, placement) in design.partitions_in(table, &KeyRange::all()) {
            let waits = placement.replicas.contains(site) && !world.is_given_up(placement.master);
            assert!(!waits, "{site} was passed by, and {table}{range} has a backup there");
        }
    }
}

/// Holds a gate for a while.
async fn stall(run: &Run) {
    let world = run.world();
    while !run.stopping.get() {
        world.doing(|| "waits for a good moment".into());
        world.sleep(world.draw(1..run.draw.stall_every_ns)).await;
        let gate = match world.draw(0..6) {
            0 => Gate::Disk(site(run)),
            4 => Gate::Publish(site(run)),
            5 => Gate::Cut(site(run)),
            1 => Gate::Requests(site(run)),
            2 => Gate::Answers(site(run)),
            _ => Gate::Messages(site(run), site(run)),
        };
        world.hold(gate);
        world.sleep(world.draw(1..60_000_000)).await;
        world.let_go(gate);
    }
}

fn site(run: &Run) -> SiteId {
    SiteId(run.world().draw(1..u64::from(run.draw.sites) + 1) as u16)
}
