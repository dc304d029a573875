//! `isomer demo`: a database that rearranges itself under a production trace, watched and checked.
//!
//! ```text
//!   clients ──transactions──▶ database ──changes──▶ ChangeLog ─┐
//!      │                         ▲ autopilot                   ├─▶ Series ─▶ live view, report
//!      └───▶ Tally ────────────────────────────────────────────┘             and plot
//!
//!   at the end: the same trace on a design that does not change
//! ```
//!
//! | file | contents |
//! | --- | --- |
//! | `hotspot.rs` | a second scenario: an overload, and the moves against it |
//! | `reshard.rs` | a third scenario: ratings by film become ratings by viewer |
//! | `ordered.rs` | a fourth one: rows of an ordered table move to the processes that write them |
//! | `run.rs` | the client threads, and the loop that samples them |
//! | `compare.rs` | the same trace without the autopilot |
//! | `changes.rs`, `series.rs` | changes with reasons, counts over time |
//! | `screen.rs`, `lines.rs` | the live view on a terminal, and lines elsewhere |
//! | `checks.rs`, `report.rs`, `plot.rs` | the result: checks, text and plot |

mod args;
mod changes;
mod checks;
mod compare;
mod hotspot;
mod lines;
mod ordered;
mod plot;
mod report;
mod reshard;
mod run;
mod series;
mod view;

pub(crate) use args::DemoArgs;

use crate::failure::Failure;
use crate::work::{Layout, Spread, load};
use crate::{clock, out, text, trace};
use args::{Elasticity, Scenario};
use isomer_cluster::{Database, Options};
use isomer_design::TableId;
use isomer_plan::strategy::Learned;
use isomer_strategy::{Strategy, TwoPhase};
use isomer_workload::{TraceOptions, TraceWorkload};
use report::Report;
use std::sync::Arc;

const TABLE: TableId = TableId(1);

/// Runs the demo.
///
/// # Errors
/// [`Failure::Told`] if a check fails.
pub(crate) fn run(args: &DemoArgs) -> Result<(), Failure> {
    match args.scenario() {
        Scenario::Hotspot | Scenario::Trace | Scenario::Ordered if args.console().is_some() => {
            Err(Failure::usage(
                "--console is for --scenario reshard: the others have no server for SQL",
            ))
        }
        Scenario::Hotspot | Scenario::Reshard | Scenario::Ordered if args.trace.is_some() => {
            Err(Failure::usage(
                "--trace is for --scenario trace: the others have workloads of their own",
            ))
        }
        Scenario::Hotspot => hotspot::run(args, args.strategy.unwrap_or(Elasticity::Clay)),
        Scenario::Trace | Scenario::Reshard | Scenario::Ordered if args.strategy.is_some() => {
            Err(Failure::usage(
                "--strategy is for --scenario hotspot: the trace has the autopilot, and the others have none",
            ))
        }
        Scenario::Reshard => reshard::run(args),
        Scenario::Ordered => ordered::run(args),
        Scenario::Trace => replay(args),
    }
}

fn replay(args: &DemoArgs) -> Result<(), Failure> {
    let say = |line: String| if args.json { eprintln!("{line}") } else { out::line(line) };
    let begun = clock::now();
    plot::prepare(&args.plot)
        .map_err(|error| Failure::failed(format!("{}: {error}", args.plot.display())))?;
    let named = trace::read(args.trace.as_deref())?;
    let options = |client| TraceOptions {
        client,
        clients: usize::from(args.threads),
        ..TraceOptions::default()
    };
    let workload = |client| TraceWorkload::new(named.trace.clone(), options(client), TABLE);
    let first = workload(0)?;
    let learned = Arc::new(Learned::default());
    let db = open(args, learned.clone(), &first)?;
    say(format!(
        "{} sites in this process; {} keys of {} in {} partitions, spread at random ({:.1} s)",
        args.sites,
        text::count(named.trace.keys() as u64),
        named.name,
        text::count(db.design().partition_count() as u64),
        begun.elapsed().as_secs_f64(),
    ));
    let clients: Result<Vec<_>, _> = (0..usize::from(args.threads)).map(workload).collect();
    let ran = run::run(args, &db, clients?)?;
    let mut checks = checks::check(&db, &first, &ran)?;
    say("the same trace on a design that does not change …".to_owned());
    let clients: Result<Vec<_>, _> = (0..usize::from(args.threads)).map(workload).collect();
    let unchanged = open(args, TwoPhase, &first)?;
    let compared = compare::run(args, &unchanged, clients?);
    checks.extend(checks::local(args.seconds, &ran, &compared));
    plot::draw(&ran.series, &args.plot).map_err(Failure::failed)?;
    let report = Report::of(args, &named.name, &db, &ran, &learned, compared, checks);
    match args.json {
        true => out::line(serde_json::to_string(&report).map_err(Failure::failed)?),
        false => out::print(report.to_text()),
    }
    if report.is_ok() { Ok(()) } else { Err(Failure::Told) }
}

/// Opens a database with the rows of the trace, spread at random.
fn open(
    args: &DemoArgs,
    strategy: impl Strategy + 'static,
    workload: &TraceWorkload,
) -> Result<Database, Failure> {
    let db = Database::open(Options::in_memory(args.sites).strategy(strategy))?;
    let layout = Layout {
        sites: args.sites,
        rows_per_partition: args.partition_keys.unwrap_or(4),
        spread: Spread::Hash,
    };
    load(&db, workload, layout)?;
    Ok(db)
}
