//! Draws a move of each kind: throughput and latency of transactions over time.
//!
//! ```text
//!   switch         throughput │ latency         grey: from the beginning of the move to its end
//!   copy           throughput │ latency
//!   …
//! ```

use super::bed::Bed;
use super::clients::{Load, Note, Noted, work_while};
use super::figures::Window;
use super::kind::Kind;
use super::postcopy::Cut;
use isomer::clock;
use isomer::failure::Failure;
use isomer::timeline::{self, BLUE, Curve, OCHRE, Panel};
use isomer_workload::Workload;
use std::error::Error;
use std::path::Path;
use std::time::Duration;

const SIZE: (u32, u32) = (1000, 900);
/// Time shown before a move and after it.
const AROUND: Duration = Duration::from_millis(300);
const SLICES: u64 = 100;

/// A move, and the clients' notes before it, during it and after it.
pub(super) struct Course {
    kind: Kind,
    notes: Vec<Note>,
    shown: Window,
    moving: Window,
}

/// Makes a move of a kind while clients work, and moves the block back afterwards.
pub(super) fn course<W: Workload + Clone + Send + Sync>(
    bed: &Bed<W>,
    kind: Kind,
    load: Load,
    cut: Cut,
    all: &mut Noted,
) -> Result<Course, Failure> {
    let (mut noted, (shown, moving)) = work_while(bed, load, |shift| {
        let ready = kind.prepare(bed, 0, cut)?;
        clock::sleep(AROUND);
        let first = shift.now();
        clock::sleep(AROUND);
        let from = shift.now();
        kind.make(bed, ready, cut)?;
        let to = shift.now();
        clock::sleep(AROUND);
        let shown = Window { from: first, to: shift.now() };
        let ready = kind.prepare(bed, 1, cut)?;
        kind.make(bed, ready, cut)?;
        Ok((shown, Window { from, to }))
    })?;
    bed.come_home();
    let notes = std::mem::take(&mut noted.notes);
    all.count(noted);
    Ok(Course { kind, notes, shown, moving })
}

/// Draws the courses below each other.
pub(super) fn draw(path: &Path, case: &str, courses: &[Course]) -> Result<(), Box<dyn Error>> {
    let panels: Vec<Panel> = courses.iter().flat_map(|course| course.panels(case)).collect();
    timeline::draw(path, SIZE, 2, &panels)
}

impl Course {
    fn panels(&self, case: &str) -> [Panel; 2] {
        let Window { from, to } = self.shown;
        let seconds = |at: u64| (at - from) as f64 / 1e9;
        let panel = |what: &str, curves| Panel {
            title: format!("{case}, {}: {what}", self.kind.name()),
            end_s: seconds(to),
            shaded: Some((seconds(self.moving.from), seconds(self.moving.to))),
            curves,
            ..Panel::default()
        };
        let slice = (to - from) / SLICES;
        let slices = |value: &dyn Fn(Window) -> Option<f64>| -> Vec<(f64, f64)> {
            let windows = (0..SLICES).map(|at| from + at * slice);
            let windows = windows.map(|at| Window { from: at, to: at + slice });
            let point = |one: Window| Some((seconds(one.from + slice / 2), value(one)?));
            windows.filter_map(point).collect()
        };
        let rate = slices(&|one| Some(one.rate(&self.notes)));
        let latency = |name, share, color| {
            let points = slices(&|one| Some(one.latency(&self.notes, share)? as f64 / 1e6));
            Curve { name, color, points }
        };
        let rates = vec![Curve { name: "transactions/s", color: BLUE, points: rate }];
        let latencies = vec![latency("longest", 1.0, OCHRE), latency("median", 0.5, BLUE)];
        [panel("transactions a second", rates), panel("latency, ms", latencies)]
    }
}
