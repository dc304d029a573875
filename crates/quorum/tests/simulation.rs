//! Members that crash, pause, and lose envelopes at random. Each seed is one run; a failed run
//! prints its seed and the violated invariant.

mod world;

use isomer_quorum::roster::Standing;
use world::{Bug, World};

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

    /// True once in `times`.
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

const STEPS: usize = 6000;
/// Events of the quiet end of a run, in which all members must catch up.
const QUIET: usize = 60_000;

/// Runs a seed. Returns the number of acknowledged records.
///
/// # Errors
/// The violated invariant.
fn run(seed: u64, bug: Option<Bug>) -> Result<usize, String> {
    let mut dice = Dice(seed);
    let members = if dice.once_in(4) { 5 } else { 3 };
    let mut world = World::new(members, bug);
    let has_elections = dice.once_in(3);
    for at in 0..STEPS {
        // Once the members have met, there are elections in every other part of the run.
        match has_elections && at / 500 % 2 == 1 {
            true => election(&mut dice, &mut world, at),
            false => step(&mut dice, &mut world, at),
        }
        world.check().map_err(|what| format!("event {at}: {what}"))?;
    }
    quiet(&mut dice, &mut world)?;
    world.check()?;
    let whole: Vec<usize> = (0..members).filter(|at| !world.lost.contains(at)).collect();
    let ends: Vec<u64> = whole.iter().map(|at| world.bounds(*at).1).collect();
    if ends.iter().any(|end| *end != ends[0]) {
        return Err(format!("the members end at {ends:?}"));
    }
    whole.iter().try_for_each(|at| world.check_acknowledged(*at))?;
    Ok(world.appends.iter().filter(|asked| asked.offset.is_some()).count())
}

/// Events of one election.
const ELECTION: usize = 50;

/// Elections in a row: some members stand at the same time, and others restart after their votes.
fn election(dice: &mut Dice, world: &mut World, at: usize) {
    if at.is_multiple_of(ELECTION) {
        world.heal();
        world.envelopes.clear();
        for member in 0..world.members() {
            world.pause(member, false);
            if !world.is_up(member) {
                world.start(member);
            }
        }
        let calm = dice.below(world.members());
        let candidates = (0..world.members()).filter(|member| *member != calm);
        candidates.for_each(|member| (0..24).for_each(|_| world.tick(member)));
    }
    let member = dice.below(world.members());
    match dice.below(100) {
        0..=5 if world.is_up(member) => {
            world.crash(member, [0.0, 1.0][dice.below(2)]);
            world.start(member);
        }
        6 => world.append(member, format!("e{at}").as_bytes()),
        7..=40 => world.sync(member),
        _ if world.envelopes.is_empty() => {}
        _ => world.deliver(dice.below(world.envelopes.len()), false),
    }
}

fn step(dice: &mut Dice, world: &mut World, at: usize) {
    let member = dice.below(world.members());
    match dice.below(1000) {
        0..=3 if world.is_up(member) => {
            let share = [0.0, 0.5, 1.0][dice.below(3)];
            world.crash(member, share);
        }
        0..=15 if !world.is_up(member) => {
            let minority = (world.members() - 1) / 2;
            if world.has_roster(member, false) && world.lost.len() < minority && dice.once_in(8) {
                world.empty(member);
            }
            world.start(member);
        }
        16..=20 => world.pause(member, true),
        21..=40 => world.pause(member, false),
        41..=44 => world.cut(member, dice.below(world.members())),
        45..=50 => world.heal(),
        51..=54 => {
            let (first, end) = world.bounds(member);
            if end > first + 4 {
                world.remove_before(member, first + dice.below((end - first) as usize) as u64);
            }
        }
        55..=90 => {
            let length = [3, 20, 150][dice.below(3)];
            let record = format!("r{at}{}", ".".repeat(length));
            world.append(member, record.as_bytes());
        }
        91..=250 => world.tick(member),
        251..=400 => world.sync(member),
        _ if world.envelopes.is_empty() => world.tick(member),
        roll => {
            // The oldest, or any.
            let any = dice.below(world.envelopes.len());
            let envelope = if roll % 4 == 0 { any } else { 0 };
            match roll {
                401..=420 => world.lose(envelope),
                421..=440 => world.deliver(envelope, true),
                _ => world.deliver(envelope, false),
            }
        }
    }
    // A network that is never drained would only show old envelopes.
    while world.envelopes.len() > 200 {
        world.lose(dice.below(world.envelopes.len()));
    }
}

/// Nothing fails any more, until all members have all records.
fn quiet(dice: &mut Dice, world: &mut World) -> Result<(), String> {
    world.heal();
    for member in 0..world.members() {
        world.pause(member, false);
        if !world.is_up(member) {
            world.start(member);
        }
    }
    for _ in 0..QUIET {
        let member = dice.below(world.members());
        match dice.below(8) {
            0 => world.tick(member),
            1 | 2 => world.sync(member),
            _ if world.envelopes.is_empty() => world.tick(member),
            _ => world.deliver(0, false),
        }
    }
    for at in 0..world.members() {
        let standing = world.standing(at);
        let is_right = match standing {
            Some(Standing::Member) => !world.emptied.contains(&at) || world.is_fooled(),
            Some(Standing::Refused(_)) => world.lost.contains(&at),
            _ => false,
        };
        if !is_right {
            return Err(format!("member {at} has ended as {standing:?}"));
        }
    }
    Ok(())
}

fn seeds(default: u64) -> std::ops::Range<u64> {
    let seeds = std::env::var("SEEDS").ok().and_then(|text| text.parse().ok());
    1..1 + seeds.unwrap_or(default)
}

#[test]
fn no_acknowledged_record_is_lost_or_changes_its_place() {
    let mut acknowledged = 0;
    for seed in seeds(60) {
        match run(seed, None) {
            Ok(count) => acknowledged += count,
            Err(what) => panic!("seed {seed}: {what}"),
        }
    }
    assert!(acknowledged > 1000, "only {acknowledged} records were acknowledged");
}

/// The first seed that finds a planted bug, and how it shows.
fn found(bug: Bug) -> String {
    // An assertion finds it as well.
    std::panic::set_hook(Box::new(|_| ()));
    let found =
        (1..=200).find_map(|seed| match std::panic::catch_unwind(|| run(seed, Some(bug))) {
            Ok(Ok(_)) => None,
            Ok(Err(what)) => Some(format!("seed {seed}: {what}")),
            Err(_) => Some(format!("seed {seed}: an assertion")),
        });
    let _ = std::panic::take_hook();
    found.unwrap_or_else(|| panic!("no seed finds {bug:?}"))
}

#[test]
fn an_answer_before_the_majority_has_the_record_is_found() {
    println!("{}", found(Bug::EarlyAnswer));
}

#[test]
fn a_vote_that_is_forgotten_after_a_crash_is_found() {
    println!("{}", found(Bug::ForgottenVote));
}

#[test]
fn a_member_that_votes_without_its_folder_is_found() {
    println!("{}", found(Bug::EmptyFolder));
}

#[test]
fn a_disk_that_forgets_what_it_has_synced_is_found() {
    println!("{}", found(Bug::LyingDisk));
}
