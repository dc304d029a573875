//! What clients ask for, and what they are told.
//!
//! A request is data: the name of a procedure, its parameters, and its footprint. So it can be put in an
//! order, kept, and run again after a crash with the same result.
//!
//! A client has one request under way and numbers its requests from 1. It may ask twice, if no answer came:
//! the number says that it is the same request, and it runs once (see [`planner`](crate::planner)).

use crate::provision::Provision;
use isomer_design::{Footprint, KEY_BYTES_MAX, TableId};
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientId(pub u64);

/// A call of a procedure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Who asks.
    pub client: ClientId,
    /// Which of the client's requests it is, from 1.
    pub sequence: u64,
    /// How often it has been restarted with a larger footprint; clients say 0.
    pub attempt: u32,
    /// The name of the procedure.
    pub procedure: String,
    /// Its parameters.
    pub params: Vec<u8>,
    /// What it reads and writes, as far as is known.
    pub footprint: Footprint,
}

/// Requests that get one place in the order.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Batch {
    /// The requests, as they came.
    pub requests: Vec<Arc<Request>>,
    /// Changes of sites and homes, which are made before.
    pub provisions: Vec<Provision>,
}

/// Why a transaction had no effect. Every site that runs it comes to the same reason.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum Abort {
    /// The procedure said so.
    #[error("{0}")]
    Logic(String),
    /// Nobody knows the procedure.
    #[error("no procedure is called \"{0}\"")]
    NoProcedure(String),
    /// The footprint names a table that is not there.
    #[error("the footprint names table {0}, which does not exist")]
    NoTable(TableId),
    /// The procedure panicked.
    #[error("the procedure panicked: {0}")]
    Panicked(String),
    /// It went on for too long.
    #[error("the procedure looked at more than {0} rows: that is all that a transaction may")]
    Budget(u64),
    /// It wrote a row whose key no table takes.
    #[error("a key of {bytes} bytes: at most {KEY_BYTES_MAX} are allowed")]
    KeyTooLong {
        /// The length of the key.
        bytes: usize,
    },
    /// It needed something else each time.
    #[error("the procedure left its footprint {0} times: a request is restarted that often")]
    NoFootprint(u32),
    /// Two runs on the same rows differed.
    #[error(
        "procedure \"{0}\" did not do the same twice: it must depend on parameters and rows alone"
    )]
    NotDeterministic(String),
}

/// What a client is told.
pub type Answer = Result<Vec<u8>, Abort>;

impl Request {
    /// What makes it the same request, and the same attempt at it.
    pub fn identity(&self) -> (ClientId, u64, u32) {
        (self.client, self.sequence, self.attempt)
    }

    /// The same request, to be run again with another footprint.
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
