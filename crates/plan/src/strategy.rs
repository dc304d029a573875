//! On-line strategies: what decides where a transaction runs, and what is changed for it.
//!
//! The router asks its strategy once for every transaction, and does what it says. A strategy is a
//! pure function of what it is shown and of what it has been told before: it knows no sites, sockets,
//! threads or clocks, and it cannot alter the design, only ask for changes.
//!
//! ```text
//!   footprint ─▶ routing table ─▶ Route ──▶ Strategy::decide ──▶ Decision
//!                                              ▲                   site: where it will run
//!                     design (cheap to clone) ─┘                   first: changes it must wait for
//!                                                                  afterwards: changes that may pay later
//!   outcome ────────────────────────────────▶ Strategy::observe
//! ```
//!
//! | strategy | changes | when no site can run a transaction |
//! | --- | --- | --- |
//! | [`Static`] | never any | refuses it |
//! | [`OnDemand`] | the necessary ones (paper, sections 3.1 and 5.3.3) | makes one site able to |

mod on_demand;
mod static_design;

pub use on_demand::OnDemand;
pub use static_design::Static;

use isomer_design::{Design, Footprint, Plan, Route, SiteId, SiteSet};

/// What a strategy is shown of a transaction.
pub struct Request<'a> {
    /// What the transaction will read and write.
    pub footprint: &'a Footprint,
    /// Where the design lets it run.
    pub route: Route,
    /// The site at which its session ran last.
    pub last_site: Option<SiteId>,
    /// A number that differs from transaction to transaction, to break ties with.
    pub ticket: u64,
    /// The design; ask only if it is needed, it is locked for a moment.
    pub design: &'a dyn Fn() -> Design,
}

/// What is to be done with a transaction.
#[derive(Clone, PartialEq, Debug)]
pub struct Decision {
    /// Where it runs.
    pub site: SiteId,
    /// Changes that must be made before.
    pub first: Plan,
    /// Changes that need not be waited for.
    pub afterwards: Plan,
}

impl Decision {
    /// Run it there, and change nothing.
    pub fn at(site: SiteId) -> Decision {
        Decision { site, first: Plan::new(""), afterwards: Plan::new("") }
    }
}

/// Why a strategy lets a transaction run nowhere.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// No single site can run it, and the strategy changes nothing.
    #[error(
        "no single site masters all that the transaction writes and holds all that it reads \
         ({footprint}), and the strategy `{strategy}` does not change the design; \
         use `on-demand`, or place these keys together"
    )]
    NotSingleSite {
        /// The footprint.
        footprint: String,
        /// The strategy's name.
        strategy: &'static str,
    },
    /// A table of the footprint does not exist.
    #[error("there is no table {0}; create it first")]
    UnknownTable(isomer_design::TableId),
}

/// A transaction that has run.
pub struct Report<'a> {
    /// What it read and wrote.
    pub footprint: &'a Footprint,
    /// Where it ran.
    pub site: SiteId,
    /// How many changes it waited for.
    pub changes: usize,
    /// From the session's request to its answer, in nanoseconds.
    pub latency_ns: u64,
}

/// See the [module documentation](self).
pub trait Strategy: Send + Sync {
    /// The name by which it is chosen and shown.
    fn name(&self) -> &'static str;

    /// Decides about one transaction. Called on the way of every transaction, from many threads.
    ///
    /// # Errors
    /// [`Refused`] if it is to run nowhere.
    fn decide(&self, request: &Request<'_>) -> Result<Decision, Refused>;

    /// Hears how a transaction went.
    fn observe(&self, _report: &Report<'_>) {}
}

/// One of several sites that can run a transaction: where its session ran last, so that it need not
/// wait for replication; otherwise one by the ticket, so that readers spread.
pub(crate) fn pick(candidates: SiteSet, request: &Request<'_>) -> SiteId {
    if let Some(last) = request.last_site.filter(|&site| candidates.contains(site)) {
        return last;
    }
    let at = request.ticket as usize % candidates.len();
    candidates.iter().nth(at).expect("a route has at least one site")
}
