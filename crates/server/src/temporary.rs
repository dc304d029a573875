//! Temporary tables, views and sequences: relations that only one session knows.
//!
//! Their rows are in ordinary store tables, which the stored catalog marks as *unused*. So a
//! session writes nothing to the catalog, and leftovers of a crash are dropped at the next start.
//! The session has their definitions, and its statements are compiled for the shared catalog
//! combined with them ([`isomer_sql::catalog`]). They are created, altered and dropped
//! transactionally, in the same [pending catalog](crate::draft) as shared objects.
//!
//! They are in a schema of their own, which is searched before all others.
//!
//! A table with ON COMMIT DELETE ROWS has rows in an open transaction only. So a commit leaves out
//! all writes of the table and its indexes.

use crate::engine::Engine;
use isomer_sql::catalog::{Catalog, PG_CATALOG};
use isomer_sql::rights::{Identity, Kind, Object, Rights};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// See the [module documentation](self). Dropping it drops the tables.
pub(crate) struct Temporaries {
    engine: Arc<Engine>,
    own: RefCell<Arc<Catalog>>,
    /// The session's search path, including schemas that do not exist or that its role may not use.
    path: RefCell<Arc<[String]>>,
    role: RefCell<Arc<str>>,
    /// The combined catalog, and the version of the shared one in it.
    both: RefCell<Option<(u64, Arc<Catalog>)>>,
    /// The version of the shared catalog that the session sees unchanged, if that is known.
    plain: Cell<Option<u64>>,
}

impl Temporaries {
    pub(crate) fn new(engine: Arc<Engine>) -> Temporaries {
        let path = RefCell::new(isomer_sql::catalog::public_path());
        let (own, role, both, plain) = Default::default();
        Temporaries { engine, own, path, role, both, plain }
    }

    /// True if there are none.
    pub(crate) fn is_empty(&self) -> bool {
        !self.own.borrow().has_own()
    }

    /// True if the session sees the shared catalog unchanged.
    pub(crate) fn is_plain(&self) -> bool {
        let all = self.engine.catalog();
        if self.plain.get() == Some(all.version) {
            return true;
        }
        let path = self.path.borrow();
        let there = path.iter().filter(|schema| all.has_schema(schema) || *schema == PG_CATALOG);
        if !self.is_empty() || !there.eq(all.path.iter()) {
            return false;
        }
        if self.closed(&all).is_empty() {
            self.plain.set(Some(all.version));
            return true;
        }
        self.unusable(&all).is_none()
    }

    /// Sets the search path and the role.
    pub(crate) fn set_path(&self, path: Arc<[String]>, role: Arc<str>) {
        (*self.path.borrow_mut(), *self.role.borrow_mut()) = (path, role);
        *self.both.borrow_mut() = None;
        self.plain.set(None);
    }

    /// The search path and the role as they were set.
    pub(crate) fn told(&self) -> (Arc<[String]>, Arc<str>) {
        (self.path.borrow().clone(), self.role.borrow().clone())
    }

    /// The effective search path under a catalog, without schemas that the role may not use.
    pub(crate) fn path(&self, catalog: &Catalog) -> Arc<[String]> {
        let path = self.path.borrow().clone();
        match self.unusable(catalog) {
            None => path,
            Some(unusable) => {
                path.iter().filter(|name| !unusable.contains(name)).cloned().collect()
            }
        }
    }

    /// The schemas of the path that the role may not use, if there are any.
    fn unusable(&self, catalog: &Catalog) -> Option<Vec<String>> {
        let mut closed = self.closed(catalog);
        if closed.is_empty() {
            return None;
        }
        let who = Identity::of(&self.role.borrow(), &self.engine.roles(), &catalog.members);
        closed.retain(|name| !may_use(catalog, name, &who));
        Some(closed).filter(|closed| !closed.is_empty())
    }

    /// The schemas of the path that are not open to every role. Usually there are none.
    fn closed(&self, catalog: &Catalog) -> Vec<String> {
        let (path, everybody) = (self.path.borrow(), Identity::default());
        let closed = path.iter().filter(|name| !may_use(catalog, name, &everybody));
        closed.cloned().collect()
    }

    /// The catalog as the session's statements see it, without definitions of its open transaction.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        if self.is_plain() {
            return self.engine.catalog();
        }
        loop {
            // Taken before the catalog is read, so a later definition gets a later version, and
            // plans for this one become stale.
            let version = self.engine.next_version();
            let all = self.engine.catalog();
            if let Some((of, both)) = &*self.both.borrow()
                && *of == all.version
            {
                return both.clone();
            }
            if all.version < version {
                let path = self.path(&all);
                let both = Catalog { version, path, ..all.with(&self.own.borrow()) };
                let both = Arc::new(both);
                *self.both.borrow_mut() = Some((all.version, both.clone()));
                return both;
            }
        }
    }

    /// Replaces the temporary relations by those of a committed transaction.
    pub(crate) fn replace(&self, own: Catalog) {
        *self.own.borrow_mut() = Arc::new(own);
        *self.both.borrow_mut() = None;
        self.plain.set(None);
    }
}

fn may_use(catalog: &Catalog, schema: &str, who: &Identity) -> bool {
    catalog.schemas.get(schema).is_none_or(|schema| {
        let object = Object::Schema(schema.oid);
        who.rights_to(catalog, object, Kind::Schema).has(Rights::USAGE)
    })
}

impl Drop for Temporaries {
    fn drop(&mut self) {
        let own = self.own.borrow();
        for (id, schema) in own.tables.values().flat_map(|table| table.parts()) {
            self.engine.discard_when_free(id, schema);
        }
        // Sequence states that cannot be deleted now are deleted at the next start.
        let numbers: Vec<u32> = own.sequences.values().map(|sequence| sequence.state).collect();
        let _ = self.engine.forget_numbers(numbers);
    }
}
