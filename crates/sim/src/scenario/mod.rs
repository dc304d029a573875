//! One seeded run: everything about it is drawn from the seed.
//!
//! ```text
//!   draw      sites, tables, keys, clients, their mix, the network's manners, which faults
//!   load      tables are created and filled
//!   break     clients run transactions · an operator changes the design · a nemesis kills, holds
//!   heal      everything starts again, nothing new is begun: all that was begun must finish
//!   settle    every replica must reach its master
//!   check     the recorded history, checker by checker
//! ```
//!
//! The second half matters as much as the first: a system that waits for ever loses no write. What
//! does not finish is told in words.

mod client;
mod draw;
mod nemesis;
mod operator;
mod settle;

use crate::checkers::CHECKERS;
use crate::cluster::Cluster;
use crate::outcome::{Failure, Summary};
use crate::plant::Plant;
use crate::world::{Manners, World};
use draw::Draw;
use isomer_design::SiteId;
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::str::FromStr;

/// Which faults a run may have. Each run draws which of them it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Faults {
    /// Sites crash and start again.
    pub crashes: bool,
    /// Letters between sites straggle and arrive twice.
    pub network: bool,
    /// Disks, links and requests stand still for a while.
    pub stalls: bool,
}

impl Faults {
    /// All of them.
    pub const ALL: Faults = Faults { crashes: true, network: true, stalls: true };
    /// None of them.
    pub const NONE: Faults = Faults { crashes: false, network: false, stalls: false };
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = [("crashes", self.crashes), ("network", self.network), ("stalls", self.stalls)];
        let names: Vec<&str> = named.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect();
        f.write_str(&if names.is_empty() { "none".to_owned() } else { names.join(",") })
    }
}

impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Faults, String> {
        let mut faults = Faults::NONE;
        for name in text.split(',').filter(|name| !name.is_empty()) {
            match name {
                "all" => faults = Faults::ALL,
                "none" => faults = Faults::NONE,
                "crashes" => faults.crashes = true,
                "network" => faults.network = true,
                "stalls" => faults.stalls = true,
                _ => {
                    return Err(format!(
                        "`{name}` is no fault; there are: crashes, network, stalls, all, none"
                    ));
                }
            }
        }
        Ok(faults)
    }
}

/// What is asked of a run, beside its seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimOptions {
    /// How many transactions are run.
    pub steps: u64,
    /// Which faults there may be.
    pub faults: Faults,
    /// A bug to plant at a border of the world.
    pub plant: Option<Plant>,
}

impl Default for SimOptions {
    fn default() -> SimOptions {
        SimOptions { steps: 250, faults: Faults::ALL, plant: None }
    }
}

/// What the tasks of a run share.
pub(crate) struct Run {
    pub(crate) cluster: Rc<Cluster>,
    pub(crate) draw: Draw,
    pub(crate) steps: u64,
    /// Nothing new is begun any more.
    pub(crate) stopping: Cell<bool>,
    pub(crate) changes: Cell<u64>,
}

impl Run {
    pub(crate) fn world(&self) -> &Rc<World> {
        &self.cluster.world
    }
}

/// Runs one seed.
///
/// # Errors
/// [`Failure`]: which promise was broken, how, and how to see it again.
pub fn run(seed: u64, options: &SimOptions) -> Result<Summary, Failure> {
    let (run, done) = begin(seed, options);
    let judged = judge(seed, options, &run, done);
    run.world().end();
    judged
}

/// Lets the run come to its end, and looks at what happened.
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
    Ok(Summary::of(seed, run, &history))
}

/// Draws, loads, and breaks.
fn begin(seed: u64, options: &SimOptions) -> (Rc<Run>, Result<(), String>) {
    let world = World::new(seed, Manners::orderly());
    let draw = Draw::of(&world, options);
    let sites: Vec<SiteId> = (1..=draw.sites).map(SiteId).collect();
    let cluster = Cluster::start(world.clone(), &sites, draw.strategy());
    let cluster = cluster.expect("a few numbered sites make a design");
    let (steps, stopping, changes) = (options.steps, Cell::new(false), Cell::new(0));
    let run = Rc::new(Run { cluster, draw, steps, stopping, changes });
    let done = settle::load(&run).map(|()| {
        world.set_manners(run.draw.manners);
        world.set_plant(options.plant);
        let clients = client::start(&run);
        operator::start(&run);
        nemesis::start(&run);
        world.run_for(settle::BREAK_NS, || clients.iter().all(|client| world.is_done(*client)));
    });
    (run, done)
}
