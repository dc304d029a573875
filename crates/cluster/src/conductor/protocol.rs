//! Change protocols: the steps at the sites that make one change of the design.
//!
//! ```text
//!   split, merge     master: split                                  metadata only
//!   add_replica      master: follow ──snapshot──▶ new replica: install
//!                    with backups: install ──▶ master: wait for its acknowledgement of the rest
//!   remove_replica   (routing first)  master: unfollow ──▶ replica: drop
//!   remaster         old master: release ··log··▶ new master: acquire
//! ```
//!
//! Each step is atomic at its site and idempotent. A site that does not answer is asked again until
//! it does. So a change completes, or is refused at its first step with the old design in force. If
//! the database is closed before, the next start reads from the sites how far the change has come.
//! Only `add_replica` can be refused after its first step. It is then undone, unless the copy has
//! acknowledged commits that no other backup has: then the copy is needed, and the change is
//! completed.
//!
//! A site whose log [has failed](Transport::failure) will never take its step. A mastership that
//! was released to it returns to the old master by the same promotion as in a takeover
//! ([`isomer_site::Site::promote`]). The same happens to a mastership whose new master lacks room
//! in its log for long. A copy that such a site should drop is ignored together with the site.
//!
//! **A site that is down.** A site whose process [has failed](isomer_log::LogError::Gone) may have
//! made its step, and cannot be asked. So a release is final: the site that it names is the master
//! by the design, whether it has acquired the mastership or not. It acquires it when it is
//! readmitted, unless other sites have taken over from it by then. If the releasing site fails and
//! the new master has not received the release, the new master is promoted ([`super::membership`]).

use crate::transport::Transport;
use futures_util::future::{Either, select};
use isomer_design::{Change, Design, Key, KeyRange, Placement, SiteId, TableId};
use isomer_site::{Answer, Refusal, Step};
use std::pin::pin;

/// The number of times that a mastership is offered to a site without room in its log. Each attempt
/// waits for a tick of the site.
const TRIES_MAX: usize = 100;

/// A copy that is dropped while a site is readmitted is left to the readmission after this number
/// of retries.
const RETRIES_UNTIL_LEFT: usize = 32;

/// The effect of a change that was made.
pub(crate) struct Made {
    /// Rows that were copied.
    pub(crate) rows: usize,
    /// Their bytes.
    pub(crate) bytes: usize,
    /// False if a mastership was released to a site that is down, which was not asked to acquire
    /// it.
    pub(crate) is_acquired: bool,
}

/// Carries out a change that is valid for `design`, except for its effect on the routing table. The
/// runtime adds and removes sites, so those changes have no steps here. A site that is down is not
/// asked. `is_any_returning`: a site is being readmitted.
pub(crate) async fn carry_out<T: Transport>(
    transport: &T,
    design: &Design,
    change: &Change,
    is_given_up: impl Fn(SiteId) -> bool,
    is_any_returning: impl Fn() -> bool,
) -> Result<Made, Refusal> {
    let drops = (&is_given_up, &is_any_returning);
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
            return add_replica(transport, *table, start, copy, is_backed, drops).await;
        }
        Change::RemoveReplica { table, start, site } => {
            let (range, placement) = place(*table, start);
            let unfollow = Step::Unfollow(*table, start.clone(), *site);
            ask_until_known(transport, placement.master, unfollow).await?;
            let drop = Step::Drop(*table, range);
            unless_left(transport, *site, drop, drops).await?;
        }
        Change::Remaster { table, start, to } => {
            let (_, placement) = place(*table, start);
            ask_until_known(transport, placement.master, Step::Release(*table, start.clone(), *to))
                .await?;
            let between = (placement.master, *to);
            match acquire(transport, *table, start, between, &is_given_up).await {
                Ok(is_acquired) => return Ok(Made { rows: 0, bytes: 0, is_acquired }),
                Err(refusal) => {
                    turn_back(transport, *table, start, &placement, *to).await?;
                    return Err(refusal);
                }
            }
        }
        Change::AddSite { .. } | Change::RemoveSite { .. } => {}
    }
    Ok(Made { rows: 0, bytes: 0, is_acquired: true })
}

async fn add_replica<T: Transport>(
    transport: &T,
    table: TableId,
    start: &Key,
    (master, site): (SiteId, SiteId),
    is_backed: bool,
    drops: (impl Fn(SiteId) -> bool, impl Fn() -> bool),
) -> Result<Made, Refusal> {
    let follow = Step::Follow(table, start.clone(), site);
    let Answer::Snapshot(snapshot) = ask(transport, master, follow).await? else {
        unreachable!("a follow is answered with a snapshot")
    };
    let range = snapshot.range.clone();
    let made = Made { rows: snapshot.rows(), bytes: snapshot.bytes(), is_acquired: true };
    let installed = ask(transport, site, Step::Install(snapshot)).await;
    let is_in_the_way = matches!(installed, Err(Refusal::Unfit { .. }));
    let backed = match installed {
        // Before it counts as a backup, it has all that was acknowledged without it.
        Ok(_) if is_backed => {
            ask(transport, master, Step::BackedBy(table, start.clone(), site)).await
        }
        answer => answer,
    };
    let Err(refusal) = backed else { return Ok(made) };
    if !is_unfollowed(transport, (table, start), (master, site), is_in_the_way).await? {
        return Ok(made);
    }
    if is_in_the_way {
        // The site has an older copy that follows another master. That copy is kept until its
        // master restarts, because it may hold the only surviving version ([`super::membership`]).
        return Err(refusal);
    }
    let end = match transport.failure(master) {
        None => Step::Drop(table, range),
        // The master cannot tell the copy that it was unfollowed.
        Some(_) => Step::Discard(table, range),
    };
    unless_left(transport, site, end, drops).await?;
    Err(refusal)
}

/// Ends the following of a site whose copy was refused. Returns false if the copy stays: it is the
/// only one with some acknowledged commits, and has become a backup since, or its site has failed.
/// The evacuation of that site then removes the copy.
pub(super) async fn is_unfollowed<T: Transport>(
    transport: &T,
    (table, start): (TableId, &Key),
    (master, site): (SiteId, SiteId),
    is_in_the_way: bool,
) -> Result<bool, Refusal> {
    loop {
        let unfollow = Step::Unfollow(table, start.clone(), site);
        let needed = match passing_by(transport, master, unfollow).await {
            Err(refusal @ Refusal::Unfit { .. }) => refusal,
            done => return done.map(|()| true),
        };
        if transport.failure(site).is_some() {
            return Ok(false);
        }
        if transport.is_closing() {
            return Err(needed);
        }
        // A site with an older copy in the way cannot become a backup.
        let backed_by = Step::BackedBy(table, start.clone(), site);
        if !is_in_the_way && ask(transport, master, backed_by).await.is_ok() {
            return Ok(false);
        }
        transport.retry(master).await;
    }
}

/// Makes a site acquire a mastership that another site has released to it. Returns false if one of
/// the two is declared dead first, or the database closes.
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
            // The site is fenced from the releasing one. The takeover or readmission of the
            // releasing site continues from here.
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

/// Returns a released mastership to the site that had it.
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
    // Other replicas may follow the new master already. A replica that cannot turn back falls
    // behind, and is not asked again.
    for site in before.replicas.without(to).iter().filter(healthy) {
        let turn = Step::Turn(table, start.clone(), version, before.master);
        let _ = transport.step(site, turn).await;
    }
    Ok(())
}

/// Takes a step that is not needed if the log of its site has failed.
async fn passing_by<T: Transport>(transport: &T, site: SiteId, step: Step) -> Result<(), Refusal> {
    match insist(transport, site, step).await {
        Err(Refusal::Log(_)) if transport.failure(site).is_some() => Ok(()),
        answer => answer.map(drop),
    }
}

/// Makes a site drop a copy, unless the site is declared dead, or a readmission is under way
/// for long. The end of that readmission drops the copies that the design does not give to sites.
/// Waiting for the step could deadlock: it may wait behind an older copy, whose events only the
/// returning site has, while its reservation blocks the readmission.
async fn unless_left<T: Transport>(
    transport: &T,
    site: SiteId,
    step: Step,
    (is_given_up, is_any_returning): (impl Fn(SiteId) -> bool, impl Fn() -> bool),
) -> Result<(), Refusal> {
    let left = async {
        let mut retries = 0;
        while !is_given_up(site) && (retries < RETRIES_UNTIL_LEFT || !is_any_returning()) {
            transport.retry(site).await;
            retries += 1;
        }
    };
    match select(pin!(passing_by(transport, site, step)), pin!(left)).await {
        Either::Left((done, _)) => done,
        Either::Right(_) => Ok(()),
    }
}

/// Takes the second step of a change that has begun. A log that refuses the step may have room
/// later, or be reopened. Retries until the log is known to have failed for good.
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

/// Takes a step at a site. Retries until the site answers, its log fails, or the database closes.
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

/// Like [`ask`], for the last step of a change. A write before the failure of the log is in doubt
/// until the site has read its log again, so the site is then asked once more.
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
