//! The rows of system tables, made from the catalog each time they are read.

use super::access::Access;
use super::definitions::regclass;
use super::{BTREE, DesignView, HEAP, OWNER, PG_CATALOG, PUBLIC};
use super::{check_oid, default_oid, int, key_oid, schema_oid, text, yes};
use crate::bind::checked_columns;
use crate::catalog::{Catalog, Check, Identity, Namespace, Part, TEMPORARY, Table, TableColumn};
use crate::comment::{CommentOf, Topic, about};
use crate::datum::Datum;
use crate::define::computed_name;
use crate::domains::Domain;
use crate::enums::{EnumType, Label};
use crate::foreign::unique_over;
use crate::rights::{Kind, Object};
use crate::sequence::{Sequence, taken_from};
use crate::statistics::ColumnStatistics;
use crate::types::SqlType;
use crate::view::{Used, View};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(super) fn classes(
    table: &Arc<Table>,
    catalog: &Catalog,
    access: &Access<'_>,
    design: &dyn DesignView,
) -> Vec<Vec<Datum>> {
    let has_index = table.has_key() || !table.indexes.is_empty();
    let mut rows =
        vec![class(table.oid.into(), &table.name, "r", HEAP, table.columns.len(), has_index)];
    rows[0][17] = int(table.checks.len() as i64);
    if let Some(known) = catalog.statistics.get(&table.oid) {
        rows[0][RELTUPLES] = Datum::Float(known.rows);
    }
    // In the form of WITH, so that a dump of a table contains them. A table with the default has no
    // option, so that a dump can be read where there are fewer processes.
    let backups = design.backups(table.id);
    let mut options: Vec<String> = Vec::new();
    options.extend(table.shard_by().map(|columns| format!("shard_by={columns}")));
    if backups != design.default_backups() {
        options.push(format!("backups={}", backups.count));
        let is_in_memory = backups.count > 0 && !backups.on_disk;
        options.extend(is_in_memory.then(|| "backups_in=memory".to_owned()));
    }
    options.extend(design.is_ordered(table.id).then(|| "isolation=ordered".to_owned()));
    options.extend(design.autopilot(table.id).map(|mode| format!("autopilot={mode}")));
    if !options.is_empty() {
        rows[0][25] = text(&crate::array::format(options.iter().map(|one| Some(&**one))));
    }
    // Clients look for foreign keys only in tables with triggers, as PostgreSQL implements them by
    // triggers.
    let has_links = !table.foreign_keys.is_empty() || catalog.referring(table.oid).next().is_some();
    rows[0][19] = yes(has_links);
    if table.has_key() {
        rows.push(class(key_oid(table), &table.key_name, "i", BTREE, table.key.len(), false));
    }
    for index in &table.indexes {
        rows.push(class(index.oid.into(), &index.name, "i", BTREE, index.parts.len(), false));
    }
    let owner = access.owner(Object::Relation(table.oid));
    let owned = rows.into_iter().enumerate().map(|(at, mut row)| {
        row[RELOWNER] = int(owner);
        if at == 0 {
            row[RELACL] = access.list(Object::Relation(table.oid), Kind::Table);
        }
        in_schema(row, &table.schema_name, catalog)
    });
    owned.collect()
}

/// The column indexes of `relowner` and `relacl` in `pg_class`, and of `attacl` in `pg_attribute`.
const RELOWNER: usize = 5;
const RELTUPLES: usize = 10;
const RELACL: usize = 26;
const ATTACL: usize = 16;

fn owned(mut row: Vec<Datum>, (oid, kind): (u32, Kind), access: &Access<'_>) -> Vec<Datum> {
    row[RELOWNER] = int(access.owner(Object::Relation(oid)));
    row[RELACL] = access.list(Object::Relation(oid), kind);
    row
}

/// A relation of a schema.
fn in_schema(mut row: Vec<Datum>, schema: &str, catalog: &Catalog) -> Vec<Datum> {
    row[2] = int(schema_oid(catalog, schema));
    if schema == TEMPORARY {
        row[14] = text("t");
    }
    row
}

pub(super) fn class(
    oid: i64,
    name: &str,
    kind: &str,
    am: i64,
    columns: usize,
    has_index: bool,
) -> Vec<Datum> {
    vec![
        int(oid),
        text(name),
        int(PUBLIC),
        int(0),
        int(0),
        int(OWNER),
        int(am),
        int(oid),
        int(0),
        int(0),
        Datum::Float(-1.0),
        int(0),
        yes(has_index),
        yes(false),
        text("p"),
        text(kind),
        int(columns as i64),
        int(0),
        yes(false),
        yes(false),
        yes(false),
        yes(false),
        yes(false),
        yes(false),
        text("d"),
        Datum::Null,
        Datum::Null,
        yes(true),
        int(0),
        int(0),
    ]
}

pub(super) fn attributes(table: &Arc<Table>, access: &Access<'_>) -> Vec<Vec<Datum>> {
    let row = |at: usize, relation: i64, number: usize| {
        let column = &table.columns[at];
        let not_null = column.not_null || table.key.contains(&at);
        let identity = match column.identity {
            Some(Identity::Always) => "a",
            Some(Identity::ByDefault) => "d",
            None => "",
        };
        let more = (not_null, shown_default(column).is_some(), identity);
        let mut row = attribute(relation, number, &column.name, column.ty, more);
        if let Some(domain) = &column.domain {
            (row[2], row[5]) = (int(domain.oid.into()), int(-1));
        }
        row[9] = text(if column.is_generated { "s" } else { "" });
        row
    };
    let own = |at: usize| {
        let mut row = row(at, table.oid.into(), at + 1);
        row[ATTACL] = access.column(table.oid, &table.columns[at].name);
        row
    };
    let mut rows: Vec<Vec<Datum>> = (0..table.columns.len()).map(own).collect();
    let key = table.key.iter().enumerate();
    rows.extend(key.map(|(number, &at)| row(at, key_oid(table), number + 1)));
    for index in &table.indexes {
        let relation = index.oid.into();
        rows.extend(index.parts.iter().enumerate().map(|(number, part)| match part {
            Part::Column(at) => row(*at, relation, number + 1),
            Part::Computed(computed) => {
                let name = computed_name(&computed.text);
                attribute(relation, number + 1, &name, computed.ty, (false, false, ""))
            }
        }));
    }
    rows
}

/// A view as a relation.
pub(super) fn view_class(view: &View, catalog: &Catalog, access: &Access<'_>) -> Vec<Datum> {
    let row = class(view.oid.into(), &view.name, "v", 0, view.columns.len(), false);
    in_schema(owned(row, (view.oid, Kind::Table), access), &view.schema, catalog)
}

pub(super) fn view_attributes(view: &View, access: &Access<'_>) -> Vec<Vec<Datum>> {
    let row = |(at, (name, ty)): (usize, &(String, SqlType))| {
        let mut row = attribute(view.oid.into(), at + 1, name, *ty, (false, false, ""));
        row[ATTACL] = access.column(view.oid, name);
        row
    };
    view.columns.iter().enumerate().map(row).collect()
}

/// A column of a relation; with flags for NOT NULL and a default, and the kind of its identity.
pub(super) fn attribute(
    relation: i64,
    number: usize,
    name: &str,
    ty: SqlType,
    (not_null, has_default, identity): (bool, bool, &str),
) -> Vec<Datum> {
    let collation = i64::from(ty.family() == crate::types::Family::Text) * 100;
    vec![
        int(relation),
        text(name),
        int(ty.oid().into()),
        int(ty.width().into()),
        int(number as i64),
        int(ty.modifier().into()),
        yes(not_null),
        yes(has_default),
        text(identity),
        text(""),
        yes(false),
        int(collation),
        int(0),
        int(-1),
        text("p"),
        text(""),
        Datum::Null,
        Datum::Null,
        Datum::Null,
        text("i"),
        yes(true),
        int(0),
        yes(false),
        Datum::Null,
    ]
}

/// The default of a column; the internal default of an identity is not shown.
pub(super) fn shown_default(column: &TableColumn) -> Option<&str> {
    column.default.as_deref().filter(|_| column.identity.is_none())
}

/// As [`shown_default`]; a quoted literal is written with its type, or without quotes, as in
/// PostgreSQL:
///
/// ```text
///   -7   of any type    '-7'::integer     -1.5 of any type    '-1.5'::numeric
///   '7'  of an int4     7                 '7'  of an int8     '7'::bigint
///   '0'  of a boolean   false             'x'  of a text      'x'::text
/// ```
pub(super) fn written_default(column: &TableColumn) -> Option<String> {
    shown_default(column).map(|default| written_as(default, column.ty))
}

/// As [`written_default`], for a default of this type.
pub(crate) fn written_as(default: &str, column: SqlType) -> String {
    if let Some((value, ty)) = default.strip_prefix('-').and_then(crate::bind::negative) {
        let shown = crate::text::format(&value, ty);
        let is_negative = shown.starts_with('-');
        return if is_negative { format!("'{shown}'::{ty}") } else { shown.into_owned() };
    }
    if let Some((literal, value, ty)) = typed_literal(default) {
        return written_constant(&value, ty, literal);
    }
    let inside = default.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    let Some(inside) = inside.filter(|inside| !inside.replace("''", "").contains('\'')) else {
        return default.to_owned();
    };
    match crate::text::parse(inside, column) {
        Ok(value) => written_constant(&value, column, default),
        Err(_) => format!("{default}::{}", written_type(column)),
    }
}

/// A constant of a type, from a quoted literal.
fn written_constant(value: &Datum, ty: SqlType, literal: &str) -> String {
    match (ty, value) {
        (SqlType::Int4, Datum::Int(value @ 0..)) => value.to_string(),
        (SqlType::Bool, Datum::Bool(truth)) => truth.to_string(),
        (ty, _) => format!("{literal}::{}", written_type(ty)),
    }
}

/// The name of a type without its modifier: any search path finds it.
fn written_type(ty: SqlType) -> String {
    match crate::bind::bare(ty) {
        SqlType::Enum(labels) => labels.name().written(),
        SqlType::EnumArray(labels) => format!("{}[]", labels.name().written()),
        ty => ty.to_string(),
    }
}

/// `'7'::INT`: the literal, its value, and its type if that has no modifier.
fn typed_literal(default: &str) -> Option<(&str, Datum, SqlType)> {
    let (literal, ty) = default.rsplit_once("'::")?;
    let quoted = literal.strip_prefix('\'')?;
    if quoted.replace("''", "").contains('\'') {
        return None;
    }
    let named = crate::parse::parse_expression(&format!("NULL::{ty}")).ok()?;
    let sqlparser::ast::Expr::Cast { data_type, .. } = named else { return None };
    let ty = SqlType::parse(&data_type).ok().filter(|ty| crate::bind::bare(*ty) == *ty)?;
    Some((&default[..=literal.len()], crate::text::parse(&quoted.replace("''", "'"), ty).ok()?, ty))
}

/// A sequence as a relation.
pub(super) fn sequence_class(
    sequence: &Sequence,
    catalog: &Catalog,
    access: &Access<'_>,
) -> Vec<Datum> {
    let row = class(sequence.oid.into(), &sequence.name, "S", 0, 3, false);
    in_schema(owned(row, (sequence.oid, Kind::Sequence), access), &sequence.schema, catalog)
}

pub(super) fn sequence_row(sequence: &Sequence) -> Vec<Datum> {
    vec![
        int(sequence.oid.into()),
        int(sequence.ty.oid().into()),
        int(sequence.start),
        int(sequence.increment),
        int(sequence.max),
        int(sequence.min),
        int(sequence.cache),
        yes(sequence.cycle),
    ]
}

pub(super) fn sequences_row(sequence: &Sequence, owner: Datum, last: Option<i64>) -> Vec<Datum> {
    vec![
        text(&sequence.schema),
        text(&sequence.name),
        owner,
        Datum::Text(sequence.ty.to_string()),
        int(sequence.start),
        int(sequence.min),
        int(sequence.max),
        int(sequence.increment),
        yes(sequence.cycle),
        int(sequence.cache),
        last.map_or(Datum::Null, int),
    ]
}

/// Dependencies: of sequences on columns, of defaults on sequences, of constraints and indexes on
/// columns, of indexes on their constraints.
pub(super) fn dependencies(catalog: &Catalog) -> Vec<Vec<Datum>> {
    let number = |name: &str| int(regclass(catalog, name).unwrap_or(0));
    let (classes, defaults) = (number("pg_class"), number("pg_attrdef"));
    let mut rows = Vec::new();
    let places = catalog.tables.values().map(|table| (table.oid, table));
    let tables: BTreeMap<u32, &Arc<Table>> = places.collect();
    for sequence in catalog.sequences.values() {
        let Some(owner) = &sequence.owner else { continue };
        let Some(table) = tables.get(&owner.table) else { continue };
        let Ok(at) = table.column(&owner.column) else { continue };
        rows.push(vec![
            classes.clone(),
            int(sequence.oid.into()),
            int(0),
            classes.clone(),
            int(table.oid.into()),
            int(at as i64 + 1),
            text(if owner.is_identity { "i" } else { "a" }),
        ]);
    }
    for table in catalog.tables.values() {
        for (at, column) in table.columns.iter().enumerate() {
            let name = shown_default(column).and_then(|default| taken_from(default).pop());
            let sequence = name.and_then(|name| catalog.sequences.get(&name));
            let Some(sequence) = sequence else { continue };
            let (default, sequence) = (int(default_oid(table, at)), int(sequence.oid.into()));
            let (of, to) = (defaults.clone(), classes.clone());
            rows.push(vec![of, default, int(0), to, sequence, int(0), text("n")]);
        }
    }
    let (attached, needed, inside) = (text("a"), text("n"), text("i"));
    let constraints = number("pg_constraint");
    for table in catalog.tables.values() {
        let own = |at: usize| (int(table.oid.into()), int(at as i64 + 1));
        let mut put = |of: (&Datum, i64), to: (&Datum, Datum, Datum), kind: &Datum| {
            let (class, (to_class, to, column)) = (of.0.clone(), to);
            let to_class = to_class.clone();
            rows.push(vec![class, int(of.1), int(0), to_class, to, column, kind.clone()]);
        };
        // An index that does not belong to a constraint depends on its columns.
        let mut of_columns = |class: &Datum, oid: i64, columns: &mut dyn Iterator<Item = usize>| {
            let columns: BTreeSet<usize> = columns.collect();
            for at in columns {
                let (table, column) = own(at);
                put((class, oid), (&classes, table, column), &attached);
            }
        };
        if table.has_key() {
            of_columns(&constraints, key_oid(table), &mut table.key.iter().copied());
        }
        for index in table.readable_indexes() {
            let class = if index.constraint { &constraints } else { &classes };
            of_columns(class, index.oid.into(), &mut index.looked_at().copied());
        }
        for (number, check) in table.checks.iter().enumerate() {
            let columns = checked_columns(table, &check.condition, catalog);
            of_columns(&constraints, check_oid(table, number), &mut columns.into_iter());
        }
        for key in &table.foreign_keys {
            of_columns(&constraints, key.oid.into(), &mut key.columns.iter().copied());
        }
        let unique = table.readable_indexes().filter(|index| index.constraint);
        let unique = unique.map(|index| i64::from(index.oid));
        for oid in table.has_key().then(|| key_oid(table)).into_iter().chain(unique) {
            put((&classes, oid), (&constraints, int(oid), int(0)), &inside);
        }
        for key in &table.foreign_keys {
            let Some(parent) = tables.get(&key.parent) else { continue };
            for &at in &key.referenced {
                let to = (&classes, int(parent.oid.into()), int(at as i64 + 1));
                put((&constraints, key.oid.into()), to, &needed);
            }
            if let Some(index) = unique_over(parent, &key.referenced) {
                let index = index.map_or_else(|| key_oid(parent), |index| index.oid.into());
                put((&constraints, key.oid.into()), (&classes, int(index), int(0)), &needed);
            }
        }
    }
    // A domain depends on its base type.
    let types = number("pg_type");
    for domain in catalog.domains.values() {
        let over = domain.over.unwrap_or_else(|| domain.ty.oid());
        if catalog.made_numbered(over).is_some() {
            let (own, over) = (int(domain.oid.into()), int(over.into()));
            rows.push(vec![types.clone(), own, int(0), types.clone(), over, int(0), text("n")]);
        }
    }
    // In PostgreSQL the rule of a view depends on the relations that the view uses.
    for view in catalog.views.values() {
        let needs = |used: &Used| {
            let (view, used) = (int(view.oid.into()), int(used.oid.into()));
            vec![classes.clone(), view, int(0), classes.clone(), used, int(0), text("n")]
        };
        rows.extend(view.uses.iter().map(needs));
    }
    rows.extend(super::own::dependencies(relations(catalog)));
    rows
}

pub(super) fn defaults(table: &Arc<Table>) -> Vec<Vec<Datum>> {
    let of = |(at, column): (usize, &TableColumn)| {
        let default = Datum::Text(written_default(column)?);
        let oid = int(default_oid(table, at));
        Some(vec![oid, int(table.oid.into()), int(at as i64 + 1), default])
    };
    table.columns.iter().enumerate().filter_map(of).collect()
}

/// An enum, and its array type.
pub(super) fn enum_rows(labels: &EnumType, catalog: &Catalog, owner: i64) -> [Vec<Datum>; 2] {
    [labels.ty(), labels.array()].map(|ty| {
        let mut row = type_row(ty);
        row[2] = int(schema_oid(catalog, &labels.of.name.schema));
        row[3] = int(owner);
        if let SqlType::Enum(_) = ty {
            (row[5], row[10], row[18]) = (text("e"), text("enum_in"), text("enum_out"));
        }
        row
    })
}

/// A domain as a type.
pub(super) fn domain_row(domain: &Domain, catalog: &Catalog, owner: i64) -> Vec<Datum> {
    let mut row = type_row(domain.ty);
    (row[0], row[1]) = (int(domain.oid.into()), text(&domain.name.name));
    row[2] = int(schema_oid(catalog, &domain.name.schema));
    row[3] = int(owner);
    (row[5], row[8], row[9], row[10]) = (text("d"), int(0), int(0), text("domain_in"));
    row[11] = int(domain.over.unwrap_or_else(|| domain.ty.oid()).into());
    row[12] = int(if domain.over.is_some() { -1 } else { domain.ty.modifier().into() });
    row[13] = yes(domain.not_null);
    if let Some(default) = &domain.default {
        let written = written_as(default, domain.ty);
        row[16] = Datum::Text(crate::sequence::shown(&written, catalog));
        row[21] = Datum::Text(written);
    }
    row
}

/// The check constraints of a domain.
pub(super) fn domain_constraints(domain: &Domain, catalog: &Catalog) -> Vec<Vec<Datum>> {
    let row = |(number, check): (usize, &Check)| {
        let schema = int(schema_oid(catalog, &domain.name.schema));
        let mut row = constraint_row(domain.check_oid(number), &check.name, "c", schema);
        row[16] = int(domain.oid.into());
        row
    };
    domain.checks.iter().enumerate().map(row).collect()
}

/// A row for a constraint with nothing but its name and kind.
fn constraint_row(oid: i64, name: &str, kind: &str, schema: Datum) -> Vec<Datum> {
    vec![
        int(oid),
        text(name),
        schema,
        text(kind),
        yes(false),
        yes(false),
        int(0),
        int(0),
        int(0),
        Datum::Null,
        int(0),
        Datum::Null,
        text(" "),
        text(" "),
        text(" "),
        yes(true),
        int(0),
        yes(true),
        int(0),
    ]
}

/// The labels of an enum, with unique oids.
pub(super) fn label_rows(labels: &EnumType) -> Vec<Vec<Datum>> {
    let row = |(at, label): (usize, &Label)| {
        let number = (i64::from(labels.of.oid) * 1024 + at as i64) & i64::from(u32::MAX);
        let order = Datum::Float(at as f64 + 1.0);
        vec![int(number), int(labels.of.oid.into()), order, text(&label.name)]
    };
    labels.of.labels.iter().enumerate().map(row).collect()
}

pub(super) fn type_row(ty: SqlType) -> Vec<Datum> {
    if let Some(element) = ty.element() {
        let mut row = type_row(element);
        let name = format!("_{}", row[1].as_text().unwrap_or_default());
        row[0] = int(ty.oid().into());
        row[1] = Datum::Text(name);
        row[4] = int(-1);
        row[6] = text(if element == SqlType::Record { "P" } else { "A" });
        (row[8], row[9]) = (int(element.oid().into()), int(0));
        row[10] = text("array_in");
        return row;
    }
    let name = ty.catalog_name();
    let category = match ty.family() {
        crate::types::Family::Bool => "B",
        crate::types::Family::Number => "N",
        crate::types::Family::Text => "S",
        crate::types::Family::Time | crate::types::Family::Clock => "D",
        crate::types::Family::Interval => "T",
        crate::types::Family::Bytes | crate::types::Family::Uuid | crate::types::Family::Json => {
            "U"
        }
        crate::types::Family::Array => "A",
        crate::types::Family::Enum(_) => "E",
        crate::types::Family::Unknown => "X",
        crate::types::Family::Row => "P",
    };
    let collation = i64::from(ty.family() == crate::types::Family::Text) * 100;
    vec![
        int(ty.oid().into()),
        text(&name),
        int(PG_CATALOG),
        int(OWNER),
        int(ty.width().into()),
        text(if ty == SqlType::Record { "p" } else { "b" }),
        text(category),
        int(0),
        int(0),
        int(ty.array_oid().into()),
        text(&format!("{name}in")),
        int(0),
        int(-1),
        yes(false),
        int(collation),
        text(","),
        Datum::Null,
        Datum::Null,
        text(&format!("{name}out")),
        yes(true),
        text("p"),
        Datum::Null,
        int(0),
    ]
}

/// The column index of `indpred` in `pg_index`.
const INDPRED: usize = 10;
const INDNULLS: usize = 14;

pub(super) fn indexes(table: &Arc<Table>) -> Vec<Vec<Datum>> {
    let row = |oid: i64, parts: &[Part], unique: bool, primary: bool, valid: bool| -> Vec<Datum> {
        // Expressions have the column number zero.
        let number = |part: &Part| match part {
            Part::Column(at) => (at + 1).to_string(),
            Part::Computed(_) => "0".to_owned(),
        };
        let numbers: Vec<String> = parts.iter().map(number).collect();
        let options: Vec<&str> = parts.iter().map(|_| "0").collect();
        let class = |part: &Part| super::opclass::of(part.ty(table)).to_string();
        let classes: Vec<String> = parts.iter().map(class).collect();
        vec![
            int(oid),
            int(table.oid.into()),
            int(parts.len() as i64),
            yes(unique),
            yes(primary),
            yes(false),
            yes(valid),
            yes(false),
            text(&numbers.join(" ")),
            Datum::Null,
            Datum::Null,
            text(&options.join(" ")),
            int(parts.len() as i64),
            yes(true),
            yes(false),
            text(&options.join(" ")),
            text(&classes.join(" ")),
            yes(valid),
        ]
    };
    let mut rows = Vec::new();
    if table.has_key() {
        rows.push(row(key_oid(table), &table.key_parts(), true, true, true));
    }
    for index in &table.indexes {
        let valid = index.readable.is_some();
        let mut row = row(index.oid.into(), &index.parts, index.unique, false, valid);
        row[INDNULLS] = yes(index.nulls_equal);
        let computed = index.parts.iter().filter_map(Part::as_computed);
        let texts: Vec<String> = computed.map(|one| one.shown()).collect();
        if !texts.is_empty() {
            row[INDPRED - 1] = text(&texts.join(", "));
        }
        if let Some(predicate) = &index.predicate {
            row[INDPRED] = text(&predicate.shown());
        }
        rows.push(row);
    }
    rows
}

/// Column numbers as an array.
fn numbers(columns: &[usize]) -> Datum {
    let numbers: Vec<String> = columns.iter().map(|at| (at + 1).to_string()).collect();
    Datum::Text(format!("{{{}}}", numbers.join(",")))
}

pub(super) fn constraints(table: &Arc<Table>, catalog: &Catalog) -> Vec<Vec<Datum>> {
    let row = |oid: i64, name: &str, kind: &str, columns: &[usize]| {
        let mut row = constraint_row(oid, name, kind, int(schema_oid(catalog, &table.schema_name)));
        (row[6], row[7], row[9]) = (int(table.oid.into()), int(oid), numbers(columns));
        row
    };
    let mut rows = Vec::new();
    if table.has_key() {
        rows.push(row(key_oid(table), &table.key_name, "p", &table.key));
    }
    for index in table.readable_indexes().filter(|index| index.constraint) {
        rows.push(row(index.oid.into(), &index.name, "u", &index.columns));
    }
    for (number, check) in table.checks.iter().enumerate() {
        let columns = checked_columns(table, &check.condition, catalog);
        let mut row = row(check_oid(table, number), &check.name, "c", &columns);
        row[7] = int(0);
        if columns.is_empty() {
            row[9] = Datum::Null;
        }
        rows.push(row);
    }
    for key in &table.foreign_keys {
        let mut row = row(key.oid.into(), &key.name, "f", &key.columns);
        (row[4], row[5]) = (yes(key.deferrable), yes(key.deferred));
        let parent = catalog.table_of(key.parent);
        let index = parent.and_then(|parent| Some((parent, unique_over(parent, &key.referenced)?)));
        row[7] = int(index.map_or(0, |(parent, index)| {
            index.map_or_else(|| key_oid(parent), |index| index.oid.into())
        }));
        row[8] = int(key.parent.into());
        row[11] = numbers(&key.referenced);
        row[12] = Datum::Text(key.on_update.letter().to_string());
        row[13] = Datum::Text(key.on_delete.letter().to_string());
        row[14] = text(if key.full { "f" } else { "s" });
        row[15] = yes(key.validated);
        rows.push(row);
    }
    rows
}

/// The comments on objects.
pub(super) fn descriptions(catalog: &Catalog) -> Vec<Vec<Datum>> {
    let number = |name: &str| int(regclass(catalog, name).unwrap_or(0));
    let (classes, schemas) = (number("pg_class"), number("pg_namespace"));
    let (types, procedures) = (number("pg_type"), number("pg_proc"));
    let of_constraints = number("pg_constraint");
    let of = |(topic, said): (&Topic, &Arc<str>)| {
        match about(catalog, topic) {
            CommentOf::Object => {}
            CommentOf::Constraint(oid) => {
                return Some(vec![int(oid), of_constraints.clone(), int(0), text(said)]);
            }
            // They are in `pg_shdescription`.
            CommentOf::Shared => return None,
        }
        let is_schema = catalog.schemas.values().any(|schema| schema.oid == topic.0);
        let class = match catalog.made_numbered(topic.0) {
            Some(_) => &types,
            None if is_schema => &schemas,
            None if catalog.procedures.contains_key(&topic.0) => &procedures,
            None => &classes,
        };
        let column = int(catalog.column_number(topic));
        Some(vec![int(topic.0.into()), class.clone(), column, text(said)])
    };
    let mut rows: Vec<Vec<Datum>> = catalog.comments.iter().filter_map(of).collect();
    let is_public = |schema: &Arc<Namespace>| i64::from(schema.oid) == PUBLIC;
    if catalog.schemas.values().any(is_public) && catalog.comment(PUBLIC as u32, "").is_none() {
        rows.push(vec![int(PUBLIC), schemas, int(0), text("standard public schema")]);
    }
    rows.extend(super::own::descriptions(relations(catalog)));
    rows
}

/// The oids of the tables of relations, schemas and extensions.
fn relations(catalog: &Catalog) -> [i64; 3] {
    ["pg_class", "pg_namespace", "pg_extension"].map(|name| regclass(catalog, name).unwrap_or(0))
}

/// The rows of `pg_stats` for the columns of a table that has been analyzed.
pub(super) fn statistics_rows(table: &Table, catalog: &Catalog) -> Vec<Vec<Datum>> {
    let Some(known) = catalog.statistics.get(&table.oid) else { return Vec::new() };
    let row = |column: &ColumnStatistics| {
        let (values, bounds) = (column.common.iter().map(|(value, _)| value), &column.bounds);
        let fractions: Vec<String> =
            column.common.iter().map(|(_, fraction)| ((*fraction) as f32).to_string()).collect();
        let array = |is_some: bool, shown: String| match is_some {
            true => Datum::Text(shown),
            false => Datum::Null,
        };
        let fractions = crate::array::format(fractions.iter().map(|one| Some(one.as_str())));
        vec![
            text(&table.schema_name),
            text(&table.name),
            text(&column.name),
            yes(false),
            Datum::Float(column.nulls),
            int(column.width.round() as i64),
            Datum::Float(column.shown_distinct(known.rows)),
            array(!column.common.is_empty(), column.shown(values)),
            array(!column.common.is_empty(), fractions),
            array(!bounds.is_empty(), column.shown(bounds.iter())),
            Datum::Null,
        ]
    };
    known.columns.iter().map(row).collect()
}
