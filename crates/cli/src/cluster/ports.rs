//! Ports that processes will listen at which are yet to be started, or started again.
//!
//! A port that the system chooses is of the range from which it takes one for each connection, too: between the choice and the
//! start, or while a process is down, a connection may get it. So these are below that range, which begins at 32768 on Linux.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::ops::Range;

/// Where processes of one machine reach each other.
pub(crate) const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

const PORTS: Range<u16> = 15_000..32_000;
/// So many are tried.
const TRIES: usize = 1000;

/// A free port at an address of this machine, held until it is dropped: whoever chooses several holds all of them.
#[allow(
    clippy::disallowed_methods,
    reason = "the edge: it is chosen by chance, so that two rarely try the same"
)]
pub(crate) fn free_port(address: IpAddr) -> io::Result<TcpListener> {
    let listen = || {
        let drawn = RandomState::new().build_hasher().finish();
        let port = PORTS.start + (drawn % PORTS.len() as u64) as u16;
        TcpListener::bind((address, port))
    };
    let mut tried = (1..TRIES).map(|_| listen());
    tried.find_map(Result::ok).map_or_else(listen, Ok)
}
