//! `isomer shard-key`: ranks the candidates for a shard key.

use super::{Outcome, open_file, percent, print, table};
use isomer_plan::reshard::advise::{Candidate, advise};
use serde_json::json;
use std::path::PathBuf;

/// The arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  isomer shard-key ratings.csv --table ratings --sites 4 --current user_id")]
pub(crate) struct Args {
    /// The accesses to the table: CSV with time, transaction, access, and one column for each
    /// candidate; with a column table if the file has several tables.
    trace: PathBuf,
    /// The table.
    #[arg(long)]
    table: String,
    /// Number of sites.
    #[arg(long, default_value_t = 4)]
    sites: usize,
    /// The current shard key, to count the rows that would move.
    #[arg(long)]
    current: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Outcome {
    let candidates =
        advise(open_file(&args.trace)?, &args.table, args.sites, args.current.as_deref())
            .map_err(|error| format!("{}: {error}", args.trace.display()))?;
    if args.json {
        let list: Vec<_> = candidates.iter().map(to_json).collect();
        return print(&json!({ "table": args.table, "candidates": list }).to_string());
    }
    print(&format!("shard keys for {} on {} sites, best first", args.table, args.sites))?;
    let mut rows = table(&[
        "column",
        "values",
        "hottest",
        "monotonic",
        "single-site",
        "load / mean",
        "moves",
        "score",
    ]);
    for candidate in candidates {
        rows.add_row(vec![
            candidate.column,
            candidate.cardinality.to_string(),
            percent(candidate.hottest),
            format!("{:.2}", candidate.monotonicity),
            percent(candidate.single_site),
            format!("{:.2}", candidate.imbalance),
            candidate.rows_moved.map_or("-".to_owned(), |rows| rows.to_string()),
            format!("{:.2}", candidate.score),
        ]);
    }
    print(&rows.to_string())
}

fn to_json(candidate: &Candidate) -> serde_json::Value {
    json!({
        "column": candidate.column,
        "cardinality": candidate.cardinality,
        "hottest": candidate.hottest,
        "monotonicity": candidate.monotonicity,
        "single_site": candidate.single_site,
        "imbalance": candidate.imbalance,
        "rows_moved": candidate.rows_moved,
        "score": candidate.score,
    })
}
