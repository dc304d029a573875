//! Envelopes pass before a database is open and after it is closed, and only between processes of
//! the list.

#![allow(clippy::disallowed_methods, reason = "processes are waited for")]

use isomer_cluster::Wire;
use isomer_design::SiteId;
use isomer_net::{LogsStatus, Member, Net, Options, Role, Service, ask_logs};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// Keeps the envelopes that come.
#[derive(Default)]
struct Box(Mutex<Vec<(String, Vec<u8>)>>);

impl Service for Box {
    fn receive(&self, from: &str, envelope: Vec<u8>) {
        self.0.lock().unwrap().push((from.to_owned(), envelope));
    }

    fn status(&self) -> LogsStatus {
        let envelopes = self.0.lock().unwrap().len();
        LogsStatus { trouble: Some(format!("{envelopes} envelopes")), logs: Vec::new() }
    }
}

fn member(name: &str, site: u16, listener: &TcpListener) -> Member {
    let address = listener.local_addr().expect("it has one").to_string();
    Member { name: name.to_owned(), address, sites: [SiteId(site)].into(), zone: None }
}

fn start(name: &str, site: u16, listener: TcpListener, members: Vec<Member>) -> Arc<Net> {
    let options = Options { members, ..Options::new(name, Role::Node, &[SiteId(site)]) };
    Net::start(listener, 1, options).expect("it starts")
}

/// Waits, and tries again.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn envelopes_pass_without_a_database_and_strangers_are_refused() {
    let listen = || TcpListener::bind("127.0.0.1:0").expect("a port");
    let (at_a, at_b, at_z) = (listen(), listen(), listen());
    let [a, b] = [member("a", 1, &at_a), member("b", 2, &at_b)];
    let [net_a, net_b] =
        [start("a", 1, at_a, vec![b.clone()]), start("b", 2, at_b, vec![a.clone()])];
    let net_z = start("z", 3, at_z, vec![a.clone()]);
    let status = |of: &Member| ask_logs(&of.name, &of.address, None, LIMIT);
    assert_eq!(status(&a), Err("`a` keeps no logs for other processes".to_owned()));
    let boxes = [(); 3].map(|()| Arc::new(Box::default()));
    for (net, envelopes) in [&net_a, &net_b, &net_z].into_iter().zip(&boxes) {
        net.exchange_envelopes(envelopes.clone());
    }
    let long = vec![7; 3 << 20];
    until("an envelope of a at b", || {
        net_a.send_envelope("b", &long);
        boxes[1].0.lock().unwrap().contains(&("a".to_owned(), long.clone()))
    });
    // The database of b is closed, and its envelopes go on.
    net_b.close();
    until("an envelope of b at a", || {
        net_b.send_envelope("a", b"after");
        boxes[0].0.lock().unwrap().contains(&("b".to_owned(), b"after".to_vec()))
    });
    let said = status(&a).expect("it answers").trouble.expect("the service says so");
    assert!(said.ends_with(" envelopes"), "{said}");
    until("a stranger is told why", || {
        net_z.send_envelope("a", b"mine");
        let why = net_z.envelope_trouble("a").unwrap_or_default();
        why == "`a` knows no process named `z`: give all processes the same list, or let it join"
    });
    assert!(boxes[0].0.lock().unwrap().iter().all(|(from, _)| from == "b"));
    assert_eq!(net_a.envelope_trouble("c").as_deref(), Some("it is not in the list"));
    drop(net_b);
    until("b is gone", || net_a.envelope_trouble("b").is_some());
}
