//! Sites in other processes: everything that crosses a [`Transport`](crate::Transport), as bytes over a [`Wire`].
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
//! The bytes are [`isomer_site::wire`]'s. What carries them, when it connects, and whom it trusts, is the wire's
//! business: here is what becomes of requests when it fails.
//!
//! | what happens | what the router hears |
//! | --- | --- |
//! | no answer comes | [`Failure::Stopped`](isomer_site::Failure::Stopped), [`Refusal::Unavailable`](isomer_site::Refusal::Unavailable): nobody knows whether it was done |
//! | the process cannot be reached | [`Failure::Unreachable`](isomer_site::Failure::Unreachable): nothing was done; the router [waits for it](crate::Transport::returns) as long as the wire says. A step of a change is as good as lost: it is taken again |
//! | an answer comes that is none | the same, and standard error hears why |
//! | the request is not understood there, or cannot be sent | `NotAsked`, with the reason: nothing was done |
//! | a site's log has failed | what the site says; from then on it is [passed by](crate::Transport::failure) |
//!
//! **What a router knows of a site elsewhere** (its load, whether its log has failed) comes with the answer to each
//! lease, every few milliseconds, and a failed log with any answer.
//!
//! **Code is not sent.** A transaction whose body is a closure is refused at a site elsewhere; it would have to run
//! where its caller is, on rows that are fetched, as an open transaction does.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`client`] | asking: a request to bytes, the answer from bytes |
//! | [`serve`] | answering, by any transport to the sites that are here |
//! | [`pins`] | pins by number: those that a client has, those that a site keeps for it |

mod client;
mod pins;
mod serve;

pub(crate) use client::Remote;
pub(crate) use pins::{ClientPin, ServedPins};
pub(crate) use serve::serve;

use crate::node::Endpoint;
use crate::reach::Reach;
use futures_util::future::LocalBoxFuture;
use isomer_design::SiteId;

/// Hears bytes that come before the answer: word that a transaction's writes can be seen.
pub type Early<'a> = &'a mut dyn FnMut(&[u8]);

/// Why a request has no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unanswered {
    /// Nobody knows whether it was carried out.
    Lost,
    /// It was not, as the process cannot be reached: where that should be, and what came of trying.
    Unreachable(String),
}

/// Carries bytes to the processes of other sites. Each of its promises is "may": requests, answers and messages may
/// come late or never, messages out of order and twice. A request is carried out at most once.
pub trait Wire: Send + Sync {
    /// True if the site is in another process, whether or not that can be reached now.
    fn reaches(&self, site: SiteId) -> bool;

    /// All of these sites.
    fn sites(&self) -> Vec<SiteId>;

    /// Where one of them is; `None` if the wire does not know.
    fn reach(&self, _site: SiteId) -> Option<Reach> {
        None
    }

    /// Brings a request to the [`Endpoint`] of a site, and its answer back. If the future is dropped, the request may
    /// still be carried out.
    ///
    /// `early` is called with what comes before the answer, as soon as it is there. A wire that has no way for that
    /// may leave it out.
    fn ask<'a>(
        &'a self,
        site: SiteId,
        request: Vec<u8>,
        early: Early<'a>,
    ) -> LocalBoxFuture<'a, Result<Vec<u8>, Unanswered>>;

    /// Sends a message to the endpoint of a site; never blocks.
    fn send(&self, site: SiteId, message: Vec<u8>);

    /// Ready when a site may be worth asking again that gave no answer.
    fn retry(&self, site: SiteId) -> LocalBoxFuture<'_, ()>;

    /// Waits until a site can be reached that could not be; `false` if that was not to be expected soon, and whoever
    /// asked should not wait for it.
    fn returns(&self, _site: SiteId) -> LocalBoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }

    /// Why a site is given up, so that others take over what they can: it has been away for too long. `None`: it can be
    /// reached, or is waited for.
    fn gone(&self, _site: SiteId) -> Option<String> {
        None
    }

    /// From now on, brings what others ask and say to the sites of this process, and tells the endpoint whom it
    /// [meets](Endpoint::meet).
    fn open(&self, _endpoint: Endpoint) {}

    /// The sites of this process are about to stop: nothing is brought to them from now on.
    fn close(&self) {}
}
