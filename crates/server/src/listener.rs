//! The listeners: a TCP address, or a Unix socket in a folder.
//!
//! ```text
//!   psql -h 127.0.0.1 -p 5433  ──▶  127.0.0.1:5433
//!   psql -h /tmp/shop -p 5433  ──▶  /tmp/shop/.s.PGSQL.5433      the name that clients look for
//! ```
//!
//! Clients on this machine need no password, so access to the socket file is the authentication.
//! Its mode is 0600: only the user that runs the server (and root) can connect. PostgreSQL lets
//! every local user connect and checks who it is.
//!
//! The file survives a server that is killed. The next server replaces it, but not the file of a
//! running server, which it detects by connecting. If two servers start at the same moment where
//! such a file was left, the later could replace the file of the earlier. As the port is part of
//! the name, both would have to listen at one port of two addresses.

use crate::socket::Socket;
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, Shutdown, SocketAddrUnix, SocketType};
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{self, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The connections that may wait to be accepted; the system has a limit of its own (usually 4096).
/// Over a Unix socket, one more is refused instead of waiting.
const WAITING_MAX: i32 = 4096;

/// See the [module documentation](self).
pub(crate) enum Listener {
    Tcp(TcpListener),
    /// Dropped in this order: while the listener is open, no other file can get its file's inode.
    Unix(SocketFile, UnixListener),
}

impl Listener {
    /// Listens at a file that does not exist or was left by a killed server.
    ///
    /// # Errors
    /// If the path is too long, its folder is missing, or another server listens there; other
    /// errors of the system.
    pub(crate) fn unix(path: &Path) -> io::Result<Listener> {
        let wrong = |error: io::Error| {
            let what = match error.kind() {
                ErrorKind::NotFound => "its folder is missing; make it, or name another".to_owned(),
                _ => error.to_string(),
            };
            io::Error::new(error.kind(), format!("the Unix socket {}: {what}", path.display()))
        };
        let (fd, file) = open(path).map_err(wrong)?;
        Ok(Listener::Unix(file, fd.into()))
    }

    /// Accepts a client.
    pub(crate) fn accept(&self) -> io::Result<Socket> {
        match self {
            Listener::Tcp(listener) => {
                listener.accept().map(|(stream, peer)| Socket::tcp(stream, peer))
            }
            Listener::Unix(_, listener) => listener.accept().map(|(it, _)| Socket::unix(it)),
        }
    }

    /// Ends a wait in `accept`.
    pub(crate) fn wake(&self) {
        // On Linux this works even if the file was removed; elsewhere it takes a connection.
        let _ = rustix::net::shutdown(self, Shutdown::Both);
        match self {
            Listener::Tcp(listener) => drop(listener.local_addr().and_then(TcpStream::connect)),
            Listener::Unix(file, _) => drop(UnixStream::connect(&file.path)),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(_, listener) => listener.as_fd(),
        }
    }
}

/// The file of a Unix socket. Dropping this removes the file, unless another file has replaced it.
pub(crate) struct SocketFile {
    path: PathBuf,
    inode: (u64, u64),
}

impl SocketFile {
    fn inode(path: &Path) -> io::Result<(u64, u64)> {
        fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if SocketFile::inode(&self.path).is_ok_and(|inode| inode == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn open(path: &Path) -> io::Result<(OwnedFd, SocketFile)> {
    check_length(path)?;
    let fd = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
    let bind = || rustix::net::bind(&fd, &SocketAddrUnix::new(path)?);
    match bind() {
        Err(Errno::ADDRINUSE) => {
            remove_left(path)?;
            bind()?;
        }
        bound => bound?,
    }
    let file = SocketFile { path: path.to_owned(), inode: SocketFile::inode(path)? };
    // Nothing can connect before `listen`, so the mode is set in time.
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    rustix::net::listen(&fd, WAITING_MAX)?;
    Ok((fd, file))
}

/// The system accepts one byte more than clients do.
fn check_length(path: &Path) -> io::Result<()> {
    if net::SocketAddr::from_pathname(path).is_ok() {
        return Ok(());
    }
    let bytes = path.as_os_str().len();
    let what = format!("a path of {bytes} bytes is too long for one; name a shorter folder");
    Err(io::Error::new(ErrorKind::InvalidInput, what))
}

/// Removes the socket file of a killed server.
fn remove_left(path: &Path) -> io::Result<()> {
    let in_use = |what: String| Err(io::Error::new(ErrorKind::AddrInUse, what));
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return in_use("something else has this name; move it away".to_owned());
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Ok(_) => in_use("a server listens there; stop it, or name another folder".to_owned()),
        Err(error) => in_use(format!(
            "it cannot be found out whether a server listens there ({error}); remove the file if none does, \
             or name another folder"
        )),
    }
}
