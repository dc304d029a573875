//! EXPLAIN: a statement's plan as a [tree] of PostgreSQL's nodes.
//!
//! ```text
//!   steps 1, 2, 3 of a query     ─▶     Nested Loop            rows after step 3
//!                                         ->  Hash Join        rows after step 2
//!                                               ->  step 1
//!                                               ->  Hash ->  step 2
//!                                         ->  step 3
//! ```
//!
//! Properties with names of our own show the rest: the partitions of a source and their sites,
//! locks, where a change commits, how the answers of a subquery are found, and the rows that came
//! from other processes.
//!
//! [`query`] has the nodes of queries, [`access`] the conditions of access paths.

mod access;
mod query;
pub(crate) mod tree;

use crate::engine::Engine;
use isomer_design::SiteId;
use isomer_sql::SqlType;
use isomer_sql::catalog::{Table, quoted};
use isomer_sql::expr::Expr;
use isomer_sql::plan::{
    Change, Conflict, Hashed, Inner, Insert, Merge, Modify, Named, Returning, Source, Way, Writing,
};
use isomer_sql::shown::Names;
use isomer_sql::statement::{Action, Costs, Explains, NodeCounts};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tree::{Actual, Child, Node, Property, Subplan, Tree, Value};

/// The tree of a plan, with the counts of its execution if it has run.
pub(crate) fn explain(
    engine: &Engine,
    explains: Explains,
    (action, writing): (&Action, &[Writing]),
    costs: Option<&Costs>,
) -> Tree {
    let mut walk = Walk {
        engine,
        explains,
        costs,
        shown: BTreeSet::new(),
        found: writing.iter().map(|one| (one.number, one.name.clone())).collect(),
        ctes: BTreeMap::new(),
        writing: writing.iter().map(|one| one.number).collect(),
        is_locking: matches!(action, Action::Select(plan) if plan.lock.is_some()),
    };
    let mut root = match action {
        Action::Select(plan) => walk.select(plan, &[]),
        Action::Insert(plan) => walk.insert(plan),
        Action::Update(plan) | Action::Delete(plan) => walk.change(plan),
        Action::Merge(plan) => walk.merge(plan),
        other => unreachable!("{other:?} has no plan"),
    };
    for one in writing {
        let node = walk.modification(&one.modify);
        walk.add_cte(one.number, &one.name, node);
    }
    if let Some(costs) = costs {
        match action {
            Action::Select(_) => {
                root.actual.get_or_insert(Actual { rows: costs.rows, loops: 1 });
            }
            _ => root.set("Rows Changed", Some(Value::Count(costs.rows))),
        }
    }
    root.add(walk.ctes.into_values().collect());
    Tree { root, facts: Vec::new() }
}

/// The walk over a plan.
struct Walk<'e> {
    engine: &'e Engine,
    explains: Explains,
    costs: Option<&'e Costs>,
    /// The subqueries that are shown already: copies of an expression share them.
    shown: BTreeSet<usize>,
    /// The names of the queries whose rows are read as [`Source::Found`].
    found: BTreeMap<usize, String>,
    /// The queries of WITH whose rows are kept, by their numbers. They are children of the root.
    ctes: BTreeMap<usize, Child>,
    /// The numbers of queries of WITH that write.
    writing: BTreeSet<usize>,
    /// Rows may be found under their locks, where they are not counted.
    is_locking: bool,
}

impl Walk<'_> {
    fn modification(&mut self, modify: &Modify) -> Node {
        match modify {
            Modify::Insert(plan) => self.insert(plan),
            Modify::Update(plan) | Modify::Delete(plan) => self.change(plan),
        }
    }

    fn merge(&mut self, plan: &Merge) -> Node {
        let mut node = self.modify("Merge", &plan.table);
        for action in &plan.actions {
            let node_of = self.modification(action);
            node.children.push(Child { relationship: "Member", subplan: None, node: node_of });
        }
        node
    }

    fn insert(&mut self, plan: &Insert) -> Node {
        let mut node = self.modify("Insert", &plan.table);
        node.set("Locks", Some(text("the key of each new row")));
        node.set("Commits At", Some(commits_at(self.engine, &plan.table)));
        let indexes: Vec<String> = plan.table.maintained().map(|one| one.name.clone()).collect();
        node.set("Indexes", (!indexes.is_empty()).then_some(Value::List(indexes)));
        node.set("Also Stored By", beside(&plan.table));
        if let Some(conflict) = &plan.conflict {
            self.conflict(plan, conflict, &mut node);
        }
        let source = self.select(&plan.source, &[]);
        let mut node = node.over(source);
        node.estimate = None;
        self.returning(&plan.table, plan.returning.as_ref(), &mut node);
        node
    }

    fn conflict(&mut self, plan: &Insert, conflict: &Conflict, node: &mut Node) {
        let resolution = if conflict.set.is_some() { "UPDATE" } else { "NOTHING" };
        node.set("Conflict Resolution", Some(text(resolution)));
        if !conflict.any {
            let indexes = conflict.indexes.iter().map(|index| index.name.clone());
            let mut arbiters: Vec<String> = indexes.collect();
            if arbiters.is_empty() {
                arbiters.push(plan.table.key_name.clone());
            }
            node.set("Conflict Arbiter Indexes", Some(Value::List(arbiters)));
        }
        if let Some((set, condition)) = &conflict.set {
            let own = Source::Table(plan.table.clone()).columns();
            let mut names = qualified(&plan.table.name, &own);
            names.row.extend(qualified("excluded", &own).row);
            node.set("Conflict Filter", condition.as_ref().map(|one| Value::Text(names.text(one))));
            let exprs = set.iter().map(|(_, value)| value).chain(condition);
            let children = self.subplans(exprs, &names);
            node.add(children);
        }
    }

    fn change(&mut self, plan: &Change) -> Node {
        let verb = if plan.set.is_some() { "Update" } else { "Delete" };
        let mut node = self.modify(verb, &plan.table);
        node.set("Locks", Some(text("each row found")));
        node.set("Commits At", Some(commits_at(self.engine, &plan.table)));
        node.set("Also Stored By", beside(&plan.table));
        let columns = Source::Table(plan.table.clone()).columns();
        let (source, names) = match &plan.joined {
            None => {
                let steps = std::slice::from_ref(&plan.step);
                let names = Names::of_steps(steps, self.explains.is_verbose, Vec::new());
                (self.single(&plan.step, &names), names)
            }
            Some(joined) => {
                let mut names = qualified(&plan.step.alias, &columns);
                let own = Names::of_steps(&joined.steps, true, Vec::new());
                names.row.resize(plan.table.width(), ("row_id".to_owned(), SqlType::Int8));
                let beside = joined.project.iter().skip(names.row.len());
                names.row.extend(beside.map(|expr| own.named(expr)));
                (self.select(joined, &[]), names)
            }
        };
        let mut node = node.over(source);
        node.estimate = None;
        let set = plan.set.iter().flatten().map(|(_, value)| value);
        let children = self.subplans(set, &names);
        node.add(children);
        self.returning_over(&names, plan.returning.as_ref(), &mut node);
        node
    }

    fn modify(&self, verb: &str, table: &Table) -> Node {
        let mut node = Node::new("ModifyTable", format!("{verb} on {}", self.table_name(table)));
        node = node.part("Operation", verb).part("Relation Name", &*table.name);
        if self.explains.is_verbose { node.part("Schema", &*table.schema_name) } else { node }
    }

    fn returning(&mut self, table: &Arc<Table>, returning: Option<&Returning>, node: &mut Node) {
        let names = qualified(&table.name, &Source::Table(table.clone()).columns());
        self.returning_over(&names, returning, node);
    }

    fn returning_over(&mut self, names: &Names, returning: Option<&Returning>, node: &mut Node) {
        let Some(returning) = returning else { return };
        if self.explains.is_verbose {
            let output = returning.project.iter().map(|expr| names.text(expr)).collect();
            node.set("Output", Some(Value::List(output)));
        }
        let children = self.subplans(returning.project.iter(), names);
        node.add(children);
    }

    /// The subqueries in expressions that are not shown yet.
    fn subplans<'x>(&mut self, exprs: impl Iterator<Item = &'x Expr>, names: &Names) -> Vec<Child> {
        let mut found = BTreeMap::new();
        exprs.for_each(|expr| find(expr, &mut found));
        found.retain(|number, _| self.shown.insert(*number));
        found.values().map(|inner| self.subplan(inner, names)).collect()
    }

    fn subplan(&mut self, inner: &Inner, names: &Names) -> Child {
        let evaluation = match &inner.inside.way {
            Way::Each => "for each row".to_owned(),
            Way::Remembered if inner.args.is_empty() => "once".to_owned(),
            Way::Remembered if inner.args.len() == 1 => "once for each different value".to_owned(),
            Way::Remembered => format!("once for each different {} values", inner.args.len()),
            Way::Hashed(hashed) => hashed_by(hashed),
        };
        let known = self.costs.map(|costs| {
            let cost = costs.inner.iter().find(|(number, _)| *number == inner.number);
            cost.map_or_else(Default::default, |(_, cost)| *cost)
        });
        let given: Vec<_> = inner.args.iter().map(|arg| names.outer(arg)).collect();
        // A query that is hashed only after some runs may never have been.
        let is_hashed = |hashed: &Hashed| {
            let ran = |address| self.counts(address).is_some_and(|counts| counts.loops > 0);
            ran(hashed.query.address()) || !ran(inner.inside.query.address())
        };
        let query = match &inner.inside.way {
            Way::Hashed(hashed) if is_hashed(hashed) => &hashed.query,
            _ => &inner.inside.query,
        };
        let subplan =
            Subplan { name: inner.shown_name(), evaluation: Some(evaluation), cost: known };
        let relationship = if inner.is_initial() { "InitPlan" } else { "SubPlan" };
        Child { relationship, subplan: Some(subplan), node: self.select(query, &given) }
    }

    /// Notes a query of WITH whose rows are kept.
    fn cte(&mut self, named: &Named) {
        if self.ctes.contains_key(&named.number) {
            return;
        }
        let node = match &named.recursion {
            None => self.select(&named.query, &[]),
            Some(recursion) => {
                self.found.insert(named.number, named.name.clone());
                let first = self.select(&named.query, &[]);
                let mut node = Node::new("Recursive Union", "Recursive Union").over(first);
                node.estimate = None;
                let term = self.select(&recursion.term, &[]);
                node.children.push(Child { relationship: "Inner", subplan: None, node: term });
                node
            }
        };
        self.add_cte(named.number, &named.name, node);
    }

    fn add_cte(&mut self, number: usize, name: &str, node: Node) {
        let subplan = Subplan { name: format!("CTE {name}"), evaluation: None, cost: None };
        let child = Child { relationship: "InitPlan", subplan: Some(subplan), node };
        self.ctes.insert(number, child);
    }

    /// The counts of a step or a query, if the statement has run.
    fn counts(&self, address: usize) -> Option<NodeCounts> {
        let found = self.costs?.nodes.get(&address).copied();
        if self.is_locking { found } else { Some(found.unwrap_or_default()) }
    }

    fn table_name(&self, table: &Table) -> String {
        let name = quoted(&table.name);
        if self.explains.is_verbose {
            format!("{}.{name}", quoted(&table.schema_name))
        } else {
            name
        }
    }

    fn estimate(&self, rows: Option<f64>) -> Option<f64> {
        rows.filter(|_| self.explains.has_estimates)
    }
}

fn hashed_by(hashed: &Hashed) -> String {
    let by = match hashed.by.len() {
        1 => "hashed by 1 key".to_owned(),
        keys => format!("hashed by {keys} keys"),
    };
    match hashed.after {
        0 => by,
        1 => format!("{by} after 1 run"),
        runs => format!("{by} after {runs} runs"),
    }
}

fn find(expr: &Expr, found: &mut BTreeMap<usize, Inner>) {
    if let Expr::Inner(inner) = expr {
        found.entry(inner.number).or_insert_with(|| (**inner).clone());
    }
    expr.children(&mut |child| find(child, found));
}

/// The columns of a table under a name.
fn qualified(name: &str, columns: &[(String, SqlType)]) -> Names {
    let row =
        columns.iter().map(|(column, ty)| (format!("{}.{}", quoted(name), quoted(column)), *ty));
    Names::new(row.collect(), Vec::new())
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// The columns of a table's row key.
pub(crate) fn by(table: &Table) -> String {
    let columns = table.key_slots().into_iter().map(|at| table.columns.get(at));
    let names = columns.map(|column| column.map_or("row_id".to_owned(), |one| quoted(&one.name)));
    names.collect::<Vec<_>>().join(", ")
}

/// The partitions of a table, and the sites that master them.
fn placed(engine: &Engine, table: &Table) -> Option<Property> {
    let design = engine.database().design();
    let table = design.table(table.id).ok()?;
    let masters: BTreeSet<SiteId> =
        table.partitions().iter().map(|(_, placement)| placement.master).collect();
    let sites = masters.iter().map(SiteId::to_string).collect();
    Some(("Partitions", Value::Placed(table.partitions().len(), sites)))
}

/// The second layout of a table.
fn beside(table: &Table) -> Option<Value> {
    let beside = table.beside.as_ref()?;
    Some(Value::Text(format!("({})", by(&beside.layout))))
}

/// The sites at which a change of the table and its indexes commits.
fn commits_at(engine: &Engine, table: &Table) -> Value {
    let design = engine.database().design();
    let found = table.parts().filter_map(|(id, _)| design.table(id).ok());
    let masters: BTreeSet<SiteId> = found
        .flat_map(|part| part.partitions().iter().map(|(_, placement)| placement.master))
        .collect();
    Value::Text(match (masters.first(), masters.len()) {
        (Some(site), 1) => format!("{site}, unless the transaction writes elsewhere too"),
        _ => format!(
            "one site, or over several where the rows are; autopilot is {}",
            engine.autopilot().mode()
        ),
    })
}
