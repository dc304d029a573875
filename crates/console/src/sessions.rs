//! Browser sessions: each has a cookie and a connection to the server as the user who logged in.
//!
//! The server checks passwords (SCRAM) and rights and throttles logins; the console forwards its
//! answers. One link logs in the user that started the server. Its token works once, over the Unix
//! socket, where the server trusts this process's own user.

use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use tokio_postgres::{Client, Config, Error, NoTls};

/// The most sessions. A further log-in ends the longest idle session of the user with the most
/// sessions. So a user who logs in again and again ends no session of others.
pub(crate) const SESSIONS_MAX: usize = 64;
/// The idle time after which a session ends.
const REST_MAX_US: i64 = 12 * 3_600 * 1_000_000;
/// The name of the cookie begins with this, and ends with the port: browsers send a cookie to all
/// ports of a machine, and each console has sessions of its own.
const NAME: &str = "isomer_console";
/// The time limit of a statement of the console.
const TIMEOUT: &str = "set statement_timeout = '10s'";
/// The owner of a new database, who needs no password over the Unix socket.
const OWNER: &str = "isomer";

/// A user with a connection.
pub(crate) struct Session {
    pub(crate) user: String,
    pub(crate) client: Client,
}

struct Open {
    session: Arc<Session>,
    used_us: i64,
}

/// See the [module documentation](self).
pub(crate) struct Sessions {
    open: Mutex<BTreeMap<String, Open>>,
    /// The token of the link, until its use.
    token: Mutex<Option<String>>,
    random: fn(&mut [u8]),
    /// The name of the cookie.
    name: String,
    /// Further attributes of cookies.
    attributes: &'static str,
}

impl Sessions {
    pub(crate) fn new(random: fn(&mut [u8]), port: u16, is_encrypted: bool) -> Sessions {
        let attributes = if is_encrypted { "; Secure" } else { "" };
        let name = format!("{NAME}_{port}");
        Sessions { open: Mutex::default(), token: Mutex::default(), random, name, attributes }
    }

    fn secret_of(&self, headers: &HeaderMap) -> Option<String> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|text| text.split(';')).filter_map(|one| one.split_once('='));
        pairs.find(|(name, _)| name.trim() == self.name).map(|(_, value)| value.trim().to_owned())
    }

    fn secret(&self) -> String {
        let mut bytes = [0; 16];
        (self.random)(&mut bytes);
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Makes the token of the link.
    pub(crate) fn token(&self) -> String {
        let token = self.secret();
        *self.token.lock() = Some(token.clone());
        token
    }

    /// True once, for the token of the link.
    pub(crate) fn spend(&self, token: &str) -> bool {
        let mut kept = self.token.lock();
        let is_it = kept.as_deref() == Some(token);
        if is_it {
            *kept = None;
        }
        is_it
    }

    /// Opens a session with a password. Returns the value of `Set-Cookie`.
    ///
    /// # Errors
    /// Those of the server.
    pub(crate) async fn open(
        &self,
        (server, from): (SocketAddr, IpAddr),
        user: &str,
        password: &str,
        now_us: i64,
    ) -> Result<String, Error> {
        let mut config = Config::new();
        config.host(server.ip().to_string()).port(server.port()).user(user).password(password);
        self.connect(config, (user, from), now_us).await
    }

    /// Opens a session as the owner of the database, over the Unix socket.
    ///
    /// # Errors
    /// Those of the server.
    pub(crate) async fn open_as_owner(
        &self,
        (socket, port): (&Path, u16),
        from: IpAddr,
        now_us: i64,
    ) -> Result<String, Error> {
        let mut config = Config::new();
        config.host_path(socket).port(port).user(OWNER);
        self.connect(config, (OWNER, from), now_us).await
    }

    /// The server sees the address of the browser as the name of an application.
    async fn connect(
        &self,
        mut config: Config,
        (user, from): (&str, IpAddr),
        now_us: i64,
    ) -> Result<String, Error> {
        config.dbname("isomer").application_name(format!("isomer console for {from}"));
        let (client, connection) = config.connect(NoTls).await?;
        tokio::spawn(connection);
        client.batch_execute(TIMEOUT).await?;
        let session = Arc::new(Session { user: user.to_owned(), client });
        let secret = self.secret();
        let mut open = self.open.lock();
        open.retain(|_, open| now_us - open.used_us < REST_MAX_US);
        if open.len() >= SESSIONS_MAX {
            let users = open.values().map(|open| (&*open.session.user, open.used_us));
            let ends = one_too_many(users, user);
            let secret = ends.and_then(|at| open.keys().nth(at).cloned());
            secret.and_then(|secret| open.remove(&secret));
        }
        open.insert(secret.clone(), Open { session, used_us: now_us });
        let attributes = self.attributes;
        Ok(format!("{}={secret}; HttpOnly; SameSite=Strict; Path=/{attributes}", self.name))
    }

    /// The session of a request.
    pub(crate) fn of(&self, headers: &HeaderMap, now_us: i64) -> Option<Arc<Session>> {
        let mut open = self.open.lock();
        let found = open.get_mut(&self.secret_of(headers)?)?;
        if now_us - found.used_us >= REST_MAX_US || found.session.client.is_closed() {
            return None;
        }
        found.used_us = now_us;
        Some(found.session.clone())
    }

    /// True if a request belongs to a session, whose connection may have ended.
    pub(crate) fn is_known(&self, headers: &HeaderMap) -> bool {
        self.secret_of(headers).is_some_and(|secret| self.open.lock().contains_key(&secret))
    }

    /// Ends the session of a request. Returns the value of `Set-Cookie`.
    pub(crate) fn close(&self, headers: &HeaderMap) -> String {
        if let Some(secret) = self.secret_of(headers) {
            self.open.lock().remove(&secret);
        }
        let Sessions { name, attributes, .. } = self;
        format!("{name}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0{attributes}")
    }
}

/// Which of the sessions ends, each given as its user and the time of its last use, when `user`
/// opens one more.
fn one_too_many<'u>(
    sessions: impl Iterator<Item = (&'u str, i64)> + Clone,
    user: &'u str,
) -> Option<usize> {
    let mut counts = BTreeMap::from([(user, 1)]);
    sessions.clone().for_each(|(user, _)| *counts.entry(user).or_insert(0) += 1);
    let most = counts.values().copied().max();
    let of_most = sessions.enumerate().filter(|(_, (user, _))| counts.get(user).copied() == most);
    of_most.min_by_key(|(_, (_, used_us))| *used_us).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_with_many_sessions_ends_its_own() {
        let mut open = vec![("ann", 1), ("bob", 2), ("bob", 3)];
        for now in 4..100 {
            let at = one_too_many(open.iter().copied(), "bob").expect("one ends");
            assert_eq!(open.remove(at).0, "bob");
            open.push(("bob", now));
        }
        assert!(open.contains(&("ann", 1)));
        let each = ["ann", "bob", "eve"].map(|user| (user, 5));
        assert_eq!(one_too_many(each.into_iter(), "joe"), Some(0), "each has one: any of them");
        assert_eq!(one_too_many(each.into_iter(), "eve"), Some(2));
    }
}
