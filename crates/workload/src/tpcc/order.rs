//! Orders as functions of their numbers, and the counters that assign the numbers.

use super::{DISTRICTS, TpccOptions};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Of the initial orders, this number in ten is delivered.
const DELIVERED_TENTHS: u32 = 7;
/// The constants of the standard's non-uniform distributions of customers and items.
const UNEVEN_CUSTOMERS: u32 = 1023;
const UNEVEN_ITEMS: u32 = 8191;

/// An order, as far as its number determines it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Order {
    /// The warehouse, district and number.
    pub key: [u32; 3],
    /// The number of the customer in the district.
    pub customer: u32,
    /// The lines, all of different items.
    pub lines: Vec<Line>,
}

/// A line of an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    /// The item.
    pub item: u32,
    /// The warehouse that supplies it.
    pub supplier: u32,
    /// The ordered quantity.
    pub quantity: i64,
}

/// A pseudo-random number generator that depends only on its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u32) -> u32 {
        (self.roll() % u64::from(limit)) as u32
    }
}

/// The non-uniform distribution of the standard over numbers below `limit`.
fn uneven(dice: &mut Dice, spread: u32, limit: u32) -> u32 {
    (dice.below(spread + 1) | dice.below(limit)) % limit
}

/// Maps a random number to a customer of a district.
pub(super) fn customer(options: &TpccOptions, random: u64) -> u32 {
    uneven(&mut Dice(random), UNEVEN_CUSTOMERS, options.customers)
}

impl Order {
    /// Returns the order with a number.
    pub fn of(options: &TpccOptions, warehouse: u32, district: u32, number: u32) -> Order {
        let place = u64::from(warehouse * DISTRICTS + district) << 32 | u64::from(number);
        let mut dice = Dice(place);
        // Initially every customer has one order.
        let customer = match number < options.customers {
            true => number,
            false => customer(options, dice.roll()),
        };
        let count = 5 + dice.below(11) as usize;
        let share = f64::from(dice.below(1 << 24)) / f64::from(1 << 24);
        let remote = options.warehouses > 1 && share < options.remote_orders;
        let remote_line = if remote { dice.below(count as u32) as usize } else { usize::MAX };
        let mut lines: Vec<Line> = Vec::with_capacity(count);
        while lines.len() < count {
            let item = uneven(&mut dice, UNEVEN_ITEMS, options.items);
            if lines.iter().any(|line| line.item == item) {
                continue;
            }
            let supplier = match lines.len() == remote_line {
                true => (warehouse + 1 + dice.below(options.warehouses - 1)) % options.warehouses,
                false => warehouse,
            };
            lines.push(Line { item, supplier, quantity: i64::from(1 + dice.below(10)) });
        }
        Order { key: [warehouse, district, number], customer, lines }
    }
}

/// The counters of the next numbers, shared by all clients.
#[derive(Debug)]
pub(super) struct Numbers {
    districts: Vec<District>,
    /// By customer: the number of the last order plus one, or 0 if there is none.
    last: Vec<AtomicU32>,
}

#[derive(Debug)]
struct District {
    order: AtomicU32,
    undelivered: AtomicU32,
    history: AtomicU32,
}

impl Numbers {
    pub(super) fn new(options: &TpccOptions) -> Numbers {
        let district = |_| District {
            order: AtomicU32::new(options.customers),
            undelivered: AtomicU32::new(first_undelivered(options)),
            history: AtomicU32::new(0),
        };
        let districts = options.warehouses * DISTRICTS;
        let last = |at: u32| AtomicU32::new(at % options.customers + 1);
        Numbers {
            districts: (0..districts).map(district).collect(),
            last: (0..districts * options.customers).map(last).collect(),
        }
    }

    fn district(&self, warehouse: u32, district: u32) -> &District {
        &self.districts[(warehouse * DISTRICTS + district) as usize]
    }

    fn last(&self, options: &TpccOptions, [warehouse, district, customer]: [u32; 3]) -> &AtomicU32 {
        let at = (warehouse * DISTRICTS + district) * options.customers + customer;
        &self.last[at as usize]
    }

    /// The next order number of a district.
    pub(super) fn next_order(&self, warehouse: u32, district: u32) -> u32 {
        self.district(warehouse, district).order.load(Relaxed)
    }

    /// Assigns the next order number of a district, and records it as the last order of its
    /// customer.
    pub(super) fn take_order(&self, options: &TpccOptions, warehouse: u32, district: u32) -> u32 {
        let number = self.district(warehouse, district).order.fetch_add(1, Relaxed);
        let customer = Order::of(options, warehouse, district, number).customer;
        self.last(options, [warehouse, district, customer]).fetch_max(number + 1, Relaxed);
        number
    }

    /// The last order of a customer.
    pub(super) fn last_order(
        &self,
        options: &TpccOptions,
        warehouse: u32,
        district: u32,
        customer: u32,
    ) -> Option<u32> {
        self.last(options, [warehouse, district, customer]).load(Relaxed).checked_sub(1)
    }

    /// Takes the oldest order of a district that no delivery has taken.
    pub(super) fn take_undelivered(&self, warehouse: u32, district: u32) -> Option<u32> {
        let district = self.district(warehouse, district);
        let end = district.order.load(Relaxed);
        let next = |number: u32| (number < end).then_some(number + 1);
        district.undelivered.fetch_update(Relaxed, Relaxed, next).ok()
    }

    /// Takes the next payment number of a district.
    pub(super) fn take_history(&self, warehouse: u32, district: u32) -> u32 {
        self.district(warehouse, district).history.fetch_add(1, Relaxed)
    }
}

/// The first order of a district that is undelivered initially.
pub(super) fn first_undelivered(options: &TpccOptions) -> u32 {
    options.customers * DELIVERED_TENTHS / 10
}
