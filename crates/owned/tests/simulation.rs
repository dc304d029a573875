//! Processes that take a log over from each other at random. The partition delays and repeats
//! records, omits offsets and changes its leader. Each seed is one run; a failed run prints its
//! seed and events.

mod model;

use model::{Bug, World};
use std::time::Duration;

/// Random numbers, from a seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

const NAMES: [&str; 3] = ["a", "b", "c"];
const STEPS: usize = 800;

/// Runs a seed. Returns the number of acknowledged values.
///
/// # Errors
/// The violated invariant.
fn run(seed: u64, bug: Option<Bug>) -> Result<usize, String> {
    let (mut dice, mut world) = (Dice(seed), World::new(bug));
    let (mut values, mut checked) = (0, 0);
    for at in 0..STEPS {
        let stepped = step(&mut dice, &mut world, &mut values);
        // Wrong contents stay wrong. Only what `show` returns can become wrong by an
        // acknowledgement.
        let is_due = world.acknowledged.len() > checked || at % 50 == 0;
        checked = world.acknowledged.len();
        stepped
            .and_then(|()| if is_due { check(&world) } else { Ok(()) })
            .map_err(|what| format!("seed {seed}: {what}\n{}", world.said.join("\n")))?;
    }
    Ok(world.acknowledged.len())
}

fn step(dice: &mut Dice, world: &mut World, values: &mut usize) -> Result<(), String> {
    let name = NAMES[dice.below(NAMES.len())];
    world.now += Duration::from_millis(dice.below(8) as u64);
    let broken = |error| format!("{error}");
    match dice.below(100) {
        0..4 if !world.is_up(name) => {
            world.open(name, 95 + dice.below(11) as u32).map_err(broken)?;
        }
        4..5 => world.crash(name),
        5..8 if world.is_free(name) => world.stop(name),
        8..25 if world.is_free(name) => {
            *values += 1;
            let length = dice.below(40);
            world.write(name, &format!("v{values}{}", "-".repeat(length)));
        }
        25..30 if world.is_free(name) => world.renew(name),
        30..50 => {
            if let Some(at) = world.oldest_of(name) {
                if dice.below(10) == 0 { world.land_twice(at) } else { world.land(at) }
            }
        }
        50..70 => world.replicate(),
        70..72 => world.change_leader(),
        72..92 => {
            let answerable = world.answerable();
            if !answerable.is_empty() {
                let at = answerable[dice.below(answerable.len())];
                world.answer(at, dice.below(8) > 0).map_err(broken)?;
            }
        }
        _ => world.acknowledge(name),
    }
    Ok(())
}

/// The invariants.
fn check(world: &World) -> Result<(), String> {
    let read = world.read().map_err(|error| format!("the log cannot be read: {error}"))?;
    let place = |value: &String| read.iter().position(|other| other == value);
    for value in &world.acknowledged {
        let Some(at) = place(value) else {
            return Err(format!("{value} was acknowledged, and is not there"));
        };
        let before = &world.acknowledged[..world.written_after[value]];
        if let Some(late) = before.iter().find(|other| place(other) > Some(at)) {
            return Err(format!(
                "{late} was acknowledged before {value} was written, and comes after it"
            ));
        }
    }
    let mut sorted = read.clone();
    sorted.sort();
    if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("{} is there twice", twice[0]));
    }
    for name in NAMES {
        let Some(shown) = world.show(name) else { continue };
        if let Some(hidden) = world.acknowledged.iter().find(|value| !shown.contains(value)) {
            return Err(format!("{name} does not show {hidden}, which was acknowledged"));
        }
    }
    Ok(())
}

#[test]
fn owners_lose_no_acknowledged_value_and_serve_no_outdated_read() {
    let mut acknowledged = 0;
    for seed in 0..3000 {
        acknowledged += run(seed, None).unwrap_or_else(|what| panic!("{what}"));
    }
    assert!(acknowledged > 3000, "the runs are worth something: {acknowledged}");
}

/// Each planted bug is found; otherwise the test above would prove nothing.
#[test]
fn planted_bugs_are_found() {
    for bug in [
        Bug::NoFence,
        Bug::EarlyAnswer,
        Bug::NoTerms,
        Bug::WrongOffset,
        Bug::NoWait,
        Bug::EarlyRelease,
        Bug::EarlyNote,
    ] {
        let found = (0..3000).find_map(|seed| run(seed, Some(bug)).err());
        let found = found.unwrap_or_else(|| panic!("{bug:?} is not found"));
        println!("{bug:?}: {}", found.lines().next().unwrap_or_default());
    }
}
