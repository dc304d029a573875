//! Compares the lock manager with a naive model, which keeps a list of all requests and searches it
//! for conflicts.

use isomer_batch::{Lock, Locks, StepId};
use isomer_design::{Access, Key, KeyRange, Span, TableId};
use rand::seq::IteratorRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Random;
use std::collections::{BTreeMap, BTreeSet};

fn draw(random: &mut Random) -> Lock {
    let low = random.random_range(0..12);
    let span = match random.random_range(0..4) {
        0 => Span::Range(KeyRange::ints(low, low + random.random_range(1..6))),
        1 if random.random_bool(0.3) => Span::Range(KeyRange::new(Key::int(low), None)),
        _ => Span::Key(Key::int(low)),
    };
    let access = if random.random_bool(0.5) { Access::Write } else { Access::Read };
    Lock { table: TableId(random.random_range(1..3)), span, access }
}

fn range(span: &Span) -> KeyRange {
    match span {
        Span::Key(key) => KeyRange::single(key.clone()),
        Span::Range(range) => range.clone(),
    }
}

fn conflict(a: &[Lock], b: &[Lock]) -> bool {
    a.iter().any(|a| {
        b.iter().any(|b| {
            let shared = a.access == Access::Read && b.access == Access::Read;
            a.table == b.table && !shared && range(&a.span).overlaps(&range(&b.span))
        })
    })
}

/// Steps that conflict with no earlier unfinished step.
fn free(asked: &BTreeMap<StepId, Vec<Lock>>) -> BTreeSet<StepId> {
    let is_free = |&(id, locks): &(&StepId, &Vec<Lock>)| {
        asked.range(..*id).all(|(_, earlier)| !conflict(earlier, locks))
    };
    asked.iter().filter(is_free).map(|(id, _)| *id).collect()
}

#[test]
fn a_step_has_its_locks_once_no_earlier_step_conflicts() {
    for seed in 0..300 {
        let mut random = Random::seed_from_u64(seed);
        let (mut locks, mut asked, mut granted) = (Locks::new(), BTreeMap::new(), BTreeSet::new());
        let mut next = 0;
        while next < 60 || !asked.is_empty() {
            if next < 60 && random.random_bool(0.6) {
                let step = StepId { batch: next / 7, step: (next % 7) as u32 };
                let count = random.random_range(0..4);
                let wanted: Vec<Lock> = (0..count).map(|_| draw(&mut random)).collect();
                next += 1;
                if locks.acquire(step, wanted.clone()) {
                    granted.insert(step);
                }
                asked.insert(step, wanted);
            } else if let Some(&step) = granted.iter().choose(&mut random) {
                granted.remove(&step);
                asked.remove(&step);
                granted.extend(locks.release(step));
            }
            assert_eq!(granted, free(&asked), "seed {seed}: {asked:?}");
        }
        assert!(locks.is_empty() && locks.places() == 0, "seed {seed}: {locks:?}");
    }
}
