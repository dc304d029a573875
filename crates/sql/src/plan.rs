//! Statements after compilation: what will be done, over places, keys and spans of keys.
//!
//! ```text
//!   select c.name, w.tax from customer c, warehouse w
//!   where w.id = $1 and c.w_id = w.id and c.id = $2
//!
//!   1  warehouse   span of its key: [$1]             a row: places 0, 1
//!   2  customer    span of its key: [w.id, $2]       a row: places 2, 3, 4
//!   project        places 4, 1
//! ```
//!
//! A query is a list of steps; each adds a source's columns to the row so far, found by spans whose
//! expressions may use what the steps before have found. Then come grouping, windows, projection, order, limit.

mod window;

pub use window::{Bound, Frame, FrameUnits, Window, WindowCall, WindowFunc};

use crate::catalog::{Index, Table};
use crate::domains::DomainRule;
use crate::expr::Expr;
use crate::foreign::Links;
use crate::system::SystemTable;
use crate::transaction::LockKind;
use crate::types::SqlType;
use isomer_design::Direction;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A query.
#[derive(Clone, Debug)]
pub struct Select {
    /// Where rows come from, one after the other.
    pub steps: Vec<Step>,
    /// Places of a row of all sources.
    pub width: usize,
    /// What must hold for a row of all sources.
    pub filter: Vec<Expr>,
    /// Grouping; after it, a row is the groups' keys and then the aggregates.
    pub group: Option<Group>,
    /// Functions of the rows around a row, in the order in which they are computed; after them, a row has their values
    /// at its end.
    pub windows: Vec<Window>,
    /// The columns of the result, and then what it is sorted by.
    pub project: Vec<Expr>,
    /// Volatile places of `project` that are evaluated after sorting, with their expressions over
    /// the projected row.
    pub late: Vec<(usize, Expr)>,
    /// The columns of the result.
    pub output: Vec<OutputColumn>,
    /// True if equal rows are shown once.
    pub distinct: bool,
    /// Of rows that are equal at these places of `project`, the first is shown. The order begins with
    /// them.
    pub distinct_on: Vec<usize>,
    /// What the result is sorted by: places of `project`.
    pub order: Vec<SortKey>,
    /// At most so many rows.
    pub limit: Option<Expr>,
    /// And all that are equal to the last of them in the order.
    pub ties: bool,
    /// Without so many at first.
    pub offset: Option<Expr>,
    /// Locks the rows that are shown.
    pub lock: Option<Lock>,
    /// Where there are several sources: those whose rows are locked.
    pub locked: Vec<LockedSource>,
    /// A query whose rows are put together with these.
    pub other: Option<Box<Other>>,
    /// The rows come sorted from the one source.
    pub sorted: bool,
}

/// A query beside another, with columns of the same types.
#[derive(Clone, Debug)]
pub struct Other {
    /// How their rows are put together.
    pub with: SetOperator,
    /// Rows that are equal count as often as there are of them; otherwise they are one.
    pub all: bool,
    /// The query.
    pub query: Select,
}

/// How the rows of two queries are put together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetOperator {
    /// UNION: those of both.
    Union,
    /// INTERSECT: those that are in both.
    Intersect,
    /// EXCEPT: those that are not in the other.
    Except,
}

/// A query inside of an expression.
#[derive(Clone, Debug)]
pub struct Inner {
    /// Its number in the statement: what it has answered is remembered by it.
    pub number: usize,
    /// What is asked of it.
    pub asks: Asks,
    /// What it is given, over the row around.
    pub args: Vec<Expr>,
    /// What is looked for among its rows, over the row around.
    pub value: Option<Expr>,
    /// The query. All copies share it: a query in a query in a query is there once.
    pub inside: Arc<Inside>,
}

/// A query that is inside of an expression, and how it comes by its answers.
#[derive(Debug)]
pub struct Inside {
    /// The query, over what it is given.
    pub query: Select,
    /// How it comes by its answers.
    pub way: Way,
}

/// Each query is its own, wherever it was copied to.
impl PartialEq for Inner {
    fn eq(&self, other: &Inner) -> bool {
        self.number == other.number
    }
}

/// What is asked of a query inside of an expression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asks {
    /// Its one value.
    Value,
    /// Its values, as an array.
    Array,
    /// Whether it has rows.
    Exists,
    /// Whether a value is among its.
    Member,
}

/// How a query inside of an expression comes by its answers.
#[derive(Clone, Debug)]
pub enum Way {
    /// It runs each time.
    Each,
    /// It runs once for the same values given; so it runs once, if it is given none.
    Remembered,
    /// The answers for all values are found at once.
    Hashed(Box<Hashed>),
}

/// The answers of a query for all values that it may be given.
#[derive(Clone, Debug)]
pub struct Hashed {
    /// The query without the equalities with what is given: first the keys, and then what is asked for.
    pub query: Select,
    /// What an answer is looked up by, over what is given.
    pub by: Vec<Expr>,
    /// The query over no rows, for keys that are not there; none: the answer of no rows.
    pub nothing: Option<Select>,
    /// It is worth it after so many answers, each of which is found by an index in part.
    pub after: usize,
}

/// A query of WITH that knows nothing of queries around it.
#[derive(Debug)]
pub struct Named {
    /// Its number in the statement.
    pub number: usize,
    /// Its name.
    pub name: String,
    /// The query.
    pub query: Select,
    /// What more rows come of those that were found, if it mentions itself.
    pub recursion: Option<Recursion>,
    /// True if it must not run more than once, as it may answer otherwise.
    pub is_fixed: bool,
    /// How often it is mentioned.
    pub mentions: AtomicUsize,
}

/// The recursive term of a query of WITH RECURSIVE: it runs over the rows that the last run has found, until there
/// are no new ones.
#[derive(Debug)]
pub struct Recursion {
    /// The query over these rows.
    pub term: Select,
    /// Rows that are equal are several; otherwise one that was there before is no new one.
    pub all: bool,
}

impl Named {
    /// True if its rows are kept for whoever mentions it.
    pub fn is_shared(&self) -> bool {
        self.is_fixed || self.mentions.load(Ordering::Relaxed) > 1
    }
}

/// All expressions of a query: once for those who look, and once for those who change them.
macro_rules! each_expr {
    ($select:expr, $visit:expr, $iter:ident, $exprs:ident, $inside:path $(, $change:tt)?) => {{
        for step in $select.steps.$iter() {
            match & $($change)? step.source {
                Source::Query(query) => $inside(query).$exprs($visit),
                Source::Values(rows) => rows.$iter().flatten().for_each(&mut *$visit),
                Source::Set(call) => call.args.$iter().for_each(&mut *$visit),
                Source::Lateral(args, _) => args.$iter().for_each(&mut *$visit),
                Source::Table(_) | Source::System(_) | Source::Named(_) | Source::Found(..) => {}
            }
            for span in step.access.spans.$iter() {
                span.prefix.$iter().for_each(&mut *$visit);
                span.lower.$iter().chain(span.upper.$iter()).for_each(|(bound, _)| $visit(bound));
            }
            step.on.$iter().for_each(&mut *$visit);
            for (before, own) in step.hash.$iter() {
                $visit(before);
                $visit(own);
            }
        }
        for group in $select.group.$iter() {
            group.keys.$iter().chain(group.having.$iter()).for_each(&mut *$visit);
            for aggregate in group.aggregates.$iter() {
                aggregate.of.$iter().chain(aggregate.filter.$iter()).for_each(&mut *$visit);
                aggregate.order.$iter().for_each(|(by, _)| $visit(by));
            }
        }
        $select.windows.$iter().for_each(|window| window.$exprs(&mut |expr| $visit(expr)));
        $select.filter.$iter().chain($select.project.$iter()).for_each(&mut *$visit);
        for (_, late) in $select.late.$iter() {
            $visit(late);
        }
        $select.limit.$iter().chain($select.offset.$iter()).for_each(&mut *$visit);
        $select.other.$iter().for_each(|other| other.query.$exprs($visit));
    }};
}

/// So many sources of a query are looked at, to see what it reads.
const LOOKS_MAX: usize = 1_000;

impl Select {
    /// Calls `visit` with each expression of the query, and of queries among its sources and beside it, which are
    /// given the same values. Queries inside of these expressions are visited by those who care.
    pub fn exprs(&self, visit: &mut dyn FnMut(&Expr)) {
        each_expr!(self, visit, iter, exprs, Arc::as_ref);
    }

    /// As [`Select::exprs`], to change them.
    pub fn exprs_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        each_expr!(self, visit, iter_mut, exprs_mut, Arc::make_mut, mut);
    }

    /// True if this holds for a source of the query, or of one inside of it.
    pub fn reads(&self, table: &dyn Fn(&Source) -> bool) -> bool {
        let reads = |step: &Step| match &step.source {
            Source::Query(query) | Source::Lateral(_, query) => query.reads(table),
            Source::Named(named) => {
                let term = named.recursion.as_ref().map(|recursion| &recursion.term);
                table(&step.source)
                    || named.query.reads(table)
                    || term.is_some_and(|term| term.reads(table))
            }
            source => table(source),
        };
        let mut found = self.steps.iter().any(reads);
        found = found || self.other.iter().any(|other| other.query.reads(table));
        self.exprs(&mut |expr| found = found || expr.reads(table));
        found
    }

    /// The recursive queries of whose rows it reads those that were found last; `None` if that takes too long to tell, as
    /// queries of WITH mention each other again and again.
    pub fn reads_found(&self) -> Option<Vec<usize>> {
        let (found, looks) = (RefCell::new(Vec::new()), Cell::new(0));
        let is_too_long = self.reads(&|source| {
            if let Source::Found(number, _) = source {
                found.borrow_mut().push(*number);
            }
            looks.set(looks.get() + 1);
            looks.get() > LOOKS_MAX
        });
        (!is_too_long).then(|| found.into_inner())
    }

    /// True if it may answer otherwise the next time.
    pub fn is_volatile(&self) -> bool {
        let mut found = false;
        self.exprs(&mut |expr| found |= expr.is_volatile());
        let is_volatile =
            |step: &Step| matches!(&step.source, Source::Lateral(_, query) if query.is_volatile());
        found || self.steps.iter().any(is_volatile)
    }
}

/// A column of a result.
#[derive(Clone, PartialEq, Debug)]
pub struct OutputColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: SqlType,
    /// The number of the table and of the column in it, if it is one.
    pub origin: (u32, i16),
}

/// How the rows of a query are locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lock {
    /// How strong the lock is.
    pub kind: LockKind,
    /// What is done with rows that somebody else has locked.
    pub busy: Busy,
}

/// A table among several sources whose rows are locked.
#[derive(Clone, Debug)]
pub struct LockedSource {
    /// The table.
    pub table: Arc<Table>,
    /// Where in the projection what a row of it is found by begins.
    pub key_at: usize,
    /// How they are locked.
    pub lock: Lock,
}

/// What is done with rows that somebody else has locked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Busy {
    /// They are waited for.
    Wait,
    /// They are left out.
    Skip,
    /// They are an error.
    Fail,
}

/// A sort key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SortKey {
    /// The place of the projection.
    pub place: usize,
    /// From large to small.
    pub descending: bool,
    /// NULL before all else.
    pub nulls_first: bool,
}

/// One source of rows.
#[derive(Clone, Debug)]
pub struct Step {
    /// The source.
    pub source: Source,
    /// Its name in the query.
    pub alias: String,
    /// The first of its places.
    pub offset: usize,
    /// How many places it has.
    pub width: usize,
    /// Which of its places anybody looks at.
    pub used: Vec<bool>,
    /// How its rows are found.
    pub access: Access,
    /// What must hold for a row of this source and of those before.
    pub on: Vec<Expr>,
    /// True if a row of the sources before is kept where nothing matches.
    pub left: bool,
    /// True if a row of this source is kept where nothing matches: the sources before are NULL then.
    pub right: bool,
    /// Pairs of equal expressions, over the rows before and over this source: to look up in a hash.
    pub hash: Vec<(Expr, Expr)>,
}

impl Step {
    /// A source with these columns from a place of the row on, of which nothing is known yet but what it is.
    pub(crate) fn of(source: Source, alias: String, offset: usize, width: usize) -> Step {
        Step {
            source,
            alias,
            offset,
            width,
            used: Vec::new(),
            access: Access::default(),
            on: Vec::new(),
            left: false,
            right: false,
            hash: Vec::new(),
        }
    }
}

/// What gives rows.
#[derive(Clone, Debug)]
pub enum Source {
    /// A table.
    Table(Arc<Table>),
    /// What the system says about itself.
    System(SystemTable),
    /// A query; copies of the one around share it.
    Query(Arc<Select>),
    /// A query that is given values, over the rows before: LATERAL.
    Lateral(Vec<Expr>, Arc<Select>),
    /// A query of WITH.
    Named(Arc<Named>),
    /// In the recursive term of the query of WITH with this number: the rows that its last run has found, which have
    /// these columns.
    Found(usize, Arc<[OutputColumn]>),
    /// Rows as they were written.
    Values(Vec<Vec<Expr>>),
    /// What a function returns that returns rows.
    Set(Box<SetCall>),
}

/// A call of functions that return rows.
#[derive(Clone, Default, Debug)]
pub struct SetCall {
    /// The functions. Of several, the rows stand side by side, and NULL where one has no more.
    pub parts: Vec<SetPart>,
    /// Their arguments, one function's behind the other's.
    pub args: Vec<Expr>,
    /// The columns, in the same way.
    pub columns: Vec<(String, SqlType)>,
    /// WITH ORDINALITY: the last column is the number of the row.
    pub numbered: bool,
}

/// One of the functions of a [`SetCall`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SetPart {
    /// The function.
    pub func: SetFunc,
    /// How many arguments it has.
    pub args: usize,
    /// How many columns it has.
    pub columns: usize,
}

/// A function that returns rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetFunc {
    /// The numbers from the first to the second, by steps of the third.
    Series,
    /// As [`SetFunc::Series`], of exact numbers.
    Numbers,
    /// The times from the first to the second, by steps of the third.
    Times,
    /// The elements of an array.
    Unnest,
    /// The numbers of an array's elements.
    Subscripts,
    /// The elements of a JSON array; as texts, if it is true.
    JsonElements(bool),
    /// The members of a JSON object; their values as texts, if it is true.
    JsonEach(bool),
    /// The keys of a JSON object.
    JsonKeys,
    /// What the groups of a regular expression hold, where it fits.
    Matches,
    /// The parts of a text between those that a regular expression describes.
    Split,
}

impl SetFunc {
    /// What EXPLAIN says of it.
    pub fn shown(self) -> &'static str {
        match self {
            SetFunc::Series | SetFunc::Numbers | SetFunc::Times => "Series",
            SetFunc::Unnest => "Elements of an array",
            SetFunc::Subscripts => "Numbers of the elements of an array",
            SetFunc::JsonElements(_) => "Elements of a JSON array",
            SetFunc::JsonEach(_) => "Members of a JSON object",
            SetFunc::JsonKeys => "Keys of a JSON object",
            SetFunc::Matches => "Parts of a text that a regular expression describes",
            SetFunc::Split => "Parts of a text between others",
        }
    }
}

impl Source {
    /// True if all that the source depends on is known: places of rows before.
    pub fn is_ready(&self, known: &dyn Fn(usize) -> bool) -> bool {
        let mut ready = true;
        let exprs: &[Expr] = match self {
            Source::Set(call) => &call.args,
            Source::Lateral(args, _) => args,
            _ => &[],
        };
        exprs.iter().for_each(|expr| expr.columns(&mut |slot| ready &= known(slot)));
        ready
    }
}

/// How the rows of a table are found.
#[derive(Clone, Default, Debug)]
pub struct Access {
    /// By an index; otherwise by the key.
    pub index: Option<Arc<Index>>,
    /// The spans of keys; none: everything.
    pub spans: Vec<SpanOf>,
    /// Backward where the order asked for is the key's, from the last.
    pub way: Direction,
}

/// The keys that begin with values, and then lie between bounds.
#[derive(Clone, PartialEq, Debug)]
pub struct SpanOf {
    /// The values of the first columns.
    pub prefix: Vec<Expr>,
    /// Which of these values is an array, and the type of its elements: there is a span for each.
    pub each: Option<(usize, SqlType)>,
    /// The lower bound of the next column, and whether it is one of the values itself.
    pub lower: Option<(Expr, bool)>,
    /// The upper bound.
    pub upper: Option<(Expr, bool)>,
}

/// Grouping.
#[derive(Clone, PartialEq, Debug)]
pub struct Group {
    /// What rows of a group have in common.
    pub keys: Vec<Expr>,
    /// What is computed of a group.
    pub aggregates: Vec<Aggregate>,
    /// What must hold for a group.
    pub having: Vec<Expr>,
}

/// An aggregate.
#[derive(Clone, PartialEq, Debug)]
pub struct Aggregate {
    /// Which.
    pub kind: AggregateKind,
    /// Of what; none: of rows.
    pub of: Option<Expr>,
    /// Each value once.
    pub distinct: bool,
    /// Of the rows for which this holds.
    pub filter: Option<Expr>,
    /// In this order; the places are those of this list.
    pub order: Vec<(Expr, SortKey)>,
    /// The type of the result.
    pub ty: SqlType,
}

/// The aggregates there are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AggregateKind {
    /// `count`
    Count,
    /// `sum`
    Sum,
    /// `avg`
    Avg,
    /// `min`
    Min,
    /// `max`
    Max,
    /// `bool_and`
    All,
    /// `bool_or`
    Any,
    /// `string_agg`, with what stands between
    Join(String),
    /// `array_agg`
    Array,
    /// `json_agg` and `json_object_agg`, of values that are JSON already: the brackets, and what stands between.
    Json([&'static str; 3]),
    /// `variance`, `stddev` and their kin.
    Spread(Spread),
    /// `corr`, `covar_pop`, `regr_slope` and their kin, of two values that are one.
    Fit(Fit),
    /// The value of any row: of columns that the group's key decides.
    First,
}

/// How far values lie from their mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spread {
    /// The values are some of all: `var_samp`, not `var_pop`.
    pub is_of_sample: bool,
    /// `stddev`, not `variance`.
    pub is_root: bool,
}

impl Spread {
    /// The aggregate of this name.
    pub fn named(name: &str) -> Option<Spread> {
        let (is_of_sample, is_root) = match name {
            "variance" | "var_samp" => (true, false),
            "var_pop" => (false, false),
            "stddev" | "stddev_samp" => (true, true),
            "stddev_pop" => (false, true),
            _ => return None,
        };
        Some(Spread { is_of_sample, is_root })
    }
}

/// How the first of two values (`y`) depends on the second (`x`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fit {
    /// `corr`
    Correlation,
    /// `covar_pop`
    Covariance,
    /// `covar_samp`
    CovarianceOfSample,
    /// `regr_avgx`
    MeanX,
    /// `regr_avgy`
    MeanY,
    /// `regr_count`
    Count,
    /// `regr_intercept`
    Intercept,
    /// `regr_r2`
    Determination,
    /// `regr_slope`
    Slope,
    /// `regr_sxx`
    SquaresX,
    /// `regr_sxy`
    Products,
    /// `regr_syy`
    SquaresY,
}

impl Fit {
    /// The aggregate of this name.
    pub fn named(name: &str) -> Option<Fit> {
        Some(match name {
            "corr" => Fit::Correlation,
            "covar_pop" => Fit::Covariance,
            "covar_samp" => Fit::CovarianceOfSample,
            "regr_avgx" => Fit::MeanX,
            "regr_avgy" => Fit::MeanY,
            "regr_count" => Fit::Count,
            "regr_intercept" => Fit::Intercept,
            "regr_r2" => Fit::Determination,
            "regr_slope" => Fit::Slope,
            "regr_sxx" => Fit::SquaresX,
            "regr_sxy" => Fit::Products,
            "regr_syy" => Fit::SquaresY,
            _ => return None,
        })
    }
}

/// INSERT.
#[derive(Clone, Debug)]
pub struct Insert {
    /// Into which table.
    pub table: Arc<Table>,
    /// For each column of the table, what it gets: a place of the source's row, or an expression.
    pub columns: Vec<Filled>,
    /// The rows.
    pub source: Select,
    /// True if these are found in tables: all of them before any is written, so that none of the new ones is among
    /// them, nor what others commit while these wait for their locks.
    pub reads: bool,
    /// What the table makes of a row, and wants of it.
    pub rules: RowRules,
    /// What is done with rows that are there already.
    pub conflict: Option<Conflict>,
    /// What foreign keys ask of it.
    pub links: Option<Arc<Links>>,
    /// What is shown of the new rows.
    pub returning: Option<Returning>,
}

/// What a table makes of a row that is written, and wants of it.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct RowRules {
    /// Columns that are computed, over the row as it is otherwise.
    pub computed: Assignments,
    /// What columns want that are of domains, where they are written.
    pub domains: Vec<(usize, Arc<DomainRule>)>,
    /// What must hold for the whole row.
    pub checks: Vec<RowCheck>,
}

impl RowRules {
    /// The columns that are computed.
    pub fn computed_columns(&self) -> impl Iterator<Item = usize> + Clone {
        self.computed.iter().map(|(at, _)| *at)
    }
}

/// A condition on a table's row, which may be NULL.
#[derive(Clone, PartialEq, Debug)]
pub struct RowCheck {
    /// Its name.
    pub name: String,
    /// The condition.
    pub condition: Expr,
}

/// Where the value of a new row's column comes from.
#[derive(Clone, PartialEq, Debug)]
pub enum Filled {
    /// From the source.
    Given(usize),
    /// The default.
    Default(Expr),
}

/// Columns, and what they are set to.
pub type Assignments = Vec<(usize, Expr)>;

/// ON CONFLICT.
#[derive(Clone, Debug)]
pub struct Conflict {
    /// The indexes that are meant; none: the primary key, by which rows are found.
    pub indexes: Vec<Arc<Index>>,
    /// True if any key or index is meant.
    pub any: bool,
    /// The columns to set, over the row that is there and then the new one; none: do nothing.
    pub set: Option<(Assignments, Option<Expr>)>,
}

/// RETURNING.
#[derive(Clone, Debug)]
pub struct Returning {
    /// Over the row of the table.
    pub project: Vec<Expr>,
    /// The columns of the result.
    pub output: Vec<OutputColumn>,
}

/// UPDATE and DELETE.
#[derive(Clone, Debug)]
pub struct Change {
    /// The table.
    pub table: Arc<Table>,
    /// How its rows are found; one step.
    pub step: Step,
    /// With other sources (FROM, USING): the query of the table's rows and theirs, side by side. What the
    /// step's condition and the assignments look at is such a row.
    pub joined: Option<Box<Select>>,
    /// True if a query inside reads the table: it must not see rows that are changed already.
    pub reads_itself: bool,
    /// Which places of a locked row anybody looks at. Where the key is set, all of them.
    pub looked_at: Vec<bool>,
    /// What to set; none: the rows are deleted.
    pub set: Option<Assignments>,
    /// What the table makes of a changed row, and wants of it.
    pub rules: RowRules,
    /// What foreign keys ask of it.
    pub links: Option<Arc<Links>>,
    /// How its rows are locked.
    pub lock: LockKind,
    /// What is shown of the rows.
    pub returning: Option<Returning>,
}
