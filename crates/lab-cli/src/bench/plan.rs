//! `isomer-lab bench plan`: speed and quality of the planners.

use isomer::plan::progress::Progress;
use isomer::plan::{Outcome, print, table};
use isomer_plan::bench::{ClaySize, Scale, assign, clay, hermes};
use serde_json::json;

/// The arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  isomer-lab bench plan --json")]
pub(crate) struct Args {
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
    /// A tiny run: the same code, meaningless figures.
    #[arg(long)]
    smoke: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Outcome {
    let scale = if args.smoke { Scale::Smoke } else { Scale::Full };
    let mut progress = Progress::start();
    let watch = Progress::start();
    let mut clock = || watch.seconds();
    let routed = hermes(scale, &mut clock)?;
    progress.stage("placing 100 thousand chunks");
    let assigned = assign(scale, &mut clock)?;
    progress.stage("clay and METIS");
    let planned = clay(ClaySize::of(scale), &mut clock)?;
    drop(progress);
    let figures = json!({
        "clay_speedup_vs_metis": planned.speedup,
        "clay_plan_s": planned.clay_s,
        "clay_recording_to_plan_s": planned.recording_to_plan_s,
        "clay_max_load_vs_metis": planned.max_load_ratio,
        "clay_rows_moved_vs_metis": planned.moved_ratio,
        "clay_imbalance": planned.clay_imbalance,
        "metis_imbalance": planned.metis_eta,
        "metis_s": planned.metis_s,
        "drift_plan_s": planned.drift_s,
        "drift_max_load_vs_metis": planned.drift_max_load_ratio,
        "graph_vertices": planned.vertices,
        "graph_edges": planned.edges,
        "graph_accesses_per_s": planned.accesses_per_s,
        "hermes_speedup_vs_textbook": routed.speedup,
        "hermes_identical": routed.identical,
        "hermes_gap_to_optimum": routed.gap_to_optimum,
        "hermes_gap_of_paper": routed.gap_of_paper,
        "hermes_batch_s": routed.fast_s,
        "hermes_polished_batch_s": routed.polished_s,
        "assign_speedup_1000": assigned.speedup_1000,
        "assign_cost_equal": assigned.cost_equal,
        "assign_100k_s": assigned.large_s,
        "assign_50k_s": assigned.half_s,
    });
    if args.json {
        return print(&figures.to_string());
    }
    let mut rows = table(&["figure", "value"]);
    for (name, value) in figures.as_object().into_iter().flatten() {
        rows.add_row(vec![name.clone(), value.to_string()]);
    }
    print(&rows.to_string())
}
