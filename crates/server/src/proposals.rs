//! Proposals in SQL: `isomer.proposals`, and what an operator says to one of them.
//!
//! ```text
//!   ALTER SYSTEM SET autopilot = approve
//!   SELECT * FROM isomer.proposals
//!   ALTER SYSTEM APPROVE PROPOSAL 3       tried on the design as it is, then a reconfiguration
//!   ALTER SYSTEM REJECT PROPOSAL 4 BECAUSE 'the load ends at noon'
//!   ALTER SYSTEM PROPOSE 'split t at 5' BECAUSE 'hot'   an operator's plan, for another's approval
//!   ALTER SYSTEM SET design_changes = off   no further change begins
//! ```

use crate::backend::database;
use crate::engine::Engine;
use crate::engine::questions::{Question, Reply, ask};
use crate::pilot::Decider;
use crate::plan_names::with_name;
use isomer_cluster::{Control, Progress, is_permitted};
use isomer_design::{Design, Time};
use isomer_plan::proposals::{Dropped, PENDING_MAX, Proposal, State, Wrong, possible};
use isomer_plan::pulse::Measure;
use isomer_sql::catalog::{Catalog, Handle, Table, quoted};
use isomer_sql::datum::Datum;
use isomer_sql::{SqlError, code};
use std::sync::Arc;

/// The changes of a proposal that are shown.
const CHANGES_SHOWN: usize = 1000;

/// Why no change begins.
pub(crate) fn changes_are_off() -> SqlError {
    SqlError::new(code::NOT_READY, "changes of the design are turned off")
        .hint("ALTER SYSTEM SET design_changes = on lets them begin again.")
}

fn wrong(number: u64, wrong: Wrong) -> SqlError {
    let message = match wrong {
        Wrong::Unknown => format!("there is no proposal {number}"),
        Wrong::Gone => format!("proposal {number} is not open any more"),
        Wrong::State(State::Refused(why)) => format!("proposal {number} is refused: {why}"),
        Wrong::State(state) => format!("proposal {number} is {}", state.name()),
    };
    SqlError::new(code::NOT_READY, message).hint("isomer.proposals shows those that wait.")
}

/// Carries a proposal out as a reconfiguration, if the design as it is permits it.
///
/// # Errors
/// 55000 if the proposal does not wait, or cannot be carried out any more, or changes are
/// turned off.
pub(crate) fn approve(engine: &Engine, number: u64, by: &str) -> Result<(), SqlError> {
    check_changes_are_on(engine)?;
    if engine.database().is_gateway_only() {
        return at_conductor(engine, &Question::Approve(number, by.to_owned()));
    }
    check_free(engine, number)?;
    let now = engine.database().now();
    let approved = engine.steering.proposals.lock().approve(now, number, by);
    let proposal = approved.map_err(|why| wrong(number, why))?;
    if let Some(why) = overtaken(engine, &engine.database().design(), &proposal) {
        engine.steering.proposals.lock().started(number, Err(why.clone()));
        return Err(refused(number, &why));
    }
    let Proposal { plan, statement, by: proposer, decision, .. } = proposal;
    engine.steering.weigh(now);
    if let Some(statement) = statement {
        engine.steering.proposals.lock().runs(number);
        engine.steering.approved.lock().push((number, statement));
        return Ok(());
    }
    let design = engine.database().design();
    if let Decider::Learned(learned) = engine.autopilot() {
        learned.approved(now, &design, &plan, decision);
    }
    // A strategy does not know where sites fail together, so it may drop a copy that is a backup.
    let mut plan = match proposer {
        Some(_) => plan,
        None => {
            let is_permitted =
                |design: &_, change: &_| is_permitted(engine.database(), design, change);
            possible(plan, &design, is_permitted)
        }
    };
    if plan.is_empty() {
        let why = "none of its changes is possible any more".to_owned();
        engine.steering.proposals.lock().started(number, Err(why.clone()));
        return Err(refused(number, &why));
    }
    plan.reason = format!("proposal {number}, approved by {by}");
    let started = engine.database().reconfigure(plan).map_err(database);
    let outcome = started.as_ref().map(|number| *number).map_err(|error| error.message.clone());
    engine.steering.proposals.lock().started(number, outcome);
    started.map(drop).map_err(|error| refused(number, &error.message))
}

/// The answer to the approval of a proposal that is refused.
fn refused(number: u64, why: &str) -> SqlError {
    let message = format!("proposal {number} cannot be carried out on the design as it is");
    SqlError::new(code::NOT_READY, message)
        .detail(format!("{why}."))
        .hint("Where the load still asks for a change, another proposal comes.")
}

/// Lets a proposal wait while a reconfiguration changes one of its tables.
fn check_free(engine: &Engine, number: u64) -> Result<(), SqlError> {
    let proposals = engine.steering.proposals.lock();
    let Some(proposal) = proposals.all().find(|it| it.number == number) else { return Ok(()) };
    let tables = proposal.tables();
    drop(proposals);
    let running = engine.database().reconfigurations().into_iter().filter(|it| !it.has_ended());
    match running.into_iter().find(|it| !it.tables().is_disjoint(&tables)) {
        Some(other) => {
            let message = format!(
                "proposal {number} waits: reconfiguration {} changes one of its tables",
                other.number
            );
            let hint = "Approve it when that has ended.";
            Err(SqlError::new(code::NOT_READY, message).hint(hint))
        }
        None => Ok(()),
    }
}

/// Why a proposal cannot be carried out, if a table of it is not as it was when it was proposed.
fn overtaken(engine: &Engine, design: &Design, proposal: &Proposal) -> Option<String> {
    let catalog = engine.catalog();
    proposal.tables().into_iter().find_map(|id| {
        let table = catalog.tables.with(Handle::Part(id)).next();
        let name = engine.relation(id).map_or_else(|| id.to_string(), |name| name.said());
        match (table, &proposal.statement) {
            (Some(table), Some(statement)) => (!statement.starts_with(&distributes(table)))
                .then(|| format!("the table is called {name} now")),
            (None, Some(statement)) if is_so_already(&catalog, statement) => {
                Some("the table is distributed so already".to_owned())
            }
            _ if design.table(id).is_err() => {
                Some(format!("{name} was dropped, or distributed in another way, since"))
            }
            _ => None,
        }
    })
}

/// True for a statement that gives a table the shard key that it has.
fn is_so_already(catalog: &Catalog, statement: &str) -> bool {
    let is_its = |table: &Arc<Table>| {
        let slots = table.key_slots();
        let name = |at: &usize| table.columns[*at].name.clone();
        let columns: Vec<String> = slots.iter().map(name).collect();
        (1..=columns.len()).any(|most| shard_statement(table, &columns[..most]) == statement)
    };
    catalog.tables.values().any(is_its)
}

/// The statement that distributes a table by other columns.
pub(crate) fn shard_statement(table: &Table, columns: &[String]) -> String {
    let columns: Vec<String> = columns.iter().map(|name| quoted(name)).collect();
    format!("{}({})", distributes(table), columns.join(", "))
}

/// The beginning of such a statement.
fn distributes(table: &Table) -> String {
    format!("ALTER TABLE {} SHARD BY ", table.full_name().written())
}

/// The outcome of a proposal by an operator, as an error where there is none.
pub(crate) fn proposed(taken: Result<u64, Dropped>) -> Result<(), SqlError> {
    let message = match taken {
        Ok(_) => return Ok(()),
        Err(Dropped::Empty) => "the plan has no changes".to_owned(),
        Err(Dropped::Sites) => "a proposal cannot add or remove sites".to_owned(),
        Err(Dropped::Full) => format!("{PENDING_MAX} proposals wait for a decision already"),
        Err(Dropped::Open(number) | Dropped::Rejected(number)) => {
            format!("proposal {number} changes the same partitions, and is open")
        }
    };
    Err(SqlError::new(code::NOT_READY, message).hint("isomer.proposals shows those that wait."))
}

/// Runs the statements of approved proposals, each by `run` on a thread of its own.
pub(crate) fn run_approved(
    engine: &Arc<Engine>,
    run: impl Fn(String, Box<dyn FnOnce(Result<(), String>) + Send>),
) {
    let approved = std::mem::take(&mut *engine.steering.approved.lock());
    for (number, statement) in approved {
        let of = engine.clone();
        let ended = move |ended: Result<(), String>| {
            let ended = ended.map(|()| of.database().now());
            of.steering.proposals.lock().has_run(number, ended);
        };
        run(statement, Box::new(ended));
    }
}

/// Has the conductor's process decide about a proposal.
pub(crate) fn at_conductor(engine: &Engine, question: &Question) -> Result<(), SqlError> {
    match ask(engine.database(), question).map_err(database)? {
        Reply::Refused(message, detail, hint) => {
            Err(SqlError { detail, hint, ..SqlError::new(code::NOT_READY, message) })
        }
        _ => Ok(()),
    }
}

/// Rejects a proposal. The same is not proposed for a while.
///
/// # Errors
/// 55000 if the proposal does not wait.
pub(crate) fn reject(
    engine: &Engine,
    number: u64,
    by: &str,
    because: Option<&str>,
) -> Result<(), SqlError> {
    if engine.database().is_gateway_only() {
        let because = because.map(str::to_owned);
        let question = Question::Reject(number, by.to_owned(), because);
        return at_conductor(engine, &question);
    }
    let now = engine.database().now();
    let rejected = engine.steering.proposals.lock().reject(now, number, (by, because));
    rejected.map_err(|why| wrong(number, why))
}

/// Turns changes of the design on or off, also after restarts. Off pauses running plans of
/// operators, and drops those of the strategy that wait.
///
/// # Errors
/// 22023 for other values than on and off; errors of the database.
pub(crate) fn set_design_changes(engine: &Engine, value: &str) -> Result<(), SqlError> {
    let on = match value {
        "on" | "true" | "default" => true,
        "off" | "false" => false,
        _ => {
            let name = "design_changes";
            let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
            return Err(SqlError::new(code::INVALID_PARAMETER, message).hint("It is on or off."));
        }
    };
    // The switch works even if its state cannot be kept.
    turn_changes(engine, on);
    if !on {
        for running in engine.database().reconfigurations() {
            if running.progress == Progress::Running {
                // It may end meanwhile.
                let _ = engine.database().control_reconfiguration(running.number, Control::Pause);
            }
        }
    }
    engine.keep_design_changes(on)
}

/// Permits or stops changes of the design, until the server stops.
pub(crate) fn turn_changes(engine: &Engine, on: bool) {
    engine.steering.turn_changes(on);
    engine.database().turn_plans(on);
}

/// # Errors
/// 55000 while changes are turned off.
pub(crate) fn check_changes_are_on(engine: &Engine) -> Result<(), SqlError> {
    if engine.steering.are_changes_off() { Err(changes_are_off()) } else { Ok(()) }
}

/// Ends proposals that wait and are about tables that are not as they were.
fn end_overtaken(engine: &Engine, design: &Design) {
    let waiting: Vec<Proposal> = {
        let proposals = engine.steering.proposals.lock();
        proposals.all().filter(|it| it.state == State::Proposed).cloned().collect()
    };
    for proposal in waiting {
        if let Some(why) = overtaken(engine, design, &proposal) {
            engine.steering.proposals.lock().refuse(proposal.number, why);
        }
    }
}

pub(crate) fn proposal_rows(engine: &Engine) -> Vec<Vec<Datum>> {
    let (design, now) = (engine.database().design(), engine.database().now());
    end_overtaken(engine, &design);
    let reconfigurations = engine.database().reconfigurations();
    let ended = |number: u64| {
        let found = reconfigurations.iter().find(|it| it.number == number);
        let at = found.and_then(|it| it.ended);
        match found.map(|it| (it.progress, &it.why)) {
            // Only reconfigurations that have ended are forgotten.
            None => Some(Ok(now)),
            Some((Progress::Done, _)) => Some(Ok(at.unwrap_or(now))),
            Some((Progress::Cancelled, _)) => Some(Err("it was cancelled".to_owned())),
            Some((Progress::Failed, why)) => Some(Err(why.clone().unwrap_or_default())),
            Some(_) => None,
        }
    };
    let proposals = {
        let mut proposals = engine.steering.proposals.lock();
        proposals.expire(now);
        let decisions = proposals.follow(ended);
        drop(proposals);
        if let Decider::Learned(learned) = engine.autopilot() {
            decisions.into_iter().for_each(|decision| learned.is_over(decision));
        }
        engine.steering.weigh(now);
        let proposals = engine.steering.proposals.lock();
        proposals.all().cloned().collect::<Vec<Proposal>>()
    };
    let time = |time: Time| Datum::Timestamp((time.0 / 1000) as i64);
    let row = |it: &Proposal| {
        let mut changes: Vec<String> = it
            .plan
            .steps
            .iter()
            .take(CHANGES_SHOWN)
            .map(|step| {
                let text = step.change.to_text(&design);
                step.change.table().map_or(text.clone(), |table| {
                    with_name(engine.relation(table), &design, table, text)
                })
            })
            .collect();
        if it.plan.steps.len() > CHANGES_SHOWN {
            changes.push(format!("and {} more", it.plan.steps.len() - CHANGES_SHOWN));
        }
        if let Some(statement) = &it.statement {
            changes.push(statement.clone());
        }
        let mut reasons: Vec<&str> = Vec::new();
        if it.plan.steps.is_empty() {
            reasons.push(&it.plan.reason);
        }
        for step in &it.plan.steps {
            if !reasons.contains(&&*step.reason) && reasons.len() < 4 {
                reasons.push(&step.reason);
            }
        }
        // Without the sign of a zero.
        let [saves, costs] =
            it.forecast.map(|us| us.map_or(Datum::Null, |us| Datum::Float(us + 0.0)));
        let (decided, by, because) = match &it.decided {
            Some((at, by, why)) => {
                (time(*at), Datum::text(&**by), why.as_deref().map_or(Datum::Null, Datum::text))
            }
            None => (Datum::Null, Datum::Null, Datum::Null),
        };
        let (outcome, reconfiguration) = match &it.state {
            State::Refused(why) => (Datum::text(&**why), Datum::Null),
            State::Running(number) | State::Done(number) => {
                (Datum::Null, number.map_or(Datum::Null, |number| Datum::Int(number as i64)))
            }
            _ => (Datum::Null, Datum::Null),
        };
        [
            Datum::Int(it.number as i64),
            Datum::text(it.state.name()),
            time(it.at),
            if it.state == State::Proposed { time(it.expires()) } else { Datum::Null },
            Datum::Text(reasons.join("; ")),
            Datum::Int(it.plan.steps.len().max(usize::from(it.statement.is_some())) as i64),
            Datum::Text(changes.join("\n")),
            saves,
            costs,
            decided,
            by,
            because,
            outcome,
            reconfiguration,
            it.decision.map_or(Datum::Null, |number| Datum::Int(number as i64)),
            it.by.as_deref().map_or(Datum::Null, Datum::text),
        ]
        .into_iter()
        .chain(it.load.iter().flat_map(load_cells))
        .collect()
    };
    proposals.iter().map(row).collect()
}

/// The load before or after a plan: transactions, those at one site in percent, and the mean and
/// the 99th percentile of their durations in microseconds.
fn load_cells(load: &Option<Measure>) -> [Datum; 4] {
    let Some(load) = load else { return [const { Datum::Null }; 4] };
    let float = |value: Option<f64>| value.map_or(Datum::Null, Datum::Float);
    let percent = load.at_one_site.map(|share| 100.0 * share);
    [Datum::Int(load.transactions as i64), float(percent), float(load.mean_us), float(load.p99_us)]
}

/// The heat map as rows: a range and layer each.
pub(crate) fn heat_rows(engine: &Engine) -> Vec<Vec<Datum>> {
    let (design, catalog) = (engine.database().design(), engine.catalog());
    let shown = engine.steering.heat.lock().shown(engine.database().now().0);
    let row = |it: &crate::heat::Shown| {
        let name = catalog.relation(it.table)?;
        let table = design.table(it.table).ok()?;
        let key = |key: &isomer_design::Key| {
            if key.is_empty() { String::new() } else { table.schema().format_key(key) }
        };
        let (part, placement) = design.partition_of(it.table, &it.start)?;
        let list = |way: usize| {
            let counts: Vec<String> = it.columns.iter().map(|cell| cell[way].to_string()).collect();
            Datum::Text(format!("{{{}}}", counts.join(",")))
        };
        Some(vec![
            Datum::Text(name.label()),
            Datum::Text(key(&it.start)),
            it.end.as_ref().map_or(Datum::Null, |end| Datum::Text(key(end))),
            Datum::Text(key(&part.start)),
            Datum::Text(placement.master.to_string()),
            Datum::Timestamp((it.since * 1_000_000) as i64),
            Datum::Int(it.seconds as i64),
            list(0),
            list(1),
        ])
    };
    shown.iter().filter_map(row).collect()
}
