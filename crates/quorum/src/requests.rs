//! Requests to a member, and how their callers wait: in the member's process, or in one that keeps
//! no copies of the logs ([`crate::client`]).
//!
//! ```text
//!   begin(request) ─▶ Pending               a thread waits for the reply
//!       │                ▲
//!       └─▶ member ─▶ reply                 by way of notes, if the member is elsewhere
//! ```

use crate::command::Records;
use crate::group::{GroupState, Outcome};
use crate::roster::Standing;
use serde::{Deserialize, Serialize};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A caller elsewhere repeats its request while it wants the outcome; after this silence it does
/// not.
pub(crate) const WANTED: Duration = Duration::from_secs(2);

/// Sends envelopes to other processes.
pub trait Mailbox: Send + Sync {
    /// Sends an envelope, without waiting. It may be lost.
    fn send(&self, to: &str, envelope: Vec<u8>);

    /// Why a process cannot be reached; `None` if it can.
    fn trouble(&self, name: &str) -> Option<String>;
}

/// A request to a member.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) enum Request {
    /// Appends a record to a group's partition.
    Append(u32, #[serde(with = "serde_bytes")] Vec<u8>),
    /// Removes the records before an offset.
    RemoveBefore(u32, u64),
    /// Waits until all records that were acknowledged before can be read at the member.
    Ask(u32),
    Bounds(u32),
    /// Reads records of a group from an offset on, up to a number of bytes.
    Read(u32, u64, u64),
    Count,
    Has(u32),
    Newest(u32),
    States,
}

/// The answer to a request.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) enum Reply {
    Outcome(Outcome),
    Bounds((u64, u64)),
    Records(Records, u64),
    Count(u32),
    Has(bool),
    /// The offset of the newest record, and how long ago the member received it.
    Newest(Option<(u64, Duration)>),
    #[serde(skip)]
    States(Standing, Vec<GroupState>),
    Failed(String),
}

/// A message between a client and a member.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum Note {
    /// A request, with its number in a run of the client.
    Ask { run: u64, number: u64, request: Request },
    /// The reply to a request.
    Reply { run: u64, number: u64, reply: Reply },
}

impl Note {
    pub(crate) fn write(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("notes have no rules of their own")
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Note> {
        postcard::from_bytes(bytes).ok()
    }
}

/// The caller of a request.
pub(crate) enum Caller {
    /// A thread of this process.
    Here { reply: Sender<Reply>, wanted: Weak<()> },
    /// A process that keeps no copies, and its number for the request.
    Elsewhere { name: String, run: u64, number: u64, mailbox: Arc<dyn Mailbox>, asked: Duration },
}

impl Caller {
    /// A caller in this process, and its wait.
    pub(crate) fn here() -> (Caller, Pending) {
        let ((reply, pending), wanted) = (channel(), Arc::new(()));
        let caller = Caller::Here { reply, wanted: Arc::downgrade(&wanted) };
        (caller, Pending { reply: pending, _wanted: wanted })
    }

    pub(crate) fn answer(&self, reply: Reply) {
        match self {
            // It may not wait any more.
            Caller::Here { reply: to, .. } => drop(to.send(reply)),
            Caller::Elsewhere { name, run, number, mailbox, .. } => {
                mailbox.send(name, Note::Reply { run: *run, number: *number, reply }.write());
            }
        }
    }

    /// True while the caller waits, as far as is known.
    pub(crate) fn is_wanted(&self, now: Duration) -> bool {
        match self {
            Caller::Here { wanted, .. } => wanted.strong_count() > 0,
            Caller::Elsewhere { asked, .. } => now < *asked + WANTED,
        }
    }

    /// Takes note of a repetition of the request. False if `other` is another request.
    pub(crate) fn is_repeated_by(&mut self, other: &Caller) -> bool {
        match (self, other) {
            (
                Caller::Elsewhere { name, run, number, asked, .. },
                Caller::Elsewhere { name: from, run: of, number: again, asked: now, .. },
            ) if (&*name, &*run, &*number) == (from, of, again) => {
                *asked = *now;
                true
            }
            _ => false,
        }
    }
}

/// A request without an outcome yet.
pub(crate) struct Pending {
    reply: Receiver<Reply>,
    /// The request is repeated until it has an outcome, or this is dropped.
    _wanted: Arc<()>,
}

/// Why a request has no outcome.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NoOutcome {
    /// There is none yet.
    Late,
    /// The member has ended, for this reason.
    Ended(String),
}

impl Pending {
    pub(crate) fn wait(&self, longest: Duration) -> Result<Outcome, NoOutcome> {
        match self.reply(longest)? {
            Reply::Outcome(outcome) => Ok(outcome),
            _ => Err(NoOutcome::Ended("it has another answer".to_owned())),
        }
    }

    pub(crate) fn reply(&self, longest: Duration) -> Result<Reply, NoOutcome> {
        match self.reply.recv_timeout(longest) {
            Ok(Reply::Failed(why)) => Err(NoOutcome::Ended(why)),
            Ok(reply) => Ok(reply),
            Err(RecvTimeoutError::Timeout) => Err(NoOutcome::Late),
            Err(RecvTimeoutError::Disconnected) => Err(NoOutcome::Ended("it stops".to_owned())),
        }
    }
}

/// The members besides `own` that cannot be reached, with reasons.
pub(crate) fn missing(names: &[String], own: &str, mailbox: &dyn Mailbox) -> String {
    let others = names.iter().filter(|name| *name != own);
    let missing = others.filter_map(|name| Some(format!("{name} ({})", mailbox.trouble(name)?)));
    missing.collect::<Vec<_>>().join(", ")
}
