//! `isomer-lab bench sql`: ordinary queries of Isomer beside PostgreSQL.
//!
//! ```text
//!   seed ──► rows ──COPY──► Isomer ─────┐ VACUUM ANALYZE
//!              └────COPY──► PostgreSQL ─┘
//!   a query     Isomer ▇▇▇  PostgreSQL ▇  Isomer ▇▇▇  PostgreSQL ▇ ..     `--runs` times each
//!   its line    medians, their ratio, rows, and whether both results are equal
//! ```
//!
//! The benchmark starts both servers in temporary folders, and reaches both by Unix sockets.
//!
//! | file | contents |
//! | --- | --- |
//! | `tpch.rs`, `tpch.sql` | the rows and the 22 queries of TPC-H |
//! | `shapes.rs` | one query for each shape that a planner should recognise, and point reads |
//! | `side.rs` | one server: loads rows, runs queries, digests results |
//! | `report.rs` | lines of JSON, tables, and the aims |
//!
//! A query that a server refuses stays in the report, with the error.

mod report;
mod shapes;
mod side;
mod tpch;

use super::servers::{Server, Transport, programs};
use isomer::failure::Failure;
use isomer::isolation::IsolationLevel;
use isomer::out;
use report::{Line, Report};
use side::Side;

/// Ordinary queries beside a stock PostgreSQL: TPC-H, shapes of queries, point reads
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Without a PostgreSQL, it measures Isomer alone.

Examples:
  isomer-lab bench sql --json
  isomer-lab bench sql --scale 0.1 --runs 3
  isomer-lab bench sql --only shape,tpch_q17
  isomer-lab bench sql --only shape_keyset --explain")]
pub(crate) struct SqlArgs {
    /// Scale of TPC-H: 1 has 6,000,000 rows in its largest table
    #[arg(long, value_name = "FACTOR", default_value_t = 0.01, value_parser = scale)]
    scale: f64,
    /// Rows of the largest table of the shapes
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    rows: u32,
    /// Runs of each query at each server; the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    /// Measures only queries whose names begin like this; separated by commas
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,
    /// Seconds after which a server cancels a query; there are no further runs of it there
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    timeout: u32,
    /// Sites of the Isomer database
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    sites: u16,
    /// Seed of the rows
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Does not look for a PostgreSQL
    #[arg(long)]
    alone: bool,
    /// Prints the plans of both servers (EXPLAIN ANALYZE) instead of measuring
    #[arg(long, conflicts_with = "json")]
    explain: bool,
    /// Prints a line of JSON for each query, and one with the aims
    #[arg(long)]
    json: bool,
}

fn scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(scale) if (0.0001..=1.0).contains(&scale) => Ok(scale),
        _ => Err("a scale is a number from 0.0001 to 1".to_owned()),
    }
}

/// A query to measure.
struct Query {
    /// Its name, which begins with that of its set.
    name: String,
    set: Set,
    text: String,
    /// The keys of its parameter, for a prepared statement that is run with each of them; empty
    /// for a statement that is sent as text.
    keys: Vec<i32>,
}

/// Queries that share their tables and their aim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Set {
    TpcH,
    Shapes,
    Points,
}

/// Rows of a table, in the text form of COPY.
struct Rows {
    table: &'static str,
    text: String,
}

impl Rows {
    fn of(table: &'static str) -> Rows {
        Rows { table, text: String::new() }
    }

    /// Appends a row. Values contain neither tabs nor backslashes.
    fn row(&mut self, values: std::fmt::Arguments<'_>) {
        use std::fmt::Write;
        writeln!(self.text, "{values}").expect("a string takes what it is given");
    }
}

/// Runs `isomer-lab bench sql`.
///
/// # Errors
/// If a server does not start or does not take the rows. A refused query is no failure.
pub(crate) fn sql(args: &SqlArgs) -> Result<(), Failure> {
    let mut queries = tpch::queries(args.scale);
    queries.extend(shapes::queries(args.rows, args.seed));
    let is_wanted = |name: &str| args.only.iter().any(|prefix| name.starts_with(prefix.as_str()));
    queries.retain(|query| args.only.is_empty() || is_wanted(&query.name));
    if queries.is_empty() {
        return Err(Failure::usage(format!(
            "no query's name begins with {}",
            args.only.join(", ")
        )));
    }
    let sides = start(args)?;
    load(args, &sides, &queries)?;
    let mut report = Report::new(args, &sides)?;
    for (number, query) in queries.iter().enumerate() {
        if args.explain {
            for side in &sides {
                out::line(format!("{} at {}:\n{}", query.name, side.name(), side.explain(query)?));
            }
            continue;
        }
        eprintln!("{}: {} of {}", query.name, number + 1, queries.len());
        report.add(measure(query, args.runs, &sides)?);
    }
    if !args.explain {
        report.end();
    }
    Ok(())
}

/// Starts Isomer, and PostgreSQL if there is one.
fn start(args: &SqlArgs) -> Result<Vec<Side>, Failure> {
    let (unix, level) = (Transport::Unix, IsolationLevel::ReadCommitted);
    let isomer = Server::isomer(args.sites, true, unix, level)?;
    let mut sides = vec![Side::new("isomer", isomer, args.timeout)];
    match programs() {
        _ if args.alone => {}
        Ok(_) => {
            sides.push(Side::new("postgres", Server::postgres(unix, level)?, args.timeout));
        }
        Err(Failure::Failed(what)) => eprintln!("{what}; Isomer is measured alone"),
        Err(failure) => return Err(failure),
    }
    Ok(sides)
}

/// Loads the tables that the queries read into both servers.
fn load(args: &SqlArgs, sides: &[Side], queries: &[Query]) -> Result<(), Failure> {
    if queries.iter().any(|query| query.set == Set::TpcH) {
        let rows = tpch::rows(args.scale, args.seed);
        sides.iter().try_for_each(|side| side.load(tpch::SCHEMA, &rows))?;
    }
    if queries.iter().any(|query| query.set != Set::TpcH) {
        let rows = shapes::rows(args.rows, args.seed);
        sides.iter().try_for_each(|side| side.load(shapes::SCHEMA, &rows))?;
    }
    Ok(())
}

/// Runs a query at the servers by turns.
fn measure(query: &Query, runs: u16, sides: &[Side]) -> Result<Line, Failure> {
    let mut turns = Vec::new();
    for side in sides {
        turns.push(side.turns(query)?);
    }
    for _ in 0..runs {
        turns.iter_mut().for_each(side::Turns::run);
    }
    Ok(Line::of(query, turns.into_iter().map(side::Turns::end).collect()))
}
