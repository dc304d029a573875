//! The moments of transactions, and the rules about their order.
//!
//! | rule | because |
//! | --- | --- |
//! | a reads before a commits | the statements of a transaction are in order |
//! | a commits before b reads | b sees a value that a appended: `wr` |
//! | a reads before b commits | a sees the list without a value that b appended: `rw` |
//! | a commits before b commits | b's value follows a's in a list: `ww` (see below) |
//! | a commits before b begins | b follows a in a session, or a ended before b began |
//!
//! Above read committed, a `ww` rule reaches the moment of b's reads: a commits before b begins.

use crate::history::{Level, Value};
use crate::lists::Lists;

/// Why one moment was before another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// Both belong to one transaction, and its statements are in order.
    Within,
    /// The second transaction's value follows the first one's in a list.
    Ww { key: String, values: [Value; 2] },
    /// The second transaction sees a value of the first.
    Wr { key: String, value: Value },
    /// The first transaction does not see a value of the second.
    Rw { key: String, value: Value },
    /// The second transaction came later in the same session.
    Session,
    /// The second transaction began after the first had ended.
    RealTime,
}

/// A rule: the later moment, and the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Edge {
    pub(crate) to: usize,
    pub(crate) why: Why,
}

/// A graph of moments, which are numbers. Each moment belongs to a transaction.
pub(crate) struct Moments {
    /// By moment: its transaction.
    pub(crate) of: Vec<usize>,
    /// By moment: the rules that start there.
    pub(crate) edges: Vec<Vec<Edge>>,
    /// By transaction: its first moment, and its commit.
    span: Vec<[usize; 2]>,
}

impl Moments {
    pub(crate) fn of(lists: &Lists<'_>) -> Moments {
        let mut moments = Moments { of: Vec::new(), edges: Vec::new(), span: Vec::new() };
        for (at, transaction) in lists.transactions.iter().enumerate() {
            let count = match transaction.level {
                Level::ReadCommitted => transaction.statements.len() + 1,
                Level::Snapshot => 2,
                Level::Serializable => 1,
            };
            let first = moments.of.len();
            moments.of.extend(std::iter::repeat_n(at, count));
            moments.edges.resize(first + count, Vec::new());
            moments.span.push([first, first + count - 1]);
            for moment in first..first + count - 1 {
                moments.before(moment, moment + 1, Why::Within);
            }
        }
        moments.lists(lists);
        moments.sessions(lists);
        moments.real_time(lists);
        moments
    }

    fn before(&mut self, one: usize, other: usize, why: Why) {
        self.edges[one].push(Edge { to: other, why });
    }

    fn begin(&self, transaction: usize) -> usize {
        self.span[transaction][0]
    }

    fn commit(&self, transaction: usize) -> usize {
        self.span[transaction][1]
    }

    /// The moment at which a statement reads.
    fn reads(&self, lists: &Lists<'_>, transaction: usize, statement: usize) -> usize {
        match lists.transactions[transaction].level {
            Level::ReadCommitted => self.begin(transaction) + statement,
            Level::Snapshot | Level::Serializable => self.begin(transaction),
        }
    }

    fn lists(&mut self, lists: &Lists<'_>) {
        for (key, order) in &lists.orders {
            for pair in order.windows(2) {
                let [(one, before), (other, after)] = [pair[0], pair[1]];
                if before != after {
                    let to = match lists.transactions[after].level {
                        Level::ReadCommitted => self.commit(after),
                        Level::Snapshot | Level::Serializable => self.begin(after),
                    };
                    let why = Why::Ww { key: (*key).to_owned(), values: [one, other] };
                    self.before(self.commit(before), to, why);
                }
            }
        }
        for (reader, statement, key, values) in lists.reads() {
            let moment = self.reads(lists, reader, statement);
            let seen = lists.of_others(reader, key, values);
            let order = &lists.orders[&key[..]];
            if let Some(value) = values[..seen].last()
                && let Some(writer) = lists.writer(key, *value)
            {
                let why = Why::Wr { key: key.clone(), value: *value };
                self.before(self.commit(writer), moment, why);
            }
            if let Some((value, writer)) = order.get(seen)
                && *writer != reader
            {
                let why = Why::Rw { key: key.clone(), value: *value };
                self.before(moment, self.commit(*writer), why);
            }
        }
    }

    fn sessions(&mut self, lists: &Lists<'_>) {
        let mut last = std::collections::BTreeMap::new();
        for (at, transaction) in lists.transactions.iter().enumerate() {
            if let (Some(session), true) = (&transaction.session, lists.counts[at])
                && let Some(before) = last.insert(session, at)
            {
                self.before(self.commit(before), self.begin(at), Why::Session);
            }
        }
    }

    /// Adds rules from transactions that ended to those that began later. If two ended one after
    /// the other, a rule from the later one suffices. A transaction therefore gets at most as many
    /// rules as there are clients.
    fn real_time(&mut self, lists: &Lists<'_>) {
        let known = lists.transactions.iter().enumerate().filter(|(at, _)| lists.counts[*at]);
        let mut events: Vec<(u64, bool, usize)> = known
            .flat_map(|(at, transaction)| {
                let begun = transaction.begun.map(|step| (step, false, at));
                begun.into_iter().chain(transaction.ended.map(|step| (step, true, at)))
            })
            .collect();
        events.sort_unstable();
        let mut front: Vec<usize> = Vec::new();
        let mut before: std::collections::BTreeMap<usize, Vec<usize>> = Default::default();
        for (_, has_ended, at) in events {
            if has_ended {
                let passed = before.remove(&at).unwrap_or_default();
                front.retain(|other| !passed.contains(other));
                front.push(at);
            } else {
                front.iter().for_each(|other| {
                    self.edges[self.span[*other][1]]
                        .push(Edge { to: self.span[at][0], why: Why::RealTime });
                });
                before.insert(at, front.clone());
            }
        }
    }
}
