//! Compiled statements, over slots, keys and spans of keys.
//!
//! ```text
//!   select c.name, w.tax from customer c, warehouse w
//!   where w.id = $1 and c.w_id = w.id and c.id = $2
//!
//!   1  warehouse   span of its key: [$1]             a row: slots 0, 1
//!   2  customer    span of its key: [w.id, $2]       a row: slots 2, 3, 4
//!   project        slots 4, 1
//! ```
//!
//! A query is a list of steps. Each adds a source's columns to the row, found by spans whose
//! expressions may use values of the steps before. A step of a semi or anti join adds no columns:
//! it only decides which rows pass. Then come grouping, windows, projection, order, limit.

mod window;
mod writing;

pub use window::{Bound, Exclusion, Frame, FrameUnits, Window, WindowCall, WindowFunc};
pub use writing::{Merge, Modify, Writing};

use crate::catalog::{Index, Table};
use crate::domains::DomainRule;
use crate::expr::{Arith, Compare, Expr};
use crate::foreign::Links;
use crate::prefix::Prefix;
use crate::system::SystemTable;
use crate::transaction::LockKind;
use crate::types::SqlType;
use isomer_design::Direction;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A query.
#[derive(Clone, Default, Debug)]
pub struct Select {
    /// The sources of rows, in execution order.
    pub steps: Vec<Step>,
    /// The number of slots of a row that grouping, windows and projection see. The slots of semi
    /// and anti joins follow.
    pub width: usize,
    /// The conditions on a row of all sources.
    pub filter: Vec<Expr>,
    /// Grouping; after it, a row is the group's keys followed by the aggregates.
    pub group: Option<Group>,
    /// Window functions, in the order of their evaluation; their values are appended to the row.
    pub windows: Vec<Window>,
    /// The columns of the result, followed by the sort keys.
    pub project: Vec<Expr>,
    /// Volatile columns of `project` that are evaluated after sorting, with their expressions over
    /// the projected row.
    pub late: Vec<(usize, Expr)>,
    /// The columns of the result.
    pub output: Vec<OutputColumn>,
    /// True if equal rows are returned once.
    pub distinct: bool,
    /// Of rows that are equal in these columns of `project`, the first is returned. The order
    /// begins with them.
    pub distinct_on: Vec<usize>,
    /// The sort keys, which are columns of `project`.
    pub order: Vec<SortKey>,
    /// The largest number of rows.
    pub limit: Option<Expr>,
    /// WITH TIES: also the rows that are equal to the last one in the order.
    pub ties: bool,
    /// The number of rows to skip.
    pub offset: Option<Expr>,
    /// Locks the returned rows.
    pub lock: Option<Lock>,
    /// In a join: the sources whose rows are locked.
    pub locked: Vec<LockedSource>,
    /// A query whose rows are combined with these.
    pub other: Option<Box<Other>>,
    /// The rows come from the single source in the requested order.
    pub sorted: bool,
    /// The estimated number of rows of all sources that meet the conditions; `None` without
    /// statistics.
    pub estimate: Option<f64>,
}

/// A query combined with another, with columns of the same types.
#[derive(Clone, Debug)]
pub struct Other {
    /// The operator.
    pub with: SetOperator,
    /// ALL: duplicates are counted; otherwise equal rows are one.
    pub all: bool,
    /// The query.
    pub query: Select,
}

/// A set operator on the rows of two queries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetOperator {
    /// UNION: the rows of both.
    Union,
    /// INTERSECT: the rows that are in both.
    Intersect,
    /// EXCEPT: the rows that are not in the other.
    Except,
}

/// A subquery in an expression.
#[derive(Clone, Debug)]
pub struct Inner {
    /// Its number in the statement, by which its answers are remembered.
    pub number: usize,
    /// The kind of its answer.
    pub asks: Asks,
    /// Its correlated values, over the outer row.
    pub args: Vec<Expr>,
    /// The compared value over the outer row, or the values of a row.
    pub value: Vec<Expr>,
    /// The query. All copies share it, so nested subqueries are not multiplied.
    pub inside: Arc<Inside>,
}

/// The query of a subquery, and its evaluation strategy.
#[derive(Debug)]
pub struct Inside {
    /// The query, over its correlated values.
    pub query: Select,
    /// Its evaluation strategy.
    pub way: Way,
}

/// Copies of a subquery are equal, different subqueries are not.
impl PartialEq for Inner {
    fn eq(&self, other: &Inner) -> bool {
        self.number == other.number
    }
}

/// The kind of answer of a subquery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asks {
    /// Its one value.
    Value,
    /// Its values as an array.
    Array,
    /// EXISTS: whether it has rows.
    Exists,
    /// ANY: whether a comparison with one of its rows is true. IN is `= ANY`.
    Any(Compare),
}

/// The evaluation strategy of a subquery.
#[derive(Clone, Debug)]
pub enum Way {
    /// It runs for each outer row.
    Each,
    /// It runs once for the same correlated values; so it runs once, if it is uncorrelated.
    Remembered,
    /// The answers for all correlated values are computed together.
    Hashed(Box<Hashed>),
}

/// The answers of a subquery for all correlated values.
#[derive(Clone, Debug)]
pub struct Hashed {
    /// The query without the equalities with correlated values: first the keys, followed by its
    /// values.
    pub query: Select,
    /// The keys to look up, over the correlated values.
    pub by: Vec<Expr>,
    /// The query over no rows, for keys that do not occur; `None`: the answer is that of no rows.
    pub nothing: Option<Select>,
    /// The number of single answers, each found in part by an index, after which this strategy pays
    /// off.
    pub after: usize,
}

/// A query in WITH that does not depend on outer queries.
#[derive(Debug)]
pub struct Named {
    /// Its number in the statement.
    pub number: usize,
    /// Its name.
    pub name: String,
    /// The query.
    pub query: Select,
    /// The recursive term, if it refers to itself.
    pub recursion: Option<Recursion>,
    /// True if it must not run more than once, as its rows may differ.
    pub is_fixed: bool,
    /// The number of references to it.
    pub mentions: AtomicUsize,
}

/// The recursive term of a query in WITH RECURSIVE: it runs over the rows of the previous run,
/// until there are no new ones.
#[derive(Debug)]
pub struct Recursion {
    /// The query over these rows.
    pub term: Select,
    /// UNION ALL: equal rows are distinct; otherwise an equal earlier row makes a row old.
    pub all: bool,
}

impl Named {
    /// True if its rows are kept for all references.
    pub fn is_shared(&self) -> bool {
        self.is_fixed || self.mentions.load(Ordering::Relaxed) > 1
    }
}

/// Visits all expressions of a query; one macro for both shared and mutable references.
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
            let arms = step.access.any.$iter().flat_map(|one| one.spans.$iter());
            for span in step.access.spans.$iter().chain(arms) {
                span.prefix.$iter().for_each(&mut *$visit);
                span.starts.$iter().for_each(|(_, pattern)| $visit(pattern));
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

/// The largest number of sources that are searched, to determine the sources that a query reads.
const LOOKS_MAX: usize = 1_000;

impl Select {
    /// Tells this query apart from others, while its plan stays where it is.
    pub fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Calls `visit` with each expression of the query, and of queries among its sources and
    /// combined with it, which have the same correlated values. Subqueries in these expressions are
    /// left to the caller.
    pub fn exprs(&self, visit: &mut dyn FnMut(&Expr)) {
        each_expr!(self, visit, iter, exprs, Arc::as_ref);
    }

    /// As [`Select::exprs`], to change them.
    pub fn exprs_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        each_expr!(self, visit, iter_mut, exprs_mut, Arc::make_mut, mut);
    }

    /// True if this holds for a source of the query, or of a nested query.
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

    /// The recursive queries whose newest rows it reads; `None` if that takes too long to
    /// determine, as queries in WITH refer to each other repeatedly.
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

    /// True if all of its rows are returned, in any order, and none together with those of another.
    pub(crate) fn is_plain(&self) -> bool {
        let has_all = self.limit.is_none() && self.offset.is_none() && self.other.is_none();
        has_all && !self.distinct && self.distinct_on.is_empty() && self.order.is_empty()
    }

    /// True if its rows may differ between executions.
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
    /// The oid of the table and the number of the column, if it is one.
    pub origin: (u32, i16),
}

/// How the rows of a query are locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lock {
    /// The strength of the lock.
    pub kind: LockKind,
    /// The treatment of rows that are locked by other transactions.
    pub busy: Busy,
}

/// A table in a join whose rows are locked.
#[derive(Clone, Debug)]
pub struct LockedSource {
    /// The table.
    pub table: Arc<Table>,
    /// The position of its row key in the projection.
    pub key_at: usize,
    /// The lock.
    pub lock: Lock,
}

/// The treatment of rows that are locked by other transactions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Busy {
    /// Wait for them.
    Wait,
    /// SKIP LOCKED: leave them out.
    Skip,
    /// NOWAIT: an error.
    Fail,
}

/// A sort key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SortKey {
    /// The column of the projection.
    pub place: usize,
    /// Descending.
    pub descending: bool,
    /// NULLS FIRST.
    pub nulls_first: bool,
}

/// One source of rows.
#[derive(Clone, Debug)]
pub struct Step {
    /// The source.
    pub source: Source,
    /// Its name in the query.
    pub alias: String,
    /// The first of its slots.
    pub offset: usize,
    /// The number of its slots.
    pub width: usize,
    /// Which of its slots are used.
    pub used: Vec<bool>,
    /// The access path.
    pub access: Access,
    /// The conditions on a row of this source together with those before.
    pub on: Vec<Expr>,
    /// True if a row of the sources before is kept without a match.
    pub left: bool,
    /// True if a row of this source is kept without a match: the sources before are NULL then.
    pub right: bool,
    /// Pairs of equal expressions, over the rows before and over this source, for a hash join.
    pub hash: Vec<(Expr, Expr)>,
    /// True if the rows are found once and kept, because the access depends on no row before.
    pub kept: bool,
    /// Of a semi or anti join: which rows before pass. Its own slots are not used afterwards.
    pub only: Option<Only>,
    /// The estimated number of rows after it; `None` without statistics.
    pub rows: Option<f64>,
}

/// The rows before that pass a source, which only decides about them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Only {
    /// A semi join: rows with a match, each once.
    Matched,
    /// An anti join: rows without a match. All of its conditions are in `on`.
    Unmatched,
}

impl Step {
    /// Tells this step apart from others, while its plan stays where it is.
    pub fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// True if its source is read once and its rows are kept, where `at` is its place among the
    /// steps: it does not depend on the rows before.
    pub fn is_kept(&self, at: usize) -> bool {
        let whole = self.access.is_everything() && self.source.is_ready(&|_| false);
        at > 0 && (self.right || self.kept || whole)
    }

    /// A source with columns from a slot on, without conditions and access path.
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
            kept: false,
            only: None,
            rows: None,
        }
    }
}

/// A source of rows.
#[derive(Clone, Debug)]
pub enum Source {
    /// A table.
    Table(Arc<Table>),
    /// A system table.
    System(SystemTable),
    /// A query; copies of the outer query share it.
    Query(Arc<Select>),
    /// A query with correlated values, over the rows before: LATERAL.
    Lateral(Vec<Expr>, Arc<Select>),
    /// A query in WITH.
    Named(Arc<Named>),
    /// Rows kept under this number, with these columns: in the recursive term of a query of WITH,
    /// those that its last run found; elsewhere, those that a [query that writes](Writing) returns.
    Found(usize, Arc<[OutputColumn]>),
    /// VALUES.
    Values(Vec<Vec<Expr>>),
    /// A set-returning function.
    Set(Box<SetCall>),
}

/// A call of set-returning functions.
#[derive(Clone, Default, Debug)]
pub struct SetCall {
    /// The functions. The rows of several are put side by side, with NULL where a function has no
    /// more.
    pub parts: Vec<SetPart>,
    /// Their arguments, in the order of the functions.
    pub args: Vec<Expr>,
    /// Their columns, in the same order.
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

/// A set-returning function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetFunc {
    /// The numbers from the first argument to the second, with the third as step.
    Series,
    /// As [`SetFunc::Series`], of numerics.
    Numbers,
    /// The times from the first argument to the second, with the third as step.
    Times,
    /// The elements of an array.
    Unnest,
    /// The subscripts of an array.
    Subscripts,
    /// The elements of a JSON array; as texts, if true.
    JsonElements(bool),
    /// The members of a JSON object; their values as texts, if true.
    JsonEach(bool),
    /// The keys of a JSON object.
    JsonKeys,
    /// The items of a path of SQL/JSON.
    JsonPath,
    /// The groups of the matches of a regular expression.
    Matches,
    /// The parts of a text between the matches of a regular expression.
    Split,
}

impl SetFunc {
    /// Its name in EXPLAIN.
    pub fn shown(self) -> &'static str {
        match self {
            SetFunc::Series | SetFunc::Numbers | SetFunc::Times => "generate_series",
            SetFunc::Unnest => "unnest",
            SetFunc::Subscripts => "generate_subscripts",
            SetFunc::JsonElements(false) => "jsonb_array_elements",
            SetFunc::JsonElements(true) => "jsonb_array_elements_text",
            SetFunc::JsonEach(false) => "jsonb_each",
            SetFunc::JsonEach(true) => "jsonb_each_text",
            SetFunc::JsonKeys => "jsonb_object_keys",
            SetFunc::JsonPath => "jsonb_path_query",
            SetFunc::Matches => "regexp_matches",
            SetFunc::Split => "regexp_split_to_table",
        }
    }
}

impl Source {
    /// True if all rows that the source depends on are known.
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

/// The access path to the rows of a table.
#[derive(Clone, Default, Debug)]
pub struct Access {
    /// The index; `None`: the primary key.
    pub index: Option<Arc<Index>>,
    /// The spans of keys; empty: a full scan.
    pub spans: Vec<SpanOf>,
    /// The direction of the scan.
    pub way: Direction,
    /// Ways to the alternatives of an OR, which different indexes find: the rows of all of them,
    /// each row once. With these there are neither an index nor spans.
    pub any: Vec<Access>,
}

impl Access {
    /// True if it finds all rows of the table or the index.
    pub fn is_everything(&self) -> bool {
        self.spans.is_empty() && self.any.is_empty()
    }
}

/// The keys that begin with values, with bounds for the next column.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct SpanOf {
    /// The values of the first columns.
    pub prefix: Vec<Expr>,
    /// The one of these values that is an array, and the type of its elements: there is a span for
    /// each.
    pub each: Option<(usize, SqlType)>,
    /// The lower bound of the next column, and whether it is inclusive.
    pub lower: Option<(Expr, bool)>,
    /// The upper bound.
    pub upper: Option<(Expr, bool)>,
    /// Without bounds: the next column is a text with the fixed beginning of this pattern.
    pub starts: Option<(Prefix, Expr)>,
    /// Without bounds: the next column is not NULL.
    pub known: bool,
}

impl SpanOf {
    /// True if the column behind the values of the prefix is bounded.
    pub fn is_bounded(&self) -> bool {
        self.lower.is_some() || self.upper.is_some() || self.starts.is_some()
    }
}

/// Grouping.
#[derive(Clone, PartialEq, Debug)]
pub struct Group {
    /// The grouping keys.
    pub keys: Vec<Expr>,
    /// GROUPING SETS: the keys of each set, by their positions. A row belongs to one group of each
    /// set, in which the other keys are NULL, and the number of the set follows the keys. Empty:
    /// there is one set, of all keys, and no number.
    pub sets: Vec<Vec<usize>>,
    /// The aggregates of a group.
    pub aggregates: Vec<Aggregate>,
    /// The conditions on a group.
    pub having: Vec<Expr>,
    /// The first row decides all aggregates: `min` or `max` of rows that come in the order of its
    /// argument.
    pub first: bool,
}

impl Group {
    /// The number of values before the aggregates in a group's row.
    pub fn first_aggregate(&self) -> usize {
        self.keys.len() + usize::from(!self.sets.is_empty())
    }

    /// True if all rows are one group.
    pub fn is_whole(&self) -> bool {
        self.keys.is_empty() && self.sets.is_empty()
    }
}

/// An aggregate.
#[derive(Clone, PartialEq, Debug)]
pub struct Aggregate {
    /// Its kind.
    pub kind: AggregateKind,
    /// Its argument; `None` for `count(*)`.
    pub of: Option<Expr>,
    /// DISTINCT.
    pub distinct: bool,
    /// FILTER.
    pub filter: Option<Expr>,
    /// ORDER BY; the sort keys refer to this list.
    pub order: Vec<(Expr, SortKey)>,
    /// The type of the result.
    pub ty: SqlType,
}

/// The kinds of aggregates.
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
    /// `bit_and`, `bit_or` and `bit_xor`.
    Bits(Arith),
    /// `string_agg`, with the separator.
    Join(String),
    /// `string_agg` of rows of a value and the delimiter before it.
    JoinEach,
    /// `array_agg`
    Array,
    /// `array_agg` of arrays
    Nest,
    /// `json_agg` and `json_object_agg`, of JSON values: the brackets, and the separator.
    Json([&'static str; 3]),
    /// `variance`, `stddev` and similar.
    Spread(Spread),
    /// `corr`, `covar_pop`, `regr_slope` and similar, whose two arguments are one value.
    Fit(Fit),
    /// The value of any row: for columns that the grouping key determines.
    First,
    /// An ordered-set aggregate. Its order is that of WITHIN GROUP, followed by the direct
    /// arguments.
    Ordered(Ordered),
}

/// An ordered-set aggregate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ordered {
    /// `percentile_cont` and `percentile_disc`.
    Percentile {
        /// `percentile_cont`, not `percentile_disc`.
        is_continuous: bool,
        /// True if the fraction is an array, as the result is then.
        is_list: bool,
        /// The type of a value.
        value: SqlType,
    },
    /// `mode`
    Mode,
    /// `rank`
    Rank,
    /// `dense_rank`
    DenseRank,
    /// `percent_rank`
    PercentRank,
    /// `cume_dist`
    CumeDist,
}

impl Aggregate {
    /// The direct arguments of an ordered-set aggregate, which follow its sort keys.
    pub fn direct(&self) -> impl Iterator<Item = &(Expr, SortKey)> {
        let keys = match self.kind {
            AggregateKind::Ordered(Ordered::Mode | Ordered::Percentile { .. }) => 1,
            AggregateKind::Ordered(_) => self.order.len() / 2,
            _ => self.order.len(),
        };
        self.order.iter().skip(keys)
    }
}

/// The variance of values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spread {
    /// Of a sample: `var_samp`, not `var_pop`.
    pub is_of_sample: bool,
    /// `stddev`, not `variance`.
    pub is_root: bool,
}

impl Spread {
    /// The aggregate with a name.
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

/// The correlation or regression of pairs: of the first argument (`y`) on the second (`x`).
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
    /// The aggregate with a name.
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
    /// The table.
    pub table: Arc<Table>,
    /// For each column of the table, the source of its value.
    pub columns: Vec<Filled>,
    /// The rows.
    pub source: Select,
    /// True if the rows are read from tables. Then all of them are collected before any is written:
    /// neither the new rows are among them, nor rows that others commit while this statement waits
    /// for locks.
    pub reads: bool,
    /// The computed columns and checks of the table.
    pub rules: RowRules,
    /// The conflict action.
    pub conflict: Option<Conflict>,
    /// The foreign keys that it concerns.
    pub links: Option<Arc<Links>>,
    /// RETURNING, over the new rows.
    pub returning: Option<Returning>,
}

/// Computed columns and checks for a row that is written.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct RowRules {
    /// Generated columns, over the other columns of the row.
    pub computed: Assignments,
    /// The rules of columns with a domain, if they are written.
    pub domains: Vec<(usize, Arc<DomainRule>)>,
    /// The check constraints of the row.
    pub checks: Vec<RowCheck>,
}

impl RowRules {
    /// The columns that are computed.
    pub fn computed_columns(&self) -> impl Iterator<Item = usize> + Clone {
        self.computed.iter().map(|(at, _)| *at)
    }
}

/// A check constraint; NULL is accepted.
#[derive(Clone, PartialEq, Debug)]
pub struct RowCheck {
    /// Its name.
    pub name: String,
    /// The condition.
    pub condition: Expr,
}

/// The source of a column's value in a new row.
#[derive(Clone, PartialEq, Debug)]
pub enum Filled {
    /// A slot of the source's row.
    Given(usize),
    /// The default or another expression.
    Default(Expr),
}

/// Columns with the expressions assigned to them.
pub type Assignments = Vec<(usize, Expr)>;

/// ON CONFLICT.
#[derive(Clone, Debug)]
pub struct Conflict {
    /// The indexes of the conflict target; empty: the primary key, by which rows are found.
    pub indexes: Vec<Arc<Index>>,
    /// True without a conflict target: any key or index.
    pub any: bool,
    /// The columns to set, over the existing row followed by the new one; `None`: DO NOTHING.
    pub set: Option<(Assignments, Option<Expr>)>,
}

/// RETURNING.
#[derive(Clone, Debug)]
pub struct Returning {
    /// The columns, over the row of the table.
    pub project: Vec<Expr>,
    /// The columns of the result.
    pub output: Vec<OutputColumn>,
}

/// UPDATE and DELETE.
#[derive(Clone, Debug)]
pub struct Change {
    /// The table.
    pub table: Arc<Table>,
    /// The step that finds its rows.
    pub step: Step,
    /// With other sources (FROM, USING): the join of the table with them. The step's condition and
    /// the assignments refer to a row of this join.
    pub joined: Option<Box<Select>>,
    /// True if a subquery reads the table: it must not see rows that are changed already.
    pub reads_itself: bool,
    /// The used slots of a locked row. If the key is changed, all of them.
    pub looked_at: Vec<bool>,
    /// Of a MERGE: a row that is found twice is an error.
    pub once: bool,
    /// The assignments; `None`: the rows are deleted.
    pub set: Option<Assignments>,
    /// The computed columns and checks for a changed row.
    pub rules: RowRules,
    /// The foreign keys that it concerns.
    pub links: Option<Arc<Links>>,
    /// The lock of its rows.
    pub lock: LockKind,
    /// RETURNING, over the changed rows.
    pub returning: Option<Returning>,
}
