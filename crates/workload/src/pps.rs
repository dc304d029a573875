//! Products, parts and suppliers. Suppliers share parts, so no tree of tables makes all
//! transactions local (Clay, section 8.4).
//!
//! ```text
//!   product 0: parts 0..9          product 1: parts 10..19        ...     ten parts each, unshared
//!   supplier 0: parts 0..199       supplier 1: parts 100..299    neighbours share half their parts
//! ```
//!
//! | transaction | share | reads | writes |
//! | --- | ---: | --- | --- |
//! | part | 20 % | a part | |
//! | product | 20 % | a product | |
//! | supplier | 20 % | a supplier | |
//! | parts of a product | 20 % | a product and its ten parts | |
//! | parts of a supplier | 20 % | a supplier | the stock of ten of its parts, by Zipf 0.99 |
//!
//! A hot spot of suppliers can get a share of all draws of a supplier. [`Pps::heat`] moves the hot
//! spot during a run.
//!
//! # The check
//!
//! Every row begins with a number. Only "parts of a supplier" changes it: it adds one to the stock
//! of each part.
//!
//! # What differs from the paper
//!
//! In the paper all transactions only read. Here "parts of a supplier" adds to the stock, so that
//! there is something to check, and something that only a master can do. The parts of a product and
//! of a supplier are computed, not stored in two more tables.

use crate::error::{check_count, check_share};
use crate::number::{add_to_number, number};
use crate::{
    Audit, Chooser, DataAccess, LoadRow, OptionsError, Outcome, Random, Skew, Totals, Transaction,
    Workload,
};
use isomer_design::{Access, Column, ColumnType, Footprint, Key, Schema, Span, TableId, Value};
use rand::RngExt;
use std::collections::BTreeMap;

const PARTS_PER_PRODUCT: u64 = 10;
const PRODUCTS_PER_SUPPLIER: u64 = 10;
/// The distance between the first parts of two neighbouring suppliers. Each supplies twice this
/// number of parts.
const PARTS_APART: u64 = PARTS_PER_PRODUCT * PRODUCTS_PER_SUPPLIER;
const PARTS_PER_SUPPLIER: u64 = 2 * PARTS_APART;
/// The number of parts in a "parts of a supplier" transaction.
const PARTS_TAKEN: usize = 10;

/// Suppliers that are drawn more often than others.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HotSuppliers {
    /// The first hot supplier.
    pub first: u64,
    /// The number of hot suppliers: every second one, beginning with `first`.
    pub count: u64,
    /// The share of all draws of a supplier that goes to hot ones.
    pub share: f64,
}

/// Options of [`Pps`].
#[derive(Clone, PartialEq, Debug)]
pub struct PpsOptions {
    /// The number of suppliers. Each has ten products and a hundred parts.
    pub suppliers: u64,
    /// The hot suppliers, if any. The paper has six with a share of 0.2.
    pub hot: Option<HotSuppliers>,
}

impl Default for PpsOptions {
    /// A thousand suppliers, ten thousand products, and a hundred thousand parts; six hot suppliers
    /// with a share of 0.2.
    fn default() -> PpsOptions {
        PpsOptions { suppliers: 1000, hot: Some(HotSuppliers { first: 0, count: 6, share: 0.2 }) }
    }
}

/// The benchmark; see the module documentation.
#[derive(Clone, Debug)]
pub struct Pps {
    options: PpsOptions,
    tables: Tables,
    cold: Chooser,
    place: Chooser,
}

/// The ids of the three tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tables {
    suppliers: TableId,
    products: TableId,
    parts: TableId,
}

/// A transaction of [`Pps`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PpsTransaction {
    tables: Tables,
    asked: Asked,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Asked {
    Part(u64),
    Product(u64),
    Supplier(u64),
    PartsOfProduct(u64),
    PartsOfSupplier(u64, [u64; PARTS_TAKEN]),
}

impl Pps {
    /// Creates the benchmark. Suppliers, products and parts get consecutive table ids from `first`
    /// on.
    ///
    /// # Errors
    /// If an option is invalid.
    pub fn new(options: PpsOptions, first: TableId) -> Result<Pps, OptionsError> {
        check_count("suppliers", options.suppliers, 2..=1 << 30)?;
        check_hot(&options)?;
        let cold = Chooser::new(options.suppliers, Skew::Zipf(0.1))?;
        let place = Chooser::new(PARTS_PER_SUPPLIER, Skew::Zipf(0.99))?;
        let table = |at: u32| TableId(first.0 + at);
        let tables = Tables { suppliers: table(0), products: table(1), parts: table(2) };
        Ok(Pps { options, tables, cold, place })
    }

    /// Moves the hot spot to other suppliers.
    ///
    /// # Errors
    /// If `hot` is invalid for the number of suppliers.
    pub fn heat(&mut self, hot: Option<HotSuppliers>) -> Result<(), OptionsError> {
        let options = PpsOptions { hot, ..self.options.clone() };
        check_hot(&options)?;
        self.options = options;
        Ok(())
    }

    fn supplier(&self, rng: &mut Random) -> u64 {
        match self.options.hot {
            Some(hot) if rng.random_bool(hot.share) => {
                (hot.first + 2 * rng.random_range(0..hot.count)) % self.options.suppliers
            }
            _ => self.cold.choose(rng),
        }
    }

    fn products(&self) -> u64 {
        self.options.suppliers * PRODUCTS_PER_SUPPLIER
    }

    fn parts(&self) -> u64 {
        self.products() * PARTS_PER_PRODUCT
    }

    /// Draws ten different parts of a supplier, in ascending order, so that writers lock them in
    /// the same order.
    fn parts_of(&self, supplier: u64, rng: &mut Random) -> [u64; PARTS_TAKEN] {
        let mut taken = [u64::MAX; PARTS_TAKEN];
        for at in 0..PARTS_TAKEN {
            let mut place = self.place.choose(rng);
            while taken[..at].contains(&place) {
                place = (place + 1) % PARTS_PER_SUPPLIER;
            }
            taken[at] = place;
        }
        let mut parts = taken.map(|place| (PARTS_APART * supplier + place) % self.parts());
        parts.sort_unstable();
        parts
    }
}

fn check_hot(options: &PpsOptions) -> Result<(), OptionsError> {
    let Some(hot) = options.hot else { return Ok(()) };
    check_count("hot suppliers", hot.count, 1..=options.suppliers / 2)?;
    check_count("as the first hot supplier", hot.first, 0..=options.suppliers - 1)?;
    check_share("the share of hot suppliers", hot.share)
}

/// `NAME(id int64, number int64) key id`.
fn schema(name: &str) -> Schema {
    let columns =
        vec![Column::new("id", ColumnType::Int64), Column::new("number", ColumnType::Int64)];
    Schema::new(name, columns, &["id"]).expect("the schema is valid")
}

impl Workload for Pps {
    type Transaction = PpsTransaction;

    fn name(&self) -> &'static str {
        "pps"
    }

    fn tables(&self) -> Vec<(TableId, Schema)> {
        let Tables { suppliers, products, parts } = self.tables;
        let named = [(suppliers, "suppliers"), (products, "products"), (parts, "parts")];
        named.map(|(table, name)| (table, schema(name))).into()
    }

    /// The partition borders: each partition has about `rows` parts, or the products or suppliers
    /// that belong to them.
    fn borders(&self, rows: u64) -> BTreeMap<TableId, Vec<Key>> {
        let suppliers = rows.div_ceil(PARTS_APART);
        let borders = |each: u64| -> Vec<Key> {
            let starts = (1..self.options.suppliers.div_ceil(suppliers)).map(|at| at * suppliers);
            starts.map(|supplier| Key::int((supplier * each) as i64)).collect()
        };
        let Tables { suppliers: of_suppliers, products, parts } = self.tables;
        let each = [(of_suppliers, 1), (products, PRODUCTS_PER_SUPPLIER), (parts, PARTS_APART)];
        each.into_iter().map(|(table, each)| (table, borders(each))).collect()
    }

    fn load(&self) -> impl Iterator<Item = LoadRow> {
        let (_, template) = schema("parts")
            .encode_row(&[Value::Int64(0), Value::Int64(0)])
            .expect("the values fit the schema");
        let Tables { suppliers, products, parts } = self.tables;
        let counts = [
            (suppliers, self.options.suppliers),
            (products, self.products()),
            (parts, self.parts()),
        ];
        let places =
            counts.into_iter().flat_map(|(table, count)| (0..count).map(move |id| (table, id)));
        places.map(move |(table, id)| LoadRow {
            table,
            key: Key::int(id as i64),
            row: template.clone(),
        })
    }

    fn next(&mut self, rng: &mut Random) -> PpsTransaction {
        let asked = match rng.random_range(0..5) {
            0 => Asked::Part(rng.random_range(0..self.parts())),
            1 => Asked::Product(rng.random_range(0..self.products())),
            2 => Asked::Supplier(self.supplier(rng)),
            3 => Asked::PartsOfProduct(rng.random_range(0..self.products())),
            _ => {
                let supplier = self.supplier(rng);
                Asked::PartsOfSupplier(supplier, self.parts_of(supplier, rng))
            }
        };
        PpsTransaction { tables: self.tables, asked }
    }

    fn loaded(&self) -> Totals {
        let rows = self.options.suppliers + self.products() + self.parts();
        Totals { rows, damaged: 0, sum: 0 }
    }

    fn audits(&self, rows: u64) -> Vec<Audit> {
        let Tables { suppliers, products, parts } = self.tables;
        let counts = [
            (suppliers, self.options.suppliers),
            (products, self.products()),
            (parts, self.parts()),
        ];
        counts.into_iter().flat_map(|(table, count)| Audit::of_table(table, count, rows)).collect()
    }
}

impl PpsTransaction {
    /// The rows that it accesses.
    fn items(&self) -> Vec<(TableId, u64, Access)> {
        let Tables { suppliers, products, parts } = self.tables;
        match &self.asked {
            Asked::Part(part) => vec![(parts, *part, Access::Read)],
            Asked::Product(product) => vec![(products, *product, Access::Read)],
            Asked::Supplier(supplier) => vec![(suppliers, *supplier, Access::Read)],
            Asked::PartsOfProduct(product) => {
                let first = PARTS_PER_PRODUCT * product;
                let all = first..first + PARTS_PER_PRODUCT;
                let all = all.map(|part| (parts, part, Access::Read));
                std::iter::once((products, *product, Access::Read)).chain(all).collect()
            }
            Asked::PartsOfSupplier(supplier, taken) => {
                let all = taken.iter().map(|part| (parts, *part, Access::Write));
                std::iter::once((suppliers, *supplier, Access::Read)).chain(all).collect()
            }
        }
    }
}

impl Transaction for PpsTransaction {
    fn name(&self) -> &'static str {
        match self.asked {
            Asked::Part(_) => "part",
            Asked::Product(_) => "product",
            Asked::Supplier(_) => "supplier",
            Asked::PartsOfProduct(_) => "parts_of_product",
            Asked::PartsOfSupplier(..) => "parts_of_supplier",
        }
    }

    fn footprint_into(&self, footprint: &mut Footprint) {
        for (table, id, access) in self.items() {
            footprint.add(table, Span::Key(Key::int(id as i64)), access);
        }
    }

    fn run<D: DataAccess>(&self, data: &mut D) -> Result<Outcome, D::Error> {
        let mut added = 0;
        for (table, id, access) in self.items() {
            let key = Key::int(id as i64);
            let is_sound = match access {
                Access::Read => data.get(table, &key)?.and_then(number).is_some(),
                Access::Write => {
                    added += 1;
                    let mut is_number = true;
                    let restock = |row: &mut [u8]| is_number = add_to_number(row, 1);
                    data.update(table, &key, restock)? && is_number
                }
            };
            if !is_sound {
                let what = format!("{table}[{id}] is missing or damaged");
                return Ok(Outcome::Inconsistent { what });
            }
        }
        Ok(Outcome::Commit { added })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Model, random};

    const FIRST: TableId = TableId(3);

    fn pps(hot: Option<HotSuppliers>) -> Pps {
        Pps::new(PpsOptions { suppliers: 20, hot }, FIRST).unwrap()
    }

    #[test]
    fn stock_equals_the_committed_restocks() {
        let mut pps = pps(None);
        let mut data = Model::loaded(&pps);
        assert_eq!(data.totals(), pps.loaded());
        let (mut rng, mut added) = (random(1), 0);
        for _ in 0..5000 {
            match data.execute(&pps.next(&mut rng)).unwrap() {
                Outcome::Commit { added: net } => added += i128::from(net),
                other => panic!("{other:?}"),
            }
        }
        assert!(added > 5000, "a fifth of the transactions restocks ten parts");
        assert_eq!(pps.verify(&mut data, added), Ok(Ok(())));
        assert!(pps.verify(&mut data, added + 1).unwrap().is_err());
        data.delete(FIRST, &Key::int(4)).unwrap();
        let supplier = PpsTransaction { tables: pps.tables, asked: Asked::Supplier(4) };
        let Outcome::Inconsistent { what } = data.execute(&supplier).unwrap() else { panic!() };
        assert_eq!(what, "t3[4] is missing or damaged");
    }

    #[test]
    fn partitions_of_the_tables_begin_together() {
        let borders = pps(None).borders(500);
        let starts = |table: u32| borders[&TableId(table)].clone();
        assert_eq!(starts(3), [5, 10, 15].map(Key::int));
        assert_eq!(starts(4), [50, 100, 150].map(Key::int));
        assert_eq!(starts(5), [500, 1000, 1500].map(Key::int));
    }

    #[test]
    fn the_hot_spot_is_where_it_was_set_and_can_be_moved() {
        let hot = |first| Some(HotSuppliers { first, count: 3, share: 0.6 });
        let mut pps = pps(hot(0));
        let share = |pps: &Pps, hot: [u64; 3]| {
            let mut rng = random(2);
            let drawn = (0..10_000).filter(|_| hot.contains(&pps.supplier(&mut rng)));
            drawn.count()
        };
        // Of the other draws, 3 of 20 hit hot suppliers, too.
        assert!((6400..6900).contains(&share(&pps, [0, 2, 4])));
        pps.heat(hot(7)).unwrap();
        assert!((6400..6900).contains(&share(&pps, [7, 9, 11])));
        let refused = pps.heat(Some(HotSuppliers { first: 20, count: 3, share: 0.5 }));
        assert_eq!(
            refused.unwrap_err().to_string(),
            "20 as the first hot supplier: at most 19 are possible"
        );
        let refused = pps.heat(Some(HotSuppliers { first: 0, count: 11, share: 0.5 }));
        assert_eq!(refused.unwrap_err().to_string(), "11 hot suppliers: at most 10 are possible");
    }

    #[test]
    fn the_parts_of_a_supplier_are_ten_of_its_two_hundred() {
        let pps = pps(None);
        let mut rng = random(3);
        for supplier in 0..19 {
            let parts = pps.parts_of(supplier, &mut rng);
            assert!(parts.is_sorted_by(|a, b| a < b), "{parts:?}");
            let all = PARTS_APART * supplier..PARTS_APART * supplier + PARTS_PER_SUPPLIER;
            assert!(parts.iter().all(|part| all.contains(part)), "{supplier}: {parts:?}");
        }
        assert!(pps.parts_of(19, &mut rng).iter().all(|part| *part < 2000));
    }
}
