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
use crate::liveness::KeepAlive;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// See the [module documentation](self).
pub(crate) struct Socket {
    fd: OwnedFd,
    origin: Origin,
    /// The address of the client, over TCP.
    peer: Option<SocketAddr>,
    /// How long a write waits for room, in milliseconds; zero: as long as it takes.
    write_ms: AtomicU32,
    /// How the system looks after it where the client sets nothing; `None`: it cannot be told.
    keep_alive: Option<KeepAlive>,
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
    pub(crate) fn tcp(stream: TcpStream, peer: SocketAddr) -> Socket {
        // Where this fails the client has gone already, which the first read finds.
        let _ = stream.set_nodelay(true);
        let keep_alive = KeepAlive::begin(&stream).ok();
        let origin = Origin::of(peer.ip());
        Socket { keep_alive, peer: Some(peer), ..Socket::of(stream.into(), origin) }
    }

    pub(crate) fn unix(stream: UnixStream) -> Socket {
        let owner = owner(&stream);
        Socket::of(stream.into(), Origin::Unix(owner))
    }

    /// A socket of this origin.
    pub(crate) fn of(fd: OwnedFd, origin: Origin) -> Socket {
        Socket { fd, origin, peer: None, write_ms: AtomicU32::new(0), keep_alive: None }
    }

    /// The address of the client, over TCP.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// How the system looks after the connection where the client sets nothing; `None`: it cannot
    /// be told.
    pub(crate) fn keep_alive(&self) -> Option<KeepAlive> {
        self.keep_alive
    }

    /// Has the system look after the connection in this way.
    pub(crate) fn set_keep_alive(&self, wanted: &KeepAlive) -> io::Result<()> {
        match &self.keep_alive {
            Some(usual) => Ok(wanted.or(usual).apply(&self.fd)?),
            None => Ok(()),
        }
    }

    /// True if the client has ended the connection, or the system found it dead; what it has sent may be unread.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_over(&self) -> bool {
        let mut looked = [PollFd::new(&self.fd, PollFlags::RDHUP)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let ends = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        poll(&mut looked, Some(&at_once)).is_ok() && looked[0].revents().intersects(ends)
    }

    /// Other systems do not tell without reading.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn is_over(&self) -> bool {
        false
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
    pub(crate) fn set_write_timeout(&self, most: Option<Duration>) {
        let ms = most.map_or(0, |most| u32::try_from(most.as_millis()).unwrap_or(u32::MAX).max(1));
        self.write_ms.store(ms, Ordering::Relaxed);
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

    /// Writes what fits, once there is room.
    ///
    /// A write that waits would report what it had room for before, and the next one would wait
    /// anew: so the wait is apart.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match send(&self.fd, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Err(Errno::AGAIN) => self.wait_for_room()?,
                sent => return Ok(sent?),
            }
        }
    }

    fn wait_for_room(&self) -> io::Result<()> {
        let most = Duration::from_millis(self.write_ms.load(Ordering::Relaxed).into());
        let most = (!most.is_zero())
            .then(|| Timespec { tv_sec: most.as_secs() as _, tv_nsec: most.subsec_nanos().into() });
        match poll(&mut [PollFd::new(&self.fd, PollFlags::OUT)], most.as_ref()) {
            Ok(0) => Err(ErrorKind::TimedOut.into()),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use rustix::net::sockopt;
    use std::net::TcpListener;

    #[test]
    fn the_system_looks_after_connections_of_tcp_as_it_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let client =
            TcpStream::connect(listener.local_addr().expect("its own")).expect("it listens");
        let (stream, peer) = listener.accept().expect("a client");
        let socket = Socket::tcp(stream, peer);
        assert!(sockopt::socket_keepalive(&socket.fd).expect("a socket"));
        let seconds = |time: Duration| time.as_secs().to_string();
        let mut wanted = KeepAlive::default();
        for (name, value) in [
            ("tcp_keepalives_idle", "61"),
            ("tcp_keepalives_interval", "7"),
            ("tcp_keepalives_count", "3"),
            ("tcp_user_timeout", "90s"),
        ] {
            let at = crate::liveness::named(name).expect("a setting");
            wanted.set(at, value).expect("a value");
        }
        socket.set_keep_alive(&wanted).expect("the system takes it");
        assert_eq!(seconds(sockopt::tcp_keepidle(&socket.fd).expect("a socket")), "61");
        assert_eq!(seconds(sockopt::tcp_keepintvl(&socket.fd).expect("a socket")), "7");
        assert_eq!(sockopt::tcp_keepcnt(&socket.fd).expect("a socket"), 3);
        assert_eq!(sockopt::tcp_user_timeout(&socket.fd).expect("a socket"), 90_000);
        // Zero is the server's own.
        socket.set_keep_alive(&KeepAlive::default()).expect("the system takes it");
        let usual = socket.keep_alive().expect("this system can be told");
        assert_eq!(sockopt::tcp_keepcnt(&socket.fd).expect("a socket"), usual.get(2));
        assert_ne!(usual.get(2), 3);
        assert!(!socket.is_over());
        drop(client);
        while !socket.is_over() {}
    }
}
