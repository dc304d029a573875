//! System tables: enough of `pg_catalog` and `information_schema` for psql's `\d` commands and for
//! drivers, and the schema `isomer` about the design.
//!
//! Rows are made from the catalog when a query reads them. Tables about features that Isomer does
//! not have (triggers, policies, publications, ..) are always empty. A query with an inner join on
//! one of them has no rows, so its select list is not checked ([`SystemTable::is_void`]).

mod access;
mod definitions;
mod information;
mod objects;
mod opclass;
mod own;
mod procedures;
mod roles;
mod rows;
mod session;
mod stats;
mod tables;

use crate::budget::Budget;
use crate::catalog::{Catalog, Name, SYSTEM, TEMPORARY, Table};
use crate::dates::TimeStyle;
use crate::datum::Datum;
use crate::domains::Domain;
use crate::error::SqlError;
use crate::rights::{Kind, Membership, Object, Rights};
use crate::sequence::Sequence;
use crate::transaction::{CursorShown, Surroundings};
use crate::types::{ALL, SqlType};
use crate::view::View;
use crate::zone::Zone;
use access::Access;
use definitions::index_definitions;
pub(crate) use definitions::is_visible_type;
pub(crate) use definitions::{constraint_definition, default_access, is_visible};
pub(crate) use definitions::{index_definition, regclass, regtype, relation_name};
pub(crate) use definitions::{namespace_name, regnamespace, serial_sequence, view_definition};
pub(crate) use information::blocking;
use information::domain_constraints as domain_constraints_of;
use information::{
    character_set, constraints_of, information_columns, information_view_columns, own_columns,
};
use information::{domain_checks, information_domain, locks, sequences, sessions};
use isomer_design::{Backups, TableId};
pub(crate) use objects::known_number;
pub(crate) use objects::{has_names, named};
pub use objects::{object_number, with_names};
pub(crate) use own::{ISOMER, comment as own_comment, numbered as own_view};
pub use procedures::ProcedurePart;
pub(crate) use procedures::procedure_part;
pub(crate) use rows::written_as;
use rows::{attributes, classes, constraints, defaults, indexes, type_row};
use rows::{dependencies, descriptions, sequence_class, sequence_row, sequences_row};
use rows::{domain_constraints, domain_row, enum_rows, label_rows};
use rows::{statistics_rows, view_attributes, view_class};
use serde::{Deserialize, Serialize};
pub use stats::{Counts, RowChange, RowCounts};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use tables::{Definition, TABLES, VOID};

const PG_CATALOG: i64 = 11;
pub(crate) const PUBLIC: i64 = 2200;
const INFORMATION: i64 = 2202;
/// The oid of the schema of temporary objects.
pub(crate) const OWN: i64 = 11_000;
/// The oids of system views start here.
const FIRST_VIEW: i64 = 12_000;
const HEAP: i64 = 2;
const BTREE: i64 = 403;
/// The initial user of a new database.
pub const OWNER: i64 = 10;
pub(crate) const DATABASE: i64 = 5;
/// The role whose only member is the owner of the database.
pub const DATABASE_OWNER: i64 = 6171;
/// The role whose members may change the design of all tables.
pub const DESIGN_ROLE: u32 = 8000;
/// Added to the oid of a table, it results in the oid of its primary key.
const KEY_OID: i64 = 1 << 30;

/// A system table.
#[derive(Clone, Copy)]
pub struct SystemTable {
    of: &'static Definition,
}

impl fmt::Debug for SystemTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.of.schema, self.of.name)
    }
}

/// Information about the design and the users that other components have.
pub trait DesignView: Send + Sync {
    /// The rows of a table of the schema `isomer`.
    ///
    /// # Errors
    /// 57P03 if the process that has them is not reached in time; 57014 and similar if the
    /// statement was cancelled meanwhile.
    fn rows(
        &self,
        table: &str,
        catalog: &Catalog,
        budget: &Budget,
    ) -> Result<Vec<Vec<Datum>>, SqlError>;

    /// The last number of a sequence, and true; or the next one and false, if none was issued.
    ///
    /// # Errors
    /// An error of the store.
    fn last_number(&self, sequence: &Sequence) -> Result<(i64, bool), SqlError>;

    /// The verifier of a role's password, if it has one.
    fn password(&self, role: &str) -> Option<String>;

    /// The bytes of the rows of a store table at their masters, as they were about a second ago.
    fn bytes(&self, table: TableId) -> u64;

    /// The number of backups that a table should have.
    fn backups(&self, table: TableId) -> Backups;

    /// The number of backups that a new table gets unless it says otherwise.
    fn default_backups(&self) -> Backups;

    /// True if transactions on a table are ordered.
    fn is_ordered(&self, table: TableId) -> bool;

    /// The mode of a table for strategies, if it restricts that of the server.
    fn autopilot(&self, table: TableId) -> Option<&'static str>;

    /// The counts of all gateways since their starts.
    fn counts(&self) -> Counts;

    /// Granted and waiting locks of tables and advisory locks, and those of rows with waiting
    /// transactions.
    fn locks(&self) -> Vec<LockRow>;

    /// The transactions that block this one.
    fn blockers(&self, transaction: u64) -> Vec<u64>;
}

/// A lock, as `pg_locks` shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockRow {
    /// The locked object.
    pub of: Locked,
    /// The transaction.
    pub transaction: u64,
    /// The mode, as PostgreSQL calls it.
    pub mode: &'static str,
    /// False while the transaction waits.
    pub is_granted: bool,
}

/// The locked object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Locked {
    /// A table or an index of the store.
    Table(TableId),
    /// A row of it.
    Row(TableId),
    /// An advisory lock: one number, or two.
    Numbers(Vec<i64>),
}

/// The oid of the only tablespace.
const DEFAULT_TABLESPACE: i64 = 1663;

/// The name of the user with an oid.
pub(crate) fn role_name(around: &Surroundings, oid: i64) -> String {
    around.identity.roles().name(oid as u32)
}

/// The settings of a session.
pub trait SettingsView: Send + Sync {
    /// The value of a setting, if it exists.
    fn setting(&self, name: &str) -> Option<String>;

    /// All settings and their values.
    fn settings(&self) -> Vec<(String, String)>;

    /// How times are written and read.
    fn times(&self) -> &TimeStyle;

    /// The time zone.
    fn zone(&self) -> &Zone {
        &self.times().zone
    }

    /// The value that a setting would have, with the errors of setting it.
    ///
    /// # Errors
    /// The errors of setting it.
    fn checked(&self, name: &str, value: &str) -> Result<String, SqlError>;
}

/// The connected sessions.
pub trait SessionsView: Send + Sync {
    /// The sessions of all gateways.
    fn sessions(&self) -> Sessions;

    /// The session with this connection, at this gateway.
    fn own(&self, process: i32) -> Option<SessionShown> {
        self.sessions().of(process.into()).cloned()
    }

    /// Cancels the statement of a session of any gateway, or ends the session. False if no session
    /// has this number, or its gateway gave no answer.
    fn signal(&self, process: i32, ends_session: bool) -> bool;

    /// The session asks for such a signal, and may not have the rights.
    fn asks_to_signal(&self, _process: i32) {}
}

/// The sessions of all gateways.
#[derive(Default, Debug)]
pub struct Sessions {
    /// The sessions.
    pub shown: Vec<SessionShown>,
    /// The names of the gateways whose sessions are missing, because they gave no answer; empty for
    /// the one of the process with the conductor.
    pub silent: Vec<String>,
}

impl Sessions {
    /// The session of a connection.
    pub fn of(&self, process: i64) -> Option<&SessionShown> {
        self.shown.iter().find(|shown| i64::from(shown.process) == process)
    }

    /// The session with a transaction.
    pub fn with(&self, transaction: u64) -> Option<&SessionShown> {
        self.shown.iter().find(|shown| shown.transaction == transaction)
    }

    /// The gateways whose sessions are missing, in words.
    pub fn missing(&self) -> Option<String> {
        let name = |name: &String| match name.as_str() {
            "" => "the process with the conductor".to_owned(),
            name => format!("node \"{name}\""),
        };
        let names: Vec<String> = self.silent.iter().map(name).collect();
        (!names.is_empty()).then(|| names.join(" and "))
    }
}

/// A session as others see it. Times are microseconds since 1970.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub struct SessionShown {
    /// The number of its connection.
    pub process: i32,
    /// The user that has logged in.
    pub user: String,
    /// The database that it named.
    pub database: String,
    /// The application name that the client has set.
    pub application: String,
    /// The address of the client; `None` for a Unix socket.
    pub client_address: Option<String>,
    /// The port of the client; -1 over a Unix socket.
    pub client_port: i64,
    /// True if its connection is encrypted; `None` if only another process knows.
    #[serde(default)]
    pub is_encrypted: Option<bool>,
    /// When it began.
    pub begun_us: i64,
    /// When its transaction began, if it is in one.
    pub transaction_us: Option<i64>,
    /// When its last statement began.
    pub query_us: Option<i64>,
    /// Since when it has its state.
    pub changed_us: i64,
    /// The state in `pg_stat_activity`.
    pub state: Cow<'static, str>,
    /// The event that it waits for: its type and name.
    pub wait: Option<(Cow<'static, str>, Cow<'static, str>)>,
    /// Its newest transaction; 0 if it had none.
    pub transaction: u64,
    /// Its last statement, possibly truncated.
    pub text: String,
    /// It is only the transaction and the wait of a session of another process, whose statement
    /// runs here.
    #[serde(default)]
    pub is_guest: bool,
}

impl Sessions {
    /// Gives sessions the transactions that run for them in other processes.
    pub fn join_guests(&mut self) {
        let guests: Vec<_> = self.shown.extract_if(.., |shown| shown.is_guest).collect();
        for guest in guests {
            let of = self.shown.iter_mut().find(|shown| shown.process == guest.process);
            if let Some(shown) = of {
                (shown.transaction, shown.wait) = (guest.transaction, guest.wait);
            }
        }
    }
}

impl SystemTable {
    /// A table by its name; tables of `pg_catalog` need no schema.
    pub fn find(schema: Option<&str>, name: &str) -> Option<SystemTable> {
        let schema = schema.unwrap_or("pg_catalog");
        let of = TABLES.iter().find(|table| table.schema == schema && table.name == name)?;
        Some(SystemTable { of })
    }

    /// True for the name of a table about a feature that Isomer does not have.
    pub fn is_void(schema: Option<&str>, name: &str) -> bool {
        schema.is_none_or(|schema| schema == "pg_catalog") && VOID.contains(&name)
    }

    /// Its columns.
    pub fn columns(self) -> &'static [(&'static str, SqlType)] {
        self.of.columns
    }

    /// Its rows, each followed by the oid of the table.
    ///
    /// # Errors
    /// An error of the store.
    pub fn rows(
        self,
        catalog: &Catalog,
        around: &Surroundings,
    ) -> Result<Vec<Vec<Datum>>, SqlError> {
        let access = &Access::new(catalog, around);
        let shown = |view: &View| view_definition(catalog, view.oid.into(), &around.budget);
        // Other roles see only the relations that they have rights to.
        let is_of_own = self.of.schema == "information_schema"
            && matches!(self.of.name, "tables" | "views" | "columns" | "sequences");
        let own = (is_of_own && !around.identity.is_superuser).then(|| access.own());
        let catalog = own.as_ref().unwrap_or(catalog);
        let rows = match (self.of.schema, self.of.name) {
            // They show what other roles do, or read all rows of tables.
            ("isomer", "audit" | "advice" | "shard_keys" | "order_hashes")
                if !around.identity.acts_as(DESIGN_ROLE) =>
            {
                Vec::new()
            }
            ("isomer", "statements" | "all_statements") if !access.sees_all() => Vec::new(),
            ("isomer", name) => {
                let rows = around.design.rows(name, catalog, &around.budget)?;
                if access.sees_all() { rows } else { access.without_keys(self.of.columns, rows) }
            }
            ("pg_catalog", "pg_namespace") => {
                let all = [
                    (PG_CATALOG, "pg_catalog"),
                    (INFORMATION, "information_schema"),
                    (own::ISOMER_OID, ISOMER),
                    (OWN, TEMPORARY),
                ];
                let is_there = |(oid, _): &(i64, &str)| *oid != OWN || catalog.has_own();
                let own = |(oid, name)| vec![int(oid), text(name), int(OWNER), Datum::Null];
                let made = catalog.schemas.values().map(|schema| {
                    let object = Object::Schema(schema.oid);
                    let (owner, list) = (access.owner(object), access.list(object, Kind::Schema));
                    vec![int(schema.oid.into()), text(&schema.name), int(owner), list]
                });
                all.into_iter().filter(is_there).map(own).chain(made).collect()
            }
            ("pg_catalog", "pg_cursors") => {
                let row = |cursor: &CursorShown| {
                    let is = [cursor.is_held, cursor.is_binary, cursor.scrolls].map(yes);
                    let mut row = vec![text(&cursor.name), text(&cursor.statement)];
                    row.extend(is);
                    row.push(Datum::Timestamp(cursor.declared_us));
                    row
                };
                around.cursors.borrow().iter().map(row).collect()
            }
            ("pg_catalog", "pg_class") => {
                let sequences =
                    catalog.sequences.values().map(|one| sequence_class(one, catalog, access));
                let tables = catalog.tables.values();
                let tables =
                    tables.flat_map(|table| classes(table, catalog, access, &*around.design));
                let views = catalog.views.values().map(|view| view_class(view, catalog, access));
                tables.chain(sequences).chain(views).chain(own::classes()).collect()
            }
            ("pg_catalog", "pg_sequence") => {
                catalog.sequences.values().map(|sequence| sequence_row(sequence)).collect()
            }
            ("pg_catalog", "pg_sequences") => {
                let row = |sequence: &Arc<Sequence>| {
                    let object = Object::Relation(sequence.oid);
                    let may = around.identity.rights_to(catalog, object, Kind::Sequence);
                    let (last, is_called) = around.design.last_number(sequence)?;
                    let is_shown = is_called && may.has_any(Rights::SELECT | Rights::USAGE);
                    let owner = access.owner_name(object);
                    Ok(sequences_row(sequence, owner, is_shown.then_some(last)))
                };
                catalog.sequences.values().map(row).collect::<Result<_, SqlError>>()?
            }
            ("pg_catalog", "pg_depend") => dependencies(catalog),
            ("pg_catalog", "pg_extension") => vec![own::extension()],
            ("pg_catalog", "pg_attribute") => {
                let views = catalog.views.values().flat_map(|view| view_attributes(view, access));
                let tables = catalog.tables.values();
                let made = tables.flat_map(|table| attributes(table, access)).chain(views);
                made.chain(own::attributes()).collect()
            }
            ("pg_catalog", "pg_description") => descriptions(catalog),
            ("pg_catalog", "pg_attrdef") => catalog.tables.values().flat_map(defaults).collect(),
            ("pg_catalog", "pg_type") => {
                let arrays = ALL.iter().filter_map(|ty| ty.array());
                let made = catalog.types.values().flat_map(|labels| {
                    let owner = access.owner(Object::Type(labels.of.oid));
                    enum_rows(labels, catalog, owner)
                });
                let domains = catalog.domains.values().map(|domain| {
                    domain_row(domain, catalog, access.owner(Object::Type(domain.oid)))
                });
                let own = ALL.iter().copied().chain(arrays).map(type_row);
                own.chain(made).chain(domains).collect()
            }
            ("pg_catalog", "pg_enum") => {
                catalog.types.values().flat_map(|labels| label_rows(labels)).collect()
            }
            ("pg_catalog", "pg_index") => catalog.tables.values().flat_map(indexes).collect(),
            ("pg_catalog", "pg_constraint") => {
                let domains = catalog.domains.values();
                let domains = domains.flat_map(|domain| domain_constraints(domain, catalog));
                let tables = catalog.tables.values();
                tables.flat_map(|table| constraints(table, catalog)).chain(domains).collect()
            }
            ("pg_catalog", "pg_am") => vec![
                vec![int(HEAP), text("heap"), text("t"), int(0)],
                vec![int(BTREE), text("btree"), text("i"), int(0)],
            ],
            ("pg_catalog", "pg_database") => vec![vec![
                int(DATABASE),
                text(&around.database),
                int(OWNER),
                int(6),
                text("C.UTF-8"),
                text("C.UTF-8"),
                Datum::Null,
                yes(true),
                yes(false),
                Datum::Null,
                text("c"),
                int(-1),
                int(DEFAULT_TABLESPACE),
                int(0),
                int(0),
                Datum::Null,
            ]],
            ("pg_catalog", "pg_tablespace") => {
                let row =
                    |(oid, name)| vec![int(oid), text(name), int(OWNER), Datum::Null, Datum::Null];
                [(DEFAULT_TABLESPACE, "pg_default"), (1664, "pg_global")].map(row).to_vec()
            }
            ("pg_catalog", "pg_roles") => roles::roles(around),
            ("pg_catalog", "pg_authid") => roles::with_passwords(around)?,
            ("pg_catalog", "pg_auth_members") => {
                let row = |(&(role, member), how): (&(u32, u32), &Membership)| {
                    let roles = [role, member, how.grantor].map(|oid| int(oid.into()));
                    roles.into_iter().chain([yes(how.is_admin)]).collect()
                };
                catalog.members.iter().map(row).collect()
            }
            ("pg_catalog", "pg_user") => roles::users(around),
            ("pg_catalog", "pg_shadow") => roles::users_with_passwords(around)?,
            ("pg_catalog", "pg_group") => roles::groups(catalog, around),
            ("pg_catalog", "pg_settings") => session::settings(around),
            ("pg_catalog", "pg_prepared_statements") => session::prepared(around),
            ("pg_catalog", "pg_timezone_names") => session::zones(around)?,
            ("pg_catalog", "pg_stat_activity") => sessions(around),
            ("pg_catalog", "pg_stat_ssl") => stats::encryption(around),
            ("pg_catalog", "pg_stat_bgwriter") => stats::unknown(self.of.columns.len()),
            ("pg_catalog", "pg_locks") => locks(catalog, around),
            ("pg_catalog", "pg_stat_database") => stats::database(around),
            ("pg_catalog", "pg_stat_statements") => stats::statements(catalog, around)?,
            ("pg_catalog", "pg_stat_user_tables" | "pg_stat_all_tables") => {
                stats::tables(catalog, around)
            }
            ("pg_catalog", "pg_stat_user_indexes" | "pg_stat_all_indexes") => {
                stats::indexes(catalog, around)
            }
            ("pg_catalog", "pg_statio_user_tables" | "pg_statio_all_tables") => {
                stats::blocks(catalog, self.of.columns.len())
            }
            ("pg_catalog", "pg_stats") => {
                // Values are shown to those only who may read the table.
                let tables = catalog.tables.values().filter(|table| {
                    let object = Object::Relation(table.oid);
                    let rights = around.identity.rights_to(catalog, object, Kind::Table);
                    rights.has(Rights::SELECT)
                });
                tables.flat_map(|table| statistics_rows(table, catalog)).collect()
            }
            ("pg_catalog", "pg_tables") => {
                let row = |table: &Arc<Table>| {
                    let owner = access.owner_name(Object::Relation(table.oid));
                    vec![text(&table.schema_name), text(&table.name), owner]
                };
                catalog.tables.values().map(row).collect()
            }
            ("pg_catalog", "pg_opclass") => opclass::rows(),
            ("pg_catalog", "pg_proc") => procedures::procedures(catalog, access),
            ("pg_catalog", "pg_language") => procedures::languages(OWNER),
            ("pg_catalog", "pg_views") => {
                let row = |view: &Arc<View>| {
                    let owner = access.owner_name(Object::Relation(view.oid));
                    Ok(vec![text(&view.schema), text(&view.name), owner, shown(view)?])
                };
                let owner = text(&role_name(around, OWNER));
                let own = own::views().map(|view| {
                    Ok(vec![text(ISOMER), text(view.of.name), owner.clone(), Datum::Null])
                });
                let views = catalog.views.values().map(row);
                views.chain(own).collect::<Result<_, SqlError>>()?
            }
            ("pg_catalog", "pg_indexes") => {
                let row = |table: &Arc<Table>| -> Vec<Vec<Datum>> {
                    let definition = |(name, definition): (String, String)| {
                        let schema = text(&table.schema_name);
                        vec![schema, text(&table.name), text(&name), text(&definition)]
                    };
                    index_definitions(table, false)
                        .into_iter()
                        .map(|(_, n, d)| definition((n, d)))
                        .collect()
                };
                catalog.tables.values().flat_map(row).collect()
            }
            ("pg_catalog", "pg_get_keywords") => {
                let row = |word: &&str| {
                    let word = Datum::Text(word.to_lowercase());
                    vec![word, text("U"), yes(true), text("unreserved"), text("")]
                };
                sqlparser::keywords::ALL_KEYWORDS.iter().map(row).collect()
            }
            ("information_schema", "routines") => {
                procedures::routines(catalog, around, self.of.columns)
            }
            ("information_schema", "character_sets") => vec![character_set()],
            ("information_schema", "table_privileges") => access.to_tables(&around.database, true),
            ("information_schema", "role_table_grants") => {
                access.to_tables(&around.database, false)
            }
            ("information_schema", "column_privileges") => access.to_columns(&around.database),
            ("information_schema", "enabled_roles") => {
                let who = &around.identity;
                let mut roles = who.roles().all().iter();
                let enabled = roles.by_ref().filter(|role| who.acts_as(role.oid as u32));
                enabled.map(|role| vec![text(&role.name)]).collect()
            }
            ("information_schema", "tables") => {
                let row = |name: &Name, kind: &str| {
                    vec![text(&around.database), text(&name.schema), text(&name.name), text(kind)]
                };
                let kind = |name: &Name| match name.schema == TEMPORARY {
                    true => "LOCAL TEMPORARY",
                    false => "BASE TABLE",
                };
                let tables = catalog.tables.keys().map(|name| row(name, kind(name)));
                let views = catalog.views.keys().cloned().chain(own::views().map(|own| own.name()));
                tables.chain(views.map(|name| row(&name, "VIEW"))).collect()
            }
            ("information_schema", "views") => {
                let row = |name: Name, definition: Datum| {
                    let mut row = [&*around.database, &name.schema, &name.name].map(text).to_vec();
                    row.extend([definition, text("NONE")]);
                    row.extend(["NO"; 5].map(text));
                    row
                };
                let made = |view: &Arc<View>| Ok(row(view.full_name(), shown(view)?));
                let own = own::views().map(|view| Ok(row(view.name(), Datum::Null)));
                let views = catalog.views.values().map(made);
                views.chain(own).collect::<Result<_, SqlError>>()?
            }
            ("information_schema", "columns") => {
                let rows = |table: &Arc<Table>| information_columns(table, catalog, around);
                let views = catalog.views.values();
                let views = views.flat_map(|view| information_view_columns(view, catalog, around));
                let own = own::views()
                    .flat_map(|view| own_columns(&view.name(), view.of.columns, catalog, around));
                catalog.tables.values().flat_map(rows).chain(views).chain(own).collect()
            }
            // A role sees the constraints of tables that it may write, and the keys of tables that
            // it may use.
            ("information_schema", "table_constraints") => {
                let all = constraints_of(catalog).filter(|one| access.may_write(one.table.oid));
                all.map(|one| one.row(around)).collect()
            }
            ("information_schema", "key_column_usage") => {
                let all = constraints_of(catalog).filter(|one| access.may_use(one.table.oid));
                all.flat_map(|one| one.key_columns(around)).collect()
            }
            ("information_schema", "constraint_column_usage") => {
                let all = constraints_of(catalog).filter(|one| access.owns(one.used().0.oid));
                all.flat_map(|one| one.used_columns(around)).collect()
            }
            ("information_schema", "referential_constraints") => {
                let all = constraints_of(catalog).filter(|one| access.may_write(one.table.oid));
                all.filter_map(|one| one.reference(around)).collect()
            }
            ("information_schema", "check_constraints") => {
                let domains = catalog.domains.values();
                let domains = domains.flat_map(|domain| domain_checks(domain, around));
                let all = constraints_of(catalog).filter(|one| access.owns(one.table.oid));
                all.filter_map(|one| one.check(around)).chain(domains).collect()
            }
            ("information_schema", "domains") => {
                let row = |domain: &Arc<Domain>| information_domain(domain, catalog, around);
                catalog.domains.values().map(row).collect()
            }
            ("information_schema", "domain_constraints") => {
                let rows = |domain: &Arc<Domain>| domain_constraints_of(domain, around);
                catalog.domains.values().flat_map(rows).collect()
            }
            ("information_schema", "sequences") => {
                catalog.sequences.values().filter_map(|one| sequences(one, around)).collect()
            }
            ("information_schema", "schemata") => {
                let row = |name: &str, owner| vec![text(&around.database), text(name), owner];
                let system = text(&role_name(around, OWNER));
                let own = SYSTEM.into_iter().map(|name| row(name, system.clone()));
                let made = catalog.schemas.values();
                let made =
                    made.map(|one| row(&one.name, access.owner_name(Object::Schema(one.oid))));
                own.chain(made).collect()
            }
            _ => Vec::new(),
        };
        let table = regclass(catalog, &format!("{}.{}", self.of.schema, self.of.name));
        let table = Datum::Int(table.unwrap_or(0));
        let with_table = |mut row: Vec<Datum>| {
            row.push(table.clone());
            row
        };
        Ok(rows.into_iter().map(with_table).collect())
    }
}

fn int(value: i64) -> Datum {
    Datum::Int(value)
}

fn text(value: &str) -> Datum {
    Datum::text(value)
}

fn yes(truth: bool) -> Datum {
    Datum::Bool(truth)
}

/// The oid of a schema.
fn schema_oid(catalog: &Catalog, name: &str) -> i64 {
    match name {
        TEMPORARY => OWN,
        name => catalog.schemas.get(name).map_or(0, |schema| schema.oid.into()),
    }
}

/// True for the oid of a system schema.
pub(crate) fn is_own_schema(oid: i64) -> bool {
    matches!(oid, PG_CATALOG | INFORMATION | OWN | own::ISOMER_OID)
}

/// The oid of the index of a primary key.
pub(crate) fn key_oid(table: &Table) -> i64 {
    i64::from(table.oid) + KEY_OID
}

/// The oid of the index of a primary key, as an unsigned number.
pub fn key_number(table: &Table) -> u32 {
    key_oid(table) as u32
}

/// The oid of a check constraint of a table.
pub(crate) fn check_oid(table: &Table, number: usize) -> i64 {
    2 * KEY_OID + i64::from(table.oid) * 64 + number as i64
}

/// The oid of the default of a column.
fn default_oid(table: &Table, column: usize) -> i64 {
    3 * KEY_OID + (i64::from(table.oid) * 1664 + column as i64) % KEY_OID
}

/// The sequence that row ids of a table come from.
pub fn row_id_sequence(table: TableId) -> String {
    format!("{} row id", table.0)
}
