//! Change protocols: how one change of the design is made true at the sites.
//!
//! ```text
//!   split, merge     master: split                                  metadata only
//!   add_replica      master: follow ──snapshot──▶ new replica: install
//!                    if the table has backups: install ──▶ master: it has acknowledged what it was copied without
//!   remove_replica   (routing first)  master: unfollow ──▶ replica: drop
//!   remaster         old master: release ··log··▶ new master: acquire
//! ```
//!
//! Each step is atomic at its site and answers the same when asked twice. A site that does not answer
//! is asked again until it does: so a change completes, or is refused at its first step with the old
//! design in force; or the database is closed before, and the next one that is opened reads at the sites how far it has come. Only `add_replica` can be refused after its first step, and takes it back then.
//!
//! A site whose log [has failed](Transport::failure) will never take its step. What is released to it goes back to
//! the old master, by the same promotion by which others take over from it ([`isomer_site::Site::promote`]); so does
//! what is released to a site that has no room in its log for long. A copy that is to be dropped there is passed by
//! with the site.
//!
//! **A site that is given up.** A site whose process [is gone](isomer_log::LogError::Gone) may have made its step, and nobody
//! can be asked. So a release is final: the site that it names is the master by the design, whether it has acquired
//! or not. It does when it is readmitted, unless others have taken over from it by then. If it is the one that has released
//! that goes, the new master is promoted if it has not heard of the release ([`super::membership`]).

use crate::transport::Transport;
use futures_util::future::{Either, select};
use isomer_design::{Change, Design, Key, KeyRange, Placement, SiteId, TableId};
use isomer_site::{Answer, Refusal, Step};
use std::pin::pin;

/// A site that has no room in its log for a mastership is asked so often; between two times it ticks.
const TRIES_MAX: usize = 100;

/// What has become of a change.
pub(crate) struct Made {
    /// Rows that were copied.
    pub(crate) rows: usize,
    /// False if a mastership was released to a site that is given up, and has not been asked to acquire it.
    pub(crate) is_acquired: bool,
}

/// Carries a change out that is valid for `design`, except for what it does to the router's own tables. Sites come and go by the runtime, not by a
/// protocol. Of a site that is given up nothing is asked.
///
/// # Errors
/// [`Refusal`] if a site refuses; the old design is in force then.
pub(crate) async fn carry_out<T: Transport>(
    transport: &T,
    design: &Design,
    change: &Change,
    is_given_up: impl Fn(SiteId) -> bool,
) -> Result<Made, Refusal> {
    let place = |table: TableId, key: &Key| -> (KeyRange, Placement) {
        design.partition_of(table, key).expect("the change is valid, so the partition exists")
    };
    match change {
        Change::Split { table, at } => {
            let (_, placement) = place(*table, at);
            ask_until_known(transport, placement.master, Step::Split(*table, at.clone())).await?;
        }
        Change::Merge { table, at } => {
            let (_, placement) = place(*table, at);
            ask_until_known(transport, placement.master, Step::Merge(*table, at.clone())).await?;
        }
        Change::AddReplica { table, start, site } => {
            let (_, placement) = place(*table, start);
            let is_backed = design.table(*table).is_ok_and(|table| table.backups().count > 0);
            let copy = (placement.master, *site);
            let rows = add_replica(transport, *table, start, copy, is_backed, is_given_up).await?;
            return Ok(Made { rows, is_acquired: true });
        }
        Change::RemoveReplica { table, start, site } => {
            let (range, placement) = place(*table, start);
            let unfollow = Step::Unfollow(*table, start.clone(), *site);
            ask_until_known(transport, placement.master, unfollow).await?;
            let drop = Step::Drop(*table, range);
            unless_given_up(transport, *site, drop, is_given_up).await?;
        }
        Change::Remaster { table, start, to } => {
            let (_, placement) = place(*table, start);
            ask_until_known(transport, placement.master, Step::Release(*table, start.clone(), *to))
                .await?;
            let between = (placement.master, *to);
            match acquire(transport, *table, start, between, is_given_up).await {
                Ok(is_acquired) => return Ok(Made { rows: 0, is_acquired }),
                Err(refusal) => {
                    turn_back(transport, *table, start, &placement, *to).await?;
                    return Err(refusal);
                }
            }
        }
        Change::AddSite { .. } | Change::RemoveSite { .. } => {}
    }
    Ok(Made { rows: 0, is_acquired: true })
}

async fn add_replica<T: Transport>(
    transport: &T,
    table: TableId,
    start: &Key,
    (master, site): (SiteId, SiteId),
    is_backed: bool,
    is_given_up: impl Fn(SiteId) -> bool,
) -> Result<usize, Refusal> {
    let follow = Step::Follow(table, start.clone(), site);
    let Answer::Snapshot(snapshot) = ask(transport, master, follow).await? else {
        unreachable!("a follow is answered with a snapshot")
    };
    let (range, rows) = (snapshot.range.clone(), snapshot.rows());
    let installed = ask(transport, site, Step::Install(snapshot)).await;
    let is_in_the_way = matches!(installed, Err(Refusal::Unfit { .. }));
    let backed = match installed {
        // Before it counts as a backup, it has all that was acknowledged without it.
        Ok(_) if is_backed => {
            ask(transport, master, Step::BackedBy(table, start.clone(), site)).await
        }
        answer => answer,
    };
    let Err(refusal) = backed else { return Ok(rows) };
    passing_by(transport, master, Step::Unfollow(table, start.clone(), site)).await?;
    if is_in_the_way {
        // An older copy is there, which follows somebody else. It goes when that one is back, as it may have what nobody else
        // has ([`super::membership`]).
        return Err(refusal);
    }
    let end = match transport.failure(master) {
        None => Step::Drop(table, range),
        // Nobody tells the copy that it has been let go.
        Some(_) => Step::Discard(table, range),
    };
    unless_given_up(transport, site, end, is_given_up).await?;
    Err(refusal)
}

/// Has a site acquire what another one has released to it; false if one of them is given up before.
async fn acquire<T: Transport>(
    transport: &T,
    table: TableId,
    start: &Key,
    (from, to): (SiteId, SiteId),
    is_given_up: impl Fn(SiteId) -> bool,
) -> Result<bool, Refusal> {
    let mut tried = 0;
    while !is_given_up(to) {
        match (transport.step(to, Step::Acquire(table, start.clone())).await, transport.failure(to))
        {
            (Ok(_), _) => return Ok(true),
            (Err(_), _) if is_given_up(to) => break,
            // It does not hear the one that has released it. Whoever takes over from that, or readmits it, goes on.
            (Err(Refusal::Unfit { .. }), None) if is_given_up(from) => break,
            (Err(_), None) if transport.is_closing() => break,
            (Err(Refusal::Unfit { .. } | Refusal::Unavailable(_)), None) => {}
            (Err(Refusal::Log(error)), None) if error.is_final() || tried < TRIES_MAX => tried += 1,
            (Err(Refusal::Unavailable(_)), Some(error)) => return Err(Refusal::Log(error)),
            (Err(refusal), _) => return Err(refusal),
        }
        transport.retry(to).await;
    }
    Ok(false)
}

/// Gives a mastership that was released back to the site that had it.
async fn turn_back<T: Transport>(
    transport: &T,
    table: TableId,
    start: &Key,
    before: &Placement,
    to: SiteId,
) -> Result<(), Refusal> {
    let mut version = 0;
    for site in [before.master, to] {
        if let Ok(Answer::Standing(standing)) =
            transport.step(site, Step::Standing(table, start.clone())).await
        {
            version = standing.version.max(version);
        }
    }
    let healthy = |site: &SiteId| transport.failure(*site).is_none();
    let followers = before.holders().without(before.master).iter().filter(healthy).collect();
    let promote = Step::Promote(table, start.clone(), version, followers);
    insist(transport, before.master, promote).await?;
    // Others may have turned to the new master already. Who does not come along stays behind, and is asked no more.
    for site in before.replicas.without(to).iter().filter(healthy) {
        let turn = Step::Turn(table, start.clone(), version, before.master);
        let _ = transport.step(site, turn).await;
    }
    Ok(())
}

/// Takes a step that is not needed at a site whose log has failed.
async fn passing_by<T: Transport>(transport: &T, site: SiteId, step: Step) -> Result<(), Refusal> {
    match insist(transport, site, step).await {
        Err(Refusal::Log(_)) if transport.failure(site).is_some() => Ok(()),
        answer => answer.map(drop),
    }
}

/// Has a site let a copy go. One that is readmitted lets it go then, if the design does not give it
/// the copy; the step could wait for that, behind an older copy, with what the readmission waits
/// for reserved.
async fn unless_given_up<T: Transport>(
    transport: &T,
    site: SiteId,
    step: Step,
    is_given_up: impl Fn(SiteId) -> bool,
) -> Result<(), Refusal> {
    let given_up = async {
        while !is_given_up(site) {
            transport.retry(site).await;
        }
    };
    match select(pin!(passing_by(transport, site, step)), pin!(given_up)).await {
        Either::Left((done, _)) => done,
        Either::Right(_) => Ok(()),
    }
}

/// Takes the second step of a change that has begun: a log that refuses it now may have room later, or be opened
/// again. It is tried until it is known that the log has failed for good.
async fn insist<T: Transport>(transport: &T, site: SiteId, step: Step) -> Result<Answer, Refusal> {
    loop {
        match ask(transport, site, step.clone()).await {
            Err(Refusal::Log(_)) if transport.failure(site).is_none() => {
                transport.retry(site).await;
            }
            answer => return answer,
        }
    }
}

/// Takes a step at a site, again and again until the site answers.
pub(crate) async fn ask<T: Transport>(
    transport: &T,
    site: SiteId,
    step: Step,
) -> Result<Answer, Refusal> {
    loop {
        match transport.step(site, step.clone()).await {
            Err(Refusal::Unavailable(_)) => {
                if let Some(error) = transport.failure(site) {
                    return Err(Refusal::Log(error));
                }
                if transport.is_closing() {
                    return Err(Refusal::Unavailable(site));
                }
                transport.retry(site).await;
            }
            answer => return answer,
        }
    }
}

/// As [`ask`], for a step that nothing follows: what was written before the log failed is in doubt until the site
/// has read it again, so it is asked once more then.
async fn ask_until_known<T: Transport>(
    transport: &T,
    site: SiteId,
    step: Step,
) -> Result<Answer, Refusal> {
    loop {
        match ask(transport, site, step.clone()).await {
            Err(Refusal::Log(error)) if error.is_final() && transport.failure(site).is_none() => {
                transport.retry(site).await;
            }
            answer => return answer,
        }
    }
}
