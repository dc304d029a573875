//! The foreign key checks and actions of a statement.
//!
//! ```text
//!   delete from customers    down: orders.customer → customers   ON DELETE CASCADE deletes orders,
//!                                 down: lines.order → orders     and so on
//! ```
//!
//! A plan contains only the keys that the statement can affect: an UPDATE that sets none of a key's
//! columns does not contain the key. Tables that actions change contain all of their keys, because
//! the set columns are known at run time only.

use super::Binder;
use crate::catalog::Table;
use crate::error::{SqlError, code};
use crate::foreign::{Action, ForeignKey, Link, Linked, Links, Lookup, unique_over};
use crate::plan::RowRules;
use crate::transaction::LockKind;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The effect of a statement on its table.
pub(super) enum Event<'e> {
    /// New rows; with ON CONFLICT DO UPDATE, the columns that are set in existing rows.
    Insert(Option<&'e [usize]>),
    /// The columns that are set.
    Update(&'e [usize]),
    Delete,
}

/// The planned links, by the oids of their keys.
type Planned = BTreeMap<u32, Arc<Link>>;

impl Binder<'_> {
    /// The foreign key links of a statement, or `None`, which is the common case.
    pub(super) fn links(
        &mut self,
        table: &Arc<Table>,
        event: Event<'_>,
    ) -> Result<Option<Arc<Links>>, SqlError> {
        let touches = |set: &[usize], columns: &[usize]| columns.iter().any(|at| set.contains(at));
        let up = |key: &ForeignKey| match event {
            Event::Insert(_) => true,
            Event::Update(set) => touches(set, &key.columns),
            Event::Delete => false,
        };
        let down = |key: &ForeignKey| match event {
            Event::Insert(set) => set.is_some_and(|set| touches(set, &key.referenced)),
            Event::Update(set) => touches(set, &key.referenced),
            Event::Delete => true,
        };
        let (mut links, mut planned) = (Links::default(), Planned::new());
        let own = self.linked(table, &mut planned, &up, &down)?;
        if own.up.is_empty() && own.down.is_empty() {
            return Ok(None);
        }
        if self.catalog.is_of_earlier {
            // Other transactions lock the rows in their new layout.
            let message = "a table was sharded anew after what the transaction sees";
            let hint = "Run the transaction again.";
            return Err(SqlError::new(code::SERIALIZATION, message).hint(hint));
        }
        self.follow(&own, &mut links, &mut planned)?;
        links.tables.entry(table.oid).or_insert(own);
        Ok(Some(Arc::new(links)))
    }

    /// Adds the tables that actions of these keys change, transitively.
    fn follow(
        &mut self,
        from: &Linked,
        links: &mut Links,
        planned: &mut Planned,
    ) -> Result<(), SqlError> {
        let acts = |link: &&Arc<Link>| link.key.on_delete.changes() || link.key.on_update.changes();
        for link in from.down.iter().filter(acts) {
            if links.tables.contains_key(&link.child.oid) {
                continue;
            }
            let child = self.linked(&link.child, planned, &|_| true, &|_| true)?;
            links.tables.insert(link.child.oid, child.clone());
            self.budget.deeper()?;
            self.follow(&child, links, planned)?;
        }
        Ok(())
    }

    fn linked(
        &mut self,
        table: &Arc<Table>,
        planned: &mut Planned,
        wants_up: &dyn Fn(&ForeignKey) -> bool,
        wants_down: &dyn Fn(&ForeignKey) -> bool,
    ) -> Result<Linked, SqlError> {
        let mut linked = Linked {
            table: table.clone(),
            rules: RowRules::default(),
            up: Vec::new(),
            down: Vec::new(),
        };
        for key in table.foreign_keys.iter().filter(|key| wants_up(key)) {
            linked.up.push(self.link(table, key, planned)?);
        }
        let catalog = self.catalog;
        for (child, key) in catalog.referring(table.oid).filter(|(_, key)| wants_down(key)) {
            linked.down.push(self.link(child, key, planned)?);
        }
        if !linked.up.is_empty() || !linked.down.is_empty() {
            linked.rules = self.rules(table)?;
        }
        Ok(linked)
    }

    fn link(
        &mut self,
        child: &Arc<Table>,
        key: &Arc<ForeignKey>,
        planned: &mut Planned,
    ) -> Result<Arc<Link>, SqlError> {
        if let Some(link) = planned.get(&key.oid) {
            return Ok(link.clone());
        }
        let parent = self.catalog.table_of(key.parent);
        let unique =
            parent.and_then(|parent| Some((parent, unique_over(parent, &key.referenced)?)));
        let (parent, index) = unique.ok_or_else(|| {
            let message = format!("what foreign key \"{}\" refers to is not there", key.name);
            SqlError::new(code::INTERNAL, message)
        })?;
        let index = index.or(parent.primary.as_ref());
        let unique = index.map_or_else(|| parent.key_slots(), |index| index.columns.clone());
        let place = |at: &usize| key.referenced.iter().position(|column| column == at);
        let to_parent = Lookup {
            index: index.cloned(),
            places: unique.iter().filter_map(place).collect(),
            columns: key.referenced.clone(),
        };
        let mut defaults = Vec::new();
        if [key.on_delete, key.on_update].contains(&Action::SetDefault) {
            for &at in &key.columns {
                defaults.push(self.default_of(child, at)?);
            }
        }
        self.budget.charge(size_of::<Link>() + 256)?;
        let link = Arc::new(Link {
            key: key.clone(),
            child: child.clone(),
            parent: parent.clone(),
            to_children: Lookup::of(child, &key.columns),
            to_parent,
            defaults,
            version: self.catalog.version,
        });
        planned.insert(key.oid, link.clone());
        Ok(link)
    }

    /// The row lock of an UPDATE. It is weaker if no column of a key is set, so that rows of other
    /// tables can meanwhile reference the row.
    pub(super) fn lock_of(&self, table: &Table, set: &[usize]) -> LockKind {
        let mut keys = table.indexes.iter().filter(|index| index.is_of_all()).map(|i| &i.columns);
        let sets_key = table.key_slots().iter().any(|at| set.contains(at))
            || keys.any(|columns| columns.iter().any(|at| set.contains(at)));
        if sets_key { LockKind::Deletion } else { LockKind::NoKeyUpdate }
    }
}
