//! `isomer advise`: a better placement for a recorded workload, with reasons.
//!
//! The command reads, plans, judges, writes files and prints, in this order. So an error in the
//! input or the files is reported before anything is printed.

use super::evaluated::{evaluation_json, upkeep_json};
use super::input::{Input, Loaded};
use super::progress::Progress;
use super::strategies::{Knobs, Strategy};
use super::{Outcome, percent, plot, print, read_text, significant, table, write_text};
use isomer_plan::clay::ClumpIndex;
use isomer_plan::evaluate::{Evaluation, Upkeep};
use isomer_plan::problem::{Proposal, plan_text, site_name};
use serde_json::{Value, json};
use std::path::PathBuf;

/// The arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  isomer advise shop.csv.zst --sites 4
  isomer advise shop.csv.zst --sites 4 --placement today.design --plan shop.plan
  isomer design apply FOLDER --plan shop.plan")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    knobs: Knobs,
    /// The planner.
    #[arg(long, value_enum, default_value = "clay")]
    strategy: Strategy,
    /// Show this many moves.
    #[arg(long, default_value_t = 20)]
    moves: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Draw the load of each site before and after into this SVG file.
    #[arg(long)]
    plot: Option<PathBuf>,
    /// Clay: the clumps that earlier plans moved, as written by --clumps-after; cooled clumps move
    /// back home first. The file must exist.
    #[arg(long)]
    clumps: Option<PathBuf>,
    /// Clay: write the clumps that are away from home after the plan into this file.
    #[arg(long)]
    clumps_after: Option<PathBuf>,
    /// Write the changes into this file, one a line, as `isomer design apply` reads them.
    #[arg(long)]
    plan: Option<PathBuf>,
    /// Write the design after the changes into this file.
    #[arg(long)]
    design: Option<PathBuf>,
}

/// Evaluations before and after, on the part that was planned with and on the later one.
struct Judged {
    before: [Evaluation; 2],
    after: [Evaluation; 2],
    upkeep: [Upkeep; 2],
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Outcome {
    let mut progress = Progress::start();
    let mut clumps = read_clumps(args)?;
    let loaded = args.input.load_knowing(&mut progress, clumps.keys())?;
    progress.stage(args.strategy.name());
    let proposal = match args.clumps.is_some() || args.clumps_after.is_some() {
        true => args.knobs.plan_compacting(&loaded.problem(), &mut clumps)?,
        false => args.strategy.plan(&loaded.problem(), &args.knobs)?,
    };
    progress.stage("evaluating");
    let judged = judge(&loaded, &proposal)?;
    drop(progress);
    if let Some(path) = &args.plot {
        let loads = [&judged.before, &judged.after].map(|state| &state[1].loads);
        plot::loads(path, &args.input.name(), loads[0], loads[1])?;
    }
    write_plan(args, &loaded, &proposal)?;
    if let Some(path) = &args.clumps_after {
        write_text(path, &clumps.to_text())?;
    }
    if args.json {
        return print(&to_json(&loaded, &proposal, &judged).to_string());
    }
    print(&figures(&judged))?;
    explain(args, &loaded, &proposal)
}

/// Reads the clumps that earlier plans of Clay moved.
fn read_clumps(args: &Args) -> Result<ClumpIndex, Box<dyn std::error::Error>> {
    if args.strategy != Strategy::Clay && (args.clumps.is_some() || args.clumps_after.is_some()) {
        let name = args.strategy.name();
        return Err(format!("--clumps is for --strategy clay: {name} remembers nothing").into());
    }
    match &args.clumps {
        None => Ok(ClumpIndex::new()),
        Some(path) => Ok(ClumpIndex::parse(&read_text(path)?)
            .map_err(|error| format!("{}: {error}", path.display()))?),
    }
}

/// Writes the changes of the proposal, and the design after them, to the files in `args`.
fn write_plan(args: &Args, loaded: &Loaded, proposal: &Proposal) -> Outcome {
    if args.plan.is_none() && args.design.is_none() {
        return Ok(());
    }
    let mapped = loaded.design()?;
    let plan = mapped.plan(proposal)?;
    if let Some(path) = &args.plan {
        write_text(path, &plan_text(&plan, mapped.design()))?;
    }
    if let Some(path) = &args.design {
        write_text(path, &plan.validate(mapped.design())?.to_text())?;
    }
    Ok(())
}

fn judge(loaded: &Loaded, proposal: &Proposal) -> Result<Judged, Box<dyn std::error::Error>> {
    let parts = loaded.evaluators()?;
    let both = |placement| parts.each_ref().map(|part| part.evaluate(placement));
    let (old, new) = (&loaded.placement, &proposal.placement);
    let upkeep = [old, new].map(|after| Upkeep::of(&loaded.graph, old, after));
    Ok(Judged { before: both(old), after: both(new), upkeep })
}

fn figures(judged: &Judged) -> String {
    let mut table = table(&["", "before", "after"]);
    let parts = ["as recorded", "held out"];
    for (at, part) in parts.iter().enumerate() {
        let (before, after) = (&judged.before[at], &judged.after[at]);
        let mut row = |name: &str, show: &dyn Fn(&Evaluation) -> String| {
            table.add_row(vec![format!("{name}, {part}"), show(before), show(after)]);
        };
        let highest = |e: &Evaluation| e.loads.iter().copied().fold(0.0, f64::max);
        row("highest load per second", &|e| significant(highest(e)));
        row("highest load over mean", &|e| format!("{:.2}", e.imbalance));
        row("highest accesses over mean", &|e| format!("{:.2}", e.access_imbalance));
        row("distributed transactions", &|e| percent(e.distributed));
    }
    let (before, after) = (&judged.before[1], &judged.after[1]);
    for (old, new) in before.distributed_by_table.iter().zip(&after.distributed_by_table) {
        table.add_row(vec![format!("  those on {}", old.0), percent(old.1), percent(new.1)]);
    }
    let mut row = |name: &str, show: &dyn Fn(&Upkeep) -> usize| {
        let [before, after] = judged.upkeep.each_ref().map(|upkeep| show(upkeep).to_string());
        table.add_row(vec![name.to_owned(), before, after]);
    };
    row("keys moved", &|upkeep| upkeep.keys_moved);
    row("routing entries", &|upkeep| upkeep.routing_entries);
    row("routing bytes", &|upkeep| upkeep.routing_bytes);
    row("sites used", &|upkeep| upkeep.sites_used);
    table.to_string()
}

fn explain(args: &Args, loaded: &Loaded, proposal: &Proposal) -> Outcome {
    print(&format!("\nplan of {}: {} moves", proposal.strategy, proposal.moves.len()))?;
    for (at, step) in proposal.moves.iter().take(args.moves).enumerate() {
        print(&format!("{:4}. to {}: {}", at + 1, site_name(step.to), step.reason))?;
    }
    if proposal.moves.len() > args.moves {
        print(&format!("      and {} more (--moves)", proposal.moves.len() - args.moves))?;
    }
    for line in &proposal.lost {
        print(&format!("lost: {line}"))?;
    }
    for line in proposal.notes.iter().chain(&loaded.notes) {
        print(&format!("note: {line}"))?;
    }
    Ok(())
}

fn to_json(loaded: &Loaded, proposal: &Proposal, judged: &Judged) -> Value {
    let label = |key: &u32| loaded.graph.label(*key);
    let moves = proposal.moves.iter().map(|step| {
        let keys: Vec<String> = step.keys.iter().map(label).collect();
        json!({ "keys": keys, "to": site_name(step.to), "reason": step.reason })
    });
    let state = |evaluations: &[Evaluation; 2], upkeep: &Upkeep| {
        json!({
            "recorded": evaluation_json(&evaluations[0]),
            "held_out": evaluation_json(&evaluations[1]),
            "upkeep": upkeep_json(upkeep),
        })
    };
    let notes: Vec<&String> = proposal.notes.iter().chain(&loaded.notes).collect();
    json!({
        "strategy": proposal.strategy,
        "before": state(&judged.before, &judged.upkeep[0]),
        "after": state(&judged.after, &judged.upkeep[1]),
        "moves": moves.collect::<Vec<_>>(),
        "lost": proposal.lost,
        "notes": notes,
    })
}
