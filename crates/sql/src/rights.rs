//! Rights: the operations that a role may do with a relation or a schema, and the owners of these.
//!
//! ```text
//!   grant select on t to bob with grant option        by ann, the owner
//!   grant select on t to public                       by bob
//!
//!   owner   ann
//!   acl     ann=arwdDxt/ann    bob=r*/ann    =r/bob
//!          ───┬── ───┬─── ─┬─         an item: the grantee (empty for PUBLIC), the rights (with a
//!          grantee  rights grantor    star: with grant option), and the grantor
//! ```
//!
//! | module | contents |
//! | --- | --- |
//! | [`acl`] | items: granting, revoking with dependent grants, another owner; as text |
//! | [`check`] | the rights of a session, and checks against them |
//!
//! They are in the [catalog](crate::catalog), keyed by the oid of the object. So a new name does
//! not affect them, and changes of rights are part of transactions. A plan is for one version of
//! the catalog, so it need be checked only once for a role.
//!
//! **Objects without an owner** were made before there were rights, when every role could do
//! everything. They belong to the first superuser, and PUBLIC has all rights to them, until that is
//! changed.
//!
//! **Invariants.** An owner can grant rights even if they were revoked from him. The grantor of an
//! item is the owner, or has a grant option for the granted rights. So revoking an option also
//! revokes the grants that rely on it, or is refused.

pub mod acl;
pub mod check;

use crate::catalog::Catalog;
pub use acl::{Acl, Item};
pub use check::{Identity, Need, READ_ALL_STATS, Role, Roles, SIGNAL_BACKEND};
use isomer_design::{ColumnType, SharedMap, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{BitAnd, BitOr, Sub};
use std::sync::Arc;

/// The pseudo-role PUBLIC, in place of a role's oid.
pub const PUBLIC: u32 = 0;

/// A set of rights.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Rights(u16);

/// All rights: the letter of each in the text of an item, and its keyword.
const ALL: [(char, &str); 10] = [
    ('a', "INSERT"),
    ('r', "SELECT"),
    ('w', "UPDATE"),
    ('d', "DELETE"),
    ('D', "TRUNCATE"),
    ('x', "REFERENCES"),
    ('t', "TRIGGER"),
    ('U', "USAGE"),
    ('C', "CREATE"),
    ('X', "EXECUTE"),
];

#[allow(missing_docs, reason = "they are what SQL calls so")]
impl Rights {
    pub const NONE: Rights = Rights(0);
    pub const INSERT: Rights = Rights(1);
    pub const SELECT: Rights = Rights(1 << 1);
    pub const UPDATE: Rights = Rights(1 << 2);
    pub const DELETE: Rights = Rights(1 << 3);
    pub const TRUNCATE: Rights = Rights(1 << 4);
    pub const REFERENCES: Rights = Rights(1 << 5);
    pub const TRIGGER: Rights = Rights(1 << 6);
    pub const USAGE: Rights = Rights(1 << 7);
    pub const CREATE: Rights = Rights(1 << 8);
    pub const EXECUTE: Rights = Rights(1 << 9);
}

impl Rights {
    /// The right with a name, in upper or lower case.
    pub fn named(word: &str) -> Option<Rights> {
        let at = ALL.iter().position(|(_, name)| name.eq_ignore_ascii_case(word))?;
        Some(Rights(1 << at))
    }

    /// Each of them, with its letter and its keyword.
    pub fn each(self) -> impl Iterator<Item = (Rights, char, &'static str)> {
        let all =
            ALL.iter().enumerate().map(|(at, (letter, word))| (Rights(1 << at), *letter, *word));
        all.filter(move |(right, ..)| self.has(*right))
    }

    /// True if all of these are in the set.
    pub fn has(self, all: Rights) -> bool {
        self & all == all
    }

    /// True if at least one of these is in the set.
    pub fn has_any(self, any: Rights) -> bool {
        self & any != Rights::NONE
    }
}

impl BitOr for Rights {
    type Output = Rights;

    fn bitor(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }
}

impl BitAnd for Rights {
    type Output = Rights;

    fn bitand(self, other: Rights) -> Rights {
        Rights(self.0 & other.0)
    }
}

impl Sub for Rights {
    type Output = Rights;

    fn sub(self, other: Rights) -> Rights {
        Rights(self.0 & !other.0)
    }
}

/// The kind of an object that rights apply to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A table or a view.
    Table,
    /// A column of one.
    Column,
    /// A sequence.
    Sequence,
    /// A schema.
    Schema,
    /// A type.
    Type,
    /// A procedure.
    Procedure,
}

impl Kind {
    /// The rights that apply to it.
    pub fn all(self) -> Rights {
        match self {
            // INSERT to TRIGGER.
            Kind::Table => Rights(0x7f),
            Kind::Column => Rights::INSERT | Rights::SELECT | Rights::UPDATE | Rights::REFERENCES,
            Kind::Sequence => Rights::SELECT | Rights::UPDATE | Rights::USAGE,
            Kind::Schema => Rights::USAGE | Rights::CREATE,
            Kind::Type => Rights::USAGE,
            Kind::Procedure => Rights::EXECUTE,
        }
    }

    /// The rights of PUBLIC without a grant.
    pub fn of_everybody(self) -> Rights {
        match self {
            Kind::Type => Rights::USAGE,
            Kind::Procedure => Rights::EXECUTE,
            _ => Rights::NONE,
        }
    }
}

/// An object with an owner. In all databases, oids of schemas and types are distinct from those of
/// relations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Object {
    /// A table, a view or a sequence.
    Relation(u32),
    /// A schema.
    Schema(u32),
    /// A type.
    Type(u32),
    /// A procedure.
    Procedure(u32),
}

/// The owner of an object, and the rights of others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owned {
    /// The oid of the role.
    pub owner: u32,
    /// `None`: nothing was granted or revoked yet.
    pub acl: Option<Acl>,
    /// Rights to single columns, by column name.
    pub columns: BTreeMap<String, Acl>,
}

/// All owned objects.
pub type Ownership = SharedMap<Object, Arc<Owned>>;

/// Memberships, by role and member.
pub type Members = SharedMap<(u32, u32), Membership>;

/// The membership of a role in another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Membership {
    /// The role that granted it.
    pub grantor: u32,
    /// WITH ADMIN OPTION.
    pub is_admin: bool,
}

impl Owned {
    /// An object with a new owner.
    pub fn by(owner: u32) -> Owned {
        Owned { owner, acl: None, columns: BTreeMap::new() }
    }

    /// The granted rights; the owner's default rights before the first grant.
    pub fn list(&self, kind: Kind) -> Acl {
        self.acl.clone().unwrap_or_else(|| Acl::of_owner(kind, self.owner))
    }

    /// Changes the owner: the old owner's rights and grants become the new one's.
    pub fn hand_over(&mut self, to: u32) {
        let from = std::mem::replace(&mut self.owner, to);
        self.acl
            .iter_mut()
            .chain(self.columns.values_mut())
            .for_each(|acl| acl.hand_over(from, to));
    }

    /// True if a role is a grantee or a grantor of it.
    pub fn mentions(&self, role: u32) -> bool {
        self.acl.iter().chain(self.columns.values()).any(|acl| acl.mentions(role))
    }

    /// The stored form without the owner, a line for each list.
    ///
    /// ```text
    ///   all <tab> 10=arwdDxt/10,16390=r*/10
    ///   column <tab> 'name' <tab> 16391=w/10
    /// ```
    pub fn kept(&self) -> String {
        let all = self.acl.iter().map(|acl| format!("all\t{}", acl.kept()));
        let columns = self.columns.iter().map(|(name, acl)| {
            let name = ColumnType::Text.format(&Value::from(name.as_str()));
            format!("column\t{name}\t{}", acl.kept())
        });
        all.chain(columns).collect::<Vec<_>>().join("\n")
    }

    /// Reads the [stored form](Owned::kept).
    pub fn read(owner: u32, kept: &str) -> Option<Owned> {
        let mut owned = Owned::by(owner);
        for line in kept.lines() {
            match line.split('\t').collect::<Vec<_>>()[..] {
                ["all", acl] => owned.acl = Some(Acl::read(acl)?),
                ["column", name, acl] => {
                    let Value::Text(name) = ColumnType::Text.parse(name)? else { return None };
                    owned.columns.insert(name.to_string(), Acl::read(acl)?);
                }
                _ => return None,
            }
        }
        Some(owned)
    }
}

impl Object {
    /// The key in the stored catalog.
    pub fn kept(self) -> String {
        match self {
            Object::Relation(oid) => format!("relation {oid}"),
            Object::Schema(oid) => format!("schema {oid}"),
            Object::Type(oid) => format!("type {oid}"),
            Object::Procedure(oid) => format!("procedure {oid}"),
        }
    }

    /// Reads the [stored form](Object::kept).
    pub fn read(kept: &str) -> Option<Object> {
        let (kind, oid) = kept.split_once(' ')?;
        let oid = oid.parse().ok()?;
        match kind {
            "relation" => Some(Object::Relation(oid)),
            "schema" => Some(Object::Schema(oid)),
            "type" => Some(Object::Type(oid)),
            "procedure" => Some(Object::Procedure(oid)),
            _ => None,
        }
    }
}

impl Catalog {
    /// All objects that have an owner.
    pub fn objects(&self) -> impl Iterator<Item = Object> {
        let tables = self.tables.values().map(|table| table.oid);
        let views = self.views.values().map(|view| view.oid);
        let sequences = self.sequences.values().map(|sequence| sequence.oid);
        let relations = tables.chain(views).chain(sequences).map(Object::Relation);
        let schemas = self.schemas.values().map(|schema| Object::Schema(schema.oid));
        let types = self.types.values().map(|labels| Object::Type(labels.of.oid));
        let domains = self.domains.values().map(|domain| Object::Type(domain.oid));
        let procedures = self.procedures.keys().map(|oid| Object::Procedure(*oid));
        relations.chain(schemas).chain(types).chain(domains).chain(procedures)
    }

    /// Sets the owner of new objects: the role that made them, or for the sequence of a column the
    /// owner of the table.
    pub fn own_new(&mut self, before: &Catalog, maker: u32) {
        let (new, old) = (self.changed_part(before), before.changed_part(self));
        // A changed object, for instance a renamed one, exists in both catalogs.
        let known: BTreeSet<Object> = old.objects().collect();
        let linked: BTreeMap<Object, u32> = new
            .sequences
            .values()
            .filter_map(|sequence| {
                let table = sequence.owner.as_ref()?.table;
                let was_there = before.tables.numbered(table).is_some();
                was_there.then_some((Object::Relation(sequence.oid), table))
            })
            .collect();
        for object in new.objects() {
            if known.contains(&object) || self.ownership.contains_key(&object) {
                continue;
            }
            let owner = match linked.get(&object) {
                None => Some(maker),
                // The sequence of a table without an owner has none either.
                Some(table) => {
                    self.ownership.get(&Object::Relation(*table)).map(|owned| owned.owner)
                }
            };
            self.ownership.extend(owner.map(|owner| (object, Arc::new(Owned::by(owner)))));
        }
    }

    /// The largest oid of a role that owns anything or has rights.
    pub fn last_role(&self) -> u32 {
        let lists = self.ownership.values().flat_map(|owned| {
            let lists = owned.acl.iter().chain(owned.columns.values());
            let items = lists.flat_map(|acl| acl.items());
            items.flat_map(|item| [item.grantee, item.grantor]).chain([owned.owner])
        });
        let members = self.members.iter();
        let members = members.flat_map(|((role, member), how)| [*role, *member, how.grantor]);
        lists.chain(members).max().unwrap_or(PUBLIC)
    }

    /// Removes comments on dropped objects, the rights to them, and their statistics.
    pub fn forget_since(&mut self, before: &Catalog) {
        self.forget_comments_since(before);
        let gone = self.statistics.keys().filter(|oid| self.tables.numbered(**oid).is_none());
        let gone: Vec<u32> = gone.copied().collect();
        gone.iter().for_each(|oid| drop(self.statistics.remove(oid)));
        let (old, new) = (before.changed_part(self), self.changed_part(before));
        let there: BTreeSet<Object> = new.objects().collect();
        for object in old.objects().filter(|object| !there.contains(object)) {
            self.ownership.remove(&object);
        }
        for object in there {
            let Object::Relation(oid) = object else { continue };
            let Some(owned) = self.ownership.get(&object) else { continue };
            if owned.columns.is_empty() {
                continue;
            }
            let (mut owned, names) = (owned.clone(), self.column_names(oid));
            Arc::make_mut(&mut owned).columns.retain(|name, _| names.contains(name));
            self.ownership.insert(object, owned);
        }
    }

    /// Renames a column in the rights of a relation.
    pub fn rename_rights(&mut self, relation: u32, from: &str, to: &str) {
        let Some(owned) = self.ownership.get_mut(&Object::Relation(relation)) else { return };
        if owned.columns.contains_key(from) {
            let columns = &mut Arc::make_mut(owned).columns;
            let acl = columns.remove(from);
            columns.extend(acl.map(|acl| (to.to_owned(), acl)));
        }
    }

    /// The names of the columns of a table or a view.
    pub(crate) fn column_names(&self, oid: u32) -> Vec<String> {
        match (self.table_of(oid), self.view_of(oid)) {
            (Some(table), _) => table.columns.iter().map(|column| column.name.clone()).collect(),
            (_, Some(view)) => view.columns.iter().map(|(name, _)| name.clone()).collect(),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_rights_are_read_back() {
        let mut owned = Owned::by(10);
        assert_eq!(Owned::read(10, &owned.kept()), Some(owned.clone()));
        owned.acl = Some(Acl::of_owner(Kind::Table, 10));
        let item =
            Item { grantee: 16_384, grantor: 10, rights: Rights::UPDATE, options: Rights::UPDATE };
        let mut acl = Acl::default();
        acl.grant(10, item).expect("the owner may");
        owned.columns.insert("two\twords".to_owned(), acl);
        owned.columns.insert("x".to_owned(), Acl::default());
        assert_eq!(Owned::read(10, &owned.kept()), Some(owned));
        for damaged in ["all", "all\t10=q/10", "column\tx\t", "none\t"] {
            assert_eq!(Owned::read(10, damaged), None, "{damaged}");
        }
        for object in
            [Object::Relation(1), Object::Schema(2), Object::Type(3), Object::Procedure(4)]
        {
            assert_eq!(Object::read(&object.kept()), Some(object));
        }
    }

    #[test]
    fn each_kind_has_its_rights() {
        let letters =
            |kind: Kind| kind.all().each().map(|(_, letter, _)| letter).collect::<String>();
        assert_eq!(letters(Kind::Table), "arwdDxt");
        assert_eq!(letters(Kind::Column), "arwx");
        assert_eq!(letters(Kind::Sequence), "rwU");
        assert_eq!(letters(Kind::Schema), "UC");
        assert_eq!(Rights::named("select"), Some(Rights::SELECT));
        assert_eq!(Rights::named("connect"), None);
    }
}
