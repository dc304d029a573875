//! Draws a change: latency and throughput of requests before it, through its phases, and after it.
//!
//! ```text
//!   latency, ms      paced: the 99th percentile, and the longest request of each slice
//!   throughput       closed: requests a second of each slice
//!                    │ waits │ copies rows │ waits for readers │      a line where a phase begins
//! ```

use super::{Run, ms};
use isomer::ratings::{percentile, within};
use isomer::timeline::{self, BLUE, Curve, OCHRE, Panel};
use std::error::Error;
use std::path::Path;
use std::time::Duration;

const SIZE: (u32, u32) = (900, 620);
const SLICES: u32 = 90;

/// Draws one change under paced load, and one under closed-loop load.
pub(super) fn draw(path: &Path, paced: &Run, closed: &Run) -> Result<(), Box<dyn Error>> {
    let latency = |name, percent, color| {
        let points = slices(paced, |from, to| {
            let requests = within(&paced.noted, from, to);
            (!requests.is_empty()).then(|| ms(percentile(requests, percent)))
        });
        Curve { name, color, points }
    };
    let latencies = vec![latency("longest", 100, OCHRE), latency("p99", 99, BLUE)];
    let points = slices(closed, |from, to| {
        Some(within(&closed.noted, from, to).len() as f64 / (to - from).as_secs_f64())
    });
    let rates = vec![Curve { name: "requests/s", color: BLUE, points }];
    let panels = [
        panel("half of the capacity: latency, ms", paced, latencies),
        panel("all that clients can: requests per second", closed, rates),
    ];
    timeline::draw(path, SIZE, 1, &panels)
}

fn end(run: &Run) -> Duration {
    run.noted.last().map_or(run.changed, |request| request.at)
}

/// The value of each slice of a run that has one, at the middle of the slice.
fn slices(run: &Run, value: impl Fn(Duration, Duration) -> Option<f64>) -> Vec<(f64, f64)> {
    let slice = end(run) / SLICES;
    let point = |at: u32| {
        let (from, to) = (slice * at, slice * (at + 1));
        Some(((from + slice / 2).as_secs_f64(), value(from, to)?))
    };
    (0..SLICES).filter_map(point).collect()
}

fn panel(title: &str, run: &Run, curves: Vec<Curve>) -> Panel {
    let phases = run.phases.iter().map(|(begun, phase)| (begun.as_secs_f64(), phase.clone()));
    Panel {
        title: title.to_owned(),
        end_s: end(run).as_secs_f64(),
        shaded: Some((run.begun.as_secs_f64(), run.changed.as_secs_f64())),
        phases: phases.collect(),
        curves,
        limits: None,
    }
}
