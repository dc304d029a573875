//! A transport that reports false results, or runs other requests than it was given.

use super::Plant;
use crate::world::SimTransport;
use isomer_design::{Footprint, SiteId, Span, Time};
use isomer_site::{
    Abort, Body, CheckedWrites, Committed, Expect, Failure, Published, ReadSet, Reply, Request, Txn,
};

/// How many of a thousand suitable transactions are corrupted.
const SPOILT_PER_MILLE: u64 = 50;

/// Runs a transaction, or a corrupted one in its place.
pub(crate) async fn execute(
    way: &SimTransport,
    site: SiteId,
    mut request: Request<'_>,
    published: Published<'_>,
) -> Result<Reply, Failure> {
    let spoilt = way.world().plant().filter(|_| way.world().chance(SPOILT_PER_MILLE));
    let (writes, is_shared) = (!request.footprint.is_read_only(), request.branches.is_some());
    if let Body::Writes(checked) = request.body {
        return match way.world().plant() {
            Some(Plant::UncheckedCommit) => {
                let unchecked = unchecked(checked);
                let request = Request { body: Body::Writes(&unchecked), ..request };
                way.execute_honestly(site, request, published).await
            }
            Some(Plant::EarlyRelease) => {
                published(way.world().now());
                way.execute_honestly(site, request, published).await
            }
            _ => way.execute_honestly(site, request, published).await,
        };
    }
    if let Body::Validated { reads, writes } = request.body {
        return validated(way, site, request, (reads, writes), published).await;
    }
    match spoilt {
        Some(Plant::ForgottenSession) => {
            request.session = Time::ZERO;
            way.execute_honestly(site, request, published).await
        }
        Some(Plant::ErrorAfterCommit) if writes => {
            way.execute_honestly(site, request, published).await?;
            Err(Failure::Abort(Abort::because("a planted error")))
        }
        Some(Plant::TwoTransactions) if !is_shared => {
            let reading = reading(request.footprint);
            let mut nothing = |_: &mut Txn<'_>| Ok(());
            let body = Body::Here(&mut nothing);
            let look = Request { session: request.session, ..Request::new(&reading, body) };
            // All reads are as of one time, and the writes go where they should.
            let before = way.execute_honestly(site, look, &mut |_| {}).await?.committed;
            way.world().sleep(5_000_000).await;
            let mut after = way.execute_honestly(site, request, published).await?;
            after.committed.snapshot = before.snapshot;
            Ok(after)
        }
        Some(Plant::CommitAfterNothing) if writes && !is_shared => {
            let Body::Here(procedure) = &mut request.body else {
                return way.execute_honestly(site, request, published).await;
            };
            let mut ran = None;
            let mut undone = |txn: &mut Txn<'_>| {
                procedure.run(txn)?;
                ran = Some(txn.snapshot());
                Err(Abort::because("a planted rollback"))
            };
            let (footprint, session) = (request.footprint, request.session);
            let spoilt = Request { session, ..Request::new(footprint, Body::Here(&mut undone)) };
            let failure = way.execute_honestly(site, spoilt, published).await;
            match (ran, failure) {
                (Some(snapshot), Err(Failure::Abort(_))) => {
                    let committed = Committed { snapshot, commit: Some(Time(snapshot.0 + 1)) };
                    Ok(Reply { committed, output: Vec::new(), timing: None })
                }
                (_, failure) => failure,
            }
        }
        Some(Plant::RepeatedTransaction) if !is_shared => {
            way.execute_honestly(site, request.again(), published).await?;
            way.execute_honestly(site, request, published).await
        }
        _ => way.execute_honestly(site, request, published).await,
    }
}

/// Runs a commit that validates a read set.
async fn validated(
    way: &SimTransport,
    site: SiteId,
    request: Request<'_>,
    (reads, writes): (&ReadSet, &CheckedWrites),
    published: Published<'_>,
) -> Result<Reply, Failure> {
    let body = match way.world().plant() {
        Some(Plant::UnvalidatedReads) => Body::Writes(writes),
        Some(Plant::UnvalidatedRanges) => {
            let reads = keys_of(reads);
            let request = Request { body: Body::Validated { reads: &reads, writes }, ..request };
            return way.execute_honestly(site, request, published).await;
        }
        Some(Plant::EarlyValidation) => {
            let body = Body::Validated { reads, writes: &CheckedWrites::new() };
            way.execute_honestly(site, Request { body, ..request }, &mut |_| {}).await?;
            way.world().sleep(5_000_000).await;
            Body::Writes(writes)
        }
        _ => Body::Validated { reads, writes },
    };
    way.execute_honestly(site, Request { body, ..request }, published).await
}

/// The read set without its ranges.
fn keys_of(reads: &ReadSet) -> ReadSet {
    let mut keys = ReadSet::default();
    for (table, span, rows) in reads.iter().filter(|(_, span, _)| matches!(span, Span::Key(_))) {
        keys.add(reads.at(), table, span.clone(), rows);
    }
    keys
}

/// The time of a read, or a corrupted one.
pub(crate) fn time_of_read(way: &SimTransport, at: Time) -> Time {
    let moves = way.world().spoils(Plant::MovingSnapshot, SPOILT_PER_MILLE);
    if moves { at.max(way.world().now()) } else { at }
}

/// The same writes without their expectations.
fn unchecked(checked: &CheckedWrites) -> CheckedWrites {
    let mut unchecked = checked.clone();
    let writes = unchecked.values_mut().flat_map(|rows| rows.values_mut());
    writes.for_each(|write| write.expect = Expect::Anything);
    unchecked
}

/// The footprint with read access only.
fn reading(footprint: &Footprint) -> Footprint {
    let mut reading = Footprint::new();
    for item in footprint.items() {
        reading.add(item.table, item.span.clone(), isomer_design::Access::Read);
    }
    reading
}
