//! The options of a server.

use crate::stream::Tls;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

/// The options of a server. Those that are no argument of [`ServerOptions::new`] have a default.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The address to listen at. Other addresses than loopback require [`tls`](ServerOptions::tls)
    /// and a user with a password. [`Server::listen_in`](crate::Server::listen_in) adds Unix
    /// sockets.
    pub listen: SocketAddr,
    /// The certificate for encryption (none). It is mandatory for clients of other machines and
    /// optional for others.
    pub tls: Option<Tls>,
    /// The local clients that need no password ([`Trust::Owner`]).
    pub trust: Trust,
    /// The most clients (1000). One more is refused with 53300. The last three places are reserved
    /// for superusers.
    pub connections_max: usize,
    /// The most connections that have not logged in (1000). A further one displaces another, which
    /// is refused with 53300.
    pub logins_max: usize,
    /// The limit of a login, from the connection to the verified password (30 s).
    pub login_timeout: Duration,
    /// The longest wait for a client to read (60 s). After it, the transaction is rolled back and
    /// the session ends.
    pub write_timeout: Duration,
    /// The longest message of a client, in bytes (256 MiB). A longer one ends its connection with
    /// 08P01.
    pub message_bytes_max: usize,
    /// The memory limit of a statement, in bytes (256 MiB): rows that it sorts, groups and joins,
    /// computed values, its plan. A statement beyond it, or beyond one of the next three limits,
    /// ends with 53200.
    pub statement_bytes_max: usize,
    /// The memory limit of a transaction, in bytes (1 GiB): its statement and its writes.
    pub transaction_bytes_max: usize,
    /// The memory limit of a session, in bytes (2 GiB): its transaction, its prepared statements,
    /// an incoming message.
    pub session_bytes_max: usize,
    /// The memory limit of all sessions together, in bytes (4 GiB).
    pub memory_bytes_max: usize,
    /// Initial settings of all sessions, such as `statement_timeout`.
    pub settings: Vec<(String, String)>,
    /// The clock: microseconds since 1970.
    pub clock: fn() -> i64,
    /// Fills bytes with cryptographically random values.
    pub random: fn(&mut [u8]),
    /// Returns unused memory of the calling thread, and of threads that have ended, to the system
    /// (does nothing). A session's thread calls it once its client has been silent for a second,
    /// another thread two seconds after the end of a session.
    pub give_back: fn(),
    /// The shortest pause between two looks for tables whose rows have changed enough for an
    /// ANALYZE (none: only clients analyze).
    pub analyze_every: Option<Duration>,
}

impl ServerOptions {
    /// Options for a server at an address. The caller provides the clock and the randomness.
    pub fn new(listen: SocketAddr, clock: fn() -> i64, random: fn(&mut [u8])) -> ServerOptions {
        ServerOptions {
            listen,
            tls: None,
            trust: Trust::Owner,
            connections_max: 1000,
            logins_max: 1000,
            login_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(60),
            message_bytes_max: 256 << 20,
            statement_bytes_max: 256 << 20,
            transaction_bytes_max: 1 << 30,
            session_bytes_max: 2 << 30,
            memory_bytes_max: 4 << 30,
            settings: Vec::new(),
            clock,
            random,
            give_back: || (),
            analyze_every: None,
        }
    }
}

/// The local clients that need no password. Clients of other machines always need one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Trust {
    /// None of them.
    Nobody,
    /// Over the Unix socket: the processes of the server's user, and root's, which could read the
    /// server's files anyway.
    #[default]
    Owner,
    /// All local clients, over TCP as well.
    Loopback,
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Trust::Nobody => "nobody",
            Trust::Owner => "owner",
            Trust::Loopback => "loopback",
        })
    }
}

impl FromStr for Trust {
    type Err = String;

    fn from_str(text: &str) -> Result<Trust, String> {
        match text {
            "nobody" => Ok(Trust::Nobody),
            "owner" => Ok(Trust::Owner),
            "loopback" => Ok(Trust::Loopback),
            _ => Err("one of nobody, owner and loopback is trusted".to_owned()),
        }
    }
}
