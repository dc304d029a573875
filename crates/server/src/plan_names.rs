//! Names of tables and indexes in plans.
//!
//! ```text
//!   people     split "My table" at 50      split sales.orders at 7
//!                     │  ▲ with_name                │  ▲
//!        stored_names ▼  │                          ▼  │
//!   design     split t21 at 50             split t34 at 7
//! ```
//!
//! The design knows tables of the store. A table of SQL has one for its rows and one for each
//! index, and gets others when it is altered. So plans name them as SQL does, and are translated
//! here.

use isomer_design::{Design, TableId};
use isomer_sql::catalog::{Catalog, Name};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The most names of relations that do not exist any more.
const FORMER_MAX: usize = 1000;

/// The names of relations that were dropped or replaced since the start: plans outlive them.
#[derive(Default)]
pub(crate) struct FormerNames(Mutex<BTreeMap<TableId, Name>>);

impl FormerNames {
    /// Keeps the names that tables of the store have in a catalog which they leave.
    pub(crate) fn keep(&self, catalog: &Catalog, tables: impl IntoIterator<Item = TableId>) {
        tables.into_iter().for_each(|id| self.put(id, catalog.relation(id)));
    }

    /// Keeps the name of a table of the store, if it had one.
    pub(crate) fn put(&self, table: TableId, name: Option<Name>) {
        let mut names = self.0.lock();
        names.extend(name.map(|name| (table, name)));
        if names.len() > FORMER_MAX {
            names.pop_first();
        }
    }

    /// The name that a table of the store had.
    pub(crate) fn of(&self, table: TableId) -> Option<Name> {
        self.0.lock().get(&table).cloned()
    }
}

/// Replaces the SQL names of tables and indexes in a plan by those of tables of the store. Lines
/// without a known name stay as they are.
pub(crate) fn stored_names(catalog: &Catalog, design: &Design, plan: &str) -> String {
    let stored = |label: &str| {
        let mut tables = catalog.tables.values();
        let id = tables.find_map(|table| table.part_labelled(label))?;
        design.table(id).ok().map(|table| table.name().to_owned())
    };
    let line = |line: &str| {
        let (operator, rest) = line.trim().split_once(' ')?;
        let (name, rest) = rest.split_at(name_length(rest));
        Some(format!("{operator} {}{rest}", stored(&unquoted(name))?))
    };
    let lines = plan.lines().map(|text| line(text).unwrap_or_else(|| text.to_owned()));
    lines.collect::<Vec<_>>().join("\n")
}

/// Replaces the first occurrence of a store table's name by its SQL name, quoted if necessary. A
/// text about a table that the design lacks has its number.
pub(crate) fn with_name(
    name: Option<Name>,
    design: &Design,
    table: TableId,
    text: String,
) -> String {
    let Some(name) = name.map(|name| name.said()) else { return text };
    let stored = match design.table(table) {
        Ok(stored) => stored.name().to_owned(),
        Err(_) => table.to_string(),
    };
    match text.strip_prefix(&stored) {
        Some(rest) => format!("{name}{rest}"),
        None => text.replacen(&format!(" {stored}"), &format!(" {name}"), 1),
    }
}

/// The length of the name that a text begins with: up to a blank or a bracket outside of quotes.
fn name_length(text: &str) -> usize {
    let mut is_quoted = false;
    let ends = |c: char| {
        is_quoted ^= c == '"';
        !is_quoted && matches!(c, '[' | ' ')
    };
    text.find(ends).unwrap_or(text.len())
}

/// A name of SQL without the quotes of its parts. A doubled quote within them stands for one.
fn unquoted(name: &str) -> String {
    let (mut label, mut is_quoted) = (String::new(), false);
    let mut rest = name.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '"' {
            label.push(c);
        } else if is_quoted && rest.next_if_eq(&'"').is_some() {
            label.push('"');
        } else {
            is_quoted = !is_quoted;
        }
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_at_blanks_and_brackets_outside_of_quotes() {
        for (text, name, label) in [
            ("accounts[50] 2", "accounts", "accounts"),
            ("sales.orders at 5", "sales.orders", "sales.orders"),
            (r#""My table"[5] 2"#, r#""My table""#, "My table"),
            (r#"s."a ""b"" [c]" at 'x y'"#, r#"s."a ""b"" [c]""#, r#"s.a "b" [c]"#),
            (r#""S""".t at 1"#, r#""S""".t"#, r#"S".t"#),
            ("x", "x", "x"),
            (r#""open at 5"#, r#""open at 5"#, "open at 5"),
        ] {
            assert_eq!(&text[..name_length(text)], name, "{text}");
            assert_eq!(unquoted(name), label, "{text}");
        }
    }
}
