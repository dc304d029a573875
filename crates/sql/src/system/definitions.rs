//! Objects as text: the statement that creates an index, the clause of a constraint, and conversion
//! between names and oids.

use super::own::{ISOMER, ISOMER_OID};
use super::tables::OIDS;
use super::{FIRST_VIEW, INFORMATION, OWN, PG_CATALOG, TABLES, check_oid, key_oid, text};
use crate::budget::Budget;
use crate::catalog::{Catalog, Name, Named, SYSTEM, TEMPORARY, Table};
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::types::SqlType;
use sqlparser::ast::Expr;

/// The oid, the name and the statement of each index of a table; the statement is optionally
/// pretty-printed.
pub(super) fn index_definitions(table: &Table, is_pretty: bool) -> Vec<(i64, String, String)> {
    let mut all = Vec::new();
    if table.has_key() {
        let names: Vec<String> =
            table.key.iter().map(|&at| crate::catalog::quoted(&table.columns[at].name)).collect();
        let definition = format!(
            "CREATE UNIQUE INDEX {} ON {} USING btree ({})",
            crate::catalog::quoted(&table.key_name),
            table.full_name().written(),
            names.join(", ")
        );
        all.push((key_oid(table), table.key_name.clone(), definition));
    }
    for index in &table.indexes {
        all.push((index.oid.into(), index.name.clone(), index.definition_as(table, is_pretty)));
    }
    all
}

/// The statement of an index, or the name of one of its columns.
pub(crate) fn index_definition(catalog: &Catalog, oid: i64, column: i64, is_pretty: bool) -> Datum {
    for table in catalog.tables.values() {
        for (found, _, definition) in index_definitions(table, is_pretty) {
            if found != oid {
                continue;
            }
            if column <= 0 {
                return Datum::Text(catalog.with_shown_types(&definition));
            }
            let parts = match table.indexes.iter().find(|index| i64::from(index.oid) == oid) {
                Some(index) => index.parts.clone(),
                None => table.key_parts(),
            };
            let part = usize::try_from(column - 1).ok().and_then(|n| parts.get(n));
            return part.map_or(Datum::Null, |part| text(&part.said(table)));
        }
    }
    Datum::Null
}

/// The definition of a constraint.
pub(crate) fn constraint_definition(catalog: &Catalog, oid: i64) -> Datum {
    let named = |table: &Table, columns: &[usize]| {
        let names: Vec<String> =
            columns.iter().map(|&at| crate::catalog::quoted(&table.columns[at].name)).collect();
        names.join(", ")
    };
    for table in catalog.tables.values() {
        if table.has_key() && key_oid(table) == oid {
            return Datum::Text(format!("PRIMARY KEY ({})", named(table, &table.key)));
        }
        if let Some(index) = table.indexes.iter().find(|index| i64::from(index.oid) == oid) {
            let nulls = if index.nulls_equal { "NULLS NOT DISTINCT " } else { "" };
            return Datum::Text(format!("UNIQUE {nulls}({})", named(table, &index.columns)));
        }
        if let Some(key) = table.foreign_keys.iter().find(|key| i64::from(key.oid) == oid) {
            let parent = catalog.table_of(key.parent);
            return parent
                .map_or(Datum::Null, |to| Datum::Text(key.definition(table, to, catalog)));
        }
        let mut checks = table.checks.iter().enumerate();
        if let Some((_, check)) = checks.find(|(number, _)| check_oid(table, *number) == oid) {
            return Datum::Text(format!(
                "CHECK (({}))",
                within(&catalog.with_shown_types(&check.condition))
            ));
        }
    }
    for domain in catalog.domains.values() {
        let mut checks = domain.checks.iter().enumerate();
        if let Some((_, check)) = checks.find(|(number, _)| domain.check_oid(*number) == oid) {
            let condition = within(&catalog.with_shown_types(&check.condition));
            return Datum::Text(format!("CHECK (({condition}))"));
        }
    }
    Datum::Null
}

/// The query of a view.
pub(crate) fn view_definition(
    catalog: &Catalog,
    oid: i64,
    budget: &Budget,
) -> Result<Datum, SqlError> {
    let view = u32::try_from(oid).ok().and_then(|oid| catalog.view_of(oid));
    let Some(view) = view else { return Ok(Datum::Null) };
    let text = crate::bind::written(view, catalog, budget)?;
    budget.charge(2 * text.len())?;
    Ok(Datum::Text(format!("{};", crate::parse::spelled_out(&text))))
}

/// A condition without its outer parentheses, as others are written around it.
fn within(condition: &str) -> String {
    let Ok(mut inner) = crate::parse::parse_expression(condition) else {
        return condition.to_owned();
    };
    while let Expr::Nested(nested) = inner {
        inner = *nested;
    }
    inner.to_string()
}

/// The default rights to an object of a kind, as in `acldefault`; `None` for an unknown kind.
pub(crate) fn default_access(kind: &str, owner: &str) -> Option<String> {
    let (public, own) = match kind {
        "c" => return Some("{}".to_owned()),
        "r" => ("", "arwdDxt"),
        "s" => ("", "rwU"),
        "d" => ("Tc", "CTc"),
        "f" => ("X", "X"),
        "l" | "T" => ("U", "U"),
        "L" => ("", "rw"),
        "n" => ("", "UC"),
        "p" => ("", "sA"),
        "t" => ("", "C"),
        "F" | "S" => ("", "U"),
        _ => return None,
    };
    let owner = crate::catalog::quoted(owner);
    let own = format!("{owner}={own}/{owner}");
    let public = (!public.is_empty()).then(|| format!("={public}/{owner}"));
    Some(crate::array::format(public.iter().chain([&own]).map(|one| Some(one.as_str()))))
}

/// The oid of a relation.
pub(crate) fn regclass(catalog: &Catalog, name: &str) -> Option<i64> {
    let named = Named::read(name);
    if let Some(found) = catalog.lookup(&named) {
        return Some(found.oid().into());
    }
    let (schema, plain) = (named.schema.as_deref().unwrap_or("pg_catalog"), &*named.name);
    if let Some((oid, _)) = OIDS.iter().find(|(_, name)| schema == "pg_catalog" && *name == plain) {
        return Some(*oid);
    }
    let at = TABLES.iter().position(|t| t.schema == schema && plain == t.name)?;
    Some(FIRST_VIEW + at as i64)
}

/// The oid of a schema.
///
/// # Errors
/// 42602 for a name of several parts.
pub(crate) fn regnamespace(catalog: &Catalog, name: &str) -> Result<Option<i64>, SqlError> {
    let named = Named::read(name);
    if named.schema.is_some() {
        return Err(SqlError::new(code::INVALID_NAME, "invalid name syntax"));
    }
    Ok(catalog.schema_number(&named.name))
}

/// The name of a schema, or its oid if it does not exist.
pub(crate) fn namespace_name(catalog: &Catalog, oid: i64) -> String {
    let made = catalog.schemas.values().find(|schema| i64::from(schema.oid) == oid);
    let own = SYSTEM.into_iter().chain([TEMPORARY]);
    let own = || own.into_iter().find(|name| catalog.schema_number(name) == Some(oid));
    let name = made.map(|schema| &*schema.name).or_else(own);
    name.map_or_else(|| oid.to_string(), crate::catalog::quoted)
}

impl Catalog {
    fn schema_number(&self, name: &str) -> Option<i64> {
        match name {
            "pg_catalog" => Some(PG_CATALOG),
            "information_schema" => Some(INFORMATION),
            ISOMER => Some(ISOMER_OID),
            TEMPORARY => self.has_own().then_some(OWN),
            name => self.schemas.get(name).map(|schema| schema.oid.into()),
        }
    }
}

/// Types that only functions of PostgreSQL have, as psql asks for functions by them.
const PSEUDO: [(i64, &str); 7] = [
    (2275, "cstring"),
    (2278, "void"),
    (2279, "trigger"),
    (2280, "language_handler"),
    (2281, "internal"),
    (2283, "anyelement"),
    (3838, "event_trigger"),
];

/// The name of a type that only functions have.
pub(super) fn pseudo_type(oid: i64) -> Option<&'static str> {
    PSEUDO.iter().find(|(known, _)| *known == oid).map(|(_, name)| *name)
}

/// The oid of a type.
pub(crate) fn regtype(catalog: &Catalog, name: &str) -> Option<i64> {
    named_type(catalog, name).or_else(|| {
        let named = Named::read(name);
        let is_own = named.schema.is_none_or(|schema| schema == "pg_catalog");
        let found = PSEUDO.iter().filter(|_| is_own).find(|(_, known)| *known == named.name);
        found.map(|(oid, _)| *oid)
    })
}

fn named_type(catalog: &Catalog, name: &str) -> Option<i64> {
    let cast = crate::parse::parse_expression(&format!("NULL::{name}")).ok()?;
    let Expr::Cast { data_type, .. } = cast else { return None };
    let found = catalog.named_type(&data_type).ok()?;
    Some(found.domain.map_or_else(|| found.ty.oid(), |domain| domain.oid).into())
}

/// The sequence that is owned by a column.
pub(crate) fn serial_sequence(
    catalog: &Catalog,
    table: &str,
    column: &str,
) -> Result<Datum, SqlError> {
    let table = catalog.table(&Named::read(table))?;
    table.column(column)?;
    let sequence = catalog.sequence_of(table.oid, column);
    Ok(sequence.map_or(Datum::Null, |sequence| Datum::Text(sequence.full_name().written())))
}

/// The name of a relation, with its schema if that is necessary.
pub(crate) fn relation_name(catalog: &Catalog, oid: i64) -> String {
    match found_name(catalog, oid) {
        Some(name) => catalog.shown(&name),
        None => match super::own_view(oid) {
            Some(own) => own.name().written(),
            None => match system_relation(oid) {
                Some(("pg_catalog", name)) => name.to_owned(),
                Some((schema, name)) => format!("{schema}.{name}"),
                None => oid.to_string(),
            },
        },
    }
}

/// True if a type is found by its unqualified name.
pub(crate) fn is_visible_type(catalog: &Catalog, oid: i64) -> bool {
    let Ok(oid) = u32::try_from(oid) else { return false };
    if let Some(domain) = catalog.domain_numbered(oid) {
        return catalog.is_visible_type(&domain.name);
    }
    let found = catalog.type_numbered(oid);
    let made = found.and_then(SqlType::labels);
    found.is_some() && made.is_none_or(|labels| catalog.is_visible_type(&labels.name()))
}

/// True if a relation is found by its unqualified name.
pub(crate) fn is_visible(catalog: &Catalog, oid: i64) -> bool {
    match found_name(catalog, oid) {
        Some(name) => catalog.is_visible(&name),
        None => system_relation(oid).is_some_and(|(schema, _)| schema == "pg_catalog"),
    }
}

fn found_name(catalog: &Catalog, oid: i64) -> Option<Name> {
    for table in catalog.tables.values() {
        if i64::from(table.oid) == oid {
            return Some(table.full_name());
        }
        if let Some((_, name, _)) =
            index_definitions(table, false).into_iter().find(|(o, ..)| *o == oid)
        {
            return Some(Name { schema: table.schema_name.clone(), name });
        }
    }
    if let Some(view) = u32::try_from(oid).ok().and_then(|oid| catalog.view_of(oid)) {
        return Some(view.full_name());
    }
    let sequence = catalog.sequences.values().find(|sequence| i64::from(sequence.oid) == oid);
    sequence.map(|sequence| sequence.full_name())
}

/// The schema and the name of a relation of the system.
fn system_relation(oid: i64) -> Option<(&'static str, &'static str)> {
    if let Some((_, name)) = OIDS.iter().find(|(known, _)| *known == oid) {
        return Some(("pg_catalog", name));
    }
    let at = usize::try_from(oid.checked_sub(FIRST_VIEW)?).ok()?;
    TABLES.get(at).map(|table| (table.schema, table.name))
}
