//! How long lookups take: `cargo run --release -p isomer-design --example lookup_times`.
//!
//! Prints nanoseconds per operation for maps of growing size, over keys in random order, so that
//! caches help as little as they will in the router.

use isomer_design::{Column, ColumnType, Design, Schema};
use isomer_design::{Footprint, Key, Placement, RangeMap, Route, RoutingTable, SiteId, TableId};
use std::hint::black_box;

const PROBES: usize = 1 << 20;

fn main() {
    println!("entries     get   insert   home of 2   home of 16   (ns)");
    for entries in [1, 100, 1_000, 10_000, 50_000, 200_000] {
        let placed = (0..entries).map(|n| (start(n), Placement::at(SiteId(n as u16 % 4 + 1))));
        let map = RangeMap::from_sorted(placed.clone());
        let routing = RoutingTable::of(&design(placed));
        let probes: Vec<Key> = scattered(PROBES).map(|n| Key::int(n % (entries * 10))).collect();

        let get = time_each(&probes, |key| black_box(map.get(key)).is_some());
        let few = &probes[..2000];
        let insert = time_each(few, |key| {
            black_box(map.insert(key.clone(), Placement::at(SiteId(9)))).is_empty()
        });
        let pairs = home_time(&routing, &probes, 2);
        let dozens = home_time(&routing, &probes, 16);
        println!("{entries:7} {get:7.1} {insert:8.0} {pairs:11.1} {dozens:12.1}");
    }
}

/// Single-key partitions lie ten keys apart; the first starts at the beginning of the table.
fn start(n: i64) -> Key {
    if n == 0 { Key::min() } else { Key::int(n * 10) }
}

fn design(partitions: impl Iterator<Item = (Key, Placement)>) -> Design {
    let columns = vec![Column::new("id", ColumnType::Int64)];
    let schema = Schema::new("accounts", columns, &["id"]).expect("the columns are right");
    let mut design = Design::new((1..=4).map(SiteId)).expect("four sites are possible");
    design.create_table(TableId(1), schema, partitions).expect("partitions are in order");
    design
}

fn home_time(routing: &RoutingTable, probes: &[Key], items: usize) -> f64 {
    let footprints: Vec<Footprint> = probes
        .chunks(items)
        .take(20_000)
        .map(|keys| keys.iter().fold(Footprint::new(), |f, key| f.read(TableId(1), key.clone())))
        .collect();
    time_each(&footprints, |footprint| matches!(routing.home(footprint), Route::Sites(_)))
}

/// Numbers in an order that no prefetcher follows.
fn scattered(count: usize) -> impl Iterator<Item = i64> {
    (1..=count as u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24) as i64)
}

/// The nanoseconds that `work` takes for one of the items, on average.
#[allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn time_each<T>(items: &[T], work: impl Fn(&T) -> bool) -> f64 {
    let begin = std::time::Instant::now();
    let yes = items.iter().filter(|item| work(item)).count();
    let taken = begin.elapsed();
    black_box(yes);
    taken.as_nanos() as f64 / items.len() as f64
}
