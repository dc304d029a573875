//! Failover: what the router does about a site whose log has failed.
//!
//! ```text
//!   the site's log fails ─▶ told ─▶ its replicas elsewhere: their masters let it go, until it has none
//!                                   its masterships: reserved together
//!                                     survey    how far is each partition durable, and where?
//!                                     decide    who may be promoted (isomer-site::failover has the rule)
//!                                     promote ─▶ the other replicas turn to the new master
//!                                             ─▶ routing table: the new master, the failed site nowhere
//!                                   what nobody can take over stays with it, and is refused with its failure
//! ```
//!
//! A site whose process is gone, and does not come back for some time, is passed by in the same way; but nobody can ask it
//! how far its partitions are durable ([`super::takeover`]).
//!
//! From then on no transaction is placed there but one that needs what is only there, and no change targets it
//! ([`Router::check_given_up`]).
//!
//! A log that another process has opened has not failed: what its site masters is at that process, which goes on with it.

use super::Router;
use super::readmission::sites_of;
use crate::error::Error;
use crate::protocol;
use crate::transport::Transport;
use futures_util::StreamExt;
use futures_util::future::{Either, join, select};
use futures_util::stream::{FuturesUnordered, iter};
use isomer_design::{Change, Design, Key, KeyRange, Placement, SiteId, SiteSet, TableId, Version};
use isomer_log::LogError;
use isomer_site::{Answer, Failure, Refusal, Standing, Step};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::pin;

/// So many partitions are worked on at once.
pub(super) const AT_ONCE: usize = 64;

/// A partition, by its table and first key.
pub(super) type Place = (TableId, Key);

/// What became of the partitions of a site whose log has failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailedOver {
    /// The site.
    pub site: SiteId,
    /// How many of its partitions have another master now.
    pub moved: usize,
    /// Those that have none, and why.
    pub unavailable: Vec<String>,
}

impl fmt::Display for FailedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FailedOver { site, moved, unavailable } = self;
        write!(f, "site {site} is passed by: {moved} of its partitions have another master")?;
        if let Some(first) = unavailable.first() {
            let count = unavailable.len();
            write!(f, "; {count} are unavailable until its log can be opened again: {first}")?;
        }
        Ok(())
    }
}

/// What is known of a partition that is to have another master.
pub(super) struct Surveyed {
    /// The sites that are passed by.
    pub(super) without: SiteSet,
    /// What a new master must have applied.
    pub(super) version: Version,
    /// Who could be it, the one that has applied most first.
    pub(super) candidates: Vec<SiteId>,
    /// Who holds what the others may lack, or will.
    pub(super) followers: SiteSet,
    /// Partitions that it must be promoted together with.
    pub(super) shared: Vec<Place>,
}

impl<T: Transport> Router<T> {
    /// The log of a site has failed.
    pub fn site_failed(&self, site: SiteId) {
        // As many fit as there can be sites.
        let _ = self.failures.add(site);
    }

    /// Lets other sites take over from those whose logs [have failed](Router::site_failed), until the router is
    /// [closed](Router::close). To be run beside the transactions.
    pub async fn fail_over(&self, told: impl Fn(&FailedOver)) {
        let mut under_way = FuturesUnordered::new();
        loop {
            let site = match under_way.is_empty() {
                true => self.failures.next().await,
                // One that waits for a site is not waited for by others.
                false => match select(pin!(self.failures.next()), under_way.next()).await {
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

    /// Refuses a change that would bring something to a site whose log has failed, or that needs to know what one that is
    /// given up has done.
    pub(super) fn check_given_up(&self, design: &Design, change: &Change) -> Result<(), Error> {
        let is_let_go = matches!(change, Change::RemoveReplica { .. });
        let (master, target) = sites_of(design, change);
        for site in target.into_iter().filter(|_| !is_let_go) {
            if let Some(error) = self.transport.failure(site) {
                let (change, refusal) = (Box::new(change.clone()), Refusal::Log(error));
                return Err(Error::Change { change, refusal });
            }
        }
        let mut needed = master.into_iter().chain(target.filter(|_| !is_let_go));
        needed.find(|site| self.is_given_up(*site)).map_or(Ok(()), |site| {
            let why = "it was away, and it is not known yet what it has done".to_owned();
            Err(Error::Failure(Failure::Unreachable { site, why }))
        })
    }

    /// True if any site is given up.
    pub(super) fn has_given_up(&self) -> bool {
        !self.given_up.lock().is_empty()
    }

    /// A site that is given up, and from which no site has taken over: what it has released may
    /// arrive only when it is back.
    pub(super) fn waited_for(&self) -> Option<SiteId> {
        let given_up = self.given_up.lock();
        given_up.iter().find(|(_, moved)| moved.is_none()).map(|(site, _)| *site)
    }

    /// True from when others begin to take over from a site until it is readmitted, and while it is.
    pub(super) fn is_given_up(&self, site: SiteId) -> bool {
        self.given_up.lock().contains_key(&site) || self.in_transit.lock().contains_key(&site)
    }

    /// Lets other sites take over from one that has [failed](Transport::failure). While they cannot, `told` is told why.
    pub async fn pass_by(&self, site: SiteId, told: &impl Fn(&FailedOver)) -> FailedOver {
        let done = self.evacuate(site, told).await;
        self.restore_backups();
        done
    }

    /// Has others take over what a site masters, and let go of what it has copies of: at once, as a partition may be locked by
    /// what is in doubt until others have taken over.
    async fn evacuate(&self, site: SiteId, told: &impl Fn(&FailedOver)) -> FailedOver {
        let is_gone = matches!(self.transport.failure(site), Some(LogError::Gone { .. }));
        let reason = match is_gone {
            true => format!("{site} is gone"),
            false => format!("the log of {site} has failed"),
        };
        // What is only there to be read somewhere else may be read there again when a site that is gone is back.
        let copies = || self.let_go(site, &reason, |table| !is_gone || self.has_backups(table));
        let taken_over = async {
            let over = match is_gone {
                true => self.take_over_from(site, &reason, told).await,
                false => self.take_over_from_failed(site, &reason).await,
            };
            // Before all copies are let go, too: that may take long.
            self.restore_backups();
            over
        };
        let (_, over) = join(copies(), taken_over).await;
        // It may have been back for a moment, so that its copies were kept, and gone again.
        copies().await;
        over
    }

    /// Lets others take over from a site that can be asked how far its partitions are durable.
    async fn take_over_from_failed(&self, site: SiteId, reason: &str) -> FailedOver {
        let mastered = |design: &Design| places(design, |placement| placement.master == site);
        let _reserved = self.reserve(|design| ranges(design, &mastered(design))).await;
        let places = mastered(&self.design());
        let surveys = places.iter().map(|place| async move { (place, self.survey(place).await) });
        let surveys: BTreeMap<&Place, Result<Surveyed, String>> =
            iter(surveys).buffer_unordered(AT_ONCE).collect().await;
        let promotable = promotable(&surveys);
        let promotions = promotable.into_iter().map(|place| {
            let survey = &surveys[place];
            async move {
                let survey = survey.as_ref().expect("only what was surveyed can be promoted");
                (place, self.promote(place, survey, reason).await)
            }
        });
        let mut left: BTreeMap<&Place, String> = surveys
            .iter()
            .map(|(place, survey)| {
                let alone = "it branches a transaction in doubt with one that has no other master";
                (*place, survey.as_ref().err().cloned().unwrap_or_else(|| alone.to_owned()))
            })
            .collect();
        let done: Vec<_> = iter(promotions).buffer_unordered(AT_ONCE).collect().await;
        for (place, promoted) in done {
            match promoted {
                Ok(()) => drop(left.remove(place)),
                Err(why) => drop(left.insert(place, why)),
            }
        }
        self.failed_over(site, places.len() - left.len(), left)
    }

    /// Lets the copies go that a site has of what others master, also those that a change under way brings, or splits from
    /// others: whoever commits to one of them waits for the site. Ready when there are none but those whose masters cannot
    /// be asked either, or the site is back.
    async fn let_go(&self, site: SiteId, reason: &str, is_of: impl Fn(TableId) -> bool) {
        let is_copy = |placement: &Placement| {
            let master = placement.master;
            placement.replicas.contains(site)
                && self.transport.failure(master).is_none()
                && self.check_site(master).is_ok()
        };
        let is_on_its_way =
            |change: &Change| matches!(change, Change::AddReplica { site: to, .. } if *to == site);
        while self.transport.failure(site).is_some() {
            // In this order: what is made meanwhile is in the design.
            let is_any_on_its_way = self.jobs.any(is_on_its_way);
            let mut copies = places(&self.design(), is_copy);
            copies.retain(|(table, _)| is_of(*table));
            if copies.is_empty() && !is_any_on_its_way {
                return;
            }
            let released = copies.into_iter().map(|(table, start)| {
                let change = Change::RemoveReplica { table, start, site };
                async move { self.change(change, reason).await.is_ok() }
            });
            let released: Vec<bool> = iter(released).buffer_unordered(AT_ONCE).collect().await;
            if !released.contains(&true) {
                self.transport.retry(site).await;
            }
        }
    }

    pub(super) fn failed_over(
        &self,
        site: SiteId,
        moved: usize,
        left: BTreeMap<&Place, String>,
    ) -> FailedOver {
        let design = self.design();
        let named = |((table, start), why): (&Place, &String)| match design.table(*table) {
            Ok(found) => {
                let schema = found.schema();
                format!("{}[{}]: {why}", schema.name(), schema.format_key(start))
            }
            Err(_) => why.clone(),
        };
        FailedOver {
            site,
            moved,
            unavailable: left.iter().map(|(p, why)| named((*p, why))).collect(),
        }
    }

    /// Asks all who hold a partition how far it is durable there.
    async fn survey(&self, (table, start): &Place) -> Result<Surveyed, String> {
        let placement = self.placement(*table, start).ok_or("it is gone")?;
        let mut found: Vec<(Version, SiteId)> = Vec::new();
        let mut shared = Vec::new();
        for site in placement.holders().iter() {
            let step = Step::Standing(*table, start.clone());
            match self.transport.step(site, step).await {
                Ok(Answer::Standing(Standing { version, shared: with })) => {
                    found.push((version, site));
                    // What others have in doubt, their own logs will tell.
                    shared.extend(
                        with.into_iter().filter(|_| self.transport.failure(site).is_some()),
                    );
                }
                Ok(_) => unreachable!("a standing was asked for"),
                Err(refusal) => return Err(refusal.to_string()),
            }
        }
        found.sort();
        let version = found.last().map_or(0, |(version, _)| *version);
        let healthy = |site: &SiteId| self.transport.failure(*site).is_none();
        let candidates: Vec<SiteId> =
            found.into_iter().rev().map(|(_, site)| site).filter(healthy).collect();
        match candidates.is_empty() {
            true => Err("there is no replica elsewhere".to_owned()),
            false => {
                let without = SiteSet::of(placement.master);
                let followers = candidates.iter().copied().collect();
                Ok(Surveyed { without, version, candidates, followers, shared })
            }
        }
    }

    /// Lets the first of the candidates that can become the master of a partition.
    pub(super) async fn promote(
        &self,
        place: &Place,
        survey: &Surveyed,
        reason: &str,
    ) -> Result<(), String> {
        let (table, start) = (place.0, place.1.clone());
        let placement = self.placement(table, &start).ok_or("it is gone")?;
        // The master may be back meanwhile: with what it had in doubt, which nobody follows.
        let holders = placement.holders();
        let others = holders.iter().filter(|site| !survey.without.contains(*site));
        let healthy = others.filter(|site| self.transport.failure(*site).is_none());
        let healthy: SiteSet = healthy.collect();
        let mut why = String::new();
        for to in survey.candidates.iter().copied() {
            let followers = healthy.without(to);
            let able = &followers & &survey.followers;
            let step = Step::Promote(table, start.clone(), survey.version, able.clone());
            // Until it is known what has become of it, nobody else may be promoted.
            if let Err(refusal) = protocol::ask(&self.transport, to, step).await {
                why = refusal.to_string();
                continue;
            }
            let begun = self.transport.now();
            let followers = self.turn(place, survey.version, to, (followers, able)).await;
            let gone = holders.iter().filter(|site| *site != to && !followers.contains(*site));
            let gone = gone.map(|site| Change::RemoveReplica { table, start: start.clone(), site });
            // It may be the master by the design.
            let change = Change::Remaster { table, start: start.clone(), to };
            let change = Some(change).filter(|_| to != placement.master);
            for change in change.into_iter().chain(gone) {
                self.enter(&change).map_err(|error| error.to_string())?;
                self.tell_of(change, reason, begun, 0);
            }
            let left = &healthy.without(to) - &followers;
            self.discard(place, &left).await;
            return Ok(());
        }
        Err(why)
    }

    /// Lets those that can of the followers of a partition follow the promoted site; gives those that do. The others have
    /// no master from then on.
    async fn turn(
        &self,
        (table, start): &Place,
        version: Version,
        to: SiteId,
        (mut followers, able): (SiteSet, SiteSet),
    ) -> SiteSet {
        for site in followers.clone().iter() {
            let turn = Step::Turn(*table, start.clone(), version, to);
            if able.contains(site) && self.transport.step(site, turn).await.is_ok() {
                continue;
            }
            followers = followers.without(site);
            let unfollow = Step::Unfollow(*table, start.clone(), site);
            let _ = protocol::ask(&self.transport, to, unfollow).await;
        }
        followers
    }

    /// Lets sites discard what they have of a partition. One that is gone does so when it is back.
    async fn discard(&self, (table, start): &Place, sites: &SiteSet) {
        let Some((range, _)) = self.design().partition_of(*table, start) else { return };
        for site in sites.iter() {
            let discard = Step::Discard(*table, range.clone());
            let _ = protocol::ask(&self.transport, site, discard).await;
        }
    }

    pub(super) fn placement(&self, table: TableId, start: &Key) -> Option<Placement> {
        self.design().partition_of(table, start).map(|(_, placement)| placement)
    }
}

/// The partitions whose placement is so.
pub(super) fn places(design: &Design, is_so: impl Fn(&Placement) -> bool) -> Vec<Place> {
    let mut places = Vec::new();
    let all = KeyRange::all();
    for (table, _) in design.tables() {
        let found = design.partitions_in(table, &all);
        let found = found.filter(|(_, placement)| is_so(placement));
        places.extend(found.map(|(range, _)| (table, range.start)));
    }
    places
}

pub(super) fn ranges<'p>(
    design: &Design,
    places: impl IntoIterator<Item = &'p Place>,
) -> Vec<(TableId, KeyRange)> {
    let range = |(table, start): &Place| {
        design.partition_of(*table, start).map(|(range, _)| (*table, range))
    };
    places.into_iter().filter_map(range).collect()
}

/// Of the partitions that could be promoted, those that share no transaction in doubt with one that cannot, nor with
/// one that does.
fn promotable<'p>(surveys: &BTreeMap<&'p Place, Result<Surveyed, String>>) -> BTreeSet<&'p Place> {
    let mut promotable: BTreeSet<&Place> =
        surveys.iter().filter(|(_, survey)| survey.is_ok()).map(|(place, _)| *place).collect();
    loop {
        let is_alone = |place: &&Place| {
            let shared = surveys[place].as_ref().map(|survey| &survey.shared);
            shared.into_iter().flatten().all(|other| promotable.contains(other))
        };
        let left: BTreeSet<&Place> = promotable.iter().copied().filter(is_alone).collect();
        if left.len() == promotable.len() {
            return left;
        }
        promotable = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shares_a_transaction_in_doubt_is_promoted_together_or_not_at_all() {
        let places: Vec<Place> = (0..5).map(|id| (TableId(1), Key::int(id))).collect();
        let surveyed = |shared: &[usize]| {
            let shared = shared.iter().map(|at| places[*at].clone()).collect();
            let followers = SiteSet::of(SiteId(2));
            let without = SiteSet::of(SiteId(1));
            Ok(Surveyed { without, version: 7, candidates: vec![SiteId(2)], followers, shared })
        };
        // 0 and 1 share one, so do 2 and 3, and so do 3 and 4, which has no replica.
        let surveys = [
            surveyed(&[0, 1]),
            surveyed(&[0, 1]),
            surveyed(&[2, 3]),
            surveyed(&[2, 3, 4]),
            Err("there is no replica elsewhere".to_owned()),
        ];
        let surveys: BTreeMap<_, _> = places.iter().zip(surveys).collect();
        let expected: BTreeSet<_> = places[..2].iter().collect();
        assert_eq!(promotable(&surveys), expected);
    }
}
