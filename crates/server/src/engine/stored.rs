//! The stored catalog: tables of the database itself, read at the start.
//!
//! ```text
//!   isomer_catalog     kind, name → table, oid, of, constraint, definition
//!                      'table', 'accounts' → 3, 16384, '', false, 'CREATE TABLE ..'
//!                      'added', 'accounts' → 0, 0, '', false, '5'
//!                      'index', 'by_owner' → 4, 16385, 'accounts', false, 'CREATE INDEX ..'
//!                      'primary', 'accounts' → 5, 0, '', true, '' (the index of a primary key)
//!                      'layout', 'accounts' → 6, .. (the second layout; likewise its indexes)
//!                      'foreign', '16384 t_of_fkey' → 0, 16390, '16384', false, '1 16384 0 s ..'
//!                      'sequence', 't_id_seq' → 3 (the owning table), 16386, 'id', false,
//!                                               '16387 AS integer ..'
//!                      'view', 'busy' → 0, 16391, '', false, 'column .. as SELECT ..'
//!                      'schema', 'app' → 0, 16392, '', false, '' (objects in it have names that
//!                                               begin with its name and a zero byte)
//!                      'type', 'mood' → 0, 16393, '', false, 'enum ..'
//!                      'type', 'age' → 0, 16395, '', false, 'domain ..'
//!                      'procedure', '16397' → 0, 16397, '', false, 'text .. as UPDATE ..'
//!                      'comment', '16384 id' → 0, 16384, '', false, 'who it is' (of a column;
//!                                               '16384 ' for the table)
//!                      'statistics', '16384' → 0, 16384, '', false, '100 ..'   (see isomer_sql::statistics)
//!                      'rights', 'relation 16384' → 0, 0, '10', false, 'all ..' (owner, rights)
//!                      'member', '16395 16396' → 0, 0, '10', false, 'admin' (role, member,
//!                                               grantor)
//!                      'setting', 'autopilot' → 0, 0, '', false, 'auto'
//!                      'setting', 'autopilot_processor_percent' → 0, 0, '', false, '2'
//!                      'setting', 'site_memory' → 0, 0, '', false, '4GB'
//!                      'setting', 'default_backups' → 0, 0, '', false, '1' (or 'default')
//!                      'unused', 'by_city' → 0, 0, '', false, ''
//!   isomer_sequences   name → the next value that is not reserved
//! ```
//!
//! A store table is marked unused before it is created, until it becomes the store table of a table
//! or index. It is marked again from its removal from the catalog until it is dropped. So leftovers
//! of a crash are found and dropped at the next start; an index that was being built is lost.
//!
//! A definition is stored as a statement of SQL, so reading the catalog means running the binder of
//! CREATE TABLE. For columns that were added without rewriting rows, always the last ones of their
//! table, the missing values follow, one per line. The database knows the schema from the table's
//! creation; it is completed here.

use super::gateways::{Told, ToldEntry, UnderConstruction, keep_catalog, tell, tell_catalog};
use super::{Engine, damaged};
use crate::backend::{database, explain};
use crate::draft::Difference;
use crate::indexes::key_index;
use crate::size::{read_site_memory, show_site_memory};
use isomer_cluster::{Database, Isolation};
use isomer_design::{Column, ColumnType, Key, Schema, TableId, Time, Value};
use isomer_plan::learned::Mode;
use isomer_sql::catalog::{
    Beside, Catalog, Index, MadeType, Name, Namespace, PUBLIC, Procedure, Table,
};
use isomer_sql::comment::Topic;
use isomer_sql::define::NewIndex;
use isomer_sql::domains::Domain;
use isomer_sql::enums::{Definition, EnumType};
use isomer_sql::foreign::ForeignKey;
use isomer_sql::parse::{Parsed, parse, sequence_options};
use isomer_sql::rights::{Membership, Object, Owned};
use isomer_sql::sequence::{Owner, Sequence};
use isomer_sql::statistics::TableStatistics;
use isomer_sql::view::View;
use isomer_sql::{SqlError, SqlType, define};
use sqlparser::ast::Statement;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// New rows of the catalog by key; `None` deletes a row.
pub(crate) type Rows = Vec<(Key, Option<Vec<u8>>)>;

/// The kind of a sequence.
const SEQUENCE: &str = "sequence";
/// The kind of a foreign key. Its name begins with the oid of its table, because names of keys are
/// unique only within a table.
const FOREIGN: &str = "foreign";
/// The kind of a view.
const VIEW: &str = "view";
/// The kind of a schema.
const SCHEMA: &str = "schema";
/// The oid in the row of a built-in schema that was dropped.
const GONE: u32 = 0;
/// The kind of a type.
const TYPE: &str = "type";
/// The kind of a procedure. Its name is its oid.
const PROCEDURE: &str = "procedure";
/// The kind of a comment. Its name is the oid of the object, and the column.
const COMMENT: &str = "comment";
/// The kind of an object's owner and rights.
const RIGHTS: &str = "rights";
/// The kind of the statistics of a table.
const STATISTICS: &str = "statistics";
/// The kind of a role's membership.
const MEMBER: &str = "member";
/// The kind of an unused store table: not yet, or no longer in use.
const UNUSED: &str = "unused";
/// The kinds of settings of the whole server.
const AUTOPILOT: &str = "autopilot";
const AUTOPILOT_PROCESSOR: &str = "autopilot_processor_percent";
const SITE_MEMORY: &str = "site_memory";
const DESIGN_CHANGES: &str = "design_changes";

impl Engine {
    /// Reads the stored catalog, with what other gateways build.
    pub(super) fn read_catalog(&self, built: &UnderConstruction) -> Result<Catalog, SqlError> {
        let mut entries = self.entries()?;
        built.entries.iter().for_each(|entry| entries.extend(Entry::told(entry)));
        let mut catalog = Catalog { path: Arc::new([PUBLIC.to_owned()]), ..Catalog::default() };
        let public = Namespace::public();
        catalog.schemas.insert(public.name.clone(), Arc::new(public));
        for entry in entries.iter().filter(|entry| entry.kind == SCHEMA) {
            let (name, oid) = (entry.name.clone(), entry.oid);
            match oid {
                GONE => drop(catalog.schemas.remove(&name)),
                oid => {
                    drop(catalog.schemas.insert(name.clone(), Arc::new(Namespace { oid, name })))
                }
            }
        }
        let types = entries.iter().filter(|entry| entry.kind == TYPE);
        let (domains, enums): (Vec<&Entry>, Vec<&Entry>) =
            types.partition(|entry| Domain::is_kept(&entry.definition));
        let wrong =
            |entry: &Entry| damaged(format!("the catalog has no definition of {:?}", entry.name));
        for entry in enums {
            let found = Definition::read(Name::read(&entry.name), entry.oid, &entry.definition);
            catalog.put_type(None, EnumType::new(found.ok_or_else(|| wrong(entry))?));
        }
        for entry in domains {
            let (name, kept) = (Name::read(&entry.name), &entry.definition);
            let found = Domain::read(name, entry.oid, kept, &catalog);
            catalog.put_domain(None, found.ok_or_else(|| wrong(entry))?);
        }
        for entry in entries.iter().filter(|entry| entry.kind == SEQUENCE) {
            let sequence = sequence_of(entry)?;
            catalog.sequences.insert(Arc::new(sequence));
        }
        let owned: Vec<Arc<Sequence>> = catalog.sequences.values().cloned().collect();
        let mut besides = self.read_tables((&entries, &catalog), &BESIDE, &owned)?;
        for (name, mut table) in self.read_tables((&entries, &catalog), &OWN, &owned)? {
            let layout = besides.remove(&name).map(Arc::new);
            let beside = |layout| Beside { layout, is_kept: true, is_entered: true };
            table.beside = layout.map(beside);
            built.mark(&mut table);
            catalog.tables.insert(Arc::new(table));
        }
        for entry in entries.iter().filter(|entry| entry.kind == VIEW) {
            let name = Name::read(&entry.name);
            let view = View::read(&name, entry.oid, &entry.definition, &catalog);
            let wrong =
                || damaged(format!("the catalog has no definition of view {:?}", entry.name));
            catalog.views.insert(Arc::new(view.ok_or_else(wrong)?));
        }
        for entry in entries.iter().filter(|entry| entry.kind == PROCEDURE) {
            let found = Procedure::read(entry.oid, &entry.definition, &catalog);
            let found = Arc::new(found.ok_or_else(|| wrong(entry))?);
            catalog.procedures.insert(entry.oid, found);
        }
        for entry in entries.iter().filter(|entry| entry.kind == COMMENT) {
            let wrong = || damaged(format!("the catalog has a comment on {:?}", entry.name));
            let (_, column) = entry.name.split_once(' ').ok_or_else(wrong)?;
            let topic = (entry.oid, column.to_owned());
            catalog.comments.insert(topic, Arc::from(&*entry.definition));
        }
        for entry in entries.iter().filter(|entry| entry.kind == STATISTICS) {
            let Some(table) = catalog.tables.numbered(entry.oid) else { continue };
            let columns = table.columns.iter().map(|column| (&*column.name, column.ty));
            let known = TableStatistics::read(&entry.definition, columns);
            catalog.statistics.extend(known.map(|known| (entry.oid, Arc::new(known))));
        }
        for entry in entries.iter().filter(|entry| entry.kind == RIGHTS) {
            let (object, owned) = owned_of(entry)?;
            catalog.ownership.insert(object, Arc::new(owned));
        }
        for entry in entries.iter().filter(|entry| entry.kind == MEMBER) {
            let (roles, membership) = member_of(entry)?;
            catalog.members.insert(roles, membership);
        }
        // In the order of their creation.
        let mut foreign: Vec<&Entry> = entries.iter().filter(|one| one.kind == FOREIGN).collect();
        foreign.sort_by_key(|entry| entry.oid);
        for entry in foreign {
            let (child, key) = foreign_key_of(entry)?;
            let Some(table) = catalog.tables.numbered(child) else { continue };
            let mut table = Table::clone(table);
            table.foreign_keys.push(Arc::new(key));
            catalog.tables.insert(Arc::new(table));
        }
        catalog.version = 1;
        Ok(catalog)
    }

    /// The tables of entries of these kinds.
    fn read_tables(
        &self,
        (entries, catalog): (&[Entry], &Catalog),
        kinds: &Kinds,
        owned: &[Arc<Sequence>],
    ) -> Result<BTreeMap<String, Table>, SqlError> {
        let of = |kind: &'static str| entries.iter().filter(move |entry| entry.kind == kind);
        let mut tables = BTreeMap::new();
        for entry in of(kinds.table) {
            tables.insert(entry.name.clone(), self.table_of(entry, catalog)?);
        }
        for entry in of(kinds.added) {
            let Some(table) = tables.get_mut(&entry.name) else { continue };
            table.set_missing_values(&entry.definition)?;
        }
        for entry in of(kinds.primary) {
            let Some(table) = tables.get_mut(&entry.name) else { continue };
            let new = key_index(table);
            let index = self.index(entry, &table.key_name, &new, (table, catalog))?;
            table.primary = Some(Arc::new(index));
        }
        for entry in of(kinds.index) {
            let Some(table) = tables.get_mut(&entry.of) else { continue };
            let name = Name::read(&entry.name).name;
            let new = new_index(entry, table, catalog)?;
            let index = self.index(entry, &name, &new, (table, catalog))?;
            table.indexes.push(Arc::new(index));
        }
        tables.values_mut().for_each(|table| set_identities(table, owned));
        Ok(tables)
    }

    fn entries(&self) -> Result<Vec<Entry>, SqlError> {
        let (table, schema) = &self.catalog_table;
        let mut rows = Vec::new();
        self.each_row(*table, |key, row| {
            rows.push(schema.decode_row(key, row));
            ControlFlow::Continue(())
        })?;
        rows.into_iter().map(|row| Entry::read(row.map_err(damaged)?)).collect()
    }

    /// The stored mode of the autopilot.
    pub(super) fn kept_autopilot(&self) -> Result<Option<Mode>, SqlError> {
        self.kept(AUTOPILOT)?.map(|mode| mode.parse().map_err(damaged)).transpose()
    }

    /// The stored limit of the autopilot's processor time, in percent of one core.
    pub(super) fn kept_autopilot_processor(&self) -> Result<Option<f64>, SqlError> {
        self.kept(AUTOPILOT_PROCESSOR)?.map(|percent| percent.parse().map_err(damaged)).transpose()
    }

    /// The stored limit of the memory of a site's rows, in bytes; `None` if there is no limit.
    pub(super) fn kept_site_memory(&self) -> Result<Option<usize>, SqlError> {
        let kept = self.kept(SITE_MEMORY)?;
        kept.map_or(Ok(None), |size| read_site_memory(&size).map_err(damaged))
    }

    /// Whether changes of the design may begin, as was stored last.
    pub(super) fn kept_design_changes(&self) -> Result<bool, SqlError> {
        Ok(self.kept(DESIGN_CHANGES)?.is_none_or(|kept| kept == "on"))
    }

    /// The stored value of a setting of the whole server.
    pub(crate) fn kept(&self, setting: &str) -> Result<Option<String>, SqlError> {
        let (table, key) = self.row_of("setting", setting)?;
        let schema = &self.catalog_table.1;
        let mut txn = self.gateway().begin(Isolation::ReadCommitted, Arc::default());
        let mut row = None;
        txn.get(table, &key, |bytes| row = Some(schema.decode_row(key.as_bytes(), bytes)))
            .map_err(explain)?;
        let entry = row.map(|row| Entry::read(row.map_err(damaged)?)).transpose()?;
        Ok(entry.map(|entry| entry.definition))
    }

    /// Stores the mode of the autopilot.
    pub(crate) fn keep_autopilot(&self, mode: Mode) -> Result<(), SqlError> {
        self.keep(AUTOPILOT, mode.to_string())
    }

    /// Stores the limit of the autopilot's processor time, in percent of one core.
    pub(crate) fn keep_autopilot_processor(&self, percent: f64) -> Result<(), SqlError> {
        self.keep(AUTOPILOT_PROCESSOR, percent.to_string())
    }

    /// Stores whether changes of the design may begin.
    pub(crate) fn keep_design_changes(&self, on: bool) -> Result<(), SqlError> {
        self.keep(DESIGN_CHANGES, if on { "on" } else { "off" }.to_owned())
    }

    /// Stores the limit of the memory of a site's rows, in bytes.
    pub(crate) fn keep_site_memory(&self, max: Option<usize>) -> Result<(), SqlError> {
        self.keep(SITE_MEMORY, show_site_memory(max))
    }

    /// Stores the value of a setting of the whole server.
    pub(crate) fn keep(&self, setting: &str, value: String) -> Result<(), SqlError> {
        let (key, row) = self.catalog_row(&Entry::new("setting", setting, value))?;
        self.write(self.catalog_table.0, &[(key, Some(row))])?;
        tell(self, &Told::Settings);
        Ok(())
    }

    fn schema_of(&self, id: TableId) -> Result<Arc<Schema>, SqlError> {
        let design = self.database().design();
        let table = design.table(id).map_err(damaged)?;
        Ok(table.schema().clone())
    }

    fn table_of(&self, entry: &Entry, catalog: &Catalog) -> Result<Table, SqlError> {
        let Some(Parsed::Sql(statement)) = parse(&entry.definition)?.pop() else {
            return Err(damaged("the catalog has no definition"));
        };
        let Statement::CreateTable(create) = *statement else {
            return Err(damaged("the catalog has another definition"));
        };
        let new = define::new_table(&create, catalog)?;
        Ok(Table {
            id: entry.table,
            oid: entry.oid,
            schema_name: new.schema.unwrap_or_else(|| PUBLIC.to_owned()),
            name: new.name,
            columns: new.columns,
            key: new.key,
            shard: new.shard,
            primary: None,
            readable: Some(Time(0)),
            beside: None,
            key_name: new.key_name.unwrap_or_default(),
            checks: new.checks,
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
            schema: self.schema_of(entry.table)?,
        })
    }

    fn index(
        &self,
        entry: &Entry,
        name: &str,
        new: &NewIndex,
        (table, catalog): (&Table, &Catalog),
    ) -> Result<Index, SqlError> {
        let (parts, predicate) = new.bound(table, catalog)?;
        Ok(Index {
            id: entry.table,
            oid: entry.oid,
            name: name.to_owned(),
            columns: Index::columns_of(&parts),
            parts,
            unique: new.unique,
            nulls_equal: new.nulls_equal,
            predicate,
            constraint: entry.constraint,
            readable: Some(Time(0)),
            is_entered: true,
            schema: self.schema_of(entry.table)?,
        })
    }

    /// The rows of the stored catalog that change between two catalogs. Parts of old tables without
    /// a successor become unused; an index or layout that is being built or about to be dropped
    /// stays so.
    pub(crate) fn changed_rows(&self, difference: &Difference) -> Result<Rows, SqlError> {
        let mut rows = BTreeMap::new();
        for sequence in &difference.old_sequences {
            rows.insert(self.catalog_row(&sequence_entry(sequence))?.0, None);
        }
        for sequence in &difference.new_sequences {
            let (key, row) = self.catalog_row(&sequence_entry(sequence))?;
            rows.insert(key, Some(row));
        }
        for view in &difference.old_views {
            rows.insert(self.catalog_row(&view_entry(view))?.0, None);
        }
        for view in &difference.new_views {
            let (key, row) = self.catalog_row(&view_entry(view))?;
            rows.insert(key, Some(row));
        }
        for (schema, is_there) in &difference.schemas {
            // The schema `public` exists from the beginning, so its removal is what is stored.
            let is_first = **schema == Namespace::public();
            let oid = if is_first { GONE } else { schema.oid };
            let entry = Entry { oid, ..Entry::new(SCHEMA, &schema.name, String::new()) };
            let (key, row) = self.catalog_row(&entry)?;
            rows.insert(key, (*is_there != is_first).then_some(row));
        }
        for (made, is_there) in &difference.types {
            let (key, row) = self.catalog_row(&type_entry(made))?;
            rows.insert(key, is_there.then_some(row));
        }
        for (oid, procedure) in &difference.procedures {
            let (key, row) = self.catalog_row(&procedure_entry(*oid, procedure.as_deref()))?;
            rows.insert(key, procedure.is_some().then_some(row));
        }
        for (topic, said) in &difference.comments {
            let (key, row) = self.catalog_row(&comment_entry(topic, said.as_deref()))?;
            rows.insert(key, said.is_some().then_some(row));
        }
        for (table, known) in &difference.statistics {
            let (key, row) = self.catalog_row(&statistics_entry(*table, known.as_deref()))?;
            rows.insert(key, known.is_some().then_some(row));
        }
        for (object, owned) in &difference.ownership {
            let (key, row) = self.catalog_row(&rights_entry(*object, owned.as_deref()))?;
            rows.insert(key, owned.is_some().then_some(row));
        }
        for (roles, membership) in &difference.members {
            let (key, row) = self.catalog_row(&member_entry(*roles, *membership))?;
            rows.insert(key, membership.is_some().then_some(row));
        }
        for table in &difference.old {
            for entry in entries_of(table) {
                rows.insert(self.catalog_row(&entry)?.0, None);
            }
            for (_, schema) in table.parts() {
                let (key, row) = self.catalog_row(&unused(schema.name()))?;
                rows.insert(key, Some(row));
            }
        }
        for table in &difference.new {
            for entry in entries_of(table) {
                let (key, row) = self.catalog_row(&entry)?;
                rows.insert(key, Some(row));
            }
            let being_built = |id| table.indexes.iter().any(|i| i.id == id && i.readable.is_none());
            let beside = table.beside.iter().filter(|beside| beside.is_kept);
            let kept = beside.flat_map(|beside| beside.layout.own_parts());
            let own = table.own_parts().filter(|(id, _)| !being_built(*id));
            for (_, schema) in own.chain(kept) {
                rows.insert(self.catalog_row(&unused(schema.name()))?.0, None);
            }
        }
        Ok(rows.into_iter().collect())
    }

    /// Replaces a table by a changed one, for all sessions, at once.
    pub(crate) fn put_in_place(&self, old: &Arc<Table>, new: Arc<Table>) -> Result<(), SqlError> {
        let difference = Difference::one(old, &new);
        let kept_catalog = keep_catalog(self);
        self.write(self.catalog_table.0, &self.changed_rows(&difference)?)?;
        let id = new.id;
        let version = self.replace_catalog(|tables| {
            tables.remove(&old.full_name());
            tables.insert(new);
        });
        drop(kept_catalog);
        // Transactions that wait for the table have planned without the change.
        self.set_redefined(id, version);
        tell_catalog(self, Vec::new(), vec![id]);
        Ok(())
    }

    /// Marks a store table as unused before it is created or dropped. If neither completes, it is
    /// dropped at the next start.
    pub(super) fn mark_unused(&self, stored: &str) -> Result<(), SqlError> {
        let (key, row) = self.catalog_row(&unused(stored))?;
        self.write(self.catalog_table.0, &[(key, Some(row))])
    }

    /// Removes the mark of a dropped store table.
    pub(super) fn forget_unused(&self, stored: &str) -> Result<(), SqlError> {
        let (key, _) = self.catalog_row(&unused(stored))?;
        self.write(self.catalog_table.0, &[(key, None)])
    }

    /// Drops the store tables that the last run of the server left half created or half dropped.
    pub(super) fn drop_unused(&self) -> Result<(), SqlError> {
        for entry in self.entries()?.iter().filter(|entry| entry.kind == UNUSED) {
            if let Some((id, _)) = self.database().find_table(&entry.name) {
                self.database().drop_table(id).map_err(database)?;
            }
            self.forget_unused(&entry.name)?;
        }
        Ok(())
    }

    /// The key of a row of the catalog.
    pub(crate) fn row_of(
        &self,
        kind: &'static str,
        name: &str,
    ) -> Result<(TableId, Key), SqlError> {
        let (key, _) = self.catalog_row(&Entry::new(kind, name, String::new()))?;
        Ok((self.catalog_table.0, key))
    }

    fn catalog_row(&self, entry: &Entry) -> Result<(Key, Vec<u8>), SqlError> {
        self.catalog_table.1.encode_row(&entry.values()).map_err(damaged)
    }
}

fn sequence_of(entry: &Entry) -> Result<Sequence, SqlError> {
    let wrong = || damaged(format!("the catalog has no definition of sequence {:?}", entry.name));
    let (state, options) = entry.definition.split_once(' ').ok_or_else(wrong)?;
    let numbers = (entry.oid, state.parse().map_err(damaged)?);
    let options = sequence_options(options)?;
    let name = Name::read(&entry.name);
    let mut sequence = Sequence::new(name, numbers, SqlType::Int8, &options)?;
    if entry.table.0 > 0 {
        let (table, column) = (entry.table.0, entry.of.clone());
        sequence.owner = Some(Owner { table, column, is_identity: entry.constraint });
    }
    Ok(sequence)
}

/// Identity columns use their sequences, independent of the sequences' current names.
fn set_identities(table: &mut Table, owned: &[Arc<Sequence>]) {
    for sequence in owned {
        let is_its = |owner: &&Owner| owner.is_identity && owner.table == table.oid;
        let Some(owner) = sequence.owner.as_ref().filter(is_its) else { continue };
        let mut columns = table.columns.iter_mut();
        if let Some(column) = columns.find(|column| column.name == owner.column) {
            column.default = Some(sequence.default());
        }
    }
}

/// The kinds of entries of a table's current layout, and of another layout that is kept.
struct Kinds {
    table: &'static str,
    added: &'static str,
    primary: &'static str,
    index: &'static str,
}

const OWN: Kinds = Kinds { table: "table", added: "added", primary: "primary", index: "index" };
const BESIDE: Kinds = Kinds {
    table: "layout",
    added: "layout added",
    primary: "layout primary",
    index: "layout index",
};

/// The stored entries of a table and its indexes, without indexes that are being built.
fn entries_of(table: &Table) -> Vec<Entry> {
    let mut entries = entries_as(&OWN, table);
    let kept = table.beside.iter().filter(|beside| beside.is_kept);
    entries.extend(kept.flat_map(|beside| entries_as(&BESIDE, &beside.layout)));
    entries.extend(table.foreign_keys.iter().map(|key| foreign_entry(table, key)));
    entries
}

/// The entries of what is being built of a table, which are not stored.
pub(crate) fn entries_being_built(table: &Table) -> Vec<Entry> {
    let unread = |kinds: &'static Kinds, table: &Table| -> Vec<Entry> {
        let indexes = table.indexes.iter().filter(|index| index.readable.is_none());
        indexes.map(|index| index_entry(kinds.index, table, index)).collect()
    };
    let mut entries = unread(&OWN, table);
    if let Some(beside) = &table.beside {
        if !beside.is_kept {
            entries.extend(entries_as(&BESIDE, &beside.layout));
        }
        entries.extend(unread(&BESIDE, &beside.layout));
    }
    entries
}

fn entries_as(kinds: &Kinds, table: &Table) -> Vec<Entry> {
    let name = table.full_name().kept();
    let mut entries = vec![Entry {
        table: table.id,
        oid: table.oid,
        ..Entry::new(kinds.table, &name, table.definition())
    }];
    let missing = table.missing_values();
    entries.extend(missing.map(|values| Entry::new(kinds.added, &name, values)));
    entries.extend(table.primary.iter().map(|index| Entry {
        table: index.id,
        oid: index.oid,
        constraint: true,
        ..Entry::new(kinds.primary, &name, String::new())
    }));
    let index = |index: &Arc<Index>| index_entry(kinds.index, table, index);
    entries.extend(table.readable_indexes().map(index));
    entries
}

fn new_index(entry: &Entry, table: &Table, catalog: &Catalog) -> Result<NewIndex, SqlError> {
    let Some(Parsed::Sql(statement)) = parse(&entry.definition)?.pop() else {
        return Err(damaged("the catalog has no definition"));
    };
    let Statement::CreateIndex(create) = *statement else {
        return Err(damaged("the catalog has another definition"));
    };
    define::new_index(&create, table, catalog)
}

fn foreign_entry(table: &Table, key: &ForeignKey) -> Entry {
    let name = format!("{} {}", table.oid, key.name);
    let of = table.oid.to_string();
    Entry { oid: key.oid, of, ..Entry::new(FOREIGN, &name, key.kept()) }
}

fn view_entry(view: &View) -> Entry {
    Entry { oid: view.oid, ..Entry::new(VIEW, &view.full_name().kept(), view.kept()) }
}

fn type_entry(made: &MadeType) -> Entry {
    let kept = match made {
        MadeType::Enum(labels) => labels.of.kept(),
        MadeType::Domain(domain) => domain.kept(),
    };
    Entry { oid: made.oid(), ..Entry::new(TYPE, &made.name().kept(), kept) }
}

fn procedure_entry(oid: u32, procedure: Option<&Procedure>) -> Entry {
    let kept = procedure.map_or_else(String::new, Procedure::kept);
    Entry { oid, ..Entry::new(PROCEDURE, &oid.to_string(), kept) }
}

fn comment_entry((oid, column): &Topic, said: Option<&str>) -> Entry {
    let name = format!("{oid} {column}");
    Entry { oid: *oid, ..Entry::new(COMMENT, &name, said.unwrap_or_default().to_owned()) }
}

fn statistics_entry(table: u32, known: Option<&TableStatistics>) -> Entry {
    let kept = known.map_or_else(String::new, TableStatistics::kept);
    Entry { oid: table, ..Entry::new(STATISTICS, &table.to_string(), kept) }
}

fn rights_entry(object: Object, owned: Option<&Owned>) -> Entry {
    let owner = owned.map_or(0, |owned| owned.owner).to_string();
    let kept = owned.map_or_else(String::new, Owned::kept);
    Entry { of: owner, ..Entry::new(RIGHTS, &object.kept(), kept) }
}

fn owned_of(entry: &Entry) -> Result<(Object, Owned), SqlError> {
    let wrong = || damaged(format!("the catalog has wrong rights to {:?}", entry.name));
    let object = Object::read(&entry.name).ok_or_else(wrong)?;
    let owner = entry.of.parse().map_err(damaged)?;
    Ok((object, Owned::read(owner, &entry.definition).ok_or_else(wrong)?))
}

fn member_entry((role, member): (u32, u32), how: Option<Membership>) -> Entry {
    let grantor = how.map_or(0, |how| how.grantor).to_string();
    let kept = if how.is_some_and(|how| how.is_admin) { ADMIN } else { "" };
    Entry { of: grantor, ..Entry::new(MEMBER, &format!("{role} {member}"), kept.to_owned()) }
}

/// The admin option of a member.
const ADMIN: &str = "admin";

fn member_of(entry: &Entry) -> Result<((u32, u32), Membership), SqlError> {
    let wrong = || damaged(format!("the catalog has a wrong member {:?}", entry.name));
    let (role, member) = entry.name.split_once(' ').ok_or_else(wrong)?;
    let roles = (role.parse().map_err(damaged)?, member.parse().map_err(damaged)?);
    let grantor = entry.of.parse().map_err(damaged)?;
    Ok((roles, Membership { grantor, is_admin: entry.definition == ADMIN }))
}

/// A foreign key, and the oid of its table.
fn foreign_key_of(entry: &Entry) -> Result<(u32, ForeignKey), SqlError> {
    let wrong =
        || damaged(format!("the catalog has no definition of foreign key {:?}", entry.name));
    let (_, name) = entry.name.split_once(' ').ok_or_else(wrong)?;
    let key = ForeignKey::read(name, entry.oid, &entry.definition).ok_or_else(wrong)?;
    Ok((entry.of.parse().map_err(damaged)?, key))
}

fn sequence_entry(sequence: &Sequence) -> Entry {
    let owner = sequence.owner.as_ref();
    Entry {
        table: TableId(owner.map_or(0, |owner| owner.table)),
        oid: sequence.oid,
        of: owner.map(|owner| owner.column.clone()).unwrap_or_default(),
        constraint: owner.is_some_and(|owner| owner.is_identity),
        ..Entry::new(
            SEQUENCE,
            &sequence.full_name().kept(),
            format!("{} {sequence}", sequence.state),
        )
    }
}

fn unused(stored: &str) -> Entry {
    Entry::new(UNUSED, stored, String::new())
}

fn index_entry(kind: &'static str, table: &Table, index: &Index) -> Entry {
    let name = Name { schema: table.schema_name.clone(), name: index.name.clone() };
    Entry {
        table: index.id,
        oid: index.oid,
        of: table.full_name().kept(),
        constraint: index.constraint,
        ..Entry::new(kind, &name.kept(), index.definition(table))
    }
}

/// A row of the catalog.
pub(crate) struct Entry {
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) table: TableId,
    pub(crate) oid: u32,
    pub(crate) of: String,
    pub(crate) constraint: bool,
    pub(crate) definition: String,
}

impl Entry {
    fn new(kind: &'static str, name: &str, definition: String) -> Entry {
        let (name, of, table) = (name.to_owned(), String::new(), TableId(0));
        Entry { kind, name, table, oid: 0, of, constraint: false, definition }
    }

    pub(crate) fn values(&self) -> Vec<Value> {
        vec![
            Value::from(self.kind),
            Value::from(self.name.as_str()),
            Value::Int64(self.table.0.into()),
            Value::Int64(self.oid.into()),
            Value::from(self.of.as_str()),
            Value::Bool(self.constraint),
            Value::from(self.definition.as_str()),
        ]
    }

    /// As it is told to gateways of other processes.
    pub(super) fn for_others(&self) -> ToldEntry {
        let Entry { kind, name, table, oid, of, constraint, definition } = self;
        let (name, of, definition) = (name.clone(), of.clone(), definition.clone());
        ((*kind).to_owned(), name, *table, *oid, of, *constraint, definition)
    }

    /// An entry that another gateway has told.
    fn told(told: &ToldEntry) -> Option<Entry> {
        let (kind, name, table, oid, of, constraint, definition) = told.clone();
        let kind = Entry::kind(&kind)?;
        Some(Entry { kind, name, table, oid, of, constraint, definition })
    }

    fn kind(name: &str) -> Option<&'static str> {
        let all = |kinds: &Kinds| [kinds.table, kinds.added, kinds.primary, kinds.index];
        let mut kinds = all(&OWN).into_iter().chain(all(&BESIDE)).chain([
            FOREIGN, SEQUENCE, VIEW, SCHEMA, TYPE, PROCEDURE, COMMENT, STATISTICS, RIGHTS, MEMBER,
            "setting", UNUSED,
        ]);
        kinds.find(|known| *known == name)
    }

    fn read(values: Vec<Value>) -> Result<Entry, SqlError> {
        let values: Result<[Value; 7], _> = values.try_into();
        let Ok(
            [
                Value::Text(kind),
                Value::Text(name),
                Value::Int64(table),
                Value::Int64(oid),
                Value::Text(of),
                Value::Bool(constraint),
                Value::Text(definition),
            ],
        ) = values
        else {
            return Err(damaged("a row of the catalog has other columns"));
        };
        let kind = Entry::kind(&kind).ok_or_else(|| {
            damaged(format!("the catalog has a row of the unknown kind {kind:?}"))
        })?;
        let table = TableId(u32::try_from(table).map_err(damaged)?);
        let oid = u32::try_from(oid).map_err(damaged)?;
        Ok(Entry { kind, name, table, oid, of, constraint, definition })
    }
}

pub(super) fn catalog_schema() -> Result<Schema, isomer_design::SchemaError> {
    let columns = vec![
        Column::new("kind", ColumnType::Text),
        Column::new("name", ColumnType::Text),
        Column::new("table_id", ColumnType::Int64),
        Column::new("oid", ColumnType::Int64),
        Column::new("of_table", ColumnType::Text),
        Column::new("is_constraint", ColumnType::Bool),
        Column::new("definition", ColumnType::Text),
    ];
    Schema::new("isomer_catalog", columns, &["kind", "name"])
}

pub(super) fn sequences_schema() -> Result<Schema, isomer_design::SchemaError> {
    let columns =
        vec![Column::new("name", ColumnType::Text), Column::new("next", ColumnType::Int64)];
    Schema::new("isomer_sequences", columns, &["name"])
}

pub(crate) fn system_table(
    db: &Database,
    schema: Result<Schema, isomer_design::SchemaError>,
) -> Result<(TableId, Arc<Schema>), SqlError> {
    let schema = schema.map_err(damaged)?;
    if let Some(found) = db.find_table(schema.name()) {
        return Ok(found);
    }
    let site = db.design().sites().first().ok_or_else(|| damaged("there are no sites"))?;
    let name = schema.name().to_owned();
    db.create_table(schema, &[(Key::min(), site)]).map_err(database)?;
    db.table(&name).map_err(database)
}
