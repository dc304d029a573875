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

/// Settings that are numbers, with their units.
const UNITS: [(&str, &str); 10] = [
    ("client_connection_check_interval", "ms"),
    ("idle_in_transaction_session_timeout", "ms"),
    ("idle_session_timeout", "ms"),
    ("lock_timeout", "ms"),
    ("log_min_duration_statement", "ms"),
    ("statement_timeout", "ms"),
    ("tcp_keepalives_idle", "s"),
    ("tcp_keepalives_interval", "s"),
    ("tcp_user_timeout", "ms"),
    ("transaction_timeout", "ms"),
];

/// The rows of `pg_settings`. Where values come from, and which are allowed, is not shown.
pub(super) fn settings(around: &Surroundings) -> Vec<Vec<Datum>> {
    let row = |(name, value): (String, String)| {
        let unit = UNITS.iter().find(|(known, _)| *known == name).map(|(_, unit)| *unit);
        let number = unit.and_then(|unit| in_unit(&value, unit));
        let kind = if number.is_some() { "integer" } else { "string" };
        let mut row = vec![
            Datum::Text(name),
            Datum::Text(number.map_or(value, |number| number.to_string())),
            unit.map_or(Datum::Null, text),
            text(""),
            text(""),
            Datum::Null,
            text("user"),
            text(kind),
        ];
        row.resize(PENDING_RESTART, Datum::Null);
        row.push(yes(false));
        row
    };
    around.settings.settings().into_iter().map(row).collect()
}

/// The column index of `pending_restart` in `pg_settings`.
const PENDING_RESTART: usize = 16;

/// A time such as `5s`, or a number without a unit, as a number in a unit.
fn in_unit(value: &str, unit: &str) -> Option<i64> {
    let end = value.find(|sign: char| sign.is_ascii_alphabetic()).unwrap_or(value.len());
    let (number, own) = value.split_at(end);
    let number: i64 = number.parse().ok()?;
    let ms = |unit: &str| match unit {
        "ms" => Some(1),
        "s" => Some(1_000),
        "min" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    };
    if own.is_empty() { Some(number) } else { Some(number * ms(own)? / ms(unit)?) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_numbers_in_their_units() {
        assert_eq!(in_unit("5s", "ms"), Some(5000));
        assert_eq!(in_unit("2min", "s"), Some(120));
        assert_eq!(in_unit("0", "ms"), Some(0));
        assert_eq!(in_unit("-1", "ms"), Some(-1));
        assert_eq!(in_unit("5 x", "ms"), None);
    }
}
