//! Loads a workload, runs it at full speed, and checks it.

use super::measure::measure;
use super::options::{Common, StrategyName, durability_text};
use super::report::Report;
use isomer::checks::{Check, copies, invariants, no_failures, sums};
use isomer::failure::Failure;
use isomer::work::{Layout, inspect_with, load};
use isomer::{autopilot, out, text};
use isomer_cluster::{Database, Options};
use isomer_plan::elastic::Planner;
use isomer_plan::strategy::{Elastic, Learned};
use isomer_strategy::{Static, TwoPhase};
use isomer_workload::Workload;
use serde_json::Value;
use std::sync::Arc;

/// Runs a benchmark. `workload` makes the workload of each client, by its number from 0.
pub(super) fn run<W: Workload + Send>(
    common: &Common,
    name: &'static str,
    inputs: Value,
    workload: impl Fn(usize) -> Result<W, Failure>,
) -> Result<(), Failure> {
    let learned = Arc::new(Learned::default());
    let db = open(common, &learned)?;
    let first = workload(0)?;
    let layout = Layout {
        sites: common.sites,
        rows_per_partition: common.partition_keys,
        spread: common.spread,
    };
    load(&db, &first, layout)?;
    eprintln!(
        "{name}: {} rows in {} partitions at {} sites, strategy {}, durability {}, {} clients, \
         seed {}: {inputs}",
        text::count(first.loaded().rows),
        text::count(db.design().partition_count() as u64),
        common.sites,
        db.strategy(),
        durability_text(common.durability()),
        common.threads,
        common.seed,
    );
    let clients: Result<Vec<W>, Failure> = (0..usize::from(common.threads)).map(workload).collect();
    let measured = measure(&db, common, clients?);
    let added = measured.warm.added + measured.counted.added;
    let mut all = measured.warm.clone();
    all.add(&measured.counted);
    let mut examiner = first.examiner();
    let mut see = |table, key: &[u8], row: &[u8]| examiner.see(table, key, row);
    let found = inspect_with(&db, &measured.session, &mut see)?;
    let design = db.design();
    let conditions =
        Check::of("the workload's own conditions hold", examiner.verdict().map(|()| String::new()));
    let checks = vec![
        no_failures(&all),
        sums(&first, &found, added),
        conditions,
        invariants(&design),
        copies(&found),
    ];
    let report = Report::of(common, name, inputs, &db, &measured, checks);
    match common.json {
        true => out::line(serde_json::to_string(&report).map_err(Failure::failed)?),
        false => out::print(report.to_text()),
    }
    if common.decisions > 0 {
        eprint!("{}", autopilot::to_text(&learned, &design, common.decisions));
    }
    if report.is_ok() { Ok(()) } else { Err(Failure::Told) }
}

fn open(common: &Common, learned: &Arc<Learned>) -> Result<Database, Failure> {
    let options = match &common.folder {
        Some(folder) => Options::in_folder(folder, common.sites),
        None => Options::in_memory(common.sites),
    };
    let options = options.durability(common.durability());
    let options = match common.strategy {
        StrategyName::Static => options.strategy(Static),
        StrategyName::TwoPhase => options.strategy(TwoPhase),
        StrategyName::OnDemand => options,
        StrategyName::Learned => options.strategy(learned.clone()),
        StrategyName::Clay => options.strategy(Elastic::new(Planner::Clay)),
        StrategyName::EStore => options.strategy(Elastic::new(Planner::EStore)),
        StrategyName::DrTmB => options.strategy(Elastic::new(Planner::DrTmB)),
    };
    let db = Database::open(options)?;
    if db.design().tables().next().is_some() {
        let folder = common.folder.as_ref().map(|f| f.display().to_string()).unwrap_or_default();
        return Err(Failure::failed(format!(
            "{folder} holds a database with tables; a benchmark needs a new folder"
        )));
    }
    Ok(db)
}
