//! The transport of this process: calls its own sites, and asks others over the
//! [wire](crate::remote).

use super::runtime::Runtime;
use crate::reach::Reach;
use crate::remote::{ClientPin, Early, Remote, Unanswered};
use crate::transport::{Transport, load_of};
use futures_util::future::join_all;
use isomer_design::{Domains, KeyRange, SiteId, TableId, Time};
use isomer_log::{LogError, Position};
use isomer_site::{
    Admission, Answer, BatchAnswer, BatchStep, Failure, OrderedSite, Part, PartAnswer, Peers, Pin,
    Published, Read, Refusal, Reply, Request, SeenUpTo, Step, TimeSource, VisitRow,
};
use isomer_strategy::{ProcessLoad, SiteLoad};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The sites of this process.
pub(crate) struct Here {
    pub(crate) runtime: Arc<Runtime>,
}

/// All sites, wherever they are.
pub struct Embedded {
    here: Here,
}

/// A pin, with its location.
pub enum AnyPin {
    /// At a site of this process.
    Here(Pin),
    /// At a site elsewhere.
    Elsewhere(ClientPin),
}

impl Embedded {
    pub(crate) fn new(runtime: Arc<Runtime>) -> Embedded {
        Embedded { here: Here { runtime } }
    }

    fn elsewhere(&self, site: SiteId) -> Option<&Remote> {
        self.here.runtime.elsewhere(site)
    }
}

impl Peers for Here {
    async fn part(&self, site: SiteId, part: Part) -> Result<PartAnswer, Failure> {
        let host = self.runtime.host(site).ok_or(Failure::Stopped(site))?;
        host.busy.polling(host.site.part(part)).await
    }
}

impl Peers for Embedded {
    async fn part(&self, site: SiteId, part: Part) -> Result<PartAnswer, Failure> {
        match self.elsewhere(site) {
            Some(remote) => remote.part(site, part).await,
            None => self.here.part(site, part).await,
        }
    }
}

impl Transport for Here {
    fn drop_revokes(&self, _site: SiteId) -> bool {
        true
    }

    async fn execute(
        &self,
        site: SiteId,
        request: Request<'_>,
        published: Published<'_>,
    ) -> Result<Reply, Failure> {
        let hosts = self.runtime.hosts();
        let Some(host) = hosts.get(&site) else { return Err(Failure::Stopped(site)) };
        match request.branches {
            None => host.busy.polling(host.site.run(request, published)).await,
            Some(_) => {
                let peers = Embedded::new(self.runtime.clone());
                host.busy.polling(host.site.coordinate(request, published, &peers)).await
            }
        }
    }

    type Pin = Pin;

    async fn read_at(
        &self,
        site: SiteId,
        read: Read<'_>,
        at: Time,
        pin: Option<&Pin>,
        visit: VisitRow<'_>,
    ) -> Result<SeenUpTo, Failure> {
        let hosts = self.runtime.hosts();
        let Some(host) = hosts.get(&site) else { return Err(Failure::Stopped(site)) };
        host.busy.polling(host.site.read_at(read, at, pin, visit)).await
    }

    async fn pin(&self, site: SiteId, at: Time) -> Result<Pin, Failure> {
        self.runtime.site(site).ok_or(Failure::Stopped(site))?.pin(at)
    }

    async fn lease(&self, site: SiteId, from: Time) -> Result<Time, Failure> {
        Ok(self.runtime.site(site).ok_or(Failure::Stopped(site))?.lease(from))
    }

    async fn until_durable(&self, site: SiteId, seen: SeenUpTo) -> Result<(), Failure> {
        match self.runtime.site(site) {
            Some(site) => site.until_durable(seen).await,
            // A site that was removed has no pending work.
            None => Ok(()),
        }
    }

    async fn step(&self, site: SiteId, step: Step) -> Result<Answer, Refusal> {
        let host = self.runtime.host(site).ok_or(Refusal::Unavailable(site))?;
        host.busy.polling(host.site.step(step)).await
    }

    async fn batch(&self, site: SiteId, step: BatchStep) -> Result<BatchAnswer, Failure> {
        let host = self.runtime.host(site).ok_or(Failure::Stopped(site))?;
        host.busy.polling(OrderedSite(&host.site).take(step)).await
    }

    async fn retry(&self, site: SiteId) {
        // The sites of a process run while the database is open. So this site has too many
        // transactions under way, or no room in its log: give it time.
        match self.runtime.site(site) {
            Some(site) => site.next_tick().await,
            None => std::thread::yield_now(),
        }
    }

    async fn latest(&self) -> (Time, bool) {
        let hosts = self.runtime.hosts();
        let latest = hosts.values().map(|host| isomer_site::latest(&host.site)).max();
        (latest.unwrap_or(Time::ZERO), true)
    }

    fn failure(&self, site: SiteId) -> Option<LogError> {
        let hosts = self.runtime.hosts();
        hosts.get(&site).and_then(|host| host.site.failure())
    }

    fn load(&self, site: SiteId) -> SiteLoad {
        let busy = self.runtime.busy(site);
        let process = self.runtime.processors.share();
        let process = process.map(|busy| ProcessLoad { first: site, busy });
        SiteLoad { busy, process, ..load_of(site, self.runtime.site(site).as_deref()) }
    }

    fn now(&self) -> Time {
        self.runtime.clock.now()
    }
}

impl Transport for Embedded {
    fn client(&self) -> u64 {
        self.here.runtime.client
    }

    fn drop_revokes(&self, site: SiteId) -> bool {
        self.elsewhere(site).is_none()
    }

    async fn execute(
        &self,
        site: SiteId,
        request: Request<'_>,
        published: Published<'_>,
    ) -> Result<Reply, Failure> {
        match self.elsewhere(site) {
            Some(remote) => remote.execute(site, request, published).await,
            None => self.here.execute(site, request, published).await,
        }
    }

    type Pin = AnyPin;

    fn is_here(&self, site: SiteId) -> bool {
        self.elsewhere(site).is_none()
    }

    async fn read_at(
        &self,
        site: SiteId,
        read: Read<'_>,
        at: Time,
        pin: Option<&AnyPin>,
        visit: VisitRow<'_>,
    ) -> Result<SeenUpTo, Failure> {
        let (here, elsewhere) = match pin {
            Some(AnyPin::Here(pin)) => (Some(pin), None),
            Some(AnyPin::Elsewhere(pin)) => (None, Some(pin)),
            None => (None, None),
        };
        match self.elsewhere(site) {
            Some(remote) => remote.read_at(site, read, at, elsewhere, visit).await,
            None => self.here.read_at(site, read, at, here, visit).await,
        }
    }

    async fn pin(&self, site: SiteId, at: Time) -> Result<AnyPin, Failure> {
        match self.elsewhere(site) {
            Some(remote) => remote.pin(site, at).await.map(AnyPin::Elsewhere),
            None => self.here.pin(site, at).await.map(AnyPin::Here),
        }
    }

    async fn lease(&self, site: SiteId, from: Time) -> Result<Time, Failure> {
        match self.elsewhere(site) {
            Some(remote) => remote.lease(site, from).await,
            None => {
                let runtime = &self.here.runtime;
                let from = runtime.pins.least(site, runtime.client, from, self.now());
                self.here.lease(site, from).await
            }
        }
    }

    async fn until_durable(&self, site: SiteId, seen: SeenUpTo) -> Result<(), Failure> {
        match self.elsewhere(site) {
            Some(remote) => remote.until_durable(site, seen).await,
            None => self.here.until_durable(site, seen).await,
        }
    }

    async fn step(&self, site: SiteId, step: Step) -> Result<Answer, Refusal> {
        match self.elsewhere(site) {
            Some(remote) => remote.step(site, step).await,
            None => self.here.step(site, step).await,
        }
    }

    async fn batch(&self, site: SiteId, step: BatchStep) -> Result<BatchAnswer, Failure> {
        match self.elsewhere(site) {
            Some(remote) => remote.batch(site, step).await,
            None => self.here.batch(site, step).await,
        }
    }

    async fn retry(&self, site: SiteId) {
        match self.elsewhere(site) {
            Some(remote) => remote.retry(site).await,
            None => self.here.retry(site).await,
        }
    }

    async fn returns(&self, site: SiteId) -> bool {
        match self.elsewhere(site) {
            Some(remote) => remote.returns(site).await,
            None => false,
        }
    }

    fn reach(&self, site: SiteId) -> Option<Reach> {
        self.elsewhere(site).and_then(|remote| remote.reach(site))
    }

    fn learn(&self) {
        self.here.runtime.learn();
    }

    fn left(&self, name: &str) {
        self.here.runtime.left(name);
    }

    fn domains(&self) -> Domains {
        self.here.runtime.domains()
    }

    fn stale_for(&self) -> u64 {
        self.here.runtime.stale_for.load(Ordering::Relaxed)
    }

    fn failure(&self, site: SiteId) -> Option<LogError> {
        match self.elsewhere(site) {
            Some(remote) => remote.failure(site),
            None => self.here.failure(site),
        }
    }

    fn is_closing(&self) -> bool {
        self.here.runtime.is_closing()
    }

    fn set_taken_over(&self, site: SiteId, _end: Option<Position>) {
        if let Some(remote) = self.elsewhere(site) {
            remote.set_taken_over(site);
        }
    }

    fn admission(&self) -> Option<&Admission> {
        Some(&self.here.runtime.admission)
    }

    async fn latest(&self) -> (Time, bool) {
        let runtime = &self.here.runtime;
        let others = runtime.one_of_each_process();
        let others = others.iter().filter_map(|site| {
            let remote = self.elsewhere(*site)?;
            Some(remote.latest(*site))
        });
        // No client of this process sees the rows of a process that cannot be reached.
        let latest = join_all(others).await;
        let is_of_all = latest.iter().all(Option::is_some);
        let latest = latest.into_iter().flatten().max().unwrap_or(Time::ZERO);
        (latest.max(self.here.latest().await.0), is_of_all)
    }

    fn present_of(&self, site: SiteId, table: TableId, range: &KeyRange) -> Option<Time> {
        let host = self.here.runtime.host(site)?;
        isomer_site::present_of(&host.site, table, range)
    }

    async fn ask_conductor(
        &self,
        request: Vec<u8>,
        is_urgent: bool,
    ) -> Result<Vec<u8>, Unanswered> {
        self.here.runtime.ask_conductor(request, is_urgent).await
    }

    async fn ask_gateway(
        &self,
        site: SiteId,
        request: Vec<u8>,
        early: Early<'_>,
    ) -> Result<Vec<u8>, Unanswered> {
        match self.elsewhere(site) {
            Some(remote) => remote.ask_gateway(site, request, early).await,
            None => Err(Unanswered::Unreachable("the site is here".to_owned())),
        }
    }

    fn load(&self, site: SiteId) -> SiteLoad {
        match self.elsewhere(site) {
            Some(remote) => remote.load(site),
            None => self.here.load(site),
        }
    }

    fn now(&self) -> Time {
        self.here.now()
    }

    fn worked_ns(&self) -> u64 {
        let worked = clock_gettime(ClockId::ThreadCPUTime);
        worked.tv_sec as u64 * 1_000_000_000 + worked.tv_nsec as u64
    }
}
