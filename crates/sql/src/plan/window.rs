//! Window functions.
//!
//! ```text
//!   select v, rank() over w, sum(v) over w from t window w as (partition by k order by v)
//!
//!   rows                   v, k                         slots 0, 1
//!   window by k, v         rank(), sum(v)               slots 2, 3, behind the row's own
//!   project                slots 0, 2, 3
//! ```
//!
//! They are evaluated after grouping. Calls with the same partitioning and order are one window,
//! with a frame for each call.

use super::{Aggregate, SortKey};
use crate::expr::Expr;
use crate::types::SqlType;

/// A partitioning and an order of rows, with the functions evaluated in it.
#[derive(Clone, PartialEq, Debug)]
pub struct Window {
    /// The partition keys.
    pub partition: Vec<Expr>,
    /// The order in a partition; the sort keys refer to this list.
    pub order: Vec<(Expr, SortKey)>,
    /// The calls, each with the index of its value behind the row.
    pub calls: Vec<(usize, WindowCall)>,
}

/// A call of a window function.
#[derive(Clone, PartialEq, Debug)]
pub struct WindowCall {
    /// The function.
    pub func: WindowFunc,
    /// Arguments over a row; empty for an aggregate, which has its own.
    pub args: Vec<Expr>,
    /// Its frame.
    pub frame: Frame,
}

/// The window functions.
#[derive(Clone, PartialEq, Debug)]
pub enum WindowFunc {
    /// `row_number()`
    RowNumber,
    /// `rank()`
    Rank,
    /// `dense_rank()`
    DenseRank,
    /// `percent_rank()`
    PercentRank,
    /// `cume_dist()`
    CumeDist,
    /// `ntile(buckets)`
    Ntile,
    /// `lag(value, offset, default)`
    Lag,
    /// `lead(value, offset, default)`
    Lead,
    /// `first_value(value)`
    FirstValue,
    /// `last_value(value)`
    LastValue,
    /// `nth_value(value, n)`
    NthValue,
    /// An aggregate over the frame.
    Aggregate(Box<Aggregate>),
}

/// The range of rows that a function is evaluated over, from one bound to the other.
#[derive(Clone, PartialEq, Debug)]
pub struct Frame {
    /// The unit of its bounds.
    pub units: FrameUnits,
    /// The first row.
    pub from: Bound,
    /// The last row.
    pub to: Bound,
    /// The type of the sort key, if the bounds are distances of it.
    pub by: SqlType,
    /// The rows between them that it leaves out.
    pub excludes: Exclusion,
}

/// The rows that a frame leaves out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exclusion {
    /// NO OTHERS: none.
    None,
    /// CURRENT ROW.
    Row,
    /// GROUP: the row, and those that are equal to it in the order.
    Group,
    /// TIES: those that are equal to it in the order.
    Ties,
}

/// The unit of a frame's bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameUnits {
    /// Rows.
    Rows,
    /// RANGE: distances of the sort key.
    Range,
    /// GROUPS: groups of rows that are equal in the order.
    Groups,
}

/// A bound of a frame.
#[derive(Clone, PartialEq, Debug)]
pub enum Bound {
    /// The first row of the partition, or the last.
    Unbounded,
    /// The row itself; with RANGE and GROUPS, including the rows that are equal in the order.
    Current,
    /// PRECEDING, with an offset.
    Before(Expr),
    /// FOLLOWING, with an offset.
    After(Expr),
}

/// Visits all expressions of a call; one macro for both shared and mutable references.
macro_rules! each_expr {
    ($call:expr, $visit:expr, $iter:ident $(, $change:tt)?) => {{
        $call.args.$iter().for_each(&mut *$visit);
        if let WindowFunc::Aggregate(aggregate) = & $($change)? $call.func {
            aggregate.of.$iter().chain(aggregate.filter.$iter()).for_each(&mut *$visit);
        }
        for bound in [& $($change)? $call.frame.from, & $($change)? $call.frame.to] {
            if let Bound::Before(offset) | Bound::After(offset) = bound {
                $visit(offset);
            }
        }
    }};
}

impl Window {
    /// Calls `visit` with each expression of the window.
    pub fn exprs<'w>(&'w self, visit: &mut dyn FnMut(&'w Expr)) {
        self.partition.iter().for_each(&mut *visit);
        self.order.iter().for_each(|(by, _)| visit(by));
        self.calls.iter().for_each(|(_, call)| call.exprs(visit));
    }

    /// As [`Window::exprs`], to change them.
    pub(crate) fn exprs_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        self.partition.iter_mut().for_each(&mut *visit);
        self.order.iter_mut().for_each(|(by, _)| visit(by));
        self.calls.iter_mut().for_each(|(_, call)| each_expr!(call, visit, iter_mut, mut));
    }
}

impl WindowCall {
    /// Calls `visit` with each expression of the call.
    pub fn exprs<'w>(&'w self, visit: &mut dyn FnMut(&'w Expr)) {
        each_expr!(self, visit, iter);
    }
}
