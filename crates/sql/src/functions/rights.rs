//! Functions that test a role's privileges: `has_table_privilege([role,] table, 'select, update')`
//! and similar.
//!
//! Of several privileges one is enough. A name that does not exist is an error; an oid that does
//! not exist results in NULL.

use crate::catalog::{Catalog, Named, Relation, SYSTEM};
use crate::datum::Datum;
use crate::error::{SqlError, clipped, code};
use crate::rights::check::{acl_of, object_of};
use crate::rights::{Identity, Kind, Object, PUBLIC, Rights};
use crate::transaction::Surroundings;

/// The kind of object that is tested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "they are what SQL calls so")]
pub enum Asked {
    Table,
    AnyColumn,
    Column,
    Sequence,
    Schema,
    Type,
    Database,
    Role,
}

/// Rights that are tested, and whether the grant option is required.
type Wanted = Vec<(Rights, bool)>;

pub(super) fn may(
    asked: Asked,
    args: &[Datum],
    catalog: &Catalog,
    around: &Surroundings,
) -> Result<Datum, SqlError> {
    let least = if asked == Asked::Column { 3 } else { 2 };
    let (who, rest) = match args.len() > least {
        true => (identity(&args[0], catalog, around)?, &args[1..]),
        false => (Identity::clone(&around.identity), args),
    };
    let words = rest.last().and_then(Datum::as_text).unwrap_or_default();
    let truth = match asked {
        Asked::Table | Asked::AnyColumn | Asked::Column | Asked::Sequence => {
            let kind = if asked == Asked::Sequence { Kind::Sequence } else { Kind::Table };
            let wanted = wanted(words, kind.all())?;
            of_relation(asked, rest, (&who, &wanted), catalog)?
        }
        Asked::Schema => of_schema(&rest[0], (&who, &wanted(words, Kind::Schema.all())?), catalog)?,
        Asked::Type => {
            wanted(words, Kind::Type.all())?;
            Some(true)
        }
        Asked::Database => Some(of_database(words, &who)?),
        Asked::Role => Some(of_role(&rest[0], words, &who, catalog)?),
    };
    Ok(truth.map_or(Datum::Null, Datum::Bool))
}

/// A role by its name or its oid; the name `public` stands for every role.
fn identity(named: &Datum, catalog: &Catalog, around: &Surroundings) -> Result<Identity, SqlError> {
    let roles = around.identity.roles();
    let oid = match named {
        Datum::Int(oid) => *oid as u32,
        name => match name.as_text().unwrap_or_default() {
            "public" => PUBLIC,
            name => roles.named(name)?.oid as u32,
        },
    };
    Ok(Identity::numbered(oid, roles, &catalog.members))
}

/// Reads a list of rights, each with an optional WITH GRANT OPTION.
fn wanted(words: &str, known: Rights) -> Result<Wanted, SqlError> {
    let one = |word: &str| {
        let upper = word.trim().to_uppercase();
        let (name, option) = match upper.strip_suffix(" WITH GRANT OPTION") {
            Some(name) => (name.trim_end(), true),
            None => (upper.as_str(), false),
        };
        let right = Rights::named(name).filter(|right| known.has(*right));
        right.map(|right| (right, option)).ok_or_else(|| unknown(word))
    };
    words.split(',').map(one).collect()
}

fn unknown(word: &str) -> SqlError {
    let message = format!("unrecognized privilege type: \"{}\"", clipped(word.trim()));
    SqlError::new(code::INVALID_PARAMETER, message)
}

/// True if a role has one of these rights, or its grant option if that is required.
fn has(
    (who, wanted): (&Identity, &Wanted),
    catalog: &Catalog,
    (object, kind): (Object, Kind),
) -> bool {
    let rights = who.rights_to(catalog, object, kind);
    let acl = acl_of(catalog, object, kind, who.roles());
    let owner = who.owner_of(catalog, object);
    wanted.iter().any(|(right, option)| match option {
        false => rights.has(*right),
        true => {
            who.acts_as(owner)
                || who.all().any(|role| acl.options_of(owner, role, *right).has(*right))
        }
    })
}

fn of_relation(
    asked: Asked,
    rest: &[Datum],
    (who, wanted): (&Identity, &Wanted),
    catalog: &Catalog,
) -> Result<Option<bool>, SqlError> {
    let found = match &rest[0] {
        // System views are readable for every role.
        Datum::Int(oid) if crate::system::own_view(*oid).is_some() => {
            let reads = wanted.iter().any(|(right, _)| *right == Rights::SELECT);
            return Ok(Some(reads || who.is_superuser));
        }
        Datum::Int(oid) => relation_numbered(catalog, *oid as u32),
        name => {
            let name = clipped(name.as_text().unwrap_or_default());
            match catalog.lookup(&Named::read(&name)) {
                Some(found) => Some(object_of(&found)),
                // System views are readable for every role.
                None if crate::system::regclass(catalog, &name).is_some() => {
                    let reads = wanted.iter().any(|(right, _)| *right == Rights::SELECT);
                    return Ok(Some(reads || who.is_superuser));
                }
                None => {
                    let message = format!("relation \"{name}\" does not exist");
                    return Err(SqlError::new(code::UNDEFINED_TABLE, message));
                }
            }
        }
    };
    let Some((object, kind)) = found else { return Ok(None) };
    let is_sequence = kind == Kind::Sequence;
    if asked == Asked::Sequence && !is_sequence {
        let what = crate::rights::check::described(catalog, object);
        let name = what.split_once(' ').map_or("", |(_, name)| name);
        return Err(SqlError::new(code::WRONG_OBJECT, format!("\"{name}\" is not a sequence")));
    }
    if has((who, wanted), catalog, (object, kind)) {
        return Ok(Some(true));
    }
    let Object::Relation(oid) = object else { return Ok(Some(false)) };
    let names = catalog.column_names(oid);
    let may = |name: &String| {
        let rights = who.rights_to_column(catalog, object, name);
        wanted.iter().any(|(right, option)| !option && rights.has(*right))
    };
    match (asked, rest.get(1)) {
        (Asked::AnyColumn, _) => Ok(Some(names.iter().any(may))),
        (Asked::Column, Some(Datum::Int(number))) => {
            let at = usize::try_from(number - 1).ok();
            Ok(at.and_then(|at| names.get(at)).map(may))
        }
        (Asked::Column, Some(name)) => {
            let name = name.as_text().unwrap_or_default();
            match names.iter().find(|known| *known == name) {
                Some(name) => Ok(Some(may(name))),
                None => {
                    let what = crate::rights::check::described(catalog, object);
                    let relation = what.split_once(' ').map_or("", |(_, name)| name);
                    let column = clipped(name);
                    let message =
                        format!("column \"{column}\" of relation \"{relation}\" does not exist");
                    Err(SqlError::new(code::UNDEFINED_COLUMN, message))
                }
            }
        }
        _ => Ok(Some(false)),
    }
}

fn relation_numbered(catalog: &Catalog, oid: u32) -> Option<(Object, Kind)> {
    if let Some(table) = catalog.table_of(oid) {
        return Some(object_of(&Relation::Table(table)));
    }
    if let Some(view) = catalog.view_of(oid) {
        return Some(object_of(&Relation::View(view)));
    }
    let sequence = catalog.sequences.values().find(|sequence| sequence.oid == oid);
    sequence.map(|sequence| object_of(&Relation::Sequence(sequence)))
}

fn of_schema(
    named: &Datum,
    (who, wanted): (&Identity, &Wanted),
    catalog: &Catalog,
) -> Result<Option<bool>, SqlError> {
    let of_all = || {
        let uses = wanted.iter().any(|(right, option)| *right == Rights::USAGE && !option);
        Some(uses || who.is_superuser)
    };
    let found = match named {
        Datum::Int(oid) => {
            let found = catalog.schemas.values().find(|schema| i64::from(schema.oid) == *oid);
            if found.is_none() && crate::system::is_own_schema(*oid) {
                return Ok(of_all());
            }
            found
        }
        name => {
            let name = name.as_text().unwrap_or_default();
            if SYSTEM.contains(&name) {
                return Ok(of_all());
            }
            Some(catalog.schemas.get(name).ok_or_else(|| catalog.no_schema(&clipped(name)))?)
        }
    };
    let object = found.map(|schema| Object::Schema(schema.oid));
    Ok(object.map(|object| has((who, wanted), catalog, (object, Kind::Schema))))
}

/// Every role may connect and make temporary tables; only the owner may create schemas.
fn of_database(words: &str, who: &Identity) -> Result<bool, SqlError> {
    let one = |word: &str| match word.trim().to_uppercase().as_str() {
        "CONNECT" | "TEMPORARY" | "TEMP" => Ok(true),
        "CREATE" => Ok(who.acts_as(who.roles().first())),
        _ => Err(unknown(word)),
    };
    let all = words.split(',').map(one).collect::<Result<Vec<bool>, SqlError>>()?;
    Ok(all.contains(&true))
}

fn of_role(
    named: &Datum,
    words: &str,
    who: &Identity,
    catalog: &Catalog,
) -> Result<bool, SqlError> {
    let role = match named {
        Datum::Int(oid) => *oid as u32,
        name => who.roles().named(name.as_text().unwrap_or_default())?.oid as u32,
    };
    let is_admin = || {
        let lets_in = |of: u32| catalog.members.get(&(role, of)).is_some_and(|how| how.is_admin);
        who.is_superuser || who.all().any(lets_in)
    };
    let one = |word: &str| match word.trim().to_uppercase().as_str() {
        "MEMBER" | "USAGE" => Ok(who.acts_as(role)),
        "MEMBER WITH ADMIN OPTION"
        | "MEMBER WITH GRANT OPTION"
        | "USAGE WITH ADMIN OPTION"
        | "USAGE WITH GRANT OPTION" => Ok(is_admin()),
        _ => Err(unknown(word)),
    };
    let all = words.split(',').map(one).collect::<Result<Vec<bool>, SqlError>>()?;
    Ok(all.contains(&true))
}
