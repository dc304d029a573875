//! A terminal: the five transactions of TPC-C, clause 2, in the statements that go-tpc sends.
//!
//! The first error of the server ends the terminal. All transactions lock rows in one order
//! (district, stock, warehouse, customer; stock by key), so a deadlock would be an error, too. A
//! refusal with 40001 at a stricter isolation level is no error: the transaction runs again, with
//! the same draws.

use super::Sizes;
use super::load::DISTRICTS;
use super::running::{Param, Running, in_the_middle, prices, take_from_stock, tuples};
use super::values::{Cents, last_name, letters, skewed};
use isomer::isolation::IsolationLevel;
use isomer_workload::Random;
use postgres::error::SqlState;
use postgres::{Client, Error, Statement};
use rand::RngExt;
use std::collections::HashMap;

/// Constants of the skewed draws; clause 2.1.6.1 requires that they differ from those of the load.
const C_ITEM: i32 = 7911;
const C_CUSTOMER: i32 = 259;
const C_NAME: i32 = 223;

/// Weights of the transactions, clause 5.2.3.
const MIX: [(Kind, u32); 5] = [
    (Kind::NewOrder, 45),
    (Kind::Payment, 43),
    (Kind::OrderStatus, 4),
    (Kind::Delivery, 4),
    (Kind::StockLevel, 4),
];

/// A transaction of TPC-C.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

/// One client, with its home warehouse.
pub(super) struct Terminal {
    client: Client,
    isolation: IsolationLevel,
    statements: HashMap<String, Statement>,
    rng: Random,
    sizes: Sizes,
    home: i32,
}

impl Terminal {
    pub(super) fn new(
        client: Client,
        isolation: IsolationLevel,
        rng: Random,
        sizes: Sizes,
        home: i32,
    ) -> Terminal {
        Terminal { client, isolation, statements: HashMap::new(), rng, sizes, home }
    }

    /// Runs one transaction until it commits; returns its kind, and how many times it was refused.
    pub(super) fn run(&mut self) -> Result<(Kind, u64), Error> {
        let drawn = self.rng.clone();
        let mut repeated = 0;
        loop {
            match self.try_to_run() {
                Ok(kind) => return Ok((kind, repeated)),
                Err(error) if self.isolation.refuses() && is_refused(&error) => {
                    self.rng = drawn.clone();
                    repeated += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn try_to_run(&mut self) -> Result<Kind, Error> {
        let mut drawn = self.rng.random_range(0..MIX.iter().map(|(_, weight)| weight).sum());
        let chosen = MIX.iter().find(|(_, weight)| {
            let found = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            found
        });
        let kind = chosen.expect("the draw is below the sum").0;
        match kind {
            Kind::NewOrder => self.new_order()?,
            Kind::Payment => self.payment()?,
            Kind::OrderStatus => self.order_status()?,
            Kind::Delivery => self.delivery()?,
            Kind::StockLevel => self.stock_level()?,
        }
        Ok(kind)
    }

    fn district(&mut self) -> i32 {
        self.rng.random_range(1..=DISTRICTS)
    }

    fn customer(&mut self) -> i32 {
        skewed(&mut self.rng, 1023, C_CUSTOMER, 1, self.sizes.customers)
    }

    /// A last name that at least one customer of every district has.
    fn name(&mut self) -> String {
        let names = self.sizes.customers.min(1000);
        last_name(skewed(&mut self.rng, 255, C_NAME, 0, names - 1))
    }

    /// A warehouse other than home, if there is one.
    fn elsewhere(&mut self) -> i32 {
        let other = self.rng.random_range(1..=(self.sizes.warehouses - 1).max(1));
        if other >= self.home { (other + 1).min(self.sizes.warehouses) } else { other }
    }

    /// Clause 2.4.
    fn new_order(&mut self) -> Result<(), Error> {
        let (w, d, c) = (self.home, self.district(), self.customer());
        let count = self.rng.random_range(5..=15usize);
        let rolls_back = self.rng.random_range(0..100) == 0;
        let mut lines: Vec<(i32, i32, i32)> = Vec::with_capacity(count);
        while lines.len() < count {
            let item = skewed(&mut self.rng, 8191, C_ITEM, 1, self.sizes.items);
            let supplier = if self.rng.random_range(0..100) == 0 { self.elsewhere() } else { w };
            if lines.iter().all(|(_, other, _)| *other != item) {
                lines.push((supplier, item, self.rng.random_range(1..=10)));
            }
        }
        lines.sort_unstable();
        let all_local = i32::from(lines.iter().all(|(supplier, ..)| *supplier == w));
        let txn = self.client.transaction()?;
        let mut run = Running { txn, statements: &mut self.statements };
        run.one(
            "SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse \
             WHERE w_id = $1 AND c_w_id = w_id AND c_d_id = $2 AND c_id = $3",
            &[&w, &d, &c],
        )?;
        let district = run.one(
            "SELECT d_next_o_id, d_tax FROM district WHERE d_id = $1 AND d_w_id = $2 FOR UPDATE",
            &[&d, &w],
        )?;
        let order: i32 = district.get(0);
        run.execute(
            "UPDATE district SET d_next_o_id = $1 + 1 WHERE d_id = $2 AND d_w_id = $3",
            &[&order, &d, &w],
        )?;
        run.execute(
            "INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) \
             VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP, $5, $6)",
            &[&order, &d, &w, &c, &(count as i32), &all_local],
        )?;
        run.execute(
            "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES ($1, $2, $3)",
            &[&order, &d, &w],
        )?;
        let prices = prices(&mut run, &lines)?;
        if rolls_back {
            // Clause 2.4.2.3: the last item does not exist.
            return run.txn.rollback();
        }
        let places = take_from_stock(&mut run, &lines, w, d)?;
        let amounts: Vec<Cents> = lines
            .iter()
            .map(|(_, item, quantity)| Cents(prices[item].0 * i64::from(*quantity)))
            .collect();
        let numbers: Vec<i32> = (1..=count as i32).collect();
        let mut params: Vec<Param<'_>> = Vec::with_capacity(count * 9);
        for (at, (supplier, item, quantity)) in lines.iter().enumerate() {
            params.extend([&order as Param<'_>, &d, &w, &numbers[at], item, supplier, quantity]);
            params.extend([&amounts[at] as Param<'_>, &places[item]]);
        }
        let text = format!(
            "INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, \
             ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info) VALUES {}",
            tuples(count, 9, 0)
        );
        run.execute(&text, &params)?;
        run.txn.commit()
    }

    /// Clause 2.5.
    fn payment(&mut self) -> Result<(), Error> {
        let (w, d) = (self.home, self.district());
        let (c_w, c_d) = match self.rng.random_range(0..100) {
            0..85 => (w, d),
            _ => (self.elsewhere(), self.district()),
        };
        let (amount, data) =
            (Cents(self.rng.random_range(100..=500_000)), letters(&mut self.rng, 12, 24));
        let name = (self.rng.random_range(0..100) < 60).then(|| self.name());
        let mut c = self.customer();
        let txn = self.client.transaction()?;
        let mut run = Running { txn, statements: &mut self.statements };
        run.execute(
            "UPDATE district SET d_ytd = d_ytd + $1 WHERE d_w_id = $2 AND d_id = $3",
            &[&amount, &w, &d],
        )?;
        run.one(
            "SELECT d_street_1, d_street_2, d_city, d_state, d_zip, d_name FROM district \
             WHERE d_w_id = $1 AND d_id = $2",
            &[&w, &d],
        )?;
        run.execute("UPDATE warehouse SET w_ytd = w_ytd + $1 WHERE w_id = $2", &[&amount, &w])?;
        run.one(
            "SELECT w_street_1, w_street_2, w_city, w_state, w_zip, w_name FROM warehouse \
             WHERE w_id = $1",
            &[&w],
        )?;
        if let Some(name) = name {
            c = in_the_middle(&mut run, c_w, c_d, &name)?;
        }
        let customer = run.one(
            "SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, \
             c_phone, c_credit, c_credit_lim, c_discount, c_balance, c_since FROM customer \
             WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3 FOR UPDATE",
            &[&c_w, &c_d, &c],
        )?;
        if customer.get::<_, &str>(9) == "BC" {
            let old = run.one(
                "SELECT c_data FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
                &[&c_w, &c_d, &c],
            )?;
            let mut new =
                format!("| {c} {c_d} {c_w} {d} {w} {} {}", amount.0, old.get::<_, &str>(0));
            new.truncate(500);
            run.execute(
                "UPDATE customer SET c_balance = c_balance - $1, \
                 c_ytd_payment = c_ytd_payment + $2, c_payment_cnt = c_payment_cnt + 1, \
                 c_data = $3 WHERE c_w_id = $4 AND c_d_id = $5 AND c_id = $6",
                &[&amount, &amount, &new, &c_w, &c_d, &c],
            )?;
        } else {
            run.execute(
                "UPDATE customer SET c_balance = c_balance - $1, \
                 c_ytd_payment = c_ytd_payment + $2, c_payment_cnt = c_payment_cnt + 1 \
                 WHERE c_w_id = $3 AND c_d_id = $4 AND c_id = $5",
                &[&amount, &amount, &c_w, &c_d, &c],
            )?;
        }
        run.execute(
            "INSERT INTO history (h_c_d_id, h_c_w_id, h_c_id, h_d_id, h_w_id, h_date, h_amount, \
             h_data) VALUES ($1, $2, $3, $4, $5, CURRENT_TIMESTAMP, $6, $7)",
            &[&c_d, &c_w, &c, &d, &w, &amount, &data],
        )?;
        run.txn.commit()
    }

    /// Clause 2.6.
    fn order_status(&mut self) -> Result<(), Error> {
        let (w, d) = (self.home, self.district());
        let name = (self.rng.random_range(0..100) < 60).then(|| self.name());
        let mut c = self.customer();
        let txn = self.client.transaction()?;
        let mut run = Running { txn, statements: &mut self.statements };
        if let Some(name) = name {
            let count = run.one(
                "SELECT count(c_id) FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3",
                &[&w, &d, &name],
            )?;
            assert!(count.get::<_, i64>(0) > 0, "every name belongs to a customer");
            c = in_the_middle(&mut run, w, d, &name)?;
        }
        run.one(
            "SELECT c_balance, c_first, c_middle, c_last FROM customer \
             WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
            &[&w, &d, &c],
        )?;
        let order = run.one(
            "SELECT o_id, o_carrier_id, o_entry_d::text FROM orders \
             WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1",
            &[&w, &d, &c],
        )?;
        run.query(
            "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line \
             WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
            &[&w, &d, &order.get::<_, i32>(0)],
        )?;
        run.txn.commit()
    }

    /// Clause 2.7: the oldest order of each district.
    fn delivery(&mut self) -> Result<(), Error> {
        let (w, carrier) = (self.home, self.rng.random_range(1..=10));
        let txn = self.client.transaction()?;
        let mut run = Running { txn, statements: &mut self.statements };
        let mut orders: Vec<(i32, i32)> = Vec::new();
        for d in 1..=DISTRICTS {
            let oldest = run.query(
                "SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 \
                 ORDER BY no_o_id ASC LIMIT 1 FOR UPDATE",
                &[&w, &d],
            )?;
            orders.extend(oldest.first().map(|row| (d, row.get::<_, i32>(0))));
        }
        if orders.is_empty() {
            return run.txn.commit();
        }
        let mut keys: Vec<Param<'_>> = Vec::new();
        orders.iter().for_each(|(d, order)| keys.extend([&w as Param<'_>, d, order]));
        let all = tuples(orders.len(), 3, 0);
        run.execute(
            &format!("DELETE FROM new_order WHERE (no_w_id, no_d_id, no_o_id) IN ({all})"),
            &keys,
        )?;
        let mut carried: Vec<Param<'_>> = vec![&carrier];
        carried.extend(&keys);
        let after = tuples(orders.len(), 3, 1);
        run.execute(
            &format!(
                "UPDATE orders SET o_carrier_id = $1 WHERE (o_w_id, o_d_id, o_id) IN ({after})"
            ),
            &carried,
        )?;
        let whose = run.query(
            &format!("SELECT o_d_id, o_c_id FROM orders WHERE (o_w_id, o_d_id, o_id) IN ({all})"),
            &keys,
        )?;
        run.execute(
            &format!(
                "UPDATE order_line SET ol_delivery_d = CURRENT_TIMESTAMP \
                 WHERE (ol_w_id, ol_d_id, ol_o_id) IN ({all})"
            ),
            &keys,
        )?;
        let sums = run.query(
            &format!(
                "SELECT ol_d_id, SUM(ol_amount) FROM order_line \
                 WHERE (ol_w_id, ol_d_id, ol_o_id) IN ({all}) GROUP BY ol_d_id"
            ),
            &keys,
        )?;
        let sums: HashMap<i32, Cents> =
            sums.iter().map(|row| (row.get::<_, i32>(0), row.get::<_, Cents>(1))).collect();
        let mut customers: Vec<(i32, i32)> =
            whose.iter().map(|row| (row.get::<_, i32>(0), row.get::<_, i32>(1))).collect();
        customers.sort_unstable();
        for (d, customer) in customers {
            run.execute(
                "UPDATE customer SET c_balance = c_balance + $1, \
                 c_delivery_cnt = c_delivery_cnt + 1 \
                 WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4",
                &[&sums[&d], &w, &d, &customer],
            )?;
        }
        run.txn.commit()
    }

    /// Clause 2.8.
    fn stock_level(&mut self) -> Result<(), Error> {
        let (w, d, threshold) = (self.home, self.district(), self.rng.random_range(10..=20));
        let txn = self.client.transaction()?;
        let mut run = Running { txn, statements: &mut self.statements };
        let next =
            run.one("SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2", &[&w, &d])?;
        let next: i32 = next.get(0);
        run.one(
            "SELECT /*+ hint */ COUNT(DISTINCT (s_i_id)) FROM order_line, stock \
             WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id < $3 AND ol_o_id >= $4 \
             AND s_w_id = $5 AND s_i_id = ol_i_id AND s_quantity < $6",
            &[&w, &d, &next, &(next - 20), &w, &threshold],
        )?;
        run.txn.commit()
    }
}

/// True if the transaction conflicted with another and may be repeated.
fn is_refused(error: &Error) -> bool {
    error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE)
}
