//! Requests of clients, and their answers.
//!
//! A request is data: the name of a procedure, its parameters and its footprint. It can therefore
//! be ordered, stored, and run again after a crash with the same result.
//!
//! A client has one request in flight and numbers its requests from 1. Without an answer it may
//! send the request again. The repetition has the same number, so the request runs once (see
//! [`planner`](crate::planner)).

use crate::provision::Provision;
use isomer_design::{Footprint, KEY_BYTES_MAX, TableId};
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// The id of a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientId(pub u64);

/// A call of a procedure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The client.
    pub client: ClientId,
    /// The sequence number of the request within its client, from 1.
    pub sequence: u64,
    /// The number of restarts with a larger footprint; 0 if sent by a client.
    pub attempt: u32,
    /// The name of the procedure.
    pub procedure: String,
    /// Its parameters.
    pub params: Vec<u8>,
    /// The declared reads and writes; may be incomplete.
    pub footprint: Footprint,
}

/// Requests and provisions that share one place in the order.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Batch {
    /// The requests, in the order of arrival.
    pub requests: Vec<Arc<Request>>,
    /// Changes of sites and homes, applied before the requests.
    pub provisions: Vec<Provision>,
}

/// Why a transaction had no effect. All executors of a transaction derive the same reason.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum Abort {
    /// The procedure returned an error.
    #[error("{0}")]
    Logic(String),
    /// No procedure has this name.
    #[error("no procedure is called \"{0}\"")]
    NoProcedure(String),
    /// The footprint names a table that does not exist.
    #[error("the footprint names table {0}, which does not exist")]
    NoTable(TableId),
    /// The procedure panicked.
    #[error("the procedure panicked: {0}")]
    Panicked(String),
    /// The procedure read and wrote more rows than a transaction may.
    #[error("the procedure looked at more than {0} rows: that is all that a transaction may")]
    Budget(u64),
    /// The procedure wrote a row with a key that is too long.
    #[error("a key of {bytes} bytes: at most {KEY_BYTES_MAX} are allowed")]
    KeyTooLong {
        /// The length of the key.
        bytes: usize,
    },
    /// The procedure left its footprint at each of its attempts.
    #[error("the procedure left its footprint {0} times: a request is restarted that often")]
    NoFootprint(u32),
    /// Two runs on the same rows differed (see
    /// [`Procedures::checked`](crate::Procedures::checked)).
    #[error(
        "procedure \"{0}\" did not do the same twice: it must depend on parameters and rows alone"
    )]
    NotDeterministic(String),
}

/// The output of a committed transaction, or the reason for its abort.
pub type Answer = Result<Vec<u8>, Abort>;

impl Request {
    /// Identifies the request and the attempt: client, sequence, attempt.
    pub fn identity(&self) -> (ClientId, u64, u32) {
        (self.client, self.sequence, self.attempt)
    }

    /// The next attempt of the same request, with a larger footprint.
    #[must_use]
    pub fn restarted(&self, footprint: Footprint) -> Request {
        Request { attempt: self.attempt + 1, footprint, ..self.clone() }
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}", self.0)
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.client, self.sequence)?;
        if self.attempt > 0 {
            write!(f, " attempt {}", self.attempt + 1)?;
        }
        write!(f, " {}", self.procedure)
    }
}
