//! Refuses syntax that the grammar accepts but Isomer does not implement, so that no clause is
//! silently ignored.
//!
//! The grammar covers many databases: it accepts clauses of others (`DELETE .. LIMIT`), and clauses
//! of PostgreSQL that are not implemented yet (`INCLUDE`). The binder reads the parts of the tree
//! that it implements, and would ignore the others. So each statement is checked for them first.
//!
//! Some clauses without effect are accepted, because they ask for less than Isomer does, or only
//! for speed. They are UNLOGGED, `fillfactor`, `FREEZE` of COPY, MATERIALIZED, DESC of an index,
//! and CASCADE if nothing depends on a table.

mod functions;

use crate::bind::folded;
use crate::error::{SqlError, code};
pub(crate) use functions::lacking_function;
use sqlparser::ast::{
    self, ColumnOption, ConstraintCharacteristics, CreateIndex, CreateTable, CreateTableOptions,
    DeferrableInitial, IndexType, LimitClause, Query, SetExpr, SqlOption, TableFactor,
};

/// Whether a clause is present, and its name.
type Wrong<'w> = (bool, &'w str);

fn refuse(all: &[Wrong<'_>]) -> Result<(), SqlError> {
    match all.iter().find(|(is_used, _)| *is_used) {
        Some((_, what)) => Err(SqlError::unsupported(what)),
        None => Ok(()),
    }
}

/// Refuses syntax that PostgreSQL does not accept either.
fn foreign(all: &[Wrong<'_>]) -> Result<(), SqlError> {
    match all.iter().find(|(is_used, _)| *is_used) {
        Some((_, what)) => {
            Err(SqlError::new(code::SYNTAX, format!("syntax error at or near {what}")))
        }
        None => Ok(()),
    }
}

/// Checks the clauses around a query.
pub(crate) fn query(query: &Query) -> Result<(), SqlError> {
    let fetch = query.fetch.as_ref();
    refuse(&[(fetch.is_some_and(|fetch| fetch.percent), "FETCH .. PERCENT")])?;
    let is_foreign = query.for_clause.is_some()
        || query.settings.is_some()
        || query.format_clause.is_some()
        || !query.pipe_operators.is_empty();
    let limit_by = matches!(&query.limit_clause,
        Some(LimitClause::LimitOffset { limit_by, .. }) if !limit_by.is_empty());
    let comma = matches!(&query.limit_clause, Some(LimitClause::OffsetCommaLimit { .. }));
    foreign(&[(is_foreign, "\"FOR\""), (limit_by, "\"BY\""), (comma, "\",\"")])
}

/// A SELECT.
pub(crate) fn select(select: &ast::Select) -> Result<(), SqlError> {
    let modified = match &select.group_by {
        ast::GroupByExpr::All(_) => true,
        ast::GroupByExpr::Expressions(_, modifiers) => !modifiers.is_empty(),
    };
    refuse(&[(select.into.is_some(), "SELECT INTO")])?;
    let is_foreign = select.prewhere.is_some()
        || !select.connect_by.is_empty()
        || !select.cluster_by.is_empty()
        || !select.distribute_by.is_empty()
        || !select.sort_by.is_empty()
        || select.value_table_mode.is_some()
        || select.exclude.is_some();
    foreign(&[
        (modified, "what stands behind GROUP BY"),
        (select.top.is_some(), "\"TOP\""),
        (!select.lateral_views.is_empty(), "\"LATERAL VIEW\""),
        (select.qualify.is_some(), "\"QUALIFY\""),
        (is_foreign, "a clause of another database"),
    ])
}

/// A source in FROM.
pub(crate) fn source(factor: &TableFactor) -> Result<(), SqlError> {
    match factor {
        TableFactor::Table { with_hints, version, partitions, json_path, index_hints, .. } => {
            let is_foreign = !with_hints.is_empty()
                || version.is_some()
                || !partitions.is_empty()
                || json_path.is_some()
                || !index_hints.is_empty();
            foreign(&[(is_foreign, "what stands behind a table")])
        }
        TableFactor::Derived { sample, .. } => refuse(&[(sample.is_some(), "TABLESAMPLE")]),
        TableFactor::UNNEST { with_offset: true, .. } => foreign(&[(true, "\"WITH OFFSET\"")]),
        _ => Ok(()),
    }
}

/// A function and its arguments.
pub(crate) fn function(function: &ast::Function) -> Result<(), SqlError> {
    let ast::FunctionArguments::List(list) = &function.args else { return Ok(()) };
    let is_order = |clause: &ast::FunctionArgumentClause| {
        matches!(clause, ast::FunctionArgumentClause::OrderBy(_))
    };
    refuse(&[
        (!list.clauses.iter().all(is_order), "this clause among the arguments of a function"),
        (function.null_treatment.is_some(), "IGNORE NULLS"),
    ])
}

/// An INSERT.
pub(crate) fn insert(insert: &ast::Insert) -> Result<(), SqlError> {
    let is_foreign = insert.or.is_some()
        || insert.ignore
        || insert.overwrite
        || insert.replace_into
        || insert.partitioned.is_some()
        || !insert.after_columns.is_empty()
        || !insert.assignments.is_empty()
        || insert.priority.is_some()
        || insert.insert_alias.is_some()
        || insert.output.is_some()
        || insert.settings.is_some()
        || insert.format_clause.is_some();
    foreign(&[(is_foreign, "a clause of another database")])?;
    let Some(query) = &insert.source else { return Ok(()) };
    let is_values = matches!(&*query.body, SetExpr::Values(_));
    let more = query.limit_clause.is_some()
        || query.fetch.is_some()
        || query.order_by.is_some()
        || query.with.is_some();
    refuse(&[
        (is_values && more, "VALUES with LIMIT, ORDER BY or WITH in an INSERT"),
        (!query.locks.is_empty(), "FOR UPDATE in an INSERT"),
    ])
}

/// An UPDATE.
pub(crate) fn update(update: &ast::Update) -> Result<(), SqlError> {
    foreign(&[
        (update.limit.is_some(), "\"LIMIT\""),
        (!update.order_by.is_empty(), "\"ORDER\""),
        (update.or.is_some(), "\"OR\""),
        (update.output.is_some(), "\"OUTPUT\""),
    ])
}

/// A DELETE.
pub(crate) fn delete(delete: &ast::Delete) -> Result<(), SqlError> {
    foreign(&[
        (delete.limit.is_some(), "\"LIMIT\""),
        (!delete.order_by.is_empty(), "\"ORDER\""),
        (!delete.tables.is_empty(), "the table before FROM"),
        (delete.output.is_some(), "\"OUTPUT\""),
    ])
}

/// TRUNCATE.
///
/// # Errors
/// 42601.
pub fn truncate(truncate: &ast::Truncate) -> Result<(), SqlError> {
    foreign(&[(truncate.partitions.is_some(), "\"PARTITION\"")])
}

/// CREATE TABLE .. AS.
///
/// # Errors
/// 0A000 for further clauses of the table.
pub fn create_table_as(create: &CreateTable) -> Result<(), SqlError> {
    refuse(&[
        (!create.columns.is_empty(), "CREATE TABLE (columns) AS"),
        (!matches!(create.table_options, CreateTableOptions::None), "CREATE TABLE .. WITH .. AS"),
    ])?;
    create_table(&CreateTable { query: None, ..create.clone() })
}

/// CREATE TABLE.
pub(crate) fn create_table(create: &CreateTable) -> Result<(), SqlError> {
    refuse(&[
        (create.query.is_some(), "CREATE TABLE AS"),
        (create.inherits.is_some(), "INHERITS"),
        (create.partition_of.is_some() || create.partition_by.is_some(), "PARTITION BY"),
    ])?;
    let is_foreign = create.or_replace
        || create.external
        || create.transient
        || create.volatile
        || create.without_rowid
        || create.strict
        || create.clone.is_some()
        || create.comment.is_some()
        || create.primary_key.is_some()
        || create.order_by.is_some()
        || create.cluster_by.is_some()
        || create.clustered_by.is_some()
        || create.like.is_some()
        || create.on_cluster.is_some();
    foreign(&[(is_foreign, "a clause of another database")])?;
    match &create.table_options {
        CreateTableOptions::None => Ok(()),
        // [`crate::parameters`] reads them.
        CreateTableOptions::With(_) => Ok(()),
        _ => Err(SqlError::unsupported("an option of the table, such as TABLESPACE,")),
    }
}

/// The error for an unknown parameter of a table.
pub(crate) fn storage_parameter(option: &SqlOption) -> SqlError {
    SqlError::unsupported(format!("the storage parameter {option}"))
}

/// A column's option.
pub(crate) fn column_option(option: &ColumnOption) -> Result<(), SqlError> {
    match option {
        ColumnOption::PrimaryKey(key) => characteristics(key.characteristics.as_ref()),
        ColumnOption::Unique(unique) => self::unique(unique),
        ColumnOption::Check(check) => enforced(check.enforced),
        ColumnOption::Comment(_) => Err(SqlError::unsupported("COMMENT of a column")),
        ColumnOption::Collation(name) => collation(name),
        _ => Ok(()),
    }
}

/// A collation: 42704 unless it orders by bytes, which is the only order.
pub(crate) fn collation(name: &ast::ObjectName) -> Result<(), SqlError> {
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect();
    let known = match parts.as_slice() {
        [name] => Some(name),
        [schema, name] if schema == "pg_catalog" => Some(name),
        _ => None,
    };
    const OF_BYTES: [&str; 6] = ["default", "C", "POSIX", "ucs_basic", "C.UTF-8", "C.utf8"];
    if known.is_some_and(|name| OF_BYTES.contains(&name.as_str())) {
        return Ok(());
    }
    let message = format!("collation \"{}\" for encoding \"UTF8\" does not exist", parts.join("."));
    Err(SqlError::new(code::UNDEFINED_OBJECT, message)
        .hint("Texts are in the order of their bytes, as in the collation \"C\"."))
}

/// A unique constraint.
pub(crate) fn unique(unique: &ast::UniqueConstraint) -> Result<(), SqlError> {
    refuse(&[(!unique.include.is_empty(), "INCLUDE")])?;
    index_type(unique.index_type.as_ref())?;
    characteristics(unique.characteristics.as_ref())
}

/// A primary key.
pub(crate) fn primary_key(key: &ast::PrimaryKeyConstraint) -> Result<(), SqlError> {
    refuse(&[(!key.include.is_empty(), "INCLUDE")])?;
    index_type(key.index_type.as_ref())?;
    characteristics(key.characteristics.as_ref())
}

/// A check constraint.
pub(crate) fn enforced(enforced: Option<bool>) -> Result<(), SqlError> {
    refuse(&[(enforced == Some(false), "NOT ENFORCED")])
}

fn characteristics(given: Option<&ConstraintCharacteristics>) -> Result<(), SqlError> {
    let Some(given) = given else { return Ok(()) };
    let deferred = matches!(given.initially, Some(DeferrableInitial::Deferred));
    refuse(&[(given.deferrable == Some(true) || deferred, "DEFERRABLE")])?;
    enforced(given.enforced)
}

/// CREATE INDEX.
pub(crate) fn create_index(create: &CreateIndex) -> Result<(), SqlError> {
    let storage = create.with.iter().any(|option| {
        !option.to_string().to_lowercase().replace(' ', "").starts_with("fillfactor=")
    });
    refuse(&[
        (!create.include.is_empty(), "INCLUDE"),
        (storage, "a storage parameter of an index"),
        (
            !create.index_options.is_empty() || !create.alter_options.is_empty(),
            "an option of an index",
        ),
        (create.r#async, "ASYNC"),
    ])?;
    index_type(create.using.as_ref())?;
    for column in &create.columns {
        // Texts are ordered by their bytes anyway, so a search for prefixes works.
        let class = column.operator_class.as_ref().map(|class| class.to_string().to_lowercase());
        if let Some(class) = class.filter(|class| !class.ends_with("_pattern_ops")) {
            return Err(SqlError::unsupported(format!("the operator class {class}")));
        }
    }
    Ok(())
}

fn index_type(given: Option<&IndexType>) -> Result<(), SqlError> {
    match given {
        None | Some(IndexType::BTree) => Ok(()),
        Some(other) => Err(SqlError::unsupported(format!("the index method {other}"))
            .hint("USING btree, or nothing.")),
    }
}
