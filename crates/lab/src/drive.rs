//! Workloads as the laboratory runs them: in virtual time, and with numbered clients.

use isomer_design::TableId;
use isomer_workload::{SmallBank, Tpcc, Twitter, Workload, Ycsb, YcsbOptions};

/// A workload that clients run in virtual time.
pub(crate) trait Drive: Workload + Clone + 'static {
    /// Makes this clone the one of client `number` of `count`.
    fn become_client(&mut self, _number: u64, _count: u64) {}

    /// Read-only tables. A placement made with knowledge of the workload replicates them
    /// everywhere.
    fn constant_tables(&self) -> Vec<TableId> {
        Vec::new()
    }

    /// Called before each transaction with the seconds since the clients began.
    fn time_passes(&mut self, _seconds: f64) {}
}

impl Drive for SmallBank {}

impl Drive for Twitter {}

impl Drive for Tpcc {
    /// Spreads the clients over the warehouses.
    fn become_client(&mut self, number: u64, _count: u64) {
        self.live_at(number as u32);
    }

    fn constant_tables(&self) -> Vec<TableId> {
        Tpcc::constant_tables(self)
    }
}

/// YCSB with a moving hot spot.
#[derive(Clone)]
pub(crate) struct Shifting {
    pub(crate) ycsb: Ycsb,
    pub(crate) keys: u64,
    /// Seconds between moves; `None` if the hot spot stays.
    pub(crate) every_s: Option<f64>,
}

impl Shifting {
    pub(crate) fn new(ycsb: Ycsb, options: &YcsbOptions, every_s: Option<f64>) -> Shifting {
        Shifting { ycsb, keys: options.keys, every_s }
    }
}

impl Workload for Shifting {
    type Transaction = isomer_workload::YcsbTransaction;

    fn name(&self) -> &'static str {
        self.ycsb.name()
    }

    fn tables(&self) -> Vec<(TableId, isomer_design::Schema)> {
        self.ycsb.tables()
    }

    fn load(&self) -> impl Iterator<Item = isomer_workload::LoadRow> {
        self.ycsb.load()
    }

    fn next(&mut self, rng: &mut isomer_workload::Random) -> Self::Transaction {
        self.ycsb.next(rng)
    }

    fn loaded(&self) -> isomer_workload::Totals {
        self.ycsb.loaded()
    }

    fn audits(&self, rows: u64) -> Vec<isomer_workload::Audit> {
        self.ycsb.audits(rows)
    }
}

impl Drive for Shifting {
    fn time_passes(&mut self, seconds: f64) {
        if let Some(every_s) = self.every_s {
            let moves = (seconds / every_s) as u64;
            // The step is no simple fraction of the table, so no place is hot again soon.
            self.ycsb.move_hot_spot(moves.wrapping_mul(self.keys * 3 / 8 + 1));
        }
    }
}
