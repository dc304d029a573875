//! Golden scripts about three members that keep a log together, over a modelled network
//! (`world/mod.rs`). Nothing arrives, and no disk is synced, before the script says so.
//!
//! ```text
//! a: append v1            a client asks a to append a value
//! a: remove 3             the records before offset 3 are not needed any more
//! a: tick 5               a's clock goes on by 5 ticks
//! a: sync                 a's disk has everything that a has written
//! a: crash [tail]         a is killed; with the tail that was not synced, if the script says so
//! a: start                a starts again, with what its disk has
//! a: empty                the folder of a, which is down, is emptied
//! a: pause, a: resume     a stands still; envelopes to it are lost
//! a: show                 what a shows to a client that reads
//! cut a b                 no envelope of a reaches b, although b's envelopes reach a
//! heal                    all envelopes arrive again
//! deliver a b             the envelopes of a on their way to b arrive
//! lose a b                they are lost
//! settle                  envelopes arrive and disks are synced, until nothing is left to do
//! pass 20                 20 ticks pass for all, with everything settled after each
//! ```
//!
//! Effects are printed: who leads in which term, where acknowledged values are, who takes part.

mod world;

use goldenscript::{Command, Context, Runner};
use isomer_quorum::roster::Standing;
use std::error::Error;
use std::path::Path;
use world::{World, text};

struct Script {
    world: World,
    standings: Vec<Option<Standing>>,
    leaders: Vec<u64>,
    said: Vec<Option<u64>>,
}

impl Script {
    fn new() -> Script {
        let world = World::new(3, None);
        Script { world, standings: vec![None; 3], leaders: vec![0; 3], said: Vec::new() }
    }

    fn place(&self, name: &str) -> Result<usize, Box<dyn Error>> {
        let found = self.world.names.iter().position(|it| it == name);
        found.ok_or_else(|| format!("nobody is named {name}").into())
    }

    fn settle(&mut self) {
        loop {
            while !self.world.envelopes.is_empty() {
                self.world.deliver(0, false);
            }
            let dirty: Vec<usize> =
                (0..self.world.members()).filter(|at| self.world.wants_sync(*at)).collect();
            if dirty.is_empty() {
                return;
            }
            dirty.into_iter().for_each(|at| self.world.sync(at));
        }
    }

    /// The envelopes of one member to another, which are on their way now.
    fn envelopes(&mut self, from: usize, to: usize, mut each: impl FnMut(&mut World, usize)) {
        let is_there = |world: &World| {
            world.envelopes.iter().position(|envelope| (envelope.from, envelope.to) == (from, to))
        };
        let count = self.world.envelopes.iter().filter(|it| (it.from, it.to) == (from, to)).count();
        for _ in 0..count {
            let at = is_there(&self.world).expect("it is on its way");
            each(&mut self.world, at);
        }
    }

    fn of_a_member(&mut self, name: &str, command: &Command) -> Result<String, Box<dyn Error>> {
        let at = self.place(name)?;
        let mut args = command.consume_args();
        let first = args.next_pos().map(str::to_owned);
        args.reject_next()?;
        let first = first.as_deref();
        match command.name.as_str() {
            "append" => self.world.append(at, first.ok_or("what?")?.as_bytes()),
            "remove" => self.world.remove_before(at, first.ok_or("before what?")?.parse()?),
            "tick" => (0..first.unwrap_or("1").parse()?).for_each(|_| self.world.tick(at)),
            "sync" => self.world.sync(at),
            "crash" => self.world.crash(at, if first == Some("tail") { 1.0 } else { 0.0 }),
            "start" => self.world.start(at),
            "empty" => self.world.empty(at),
            "pause" => self.world.pause(at, true),
            "resume" => self.world.pause(at, false),
            "show" => {
                let records = self.world.records(at);
                let (first, _) = self.world.bounds(at);
                let records: Vec<String> = records
                    .iter()
                    .map(|(offset, record)| format!("{offset} {}", text(record)))
                    .collect();
                return Ok(format!("from {first} on: {}\n", records.join(", ")));
            }
            other => return Err(format!("a member cannot {other}").into()),
        }
        Ok(String::new())
    }

    fn of_all(&mut self, command: &Command) -> Result<(), Box<dyn Error>> {
        let mut args = command.consume_args();
        let [first, second] = [args.next_pos(), args.next_pos()].map(|it| it.map(str::to_owned));
        args.reject_next()?;
        let pair = || -> Result<(usize, usize), Box<dyn Error>> {
            let [first, second] = [&first, &second].map(|it| it.as_deref().ok_or("whose?"));
            Ok((self.place(first?)?, self.place(second?)?))
        };
        match command.name.as_str() {
            "cut" => {
                let (from, to) = pair()?;
                self.world.cut(from, to);
            }
            "heal" => self.world.heal(),
            "deliver" => {
                let (from, to) = pair()?;
                self.envelopes(from, to, |world, at| world.deliver(at, false));
            }
            "lose" => {
                let (from, to) = pair()?;
                self.envelopes(from, to, World::lose);
            }
            "settle" => self.settle(),
            "pass" => {
                for _ in 0..first.ok_or("how many?")?.parse()? {
                    (0..self.world.members()).for_each(|at| self.world.tick(at));
                    self.settle();
                }
            }
            other => return Err(format!("unknown command {other}").into()),
        }
        Ok(())
    }

    /// The changes since the last command.
    fn changes(&mut self) -> String {
        let mut changes = String::new();
        for at in 0..self.world.members() {
            let name = self.world.names[at].clone();
            let standing = self.world.standing(at);
            if standing != self.standings[at] {
                changes += &match &standing {
                    None => format!("{name} is down\n"),
                    Some(Standing::Member) => format!("{name} takes part\n"),
                    Some(Standing::Waits(others)) => {
                        format!("{name} waits for {}\n", others.join(" and "))
                    }
                    Some(Standing::Refused(why)) => format!("{name} is refused: {why}\n"),
                };
                self.standings[at] = standing;
            }
            match self.world.leader(at) {
                Some((term, Some(leader))) if leader == at && term != self.leaders[at] => {
                    changes += &format!("{name} leads in term {term}\n");
                    self.leaders[at] = term;
                }
                _ => {}
            }
        }
        self.said.resize(self.world.appends.len(), None);
        for (before, asked) in self.said.iter_mut().zip(&self.world.appends) {
            if let (None, Some(offset)) = (*before, asked.offset) {
                let name = &self.world.names[asked.member];
                changes += &format!("{name} says: {} is at {offset}\n", text(&asked.record));
                *before = Some(offset);
            }
        }
        changes
    }
}

impl Runner for Script {
    type Command = Command;

    fn run(&mut self, command: &Command, context: &Context) -> Result<String, Box<dyn Error>> {
        let shown = match &context.prefix {
            Some(name) => self.of_a_member(name, command)?,
            None => {
                self.of_all(command)?;
                String::new()
            }
        };
        self.world.check()?;
        let changes = self.changes();
        // The prefix names the member already, and its lines have it in front.
        Ok(shown + &changes)
    }
}

#[test]
fn scripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let mut scripts: Vec<_> = std::fs::read_dir(folder)
        .expect("the scripts are there")
        .map(|entry| entry.expect("it can be listed").path())
        .collect();
    scripts.sort();
    for script in scripts {
        goldenscript::run(&mut Script::new(), &script)
            .unwrap_or_else(|error| panic!("{}: {error}", script.display()));
    }
}
