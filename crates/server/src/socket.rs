//! A client's socket: over TCP, or over a file of this machine (a Unix socket).
//!
//! Once it is there, both kinds are read and written alike. A Unix socket saves what TCP does in the kernel
//! to get bytes from one process of a machine to another: a fifth of what a small statement takes (decision
//! 0007).

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// See the [module documentation](self).
pub(crate) struct Socket {
    fd: OwnedFd,
    /// The client's address; none over a Unix socket.
    peer: Option<IpAddr>,
}

impl Socket {
    pub(crate) fn tcp(stream: TcpStream, peer: SocketAddr) -> Socket {
        // Where this fails the client has gone already, which the first read finds.
        let _ = stream.set_nodelay(true);
        Socket { fd: stream.into(), peer: Some(peer.ip()) }
    }

    pub(crate) fn unix(stream: UnixStream) -> Socket {
        Socket { fd: stream.into(), peer: None }
    }

    /// True if the client is a process of this machine.
    pub(crate) fn is_near(&self) -> bool {
        self.peer.is_none_or(|peer| peer.to_canonical().is_loopback())
    }

    pub(crate) fn is_unix(&self) -> bool {
        self.peer.is_none()
    }

    /// The same socket, for another thread.
    pub(crate) fn try_clone(&self) -> io::Result<Socket> {
        Ok(Socket { fd: self.fd.try_clone()?, peer: self.peer })
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
}

impl Read for Socket {
    /// Reads; before it waits, lets other threads of this processor run.
    ///
    /// What a client asks next often comes from a thread that has to run here first. If it has run when
    /// this thread looks again, nobody was put to sleep and nobody has to be woken, which is dearer than
    /// most statements (decision 0007).
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match recv(&self.fd, &mut *into, RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN) => {
                std::thread::yield_now();
                Ok(recv(&self.fd, into, RecvFlags::empty())?.0)
            }
            read => Ok(read?.0),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&self.fd, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
