//! Authentication by certificates: each end of a line shows one of the cluster's own authority.
//!
//! ```text
//!   b dials a     a's certificate: of this authority, valid, with the name `a`          else b ends the line
//!                 b's certificate: of this authority, valid                             else a does
//!   hello of b    its name is one of b's certificate                                    else a refuses it
//! ```
//!
//! So a process cannot use another's name, and one without a certificate fails in the handshake.
//! TLS 1.3 only, without resumption of sessions: all ends are of one release, and an expired
//! certificate is noticed at the next dial.
//!
//! **Left out.** Revocation lists: use certificates that expire soon, or change the authority.

use crate::edge::time_for_certificates;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
};
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

/// A process's certificate, and the authority of the others'.
#[derive(Clone, Debug)]
pub struct NodeTls {
    dials: Arc<ClientConfig>,
    listens: Arc<ServerConfig>,
}

impl NodeTls {
    /// Reads PEM files: the certificates of the cluster's authority, and the process's own, with
    /// its name in the cluster as a DNS name, and its key.
    ///
    /// # Errors
    /// A message with the file: it cannot be read, the three do not fit together, or the process's
    /// certificate has expired or has another name.
    pub fn open(
        authority: &Path,
        certificate: &Path,
        key: &Path,
        name: &str,
    ) -> Result<NodeTls, String> {
        let mut roots = RootCertStore::empty();
        for root in certificates(authority)? {
            roots.add(root).map_err(wrong(authority))?;
        }
        let (roots, chain) = (Arc::new(roots), certificates(certificate)?);
        let private = PrivateKeyDer::from_pem_file(key).map_err(wrong(key))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = &[&rustls::version::TLS13];
        let verifier =
            WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone()).build();
        let verifier = verifier.map_err(wrong(authority))?;
        check_own(&verifier, &chain, certificate, authority, name)?;
        let mut dials = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .map(|config| config.with_webpki_verifier(verifier))
            .and_then(|config| config.with_client_auth_cert(chain.clone(), private.clone_key()))
            .map_err(wrong(certificate))?;
        dials.resumption = Resumption::disabled();
        let guests = WebPkiClientVerifier::builder_with_provider(roots, provider.clone()).build();
        let guests = guests.map_err(wrong(authority))?;
        let mut listens = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .map(|config| config.with_client_cert_verifier(guests))
            .and_then(|config| config.with_single_cert(chain, private))
            .map_err(wrong(certificate))?;
        listens.send_tls13_tickets = 0;
        Ok(NodeTls { dials: Arc::new(dials), listens: Arc::new(listens) })
    }

    /// The end of a line that dials a process of this name.
    pub(crate) fn dial(&self, name: &str) -> Result<Connection, String> {
        let connection = ClientConnection::new(self.dials.clone(), dns_name(name)?);
        connection.map(Connection::from).map_err(|error| error.to_string())
    }

    /// The end of a line that was dialled.
    pub(crate) fn listen(&self) -> Result<Connection, String> {
        let connection = ServerConnection::new(self.listens.clone());
        connection.map(Connection::from).map_err(|error| error.to_string())
    }
}

/// True if the certificate at the other end has this name.
pub(crate) fn has_name(connection: &Connection, name: &str) -> bool {
    let shown = connection.peer_certificates().and_then(|chain| chain.first());
    let parsed = shown.and_then(|shown| ParsedCertificate::try_from(shown).ok());
    let name = dns_name(name);
    parsed.zip(name.ok()).is_some_and(|(shown, name)| verify_server_name(&shown, &name).is_ok())
}

/// The error of a line, with the way out.
pub(crate) fn in_words(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidMessage(_) => {
            "it does not encrypt: all processes of a cluster are given certificates, or none"
                .to_owned()
        }
        error => error.to_string(),
    }
}

fn check_own(
    verifier: &WebPkiServerVerifier,
    chain: &[CertificateDer<'static>],
    certificate: &Path,
    authority: &Path,
    name: &str,
) -> Result<(), String> {
    let Some((own, between)) = chain.split_first() else {
        return Err(format!("{}: there is no certificate in it", certificate.display()));
    };
    let now = time_for_certificates();
    let verified = verifier.verify_server_cert(own, between, &dns_name(name)?, &[], now);
    verified.map(drop).map_err(|error| {
        format!(
            "{}: {error}; it has to be one of {}, in force, with the name `{name}`",
            certificate.display(),
            authority.display()
        )
    })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<_, _>>);
    let found: Vec<_> = found.map_err(wrong(path))?;
    match found.is_empty() {
        true => Err(format!("{}: there is no certificate in it", path.display())),
        false => Ok(found),
    }
}

fn dns_name(name: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(name.to_owned()).map_err(|_| {
        format!("`{name}` cannot stand in a certificate: a process that has one has a DNS name, as node-1")
    })
}

fn wrong<E: Display>(path: &Path) -> impl Fn(E) -> String {
    move |error| format!("{}: {error}", path.display())
}
