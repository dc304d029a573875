//! Expressions after binding: names are slots, types are known, conversions are explicit.

use crate::datum::Datum;
use crate::domains::DomainRule;
use crate::functions::{Func, TextFunc};
use crate::plan::{Inner, Source, Way};
use crate::types::{Family, SqlType};
use std::sync::Arc;

/// An expression over a row. Equal expressions have identical values for each row.
#[derive(Clone, Debug)]
pub enum Expr {
    /// A constant.
    Const(Datum),
    /// The value of a parameter, from 0.
    Param(usize),
    /// A slot of the row.
    Column(usize),
    /// A correlated value, by its number.
    Given(usize),
    /// A slot of an outer query's row, by level (1 is the next) and slot. It is replaced before
    /// execution, as are the next two.
    Outer(usize, usize),
    /// The result of an aggregate of this query.
    Aggregate(usize),
    /// The result of a window function of this query. Replaced as well.
    Window(usize),
    /// The result of an aggregate of an outer query.
    OuterAggregate(usize, usize),
    /// A conversion.
    Cast(Box<Expr>, SqlType),
    /// A conversion to a domain, with its checks.
    Domain(Box<Expr>, Arc<DomainRule>),
    /// Arithmetic, with the type of the result.
    Arith(Arith, SqlType, Box<[Expr; 2]>),
    /// A comparison.
    Compare(Compare, Box<[Expr; 2]>),
    /// The conjunction of all.
    And(Vec<Expr>),
    /// The disjunction of all.
    Or(Vec<Expr>),
    /// The opposite.
    Not(Box<Expr>),
    /// True if the value is NULL.
    IsNull(Box<Expr>),
    /// True if the value is this boolean; false for NULL.
    IsTruth(Box<Expr>, bool),
    /// True if both are equal or both NULL (IS NOT DISTINCT FROM).
    Same(Box<[Expr; 2]>),
    /// True if the value is one of the list.
    In(Box<Expr>, Vec<Expr>, ListId),
    /// True if a row of values is one of the list: an [`Expr::Or`] of an [`Expr::And`] for each
    /// row of the list, whose equalities all have the same values on their left sides.
    InRows(Box<Expr>, ListId),
    /// True if the comparison holds with any element of an array, or with all.
    Elements {
        /// The comparison of the value with an element.
        compare: Compare,
        /// True for ALL, false for ANY.
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
        /// True if it ignores case.
        folds: bool,
    },
    /// `~`: a POSIX regular expression.
    Matches {
        /// The text and the pattern.
        both: Box<[Expr; 2]>,
        /// True if it ignores case.
        folds: bool,
    },
    /// The result of the first true condition, or the last expression.
    Case(Vec<(Expr, Expr)>, Box<Expr>),
    /// A function.
    Call(Func, Vec<Expr>),
    /// A subquery.
    Inner(Box<Inner>),
}

/// The identity of a list of values, shared by all copies of its expression. The values of a list
/// that is the same for all rows are hashed once per statement.
#[derive(Clone, Debug)]
pub struct ListId(Option<Arc<u8>>);

impl ListId {
    /// For a list of these values.
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
    /// `#`
    BitXor,
    /// `<<`
    ShiftLeft,
    /// `>>`
    ShiftRight,
}

impl Arith {
    /// True for an operator on the bits of integers.
    pub fn is_of_bits(self) -> bool {
        use Arith::{BitAnd, BitOr, BitXor, ShiftLeft, ShiftRight};
        matches!(self, BitAnd | BitOr | BitXor | ShiftLeft | ShiftRight)
    }
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
    /// The comparison with exchanged operands.
    pub fn flipped(self) -> Compare {
        match self {
            Compare::Lt => Compare::Gt,
            Compare::Le => Compare::Ge,
            Compare::Gt => Compare::Lt,
            Compare::Ge => Compare::Le,
            same => same,
        }
    }

    /// The comparison that is true where this one is false.
    pub fn opposite(self) -> Compare {
        match self {
            Compare::Eq => Compare::Ne,
            Compare::Ne => Compare::Eq,
            Compare::Lt => Compare::Ge,
            Compare::Le => Compare::Gt,
            Compare::Gt => Compare::Le,
            Compare::Ge => Compare::Lt,
        }
    }

    /// True if it holds for operands in this order.
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

    /// The SQL operator.
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

/// The direct children of an expression, for shared and for mutable access.
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
            | Expr::InRows(inner, _)
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
            // Equal constants may have different texts.
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
            Expr::InRows(a, _) => matches!(other, Expr::InRows(b, _) if a == b),
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
    /// Calls `visit` with each direct child; for a subquery, with its correlated values.
    pub fn children(&self, visit: &mut dyn FnMut(&Expr)) {
        each_child!(self, visit, iter);
    }

    /// As [`Expr::children`], with mutable access.
    pub fn children_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        each_child!(self, visit, iter_mut);
    }

    /// True if it contains a subquery.
    pub fn has_query(&self) -> bool {
        self.has(&|expr| matches!(expr, Expr::Inner(_)))
    }

    /// True if a subquery in it reads a table for which `table` is true.
    pub fn reads(&self, table: &dyn Fn(&Source) -> bool) -> bool {
        self.has(&|expr| matches!(expr, Expr::Inner(inner) if inner.inside.query.reads(table)))
    }

    /// True if it contains an aggregate of the query.
    pub fn has_aggregate(&self) -> bool {
        self.has(&|expr| matches!(expr, Expr::Aggregate(_)))
    }

    /// The alternatives of a disjunction.
    pub(crate) fn alternatives(&self) -> Option<&[Expr]> {
        match self {
            Expr::Or(any) => Some(any),
            Expr::InRows(any, _) => any.alternatives(),
            _ => None,
        }
    }

    /// The list of rows of a disjunction, if it compares one row of values with several that are
    /// the same for all rows.
    pub(crate) fn in_rows(rows: Vec<Expr>) -> Expr {
        fn equalities(row: &Expr) -> Option<Vec<&[Expr; 2]>> {
            match row {
                Expr::And(parts) => parts.iter().map(equality).collect(),
                _ => None,
            }
        }
        let is_list = rows.first().and_then(equalities).is_some_and(|first| {
            let has_same = |row: &Expr| {
                equalities(row).is_some_and(|row| {
                    let is_same = |(a, b): (&&[Expr; 2], &&[Expr; 2])| a[0] == b[0];
                    row.len() == first.len() && row.iter().zip(&first).all(is_same)
                })
            };
            let is_fixed = |both: &&[Expr; 2]| both[1].is_fixed() && !both[0].is_volatile();
            let mut all = rows.iter().filter_map(equalities).flatten();
            rows.iter().all(has_same) && all.all(|both| is_fixed(&both))
        });
        let id = ListId(is_list.then(|| Arc::new(0)));
        let any = Expr::Or(rows);
        if is_list { Expr::InRows(Box::new(any), id) } else { any }
    }

    /// True if it is volatile: its value may change without a change of data. Here
    /// `clock_timestamp()` has one value per statement.
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
                    | Func::ExportSnapshot
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

    /// True if it is not immutable: its value for a row may differ at another time or in another
    /// session.
    pub fn is_mutable(&self) -> bool {
        self.is_volatile()
            || self.has(&|expr| match expr {
                Expr::Call(Func::Show, args) => is_shown_by_session(args),
                Expr::Call(Func::ElementsAs { .. }, args) => is_cast_by_session(&args[1..]),
                // Arguments of any type are shown as the session writes them.
                Expr::Call(Func::Concat | Func::ConcatWs | Func::Text(TextFunc::Format), _) => true,
                Expr::Call(func, args) => func.asks_around(args.len()),
                // The meaning depends on the session's zone.
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
            // An uncorrelated subquery runs once, unless it reads the rows of a recursive query.
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

    /// The level of the nearest query whose row it reads; `None` if it reads no row.
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

    /// Rewrites it for the outer query `levels` further out, the only one whose rows it reads.
    pub(crate) fn out_of(&mut self, levels: usize) {
        match self {
            Expr::Outer(out, slot) if *out == levels => *self = Expr::Column(*slot),
            Expr::Outer(out, _) | Expr::OuterAggregate(out, _) => *out -= levels,
            other => other.children_mut(&mut |child| child.out_of(levels)),
        }
    }

    /// The expression over a row whose slots begin at `offset`.
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

    /// The number of nodes, without those of subqueries.
    pub(crate) fn size(&self) -> usize {
        let mut size = 1;
        self.children(&mut |child| size += child.size());
        size
    }

    /// Calls `visit` with each slot of the row that is used, also as a correlated value of a
    /// subquery.
    pub fn columns(&self, visit: &mut dyn FnMut(usize)) {
        if let Expr::Column(slot) = self {
            visit(*slot);
        }
        self.children(&mut |child| child.columns(visit));
    }
}

/// Both sides of an equality.
pub(crate) fn equality(condition: &Expr) -> Option<&[Expr; 2]> {
    match condition {
        Expr::Compare(Compare::Eq, both) => Some(both),
        _ => None,
    }
}

/// True if the text of a value depends on the session (arguments: the value, the type's oid, its
/// modifier), as for dates and arrays of dates.
fn is_shown_by_session(args: &[Expr]) -> bool {
    use SqlType::{Date, Interval, Timestamp, TimestampTz};
    let varies = |ty: SqlType| {
        let is_time = matches!(ty, Date | Timestamp | TimestampTz | Interval);
        is_time || ty.element().is_some() || crate::system::has_names(ty)
    };
    let is_fixed = |oid: i64| SqlType::numbered(oid).is_some_and(|ty| !varies(ty));
    !matches!(args.get(1), Some(Expr::Const(Datum::Int(oid))) if is_fixed(*oid))
}

/// True if casts from or to one of these types may depend on the session.
fn is_cast_by_session(types: &[Expr]) -> bool {
    use Family::{Clock, Interval, Time};
    types.iter().any(|ty| {
        let Expr::Const(Datum::Int(number)) = ty else { return true };
        let family = SqlType::numbered(*number).map(SqlType::family);
        family.is_none_or(|family| matches!(family, Time | Clock | Interval))
    })
}

/// Splits a condition into its conjuncts.
pub fn conjuncts(condition: Expr, into: &mut Vec<Expr>) {
    match condition {
        Expr::And(all) => all.into_iter().for_each(|one| conjuncts(one, into)),
        one => into.push(one),
    }
}
