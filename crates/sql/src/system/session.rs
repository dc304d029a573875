//! System tables about a session: its settings, its prepared statements, and the time zones that it
//! may set.

use super::{text, yes};
use crate::array;
use crate::catalog::quoted;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::interval::Interval;
use crate::transaction::{PreparedShown, Surroundings};
use crate::types::SqlType;
use crate::zone::Zone;

/// The rows of `pg_settings`.
pub(super) fn settings(around: &Surroundings) -> Vec<Vec<Datum>> {
    let row = |(name, value): (String, String)| {
        let blank = || text("");
        vec![Datum::Text(name), Datum::Text(value), blank(), blank(), text("user"), text("string")]
    };
    around.settings.settings().into_iter().map(row).collect()
}

/// The rows of `pg_prepared_statements`. Plans are not counted by kind, so those counts are NULL.
pub(super) fn prepared(around: &Surroundings) -> Vec<Vec<Datum>> {
    let row = |(name, shown): (&String, &PreparedShown)| {
        let types: Vec<String> = shown.types.iter().map(|ty| ty.oid().to_string()).collect();
        let types = array::format(types.iter().map(|oid| Some(oid.as_str())));
        vec![
            text(name),
            written(name, shown),
            Datum::Timestamp(shown.prepared_us),
            Datum::Text(types),
            yes(shown.from_sql),
            Datum::Null,
            Datum::Null,
        ]
    };
    around.prepared.borrow().iter().map(row).collect()
}

/// A prepared statement as a text; one from SQL with its PREPARE.
fn written(name: &str, shown: &PreparedShown) -> Datum {
    if !shown.from_sql {
        return text(&shown.statement);
    }
    let given: Vec<String> = shown.given.iter().map(SqlType::to_string).collect();
    let given = if given.is_empty() { String::new() } else { format!("({})", given.join(", ")) };
    Datum::Text(format!("PREPARE {}{given} AS {}", quoted(name), shown.statement))
}

/// The rows of `pg_timezone_names`, as of the beginning of the transaction.
///
/// # Errors
/// 57014 and similar if the statement was cancelled meanwhile.
pub(super) fn zones(around: &Surroundings) -> Result<Vec<Vec<Datum>>, SqlError> {
    let now_us = around.begun_us;
    let mut rows = Vec::new();
    for name in Zone::names() {
        around.budget.tick(1)?;
        let Some(zone) = Zone::named(&name) else { continue };
        rows.push(vec![
            text(&name),
            Datum::Text(zone.abbreviation(now_us)),
            Datum::Interval(Interval::micros(zone.ahead(now_us))),
            yes(zone.saves_daylight(now_us)),
        ]);
    }
    Ok(rows)
}
