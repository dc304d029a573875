//! `isomer-lab bench store`: the cost of the store, as ratios measured side by side in one run.
//!
//! Machines differ and are shared, so bare times say little. Each figure is the speed of a site,
//! with footprint, locks, snapshot, versions, redo log and garbage collection, over the speed of
//! the barest structure that could hold the rows. That is a hash map with rows inline for points,
//! and an ordered map for ranges. The two are measured in turns, and the median turn counts.
//!
//! | key | figure |
//! | --- | --- |
//! | `rmw3_ratio` | transactions that read and write 3 rows, over 3 read-modify-writes of the map |
//! | `read_ratio` | transactions that read one row, over reads of the map |
//! | `two_thread_ratio` | `rmw3` in two threads, over one |
//! | `scan500_ratio` | transactions that scan 500 rows, over such scans of the ordered map |
//! | `split_growth`, `merge_growth` | time with a million rows, over that with a thousand |
//! | `remaster_in_transactions` | remaster to an up-to-date replica, in times of one `rmw3` |
//! | `add_replica_ratio` | rows a second of add_replica, over inserts into the ordered map |
//! | `row_overhead_bytes` | memory per row beyond its value, one version each |
//! | `commits_per_sync` | commits that one sync of the disk covers, 16 threads |
//!
//! Point transactions come in groups, as on a server whose clients pipeline. The site prefetches
//! the footprints of a group (`Site::warm`) before the first of it runs, so that their cache misses
//! overlap. The map gets the same keys in the same order, and the processor overlaps its misses by
//! itself.

use isomer_cluster::{Database, Durability, Options};
use isomer_design::{
    Change, Column, ColumnType, Footprint, Key, KeyRange, Schema, SiteId, TableId, Time,
};
use isomer_log::{MemoryLog, MemoryOptions};
use isomer_site::{Message, Network, Site, SiteOptions, Step, TimeSource, Txn};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

type Bare = hashbrown::HashMap<u64, [u8; ROW_BYTES], foldhash::fast::FixedState>;

const ROW_BYTES: usize = 100;
const TABLE: TableId = TableId(1);
const SCAN_ROWS: u64 = 500;
const THREADS: usize = 16;
const TURNS: usize = 5;

/// Sizes and durations of the benchmark.
#[derive(clap::Args, Clone, Debug)]
pub struct StoreArgs {
    /// Rows in the table
    #[arg(long, default_value_t = 10_000_000)]
    pub rows: u64,
    /// Partitions of the table
    #[arg(long, default_value_t = 10_000)]
    pub partitions: u64,
    /// Transactions whose rows the site prefetches together
    #[arg(long, default_value_t = 16)]
    pub group: usize,
    /// Milliseconds of each turn of a measurement
    #[arg(long, default_value_t = 400)]
    pub turn_ms: u64,
    /// Seed of the keys
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Folder for the measurement of the disk (default: a temporary one)
    #[arg(long)]
    pub folder: Option<PathBuf>,
}

/// The figures; see the module's table.
#[derive(Serialize, Clone, Debug)]
pub struct StoreFigures {
    rows: u64,
    partitions: u64,
    group: usize,
    seed: u64,
    rmw3_ratio: f64,
    read_ratio: f64,
    two_thread_ratio: f64,
    scan500_ratio: f64,
    split_growth: f64,
    merge_growth: f64,
    remaster_in_transactions: f64,
    add_replica_ratio: f64,
    row_overhead_bytes: f64,
    commits_per_sync: f64,
    rmw3_per_second: f64,
    reads_per_second: f64,
    bare_rmw_per_second: f64,
    bare_reads_per_second: f64,
}

impl StoreFigures {
    /// Each figure with its goal, and whether it reaches it.
    pub fn goals(&self) -> Vec<(&'static str, f64, String, bool)> {
        let at_least =
            |name, value: f64, goal: f64| (name, value, format!(">= {goal}"), value >= goal);
        let at_most =
            |name, value: f64, goal: f64| (name, value, format!("<= {goal}"), value <= goal);
        vec![
            at_least("rmw3_ratio", self.rmw3_ratio, 0.10),
            at_least("read_ratio", self.read_ratio, 0.12),
            at_least("two_thread_ratio", self.two_thread_ratio, 1.7),
            at_least("scan500_ratio", self.scan500_ratio, 0.2),
            at_most("split_growth", self.split_growth, 2.0),
            at_most("merge_growth", self.merge_growth, 2.0),
            at_most("remaster_in_transactions", self.remaster_in_transactions, 200.0),
            at_least("add_replica_ratio", self.add_replica_ratio, 0.3),
            at_most("row_overhead_bytes", self.row_overhead_bytes, 80.0),
            at_least("commits_per_sync", self.commits_per_sync, 8.0),
        ]
    }
}

/// Measures everything. `say` gets the name of each stage.
///
/// # Errors
/// The text of an error that the database returns.
pub fn run(args: &StoreArgs, say: &mut dyn FnMut(&str)) -> Result<StoreFigures, String> {
    if args.rows < 4 * SCAN_ROWS || args.partitions == 0 || args.partitions > args.rows {
        return Err(format!(
            "--rows must be at least {}, and --partitions between 1 and the rows",
            4 * SCAN_ROWS
        ));
    }
    say("filling the bare map and the site");
    let mut bare = fill_map(args.rows);
    let bench = SiteBench::new(args)?;
    let row_overhead_bytes = bench.site.memory_bytes() as f64 / args.rows as f64 - ROW_BYTES as f64;

    say("read-modify-writes of three rows");
    let rmw = turns(|| bare_rmw(&mut bare, args), || bench.rmw3(args, args.seed));
    say("reads of one row");
    let read = turns(|| bare_reads(&bare, args), || bench.reads(args));
    drop(bare);
    say("two threads");
    let two = turns(|| bench.rmw3(args, args.seed), || bench.two_threads(args));
    say("scans");
    let ordered = fill_ordered(args.rows);
    let scan = turns(|| bare_scans(&ordered, args), || bench.scans(args));
    drop(ordered);
    drop(bench);
    say("split and merge");
    let (split_growth, merge_growth) = reshape_growth(args)?;
    say("replicas");
    let (add_replica_ratio, remaster) = replicas(args)?;
    say("group commit");
    let commits_per_sync = group_commit(args)?;
    Ok(StoreFigures {
        rows: args.rows,
        partitions: args.partitions,
        group: args.group,
        seed: args.seed,
        rmw3_ratio: rmw.ratio * 3.0,
        read_ratio: read.ratio,
        two_thread_ratio: two.ratio,
        scan500_ratio: scan.ratio,
        split_growth,
        merge_growth,
        remaster_in_transactions: remaster * rmw.ours,
        add_replica_ratio,
        row_overhead_bytes,
        commits_per_sync,
        rmw3_per_second: rmw.ours,
        reads_per_second: read.ours,
        bare_rmw_per_second: rmw.bare,
        bare_reads_per_second: read.bare,
    })
}

// ----------------------------------------------------------------------------------- measurement

/// Speeds per second of the turn with the median ratio.
struct Measured {
    ratio: f64,
    bare: f64,
    ours: f64,
}

/// Measures two things in turns, so that noise of the machine affects both.
fn turns(mut bare: impl FnMut() -> f64, mut ours: impl FnMut() -> f64) -> Measured {
    // The first turn warms up.
    bare();
    ours();
    let mut measured: Vec<Measured> = (0..TURNS)
        .map(|_| {
            let (bare, ours) = (bare(), ours());
            Measured { ratio: ours / bare, bare, ours }
        })
        .collect();
    measured.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
    measured.swap_remove(TURNS / 2)
}

#[allow(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}

/// Runs `step` for one turn; returns the sum of its results per second.
fn rate(args: &StoreArgs, mut step: impl FnMut() -> u64) -> f64 {
    let (begun, length) = (now(), Duration::from_millis(args.turn_ms));
    let mut done = 0;
    loop {
        for _ in 0..16 {
            done += step();
        }
        let taken = begun.elapsed();
        if taken >= length {
            return done as f64 / taken.as_secs_f64();
        }
    }
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64()
}

/// A small, fast generator, so that drawing keys costs less than using the map.
struct Keys(u64);

impl Keys {
    fn new(seed: u64) -> Keys {
        Keys(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * u128::from(below)) >> 64) as u64
    }
}

// ----------------------------------------------------------------------------------- the bare maps

fn row(key: u64) -> [u8; ROW_BYTES] {
    let mut row = [7; ROW_BYTES];
    row[..8].copy_from_slice(&key.to_le_bytes());
    row
}

fn fill_map(rows: u64) -> Bare {
    let mut map =
        Bare::with_capacity_and_hasher(rows as usize, foldhash::fast::FixedState::default());
    map.extend((0..rows).map(|key| (key, row(key))));
    map
}

fn fill_ordered(rows: u64) -> BTreeMap<u64, [u8; ROW_BYTES]> {
    let mut map = BTreeMap::new();
    for key in 0..rows {
        map.insert(key, row(key));
    }
    map
}

fn change(row: &mut [u8]) {
    row[0] = row[0].wrapping_add(1);
    row[ROW_BYTES - 1] ^= row[0];
}

fn bare_rmw(map: &mut Bare, args: &StoreArgs) -> f64 {
    let mut keys = Keys::new(args.seed);
    rate(args, || {
        for _ in 0..3 {
            let row = map.get_mut(&keys.next(args.rows)).expect("every key is there");
            change(row);
        }
        3
    })
}

fn bare_reads(map: &Bare, args: &StoreArgs) -> f64 {
    let mut keys = Keys::new(args.seed);
    let mut sum = 0u64;
    let rate = rate(args, || {
        sum += u64::from(map[&keys.next(args.rows)][8]);
        1
    });
    std::hint::black_box(sum);
    rate
}

fn bare_scans(map: &BTreeMap<u64, [u8; ROW_BYTES]>, args: &StoreArgs) -> f64 {
    let mut keys = Keys::new(args.seed);
    let mut sum = 0u64;
    let rate = rate(args, || {
        let from = keys.next(args.rows - SCAN_ROWS);
        sum += map.range(from..from + SCAN_ROWS).map(|(_, row)| u64::from(row[8])).sum::<u64>();
        1
    });
    std::hint::black_box(sum);
    rate
}

// ---------------------------------------------------------------------------------------- one site

struct Alone;

impl Network for Alone {
    fn send(&self, _: SiteId, _: SiteId, _: Message) {}
}

struct Clock(Instant);

impl TimeSource for Clock {
    fn now(&self) -> Time {
        Time(self.0.elapsed().as_nanos() as u64 + 1)
    }
}

struct SiteBench {
    site: Site,
}

/// Runs a future that waits for other threads only.
fn complete<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return done;
        }
        std::hint::spin_loop();
    }
}

impl SiteBench {
    fn new(args: &StoreArgs) -> Result<SiteBench, String> {
        let options = MemoryOptions { keep_bytes: Some(16 << 20), ..MemoryOptions::default() };
        let log = Arc::new(MemoryLog::new(options));
        let (network, time) = (Arc::new(Alone), Arc::new(Clock(now())));
        let site = Site::open(SiteOptions::new(SiteId(1), log, network, time));
        let site = site.map_err(|error| error.to_string())?;
        let bounds: Vec<i64> =
            (1..args.partitions).map(|i| (i * args.rows / args.partitions) as i64).collect();
        let starts = std::iter::once(Key::min()).chain(bounds.iter().map(|&at| Key::int(at)));
        let ends = bounds.iter().map(|&at| Some(Key::int(at))).chain([None]);
        let ranges = starts.zip(ends).map(|(start, end)| KeyRange::new(start, end)).collect();
        complete(site.step(Step::Create(TABLE, ranges))).map_err(|error| error.to_string())?;
        let bench = SiteBench { site };
        bench.load(args.rows)?;
        Ok(bench)
    }

    fn load(&self, rows: u64) -> Result<(), String> {
        for first in (0..rows).step_by(1000) {
            let end = (first + 1000).min(rows);
            let range = KeyRange::ints(first as i64, end as i64);
            let footprint = Footprint::new().write_range(TABLE, range);
            self.execute(&footprint, |txn| {
                (first..end).try_for_each(|key| txn.put(TABLE, &Key::int(key as i64), &row(key)))
            })?;
        }
        Ok(())
    }

    fn execute(
        &self,
        footprint: &Footprint,
        mut procedure: impl FnMut(&mut Txn<'_>) -> Result<(), isomer_site::Abort>,
    ) -> Result<(), String> {
        let ran = complete(self.site.execute(footprint, Time::ZERO, &mut procedure));
        ran.map(|_| ()).map_err(|failure| failure.to_string())
    }

    /// Runs groups of transactions over `width` random rows each; returns transactions a second.
    fn points(
        &self,
        args: &StoreArgs,
        seed: u64,
        width: usize,
        add: impl Fn(&mut Footprint, Key),
        mut run: impl FnMut(&Footprint),
    ) -> f64 {
        let mut keys = Keys::new(seed);
        let mut group = vec![Footprint::new(); args.group.max(1)];
        rate(args, || {
            for footprint in &mut group {
                footprint.clear();
                for _ in 0..width {
                    add(footprint, Key::int(keys.next(args.rows) as i64));
                }
            }
            self.site.warm(group.iter());
            group.iter().for_each(&mut run);
            group.len() as u64
        })
    }

    fn rmw3(&self, args: &StoreArgs, seed: u64) -> f64 {
        use isomer_design::{Access, Span};
        let add =
            |footprint: &mut Footprint, key| footprint.add(TABLE, Span::Key(key), Access::Write);
        self.points(args, seed, 3, add, |footprint| {
            let ran = self.execute(footprint, |txn| {
                for item in footprint.items() {
                    txn.update(TABLE, item.span.start(), change)?;
                }
                Ok(())
            });
            ran.expect("every key exists, and other writers finish");
        })
    }

    fn reads(&self, args: &StoreArgs) -> f64 {
        use isomer_design::{Access, Span};
        let add =
            |footprint: &mut Footprint, key| footprint.add(TABLE, Span::Key(key), Access::Read);
        let mut sum = 0u64;
        let rate = self.points(args, args.seed, 1, add, |footprint| {
            let ran = self.execute(footprint, |txn| {
                let row = txn.get(TABLE, footprint.items()[0].span.start())?;
                sum += u64::from(row.expect("every key is there")[8]);
                Ok(())
            });
            ran.expect("a read is never refused");
        });
        std::hint::black_box(sum);
        rate
    }

    #[allow(clippy::disallowed_methods, reason = "a benchmark of threads starts threads")]
    fn two_threads(&self, args: &StoreArgs) -> f64 {
        std::thread::scope(|scope| {
            let other = scope.spawn(|| self.rmw3(args, args.seed + 1));
            let mine = self.rmw3(args, args.seed);
            mine + other.join().expect("the other thread measured")
        })
    }

    fn scans(&self, args: &StoreArgs) -> f64 {
        let mut keys = Keys::new(args.seed);
        let mut sum = 0u64;
        let rate = rate(args, || {
            let from = keys.next(args.rows - SCAN_ROWS) as i64;
            let range = KeyRange::ints(from, from + SCAN_ROWS as i64);
            let footprint = Footprint::new().read_range(TABLE, range.clone());
            let ran = self.execute(&footprint, |txn| {
                txn.scan(TABLE, &range, |_, value| {
                    sum += u64::from(value[8]);
                    ControlFlow::Continue(())
                })
            });
            ran.expect("a read is never refused");
            1
        });
        std::hint::black_box(sum);
        rate
    }
}

// --------------------------------------------------------------------------------- design changes

/// The time of a split and of a merge of a million rows, over that of a thousand.
fn reshape_growth(args: &StoreArgs) -> Result<(f64, f64), String> {
    let measure = |rows: u64| -> Result<(f64, f64), String> {
        let bench = SiteBench::new(&StoreArgs { rows, partitions: 1, ..args.clone() })?;
        let at = Key::int(rows as i64 / 2);
        let (mut splits, mut merges) = (Vec::new(), Vec::new());
        for _ in 0..401 {
            let begun = now();
            complete(bench.site.step(Step::Split(TABLE, at.clone()))).map_err(|e| e.to_string())?;
            splits.push(begun.elapsed());
            let begun = now();
            complete(bench.site.step(Step::Merge(TABLE, at.clone()))).map_err(|e| e.to_string())?;
            merges.push(begun.elapsed());
        }
        Ok((median(splits), median(merges)))
    };
    let small = measure(1000)?;
    let large = measure(args.rows.min(1_000_000))?;
    Ok((large.0 / small.0, large.1 / small.1))
}

fn schema() -> Schema {
    let columns =
        vec![Column::new("id", ColumnType::Int64), Column::new("field", ColumnType::Bytes)];
    Schema::new("rows", columns, &["id"]).expect("the columns fit together")
}

/// Rows a second of add_replica over those of the ordered map, and the seconds of a remaster.
fn replicas(args: &StoreArgs) -> Result<(f64, f64), String> {
    let rows = args.rows.min(1_000_000);
    let text = |error: isomer_cluster::Error| error.to_string();
    let db = Database::open(Options::in_memory(2)).map_err(text)?;
    let table = db.create_table(schema(), &[(Key::min(), SiteId(1))]).map_err(text)?;
    let mut session = db.session();
    for first in (0..rows).step_by(1000) {
        let end = (first + 1000).min(rows);
        let range = KeyRange::ints(first as i64, end as i64);
        let footprint = Footprint::new().write_range(table, range);
        db.run(&mut session, &footprint, |txn| {
            (first..end).try_for_each(|key| txn.put(table, &Key::int(key as i64), &row(key)))
        })
        .map_err(text)?;
    }
    let (start, site) = (Key::min(), SiteId(2));
    let mut refused = None;
    let added = turns(
        || {
            let begun = now();
            drop(std::hint::black_box(fill_ordered(rows)));
            rows as f64 / begun.elapsed().as_secs_f64()
        },
        || {
            let add = Change::AddReplica { table, start: start.clone(), site };
            let remove = Change::RemoveReplica { table, start: start.clone(), site };
            let result = db
                .change(add, "measured")
                .and_then(|event| db.change(remove, "measured again").map(|_| event.took_ns));
            match result {
                Ok(took_ns) => rows as f64 / (took_ns as f64 / 1e9),
                Err(error) => {
                    refused = Some(error.to_string());
                    0.0
                }
            }
        },
    );
    if let Some(error) = refused {
        return Err(error);
    }
    db.change(Change::AddReplica { table, start: start.clone(), site }, "to remaster")
        .map_err(text)?;
    let mut times = Vec::new();
    for turn in 0..201u16 {
        let to = SiteId(if turn % 2 == 0 { 2 } else { 1 });
        let event = db.change(Change::Remaster { table, start: start.clone(), to }, "measured");
        times.push(Duration::from_nanos(event.map_err(text)?.took_ns));
    }
    Ok((added.ratio, median(times)))
}

/// Commits per sync of the disk, with 16 threads that each commit and wait.
#[allow(clippy::disallowed_methods, reason = "a benchmark of threads starts threads")]
fn group_commit(args: &StoreArgs) -> Result<f64, String> {
    let text = |error: isomer_cluster::Error| error.to_string();
    let own = std::env::temp_dir().join(format!("isomer-bench-{}", std::process::id()));
    let folder = args.folder.clone().unwrap_or_else(|| own.clone());
    let measured = (|| {
        let db = Database::open(Options::in_folder(&folder, 1).durability(Durability::Commit))
            .map_err(text)?;
        let table = db.create_table(schema(), &[(Key::min(), SiteId(1))]).map_err(text)?;
        for at in 1..THREADS as i64 {
            db.change(Change::Split { table, at: Key::int(at) }, "a partition each")
                .map_err(text)?;
        }
        let (stop, commits) = (AtomicBool::new(false), AtomicU64::new(0));
        let before = db.sites()[0].log.syncs;
        std::thread::scope(|scope| {
            for thread in 0..THREADS as i64 {
                let (db, stop, commits) = (&db, &stop, &commits);
                scope.spawn(move || {
                    let mut session = db.session();
                    let key = Key::int(thread);
                    let footprint = Footprint::new().write(table, key.clone());
                    while !stop.load(Ordering::Relaxed) {
                        let put = |txn: &mut Txn<'_>| txn.put(table, &key, &row(thread as u64));
                        db.run(&mut session, &footprint, put).expect("the disk takes the commit");
                        commits.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let (begun, length) = (now(), Duration::from_millis(4 * args.turn_ms));
            while begun.elapsed() < length {
                std::thread::sleep(Duration::from_millis(10));
            }
            stop.store(true, Ordering::Relaxed);
        });
        let syncs = db.sites()[0].log.syncs - before;
        Ok(commits.load(Ordering::Relaxed) as f64 / syncs.max(1) as f64)
    })();
    // Removes the temporary folder only, never one that the user named.
    let _ = std::fs::remove_dir_all(&own);
    measured
}
