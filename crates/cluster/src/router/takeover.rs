//! Taking over from a site whose process is gone: what the router does where nobody can ask the site itself.
//!
//! ```text
//!   s1 is gone ─▶ fence      all others hear no more of it, and say what they know of it
//!                 reserve    what it masters, which nobody changes from then on
//!                 history    the longest tail of its log (isomer-site::tail has the rule)
//!                 frames     every follower gets what it lacks of that
//!                 promote    a follower of each partition
//!                 outcomes   who was in doubt of a transaction of s1 hears of it
//!                 replaced   nobody waits any more for a word of s1
//!   s1 is back ─▶ discard    what others have taken over; only then it is heard again (`readmission`)
//! ```
//!
//! **All or nothing.** What s1 had in doubt when it went may be of any of its partitions with backups, and may be there
//! when it is back. So all of them are taken over, or none: nobody may see half of a transaction. Once the first has
//! been promoted, the others are promoted however long that takes.
//!
//! **All others are asked.** A site that is away as well may be in doubt of a transaction of s1, and could ask nobody what
//! became of it once s1 has forgotten; so it is waited for, unless others have taken over from it before.
//!
//! **Fenced before reserved.** A transaction or a change may have reserved what s1 masters and wait for a word of it: at a
//! replica that does not go on, for a mastership that s1 has released. Once s1 is not heard, it is refused, and gives back
//! what it has reserved.
//!
//! **Who has no tail.** A site that begins to follow s1 as a mastership goes there gets the tail a moment later. If s1 is gone
//! before, that site may stay a follower if others with the tail have come as far ([`may_be_beyond`]). One that has lost the
//! tail by a restart is another matter: it may have been the only one that had the vote of s1 on which a commit rests. Then
//! s1 is waited for.
//!
//! **Masterships on their way.** What was released to s1 is its own, acquired or not ([`crate::protocol`]); a change that
//! ends while others take over may bring more of that, so they look once more. What s1 has released is not its own any
//! more, but whoever is to acquire it may not have heard of that: so it is taken over as well, by that site.
//!
//! **A site that masters nothing for others** has nobody who keeps its tail: one that somebody has is old. There is nothing to
//! take over, unless somebody is in doubt of what it has decided: then it is waited for.
//!
//! Tables without backups wait for the site: what was acknowledged may be nowhere else.

use super::Router;
use super::failover::{AT_ONCE, FailedOver, Place, Surveyed, places, ranges};
use crate::reservation::Reservation;
use crate::transport::Transport;
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream::iter;
use isomer_design::{Change, Design, Key, KeyRange, SiteId, TableId, Time, Version};
use isomer_site::{Answer, Fenced, Holding, Step, TakeOver, TxnId, take_over};
use parking_lot::Mutex;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;

/// What the sites that are left know of one that is gone.
type Known = BTreeMap<SiteId, Fenced>;

/// What is under way with a site: each of these undoes what the other does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Towards {
    /// Others take over from it.
    Gone,
    /// It is readmitted.
    Back,
}

/// The sites that something is under way with.
pub(super) type InTransit = Mutex<BTreeMap<SiteId, Towards>>;

/// Nobody else takes over from a site, or readmits it, before this is dropped.
pub(super) struct Transit<'r> {
    in_transit: &'r InTransit,
    site: SiteId,
}

impl Drop for Transit<'_> {
    fn drop(&mut self) {
        self.in_transit.lock().remove(&self.site);
    }
}

/// The sites of which others are about to be told whether to hear them.
pub(super) type SaidOf = Mutex<Vec<SiteId>>;

/// See [`Router::say_of`].
pub(super) struct Saying<'r> {
    said_of: &'r SaidOf,
    of: SiteId,
}

impl Drop for Saying<'_> {
    fn drop(&mut self) {
        let mut said_of = self.said_of.lock();
        let at = said_of.iter().position(|other| *other == self.of);
        at.map(|at| said_of.swap_remove(at));
    }
}

impl<T: Transport> Router<T> {
    pub(super) fn has_backups(&self, table: TableId) -> bool {
        self.design().table(table).is_ok_and(|table| table.backups().count > 0)
    }

    /// A site that is gone counts as given up until it is readmitted; whether or not others can take over from it.
    pub(super) fn give_up(&self, site: SiteId) {
        if self.transport.failure(site).is_some() {
            self.given_up.lock().entry(site).or_default();
        }
    }

    fn has_any_backups(&self) -> bool {
        self.design().tables().any(|(_, table)| table.backups().count > 0)
    }

    /// Lets others take over from a site that is gone. If they cannot, it is tried again until they can, or the site is
    /// back; `told` is told why, whenever that is something else.
    pub(super) async fn take_over_from(
        &self,
        site: SiteId,
        reason: &str,
        told: &impl Fn(&FailedOver),
    ) -> FailedOver {
        let (mut moved, mut said) = (0, Vec::new());
        loop {
            // Until it is readmitted, what it holds would be in the way of new copies. It may have been already.
            self.give_up(site);
            match self.try_to_take_over(site, reason).await {
                Err(over) if self.transport.failure(site).is_none() => return over,
                Err(over) if over.unavailable != said => {
                    told(&over);
                    said = over.unavailable;
                }
                Err(_) => {}
                Ok(over) => {
                    moved += over.moved;
                    if !self.may_master(site) {
                        return FailedOver { moved, ..over };
                    }
                }
            }
            self.transport.retry(site).await;
        }
    }

    /// True if a site masters something that has backups, or a mastership is on its way there.
    fn may_master(&self, site: SiteId) -> bool {
        let is_on_its_way =
            |change: &Change| matches!(change, Change::Remaster { to, .. } if *to == site);
        let mut places = mastered_by(&self.design(), site).into_iter();
        self.jobs.any(is_on_its_way) || places.any(|(table, _)| self.has_backups(table))
    }

    async fn try_to_take_over(&self, site: SiteId, reason: &str) -> Result<FailedOver, FailedOver> {
        let transit = self.begin_transit(site, Towards::Gone);
        if transit.is_none() || self.transport.failure(site).is_none() {
            return Err(self.failed_over(site, &[], BTreeMap::new()));
        }
        self.nothing_said_of(site).await;
        // Who waits for a word of it would keep for ever what it has reserved.
        for other in self.reachable() {
            let _ = self.transport.step(other, Step::Fence(site)).await;
        }
        let done = self.take_over_fenced(site, reason).await;
        if !self.is_replaced(site) {
            // It may be back before others can take over.
            for other in self.reachable() {
                let _ = self.transport.step(other, Step::Admit(site)).await;
            }
        }
        done
    }

    async fn take_over_fenced(&self, site: SiteId, reason: &str) -> Result<FailedOver, FailedOver> {
        let Some((_reserved, places)) = self.reserve_places(site).await else {
            return Err(self.failed_over(site, &[], BTreeMap::new()));
        };
        // Others keep the end of its log if it is a master for them.
        let is_kept = mastered_by(&self.design(), site).iter().any(|(t, _)| self.has_backups(*t));
        let (backed, others): (Vec<&Place>, Vec<&Place>) =
            places.iter().partition(|(table, _)| self.has_backups(*table));
        let why = "its table asks for no backups".to_owned();
        let mut left: BTreeMap<&Place, String> =
            others.into_iter().map(|place| (place, why.clone())).collect();
        match self.survey_without(site, &backed, is_kept).await {
            Ok((found, surveys)) => {
                let promotions = surveys.iter().map(|(place, survey)| async move {
                    while self.promote(place, survey, reason).await.is_err() {
                        self.transport.retry(survey.candidates[0]).await;
                    }
                });
                iter(promotions).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
                let end = found.1.end;
                self.end_in_doubt(site, found).await;
                self.given_up.lock().insert(site, true);
                self.transport.set_taken_over(site, end);
            }
            // Others may still lack what it has released.
            Err(_) if backed.is_empty() && !self.has_any_backups() => {}
            Err(why) => {
                left.extend(backed.into_iter().map(|place| (place, why.clone())));
                return Err(self.failed_over(site, &places, left));
            }
        }
        Ok(self.failed_over(site, &places, left))
    }

    /// Reserves what a site that is gone masters, and what nobody masters as it has released it. `None` if it is back, or
    /// somebody cannot be asked.
    async fn reserve_places(&self, site: SiteId) -> Option<(Reservation<'_>, Vec<Place>)> {
        let mut unacquired = Vec::new();
        loop {
            let of_site = |design: &Design| {
                let mut found = mastered_by(design, site);
                found.extend(unacquired.iter().cloned());
                found
            };
            let reserved = self.reserve(|design| ranges(design, &of_site(design)));
            // Once it is back, what is under way there may wait for those who do not hear it.
            let Either::Left((reserved, _)) =
                select(pin!(reserved), pin!(self.is_back(site))).await
            else {
                return None;
            };
            let now = self.unacquired(site).await?;
            // It may be back.
            self.transport.failure(site)?;
            if now.iter().all(|place| unacquired.contains(place)) {
                let mut places = mastered_by(&self.design(), site);
                places.extend(now);
                return Some((reserved, places));
            }
            unacquired = now;
        }
    }

    /// Ready when a site is not given up any more.
    async fn is_back(&self, site: SiteId) {
        while self.transport.failure(site).is_some() {
            self.transport.retry(site).await;
        }
    }

    /// Begins to take over from a site or to readmit it; `None` while one of these is under way.
    pub(super) fn begin_transit(&self, site: SiteId, towards: Towards) -> Option<Transit<'_>> {
        let mut in_transit = self.in_transit.lock();
        let Entry::Vacant(free) = in_transit.entry(site) else { return None };
        free.insert(towards);
        Some(Transit { in_transit: &self.in_transit, site })
    }

    /// A site is about to be told whether to hear another one, until this is dropped.
    pub(super) fn say_of(&self, other: SiteId) -> Saying<'_> {
        self.said_of.lock().push(other);
        Saying { said_of: &self.said_of, of: other }
    }

    /// Ready when nobody is about to be told whether to hear a site: what arrives late would undo what is said now.
    pub(super) async fn nothing_said_of(&self, site: SiteId) {
        while self.said_of.lock().contains(&site) {
            self.transport.retry(site).await;
        }
    }

    /// True while others take over from a site.
    pub(super) fn is_taken_over(&self, site: SiteId) -> bool {
        self.in_transit.lock().get(&site) == Some(&Towards::Gone)
    }

    /// The sites that can be asked.
    fn reachable(&self) -> Vec<SiteId> {
        let design = self.design();
        let can_be = |site: &SiteId| {
            self.transport.failure(*site).is_none() && self.check_site(*site).is_ok()
        };
        design.sites().iter().filter(can_be).collect()
    }

    /// Works out how far partitions had come, and lets their followers have what they lack of that. An error says why
    /// none of them can be taken over.
    async fn survey_without(
        &self,
        site: SiteId,
        places: &[&Place],
        is_kept: bool,
    ) -> Result<((Known, TakeOver), Vec<(Place, Surveyed)>), String> {
        self.check_others(site)?;
        let mut known = Known::new();
        for other in self.reachable() {
            match self.transport.step(other, Step::Fence(site)).await {
                Ok(Answer::Fenced(fenced)) => drop(known.insert(other, *fenced)),
                Ok(_) => unreachable!("what is known of a site was asked for"),
                Err(refusal) => return Err(refusal.to_string()),
            }
        }
        let found = take_over(&known, is_kept)?;
        if let Some((table, start)) = found.undecided.first() {
            return Err(format!(
                "it was prepared to write {table}[{start}] for a site that cannot be asked either"
            ));
        }
        for other in known.keys() {
            let frames = Step::TakeFrames(site, found.frames.clone());
            self.transport.step(*other, frames).await.map_err(|refusal| refusal.to_string())?;
        }
        let places = self.reshape(places, &known).await?;
        let mut surveys = Vec::new();
        for place in places {
            let survey = self.survey_with(site, &place, &known, &found).await?;
            surveys.push((place, survey));
        }
        Ok(((known, found), surveys))
    }

    /// Enters splits and merges that the site had made without being able to say so. Gives the partitions as they are.
    async fn reshape(&self, places: &[&Place], known: &Known) -> Result<Vec<Place>, String> {
        let ranges = ranges(&self.design(), places.iter().copied());
        let mut starts: BTreeMap<&(TableId, KeyRange), BTreeSet<Key>> = BTreeMap::new();
        for other in known.keys() {
            let described = self.transport.step(*other, Step::Describe).await;
            let Answer::Holdings(held) = described.map_err(|refusal| refusal.to_string())? else {
                unreachable!("a description was asked for")
            };
            for range in &ranges {
                let is_of = |h: &&Holding| h.table == range.0 && h.range.overlaps(&range.1);
                let of = held.iter().filter(is_of).map(|holding| holding.range.start.clone());
                let of: BTreeSet<Key> = of.collect();
                // One that lags behind says nothing of what became of the partition.
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
                self.enter(&merge).map_err(|error| error.to_string())?;
                continue;
            }
            for at in found.iter().filter(|start| range.contains(start)).cloned() {
                if at != range.start {
                    let split = Change::Split { table, at: at.clone() };
                    self.enter(&split).map_err(|error| error.to_string())?;
                }
                now.push((table, at));
            }
        }
        Ok(now)
    }

    /// Whoever is away as well may have acknowledged what nobody else knows of, or be in doubt of what nobody could tell it
    /// any more; unless others have taken over from it before.
    fn check_others(&self, site: SiteId) -> Result<(), String> {
        let (design, reachable) = (self.design(), self.reachable());
        let given_up = self.given_up.lock();
        let is_replaced = |other: &SiteId| given_up.get(other) == Some(&true);
        let is_needed = |other: &SiteId| *other != site && !is_replaced(other);
        match design.sites().iter().filter(is_needed).find(|other| !reachable.contains(other)) {
            Some(other) => Err(format!("{other} cannot be reached either")),
            None => Ok(()),
        }
    }

    /// How far a partition had come, and who could take it.
    async fn survey_with(
        &self,
        without: SiteId,
        place: &Place,
        known: &Known,
        found: &TakeOver,
    ) -> Result<Surveyed, String> {
        let (table, start) = place;
        let design = self.design();
        let (_, placement) = design.partition_of(*table, start).ok_or("it is gone")?;
        let mut candidates = Vec::new();
        for other in known.keys().filter(|other| placement.holds(**other)) {
            let step = Step::Standing(*table, start.clone());
            match self.transport.step(*other, step).await {
                Ok(Answer::Standing(standing)) if standing.version > 0 => {
                    candidates.push((standing.version, *other));
                }
                Ok(_) => {}
                Err(refusal) => return Err(refusal.to_string()),
            }
        }
        let tailed = found.versions.get(place).copied().unwrap_or(0);
        let on_disk = design.table(*table).is_ok_and(|table| table.backups().on_disk);
        if placement.master == without
            && let Some(other) = may_be_beyond(known, &candidates, tailed, on_disk)
        {
            return Err(format!("{other} follows it, and does not have the end of its log"));
        }
        let version = candidates.iter().map(|(has, _)| *has).chain([tailed]).max().unwrap_or(0);
        candidates.sort();
        let furthest = candidates.last().map(|(version, _)| *version);
        // Nobody would send the others what they lack.
        let complete = candidates.into_iter().rev().filter(|(has, _)| *has >= version);
        let mut candidates: Vec<SiteId> = complete.map(|(_, site)| site).collect();
        // Whoever it was released to may be about to acquire it.
        candidates.sort_by_key(|candidate| *candidate != placement.master);
        let followers = candidates.iter().copied().collect();
        match furthest {
            None => Err(format!("none of the replicas of {table}[{start}] can be reached")),
            Some(furthest) if furthest < version => Err(format!(
                "the backup of {table}[{start}] has lost what it had acknowledged in memory"
            )),
            Some(_) => Ok(Surveyed { without, version, candidates, followers, shared: Vec::new() }),
        }
    }

    /// The partitions that the site has released to others, who have not acquired them: if they have not heard of the
    /// release, they never will. `None` if it is not known.
    async fn unacquired(&self, site: SiteId) -> Option<Vec<Place>> {
        let mut found = Vec::new();
        for other in self.reachable() {
            let described = self.transport.step(other, Step::Describe).await.ok()?;
            let Answer::Holdings(held) = described else {
                unreachable!("a description was asked for")
            };
            let design = self.design();
            let is_unacquired = |holding: &Holding| {
                let placed = design.partition_of(holding.table, &holding.range.start);
                let is_master = placed.is_some_and(|(_, placement)| placement.master == other);
                is_master && holding.source == Some(site) && self.has_backups(holding.table)
            };
            let held = held.into_iter().filter(is_unacquired);
            found.extend(held.map(|holding| (holding.table, holding.range.start)));
        }
        Some(found)
    }

    /// Tells those who are in doubt of a transaction of a site what became of it, now that nothing of that can come back;
    /// and who waits for the site's own word that he need not wait.
    async fn end_in_doubt(&self, site: SiteId, (known, found): (Known, TakeOver)) {
        for (other, fenced) in known {
            let outcome = |txn: &TxnId| (*txn, found.outcomes[txn]);
            let outcomes: Vec<(TxnId, Option<Time>)> =
                fenced.in_doubt.iter().map(outcome).collect();
            for step in [Step::EndInDoubt(outcomes), Step::Replaced(site)] {
                while self.transport.step(other, step.clone()).await.is_err() {
                    if self.transport.failure(other).is_some() {
                        // It asks the site itself once both are back, and waits until then.
                        break;
                    }
                    self.transport.retry(other).await;
                }
            }
        }
    }
}

/// Who of the followers of a partition may have had more than the tail reaches: one part of a transaction, while nobody has
/// the rest. It has no tail itself, as it has begun to follow only now, or has started again. If it had one before, others
/// may have relied on the end of that. If it had not, all that counts is whether it has come further than those that have
/// one, which have applied all of it; of a backup in memory that is not known.
fn may_be_beyond(
    known: &Known,
    standings: &[(Version, SiteId)],
    tailed: Version,
    on_disk: bool,
) -> Option<SiteId> {
    let run = known.values().map(|fenced| fenced.run).max();
    let has_tail = |site: &SiteId| Some(known[site].run) == run && known[site].tail.is_some();
    let (with, without): (Vec<_>, Vec<_>) =
        standings.iter().copied().partition(|(_, site)| has_tail(site));
    let reached = with.into_iter().map(|(version, _)| version).fold(tailed, Version::max);
    let is_beyond = |(version, site): &(Version, SiteId)| {
        known[site].has_lost_tail || !on_disk || *version > reached
    };
    without.into_iter().find(is_beyond).map(|(_, site)| site)
}

/// The partitions that a site masters by the design.
fn mastered_by(design: &Design, site: SiteId) -> Vec<Place> {
    places(design, |placement| placement.master == site)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_no_tail_is_no_further_than_those_who_have_it() {
        let [s1, s3] = [SiteId(1), SiteId(3)];
        let tail = Fenced { run: 7, tail: Some(Default::default()), ..Fenced::default() };
        let none = |run| Fenced { run, ..Fenced::default() };
        let beyond = |version, run, tailed, on_disk| {
            let known = Known::from([(s1, tail.clone()), (s3, none(run))]);
            may_be_beyond(&known, &[(4, s1), (version, s3)], tailed, on_disk)
        };
        // It was its master, and follows it since a moment.
        assert_eq!(beyond(4, 7, 0, true), None);
        assert_eq!(beyond(3, 0, 0, true), None);
        // The tail goes further than the follower that has it could say.
        assert_eq!(beyond(6, 7, 6, true), None);
        assert_eq!(beyond(5, 7, 0, true), Some(s3));
        // It may have acknowledged 5, and have lost it.
        assert_eq!(beyond(4, 7, 0, false), Some(s3));
        // It may have kept the tail before it started again.
        let known =
            Known::from([(s1, tail.clone()), (s3, Fenced { has_lost_tail: true, ..none(7) })]);
        assert_eq!(may_be_beyond(&known, &[(4, s1), (4, s3)], 0, true), Some(s3));
        // A tail of an earlier run is none.
        let old = Fenced { run: 6, ..tail.clone() };
        let known = Known::from([(s1, tail.clone()), (s3, old)]);
        assert_eq!(may_be_beyond(&known, &[(4, s1), (5, s3)], 0, true), Some(s3));
    }
}
