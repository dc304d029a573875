//! A transport that gives sites other steps of batches than the executor asks for.

use super::Plant;
use crate::world::SimTransport;
use isomer_cluster::fused_row;
use isomer_design::{Footprint, SiteId, Time};
use isomer_site::{BatchAnswer, BatchOutcome, BatchStep, Check, Failure, RowWrite, Sees};

/// How many of a thousand suitable steps are corrupted.
const SPOILT_PER_MILLE: u64 = 50;

/// Takes a step of a batch, or a corrupted one in its place.
pub(crate) async fn batch(
    way: &SimTransport,
    site: SiteId,
    mut step: BatchStep,
) -> Result<BatchAnswer, Failure> {
    let spoils = |plant| way.world().spoils(plant, SPOILT_PER_MILLE);
    match &mut step {
        // A row that a commit has read and then changes is checked twice: as read, and by its
        // version.
        BatchStep::Enter { checks, .. } if way.world().spoils(Plant::UncheckedBatch, 1000) => {
            let is_version = |check: &Check| matches!(check.sees, Sees::Version(_));
            let of_versions: Vec<bool> = checks.iter().map(is_version).collect();
            for check in checks.iter_mut().filter(|check| !is_version(check)) {
                check.sees = Sees::Since(Time(u64::MAX));
            }
            let mut entered = way.batch_honestly(site, step).await?;
            if let BatchAnswer::Entered(answers) = &mut entered {
                let answers = answers.iter_mut().zip(of_versions);
                answers.filter(|(_, it)| *it).for_each(|(answer, _)| *answer = Some(1));
            }
            return Ok(entered);
        }
        BatchStep::Install { outcomes, is_repeated: false, .. } if spoils(Plant::OwnTime) => {
            outcomes.last_mut().into_iter().for_each(|own| own.time.0 += u64::from(site.0));
        }
        BatchStep::Install { outcomes, .. } if spoils(Plant::OwnOutcome) => {
            let own = outcomes.last_mut().and_then(|own| own.applied.first_mut());
            own.into_iter().for_each(|applied| *applied = !*applied);
        }
        BatchStep::Install { writes, .. } if spoils(Plant::LostMove) => {
            writes.retain(|write| write.value.is_none() || fused_row(&write.key).is_none());
        }
        BatchStep::Install { outcomes, writes, .. }
            if !writes.is_empty() && spoils(Plant::RepeatedBatch) =>
        {
            let (outcomes, writes) = (outcomes.clone(), writes.clone());
            let installed = way.batch_honestly(site, step).await?;
            // A failure of the second execution is not reported.
            let _ = again(way, site, outcomes, writes).await;
            return Ok(installed);
        }
        BatchStep::Settle { .. } if way.world().spoils(Plant::UnsettledBatch, 1000) => {
            return Ok(BatchAnswer::Done);
        }
        _ => {}
    }
    way.batch_honestly(site, step).await
}

/// Executes a batch that a site has once more, later.
async fn again(
    way: &SimTransport,
    site: SiteId,
    mut outcomes: Vec<BatchOutcome>,
    writes: Vec<RowWrite>,
) -> Result<(), Failure> {
    let Some(own) = outcomes.last_mut() else { return Ok(()) };
    let (number, attempt, checks) = (own.number, u64::MAX, Vec::new());
    let keys = writes.iter().map(|write| (write.table, write.key.clone()));
    let footprint = keys.fold(Footprint::new(), |all, (table, key)| all.write(table, key));
    way.batch_honestly(site, BatchStep::Enter { number, attempt, footprint, checks }).await?;
    let proposed = way.batch_honestly(site, BatchStep::Propose { number }).await?;
    if let BatchAnswer::Proposed(time) = proposed {
        own.time = time;
    }
    way.batch_honestly(site, BatchStep::Install { outcomes, writes, is_repeated: false }).await?;
    Ok(())
}
