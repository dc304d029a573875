//! Plots as SVG: throughput of each system as bars, or as lines over the varied parameter; latency
//! over time if the hot spot moves.

use crate::experiment::Experiment;
use crate::metric::Metric;
use crate::sample::Sample;
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

/// Plots the samples of an experiment into a file.
///
/// # Errors
/// If the file cannot be written.
pub fn draw(
    path: &Path,
    experiment: &Experiment,
    samples: &[Sample],
) -> Result<(), Box<dyn Error>> {
    let page = page(path)?;
    if experiment.workload.shift_every_s().is_some() {
        over_time(&page, experiment, samples)?;
    } else if let Some(vary) = &experiment.vary {
        let what = format!("{:?}", vary.what).to_lowercase();
        let points = |sample: &Sample| Some((sample.x?, throughput(sample)));
        let of = |name: &String| {
            let of_system = samples.iter().filter(|sample| sample.system == *name);
            (name.clone(), of_system.filter_map(points).collect())
        };
        let series: Series = experiment.systems.iter().map(of).collect();
        lines(&page, &format!("{}: {THROUGHPUT}", experiment.title), &what, &series)?;
    } else {
        let of: Vec<(&str, f64)> =
            samples.iter().map(|sample| (sample.system.as_str(), throughput(sample))).collect();
        bars(&page, &format!("{}: {THROUGHPUT}", experiment.title), &of)?;
    }
    page.present()?;
    Ok(())
}

const THROUGHPUT: &str = "transactions per virtual second";

/// A drawing area.
pub(crate) type Page<'p> = DrawingArea<SVGBackend<'p>, plotters::coord::Shift>;
/// Names, each with its points.
pub(crate) type Series = Vec<(String, Vec<(f64, f64)>)>;

/// Creates an empty page.
pub(crate) fn page(path: &Path) -> Result<Page<'_>, Box<dyn Error>> {
    let page = SVGBackend::new(path, (760, 360)).into_drawing_area();
    page.fill(&WHITE)?;
    Ok(page)
}

fn throughput(sample: &Sample) -> f64 {
    sample.mean(Metric::Throughput).map_or(0.0, |mean| mean.mean)
}

/// Plots latency over time for the first run of each system.
fn over_time(
    page: &Page<'_>,
    experiment: &Experiment,
    samples: &[Sample],
) -> Result<(), Box<dyn Error>> {
    let until = experiment.warm_up_s + experiment.seconds;
    let points = |sample: &Sample| {
        let slices = sample.runs.first().map(|run| &run.slices[..]).unwrap_or_default();
        let points = slices.iter().filter(|slice| slice.0 <= until).map(|slice| (slice.0, slice.2));
        (sample.system.clone(), points.collect())
    };
    let series: Series = samples.iter().map(points).collect();
    lines(page, &format!("{}: latency, ms", experiment.title), "seconds", &series)
}

/// Plots lines.
pub(crate) fn lines(
    page: &Page<'_>,
    title: &str,
    x: &str,
    series: &Series,
) -> Result<(), Box<dyn Error>> {
    let points = || series.iter().flat_map(|(_, points)| points);
    let (least, greatest) = points()
        .fold((f64::INFINITY, 0.0), |(least, greatest), (x, _)| (x.min(least), x.max(greatest)));
    let most = points().map(|point| point.1).fold(1.0, f64::max) * 1.1;
    if least > greatest {
        return Ok(());
    }
    let mut chart = chart(page, title).build_cartesian_2d(least..greatest, 0.0..most)?;
    chart.configure_mesh().x_desc(x).draw()?;
    for ((name, points), colour) in series.iter().zip(COLOURS.iter().cycle()) {
        let line = LineSeries::new(points.iter().copied(), colour.stroke_width(2));
        let dots = if points.len() > 20 { 0 } else { 3 };
        chart
            .draw_series(line.point_size(dots))?
            .label(name.as_str())
            .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], *colour));
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).draw()?;
    Ok(())
}

/// Plots a bar for each name; the first one is highlighted.
pub(crate) fn bars(page: &Page<'_>, title: &str, of: &[(&str, f64)]) -> Result<(), Box<dyn Error>> {
    let most = of.iter().map(|(_, height)| *height).fold(1.0, f64::max) * 1.1;
    let mut chart =
        chart(page, title).build_cartesian_2d((0..of.len()).into_segmented(), 0.0..most)?;
    let label = |at: &SegmentValue<usize>| match at {
        SegmentValue::CenterOf(at) => of.get(*at).map_or("", |(name, _)| name).to_owned(),
        _ => String::new(),
    };
    chart.configure_mesh().disable_x_mesh().x_labels(of.len()).x_label_formatter(&label).draw()?;
    chart.draw_series(of.iter().enumerate().map(|(at, (_, height))| {
        let corners = [(SegmentValue::Exact(at), 0.0), (SegmentValue::Exact(at + 1), *height)];
        let mut bar = Rectangle::new(corners, COLOURS[if at == 0 { 0 } else { 6 }].filled());
        bar.set_margin(0, 0, 12, 12);
        bar
    }))?;
    Ok(())
}

fn chart<'a, 'p>(page: &'a Page<'p>, title: &str) -> ChartBuilder<'a, 'p, SVGBackend<'p>> {
    let mut builder = ChartBuilder::on(page);
    builder
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70);
    builder
}
