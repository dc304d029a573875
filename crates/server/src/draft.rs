//! Definitions in a transaction: the pending catalog, which takes effect if the transaction
//! commits.
//!
//! ```text
//!   shared catalog      v7 ──────────────────────────────────────────────▶ v10
//!   of this block       v7 ──CREATE TABLE──▶ v8 ──SAVEPOINT──ALTER──▶ v9    │ COMMIT
//!                                             ▲                       │    │
//!                                             └──────ROLLBACK TO──────┘    │
//!   rows of the catalog                              the difference ───────┘ in the commit itself
//!   store tables        created at once, as unused; dropped if the committed catalog has no use
//! ```
//!
//! A catalog is a value. A definition makes a new one, and a rollback to a savepoint restores an
//! older one. Other sessions see none of them. The commit of the transaction writes the rows of the
//! catalog together with all other rows. So a crash leaves all of a definition or nothing.
//!
//! **Locks.** The transaction holds the *DDL lock* from its first definition to its end, and an
//! exclusive lock on each table that it alters or drops. So a pending catalog begins as a copy of
//! the current one, which no other transaction changes meanwhile. Other definitions wait, and so do
//! writers of such a table.
//!
//! **Between the commit and the publication of the catalog** another transaction may lock such a
//! table with a plan for the old one. It waits until the catalog is published
//! ([`Freshness::Soon`]), and is then refused.
//!
//! The session's [temporary objects](crate::temporary) are in the pending catalog as well. They
//! have no rows in the stored catalog. If a transaction has defined nothing else, other sessions
//! keep their catalog and their plans.
//!
//! Left out: definitions in several blocks at a time.

use crate::backend::{Backend, explain};
use crate::engine::{Engine, Freshness, keep_catalog, tell_catalog};
use crate::temporary::Temporaries;
use isomer_cluster::{Expect, LockMode, OpenTransaction, Ran};
use isomer_design::{Schema, SharedMap, TableId};
use isomer_sql::SqlError;
use isomer_sql::catalog::{Catalog, MadeType, Namespace, Procedure, Table};
use isomer_sql::comment::Topic;
use isomer_sql::rights::{Membership, Object, Owned};
use isomer_sql::sequence::Sequence;
use isomer_sql::statistics::TableStatistics;
use isomer_sql::view::View;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The poll interval of waits for another transaction's commit.
const LOOK: Duration = Duration::from_millis(1);

/// A store table that was created for a definition.
#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) id: TableId,
    pub(crate) schema: Arc<Schema>,
}

/// See the [module documentation](self).
pub(crate) struct Draft {
    engine: Arc<Engine>,
    temporaries: Rc<Temporaries>,
    base: Arc<Catalog>,
    catalog: Arc<Catalog>,
    made: Vec<Made>,
    /// The new sequences' states.
    numbers: Vec<u32>,
}

/// The state of the pending catalog at a savepoint.
#[derive(Clone)]
pub(crate) struct DraftMark {
    catalog: Arc<Catalog>,
    made: usize,
    numbers: usize,
}

impl Draft {
    fn new(engine: Arc<Engine>, temporaries: Rc<Temporaries>) -> Draft {
        let (base, made, numbers) = (temporaries.catalog(), Vec::new(), Vec::new());
        Draft { engine, temporaries, catalog: base.clone(), base, made, numbers }
    }

    pub(crate) fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Registers a new store table: it is dropped again if the committed catalog does not use it.
    pub(crate) fn keep(&mut self, id: TableId, schema: &Arc<Schema>) {
        self.made.push(Made { id, schema: schema.clone() });
    }

    /// Registers the state of a new sequence: it is deleted again if no committed sequence uses it.
    pub(crate) fn keep_numbers(&mut self, state: u32) {
        self.numbers.push(state);
    }

    /// Applies the session's search path.
    pub(crate) fn look_in_path(&mut self) {
        let path = self.temporaries.path(&self.catalog);
        if self.catalog.path != path {
            self.change(|catalog| catalog.path = path);
        }
    }

    /// Makes the next catalog.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Catalog)) {
        let mut catalog = Catalog::clone(&self.catalog);
        change(&mut catalog);
        catalog.forget_since(&self.catalog);
        catalog.version = self.engine.next_version();
        self.catalog = Arc::new(catalog);
    }

    pub(crate) fn mark(&self) -> DraftMark {
        let (made, numbers) = (self.made.len(), self.numbers.len());
        DraftMark { catalog: self.catalog.clone(), made, numbers }
    }

    /// The store tables created since a savepoint, or since the first definition.
    pub(crate) fn made_since(&self, mark: Option<&DraftMark>) -> impl Iterator<Item = TableId> {
        self.made[mark.map_or(0, |mark| mark.made)..].iter().map(|made| made.id)
    }

    pub(crate) fn back_to(&mut self, mark: &DraftMark) {
        self.catalog = mark.catalog.clone();
        self.look_in_path();
        let since = self.made.split_off(mark.made);
        self.engine.forget_made(&since);
        self.forget_numbers(mark.numbers);
    }

    /// Deletes the states of new sequences from index `since` on. Those that cannot be deleted now
    /// are deleted at the next start.
    fn forget_numbers(&mut self, since: usize) {
        let numbers = self.numbers.split_off(since);
        let _ = self.engine.forget_numbers(numbers);
    }

    /// Commits the transaction, publishes the catalog to all sessions, and replaces the session's
    /// temporary objects.
    pub(crate) fn commit(mut self, mut txn: OpenTransaction) -> Result<Option<Ran>, SqlError> {
        let engine = self.engine.clone();
        let ((old, old_own), (all, mut own)) = (self.base.parted(), self.catalog.parted());
        own.end_transaction();
        let difference = Difference::of(&old, &all);
        let table = engine.catalog_table.0;
        for (key, row) in engine.changed_rows(&difference)? {
            txn.put(table, key, Expect::Anything, row).map_err(explain)?;
        }
        let is_for_all = !difference.is_empty();
        let changing = difference.old_parts().map(|(id, _)| id);
        let mut publishing = engine.begin_publishing(changing, is_for_all);
        let kept_catalog = is_for_all.then(|| keep_catalog(&engine));
        let committed = txn.commit().map_err(explain);
        if let Err(error) = committed {
            if error.code == isomer_sql::code::UNKNOWN_OUTCOME {
                // The outcome is unknown and they may be in use; the next start decides.
                self.made.clear();
                self.numbers.clear();
            }
            return Err(error);
        }
        let (kept, own_difference) = (all.with(&own), Difference::of(&old_own, &own));
        // If nothing has changed for other sessions, their plans stay valid.
        let version = match difference.is_empty() {
            true => engine.next_version(),
            false => engine.publish(all),
        };
        drop(kept_catalog);
        self.temporaries.replace(own);
        for difference in [&difference, &own_difference] {
            let used: BTreeSet<TableId> = difference.new_parts().map(|(id, _)| id).collect();
            let gone = difference.old_parts().filter(|(id, _)| !used.contains(id));
            let gone = gone.map(|(id, _)| id);
            engine.former.keep(&old, gone.clone());
            engine.set_dropped(gone);
            for table in difference.old.iter().filter(|table| used.contains(&table.id)) {
                engine.set_redefined(table.id, version);
            }
        }
        if is_for_all {
            let used: BTreeSet<TableId> = difference.new_parts().map(|(id, _)| id).collect();
            let (redefined, dropped) =
                difference.old_parts().map(|(id, _)| id).partition(|id| used.contains(id));
            tell_catalog(&engine, dropped, redefined);
            publishing.is_settled = true;
        }
        drop(publishing);
        for difference in [&difference, &own_difference] {
            let used: BTreeSet<TableId> = difference.new_parts().map(|(id, _)| id).collect();
            let gone = difference.old_parts().filter(|(id, _)| !used.contains(id));
            gone.for_each(|(id, schema)| engine.discard_when_free(id, schema));
        }
        self.made.retain(|made| kept.relation(made.id).is_none());
        let states = |sequences: &[Arc<Sequence>]| -> Vec<u32> {
            sequences.iter().map(|sequence| sequence.state).collect()
        };
        let both = [&difference, &own_difference];
        let used = both.map(|difference| states(&difference.new_sequences)).concat();
        self.numbers.extend(both.map(|difference| states(&difference.old_sequences)).concat());
        self.numbers.retain(|state| !used.contains(state));
        committed
    }
}

/// After a rollback or a commit, drops the created objects that are not in use.
impl Drop for Draft {
    fn drop(&mut self) {
        self.engine.forget_made(&self.made);
        self.forget_numbers(0);
    }
}

/// The difference between two catalogs.
#[derive(Default)]
pub(crate) struct Difference {
    pub(crate) old: Vec<Arc<Table>>,
    pub(crate) new: Vec<Arc<Table>>,
    pub(crate) old_sequences: Vec<Arc<Sequence>>,
    pub(crate) new_sequences: Vec<Arc<Sequence>>,
    pub(crate) old_views: Vec<Arc<View>>,
    pub(crate) new_views: Vec<Arc<View>>,
    /// Schemas that were added, changed or dropped; true if the entry is the new state.
    pub(crate) schemas: Vec<(Arc<Namespace>, bool)>,
    /// User-defined types that were added, changed or dropped; true if the entry is the new state.
    pub(crate) types: Vec<(MadeType, bool)>,
    /// Procedures that were added, changed or dropped, by oid; `None` if dropped.
    pub(crate) procedures: Vec<(u32, Option<Arc<Procedure>>)>,
    /// Changed comments; `None` if dropped.
    pub(crate) comments: Vec<(Topic, Option<Arc<str>>)>,
    /// Statistics that were gathered or dropped, by the table's OID.
    pub(crate) statistics: Vec<(u32, Option<Arc<TableStatistics>>)>,
    /// Changed owners and rights; `None` if dropped.
    pub(crate) ownership: Vec<(Object, Option<Arc<Owned>>)>,
    /// Changed memberships of roles; `None` if revoked.
    pub(crate) members: Vec<((u32, u32), Option<Membership>)>,
}

impl Difference {
    pub(crate) fn of(old: &Catalog, new: &Catalog) -> Difference {
        let comments = changed(&old.comments, &new.comments);
        let statistics = changed(&old.statistics, &new.statistics);
        let procedures = changed(&old.procedures, &new.procedures);
        let schemas = |of: &Catalog, other: &Catalog| -> Vec<Arc<Namespace>> {
            let differs =
                |schema: &&Arc<Namespace>| other.schemas.get(&schema.name) != Some(schema);
            of.schemas.values().filter(differs).cloned().collect()
        };
        // Dropped ones come first, because a recreated one with another oid has to win.
        let went = schemas(old, new).into_iter().map(|schema| (schema, false));
        let came = schemas(new, old).into_iter().map(|schema| (schema, true));
        let schemas = went.chain(came).collect();
        let types = |of: &Catalog, other: &Catalog| -> Vec<MadeType> {
            let enums = of.types.values().filter(|labels| {
                let found = other.types.get(&labels.of.name);
                found.is_none_or(|found| !Arc::ptr_eq(labels, found))
            });
            let domains = of.domains.values().filter(|domain| {
                let found = other.domains.get(&domain.name);
                found.is_none_or(|found| !Arc::ptr_eq(domain, found))
            });
            let domains = domains.cloned().map(MadeType::Domain);
            enums.cloned().map(MadeType::Enum).chain(domains).collect()
        };
        let went = types(old, new).into_iter().map(|made| (made, false));
        let types = went.chain(types(new, old).into_iter().map(|made| (made, true))).collect();
        let (old_sequences, new_sequences) = old.sequences.changed_to(&new.sequences);
        let (old_views, new_views) = old.views.changed_to(&new.views);
        let (ownership, members) =
            (changed(&old.ownership, &new.ownership), changed(&old.members, &new.members));
        let (old, new) = old.tables.changed_to(&new.tables);
        Difference {
            old,
            new,
            old_sequences,
            new_sequences,
            old_views,
            new_views,
            schemas,
            types,
            procedures,
            comments,
            statistics,
            ownership,
            members,
        }
    }

    /// The difference of one replaced table.
    pub(crate) fn one(old: &Arc<Table>, new: &Arc<Table>) -> Difference {
        let (old, new) = (vec![old.clone()], vec![new.clone()]);
        Difference { old, new, ..Difference::default() }
    }

    fn is_empty(&self) -> bool {
        let tables = self.old.is_empty() && self.new.is_empty();
        let sequences = self.old_sequences.is_empty() && self.new_sequences.is_empty();
        let views = self.old_views.is_empty() && self.new_views.is_empty();
        let types = self.schemas.is_empty() && self.types.is_empty();
        let rights = self.ownership.is_empty() && self.members.is_empty();
        tables
            && sequences
            && views
            && types
            && rights
            && self.procedures.is_empty()
            && self.comments.is_empty()
            && self.statistics.is_empty()
    }

    fn old_parts(&self) -> impl Iterator<Item = (TableId, &Arc<Schema>)> + Clone {
        self.old.iter().flat_map(|table| table.parts())
    }

    fn new_parts(&self) -> impl Iterator<Item = (TableId, &Arc<Schema>)> + Clone {
        self.new.iter().flat_map(|table| table.parts())
    }
}

/// The keys with another value in `new`, or with none.
fn changed<K: Ord + Clone, V: PartialEq + Clone>(
    old: &SharedMap<K, V>,
    new: &SharedMap<K, V>,
) -> Vec<(K, Option<V>)> {
    let mut changed = Vec::new();
    old.changes(new, V::eq, |key, _, is| changed.push((key.clone(), is.cloned())));
    changed
}

impl Backend {
    /// Takes the DDL lock until the end of the transaction, and begins the pending catalog.
    pub(crate) fn begin_definition(&mut self) -> Result<(), SqlError> {
        if self.draft.is_some() {
            return Ok(());
        }
        let turn = self.engine.turn()?;
        self.txn.lock(turn.0, &turn.1, LockMode::Exclusive, true).map_err(explain)?;
        while self.engine.is_publishing() {
            self.engine.gateway().pause(&self.cancel, LOOK).map_err(explain)?;
        }
        self.draft = Some(Draft::new(self.engine.clone(), self.temporaries.clone()));
        Ok(())
    }

    /// Locks a table that is about to be redefined: waits for its writers, and blocks new ones.
    pub(crate) fn lock_definition(&mut self, table: &Table) -> Result<(), SqlError> {
        self.check_no_deferred(table)?;
        for (id, _) in table.parts() {
            self.txn
                .lock(id, &isomer_design::Key::min(), LockMode::Exclusive, true)
                .map_err(explain)?;
        }
        self.txn.look_again();
        Ok(())
    }

    /// Refuses a table that was redefined before it was locked.
    pub(crate) fn check_current(&self, table: TableId) -> Result<(), SqlError> {
        match self.is_current(table, self.planned_for)? {
            true => Ok(()),
            false => {
                let message = "the table was dropped or altered while the statement waited";
                Err(SqlError::new(isomer_sql::code::SERIALIZATION, message).hint("Run it again."))
            }
        }
    }

    /// True if a plan for this version of the catalog knows the current table. Waits for a commit
    /// that is about to decide that.
    pub(crate) fn is_current(&self, table: TableId, version: u64) -> Result<bool, SqlError> {
        loop {
            match self.engine.freshness(table, version) {
                Freshness::Current => return Ok(true),
                Freshness::Soon => {
                    self.engine.gateway().pause(&self.cancel, LOOK).map_err(explain)?;
                }
                Freshness::Stale => return Ok(false),
            }
        }
    }
}
