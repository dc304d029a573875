//! Random definitions of columns of one table, with changes of its rows in between.

use super::chance::Chance;
use super::statements::Statement;

/// The types of some columns.
pub(crate) const TYPE: &str = "create type mood as enum ('ok', 'sad', 'happy'); \
     create domain age as integer check (value >= 0); \
     create domain name3 as varchar(3) default 'def' not null check (value <> 'no')";

/// The table, to begin with.
pub(crate) const TABLE: &str = "create table g (id int primary key)";

/// Types, valid values of columns of each, and invalid ones.
const TYPES: [(&str, &[&str], &[&str]); 18] = [
    ("int", &["7", "1 + 2 * 3", "'12'", "null", "length('abc')"], &["1 / 0", "'x'"]),
    (
        "text",
        &["'x'", "'it''s'", "''", "upper('u')", "'a' || 'b'", "null"],
        &["repeat('x', 1 / 0)"],
    ),
    ("numeric(8, 2)", &["1.005", "-3", "'2.5'", "'NaN'"], &["1e9", "'Infinity'"]),
    ("numeric", &["1e40", "-1.50", "'NaN'", "'-Infinity'"], &["1e131072"]),
    ("numeric(3, -2)", &["1250", "-49", "'NaN'"], &["123456"]),
    ("boolean", &["true", "1 > 2", "null"], &["'perhaps'"]),
    ("timestamp", &["'2020-02-29 12:00'", "'2024-01-01'"], &["'never'"]),
    ("timestamptz(1)", &["'2020-02-29 12:00:00.25+00'", "null"], &["'never'"]),
    ("bigint", &["9000000000", "coalesce(null, 4)"], &["'9223372036854775808'"]),
    ("float8", &["0.5", "'1e10'"], &["'0.5.5'"]),
    ("time", &["'10:00'", "'11:59:59.5 PM'", "null"], &["'25:00'"]),
    ("mood", &["'sad'", "'ok'", "enum_last(null::mood)", "null"], &["'glad'"]),
    ("age", &["7", "'12'", "null", "2 * 3", "3::age"], &["-1", "2 - 5", "'x'", "(-4)::age"]),
    ("name3", &["'ab'", "'c'::text", "'x'::name3"], &["'no'", "null", "'long'", "null::name3"]),
    (
        "varchar(3)[]",
        &["'{ab,null}'", "'{}'", "array['x', 'long']::varchar(2)[]", "null"],
        &["'{long}'", "array['x', 'long']::varchar[]", "'{'"],
    ),
    ("numeric(4, 1)[]", &["'{1.25,null}'", "array[2.35, -7]", "null"], &["'{1e4}'", "'{x}'"]),
    ("timestamp(0)[]", &["'{\"2020-02-29 12:00:00.5\"}'", "null"], &["'{never}'"]),
    ("varchar(4)", &["'ab'", "null"], &["repeat('x', 1 / 0)"]),
];

/// Columns by name, with their type; names are not reused.
#[derive(Default)]
pub(crate) struct Columns {
    there: Vec<(String, usize)>,
    next: u64,
}

/// True for types that cannot be indexed here.
fn is_array(ty: usize) -> bool {
    TYPES[ty].0.ends_with(']')
}

impl Columns {
    /// A random statement.
    pub(crate) fn statement(&mut self, chance: &mut Chance) -> Statement {
        let some = (!self.there.is_empty())
            .then(|| self.there[chance.below(self.there.len() as u64) as usize].clone());
        let text = match (chance.below(14), some) {
            (0 | 1, _) | (_, None) => self.add(chance),
            (2, Some((name, _))) => {
                self.there.retain(|(other, _)| *other != name);
                format!("alter table g drop column {name}")
            }
            (3, Some((name, ty))) => match chance.below(3) {
                0 => format!("alter table g alter column {name} set default {}", one(chance, ty)),
                1 => format!("alter table g alter column {name} drop default"),
                _ => format!("alter table g alter column {name} drop not null"),
            },
            (4, Some((name, ty))) if !is_array(ty) => format!("create index on g ({name})"),
            (5..9, Some((name, ty))) => {
                let (id, value) = (chance.below(20), any(chance, ty));
                format!("insert into g (id, {name}) values ({id}, {value}) on conflict do nothing")
            }
            (9 | 10, Some((name, ty))) => {
                let value = one(chance, ty);
                format!("update g set {name} = {value} where id > {}", chance.below(20))
            }
            (11, Some(_)) => format!("delete from g where id = {}", chance.below(20)),
            (12, Some((name, ty))) => {
                format!("select id from g where {name} = {}", one(chance, ty))
            }
            (_, Some((name, ty))) if is_array(ty) => {
                format!("select id, {name}[1], {name} from g where array_length({name}, 1) = 1")
            }
            (_, Some((name, _))) => {
                format!("select {name}, count(*) from g where {name} is not null group by {name}")
            }
        };
        Statement::query(text)
    }

    fn add(&mut self, chance: &mut Chance) -> String {
        self.next += 1;
        let (name, ty) = (format!("c{}", self.next), chance.below(TYPES.len() as u64) as usize);
        let default =
            if chance.once_in(3) { String::new() } else { format!(" default {}", any(chance, ty)) };
        let more = match chance.below(6) {
            0 => " not null".to_owned(),
            1 if ty == 0 => format!(" check ({name} > 6)"),
            _ => String::new(),
        };
        let added = format!("alter table g add column {name} {}{default}{more}", TYPES[ty].0);
        // If it is refused, later statements get 42703 on both sides.
        self.there.push((name, ty));
        added
    }
}

fn one(chance: &mut Chance, ty: usize) -> &'static str {
    chance.one(TYPES[ty].1)
}

fn any(chance: &mut Chance, ty: usize) -> &'static str {
    if chance.once_in(8) { chance.one(TYPES[ty].2) } else { one(chance, ty) }
}
