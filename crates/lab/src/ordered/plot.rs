//! Plots as SVG: throughput of each system as bars, or as lines over the varied parameter. Over
//! time, also the core time and the bytes sent per transaction.

use super::measured::{Metric, Sample};
use super::spec::Experiment;
use super::tally::Slice;
use crate::plot::{Series, bars, lines, page};
use std::error::Error;
use std::path::Path;

const THROUGHPUT: &str = "transactions per virtual second";

/// Plots the samples of an experiment into a folder. Returns titles and files.
///
/// # Errors
/// If a file cannot be written.
pub fn draw(
    folder: &Path,
    experiment: &Experiment,
    samples: &[Sample],
) -> Result<Vec<(String, String)>, Box<dyn Error>> {
    let mut drawn = Vec::new();
    let mut draw = |suffix: &str, what: &str, x: &str, series: &Series| {
        let (title, file) =
            (format!("{}: {what}", experiment.title), format!("{}{suffix}.svg", experiment.name));
        let path = folder.join(&file);
        let page = page(&path)?;
        lines(&page, &title, x, series)?;
        page.present()?;
        drawn.push((title, file));
        Ok::<(), Box<dyn Error>>(())
    };
    if let Some(varied) = experiment.varied() {
        let of = |name: &String| {
            let own = samples.iter().filter(|sample| sample.system == *name);
            (name.clone(), own.filter_map(|sample| Some((sample.x?, throughput(sample)))).collect())
        };
        draw("", THROUGHPUT, &varied, &experiment.systems.iter().map(of).collect())?;
    } else if experiment.over_time {
        let rate = |slice: &Slice, seconds: f64| slice.count as f64 / seconds;
        draw("", THROUGHPUT, "seconds", &series(samples, rate))?;
        let core = |slice: &Slice, _: f64| slice.used_ns as f64 / 1e6 / slice.count.max(1) as f64;
        draw("-cores", "ms of cores per transaction", "seconds", &series(samples, core))?;
        let sent = |slice: &Slice, _: f64| slice.sent as f64 / 1e3 / slice.count.max(1) as f64;
        draw("-network", "kB sent per transaction", "seconds", &series(samples, sent))?;
    } else {
        let (title, file) =
            (format!("{}: {THROUGHPUT}", experiment.title), format!("{}.svg", experiment.name));
        let path = folder.join(&file);
        let page = page(&path)?;
        let of: Vec<(&str, f64)> =
            samples.iter().map(|sample| (sample.system.as_str(), throughput(sample))).collect();
        bars(&page, &title, &of)?;
        page.present()?;
        drawn.push((title, file));
    }
    Ok(drawn)
}

fn throughput(sample: &Sample) -> f64 {
    sample.mean(Metric::Throughput).map_or(0.0, |mean| mean.mean)
}

/// A series for the first run of each system: a number for each slice.
fn series(samples: &[Sample], of: impl Fn(&Slice, f64) -> f64) -> Series {
    let one = |sample: &Sample| {
        let slices = sample.runs.first().map(|run| &run.slices[..]).unwrap_or_default();
        let begins = std::iter::once(0.0).chain(slices.iter().map(|slice| slice.end_s));
        let points = slices.iter().zip(begins);
        let points = points.map(|(slice, begin_s)| (slice.end_s, of(slice, slice.end_s - begin_s)));
        (sample.system.clone(), points.collect())
    };
    samples.iter().map(one).collect()
}
