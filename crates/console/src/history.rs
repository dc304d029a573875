//! Samples of the last hour, and streams of the following ones.
//!
//! A sample summarises one interval of all processes, computed from two snapshots of their loads.
//! It is kept as the line of JSON that pages get, so that a new page costs one copy.
//!
//! Each process is compared with itself. One that was not asked before, or did not answer, adds
//! nothing to this interval: its counts since its start would look like a burst.

use isomer_server::Load;
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::sync::broadcast::{Receiver, Sender, channel};

/// The samples of an hour.
const SAMPLES_MAX: usize = 3600;
/// A page that is more samples behind continues with the newest.
const BEHIND_MAX: usize = 16;

/// One interval of all processes, in rates.
#[derive(Serialize, PartialEq, Debug)]
struct Sample {
    /// Its end, in milliseconds since 1970.
    at: i64,
    /// Why statements wait or fail, if they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
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
    /// Each process by name; the one with the conductor may have an empty name.
    processes: BTreeMap<String, ProcessSample>,
}

/// The work of a process for its clients.
#[derive(Serialize, PartialEq, Debug)]
struct ProcessSample {
    /// Statements per second.
    statements: f64,
    /// The mean of their durations, in milliseconds.
    mean_ms: Option<f64>,
    /// Commits per second.
    commits: f64,
    /// The share of writing commits that ran at one site.
    local: Option<f64>,
    /// Transactions that wait for locks.
    waiters: f64,
    /// The share of its machine's processors that it takes.
    busy: Option<f64>,
    /// The memory of rows and indexes at its sites.
    bytes: usize,
}

#[derive(Serialize, Default, PartialEq, Debug)]
struct SiteSample {
    commits: f64,
    busy: f64,
    bytes: f64,
    up: bool,
}

/// The loads of all processes with their names, the asking one first.
pub(crate) type Loads = Vec<(String, Load)>;

/// See the [module documentation](self).
pub(crate) struct History {
    kept: Mutex<Kept>,
    stream: Sender<Arc<str>>,
}

#[derive(Default)]
struct Kept {
    before: Option<(i64, Loads)>,
    lines: VecDeque<Arc<str>>,
}

impl Default for History {
    fn default() -> History {
        History { kept: Mutex::default(), stream: channel(BEHIND_MAX).0 }
    }
}

impl History {
    /// Adds the loads at a time, in microseconds since 1970, and why statements wait, if they do.
    pub(crate) fn add(&self, now_us: i64, loads: Loads, trouble: Option<String>) {
        let mut kept = self.kept.lock();
        if let Some((before_us, before)) = &kept.before {
            let sample = Sample::between((*before_us, before), (now_us, &loads));
            let sample = Sample { trouble, ..sample };
            let line: Arc<str> = serde_json::to_string(&sample).expect("numbers and texts").into();
            if kept.lines.len() == SAMPLES_MAX {
                kept.lines.pop_front();
            }
            kept.lines.push_back(line.clone());
            // Fails without viewers.
            let _ = self.stream.send(line);
        }
        kept.before = Some((now_us, loads));
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

/// The value below which this share lies, interpolated within its bucket; the lower bound of a
/// bucket without an end.
fn quantile(buckets: &[(Option<f64>, u64)], share: f64) -> Option<f64> {
    let total: u64 = buckets.iter().map(|(_, count)| count).sum();
    let mut left = share * total as f64;
    let mut from = 0.0;
    for (end, count) in buckets.iter().filter(|_| total > 0) {
        if left <= *count as f64 {
            let end = end.unwrap_or(from);
            return Some(from + (end - from) * left / (*count as f64).max(1.0));
        }
        left -= *count as f64;
        from = end.unwrap_or(from);
    }
    None
}

/// The share of commits at one site.
fn local([local, over_several]: [u64; 2]) -> Option<f64> {
    let all = local + over_several;
    (all > 0).then(|| local as f64 / all as f64)
}

impl ProcessSample {
    fn of(load: &Load, seconds: f64) -> ProcessSample {
        let statements = load.statements();
        ProcessSample {
            statements: statements as f64 / seconds,
            mean_ms: (statements > 0).then(|| 1000.0 * load.took_sum / statements as f64),
            commits: load.committed as f64 / seconds,
            local: local(load.ways()),
            waiters: load.waiters,
            busy: load.busy,
            bytes: load.bytes,
        }
    }
}

impl Sample {
    fn between((before_us, before): (i64, &Loads), (now_us, now): (i64, &Loads)) -> Sample {
        let seconds = ((now_us - before_us) as f64 / 1e6).max(1e-3);
        let (mut all, mut processes) = (Load::default(), BTreeMap::new());
        for (name, load) in now {
            let known = before.iter().find(|(known, _)| known == name);
            let earlier = known.map_or(load, |(_, earlier)| earlier);
            let load = load.since(earlier);
            processes.insert(name.clone(), ProcessSample::of(&load, seconds));
            all.add(&load);
        }
        let a_second = |count: u64| count as f64 / seconds;
        let mut sites: BTreeMap<String, SiteSample> = BTreeMap::new();
        for (site, commits) in &all.commits {
            sites.entry(site.clone()).or_default().commits = a_second(commits.iter().sum());
        }
        for (site, levels) in &all.sites {
            let site = sites.entry(site.clone()).or_default();
            (site.busy, site.bytes, site.up) = (levels.busy, levels.bytes, levels.up);
        }
        all.changes.retain(|_, count| *count > 0);
        let ms = |share| quantile(&all.took, share).map(|s| s * 1000.0);
        Sample {
            at: now_us / 1000,
            trouble: None,
            statements: a_second(all.statements()),
            errors: a_second(all.errors),
            p50_ms: ms(0.5),
            p99_ms: ms(0.99),
            commits: a_second(all.ways().iter().sum()),
            local: local(all.ways()),
            changes: all.changes,
            sites,
            processes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_server::SiteLevels;

    fn load(commits: u64, fast: u64) -> Load {
        Load {
            took: vec![(Some(0.001), fast), (None, 0)],
            took_sum: fast as f64 / 1000.0,
            commits: BTreeMap::from([("s1".to_owned(), [commits, 1])]),
            sites: BTreeMap::from([(
                "s1".to_owned(),
                SiteLevels { up: true, ..SiteLevels::default() },
            )]),
            ..Load::default()
        }
    }

    fn named(loads: &[(&str, Load)]) -> Loads {
        loads.iter().map(|(name, load)| ((*name).to_owned(), load.clone())).collect()
    }

    #[test]
    fn a_sample_is_what_happened_between_two_snapshots() {
        let before = named(&[("a", load(10, 5))]);
        let sample = Sample::between((0, &before), (2_000_000, &named(&[("a", load(30, 105))])));
        assert_eq!((sample.at, sample.statements, sample.commits), (2000, 50.0, 10.0));
        assert_eq!((sample.p50_ms, sample.local), (Some(0.5), Some(1.0)));
        assert!(sample.sites["s1"].up && sample.changes.is_empty());
    }

    #[test]
    fn processes_are_added_up_once_two_snapshots_have_them() {
        let before = named(&[("a", load(10, 5)), ("b", load(7, 7))]);
        // Between them b has restarted, and c has joined.
        let now = named(&[("a", load(20, 15)), ("b", load(2, 2)), ("c", load(900, 900))]);
        let sample = Sample::between((0, &before), (1_000_000, &now));
        assert_eq!((sample.statements, sample.commits), (10.0, 10.0));
        let mean_ms = sample.processes["a"].mean_ms.expect("there were statements");
        assert!((mean_ms - 1.0).abs() < 1e-9, "{mean_ms}");
        assert_eq!(
            (sample.processes["b"].statements, sample.processes["c"].statements),
            (0.0, 0.0)
        );
        let later = named(&[("a", load(20, 15)), ("c", load(903, 904))]);
        let sample = Sample::between((1_000_000, &now), (2_000_000, &later));
        assert_eq!((sample.statements, sample.commits), (4.0, 3.0), "b does not answer");
        assert_eq!(sample.processes.len(), 2);
    }

    #[test]
    fn an_hour_is_kept_and_viewers_get_what_comes() {
        let history = History::default();
        for second in 0..=(SAMPLES_MAX as i64 + 5) {
            history.add(second * 1_000_000, Loads::new(), None);
        }
        let (all, mut stream) = history.watch();
        let all: Vec<serde_json::Value> = serde_json::from_str(&all).expect("JSON");
        assert_eq!((all.len(), &all[0]["at"]), (SAMPLES_MAX, &6000.into()));
        assert!(stream.try_recv().is_err());
        history.add(9_000_000_000, Loads::new(), Some("no conductor".to_owned()));
        let last = stream.try_recv().expect("a sample");
        assert!(last.contains("9000000") && last.contains("no conductor"), "{last}");
    }

    #[test]
    fn quantiles_lie_inside_of_their_bucket() {
        let buckets = [(Some(1.0), 50), (Some(2.0), 50), (None, 0)];
        assert_eq!(quantile(&buckets, 0.5), Some(1.0));
        assert_eq!(quantile(&buckets, 0.75), Some(1.5));
        assert_eq!(quantile(&[(Some(1.0), 0)], 0.5), None);
        assert_eq!(quantile(&[(Some(1.0), 0), (None, 4)], 0.5), Some(1.0), "no end is known");
    }
}
