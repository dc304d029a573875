//! Envelopes: messages of a service beside the database, such as the group that keeps the logs at
//! the nodes. They pass between processes before any database is open, and until the process ends.
//!
//! ```text
//!   process a                                      process b
//!   [`Service`] ─ send ─▶ dial ═══ a's line ══════▶ listen ─▶ [`Service::receive`]
//!               receive ◀─ listen ◀═══ b's line ══════ dial ◀─ send
//! ```
//!
//! They have connections of their own, through the same listener: a large copy of a partition does
//! not delay them, and they need no cluster's number, which the database has and which is in the
//! logs. The dialling process introduces itself, and a name that is not in the list, or that its
//! certificate does not have, is refused. Which folders belong together is the service's to know.
//!
//! **Loss.** Envelopes are lost when a connection ends, when a process is down, and when too much
//! waits to be sent.

use crate::edge::now;
use crate::hello::{ENVELOPE, HELLO_BYTES_MAX, INTRODUCTION, Member, REFUSED};
use crate::line::{Limits, Line, Takes};
use crate::tls::NodeTls;
use isomer_site::wire::{self, Head};
use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// The pause between attempts to dial: at first, and at most.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));
/// The timeout of the connect.
const DIAL: Duration = Duration::from_secs(2);

/// A service that exchanges envelopes with its like in the other processes.
pub trait Service: Send + Sync {
    /// Takes an envelope of the process with this name, on the connection's thread.
    fn receive(&self, from: &str, envelope: Vec<u8>);

    /// Its state, for people.
    fn status(&self) -> LogsStatus;
}

/// The state of the logs that the nodes keep for each other, as one process sees it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct LogsStatus {
    /// Why the process does not take part; `None` if it does.
    pub trouble: Option<String>,
    /// Each log.
    pub logs: Vec<LogStatus>,
}

/// The state of one log.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct LogStatus {
    /// Its number: 0 for the catalog's, or that of the site.
    pub number: u32,
    /// The term of its leader.
    pub term: u64,
    /// The name of the leader, if the process knows one.
    pub leader: Option<String>,
    /// The first offset, and the one after the last.
    pub offsets: (u64, u64),
    /// At the leader: each process, how many entries it lacks, and whether it answers.
    pub lags: Vec<(String, u64, bool)>,
}

/// Envelopes to one process.
pub(crate) struct Envelopes {
    to: Member,
    state: Mutex<State>,
    /// Wakes the dialling thread before its pause ends.
    look: Condvar,
}

struct State {
    line: Option<Arc<Line>>,
    /// Why the last attempt failed, or the last connection ended.
    trouble: String,
    is_stopped: bool,
}

impl Envelopes {
    pub(crate) fn new(to: Member) -> Envelopes {
        let trouble = "it was not dialled yet".to_owned();
        let state = Mutex::new(State { line: None, trouble, is_stopped: false });
        Envelopes { to, state, look: Condvar::new() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.to.name
    }

    /// Sends an envelope, or loses it.
    pub(crate) fn send(&self, envelope: &[u8]) {
        let line = self.state.lock().line.clone();
        if let Some(line) = line {
            let _ = line.send(wire::carried(ENVELOPE, &serde_bytes::Bytes::new(envelope)));
        }
    }

    /// Why the process cannot be reached; `None` if it can.
    pub(crate) fn trouble(&self) -> Option<String> {
        let state = self.state.lock();
        state.line.is_none().then(|| state.trouble.clone())
    }

    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.is_stopped = true;
        if let Some(line) = &state.line {
            line.end("this process stops");
        }
        self.look.notify_all();
    }

    /// Dials the process again and again, as the one with the name `own`, until it is stopped.
    pub(crate) fn dial_until_stopped(&self, own: &str, limits: Limits, tls: Option<&NodeTls>) {
        let mut pause = BACK_OFF.0;
        while !self.state.lock().is_stopped {
            let begun = now();
            let why = match self.connect(limits, tls) {
                Ok(line) => self.run(own, &Arc::new(line)),
                Err(why) => why,
            };
            let has_lasted = begun.elapsed() > BACK_OFF.1;
            pause = if has_lasted { BACK_OFF.0 } else { (pause * 2).min(BACK_OFF.1) };
            let mut state = self.state.lock();
            (state.line, state.trouble) = (None, why);
            if !state.is_stopped {
                self.look.wait_for(&mut state, pause);
            }
        }
    }

    fn connect(&self, limits: Limits, tls: Option<&NodeTls>) -> Result<Line, String> {
        let addresses = self.to.address.to_socket_addrs().map_err(|error| error.to_string())?;
        let mut why = "the name has no address".to_owned();
        for address in addresses {
            match TcpStream::connect_timeout(&address, DIAL) {
                Ok(socket) => {
                    let tls = tls.map(|tls| tls.dial(&self.to.name)).transpose()?;
                    return Line::new(socket, limits, tls).map_err(|error| error.to_string());
                }
                Err(error) => why = error.to_string(),
            }
        }
        Err(why)
    }

    /// Keeps a connection until it ends; returns the reason.
    fn run(&self, own: &str, line: &Arc<Line>) -> String {
        let _ = line.send(wire::carried(INTRODUCTION, &own));
        {
            let mut state = self.state.lock();
            if state.is_stopped {
                return "this process stops".to_owned();
            }
            state.line = Some(line.clone());
        }
        line.run(&mut Refusals)
    }
}

/// Handles the input of an outbound connection: pings, or a refusal.
struct Refusals;

impl Takes for Refusals {
    fn longest(&self) -> usize {
        HELLO_BYTES_MAX
    }

    fn take(&mut self, head: Head, message: Vec<u8>) -> Result<(), String> {
        match head.kind {
            REFUSED => {
                let why: Result<String, _> = wire::read_carried(REFUSED, &message);
                Err(why.map_err(|bad| bad.to_string())?)
            }
            kind => Err(format!("a message of kind {kind}, where none is expected")),
        }
    }
}

/// Reads the name in an introduction.
pub(crate) fn introduced(message: &[u8]) -> Result<String, String> {
    wire::read_carried(INTRODUCTION, message).map_err(|bad| bad.to_string())
}

/// Reads an envelope.
pub(crate) fn envelope(message: &[u8]) -> Result<Vec<u8>, String> {
    let envelope: serde_bytes::ByteBuf =
        wire::read_carried(ENVELOPE, message).map_err(|bad| bad.to_string())?;
    Ok(envelope.into_vec())
}
