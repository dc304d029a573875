//! The list of system tables, and their columns.

use crate::types::{Reg, SqlType};

/// A system table: its schema, and its columns.
pub(super) struct Definition {
    pub(super) schema: &'static str,
    pub(super) name: &'static str,
    pub(super) columns: &'static [(&'static str, SqlType)],
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
const NAMES: SqlType = SqlType::Array(&SqlType::Name);
const BIGINTS: SqlType = SqlType::Array(&SqlType::Int8);
const TSTZ: SqlType = SqlType::TimestampTz;
const NUMBERS: SqlType = SqlType::Array(&SqlType::Oid);
const LETTERS: SqlType = SqlType::Array(&SqlType::Letter);
const KINDS: SqlType = SqlType::Array(&SqlType::Reg(Reg::Type));
const SPAN: SqlType = SqlType::Interval;
const DECIMAL: SqlType = SqlType::Numeric(None);
const PROC: SqlType = SqlType::Reg(Reg::Procedure);
const BYTES: SqlType = SqlType::Bytea;
const BOOL: SqlType = SqlType::Bool;
const LETTER: SqlType = SqlType::Letter;
const F4: SqlType = SqlType::Float4;
const F8: SqlType = SqlType::Float8;

macro_rules! tables {
    ($($schema:literal $name:literal ($($column:literal $ty:ident),*))*) => {
        &[$(Definition { schema: $schema, name: $name, columns: &[$(($column, $ty)),*] }),*]
    };
}

/// All of them.
pub(super) static TABLES: &[Definition] = tables! {
    "pg_catalog" "pg_namespace" ("oid" OID, "nspname" NAME, "nspowner" OID, "nspacl" TEXTS)
    "pg_catalog" "pg_class" ("oid" OID, "relname" NAME, "relnamespace" OID, "reltype" OID,
        "reloftype" OID, "relowner" OID, "relam" OID, "relfilenode" OID, "reltablespace" OID,
        "relpages" I4, "reltuples" F4, "reltoastrelid" OID, "relhasindex" BOOL, "relisshared" BOOL,
        "relpersistence" TEXT, "relkind" TEXT, "relnatts" I2, "relchecks" I2, "relhasrules" BOOL,
        "relhastriggers" BOOL, "relhassubclass" BOOL, "relrowsecurity" BOOL,
        "relforcerowsecurity" BOOL, "relispartition" BOOL, "relreplident" TEXT, "reloptions" TEXTS,
        "relacl" TEXTS, "relispopulated" BOOL, "relfrozenxid" OID, "relminmxid" OID)
    "pg_catalog" "pg_attribute" ("attrelid" OID, "attname" NAME, "atttypid" OID, "attlen" I2,
        "attnum" I2, "atttypmod" I4, "attnotnull" BOOL, "atthasdef" BOOL, "attidentity" TEXT,
        "attgenerated" TEXT, "attisdropped" BOOL, "attcollation" OID, "attndims" I4,
        "attstattarget" I4, "attstorage" TEXT, "attcompression" TEXT, "attacl" TEXTS,
        "attfdwoptions" TEXTS, "attoptions" TEXTS, "attalign" TEXT, "attislocal" BOOL,
        "attinhcount" I4, "atthasmissing" BOOL, "attmissingval" TEXT)
    "pg_catalog" "pg_attrdef" ("oid" OID, "adrelid" OID, "adnum" I2, "adbin" TEXT)
    "pg_catalog" "pg_type" ("oid" OID, "typname" NAME, "typnamespace" OID, "typowner" OID,
        "typlen" I2, "typtype" LETTER, "typcategory" LETTER, "typrelid" OID, "typelem" OID,
        "typarray" OID, "typinput" TEXT, "typbasetype" OID, "typtypmod" I4, "typnotnull" BOOL,
        "typcollation" OID, "typdelim" LETTER, "typdefault" TEXT, "typacl" TEXTS, "typoutput" TEXT,
        "typisdefined" BOOL, "typstorage" LETTER, "typdefaultbin" TEXT, "typndims" I4)
    "pg_catalog" "pg_index" ("indexrelid" OID, "indrelid" OID, "indnatts" I2, "indisunique" BOOL,
        "indisprimary" BOOL, "indisclustered" BOOL, "indisvalid" BOOL, "indisreplident" BOOL,
        "indkey" VECTOR, "indexprs" TEXT, "indpred" TEXT, "indoption" VECTOR, "indnkeyatts" I2,
        "indimmediate" BOOL, "indnullsnotdistinct" BOOL, "indcollation" VECTOR, "indclass" VECTOR,
        "indisready" BOOL)
    "pg_catalog" "pg_constraint" ("oid" OID, "conname" NAME, "connamespace" OID, "contype" TEXT,
        "condeferrable" BOOL, "condeferred" BOOL, "conrelid" OID, "conindid" OID, "confrelid" OID,
        "conkey" VECTORS, "conparentid" OID, "confkey" VECTORS, "confupdtype" TEXT,
        "confdeltype" TEXT, "confmatchtype" TEXT, "convalidated" BOOL, "contypid" OID,
        "conislocal" BOOL, "coninhcount" I4)
    "pg_catalog" "pg_am" ("oid" OID, "amname" NAME, "amtype" TEXT, "amhandler" OID)
    "pg_catalog" "pg_database" ("oid" OID, "datname" NAME, "datdba" OID, "encoding" I4,
        "datcollate" TEXT, "datctype" TEXT, "datacl" TEXT, "datallowconn" BOOL,
        "datistemplate" BOOL, "daticulocale" TEXT, "datlocprovider" TEXT, "datconnlimit" I4,
        "dattablespace" OID, "datfrozenxid" OID, "datminmxid" OID, "datcollversion" TEXT)
    "pg_catalog" "pg_roles" ("oid" OID, "rolname" NAME, "rolsuper" BOOL, "rolcanlogin" BOOL,
        "rolinherit" BOOL, "rolcreaterole" BOOL, "rolcreatedb" BOOL, "rolreplication" BOOL,
        "rolbypassrls" BOOL, "rolconnlimit" I4, "rolvaliduntil" TSTZ, "rolpassword" TEXT)
    "pg_catalog" "pg_authid" ("oid" OID, "rolname" NAME, "rolsuper" BOOL, "rolinherit" BOOL,
        "rolcreaterole" BOOL, "rolcreatedb" BOOL, "rolcanlogin" BOOL, "rolreplication" BOOL,
        "rolbypassrls" BOOL, "rolconnlimit" I4, "rolpassword" TEXT, "rolvaliduntil" TSTZ)
    "pg_catalog" "pg_auth_members" ("roleid" OID, "member" OID, "grantor" OID, "admin_option" BOOL)
    "pg_catalog" "pg_user" ("usename" NAME, "usesysid" OID, "usecreatedb" BOOL, "usesuper" BOOL,
        "userepl" BOOL, "usebypassrls" BOOL, "passwd" TEXT, "valuntil" TSTZ, "useconfig" TEXTS)
    "pg_catalog" "pg_settings" ("name" TEXT, "setting" TEXT, "unit" TEXT, "category" TEXT,
        "short_desc" TEXT, "extra_desc" TEXT, "context" TEXT, "vartype" TEXT, "source" TEXT,
        "min_val" TEXT, "max_val" TEXT, "enumvals" TEXTS, "boot_val" TEXT, "reset_val" TEXT,
        "sourcefile" TEXT, "sourceline" I4, "pending_restart" BOOL)
    "pg_catalog" "pg_stats" ("schemaname" NAME, "tablename" NAME, "attname" NAME,
        "inherited" BOOL, "null_frac" F4, "avg_width" I4, "n_distinct" F4,
        "most_common_vals" TEXT, "most_common_freqs" TEXT, "histogram_bounds" TEXT,
        "correlation" F4)
    "pg_catalog" "pg_tables" ("schemaname" NAME, "tablename" NAME, "tableowner" NAME)
    "pg_catalog" "pg_statio_all_tables" ("relid" OID, "schemaname" NAME, "relname" NAME,
        "heap_blks_read" I8, "heap_blks_hit" I8, "idx_blks_read" I8, "idx_blks_hit" I8,
        "toast_blks_read" I8, "toast_blks_hit" I8, "tidx_blks_read" I8, "tidx_blks_hit" I8)
    "pg_catalog" "pg_views" ("schemaname" NAME, "viewname" NAME, "viewowner" NAME,
        "definition" TEXT)
    "pg_catalog" "pg_indexes" ("schemaname" NAME, "tablename" NAME, "indexname" NAME,
        "indexdef" TEXT)
    "pg_catalog" "pg_collation" ("oid" OID, "collname" NAME, "collnamespace" OID, "collencoding" I4,
        "collprovider" TEXT, "collcollate" TEXT, "collctype" TEXT, "colliculocale" TEXT,
        "collisdeterministic" BOOL, "collowner" OID)
    "pg_catalog" "pg_description" ("objoid" OID, "classoid" OID, "objsubid" I4, "description" TEXT)
    "pg_catalog" "pg_range" ("rngtypid" OID, "rngsubtype" OID, "rngmultitypid" OID)
    "pg_catalog" "pg_enum" ("oid" OID, "enumtypid" OID, "enumsortorder" F4,
        "enumlabel" NAME)
    "pg_catalog" "pg_opclass" ("oid" OID, "opcmethod" OID, "opcname" NAME, "opcnamespace" OID,
        "opcowner" OID, "opcfamily" OID, "opcintype" OID, "opcdefault" BOOL, "opckeytype" OID)
    "pg_catalog" "pg_proc" ("oid" OID, "proname" NAME, "pronamespace" OID, "prokind" TEXT, "pronargs" I2,
        "proargtypes" VECTOR, "prorettype" OID, "proretset" BOOL, "prolang" OID, "proacl" TEXTS,
        "proargnames" TEXTS, "proargmodes" TEXT, "proallargtypes" TEXT, "proowner" OID,
        "prosrc" TEXT, "probin" TEXT, "provolatile" TEXT, "proisstrict" BOOL, "prosecdef" BOOL,
        "proleakproof" BOOL, "proparallel" TEXT, "procost" F4, "prorows" F4, "prosupport" TEXT,
        "provariadic" OID, "pronargdefaults" I2, "proargdefaults" TEXT, "proconfig" TEXTS,
        "protrftypes" VECTORS, "prosqlbody" TEXT)
    "pg_catalog" "pg_language" ("oid" OID, "lanname" NAME, "lanowner" OID, "lanispl" BOOL,
        "lanpltrusted" BOOL, "lanplcallfoid" OID, "laninline" OID, "lanvalidator" OID,
        "lanacl" TEXTS)
    "pg_catalog" "pg_tablespace" ("oid" OID, "spcname" NAME, "spcowner" OID, "spcacl" TEXTS,
        "spcoptions" TEXTS)
    "pg_catalog" "pg_init_privs" ("objoid" OID, "classoid" OID, "objsubid" I4, "privtype" TEXT,
        "initprivs" TEXTS)
    "pg_catalog" "pg_extension" ("oid" OID, "extname" NAME, "extowner" OID, "extnamespace" OID,
        "extrelocatable" BOOL, "extversion" TEXT, "extconfig" TEXTS, "extcondition" TEXTS)
    "pg_catalog" "pg_available_extensions" ("name" NAME, "default_version" TEXT,
        "installed_version" TEXT, "comment" TEXT)
    "pg_catalog" "pg_available_extension_versions" ("name" NAME, "version" TEXT, "installed" BOOL,
        "superuser" BOOL, "trusted" BOOL, "relocatable" BOOL, "schema" NAME, "requires" NAMES,
        "comment" TEXT)
    "pg_catalog" "pg_inherits" ("inhrelid" OID, "inhparent" OID, "inhseqno" I4,
        "inhdetachpending" BOOL)
    "pg_catalog" "pg_depend" ("classid" OID, "objid" OID, "objsubid" I4, "refclassid" OID,
        "refobjid" OID, "refobjsubid" I4, "deptype" TEXT)
    "pg_catalog" "pg_sequence" ("seqrelid" OID, "seqtypid" OID, "seqstart" I8, "seqincrement" I8,
        "seqmax" I8, "seqmin" I8, "seqcache" I8, "seqcycle" BOOL)
    "pg_catalog" "pg_sequences" ("schemaname" NAME, "sequencename" NAME, "sequenceowner" NAME,
        "data_type" TEXT, "start_value" I8, "min_value" I8, "max_value" I8, "increment_by" I8,
        "cycle" BOOL, "cache_size" I8, "last_value" I8)
    "pg_catalog" "pg_get_keywords" ("word" TEXT, "catcode" TEXT, "barelabel" BOOL, "catdesc" TEXT,
        "baredesc" TEXT)
    "information_schema" "table_privileges" ("grantor" NAME, "grantee" NAME, "table_catalog" NAME,
        "table_schema" NAME, "table_name" NAME, "privilege_type" TEXT, "is_grantable" TEXT,
        "with_hierarchy" TEXT)
    "information_schema" "role_table_grants" ("grantor" NAME, "grantee" NAME, "table_catalog" NAME,
        "table_schema" NAME, "table_name" NAME, "privilege_type" TEXT, "is_grantable" TEXT,
        "with_hierarchy" TEXT)
    "information_schema" "column_privileges" ("grantor" NAME, "grantee" NAME, "table_catalog" NAME,
        "table_schema" NAME, "table_name" NAME, "column_name" NAME, "privilege_type" TEXT,
        "is_grantable" TEXT)
    "information_schema" "enabled_roles" ("role_name" NAME)
    "information_schema" "tables" ("table_catalog" NAME, "table_schema" NAME, "table_name" NAME,
        "table_type" TEXT)
    "information_schema" "columns" ("table_catalog" NAME, "table_schema" NAME, "table_name" NAME,
        "column_name" NAME, "ordinal_position" I4, "column_default" TEXT, "is_nullable" TEXT,
        "data_type" TEXT, "character_maximum_length" I4, "numeric_precision" I4,
        "numeric_precision_radix" I4, "numeric_scale" I4, "datetime_precision" I4,
        "udt_catalog" NAME, "udt_schema" NAME, "udt_name" NAME, "is_identity" TEXT,
        "identity_generation" TEXT, "is_generated" TEXT, "generation_expression" TEXT,
        "is_updatable" TEXT, "collation_name" NAME, "identity_start" TEXT,
        "identity_increment" TEXT, "identity_maximum" TEXT, "identity_minimum" TEXT,
        "identity_cycle" TEXT, "domain_catalog" NAME, "domain_schema" NAME, "domain_name" NAME)
    "information_schema" "domains" ("domain_catalog" NAME, "domain_schema" NAME,
        "domain_name" NAME, "data_type" TEXT, "character_maximum_length" I4,
        "numeric_precision" I4, "numeric_precision_radix" I4, "numeric_scale" I4,
        "datetime_precision" I4, "domain_default" TEXT, "udt_catalog" NAME, "udt_schema" NAME,
        "udt_name" NAME)
    "information_schema" "domain_constraints" ("constraint_catalog" NAME,
        "constraint_schema" NAME, "constraint_name" NAME, "domain_catalog" NAME,
        "domain_schema" NAME, "domain_name" NAME, "is_deferrable" TEXT,
        "initially_deferred" TEXT)
    "information_schema" "table_constraints" ("constraint_catalog" NAME, "constraint_schema" NAME,
        "constraint_name" NAME, "table_catalog" NAME, "table_schema" NAME, "table_name" NAME,
        "constraint_type" TEXT, "is_deferrable" TEXT, "initially_deferred" TEXT, "enforced" TEXT,
        "nulls_distinct" TEXT)
    "information_schema" "key_column_usage" ("constraint_catalog" NAME, "constraint_schema" NAME,
        "constraint_name" NAME, "table_catalog" NAME, "table_schema" NAME, "table_name" NAME,
        "column_name" NAME, "ordinal_position" I4, "position_in_unique_constraint" I4)
    "information_schema" "constraint_column_usage" ("table_catalog" NAME, "table_schema" NAME,
        "table_name" NAME, "column_name" NAME, "constraint_catalog" NAME, "constraint_schema" NAME,
        "constraint_name" NAME)
    "information_schema" "check_constraints" ("constraint_catalog" NAME, "constraint_schema" NAME,
        "constraint_name" NAME, "check_clause" TEXT)
    "information_schema" "referential_constraints" ("constraint_catalog" NAME,
        "constraint_schema" NAME, "constraint_name" NAME, "unique_constraint_catalog" NAME,
        "unique_constraint_schema" NAME, "unique_constraint_name" NAME, "match_option" TEXT,
        "update_rule" TEXT, "delete_rule" TEXT)
    "information_schema" "sequences" ("sequence_catalog" NAME, "sequence_schema" NAME,
        "sequence_name" NAME, "data_type" TEXT, "numeric_precision" I4,
        "numeric_precision_radix" I4, "numeric_scale" I4, "start_value" TEXT,
        "minimum_value" TEXT, "maximum_value" TEXT, "increment" TEXT, "cycle_option" TEXT)
    "information_schema" "views" ("table_catalog" NAME, "table_schema" NAME, "table_name" NAME,
        "view_definition" TEXT, "check_option" TEXT, "is_updatable" TEXT,
        "is_insertable_into" TEXT, "is_trigger_updatable" TEXT, "is_trigger_deletable" TEXT,
        "is_trigger_insertable_into" TEXT)
    "pg_catalog" "pg_cursors" ("name" TEXT, "statement" TEXT, "is_holdable" BOOL,
        "is_binary" BOOL, "is_scrollable" BOOL, "creation_time" TSTZ)
    "pg_catalog" "pg_stat_activity" ("datid" OID, "datname" NAME, "pid" I4, "leader_pid" I4,
        "usesysid" OID, "usename" NAME, "application_name" TEXT, "client_addr" TEXT,
        "client_hostname" TEXT, "client_port" I4, "backend_start" TSTZ, "xact_start" TSTZ,
        "query_start" TSTZ, "state_change" TSTZ, "wait_event_type" TEXT, "wait_event" TEXT,
        "state" TEXT, "backend_xid" I8, "backend_xmin" I8, "query_id" I8, "query" TEXT,
        "backend_type" TEXT)
    "pg_catalog" "pg_stat_database" ("datid" OID, "datname" NAME, "numbackends" I4,
        "xact_commit" I8, "xact_rollback" I8, "blks_read" I8, "blks_hit" I8, "tup_returned" I8,
        "tup_fetched" I8, "tup_inserted" I8, "tup_updated" I8, "tup_deleted" I8, "conflicts" I8,
        "temp_files" I8, "temp_bytes" I8, "deadlocks" I8, "checksum_failures" I8,
        "checksum_last_failure" TSTZ, "blk_read_time" F8, "blk_write_time" F8, "session_time" F8,
        "active_time" F8, "idle_in_transaction_time" F8, "sessions" I8, "sessions_abandoned" I8,
        "sessions_fatal" I8, "sessions_killed" I8, "stats_reset" TSTZ)
    "pg_catalog" "pg_stat_user_tables" ("relid" OID, "schemaname" NAME, "relname" NAME,
        "seq_scan" I8, "seq_tup_read" I8, "idx_scan" I8, "idx_tup_fetch" I8, "n_tup_ins" I8,
        "n_tup_upd" I8, "n_tup_del" I8, "n_tup_hot_upd" I8, "n_live_tup" I8, "n_dead_tup" I8,
        "n_mod_since_analyze" I8, "n_ins_since_vacuum" I8, "last_vacuum" TSTZ,
        "last_autovacuum" TSTZ, "last_analyze" TSTZ, "last_autoanalyze" TSTZ, "vacuum_count" I8,
        "autovacuum_count" I8, "analyze_count" I8, "autoanalyze_count" I8)
    "pg_catalog" "pg_stat_all_tables" ("relid" OID, "schemaname" NAME, "relname" NAME,
        "seq_scan" I8, "seq_tup_read" I8, "idx_scan" I8, "idx_tup_fetch" I8, "n_tup_ins" I8,
        "n_tup_upd" I8, "n_tup_del" I8, "n_tup_hot_upd" I8, "n_live_tup" I8, "n_dead_tup" I8,
        "n_mod_since_analyze" I8, "n_ins_since_vacuum" I8, "last_vacuum" TSTZ,
        "last_autovacuum" TSTZ, "last_analyze" TSTZ, "last_autoanalyze" TSTZ, "vacuum_count" I8,
        "autovacuum_count" I8, "analyze_count" I8, "autoanalyze_count" I8)
    "pg_catalog" "pg_stat_statements" ("dbid" OID, "queryid" I8, "query" TEXT, "calls" I8,
        "total_exec_time" F8, "min_exec_time" F8, "max_exec_time" F8, "mean_exec_time" F8,
        "rows" I8, "errors" I8, "commits" I8, "at_one_site_percent" F8, "last_commit" TEXT,
        "last" TSTZ, "transactions" I8, "sites" F8, "rows_shipped" I8)
    "pg_catalog" "pg_locks" ("locktype" TEXT, "database" OID, "relation" OID, "page" I4,
        "tuple" I2, "virtualxid" TEXT, "transactionid" I8, "classid" OID, "objid" OID,
        "objsubid" I2, "virtualtransaction" TEXT, "pid" I4, "mode" TEXT, "granted" BOOL,
        "fastpath" BOOL, "waitstart" TSTZ)
    "information_schema" "schemata" ("catalog_name" NAME, "schema_name" NAME,
        "schema_owner" NAME)
    "isomer" "tables" ("name" TEXT, "partitions" I8, "masters" TEXT, "columns" I4, "indexes" I4,
        "backups" TEXT, "shard_by" TEXT, "isolation" TEXT, "autopilot" TEXT)
    "isomer" "partitions" ("relation" TEXT, "first_key" TEXT, "end_key" TEXT, "master" TEXT,
        "replicas" TEXT, "pinned" BOOL, "rows_moved" I8)
    "isomer" "fused" ("relation" TEXT, "key" TEXT, "home" TEXT, "site" TEXT)
    "isomer" "order_hashes" ("relation" TEXT, "first_key" TEXT, "site" TEXT, "is_master" BOOL,
        "rows" I8, "hash" TEXT)
    "isomer" "sites" ("site" TEXT, "masters" I8, "replicas" I8, "memory_bytes" I8,
        "memory_max" I8, "busy" F8, "log_frames" I8, "log_bytes" I8, "commits" I8, "coordinated" I8, "health" TEXT,
        "zone" TEXT)
    "isomer" "checkpoints" ("site" TEXT, "running" BOOL, "bytes_done" I8, "last_begin" TSTZ,
        "last_end" TSTZ, "last_ms" F8, "last_bytes" I8, "log_bytes" I8, "log_bytes_kept" I8,
        "error" TEXT)
    "isomer" "changes" ("number" I8, "change" TEXT, "reason" TEXT, "took_us" F8, "at" TSTZ, "relation" TEXT,
        "first_key" TEXT)
    "isomer" "decisions" ("number" I8, "trigger" TEXT, "runs" TEXT, "changes" I8, "change" TEXT,
        "reason" TEXT, "outcome" TEXT, "foretold_us" F8, "measured_us" F8, "before_us" F8,
        "after_us" F8, "costs_us" F8, "taken_back_by" I8, "considered" TEXT, "at" TSTZ)
    "isomer" "proposals" ("number" I8, "state" TEXT, "proposed" TSTZ, "expires" TSTZ, "reason" TEXT,
        "changes" I8, "plan" TEXT, "saves_us" F8, "costs_us" F8, "decided" TSTZ, "decided_by" TEXT,
        "because" TEXT, "outcome" TEXT, "reconfiguration" I8, "decision" I8, "proposed_by" TEXT,
        "before_transactions" I8, "before_at_one_site_percent" F8, "before_mean_us" F8, "before_p99_us" F8,
        "after_transactions" I8, "after_at_one_site_percent" F8, "after_mean_us" F8, "after_p99_us" F8)
    "isomer" "heat" ("relation" TEXT, "first_key" TEXT, "end_key" TEXT, "partition" TEXT, "master" TEXT,
        "since" TSTZ, "seconds" I4, "reads" BIGINTS, "writes" BIGINTS)
    "isomer" "statements" ("query" TEXT, "calls" I8, "errors" I8, "total_ms" F8, "mean_ms" F8, "max_ms" F8,
        "commits" I8, "at_one_site_percent" F8, "last_commit" TEXT, "last" TSTZ, "min_ms" F8, "rows" I8,
        "across" TEXT, "transactions" I8, "sites" F8, "rows_shipped" I8)
    "isomer" "all_statements" ("query" TEXT, "calls" I8, "errors" I8, "total_ms" F8, "mean_ms" F8, "max_ms" F8,
        "commits" I8, "at_one_site_percent" F8, "last_commit" TEXT, "last" TSTZ, "min_ms" F8, "rows" I8,
        "across" TEXT, "transactions" I8, "sites" F8, "rows_shipped" I8)
    "isomer" "copies" ("relation" TEXT, "first_key" TEXT, "end_key" TEXT, "site" TEXT, "is_master" BOOL,
        "rows" I8, "bytes" I8, "lag_ms" F8, "reads_per_second" F8, "writes_per_second" F8)
    "isomer" "settings" ("name" TEXT, "value" TEXT, "meaning" TEXT)
    "isomer" "gateways" ("name" TEXT, "has_conductor" BOOL, "silent_ms" F8, "news_behind" I8,
        "lock_waits" I8, "misses" I8)
    "isomer" "failovers" ("at" TSTZ, "site" TEXT, "event" TEXT)
    "isomer" "audit" ("at" TSTZ, "user_name" TEXT, "client" TEXT, "action" TEXT, "outcome" TEXT)
    "isomer" "reconfigurations" ("number" I8, "reason" TEXT, "state" TEXT, "changes" I8, "made" I8,
        "rows" I8, "next" TEXT, "begun" TSTZ, "ended" TSTZ, "error" TEXT, "plan" TEXT, "bytes" I8,
        "ends" TSTZ, "quiet_p99_us" F8, "p99_us" F8, "reversible" BOOL)
    "isomer" "jobs" ("change" TEXT, "reason" TEXT, "state" TEXT, "for_us" F8)
    "isomer" "benefit" ("decisions" I8, "measured" I8, "median_error_percent" F8,
        "as_foretold_percent" F8, "taken_back_percent" F8)
    "isomer" "autopilot" ("strategy" TEXT, "mode" TEXT, "processor_percent_max" F8,
        "processor_percent" F8, "processor_ms" F8, "passes" I8, "samples" I8)
    "isomer" "all_metrics" ("process" TEXT, "name" TEXT, "labels" TEXT, "kind" TEXT, "value" F8, "help" TEXT)
    "isomer" "metrics" ("name" TEXT, "labels" TEXT, "kind" TEXT, "value" F8, "help" TEXT)
    "isomer" "advice" ("planner" TEXT, "transactions" I8, "seconds" F8, "across_percent" F8,
        "across_percent_after" F8, "imbalance" F8, "imbalance_after" F8, "changes" I8, "plan" TEXT, "notes" TEXT)
    "isomer" "shard_keys" ("relation" TEXT, "column" TEXT, "is_current" BOOL, "transactions" I8, "accesses" I8,
        "cardinality" I8, "hottest_percent" F8, "monotonicity" F8, "at_one_site_percent" F8, "imbalance" F8,
        "moved_percent" F8, "score" F8, "statement" TEXT)
    "pg_catalog" "pg_policy" ("oid" OID, "polname" NAME, "polrelid" OID, "polcmd" LETTER,
        "polpermissive" BOOL, "polroles" NUMBERS, "polqual" TEXT, "polwithcheck" TEXT)
    "pg_catalog" "pg_statistic_ext" ("oid" OID, "stxrelid" OID, "stxname" NAME, "stxnamespace" OID,
        "stxowner" OID, "stxstattarget" I4, "stxkeys" VECTOR, "stxkind" LETTERS, "stxexprs" TEXT)
    "pg_catalog" "pg_statistic_ext_data" ("stxoid" OID, "stxdinherit" BOOL, "stxdndistinct" TEXT,
        "stxddependencies" TEXT, "stxdmcv" TEXT, "stxdexpr" TEXTS)
    "pg_catalog" "pg_publication" ("oid" OID, "pubname" NAME, "pubowner" OID, "puballtables" BOOL,
        "pubinsert" BOOL, "pubupdate" BOOL, "pubdelete" BOOL, "pubtruncate" BOOL, "pubviaroot" BOOL)
    "pg_catalog" "pg_publication_rel" ("oid" OID, "prpubid" OID, "prrelid" OID, "prqual" TEXT,
        "prattrs" VECTOR)
    "pg_catalog" "pg_publication_namespace" ("oid" OID, "pnpubid" OID, "pnnspid" OID)
    "pg_catalog" "pg_trigger" ("oid" OID, "tgrelid" OID, "tgparentid" OID, "tgname" NAME,
        "tgfoid" OID, "tgtype" I2, "tgenabled" LETTER, "tgisinternal" BOOL, "tgconstrrelid" OID,
        "tgconstrindid" OID, "tgconstraint" OID, "tgdeferrable" BOOL, "tginitdeferred" BOOL,
        "tgnargs" I2, "tgattr" VECTOR, "tgargs" BYTES, "tgqual" TEXT, "tgoldtable" NAME,
        "tgnewtable" NAME)
    "pg_catalog" "pg_rewrite" ("oid" OID, "rulename" NAME, "ev_class" OID, "ev_type" LETTER,
        "ev_enabled" LETTER, "is_instead" BOOL, "ev_qual" TEXT, "ev_action" TEXT)
    "pg_catalog" "pg_foreign_table" ("ftrelid" OID, "ftserver" OID, "ftoptions" TEXTS)
    "pg_catalog" "pg_foreign_server" ("oid" OID, "srvname" NAME, "srvowner" OID, "srvfdw" OID,
        "srvtype" TEXT, "srvversion" TEXT, "srvacl" TEXTS, "srvoptions" TEXTS)
    "pg_catalog" "pg_partitioned_table" ("partrelid" OID, "partstrat" LETTER, "partnatts" I2,
        "partdefid" OID, "partattrs" VECTOR, "partclass" VECTOR, "partcollation" VECTOR,
        "partexprs" TEXT)
    "pg_catalog" "pg_event_trigger" ("oid" OID, "evtname" NAME, "evtevent" NAME, "evtowner" OID,
        "evtfoid" OID, "evtenabled" LETTER, "evttags" TEXTS)
    "pg_catalog" "pg_subscription" ("oid" OID, "subdbid" OID, "subskiplsn" TEXT, "subname" NAME,
        "subowner" OID, "subenabled" BOOL, "subbinary" BOOL, "substream" BOOL,
        "subtwophasestate" LETTER, "subdisableonerr" BOOL, "subconninfo" TEXT, "subslotname" NAME,
        "subsynccommit" TEXT, "subpublications" TEXTS)
    "pg_catalog" "pg_default_acl" ("oid" OID, "defaclrole" OID, "defaclnamespace" OID,
        "defaclobjtype" LETTER, "defaclacl" TEXTS)
    "pg_catalog" "pg_seclabel" ("objoid" OID, "classoid" OID, "objsubid" I4, "provider" TEXT,
        "label" TEXT)
    "pg_catalog" "pg_cast" ("oid" OID, "castsource" OID, "casttarget" OID, "castfunc" OID,
        "castcontext" LETTER, "castmethod" LETTER)
    "pg_catalog" "pg_aggregate" ("aggfnoid" PROC, "aggkind" LETTER, "aggnumdirectargs" I2,
        "aggtransfn" PROC, "aggfinalfn" PROC, "aggcombinefn" PROC, "aggserialfn" PROC,
        "aggdeserialfn" PROC, "aggmtransfn" PROC, "aggminvtransfn" PROC, "aggmfinalfn" PROC,
        "aggfinalextra" BOOL, "aggmfinalextra" BOOL, "aggfinalmodify" LETTER,
        "aggmfinalmodify" LETTER, "aggsortop" OID, "aggtranstype" OID, "aggtransspace" I4,
        "aggmtranstype" OID, "aggmtransspace" I4, "agginitval" TEXT, "aggminitval" TEXT)
    "pg_catalog" "pg_operator" ("oid" OID, "oprname" NAME, "oprnamespace" OID, "oprowner" OID,
        "oprkind" LETTER, "oprcanmerge" BOOL, "oprcanhash" BOOL, "oprleft" OID, "oprright" OID,
        "oprresult" OID, "oprcom" OID, "oprnegate" OID, "oprcode" PROC, "oprrest" PROC,
        "oprjoin" PROC)
    "pg_catalog" "pg_matviews" ("schemaname" NAME, "matviewname" NAME, "matviewowner" NAME,
        "tablespace" NAME, "hasindexes" BOOL, "ispopulated" BOOL, "definition" TEXT)
    "pg_catalog" "pg_db_role_setting" ("setdatabase" OID, "setrole" OID, "setconfig" TEXTS)
    "pg_catalog" "pg_foreign_data_wrapper" ("oid" OID, "fdwname" NAME, "fdwowner" OID,
        "fdwhandler" OID, "fdwvalidator" OID, "fdwacl" TEXTS, "fdwoptions" TEXTS)
    "pg_catalog" "pg_user_mapping" ("oid" OID, "umuser" OID, "umserver" OID, "umoptions" TEXTS)
    "pg_catalog" "pg_ts_config" ("oid" OID, "cfgname" NAME, "cfgnamespace" OID, "cfgowner" OID,
        "cfgparser" OID)
    "pg_catalog" "pg_ts_dict" ("oid" OID, "dictname" NAME, "dictnamespace" OID, "dictowner" OID,
        "dicttemplate" OID, "dictinitoption" TEXT)
    "pg_catalog" "pg_ts_parser" ("oid" OID, "prsname" NAME, "prsnamespace" OID, "prsstart" PROC,
        "prstoken" PROC, "prsend" PROC, "prsheadline" PROC, "prslextype" PROC)
    "pg_catalog" "pg_ts_template" ("oid" OID, "tmplname" NAME, "tmplnamespace" OID, "tmplinit" PROC,
        "tmpllexize" PROC)
    "pg_catalog" "pg_parameter_acl" ("oid" OID, "parname" TEXT, "paracl" TEXTS)
    "pg_catalog" "pg_conversion" ("oid" OID, "conname" NAME, "connamespace" OID, "conowner" OID,
        "conforencoding" I4, "contoencoding" I4, "conproc" PROC, "condefault" BOOL)
    "pg_catalog" "pg_opfamily" ("oid" OID, "opfmethod" OID, "opfname" NAME, "opfnamespace" OID,
        "opfowner" OID)
    "pg_catalog" "pg_amop" ("oid" OID, "amopfamily" OID, "amoplefttype" OID, "amoprighttype" OID,
        "amopstrategy" I2, "amoppurpose" LETTER, "amopopr" OID, "amopmethod" OID,
        "amopsortfamily" OID)
    "pg_catalog" "pg_amproc" ("oid" OID, "amprocfamily" OID, "amproclefttype" OID,
        "amprocrighttype" OID, "amprocnum" I2, "amproc" PROC)
    "pg_catalog" "pg_largeobject_metadata" ("oid" OID, "lomowner" OID, "lomacl" TEXTS)
    "pg_catalog" "pg_transform" ("oid" OID, "trftype" OID, "trflang" OID, "trffromsql" PROC,
        "trftosql" PROC)
    "pg_catalog" "pg_seclabels" ("objoid" OID, "classoid" OID, "objsubid" I4, "objtype" TEXT,
        "objnamespace" OID, "objname" TEXT, "provider" TEXT, "label" TEXT)
    "pg_catalog" "pg_shseclabel" ("objoid" OID, "classoid" OID, "provider" TEXT, "label" TEXT)
    "pg_catalog" "pg_user_mappings" ("umid" OID, "srvid" OID, "srvname" NAME, "umuser" OID,
        "usename" NAME, "umoptions" TEXTS)
    "pg_catalog" "pg_shadow" ("usename" NAME, "usesysid" OID, "usecreatedb" BOOL, "usesuper" BOOL,
        "userepl" BOOL, "usebypassrls" BOOL, "passwd" TEXT, "valuntil" TSTZ, "useconfig" TEXTS)
    "pg_catalog" "pg_group" ("groname" NAME, "grosysid" OID, "grolist" NUMBERS)
    "pg_catalog" "pg_rules" ("schemaname" NAME, "tablename" NAME, "rulename" NAME,
        "definition" TEXT)
    "pg_catalog" "pg_policies" ("schemaname" NAME, "tablename" NAME, "policyname" NAME,
        "permissive" TEXT, "roles" NAMES, "cmd" TEXT, "qual" TEXT, "with_check" TEXT)
    "pg_catalog" "pg_stat_user_indexes" ("relid" OID, "indexrelid" OID, "schemaname" NAME,
        "relname" NAME, "indexrelname" NAME, "idx_scan" I8, "idx_tup_read" I8, "idx_tup_fetch" I8)
    "pg_catalog" "pg_stat_all_indexes" ("relid" OID, "indexrelid" OID, "schemaname" NAME,
        "relname" NAME, "indexrelname" NAME, "idx_scan" I8, "idx_tup_read" I8, "idx_tup_fetch" I8)
    "pg_catalog" "pg_statio_user_tables" ("relid" OID, "schemaname" NAME, "relname" NAME,
        "heap_blks_read" I8, "heap_blks_hit" I8, "idx_blks_read" I8, "idx_blks_hit" I8,
        "toast_blks_read" I8, "toast_blks_hit" I8, "tidx_blks_read" I8, "tidx_blks_hit" I8)
    "pg_catalog" "pg_stat_bgwriter" ("checkpoints_timed" I8, "checkpoints_req" I8,
        "checkpoint_write_time" F8, "checkpoint_sync_time" F8, "buffers_checkpoint" I8,
        "buffers_clean" I8, "maxwritten_clean" I8, "buffers_backend" I8, "buffers_backend_fsync" I8,
        "buffers_alloc" I8, "stats_reset" TSTZ)
    "pg_catalog" "pg_stat_ssl" ("pid" I4, "ssl" BOOL, "version" TEXT, "cipher" TEXT, "bits" I4,
        "client_dn" TEXT, "client_serial" DECIMAL, "issuer_dn" TEXT)
    "pg_catalog" "pg_prepared_statements" ("name" TEXT, "statement" TEXT, "prepare_time" TSTZ,
        "parameter_types" KINDS, "from_sql" BOOL, "generic_plans" I8, "custom_plans" I8)
    "pg_catalog" "pg_timezone_names" ("name" TEXT, "abbrev" TEXT, "utc_offset" SPAN, "is_dst" BOOL)
    "information_schema" "routines" ("specific_catalog" NAME, "specific_schema" NAME,
        "specific_name" NAME, "routine_catalog" NAME, "routine_schema" NAME, "routine_name" NAME,
        "routine_type" TEXT, "module_catalog" NAME, "module_schema" NAME, "module_name" NAME,
        "udt_catalog" NAME, "udt_schema" NAME, "udt_name" NAME, "data_type" TEXT,
        "character_maximum_length" I4, "character_octet_length" I4, "character_set_catalog" NAME,
        "character_set_schema" NAME, "character_set_name" NAME, "collation_catalog" NAME,
        "collation_schema" NAME, "collation_name" NAME, "numeric_precision" I4,
        "numeric_precision_radix" I4, "numeric_scale" I4, "datetime_precision" I4,
        "interval_type" TEXT, "interval_precision" I4, "type_udt_catalog" NAME,
        "type_udt_schema" NAME, "type_udt_name" NAME, "scope_catalog" NAME, "scope_schema" NAME,
        "scope_name" NAME, "maximum_cardinality" I4, "dtd_identifier" NAME, "routine_body" TEXT,
        "routine_definition" TEXT, "external_name" TEXT, "external_language" TEXT,
        "parameter_style" TEXT, "is_deterministic" TEXT, "sql_data_access" TEXT,
        "is_null_call" TEXT, "sql_path" TEXT, "schema_level_routine" TEXT,
        "max_dynamic_result_sets" I4, "is_user_defined_cast" TEXT, "is_implicitly_invocable" TEXT,
        "security_type" TEXT, "to_sql_specific_catalog" NAME, "to_sql_specific_schema" NAME,
        "to_sql_specific_name" NAME, "as_locator" TEXT, "created" TSTZ, "last_altered" TSTZ,
        "new_savepoint_level" TEXT, "is_udt_dependent" TEXT, "result_cast_from_data_type" TEXT,
        "result_cast_as_locator" TEXT, "result_cast_char_max_length" I4,
        "result_cast_char_octet_length" I4, "result_cast_char_set_catalog" NAME,
        "result_cast_char_set_schema" NAME, "result_cast_char_set_name" NAME,
        "result_cast_collation_catalog" NAME, "result_cast_collation_schema" NAME,
        "result_cast_collation_name" NAME, "result_cast_numeric_precision" I4,
        "result_cast_numeric_precision_radix" I4, "result_cast_numeric_scale" I4,
        "result_cast_datetime_precision" I4, "result_cast_interval_type" TEXT,
        "result_cast_interval_precision" I4, "result_cast_type_udt_catalog" NAME,
        "result_cast_type_udt_schema" NAME, "result_cast_type_udt_name" NAME,
        "result_cast_scope_catalog" NAME, "result_cast_scope_schema" NAME,
        "result_cast_scope_name" NAME, "result_cast_maximum_cardinality" I4,
        "result_cast_dtd_identifier" NAME)
    "information_schema" "triggers" ("trigger_catalog" NAME, "trigger_schema" NAME,
        "trigger_name" NAME, "event_manipulation" TEXT, "event_object_catalog" NAME,
        "event_object_schema" NAME, "event_object_table" NAME, "action_order" I4,
        "action_condition" TEXT, "action_statement" TEXT, "action_orientation" TEXT,
        "action_timing" TEXT, "action_reference_old_table" NAME, "action_reference_new_table" NAME,
        "action_reference_old_row" NAME, "action_reference_new_row" NAME, "created" TSTZ)
    "information_schema" "character_sets" ("character_set_catalog" NAME,
        "character_set_schema" NAME, "character_set_name" NAME, "character_repertoire" NAME,
        "form_of_use" NAME, "default_collate_catalog" NAME, "default_collate_schema" NAME,
        "default_collate_name" NAME)
};

/// Tables about features that Isomer does not have. Their columns are listed above.
pub(super) static VOID: &[&str] = &[
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
    "pg_subscription",
    "pg_default_acl",
    "pg_seclabel",
    "pg_cast",
    "pg_aggregate",
    "pg_operator",
    "pg_matviews",
    "pg_db_role_setting",
    "pg_foreign_data_wrapper",
    "pg_user_mapping",
    "pg_user_mappings",
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
    "pg_transform",
    "pg_seclabels",
    "pg_shseclabel",
    "pg_options_to_table",
];

/// The oids of tables, which PostgreSQL and its tools hard-code. Views, and Isomer's own tables,
/// have other oids.
pub(super) static OIDS: &[(i64, &str)] = &[
    (826, "pg_default_acl"),
    (1213, "pg_tablespace"),
    (1247, "pg_type"),
    (1249, "pg_attribute"),
    (1255, "pg_proc"),
    (1259, "pg_class"),
    (1261, "pg_auth_members"),
    (1262, "pg_database"),
    (1417, "pg_foreign_server"),
    (1418, "pg_user_mapping"),
    (2224, "pg_sequence"),
    (2328, "pg_foreign_data_wrapper"),
    (2600, "pg_aggregate"),
    (2601, "pg_am"),
    (2602, "pg_amop"),
    (2603, "pg_amproc"),
    (2604, "pg_attrdef"),
    (2605, "pg_cast"),
    (2606, "pg_constraint"),
    (2607, "pg_conversion"),
    (2608, "pg_depend"),
    (2609, "pg_description"),
    (2610, "pg_index"),
    (2611, "pg_inherits"),
    (2612, "pg_language"),
    (2615, "pg_namespace"),
    (2616, "pg_opclass"),
    (2617, "pg_operator"),
    (2618, "pg_rewrite"),
    (2620, "pg_trigger"),
    (2753, "pg_opfamily"),
    (2964, "pg_db_role_setting"),
    (2995, "pg_largeobject_metadata"),
    (3079, "pg_extension"),
    (3118, "pg_foreign_table"),
    (3256, "pg_policy"),
    (3350, "pg_partitioned_table"),
    (3381, "pg_statistic_ext"),
    (3394, "pg_init_privs"),
    (3429, "pg_statistic_ext_data"),
    (3456, "pg_collation"),
    (3466, "pg_event_trigger"),
    (3501, "pg_enum"),
    (3541, "pg_range"),
    (3576, "pg_transform"),
    (3592, "pg_shseclabel"),
    (3596, "pg_seclabel"),
    (3600, "pg_ts_dict"),
    (3601, "pg_ts_parser"),
    (3602, "pg_ts_config"),
    (3764, "pg_ts_template"),
    (6100, "pg_subscription"),
    (6104, "pg_publication"),
    (6106, "pg_publication_rel"),
    (6237, "pg_publication_namespace"),
    (6243, "pg_parameter_acl"),
];
