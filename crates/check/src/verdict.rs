//! Describes the anomalies of a history: the name from the literature, the transactions, and the
//! cycle.

use crate::cycle::{Step, cycles};
use crate::history::History;
use crate::lists::Lists;
use crate::moments::{Moments, Why};
use std::collections::BTreeSet;
use std::fmt;

/// An observation that is impossible under the promised isolation levels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Anomaly {
    /// The name of the anomaly.
    pub name: String,
    /// The evidence, line by line: the transactions, and the rules between them.
    pub story: Vec<String>,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.story.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// Returns the anomalies that the isolation levels of the transactions forbid; empty if there are
/// none.
pub fn judge(history: &History) -> Vec<Anomaly> {
    let (lists, wrong) = Lists::of(history);
    let plain =
        wrong.into_iter().map(|(name, what)| Anomaly { name: name.to_owned(), story: vec![what] });
    let moments = Moments::of(&lists);
    let tell = |cycle: Vec<Step>| tell(history, &moments, &cycle);
    let cycles = cycles(&moments).into_iter().map(tell);
    plain.chain(cycles).collect()
}

fn tell(history: &History, moments: &Moments, cycle: &[Step]) -> Anomaly {
    // Rules between different transactions: the first one, the reason, the second one.
    let rules: Vec<(usize, &Why, usize)> = cycle
        .iter()
        .filter(|(_, edge)| edge.why != Why::Within)
        .map(|(from, edge)| (moments.of[*from], &edge.why, moments.of[edge.to]))
        .collect();
    let mut met = BTreeSet::new();
    let members = rules.iter().map(|(one, _, _)| *one).filter(|one| met.insert(*one));
    let mut story: Vec<String> =
        members.map(|member| history.transactions[member].to_string()).collect();
    let name = |transaction: usize| &history.transactions[transaction].name[..];
    story.extend(rules.iter().map(|(one, why, other)| sentence(name(*one), why, name(*other))));
    Anomaly { name: named(&rules), story }
}

fn sentence(one: &str, why: &Why, other: &str) -> String {
    match why {
        Why::Within => unreachable!("a rule of one transaction is not told"),
        Why::Ww { key, values: [before, after] } => {
            format!("{other} appended {after} to {key} behind the {before} of {one} (ww)")
        }
        Why::Wr { key, value } => format!("{other} read {key} with the {value} of {one} (wr)"),
        Why::Rw { key, value } => format!("{one} read {key} without the {value} of {other} (rw)"),
        Why::Session => format!("{other} came after {one} in its session"),
        Why::RealTime => format!("{other} began after {one} had ended"),
    }
}

/// The name of a cycle, derived from the kinds of its rules.
fn named(rules: &[(usize, &Why, usize)]) -> String {
    let has = |is: fn(&Why) -> bool| rules.iter().any(|(_, why, _)| is(why));
    let (writes, informs) =
        (has(|why| matches!(why, Why::Ww { .. })), has(|why| matches!(why, Why::Wr { .. })));
    let is_rw = |rule: &(usize, &Why, usize)| matches!(rule.1, Why::Rw { .. });
    let in_order = has(|why| matches!(why, Why::Session | Why::RealTime));
    let blind = rules.iter().filter(|rule| is_rw(rule)).count();
    let is_adjacent = (0..rules.len())
        .any(|at| is_rw(&rules[at]) && is_rw(&rules[(at + 1) % rules.len()]) && blind > 1);
    let name = match blind {
        0 if !informs => "G0, a write cycle",
        0 => "G1c, circular information flow",
        1 if in_order && !writes && !informs => return "stale read".to_owned(),
        1 if is_lost_update(rules) => "lost update",
        1 => "G-single, read skew",
        _ if !is_adjacent => "long fork",
        2 if rules.len() == 2 => "G2, write skew",
        _ => "G2",
    };
    format!("{name}{}", if in_order { ", in real time" } else { "" })
}

/// True for two transactions of which one did not see the other's write to a list that it wrote
/// later.
fn is_lost_update(rules: &[(usize, &Why, usize)]) -> bool {
    let [(_, one, _), (_, other, _)] = rules else { return false };
    match (one, other) {
        (Why::Ww { key: written, .. }, Why::Rw { key: read, .. })
        | (Why::Rw { key: read, .. }, Why::Ww { key: written, .. }) => written == read,
        _ => false,
    }
}
