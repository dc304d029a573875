//! The strategy of a server: one that changes the design, when the autopilot is on.
//!
//! | chosen | what it changes |
//! | --- | --- |
//! | learned | what pays for each transaction, by learned costs ([`Learned`]) |
//! | clay, estore, drtmb | what overloads a site, once one is overloaded ([`Elastic`]) |
//!
//! | autopilot | what it would change |
//! | --- | --- |
//! | off | is not looked for |
//! | recommend | is decided and shown, not done |
//! | auto | is done |
//!
//! In all modes a transaction that no site can run commits over several sites, and changes no
//! placement. With off and recommend, placement changes only by an operator, to add backups that a
//! table asks for and lacks, and when replicas take over from a failed site.
//!
//! The learned strategy learns in all modes, so that it knows the workload when it is switched on. The others look at
//! nothing while they are off.

use isomer_design::{Plan, Time};
use isomer_plan::elastic::{Options, Planner};
use isomer_plan::learned::{Budget, Mode};
use isomer_plan::strategy::{Elastic, Learned};
use isomer_strategy::{Changed, Occasion, Refused, Report, Request, SiteLoad, Strategy, Verdict};
use std::sync::Arc;

/// Who changes the design.
#[derive(Clone)]
pub enum Decider {
    /// The learned strategy.
    Learned(Arc<Learned>),
    /// A loop that looks for overloaded sites.
    Elastic(Arc<Elastic>),
}

impl Default for Decider {
    fn default() -> Decider {
        Decider::Learned(Arc::default())
    }
}

impl Decider {
    /// The names of all that can be chosen.
    pub const NAMES: [&str; 4] = ["learned", "clay", "estore", "drtmb"];

    /// The one of this name. `options` are those of a loop.
    ///
    /// # Errors
    /// In words, with those that there are; or if it can do nothing with the options.
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

    /// From now on the design is changed, or not.
    pub fn set_mode(&self, mode: Mode) {
        match self {
            Decider::Learned(learned) => learned.set_mode(mode),
            Decider::Elastic(elastic) => elastic.set_mode(mode),
        }
    }

    /// The processor time that it may use and has used; `None` if it has no budget.
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
