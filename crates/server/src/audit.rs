//! The actions of operators, `isomer.audit`; and the other histories that the
//! [chronicle](crate::chronicle) keeps.
//!
//! An action is a statement about the design, the server, or roles and their rights, with its
//! outcome: `ok`, or the error. Texts have `?` in place of literals where these may be secrets.
//!
//! Each gateway writes those of its clients, and reads those of all: see [`crate::histories`].

use crate::chronicle::{Event, clipped, us};
use crate::engine::Engine;
use crate::histories::{actions, until_written};
use isomer_sql::SqlError;
use isomer_sql::datum::Datum;

/// Notes the action of an operator.
pub(crate) fn note(
    engine: &Engine,
    (user, client): (&str, &str),
    action: &str,
    result: &Result<(), SqlError>,
) {
    let outcome = match result {
        Ok(()) => "ok".to_owned(),
        Err(error) => format!("{} {}", error.code, error.message),
    };
    let turn = engine.chronicle.add(Event::Action {
        at_us: us(engine.database().now()),
        user: user.to_owned(),
        client: client.to_owned(),
        action: clipped(action),
        outcome: clipped(&outcome),
    });
    until_written(engine, turn);
}

/// # Errors
/// Those of the table of histories.
pub(crate) fn audit_rows(engine: &Engine) -> Result<Vec<Vec<Datum>>, SqlError> {
    let row = |event| match event {
        Event::Action { at_us, user, client, action, outcome } => Some(vec![
            Datum::Timestamp(at_us),
            Datum::Text(user),
            Datum::Text(client),
            Datum::Text(action),
            Datum::Text(outcome),
        ]),
        _ => None,
    };
    Ok(actions(engine)?.into_iter().filter_map(row).collect())
}

pub(crate) fn failover_rows(engine: &Engine) -> Vec<Vec<Datum>> {
    let row = |event| match event {
        Event::Failover { at_us, site, text } => {
            Some(vec![Datum::Timestamp(at_us), Datum::Text(site), Datum::Text(text)])
        }
        _ => None,
    };
    engine.chronicle.failovers().into_iter().filter_map(row).collect()
}
