//! Results as a page: for each experiment what was asked, what came out, and what the paper says.

use crate::experiment::Experiment;
use crate::results::{Mean, Metric, Row, Sample};
use std::fmt::Write as _;

/// The head of the page.
pub fn head(command: &str) -> String {
    format!(
        "# MorphoSys' experiments in the laboratory\n\n\
         Written by `{command}`. Virtual clusters run the real router, strategies and sites; times are \
         virtual. ± is the 95 percent confidence over seeds. What was scaled down is said with each \
         experiment.\n\n"
    )
}

/// A section of the page.
pub fn section(
    experiment: &Experiment,
    samples: &[Sample],
    rows: &[Row],
    plot: Option<&str>,
) -> String {
    let mut text = String::new();
    let Experiment { name, title, figure, cluster, .. } = experiment;
    // Writing to a String cannot fail.
    let _ = writeln!(text, "## {title} (`{name}`; {figure})\n");
    let _ = writeln!(
        text,
        "{} sites of {} cores {} times slower than this machine's, {} clients a site, {} µs and {} \
         Mbit/s from machine to machine, a log's sync {} µs; {} s of warm-up, {} s measured, {} seeds.\n",
        experiment
            .points()
            .iter()
            .map(|point| point.1.cluster.sites.to_string())
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
            .join(", "),
        cluster.cores,
        cluster.slowdown,
        experiment.clients_per_site,
        cluster.latency_us,
        cluster.bandwidth_mbit,
        cluster.sync_us,
        experiment.warm_up_s,
        experiment.seconds,
        experiment.seeds
    );
    let varied = experiment.vary.as_ref().map(|vary| format!("{:?}", vary.what).to_lowercase());
    let _ = writeln!(
        text,
        "| system |{} throughput/s | latency ms | 99 % ms | changes/1000 | cores in use |",
        varied.as_ref().map(|what| format!(" {what} |")).unwrap_or_default()
    );
    let _ = writeln!(
        text,
        "| --- |{} ---: | ---: | ---: | ---: | ---: |",
        if varied.is_some() { " ---: |" } else { "" }
    );
    for sample in samples {
        let cell = |metric| sample.mean(metric).map_or("–".to_owned(), number);
        let busy: f64 =
            sample.runs.iter().map(|run| run.busy).sum::<f64>() / sample.runs.len().max(1) as f64;
        let x =
            sample.x.filter(|_| varied.is_some()).map(|x| format!(" {x} |")).unwrap_or_default();
        let _ = writeln!(
            text,
            "| {} |{x} {} | {} | {} | {} | {:.0} % |",
            sample.system,
            cell(Metric::Throughput),
            cell(Metric::Latency),
            cell(Metric::TailLatency),
            cell(Metric::Changes),
            busy * 100.0
        );
    }
    let _ = writeln!(text);
    for failure in
        samples.iter().flat_map(|sample| sample.failures.first().map(|why| (sample, why)))
    {
        let _ = writeln!(text, "`{}` did not finish: {}\n", failure.0.system, failure.1);
    }
    let claims: Vec<&Row> = rows.iter().filter(|row| row.paper.is_some()).collect();
    if !claims.is_empty() {
        let _ = writeln!(text, "| {} | paper | to reach | ours |", experiment.systems[0]);
        let _ = writeln!(text, "| --- | ---: | ---: | ---: |");
        for row in claims {
            let ours = number(Mean { mean: row.ours, ci95: row.ci95 });
            let paper = row.paper.unwrap_or_default();
            let _ = writeln!(
                text,
                "| {} | {paper} | {} | {ours} |",
                row.metric,
                row.goal.unwrap_or(paper)
            );
        }
        let _ = writeln!(text);
    }
    if let Some(remark) = &experiment.remark {
        let _ = writeln!(text, "{remark}\n");
    }
    if let Some(plot) = plot {
        let _ = writeln!(text, "![{title}]({plot})\n");
    }
    text
}

/// A mean with its confidence, in as many digits as make sense.
fn number(mean: Mean) -> String {
    let digits = |value: f64| match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    let digits = digits(mean.mean);
    match mean.ci95 {
        Some(ci95) => format!("{:.digits$} ± {ci95:.digits$}", mean.mean),
        None => format!("{:.digits$}", mean.mean),
    }
}
