//! The course of a change as a picture: what requests took, and how many were answered, before it, through its phases,
//! and after it.
//!
//! ```text
//!   latency, ms      paced: the 99th percentile, and the longest request of each slice
//!   throughput       closed: requests a second of each slice
//!                    │ known │ copies rows │ waits for readers │        a line where a phase begins
//! ```

use super::{Run, ms};
use crate::ratings::{percentile, within};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::error::Error;
use std::path::Path;
use std::time::Duration;

const SIZE: (u32, u32) = (900, 620);
const SLICES: u32 = 90;

type Drawn = Result<(), Box<dyn Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A curve: its name, its colour, and its points.
struct Curve {
    name: &'static str,
    color: RGBColor,
    points: Vec<(f64, f64)>,
}

/// Draws a change under paced load, and one under as much load as there can be.
pub(super) fn draw(path: &Path, paced: &Run, closed: &Run) -> Drawn {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let panels = area.margin(10, 10, 10, 20).split_evenly((2, 1));
    let latency = |name, percent, color| {
        let points = slices(paced, |from, to| {
            let requests = within(&paced.noted, from, to);
            (!requests.is_empty()).then(|| ms(percentile(requests, percent)))
        });
        Curve { name, color, points }
    };
    let curves = [latency("longest", 100, RGBColor(0xd0, 0x8a, 0x3a)), latency("p99", 99, BLUE)];
    panel(&panels[0], "half of the capacity: latency, ms", paced, &curves)?;
    let points = slices(closed, |from, to| {
        Some(within(&closed.noted, from, to).len() as f64 / (to - from).as_secs_f64())
    });
    let curves = [Curve { name: "requests/s", color: BLUE, points }];
    panel(&panels[1], "all that clients can: requests per second", closed, &curves)?;
    area.present().map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(())
}

fn end(run: &Run) -> Duration {
    run.noted.last().map_or(run.changed, |request| request.at)
}

/// A value for each slice of a run that has one, at the middle of it.
fn slices(run: &Run, value: impl Fn(Duration, Duration) -> Option<f64>) -> Vec<(f64, f64)> {
    let slice = end(run) / SLICES;
    let point = |at: u32| {
        let (from, to) = (slice * at, slice * (at + 1));
        Some(((from + slice / 2).as_secs_f64(), value(from, to)?))
    };
    (0..SLICES).filter_map(point).collect()
}

fn panel(area: &Area<'_>, title: &str, run: &Run, curves: &[Curve]) -> Drawn {
    let values = curves.iter().flat_map(|curve| &curve.points);
    let most = values.map(|point| point.1).fold(1.0, f64::max) * 1.1;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 16))
        .x_label_area_size(24)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..end(run).as_secs_f64(), 0.0..most)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(WHITE)
        .x_labels(8)
        .y_labels(5)
        .x_label_formatter(&|second| format!("{second:.1} s"))
        .y_label_formatter(&|value| format!("{value:.0}"))
        .draw()?;
    let during = [(run.begun.as_secs_f64(), 0.0), (run.changed.as_secs_f64(), most)];
    chart.draw_series([Rectangle::new(during, RGBColor(0xee, 0xf0, 0xf3).filled())])?;
    for (at, (begun, phase)) in run.phases.iter().enumerate() {
        let x = begun.as_secs_f64();
        chart.draw_series([PathElement::new(vec![(x, 0.0), (x, most)], BLACK.mix(0.3))])?;
        let y = most * (0.97 - 0.07 * at as f64);
        chart.draw_series([Text::new(format!(" {phase}"), (x, y), ("sans-serif", 12))])?;
    }
    for Curve { name, color, points } in curves {
        let line = LineSeries::new(points.iter().copied(), color);
        let key = |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], *color);
        chart.draw_series(line)?.label(*name).legend(key);
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(())
}
