//! What one session alone has in its catalog: temporary tables, with their indexes and the sequences of their columns.
//!
//! ```text
//!   of all      accounts, orders              what every session sees
//!   own         picked                        what this one sees besides
//!   of both     accounts, orders, picked      what its statements are compiled for
//! ```
//!
//! A temporary table is first among those of its name; one that comes later to all sessions is *hidden* from this one.

use super::{Catalog, Table};
use crate::sequence::Sequence;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Which relations of a catalog are one session's own.
#[derive(Clone, Default, Debug)]
pub struct Temporary {
    /// Its tables by their numbers, and whether they go at the end of the transaction.
    tables: BTreeMap<u32, bool>,
    hidden: Vec<Arc<Table>>,
    hidden_sequences: Vec<Arc<Sequence>>,
}

impl Catalog {
    /// True if a table is one session's own.
    pub fn is_temporary(&self, table: u32) -> bool {
        self.temporary.tables.contains_key(&table)
    }

    /// Makes a table one session's own, to the end of the transaction or of the session.
    pub fn set_temporary(&mut self, table: u32, to_commit: bool) {
        self.temporary.tables.insert(table, to_commit);
    }

    /// The catalog of all, and one of what is a session's own.
    pub fn parted(&self) -> (Catalog, Catalog) {
        let (mut all, mut own) =
            (self.clone(), Catalog { version: self.version, ..Catalog::default() });
        all.temporary = Temporary::default();
        own.temporary.tables.clone_from(&self.temporary.tables);
        let is_own = |table: u32| self.temporary.tables.contains_key(&table);
        all.tables.retain(|_, table| !is_own(table.oid));
        all.sequences.retain(|_, sequence| !self.is_own_sequence(sequence));
        let mut hidden = self.temporary.hidden.iter();
        all.tables.extend(hidden.by_ref().map(|table| (table.name.clone(), table.clone())));
        let hidden = self.temporary.hidden_sequences.iter();
        all.sequences.extend(hidden.map(|sequence| (sequence.name.clone(), sequence.clone())));
        own.tables = self.tables.clone();
        own.tables.retain(|_, table| is_own(table.oid));
        own.sequences = self.sequences.clone();
        own.sequences.retain(|_, sequence| self.is_own_sequence(sequence));
        own.comments.clone_from(&self.comments);
        all.forget_comments();
        own.forget_comments();
        let present: Vec<u32> = own.tables.values().map(|table| table.oid).collect();
        own.temporary.tables.retain(|table, _| present.contains(table));
        (all, own)
    }

    fn is_own_sequence(&self, sequence: &Sequence) -> bool {
        sequence.owner.as_ref().is_some_and(|owner| self.is_temporary(owner.table))
    }

    /// The catalog of all with what is a session's own.
    #[must_use]
    pub fn with(&self, own: &Catalog) -> Catalog {
        let mut both = self.clone();
        both.temporary = own.temporary.clone();
        for (name, table) in &own.tables {
            both.temporary.hidden.extend(both.tables.insert(name.clone(), table.clone()));
        }
        for (name, sequence) in &own.sequences {
            let hidden = both.sequences.insert(name.clone(), sequence.clone());
            both.temporary.hidden_sequences.extend(hidden);
        }
        both.comments.extend(own.comments.clone());
        both
    }

    /// Forgets the tables that go at the end of the transaction, and their sequences.
    pub fn end_transaction(&mut self) {
        let goes = |table: u32, of: &Temporary| of.tables.get(&table) == Some(&true);
        let temporary = self.temporary.clone();
        self.tables.retain(|_, table| !goes(table.oid, &temporary));
        self.sequences.retain(|_, sequence| {
            !sequence.owner.as_ref().is_some_and(|owner| goes(owner.table, &temporary))
        });
        self.temporary.tables.retain(|_, to_commit| !*to_commit);
        self.forget_comments();
    }
}
