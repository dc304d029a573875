//! `isomer route`: routes a batch of transactions.

use super::{Outcome, print, read_text};
use isomer_plan::route::{
    Alpha, Batch, Fused, FusionTable, Home, Options, Replacement, Tie, Transaction, calvin, fuse,
    gstore, hermes, leap, textbook, tpart,
};
use serde_json::{Value, json};
use std::path::PathBuf;

/// The arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  isomer route batch.json --strategy hermes --sites 20 --alpha 0.1")]
pub(crate) struct Args {
    /// The batch: {"transactions":[{"id":1,"read":[..],"write":[..]},..]}
    batch: PathBuf,
    /// The router.
    #[arg(long, value_enum, default_value = "hermes")]
    strategy: Router,
    /// Number of sites; they are numbered from 0.
    #[arg(long)]
    sites: u16,
    /// Hermes: the share by which a site may exceed its part of the batch.
    #[arg(long, default_value = "0.1", allow_negative_numbers = true)]
    alpha: Alpha,
    /// Hermes: whether transactions may change places.
    #[arg(long, value_enum, default_value = "on")]
    reorder: Switch,
    /// Hermes: the site that wins a tie.
    #[arg(long, value_enum, default_value = "lowest")]
    tie: TieRule,
    /// Keys at home at each site.
    #[arg(long, default_value_t = 1_000_000)]
    home_width: u64,
    /// Hermes: the most entries of the fusion table; unbounded by default.
    #[arg(long)]
    fusion_size: Option<usize>,
    /// Hermes: the entries that leave a full fusion table.
    #[arg(long, value_enum, default_value = "clock")]
    fusion_rule: Rule,
    /// T-Part: the weight of remote reads against load, from 0 to 1.
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    beta: f64,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Router {
    /// Prescient routing of the whole batch.
    Hermes,
    /// Hermes, improved until no single change helps.
    HermesPolished,
    /// Hermes as the paper writes it down: slow.
    HermesTextbook,
    /// Records stay at home.
    Calvin,
    /// Records move to a transaction and back.
    Gstore,
    /// Records move to a transaction and stay.
    Leap,
    /// Weighs load and remote reads against each other.
    Tpart,
}

#[derive(Clone, Copy, PartialEq, Debug, clap::ValueEnum)]
enum Switch {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum TieRule {
    /// The lowest site.
    Lowest,
    /// The site that the transaction's number selects, modulo the number of sites.
    Txn,
}

/// The entries that leave a full fusion table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Rule {
    Fifo,
    Lru,
    Clock,
}

impl Rule {
    fn replacement(self) -> Replacement {
        match self {
            Rule::Fifo => Replacement::Fifo,
            Rule::Lru => Replacement::Lru,
            Rule::Clock => Replacement::Clock,
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Outcome {
    let batch = parse(&read_text(&args.batch)?)
        .map_err(|error| format!("{}: {error}", args.batch.display()))?;
    let home = Home::new(args.sites, args.home_width)?;
    home.check(&batch)?;
    let tie = match args.tie {
        TieRule::Lowest => Tie::LowestSite,
        TieRule::Txn => Tie::TransactionModulo,
    };
    let mut fusion = FusionTable::new(args.fusion_rule.replacement(), args.fusion_size);
    let reorder = args.reorder == Switch::On;
    let options = Options { alpha: args.alpha, reorder, tie, polish: false };
    let polish = Options { polish: true, ..options };
    if !(0.0..=1.0).contains(&args.beta) {
        return Err(format!("beta is {}: a number from 0 to 1 is needed", args.beta).into());
    }
    let mut routed = match args.strategy {
        Router::Hermes => hermes(&batch, &Fused { home, fusion: &fusion }, options),
        Router::HermesPolished => hermes(&batch, &Fused { home, fusion: &fusion }, polish),
        Router::HermesTextbook => textbook(&batch, &Fused { home, fusion: &fusion }, options),
        Router::Calvin => calvin(&batch, &home),
        Router::Gstore => gstore(&batch, &home),
        Router::Leap => leap(&batch, &home),
        Router::Tpart => tpart(&batch, &home, (args.beta * 10_000.0).round() as u32),
    };
    if matches!(args.strategy, Router::Hermes | Router::HermesPolished | Router::HermesTextbook) {
        fuse(&mut fusion, &batch, |&key| home.of(key), &mut routed);
    }
    let transactions: Vec<Value> = routed
        .transactions
        .iter()
        .map(|route| json!({ "id": route.id, "order": route.order, "site": route.site }))
        .collect();
    let mut answer = json!({
        "transactions": transactions,
        "remote_reads": routed.remote_reads,
        "migrations": routed.migrations,
        "loads": routed.loads,
    });
    if !routed.evicted.is_empty() {
        answer["evicted"] = json!(routed.evicted);
    }
    print(&answer.to_string())
}

/// Reads a batch, naming what is missing.
fn parse(text: &str) -> Result<Batch, Box<dyn std::error::Error>> {
    let value: Value = serde_json::from_str(text)?;
    let list = value.get("transactions").and_then(Value::as_array);
    let list = list.ok_or("the batch needs a list \"transactions\"")?;
    let mut transactions = Vec::new();
    for (at, item) in list.iter().enumerate() {
        let keys = |name: &str| -> Result<Vec<u64>, String> {
            let Some(value) = item.get(name) else { return Ok(Vec::new()) };
            let wrong = || {
                format!(
                    "transaction {}: \"{name}\" must be a list of keys, whole numbers from 0 on",
                    at + 1
                )
            };
            let list = value.as_array().ok_or_else(wrong)?;
            list.iter().map(|key| key.as_u64().ok_or_else(wrong)).collect()
        };
        let known = ["id", "read", "write"];
        let mut fields = item.as_object().into_iter().flatten().map(|(name, _)| name);
        if let Some(name) = fields.find(|name| !known.contains(&name.as_str())) {
            let place = at + 1;
            return Err(
                format!("transaction {place}: \"{name}\" is none of id, read, write").into()
            );
        }
        let id = item.get("id").and_then(Value::as_u64);
        let id = id.ok_or_else(|| format!("transaction {} needs a number \"id\"", at + 1))?;
        transactions.push(Transaction { id, read: keys("read")?, write: keys("write")? });
    }
    Ok(Batch::new(transactions)?)
}
