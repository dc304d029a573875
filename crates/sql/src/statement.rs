//! Compiled statements: their action, required rights and result columns.
//!
//! Compiling happens once for a text and a catalog: names are resolved to slots, parameters get
//! types, the access path is chosen. The result is immutable and shared by all sessions; running it
//! takes the parameters' values and a transaction. Statements that the session must carry out
//! itself (BEGIN, SET, COPY, definitions) become an [`Action`] for it.

mod explains;
mod places;
mod procedure;
mod session;

use crate::bind::{Binder, bare, called, check_change, check_query, folded};
use crate::bind::{changes, merge, modify, whole_change, whole_query};
use crate::budget::Budget;
use crate::catalog::{Catalog, Named, Procedure, Relation, Table};
use crate::datum::Datum;
use crate::enums::Enums;
use crate::error::{SqlError, code};
pub use crate::exec::{Cost, NodeCounts, Places, Unplaced};
use crate::exec::{Exec, counting, finish, node_counts, of_parts, with_writing};
use crate::expr::Expr;
use crate::foreign::{Check, Checks};
use crate::parse::{AlterStatement, DomainStatement, Like, ProcedureStatement, SequenceStatement};
use crate::parse::{
    ConstraintsStatement, CursorStatement, Declare, Fetch, Maintenance, Parsed, Reshard,
    RightsStatement,
};
use crate::plan::{Change, Insert, Merge, Modify, OutputColumn, Select, Writing};
use crate::rights::{Kind, Need, Object, Rights};
use crate::system::ISOMER;
use crate::transaction::{LockKind, Sink, Surroundings, Transaction};
use crate::types::SqlType;
pub use explains::{Explains, PlanFormat};
pub use places::places;
pub use procedure::{BodyStatement, ProcedureCall, compile_body, compile_of_body};
use session::{copy, literals, modes, set_action, setting_name};
use sqlparser::ast::{self, ObjectType, Statement};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A compiled statement.
#[derive(Debug)]
pub struct Compiled {
    /// Its action.
    pub action: Action,
    /// The queries of its WITH that write.
    pub writing: Vec<Writing>,
    /// The types of its parameters.
    pub params: Vec<SqlType>,
    /// The columns of its result; `None` if it has no result.
    pub output: Option<Vec<OutputColumn>>,
    /// The version of the catalog at its compilation.
    pub version: u64,
    /// The rights that it needs.
    pub needs: Vec<Need>,
    /// The identity that was checked last.
    pub(crate) checked_for: AtomicU64,
    /// Its estimated memory.
    pub bytes: usize,
    /// Keeps the definitions of the enums in it.
    _enums: Enums,
}

/// The action of a statement.
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
    /// MERGE.
    Merge(Box<Merge>),
    /// CALL.
    Call(Box<ProcedureCall>),
    /// EXPLAIN of one of these, or of an EXECUTE.
    Explain(Box<Action>, Explains),
    /// A statement about transactions.
    Control(Control),
    /// COPY.
    Copy(Copy),
    /// SET, SHOW, RESET.
    Setting(Setting),
    /// PREPARE, EXECUTE, DEALLOCATE, DISCARD.
    Prepared(Prepared),
    /// A definition, which the owner of the catalog carries out.
    Define(Definition),
    /// DECLARE, FETCH, MOVE, CLOSE.
    Cursor(Box<Cursor>),
    /// LOCK TABLE.
    Lock(Box<ast::Lock>),
    /// A statement about the design, likewise.
    Design(Box<crate::parse::DesignStatement>),
    /// A statement about a user, likewise.
    User(crate::parse::UserStatement),
    /// VACUUM, which only checks the names, and ANALYZE, which gathers statistics.
    Maintain(Maintenance),
    /// No action; with a command tag.
    Nothing(&'static str),
}

/// A statement about a cursor.
#[derive(Debug)]
pub enum Cursor {
    /// DECLARE, with the query, and its text.
    Declare(Declare, Arc<Compiled>, Arc<str>),
    /// FETCH, MOVE.
    Fetch(Fetch),
    /// CLOSE; `None`: CLOSE ALL.
    Close(Option<String>),
}

/// A definition.
#[derive(Clone, Debug)]
pub enum Definition {
    /// Of tables and indexes.
    Sql(Box<Statement>),
    /// Of a table with LIKE among its columns.
    Table(Box<Statement>, Vec<Like>),
    /// ALTER, in a form that is not in the grammar.
    Alter(Box<AlterStatement>),
    /// Of domains.
    Domain(Box<DomainStatement>),
    /// Of procedures.
    Procedure(Box<ProcedureStatement>),
    /// Of sequences.
    Sequence(Box<SequenceStatement>),
    /// Of the order in which a table's rows are stored.
    Reshard(Box<Reshard>),
    /// Of rights.
    Rights(Box<RightsStatement>),
}

/// The costs of an executed statement.
#[derive(Clone, Debug)]
pub struct Costs {
    /// The number of rows that it returned or changed.
    pub rows: u64,
    /// The costs of its subqueries, by their numbers.
    pub inner: Vec<(usize, Cost)>,
    /// The counts of its [steps](crate::plan::Step::address) and
    /// [queries](crate::plan::Select::address), by their addresses. Those that never ran are not
    /// there.
    pub nodes: HashMap<usize, NodeCounts>,
}

/// A statement about transactions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Control {
    /// BEGIN, with its modes.
    Begin(Modes),
    /// COMMIT.
    Commit,
    /// ROLLBACK.
    Rollback,
    /// COMMIT AND CHAIN if true, else ROLLBACK AND CHAIN: the next transaction begins at once, with
    /// the same modes.
    Chain(bool),
    /// SAVEPOINT.
    Savepoint(String),
    /// RELEASE.
    Release(String),
    /// ROLLBACK TO.
    RollbackTo(String),
    /// SET TRANSACTION; true: for the whole session.
    Set(Modes, bool),
    /// SET TRANSACTION SNAPSHOT.
    Snapshot(String),
    /// SET CONSTRAINTS.
    Constraints(ConstraintsStatement),
}

/// The modes of a transaction, if they are specified.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Modes {
    /// The isolation level.
    pub level: Option<Level>,
    /// True: READ ONLY.
    pub read_only: Option<bool>,
}

/// An isolation level. READ UNCOMMITTED is the same as READ COMMITTED.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Level {
    /// Each statement has its own snapshot.
    #[default]
    ReadCommitted,
    /// All statements use one snapshot.
    RepeatableRead,
    /// As if the transactions ran one after the other.
    Serializable,
}

impl Level {
    /// The level with a name, in upper or lower case.
    pub fn named(name: &str) -> Option<Level> {
        match name.to_lowercase().as_str() {
            "read committed" | "read uncommitted" => Some(Level::ReadCommitted),
            "repeatable read" => Some(Level::RepeatableRead),
            "serializable" => Some(Level::Serializable),
            _ => None,
        }
    }

    /// Its name in the result of SHOW.
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
    /// The format of the rows.
    pub format: CopyFormat,
    /// The separator of columns.
    pub delimiter: char,
    /// The text for NULL.
    pub null: String,
    /// True if the first line names the columns.
    pub header: bool,
}

/// The format of rows in a COPY.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyFormat {
    /// A line each; backslashes escape special characters.
    Text,
    /// A line each; values are quoted where necessary.
    Csv {
        /// The quote character.
        quote: char,
        /// The character that escapes a quote inside of a value.
        escape: char,
    },
    /// PostgreSQL's binary format.
    Binary,
}

/// The direction of a COPY.
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
    /// SET; `None`: to the default. True: for this transaction only.
    Set(String, Option<String>, bool),
    /// SHOW.
    Show(String),
    /// RESET ALL.
    ResetAll,
}

/// PREPARE and related statements.
#[derive(Clone, Debug)]
pub enum Prepared {
    /// PREPARE.
    Prepare(String, Vec<SqlType>, Box<Statement>),
    /// EXECUTE: each literal with its type.
    Execute(String, Vec<(Datum, SqlType)>),
    /// DEALLOCATE; `None`: ALL.
    Deallocate(Option<String>),
    /// DISCARD ALL.
    DiscardAll,
    /// DISCARD SEQUENCES: the values that `currval` returns.
    DiscardSequences,
    /// DISCARD TEMP: temporary tables.
    DiscardTemporary,
}

/// Compiles a statement. `params` are the parameter types that the client specified.
///
/// # Errors
/// Any error in the statement.
pub fn compile(
    parsed: &Parsed,
    text: &str,
    catalog: &Catalog,
    params: &[SqlType],
    budget: &Budget,
) -> Result<Compiled, SqlError> {
    compile_within(parsed, text, catalog, params, budget, None)
}

/// Compiles a statement, possibly of the body of a procedure, whose arguments it may name.
fn compile_within(
    parsed: &Parsed,
    text: &str,
    catalog: &Catalog,
    params: &[SqlType],
    budget: &Budget,
    within: Option<&Arc<Procedure>>,
) -> Result<Compiled, SqlError> {
    let before = budget.mark();
    // A prepared statement may refer to an older definition of an enum.
    let as_now = |ty: &SqlType| catalog.type_as_now(*ty);
    let params: &[SqlType] = &params.iter().map(as_now).collect::<Vec<_>>();
    let mut binder = Binder::new(catalog, text, params, budget);
    binder.procedure = within.cloned();
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
            let query = "SELECT name, pg_catalog.current_setting(name) AS setting, short_desc AS description \
                 FROM pg_catalog.pg_settings";
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
        Parsed::Procedure(statement) => Action::Define(Definition::Procedure(statement.clone())),
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
    let shows_as =
        |name: &str, ty| Some(vec![OutputColumn { name: name.to_owned(), ty, origin: (0, 0) }]);
    let shows = |name: &str| shows_as(name, SqlType::Text);
    let output = match &action {
        // For a query over system tables that are always empty, the result columns need not be
        // known.
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
        Action::Explain(_, explains) => {
            let is_json = explains.format == PlanFormat::Json;
            shows_as("QUERY PLAN", if is_json { SqlType::Json } else { SqlType::Text })
        }
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
        Action::Select(_)
            | Action::Insert(_)
            | Action::Update(_)
            | Action::Delete(_)
            | Action::Merge(_)
    );
    if let Some(at) = params.iter().position(|ty| *ty == SqlType::Unknown).filter(|_| reads_rows) {
        let message = format!("could not determine data type of parameter ${}", at + 1);
        return Err(SqlError::new(code::INDETERMINATE_TYPE, message));
    }
    // The parameter was used before its type was determined.
    if let Some(at) = binder.untyped.first() {
        let message = format!("could not determine data type of parameter ${}", at + 1);
        return Err(SqlError::new(code::AMBIGUOUS_PARAMETER, message));
    }
    // Parameters of undetermined type are texts.
    let known = |ty| if ty == SqlType::Unknown { SqlType::Text } else { ty };
    let params = params.into_iter().map(known).collect();
    let (version, bytes) = (catalog.version, budget.mark() - before);
    let writing = std::mem::take(&mut binder.writing);
    let changes = writing.iter().filter_map(|writing| match &writing.modify {
        Modify::Update(plan) | Modify::Delete(plan) => Some(plan),
        Modify::Insert(_) => None,
    });
    changes.into_iter().try_for_each(|change| check_change(change, budget))?;
    match &action {
        Action::Select(plan) => check_query(plan, budget)?,
        Action::Update(plan) | Action::Delete(plan) => check_change(plan, budget)?,
        Action::Merge(plan) => plan.actions.iter().try_for_each(|action| match action {
            Modify::Update(plan) | Modify::Delete(plan) => check_change(plan, budget),
            Modify::Insert(_) => Ok(()),
        })?,
        _ => {}
    }
    let (needs, checked_for) = (binder.take_needs(), AtomicU64::new(u64::MAX));
    let enums = catalog.types.clone();
    Ok(Compiled {
        action,
        writing,
        params,
        output,
        version,
        needs,
        checked_for,
        bytes,
        _enums: enums,
    })
}

/// Cursors with locked rows can only move forward, and end with their transaction.
fn check_cursor(declare: &Declare, query: &Compiled) -> Result<(), SqlError> {
    if !query.writing.is_empty() {
        let message = "DECLARE CURSOR must not contain data-modifying statements in WITH";
        return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
    }
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
        Statement::Merge(plan) => Action::Merge(Box::new(merge(binder, None, plan)?)),
        Statement::Query(query) if let Some(Statement::Merge(plan)) = changes(query) => {
            Action::Merge(Box::new(merge(binder, Some(query), plan)?))
        }
        Statement::Query(query) => match whole_change(binder, query)? {
            Some(change) => change.into(),
            None => Action::Select(Box::new(whole_query(binder, query)?)),
        },
        Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) => {
            modify(binder, statement)?.into()
        }
        Statement::Call(function) => {
            let (procedure, arguments) = called(binder, function)?;
            Action::Call(Box::new(ProcedureCall { procedure, arguments }))
        }
        Statement::Explain { statement: explained, .. } => {
            let explains = Explains::of(statement)?;
            Action::Explain(Box::new(explained_action(binder, explained, explains)?), explains)
        }
        Statement::StartTransaction { modes: given, .. } => {
            Action::Control(Control::Begin(modes(given)?))
        }
        Statement::Commit { chain: true, .. } => Action::Control(Control::Chain(true)),
        Statement::Rollback { chain: true, .. } => Action::Control(Control::Chain(false)),
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
        // Plans are recompiled automatically.
        Statement::Discard { object_type } => match object_type {
            ast::DiscardObject::ALL => Action::Prepared(Prepared::DiscardAll),
            ast::DiscardObject::PLANS => Action::Nothing("DISCARD PLANS"),
            ast::DiscardObject::SEQUENCES => Action::Prepared(Prepared::DiscardSequences),
            ast::DiscardObject::TEMP => Action::Prepared(Prepared::DiscardTemporary),
        },
        Statement::Prepare { name, data_types, statement } => {
            // Parameters have no modifiers.
            let is_open = |ty: &ast::DataType| ty.to_string().eq_ignore_ascii_case("unknown");
            let types = data_types.iter().map(|ty| match is_open(ty) {
                true => Ok(SqlType::Unknown),
                false => binder.type_of(ty).map(bare),
            });
            let types = types.collect::<Result<_, _>>()?;
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
        // The extension with the views of the schema isomer is part of each database. So is plpgsql
        // at PostgreSQL.
        Statement::CreateExtension(create)
            if create.if_not_exists && [ISOMER, "plpgsql"].contains(&&*folded(&create.name)) =>
        {
            Action::Define(Definition::Sql(Box::new(statement.clone())))
        }
        other => {
            let text = other.to_string();
            let words: Vec<&str> = text.split_whitespace().take(2).collect();
            return Err(SqlError::unsupported(words.join(" ")));
        }
    })
}

/// The action whose plan an EXPLAIN shows. That of DECLARE and of CREATE TABLE AS is their query.
fn explained_action(
    binder: &mut Binder<'_>,
    statement: &Statement,
    explains: Explains,
) -> Result<Action, SqlError> {
    let query = match statement {
        Statement::Declare { stmts } => stmts.iter().find_map(|one| one.for_query.as_deref()),
        Statement::CreateTable(create) => create.query.as_deref(),
        _ => None,
    };
    if let (Statement::CreateTable(_), true) = (statement, explains.analyzes) {
        return Err(SqlError::unsupported("EXPLAIN ANALYZE of CREATE TABLE AS")
            .hint("EXPLAIN ANALYZE of its query shows the same plan."));
    }
    let found = match query {
        Some(query) => Action::Select(Box::new(whole_query(binder, query)?)),
        None => action(binder, statement)?,
    };
    match found {
        Action::Select(_)
        | Action::Insert(_)
        | Action::Update(_)
        | Action::Delete(_)
        | Action::Merge(_)
        | Action::Prepared(Prepared::Execute(..)) => Ok(found),
        _ => {
            let text = statement.to_string();
            let words: Vec<&str> = text.split_whitespace().take(2).collect();
            Err(SqlError::unsupported(format!("EXPLAIN of {}", words.join(" "))))
        }
    }
}

impl From<Modify> for Action {
    fn from(modify: Modify) -> Action {
        match modify {
            Modify::Insert(plan) => Action::Insert(plan),
            Modify::Update(plan) => Action::Update(plan),
            Modify::Delete(plan) => Action::Delete(plan),
        }
    }
}

impl Action {
    /// Runs a SELECT, INSERT, UPDATE or DELETE; returns the number of rows returned or changed.
    fn run<'a>(&'a self, exec: &Exec<'a>, sink: &mut dyn Sink) -> Result<u64, SqlError> {
        let rows = match self {
            Action::Select(plan) => exec.select(plan, sink)?,
            Action::Insert(plan) => exec.insert(plan, sink)?,
            Action::Update(plan) | Action::Delete(plan) => exec.change(plan, sink)?,
            Action::Merge(plan) => crate::exec::merge(exec, plan)?,
            other => unreachable!("{other:?} is carried out elsewhere"),
        };
        finish(exec)?;
        Ok(rows)
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
        let reads = |action: &Action| {
            matches!(action, Action::Select(plan) if plan.lock.is_none()) && self.writing.is_empty()
        };
        match &self.action {
            Action::Select(_) => reads(&self.action),
            Action::Explain(inner, explains) => !explains.analyzes || reads(inner),
            Action::Setting(_) => true,
            Action::Copy(copy) => {
                matches!(copy.direction, CopyDirection::Out(_)) && self.writing.is_empty()
            }
            _ => false,
        }
    }

    /// The name of the statement in the error of a read-only transaction; `None`, if it only reads.
    pub fn refused_by_readers(&self) -> Option<&'static str> {
        let of = |action: &Action| match action {
            Action::Select(plan) => match plan.lock.map(|lock| lock.kind) {
                Some(LockKind::KeyShare) => Some("SELECT FOR KEY SHARE"),
                Some(LockKind::Shared) => Some("SELECT FOR SHARE"),
                Some(LockKind::NoKeyUpdate) => Some("SELECT FOR NO KEY UPDATE"),
                Some(_) => Some("SELECT FOR UPDATE"),
                None => (!self.writing.is_empty()).then_some("SELECT"),
            },
            Action::Insert(_) => Some("INSERT"),
            Action::Update(_) => Some("UPDATE"),
            Action::Delete(_) => Some("DELETE"),
            Action::Merge(_) => Some("MERGE"),
            _ => None,
        };
        match &self.action {
            Action::Explain(inner, explains) if explains.analyzes => of(inner),
            Action::Copy(copy) if matches!(copy.direction, CopyDirection::In(_)) => {
                Some("COPY FROM")
            }
            Action::Copy(_) if !self.writing.is_empty() => Some("SELECT"),
            action => of(action),
        }
    }

    /// True for a query that locks its rows.
    pub fn locks_rows(&self) -> bool {
        matches!(&self.action, Action::Select(plan) if plan.lock.is_some())
    }

    /// True if the result of a query can differ between executions on the same rows.
    pub fn is_volatile(&self) -> bool {
        matches!(&self.action, Action::Select(plan) if plan.project.iter().any(Expr::is_volatile))
    }

    /// Runs a SELECT, INSERT, UPDATE or DELETE; returns its command tag.
    ///
    /// # Errors
    /// Any error; the transaction must then be rolled back, possibly to a savepoint.
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
        let exec = with_writing(Exec::new(txn, params, around, catalog), &self.writing);
        let exec = match &self.action {
            Action::Merge(_) => of_parts(exec),
            _ => exec,
        };
        let run = self.action.run(&exec, sink);
        let rows = run.map_err(|error| self.without_values(error, around, catalog))?;
        Ok(match &self.action {
            Action::Select(_) => format!("SELECT {rows}"),
            Action::Insert(_) => format!("INSERT 0 {rows}"),
            Action::Update(_) => format!("UPDATE {rows}"),
            Action::Merge(_) => format!("MERGE {rows}"),
            _ => format!("DELETE {rows}"),
        })
    }

    /// Removes values of a row from an error, unless the role may read them.
    fn without_values(
        &self,
        error: SqlError,
        around: &Surroundings,
        catalog: &Catalog,
    ) -> SqlError {
        let own = match &self.action {
            Action::Insert(plan) => Some(&plan.table),
            Action::Update(plan) | Action::Delete(plan) => Some(&plan.table),
            Action::Merge(plan) => Some(&plan.table),
            _ => None,
        };
        let mut written = own.into_iter().chain(self.writing.iter().map(|one| one.modify.table()));
        let may = |table: &Arc<Table>| {
            let (who, object) = (&around.identity, Object::Relation(table.oid));
            let mut columns = table.columns.iter();
            who.rights_to(catalog, object, Kind::Table).has(Rights::SELECT)
                || columns.all(|column| {
                    who.rights_to_column(catalog, object, &column.name).has(Rights::SELECT)
                })
        };
        let has_values = error.code.starts_with("23") && error.detail.is_some();
        match has_values && !written.all(may) {
            true => SqlError { detail: None, ..error },
            false => error,
        }
    }

    /// Shows the rows of a COPY out of a table; returns how many.
    ///
    /// # Errors
    /// As [`Compiled::run`].
    ///
    /// # Panics
    /// For other statements.
    pub fn copy_out(
        &self,
        txn: &mut dyn Transaction,
        around: &Surroundings,
        catalog: &Catalog,
        sink: &mut dyn Sink,
    ) -> Result<u64, SqlError> {
        let Action::Copy(Copy { direction: CopyDirection::Out(plan), .. }) = &self.action else {
            panic!("rows come out of a query")
        };
        let exec = with_writing(Exec::new(txn, &[], around, catalog), &self.writing);
        let rows = exec.select(plan, sink)?;
        finish(&exec)?;
        Ok(rows)
    }

    /// The action whose plan EXPLAIN shows.
    pub fn explained(&self) -> &Action {
        match &self.action {
            Action::Explain(inner, _) => inner,
            action => action,
        }
    }

    /// Runs the statement, or that of an EXPLAIN, to measure its costs.
    ///
    /// # Errors
    /// As [`Compiled::run`].
    ///
    /// # Panics
    /// As [`Compiled::run`].
    pub fn cost(
        &self,
        txn: &mut dyn Transaction,
        params: &[Datum],
        around: &Surroundings,
        catalog: &Catalog,
    ) -> Result<Costs, SqlError> {
        let exec = counting(Exec::new(txn, params, around, catalog));
        let exec = with_writing(exec, &self.writing);
        let rows = self.explained().run(&exec, &mut |_: &[Datum]| Ok(()))?;
        Ok(Costs { rows, inner: exec.costs(), nodes: node_counts(exec) })
    }
}

/// Executes checks of foreign keys, except those that the transaction defers.
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

/// Executes a deferred check.
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
    /// Inserts rows of a COPY into a table; returns their number. The checks of foreign keys have
    /// to be [settled](settle) at the end.
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
}
/// The label of a table or an index in `isomer.partitions`.
fn shown_label(catalog: &Catalog, named: &Named) -> Result<String, SqlError> {
    match catalog.lookup(named) {
        Some(Relation::Table(table)) => Ok(table.full_name().label()),
        Some(Relation::Index(_, index)) => Ok(index.name.clone()),
        _ => Err(catalog.no_relation(named, "table")),
    }
}
