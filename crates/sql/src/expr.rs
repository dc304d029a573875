//! Expressions after binding: names are places, types are known, conversions are written out.

use crate::datum::Datum;
use crate::domains::DomainRule;
use crate::functions::Func;
use crate::plan::{Inner, Source, Way};
use crate::types::SqlType;
use std::sync::Arc;

/// An expression over a row. Equal expressions have identical values for each row.
#[derive(Clone, Debug)]
pub enum Expr {
    /// A value.
    Const(Datum),
    /// The value of a parameter, from 0.
    Param(usize),
    /// A place of the row.
    Column(usize),
    /// A value that the query around has given, by its number among them.
    Given(usize),
    /// A place of the row of a query around this one; 1 is the next. Replaced before anything runs, as the next two.
    Outer(usize, usize),
    /// The result of an aggregate of this query.
    Aggregate(usize),
    /// The value of a window function of this query. Replaced as well.
    Window(usize),
    /// The result of an aggregate of a query around this one.
    OuterAggregate(usize, usize),
    /// A conversion.
    Cast(Box<Expr>, SqlType),
    /// A value that becomes one of a domain.
    Domain(Box<Expr>, Arc<DomainRule>),
    /// Arithmetic, with the type of the result.
    Arith(Arith, SqlType, Box<[Expr; 2]>),
    /// A comparison.
    Compare(Compare, Box<[Expr; 2]>),
    /// All of them.
    And(Vec<Expr>),
    /// Any of them.
    Or(Vec<Expr>),
    /// The opposite.
    Not(Box<Expr>),
    /// True if the value is NULL.
    IsNull(Box<Expr>),
    /// True if the value is this truth; NULL is neither.
    IsTruth(Box<Expr>, bool),
    /// True if both are the same, NULL being the same as NULL.
    Same(Box<[Expr; 2]>),
    /// True if the value is one of the list.
    In(Box<Expr>, Vec<Expr>, ListId),
    /// True if the comparison holds with any element of an array, or with all.
    Elements {
        /// How the value is compared with an element.
        compare: Compare,
        /// With all, not any.
        all: bool,
        /// The value and the array.
        both: Box<[Expr; 2]>,
        /// The type of an element.
        element: SqlType,
        /// The identity of the array.
        list: ListId,
    },
    /// LIKE.
    Like {
        /// The text and the pattern.
        both: Box<[Expr; 2]>,
        /// Whether letters of both cases are the same.
        folds: bool,
    },
    /// `~`: a pattern of POSIX.
    Matches {
        /// The text and the pattern.
        both: Box<[Expr; 2]>,
        /// Whether letters of both cases are the same.
        folds: bool,
    },
    /// The first condition that holds.
    Case(Vec<(Expr, Expr)>, Box<Expr>),
    /// A function.
    Call(Func, Vec<Expr>),
    /// What a query answers.
    Inner(Box<Inner>),
}

/// The identity of a list of values, shared by all copies of its expression. The values of a list
/// that is the same for all rows are hashed once in a statement.
#[derive(Clone, Debug)]
pub struct ListId(Option<Arc<u8>>);

impl ListId {
    /// Of a list of these values.
    pub(crate) fn of(values: &[Expr]) -> ListId {
        let is_fixed = values.iter().all(Expr::is_fixed);
        // An allocation of zero bytes has no address of its own.
        ListId(is_fixed.then(|| Arc::new(0)))
    }

    /// A number that is unique while the list lives; `None` if its values depend on a row.
    pub(crate) fn number(&self) -> Option<usize> {
        self.0.as_ref().map(|id| Arc::as_ptr(id) as usize)
    }
}

/// Arithmetic with two operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arith {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Rem,
    /// `||`
    Concat,
    /// `&`
    BitAnd,
    /// `|`
    BitOr,
}

/// A comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compare {
    /// `=`
    Eq,
    /// `<>`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
}

impl Compare {
    /// The comparison with both sides changed over.
    pub fn flipped(self) -> Compare {
        match self {
            Compare::Lt => Compare::Gt,
            Compare::Le => Compare::Ge,
            Compare::Gt => Compare::Lt,
            Compare::Ge => Compare::Le,
            same => same,
        }
    }

    /// Whether it holds for operands in this order.
    pub fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Compare::Eq => order.is_eq(),
            Compare::Ne => order.is_ne(),
            Compare::Lt => order.is_lt(),
            Compare::Le => order.is_le(),
            Compare::Gt => order.is_gt(),
            Compare::Ge => order.is_ge(),
        }
    }

    /// As it is written.
    pub fn sign(self) -> &'static str {
        match self {
            Compare::Eq => "=",
            Compare::Ne => "<>",
            Compare::Lt => "<",
            Compare::Le => "<=",
            Compare::Gt => ">",
            Compare::Ge => ">=",
        }
    }
}

/// What is inside of an expression: once for those who look, and once for those who change it.
macro_rules! each_child {
    ($expr:expr, $visit:expr, $iter:ident) => {
        match $expr {
            Expr::Const(_)
            | Expr::Param(_)
            | Expr::Column(_)
            | Expr::Given(_)
            | Expr::Outer(..)
            | Expr::Aggregate(_)
            | Expr::Window(_)
            | Expr::OuterAggregate(..) => {}
            Expr::Inner(inner) => {
                inner.args.$iter().for_each(&mut *$visit);
                inner.value.$iter().for_each($visit);
            }
            Expr::Cast(inner, _)
            | Expr::Domain(inner, _)
            | Expr::Not(inner)
            | Expr::IsNull(inner)
            | Expr::IsTruth(inner, _) => $visit(inner),
            Expr::Arith(_, _, both)
            | Expr::Compare(_, both)
            | Expr::Same(both)
            | Expr::Elements { both, .. }
            | Expr::Like { both, .. }
            | Expr::Matches { both, .. } => both.$iter().for_each($visit),
            Expr::And(all) | Expr::Or(all) | Expr::Call(_, all) => all.$iter().for_each($visit),
            Expr::In(value, list, _) => {
                $visit(value);
                list.$iter().for_each($visit);
            }
            Expr::Case(whens, otherwise) => {
                for (when, then) in whens.$iter() {
                    $visit(when);
                    $visit(then);
                }
                $visit(otherwise);
            }
        }
    };
}

impl PartialEq for Expr {
    fn eq(&self, other: &Expr) -> bool {
        use Expr::{
            And, Arith, Call, Case, Cast, Column, Compare, Const, Domain, Given, In, Inner,
        };
        use Expr::{IsNull, IsTruth, Not, Or, Outer, Param, Same, Window};
        match self {
            // Equal constants may be shown in different ways.
            Const(a) => matches!(other, Const(b) if a.is_identical(b)),
            Param(a) => matches!(other, Param(b) if a == b),
            Column(a) => matches!(other, Column(b) if a == b),
            Given(a) => matches!(other, Given(b) if a == b),
            Outer(a, at) => matches!(other, Outer(b, to) if (a, at) == (b, to)),
            Expr::Aggregate(a) => matches!(other, Expr::Aggregate(b) if a == b),
            Window(a) => matches!(other, Window(b) if a == b),
            Expr::OuterAggregate(a, at) => {
                matches!(other, Expr::OuterAggregate(b, to) if (a, at) == (b, to))
            }
            Cast(a, ty) => matches!(other, Cast(b, of) if ty == of && a == b),
            Domain(a, rule) => matches!(other, Domain(b, of) if rule == of && a == b),
            Arith(op, ty, a) => {
                matches!(other, Arith(of, to, b) if (op, ty) == (of, to) && a == b)
            }
            Compare(op, a) => matches!(other, Compare(of, b) if op == of && a == b),
            And(a) => matches!(other, And(b) if a == b),
            Or(a) => matches!(other, Or(b) if a == b),
            Not(a) => matches!(other, Not(b) if a == b),
            IsNull(a) => matches!(other, IsNull(b) if a == b),
            IsTruth(a, is) => matches!(other, IsTruth(b, of) if is == of && a == b),
            Same(a) => matches!(other, Same(b) if a == b),
            In(a, list, _) => matches!(other, In(b, of, _) if a == b && list == of),
            Expr::Elements { compare, all, both, element, .. } => matches!(
                other,
                Expr::Elements { compare: op, all: every, both: of, element: ty, .. }
                    if (compare, all, element) == (op, every, ty) && both == of
            ),
            Expr::Like { both, folds } => {
                matches!(other, Expr::Like { both: of, folds: is } if folds == is && both == of)
            }
            Expr::Matches { both, folds } => {
                matches!(other, Expr::Matches { both: of, folds: is } if folds == is && both == of)
            }
            Case(whens, a) => matches!(other, Case(of, b) if whens == of && a == b),
            Call(func, args) => matches!(other, Call(of, with) if func == of && args == with),
            Inner(a) => matches!(other, Inner(b) if a == b),
        }
    }
}

impl Expr {
    /// Calls `visit` with each expression directly inside this one: of a query inside, what it is given.
    pub fn children(&self, visit: &mut dyn FnMut(&Expr)) {
        each_child!(self, visit, iter);
    }

    /// As [`Expr::children`], to change them.
    pub fn children_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        each_child!(self, visit, iter_mut);
    }

    /// True if a query is somewhere inside.
    pub fn has_query(&self) -> bool {
        self.has(&|expr| matches!(expr, Expr::Inner(_)))
    }

    /// True if a query somewhere inside finds rows of a table for which this holds.
    pub fn reads(&self, table: &dyn Fn(&Source) -> bool) -> bool {
        self.has(&|expr| matches!(expr, Expr::Inner(inner) if inner.inside.query.reads(table)))
    }

    /// True if an aggregate of the query is somewhere inside.
    pub fn has_aggregate(&self) -> bool {
        self.has(&|expr| matches!(expr, Expr::Aggregate(_)))
    }

    /// True if it may have another value each time, where nothing has changed. `clock_timestamp()` has one for a
    /// statement here.
    pub fn is_volatile(&self) -> bool {
        let draws = |func: &Func| {
            matches!(
                func,
                Func::Random
                    | Func::RandomUuid
                    | Func::NextVal
                    | Func::NextOwn
                    | Func::CurrVal
                    | Func::LastVal
                    | Func::SetVal
                    | Func::SequenceLast
                    | Func::SequenceIsCalled
                    | Func::Sleep
                    | Func::Advisory { .. }
                    | Func::AdvisoryUnlock { .. }
                    | Func::AdvisoryUnlockAll
                    | Func::SetConfig
            )
        };
        self.has(&|expr| match expr {
            Expr::Call(func, _) => draws(func),
            Expr::Inner(inner) => matches!(inner.inside.way, Way::Each),
            Expr::Domain(_, rule) => rule.checks.iter().any(|check| check.condition.is_volatile()),
            _ => false,
        })
    }

    /// True if its value may be another one at another time, or in another session, for the same row.
    pub fn is_mutable(&self) -> bool {
        self.is_volatile()
            || self.has(&|expr| match expr {
                Expr::Call(Func::Show, args) => is_shown_by_session(args),
                Expr::Call(func, args) => func.asks_around(args.len()),
                // The zone of the session says when that is.
                Expr::Cast(_, ty) => *ty == SqlType::TimestampTz,
                Expr::Domain(_, rule) => {
                    rule.checks.iter().any(|check| check.condition.is_mutable())
                }
                _ => false,
            })
    }

    /// True if it has one value in a statement: it reads no row and no correlated value.
    fn is_fixed(&self) -> bool {
        let varies = |expr: &Expr| match expr {
            Expr::Const(_) | Expr::Param(_) | Expr::Cast(..) | Expr::Arith(..) | Expr::Call(..) => {
                false
            }
            // An uncorrelated query runs once, unless it reads the rows of a recursive query.
            Expr::Inner(inner) => {
                let found = inner.inside.query.reads_found();
                !inner.args.is_empty() || found.is_none_or(|found| !found.is_empty())
            }
            _ => true,
        };
        !self.has(&varies) && !self.is_volatile()
    }

    pub(crate) fn has(&self, what: &dyn Fn(&Expr) -> bool) -> bool {
        let mut found = what(self);
        self.children(&mut |child| found |= child.has(what));
        found
    }

    /// How many queries further out the nearest is of whose row it looks at; none if it looks at no row.
    pub(crate) fn nearest_level(&self) -> Option<usize> {
        match self {
            Expr::Column(_) | Expr::Aggregate(_) | Expr::Window(_) => Some(0),
            Expr::Outer(levels, _) | Expr::OuterAggregate(levels, _) => Some(*levels),
            other => {
                let mut nearest: Option<usize> = None;
                other.children(&mut |child| {
                    nearest = nearest.into_iter().chain(child.nearest_level()).min();
                });
                nearest
            }
        }
    }

    /// As it is in the query so many further out, of whose rows alone it is.
    pub(crate) fn out_of(&mut self, levels: usize) {
        match self {
            Expr::Outer(out, slot) if *out == levels => *self = Expr::Column(*slot),
            Expr::Outer(out, _) | Expr::OuterAggregate(out, _) => *out -= levels,
            other => other.children_mut(&mut |child| child.out_of(levels)),
        }
    }

    /// As it is over a row whose places begin at `offset`.
    pub fn moved(&self, offset: usize) -> Expr {
        let mut moved = self.clone();
        moved.move_by(offset);
        moved
    }

    fn move_by(&mut self, offset: usize) {
        match self {
            Expr::Column(at) => *at += offset,
            other => other.children_mut(&mut |child| child.move_by(offset)),
        }
    }

    /// How many expressions it is made of, without those of queries inside.
    pub(crate) fn size(&self) -> usize {
        let mut size = 1;
        self.children(&mut |child| size += child.size());
        size
    }

    /// Calls `visit` with each place of the row that is used, also by what queries inside are given.
    pub fn columns(&self, visit: &mut dyn FnMut(usize)) {
        if let Expr::Column(slot) = self {
            visit(*slot);
        }
        self.children(&mut |child| child.columns(visit));
    }
}

/// True if the session says how a value of this type is written (the value, the type's number, its modifier): a date, and a
/// list of dates.
fn is_shown_by_session(args: &[Expr]) -> bool {
    const LISTS: [i64; 3] = [1115, 1182, 1185];
    let dates = [SqlType::Date, SqlType::Timestamp, SqlType::TimestampTz];
    let is_date = |oid: i64| dates.iter().any(|ty| i64::from(ty.oid()) == oid);
    !matches!(args.get(1), Some(Expr::Const(Datum::Int(oid))) if !is_date(*oid) && !LISTS.contains(oid))
}

/// Splits a condition into those that must all hold.
pub fn conjuncts(condition: Expr, into: &mut Vec<Expr>) {
    match condition {
        Expr::And(all) => all.into_iter().for_each(|one| conjuncts(one, into)),
        one => into.push(one),
    }
}
