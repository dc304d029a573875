//! The temporary objects of one session: tables with their indexes and sequences, and views.
//!
//! ```text
//!   shared      public.accounts, public.orders     visible to every session
//!   own         pg_temp.picked                     visible to this session only
//!   both        all of these                       the catalog for compiling its statements
//! ```
//!
//! They are in a [schema](super::schema) of their own, which comes first in the search path, unless
//! the path names it.

use super::{Catalog, TEMPORARY, public_path};
use crate::domains::Domain;
use crate::enums::{EnumId, EnumType};
use crate::sequence::Sequence;
use crate::types::SqlType;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The oids of a session's tables that are dropped, or emptied, at the end of the transaction.
pub type ToCommit = BTreeSet<u32>;

impl Catalog {
    /// True if a table or a view is temporary.
    pub fn is_temporary(&self, oid: u32) -> bool {
        let table = self.tables.numbered(oid).map(|table| &*table.schema_name);
        let schema = table.or_else(|| self.views.numbered(oid).map(|view| &*view.schema));
        schema == Some(TEMPORARY)
    }

    /// True if the session has temporary objects.
    pub fn has_own(&self) -> bool {
        self.tables.of_schema(TEMPORARY).next().is_some()
            || self.views.of_schema(TEMPORARY).next().is_some()
            || self.sequences.of_schema(TEMPORARY).next().is_some()
    }

    /// Splits the catalog into the shared part and the temporary part.
    pub fn parted(&self) -> (Catalog, Catalog) {
        let mut all = Catalog { path: public_path(), ..self.clone() };
        let mut own = Catalog { version: self.version, ..Catalog::default() };
        own.tables = all.tables.take_schema(TEMPORARY);
        own.views = all.views.take_schema(TEMPORARY);
        own.sequences = all.sequences.take_schema(TEMPORARY);
        for topic in own.topics() {
            own.comments.extend(all.comments.remove(&topic).map(|said| (topic, said)));
        }
        for object in own.objects().collect::<Vec<_>>() {
            own.ownership.extend(all.ownership.remove(&object).map(|owned| (object, owned)));
        }
        // As its tables have them, until the next definition of the session's own.
        own.types = all.types.clone();
        own.to_commit = std::mem::take(&mut all.to_commit);
        own.to_commit.retain(|oid| own.tables.numbered(*oid).is_some());
        own.emptied = std::mem::take(&mut all.emptied);
        own.emptied.retain(|oid| own.tables.numbered(*oid).is_some());
        (all, own)
    }

    /// The shared catalog combined with temporary objects.
    #[must_use]
    pub fn with(&self, own: &Catalog) -> Catalog {
        let mut both = self.clone();
        both.tables.extend(own.tables.values().cloned());
        both.views.extend(own.views.values().cloned());
        both.sequences.extend(own.sequences.values().cloned());
        both.comments
            .extend(own.comments.iter().map(|(topic, said)| (topic.clone(), said.clone())));
        both.ownership.extend(own.ownership.iter().map(|(object, owned)| (*object, owned.clone())));
        both.to_commit.clone_from(&own.to_commit);
        both.emptied.clone_from(&own.emptied);
        // Other sessions may have changed types that only this session's tables use.
        for now in self.types.values() {
            both.put_in_own(now);
        }
        for now in self.domains.values() {
            let is_older = |then: &Arc<Domain>| then.oid == now.oid && !Arc::ptr_eq(then, now);
            let own = own.tables.values().flat_map(|table| &table.columns);
            let then = own.filter_map(|column| column.domain.clone()).find(is_older);
            if let Some(then) = then {
                both.put_domain(Some(&then), Domain::clone(now));
            }
        }
        both
    }

    /// Replaces an enum by its current version in temporary tables and views.
    fn put_in_own(&mut self, now: &Arc<EnumType>) {
        let is_older = |then: &EnumId| *then == now.id() && !then.is_exactly(now.id());
        let own = self.tables.of_schema(TEMPORARY);
        let of_tables = own.flat_map(|(_, table)| table.columns.iter().map(|column| column.ty));
        let own = self.views.of_schema(TEMPORARY);
        let of_views = own.flat_map(|(_, view)| view.columns.iter().map(|(_, ty)| *ty));
        let older = of_tables.chain(of_views).filter_map(SqlType::labels).find(is_older);
        if let Some(then) = older.and_then(EnumId::known) {
            self.put_type(Some(&then), now.clone());
        }
    }

    /// Drops the tables that end with the transaction, their sequences, and the views of them.
    pub fn end_transaction(&mut self) {
        let before = self.clone();
        let mut gone = std::mem::take(&mut self.to_commit);
        self.tables.retain(|table| !gone.contains(&table.oid));
        let goes = |sequence: &Sequence, gone: &ToCommit| {
            sequence.owner.as_ref().is_some_and(|owner| gone.contains(&owner.table))
        };
        self.sequences.retain(|sequence| !goes(sequence, &gone));
        loop {
            let users = self.views.values();
            let users = users.filter(|view| view.uses.iter().any(|used| gone.contains(&used.oid)));
            let users: Vec<u32> = users.map(|view| view.oid).collect();
            if users.is_empty() {
                break;
            }
            self.views.retain(|view| !users.contains(&view.oid));
            gone.extend(users);
        }
        self.forget_since(&before);
    }
}
