//! Draws the run: three curves above each other, with one time axis.

use super::series::{Interval, Series};
use crate::timeline::{self, BLUE, Curve, GREEN, Panel, RED};
use std::error::Error;
use std::path::Path;

const SIZE: (u32, u32) = (900, 720);

/// Makes an empty file, so that a path that cannot be written fails before the run.
pub(super) fn prepare(path: &Path) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::File::create(path).map(drop)
}

/// Draws throughput, single-site share and changes over time.
pub(super) fn draw(series: &Series, path: &Path) -> Result<(), Box<dyn Error>> {
    let end_s = series.intervals.last().map_or(1.0, |interval| interval.end_s);
    let panel = |title: &str, color, value: fn(&Interval) -> f64| {
        let points = series.intervals.iter().map(|interval| (interval.end_s, value(interval)));
        let curves = vec![Curve { name: "", color, points: points.collect() }];
        Panel { title: title.to_owned(), end_s, curves, ..Panel::default() }
    };
    let mut share = panel("single-site share, %", GREEN, |one| one.single_site_share() * 100.0);
    let least = share.curves[0].points.iter().map(|point| point.1).fold(100.0, f64::min);
    share.limits = Some(((least / 10.0).floor() * 10.0, 100.0));
    let panels = [
        panel("thousand transactions per second", BLUE, |one| one.throughput() / 1000.0),
        share,
        panel("changes of the design per second", RED, Interval::change_rate),
    ];
    timeline::draw(path, SIZE, 1, &panels)
}
