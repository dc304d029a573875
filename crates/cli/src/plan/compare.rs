//! `isomer compare`: all strategies on one recording, side by side.

use super::evaluated::{Line, evaluation_json, upkeep_json};
use super::input::Input;
use super::progress::Progress;
use super::strategies::{Knobs, Strategy};
use super::{Outcome, percent, plot, print, table};
use isomer_plan::evaluate::{Evaluator, Upkeep};
use isomer_plan::heat::HeatGraph;
use isomer_plan::problem::Placement;
use serde_json::json;
use std::path::PathBuf;

/// The arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  isomer compare shop.csv.zst --sites 4 --plot shop.svg")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    knobs: Knobs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Draw the comparison into this SVG file.
    #[arg(long)]
    plot: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Outcome {
    let mut progress = Progress::start();
    let loaded = args.input.load(&mut progress)?;
    let parts = loaded.evaluators()?;
    let (graph, before) = (&loaded.graph, &loaded.placement);
    let mut lines = vec![line("now", graph, &parts, before, before, 0.0)];
    let mut notes = loaded.notes.clone();
    for strategy in Strategy::COMPARED {
        progress.stage(strategy.name());
        let start = progress.seconds();
        match strategy.plan(&loaded.problem(), &args.knobs) {
            Ok(proposal) => {
                let seconds = progress.seconds() - start;
                let after = &proposal.placement;
                lines.push(line(strategy.name(), graph, &parts, before, after, seconds));
            }
            Err(error) => notes.push(format!("{}: {error}", strategy.name())),
        }
    }
    drop(progress);
    if let Some(path) = &args.plot {
        plot::comparison(path, &args.input.name(), &lines, graph.accessed())?;
    }
    if args.json {
        let strategies: Vec<_> = lines.iter().map(line_json).collect();
        let keys = graph.accessed();
        return print(
            &json!({ "keys": keys, "strategies": strategies, "notes": notes }).to_string(),
        );
    }
    print(&to_table(&lines, graph.accessed()))?;
    notes.iter().try_for_each(|note| print(&format!("note: {note}")))
}

fn line(
    name: &'static str,
    graph: &HeatGraph,
    parts: &[Evaluator<'_>; 2],
    before: &Placement,
    after: &Placement,
    seconds: f64,
) -> Line {
    let [recorded, held_out] = parts.each_ref().map(|part| part.evaluate(after));
    Line { name, recorded, held_out, upkeep: Upkeep::of(graph, before, after), seconds }
}

fn to_table(lines: &[Line], keys: usize) -> String {
    let mut table = table(&[
        "strategy",
        "highest load\nnow = 1",
        "load / mean\nrecorded",
        "\nheld out",
        "accesses / mean\nheld out",
        "distributed\nrecorded",
        "\nheld out",
        "keys\nmoved",
        "routing\nentries",
        "seconds",
    ]);
    let highest = |line: &Line| line.held_out.loads.iter().copied().fold(0.0, f64::max);
    let now = lines.first().map_or(1.0, highest).max(f64::MIN_POSITIVE);
    for line in lines {
        let moved = line.upkeep.keys_moved;
        table.add_row(vec![
            line.name.to_owned(),
            format!("{:.2}", highest(line) / now),
            format!("{:.2}", line.recorded.imbalance),
            format!("{:.2}", line.held_out.imbalance),
            format!("{:.2}", line.held_out.access_imbalance),
            percent(line.recorded.distributed),
            percent(line.held_out.distributed),
            format!("{moved} ({})", percent(moved as f64 / keys.max(1) as f64)),
            line.upkeep.routing_entries.to_string(),
            format!("{:.3}", line.seconds),
        ]);
    }
    table.to_string()
}

fn line_json(line: &Line) -> serde_json::Value {
    json!({
        "name": line.name,
        "recorded": evaluation_json(&line.recorded),
        "held_out": evaluation_json(&line.held_out),
        "upkeep": upkeep_json(&line.upkeep),
        "seconds": line.seconds,
    })
}
