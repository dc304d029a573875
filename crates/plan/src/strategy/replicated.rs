//! Databases with a full copy at every site: reads go to any site, and another strategy runs the
//! updates.
//!
//! | system | updates | masters |
//! | --- | --- | --- |
//! | single-master | all at one site | one site, which reads leave alone |
//! | multi-master | by two-phase commit | spread |
//! | DynaMast | after moving masters together | spread |
//!
//! A reader goes to a random copy, not to the site of its session's last transaction. After an
//! update that would be the master, which has the most work.

use isomer_design::{Route, SiteId};
use isomer_strategy::{
    Changed, Decision, OnDemand, Refused, Report, Request, Strategy, TwoPhase, Verdict,
};

/// See the [module documentation](self).
pub struct Replicated {
    name: &'static str,
    updates: Box<dyn Strategy>,
    /// No reader goes to this site if another has a copy.
    spared: Option<SiteId>,
}

impl Replicated {
    /// All masters at one site.
    pub fn single_master(master: SiteId) -> Replicated {
        let updates = Box::new(TwoPhase);
        Replicated { name: "single-master", updates, spared: Some(master) }
    }

    /// Masters everywhere, and two-phase commit between them.
    pub fn multi_master() -> Replicated {
        Replicated { name: "multi-master", updates: Box::new(TwoPhase), spared: None }
    }

    /// Masters everywhere, which move to the site where a transaction needs them together.
    pub fn dynamast() -> Replicated {
        Replicated { name: "dynamast", updates: Box::new(OnDemand::default()), spared: None }
    }
}

impl Strategy for Replicated {
    fn name(&self) -> &'static str {
        self.name
    }

    fn decide(&self, request: &Request<'_>) -> Result<Verdict, Refused> {
        let Route::Sites(sites) = &request.route else { return self.updates.decide(request) };
        if !request.footprint.is_read_only() {
            return self.updates.decide(request);
        }
        let others = self.spared.map(|spared| sites.without(spared));
        let copies = others.as_ref().filter(|others| !others.is_empty()).unwrap_or(sites);
        let at = request.ticket as usize % copies.len();
        let site = copies.nth(at).expect("a route has at least one site");
        Ok(Verdict::Run(Decision::at(site)))
    }

    fn observe(&self, report: &Report<'_>) {
        self.updates.observe(report);
    }

    fn changed(&self, changed: &Changed<'_>) {
        self.updates.changed(changed);
    }

    fn memory(&self, design: &isomer_design::Design) -> Option<String> {
        self.updates.memory(design)
    }

    fn recall(&self, memory: &str) -> Result<(), String> {
        self.updates.recall(memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_design::{Footprint, Key, SiteSet, TableId, Time};
    use isomer_strategy::Place;
    use isomer_strategy::Stage;

    fn decide(strategy: &Replicated, footprint: &Footprint, ticket: u64) -> SiteId {
        let sites = SiteSet::from_iter([1, 2, 3].map(SiteId));
        let at = if footprint.is_read_only() { sites } else { SiteSet::of(SiteId(1)) };
        let request = Request {
            footprint,
            route: Route::Sites(at),
            last_site: Some(SiteId(1)),
            ticket,
            now: Time::ZERO,
            reserved: false,
            stage: Stage::Whole,
            design: &|| panic!("one site can run it, so the design is not needed"),
        };
        match strategy.decide(&request) {
            Ok(Verdict::Run(Decision { place: Place::At(site), .. })) => site,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn readers_spread_over_the_copies_and_leave_a_single_master_alone() {
        let read = Footprint::new().read(TableId(1), Key::int(1));
        let write = Footprint::new().write(TableId(1), Key::int(1));
        let count = |strategy: &Replicated, site| {
            (0..300).filter(|ticket| decide(strategy, &read, *ticket) == SiteId(site)).count()
        };
        let single = Replicated::single_master(SiteId(1));
        assert_eq!([1, 2, 3].map(|site| count(&single, site)), [0, 150, 150]);
        assert_eq!(decide(&single, &write, 7), SiteId(1));
        let multi = Replicated::multi_master();
        assert_eq!([1, 2, 3].map(|site| count(&multi, site)), [100, 100, 100]);
    }
}
