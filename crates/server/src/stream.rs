//! The bytes on a client's socket, plain or encrypted.

use crate::socket::{Channel, Socket};
use rustix::net::Shutdown;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// A certificate and its key, for encryption.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ServerConfig>,
}

impl Tls {
    /// Reads a certificate (with its chain, if any) and its key, both PEM files.
    ///
    /// # Errors
    /// If a file cannot be read, the two do not match, or other users can read the key.
    pub fn open(certificate: &Path, key: &Path) -> io::Result<Tls> {
        let wrong = |path: &Path, what: String| {
            io::Error::new(ErrorKind::InvalidData, format!("{}: {what}", path.display()))
        };
        check_secret(key)?;
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| wrong(certificate, error.to_string()))?;
        let private =
            PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error.to_string()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map(|config| config.with_no_client_auth())
            .and_then(|config| config.with_single_cert(chain, private))
            .map_err(|error| wrong(certificate, error.to_string()))?;
        Ok(Tls { config: Arc::new(config) })
    }

    /// The certificate and the key, for other listeners.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }

    /// Begins to encrypt a socket.
    pub(crate) fn encrypt(&self, channel: Channel) -> io::Result<Stream> {
        let connection = ServerConnection::new(self.config.clone()).map_err(io::Error::other)?;
        Ok(Stream::Encrypted(Box::new(StreamOwned::new(connection, channel))))
    }
}

/// Checks that a key is readable by its owner only. A key of root's may be readable by a group, as
/// Debian keeps them.
///
/// # Errors
/// If other users can read it, or it does not exist.
pub fn check_secret(key: &Path) -> io::Result<()> {
    let wrong = |what: String| {
        Err(io::Error::new(ErrorKind::PermissionDenied, format!("{}: {what}", key.display())))
    };
    let file = match fs::metadata(key) {
        Ok(file) => file,
        Err(error) => {
            return Err(io::Error::new(error.kind(), format!("{}: {error}", key.display())));
        }
    };
    let (mode, me) = (file.mode() & 0o7777, rustix::process::geteuid().as_raw());
    let too_open = match file.uid() {
        0 => 0o027,
        owner if owner == me => 0o077,
        _ => return wrong("a key has to belong to who runs the server, or to root".to_owned()),
    };
    if mode & too_open == 0 {
        return Ok(());
    }
    wrong(format!(
        "others can read this key, as its mode is {mode:04o}: chmod 0600 {} (0640 if it belongs to root)",
        key.display()
    ))
}

/// See the [module documentation](self).
pub(crate) enum Stream {
    Plain(Channel),
    Encrypted(Box<StreamOwned<ServerConnection, Channel>>),
}

impl Stream {
    pub(crate) fn socket(&self) -> &Arc<Socket> {
        match self {
            Stream::Plain(channel) => channel.socket(),
            Stream::Encrypted(stream) => stream.sock.socket(),
        }
    }

    /// As [`Channel::set_deadline`].
    pub(crate) fn set_deadline(&mut self, until: Option<Instant>) -> io::Result<()> {
        match self {
            Stream::Plain(channel) => channel.set_deadline(until),
            Stream::Encrypted(stream) => stream.sock.set_deadline(until),
        }
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        matches!(self, Stream::Encrypted(_))
    }

    /// Announces that nothing more is sent.
    pub(crate) fn end_writing(&mut self) -> io::Result<()> {
        if let Stream::Encrypted(stream) = self {
            stream.conn.send_close_notify();
            stream.flush()?;
        }
        self.socket().shutdown(Shutdown::Write)
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(channel) => channel.read(into),
            Stream::Encrypted(stream) => match stream.read(into) {
                // A client that closes without a notification has closed all the same.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
                read => read,
            },
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(channel) => channel.write(bytes),
            Stream::Encrypted(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(channel) => channel.flush(),
            Stream::Encrypted(stream) => stream.flush(),
        }
    }
}
