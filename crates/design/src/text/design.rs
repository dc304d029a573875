//! Designs as text: a file that a person can read, write and compare.
//!
//! ```text
//!   # Figure 2a.
//!   sites s1 s2
//!
//!   table accounts t1
//!     column id int64
//!     column owner text nullable
//!     column balance decimal(2)
//!     key id
//!     backups 1 on disk
//!     pin [10..)
//!     ordered
//!     partition [] master s1
//!     partition [10] master s2 replicas s1
//! ```
//!
//! Indentation and empty lines mean nothing; `#` starts a comment. A table without a number gets
//! the next one. Without `backups`, a table has none; without a line `pin`, none of its keys is
//! pinned; without `ordered`, its transactions are serialized by locks. A table without partitions
//! is an error, because it would have no master.

use super::cursor::{Cursor, ParseError};
use crate::design::check_partition;
use crate::schema::check_column;
use crate::{
    Backups, Column, ColumnType, Design, Key, KeyRange, Pins, Placement, Schema, SiteSet, TableId,
};
use std::fmt::Write as _;
use std::sync::Arc;

impl Design {
    /// The design as text, which [`Design::parse`] reads.
    pub fn to_text(&self) -> String {
        let mut text = format!("sites {}\n", self.sites());
        for (id, table) in self.tables() {
            let schema = table.schema();
            let key: Vec<&str> = schema.key_columns().map(|column| column.name.as_str()).collect();
            // Writing to a String cannot fail.
            let _ = writeln!(text, "\ntable {} {id}", schema.name());
            for column in schema.columns() {
                let _ = writeln!(text, "  column {column}");
            }
            let _ = writeln!(text, "  key {}", key.join(" "));
            if table.backups() != Backups::NONE {
                let _ = writeln!(text, "  backups {}", table.backups());
            }
            for pinned in table.pins().ranges() {
                let _ = writeln!(text, "  pin {}", schema.format_range(pinned));
            }
            if table.is_ordered() {
                text.push_str("  ordered\n");
            }
            for (start, placement) in table.partitions() {
                let _ = writeln!(text, "  partition [{}] {placement}", schema.format_key(start));
            }
        }
        text
    }

    /// Reads a design.
    pub fn parse(text: &str) -> Result<Design, ParseError> {
        let mut cursor = Cursor::new(text);
        cursor.next_line();
        let mut design = cursor.sites()?;
        while cursor.next_line() {
            cursor.table_section(&mut design)?;
        }
        Ok(design)
    }

    /// The design for a person: as [`Design::to_text`], without columns, and with neighbouring
    /// partitions of one placement in one row. Cannot be parsed.
    pub fn summary(&self) -> String {
        let mut text = format!("sites {}\n", self.sites());
        for (_, table) in self.tables() {
            let rows = summary_rows(table.schema(), table.partitions().iter());
            let width = rows.iter().map(|(keys, _, _)| keys.chars().count()).max().unwrap_or(0);
            let _ = write!(text, "table {}", table.name());
            if table.backups() != Backups::NONE {
                let _ = write!(text, "  backups {}", table.backups());
            }
            for pinned in table.pins().ranges() {
                let _ = write!(text, "  pin {}", table.schema().format_range(pinned));
            }
            if table.is_ordered() {
                text.push_str("  ordered");
            }
            text.push('\n');
            for (keys, placement, count) in rows {
                let _ = write!(text, "  {keys:width$}  {placement}");
                let _ = match count {
                    1 => writeln!(text),
                    _ => writeln!(text, "  ({count} partitions)"),
                };
            }
        }
        text
    }
}

/// The keys, placement and number of partitions of each run of neighbours with equal placements.
fn summary_rows<'a>(
    schema: &Schema,
    partitions: impl Iterator<Item = (&'a Key, &'a Placement)>,
) -> Vec<(String, &'a Placement, usize)> {
    let mut runs: Vec<(&Key, &Placement, usize)> = Vec::new();
    for (start, placement) in partitions {
        match runs.last_mut() {
            Some((_, last, count)) if *last == placement => *count += 1,
            _ => runs.push((start, placement, 1)),
        }
    }
    let ends = runs.iter().skip(1).map(|(start, ..)| Some((*start).clone())).chain([None]);
    let range = |start: &Key, end| schema.format_range(&KeyRange::new(start.clone(), end));
    runs.iter().zip(ends).map(|((start, p, count), end)| (range(start, end), *p, *count)).collect()
}

impl Cursor<'_> {
    fn sites(&mut self) -> Result<Design, ParseError> {
        self.expect_word("sites")?;
        let before = self.clone();
        let mut sites = vec![self.site()?];
        while !self.is_line_end() {
            sites.push(self.site()?);
        }
        Design::new(sites).map_err(|invalid| before.error(invalid))
    }

    fn table_section(&mut self, design: &mut Design) -> Result<(), ParseError> {
        let before = self.clone();
        self.expect_word("table")?;
        let name = self.name("the name of the table")?;
        let id = match self.eat_table_number() {
            Some(id) => id,
            None => TableId(design.tables().last().map_or(1, |(last, _)| last.0.saturating_add(1))),
        };
        self.expect_line_end()?;
        let schema = Arc::new(self.schema(name)?);
        let backups = self.backups()?;
        let pins = self.pins(&schema)?;
        let is_ordered = self.ordered()?;
        let partitions = self.partitions(&schema, design.sites())?;
        design
            .create_table(id, schema, partitions)
            .and_then(|()| design.set_backups(id, backups))
            .and_then(|()| design.set_pins(id, pins))
            .and_then(|()| design.set_ordered(id, is_ordered))
            .map_err(|invalid| before.error(invalid))
    }

    fn schema(&mut self, table: &str) -> Result<Schema, ParseError> {
        let mut columns = Vec::new();
        while self.next_line() && self.eat_word("column") {
            let before = self.clone();
            let column = self.column()?;
            check_column(table, &columns, &column).map_err(|error| before.error(error))?;
            self.expect_line_end()?;
            columns.push(column);
        }
        let before = self.clone();
        if !self.eat_word("key") {
            return Err(self.expected("`column` or `key`"));
        }
        let mut key = Vec::new();
        while !self.is_line_end() {
            key.push(self.name("the name of a key column")?);
        }
        Schema::new(table, columns, &key).map_err(|error| before.error(error))
    }

    fn column(&mut self) -> Result<Column, ParseError> {
        let name = self.name("the name of the column")?;
        let before = self.clone();
        let length = self.rest().find([' ', '\t', '\n', '\r', '#']).unwrap_or(self.rest().len());
        let type_name = &self.rest()[..length];
        let Some(ty) = ColumnType::parse_name(type_name) else {
            return Err(before
                .expected("a type: int64, float64, decimal(2), bool, text, bytes or timestamp"));
        };
        self.eat(type_name);
        let nullable = self.eat_word("nullable");
        Ok(Column { name: name.to_owned(), ty, nullable })
    }

    /// Reads `backups 1 on disk`, if there is a line of that kind.
    fn backups(&mut self) -> Result<Backups, ParseError> {
        let mut ahead = self.clone();
        if !ahead.next_line() || !ahead.eat_word("backups") {
            return Ok(Backups::NONE);
        }
        let before = ahead.clone();
        let count = ahead.rest().split_whitespace().next().unwrap_or_default().to_owned();
        let Ok(number) = count.parse() else {
            return Err(before.expected("how many backups: 0 to 255"));
        };
        ahead.eat(&count);
        let on_disk = ahead.eat_word("on");
        let place = if on_disk { "disk" } else { "memory" };
        if !on_disk && !ahead.eat_word("in") {
            return Err(ahead.expected("`on disk` or `in memory`"));
        }
        ahead.expect_word(place)?;
        ahead.expect_line_end()?;
        *self = ahead;
        Ok(Backups { count: number, on_disk })
    }

    /// Reads lines like `pin [5..10)`.
    fn pins(&mut self, schema: &Schema) -> Result<Pins, ParseError> {
        let mut pins = Pins::default();
        loop {
            let mut ahead = self.clone();
            if !ahead.next_line() || !ahead.eat_word("pin") {
                return Ok(pins);
            }
            pins = pins.with(&ahead.range(schema)?);
            ahead.skip_blanks();
            ahead.expect_line_end()?;
            *self = ahead;
        }
    }

    /// Reads `ordered`, if there is a line of that kind.
    fn ordered(&mut self) -> Result<bool, ParseError> {
        let mut ahead = self.clone();
        if !ahead.next_line() || !ahead.eat_word("ordered") {
            return Ok(false);
        }
        ahead.expect_line_end()?;
        *self = ahead;
        Ok(true)
    }

    fn partitions(
        &mut self,
        schema: &Schema,
        sites: &SiteSet,
    ) -> Result<Vec<(Key, Placement)>, ParseError> {
        let mut partitions: Vec<(Key, Placement)> = Vec::new();
        while self.next_line() && self.eat_word("partition") {
            let before = self.clone();
            let start = self.bracketed_key(schema)?;
            let placement = self.placement()?;
            self.expect_line_end()?;
            // Checked here, so that the error has the right line.
            let previous = partitions.last().map(|(start, _)| start);
            check_partition(schema, sites, previous, &start, &placement)
                .map_err(|invalid| before.error(invalid))?;
            partitions.push((start, placement));
        }
        let is_over = self.rest().is_empty() || self.clone().eat_word("table");
        if is_over { Ok(partitions) } else { Err(self.expected("`partition` or `table`")) }
    }

    fn placement(&mut self) -> Result<Placement, ParseError> {
        self.expect_word("master")?;
        let master = self.site()?;
        let mut replicas = SiteSet::EMPTY;
        if self.eat_word("replicas") {
            replicas.insert(self.site()?);
            while let Some(site) = self.eat_site() {
                replicas.insert(site);
            }
        }
        Ok(Placement { master, replicas })
    }

    /// Reads the number of a table, such as `t1`, if one stands here.
    fn eat_table_number(&mut self) -> Option<TableId> {
        let mut ahead = self.clone();
        let word = ahead.name("a number").ok()?;
        let id = TableId(word.strip_prefix('t')?.parse().ok()?);
        *self = ahead;
        Some(id)
    }
}
