//! Asking a process for its view of the cluster.

use crate::edge::now;
use crate::hello::{ASK_STATUS, HELLO_BYTES_MAX, Role, STATUS};
use crate::line::{Limits, Line, Takes};
use crate::tls::NodeTls;
use isomer_design::SiteId;
use isomer_site::wire::{self, Head};
use rustls::Connection;
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
    let addresses = address.to_socket_addrs().map_err(|error| error.to_string())?;
    let mut why = "the name has no address".to_owned();
    for address in addresses {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(socket) => {
                let tls = tls.map(|tls| tls.dial(name)).transpose()?;
                return ask(socket, tls, limit);
            }
            Err(error) => why = error.to_string(),
        }
    }
    Err(why)
}

fn ask(socket: TcpStream, tls: Option<Connection>, limit: Duration) -> Result<Status, String> {
    let limits = Limits { silence: limit, queue_bytes: HELLO_BYTES_MAX };
    let line = Line::new(socket, limits, tls).map_err(|error| error.to_string())?;
    let _ = line.send(wire::carried(ASK_STATUS, &()));
    let mut waits = Waits { until: now() + limit, status: None };
    let ended = line.run(&mut waits);
    waits.status.ok_or(ended)
}

struct Waits {
    until: Instant,
    status: Option<Status>,
}

impl Takes for Waits {
    fn longest(&self) -> usize {
        HELLO_BYTES_MAX
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.until)
    }

    fn take(&mut self, _: Head, message: Vec<u8>) -> Result<(), String> {
        let status = wire::read_carried(STATUS, &message).map_err(|bad| bad.to_string())?;
        self.status = Some(status);
        Err("it has answered".to_owned())
    }
}
