//! Members with threads, files and clocks, in one process: the mailbox is a function call. The log
//! of an owner survives any minority, and waits without a majority.

#![allow(clippy::disallowed_methods, reason = "threads are waited for")]

use isomer_log::{Log, LogError, OpenError, Position};
use isomer_owned::lease::Times;
use isomer_owned::{Carrier, OpenReport, Options};
use isomer_quorum::{Client, Inlet, Mailbox, MemberOptions, NodeLog, Nodes, Quorum, QuorumOptions};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

const NAMES: [&str; 3] = ["a", "b", "c"];
const LIMIT: Duration = Duration::from_secs(60);
static RUN: AtomicU64 = AtomicU64::new(1);

/// The processes that run, by name.
#[derive(Default)]
struct Switch(Mutex<BTreeMap<String, Runs>>);

#[derive(Clone)]
enum Runs {
    Member(Inlet),
    Client(Weak<Client>),
}

struct From(Arc<Switch>, String);

impl Mailbox for From {
    fn send(&self, to: &str, envelope: Vec<u8>) {
        let to = self.0.0.lock().unwrap().get(to).cloned();
        match to {
            Some(Runs::Member(to)) => to.receive(&self.1, envelope),
            Some(Runs::Client(to)) => {
                to.upgrade().iter().for_each(|to| to.receive(&self.1, &envelope));
            }
            None => {}
        }
    }

    fn trouble(&self, name: &str) -> Option<String> {
        let runs = self.0.0.lock().unwrap().contains_key(name);
        (!runs).then(|| "it is down".to_owned())
    }
}

/// A cluster in a folder.
struct Cluster {
    folder: tempfile::TempDir,
    switch: Arc<Switch>,
    said: Arc<Mutex<Vec<String>>>,
    running: BTreeMap<&'static str, Arc<Quorum>>,
}

impl Cluster {
    fn new() -> Cluster {
        let folder = tempfile::tempdir().expect("a folder");
        let (switch, said) = (Arc::default(), Arc::default());
        let mut cluster = Cluster { folder, switch, said, running: BTreeMap::new() };
        NAMES.iter().for_each(|name| cluster.start(name));
        NAMES.iter().for_each(|name| assert_eq!(cluster.is_ready(name), Ok(true)));
        cluster
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn start(&mut self, name: &'static str) {
        let run = RUN.fetch_add(1, Ordering::Relaxed);
        let said = self.said.clone();
        let options = QuorumOptions {
            names: NAMES.map(str::to_owned).to_vec(),
            own: name.to_owned(),
            run,
            drawn: u128::from(run) << 64 | 77,
            member: MemberOptions::default(),
            say: Box::new(move |text| said.lock().unwrap().push(text.to_owned())),
        };
        let mailbox = Arc::new(From(self.switch.clone(), name.to_owned()));
        let quorum = Quorum::start(&self.path(name), options, mailbox).expect("it starts");
        self.switch.0.lock().unwrap().insert(name.to_owned(), Runs::Member(quorum.inlet()));
        self.running.insert(name, quorum);
    }

    fn stop(&mut self, name: &str) {
        self.switch.0.lock().unwrap().remove(name);
        self.running.remove(name);
    }

    fn is_ready(&self, name: &str) -> Result<bool, String> {
        Nodes::new(self.running[name].clone()).is_ready(LIMIT)
    }

    /// A process that keeps no copies.
    fn client(&self, name: &str) -> Arc<Client> {
        let (names, run) = (NAMES.map(str::to_owned).to_vec(), RUN.fetch_add(1, Ordering::Relaxed));
        let mailbox = Arc::new(From(self.switch.clone(), name.to_owned()));
        let client = Client::start(names, run, mailbox).expect("it starts");
        let runs = Runs::Client(Arc::downgrade(&client));
        self.switch.0.lock().unwrap().insert(name.to_owned(), runs);
        client
    }

    fn open(&self, name: &str) -> Result<(NodeLog, OpenReport), OpenError> {
        self.open_by(Nodes::new(self.running[name].clone()), name)
    }

    fn open_by(&self, nodes: Nodes, name: &str) -> Result<(NodeLog, OpenReport), OpenError> {
        let partition = nodes.partition(1, 1_000_000, name).expect("a partition");
        let ms = Duration::from_millis;
        let times = Times { serves: ms(1500), waits: ms(2000), renews: ms(300) };
        let options = Options { times, ..Options::default() };
        NodeLog::open(partition, &"nodes, partition 1".into(), 0xabc, 1, name, options)
    }
}

fn sync(log: &NodeLog) -> Result<Position, LogError> {
    let (end, begun) = (log.end(), Instant::now());
    while log.sync()? < end {
        assert!(begun.elapsed() < LIMIT, "the log does not become durable");
    }
    Ok(end)
}

fn frames(log: &NodeLog) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    log.read(log.begin(), &mut |_, frame| {
        frames.push(frame.to_vec());
        ControlFlow::Continue(())
    })
    .expect("it can be read");
    frames
}

#[test]
fn a_log_survives_a_minority_and_waits_without_a_majority() {
    let mut cluster = Cluster::new();
    let (log, _) = cluster.open("a").expect("a new log");
    let mut expected = Vec::new();
    let mut write = |log: &NodeLog, count: usize| {
        for number in 0..count {
            let frame = vec![number as u8; 100 + number * 37 % 5000];
            log.append(&frame).expect("there is room");
            expected.push(frame);
        }
        expected.clone()
    };
    write(&log, 300);
    sync(&log).expect("all nodes are there");
    // Any one may be gone.
    for gone in ["b", "c"] {
        cluster.stop(gone);
        write(&log, 50);
        sync(&log).expect("two nodes are a majority");
        cluster.start(gone);
    }
    // Without a majority the log waits, and says so; it goes on by itself.
    cluster.stop("b");
    cluster.stop("c");
    let frames_before = write(&log, 1);
    let (durable, begun) = (log.durable(), Instant::now());
    while begun.elapsed() < Duration::from_secs(3) {
        assert_eq!(log.sync().expect("it waits"), durable);
    }
    cluster.start("c");
    sync(&log).expect("two nodes are a majority again");
    let said = cluster.said.lock().unwrap().clone();
    let waits =
        "commits wait: the logs need 2 of 3 nodes; not reached: b (it is down), c (it is down)";
    assert!(said.iter().any(|text| text == waits), "{said:?}");
    assert_eq!(frames(&log), frames_before);
    // The owner's node has failed: another node takes over the log, with all of its records.
    drop(log);
    cluster.stop("a");
    cluster.start("b");
    let (log, report) = cluster.open("b").expect("it takes the log over");
    assert_eq!(report.taken_from, None, "the owner before has released it");
    assert_eq!(frames(&log), frames_before);
}

#[test]
fn a_new_owner_fences_the_one_before_and_old_records_are_removed_everywhere() {
    let mut cluster = Cluster::new();
    let (first, _) = cluster.open("a").expect("a new log");
    for number in 0..100_u32 {
        first.append(&[number as u8; 20_000]).expect("there is room");
        sync(&first).expect("it is written");
    }
    let middle = first.end() / 2;
    first.truncate_before(middle).expect("it can be cut");
    let (begin, kept) = (first.begin(), frames(&first));
    assert!(begin > 0 && begin <= middle);
    let (second, report) = cluster.open("b").expect("it takes the log over");
    assert!(report.taken_from.is_some(), "the owner before may serve reads");
    assert_eq!((second.begin(), frames(&second)), (begin, kept.clone()));
    first.append(b"late").expect("it does not know yet");
    let error = sync(&first).expect_err("it has lost the log");
    assert!(matches!(error, LogError::Fenced { .. }), "{error}");
    assert!(first.serving().is_err());
    second.append(b"new").expect("there is room");
    sync(&second).expect("after the wait for the lease");
    // A node that was away for all of it has it, too.
    drop((first, second));
    cluster.stop("c");
    cluster.start("c");
    assert_eq!(cluster.is_ready("c"), Ok(true));
    let (third, _) = cluster.open("c").expect("it takes the log over");
    let mut expected = kept;
    expected.push(b"new".to_vec());
    assert_eq!(frames(&third), expected);
}

#[test]
fn a_node_without_its_folder_is_refused_and_the_others_go_on() {
    let mut cluster = Cluster::new();
    let (log, _) = cluster.open("a").expect("a new log");
    log.append(b"kept").expect("there is room");
    sync(&log).expect("it is written");
    cluster.stop("b");
    std::fs::remove_dir_all(cluster.path("b")).expect("its folder is emptied");
    cluster.start("b");
    let refused = cluster.is_ready("b").expect_err("it has forgotten its votes");
    assert!(refused.starts_with("`b` begins without the logs that it has kept"), "{refused}");
    log.append(b"more").expect("there is room");
    sync(&log).expect("two nodes are a majority");
    // Its folder is of another cluster now: only the old one would be let in.
    assert!(Path::new(&cluster.path("b")).exists());
}

#[test]
fn a_node_that_keeps_no_copies_owns_a_log_whichever_member_is_gone() {
    let mut cluster = Cluster::new();
    let client = cluster.client("d");
    let nodes = || Nodes::for_client(client.clone());
    assert_eq!(nodes().is_ready(LIMIT), Ok(true));
    let (log, _) = cluster.open_by(nodes(), "d").expect("a new log");
    let mut expected = Vec::new();
    let mut write = |log: &NodeLog, count: u32| {
        for number in 0..count {
            let frame = vec![number as u8; 100 + number as usize * 7919 % 50_000];
            log.append(&frame).expect("there is room");
            expected.push(frame);
        }
        expected.clone()
    };
    write(&log, 100);
    sync(&log).expect("all members are there");
    for gone in NAMES {
        cluster.stop(gone);
        write(&log, 30);
        sync(&log).expect("the client asks another member");
        cluster.start(gone);
        assert_eq!(cluster.is_ready(gone), Ok(true));
    }
    // Without a majority it waits, and goes on by itself.
    cluster.stop("a");
    cluster.stop("b");
    let written = write(&log, 1);
    let (durable, begun) = (log.durable(), Instant::now());
    while begun.elapsed() < Duration::from_secs(4) {
        assert_eq!(log.sync().expect("it waits"), durable);
    }
    assert_eq!(nodes().is_ready(Duration::from_millis(300)), Ok(false));
    cluster.start("b");
    sync(&log).expect("two members are a majority again");
    assert_eq!(frames(&log), written);
    // A member takes the log over, and fences the client.
    let (taken, report) = cluster.open("b").expect("it takes the log over");
    assert!(report.taken_from.is_some(), "the owner before may serve reads");
    assert_eq!(frames(&taken), written);
    log.append(b"late").expect("it does not know yet");
    let error = sync(&log).expect_err("it has lost the log");
    assert!(matches!(error, LogError::Fenced { .. }), "{error}");
}
