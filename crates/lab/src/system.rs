//! The systems that are compared: a strategy, and the placement it begins with.
//!
//! | system | strategy | masters at first | replicas at first |
//! | --- | --- | --- | --- |
//! | learned | the autopilot, which begins with an empty model | anywhere | none |
//! | on-demand | the necessary changes | by range | none |
//! | static | refuses what no site can run | by range | none |
//! | static-2pc | commits it over several sites | by range | none |

use isomer_design::{Placement, SiteId};
use isomer_plan::strategy::{Learned, OnDemand, Static, Strategy, TwoPhase};
use isomer_sim::world::World;

/// One of the systems. See the [module documentation](self).
#[derive(Clone, Copy)]
pub struct System {
    /// Its name.
    pub name: &'static str,
    /// What decides, from transaction to transaction.
    pub strategy: fn() -> Box<dyn Strategy>,
    /// Where masters are at first.
    pub masters: Masters,
    /// Every site has a replica of everything at first.
    pub replicated: bool,
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
pub const SYSTEMS: [System; 4] = [
    System {
        name: "learned",
        strategy: || Box::new(Learned::default()),
        masters: Masters::Random,
        replicated: false,
    },
    System {
        name: "on-demand",
        strategy: || Box::new(OnDemand::default()),
        masters: Masters::Random,
        replicated: false,
    },
    System {
        name: "static",
        strategy: || Box::new(Static),
        masters: Masters::ByRange,
        replicated: false,
    },
    System {
        name: "static-2pc",
        strategy: || Box::new(TwoPhase),
        masters: Masters::ByRange,
        replicated: false,
    },
];

impl System {
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
    pub(crate) fn place(&self, at: usize, of: usize, sites: u16, world: &World) -> Placement {
        let count = u64::from(sites);
        let number = match self.masters {
            Masters::ByRange => at as u64 * count / of as u64,
            Masters::Random => world.draw(0..count),
            Masters::First => 0,
        };
        let master = SiteId(number as u16 + 1);
        let all = (1..=sites).map(SiteId).filter(|site| *site != master);
        Placement::new(master, all.filter(|_| self.replicated))
    }
}
