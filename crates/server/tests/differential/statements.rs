//! Random statements over three tables.
//!
//! ```text
//!   d   a key of two columns, two indexes, a CHECK      most access paths of the planner
//!   e   a column of every type, UNIQUE, NOT NULL        types and errors
//!   h   no key                                          rows that are equal
//! ```

use super::chance::Chance;
use super::expressions::Kind::{Bool, Char, Date, Float, Int, Numeric, Text, Time};
use super::expressions::{Columns, KINDS, Scope};

/// The tables.
pub(crate) const TABLES: &str = "
    create table d (a int, b int, v int, n numeric(8, 2), t text, primary key (a, b), check (n > -200));
    create index d_v on d (v); create index d_t on d (t, b);
    create index d_n on d (n) where t is not null; create index d_b on d (b, v) where v > 2 or t = 'a';
    create index d_x on d ((a % 3), (upper(t)));
    create table e (id int primary key, k int not null default 3, c char(6) default 'c', w varchar(8) unique,
        s timestamp, y date, f float8, q boolean, m smallint, l bigint, n numeric);
    create index e_k on e (k, y); create index e_s on e (s);
    create unique index e_x on e (lower(w), (k % 2)) where q;
    create unique index e_l on e (l) where q; create index e_m on e (m) where k = 3 and f is not null;
    create table h (k int, x text); create index h_k on h (k)";

pub(crate) const D: Columns = &[("a", Int), ("b", Int), ("v", Int), ("n", Numeric), ("t", Text)];
pub(crate) const E: Columns = &[
    ("id", Int),
    ("k", Int),
    ("c", Char),
    ("w", Text),
    ("s", Time),
    ("y", Date),
    ("f", Float),
    ("q", Bool),
    ("m", Int),
    ("l", Int),
    ("n", Numeric),
];
const H: Columns = &[("k", Int), ("x", Text)];

/// A statement, sent as text, or prepared with the values of its parameters.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) text: String,
    pub(crate) params: Option<Vec<String>>,
    /// True if the order of the rows is defined.
    pub(crate) is_ordered: bool,
}

impl Statement {
    /// A query sent as text.
    pub(crate) fn query(text: String) -> Statement {
        Statement { text, params: None, is_ordered: false }
    }

    /// True if it changes nothing.
    pub(crate) fn is_query(&self) -> bool {
        self.text.starts_with("select") || self.text.starts_with("with")
    }
}

/// A random statement.
pub(crate) fn statement(chance: &mut Chance) -> Statement {
    let params = chance.once_in(2).then(Vec::new);
    let ends = chance.in_block && chance.once_in(6);
    let mut scope = Scope { chance, tables: Vec::new(), params };
    let inside = scope.chance.once_in(2);
    let text = match scope.below(21) {
        _ if ends => scope.block(),
        0 | 1 => scope.insert_d(),
        2 | 3 => scope.insert_e(),
        4 => scope.insert_h(),
        5 | 6 => scope.update(),
        7 => scope.delete(),
        8 => scope.beside_others(),
        9 => scope.block(),
        10 => scope.wrong(),
        11 | 12 => scope.groups(),
        13 | 14 => scope.join(),
        15 => scope.subquery(),
        20 => scope.windows(),
        _ if inside => scope.inside_of_expressions(),
        16 => scope.union(),
        17 => scope.of_keys(),
        _ => scope.rows(),
    };
    let is_ordered = text.contains(" order by ");
    match scope.params {
        None => Statement { text, params: None, is_ordered },
        Some(params) => {
            let (text, params) = numbered(&text, &params);
            Statement { text, params: Some(params), is_ordered }
        }
    }
}

/// Renumbers the parameters of a text from 1, because some were drawn for expressions that it does
/// not contain.
fn numbered(text: &str, params: &[String]) -> (String, Vec<String>) {
    let mut parts = text.split('$');
    let mut result = parts.next().unwrap_or_default().to_owned();
    let mut used: Vec<usize> = Vec::new();
    for part in parts {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: usize = part[..digits].parse().expect("a parameter has a number");
        let place = used.iter().position(|other| *other == number).unwrap_or_else(|| {
            used.push(number);
            used.len() - 1
        });
        result.push_str(&format!("${}{}", place + 1, &part[digits..]));
    }
    (result, used.into_iter().map(|number| params[number - 1].clone()).collect())
}

impl Scope<'_> {
    /// From now on, columns are those of one table.
    fn over(&mut self, alias: &'static str) -> &'static str {
        let (name, columns) = self.chance.one(&[("d", D), ("d", D), ("e", E), ("e", E), ("h", H)]);
        self.tables = vec![(alias, columns)];
        name
    }

    fn insert_d(&mut self) -> String {
        self.tables = vec![("d", D)];
        let mut rows = Vec::new();
        for _ in 0..1 + self.below(2) {
            let value = match self.below(8) {
                0 => "null".to_owned(),
                1 => "'7'".to_owned(),
                2 => "default".to_owned(),
                _ => self.constant(Int),
            };
            let row = (self.key(), self.key(), self.constant(Numeric), self.constant(Text));
            rows.push(format!("({}, {}, {value}, {}, {})", row.0, row.1, row.2, row.3));
        }
        let conflict = match self.below(6) {
            0 => "",
            1 => " on conflict do nothing",
            2 => " on conflict (a, b) do nothing returning a, t",
            3 => {
                " on conflict (a, b) do update set v = d.v + 1, t = excluded.t returning a, b, v, t"
            }
            4 => " on conflict (b, a) do update set n = excluded.n where d.v > 3",
            _ => " on conflict on constraint d_pkey do update set (v, n) = (excluded.v, d.n + 1)",
        };
        format!("insert into d values {}{conflict}", rows.join(", "))
    }

    fn insert_e(&mut self) -> String {
        self.tables = vec![("e", E)];
        let mut names = vec!["id".to_owned()];
        let mut values = vec![self.key()];
        // At most one wrong value, because with two the error could name either.
        let mut wrong = self.chance.once_in(4).then(|| {
            self.chance.one(&["'x'", "'123456789'", "99999", "'2024-13-01'", "40000"]).to_owned()
        });
        for (name, kind) in E.iter().skip(1) {
            if self.chance.once_in(3) {
                continue;
            }
            names.push((*name).to_owned());
            values.push(match self.below(30) {
                0 | 1 => "null".to_owned(),
                2 => "default".to_owned(),
                3..7 if wrong.is_some() => wrong.take().expect("just looked"),
                _ => self.constant(*kind),
            });
        }
        let conflict = self.chance.one(&[
            "",
            " on conflict do nothing returning id",
            " on conflict (id) do update set k = e.k + excluded.k, w = excluded.w",
            " on conflict (w) do update set l = coalesce(e.l, 0) + 1 returning *",
            " on conflict (l) where q do update set k = 3 returning *",
            " on conflict (l) where q and k > 1 do nothing",
            " on conflict (lower(w), (k % 2)) where q do update set m = 4 returning id, m",
        ]);
        format!("insert into e ({}) values ({}){conflict}", names.join(", "), values.join(", "))
    }

    fn insert_h(&mut self) -> String {
        self.tables = Vec::new();
        match self.below(3) {
            0 => format!("insert into h values ({}, {})", self.key(), self.constant(Text)),
            1 => format!("insert into h (x) values ({}), (default)", self.constant(Text)),
            _ => format!("insert into h select a, t from d where b = {}", self.key()),
        }
    }

    fn update(&mut self) -> String {
        let table = self.over("");
        let (set, returned) = match table {
            "d" => match self.below(3) {
                0 => {
                    let row = format!("a = {} and b = {}", self.key(), self.key());
                    return format!(
                        "update d set b = b + 1, t = t || 'z' where {row} returning b, t"
                    );
                }
                1 => (format!("v = {}", self.expression(Int, 1)), "a, b, v"),
                _ => (
                    format!(
                        "n = {}, t = {}",
                        self.expression(Numeric, 1),
                        self.expression(Text, 1)
                    ),
                    "n, t",
                ),
            },
            "e" => {
                let (name, kind) = self.chance.one(&E[1..]);
                let value = self.expression(kind, 1);
                // PostgreSQL refuses a too long constant argument of a type's function even without
                // rows.
                let value = match name {
                    "w" if value.contains("::jsonb") => format!("left({value}, 3)"),
                    _ => value,
                };
                if ["w", "l", "k", "q"].contains(&name) {
                    // A temporary duplicate in an update of several rows depends on their order.
                    return format!("update e set {name} = {value} where id = {}", self.key());
                }
                (format!("{name} = {value}"), "*")
            }
            _ => (format!("k = {}", self.expression(Int, 1)), "x, k"),
        };
        let returning =
            if self.chance.once_in(3) { format!(" returning {returned}") } else { String::new() };
        format!("update {table} set {set} where {}{returning}", self.condition(2))
    }

    fn delete(&mut self) -> String {
        let table = self.over("");
        match self.below(12) {
            0 => format!("truncate {table}"),
            1 => format!("delete from {table}"),
            _ => format!("delete from {table} where {}", self.condition(2)),
        }
    }

    fn beside_others(&mut self) -> String {
        match self.below(9) {
            4 => {
                let (column, inside) = self.change_of("d");
                format!(
                    "update d o set v = (select max({column}) {inside}) where {}",
                    self.condition(1)
                )
            }
            5 => {
                let (column, inside) = self.change_of("e");
                let not = self.chance.one(&["", "not "]);
                format!("update e o set m = m + 1 where k {not}in (select {column} {inside})")
            }
            6 => {
                let table = self.chance.one(&["d", "h", "e"]);
                let (_, inside) = self.change_of(table);
                let not = self.chance.one(&["", "not "]);
                let condition = self.condition(1);
                format!(
                    "delete from {table} o where {not}exists (select 1 {inside}) and {condition}"
                )
            }
            7 => "insert into d select a + 1, b, v, n, t from d on conflict do nothing".to_owned(),
            8 => format!("insert into h select k, x from h where k = {}", self.key()),
            0 => format!(
                "delete from d using d y where d.a = y.b and d.b = y.a and y.v > {}",
                self.key()
            ),
            1 => format!(
                "update d set t = e.w, v = e.k from e where e.id = d.a and e.m < {}",
                self.key()
            ),
            2 => format!("delete from h where k in (select id from e where k > {})", self.key()),
            _ => format!(
                "update d set v = y.v, n = {} from d y where d.a = y.b and d.b = y.a and d.v < y.v",
                self.chance.one(&["y.n", "d.n", "999999", "-1000"])
            ),
        }
    }

    /// Blocks and savepoints, also where there are none.
    fn block(&mut self) -> String {
        self.params = None;
        let statement = self.chance.one(&[
            "begin",
            "begin",
            "begin isolation level repeatable read",
            "savepoint s",
            "savepoint s",
            "rollback to s",
            "rollback to savepoint s",
            "release s",
            "commit",
            "commit",
            "end",
            "rollback",
            "rollback",
        ]);
        match statement {
            "commit" | "end" | "rollback" => self.chance.in_block = false,
            _ => self.chance.in_block |= statement.starts_with("begin"),
        }
        statement.to_owned()
    }

    /// Statements that every server refuses, each for its own reason.
    fn wrong(&mut self) -> String {
        self.over("");
        let error = self.chance.one(&[
            "select nowhere from d",
            "select a from nowhere",
            "select d.a from d x",
            "select a from d, d y",
            "select nothing(1)",
            "select a b c from d",
            "selec 1",
            "insert into d values (1)",
            "insert into d values (1, 2, 3, 4, 'x', 6)",
            "insert into d (a, a) values (1, 2)",
            "insert into d values (null, 1)",
            "insert into e (id, k) values (3, null)",
            "insert into e (id, w) values (1, '123456789')",
            "insert into e (id, m) values (1, 32768)",
            "insert into d values (1, 1, 1, 1000000, '')",
            "select 1 / 0",
            "select 5 % 0",
            "select 2147483647 + 1",
            "select 9223372036854775807 + 1",
            "select 'x'::int",
            "select '2024-02-30'::date",
            "select 'maybe'::bool",
            "select 40000::smallint",
            "select 1 + 'x'",
            "select 1 + true",
            "select t + 1 from d",
            "select a from d where t",
            "select a from d where a = 'x'",
            "select a, count(*) from d",
            "select a from d group by b",
            "select a from d where count(*) > 1",
            "select sum(sum(a)) from d",
            "select rank() from d",
            "select a from d where rank() over () > 1",
            "select sum(rank() over ()) from d",
            "select rank() over (order by rank() over ()) from d",
            "select ntile(0) over () from d",
            "select nth_value(a, 0) over () from d",
            "select sum(a) over w from d",
            "select lower(t) over () from d",
            "select sum(a) over (order by a, b range 1 preceding) from d",
            "select sum(a) over (order by t range 1 preceding) from d",
            "select sum(a) over (groups 1 preceding) from d",
            "select sum(a) over (rows a preceding) from d",
            "select sum(a) over (rows -1 preceding) from d",
            "select sum(a) over (w partition by b) from d window w as (order by a)",
            "select a from d group by rank() over ()",
            "select a from d order by b using =",
            "select count(distinct a) over () from d",
            "select count(*) + 1 from d group by 1",
            "select a from d group by sum(a)",
            "select sum(t) from d",
            "select a from d order by 3",
            "select distinct a from d order by b",
            "select a from d limit -1",
            "select a from d union select a, b from d",
            "select a from d union select t from d",
            "select (select a, b from d)",
            "select (select id from e) from e",
            "select count(*) from d for update",
            "select distinct a from d for update",
            "select a from d group by a for update",
            "insert into d values (1, 1) on conflict (v) do nothing",
            "insert into d values (1, 1), (1, 1) on conflict (a, b) do update set v = 1",
            "update d set nowhere = 1",
            "update d set a = 1, a = 2",
            "update nowhere set a = 1",
            "delete from nowhere",
            "create table d (a int)",
            "create table z (a int, a int)",
            "create table z (a nothing)",
            "create index d_v on d (v)",
            "drop table nowhere",
            "drop index nowhere",
            "alter table nowhere add column a int",
            "alter table d add column a int",
            "alter table d drop column nowhere",
            "release nowhere",
            "rollback to nowhere",
            "show nothing",
            "execute nowhere",
            "deallocate nowhere",
            "select round('x')",
            "select substr('abc', 1, -1)",
            "select lower(1, 2)",
            "select power(10, 400)",
            "select sqrt(-1)",
            "select ln(0)",
        ]);
        let is_definition = ["create", "drop", "alter"].iter().any(|word| error.starts_with(word));
        if is_definition && self.chance.in_block {
            // Here a definition commits the block's earlier statements.
            return self.rows();
        }
        self.params = if self.params.is_some() && error.starts_with("select") {
            Some(Vec::new())
        } else {
            None
        };
        error.to_owned()
    }

    /// Rows of one table, ordered by all their columns.
    fn rows(&mut self) -> String {
        let table = self.over("");
        let mut columns = Vec::new();
        for _ in 0..1 + self.below(4) {
            let kind = self.chance.one(&KINDS);
            columns.push(self.settled(kind, 2));
        }
        let condition = self.condition(2);
        match self.below(8) {
            0 => format!("select * from {table} where {condition}"),
            1 => format!("select * from {table} where {condition} for update"),
            2 => format!(
                "select {} from {table} where {condition} for share nowait",
                columns.join(", ")
            ),
            3 => {
                let order = order(columns.len(), self);
                format!(
                    "select distinct {} from {table} where {condition}{order}{}",
                    columns.join(", "),
                    self.chance.limit()
                )
            }
            4 if table == "d" => format!(
                "select distinct on (v) v, a, b from d where {condition} order by v, a {}, b",
                self.chance.one(&["", "desc"])
            ),
            _ => {
                let order = order(columns.len(), self);
                let limit = if columns.len() > 1 { String::new() } else { self.chance.limit() };
                format!(
                    "select {} from {table} where {condition}{order}{limit}",
                    columns.join(", ")
                )
            }
        }
    }

    /// Rows selected by keys, for the access paths of the planner.
    fn of_keys(&mut self) -> String {
        self.tables = vec![("", D)];
        let condition = match self.below(7) {
            0 => format!("a = {} and b = {}", self.key(), self.key()),
            1 => format!(
                "a in ({}, {}, {}) and b > {}",
                self.key(),
                self.key(),
                self.key(),
                self.key()
            ),
            2 => format!(
                "(a, b) in (({}, {}), ({}, {}))",
                self.key(),
                self.key(),
                self.key(),
                self.key()
            ),
            3 => format!("a between {} and {} and b <= {}", self.key(), self.key(), self.key()),
            4 => format!("v = {} and a < {}", self.key(), self.key()),
            5 => format!("v = any('{{{}, {}}}')", self.below(12), self.below(12)),
            _ => format!("t = {} and b >= {}", self.constant(Text), self.key()),
        };
        match self.below(5) {
            0 => format!("delete from d where {condition}"),
            1 => format!("update d set v = v + 1, n = n - 1 where {condition}"),
            2 => format!("select * from d where {condition} for update"),
            3 => format!(
                "select a, b, v, t from d where {condition} order by a desc, b desc limit {}",
                self.below(5)
            ),
            _ => format!(
                "select a, b, t from d where {condition} order by a, b{}",
                self.chance.limit()
            ),
        }
    }

    fn groups(&mut self) -> String {
        let table = self.over("");
        let kind = self.chance.one(&KINDS);
        let key = self.settled(kind, 1);
        let mut columns = vec![key.clone()];
        for _ in 0..1 + self.below(3) {
            columns.push(self.aggregate());
        }
        let condition = self.condition(2);
        let order = order(columns.len(), self);
        // In GROUP BY a constant is a position and no key, and each parameter is a different
        // expression.
        let is_column = !key.contains(|sign: char| !sign.is_ascii_lowercase()) && kind != Bool;
        let by = if is_column && self.chance.once_in(2) { key } else { "1".to_owned() };
        match self.below(4) {
            0 => format!("select {} from {table} where {condition}", columns[1..].join(", ")),
            1 => format!(
                "select {} from {table} where {condition} group by {by} having count(*) > {}{order}",
                columns.join(", "),
                self.below(3)
            ),
            _ => format!(
                "select {} from {table} where {condition} group by {by}{order}{}",
                columns.join(", "),
                self.chance.limit()
            ),
        }
    }

    fn aggregate(&mut self) -> String {
        let number = self.chance.one(&[Int, Numeric, Float]);
        match self.below(10) {
            0 => "count(*)".to_owned(),
            8 => {
                let of = self.chance.one(&["stddev", "variance", "var_pop", "stddev_pop"]);
                format!("{of}({})", self.expression(Int, 1))
            }
            1 => format!("count({})", self.expression(Text, 1)),
            2 => {
                let kind = self.chance.one(&KINDS);
                format!("count(distinct {})", self.expression(kind, 1))
            }
            3 => format!("sum({})", self.expression(number, 1)),
            4 => format!("avg({})", self.column(Int).expect("every table has one")),
            5 => format!("sum({}) filter (where {})", self.expression(Int, 1), self.condition(1)),
            6 => format!("bool_or({})", self.condition(1)),
            7 => format!("sum(distinct {})", self.expression(Int, 1)),
            _ => {
                let kind = self.chance.one(&[Int, Numeric, Float, Text, Date, Time]);
                format!("{}({})", self.chance.one(&["min", "max"]), self.expression(kind, 1))
            }
        }
    }

    fn join(&mut self) -> String {
        let (left, right) = (self.over("l"), self.tables[0].1);
        let second = self.over("r");
        self.tables.insert(0, ("l", right));
        let with = self.chance.one(&["join", "left join", "right join", "full join"]);
        let (a, b) = {
            let both = std::mem::take(&mut self.tables);
            self.tables = vec![both[0]];
            let a = self.column(Int).expect("every table has one");
            self.tables = vec![both[1]];
            let b = self.column(Int).expect("every table has one");
            self.tables = both;
            (a, b)
        };
        let mut columns = Vec::new();
        for _ in 0..2 + self.below(3) {
            let kind = self.chance.one(&KINDS);
            columns.push(self.settled(kind, 1));
        }
        // PostgreSQL supports full joins on equalities only.
        let on = match self.below(3) {
            0 if with != "full join" => format!("{a} = {b} and {}", self.condition(0)),
            _ => format!("{a} = {b}"),
        };
        let condition = self.condition(1);
        let order = order(columns.len(), self);
        let columns = columns.join(", ");
        match self.below(5) {
            0 => format!(
                "select {columns} from {left} l, {second} r where {a} = {b} and {condition}{order}"
            ),
            1 => format!(
                "select count(*), min({a}), max({b}) from {left} l {with} {second} r on {on} where {condition}"
            ),
            2 => format!(
                "select {columns} from {left} l {with} {second} r on {on} join e z on z.id = {a} where {condition}{order}"
            ),
            _ => format!(
                "select {columns} from {left} l {with} {second} r on {on} where {condition}{order}"
            ),
        }
    }

    fn subquery(&mut self) -> String {
        let table = self.over("o");
        let key = self.column(Int).expect("every table has one");
        let condition = self.condition(1);
        match self.below(6) {
            0 => format!("select {key} from {table} o where exists (select 1 from e where e.id = {key} and {condition}) order by 1"),
            1 => format!("select {key} from {table} o where {key} in (select b from d where {condition}) order by 1"),
            2 => format!("select {key}, (select max(v) from d where d.a = {key}) from {table} o where {condition} order by 1, 2"),
            3 => format!("select {key} from {table} o where {key} = (select max(a) from d) and {condition} order by 1"),
            4 => format!(
                "with w as (select {key} as one, count(*) as many from {table} o where {condition} group by 1)
                 select w.one, w.many, e.w from w left join e on e.id = w.one order by 1, 2, 3"
            ),
            _ => format!(
                "select z.one from (select {key} as one from {table} o where {condition}) as z where z.one > {} order by 1{}",
                self.key(),
                self.chance.limit()
            ),
        }
    }

    /// An integer column of `i`, and the source and conditions of a correlated query over `i`.
    fn inside(&mut self) -> (String, String) {
        let around = self.tables.clone();
        let table = self.over("i");
        let (column, inner) = (self.column(Int).expect("every table has one"), self.tables[0]);
        let mut conditions = Vec::new();
        for _ in 0..self.below(3) {
            let kind = self.chance.one(&[Int, Int, Text]);
            let own = self.column(kind);
            self.tables.clone_from(&around);
            let other = self.column(kind);
            self.tables = vec![inner];
            conditions.extend(own.zip(other).map(|(own, other)| format!("{own} = {other}")));
        }
        if self.chance.once_in(2) {
            self.tables.extend(&around);
        }
        conditions.push(self.condition(1));
        self.tables = around;
        (column, format!("from {table} i where {}", conditions.join(" and ")))
    }

    /// As [`Scope::inside`], in an update or delete of a table with the alias `o`.
    fn change_of(&mut self, table: &str) -> (String, String) {
        let columns = match table {
            "d" => D,
            "e" => E,
            _ => H,
        };
        self.tables = vec![("o", columns)];
        self.inside()
    }

    /// Subqueries in expressions: their correlations, and their forms.
    fn inside_of_expressions(&mut self) -> String {
        let table = self.over("o");
        let condition = self.condition(1);
        let key = self.column(Int).expect("every table has one");
        let other = self.column(Int).expect("every table has one");
        let (column, inside) = self.inside();
        let not = self.chance.one(&["", "not "]);
        match self.below(16) {
            13 | 14 => self.members(),
            0 | 1 => {
                let of = self.chance.one(&["max", "min", "sum", "count"]);
                format!("select {key}, (select {of}({column}) {inside}) from {table} o where {condition} order by 1, 2")
            }
            2 => format!("select {key} from {table} o where {not}exists (select * {inside}) and {condition} order by 1"),
            3 => format!("select {key} from {table} o where {other} {not}in (select {column} {inside}) order by 1"),
            4 => format!("select {key}, {other} {not}in (select {column} {inside}) from {table} o order by 1, 2"),
            5 => format!("select {key}, array(select {column} {inside} order by 1)::text from {table} o order by 1, 2"),
            6 => format!("select {key} from {table} o where {other} > (select {column} {inside} order by 1 limit 1) order by 1"),
            7 => format!("select {key}, (select {column} {inside} group by {column}) from {table} o order by 1, 2"),
            8 => format!("select {key}, (select max(z.one) from (select {column} as one {inside}) z) from {table} o order by 1, 2"),
            9 => {
                // In a grouped query, columns are those of GROUP BY.
                self.tables = vec![("o", &[("k", Int)])];
                let (column, inside) = self.inside();
                let of = self.chance.one(&["max(o.id)", "count(*)", "sum(o.m)"]);
                format!("select o.k, {of}, (select count({column}) {inside}), (select max({of}) from h) from e o group by o.k order by 1, 2")
            }
            10 => format!(
                "with w as (select {key} as one, count(*) as many from {table} o where {condition} group by 1)
                 select w.one, w.many, (select max(many) from w z where z.one > w.one) from w where w.many in (select many from w) order by 1"
            ),
            11 => {
                let with = self.chance.one(&["join", "left join"]);
                format!("select {key}, z.one from {table} o {with} lateral (select {column} as one {inside}) z on true order by 1, 2")
            }
            12 => format!("select {key}, z.* from {table} o, lateral (select count(*), max({column}) {inside}) z where {condition} order by 1, 2, 3"),
            _ => self.united(),
        }
    }

    /// Membership of a value in a query of another type that it can be compared with.
    fn members(&mut self) -> String {
        self.tables = vec![("o", E)];
        let (one, other) = self.chance.one(&[
            (Float, Numeric),
            (Numeric, Float),
            (Int, Float),
            (Float, Int),
            (Int, Numeric),
            (Time, Date),
            (Date, Time),
            (Int, Text),
        ]);
        let value = self.settled(one, 1);
        let not = self.chance.one(&["", "not "]);
        let condition = self.condition(1);
        self.tables = vec![("i", E)];
        let member = self.settled(other, 1);
        format!(
            "select id from e o where {value} {not}in (select {member} from e i) and {condition} order by 1"
        )
    }

    /// Joins with USING, and rows WITH TIES.
    fn united(&mut self) -> String {
        let with = self.chance.one(&["join", "left join", "right join"]);
        match self.below(4) {
            0 => format!("select * from e {with} h using (k)"),
            1 => format!("select * from h {with} e using (k) where k > {}", self.key()),
            2 => format!("select * from h natural {with} e"),
            _ => {
                let count = self.below(6);
                format!("select k from e order by k desc fetch first {count} rows with ties")
            }
        }
    }

    fn union(&mut self) -> String {
        let kind = self.chance.one(&[Int, Text, Date, Numeric]);
        let mut parts = Vec::new();
        for _ in 0..2 + self.below(2) {
            let table = self.over("");
            let value = self.settled(kind, 1);
            parts.push(format!("select {value} from {table} where {}", self.condition(1)));
        }
        let with = self.chance.one(&[
            " union ",
            " union all ",
            " intersect ",
            " intersect all ",
            " except ",
            " except all ",
        ]);
        format!("{} order by 1{}", parts.join(with), self.chance.limit())
    }
}

/// By all columns, so that the rows of ties are equal.
fn order(columns: usize, scope: &mut Scope<'_>) -> String {
    let mut places: Vec<String> = Vec::new();
    for place in 1..=columns {
        places.push(format!(
            "{place}{}",
            scope.chance.one(&["", "", " desc", " nulls first", " desc nulls last"])
        ));
    }
    format!(" order by {}", places.join(", "))
}
