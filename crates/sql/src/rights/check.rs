//! The rights of a session, and checks against them.
//!
//! A statement is bound independently of roles: its plan lists the rights that it [needs](Need),
//! and is shared by all sessions. The check for a role happens when the plan runs. The plan
//! remembers the last checked role, so a plan that runs again compares one number. The catalog that
//! the plan was made for contains the rights and the memberships; the attributes of roles
//! ([`Roles`]) have a separate version.
//!
//! ```text
//!   select name from busy             needs SELECT on busy, for the session's role
//!   (busy is a view over staff)       needs SELECT on staff, for the owner of busy
//! ```

use super::{Acl, Kind, Members, Object, Owned, PUBLIC, Rights};
use crate::catalog::{Catalog, Relation};
use crate::error::{SqlError, code};
use crate::system::{DATABASE_OWNER, DESIGN_ROLE, OWNER};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A role, as other roles see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Role {
    /// Its oid.
    pub oid: i64,
    /// Its name.
    pub name: String,
    /// True for a superuser, which may also manage other roles and the server.
    pub superuser: bool,
    /// True if it may connect.
    pub login: bool,
}

/// All roles at one time.
#[derive(Clone, Default, Debug)]
pub struct Roles {
    /// It increases with every change.
    pub version: u32,
    all: Vec<Role>,
}

impl Roles {
    /// Created roles together with the predefined ones.
    pub fn new(version: u32, made: Vec<Role>) -> Roles {
        let own =
            |oid, name: &str| Role { oid, name: name.to_owned(), superuser: false, login: false };
        let is_free = |role: &Role| made.iter().all(|made| made.name != role.name);
        let own = PREDEFINED.map(|(oid, name)| own(oid.into(), name)).into_iter().filter(is_free);
        let own: Vec<Role> = own.collect();
        Roles { version, all: made.into_iter().chain(own).collect() }
    }

    /// All of them.
    pub fn all(&self) -> &[Role] {
        &self.all
    }

    /// The role with an oid.
    pub fn numbered(&self, oid: u32) -> Option<&Role> {
        self.all.iter().find(|role| role.oid == i64::from(oid))
    }

    /// The role with a name.
    ///
    /// # Errors
    /// 42704.
    pub fn named(&self, name: &str) -> Result<&Role, SqlError> {
        self.all.iter().find(|role| role.name == name).ok_or_else(|| {
            let message = format!("role \"{name}\" does not exist");
            SqlError::new(code::UNDEFINED_OBJECT, message)
        })
    }

    /// The name of a role; a replacement if it no longer exists.
    pub fn name(&self, oid: u32) -> String {
        let found = self.numbered(oid).map(|role| role.name.clone());
        found.unwrap_or_else(|| format!("unknown (OID={oid})"))
    }

    /// The first superuser, who owns the database and all objects without an owner.
    pub fn first(&self) -> u32 {
        let superusers = self.all.iter().filter(|role| role.superuser).map(|role| role.oid as u32);
        superusers.min().unwrap_or(OWNER as u32)
    }
}

/// The predefined roles.
pub const PREDEFINED: [(u32, &str); 5] = [
    (DATABASE_OWNER as u32, "pg_database_owner"),
    (DESIGN_ROLE, "isomer_design"),
    (MONITOR, "pg_monitor"),
    (READ_ALL_STATS, "pg_read_all_stats"),
    (SIGNAL_BACKEND, "pg_signal_backend"),
];

/// A role whose members may see the activity of all sessions, as part of monitoring.
const MONITOR: u32 = 3373;
/// The role whose members may see the activity of all sessions.
pub const READ_ALL_STATS: u32 = 3375;
/// The role whose members may end statements and sessions of other roles, except those of
/// superusers.
pub const SIGNAL_BACKEND: u32 = 4200;

/// A role together with all roles whose rights it has. Without a role it has the rights of PUBLIC.
#[derive(Clone, Default, Debug)]
pub struct Identity {
    /// The role.
    pub role: u32,
    /// Its name.
    pub name: Arc<str>,
    /// True if all rights are granted.
    pub is_superuser: bool,
    acts_as: BTreeSet<u32>,
    roles: Arc<Roles>,
}

impl Identity {
    /// A role by its name. A role that no longer exists has only the rights of PUBLIC.
    pub fn of(name: &str, roles: &Arc<Roles>, members: &Members) -> Identity {
        let role = roles.named(name).map_or(PUBLIC, |role| role.oid as u32);
        Identity { name: Arc::from(name), ..Identity::numbered(role, roles, members) }
    }

    /// A role by its oid.
    pub fn numbered(role: u32, roles: &Arc<Roles>, members: &Members) -> Identity {
        let found = roles.numbered(role);
        let name = found.map_or_else(Arc::default, |role| Arc::from(role.name.as_str()));
        let is_superuser = found.is_some_and(|role| role.superuser);
        let acts_as = all_of(role, roles, members);
        Identity { role, name, is_superuser, acts_as, roles: roles.clone() }
    }

    /// The identity of the system itself, which has all rights.
    pub fn system() -> Identity {
        let (role, name, roles) = (OWNER as u32, Arc::from("isomer"), Arc::default());
        Identity { role, name, is_superuser: true, acts_as: BTreeSet::from([role]), roles }
    }

    /// All roles.
    pub fn roles(&self) -> &Arc<Roles> {
        &self.roles
    }

    /// A number for this identity at this version; a check for one stamp need not be repeated.
    fn stamp(&self) -> u64 {
        (u64::from(self.roles.version) << 32) | u64::from(self.role)
    }

    /// True if it has the rights of a role.
    pub fn acts_as(&self, role: u32) -> bool {
        self.is_superuser || self.acts_as.contains(&role)
    }

    /// The roles whose rights it has, itself among them.
    pub fn all(&self) -> impl Iterator<Item = u32> {
        self.acts_as.iter().copied()
    }

    /// The owner of an object.
    pub fn owner_of(&self, catalog: &Catalog, object: Object) -> u32 {
        catalog.ownership.get(&object).map_or_else(|| self.roles.first(), |owned| owned.owner)
    }

    /// True if it may change the definition of an object: it is the owner, or acts as the owner.
    pub fn owns(&self, catalog: &Catalog, object: Object) -> bool {
        self.is_superuser || self.acts_as(self.owner_of(catalog, object))
    }

    /// Its rights to an object.
    pub fn rights_to(&self, catalog: &Catalog, object: Object, kind: Kind) -> Rights {
        match self.is_superuser {
            true => kind.all(),
            false => {
                acl_of(catalog, object, kind, &self.roles).rights_of(&|role| self.acts_as(role))
            }
        }
    }

    /// Its rights to a column, in addition to those to the whole relation.
    pub fn rights_to_column(&self, catalog: &Catalog, object: Object, column: &str) -> Rights {
        let acl = catalog.ownership.get(&object).and_then(|owned| owned.columns.get(column));
        acl.map_or(Rights::NONE, |acl| acl.rights_of(&|role| self.acts_as(role)))
    }

    /// Checks that it owns an object.
    ///
    /// # Errors
    /// 42501.
    pub fn check_owner(&self, catalog: &Catalog, object: Object) -> Result<(), SqlError> {
        match self.owns(catalog, object) {
            true => Ok(()),
            false => Err(not_owner(&described(catalog, object))),
        }
    }

    /// Checks that it has all of these rights.
    ///
    /// # Errors
    /// 42501.
    pub fn check(
        &self,
        catalog: &Catalog,
        (object, kind): (Object, Kind),
        rights: Rights,
    ) -> Result<(), SqlError> {
        match self.rights_to(catalog, object, kind).has(rights) {
            true => Ok(()),
            false => Err(denied(&described(catalog, object))),
        }
    }

    /// Checks that it is a member of a role, before acting as that role.
    ///
    /// # Errors
    /// 42501.
    pub fn check_member(&self, role: &Role) -> Result<(), SqlError> {
        match self.acts_as(role.oid as u32) {
            true => Ok(()),
            false => {
                let message = format!("must be member of role \"{}\"", role.name);
                Err(SqlError::new(code::INSUFFICIENT_PRIVILEGE, message))
            }
        }
    }
}

/// A role and the roles that it is a member of, directly or through others.
pub fn all_of(role: u32, roles: &Roles, members: &Members) -> BTreeSet<u32> {
    let mut all = BTreeSet::from([role]);
    if role == roles.first() {
        all.insert(DATABASE_OWNER as u32);
    }
    let mut new: Vec<u32> = all.iter().copied().collect();
    while let Some(member) = new.pop() {
        let of = members.keys().filter(|(_, of)| *of == member).map(|(role, _)| *role);
        new.extend(of.filter(|role| all.insert(*role)).collect::<Vec<_>>());
    }
    if all.contains(&MONITOR) {
        all.insert(READ_ALL_STATS);
    }
    all
}

/// The access list of an object; the default one before the first grant, and the one for objects
/// from before there were rights.
pub fn acl_of<'c>(catalog: &'c Catalog, object: Object, kind: Kind, roles: &Roles) -> Cow<'c, Acl> {
    match catalog.ownership.get(&object).map(|owned| &**owned) {
        None => Cow::Owned(Acl::of_all(kind, roles.first())),
        Some(Owned { owner, acl: None, .. }) => Cow::Owned(Acl::of_owner(kind, *owner)),
        Some(Owned { acl: Some(acl), .. }) => Cow::Borrowed(acl),
    }
}

/// A right to an object that a statement requires.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Need {
    /// The relation, or its schema.
    pub object: Object,
    /// The kind of the object.
    pub kind: Kind,
    /// The right.
    pub right: Rights,
    /// The columns, by their numbers from 1. Empty: a right to any column is enough.
    pub columns: BTreeSet<i16>,
    /// The view whose owner must have the right.
    pub view: Option<u32>,
}

impl Need {
    fn check(&self, catalog: &Catalog, identity: &Identity) -> Result<(), SqlError> {
        let Some(view) = self.view else { return self.check_for(identity, catalog) };
        let owner = identity.owner_of(catalog, Object::Relation(view));
        if owner == identity.role {
            return self.check_for(identity, catalog);
        }
        let owner = Identity::numbered(owner, &identity.roles, &catalog.members);
        self.check_for(&owner, catalog)
    }

    fn check_for(&self, identity: &Identity, catalog: &Catalog) -> Result<(), SqlError> {
        let object = self.object;
        if identity.rights_to(catalog, object, self.kind).has(self.right) {
            return Ok(());
        }
        let owned = catalog.ownership.get(&object);
        if let (Some(owned), Object::Relation(oid)) = (owned, object)
            && !owned.columns.is_empty()
            && Kind::Column.all().has(self.right)
        {
            let names = catalog.column_names(oid);
            let may = |name: &str| {
                owned.columns.contains_key(name)
                    && identity.rights_to_column(catalog, object, name).has(self.right)
            };
            let mut needed = self.columns.iter().map(|number| usize::try_from(number - 1).ok());
            let is_enough = match self.columns.is_empty() {
                true => names.iter().any(|name| may(name)),
                // System columns have no rights of their own.
                false => {
                    needed.all(|at| at.and_then(|at| names.get(at)).is_some_and(|name| may(name)))
                }
            };
            if is_enough {
                return Ok(());
            }
        }
        Err(denied(&described(catalog, object)))
    }
}

impl crate::statement::Compiled {
    /// Checks that a role has the required rights; without work, if it was the last one to be
    /// checked.
    ///
    /// # Errors
    /// 42501.
    pub fn check(&self, catalog: &Catalog, identity: &Identity) -> Result<(), SqlError> {
        use std::sync::atomic::Ordering::Relaxed;
        let stamp = identity.stamp();
        if identity.is_superuser && self.needs.iter().all(|need| need.view.is_none()) {
            return Ok(());
        }
        if self.version == catalog.version && self.checked_for.load(Relaxed) == stamp {
            return Ok(());
        }
        self.needs.iter().try_for_each(|need| need.check(catalog, identity))?;
        if self.version == catalog.version {
            self.checked_for.store(stamp, Relaxed);
        }
        Ok(())
    }
}

/// 42501, with a description of the object.
pub fn denied(what: &str) -> SqlError {
    SqlError::new(code::INSUFFICIENT_PRIVILEGE, format!("permission denied for {what}"))
}

/// 42501, for an object with another owner.
pub fn not_owner(what: &str) -> SqlError {
    SqlError::new(code::INSUFFICIENT_PRIVILEGE, format!("must be owner of {what}"))
}

/// The kind and name of an object.
pub fn described(catalog: &Catalog, object: Object) -> String {
    match object {
        Object::Relation(oid) => {
            if let Some(table) = catalog.table_of(oid) {
                return format!("table {}", table.name);
            }
            if let Some(view) = catalog.view_of(oid) {
                return format!("view {}", view.name);
            }
            let sequence = catalog.sequences.values().find(|sequence| sequence.oid == oid);
            sequence.map_or_else(String::new, |sequence| format!("sequence {}", sequence.name))
        }
        Object::Schema(oid) => {
            let schema = catalog.schemas.values().find(|schema| schema.oid == oid);
            schema.map_or_else(String::new, |schema| format!("schema {}", schema.name))
        }
        Object::Type(oid) => {
            let made = catalog.made_numbered(oid);
            made.map_or_else(String::new, |made| format!("type {}", made.name().name))
        }
        Object::Procedure(oid) => {
            let procedure = catalog.procedures.get(&oid);
            procedure.map_or_else(String::new, |one| format!("procedure {}", one.name.name))
        }
    }
}

/// The object whose owner counts for a relation: for an index, its table.
pub fn object_of(relation: &Relation<'_>) -> (Object, Kind) {
    match relation {
        Relation::Table(table) | Relation::Index(table, _) | Relation::Key(table) => {
            (Object::Relation(table.oid), Kind::Table)
        }
        Relation::View(view) => (Object::Relation(view.oid), Kind::Table),
        Relation::Sequence(sequence) => (Object::Relation(sequence.oid), Kind::Sequence),
    }
}
