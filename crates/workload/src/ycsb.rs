//! YCSB, the cloud serving benchmark, with the two transactions of the MorphoSys evaluation.
//!
//! The benchmark has one large table. A *read-modify-write* reads three rows, or
//! [`YcsbOptions::updates`], and increments the counter of each. A *scan* reads 200 to 1000 rows
//! with consecutive keys. The paper's mixes have 50 % scans (read-mostly) and 10 % scans
//! (write-heavy).
//!
//! # Which keys
//!
//! ```text
//!   rank  0 1 2 3 …                    chosen uniformly, or by Zipf: small ranks more often
//!         └─┴─┴─┴──▶ key = (hot spot + rank) mod keys
//!
//!         ░░░░░░░░░░░░░░░░░█▇▆▅▄▃▃▂▂▂▁▁▁▁░░░░░░░░░░░
//!         0                ▲ hot spot              keys − 1
//! ```
//!
//! With a skew, the keys from the hot spot on are hot. They are adjacent, so a range partition
//! around them is a hot partition, to which a design must respond. [`Ycsb::move_hot_spot`] moves
//! the skew, as in the paper's adaptivity experiment.
//!
//! The paper does not say how the three keys of a transaction are related. Here the first is chosen
//! as above. The others are chosen independently ([`Companions::Independent`]), so transactions
//! agree on no grouping of keys; or close to the first ([`Companions::Near`]), so neighbours belong
//! together and a good design makes transactions local.
//!
//! # The check
//!
//! The sum of all counters is the number of rows that committed read-modify-writes have updated.
//! A scan that finds missing rows returns [`Outcome::Inconsistent`].

use crate::error::{check_count, check_share};
use crate::number::add_to_number;
use crate::{
    Audit, Chooser, DataAccess, LoadRow, OptionsError, Outcome, Random, Skew, Totals, Transaction,
    Workload,
};
use isomer_design::{
    Access, Column, ColumnType, Footprint, Key, KeyRange, Schema, Span, TableId, Value,
};
use rand::RngExt;
use std::ops::{ControlFlow, RangeInclusive};

/// The default number of keys of a read-modify-write.
const UPDATES: usize = 3;

/// The maximum size of a value.
const VALUE_BYTES_MAX: u64 = 1 << 20;

/// How the keys of a read-modify-write are related.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Companions {
    /// All are chosen in the same way.
    Independent,
    /// The others are at most this distance from the first.
    Near(u64),
}

/// Options of [`Ycsb`].
#[derive(Clone, PartialEq, Debug)]
pub struct YcsbOptions {
    /// The number of rows.
    pub keys: u64,
    /// The bytes of a row besides key and counter.
    pub value_bytes: usize,
    /// The share of scans; the rest are read-modify-writes.
    pub scan_share: f64,
    /// The number of rows of a scan.
    pub scan_rows: RangeInclusive<u64>,
    /// The number of rows that a read-modify-write updates.
    pub updates: usize,
    /// The distribution of keys.
    pub skew: Skew,
    /// How the keys of a read-modify-write are related.
    pub companions: Companions,
}

impl Default for YcsbOptions {
    /// A million rows of 100 bytes, 10 % scans, uniform and independent keys.
    fn default() -> YcsbOptions {
        YcsbOptions {
            keys: 1_000_000,
            value_bytes: 100,
            scan_share: 0.1,
            scan_rows: 200..=1000,
            updates: UPDATES,
            skew: Skew::Uniform,
            companions: Companions::Independent,
        }
    }
}

/// The benchmark; see the module documentation.
#[derive(Clone, Debug)]
pub struct Ycsb {
    options: YcsbOptions,
    table: TableId,
    chooser: Chooser,
    hot_spot: u64,
}

/// A transaction of [`Ycsb`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum YcsbTransaction {
    /// Increments the counters of rows with different keys.
    Increment {
        /// The table.
        table: TableId,
        /// The keys.
        keys: Vec<u64>,
    },
    /// Reads rows with consecutive keys.
    Scan {
        /// The table.
        table: TableId,
        /// The first key.
        start: u64,
        /// The number of rows.
        rows: u64,
    },
}

impl Ycsb {
    /// Creates the benchmark in a table with this id.
    ///
    /// # Errors
    /// If an option is invalid.
    pub fn new(options: YcsbOptions, table: TableId) -> Result<Ycsb, OptionsError> {
        check_count("rows in a YCSB table", options.keys, UPDATES as u64..=1 << 53)?;
        check_count("rows that a transaction changes", options.updates as u64, 1..=options.keys)?;
        check_count("bytes in a value", options.value_bytes as u64, 0..=VALUE_BYTES_MAX)?;
        check_share("the share of scans", options.scan_share)?;
        let shortest = *options.scan_rows.start();
        check_count("rows in the shortest scan", shortest, 1..=*options.scan_rows.end())?;
        if let Companions::Near(distance) = options.companions {
            // As far as it takes to find enough different keys.
            let least = (options.updates as u64 / 2).max(1);
            check_count("as the distance between companions", distance, least..=options.keys)?;
        }
        let chooser = Chooser::new(options.keys, options.skew)?;
        Ok(Ycsb { options, table, chooser, hot_spot: 0 })
    }

    /// Moves the hot spot: from now on keys from `key` on are hot.
    pub fn move_hot_spot(&mut self, key: u64) {
        self.hot_spot = key % self.options.keys;
    }

    fn choose(&self, rng: &mut Random) -> u64 {
        (self.hot_spot + self.chooser.choose(rng)) % self.options.keys
    }

    fn increment(&self, rng: &mut Random) -> YcsbTransaction {
        let mut keys = vec![self.choose(rng)];
        while keys.len() < self.options.updates {
            let key = self.companion(keys[0], rng);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        YcsbTransaction::Increment { table: self.table, keys }
    }

    fn companion(&self, first: u64, rng: &mut Random) -> u64 {
        match self.options.companions {
            Companions::Independent => self.choose(rng),
            Companions::Near(distance) => {
                let keys = self.options.keys;
                (first + keys - distance + rng.random_range(0..=2 * distance)) % keys
            }
        }
    }

    fn scan(&self, rng: &mut Random) -> YcsbTransaction {
        let rows = rng.random_range(self.options.scan_rows.clone()).min(self.options.keys);
        // A scan that would pass the end of the table begins earlier.
        let start = self.choose(rng).min(self.options.keys - rows);
        YcsbTransaction::Scan { table: self.table, start, rows }
    }
}

/// `usertable(id int64, counter int64, value bytes) key id`.
fn schema() -> Schema {
    let columns = vec![
        Column::new("id", ColumnType::Int64),
        Column::new("counter", ColumnType::Int64),
        Column::new("value", ColumnType::Bytes),
    ];
    Schema::new("usertable", columns, &["id"]).expect("the schema is valid")
}

impl Workload for Ycsb {
    type Transaction = YcsbTransaction;

    fn name(&self) -> &'static str {
        "ycsb"
    }

    fn tables(&self) -> Vec<(TableId, Schema)> {
        vec![(self.table, schema())]
    }

    fn load(&self) -> impl Iterator<Item = LoadRow> {
        let value = vec![b'v'; self.options.value_bytes];
        let (_, row) = schema()
            .encode_row(&[Value::Int64(0), Value::Int64(0), Value::Bytes(value)])
            .expect("the values fit the schema");
        let table = self.table;
        (0..self.options.keys).map(move |key| LoadRow {
            table,
            key: Key::int(key as i64),
            row: row.clone(),
        })
    }

    fn next(&mut self, rng: &mut Random) -> YcsbTransaction {
        match rng.random_bool(self.options.scan_share) {
            true => self.scan(rng),
            false => self.increment(rng),
        }
    }

    fn loaded(&self) -> Totals {
        Totals { rows: self.options.keys, ..Totals::default() }
    }

    fn audits(&self, rows: u64) -> Vec<Audit> {
        Audit::of_table(self.table, self.options.keys, rows)
    }
}

impl Transaction for YcsbTransaction {
    fn name(&self) -> &'static str {
        match self {
            YcsbTransaction::Increment { .. } => "increment",
            YcsbTransaction::Scan { .. } => "scan",
        }
    }

    fn footprint_into(&self, footprint: &mut Footprint) {
        match self {
            YcsbTransaction::Increment { table, keys } => {
                for key in keys {
                    footprint.add(*table, Span::Key(Key::int(*key as i64)), Access::Write);
                }
            }
            YcsbTransaction::Scan { table, start, rows } => {
                footprint.add(*table, Span::Range(range(*start, *rows)), Access::Read);
            }
        }
    }

    fn run<D: DataAccess>(&self, data: &mut D) -> Result<Outcome, D::Error> {
        match self {
            YcsbTransaction::Increment { table, keys } => increment(data, *table, keys),
            YcsbTransaction::Scan { table, start, rows } => scan(data, *table, *start, *rows),
        }
    }
}

/// The keys of a scan.
fn range(start: u64, rows: u64) -> KeyRange {
    KeyRange::ints(start as i64, (start + rows) as i64)
}

fn increment<D: DataAccess>(
    data: &mut D,
    table: TableId,
    keys: &[u64],
) -> Result<Outcome, D::Error> {
    for key in keys {
        let mut sound = true;
        let found = data.update(table, &Key::int(*key as i64), |row| {
            sound = add_to_number(row, 1);
        })?;
        if !found || !sound {
            let what = if found { "damaged" } else { "missing" };
            return Ok(Outcome::Inconsistent { what: format!("row {table}[{key}] is {what}") });
        }
    }
    Ok(Outcome::Commit { added: keys.len() as i64 })
}

fn scan<D: DataAccess>(
    data: &mut D,
    table: TableId,
    start: u64,
    rows: u64,
) -> Result<Outcome, D::Error> {
    let mut totals = Totals::default();
    let range = range(start, rows);
    data.scan(table, &range, |_, row| {
        totals.count(row);
        ControlFlow::Continue(())
    })?;
    if totals.rows == rows && totals.damaged == 0 {
        return Ok(Outcome::Commit { added: 0 });
    }
    let Totals { rows: found, damaged, .. } = totals;
    let what = format!("{table}{range} holds {found} rows, {damaged} of them damaged, not {rows}");
    Ok(Outcome::Inconsistent { what })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Model, random};

    const TABLE: TableId = TableId(1);

    fn small() -> YcsbOptions {
        YcsbOptions { keys: 2000, value_bytes: 20, ..YcsbOptions::default() }
    }

    fn keys_of(transaction: &YcsbTransaction) -> Vec<u64> {
        match transaction {
            YcsbTransaction::Increment { keys, .. } => keys.to_vec(),
            YcsbTransaction::Scan { .. } => Vec::new(),
        }
    }

    #[test]
    fn the_counter_is_the_number_of_the_row() {
        let ycsb = Ycsb::new(small(), TABLE).unwrap();
        let (_, schema) = ycsb.tables().remove(0);
        for LoadRow { key, mut row, .. } in ycsb.load().skip(500).take(3) {
            assert!(add_to_number(&mut row, 77));
            let values = schema.decode_row(&key, &row).unwrap();
            assert_eq!(values[1], Value::Int64(77));
            assert_eq!(schema.encode_key(&values[..1]).unwrap(), key);
        }
        assert!(ycsb.load().is_sorted_by(|a, b| (a.table, &a.key) < (b.table, &b.key)));
    }

    #[test]
    fn transactions_have_the_requested_shares_and_sizes() {
        let mut ycsb = Ycsb::new(YcsbOptions { scan_share: 0.5, ..small() }, TABLE).unwrap();
        let mut rng = random(3);
        let mut scans = 0;
        for _ in 0..10_000 {
            match ycsb.next(&mut rng) {
                YcsbTransaction::Scan { start, rows, .. } => {
                    scans += 1;
                    assert!((200..=1000).contains(&rows) && start + rows <= 2000);
                }
                YcsbTransaction::Increment { mut keys, .. } => {
                    keys.sort_unstable();
                    assert!(keys[0] < keys[1] && keys[1] < keys[2] && keys[2] < 2000);
                }
            }
        }
        assert!((4800..5200).contains(&scans));
    }

    #[test]
    fn the_hot_spot_is_where_it_was_moved_to() {
        let options = YcsbOptions { skew: Skew::Zipf(0.99), scan_share: 0.0, ..small() };
        let mut ycsb = Ycsb::new(options, TABLE).unwrap();
        let mut rng = random(4);
        for hot_spot in [0, 700, 1990] {
            ycsb.move_hot_spot(hot_spot);
            let keys = (0..1000).flat_map(|_| keys_of(&ycsb.next(&mut rng)));
            let hot = keys.filter(|key| (key + 2000 - hot_spot) % 2000 < 100).count();
            assert!(hot > 1500, "{hot} of 3000 keys are among the hottest 5 %");
        }
    }

    #[test]
    fn companions_stay_near() {
        let options = YcsbOptions { companions: Companions::Near(5), scan_share: 0.0, ..small() };
        let mut ycsb = Ycsb::new(options, TABLE).unwrap();
        let mut rng = random(5);
        for _ in 0..1000 {
            let keys = keys_of(&ycsb.next(&mut rng));
            for key in &keys[1..] {
                let distance = key.abs_diff(keys[0]);
                assert!(distance.min(2000 - distance) <= 5, "{keys:?}");
            }
        }
    }

    #[test]
    fn the_counters_add_up_and_a_lost_or_doubled_write_does_not() {
        let mut ycsb = Ycsb::new(small(), TABLE).unwrap();
        let mut data = Model::loaded(&ycsb);
        let (mut rng, mut added) = (random(6), 0);
        for _ in 0..500 {
            match data.execute(&ycsb.next(&mut rng)).unwrap() {
                Outcome::Commit { added: net } => added += i128::from(net),
                other => panic!("{other:?}"),
            }
        }
        assert!(added > 1000);
        assert_eq!(ycsb.verify(&mut data, added), Ok(Ok(())));
        for wrong in [added - 1, added + 3] {
            let mismatch = ycsb.verify(&mut data, wrong).unwrap().unwrap_err();
            assert_eq!(mismatch.found.sum, added);
        }
        data.delete(TABLE, &Key::int(5)).unwrap();
        assert!(ycsb.verify(&mut data, added).unwrap().is_err());
        let lost = YcsbTransaction::Scan { table: TABLE, start: 0, rows: 10 };
        let Outcome::Inconsistent { what } = data.execute(&lost).unwrap() else { panic!() };
        assert_eq!(what, "t1[0..10) holds 9 rows, 0 of them damaged, not 10");
        let lost = YcsbTransaction::Increment { table: TABLE, keys: vec![4, 5, 6] };
        let Outcome::Inconsistent { what } = data.execute(&lost).unwrap() else { panic!() };
        assert_eq!(what, "row t1[5] is missing");
    }

    #[test]
    fn a_seed_repeats_a_run() {
        let options = YcsbOptions { skew: Skew::Zipf(0.75), ..YcsbOptions::default() };
        let run = |seed| -> Vec<YcsbTransaction> {
            let mut ycsb = Ycsb::new(options.clone(), TABLE).unwrap();
            let mut rng = random(seed);
            (0..100).map(|_| ycsb.next(&mut rng)).collect()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn invalid_options_are_refused() {
        let refused = |options| Ycsb::new(options, TABLE).unwrap_err().to_string();
        let few = YcsbOptions { keys: 2, ..small() };
        assert_eq!(refused(few), "2 rows in a YCSB table: at least 3 are needed");
        let share = YcsbOptions { scan_share: f64::NAN, ..small() };
        assert_eq!(refused(share), "the share of scans is NaN: a share lies between 0 and 1");
        #[expect(clippy::reversed_empty_ranges)]
        let scans = YcsbOptions { scan_rows: 10..=5, ..small() };
        assert_eq!(refused(scans), "10 rows in the shortest scan: at most 5 are possible");
        let near = YcsbOptions { companions: Companions::Near(0), ..small() };
        assert!(refused(near).starts_with("0 as the distance between companions"));
    }
}
