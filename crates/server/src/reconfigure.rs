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
use crate::engine::Engine;
use crate::proposals::check_changes_are_on;
use isomer_cluster::{Control, Progress, Reconfiguration};
use isomer_design::{Change, Design, Plan, SiteId, SiteSet, Step, Time};
use isomer_plan::drain::{Copies, Move};
use isomer_sql::datum::Datum;
use isomer_sql::parse::Reconfigure;
use isomer_sql::{SqlError, code};
use std::collections::{BTreeMap, BTreeSet};

const SECOND_NS: u64 = 1_000_000_000;
/// The time before a plan with which it is compared.
const QUIET_NS: u64 = 60 * SECOND_NS;
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
                let plan = Plan::parse(&self.stored_names(&design, plan), &design, REASON)
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

    /// Replaces the SQL names of tables and indexes in a plan by those of store tables.
    pub(crate) fn stored_names(&self, design: &Design, plan: &str) -> String {
        let catalog = self.catalog();
        let stored = |name: &str| {
            let mut tables = catalog.tables.values();
            let id = tables.find_map(|table| table.part_labelled(name))?;
            design.table(id).ok().map(|table| table.name().to_owned())
        };
        let line = |line: &str| {
            let (operator, rest) = line.trim().split_once(' ')?;
            let name = &rest[..rest.find(['[', ' ']).unwrap_or(rest.len())];
            Some(format!("{operator} {}{}", stored(name)?, &rest[name.len()..]))
        };
        let lines = plan.lines().map(|text| line(text).unwrap_or_else(|| text.to_owned()));
        lines.collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn reconfiguration_rows(&self) -> Vec<Vec<Datum>> {
        let design = self.database().design();
        let all = self.database().reconfigurations();
        all.iter().map(|it| self.reconfiguration_row(it, &design)).collect()
    }

    fn reconfiguration_row(&self, it: &Reconfiguration, design: &Design) -> Vec<Datum> {
        let change = |step: &Step| {
            let text = step.change.to_text(design);
            match step.change.table() {
                Some(table) => self.with_name(design, table, text),
                None => text,
            }
        };
        let time = |time: Time| Datum::Timestamp((time.0 / 1000) as i64);
        let plan: Vec<String> = it.plan.steps.iter().map(change).collect();
        let p99 = |from: Time, to: Time| {
            let measure = self.steering.pulse.lock().measure(from, to);
            measure.p99_us.map_or(Datum::Null, Datum::Float)
        };
        let until = it.ended.unwrap_or_else(|| self.database().now());
        vec![
            Datum::Int(it.number as i64),
            Datum::text(&*it.plan.reason),
            Datum::Text(it.progress.to_string()),
            Datum::Int(it.plan.steps.len() as i64),
            Datum::Int(it.made as i64),
            Datum::Int(it.rows as i64),
            it.due().map_or(Datum::Null, |step| Datum::Text(change(step))),
            time(it.begun),
            it.ended.map_or(Datum::Null, time),
            it.why.as_deref().map_or(Datum::Null, Datum::text),
            Datum::Text(plan.join("\n")),
            Datum::Int(it.bytes as i64),
            expected_end(it, self.database().now()).map_or(Datum::Null, time),
            p99(Time(it.begun.0.saturating_sub(QUIET_NS)), it.begun),
            // With all of its last second.
            p99(it.begun, Time(until.0 + SECOND_NS)),
        ]
    }
}

/// When a plan under way ends, if it goes on at the pace so far.
fn expected_end(it: &Reconfiguration, now: Time) -> Option<Time> {
    let left = it.plan.steps.len().checked_sub(it.made)?;
    let is_known = it.progress == Progress::Running && it.made > 0;
    let each_ns = now.0.saturating_sub(it.begun.0) / it.made.max(1) as u64;
    is_known.then(|| Time(now.0 + each_ns * left as u64))
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
    let mut places = Vec::new();
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
    let moves = isomer_plan::drain::drain(&copies, drained, &others);
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
