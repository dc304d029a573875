//! The course of the demo as a picture: three curves above each other, one axis of time.

use super::series::Series;
use plotters::coord::Shift;
use plotters::prelude::*;
use std::error::Error;
use std::path::Path;

const SIZE: (u32, u32) = (900, 720);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Makes an empty file, so that a path that cannot be written is known before the run.
pub(super) fn prepare(path: &Path) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::File::create(path).map(drop)
}

/// Draws throughput, single-site share and changes over time.
pub(super) fn draw(series: &Series, path: &Path) -> Result<(), Box<dyn Error>> {
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let curves = area.margin(10, 10, 10, 20).split_evenly((3, 1));
    let time = series.of(|interval| interval.end_s);
    let throughput = series.of(|interval| interval.throughput() / 1000.0);
    let share = series.of(|interval| interval.single_site_share() * 100.0);
    let changes = series.of(|interval| interval.change_rate());
    let least = share.iter().copied().fold(100.0, f64::min);
    let floor = (least / 10.0).floor() * 10.0;
    curve(&curves[0], "thousand transactions per second", &time, &throughput, None, BLUE)?;
    curve(&curves[1], "single-site share, %", &time, &share, Some((floor, 100.0)), GREEN)?;
    curve(&curves[2], "changes of the design per second", &time, &changes, None, RED)?;
    area.present()?;
    Ok(())
}

fn curve(
    area: &Area<'_>,
    title: &str,
    time: &[f64],
    values: &[f64],
    limits: Option<(f64, f64)>,
    color: RGBColor,
) -> Result<(), Box<dyn Error>> {
    let end = time.last().copied().unwrap_or(1.0);
    let most = values.iter().copied().fold(0.0, f64::max);
    let (low, high) = limits.unwrap_or((0.0, (most * 1.1).max(1.0)));
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 16))
        .x_label_area_size(24)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..end, low..high)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(WHITE)
        .x_labels(8)
        .y_labels(5)
        .x_label_formatter(&|second| format!("{second:.0} s"))
        .y_label_formatter(&|value| format!("{value:.0}"))
        .draw()?;
    let points = time.iter().copied().zip(values.iter().copied());
    chart.draw_series(AreaSeries::new(points, low, color.mix(0.15)).border_style(color))?;
    Ok(())
}
