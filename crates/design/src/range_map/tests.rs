//! Range maps against the ordered map of the standard library, and their shape.

use super::*;
use std::collections::BTreeMap;

/// A seeded source of numbers (splitmix64), so that a failure repeats.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % bound
    }

    /// Keys with many equal words: integers, their successors, and texts with one prefix.
    fn key(&mut self, bound: u64) -> Key {
        let number = self.below(bound);
        match self.below(3) {
            0 => Key::int(number as i64),
            1 => Key::int(number as i64).successor(),
            _ => Key::from_bytes(format!("prefix of all/{number}").as_bytes()),
        }
    }
}

fn check_against(map: &RangeMap<u64>, model: &BTreeMap<Key, u64>, probe: &Key) {
    let covering = model.range(..=probe.clone()).next_back();
    let after = (std::ops::Bound::Excluded(probe.clone()), std::ops::Bound::Unbounded);
    assert_eq!(map.len(), model.len());
    assert_eq!(map.get(probe), covering);
    assert_eq!(map.get_exact(probe), model.get(probe));
    assert_eq!(map.before(probe), model.range(..probe.clone()).next_back());
    assert_eq!(map.after(probe), model.range(after).next());
    let from = covering.map_or(probe, |(start, _)| start);
    assert!(map.iter_from(probe).take(3).eq(model.range(from.clone()..).take(3)));
}

fn check_shape(map: &RangeMap<u64>) {
    for (word, chunk) in map.top.words.iter().zip(&map.top.chunks) {
        assert_eq!(*word, chunk.words[0]);
        assert!((1..=CHUNK_ENTRIES_MAX).contains(&chunk.entries.len()));
        let (words, rest) = chunk.words.split_at(chunk.entries.len());
        assert!(chunk.entries.iter().map(|(start, _)| word_of(start)).eq(words.iter().copied()));
        assert!(rest.iter().all(|&word| word == u64::MAX));
    }
    assert!(map.iter().is_sorted_by(|a, b| a.0 < b.0));
}

#[test]
fn random_changes_agree_with_a_btree_map() {
    for seed in 0..8 {
        let mut random = Seeded(seed);
        let (mut map, mut model) = (RangeMap::new(), BTreeMap::new());
        let keys = [5, 100, 4000][seed as usize % 3];
        for step in 0..6000 {
            let key = random.key(keys);
            // Grow in the first half, shrink in the second.
            if random.below(10) < if step < 3000 { 8 } else { 2 } {
                assert_eq!(map.set(key.clone(), step), model.insert(key, step));
            } else {
                assert_eq!(map.unset(&key), model.remove(&key));
            }
            check_against(&map, &model, &random.key(keys));
        }
        check_shape(&map);
        assert!(map.iter().eq(&model));
    }
}

#[test]
fn older_clones_do_not_change() {
    let old = RangeMap::from_sorted((0..1000).map(|n| (Key::int(n), n as u64)));
    let new = old.insert(Key::int(500), 7).remove(&Key::int(501)).insert(Key::min(), 8);
    assert_eq!(old.get_exact(&Key::int(500)), Some(&500));
    assert_eq!(old.get_exact(&Key::int(501)), Some(&501));
    assert_eq!(new.get(&Key::int(501)), Some((&Key::int(500), &7)));
    assert_eq!((old.len(), new.len()), (1000, 1000));
    // All but the two chunks that changed are shared.
    let shared = |chunk: &Arc<Chunk<u64>>| old.top.chunks.iter().any(|o| Arc::ptr_eq(o, chunk));
    assert_eq!(new.top.chunks.iter().filter(|chunk| !shared(chunk)).count(), 2);
}

#[test]
fn a_map_that_shrinks_gives_its_chunks_back() {
    let mut map = RangeMap::from_sorted((0..50_000).map(|n| (Key::int(n), 0)));
    assert_eq!(map.top.chunks.len(), 50_000usize.div_ceil(CHUNK_ENTRIES_MAX));
    for n in (0..50_000).filter(|n| n % 100 != 0) {
        map.unset(&Key::int(n));
    }
    check_shape(&map);
    assert_eq!(map.len(), 500);
    assert!(map.top.chunks.len() <= 500 / CHUNK_ENTRIES_MIN);
}

#[test]
#[should_panic(expected = "must strictly increase")]
fn unsorted_entries_are_the_callers_mistake() {
    let _ = RangeMap::from_sorted([(Key::int(2), ()), (Key::int(1), ())]);
}
