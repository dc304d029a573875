//! Samples of the last hour, and streams of the following ones.
//!
//! A sample summarises one interval, computed from two snapshots of the figures. It is kept as the
//! line of JSON that pages get, so that a new page costs one copy.

use isomer_server::{Figure, FigureValue};
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::sync::broadcast::{Receiver, Sender, channel};

/// The samples of an hour.
const SAMPLES_MAX: usize = 3600;
/// A page that is more samples behind continues with the newest.
const BEHIND_MAX: usize = 16;

/// One interval of the server, in rates.
#[derive(Serialize, PartialEq, Debug)]
struct Sample {
    /// Its end, in milliseconds since 1970.
    at: i64,
    /// Statements and errors per second.
    statements: f64,
    errors: f64,
    /// The median and the 99th percentile of their durations, in milliseconds; missing without a
    /// statement.
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    /// Commits per second.
    commits: f64,
    /// The share of commits that ran at one site; missing without a commit.
    local: Option<f64>,
    /// Changes of the design, by kind.
    changes: BTreeMap<String, u64>,
    /// Of each site: commits per second, share of a processor, bytes, and whether it works.
    sites: BTreeMap<String, SiteSample>,
}

#[derive(Serialize, Default, PartialEq, Debug)]
struct SiteSample {
    commits: f64,
    busy: f64,
    bytes: f64,
    up: bool,
}

/// See the [module documentation](self).
pub(crate) struct History {
    kept: Mutex<Kept>,
    stream: Sender<Arc<str>>,
}

#[derive(Default)]
struct Kept {
    before: Option<(i64, Vec<Figure>)>,
    lines: VecDeque<Arc<str>>,
}

impl Default for History {
    fn default() -> History {
        History { kept: Mutex::default(), stream: channel(BEHIND_MAX).0 }
    }
}

impl History {
    /// Adds the figures at a time, in microseconds since 1970.
    pub(crate) fn add(&self, now_us: i64, figures: &[Figure]) {
        let mut kept = self.kept.lock();
        if let Some((before_us, before)) = &kept.before {
            let sample = Sample::between((*before_us, before), (now_us, figures));
            let line: Arc<str> = serde_json::to_string(&sample).expect("numbers and texts").into();
            if kept.lines.len() == SAMPLES_MAX {
                kept.lines.pop_front();
            }
            kept.lines.push_back(line.clone());
            // Fails without viewers.
            let _ = self.stream.send(line);
        }
        kept.before = Some((now_us, figures.to_vec()));
    }

    /// All samples as one array of JSON, and a stream of the following ones.
    pub(crate) fn watch(&self) -> (String, Receiver<Arc<str>>) {
        let kept = self.kept.lock();
        let lines: Vec<&str> = kept.lines.iter().map(|line| &**line).collect();
        (format!("[{}]", lines.join(",")), self.stream.subscribe())
    }

    /// The number of viewers.
    pub(crate) fn viewers(&self) -> usize {
        self.stream.receiver_count()
    }
}

/// Counts of a name by one of its labels, summed over the others.
fn counts(figures: &[Figure], name: &str, label: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for figure in figures.iter().filter(|figure| figure.name == name) {
        let value = figure.labels.iter().find(|(name, _)| *name == label);
        if let (Some((_, value)), FigureValue::Counter(count)) = (value, &figure.value) {
            *counts.entry(value.clone()).or_default() += count;
        }
    }
    counts
}

fn grown(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let grown = |(key, count): (&String, &u64)| {
        let more = count.saturating_sub(before.get(key).copied().unwrap_or_default());
        (key.clone(), more)
    };
    after.iter().map(grown).collect()
}

/// The upper bounds and counts of the buckets of the statements' histogram.
fn durations(figures: &[Figure]) -> Vec<(f64, u64)> {
    let found = figures.iter().find_map(|figure| match &figure.value {
        FigureValue::Histogram { buckets, .. }
            if figure.name == "isomer_statement_duration_seconds" =>
        {
            Some(buckets.clone())
        }
        _ => None,
    });
    found.unwrap_or_default()
}

/// The value below which this share lies, interpolated within its bucket; the lower bound of the
/// last bucket.
fn quantile(buckets: &[(f64, u64)], share: f64) -> Option<f64> {
    let total: u64 = buckets.iter().map(|(_, count)| count).sum();
    let mut left = share * total as f64;
    let mut from = 0.0;
    for (end, count) in buckets.iter().filter(|_| total > 0) {
        if left <= *count as f64 {
            let end = if *end == f64::INFINITY { from } else { *end };
            return Some(from + (end - from) * left / (*count as f64).max(1.0));
        }
        left -= *count as f64;
        from = *end;
    }
    None
}

impl Sample {
    fn between((before_us, before): (i64, &[Figure]), (now_us, now): (i64, &[Figure])) -> Sample {
        let seconds = ((now_us - before_us) as f64 / 1e6).max(1e-3);
        let more = |name, label| grown(&counts(before, name, label), &counts(now, name, label));
        let a_second = |count: u64| count as f64 / seconds;
        let earlier = durations(before);
        let took: Vec<(f64, u64)> = durations(now)
            .into_iter()
            .zip(earlier.into_iter().map(|(_, count)| count).chain(std::iter::repeat(0)))
            .map(|((end, count), earlier)| (end, count.saturating_sub(earlier)))
            .collect();
        let ms = |share| quantile(&took, share).map(|s| s * 1000.0);
        let ways = more("isomer_commits", "kind");
        let commits: u64 = ways.values().sum();
        let local = ways.get("local").copied().unwrap_or_default();
        let mut sites: BTreeMap<String, SiteSample> = BTreeMap::new();
        for (site, count) in more("isomer_commits", "site") {
            sites.entry(site).or_default().commits = a_second(count);
        }
        for figure in now {
            let (Some((_, site)), FigureValue::Gauge(level)) =
                (figure.labels.iter().find(|(name, _)| *name == "site"), &figure.value)
            else {
                continue;
            };
            let site = sites.entry(site.clone()).or_default();
            match figure.name {
                "isomer_site_busy_ratio" => site.busy = *level,
                "isomer_site_memory_bytes" => site.bytes = *level,
                "isomer_site_up" => site.up = *level > 0.0,
                _ => {}
            }
        }
        let mut changes = more("isomer_design_changes", "kind");
        changes.retain(|_, count| *count > 0);
        Sample {
            at: now_us / 1000,
            statements: a_second(took.iter().map(|(_, count)| count).sum()),
            errors: a_second(more("isomer_statement_errors", "sqlstate").values().sum()),
            p50_ms: ms(0.5),
            p99_ms: ms(0.99),
            commits: a_second(commits),
            local: (commits > 0).then(|| local as f64 / commits as f64),
            changes,
            sites,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(commits: u64, buckets: [u64; 2]) -> Vec<Figure> {
        let figure = |name, labels: &[(&'static str, &str)], value| Figure {
            name,
            help: "",
            labels: labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(),
            value,
        };
        let [fast, slow] = buckets;
        let took = FigureValue::Histogram {
            sum: 0.0,
            count: fast + slow,
            buckets: vec![(0.001, fast), (f64::INFINITY, slow)],
        };
        let local = [("site", "s1"), ("kind", "local")];
        let distributed = [("site", "s1"), ("kind", "distributed")];
        vec![
            figure("isomer_statement_duration_seconds", &[], took),
            figure("isomer_commits", &local, FigureValue::Counter(commits)),
            figure("isomer_commits", &distributed, FigureValue::Counter(1)),
            figure("isomer_site_up", &[("site", "s1")], FigureValue::Gauge(1.0)),
        ]
    }

    #[test]
    fn a_sample_is_what_happened_between_two_snapshots() {
        let sample =
            Sample::between((0, &figures(10, [5, 0])), (2_000_000, &figures(30, [105, 0])));
        assert_eq!((sample.at, sample.statements, sample.commits), (2000, 50.0, 10.0));
        assert_eq!((sample.p50_ms, sample.local), (Some(0.5), Some(1.0)));
        assert!(sample.sites["s1"].up && sample.changes.is_empty());
    }

    #[test]
    fn an_hour_is_kept_and_viewers_get_what_comes() {
        let history = History::default();
        for second in 0..=(SAMPLES_MAX as i64 + 5) {
            history.add(second * 1_000_000, &[]);
        }
        let (all, mut stream) = history.watch();
        let all: Vec<serde_json::Value> = serde_json::from_str(&all).expect("JSON");
        assert_eq!((all.len(), &all[0]["at"]), (SAMPLES_MAX, &6000.into()));
        assert!(stream.try_recv().is_err());
        history.add(9_000_000_000, &[]);
        assert!(stream.try_recv().expect("a sample").contains("9000000"));
    }

    #[test]
    fn quantiles_lie_inside_of_their_bucket() {
        let buckets = [(1.0, 50), (2.0, 50), (f64::INFINITY, 0)];
        assert_eq!(quantile(&buckets, 0.5), Some(1.0));
        assert_eq!(quantile(&buckets, 0.75), Some(1.5));
        assert_eq!(quantile(&[(1.0, 0)], 0.5), None);
        assert_eq!(quantile(&[(1.0, 0), (f64::INFINITY, 4)], 0.5), Some(1.0), "no end is known");
    }
}
