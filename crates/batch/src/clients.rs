//! The client table: the latest request of each client, and the site that answers it.
//!
//! ```text
//!   c7   sequence 4   attempt 0   s2        c7#4 repeated: s2 sends its answer again
//!                                           c7#3: older than the latest, not answered
//!                                           c7#4, attempt 1: a restart, runs
//! ```
//!
//! A request runs only if it is later than the latest one of its client, so each attempt runs at
//! most once.

use crate::plan::Repeat;
use crate::request::{ClientId, Request};
use foldhash::fast::FixedState;
use isomer_design::SiteId;
use std::collections::BTreeMap;
use std::hash::BuildHasher;

/// The latest request of each client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clients {
    latest: BTreeMap<ClientId, Latest>,
    /// The wrapping sum of the hashes of all entries.
    digest: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Latest {
    sequence: u64,
    attempt: u32,
    /// The site that answers the request; `None` until the request is planned.
    site: Option<SiteId>,
}

impl Clients {
    /// A hash of the table.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    /// Returns whether the request must run. If so, it becomes the latest request of its client.
    pub(crate) fn admit(&mut self, request: &Request) -> bool {
        let (client, sequence, attempt) = request.identity();
        let known = self.latest.get(&client).map(|latest| (latest.sequence, latest.attempt));
        let is_later = known.is_none_or(|known| (sequence, attempt) > known);
        if is_later {
            self.set(client, Latest { sequence, attempt, site: None });
        }
        is_later
    }

    /// Records the site that answers a request. Has no effect if a later request of the same client
    /// is in the same batch.
    pub(crate) fn answered_at(&mut self, request: &Request, site: SiteId) {
        let (client, sequence, attempt) = request.identity();
        let latest = self.latest.get(&client);
        if latest.is_some_and(|latest| (latest.sequence, latest.attempt) == (sequence, attempt)) {
            self.set(client, Latest { sequence, attempt, site: Some(site) });
        }
    }

    /// Returns the site that answers a repeated request, or `None` if its client has sent a later
    /// request.
    pub(crate) fn repeat(&self, request: &Request) -> Option<Repeat> {
        let latest = self.latest.get(&request.client)?;
        let (client, sequence) = (request.client, request.sequence);
        let is_latest = latest.sequence == sequence;
        latest.site.filter(|_| is_latest).map(|site| Repeat { client, sequence, site })
    }

    fn set(&mut self, client: ClientId, latest: Latest) {
        let hash = |latest: Latest| FixedState::default().hash_one((client, latest));
        let before = self.latest.insert(client, latest).map_or(0, hash);
        self.digest = self.digest.wrapping_sub(before).wrapping_add(hash(latest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_design::Footprint;

    fn request(sequence: u64, attempt: u32) -> Request {
        let (client, params, footprint) = (ClientId(7), Vec::new(), Footprint::new());
        Request { client, sequence, attempt, procedure: "p".to_owned(), params, footprint }
    }

    #[test]
    fn a_request_runs_once_and_its_restart_runs_again() {
        let mut clients = Clients::default();
        assert!(clients.admit(&request(4, 0)) && !clients.admit(&request(4, 0)));
        clients.answered_at(&request(4, 0), SiteId(2));
        assert_eq!(clients.repeat(&request(4, 0)).map(|repeat| repeat.site), Some(SiteId(2)));
        assert!(clients.admit(&request(4, 1)) && !clients.admit(&request(4, 0)));
        assert!(!clients.admit(&request(3, 9)));
        assert_eq!(clients.repeat(&request(3, 9)), None);
    }

    #[test]
    fn the_latest_request_does_not_depend_on_the_order_of_placement() {
        let mut clients = Clients::default();
        assert!(clients.admit(&request(1, 0)) && clients.admit(&request(2, 0)));
        clients.answered_at(&request(2, 0), SiteId(2));
        let before = clients.digest();
        clients.answered_at(&request(1, 0), SiteId(1));
        assert_eq!(clients.repeat(&request(2, 0)).map(|repeat| repeat.site), Some(SiteId(2)));
        assert_eq!(clients.digest(), before);
    }
}
