//! The report: a line for each query, and the aims.

use super::side::{Ended, Side};
use super::{Query, Set, SqlArgs};
use isomer::failure::Failure;
use isomer::{out, text};
use serde_json::{Map, Value, json};

/// The aims for ratios to PostgreSQL.
const TPCH_MEDIAN: f64 = 2.0;
const TPCH_WORST: f64 = 10.0;
const SHAPE_WORST: f64 = 3.0;

/// The figures of a query.
pub(super) struct Line {
    name: String,
    set: Set,
    isomer: Ended,
    /// `None` without a PostgreSQL.
    postgres: Option<Ended>,
}

/// The figures so far.
pub(super) struct Report<'a> {
    args: &'a SqlArgs,
    /// The fields that all lines of JSON share.
    common: Map<String, Value>,
    has_postgres: bool,
    lines: Vec<Line>,
}

impl Line {
    /// Of the results at the servers: Isomer's, and PostgreSQL's if there is one.
    pub(super) fn of(query: &Query, results: Vec<Ended>) -> Line {
        let mut results = results.into_iter();
        let isomer = results.next().expect("Isomer is measured");
        Line { name: query.name.clone(), set: query.set, isomer, postgres: results.next() }
    }

    fn postgres_ms(&self) -> Option<f64> {
        self.postgres.as_ref()?.median_ms()
    }

    /// Isomer's time over PostgreSQL's.
    fn ratio(&self) -> Option<f64> {
        Some(self.isomer.median_ms()? / self.postgres_ms()?)
    }

    fn rows(&self) -> Option<u64> {
        let postgres = self.postgres.as_ref().and_then(|ended| ended.digest);
        self.isomer.digest.or(postgres).map(|digest| digest.rows)
    }

    /// True if the results are equal; none if there are not two.
    fn is_equal(&self) -> Option<bool> {
        Some(self.isomer.digest? == self.postgres.as_ref()?.digest?)
    }

    /// The errors, each with its server.
    fn errors(&self) -> Vec<String> {
        let of = |name: &str, ended: &Ended| ended.error.as_ref().map(|it| format!("{name}: {it}"));
        let postgres = self.postgres.as_ref().and_then(|ended| of("postgres", ended));
        of("isomer", &self.isomer).into_iter().chain(postgres).collect()
    }

    /// The line's own part of its JSON.
    fn json(&self) -> Map<String, Value> {
        let runs = |ended: &Ended| ended.ms.iter().copied().map(rounded).collect::<Vec<_>>();
        let fields = json!({
            "query": self.name,
            "isomer_ms": self.isomer.median_ms().map(rounded),
            "postgres_ms": self.postgres_ms().map(rounded),
            "ratio": self.ratio().map(rounded),
            "rows": self.rows(),
            "equal": self.is_equal(),
            "errors": self.errors(),
            "runs": { "isomer": runs(&self.isomer), "postgres": self.postgres.as_ref().map(runs) },
        });
        match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    }

    fn cells(&self) -> Vec<String> {
        let ms = |ms: Option<f64>| ms.map_or("-".to_owned(), |ms| format!("{ms:.3}"));
        let equal = match self.is_equal() {
            Some(true) => "equal".to_owned(),
            Some(false) => "DIFFERENT".to_owned(),
            None => String::new(),
        };
        let remarks = [vec![equal], self.errors()].concat();
        let remarks: Vec<String> = remarks.into_iter().filter(|it| !it.is_empty()).collect();
        vec![
            self.name.clone(),
            ms(self.isomer.median_ms()),
            ms(self.postgres_ms()),
            self.ratio().map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
            self.rows().map_or("-".to_owned(), text::count),
            remarks.join("; "),
        ]
    }
}

impl Report<'_> {
    pub(super) fn new<'a>(args: &'a SqlArgs, sides: &[Side]) -> Result<Report<'a>, Failure> {
        let mut versions = Map::new();
        for side in sides {
            versions.insert(side.name().to_owned(), json!(side.version()?));
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let common = json!({
            "bench": "sql",
            "inputs": {
                "scale": args.scale, "rows": args.rows, "runs": args.runs, "sites": args.sites,
                "timeout_seconds": args.timeout, "transport": "unix",
                "is_release": !cfg!(debug_assertions),
            },
            "seed": args.seed, "cores": cores, "versions": versions,
        });
        let common = match common {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        Ok(Report { args, common, has_postgres: sides.len() > 1, lines: Vec::new() })
    }

    /// Adds a line, and prints its JSON.
    pub(super) fn add(&mut self, line: Line) {
        if self.args.json {
            let mut fields = self.common.clone();
            fields.extend(line.json());
            out::line(Value::Object(fields));
        }
        self.lines.push(line);
    }

    /// Prints the table, and the aims.
    pub(super) fn end(&self) {
        let aims = if self.has_postgres { aims(&self.lines) } else { Vec::new() };
        if self.args.json {
            let mut fields = self.common.clone();
            let aims: Vec<Value> = aims.iter().map(Aim::json).collect();
            fields.insert("aims".to_owned(), json!(aims));
            out::line(Value::Object(fields));
            return;
        }
        let head = ["query", "isomer ms", "postgres ms", "ratio", "rows", "results"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(self.lines.iter().map(Line::cells));
        out::print(text::columns(&rows, 0));
        if !aims.is_empty() {
            let rows: Vec<Vec<String>> = aims.iter().map(Aim::cells).collect();
            out::print(format_args!("\n{}", text::columns(&rows, 0)));
        }
    }
}

/// A figure with its aim.
#[derive(Debug)]
struct Aim {
    name: &'static str,
    most: f64,
    /// The ratio, and the query that has it; infinite if Isomer refused a query.
    ratio: f64,
    query: String,
    /// Queries of the set above `most`, and all.
    above: usize,
    all: usize,
}

/// The aims of the sets that were measured.
fn aims(lines: &[Line]) -> Vec<Aim> {
    let ratios = |set: Set| {
        let measured = lines.iter().filter(move |line| line.set == set);
        let mut ratios: Vec<(f64, &str)> = measured
            .filter_map(|line| match (line.ratio(), line.isomer.median_ms()) {
                (Some(ratio), _) => Some((ratio, line.name.as_str())),
                (None, None) => Some((f64::INFINITY, line.name.as_str())),
                // PostgreSQL alone refused the query.
                (None, Some(_)) => None,
            })
            .collect();
        ratios.sort_by(|one, other| one.0.total_cmp(&other.0));
        ratios
    };
    let aim = |name, most, ratios: &[(f64, &str)], at: usize| {
        let (ratio, query) = *ratios.get(at)?;
        let above = ratios.iter().filter(|(ratio, _)| *ratio > most).count();
        Some(Aim { name, most, ratio, query: query.to_owned(), above, all: ratios.len() })
    };
    let (tpch, shapes) = (ratios(Set::TpcH), ratios(Set::Shapes));
    [
        aim("TPC-H, median", TPCH_MEDIAN, &tpch, tpch.len() / 2),
        aim("TPC-H, worst", TPCH_WORST, &tpch, tpch.len().saturating_sub(1)),
        aim("shapes, worst", SHAPE_WORST, &shapes, shapes.len().saturating_sub(1)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

impl Aim {
    fn is_reached(&self) -> bool {
        self.ratio <= self.most
    }

    fn json(&self) -> Value {
        // JSON has no infinity: null stands for a refused query.
        json!({
            "aim": self.name, "most": self.most, "ratio": rounded(self.ratio), "query": self.query,
            "above": self.above, "of": self.all, "reached": self.is_reached(),
        })
    }

    fn cells(&self) -> Vec<String> {
        let verdict = if self.is_reached() { "reached" } else { "missed" };
        vec![
            self.name.to_owned(),
            format!("{:.2} ({})", self.ratio, self.query),
            format!("aim {}", self.most),
            format!("{} of {} above", self.above, self.all),
            verdict.to_owned(),
        ]
    }
}

fn rounded(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, set: Set, isomer: Option<f64>, postgres: f64) -> Line {
        let error = isomer.is_none().then(|| "0A000 no".to_owned());
        let isomer = Ended { ms: isomer.into_iter().collect(), error, ..Ended::default() };
        let postgres = Some(Ended { ms: vec![postgres], ..Ended::default() });
        Line { name: name.to_owned(), set, isomer, postgres }
    }

    #[test]
    fn a_refused_query_misses_its_aim() {
        let mut lines = vec![
            line("a", Set::TpcH, Some(1.0), 1.0),
            line("b", Set::TpcH, Some(3.0), 2.0),
            line("c", Set::TpcH, Some(8.0), 1.0),
            line("d", Set::Points, Some(99.0), 1.0),
        ];
        let found = aims(&lines);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(Aim::is_reached), "{found:?}");
        assert_eq!((found[0].query.as_str(), found[1].query.as_str()), ("b", "c"));
        lines.push(line("e", Set::TpcH, None, 1.0));
        let found = aims(&lines);
        assert!(!found[1].is_reached() && found[1].query == "e", "{found:?}");
        assert_eq!((found[1].above, found[1].all), (1, 4));
    }
}
