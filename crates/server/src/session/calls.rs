//! CALL: runs the statements of a procedure's body in the session's transaction.
//!
//! ```text
//!   begin; call pay(1, 2, 10); commit
//!
//!   arguments   evaluated once, as a statement of their own
//!   body        compiled as a whole; errors are those "during startup"
//!   statement 1, statement 2, ..   as if the client had sent them: each with the snapshot and the
//!               retries of its isolation level; each sees the writes of those before it
//!   rows        of a SELECT are dropped; notices and settings reach the client
//! ```
//!
//! An error ends the CALL. Its context names the procedure and the statement, for each CALL that is
//! running. Outside of a block a CALL is one transaction, which the server repeats as it repeats
//! a single statement: because rows have moved, or because its commit has met a conflict. The
//! arguments are then evaluated again.
//!
//! A session keeps the plans of the bodies that it has called, for one version of the catalog.
//!
//! Left out: transaction control in a body, and the results of its SELECTs.

use super::{Call, Flush, PlanAgain, RUNS_MAX, Session};
use crate::tally::RolledBack;
use crate::wire::{Formats, Out};
use isomer_sql::budget::Holding;
use isomer_sql::catalog::{Catalog, Procedure};
use isomer_sql::datum::Datum;
use isomer_sql::statement::{
    Action, BodyStatement, Places, ProcedureCall, Unplaced, compile_body, compile_of_body, places,
};
use isomer_sql::{SqlError, code};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How deep procedures may call each other.
const DEPTH_MAX: usize = 64;

/// The most bodies whose plans a session keeps.
const BODIES_MAX: usize = 100;

/// The plans of the bodies that a session has called.
#[derive(Default)]
pub(super) struct Bodies {
    /// The version of the catalog that they are for.
    version: u64,
    all: BTreeMap<u32, (Arc<[BodyStatement]>, Holding)>,
}

/// Drops the rows of a statement, and keeps its messages to the client.
#[derive(Default)]
struct Unseen {
    told: Vec<u8>,
}

impl Unseen {
    /// Takes the notices and the settings out of the output, and drops the rest.
    fn take(&mut self, out: &mut Out) {
        let mut rest = &out.bytes[..];
        while let Some(length) = rest.get(1..5).and_then(|bytes| bytes.try_into().ok()) {
            let (message, next) = rest.split_at(i32::from_be_bytes(length) as usize + 1);
            if matches!(message[0], b'N' | b'S') {
                self.told.extend_from_slice(message);
            }
            rest = next;
        }
        // The statement may still be repeated from its beginning.
        out.back_to(0);
    }
}

impl Flush for Unseen {
    fn flush_some(&mut self, out: &mut Out) -> Result<(), SqlError> {
        self.take(out);
        Ok(())
    }
}

/// Runs a CALL.
pub(super) fn run(session: &mut Session, call: Call<'_>, out: &mut Out) -> Result<(), SqlError> {
    let (mark, numbers) = (out.mark(), session.numbers.borrow().mark());
    let is_alone = session.txn.is_none();
    for run in 1.. {
        let Err(error) = within(session, call, 0, out) else { break };
        let may_again = is_alone && error.code == code::SERIALIZATION && run < RUNS_MAX;
        if !may_again || !out.back_to(mark) {
            return Err(error);
        }
        session.txn.take().into_iter().for_each(|backend| backend.end(RolledBack::Repeated));
        session.numbers_back_to(&numbers);
    }
    out.complete("CALL");
    Ok(())
}

/// Runs a CALL inside of others.
fn within(
    session: &mut Session,
    call: Call<'_>,
    depth: usize,
    out: &mut Out,
) -> Result<(), SqlError> {
    session.memory.statement.deeper()?;
    if depth >= DEPTH_MAX {
        let message = format!("procedures call each other more than {DEPTH_MAX} levels deep");
        return Err(SqlError::new(code::TOO_COMPLEX, message)
            .hint("A procedure that calls itself needs a way out: its statements have no IF."));
    }
    session.begin_statement()?;
    let catalog = session.catalog();
    let compiled = session.plan(call, &catalog)?;
    let Action::Call(plan) = &compiled.action else {
        return Err(crate::engine::damaged("a CALL is another statement now"));
    };
    let around = session.surroundings();
    let backend = session.backend();
    backend.planned_for = compiled.version;
    let values = ProcedureCall::values(plan, backend, call.params, &around, &catalog)?;
    let procedure = &plan.procedure;
    let name = &procedure.name.name;
    let body = body(session, procedure, &catalog)
        .map_err(|error| because(error, format!("SQL function \"{name}\" during startup")))?;
    for (at, statement) in body.iter().enumerate() {
        statement_of(session, (procedure, statement), &values, depth, out).map_err(|error| {
            because(error, format!("SQL function \"{name}\" statement {}", at + 1))
        })?;
    }
    Ok(())
}

fn statement_of(
    session: &mut Session,
    (procedure, statement): (&Arc<Procedure>, &BodyStatement),
    params: &[Datum],
    depth: usize,
    out: &mut Out,
) -> Result<(), SqlError> {
    let budget = session.memory.statement.clone();
    let again: PlanAgain<'_> = &|catalog| {
        let compiled = compile_of_body(procedure, &statement.parsed, catalog, &budget);
        compiled.map(Arc::new).map_err(SqlError::nowhere)
    };
    let (compiled, formats) = (&statement.compiled, &Formats::default());
    let call = Call::new(compiled, again, params, formats);
    if let Action::Call(_) = compiled.action {
        return within(session, call, depth + 1, out);
    }
    let (mut own, mut unseen, mark) = (Out::default(), Unseen::default(), budget.mark());
    let done = session.query(call, &mut own, &mut unseen);
    budget.back_to(mark);
    unseen.take(&mut own);
    out.made(&unseen.told);
    done
}

/// The rows of a CALL, if those of all statements are known before it runs.
pub(super) fn places_of(
    session: &mut Session,
    plan: &ProcedureCall,
    params: &[Datum],
    catalog: &Catalog,
) -> Result<Places, Unplaced> {
    let around = session.surroundings();
    // If an argument or the body has an error, the CALL fails where it runs.
    let values = plan.values_alone(params, &around, catalog)?;
    let body = body(session, &plan.procedure, catalog).map_err(|_| Unplaced::Rows)?;
    let mut all = Places { has_others: true, ..Places::default() };
    for statement in body.iter() {
        all.add(places(&statement.compiled, &values, &around, catalog)?);
    }
    if all.spans.is_empty() { Err(Unplaced::Rows) } else { Ok(all) }
}

/// The plans of a procedure's body for a catalog.
fn body(
    session: &mut Session,
    procedure: &Arc<Procedure>,
    catalog: &Catalog,
) -> Result<Arc<[BodyStatement]>, SqlError> {
    if session.bodies.version != catalog.version {
        session.bodies = Bodies { version: catalog.version, all: BTreeMap::new() };
    }
    if let Some((body, _)) = session.bodies.all.get(&procedure.oid) {
        return Ok(body.clone());
    }
    let budget = session.memory.statement.clone();
    let before = budget.mark();
    let body: Arc<[BodyStatement]> = compile_body(procedure, catalog, &budget)?.into();
    let bytes = budget.mark() - before;
    // Without memory for it, the next call compiles the body again.
    if session.bodies.all.len() < BODIES_MAX
        && let Ok(kept) = session.memory.session.keep(bytes)
    {
        session.bodies.all.insert(procedure.oid, (body.clone(), kept));
    }
    Ok(body)
}

/// Adds a line to the context of an error.
fn because(error: SqlError, line: String) -> SqlError {
    let before = error.about.as_ref().map(|about| about.context.clone());
    let context = match before.filter(|before| !before.is_empty()) {
        Some(before) => format!("{before}\n{line}"),
        None => line,
    };
    error.nowhere().context(context)
}
