//! One of the two servers: loads rows, runs queries, digests results.

use super::super::servers::Server;
use super::{Query, Rows};
use isomer::clock;
use isomer::failure::Failure;
use postgres::{Client, Error, SimpleQueryMessage, SimpleQueryRow, Statement};
use std::hash::{DefaultHasher, Hasher};
use std::io::Write;

/// Rows of one COPY. Isomer limits the memory of a statement (`--statement-mb`).
const BATCH_ROWS: usize = 50_000;

/// A running server.
pub(super) struct Side {
    name: &'static str,
    server: Server,
    timeout: u32,
}

/// The runs of a query at one server, in a session of their own.
pub(super) struct Turns<'q> {
    query: &'q Query,
    client: Client,
    /// The prepared statement, for a query with keys.
    prepared: Option<Statement>,
    ended: Ended,
}

/// The result of all runs of a query at one server.
#[derive(Default)]
pub(super) struct Ended {
    /// Milliseconds of each run; for a query with keys, of a statement at the mean.
    pub(super) ms: Vec<f64>,
    /// The result of the first run.
    pub(super) digest: Option<Digest>,
    /// The error of the last run, as SQLSTATE and message. There are no runs after an error.
    pub(super) error: Option<String>,
}

/// A result without the order of its rows.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Digest {
    pub(super) rows: u64,
    /// The sum of the rows' hashes.
    sum: u64,
}

impl Side {
    pub(super) fn new(name: &'static str, server: Server, timeout: u32) -> Side {
        Side { name, server, timeout }
    }

    /// `isomer` or `postgres`.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// The server's own name and version.
    pub(super) fn version(&self) -> Result<String, Failure> {
        let asked = self.server.connect()?.query_one("SELECT version()", &[]);
        asked.map(|row| row.get(0)).map_err(|error| self.failed("its version", &error))
    }

    /// Creates tables, fills them, and has the server gather statistics.
    pub(super) fn load(&self, schema: &str, tables: &[Rows]) -> Result<(), Failure> {
        let mut client = self.server.connect()?;
        let begun = clock::now();
        client.batch_execute(schema).map_err(|error| self.failed("the tables", &error))?;
        for Rows { table, text } in tables {
            let failed = |error: Error| self.failed(table, &error);
            let lines: Vec<&str> = text.split_inclusive('\n').collect();
            for batch in lines.chunks(BATCH_ROWS) {
                let copy = format!("COPY {table} FROM STDIN");
                let mut rows = client.copy_in(&copy).map_err(failed)?;
                rows.write_all(batch.concat().as_bytes()).map_err(Failure::failed)?;
                rows.finish().map_err(failed)?;
            }
        }
        for Rows { table, .. } in tables {
            let analyzed = client.batch_execute(&format!("VACUUM ANALYZE {table}"));
            analyzed.map_err(|error| self.failed(table, &error))?;
        }
        eprintln!("{} tables in {} in {:.1?}", tables.len(), self.name, begun.elapsed());
        Ok(())
    }

    /// Begins the runs of a query.
    ///
    /// # Errors
    /// If the server does not accept a session. A statement that cannot be prepared is a query that
    /// is refused.
    pub(super) fn turns<'q>(&self, query: &'q Query) -> Result<Turns<'q>, Failure> {
        let mut client = self.session()?;
        let mut ended = Ended::default();
        let prepared = match query.keys.is_empty() {
            true => None,
            false => client.prepare(&query.text).map_err(|error| ended.refused(&error)).ok(),
        };
        Ok(Turns { query, client, prepared, ended })
    }

    /// The server's plan of a query with actual rows, or the error.
    pub(super) fn explain(&self, query: &Query) -> Result<String, Failure> {
        let text = match query.keys.first() {
            Some(key) => query.text.replace("$1", &key.to_string()),
            None => query.text.clone(),
        };
        let text = format!("EXPLAIN ANALYZE {text}");
        Ok(match self.session()?.simple_query(&text) {
            Ok(messages) => rows_of(&messages)
                .map(|row| format!("  {}\n", row.get(0).unwrap_or_default()))
                .collect(),
            Err(error) => format!("  {}\n", said(&error)),
        })
    }

    /// A session with the time limit.
    fn session(&self) -> Result<Client, Failure> {
        let mut client = self.server.connect()?;
        let limited = client.batch_execute(&format!("SET statement_timeout = '{}s'", self.timeout));
        limited.map_err(|error| self.failed("statement_timeout", &error))?;
        Ok(client)
    }

    fn failed(&self, what: &str, error: &Error) -> Failure {
        Failure::of_server(&format!("{}: {what}", self.name), error)
    }
}

impl Turns<'_> {
    /// Runs the query once more, unless it was refused.
    pub(super) fn run(&mut self) {
        if self.ended.error.is_some() {
            return;
        }
        let begun = clock::now();
        let ran = match &self.prepared {
            None => self.client.simple_query(&self.query.text).map(|messages| {
                (begun.elapsed(), rows_of(&messages).map(fields_of).collect::<Digest>())
            }),
            Some(prepared) => {
                let found: Result<Vec<String>, Error> = self
                    .query
                    .keys
                    .iter()
                    .map(|key| self.client.query_one(prepared, &[key]).map(|row| row.get(0)))
                    .collect();
                found.map(|found| {
                    (begun.elapsed(), found.into_iter().map(|text| vec![Some(text)]).collect())
                })
            }
        };
        match ran {
            Ok((time, digest)) => {
                let statements = self.query.keys.len().max(1) as f64;
                self.ended.ms.push(time.as_secs_f64() * 1000.0 / statements);
                self.ended.digest.get_or_insert(digest);
            }
            Err(error) => self.ended.refused(&error),
        }
    }

    pub(super) fn end(self) -> Ended {
        self.ended
    }
}

impl Ended {
    fn refused(&mut self, error: &Error) {
        self.error = Some(said(error));
    }

    /// The median of the runs; none if a run failed.
    pub(super) fn median_ms(&self) -> Option<f64> {
        if self.error.is_some() {
            return None;
        }
        let mut ms = self.ms.clone();
        ms.sort_by(f64::total_cmp);
        ms.get(ms.len() / 2).copied()
    }
}

impl FromIterator<Vec<Option<String>>> for Digest {
    fn from_iter<T: IntoIterator<Item = Vec<Option<String>>>>(rows: T) -> Digest {
        let mut digest = Digest::default();
        for row in rows {
            let mut hasher = DefaultHasher::new();
            for field in row {
                hasher.write(field.map_or("\u{1}".to_owned(), normal).as_bytes());
                hasher.write_u8(0);
            }
            digest.rows += 1;
            digest.sum = digest.sum.wrapping_add(hasher.finish());
        }
        digest
    }
}

/// The text of a value by which results are compared: numbers with a point have seven digits,
/// because the scale of a quotient is the server's choice.
fn normal(text: String) -> String {
    match text.parse::<f64>() {
        Ok(number) if text.contains('.') => format!("{number:.6e}"),
        _ => text,
    }
}

fn rows_of(messages: &[SimpleQueryMessage]) -> impl Iterator<Item = &SimpleQueryRow> {
    messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    })
}

fn fields_of(row: &SimpleQueryRow) -> Vec<Option<String>> {
    (0..row.len()).map(|field| row.get(field).map(str::to_owned)).collect()
}

fn said(error: &Error) -> String {
    match error.as_db_error() {
        Some(of_server) => format!("{} {}", of_server.code().code(), of_server.message()),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(rows: &[&[&str]]) -> Digest {
        rows.iter().map(|row| row.iter().map(|text| Some((*text).to_owned())).collect()).collect()
    }

    #[test]
    fn results_are_equal_in_any_order_and_scale() {
        let one = digest(&[&["1", "2.50"], &["3", "0.1666666666"]]);
        assert_eq!(one, digest(&[&["3", "0.16666666661"], &["1", "2.5"]]));
        assert_ne!(one, digest(&[&["1", "2.51"], &["3", "0.1666666666"]]));
        assert_ne!(one, digest(&[&["1", "2.5"]]));
        assert_ne!(digest(&[&["ab", "c"]]), digest(&[&["a", "bc"]]));
        assert_ne!(digest(&[&["10"], &["10"]]), digest(&[&["10"]]));
    }
}
