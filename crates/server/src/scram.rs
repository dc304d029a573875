//! SCRAM-SHA-256 (RFC 5802, RFC 7677): a client proves that it knows a password without revealing
//! it.
//!
//! ```text
//!   client                                       server, which has the verifier of the user:
//!                                                salt, rounds, StoredKey, ServerKey
//!   n,,n=,r=NONCE ────────────────────────────▶
//!      ◀──────────── r=NONCE+MINE,s=SALT,i=4096
//!   salted = PBKDF2(password, salt, rounds)
//!   c=biws,r=NONCE+MINE,p=PROOF ──────────────▶  PROOF xor HMAC(StoredKey, all of this) is a key
//!      ◀──────────────────────── v=SIGNATURE     with the hash StoredKey: the password is right
//! ```
//!
//! The verifier has PostgreSQL's format, so a password that a client has turned into a verifier
//! (psql's `\password`) is stored as it is. For a user that does not exist the exchange is the same
//! and fails at its end, so it does not reveal which users exist. Left out: channel binding.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use ring::{digest, hmac, pbkdf2};
use std::num::NonZeroU32;

/// The name of the mechanism.
pub(crate) const MECHANISM: &str = "SCRAM-SHA-256";
/// The number of hash iterations: the minimum of RFC 7677.
const ROUNDS: NonZeroU32 = NonZeroU32::new(4096).expect("it is not zero");
const KEY_BYTES: usize = 32;

type Key = [u8; KEY_BYTES];

/// The server's knowledge of a password.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Verifier {
    salt: Vec<u8>,
    rounds: NonZeroU32,
    stored_key: Key,
    server_key: Key,
}

impl Verifier {
    /// The verifier of a password, or of a text that is already a verifier.
    pub(crate) fn of(password: &str, salt: [u8; 16]) -> Verifier {
        if let Some(verifier) = Verifier::read(password) {
            return verifier;
        }
        // A password that SASLprep refuses is used as it is, as clients do.
        let prepared = stringprep::saslprep(password).unwrap_or(password.into());
        let mut salted = [0; KEY_BYTES];
        let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
        pbkdf2::derive(algorithm, ROUNDS, &salt, prepared.as_bytes(), &mut salted);
        Verifier {
            salt: salt.to_vec(),
            rounds: ROUNDS,
            stored_key: hash(&sign(&salted, b"Client Key")),
            server_key: sign(&salted, b"Server Key"),
        }
    }

    /// The verifier of a user that does not exist: always the same, with an unknown password.
    pub(crate) fn decoy(secret: &[u8], user: &str) -> Verifier {
        let key = sign(secret, user.as_bytes());
        let salt = key[..16].to_vec();
        Verifier { salt, rounds: ROUNDS, stored_key: key, server_key: key }
    }

    /// `SCRAM-SHA-256$4096:salt$StoredKey:ServerKey`
    pub(crate) fn read(text: &str) -> Option<Verifier> {
        let rest = text.strip_prefix(MECHANISM)?.strip_prefix('$')?;
        let (front, keys) = rest.split_once('$')?;
        let ((rounds, salt), (stored, server)) = (front.split_once(':')?, keys.split_once(':')?);
        let key = |text: &str| BASE64.decode(text).ok()?.try_into().ok();
        Some(Verifier {
            salt: BASE64.decode(salt).ok()?,
            rounds: rounds.parse().ok()?,
            stored_key: key(stored)?,
            server_key: key(server)?,
        })
    }

    /// As [`Verifier::read`] reads it.
    pub(crate) fn write(&self) -> String {
        let [salt, stored, server] =
            [&self.salt[..], &self.stored_key, &self.server_key].map(|bytes| BASE64.encode(bytes));
        format!("{MECHANISM}${}:{salt}${stored}:{server}", self.rounds)
    }
}

/// An exchange in progress.
pub(crate) struct Exchange {
    verifier: Verifier,
    client_first: String,
    server_first: String,
    /// The client's channel binding flag, which its last message repeats.
    binding: String,
    nonce: String,
}

impl Exchange {
    /// Takes the client's first message; the answer is [`Exchange::server_first`]. `None` if the
    /// message is malformed.
    pub(crate) fn begin(message: &str, verifier: Verifier, mine: [u8; 18]) -> Option<Exchange> {
        // `y`: the client supports channel binding and believes that the server does not, which is
        // true.
        let at = ["n,", "y,"].into_iter().any(|flag| message.starts_with(flag)).then_some(2)?;
        let header_end = at + message[at..].find(',')? + 1;
        let (header, client_first) = message.split_at(header_end);
        let theirs = client_first.split(',').find_map(|part| part.strip_prefix("r="))?;
        let nonce = format!("{theirs}{}", BASE64.encode(mine));
        let salt = BASE64.encode(&verifier.salt);
        Some(Exchange {
            server_first: format!("r={nonce},s={salt},i={}", verifier.rounds),
            client_first: client_first.to_owned(),
            binding: BASE64.encode(header),
            verifier,
            nonce,
        })
    }

    /// The server's first message.
    pub(crate) fn server_first(&self) -> &str {
        &self.server_first
    }

    /// Takes the client's last message. Returns the server's last message if the client knows the
    /// password.
    pub(crate) fn end(&self, message: &str) -> Option<String> {
        let (without_proof, proof) = message.rsplit_once(",p=")?;
        let mut parts = without_proof.split(',');
        let said = (parts.next()?.strip_prefix("c=")?, parts.next()?.strip_prefix("r=")?);
        if said != (self.binding.as_str(), self.nonce.as_str()) {
            return None;
        }
        let proof: Key = BASE64.decode(proof).ok()?.try_into().ok()?;
        let all = format!("{},{},{without_proof}", self.client_first, self.server_first);
        let signature = sign(&self.verifier.stored_key, all.as_bytes());
        let key: Key = std::array::from_fn(|at| proof[at] ^ signature[at]);
        (hash(&key) == self.verifier.stored_key).then(|| {
            format!("v={}", BASE64.encode(sign(&self.verifier.server_key, all.as_bytes())))
        })
    }
}

fn sign(key: &[u8], text: &[u8]) -> Key {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text).as_ref().try_into().expect("the length of a hash")
}

fn hash(bytes: &[u8]) -> Key {
    digest::digest(&digest::SHA256, bytes).as_ref().try_into().expect("the length of a hash")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, section 3.
    #[test]
    fn the_example_of_the_standard_is_understood() {
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64");
        let verifier = Verifier::of("pencil", salt.try_into().expect("sixteen bytes"));
        assert_eq!(Verifier::read(&verifier.write()), Some(verifier.clone()));
        let first = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
        let mut exchange = Exchange::begin(first, verifier, [0; 18]).expect("a first message");
        // The standard's server has chosen another nonce.
        let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        exchange.nonce = nonce.to_owned();
        exchange.server_first = format!("r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
        let last = format!("c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        let answer = exchange.end(&last).expect("the right proof");
        assert_eq!(answer, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        assert_eq!(exchange.end(&last.replace("dHzb", "dHzc")), None);
        assert_eq!(exchange.end(&last.replace("biws", "eSws")), None);
    }
}
