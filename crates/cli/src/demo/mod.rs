//! `isomer demo`: a database that rearranges itself under a production trace, watched and checked.
//!
//! ```text
//!   clients ──transactions──▶ database ──changes──▶ ChangeLog ─┐
//!      │ │                       ▲                             │
//!      │ └─▶ Counts ─▶ operator ─┘ splits, merges, replicas    ├─▶ Series ─▶ live view, report, plot
//!      └───▶ Tally ────────────────────────────────────────────┘
//! ```
//!
//! | file | what it holds |
//! | --- | --- |
//! | `run.rs` | the threads, and the loop that looks at them |
//! | `heat.rs`, `operator.rs` | which partitions are busy, and what the operator does about it |
//! | `changes.rs`, `series.rs` | what happened: changes with reasons, counts over time |
//! | `screen.rs`, `lines.rs` | the live view on a terminal, and lines elsewhere |
//! | `checks.rs`, `report.rs`, `plot.rs` | the end: what holds, in words and as a picture |

mod args;
mod changes;
mod checks;
mod heat;
mod lines;
mod operator;
mod plot;
mod report;
mod run;
mod screen;
mod series;
mod view;

pub(crate) use args::DemoArgs;

use crate::failure::Failure;
use crate::work::{Layout, Spread, load};
use crate::{clock, out, text, trace};
use isomer_cluster::{Database, Options};
use isomer_design::TableId;
use isomer_workload::{TraceOptions, TraceWorkload};
use report::Report;

const TABLE: TableId = TableId(1);

/// Runs the demo.
///
/// # Errors
/// [`Failure::Told`] if a check fails.
pub(crate) fn run(args: &DemoArgs) -> Result<(), Failure> {
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
    let db = Database::open(Options::in_memory(args.sites))?;
    let layout =
        Layout { sites: args.sites, rows_per_partition: args.partition_keys, spread: Spread::Hash };
    load(&db, &first, layout)?;
    say(format!(
        "{} sites in this process; {} keys of {} in {} partitions, spread at random ({:.1} s)",
        args.sites,
        text::count(named.trace.keys() as u64),
        named.name,
        text::count(db.design().partition_count() as u64),
        begun.elapsed().as_secs_f64(),
    ));
    let clients: Result<Vec<_>, _> = (0..usize::from(args.threads)).map(workload).collect();
    let ran = run::run(args, &db, clients?, named.trace.keys())?;
    let checks = checks::check(&db, &first, &ran)?;
    plot::draw(&ran.series, &args.plot).map_err(Failure::failed)?;
    let report = Report::of(args, &named.name, &db, &ran, checks);
    match args.json {
        true => out::line(serde_json::to_string(&report).map_err(Failure::failed)?),
        false => out::print(report.to_text()),
    }
    if report.is_ok() { Ok(()) } else { Err(Failure::Told) }
}
