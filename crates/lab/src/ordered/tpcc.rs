//! TPC-C's New-Order and Payment by the records they touch (Hermes, section 5.3.1).
//!
//! ```text
//!   warehouse w      keys w·SPAN ··· (w+1)·SPAN − 1 in every table
//!   new order        read warehouse, customer; write district, 5 to 15 stocks; insert order, new order, lines
//!   payment          write warehouse, district, customer; insert history
//! ```
//!
//! Half of the transactions are of each kind. An order line's item is of another warehouse with one percent, a
//! payment's customer with 15, as the standard has it; items, which all sites have, are left out, and so are
//! aborts and the reading of what was inserted. The lines of an order are one record. Order numbers are drawn, so that
//! the footprint is known; their records are written once, and nobody else asks for them.

use isomer_plan::generate::{Random, Touch, Workload};
use rand::RngExt;

/// Keys of a warehouse in each table.
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
    /// The share that goes to the first site's warehouses.
    hot: Option<f64>,
    /// How many orders and payments there were.
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

    /// Another warehouse with some probability.
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
