//! Redo logs that the processes of a cluster keep for each other: `log = "nodes"`.
//!
//! ```text
//!   Net ── envelopes ──▶ Quorum ─▶ journal in the folder        starts first: the logs say which
//!       ◀─ envelopes ───┘    └──▶ NodeLogs ─▶ the database      database, and so which cluster, it is
//! ```

use super::file::ClusterFile;
use crate::clock;
use crate::failure::Failure;
use crate::stop::Stop;
use isomer_cluster::{Logs, quorum_folder};
use isomer_net::{LogStatus, LogsStatus, Net, NodeTls, Service, ask_logs};
use isomer_quorum::ORDER;
use isomer_quorum::roster::Standing;
use isomer_quorum::{
    Client, GroupState, Inlet, Mailbox, MemberOptions, NodeLogs, Nodes, Quorum, QuorumOptions,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The place of such logs, in the file and on the command line.
pub(crate) const NODES: &str = "nodes";
/// The fewest processes that survive the loss of one.
pub(crate) const PROCESSES_MIN: usize = 3;
/// The longest wait for an answer of the thread that keeps the logs.
const ANSWERS: Duration = Duration::from_secs(1);
/// The interval at which a start looks whether a stop was requested.
const LOOK: Duration = Duration::from_millis(250);
/// The interval of messages about awaited processes.
const TOLD_US: i64 = 2_000_000;

/// Envelopes between the processes.
struct Envelopes(Arc<Net>);

impl Mailbox for Envelopes {
    fn send(&self, to: &str, envelope: Vec<u8>) {
        self.0.send_envelope(to, &envelope);
    }

    fn trouble(&self, name: &str) -> Option<String> {
        self.0.envelope_trouble(name)
    }
}

/// The receiver of envelopes. The connections do not keep the logs open.
enum Receives {
    Member(Inlet),
    Client(Weak<Client>),
}

impl Service for Receives {
    fn receive(&self, from: &str, envelope: Vec<u8>) {
        match self {
            Receives::Member(inlet) => inlet.receive(from, envelope),
            Receives::Client(client) => {
                client.upgrade().iter().for_each(|client| client.receive(from, &envelope));
            }
        }
    }

    fn status(&self) -> LogsStatus {
        let Receives::Member(inlet) = self else {
            // Members answer what is asked of it.
            return LogsStatus { trouble: None, logs: Vec::new() };
        };
        let name = |at: usize| inlet.names()[at].clone();
        let log = |state: GroupState| LogStatus {
            number: state.group,
            term: state.term,
            leader: state.leader.map(name),
            offsets: state.offsets,
            lags: state
                .lags
                .iter()
                .enumerate()
                .map(|(at, (entries, answers))| (name(at), *entries, *answers))
                .collect(),
        };
        match inlet.states(ANSWERS) {
            Err(why) => LogsStatus { trouble: Some(why), logs: Vec::new() },
            Ok((standing, states)) => LogsStatus {
                trouble: match standing {
                    Standing::Member => None,
                    Standing::Refused(why) => Some(why),
                    Standing::Waits(others) => Some(format!("it waits for {}", others.join(", "))),
                },
                logs: states.into_iter().map(log).collect(),
            },
        }
    }
}

/// The logs that the processes keep: this one as well, or only others.
pub struct Kept {
    by: By,
    name: String,
}

enum By {
    Member(Arc<Quorum>),
    /// This process has joined later, and asks the others.
    Client(Arc<Client>),
}

impl Kept {
    /// Starts to keep the logs in a folder, with the processes of these names. A process that is
    /// not among them asks them.
    ///
    /// # Errors
    /// If there are too few processes, or the folder cannot be used.
    pub fn start(
        net: &Arc<Net>,
        folder: &Path,
        own: &str,
        names: Vec<String>,
    ) -> Result<Kept, Failure> {
        if names.len() < PROCESSES_MIN {
            return Err(Failure::usage(format!(
                "redo logs at the nodes need {PROCESSES_MIN} processes at least, so that one may be lost, and the list \
                 has {}",
                names.len()
            )));
        }
        let (name, run) = (own.to_owned(), clock::now_us() as u64);
        let mailbox = Arc::new(Envelopes(net.clone()));
        if names.iter().all(|name| name != own) {
            let client = Client::start(names, run, mailbox).map_err(Failure::failed)?;
            net.exchange_envelopes(Arc::new(Receives::Client(Arc::downgrade(&client))));
            return Ok(Kept { by: By::Client(client), name });
        }
        let mut drawn = [0; 16];
        clock::random(&mut drawn);
        let options = QuorumOptions {
            names,
            own: own.to_owned(),
            run,
            drawn: u128::from_le_bytes(drawn),
            member: MemberOptions::default(),
            say: Box::new(|text| tracing::info!("{text}")),
        };
        let quorum = Quorum::start(&quorum_folder(folder), options, mailbox);
        let quorum = quorum.map_err(Failure::failed)?;
        net.exchange_envelopes(Arc::new(Receives::Member(quorum.inlet())));
        Ok(Kept { by: By::Member(quorum), name })
    }

    fn nodes(&self) -> Nodes {
        match &self.by {
            By::Member(quorum) => Nodes::new(quorum.clone()),
            By::Client(client) => Nodes::for_client(client.clone()),
        }
    }

    /// The logs, for the database, with the lease of their owners.
    pub fn logs(&self, lease: Duration) -> Arc<dyn Logs> {
        Arc::new(NodeLogs::new(self.nodes()).named(&self.name).with_lease(lease))
    }

    /// Waits until a majority keeps the logs, and reports missing processes periodically; `false`
    /// if a stop was requested.
    ///
    /// # Errors
    /// If this process may not take part.
    pub fn wait(&self, stop: &Stop) -> Result<bool, Failure> {
        let (nodes, begun, mut told) = (self.nodes(), clock::now_us(), 0);
        while !nodes.is_ready(LOOK).map_err(Failure::failed)? {
            if stop.is_asked() {
                return Ok(false);
            }
            if clock::now_us() - begun.max(told) >= TOLD_US {
                told = clock::now_us();
                tracing::info!("{}", self.lacking());
            }
        }
        Ok(true)
    }

    fn lacking(&self) -> String {
        let (missing, standing) = match &self.by {
            By::Member(quorum) => (quorum.missing(), quorum.states(ANSWERS).ok()),
            By::Client(client) => (client.missing(), None),
        };
        let missing = if missing.is_empty() { "all can be reached".to_owned() } else { missing };
        match standing {
            Some((Standing::Waits(others), _)) => format!(
                "waiting for {}: the first start needs all processes that keep the logs ({missing})",
                others.join(", ")
            ),
            _ => format!("waiting for a majority of the processes that keep the logs ({missing})"),
        }
    }
}

/// The table of the logs that the processes of a file keep for each other, and whether each process
/// takes part.
pub(crate) fn shown(
    file: &ClusterFile,
    tls: Option<&NodeTls>,
    limit: Duration,
) -> (Vec<Vec<String>>, Vec<String>) {
    let (mut logs, mut troubles) = (BTreeMap::<u32, LogStatus>::new(), Vec::new());
    for process in file.processes.iter().filter(|process| !process.joined) {
        let (name, address) = (&process.member.name, &process.member.address);
        match ask_logs(name, address, tls, limit) {
            Err(why) => troubles.push(format!("{name}: no answer: {why}")),
            Ok(LogsStatus { trouble, logs: found }) => {
                troubles.extend(trouble.map(|why| format!("{name}: {why}")));
                for log in found {
                    // The leader of the latest term knows the most.
                    let rank = |log: &LogStatus| (log.term, !log.lags.is_empty());
                    let known = logs.entry(log.number).or_insert_with(|| log.clone());
                    if rank(&log) > rank(known) {
                        *known = log;
                    }
                }
            }
        }
    }
    let header = ["log", "leader", "term", "offsets", "behind"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for log in logs.into_values() {
        let behind = log.lags.iter().filter(|(_, entries, answers)| *entries > 0 || !answers);
        let behind = behind.map(|(name, entries, answers)| match answers {
            true => format!("{name} by {entries}"),
            false => format!("{name} by {entries}, does not answer"),
        });
        let behind: Vec<String> = behind.collect();
        rows.push(vec![
            match log.number {
                0 => "catalog".to_owned(),
                ORDER => "order".to_owned(),
                site => format!("s{site}"),
            },
            log.leader.unwrap_or_else(|| "none".to_owned()),
            log.term.to_string(),
            format!("{} to {}", log.offsets.0, log.offsets.1),
            if behind.is_empty() { "none".to_owned() } else { behind.join("; ") },
        ]);
    }
    (rows, troubles)
}
