//! Columns that are added without rewriting rows: compared with a model that rewrites them, and
//! while rows move.

mod fixture;

use fixture::{Fixture, options};
use isomer_cluster::Options;
use postgres::{Client, SimpleQueryMessage};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The bytes and frames logged by all sites.
fn logged(fixture: &Fixture) -> (u64, u64) {
    let logs = fixture.engine.database().sites().into_iter().map(|site| site.log);
    logs.fold((0, 0), |sum, log| (sum.0 + log.bytes, sum.1 + log.frames))
}

#[test]
fn adding_a_column_writes_no_row() {
    const ROWS: i64 = 100_000;
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client
        .batch_execute(&format!(
            "create table t (id int primary key, name text); create index t_name on t (name);
             insert into t select n, 'a name' from generate_series(1, {ROWS}) n"
        ))
        .expect("rows");
    let tables =
        || -> Vec<_> { fixture.engine.database().design().tables().map(|(id, _)| id).collect() };
    let before = tables();
    for definition in [
        "alter table t add column a int",
        "alter table t add column b text not null default 'none'",
        "alter table t add column c timestamp default now(), add column d numeric(8, 2) default 1.5",
    ] {
        let (bytes, frames) = logged(&fixture);
        client.batch_execute(definition).expect("a column");
        let now = logged(&fixture);
        // Only its row in the catalog is written.
        assert!(now.0 - bytes < 4096, "{} bytes: {definition}", now.0 - bytes);
        assert!(now.1 - frames < 20, "{} frames: {definition}", now.1 - frames);
    }
    assert_eq!(tables(), before, "and no table of the store was made");
    let sum = "select count(*) from t where a is null and b = 'none' and d = 1.5";
    assert_eq!(client.query_one(sum, &[]).expect("a row").get::<_, i64>(0), ROWS);
    let (bytes, _) = logged(&fixture);
    client.batch_execute("alter table t alter column a type bigint").expect("another type");
    assert!(logged(&fixture).0 - bytes > ROWS as u64, "which writes all of them");
    assert_eq!(client.query_one(sum, &[]).expect("a row").get::<_, i64>(0), ROWS);
}

/// Random numbers, by a linear congruence.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % end
    }

    fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.below(of.len() as u64) as usize]
    }
}

/// A type, and texts of its values as they are shown.
const TYPES: [(&str, &[&str]); 8] = [
    ("int", &["0", "7", "-2147483648"]),
    (
        "text",
        &["", "null", "it''s", "two\nlines", "\\x", "ünï", "a long text that takes some room"],
    ),
    ("numeric(8,2)", &["0.00", "-12.50"]),
    ("numeric", &["1.500", "123456789012345678901234567890"]),
    ("boolean", &["t", "f"]),
    ("timestamp", &["2020-02-29 12:30:00.25", "0001-01-01 00:00:00"]),
    ("bytea", &["\\x", "\\x00ff"]),
    ("float8", &["NaN", "-Infinity", "0.1"]),
];

/// A column of the model.
#[derive(Clone)]
struct Column {
    name: String,
    ty: usize,
    default: Option<&'static str>,
}

/// The table as it would be if each definition had rewritten each row: by key, with NULL as `None`.
#[derive(Default)]
struct Model {
    columns: Vec<Column>,
    rows: BTreeMap<u64, Vec<Option<&'static str>>>,
    next: u64,
}

fn literal(value: Option<&str>) -> String {
    value.map_or("null".to_owned(), |text| format!("'{text}'"))
}

impl Model {
    fn value(&self, chance: &mut Chance, at: usize) -> Option<&'static str> {
        (chance.below(4) > 0).then(|| chance.one(TYPES[self.columns[at].ty].1))
    }

    /// A random statement, which is also applied to the model.
    fn step(&mut self, chance: &mut Chance) -> String {
        let columns = self.columns.len() as u64;
        match chance.below(12) {
            0 | 1 => {
                self.next += 1;
                let (name, ty) = (format!("c{}", self.next), chance.below(8) as usize);
                let (of, values) = TYPES[ty];
                let default = (chance.below(3) > 0).then(|| chance.one(values));
                let not_null = default.is_some() && chance.below(3) == 0;
                let mut text = format!("alter table t add column {name} {of}");
                if let Some(default) = default {
                    let _ = write!(text, " default '{default}'");
                }
                if not_null {
                    text.push_str(" not null");
                }
                self.columns.push(Column { name, ty, default });
                self.rows.values_mut().for_each(|row| row.push(default));
                if not_null {
                    format!("{text}; alter table t alter column c{} drop not null", self.next)
                } else {
                    text
                }
            }
            2 if columns > 0 => {
                let at = chance.below(columns) as usize;
                self.rows.values_mut().for_each(|row| {
                    row.remove(at);
                });
                format!("alter table t drop column {}", self.columns.remove(at).name)
            }
            3 if columns > 0 => {
                let at = chance.below(columns) as usize;
                let name = &self.columns[at].name;
                match chance.below(3) {
                    // A new default applies to later rows.
                    0 => {
                        let default = chance.one(TYPES[self.columns[at].ty].1);
                        let text =
                            format!("alter table t alter column {name} set default '{default}'");
                        self.columns[at].default = Some(default);
                        text
                    }
                    1 => {
                        self.next += 1;
                        let text = format!("alter table t rename column {name} to c{}", self.next);
                        self.columns[at].name = format!("c{}", self.next);
                        text
                    }
                    _ => format!("create index on t ({name}, id)"),
                }
            }
            4..8 => {
                let id = chance.below(40);
                let given: Vec<usize> =
                    (0..self.columns.len()).filter(|_| chance.below(2) == 0).collect();
                let mut row: Vec<_> = self.columns.iter().map(|column| column.default).collect();
                let (mut names, mut values) = ("id".to_owned(), id.to_string());
                for at in given {
                    row[at] = self.value(chance, at);
                    let _ = write!(names, ", {}", self.columns[at].name);
                    let _ = write!(values, ", {}", literal(row[at]));
                }
                self.rows.entry(id).or_insert(row);
                format!("insert into t ({names}) values ({values}) on conflict do nothing")
            }
            8 | 9 if columns > 0 => {
                let (at, to) = (chance.below(columns) as usize, chance.below(40));
                let value = self.value(chance, at);
                self.rows.range_mut(..to).for_each(|(_, row)| row[at] = value);
                format!(
                    "update t set {} = {} where id < {to}",
                    self.columns[at].name,
                    literal(value)
                )
            }
            10 => {
                let id = chance.below(40);
                self.rows.remove(&id);
                format!("delete from t where id = {id}")
            }
            _ => {
                let (from, to) = (chance.below(40), 100 + self.next);
                self.next += 1;
                if let Some(row) = self.rows.remove(&from) {
                    self.rows.insert(to, row);
                }
                format!("update t set id = {to} where id = {from}")
            }
        }
    }

    /// All rows, as a client shows them.
    fn shown(&self) -> Vec<String> {
        let line = |(id, row): (&u64, &Vec<Option<&str>>)| {
            let values = row.iter().map(|value| value.map_or("NULL".to_owned(), unquoted));
            [id.to_string()].into_iter().chain(values).collect::<Vec<_>>().join("|")
        };
        self.rows.iter().map(line).collect()
    }

    /// The keys of the rows that have a value.
    fn with(&self, at: usize, value: Option<&str>) -> Vec<String> {
        let found = self.rows.iter().filter(|(_, row)| row[at] == value);
        found.map(|(id, _)| id.to_string()).collect()
    }
}

fn unquoted(literal: &str) -> String {
    literal.replace("''", "'")
}

fn lines(client: &mut Client, query: &str) -> Vec<String> {
    let messages = client.simple_query(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    let line = |message: SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => {
            let values = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL"));
            Some(values.collect::<Vec<_>>().join("|"))
        }
        _ => None,
    };
    messages.into_iter().filter_map(line).collect()
}

/// A server that restarts in the same folder.
fn serve(folder: &Path) -> Fixture {
    Fixture::serve(Options::in_folder(folder, 2), options())
}

/// After any definitions, rows equal those of a table that each definition had rewritten. The test
/// compares after restarts, with and without checkpoints, by key, by index, and with COPY in both
/// directions.
#[test]
fn rows_have_what_they_would_have_if_each_definition_wrote_them_anew() {
    std::thread::scope(|scope| {
        for seed in 1..=6 {
            scope.spawn(move || come_and_go(seed));
        }
    });
}

fn come_and_go(seed: u64) {
    // These have no keys: a number of any length, and NaN.
    let is_key = |ty: &str| ty != "numeric" && ty != "float8";
    let folder = tempfile::tempdir().expect("a folder");
    let mut fixture = serve(folder.path());
    let mut client = fixture.client();
    client.batch_execute("create table t (id int primary key)").expect("a table");
    let (mut model, mut chance) = (Model::default(), Chance(seed));
    for step in 0..120 {
        let statement = model.step(&mut chance);
        let told =
            |error: postgres::Error| panic!("seed {seed}, step {step}, {statement}: {error:?}");
        let has_no_key = statement.starts_with("create index")
            && model.columns.iter().any(|column| {
                !is_key(TYPES[column.ty].0) && statement.contains(&format!("({},", column.name))
            });
        if !has_no_key {
            client.batch_execute(&statement).unwrap_or_else(told);
        }
        assert_eq!(
            lines(&mut client, "select * from t order by id"),
            model.shown(),
            "seed {seed}, step {step}, {statement}"
        );
        if !model.columns.is_empty() {
            let at = chance.below(model.columns.len() as u64) as usize;
            let value = model.value(&mut chance, at);
            let name = &model.columns[at].name;
            let is = value.map_or("is null".to_owned(), |text| format!("= '{text}'"));
            let query = format!("select id from t where {name} {is} order by id");
            assert_eq!(lines(&mut client, &query), model.with(at, value), "seed {seed}, {query}");
        }
        match chance.below(30) {
            0 => {
                drop(client);
                drop(fixture);
                fixture = serve(folder.path());
                client = fixture.client();
            }
            1 => client.batch_execute("checkpoint").expect("a checkpoint"),
            2 => {
                let mut data = Vec::new();
                client
                    .copy_out("copy t to stdout")
                    .expect("a copy")
                    .read_to_end(&mut data)
                    .expect("data");
                client.batch_execute("delete from t").expect("no rows");
                let mut writer = client.copy_in("copy t from stdin").expect("a copy");
                writer.write_all(&data).expect("data");
                writer.finish().expect("rows");
            }
            _ => {}
        }
    }
}

/// Partitions split, move and are copied while columns are added, and rows without them are
/// changed.
#[test]
fn columns_come_while_partitions_move() {
    const ROWS: i64 = 400;
    let fixture = Fixture::new();
    let (mut client, mut mover) = (fixture.client(), fixture.client());
    client
        .batch_execute(&format!(
            "create table t (id int primary key, v int);
             insert into t select n, 0 from generate_series(1, {ROWS}) n;
             alter table t split at (101); alter table t split at (201); alter table t split at (301)"
        ))
        .expect("rows");
    let done = AtomicBool::new(false);
    let moves = std::thread::scope(|scope| {
        let done = &done;
        let moving = scope.spawn(move || {
            let mut moves = 0;
            while !done.load(Ordering::Relaxed) {
                let (at, site) = (1 + moves / 3 % 3 * 100, 1 + moves % 3);
                // A move to the present or a pending site is refused.
                let _ = mover
                    .batch_execute(&format!("alter table t remaster at ({at}) to site {site}"));
                let _ = mover.batch_execute(&format!(
                    "alter table t add replica at ({at}) on site {}",
                    1 + (site % 3)
                ));
                moves += 1;
            }
            moves
        });
        for round in 1..=20 {
            client
                .batch_execute(&format!(
                    "alter table t add column c{round} int default {round};
                     update t set v = v + 1 where id % 20 = {round} % 20;
                     insert into t (id) values ({ROWS} + {round})"
                ))
                .expect("a column, and rows");
        }
        done.store(true, Ordering::Relaxed);
        moving.join().expect("no fault")
    });
    assert!(moves > 0);
    let columns: Vec<String> = (1..=20).map(|round| format!("c{round} = {round}")).collect();
    let all = format!("select count(*), sum(v) from t where {}", columns.join(" and "));
    assert_eq!(lines(&mut client, &all), [format!("{}|{ROWS}", ROWS + 20)]);
}
