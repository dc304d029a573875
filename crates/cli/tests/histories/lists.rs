//! Lists: appends and reads, as single statements and in blocks. Blocks use two isolation levels,
//! or the one of the run.
//!
//! A list is a row whose text grows. Clients use a window of eight lists. It moves on as values are
//! appended, so lists stay short and new rows are inserted all the time.

use crate::Run;
use crate::chance::Chance;
use crate::server::judged;
use isomer_check::{History, Level, Op, Outcome, Transaction};
use postgres::{Client, SimpleQueryMessage};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// `k` is the list, `n` its length, `g` the list again, for an index that is created and dropped.
pub(crate) fn table(with: &str) -> String {
    format!(
        "create table lists (k int primary key, v text not null, n int not null, g int not null) {with};
         alter table lists split at (250); alter table lists remaster at (250) to site 2;
         alter table lists split at (500); alter table lists remaster at (500) to site 3;
         alter table lists split at (750); alter table lists remaster at (750) to site 4"
    )
}

/// Successive lists are far apart in the table, so that they are at different sites.
const KEYS: i64 = 1000;
const STRIDE: i64 = 617;
const WINDOW: i64 = 8;
/// Values after which the window moves on by one list.
const VALUES_EACH: i64 = 30;

#[derive(Default)]
pub(crate) struct Recorder {
    step: AtomicU64,
    values: AtomicI64,
    transactions: Mutex<Vec<Transaction>>,
}

impl Recorder {
    fn step(&self) -> u64 {
        self.step.fetch_add(1, Ordering::SeqCst)
    }

    /// A random list of the window.
    fn key(&self, chance: &mut Chance) -> i64 {
        let first = self.values.load(Ordering::SeqCst) / VALUES_EACH;
        (first + chance.below(WINDOW)) * STRIDE % KEYS
    }

    fn note(&self, mut transaction: Transaction) {
        let mut transactions = self.transactions.lock().expect("no client panics with it");
        transaction.name = format!("T{}", transactions.len() + 1);
        transactions.push(transaction);
    }

    pub(crate) fn into_history(self) -> History {
        History { transactions: self.transactions.into_inner().expect("no client panicked") }
    }
}

/// A statement with the part of its operations that is known before its answer.
enum Statement {
    Append(Vec<(i64, i64)>),
    Read { keys: Vec<i64>, by: &'static str },
}

impl Statement {
    fn draw(recorder: &Recorder, chance: &mut Chance) -> Statement {
        let mut keys: Vec<i64> = (0..1 + chance.below(3)).map(|_| recorder.key(chance)).collect();
        keys.sort_unstable();
        keys.dedup();
        match chance.below(5) {
            0 | 1 => {
                keys.truncate(2);
                let value = |key| (key, recorder.values.fetch_add(1, Ordering::SeqCst));
                Statement::Append(keys.into_iter().map(value).collect())
            }
            2 => Statement::Read { keys, by: "g" },
            _ => Statement::Read { keys, by: "k" },
        }
    }

    fn text(&self) -> String {
        match self {
            Statement::Append(values) => {
                let row = |(key, value): &(i64, i64)| format!("({key}, '{value}', 1, {key})");
                let rows: Vec<String> = values.iter().map(row).collect();
                format!(
                    "insert into lists (k, v, n, g) values {} on conflict (k) do update \
                     set v = lists.v || ' ' || excluded.v, n = lists.n + 1",
                    rows.join(", ")
                )
            }
            Statement::Read { keys, by } => {
                let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
                format!("select k, v from lists where {by} in ({})", keys.join(", "))
            }
        }
    }

    /// Its operations according to the answer; without an answer, those that it may have done.
    fn ops(&self, answer: Option<&[SimpleQueryMessage]>) -> Vec<Op> {
        match (self, answer) {
            (Statement::Append(values), _) => {
                let append = |(key, value): &(i64, i64)| Op::Append(key.to_string(), *value);
                values.iter().map(append).collect()
            }
            (Statement::Read { .. }, None) => Vec::new(),
            (Statement::Read { keys, .. }, Some(answer)) => {
                let (mut found, twice) = lists_in(answer);
                // A transaction on an ordered table takes no lock: it may see its own version of a
                // row beside the place that another has moved it to. Then it must not commit.
                found.extend(twice.into_iter().map(|key| (key, vec![FROM_NOWHERE])));
                let read = |key: &i64| {
                    let key = key.to_string();
                    let values = found.remove(&key).unwrap_or_default();
                    Op::Read(key, values)
                };
                let ops = keys.iter().map(read).collect();
                assert!(found.is_empty(), "{} found {found:?}", self.text());
                ops
            }
        }
    }
}

/// A value that was never appended: a transaction that has read it must not commit.
const FROM_NOWHERE: i64 = -1;

/// The rows of an answer, as keys and their lists, and the keys that are there twice.
fn lists_in(answer: &[SimpleQueryMessage]) -> (BTreeMap<String, Vec<i64>>, Vec<String>) {
    let (mut lists, mut twice) = (BTreeMap::new(), Vec::new());
    for message in answer {
        let SimpleQueryMessage::Row(row) = message else { continue };
        let key = row.get(0).expect("a key").to_owned();
        let values = row.get(1).expect("a list").split(' ');
        let values = values.map(|value| value.parse().expect("a number")).collect();
        if lists.insert(key.clone(), values).is_some() {
            twice.push(key);
        }
    }
    (lists, twice)
}

/// Runs transactions until the run is over.
pub(crate) fn client(run: &Run, recorder: &Recorder, number: u64) {
    let mut chance = run.chance(number);
    for connection in 1.. {
        let mut client = run.server.client();
        if let Some(level) = run.level {
            let set = format!("set default_transaction_isolation = '{}'", name_of(level));
            if client.batch_execute(&set).is_err() {
                continue;
            }
        }
        let session = format!("c{number}.{connection}");
        loop {
            if run.is_over() {
                return;
            }
            let (mut transaction, is_lost) =
                transact(&mut client, run.level, recorder, &mut chance);
            if transaction.outcome == Outcome::Committed {
                run.commits.fetch_add(1, Ordering::SeqCst);
            }
            transaction.session = Some(session.clone());
            recorder.note(transaction);
            if is_lost {
                break;
            }
        }
    }
}

/// Runs one transaction; returns true, too, if the connection has ended.
fn transact(
    client: &mut Client,
    level: Option<Level>,
    recorder: &Recorder,
    chance: &mut Chance,
) -> (Transaction, bool) {
    let count = chance.below(5);
    let drawn =
        if count > 0 && chance.below(2) == 0 { Level::Snapshot } else { Level::ReadCommitted };
    let level = level.unwrap_or(drawn);
    let begun = Some(recorder.step());
    let mut transaction = Transaction { begun, level, ..Transaction::default() };
    let mut statements: Vec<Statement> =
        (0..count.max(1)).map(|_| Statement::draw(recorder, chance)).collect();
    let done = match count {
        0 => run_alone(client, &statements.remove(0), &mut transaction),
        _ => run_block(client, &statements, &mut transaction),
    };
    let Err((error, was_committing)) = done else {
        transaction.ended = Some(recorder.step());
        return (transaction, false);
    };
    let (outcome, is_lost) = judged(&error, was_committing);
    transaction.outcome = outcome;
    let is_lost = is_lost || client.batch_execute("rollback").is_err();
    (transaction, is_lost)
}

fn name_of(level: Level) -> &'static str {
    match level {
        Level::ReadCommitted => "read committed",
        Level::Snapshot => "repeatable read",
        Level::Serializable => "serializable",
    }
}

/// An error, and whether the transaction may have committed nevertheless.
type Failed = (postgres::Error, bool);

fn run_alone(
    client: &mut Client,
    statement: &Statement,
    transaction: &mut Transaction,
) -> Result<(), Failed> {
    let answer = client.simple_query(&statement.text());
    transaction.statements.push(statement.ops(answer.as_deref().ok()));
    answer.map(drop).map_err(|error| (error, true))
}

fn run_block(
    client: &mut Client,
    statements: &[Statement],
    transaction: &mut Transaction,
) -> Result<(), Failed> {
    let begin = format!("begin isolation level {}", name_of(transaction.level));
    client.batch_execute(&begin).map_err(|error| (error, false))?;
    for statement in statements {
        let answer = client.simple_query(&statement.text());
        transaction.statements.push(statement.ops(answer.as_deref().ok()));
        answer.map_err(|error| (error, false))?;
    }
    client.batch_execute("commit").map_err(|error| (error, true))
}

/// Records the last transaction, which reads all lists at the end.
pub(crate) fn read_all(run: &Run, recorder: &Recorder) {
    let begun = Some(recorder.step());
    let answer = run.server.client().simple_query("select k, v from lists");
    let (mut found, twice) = lists_in(&answer.expect("it serves"));
    assert!(twice.is_empty(), "{twice:?} are there twice");
    let used = {
        let transactions = recorder.transactions.lock().expect("no client panics with it");
        let ops = transactions.iter().flat_map(Transaction::ops);
        let keys = ops.map(|op| match op {
            Op::Append(key, _) | Op::Read(key, _) => key.clone(),
        });
        keys.collect::<std::collections::BTreeSet<String>>()
    };
    let read = |key: String| {
        let values = found.remove(&key).unwrap_or_default();
        Op::Read(key, values)
    };
    let statements = vec![used.into_iter().map(read).collect()];
    assert!(found.is_empty(), "no transaction wrote {found:?}");
    let ended = Some(recorder.step());
    recorder.note(Transaction { begun, ended, statements, ..Transaction::default() });
}
