//! A client's socket: TCP, or a file of this machine (a Unix socket).
//!
//! After the connection both kinds are used alike. A Unix socket saves the TCP work of the kernel
//! between two local processes: a fifth of the time of a small statement (decision 0007).
//!
//! The thread that serves a client reads and writes through a [`Channel`]. Other threads hold the
//! socket to interrupt it ([`Socket::shutdown`]). Both share one descriptor.
//!
//! **Clients that do not read.** A write waits for buffer space up to a time-out
//! ([`Socket::set_write_timeout`]). Then the write fails, and so does every later one at once,
//! because the stream may end in the middle of a message. The system requires a part of its buffer
//! to be free, so a byte now and then does not count as reading. A client that reads steadily is
//! served at its pace, within the statement's time limit.

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
    /// The write time-out in milliseconds; 0 for none.
    write_ms: AtomicU32,
    /// The system's keepalive values; `None` if they cannot be read.
    keep_alive: Option<KeepAlive>,
}

/// The origin of a client, as far as it can be distinguished.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Origin {
    /// A process of this machine over a Unix socket, with its user if the system reports it.
    Unix(Option<u32>),
    /// A process of this machine over TCP, which can choose its address.
    Loopback,
    /// Another machine by its address. For IPv6 it is the network, because one client has all
    /// addresses of it.
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
        // On failure the client has already disconnected, which the first read detects.
        let _ = stream.set_nodelay(true);
        let keep_alive = KeepAlive::begin(&stream).ok();
        let origin = Origin::of(peer.ip());
        Socket { keep_alive, peer: Some(peer), ..Socket::of(stream.into(), origin) }
    }

    pub(crate) fn unix(stream: UnixStream) -> Socket {
        let owner = owner(&stream);
        Socket::of(stream.into(), Origin::Unix(owner))
    }

    /// A socket with this origin.
    pub(crate) fn of(fd: OwnedFd, origin: Origin) -> Socket {
        Socket { fd, origin, peer: None, write_ms: AtomicU32::new(0), keep_alive: None }
    }

    /// The address of the client, over TCP.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// The system's keepalive values; `None` if they cannot be read.
    pub(crate) fn keep_alive(&self) -> Option<KeepAlive> {
        self.keep_alive
    }

    /// Applies keepalive values.
    pub(crate) fn set_keep_alive(&self, wanted: &KeepAlive) -> io::Result<()> {
        match &self.keep_alive {
            Some(usual) => Ok(wanted.or(usual).apply(&self.fd)?),
            None => Ok(()),
        }
    }

    /// True if the client has closed the connection or the system found it dead, even if input is
    /// unread.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_over(&self) -> bool {
        let mut looked = [PollFd::new(&self.fd, PollFlags::RDHUP)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let ends = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        poll(&mut looked, Some(&at_once)).is_ok() && looked[0].revents().intersects(ends)
    }

    /// Other systems cannot tell without reading.
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

    /// True if the client is a process of the server's user or of root. If the system does not
    /// report users, the mode of the socket's file has excluded all others.
    pub(crate) fn is_owner(&self) -> bool {
        match self.origin {
            Origin::Unix(Some(user)) => user == 0 || user == rustix::process::geteuid().as_raw(),
            Origin::Unix(None) => true,
            Origin::Loopback | Origin::Network(_) => false,
        }
    }

    /// Sets the time-out of reads; `None` for none.
    pub(crate) fn set_read_timeout(&self, most: Option<Duration>) -> io::Result<()> {
        Ok(set_socket_timeout(&self.fd, Timeout::Recv, most)?)
    }

    /// Sets the time-out of writes; `None` for none.
    pub(crate) fn set_write_timeout(&self, most: Option<Duration>) {
        let ms = most.map_or(0, |most| u32::try_from(most.as_millis()).unwrap_or(u32::MAX).max(1));
        self.write_ms.store(ms, Ordering::Relaxed);
    }

    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        Ok(shutdown(&self.fd, how)?)
    }

    /// Reads; before it blocks, it yields the processor once.
    ///
    /// The client's next request often comes from a thread that waits for this processor. If that
    /// thread has run by the second attempt, neither sleep nor wakeup is necessary, which cost more
    /// than most statements (decision 0007).
    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        match recv(&self.fd, &mut *into, RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN) => {
                std::thread::yield_now();
                Ok(recv(&self.fd, into, RecvFlags::empty())?.0)
            }
            read => Ok(read?.0),
        }
    }

    /// Writes the bytes that fit, once there is room.
    ///
    /// A blocking write would report the bytes it had room for before, and the next one would wait
    /// anew, so the wait is separate.
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

/// A socket as seen by the thread that serves the client.
#[derive(Clone)]
pub(crate) struct Channel {
    socket: Arc<Socket>,
    /// The deadline of all reads together.
    until: Option<Instant>,
    /// A write has failed.
    broken: bool,
}

impl Channel {
    /// A channel whose client has to log in before a deadline.
    pub(crate) fn new(socket: Arc<Socket>, until: Instant) -> Channel {
        Channel { socket, until: Some(until), broken: false }
    }

    pub(crate) fn socket(&self) -> &Arc<Socket> {
        &self.socket
    }

    /// Sets a deadline for all reads together; `None`: each has its own time-out
    /// ([`Socket::set_read_timeout`]), initially none.
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
            // The resolution of the system.
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

    /// The second write would wait for ever: it must not wait at all.
    #[test]
    fn once_a_write_has_timed_out_later_ones_fail_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let _client =
            TcpStream::connect(listener.local_addr().expect("its own")).expect("it listens");
        let (stream, peer) = listener.accept().expect("a client");
        let socket = Arc::new(Socket::tcp(stream, peer));
        socket.set_write_timeout(Some(Duration::from_millis(50)));
        let mut channel = Channel::new(socket.clone(), limits::now());
        let late = std::iter::repeat_with(|| channel.write(&[0; 1 << 16])).find_map(Result::err);
        assert_eq!(late.expect("the client does not read").kind(), ErrorKind::TimedOut);
        socket.set_write_timeout(None);
        let again = channel.write(&[0]).expect_err("the stream may end in a message");
        assert_eq!(again.kind(), ErrorKind::BrokenPipe);
    }

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
        // 0 stands for the server's own values.
        socket.set_keep_alive(&KeepAlive::default()).expect("the system takes it");
        let usual = socket.keep_alive().expect("this system can be told");
        assert_eq!(sockopt::tcp_keepcnt(&socket.fd).expect("a socket"), usual.get(2));
        assert_ne!(usual.get(2), 3);
        assert!(!socket.is_over());
        drop(client);
        while !socket.is_over() {}
    }
}
