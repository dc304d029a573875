//! TPC-H: its tables, its 22 queries with the parameters of their validation, and rows like those
//! of its generator.
//!
//! The rows follow the rules of clause 4.2.3 for keys, dates, amounts and the words that queries
//! ask for. Other texts have a few words, and the columns for two of them are longer. The numbers
//! are those of the seed, so results are not those that the standard prints.
//!
//! Indexes are the primary keys, and one for each foreign key without one.

use super::{Query, Rows, Set};
use isomer_workload::{Random, random};
use rand::RngExt;
use std::fmt::Display;

/// The tables and their indexes.
pub(super) const SCHEMA: &str = include_str!("tpch-schema.sql");

/// The queries, each after a line with its name.
const QUERIES: &str = include_str!("tpch.sql");

/// Days from 1992-01-01, the first day of orders, to 1995-06-17, the current day.
const TODAY: i32 = 1263;
/// Days from 1992-01-01 to 1998-08-02, the last day of orders.
const LAST_ORDER: i32 = 2405;

const REGIONS: [&str; 5] = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"];

/// Nations and their regions.
const NATIONS: [(&str, usize); 25] = [
    ("ALGERIA", 0),
    ("ARGENTINA", 1),
    ("BRAZIL", 1),
    ("CANADA", 1),
    ("EGYPT", 4),
    ("ETHIOPIA", 0),
    ("FRANCE", 3),
    ("GERMANY", 3),
    ("INDIA", 2),
    ("INDONESIA", 2),
    ("IRAN", 4),
    ("IRAQ", 4),
    ("JAPAN", 2),
    ("JORDAN", 4),
    ("KENYA", 0),
    ("MOROCCO", 0),
    ("MOZAMBIQUE", 0),
    ("PERU", 1),
    ("CHINA", 2),
    ("ROMANIA", 3),
    ("SAUDI ARABIA", 4),
    ("VIETNAM", 2),
    ("RUSSIA", 3),
    ("UNITED KINGDOM", 3),
    ("UNITED STATES", 1),
];

/// Words of the names of parts.
const COLOURS: &str = "almond antique aquamarine azure beige bisque black blanched blue blush brown \
    burlywood burnished chartreuse chiffon chocolate coral cornflower cornsilk cream cyan dark deep \
    dim dodger drab firebrick floral forest frosted gainsboro ghost goldenrod green grey honeydew \
    hot indian ivory khaki lace lavender lawn lemon light lime linen magenta maroon medium metallic \
    midnight mint misty moccasin navajo navy olive orange orchid pale papaya peach peru pink plum \
    powder puff purple red rose rosy royal saddle salmon sandy seashell sienna sky slate smoke snow \
    spring steel tan thistle tomato turquoise violet wheat white yellow";

/// Syllables of the types and containers of parts.
const SIZES: [&str; 6] = ["STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"];
const FINISHES: [&str; 5] = ["ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"];
const METALS: [&str; 5] = ["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"];
const PACKS: [&str; 5] = ["SM", "LG", "MED", "JUMBO", "WRAP"];
const BOXES: [&str; 8] = ["CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"];

const SEGMENTS: [&str; 5] = ["AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD"];
const PRIORITIES: [&str; 5] = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"];
const INSTRUCTIONS: [&str; 4] = ["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"];
const MODES: [&str; 7] = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"];

/// Words of comments.
const WORDS: &str = "foxes ideas theodolites pinto beans instructions dependencies excuses \
    platelets asymptotes courts dolphins multipliers sauternes warthogs frets dinos attainments \
    somas sleep wake are cajole haggle nag use boost affix detect integrate maintain nod was lose \
    furious sly careful blithe quick fluffy slow quiet ruthless thin close dogged daring brave \
    stealthy permanent enticing idle busy regular final ironic even bold silent special pending \
    unusual express requests packages accounts deposits";

/// The queries. One of them has a share that depends on the scale.
pub(super) fn queries(scale: f64) -> Vec<Query> {
    let fraction = format!("{:.6}", 0.0001 / scale);
    let named = |text: &str| {
        let (name, text) = text.split_once('\n').expect("a name is a line");
        let text = text.trim().replace(":fraction", &fraction);
        Query { name: format!("tpch_{name}"), set: Set::TpcH, text, keys: Vec::new() }
    };
    QUERIES.split("-- ").filter(|text| !text.is_empty()).map(named).collect()
}

/// The rows of all tables.
pub(super) fn rows(scale: f64, seed: u64) -> Vec<Rows> {
    let sizes = Sizes::of(scale);
    let rng = &mut random(seed);
    let mut tables = vec![regions(), nations()];
    tables.push(suppliers(sizes, rng));
    tables.push(customers(sizes, rng));
    tables.extend(parts(sizes, rng));
    tables.extend(orders(sizes, rng));
    tables
}

/// Rows of the tables that the scale determines.
#[derive(Clone, Copy)]
struct Sizes {
    suppliers: i32,
    customers: i32,
    parts: i32,
    orders: i32,
}

impl Sizes {
    fn of(scale: f64) -> Sizes {
        // Each part has four different suppliers, and every third customer has no order.
        let rows = |of_one: f64| ((of_one * scale).round() as i32).max(8);
        Sizes {
            suppliers: rows(10_000.0),
            customers: rows(150_000.0),
            parts: rows(200_000.0),
            orders: rows(1_500_000.0),
        }
    }

    /// Supplier number `number` (0 to 3) of a part.
    fn supplier(self, part: i32, number: i32) -> i32 {
        let all = self.suppliers;
        // The standard's step meets a supplier twice if there are few.
        let step = all / 4 + (part - 1) / all;
        let is_round = (1..4).any(|times| times * step % all == 0);
        (part + number * if is_round { all / 4 } else { step }) % all + 1
    }
}

fn regions() -> Rows {
    let mut rows = Rows::of("region");
    for (key, name) in REGIONS.iter().enumerate() {
        rows.row(format_args!("{key}\t{name}\tregion number {key}"));
    }
    rows
}

fn nations() -> Rows {
    let mut rows = Rows::of("nation");
    for (key, (name, region)) in NATIONS.iter().enumerate() {
        rows.row(format_args!("{key}\t{name}\t{region}\tnation number {key}"));
    }
    rows
}

fn suppliers(sizes: Sizes, rng: &mut Random) -> Rows {
    let mut rows = Rows::of("supplier");
    for key in 1..=sizes.suppliers {
        let (nation, mut comment) = (nation(rng), words(rng, 6));
        // Five of 10,000 suppliers have complaints, and as many have recommendations.
        match key % 2000 {
            7 => comment.push_str(" Customer insists on Complaints"),
            8 => comment.push_str(" Customer insists on Recommends"),
            _ => {}
        }
        let (phone, balance) = (phone(nation, rng), balance(rng));
        rows.row(format_args!(
            "{key}\tSupplier#{key:09}\t{}\t{nation}\t{phone}\t{balance}\t{comment}",
            words(rng, 2)
        ));
    }
    rows
}

fn customers(sizes: Sizes, rng: &mut Random) -> Rows {
    let mut rows = Rows::of("customer");
    for key in 1..=sizes.customers {
        let (address, nation, segment) = (words(rng, 2), nation(rng), any(&SEGMENTS, rng));
        let (phone, balance, comment) = (phone(nation, rng), balance(rng), words(rng, 8));
        rows.row(format_args!(
            "{key}\tCustomer#{key:09}\t{address}\t{nation}\t{phone}\t{balance}\t{segment}\t{comment}"
        ));
    }
    rows
}

/// Parts, and the suppliers of each.
fn parts(sizes: Sizes, rng: &mut Random) -> [Rows; 2] {
    let colours: Vec<&str> = COLOURS.split_whitespace().collect();
    let (mut parts, mut offers) = (Rows::of("part"), Rows::of("partsupp"));
    for key in 1..=sizes.parts {
        let mut name: Vec<&str> = Vec::new();
        while name.len() < 5 {
            let colour = any(&colours, rng);
            if !name.contains(&colour) {
                name.push(colour);
            }
        }
        let (maker, brand) = (rng.random_range(1..=5), rng.random_range(1..=5));
        let kind = [any(&SIZES, rng), any(&FINISHES, rng), any(&METALS, rng)].join(" ");
        let (size, container) =
            (rng.random_range(1..=50), [any(&PACKS, rng), any(&BOXES, rng)].join(" "));
        parts.row(format_args!(
            "{key}\t{}\tManufacturer#{maker}\tBrand#{maker}{brand}\t{kind}\t{size}\t{container}\t{}\t{}",
            name.join(" "),
            Cents(price(key)),
            words(rng, 2)
        ));
        for number in 0..4 {
            let (supplier, cost) = (sizes.supplier(key, number), rng.random_range(100..=100_000));
            let (quantity, comment) = (rng.random_range(1..=9999), words(rng, 14));
            offers.row(format_args!("{key}\t{supplier}\t{quantity}\t{}\t{comment}", Cents(cost)));
        }
    }
    [parts, offers]
}

/// Orders, and the items of each.
fn orders(sizes: Sizes, rng: &mut Random) -> [Rows; 2] {
    let (mut orders, mut lines) = (Rows::of("orders"), Rows::of("lineitem"));
    for number in 0..sizes.orders {
        // Eight of 32 keys are used.
        let key = number / 8 * 32 + number % 8 + 1;
        let mut customer = rng.random_range(1..=sizes.customers);
        if customer % 3 == 0 {
            customer -= 1;
        }
        let ordered = rng.random_range(0..=LAST_ORDER);
        let (mut total, mut open) = (0, 0);
        let items = rng.random_range(1..=7);
        for item in 1..=items {
            let part = rng.random_range(1..=sizes.parts);
            let supplier = sizes.supplier(part, rng.random_range(0..4));
            let quantity = rng.random_range(1..=50);
            let (discount, tax) = (rng.random_range(0..=10), rng.random_range(0..=8));
            let amount = i64::from(quantity) * price(part);
            total += amount * (100 + tax) * (100 - discount) / 10_000;
            let shipped = ordered + rng.random_range(1..=121);
            let promised = ordered + rng.random_range(30..=90);
            let received = shipped + rng.random_range(1..=30);
            let returned = match received <= TODAY {
                true => any(&["R", "A"], rng),
                false => "N",
            };
            let status = if shipped > TODAY { "O" } else { "F" };
            open += i32::from(shipped > TODAY);
            lines.row(format_args!(
                "{key}\t{part}\t{supplier}\t{item}\t{quantity}\t{}\t0.{discount:02}\t0.{tax:02}\t\
                 {returned}\t{status}\t{}\t{}\t{}\t{}\t{}\t{}",
                Cents(amount),
                Day(shipped),
                Day(promised),
                Day(received),
                any(&INSTRUCTIONS, rng),
                any(&MODES, rng),
                words(rng, 3)
            ));
        }
        let status = match open {
            0 => "F",
            some if some == items => "O",
            _ => "P",
        };
        let (clerk, priority) =
            (rng.random_range(1..=(sizes.suppliers / 10).max(1)), any(&PRIORITIES, rng));
        orders.row(format_args!(
            "{key}\t{customer}\t{status}\t{}\t{}\t{priority}\tClerk#{clerk:09}\t0\t{}",
            Cents(total),
            Day(ordered),
            words(rng, 6)
        ));
    }
    [orders, lines]
}

/// The price of a part, in hundredths.
fn price(part: i32) -> i64 {
    i64::from(90_000 + part / 10 % 20_001 + 100 * (part % 1000))
}

fn nation(rng: &mut Random) -> usize {
    rng.random_range(0..NATIONS.len())
}

/// A number whose first two digits are those of the nation.
fn phone(nation: usize, rng: &mut Random) -> String {
    let (a, b) = (rng.random_range(100..1000), rng.random_range(100..1000));
    format!("{}-{a}-{b}-{}", nation + 10, rng.random_range(1000..10_000))
}

fn balance(rng: &mut Random) -> Cents {
    Cents(rng.random_range(-99_999..=999_999))
}

fn any<'t>(texts: &[&'t str], rng: &mut Random) -> &'t str {
    texts[rng.random_range(0..texts.len())]
}

/// A comment of some words.
fn words(rng: &mut Random, count: usize) -> String {
    thread_local! {
        static ALL: Vec<&'static str> = WORDS.split_whitespace().collect();
    }
    ALL.with(|all| (0..count).map(|_| any(all, rng)).collect::<Vec<_>>().join(" "))
}

/// An amount of money, in hundredths.
struct Cents(i64);

impl Display for Cents {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (sign, cents) = (if self.0 < 0 { "-" } else { "" }, self.0.abs());
        write!(to, "{sign}{}.{:02}", cents / 100, cents % 100)
    }
}

/// A date, in days since 1992-01-01.
struct Day(i32);

impl Display for Day {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Every fourth year is a leap year, from 1992 to 2099.
        let is_leap = |year: i32| year % 4 == 0;
        let (mut year, mut day) = (1992, self.0);
        while day >= 365 + i32::from(is_leap(year)) {
            day -= 365 + i32::from(is_leap(year));
            year += 1;
        }
        let months = [31, 28 + i32::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let mut month = 0;
        while day >= months[month] {
            day -= months[month];
            month += 1;
        }
        write!(to, "{year}-{:02}-{:02}", month + 1, day + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates() {
        let dates = [0, 59, 60, TODAY, LAST_ORDER].map(|day| Day(day).to_string());
        let right = ["1992-01-01", "1992-02-29", "1992-03-01", "1995-06-17", "1998-08-02"];
        assert_eq!(dates, right);
    }

    #[test]
    fn there_are_22_queries_with_their_parameters() {
        let queries = queries(0.01);
        let names: Vec<&str> = queries.iter().map(|query| query.name.as_str()).collect();
        assert_eq!((names.len(), names[0], names[21]), (22, "tpch_q01", "tpch_q22"));
        assert!(queries[10].text.contains("* 0.010000"), "{}", queries[10].text);
        assert!(queries.iter().all(|query| !query.text.contains(":fraction")));
    }

    #[test]
    fn rows_are_those_of_the_seed_and_the_scale() {
        let (once, again) = (rows(0.001, 7), rows(0.001, 7));
        let counts = once.iter().map(|rows| (rows.table, rows.text.lines().count()));
        let counts: Vec<(&str, usize)> = counts.filter(|(table, _)| *table != "lineitem").collect();
        let right = [
            ("region", 5),
            ("nation", 25),
            ("supplier", 10),
            ("customer", 150),
            ("part", 200),
            ("partsupp", 800),
            ("orders", 1500),
        ];
        assert_eq!(counts, right);
        assert!(once.iter().zip(&again).all(|(one, other)| one.text == other.text));
        assert!(once.iter().zip(rows(0.001, 8)).any(|(one, other)| one.text != other.text));
    }

    #[test]
    fn each_part_has_four_suppliers() {
        let sizes = Sizes::of(0.001);
        for part in 1..=sizes.parts {
            let mut found: Vec<i32> = (0..4).map(|number| sizes.supplier(part, number)).collect();
            found.sort_unstable();
            found.dedup();
            assert!(found.len() == 4 && found[0] >= 1 && found[3] <= sizes.suppliers);
        }
    }
}
