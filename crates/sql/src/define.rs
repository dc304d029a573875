//! Definitions: validates CREATE TABLE, CREATE INDEX and ALTER TABLE. Clauses that would have no
//! effect are refused ([`crate::refuse`]). A foreign key is checked when the table that it
//! references is known ([`crate::foreign`]).

pub use crate::bind::{
    check_argument, check_conditions, check_domain, check_generated, computed_of, is_assignable,
    renamed, type_of,
};
use crate::bind::{column_name, folded, written_computed};
use crate::catalog::Part as IndexPart;
use crate::catalog::TableColumn;
use crate::catalog::{Catalog, Check, Computed, Identity, Index, Named, NamedType, Table};
use crate::checks::Names;
use crate::error::{SqlError, code, similar};
use crate::parameters;
use crate::parse::Like;
use crate::parse::sequence_options as sequence_options_of;
use crate::refuse;
use crate::sequence::{SequenceOptions, bound, normal};
use crate::types::SqlType;
use isomer_design::Backups;
use sqlparser::ast::{
    ColumnDef, ColumnOption, CreateIndex, CreateTable, CreateTableOptions, DataType, Expr,
    ForeignKeyConstraint, GeneratedAs, IndexColumn, NullsDistinctOption, ObjectName,
    TableConstraint, UniqueConstraint,
};
use std::collections::BTreeSet;
use std::sync::Arc;

const TABLE_COLUMNS_MAX: usize = 1600;
const INDEX_COLUMNS_MAX: usize = 32;
const INDEXES_MAX: usize = 256;

/// A table to be created.
#[derive(Clone, PartialEq, Debug)]
pub struct NewTable {
    /// Its schema, if it is explicit.
    pub schema: Option<String>,
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<TableColumn>,
    /// The columns of its primary key.
    pub key: Vec<usize>,
    /// The columns of its shard key, if rows are not sorted by the primary key.
    pub shard: Vec<usize>,
    /// The name of the primary key.
    pub key_name: Option<String>,
    /// Its check constraints.
    pub checks: Vec<Check>,
    /// Its unique constraints.
    pub unique: Vec<NewIndex>,
    /// Its other indexes.
    pub indexes: Vec<NewIndex>,
    /// Comments on its parts, copied by LIKE.
    pub comments: Vec<(Part, Arc<str>)>,
    /// Serial and identity columns; for an identity, the options of its sequence.
    pub serial: Vec<(usize, Option<SequenceOptions>)>,
    /// The number of its backups, if it is explicit.
    pub backups: Option<Backups>,
    /// True if one total order serializes the transactions on it.
    pub is_ordered: bool,
    /// The mode of the table for strategies; `None`: that of the server.
    pub autopilot: Option<String>,
    /// Its foreign keys, as requested.
    pub foreign_keys: Vec<ForeignKeyConstraint>,
    /// Checks without a final name, with their explicit name if there is one.
    unnamed: Vec<(Option<String>, String)>,
}

/// A part of a new table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// A column.
    Column(String),
    /// The primary key.
    Key,
    /// A unique constraint, by index.
    Unique(usize),
    /// An index, by index.
    Index(usize),
}

/// An index to be created.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct NewIndex {
    /// Its name; `None` chooses one.
    pub name: Option<String>,
    /// Its columns and expressions.
    pub parts: Vec<NewPart>,
    /// True if it is unique.
    pub unique: bool,
    /// True if a NULL counts as equal to another there.
    pub nulls_equal: bool,
    /// Its predicate as an SQL expression; `None` for all rows.
    pub predicate: Option<String>,
}

/// A part of an index to be created.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NewPart {
    /// A column.
    Column(usize),
    /// An SQL expression over the row.
    Computed(String),
}

impl NewIndex {
    /// The index of a unique constraint of a statement.
    pub fn of_constraint(unique: &UniqueConstraint, columns: Vec<usize>) -> NewIndex {
        let nulls_equal = unique.nulls_distinct == NullsDistinctOption::NotDistinct;
        NewIndex::unique(unique.name.as_ref().map(folded), columns, nulls_equal)
    }

    /// The index of a unique constraint.
    pub fn unique(name: Option<String>, columns: Vec<usize>, nulls_equal: bool) -> NewIndex {
        let parts = columns.into_iter().map(NewPart::Column).collect();
        NewIndex { name, parts, unique: true, nulls_equal, predicate: None }
    }

    /// An index like another, with columns mapped by `place`.
    pub fn like(index: &Index, place: impl Fn(usize) -> usize) -> NewIndex {
        let part = |part: &IndexPart| match part {
            IndexPart::Column(at) => NewPart::Column(place(*at)),
            IndexPart::Computed(computed) => NewPart::Computed(computed.text.clone()),
        };
        let parts = index.parts.iter().map(part).collect();
        let predicate = index.predicate.as_ref().map(|predicate| predicate.text.clone());
        let Index { unique, nulls_equal, .. } = *index;
        NewIndex { name: None, parts, unique, nulls_equal, predicate }
    }

    /// Binds its parts and its predicate for a table.
    ///
    /// # Errors
    /// As [`Computed::of`]; 0A000 for a part whose type cannot be a key.
    pub fn bound(&self, table: &Table, catalog: &Catalog) -> Result<BoundIndex, SqlError> {
        let table = Arc::new(table.clone());
        let part = |part: &NewPart| match part {
            NewPart::Column(at) => Ok(IndexPart::Column(*at)),
            NewPart::Computed(text) => {
                let computed = Computed::of(text.clone(), false, &table, catalog)?;
                check_order(computed.ty, "an index")?;
                Ok(IndexPart::Computed(computed))
            }
        };
        let parts = self.parts.iter().map(part).collect::<Result<Vec<_>, SqlError>>()?;
        let predicate = self.predicate.as_ref();
        let predicate = predicate.map(|text| Computed::of(text.clone(), true, &table, catalog));
        Ok((parts, predicate.transpose()?))
    }

    /// The names of its parts within a default name.
    pub fn part_names(&self, table: &Table) -> Vec<String> {
        let name = |part: &NewPart| match part {
            NewPart::Column(at) => table.columns[*at].name.clone(),
            NewPart::Computed(text) => computed_name(text),
        };
        self.parts.iter().map(name).collect()
    }
}

/// The bound parts and predicate of an index.
pub type BoundIndex = (Vec<IndexPart>, Option<Arc<Computed>>);

/// The name of an expression as a column of an index.
pub fn computed_name(text: &str) -> String {
    let parsed = crate::parse::parse_expression(text);
    let name = parsed.map_or_else(|_| String::new(), |ast| column_name(&ast));
    if name.is_empty() || name.starts_with('?') { "expr".to_owned() } else { name }
}

/// A name without a schema.
///
/// # Errors
/// 42601 if it has one.
pub fn plain_name(name: &ObjectName) -> Result<String, SqlError> {
    match Named::of(name)? {
        Named { schema: None, name } => Ok(name),
        Named { .. } => Err(SqlError::new(code::SYNTAX, "syntax error at or near \".\"")),
    }
}

/// Validates a CREATE TABLE.
///
/// # Errors
/// 42601, 42701, 42P16, 0A000.
pub fn new_table(create: &CreateTable, catalog: &Catalog) -> Result<NewTable, SqlError> {
    new_table_like(create, &[], catalog)
}

/// Validates a CREATE TABLE with LIKE clauses.
///
/// # Errors
/// As [`new_table`]; 42P01.
pub fn new_table_like(
    create: &CreateTable,
    likes: &[Like],
    catalog: &Catalog,
) -> Result<NewTable, SqlError> {
    refuse::create_table(create)?;
    let mut table = NewTable::of(Named::of(&create.name)?);
    if let CreateTableOptions::With(options) = &create.table_options {
        table.backups = parameters::backups(options)?;
        table.is_ordered = parameters::is_ordered(options)?.unwrap_or(false);
        table.autopilot = parameters::autopilot(options)?;
    }
    for at in 0..=create.columns.len() {
        for like in likes.iter().filter(|like| like.at == at) {
            table.add_like(like, catalog)?;
        }
        if let Some(column) = create.columns.get(at) {
            table.add_column(column, catalog)?;
        }
    }
    for constraint in &create.constraints {
        table.add_constraint(constraint)?;
    }
    table.name_checks(&[], [])?;
    table.check_names()?;
    keep_types(&mut table.columns, &mut table.checks, catalog);
    if table.columns.is_empty() {
        return Err(SqlError::unsupported("a table without columns"));
    }
    if let CreateTableOptions::With(options) = &create.table_options {
        let names = parameters::shard_by(options)?;
        table.shard = shard_columns(&table.columns, &table.name, &names)?;
    }
    check_indexes(table.unique.len() + table.indexes.len())?;
    Ok(table)
}

/// A column to be added.
pub struct NewColumn {
    /// The column.
    pub column: TableColumn,
    /// Its check constraints.
    pub checks: Vec<Check>,
    /// Set for a serial or identity column; for an identity, with the options of its sequence.
    pub serial: Option<Option<SequenceOptions>>,
    /// Set if it becomes the primary key, with the explicit name if there is one.
    pub key: Option<Option<String>>,
    /// Its unique constraints, with their explicit names.
    pub unique: Vec<Option<String>>,
    /// Its foreign keys, as requested.
    pub foreign_keys: Vec<ForeignKeyConstraint>,
}

/// Validates an ADD COLUMN.
///
/// # Errors
/// As [`new_table`].
pub fn new_column(
    table: &Table,
    column: &ColumnDef,
    catalog: &Catalog,
) -> Result<NewColumn, SqlError> {
    let mut alone = NewTable::of(Named::plain(&*table.name));
    alone.add_column(column, catalog)?;
    alone.name_checks(&table.columns, table.constraint_names())?;
    keep_types(&mut alone.columns, &mut alone.checks, catalog);
    let key = (!alone.key.is_empty()).then(|| alone.key_name.take());
    let unique = alone.unique.drain(..).map(|unique| unique.name).collect();
    let column = alone.columns.pop().expect("it was just added");
    let serial = alone.serial.pop().map(|(_, options)| options);
    let foreign_keys = alone.foreign_keys;
    Ok(NewColumn { column, checks: alone.checks, serial, key, unique, foreign_keys })
}

/// Stored expressions must mean the same types under any path.
fn keep_types(columns: &mut [TableColumn], checks: &mut [Check], catalog: &Catalog) {
    let keep = |text: &mut String| *text = catalog.with_kept_types(text);
    let computed = columns.iter_mut().filter(|column| column.is_generated);
    computed.filter_map(|column| column.default.as_mut()).for_each(keep);
    checks.iter_mut().for_each(|check| keep(&mut check.condition));
}

impl NewTable {
    fn of(named: Named) -> NewTable {
        NewTable {
            schema: named.schema,
            name: named.name,
            columns: Vec::new(),
            key: Vec::new(),
            shard: Vec::new(),
            key_name: None,
            checks: Vec::new(),
            unique: Vec::new(),
            indexes: Vec::new(),
            comments: Vec::new(),
            serial: Vec::new(),
            backups: None,
            is_ordered: false,
            autopilot: None,
            foreign_keys: Vec::new(),
            unnamed: Vec::new(),
        }
    }

    fn check_column(&self, name: &str) -> Result<(), SqlError> {
        if self.columns.iter().any(|other| other.name == name) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(code::DUPLICATE_COLUMN, message));
        }
        check_columns(self.columns.len() + 1)
    }

    fn add_column(&mut self, column: &ColumnDef, catalog: &Catalog) -> Result<(), SqlError> {
        let name = folded(&column.name);
        self.check_column(&name)?;
        let at = self.columns.len();
        let NamedType { ty, domain } = catalog.named_type(&column.data_type)?;
        let mut not_null = false;
        if is_serial(&column.data_type) {
            self.serial.push((at, None));
            not_null = true;
        }
        let (mut default, mut identity, mut is_generated) = (None, None, false);
        for option in &column.options {
            refuse::column_option(&option.option)?;
            match &option.option {
                ColumnOption::NotNull => not_null = true,
                ColumnOption::Null => {}
                // An explicit DEFAULT NULL overrides the default of a domain.
                ColumnOption::Default(Expr::Value(value))
                    if value.value == sqlparser::ast::Value::Null && domain.is_none() => {}
                ColumnOption::Default(_) if default.is_some() => {
                    let what = match is_generated {
                        true => "both default and generation expression",
                        false => "multiple default values",
                    };
                    return Err(self.twice(what, &name));
                }
                ColumnOption::Default(expr) => default = Some(normal(&expr.to_string())),
                ColumnOption::PrimaryKey(_) => {
                    check_order(ty, "a key or an index")?;
                    self.set_key(vec![at], option.name.as_ref().map(folded))?;
                }
                ColumnOption::Unique(_) => {
                    check_order(ty, "a key or an index")?;
                    let name = option.name.as_ref().map(folded);
                    self.unique.push(NewIndex::unique(name, vec![at], false));
                }
                ColumnOption::ForeignKey(key) => self.foreign_keys.push(ForeignKeyConstraint {
                    name: option.name.clone().or_else(|| key.name.clone()),
                    columns: vec![column.name.clone()],
                    ..key.clone()
                }),
                ColumnOption::Collation(_) => {}
                ColumnOption::Generated {
                    generated_as,
                    sequence_options,
                    generation_expr: None,
                    ..
                } => {
                    if domain.is_some() {
                        return Err(no_identity());
                    }
                    identity = Some(Identity::of(*generated_as == GeneratedAs::Always));
                    let said = sequence_options.iter().flatten().map(ToString::to_string);
                    let said = sequence_options_of(&said.collect::<Vec<_>>().join(" "))?;
                    self.serial.push((at, Some(said)));
                    not_null = true;
                }
                ColumnOption::Generated {
                    generated_as: GeneratedAs::ExpStored,
                    generation_expr: Some(expr),
                    ..
                } => {
                    if let Some(what) = match (&default, &identity) {
                        (_, Some(_)) => Some("both identity and generation expression"),
                        (Some(_), _) if is_generated => Some("multiple generation clauses"),
                        (Some(_), _) => Some("both default and generation expression"),
                        _ => None,
                    } {
                        return Err(self.twice(what, &name));
                    }
                    (default, is_generated) = (Some(normal(&expr.to_string())), true);
                }
                ColumnOption::Check(check) => {
                    let named = option.name.as_ref().or(check.name.as_ref());
                    self.unnamed.push((named.map(folded), check.expr.to_string()));
                }
                other => return Err(SqlError::unsupported(format!("the column option {other}"))),
            }
        }
        if self.serial.iter().filter(|(serial, _)| *serial == at).count()
            + usize::from(default.is_some())
            > 1
        {
            let what = match identity {
                Some(_) if is_generated => "both identity and generation expression",
                Some(_) => "both default and identity",
                None if is_generated => "both default and generation expression",
                None => "multiple default values",
            };
            return Err(self.twice(what, &name));
        }
        let missing = None;
        self.columns.push(TableColumn {
            name,
            ty,
            domain,
            not_null,
            default,
            identity,
            is_generated,
            missing,
        });
        Ok(())
    }

    fn twice(&self, what: &str, column: &str) -> SqlError {
        let message =
            format!("{what} specified for column \"{column}\" of table \"{}\"", self.name);
        SqlError::new(code::SYNTAX, message)
    }

    /// Adds the columns of another table or view, and its further parts as LIKE says.
    fn add_like(&mut self, like: &Like, catalog: &Catalog) -> Result<(), SqlError> {
        let name = Named::of(&like.name)?;
        if let Some(view) = catalog.view(&name) {
            return view.columns.iter().try_for_each(|(name, ty)| {
                self.check_column(name)?;
                self.columns.push(TableColumn::plain(name.clone(), *ty));
                Ok(())
            });
        }
        let (table, including) = (catalog.table(&name)?, like.including);
        let first = self.columns.len();
        for column in &table.columns {
            self.check_column(&column.name)?;
            let at = self.columns.len();
            let mut copy = TableColumn::plain(column.name.clone(), column.ty);
            copy.not_null = column.not_null;
            copy.domain.clone_from(&column.domain);
            let is_wanted = match (column.identity, column.is_generated) {
                (Some(_), _) => false,
                (_, true) => including.generated,
                _ => including.defaults,
            };
            let default = column.default.as_deref().filter(|_| is_wanted);
            copy.default = default.map(bound);
            copy.is_generated = column.is_generated && is_wanted;
            let own = catalog.sequence_of(table.oid, &column.name);
            if let (Some(identity), Some(own), true) = (column.identity, own, including.identity) {
                copy.identity = Some(identity);
                self.serial.push((at, Some(sequence_options_of(&own.to_string())?)));
            }
            let said = catalog.comment(table.oid, &column.name).filter(|_| including.comments);
            let part = || Part::Column(column.name.clone());
            self.comments.extend(said.map(|said| (part(), Arc::from(said))));
            self.columns.push(copy);
        }
        if including.constraints {
            for check in &table.checks {
                let condition = crate::parse::parse_expression(&check.condition)?;
                self.unnamed.push((Some(check.name.clone()), condition.to_string()));
            }
        }
        if including.indexes {
            self.add_indexes_like((table, first), including.comments, catalog)?;
        }
        Ok(())
    }

    /// Adds the indexes and index-backed constraints of another table, whose columns begin at
    /// `first`.
    fn add_indexes_like(
        &mut self,
        (table, first): (&Table, usize),
        with_comments: bool,
        catalog: &Catalog,
    ) -> Result<(), SqlError> {
        let said =
            |oid: u32| catalog.comment(oid, "").filter(|_| with_comments).map(Arc::<str>::from);
        if table.has_key() {
            self.set_key(table.key.iter().map(|at| first + at).collect(), None)?;
            let said = said(crate::system::key_oid(table) as u32);
            self.comments.extend(said.map(|said| (Part::Key, said)));
        }
        for index in table.readable_indexes() {
            let new = NewIndex::like(index, |at| first + at);
            let (all, part): (_, fn(usize) -> Part) = match index.constraint {
                true => (&mut self.unique, Part::Unique),
                false => (&mut self.indexes, Part::Index),
            };
            let part = part(all.len());
            all.push(new);
            self.comments.extend(said(index.oid).map(|said| (part, said)));
        }
        Ok(())
    }

    fn add_constraint(&mut self, constraint: &TableConstraint) -> Result<(), SqlError> {
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                refuse::primary_key(key)?;
                let columns = columns_of(&self.columns, &self.name, &key.columns)?;
                self.set_key(columns, key.name.as_ref().map(folded))
            }
            TableConstraint::Unique(unique) => {
                refuse::unique(unique)?;
                let columns = columns_of(&self.columns, &self.name, &unique.columns)?;
                self.unique.push(NewIndex::of_constraint(unique, columns));
                Ok(())
            }
            TableConstraint::ForeignKey(key) => {
                self.foreign_keys.push(key.clone());
                Ok(())
            }
            TableConstraint::Check(check) => {
                refuse::enforced(check.enforced)?;
                self.unnamed.push((check.name.as_ref().map(folded), check.expr.to_string()));
                Ok(())
            }
            other => Err(SqlError::unsupported(format!("the constraint {other}"))),
        }
    }

    /// Names the checks, beside other columns and constraints of the table.
    fn name_checks(
        &mut self,
        others: &[TableColumn],
        taken: impl IntoIterator<Item = String>,
    ) -> Result<(), SqlError> {
        let unnamed = std::mem::take(&mut self.unnamed).into_iter();
        let columns = others.iter().chain(&self.columns).map(|column| column.name.as_str());
        let mut names = Names::new(&self.name, columns, taken);
        let checks = unnamed.map(|(name, condition)| names.named(name, condition));
        self.checks = checks.collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Refuses two constraints of one name. Index names are compared when the indexes are created,
    /// and the names of checks in [`Names`].
    fn check_names(&self) -> Result<(), SqlError> {
        let keys = self.key_name.iter().chain(self.unique.iter().filter_map(|it| it.name.as_ref()));
        let foreign = self.foreign_keys.iter().filter_map(|key| key.name.as_ref()).map(folded);
        let checks = self.checks.iter().map(|check| check.name.clone());
        let mut known: BTreeSet<String> = keys.cloned().collect();
        match foreign.chain(checks).find(|name| !known.insert(name.clone())) {
            None => Ok(()),
            Some(name) => Err(constraint_taken(&self.name, &name)),
        }
    }

    fn set_key(&mut self, columns: Vec<usize>, name: Option<String>) -> Result<(), SqlError> {
        if !self.key.is_empty() {
            let message =
                format!("multiple primary keys for table \"{}\" are not allowed", self.name);
            return Err(SqlError::new(code::INVALID_TABLE_DEFINITION, message));
        }
        self.key = columns;
        self.key_name = name;
        Ok(())
    }
}

/// 42710: the table already has a constraint of this name.
pub fn constraint_taken(table: &str, name: &str) -> SqlError {
    let message = format!("constraint \"{name}\" for relation \"{table}\" already exists");
    SqlError::new(code::DUPLICATE_OBJECT, message)
}

/// 22023: the type of the column cannot be an identity.
pub fn no_identity() -> SqlError {
    let message = "identity column type must be smallint, integer, or bigint";
    SqlError::new(code::INVALID_PARAMETER, message)
}

/// Checks the number of columns of a table against PostgreSQL's limit.
///
/// # Errors
/// 54011 above the limit.
pub fn check_columns(count: usize) -> Result<(), SqlError> {
    if count <= TABLE_COLUMNS_MAX {
        return Ok(());
    }
    let message = format!("tables can have at most {TABLE_COLUMNS_MAX} columns");
    Err(SqlError::new(code::TOO_MANY_COLUMNS, message))
}

/// Checks the number of indexes of a table.
///
/// # Errors
/// 54000 above the limit.
pub fn check_indexes(count: usize) -> Result<(), SqlError> {
    if count <= INDEXES_MAX {
        return Ok(());
    }
    let message = format!("a table can have at most {INDEXES_MAX} indexes");
    Err(SqlError::new(code::PROGRAM_LIMIT, message))
}

/// True for `serial` types, which stand for an integer and a sequence.
pub fn is_serial(ty: &DataType) -> bool {
    let DataType::Custom(name, _) = ty else { return false };
    let name = name.to_string().to_lowercase();
    matches!(
        name.as_str(),
        "serial" | "bigserial" | "smallserial" | "serial2" | "serial4" | "serial8"
    )
}

/// Refuses options of an ADD CONSTRAINT that are not supported.
///
/// # Errors
/// 0A000.
pub fn check_constraint(constraint: &TableConstraint) -> Result<(), SqlError> {
    match constraint {
        TableConstraint::PrimaryKey(key) => refuse::primary_key(key),
        TableConstraint::Unique(unique) => refuse::unique(unique),
        TableConstraint::Check(check) => refuse::enforced(check.enforced),
        _ => Ok(()),
    }
}

fn appears_twice(name: &str) -> SqlError {
    let message = format!("column \"{name}\" appears twice in a key or an index");
    SqlError::new(code::DUPLICATE_COLUMN, message)
}

fn check_parts(count: usize) -> Result<(), SqlError> {
    if count <= INDEX_COLUMNS_MAX {
        return Ok(());
    }
    let message = format!("cannot use more than {INDEX_COLUMNS_MAX} columns in an index");
    Err(SqlError::new(code::TOO_MANY_COLUMNS, message))
}

/// The indices of the columns of an index or a key.
///
/// # Errors
/// 42703, 0A000 for expressions.
pub fn columns_of(
    columns: &[TableColumn],
    table: &str,
    named: &[IndexColumn],
) -> Result<Vec<usize>, SqlError> {
    check_parts(named.len())?;
    let mut places = Vec::new();
    for column in named {
        let Expr::Identifier(name) = &column.column.expr else {
            return Err(SqlError::unsupported("an expression in a key")
                .hint("CREATE UNIQUE INDEX takes expressions."));
        };
        let name = folded(name);
        let at = columns.iter().position(|other| other.name == name).ok_or_else(|| {
            let message = format!("column \"{name}\" named in key does not exist in \"{table}\"");
            SqlError::new(code::UNDEFINED_COLUMN, message)
        })?;
        if places.contains(&at) {
            return Err(appears_twice(&name));
        }
        check_order(columns[at].ty, "a key or an index")?;
        places.push(at);
    }
    Ok(places)
}

/// The indices of the columns of a shard key.
///
/// # Errors
/// 42703, 42701, 42P16, 54011, 0A000.
pub fn shard_columns(
    columns: &[TableColumn],
    table: &str,
    names: &[String],
) -> Result<Vec<usize>, SqlError> {
    if names.len() > INDEX_COLUMNS_MAX {
        let message = format!("cannot use more than {INDEX_COLUMNS_MAX} columns in a shard key");
        return Err(SqlError::new(code::TOO_MANY_COLUMNS, message));
    }
    let mut places = Vec::new();
    for name in names {
        let at = columns.iter().position(|column| column.name == *name).ok_or_else(|| {
            let message =
                format!("column \"{name}\" named in shard key does not exist in \"{table}\"");
            let error = SqlError::new(code::UNDEFINED_COLUMN, message);
            match similar(name, columns.iter().map(|column| column.name.as_str())) {
                Some(other) => error.hint(format!("Perhaps you meant \"{other}\".")),
                None => error,
            }
        })?;
        if places.contains(&at) {
            let message = format!("column \"{name}\" appears twice in a shard key");
            return Err(SqlError::new(code::DUPLICATE_COLUMN, message));
        }
        check_order(columns[at].ty, "a shard key")?;
        places.push(at);
    }
    Ok(places)
}

/// Validates a CREATE INDEX on a table.
///
/// # Errors
/// 42703, 54011, 0A000 for other kinds than B-trees.
pub fn new_index(
    create: &CreateIndex,
    table: &Table,
    catalog: &Catalog,
) -> Result<NewIndex, SqlError> {
    refuse::create_index(create)?;
    let name = create.name.as_ref().map(plain_name).transpose()?;
    check_parts(create.columns.len())?;
    let mut create = create.clone();
    for part in &mut create.columns {
        while let Expr::Collate { expr, collation } = &part.column.expr {
            refuse::collation(collation)?;
            part.column.expr = Expr::clone(expr);
        }
    }
    let part = |part: &IndexColumn| match &part.column.expr {
        Expr::Identifier(_) => {
            let of = columns_of(&table.columns, &table.name, std::slice::from_ref(part))?;
            Ok(NewPart::Column(of[0]))
        }
        expr => Ok(NewPart::Computed(written_computed(expr, table, catalog)?)),
    };
    let parts = create.columns.iter().map(part).collect::<Result<Vec<_>, SqlError>>()?;
    if let Some(at) = (1..parts.len()).find(|&at| parts[..at].contains(&parts[at])) {
        return Err(appears_twice(&create.columns[at].column.expr.to_string()));
    }
    let predicate = create.predicate.as_ref();
    let predicate = predicate.map(|one| written_computed(one, table, catalog)).transpose()?;
    let nulls_equal = create.nulls_distinct == Some(false);
    Ok(NewIndex { name, parts, unique: create.unique, nulls_equal, predicate })
}

/// Refuses a type whose values cannot be keys.
fn check_order(ty: SqlType, what: &str) -> Result<(), SqlError> {
    match ty.has_order() {
        true => Ok(()),
        false => Err(SqlError::unsupported(format!("type {ty} in {what}"))),
    }
}
