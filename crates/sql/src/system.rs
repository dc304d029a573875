//! What the system says about itself, as tables: enough of `pg_catalog` and `information_schema` for
//! psql's `\d` family and for drivers, and the schema `isomer` about the design.
//!
//! Rows are made from the catalog when a query asks for them. Tables about things that Isomer does not
//! have (triggers, policies, publications, ..) are always empty: a query that joins one of them has no
//! rows, whatever it shows, and what it shows is not looked at ([`SystemTable::is_void`]).

mod definitions;
mod rows;

use crate::catalog::{Catalog, Table};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::transaction::Surroundings;
use crate::types::{ALL, SqlType};
use definitions::index_definitions;
pub(crate) use definitions::{constraint_definition, index_definition, regclass, relation_name};
use rows::{attributes, classes, constraints, defaults, indexes, information_columns, type_row};
use std::fmt;

const PG_CATALOG: i64 = 11;
const PUBLIC: i64 = 2200;
const ISOMER: i64 = 2201;
const INFORMATION: i64 = 2202;
const HEAP: i64 = 2;
const BTREE: i64 = 403;
const OWNER: i64 = 10;
const DATABASE: i64 = 5;
/// The keys of tables are constraints whose numbers are those of the tables, and this.
const KEY_OID: i64 = 1 << 30;

/// A table of the system.
#[derive(Clone, Copy)]
pub struct SystemTable {
    of: &'static Definition,
}

struct Definition {
    schema: &'static str,
    name: &'static str,
    columns: &'static [(&'static str, SqlType)],
}

impl fmt::Debug for SystemTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.of.schema, self.of.name)
    }
}

const I2: SqlType = SqlType::Int2;
const I4: SqlType = SqlType::Int4;
const I8: SqlType = SqlType::Int8;
const OID: SqlType = SqlType::Oid;
const NAME: SqlType = SqlType::Name;
const TEXT: SqlType = SqlType::Text;
const VECTOR: SqlType = SqlType::Int2Vector;
const VECTORS: SqlType = SqlType::Array(&SqlType::Int2);
const TEXTS: SqlType = SqlType::Array(&SqlType::Text);
const TSTZ: SqlType = SqlType::TimestampTz;
const BOOL: SqlType = SqlType::Bool;
const F8: SqlType = SqlType::Float8;

macro_rules! tables {
    ($($schema:literal $name:literal ($($column:literal $ty:ident),*))*) => {
        &[$(Definition { schema: $schema, name: $name, columns: &[$(($column, $ty)),*] }),*]
    };
}

static TABLES: &[Definition] = tables! {
    "pg_catalog" "pg_namespace" ("oid" OID, "nspname" NAME, "nspowner" OID, "nspacl" TEXT)
    "pg_catalog" "pg_class" ("oid" OID, "relname" NAME, "relnamespace" OID, "reltype" OID,
        "reloftype" OID, "relowner" OID, "relam" OID, "relfilenode" OID, "reltablespace" OID,
        "relpages" I4, "reltuples" F8, "reltoastrelid" OID, "relhasindex" BOOL, "relisshared" BOOL,
        "relpersistence" TEXT, "relkind" TEXT, "relnatts" I2, "relchecks" I2, "relhasrules" BOOL,
        "relhastriggers" BOOL, "relhassubclass" BOOL, "relrowsecurity" BOOL,
        "relforcerowsecurity" BOOL, "relispartition" BOOL, "relreplident" TEXT, "reloptions" TEXTS,
        "relacl" TEXT)
    "pg_catalog" "pg_attribute" ("attrelid" OID, "attname" NAME, "atttypid" OID, "attlen" I2,
        "attnum" I2, "atttypmod" I4, "attnotnull" BOOL, "atthasdef" BOOL, "attidentity" TEXT,
        "attgenerated" TEXT, "attisdropped" BOOL, "attcollation" OID, "attndims" I4,
        "attstattarget" I4, "attstorage" TEXT, "attcompression" TEXT, "attacl" TEXTS,
        "attfdwoptions" TEXT, "attoptions" TEXT)
    "pg_catalog" "pg_attrdef" ("oid" OID, "adrelid" OID, "adnum" I2, "adbin" TEXT)
    "pg_catalog" "pg_type" ("oid" OID, "typname" NAME, "typnamespace" OID, "typowner" OID,
        "typlen" I2, "typtype" TEXT, "typcategory" TEXT, "typrelid" OID, "typelem" OID,
        "typarray" OID, "typinput" TEXT, "typbasetype" OID, "typtypmod" I4, "typnotnull" BOOL,
        "typcollation" OID, "typdelim" TEXT, "typdefault" TEXT, "typacl" TEXT, "typoutput" TEXT)
    "pg_catalog" "pg_index" ("indexrelid" OID, "indrelid" OID, "indnatts" I2, "indisunique" BOOL,
        "indisprimary" BOOL, "indisclustered" BOOL, "indisvalid" BOOL, "indisreplident" BOOL,
        "indkey" VECTOR, "indexprs" TEXT, "indpred" TEXT, "indoption" VECTOR, "indnkeyatts" I2,
        "indimmediate" BOOL, "indnullsnotdistinct" BOOL, "indcollation" TEXT, "indclass" TEXT)
    "pg_catalog" "pg_constraint" ("oid" OID, "conname" NAME, "connamespace" OID, "contype" TEXT,
        "condeferrable" BOOL, "condeferred" BOOL, "conrelid" OID, "conindid" OID, "confrelid" OID,
        "conkey" VECTORS, "conparentid" OID, "confkey" VECTORS, "confupdtype" TEXT,
        "confdeltype" TEXT, "confmatchtype" TEXT, "convalidated" BOOL, "contypid" OID)
    "pg_catalog" "pg_am" ("oid" OID, "amname" NAME, "amtype" TEXT)
    "pg_catalog" "pg_database" ("oid" OID, "datname" NAME, "datdba" OID, "encoding" I4,
        "datcollate" TEXT, "datctype" TEXT, "datacl" TEXT, "datallowconn" BOOL,
        "datistemplate" BOOL, "daticulocale" TEXT, "datlocprovider" TEXT, "datconnlimit" I4)
    "pg_catalog" "pg_roles" ("oid" OID, "rolname" NAME, "rolsuper" BOOL, "rolcanlogin" BOOL,
        "rolinherit" BOOL, "rolcreaterole" BOOL, "rolcreatedb" BOOL, "rolreplication" BOOL,
        "rolbypassrls" BOOL, "rolconnlimit" I4, "rolvaliduntil" TSTZ)
    "pg_catalog" "pg_user" ("usename" NAME, "usesysid" OID, "usesuper" BOOL)
    "pg_catalog" "pg_settings" ("name" TEXT, "setting" TEXT, "category" TEXT, "short_desc" TEXT,
        "context" TEXT, "vartype" TEXT)
    "pg_catalog" "pg_tables" ("schemaname" NAME, "tablename" NAME, "tableowner" NAME)
    "pg_catalog" "pg_indexes" ("schemaname" NAME, "tablename" NAME, "indexname" NAME,
        "indexdef" TEXT)
    "pg_catalog" "pg_collation" ("oid" OID, "collname" NAME, "collnamespace" OID, "collencoding" I4,
        "collprovider" TEXT, "collcollate" TEXT, "collctype" TEXT, "colliculocale" TEXT,
        "collisdeterministic" BOOL)
    "pg_catalog" "pg_description" ("objoid" OID, "classoid" OID, "objsubid" I4, "description" TEXT)
    "pg_catalog" "pg_range" ("rngtypid" OID, "rngsubtype" OID)
    "pg_catalog" "pg_enum" ("oid" OID, "enumtypid" OID, "enumlabel" NAME)
    "pg_catalog" "pg_proc" ("oid" OID, "proname" NAME, "pronamespace" OID, "prokind" TEXT, "pronargs" I2,
        "proargtypes" VECTOR, "prorettype" OID, "proretset" BOOL, "prolang" OID, "proacl" TEXT,
        "proargnames" TEXT, "proargmodes" TEXT, "proallargtypes" TEXT)
    "pg_catalog" "pg_depend" ("classid" OID, "objid" OID, "refclassid" OID, "refobjid" OID,
        "refobjsubid" I4, "deptype" TEXT)
    "pg_catalog" "pg_get_keywords" ("word" TEXT, "catcode" TEXT, "barelabel" BOOL, "catdesc" TEXT,
        "baredesc" TEXT)
    "information_schema" "tables" ("table_catalog" NAME, "table_schema" NAME, "table_name" NAME,
        "table_type" TEXT)
    "information_schema" "columns" ("table_catalog" NAME, "table_schema" NAME, "table_name" NAME,
        "column_name" NAME, "ordinal_position" I4, "column_default" TEXT, "is_nullable" TEXT,
        "data_type" TEXT, "character_maximum_length" I4)
    "information_schema" "schemata" ("catalog_name" NAME, "schema_name" NAME)
    "isomer" "tables" ("name" TEXT, "partitions" I8, "masters" TEXT, "columns" I4, "indexes" I4)
    "isomer" "partitions" ("relation" TEXT, "first_key" TEXT, "end_key" TEXT, "master" TEXT,
        "replicas" TEXT)
    "isomer" "sites" ("site" TEXT, "masters" I8, "replicas" I8, "memory_bytes" I8,
        "log_frames" I8, "log_bytes" I8, "commits" I8, "coordinated" I8)
    "isomer" "changes" ("number" I8, "change" TEXT, "reason" TEXT, "took_us" F8)
    "isomer" "decisions" ("number" I8, "trigger" TEXT, "runs" TEXT, "change" TEXT, "reason" TEXT,
        "outcome" TEXT, "saves_us" F8, "costs_us" F8, "before_us" F8, "after_us" F8,
        "considered" TEXT)
    "isomer" "jobs" ("change" TEXT, "reason" TEXT, "state" TEXT, "for_us" F8)
};

/// Tables about what Isomer does not have.
static VOID: &[&str] = &[
    "pg_policy",
    "pg_statistic_ext",
    "pg_statistic_ext_data",
    "pg_publication",
    "pg_publication_rel",
    "pg_publication_namespace",
    "pg_inherits",
    "pg_trigger",
    "pg_rewrite",
    "pg_foreign_table",
    "pg_foreign_server",
    "pg_partitioned_table",
    "pg_event_trigger",
    "pg_extension",
    "pg_subscription",
    "pg_default_acl",
    "pg_seclabel",
    "pg_tablespace",
    "pg_sequence",
    "pg_cast",
    "pg_aggregate",
    "pg_operator",
    "pg_opclass",
    "pg_language",
    "pg_views",
    "pg_matviews",
    "pg_stat_activity",
    "pg_locks",
    "pg_db_role_setting",
    "pg_auth_members",
    "pg_foreign_data_wrapper",
    "pg_user_mapping",
    "pg_ts_config",
    "pg_ts_dict",
    "pg_ts_parser",
    "pg_ts_template",
    "pg_parameter_acl",
    "pg_conversion",
    "pg_opfamily",
    "pg_amop",
    "pg_amproc",
    "pg_largeobject_metadata",
];

/// What somebody else knows about the design.
pub trait DesignView: Send + Sync {
    /// The rows of a table of the schema `isomer`.
    fn rows(&self, table: &str, catalog: &Catalog) -> Vec<Vec<Datum>>;
}

/// What a session has set.
pub trait SettingsView: Send + Sync {
    /// The value of a setting, if there is one of this name.
    fn setting(&self, name: &str) -> Option<String>;

    /// All settings and their values.
    fn settings(&self) -> Vec<(String, String)>;
}

impl SystemTable {
    /// A table by its name; those of `pg_catalog` need no schema.
    pub fn find(schema: Option<&str>, name: &str) -> Option<SystemTable> {
        let schema = schema.unwrap_or("pg_catalog");
        let of = TABLES.iter().find(|table| table.schema == schema && table.name == name)?;
        Some(SystemTable { of })
    }

    /// True if the name is that of a table about something that Isomer does not have.
    pub fn is_void(schema: Option<&str>, name: &str) -> bool {
        schema.is_none_or(|schema| schema == "pg_catalog") && VOID.contains(&name)
    }

    /// Its columns.
    pub fn columns(self) -> &'static [(&'static str, SqlType)] {
        self.of.columns
    }

    /// Its rows.
    ///
    /// # Errors
    /// None so far.
    pub fn rows(
        self,
        catalog: &Catalog,
        around: &Surroundings,
    ) -> Result<Vec<Vec<Datum>>, SqlError> {
        let rows = match (self.of.schema, self.of.name) {
            ("isomer", name) => around.design.rows(name, catalog),
            ("pg_catalog", "pg_namespace") => {
                let all = [
                    (PG_CATALOG, "pg_catalog"),
                    (PUBLIC, "public"),
                    (ISOMER, "isomer"),
                    (INFORMATION, "information_schema"),
                ];
                let row = |(oid, name)| vec![int(oid), text(name), int(OWNER), Datum::Null];
                all.map(row).to_vec()
            }
            ("pg_catalog", "pg_class") => catalog.tables.values().flat_map(classes).collect(),
            ("pg_catalog", "pg_attribute") => {
                catalog.tables.values().flat_map(attributes).collect()
            }
            ("pg_catalog", "pg_attrdef") => catalog.tables.values().flat_map(defaults).collect(),
            ("pg_catalog", "pg_type") => {
                let arrays = ALL.iter().filter_map(|ty| ty.array());
                ALL.iter().copied().chain(arrays).map(type_row).collect()
            }
            ("pg_catalog", "pg_index") => catalog.tables.values().flat_map(indexes).collect(),
            ("pg_catalog", "pg_constraint") => {
                catalog.tables.values().flat_map(constraints).collect()
            }
            ("pg_catalog", "pg_am") => vec![
                vec![int(HEAP), text("heap"), text("t")],
                vec![int(BTREE), text("btree"), text("i")],
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
            ]],
            ("pg_catalog", "pg_roles") => {
                let role = vec![
                    int(OWNER),
                    text(&around.user),
                    yes(true),
                    yes(true),
                    yes(true),
                    yes(true),
                    yes(true),
                    yes(false),
                    yes(true),
                    int(-1),
                    Datum::Null,
                ];
                vec![role]
            }
            ("pg_catalog", "pg_user") => vec![vec![text(&around.user), int(OWNER), yes(true)]],
            ("pg_catalog", "pg_settings") => {
                let row = |(name, value): (String, String)| {
                    let blank = || text("");
                    vec![
                        Datum::Text(name),
                        Datum::Text(value),
                        blank(),
                        blank(),
                        text("user"),
                        text("string"),
                    ]
                };
                around.settings.settings().into_iter().map(row).collect()
            }
            ("pg_catalog", "pg_tables") => {
                let row = |table: &std::sync::Arc<Table>| {
                    vec![text("public"), text(&table.name), text(&around.user)]
                };
                catalog.tables.values().map(row).collect()
            }
            ("pg_catalog", "pg_indexes") => {
                let row = |table: &std::sync::Arc<Table>| -> Vec<Vec<Datum>> {
                    let definition = |(name, definition): (String, String)| {
                        vec![text("public"), text(&table.name), text(&name), text(&definition)]
                    };
                    index_definitions(table)
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
            ("information_schema", "tables") => {
                let row = |table: &std::sync::Arc<Table>| {
                    let name = text(&table.name);
                    vec![text(&around.database), text("public"), name, text("BASE TABLE")]
                };
                catalog.tables.values().map(row).collect()
            }
            ("information_schema", "columns") => {
                let rows = |table: &std::sync::Arc<Table>| information_columns(table, around);
                catalog.tables.values().flat_map(rows).collect()
            }
            ("information_schema", "schemata") => ["public", "isomer", "pg_catalog"]
                .map(|name| vec![text(&around.database), text(name)])
                .to_vec(),
            _ => Vec::new(),
        };
        Ok(rows)
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

/// The number of the index that a primary key counts as.
fn key_oid(table: &Table) -> i64 {
    i64::from(table.oid) + KEY_OID
}

/// The sequence that row ids of a table come from.
pub fn row_id_sequence(table: &Table) -> String {
    format!("{} row id", table.id.0)
}
