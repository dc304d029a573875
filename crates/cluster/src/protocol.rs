//! Change protocols: how one change of the design is made true at the sites.
//!
//! ```text
//!   split, merge     master: split                                  metadata only
//!   add_replica      master: follow ──snapshot──▶ new replica: install
//!   remove_replica   (routing first)  master: unfollow ──▶ replica: drop
//!   remaster         old master: release ··log··▶ new master: acquire
//! ```
//!
//! Each step is atomic at its site and answers the same when asked twice. A site that does not answer
//! is asked again until it does: so a change completes, or is refused at its first step with the old
//! design in force. Only `add_replica` can be refused after its first step, and takes it back then.

use crate::transport::Transport;
use isomer_design::{Change, Design, Key, KeyRange, Placement, SiteId, TableId};
use isomer_site::{Answer, Refusal, Step};

/// Carries a change out that is valid for `design`, except for what it does to the router's own
/// tables; gives the number of rows that were copied. Sites come and go by the runtime, not by a
/// protocol.
///
/// # Errors
/// [`Refusal`] if a site refuses; the old design is in force then.
pub(crate) async fn carry_out<T: Transport>(
    transport: &T,
    design: &Design,
    change: &Change,
) -> Result<usize, Refusal> {
    let place = |table: TableId, key: &Key| -> (KeyRange, Placement) {
        design.partition_of(table, key).expect("the change is valid, so the partition exists")
    };
    match change {
        Change::Split { table, at } => {
            let (_, placement) = place(*table, at);
            ask(transport, placement.master, Step::Split(*table, at.clone())).await?;
        }
        Change::Merge { table, at } => {
            let (_, placement) = place(*table, at);
            ask(transport, placement.master, Step::Merge(*table, at.clone())).await?;
        }
        Change::AddReplica { table, start, site } => {
            let (_, placement) = place(*table, start);
            return add_replica(transport, *table, start, placement.master, *site).await;
        }
        Change::RemoveReplica { table, start, site } => {
            let (range, placement) = place(*table, start);
            let unfollow = Step::Unfollow(*table, start.clone(), *site);
            ask(transport, placement.master, unfollow).await?;
            insist(transport, *site, Step::Drop(*table, range)).await?;
        }
        Change::Remaster { table, start, to } => {
            let (_, placement) = place(*table, start);
            ask(transport, placement.master, Step::Release(*table, start.clone(), *to)).await?;
            insist(transport, *to, Step::Acquire(*table, start.clone())).await?;
        }
        Change::AddSite { .. } | Change::RemoveSite { .. } => {}
    }
    Ok(0)
}

async fn add_replica<T: Transport>(
    transport: &T,
    table: TableId,
    start: &Key,
    master: SiteId,
    site: SiteId,
) -> Result<usize, Refusal> {
    let follow = Step::Follow(table, start.clone(), site);
    let Answer::Snapshot(snapshot) = ask(transport, master, follow).await? else {
        unreachable!("a follow is answered with a snapshot")
    };
    let (range, rows) = (snapshot.range.clone(), snapshot.rows());
    let Err(refusal) = ask(transport, site, Step::Install(snapshot)).await else { return Ok(rows) };
    insist(transport, master, Step::Unfollow(table, start.clone(), site)).await?;
    insist(transport, site, Step::Drop(table, range)).await?;
    Err(refusal)
}

/// Takes the second step of a change that has begun, until the site has done it: a log that refuses
/// it now may be repaired, and there is no way back.
async fn insist<T: Transport>(transport: &T, site: SiteId, step: Step) -> Result<Answer, Refusal> {
    loop {
        match ask(transport, site, step.clone()).await {
            Err(Refusal::Log(_)) => transport.retry(site).await,
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
            Err(Refusal::Unavailable(_)) => transport.retry(site).await,
            answer => return answer,
        }
    }
}
