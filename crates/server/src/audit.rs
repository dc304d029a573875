//! The actions of operators, `isomer.audit`; and the other histories that the
//! [chronicle](crate::chronicle) keeps.
//!
//! An action is a statement about the design, the server, or roles and their rights, with its
//! outcome: `ok`, or the error. Texts have `?` in place of literals where these may be secrets.

use crate::chronicle::{self, Event, clipped};
use crate::engine::Engine;
use isomer_sql::SqlError;
use isomer_sql::datum::Datum;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

impl Engine {
    /// Keeps the histories in a folder from now on, and reads those that are there.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn keep_histories(&self, folder: &Path) -> io::Result<()> {
        self.chronicle.open(folder)
    }

    /// Notes sites that others have taken over from since the last call, and those that serve
    /// again. `known` is what was noted.
    pub fn note_failovers(&self, known: &mut BTreeSet<String>) {
        let at_us = chronicle::us(self.database().now());
        let failed = self.database().failed_over();
        let sites: BTreeSet<String> = failed.iter().map(|it| it.site.to_string()).collect();
        for it in &failed {
            let site = it.site.to_string();
            if !known.contains(&site) {
                self.chronicle.add(Event::Failover { at_us, site, text: clipped(&it.to_string()) });
            }
        }
        for site in known.difference(&sites) {
            let text = format!("site {site} serves again");
            self.chronicle.add(Event::Failover { at_us, site: site.clone(), text });
        }
        *known = sites;
    }

    /// Notes what an operator did.
    pub(crate) fn audit(
        &self,
        (user, client): (&str, &str),
        action: &str,
        result: &Result<(), SqlError>,
    ) {
        let outcome = match result {
            Ok(()) => "ok".to_owned(),
            Err(error) => format!("{} {}", error.code, error.message),
        };
        self.chronicle.add(Event::Action {
            at_us: chronicle::us(self.database().now()),
            user: user.to_owned(),
            client: client.to_owned(),
            action: clipped(action),
            outcome: clipped(&outcome),
        });
    }

    pub(crate) fn audit_rows(&self) -> Vec<Vec<Datum>> {
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
        self.chronicle.last(2).into_iter().filter_map(row).collect()
    }

    pub(crate) fn failover_rows(&self) -> Vec<Vec<Datum>> {
        let row = |event| match event {
            Event::Failover { at_us, site, text } => {
                Some(vec![Datum::Timestamp(at_us), Datum::Text(site), Datum::Text(text)])
            }
            _ => None,
        };
        self.chronicle.last(1).into_iter().filter_map(row).collect()
    }
}
