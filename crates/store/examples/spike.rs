//! Spike: point lookups and read-modify-writes against a bare hash map.
#![allow(clippy::disallowed_methods, missing_docs)]
use isomer_design::*;
use isomer_store::*;
use std::sync::Arc;
use std::time::Instant;

fn rng(s: &mut u64) -> u64 {
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    *s
}

fn main() {
    let n: u64 = std::env::args().nth(1).map_or(10_000_000, |a| a.parse().unwrap());
    let mut map: hashbrown::HashMap<u64, [u8; 100], foldhash::fast::FixedState> =
        hashbrown::HashMap::with_capacity_and_hasher(
            n as usize,
            foldhash::fast::FixedState::default(),
        );
    for i in 0..n {
        map.insert(i, [1; 100]);
    }
    let mut s = 88172645463325252u64;
    let ops = 6_000_000u64;
    let t = Instant::now();
    let mut sum = 0u64;
    for _ in 0..ops {
        sum += map[&(rng(&mut s) % n)][0] as u64;
    }
    let map_read = ops as f64 / t.elapsed().as_secs_f64();
    let t = Instant::now();
    for _ in 0..ops {
        let r = map.get_mut(&(rng(&mut s) % n)).unwrap();
        r[0] = r[0].wrapping_add(1);
        r[50] ^= 3;
    }
    let map_rmw = ops as f64 / t.elapsed().as_secs_f64();
    drop(map);
    let store = Store::new(Time(1));
    let index = store.new_table();
    let t = Instant::now();
    {
        let mut c = store.context().unwrap();
        c.hold();
        for i in 0..n {
            let g = pin();
            let k = Key::int(i as i64);
            let mut spot = index.spot(&k, &g);
            c.install(&index, &mut spot, &k, Some(&[1; 100]), Time(2), &g);
        }
    }
    let load = n as f64 / t.elapsed().as_secs_f64();
    println!("overhead {}", store.memory_bytes() as f64 / n as f64 - 100.0);
    let parts: Vec<Partition> = (0..1000)
        .map(|i| {
            Partition::new(
                TableId(1),
                KeyRange::ints(i * (n as i64) / 1000, (i + 1) * (n as i64) / 1000),
                Stamp { version: 1, last: Time(2) },
                Time::MAX,
                Time(1),
            )
        })
        .collect();
    let waker = std::task::Waker::noop();
    // single reads
    let ops = 3_000_000u64;
    let mut reads = vec![];
    for group in [1usize, 8, 16] {
        let t = Instant::now();
        let mut keys: Vec<(u64, Key)> = Vec::new();
        for _ in 0..ops / group as u64 {
            keys.clear();
            let mut c = store.context().unwrap();
            let g = pin();
            for _ in 0..group {
                let k = rng(&mut s) % n;
                keys.push((k, Key::int(k as i64)));
            }
            let mut spots: smallvec::SmallVec<[Spot; 16]> =
                keys.iter().map(|(_, k)| index.spot(k, &g)).collect();
            for (sp, (_, k)) in spots.iter().zip(&keys) {
                index.warm(*sp, k);
            }
            for (sp, (kk, k)) in spots.iter_mut().zip(&keys) {
                let p = &parts[(*kk * 1000 / n) as usize];
                let at = c.snapshot(std::iter::once(p), Time(0), waker).unwrap();
                sum += index.newest_at(sp, k, &g).unwrap().value_at(at).unwrap()[0] as u64;
                c.unpin();
            }
        }
        reads.push(ops as f64 / t.elapsed().as_secs_f64());
    }
    let t = Instant::now();
    let txns = 1_000_000u64;
    let mut now = 10;
    for _ in 0..txns {
        now += 1;
        let mut c = store.context().unwrap();
        let g = pin();
        let mut keys: [(u64, Key); 3] = std::array::from_fn(|_| {
            let k = rng(&mut s) % n;
            (k, Key::int(k as i64))
        });
        keys.sort();
        let mut spots: [Spot; 3] = std::array::from_fn(|i| index.spot(&keys[i].1, &g));
        for i in 0..3 {
            index.warm(spots[i], &keys[i].1);
        }
        let mut ps: smallvec::SmallVec<[usize; 8]> =
            keys.iter().map(|k| (k.0 * 1000 / n) as usize).collect();
        ps.dedup();
        for &p in &ps {
            assert!(parts[p].lock.try_lock(waker));
        }
        let at = c.snapshot(ps.iter().map(|&p| &parts[p]), Time(0), waker).unwrap();
        let mut vals: [[u8; 100]; 3] = [[0; 100]; 3];
        for i in 0..3 {
            vals[i].copy_from_slice(
                index.newest_at(&mut spots[i], &keys[i].1, &g).unwrap().value_at(at).unwrap(),
            );
            vals[i][0] = vals[i][0].wrapping_add(1);
        }
        for &p in &ps {
            parts[p].begin_publishing();
        }
        let time = store.clock.tick(Time(now));
        for i in 0..3 {
            c.install(&index, &mut spots[i], &keys[i].1, Some(&vals[i]), time, &g);
        }
        for &p in &ps {
            parts[p].end_publishing(parts[p].version() + 1, time);
            parts[p].lock.unlock();
        }
        c.unpin();
        c.collect_some();
    }
    let rmw = txns as f64 / t.elapsed().as_secs_f64();
    println!(
        "{sum} map read {:.1}M rmw {:.1}M | load {:.2}M read {:?} ratio {:?} rmw3 {:.2}M ratio {:.3}",
        map_read / 1e6,
        map_rmw / 1e6,
        load / 1e6,
        reads,
        reads.iter().map(|r| r / map_read).collect::<Vec<_>>(),
        rmw / 1e6,
        rmw * 3.0 / map_rmw
    );
    println!("overhead {}", store.memory_bytes() as f64 / n as f64 - 100.0);
    let _ = Arc::new(0);
}
