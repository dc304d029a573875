//! Random statements, here and at a real PostgreSQL: the same rows, the same counts, and for errors the
//! same class of SQLSTATE.
//!
//! Needs a PostgreSQL to compare with: set `ISOMER_POSTGRES` to a connection string of a database that
//! may be written to, such as `host=127.0.0.1 port=5432 user=me dbname=scratch`. Without it the test says
//! that it was skipped. `ISOMER_STATEMENTS` is how many statements are compared (2000), `ISOMER_SEED`
//! where chance begins (1).

use isomer_cluster::Options;
use isomer_plan::learned::Mode;
use isomer_server::{Engine, Server, ServerOptions};
use postgres::{Client, NoTls, SimpleQueryMessage};

struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.below(of.len() as u64) as usize]
    }

    fn number(&mut self) -> String {
        match self.below(8) {
            0 => "null".to_owned(),
            1 => format!("{}.{}", self.below(20), self.below(100)),
            _ => (self.below(24) as i64 - 4).to_string(),
        }
    }

    /// A whole number of the key.
    fn key(&mut self) -> u64 {
        self.below(12)
    }

    fn expression(&mut self, depth: u32) -> String {
        if depth == 0 {
            return match self.below(4) {
                // A NULL that is written makes PostgreSQL skip what stands beside it, and its errors.
                0 => self.below(20).to_string(),
                _ => self.one(&["a", "b", "v", "n"]).to_owned(),
            };
        }
        let (left, right) = (self.expression(depth - 1), self.expression(depth - 1));
        match self.below(9) {
            0 => format!("coalesce({left}, {right})"),
            1 => format!("abs({left})"),
            2 => format!("(case when {left} > {right} then {left} else {right} end)"),
            3 => format!("nullif({left}, {right})"),
            // Which of several conditions is looked at first is not defined, so whether one divides by
            // zero is not either.
            n @ (4 | 5) => format!("({left} {} {})", ["/", "%"][n as usize - 4], 1 + self.below(9)),
            // Products of quotients have more digits than the 38 there are here.
            6 => format!("({left} * {})", self.below(9)),
            n => format!("({left} {} {right})", ["+", "-"][n as usize - 7]),
        }
    }

    fn condition(&mut self, depth: u32) -> String {
        if depth > 0 && self.below(2) == 0 {
            let (left, right) = (self.condition(depth - 1), self.condition(depth - 1));
            let with = self.one(&["and", "or", "and not"]);
            return format!("({left} {with} {right})");
        }
        match self.below(10) {
            0 => format!("a = {}", self.key()),
            1 => format!("a = {} and b = {}", self.key(), self.key()),
            2 => format!("a in ({}, {}, {})", self.key(), self.key(), self.key()),
            3 => format!(
                "(a, b) in (({}, {}), ({}, {}))",
                self.key(),
                self.key(),
                self.key(),
                self.key()
            ),
            4 => format!("b between {} and {}", self.key(), self.key()),
            5 => format!("v {} {}", self.one(&["<", "<=", ">", ">=", "=", "<>"]), self.number()),
            6 => format!("t is {} null", self.one(&["not", ""])),
            7 => format!("t like '{}%'", self.one(&["x", "y", "xy", ""])),
            8 => format!("n {} {}", self.one(&["<", ">", "="]), self.expression(1)),
            _ => format!("a > {} and a <= {}", self.key(), self.key()),
        }
    }

    fn statement(&mut self) -> String {
        let condition = self.condition(2);
        match self.below(12) {
            0 | 1 => format!(
                "insert into d values ({}, {}, {}, {}, '{}') on conflict (a, b) do {}",
                self.key(),
                self.key(),
                self.number(),
                self.number(),
                self.one(&["x", "y", "xy", "xyz"]),
                self.one(&["nothing", "update set v = d.v + 1, t = excluded.t"]),
            ),
            2 => format!("insert into d values ({}, {}, 1, 2, null)", self.key(), self.key()),
            3 => format!("update d set v = {} where {condition}", self.expression(1)),
            4 => format!(
                "update d set b = b + 1, t = t || 'z' where a = {} and b = {}",
                self.key(),
                self.key()
            ),
            5 => match self.below(6) {
                0 | 1 => format!("delete from d where {condition}"),
                2 => format!(
                    "delete from d using d y where d.a = y.b and d.b = y.a and y.v > {}",
                    self.key()
                ),
                _ => format!(
                    "update d set v = y.v, n = {} from d y where d.a = y.b and d.b = y.a and d.v < y.v",
                    self.one(&["y.n", "d.n", "999999", "-1000"])
                ),
            },
            6 => format!(
                "select a, count(*), sum(v), min(n), max(t), count(distinct v) from d where {condition} \
                 group by a having count(*) > {} order by a",
                self.below(3)
            ),
            7 => format!(
                "select x.a, x.b, y.a, y.v from d x {} join d y on y.a = x.b and y.b = x.a \
                 where x.v {} or y.n > {} order by 1, 2, 3, 4",
                self.one(&["left", "", "right", "full"]),
                self.one(&["is null", "< 9", "<> 3"]),
                self.key(),
            ),
            8 => match self.below(3) {
                0 => format!(
                    "select distinct v, t from d where {condition} order by v, t limit {}",
                    self.below(9)
                ),
                1 => format!(
                    "select distinct on (v) v, a, b from d where {condition} order by v, a {}, b",
                    self.one(&["", "desc"])
                ),
                _ => format!(
                    "select a, b, v from d where {condition} order by a desc, b desc limit {}",
                    self.below(9)
                ),
            },
            9 => format!(
                "select a, b from d where v = (select max(v) from d where {condition}) order by 1, 2"
            ),
            _ => format!(
                "select a, b, {} from d where {condition} order by a, b",
                self.expression(2)
            ),
        }
    }
}

/// What a client sees, or the class of the error.
fn outcome(client: &mut Client, statement: &str) -> Result<Vec<String>, String> {
    match client.simple_query(statement) {
        Ok(messages) => Ok(messages
            .into_iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => {
                    let values = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL"));
                    Some(values.collect::<Vec<_>>().join("|"))
                }
                SimpleQueryMessage::CommandComplete(count) => Some(format!("({count})")),
                _ => None,
            })
            .collect()),
        Err(error) => {
            let code = error.code().map_or("", |code| code.code());
            Err(code.get(..2).unwrap_or("").to_owned())
        }
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

#[test]
fn random_statements_have_the_same_outcome_at_postgresql() {
    let Ok(reference) = std::env::var("ISOMER_POSTGRES") else {
        eprintln!("SKIPPED: set ISOMER_POSTGRES to compare with a PostgreSQL");
        return;
    };
    let engine = Engine::open(Options::in_memory(3), Mode::Off);
    let listen = "127.0.0.1:0".parse().expect("an address");
    let options = ServerOptions::new(listen, || 0, |bytes| bytes.fill(7));
    let server = Server::start(engine.expect("a catalog"), options).expect("a free port");
    let here = format!("host=127.0.0.1 port={} user=test dbname=test", server.address().port());
    let mut ours = Client::connect(&here, NoTls).expect("the server answers");
    let mut theirs = Client::connect(&reference, NoTls).expect("PostgreSQL answers");
    for client in [&mut ours, &mut theirs] {
        client
            .batch_execute(
                "drop table if exists d; create table d (a int, b int, v int, n numeric(8, 2), t text, \
                 primary key (a, b), check (n > -200)); create index d_v on d (v); create index d_t on d (t, b)",
            )
            .expect("a table");
    }
    let mut chance = Chance(setting("ISOMER_SEED", 1));
    for number in 0..setting("ISOMER_STATEMENTS", 2000) {
        let statement = chance.statement();
        let (mine, other) = (outcome(&mut ours, &statement), outcome(&mut theirs, &statement));
        assert_eq!(mine, other, "statement {number}: {statement}\nleft: Isomer, right: PostgreSQL");
    }
    theirs.batch_execute("drop table d").expect("it was there");
}
