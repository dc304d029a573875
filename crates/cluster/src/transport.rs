//! How the router reaches sites: requests and answers that could cross a network.

use isomer_design::{Footprint, SiteId, Time};
use isomer_site::{Across, Answer, Committed, Failure, Procedure, Refusal, Site, Step};
use isomer_strategy::{Crowd, SiteLoad};

/// Carries requests to sites. The embedded runtime calls the site; the simulator puts a network,
/// delays and crashes between.
///
/// An answer [`Failure::Stopped`] or [`Refusal::Unavailable`] says nothing about whether the request
/// was carried out.
#[allow(
    async_fn_in_trait,
    reason = "callers are generic; whether futures are Send is theirs to say"
)]
pub trait Transport {
    /// Runs a transaction at a site.
    async fn execute(
        &self,
        site: SiteId,
        footprint: &Footprint,
        session: Time,
        procedure: &mut dyn Procedure,
    ) -> Result<Committed, Failure>;

    /// Lets a site run a transaction over several sites: [`Site::coordinate`](isomer_site::Site::coordinate)
    /// there, which asks the others by this same way ([`Peers`](isomer_site::Peers)). If the coordinator
    /// dies, what it was at ends where it is.
    async fn coordinate(
        &self,
        coordinator: SiteId,
        across: &Across<'_>,
        procedure: &mut dyn Procedure,
    ) -> Result<Committed, Failure>;

    /// Takes a step of a design change at a site.
    async fn step(&self, site: SiteId, step: Step) -> Result<Answer, Refusal>;

    /// Ready when a site that did not answer may be worth asking again.
    async fn retry(&self, site: SiteId);

    /// How a site is, as far as the router knows.
    fn load(&self, site: SiteId) -> SiteLoad;

    /// The time, for reports.
    fn now(&self) -> Time;
}

/// How a site is, as far as the site itself can tell; nothing of one that is down.
pub fn load_of(site: SiteId, host: Option<&Site>) -> SiteLoad {
    let crowd = |crowd: isomer_site::Crowd| {
        let isomer_site::Crowd { table, start, waiting, wanted } = crowd;
        Crowd { table, start, waiting, wanted }
    };
    let crowds = host.map_or_else(Vec::new, |host| host.crowds().into_iter().map(crowd).collect());
    let memory_bytes = host.map_or(0, Site::memory_bytes);
    SiteLoad { site, busy: None, memory_bytes, memory_max: None, crowds }
}
