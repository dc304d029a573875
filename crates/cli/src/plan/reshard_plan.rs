//! `isomer reshard-plan`: where the chunks of a new shard key go.

use super::{Outcome, open_file, print, read_text, table};
use isomer_plan::generate::random;
use isomer_plan::reshard::sockets::{self, Share, Topology};
use isomer_plan::reshard::{Chunks, Placement, RowSource, chunks_of_table};
use serde_json::json;
use std::path::PathBuf;

/// The arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The table: CSV with a header, plain or zstd.
    table: PathBuf,
    /// The column that decides where rows are now.
    #[arg(long)]
    old: String,
    /// The column that shall decide.
    #[arg(long)]
    new: String,
    /// How many new chunks to make.
    #[arg(long)]
    chunks: usize,
    /// How many sites there are.
    #[arg(long)]
    sites: usize,
    /// Old chunks were dealt over the sites in turn, instead of one range each.
    #[arg(long)]
    dealt: bool,
    /// The network: from,to,latency_ms lines between s1, s2, … and switches.
    #[arg(long)]
    topology: Option<PathBuf>,
    /// Sockets to share out over the flows; by default one for each chunk and flow.
    #[arg(long)]
    sockets: Option<u64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Outcome {
    let source = if args.dealt { RowSource::DealtChunks } else { RowSource::Ranges };
    let input = open_file(&args.table)?;
    let chunks = chunks_of_table(input, &args.old, &args.new, args.chunks, args.sites, source)?;
    let balanced = Placement::balanced(&chunks)?;
    let plans = [
        ("greedy", Placement::greedy(&chunks)),
        ("balanced", balanced.clone()),
        ("random", Placement::random(&chunks, &mut random(1))),
    ];
    let flows = chunks.flows(&balanced);
    let topology = args.topology.as_ref().map(|path| read_text(path)).transpose()?;
    let topology = topology.map(|text| Topology::parse(&text)).transpose()?;
    let sockets = args.sockets.unwrap_or((args.chunks + flows.len()) as u64);
    let shares = sockets::share(&flows, topology.as_ref(), sockets)?;
    if args.json {
        return print(&to_json(&chunks, &plans, &shares).to_string());
    }
    let mut summary = table(&["placement", "rows that travel", "most chunks a site"]);
    for (name, plan) in &plans {
        let most = plan.counts(args.sites).into_iter().max().unwrap_or(0);
        let travel = plan.transfer(&chunks).to_string();
        summary.add_row(vec![name.to_string(), travel, most.to_string()]);
    }
    print(&summary.to_string())?;
    let mut detail = table(&["balanced: from", "to", "rows", "sockets"]);
    for Share { flow, sockets } in shares {
        let (from, to) = (format!("s{}", flow.from + 1), format!("s{}", flow.to + 1));
        detail.add_row(vec![from, to, flow.amount.to_string(), sockets.to_string()]);
    }
    print(&detail.to_string())
}

fn to_json(chunks: &Chunks, plans: &[(&str, Placement)], shares: &[Share]) -> serde_json::Value {
    let plan = |(name, plan): &(&str, Placement)| {
        let sites: Vec<u32> = plan.sites.iter().map(|site| site + 1).collect();
        json!({
            "name": name,
            "transfer": plan.transfer(chunks),
            "chunks_per_site": plan.counts(chunks.sites()),
            "site_of_chunk": sites,
        })
    };
    let share = |Share { flow, sockets }: &Share| json!({ "from": flow.from + 1, "to": flow.to + 1, "rows": flow.amount, "sockets": sockets });
    let plans: Vec<_> = plans.iter().map(plan).collect();
    let flows: Vec<_> = shares.iter().map(share).collect();
    json!({ "placements": plans, "flows": flows })
}
