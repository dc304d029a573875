//! The tree of a plan, as EXPLAIN shows it, and its two formats: lines, and JSON.
//!
//! ```text
//!   Limit  (rows=2)                          [{"Plan": {"Node Type": "Limit", "Plan Rows": 2,
//!     ->  Index Scan using t_a on t            "Plans": [{"Node Type": "Index Scan", ..
//!           Index Cond: (a > 3)
//! ```
//!
//! Nodes and keys have PostgreSQL's names where PostgreSQL has them. There are no costs, widths and
//! times of nodes, because nothing measures them.

use isomer_sql::statement::Cost;
use serde::ser::{Serialize, SerializeMap, Serializer};

/// A plan, and what is known about the statement as a whole.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) root: Node,
    pub(crate) facts: Vec<Property>,
}

/// A node of a plan.
#[derive(Default, Debug)]
pub(crate) struct Node {
    /// Its type.
    pub(super) kind: &'static str,
    /// The line that describes it in the format TEXT.
    pub(super) title: String,
    /// The parts of the title, which only JSON shows by themselves.
    pub(super) parts: Vec<Property>,
    pub(super) properties: Vec<Property>,
    /// The estimated number of rows.
    pub(super) estimate: Option<f64>,
    pub(super) actual: Option<Actual>,
    pub(super) children: Vec<Child>,
}

/// The rows of a node that has run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Actual {
    /// The rows of all its runs.
    pub(super) rows: u64,
    /// Its runs.
    pub(super) loops: u64,
}

/// A child of a node.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) relationship: &'static str,
    pub(super) subplan: Option<Subplan>,
    pub(super) node: Node,
}

/// The name of a subquery, and how it is evaluated.
#[derive(Debug)]
pub(super) struct Subplan {
    pub(super) name: String,
    pub(super) evaluation: Option<String>,
    pub(super) cost: Option<Cost>,
}

/// A property with its name.
pub(crate) type Property = (&'static str, Value);

/// The value of a property.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    Count(u64),
    /// Values in one line.
    List(Vec<String>),
    /// Values in a line each.
    Lines(Vec<String>),
    /// The number of partitions, and the sites of their masters.
    Placed(usize, Vec<String>),
    Milliseconds(f64),
}

impl Node {
    pub(super) fn new(kind: &'static str, title: impl Into<String>) -> Node {
        Node { kind, title: title.into(), ..Node::default() }
    }

    /// Adds a property, unless it has no value.
    pub(super) fn set(&mut self, name: &'static str, value: Option<Value>) {
        self.properties.extend(value.map(|value| (name, value)));
    }

    pub(super) fn part(mut self, name: &'static str, value: impl Into<String>) -> Node {
        self.parts.push((name, Value::Text(value.into())));
        self
    }

    /// Makes a node the outer child of this node, whose estimate it passes on.
    pub(super) fn over(mut self, child: Node) -> Node {
        self.estimate = self.estimate.or(child.estimate);
        self.children.push(Child { relationship: "Outer", subplan: None, node: child });
        self
    }

    /// Adds subqueries. Those that run before the node come first.
    pub(super) fn add(&mut self, children: Vec<Child>) {
        self.children.extend(children);
        self.children.sort_by_key(|child| match child.relationship {
            "InitPlan" => 0,
            "SubPlan" => 2,
            _ => 1,
        });
    }
}

impl Actual {
    /// The rows of a run, on average.
    fn per_loop(self) -> u64 {
        (self.rows as f64 / self.loops.max(1) as f64).round() as u64
    }
}

/// The lines of a plan.
pub(crate) fn lines(tree: &Tree) -> Vec<String> {
    let mut lines = Vec::new();
    node_lines(&tree.root, 0, &mut lines);
    tree.facts.iter().for_each(|fact| property_lines(fact, "", &mut lines));
    lines
}

fn node_lines(node: &Node, indent: usize, lines: &mut Vec<String>) {
    let arrow = if indent > 0 { "->  " } else { "" };
    let mut line = format!("{:indent$}{arrow}{}", "", node.title);
    let rows = node.estimate.map(|rows| format!("(rows={:.0})", rows.max(1.0)));
    let actual = node.actual.map(|actual| match actual.loops {
        0 => "(never executed)".to_owned(),
        loops => format!("(actual rows={} loops={loops})", actual.per_loop()),
    });
    let counts: Vec<String> = rows.into_iter().chain(actual).collect();
    if !counts.is_empty() {
        line.push_str(&format!("  {}", counts.join(" ")));
    }
    lines.push(line);
    let inside = indent + if indent > 0 { 6 } else { 2 };
    let pad = " ".repeat(inside);
    node.properties.iter().for_each(|property| property_lines(property, &pad, lines));
    for child in &node.children {
        match &child.subplan {
            None => node_lines(&child.node, inside, lines),
            Some(subplan) => {
                lines.push(format!("{pad}{}", subplan.line()));
                node_lines(&child.node, inside + 2, lines);
            }
        }
    }
}

fn property_lines((name, value): &Property, pad: &str, lines: &mut Vec<String>) {
    let mut push = |value: &str| lines.push(format!("{pad}{name}: {value}"));
    match value {
        Value::Text(text) => push(text),
        Value::Count(count) => push(&count.to_string()),
        Value::List(values) => push(&values.join(", ")),
        Value::Lines(values) => values.iter().for_each(|value| push(value)),
        Value::Placed(count, sites) => push(&format!("{count} at {}", sites.join(", "))),
        Value::Milliseconds(time) => push(&format!("{time:.3} ms")),
    }
}

impl Subplan {
    fn line(&self) -> String {
        let mut line = self.name.clone();
        if let Some(evaluation) = &self.evaluation {
            line.push_str(&format!(", {evaluation}"));
        }
        if let Some(Cost { asked, runs, remembered, bytes }) = &self.cost {
            line.push_str(&format!(
                "  (asked={asked} runs={runs} remembered={remembered} bytes={bytes})"
            ));
        }
        line
    }
}

/// A plan as JSON.
pub(crate) fn json(tree: &Tree) -> String {
    serde_json::to_string_pretty(&[tree]).unwrap_or_default()
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(
            "Plan",
            &Placed { relationship: None, subplan: None, node: &self.root },
        )?;
        entries(&self.facts, &mut map)?;
        map.end()
    }
}

/// A node at its place.
struct Placed<'n> {
    relationship: Option<&'static str>,
    subplan: Option<&'n Subplan>,
    node: &'n Node,
}

impl Serialize for Placed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Placed { relationship, subplan, node } = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("Node Type", node.kind)?;
        if let Some(relationship) = relationship {
            map.serialize_entry("Parent Relationship", relationship)?;
        }
        if let Some(Subplan { name, evaluation, cost }) = subplan {
            map.serialize_entry("Subplan Name", name)?;
            if let Some(evaluation) = evaluation {
                map.serialize_entry("Evaluation", evaluation)?;
            }
            if let Some(cost) = cost {
                map.serialize_entry("Times Asked", &cost.asked)?;
                map.serialize_entry("Times Run", &cost.runs)?;
                map.serialize_entry("Answers Remembered", &cost.remembered)?;
                map.serialize_entry("Bytes Remembered", &cost.bytes)?;
            }
        }
        entries(&node.parts, &mut map)?;
        if let Some(rows) = node.estimate {
            map.serialize_entry("Plan Rows", &(rows.max(1.0).round() as u64))?;
        }
        if let Some(actual) = node.actual {
            map.serialize_entry("Actual Rows", &actual.per_loop())?;
            map.serialize_entry("Actual Loops", &actual.loops)?;
        }
        entries(&node.properties, &mut map)?;
        if !node.children.is_empty() {
            let of = |child: &'_ Child| Some(child.relationship);
            let children: Vec<Placed<'_>> = node
                .children
                .iter()
                .map(|child| Placed {
                    relationship: of(child),
                    subplan: child.subplan.as_ref(),
                    node: &child.node,
                })
                .collect();
            map.serialize_entry("Plans", &children)?;
        }
        map.end()
    }
}

fn entries<M: SerializeMap>(properties: &[Property], map: &mut M) -> Result<(), M::Error> {
    for (name, value) in properties {
        match value {
            Value::Text(text) => map.serialize_entry(name, text)?,
            Value::Count(count) => map.serialize_entry(name, count)?,
            Value::List(values) | Value::Lines(values) => map.serialize_entry(name, values)?,
            Value::Placed(count, sites) => {
                map.serialize_entry(name, count)?;
                map.serialize_entry("Sites", sites)?;
            }
            Value::Milliseconds(time) => {
                map.serialize_entry(name, &((time * 1000.0).round() / 1000.0))?;
            }
        }
    }
    Ok(())
}
