//! The strategy of a server: the learned one, when its autopilot is on.
//!
//! | autopilot | a transaction that no site can run | what would pay besides |
//! | --- | --- | --- |
//! | off | waits until its rows are brought to one site | is not looked for |
//! | recommend | the same | is decided and shown, not done |
//! | auto | what is worth more: the same, or it commits over several sites | is done |
//!
//! The learned strategy learns in all modes, so that it knows the workload when it is switched on.
//!
//! **Why off brings rows together**, and does not commit over several sites, as the learned strategy would: the
//! sites of a server share its processors and its disk, so a commit over several costs two waits for the same
//! disk, and rows that belong together and were pulled apart would stay apart. TPC-C under random changes of the
//! design ran at half the speed so.

use isomer_design::{Route, Time};
use isomer_plan::learned::Mode;
use isomer_plan::strategy::Learned;
use isomer_strategy::{Changed, OnDemand, Refused, Report, Request, SiteLoad, Strategy, Verdict};
use std::sync::Arc;

/// See the [module documentation](self).
pub(crate) struct Pilot {
    learned: Arc<Learned>,
    on_demand: OnDemand,
}

impl Pilot {
    pub(crate) fn new(learned: Arc<Learned>) -> Pilot {
        Pilot { learned, on_demand: OnDemand::default() }
    }
}

impl Strategy for Pilot {
    fn name(&self) -> &'static str {
        self.learned.name()
    }

    fn decide(&self, request: &Request<'_>) -> Result<Verdict, Refused> {
        match request.route {
            Route::Nowhere { .. } if self.learned.mode() != Mode::Auto => {
                self.on_demand.decide(request)
            }
            _ => self.learned.decide(request),
        }
    }

    fn wants(&self, ticket: u64) -> bool {
        self.learned.wants(ticket)
    }

    fn observe(&self, report: &Report<'_>) {
        self.on_demand.observe(report);
        self.learned.observe(report);
    }

    fn changed(&self, changed: &Changed<'_>) {
        self.learned.changed(changed);
    }

    fn plan_globally(&self, now: Time, design: &isomer_design::Design) {
        self.learned.plan_globally(now, design);
    }

    fn wants_loads(&self, now: Time) -> bool {
        self.learned.wants_loads(now)
    }

    fn loads(&self, now: Time, loads: &[SiteLoad]) {
        self.learned.loads(now, loads);
    }

    fn memory(&self, design: &isomer_design::Design) -> Option<String> {
        self.learned.memory(design)
    }

    fn recall(&self, memory: &str) -> Result<(), String> {
        self.learned.recall(memory)
    }
}
