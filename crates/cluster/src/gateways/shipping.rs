//! Statements that run at another process, beside their rows.
//!
//! ```text
//!   gateway b, with the client                      process a, with the rows
//!   ──────────────────────────                      ────────────────────────
//!   all rows are at masters of a
//!   run: text, parameters, settings ──────────────▶ Runs::run, on a thread of its own
//!        ╎  the client cancels
//!        ╎  end of 7/12 ──────────────────────────▶ Runs::run ends the first
//!        ◀────────────────────────── promise ──── the reads and writes of its commit
//!   go ───────────────────────────────────────────▶ commits
//!        ◀───────────────────────────── answer ──── rows, tag, notices, or an error
//! ```
//!
//! The bytes are those of the layer above. This module decides where the rows are, and what a
//! missing answer means.
//!
//! *Invariants.*
//! - A request is carried out at most once. [`Unanswered::Unreachable`]: it was not, and will not
//!   be.
//! - A commit is made only once the client's process knows its writes. So if the connection is
//!   lost, either nothing was committed, or the rows show the outcome, as those of any commit whose
//!   answer was lost ([`crate::open`]).
//! - A client that cancels waits for the answer, which says whether its statement had its effect.
//!   The wire ends the connection to a process that is silent.

use super::messages::{read, write};
use crate::database::Others;
use crate::error::Error;
use crate::open::{CancelReason, CancelToken, OpenError, find_out, outcome_in_order};
use crate::remote::Unanswered;
use crate::router::{Ran, unless};
use crate::shell::Gateway;
use crate::transport::Transport;
use futures_util::future::{Either, select};
use isomer_design::{KeyRange, SiteId, TableId, Time};
use isomer_site::{CheckedWrites, CommitId, Failure, ReadSet};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// The layer above a gateway, as what runs statements of clients of other gateways.
pub trait Runs: Send + Sync {
    /// Runs a statement, or carries out another request of that layer. `over` ends it, once no
    /// process waits for the answer. The bytes that `early` gets arrive before the answer.
    fn run(&self, request: &[u8], over: &Arc<CancelToken>, early: Early) -> Vec<u8>;
}

/// Sends what comes before an answer.
pub type Early = Arc<dyn Fn(Vec<u8>) + Send + Sync>;

/// Where the masters of rows are, as far as this gateway knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MastersAt {
    /// In this process.
    Here,
    /// In another process, which has this site.
    Elsewhere(SiteId),
    /// In several processes.
    Several,
    /// There is no such table, or its transactions are ordered.
    Unknown,
}

impl Others<'_> {
    /// Where the masters of these rows are.
    pub fn masters_of(self, spans: &[(TableId, KeyRange)]) -> MastersAt {
        let router = self.router();
        let (routing, transport) = (router.routing_table(), router.transport());
        let mut found = None;
        for (table, range) in spans {
            if router.ordered().has(*table) {
                return MastersAt::Unknown;
            }
            let mut key = &range.start;
            loop {
                let Some((placement, next)) = routing.stretch(*table, key) else {
                    return MastersAt::Unknown;
                };
                let at = match transport.drop_revokes(placement.master) {
                    true => MastersAt::Here,
                    false => MastersAt::Elsewhere(placement.master),
                };
                match (found, at) {
                    (None, at) => found = Some(at),
                    (Some(before), at) if before == at => {}
                    (Some(MastersAt::Elsewhere(one)), MastersAt::Elsewhere(other))
                        if is_one_process(transport, one, other) => {}
                    _ => return MastersAt::Several,
                }
                match next {
                    Some(next) if range.end.as_ref().is_none_or(|end| next < end) => key = next,
                    _ => break,
                }
            }
        }
        found.unwrap_or(MastersAt::Unknown)
    }

    /// The name of the process with a site.
    pub fn process_of(self, site: SiteId) -> Option<String> {
        self.router().transport().reach(site).map(|reach| reach.node)
    }

    /// Sends a request to the gateway of a site's process, and waits for the answer. Bytes that
    /// come before the answer go to `hear`, which may return a request to send at once. If the
    /// client cancels meanwhile, sends the result of `ends` for the reason, until that process has
    /// found the request or has answered it.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub fn ship(
        self,
        site: SiteId,
        request: Vec<u8>,
        cancel: &CancelToken,
        ends: impl Fn(CancelReason) -> Vec<u8>,
        mut hear: impl FnMut(&[u8]) -> Option<Vec<u8>>,
    ) -> Result<Vec<u8>, Unanswered> {
        let transport = self.router().transport();
        let reply = RefCell::new(None);
        let mut note = |bytes: &[u8]| {
            if let Some(request) = hear(bytes) {
                *reply.borrow_mut() = Some(request);
            }
        };
        let shipping = async {
            let mut asking = pin!(transport.ask_gateway(site, request, &mut note));
            let why = loop {
                let next = poll_fn(|cx| {
                    if let Poll::Ready(answer) = asking.as_mut().poll(cx) {
                        return Poll::Ready(Next::Answer(answer));
                    }
                    match reply.borrow_mut().take() {
                        Some(request) => Poll::Ready(Next::Send(request)),
                        None => cancel.poll_over(cx.waker()).map(Next::End),
                    }
                });
                let mut ignored = |_: &[u8]| {};
                match next.await {
                    Next::Answer(answer) => return answer,
                    Next::End(why) => break why,
                    Next::Send(request) => {
                        let sending = pin!(transport.ask_gateway(site, request, &mut ignored));
                        if let Either::Left((answer, _)) = select(asking.as_mut(), sending).await {
                            return answer;
                        }
                    }
                }
            };
            loop {
                let mut ignored = |_: &[u8]| {};
                let ending = async {
                    let told = transport.ask_gateway(site, ends(why), &mut ignored).await;
                    let is_found = told.is_ok_and(|answer| read::<bool>(&answer) == Some(true));
                    if !is_found {
                        transport.retry(site).await;
                    }
                    is_found
                };
                match select(asking.as_mut(), pin!(ending)).await {
                    Either::Left((answer, _)) => return answer,
                    Either::Right((true, _)) => return asking.await,
                    // It has not arrived yet, or its answer is about to.
                    Either::Right((false, _)) => {}
                }
            }
        };
        self.block_on(shipping)
    }
}

/// The next event of a request.
enum Next {
    Answer(Result<Vec<u8>, Unanswered>),
    Send(Vec<u8>),
    End(CancelReason),
}

/// Sees a commit for a client of another process.
pub trait Witness: Send + Sync {
    /// The commit is about to be made, as these bytes say ([`Gateway::find_out`]).
    fn promise(&self, commit: Vec<u8>);

    /// Ready once the client's process has these bytes, so that the commit may be made.
    fn poll_go(&self, waker: &Waker) -> Poll<()>;

    /// The commit is visible, and has this time.
    fn published(&self, time: Time);
}

/// A commit that is about to be made.
#[derive(Serialize, Deserialize)]
pub(crate) enum Promise<'a> {
    /// Its reads and writes: the rows show its outcome.
    Rows(Cow<'a, ReadSet>, Cow<'a, CheckedWrites>),
    /// Its name in the order of ordered tables.
    Ordered(CommitId),
}

impl<'a> Promise<'a> {
    pub(crate) fn of(reads: &'a ReadSet, writes: &'a CheckedWrites) -> Promise<'a> {
        Promise::Rows(Cow::Borrowed(reads), Cow::Borrowed(writes))
    }
}

impl Gateway {
    /// Finds out the outcome of a commit that another process was about to make for a client of
    /// this one before it was lost. Makes the commit if it was not made. `published` is the time of
    /// its publication, if that is known.
    ///
    /// # Errors
    /// [`OpenError::Undone`]: nothing of it remains. Others as those of a commit here.
    pub fn find_out(
        &self,
        promise: &[u8],
        published: Option<Time>,
        cancel: &CancelToken,
    ) -> Result<Ran, OpenError> {
        let others = self.database().others();
        match read(promise) {
            Some(Promise::Rows(reads, writes)) => {
                others.block_on(find_out(self, (&*reads, &*writes), published, cancel))
            }
            Some(Promise::Ordered(id)) => {
                let outcome = outcome_in_order(others.router().conductor(), id);
                let over = |waker: &Waker| cancel.poll_over(waker);
                others.block_on(unless(&over, outcome)).map_err(OpenError::Canceled)?
            }
            None => Err(OpenError::Database(Error::Failure(Failure::Stopped(SiteId(0))))),
        }
    }
}

/// The answer to a request to end a statement: whether the statement was found.
pub fn found(is_found: bool) -> Vec<u8> {
    write(&is_found)
}

fn is_one_process(transport: &impl Transport, one: SiteId, other: SiteId) -> bool {
    let node = |site| transport.reach(site).map(|reach| reach.node);
    node(one).is_some_and(|node_of_one| node(other) == Some(node_of_one))
}
