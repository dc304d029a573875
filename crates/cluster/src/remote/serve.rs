//! Answers requests from other processes, with any transport to the sites of this process.

use super::ServedPins;
use crate::gateways::desk::Serves;
use crate::transport::Transport;
use isomer_design::{SiteId, Time};
use isomer_site::wire::{
    self, Ask, Execute, Latest, Lease, Leased, PinAt, ReadAt, Rows, Seated, Tick, ToConductor,
    ToConductorNow, answer, not_understood,
};
use isomer_site::{BatchStep, Failure, Part, Peers, RowsBuffer, SeenUpTo, Step};
use isomer_strategy::SiteLoad;
use std::ops::ControlFlow;

pub(crate) const NO_GATEWAY: &str = "this process runs no SQL";
const NO_CONDUCTOR: &str = "this process does not have the conductor";

/// Carries out a request, and returns the answer. `early` receives what must be sent before it.
pub(crate) async fn serve<T: Transport + Peers>(
    here: &T,
    pins: &ServedPins<T::Pin>,
    desk: Option<&dyn Serves>,
    request: &[u8],
    early: &mut dyn FnMut(Vec<u8>),
) -> Vec<u8> {
    let (site, ask) = match wire::read_ask(request) {
        Ok(read) => read,
        Err(bad) => return not_understood(&bad.to_string()),
    };
    match ask {
        Ask::Execute(sent) => {
            let mut published = |time| early(wire::published(time));
            let reply = here.execute(site, sent.request(), &mut published).await;
            answer::<Execute<'_>>(&reply)
        }
        Ask::Seated(sent) => {
            let mut published = |time| early(wire::published(time));
            let reply = here.execute(site, sent.request(), &mut published).await;
            answer::<Seated<'_>>(&reply)
        }
        Ask::Read(sent) => answer::<ReadAt>(&read(here, pins, site, &sent).await),
        Ask::Pin(PinAt { id, at }) => {
            let pinned = here.pin(site, at).await;
            answer::<PinAt>(&pinned.map(|pin| pins.keep(site, id, pin, here.now())))
        }
        Ask::Lease(sent) => answer::<Lease>(&lease(here, pins, site, &sent).await),
        Ask::UntilDurable(seen) => answer::<SeenUpTo>(&here.until_durable(site, seen).await),
        Ask::Step(step) => answer::<Step>(&here.step(site, step).await),
        Ask::Part(part) => answer::<Part>(&here.part(site, part).await),
        Ask::Batch(step) => answer::<BatchStep>(&here.batch(site, step).await),
        Ask::Tick(Tick) => {
            here.retry(site).await;
            answer::<Tick>(&())
        }
        Ask::Latest(Latest) => answer::<Latest>(&here.latest().await.0),
        Ask::ToConductor(ToConductor(request)) => match desk {
            Some(desk) => answer::<ToConductor>(&desk.serve(&request).await),
            None => not_understood(NO_CONDUCTOR),
        },
        Ask::ToConductorNow(ToConductorNow(request)) => match desk {
            Some(desk) => answer::<ToConductorNow>(&desk.serve(&request).await),
            None => not_understood(NO_CONDUCTOR),
        },
        // The endpoint passes these on itself.
        Ask::ToGateway(_) => not_understood(NO_GATEWAY),
    }
}

async fn read<T: Transport>(
    here: &T,
    pins: &ServedPins<T::Pin>,
    site: SiteId,
    sent: &ReadAt,
) -> Result<Rows, Failure> {
    let mut rows = RowsBuffer::default();
    let mut collect = |key: &[u8], row: &[u8], time: Time| {
        rows.push(key, row, time);
        ControlFlow::Continue(())
    };
    // If the pin is not kept any more, the site notices when the history is missing.
    let pin = sent.pin.and_then(|id| pins.get(site, id));
    let seen = here.read_at(site, sent.read(), sent.at, pin.as_deref(), &mut collect).await?;
    Ok(Rows { seen, rows })
}

async fn lease<T: Transport>(
    here: &T,
    pins: &ServedPins<T::Pin>,
    site: SiteId,
    sent: &Lease,
) -> Result<Leased, Failure> {
    pins.lease(site, sent, here.now());
    let from = pins.least(site, sent.client, sent.from, here.now());
    let from = here.lease(site, from).await?;
    let SiteLoad { busy, memory_bytes, memory_max, hot_locks, process, .. } = here.load(site);
    let process_busy = process.map(|process| process.busy);
    let failure = here.failure(site);
    Ok(Leased { from, busy, process_busy, memory_bytes, memory_max, hot_locks, failure })
}
