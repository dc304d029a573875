//! The cost of each step of the real code in core time.
//!
//! The table is in nanoseconds of one core. `isomer-lab calibrate` measures it from the code itself
//! on the machine at hand; the table in this crate is an estimate. Each experiment sets the factor
//! by which its virtual cores are slower.
//!
//! ```text
//!   a read-modify-write of 3 rows in 2 partitions, at one site
//!
//!   receive │ begin + 2·partition + 3·(read + write) + commit │ (log) │ resume + send
//!           └──────────── with its locks held ────────────────┘
//! ```

use isomer_cluster::Txn;
use isomer_site::{Event, FeedItem, Message, Part, Step, read_frame};
use serde::{Deserialize, Serialize};

/// Core times in nanoseconds. See the [module documentation](self).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// Finding a route, and the decision of the strategy.
    pub route: f64,
    /// The router's work for each key or range of a footprint.
    pub route_item: f64,
    /// Receiving a message, by any process: the part of the operating system.
    pub receive: f64,
    /// Sending a message.
    pub send: f64,
    /// Beginning and ending a transaction at a site.
    pub begin: f64,
    /// Waking up a waiting transaction.
    pub resume: f64,
    /// A partition of a footprint: finding it, locking it if it is written, and reading its time.
    pub partition: f64,
    /// Reading a row by key.
    pub read: f64,
    /// Writing a row by key, and installing it.
    pub write: f64,
    /// A row visited by a scan.
    pub scan: f64,
    /// Committing a transaction with writes.
    pub commit: f64,
    /// Applying an event of a partition at a replica.
    pub refresh: f64,
    /// A row of such an event.
    pub refresh_row: f64,
    /// A step of a design change without its rows: a split, merge, release, acquire or follow.
    pub step: f64,
    /// Reading a row for a new replica.
    pub snapshot_row: f64,
    /// Installing a row of a new replica.
    pub install_row: f64,
    /// Adding a request to a batch of the total order.
    pub order: f64,
    /// Planning a transaction of a batch, without its records and sites.
    pub plan: f64,
    /// Planning a record of a transaction.
    pub plan_item: f64,
    /// Considering a site for a transaction.
    pub plan_cell: f64,
    /// Requesting and releasing a lock of the total order.
    pub lock: f64,
}

/// The work of a transaction, for which time is charged.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Work {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) scanned: u64,
}

impl Costs {
    /// The table in this crate: estimates, for experiments that report only ratios.
    pub fn standard() -> Costs {
        Costs::read(include_str!("../costs.toml")).expect("the table of the crate is valid")
    }

    /// Parses a table.
    ///
    /// # Errors
    /// The syntax error in words.
    pub fn read(text: &str) -> Result<Costs, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// The median of several tables, cost by cost.
    ///
    /// # Panics
    /// If `tables` is empty.
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

    /// The table as TOML text.
    pub fn to_text(&self) -> String {
        let rows = serde_json::to_value(self).expect("numbers are values");
        let rows = rows.as_object().into_iter().flatten();
        let rows = rows.map(|(name, ns)| format!("{name} = {:.1}\n", ns.as_f64().unwrap_or(0.0)));
        format!(
            "# Nanoseconds of one core, written by `isomer-lab calibrate`.\n{}",
            rows.collect::<String>()
        )
    }

    /// The table of cores that are slower by `factor`. The cost of planning by the autopilot stays.
    #[must_use]
    pub fn slowed(&self, factor: f64) -> Costs {
        let Costs { route, route_item, receive, send, begin, resume, partition, read, .. } = self;
        let Costs { write, scan, commit, refresh, refresh_row, step, .. } = self;
        Costs {
            route: route * factor,
            route_item: route_item * factor,
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

    /// The part of a transaction during which it holds its locks.
    pub(crate) fn of_work(&self, txn: &Txn<'_>, work: Work) -> u64 {
        let Work { reads, writes, scanned } = work;
        let rows = reads as f64 * self.read + writes as f64 * self.write;
        let commit = if writes > 0 { self.commit } else { 0.0 };
        let partitions = txn.partitions() as f64 * self.partition;
        (self.begin + partitions + rows + scanned as f64 * self.scan + commit) as u64
    }

    /// The receiver's cost of a message between sites, and the size of the message in bytes.
    pub(crate) fn of_message(&self, message: &Message) -> (u64, u64) {
        if let Message::Outcome { at: Some(_), .. } = message {
            // A participant installs its prepared writes.
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

    /// A participant's part of a distributed transaction, without the rows that it reads.
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

    /// The cost of a step of a change, charged before the step.
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

/// The number of rows that an event of a frame writes.
fn rows_of(frame: &[u8], at: usize) -> usize {
    let (_, records) = read_frame(frame).expect("the sender wrote a frame");
    match &records[at].event {
        Event::Write(rows) => rows.len(),
        _ => 0,
    }
}

/// The size of a request, an answer or a message without rows, in bytes.
pub(crate) const MESSAGE_BYTES: u64 = 200;
