//! A cluster of processes that are simulated in this one: a router and nodes, each with its own
//! sockets.

use isomer_cluster::{
    Abort, CancelToken, Database, Error, Gateway, Isolation, LockMode, Node, OpenError, Options,
    Procedures, Session, Txn,
};
use isomer_design::{
    Column, ColumnType, Direction, Footprint, Key, KeyRange, Schema, SiteId, TableId,
};
use isomer_net::{Member, Net, NodeTls, Role, Status, ask_status};
use isomer_strategy::TwoPhase;
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const ACCOUNTS: i64 = 40;
pub(crate) const START: i64 = 100;
/// How long a test waits for an expected event: many times the time that a slow machine needs.
const LIMIT: Duration = Duration::from_secs(120);

/// Numbers the runs of processes.
static RUN: AtomicU64 = AtomicU64::new(1);

pub(crate) fn balance(row: &[u8]) -> i64 {
    i64::from_le_bytes(row.try_into().expect("a balance has eight bytes"))
}

fn params(table: TableId, numbers: &[i64]) -> Vec<u8> {
    let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
    table.0.to_le_bytes().into_iter().chain(numbers).collect()
}

fn number(params: &[u8], at: usize) -> i64 {
    let from = 4 + 8 * at;
    i64::from_le_bytes(params[from..from + 8].try_into().expect("as it was written"))
}

fn procedures() -> Procedures {
    let mut procedures = Procedures::default();
    let table = |params: &[u8]| {
        TableId(u32::from_le_bytes(params[..4].try_into().expect("as it was written")))
    };
    procedures.add("transfer", move |txn: &mut Txn<'_>, params: &[u8]| {
        let (table, amount) = (table(params), number(params, 2));
        let [from, to] = [0, 1].map(|at| Key::int(number(params, at)));
        let left = txn.get(table, &from)?.map_or(0, balance) - amount;
        if left < 0 {
            return Err(Abort::because(format!("account {from} has no {amount}")));
        }
        let there = txn.get(table, &to)?.map_or(0, balance) + amount;
        txn.put(table, &from, &left.to_le_bytes())?;
        txn.put(table, &to, &there.to_le_bytes())?;
        Ok(Vec::new())
    });
    procedures.add("open", move |txn: &mut Txn<'_>, params: &[u8]| {
        let row = number(params, 1).to_le_bytes();
        txn.insert(table(params), &Key::int(number(params, 0)), &row)?;
        Ok(Vec::new())
    });
    procedures
}

/// The configuration of all processes.
pub(crate) struct Plan {
    names: Vec<&'static str>,
    sites: Vec<Vec<SiteId>>,
    /// The address at which each listens, and the one that others dial.
    pub(crate) listen: Vec<SocketAddr>,
    pub(crate) dial: Vec<SocketAddr>,
    folder: Option<PathBuf>,
    pub(crate) cluster: u64,
    pub(crate) queue_bytes: usize,
    pub(crate) outage_wait: Duration,
    pub(crate) failover_after: Option<Duration>,
    pub(crate) silence: Duration,
    /// The certificates of each process.
    pub(crate) tls: Vec<Option<NodeTls>>,
}

impl Plan {
    /// Processes a, b, … with these sites; the first has the router.
    pub(crate) fn new(sites: &[&[u16]], folder: Option<&Path>) -> Plan {
        // Free ports, chosen beforehand, because a restarted process needs the same one.
        let free = |_: &&[u16]| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            listener.local_addr().expect("it has an address")
        };
        let listen: Vec<SocketAddr> = sites.iter().map(free).collect();
        Plan {
            names: ["a", "b", "c"][..sites.len()].to_vec(),
            sites: sites.iter().map(|of| of.iter().map(|site| SiteId(*site)).collect()).collect(),
            dial: listen.clone(),
            listen,
            folder: folder.map(Path::to_owned),
            cluster: 0x1234,
            queue_bytes: 64 << 20,
            outage_wait: Duration::from_secs(60),
            failover_after: None,
            silence: Duration::from_secs(3),
            tls: sites.iter().map(|_| None).collect(),
        }
    }

    pub(crate) fn net(&self, at: usize, cluster: Option<u64>) -> Arc<Net> {
        let member = |at: usize| Member {
            name: self.names[at].to_owned(),
            address: self.dial[at].to_string(),
            sites: self.sites[at].iter().copied().collect::<BTreeSet<SiteId>>(),
            zone: None,
        };
        let role = if at == 0 { Role::Router } else { Role::Node };
        let options = isomer_net::Options {
            members: (0..self.names.len()).filter(|other| *other != at).map(member).collect(),
            cluster,
            outage_wait: self.outage_wait,
            failover_after: self.failover_after,
            queue_bytes: self.queue_bytes,
            silence: self.silence,
            tls: self.tls[at].clone(),
            ..isomer_net::Options::new(self.names[at], role, &self.sites[at])
        };
        let run = RUN.fetch_add(1, Ordering::SeqCst);
        Net::start(self.bind(at), run, options).expect("its members fit together")
    }

    /// Binds the port of a former process, which may be about to free it.
    fn bind(&self, at: usize) -> TcpListener {
        let mut listener = None;
        until("its port is free", || {
            listener = TcpListener::bind(self.listen[at]).ok();
            listener.is_some()
        });
        listener.expect("it is bound")
    }

    fn options(&self, at: usize, net: &Arc<Net>) -> Options {
        let options = match &self.folder {
            Some(folder) => Options::in_folder(folder.join(self.names[at]), 0),
            None => Options::in_memory(0),
        };
        options.procedures(procedures()).elsewhere(net.clone())
    }

    /// A process's own view of the cluster.
    pub(crate) fn status(&self, at: usize) -> Result<Status, String> {
        let (name, address) = (self.names[at], self.listen[at].to_string());
        ask_status(name, &address, self.tls[at].as_ref(), Duration::from_secs(60))
    }

    /// Starts a node.
    pub(crate) fn node(&self, at: usize) -> (Node, Arc<Net>) {
        let net = self.net(at, Some(self.cluster));
        let node = Node::open(self.options(at, &net).sites(&self.sites[at]));
        (node.expect("its sites can be opened"), net)
    }

    /// Starts the process with the router.
    pub(crate) fn router(&self) -> (Arc<Gateway>, Arc<Net>) {
        let net = self.net(0, Some(self.cluster));
        let all = self.sites.concat();
        let options = self.options(0, &net).sites(&all).strategy(TwoPhase);
        let database = Database::open(options).expect("all sites can be asked");
        (Gateway::new(database), net)
    }
}

/// Ten accounts at each of four sites.
pub(crate) fn accounts(gateway: &Gateway) -> TableId {
    let columns =
        vec![Column::new("id", ColumnType::Int64), Column::new("balance", ColumnType::Int64)];
    let schema = Schema::new("accounts", columns, &["id"]).expect("the columns fit together");
    let start = |site: u16| match site {
        1 => Key::min(),
        _ => Key::int(i64::from(site - 1) * 10),
    };
    let placement: Vec<_> = (1..=4).map(|site| (start(site), SiteId(site))).collect();
    let db = gateway.database();
    // The conductor has just begun: the first connections to it are made anew.
    let mut made = None;
    until("all sites take the table", || {
        made = db.create_table(schema.clone(), &placement).ok();
        made.is_some()
    });
    let table = made.expect("it was waited for");
    let mut session = db.session();
    for id in 0..ACCOUNTS {
        let footprint = Footprint::new().write(table, Key::int(id));
        db.call(&mut session, &footprint, "open", &params(table, &[id, START]))
            .expect("a new account");
    }
    table
}

pub(crate) fn transfer(
    db: &Database,
    session: &mut Session,
    table: TableId,
    [from, to, amount]: [i64; 3],
) -> Result<(), Error> {
    let footprint = Footprint::new().write(table, Key::int(from)).write(table, Key::int(to));
    db.call(session, &footprint, "transfer", &params(table, &[from, to, amount])).map(drop)
}

/// All accounts, as one statement sees them.
pub(crate) fn total(gateway: &Arc<Gateway>, table: TableId) -> Result<(i64, i64), OpenError> {
    let mut txn = gateway.begin(Isolation::ReadCommitted, Arc::new(CancelToken::default()));
    let (mut rows, mut sum) = (0, 0);
    txn.next_statement();
    txn.scan(table, &KeyRange::all(), Direction::Forward, |_, row| {
        rows += 1;
        sum += balance(row);
        ControlFlow::Continue(())
    })?;
    Ok((rows, sum))
}

/// Sets a balance in an open transaction.
pub(crate) fn set(
    gateway: &Arc<Gateway>,
    table: TableId,
    id: i64,
    to: i64,
) -> Result<(), OpenError> {
    let mut txn = gateway.begin(Isolation::ReadCommitted, Arc::new(CancelToken::default()));
    let key = Key::int(id);
    txn.next_statement();
    txn.lock(table, &key, LockMode::Exclusive, true)?;
    txn.look_again();
    let locked = txn.get_locked(table, &key, |_| {})?;
    txn.put(table, key, locked.base, Some(to.to_le_bytes().to_vec()))?;
    txn.commit().map(drop)
}

pub(crate) fn get(gateway: &Arc<Gateway>, table: TableId, id: i64) -> Result<i64, OpenError> {
    let mut txn = gateway.begin(Isolation::ReadCommitted, Arc::new(CancelToken::default()));
    let mut found = None;
    txn.next_statement();
    txn.get(table, &Key::int(id), |row| found = Some(balance(row)))?;
    Ok(found.expect("the account is there"))
}

/// Waits for a condition that other threads bring about.
#[track_caller]
#[allow(clippy::disallowed_methods, reason = "the limit ends a test that has failed already")]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "{what}: not within {LIMIT:?}");
        thread::park_timeout(Duration::from_millis(2));
    }
}
