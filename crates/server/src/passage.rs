//! Clients of a process that has no router: their connections are passed on to the process that serves.
//!
//! ```text
//!   psql ──▶ node: Passage ════ bytes, both ways ════▶ isomer serve
//!                     └─ nobody there: 57P03, once the client has said that it speaks the protocol
//! ```
//!
//! What goes through is not looked at: encryption, passwords, cancel requests and replies are between the client and the
//! process that serves. That one sees the connections come from here. So a client of another machine must not come by a
//! connection that it takes for one of its own machine, which need not be encrypted: it is refused here.
//!
//! A connection is two threads, each for one way, as it is one in the process that serves. Ahead of
//! what the client says, the node says its own name: when the node falls silent, the process that
//! serves ends the sessions of its clients.
//!
//! **Left out.** The process that serves counts wrong passwords for this address, and not for each client behind it.

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

/// How long it is tried to reach the process that serves, at each of its addresses.
const DIAL: Duration = Duration::from_secs(2);
/// A client that is refused has so long to say what it is, and to take notice.
const FAREWELL: Duration = Duration::from_secs(5);

/// How connections are passed on.
#[derive(Clone, Debug)]
pub struct PassageOptions {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Where the process that serves listens: a host and a port.
    pub to: String,
    /// The name of this node in the cluster.
    pub node: String,
    /// The most clients at a time.
    pub connections_max: usize,
}

/// Listens, and passes on. Dropping it ends all connections. See the [module documentation](self).
pub struct Passage {
    shared: Arc<Shared>,
    address: SocketAddr,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    options: PassageOptions,
    stop: AtomicBool,
    /// Both ends of each connection.
    open: Mutex<Vec<Weak<TcpStream>>>,
}

impl Passage {
    /// Begins to listen. The process that serves need not be there yet.
    ///
    /// # Errors
    /// If the address cannot be listened to.
    pub fn start(options: PassageOptions) -> io::Result<Passage> {
        let listener = TcpListener::bind(options.listen)?;
        let address = listener.local_addr()?;
        let (stop, open) = (AtomicBool::new(false), Mutex::default());
        let shared = Arc::new(Shared { options, stop, open });
        let accepting = shared.clone();
        let acceptor = Some(thread("isomer-accept", move || accept(&accepting, &listener))?);
        Ok(Passage { shared, address, acceptor })
    }

    /// The address where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        // It wakes whoever accepts.
        let _ = TcpStream::connect(self.address);
        // A thread that panicked has said so already.
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
            // What ends a connection is for its ends to know, and they know.
            let _ = match ends / 2 >= passing.options.connections_max {
                true => refuse(&client, &too_many("too many clients already".to_owned())),
                false => passing.pass_on(&client),
            };
        });
        // Without a thread, the client's connection has just ended.
        drop(spawned);
    }
}

impl Shared {
    /// Keeps an end of a connection, to be ended with all others; says how many there are.
    fn note(&self, end: &Arc<TcpStream>) -> usize {
        let mut open = self.open.lock();
        open.retain(|end| end.strong_count() > 0);
        open.push(Arc::downgrade(end));
        open.len()
    }

    fn pass_on(&self, client: &Arc<TcpStream>) -> io::Result<()> {
        let server = match self.dial() {
            Ok(server) => Arc::new(server),
            Err(why) => return refuse(client, &self.unreachable(&why)),
        };
        if server.local_addr()?.ip().is_loopback() && !client.peer_addr()?.ip().is_loopback() {
            return refuse(client, &self.too_near());
        }
        self.note(&server);
        if self.stop.load(Ordering::SeqCst) {
            return Ok(());
        }
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        // Where the system does not look after a connection, the process that serves may hear late
        // that it is dead.
        let _ = KeepAlive::begin(client).and(KeepAlive::begin(&server));
        (&*server).write_all(&self.introduction())?;
        let (from, to) = (server.clone(), client.clone());
        let answers = thread("isomer-answers", move || {
            let _ = io::copy(&mut &*from, &mut &*to);
            // Who is served no more has nothing to ask.
            let _ = to.shutdown(Shutdown::Both);
            let _ = from.shutdown(Shutdown::Both);
        })?;
        let asked = io::copy(&mut &**client, &mut &*server);
        // A client that has asked all still hears the answers.
        let _ = server.shutdown(if asked.is_ok() { Shutdown::Write } else { Shutdown::Both });
        // A thread that panicked has said so already.
        let _ = answers.join();
        Ok(())
    }

    /// The message that the node sends ahead of the client's bytes.
    fn introduction(&self) -> Vec<u8> {
        let name = self.options.node.as_bytes();
        let length = 8 + name.len() as i32;
        [&length.to_be_bytes()[..], &PASSED_ON.to_be_bytes(), name].concat()
    }

    fn dial(&self) -> io::Result<TcpStream> {
        let mut why = io::Error::new(ErrorKind::NotFound, "the name has no address");
        for address in self.options.to.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, DIAL) {
                Ok(server) => return Ok(server),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    fn unreachable(&self, why: &io::Error) -> SqlError {
        let to = &self.options.to;
        SqlError::new("57P03", format!("the process that serves at {to} cannot be reached: {why}"))
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

/// Says what is wrong to a client, once it has said what it is.
fn refuse(client: &TcpStream, error: &SqlError) -> io::Result<()> {
    client.set_read_timeout(Some(FAREWELL))?;
    client.set_write_timeout(Some(FAREWELL))?;
    let mut client = client;
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
            // In clear it can be told; who insists on encryption hears at least that there is none.
            SSL_REQUEST | GSS_REQUEST => client.write_all(b"N")?,
            CANCEL_REQUEST => return Ok(()),
            _ => break,
        }
    }
    let mut out = Out::default();
    out.fatal(error);
    client.write_all(&out.bytes)
}
