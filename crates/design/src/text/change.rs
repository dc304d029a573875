//! Changes as text.

use super::cursor::{Cursor, ParseError, Problem};
use crate::design::TableDesign;
use crate::{Change, Design, Key, TableId};
use std::fmt;

/// The operators, for messages.
const OPERATORS: &str =
    "split, merge, add_replica, remove_replica, remaster, add_site or remove_site";

impl Change {
    /// The change as text, with the table's name and its keys as the design's schemas write them.
    /// A table that the design lacks is written by its number.
    pub fn to_text(&self, design: &Design) -> String {
        let table = self.table().and_then(|id| design.table(id).ok());
        match table {
            Some(table) => self.write(table.name(), |key| table.schema().format_key(key)),
            None => self.to_string(),
        }
    }

    /// Reads a change as [`Change::to_text`] writes it. Does not validate it.
    pub fn parse(text: &str, design: &Design) -> Result<Change, ParseError> {
        let mut cursor = Cursor::new(text);
        cursor.next_line();
        let change = cursor.change(design)?;
        cursor.expect_text_end()?;
        Ok(change)
    }

    fn write(&self, table: &str, format_key: impl Fn(&Key) -> String) -> String {
        let operator = self.operator();
        match self {
            Change::Split { at, .. } | Change::Merge { at, .. } => {
                format!("{operator} {table} at {}", format_key(at))
            }
            Change::AddReplica { start, site, .. }
            | Change::RemoveReplica { start, site, .. }
            | Change::Remaster { start, to: site, .. } => {
                format!("{operator} {table}[{}] {site}", format_key(start))
            }
            Change::AddSite { site } | Change::RemoveSite { site } => format!("{operator} {site}"),
        }
    }
}

/// With the table's number for its name, and keys as [`Key`] prints them.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.table().map(|table| table.to_string()).unwrap_or_default();
        f.write_str(&self.write(&table, Key::to_string))
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Cursor<'_> {
    fn change(&mut self, design: &Design) -> Result<Change, ParseError> {
        let before = self.clone();
        let operator = self.name(&format!("a change: {OPERATORS}"))?;
        Ok(match operator {
            "split" => {
                let (table, at) = self.table_and_key(design)?;
                Change::Split { table, at }
            }
            "merge" => {
                let (table, at) = self.table_and_key(design)?;
                Change::Merge { table, at }
            }
            "add_replica" => {
                let (table, start) = self.partition(design)?;
                Change::AddReplica { table, start, site: self.site()? }
            }
            "remove_replica" => {
                let (table, start) = self.partition(design)?;
                Change::RemoveReplica { table, start, site: self.site()? }
            }
            "remaster" => {
                let (table, start) = self.partition(design)?;
                Change::Remaster { table, start, to: self.site()? }
            }
            "add_site" => Change::AddSite { site: self.site()? },
            "remove_site" => Change::RemoveSite { site: self.site()? },
            _ => return Err(before.expected(format!("a change: {OPERATORS}"))),
        })
    }

    /// Reads `accounts at 5`.
    fn table_and_key(&mut self, design: &Design) -> Result<(TableId, Key), ParseError> {
        let (id, table) = self.table(design)?;
        self.expect_word("at")?;
        Ok((id, self.key(table.schema())?))
    }

    /// Reads `accounts[5]`.
    fn partition(&mut self, design: &Design) -> Result<(TableId, Key), ParseError> {
        let (id, table) = self.table(design)?;
        Ok((id, self.bracketed_key(table.schema())?))
    }

    /// Reads the name of a table of the design.
    pub(crate) fn table<'design>(
        &mut self,
        design: &'design Design,
    ) -> Result<(TableId, &'design TableDesign), ParseError> {
        let before = self.clone();
        let name = self.name("the name of a table")?;
        design.find_table(name).ok_or_else(|| {
            let tables: Vec<&str> = design.tables().map(|(_, table)| table.name()).collect();
            let tables = if tables.is_empty() { "none yet".into() } else { tables.join(", ") };
            before.error(Problem::UnknownTable { table: name.to_owned(), tables })
        })
    }
}
