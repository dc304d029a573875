//! EXPLAIN: shows the plan of a statement, and runs it with ANALYZE.

use super::run::Call;
use super::{Flush, Session, ship};
use crate::explain::explain;
use crate::explain::tree::{Property, Value, json, lines};
use crate::limits;
use crate::wire::Out;
use isomer_cluster::open::{reach_of, sites_read};
use isomer_design::SiteId;
use isomer_sql::catalog::Catalog;
use isomer_sql::datum::Datum;
use isomer_sql::plan::OutputColumn;
use isomer_sql::statement::{Action, Compiled, Explains, PlanFormat};
use isomer_sql::zone::Zone;
use isomer_sql::{SqlError, SqlType};
use std::time::Duration;

/// How a call shows its plan instead of its rows, if it does.
pub(super) fn explains_of(call: Call<'_>, compiled: &Compiled) -> Option<Explains> {
    match &compiled.action {
        Action::Explain(_, explains) => Some(*explains),
        _ => call.explains,
    }
}

/// Shows the plan of a statement.
///
/// # Errors
/// 0A000 for a prepared statement without a plan; with ANALYZE, any error of the statement.
pub(super) fn show_plan(
    session: &mut Session,
    call: Call<'_>,
    explains: Explains,
    out: &mut Out,
    flush: &mut dyn Flush,
) -> Result<(), SqlError> {
    let has_plan = matches!(
        call.compiled.explained(),
        Action::Select(_)
            | Action::Insert(_)
            | Action::Update(_)
            | Action::Delete(_)
            | Action::Merge(_)
    );
    if !has_plan {
        return Err(SqlError::unsupported("EXPLAIN of a prepared statement that is no query"));
    }
    if explains.analyzes {
        return session.query(call, out, flush);
    }
    let catalog = session.catalog();
    call.compiled.check(&catalog, &session.identity(&catalog))?;
    let statement = (call.compiled.explained(), &*call.compiled.writing);
    let mut tree = explain(&session.engine, explains, statement, None);
    tree.facts.extend(destination(session, call, "outside of a block"));
    let moved = ship::moved(session, call);
    tree.facts.extend((!moved.is_empty()).then_some(("Moved", Value::Lines(moved))));
    tree.facts.extend(planning_time(call, explains, &catalog)?);
    show(call, explains, &tree, out);
    Ok(())
}

/// Runs a statement, and shows its plan with the counts of its rows.
///
/// # Errors
/// Any error of the statement.
pub(super) fn show_run(
    session: &mut Session,
    call: Call<'_>,
    (compiled, explains): (&Compiled, Explains),
    catalog: &Catalog,
    out: &mut Out,
) -> Result<(), SqlError> {
    let around = session.surroundings();
    let planned = planning_time(call, explains, catalog)?;
    let begun = limits::now();
    let backend = session.backend();
    backend.planned_for = compiled.version;
    let (_, before) = reach_of(&backend.txn);
    let costs = compiled.cost(backend, call.params, &around, catalog)?;
    let took = limits::now().duration_since(begun);
    let (_, after) = reach_of(&backend.txn);
    let sites: Vec<String> = sites_read(&backend.txn).iter().map(SiteId::to_string).collect();
    let statement = (compiled.explained(), &*compiled.writing);
    let mut tree = explain(&session.engine, explains, statement, Some(&costs));
    tree.facts.extend(destination(session, call, "outside of a block and without ANALYZE"));
    // Those of a block include what its earlier statements have read.
    let label = if session.in_block { "Sites Read by the Transaction" } else { "Sites Read" };
    tree.facts.extend((!sites.is_empty()).then_some((label, Value::List(sites))));
    tree.facts.push(("Rows Shipped", Value::Count(after - before)));
    tree.facts.extend(planned);
    tree.facts.extend(explains.has_times.then(|| ("Execution Time", milliseconds(took))));
    show(call, explains, &tree, out);
    Ok(())
}

/// Where a statement would run, and what would choose that.
fn destination(session: &mut Session, call: Call<'_>, when: &str) -> Vec<Property> {
    let named = |name: &'static str, value: Option<String>| {
        value.map(|value| (name, Value::Text(format!("{value}, {when}"))))
    };
    let place = named("Runs At", ship::place(session, call));
    place.into_iter().chain(named("Routed By", ship::router(session, call))).collect()
}

/// How long it takes to plan the statement once more: plans are kept, so the plan that is shown may
/// be older than the statement.
fn planning_time(
    call: Call<'_>,
    explains: Explains,
    catalog: &Catalog,
) -> Result<Option<Property>, SqlError> {
    if !explains.has_times {
        return Ok(None);
    }
    let begun = limits::now();
    (call.again)(catalog)?;
    Ok(Some(("Planning Time", milliseconds(limits::now().duration_since(begun)))))
}

fn milliseconds(time: Duration) -> Value {
    Value::Milliseconds(time.as_secs_f64() * 1000.0)
}

fn show(call: Call<'_>, explains: Explains, tree: &crate::explain::tree::Tree, out: &mut Out) {
    let (ty, rows) = match explains.format {
        PlanFormat::Text => (SqlType::Text, lines(tree)),
        PlanFormat::Json => (SqlType::Json, vec![json(tree)]),
    };
    let output = [OutputColumn { name: "QUERY PLAN".to_owned(), ty, origin: (0, 0) }];
    if call.describes {
        out.row_description(&output, call.formats);
    }
    for row in rows {
        out.row(&[Datum::Text(row)], &output, call.formats, &Zone::utc());
    }
    out.complete("EXPLAIN");
}
