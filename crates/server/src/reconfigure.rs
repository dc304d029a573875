//! Plans of operators in SQL: ALTER SYSTEM RECONFIGURE and related statements, and the table
//! `isomer.reconfigurations`.
//!
//! ```text
//!   ALTER SYSTEM RECONFIGURE 'split accounts at 500
//!                             remaster accounts[500] s2'
//!   SELECT * FROM isomer.reconfigurations        running, 1 of 2 changes made
//!   ALTER SYSTEM PAUSE RECONFIGURATION 1         RESUME, CANCEL, REVERSE
//!   ALTER SYSTEM DRAIN SITE 3, 4                 a plan that moves everything away from the sites
//! ```
//!
//! The statement ends when the plan has been validated and started. Tables have their SQL names.

use crate::backend::database;
use crate::chronicle::{Event, PlanTold, clipped, us};
use crate::engine::Engine;
use crate::plan_names::{stored_names, with_name};
use crate::proposals::check_changes_are_on;
use crate::remembered::INTERRUPTED;
use isomer_cluster::{Control, Progress, Reconfiguration};
use isomer_design::{
    Change, Design, Item, Key, Placement, Plan, SiteId, SiteSet, Step, TableId, Time,
};
use isomer_plan::drain::{Copies, Move, Used};
use isomer_sql::datum::Datum;
use isomer_sql::parse::Reconfigure;
use isomer_sql::{SqlError, code};
use std::collections::{BTreeMap, BTreeSet};

const SECOND_NS: u64 = 1_000_000_000;
/// The time before a plan with which it is compared.
const QUIET_NS: u64 = 60 * SECOND_NS;
/// The error of a plan that was interrupted.
const LOST: &str =
    "the process ended before the plan; isomer.changes has the changes that were made";
/// The column with the number of changes that are made.
const MADE: usize = 4;
/// The reason of a plan that gives none.
const REASON: &str = "asked for in SQL";

impl Engine {
    pub(crate) fn reconfigure(&self, statement: &Reconfigure) -> Result<(), SqlError> {
        let control = |number: &u64, control| {
            self.database().control_reconfiguration(*number, control).map_err(database)
        };
        let begins = match statement {
            Reconfigure::Start { is_dry_run, .. } => !is_dry_run,
            Reconfigure::Resume(_) | Reconfigure::Reverse(_) | Reconfigure::Drain(_) => true,
            Reconfigure::Pause(_) | Reconfigure::Cancel(_) => false,
        };
        if begins {
            check_changes_are_on(self)?;
        }
        match statement {
            Reconfigure::Start { plan, is_dry_run } => {
                let design = self.database().design();
                let wrong = |what| SqlError::new(code::INVALID_PARAMETER, what);
                let plan =
                    Plan::parse(&stored_names(&self.catalog(), &design, plan), &design, REASON)
                        .map_err(wrong)?;
                match is_dry_run {
                    true if plan.is_empty() => Err(wrong("the plan has no changes".to_owned())),
                    true => Ok(()),
                    false => self.database().reconfigure(plan).map(drop).map_err(database),
                }
            }
            Reconfigure::Pause(number) => control(number, Control::Pause),
            Reconfigure::Resume(number) => control(number, Control::Resume),
            Reconfigure::Cancel(number) => control(number, Control::Cancel),
            Reconfigure::Reverse(number) => {
                let reversed = self.database().reverse_reconfiguration(*number);
                reversed.map(drop).map_err(database)
            }
            Reconfigure::Drain(sites) => {
                let plan = drain(self, &sites.iter().copied().map(SiteId).collect())?;
                self.database().reconfigure(plan).map(drop).map_err(database)
            }
        }
    }

    /// The plans since the start, and those that the history has from before.
    pub(crate) fn reconfiguration_rows(&self) -> Vec<Vec<Datum>> {
        let design = self.database().design();
        let all = self.database().reconfigurations();
        let is_here = |told: &PlanTold| all.iter().any(|it| is_of(told, it));
        let earlier = self.chronicle.plans().into_iter().filter(|told| !is_here(told));
        let earlier = earlier.map(|mut told| {
            let is_interrupted = told.ended_us.is_none();
            if is_interrupted {
                told.state = INTERRUPTED.to_owned();
                told.error = Some(LOST.to_owned());
            }
            let mut row = plan_row(told, (None, None), false);
            if is_interrupted {
                row[MADE] = Datum::Null;
            }
            row
        });
        let is_reversible =
            |it: &Reconfiguration| it.progress == Progress::Done && it.reversed_by(&all).is_none();
        let here = all.iter().map(|it| {
            let next = it.due().map(|step| change_text(self, step, &design));
            let ends = expected_end(it, self.database().now()).map(us);
            plan_row(told(self, it, &design), (next, ends), is_reversible(it))
        });
        earlier.chain(here).collect()
    }
}

/// A step with the SQL name of its table.
fn change_text(engine: &Engine, step: &Step, design: &Design) -> String {
    let text = step.change.to_text(design);
    match step.change.table() {
        Some(table) => with_name(engine.relation(table), design, table, text),
        None => text,
    }
}

fn told(engine: &Engine, it: &Reconfiguration, design: &Design) -> PlanTold {
    let plan = it.plan.steps.iter().map(|step| change_text(engine, step, design));
    let plan: Vec<String> = plan.collect();
    let p99 = |from: Time, to: Time| engine.steering.pulse.lock().measure(from, to).p99_us;
    let until = it.ended.unwrap_or_else(|| engine.database().now());
    PlanTold {
        number: it.number,
        reason: it.plan.reason.clone(),
        state: it.progress.to_string(),
        changes: it.plan.steps.len(),
        made: it.made,
        rows: it.rows,
        bytes: it.bytes,
        begun_us: us(it.begun),
        ended_us: it.ended.map(us),
        error: it.why.clone(),
        plan: plan.join("\n"),
        quiet_p99_us: p99(Time(it.begun.0.saturating_sub(QUIET_NS)), it.begun),
        // With all of its last second.
        p99_us: p99(it.begun, Time(until.0 + SECOND_NS)),
    }
}

/// Notes plans that have begun or ended in the history. `noted` has those that are noted, and
/// whether as ended.
pub(crate) fn note_plans(engine: &Engine, noted: &mut BTreeMap<u64, bool>) {
    if engine.database().is_gateway_only() {
        // The process with the conductor does.
        return;
    }
    let states = isomer_cluster::reconfiguration_states(engine.database());
    noted.retain(|number, _| states.iter().any(|(known, _)| known == number));
    let has_news = |(number, state): &(u64, Progress)| {
        noted.insert(*number, state.has_ended()) != Some(state.has_ended())
    };
    let news: Vec<u64> = states.into_iter().filter(has_news).map(|(number, _)| number).collect();
    if news.is_empty() {
        return;
    }
    for it in &engine.database().reconfigurations() {
        if news.contains(&it.number) {
            let mut plan = told(engine, it, &engine.database().design());
            plan.plan = clipped(&plan.plan);
            engine.chronicle.add(Event::Plan(plan));
        }
    }
}

/// True if this tells of a reconfiguration.
fn is_of(told: &PlanTold, it: &Reconfiguration) -> bool {
    (told.number, told.begun_us) == (it.number, us(it.begun))
}

/// The row of `isomer.reconfigurations`, with the next change and the expected end of a plan that
/// runs.
fn plan_row(
    told: PlanTold,
    (next, ends): (Option<String>, Option<i64>),
    is_reversible: bool,
) -> Vec<Datum> {
    let text = |text: Option<String>| text.map_or(Datum::Null, Datum::Text);
    let time = |us: Option<i64>| us.map_or(Datum::Null, Datum::Timestamp);
    let float = |number: Option<f64>| number.map_or(Datum::Null, Datum::Float);
    vec![
        Datum::Int(told.number as i64),
        Datum::Text(told.reason),
        Datum::Text(told.state),
        Datum::Int(told.changes as i64),
        Datum::Int(told.made as i64),
        Datum::Int(told.rows as i64),
        text(next),
        time(Some(told.begun_us)),
        time(told.ended_us),
        text(told.error),
        Datum::Text(told.plan),
        Datum::Int(told.bytes as i64),
        time(ends),
        float(told.quiet_p99_us),
        float(told.p99_us),
        Datum::Bool(is_reversible),
    ]
}

/// When a plan under way ends, if it goes on at the pace so far.
fn expected_end(it: &Reconfiguration, now: Time) -> Option<Time> {
    let left = it.plan.steps.len().checked_sub(it.made)?;
    let is_known = it.progress == Progress::Running && it.made > 0;
    let each_ns = now.0.saturating_sub(it.begun.0) / it.made.max(1) as u64;
    is_known.then(|| Time(now.0 + each_ns * left as u64))
}

/// The accesses of recent transactions: to partitions that are drained, and at other sites.
fn used_together(
    engine: &Engine,
    design: &Design,
    places: &[(TableId, Key, Placement)],
) -> Vec<BTreeSet<Used>> {
    let numbers: BTreeMap<(TableId, &Key), usize> =
        places.iter().enumerate().map(|(at, (table, start, _))| ((*table, start), at)).collect();
    let recorded = engine.steering.recent.lock().recorded(|_| true);
    let used = |item: &Item| {
        let (part, placement) = design.partition_of(item.table, item.span.start())?;
        let number = numbers.get(&(item.table, &part.start));
        Some(number.map_or(Used::At(placement.master), |number| Used::Partition(*number)))
    };
    recorded.footprints.iter().map(|it| it.items().iter().filter_map(used).collect()).collect()
}

/// The plan that moves everything away from some sites, to others that are reached. It has no
/// changes if they have nothing.
///
/// # Errors
/// 22023 if there is no such site, or no other site.
fn drain(engine: &Engine, drained: &BTreeSet<SiteId>) -> Result<Plan, SqlError> {
    let wrong = |what: String| SqlError::new(code::INVALID_PARAMETER, what);
    let (design, database) = (engine.database().design(), engine.database());
    if let Some(site) = drained.iter().find(|site| !design.sites().contains(**site)) {
        return Err(wrong(format!("there is no site {site}")));
    }
    // In one process each site counts as a process of its own.
    let is_spread = isomer_cluster::is_spread(database);
    let name = |site: SiteId| if is_spread { String::new() } else { site.to_string() };
    let mut others: BTreeMap<SiteId, String> = BTreeMap::new();
    let here = database.sites().into_iter().filter(|report| report.failure.is_none());
    others.extend(here.map(|report| (report.site, name(report.site))));
    for (load, reach) in database.sites_elsewhere() {
        let is_reached = reach.as_ref().is_none_or(|reach| reach.trouble.is_none());
        if is_reached && database.failure(load.site).is_none() {
            others.insert(load.site, reach.map(|reach| reach.node).unwrap_or_default());
        }
    }
    others.retain(|site, _| !drained.contains(site));
    let all: SiteSet = drained.iter().copied().collect();
    if others.is_empty() {
        let shown = all.to_string();
        let error = wrong(format!("no other site is reached that could take what {shown} has"));
        return Err(error.hint("isomer.sites shows the sites and their health."));
    }
    let mut places: Vec<(TableId, Key, Placement)> = Vec::new();
    for (id, table) in design.tables() {
        for (start, placement) in table.partitions().iter() {
            if drained.iter().any(|site| placement.holds(*site)) {
                places.push((id, start.clone(), placement.clone()));
            }
        }
    }
    let copies: Vec<Copies> = places
        .iter()
        .map(|(.., placement)| {
            let replicas = placement.holders().without(placement.master);
            Copies { master: placement.master, replicas: replicas.iter().collect() }
        })
        .collect();
    let reason = isomer_cluster::drain_reason(&all);
    let recent = used_together(engine, &design, &places);
    let moves = isomer_plan::drain::drain(&copies, drained, &others, &recent);
    let steps = places.into_iter().zip(moves).flat_map(|((table, start, _), moves)| {
        let step = |step: Move| match step {
            Move::AddReplica(site) => Change::AddReplica { table, start: start.clone(), site },
            Move::Remaster(to) => Change::Remaster { table, start: start.clone(), to },
            Move::RemoveReplica(site) => {
                Change::RemoveReplica { table, start: start.clone(), site }
            }
        };
        moves.into_iter().map(step).collect::<Vec<_>>()
    });
    let steps = steps.map(|change| Step::new(change, reason.clone())).collect();
    Ok(Plan { reason, steps })
}
