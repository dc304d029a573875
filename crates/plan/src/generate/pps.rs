//! Products, parts, suppliers (Clay, section 8.4): parts are shared, so no tree of tables fits.
//!
//! Product i uses parts 10i to 10i+9. Supplier i supplies 200 parts from part 100i on, so
//! neighbouring suppliers share half their parts. Five read-only transactions, one fifth each: a
//! part, a product, a supplier, the parts of a product, ten of the parts of a supplier by Zipf
//! 0.99.

use super::{GenerateError, KEYS_MAX, Random, Touch, Workload, Zipf, sized};
use rand::RngExt;

const PARTS: u8 = 0;
const PRODUCTS: u8 = 1;
const SUPPLIERS: u8 = 2;
const SUPPLIES: u8 = 3;
const USES: u8 = 4;
const PARTS_PER_PRODUCT: u64 = 10;
const PARTS_PER_SUPPLIER: u64 = 200;
/// Parts read by "parts of a supplier".
const PARTS_READ: usize = 10;
/// The hot suppliers.
const HOT: [u64; 6] = [0, 2, 4, 6, 8, 10];

/// The generator.
#[derive(Clone, Debug)]
pub struct Pps {
    suppliers: u64,
    products: u64,
    parts: u64,
    hot_share: f64,
    cold: Zipf,
    position: Zipf,
}

impl Pps {
    /// A generator with `suppliers` suppliers, 10 products and 100 parts each. A share `hot_share`
    /// of the draws of a supplier take one of six hot ones (0.2 in the paper); the others follow
    /// Zipf 0.1.
    pub fn new(suppliers: u64, hot_share: f64) -> Result<Pps, GenerateError> {
        sized("suppliers", suppliers, KEYS_MAX / 1000, "at most a thousand million")?;
        if !(0.0..=1.0).contains(&hot_share) {
            let right = "a share from 0 to 1";
            return Err(GenerateError { what: "hot share", value: hot_share, right });
        }
        let (products, parts) = (suppliers * 10, suppliers * 100);
        let cold = Zipf::new(suppliers, 0.1)?;
        let position = Zipf::new(PARTS_PER_SUPPLIER.min(parts), 0.99)?;
        Ok(Pps { suppliers, products, parts, hot_share, cold, position })
    }

    fn supplier(&self, random: &mut Random) -> u64 {
        if random.random_bool(self.hot_share) {
            return HOT[random.random_range(0..HOT.len())] % self.suppliers;
        }
        self.cold.draw(random)
    }

    fn parts_of_supplier(&self, supplier: u64, random: &mut Random, touches: &mut Vec<Touch>) {
        let supplied = PARTS_PER_SUPPLIER.min(self.parts);
        let mut drawn: Vec<u64> = Vec::with_capacity(PARTS_READ);
        while drawn.len() < PARTS_READ.min(supplied as usize) {
            let mut position = self.position.draw(random);
            while drawn.contains(&position) {
                position = (position + 1) % supplied;
            }
            drawn.push(position);
        }
        let part = |position: u64| (100 * supplier + position) % self.parts;
        touches.extend(drawn.into_iter().map(|position| read(PARTS, part(position))));
    }
}

fn read(table: u8, key: u64) -> Touch {
    Touch { table, key: key as i64, write: false }
}

impl Workload for Pps {
    fn tables(&self) -> &'static [&'static str] {
        &["parts", "products", "suppliers", "supplies", "uses"]
    }

    fn transaction(&mut self, _at_us: i64, random: &mut Random, touches: &mut Vec<Touch>) {
        match random.random_range(0..5) {
            0 => touches.push(read(PARTS, random.random_range(0..self.parts))),
            1 => touches.push(read(PRODUCTS, random.random_range(0..self.products))),
            2 => touches.push(read(SUPPLIERS, self.supplier(random))),
            3 => {
                let product = random.random_range(0..self.products);
                touches.extend([read(PRODUCTS, product), read(USES, product)]);
                let first = PARTS_PER_PRODUCT * product;
                touches.extend((first..first + PARTS_PER_PRODUCT).map(|part| read(PARTS, part)));
            }
            _ => {
                let supplier = self.supplier(random);
                touches.extend([read(SUPPLIERS, supplier), read(SUPPLIES, supplier)]);
                self.parts_of_supplier(supplier, random, touches);
            }
        }
    }
}
