//! The rows of `pg_proc` and `information_schema.routines` for procedures, and their definitions as
//! text.

use super::access::Access;
use super::{int, schema_oid, text, yes};
use crate::catalog::{Catalog, Named, Procedure, procedures::candidates};
use crate::datum::Datum;
use crate::rights::{Kind, Object, Rights};
use crate::transaction::Surroundings;
use crate::types::SqlType;
use std::sync::Arc;

/// The oid of the language of all procedures.
const SQL: i64 = 14;
/// The oid of the type of a procedure's result.
const VOID_TYPE: i64 = 2278;

/// A part of a procedure's definition that a function of the system shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcedurePart {
    /// The CREATE PROCEDURE statement.
    Definition,
    /// Its arguments, with defaults.
    Arguments,
    /// Its arguments, as a signature.
    Identity,
    /// The type of its result, which it does not have.
    Result,
    /// Its body, if it is in BEGIN ATOMIC.
    Body,
    /// True if it is found by its unqualified name.
    IsVisible,
}

/// A part of the definition of the procedure with an oid; NULL if there is none.
pub(crate) fn procedure_part(catalog: &Catalog, oid: i64, part: ProcedurePart) -> Datum {
    let found = u32::try_from(oid).ok().and_then(|oid| catalog.procedures.get(&oid));
    let Some(found) = found else { return Datum::Null };
    match part {
        ProcedurePart::Definition => Datum::Text(found.definition(catalog)),
        ProcedurePart::Arguments => Datum::Text(found.list(catalog, true)),
        ProcedurePart::Identity => Datum::Text(found.list(catalog, false)),
        ProcedurePart::Result => Datum::Null,
        ProcedurePart::Body => found.atomic().map_or(Datum::Null, Datum::Text),
        ProcedurePart::IsVisible => {
            let all = candidates(catalog, &Named::plain(found.name.name.as_str()));
            yes(all.iter().any(|one| one.oid == found.oid))
        }
    }
}

/// The row of `pg_language`.
pub(super) fn languages(owner: i64) -> Vec<Vec<Datum>> {
    let mut row = vec![int(SQL), text("sql"), int(owner), yes(false), yes(true)];
    row.extend([int(0), int(0), int(0), Datum::Null]);
    vec![row]
}

/// The rows of `pg_proc`.
pub(super) fn procedures(catalog: &Catalog, access: &Access<'_>) -> Vec<Vec<Datum>> {
    catalog.procedures.values().map(|procedure| row(procedure, catalog, access)).collect()
}

/// The rows of `information_schema.routines`: the procedures that the role owns or may call.
pub(super) fn routines(
    catalog: &Catalog,
    around: &Surroundings,
    columns: &[(&str, SqlType)],
) -> Vec<Vec<Datum>> {
    let who = &around.identity;
    let row = |procedure: &Arc<Procedure>| {
        let object = Object::Procedure(procedure.oid);
        let owns = who.owns(catalog, object);
        if !owns && !who.rights_to(catalog, object, Kind::Procedure).has(Rights::EXECUTE) {
            return None;
        }
        let name = &procedure.name;
        let own_name = format!("{}_{}", name.name, procedure.oid);
        let value = |(column, _): &(&str, SqlType)| match *column {
            "specific_catalog" | "routine_catalog" => text(&around.database),
            "specific_schema" | "routine_schema" => text(&name.schema),
            "specific_name" => text(&own_name),
            "routine_name" => text(&name.name),
            "routine_type" => text("PROCEDURE"),
            "routine_body" | "external_language" => text("SQL"),
            "routine_definition" if owns && procedure.is_atomic => text(""),
            "routine_definition" if owns => text(&procedure.body),
            "parameter_style" => text("GENERAL"),
            "is_deterministic" | "as_locator" | "is_udt_dependent" => text("NO"),
            "sql_data_access" => text("MODIFIES"),
            "schema_level_routine" => text("YES"),
            "max_dynamic_result_sets" => int(0),
            "security_type" => text("INVOKER"),
            _ => Datum::Null,
        };
        Some(columns.iter().map(value).collect())
    };
    catalog.procedures.values().filter_map(row).collect()
}

fn row(procedure: &Arc<Procedure>, catalog: &Catalog, access: &Access<'_>) -> Vec<Datum> {
    let object = Object::Procedure(procedure.oid);
    let (all, body) = (&procedure.arguments, &procedure.body);
    let types: Vec<String> = all.iter().map(|one| one.ty.oid().to_string()).collect();
    let names = all.iter().map(|one| Some(one.name.as_deref().unwrap_or_default()));
    let names = match all.iter().any(|one| one.name.is_some()) {
        true => Datum::Text(crate::array::format(names)),
        false => Datum::Null,
    };
    let defaults: Vec<&str> = all.iter().filter_map(|one| one.default.as_deref()).collect();
    let shown = (!defaults.is_empty()).then(|| Datum::Text(defaults.join(", ")));
    vec![
        int(procedure.oid.into()),
        text(&procedure.name.name),
        int(schema_oid(catalog, &procedure.name.schema)),
        text("p"),
        int(all.len() as i64),
        Datum::Text(types.join(" ")),
        int(VOID_TYPE),
        yes(false),
        int(SQL),
        access.list(object, Kind::Procedure),
        names,
        Datum::Null,
        Datum::Null,
        int(access.owner(object)),
        text(if procedure.is_atomic { "" } else { body }),
        Datum::Null,
        text("v"),
        yes(false),
        yes(false),
        yes(false),
        text("u"),
        Datum::Float(100.0),
        Datum::Float(0.0),
        text("-"),
        int(0),
        int(defaults.len() as i64),
        shown.unwrap_or(Datum::Null),
        Datum::Null,
        Datum::Null,
        procedure.atomic().map_or(Datum::Null, Datum::Text),
    ]
}
