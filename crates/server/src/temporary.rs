//! Temporary tables, views and sequences: relations that one session alone knows.
//!
//! Their rows are in tables of the store like any other, which the catalog has as *unused*: so nothing of a session is
//! written to it, and what a crash leaves is dropped at the next start. The session has their definitions, and its
//! statements are compiled for the catalog of all with these ([`isomer_sql::catalog`]). They are made, altered and
//! dropped as parts of transactions, in the same [drafts](crate::draft) as what all sessions see.
//!
//! They are in a schema of their own, which is looked into before all others.
//!
//! Left out: ON COMMIT DELETE ROWS.

use crate::engine::Engine;
use isomer_sql::catalog::{Catalog, PG_CATALOG};
use isomer_sql::rights::{Identity, Kind, Object, Rights};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// See the [module documentation](self). Dropping it drops the tables.
pub(crate) struct Temporaries {
    engine: Arc<Engine>,
    own: RefCell<Arc<Catalog>>,
    /// Where the session looks for names without a schema, whether there are such schemas or not, and whether its role
    /// may use them or not.
    path: RefCell<Arc<[String]>>,
    role: RefCell<Arc<str>>,
    /// The catalog for the session's statements, and the version of that of all in it.
    both: RefCell<Option<(u64, Arc<Catalog>)>>,
    /// The version of the catalog that any role with this path sees as all see it, if that was found out.
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

    /// True if the session sees what all see, in the same way.
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

    /// Where it looks for names without a schema from now on, and for whom.
    pub(crate) fn set_path(&self, path: Arc<[String]>, role: Arc<str>) {
        (*self.path.borrow_mut(), *self.role.borrow_mut()) = (path, role);
        *self.both.borrow_mut() = None;
        self.plain.set(None);
    }

    /// Where it was told to look, and for whom.
    pub(crate) fn told(&self) -> (Arc<[String]>, Arc<str>) {
        (self.path.borrow().clone(), self.role.borrow().clone())
    }

    /// Where it looks, in a catalog: what the role may not use is passed by.
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

    /// The schemas of the path that not everybody may use. Most of the time there are none.
    fn closed(&self, catalog: &Catalog) -> Vec<String> {
        let (path, everybody) = (self.path.borrow(), Identity::default());
        let closed = path.iter().filter(|name| !may_use(catalog, name, &everybody));
        closed.cloned().collect()
    }

    /// The catalog as the session's statements see it, outside of what its transaction has defined.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        if self.is_plain() {
            return self.engine.catalog();
        }
        loop {
            // A definition that comes later has a later version, so that plans for this one are known to be old.
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

    /// Puts what a transaction has made of them in their place.
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
        // Those that cannot be forgotten now are at the next start.
        let numbers: Vec<u32> = own.sequences.values().map(|sequence| sequence.state).collect();
        let _ = self.engine.forget_numbers(numbers);
    }
}
