//! A transport that reports what did not happen, or makes happen what was not asked for.

use super::Plant;
use crate::world::SimTransport;
use isomer_design::{Footprint, SiteId, Time};
use isomer_site::{Abort, Across, Committed, Failure, Procedure, Txn};

/// Of a thousand transactions that could be spoilt, so many are.
const SPOILT_PER_MILLE: u64 = 50;

/// Runs a transaction, or something like it.
pub(crate) async fn execute(
    way: &SimTransport,
    site: SiteId,
    footprint: &Footprint,
    session: Time,
    procedure: &mut dyn Procedure,
) -> Result<Committed, Failure> {
    let spoilt = way.world().plant().filter(|_| way.world().chance(SPOILT_PER_MILLE));
    match spoilt {
        Some(Plant::ForgottenSession) => {
            way.execute_honestly(site, footprint, Time::ZERO, procedure).await
        }
        Some(Plant::TwoTransactions) => {
            let reading = reading(footprint);
            let mut nothing = |_: &mut Txn<'_>| Ok(());
            // The reads see one moment, and the writes go where they would have gone.
            let before = way.execute_honestly(site, &reading, session, &mut nothing).await?;
            way.world().sleep(5_000_000).await;
            let after = way.execute_honestly(site, footprint, session, procedure).await?;
            Ok(Committed { snapshot: before.snapshot, commit: after.commit })
        }
        Some(Plant::ErrorAfterCommit) if !footprint.is_read_only() => {
            way.execute_honestly(site, footprint, session, procedure).await?;
            Err(Failure::Abort(Abort::because("a planted error")))
        }
        Some(Plant::CommitAfterNothing) if !footprint.is_read_only() => {
            let mut ran = None;
            let mut undone = |txn: &mut Txn<'_>| {
                procedure.run(txn)?;
                ran = Some(txn.snapshot());
                Err(Abort::because("a planted rollback"))
            };
            let failure = way.execute_honestly(site, footprint, session, &mut undone).await;
            match (ran, failure) {
                (Some(snapshot), Err(Failure::Abort(_))) => {
                    Ok(Committed { snapshot, commit: Some(Time(snapshot.0 + 1)) })
                }
                (_, failure) => failure,
            }
        }
        Some(Plant::RepeatedTransaction) => {
            way.execute_honestly(site, footprint, session, procedure).await?;
            way.execute_honestly(site, footprint, session, procedure).await
        }
        _ => way.execute_honestly(site, footprint, session, procedure).await,
    }
}

/// Lets a site coordinate a transaction, or something like it.
pub(crate) async fn coordinate(
    way: &SimTransport,
    site: SiteId,
    across: &Across<'_>,
    procedure: &mut dyn Procedure,
) -> Result<Committed, Failure> {
    let spoilt = way.world().plant().filter(|_| way.world().chance(SPOILT_PER_MILLE));
    match spoilt {
        Some(Plant::ForgottenSession) => {
            let forgetful = Across { session: Time::ZERO, ..across.clone() };
            way.coordinate_honestly(site, &forgetful, procedure).await
        }
        Some(Plant::ErrorAfterCommit) if !across.footprint.is_read_only() => {
            way.coordinate_honestly(site, across, procedure).await?;
            Err(Failure::Abort(Abort::because("a planted error")))
        }
        _ => way.coordinate_honestly(site, across, procedure).await,
    }
}

/// The footprint with everything only read.
fn reading(footprint: &Footprint) -> Footprint {
    let mut reading = Footprint::new();
    for item in footprint.items() {
        reading.add(item.table, item.span.clone(), isomer_design::Access::Read);
    }
    reading
}
