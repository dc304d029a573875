//! The startup of a connection: encryption, the client's user, and authentication.
//!
//! ```text
//!   SSLRequest ─▶ S, and everything is encrypted from here on; or N, also over a Unix socket
//!   the name of a node ─▶ that node forwards the connection, which ends with it (passage)
//!   CancelRequest ─▶ cancels the statement of another client, and closes the connection
//!   StartupMessage: user, database, settings ─▶ a password, if required (scram)
//! ```
//!
//! | client | [`Trust::Nobody`] | [`Trust::Owner`] | [`Trust::Loopback`] |
//! | --- | --- | --- | --- |
//! | the server's user and root, over the Unix socket | password | trusted | trusted |
//! | this machine, over TCP | password | password | trusted |
//! | other machines | encryption and password | the same | the same |
//!
//! A trusted client may act as any existing user. The startup has one deadline
//! ([`crate::strangers`]), and wrong passwords are counted ([`crate::guesses`]).

use crate::connection::{Connection, Incoming};
use crate::engine::Engine;
use crate::guesses::{Guesses, Turn};
use crate::limits;
use crate::options::{ServerOptions, Trust};
use crate::scram::{Exchange, MECHANISM, Verifier};
use crate::stream::Stream;
use crate::wire::{
    CANCEL_REQUEST, GSS_REQUEST, Out, PASSED_ON, Reader, SSL_REQUEST, STARTUP_BYTES_MAX, violation,
};
use isomer_sql::SqlError;
use parking_lot::Mutex;
use std::io::{self, ErrorKind, Write};
use std::time::Duration;

/// The user, the database and the settings of a startup message.
pub(crate) type Startup = (String, String, Vec<(String, String)>);

impl Connection {
    /// Reads the startup message. `None` if it was another request, which has been answered.
    pub(crate) fn startup(
        &mut self,
        options: &ServerOptions,
        cancel: &dyn Fn(&[u8]),
    ) -> io::Result<Option<Startup>> {
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
                SSL_REQUEST => self.answer_ssl(options)?,
                GSS_REQUEST => self.stream.write_all(b"N")?,
                PASSED_ON => self.passed_by = Some(String::from_utf8_lossy(&body).into()),
                CANCEL_REQUEST => {
                    cancel(&body);
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

    /// Encrypts the connection if there is a certificate and the connection is not local.
    fn answer_ssl(&mut self, options: &ServerOptions) -> io::Result<()> {
        let can_encrypt = !self.stream.is_encrypted() && !self.stream.socket().is_unix();
        let (Some(tls), Stream::Plain(channel)) =
            (options.tls.as_ref().filter(|_| can_encrypt), &self.stream)
        else {
            return self.stream.write_all(b"N");
        };
        let channel = channel.clone();
        if self.used_to < self.read_to {
            // An attacker may have inserted it, so that it is taken for encrypted.
            let what = "something was sent before the encryption began";
            return Err(io::Error::new(ErrorKind::InvalidData, what));
        }
        self.stream.write_all(b"S")?;
        self.stream = tls.encrypt(channel)?;
        Ok(())
    }

    /// Checks that the client is the user that it claims to be, and that this user may connect.
    pub(crate) fn authenticate(
        &mut self,
        engine: &Engine,
        options: &ServerOptions,
        guesses: &Mutex<Guesses>,
        decoy: &[u8],
        user: &str,
    ) -> io::Result<Result<(), SqlError>> {
        let socket = self.stream.socket();
        if !socket.is_near() && !self.stream.is_encrypted() {
            let message = "clients of other machines have to encrypt their connection";
            let error = SqlError::new("28000", message).hint("Connect with sslmode=require.");
            return Ok(Err(error));
        }
        let is_trusted = match options.trust {
            Trust::Nobody => false,
            Trust::Owner => socket.is_owner(),
            Trust::Loopback => socket.is_near(),
        };
        if !is_trusted
            && let Err(error) = self.prove_password(engine, options, guesses, decoy, user)?
        {
            return Ok(Err(error));
        }
        // Without proof, the answer must not reveal which users exist.
        Ok(match engine.user(user) {
            Some(user) if user.login => Ok(()),
            Some(_) => {
                let message = format!("role \"{user}\" is not permitted to log in");
                Err(SqlError::new("28000", message).hint("ALTER USER .. LOGIN permits it."))
            }
            None => Err(SqlError::new("28000", format!("role \"{user}\" does not exist"))
                .hint("A new database has the user isomer; CREATE USER makes others.")),
        })
    }

    /// Authenticates the client by password. Wrong passwords are counted, and answered the later
    /// the more there were.
    fn prove_password(
        &mut self,
        engine: &Engine,
        options: &ServerOptions,
        guesses: &Mutex<Guesses>,
        decoy: &[u8],
        user: &str,
    ) -> io::Result<Result<(), SqlError>> {
        match self.exchange(engine, options, decoy, user)? {
            Proof::Right(signature) => {
                let mut out = Out::default();
                out.authentication(12, signature.as_bytes());
                self.send(&mut out)?;
                return Ok(Ok(()));
            }
            // The client has not answered, so this counts as no guess.
            Proof::None => {}
            Proof::Wrong => {
                let origin = self.stream.socket().origin();
                let turn = guesses.lock().wrong(user, origin, limits::now());
                match turn {
                    Turn::After(wait) => pause(wait),
                    Turn::Refused(wait) => {
                        let message = format!(
                            "too many failed logins of user \"{user}\" from here: try again in {} s",
                            wait.as_secs() + 1
                        );
                        return Ok(Err(SqlError::new("28P01", message)));
                    }
                }
            }
        }
        let message = format!("password authentication failed for user \"{user}\"");
        Ok(Err(SqlError::new("28P01", message)))
    }

    /// The SCRAM exchange, up to the proof that the client knows the password.
    fn exchange(
        &mut self,
        engine: &Engine,
        options: &ServerOptions,
        decoy: &[u8],
        user: &str,
    ) -> io::Result<Proof> {
        let verifier = engine.user(user).and_then(|user| user.verifier());
        let is_known = verifier.is_some();
        let verifier = verifier.unwrap_or_else(|| Verifier::decoy(decoy, user));
        let mut nonce = [0; 18];
        (options.random)(&mut nonce);
        let mut out = Out::default();
        out.authentication(10, format!("{MECHANISM}\0\0").as_bytes());
        self.send(&mut out)?;
        let Some(first) = self.password_message()? else { return Ok(Proof::None) };
        let mut reader = Reader::new(&first);
        let (Ok(MECHANISM), Ok(_)) = (reader.text(), reader.i32()) else { return Ok(Proof::None) };
        let first = String::from_utf8_lossy(reader.rest());
        let Some(exchange) = Exchange::begin(&first, verifier, nonce) else {
            return Ok(Proof::None);
        };
        out.authentication(11, exchange.server_first().as_bytes());
        self.send(&mut out)?;
        let Some(last) = self.password_message()? else { return Ok(Proof::None) };
        let proved = exchange.end(&String::from_utf8_lossy(&last)).filter(|_| is_known);
        Ok(proved.map_or(Proof::Wrong, Proof::Right))
    }

    fn password_message(&mut self) -> io::Result<Option<Vec<u8>>> {
        let message = self.message(STARTUP_BYTES_MAX)?;
        Ok(match message {
            Incoming::Message(b'p', body) => Some(self.input[body].to_vec()),
            _ => None,
        })
    }

    /// Answers with protocol version 3.0, and the unknown protocol options.
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
}

/// The result of a client's proof.
enum Proof {
    /// The client knows the password; with the server's own proof.
    Right(String),
    Wrong,
    /// The client has left the exchange.
    None,
}

#[allow(clippy::disallowed_methods, reason = "the edge: who guesses passwords waits")]
fn pause(time: Duration) {
    if !time.is_zero() {
        std::thread::sleep(time);
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
            "options" => settings.extend(read_options(&value)?),
            "replication" if !matches!(&*value, "false" | "off" | "no" | "0") => {
                let message = "there is no replication protocol here";
                let hint = "Copies at other sites are made by ALTER TABLE .. ADD REPLICA ON SITE.";
                return Err(SqlError::new("0A000", message).hint(hint));
            }
            "replication" => {}
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

/// The settings of `PGOPTIONS`, in the form of a server's command line: `-c name=value` or
/// `--name=value`, separated by spaces. A space in a value is escaped by a backslash.
fn read_options(text: &str) -> Result<Vec<(String, String)>, SqlError> {
    let (mut words, mut settings) = (split_words(text).into_iter(), Vec::new());
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("-c") {
            Some("") => words.next(),
            Some(setting) => Some(setting.to_owned()),
            None => word.strip_prefix("--").map(str::to_owned),
        };
        let Some((name, value)) = setting.as_deref().and_then(|setting| setting.split_once('='))
        else {
            let message = format!("invalid command-line argument for server process: {word}");
            return Err(SqlError::new("42601", message)
                .hint("Options are written as -c name=value or --name=value."));
        };
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

fn split_words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter.is_whitespace() {
            words.push(String::new());
        } else if let Some(word) = words.last_mut() {
            word.extend(if letter == '\\' { letters.next() } else { Some(letter) });
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> String {
        let read = read_options(text).unwrap();
        read.iter().map(|(name, value)| format!("{name}=[{value}]")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn options_are_those_of_a_servers_command_line() {
        assert_eq!(options(""), "");
        assert_eq!(options("-c lock_timeout=5s"), "lock_timeout=[5s]");
        assert_eq!(
            options(" -clock_timeout=5s  --time-zone=UTC"),
            "lock_timeout=[5s] time_zone=[UTC]"
        );
        assert_eq!(options(r"-c application_name=a\ b\\c=d"), r"application_name=[a b\c=d]");
        for wrong in ["-c", "-c lock_timeout", "-x", "lock_timeout=5s", "--lock_timeout"] {
            assert_eq!(read_options(wrong).unwrap_err().code, "42601", "{wrong}");
        }
    }
}
