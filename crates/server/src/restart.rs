//! ALTER SYSTEM RESTART: a process of the cluster begins anew, as `isomer cluster restart --only`
//! makes it.
//!
//! ```text
//!   ALTER SYSTEM RESTART NODE 'b'
//!     whole?     every site works, and no backup is missing
//!     masters    partitions of b with a copy at another process are mastered there
//!     restart    b lets transactions end, closes its database, and begins as the program that is
//!                installed then
//! ```
//!
//! A process starts itself again, so that takes no supervisor. The layer above knows the processes
//! ([`Restarts`]); without it, as in an embedded database, the statement is refused. It ends when
//! the process has been asked, so it can be about the process that runs it.

use crate::backend::database;
use crate::engine::Engine;
use crate::limits::ended;
use crate::processes::Restarts;
use crate::proposals::check_changes_are_on;
use isomer_cluster::{CancelReason, CancelToken};
use isomer_design::{Change, Plan, SiteId, Step};
use isomer_sql::budget::Budget;
use isomer_sql::datum::Datum;
use isomer_sql::system::DesignView;
use isomer_sql::{SqlError, code};
use std::collections::BTreeSet;
use std::time::Duration;

/// The interval of looks at the plan that moves masterships.
const LOOK: Duration = Duration::from_millis(20);
/// The columns of `isomer.reconfigurations`: the number, the state and the error.
const NUMBER: usize = 0;
const STATE: usize = 2;
const ERROR: usize = 9;

/// From now on SQL can restart processes.
pub fn let_restart(engine: &Engine, restarts: Restarts) {
    // A successor of the conductor sets it again, for the same process.
    let _ = engine.restarts.set(restarts);
}

/// Restarts this process, or that of a name.
///
/// # Errors
/// 55000 if it is unknown, or something is missing in the cluster; then nothing is restarted.
pub(crate) fn restart(
    engine: &Engine,
    name: Option<&str>,
    cancel: &CancelToken,
    told: &mut dyn FnMut(SqlError),
) -> Result<(), SqlError> {
    let not_ready = |message: String| SqlError::new(code::NOT_READY, message);
    let Some(restarts) = engine.restarts.get() else {
        let error = not_ready("this process cannot restart itself".to_owned());
        return Err(error.hint("Only processes of isomer serve and isomer node do that."));
    };
    let others = (restarts.others)();
    let is_own = name.is_none() || name == restarts.name.as_deref();
    if let Some(name) = name.filter(|_| !is_own)
        && !others.iter().any(|other| other == name)
    {
        let all: Vec<&str> =
            restarts.name.iter().chain(&others).map(|known| known.as_str()).collect();
        let error = not_ready(format!("there is no process \"{name}\""));
        return Err(match all.is_empty() {
            true => error.hint("ALTER SYSTEM RESTART restarts this one, which is the only one."),
            false => error.hint(format!("There are: {}.", all.join(", "))),
        });
    }
    if !others.is_empty() {
        if let Some(missing) = missing(engine) {
            let hint = "A restart now could leave partitions without a copy.";
            return Err(not_ready(format!("nothing was restarted: {missing}")).hint(hint));
        }
        leave(engine, name.filter(|_| !is_own), cancel, told)?;
    }
    let asked = (restarts.ask)(name.filter(|_| !is_own));
    asked.map_err(|why| not_ready(format!("nothing was restarted: {why}")))
}

/// The first thing that is missing in the cluster.
fn missing(engine: &Engine) -> Option<String> {
    let database = engine.database();
    for report in database.sites() {
        if let Some(why) = report.failure {
            return Some(format!("site {} has failed: {why}", report.site));
        }
    }
    for (load, reach) in database.sites_elsewhere() {
        let trouble = reach.and_then(|reach| reach.trouble);
        if let Some(why) = trouble {
            return Some(format!("site {} is not reached: {why}", load.site));
        }
        if let Some(why) = database.failure(load.site) {
            return Some(format!("site {} has failed: {why}", load.site));
        }
    }
    let lacking = database.backups_missing();
    (lacking > 0).then(|| format!("{lacking} backups of partitions are missing"))
}

/// Makes other processes the masters of what a process masters, where they have copies.
fn leave(
    engine: &Engine,
    name: Option<&str>,
    cancel: &CancelToken,
    told: &mut dyn FnMut(SqlError),
) -> Result<(), SqlError> {
    let (database_of, design) = (engine.database(), engine.database().design());
    let own: BTreeSet<SiteId> = match name {
        None => database_of.sites().iter().map(|report| report.site).collect(),
        Some(name) => {
            let elsewhere = database_of.sites_elsewhere().into_iter();
            let at = elsewhere
                .filter(|(_, reach)| reach.as_ref().is_some_and(|reach| reach.node == name));
            at.map(|(load, _)| load.site).collect()
        }
    };
    let (mut steps, mut alone) = (Vec::new(), 0);
    for (table, found) in design.tables().filter(|(_, it)| isomer_cluster::follows_plans(it)) {
        for (start, placement) in found.partitions().iter() {
            if !own.contains(&placement.master) {
                continue;
            }
            match placement.holders().iter().find(|site| !own.contains(site)) {
                Some(to) => {
                    let change = Change::Remaster { table, start: start.clone(), to };
                    steps.push(Step::new(change, "its process restarts"));
                }
                None => alone += 1,
            }
        }
    }
    if alone > 0 {
        let message = format!(
            "{alone} partitions have no copy elsewhere, and wait until the process is back"
        );
        told(SqlError::new("00000", message));
    }
    if steps.is_empty() {
        return Ok(());
    }
    check_changes_are_on(engine)?;
    let reason = "a process restarts".to_owned();
    let number = database_of.reconfigure(Plan { reason, steps }).map_err(database)?;
    loop {
        let budget = Budget::unlimited();
        let rows = engine.rows("reconfigurations", &engine.catalog(), &budget)?;
        let is_it =
            |row: &&Vec<Datum>| matches!(row[NUMBER], Datum::Int(at) if at == number as i64);
        let row = rows.iter().find(is_it);
        let state = row.and_then(|row| row[STATE].as_text().map(str::to_owned));
        match state.as_deref() {
            None | Some("done") => return Ok(()),
            Some("failed" | "cancelled") => {
                let why = row.and_then(|row| row[ERROR].as_text()).unwrap_or_default();
                let message = format!("nothing was restarted: plan {number} has failed: {why}");
                return Err(SqlError::new(code::NOT_READY, message));
            }
            Some(_) => {}
        }
        if let Some(why) = cancel.over() {
            return Err(ended(why));
        }
        if engine.gateway().pause(cancel, LOOK).is_err() {
            return Err(ended(cancel.over().unwrap_or(CancelReason::Asked)));
        }
    }
}
