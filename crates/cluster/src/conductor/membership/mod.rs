//! Membership: the failure, takeover and readmission of sites.
//!
//! ```text
//!   a log or a process fails ─▶ fail_over ─▶ evacuation       others take over its masterships;
//!                                                             its copies are removed
//!   a process restarts ─▶ readmit_returned ─▶ readmission     its sites drop what the design does
//!                                                             not give them, and are members again
//! ```
//!
//! [`state`] is the only place that keeps the state of each site. [`evacuation`] is for all failed
//! sites, [`takeover`] for those that cannot be asked how far they had come. [`promotion`] gives a
//! partition another master, and [`readmission`] takes a site back. For the next conductor,
//! [`lost`] keeps the sites in whose place others act; [`unheard`] is about those that it cannot
//! ask.

mod acquisition;
mod beyond;
mod evacuation;
mod lost;
mod lost_batch;
mod meeting;
mod promotion;
mod readmission;
mod report;
mod state;
mod takeover;
mod together;
mod unheard;

pub use report::FailedOver;
pub(crate) use unheard::{Unheard, has_not_heard};

use super::backlog::Backlog;
use super::change::sites_of;
use super::{Conductor, backups, nodes};
use crate::error::Error;
use crate::transport::Transport;
use evacuation::Evacuation;
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use isomer_design::{
    Change, Design, Key, KeyRange, Placement, SITES_MAX, SiteId, SiteSet, TableId, Time,
};
use isomer_site::{Answer, Failure, Holding, Refusal, Step, TxnId};
use parking_lot::Mutex;
use readmission::Readmission;
use state::{Members, Replaced, Towards};
use std::collections::BTreeMap;
use std::pin::pin;

/// The number of partitions that are worked on at once.
const AT_ONCE: usize = 64;

/// A partition, by its table and first key.
type Place = (TableId, Key);

/// The state of the sites, and the failures and restarts that are not handled yet.
pub(crate) struct Membership {
    members: Mutex<Members>,
    /// Sites whose logs have failed, or whose processes are down.
    failures: Backlog<SiteId>,
    /// Sites of other processes that have restarted.
    returned: Backlog<SiteId>,
    unheard: Mutex<Unheard>,
    /// The sites that the conductor's log has as lost.
    lost: Mutex<SiteSet>,
}

impl Default for Membership {
    fn default() -> Membership {
        // One entry for each possible site.
        let queue = || Backlog::new(usize::from(SITES_MAX));
        let (members, unheard, lost) = (Mutex::default(), Mutex::default(), Mutex::default());
        Membership { members, failures: queue(), returned: queue(), unheard, lost }
    }
}

/// Excludes other takeovers and readmissions of these sites until it is dropped.
struct Transit<'m> {
    membership: &'m Membership,
    sites: SiteSet,
}

impl Drop for Transit<'_> {
    fn drop(&mut self) {
        self.membership.members.lock().end(&self.sites);
    }
}

/// A site is about to be told whether to accept messages of site `of`, until this is dropped.
struct Saying<'m> {
    membership: &'m Membership,
    of: SiteId,
}

impl Drop for Saying<'_> {
    fn drop(&mut self) {
        self.membership.members.lock().said(self.of);
    }
}

impl Membership {
    /// True if any site is declared dead.
    pub(crate) fn has_given_up(&self) -> bool {
        self.members.lock().has_given_up()
    }

    /// A site that is declared dead, and from which no site has taken over: what it has released
    /// may arrive only after it restarts.
    pub(crate) fn waited_for(&self) -> Option<SiteId> {
        self.members.lock().waited_for()
    }

    pub(super) fn close(&self) {
        self.failures.close();
        self.returned.close();
    }

    /// True from when a site is declared dead until it is readmitted.
    pub(super) fn is_passed_by(&self, site: SiteId) -> bool {
        self.members.lock().is_passed_by(site)
    }

    /// True once others have taken over from a site, until it is readmitted.
    pub(crate) fn is_replaced(&self, site: SiteId) -> bool {
        self.members.lock().replaced(site).is_some()
    }

    /// True while any site is being readmitted.
    pub(crate) fn is_any_returning(&self) -> bool {
        self.members.lock().is_any_returning()
    }

    fn replaced(&self, site: SiteId) -> Option<Replaced> {
        self.members.lock().replaced(site).cloned()
    }

    fn is_taken_over(&self, site: SiteId) -> bool {
        self.members.lock().is_taken_over(site)
    }

    fn replace(
        &self,
        site: SiteId,
        moved: usize,
        decided: Option<BTreeMap<TxnId, Time>>,
        untold: &SiteSet,
    ) {
        self.members.lock().replace(site, moved, decided, untold);
    }

    fn admit(&self, site: SiteId) -> bool {
        self.members.lock().admit(site)
    }

    /// Begins a takeover or a readmission of sites. `None` while one of these is under way with one
    /// of the sites.
    fn begin(&self, sites: &SiteSet, towards: Towards) -> Option<Transit<'_>> {
        let has_begun = self.members.lock().begin(sites, towards);
        has_begun.then(|| Transit { membership: self, sites: sites.clone() })
    }

    fn say_of(&self, of: SiteId) -> Saying<'_> {
        self.members.lock().say_of(of);
        Saying { membership: self, of }
    }
}

impl<T: Transport> Conductor<T> {
    /// Queues a site whose log has failed, or whose process is down, for [`Conductor::fail_over`].
    pub fn site_failed(&self, site: SiteId) {
        let _ = self.membership.failures.add(site);
    }

    /// Queues a site of another process that has restarted for [`Conductor::readmit_returned`].
    pub fn site_returned(&self, site: SiteId) {
        let _ = self.membership.returned.add(site);
    }

    /// Lets other sites take over from those that [have failed](Conductor::site_failed), until the
    /// conductor is [closed](Conductor::close). Runs beside the transactions.
    pub async fn fail_over(&self, told: impl Fn(&FailedOver)) {
        let failures = &self.membership.failures;
        let mut under_way = FuturesUnordered::new();
        loop {
            let site = match under_way.is_empty() {
                true => failures.next().await,
                // A takeover that waits for a site does not delay others.
                false => match select(pin!(failures.next()), under_way.next()).await {
                    Either::Left((site, _)) => site,
                    Either::Right((over, _)) => {
                        over.iter().for_each(&told);
                        continue;
                    }
                },
            };
            let Some(site) = site else { break };
            if self.transport.failure(site).is_some() {
                under_way.push(self.pass_by(site, &told));
            }
        }
    }

    /// Lets other sites take over from one that has [failed](Transport::failure). While that is
    /// impossible, `told` receives the reason.
    pub async fn pass_by(&self, site: SiteId, told: &impl Fn(&FailedOver)) -> FailedOver {
        let done = Evacuation::of(self, site).run(told).await;
        backups::restore(self);
        done
    }

    /// Readmits the sites that [have returned](Conductor::site_returned), until the conductor is
    /// [closed](Conductor::close). Runs beside the transactions. A site that returns during a
    /// readmission is readmitted at the same time, because one may wait for an answer of the other.
    pub async fn readmit_returned(&self) {
        let returned = &self.membership.returned;
        while let Some(first) = returned.next().await {
            let mut under_way = FuturesUnordered::new();
            under_way.push(self.readmit_in_the_end(first));
            while !under_way.is_empty() {
                match select(pin!(returned.next()), under_way.next()).await {
                    Either::Left((Some(next), _)) => under_way.push(self.readmit_in_the_end(next)),
                    Either::Left((None, _)) => return,
                    Either::Right(_) => {}
                }
            }
        }
    }

    /// Readmits a site, retrying until it succeeds. Ends if the site becomes unreachable: its next
    /// restart queues it again.
    async fn readmit_in_the_end(&self, site: SiteId) {
        let readmit =
            async || nodes::bring_in(self, site).await.is_ok() && self.readmit(site).await.is_ok();
        while !readmit().await && self.check_site(site).is_ok() {
            self.transport.retry(site).await;
        }
    }

    /// Makes a site drop what the design does not give it any more, and makes it a member again.
    /// Several sites may be readmitted at once, since one may wait for a message of another.
    ///
    /// # Errors
    /// [`Refusal`], of the first step that is refused.
    pub async fn readmit(&self, site: SiteId) -> Result<(), Refusal> {
        Readmission::of(self, site).run().await
    }

    /// True if a site may rejoin with empty files, because others have taken over all that it had.
    pub(crate) fn may_be_empty(&self, site: SiteId) -> bool {
        self.membership.is_replaced(site) && !holds_any(&self.design(), site)
    }

    /// Declares a site with a failure dead until it is readmitted, whether or not others can take
    /// over from it.
    pub(super) fn give_up(&self, site: SiteId) {
        if self.transport.failure(site).is_some() {
            self.membership.members.lock().give_up(site);
        }
    }

    /// True from the start of a takeover from a site until the site is readmitted, and during its
    /// readmission.
    pub(crate) fn is_given_up(&self, site: SiteId) -> bool {
        self.membership.members.lock().is_given_up(site)
    }

    /// True if a site is up and a member.
    pub(super) fn is_usable(&self, site: SiteId) -> bool {
        self.transport.failure(site).is_none() && !self.membership.is_passed_by(site)
    }

    /// Refuses a change that needs an unreachable site, before it begins: once begun, it would wait
    /// for the site, and block all tasks that wait for the change. Also refuses a change that would
    /// bring data to a site whose log has failed, or that depends on what a dead site has done.
    pub(super) fn check_members(&self, design: &Design, change: &Change) -> Result<(), Error> {
        let is_removed = matches!(change, Change::RemoveReplica { .. });
        let (master, target) = sites_of(design, change);
        if let Some(site) = target {
            // A copy at a failed site is removed without asking that site.
            match self.transport.failure(site) {
                Some(_) if is_removed => {}
                Some(error) => {
                    let (change, refusal) = (Box::new(change.clone()), Refusal::Log(error));
                    return Err(Error::Change { change, refusal });
                }
                None => self.check_site(site)?,
            }
        }
        master.map_or(Ok(()), |site| self.check_site(site))?;
        let mut needed = master.into_iter().chain(target.filter(|_| !is_removed));
        let is_backed = change.table().is_some_and(|table| has_backups(design, table));
        let is_untold = |site| is_backed && target == Some(site) && backups::is_untold(self, site);
        let is_not_known = |site: &SiteId| self.is_given_up(*site) || is_untold(*site);
        needed.find(is_not_known).map_or(Ok(()), |site| Err(not_known(site)))
    }

    /// Fails if a site cannot be reached.
    pub(crate) fn check_site(&self, site: SiteId) -> Result<(), Error> {
        match self.transport.reach(site).and_then(|reach| reach.trouble) {
            Some(why) => Err(Error::Failure(Failure::Unreachable { site, why })),
            None => Ok(()),
        }
    }

    /// Ready when no task is about to tell a site whether to accept messages of `site`: a late
    /// message would undo a newer one.
    async fn nothing_said_of(&self, site: SiteId) {
        while self.membership.members.lock().is_said_of(site) {
            self.transport.retry(site).await;
        }
    }
}

/// True from when a site is declared dead until any change may need it: it is readmitted then, and
/// has been told the numbers of backups.
pub(crate) fn is_returning<T: Transport>(conductor: &Conductor<T>, site: SiteId) -> bool {
    conductor.is_given_up(site) || backups::is_untold(conductor, site)
}

/// The refusal of work that needs a site which is not readmitted yet.
pub(super) fn not_known(site: SiteId) -> Error {
    let why = "it was away, and it is not known yet what it has done".to_owned();
    Error::Failure(Failure::Unreachable { site, why })
}

/// True if a table asks for backups.
fn has_backups(design: &Design, table: TableId) -> bool {
    design.table(table).is_ok_and(|table| table.backups().count > 0)
}

/// The placement of the partition at a key.
fn placement(design: &Design, (table, start): &Place) -> Option<Placement> {
    design.partition_of(*table, start).map(|(_, placement)| placement)
}

/// The partitions that a site holds.
async fn describe<T: Transport>(transport: &T, site: SiteId) -> Result<Vec<Holding>, Refusal> {
    match transport.step(site, Step::Describe).await? {
        Answer::Holdings(held) => Ok(held),
        _ => unreachable!("a description was asked for"),
    }
}

/// A site is not of the database any more.
pub(super) fn forget<T: Transport>(conductor: &Conductor<T>, site: SiteId) {
    conductor.membership.members.lock().forget(site);
    lost::note_found(conductor, site);
}

/// True if a site has a copy of any partition.
pub(super) fn holds_any(design: &Design, site: SiteId) -> bool {
    !places(design, |placement| placement.holds(site)).is_empty()
}

/// The partitions whose placement satisfies the predicate.
fn places(design: &Design, is_so: impl Fn(&Placement) -> bool) -> Vec<Place> {
    let mut places = Vec::new();
    let all = KeyRange::all();
    for (table, _) in design.tables() {
        let found = design.partitions_in(table, &all);
        let found = found.filter(|(_, placement)| is_so(placement));
        places.extend(found.map(|(range, _)| (table, range.start)));
    }
    places
}

/// The ranges of partitions, to be reserved.
fn ranges<'p>(
    design: &Design,
    places: impl IntoIterator<Item = &'p Place>,
) -> Vec<(TableId, KeyRange)> {
    let range = |(table, start): &Place| {
        design.partition_of(*table, start).map(|(range, _)| (*table, range))
    };
    places.into_iter().filter_map(range).collect()
}
