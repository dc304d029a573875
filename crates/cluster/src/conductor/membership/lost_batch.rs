//! The batch of the total order that a failed site may lack ([`crate::ordered`]).
//!
//! ```text
//!   s1    enters 43                 ✕ fails, without its frame of 43
//!   s2    enters 43   installs 43 at 930
//!   s3    follows s1: frame of 43 at 930, after the history of s1  ─▶ promoted
//! ```
//!
//! The batch was decided, and its rows may be read at other sites. So the followers get the part of
//! the failed site before any of them is promoted, at the time of the batch.

use super::{Place, has_backups};
use crate::conductor::Conductor;
use crate::ordered::Decided;
use crate::transport::Transport;
use isomer_design::{SiteId, Version};
use isomer_site::{Answer, RowWrite, Step, TailCopy};
use std::collections::BTreeMap;

/// Completes the history of a site with a batch, at the sites that follow it.
///
/// # Errors
/// In words, if a site cannot be asked.
pub(super) async fn complete<T: Transport>(
    conductor: &Conductor<T>,
    (site, log): (SiteId, &TailCopy),
    decided: &Decided,
    members: &[SiteId],
) -> Result<(), String> {
    let number = decided.number();
    if log.batch_outcomes().last().is_some_and(|last| last.number >= number) {
        return Ok(());
    }
    let design = conductor.design();
    let mut rows: BTreeMap<Place, Vec<RowWrite>> = BTreeMap::new();
    for write in &decided.writes {
        let Some((range, placement)) = design.partition_of(write.table, &write.key) else {
            continue;
        };
        if placement.master == site && has_backups(&design, write.table) {
            rows.entry((write.table, range.start)).or_default().push(write.clone());
        }
    }
    let mut parts = Vec::new();
    for (place, rows) in rows {
        let mut version = 0;
        for member in members {
            version = version.max(standing(conductor, *member, &place).await?);
        }
        if version > 0 {
            parts.push((place, version, rows));
        }
    }
    if parts.is_empty() {
        return Ok(());
    }
    let frame = log.lacking_batch(&decided.outcomes, &parts);
    for member in members {
        let step = Step::TakeFrames(site, vec![frame.clone()]);
        let taken = conductor.transport().step(*member, step).await;
        taken.map_err(|refusal| refusal.to_string())?;
    }
    Ok(())
}

/// The version of a partition at a site; 0 if it holds none.
async fn standing<T: Transport>(
    conductor: &Conductor<T>,
    site: SiteId,
    (table, start): &Place,
) -> Result<Version, String> {
    match conductor.transport().step(site, Step::Standing(*table, start.clone())).await {
        Ok(Answer::Standing(standing)) => Ok(standing.version),
        Ok(_) => unreachable!("the standing was asked for"),
        Err(refusal) => Err(refusal.to_string()),
    }
}
