//! Sites in other processes: every call of a [`Transport`](crate::Transport), as bytes over a
//! [`Wire`].
//!
//! ```text
//!   process 1                                                   process 2
//!   router ─▶ Embedded ─▶ site here? call it
//!                └──────▶ Remote ─ request ──────▶ wire ──────▶ Endpoint::serve ─▶ site
//!                            ◀──── published ◀──── wire ◀────────────┤ may come, before the answer
//!                            ◀──── answer ◀─────── wire ◀────────────┘
//!   site ─▶ Mailboxes ── message ────────────────▶ wire ──────▶ Endpoint::receive ─▶ site
//! ```
//!
//! [`isomer_site::wire`] defines the bytes. The wire decides how they are carried, when it
//! connects, and whom it trusts. This module decides what a failed request means.
//!
//! | event | effect at the router |
//! | --- | --- |
//! | no answer arrives | [`Failure::Stopped`](isomer_site::Failure::Stopped), [`Refusal::Unavailable`](isomer_site::Refusal::Unavailable): it is unknown whether the request was carried out |
//! | the process cannot be reached | [`Failure::Unreachable`](isomer_site::Failure::Unreachable): nothing was done; the router [waits](crate::Transport::returns) as long as the wire says. A step of a change counts as lost, and is retried |
//! | an unreadable answer arrives | as if none had arrived, and the process log has the reason |
//! | the request is not understood there, or cannot be sent | `NotAsked`, with the reason: nothing was done |
//! | a site's log has failed | the site's answer; from then on the site is [unavailable](crate::Transport::failure) |
//!
//! **A router's knowledge of a site elsewhere** (its load, a failure of its log) comes with the
//! answer to each lease, every few milliseconds. Any answer may report a failed log.
//!
//! **Code is not sent.** A site elsewhere refuses a transaction whose body is a closure. It would
//! have to run in its caller's process, on rows that are fetched, as an open transaction does.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`client`] | sends a request as bytes, and reads the answer |
//! | [`serve`] | answers requests, with any transport to the sites of this process |
//! | [`pins`] | pins by number: at the client, and at the site |

mod client;
mod pins;
mod serve;

pub(crate) use client::Remote;
pub(crate) use pins::{ClientPin, ServedPins};
pub(crate) use serve::{NO_GATEWAY, serve};

use crate::node::Endpoint;
use crate::reach::Reach;
use futures_util::future::LocalBoxFuture;
use isomer_design::SiteId;

/// Receives bytes that arrive before the answer: the notice that a transaction's writes are
/// visible.
pub type Early<'a> = &'a mut dyn FnMut(&[u8]);

/// Why a request has no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unanswered {
    /// It is unknown whether the request was carried out.
    Lost,
    /// The request was not carried out, because the process cannot be reached: its address, and the
    /// error.
    Unreachable(String),
}

/// Carries bytes to the processes of other sites. Requests, answers and messages may arrive late or
/// never, and messages out of order and twice. A request is carried out at most once.
pub trait Wire: Send + Sync {
    /// True if the site is in another process, whether or not that can be reached now.
    fn reaches(&self, site: SiteId) -> bool;

    /// All sites that it reaches.
    fn sites(&self) -> Vec<SiteId>;

    /// Processes may have joined the cluster: looks who belongs to it.
    fn learn(&self) {}

    /// The process of this name has left the cluster. It may be this one.
    fn left(&self, _name: &str) {}

    /// The location of a site; `None` if the wire does not know.
    fn reach(&self, _site: SiteId) -> Option<Reach> {
        None
    }

    /// The name of this process, if it has one.
    fn name(&self) -> Option<String> {
        None
    }

    /// The zone of this process, if it has one.
    fn zone(&self) -> Option<String> {
        None
    }

    /// Sends a request to the [`Endpoint`] of a site, and returns its answer. If the future is
    /// dropped, the request may still be carried out.
    ///
    /// `early` receives bytes that arrive before the answer. A wire that cannot carry these may
    /// leave them out.
    fn ask<'a>(
        &'a self,
        site: SiteId,
        request: Vec<u8>,
        early: Early<'a>,
    ) -> LocalBoxFuture<'a, Result<Vec<u8>, Unanswered>>;

    /// Sends a request to the endpoint of the process that has the conductor, and returns its
    /// answer.
    fn ask_conductor(&self, _request: Vec<u8>) -> LocalBoxFuture<'_, Result<Vec<u8>, Unanswered>> {
        let why = "no other process has the conductor".to_owned();
        Box::pin(std::future::ready(Err(Unanswered::Unreachable(why))))
    }

    /// Sends a message to the endpoint of a site; never blocks.
    fn send(&self, site: SiteId, message: Vec<u8>);

    /// Ready when a site that gave no answer may be worth asking again.
    fn retry(&self, site: SiteId) -> LocalBoxFuture<'_, ()>;

    /// Waits until an unreachable site can be reached. Returns `false` if that is not to be
    /// expected soon, so that clients should not wait for it.
    fn returns(&self, _site: SiteId) -> LocalBoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }

    /// Why a site is declared dead, so that others take over what they can: it has been unreachable
    /// for the failover timeout. `None` if it can be reached, or may return soon.
    fn gone(&self, _site: SiteId) -> Option<String> {
        None
    }

    /// From now on, passes requests and messages of others to the endpoint of this process, and
    /// tells the endpoint whom it [meets](Endpoint::meet).
    fn open(&self, _endpoint: Endpoint) {}

    /// This process has the conductor from now on, in this term. The processes that it reaches must
    /// carry out no request of a conductor of an earlier term once this returns.
    fn conduct(&self, _term: u64) {}

    /// The sites of this process are about to stop: nothing is passed to them from now on.
    fn close(&self) {}
}
