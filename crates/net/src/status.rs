//! Asking a process for its view of the cluster.

use crate::edge::now;
use crate::envelopes::LogsStatus;
use crate::hello::{
    ASK_LOGS, ASK_RUN, ASK_STATUS, HELLO_BYTES_MAX, JOINED, JOINS, LEAVES, LOGS, REFUSED, RESTART,
    RUN, Role, STATUS,
};
use crate::line::{Limits, Line, Takes};
use crate::tls::NodeTls;
use isomer_cluster::Joined;
use isomer_design::SiteId;
use isomer_site::wire::{self, Head};
use rustls::Connection;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// The view that a process has of the cluster.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Status {
    /// The number of the cluster, if the process belongs to one.
    pub cluster: Option<u64>,
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// The program's release.
    pub release: String,
    /// The sites that it hosts.
    pub sites: BTreeSet<SiteId>,
    /// True once its sites are running.
    pub is_open: bool,
    /// The other processes by name, and why each cannot be reached from there; `None` if it can.
    pub peers: Vec<(String, Option<String>)>,
    /// The processes that have joined the cluster since its file was written.
    pub joined: Vec<Joined>,
}

/// Asks the process of a name at an address for its view of the cluster, with a certificate if the
/// cluster has them.
///
/// # Errors
/// A message, if it does not answer within `limit`.
pub fn ask_status(
    name: &str,
    address: &str,
    tls: Option<&NodeTls>,
    limit: Duration,
) -> Result<Status, String> {
    ask_at((name, address), tls, limit, (wire::carried(ASK_STATUS, &()), STATUS))
}

/// Asks the process of a name at an address for the state of the logs that the processes keep for
/// each other.
///
/// # Errors
/// A message, also if it keeps none.
pub fn ask_logs(
    name: &str,
    address: &str,
    tls: Option<&NodeTls>,
    limit: Duration,
) -> Result<LogsStatus, String> {
    ask_at((name, address), tls, limit, (wire::carried(ASK_LOGS, &()), LOGS))
}

/// Asks the process of a name at an address for the number of its run, which differs after a
/// restart.
///
/// # Errors
/// A message, if it does not answer within `limit`.
pub fn ask_run(
    name: &str,
    address: &str,
    tls: Option<&NodeTls>,
    limit: Duration,
) -> Result<u64, String> {
    ask_at((name, address), tls, limit, (wire::carried(ASK_RUN, &()), RUN))
}

/// Asks the process of a name at an address to restart, once the transactions of its clients have
/// ended, or `longest` has passed. Returns the number of its run until then.
///
/// # Errors
/// A message, if it does not answer within `limit`, or cannot restart.
pub fn ask_restart(
    name: &str,
    address: &str,
    tls: Option<&NodeTls>,
    limit: Duration,
    longest: Duration,
) -> Result<u64, String> {
    let longest_ms = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
    ask_at((name, address), tls, limit, (wire::carried(RESTART, &longest_ms), RUN))
}

/// Asks the process of a name at an address to let this one join its cluster. Returns it with its
/// sites, and the text of the cluster's file. Asked again, a process of this name gets the same
/// answer.
///
/// # Errors
/// A message, if it does not answer within `limit`, or refuses.
pub fn ask_to_join(
    (name, address): (&str, &str),
    tls: Option<&NodeTls>,
    limit: Duration,
    joins: &Joined,
) -> Result<(Joined, String), String> {
    ask_at((name, address), tls, limit, (wire::carried(JOINS, joins), JOINED))
}

/// Tells a process that `leaves`, a name and a run, has closed its database.
pub(crate) fn tell_leaving(
    (name, address): (&str, &str),
    tls: Option<&NodeTls>,
    limit: Duration,
    leaves: &(String, u64),
) -> Result<u64, String> {
    ask_at((name, address), tls, limit, (wire::carried(LEAVES, leaves), RUN))
}

fn ask_at<T: DeserializeOwned>(
    (name, address): (&str, &str),
    tls: Option<&NodeTls>,
    limit: Duration,
    question: (Vec<u8>, u8),
) -> Result<T, String> {
    let addresses = address.to_socket_addrs().map_err(|error| error.to_string())?;
    let mut why = "the name has no address".to_owned();
    for address in addresses {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(socket) => {
                let tls = tls.map(|tls| tls.dial(name)).transpose()?;
                return ask(socket, tls, limit, question);
            }
            Err(error) => why = error.to_string(),
        }
    }
    Err(why)
}

fn ask<T: DeserializeOwned>(
    socket: TcpStream,
    tls: Option<Connection>,
    limit: Duration,
    (question, kind): (Vec<u8>, u8),
) -> Result<T, String> {
    let limits = Limits { silence: limit, queue_bytes: HELLO_BYTES_MAX };
    let line = Line::new(socket, limits, tls).map_err(|error| error.to_string())?;
    let _ = line.send(question);
    let mut waits = Waits { until: now() + limit, kind, answer: None };
    let ended = line.run(&mut waits);
    waits.answer.ok_or(ended)
}

struct Waits<T> {
    until: Instant,
    /// The kind of the answer.
    kind: u8,
    answer: Option<T>,
}

impl<T: DeserializeOwned> Takes for Waits<T> {
    fn longest(&self) -> usize {
        HELLO_BYTES_MAX
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.until)
    }

    fn take(&mut self, head: Head, message: Vec<u8>) -> Result<(), String> {
        if head.kind == REFUSED {
            return Err(wire::read_carried(REFUSED, &message).map_err(|bad| bad.to_string())?);
        }
        let answer = wire::read_carried(self.kind, &message).map_err(|bad| bad.to_string())?;
        self.answer = Some(answer);
        Err("it has answered".to_owned())
    }
}
