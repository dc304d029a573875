//! Finds the matches of groups, once the match of the whole expression is known.
//!
//! ```text
//!   (a|ab)(c|bcd)(d*)  on "abcd"     part 1 is "a" or "ab"; the rest matches behind both:
//!                                    "ab", as it is longer; part 2 is "c", as "bcd" does
//!                                    not follow; part 3 is "d"
//! ```
//!
//! Consecutive nodes without groups are one part, matched as a whole: PostgreSQL does the same, and
//! the results depend on it.

use super::Regex;
use super::classes::are_same;
use super::read::{Count, Node, non_greedy, wish};
use super::walk::{Program, Text};
use crate::budget::Budget;
use crate::error::SqlError;
use std::ops::Range;

type Groups = Vec<Option<Range<usize>>>;

pub(super) struct Parts<'p> {
    text: &'p Text,
    regex: &'p Regex,
    groups: &'p mut Groups,
    budget: &'p Budget,
}

impl<'p> Parts<'p> {
    pub(super) fn new(
        text: &'p Text,
        regex: &'p Regex,
        groups: &'p mut Groups,
        budget: &'p Budget,
    ) -> Parts<'p> {
        Parts { text, regex, groups, budget }
    }

    /// Finds the matches of groups if this part of the text is the whole match; false if back
    /// references do not match.
    pub(super) fn fit(&mut self, from: usize, to: usize) -> Result<bool, SqlError> {
        let regex = self.regex;
        self.row(&regex.nodes, from, to)
    }

    /// Consecutive nodes. It is known that they match, except for back references.
    fn row(&mut self, nodes: &[Node], from: usize, to: usize) -> Result<bool, SqlError> {
        self.budget.deeper()?;
        let (mut nodes, mut from) = (nodes, from);
        'row: while !nodes.is_empty() {
            let (head, rest) = nodes.split_at(unit(nodes));
            if rest.is_empty() {
                return self.unit(head, from, to);
            }
            let (first, then) = (Program::new(head)?, Program::new(rest)?);
            let mut ends = first.ends(self.text, from, to, self.budget)?;
            if !non_greedy(head) {
                ends.reverse();
            }
            for end in ends {
                if !then.fits(self.text, end..to, self.budget)? {
                    continue;
                }
                if !self.regex.refers {
                    self.unit(head, from, end)?;
                    (nodes, from) = (rest, end);
                    continue 'row;
                }
                let before = self.groups.clone();
                if self.unit(head, from, end)? && self.row(rest, end, to)? {
                    return Ok(true);
                }
                *self.groups = before;
            }
            return Ok(false);
        }
        Ok(from == to)
    }

    /// One [`unit`]: consecutive nodes without groups, or a single node that may have some.
    fn unit(&mut self, nodes: &[Node], from: usize, to: usize) -> Result<bool, SqlError> {
        match nodes {
            [Node::Group(alternatives, number)] => {
                for nodes in alternatives {
                    let may_fit = Program::new(nodes)?.fits(self.text, from..to, self.budget)?;
                    if may_fit && self.row(nodes, from, to)? {
                        if let Some(number) = number {
                            self.groups[*number] = Some(from..to);
                        }
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            [Node::Repeat(inner, count)] if !inner.is_plain() => {
                match count.least > 0 && !inner.refers() {
                    true => self.last_of(inner, *count, from, to),
                    false => self.repeat(inner, *count, from, to, 0),
                }
            }
            [Node::Back(group, folds)] => {
                let Some(held) = self.groups[*group].clone() else { return Ok(false) };
                let (held, part) = (self.text.chars(held), self.text.chars(from..to));
                self.budget.tick(part.len())?;
                let mut pairs = held.iter().zip(part);
                Ok(held.len() == part.len() && pairs.all(|(a, b)| are_same(*a, *b, *folds)))
            }
            _ => Ok(true),
        }
    }

    /// A node at least once: all but the last repetition are one part, as groups report their last
    /// match only. In `(a*)+` on "aa" the group is empty, as the last repetition is.
    fn last_of(
        &mut self,
        node: &Node,
        count: Count,
        from: usize,
        to: usize,
    ) -> Result<bool, SqlError> {
        let one = std::slice::from_ref(node);
        let before = Program::repeated(node, count.least - 1, count.most.map(|most| most - 1))?;
        let last = Program::new(one)?;
        let mut ends = before.ends(self.text, from, to, self.budget)?;
        if count.non_greedy.or_else(|| wish(one)) != Some(true) {
            ends.reverse();
        }
        for end in ends {
            if last.fits(self.text, end..to, self.budget)? && self.unit(one, end, to)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A node repeated, some repetitions of which were matched before.
    fn repeat(
        &mut self,
        node: &Node,
        count: Count,
        from: usize,
        to: usize,
        before: u32,
    ) -> Result<bool, SqlError> {
        self.budget.deeper()?;
        let one = std::slice::from_ref(node);
        let first = Program::new(one)?;
        let is_non_greedy = count.non_greedy.or_else(|| wish(one)) == Some(true);
        let (mut from, mut before) = (from, before);
        'next: loop {
            let missing = count.least.saturating_sub(before);
            if missing == 0 && from == to {
                // An optional node matches the empty text, if it can.
                let is_new = before == 0 && count.most != Some(0);
                let is_there = is_new && first.fits(self.text, from..to, self.budget)?;
                if is_there && !self.unit(one, from, to)? {
                    self.forget(node);
                }
                return Ok(true);
            }
            if count.most == Some(before) {
                return Ok(false);
            }
            let more = count.most.map(|most| most - before - 1);
            let then = Program::repeated(node, missing.saturating_sub(1), more)?;
            let mut ends = first.ends(self.text, from, to, self.budget)?;
            if !is_non_greedy {
                ends.reverse();
            }
            for end in ends {
                // Repetitions that match the empty text make no progress, so only required ones are
                // tried.
                if (end == from && missing == 0) || !then.fits(self.text, end..to, self.budget)? {
                    continue;
                }
                if !self.regex.refers {
                    self.forget(node);
                    self.unit(one, from, end)?;
                    (from, before) = (end, before + 1);
                    continue 'next;
                }
                let held = self.groups.clone();
                self.forget(node);
                if self.unit(one, from, end)? && self.repeat(node, count, end, to, before + 1)? {
                    return Ok(true);
                }
                *self.groups = held;
            }
            return Ok(false);
        }
    }

    /// Drops the matches of groups from the last repetition.
    fn forget(&mut self, node: &Node) {
        match node {
            Node::Group(alternatives, number) => {
                if let Some(number) = number {
                    self.groups[*number] = None;
                }
                alternatives.iter().flatten().for_each(|node| self.forget(node));
            }
            Node::Repeat(inner, _) => self.forget(inner),
            _ => {}
        }
    }
}

/// The number of leading nodes that form one unit.
fn unit(nodes: &[Node]) -> usize {
    let mut wanted = None;
    let belongs = |node: &&Node| {
        let wish = node.wish();
        let differs = wanted.is_some() && wish.is_some() && wanted != wish;
        wanted = wanted.or(wish);
        node.is_plain() && !differs
    };
    nodes.iter().take_while(belongs).count().max(1)
}
