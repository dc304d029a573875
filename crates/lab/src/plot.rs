//! Plots as SVG: throughput of each system as bars, or as lines over what was varied.

use crate::experiment::Experiment;
use crate::results::{Metric, Sample};
use plotters::prelude::*;
use std::error::Error;
use std::path::Path;

const COLOURS: [RGBColor; 8] = [
    RGBColor(0x2f, 0x6f, 0xb3),
    RGBColor(0xc4, 0x5a, 0x3b),
    RGBColor(0x5a, 0x9a, 0x50),
    RGBColor(0x8a, 0x63, 0xa8),
    RGBColor(0xb8, 0x92, 0x2e),
    RGBColor(0x4f, 0x9f, 0xa6),
    RGBColor(0x8a, 0x8f, 0x98),
    RGBColor(0xb0, 0x5c, 0x86),
];

/// Draws an experiment's samples into a file.
///
/// # Errors
/// If the file cannot be written.
pub fn draw(
    path: &Path,
    experiment: &Experiment,
    samples: &[Sample],
) -> Result<(), Box<dyn Error>> {
    let page = SVGBackend::new(path, (760, 360)).into_drawing_area();
    page.fill(&WHITE)?;
    let value = |sample: &Sample| sample.mean(Metric::Throughput).map_or(0.0, |mean| mean.mean);
    let most = samples.iter().map(value).fold(1.0, f64::max) * 1.1;
    let title = format!("{}: transactions per virtual second", experiment.title);
    let xs: Vec<f64> = samples.iter().filter_map(|sample| sample.x).collect();
    let mut builder = ChartBuilder::on(&page);
    builder
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70);
    if let (Some(vary), Some(least)) = (&experiment.vary, xs.iter().copied().reduce(f64::min)) {
        let greatest = xs.iter().copied().fold(least, f64::max);
        let mut chart = builder.build_cartesian_2d(least..greatest, 0.0..most)?;
        chart.configure_mesh().x_desc(format!("{:?}", vary.what).to_lowercase()).draw()?;
        for (name, colour) in experiment.systems.iter().zip(COLOURS.iter().cycle()) {
            let of_system = samples.iter().filter(|sample| sample.system == *name);
            let points: Vec<(f64, f64)> =
                of_system.filter_map(|s| Some((s.x?, value(s)))).collect();
            chart
                .draw_series(LineSeries::new(points, colour.stroke_width(2)).point_size(3))?
                .label(name.as_str())
                .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], *colour));
        }
        chart.configure_series_labels().background_style(WHITE.mix(0.8)).draw()?;
    } else {
        let names: Vec<&str> = samples.iter().map(|sample| sample.system.as_str()).collect();
        let mut chart = builder.build_cartesian_2d((0..names.len()).into_segmented(), 0.0..most)?;
        let label = |at: &SegmentValue<usize>| match at {
            SegmentValue::CenterOf(at) => names.get(*at).copied().unwrap_or_default().to_owned(),
            _ => String::new(),
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(names.len())
            .x_label_formatter(&label)
            .draw()?;
        chart.draw_series(samples.iter().enumerate().map(|(at, sample)| {
            let corners =
                [(SegmentValue::Exact(at), 0.0), (SegmentValue::Exact(at + 1), value(sample))];
            let mut bar = Rectangle::new(corners, COLOURS[if at == 0 { 0 } else { 6 }].filled());
            bar.set_margin(0, 0, 12, 12);
            bar
        }))?;
    }
    page.present()?;
    Ok(())
}
