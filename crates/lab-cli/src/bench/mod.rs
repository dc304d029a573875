//! `isomer-lab bench`: workloads at full speed, each checked at the end.
//!
//! | command | workload |
//! | --- | --- |
//! | `ycsb` | read-modify-writes of three rows, and scans |
//! | `smallbank` | six short procedures of a bank |
//! | `pps` | products, parts, and suppliers that share them |
//! | `tpcc-procedures` | TPC-C as procedures, without SQL |
//! | `twitter` | tweets and followers |
//! | `trace` | a production cache's requests as transactions |
//! | `compare` | the autopilot beside other strategies, in turns (`compare.rs`) |
//! | `route` | the cost of routing and planning by sites and partitions (`route.rs`) |
//! | `reshard` | the effect of a change of the shard key on clients (`reshard.rs`) |
//! | `moves` | the effect of moving a block of rows, by the kind of move (`moves.rs`) |
//! | `store` | the cost of the store over bare maps (`store.rs`) |
//! | `kafka` | the cost of commits with the log in Kafka (`kafka.rs`) |
//! | `nodes` | the cost of commits with the log at three nodes (`nodes.rs`) |
//! | `ordered` | ordered tables beside row locks and two-phase commit (`ordered.rs`) |
//! | `wire`, `tpcc` | SQL over the wire, beside a stock PostgreSQL (`wire/`) |
//! | `sql` | ordinary queries, beside a stock PostgreSQL (`wire/sql/`) |
//! | `cluster` | three processes on Kafka, beside one with its logs in files (`wire/cluster/`) |
//! | `plan` | speed and quality of the planners (`plan.rs`) |
//!
//! `options.rs` reads the options, `run.rs` runs the first six, `report.rs` prints the result.

mod compare;
#[cfg(feature = "kafka")]
mod kafka;
mod measure;
mod moves;
mod nodes;
mod options;
mod ordered;
mod plan;
mod report;
mod reshard;
mod route;
mod run;
#[allow(unreachable_pub, reason = "what others call is marked, though this is a program")]
mod store;
mod subject;
mod wire;

use isomer::failure::Failure;
use isomer::{out, text, trace};
use isomer_design::TableId;
use isomer_workload::{
    Companions, HotSpot, HotSuppliers, Pps, PpsOptions, Skew, SmallBank, SmallBankOptions, Tpcc,
    TpccOptions, TraceOptions, TraceWorkload, Twitter, TwitterOptions, Ycsb, YcsbOptions,
};
use options::Common;
use serde_json::json;
use std::path::PathBuf;

const TABLE: TableId = TableId(1);

/// Measures transactions at full speed, and checks the result
#[derive(clap::Subcommand, Debug)]
pub(crate) enum BenchCommand {
    Ycsb(YcsbArgs),
    Smallbank(SmallBankArgs),
    Pps(PpsArgs),
    TpccProcedures(TpccArgs),
    Twitter(TwitterArgs),
    Trace(TraceArgs),
    Compare(compare::CompareArgs),
    Reshard(reshard::ReshardArgs),
    Moves(moves::MovesArgs),
    Route(route::RouteArgs),
    #[cfg(feature = "kafka")]
    Kafka(kafka::KafkaArgs),
    Nodes(nodes::NodesArgs),
    Ordered(ordered::OrderedArgs),
    Store(StoreCommand),
    Wire(wire::WireArgs),
    Sql(wire::SqlArgs),
    #[cfg(feature = "kafka")]
    Cluster(wire::ClusterArgs),
    Tpcc(wire::TpccArgs),
    /// Speed and quality of the planners
    Plan(plan::Args),
}

/// Read-modify-writes of three rows, and scans of 200 to 1000 rows
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  isomer-lab bench ycsb --skew zipf:0.99 --threads 4
  isomer-lab bench ycsb --sites 1 --mix update --companions independent
  isomer-lab bench ycsb --folder /tmp/bench --durability interval:50ms --seconds 5")]
pub(crate) struct YcsbArgs {
    #[command(flatten)]
    common: Common,
    /// Rows in the table
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Bytes of a row besides key and counter
    #[arg(long, default_value_t = 100)]
    value_bytes: usize,
    /// The skew of keys: uniform, zipf:EXPONENT, or zipf:EXPONENT:of:ROWS for the hottest rows of
    /// ROWS
    #[arg(long, default_value = "uniform", value_parser = options::skew)]
    skew: Skew,
    /// Share of scans: read-mostly (half), write-heavy (a tenth), update (none), scans:SHARE
    #[arg(long, default_value = "write-heavy", value_parser = options::scan_share)]
    mix: f64,
    /// The relation of a transaction's keys: near:DISTANCE, or independent
    #[arg(long, default_value = "near:1000", value_parser = options::companions)]
    companions: Companions,
}

/// The six procedures of SmallBank; money must be conserved
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  isomer-lab bench smallbank --threads 4
  isomer-lab bench smallbank --skew hot:1000:0.9 --seconds 30
  isomer-lab bench smallbank --strategy static-2pc
  isomer-lab bench smallbank --sites 1 --strategy static")]
pub(crate) struct SmallBankArgs {
    #[command(flatten)]
    common: Common,
    /// Customers of the bank; each has two accounts
    #[arg(long, default_value_t = 100_000)]
    rows: u64,
    /// The skew of customers: uniform, or hot:CUSTOMERS:SHARE
    #[arg(long, default_value = "uniform", value_parser = options::hot_spot)]
    skew: Hot,
    /// Weights of Amalgamate, Balance, DepositChecking, SendPayment, TransactSavings, WriteCheck
    #[arg(long, default_value = "standard", value_parser = options::weights)]
    mix: Mix,
}

/// Products, parts, and suppliers that share them (Clay's PPS); some suppliers are hot
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  isomer-lab bench pps --strategy clay --seconds 30
  isomer-lab bench pps --hot 20 --hot-share 0.5")]
pub(crate) struct PpsArgs {
    #[command(flatten)]
    common: Common,
    /// Suppliers, each with ten products and a hundred parts
    #[arg(long, default_value_t = 1000)]
    suppliers: u64,
    /// Hot suppliers: every second one from the first on; 0: none
    #[arg(long, default_value_t = 6)]
    hot: u64,
    /// Share of the suppliers' requests that go to hot ones
    #[arg(long, default_value_t = 0.2)]
    hot_share: f64,
}

/// TPC-C as procedures, without SQL: New-Order, Payment, Stock-Level, or all five
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  isomer-lab bench tpcc-procedures --warehouses 4
  isomer-lab bench tpcc-procedures --full --remote 0.5 --strategy static-2pc")]
pub(crate) struct TpccArgs {
    #[command(flatten)]
    common: Common,
    /// Warehouses, of ten districts each
    #[arg(long, default_value_t = 4)]
    warehouses: u32,
    /// Customers of a district (the standard: 3000)
    #[arg(long, default_value_t = 300)]
    customers: u32,
    /// Items (the standard: 100000)
    #[arg(long, default_value_t = 10_000)]
    items: u32,
    /// All five procedures
    #[arg(long)]
    full: bool,
    /// Share of orders and payments that touch another warehouse, if not the standard's
    #[arg(long)]
    remote: Option<f64>,
}

/// Twitter: mostly a user's last tweets, sometimes a user's followers, or a new tweet
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  isomer-lab bench twitter --users 20000")]
pub(crate) struct TwitterArgs {
    #[command(flatten)]
    common: Common,
    /// Users
    #[arg(long, default_value_t = 5000)]
    users: u32,
    /// Tweets of each user at first
    #[arg(long, default_value_t = 20)]
    tweets: u32,
}

type Mix = [u32; 6];
type Hot = Option<HotSpot>;

/// Requests of a production cache, as transactions of one to four keys
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  isomer-lab bench trace
  isomer-lab bench trace --trace my.csv.zst --spread hash --partition-keys 16")]
pub(crate) struct TraceArgs {
    #[command(flatten)]
    common: Common,
    /// A trace to replay instead of the built-in one
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// The cost of the store, as ratios to bare maps measured in the same run
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  isomer-lab bench store
  isomer-lab bench store --rows 1000000 --json")]
pub(crate) struct StoreCommand {
    #[command(flatten)]
    args: store::StoreArgs,
    /// Prints one line of JSON
    #[arg(long)]
    json: bool,
}

/// Runs a benchmark.
///
/// # Errors
/// [`Failure::Told`] if a check fails.
pub(crate) fn run(command: &BenchCommand) -> Result<(), Failure> {
    match command {
        BenchCommand::Ycsb(args) => ycsb(args),
        BenchCommand::Smallbank(args) => smallbank(args),
        BenchCommand::Pps(args) => pps(args),
        BenchCommand::TpccProcedures(args) => tpcc(args),
        BenchCommand::Twitter(args) => twitter(args),
        BenchCommand::Trace(args) => replay(args),
        BenchCommand::Compare(args) => compare::run(args),
        BenchCommand::Reshard(args) => reshard::run(args),
        BenchCommand::Moves(args) => moves::run(args),
        BenchCommand::Route(args) => route::run(args),
        #[cfg(feature = "kafka")]
        BenchCommand::Kafka(args) => kafka::run(args),
        BenchCommand::Nodes(args) => nodes::run(args),
        BenchCommand::Ordered(args) => ordered::run(args),
        BenchCommand::Store(command) => store(command),
        BenchCommand::Wire(args) => wire::wire(args),
        BenchCommand::Sql(args) => wire::sql(args),
        #[cfg(feature = "kafka")]
        BenchCommand::Cluster(args) => wire::cluster(args),
        BenchCommand::Tpcc(args) => wire::tpcc_under_change(args),
        BenchCommand::Plan(args) => plan::run(args).map_err(Failure::failed),
    }
}

fn ycsb(args: &YcsbArgs) -> Result<(), Failure> {
    let options = YcsbOptions {
        keys: args.rows,
        value_bytes: args.value_bytes,
        scan_share: args.mix,
        skew: args.skew,
        companions: args.companions,
        ..YcsbOptions::default()
    };
    let workload = Ycsb::new(options, TABLE)?;
    let skew = match args.skew {
        Skew::Uniform => "uniform".to_owned(),
        Skew::Zipf(exponent) => format!("zipf:{exponent}"),
        Skew::ZipfOf { exponent, population } => format!("zipf:{exponent}:of:{population}"),
    };
    let companions = match args.companions {
        Companions::Independent => "independent".to_owned(),
        Companions::Near(distance) => format!("near:{distance}"),
    };
    let inputs = json!({
        "rows": args.rows, "value_bytes": args.value_bytes, "skew": skew,
        "mix": format!("scans:{}", args.mix), "companions": companions,
    });
    run::run(&args.common, "ycsb", inputs, |_| Ok(workload.clone()))
}

fn smallbank(args: &SmallBankArgs) -> Result<(), Failure> {
    let options = SmallBankOptions {
        customers: args.rows,
        mix: args.mix,
        hot_spot: args.skew,
        ..SmallBankOptions::default()
    };
    let workload = SmallBank::new(options, TABLE)?;
    let skew = match args.skew {
        None => "uniform".to_owned(),
        Some(HotSpot { customers, share }) => format!("hot:{customers}:{share}"),
    };
    let mix = args.mix.map(|weight| weight.to_string()).join(",");
    let inputs = json!({ "rows": args.rows, "skew": skew, "mix": mix });
    run::run(&args.common, "smallbank", inputs, |_| Ok(workload.clone()))
}

fn pps(args: &PpsArgs) -> Result<(), Failure> {
    let hot = HotSuppliers { first: 0, count: args.hot, share: args.hot_share };
    let options = PpsOptions { suppliers: args.suppliers, hot: (args.hot > 0).then_some(hot) };
    let workload = Pps::new(options, TABLE)?;
    let inputs =
        json!({ "suppliers": args.suppliers, "hot": args.hot, "hot_share": args.hot_share });
    run::run(&args.common, "pps", inputs, |_| Ok(workload.clone()))
}

fn tpcc(args: &TpccArgs) -> Result<(), Failure> {
    let standard = TpccOptions::default();
    let options = TpccOptions {
        warehouses: args.warehouses,
        customers: args.customers,
        items: args.items,
        mix: if args.full { TpccOptions::FULL_MIX } else { TpccOptions::SHORT_MIX },
        remote_orders: args.remote.unwrap_or(standard.remote_orders),
        remote_payments: args.remote.unwrap_or(standard.remote_payments),
        ..standard
    };
    let inputs = json!({
        "warehouses": options.warehouses, "customers": options.customers, "items": options.items,
        "mix": options.mix, "remote_orders": options.remote_orders,
        "remote_payments": options.remote_payments,
    });
    let workload = Tpcc::new(options, TABLE)?;
    run::run(&args.common, "tpcc", inputs, |_| Ok(workload.clone()))
}

fn twitter(args: &TwitterArgs) -> Result<(), Failure> {
    let options =
        TwitterOptions { users: args.users, tweets: args.tweets, ..TwitterOptions::default() };
    let inputs = json!({ "users": options.users, "tweets": options.tweets });
    let workload = Twitter::new(options, TABLE)?;
    run::run(&args.common, "twitter", inputs, |_| Ok(workload.clone()))
}

fn replay(args: &TraceArgs) -> Result<(), Failure> {
    let named = trace::read(args.trace.as_deref())?;
    let clients = usize::from(args.common.threads);
    let inputs = json!({ "trace": named.name, "rows": named.trace.keys() });
    run::run(&args.common, "trace", inputs, |client| {
        let options = TraceOptions { client, clients, ..TraceOptions::default() };
        Ok(TraceWorkload::new(named.trace.clone(), options, TABLE)?)
    })
}

fn store(command: &StoreCommand) -> Result<(), Failure> {
    let figures = store::run(&command.args, &mut |stage| eprintln!("{stage}"));
    let figures = figures.map_err(Failure::failed)?;
    if command.json {
        out::line(serde_json::to_string(&figures).map_err(Failure::failed)?);
        return Ok(());
    }
    let rows: Vec<Vec<String>> = figures
        .goals()
        .into_iter()
        .map(|(name, value, goal, is_reached)| {
            let verdict = if is_reached { "reached" } else { "missed" };
            vec![name.to_owned(), format!("{value:.3}"), goal, verdict.to_owned()]
        })
        .collect();
    out::print(text::columns(&rows, 0));
    Ok(())
}
