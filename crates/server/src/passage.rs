//! The proxy of a process without a router: forwards client connections to the gateway process.
//!
//! ```text
//!   psql ──▶ node: Passage ════ bytes, both ways ════▶ isomer serve
//!                     └─ gateway down: 57P03, once the client has sent its startup message
//! ```
//!
//! The proxy does not inspect the traffic: encryption, passwords, cancel requests and replies are
//! between the client and the gateway. To the gateway the connections seem to come from the proxy.
//! A client of another machine must therefore not reach the gateway over loopback, where encryption
//! is not mandatory: the proxy refuses it.
//!
//! It forwards browsers to that process's console in the same way ([`Traffic::Pages`]).
//!
//! A connection uses two threads, one per direction, and one in the gateway. Before the client's
//! first bytes the proxy sends the name of its node. If the node falls silent, the gateway ends the
//! sessions of its clients.
//!
//! **Left out.** The gateway counts wrong passwords for the proxy's address, and not for each
//! client behind it.

use crate::clients::too_many;
use crate::liveness::KeepAlive;
use crate::wire::{CANCEL_REQUEST, GSS_REQUEST, Out, PASSED_ON, SSL_REQUEST, STARTUP_BYTES_MAX};
use isomer_sql::SqlError;
use parking_lot::Mutex;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// The time-out of a connection attempt, for each address of the gateway.
const DIAL: Duration = Duration::from_secs(2);
/// The time for a refused client to send its startup message and read the error.
const FAREWELL: Duration = Duration::from_secs(5);

/// The options of a proxy.
#[derive(Clone)]
pub struct PassageOptions {
    /// The address to listen at.
    pub listen: SocketAddr,
    /// Returns the present address of the gateway, a host and a port; or why it has none.
    pub to: Arc<dyn Fn() -> Result<String, String> + Send + Sync>,
    /// The traffic that it forwards.
    pub traffic: Traffic,
    /// The most clients at a time.
    pub connections_max: usize,
}

/// The traffic of a proxy.
#[derive(Clone)]
pub enum Traffic {
    /// Connections of PostgreSQL's clients.
    Clients {
        /// The name of this node in the cluster.
        node: String,
    },
    /// Browsers of the console.
    Pages,
}

/// A running proxy. Dropping it ends all connections. See the [module documentation](self).
pub struct Passage {
    shared: Arc<Shared>,
    address: SocketAddr,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    options: PassageOptions,
    stop: AtomicBool,
    /// Both sockets of each connection.
    open: Mutex<Vec<Weak<TcpStream>>>,
}

impl Passage {
    /// Begins to listen. The gateway need not be up yet.
    ///
    /// # Errors
    /// If listening fails.
    pub fn start(options: PassageOptions) -> io::Result<Passage> {
        let listener = TcpListener::bind(options.listen)?;
        let address = listener.local_addr()?;
        let (stop, open) = (AtomicBool::new(false), Mutex::default());
        let shared = Arc::new(Shared { options, stop, open });
        let accepting = shared.clone();
        let acceptor = Some(thread("isomer-accept", move || accept(&accepting, &listener))?);
        Ok(Passage { shared, address, acceptor })
    }

    /// The traffic that it forwards.
    pub fn traffic(&self) -> &Traffic {
        &self.shared.options.traffic
    }

    /// The address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.address);
        // A thread that panicked has reported it already.
        let _ = self.acceptor.take().map(JoinHandle::join);
        for end in self.shared.open.lock().drain(..).filter_map(|end| end.upgrade()) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the edge: clients are served by threads")]
fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run)
}

#[allow(
    clippy::disallowed_methods,
    reason = "the edge: pauses when the system has no more sockets"
)]
fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    loop {
        let accepted = listener.accept();
        if shared.stop.load(Ordering::SeqCst) {
            return;
        }
        let Ok((client, _)) = accepted else {
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        let (client, passing) = (Arc::new(client), shared.clone());
        let ends = shared.note(&client);
        let spawned = thread("isomer-passage", move || {
            // Both ends of a connection learn of its errors by themselves.
            let _ = match ends / 2 >= passing.options.connections_max {
                true => passing.refuse(&client, &too_many("too many clients already".to_owned())),
                false => passing.pass_on(&client),
            };
        });
        // Without a thread, the client's connection has just been closed.
        drop(spawned);
    }
}

impl Shared {
    /// Registers a socket, to be closed at the end; returns the number of registered sockets.
    fn note(&self, end: &Arc<TcpStream>) -> usize {
        let mut open = self.open.lock();
        open.retain(|end| end.strong_count() > 0);
        open.push(Arc::downgrade(end));
        open.len()
    }

    fn pass_on(&self, client: &Arc<TcpStream>) -> io::Result<()> {
        let server = match self.dial() {
            Ok(server) => Arc::new(server),
            Err(why) => return self.refuse(client, &self.unreachable(&why)),
        };
        if server.local_addr()?.ip().is_loopback() && !client.peer_addr()?.ip().is_loopback() {
            return self.refuse(client, &self.too_near());
        }
        self.note(&server);
        if self.stop.load(Ordering::SeqCst) {
            return Ok(());
        }
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        // If the system does not support keepalive, the gateway may detect a dead connection late.
        let _ = KeepAlive::begin(client).and(KeepAlive::begin(&server));
        (&*server).write_all(&self.introduction())?;
        let (from, to) = (server.clone(), client.clone());
        let answers = thread("isomer-answers", move || {
            let _ = io::copy(&mut &*from, &mut &*to);
            // The client has no more answers to expect.
            let _ = to.shutdown(Shutdown::Both);
            let _ = from.shutdown(Shutdown::Both);
        })?;
        let asked = io::copy(&mut &**client, &mut &*server);
        // A client that has closed its sending side still receives the answers.
        let _ = server.shutdown(if asked.is_ok() { Shutdown::Write } else { Shutdown::Both });
        // A thread that panicked has reported it already.
        let _ = answers.join();
        Ok(())
    }

    /// The message that the node sends before the client's bytes.
    fn introduction(&self) -> Vec<u8> {
        let Traffic::Clients { node } = &self.options.traffic else { return Vec::new() };
        let name = node.as_bytes();
        let length = 8 + name.len() as i32;
        [&length.to_be_bytes()[..], &PASSED_ON.to_be_bytes(), name].concat()
    }

    fn dial(&self) -> io::Result<TcpStream> {
        let mut why = io::Error::new(ErrorKind::NotFound, "the name has no address");
        let to = (self.options.to)().map_err(|why| io::Error::new(ErrorKind::NotFound, why))?;
        for address in to.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, DIAL) {
                Ok(server) => return Ok(server),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    fn refuse(&self, client: &TcpStream, error: &SqlError) -> io::Result<()> {
        client.set_read_timeout(Some(FAREWELL))?;
        client.set_write_timeout(Some(FAREWELL))?;
        match self.options.traffic {
            Traffic::Clients { .. } => refuse_client(client, error),
            Traffic::Pages => refuse_browser(client, error),
        }
    }

    fn unreachable(&self, why: &io::Error) -> SqlError {
        let at = (self.options.to)().map_or_else(|_| String::new(), |to| format!(" at {to}"));
        SqlError::new("57P03", format!("the process that serves{at} cannot be reached: {why}"))
            .hint("This one passes connections on to it. It may be starting: try again in some seconds.")
    }

    fn too_near(&self) -> SqlError {
        let message = "clients of other machines cannot come by this process, as the one that serves would take them \
                       for clients of its own machine";
        let hint = "Connect to that one; or let it listen at an address that other machines reach, and give this one \
                    that address.";
        SqlError::new("28000", message).hint(hint)
    }
}

/// Refuses a browser with an error, after its request has begun.
fn refuse_browser(mut client: &TcpStream, error: &SqlError) -> io::Result<()> {
    let _ = client.read(&mut [0; 16 << 10])?;
    let hint = error.hint.as_deref().unwrap_or_default();
    let text = format!("{}\n{hint}\n", error.message);
    let length = text.len();
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain; charset=utf-8\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n"
    );
    client.write_all(&[head, text].concat().into_bytes())
}

/// Refuses a client with an error, after its startup message.
fn refuse_client(mut client: &TcpStream, error: &SqlError) -> io::Result<()> {
    loop {
        let mut head = [0; 8];
        client.read_exact(&mut head)?;
        let [length, version] = [&head[..4], &head[4..]]
            .map(|number| i32::from_be_bytes(number.try_into().expect("it has four bytes")));
        let length = usize::try_from(length).unwrap_or(0);
        if !(8..=STARTUP_BYTES_MAX).contains(&length) {
            return Ok(());
        }
        client.read_exact(&mut vec![0; length - 8])?;
        match version {
            // In plain text the error can be sent; a client that insists on encryption learns at
            // least that there is none.
            SSL_REQUEST | GSS_REQUEST => client.write_all(b"N")?,
            CANCEL_REQUEST => return Ok(()),
            _ => break,
        }
    }
    let mut out = Out::default();
    out.fatal(error);
    client.write_all(&out.bytes)
}
