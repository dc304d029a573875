//! The systems that are compared: a strategy, and the placement it begins with.
//!
//! | system | strategy | masters at first | replicas at first |
//! | --- | --- | --- | --- |
//! | learned | the autopilot, which begins with an empty model | anywhere | none |
//! | morphosys | the same as the paper prints it: necessary changes first, piggybacking, nothing over several sites | anywhere | none |
//! | on-demand | the necessary changes | anywhere | none |
//! | static | refuses what no site can run | by range | none |
//! | static-2pc | commits it over several sites | by range | none |
//! | serial | the same, on serial executors, as VoltDB has them | by range | none |
//! | adr | the same, and replicas where reads come from | by range | none |
//! | clay | commits over several sites, and what Clay moves every 10 s | by range | none |
//! | single-master | all updates at one site | the first site | everywhere |
//! | multi-master | commits over several sites | by range | everywhere |
//! | dynamast | moves masters together | by range | everywhere |
//!
//! By range is the placement of somebody who knows the workload: neighbouring keys belong together in
//! all workloads here (near keys, warehouses, users), and each site gets as many. Who knows the workload
//! also has tables that are only read at every site.

use isomer_design::{Placement, SiteId};
use isomer_plan::learned::Tuning;
use isomer_plan::strategy::{Adr, Learned, Morphosys, PeriodicClay, Replicated};
use isomer_sim::world::World;
use isomer_strategy::{OnDemand, Static, Strategy, TwoPhase};
use std::sync::Arc;

/// One of the systems. See the [module documentation](self).
#[derive(Clone, Copy)]
pub struct System {
    /// Its name.
    pub name: &'static str,
    /// What decides, from transaction to transaction.
    pub strategy: fn() -> Decider,
    /// Where masters are at first.
    pub masters: Masters,
    /// Every site has a replica of everything at first.
    pub replicated: bool,
    /// Its placement is made by somebody who knows the workload: tables that are only read are
    /// everywhere.
    pub knows: bool,
    /// Each core has partitions of its own and runs one transaction after the other on them; one that
    /// touches several cores' partitions holds them all from its beginning to its end.
    pub serial: bool,
    /// It has so many times the experiment's warm-up: Clay, which plans every 10 s, has more; who learns nothing has
    /// less, and so has who has learned within seconds what it ever will.
    pub warm_ups: f64,
}

/// What decides in a run.
pub struct Decider {
    /// The strategy, for the router.
    pub strategy: Box<dyn Strategy>,
    /// The same, if it is the autopilot: to be asked what it has learned.
    pub learned: Option<Arc<Learned>>,
}

/// Where masters are at first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Masters {
    /// Each site gets one part of each table: what a planner that knows the workload would choose, for
    /// workloads whose neighbouring keys belong together.
    ByRange,
    /// Anywhere.
    Random,
    /// All at the first site.
    First,
}

/// All systems.
pub const SYSTEMS: [System; 11] = [
    System { masters: Masters::Random, knows: false, ..system("learned", learned) },
    System {
        masters: Masters::Random,
        knows: false,
        ..system("morphosys", || decider(Morphosys::default()))
    },
    System {
        masters: Masters::Random,
        knows: false,
        warm_ups: 0.4,
        ..system("on-demand", || decider(OnDemand::default()))
    },
    fixed("static", || decider(Static)),
    fixed("static-2pc", || decider(TwoPhase)),
    System { serial: true, ..fixed("serial", || decider(TwoPhase)) },
    System { warm_ups: 0.4, ..system("adr", || decider(Adr::default())) },
    System { warm_ups: 2.1, ..system("clay", || decider(PeriodicClay::default())) },
    System {
        masters: Masters::First,
        replicated: true,
        ..fixed("single-master", || decider(Replicated::single_master(SiteId(1))))
    },
    System { replicated: true, ..fixed("multi-master", || decider(Replicated::multi_master())) },
    System {
        replicated: true,
        warm_ups: 0.4,
        ..system("dynamast", || decider(Replicated::dynamast()))
    },
];

fn learned() -> Decider {
    tuned(|_| {})
}

/// The autopilot with another tuning.
pub(crate) fn tuned(tune: impl FnOnce(&mut Tuning)) -> Decider {
    let mut tuning = Tuning::default();
    tune(&mut tuning);
    let learned = Arc::new(Learned::new(tuning));
    Decider { strategy: Box::new(learned.clone()), learned: Some(learned) }
}

fn decider(strategy: impl Strategy + 'static) -> Decider {
    Decider { strategy: Box::new(strategy), learned: None }
}

/// A system that begins with what somebody placed who knows the workload.
const fn system(name: &'static str, strategy: fn() -> Decider) -> System {
    let masters = Masters::ByRange;
    System { name, strategy, masters, replicated: false, knows: true, serial: false, warm_ups: 1.0 }
}

/// A system that changes nothing.
const fn fixed(name: &'static str, strategy: fn() -> Decider) -> System {
    System { warm_ups: 0.25, ..system(name, strategy) }
}

impl System {
    /// The autopilot.
    pub(crate) fn autopilot() -> System {
        SYSTEMS[0]
    }

    /// The system of a name.
    ///
    /// # Errors
    /// In words, which systems there are.
    pub fn named(name: &str) -> Result<System, String> {
        let found = SYSTEMS.iter().find(|system| system.name == name);
        found.copied().ok_or_else(|| {
            let known = SYSTEMS.map(|system| system.name).join(", ");
            format!("there is no system `{name}`; there are: {known}")
        })
    }

    /// Where partition `at` of the `of` partitions of a table begins.
    pub(crate) fn place(
        &self,
        at: usize,
        of: usize,
        sites: u16,
        world: &World,
        everywhere: bool,
    ) -> Placement {
        let count = u64::from(sites);
        let number = match self.masters {
            Masters::ByRange => at as u64 * count / of as u64,
            Masters::Random => world.draw(0..count),
            Masters::First => 0,
        };
        let master = SiteId(number as u16 + 1);
        let all = (1..=sites).map(SiteId).filter(|site| *site != master);
        Placement::new(master, all.filter(|_| self.replicated || everywhere))
    }
}
