//! Ports for processes that will be started, or restarted, later.
//!
//! A port that the system chooses comes from the range from which connections take theirs, too.
//! Between the choice and the start, or while a process is down, a connection could take it. So
//! these ports are below that range, which begins at 32768 on Linux.
//!
//! A process takes ports in sequence from a random beginning. It takes none twice, even while the
//! port is unused for a while, and two processes rarely collide.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The address at which processes of one machine reach each other.
pub(crate) const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

const PORTS: Range<u16> = 15_000..32_000;
/// The most ports that are tried.
const TRIES: usize = 1000;

#[allow(
    clippy::disallowed_methods,
    reason = "the edge: processes begin at different places by chance"
)]
static NEXT: LazyLock<AtomicU64> =
    LazyLock::new(|| AtomicU64::new(RandomState::new().build_hasher().finish()));

/// A free port at an address of this machine, held until it is dropped, and not taken again by this
/// process.
pub(crate) fn free_port(address: IpAddr) -> io::Result<TcpListener> {
    let listen = || {
        let at = NEXT.fetch_add(1, Ordering::Relaxed) % PORTS.len() as u64;
        TcpListener::bind((address, PORTS.start + at as u16))
    };
    let mut tried = (1..TRIES).map(|_| listen());
    tried.find_map(Result::ok).map_or_else(listen, Ok)
}
