//! Clients of a script: a transaction is a task whose procedure is paused until the next statement.

use super::show;
use isomer_cluster::open::{Isolation, LockMode, OpenError};
use isomer_design::{Footprint, Key, KeyRange, TableId, Time};
use isomer_sim::cluster::{Client, Cluster, Recorder};
use isomer_sim::statements::Statements;
use isomer_sim::world::{TaskId, World};
use isomer_site::Abort;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::error::Error;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// A request of a client to its transaction.
#[derive(Clone)]
pub(crate) enum Statement {
    Get(TableId, Key),
    Put(TableId, Key, i64),
    Insert(TableId, Key, i64),
    Delete(TableId, Key),
    Scan(TableId, KeyRange),
    Lock(TableId, Key),
    Share(TableId, Key),
    Savepoint,
    BackTo(usize),
    Commit,
    Rollback,
}

/// A client: its session, and its open transaction, if any.
pub(crate) struct Desk {
    client: Rc<RefCell<Option<Client>>>,
    open: Rc<RefCell<Open>>,
    task: TaskId,
    /// The wait that was last shown.
    waits: String,
}

/// The exchange between the script and the procedure.
#[derive(Default)]
struct Open {
    statements: VecDeque<Statement>,
    answers: Vec<String>,
    /// Wakes an open transaction that waits for a statement.
    waker: Option<Waker>,
}

impl Desk {
    pub(crate) fn new(number: u64) -> Desk {
        let client = Rc::new(RefCell::new(Some(Client::new(number))));
        Desk { client, open: Rc::default(), task: 0, waits: String::new() }
    }

    /// True until a transaction has ended.
    pub(crate) fn is_open(&self, world: &World) -> bool {
        self.task != 0 && !world.is_done(self.task)
    }

    /// The latest time that the client has seen, if no transaction is open.
    pub(crate) fn seen(&self) -> Time {
        self.client.borrow().as_ref().map_or(Time::ZERO, Client::seen)
    }

    /// Raises the client's session to the time that another client has seen.
    pub(crate) fn has_seen(&self, time: Time) {
        if let Some(client) = &mut *self.client.borrow_mut() {
            client.has_seen(time);
        }
    }

    /// Carries out a line of the script.
    pub(crate) fn hear(&mut self, cluster: &Rc<Cluster>, line: &str) -> Result<(), Box<dyn Error>> {
        let world = &cluster.world;
        let isolation = match line {
            "begin read committed" => Some(Isolation::ReadCommitted),
            "begin repeatable read" => Some(Isolation::RepeatableRead),
            "begin serializable" => Some(Isolation::Serializable),
            _ => None,
        };
        if let Some(isolation) = isolation {
            self.begin_open(cluster, isolation);
            return Ok(());
        }
        if let Some(footprint) = line.strip_prefix("begin ") {
            let footprint = Footprint::parse(footprint, &cluster.conductor().design())?;
            return self.begin(cluster, footprint, VecDeque::new());
        }
        if self.is_open(world) {
            for statement in statements(cluster, line)? {
                self.tell(world, statement);
            }
            return Ok(());
        }
        let mut statements: VecDeque<Statement> = statements(cluster, line)?.into();
        let footprint = footprint(&statements);
        statements.push_back(Statement::Commit);
        self.begin(cluster, footprint, statements)
    }

    /// Passes a statement to the open transaction.
    pub(crate) fn tell(&self, world: &Rc<World>, statement: Statement) {
        self.open.borrow_mut().statements.push_back(statement);
        self.wake(world);
    }

    /// Continues the procedure.
    pub(crate) fn wake(&self, world: &Rc<World>) {
        world.resume(self.task);
        let waker = self.open.borrow_mut().waker.take();
        waker.into_iter().for_each(Waker::wake);
    }

    /// The output since the last call.
    pub(crate) fn news(&mut self, world: &World) -> Vec<String> {
        let mut news = std::mem::take(&mut self.open.borrow_mut().answers);
        let waits = match world.what_is_done_by(self.task) {
            Some(waits)
                if !waits.trim().is_empty() && self.task != 0 && !world.is_paused(self.task) =>
            {
                waits
            }
            _ => String::new(),
        };
        if waits != self.waits && !waits.is_empty() {
            news.push(waits.clone());
        }
        self.waits = waits;
        news
    }

    /// Begins a transaction whose statements arrive one by one.
    fn begin_open(&mut self, cluster: &Rc<Cluster>, isolation: Isolation) {
        let (cluster, open) = (cluster.clone(), self.open.clone());
        self.task = cluster.world.clone().spawn(String::new(), async move {
            let mut txn = Statements::begin(&cluster, isolation, Arc::default());
            let say = |words: String| open.borrow_mut().answers.push(words);
            loop {
                cluster.world.doing(String::new);
                let next = poll_fn(|cx| {
                    let mut open = open.borrow_mut();
                    open.waker = Some(cx.waker().clone());
                    open.statements.pop_front().map_or(Poll::Pending, Poll::Ready)
                });
                match next.await {
                    Statement::Rollback => {
                        txn.roll_back("rolled back");
                        return say("rolled back".into());
                    }
                    Statement::Commit => {
                        return say(match txn.commit().await {
                            Ok(Some(ran)) => format!("committed at {}", ran.place.site()),
                            Ok(None) => "committed, having written nothing".into(),
                            Err(OpenError::Database(error)) if error.is_unknown() => {
                                format!("outcome unknown: {error}")
                            }
                            Err(error) => format!("no effect: {error}"),
                        });
                    }
                    statement => match carry_out_open(&mut txn, &statement).await {
                        Ok(words) => say(words),
                        Err(error) => {
                            txn.roll_back(&error.to_string());
                            return say(format!("rolled back: {error}"));
                        }
                    },
                }
            }
        });
    }

    fn begin(
        &mut self,
        cluster: &Rc<Cluster>,
        footprint: Footprint,
        statements: VecDeque<Statement>,
    ) -> Result<(), Box<dyn Error>> {
        let one_shot = !statements.is_empty();
        let mut client = self.client.borrow_mut().take().ok_or("it has a transaction open")?;
        self.open.borrow_mut().statements = statements;
        let (cluster, open, back) = (cluster.clone(), self.open.clone(), self.client.clone());
        let world = cluster.world.clone();
        self.task = world.spawn_on_stack(String::new(), move |stack| {
            Box::pin(async move {
                let world = &cluster.world;
                let say = |words: String| open.borrow_mut().answers.push(words);
                let mut procedure = |txn: &mut Recorder<'_, '_>| {
                    let site = world.place().expect("it has just begun there");
                    if !one_shot {
                        say(format!("begins at {site}"));
                    }
                    loop {
                        let statement = open.borrow_mut().statements.pop_front();
                        match statement {
                            Some(Statement::Commit) => return Ok(()),
                            Some(Statement::Rollback) => return Err(Abort::because("rolled back")),
                            Some(statement) => say(carry_out(txn, &statement)?),
                            None if world.place().is_none() => {
                                return Err(Abort::because("its site died"));
                            }
                            None => world.park(stack),
                        }
                    }
                };
                let result = cluster.run(&mut client, &footprint, &mut procedure).await;
                say(match result {
                    Ok(ran) if ran.changes > 0 => {
                        let changes = if ran.changes == 1 { "change" } else { "changes" };
                        format!(
                            "committed at {}, after {} {changes}",
                            ran.place.site(),
                            ran.changes
                        )
                    }
                    Ok(ran) => format!("committed at {}", ran.place.site()),
                    Err(error) if error.is_unknown() => format!("outcome unknown: {error}"),
                    Err(error) => format!("no effect: {error}"),
                });
                *back.borrow_mut() = Some(client);
            })
        });
        Ok(())
    }
}

async fn carry_out_open(txn: &mut Statements, statement: &Statement) -> Result<String, OpenError> {
    let shown = |value: Option<i64>| value.map_or("nothing".into(), |value| value.to_string());
    txn.next();
    Ok(match statement {
        Statement::Get(table, key) => {
            format!("{table}[{key}] is {}", shown(txn.get(*table, key).await?))
        }
        Statement::Put(table, key, value) | Statement::Insert(table, key, value) => {
            txn.put(*table, key, Some(*value)).await?;
            format!("{table}[{key}] := {value}")
        }
        Statement::Delete(table, key) => {
            txn.put(*table, key, None).await?;
            format!("{table}[{key}] := nothing")
        }
        Statement::Scan(table, range) => {
            let rows = txn.scan(*table, range).await?;
            let rows: Vec<String> = rows.iter().map(|(key, v)| format!("{key} = {v}")).collect();
            format!("{table}{range}: {}", rows.join(", "))
        }
        Statement::Lock(table, key) => {
            let (value, _) = txn.lock(*table, key, LockMode::Exclusive).await?;
            format!("has locked {table}[{key}], which is {}", shown(value))
        }
        Statement::Share(table, key) => {
            let (value, _) = txn.lock(*table, key, LockMode::Shared).await?;
            format!("branches {table}[{key}], which is {}", shown(value))
        }
        Statement::Savepoint => {
            txn.savepoint();
            format!("savepoint {}", txn.savepoints() - 1)
        }
        Statement::BackTo(number) => {
            txn.back_to(*number);
            format!("back to savepoint {number}")
        }
        Statement::Commit | Statement::Rollback => unreachable!("these end the transaction"),
    })
}

fn carry_out(txn: &mut Recorder<'_, '_>, statement: &Statement) -> Result<String, Abort> {
    let shown = |value: Option<i64>| value.map_or("nothing".into(), |value| value.to_string());
    Ok(match statement {
        Statement::Get(table, key) => {
            let value = txn.get(*table, key)?;
            format!("{table}[{key}] is {}", shown(value))
        }
        Statement::Put(table, key, value) => {
            txn.put(*table, key, *value)?;
            format!("{table}[{key}] := {value}")
        }
        Statement::Insert(table, key, value) => {
            txn.insert(*table, key, *value)?;
            format!("{table}[{key}] := {value}, new")
        }
        Statement::Delete(table, key) => {
            let existed = txn.delete(*table, key)?;
            format!("{table}[{key}] := nothing{}", if existed { "" } else { ", as before" })
        }
        Statement::Scan(table, range) => {
            let rows = txn.scan(*table, range)?;
            let rows: Vec<String> = rows.iter().map(|(key, v)| format!("{key} = {v}")).collect();
            format!("{table}{range}: {}", rows.join(", "))
        }
        Statement::Commit | Statement::Rollback => unreachable!("these end the procedure"),
        _ => unreachable!("it is for open transactions"),
    })
}

/// `get accounts[5], put accounts[12] = 7`
fn statements(cluster: &Cluster, line: &str) -> Result<Vec<Statement>, Box<dyn Error>> {
    line.split(", ").map(|text| statement(cluster, text)).collect()
}

fn statement(cluster: &Cluster, text: &str) -> Result<Statement, Box<dyn Error>> {
    let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
    let (place, value) = rest.split_once(" = ").unwrap_or((rest, ""));
    Ok(match verb {
        "commit" => Statement::Commit,
        "rollback" => Statement::Rollback,
        "savepoint" => Statement::Savepoint,
        "back" => Statement::BackTo(rest.parse()?),
        _ => {
            let (table, range) = show::range(cluster, place)?;
            let key = range.start.clone();
            match verb {
                "get" => Statement::Get(table, key),
                "put" => Statement::Put(table, key, value.parse()?),
                "insert" => Statement::Insert(table, key, value.parse()?),
                "delete" => Statement::Delete(table, key),
                "scan" => Statement::Scan(table, range),
                "lock" => Statement::Lock(table, key),
                "share" => Statement::Share(table, key),
                _ => return Err(format!("`{verb}` is no statement").into()),
            }
        }
    })
}

/// The footprint of a transaction whose statements are known.
fn footprint(statements: &VecDeque<Statement>) -> Footprint {
    let mut footprint = Footprint::new();
    for statement in statements {
        footprint = match statement.clone() {
            Statement::Get(table, key) => footprint.read(table, key),
            Statement::Put(table, key, _)
            | Statement::Insert(table, key, _)
            | Statement::Delete(table, key) => footprint.write(table, key),
            Statement::Scan(table, range) => footprint.read_range(table, range),
            _ => footprint,
        };
    }
    footprint
}
