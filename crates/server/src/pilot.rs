//! The strategy of a server: one that changes the design, when the autopilot is on.
//!
//! | chosen | what it changes |
//! | --- | --- |
//! | learned | what pays for each transaction, by learned costs ([`Learned`]) |
//! | clay, estore, drtmb | what overloads a site, once one is overloaded ([`Elastic`]) |
//!
//! | autopilot | a transaction that no site can run | what would pay besides |
//! | --- | --- | --- |
//! | off | waits until its rows are brought to one site | is not looked for |
//! | recommend | the same | is decided and shown, not done |
//! | auto | what is worth more: the same, or it commits over several sites | is done |
//!
//! While a table is [kept in two orders](isomer_sql::catalog::Beside), who writes to it commits over several sites
//! where he has to, in all modes: each row is at two places, and these have nothing to do with each other, so there is
//! no site to which rows could be brought for good.
//!
//! The learned strategy learns in all modes, so that it knows the workload when it is switched on. The others look at
//! nothing while they are off.
//!
//! **Why off brings rows together**, and does not commit over several sites, as they would: the
//! sites of a server share its processors and its disk, so a commit over several costs two waits for the same
//! disk, and rows that belong together and were pulled apart would stay apart. TPC-C under random changes of the
//! design ran at half the speed so.

use arc_swap::ArcSwap;
use isomer_design::{Route, TableId, Time};
use isomer_plan::elastic::{Options, Planner};
use isomer_plan::learned::Mode;
use isomer_plan::strategy::{Elastic, Learned};
use isomer_strategy::{
    Changed, OnDemand, Refused, Report, Request, SiteLoad, Strategy, TwoPhase, Verdict,
};
use std::collections::BTreeSet;
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

    fn strategy(&self) -> &dyn Strategy {
        match self {
            Decider::Learned(learned) => &**learned,
            Decider::Elastic(elastic) => &**elastic,
        }
    }
}

/// The tables of the store that keep rows in another order, beside those where they are found.
pub(crate) type Besides = Arc<ArcSwap<BTreeSet<TableId>>>;

/// See the [module documentation](self).
pub(crate) struct Pilot {
    decider: Decider,
    on_demand: OnDemand,
    besides: Besides,
}

impl Pilot {
    pub(crate) fn new(decider: Decider, besides: Besides) -> Pilot {
        Pilot { decider, on_demand: OnDemand::default(), besides }
    }

    fn keeps_two_orders(&self, request: &Request<'_>) -> bool {
        let besides = self.besides.load();
        !besides.is_empty()
            && request.footprint.items().iter().any(|item| besides.contains(&item.table))
    }
}

impl Strategy for Pilot {
    fn name(&self) -> &'static str {
        self.decider.strategy().name()
    }

    fn decide(&self, request: &Request<'_>) -> Result<Verdict, Refused> {
        match request.route {
            Route::Nowhere { .. } if self.keeps_two_orders(request) => TwoPhase.decide(request),
            Route::Nowhere { .. } if self.decider.mode() != Mode::Auto => {
                self.on_demand.decide(request)
            }
            _ => self.decider.strategy().decide(request),
        }
    }

    fn wants(&self, ticket: u64) -> bool {
        self.decider.strategy().wants(ticket)
    }

    fn observe(&self, report: &Report<'_>) {
        self.on_demand.observe(report);
        self.decider.strategy().observe(report);
    }

    fn changed(&self, changed: &Changed<'_>) {
        self.decider.strategy().changed(changed);
    }

    fn plan_globally(&self, now: Time, design: &isomer_design::Design) {
        self.decider.strategy().plan_globally(now, design);
    }

    fn wants_loads(&self, now: Time) -> bool {
        self.decider.strategy().wants_loads(now)
    }

    fn loads(&self, now: Time, loads: &[SiteLoad]) {
        self.decider.strategy().loads(now, loads);
    }

    fn memory(&self, design: &isomer_design::Design) -> Option<String> {
        self.decider.strategy().memory(design)
    }

    fn recall(&self, memory: &str) -> Result<(), String> {
        self.decider.strategy().recall(memory)
    }
}
