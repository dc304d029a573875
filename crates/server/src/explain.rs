//! EXPLAIN: the access paths of a statement, the sites of its rows, and its locks.
//!
//! Subqueries have numbers. They are listed after the sources of the query that contains them, with
//! their evaluation strategy. With statistics, a source shows the estimated rows after its join:
//! `(rows=9)`. EXPLAIN ANALYZE runs the statement, and reports the costs of subqueries and the rows
//! that each source has passed on in all its runs: `(actual rows=7)`.

use crate::engine::Engine;
use isomer_design::{Direction, SiteId};
use isomer_sql::catalog::{Table, quoted};
use isomer_sql::expr::{Compare, Expr};
use isomer_sql::plan::{
    Access, Asks, Change, Inner, Insert, Modify, Only, Select, Source, Step, Way, Writing,
};
use isomer_sql::statement::{Action, Cost, Costs};
use isomer_sql::transaction::LockKind;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The lines of a plan, with its costs and duration if known.
pub(crate) fn explain(
    engine: &Engine,
    action: &Action,
    writing: &[Writing],
    costs: Option<(&Costs, Option<Duration>)>,
) -> Vec<String> {
    let mut lines = Vec::new();
    let explain = &Explain { engine, writing, costs: costs.map(|(costs, _)| costs) };
    match action {
        Action::Select(plan) => select(explain, plan, 0, &mut lines),
        Action::Insert(plan) => insert(explain, plan, &mut lines),
        Action::Update(plan) | Action::Delete(plan) => change(explain, plan, &mut lines),
        _ => {}
    }
    for writing in writing {
        let mut part = Vec::new();
        match &writing.modify {
            Modify::Insert(plan) => insert(explain, plan, &mut part),
            Modify::Update(plan) | Modify::Delete(plan) => change(explain, plan, &mut part),
        }
        lines.push(format!("Query {}, once for all", writing.name));
        lines.extend(part.iter().map(|line| format!("  {line}")));
    }
    if let Some((costs, took)) = costs {
        lines.push(format!("Rows: {}", costs.rows));
        let time =
            |took: Duration| format!("Execution time: {:.3} ms", took.as_secs_f64() * 1000.0);
        lines.extend(took.map(time));
    }
    lines
}

fn insert(explain: &Explain<'_>, plan: &Insert, lines: &mut Vec<String>) {
    lines.push(format!("Insert on {}", plan.table.name));
    place(explain.engine, plan.table.id, &plan.table.name, 1, lines);
    lines.push("  locks: the key of each new row".to_owned());
    lines.push(commit(explain.engine, &plan.table));
    for index in plan.table.maintained() {
        lines.push(format!("  keeps index {}", index.name));
    }
    lines.extend(beside(&plan.table));
    select(explain, &plan.source, 1, lines);
}

fn change(explain: &Explain<'_>, plan: &Change, lines: &mut Vec<String>) {
    let verb = if plan.set.is_some() { "Update" } else { "Delete" };
    lines.push(format!("{verb} on {}", plan.table.name));
    step(explain, &plan.step, false, 1, lines);
    lines.push("  locks: each row found".to_owned());
    lines.push(commit(explain.engine, &plan.table));
    lines.extend(beside(&plan.table));
    let set = plan.set.iter().flatten().map(|(_, value)| value);
    let shown = plan.returning.iter().flat_map(|returning| &returning.project);
    inner_queries(explain, plan.step.on.iter().chain(set).chain(shown), 1, lines);
}

/// The subject of an EXPLAIN, and its costs.
struct Explain<'e> {
    engine: &'e Engine,
    /// The queries of WITH that write.
    writing: &'e [Writing],
    costs: Option<&'e Costs>,
}

/// The subqueries of expressions, each once.
fn inner_queries<'x>(
    explain: &Explain<'_>,
    exprs: impl Iterator<Item = &'x Expr>,
    depth: usize,
    lines: &mut Vec<String>,
) {
    let mut found: BTreeMap<usize, Inner> = BTreeMap::new();
    exprs.for_each(|expr| find(expr, &mut found));
    found.values().for_each(|inner| inner_query(explain, inner, depth, lines));
}

fn find(expr: &Expr, found: &mut BTreeMap<usize, Inner>) {
    if let Expr::Inner(inner) = expr {
        found.entry(inner.number).or_insert_with(|| (**inner).clone());
    }
    expr.children(&mut |child| find(child, found));
}

fn inner_query(explain: &Explain<'_>, inner: &Inner, depth: usize, lines: &mut Vec<String>) {
    let asks = match inner.asks {
        Asks::Value => "its value",
        Asks::Array => "an array",
        Asks::Exists => "whether it has rows",
        Asks::Any(Compare::Eq) => "whether a value is among its rows",
        Asks::Any(_) => "whether a comparison with one of its rows is true",
    };
    let way = match &inner.inside.way {
        Way::Each => "each time".to_owned(),
        Way::Remembered if inner.args.is_empty() => "once".to_owned(),
        Way::Remembered => format!("once for the same {}", counted(inner.args.len(), "value")),
        Way::Hashed(hashed) => {
            let after = match hashed.after {
                0 => String::new(),
                runs => format!(", after {}", counted(runs, "run")),
            };
            format!("by a hash of {}{after}", counted(hashed.by.len(), "key"))
        }
    };
    let pad = "  ".repeat(depth);
    let number = inner.number;
    lines.push(format!("{pad}Query {number} for {asks}, {way}"));
    if let Some(costs) = explain.costs {
        let known = costs.inner.iter().find(|(other, _)| *other == number);
        let cost = known.map_or(Cost::default(), |(_, cost)| *cost);
        lines.push(format!(
            "{pad}  cost: asked {}, ran {}, remembers {} in {} bytes",
            counted(cost.asked, "time"),
            counted(cost.runs, "time"),
            counted(cost.remembered, "answer"),
            cost.bytes
        ));
    }
    let query = match &inner.inside.way {
        Way::Hashed(hashed) => &hashed.query,
        _ => &inner.inside.query,
    };
    select(explain, query, depth + 1, lines);
}

/// The expressions of a query, without those of the queries among its sources.
fn own_exprs(plan: &Select) -> impl Iterator<Item = &Expr> {
    let sources = plan.steps.iter().flat_map(|step| match &step.source {
        Source::Values(rows) => rows.iter().flatten().collect(),
        Source::Set(call) => call.args.iter().collect(),
        Source::Lateral(args, _) => args.iter().collect(),
        _ => Vec::new(),
    });
    let on = plan.steps.iter().flat_map(|step| &step.on);
    let groups = plan.group.iter().flat_map(|group| {
        let of = group.aggregates.iter().flat_map(|one| one.of.iter().chain(&one.filter));
        group.keys.iter().chain(&group.having).chain(of)
    });
    let mut inside: Vec<&Expr> = Vec::new();
    plan.windows.iter().for_each(|window| window.exprs(&mut |expr| inside.push(expr)));
    let shown = plan.project.iter().chain(&plan.limit).chain(&plan.offset);
    sources.chain(on).chain(&plan.filter).chain(groups).chain(inside).chain(shown)
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn select(explain: &Explain<'_>, plan: &Select, depth: usize, lines: &mut Vec<String>) {
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
        let of: Vec<&str> = plan.locked.iter().map(|source| &*source.table.name).collect();
        let of = if of.is_empty() { String::new() } else { format!(" of {}", of.join(", ")) };
        let kind = match lock.kind {
            LockKind::KeyShare => "key share",
            LockKind::Shared => "shared",
            LockKind::NoKeyUpdate => "no key update",
            LockKind::Exclusive => "exclusive",
            LockKind::Present => "present",
            LockKind::Deletion => "deletion",
        };
        outer(lines, format!("Lock rows{of}, {kind}"));
    }
    if !plan.order.is_empty() && !plan.sorted {
        outer(lines, "Sort".to_owned());
    }
    if plan.distinct {
        outer(lines, "Unique".to_owned());
    }
    for window in plan.windows.iter().rev() {
        let (by, order) = (window.partition.len(), window.order.len());
        let calls = counted(window.calls.len(), "function");
        outer(lines, format!("Window by {by} keys, sorted by {order}, {calls}"));
    }
    if let Some(group) = &plan.group {
        outer(
            lines,
            format!(
                "Group by {} keys, {} aggregates{}",
                group.keys.len(),
                group.aggregates.len(),
                if group.first { ", of the first row" } else { "" }
            ),
        );
    }
    if plan.steps.is_empty() {
        lines.push(format!("{pad}Result"));
    }
    for (at, one) in plan.steps.iter().enumerate() {
        step(explain, one, true, inner + at, lines);
    }
    inner_queries(explain, own_exprs(plan), inner + plan.steps.len(), lines);
    if let Some(other) = &plan.other {
        let all = if other.all { ", all" } else { "" };
        lines.push(format!("{}{:?}{all}", "  ".repeat(depth + 1), other.with));
        select(explain, &other.query, depth + 2, lines);
    }
}

/// A source of a query. The rows of one that is changed are not counted.
fn step(
    explain: &Explain<'_>,
    step: &Step,
    is_counted: bool,
    depth: usize,
    lines: &mut Vec<String>,
) {
    let pad = "  ".repeat(depth);
    let is_by_hash = step.kept && !step.hash.is_empty();
    let join = match (step.only, step.left, step.right) {
        (Some(Only::Matched), ..) if is_by_hash => "Hash Semi Join, ",
        (Some(Only::Matched), ..) => "Nested Loop Semi Join, ",
        (Some(Only::Unmatched), ..) if is_by_hash => "Hash Anti Join, ",
        (Some(Only::Unmatched), ..) => "Nested Loop Anti Join, ",
        (None, true, true) => "Full join, ",
        (None, true, false) => "Left join, ",
        (None, false, true) => "Right join, ",
        (None, false, false) => "",
    };
    let first = lines.len();
    match &step.source {
        Source::Table(table) => {
            let by = finder(table, &step.access);
            let how = match step.access.spans.as_slice() {
                [] if !step.access.any.is_empty() => {
                    let arms: Vec<String> =
                        step.access.any.iter().map(|arm| finder(table, arm)).collect();
                    format!("Rows by any of {}", arms.join(", "))
                }
                [] if step.access.index.is_some() => format!("Rows by {by}"),
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
            let arms = step.access.any.iter().flat_map(|arm| arm.spans.first());
            for span in step.access.spans.first().into_iter().chain(arms) {
                let mut parts: Vec<String> = span.prefix.iter().map(show).collect();
                if span.lower.is_some() || span.upper.is_some() {
                    let from = span.lower.as_ref().map_or(String::new(), |(expr, _)| show(expr));
                    let to = span.upper.as_ref().map_or(String::new(), |(expr, _)| show(expr));
                    parts.push(format!("{from}..{to}"));
                }
                if let Some((_, pattern)) = &span.starts {
                    parts.push(format!("begins as {}", show(pattern)));
                }
                if span.known {
                    parts.push("not null".to_owned());
                }
                lines.push(format!("{pad}  span: [{}]", parts.join(", ")));
            }
            place(explain.engine, table.id, &table.name, depth + 1, lines);
        }
        Source::System(system) => lines.push(format!("{pad}{join}System table {system:?}")),
        Source::Query(query) => {
            lines.push(format!("{pad}{join}Query"));
            select(explain, query, depth + 1, lines);
        }
        Source::Lateral(args, query) => {
            let given = counted(args.len(), "value");
            lines.push(format!("{pad}{join}Query for each row, given {given}"));
            select(explain, query, depth + 1, lines);
        }
        Source::Named(named) => {
            let times = if named.is_shared() { ", once for all" } else { "" };
            lines.push(format!("{pad}{join}Query {}{times}", named.name));
            select(explain, &named.query, depth + 1, lines);
            if let Some(recursion) = &named.recursion {
                lines.push(format!(
                    "{pad}  and over the rows found last, until there are no new ones"
                ));
                select(explain, &recursion.term, depth + 2, lines);
            }
        }
        Source::Found(number, _) => {
            let writing = explain.writing.iter().find(|writing| writing.number == *number);
            let whose =
                writing.map_or("found last".to_owned(), |it| format!("of query {}", it.name));
            lines.push(format!("{pad}{join}Rows {whose}"));
        }
        Source::Values(rows) => lines.push(format!("{pad}{join}Values, {} rows", rows.len())),
        Source::Set(call) => {
            let shown: Vec<&str> = call.parts.iter().map(|part| part.func.shown()).collect();
            lines.push(format!("{pad}{join}{}", shown.join(", ")));
        }
    }
    if let Some(rows) = step.rows {
        lines[first].push_str(&format!(" (rows={:.0})", rows.max(1.0)));
    }
    if let Some(costs) = explain.costs.filter(|_| is_counted) {
        let passed = costs.passed.get(&step.address()).unwrap_or(&0);
        lines[first].push_str(&format!(" (actual rows={passed})"));
    }
}

/// The key or the index by which an access finds rows.
fn finder(table: &Table, access: &Access) -> String {
    match &access.index {
        Some(index) => format!("index {}", index.name),
        None if table.shard.is_empty() => format!("key of {}", table.name),
        None => format!("key ({}) of {}", by(table), table.name),
    }
}

/// The columns of a table's row key.
pub(crate) fn by(table: &Table) -> String {
    let columns = table.key_slots().into_iter().map(|at| table.columns.get(at));
    let names = columns.map(|column| column.map_or("row_id".to_owned(), |one| quoted(&one.name)));
    names.collect::<Vec<_>>().join(", ")
}

/// The sites that master the table's partitions.
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

/// A note for a table with a second layout.
fn beside(table: &Table) -> Option<String> {
    let beside = table.beside.as_ref()?;
    Some(format!("  keeps the rows by ({}) too", by(&beside.layout)))
}

/// The sites at which a change of the table and its indexes commits.
fn commit(engine: &Engine, table: &Table) -> String {
    let design = engine.database().design();
    let found = table.parts().filter_map(|(id, _)| design.table(id).ok());
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
        Expr::Given(_) => "a column of a row around".to_owned(),
        Expr::Inner(inner) => format!("query {}", inner.number),
        _ => "an expression".to_owned(),
    }
}
