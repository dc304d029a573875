//! A client's socket: over TCP, or over a file of this machine (a Unix socket).
//!
//! Once it is there, both kinds are read and written alike. A Unix socket saves what TCP does in the kernel
//! to get bytes from one process of a machine to another: a fifth of what a small statement takes (decision
//! 0007).
//!
//! The thread that serves a client reads and writes through a [`Channel`]; others have the socket
//! to end its waits with ([`Socket::shutdown`]). It is one descriptor for both.
//!
//! **Clients that do not read.** A write waits so long for room ([`Socket::set_write_timeout`]), and a client that
//! makes none is given up: the write fails, and every later one at once, as what was sent may end in the middle of a
//! message. The system wants to see a part of its buffer free, so a byte now and then is no reading. A client that
//! reads steadily is served at its pace, as long as its statement may take.

use crate::limits;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// See the [module documentation](self).
pub(crate) struct Socket {
    fd: OwnedFd,
    origin: Origin,
}

/// Where a client is, as far as it can be told from others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Origin {
    /// A process of this machine, over a Unix socket, and whose it is, where the system says so.
    Unix(Option<u32>),
    /// A process of this machine, over TCP; it can choose its address.
    Loopback,
    /// Another machine: its address, of version 6 the network, as all of its addresses are one's
    /// own.
    Network(IpAddr),
}

impl Origin {
    pub(crate) fn of(peer: IpAddr) -> Origin {
        match peer.to_canonical() {
            peer if peer.is_loopback() => Origin::Loopback,
            IpAddr::V6(peer) => {
                let network = Ipv6Addr::from(u128::from(peer) >> 64 << 64);
                Origin::Network(network.into())
            }
            peer => Origin::Network(peer),
        }
    }
}

impl Socket {
    pub(crate) fn new(fd: OwnedFd, origin: Origin) -> Socket {
        Socket { fd, origin }
    }

    pub(crate) fn tcp(stream: TcpStream, peer: SocketAddr) -> Socket {
        // Where this fails the client has gone already, which the first read finds.
        let _ = stream.set_nodelay(true);
        Socket::new(stream.into(), Origin::of(peer.ip()))
    }

    pub(crate) fn unix(stream: UnixStream) -> Socket {
        let owner = owner(&stream);
        Socket::new(stream.into(), Origin::Unix(owner))
    }

    pub(crate) fn origin(&self) -> Origin {
        self.origin
    }

    /// True if the client is a process of this machine.
    pub(crate) fn is_near(&self) -> bool {
        !matches!(self.origin, Origin::Network(_))
    }

    pub(crate) fn is_unix(&self) -> bool {
        matches!(self.origin, Origin::Unix(_))
    }

    /// True if the client is a process of who runs the server, or of root. Where the system does
    /// not say whose a process is, the mode of the socket's file has let nobody else in.
    pub(crate) fn is_owner(&self) -> bool {
        match self.origin {
            Origin::Unix(Some(user)) => user == 0 || user == rustix::process::geteuid().as_raw(),
            Origin::Unix(None) => true,
            Origin::Loopback | Origin::Network(_) => false,
        }
    }

    /// How long a read waits; `None`: as long as it takes.
    pub(crate) fn set_read_timeout(&self, most: Option<Duration>) -> io::Result<()> {
        Ok(set_socket_timeout(&self.fd, Timeout::Recv, most)?)
    }

    /// How long a write waits; `None`: as long as it takes.
    pub(crate) fn set_write_timeout(&self, most: Option<Duration>) -> io::Result<()> {
        Ok(set_socket_timeout(&self.fd, Timeout::Send, most)?)
    }

    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        Ok(shutdown(&self.fd, how)?)
    }

    /// Reads; before it waits, lets other threads of this processor run.
    ///
    /// What a client asks next often comes from a thread that has to run here first. If it has run when
    /// this thread looks again, nobody was put to sleep and nobody has to be woken, which is dearer than
    /// most statements (decision 0007).
    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        match recv(&self.fd, &mut *into, RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN) => {
                std::thread::yield_now();
                Ok(recv(&self.fd, into, RecvFlags::empty())?.0)
            }
            read => Ok(read?.0),
        }
    }

    /// Writes what fits.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&self.fd, bytes)?)
    }
}

#[cfg(target_os = "linux")]
fn owner(stream: &UnixStream) -> Option<u32> {
    rustix::net::sockopt::socket_peercred(stream).ok().map(|peer| peer.uid.as_raw())
}

#[cfg(not(target_os = "linux"))]
fn owner(_stream: &UnixStream) -> Option<u32> {
    None
}

/// A socket as the one thread reads and writes it that serves the client.
#[derive(Clone)]
pub(crate) struct Channel {
    socket: Arc<Socket>,
    /// All reads together wait no longer than until then.
    until: Option<Instant>,
    /// A write has failed.
    broken: bool,
}

impl Channel {
    /// One whose client has until then to log in.
    pub(crate) fn new(socket: Arc<Socket>, until: Instant) -> Channel {
        Channel { socket, until: Some(until), broken: false }
    }

    pub(crate) fn socket(&self) -> &Arc<Socket> {
        &self.socket
    }

    /// A limit to all reads together; `None`: each has its own ([`Socket::set_read_timeout`]), at
    /// first none.
    pub(crate) fn set_deadline(&mut self, until: Option<Instant>) -> io::Result<()> {
        self.until = until;
        if until.is_none() { self.socket.set_read_timeout(None) } else { Ok(()) }
    }
}

impl Read for Channel {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let Some(until) = self.until {
            let left = until.saturating_duration_since(limits::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            // The system's own unit.
            self.socket.set_read_timeout(Some(left.max(Duration::from_micros(1))))?;
        }
        self.socket.read(into)
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.broken {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let written = self.socket.write(bytes);
        self.broken = written.as_ref().is_err_and(|error| error.kind() != ErrorKind::Interrupted);
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
