//! What each step of the real code costs a core.
//!
//! The table is in nanoseconds of one core. `isomer lab calibrate` measures it on the machine at hand from
//! the code itself; the one that comes with the crate is an estimate. An experiment then says by how much its virtual cores are slower.
//!
//! ```text
//!   a read-modify-write of 3 rows in 2 partitions, at one site
//!
//!   receive │ begin + 2·partition + 3·(read + write) + commit + 3·log_row │ (log) │ resume + reply
//!           └──────────── with its locks held ────────────────────────────┘
//! ```

use isomer_cluster::Txn;
use isomer_site::{Event, FeedItem, Message, Part, Step, read_frame};
use serde::{Deserialize, Serialize};

/// Nanoseconds of one core. See the [module documentation](self).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// The router finds a route and its strategy decides.
    pub route: f64,
    /// The router, for each key or range of a footprint.
    pub route_item: f64,
    /// The autopilot thinks about changes for one transaction. How often is a matter of time, not of
    /// transactions; so this is not slowed down with the cores ([`Costs::slowed`]).
    pub think: f64,
    /// A message is received, by whomever: the system's part of it.
    pub receive: f64,
    /// A message is sent.
    pub send: f64,
    /// A site begins a transaction, and ends it.
    pub begin: f64,
    /// A waiting transaction is woken.
    pub resume: f64,
    /// A partition of the footprint is found, locked if it is written, and asked for its time.
    pub partition: f64,
    /// A row is read by its key.
    pub read: f64,
    /// A row is written by its key, and installed.
    pub write: f64,
    /// A row is met by a scan.
    pub scan: f64,
    /// A transaction that wrote commits.
    pub commit: f64,
    /// An event of a partition is applied at a replica.
    pub refresh: f64,
    /// A row of such an event.
    pub refresh_row: f64,
    /// A step of a design change, apart from its rows: a split, merge, release, acquire or follow.
    pub step: f64,
    /// A row is read for a new replica.
    pub snapshot_row: f64,
    /// A row of a new replica is installed.
    pub install_row: f64,
    /// A request is put into a batch of the total order.
    pub order: f64,
    /// A transaction of a batch is planned, apart from its records and the sites there are.
    pub plan: f64,
    /// A record of a planned transaction.
    pub plan_item: f64,
    /// A site that a planned transaction may be routed to.
    pub plan_cell: f64,
    /// A lock of the total order is asked for and released.
    pub lock: f64,
}

/// What a transaction did, to be charged for.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Work {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) scanned: u64,
}

impl Costs {
    /// The table that comes with the crate: estimates, for experiments that ask for ratios only.
    pub fn standard() -> Costs {
        Costs::read(include_str!("../costs.toml")).expect("the table of the crate is valid")
    }

    /// Reads a table.
    ///
    /// # Errors
    /// In words: what cannot be read.
    pub fn read(text: &str) -> Result<Costs, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// The median of several tables, cost by cost.
    ///
    /// # Panics
    /// If there is none.
    pub fn median(tables: &[Costs]) -> Costs {
        let mut median = serde_json::to_value(&tables[0]).expect("numbers are values");
        let rows: Vec<_> =
            tables.iter().map(|costs| serde_json::to_value(costs).expect("as above")).collect();
        for (name, cost) in median.as_object_mut().into_iter().flatten() {
            let mut costs: Vec<f64> = rows.iter().filter_map(|row| row[name].as_f64()).collect();
            costs.sort_by(f64::total_cmp);
            *cost = costs[costs.len() / 2].into();
        }
        serde_json::from_value(median).expect("it is a table as before")
    }

    /// The table as text.
    pub fn to_text(&self) -> String {
        let rows = serde_json::to_value(self).expect("numbers are values");
        let rows = rows.as_object().into_iter().flatten();
        let rows = rows.map(|(name, ns)| format!("{name} = {:.1}\n", ns.as_f64().unwrap_or(0.0)));
        format!(
            "# Nanoseconds of one core, written by `isomer lab calibrate`.\n{}",
            rows.collect::<String>()
        )
    }

    /// The table of cores that take `factor` times as long; thoughts take what they take.
    #[must_use]
    pub fn slowed(&self, factor: f64) -> Costs {
        let Costs { route, route_item, receive, send, begin, resume, partition, read, .. } = self;
        let Costs { write, scan, commit, refresh, refresh_row, step, .. } = self;
        Costs {
            route: route * factor,
            route_item: route_item * factor,
            think: self.think,
            receive: receive * factor,
            send: send * factor,
            begin: begin * factor,
            resume: resume * factor,
            partition: partition * factor,
            read: read * factor,
            write: write * factor,
            scan: scan * factor,
            commit: commit * factor,
            refresh: refresh * factor,
            refresh_row: refresh_row * factor,
            step: step * factor,
            snapshot_row: self.snapshot_row * factor,
            install_row: self.install_row * factor,
            order: self.order * factor,
            plan: self.plan * factor,
            plan_item: self.plan_item * factor,
            plan_cell: self.plan_cell * factor,
            lock: self.lock * factor,
        }
    }

    /// The part of a transaction that runs with its locks held.
    pub(crate) fn of_work(&self, txn: &Txn<'_>, work: Work) -> u64 {
        let Work { reads, writes, scanned } = work;
        let rows = reads as f64 * self.read + writes as f64 * self.write;
        let commit = if writes > 0 { self.commit } else { 0.0 };
        let partitions = txn.partitions() as f64 * self.partition;
        (self.begin + partitions + rows + scanned as f64 * self.scan + commit) as u64
    }

    /// A message between sites, at its receiver; and how many bytes it has.
    pub(crate) fn of_message(&self, message: &Message) -> (u64, u64) {
        if let Message::Outcome { at: Some(_), .. } = message {
            // A participant installs what it has prepared.
            return ((self.receive + self.refresh + self.refresh_row) as u64, MESSAGE_BYTES);
        }
        let Message::Feed(feed) = message else { return (self.receive as u64, MESSAGE_BYTES) };
        let (mut ns, mut bytes) = (self.receive, MESSAGE_BYTES);
        for item in &feed.items {
            ns += self.refresh;
            if let FeedItem::Record { frame, at, .. } = item {
                bytes += frame.len() as u64;
                ns += rows_of(frame, *at) as f64 * self.refresh_row;
            }
        }
        (ns as u64, bytes)
    }

    /// A participant's part of a transaction over several sites, apart from the rows it reads.
    pub(crate) fn of_part(&self, part: &Part) -> u64 {
        let ns = match part {
            Part::Enter { footprint, .. } => {
                self.begin + footprint.items().len() as f64 * self.partition
            }
            Part::Prepare { writes, .. } if writes.is_empty() => 0.0,
            Part::Prepare { .. } | Part::PrepareAll { .. } => self.commit,
        };
        ns as u64
    }

    /// A step of a change, before it is taken.
    pub(crate) fn of_step(&self, step: &Step) -> u64 {
        match step {
            Step::Install(snapshot) => {
                (self.step + snapshot.rows() as f64 * self.install_row) as u64
            }
            Step::Describe | Step::Create(..) => 0,
            _ => self.step as u64,
        }
    }
}

/// How many rows an event of a frame writes.
fn rows_of(frame: &[u8], at: usize) -> usize {
    let (_, records) = read_frame(frame).expect("the sender wrote a frame");
    match &records[at].event {
        Event::Write(rows) => rows.len(),
        _ => 0,
    }
}

/// What a request, an answer or a message without rows takes on its way.
pub(crate) const MESSAGE_BYTES: u64 = 200;
