//! A statement, compiled: what it needs, what it shows, and what it does.
//!
//! Compiling happens once for a text and a catalog: names become places, parameters get types, the way
//! to the rows is chosen. The result is immutable and shared by all sessions; running it takes the
//! parameters' values and a transaction. What a session must do itself (BEGIN, SET, COPY, definitions)
//! comes out as an [`Action`] for it to carry out.

mod session;

use crate::bind::{Binder, folded};
use crate::budget::Budget;
use crate::catalog::{Catalog, Named, Relation};
use crate::datum::Datum;
use crate::error::{SqlError, code};
pub use crate::exec::Cost;
use crate::exec::Exec;
use crate::expr::Expr;
use crate::foreign::{Check, Checks};
use crate::parse::{AlterStatement, DomainStatement, Like, SequenceStatement};
use crate::parse::{
    ConstraintsStatement, CursorStatement, Declare, Fetch, Maintenance, Parsed, Reshard,
    RightsStatement,
};
use crate::plan::{Change, Insert, OutputColumn, Select};
use crate::rights::{Kind, Need, Object, Rights};
use crate::transaction::{LockKind, Sink, Surroundings, Transaction};
use crate::types::SqlType;
use session::{copy, literals, modes, set_action, setting_name};
use sqlparser::ast::{self, ObjectType, Statement};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A compiled statement.
#[derive(Debug)]
pub struct Compiled {
    /// What it does.
    pub action: Action,
    /// The types of its parameters.
    pub params: Vec<SqlType>,
    /// The columns of its result; none if it has no result.
    pub output: Option<Vec<OutputColumn>>,
    /// The version of the catalog that it was compiled for.
    pub version: u64,
    /// The rights that it needs.
    pub needs: Vec<Need>,
    /// For whom that was checked last.
    pub(crate) checked_for: AtomicU64,
    /// About how much memory it takes.
    pub bytes: usize,
}

/// What a statement does.
#[derive(Debug)]
pub enum Action {
    /// SELECT, VALUES.
    Select(Box<Select>),
    /// INSERT.
    Insert(Box<Insert>),
    /// UPDATE.
    Update(Box<Change>),
    /// DELETE.
    Delete(Box<Change>),
    /// EXPLAIN of one of these.
    Explain(Box<Action>, Explains),
    /// A statement about transactions.
    Control(Control),
    /// COPY.
    Copy(Copy),
    /// SET, SHOW, RESET.
    Setting(Setting),
    /// PREPARE, EXECUTE, DEALLOCATE, DISCARD.
    Prepared(Prepared),
    /// A definition: carried out by whoever owns the catalog.
    Define(Definition),
    /// DECLARE, FETCH, MOVE, CLOSE.
    Cursor(Box<Cursor>),
    /// LOCK TABLE.
    Lock(Box<ast::Lock>),
    /// A statement about the design: likewise.
    Design(Box<crate::parse::DesignStatement>),
    /// A statement about a user: likewise.
    User(crate::parse::UserStatement),
    /// VACUUM, ANALYZE: only the names are checked.
    Maintain(Maintenance),
    /// Nothing, and its tag.
    Nothing(&'static str),
}

/// A statement about a cursor.
#[derive(Debug)]
pub enum Cursor {
    /// DECLARE, of this query, and as it was written.
    Declare(Declare, Arc<Compiled>, Arc<str>),
    /// FETCH, MOVE.
    Fetch(Fetch),
    /// CLOSE; none: all.
    Close(Option<String>),
}

/// A definition.
#[derive(Clone, Debug)]
pub enum Definition {
    /// Of tables and indexes.
    Sql(Box<Statement>),
    /// Of a table with columns LIKE those of others.
    Table(Box<Statement>, Vec<Like>),
    /// ALTER, as the grammar does not know it.
    Alter(Box<AlterStatement>),
    /// Of domains.
    Domain(Box<DomainStatement>),
    /// Of sequences.
    Sequence(Box<SequenceStatement>),
    /// Of the order in which a table's rows are kept.
    Reshard(Box<Reshard>),
    /// Of rights.
    Rights(Box<RightsStatement>),
}

/// What EXPLAIN shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Explains {
    /// What would be done.
    Plan,
    /// And what it cost: the statement runs. True if that is told in time as well.
    Cost(bool),
}

/// What a statement has cost.
#[derive(Clone, Debug)]
pub struct Costs {
    /// The rows that it had, or changed.
    pub rows: u64,
    /// What the queries inside of its expressions have cost, by their numbers.
    pub inner: Vec<(usize, Cost)>,
}

/// A statement about transactions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Control {
    /// BEGIN, and how it is isolated, and whether it only reads, if that is said.
    Begin(Modes),
    /// COMMIT.
    Commit,
    /// ROLLBACK.
    Rollback,
    /// SAVEPOINT.
    Savepoint(String),
    /// RELEASE.
    Release(String),
    /// ROLLBACK TO.
    RollbackTo(String),
    /// SET TRANSACTION, or for the whole session.
    Set(Modes, bool),
    /// SET CONSTRAINTS.
    Constraints(ConstraintsStatement),
}

/// What is said of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Modes {
    /// How it is isolated.
    pub level: Option<Level>,
    /// True: no writes.
    pub read_only: Option<bool>,
}

/// A level of isolation. READ UNCOMMITTED is READ COMMITTED.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Level {
    /// Each statement has a snapshot of its own.
    #[default]
    ReadCommitted,
    /// All statements have one.
    RepeatableRead,
    /// As if the transactions ran one after the other.
    Serializable,
}

impl Level {
    /// The level of a name, in large or small letters.
    pub fn named(name: &str) -> Option<Level> {
        match name.to_lowercase().as_str() {
            "read committed" | "read uncommitted" => Some(Level::ReadCommitted),
            "repeatable read" => Some(Level::RepeatableRead),
            "serializable" => Some(Level::Serializable),
            _ => None,
        }
    }

    /// Its name, as SHOW has it.
    pub fn name(self) -> &'static str {
        match self {
            Level::ReadCommitted => "read committed",
            Level::RepeatableRead => "repeatable read",
            Level::Serializable => "serializable",
        }
    }
}

/// COPY.
#[derive(Debug)]
pub struct Copy {
    /// In: into a table. Out: a query.
    pub direction: CopyDirection,
    /// How rows are written.
    pub format: CopyFormat,
    /// What stands between columns.
    pub delimiter: char,
    /// What stands for NULL.
    pub null: String,
    /// True if the first line names the columns.
    pub header: bool,
}

/// How the rows of a COPY are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyFormat {
    /// A line each, with backslashes before what is no part of a value.
    Text,
    /// A line each, with quotes around values where they are needed.
    Csv {
        /// What stands around a value.
        quote: char,
        /// What stands before a quote inside of a value.
        escape: char,
    },
    /// As in the protocol.
    Binary,
}

/// Which way a COPY goes.
#[derive(Debug)]
pub enum CopyDirection {
    /// Into a table, whose columns are parameters.
    In(Box<Insert>),
    /// The rows of a query.
    Out(Box<Select>),
}

/// SET, SHOW, RESET.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Setting {
    /// SET; none: to the default. True: for this transaction only.
    Set(String, Option<String>, bool),
    /// SHOW.
    Show(String),
    /// RESET ALL.
    ResetAll,
}

/// PREPARE and its kin.
#[derive(Clone, Debug)]
pub enum Prepared {
    /// PREPARE.
    Prepare(String, Vec<SqlType>, Box<Statement>),
    /// EXECUTE: each literal with its type.
    Execute(String, Vec<(Datum, SqlType)>),
    /// DEALLOCATE; none: all.
    Deallocate(Option<String>),
    /// DISCARD ALL.
    DiscardAll,
    /// DISCARD SEQUENCES: what `currval` knows.
    DiscardSequences,
    /// DISCARD TEMP: the session's own tables.
    DiscardTemporary,
}

/// Compiles a statement. `params` are the types that the client gives its parameters.
///
/// # Errors
/// Whatever is wrong with the statement.
pub fn compile(
    parsed: &Parsed,
    text: &str,
    catalog: &Catalog,
    params: &[SqlType],
    budget: &Budget,
) -> Result<Compiled, SqlError> {
    let before = budget.mark();
    // A statement that was prepared knows an enum as it was then.
    let as_now = |ty: &SqlType| catalog.type_as_now(*ty);
    let params: &[SqlType] = &params.iter().map(as_now).collect::<Vec<_>>();
    let mut binder = Binder::new(catalog, text, params, budget);
    let action = match parsed {
        Parsed::Nothing(tag) => Action::Nothing(tag),
        Parsed::Maintain(maintenance) => Action::Maintain(maintenance.clone()),
        Parsed::Design(crate::parse::DesignStatement::Show(name, of)) => {
            let shown = of.as_ref().map(|of| shown_label(catalog, &Named::of(of)?)).transpose()?;
            let only =
                shown.map(|label| format!(" WHERE relation = '{}'", label.replace('\'', "''")));
            let query = format!("SELECT * FROM isomer.{name}{}", only.unwrap_or_default());
            return compile(&crate::parse::parse(&query)?[0], &query, catalog, params, budget);
        }
        Parsed::Sql(statement) if session::is_show_all(statement) => {
            let query =
                "SELECT name, setting, short_desc AS description FROM pg_catalog.pg_settings";
            return compile(&crate::parse::parse(query)?[0], query, catalog, params, budget);
        }
        Parsed::Cursor(statement) => match &**statement {
            CursorStatement::Declare(declare, query) => {
                let parsed = Parsed::Sql(Box::new(Statement::Query(query.clone())));
                let query = compile(&parsed, text, catalog, params, budget)?;
                check_cursor(declare, &query)?;
                binder.params.clone_from(&query.params);
                budget.charge(text.len())?;
                let declare = Cursor::Declare(declare.clone(), Arc::new(query), Arc::from(text));
                Action::Cursor(Box::new(declare))
            }
            CursorStatement::Fetch(fetch) => Action::Cursor(Box::new(Cursor::Fetch(fetch.clone()))),
            CursorStatement::Close(name) => Action::Cursor(Box::new(Cursor::Close(name.clone()))),
        },
        Parsed::Design(statement) => Action::Design(Box::new(statement.clone())),
        Parsed::User(statement) => Action::User(statement.clone()),
        Parsed::Constraints(statement) => Action::Control(Control::Constraints(statement.clone())),
        Parsed::Sequence(statement) => Action::Define(Definition::Sequence(statement.clone())),
        Parsed::Table(statement, likes) => {
            Action::Define(Definition::Table(statement.clone(), likes.clone()))
        }
        Parsed::Alter(statement) => Action::Define(Definition::Alter(statement.clone())),
        Parsed::Domain(statement) => Action::Define(Definition::Domain(statement.clone())),
        Parsed::Rights(statement) => {
            Action::Define(Definition::Rights(Box::new(statement.clone())))
        }
        Parsed::Reshard(reshard) => Action::Define(Definition::Reshard(reshard.clone())),
        Parsed::Overriding(statement, overriding) => {
            binder.overriding = Some(*overriding);
            action(&mut binder, statement)?
        }
        Parsed::Sql(statement) => action(&mut binder, statement)?,
    };
    let params = std::mem::take(&mut binder.params);
    let shows = |name: &str| {
        Some(vec![OutputColumn { name: name.to_owned(), ty: SqlType::Text, origin: (0, 0) }])
    };
    let output = match &action {
        // Of a query over tables of the system that have no rows, nobody knows what it would show.
        Action::Select(plan) => {
            let known = |column: &OutputColumn| match column.ty {
                SqlType::Unknown => OutputColumn { ty: SqlType::Text, ..column.clone() },
                _ => column.clone(),
            };
            Some(plan.output.iter().map(known).collect())
        }
        Action::Insert(plan) => plan.returning.as_ref().map(|r| r.output.clone()),
        Action::Update(plan) | Action::Delete(plan) => {
            plan.returning.as_ref().map(|r| r.output.clone())
        }
        Action::Explain(..) => shows("QUERY PLAN"),
        Action::Setting(Setting::Show(name)) => shows(match &**name {
            "timezone" => "TimeZone",
            "datestyle" => "DateStyle",
            "intervalstyle" => "IntervalStyle",
            name => name,
        }),
        _ => None,
    };
    let reads_rows = matches!(
        action,
        Action::Select(_) | Action::Insert(_) | Action::Update(_) | Action::Delete(_)
    );
    if let Some(at) = params.iter().position(|ty| *ty == SqlType::Unknown).filter(|_| reads_rows) {
        let message = format!("could not determine data type of parameter ${}", at + 1);
        return Err(SqlError::new(code::INDETERMINATE_TYPE, message));
    }
    // It was looked at before anything said what it is.
    if let Some(at) = binder.untyped.first() {
        let message = format!("could not determine data type of parameter ${}", at + 1);
        return Err(SqlError::new(code::AMBIGUOUS_PARAMETER, message));
    }
    // What nothing says anything about is a text.
    let known = |ty| if ty == SqlType::Unknown { SqlType::Text } else { ty };
    let params = params.into_iter().map(known).collect();
    let (version, bytes) = (catalog.version, budget.mark() - before);
    let (needs, checked_for) = (binder.take_needs(), AtomicU64::new(u64::MAX));
    Ok(Compiled { action, params, output, version, needs, checked_for, bytes })
}

/// Rows that are locked are shown forward, in their transaction.
fn check_cursor(declare: &Declare, query: &Compiled) -> Result<(), SqlError> {
    let what = match (declare.is_held, declare.scrolls) {
        _ if !query.locks_rows() => return Ok(()),
        (true, _) => "DECLARE CURSOR WITH HOLD .. FOR UPDATE",
        (_, Some(true)) => "DECLARE SCROLL CURSOR .. FOR UPDATE",
        _ => return Ok(()),
    };
    Err(SqlError::unsupported(what))
}

fn action(binder: &mut Binder<'_>, statement: &Statement) -> Result<Action, SqlError> {
    Ok(match statement {
        Statement::Query(query) => Action::Select(Box::new(binder.query(query)?)),
        Statement::Insert(insert) => Action::Insert(Box::new(binder.insert(insert)?)),
        Statement::Update(update) => Action::Update(Box::new(binder.update(update)?)),
        Statement::Delete(delete) => Action::Delete(Box::new(binder.delete(delete)?)),
        Statement::Explain { statement, analyze, options, .. } => {
            let explains = crate::refuse::explain(*analyze, options.as_deref())?;
            let inner = action(binder, statement)?;
            if !matches!(
                inner,
                Action::Select(_) | Action::Insert(_) | Action::Update(_) | Action::Delete(_)
            ) {
                return Err(SqlError::unsupported("EXPLAIN of this statement"));
            }
            Action::Explain(Box::new(inner), explains)
        }
        Statement::StartTransaction { modes: given, .. } => {
            Action::Control(Control::Begin(modes(given)?))
        }
        Statement::Commit { chain: true, .. } | Statement::Rollback { chain: true, .. } => {
            return Err(SqlError::unsupported("AND CHAIN").hint("Say BEGIN after it."));
        }
        Statement::Commit { .. } => Action::Control(Control::Commit),
        Statement::Rollback { savepoint: None, .. } => Action::Control(Control::Rollback),
        Statement::Rollback { savepoint: Some(name), .. } => {
            Action::Control(Control::RollbackTo(folded(name)))
        }
        Statement::Savepoint { name } => Action::Control(Control::Savepoint(folded(name))),
        Statement::ReleaseSavepoint { name } => Action::Control(Control::Release(folded(name))),
        Statement::Set(set) => set_action(set)?,
        Statement::ShowVariable { variable } => {
            Action::Setting(Setting::Show(setting_name(variable)))
        }
        Statement::Reset(reset) => match &reset.reset {
            ast::Reset::ALL => Action::Setting(Setting::ResetAll),
            ast::Reset::ConfigurationParameter(name) => {
                Action::Setting(Setting::Set(name.to_string().to_lowercase(), None, false))
            }
            ast::Reset::SessionAuthorization => {
                Action::Setting(Setting::Set("session_authorization".to_owned(), None, false))
            }
        },
        // Plans are made anew by themselves.
        Statement::Discard { object_type } => match object_type {
            ast::DiscardObject::ALL => Action::Prepared(Prepared::DiscardAll),
            ast::DiscardObject::PLANS => Action::Nothing("DISCARD PLANS"),
            ast::DiscardObject::SEQUENCES => Action::Prepared(Prepared::DiscardSequences),
            ast::DiscardObject::TEMP => Action::Prepared(Prepared::DiscardTemporary),
        },
        Statement::Prepare { name, data_types, statement } => {
            let types = data_types.iter().map(|ty| binder.type_of(ty)).collect::<Result<_, _>>()?;
            Action::Prepared(Prepared::Prepare(folded(name), types, statement.clone()))
        }
        Statement::Execute { name: Some(name), parameters, .. } => Action::Prepared(
            Prepared::Execute(name.to_string().to_lowercase(), literals(binder, parameters)?),
        ),
        Statement::Deallocate { name, .. } => {
            let name = folded(name);
            Action::Prepared(Prepared::Deallocate((name != "all").then_some(name)))
        }
        Statement::Lock(lock) => Action::Lock(Box::new(lock.clone())),
        Statement::Copy { source, to, target, options, legacy_options, .. } => {
            copy(binder, source, *to, target, options, legacy_options)?
        }
        Statement::CreateTable(_)
        | Statement::CreateIndex(_)
        | Statement::AlterTable { .. }
        | Statement::AlterIndex { .. }
        | Statement::Truncate(_)
        | Statement::CreateView(_)
        | Statement::CreateSchema { .. }
        | Statement::AlterSchema(_)
        | Statement::CreateType { .. }
        | Statement::AlterType(_)
        | Statement::Comment { .. }
        | Statement::Drop {
            object_type:
                ObjectType::Table
                | ObjectType::Index
                | ObjectType::View
                | ObjectType::Schema
                | ObjectType::Type,
            ..
        } => Action::Define(Definition::Sql(Box::new(statement.clone()))),
        other => {
            let text = other.to_string();
            let words: Vec<&str> = text.split_whitespace().take(2).collect();
            return Err(SqlError::unsupported(words.join(" ")));
        }
    })
}

impl Action {
    /// Runs a SELECT, INSERT, UPDATE or DELETE; returns how many rows it has, or has changed.
    fn run(&self, exec: &Exec<'_>, sink: &mut dyn Sink) -> Result<u64, SqlError> {
        match self {
            Action::Select(plan) => exec.select(plan, sink),
            Action::Insert(plan) => exec.insert(plan, sink),
            Action::Update(plan) | Action::Delete(plan) => exec.change(plan, sink),
            other => unreachable!("{other:?} is carried out elsewhere"),
        }
    }
}

impl Compiled {
    /// The same for the system itself, which needs no rights.
    #[must_use]
    pub fn of_system(self) -> Compiled {
        Compiled { needs: Vec::new(), ..self }
    }

    /// True if it only reads.
    pub fn is_read_only(&self) -> bool {
        match &self.action {
            Action::Select(plan) => plan.lock.is_none(),
            Action::Explain(_, Explains::Plan) | Action::Setting(_) => true,
            Action::Explain(inner, Explains::Cost(_)) => {
                matches!(&**inner, Action::Select(plan) if plan.lock.is_none())
            }
            Action::Copy(copy) => matches!(copy.direction, CopyDirection::Out(_)),
            _ => false,
        }
    }

    /// The name of the statement in the error of a read-only transaction; none, if it only reads.
    pub fn refused_by_readers(&self) -> Option<&'static str> {
        let of = |action: &Action| match action {
            Action::Select(plan) => plan.lock.map(|lock| match lock.kind {
                LockKind::KeyShare => "SELECT FOR KEY SHARE",
                LockKind::Shared => "SELECT FOR SHARE",
                LockKind::NoKeyUpdate => "SELECT FOR NO KEY UPDATE",
                LockKind::Exclusive => "SELECT FOR UPDATE",
            }),
            Action::Insert(_) => Some("INSERT"),
            Action::Update(_) => Some("UPDATE"),
            Action::Delete(_) => Some("DELETE"),
            _ => None,
        };
        match &self.action {
            Action::Explain(inner, Explains::Cost(_)) => of(inner),
            Action::Copy(copy) if matches!(copy.direction, CopyDirection::In(_)) => {
                Some("COPY FROM")
            }
            action => of(action),
        }
    }

    /// True if it is a query that locks the rows that it shows.
    pub fn locks_rows(&self) -> bool {
        matches!(&self.action, Action::Select(plan) if plan.lock.is_some())
    }

    /// True if what a query shows may be something else for each row, where rows are the same.
    pub fn is_volatile(&self) -> bool {
        matches!(&self.action, Action::Select(plan) if plan.project.iter().any(Expr::is_volatile))
    }

    /// Runs a SELECT, INSERT, UPDATE or DELETE; returns its tag.
    ///
    /// # Errors
    /// Whatever goes wrong; the transaction must be rolled back then, or to a savepoint.
    ///
    /// # Panics
    /// For other statements, which are carried out elsewhere.
    pub fn run(
        &self,
        txn: &mut dyn Transaction,
        params: &[Datum],
        around: &Surroundings,
        catalog: &Catalog,
        sink: &mut dyn Sink,
    ) -> Result<String, SqlError> {
        let run = self.action.run(&Exec::new(txn, params, around, catalog), sink);
        let rows = run.map_err(|error| self.without_values(error, around, catalog))?;
        Ok(match &self.action {
            Action::Select(_) => format!("SELECT {rows}"),
            Action::Insert(_) => format!("INSERT 0 {rows}"),
            Action::Update(_) => format!("UPDATE {rows}"),
            _ => format!("DELETE {rows}"),
        })
    }

    /// An error tells the values of a row to those only who may read it.
    fn without_values(
        &self,
        error: SqlError,
        around: &Surroundings,
        catalog: &Catalog,
    ) -> SqlError {
        let table = match &self.action {
            Action::Insert(plan) => &plan.table,
            Action::Update(plan) | Action::Delete(plan) => &plan.table,
            _ => return error,
        };
        let (who, object) = (&around.identity, Object::Relation(table.oid));
        let may = || {
            let mut columns = table.columns.iter();
            who.rights_to(catalog, object, Kind::Table).has(Rights::SELECT)
                || columns.all(|column| {
                    who.rights_to_column(catalog, object, &column.name).has(Rights::SELECT)
                })
        };
        let has_values = error.code.starts_with("23") && error.detail.is_some();
        if has_values && !may() { SqlError { detail: None, ..error } } else { error }
    }

    /// Runs the statement of an EXPLAIN for what it costs.
    ///
    /// # Errors
    /// As [`Compiled::run`].
    ///
    /// # Panics
    /// For other statements.
    pub fn cost(
        &self,
        txn: &mut dyn Transaction,
        params: &[Datum],
        around: &Surroundings,
        catalog: &Catalog,
    ) -> Result<Costs, SqlError> {
        let Action::Explain(inner, _) = &self.action else { panic!("costs are those of EXPLAIN") };
        let exec = Exec::new(txn, params, around, catalog);
        let rows = inner.run(&exec, &mut |_: &[Datum]| Ok(()))?;
        Ok(Costs { rows, inner: exec.costs() })
    }
}

/// Makes checks of foreign keys, but those that the transaction puts off.
///
/// # Errors
/// 23503, and as [`Compiled::run`].
pub fn settle(
    checks: &mut Checks,
    txn: &mut dyn Transaction,
    around: &Surroundings,
    catalog: &Catalog,
) -> Result<(), SqlError> {
    Exec::new(txn, &[], around, catalog).settle(checks)
}

/// Makes a check that was put off.
///
/// # Errors
/// As [`settle`].
pub fn verify(
    check: &Check,
    txn: &mut dyn Transaction,
    around: &Surroundings,
    catalog: &Catalog,
) -> Result<(), SqlError> {
    Exec::new(txn, &[], around, catalog).verify(check)
}

impl Copy {
    /// Inserts rows of a COPY into a table; returns how many. What foreign keys ask of them is to be
    /// [settled](settle) at the end.
    ///
    /// # Errors
    /// As [`Compiled::run`].
    ///
    /// # Panics
    /// If this is a COPY out of a table.
    pub fn insert(
        &self,
        rows: Vec<Vec<Datum>>,
        checks: &mut Checks,
        txn: &mut dyn Transaction,
        around: &Surroundings,
        catalog: &Catalog,
    ) -> Result<u64, SqlError> {
        let CopyDirection::In(plan) = &self.direction else {
            panic!("rows go in where they go in")
        };
        Exec::new(txn, &[], around, catalog).copy(plan, rows, checks)
    }

    /// Shows the rows of a COPY out of a table; returns how many.
    ///
    /// # Errors
    /// As [`Compiled::run`].
    ///
    /// # Panics
    /// If this is a COPY into a table.
    pub fn select(
        &self,
        txn: &mut dyn Transaction,
        around: &Surroundings,
        catalog: &Catalog,
        sink: &mut dyn Sink,
    ) -> Result<u64, SqlError> {
        let CopyDirection::Out(plan) = &self.direction else { panic!("rows come out of a query") };
        Exec::new(txn, &[], around, catalog).select(plan, sink)
    }
}
/// As `isomer.partitions` calls a table or an index.
fn shown_label(catalog: &Catalog, named: &Named) -> Result<String, SqlError> {
    match catalog.lookup(named) {
        Some(Relation::Table(table)) => Ok(table.full_name().label()),
        Some(Relation::Index(_, index)) => Ok(index.name.clone()),
        _ => Err(catalog.no_relation(named, "table")),
    }
}
