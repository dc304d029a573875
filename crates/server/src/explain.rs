//! EXPLAIN: how a statement finds its rows, where they are, and what it locks.

use crate::engine::Engine;
use isomer_design::{Direction, SiteId};
use isomer_sql::catalog::Table;
use isomer_sql::expr::Expr;
use isomer_sql::plan::{Select, Source, Step};
use isomer_sql::statement::Action;
use std::collections::BTreeSet;

/// The lines of a plan.
pub(crate) fn explain(engine: &Engine, action: &Action) -> Vec<String> {
    let mut lines = Vec::new();
    match action {
        Action::Select(plan) => select(engine, plan, 0, &mut lines),
        Action::Insert(plan) => {
            lines.push(format!("Insert on {}", plan.table.name));
            place(engine, plan.table.id, &plan.table.name, 1, &mut lines);
            lines.push("  locks: the key of each new row".to_owned());
            lines.push(commit(engine, &plan.table));
            for index in &plan.table.indexes {
                lines.push(format!("  keeps index {}", index.name));
            }
            select(engine, &plan.source, 1, &mut lines);
        }
        Action::Update(plan) | Action::Delete(plan) => {
            let verb = if plan.set.is_some() { "Update" } else { "Delete" };
            lines.push(format!("{verb} on {}", plan.table.name));
            step(engine, &plan.step, 1, &mut lines);
            lines.push("  locks: each row found".to_owned());
            lines.push(commit(engine, &plan.table));
        }
        _ => {}
    }
    lines
}

fn select(engine: &Engine, plan: &Select, depth: usize, lines: &mut Vec<String>) {
    let pad = "  ".repeat(depth);
    let mut inner = depth;
    let mut outer = |lines: &mut Vec<String>, what: String| {
        lines.push(format!("{}{what}", "  ".repeat(inner)));
        inner += 1;
    };
    if plan.limit.is_some() || plan.offset.is_some() {
        outer(lines, "Limit".to_owned());
    }
    if let Some(lock) = plan.lock {
        outer(lines, format!("Lock rows, {}", if lock.shared { "shared" } else { "exclusive" }));
    }
    if !plan.order.is_empty() && !plan.sorted {
        outer(lines, "Sort".to_owned());
    }
    if plan.distinct {
        outer(lines, "Unique".to_owned());
    }
    if let Some(group) = &plan.group {
        outer(
            lines,
            format!("Group by {} keys, {} aggregates", group.keys.len(), group.aggregates.len()),
        );
    }
    if plan.steps.is_empty() {
        lines.push(format!("{pad}Result"));
    }
    for (at, one) in plan.steps.iter().enumerate() {
        step(engine, one, inner + at, lines);
    }
    for (other, _) in &plan.union {
        select(engine, other, depth + 1, lines);
    }
}

fn step(engine: &Engine, step: &Step, depth: usize, lines: &mut Vec<String>) {
    let pad = "  ".repeat(depth);
    let join = match (step.left, step.right) {
        (true, true) => "Full join, ",
        (true, false) => "Left join, ",
        (false, true) => "Right join, ",
        (false, false) => "",
    };
    match &step.source {
        Source::Table(table) => {
            let by = match &step.access.index {
                Some(index) => format!("index {}", index.name),
                None => format!("key of {}", table.name),
            };
            let how = match step.access.spans.as_slice() {
                [] if !step.hash.is_empty() && depth > 0 => "All rows, by a hash,".to_owned(),
                [] => "All rows".to_owned(),
                [span] if span.each.is_some() => format!("Rows by {by}, a span for each element"),
                [span]
                    if span.prefix.len() == table.key_slots().len()
                        && step.access.index.is_none() =>
                {
                    format!("Row by {by}")
                }
                [_] => format!("Rows by {by}"),
                spans => format!("Rows by {by}, {} spans", spans.len()),
            };
            let way = match step.access.way {
                Direction::Forward => "",
                Direction::Backward => ", backward",
            };
            lines.push(format!("{pad}{join}{how} on {}{way}", table.name));
            if let Some(span) = step.access.spans.first() {
                let mut parts: Vec<String> = span.prefix.iter().map(show).collect();
                if span.lower.is_some() || span.upper.is_some() {
                    let from = span.lower.as_ref().map_or(String::new(), |(expr, _)| show(expr));
                    let to = span.upper.as_ref().map_or(String::new(), |(expr, _)| show(expr));
                    parts.push(format!("{from}..{to}"));
                }
                lines.push(format!("{pad}  span: [{}]", parts.join(", ")));
            }
            place(engine, table.id, &table.name, depth + 1, lines);
        }
        Source::System(system) => lines.push(format!("{pad}{join}System table {system:?}")),
        Source::Query(query) => {
            lines.push(format!("{pad}{join}Query"));
            select(engine, query, depth + 1, lines);
        }
        Source::Values(rows) => lines.push(format!("{pad}{join}Values, {} rows", rows.len())),
        Source::Elements(..) => lines.push(format!("{pad}{join}Elements of an array")),
        Source::Series(_) => lines.push(format!("{pad}{join}Series")),
    }
}

/// The route: which sites master the table's partitions.
fn place(
    engine: &Engine,
    id: isomer_design::TableId,
    name: &str,
    depth: usize,
    lines: &mut Vec<String>,
) {
    let design = engine.database().design();
    let Ok(table) = design.table(id) else { return };
    let mut sites: Vec<String> =
        table.partitions().iter().map(|(_, placement)| placement.master.to_string()).collect();
    let partitions = sites.len();
    sites.sort();
    sites.dedup();
    let pad = "  ".repeat(depth);
    lines.push(format!("{pad}route: {name} has {partitions} partitions at {}", sites.join(" ")));
}

/// Where a change of the table and its indexes commits.
fn commit(engine: &Engine, table: &Table) -> String {
    let design = engine.database().design();
    let parts = table.indexes.iter().map(|index| index.id).chain([table.id]);
    let found = parts.filter_map(|id| design.table(id).ok());
    let masters: BTreeSet<SiteId> = found
        .flat_map(|part| part.partitions().iter().map(|(_, placement)| placement.master))
        .collect();
    match (masters.first(), masters.len()) {
        (Some(site), 1) => {
            format!("  commits: at {site}, unless the transaction writes elsewhere too")
        }
        _ => format!(
            "  commits: at one site, or over several where the rows are; autopilot is {}",
            engine.autopilot().mode()
        ),
    }
}

fn show(expr: &Expr) -> String {
    match expr {
        Expr::Const(value) => {
            isomer_sql::text::format(value, isomer_sql::SqlType::Text).into_owned()
        }
        Expr::Param(number) => format!("${}", number + 1),
        Expr::Column(_) => "a column of a row before".to_owned(),
        _ => "an expression".to_owned(),
    }
}
