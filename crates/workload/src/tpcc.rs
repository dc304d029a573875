//! TPC-C: a wholesaler's warehouses, their districts, and the orders of the customers there.
//!
//! ```text
//!   warehouse ──10──▶ district ──▶ customer ──▶ history
//!       │                 └──────▶ orders ──▶ order_line       new_order: orders not delivered yet
//!       └──▶ stock ◀── item
//! ```
//!
//! | procedure | mix | full mix | reads | writes |
//! | --- | ---: | ---: | --- | --- |
//! | New-Order | 45 % | 45 % | warehouse, customer, items | district, stock, orders, new_order, lines |
//! | Payment | 45 % | 43 % | | warehouse, district, customer, history |
//! | Order-Status | | 4 % | customer, its last order and the lines | |
//! | Delivery | | 4 % | | for each district: the oldest new order, its lines, its customer |
//! | Stock-Level | 10 % | 4 % | district, lines of its last 20 orders, their stock | |
//!
//! # Keys of rows that do not exist yet
//!
//! A footprint is known before a transaction runs, but the number of the next order is in the database.
//! So the generator hands numbers out, district by district, and **an order is a function of its
//! number**: its customer, its items and where they come from are all drawn from a hash of it
//! ([`Order`]). Whoever wants to deliver an order or look at it knows its keys without reading anything,
//! and the procedure checks that the rows are as they should be. New orders that the standard rolls
//! back (1 %, an item that does not exist) take no number. An order whose transaction failed leaves a
//! gap, as a sequence does; a delivery finds nothing there and goes on.
//!
//! # The checks
//!
//! Every row begins with a number: what a warehouse, district and piece of stock have sold, a
//! customer's balance, an amount, a count of lines. The sum over all rows is as the transactions say.
//! Beyond that the standard's conditions hold on the database at rest ([`checks`]).
//!
//! # What differs from the standard
//!
//! Customers are named by number, never by last name (which takes a look-up before the footprint is
//! known). Rows have the columns that the procedures and conditions use, and filling for the others.
//! The numbers of customers and items are parameters, and think times belong to whoever drives.

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

/// Districts of a warehouse.
const DISTRICTS: u32 = 10;
/// A Stock-Level looks at so many of the last orders.
const LAST_ORDERS: u32 = 20;
/// Of a hundred new orders, so many are rolled back.
const ROLLED_BACK_PERCENT: u32 = 1;

/// What a [`Tpcc`] is like.
#[derive(Clone, PartialEq, Debug)]
pub struct TpccOptions {
    /// Number of warehouses.
    pub warehouses: u32,
    /// Customers of a district; each has ordered once.
    pub customers: u32,
    /// Number of items, and of pieces of stock of a warehouse.
    pub items: u32,
    /// Weights of New-Order, Payment, Order-Status, Delivery, Stock-Level.
    pub mix: [u32; 5],
    /// The share of new orders that get an item from another warehouse.
    pub remote_orders: f64,
    /// The share of payments by customers of another warehouse.
    pub remote_payments: f64,
    /// How unevenly warehouses are chosen: those with the smallest numbers more often.
    pub skew: Skew,
    /// If set, some warehouses get a share of all transactions before the others are chosen from.
    pub hot: Option<HotWarehouses>,
}

/// Warehouses that many transactions are about.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HotWarehouses {
    /// How many there are: those with the smallest numbers.
    pub count: u32,
    /// The share of transactions that they get, all alike; what is left is chosen by the skew.
    pub share: f64,
}

impl Default for TpccOptions {
    /// Eight warehouses of a tenth of the standard's size, the mix of the MorphoSys experiments, and
    /// the standard's shares of remote transactions.
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
    /// New-Order, Payment and Stock-Level: the mix of the MorphoSys experiments.
    pub const SHORT_MIX: [u32; 5] = [45, 45, 0, 0, 10];
    /// The standard's.
    pub const FULL_MIX: [u32; 5] = [45, 43, 4, 4, 4];
}

/// The benchmark. See the head of the module. A clone shares the numbers of orders.
#[derive(Clone, Debug)]
pub struct Tpcc {
    options: Arc<TpccOptions>,
    tables: Tables,
    numbers: Arc<Numbers>,
    /// The warehouse of this client; any of them if there is none.
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

/// A district's order.
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
    /// `last`: the number of the customer's last order, if the generator knows of one.
    OrderStatus {
        district: u32,
        customer: u32,
        last: Option<u32>,
    },
    Delivery {
        orders: Vec<Place>,
        carrier: i64,
    },
    /// The orders from `first` on, up to the district's next.
    StockLevel {
        district: u32,
        first: u32,
        next: u32,
        threshold: i64,
    },
}

impl Tpcc {
    /// The benchmark, in nine tables from this id on.
    ///
    /// # Errors
    /// If the options make no sense.
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

    /// Binds this client to a warehouse, as a terminal is.
    pub fn live_at(&mut self, warehouse: u32) {
        self.home = Some(warehouse % self.options.warehouses);
    }

    /// The benchmark again from its beginning, for another database.
    #[must_use]
    pub fn anew(&self) -> Tpcc {
        Tpcc { numbers: Arc::new(Numbers::new(&self.options)), ..self.clone() }
    }

    /// Tables that no procedure writes to.
    pub fn constant_tables(&self) -> Vec<TableId> {
        vec![self.tables.item]
    }

    fn warehouse(&self, rng: &mut Random) -> u32 {
        match (self.home, self.options.hot, self.options.skew) {
            (Some(home), ..) => home,
            (None, Some(hot), _) if rng.random_bool(hot.share) => rng.random_range(0..hot.count),
            // A draw of another width would give another run for each seed.
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
                // What is rolled back is like some other order, but for an item that does not exist.
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

/// Any warehouse but this one.
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

    /// By warehouse and district, as the paper's systems begin; customers, stock and items in parts
    /// of about `rows`.
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

    /// Rows come and go, so their number is not known; but each counts in the sum.
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
