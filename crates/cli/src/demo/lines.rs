//! The run as lines, for files and pipes.

use super::view::View;
use crate::{out, text};

/// Seconds between two lines.
const PAUSE_S: f64 = 2.5;

/// Prints a line every [`PAUSE_S`] seconds.
pub(super) struct Lines {
    on_stderr: bool,
    next_s: f64,
    /// Intervals that earlier lines covered.
    shown: usize,
}

impl Lines {
    pub(super) fn new(on_stderr: bool) -> Lines {
        Lines { on_stderr, next_s: PAUSE_S, shown: 0 }
    }

    /// Prints a line if one is due.
    pub(super) fn show(&mut self, view: &View<'_>) {
        let Some(now) = view.series.intervals.last() else { return };
        if now.end_s < self.next_s {
            return;
        }
        self.next_s += PAUSE_S;
        let since = &view.series.intervals[self.shown..];
        self.shown = view.series.intervals.len();
        let seconds: f64 = since.iter().map(|interval| interval.seconds).sum();
        let sum =
            |number: fn(&super::series::Interval) -> u64| -> u64 { since.iter().map(number).sum() };
        let committed = sum(|interval| interval.committed);
        let share = sum(|interval| interval.single_site) as f64 / committed.max(1) as f64;
        let changes: Vec<String> = view
            .log
            .changes()
            .counts()
            .map(|(operator, count)| format!("{operator} {}", text::count(count)))
            .collect();
        let line = format!(
            "{:5.1} s  {:>9} tx/s  single-site {:>7}  p50 {} p99 {}  changes so far: {}",
            now.end_s,
            text::count((committed as f64 / seconds) as u64),
            text::percent(share),
            text::duration(now.latency.p50_ns as f64),
            text::duration(now.latency.p99_ns as f64),
            if changes.is_empty() { "none".to_owned() } else { changes.join(", ") },
        );
        if self.on_stderr { eprintln!("{line}") } else { out::line(line) }
    }
}
