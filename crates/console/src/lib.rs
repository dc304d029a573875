//! The console: shows in a browser what a running server does and why, and serves its metrics to
//! Prometheus.
//!
//! # The problem
//!
//! A database that moves data by itself has to answer four questions at any time. Which data moved,
//! why, with which effect, and how can it be stopped? SQL answers them (`isomer.*`), but most
//! people prefer a page.
//!
//! ```text
//!   browser ──HTTP──▶ routes ──┬─ pages        files of web/, inside of the program
//!                              ├─ /api/live    server-sent events: the last hour, then each sample
//!                              ├─ /api/ask/…   a named question ─▶ SQL ─▶ the server, as the user
//!                              ├─ /api/act     a named action   ─▶ SQL ─▶ the server, as the user
//!                              └─ /metrics     figures in Prometheus' text; /health, /ready
//! ```
//!
//! # Invariants
//!
//! * **One interface.** Pages show the contents of `isomer.*` and `pg_catalog`. Each browser
//!   session has its own connection to the server, so the server's rights decide what it sees and
//!   does. The console has no rights.
//! * **Questions and actions are named.** The only parts of a request that become SQL are numbers
//!   and quoted literals.
//! * **Bounded.** Answers are cut at the server ([`questions`]); there are at most an hour of
//!   samples, [`VIEWERS_MAX`] streams and [`sessions::SESSIONS_MAX`] sessions. A viewer that stops
//!   reading loses samples, and takes no memory.
//! * **Local, or encrypted.** At a loopback address it answers only requests that name one as their
//!   host. So a page of another origin cannot reach it by a host name of its own. At other
//!   addresses it takes a certificate, which a browser accepts for its own names only.
//!
//! | module | contents |
//! | --- | --- |
//! | [`routes`] | paths, headers, and access control |
//! | [`pages`] | the files that a browser loads |
//! | [`serve`](mod@serve) | connections, HTTPS |
//! | [`sessions`] | log-in, cookies, connections |
//! | [`questions`] | the SQL of questions and actions |
//! | [`history`] | samples of the last hour, and their subscribers |
//! | [`metrics`] | the text for Prometheus |
//!
//! Left out: encryption at loopback addresses.

mod history;
mod metrics;
mod pages;
mod questions;
mod routes;
mod serve;
mod sessions;

use history::History;
use isomer_server::{Figure, Load, Tls};
use sessions::Sessions;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::MissedTickBehavior;
use tokio_rustls::TlsAcceptor;

/// The file descriptors that a console takes at most: a connection each, and both ends of that of
/// each session to the server.
pub const DESCRIPTORS_MAX: u64 =
    (serve::CONNECTIONS_MAX + serve::REFUSED_MAX + 2 * sessions::SESSIONS_MAX) as u64;

/// The most streams of samples.
const VIEWERS_MAX: usize = 256;
/// The interval of samples.
const INTERVAL: Duration = Duration::from_secs(1);

/// The interface to the process that runs the console.
pub struct ConsoleOptions {
    /// The address to listen at: a loopback address, or with `tls` any.
    pub listen: SocketAddr,
    /// The certificate, for addresses that other machines reach.
    pub tls: Option<Tls>,
    /// The address of the server, on this machine.
    pub server: SocketAddr,
    /// The folder of the server's Unix socket, for the log-in by [`Console::link`].
    pub socket: Option<PathBuf>,
    /// Returns the current figures of this process.
    pub figures: Arc<dyn Fn() -> Vec<Figure> + Send + Sync>,
    /// Why statements wait or fail at present, if they do.
    pub trouble: Arc<dyn Fn() -> Option<String> + Send + Sync>,
    /// Returns the current loads of all processes with their names, this one first. May wait for
    /// them.
    pub loads: Arc<dyn Fn() -> Vec<(String, Load)> + Send + Sync>,
    /// The clock: microseconds since 1970.
    pub clock: fn() -> i64,
    /// Fills bytes with random values.
    pub random: fn(&mut [u8]),
}

/// A running console. Dropping it stops it.
pub struct Console {
    address: SocketAddr,
    is_encrypted: bool,
    token: Option<String>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The state that all requests share.
struct Shared {
    options: ConsoleOptions,
    sessions: Sessions,
    history: History,
}

impl Shared {
    /// The certificate, if connections are encrypted.
    fn tls(&self) -> Option<&Tls> {
        self.options.tls.as_ref().filter(|_| !self.options.listen.ip().is_loopback())
    }
}

impl Console {
    /// Begins to listen, on its own thread.
    ///
    /// # Errors
    /// If other machines reach the address and there is no certificate, or listening fails.
    pub fn start(options: ConsoleOptions) -> io::Result<Console> {
        if !options.listen.ip().is_loopback() && options.tls.is_none() {
            let why = format!(
                "other machines can reach {}, so the console takes a certificate: give --tls-cert FILE and --tls-key \
                 FILE; or listen at 127.0.0.1, and reach it by a tunnel (ssh -L)",
                options.listen
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(tokio::net::TcpListener::bind(options.listen))?;
        let address = listener.local_addr()?;
        let is_encrypted = !options.listen.ip().is_loopback();
        let sessions = Sessions::new(options.random, address.port(), is_encrypted);
        let token = options.socket.is_some().then(|| sessions.token());
        let shared = Arc::new(Shared { options, sessions, history: History::default() });
        let (stop, stopped) = oneshot::channel();
        let thread =
            std::thread::Builder::new().name("isomer-console".to_owned()).spawn(move || {
                runtime.block_on(async {
                    let sampler = tokio::spawn(sample(shared.clone()));
                    let acceptor = shared.tls().map(|tls| TlsAcceptor::from(tls.config()));
                    let routes = routes::routes(shared);
                    tokio::select! {
                        () = serve::serve(listener, acceptor, routes) => {}
                        _ = stopped => {}
                    }
                    sampler.abort();
                });
            })?;
        Ok(Console { address, is_encrypted, token, stop: Some(stop), thread: Some(thread) })
    }

    /// The address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The link for a browser. The first browser that follows it is logged in as the owner of the
    /// database, if the server has a Unix socket. Later ones get a page that asks for a user and a
    /// password.
    pub fn link(&self) -> String {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        match &self.token {
            Some(token) => format!("{scheme}://{address}/?token={token}"),
            None => format!("{scheme}://{address}/"),
        }
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Takes a sample in each interval.
async fn sample(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // Other processes are waited for on a thread that serves no pages.
        let loads = shared.options.loads.clone();
        let Ok(loads) = tokio::task::spawn_blocking(move || loads()).await else { continue };
        let trouble = (shared.options.trouble)();
        shared.history.add((shared.options.clock)(), loads, trouble);
    }
}
