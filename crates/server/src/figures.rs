//! Metrics of the running server: the rows of `isomer.metrics`, and the text of a Prometheus
//! scrape.
//!
//! ```text
//!   session ──▶ Statements ─┐
//!   design, sites, gateway ─┼──▶ Engine::figures() ──▶ rows of isomer.metrics
//!   changes of the design ──┘                     └──▶ the console's /metrics
//! ```
//!
//! **Ownership.** Each count belongs to the state that it describes; there is no global registry. A
//! figure is a snapshot of one of them, with name, unit and labels by Prometheus' conventions: base
//! units (seconds, bytes), `_total` behind a counter. The encoder of that format adds the `_total`.
//!
//! **Cost.** A statement that ends takes two reads of the clock and two additions to atomics.
//! Errors are counted by SQLSTATE under a lock, which only failed statements take.
//!
//! Left out: figures of sites of other processes beyond their load, which their own processes have.
//! `isomer.all_metrics` has those of all processes, and [`crate::loads`] a few of them for graphs.

use isomer_cluster::{DURATIONS_US, Durations, DurationsShown};
use isomer_sql::SqlError;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::Duration;

/// SQLSTATEs that are counted separately; further ones are counted as `other`.
const CODES_MAX: usize = 64;

/// One figure, as it is now.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// Its name, with the unit, without `_total`.
    pub name: &'static str,
    /// Its meaning, in one sentence.
    pub help: &'static str,
    /// Names and values of its labels.
    pub labels: Vec<(&'static str, String)>,
    /// Its value.
    pub value: FigureValue,
}

/// The value of a figure.
#[derive(Clone, PartialEq, Debug)]
pub enum FigureValue {
    /// A count that only grows, from the start of the process on.
    Counter(u64),
    /// A level.
    Gauge(f64),
    /// A distribution of values.
    Histogram {
        /// The sum of all values.
        sum: f64,
        /// The number of values.
        count: u64,
        /// The upper bound and the number of values of each bucket, not cumulated.
        buckets: Vec<(f64, u64)>,
    },
}

impl Figure {
    pub(crate) fn counter(name: &'static str, help: &'static str, value: u64) -> Figure {
        Figure { name, help, labels: Vec::new(), value: FigureValue::Counter(value) }
    }

    pub(crate) fn gauge(name: &'static str, help: &'static str, value: f64) -> Figure {
        Figure { name, help, labels: Vec::new(), value: FigureValue::Gauge(value) }
    }

    /// A distribution of durations.
    pub(crate) fn durations(
        name: &'static str,
        help: &'static str,
        shown: &DurationsShown,
    ) -> Figure {
        let ends = DURATIONS_US.iter().map(|us| *us as f64 / 1e6).chain([f64::INFINITY]);
        let value = FigureValue::Histogram {
            sum: shown.sum_us as f64 / 1e6,
            count: shown.counts.iter().sum(),
            buckets: ends.zip(shown.counts).collect(),
        };
        Figure { name, help, labels: Vec::new(), value }
    }

    pub(crate) fn with(mut self, label: &'static str, value: impl ToString) -> Figure {
        self.labels.push((label, value.to_string()));
        self
    }

    /// The labels as `site="s1",kind="split"`.
    pub fn label_text(&self) -> String {
        let shown = |(name, value): &(&str, String)| format!("{name}=\"{value}\"");
        self.labels.iter().map(shown).collect::<Vec<_>>().join(",")
    }
}

/// Counts of the statements of all sessions.
#[derive(Default)]
pub(crate) struct Statements {
    durations: Durations,
    failed: Mutex<BTreeMap<String, u64>>,
}

impl Statements {
    /// Counts a statement that has ended.
    pub(crate) fn count(&self, took: Duration) {
        self.durations.add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// Counts an error that a client is told.
    pub(crate) fn failed(&self, error: &SqlError) {
        let mut failed = self.failed.lock();
        let is_known = failed.len() < CODES_MAX || failed.contains_key(error.code);
        let code = if is_known { error.code } else { "other" };
        *failed.entry(code.to_owned()).or_default() += 1;
    }

    /// How many errors of a code there were.
    pub(crate) fn failures(&self, code: &str) -> u64 {
        self.failed.lock().get(code).copied().unwrap_or(0)
    }

    pub(crate) fn figures(&self) -> Vec<Figure> {
        let name = "isomer_statement_duration_seconds";
        let help = "Time from the receipt of a statement to the end of its result.";
        let duration = Figure::durations(name, help, &self.durations.shown());
        let failed = self.failed.lock();
        let errors = failed.iter().map(|(code, count)| {
            let help = "Statements that ended with an error, by SQLSTATE.";
            Figure::counter("isomer_statement_errors", help, *count).with("sqlstate", code)
        });
        std::iter::once(duration).chain(errors).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_sql::code;

    #[test]
    fn a_statement_is_counted_in_the_bucket_of_its_duration_and_by_its_error() {
        let statements = Statements::default();
        statements.count(Duration::from_micros(50));
        statements.count(Duration::from_micros(51));
        let error = SqlError::new(code::SYNTAX, "no");
        statements.count(Duration::from_secs(60));
        statements.failed(&error);
        let figures = statements.figures();
        let FigureValue::Histogram { sum, count, buckets } = &figures[0].value else {
            panic!("a histogram comes first: {figures:?}")
        };
        assert_eq!((*count, buckets[0].1, buckets[1].1), (3, 1, 1));
        assert_eq!(buckets.last().map(|bucket| bucket.1), Some(1));
        assert!((sum - 60.000_101).abs() < 1e-9, "{sum}");
        assert_eq!(figures[1].label_text(), "sqlstate=\"42601\"");
        assert_eq!(figures[1].value, FigureValue::Counter(1));
    }
}
