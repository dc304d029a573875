//! TPC-C, reduced to its partitioning column (Clay, sections 8.2 and 8.3): one key per table and
//! warehouse, hot warehouses, remote order lines and payments.

use super::{GenerateError, Random, Touch, Workload, sized};
use crate::problem::{PlacementRules, Rule, Site};
use crate::recording::RecordedKey;
use rand::RngExt;

const CUSTOMER: u8 = 0;
const DISTRICT: u8 = 1;
const HISTORY: u8 = 2;
const NEW_ORDER: u8 = 3;
const ORDER_LINE: u8 = 4;
const ORDERS: u8 = 5;
const STOCK: u8 = 6;
const WAREHOUSE: u8 = 7;
/// The warehouses that get four fifths of the transactions.
const HOT: [u64; 3] = [1, 37, 71];

/// The warehouse of a remote access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Remote {
    /// Any other warehouse: TPC-C.
    Any,
    /// Always the partner, 1 with 2, 3 with 4, …: TPC-C/S.
    Partner,
}

/// The generator.
#[derive(Clone, Debug)]
pub struct Tpcc {
    warehouses: u64,
    remote: Remote,
}

impl Tpcc {
    /// A generator with `warehouses` warehouses (100 in the paper).
    pub fn new(warehouses: u64, remote: Remote) -> Result<Tpcc, GenerateError> {
        sized("warehouses", warehouses, 1_000_000, "at most a million")?;
        Ok(Tpcc { warehouses, remote })
    }

    /// The paper's unlucky placement: warehouses 1 to 4 and the hot ones on the first site, the
    /// others in order over the rest.
    pub fn placement(&self, sites: usize) -> PlacementRules {
        let others = (5..=self.warehouses).filter(|warehouse| !HOT.contains(warehouse));
        let others: Vec<u64> = others.collect();
        let rest = sites.saturating_sub(1).max(1);
        let mut rules = Vec::new();
        for warehouse in 1..=self.warehouses {
            let site = match others.binary_search(&warehouse) {
                Ok(at) if sites > 1 => 1 + at * rest / others.len(),
                _ => 0,
            };
            let from = RecordedKey::Int(warehouse as i64);
            rules.push(Rule { table: "*".to_owned(), from, site: site as Site });
        }
        rules.dedup_by(|next, kept| next.site == kept.site);
        PlacementRules(rules)
    }

    fn home(&self, random: &mut Random) -> u64 {
        if random.random_bool(0.8) {
            return (HOT[random.random_range(0..HOT.len())] - 1) % self.warehouses + 1;
        }
        random.random_range(1..=self.warehouses)
    }

    fn other(&self, home: u64, random: &mut Random) -> u64 {
        match self.remote {
            _ if self.warehouses == 1 => home,
            Remote::Any => {
                (home + random.random_range(1..self.warehouses) - 1) % self.warehouses + 1
            }
            Remote::Partner if home.is_multiple_of(2) => home - 1,
            Remote::Partner if home == self.warehouses => 1,
            Remote::Partner => home + 1,
        }
    }

    fn new_order(&self, home: u64, random: &mut Random, touches: &mut Vec<Touch>) {
        touches.extend([read(WAREHOUSE, home), write(DISTRICT, home), read(CUSTOMER, home)]);
        touches.extend([write(ORDERS, home), write(NEW_ORDER, home)]);
        for _ in 0..random.random_range(5..=15) {
            let remote = random.random_bool(0.01);
            let supply = if remote { self.other(home, random) } else { home };
            touches.extend([write(STOCK, supply), write(ORDER_LINE, home)]);
        }
    }

    fn payment(&self, home: u64, random: &mut Random, touches: &mut Vec<Touch>) {
        let remote = random.random_bool(0.15);
        let customer = if remote { self.other(home, random) } else { home };
        touches.extend([write(WAREHOUSE, home), write(DISTRICT, home)]);
        touches.extend([write(CUSTOMER, customer), write(HISTORY, home)]);
    }
}

fn read(table: u8, key: u64) -> Touch {
    Touch { table, key: key as i64, write: false }
}

fn write(table: u8, key: u64) -> Touch {
    Touch { write: true, ..read(table, key) }
}

impl Workload for Tpcc {
    fn tables(&self) -> &'static [&'static str] {
        &[
            "customer",
            "district",
            "history",
            "new_order",
            "order_line",
            "orders",
            "stock",
            "warehouse",
        ]
    }

    fn transaction(&mut self, _at_us: i64, random: &mut Random, touches: &mut Vec<Touch>) {
        let home = self.home(random);
        match random.random_range(0..100) {
            0..45 => self.new_order(home, random, touches),
            45..88 => self.payment(home, random, touches),
            88..92 => {
                let tables = [CUSTOMER, ORDERS, ORDER_LINE];
                touches.extend(tables.map(|table| read(table, home)));
            }
            92..96 => {
                let tables = [NEW_ORDER, ORDERS, ORDER_LINE, CUSTOMER];
                touches.extend(tables.map(|table| write(table, home)));
            }
            _ => touches.extend([DISTRICT, ORDER_LINE, STOCK].map(|table| read(table, home))),
        }
    }
}
