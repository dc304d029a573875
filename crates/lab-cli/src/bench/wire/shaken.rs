//! `isomer-lab bench tpcc`: TPC-C while the design changes; the server must return no error.

use super::servers::{Server, Transport};
use super::tpcc::Sizes;
use super::{Changes, tpcc, tpcc_targets};
use isomer::failure::Failure;
use isomer::isolation::IsolationLevel;
use isomer::out;
use serde_json::json;
use std::time::Duration;

/// TPC-C over the wire while the design changes, its result checked by a stock PostgreSQL
#[derive(clap::Args, Clone, Debug)]
#[command(
    after_help = "Needs PostgreSQL. A client stops at its first error, and the command fails. At the levels that may
refuse a transaction with 40001 it runs again, and is counted.

Examples:
  isomer-lab bench tpcc --seconds 600
  isomer-lab bench tpcc --isolation serializable
  isomer-lab bench tpcc --seconds 3 --warehouses 2 --items 200 --customers 60"
)]
pub(crate) struct TpccArgs {
    /// Seconds of the run
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// Client connections
    #[arg(long, value_name = "N", default_value_t = 8)]
    threads: u16,
    /// How clients reach both servers
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Transport::Tcp)]
    transport: Transport,
    /// The isolation level, at both servers
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = IsolationLevel::ReadCommitted)]
    isolation: IsolationLevel,
    #[command(flatten)]
    sizes: Sizes,
    #[command(flatten)]
    changes: Changes,
    /// Seconds of a run in PostgreSQL after the check, to compare with
    #[arg(long, value_name = "N", default_value_t = 0)]
    postgres_seconds: u64,
    /// Prints one line of JSON
    #[arg(long)]
    json: bool,
}

/// Runs `isomer-lab bench tpcc`.
///
/// # Errors
/// If a client met an error, or a condition does not hold.
pub(crate) fn tpcc_under_change(args: &TpccArgs) -> Result<(), Failure> {
    let (sizes, seed, transport) = (args.sizes, args.changes.seed, args.transport);
    let pg = Server::postgres(transport, args.isolation)?;
    let isomer = Server::isomer(args.changes.sites, true, transport, args.isolation)?;
    eprintln!("loading {} warehouses", sizes.warehouses);
    tpcc::load(&isomer, sizes, seed)?;
    eprintln!("{} terminals for {} s", args.threads, args.seconds);
    let shaker = args.changes.shaker(&isomer, tpcc_targets(sizes))?;
    let time = Duration::from_secs(args.seconds);
    let ran = tpcc::run(&isomer, sizes, args.threads, time, seed, shaker)?;
    eprintln!("checking in PostgreSQL");
    tpcc::check(&mut isomer.connect()?, &mut pg.connect()?, sizes)?;
    drop(isomer);
    let beside = match Duration::from_secs(args.postgres_seconds) {
        Duration::ZERO => None,
        time => Some(tpcc::run(&pg, sizes, args.threads, time, seed ^ 1, None)?),
    };
    let beside = beside.map(|ran| ran.per_second());
    if args.json {
        out::line(json!({
            "bench": "tpcc", "seed": seed, "threads": args.threads, "sites": args.changes.sites,
            "transport": transport.name(), "isolation": args.isolation.setting(),
            "warehouses": sizes.warehouses, "items": sizes.items, "customers": sizes.customers,
            "seconds": ran.seconds, "change_ms": args.changes.change_ms, "changes": ran.changes,
            "transactions": ran.transactions, "new_orders": ran.new_orders,
            "repeated": ran.repeated, "errors": 0,
            "conditions_held": 12, "postgres_per_second": beside,
        }));
    } else {
        out::line(format!(
            "{} transactions over {} in {:.1} s ({:.0}/s, {:.0} new orders a minute), {} changes of the design, \
             no error{}; the twelve conditions hold{}",
            ran.transactions,
            transport.name(),
            ran.seconds,
            ran.per_second(),
            ran.new_orders as f64 * 60.0 / ran.seconds,
            ran.changes,
            if args.isolation.refuses() {
                format!(", {} run again at {}", ran.repeated, args.isolation.setting())
            } else {
                String::new()
            },
            beside.map_or(String::new(), |pg| format!("; PostgreSQL: {pg:.0}/s"))
        ));
    }
    Ok(())
}
