//! The listeners, and the threads of their connections.
//!
//! ```text
//!   listener ──accept──▶ one thread per client: log in ─▶ read ─▶ messages ─▶ session ─▶ write
//!                              │   strangers     clients
//!                              │                 while whole messages are buffered, only
//!                              │                 long output is written
//!                              └ CancelRequest ──▶ cancels the statement of another client
//! ```
//!
//! A connection that has not logged in is counted by [`crate::strangers`], a logged-in client by
//! [`crate::clients`]. Both have a limit, and a connection beyond it gets an error.
//!
//! A thread blocks on its socket, on a row lock, or on the disk; it has nothing else to do
//! meanwhile. So there is no async runtime, and no hand-over between a statement and its answer.

use crate::activity::Activity;
use crate::autoanalyze::{self, Due};
use crate::clients::{Client, Clients, Entered, too_many};
use crate::conducted;
use crate::connection::{Connection, FLUSH_BYTES, Incoming, Sending, is_silence};
use crate::engine::Engine;
use crate::guesses::Guesses;
use crate::guests::Guests;
use crate::limits::{self, Memory, Watch};
use crate::listener::Listener;
use crate::options::ServerOptions;
use crate::proposals;
use crate::session::Session;
use crate::settings::{REPORTED, Settings};
use crate::socket::{Channel, Socket};
use crate::startup::Startup;
use crate::strangers::{Stranger, Strangers};
use crate::stream::Stream;
use crate::sums;
use crate::users::FIRST_USER;
use crate::visits::{self, Visit};
use crate::wire::{Out, Reader, violation};
use isomer_cluster::{CancelReason, CancelToken};
use isomer_sql::budget::Account;
use isomer_sql::{SqlError, code};
use parking_lot::Mutex;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The time for a client to read the error of its failed login.
const FAREWELL: Duration = Duration::from_secs(1);
/// The pause between two looks for idle sessions that are to end.
const DRAINING: Duration = Duration::from_millis(20);
/// The pause between two looks whether it is time to analyze tables.
const LOOK: Duration = Duration::from_millis(50);
/// The stack of a client's thread; deep expressions recurse.
const STACK_BYTES: usize = 8 << 20;

/// A running server. Dropping it stops it.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    watch: Option<JoinHandle<()>>,
    analyzer: Option<JoinHandle<()>>,
    /// The listeners, each with its accepting thread.
    listeners: Vec<(Arc<Listener>, JoinHandle<()>)>,
}

struct Shared {
    engine: Arc<Engine>,
    options: ServerOptions,
    settings: Settings,
    watch: Arc<Watch>,
    guests: Arc<Guests>,
    stop: AtomicBool,
    /// Sessions end once their transactions have.
    is_draining: AtomicBool,
    /// All connections, logged in or not.
    connected: AtomicUsize,
    memory: Arc<Account>,
    strangers: Arc<Strangers>,
    clients: Arc<Clients>,
    guesses: Mutex<Guesses>,
    /// The secret from which the salts of unknown users are derived.
    decoy: [u8; 16],
}

impl Server {
    /// Begins to listen.
    ///
    /// # Errors
    /// If listening at the address fails or is not allowed (other machines can reach it, and there
    /// is no encryption or no user with a password). If a setting is invalid.
    pub fn start(engine: Arc<Engine>, options: ServerOptions) -> io::Result<Server> {
        check_address(&engine, &options)?;
        // A later server of this engine finds it set.
        let _ = engine.herald.answers.set(conducted::answer);
        let _ = engine.herald.replies.set(sums::reply);
        let mut decoy = [0; 16];
        (options.random)(&mut decoy);
        let settings = Settings::new(options.settings.clone().into());
        let settings =
            settings.map_err(|error| io::Error::new(ErrorKind::InvalidInput, error.to_string()))?;
        let strangers = Arc::new(Strangers::new(options.logins_max));
        let gateway = engine.gateway().clone();
        let clients = Arc::new(Clients::new(options.connections_max, gateway));
        *engine.herald.clients.lock() = Arc::downgrade(&clients);
        let listener = TcpListener::bind(options.listen)?;
        let address = listener.local_addr()?;
        let memory = Memory::of_all(&options);
        let watch: Arc<Watch> = Arc::default();
        let (watched, entered) = (watch.clone(), clients.clone());
        let guests =
            Guests::new(engine.clone(), options.clone(), (watched, entered), memory.clone());
        let shared = Arc::new(Shared {
            engine,
            options,
            settings,
            watch,
            guests,
            stop: AtomicBool::new(false),
            is_draining: AtomicBool::new(false),
            connected: AtomicUsize::new(0),
            memory,
            strangers,
            clients,
            guesses: Mutex::default(),
            decoy,
        });
        let watching = shared.clone();
        let watch = thread("isomer-watch", move || watching.watch.run(watching.engine.gateway()))?;
        let keeping = shared.clone();
        let analyzer = thread("isomer-tasks", move || run_tasks(&keeping))?;
        let mut server = Server {
            shared,
            address,
            watch: Some(watch),
            analyzer: Some(analyzer),
            listeners: Vec::new(),
        };
        server.accept_at(Listener::Tcp(listener))?;
        Ok(server)
    }

    /// Listens also in a folder of this machine, where PostgreSQL's clients look for it: at the
    /// Unix socket `.s.PGSQL.` followed by the port. The user that runs the server and root may
    /// connect. Returns the path of the socket, which exists until the server stops.
    ///
    /// # Errors
    /// Names the path and the fault: its folder is missing, it is too long (107 bytes on Linux), or
    /// another server listens there.
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

    /// The address of the TCP listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of connected clients.
    pub fn connected(&self) -> usize {
        self.shared.connected.load(Ordering::SeqCst)
    }

    /// Ends the sessions of clients whose connections this node forwards, and releases their locks:
    /// a silent node cannot report whether its clients are still there.
    pub fn end_passed_by(&self, node: &str) {
        self.shared.clients.end_passed_by(self.shared.engine.gateway(), node);
    }

    /// Lets no more clients in, and ends each session with 57P01 once it is idle outside of a
    /// transaction. Waits for that, `longest` at most. Returns the number of connections that are
    /// left.
    #[allow(clippy::disallowed_methods, reason = "the edge: waits for threads to end")]
    pub fn drain(&self, longest: Duration) -> usize {
        let until = limits::now() + longest;
        self.shared.is_draining.store(true, Ordering::SeqCst);
        self.shared.guests.close();
        self.shared.strangers.end_all();
        while self.connected() > 0 && limits::now() < until {
            self.shared.clients.end_idle();
            std::thread::sleep(DRAINING);
        }
        self.connected()
    }

    /// Accepts no more clients, cancels the statements of the present ones, and waits until they
    /// have disconnected.
    #[allow(clippy::disallowed_methods, reason = "the edge: waits for threads to end")]
    pub fn stop(&mut self) {
        let Some(watch) = self.watch.take() else { return };
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.watch.stop();
        let _ = watch.join();
        if let Some(analyzer) = self.analyzer.take() {
            let _ = analyzer.join();
        }
        for (listener, acceptor) in self.listeners.drain(..) {
            listener.wake();
            let _ = acceptor.join();
        }
        self.shared.guests.end_all();
        self.shared.clients.end_all(self.shared.engine.gateway());
        self.shared.strangers.end_all();
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

/// Listening for other machines requires encryption and passwords.
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
    if !engine.has_passwords() {
        return refuse(
            "it takes a user with a password: serve at 127.0.0.1 first, and there say \
             CREATE USER name PASSWORD 'text'",
        );
    }
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "the edge: clients are served by threads")]
fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    // All threads that may evaluate expressions have the same stack size.
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
        begin(shared, Arc::new(socket));
    }
}

/// Serves a client on a thread of its own.
fn begin(shared: &Arc<Shared>, socket: Arc<Socket>) {
    shared.connected.fetch_add(1, Ordering::SeqCst);
    let stranger = shared.strangers.enter(&socket);
    let (serving, served) = (shared.clone(), socket.clone());
    let spawned = thread("isomer-client", move || {
        let _counted = Counted(&serving);
        // The client learns of connection errors by itself.
        let _ = serve(&serving, served, stranger);
    });
    if spawned.is_err() {
        shared.connected.fetch_sub(1, Ordering::SeqCst);
        let mut out = Out::default();
        out.fatal(&too_many("the system has no thread for another client".to_owned()));
        let _ = socket.write(&out.bytes);
    }
}

/// Runs the statements of approved proposals, and analyzes tables from time to time, until the
/// server stops.
#[allow(clippy::disallowed_methods, reason = "the edge: has a rhythm")]
fn run_tasks(shared: &Arc<Shared>) {
    let every = shared.options.analyze_every.map(|every| every.max(LOOK));
    let (mut due, mut next) = (Due::default(), every.map(|every| limits::now() + every));
    loop {
        std::thread::sleep(LOOK);
        if shared.stop.load(Ordering::SeqCst) || shared.is_draining.load(Ordering::SeqCst) {
            return;
        }
        proposals::run_approved(&shared.engine, |statement, ended| {
            run_as_owner(shared, statement, ended);
        });
        let Some(every) = every.filter(|_| next.is_some_and(|next| limits::now() >= next)) else {
            continue;
        };
        let begun = limits::now();
        let Shared { engine, .. } = &**shared;
        let tables = due.now(&engine.tallies.counts(), &engine.catalog());
        if let (false, Ok((own, server))) = (tables.is_empty(), UnixStream::pair()) {
            begin(shared, Arc::new(Socket::unix(server)));
            if let Err(error) = autoanalyze::analyze(own, FIRST_USER, &tables) {
                tracing::debug!("ANALYZE by itself has ended early: {error}");
            }
        }
        next = Some(limits::now() + every.max(9 * (limits::now() - begun)));
    }
}

/// Runs a statement as the first user, over a connection of this process to itself, and reports
/// how it has ended.
fn run_as_owner(
    shared: &Arc<Shared>,
    statement: String,
    ended: Box<dyn FnOnce(Result<(), String>) + Send>,
) {
    let of = shared.clone();
    let spawned = thread("isomer-approved", move || match UnixStream::pair() {
        Ok((own, server)) => {
            begin(&of, Arc::new(Socket::unix(server)));
            ended(autoanalyze::run(own, FIRST_USER, &statement));
        }
        Err(error) => ended(Err(format!("the server cannot connect to itself: {error}"))),
    });
    if let Err(error) = spawned {
        tracing::error!("an approved statement was not run: {error}");
    }
}

struct Counted<'c>(&'c Shared);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.watch.give_back(self.0.options.give_back);
        self.0.connected.fetch_sub(1, Ordering::SeqCst);
    }
}

fn serve(shared: &Arc<Shared>, socket: Arc<Socket>, stranger: Stranger) -> io::Result<()> {
    visits::received(&shared.settings, &socket);
    let until = limits::now() + shared.options.login_timeout;
    let mut connection =
        Connection::new(Stream::Plain(Channel::new(socket, until)), shared.options.write_timeout)?;
    let client = match log_in(shared, &mut connection) {
        Ok(Some(client)) => client,
        Ok(None) if stranger.has_to_go() => {
            let message = "too many clients are logging in, and this one has taken longest";
            return connection.refuse::<()>(&too_many(message.to_owned())).map(|_| ());
        }
        Ok(None) => return Ok(()),
        Err(error) if is_silence(&error) => {
            connection.stream.set_deadline(Some(limits::now() + FAREWELL))?;
            let message = "canceling authentication due to timeout";
            let error = SqlError::new(code::CANCELED, message);
            return connection.refuse::<()>(&error).map(|_| ());
        }
        Err(error) => return Err(error),
    };
    drop(stranger);
    connection.stream.set_deadline(None)?;
    let LoggedIn { _entered, settings, cancel, activity, greeting, visit } = client;
    let (engine, watch, clients) =
        (shared.engine.clone(), shared.watch.clone(), shared.clients.clone());
    let memory = Memory::new(&shared.memory, &shared.options, &cancel);
    if let Err(error) = connection.ask(&memory) {
        return connection.refuse::<()>(&error).map(|_| ());
    }
    let limited = (memory, activity, &shared.options);
    let socket = connection.stream.socket().clone();
    let session =
        Session::new(engine, cancel, settings.into(), watch, clients, Some(socket), limited);
    let talked = connection.talk(shared, session, greeting);
    visit.end((shared.options.clock)());
    talked
}

/// A client that has logged in.
struct LoggedIn {
    _entered: Entered,
    settings: Settings,
    cancel: Arc<CancelToken>,
    activity: Arc<Activity>,
    /// The first messages to the client.
    greeting: Out,
    visit: Visit,
}

/// Logs a client in. `None` if it was refused or was no client.
fn log_in(shared: &Shared, connection: &mut Connection) -> io::Result<Option<LoggedIn>> {
    let cancel = |body: &[u8]| shared.cancel(body);
    let Some(startup) = connection.startup(&shared.options, &cancel)? else { return Ok(None) };
    let Shared { engine, options, guesses, decoy, .. } = shared;
    let proved = connection.authenticate(engine, options, guesses, decoy, &startup.0)?;
    let (user, database) = (startup.0.clone(), startup.1.clone());
    let passed_by = connection.passed_by.clone();
    let over = (connection.stream.socket(), connection.stream.is_encrypted());
    match proved.and_then(|()| shared.let_in(over, passed_by, startup)) {
        Ok(client) => Ok(Some(client)),
        Err(error) => {
            let from = visits::from(connection.stream.socket());
            let error_text = error.to_string();
            tracing::warn!(user, database, from, error = error_text, "log-in was refused");
            connection.refuse(&error)
        }
    }
}

impl Connection {
    /// Handles messages until the client disconnects.
    fn talk(&mut self, shared: &Shared, mut session: Session, mut out: Out) -> io::Result<()> {
        let error = loop {
            if !self.has_message() {
                session.rests();
                self.send(&mut out)?;
                self.wait(session.silence(), &mut out, shared.options.give_back)?;
            }
            let (tag, body) = match self.message(shared.options.message_bytes_max) {
                Ok(Incoming::Message(tag, body)) => (tag, body),
                Ok(Incoming::Refused(tag, error)) => match session.refused(tag, error, &mut out) {
                    Ok(()) => continue,
                    Err(last) => break last,
                },
                Ok(Incoming::End) => match session.dismissal().or_else(|| shared.restarts()) {
                    Some(last) => break last,
                    None => return Ok(()),
                },
                Err(error) if is_silence(&error) => match session.end_silence(&mut out) {
                    Ok(()) => continue,
                    Err(last) => break last,
                },
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    break violation(&error.to_string());
                }
                Err(error) => return Err(error),
            };
            // A message may still arrive after the session was ended.
            if let Some(last) = session.dismissal() {
                break last;
            }
            session.next = self.next_tag();
            let mut sending = Sending { stream: &mut self.stream };
            let message = &self.input[body];
            // A panic in a statement becomes an error of the statement, and rolls back its
            // transaction. Only if that panics too, the connection ends.
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
        // Releases the session's resources before the client reads the last message.
        drop(session);
        out.fatal(&error);
        self.send(&mut out)?;
        self.linger()
    }
}

fn fault() -> SqlError {
    SqlError::new(code::INTERNAL, "a fault of the server; its log says more")
}

impl Shared {
    /// Cancels the statement of another client, if the request has its secret.
    fn cancel(&self, body: &[u8]) {
        let mut reader = Reader::new(body);
        if let Ok(process) = reader.i32() {
            self.clients.cancel(process, reader.rest());
        }
    }

    /// The last message to idle clients, if the server lets transactions end.
    fn restarts(&self) -> Option<SqlError> {
        self.is_draining.load(Ordering::SeqCst).then(|| limits::ended(CancelReason::Shutdown))
    }

    /// Registers an authenticated client.
    fn let_in(
        &self,
        (socket, is_encrypted): (&Arc<Socket>, bool),
        passed_by: Option<Arc<str>>,
        startup: Startup,
    ) -> Result<LoggedIn, SqlError> {
        let (user, database, given) = startup;
        let (user, cancel): (Arc<str>, _) = (user.into(), Arc::<CancelToken>::default());
        let process = self.clients.next_process();
        let mut secret = [0; 4];
        (self.options.random)(&mut secret);
        let is_encrypted = passed_by.is_none().then_some(is_encrypted);
        let who = (&*user, &*database);
        let activity = Activity::new(self.options.clock, process, who, Some(socket), is_encrypted);
        let client = Client {
            user: user.clone(),
            secret,
            cancel: cancel.clone(),
            socket: socket.clone(),
            activity: activity.clone(),
            passed_by,
        };
        let is_superuser = || self.engine.user(&user).map(|user| user.superuser);
        if self.is_draining.load(Ordering::SeqCst) {
            let message = "this process is about to restart";
            return Err(SqlError::new("57P03", message).hint("Other processes serve clients."));
        }
        let entered = self.clients.enter(process, client, is_superuser().unwrap_or(false))?;
        // The user may have been dropped, or the server stopped, before the client was registered.
        let superuser = is_superuser().ok_or_else(|| limits::ended(CancelReason::SentAway))?;
        if self.stop.load(Ordering::SeqCst) {
            return Err(limits::ended(CancelReason::Shutdown));
        }
        let (mut settings, mut wrong) = self.settings.over(socket).of_client(given);
        wrong.extend(settings.keep_alive_over(socket).err());
        (settings.login, settings.superuser) = (user.clone(), superuser);
        settings.user = user;
        (settings.database, settings.process) = (database.into(), process);
        let mut greeting = Out::default();
        greeting.authentication(0, b"");
        for name in REPORTED {
            greeting.parameter(name, &settings.get(name).unwrap_or_default());
        }
        greeting.message(b'K', |body| {
            body.extend(process.to_be_bytes());
            body.extend(secret);
        });
        greeting.keep_to_itself(settings.keeps_quiet());
        wrong.iter().for_each(|error| greeting.notice("WARNING", error));
        greeting.ready(b'I');
        let visit = Visit::begin(&self.settings, &settings, socket, (self.options.clock)());
        Ok(LoggedIn { _entered: entered, settings, cancel, activity, greeting, visit })
    }
}
