//! How to serve.

use crate::stream::Tls;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

/// How to serve. What is not an argument of [`ServerOptions::new`] has a default.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where to listen. Other addresses than loopback need [`tls`](ServerOptions::tls), and a user with a
    /// password. [`Server::listen_in`](crate::Server::listen_in) adds Unix sockets.
    pub listen: SocketAddr,
    /// What to encrypt connections with (nothing). Clients of other machines have to; others may.
    pub tls: Option<Tls>,
    /// Which clients of this machine need no password ([`Trust::Owner`]).
    pub trust: Trust,
    /// Clients at a time (1000). One more is told 53300. The last three places are for superusers.
    pub connections_max: usize,
    /// Clients that are logging in at a time (1000). For one more, another one has to go, which is
    /// told 53300.
    pub logins_max: usize,
    /// The longest a login may take, from the connection to the right password (30 s).
    pub login_timeout: Duration,
    /// How long the server waits for a client to read on (60 s). One that does not is given up: its transaction is
    /// rolled back, and its session ends.
    pub write_timeout: Duration,
    /// The longest message of a client, in bytes (256 MiB). A longer one ends its connection with 08P01.
    pub message_bytes_max: usize,
    /// What a statement may have in memory, in bytes (256 MiB): rows that it sorts, groups and joins, values that
    /// it makes, its plan. One that needs more ends with 53200, as where one of the next three is exhausted.
    pub statement_bytes_max: usize,
    /// What a transaction may have in memory, in bytes (1 GiB): its statement, and what it has written.
    pub transaction_bytes_max: usize,
    /// What a session may have in memory, in bytes (2 GiB): its transaction, what it has prepared, a message that
    /// it sends.
    pub session_bytes_max: usize,
    /// What all sessions may have in memory together, in bytes (4 GiB).
    pub memory_bytes_max: usize,
    /// Settings as all sessions begin with them: `statement_timeout` and so on.
    pub settings: Vec<(String, String)>,
    /// The time: microseconds since 1970.
    pub clock: fn() -> i64,
    /// Fills bytes with what nobody can guess.
    pub random: fn(&mut [u8]),
}

impl ServerOptions {
    /// Listens at an address. Time and chance are the caller's.
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
        }
    }
}

/// Which clients of this machine need no password. Clients of other machines always need one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Trust {
    /// None of them.
    Nobody,
    /// Over the Unix socket: those of who runs the server, and root's, who could read its files
    /// anyway.
    #[default]
    Owner,
    /// All of them: whoever has an account on this machine, over TCP as well.
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
