//! Clients: each runs random transactions one after the other in its session.

use super::Run;
use crate::cluster::{Client, Recorder};
use crate::history::Value;
use crate::world::{Stack, TaskId};
use isomer_cluster::Error;
use isomer_design::{Footprint, Key, KeyRange, TableId};
use isomer_site::Abort;
use std::rc::Rc;

/// The kinds of transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Reads some keys and writes all of them.
    ReadModifyWrite,
    /// Writes keys that it has not read.
    BlindWrite,
    /// Reads some keys and writes others.
    ReadHereWriteThere,
    /// Inserts keys, or fails with a duplicate key.
    Insert,
    /// Deletes keys.
    Delete,
    /// Reads single keys, anywhere.
    Read,
    /// Reads ranges, anywhere.
    Scan,
}

const KINDS: [Kind; 7] = [
    Kind::ReadModifyWrite,
    Kind::BlindWrite,
    Kind::ReadHereWriteThere,
    Kind::Insert,
    Kind::Delete,
    Kind::Read,
    Kind::Scan,
];

/// The operations of one transaction.
struct Work {
    reads: Vec<(TableId, Key)>,
    scans: Vec<(TableId, KeyRange)>,
    writes: Vec<(TableId, Key, Change)>,
    /// It rolls back.
    rolls_back: bool,
}

enum Change {
    Put(Value),
    Insert(Value),
    Delete,
}

/// Starts all clients.
pub(crate) fn start(run: &Rc<Run>) -> Vec<TaskId> {
    let client = |number| {
        let run = run.clone();
        run.world().clone().spawn_on_stack(format!("client {number}"), move |stack| {
            Box::pin(async move { go(&run, number, stack).await })
        })
    };
    (1..=run.draw.clients).map(client).collect()
}

async fn go(run: &Run, number: u64, stack: Stack<'_>) {
    let world = run.world();
    let mut client = Client::new(number);
    while !run.stopping.get() && (run.cluster.begun() as u64) < run.steps {
        let work = Work::draw(run);
        let footprint = work.footprint();
        let mut procedure = |txn: &mut Recorder<'_, '_>| work.carry_out(run, stack, txn);
        match run.cluster.run(&mut client, &footprint, &mut procedure).await {
            Ok(ran) => run.changes.set(run.changes.get() + ran.changes as u64),
            Err(Error::Lost(times)) => panic!("a transaction was lost {times} times"),
            Err(_) => {}
        }
        world.doing(|| "thinks".into());
        world.sleep(world.draw(0..2_000_000)).await;
    }
}

impl Work {
    fn draw(run: &Run) -> Work {
        let world = run.world();
        let place = || {
            let table = TableId(world.draw(1..u64::from(run.draw.tables) + 1) as u32);
            (table, Key::int(world.draw(0..run.draw.keys) as i64))
        };
        let places = |most: u64| (0..world.draw(1..most + 1)).map(|_| place()).collect::<Vec<_>>();
        let mut work = Work {
            reads: Vec::new(),
            scans: Vec::new(),
            writes: Vec::new(),
            rolls_back: world.chance(30),
        };
        let put = || Change::Put(run.cluster.fresh_value());
        match kind(run) {
            Kind::ReadModifyWrite => {
                work.reads = places(3);
                let written = work.reads.iter().map(|(table, key)| (*table, key.clone(), put()));
                work.writes = written.collect();
            }
            Kind::BlindWrite => work.writes = with(places(2), put),
            Kind::ReadHereWriteThere => {
                work.reads = places(2);
                work.writes = with(places(1), put);
            }
            Kind::Insert => {
                work.writes = with(places(2), || Change::Insert(run.cluster.fresh_value()));
            }
            Kind::Delete => work.writes = with(places(2), || Change::Delete),
            Kind::Read => work.reads = places(4),
            Kind::Scan => {
                let range = |(table, key): (TableId, Key)| {
                    let from = key.to_ints().map_or(0, |ints| ints[0]);
                    (table, KeyRange::ints(from, from + 1 + world.draw(0..run.draw.keys) as i64))
                };
                work.scans = places(2).into_iter().map(range).collect();
                work.reads = if world.chance(300) { places(1) } else { Vec::new() };
            }
        }
        work
    }

    fn footprint(&self) -> Footprint {
        let mut footprint = Footprint::new();
        for (table, key) in &self.reads {
            footprint = footprint.read(*table, key.clone());
        }
        for (table, range) in &self.scans {
            footprint = footprint.read_range(*table, range.clone());
        }
        for (table, key, _) in &self.writes {
            footprint = footprint.write(*table, key.clone());
        }
        footprint
    }

    fn carry_out(
        &self,
        run: &Run,
        stack: Stack<'_>,
        txn: &mut Recorder<'_, '_>,
    ) -> Result<(), Abort> {
        let breathe = || {
            let world = run.world();
            if world.chance(run.draw.pause_per_mille) {
                world.pause(stack, world.draw(1..6_000_000));
            }
        };
        for (table, key) in &self.reads {
            txn.get(*table, key)?;
            breathe();
        }
        for (table, range) in &self.scans {
            txn.scan(*table, range)?;
            breathe();
        }
        for (table, key, change) in &self.writes {
            match change {
                Change::Put(value) => txn.put(*table, key, *value)?,
                Change::Insert(value) => txn.insert(*table, key, *value)?,
                Change::Delete => drop(txn.delete(*table, key)?),
            }
        }
        // A repeated read must return the same value.
        if let Some((table, key)) = self.reads.first() {
            txn.get(*table, key)?;
        }
        breathe();
        if self.rolls_back {
            Err(Abort::because("the client thought better of it"))
        } else {
            Ok(())
        }
    }
}

fn kind(run: &Run) -> Kind {
    let total: u64 = run.draw.mix.iter().sum();
    let mut drawn = run.world().draw(0..total);
    for (kind, weight) in KINDS.into_iter().zip(run.draw.mix) {
        if drawn < weight {
            return kind;
        }
        drawn -= weight;
    }
    Kind::Read
}

fn with(places: Vec<(TableId, Key)>, change: impl Fn() -> Change) -> Vec<(TableId, Key, Change)> {
    places.into_iter().map(|(table, key)| (table, key, change())).collect()
}
