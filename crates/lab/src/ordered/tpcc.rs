//! New-Order and Payment of TPC-C, reduced to the records that they access (Hermes, section 5.3.1).
//!
//! ```text
//!   warehouse w      keys w·SPAN ··· (w+1)·SPAN − 1 in every table
//!   new order        read warehouse, customer; write district, 5 to 15 stocks;
//!                    insert order, new order, lines
//!   payment          write warehouse, district, customer; insert history
//! ```
//!
//! Each kind makes up half of the transactions. As in the standard, one percent of order lines have
//! an item of another warehouse, and 15 percent of payments a customer of another warehouse. Left
//! out are items, which every site would hold, aborts, and reads of inserted rows. The lines of an
//! order are one record. The generator numbers the orders, so that footprints are known. The
//! records of an order are written once and never accessed again.

use isomer_plan::generate::{Random, Touch, Workload};
use rand::RngExt;

/// The number of keys of a warehouse in each table.
const SPAN: u64 = 1 << 24;
const DISTRICTS: u64 = 10;
const CUSTOMERS: u64 = 3000;
const ITEMS: u64 = 100_000;

const WAREHOUSE: u8 = 0;
const DISTRICT: u8 = 1;
const CUSTOMER: u8 = 2;
const STOCK: u8 = 3;
const ORDERS: u8 = 4;
const NEW_ORDER: u8 = 5;
const ORDER_LINE: u8 = 6;
const HISTORY: u8 = 7;

/// The generator.
pub(super) struct TpccRows {
    warehouses_per_site: u64,
    sites: u64,
    /// The share of transactions at the first site's warehouses.
    hot: Option<f64>,
    /// The number of orders and payments so far.
    made: u64,
}

impl TpccRows {
    pub(super) fn new(warehouses_per_site: u64, sites: u64, hot: Option<f64>) -> TpccRows {
        TpccRows { warehouses_per_site, sites, hot, made: 0 }
    }

    pub(super) fn keys_per_site(&self) -> u64 {
        self.warehouses_per_site * SPAN
    }

    fn home(&self, random: &mut Random) -> u64 {
        let all = self.warehouses_per_site * self.sites;
        match self.hot {
            Some(share) if self.sites > 1 => match random.random_bool(share) {
                true => random.random_range(0..self.warehouses_per_site),
                false => random.random_range(self.warehouses_per_site..all),
            },
            _ => random.random_range(0..all),
        }
    }

    /// Draws another warehouse with the given probability, or returns `home`.
    fn other(&self, home: u64, probability: f64, random: &mut Random) -> u64 {
        let all = self.warehouses_per_site * self.sites;
        match all > 1 && random.random_bool(probability) {
            true => (home + random.random_range(1..all)) % all,
            false => home,
        }
    }
}

fn touch(table: u8, warehouse: u64, record: u64, write: bool) -> Touch {
    Touch { table, key: (warehouse * SPAN + record) as i64, write }
}

impl Workload for TpccRows {
    fn tables(&self) -> &'static [&'static str] {
        &[
            "warehouse",
            "district",
            "customer",
            "stock",
            "orders",
            "new_order",
            "order_line",
            "history",
        ]
    }

    fn transaction(&mut self, _: i64, random: &mut Random, touches: &mut Vec<Touch>) {
        let home = self.home(random);
        self.made += 1;
        let new = self.made % SPAN;
        let district = random.random_range(0..DISTRICTS);
        let customer = district * CUSTOMERS + random.random_range(0..CUSTOMERS);
        if random.random_bool(0.5) {
            let theirs = self.other(home, 0.15, random);
            touches.extend([
                touch(WAREHOUSE, home, 0, true),
                touch(DISTRICT, home, district, true),
                touch(CUSTOMER, theirs, customer, true),
                touch(HISTORY, home, new, true),
            ]);
            return;
        }
        touches.extend([
            touch(WAREHOUSE, home, 0, false),
            touch(DISTRICT, home, district, true),
            touch(CUSTOMER, home, customer, false),
            touch(ORDERS, home, new, true),
            touch(NEW_ORDER, home, new, true),
            touch(ORDER_LINE, home, new, true),
        ]);
        for _ in 0..random.random_range(5..=15) {
            let supplier = self.other(home, 0.01, random);
            touches.push(touch(STOCK, supplier, random.random_range(0..ITEMS), true));
        }
    }
}
