//! Users: the roles that may connect, their authentication, and superusers.
//!
//! ```text
//!   isomer_roles    name    oid    superuser  login  verifier
//!                   isomer  10     true       true                       in a new database
//!                   ada     16384  false      true   SCRAM-SHA-256$..  CREATE USER ada PASSWORD ..
//! ```
//!
//! Rights to tables are granted ([`crate::grants`]). Only superusers create, alter and drop users,
//! and change settings of the whole server; every user may change the own password.
//!
//! **Invariant.** There is always a superuser who may connect, so that other superusers' mistakes
//! can be repaired.
//!
//! All users are kept in memory, so a login needs no transaction. A change takes effect at once,
//! also for connected clients ([`crate::clients`] ends the sessions of a dropped user).
//!
//! Databases older than the introduction of superusers have a table `isomer_users`. Its users had
//! all rights, so they become superusers.

use crate::backend::explain;
use crate::draft::Difference;
use crate::engine::{Engine, Told, damaged, system_table, tell};
use crate::scram::Verifier;
use arc_swap::ArcSwap;
use isomer_cluster::{Database, Isolation, LockMode};
use isomer_design::{Column, ColumnType, Schema, SchemaError, TableId, Value};
use isomer_sql::catalog::Namespace;
use isomer_sql::parse::{UserAttributes, UserStatement};
use isomer_sql::rights::check::PREDEFINED;
use isomer_sql::rights::{Acl, Identity, Item, Kind, Object, Owned, PUBLIC, Rights, Role, Roles};
use isomer_sql::system::OWNER;
use isomer_sql::{SqlError, code};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The first user of a new database.
pub(crate) const FIRST_USER: &str = "isomer";
/// The oid of the first created user.
const FIRST_OID: i64 = 16_384;
/// The table of users before the introduction of superusers.
const OLD_TABLE: &str = "isomer_users";

/// All users.
pub(crate) struct Users {
    table: (TableId, Arc<Schema>),
    /// Held during a change, so that two superusers cannot demote each other.
    known: Mutex<BTreeMap<String, User>>,
    /// The same roles, for checks of rights.
    roles: ArcSwap<Roles>,
    /// The highest oid of any role: sessions may still act as a dropped one.
    last: AtomicI64,
}

/// A user's attributes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct User {
    oid: i64,
    pub(crate) superuser: bool,
    pub(crate) login: bool,
    /// The SCRAM verifier; empty without a password.
    verifier: String,
}

fn schema() -> Result<Schema, SchemaError> {
    let columns = vec![
        Column::new("name", ColumnType::Text),
        Column::new("oid", ColumnType::Int64),
        Column::new("superuser", ColumnType::Bool),
        Column::new("login", ColumnType::Bool),
        Column::new("verifier", ColumnType::Text),
    ];
    Schema::new("isomer_roles", columns, &["name"])
}

impl Users {
    /// Opens the users' table, creating it if it is missing; [`Engine::read_users`] reads it.
    pub(crate) fn open(database: &Database) -> Result<Users, SqlError> {
        let table = system_table(database, schema())?;
        let (known, roles, last) = Default::default();
        Ok(Users { table, known, roles, last })
    }

    /// Publishes the roles for checks of rights.
    fn tell(&self, known: &BTreeMap<String, User>) {
        let role = |(name, user): (&String, &User)| {
            let User { oid, superuser, login, .. } = *user;
            Role { oid, name: name.clone(), superuser, login }
        };
        let last = known.values().map(|user| user.oid).max();
        self.last.fetch_max(last.unwrap_or(0), Ordering::Relaxed);
        let version = self.roles.load().version + 1;
        self.roles.store(Arc::new(Roles::new(version, known.iter().map(role).collect())));
    }
}

/// The result of a statement about a user.
pub(crate) struct UserChanged {
    pub(crate) tag: &'static str,
    /// The dropped user, if any.
    pub(crate) dropped: Option<String>,
}

impl Engine {
    /// Creates, alters or drops a user, on behalf of the user `by`.
    ///
    /// # Errors
    /// 42501 for lack of rights; 42704, 42710; 55000 if no superuser could connect any more.
    pub(crate) fn change_user(
        &self,
        statement: &UserStatement,
        by: &str,
        salt: [u8; 16],
    ) -> Result<UserChanged, SqlError> {
        // One at a time, at all gateways.
        let mut alone = self.gateway().begin(Isolation::ReadCommitted, Arc::default());
        let (table, key) = self.row_of("turn", "roles")?;
        alone.lock(table, &key, LockMode::Exclusive, true).map_err(explain)?;
        let mut known = self.users.known.lock();
        check_rights(&known, statement, by)?;
        let (name, tag) = match statement {
            UserStatement::Create { name, .. } => (name, "CREATE ROLE"),
            UserStatement::Alter { name, .. } => (name, "ALTER ROLE"),
            UserStatement::Drop { name, .. } => (name, "DROP ROLE"),
        };
        let before = known.get(name);
        let after = match (statement, before) {
            (UserStatement::Create { .. }, before)
                if before.is_some() || PREDEFINED.iter().any(|(_, own)| own == name) =>
            {
                let message = format!("role \"{name}\" already exists");
                return Err(SqlError::new(code::DUPLICATE_OBJECT, message));
            }
            (UserStatement::Create { attributes, .. }, _) => {
                // Oids are never reused, so that a new role does not inherit rights granted to an
                // old one.
                let named = self.catalog().last_role().into();
                let most = self.users.last.load(Ordering::Relaxed).max(named) + 1;
                let new = User {
                    oid: most.max(FIRST_OID),
                    superuser: false,
                    login: true,
                    verifier: String::new(),
                };
                Some(new.with(attributes, salt))
            }
            (UserStatement::Alter { attributes, .. }, Some(before)) => {
                Some(before.clone().with(attributes, salt))
            }
            (UserStatement::Drop { .. }, Some(_)) => None,
            // pg_dumpall repeats the attributes that they have.
            (UserStatement::Alter { attributes, .. }, None)
                if PREDEFINED.iter().any(|(_, own)| own == name) && attributes.are_plain() =>
            {
                return Ok(UserChanged { tag, dropped: None });
            }
            (UserStatement::Drop { if_exists: true, .. }, None) => {
                return Ok(UserChanged { tag, dropped: None });
            }
            (UserStatement::Alter { .. } | UserStatement::Drop { .. }, None) => {
                let message = format!("role \"{name}\" does not exist");
                return Err(SqlError::new(code::UNDEFINED_OBJECT, message));
            }
        };
        let mut changed = known.clone();
        match &after {
            Some(user) => changed.insert(name.clone(), user.clone()),
            None => changed.remove(name),
        };
        if !changed.values().any(|user| user.superuser && user.login) {
            let message = format!("\"{name}\" is the last superuser who may connect");
            return Err(SqlError::new(code::NOT_READY, message)
                .hint("Make another one first: CREATE USER name SUPERUSER PASSWORD 'text'."));
        }
        self.write_user(name, after.as_ref())?;
        self.users.tell(&changed);
        *known = changed;
        drop(known);
        tell(self, &Told::Roles);
        let dropped = after.is_none().then(|| name.clone());
        Ok(UserChanged { tag, dropped })
    }

    /// The user with this name.
    pub(crate) fn user(&self, name: &str) -> Option<User> {
        self.users.known.lock().get(name).cloned()
    }

    /// True if a user who may connect has a password.
    pub fn has_passwords(&self) -> bool {
        self.users.known.lock().values().any(|user| user.login && !user.verifier.is_empty())
    }

    /// All current roles.
    pub(crate) fn roles(&self) -> Arc<Roles> {
        self.users.roles.load_full()
    }

    /// Reads all users; creates the first one if there is none.
    pub(crate) fn read_users(&self) -> Result<(), SqlError> {
        self.take_over_old_users()?;
        let mut known = self.users.known.lock();
        known.clear();
        let (table, schema) = &self.users.table;
        let mut rows = Vec::new();
        self.each_row(*table, |key, row| {
            rows.push(schema.decode_row(key, row));
            ControlFlow::Continue(())
        })?;
        for row in rows {
            let Ok(
                [
                    Value::Text(name),
                    Value::Int64(oid),
                    Value::Bool(superuser),
                    Value::Bool(login),
                    Value::Text(verifier),
                ],
            ) = row.map_err(damaged)?.try_into().map(|row: [Value; 5]| row)
            else {
                return Err(damaged("a row of the users' table has other columns"));
            };
            let verifier = verifier.to_string();
            known.insert(name.to_string(), User { oid, superuser, login, verifier });
        }
        if known.is_empty() {
            self.begin_rights()?;
            let first = User { oid: OWNER, superuser: true, login: true, verifier: String::new() };
            self.write_user(FIRST_USER, Some(&first))?;
            known.insert(FIRST_USER.to_owned(), first);
        }
        self.users.tell(&known);
        Ok(())
    }

    /// In a new database every role may use the schema `public`, and its owner creates objects
    /// there. In an older one every role may create objects.
    fn begin_rights(&self) -> Result<(), SqlError> {
        let owner = isomer_sql::system::DATABASE_OWNER as u32;
        let mut acl = Acl::of_owner(Kind::Schema, owner);
        let (grantee, rights) = (PUBLIC, Rights::USAGE);
        acl.grant(owner, Item { grantee, grantor: owner, rights, options: Rights::NONE })?;
        let public = Object::Schema(Namespace::public().oid);
        let owned = Owned { acl: Some(acl), ..Owned::by(owner) };
        let ownership = vec![(public, Some(Arc::new(owned)))];
        let rows = self.changed_rows(&Difference { ownership, ..Difference::default() })?;
        self.write(self.catalog_table.0, &rows)
    }

    /// If this is interrupted, the next start repeats it.
    fn take_over_old_users(&self) -> Result<(), SqlError> {
        let Ok((table, schema)) = self.database().table(OLD_TABLE) else { return Ok(()) };
        let mut old = Vec::new();
        self.each_row(table, |key, row| {
            if let Ok([Value::Text(name), Value::Text(verifier)]) =
                schema.decode_row(key, row).as_deref()
            {
                old.push((name.to_string(), verifier.to_string()));
            }
            ControlFlow::Continue(())
        })?;
        for (oid, (name, verifier)) in (FIRST_OID..).zip(old) {
            let user = User { oid, superuser: true, login: true, verifier };
            self.write_user(&name, Some(&user))?;
        }
        self.database().drop_table(table).map_err(crate::backend::database)
    }

    fn write_user(&self, name: &str, user: Option<&User>) -> Result<(), SqlError> {
        let (table, schema) = &self.users.table;
        let User { oid, superuser, login, verifier } = user.cloned().unwrap_or(User {
            oid: 0,
            superuser: false,
            login: false,
            verifier: String::new(),
        });
        let values = [
            Value::from(name),
            Value::Int64(oid),
            Value::Bool(superuser),
            Value::Bool(login),
            Value::from(verifier.as_str()),
        ];
        let (key, row) = schema.encode_row(&values).map_err(damaged)?;
        self.write(*table, &[(key, user.map(|_| row))])
    }
}

impl User {
    /// The text of its verifier, as `pg_authid` shows it.
    pub(crate) fn password(&self) -> Option<String> {
        (!self.verifier.is_empty()).then(|| self.verifier.clone())
    }

    /// The verifier of its password.
    pub(crate) fn verifier(&self) -> Option<Verifier> {
        Verifier::read(&self.verifier)
    }

    fn with(mut self, attributes: &UserAttributes, salt: [u8; 16]) -> User {
        let UserAttributes { password, superuser, login, .. } = attributes;
        if let Some(password) = password {
            let verifier = |text: &String| Verifier::of(text, salt).write();
            let password = password.as_ref().filter(|it| !it.is_empty());
            self.verifier = password.map_or_else(String::new, verifier);
        }
        self.superuser = superuser.unwrap_or(self.superuser);
        self.login = login.unwrap_or(self.login);
        self
    }
}

/// True for the text of an MD5 hash of a password, as PostgreSQL stores it. The server only
/// supports SCRAM-SHA-256.
fn is_md5(password: &str) -> bool {
    let digits = password.strip_prefix("md5");
    digits.is_some_and(|it| it.len() == 32 && it.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// Refuses what only superusers may do.
///
/// # Errors
/// 42501.
pub(crate) fn check_superuser(who: &Identity, what: &str) -> Result<(), SqlError> {
    if who.is_superuser { Ok(()) } else { Err(not_allowed(what)) }
}

/// Superusers manage users; every user may change the own password.
fn check_rights(
    known: &BTreeMap<String, User>,
    statement: &UserStatement,
    by: &str,
) -> Result<(), SqlError> {
    let is_super = known.get(by).is_some_and(|user| user.superuser);
    if let UserStatement::Create { attributes, .. } | UserStatement::Alter { attributes, .. } =
        statement
        && let Some(Some(password)) = &attributes.password
        && is_md5(password)
    {
        let message = "passwords that are hashed by MD5 are not supported";
        return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message).hint(
            "Give the password itself, or a SCRAM-SHA-256 verifier as PostgreSQL keeps it.",
        ));
    }
    match statement {
        UserStatement::Drop { name, .. } if name == by => {
            Err(SqlError::new("55006", "current user cannot be dropped"))
        }
        UserStatement::Alter { name, attributes } if name == by && known.contains_key(by) => {
            let only_password = attributes.superuser.is_none() && attributes.login.is_none();
            if is_super || only_password {
                Ok(())
            } else {
                Err(not_allowed("change attributes of users"))
            }
        }
        _ if is_super => Ok(()),
        UserStatement::Create { .. } => Err(not_allowed("make users")),
        UserStatement::Alter { .. } => Err(not_allowed("change other users")),
        UserStatement::Drop { .. } => Err(not_allowed("drop users")),
    }
}

fn not_allowed(what: &str) -> SqlError {
    let message = format!("permission denied: only superusers {what}");
    SqlError::new("42501", message).hint("SELECT rolname FROM pg_roles WHERE rolsuper names them.")
}
