//! Tables and rows. The columns of a row are consecutive numbers of eight bytes, followed by a
//! filler.
//!
//! Procedures change numbers in place, so a column is identified by its index.

use super::order::{Order, first_undelivered};
use super::{DISTRICTS, TpccOptions};
use crate::LoadRow;
#[cfg(test)]
use isomer_design::Value;
use isomer_design::{Column, ColumnType, Key, Schema, TableId};
use std::collections::BTreeMap;

/// The ids of the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tables {
    pub(super) warehouse: TableId,
    pub(super) district: TableId,
    pub(super) customer: TableId,
    pub(super) history: TableId,
    pub(super) item: TableId,
    pub(super) stock: TableId,
    pub(super) orders: TableId,
    pub(super) new_order: TableId,
    pub(super) order_line: TableId,
}

/// The name of a table, its key columns, its other columns, and the size of its filler.
type Shape = (&'static str, &'static [&'static str], &'static [&'static str], usize);

const SHAPES: [Shape; 9] = [
    ("warehouse", &["w_id"], &["ytd_cents", "tax"], 60),
    ("district", &["w_id", "d_id"], &["ytd_cents", "tax", "next_o_id"], 60),
    ("customer", &["w_id", "d_id", "c_id"], &["balance_cents", "payments", "deliveries"], 300),
    ("history", &["w_id", "d_id", "h_id"], &["amount_cents"], 24),
    ("item", &["i_id"], &["price_cents"], 50),
    ("stock", &["w_id", "i_id"], &["ytd", "quantity", "orders", "remote"], 200),
    ("orders", &["w_id", "d_id", "o_id"], &["lines", "c_id", "carrier"], 0),
    ("new_order", &["w_id", "d_id", "o_id"], &["waits"], 0),
    ("order_line", &["w_id", "d_id", "o_id", "line"], &["amount_cents", "i_id", "delivered"], 24),
];

/// The indexes of columns.
pub(super) mod column {
    /// The first column of every row.
    pub(crate) const NUMBER: usize = 0;
    pub(crate) const DISTRICT_NEXT: usize = 2;
    pub(crate) const CUSTOMER_PAYMENTS: usize = 1;
    pub(crate) const CUSTOMER_DELIVERIES: usize = 2;
    pub(crate) const STOCK_QUANTITY: usize = 1;
    pub(crate) const STOCK_ORDERS: usize = 2;
    pub(crate) const STOCK_REMOTE: usize = 3;
    pub(crate) const ORDER_CUSTOMER: usize = 1;
    pub(crate) const ORDER_CARRIER: usize = 2;
    pub(crate) const LINE_ITEM: usize = 1;
    pub(crate) const LINE_DELIVERED: usize = 2;
}

/// Returns a column of a row, or `None` if the row is too short.
pub(super) fn get(row: &[u8], column: usize) -> Option<i64> {
    let bytes = row.get(8 * column..8 * column + 8)?;
    Some(i64::from_le_bytes(bytes.try_into().ok()?))
}

/// Sets a column. Leaves a row that is too short unchanged; the audits report it as damaged.
pub(super) fn set(row: &mut [u8], column: usize, value: i64) {
    if let Some(bytes) = row.get_mut(8 * column..8 * column + 8) {
        bytes.copy_from_slice(&value.to_le_bytes());
    }
}

/// Adds to a column.
pub(super) fn add(row: &mut [u8], column: usize, delta: i64) {
    if let Some(value) = get(row, column) {
        set(row, column, value.wrapping_add(delta));
    }
}

/// A key of several numbers.
pub(super) fn key<const N: usize>(parts: [u32; N]) -> Key {
    Key::ints(&parts.map(i64::from))
}

/// The price of an item in cents.
pub(super) fn price(item: u32) -> i64 {
    100 + i64::from(item.wrapping_mul(2_654_435_761) % 9_901)
}

impl Tables {
    pub(super) fn from(first: TableId) -> Tables {
        let id = |at: u32| TableId(first.0 + at);
        Tables {
            warehouse: id(0),
            district: id(1),
            customer: id(2),
            history: id(3),
            item: id(4),
            stock: id(5),
            orders: id(6),
            new_order: id(7),
            order_line: id(8),
        }
    }

    fn shape(&self, table: TableId) -> &'static Shape {
        &SHAPES[(table.0 - self.warehouse.0) as usize]
    }

    pub(super) fn schemas(&self) -> Vec<(TableId, Schema)> {
        let schema = |(name, keys, columns, _): &Shape| {
            let numbers =
                keys.iter().chain(*columns).map(|name| Column::new(*name, ColumnType::Int64));
            let filling = std::iter::once(Column::new("filling", ColumnType::Bytes));
            Schema::new(*name, numbers.chain(filling).collect(), keys).expect("the schema is valid")
        };
        (self.warehouse.0..).map(TableId).zip(SHAPES.iter().map(schema)).collect()
    }

    /// The encoded row with these numbers.
    pub(super) fn row(&self, table: TableId, numbers: &[i64]) -> Vec<u8> {
        let (_, _, columns, filling) = self.shape(table);
        debug_assert_eq!(numbers.len(), columns.len());
        // The same bytes as `Schema::encode_row`: the numbers, the end of the filler, the filler.
        let mut row = Vec::with_capacity(8 * numbers.len() + 4 + filling);
        numbers.iter().for_each(|number| row.extend(number.to_le_bytes()));
        row.extend((*filling as u32).to_le_bytes());
        row.resize(row.len() + filling, b'f');
        row
    }

    /// The row as the schema encodes it, for comparison.
    #[cfg(test)]
    pub(super) fn encoded(&self, table: TableId, numbers: &[i64]) -> Vec<u8> {
        let (_, keys, _, filling) = self.shape(table);
        let (_, schema) = self.schemas().swap_remove((table.0 - self.warehouse.0) as usize);
        let keys = keys.iter().map(|_| Value::Int64(0));
        let numbers = numbers.iter().map(|number| Value::Int64(*number));
        let filling = std::iter::once(Value::Bytes(vec![b'f'; *filling]));
        schema.encode_row(&keys.chain(numbers).chain(filling).collect::<Vec<_>>()).unwrap().1
    }

    pub(super) fn borders(&self, options: &TpccOptions, rows: u32) -> BTreeMap<TableId, Vec<Key>> {
        let warehouses = 0..options.warehouses;
        let districts = || warehouses.clone().flat_map(|w| (0..DISTRICTS).map(move |d| [w, d]));
        let but_first = |keys: Vec<Key>| keys.into_iter().skip(1).collect::<Vec<Key>>();
        let by_district = || but_first(districts().map(key).collect());
        let parts = |of: u32| (0..of).step_by(rows as usize);
        let customers =
            districts().flat_map(|[w, d]| parts(options.customers).map(move |c| key([w, d, c])));
        let stock = warehouses.clone().flat_map(|w| parts(options.items).map(move |i| key([w, i])));
        BTreeMap::from([
            (self.warehouse, but_first(warehouses.clone().map(|w| key([w])).collect())),
            (self.district, by_district()),
            (self.customer, but_first(customers.collect())),
            (self.history, by_district()),
            (self.item, but_first(parts(options.items).map(|i| key([i])).collect())),
            (self.stock, but_first(stock.collect())),
            (self.orders, by_district()),
            (self.new_order, by_district()),
            (self.order_line, by_district()),
        ])
    }

    /// All initial rows by table and key.
    pub(super) fn load(self, options: &TpccOptions) -> impl Iterator<Item = LoadRow> {
        let (warehouses, customers, items) = (options.warehouses, options.customers, options.items);
        let options = options.clone();
        let districts = move || (0..warehouses).flat_map(|w| (0..DISTRICTS).map(move |d| [w, d]));
        let triples =
            move || districts().flat_map(move |[w, d]| (0..customers).map(move |o| [w, d, o]));
        let row = move |table, key, numbers: &[i64]| LoadRow {
            table,
            key,
            row: self.row(table, numbers),
        };
        let delivered = first_undelivered(&options);
        let lines_of = {
            let options = options.clone();
            move |[w, d, o]: [u32; 3]| Order::of(&options, w, d, o).lines
        };
        let of_orders = {
            let lines_of = lines_of.clone();
            move |at: [u32; 3]| {
                let carrier = if at[2] < delivered { 1 } else { 0 };
                row(self.orders, key(at), &[lines_of(at).len() as i64, i64::from(at[2]), carrier])
            }
        };
        let of_lines = move |at: [u32; 3]| {
            let is_delivered = at[2] < delivered;
            let line = move |(number, line): (u32, super::order::Line)| {
                // Initially delivered lines cost nothing, as in the standard.
                let cents = if is_delivered { 0 } else { price(line.item) * line.quantity };
                let key = key([at[0], at[1], at[2], number]);
                row(self.order_line, key, &[cents, i64::from(line.item), i64::from(is_delivered)])
            };
            (0..).zip(lines_of(at)).map(line)
        };
        (0..warehouses)
            .map(move |w| row(self.warehouse, key([w]), &[0, 7]))
            .chain(
                districts()
                    .map(move |at| row(self.district, key(at), &[0, 8, i64::from(customers)])),
            )
            .chain(triples().map(move |at| row(self.customer, key(at), &[0, 0, 0])))
            .chain((0..items).map(move |i| row(self.item, key([i]), &[price(i)])))
            .chain((0..warehouses).flat_map(move |w| {
                (0..items).map(move |i| row(self.stock, key([w, i]), &[0, 50, 0, 0]))
            }))
            .chain(triples().map(of_orders))
            .chain(
                triples()
                    .filter(move |at| at[2] >= delivered)
                    .map(move |at| row(self.new_order, key(at), &[1])),
            )
            .chain(triples().flat_map(of_lines))
    }
}
