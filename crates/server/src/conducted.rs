//! Questions of gateways that only the process with the conductor can answer.
//!
//! ```text
//!   b: SELECT .. FROM isomer.decisions ──── rows of "decisions" ───▶ a: the strategy's journal
//!   b: ALTER SYSTEM APPROVE 3 ───────────── approve 3, by joe ─────▶ a: the proposals
//! ```
//!
//! The journal of the strategy, proposals, running changes and the histories are in the memory of
//! that process. Views of them have the same rows at every gateway, and so has `pg_locks`, because
//! the lock table is there. Sessions are those of all gateways ([`crate::everywhere`]). Other views
//! show what the asked process knows: its statements, its sites.

use crate::advice;
use crate::backend::database;
use crate::cells::Cell;
use crate::copies;
use crate::engine::questions::{Question, Reply, ToldLock, ask, locks};
use crate::engine::{Engine, state};
use crate::proposals;
use isomer_cluster::{CancelToken, Error};
use isomer_sql::SqlError;
use isomer_sql::budget::Budget;
use isomer_sql::datum::Datum;
use isomer_sql::system::DesignView;
use std::time::Duration;

/// The views of schema `isomer` whose rows the conductor's process has.
const VIEWS: [&str; 12] = [
    "advice",
    "shard_keys",
    "changes",
    "jobs",
    "reconfigurations",
    "benefit",
    "autopilot",
    "decisions",
    "proposals",
    "heat",
    "failovers",
    "gateways",
];

/// The longest wait for another process's rows.
const WAITS_NS: u64 = 10_000_000_000;
/// The pause before another attempt.
const AGAIN: Duration = Duration::from_millis(100);

/// The rows of a view, if another process has them. Waits while that cannot be reached, for as long
/// as statements wait for a takeover.
///
/// # Errors
/// 57P03 if it is not reached in time; 57014 and similar if the statement was cancelled.
pub(crate) fn rows_elsewhere(
    engine: &Engine,
    view: &str,
    budget: &Budget,
) -> Result<Option<Vec<Vec<Datum>>>, SqlError> {
    let (begun, cancel) = (engine.database().now(), CancelToken::default());
    while engine.database().is_gateway_only() && VIEWS.contains(&view) {
        if let Ok(Reply::Rows(rows)) = ask(engine.database(), &Question::Rows(view.to_owned())) {
            let row = |row: Vec<Cell>| row.into_iter().map(Cell::datum).collect();
            return Ok(Some(rows.into_iter().map(row).collect()));
        }
        if engine.database().now().0.saturating_sub(begun.0) > WAITS_NS {
            let message = format!("the rows of isomer.{view} are not reached now");
            return Err(SqlError::new("57P03", message)
                .detail("The process with the conductor has them, and does not answer."));
        }
        budget.check()?;
        // This token is never cancelled; the budget knows whether the statement is.
        let _ = engine.gateway().pause(&cancel, AGAIN);
    }
    Ok(None)
}

/// Answers a gateway of another process.
pub(crate) fn answer(engine: &Engine, question: &[u8]) -> Reply {
    let refused = |error: SqlError| Reply::Refused(error.message, error.detail, error.hint);
    let done = |done: Result<(), SqlError>| done.map_or_else(refused, |()| Reply::Done);
    match serde_json::from_slice(question) {
        Ok(Question::State) => Reply::State(state(engine)),
        Ok(Question::Rows(view)) if VIEWS.contains(&&*view) => {
            let budget = Budget::unlimited();
            let row = |row: Vec<Datum>| row.into_iter().map(Cell::of).collect();
            DesignView::rows(engine, &view, &engine.catalog(), &budget)
                .map_or_else(refused, |rows| Reply::Rows(rows.into_iter().map(row).collect()))
        }
        Ok(Question::Approve(number, by)) => done(proposals::approve(engine, number, &by)),
        Ok(Question::Reject(number, by, because)) => {
            done(proposals::reject(engine, number, &by, because.as_deref()))
        }
        Ok(Question::Propose(plan, because, by)) => {
            done(advice::propose(engine, &plan, because.as_deref(), &by))
        }
        Ok(Question::ProposeStatement(table, statement, by)) => {
            done(advice::propose_statement(engine, (table, statement), &by))
        }
        Ok(Question::Locks) => {
            Reply::Locks(locks(engine.gateway()).iter().map(ToldLock::of).collect())
        }
        Ok(Question::Load) => Reply::Load(copies::load(engine)),
        Ok(Question::Blockers(of)) => Reply::Blockers(engine.gateway().blockers(of)),
        Ok(Question::Rows(_)) | Err(_) => {
            refused(database(Error::AtConductor("the question is not understood".to_owned())))
        }
    }
}

/// The gateways, as the conductor sees them. Its own comes first.
pub(crate) fn gateway_rows(engine: &Engine) -> Vec<Vec<Datum>> {
    let name = engine.database().others().name();
    let own = vec![
        if name.is_empty() { Datum::Null } else { Datum::Text(name) },
        Datum::Bool(true),
        Datum::Float(0.0),
        Datum::Int(0),
        Datum::Int(engine.gateway().waiting() as i64),
        Datum::Int(0),
    ];
    let row = |seat: isomer_cluster::gateways::SeatShown| {
        vec![
            Datum::Text(seat.name),
            Datum::Bool(false),
            Datum::Float(seat.silent_ns as f64 / 1e6),
            Datum::Int(seat.behind as i64),
            Datum::Int(seat.waits as i64),
            Datum::Int(seat.misses as i64),
        ]
    };
    let others = engine.database().others().seats().into_iter().map(row);
    std::iter::once(own).chain(others).collect()
}
