//! `isomer reshard-plan`: the sites of a new shard key's chunks, and the transfer of their rows.

use super::{Outcome, open_file, print, read_text, table, write_text};
use isomer_plan::generate::random;
use isomer_plan::problem::site_name;
use isomer_plan::reshard::rounds::{self, Replica, Round};
use isomer_plan::reshard::sockets::{self, Share, Topology};
use isomer_plan::reshard::{KeyChange, NewChunks, Placement, RowSource, chunks_of_table};
use serde_json::{Value, json};
use std::error::Error;
use std::path::{Path, PathBuf};

/// The arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  isomer reshard-plan ratings.csv --old user_id --new movie_id --chunks 64 --sites 4
  isomer reshard-plan ratings.csv --old user_id --new movie_id --chunks 64 --sites 4 --topology net.csv --replicas replicas.csv --design ratings.design")]
pub(crate) struct Args {
    /// The table: CSV with a header, plain or zstd.
    table: PathBuf,
    /// The current shard key.
    #[arg(long)]
    old: String,
    /// The new shard key.
    #[arg(long)]
    new: String,
    /// The column with the weight of a row, in bytes or accesses; without it each row weighs 1.
    #[arg(long)]
    weight: Option<String>,
    /// Number of new chunks.
    #[arg(long)]
    chunks: usize,
    /// Number of sites.
    #[arg(long)]
    sites: usize,
    /// Old chunks were dealt to the sites in turn, instead of one range each.
    #[arg(long)]
    dealt: bool,
    /// The network: from,to,latency_ms lines between s1, s2, ... and switches.
    #[arg(long)]
    topology: Option<PathBuf>,
    /// Sockets for all flows; by default one for each chunk and flow.
    #[arg(long)]
    sockets: Option<u64>,
    /// Replicas to plan rounds for: site,replica,centre,role lines; the role is primary or
    /// secondary.
    #[arg(long)]
    replicas: Option<PathBuf>,
    /// Write the table's design under the new key, placed as balanced, into this file.
    #[arg(long)]
    design: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The decisions of the command.
struct Decided {
    chunks: NewChunks,
    placements: [(&'static str, Placement); 3],
    shares: Vec<Share>,
    rounds: Vec<Round>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Outcome {
    let decided = decide(args)?;
    if let Some(path) = &args.design {
        let name = table_name(&args.table);
        let design = decided.chunks.design(&name, &args.new, &decided.placements[1].1)?;
        write_text(path, &design.to_text())?;
    }
    if args.json {
        return print(&to_json(&decided).to_string());
    }
    show(args, &decided)
}

fn decide(args: &Args) -> Result<Decided, Box<dyn Error>> {
    let named = |path: &Path, error: &dyn Error| format!("{}: {error}", path.display());
    let change = KeyChange {
        old: &args.old,
        new: &args.new,
        weight: args.weight.as_deref(),
        chunks: args.chunks,
        sites: args.sites,
        source: if args.dealt { RowSource::DealtChunks } else { RowSource::Ranges },
    };
    let chunks = chunks_of_table(open_file(&args.table)?, &change)
        .map_err(|error| named(&args.table, &error))?;
    let balanced = Placement::balanced(&chunks.chunks)?;
    let flows = chunks.chunks.flows(&balanced);
    let sockets = args.sockets.unwrap_or((args.chunks + flows.len()) as u64);
    let topology = args.topology.as_ref().map(|path| -> Result<Topology, Box<dyn Error>> {
        let topology = Topology::parse(&read_text(path)?).map_err(|error| named(path, &error))?;
        topology.check_connects(args.sites).map_err(|error| named(path, &error))?;
        Ok(topology)
    });
    let shares = sockets::share(&flows, topology.transpose()?.as_ref(), sockets)?;
    let rounds = match &args.replicas {
        None => Vec::new(),
        Some(path) => {
            plan_rounds(&read_text(path)?, args.sites).map_err(|error| named(path, &error))?
        }
    };
    let placements = [
        ("greedy", Placement::greedy(&chunks.chunks)),
        ("balanced", balanced),
        ("random", Placement::random(&chunks.chunks, &mut random(1))),
    ];
    Ok(Decided { chunks, placements, shares, rounds })
}

fn plan_rounds(text: &str, sites: usize) -> Result<Vec<Round>, rounds::RoundsError> {
    let replicas: Vec<Replica> = rounds::parse(text)?;
    rounds::check_sites(&replicas, sites)?;
    rounds::plan(&replicas)
}

/// The name of the table: that of its file up to the first dot.
fn table_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split('.').next().unwrap_or_default().to_owned()
}

fn show(args: &Args, Decided { chunks, placements, shares, rounds }: &Decided) -> Outcome {
    let amount = args.weight.as_deref().unwrap_or("rows");
    let mut summary = table(&["placement", &format!("{amount} that travel"), "most chunks a site"]);
    for (name, plan) in placements {
        let most = plan.counts(args.sites).into_iter().max().unwrap_or(0);
        let travel = plan.transfer(&chunks.chunks).to_string();
        summary.add_row(vec![name.to_string(), travel, most.to_string()]);
    }
    print(&summary.to_string())?;
    let mut detail = table(&["balanced: from", "to", amount, "sockets"]);
    for Share { flow, sockets } in shares {
        let [from, to] = [flow.from, flow.to].map(|site| site_name(site as u16));
        detail.add_row(vec![from, to, flow.amount.to_string(), sockets.to_string()]);
    }
    print(&detail.to_string())?;
    if rounds.is_empty() {
        return Ok(());
    }
    let mut order = table(&["round", "replicas rebuilt together", "data centres", ""]);
    for (at, round) in rounds.iter().enumerate() {
        let names: Vec<&str> = round.replicas.iter().map(|r| r.name.as_str()).collect();
        let wide = if round.is_wide() { "across the wide area" } else { "" };
        order.add_row(vec![
            (at + 1).to_string(),
            names.join(" "),
            round.centres.join(" "),
            wide.to_owned(),
        ]);
    }
    print(&order.to_string())
}

fn to_json(Decided { chunks, placements, shares, rounds }: &Decided) -> Value {
    let plan = |(name, plan): &(&str, Placement)| {
        let sites: Vec<String> = plan.sites.iter().map(|&site| site_name(site as u16)).collect();
        json!({
            "name": name,
            "transfer": plan.transfer(&chunks.chunks),
            "chunks_per_site": plan.counts(chunks.chunks.sites()),
            "site_of_chunk": sites,
        })
    };
    let share = |Share { flow, sockets }: &Share| {
        let [from, to] = [flow.from, flow.to].map(|site| site_name(site as u16));
        json!({ "from": from, "to": to, "amount": flow.amount, "sockets": sockets })
    };
    let round = |round: &Round| {
        let names: Vec<&str> = round.replicas.iter().map(|r| r.name.as_str()).collect();
        json!({ "replicas": names, "centres": round.centres, "wide_area": round.is_wide() })
    };
    let firsts: Vec<String> = chunks.firsts.iter().map(|key| key.to_string()).collect();
    json!({
        "first_of_chunk": firsts,
        "placements": placements.iter().map(plan).collect::<Vec<_>>(),
        "flows": shares.iter().map(share).collect::<Vec<_>>(),
        "rounds": rounds.iter().map(round).collect::<Vec<_>>(),
    })
}
