//! From statements to plans: resolves names to slots and determines types.
//! [`crate::optimize`] chooses the join order and the access paths.
//!
//! | module | subject |
//! | --- | --- |
//! | [`expr`], [`operators`], [`convert`] | expressions: types, conversions |
//! | [`call`], [`name`] | functions and aggregates; names |
//! | [`forms`] | overloaded functions |
//! | [`query`], [`select`], [`from`], [`group`] | queries: sources, joins, grouping, order |
//! | [`full_join`] | FULL JOIN with USING |
//! | [`window`], [`sets`] | window functions; functions that return rows |
//! | [`ordered`] | aggregates with WITHIN GROUP |
//! | [`inner`] | subqueries in expressions |
//! | [`recursion`] | WITH RECURSIVE |
//! | [`dimensions`] | arrays of several dimensions |
//! | [`each_pattern`], [`variadic`] | several patterns; the elements of an array as arguments |
//! | [`rows`] | rows as values |
//! | [`json_records`], [`json_paths`] | members of JSON objects as columns; paths of SQL/JSON |
//! | [`times`], [`json`], [`arrays`] | functions of times that depend on the zone; JSON; arrays |
//! | [`drivers`] | forms that only drivers use |
//! | [`view`], [`domain`] | views, when they are referred to; domains, when a value is converted |
//! | [`rights`] | the rights that a statement needs |
//! | [`insert`], [`change`] | INSERT and COPY; UPDATE and DELETE |
//! | [`foreign`] | the checks and actions of foreign keys |
//! | [`writing`], [`merge`] | queries of WITH that write; MERGE |
//! | [`procedure`] | CALL, and the arguments of a procedure in its body |
//! | [`constant`] | errors of constant arithmetic |
//! | [`generated`] | columns that are computed from others |
//! | [`computed`] | index expressions and predicates |
//!
//! **Types of parameters.** A parameter without a type gets that of its first context: a
//! comparison, an addition or an assignment. `abalance + $1` makes it an integer. The same holds
//! for a quoted literal.
//!
//! **Memory and time.** A short text can yield a large plan. A named query is bound at each
//! reference, a star stands for all columns, and a value that is used twice exists twice. So
//! expressions, columns and copies are charged to the [budget](crate::budget) of the statement as
//! they are made. The total is the size of the plan, and of a copy of it.

mod arrays;
mod call;
mod change;
mod computed;
mod constant;
mod convert;
mod dimensions;
mod domain;
mod drivers;
mod each_pattern;
mod expr;
mod foreign;
mod forms;
mod from;
mod full_join;
mod generated;
mod group;
mod inner;
mod insert;
mod json;
mod json_paths;
mod json_records;
mod merge;
mod name;
mod numbers;
mod operators;
mod ordered;
mod procedure;
mod query;
mod recursion;
mod rights;
mod row_assign;
mod row_query;
mod rows;
mod select;
mod sets;
mod subscripts;
mod texts;
mod times;
mod variadic;
mod view;
mod window;
mod writing;

use crate::budget::Budget;
use crate::catalog::{Catalog, Name, Procedure};
use crate::error::SqlError;
use crate::parse::Overriding;
use crate::plan::{Aggregate, Named, OutputColumn, SetCall, Writing};
use crate::rights::Need;
use crate::types::SqlType;
use crate::view::{Used, View};
use sqlparser::ast::{Cte, Ident};
use sqlparser::tokenizer::{Location, Span};
use std::rc::Rc;
use std::sync::Arc;

pub use change::{is_assignable, type_of};
pub(crate) use computed::written_computed;
pub(crate) use constant::{check_change, check_query, constant_value};
pub(crate) use convert::{bare, negative, retyped};
pub use domain::check_domain;
pub(crate) use expr::Typed;
pub(crate) use generated::checked_columns;
pub use generated::{check_conditions, check_generated, computed_of, renamed};
pub(crate) use merge::merge;
pub(crate) use name::column_name;
pub(crate) use procedure::called;
pub use procedure::check_argument;
pub(crate) use view::written;
pub(crate) use writing::{changes, modify, whole_change, whole_query};

/// The deepest nesting of expressions.
const DEPTH_MAX: usize = 3_000;

/// Binds one statement.
pub(crate) struct Binder<'a> {
    pub(crate) catalog: &'a Catalog,
    text: &'a str,
    /// The types of the parameters known so far.
    pub(crate) params: Vec<SqlType>,
    /// Parameters in contexts that determine no type.
    pub(crate) untyped: Vec<usize>,
    /// The enclosing queries; the last is the innermost.
    scopes: Vec<Scope>,
    /// The queries of WITH; each sees those before it.
    named: Vec<NamedQuery>,
    /// True while the condition of an UPDATE or DELETE is bound.
    is_change: bool,
    /// The number of numbered queries.
    numbers: usize,
    depth: usize,
    /// The target types of the next query's columns, for INSERT.
    targets: Vec<SqlType>,
    /// The OVERRIDING clause of an INSERT, if there is one.
    pub(crate) overriding: Option<Overriding>,
    /// True before the first query is bound, where it is the whole statement.
    is_whole: bool,
    /// The queries of WITH that write, in their order.
    pub(crate) writing: Vec<Writing>,
    /// The view whose text is being bound.
    view: Option<Arc<View>>,
    /// The procedure whose body is being bound.
    pub(crate) procedure: Option<Arc<Procedure>>,
    /// The objects named in the text, while a view is created.
    pub(crate) uses: Option<Vec<Used>>,
    /// True while the default of an identity column is bound.
    is_identity: bool,
    /// True inside of a branch of a set operation, where an oid stays a number.
    is_branch: bool,
    /// The rights that the statement needs.
    needs: Vec<Need>,
    /// Where the text of a view names relations, while it is rewritten with their current names.
    mentions: Option<Vec<Mention>>,
    pub(crate) budget: &'a Budget,
}

/// A relation in the text of a view: its position, its name there, and its current name.
struct Mention {
    start: Location,
    span: Span,
    then: String,
    name: Name,
    has_alias: bool,
}

/// A query of WITH.
#[derive(Clone)]
struct NamedQuery {
    name: String,
    query: Rc<Cte>,
    /// The number of enclosing queries.
    depth: usize,
    /// True if it may refer to itself.
    may_recurse: bool,
    /// True if a query reads it.
    is_read: bool,
    /// Set while its recursive term is bound.
    found: Option<Found>,
    /// Of one that writes.
    written: Option<writing::Written>,
    /// The bound query, if it is uncorrelated.
    bound: Option<Arc<Named>>,
}

/// A recursive query as its own term sees it.
#[derive(Clone)]
struct Found {
    number: usize,
    columns: Arc<[OutputColumn]>,
    /// The number of queries around the term. The term may name the query as a source, but no
    /// subquery of it may.
    depth: usize,
    mentions: usize,
}

/// The names of a query.
#[derive(Clone, Default)]
struct Scope {
    columns: Vec<ScopeColumn>,
    /// The slots that are used.
    used: Vec<bool>,
    /// Aggregates found so far; `None` where they are not allowed.
    aggregates: Option<Vec<Aggregate>>,
    /// True inside of an aggregate.
    in_aggregate: bool,
    /// Window functions found so far; `None` where they are not allowed.
    windows: Option<window::Windows>,
    /// Set-returning functions found so far; `None` where they are not allowed.
    sets: Option<SetCall>,
    /// Slots that are used without being named.
    unnamed: Vec<usize>,
    /// The number of aggregates of a query whose source is always empty.
    of_nothing: Option<usize>,
}

#[derive(Clone)]
struct ScopeColumn {
    alias: String,
    name: String,
    ty: SqlType,
    slot: usize,
    origin: (u32, i16),
    /// False for columns that `*` does not show: the second of a pair merged by USING.
    shown: bool,
}

impl<'a> Binder<'a> {
    pub(crate) fn new(
        catalog: &'a Catalog,
        text: &'a str,
        params: &[SqlType],
        budget: &'a Budget,
    ) -> Binder<'a> {
        Binder {
            catalog,
            text,
            params: params.to_vec(),
            untyped: Vec::new(),
            scopes: Vec::new(),
            named: Vec::new(),
            is_change: false,
            numbers: 0,
            depth: 0,
            targets: Vec::new(),
            overriding: None,
            is_whole: false,
            writing: Vec::new(),
            view: None,
            procedure: None,
            uses: None,
            is_identity: false,
            is_branch: false,
            needs: Vec::new(),
            mentions: None,
            budget,
        }
    }

    /// The position of a part of the statement.
    fn position(&self, span: Span) -> Option<usize> {
        crate::parse::position(self.text, span.start.line, span.start.column)
    }

    fn at(&self, error: SqlError, ident: &Ident) -> SqlError {
        error.at(self.position(ident.span))
    }

    /// Binds something that occurs `copies` more times in the plan.
    fn copied<T>(
        &mut self,
        copies: usize,
        bind: impl FnOnce(&mut Binder<'a>) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let before = self.budget.mark();
        let bound = bind(self)?;
        self.budget.charge((self.budget.mark() - before).saturating_mul(copies))?;
        Ok(bound)
    }

    /// Binds a separate text, which sees neither names nor slots around it.
    fn apart<T>(
        &mut self,
        bind: impl FnOnce(&mut Binder<'a>) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        self.budget.deeper()?;
        let (view, uses) = (self.view.take(), self.uses.take());
        let procedure = self.procedure.take();
        let (text, mentions) = (std::mem::take(&mut self.text), self.mentions.take());
        let is_change = std::mem::take(&mut self.is_change);
        let (scopes, named) = (std::mem::take(&mut self.scopes), std::mem::take(&mut self.named));
        let (params, targets) =
            (std::mem::take(&mut self.params), std::mem::take(&mut self.targets));
        let bound = bind(self);
        (self.view, self.uses, self.text, self.mentions) = (view, uses, text, mentions);
        (self.is_change, self.scopes, self.named) = (is_change, scopes, named);
        (self.params, self.targets, self.procedure) = (params, targets, procedure);
        bound
    }

    fn scope(&mut self) -> &mut Scope {
        self.scopes.last_mut().expect("expressions are bound in a scope")
    }

    /// Binds with the scope of one more query.
    fn within<T>(
        &mut self,
        scope: Scope,
        bind: impl FnOnce(&mut Binder<'a>) -> Result<T, SqlError>,
    ) -> Result<(T, Scope), SqlError> {
        self.scopes.push(scope);
        let result = bind(self);
        let scope = self.scopes.pop().expect("it was just put there");
        self.note_columns(&scope);
        self.need_columns(&scope);
        Ok((result?, scope))
    }
}

/// A name: unquoted letters become lower case.
pub(crate) fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}
