//! From bound queries to plans: in which order sources run, and how their rows are found.
//!
//! ```text
//!   bound query, indexes, statistics ─▶ arrange ─▶ sort, finish ─▶ plan
//!                            │            └ order: an index that has the rows in the order asked for
//!                            ├ pull       subqueries of conditions become sources
//!                            ├ joins      which source runs next
//!                            ├ push       conditions into queries of FROM
//!                            └ spans      which key or index finds the rows
//!                               └ implied    whether a partial index has all rows asked for
//! ```
//!
//! All of it is a pure function: no clock, no I/O, no random choice. The same query over the same
//! catalog has the same plan. A row that a plan finds is checked against all conditions of the
//! query, so a way to the rows may find too many of them, never too few.

mod cost;
mod estimate;
mod follow;
mod implied;
mod joins;
mod matching;
mod order;
mod pull;
mod push;
mod spans;
mod ways;

pub(crate) use implied::is_implied;
pub(crate) use joins::arrange;
pub(crate) use order::{finish, sort};
pub(crate) use spans::choose;
pub(crate) use ways::runs_worth;

use crate::budget::Budget;
use crate::catalog::Catalog;
use crate::plan::Source;
use crate::statistics::Statistics;

/// Everything that planning depends on, except the query.
#[derive(Clone, Copy)]
pub(crate) struct Planning<'p> {
    statistics: &'p Statistics,
    budget: &'p Budget,
}

impl<'p> Planning<'p> {
    pub(crate) fn of(catalog: &'p Catalog, budget: &'p Budget) -> Planning<'p> {
        Planning { statistics: &catalog.statistics, budget }
    }

    /// True unless it is a table without statistics.
    fn knows(&self, source: &Source) -> bool {
        match source {
            Source::Table(table) => self.statistics.get(&table.oid).is_some(),
            _ => true,
        }
    }
}
