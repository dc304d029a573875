//! Promotion: a partition gets another master without asking the old one.
//!
//! ```text
//!   candidates, the most advanced first ─▶ promote ─▶ other replicas follow the new master
//!                                                  ─▶ routing table: new master, no failed sites
//!                                                  ─▶ replicas that cannot follow are discarded
//! ```

use super::{Place, placement};
use crate::conductor::{Conductor, protocol};
use crate::transport::Transport;
use futures_util::future::join_all;
use isomer_design::{Change, SiteId, SiteSet, Version};
use isomer_site::Step;

/// The survey of a partition that needs another master.
pub(super) struct Surveyed {
    /// The sites that are ignored.
    pub(super) without: SiteSet,
    /// The version that a new master must have applied.
    pub(super) version: Version,
    /// The sites that could be promoted, the most advanced one first.
    pub(super) candidates: Vec<SiteId>,
    /// The sites that can follow the new master: they have all that the others may lack, or will.
    pub(super) followers: SiteSet,
    /// Partitions that it must be promoted together with.
    pub(super) shared: Vec<Place>,
}

/// Promotes the first candidate that can become the master of a partition.
///
/// # Errors
/// The refusal of the last candidate, in words; nothing has changed then.
pub(super) async fn promote<T: Transport>(
    conductor: &Conductor<T>,
    place: &Place,
    survey: &Surveyed,
    reason: &str,
) -> Result<(), String> {
    let transport = &conductor.transport;
    let (table, start) = (place.0, place.1.clone());
    let placement = placement(&conductor.design(), place).ok_or("it is gone")?;
    // The old master may have restarted, with transactions in doubt that no site follows.
    let holders = placement.holders();
    let others = holders.iter().filter(|site| !survey.without.contains(*site));
    let healthy: SiteSet = others.filter(|site| transport.failure(*site).is_none()).collect();
    let mut why = String::new();
    for to in survey.candidates.iter().copied() {
        let followers = healthy.without(to);
        let able = &followers & &survey.followers;
        let step = Step::Promote(table, start.clone(), survey.version, able.clone());
        // No other site may be promoted until the outcome of this step is known.
        if let Err(refusal) = protocol::ask(transport, to, step).await {
            why = refusal.to_string();
            continue;
        }
        let begun = transport.now();
        let followers = turn(transport, place, survey.version, to, (followers, able)).await;
        let gone = holders.iter().filter(|site| *site != to && !followers.contains(*site));
        let gone = gone.map(|site| Change::RemoveReplica { table, start: start.clone(), site });
        // The site may be the master by the design already.
        let change = Change::Remaster { table, start: start.clone(), to };
        let change = Some(change).filter(|_| to != placement.master);
        for change in change.into_iter().chain(gone) {
            conductor.enter(&change).map_err(|error| error.to_string())?;
            conductor.tell_of(change, reason, begun);
        }
        discard(conductor, place, &(&healthy.without(to) - &followers)).await;
        return Ok(());
    }
    Err(why)
}

/// Makes followers of a partition follow the promoted site, if they can, and returns these. The
/// others have no master from then on. A follower stays one if it cannot be unfollowed, because its
/// site has failed: its evacuation removes it.
async fn turn<T: Transport>(
    transport: &T,
    (table, start): &Place,
    version: Version,
    to: SiteId,
    (followers, able): (SiteSet, SiteSet),
) -> SiteSet {
    let mut turned = SiteSet::EMPTY;
    for site in able.iter() {
        let turn = Step::Turn(*table, start.clone(), version, to);
        if transport.step(site, turn).await.is_ok() {
            turned.insert(site);
        }
    }
    // Afterwards: the new master unfollows a site once the followers that have turned have all of
    // its events.
    let left = &followers - &turned;
    let left = left.iter().map(|site| async move {
        let pair = (to, site);
        let unfollowed = protocol::is_unfollowed(transport, (*table, start), pair, true).await;
        (site, unfollowed.unwrap_or(true))
    });
    for (site, is_unfollowed) in join_all(left.collect::<Vec<_>>()).await {
        if !is_unfollowed {
            turned.insert(site);
        }
    }
    turned
}

/// Makes sites discard what they have of a partition. A site that is down does so when it is
/// readmitted.
async fn discard<T: Transport>(conductor: &Conductor<T>, (table, start): &Place, sites: &SiteSet) {
    let Some((range, _)) = conductor.design().partition_of(*table, start) else { return };
    for site in sites.iter() {
        let discard = Step::Discard(*table, range.clone());
        let _ = protocol::ask(&conductor.transport, site, discard).await;
    }
}
