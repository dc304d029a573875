//! The planners by name.

use isomer_plan::baseline::{drtmb, estore, metis, optimum, schism};
use isomer_plan::clay;
use isomer_plan::drift;
use isomer_plan::problem::{PlanError, Problem, Proposal};

/// A planner.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Strategy {
    /// Move clumps away from overloaded sites (Clay).
    Clay,
    /// Clay, then each key moves to the site of its co-accessed keys.
    Drift,
    /// Spread hot keys and cold chunks by accesses (E-Store).
    Estore,
    /// Promote backups of hot partitions (DrTM+B).
    Drtmb,
    /// Partition the graph from scratch.
    Metis,
    /// METIS, explained by ranges (Schism).
    Schism,
    /// Move everything from underloaded sites to others (Clay, section 7.3).
    ScaleIn,
    /// The exact optimum, for tiny recordings.
    Optimum,
}

/// Parameters of the planners.
#[derive(Debug, clap::Args)]
pub(crate) struct Knobs {
    /// Clay: expansions without a better clump before it moves.
    #[arg(long, default_value_t = 5)]
    pub(crate) look_ahead: usize,
    /// Clay: sites that may be added.
    #[arg(long, default_value_t = 0)]
    pub(crate) add_sites: usize,
    /// METIS and Schism: imbalance of the parts.
    #[arg(long, default_value_t = 0.1, allow_negative_numbers = true)]
    pub(crate) eta: f64,
    /// E-Store and DrTM+B: the share of keys tracked one by one; Clay with --clumps: the share of
    /// keys that are hot.
    #[arg(long, default_value_t = 0.01, allow_negative_numbers = true)]
    pub(crate) hot_share: f64,
}

impl Knobs {
    fn clay(&self, problem: &Problem<'_>) -> clay::Options {
        clay::Options {
            look_ahead: self.look_ahead,
            sites_added_max: self.add_sites,
            sites_per_server: problem.cost.sites_per_server,
            ..clay::Options::default()
        }
    }

    /// Plans like Clay after moving cooled clumps back home.
    pub(crate) fn plan_compacting(
        &self,
        problem: &Problem<'_>,
        clumps: &mut clay::ClumpIndex,
    ) -> Result<Proposal, PlanError> {
        clay::plan_compacting(problem, &self.clay(problem), clumps, self.hot_share)
    }
}

impl Strategy {
    /// The planners that `compare` shows.
    pub(crate) const COMPARED: [Strategy; 6] = [
        Strategy::Clay,
        Strategy::Drift,
        Strategy::Estore,
        Strategy::Drtmb,
        Strategy::Metis,
        Strategy::Schism,
    ];

    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Strategy::Clay => "clay",
            Strategy::Drift => "drift",
            Strategy::Estore => "estore",
            Strategy::Drtmb => "drtmb",
            Strategy::Metis => "metis",
            Strategy::Schism => "schism",
            Strategy::ScaleIn => "scale-in",
            Strategy::Optimum => "optimum",
        }
    }

    /// Makes a plan for a problem.
    pub(crate) fn plan(self, problem: &Problem<'_>, knobs: &Knobs) -> Result<Proposal, PlanError> {
        let clay = knobs.clay(problem);
        let hot_share = knobs.hot_share;
        match self {
            Strategy::Clay => clay::plan(problem, &clay),
            Strategy::Drift => {
                drift::plan(problem, &drift::Options { clay, ..drift::Options::default() })
            }
            Strategy::Estore => {
                estore::plan(problem, estore::Options { hot_share, ..Default::default() })
            }
            Strategy::Drtmb => {
                drtmb::plan(problem, drtmb::Options { hot_share, ..Default::default() })
            }
            Strategy::Metis => metis::plan(problem, knobs.eta),
            Strategy::Schism => {
                schism::plan(problem, schism::Options { eta: knobs.eta, ..Default::default() })
            }
            Strategy::ScaleIn => clay::scale_in(problem, None),
            Strategy::Optimum => optimum::plan(problem),
        }
    }
}
