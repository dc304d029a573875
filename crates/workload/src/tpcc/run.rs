//! The procedures and their footprints.

use super::order::Order;
use super::rows::{Tables, add, column, get, key, set};
use super::{Place, Procedure, TpccTransaction};
use crate::{DataAccess, Outcome, Transaction};
use isomer_design::{Access, Footprint, Key, KeyRange, Span, TableId};
use std::ops::ControlFlow;

/// A row is missing or damaged; describes it.
struct Unsound(String);

/// Why a procedure ended early.
enum End<E> {
    Data(E),
    Unsound(Unsound),
}

impl<E> From<Unsound> for End<E> {
    fn from(unsound: Unsound) -> End<E> {
        End::Unsound(unsound)
    }
}

type Done<T, E> = Result<T, End<E>>;

impl Transaction for TpccTransaction {
    fn name(&self) -> &'static str {
        match self.procedure {
            Procedure::NewOrder { .. } => "new_order",
            Procedure::Payment { .. } => "payment",
            Procedure::OrderStatus { .. } => "order_status",
            Procedure::Delivery { .. } => "delivery",
            Procedure::StockLevel { .. } => "stock_level",
        }
    }

    fn footprint_into(&self, footprint: &mut Footprint) {
        let (tables, w) = (self.tables, self.warehouse);
        let mut add = |table, key, access| footprint.add(table, Span::Key(key), access);
        match &self.procedure {
            Procedure::NewOrder { order, rolls_back } => {
                let [w, d, number] = order.key;
                add(tables.warehouse, key([w]), Access::Read);
                add(tables.customer, key([w, d, order.customer]), Access::Read);
                for line in &order.lines {
                    add(tables.item, key([line.item]), Access::Read);
                }
                if *rolls_back {
                    return;
                }
                add(tables.district, key([w, d]), Access::Write);
                for line in &order.lines {
                    add(tables.stock, key([line.supplier, line.item]), Access::Write);
                }
                add(tables.orders, key([w, d, number]), Access::Write);
                add(tables.new_order, key([w, d, number]), Access::Write);
                footprint.add(tables.order_line, Span::Range(lines_of(order.key)), Access::Write);
            }
            Procedure::Payment { district, customer, history, .. } => {
                add(tables.warehouse, key([w]), Access::Write);
                add(tables.district, key([w, *district]), Access::Write);
                add(tables.customer, key(*customer), Access::Write);
                add(tables.history, key([w, *district, *history]), Access::Write);
            }
            Procedure::OrderStatus { district, customer, last } => {
                add(tables.customer, key([w, *district, *customer]), Access::Read);
                if let Some(last) = last {
                    add(tables.orders, key([w, *district, *last]), Access::Read);
                    let lines = Span::Range(lines_of([w, *district, *last]));
                    footprint.add(tables.order_line, lines, Access::Read);
                }
            }
            Procedure::Delivery { orders, .. } => {
                for Place { district, order } in orders {
                    let at = [w, *district, *order];
                    let customer = Order::of(&self.options, w, *district, *order).customer;
                    footprint.add(tables.new_order, Span::Key(key(at)), Access::Write);
                    footprint.add(tables.orders, Span::Key(key(at)), Access::Write);
                    footprint.add(tables.order_line, Span::Range(lines_of(at)), Access::Write);
                    let customer = Span::Key(key([w, *district, customer]));
                    footprint.add(tables.customer, customer, Access::Write);
                }
            }
            Procedure::StockLevel { district, first, next, .. } => {
                add(tables.district, key([w, *district]), Access::Read);
                for item in self.items_of(*district, *first..*next) {
                    add(tables.stock, key([w, item]), Access::Read);
                }
                let lines =
                    KeyRange::new(key([w, *district, *first]), Some(key([w, *district, *next])));
                footprint.add(tables.order_line, Span::Range(lines), Access::Read);
            }
        }
    }

    fn run<D: DataAccess>(&self, data: &mut D) -> Result<Outcome, D::Error> {
        let mut clerk = Clerk { data, tables: self.tables };
        let w = self.warehouse;
        let done = match &self.procedure {
            Procedure::NewOrder { order, rolls_back } => clerk.new_order(order, *rolls_back),
            Procedure::Payment { district, customer, history, cents } => {
                clerk.payment([w, *district], *customer, *history, *cents)
            }
            Procedure::OrderStatus { district, customer, last } => {
                clerk.order_status([w, *district, *customer], *last)
            }
            Procedure::Delivery { orders, carrier } => clerk.deliver_all(self, orders, *carrier),
            Procedure::StockLevel { district, first, next, threshold } => {
                let items = self.items_of(*district, *first..*next);
                clerk.stock_level([w, *district], [*first, *next], &items, *threshold)
            }
        };
        match done {
            Ok(outcome) => Ok(outcome),
            Err(End::Unsound(Unsound(what))) => Ok(Outcome::Inconsistent { what }),
            Err(End::Data(error)) => Err(error),
        }
    }
}

impl TpccTransaction {
    /// The different items in some orders of a district. Their stock is read in this warehouse.
    fn items_of(&self, district: u32, orders: std::ops::Range<u32>) -> Vec<u32> {
        let w = self.warehouse;
        let lines = orders.flat_map(|order| Order::of(&self.options, w, district, order).lines);
        let mut items: Vec<u32> = lines.map(|line| line.item).collect();
        items.sort_unstable();
        items.dedup();
        items
    }
}

/// The keys of the lines of an order.
fn lines_of([w, d, order]: [u32; 3]) -> KeyRange {
    KeyRange::new(key([w, d, order]), Some(key([w, d, order + 1])))
}

struct Clerk<'d, D> {
    data: &'d mut D,
    tables: Tables,
}

impl<D: DataAccess> Clerk<'_, D> {
    fn new_order(&mut self, order: &Order, rolls_back: bool) -> Done<Outcome, D::Error> {
        let tables = self.tables;
        let [w, d, number] = order.key;
        self.read(tables.warehouse, &key([w]), column::NUMBER)?;
        self.read(tables.customer, &key([w, d, order.customer]), column::NUMBER)?;
        let mut prices = Vec::with_capacity(order.lines.len());
        for line in &order.lines {
            prices.push(self.read(tables.item, &key([line.item]), column::NUMBER)?);
        }
        if rolls_back {
            return Ok(Outcome::Rollback { reason: "an item does not exist" });
        }
        let mut added = 1 + order.lines.len() as i64;
        // Orders may commit in a different order than that of their numbers.
        self.change(tables.district, &key([w, d]), |row| {
            let next = get(row, column::DISTRICT_NEXT).unwrap_or(0);
            set(row, column::DISTRICT_NEXT, next.max(i64::from(number) + 1));
        })?;
        let (count, customer) = (order.lines.len() as i64, i64::from(order.customer));
        self.insert(tables.orders, &key([w, d, number]), &[count, customer, 0])?;
        self.insert(tables.new_order, &key([w, d, number]), &[1])?;
        for (at, (line, price)) in (0..).zip(order.lines.iter().zip(prices)) {
            let quantity = line.quantity;
            self.change(tables.stock, &key([line.supplier, line.item]), |row| {
                let left = get(row, column::STOCK_QUANTITY).unwrap_or(0) - quantity;
                set(row, column::STOCK_QUANTITY, if left >= 10 { left } else { left + 91 });
                add(row, column::NUMBER, quantity);
                add(row, column::STOCK_ORDERS, 1);
                add(row, column::STOCK_REMOTE, i64::from(line.supplier != w));
            })?;
            let cents = price * quantity;
            added += cents + quantity;
            let numbers = [cents, i64::from(line.item), 0];
            self.insert(tables.order_line, &key([w, d, number, at]), &numbers)?;
        }
        Ok(Outcome::Commit { added })
    }

    fn payment(
        &mut self,
        [w, d]: [u32; 2],
        customer: [u32; 3],
        history: u32,
        cents: i64,
    ) -> Done<Outcome, D::Error> {
        let tables = self.tables;
        self.change(tables.warehouse, &key([w]), |row| add(row, column::NUMBER, cents))?;
        self.change(tables.district, &key([w, d]), |row| add(row, column::NUMBER, cents))?;
        self.change(tables.customer, &key(customer), |row| {
            add(row, column::NUMBER, -cents);
            add(row, column::CUSTOMER_PAYMENTS, 1);
        })?;
        self.insert(tables.history, &key([w, d, history]), &[cents])?;
        Ok(Outcome::Commit { added: 2 * cents })
    }

    fn order_status(&mut self, customer: [u32; 3], last: Option<u32>) -> Done<Outcome, D::Error> {
        let tables = self.tables;
        let [w, d, number] = customer;
        self.read(tables.customer, &key(customer), column::NUMBER)?;
        // The order may be in progress, or may have failed.
        let Some(last) = last else { return Ok(Outcome::Commit { added: 0 }) };
        let Some(row) = self.find(tables.orders, &key([w, d, last]))? else {
            return Ok(Outcome::Commit { added: 0 });
        };
        let lines = get(&row, column::NUMBER).unwrap_or(0);
        let orderer = get(&row, column::ORDER_CUSTOMER).unwrap_or(-1);
        let found = self.lines([w, d, last])?.len() as i64;
        if found != lines || orderer != i64::from(number) {
            let what = format!(
                "order {w}.{d}.{last} of customer {orderer} has {found} lines, not {lines}"
            );
            return Err(Unsound(what).into());
        }
        Ok(Outcome::Commit { added: 0 })
    }

    fn deliver_all(
        &mut self,
        transaction: &TpccTransaction,
        orders: &[Place],
        carrier: i64,
    ) -> Done<Outcome, D::Error> {
        let mut added = 0;
        for Place { district, order } in orders {
            let order = Order::of(&transaction.options, transaction.warehouse, *district, *order);
            added += self.deliver(&order, carrier)?;
        }
        Ok(Outcome::Commit { added })
    }

    /// Delivers an order and returns its net addition. Does nothing if the order does not exist
    /// (yet).
    fn deliver(&mut self, order: &Order, carrier: i64) -> Done<i64, D::Error> {
        let tables = self.tables;
        let [w, d, _] = order.key;
        let waits = self.data.delete(tables.new_order, &key(order.key)).map_err(End::Data)?;
        if !waits {
            return Ok(0);
        }
        self.change(tables.orders, &key(order.key), |row| {
            set(row, column::ORDER_CARRIER, carrier)
        })?;
        let mut cents = 0;
        for (line, amount) in self.lines(order.key)? {
            cents += amount;
            self.change(tables.order_line, &line, |row| set(row, column::LINE_DELIVERED, 1))?;
        }
        self.change(tables.customer, &key([w, d, order.customer]), |row| {
            add(row, column::NUMBER, cents);
            add(row, column::CUSTOMER_DELIVERIES, 1);
        })?;
        Ok(cents - 1)
    }

    fn stock_level(
        &mut self,
        [w, d]: [u32; 2],
        [first, next]: [u32; 2],
        items: &[u32],
        threshold: i64,
    ) -> Done<Outcome, D::Error> {
        let tables = self.tables;
        self.read(tables.district, &key([w, d]), column::DISTRICT_NEXT)?;
        let range = KeyRange::new(key([w, d, first]), Some(key([w, d, next])));
        let mut strange = None;
        let scanned = self.data.scan(tables.order_line, &range, |_, row| {
            let item = get(row, column::LINE_ITEM).unwrap_or(-1);
            if items.binary_search_by_key(&item, |item| i64::from(*item)).is_err() {
                strange = Some(item);
            }
            ControlFlow::Continue(())
        });
        scanned.map_err(End::Data)?;
        if let Some(item) = strange {
            return Err(Unsound(format!("an order of {w}.{d} has a line of item {item}")).into());
        }
        let mut low = 0;
        for item in items {
            let quantity = self.read(tables.stock, &key([w, *item]), column::STOCK_QUANTITY)?;
            low += u32::from(quantity < threshold);
        }
        debug_assert!(low as usize <= items.len());
        Ok(Outcome::Commit { added: 0 })
    }

    /// The keys and amounts of the lines of an order.
    fn lines(&mut self, order: [u32; 3]) -> Done<Vec<(Key, i64)>, D::Error> {
        let mut lines = Vec::new();
        let visit = |key: &[u8], row: &[u8]| {
            lines.push((Key::from_bytes(key), get(row, column::NUMBER).unwrap_or(0)));
            ControlFlow::Continue(())
        };
        self.data.scan(self.tables.order_line, &lines_of(order), visit).map_err(End::Data)?;
        Ok(lines)
    }

    fn find(&mut self, table: TableId, key: &Key) -> Done<Option<Vec<u8>>, D::Error> {
        Ok(self.data.get(table, key).map_err(End::Data)?.map(<[u8]>::to_vec))
    }

    fn read(&mut self, table: TableId, key: &Key, column: usize) -> Done<i64, D::Error> {
        let row = self.data.get(table, key).map_err(End::Data)?;
        let value = row.and_then(|row| get(row, column));
        value.ok_or_else(|| Unsound(format!("row {table}[{key}] is missing or damaged")).into())
    }

    fn change(
        &mut self,
        table: TableId,
        key: &Key,
        change: impl FnOnce(&mut [u8]),
    ) -> Done<(), D::Error> {
        match self.data.update(table, key, change).map_err(End::Data)? {
            true => Ok(()),
            false => Err(Unsound(format!("row {table}[{key}] is missing")).into()),
        }
    }

    fn insert(&mut self, table: TableId, key: &Key, numbers: &[i64]) -> Done<(), D::Error> {
        let row = self.tables.row(table, numbers);
        self.data.insert(table, key, &row).map_err(End::Data)
    }
}
