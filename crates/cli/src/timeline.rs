//! Plots over time as SVG: panels in a grid, each with an axis of seconds and one or more curves.
//!
//! ```text
//!   title                        a single curve is filled down to its axis; several have a legend
//!   │   ▁▂▂▁│░░░▂▇▅░░│▁▂▁▁       ░ the measured period; │ begin of a phase, with its name
//!   └───────────────────── s
//! ```

use plotters::coord::Shift;
use plotters::prelude::*;
use std::error::Error;
use std::path::Path;

pub const BLUE: RGBColor = plotters::style::colors::BLUE;
pub const GREEN: RGBColor = plotters::style::colors::GREEN;
pub const RED: RGBColor = plotters::style::colors::RED;
pub const OCHRE: RGBColor = RGBColor(0xd0, 0x8a, 0x3a);

type Drawn = Result<(), Box<dyn Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A curve.
pub struct Curve {
    pub name: &'static str,
    pub color: RGBColor,
    /// Seconds, and values.
    pub points: Vec<(f64, f64)>,
}

/// Curves over one axis of time.
#[derive(Default)]
pub struct Panel {
    pub title: String,
    pub end_s: f64,
    /// The lowest and the highest value shown; by default from 0 to 10 % above the largest value.
    pub limits: Option<(f64, f64)>,
    /// The measured period: begin and end in seconds.
    pub shaded: Option<(f64, f64)>,
    /// Begin of each phase in seconds, and its name.
    pub phases: Vec<(f64, String)>,
    pub curves: Vec<Curve>,
}

/// Draws panels as SVG of the given size, `columns` of them side by side.
///
/// # Errors
/// If the file cannot be written, or the panels do not fit.
pub fn draw(path: &Path, size: (u32, u32), columns: usize, panels: &[Panel]) -> Drawn {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let area = SVGBackend::new(path, size).into_drawing_area();
    area.fill(&WHITE)?;
    let rows = panels.len().div_ceil(columns);
    let areas = area.margin(10, 10, 10, 20).split_evenly((rows, columns));
    areas.iter().zip(panels).try_for_each(|(area, panel)| panel.draw(area))?;
    area.present().map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(())
}

impl Panel {
    fn draw(&self, area: &Area<'_>) -> Drawn {
        let values = self.curves.iter().flat_map(|curve| &curve.points);
        let most = values.map(|point| point.1).fold(0.0, f64::max) * 1.1;
        let (low, high) = self.limits.unwrap_or((0.0, most.max(1.0)));
        let digits = usize::from(self.end_s < 10.0);
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 16))
            .x_label_area_size(24)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..self.end_s, low..high)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(WHITE)
            .x_labels(8)
            .y_labels(5)
            .x_label_formatter(&|second| format!("{second:.digits$} s"))
            .y_label_formatter(&|value| format!("{value:.0}"))
            .draw()?;
        let shaded = self.shaded.map(|(from, to)| [(from, low), (to, high)]);
        let grey = RGBColor(0xee, 0xf0, 0xf3);
        chart.draw_series(shaded.map(|corners| Rectangle::new(corners, grey.filled())))?;
        for (at, (x, phase)) in self.phases.iter().enumerate() {
            let line = PathElement::new(vec![(*x, low), (*x, high)], BLACK.mix(0.3));
            chart.draw_series([line])?;
            let y = low + (high - low) * (0.97 - 0.07 * at as f64);
            chart.draw_series([Text::new(format!(" {phase}"), (*x, y), ("sans-serif", 12))])?;
        }
        if let [Curve { color, points, .. }] = &self.curves[..] {
            let filled = AreaSeries::new(points.iter().copied(), low, color.mix(0.15));
            chart.draw_series(filled.border_style(color))?;
            return Ok(());
        }
        for Curve { name, color, points } in &self.curves {
            let key = |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], *color);
            let line = LineSeries::new(points.iter().copied(), color);
            chart.draw_series(line)?.label(*name).legend(key);
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .draw()?;
        Ok(())
    }
}
