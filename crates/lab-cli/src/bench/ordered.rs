//! `isomer-lab bench ordered`: transactions on ordered tables beside the same transactions with row
//! locks and two-phase commit.
//!
//! ```text
//!   four sites, each with its log in a file       two tables of the same rows
//!   a transaction   reads and writes 4 rows       all at one site, or two at each of two sites
//!   locks           row locks; at two sites: prepare, decide, each with a sync
//!   ordered         no locks; one place in the order, which is synced once for a batch
//! ```
//!
//! The two tables take turns, so that the machine's other work affects both. For each share of
//! transactions over two sites the figure is the throughput of ordered transactions over that of
//! the others. A transaction that conflicts is repeated; the figures count what was committed.
//! Rows are drawn uniformly, so conflicts are rare.

use isomer::clock;
use isomer::failure::Failure;
use isomer::{out, text};
use isomer_cluster::{
    CancelToken, CheckedWrite, CheckedWrites, Database, Durability, Expect, Gateway, Isolation,
    LockMode, OpenError, Options,
};
use isomer_design::{Column, ColumnType, Footprint, Key, Schema, SiteId, TableId};
use isomer_strategy::TwoPhase;
use isomer_workload::random;
use rand::RngExt;
use serde_json::{Map, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const SITES: u16 = 4;
/// The rows that a transaction reads and writes.
const ROWS: usize = 4;
/// The shares of transactions over two sites, in percent.
const SHARES: [u32; 4] = [0, 33, 66, 100];
/// The turns of each table at each share.
const TURNS: u64 = 4;
/// Single transactions whose latency is measured.
const ALONE: usize = 300;

/// Ordered tables beside row locks and two-phase commit
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  isomer-lab bench ordered
  isomer-lab bench ordered --clients 64 --seconds 8 --json")]
pub(crate) struct OrderedArgs {
    /// Clients at a time
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    clients: u16,
    /// Seconds of each table at each share
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Rows of each site
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(100..))]
    rows: u32,
    /// The seed of the keys
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Prints one line of JSON
    #[arg(long)]
    json: bool,
}

/// Measures and prints the figures.
///
/// # Errors
/// If the folder cannot be used, or a transaction fails.
pub(crate) fn run(args: &OrderedArgs) -> Result<(), Failure> {
    let folder = std::env::temp_dir().join(format!("isomer-bench-ordered-{}", std::process::id()));
    let measured = measure(args, &folder);
    let _ = std::fs::remove_dir_all(&folder);
    let figures = measured?;
    match args.json {
        true => out::line(serde_json::to_string(&figures.to_json(args)).map_err(Failure::failed)?),
        false => out::print(figures.to_text()),
    }
    Ok(())
}

/// Transactions a second at one share.
struct AtShare {
    share: u32,
    locks: f64,
    ordered: f64,
    /// Ordered transactions that were repeated, in a thousand.
    repeated: f64,
    /// Ordered commits in a batch.
    in_batch: f64,
}

struct SideBySide {
    shares: Vec<AtShare>,
    /// The median latency of one client alone, at one site and at two, in nanoseconds.
    alone: [[u64; 2]; 2],
}

/// The database, with its two tables.
struct Subject {
    gateway: Arc<Gateway>,
    rows: i64,
}

fn measure(args: &OrderedArgs, folder: &Path) -> Result<SideBySide, Failure> {
    let options = Options::in_folder(folder.to_owned(), SITES).strategy(TwoPhase);
    let db = Database::open(options.durability(Durability::Commit))?;
    let subject = Subject { gateway: Gateway::new(db), rows: args.rows.into() };
    let [locks, ordered] = [subject.table("locks")?, subject.table("ordered")?];
    subject.gateway.database().set_ordered(&[ordered], true)?;
    let mut alone = [[0; 2]; 2];
    for (at, share) in [0, 100].into_iter().enumerate() {
        for (table, found) in [locks, ordered].into_iter().zip(&mut alone[at]) {
            *found = subject.alone(table, share, args.seed)?;
        }
    }
    let mut shares = Vec::new();
    for share in SHARES {
        if !args.json {
            eprintln!("{share} % of transactions over two sites");
        }
        let mut found = [Counted::default(), Counted::default()];
        for turn in 0..TURNS {
            for (table, found) in [locks, ordered].into_iter().zip(&mut found) {
                let time = Duration::from_secs(args.seconds) / TURNS as u32;
                found.add(&subject.together(table, share, args, turn, time)?);
            }
        }
        let [locks, ordered] = found;
        let (commits, batches) = (ordered.in_order as f64, ordered.batches.max(1) as f64);
        shares.push(AtShare {
            share,
            locks: locks.per_second(),
            ordered: ordered.per_second(),
            repeated: ordered.repeated as f64 * 1e3 / ordered.commits.max(1) as f64,
            in_batch: commits / batches,
        });
    }
    Ok(SideBySide { shares, alone })
}

#[derive(Default)]
struct Counted {
    commits: u64,
    repeated: u64,
    in_order: u64,
    batches: u64,
    ns: u64,
}

impl Counted {
    fn add(&mut self, other: &Counted) {
        self.commits += other.commits;
        self.repeated += other.repeated;
        self.in_order += other.in_order;
        self.batches += other.batches;
        self.ns += other.ns;
    }

    fn per_second(&self) -> f64 {
        self.commits as f64 * 1e9 / self.ns.max(1) as f64
    }
}

impl Subject {
    /// A table with rows at each site.
    fn table(&self, name: &str) -> Result<TableId, Failure> {
        let db = self.gateway.database();
        let columns = ["id", "value"].map(|name| Column::new(name, ColumnType::Int64));
        let schema = Schema::new(name, columns.to_vec(), &["id"]).map_err(Failure::failed)?;
        let start = |site: u16| match site {
            1 => Key::min(),
            site => Key::int(i64::from(site - 1) * self.rows),
        };
        let placed: Vec<_> = (1..=SITES).map(|site| (start(site), SiteId(site))).collect();
        let table = db.create_table(schema, &placed)?;
        let ids: Vec<i64> = (0..self.rows * i64::from(SITES)).collect();
        for ids in ids.chunks(1000) {
            let footprint =
                ids.iter().fold(Footprint::new(), |f, id| f.write(table, Key::int(*id)));
            let put = |id: &i64| {
                let row = Some(0_i64.to_le_bytes().to_vec());
                (Key::int(*id), CheckedWrite { expect: Expect::Anything, row })
            };
            let rows: BTreeMap<_, _> = ids.iter().map(put).collect();
            db.write(&mut db.session(), &footprint, &CheckedWrites::from([(table, rows)]))?;
        }
        Ok(table)
    }

    /// The keys of a transaction, in order.
    fn keys(&self, chance: &mut impl RngExt, share: u32) -> Vec<i64> {
        let first = chance.random_range(0..SITES);
        let second = match chance.random_range(0..100) < share {
            true => (first + chance.random_range(1..SITES)) % SITES,
            false => first,
        };
        let site = |at: usize| i64::from(if at.is_multiple_of(2) { first } else { second });
        let mut key = |at: usize| site(at) * self.rows + chance.random_range(0..self.rows);
        let mut keys: Vec<i64> = (0..ROWS).map(&mut key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Reads and writes rows in one transaction. `Ok(false)`: a conflict with another transaction.
    fn transact(&self, table: TableId, keys: &[i64]) -> Result<bool, OpenError> {
        let cancel = Arc::new(CancelToken::default());
        let mut txn = self.gateway.begin(Isolation::ReadCommitted, cancel);
        txn.next_statement();
        for key in keys.iter().map(|id| Key::int(*id)) {
            txn.lock(table, &key, LockMode::Exclusive, true)?;
            txn.look_again();
            let mut value = 0;
            let mut read =
                |row: &[u8]| value = i64::from_le_bytes(row.try_into().unwrap_or_default());
            let locked = txn.get_locked(table, &key, &mut read)?;
            let row = (value + 1).to_le_bytes().to_vec();
            txn.put(table, key, locked.base, Some(row))?;
        }
        match txn.commit() {
            Ok(_) => Ok(true),
            Err(OpenError::Changed | OpenError::ReadChanged { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The median latency of a client that is alone, in nanoseconds.
    fn alone(&self, table: TableId, share: u32, seed: u64) -> Result<u64, Failure> {
        let mut chance = random(seed);
        let mut times = Vec::new();
        for _ in 0..ALONE {
            let keys = self.keys(&mut chance, share);
            let begun = clock::now();
            while !self.transact(table, &keys).map_err(Failure::failed)? {}
            times.push(clock::elapsed_ns(begun));
        }
        times.sort_unstable();
        Ok(times[times.len() / 2])
    }

    /// All clients, for a time.
    #[allow(clippy::disallowed_methods, reason = "a benchmark of clients starts threads")]
    fn together(
        &self,
        table: TableId,
        share: u32,
        args: &OrderedArgs,
        turn: u64,
        time: Duration,
    ) -> Result<Counted, Failure> {
        let db = self.gateway.database();
        let order = || db.order_counters().unwrap_or_default();
        let (stop, commits, repeated) =
            (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        let (before, begun) = (order(), clock::now());
        let worked: Result<(), OpenError> = std::thread::scope(|scope| {
            let client = |number: u16| {
                let seed = args.seed.wrapping_mul(1_000_003) + turn * 2_000 + u64::from(number);
                let (stop, commits, repeated) = (&stop, &commits, &repeated);
                scope.spawn(move || {
                    let mut chance = random(seed);
                    while !stop.load(Ordering::Relaxed) {
                        let keys = self.keys(&mut chance, share);
                        while !self.transact(table, &keys)? {
                            repeated.fetch_add(1, Ordering::Relaxed);
                        }
                        commits.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                })
            };
            let clients: Vec<_> = (0..args.clients).map(client).collect();
            clock::sleep(time);
            stop.store(true, Ordering::Relaxed);
            clients.into_iter().try_for_each(|it| it.join().expect("a client does not panic"))
        });
        worked.map_err(Failure::failed)?;
        let (ns, after) = (clock::elapsed_ns(begun), order());
        Ok(Counted {
            commits: commits.into_inner(),
            repeated: repeated.into_inner(),
            in_order: after.commits - before.commits,
            batches: after.batches - before.batches,
            ns,
        })
    }
}

impl SideBySide {
    fn to_json(&self, args: &OrderedArgs) -> serde_json::Value {
        let mut all = Map::new();
        all.insert("bench".to_owned(), json!("ordered"));
        all.insert("clients".to_owned(), json!(args.clients));
        all.insert("seed".to_owned(), json!(args.seed));
        for AtShare { share, locks, ordered, repeated, in_batch } in &self.shares {
            all.insert(format!("ordered_vs_2pc_{share}"), json!(ordered / locks.max(1.0)));
            all.insert(format!("ordered_per_second_{share}"), json!(ordered));
            all.insert(format!("locks_per_second_{share}"), json!(locks));
            all.insert(format!("repeated_per_1000_{share}"), json!(repeated));
            all.insert(format!("in_batch_{share}"), json!(in_batch));
        }
        let [one, two] = self.alone.map(|[locks, ordered]| (ordered as f64 - locks as f64) / 1e6);
        all.insert("added_ms".to_owned(), json!(one));
        all.insert("added_ms_two_sites".to_owned(), json!(two));
        all.into()
    }

    fn to_text(&self) -> String {
        let count = |per_second: f64| text::count(per_second as u64);
        let mut lines =
            vec!["at two sites   locks/s   ordered/s   ratio   repeated   in a batch".to_owned()];
        lines.extend(self.shares.iter().map(|it| {
            format!(
                "{:>10} %   {:>7}   {:>9}   {:>5.2}   {:>6.1} ‰   {:>10.1}",
                it.share,
                count(it.locks),
                count(it.ordered),
                it.ordered / it.locks.max(1.0),
                it.repeated,
                it.in_batch,
            )
        }));
        for (sites, [locks, ordered]) in ["one site", "two sites"].iter().zip(self.alone) {
            let [locks, ordered] = [locks, ordered].map(|ns| text::duration(ns as f64));
            lines.push(format!("a client alone, at {sites}: locks {locks}, ordered {ordered}"));
        }
        lines.push(String::new());
        lines.join("\n")
    }
}
