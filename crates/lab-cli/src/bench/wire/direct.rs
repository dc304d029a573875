//! The cost of a select-only statement without SQL and without a socket: a call of the library that
//! reads one row by its key.
//!
//! The rows are those of `pgbench_accounts`, in memory, in this process. There is a thread for each
//! client of the benchmark.

use isomer::clock;
use isomer::failure::Failure;
use isomer_cluster::{Database, Options};
use isomer_design::{Column, ColumnType, Footprint, Key, KeyRange, Schema, SiteId, TableId, Value};
use isomer_workload::random;
use rand::RngExt;
use std::time::Duration;

/// Rows of one transaction that loads them.
const BATCH_ROWS: i64 = 10_000;

/// Accounts to read.
pub(super) struct Direct {
    database: Database,
    accounts: TableId,
    rows: i64,
}

impl Direct {
    pub(super) fn load(sites: u16, rows: i64) -> Result<Direct, Failure> {
        let database = Database::open(Options::in_memory(sites)).map_err(Failure::failed)?;
        let columns = vec![
            Column::new("aid", ColumnType::Int64),
            Column::new("bid", ColumnType::Int64),
            Column::new("abalance", ColumnType::Int64),
            Column::new("filler", ColumnType::Text),
        ];
        let schema = Schema::new("accounts", columns, &["aid"]).map_err(Failure::failed)?;
        let row = |aid: i64| {
            let filler = Value::from(" ".repeat(84).as_str());
            let values = [Value::Int64(aid), Value::Int64(1), Value::Int64(0), filler];
            schema.encode_row(&values).expect("the values fit")
        };
        let accounts = database.create_table(schema.clone(), &[(Key::min(), SiteId(1))]);
        let accounts = accounts.map_err(Failure::failed)?;
        let mut session = database.session();
        for first in (1..=rows).step_by(BATCH_ROWS as usize) {
            let end = (first + BATCH_ROWS).min(rows + 1);
            let range = KeyRange::new(Key::int(first), Some(Key::int(end)));
            let footprint = Footprint::new().write_range(accounts, range);
            let filled = database.run(&mut session, &footprint, |txn| {
                (first..end).map(row).try_for_each(|(key, row)| txn.put(accounts, &key, &row))
            });
            filled.map_err(Failure::failed)?;
        }
        Ok(Direct { database, accounts, rows })
    }

    /// Reads random rows in `threads` threads; returns reads a second.
    pub(super) fn read(&self, threads: u16, time: Duration, seed: u64) -> Result<f64, Failure> {
        let begun = clock::now();
        let work = |thread: u16| {
            let mut rng = random(seed.wrapping_mul(1000).wrapping_add(thread.into()));
            let (mut session, mut count, mut bytes) = (self.database.session(), 0u64, 0);
            while begun.elapsed() < time {
                let key = Key::int(rng.random_range(1..=self.rows));
                let footprint = Footprint::new().read(self.accounts, key.clone());
                let read = self.database.run(&mut session, &footprint, |txn| {
                    bytes += txn.get(self.accounts, &key)?.map_or(0, <[u8]>::len);
                    Ok(())
                });
                read.map_err(Failure::failed)?;
                count += 1;
            }
            match bytes {
                0 => Err(Failure::failed("the accounts are not there")),
                _ => Ok(count),
            }
        };
        let counted = std::thread::scope(|scope| {
            let working: Vec<_> = (0..threads).map(|at| scope.spawn(move || work(at))).collect();
            let join = working.into_iter().map(|it| it.join().expect("a thread does not panic"));
            join.sum::<Result<u64, Failure>>()
        })?;
        Ok(counted as f64 / begun.elapsed().as_secs_f64())
    }
}
