//! Functions for operators: sessions and sizes.

use crate::catalog::{Catalog, Table};
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::rights::SIGNAL_BACKEND;
use crate::system::{key_number, regclass};
use crate::transaction::Surroundings;
use isomer_design::TableId;
use std::sync::Arc;

/// Cancels the statement of a session, or ends the session. Returns false, with a warning, if no
/// session has this number, or its gateway gives no answer.
///
/// # Errors
/// 42501 unless the role has the rights of the session's user, or is a member of
/// `pg_signal_backend` and the user is no superuser.
pub(super) fn signal(
    process: i64,
    ends_session: bool,
    around: &Surroundings,
) -> Result<bool, SqlError> {
    let sessions = around.sessions.sessions();
    let warn = |message: String| {
        let warning = SqlError::new("01000", message);
        let warning = match sessions.missing() {
            Some(who) => warning.detail(format!("The sessions of {who} are not known.")),
            None => warning,
        };
        around.warnings.borrow_mut().push(warning);
        Ok(false)
    };
    let Some(found) = sessions.of(process) else {
        return warn(format!("PID {process} is not a PostgreSQL backend process"));
    };
    around.sessions.asks_to_signal(found.process);
    let who = &around.identity;
    let role = who.roles().named(&found.user).ok();
    let (act, thing, is_done) = match ends_session {
        true => ("terminate", "process", "terminated"),
        false => ("cancel", "query", "canceled"),
    };
    let refused = if who.is_superuser {
        None
    } else if role.is_some_and(|role| role.superuser) {
        Some(format!("must be a superuser to {act} superuser {thing}"))
    } else if role.is_some_and(|role| who.acts_as(role.oid as u32)) || who.acts_as(SIGNAL_BACKEND) {
        None
    } else {
        Some(format!(
            "must be a member of the role whose {thing} is being {is_done} or member of pg_signal_backend"
        ))
    };
    match refused {
        Some(message) => Err(SqlError::new(code::INSUFFICIENT_PRIVILEGE, message)),
        None if !ends_session && found.process == around.process => {
            Err(SqlError::new(code::CANCELED, "canceling statement due to user request"))
        }
        None if around.sessions.signal(found.process, ends_session) => Ok(true),
        None => warn(format!("could not send signal to process {process}")),
    }
}

/// A property of the own session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Own {
    /// The address of the client; NULL for a Unix socket.
    Address,
    /// The port of the client; NULL for a Unix socket.
    Port,
    /// The text of the statement that it sent.
    Query,
}

/// # Errors
/// 54000 if the memory of the statement does not suffice.
pub(super) fn own(part: Own, around: &Surroundings) -> Result<Datum, SqlError> {
    let Some(own) = around.sessions.own(around.process) else { return Ok(Datum::Null) };
    around.budget.charge(own.text.len())?;
    Ok(match part {
        Own::Address => own.client_address.map_or(Datum::Null, Datum::Text),
        Own::Port if own.client_address.is_none() => Datum::Null,
        Own::Port => Datum::Int(own.client_port),
        Own::Query => Datum::Text(own.text),
    })
}

/// The memory of the rows and indexes of all sites, in bytes.
///
/// # Errors
/// Those of the view of sites.
pub(super) fn database_size(catalog: &Catalog, around: &Surroundings) -> Result<Datum, SqlError> {
    let sites = around.design.rows("sites", catalog, &around.budget)?;
    let bytes = sites.iter().map(|row| match row.get(MEMORY_BYTES) {
        Some(Datum::Int(bytes)) => *bytes,
        _ => 0,
    });
    Ok(Datum::Int(bytes.sum()))
}

/// The part of a relation that a size is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sized {
    /// Its own rows.
    Own,
    /// Those of its indexes.
    Indexes,
    /// Both.
    Total,
}

/// The bytes of a table's or an index's rows at their masters; NULL for an unknown oid. A primary
/// key takes nothing if the rows of its table are in its order.
///
/// # Errors
/// 42P01 for an unknown name.
pub(super) fn relation_size(
    catalog: &Catalog,
    relation: &Datum,
    part: Sized,
    around: &Surroundings,
) -> Result<Datum, SqlError> {
    let gone = |name: &str| {
        SqlError::new(code::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
    };
    let oid = match relation {
        Datum::Int(oid) => Some(*oid),
        Datum::Text(name) => Some(match name.parse() {
            Ok(oid) => oid,
            Err(_) => regclass(catalog, name).ok_or_else(|| gone(name))?,
        }),
        _ => None,
    };
    let Some(oid) = oid.and_then(|oid| u32::try_from(oid).ok()) else { return Ok(Datum::Null) };
    let bytes = |id: TableId| around.design.bytes(id);
    if let Some(table) = catalog.tables.numbered(oid) {
        let own = || bytes(table.id);
        let indexes = || table.maintained().map(|index| bytes(index.id)).sum::<u64>();
        let sum = match part {
            Sized::Own => own(),
            Sized::Indexes => indexes(),
            Sized::Total => own() + indexes(),
        };
        return Ok(Datum::Int(sum as i64));
    }
    let of_table = |table: &Arc<Table>| match &table.primary {
        _ if part == Sized::Indexes => None,
        Some(primary) if key_number(table) == oid => Some(bytes(primary.id)),
        _ => table.indexes.iter().find(|index| index.oid == oid).map(|index| bytes(index.id)),
    };
    let is_key = |table: &Arc<Table>| key_number(table) == oid;
    Ok(match catalog.tables.values().find_map(of_table) {
        Some(bytes) => Datum::Int(bytes as i64),
        None if catalog.oids().any(|known| known == oid) => Datum::Int(0),
        None if catalog.tables.values().any(is_key) => Datum::Int(0),
        None => Datum::Null,
    })
}

/// The column index of `memory_bytes` in `isomer.sites`.
const MEMORY_BYTES: usize = 3;

/// A number of bytes in the unit in which it has up to five digits, rounded half away from zero.
pub(super) fn pretty_size(bytes: &Datum) -> String {
    const UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    let bytes = match bytes {
        Datum::Int(bytes) => i128::from(*bytes),
        // Fractions of a byte are dropped.
        Datum::Numeric(bytes) => {
            let text = bytes.to_string();
            text.split('.').next().and_then(|whole| whole.parse().ok()).unwrap_or(0)
        }
        _ => 0,
    };
    let mut unit = 0;
    // In half units, truncated; bytes stay bytes.
    let mut size = bytes;
    let rounded = |halves: i128| (halves + halves.signum()) / 2;
    while unit + 1 < UNITS.len() {
        let limit = if unit == 0 { 10 << 10 } else { (20 << 10) - 1 };
        if size.abs() < limit {
            break;
        }
        size /= if unit == 0 { 1 << 9 } else { 1 << 10 };
        unit += 1;
    }
    let size = if unit == 0 { size } else { rounded(size) };
    format!("{size} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_with_up_to_five_digits() {
        for (bytes, shown) in [
            (0, "0 bytes"),
            (10_239, "10239 bytes"),
            (10_240, "10 kB"),
            (-10_240, "-10 kB"),
            (10_485_247, "10239 kB"),
            (10_485_248, "10 MB"),
            (1 << 30, "1024 MB"),
            (10 << 30, "10 GB"),
            (i64::MAX, "8192 PB"),
        ] {
            assert_eq!(pretty_size(&Datum::Int(bytes)), shown, "{bytes}");
        }
    }
}
