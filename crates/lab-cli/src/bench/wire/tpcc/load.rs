//! Clause 4.3: the initial rows of the tables, inserted by INSERTs of 500 rows.
//!
//! The amounts make the conditions of `check.sql` hold from the start. Every customer has paid
//! 10.00 once, so a district has taken ten times its customers, and a warehouse ten times that.
//! Seventy percent of the orders are delivered, for an amount of 0.

use super::Sizes;
use super::values::{last_name, letters, skewed};
use isomer_workload::{Random, random};
use postgres::{Client, Error};
use rand::RngExt;
use rand::seq::SliceRandom;

/// Rows of one INSERT.
const BATCH_ROWS: usize = 500;
/// Districts of a warehouse.
pub(super) const DISTRICTS: i32 = 10;
const SINCE: &str = "'2026-01-01 00:00:00'";

/// Creates the tables and fills them.
pub(super) fn load(client: &mut Client, sizes: Sizes, seed: u64) -> Result<(), Error> {
    client.batch_execute(include_str!("schema.sql"))?;
    let mut rng = random(seed);
    let mut items = Inserts::new(client, "item");
    for id in 1..=sizes.items {
        let (price, data) = (rng.random_range(100..=10_000), data(&mut rng));
        let (image, name) = (rng.random_range(1..=10_000), letters(&mut rng, 14, 24));
        items.row(format_args!("{id}, {image}, '{name}', {}, '{data}'", money(price)))?;
    }
    items.flush()?;
    for warehouse in 1..=sizes.warehouses {
        load_warehouse(client, sizes, warehouse, &mut rng)?;
    }
    Ok(())
}

fn load_warehouse(
    client: &mut Client,
    sizes: Sizes,
    w: i32,
    rng: &mut Random,
) -> Result<(), Error> {
    let taken = i64::from(sizes.customers) * 1000;
    let (tax, all) = (some_tax(rng), money(taken * i64::from(DISTRICTS)));
    let mut rows = Inserts::new(client, "warehouse");
    rows.row(format_args!("{w}, '{}', {}, {tax}, {all}", letters(rng, 6, 10), address(rng)))?;
    rows.flush()?;
    let mut rows = Inserts::new(client, "stock");
    for item in 1..=sizes.items {
        let places: Vec<String> =
            (0..DISTRICTS).map(|_| format!("'{}'", letters(rng, 24, 24))).collect();
        let (quantity, places) = (rng.random_range(10..=100), places.join(", "));
        rows.row(format_args!("{item}, {w}, {quantity}, {places}, 0, 0, 0, '{}'", data(rng)))?;
    }
    rows.flush()?;
    for d in 1..=DISTRICTS {
        let (tax, next) = (some_tax(rng), sizes.customers + 1);
        let mut rows = Inserts::new(client, "district");
        let (name, address) = (letters(rng, 6, 10), address(rng));
        rows.row(format_args!("{d}, {w}, '{name}', {address}, {tax}, {}, {next}", money(taken)))?;
        rows.flush()?;
        load_customers(client, sizes, w, d, rng)?;
        load_orders(client, sizes, w, d, rng)?;
    }
    Ok(())
}

fn load_customers(
    client: &mut Client,
    sizes: Sizes,
    w: i32,
    d: i32,
    rng: &mut Random,
) -> Result<(), Error> {
    let mut rows = Inserts::new(client, "customer");
    for id in 1..=sizes.customers {
        let name = if id <= 1000 { id - 1 } else { skewed(rng, 255, 123, 0, 999) };
        let (first, last, address) = (letters(rng, 8, 16), last_name(name), address(rng));
        let phone: String = (0..16).map(|_| rng.random_range('0'..='9')).collect();
        let credit = if rng.random_range(0..10) == 0 { "BC" } else { "GC" };
        let discount = format!("0.{:04}", rng.random_range(0..=5000));
        rows.row(format_args!(
            "{id}, {d}, {w}, '{first}', 'OE', '{last}', {address}, '{phone}', {SINCE}, '{credit}', \
             50000.00, {discount}, -10.00, 10.00, 1, 0, '{}'",
            letters(rng, 300, 500)
        ))?;
    }
    rows.flush()?;
    let mut rows = Inserts::new(client, "history");
    for id in 1..=sizes.customers {
        let data = letters(rng, 12, 24);
        rows.row(format_args!("{id}, {d}, {w}, {d}, {w}, {SINCE}, 10.00, '{data}'"))?;
    }
    rows.flush()
}

fn load_orders(
    client: &mut Client,
    sizes: Sizes,
    w: i32,
    d: i32,
    rng: &mut Random,
) -> Result<(), Error> {
    let mut customers: Vec<i32> = (1..=sizes.customers).collect();
    customers.shuffle(rng);
    let lines: Vec<i32> = customers.iter().map(|_| rng.random_range(5..=15)).collect();
    let mut rows = Inserts::new(client, "orders");
    for (id, (customer, lines)) in (1..).zip(customers.iter().zip(&lines)) {
        let carrier = match id <= sizes.delivered() {
            true => rng.random_range(1..=10).to_string(),
            false => "NULL".to_owned(),
        };
        rows.row(format_args!("{id}, {d}, {w}, {customer}, {SINCE}, {carrier}, {lines}, 1"))?;
    }
    rows.flush()?;
    let mut rows = Inserts::new(client, "order_line");
    for (id, lines) in (1..).zip(&lines) {
        for number in 1..=*lines {
            let (delivered, amount) = match id <= sizes.delivered() {
                true => (SINCE, 0),
                false => ("NULL", rng.random_range(1..=999_999)),
            };
            let (item, info) = (rng.random_range(1..=sizes.items), letters(rng, 24, 24));
            rows.row(format_args!(
                "{id}, {d}, {w}, {number}, {item}, {w}, {delivered}, 5, {}, '{info}'",
                money(amount)
            ))?;
        }
    }
    rows.flush()?;
    let mut rows = Inserts::new(client, "new_order");
    for id in sizes.delivered() + 1..=sizes.customers {
        rows.row(format_args!("{id}, {d}, {w}"))?;
    }
    rows.flush()
}

/// Rows to insert into a table, sent in batches.
struct Inserts<'c> {
    client: &'c mut Client,
    table: &'static str,
    text: String,
    rows: usize,
}

impl<'c> Inserts<'c> {
    fn new(client: &'c mut Client, table: &'static str) -> Inserts<'c> {
        Inserts { client, table, text: String::new(), rows: 0 }
    }

    fn row(&mut self, values: std::fmt::Arguments<'_>) -> Result<(), Error> {
        use std::fmt::Write;
        let before = if self.rows == 0 { "" } else { ", " };
        write!(self.text, "{before}({values})").expect("a string takes what it is given");
        self.rows += 1;
        if self.rows == BATCH_ROWS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.rows > 0 {
            let text = format!("INSERT INTO {} VALUES {}", self.table, self.text);
            self.client.batch_execute(&text)?;
            self.text.clear();
            self.rows = 0;
        }
        Ok(())
    }
}

fn money(cents: i64) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}

fn some_tax(rng: &mut Random) -> String {
    format!("0.{:04}", rng.random_range(0..=2000))
}

fn address(rng: &mut Random) -> String {
    let streets = (letters(rng, 10, 20), letters(rng, 10, 20), letters(rng, 10, 20));
    let zip = rng.random_range(0..10_000);
    format!(
        "'{}', '{}', '{}', '{}', '{zip:04}11111'",
        streets.0,
        streets.1,
        streets.2,
        letters(rng, 2, 2)
    )
}

fn data(rng: &mut Random) -> String {
    let text = letters(rng, 26, 42);
    if rng.random_range(0..10) == 0 { format!("{text}ORIGINAL") } else { text }
}
