//! Clients of a table with one or two layouts.

use super::super::Run;
use super::{IDS, Order, Plan, begin, id_of};
use crate::history::Value;
use crate::statements::Statements;
use crate::world::TaskId;
use isomer_cluster::Expect;
use isomer_cluster::open::{Isolation, LockMode, OpenError};
use isomer_design::{Key, KeyRange};
use std::rc::Rc;

const WRITERS: u64 = 4;
const READERS: u64 = 2;
/// The most attempts to find a row that moves.
const LOOKS_MAX: usize = 20;

pub(super) fn start(run: &Rc<Run>) -> Vec<TaskId> {
    let spawn = |number: u64| {
        let (run, world) = (run.clone(), run.world().clone());
        let what = if number <= WRITERS { "writer" } else { "reader" };
        world.spawn(format!("{what} {number} of orders"), async move { go(&run, number).await })
    };
    (1..=WRITERS + READERS).map(spawn).collect()
}

async fn go(run: &Rc<Run>, number: u64) {
    let (world, orders) = (run.world(), run.orders());
    while !run.stopping.get() && (run.cluster.begun() as u64) < run.steps {
        if !orders.is_down.get() {
            orders.at_work.set(orders.at_work.get() + 1);
            match number <= WRITERS {
                true => write(run).await,
                false => read(run, number).await,
            }
            orders.at_work.set(orders.at_work.get() - 1);
        }
        world.doing(|| "thinks".into());
        world.sleep(world.draw(0..3_000_000)).await;
    }
}

/// Ends a transaction: rolls it back if it has failed, or if the process has died.
async fn end(run: &Run, open: Statements, done: Result<(), OpenError>) {
    match done {
        Ok(()) if run.orders().is_down.get() => open.roll_back("the process has died"),
        Ok(()) => drop(open.commit().await),
        Err(error) => open.roll_back(&error.to_string()),
    }
}

async fn write(run: &Run) {
    let mut open = begin(run, Isolation::ReadCommitted);
    let plan = run.orders().plan();
    if let Err(error) = open.hold(plan.own.rows, &Key::min(), LockMode::RowExclusive).await {
        return open.roll_back(&error.to_string());
    }
    if !run.orders().is_current(&plan) {
        return open.roll_back("its plan was overtaken");
    }
    let done = changes(run, &mut open, &plan).await;
    end(run, open, done).await;
}

async fn changes(run: &Run, open: &mut Statements, plan: &Plan) -> Result<(), OpenError> {
    let world = run.world();
    for _ in 0..world.draw(1..4) {
        open.next();
        let id = world.draw(0..IDS) as i64;
        let value = (!world.chance(200)).then(|| run.cluster.fresh_value());
        world.doing(|| format!("writes row {id}"));
        put(open, plan, id, value).await?;
        world.sleep(world.draw(0..2_000_000)).await;
    }
    Ok(())
}

/// Gives a row a value, or deletes it, in all layouts.
pub(super) async fn put(
    open: &mut Statements,
    plan: &Plan,
    id: i64,
    new: Option<Value>,
) -> Result<(), OpenError> {
    let own = &plan.own;
    let (old, expect) = find(open, own, id).await?;
    let before = old.map(|old| own.entries(id, old)).unwrap_or_default();
    let after = new.map(|new| own.entries(id, new)).unwrap_or_default();
    let is_gone =
        |place: &Key| after.iter().all(|(table, key, _)| (*table, key) != (own.rows, place));
    if let Some((rows, place, _)) = before.first().filter(|(_, place, _)| is_gone(place)) {
        open.replace(*rows, place, None, expect)?;
    }
    if let Some((rows, place, value)) = after.first() {
        // At the place where the row was found, the expectation of that read holds.
        let is_there = before.first().is_some_and(|(_, before, _)| before == place);
        let expect = match is_there || own.ids.is_none() {
            true => expect,
            false => open.lock(*rows, place, LockMode::Exclusive).await?.1,
        };
        open.replace(*rows, place, Some(*value), expect)?;
    }
    let entries = |row: Option<Value>, of: &Order| row.map(|value| of.entries(id, value));
    let mut removed: Vec<_> = before.into_iter().skip(1).collect();
    let mut added: Vec<_> = after.into_iter().skip(1).collect();
    let besides = || plan.beside.iter();
    removed.extend(besides().filter_map(|beside| entries(old, &beside.order)).flatten());
    let entered = besides().filter(|beside| beside.is_entered);
    added.extend(entered.filter_map(|beside| entries(new, &beside.order)).flatten());
    removed.retain(|(table, key, _)| added.iter().all(|(to, at, _)| (to, at) != (table, key)));
    for (table, key, _) in removed {
        open.enter(table, &key, None).await?;
    }
    for (table, key, value) in added {
        open.enter(table, &key, Some(value)).await?;
    }
    Ok(())
}

/// Locks a row at its place, or its id if there is no row; returns its value and its version.
async fn find(
    open: &mut Statements,
    own: &Order,
    id: i64,
) -> Result<(Option<Value>, Expect), OpenError> {
    let Some(ids) = own.ids else {
        return open.lock(own.rows, &own.place(id, 0), LockMode::Exclusive).await;
    };
    let (prefix, mut has_prefix) = (Key::int(id), false);
    for _ in 0..LOOKS_MAX {
        match open.newest_entry(ids, &KeyRange::starting_with(prefix.clone())).await? {
            Some(entry) => {
                let place = entry.to_ints().expect("an entry is made of numbers");
                let place = Key::ints(&place[1..]);
                debug_assert_eq!(id_of(&place), id);
                let found = open.lock(own.rows, &place, LockMode::Exclusive).await?;
                // The transaction that held the lock may have moved the row.
                if found.0.is_some() {
                    return Ok(found);
                }
            }
            None if has_prefix => return Ok((None, Expect::Version(None))),
            None => {
                open.hold(ids, &prefix, LockMode::Exclusive).await?;
                has_prefix = true;
            }
        }
    }
    Err(OpenError::Changed)
}

/// Scans the whole table, once or twice. Registers the version of the plan while it reads.
async fn read(run: &Run, number: u64) {
    let (world, orders) = (run.world(), run.orders());
    let isolation = match world.chance(500) {
        true => Isolation::ReadCommitted,
        false => Isolation::RepeatableRead,
    };
    let plan = orders.plan();
    orders.readers.borrow_mut().insert(number, plan.version);
    let mut open = begin(run, isolation);
    let mut done = Ok(());
    for _ in 0..world.draw(1..3) {
        for table in plan.own.parts() {
            open.next();
            world.doing(|| format!("reads {table}"));
            if done.is_ok() {
                done = open.scan(table, &KeyRange::all()).await.map(drop);
            }
        }
        world.sleep(world.draw(0..5_000_000)).await;
    }
    end(run, open, done).await;
    orders.readers.borrow_mut().remove(&number);
}
