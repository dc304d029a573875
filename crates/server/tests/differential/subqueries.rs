//! Random queries whose conditions have subqueries, over small tables with NULLs, duplicates, and
//! no rows at all.
//!
//! ```text
//!   select o.id, o.a from q1 o left join q2 p on p.a = o.a
//!   where not exists (select 1 from q3 i where i.a = o.a and i.b <> o.b)
//!     and o.b in (select j.b from q2 j group by j.b having count(*) > 2)
//! ```
//!
//! With statistics such subqueries become joins, without they do not. So each query runs at a
//! server with statistics, at one without, and at PostgreSQL.

use super::chance::Chance;
use super::statements::Statement;

/// Tables and rows. The tables differ in their keys and indexes; `q4` is empty.
pub(crate) const TABLES: &str = "
    create table q1 (id int primary key, a int, b int not null, c text);
    create table q2 (id int primary key, a int, b int not null, c text);
    create table q3 (id int, a int, b int, c text);
    create table q4 (id int primary key, a int, b int, c text);
    create table q5 (id int not null, a int not null, b int not null, c text, primary key (a, id));
    create index q2_a on q2 (a);
    create index q2_b on q2 (b, id);
    create index q5_b on q5 (b);
    insert into q1 select n, nullif(n * 7 % 23, 5), n * 5 % 11, 't' || n % 4
        from generate_series(1, 60) n;
    insert into q2 select n, nullif(n * 11 % 31, 3), n * 3 % 17, 't' || n % 7
        from generate_series(1, 150) n;
    insert into q3 select nullif(n % 50, 9), nullif(n % 13, 2), nullif(n % 5, 4), null
        from generate_series(1, 120) n;
    insert into q5 select n, n % 9, n % 40, 't' || n % 3 from generate_series(1, 400) n;
    insert into q5 select 1000 + n, 8, 3, 't9' from generate_series(1, 100) n";

const NAMES: [&str; 5] = ["q1", "q2", "q3", "q4", "q5"];
const NUMBERS: [&str; 3] = ["id", "a", "b"];

/// A query, and its parameters so far.
struct Query<'c> {
    chance: &'c mut Chance,
    params: Option<Vec<String>>,
    /// The number of aliases.
    aliases: usize,
}

/// A random query.
pub(crate) fn query(chance: &mut Chance) -> Statement {
    let params = chance.once_in(3).then(Vec::new);
    let mut query = Query { chance, params, aliases: 0 };
    let text = query.whole();
    let is_ordered = text.contains("order by o.id");
    let params = query.params.filter(|params| !params.is_empty());
    Statement { text, params, is_ordered }
}

impl Query<'_> {
    fn whole(&mut self) -> String {
        let (first, second) = (self.chance.one(&["q1", "q2", "q5"]), self.chance.one(&NAMES));
        let (from, sources) = match self.chance.below(6) {
            0 => (format!("{first} o join {second} p on p.b = o.b"), vec!["o", "p"]),
            1 => (format!("{first} o left join {second} p on p.a = o.a"), vec!["o", "p"]),
            2 => (format!("{second} p right join {first} o on p.id = o.b"), vec!["o", "p"]),
            _ => (format!("{first} o"), vec!["o"]),
        };
        let sources: Vec<String> = sources.into_iter().map(str::to_owned).collect();
        let mut conditions = vec![self.asks(&sources, 0)];
        while self.chance.once_in(2) && conditions.len() < 3 {
            conditions.push(match self.chance.below(4) {
                0 => self.plain("o"),
                1 => format!("({} or {})", self.asks(&sources, 1), self.plain("o")),
                _ => self.asks(&sources, 0),
            });
        }
        let conditions = conditions.join(" and ");
        let last = sources.last().expect("there is one");
        match self.chance.below(7) {
            0 => format!("select count(*), sum({last}.b), min(o.a) from {from} where {conditions}"),
            1 => format!("select o.b, count(*) from {from} where {conditions} group by o.b"),
            2 => format!("select distinct o.b, {last}.c from {from} where {conditions}"),
            3 => format!(
                "select o.a, {last}.b, count(*) over (partition by o.b) from {from} \
                 where {conditions}"
            ),
            4 => {
                let count = self.chance.below(9);
                format!(
                    "select o.id, o.a from {from} where {conditions} \
                     order by o.id, o.a limit {count}"
                )
            }
            5 => format!(
                "select x.a, x.c from (select o.a, {last}.c, o.b from {from} where {conditions}) x \
                 where x.b > 3"
            ),
            _ => format!("select o.id, o.c, {last}.a, {last}.b from {from} where {conditions}"),
        }
    }

    /// A number, or a parameter.
    fn number(&mut self, below: u64) -> String {
        let number = self.chance.below(below).to_string();
        match &mut self.params {
            Some(params) if params.len() < 3 => {
                params.push(number);
                format!("${}::int", params.len())
            }
            _ => number,
        }
    }

    fn plain(&mut self, of: &str) -> String {
        let (column, compare) =
            (self.chance.one(&NUMBERS), self.chance.one(&["=", "<", ">=", "<>"]));
        match self.chance.below(5) {
            0 => format!("{of}.{column} is not null"),
            1 => format!("{of}.c = 't{}'", self.chance.below(5)),
            _ => format!("{of}.{column} {compare} {}", self.number(30)),
        }
    }

    /// A condition with a subquery, about a row of these sources.
    fn asks(&mut self, sources: &[String], depth: usize) -> String {
        let not = self.chance.one(&["", "", "not "]);
        let around = &sources[self.chance.below(sources.len() as u64) as usize];
        let column = self.chance.one(&NUMBERS);
        self.aliases += 1;
        let alias = format!("i{}", self.aliases);
        let table = self.chance.one(&NAMES);
        let other = self.chance.one(&NUMBERS);
        match self.chance.below(10) {
            0 => format!(
                "{around}.{column} {not}in (select {alias}.{other} from {table} {alias} \
                 group by {alias}.{other} having count(*) > {})",
                self.chance.below(12)
            ),
            1 => format!(
                "{around}.{column} {not}in (select {alias}.{other} from {table} {alias} \
                 where {alias}.{other} is not null order by 1 limit {})",
                self.chance.below(6)
            ),
            2 => format!(
                "({around}.{column}, {around}.b) {not}in (select {alias}.{other}, {alias}.b \
                 from {table} {alias} where {})",
                self.plain(&alias)
            ),
            3 => format!(
                "{around}.c {not}in (select {alias}.c from {table} {alias} \
                 union select 't1' where {})",
                self.number(3) + " > 0"
            ),
            4..=6 => {
                let (from, inside) = self.inside(around, table, &alias, depth, false);
                format!(
                    "{around}.{column} {not}in (select {alias}.{other} from {from} where {inside})"
                )
            }
            _ => {
                let (from, inside) = self.inside(around, table, &alias, depth, true);
                let shown = self.chance.one(&["1", "*", "null"]);
                let limit = self.chance.one(&["", "", "", " limit 1", " limit 0"]);
                format!("{not}exists (select {shown} from {from} where {inside}{limit})")
            }
        }
    }

    /// The sources and the conditions of a subquery.
    fn inside(
        &mut self,
        around: &str,
        table: &str,
        alias: &str,
        depth: usize,
        is_joined: bool,
    ) -> (String, String) {
        let mut from = format!("{table} {alias}");
        let mut conditions = Vec::new();
        if self.chance.once_in(3) {
            let second = self.chance.one(&NAMES);
            let kind = self.chance.one(&["join", "join", "left join"]);
            from = format!("{from} {kind} {second} {alias}x on {alias}x.a = {alias}.a");
            if self.chance.once_in(2) {
                let compare = self.chance.one(&["=", "<>", "<"]);
                conditions.push(format!("{alias}x.b {compare} {around}.b"));
            }
        }
        if is_joined || self.chance.once_in(3) {
            let (own, theirs) = (self.chance.one(&NUMBERS), self.chance.one(&NUMBERS));
            conditions.push(format!("{alias}.{own} = {around}.{theirs}"));
        }
        if self.chance.once_in(3) {
            let compare = self.chance.one(&["<>", "<", "is distinct from"]);
            conditions.push(format!("{alias}.b {compare} {around}.b"));
        }
        if self.chance.once_in(3) || conditions.is_empty() {
            conditions.push(self.plain(alias));
        }
        if self.chance.once_in(5) {
            conditions.push(self.plain(around));
        }
        if depth < 2 && self.chance.once_in(4) {
            let both = [around.to_owned(), alias.to_owned()];
            conditions.push(self.asks(&both, depth + 1));
        }
        (from, conditions.join(" and "))
    }
}
