//! A seeded run: all of its parameters are drawn from the seed.
//!
//! ```text
//!   draw      sites, tables, keys, clients, their mix, the fault profile, which faults
//!   load      tables are created and filled
//!   break     clients run transactions and statements · operators change the design · a nemesis kills, holds
//!   heal      all sites restart, nothing new is begun: everything in progress must finish
//!   settle    every replica must reach its master
//!   check     the recorded history, checker by checker
//! ```
//!
//! Options add nodes with their logs in Kafka, which take sites from each other ([`nodes`]), and a
//! table whose layout changes again and again ([`reorder`]). Or the tables are ordered: the process
//! with the order fails, and rows move between sites ([`mod@order`]).
//!
//! The second half matters, too: a system that waits for ever loses no write. The report names
//! everything that does not finish.

mod client;
mod draw;
mod nemesis;
mod nodes;
mod operator;
mod order;
mod reorder;
mod settle;
mod statements;

use crate::checkers::CHECKERS;
use crate::cluster::Cluster;
use crate::history::{History, Outcome};
use crate::options::SimOptions;
use crate::outcome::{Failure, Summary};
use crate::world::{Manners, TaskId, World};
use draw::Draw;
use isomer_design::SiteId;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The state that the tasks of a run share.
pub(crate) struct Run {
    pub(crate) cluster: Rc<Cluster>,
    pub(crate) draw: Draw,
    pub(crate) steps: u64,
    /// Nothing new is to begin.
    pub(crate) stopping: Cell<bool>,
    pub(crate) changes: Cell<u64>,
    /// The clients.
    pub(crate) clients: RefCell<Vec<TaskId>>,
    /// Other tasks of the process with the conductor.
    pub(crate) of_front: RefCell<Vec<TaskId>>,
    /// That process has failed, and another has not taken its place yet.
    pub(crate) is_down: Cell<bool>,
    /// The table whose layout changes, if there is one.
    pub(crate) orders: OnceCell<reorder::Orders>,
    /// The readmissions of nodes' sites.
    returns: RefCell<BTreeMap<SiteId, nemesis::Return>>,
}

impl Run {
    pub(crate) fn world(&self) -> &Rc<World> {
        &self.cluster.world
    }

    /// The table whose layout changes.
    pub(crate) fn orders(&self) -> &reorder::Orders {
        self.orders.get().expect("it was made at the beginning")
    }
}

/// Runs one seed.
///
/// # Errors
/// [`Failure`]: the broken promise, the violation, and the command that reproduces it.
pub fn run(seed: u64, options: &SimOptions) -> Result<Summary, Failure> {
    let (run, done) = begin(seed, options);
    let judged = judge(seed, options, &run, done);
    run.world().end();
    judged
}

/// Finishes the run, and checks its history.
fn judge(
    seed: u64,
    options: &SimOptions,
    run: &Rc<Run>,
    done: Result<(), String>,
) -> Result<Summary, Failure> {
    let fail = |checker: &'static str, what: String| {
        let world = run.world();
        let lines = world.last_lines();
        Err(Failure { seed, options: *options, checker, what, lines })
    };
    let settled = done.and_then(|()| settle::finish(run)).and_then(|()| settle::settle(run));
    if let Some(words) = run.world().panicked() {
        return fail("no_panic", words);
    }
    let history = match settled.and_then(|()| settle::gather(run)) {
        Ok(history) => history,
        Err(why) => return fail("settles", why),
    };
    for (name, checker) in CHECKERS {
        if let Err(what) = checker(&history) {
            return fail(name, what);
        }
    }
    if let Err(what) = reorder::check(run, &history) {
        return fail("orders_agree", what);
    }
    Ok(summary(seed, run, &history))
}

/// Draws, loads, and breaks.
fn begin(seed: u64, options: &SimOptions) -> (Rc<Run>, Result<(), String>) {
    let world = World::new(seed, Manners::orderly());
    world.keep_lines(options.lines);
    let draw = Draw::of(&world, options);
    let sites: Vec<SiteId> = (1..=draw.sites).map(SiteId).collect();
    world.set_nodes(&draw.nodes);
    world.set_domains(draw.domains.clone());
    let cluster = Cluster::start(world.clone(), &sites, draw.strategy());
    let cluster = cluster.expect("a few numbered sites make a design");
    let steps = options.steps * draw.times;
    let (stopping, changes) = (Cell::new(false), Cell::new(0));
    let (orders, returns) = (OnceCell::new(), RefCell::default());
    let (clients, of_front, is_down) = (RefCell::default(), RefCell::default(), Cell::new(false));
    let run = Run {
        cluster,
        draw,
        steps,
        stopping,
        changes,
        clients,
        of_front,
        is_down,
        orders,
        returns,
    };
    let run = Rc::new(run);
    let loaded = settle::load(&run).and_then(|()| reorder::load(&run));
    let done = loaded.and_then(|()| order::load(&run)).map(|()| {
        world.set_manners(run.draw.manners);
        world.set_plant(options.plant);
        let mut clients = client::start(&run);
        clients.extend(statements::start(&run));
        clients.extend(reorder::start(&run));
        operator::start(&run);
        nemesis::start(&run);
        nodes::start(&run);
        order::start(&run);
        *run.clients.borrow_mut() = clients;
        let most = settle::BREAK_NS * run.draw.times;
        let are_done = || run.clients.borrow().iter().all(|client| world.is_done(*client));
        world.run_for(most, || !run.is_down.get() && are_done());
    });
    (run, done)
}

fn summary(seed: u64, run: &Run, history: &History) -> Summary {
    let count = |wanted: fn(&Outcome) -> bool| {
        history.transactions.iter().filter(|t| wanted(&t.outcome)).count()
    };
    let world = run.world();
    let (switches, restarts) = run.orders.get().map_or((0, 0), reorder::Orders::counts);
    Summary {
        seed,
        sites: world.sites().len(),
        clients: run.draw.clients,
        committed: count(|outcome| matches!(outcome, Outcome::Committed { .. })),
        without_effect: count(|outcome| matches!(outcome, Outcome::Nothing(_))),
        unknown: count(|outcome| *outcome == Outcome::Unknown),
        changes: run.changes.get(),
        switches,
        restarts,
        crashes: world.crashes(),
        taken: world.taken(),
        virtual_ms: world.now().0 / 1_000_000,
        trace_hash: world.trace_hash(),
    }
}
