//! How the router reaches sites: requests and answers that could cross a network.

use crate::reach::Reach;
use isomer_design::{Domains, SiteId, Time};
use isomer_log::{LogError, Position};
use isomer_site::{
    Answer, Failure, Published, Read, Refusal, Reply, Request, SeenUpTo, Site, Step, VisitRow,
};
use isomer_strategy::SiteLoad;

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
    /// True if a transaction at this site has no effect whose future is dropped before `published` was called: in
    /// this process it ends there. What was sent over a network may arrive later.
    fn drop_revokes(&self, site: SiteId) -> bool;

    /// Runs a transaction at a site: [`Site::run`]. If it is [shared](Request::branches) by several, the site
    /// coordinates it ([`Site::coordinate`]) and asks the others by this same way
    /// ([`Peers`](isomer_site::Peers)); if the coordinator fails, participants resolve the outcome.
    ///
    /// `published` is called once, before the answer, if the writes can be seen by then. An answer can be
    /// lost after that, and `published` too, if an answer is.
    async fn execute(
        &self,
        site: SiteId,
        request: Request<'_>,
        published: Published<'_>,
    ) -> Result<Reply, Failure>;

    /// A site's promise to remember what was there at a time. It ends when this is dropped.
    type Pin;

    /// Reads at a time: [`Site::read_at`]. `visit` is shown the rows once it is sure that all of them have
    /// come, or, in this process, where they are.
    async fn read_at(
        &self,
        site: SiteId,
        read: Read<'_>,
        at: Time,
        pin: Option<&Self::Pin>,
        visit: VisitRow<'_>,
    ) -> Result<SeenUpTo, Failure>;

    /// Lets a site remember what is there at a time: [`Site::pin`].
    async fn pin(&self, site: SiteId, at: Time) -> Result<Self::Pin, Failure>;

    /// Lets a site keep history: [`Site::lease`].
    async fn lease(&self, site: SiteId, from: Time) -> Result<Time, Failure>;

    /// Waits for the log of a site: [`Site::until_durable`].
    async fn until_durable(&self, site: SiteId, seen: SeenUpTo) -> Result<(), Failure>;

    /// Takes a step of a design change at a site.
    async fn step(&self, site: SiteId, step: Step) -> Result<Answer, Refusal>;

    /// Ready when a site that did not answer may be worth asking again.
    async fn retry(&self, site: SiteId);

    /// Waits until a site can be asked whose process [could not be reached](Failure::Unreachable); `false` if its
    /// clients should not wait for that.
    async fn returns(&self, _site: SiteId) -> bool {
        false
    }

    /// Where a site is, if it is in another process and the way there says so.
    fn reach(&self, _site: SiteId) -> Option<Reach> {
        None
    }

    /// Which sites share a process, and are lost together.
    fn domains(&self) -> Domains {
        Domains::default()
    }

    /// For how many nanoseconds after another process has taken a site's log the one before may
    /// still show what it had.
    fn stale_for(&self) -> u64 {
        0
    }

    /// The failure of a site's log, if the site is to be passed by from then on: it serves nothing until it
    /// has been opened again with the whole database. A site that may come back by itself has none.
    fn failure(&self, _site: SiteId) -> Option<LogError> {
        None
    }

    /// True once the database is being closed: a site that does not answer is asked no more, and what was under way there
    /// stays as the end of the process leaves it. The next one finds it at the sites.
    fn is_closing(&self) -> bool {
        false
    }

    /// Others have taken over what they could from a site that is gone: who waits for it may ask elsewhere. Its log has ended
    /// at this position; `None`: it mastered nothing of that.
    fn set_taken_over(&self, _site: SiteId, _end: Option<Position>) {}

    /// How a site is, as far as the router knows.
    fn load(&self, site: SiteId) -> SiteLoad;

    /// The time, for reports.
    fn now(&self) -> Time;

    /// The processor time of the calling thread so far, in nanoseconds; 0 where it is not measured.
    fn worked_ns(&self) -> u64 {
        0
    }
}

/// True if others should take over from a site whose log says this. Not if another process has the log: that one has what the
/// site masters as well, and goes on with it.
pub(crate) fn calls_for_failover(error: &LogError) -> bool {
    matches!(error, LogError::Failed { .. } | LogError::Gone { .. })
}

/// How a site is, as far as the site itself can tell; nothing of one that is down. How busy it is only its machine knows.
pub fn load_of(site: SiteId, host: Option<&Site>) -> SiteLoad {
    let hot_locks = host.map_or_else(Vec::new, Site::hot_locks);
    let memory_bytes = host.map_or(0, Site::memory_bytes);
    let memory_max = host.and_then(Site::memory_max);
    SiteLoad { site, busy: None, memory_bytes, memory_max, hot_locks }
}
