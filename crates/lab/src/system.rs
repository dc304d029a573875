//! The compared systems: each has a strategy and an initial placement.
//!
//! | system | strategy | initial masters | initial replicas |
//! | --- | --- | --- | --- |
//! | learned | the autopilot, with an empty model | random | none |
//! | morphosys | the autopilot as printed in the paper (see below) | random | none |
//! | on-demand | only the necessary changes | random | none |
//! | static | refuses what no site can run | by range | none |
//! | static-2pc | two-phase commit for what no site can run | by range | none |
//! | serial | like static-2pc, with serial executors as in VoltDB | by range | none |
//! | adr | like static-2pc, and adds replicas where reads come from | by range | none |
//! | clay | like static-2pc, and moves what Clay plans every 10 s | by range | none |
//! | single-master | all updates at one site | the first site | everywhere |
//! | multi-master | two-phase commit for what no site can run | by range | everywhere |
//! | dynamast | moves masters together | by range | everywhere |
//!
//! `morphosys` makes the necessary changes first, piggybacks others, and never runs a transaction
//! at several sites.
//!
//! The placement by range assumes knowledge of the workload. In all workloads here neighbouring
//! keys belong together (near keys, warehouses, users), and each site gets an equal share. A
//! placement with this knowledge also replicates read-only tables everywhere.

use isomer_design::{Placement, SiteId};
use isomer_plan::learned::Tuning;
use isomer_plan::strategy::{Adr, Learned, Morphosys, PeriodicClay, Replicated};
use isomer_sim::world::World;
use isomer_strategy::{OnDemand, Static, Strategy, TwoPhase};
use std::sync::Arc;

/// A system. See the [module documentation](self).
#[derive(Clone, Copy)]
pub struct System {
    /// Its name.
    pub name: &'static str,
    /// Creates its strategy.
    pub strategy: fn() -> Decider,
    /// The initial masters.
    pub masters: Masters,
    /// True if every site initially has a replica of every partition.
    pub replicated: bool,
    /// True if the initial placement is made with knowledge of the workload, so that read-only
    /// tables are replicated everywhere.
    pub knows: bool,
    /// True if each core owns some partitions and runs transactions on them serially. A transaction
    /// on the partitions of several cores holds all these cores from beginning to end.
    pub serial: bool,
    /// The factor on the experiment's warm-up. Clay plans only every 10 s, so it gets more time.
    /// Systems that learn nothing, or finish learning within seconds, get less.
    pub warm_ups: f64,
}

/// The strategy of a run.
pub struct Decider {
    /// The strategy for the router.
    pub strategy: Box<dyn Strategy>,
    /// The same strategy if it is the autopilot, so that its model can be examined.
    pub learned: Option<Arc<Learned>>,
}

/// The initial placement of masters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Masters {
    /// Each site gets a contiguous part of each table. A planner with knowledge of the workload
    /// would choose this if neighbouring keys belong together.
    ByRange,
    /// Each partition gets a random site.
    Random,
    /// The first site masters all partitions.
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

/// The autopilot with a different tuning.
pub(crate) fn tuned(tune: impl FnOnce(&mut Tuning)) -> Decider {
    let mut tuning = Tuning::default();
    tune(&mut tuning);
    let learned = Arc::new(Learned::new(tuning));
    Decider { strategy: Box::new(learned.clone()), learned: Some(learned) }
}

fn decider(strategy: impl Strategy + 'static) -> Decider {
    Decider { strategy: Box::new(strategy), learned: None }
}

/// A system with an initial placement made with knowledge of the workload.
const fn system(name: &'static str, strategy: fn() -> Decider) -> System {
    let masters = Masters::ByRange;
    System { name, strategy, masters, replicated: false, knows: true, serial: false, warm_ups: 1.0 }
}

/// A system that never changes the design.
const fn fixed(name: &'static str, strategy: fn() -> Decider) -> System {
    System { warm_ups: 0.25, ..system(name, strategy) }
}

impl System {
    /// The autopilot.
    pub(crate) fn autopilot() -> System {
        SYSTEMS[0]
    }

    /// Returns the system with a name.
    ///
    /// # Errors
    /// A message that lists the known systems.
    pub fn named(name: &str) -> Result<System, String> {
        let found = SYSTEMS.iter().find(|system| system.name == name);
        found.copied().ok_or_else(|| {
            let known = SYSTEMS.map(|system| system.name).join(", ");
            format!("there is no system `{name}`; there are: {known}")
        })
    }

    /// The initial placement of partition `at` out of the `of` partitions of a table.
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
