//! The listener, and the threads of its connections.
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

use crate::engine::Engine;
use crate::limits::{self, Watch};
use crate::options::ServerOptions;
use crate::session::{Flush, Session};
use crate::settings::{REPORTED, Settings};
use crate::wire::{
    CANCEL_REQUEST, GSS_REQUEST, Out, Reader, SSL_REQUEST, STARTUP_BYTES_MAX, violation,
};
use isomer_cluster::{Impatience, Patience};
use isomer_sql::SqlError;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::time::Duration;

/// Output is sent when it is longer than this, though more may come.
const FLUSH_BYTES: usize = 128 << 10;
/// A socket is read in pieces of this size.
const READ_BYTES: usize = 32 << 10;
/// A client that does not read its answers for so long is given up.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// A client that is told why its connection ends has so long to take notice.
const LINGER: Duration = Duration::from_secs(1);
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
    threads: Option<[std::thread::JoinHandle<()>; 2]>,
}

struct Shared {
    engine: Arc<Engine>,
    options: ServerOptions,
    settings: Settings,
    watch: Arc<Watch>,
    stop: AtomicBool,
    connected: AtomicUsize,
    next_process: AtomicI32,
    clients: Mutex<BTreeMap<i32, Client>>,
}

/// A connected client, as others see it.
struct Client {
    secret: [u8; 4],
    patience: Arc<Patience>,
    stream: TcpStream,
}

impl Server {
    /// Begins to listen.
    ///
    /// # Errors
    /// If the address is not a loopback address, or cannot be listened to; if the settings cannot be set.
    pub fn start(engine: Arc<Engine>, options: ServerOptions) -> io::Result<Server> {
        if !options.listen.ip().is_loopback() {
            let message = format!(
                "{} is not a loopback address: passwords and encryption are not there yet, so clients \
                 of other machines are refused; listen at 127.0.0.1",
                options.listen
            );
            return Err(io::Error::new(ErrorKind::Unsupported, message));
        }
        let settings = Settings::new(options.settings.clone().into());
        let settings =
            settings.map_err(|error| io::Error::new(ErrorKind::InvalidInput, error.to_string()))?;
        let listener = TcpListener::bind(options.listen)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            engine,
            options,
            settings,
            watch: Arc::default(),
            stop: AtomicBool::new(false),
            connected: AtomicUsize::new(0),
            next_process: AtomicI32::new(1),
            clients: Mutex::default(),
        });
        let watching = shared.clone();
        let watch = thread("isomer-watch", move || watching.watch.run(watching.engine.gateway()))?;
        let accepting = shared.clone();
        let acceptor = thread("isomer-accept", move || accept(&accepting, &listener))?;
        Ok(Server { shared, address, threads: Some([acceptor, watch]) })
    }

    /// Where it listens.
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
        let Some(threads) = self.threads.take() else { return };
        self.shared.stop.store(true, Ordering::SeqCst);
        // The acceptor sees the flag with the next connection: this one.
        drop(TcpStream::connect(self.address));
        self.shared.watch.stop();
        threads.into_iter().for_each(|thread| drop(thread.join()));
        for client in self.shared.clients.lock().values() {
            let gateway = self.shared.engine.gateway();
            gateway.lose_patience(&client.patience, Impatience::Shutdown);
            let _ = client.stream.shutdown(Shutdown::Read);
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

#[allow(clippy::disallowed_methods, reason = "the edge: clients are served by threads")]
fn thread(
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> io::Result<std::thread::JoinHandle<()>> {
    // As deep expressions are walked on the stack, it is the same wherever that may happen.
    std::thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES).spawn(run)
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
        let Ok((stream, _)) = accepted else {
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
            let _ = serve(&serving, stream);
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

fn serve(shared: &Arc<Shared>, stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(STARTUP_TIMEOUT))?;
    stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    let mut connection =
        Connection { stream, silence: None, input: Vec::new(), read_to: 0, used_to: 0 };
    let Some((user, database, settings)) = connection.startup(shared)? else { return Ok(()) };
    connection.stream.set_read_timeout(None)?;
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
    out.message(b'R', |body| body.extend(0i32.to_be_bytes()));
    for name in REPORTED {
        out.parameter(name, &own.get(name).unwrap_or_default());
    }
    out.message(b'K', |body| {
        body.extend(process.to_be_bytes());
        body.extend(secret);
    });
    wrong.iter().for_each(|error| out.notice("WARNING", error));
    out.ready(b'I');
    let other = connection.stream.try_clone()?;
    let client = Client { secret, patience: patience.clone(), stream: other };
    shared.clients.lock().insert(process, client);
    let (engine, watch) = (shared.engine.clone(), shared.watch.clone());
    let session = Session::new(engine, patience, own, watch, &shared.options);
    let result = connection.talk(shared, session, out);
    shared.clients.lock().remove(&process);
    result
}

/// A socket, and what was read from it.
struct Connection {
    stream: TcpStream,
    /// How long a read waits.
    silence: Option<Duration>,
    input: Vec<u8>,
    /// The bytes of `input` from `used_to` to `read_to` are not handled yet.
    read_to: usize,
    used_to: usize,
}

/// Who connects, to what, and with which settings.
type Startup = (String, String, Vec<(String, String)>);

impl Connection {
    /// Reads until so many bytes are there; `false` if the client has gone.
    fn fill(&mut self, wanted: usize) -> io::Result<bool> {
        if self.used_to == self.read_to {
            (self.used_to, self.read_to) = (0, 0);
        }
        if self.used_to + wanted > self.input.len() {
            self.input.copy_within(self.used_to..self.read_to, 0);
            self.read_to -= self.used_to;
            self.used_to = 0;
            if self.input.len() > 16 * READ_BYTES
                && wanted < READ_BYTES
                && self.read_to < READ_BYTES
            {
                // A long message has passed; its room is given back.
                self.input.truncate(READ_BYTES);
                self.input.shrink_to_fit();
            }
            if self.input.len() < wanted.max(READ_BYTES) {
                // As long as the message is said to be, but no longer than what has come by twice.
                let room = wanted.max(READ_BYTES).min(2 * self.read_to.max(READ_BYTES));
                self.input.resize(room.max(self.input.len()), 0);
            }
        }
        while self.read_to - self.used_to < wanted {
            if self.read_to == self.input.len() {
                let room = (2 * self.input.len()).min(self.used_to + wanted.max(READ_BYTES));
                self.input.resize(room.max(self.input.len() + 1), 0);
            }
            match self.stream.read(&mut self.input[self.read_to..]) {
                Ok(0) => return Ok(false),
                Ok(count) => self.read_to += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn i32_at(&self, at: usize) -> i32 {
        let bytes = &self.input[self.used_to + at..self.used_to + at + 4];
        i32::from_be_bytes(bytes.try_into().expect("four bytes"))
    }

    /// Reads who connects. `None`: it was something else, and has been answered.
    fn startup(&mut self, shared: &Shared) -> io::Result<Option<Startup>> {
        loop {
            if !self.fill(8)? {
                return Ok(None);
            }
            let (length, version) = (self.i32_at(0), self.i32_at(4));
            let length = usize::try_from(length).unwrap_or(0);
            if !(8..=STARTUP_BYTES_MAX).contains(&length) {
                return self.refuse(&violation("the start-up message has an impossible length"));
            }
            if !self.fill(length)? {
                return Ok(None);
            }
            let body = self.input[self.used_to + 8..self.used_to + length].to_vec();
            self.used_to += length;
            match version {
                SSL_REQUEST | GSS_REQUEST => self.stream.write_all(b"N")?,
                CANCEL_REQUEST => {
                    shared.cancel(&body);
                    return Ok(None);
                }
                version if version >> 16 == 3 => {
                    if version & 0xffff != 0 {
                        self.negotiate(&body)?;
                    }
                    return match read_startup(&body) {
                        Ok(startup) => Ok(Some(startup)),
                        Err(error) => self.refuse(&error),
                    };
                }
                version => {
                    let message = format!(
                        "unsupported frontend protocol {}.{}: server supports 3.0",
                        version >> 16,
                        version & 0xffff
                    );
                    return self.refuse(&SqlError::new("0A000", message));
                }
            }
        }
    }

    fn refuse<T>(&mut self, error: &SqlError) -> io::Result<Option<T>> {
        let mut out = Out::default();
        out.fatal(error);
        self.stream.write_all(&out.bytes)?;
        Ok(None)
    }

    /// Says that the protocol is 3.0, and which options are not known.
    fn negotiate(&mut self, body: &[u8]) -> io::Result<()> {
        let options: Vec<String> = read_startup(body)
            .map(|(_, _, settings)| settings.into_iter().map(|(name, _)| name).collect())
            .unwrap_or_default();
        let unknown: Vec<&String> =
            options.iter().filter(|name| name.starts_with("_pq_.")).collect();
        let mut out = Out::default();
        out.message(b'v', |body| {
            body.extend((3i32 << 16).to_be_bytes());
            body.extend((unknown.len() as i32).to_be_bytes());
            for name in unknown {
                body.extend(name.as_bytes());
                body.push(0);
            }
        });
        self.stream.write_all(&out.bytes)
    }

    /// Handles messages until the client goes.
    fn talk(&mut self, shared: &Shared, mut session: Session, mut out: Out) -> io::Result<()> {
        let error = loop {
            if !self.has_message() {
                self.send(&mut out)?;
                self.wait_at_most(session.silence())?;
            }
            let (tag, body) = match self.message(shared.options.message_bytes_max) {
                Ok(Some(message)) => message,
                Ok(None) if !shared.stop.load(Ordering::SeqCst) => return Ok(()),
                Ok(None) => break limits::ended(Impatience::Shutdown),
                Err(error) if is_silence(&error) => match session.end_silence(&mut out) {
                    Ok(()) => continue,
                    Err(last) => break last,
                },
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    break violation(&error.to_string());
                }
                Err(error) => return Err(error),
            };
            let mut sending = Sending { stream: &self.stream };
            match session.message(tag, &self.input[body], &mut out, &mut sending) {
                Ok(true) => {}
                Ok(false) => return self.send(&mut out),
                Err(last) => break last,
            }
            if out.bytes.len() > FLUSH_BYTES {
                self.send(&mut out)?;
            }
        };
        out.fatal(&error);
        self.send(&mut out)?;
        self.linger()
    }

    /// Takes what the client still sends, as it might not see its last answer otherwise: a socket that is
    /// closed with something unread is reset.
    fn linger(&mut self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)?;
        self.wait_at_most(Some(LINGER))?;
        let until = limits::now() + LINGER;
        let mut scrap = [0; 4096];
        while limits::now() < until && self.stream.read(&mut scrap)? > 0 {}
        Ok(())
    }

    /// True if a whole message was read.
    fn has_message(&self) -> bool {
        let there = self.read_to - self.used_to;
        there >= 5 && usize::try_from(self.i32_at(1)).is_ok_and(|length| there > length)
    }

    /// The next message: its tag, and where its body is; none if the client has gone.
    fn message(&mut self, bytes_max: usize) -> io::Result<Option<(u8, Range<usize>)>> {
        if !self.fill(5)? {
            return Ok(None);
        }
        let (tag, length) = (self.input[self.used_to], self.i32_at(1));
        let Some(length) = usize::try_from(length).ok().filter(|l| (4..=bytes_max).contains(l))
        else {
            let what = format!("a length of {length} is not from 4 to {bytes_max}");
            return Err(io::Error::new(ErrorKind::InvalidData, what));
        };
        if !self.fill(1 + length)? {
            return Ok(None);
        }
        let body = self.used_to + 5..self.used_to + 1 + length;
        self.used_to = body.end;
        Ok(Some((tag, body)))
    }

    fn wait_at_most(&mut self, silence: Option<Duration>) -> io::Result<()> {
        if silence != self.silence {
            self.stream.set_read_timeout(silence)?;
            self.silence = silence;
        }
        Ok(())
    }

    /// Sends what there is, and gives back what a long answer took.
    fn send(&mut self, out: &mut Out) -> io::Result<()> {
        if !out.bytes.is_empty() {
            self.stream.write_all(&out.bytes)?;
            out.sent();
            if out.bytes.capacity() > 4 * FLUSH_BYTES {
                out.bytes.shrink_to(FLUSH_BYTES);
            }
        }
        Ok(())
    }
}

/// True if a read has waited as long as it was to.
fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Sends rows while a statement runs.
struct Sending<'s> {
    stream: &'s TcpStream,
}

impl Flush for Sending<'_> {
    fn flush_some(&mut self, out: &mut Out) -> Result<(), SqlError> {
        if out.bytes.len() < FLUSH_BYTES {
            return Ok(());
        }
        let sent = self.stream.write_all(&out.bytes);
        out.sent();
        sent.map_err(|error| SqlError::new("08006", format!("the client does not read: {error}")))
    }
}

fn read_startup(body: &[u8]) -> Result<Startup, SqlError> {
    let mut reader = Reader::new(body);
    let (mut user, mut database, mut settings) = (None, None, Vec::new());
    loop {
        let name = reader.text()?;
        if name.is_empty() {
            break;
        }
        let value = reader.text()?.to_owned();
        match name {
            "user" => user = Some(value),
            "database" => database = Some(value),
            "options" | "replication" => {}
            name => settings.push((name.to_owned(), value)),
        }
    }
    if !reader.is_empty() {
        return Err(violation("there is more than there should be"));
    }
    let user = user.ok_or_else(|| {
        SqlError::new("28000", "no PostgreSQL user name specified in startup packet")
    })?;
    let database = database.unwrap_or_else(|| user.clone());
    Ok((user, database, settings))
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
