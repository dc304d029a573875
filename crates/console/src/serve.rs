//! Connections: a bounded number of them, encrypted or not.
//!
//! ```text
//!   accept ─▶ a task of its own: handshake, if encrypted ─▶ requests, one after the other ─▶ routes
//! ```
//!
//! At most [`CONNECTIONS_MAX`] connections are served, and further ones are refused. So the console
//! takes no descriptors that clients of the database need. A connection is closed if its handshake,
//! or the head of a request, is not complete in time; so is one whose request has no answer within
//! [`crate::routes::ANSWER`], because its body does not come, and one whose client reads nothing of
//! an answer for [`UNREAD`].

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::net::sockopt::set_tcp_user_timeout;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

/// Connections at a time: the streams of [`crate::VIEWERS_MAX`] viewers, and requests.
pub(crate) const CONNECTIONS_MAX: usize = 320;
/// Refused connections that wait for the reason.
pub(crate) const REFUSED_MAX: usize = 32;
/// The time for a refused connection to send its request.
const FAREWELL: Duration = Duration::from_secs(1);
/// The answer to a refused connection.
const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\n\
    content-length: 25\r\nconnection: close\r\n\r\ntoo many open connections";
/// The time for a handshake, and for the head of a request.
const HEAD: Duration = Duration::from_secs(10);
/// The time for a client to read a part of its answer. A viewer that is suspended for longer asks
/// for the stream again.
const UNREAD: Duration = Duration::from_secs(60);
/// The pause when the system has no more sockets.
const PAUSE: Duration = Duration::from_millis(50);

/// The address that a request comes from.
#[derive(Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Answers requests until it is dropped.
pub(crate) async fn serve(listener: TcpListener, acceptor: Option<TlsAcceptor>, routes: Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let farewells = Arc::new(Semaphore::new(REFUSED_MAX));
    loop {
        let Ok((socket, from)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            // Under a flood they are closed without a word, so that no accept waits.
            if let (Ok(place), None) = (farewells.clone().try_acquire_owned(), &acceptor) {
                tokio::spawn(async move {
                    refuse(socket).await;
                    drop(place);
                });
            }
            continue;
        };
        // The system closes it, also while its buffer takes no more.
        let _ = set_tcp_user_timeout(&socket, UNREAD.as_millis() as u32);
        let (acceptor, routes) = (acceptor.clone(), routes.clone());
        let routes = routes.layer(Extension(Peer(from.ip())));
        tokio::spawn(async move {
            match acceptor {
                None => answer(socket, routes).await,
                Some(acceptor) => {
                    let shaken = tokio::time::timeout(HEAD, acceptor.accept(socket)).await;
                    if let Ok(Ok(stream)) = shaken {
                        answer(stream, routes).await;
                    }
                }
            }
            drop(place);
        });
    }
}

/// Tells a connection that there are too many.
async fn refuse(mut socket: TcpStream) {
    // A browser that is closed on before it has sent its request does not show the answer.
    let _ = tokio::time::timeout(FAREWELL, socket.read(&mut [0; 4096])).await;
    let _ = tokio::time::timeout(FAREWELL, socket.write_all(TOO_MANY)).await;
}

/// Answers the requests of a connection.
async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, routes: Router) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD);
    // A connection that breaks concerns its browser only.
    let _ = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes)).await;
}
