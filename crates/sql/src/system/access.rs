//! Owners and rights in system tables.

use super::{DESIGN_ROLE, text};
use crate::array;
use crate::catalog::{Catalog, Name};
use crate::datum::Datum;
use crate::rights::check::acl_of;
use crate::rights::{Acl, Identity, Item, Kind, Object, PUBLIC, READ_ALL_STATS, Rights};
use crate::transaction::Surroundings;
use crate::types::SqlType;

/// Columns of the schema `isomer` whose texts may name keys of any table.
const KEYED: [&str; 8] =
    ["trigger", "change", "reason", "outcome", "considered", "plan", "next", "error"];

/// The rights of the current role, to restrict what it sees.
pub(super) struct Access<'a> {
    catalog: &'a Catalog,
    identity: &'a Identity,
}

impl<'a> Access<'a> {
    pub(super) fn new(catalog: &'a Catalog, around: &'a Surroundings) -> Access<'a> {
        Access { catalog, identity: &around.identity }
    }

    /// The catalog reduced to the relations that the role has rights to.
    pub(super) fn own(&self) -> Catalog {
        let mut own = self.catalog.clone();
        own.tables.retain(|table| self.shows(table.oid, Kind::Table));
        own.views.retain(|view| self.shows(view.oid, Kind::Table));
        own.sequences.retain(|sequence| self.shows(sequence.oid, Kind::Sequence));
        own
    }

    /// True for a role that sees the statements and keys of all others.
    pub(super) fn sees_all(&self) -> bool {
        self.identity.acts_as(DESIGN_ROLE) || self.identity.acts_as(READ_ALL_STATS)
    }

    /// The rows of a view of the schema `isomer` without keys of tables that the role has no rights
    /// to: rows about such a relation are left out, and texts about any table, or about one that is
    /// gone, are NULL.
    pub(super) fn without_keys(
        &self,
        columns: &[(&str, SqlType)],
        mut rows: Vec<Vec<Datum>>,
    ) -> Vec<Vec<Datum>> {
        let at = |name: &str| columns.iter().position(|(column, _)| *column == name);
        let relation = at("relation");
        if let Some(relation) = relation {
            let own = self.own();
            let is_own =
                |label: &str| own.tables.values().any(|it| it.part_labelled(label).is_some());
            rows.retain(|row| row[relation].as_text().is_none_or(is_own));
        }
        let is_own = |row: &[Datum]| relation.is_some_and(|at| !row[at].is_null());
        let keyed: Vec<usize> = KEYED.iter().filter_map(|name| at(name)).collect();
        for row in rows.iter_mut().filter(|row| !is_own(row)) {
            keyed.iter().for_each(|at| row[*at] = Datum::Null);
        }
        rows
    }

    fn shows(&self, relation: u32, kind: Kind) -> bool {
        self.has_any(relation, kind, kind.all())
    }

    /// True if the role may write a table in any way.
    pub(super) fn may_write(&self, table: u32) -> bool {
        self.has_any(table, Kind::Table, Kind::Table.all() - Rights::SELECT)
    }

    /// True if the role may read or write some column of a table, or refer to it.
    pub(super) fn may_use(&self, table: u32) -> bool {
        self.has_any(table, Kind::Table, Kind::Column.all())
    }

    /// True if the role owns a table.
    pub(super) fn owns(&self, table: u32) -> bool {
        self.identity.owns(self.catalog, Object::Relation(table))
    }

    /// True if the role owns a relation, or has any of these rights to it or to one of its columns.
    fn has_any(&self, relation: u32, kind: Kind, rights: Rights) -> bool {
        let (who, object) = (self.identity, Object::Relation(relation));
        let owned = self.catalog.ownership.get(&object);
        let mut columns = owned.iter().flat_map(|owned| owned.columns.keys());
        self.owns(relation)
            || who.rights_to(self.catalog, object, kind).has_any(rights)
            || columns.any(|name| who.rights_to_column(self.catalog, object, name).has_any(rights))
    }

    /// The oid of an owner.
    pub(super) fn owner(&self, object: Object) -> i64 {
        self.identity.owner_of(self.catalog, object).into()
    }

    /// The name of an owner.
    pub(super) fn owner_name(&self, object: Object) -> Datum {
        text(&self.identity.roles().name(self.identity.owner_of(self.catalog, object)))
    }

    /// The access list of an object; NULL if nothing was granted yet.
    pub(super) fn list(&self, object: Object, kind: Kind) -> Datum {
        let owned = self.catalog.ownership.get(&object);
        match owned.is_some_and(|owned| owned.acl.is_none()) {
            true => Datum::Null,
            false => self.shown(&acl_of(self.catalog, object, kind, self.identity.roles())),
        }
    }

    /// The access list of a single column.
    pub(super) fn column(&self, relation: u32, column: &str) -> Datum {
        let owned = self.catalog.ownership.get(&Object::Relation(relation));
        let acl = owned.and_then(|owned| owned.columns.get(column));
        acl.map_or(Datum::Null, |acl| self.shown(acl))
    }

    fn shown(&self, acl: &Acl) -> Datum {
        let items = acl.shown(&|role| self.identity.roles().name(role));
        Datum::Text(array::format(items.iter().map(|item| Some(item.as_str()))))
    }

    /// The rights to all tables and views that the role is grantee or grantor of, and if requested
    /// those that others granted to PUBLIC.
    pub(super) fn to_tables(&self, database: &str, with_public: bool) -> Vec<Vec<Datum>> {
        let relations = self.relations();
        let all = relations.iter().flat_map(|(name, oid)| {
            let object = Object::Relation(*oid);
            let acl = acl_of(self.catalog, object, Kind::Table, self.identity.roles());
            let owner = self.identity.owner_of(self.catalog, object);
            let seen: Vec<Item> =
                acl.items().iter().filter(|one| self.sees(one)).copied().collect();
            let is_own = |one: &Item| one.grantee != PUBLIC || self.identity.acts_as(one.grantor);
            let seen = seen.into_iter().filter(move |one| with_public || is_own(one));
            seen.flat_map(move |item| {
                item.rights.each().map(move |(right, _, word)| {
                    let mut row = self.of_item(&item, database, name);
                    let hierarchy = if right == Rights::SELECT { "YES" } else { "NO" };
                    row.extend([text(word), self.grantable(&item, owner, right), text(hierarchy)]);
                    row
                })
            })
        });
        all.collect()
    }

    /// The rights to columns: those to whole tables, and those to single columns.
    pub(super) fn to_columns(&self, database: &str) -> Vec<Vec<Datum>> {
        let mut rows = Vec::new();
        for (name, oid) in self.relations() {
            let object = Object::Relation(oid);
            let all = acl_of(self.catalog, object, Kind::Table, self.identity.roles());
            let owner = self.identity.owner_of(self.catalog, object);
            let owned = self.catalog.ownership.get(&object);
            for column in self.catalog.column_names(oid) {
                let own = owned.and_then(|owned| owned.columns.get(&column));
                let items = all.items().iter().chain(own.iter().flat_map(|acl| acl.items()));
                for item in items.filter(|item| self.sees(item)) {
                    for (right, _, word) in (item.rights & Kind::Column.all()).each() {
                        let mut row = self.of_item(item, database, &name);
                        row.extend([text(&column), text(word), self.grantable(item, owner, right)]);
                        rows.push(row);
                    }
                }
            }
        }
        rows
    }

    fn relations(&self) -> Vec<(Name, u32)> {
        let tables = self.catalog.tables.iter().map(|(name, table)| (name.clone(), table.oid));
        let views = self.catalog.views.iter().map(|(name, view)| (name.clone(), view.oid));
        tables.chain(views).collect()
    }

    fn sees(&self, item: &Item) -> bool {
        let who = self.identity;
        item.grantee == PUBLIC || who.acts_as(item.grantee) || who.acts_as(item.grantor)
    }

    fn of_item(&self, item: &Item, database: &str, name: &Name) -> Vec<Datum> {
        let roles = self.identity.roles();
        let grantee = match item.grantee {
            PUBLIC => "PUBLIC".to_owned(),
            role => roles.name(role),
        };
        let all = [&roles.name(item.grantor), &grantee, database, &name.schema, &name.name];
        all.map(text).to_vec()
    }

    fn grantable(&self, item: &Item, owner: u32, right: Rights) -> Datum {
        let is = item.options.has(right) || item.grantee == owner;
        text(if is { "YES" } else { "NO" })
    }
}
