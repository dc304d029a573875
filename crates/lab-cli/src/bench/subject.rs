//! A database whose commits are measured: rows of one table, with a partition for each client.

use isomer::clock;
use isomer::failure::Failure;
use isomer_cluster::{Database, Durability, Options, Txn};
use isomer_design::{Change, Column, ColumnType, Footprint, Key, Schema, SiteId, TableId};
use isomer_strategy::Static;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A database with a partition for each client.
pub(super) struct Subject {
    db: Database,
    table: TableId,
    row: Vec<u8>,
}

impl Subject {
    /// Opens a database at one site; `None` if there is one already.
    pub(super) fn open(
        options: Options,
        clients: u16,
        value_bytes: usize,
    ) -> Result<Option<Subject>, Failure> {
        let db = Database::open(options.durability(Durability::Commit).strategy(Static))?;
        if !db.is_new() {
            return Ok(None);
        }
        let columns =
            vec![Column::new("id", ColumnType::Int64), Column::new("value", ColumnType::Bytes)];
        let schema = Schema::new("bench", columns, &["id"]).map_err(Failure::failed)?;
        let table = db.create_table(schema, &[(Key::min(), SiteId(1))])?;
        for client in 1..i64::from(clients) {
            db.change(Change::Split { table, at: Key::int(client) }, "a partition each")?;
        }
        Ok(Some(Subject { db, table, row: vec![7; value_bytes] }))
    }

    /// Commits one row of a client.
    pub(super) fn commit(&self, client: u16) -> Result<(), isomer_cluster::Error> {
        let key = Key::int(client.into());
        let footprint = Footprint::new().write(self.table, key.clone());
        let put = |txn: &mut Txn<'_>| txn.put(self.table, &key, &self.row);
        self.db.run(&mut self.db.session(), &footprint, put).map(drop)
    }

    fn counters(&self) -> isomer_cluster::Counters {
        self.db.sites()[0].log
    }

    /// Bytes of one commit in the log.
    pub(super) fn commit_bytes(&self) -> Result<u64, Failure> {
        let before = self.counters();
        self.commit(0)?;
        Ok(self.counters().bytes - before.bytes)
    }

    /// Measures commits of all clients: how many a second, and how many in a
    /// sync.
    #[allow(clippy::disallowed_methods, reason = "a benchmark of clients starts threads")]
    pub(super) fn shared(&self, clients: u16, seconds: u64) -> (f64, f64) {
        let (stop, commits) = (AtomicBool::new(false), AtomicU64::new(0));
        let (before, begun) = (self.counters(), clock::now());
        std::thread::scope(|scope| {
            for client in 0..clients {
                let (stop, commits) = (&stop, &commits);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        self.commit(client).expect("the log takes the commit");
                        commits.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            clock::sleep(Duration::from_secs(seconds));
            stop.store(true, Ordering::Relaxed);
        });
        let (commits, elapsed) = (commits.into_inner() as f64, clock::elapsed_ns(begun) as f64);
        let records = self.counters().syncs - before.syncs;
        (commits * 1e9 / elapsed, commits / records.max(1) as f64)
    }
}

/// The median and the 99th percentile of times in nanoseconds, in microseconds.
pub(super) fn quantiles(mut times: Vec<u64>) -> [f64; 2] {
    times.sort_unstable();
    [times.len() / 2, times.len() * 99 / 100].map(|at| times[at] as f64 / 1e3)
}
