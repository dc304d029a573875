//! Evacuation: moves masterships and copies off a site whose log has failed, or whose process is
//! down.
//!
//! ```text
//!   s1 has failed ─▶ its copies of other masters' partitions: the masters remove them all
//!                    its masterships: reserved together
//!                      survey    how far is each partition durable, and where?
//!                      decide    which sites may be promoted (rule: isomer-site::failover)
//!                      promote   ([`super::promotion`])
//!                    a partition that no site can take over stays, and is refused with the failure
//! ```
//!
//! A site whose process stays down for the failover timeout is evacuated in the same way, but
//! cannot be asked how far its partitions are durable ([`super::takeover`]).
//!
//! From then on no transaction runs there, except one that needs data that is only there, and no
//! change targets the site.
//!
//! A log that another process has opened has not failed: that process continues as the master of
//! its partitions.

use super::lost::note_lost;
use super::promotion::{Surveyed, promote};
use super::report::FailedOver;
use super::takeover::Takeover;
use super::{AT_ONCE, Place, has_backups, placement, places, ranges};
use crate::conductor::{Conductor, backups};
use crate::transport::Transport;
use futures_util::StreamExt;
use futures_util::future::join;
use futures_util::stream::iter;
use isomer_design::{Change, Design, Placement, SiteId, SiteSet, TableId, Version};
use isomer_log::LogError;
use isomer_site::{Answer, Standing, Step};
use std::collections::{BTreeMap, BTreeSet};

/// The evacuation of one site. See the [module documentation](self).
pub(super) struct Evacuation<'c, T> {
    conductor: &'c Conductor<T>,
    site: SiteId,
}

impl<'c, T: Transport> Evacuation<'c, T> {
    pub(super) fn of(conductor: &'c Conductor<T>, site: SiteId) -> Evacuation<'c, T> {
        Evacuation { conductor, site }
    }

    /// Makes others take over what the site masters, and removes its copies from the design. Both
    /// run concurrently, because a transaction in doubt may lock a partition until others have
    /// taken over. While a takeover is impossible, `told` receives the reason.
    pub(super) async fn run(&self, told: &impl Fn(&FailedOver)) -> FailedOver {
        let Evacuation { conductor, site } = *self;
        let is_gone = matches!(conductor.transport.failure(site), Some(LogError::Gone { .. }));
        let reason = match is_gone {
            true => format!("{site} is gone"),
            false => format!("the log of {site} has failed"),
        };
        let mut is_told = false;
        while let Err(why) = note_lost(conductor, &SiteSet::of(site)) {
            let why = format!("the catalog cannot be written: {why}");
            let over = FailedOver { site, moved: 0, unavailable: vec![why] };
            if conductor.transport.failure(site).is_none() {
                return over;
            }
            if !std::mem::replace(&mut is_told, true) {
                told(&over);
            }
            conductor.transport.retry(site).await;
        }
        // A replica that is no backup serves reads again once a site that is down restarts.
        let is_let_go = |table| !is_gone || has_backups(&conductor.design(), table);
        let copies = || self.let_go(&reason, is_let_go);
        let taken_over = async {
            let over = match is_gone {
                true => Takeover::of(conductor, site, &reason).run(told).await,
                false => self.take_over(&reason).await,
            };
            // Also before all copies are removed, because that may take long.
            backups::restore(conductor);
            over
        };
        let (_, over) = join(copies(), taken_over).await;
        // The site may have restarted for a moment, so that its copies were kept, and failed again.
        copies().await;
        over
    }

    /// Lets others take over from the site, which can be asked how far its partitions are durable.
    async fn take_over(&self, reason: &str) -> FailedOver {
        let Evacuation { conductor, site } = *self;
        let mastered = |design: &Design| places(design, |placement| placement.master == site);
        let _reserved = conductor.reserve(|design| ranges(design, &mastered(design))).await;
        let places = mastered(&conductor.design());
        let surveys = places.iter().map(|place| async move { (place, self.survey(place).await) });
        let surveys: BTreeMap<&Place, Result<Surveyed, String>> =
            iter(surveys).buffer_unordered(AT_ONCE).collect().await;
        let promotable = promotable(&surveys);
        let promotions = promotable.into_iter().map(|place| {
            let survey = &surveys[place];
            async move {
                let survey = survey.as_ref().expect("only what was surveyed can be promoted");
                (place, promote(conductor, place, survey, reason).await)
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
        FailedOver::of(&conductor.design(), site, places.len() - left.len(), &left)
    }

    /// Removes the copies that the site has of other masters' partitions, because commits to those
    /// partitions wait for the site. Includes copies that a change under way adds, or splits from
    /// others. Ready when none is left, except those whose masters cannot be reached either, or
    /// when the site has restarted.
    async fn let_go(&self, reason: &str, is_of: impl Fn(TableId) -> bool) {
        let Evacuation { conductor, site } = *self;
        let is_copy = |placement: &Placement| {
            let master = placement.master;
            placement.replicas.contains(site)
                && conductor.transport.failure(master).is_none()
                && conductor.check_site(master).is_ok()
        };
        let is_on_its_way =
            |change: &Change| matches!(change, Change::AddReplica { site: to, .. } if *to == site);
        while conductor.transport.failure(site).is_some() {
            // In this order: a change that ends between the two is in the design.
            let is_any_on_its_way = conductor.jobs.any(is_on_its_way);
            let mut copies = places(&conductor.design(), is_copy);
            copies.retain(|(table, _)| is_of(*table));
            if copies.is_empty() && !is_any_on_its_way {
                return;
            }
            let released = copies.into_iter().map(|(table, start)| {
                let change = Change::RemoveReplica { table, start, site };
                async move { conductor.change(change, reason).await.is_ok() }
            });
            let released: Vec<bool> = iter(released).buffer_unordered(AT_ONCE).collect().await;
            if !released.contains(&true) {
                conductor.transport.retry(site).await;
            }
        }
    }

    /// Asks all sites that hold a partition how far it is durable there.
    async fn survey(&self, place: &Place) -> Result<Surveyed, String> {
        let transport = &self.conductor.transport;
        let (table, start) = place;
        let placement = placement(&self.conductor.design(), place).ok_or("it is gone")?;
        let mut found: Vec<(Version, SiteId)> = Vec::new();
        let mut shared = Vec::new();
        for site in placement.holders().iter() {
            let step = Step::Standing(*table, start.clone());
            match transport.step(site, step).await {
                Ok(Answer::Standing(Standing { version, shared: with })) => {
                    found.push((version, site));
                    // Transactions that other sites have in doubt are resolved by their own logs.
                    shared.extend(with.into_iter().filter(|_| transport.failure(site).is_some()));
                }
                Ok(_) => unreachable!("a standing was asked for"),
                Err(refusal) => return Err(refusal.to_string()),
            }
        }
        found.sort();
        let version = found.last().map_or(0, |(version, _)| *version);
        let healthy = |site: &SiteId| transport.failure(*site).is_none();
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
}

/// Returns the partitions that can be promoted and share no transaction in doubt, directly or
/// through others, with a partition that cannot.
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
    use isomer_design::Key;

    #[test]
    fn what_shares_a_transaction_in_doubt_is_promoted_together_or_not_at_all() {
        let places: Vec<Place> = (0..5).map(|id| (TableId(1), Key::int(id))).collect();
        let surveyed = |shared: &[usize]| {
            let shared = shared.iter().map(|at| places[*at].clone()).collect();
            let followers = SiteSet::of(SiteId(2));
            let without = SiteSet::of(SiteId(1));
            Ok(Surveyed { without, version: 7, candidates: vec![SiteId(2)], followers, shared })
        };
        // 0 and 1 share a transaction, so do 2 and 3, and so do 3 and 4, which has no replica.
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
