//! The placement problem: placements, their cost, and the planners' proposals.
//!
//! ```text
//!   heat graph + placement + cost ──planner──▶ proposal: new placement, moves with reasons,
//!                                                         what was considered and lost
//! ```
//!
//! [`MappedDesign`] turns placements into designs and proposals into plans, and back.
//!
//! Inside the planners a site is a number from 0; people see `s1`, `s2`, … as everywhere.

mod cost;
mod mapped;
mod placement;
mod proposal;
mod rules;

pub(crate) use cost::vertex_load;
pub use cost::{Cost, Loads};
pub(crate) use mapped::{Draft, encode_key, key_type};
pub use mapped::{MappedDesign, MappedError, plan_text};
pub use placement::{Placement, Site, parse_site, site_name};
pub(crate) use proposal::plural;
pub use proposal::{Move, Proposal};
pub use rules::{PlacementRules, Rule, RulesError};

use crate::heat::HeatGraph;
use thiserror::Error;

/// The input of a planner.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    /// The co-accesses of keys.
    pub graph: &'a HeatGraph,
    /// The current placement.
    pub placement: &'a Placement,
    /// The cost of a co-access across sites.
    pub cost: Cost,
    /// The excess of a site's load over the mean that is allowed, as a share (ε of Clay's section
    /// 4).
    pub imbalance: f64,
}

/// Why a planner cannot answer.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A parameter that is no valid share, cost or count.
    #[error("{what} is {value}: {right} is needed")]
    Number {
        /// The name of the parameter.
        what: &'static str,
        /// Its value.
        value: f64,
        /// The right values.
        right: &'static str,
    },
    /// The placement does not fit the graph.
    #[error("the placement has {placed} keys, the heat graph {vertices}: make it from this graph")]
    Mismatch {
        /// Keys placed.
        placed: usize,
        /// Vertices of the graph.
        vertices: usize,
    },
    /// More sites than keys: some could never hold a key.
    #[error("{sites} sites for {}: give at most that many", plural(*keys, "accessed key"))]
    MoreSitesThanKeys {
        /// Sites asked for.
        sites: usize,
        /// Keys there are.
        keys: usize,
    },
    /// Nothing was accessed.
    #[error("nothing was accessed: there is no load to place")]
    NoLoad,
    /// An input is too large for the planner.
    #[error("{planner} takes at most {limit} {what}, and there are {}", many(*found))]
    TooLarge {
        /// The planner.
        planner: &'static str,
        /// The measure that is too large.
        what: &'static str,
        /// The limit.
        limit: u64,
        /// The actual value.
        found: u64,
    },
    /// A library failed.
    #[error("METIS refused the graph: {0}")]
    Metis(String),
}

/// A count, if it fits.
fn many(count: u64) -> String {
    match count {
        u64::MAX => "far more".to_owned(),
        _ => count.to_string(),
    }
}

/// Refuses a value that is no share.
pub(crate) fn check_share(what: &'static str, value: f64) -> Result<(), PlanError> {
    match (0.0..=1.0).contains(&value) {
        true => Ok(()),
        false => Err(PlanError::Number { what, value, right: "a share from 0 to 1" }),
    }
}

impl Problem<'_> {
    /// Checks that the parts fit each other and every number makes sense.
    pub fn validate(&self) -> Result<(), PlanError> {
        self.cost.validate()?;
        if !(self.imbalance.is_finite() && self.imbalance >= 0.0) {
            let right = "a finite share of at least 0";
            return Err(PlanError::Number { what: "imbalance", value: self.imbalance, right });
        }
        let (placed, vertices) = (self.placement.len(), self.graph.len());
        if placed != vertices {
            return Err(PlanError::Mismatch { placed, vertices });
        }
        let (sites, keys) = (self.placement.sites(), self.graph.accessed());
        match keys {
            0 => Err(PlanError::NoLoad),
            _ if sites > keys => Err(PlanError::MoreSitesThanKeys { sites, keys }),
            _ => Ok(()),
        }
    }

    /// The loads of the current placement.
    pub fn loads(&self) -> Loads {
        Loads::of(self.graph, self.placement, self.cost)
    }
}
