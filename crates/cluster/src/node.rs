//! A process that hosts sites, as other processes reach them.
//!
//! ```text
//!   process 1: Database                 process 2: Node
//!     router, open transactions            (none: it does what it is asked)
//!     sites 1, 2 ── Endpoint ◀── wire ──▶ Endpoint ── sites 3, 4
//! ```
//!
//! One process has the [`Database`](crate::Database), and with it the design, its changes and the row locks. The
//! others are nodes: they run transactions, take steps and take part in transactions over several sites, and their
//! sites talk with all others by themselves. Whoever has a network calls the [`Endpoint`] with what arrives.
//!
//! **Left out.** A node's sites live in memory: who may open a site's log, and when, is the log's to say first
//! (fencing). Sites do not greet sites elsewhere when they start, since no log of an earlier run is there to be kept.

use crate::embedded::{Here, Runtime};
use crate::error::OpenDatabaseError;
use crate::remote::{Wire, serve};
use crate::storage::InMemory;
use isomer_design::SiteId;
use isomer_log::Durability;
use isomer_site::Procedures;
use isomer_site::wire::{BadMessage, read_message};
use std::sync::Arc;

/// Sites of a database whose [router](crate::Database) is in another process.
pub struct Node {
    runtime: Arc<Runtime>,
}

impl Node {
    /// Sites in memory. The wire reaches all others of the database; `procedures` are the same everywhere.
    ///
    /// # Errors
    /// [`OpenDatabaseError`].
    pub fn in_memory(
        sites: &[SiteId],
        procedures: Procedures,
        wire: Arc<dyn Wire>,
    ) -> Result<Node, OpenDatabaseError> {
        let runtime = Arc::new(Runtime::new(procedures, Some(wire)));
        let options =
            isomer_log::Options { durability: Durability::None, ..isomer_log::Options::default() };
        runtime.open(&InMemory, options, sites, &|_| {}, &mut Vec::new())?;
        Ok(Node { runtime })
    }

    /// Its sites, as other processes reach them.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::new(self.runtime.clone())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.runtime.stop_all();
    }
}

/// The sites of a process, as other processes reach them. Once it stops, they are not running.
#[derive(Clone)]
pub struct Endpoint {
    here: Arc<Here>,
}

impl Endpoint {
    pub(crate) fn new(runtime: Arc<Runtime>) -> Endpoint {
        Endpoint { here: Arc::new(Here { runtime }) }
    }

    /// Carries out a request on this thread, which may wait for long, as a client's may; and gives the answer.
    /// `early` hears what is to be sent before it. Requests wait for each other, so each needs a thread of its own.
    pub fn serve(&self, request: &[u8], mut early: impl FnMut(Vec<u8>)) -> Vec<u8> {
        let runtime = &self.here.runtime;
        runtime.block_on(serve(&*self.here, &runtime.pins, request, &mut early))
    }

    /// Takes a message from a site elsewhere to one that is here.
    ///
    /// # Errors
    /// [`BadMessage`]; it is as if it were lost.
    pub fn receive(&self, message: &[u8]) -> Result<(), BadMessage> {
        let (from, to, message) = read_message(message)?;
        self.here.runtime.deliver(from, to, message);
        Ok(())
    }

    /// How many snapshots of clients elsewhere its sites keep history for, each counted at each site.
    pub fn pins(&self) -> usize {
        self.here.runtime.pins.len()
    }
}
