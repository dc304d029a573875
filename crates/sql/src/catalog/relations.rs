//! Relations of one kind, indexed by name and by other attributes.
//!
//! Versions of a catalog [share](SharedMap) their common part, so the cost of a definition depends
//! on its changes and not on the number of relations. The same holds for lookups by anything but
//! the name, for example of an index by its name or of the children of a table. They use a
//! [`Handle`].

use super::{Name, Table};
use crate::sequence::Sequence;
use crate::view::View;
use isomer_design::{SharedMap, TableId};
use std::ops::Deref;
use std::sync::Arc;

/// An attribute, other than the name, by which relations are found.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Handle {
    /// Its oid.
    Oid(u32),
    /// The id of a store table that belongs to it: its rows, or an index.
    Part(TableId),
    /// The name of one of its indexes, or of its primary key.
    Index(Name),
    /// The oid of a table that it references by a foreign key.
    Parent(u32),
    /// The oid of the table that owns it, for a sequence.
    Owner(u32),
    /// It has two layouts.
    Beside,
}

/// A kind of relation.
pub trait Kind {
    /// Its full name.
    fn full_name(&self) -> Name;

    /// The attributes by which it is found.
    fn handles(&self) -> Vec<Handle>;
}

impl Kind for Table {
    fn full_name(&self) -> Name {
        Table::full_name(self)
    }

    fn handles(&self) -> Vec<Handle> {
        let named = |name: &str| Handle::Index(Name { name: name.to_owned(), ..self.full_name() });
        let mut handles = vec![Handle::Oid(self.oid)];
        handles.extend(self.parts().map(|(id, _)| Handle::Part(id)));
        handles.extend(self.indexes.iter().map(|index| named(&index.name)));
        handles.extend(self.has_key().then(|| named(&self.key_name)));
        handles.extend(self.foreign_keys.iter().map(|key| Handle::Parent(key.parent)));
        handles.extend(self.beside.is_some().then_some(Handle::Beside));
        handles
    }
}

impl Kind for View {
    fn full_name(&self) -> Name {
        View::full_name(self)
    }

    fn handles(&self) -> Vec<Handle> {
        vec![Handle::Oid(self.oid)]
    }
}

impl Kind for Sequence {
    fn full_name(&self) -> Name {
        Sequence::full_name(self)
    }

    fn handles(&self) -> Vec<Handle> {
        let owner = self.owner.as_ref().map(|owner| Handle::Owner(owner.table));
        [Handle::Oid(self.oid)].into_iter().chain(owner).collect()
    }
}

/// See the [module documentation](self). Dereferences to a map by names.
#[derive(Debug)]
pub struct Relations<R> {
    by_name: SharedMap<Name, Arc<R>>,
    by_handle: SharedMap<(Handle, Name), ()>,
}

impl<R> Deref for Relations<R> {
    type Target = SharedMap<Name, Arc<R>>;

    fn deref(&self) -> &SharedMap<Name, Arc<R>> {
        &self.by_name
    }
}

impl<R: Kind> Relations<R> {
    /// The relations with a handle, by name.
    pub fn with(&self, handle: Handle) -> impl Iterator<Item = &Arc<R>> {
        let first = Name { schema: String::new(), name: String::new() };
        let found = self.by_handle.from(&(handle.clone(), first));
        let found = found.take_while(move |((other, _), ())| *other == handle);
        found.filter_map(|((_, name), ())| self.by_name.get(name))
    }

    /// The relation with this oid.
    pub fn numbered(&self, oid: u32) -> Option<&Arc<R>> {
        self.with(Handle::Oid(oid)).next()
    }

    /// The relations of a schema, by name.
    pub fn of_schema<'a>(
        &'a self,
        schema: &'a str,
    ) -> impl Iterator<Item = (&'a Name, &'a Arc<R>)> {
        let first = Name { schema: schema.to_owned(), name: String::new() };
        self.by_name.from(&first).take_while(move |(name, _)| name.schema == schema)
    }

    /// Inserts a relation.
    pub fn insert(&mut self, relation: Arc<R>) {
        let name = relation.full_name();
        self.remove(&name);
        let handles = relation.handles().into_iter();
        self.by_handle.extend(handles.map(|handle| ((handle, name.clone()), ())));
        self.by_name.insert(name, relation);
    }

    /// Removes the relation with this name.
    pub fn remove(&mut self, name: &Name) -> Option<Arc<R>> {
        let removed = self.by_name.remove(name)?;
        for handle in removed.handles() {
            self.by_handle.remove(&(handle, name.clone()));
        }
        Some(removed)
    }

    /// Keeps the relations for which `stays` is true.
    pub fn retain(&mut self, mut stays: impl FnMut(&R) -> bool) {
        let goes = self.by_name.iter().filter(|(_, relation)| !stays(relation));
        let goes: Vec<Name> = goes.map(|(name, _)| name.clone()).collect();
        goes.iter().for_each(|name| drop(self.remove(name)));
    }

    /// Replaces relations by changed ones of the same name.
    pub fn change(&mut self, change: impl FnMut(&Arc<R>) -> Option<R>) {
        let changed: Vec<R> = self.by_name.values().filter_map(change).collect();
        changed.into_iter().for_each(|relation| self.insert(Arc::new(relation)));
    }

    /// Removes and returns the relations of a schema.
    pub fn take_schema(&mut self, schema: &str) -> Relations<R> {
        let mut taken = Relations::default();
        for name in self.of_schema(schema).map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.remove(&name).into_iter().for_each(|relation| taken.insert(relation));
        }
        taken
    }

    /// The relations that differ between two versions: the old ones, and the new ones.
    pub fn changed_to(&self, newer: &Relations<R>) -> (Vec<Arc<R>>, Vec<Arc<R>>) {
        let (mut old, mut new) = (Vec::new(), Vec::new());
        self.by_name.changes(&newer.by_name, Arc::ptr_eq, |_, was, is| {
            old.extend(was.cloned());
            new.extend(is.cloned());
        });
        (old, new)
    }
}

impl<R: Kind> Extend<Arc<R>> for Relations<R> {
    fn extend<I: IntoIterator<Item = Arc<R>>>(&mut self, relations: I) {
        relations.into_iter().for_each(|relation| self.insert(relation));
    }
}

impl<R> Clone for Relations<R> {
    fn clone(&self) -> Relations<R> {
        Relations { by_name: self.by_name.clone(), by_handle: self.by_handle.clone() }
    }
}

impl<R> Default for Relations<R> {
    fn default() -> Relations<R> {
        Relations { by_name: SharedMap::new(), by_handle: SharedMap::new() }
    }
}
