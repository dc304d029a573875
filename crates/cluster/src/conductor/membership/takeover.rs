//! Takeover from sites whose processes are down: the conductor cannot ask the sites themselves.
//!
//! ```text
//!   s1 fails ─▶ fence       all others refuse its messages, and report their knowledge of it
//!               reserve     its masterships, which no other task changes from then on
//!               history     its log, if that outlives its process; or the longest tail of it
//!                           (rule: isomer-site::tail)
//!               frames      every follower gets what it lacks of that history
//!               promote     a follower of each partition
//!               outcomes    sites in doubt of its transactions receive the outcomes
//!               replaced    no site waits for its messages any more
//!   s1 restarts ─▶ discard  partitions that others have taken over; only then others accept its
//!                           messages ([`super::readmission`])
//! ```
//!
//! **All or nothing.** A transaction that s1 had in doubt may write any of its partitions with
//! backups, and may be there when s1 restarts. No reader may see half of a transaction, so all of
//! these partitions are taken over or none. Once the first has been promoted, the promotions of the
//! others are retried without limit.
//!
//! **Sites that are lost together** are taken over together: those of a process, and of all
//! processes that are down. One may be in doubt of a transaction of another, and each would block
//! the takeover of the other. Their tails contain each other's outcomes. So each step above covers
//! all of them, and a takeover replaces all of them or none.
//!
//! **All others are asked.** A site that is away and not declared dead yet may be in doubt of a
//! transaction of s1. It could ask no site for the outcome once s1 has forgotten. So the conductor
//! waits until that site has restarted or is declared dead as well.
//!
//! A site that was replaced and has restarted is left out while it does not answer, like one that
//! is away: it may wait for s1 itself before it is readmitted ([`super::unheard`]).
//!
//! **Fenced before reserved.** A transaction or a change may have reserved partitions of s1 while
//! it waits for s1. It may wait at a replica that makes no progress, or for a mastership that s1
//! has released. Once s1 is fenced, it is refused, and releases its reservation.
//!
//! **Followers without a tail.** A site that begins to follow s1 when a mastership moves there gets
//! the tail a moment later. If s1 fails before, that site may stay a follower if others with the
//! tail have come as far ([`may_be_beyond`]). A site that has lost the tail by a restart may have
//! held the only copy of a vote of s1 on which a commit rests. The takeover then waits for s1.
//!
//! **Masterships in transit.** A mastership that was released to s1 belongs to s1, acquired or not
//! ([`crate::conductor::protocol`]). A change that ends during the takeover may add such a
//! mastership, so the takeover looks again. A mastership that s1 has released does not belong to s1
//! any more, but the new master may not have received the release. So it is taken over as well, by
//! that new master. If the new master has restarted, it may have lost events that it had
//! acknowledged in memory. Then the log of s1 is read, or the takeover waits for s1.
//!
//! **A site that masters no partition with backups** has no site that keeps its tail; a tail that a
//! site still has is old. There is nothing to take over, unless a site is in doubt of a decision of
//! s1: then the takeover waits for s1.
//!
//! Tables without backups wait for the site, because no other site may have their acknowledged
//! writes.

use super::beyond::{Released, may_be_beyond};
use super::lost::note_lost;
use super::lost_batch::complete;
use super::promotion::{Surveyed, promote};
use super::report::FailedOver;
use super::state::Towards;
use super::{AT_ONCE, Place, describe, has_backups, placement, places, ranges};
use crate::conductor::copy::home;
use crate::conductor::{Conductor, Reservation};
use crate::gateways::messages::News;
use crate::transport::Transport;
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream::iter;
use isomer_design::{Change, Design, Key, KeyRange, SiteId, SiteSet, TableId, Time};
use isomer_log::LogError;
use isomer_site::{Answer, Holding, Lost, Step, TailCopy, TakeOver, TxnId, take_over};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;

/// The number of frames that followers are sent at once.
const FRAMES_AT_ONCE: usize = 4096;

/// The remaining sites' knowledge of those that are down, the history of each of these, and the
/// survey of each partition.
type Survey = (BTreeMap<SiteId, Lost>, BTreeMap<SiteId, TakeOver>, Vec<(Place, Surveyed)>);

/// A takeover from a site whose process is down. See the [module documentation](self).
pub(super) struct Takeover<'c, T> {
    conductor: &'c Conductor<T>,
    site: SiteId,
    /// The reason of the changes, for operators.
    reason: &'c str,
    /// The logs of lost sites that were read so far: nothing comes after their ends.
    histories: Mutex<BTreeMap<SiteId, TailCopy>>,
}

impl<'c, T: Transport> Takeover<'c, T> {
    pub(super) fn of(conductor: &'c Conductor<T>, site: SiteId, reason: &'c str) -> Self {
        Takeover { conductor, site, reason, histories: Mutex::default() }
    }

    /// Lets others take over. Retries until they have, or the site has restarted. `told` receives
    /// the reason whenever it changes.
    pub(super) async fn run(&self, told: &impl Fn(&FailedOver)) -> FailedOver {
        let Takeover { conductor, site, .. } = *self;
        let mut said = Vec::new();
        loop {
            // Until the site is readmitted, its copies would be in the way of new ones. It may have
            // been readmitted since the last attempt.
            conductor.give_up(site);
            match self.attempt().await {
                Err(over) if conductor.transport.failure(site).is_none() => return over,
                Err(over) if over.unavailable != said => {
                    told(&over);
                    said = over.unavailable;
                }
                Err(_) => {}
                Ok(over) if !self.may_master() => return over,
                Ok(_) => {}
            }
            conductor.transport.retry(site).await;
        }
    }

    /// True if the site masters a partition with backups, or a mastership is on its way there.
    fn may_master(&self) -> bool {
        let Takeover { conductor, site, .. } = *self;
        let is_on_its_way =
            |change: &Change| matches!(change, Change::Remaster { to, .. } if *to == site);
        let mut places = mastered_by(&conductor.design(), &SiteSet::of(site)).into_iter();
        let design = conductor.design();
        conductor.jobs.any(is_on_its_way) || places.any(|(table, _)| has_backups(&design, table))
    }

    /// Takes over from the site together with all others that are down and not replaced yet. Only
    /// all of their tails together show the outcomes of transactions that they were committing
    /// together.
    async fn attempt(&self) -> Result<FailedOver, FailedOver> {
        let lost = self.lost();
        let transit = self.conductor.membership.begin(&lost, Towards::Gone);
        if transit.is_none() || self.conductor.transport.failure(self.site).is_none() {
            return Err(self.failed_over(0, &BTreeMap::new()));
        }
        for site in lost.iter() {
            self.conductor.nothing_said_of(site).await;
        }
        if note_lost(self.conductor, &lost).is_err() {
            return Err(self.failed_over(0, &BTreeMap::new()));
        }
        // A transaction that waits for one of the lost sites would keep its reservations for ever.
        for other in self.reachable() {
            for site in lost.iter() {
                let _ = self.conductor.transport.step(other, Step::Fence(site)).await;
            }
        }
        let done = self.take_over_fenced(&lost).await;
        // One may have restarted before others could take over.
        let is_replaced = |site: &SiteId| self.conductor.membership.is_replaced(*site);
        let heard: Vec<SiteId> = lost.iter().filter(|site| !is_replaced(site)).collect();
        for other in self.reachable() {
            for site in &heard {
                let _ = self.conductor.transport.step(other, Step::Admit(*site)).await;
            }
        }
        done
    }

    /// The site, and all others that are down and not replaced yet.
    fn lost(&self) -> SiteSet {
        let is_gone = |other: &SiteId| {
            matches!(self.conductor.transport.failure(*other), Some(LogError::Gone { .. }))
                && !self.conductor.membership.is_replaced(*other)
        };
        let sites = self.conductor.design().sites().clone();
        sites.iter().filter(is_gone).chain([self.site]).collect()
    }

    async fn take_over_fenced(&self, lost: &SiteSet) -> Result<FailedOver, FailedOver> {
        let Takeover { conductor, site, reason, .. } = *self;
        let Some((_reserved, places)) = self.reserve_places(lost).await else {
            return Err(self.failed_over(0, &BTreeMap::new()));
        };
        let design = conductor.design();
        let (backed, others): (Vec<&Place>, Vec<&Place>) =
            places.iter().partition(|(table, _)| has_backups(&design, *table));
        // A task of its own reports each of the other lost sites.
        let is_told = |place: &&&Place| {
            let master = self.master_at(place).filter(|master| lost.contains(*master));
            master.is_none_or(|master| master == site)
        };
        let why = "its table asks for no backups".to_owned();
        let mut left: BTreeMap<&Place, String> =
            others.iter().filter(is_told).map(|place| (*place, why.clone())).collect();
        match self.survey_without(lost, &backed).await {
            Ok((known, found, surveys)) => {
                let mut moved: BTreeMap<SiteId, usize> = BTreeMap::new();
                for (place, _) in &surveys {
                    let master = self.master_at(place).filter(|master| lost.contains(*master));
                    *moved.entry(master.unwrap_or(site)).or_default() += 1;
                }
                let promotions = surveys.iter().map(|(place, survey)| async move {
                    while promote(conductor, place, survey, reason).await.is_err() {
                        self.conductor.transport.retry(survey.candidates[0]).await;
                    }
                });
                iter(promotions).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
                let mut untold = SiteSet::EMPTY;
                for (lost, found) in &found {
                    untold = &untold | &self.end_in_doubt(*lost, &known[lost], found).await;
                }
                for (lost, found) in found {
                    let moved = moved.get(&lost).copied().unwrap_or(0);
                    let decided = found.end.is_some().then_some(found.decided);
                    conductor.membership.replace(lost, moved, decided, &untold);
                    conductor.transport.set_taken_over(lost, found.end);
                    conductor.news.add(|| News::TakenOver(lost));
                }
                let moved = conductor.membership.replaced(site).map_or(0, |it| it.moved);
                Ok(self.failed_over(moved, &left))
            }
            // Other sites may still lack what this site has released.
            Err(_) if backed.is_empty() && !self.has_any_backups() => {
                Ok(self.failed_over(0, &left))
            }
            Err(why) => {
                left.extend(backed.iter().filter(is_told).map(|place| (*place, why.clone())));
                Err(self.failed_over(0, &left))
            }
        }
    }

    fn failed_over(&self, moved: usize, left: &BTreeMap<&Place, String>) -> FailedOver {
        FailedOver::of(&self.conductor.design(), self.site, moved, left)
    }

    fn has_any_backups(&self) -> bool {
        self.conductor.design().tables().any(|(_, table)| table.backups().count > 0)
    }

    fn master_at(&self, place: &Place) -> Option<SiteId> {
        placement(&self.conductor.design(), place).map(|placement| placement.master)
    }

    /// Reserves the partitions that the lost sites master. Also reserves those without a master
    /// because a lost site has released them. `None` if a lost site has restarted, or another site
    /// cannot be asked.
    async fn reserve_places(&self, lost: &SiteSet) -> Option<(Reservation<'_>, Vec<Place>)> {
        let mut unacquired = Vec::new();
        loop {
            let of_sites = |design: &Design| {
                let mut found = mastered_by(design, lost);
                found.extend(unacquired.iter().cloned());
                found
            };
            let reserved = self.conductor.reserve(|design| ranges(design, &of_sites(design)));
            // Once a lost site has restarted, its work may wait for sites that it is fenced from.
            let Either::Left((reserved, _)) =
                select(pin!(reserved), pin!(self.is_any_back(lost))).await
            else {
                return None;
            };
            let now = self.unacquired(lost).await?;
            // A lost site may have restarted.
            if self.is_any_there(lost) {
                return None;
            }
            if now.iter().all(|place| unacquired.contains(place)) {
                let mut places = mastered_by(&self.conductor.design(), lost);
                places.extend(now);
                return Some((reserved, places));
            }
            unacquired = now;
        }
    }

    fn is_any_there(&self, lost: &SiteSet) -> bool {
        lost.iter().any(|site| self.conductor.transport.failure(site).is_none())
    }

    /// Ready when one of these sites has no failure any more.
    async fn is_any_back(&self, lost: &SiteSet) {
        while !self.is_any_there(lost) {
            self.conductor.transport.retry(lost.first().expect("a site is gone")).await;
        }
    }

    /// The sites that can be asked.
    fn reachable(&self) -> Vec<SiteId> {
        let design = self.conductor.design();
        let can_be = |site: &SiteId| {
            self.conductor.transport.failure(*site).is_none()
                && self.conductor.check_site(*site).is_ok()
        };
        design.sites().iter().filter(can_be).collect()
    }

    /// Finds out how far partitions had come, and sends their followers what they lack. The error
    /// says why none of them can be taken over.
    async fn survey_without(&self, lost: &SiteSet, places: &[&Place]) -> Result<Survey, String> {
        self.check_others(lost)?;
        let mut known: BTreeMap<SiteId, Lost> = BTreeMap::new();
        let mut others = self.reachable();
        let released = self.released_by(lost, places).await?;
        for site in lost.iter() {
            let mut places = mastered_by(&self.conductor.design(), &SiteSet::of(site)).into_iter();
            let of = known.entry(site).or_default();
            of.is_kept = places.any(|(table, _)| has_backups(&self.conductor.design(), table));
            let mut silent = SiteSet::EMPTY;
            for other in &others {
                match self.conductor.transport.step(*other, Step::Fence(site)).await {
                    Ok(Answer::Fenced(fenced)) => drop(of.known.insert(*other, *fenced)),
                    Ok(_) => unreachable!("what is known of a site was asked for"),
                    // It has just restarted. Others need it as little as one that is away.
                    Err(_) if self.conductor.membership.is_replaced(*other) => {
                        silent.insert(*other);
                    }
                    Err(refusal) => return Err(refusal.to_string()),
                }
            }
            others.retain(|other| !silent.contains(*other));
            let forgotten =
                released.iter().find(|it| it.from == site && it.is_forgotten(&of.known));
            // A process whose log is taken ends, so this is only done if it helps others.
            let is_in_doubt = of.known.values().any(|fenced| !fenced.in_doubt.is_empty());
            if of.is_kept || is_in_doubt || forgotten.is_some() {
                of.log = self.history(site)?;
            }
            if let (Some(released), None) = (forgotten, &of.log) {
                return Err(released.to_string());
            }
        }
        let decided = self.conductor.order.take_over();
        let found = take_over(&known)?;
        // A site that is not readmitted yet may hold what others have taken over from it.
        let mut members = others.clone();
        members.retain(|site| self.conductor.is_usable(*site));
        let mut undecided =
            found.iter().flat_map(|(site, found)| found.undecided.iter().map(move |p| (site, p)));
        if let Some((site, (table, start))) = undecided.next() {
            return Err(format!(
                "{site} was prepared to write {table}[{start}] for a site that cannot be asked either"
            ));
        }
        for (site, found) in &found {
            for frames in found.frames.chunks(FRAMES_AT_ONCE) {
                for other in &members {
                    let frames = Step::TakeFrames(*site, frames.to_vec());
                    let taken = self.conductor.transport.step(*other, frames).await;
                    taken.map_err(|refusal| refusal.to_string())?;
                }
            }
        }
        for (site, of) in &known {
            if let (Some(decided), Some(log)) = (&decided, &of.log) {
                complete(self.conductor, (*site, log), decided, &members).await?;
            }
        }
        let places = self.reshape(places, &members).await?;
        let mut surveys = Vec::new();
        for place in places {
            let survey = self.survey_with(&place, &others, (&known, &found)).await?;
            surveys.push((place, survey));
        }
        Ok((known, found, surveys))
    }

    /// The partitions among these that lost sites have released, and whose new masters have not
    /// received the release.
    async fn released_by(
        &self,
        lost: &SiteSet,
        places: &[&Place],
    ) -> Result<Vec<Released>, String> {
        let (design, mut found) = (self.conductor.design(), Vec::new());
        for (table, start) in places.iter().copied() {
            let Some((range, placement)) = design.partition_of(*table, start) else { continue };
            let to = placement.master;
            if lost.contains(to) || design.table(*table).is_ok_and(|it| it.backups().on_disk) {
                continue;
            }
            let held = describe(&self.conductor.transport, to).await;
            for holding in held.map_err(|refusal| refusal.to_string())? {
                let is_part = holding.table == *table && holding.range.overlaps(&range);
                let from = holding.source.filter(|source| lost.contains(*source));
                // It may know an earlier release, of its own.
                let is_received = holding.released_to == Some(to);
                if let (true, Some(from), false) = (is_part, from, is_received) {
                    let range = range.clone();
                    found.push(Released { table: *table, range, from, to });
                }
            }
        }
        Ok(found)
    }

    /// The log of a lost site, if it can be read.
    fn history(&self, site: SiteId) -> Result<Option<TailCopy>, String> {
        let mut histories = self.histories.lock();
        if let Some(known) = histories.get(&site) {
            return Ok(Some(known.clone()));
        }
        let read = home(self.conductor).history(site).map_err(|error| error.to_string())?;
        self.conductor.order.note_of_lost(read.iter().flat_map(TailCopy::batch_outcomes).collect());
        histories.extend(read.clone().map(|read| (site, read)));
        Ok(read)
    }

    /// Enters splits and merges that the site had made without reporting them. Returns the current
    /// partitions.
    async fn reshape(&self, places: &[&Place], others: &[SiteId]) -> Result<Vec<Place>, String> {
        let ranges = ranges(&self.conductor.design(), places.iter().copied());
        let mut starts: BTreeMap<&(TableId, KeyRange), BTreeSet<Key>> = BTreeMap::new();
        for other in others {
            let described = describe(&self.conductor.transport, *other).await;
            let held = described.map_err(|refusal| refusal.to_string())?;
            for range in &ranges {
                let is_of = |h: &&Holding| h.table == range.0 && h.range.overlaps(&range.1);
                let of = held.iter().filter(is_of).map(|holding| holding.range.start.clone());
                let of: BTreeSet<Key> = of.collect();
                // A replica that lags behind does not show how the partition was split.
                if !of.is_empty() && starts.insert(range, of.clone()).is_some_and(|it| it != of) {
                    let (table, range) = range;
                    return Err(format!("the replicas of {table}{range} were split differently"));
                }
            }
        }
        let mut now = Vec::new();
        for place in &ranges {
            let Some(found) = starts.get(place) else {
                return Err(format!(
                    "nobody who can be reached has a replica of {}{}",
                    place.0, place.1
                ));
            };
            let (table, range) = (place.0, &place.1);
            if !found.contains(&range.start) {
                let merge = Change::Merge { table, at: range.start.clone() };
                self.conductor.enter(&merge).map_err(|error| error.to_string())?;
            }
            for at in found.iter().filter(|start| range.contains(start)).cloned() {
                if at != range.start {
                    let split = Change::Split { table, at: at.clone() };
                    self.conductor.enter(&split).map_err(|error| error.to_string())?;
                }
                now.push((table, at));
            }
        }
        Ok(now)
    }

    /// Fails if a site outside of `lost` cannot be reached, unless others have taken over from it.
    /// It may have acknowledged events that no other site knows. It may also be in doubt of a
    /// transaction whose outcome no site could tell it later.
    fn check_others(&self, lost: &SiteSet) -> Result<(), String> {
        let (design, reachable) = (self.conductor.design(), self.reachable());
        let is_needed = |other: &SiteId| {
            !lost.contains(*other) && !self.conductor.membership.is_replaced(*other)
        };
        match design.sites().iter().filter(is_needed).find(|other| !reachable.contains(other)) {
            Some(other) => Err(format!("{other} cannot be reached either")),
            None => Ok(()),
        }
    }

    /// Finds out how far a partition had come, and which sites could become its master.
    async fn survey_with(
        &self,
        place: &Place,
        others: &[SiteId],
        (known, found): (&BTreeMap<SiteId, Lost>, &BTreeMap<SiteId, TakeOver>),
    ) -> Result<Surveyed, String> {
        let (table, start) = place;
        let design = self.conductor.design();
        let (_, placement) = design.partition_of(*table, start).ok_or("it is gone")?;
        let mut candidates = Vec::new();
        for other in others.iter().filter(|other| placement.holds(**other)) {
            let step = Step::Standing(*table, start.clone());
            match self.conductor.transport.step(*other, step).await {
                Ok(Answer::Standing(standing)) if standing.version > 0 => {
                    candidates.push((standing.version, *other));
                }
                Ok(_) => {}
                Err(refusal) => return Err(refusal.to_string()),
            }
        }
        let tailed = found.values().filter_map(|found| found.versions.get(place)).max();
        let tailed = tailed.copied().unwrap_or(0);
        let on_disk = design.table(*table).is_ok_and(|table| table.backups().on_disk);
        if let Some(of) = known.get(&placement.master).filter(|of| of.log.is_none())
            && let Some(other) = may_be_beyond(&of.known, &candidates, tailed, on_disk)
        {
            return Err(format!("{other} follows it, and does not have the end of its log"));
        }
        let version = candidates.iter().map(|(has, _)| *has).chain([tailed]).max().unwrap_or(0);
        candidates.sort();
        let furthest = candidates.last().map(|(version, _)| *version);
        // No site would send the missing events to the other replicas.
        let complete = candidates.into_iter().rev().filter(|(has, _)| *has >= version);
        let mut candidates: Vec<SiteId> = complete.map(|(_, site)| site).collect();
        // The site that it was released to may be about to acquire it.
        candidates.sort_by_key(|candidate| *candidate != placement.master);
        let followers = candidates.iter().copied().collect();
        match furthest {
            None => Err(format!("none of the replicas of {table}[{start}] can be reached")),
            Some(furthest) if furthest < version => Err(format!(
                "the backup of {table}[{start}] has lost what it had acknowledged in memory"
            )),
            Some(_) => {
                let without = known.keys().copied().collect();
                Ok(Surveyed { without, version, candidates, followers, shared: Vec::new() })
            }
        }
    }

    /// The partitions that lost sites have released to others, which have not acquired them. A new
    /// master that has not received the release never will. `None` if a site cannot be asked.
    async fn unacquired(&self, lost: &SiteSet) -> Option<Vec<Place>> {
        let mut found = Vec::new();
        for other in self.reachable() {
            let held = match describe(&self.conductor.transport, other).await {
                Ok(held) => held,
                Err(_) if self.conductor.membership.is_replaced(other) => continue,
                Err(_) => return None,
            };
            let design = self.conductor.design();
            let is_unacquired = |holding: &Holding| {
                let placed = design.partition_of(holding.table, &holding.range.start);
                let is_master = placed.is_some_and(|(_, placement)| placement.master == other);
                let is_of_lost = holding.source.is_some_and(|source| lost.contains(source));
                is_master && is_of_lost && has_backups(&design, holding.table)
            };
            let held = held.into_iter().filter(is_unacquired);
            found.extend(held.map(|holding| (holding.table, holding.range.start)));
        }
        Some(found)
    }

    /// Ends the takeover at the other sites, now that the failed site cannot undo it. Sends them
    /// the outcomes of the site's transactions that they are in doubt of, and ends their waits for
    /// the site itself. Returns replaced sites that have not answered: their readmissions tell
    /// them.
    async fn end_in_doubt(&self, site: SiteId, lost: &Lost, found: &TakeOver) -> SiteSet {
        let is_replaced = |site: SiteId| self.conductor.membership.is_replaced(site);
        let sites = self.conductor.design().sites().clone();
        let is_silent = |other: &SiteId| is_replaced(*other) && !lost.known.contains_key(other);
        let mut untold: SiteSet = sites.iter().filter(is_silent).collect();
        for (&other, fenced) in &lost.known {
            let outcome = |txn: &TxnId| (*txn, found.outcomes[txn]);
            let outcomes: Vec<(TxnId, Option<Time>)> =
                fenced.in_doubt.iter().map(outcome).collect();
            for step in [Step::EndInDoubt(outcomes), Step::Replaced(site)] {
                while self.conductor.transport.step(other, step.clone()).await.is_err() {
                    if self.conductor.transport.failure(other).is_some() {
                        // That site asks the failed one itself once both have restarted, and waits
                        // until then.
                        break;
                    }
                    if is_replaced(other) {
                        untold.insert(other);
                        break;
                    }
                    self.conductor.transport.retry(other).await;
                }
            }
        }
        untold
    }
}

/// The partitions that sites master by the design.
fn mastered_by(design: &Design, sites: &SiteSet) -> Vec<Place> {
    places(design, |placement| sites.contains(placement.master))
}
