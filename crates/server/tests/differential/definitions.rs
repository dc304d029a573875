//! Random definitions of a few tables, with rows in between, in blocks and out of them, with savepoints.
//!
//! Names are few, so that what one statement makes another finds, or finds in its way. Nothing is known of what is
//! there: both servers refuse what does not fit, for the same reason.

use super::chance::Chance;
use super::statements::Statement;

/// Tables that may be there.
pub(crate) const TABLES: [&str; 3] = ["t1", "t2", "t3"];

/// A random statement; one that ends it, in a block that has failed.
pub(crate) fn statement(chance: &mut Chance, has_failed: bool) -> Statement {
    let text = match chance.below(16) {
        _ if has_failed => chance.one(&["rollback", "rollback to s", "commit"]).to_owned(),
        0..4 => chance
            .one(&[
                "begin",
                "begin",
                "savepoint s",
                "rollback to s",
                "release s",
                "commit",
                "rollback",
            ])
            .to_owned(),
        4 | 5 => create(chance),
        6..9 => alter(chance),
        9 => chance
            .one(&[
                "create index i1 on t1 (a)",
                "create unique index i1 on t2 (a)",
                "drop index i1",
            ])
            .to_owned(),
        10 => format!("drop table {}{}", chance.one(&["", "if exists "]), chance.one(&TABLES)),
        11 | 12 => insert(chance),
        13 => format!(
            "update {} set a = {} where id = {}",
            chance.one(&TABLES),
            chance.below(9),
            chance.below(9)
        ),
        14 => format!("delete from {} where id = {}", chance.one(&TABLES), chance.below(9)),
        _ => format!("select id, a from {} where a > {}", chance.one(&TABLES), chance.below(6)),
    };
    Statement::query(text)
}

fn create(chance: &mut Chance) -> String {
    let may = chance.one(&["", "", "if not exists "]);
    let columns = chance.one(&[
        "id int primary key, a int",
        "id int primary key, a int default 3, b text",
        "id int, a int unique",
        "id int primary key, a int check (a < 7)",
    ]);
    format!("create table {may}{} ({columns})", chance.one(&TABLES))
}

fn insert(chance: &mut Chance) -> String {
    let (table, id, a) = (chance.one(&TABLES), chance.below(9), chance.below(9));
    match chance.below(3) {
        0 => format!("insert into {table} (id) values ({id})"),
        1 => format!("insert into {table} (id, a) values ({id}, {a}) on conflict do nothing"),
        _ => format!("insert into {table} (id, a) values ({id}, {a})"),
    }
}

fn alter(chance: &mut Chance) -> String {
    let how = match chance.below(14) {
        0 | 1 => "add column c int default 5".to_owned(),
        2 => "add column if not exists c text".to_owned(),
        3 => "drop column c".to_owned(),
        4 => "drop column if exists b".to_owned(),
        5 => format!("alter column a set default {}", chance.below(9)),
        6 => "alter column a set not null".to_owned(),
        7 => "alter column a drop not null".to_owned(),
        8 => "rename column c to d".to_owned(),
        9 => format!("rename to {}", chance.one(&TABLES)),
        10 => "add constraint u unique (a)".to_owned(),
        11 => "drop constraint u".to_owned(),
        12 => format!("add constraint k check (a <> {})", chance.below(9)),
        _ => chance
            .one(&["alter column a type bigint", "add column e int, drop column if exists d"])
            .to_owned(),
    };
    format!("alter table {} {how}", chance.one(&TABLES))
}
