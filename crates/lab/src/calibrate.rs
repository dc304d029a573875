//! Measures the table of costs from the code itself, on the machine at hand.
//!
//! Each cost is a slope between two sizes, so that common overhead cancels out. It is the median of
//! many rounds, so that other load on the machine has little effect.
//!
//! ```text
//!   scan of 1000 rows − scan of 100 rows              = 900 · scan
//!   read in 9 partitions − read of 9 rows in one      = 8 · partition
//!   change of 9 rows − change of 1 row                = 8 · (read + write)
//!   change of 1 row − read of 1 row                   = commit + write
//! ```
//!
//! Two sites run on one thread, and this module delivers their messages. The cost of a message is
//! that of a small one over a local socket. The caller provides the clock. The costs of ordering,
//! planning and locking in a total order are measured in [`ordered::calibrate`].

use crate::costs::Costs;
use crate::ordered;
use crate::stopwatch::Stopwatch;
use isomer_design::{Column, ColumnType};
use isomer_design::{
    Design, Footprint, Key, KeyRange, Placement, RoutingTable, Schema, SiteId, TableId, Time,
};
use isomer_log::{Log, MemoryLog, MemoryOptions};
use isomer_site::{Answer, Message, Network, Procedure, Site, SiteOptions, Step, TimeSource, Txn};
use parking_lot::Mutex;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

const TABLE: TableId = TableId(1);
const ROWS: i64 = 100_000;
const PARTITION_ROWS: i64 = 1000;
const ROW: [u8; 26] = [7; 26];
/// The number of repetitions in a round.
const REPEAT: usize = 200;
const ROUNDS: usize = 41;

/// Measures all costs.
///
/// # Errors
/// A message, if this machine cannot connect to itself over a socket.
pub fn calibrate(now: Stopwatch<'_>) -> Result<Costs, String> {
    let bench = Bench::new();
    let median = |run: &mut dyn FnMut(i64)| median(now, run);
    let read = |keys: i64, apart: i64| {
        median(&mut |at| bench.read((0..keys).map(|key| at % 50 * PARTITION_ROWS + key * apart)))
    };
    let change = |keys: i64| {
        median(&mut |at| bench.change((0..keys).map(|key| at % 90 * PARTITION_ROWS + key)))
    };
    let scan = |rows: i64| median(&mut |at| bench.scan(at % 90 * PARTITION_ROWS, rows));
    let (read_1, read_9, read_9_apart) = (read(1, 1), read(9, 1), read(9, PARTITION_ROWS));
    let (change_1, change_9) = (change(1), change(9));
    let slope = |more: f64, less: f64, by: f64| ((more - less) / by).max(1.0);
    let read = slope(read_9, read_1, 8.0);
    let write = slope(slope(change_9, change_1, 8.0), read, 1.0);
    let partition = slope(read_9_apart, read_9, 8.0);
    let (route_1, route_9) = (route(1, now), route(9, now));
    let (refresh_1, refresh_9) = bench.refresh(now);
    let step = bench.step(now);
    let (snapshot_row, install_row) = bench.copy(now);
    let (send, receive) =
        message(now).map_err(|error| format!("a socket on this machine: {error}"))?;
    let order = ordered::calibrate::calibrate(now);
    let begin = slope(read_1, read + partition, 1.0);
    let refresh_row = slope(refresh_9, refresh_1, 8.0);
    Ok(Costs {
        route: slope(route_1, slope(route_9, route_1, 8.0), 1.0),
        route_item: slope(route_9, route_1, 8.0),
        receive,
        send,
        begin,
        // A resumed transaction takes the same path again.
        resume: begin,
        partition,
        read,
        write,
        scan: slope(scan(1000), scan(100), 900.0),
        commit: slope(change_1, read_1 + write, 1.0),
        refresh: slope(refresh_1, refresh_row, 1.0),
        refresh_row,
        step,
        snapshot_row,
        install_row,
        order: order.order,
        plan: order.plan,
        plan_item: order.plan_item,
        plan_cell: order.plan_cell,
        lock: order.lock,
    })
}

/// A design with eight sites and one partitioned table.
fn design(place: fn(i64) -> Placement) -> Design {
    let mut design = Design::new((1..=8).map(SiteId)).expect("eight sites");
    let schema = Schema::new("rows", vec![Column::new("id", ColumnType::Int64)], &["id"]);
    let starts =
        (0..ROWS / PARTITION_ROWS).map(|at| (partition(at * PARTITION_ROWS).start, place(at)));
    let schema = schema.expect("a valid schema");
    design.create_table(TABLE, schema, starts).expect("a valid design");
    design
}

/// Routes a footprint of `keys` keys.
fn route(keys: i64, now: Stopwatch<'_>) -> f64 {
    let table = RoutingTable::of(&design(|_| Placement::at(SiteId(1))));
    median(now, &mut |at| {
        let keys = (0..keys).map(|key| Key::int((at * 37 + key * 7919) % ROWS));
        let footprint = keys.fold(Footprint::new(), |all, key| all.write(TABLE, key));
        std::hint::black_box(table.home(&footprint));
    })
}

/// The median time of one call over all rounds, in nanoseconds.
fn median(now: Stopwatch<'_>, run: &mut dyn FnMut(i64)) -> f64 {
    let mut rounds: Vec<u64> = (0..ROUNDS)
        .map(|round| {
            let begun = now();
            for at in 0..REPEAT {
                run((round * REPEAT + at) as i64);
            }
            now() - begun
        })
        .collect();
    rounds.sort_unstable();
    rounds[ROUNDS / 2] as f64 / REPEAT as f64
}

/// Two sites, of which the first masters all partitions.
struct Bench {
    sites: [Arc<Site>; 2],
    messages: Arc<Messages>,
}

#[derive(Default)]
struct Messages(Mutex<Vec<(SiteId, SiteId, Message)>>);

impl Network for Messages {
    fn send(&self, from: SiteId, to: SiteId, message: Message) {
        self.0.lock().push((from, to, message));
    }
}

/// A clock that advances by one at each reading.
struct Count(AtomicU64);

impl TimeSource for Count {
    fn now(&self) -> Time {
        Time(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

impl Bench {
    fn new() -> Bench {
        let messages = Arc::<Messages>::default();
        let time = Arc::new(Count(AtomicU64::new(1)));
        let open = |number| {
            let log: Arc<dyn Log> = Arc::new(MemoryLog::new(MemoryOptions::default()));
            let (network, time) = (messages.clone(), time.clone());
            let options = SiteOptions::new(SiteId(number), log, network, time);
            Arc::new(Site::open(options).expect("an empty log can be read"))
        };
        let bench = Bench { sites: [open(1), open(2)], messages };
        bench.sites[0].greet([SiteId(2)].into_iter());
        bench.hand_over();
        let borders = (0..ROWS / PARTITION_ROWS).map(|at| partition(at * PARTITION_ROWS));
        poll(bench.sites[0].step(Step::Create(TABLE, borders.collect()))).expect("a new table");
        for at in 0..ROWS / PARTITION_ROWS {
            let range = partition(at * PARTITION_ROWS);
            let footprint = Footprint::new().write_range(TABLE, range);
            let keys = at * PARTITION_ROWS..(at + 1) * PARTITION_ROWS;
            bench.execute(&footprint, &mut |txn: &mut Txn<'_>| {
                keys.clone().try_for_each(|key| txn.put(TABLE, &Key::int(key), &ROW))
            });
        }
        bench
    }

    fn hand_over(&self) {
        loop {
            let messages = std::mem::take(&mut *self.messages.0.lock());
            if messages.is_empty() {
                return;
            }
            for (from, to, message) in messages {
                self.sites[usize::from(to.0) - 1].receive(from, message);
            }
        }
    }

    fn execute(&self, footprint: &Footprint, procedure: &mut dyn Procedure) {
        poll(self.sites[0].execute(footprint, Time::ZERO, procedure))
            .expect("nothing is in the way");
    }

    fn read(&self, keys: impl Iterator<Item = i64>) {
        let keys: Vec<Key> = keys.map(Key::int).collect();
        let footprint = keys.iter().fold(Footprint::new(), |all, key| all.read(TABLE, key.clone()));
        self.execute(&footprint, &mut |txn: &mut Txn<'_>| {
            keys.iter().try_for_each(|key| txn.get(TABLE, key).map(drop))
        });
    }

    fn change(&self, keys: impl Iterator<Item = i64>) {
        let keys: Vec<Key> = keys.map(Key::int).collect();
        let footprint =
            keys.iter().fold(Footprint::new(), |all, key| all.write(TABLE, key.clone()));
        self.execute(&footprint, &mut |txn: &mut Txn<'_>| {
            keys.iter().try_for_each(|key| txn.update(TABLE, key, |row| row[0] ^= 1).map(drop))
        });
    }

    fn scan(&self, first: i64, rows: i64) {
        let range = KeyRange::ints(first, first + rows);
        let footprint = Footprint::new().read_range(TABLE, range.clone());
        self.execute(&footprint, &mut |txn: &mut Txn<'_>| {
            txn.scan(TABLE, &range, |_, _| ControlFlow::Continue(()))
        });
    }

    /// The time to apply an event with one row at a replica, and an event with nine rows.
    fn refresh(&self, now: Stopwatch<'_>) -> (f64, f64) {
        self.follow(0);
        let one = |rows: i64| {
            let mut rounds: Vec<u64> = (0..ROUNDS)
                .map(|_| {
                    (0..REPEAT as i64).for_each(|at| {
                        self.change((0..rows).map(|key| (at + key) % PARTITION_ROWS))
                    });
                    // Only durable events are sent to followers.
                    self.sites[0].log().sync().expect("memory can be synced");
                    self.sites[0].ship();
                    let begun = now();
                    self.hand_over();
                    now() - begun
                })
                .collect();
            rounds.sort_unstable();
            rounds[ROUNDS / 2] as f64 / REPEAT as f64
        };
        (one(1), one(9))
    }

    fn follow(&self, first: i64) {
        let start = partition(first).start;
        let step = Step::Follow(TABLE, start, SiteId(2));
        let Ok(Answer::Snapshot(snapshot)) = poll(self.sites[0].step(step)) else {
            panic!("a follow is answered with a snapshot")
        };
        poll(self.sites[1].step(Step::Install(snapshot))).expect("there is no replica yet");
        self.hand_over();
    }

    /// The time of a split or merge.
    fn step(&self, now: Stopwatch<'_>) -> f64 {
        let at = Key::int(50 * PARTITION_ROWS + 500);
        let mut run = |_| {
            poll(self.sites[0].step(Step::Split(TABLE, at.clone()))).expect("it can be split");
            poll(self.sites[0].step(Step::Merge(TABLE, at.clone()))).expect("it can be merged");
        };
        median(now, &mut run) / 2.0
    }

    /// The time to read a row for a replica, and to install a row there.
    fn copy(&self, now: Stopwatch<'_>) -> (f64, f64) {
        let (mut reads, mut installs) = (Vec::new(), Vec::new());
        for at in 60..60 + 31 {
            let start = partition(at * PARTITION_ROWS).start;
            let begun = now();
            let answer = poll(self.sites[0].step(Step::Follow(TABLE, start, SiteId(2))));
            let Ok(Answer::Snapshot(snapshot)) = answer else {
                panic!("a follow gives a snapshot")
            };
            let read = now();
            poll(self.sites[1].step(Step::Install(snapshot))).expect("there is no replica yet");
            reads.push(read - begun);
            installs.push(now() - read);
        }
        self.hand_over();
        let middle = |mut times: Vec<u64>| {
            times.sort_unstable();
            times[times.len() / 2] as f64 / PARTITION_ROWS as f64
        };
        (middle(reads), middle(installs))
    }
}

fn partition(first: i64) -> KeyRange {
    let end = first + PARTITION_ROWS;
    let start = if first == 0 { Key::min() } else { Key::int(first) };
    KeyRange::new(start, (end < ROWS).then(|| Key::int(end)))
}

/// Polls a future until it is ready. It must not wait for another thread.
fn poll<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return done;
        }
    }
}

/// The core time to send a small message, and to receive it.
fn message(now: Stopwatch<'_>) -> std::io::Result<(f64, f64)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut one = TcpStream::connect(listener.local_addr()?)?;
    let (mut other, _) = listener.accept()?;
    one.set_nodelay(true)?;
    let mut bytes = [0u8; 200];
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS * REPEAT {
        let begun = now();
        one.write_all(&bytes)?;
        let sent = now();
        other.read_exact(&mut bytes)?;
        sends.push(sent - begun);
        receives.push(now() - sent);
    }
    sends.sort_unstable();
    receives.sort_unstable();
    Ok((sends[sends.len() / 2] as f64, receives[receives.len() / 2] as f64))
}
