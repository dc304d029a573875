//! How routers and the conductor reach sites: requests and answers that could cross a network.

use crate::reach::Reach;
use crate::remote::{Early, Unanswered};
use isomer_design::{Domains, KeyRange, SiteId, TableId, Time};
use isomer_log::{LogError, Position};
use isomer_site::{
    Admission, Answer, BatchAnswer, BatchStep, Failure, Published, Read, Refusal, Reply, Request,
    SeenUpTo, Site, Step, VisitRow,
};
use isomer_strategy::SiteLoad;

/// Carries requests to sites. The embedded runtime calls the site. The simulator puts a network,
/// delays and crashes in between.
///
/// An answer of [`Failure::Stopped`] or [`Refusal::Unavailable`] does not say whether the request
/// was carried out.
#[allow(
    async_fn_in_trait,
    reason = "callers are generic; whether futures are Send is theirs to say"
)]
pub trait Transport {
    /// The number of this run of the process among all; 0 if its commits need no names.
    fn client(&self) -> u64 {
        0
    }

    /// True if dropping the future of a transaction before `published` was called revokes the
    /// transaction. That is so in this process. A request that was sent over a network may arrive
    /// later.
    fn drop_revokes(&self, site: SiteId) -> bool;

    /// Runs a transaction at a site: [`Site::run`]. If it has [branches](Request::branches), the
    /// site coordinates it ([`Site::coordinate`]) and asks the participants through this transport
    /// ([`Peers`](isomer_site::Peers)). If the coordinator fails, participants resolve the outcome.
    ///
    /// `published` is called once, before the answer, if the writes are visible by then. The answer
    /// can be lost after that. Where an answer can be lost, the call of `published` can be lost,
    /// too.
    async fn execute(
        &self,
        site: SiteId,
        request: Request<'_>,
        published: Published<'_>,
    ) -> Result<Reply, Failure>;

    /// A site's promise to keep the history for a time. It ends when this is dropped.
    type Pin;

    /// True for a site of this process.
    fn is_here(&self, _site: SiteId) -> bool {
        true
    }

    /// Reads at a time: [`Site::read_at`]. `visit` receives the rows after all of them have
    /// arrived; in this process, directly from the store.
    async fn read_at(
        &self,
        site: SiteId,
        read: Read<'_>,
        at: Time,
        pin: Option<&Self::Pin>,
        visit: VisitRow<'_>,
    ) -> Result<SeenUpTo, Failure>;

    /// Makes a site keep the history for a time: [`Site::pin`].
    async fn pin(&self, site: SiteId, at: Time) -> Result<Self::Pin, Failure>;

    /// Makes a site keep history: [`Site::lease`].
    async fn lease(&self, site: SiteId, from: Time) -> Result<Time, Failure>;

    /// Waits for the log of a site: [`Site::until_durable`].
    async fn until_durable(&self, site: SiteId, seen: SeenUpTo) -> Result<(), Failure>;

    /// Takes a step of a design change at a site.
    async fn step(&self, site: SiteId, step: Step) -> Result<Answer, Refusal>;

    /// Takes a step of a batch of ordered commits at a site
    /// ([`OrderedSite::take`](isomer_site::OrderedSite::take)). A transport without such batches
    /// refuses.
    async fn batch(&self, site: SiteId, _step: BatchStep) -> Result<BatchAnswer, Failure> {
        let why = "it is in another process, and takes no ordered commits".to_owned();
        Err(Failure::NotAsked { site, why })
    }

    /// Ready when a site that did not answer may be worth asking again.
    async fn retry(&self, site: SiteId);

    /// Waits until a site that [could not be reached](Failure::Unreachable) can be asked. Returns
    /// `false` if its clients should not wait for that.
    async fn returns(&self, _site: SiteId) -> bool {
        false
    }

    /// The location of a site, if it is in another process and the wire knows it.
    fn reach(&self, _site: SiteId) -> Option<Reach> {
        None
    }

    /// Processes may have joined the cluster: looks who belongs to it.
    fn learn(&self) {}

    /// The process of this name has left the cluster.
    fn left(&self, _name: &str) {}

    /// The sites that share a process, and fail together.
    fn domains(&self) -> Domains {
        Domains::default()
    }

    /// The number of nanoseconds for which the previous owner of a site's log may still serve reads
    /// after another process has taken the log.
    fn stale_for(&self) -> u64 {
        0
    }

    /// The failure of a site's log, if the site is unavailable until the whole database is reopened
    /// or the site is readmitted. A site that may recover by itself has none.
    fn failure(&self, _site: SiteId) -> Option<LogError> {
        None
    }

    /// True once the database is closing. A site that does not answer is then not asked again, and
    /// its changes stay as the end of the process leaves them. The next process reads them from the
    /// sites.
    fn is_closing(&self) -> bool {
        false
    }

    /// Notes that others have taken over what they could from a failed site, so that its waiting
    /// clients ask elsewhere. Its log has ended at `end`; `None` if it mastered nothing that was
    /// taken over.
    fn set_taken_over(&self, _site: SiteId, _end: Option<Position>) {}

    /// The gateways whose commits the sites of this process accept, where there may be several.
    fn admission(&self) -> Option<&Admission> {
        None
    }

    /// The latest time that any site has given to a commit, or was read at: that of the sites of
    /// this process, and of others that can be reached ([`isomer_site::latest`]); and whether that
    /// is all of them. Asked for where there are several gateways.
    async fn latest(&self) -> (Time, bool) {
        (Time::ZERO, true)
    }

    /// A time that includes all commits of these rows that any gateway has acknowledged until now,
    /// if the site is in this process and masters them ([`isomer_site::present_of`]). Sends
    /// nothing.
    fn present_of(&self, _site: SiteId, _table: TableId, _range: &KeyRange) -> Option<Time> {
        None
    }

    /// Asks the process with the conductor, if that is not this process. An urgent request comes
    /// before those that may wait for clients.
    async fn ask_conductor(
        &self,
        _request: Vec<u8>,
        _is_urgent: bool,
    ) -> Result<Vec<u8>, Unanswered> {
        Err(Unanswered::Unreachable("there is no other process".to_owned()))
    }

    /// Has the gateway of a site's process run a statement: see [`crate::gateways::shipping`].
    /// `early` receives bytes that come before the answer. [`Unanswered::Unreachable`]: nothing was
    /// done.
    async fn ask_gateway(
        &self,
        _site: SiteId,
        _request: Vec<u8>,
        _early: Early<'_>,
    ) -> Result<Vec<u8>, Unanswered> {
        Err(Unanswered::Unreachable("there is no other process".to_owned()))
    }

    /// The load of a site, as far as the router knows.
    fn load(&self, site: SiteId) -> SiteLoad;

    /// The time, for reports.
    fn now(&self) -> Time;

    /// The processor time of the calling thread so far, in nanoseconds; 0 where it is not measured.
    fn worked_ns(&self) -> u64 {
        0
    }
}

/// True if others should take over from a site whose log reports this error. A log that another
/// process has opened does not count, because that process also has the site's partitions, and
/// continues.
pub(crate) fn calls_for_failover(error: &LogError) -> bool {
    matches!(error, LogError::Failed { .. } | LogError::Gone { .. })
}

/// The load of a site as far as the site itself can measure it; empty if it is down. Only its
/// machine can measure how busy it is.
pub fn load_of(site: SiteId, host: Option<&Site>) -> SiteLoad {
    let hot_locks = host.map_or_else(Vec::new, Site::hot_locks);
    let memory_bytes = host.map_or(0, Site::memory_bytes);
    let memory_max = host.and_then(Site::memory_max);
    SiteLoad { site, busy: None, memory_bytes, memory_max, hot_locks, process: None }
}
