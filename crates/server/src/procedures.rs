//! Definitions of procedures.
//!
//! ```text
//!   create procedure p(..)  ──▶  the pending catalog with p  ──▶  its body is compiled, and dropped
//! ```
//!
//! The body is checked in a catalog that has the procedure already, so that it may call itself.
//! With `check_function_bodies = off`, as in dumps, the first call checks it instead.
//! Nothing depends on a procedure, and a procedure depends on the types of its arguments only.

use crate::ddl::Definer;
use isomer_sql::catalog::{Argument, Catalog, Name, Named, Procedure, TEMPORARY, procedures};
use isomer_sql::define::check_argument;
use isomer_sql::parse::{NewProcedure, ProcedureChange, ProcedureStatement, Signature};
use isomer_sql::rights::check::not_owner;
use isomer_sql::rights::{Identity, Kind, Object, Rights};
use isomer_sql::statement::compile_body;
use isomer_sql::{SqlError, SqlType, code};
use std::sync::Arc;

/// The command tag.
pub(crate) fn tag(statement: &ProcedureStatement) -> &'static str {
    match statement {
        ProcedureStatement::Create(_) => "CREATE PROCEDURE",
        ProcedureStatement::Drop { .. } => "DROP PROCEDURE",
        ProcedureStatement::Alter(..) => "ALTER PROCEDURE",
        ProcedureStatement::Comment(..) => "COMMENT",
    }
}

/// Executes a statement about procedures.
pub(crate) fn define(
    definer: &mut Definer<'_>,
    statement: &ProcedureStatement,
) -> Result<(), SqlError> {
    match statement {
        ProcedureStatement::Create(new) => create(definer, new),
        ProcedureStatement::Drop { procedures, if_exists } => {
            procedures.iter().try_for_each(|of| drop_named(definer, of, *if_exists))
        }
        ProcedureStatement::Alter(of, change) => {
            let found = found(&definer.catalog(), of)?;
            alter(definer, &found, change)
        }
        ProcedureStatement::Comment(of, said) => {
            let topic = (found(&definer.catalog(), of)?.oid, String::new());
            let said = said.as_deref().filter(|said| !said.is_empty()).map(Arc::from);
            definer.change(|catalog| match said {
                Some(said) => drop(catalog.comments.insert(topic, said)),
                None => drop(catalog.comments.remove(&topic)),
            });
            Ok(())
        }
    }
}

/// The procedure that a statement names.
///
/// # Errors
/// 42883, 42725, 42809; errors of the types.
pub(crate) fn found(catalog: &Catalog, of: &Signature) -> Result<Arc<Procedure>, SqlError> {
    let types = types(catalog, of)?;
    procedures::named(catalog, &Named::of(&of.name)?, types.as_deref())
}

fn types(catalog: &Catalog, of: &Signature) -> Result<Option<Vec<SqlType>>, SqlError> {
    let Some(types) = &of.types else { return Ok(None) };
    types
        .iter()
        .map(|ty| procedures::argument_type(catalog, ty))
        .collect::<Result<_, _>>()
        .map(Some)
}

fn create(definer: &mut Definer<'_>, new: &NewProcedure) -> Result<(), SqlError> {
    let catalog = definer.catalog();
    let name = catalog.made(&Named::of(&new.name)?, false)?;
    if name.schema == TEMPORARY {
        return Err(SqlError::unsupported("a temporary procedure")
            .hint("Create it in another schema; its body can name temporary tables."));
    }
    let arguments = arguments(definer, new)?;
    let (body, is_atomic) = (new.body.clone(), new.is_atomic);
    let mut procedure = Procedure { oid: 0, name, arguments, body, is_atomic };
    procedure.oid = match procedures::at(&catalog, &procedure.name, &procedure.types()) {
        Some(old) if new.or_replace => {
            check_replaces(&procedure, old)?;
            old.oid
        }
        Some(_) => {
            let name = &procedure.name.name;
            let message = format!("function \"{name}\" already exists with same argument types");
            return Err(SqlError::new("42723", message));
        }
        None => definer.engine.fresh_oid(),
    };
    let procedure = Arc::new(procedure);
    definer.change(|catalog| drop(catalog.procedures.insert(procedure.oid, procedure.clone())));
    if !checks_bodies(definer) {
        return Ok(());
    }
    let checked = compile_body(&procedure, &definer.catalog(), &definer.around.budget);
    checked.map(drop).map_err(|error| match (new.before, error.position) {
        (Some(before), Some(at)) => SqlError { position: Some(before + at), ..error },
        _ => error.nowhere().context(format!("SQL function \"{}\"", procedure.name.name)),
    })
}

/// False in a dump that is loaded, whose procedures come before the tables that they name.
fn checks_bodies(definer: &Definer<'_>) -> bool {
    let setting = definer.around.settings.setting("check_function_bodies");
    let setting = setting.map(|setting| setting.to_lowercase());
    !matches!(setting.as_deref(), Some("off" | "false" | "no" | "0"))
}

fn arguments(definer: &Definer<'_>, new: &NewProcedure) -> Result<Vec<Argument>, SqlError> {
    let (catalog, mut all) = (definer.catalog(), Vec::<Argument>::new());
    for argument in &new.arguments {
        let ty = procedures::argument_type(&catalog, &argument.ty)?;
        let is_same = |other: &Argument| argument.name.is_some() && other.name == argument.name;
        if all.iter().any(is_same) {
            let name = argument.name.as_deref().unwrap_or_default();
            let message = format!("parameter name \"{name}\" used more than once");
            return Err(SqlError::new("42P13", message));
        }
        let default = match &argument.default {
            None if all.iter().any(|before| before.default.is_some()) => {
                let message =
                    "input parameters after one with a default value must also have defaults";
                return Err(SqlError::new("42P13", message));
            }
            None => None,
            Some(default) => {
                check_argument(default, ty, &catalog, &definer.around.budget)?;
                Some(isomer_sql::sequence::kept(&default.to_string(), ty, &catalog))
            }
        };
        all.push(Argument { name: argument.name.clone(), ty, default });
    }
    Ok(all)
}

/// A procedure that replaces another keeps the names of its arguments and their defaults.
fn check_replaces(new: &Procedure, old: &Procedure) -> Result<(), SqlError> {
    let hint = || {
        let types: Vec<String> = old.arguments.iter().map(|one| one.ty.to_string()).collect();
        format!("Use DROP PROCEDURE {}({}) first.", old.name.name, types.join(","))
    };
    for (before, now) in old.arguments.iter().zip(&new.arguments) {
        if let (Some(name), true) = (&before.name, before.name != now.name) {
            let message = format!("cannot change name of input parameter \"{name}\"");
            return Err(SqlError::new("42P13", message).hint(hint()));
        }
        if before.default.is_some() && now.default.is_none() {
            let message = "cannot remove parameter defaults from existing function";
            return Err(SqlError::new("42P13", message).hint(hint()));
        }
    }
    Ok(())
}

fn drop_named(definer: &mut Definer<'_>, of: &Signature, if_exists: bool) -> Result<(), SqlError> {
    let catalog = definer.catalog();
    match found(&catalog, of) {
        Err(error)
            if if_exists
                && matches!(
                    error.code,
                    code::UNDEFINED_FUNCTION | code::UNDEFINED_OBJECT | code::INVALID_SCHEMA
                ) =>
        {
            let (name, types) = (Named::of(&of.name)?, types(&catalog, of));
            let types = types.ok().flatten().unwrap_or_default();
            let said = procedures::signature(&catalog, &name.to_string(), &types);
            let message = format!("procedure {said} does not exist, skipping");
            definer.notices.push(SqlError::new("00000", message));
        }
        found => {
            let oid = found?.oid;
            definer.change(|catalog| drop(catalog.procedures.remove(&oid)));
        }
    }
    Ok(())
}

fn alter(
    definer: &mut Definer<'_>,
    now: &Arc<Procedure>,
    change: &ProcedureChange,
) -> Result<(), SqlError> {
    let mut name = now.name.clone();
    match change {
        ProcedureChange::Owner(owner) => {
            let role = definer.new_owner(owner)?;
            definer.check_place(role, &now.name.schema)?;
            definer.hand_over(Object::Procedure(now.oid), role);
            return Ok(());
        }
        ProcedureChange::Rename(to) => name.name.clone_from(to),
        ProcedureChange::Schema(to) => {
            definer.catalog().check_schema(to)?;
            name.schema.clone_from(to);
            if name == now.name {
                return Ok(());
            }
        }
    }
    let catalog = definer.catalog();
    let new = Procedure { name, ..Procedure::clone(now) };
    if procedures::at(&catalog, &new.name, &new.types()).is_some() {
        let said = new.said(&catalog);
        let message = format!("procedure {said} already exists in schema \"{}\"", new.name.schema);
        return Err(SqlError::new("42723", message));
    }
    definer.change(|catalog| drop(catalog.procedures.insert(new.oid, Arc::new(new))));
    Ok(())
}

/// The procedures in a schema.
pub(crate) fn inside(catalog: &Catalog, schema: &str) -> Vec<Arc<Procedure>> {
    let all = catalog.procedures.values().filter(|one| one.name.schema == schema);
    all.cloned().collect()
}

/// Drops all procedures of a schema.
pub(crate) fn drop_inside(catalog: &mut Catalog, schema: &str) {
    catalog.procedures.retain(|_, one| one.name.schema != schema);
}

/// Moves all procedures of a schema that is renamed.
pub(crate) fn rename_schema(catalog: &mut Catalog, from: &str, to: &str) {
    catalog.procedures.change(|one| {
        let name = Name { schema: to.to_owned(), ..one.name.clone() };
        let moved = || Arc::new(Procedure { name, ..Procedure::clone(one) });
        (one.name.schema == from).then(moved)
    });
}

/// Refuses a statement about procedures for lack of rights.
///
/// # Errors
/// 42501.
pub(crate) fn check(
    statement: &ProcedureStatement,
    catalog: &Catalog,
    who: &Identity,
) -> Result<(), SqlError> {
    let creates = |schema: &str| {
        let schema = catalog.schemas.get(schema).filter(|_| schema != TEMPORARY);
        schema.map_or(Ok(()), |schema| {
            let object = (Object::Schema(schema.oid), Kind::Schema);
            who.check(catalog, object, Rights::CREATE)
        })
    };
    let owns_schema = |schema: &str| {
        let schema = catalog.schemas.get(schema);
        schema.is_some_and(|schema| who.owns(catalog, Object::Schema(schema.oid)))
    };
    // The definition reports what is missing.
    let owns = |one: &Procedure, or_schema: bool| {
        let owns = who.owns(catalog, Object::Procedure(one.oid));
        match owns || (or_schema && owns_schema(&one.name.schema)) {
            true => Ok(()),
            false => Err(not_owner(&format!("procedure {}", one.name.name))),
        }
    };
    let owns_named = |of: &Signature, or_schema: bool| {
        crate::rights::check_use(who, catalog, &Named::of(&of.name)?)?;
        found(catalog, of).map_or(Ok(()), |one| owns(&one, or_schema))
    };
    match statement {
        ProcedureStatement::Create(new) => {
            let Ok(name) = catalog.made(&Named::of(&new.name)?, false) else { return Ok(()) };
            creates(&name.schema)?;
            let types: Result<Vec<SqlType>, SqlError> = new
                .arguments
                .iter()
                .map(|argument| procedures::argument_type(catalog, &argument.ty))
                .collect();
            let old = types.ok().and_then(|types| procedures::at(catalog, &name, &types));
            old.filter(|_| new.or_replace).map_or(Ok(()), |old| owns(old, false))
        }
        ProcedureStatement::Drop { procedures, .. } => {
            procedures.iter().try_for_each(|of| owns_named(of, true))
        }
        ProcedureStatement::Alter(of, change) => {
            owns_named(of, false)?;
            match change {
                ProcedureChange::Schema(to) => creates(to),
                ProcedureChange::Rename(_) => {
                    found(catalog, of).map_or(Ok(()), |one| creates(&one.name.schema))
                }
                ProcedureChange::Owner(_) => Ok(()),
            }
        }
        ProcedureStatement::Comment(of, _) => owns_named(of, false),
    }
}
