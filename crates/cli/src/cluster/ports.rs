//! Ports that processes will listen at which are yet to be started, or started again.
//!
//! A port that the system chooses is of the range from which it takes one for each connection, too: between the choice and the
//! start, or while a process is down, a connection may get it. So these are below that range, which begins at 32768 on Linux.
//!
//! A process chooses one port after the other, from a place where chance lets it begin: none twice, though nobody listens
//! there for a while; and two processes rarely meet.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where processes of one machine reach each other.
pub(crate) const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

const PORTS: Range<u16> = 15_000..32_000;
/// So many are tried.
const TRIES: usize = 1000;

#[allow(
    clippy::disallowed_methods,
    reason = "the edge: processes begin at different places by chance"
)]
static NEXT: LazyLock<AtomicU64> =
    LazyLock::new(|| AtomicU64::new(RandomState::new().build_hasher().finish()));

/// A free port at an address of this machine, held until it is dropped, and not chosen again by this process.
pub(crate) fn free_port(address: IpAddr) -> io::Result<TcpListener> {
    let listen = || {
        let at = NEXT.fetch_add(1, Ordering::Relaxed) % PORTS.len() as u64;
        TcpListener::bind((address, PORTS.start + at as u16))
    };
    let mut tried = (1..TRIES).map(|_| listen());
    tried.find_map(Result::ok).map_or_else(listen, Ok)
}
