//! Foreign keys under concurrent clients: no interleaving leaves a child without its parent.
//!
//! The tables are split over sites and move between sites meanwhile. A refused client, or one that
//! must repeat its transaction, gets the right error. In the end each child has its parent, and
//! both conflicts (a child without a parent, a referenced parent) have occurred.

mod fixture;

use fixture::Fixture;
use postgres::Client;
use postgres::error::SqlState;
use std::sync::atomic::{AtomicBool, Ordering};

const PARENTS: u64 = 12;
const STEPS: u64 = 300;
const CLIENTS: u64 = 4;

/// The results of a client's statements.
#[derive(Clone, Copy, Default)]
struct Outcomes {
    done: u64,
    refused: u64,
    again: u64,
}

struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % end
    }
}

/// One client inserts, deletes and changes children and parents.
fn work(client: &mut Client, number: u64, begin: &str) -> Outcomes {
    let (mut chance, mut outcomes) = (Chance(number), Outcomes::default());
    for step in 0..STEPS {
        let (parent, other) = (chance.below(PARENTS), chance.below(PARENTS));
        let child = number * STEPS + step;
        let text = match chance.below(7) {
            0 | 1 => format!("insert into child values ({child}, {parent})"),
            2 => format!("delete from parent where id = {parent}"),
            3 => format!("insert into parent values ({parent}, 0) on conflict do nothing"),
            4 => format!("update child set parent = {other} where parent = {parent}"),
            5 => format!(
                "delete from child where parent = {parent}; delete from parent where id = {parent}"
            ),
            _ => format!(
                "update parent set v = v + 1 where id = {parent}; insert into child values ({child}, {other})"
            ),
        };
        // The commit is a separate message, so that other clients can interleave.
        let done = client.batch_execute(&format!("{begin}; {text}"));
        match done.and_then(|()| client.batch_execute("commit")) {
            Ok(()) => outcomes.done += 1,
            Err(error) => {
                match error.code() {
                    Some(&SqlState::FOREIGN_KEY_VIOLATION) => outcomes.refused += 1,
                    Some(
                        &SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED,
                    ) => {
                        outcomes.again += 1;
                    }
                    _ => panic!("{text}: {error:?}"),
                }
                client.batch_execute("rollback").expect("an end");
            }
        }
    }
    outcomes
}

fn count(client: &mut Client, query: &str) -> i64 {
    client.query_one(query, &[]).expect("a count").get(0)
}

fn no_child_is_left(key: &str, place: &str, begin: &str) {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let parent = format!("create table parent (id bigint primary key, v bigint not null){place}");
    client.batch_execute(&parent).expect("a table");
    let child = format!(
        "create table child (id bigint primary key, parent bigint references parent {key})"
    );
    client.batch_execute(&child).expect("a table");
    client.batch_execute("create index on child (parent)").expect("an index");
    client.batch_execute("alter table parent split at (6)").expect("two parts");
    client.batch_execute("alter table child split at (600)").expect("two parts");
    let done = AtomicBool::new(false);
    let outcomes: Vec<Outcomes> = std::thread::scope(|scope| {
        let (fixture, done) = (&fixture, &done);
        let workers: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(move || work(&mut fixture.client(), number, begin)))
            .collect();
        let mover = scope.spawn(move || {
            let mut client = fixture.client();
            for site in (0..3u16).cycle() {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                let text = format!("alter table parent remaster at (6) to site {}", site + 1);
                // A move to the present site fails, which is fine.
                let _ = client.batch_execute(&text);
                let text =
                    format!("alter table child remaster at (600) to site {}", (site + 1) % 3 + 1);
                let _ = client.batch_execute(&text);
            }
        });
        let outcomes = workers.into_iter().map(|worker| worker.join()).collect::<Vec<_>>();
        done.store(true, Ordering::Relaxed);
        mover.join().expect("no fault");
        outcomes.into_iter().map(|outcome| outcome.expect("no fault")).collect()
    });
    let orphans = "select count(*) from child c where not exists \
                   (select 1 from parent p where p.id = c.parent) and c.parent is not null";
    assert_eq!(count(&mut client, orphans), 0, "a child without its parent");
    assert!(outcomes.iter().any(|outcomes| outcomes.done > 0), "nothing was done");
    assert!(outcomes.iter().any(|outcomes| outcomes.refused > 0), "nothing was refused");
    let (entries, rows) =
        ("select count(*) from child where parent >= 0", "select count(parent) from child");
    assert_eq!(count(&mut client, entries), count(&mut client, rows), "the index has each child");
}

#[test]
fn no_child_is_left_where_its_parent_must_stay() {
    no_child_is_left("", "", "begin");
}

#[test]
fn no_child_is_left_where_it_goes_with_its_parent() {
    no_child_is_left("on delete cascade", "", "begin");
}

#[test]
fn no_child_is_left_behind_snapshots() {
    no_child_is_left("on delete set null", "", "begin isolation level repeatable read");
}

#[test]
fn no_child_is_left_where_checks_wait_for_the_commit() {
    no_child_is_left("deferrable initially deferred", "", "begin");
}

#[test]
fn no_child_is_left_where_parents_move_from_place_to_place() {
    no_child_is_left("", " with (shard_by = 'v')", "begin");
}

#[test]
fn no_child_is_left_by_serializable_transactions() {
    no_child_is_left("on delete cascade", "", "begin isolation level serializable");
}

/// Updates of a parent do not block its children, nor the reverse.
#[test]
fn updates_of_a_parent_do_not_block_its_children() {
    let fixture = Fixture::new();
    let (mut one, mut two) = (fixture.client(), fixture.client());
    one.batch_execute(
        "create table parent (id int primary key, v int); insert into parent values (1, 0)",
    )
    .expect("a table");
    one.batch_execute("create table child (id int primary key, parent int references parent)")
        .expect("a table");
    // In one thread: a wait for each other would never end.
    one.batch_execute("begin; update parent set v = 1").expect("written");
    two.batch_execute("begin; insert into child values (1, 1)").expect("not held up");
    one.batch_execute("update parent set v = 2; insert into child values (2, 1)")
        .expect("not held up");
    one.batch_execute("commit").expect("an end");
    two.batch_execute("update parent set v = v + 1; commit").expect("an end");
    assert_eq!(two.query_one("select v from parent", &[]).expect("a row").get::<_, i32>(0), 3);
}

/// COPY checks at its end, so that rows may be in any order.
#[test]
fn rows_of_a_copy_may_name_each_other() {
    use std::io::Write;
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client
        .batch_execute("create table staff (id int primary key, boss int references staff)")
        .expect("a table");
    let mut copy = |rows: std::ops::Range<i32>, last: i32| {
        let mut writer = client.copy_in("copy staff from stdin").expect("a COPY");
        for id in rows {
            // Each references the next; there are more than a batch.
            let boss = (id + 1).min(last);
            writeln!(writer, "{id}\t{boss}").expect("a row");
        }
        writer.finish()
    };
    assert_eq!(copy(0..2500, 2499).expect("all are there"), 2500);
    let refused = copy(3000..3001, 3001).expect_err("there is no row 3001");
    let refused = refused.as_db_error().expect("of the server");
    assert_eq!(refused.code(), &SqlState::FOREIGN_KEY_VIOLATION);
    assert_eq!(refused.constraint(), Some("staff_boss_fkey"));
    assert_eq!((refused.schema(), refused.table()), (Some("public"), Some("staff")));
    let count: i64 = client.query_one("select count(*) from staff", &[]).expect("a row").get(0);
    assert_eq!(count, 2500);
}
