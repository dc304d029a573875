//! Roles, users and groups in system tables.

use super::{int, text, yes};
use crate::array;
use crate::catalog::Catalog;
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::rights::Role;
use crate::transaction::Surroundings;

/// The rows of `pg_roles`.
pub(super) fn roles(around: &Surroundings) -> Vec<Vec<Datum>> {
    let row = |role: &Role| {
        vec![
            int(role.oid),
            text(&role.name),
            yes(role.superuser),
            yes(role.login),
            yes(true),
            yes(role.superuser),
            yes(role.superuser),
            yes(false),
            yes(role.superuser),
            int(-1),
            Datum::Null,
            text(HIDDEN),
        ]
    };
    around.identity.roles().all().iter().map(row).collect()
}

/// The rows of `pg_authid`.
///
/// # Errors
/// 42501 for a role that is no superuser.
pub(super) fn with_passwords(around: &Surroundings) -> Result<Vec<Vec<Datum>>, SqlError> {
    check_superuser(around, "table pg_authid")?;
    let row = |role: &Role| {
        vec![
            int(role.oid),
            text(&role.name),
            yes(role.superuser),
            yes(true),
            yes(role.superuser),
            yes(role.superuser),
            yes(role.login),
            yes(false),
            yes(role.superuser),
            int(-1),
            password(role, around),
            Datum::Null,
        ]
    };
    Ok(around.identity.roles().all().iter().map(row).collect())
}

/// The rows of `pg_user`.
pub(super) fn users(around: &Surroundings) -> Vec<Vec<Datum>> {
    logins(around).map(|role| user(role, text(HIDDEN))).collect()
}

/// The rows of `pg_shadow`.
///
/// # Errors
/// 42501 for a role that is no superuser.
pub(super) fn users_with_passwords(around: &Surroundings) -> Result<Vec<Vec<Datum>>, SqlError> {
    check_superuser(around, "view pg_shadow")?;
    Ok(logins(around).map(|role| user(role, password(role, around))).collect())
}

/// The rows of `pg_group`: roles that may not connect, with their direct members.
pub(super) fn groups(catalog: &Catalog, around: &Surroundings) -> Vec<Vec<Datum>> {
    let row = |role: &Role| {
        let members = catalog.members.iter().filter(|((of, _), _)| i64::from(*of) == role.oid);
        let members: Vec<String> = members.map(|((_, member), _)| member.to_string()).collect();
        let members = array::format(members.iter().map(|member| Some(member.as_str())));
        vec![text(&role.name), int(role.oid), Datum::Text(members)]
    };
    around.identity.roles().all().iter().filter(|role| !role.login).map(row).collect()
}

/// The text in place of a password.
const HIDDEN: &str = "********";

/// The roles that may connect.
fn logins(around: &Surroundings) -> impl Iterator<Item = &Role> {
    around.identity.roles().all().iter().filter(|role| role.login)
}

/// A row of `pg_user` or `pg_shadow`.
fn user(role: &Role, password: Datum) -> Vec<Datum> {
    let superuser = || yes(role.superuser);
    let mut row = vec![text(&role.name), int(role.oid), superuser(), superuser(), yes(false)];
    row.extend([superuser(), password, Datum::Null, Datum::Null]);
    row
}

fn password(role: &Role, around: &Surroundings) -> Datum {
    around.design.password(&role.name).map_or(Datum::Null, Datum::Text)
}

fn check_superuser(around: &Surroundings, what: &str) -> Result<(), SqlError> {
    if around.identity.is_superuser {
        return Ok(());
    }
    let message = format!("permission denied for {what}");
    Err(SqlError::new(code::INSUFFICIENT_PRIVILEGE, message))
}
