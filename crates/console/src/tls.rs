//! HTTPS: a listener whose connections are encrypted.
//!
//! ```text
//!   accept ─▶ handshake, on a task of its own ─▶ axum
//! ```
//!
//! A client that is slow in its handshake, or never ends it, delays no other: at most
//! [`HANDSHAKES_MAX`] are under way, each for up to [`HANDSHAKE`].

use axum::serve::Listener;
use isomer_server::Tls;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Handshakes at a time.
const HANDSHAKES_MAX: usize = 256;
/// The time for a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The pause when the system has no more sockets.
const PAUSE: Duration = Duration::from_millis(50);

/// See the [module documentation](self).
pub(crate) struct Encrypted {
    address: SocketAddr,
    ready: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
}

impl Encrypted {
    /// Encrypts the connections of a listener, on the current runtime.
    pub(crate) fn new(listener: TcpListener, tls: &Tls) -> io::Result<Encrypted> {
        let address = listener.local_addr()?;
        let acceptor = TlsAcceptor::from(tls.config());
        let (send, ready) = mpsc::channel(1);
        tokio::spawn(accept(listener, acceptor, send));
        Ok(Encrypted { address, ready })
    }
}

/// Accepts connections until the receiver is dropped.
async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    ready: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    let places = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    while !ready.is_closed() {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((socket, from)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let (acceptor, ready) = (acceptor.clone(), ready.clone());
        tokio::spawn(async move {
            let shaken = tokio::time::timeout(HANDSHAKE, acceptor.accept(socket)).await;
            drop(place);
            if let Ok(Ok(stream)) = shaken {
                // Fails once the console stops.
                let _ = ready.send((stream, from)).await;
            }
        });
    }
}

impl Listener for Encrypted {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(accepted) => accepted,
            // The accepting task ends only with the runtime.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(self.address)
    }
}
