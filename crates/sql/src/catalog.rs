//! The SQL catalog of tables: names, types, defaults, keys, indexes.
//!
//! The store knows a table by a number and a [`Schema`]. A table without a key gets a hidden one,
//! the row id, as its last column. An index is a store table of its own:
//!
//! ```text
//!   customers(id, last, city)  key id          index by_last on (last)
//!   7 → 'Kim', 'Bonn'                          (false, 'Kim', 7) → nothing
//!   8 → NULL, 'Ulm'                            (true, '', 8) → nothing
//! ```
//!
//! The key of an entry is the indexed columns, each preceded by a NULL mark if it is nullable, and
//! then the row's key. So entries are unique, ordered, and found by any prefix of the columns. With
//! a predicate, rows that do not fulfil it have no entry. A part of an index may be an expression
//! ([`Computed`]).
//!
//! The order of rows is a matter of their [`layout`]. With a shard key, rows can be in
//! another order than that of the primary key, which then needs an index. During a change of the
//! order a table has two layouts.
//!
//! Adding a column changes no existing row: the catalog stores a *missing value* for them
//! ([`Table::add_column`]). Rows that are written later contain the column.
//!
//! A session may have [temporary tables](temporary). User-defined types are in [`types`].
//!
//! A catalog is a value: a change replaces it, and statements in progress keep theirs.

mod layout;
pub mod procedures;
mod relations;
mod schema;
mod temporary;
mod types;

pub use layout::{Beside, needs_index, place_of};
pub use procedures::{Argument, Procedure, Procedures};
pub use relations::{Handle, Kind as RelationKind, Relations};
pub use schema::public_path;
pub(crate) use schema::written_in_full;
pub use schema::{Namespace, PG_CATALOG, Relation, SYSTEM, TEMPORARY};
pub use temporary::ToCommit;
pub(crate) use types::type_by;
pub use types::{MadeType, NamedType, does_mention, does_name, is_of};

use crate::comment::Comments;
use crate::datum::Datum;
use crate::domains::Domain;
use crate::enums::Enums;
use crate::error::{SqlError, code, similar};
pub use crate::exec::Immutable;
use crate::expr::Expr;
use crate::foreign::ForeignKey;
pub use crate::name::{Name, Named, PUBLIC, free_made_name, made_name, numbered, plain, quoted};
use crate::parse::NAME_BYTES_MAX;
use crate::rights::{Members, Ownership};
use crate::sequence::Sequence;
use crate::statistics::Statistics;
use crate::types::SqlType;
use crate::view::View;
use isomer_design::{Column, ColumnType, Key, Schema, SchemaError, TableId, Time, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The first oid of user objects.
pub const FIRST_OID: u32 = 16_384;

/// All relations, by name.
#[derive(Clone, Default, Debug)]
pub struct Catalog {
    /// The version, which grows with every change: statements compiled for another version are
    /// compiled again.
    pub version: u64,
    /// The tables.
    pub tables: Relations<Table>,
    /// The sequences.
    pub sequences: Relations<Sequence>,
    /// The views.
    pub views: Relations<View>,
    /// The enums.
    pub types: Enums,
    /// The domains.
    pub domains: BTreeMap<Name, Arc<Domain>>,
    /// The procedures.
    pub procedures: Procedures,
    /// The schemas, by name.
    pub schemas: BTreeMap<String, Arc<Namespace>>,
    /// The search path of the session, for names without a schema.
    pub path: Arc<[String]>,
    /// The comments on objects.
    pub comments: Comments,
    /// The statistics that ANALYZE has gathered.
    pub statistics: Statistics,
    /// The owners of objects, and the rights to them.
    pub ownership: Ownership,
    /// The memberships of roles.
    pub members: Members,
    /// The session's temporary tables that are dropped at the end of the transaction.
    pub to_commit: ToCommit,
    /// Those that each commit empties.
    pub emptied: ToCommit,
    /// True if it contains an earlier layout of a table ([`Catalog::seen_at`]).
    pub is_of_earlier: bool,
}

/// The source of an identity column's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Identity {
    /// Always its sequence.
    Always,
    /// Its sequence, unless the statement gives a value.
    ByDefault,
}

impl Identity {
    /// ALWAYS or BY DEFAULT.
    pub fn of(always: bool) -> Identity {
        if always { Identity::Always } else { Identity::ByDefault }
    }

    /// The SQL keywords.
    pub fn words(self) -> &'static str {
        match self {
            Identity::Always => "ALWAYS",
            Identity::ByDefault => "BY DEFAULT",
        }
    }
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its table id in the store.
    pub id: TableId,
    /// Its oid.
    pub oid: u32,
    /// Its schema's name.
    pub schema_name: String,
    /// Its name.
    pub name: String,
    /// Its columns, without the row id.
    pub columns: Vec<TableColumn>,
    /// The columns of the primary key, in its order; empty if there is none.
    pub key: Vec<usize>,
    /// The columns of the shard key, which come first in the row key; empty if rows are sorted by
    /// the primary key.
    pub shard: Vec<usize>,
    /// The index of the primary key, if rows are not sorted by it.
    pub primary: Option<Arc<Index>>,
    /// The time from which on the current layout is complete.
    pub readable: Option<Time>,
    /// The same rows in a second layout.
    pub beside: Option<Beside>,
    /// The name of the primary key.
    pub key_name: String,
    /// Its check constraints.
    pub checks: Vec<Check>,
    /// Its indexes.
    pub indexes: Vec<Arc<Index>>,
    /// Its foreign keys to other tables.
    pub foreign_keys: Vec<Arc<ForeignKey>>,
    /// The schema of its rows in the store.
    pub schema: Arc<Schema>,
}

/// A condition on the rows of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// The condition as an SQL expression.
    pub condition: String,
}

/// A column.
#[derive(Clone, PartialEq, Debug)]
pub struct TableColumn {
    /// Its name.
    pub name: String,
    /// Its type; for a domain, the base type.
    pub ty: SqlType,
    /// Its domain, if it has one.
    pub domain: Option<Arc<Domain>>,
    /// True if it is NOT NULL.
    pub not_null: bool,
    /// The default as an SQL expression.
    pub default: Option<String>,
    /// Set for an identity column, whose default is its sequence and cannot be changed.
    pub identity: Option<Identity>,
    /// True for a generated column, whose default is computed from the row's other columns at each
    /// write.
    pub is_generated: bool,
    /// For a column that was added without rewriting rows: its value in older rows.
    pub missing: Option<Value>,
}

/// An index.
#[derive(Clone, Debug)]
pub struct Index {
    /// The id of its store table.
    pub id: TableId,
    /// Its oid.
    pub oid: u32,
    /// Its name.
    pub name: String,
    /// Its columns and expressions.
    pub parts: Vec<Part>,
    /// The indexed columns, if it has no expressions; otherwise empty.
    pub columns: Vec<usize>,
    /// True if entries are unique.
    pub unique: bool,
    /// True if a NULL counts as equal to another there: NULLS NOT DISTINCT.
    pub nulls_equal: bool,
    /// The predicate of rows with an entry; `None` for all rows.
    pub predicate: Option<Arc<Computed>>,
    /// True if it belongs to a constraint of the table.
    pub constraint: bool,
    /// The time from which on it is complete and public. `None`: it is being built, and is not
    /// read.
    pub readable: Option<Time>,
    /// True if writers add entries (write-only or public). Otherwise it is delete-only: a writer of
    /// a row only removes its entries (`isomer_cluster::reorder` explains why).
    pub is_entered: bool,
    /// The schema of its entries in the store.
    pub schema: Arc<Schema>,
}

/// A part of an index.
#[derive(Clone, PartialEq, Debug)]
pub enum Part {
    /// A column.
    Column(usize),
    /// An expression over the row.
    Computed(Arc<Computed>),
}

/// An index expression, or the predicate of an index.
#[derive(Clone, PartialEq, Debug)]
pub struct Computed {
    /// The SQL text.
    pub text: String,
    /// The bound expression over the row of the table.
    pub value: Expr,
    /// Its type.
    pub ty: SqlType,
    /// The columns that it reads.
    pub columns: Vec<usize>,
    /// True if it is a predicate.
    pub is_predicate: bool,
}

impl Catalog {
    /// Finds a table by name.
    ///
    /// # Errors
    /// 42P01, with a similar name; 42809 if it is another kind of object.
    pub fn table(&self, named: &Named) -> Result<&Arc<Table>, SqlError> {
        match self.lookup(named) {
            Some(Relation::Table(table)) => Ok(table),
            _ => Err(self.no_relation(named, "table")),
        }
    }

    /// Finds a table by its oid.
    ///
    /// # Errors
    /// XX000 if it does not exist.
    pub fn table_numbered(&self, oid: u32) -> Result<&Arc<Table>, SqlError> {
        let gone = || SqlError::new(code::INTERNAL, format!("there is no table {oid}"));
        self.table_of(oid).ok_or_else(gone)
    }

    /// Finds a view by name.
    pub fn view(&self, named: &Named) -> Option<&Arc<View>> {
        match self.lookup(named) {
            Some(Relation::View(view)) => Some(view),
            _ => None,
        }
    }

    /// Finds an index by name, with its table.
    pub fn index(&self, named: &Named) -> Option<(&Arc<Table>, &Arc<Index>)> {
        match self.lookup(named) {
            Some(Relation::Index(table, index)) => Some((table, index)),
            _ => None,
        }
    }

    /// The catalog for a transaction with a snapshot at `time`, if it differs: without indexes that
    /// became public later, and with the layouts of tables at that time.
    pub fn seen_at(&self, time: Time) -> Option<Catalog> {
        let younger = |index: &Arc<Index>| index.readable.is_some_and(|since| since > time);
        let (mut catalog, mut is_other, mut is_of_earlier) = (self.clone(), false, false);
        catalog.tables.change(|table| {
            let earlier = table.earlier(time);
            is_of_earlier |= earlier.is_some();
            if earlier.is_none() && !table.indexes.iter().any(younger) {
                return None;
            }
            is_other = true;
            let mut seen = Table::clone(earlier.as_ref().unwrap_or(table));
            for index in seen.indexes.iter_mut().filter(|index| younger(index)) {
                Arc::make_mut(index).readable = None;
            }
            Some(seen)
        });
        catalog.is_of_earlier |= is_of_earlier;
        is_other.then_some(catalog)
    }

    /// The name of the table or index with this id in the store.
    pub fn relation(&self, id: TableId) -> Option<Name> {
        self.tables.with(Handle::Part(id)).find_map(|table| table.part_name(id))
    }

    /// The oids of all objects.
    pub fn oids(&self) -> impl Iterator<Item = u32> {
        let of = |table: &'_ Arc<Table>| -> Vec<u32> {
            let keys = table.foreign_keys.iter().map(|key| key.oid);
            table.maintained().map(|index| index.oid).chain([table.oid]).chain(keys).collect()
        };
        let sequences = self.sequences.values().flat_map(|sequence| [sequence.oid, sequence.state]);
        let views = self.views.values().map(|view| view.oid);
        let types = self.types.values().flat_map(|labels| [labels.of.oid, labels.of.array_oid]);
        let domains = self.domains.values().map(|domain| domain.oid);
        let schemas = self.schemas.values().map(|schema| schema.oid);
        let relations = self.tables.values().flat_map(of).chain(sequences).chain(views);
        let procedures = self.procedures.keys().copied();
        relations.chain(types).chain(domains).chain(schemas).chain(procedures)
    }

    /// Finds a sequence by name.
    ///
    /// # Errors
    /// 42P01 if there is no object of this name, 42809 if it is another kind of object.
    pub fn sequence(&self, named: &Named) -> Result<&Arc<Sequence>, SqlError> {
        match self.lookup(named) {
            Some(Relation::Sequence(sequence)) => Ok(sequence),
            Some(_) => {
                let message = format!("\"{}\" is not a sequence", named.name);
                Err(SqlError::new(code::WRONG_OBJECT, message))
            }
            None => {
                let message = format!("relation \"{named}\" does not exist");
                Err(SqlError::new(code::UNDEFINED_TABLE, message))
            }
        }
    }

    /// The sequence owned by a column.
    pub fn sequence_of(&self, table: u32, column: &str) -> Option<&Arc<Sequence>> {
        self.sequences
            .with(Handle::Owner(table))
            .find(|sequence| sequence.owner.as_ref().is_some_and(|owner| owner.column == column))
    }

    /// The sequences owned by columns of a table.
    pub fn owned(&self, table: u32) -> Vec<Arc<Sequence>> {
        self.sequences.with(Handle::Owner(table)).cloned().collect()
    }

    /// True if a table, index, key, sequence or view has this name.
    pub fn has_relation(&self, name: &Name) -> bool {
        self.relation_at(name).is_some()
    }
}

impl Table {
    /// Its name, with its schema.
    pub fn full_name(&self) -> Name {
        Name { schema: self.schema_name.clone(), name: self.name.clone() }
    }
}

impl Table {
    /// Its public indexes, without that of the primary key.
    pub fn readable_indexes(&self) -> impl Iterator<Item = &Arc<Index>> {
        self.indexes.iter().filter(|index| index.readable.is_some())
    }

    /// True if it has a primary key.
    pub fn has_key(&self) -> bool {
        !self.key.is_empty()
    }

    /// True if a constraint of the table has this name.
    pub fn has_constraint(&self, name: &str) -> bool {
        self.constraint_names().any(|taken| taken == name)
    }

    /// The names of its constraints.
    pub fn constraint_names(&self) -> impl Iterator<Item = String> {
        let checks = self.checks.iter().map(|check| &check.name);
        let unique = self.indexes.iter().filter(|index| index.constraint).map(|index| &index.name);
        let key = self.has_key().then_some(&self.key_name);
        let foreign = self.foreign_keys.iter().map(|key| &key.name);
        checks.chain(unique).chain(key).chain(foreign).cloned()
    }

    /// The columns of the primary key as parts of an index.
    pub fn key_parts(&self) -> Vec<Part> {
        self.key.iter().map(|&at| Part::Column(at)).collect()
    }

    /// The number of values of a row, including the row id.
    pub fn width(&self) -> usize {
        self.columns.len() + usize::from(!self.has_key())
    }

    /// The slots of the row key: the columns of the shard key, then the other columns of the
    /// primary key, or the row id.
    pub fn key_slots(&self) -> Vec<usize> {
        place_of(&self.key, &self.shard, self.columns.len())
    }

    /// True if a column is part of the row key, and therefore never NULL.
    pub fn is_in_key(&self, column: usize) -> bool {
        self.key.contains(&column) || self.shard.contains(&column)
    }

    /// The type of a slot.
    pub fn slot_type(&self, slot: usize) -> SqlType {
        self.columns.get(slot).map_or(SqlType::Int8, |column| column.ty)
    }

    /// The index of a column, by name.
    ///
    /// # Errors
    /// 42703, with a similar name.
    pub fn column(&self, name: &str) -> Result<usize, SqlError> {
        self.columns.iter().position(|column| column.name == name).ok_or_else(|| {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", self.name);
            let error = SqlError::new(code::UNDEFINED_COLUMN, message);
            match similar(name, self.columns.iter().map(|column| column.name.as_str())) {
                Some(other) => error.hint(format!("Perhaps you meant \"{other}\".")),
                None => error,
            }
        })
    }
}

impl TableColumn {
    /// A nullable column without a default.
    pub fn plain(name: String, ty: SqlType) -> TableColumn {
        TableColumn {
            name,
            ty,
            domain: None,
            not_null: false,
            default: None,
            identity: None,
            is_generated: false,
            missing: None,
        }
    }

    /// The expression of a generated column.
    pub fn generated(&self) -> Option<&str> {
        self.default.as_deref().filter(|_| self.is_generated)
    }
}

impl Table {
    /// Adds a column at the end. Existing rows stay unchanged, and have the value `missing` in it.
    ///
    /// # Errors
    /// Errors of the design.
    pub fn add_column(&mut self, column: TableColumn, missing: Value) -> Result<(), SqlError> {
        let used = self.schema.columns().iter().map(|column| column.name.clone()).collect();
        let name = Names { used }.fresh(&column.name);
        let stored = Column { name, ty: column.ty.storage(), nullable: !column.not_null };
        let schema = self.schema.add_column(self.columns.len(), stored, &missing);
        self.schema = Arc::new(schema.map_err(refused)?);
        self.columns.push(TableColumn { missing: Some(missing), ..column });
        Ok(())
    }

    /// The missing values of added columns in their stored form, one per line.
    pub fn missing_values(&self) -> Option<String> {
        let line =
            |column: &TableColumn| Some(column.ty.storage().format(column.missing.as_ref()?));
        let lines: Vec<String> = self.columns.iter().filter_map(line).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    /// Marks the last columns as added, with stored missing values.
    ///
    /// # Errors
    /// XX000 if the values do not match the columns.
    pub fn set_missing_values(&mut self, kept: &str) -> Result<(), SqlError> {
        let damaged = |line: &str| {
            let message = format!("{line} is no missing value of table \"{}\"", self.name);
            SqlError::new(code::INTERNAL, message)
        };
        let first = self.columns.len().checked_sub(kept.lines().count());
        let mut added = self.columns.split_off(first.ok_or_else(|| damaged(kept))?);
        let mut values = Vec::new();
        for (column, line) in added.iter().zip(kept.lines()) {
            let value = match line {
                "null" => Some(Value::Null),
                line => column.ty.storage().parse(line),
            };
            values.push(value.ok_or_else(|| damaged(line))?);
        }
        added.drain(..).zip(values).try_for_each(|(column, value)| self.add_column(column, value))
    }
}

/// The store schema of rows of a table with this name, sorted by these [slots](place_of).
///
/// # Errors
/// Errors of the design.
pub fn row_schema(
    physical: &str,
    columns: &[TableColumn],
    place: &[usize],
) -> Result<Schema, SqlError> {
    let mut names = Names::default();
    let mut kept: Vec<Column> = Vec::new();
    for (at, column) in columns.iter().enumerate() {
        let name = names.fresh(&column.name);
        let nullable = !column.not_null && !place.contains(&at);
        kept.push(Column { name, ty: column.ty.storage(), nullable });
    }
    if place.contains(&columns.len()) {
        kept.push(Column::new(names.fresh("row_id"), ColumnType::Int64));
    }
    let key_names: Vec<String> = place.iter().map(|&at| kept[at].name.clone()).collect();
    build(physical, kept, &key_names)
}

/// The store schema of the entries of an index on such a table.
///
/// # Errors
/// Errors of the design.
pub fn entry_schema(
    physical: &str,
    columns: &[TableColumn],
    place: &[usize],
    indexed: &[Part],
) -> Result<Schema, SqlError> {
    let mut names = Names::default();
    let mut kept: Vec<Column> = Vec::new();
    for part in indexed {
        let (name, ty, is_known) = match part {
            Part::Column(at) => {
                let column = &columns[*at];
                (&*column.name, column.ty, column.not_null || place.contains(at))
            }
            Part::Computed(computed) => ("computed", computed.ty, false),
        };
        if !is_known {
            let name = names.fresh(&format!("{name}_is_null"));
            kept.push(Column::new(name, ColumnType::Bool));
        }
        kept.push(Column::new(names.fresh(name), ty.storage()));
    }
    for &at in place {
        kept.push(match columns.get(at) {
            Some(column) => Column::new(names.fresh(&column.name), column.ty.storage()),
            None => Column::new(names.fresh("row_id"), ColumnType::Int64),
        });
    }
    let key_names: Vec<String> = kept.iter().map(|column| column.name.clone()).collect();
    build(physical, kept, &key_names)
}

fn build(physical: &str, columns: Vec<Column>, key: &[String]) -> Result<Schema, SqlError> {
    let key: Vec<&str> = key.iter().map(String::as_str).collect();
    Schema::new(plain(physical), columns, &key).map_err(refused)
}

fn refused(error: SchemaError) -> SqlError {
    SqlError::new(code::INVALID_TABLE_DEFINITION, error.to_string())
}

/// Makes names for the store: letters, digits and underscores, and unique.
#[derive(Default)]
struct Names {
    used: Vec<String>,
}

impl Names {
    fn fresh(&mut self, wanted: &str) -> String {
        let stem = plain(wanted);
        let mut name = stem.clone();
        for count in 1.. {
            if !self.used.contains(&name) {
                break;
            }
            let kept = stem.len().min(NAME_BYTES_MAX.saturating_sub(count));
            name = format!("{}{}", &stem[..kept], "_".repeat(count));
        }
        self.used.push(name.clone());
        name
    }
}

impl Table {
    /// The CREATE TABLE statement without indexes, which is the stored form.
    pub fn definition(&self) -> String {
        let always = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let mut parts: Vec<String> = Vec::new();
        for column in &self.columns {
            let mut part = format!("{} {}", always(&column.name), column.kept_type());
            if column.not_null {
                part.push_str(" NOT NULL");
            }
            if let Some(identity) = column.identity {
                part.push_str(&format!(" GENERATED {} AS IDENTITY", identity.words()));
            } else if let Some(expr) = column.generated() {
                part.push_str(&format!(" GENERATED ALWAYS AS ({expr}) STORED"));
            } else if let Some(default) = &column.default {
                part.push_str(&format!(" DEFAULT {default}"));
            }
            parts.push(part);
        }
        if self.has_key() {
            let names: Vec<String> =
                self.key.iter().map(|&at| always(&self.columns[at].name)).collect();
            let name = always(&self.key_name);
            parts.push(format!("CONSTRAINT {name} PRIMARY KEY ({})", names.join(", ")));
        }
        for check in &self.checks {
            parts.push(format!("CONSTRAINT {} CHECK ({})", always(&check.name), check.condition));
        }
        let shard = match self.shard_by() {
            Some(columns) => format!(" WITH (shard_by = '{}')", columns.replace('\'', "''")),
            None => String::new(),
        };
        let schema = match self.schema_name == PUBLIC {
            true => String::new(),
            false => format!("{}.", always(&self.schema_name)),
        };
        format!("CREATE TABLE {schema}{} ({}){shard}", always(&self.name), parts.join(", "))
    }
}

impl Part {
    /// The expression, if it is one.
    pub fn as_computed(&self) -> Option<&Arc<Computed>> {
        match self {
            Part::Column(_) => None,
            Part::Computed(computed) => Some(computed),
        }
    }

    /// Its type.
    pub fn ty(&self, table: &Table) -> SqlType {
        match self {
            Part::Column(at) => table.columns[*at].ty,
            Part::Computed(computed) => computed.ty,
        }
    }

    /// True if it is never NULL, so that entries have no NULL mark.
    pub fn is_known(&self, table: &Table) -> bool {
        matches!(self, Part::Column(at) if table.columns[*at].not_null || table.is_in_key(*at))
    }

    /// The expression over a row whose slots begin at `offset`.
    pub fn expr(&self, offset: usize) -> Expr {
        match self {
            Part::Column(at) => Expr::Column(offset + at),
            Part::Computed(computed) => computed.value.moved(offset),
        }
    }

    /// The columns that it reads.
    pub fn columns(&self) -> &[usize] {
        match self {
            Part::Column(at) => std::slice::from_ref(at),
            Part::Computed(computed) => &computed.columns,
        }
    }

    /// In SQL notation; with `is_pretty`, only with necessary parentheses.
    pub fn written(&self, table: &Table, is_pretty: bool) -> String {
        match self {
            Part::Column(at) => quoted(&table.columns[*at].name),
            Part::Computed(computed) if is_pretty || computed.is_call() => computed.shown(),
            Part::Computed(computed) => format!("({})", computed.shown()),
        }
    }

    /// In the notation of error messages.
    pub fn said(&self, table: &Table) -> String {
        match self {
            Part::Column(at) => table.columns[*at].name.clone(),
            Part::Computed(computed) => computed.shown(),
        }
    }
}

impl Computed {
    /// In the notation of the system catalog.
    pub fn shown(&self) -> String {
        if self.is_call() { self.text.clone() } else { format!("({})", self.text) }
    }

    /// True for a function call, which needs no parentheses in an index.
    pub fn is_call(&self) -> bool {
        let parsed = crate::parse::parse_expression(&self.text);
        matches!(parsed, Ok(sqlparser::ast::Expr::Function(_)))
    }
}

impl Index {
    /// The columns of an index without expressions; otherwise empty.
    pub fn columns_of(parts: &[Part]) -> Vec<usize> {
        let column = |part: &Part| match part {
            Part::Column(at) => Some(*at),
            Part::Computed(_) => None,
        };
        parts.iter().map(column).collect::<Option<Vec<_>>>().unwrap_or_default()
    }

    /// Its expressions and predicate.
    pub fn computed(&self) -> impl Iterator<Item = &Arc<Computed>> {
        self.parts.iter().filter_map(Part::as_computed).chain(&self.predicate)
    }

    /// The index with each expression replaced.
    ///
    /// # Errors
    /// Those of `anew`.
    pub fn with_computed(
        &self,
        mut anew: impl FnMut(&Computed) -> Result<Arc<Computed>, SqlError>,
    ) -> Result<Index, SqlError> {
        let mut index = self.clone();
        for part in &mut index.parts {
            if let Part::Computed(computed) = part {
                *computed = anew(computed)?;
            }
        }
        if let Some(predicate) = &mut index.predicate {
            *predicate = anew(predicate)?;
        }
        Ok(index)
    }

    /// True if it guarantees uniqueness over all rows, as foreign keys and the primary key require.
    pub fn is_of_all(&self) -> bool {
        self.unique && self.predicate.is_none()
    }

    /// The columns that determine a row's entry, possibly with repetitions.
    pub fn looked_at(&self) -> impl Iterator<Item = &usize> {
        let parts = self.parts.iter().flat_map(Part::columns);
        parts.chain(self.predicate.iter().flat_map(|predicate| &predicate.columns))
    }

    /// The CREATE INDEX statement.
    pub fn definition(&self, table: &Table) -> String {
        self.definition_as(table, false)
    }

    /// As [`Index::definition`]; with `is_pretty`, only with necessary parentheses.
    pub fn definition_as(&self, table: &Table, is_pretty: bool) -> String {
        let only = match (&self.predicate, is_pretty) {
            (None, _) => String::new(),
            (Some(predicate), true) => format!(" WHERE {}", predicate.text),
            (Some(predicate), false) => format!(" WHERE ({})", predicate.text),
        };
        let columns: Vec<String> =
            self.parts.iter().map(|part| part.written(table, is_pretty)).collect();
        let nulls = if self.nulls_equal { " NULLS NOT DISTINCT" } else { "" };
        format!(
            "CREATE {}INDEX {} ON {} USING btree ({}){nulls}{only}",
            if self.unique { "UNIQUE " } else { "" },
            quoted(&self.name),
            table.full_name().written(),
            columns.join(", ")
        )
    }
}

/// The key of a row's entry in an index, if it has one.
///
/// # Errors
/// If the values do not fit their types, or the evaluation of the index's expressions fails.
pub fn entry_key(
    table: &Table,
    index: &Index,
    values: &[Datum],
    by: &Immutable,
) -> Result<Option<Key>, SqlError> {
    crate::exec::entry_key(table, index, values, by)
}

/// The part of an entry that equals that of duplicate rows (`None` if a NULL makes the row
/// distinct), and the key of its row.
///
/// # Errors
/// XX000 if the key is no entry of the index.
pub fn parts_of_entry(
    table: &Table,
    index: &Index,
    entry: &Key,
) -> Result<(Option<Key>, Key), SqlError> {
    crate::exec::parts_of_entry(table, index, entry)
}

/// The key and the bytes of a row, without its row id if the table has a key.
///
/// # Errors
/// 23502; errors if the values do not fit.
pub fn row_of(table: &Table, values: &[Datum]) -> Result<(Key, Vec<u8>), SqlError> {
    crate::exec::row_of(table, values)
}

/// A row and its index entries in one layout: store table, key and bytes of each.
pub type Copies = Vec<(TableId, Key, Vec<u8>)>;

/// The row and the entries of a row in a second layout.
///
/// # Errors
/// 23502 if a value of the row key is NULL; errors of [`entry_key`].
pub fn copies(layout: &Table, values: &[Datum], by: &Immutable) -> Result<Copies, SqlError> {
    crate::exec::copies(layout, values, by)
}

/// The DETAIL of a uniqueness violation, in PostgreSQL's wording.
pub fn duplicated(table: &Table, index: &Index, values: &[Datum], by: &Immutable) -> String {
    format!("Key {} is duplicated.", crate::exec::shown_key(table, &index.parts, values, by))
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_design::Value;

    #[test]
    fn names_that_are_made_are_short_enough_and_keep_their_ending() {
        assert_eq!(made_name("t", "a_b", "key"), "t_a_b_key");
        assert_eq!(made_name("t", "", "pkey"), "t_pkey");
        let (table, column) = ("t".repeat(63), "c".repeat(40));
        let name = made_name(&table, &column, "idx");
        assert_eq!(name, format!("{}_{}_idx", "t".repeat(29), "c".repeat(29)));
        assert_eq!(made_name(&table, "", "pkey").len(), 63);
        let taken = [name.clone(), made_name(&table, &column, "idx1")];
        let free = free_made_name(&table, &column, "idx", |name| taken.contains(&name.to_owned()));
        assert!(free.ends_with("_idx2") && free.len() <= 63, "{free}");
        let stem = "s".repeat(80);
        assert!(numbered(&stem, 2) != numbered(&stem, 12) && numbered(&stem, 12).len() <= 56);
    }

    fn column(name: &str, ty: SqlType) -> TableColumn {
        TableColumn::plain(name.to_owned(), ty)
    }

    #[test]
    fn stored_missing_values_are_read_back() {
        let columns = vec![column("id", SqlType::Int8)];
        let schema = row_schema("t", &columns, &place_of(&[], &[], 1)).expect("a schema");
        let made = Table {
            id: TableId(1),
            oid: FIRST_OID,
            schema_name: PUBLIC.to_owned(),
            name: "t".to_owned(),
            columns,
            key: Vec::new(),
            shard: Vec::new(),
            primary: None,
            readable: Some(Time(0)),
            beside: None,
            key_name: String::new(),
            checks: Vec::new(),
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
            schema: Arc::new(schema),
        };
        assert_eq!(made.missing_values(), None);
        let added = [
            (SqlType::Text, Value::from("null")),
            (SqlType::Text, Value::from("two\nlines, 'quoted'\r\\")),
            (SqlType::Text, Value::Null),
            (SqlType::Text, Value::from("")),
            (SqlType::Date, Value::Int64(i64::MIN)),
            (SqlType::TimestampTz, Value::Timestamp(i64::MAX)),
            (SqlType::Float8, Value::Float64(-0.0)),
            (SqlType::Float8, Value::Float64(f64::NEG_INFINITY)),
            (SqlType::Numeric(Some((38, 4))), Value::Decimal(-1)),
            (SqlType::Bytea, Value::Bytes(vec![0, 255])),
            (SqlType::Bool, Value::Bool(false)),
        ];
        let mut table = made.clone();
        for (at, (ty, value)) in added.iter().enumerate() {
            // The name of the hidden key is reserved in the store.
            let name = if at == 0 { "row_id".to_owned() } else { format!("c{at}") };
            table.add_column(column(&name, *ty), value.clone()).expect("a column");
        }
        let mut again = Table { columns: table.columns.clone(), ..made.clone() };
        again.columns.iter_mut().for_each(|column| column.missing = None);
        again.set_missing_values(&table.missing_values().expect("values")).expect("as written");
        assert_eq!(again.columns, table.columns);
        assert_eq!(again.schema, table.schema);
        let (key, row) = made.schema.encode_row(&[Value::from(7), Value::from(1)]).expect("a row");
        let values = again.schema.decode_row(&key, &row).expect("a row of the table");
        assert_eq!(values[1..=added.len()], added.map(|(_, value)| value));
        assert_eq!(values.last(), Some(&Value::from(1)), "the row id stays behind them");
        for kept in ["x", "5\n5\n5"] {
            let mut table = made.clone();
            assert_eq!(table.set_missing_values(kept).unwrap_err().code, code::INTERNAL, "{kept}");
        }
    }
}
