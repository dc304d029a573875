//! Certificates: processes of one authority form a cluster; all others fail in the handshake.

use super::bank::{Plan, accounts, until};
use super::{THREE, conserve};
use isomer_net::{Net, NodeTls, ask_status};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tempfile::TempDir;

/// An authority, and the files of its certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: TempDir,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let root = params.self_signed(&key).expect("a certificate");
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("ca"), root.pem()).expect("a file");
        Authority { issuer: Issuer::new(params, key), folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes a certificate for a name; `runs_out` is the year in which it expires.
    fn make(&self, name: &str, runs_out: i32) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.not_after = date_time_ymd(runs_out, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let made = params.signed_by(&key, &self.issuer).expect("a certificate");
        std::fs::write(self.file(name), made.pem()).expect("a file");
        std::fs::write(self.file(&format!("{name}.key")), key.serialize_pem()).expect("a file");
    }

    /// The configuration of a process that calls itself `name`, with the certificate of `of`.
    fn open(&self, of: &str, name: &str) -> Result<NodeTls, String> {
        let key = self.file(&format!("{of}.key"));
        NodeTls::open(&self.file("ca"), &self.file(of), &key, name)
    }

    fn tls(&self, name: &str) -> Option<NodeTls> {
        self.make(name, 2999);
        Some(self.open(name, name).expect("it fits"))
    }
}

fn with_certificates(authority: &Authority) -> Plan {
    let mut plan = Plan::new(THREE, None);
    plan.tls = ["a", "b", "c"].map(|name| authority.tls(name)).into();
    plan
}

#[test]
fn processes_with_certificates_of_one_authority_form_a_cluster() {
    let plan = with_certificates(&Authority::new());
    let (_b, _c) = (plan.node(1), plan.node(2));
    let (gateway, _net) = plan.router();
    let table = accounts(&gateway);
    conserve(&gateway, table, |rounds| {
        until("a reader has read", || rounds.load(Ordering::SeqCst) > 20);
    });
    assert_eq!(plan.status(1).expect("it is there").name, "b");
}

/// Waits until a process that dials another reports this error about it.
#[track_caller]
fn sees(net: &Net, name: &str, what: &str) {
    net.dial();
    let mut seen = String::new();
    until(what, || {
        let peers = net.peers();
        let peer = peers.iter().find(|peer| peer.member.name == name).expect("it is known");
        let now = peer.reached.as_ref().err().cloned().unwrap_or_default();
        if now != seen {
            eprintln!("{name}: {now}");
        }
        seen = now;
        seen.contains(what)
    });
}

#[test]
fn strangers_come_no_further_than_the_handshake() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let plan = with_certificates(&ours);
    let (_b, of_b) = plan.node(1);
    let mut stranger = with_certificates(&theirs);
    (stranger.listen, stranger.dial) = (plan.listen.clone(), plan.dial.clone());
    // The dialling end sees the other's certificate, and the dialled end sees the dialling one's.
    let net = stranger.net(2, Some(stranger.cluster));
    sees(&net, "b", "invalid peer certificate");
    sees(&of_b, "c", "invalid peer certificate");
    drop(net);
    // A process without certificates.
    stranger.tls[2] = None;
    let net = stranger.net(2, Some(stranger.cluster));
    sees(&net, "b", "it encrypts");
    sees(&of_b, "c", "not encrypted it");
    drop(net);
    let limit = Duration::from_secs(60);
    let asked = ask_status("b", &plan.listen[1].to_string(), None, limit);
    assert!(asked.expect_err("it encrypts").contains("it encrypts"));
    // A process with the certificate of a different one.
    ours.make("both", 2999);
    stranger.tls[2] = plan.tls[0].clone();
    let net = stranger.net(2, Some(stranger.cluster));
    sees(&net, "b", "its certificate is not one of `c`");
    sees(&of_b, "c", "not valid for name");
}

#[test]
fn a_certificate_that_is_of_no_use_is_named_at_the_start() {
    let ours = Authority::new();
    let refused = |of: &str, name: &str| ours.open(of, name).expect_err("it is of no use");
    ours.make("b", 2999);
    let said = refused("b", "c");
    assert!(said.contains("/b: ") && said.contains("with the name `c`"), "{said}");
    ours.make("old", 2020);
    let said = refused("old", "old");
    assert!(said.contains("expired") && said.contains("in force"), "{said}");
    let said = refused("none", "none");
    assert!(said.contains("/none: "), "{said}");
    let said = refused("b", "b b");
    assert!(said.contains("`b b` cannot stand in a certificate"), "{said}");
    let theirs = Authority::new();
    theirs.make("b", 2999);
    let key = theirs.file("b.key");
    let mixed = NodeTls::open(&ours.file("ca"), &theirs.file("b"), &key, "b");
    assert!(mixed.expect_err("another authority").contains("it has to be one of"));
    let other = NodeTls::open(&ours.file("ca"), &ours.file("b"), &key, "b");
    other.expect_err("the key is another's");
}
