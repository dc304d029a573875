//! Pins by number. [`isomer_site::wire`] has the picture: a client numbers its pins at each site,
//! and says with each lease which of them it still holds. The site drops the others.
//!
//! **Invariants.** A number is on the client's list from before its request is sent until its pin
//! is dropped. So a lease that overtakes the request drops no pin that is needed. A lease that
//! arrives late, or twice, has no effect on later numbers. A site drops the pins of a client that
//! has been silent for 10 s, which is also how long it keeps history for a
//! [lease](isomer_site::Site::lease).

use isomer_design::{SiteId, Time};
use isomer_site::HISTORY_NS_MAX;
use isomer_site::wire::{ClientId, Lease, PinId};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The pins that a client holds, by site.
pub(super) struct ClientPins {
    client: ClientId,
    sites: Mutex<BTreeMap<SiteId, Numbers>>,
}

#[derive(Default)]
struct Numbers {
    last: u64,
    held: BTreeSet<u64>,
}

impl ClientPins {
    pub(super) fn new(client: ClientId) -> Arc<ClientPins> {
        Arc::new(ClientPins { client, sites: Mutex::default() })
    }

    /// A number for a pin that is about to be requested.
    pub(super) fn next(self: &Arc<ClientPins>, site: SiteId) -> ClientPin {
        let mut sites = self.sites.lock();
        let numbers = sites.entry(site).or_default();
        numbers.last += 1;
        numbers.held.insert(numbers.last);
        let id = PinId { client: self.client, number: numbers.last };
        ClientPin { pins: self.clone(), site, id }
    }

    /// A lease with the pins held now.
    pub(super) fn lease(&self, site: SiteId, from: Time) -> Lease {
        let mut sites = self.sites.lock();
        let numbers = sites.entry(site).or_default();
        let held = numbers.held.iter().copied().collect();
        Lease { client: self.client, from, last: numbers.last, held }
    }
}

/// A pin at a site in another process. After this is dropped, the next lease tells the site.
pub struct ClientPin {
    pins: Arc<ClientPins>,
    site: SiteId,
    pub(super) id: PinId,
}

impl Drop for ClientPin {
    fn drop(&mut self) {
        let mut sites = self.pins.sites.lock();
        let numbers = sites.get_mut(&self.site).expect("the pin was numbered here");
        numbers.held.remove(&self.id.number);
    }
}

/// The pins that the sites of this process keep for clients elsewhere.
pub(crate) struct ServedPins<P> {
    clients: Mutex<BTreeMap<(ClientId, SiteId), Kept<P>>>,
    /// The history that each client wants, at each site.
    wanted: Mutex<BTreeMap<SiteId, BTreeMap<ClientId, Wanted>>>,
}

/// A client wants history.
struct Wanted {
    from: Time,
    /// When it has said so.
    heard: Time,
}

/// The pins of one client at one site.
struct Kept<P> {
    /// When the client sent its last message.
    heard: Time,
    pins: BTreeMap<u64, Arc<P>>,
}

impl<P> Default for ServedPins<P> {
    fn default() -> ServedPins<P> {
        ServedPins { clients: Mutex::default(), wanted: Mutex::default() }
    }
}

impl<P> ServedPins<P> {
    /// Keeps a pin.
    pub(super) fn keep(&self, site: SiteId, id: PinId, pin: P, now: Time) {
        let mut clients = self.clients.lock();
        let kept = clients.entry((id.client, site));
        let kept = kept.or_insert_with(|| Kept { heard: now, pins: BTreeMap::new() });
        kept.heard = kept.heard.max(now);
        kept.pins.insert(id.number, Arc::new(pin));
    }

    /// A pin that is kept.
    pub(super) fn get(&self, site: SiteId, id: PinId) -> Option<Arc<P>> {
        self.clients.lock().get(&(id.client, site))?.pins.get(&id.number).cloned()
    }

    /// Drops the pins that a client does not hold any more.
    pub(super) fn lease(&self, site: SiteId, lease: &Lease, now: Time) {
        let mut clients = self.clients.lock();
        let Some(kept) = clients.get_mut(&(lease.client, site)) else { return };
        kept.heard = kept.heard.max(now);
        let is_held = |number: &u64| *number > lease.last || lease.held.contains(number);
        kept.pins.retain(|number, _| is_held(number));
        if kept.pins.is_empty() {
            clients.remove(&(lease.client, site));
        }
    }

    /// Notes that a client wants history from a time on. Returns the time from which on some client
    /// wants it.
    pub(crate) fn least(&self, site: SiteId, client: ClientId, from: Time, now: Time) -> Time {
        let mut wanted = self.wanted.lock();
        let clients = wanted.entry(site).or_default();
        clients.insert(client, Wanted { from, heard: now });
        let oldest = Time(now.0.saturating_sub(HISTORY_NS_MAX));
        clients.retain(|_, wanted| wanted.heard >= oldest);
        clients.values().map(|wanted| wanted.from).min().unwrap_or(from)
    }

    /// Drops the pins of clients that have been silent for long.
    pub(crate) fn expire(&self, now: Time) {
        let oldest = Time(now.0.saturating_sub(HISTORY_NS_MAX));
        self.clients.lock().retain(|_, kept| kept.heard >= oldest);
    }

    /// The number of pins that are kept.
    pub(crate) fn len(&self) -> usize {
        self.clients.lock().values().map(|kept| kept.pins.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S1: SiteId = SiteId(1);

    fn number(pin: &ClientPin) -> u64 {
        pin.id.number
    }

    #[test]
    fn a_pin_ends_when_its_client_says_so_whatever_was_late_or_lost() {
        let (client, served) = (ClientPins::new(7), ServedPins::default());
        let [first, second] = [client.next(S1), client.next(S1)];
        served.keep(S1, first.id, 41, Time(1));
        served.keep(S1, second.id, 47, Time(1));
        let early = client.lease(S1, Time(52));
        drop(first);
        // This lease is lost; the next one says the same.
        let _ = client.lease(S1, Time(52));
        served.lease(S1, &client.lease(S1, Time(53)), Time(2));
        assert_eq!((served.len(), served.get(S1, second.id).as_deref()), (1, Some(&47)));

        let third = client.next(S1);
        assert_eq!(number(&third), 3);
        let id = third.id;
        drop(third);
        let passes_it = client.lease(S1, Time(63));
        served.lease(S1, &passes_it, Time(3));
        served.keep(S1, id, 60, Time(4));
        assert_eq!(served.len(), 2, "its request came after the lease");
        served.lease(S1, &early, Time(4));
        assert_eq!(served.len(), 2, "an old lease knows nothing of it");
        served.lease(S1, &client.lease(S1, Time(64)), Time(5));
        assert_eq!(served.len(), 1);
        drop(second);
        served.lease(S1, &client.lease(S1, Time(65)), Time(6));
        assert_eq!(served.len(), 0);
    }

    #[test]
    fn history_is_kept_for_the_client_that_wants_most_of_it() {
        let served = ServedPins::<()>::default();
        assert_eq!(served.least(S1, 7, Time(40), Time(50)), Time(40));
        assert_eq!(served.least(S1, 8, Time(60), Time(60)), Time(40));
        assert_eq!(served.least(S1, 7, Time(90), Time(90)), Time(60));
        let late = Time(60 + HISTORY_NS_MAX + 1);
        assert_eq!(served.least(S1, 7, Time(95), late), Time(95), "the other client is lost");
    }

    #[test]
    fn a_client_that_is_lost_keeps_nothing_for_long() {
        let (lost, lives) = (ClientPins::new(7), ClientPins::new(8));
        let served = ServedPins::default();
        let pins = [lost.next(S1), lives.next(S1), lives.next(SiteId(2))];
        for pin in &pins {
            served.keep(pin.site, pin.id, (), Time(1));
        }
        served.lease(S1, &lives.lease(S1, Time(0)), Time(HISTORY_NS_MAX));
        served.expire(Time(HISTORY_NS_MAX + 1));
        assert_eq!(served.len(), 3);
        served.expire(Time(HISTORY_NS_MAX + 2));
        assert_eq!(served.len(), 1, "each site hears of a client by itself");
        assert!(served.get(S1, pins[1].id).is_some());
    }
}
