//! `isomer bench route`: what routing and planning cost with more sites and more partitions.
//!
//! No site runs: a design of so many partitions, spread over so many sites, its routing table, and the
//! autopilot. Two things are timed, each as a median:
//!
//! | figure | of a transaction with three keys |
//! | --- | --- |
//! | route | its footprint is made, and the sites that can run it are found |
//! | think | the autopilot looks for changes, for one that no site can run; most transactions go without |
//!
//! A set of sites is one word, so up to 64 sites cost the same; partitions cost a search.

use crate::failure::Failure;
use crate::{clock, out, text};
use isomer_design::{
    Column, ColumnType, Design, Footprint, Key, Placement, RoutingTable, SITES_MAX, Schema, SiteId,
    TableId,
};
use serde::Serialize;
use std::hint::black_box;

const TABLE: TableId = TableId(1);
const PARTITION_KEYS: u64 = 10;
const ROUNDS: usize = 31;
const REPEAT: u64 = 1000;

/// What routing and planning cost per transaction, by the number of sites and partitions
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  isomer bench route
  isomer bench route --partitions 100000 --json")]
pub(crate) struct RouteArgs {
    /// How many sites, one design for each
    #[arg(long, value_delimiter = ',', default_values_t = [4, 16, SITES_MAX])]
    sites: Vec<u16>,
    /// How many partitions there are
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1000..=100_000_000))]
    partitions: u64,
    /// Prints one line of JSON for each design
    #[arg(long)]
    json: bool,
}

/// What was measured of one design, in nanoseconds.
#[derive(Serialize)]
struct Figures {
    bench: &'static str,
    sites: u16,
    partitions: u64,
    route_ns: f64,
    think_ns: f64,
    /// Bytes of the routing table.
    table_bytes: usize,
}

/// Measures each design.
pub(super) fn run(args: &RouteArgs) -> Result<(), Failure> {
    let mut rows =
        vec![["sites", "partitions", "route", "think", "table"].map(str::to_owned).to_vec()];
    for &sites in &args.sites {
        let figures = measure(sites, args.partitions)?;
        if args.json {
            out::line(serde_json::to_string(&figures).map_err(Failure::failed)?);
        }
        rows.push(vec![
            sites.to_string(),
            text::count(args.partitions),
            format!("{:.0} ns", figures.route_ns),
            format!("{:.0} µs", figures.think_ns / 1e3),
            format!("{:.0} MB", figures.table_bytes as f64 / 1e6),
        ]);
    }
    if !args.json {
        out::print(text::columns(&rows, 0));
    }
    Ok(())
}

fn measure(sites: u16, partitions: u64) -> Result<Figures, Failure> {
    eprintln!("{} partitions at {sites} sites", text::count(partitions));
    let mut design = Design::new((1..=sites).map(SiteId)).map_err(Failure::usage)?;
    let columns = vec![Column::new("id", ColumnType::Int64)];
    let schema = Schema::new("rows", columns, &["id"]).map_err(Failure::failed)?;
    let start = |at: u64| if at == 0 { Key::min() } else { Key::int((at * PARTITION_KEYS) as i64) };
    let place = |at: u64| Placement::at(SiteId((at % u64::from(sites)) as u16 + 1));
    let parts = (0..partitions).map(|at| (start(at), place(at)));
    design.create_table(TABLE, schema, parts).map_err(Failure::failed)?;
    let table = RoutingTable::of(&design);
    let keys = partitions * PARTITION_KEYS;
    let begun = clock::now();
    let now = || clock::elapsed_ns(begun);
    // Three keys of one partition: one site can run it.
    let footprint = |at: u64| {
        let partition = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) % partitions * PARTITION_KEYS;
        (0..3).fold(Footprint::new(), |all, key| {
            all.write(TABLE, Key::int((partition + key * 3) as i64))
        })
    };
    let route_ns = median(&now, &mut |at| {
        black_box(table.home(&footprint(at)));
    });
    let apart = PARTITION_KEYS as i64;
    let think_ns = isomer_lab::think(&design, TABLE, (keys as i64, apart), &now);
    let (route_entries, table_bytes) = (table.entries(), table.bytes());
    assert!(route_entries as u64 >= partitions / 2, "neighbours are at different sites");
    Ok(Figures { bench: "route", sites, partitions, route_ns, think_ns, table_bytes })
}

/// The median over rounds of what one call takes.
fn median(now: &dyn Fn() -> u64, run: &mut dyn FnMut(u64)) -> f64 {
    let mut rounds: Vec<u64> = (0..ROUNDS as u64)
        .map(|round| {
            let begun = now();
            (0..REPEAT).for_each(|at| run(round * REPEAT + at));
            now() - begun
        })
        .collect();
    rounds.sort_unstable();
    rounds[ROUNDS / 2] as f64 / REPEAT as f64
}
