//! The information in single lists: the order of writes, their writers, and the anomalies that need
//! no cycle.
//!
//! The longest list read for a key is the order of its writes; every other read list must be a
//! prefix of it. A transaction reads a prefix of committed values, followed by its own appends:
//!
//! ```text
//!   order of x    1  2  5  4        2 and 5 by a; 4 by c, whose unknown outcome is thus a commit
//!   a             append x 2; read x [1 2]; append x 5        sees [1] of others
//!   b             read x [1 2]                                G1b: 2 is not the last append of a
//! ```

use crate::history::{History, Key, Op, Outcome, Transaction, Value};
use std::collections::BTreeMap;

/// A history with the orders of its lists.
pub(crate) struct Lists<'h> {
    pub(crate) transactions: &'h [Transaction],
    /// By transaction: true if it is known to have committed.
    pub(crate) counts: Vec<bool>,
    /// By key: the values in the order of the list, each with the index of its writer.
    pub(crate) orders: BTreeMap<&'h str, Vec<(Value, usize)>>,
    writers: BTreeMap<(&'h str, Value), usize>,
}

/// An anomaly of a single list: its name, and a sentence.
pub(crate) type Wrong = (&'static str, String);

impl<'h> Lists<'h> {
    /// Derives the orders of the lists, and finds the anomalies that no isolation level allows.
    pub(crate) fn of(history: &'h History) -> (Lists<'h>, Vec<Wrong>) {
        let transactions = &history.transactions[..];
        let counts =
            transactions.iter().map(|transaction| transaction.outcome == Outcome::Committed);
        let mut lists = Lists {
            transactions,
            counts: counts.collect(),
            orders: BTreeMap::new(),
            writers: BTreeMap::new(),
        };
        let mut wrong = lists.find_writers();
        lists.find_orders(&mut wrong);
        lists.look_at_reads(&mut wrong);
        lists.find_lost(&mut wrong);
        (lists, wrong)
    }

    /// The reads of all transactions that are known to have committed: transaction, statement, key
    /// and values.
    pub(crate) fn reads(
        &self,
    ) -> impl Iterator<Item = (usize, usize, &'h Key, &'h [Value])> + use<'h, '_> {
        let transactions = self.transactions;
        let known = transactions.iter().enumerate().filter(|(at, _)| self.counts[*at]);
        known.flat_map(|(at, transaction)| {
            let statements = transaction.statements.iter().enumerate();
            statements.flat_map(move |(statement, ops)| {
                ops.iter().filter_map(move |op| match op {
                    Op::Read(key, values) => Some((at, statement, key, &values[..])),
                    Op::Append(..) => None,
                })
            })
        })
    }

    pub(crate) fn writer(&self, key: &str, value: Value) -> Option<usize> {
        // The lookup yields a key that lives as long as the history; a key without an order has no
        // writer.
        let key = self.orders.get_key_value(key)?.0;
        self.writers.get(&(key, value)).copied()
    }

    /// The length of the prefix of `values` that precedes the reader's own appends.
    pub(crate) fn of_others(&self, reader: usize, key: &str, values: &[Value]) -> usize {
        let own = |value: &&Value| self.writer(key, **value) == Some(reader);
        values.len() - values.iter().rev().take_while(own).count()
    }

    fn name(&self, transaction: usize) -> &'h str {
        &self.transactions[transaction].name
    }

    fn find_writers(&mut self) -> Vec<Wrong> {
        let mut wrong = Vec::new();
        for (at, transaction) in self.transactions.iter().enumerate() {
            for op in transaction.ops() {
                let (Op::Append(key, _) | Op::Read(key, _)) = op;
                self.orders.entry(key).or_default();
                if let Op::Append(key, value) = op
                    && let Some(other) = self.writers.insert((key, *value), at)
                {
                    let (one, other) = (self.name(other), self.name(at));
                    let what = format!("{one} and {other} both append {value} to {key}");
                    wrong.push(("ambiguous history", what));
                }
            }
        }
        wrong
    }

    /// Finds the order of each list. A transaction with an unknown outcome has committed if an
    /// order contains one of its values.
    fn find_orders(&mut self, wrong: &mut Vec<Wrong>) {
        let mut longest: BTreeMap<&str, (usize, &[Value])> = BTreeMap::new();
        for (reader, _, key, values) in self.reads() {
            let best = longest.entry(key).or_insert((reader, values));
            if values.len() > best.1.len() {
                *best = (reader, values);
            }
        }
        for (reader, _, key, values) in self.reads() {
            let (other, order) = longest[&key[..]];
            if !order.starts_with(values) {
                let (one, other) = (self.name(reader), self.name(other));
                let what = format!("{one} read {key} {values:?}, and {other} read {key} {order:?}");
                wrong.push(("incompatible orders", what));
            }
        }
        for (key, (reader, values)) in longest {
            let mut order: Vec<(Value, usize)> = Vec::new();
            for value in values {
                match self.writers.get(&(key, *value)) {
                    Some(_) if order.iter().any(|(other, _)| other == value) => {
                        let what = format!("{} read {value} twice in {key}", self.name(reader));
                        wrong.push(("duplicate value", what));
                    }
                    Some(writer) => order.push((*value, *writer)),
                    None => {
                        let what = format!(
                            "{} read {value} in {key}, which nobody appended",
                            self.name(reader)
                        );
                        wrong.push(("value from nowhere", what));
                    }
                }
            }
            for (_, writer) in &order {
                self.counts[*writer] |= self.transactions[*writer].outcome == Outcome::Unknown;
            }
            self.orders.insert(key, order);
        }
    }

    /// Finds reads of aborted or intermediate values, and own appends missing from the end of a
    /// list.
    fn look_at_reads(&self, wrong: &mut Vec<Wrong>) {
        for (reader, statement, key, values) in self.reads() {
            let name = self.name(reader);
            for value in values {
                if let Some(writer) = self.writer(key, *value)
                    && self.transactions[writer].outcome == Outcome::Failed
                {
                    let what = format!(
                        "{name} read {value} in {key}, which {} appended, and was told that it had no effect",
                        self.name(writer)
                    );
                    wrong.push(("G1a, aborted read", what));
                }
            }
            if let Some(last) = values[..self.of_others(reader, key, values)].last()
                && let Some(writer) = self.writer(key, *last)
                && let Some(later) = self.transactions[writer].appends(key).next_back()
                && later != *last
            {
                let what = format!(
                    "{name} read {key} up to {last}, which {} appended before {later}",
                    self.name(writer)
                );
                wrong.push(("G1b, intermediate read", what));
            }
            let own = self.own_until(reader, statement, key);
            if !values.ends_with(&own) {
                let what = format!("{name} read {key} {values:?} after it had appended {own:?}");
                wrong.push(("own writes unseen", what));
            }
        }
    }

    /// The values that a transaction appended to a list in the statements before `statement`.
    fn own_until(&self, transaction: usize, statement: usize, of: &str) -> Vec<Value> {
        let before = self.transactions[transaction].statements[..statement].iter().flatten();
        let appended = before.filter_map(|op| match op {
            Op::Append(key, value) if key == of => Some(*value),
            _ => None,
        });
        appended.collect()
    }

    /// Finds acknowledged values that are missing from a list read afterwards. Every isolation
    /// level requires a transaction to see what was committed before it began.
    fn find_lost(&self, wrong: &mut Vec<Wrong>) {
        for ((key, value), writer) in &self.writers {
            let transaction = &self.transactions[*writer];
            let is_there = self.orders[key].iter().any(|(other, _)| other == value);
            let (Outcome::Committed, Some(ended), false) =
                (transaction.outcome, transaction.ended, is_there)
            else {
                continue;
            };
            let mut later = self.reads().filter(|(reader, _, of, _)| {
                of == key && self.transactions[*reader].begun.is_some_and(|begun| begun > ended)
            });
            if let Some((reader, _, _, values)) = later.next() {
                let what = format!(
                    "{} appended {value} to {key} and was told that it has committed; after that {} read {key} {values:?}",
                    transaction.name,
                    self.name(reader)
                );
                wrong.push(("lost append", what));
            }
        }
    }
}
