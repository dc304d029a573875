//! The strategy of a server: a strategy that changes the design while the autopilot is on.
//!
//! | strategy | its changes |
//! | --- | --- |
//! | learned | those that pay off for each transaction, by learned costs ([`Learned`]) |
//! | clay, estore, drtmb | relief of overloaded sites ([`Elastic`]) |
//!
//! | mode | changes are |
//! | --- | --- |
//! | off | not searched for |
//! | recommend | decided and shown, not made |
//! | approve | proposed to an operator, and made after approval ([`crate::steering`]) |
//! | auto | made |
//!
//! In all modes a transaction that no site can run alone commits over several sites, and changes no
//! placement. In the modes but `auto` placement changes only in three cases: an operator changes
//! or approves it, missing backups of a table are added, or replicas take over from a failed site.
//!
//! The learned strategy learns in all modes, so that it knows the workload when it is switched on.
//! The others are idle while they are off.

use isomer_design::{Plan, Time};
use isomer_plan::elastic::{Options, Planner};
use isomer_plan::learned::{Budget, Mode};
use isomer_plan::strategy::{Elastic, Learned};
use isomer_strategy::{Changed, Occasion, Refused, Report, Request, SiteLoad, Strategy, Verdict};
use std::sync::Arc;

/// The strategy that changes the design.
#[derive(Clone)]
pub enum Decider {
    /// The learned strategy.
    Learned(Arc<Learned>),
    /// A loop that relieves overloaded sites.
    Elastic(Arc<Elastic>),
}

impl Default for Decider {
    fn default() -> Decider {
        Decider::Learned(Arc::default())
    }
}

impl Decider {
    /// The names of all strategies.
    pub const NAMES: [&str; 4] = ["learned", "clay", "estore", "drtmb"];

    /// The strategy with this name. `options` are those of a loop.
    ///
    /// # Errors
    /// In words, with the valid names; or if the strategy does not take the options.
    pub fn named(name: &str, options: Options) -> Result<Decider, String> {
        match (name, name.parse::<Planner>()) {
            ("learned", _) if options.fleet.is_some() || options.p99_us_max.is_some() => {
                Err("`learned` does not look for overloads; choose clay, estore or drtmb"
                    .to_owned())
            }
            ("learned", _) => Ok(Decider::default()),
            (_, Ok(planner)) => Ok(Decider::Elastic(Arc::new(Elastic::with(planner, options)))),
            _ => Err(format!("`{name}` is no strategy; there are: {}", Decider::NAMES.join(", "))),
        }
    }

    /// Whether the design is changed.
    pub fn mode(&self) -> Mode {
        match self {
            Decider::Learned(learned) => learned.mode(),
            Decider::Elastic(elastic) => elastic.mode(),
        }
    }

    /// Sets the mode.
    pub fn set_mode(&self, mode: Mode) {
        match self {
            Decider::Learned(learned) => learned.set_mode(mode),
            Decider::Elastic(elastic) => elastic.set_mode(mode),
        }
    }

    /// The processor time that the strategy may use and has used; `None` if it has no budget.
    pub fn budget(&self) -> Option<Budget> {
        match self {
            Decider::Learned(learned) => Some(learned.budget()),
            Decider::Elastic(_) => None,
        }
    }

    fn strategy(&self) -> &dyn Strategy {
        match self {
            Decider::Learned(learned) => &**learned,
            Decider::Elastic(elastic) => &**elastic,
        }
    }
}

impl Strategy for Decider {
    fn name(&self) -> &'static str {
        self.strategy().name()
    }

    fn decide(&self, request: &Request<'_>) -> Result<Verdict, Refused> {
        self.strategy().decide(request)
    }

    fn wants(&self, ticket: u64) -> bool {
        self.strategy().wants(ticket)
    }

    fn observe(&self, report: &Report<'_>) {
        self.strategy().observe(report);
    }

    fn changed(&self, changed: &Changed<'_>) {
        self.strategy().changed(changed);
    }

    fn plan(&self, occasion: &Occasion<'_>) -> Plan {
        self.strategy().plan(occasion)
    }

    fn plan_globally(&self, occasion: &Occasion<'_>) {
        self.strategy().plan_globally(occasion);
    }

    fn wants_loads(&self, now: Time) -> bool {
        self.strategy().wants_loads(now)
    }

    fn loads(&self, now: Time, loads: &[SiteLoad]) {
        self.strategy().loads(now, loads);
    }

    fn memory(&self, design: &isomer_design::Design) -> Option<String> {
        self.strategy().memory(design)
    }

    fn recall(&self, memory: &str) -> Result<(), String> {
        self.strategy().recall(memory)
    }
}
