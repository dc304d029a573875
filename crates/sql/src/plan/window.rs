//! Functions of the rows around a row.
//!
//! ```text
//!   select v, rank() over w, sum(v) over w from t window w as (partition by k order by v)
//!
//!   rows                   v, k                         places 0, 1
//!   window by k, v         rank(), sum(v)               places 2, 3, behind the row's own
//!   project                places 0, 2, 3
//! ```
//!
//! They are computed once rows have been grouped. Calls over the same partitions in the same order are one window, with
//! a frame for each call.

use super::{Aggregate, SortKey};
use crate::expr::Expr;

/// Rows that belong together, in their order; and what is computed of them.
#[derive(Clone, PartialEq, Debug)]
pub struct Window {
    /// What the rows of a partition have in common.
    pub partition: Vec<Expr>,
    /// The order in a partition; the places are those of this list.
    pub order: Vec<(Expr, SortKey)>,
    /// The calls, and which of the values behind the row each gives.
    pub calls: Vec<(usize, WindowCall)>,
}

/// A function of the rows around a row.
#[derive(Clone, PartialEq, Debug)]
pub struct WindowCall {
    /// Which.
    pub func: WindowFunc,
    /// Over a row: of an aggregate, none, as it has its own.
    pub args: Vec<Expr>,
    /// The rows that it looks at.
    pub frame: Frame,
}

/// The functions there are.
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
    /// An aggregate of the rows of the frame.
    Aggregate(Box<Aggregate>),
}

/// The rows that a function looks at, from one bound to the other.
#[derive(Clone, PartialEq, Debug)]
pub struct Frame {
    /// What is counted.
    pub units: FrameUnits,
    /// The first.
    pub from: Bound,
    /// The last.
    pub to: Bound,
}

/// What the bounds of a frame count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameUnits {
    /// Rows.
    Rows,
    /// What the rows are sorted by: a distance to it.
    Range,
    /// Groups of rows that are equal in the order.
    Groups,
}

/// A bound of a frame.
#[derive(Clone, PartialEq, Debug)]
pub enum Bound {
    /// The first row of the partition, or the last.
    Unbounded,
    /// The row itself; where rows are not what is counted, with those that are equal to it in the order.
    Current,
    /// So far before it.
    Before(Expr),
    /// So far behind it.
    After(Expr),
}

/// All expressions of a call: once for those who look, and once for those who change them.
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
