//! The figures in Prometheus' text format, by the encoder of the Prometheus project.

use isomer_server::{Figure, FigureValue};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt;

/// The content type of the text.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The figures at one time; those of one name are adjacent.
#[derive(Debug)]
struct Snapshot(Vec<Figure>);

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in self.0.chunk_by(|one, next| one.name == next.name) {
            let kind = match family[0].value {
                FigureValue::Counter(_) => MetricType::Counter,
                FigureValue::Gauge(_) => MetricType::Gauge,
                FigureValue::Histogram { .. } => MetricType::Histogram,
            };
            let mut described =
                encoder.encode_descriptor(family[0].name, family[0].help, None, kind)?;
            for figure in family {
                match figure.labels.is_empty() {
                    true => encode_value(&mut described, &figure.value)?,
                    false => {
                        let mut labelled = described.encode_family(&figure.labels)?;
                        encode_value(&mut labelled, &figure.value)?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn encode_value(encoder: &mut MetricEncoder<'_>, value: &FigureValue) -> fmt::Result {
    match value {
        FigureValue::Counter(count) => encoder.encode_counter::<NoLabelSet, _, f64>(count, None),
        FigureValue::Gauge(level) => encoder.encode_gauge(level),
        FigureValue::Histogram { sum, count, buckets } => {
            encoder.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)
        }
    }
}

/// Formats these figures.
pub(crate) fn text(figures: Vec<Figure>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Snapshot(figures)));
    let mut text = String::new();
    encode(&mut text, &registry).expect("a string takes all text");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_told_as_prometheus_expects_them() {
        let figure = |name, labels: &[(&'static str, &str)], value| Figure {
            name,
            help: "Help.",
            labels: labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(),
            value,
        };
        let text = text(vec![
            figure("isomer_commits", &[("site", "s1")], FigureValue::Counter(3)),
            figure("isomer_commits", &[("site", "s\"2")], FigureValue::Counter(4)),
            figure("isomer_jobs", &[], FigureValue::Gauge(0.5)),
            figure(
                "isomer_duration_seconds",
                &[],
                FigureValue::Histogram {
                    sum: 1.5,
                    count: 3,
                    buckets: vec![(0.1, 2), (f64::INFINITY, 1)],
                },
            ),
        ]);
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("# HELP")).collect();
        assert_eq!(
            lines,
            [
                "# TYPE isomer_commits counter",
                "isomer_commits_total{site=\"s1\"} 3",
                "isomer_commits_total{site=\"s\\\"2\"} 4",
                "# TYPE isomer_jobs gauge",
                "isomer_jobs 0.5",
                "# TYPE isomer_duration_seconds histogram",
                "isomer_duration_seconds_sum 1.5",
                "isomer_duration_seconds_count 3",
                "isomer_duration_seconds_bucket{le=\"0.1\"} 2",
                "isomer_duration_seconds_bucket{le=\"+Inf\"} 3",
                "# EOF"
            ]
        );
    }
}
