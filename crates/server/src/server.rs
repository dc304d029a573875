//! The listeners, and the threads of their connections.
//!
//! ```text
//!   listener ──accept──▶ one thread per client: read ─▶ messages ─▶ session ─▶ write
//!      │                       │ as long as whole messages are there, nothing is written
//!      │ too many: refused     │ but what has become long
//!      └ CancelRequest ──▶ the patience of another client ends
//! ```
//!
//! A thread blocks on its socket, or on a row lock, or on the disk; there is nothing else it could do
//! meanwhile. So there is no runtime, and no hand-over between a statement and its answer.

use crate::connection::{Connection, FLUSH_BYTES, Incoming, Sending, is_silence};
use crate::engine::Engine;
use crate::limits::{self, Memory, Watch};
use crate::listener::Listener;
use crate::options::ServerOptions;
use crate::session::Session;
use crate::settings::{REPORTED, Settings};
use crate::socket::Socket;
use crate::stream::Stream;
use crate::wire::{Out, Reader, violation};
use isomer_cluster::{Impatience, Patience};
use isomer_sql::budget::Account;
use isomer_sql::{SqlError, code};
use parking_lot::Mutex;
use rustix::net::Shutdown;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A client that does not read its answers for so long is given up.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// A client has to say who it is in this time.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(30);
/// So many connections are taken beyond those that may be served.
const STRANGERS_MAX: usize = 100;
/// Deep expressions are walked on the stack.
const STACK_BYTES: usize = 8 << 20;

/// A server that listens. Dropping it stops it.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    watch: Option<JoinHandle<()>>,
    /// Each with the thread that lets its clients in.
    listeners: Vec<(Arc<Listener>, JoinHandle<()>)>,
}

struct Shared {
    engine: Arc<Engine>,
    options: ServerOptions,
    settings: Settings,
    watch: Arc<Watch>,
    stop: AtomicBool,
    connected: AtomicUsize,
    next_process: AtomicI32,
    memory: Arc<Account>,
    clients: Mutex<BTreeMap<i32, Client>>,
    /// What the salts of users that do not exist are made of.
    decoy: [u8; 16],
}

/// A connected client, as others see it.
struct Client {
    secret: [u8; 4],
    patience: Arc<Patience>,
    socket: Socket,
}

impl Server {
    /// Begins to listen.
    ///
    /// # Errors
    /// If the address cannot be listened to, or may not, as other machines reach it and there is no
    /// encryption or no user with a password; if the settings cannot be set.
    pub fn start(engine: Arc<Engine>, options: ServerOptions) -> io::Result<Server> {
        check_address(&engine, &options)?;
        let mut decoy = [0; 16];
        (options.random)(&mut decoy);
        let settings = Settings::new(options.settings.clone().into());
        let settings =
            settings.map_err(|error| io::Error::new(ErrorKind::InvalidInput, error.to_string()))?;
        let listener = TcpListener::bind(options.listen)?;
        let address = listener.local_addr()?;
        let memory = Memory::of_all(&options);
        let shared = Arc::new(Shared {
            engine,
            options,
            settings,
            watch: Arc::default(),
            stop: AtomicBool::new(false),
            connected: AtomicUsize::new(0),
            next_process: AtomicI32::new(1),
            memory,
            clients: Mutex::default(),
            decoy,
        });
        let watching = shared.clone();
        let watch = thread("isomer-watch", move || watching.watch.run(watching.engine.gateway()))?;
        let mut server = Server { shared, address, watch: Some(watch), listeners: Vec::new() };
        server.accept_at(Listener::Tcp(listener))?;
        Ok(server)
    }

    /// Listens in a folder of this machine as well, where PostgreSQL's clients look for it: at the Unix socket
    /// `.s.PGSQL.` followed by the port. Who runs the server may connect, as a client of this machine. Returns
    /// the path of the socket, which is there until the server stops.
    ///
    /// # Errors
    /// Names the path, and says what is wrong with it: its folder is missing, it is too long (107 bytes on
    /// Linux), another server listens there.
    ///
    /// # Panics
    /// If the server was stopped.
    pub fn listen_in(&mut self, folder: &Path) -> io::Result<PathBuf> {
        assert!(self.watch.is_some(), "a server that was stopped listens no more");
        let path = std::path::absolute(folder)?.join(format!(".s.PGSQL.{}", self.address.port()));
        self.accept_at(Listener::unix(&path)?)?;
        Ok(path)
    }

    fn accept_at(&mut self, listener: Listener) -> io::Result<()> {
        let (shared, listener) = (self.shared.clone(), Arc::new(listener));
        let accepting = listener.clone();
        let acceptor = thread("isomer-accept", move || accept(&shared, &accepting))?;
        self.listeners.push((listener, acceptor));
        Ok(())
    }

    /// The address where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many clients are connected.
    pub fn connected(&self) -> usize {
        self.shared.connected.load(Ordering::SeqCst)
    }

    /// Takes no more clients, ends the statements of those there are, and waits until they have gone.
    #[allow(clippy::disallowed_methods, reason = "the edge: waits for threads to end")]
    pub fn stop(&mut self) {
        let Some(watch) = self.watch.take() else { return };
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.watch.stop();
        let _ = watch.join();
        for (listener, acceptor) in self.listeners.drain(..) {
            listener.wake();
            let _ = acceptor.join();
        }
        for client in self.shared.clients.lock().values() {
            let gateway = self.shared.engine.gateway();
            gateway.lose_patience(&client.patience, Impatience::Shutdown);
            let _ = client.socket.shutdown(Shutdown::Read);
        }
        for _ in 0..500 {
            if self.connected() == 0 {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Other machines are served with encryption and passwords only.
fn check_address(engine: &Engine, options: &ServerOptions) -> io::Result<()> {
    let listen = options.listen;
    if listen.ip().is_loopback() {
        return Ok(());
    }
    let refuse = |why: &str| {
        let message =
            format!("other machines can reach {listen}, so {why}; or listen at 127.0.0.1");
        Err(io::Error::new(ErrorKind::Unsupported, message))
    };
    if options.tls.is_none() {
        return refuse("it takes a certificate: give --tls-cert FILE and --tls-key FILE");
    }
    if !engine.has_users().map_err(|error| io::Error::other(error.to_string()))? {
        return refuse(
            "it takes a user with a password: serve at 127.0.0.1 first, and there say \
             CREATE USER name PASSWORD 'text'",
        );
    }
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "the edge: clients are served by threads")]
fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    // As deep expressions are walked on the stack, it is the same wherever that may happen.
    std::thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES).spawn(run)
}

#[allow(
    clippy::disallowed_methods,
    reason = "the edge: pauses when the system has no more sockets"
)]
fn accept(shared: &Arc<Shared>, listener: &Listener) {
    loop {
        let accepted = listener.accept();
        if shared.stop.load(Ordering::SeqCst) {
            return;
        }
        let Ok(socket) = accepted else {
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        // Some more are let in, to be told that they are too many, or to cancel what others do.
        let connected = shared.connected.fetch_add(1, Ordering::SeqCst);
        if connected >= shared.options.connections_max + STRANGERS_MAX {
            shared.connected.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        let serving = shared.clone();
        let spawned = thread("isomer-client", move || {
            let _counted = Counted(&serving.connected);
            // What ends a connection is the client's to know, and it knows.
            let _ = serve(&serving, socket);
        });
        if spawned.is_err() {
            shared.connected.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

struct Counted<'c>(&'c AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn serve(shared: &Arc<Shared>, socket: Socket) -> io::Result<()> {
    socket.set_read_timeout(Some(STARTUP_TIMEOUT))?;
    socket.set_write_timeout(Some(WRITE_TIMEOUT))?;
    let is_near = socket.is_near();
    let mut connection = Connection::new(Stream::Plain(socket));
    let cancel = |body: &[u8]| shared.cancel(body);
    let Some((user, database, settings)) = connection.startup(&shared.options, &cancel)? else {
        return Ok(());
    };
    if !is_near && !connection.stream.is_encrypted() {
        let message = "clients of other machines have to encrypt their connection";
        let error = SqlError::new("28000", message).hint("Connect with sslmode=require.");
        return connection.refuse::<()>(&error).map(|_| ());
    }
    if (!is_near || shared.options.passwords_always)
        && let Err(error) =
            connection.authenticate(&shared.engine, &shared.options, &shared.decoy, &user)?
    {
        return connection.refuse::<()>(&error).map(|_| ());
    }
    connection.stream.socket().set_read_timeout(None)?;
    let mut out = Out::default();
    if shared.connected.load(Ordering::SeqCst) > shared.options.connections_max {
        let message = format!(
            "sorry, too many clients already: at most {} are served at a time",
            shared.options.connections_max
        );
        out.fatal(&SqlError::new("53300", message));
        return connection.stream.write_all(&out.bytes);
    }
    let process = shared.next_process.fetch_add(1, Ordering::SeqCst);
    let patience = Arc::new(Patience::default());
    let (mut own, wrong) = shared.settings.clone().of_client(settings);
    (own.user, own.database, own.process) = (user.into(), database.into(), process);
    let mut secret = [0; 4];
    (shared.options.random)(&mut secret);
    out.authentication(0, b"");
    for name in REPORTED {
        out.parameter(name, &own.get(name).unwrap_or_default());
    }
    out.message(b'K', |body| {
        body.extend(process.to_be_bytes());
        body.extend(secret);
    });
    wrong.iter().for_each(|error| out.notice("WARNING", error));
    out.ready(b'I');
    let socket = connection.stream.socket().try_clone()?;
    let client = Client { secret, patience: patience.clone(), socket };
    shared.clients.lock().insert(process, client);
    let _listed = Listed { shared, process };
    let (engine, watch) = (shared.engine.clone(), shared.watch.clone());
    let memory = Memory::new(&shared.memory, &shared.options, &patience);
    connection.ask(&memory).map_err(io::Error::other)?;
    let session = Session::new(engine, patience, own, watch, (memory, &shared.options));
    connection.talk(shared, session, out)
}

/// A client that is there for others until this is dropped.
struct Listed<'s> {
    shared: &'s Shared,
    process: i32,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.shared.clients.lock().remove(&self.process);
    }
}
impl Connection {
    /// Handles messages until the client goes.
    fn talk(&mut self, shared: &Shared, mut session: Session, mut out: Out) -> io::Result<()> {
        let error = loop {
            if !self.has_message() {
                self.send(&mut out)?;
                self.wait_at_most(session.silence())?;
            }
            let (tag, body) = match self.message(shared.options.message_bytes_max) {
                Ok(Incoming::Message(tag, body)) => (tag, body),
                Ok(Incoming::Refused(tag, error)) => match session.refused(tag, error, &mut out) {
                    Ok(()) => continue,
                    Err(last) => break last,
                },
                Ok(Incoming::End) if !shared.stop.load(Ordering::SeqCst) => return Ok(()),
                Ok(Incoming::End) => break limits::ended(Impatience::Shutdown),
                Err(error) if is_silence(&error) => match session.end_silence(&mut out) {
                    Ok(()) => continue,
                    Err(last) => break last,
                },
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    break violation(&error.to_string());
                }
                Err(error) => return Err(error),
            };
            let mut sending = Sending { stream: &mut self.stream };
            let message = &self.input[body];
            // A fault of a statement is an error of it, and rolls back its transaction as every other. Only if that
            // is a fault as well, the connection ends.
            let done = catch_unwind(AssertUnwindSafe(|| {
                session.message(tag, message, &mut out, &mut sending)
            }));
            let done = done.or_else(|_| {
                catch_unwind(AssertUnwindSafe(|| {
                    out.cut();
                    session.refused(tag, fault(), &mut out).map(|()| true)
                }))
            });
            match done {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => return self.send(&mut out),
                Ok(Err(last)) => break last,
                Err(_) => break fault(),
            }
            if out.bytes.len() > FLUSH_BYTES {
                self.send(&mut out)?;
            }
        };
        out.fatal(&error);
        self.send(&mut out)?;
        self.linger()
    }
}

fn fault() -> SqlError {
    SqlError::new(code::INTERNAL, "a fault of the server; its log says more")
}

impl Shared {
    /// Ends the statement of another client, if the request knows its secret.
    fn cancel(&self, body: &[u8]) {
        let mut reader = Reader::new(body);
        let (Ok(process), secret) = (reader.i32(), reader.rest()) else { return };
        let clients = self.clients.lock();
        if let Some(client) = clients.get(&process)
            && client.secret == *secret
        {
            self.engine.gateway().lose_patience(&client.patience, Impatience::Asked);
        }
    }
}
