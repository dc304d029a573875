//! The nodes of queries: scans, joins, and what is done with their rows.

use super::access::{covers, index_condition, key_parts};
use super::tree::{Actual, Child, Node, Value};
use super::{Walk, by, placed, text};
use isomer_design::Direction;
use isomer_sql::SqlType;
use isomer_sql::catalog::{Table, quoted};
use isomer_sql::datum::Datum;
use isomer_sql::expr::Expr;
use isomer_sql::plan::{Access, Only, Select, SetOperator, Source, Step};
use isomer_sql::shown::{Names, direction};
use isomer_sql::statement::NodeCounts;
use isomer_sql::transaction::LockKind;

/// The conditions of a step, by where a reader of PostgreSQL's plans looks for them.
#[derive(Default)]
struct Conditions<'x> {
    /// On the row of the source.
    scan: Vec<&'x Expr>,
    /// On the rows of both sides.
    join: Vec<&'x Expr>,
}

impl Walk<'_> {
    /// A query, over correlated values with these names.
    pub(super) fn select(&mut self, plan: &Select, given: &[(String, SqlType)]) -> Node {
        let is_qualified = self.explains.is_verbose || plan.steps.len() > 1 || !given.is_empty();
        let mut names = Names::of_steps(&plan.steps, is_qualified, given.to_vec());
        let mut node = self.sources(plan, &names);
        if let Some(group) = &plan.group {
            (node, names) = self.grouped(plan, group, node, names);
        }
        let behind = if plan.group.is_some() { names.row.len() } else { plan.width };
        for window in &plan.windows {
            let mut over = Node::new("WindowAgg", "WindowAgg");
            let list = |texts: Vec<String>| (!texts.is_empty()).then_some(Value::List(texts));
            let partition = window.partition.iter().map(|one| names.text(one)).collect();
            over.set("Partition Key", list(partition));
            over.set("Order Key", list(names.window_order(window)));
            let calls: Vec<String> =
                (0..window.calls.len()).map(|at| names.window_call(window, at)).collect();
            over.set("Functions", list(calls.clone()));
            let mut exprs: Vec<&Expr> = Vec::new();
            window.exprs(&mut |expr| exprs.push(expr));
            let children = self.subplans(exprs.into_iter(), &names);
            for ((at, _), call) in window.calls.iter().zip(calls) {
                let slot = behind + at;
                let length = names.row.len().max(slot + 1);
                names.row.resize(length, ("?".to_owned(), SqlType::Unknown));
                names.row[slot] = (format!("{call} OVER (..)"), SqlType::Unknown);
            }
            node = over.over(node);
            node.add(children);
        }
        let children = self
            .subplans(plan.project.iter().chain(plan.late.iter().map(|(_, late)| late)), &names);
        node.add(children);
        let output: Vec<String> = match &plan.other {
            Some(_) => plan.output.iter().map(|column| quoted(&column.name)).collect(),
            None => plan.project.iter().map(|expr| names.text(expr)).collect(),
        };
        let width = plan.output.len();
        if plan.distinct {
            let mut over = Node::new("Aggregate", "HashAggregate").part("Strategy", "Hashed");
            over.set("Group Key", Some(Value::List(output[..width].to_vec())));
            node = over.over(node);
            node.estimate = None;
        }
        if plan.other.is_some() {
            node = self.combined(plan, node, given);
        }
        if !plan.order.is_empty() && !plan.sorted {
            let key = |key: &isomer_sql::plan::SortKey| {
                let name = output.get(key.place).map_or("?", String::as_str);
                format!("{name}{}", direction(key.descending, key.nulls_first))
            };
            let mut over = Node::new("Sort", "Sort");
            over.set("Sort Key", Some(Value::List(plan.order.iter().map(key).collect())));
            node = over.over(node);
        }
        if !plan.distinct_on.is_empty() {
            node = Node::new("Unique", "Unique").over(node);
            node.estimate = None;
        }
        if let Some(lock) = plan.lock {
            let of: Vec<&str> = plan.locked.iter().map(|source| &*source.table.name).collect();
            let of = if of.is_empty() { String::new() } else { format!(" on {}", of.join(", ")) };
            let mut over = Node::new("LockRows", "LockRows");
            over.set("Locks", Some(Value::Text(format!("{}{of}", lock_name(lock.kind)))));
            node = over.over(node);
        }
        if plan.limit.is_some() || plan.offset.is_some() {
            let mut over = Node::new("Limit", "Limit");
            let children = self.subplans(plan.limit.iter().chain(&plan.offset), &names);
            over.estimate = match (&plan.limit, node.estimate) {
                (Some(Expr::Const(Datum::Int(limit))), Some(rows)) => Some(rows.min(*limit as f64)),
                (_, rows) => rows,
            };
            node = over.over(node);
            node.add(children);
        }
        if self.explains.is_verbose {
            let output = output[..width.min(output.len())].to_vec();
            node.properties.insert(0, ("Output", Value::List(output)));
        }
        if let Some(counts) = self.counts(plan.address())
            && plan.lock.is_none()
        {
            node.actual.get_or_insert(Actual { rows: counts.rows, loops: counts.loops });
        }
        node
    }

    fn grouped(
        &mut self,
        plan: &Select,
        group: &isomer_sql::plan::Group,
        node: Node,
        names: Names,
    ) -> (Node, Names) {
        let (title, strategy) = match group.keys.is_empty() {
            true => ("Aggregate", "Plain"),
            false => ("HashAggregate", "Hashed"),
        };
        let mut over = Node::new("Aggregate", title).part("Strategy", strategy);
        let keys: Vec<_> = group.keys.iter().map(|key| names.named(key)).collect();
        if !keys.is_empty() {
            let texts = keys.iter().map(|(name, _)| name.clone()).collect();
            over.set("Group Key", Some(Value::List(texts)));
        }
        if group.first {
            over.set("Stops After", Some(text("1 row")));
        }
        let of = group.aggregates.iter().flat_map(|one| one.of.iter().chain(&one.filter));
        let inside = group.keys.iter().chain(of);
        let mut children = self.subplans(inside, &names);
        let aggregates = group.aggregates.iter().map(|one| (names.aggregate(one), one.ty));
        let after = Names::new(keys.into_iter().chain(aggregates).collect(), names.given.clone());
        over.set("Filter", after.all(group.having.iter()).map(Value::Text));
        children.extend(self.subplans(group.having.iter(), &after));
        let mut node = over.over(node);
        node.estimate = self.estimate(group.keys.is_empty().then_some(1.0));
        node.estimate = node.estimate.filter(|_| plan.estimate.is_some());
        node.add(children);
        (node, after)
    }

    /// UNION, INTERSECT, EXCEPT.
    fn combined(&mut self, plan: &Select, node: Node, given: &[(String, SqlType)]) -> Node {
        let Some(other) = &plan.other else { return node };
        let second = self.select(&other.query, given);
        let all = if other.all { " All" } else { "" };
        let (mut over, relationships) = match other.with {
            SetOperator::Union => (Node::new("Append", "Append"), ["Member", "Member"]),
            SetOperator::Intersect | SetOperator::Except => {
                let command = format!("{:?}{all}", other.with);
                let over = Node::new("SetOp", format!("HashSetOp {command}"));
                (over.part("Strategy", "Hashed").part("Command", command), ["Outer", "Inner"])
            }
        };
        for (relationship, node) in relationships.into_iter().zip([node, second]) {
            over.children.push(Child { relationship, subplan: None, node });
        }
        if other.with == SetOperator::Union && !other.all {
            let keys = plan.output.iter().map(|column| quoted(&column.name)).collect();
            let mut unique = Node::new("Aggregate", "HashAggregate").part("Strategy", "Hashed");
            unique.set("Group Key", Some(Value::List(keys)));
            return unique.over(over);
        }
        over
    }

    /// The sources of a query, joined.
    fn sources(&mut self, plan: &Select, names: &Names) -> Node {
        let mut node: Option<Node> = None;
        for (at, step) in plan.steps.iter().enumerate() {
            let conditions = conditions_of(step, at);
            let scan = self.scan(step, names, &conditions.scan, false);
            node = Some(match node {
                None => scan,
                Some(before) => self.join(plan, at, before, scan, (&conditions.join[..], names)),
            });
            let estimate = self.estimate(step.rows);
            node.iter_mut().for_each(|node| node.estimate = node.estimate.or(estimate));
        }
        let filter = names.all(plan.filter.iter()).map(Value::Text);
        let mut node = node.unwrap_or_else(|| Node::new("Result", "Result"));
        if filter.is_some() {
            let is_result = plan.steps.is_empty();
            node.set(if is_result { "One-Time Filter" } else { "Filter" }, filter);
            node.estimate = self.estimate(plan.estimate);
            node.actual = self.counts(plan.address()).map(|counts| {
                let loops = plan.steps.first().and_then(|step| self.counts(step.address()));
                let loops = loops.map_or(counts.loops, |first| first.loops);
                Actual { rows: counts.matched, loops }
            });
        }
        let children = self.subplans(plan.filter.iter(), names);
        node.add(children);
        node
    }

    fn join(
        &mut self,
        plan: &Select,
        at: usize,
        before: Node,
        scan: Node,
        (conditions, names): (&[&Expr], &Names),
    ) -> Node {
        let step = &plan.steps[at];
        let is_kept = step.is_kept(at);
        let is_by_hash = is_kept && !step.hash.is_empty();
        let (word, ty) = match (step.only, step.left, step.right) {
            (Some(Only::Matched), ..) => (" Semi", "Semi"),
            (Some(Only::Unmatched), ..) => (" Anti", "Anti"),
            (None, true, true) => (" Full", "Full"),
            (None, true, false) => (" Left", "Left"),
            (None, false, true) => (" Right", "Right"),
            (None, false, false) => ("", "Inner"),
        };
        let (kind, title) = match is_by_hash {
            true => ("Hash Join", format!("Hash{word} Join")),
            false if word.is_empty() => ("Nested Loop", "Nested Loop".to_owned()),
            false => ("Nested Loop", format!("Nested Loop{word} Join")),
        };
        let mut node = Node::new(kind, title).part("Join Type", ty);
        let filter = match is_by_hash {
            true => {
                let pairs = step.hash.iter().map(|(before, own)| {
                    let is = isomer_sql::expr::Compare::Eq;
                    isomer_sql::shown::comparison(before.clone(), is, own)
                });
                let pairs: Vec<Expr> = pairs.collect();
                node.set("Hash Cond", names.all(pairs.iter()).map(Value::Text));
                let is_hashed = |condition: &Expr| {
                    step.hash.iter().any(|(before, own)| {
                        matches!(condition, Expr::Compare(isomer_sql::expr::Compare::Eq, both)
                            if (&both[0], &both[1]) == (before, own)
                                || (&both[1], &both[0]) == (before, own))
                    })
                };
                conditions.iter().copied().filter(|one| !is_hashed(one)).collect()
            }
            false => conditions.to_vec(),
        };
        node.set("Join Filter", names.all(filter.into_iter()).map(Value::Text));
        let first = self.counts(plan.steps[0].address());
        node.actual = first.and_then(|first| {
            let rows = self.counts(step.address())?.rows;
            Some(Actual { rows, loops: first.loops })
        });
        let is_in_memory =
            matches!(step.source, Source::Values(_) | Source::Named(_) | Source::Found(..));
        let around = match (is_by_hash, is_kept && !is_in_memory) {
            (true, _) => Some("Hash"),
            (false, true) => Some("Materialize"),
            (false, false) => None,
        };
        let inner = match around {
            None => scan,
            Some(kind) => {
                let mut around = Node::new(kind, kind);
                around.actual = scan.actual;
                around.over(scan)
            }
        };
        for (relationship, node_of) in [("Outer", before), ("Inner", inner)] {
            node.children.push(Child { relationship, subplan: None, node: node_of });
        }
        let children = self.subplans(conditions.iter().copied(), names);
        node.add(children);
        node
    }

    /// The scan of a table that is changed.
    pub(super) fn single(&mut self, step: &Step, names: &Names) -> Node {
        let conditions = conditions_of(step, 0);
        let mut scan = self.scan(step, names, &conditions.scan, true);
        scan.estimate = self.estimate(step.rows);
        scan
    }

    fn scan(&mut self, step: &Step, names: &Names, filter: &[&Expr], is_change: bool) -> Node {
        let mut node = self.source(step, names);
        let has_filter = !filter.is_empty();
        node.set("Filter", names.all(filter.iter().copied()).map(Value::Text));
        // A change that names the whole keys of its rows reads them only under their locks.
        let is_known = |counts: &NodeCounts| !is_change || counts.loops > 0;
        if let Some(counts) = self.counts(step.address()).filter(is_known) {
            node.actual = Some(Actual { rows: counts.matched, loops: counts.loops });
            if has_filter && counts.loops > 0 {
                let removed = counts.found.saturating_sub(counts.matched) / counts.loops;
                node.set(
                    "Rows Removed by Filter",
                    Some(Value::Count(removed)).filter(|_| removed > 0),
                );
            }
            if self.explains.has_shipped && !is_change {
                node.set("Rows Shipped", Some(Value::Count(counts.shipped)));
            }
        }
        if let Source::Table(table) = &step.source {
            node.properties.extend(placed(self.engine, table));
        }
        let mut exprs: Vec<&Expr> = filter.to_vec();
        for span in
            step.access.spans.iter().chain(step.access.any.iter().flat_map(|one| &one.spans))
        {
            let bounds = span.lower.iter().chain(&span.upper).map(|(bound, _)| bound);
            exprs.extend(span.prefix.iter().chain(bounds));
            exprs.extend(span.starts.iter().map(|(_, pattern)| pattern));
        }
        match &step.source {
            Source::Values(rows) => exprs.extend(rows.iter().flatten()),
            Source::Set(call) => exprs.extend(&call.args),
            Source::Lateral(args, _) => exprs.extend(args),
            _ => {}
        }
        let children = self.subplans(exprs.into_iter(), names);
        node.add(children);
        node
    }

    fn source(&mut self, step: &Step, names: &Names) -> Node {
        let alias = quoted(step.shown_alias());
        let over = |kind: &'static str| Node::new(kind, format!("{kind} on {alias}"));
        match &step.source {
            Source::Table(table) => self.table(step, table, names),
            Source::System(system) => {
                let name = format!("{system:?}");
                let title = format!("Seq Scan on {}", with_alias(&name, &alias));
                Node::new("Seq Scan", title).part("Relation Name", name).part("Alias", &*step.alias)
            }
            Source::Query(query) => {
                let inner = self.select(query, &names.given);
                below(over("Subquery Scan").part("Alias", &*step.alias), inner)
            }
            Source::Lateral(args, query) => {
                let given: Vec<_> = args.iter().map(|arg| names.outer(arg)).collect();
                let inner = self.select(query, &given);
                let mut node = over("Subquery Scan").part("Alias", &*step.alias);
                let texts = given.into_iter().map(|(name, _)| name).collect();
                node.set("For Each", Some(Value::List(texts)));
                below(node, inner)
            }
            Source::Named(named) if named.is_shared() || named.recursion.is_some() => {
                self.cte(named);
                let title = format!("CTE Scan on {}", with_alias(&quoted(&named.name), &alias));
                Node::new("CTE Scan", title)
                    .part("CTE Name", &*named.name)
                    .part("Alias", &*step.alias)
            }
            Source::Named(named) => {
                let inner = self.select(&named.query, &[]);
                let title =
                    format!("Subquery Scan on {}", with_alias(&quoted(&named.name), &alias));
                below(Node::new("Subquery Scan", title).part("Alias", &*step.alias), inner)
            }
            Source::Found(number, _) => {
                let name = self.found.get(number).cloned().unwrap_or_default();
                let kind =
                    if self.writing.contains(number) { "CTE Scan" } else { "WorkTable Scan" };
                let title = format!("{kind} on {}", with_alias(&quoted(&name), &alias));
                Node::new(kind, title).part("CTE Name", name).part("Alias", &*step.alias)
            }
            Source::Values(rows) => {
                let mut node = over("Values Scan").part("Alias", &*step.alias);
                node.estimate = self.estimate(Some(rows.len() as f64));
                node
            }
            Source::Set(call) => {
                let shown: Vec<&str> = call.parts.iter().map(|part| part.func.shown()).collect();
                let name = shown.join(", ");
                let title = format!("Function Scan on {}", with_alias(&name, &alias));
                Node::new("Function Scan", title)
                    .part("Function Name", name)
                    .part("Alias", &*step.alias)
            }
        }
    }

    fn table(&mut self, step: &Step, table: &Table, names: &Names) -> Node {
        let Access { index, spans, way, any } = &step.access;
        let on = with_alias(&self.table_name(table), &quoted(&step.alias));
        let used = index.as_ref().map_or(&table.key_name, |index| &index.name);
        let key = key_parts(table, &step.access, step.offset);
        let is_ordered = index.is_some() || !spans.is_empty() || *way == Direction::Backward;
        let mut node = match (any.is_empty(), is_ordered) {
            (false, _) => Node::new("Bitmap Heap Scan", format!("Bitmap Heap Scan on {on}")),
            (true, false) => Node::new("Seq Scan", format!("Seq Scan on {on}")),
            (true, true) => {
                let backward = if *way == Direction::Backward { " Backward" } else { "" };
                // Rows in another order than that of the primary key have no index of this name.
                let is_named = index.is_some() || table.shard.is_empty();
                let used = is_named.then_some(used).filter(|used| !used.is_empty());
                let using = used.map_or(String::new(), |used| format!(" using {}", quoted(used)));
                let title = format!("Index Scan{backward}{using} on {on}");
                let node =
                    Node::new("Index Scan", title).part("Scan Direction", format!("{way:?}"));
                match used {
                    Some(used) => node.part("Index Name", used.as_str()),
                    None => node,
                }
            }
        };
        node = node.part("Relation Name", &*table.name).part("Alias", &*step.alias);
        if self.explains.is_verbose {
            node = node.part("Schema", &*table.schema_name);
        }
        node.set("Index Cond", index_condition(spans, &key, names).map(Value::Text));
        if index.is_none() && is_ordered && !table.shard.is_empty() {
            node.set("Stored By", Some(Value::Text(format!("({})", by(table)))));
        }
        if !any.is_empty() {
            let mut or = Node::new("BitmapOr", "BitmapOr");
            for arm in any {
                let used = arm.index.as_ref().map_or(&table.key_name, |index| &index.name);
                let title = format!("Bitmap Index Scan on {}", quoted(used));
                let mut scan =
                    Node::new("Bitmap Index Scan", title).part("Index Name", used.as_str());
                let key = key_parts(table, arm, step.offset);
                scan.set("Index Cond", index_condition(&arm.spans, &key, names).map(Value::Text));
                or.children.push(Child { relationship: "Member", subplan: None, node: scan });
            }
            node = node.over(or);
        }
        node
    }
}

/// A node over a query, whose rows it passes on.
fn below(mut node: Node, query: Node) -> Node {
    node.estimate = query.estimate;
    node.children.push(Child { relationship: "Subquery", subplan: None, node: query });
    node
}

/// A name, followed by its alias if they differ.
fn with_alias(name: &str, alias: &str) -> String {
    let own = name.rsplit('.').next().unwrap_or(name);
    if alias.is_empty() || own == alias { name.to_owned() } else { format!("{name} {alias}") }
}

/// The conditions of a step that its access path does not cover.
fn conditions_of(step: &Step, at: usize) -> Conditions<'_> {
    let left = step.on.iter().filter(|condition| match &step.source {
        Source::Table(table) => {
            let key = key_parts(table, &step.access, step.offset);
            !covers(&step.access.spans, &key, condition)
        }
        _ => true,
    });
    let own = step.offset..step.offset + step.width;
    let is_own = |condition: &&Expr| {
        let (mut any, mut all) = (false, !condition.is_volatile());
        condition.columns(&mut |slot| {
            any = true;
            all &= own.contains(&slot);
        });
        any && all
    };
    match (step.is_kept(at), step.right) {
        // Each row is looked at together with the rows before, where it is found.
        (false, _) => Conditions { scan: left.collect(), join: Vec::new() },
        (true, true) => Conditions { scan: Vec::new(), join: left.collect() },
        (true, false) => {
            let (scan, join) = left.partition(is_own);
            Conditions { scan, join }
        }
    }
}

fn lock_name(kind: LockKind) -> &'static str {
    match kind {
        LockKind::KeyShare => "key share",
        LockKind::Shared => "shared",
        LockKind::NoKeyUpdate => "no key update",
        LockKind::Exclusive => "exclusive",
        LockKind::Present => "present",
        LockKind::Deletion => "deletion",
    }
}
