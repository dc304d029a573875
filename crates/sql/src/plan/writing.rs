//! Queries of WITH that write.
//!
//! ```text
//!   with moved as (delete from hot where day < $1 returning *)      number 1
//!   insert into cold select * from moved                            reads Found(1)
//! ```
//!
//! Each runs once and to its end, whether or not another part of the statement reads it: when its
//! rows are first read, or else after the main query. All parts of the statement see the rows as
//! they were before it, so one part learns of another only from the rows that it returns.
//!
//! A row that two parts write takes the first of the writes, as at PostgreSQL.

use super::{Change, Insert, Returning};
use crate::catalog::Table;
use std::sync::Arc;

/// An INSERT, an UPDATE or a DELETE.
#[derive(Debug)]
pub enum Modify {
    /// INSERT.
    Insert(Box<Insert>),
    /// UPDATE.
    Update(Box<Change>),
    /// DELETE.
    Delete(Box<Change>),
}

impl Modify {
    /// The table that is written.
    pub fn table(&self) -> &Arc<Table> {
        match self {
            Modify::Insert(plan) => &plan.table,
            Modify::Update(plan) | Modify::Delete(plan) => &plan.table,
        }
    }

    /// The rows that it returns, if it does.
    pub fn returning(&self) -> Option<&Returning> {
        match self {
            Modify::Insert(plan) => plan.returning.as_ref(),
            Modify::Update(plan) | Modify::Delete(plan) => plan.returning.as_ref(),
        }
    }
}

/// MERGE: changes of one table, each of which sees its rows as they were before all of them.
#[derive(Debug)]
pub struct Merge {
    /// The table.
    pub table: Arc<Table>,
    /// The changes, in the order of their clauses.
    pub actions: Vec<Modify>,
}

/// A query of WITH that writes. See the [module documentation](self).
#[derive(Debug)]
pub struct Writing {
    /// Its number in the statement: its rows are read as [`Source::Found`](super::Source::Found).
    pub number: usize,
    /// Its name.
    pub name: String,
    /// The change.
    pub modify: Modify,
}
