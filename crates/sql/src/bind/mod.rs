//! From statements to plans: names become places, types are found, ways to the rows are chosen.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`expr`], [`operators`], [`convert`], [`call`], [`name`] | expressions: types, conversions; functions, aggregates; names |
//! | [`forms`] | functions of one name for several types |
//! | [`query`], [`select`], [`from`], [`group`] | queries: sources, joins, grouping, order |
//! | [`window`], [`sets`] | window functions; functions that return rows |
//! | [`inner`] | queries inside of expressions |
//! | [`recursion`] | WITH RECURSIVE |
//! | [`times`], [`json`], [`arrays`] | functions of times that mind the zone; JSON; arrays |
//! | [`arrange`], [`push`] | the order in which sources run; conditions on queries in FROM |
//! | [`access`] | which key or index finds the rows that a condition means |
//! | [`drivers`] | what only drivers write |
//! | [`view`], [`domain`] | views, where they are mentioned; domains, where a value becomes one |
//! | [`rights`] | the rights that a statement needs |
//! | [`insert`], [`change`] | INSERT and COPY; UPDATE and DELETE |
//! | [`foreign`] | what foreign keys ask of these |
//! | [`generated`] | columns that are computed of others |
//! | [`computed`] | what indexes compute of rows, and whether a query asks for no rows but theirs |
//!
//! **Types of parameters.** A parameter without a type gets the one it is compared with, added to or
//! stored as, where it stands first: `abalance + $1` makes it an integer. So does a literal in quotes.
//!
//! **Memory and time.** A short text can mean a large plan: a query with a name is bound wherever it is named, a
//! star stands for all columns, a value that is looked at twice is there twice. So expressions, columns and
//! copies are charged to the [budget](crate::budget) of the statement as they are made; what binding has charged
//! is what the plan takes, and what a copy of it takes.

mod access;
mod arrange;
mod arrays;
mod call;
mod change;
mod computed;
mod convert;
mod domain;
mod drivers;
mod expr;
mod foreign;
mod forms;
mod from;
mod generated;
mod group;
mod inner;
mod insert;
mod json;
mod name;
mod numbers;
mod operators;
mod push;
mod query;
mod recursion;
mod rights;
mod select;
mod sets;
mod subscripts;
mod texts;
mod times;
mod view;
mod window;

use crate::budget::Budget;
use crate::catalog::{Catalog, Name};
use crate::error::SqlError;
use crate::parse::Overriding;
use crate::plan::{Aggregate, Named, OutputColumn, SetCall};
use crate::rights::Need;
use crate::types::SqlType;
use crate::view::{Used, View};
use sqlparser::ast::{Cte, Ident};
use sqlparser::tokenizer::{Location, Span};
use std::rc::Rc;
use std::sync::Arc;

pub use change::{is_assignable, type_of};
pub(crate) use computed::written_computed;
pub(crate) use convert::{bare, negative, retyped};
pub use domain::check_domain;
pub(crate) use expr::Typed;
pub(crate) use generated::checked_columns;
pub use generated::{check_conditions, check_generated, computed_of, renamed};
pub(crate) use name::column_name;

pub(crate) use view::written;

/// Expressions may be nested so deep.
const DEPTH_MAX: usize = 3_000;

/// Binds one statement.
pub(crate) struct Binder<'a> {
    pub(crate) catalog: &'a Catalog,
    text: &'a str,
    /// The types of the parameters, as far as they are known.
    pub(crate) params: Vec<SqlType>,
    /// Parameters that were looked at where nothing says of which type they are.
    pub(crate) untyped: Vec<usize>,
    /// The queries around the place that is bound; the last is the next.
    scopes: Vec<Scope>,
    /// Queries with names; each sees those before it.
    named: Vec<NamedQuery>,
    /// True while the condition of an UPDATE or DELETE is bound.
    is_change: bool,
    /// How many queries have a number.
    numbers: usize,
    depth: usize,
    /// The types of the columns that the next query's result becomes, as INSERT has them.
    targets: Vec<SqlType>,
    /// Which values of identity columns an INSERT takes, if that is said.
    pub(crate) overriding: Option<Overriding>,
    /// The view whose text is bound.
    view: Option<Arc<View>>,
    /// What the text names, while a view is made.
    pub(crate) uses: Option<Vec<Used>>,
    /// True while the default of an identity column is bound.
    is_identity: bool,
    /// True inside of a branch of UNION and its kin, where an object keeps its number.
    is_branch: bool,
    /// The rights that the statement needs.
    needs: Vec<Need>,
    /// Where the text of a view names relations, while it is written as they are found now.
    mentions: Option<Vec<Mention>>,
    pub(crate) budget: &'a Budget,
}

/// A relation in the text of a view: where it is named, what it is called there, and by now.
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
    /// How many queries are around it.
    depth: usize,
    /// True if it may mention itself.
    may_recurse: bool,
    /// True if a query reads it.
    is_read: bool,
    /// While its recursive term is bound.
    found: Option<Found>,
    /// Once it is bound, and looks at nothing around it.
    bound: Option<Arc<Named>>,
}

/// What a recursive term sees of its own query.
#[derive(Clone)]
struct Found {
    number: usize,
    columns: Arc<[OutputColumn]>,
    /// How many queries are around the term: in it, the name is that of a source, and of none further inside.
    depth: usize,
    mentions: usize,
}

/// The names of a query.
#[derive(Clone, Default)]
struct Scope {
    columns: Vec<ScopeColumn>,
    /// Places that are looked at.
    used: Vec<bool>,
    /// Aggregates found so far; none where they are not allowed.
    aggregates: Option<Vec<Aggregate>>,
    /// True inside of an aggregate.
    in_aggregate: bool,
    /// Window functions found so far; none where they are not allowed.
    windows: Option<window::Windows>,
    /// Functions that return rows found so far; none where they are not allowed.
    sets: Option<SetCall>,
    /// Places that are looked at, though nobody has named them.
    unnamed: Vec<usize>,
    /// Of a query whose source is always empty: how many aggregates it has so far.
    of_nothing: Option<usize>,
}

#[derive(Clone)]
struct ScopeColumn {
    alias: String,
    name: String,
    ty: SqlType,
    slot: usize,
    origin: (u32, i16),
    /// False for columns that `*` does not show: the second of two that USING unites.
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
            view: None,
            uses: None,
            is_identity: false,
            is_branch: false,
            needs: Vec::new(),
            mentions: None,
            budget,
        }
    }

    /// Where a part of the statement begins.
    fn position(&self, span: Span) -> Option<usize> {
        crate::parse::position(self.text, span.start.line, span.start.column)
    }

    fn at(&self, error: SqlError, ident: &Ident) -> SqlError {
        error.at(self.position(ident.span))
    }

    /// Binds something that is put into the plan so many times more.
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

    /// Binds a text of its own: nothing that is around it is seen there, nor its places.
    fn apart<T>(
        &mut self,
        bind: impl FnOnce(&mut Binder<'a>) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        self.budget.deeper()?;
        let (view, uses) = (self.view.take(), self.uses.take());
        let (text, mentions) = (std::mem::take(&mut self.text), self.mentions.take());
        let is_change = std::mem::take(&mut self.is_change);
        let (scopes, named) = (std::mem::take(&mut self.scopes), std::mem::take(&mut self.named));
        let (params, targets) =
            (std::mem::take(&mut self.params), std::mem::take(&mut self.targets));
        let bound = bind(self);
        (self.view, self.uses, self.text, self.mentions) = (view, uses, text, mentions);
        (self.is_change, self.scopes, self.named) = (is_change, scopes, named);
        (self.params, self.targets) = (params, targets);
        bound
    }

    fn scope(&mut self) -> &mut Scope {
        self.scopes.last_mut().expect("expressions are bound in a scope")
    }

    /// Binds with the names of one more query.
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

/// A name: letters without quotes are small.
pub(crate) fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}
