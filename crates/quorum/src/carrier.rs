//! The group as the carrier of a database's logs.

use crate::client::Client;
use crate::group::Outcome;
use crate::quorum::Quorum;
use crate::requests::{NoOutcome, Pending};
use crate::way::Way;
use isomer_owned::owned::Sent;
use isomer_owned::record::Offset;
use isomer_owned::{CarriedLogs, Carrier, Newest, Partition, PartitionLog, Refused, Timeouts};
use isomer_owned::{VisitWritten, Written};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// The logs of a database at the nodes of its cluster.
pub type NodeLogs = CarriedLogs<Nodes>;
/// A log at the nodes.
pub type NodeLog = PartitionLog<NodePartition>;

/// The maximal length of a record.
const RECORD_BYTES_MAX: usize = 1_000_000;
/// Bytes that are read at once.
const READ_BYTES: u64 = 4 << 20;
/// How long a request for the end of a partition may wait, if no answer is no failure.
const LOOK: Duration = Duration::from_millis(200);
/// How long the removal of old records waits for a majority. Later ones include it.
const REMOVES: Duration = Duration::from_secs(1);

/// The nodes of a cluster as a carrier.
pub struct Nodes {
    way: Way,
    timeouts: Timeouts,
}

impl Nodes {
    /// The nodes, by the member of this process.
    pub fn new(quorum: Arc<Quorum>) -> Nodes {
        Nodes::by(Way::Member(quorum))
    }

    /// The nodes, for a process that keeps no copies itself.
    pub fn for_client(client: Arc<Client>) -> Nodes {
        Nodes::by(Way::Client(client))
    }

    fn by(way: Way) -> Nodes {
        // Without a majority commits wait, and never fail.
        let timeouts = Timeouts { write: Duration::MAX, ..Timeouts::default() };
        Nodes { way, timeouts }
    }

    /// Waits until a majority answers, and this process takes part if it is a member. False if that
    /// takes longer than `longest`.
    ///
    /// # Errors
    /// Why this process may not take part.
    pub fn is_ready(&self, longest: Duration) -> Result<bool, String> {
        self.way.is_ready(longest)
    }
}

impl Carrier for Nodes {
    type Partition = NodePartition;

    fn place(&self) -> String {
        "nodes".to_owned()
    }

    fn prepare(&self) -> Result<(), Refused> {
        match self.way.is_ready(self.timeouts.ask) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Refused(self.way.why_late())),
            Err(why) => Err(Refused(why)),
        }
    }

    fn partitions(&self) -> Result<u32, Refused> {
        self.way.partitions(self.timeouts.ask).map_err(Refused)
    }

    fn exists(&self, number: u32) -> Result<bool, Refused> {
        self.way.has(number, self.timeouts.ask).map_err(Refused)
    }

    fn grow_to(&self, _: u32) -> Result<usize, Refused> {
        // A group begins to exist when a member is asked for it, or has a message of it.
        Ok(RECORD_BYTES_MAX)
    }

    fn partition(&self, number: u32, _: usize, _: &str) -> Result<NodePartition, Refused> {
        let (way, timeouts) = (self.way.clone(), self.timeouts);
        Ok(NodePartition { way, number, timeouts, sent: Mutex::new(None) })
    }
}

/// A partition at the nodes.
pub struct NodePartition {
    way: Way,
    number: u32,
    timeouts: Timeouts,
    /// The append without an outcome.
    sent: Mutex<Option<Pending>>,
}

impl Partition for NodePartition {
    fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    fn start(&self, record: &[u8]) {
        *self.sent.lock() = Some(self.way.append(self.number, record));
    }

    fn wait(&self, longest: Duration) -> Option<Sent> {
        let mut sent = self.sent.lock();
        let outcome = sent.as_ref()?.wait(longest);
        let outcome = match outcome {
            Err(NoOutcome::Late) => return None,
            Ok(Outcome::Written(offset)) => Sent::Written(Some(offset)),
            Ok(Outcome::Removed | Outcome::UpToDate) => Sent::Written(None),
            Err(NoOutcome::Ended(why)) => Sent::Doubtful(why),
        };
        *sent = None;
        Some(outcome)
    }

    fn why(&self) -> String {
        format!(" ({})", self.way.why_late())
    }

    fn bounds(&self) -> Result<(Offset, Offset), Refused> {
        let ask = self.timeouts.ask;
        let caught_up = self.way.catch_up(self.number, ask);
        caught_up.and_then(|()| self.way.bounds(self.number, ask)).map_err(Refused)
    }

    fn end(&self) -> Option<Offset> {
        self.way.bounds(self.number, LOOK).ok().map(|(_, end)| end)
    }

    fn newest(&self) -> Option<Newest> {
        self.way.newest(self.number, self.timeouts.ask)
    }

    fn read(&self, from: Offset, visit: &mut VisitWritten<'_>) -> Result<(), Refused> {
        let ask = self.timeouts.ask;
        let (first, end) = self.bounds()?;
        let mut next = from;
        if from < first && from < end {
            return Err(Refused(format!("the records before offset {first} were removed")));
        }
        while next < end {
            let (records, after) =
                self.way.read(self.number, next, READ_BYTES, ask).map_err(Refused)?;
            for (offset, writer, record) in &records {
                let writer = self.way.names().get(*writer).map(String::as_bytes);
                if *offset < end && visit(Written { offset: *offset, writer, record }).is_break() {
                    return Ok(());
                }
            }
            if after == next {
                return Ok(());
            }
            next = after;
        }
        Ok(())
    }

    fn remove_before(&self, offset: Offset) -> Result<(), Refused> {
        self.way.remove_before(self.number, offset, REMOVES).map_err(Refused)
    }
}
