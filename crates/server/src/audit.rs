//! The actions of operators, `isomer.audit`; and the other histories that the
//! [chronicle](crate::chronicle) keeps.
//!
//! An action is a statement about the design, the server, or roles and their rights, with its
//! outcome: `ok`, or the error. Texts have `?` in place of literals where these may be secrets.
//!
//! With several gateways, each has the actions at all of them: see [`crate::trail`].

use crate::chronicle::{Event, clipped, us};
use crate::engine::{Engine, Told, mention};
use crate::trail;
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
    let event = Event::Action {
        at_us: us(engine.database().now()),
        user: user.to_owned(),
        client: client.to_owned(),
        action: clipped(action),
        outcome: clipped(&outcome),
    };
    engine.chronicle.add(event.clone());
    match engine.database().is_gateway_only() {
        true => {
            engine.chronicle.send([event]);
            trail::send(engine.database(), &engine.chronicle);
        }
        false => mention(engine, &Told::Noted(vec![event])),
    }
}

/// Keeps the actions of a gateway of another process, and passes them on to all others.
pub(crate) fn keep(engine: &Engine, actions: Vec<Event>) {
    let is_new = |action: &Event| engine.chronicle.learn(action);
    let new: Vec<Event> = actions.into_iter().filter(is_new).collect();
    if !new.is_empty() {
        mention(engine, &Told::Noted(new));
    }
}

pub(crate) fn audit_rows(engine: &Engine) -> Vec<Vec<Datum>> {
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
    engine.chronicle.last(2).into_iter().filter_map(row).collect()
}

pub(crate) fn failover_rows(engine: &Engine) -> Vec<Vec<Datum>> {
    let row = |event| match event {
        Event::Failover { at_us, site, text } => {
            Some(vec![Datum::Timestamp(at_us), Datum::Text(site), Datum::Text(text)])
        }
        _ => None,
    };
    engine.chronicle.last(1).into_iter().filter_map(row).collect()
}
