//! The consistency conditions of the standard, for a database without running transactions.
//!
//! | condition of the standard (3.3.2) | checked by |
//! | --- | --- |
//! | 1, 8: sales of a warehouse are the sum over its districts, and over its payments | cents |
//! | 2: the next order number of a district follows its last order | district and its orders |
//! | 3: the numbers of new orders have no gaps | not checked: failed transactions leave gaps |
//! | 4, 6: each order has its declared number of lines | lines per order |
//! | 5: an order has a carrier if and only if it is not a new order | carrier per order |
//! | 7: lines are delivered together with their order | lines per order |
//! | 9: the sales of a district are the sum of its payments | cents per district |
//! | 10, 12: customers owe their deliveries minus their payments | cents over all customers |

use super::rows::{Tables, column, get};
use crate::workload::Examiner;
use isomer_design::{Key, TableId};
use std::collections::BTreeMap;

type Place = [i64; 3];

/// The rows of an order, which must agree.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Seen {
    exists: bool,
    /// The number of lines according to the order.
    lines: i64,
    carrier: bool,
    is_new: bool,
    found: i64,
    delivered: i64,
}

/// See the [module documentation](self).
pub(super) struct Conditions {
    tables: Tables,
    warehouses: BTreeMap<i64, i64>,
    districts: BTreeMap<[i64; 2], (i64, i64)>,
    paid: BTreeMap<[i64; 2], i64>,
    orders: BTreeMap<Place, Seen>,
    balances: i64,
    delivered: i64,
    strange: Option<String>,
}

impl Conditions {
    pub(super) fn new(tables: Tables) -> Conditions {
        Conditions {
            tables,
            warehouses: BTreeMap::new(),
            districts: BTreeMap::new(),
            paid: BTreeMap::new(),
            orders: BTreeMap::new(),
            balances: 0,
            delivered: 0,
            strange: None,
        }
    }

    fn order(&mut self, key: &[i64]) -> &mut Seen {
        self.orders.entry([key[0], key[1], key[2]]).or_default()
    }

    fn money(&self) -> Result<(), String> {
        for (w, sold) in &self.warehouses {
            let districts = self.districts.range([*w, 0]..[*w + 1, 0]);
            let sum: i64 = districts.map(|(_, (cents, _))| cents).sum();
            if sum != *sold {
                return Err(format!("warehouse {w} has sold for {sold}, its districts for {sum}"));
            }
        }
        for ([w, d], (cents, _)) in &self.districts {
            let paid = self.paid.get(&[*w, *d]).copied().unwrap_or(0);
            if paid != *cents {
                return Err(format!(
                    "district {w}.{d} has sold for {cents}, its payments are {paid}"
                ));
            }
        }
        let paid: i64 = self.paid.values().sum();
        if self.balances != self.delivered - paid {
            let Conditions { balances, delivered, .. } = self;
            return Err(format!(
                "customers' balances are {balances}; for {delivered} was delivered and {paid} paid"
            ));
        }
        Ok(())
    }

    fn numbers(&self) -> Result<(), String> {
        for ([w, d], (_, next)) in &self.districts {
            let last = self.orders.range([*w, *d, 0]..[*w, *d + 1, 0]).next_back();
            let last = last.map_or(-1, |(place, _)| place[2]);
            if *next != last + 1 {
                return Err(format!(
                    "district {w}.{d} goes on with order {next}, but its last is {last}"
                ));
            }
        }
        Ok(())
    }
}

impl Examiner for Conditions {
    fn see(&mut self, table: TableId, key: &[u8], row: &[u8]) {
        let tables = self.tables;
        let parts = Key::from_bytes(key).to_ints();
        let (Some(at), Some(number)) = (parts, get(row, column::NUMBER)) else {
            self.strange = Some(format!("{table}[{}] is damaged", Key::from_bytes(key)));
            return;
        };
        let second = |column| get(row, column).unwrap_or(i64::MIN);
        if table == tables.warehouse {
            self.warehouses.insert(at[0], number);
        } else if table == tables.district {
            self.districts.insert([at[0], at[1]], (number, second(column::DISTRICT_NEXT)));
        } else if table == tables.customer {
            self.balances += number;
        } else if table == tables.history {
            *self.paid.entry([at[0], at[1]]).or_default() += number;
        } else if table == tables.orders {
            let carrier = second(column::ORDER_CARRIER) != 0;
            let seen = self.order(&at);
            (seen.exists, seen.lines, seen.carrier) = (true, number, carrier);
        } else if table == tables.new_order {
            self.order(&at).is_new = true;
        } else if table == tables.order_line {
            let delivered = second(column::LINE_DELIVERED);
            self.delivered += number * delivered;
            let seen = self.order(&at);
            seen.found += 1;
            seen.delivered += delivered;
        }
    }

    fn verdict(&self) -> Result<(), String> {
        self.strange.clone().map_or(Ok(()), Err)?;
        for ([w, d, o], seen) in &self.orders {
            let delivered = if seen.carrier { seen.lines } else { 0 };
            let is_sound = seen.exists
                && seen.lines == seen.found
                && seen.is_new != seen.carrier
                && seen.delivered == delivered;
            if !is_sound {
                return Err(format!("order {w}.{d}.{o} does not agree with itself: {seen:?}"));
            }
        }
        self.numbers()?;
        self.money()
    }
}
