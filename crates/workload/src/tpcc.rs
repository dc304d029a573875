//! TPC-C: a wholesaler with warehouses, their districts, and the orders of the customers there.
//!
//! ```text
//!   warehouse ──10──▶ district ──▶ customer ──▶ history
//!       │                 └──────▶ orders ──▶ order_line       new_order: undelivered orders
//!       └──▶ stock ◀── item
//! ```
//!
//! | procedure | mix | full mix | reads | writes |
//! | --- | ---: | ---: | --- | --- |
//! | New-Order | 45 % | 45 % | warehouse, customer, items | district, stock, rows of the order |
//! | Payment | 45 % | 43 % | | warehouse, district, customer, history |
//! | Order-Status | | 4 % | customer, its last order and lines | |
//! | Delivery | | 4 % | | by district: oldest new order, its lines and customer |
//! | Stock-Level | 10 % | 4 % | district, lines of its last 20 orders, stock | |
//!
//! # Keys of rows that do not exist yet
//!
//! A footprint must be known before a transaction runs, but in TPC-C the number of the next order
//! is stored in the database. Therefore the generator assigns the numbers of each district, and
//! **an order is a function of its number**: its customer, its items and their suppliers are drawn
//! from a hash of the number ([`Order`]). The keys of an order are thus known without reading
//! anything, both to deliver it and to look at it. The procedure checks that the rows have the
//! expected values.
//!
//! New orders that the standard rolls back (1 %, because an item does not exist) take no number. An
//! order whose transaction failed leaves a gap, as a sequence does. A delivery that finds such a
//! gap skips it.
//!
//! # The checks
//!
//! Every row begins with a number: the sales of a warehouse, district or piece of stock, the
//! balance of a customer, an amount, or a number of lines. The sum over all rows must match what
//! the transactions report. In addition, the consistency conditions of the standard must hold while
//! no transactions run ([`checks`]).
//!
//! # What differs from the standard
//!
//! Customers are selected by number, never by last name, which needs a lookup before the footprint
//! is known. Rows have the columns that procedures and conditions use, and a filler for the others.
//! The numbers of customers and items are options. The driver of the clients decides think times.

mod checks;
mod order;
mod rows;
mod run;

use crate::chooser::{Chooser, Skew, draw};
use crate::error::{check_count, check_share};
use crate::workload::Examiner;
use crate::{Audit, LoadRow, OptionsError, Random, Totals, Workload};
use isomer_design::{Key, Schema, TableId};
use order::Numbers;
pub use order::Order;
use rand::RngExt;
use rows::Tables;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of districts of a warehouse.
const DISTRICTS: u32 = 10;
/// The number of recent orders that a Stock-Level reads.
const LAST_ORDERS: u32 = 20;
/// The percentage of new orders that roll back.
const ROLLED_BACK_PERCENT: u32 = 1;

/// Options of [`Tpcc`].
#[derive(Clone, PartialEq, Debug)]
pub struct TpccOptions {
    /// The number of warehouses.
    pub warehouses: u32,
    /// The number of customers of a district. Initially each has one order.
    pub customers: u32,
    /// The number of items, and of pieces of stock in each warehouse.
    pub items: u32,
    /// The weights of New-Order, Payment, Order-Status, Delivery, Stock-Level.
    pub mix: [u32; 5],
    /// The share of new orders with one item from another warehouse.
    pub remote_orders: f64,
    /// The share of payments by customers of another warehouse.
    pub remote_payments: f64,
    /// The distribution of warehouses; those with the smallest numbers are chosen more often.
    pub skew: Skew,
    /// If set, a share of all transactions goes to hot warehouses. The others are drawn by `skew`.
    pub hot: Option<HotWarehouses>,
}

/// Warehouses that get a large share of the transactions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HotWarehouses {
    /// The number of hot warehouses: those with the smallest numbers.
    pub count: u32,
    /// The share of transactions that they get, spread evenly over them.
    pub share: f64,
}

impl Default for TpccOptions {
    /// Eight warehouses of a tenth of the standard's size, the mix of the MorphoSys experiments,
    /// and the standard's shares of remote transactions.
    fn default() -> TpccOptions {
        TpccOptions {
            warehouses: 8,
            customers: 300,
            items: 10_000,
            mix: TpccOptions::SHORT_MIX,
            remote_orders: 0.1,
            remote_payments: 0.15,
            skew: Skew::Uniform,
            hot: None,
        }
    }
}

impl TpccOptions {
    /// New-Order, Payment and Stock-Level, as in the MorphoSys experiments.
    pub const SHORT_MIX: [u32; 5] = [45, 45, 0, 0, 10];
    /// The mix of the standard.
    pub const FULL_MIX: [u32; 5] = [45, 43, 4, 4, 4];
}

/// The benchmark; see the module documentation. Clones share the counters of orders.
#[derive(Clone, Debug)]
pub struct Tpcc {
    options: Arc<TpccOptions>,
    tables: Tables,
    numbers: Arc<Numbers>,
    /// The home warehouse of this client; `None` if it uses all warehouses.
    home: Option<u32>,
    chooser: Chooser,
}

/// A transaction of [`Tpcc`].
#[derive(Clone, Debug)]
pub struct TpccTransaction {
    options: Arc<TpccOptions>,
    tables: Tables,
    warehouse: u32,
    procedure: Procedure,
}

/// An order of a district.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    district: u32,
    order: u32,
}

#[derive(Clone, Debug)]
enum Procedure {
    NewOrder {
        order: Box<Order>,
        rolls_back: bool,
    },
    Payment {
        district: u32,
        customer: [u32; 3],
        history: u32,
        cents: i64,
    },
    /// `last` is the number of the customer's last order, if it has one.
    OrderStatus {
        district: u32,
        customer: u32,
        last: Option<u32>,
    },
    Delivery {
        orders: Vec<Place>,
        carrier: i64,
    },
    /// Reads the orders `first..next` of the district.
    StockLevel {
        district: u32,
        first: u32,
        next: u32,
        threshold: i64,
    },
}

impl Tpcc {
    /// Creates the benchmark in nine tables with consecutive ids from `first` on.
    ///
    /// # Errors
    /// If an option is invalid.
    pub fn new(options: TpccOptions, first: TableId) -> Result<Tpcc, OptionsError> {
        check_count("warehouses", u64::from(options.warehouses), 1..=100_000)?;
        check_count("customers of a district", u64::from(options.customers), 10..=3000)?;
        check_count("items", u64::from(options.items), 100..=100_000)?;
        let weights = options.mix.iter().map(|&weight| u64::from(weight)).sum();
        check_count("as the sum of the mix", weights, 1..=u64::from(u32::MAX))?;
        check_share("the share of remote orders", options.remote_orders)?;
        check_share("the share of remote payments", options.remote_payments)?;
        if let Some(hot) = options.hot {
            let warehouses = u64::from(options.warehouses);
            check_count("hot warehouses", u64::from(hot.count), 1..=warehouses)?;
            check_share("the share of the hot warehouses", hot.share)?;
        }
        let chooser = Chooser::new(u64::from(options.warehouses), options.skew)?;
        let numbers = Arc::new(Numbers::new(&options));
        let tables = Tables::from(first);
        Ok(Tpcc { options: Arc::new(options), tables, numbers, home: None, chooser })
    }

    /// Binds this client to a home warehouse, like a terminal of the standard.
    pub fn live_at(&mut self, warehouse: u32) {
        self.home = Some(warehouse % self.options.warehouses);
    }

    /// The same benchmark in its initial state, for another database.
    #[must_use]
    pub fn anew(&self) -> Tpcc {
        Tpcc { numbers: Arc::new(Numbers::new(&self.options)), ..self.clone() }
    }

    /// Tables to which no procedure writes.
    pub fn constant_tables(&self) -> Vec<TableId> {
        vec![self.tables.item]
    }

    fn warehouse(&self, rng: &mut Random) -> u32 {
        match (self.home, self.options.hot, self.options.skew) {
            (Some(home), ..) => home,
            (None, Some(hot), _) if rng.random_bool(hot.share) => rng.random_range(0..hot.count),
            // Draws from exactly this range, so that a seed yields the same run as without a skew
            // option.
            (None, _, Skew::Uniform) => rng.random_range(0..self.options.warehouses),
            (None, ..) => self.chooser.choose(rng) as u32,
        }
    }

    fn procedure(&self, warehouse: u32, rng: &mut Random) -> Procedure {
        let (options, numbers) = (&*self.options, &*self.numbers);
        let district = rng.random_range(0..DISTRICTS);
        match draw(&options.mix, rng) {
            0 => {
                let rolls_back = rng.random_range(0..100) < ROLLED_BACK_PERCENT;
                // An order that rolls back has the content of the next order, which takes its
                // number later.
                let number = match rolls_back {
                    true => numbers.next_order(warehouse, district),
                    false => numbers.take_order(options, warehouse, district),
                };
                let order = Box::new(Order::of(options, warehouse, district, number));
                Procedure::NewOrder { order, rolls_back }
            }
            1 => {
                let remote = options.warehouses > 1 && rng.random_bool(options.remote_payments);
                let home =
                    if remote { other(warehouse, options.warehouses, rng) } else { warehouse };
                let at = if remote { rng.random_range(0..DISTRICTS) } else { district };
                let customer = [home, at, order::customer(options, rng.random())];
                let history = numbers.take_history(warehouse, district);
                Procedure::Payment {
                    district,
                    customer,
                    history,
                    cents: rng.random_range(100..=500_000),
                }
            }
            2 => {
                let customer = order::customer(options, rng.random());
                let last = numbers.last_order(options, warehouse, district, customer);
                Procedure::OrderStatus { district, customer, last }
            }
            3 => {
                let oldest = |district| {
                    let order = numbers.take_undelivered(warehouse, district)?;
                    Some(Place { district, order })
                };
                let orders = (0..DISTRICTS).filter_map(oldest).collect();
                Procedure::Delivery { orders, carrier: rng.random_range(1..=10) }
            }
            _ => {
                let next = numbers.next_order(warehouse, district);
                let first = next.saturating_sub(LAST_ORDERS);
                Procedure::StockLevel {
                    district,
                    first,
                    next,
                    threshold: rng.random_range(10..=20),
                }
            }
        }
    }
}

/// Draws a warehouse other than this one.
fn other(warehouse: u32, warehouses: u32, rng: &mut Random) -> u32 {
    let other = rng.random_range(0..warehouses - 1);
    other + u32::from(other >= warehouse)
}

impl Workload for Tpcc {
    type Transaction = TpccTransaction;

    fn name(&self) -> &'static str {
        "tpcc"
    }

    fn tables(&self) -> Vec<(TableId, Schema)> {
        self.tables.schemas()
    }

    /// Tables are split by warehouse and district, as in the paper's systems; customers, stock and
    /// items into partitions of about `rows` rows.
    fn borders(&self, rows: u64) -> BTreeMap<TableId, Vec<Key>> {
        self.tables.borders(&self.options, rows.clamp(1, u64::from(u32::MAX)) as u32)
    }

    fn load(&self) -> impl Iterator<Item = LoadRow> {
        self.tables.load(&self.options)
    }

    fn next(&mut self, rng: &mut Random) -> TpccTransaction {
        let warehouse = self.warehouse(rng);
        let procedure = self.procedure(warehouse, rng);
        TpccTransaction { options: self.options.clone(), tables: self.tables, warehouse, procedure }
    }

    fn loaded(&self) -> Totals {
        let mut totals = Totals::default();
        self.load().for_each(|row| totals.count(&row.row));
        totals
    }

    fn audits(&self, rows: u64) -> Vec<Audit> {
        let per_warehouse = u64::from(self.options.items.max(DISTRICTS * self.options.customers));
        let warehouses = (rows / per_warehouse).max(1);
        let of_table = |(table, _): (TableId, Schema)| match table == self.tables.item {
            true => Audit::of_table(table, u64::from(self.options.items), rows),
            false => Audit::of_table(table, u64::from(self.options.warehouses), warehouses),
        };
        self.tables().into_iter().flat_map(of_table).collect()
    }

    /// The number of rows is not known, because rows are inserted and deleted, but each row counts
    /// in the sum.
    fn judge(&self, found: Totals, added: i128) -> Result<(), crate::Mismatch> {
        let expected = Totals { rows: found.rows, damaged: 0, sum: self.loaded().sum + added };
        if found == expected { Ok(()) } else { Err(crate::Mismatch { found, expected }) }
    }

    fn examiner(&self) -> Box<dyn Examiner + '_> {
        Box::new(checks::Conditions::new(self.tables))
    }
}

#[cfg(test)]
mod tests;
