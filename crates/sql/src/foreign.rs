//! Foreign keys: rows of a table, the *child*, reference rows of another, the *parent*, which must
//! exist.
//!
//! ```text
//!   customers (parent)     orders (child)       foreign key (customer) references customers (id)
//!   id  name               id  customer
//!   7   Kim    ◀────────── 1   7                delete customers 7:  refused, or the orders are
//!   8   Ulm                2   NULL             changed, as the key specifies
//! ```
//!
//! A key is stored with its child, and refers to its parent by oid. So renaming either, or changing
//! the child's layout, does not affect it. The checks and actions of a statement are part of its
//! plan ([`Links`]): the keys of its table (*up*) and the keys that reference it (*down*). The same
//! is there for each table that an action changes in turn.
//!
//! The constraint is one condition for each key and each value of it that was written or removed:
//!
//! ```text
//!   a child has the value  ⇒  a parent has it
//! ```
//!
//! It is checked at the end of the statement, or at commit if the key is deferred. So a check may
//! be repeated or late, but never wrong. `exec/foreign.rs` explains the isolation of checks of
//! concurrent transactions.
//!
//! Left out: SET NULL and SET DEFAULT of some of the columns; MATCH PARTIAL, which PostgreSQL does
//! not have either; writes of embedded callers of the database, which bypass SQL.

mod wanted;

use crate::catalog::{Catalog, Handle, Index, Table, quoted};
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::exec::Hasher;
use crate::expr::Expr;
use crate::plan::RowRules;
use crate::types::{Family, SqlType};
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The action on children when their parent is deleted or gets another key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Refuse at the end of the statement, or later if deferred.
    NoAction,
    /// Refuse at the end of the statement.
    Restrict,
    /// Delete the children, or give them the new key.
    Cascade,
    /// Set the columns to NULL.
    SetNull,
    /// Set the columns to their defaults.
    SetDefault,
}

const ACTIONS: [(Action, char, &str); 5] = [
    (Action::NoAction, 'a', "NO ACTION"),
    (Action::Restrict, 'r', "RESTRICT"),
    (Action::Cascade, 'c', "CASCADE"),
    (Action::SetNull, 'n', "SET NULL"),
    (Action::SetDefault, 'd', "SET DEFAULT"),
];

impl Action {
    /// The letter in `pg_constraint`.
    pub fn letter(self) -> char {
        ACTIONS.iter().find(|known| known.0 == self).expect("all are there").1
    }

    /// The SQL keywords.
    pub fn words(self) -> &'static str {
        ACTIONS.iter().find(|known| known.0 == self).expect("all are there").2
    }

    /// True if it changes children.
    pub fn changes(self) -> bool {
        !matches!(self, Action::NoAction | Action::Restrict)
    }
}

/// A foreign key of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForeignKey {
    /// Its oid.
    pub oid: u32,
    /// Its name, which is unique within the table.
    pub name: String,
    /// The columns of the child.
    pub columns: Vec<usize>,
    /// The oid of the parent.
    pub parent: u32,
    /// The columns of the parent, in the order of `columns`.
    pub referenced: Vec<usize>,
    /// MATCH FULL: all columns are NULL, or none is.
    pub full: bool,
    /// The action when a parent's key changes.
    pub on_update: Action,
    /// The action when a parent is deleted.
    pub on_delete: Action,
    /// True if it is DEFERRABLE.
    pub deferrable: bool,
    /// True if it is INITIALLY DEFERRED.
    pub deferred: bool,
    /// False for NOT VALID: older rows were not checked.
    pub validated: bool,
}

impl ForeignKey {
    /// The definition as `pg_get_constraintdef` shows it.
    pub fn definition(&self, child: &Table, parent: &Table, catalog: &Catalog) -> String {
        let named = |table: &Table, columns: &[usize]| {
            let names = columns.iter().map(|&at| quoted(&table.columns[at].name));
            names.collect::<Vec<_>>().join(", ")
        };
        let mut said = format!(
            "FOREIGN KEY ({}) REFERENCES {}({})",
            named(child, &self.columns),
            catalog.shown(&parent.full_name()),
            named(parent, &self.referenced)
        );
        if self.full {
            said.push_str(" MATCH FULL");
        }
        for (when, action) in [("UPDATE", self.on_update), ("DELETE", self.on_delete)] {
            if action != Action::NoAction {
                said.push_str(&format!(" ON {when} {}", action.words()));
            }
        }
        for (is_so, words) in [
            (self.deferrable, " DEFERRABLE"),
            (self.deferred, " INITIALLY DEFERRED"),
            (!self.validated, " NOT VALID"),
        ] {
            said.push_str(if is_so { words } else { "" });
        }
        said
    }

    /// The stored form, without its name and oid. Columns are counted from 0:
    ///
    /// ```text
    ///   1,2 16384 0,1 s a c n v    columns, parent, its columns, match, on update, on delete,
    ///                              deferrable, valid
    /// ```
    pub fn kept(&self) -> String {
        let numbers = |columns: &[usize]| {
            columns.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
        };
        let deferrable = match (self.deferrable, self.deferred) {
            (_, true) => 'd',
            (true, false) => 'i',
            (false, false) => 'n',
        };
        format!(
            "{} {} {} {} {} {} {deferrable} {}",
            numbers(&self.columns),
            self.parent,
            numbers(&self.referenced),
            if self.full { 'f' } else { 's' },
            self.on_update.letter(),
            self.on_delete.letter(),
            if self.validated { 'v' } else { 'n' },
        )
    }

    /// Parses the [stored](ForeignKey::kept) form.
    pub fn read(name: &str, oid: u32, kept: &str) -> Option<ForeignKey> {
        let words: Vec<&str> = kept.split(' ').collect();
        let [columns, parent, referenced, matches, update, delete, deferrable, valid] = words[..]
        else {
            return None;
        };
        let numbers = |text: &str| -> Option<Vec<usize>> {
            text.split(',').map(|n| n.parse().ok()).collect()
        };
        let action = |letter: &str| {
            let is_it = |known: &&(Action, char, &str)| letter == known.1.to_string();
            ACTIONS.iter().find(is_it).map(|known| known.0)
        };
        Some(ForeignKey {
            oid,
            name: name.to_owned(),
            columns: numbers(columns)?,
            parent: parent.parse().ok()?,
            referenced: numbers(referenced)?,
            full: matches == "f",
            on_update: action(update)?,
            on_delete: action(delete)?,
            deferrable: deferrable != "n",
            deferred: deferrable == "d",
            validated: valid == "v",
        })
    }
}

/// The constraint that makes these columns unique, in any order: `Some(None)` for the primary key,
/// or an index. An index that is being built is used only if there is no other.
pub fn unique_over<'t>(parent: &'t Table, columns: &[usize]) -> Option<Option<&'t Arc<Index>>> {
    let are_these = |other: &[usize]| {
        other.len() == columns.len() && other.iter().all(|at| columns.contains(at))
    };
    if parent.has_key() && are_these(&parent.key) {
        return Some(None);
    }
    let indexes = || parent.indexes.iter().filter(|i| i.is_of_all() && are_these(&i.columns));
    indexes().find(|index| index.readable.is_some()).or(indexes().next()).map(Some)
}

/// True if values of the two types can be equal, so that a foreign key may connect them.
pub fn is_comparable(child: SqlType, parent: SqlType) -> bool {
    let exact = |ty: SqlType| ty.family() == Family::Number && !ty.is_float();
    match (child.family(), parent.family()) {
        // A numeric has values that no integer key has.
        (Family::Number, Family::Number) => {
            exact(child) == exact(parent) && (child.is_integer() || !parent.is_integer())
        }
        (Family::Time, Family::Time) => child == parent,
        // Trailing blanks count for one type and not for the other.
        (Family::Text, Family::Text) => {
            let pads = |ty: SqlType| matches!(ty, SqlType::Char(_));
            pads(child) == pads(parent)
        }
        (child, parent) => child == parent && child != Family::Array,
    }
}

impl Catalog {
    /// The table with this oid.
    pub fn table_of(&self, oid: u32) -> Option<&Arc<Table>> {
        self.tables.numbered(oid)
    }

    /// The foreign keys that reference a table, each with its child.
    pub fn referring(&self, parent: u32) -> impl Iterator<Item = (&Arc<Table>, &Arc<ForeignKey>)> {
        let of = move |key: &&Arc<ForeignKey>| key.parent == parent;
        let tables = self.tables.with(Handle::Parent(parent));
        tables.flat_map(move |table| {
            table.foreign_keys.iter().filter(of).map(move |key| (table, key))
        })
    }

    /// The catalog without foreign keys.
    #[must_use]
    pub fn without_foreign_keys(&self) -> Catalog {
        let mut catalog = self.clone();
        catalog.tables.change(|table| {
            let has_keys = !table.foreign_keys.is_empty();
            has_keys.then(|| Table { foreign_keys: Vec::new(), ..Table::clone(table) })
        });
        catalog
    }
}

/// The foreign key checks and actions of a statement, for each table that it may change, directly
/// or by an action.
#[derive(Clone, Default, Debug)]
pub struct Links {
    /// By the oids of the tables.
    pub tables: BTreeMap<u32, Linked>,
}

/// A table that a statement may change.
#[derive(Clone, Debug)]
pub struct Linked {
    /// The table.
    pub table: Arc<Table>,
    /// The computed columns and constraints for rows that an action changes.
    pub rules: RowRules,
    /// Its keys.
    pub up: Vec<Arc<Link>>,
    /// The keys that reference it.
    pub down: Vec<Arc<Link>>,
}

/// A foreign key, with the lookups of its rows.
#[derive(Clone, Debug)]
pub struct Link {
    /// The key.
    pub key: Arc<ForeignKey>,
    /// The table that has it.
    pub child: Arc<Table>,
    /// The table that it references.
    pub parent: Arc<Table>,
    /// The lookup of children by a value of the key.
    pub to_children: Lookup,
    /// The lookup of the parent.
    pub to_parent: Lookup,
    /// For SET DEFAULT: the defaults of the columns.
    pub defaults: Vec<Expr>,
    /// The version of the catalog of the plan.
    pub version: u64,
}

/// The access path to rows with a value of a foreign key.
#[derive(Clone, Debug)]
pub struct Lookup {
    /// The index to use; otherwise the row key.
    pub index: Option<Arc<Index>>,
    /// For each leading column of the index or row key, the component of the key's value; empty for
    /// a full scan.
    pub places: Vec<usize>,
    /// The columns that have the value.
    pub columns: Vec<usize>,
}

impl Lookup {
    /// The best access path to rows with values in these columns: the one with the most of them as
    /// its leading columns.
    pub fn of(table: &Table, columns: &[usize]) -> Lookup {
        let place = |at: &usize| columns.iter().position(|column| column == at);
        let begins = |with: &[usize]| -> Vec<usize> { with.iter().map_while(place).collect() };
        let own = begins(&table.key_slots());
        let mut best = Lookup { index: None, places: own, columns: columns.to_vec() };
        let whole = table.readable_indexes().filter(|index| index.predicate.is_none());
        for index in table.primary.iter().chain(whole) {
            let places = begins(&index.columns);
            if places.len() > best.places.len() {
                best = Lookup { index: Some(index.clone()), places, ..best };
            }
        }
        best
    }
}

/// The direction of a check.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Side {
    /// A child was written: its parent must exist.
    Child,
    /// A parent was removed: no child may reference it.
    Parent,
}

/// A condition that must hold at the end of a statement, or of a transaction.
#[derive(Clone, Debug)]
pub struct Check {
    /// The key.
    pub link: Arc<Link>,
    /// The direction.
    pub side: Side,
    /// The value of the key.
    pub values: Vec<Datum>,
}

impl Check {
    /// Its approximate memory.
    pub fn bytes(&self) -> usize {
        self.values.iter().map(Datum::bytes).sum::<usize>() + 2 * size_of::<Check>()
    }

    fn order(&self, other: &Check) -> Ordering {
        let by_key = (self.link.key.oid, self.side).cmp(&(other.link.key.oid, other.side));
        let values = self.values.iter().zip(&other.values);
        values.fold(by_key, |order, (a, b)| order.then_with(|| a.order(b)))
    }
}

/// Pending checks without duplicates.
#[derive(Default, Debug)]
pub struct Checks {
    checks: HashMap<(u32, Side, Vec<Datum>), Arc<Link>, Hasher>,
    bytes: usize,
}

impl Checks {
    /// Adds a check.
    pub fn add(&mut self, check: Check) {
        let bytes = check.bytes();
        let Check { link, side, values } = check;
        if self.checks.insert((link.key.oid, side, values), link).is_none() {
            self.bytes += bytes;
        }
    }

    /// Their approximate memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes all checks, sorted by key and value, so that concurrent transactions take locks in the
    /// same order.
    pub fn take(&mut self) -> Vec<Check> {
        self.bytes = 0;
        let checks = std::mem::take(&mut self.checks).into_iter();
        let check = |((_, side, values), link)| Check { link, side, values };
        let mut checks: Vec<Check> = checks.map(check).collect();
        checks.sort_by(Check::order);
        checks
    }
}

impl Link {
    /// 23503: the child references a parent that does not exist.
    pub(crate) fn missing(&self, values: &[Datum]) -> SqlError {
        let shown = shown(&self.child, &self.key.columns, values);
        let detail = format!("Key {shown} is not present in table \"{}\".", self.parent.name);
        self.broken_by_child().detail(detail)
    }

    /// 23503: some of the child's columns are NULL and some are not.
    pub(crate) fn mixed(&self) -> SqlError {
        let detail = "MATCH FULL does not allow mixing of null and nonnull key values.";
        self.broken_by_child().detail(detail)
    }

    fn broken_by_child(&self) -> SqlError {
        let message = format!(
            "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
            self.child.name, self.key.name
        );
        SqlError::new(code::FOREIGN_KEY_VIOLATION, message).about(
            &self.child.schema_name,
            &self.child.name,
            &self.key.name,
        )
    }

    /// 23503: children reference the removed parent.
    pub(crate) fn referenced(&self, values: &[Datum]) -> SqlError {
        let message = format!(
            "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{}\"",
            self.parent.name, self.key.name, self.child.name
        );
        let shown = shown(&self.parent, &self.key.referenced, values);
        let detail = format!("Key {shown} is still referenced from table \"{}\".", self.child.name);
        SqlError::new(code::FOREIGN_KEY_VIOLATION, message).detail(detail).about(
            &self.child.schema_name,
            &self.child.name,
            &self.key.name,
        )
    }
}

/// A value of a key in the notation of error messages.
pub fn shown(table: &Table, columns: &[usize], values: &[Datum]) -> String {
    let names: Vec<&str> = columns.iter().map(|&at| table.columns[at].name.as_str()).collect();
    let values = columns.iter().zip(values);
    let shown = values.map(|(&at, value)| crate::text::format(value, table.columns[at].ty));
    format!("({})=({})", names.join(", "), shown.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_foreign_key_is_read_back() {
        let key = ForeignKey {
            oid: 16_390,
            name: "a b".to_owned(),
            columns: vec![2, 0],
            parent: 16_384,
            referenced: vec![0, 7],
            full: true,
            on_update: Action::Restrict,
            on_delete: Action::SetNull,
            deferrable: true,
            deferred: false,
            validated: false,
        };
        assert_eq!(key.kept(), "2,0 16384 0,7 f r n i n");
        for deferred in [false, true] {
            let key = ForeignKey { deferred, validated: deferred, ..key.clone() };
            assert_eq!(ForeignKey::read("a b", 16_390, &key.kept()), Some(key));
        }
        for damaged in ["", "1 2 3", "x 1 0 s a a n v", "1 1 0 s a z n v"] {
            assert_eq!(ForeignKey::read("k", 1, damaged), None, "{damaged}");
        }
    }
}
