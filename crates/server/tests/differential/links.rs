//! Random foreign keys, and views over their tables: rows are inserted, deleted and changed, inside
//! and outside of blocks.
//!
//! Each round has keys with other actions, some of them deferrable. Values are few, so that parents
//! and children match.

use super::chance::Chance;
use super::statements::Statement;

/// Tables and views that may exist, and their sort columns.
pub(crate) const RELATIONS: [&str; 7] = ["p", "c", "g", "q", "d", "v", "w"];

/// Cleans up after the previous round.
pub(crate) const END: &str = "drop table if exists p cascade; drop table if exists c cascade; drop table if exists g cascade; \
     drop table if exists q cascade; drop table if exists d cascade";

/// Properties of a round until a definition changes them.
#[derive(Default)]
pub(crate) struct Links {
    in_block: bool,
}

/// ON DELETE and ON UPDATE, and DEFERRABLE.
fn acts(chance: &mut Chance) -> String {
    let action = |chance: &mut Chance| {
        chance.one(&["no action", "restrict", "cascade", "cascade", "set null", "set default"])
    };
    let (delete, update) = (action(chance), action(chance));
    let when = chance.one(&["", "", "deferrable", "deferrable initially deferred"]);
    format!("on delete {delete} on update {update} {when}")
}

/// The tables of a round.
pub(crate) fn tables(chance: &mut Chance) -> String {
    let (index, full) =
        (chance.one(&["", "create index on c (b, a);"]), chance.one(&["", "match full"]));
    let (a, b, c, up, xy) = (acts(chance), acts(chance), acts(chance), acts(chance), acts(chance));
    // A row may refer by both keys. PostgreSQL checks the first before the action of the second
    // deletes the row.
    let a = a.replace("on delete no action", "on delete restrict");
    format!(
        "create table p (id int primary key, u int unique, v int);
         create table c (id int primary key, a int default 1 references p {a},
             b int references p (u) {b});
         create table g (id int primary key, c int not null references c {c},
             up int default 2 references g {up});
         create table q (x int, y int, primary key (x, y));
         create table d (id int primary key, y int, x int default 0,
             foreign key (x, y) references q {full} {xy});
         {index}
         create view v as select id, u + v as s, v from p where v > 1;
         create view w (id, up, v) as select c.id, v.id, v.v from c join v on c.a = v.id"
    )
}

impl Links {
    /// A random statement; in a failed block, one that ends it.
    pub(crate) fn statement(&mut self, chance: &mut Chance, has_failed: bool) -> Statement {
        let text = match chance.below(24) {
            _ if has_failed => chance.one(&["rollback", "rollback to s", "commit"]).to_owned(),
            0 | 1 if !self.in_block => "begin".to_owned(),
            0 => chance.one(&["commit", "commit", "rollback"]).to_owned(),
            1 if self.in_block => chance.one(&["savepoint s", "rollback to s"]).to_owned(),
            2 if self.in_block => format!(
                "set constraints {} {}",
                chance.one(&["all", "all", "c_a_fkey", "g_up_fkey", "d_x_y_fkey"]),
                chance.one(&["deferred", "immediate"])
            ),
            2 if chance.once_in(4) => define(chance),
            3..11 => insert(chance),
            11..15 => update(chance),
            15..20 => delete(chance),
            _ => view(chance),
        };
        match text.as_str() {
            "begin" => self.in_block = true,
            "commit" | "rollback" => self.in_block = false,
            _ => {}
        }
        Statement::query(text)
    }
}

fn number(chance: &mut Chance) -> String {
    match chance.below(8) {
        0 => "null".to_owned(),
        n => n.to_string(),
    }
}

fn insert(chance: &mut Chance) -> String {
    let id = chance.below(9);
    let (a, b) = (number(chance), number(chance));
    match chance.below(9) {
        0..3 => format!("insert into p values ({id}, {a}, {b}) on conflict do nothing"),
        3 => format!("insert into c values ({id}, {a}, {b})"),
        4 => {
            format!("insert into c values ({id}, {a}, {b}) on conflict (id) do update set a = {b}")
        }
        5 => format!(
            "insert into g values ({id}, {}, {a}), ({}, {}, {id})",
            chance.below(9),
            9 + chance.below(9),
            chance.below(9)
        ),
        6 => format!("insert into g values ({id}, {}, {a})", chance.below(9)),
        7 => format!(
            "insert into q values ({}, {}) on conflict do nothing",
            chance.below(3),
            chance.below(3)
        ),
        _ => {
            let few = |chance: &mut Chance| match chance.below(4) {
                3 => "null".to_owned(),
                n => n.to_string(),
            };
            format!("insert into d values ({id}, {}, {})", few(chance), few(chance))
        }
    }
}

fn update(chance: &mut Chance) -> String {
    let (id, n) = (chance.below(9), chance.below(9));
    match chance.below(9) {
        0 | 1 => format!("update p set id = {n} where id = {id}"),
        2 => format!("update p set u = {} where id = {id}", number(chance)),
        3 => format!("update p set v = v + 1 where id < {id}"),
        4 => format!("update c set a = {}, b = {} where id = {id}", number(chance), number(chance)),
        5 => format!("update c set id = {n} where id = {id}"),
        6 => format!("update g set up = {} where id = {id}", number(chance)),
        7 => format!(
            "update q set x = {} where x = {} and y = {}",
            chance.below(4),
            chance.below(3),
            chance.below(3)
        ),
        _ => format!("update g set id = {n} where id = {id}"),
    }
}

fn delete(chance: &mut Chance) -> String {
    let n = chance.below(9);
    match chance.below(8) {
        0 | 1 => format!("delete from p where id = {n}"),
        2 => format!("delete from p where v = {n}"),
        3 => format!("delete from c where id >= {n}"),
        4 => format!("delete from g where id = {n}"),
        5 => "delete from g".to_owned(),
        6 => format!("delete from q where x = {}", chance.below(3)),
        _ => format!("delete from d where id = {n}"),
    }
}

fn view(chance: &mut Chance) -> String {
    let n = chance.below(9);
    match chance.below(7) {
        0 => format!("select * from v where id = {n}"),
        1 => format!("select s from v where s > {n} and id < 7"),
        2 => format!("select * from w where up = {n}"),
        3 => format!("select w.id, v.s from w join v on v.id = w.up where v.v > {n}"),
        4 => format!("select count(*) from w where v = {n} or id in (select c from g)"),
        5 => format!(
            "select w.id, v.id from w left join v on v.s = w.id and v.id > {n} where w.v > 1"
        ),
        _ => format!("select * from (select id, a + 1 as b from c) as x where b = {n} and id > 2"),
    }
}

/// Definitions, never in a block, where PostgreSQL refuses them for pending checks even without a
/// reason.
fn define(chance: &mut Chance) -> String {
    let act = acts(chance);
    match chance.below(9) {
        0 => "alter table c drop constraint c_a_fkey".to_owned(),
        1 => format!("alter table c add constraint c_a_fkey foreign key (a) references p {act}"),
        2 => format!("alter table c add constraint c_a_fkey foreign key (a) references p {act} not valid"),
        3 => "alter table c validate constraint c_a_fkey".to_owned(),
        4 => chance.one(&["truncate p", "truncate g", "truncate p, c, g"]).to_owned(),
        5 => "truncate p cascade".to_owned(),
        6 => chance.one(&["drop table p", "drop view v", "alter table p drop column v"]).to_owned(),
        7 => "alter table p rename column v to was_v".to_owned(),
        _ => "create or replace view w (id, up, v) as select c.id, c.a, p.id from c, p where c.b = p.u".to_owned(),
    }
}
