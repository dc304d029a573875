//! Footprints as text: `write accounts[5], read accounts[10..20)`.

use super::cursor::{Cursor, ParseError};
use crate::{Access, Design, Footprint, KeyRange, Missing, Span, TableId};

/// `write accounts[5..9)`, with names and keys as the design's schemas write them.
fn format_item(design: &Design, access: Access, id: TableId, range: &KeyRange) -> String {
    let access = if access == Access::Write { "write" } else { "read" };
    match design.table(id) {
        Ok(table) => format!("{access} {}{}", table.name(), table.schema().format_range(range)),
        Err(_) => format!("{access} {id}{range}"),
    }
}

impl Missing {
    /// The missing part and its placement: `write accounts[5..9) (master s2 replicas s1)`.
    pub fn to_text(&self, design: &Design) -> String {
        let item = format_item(design, self.access, self.table, &self.range);
        format!("{item} ({})", self.placement)
    }
}

impl Footprint {
    /// The footprint as text, with table names and keys as the design's schemas write them.
    pub fn to_text(&self, design: &Design) -> String {
        let items = self.items().iter().map(|item| match &item.span {
            Span::Key(key) => {
                format_item(design, item.access, item.table, &KeyRange::single(key.clone()))
            }
            Span::Range(range) => format_item(design, item.access, item.table, range),
        });
        items.collect::<Vec<_>>().join(", ")
    }

    /// Reads a footprint as [`Footprint::to_text`] writes it.
    pub fn parse(text: &str, design: &Design) -> Result<Footprint, ParseError> {
        let mut cursor = Cursor::new(text);
        let mut footprint = Footprint::new();
        cursor.next_line();
        while !cursor.is_line_end() {
            let access = cursor.access()?;
            let (id, table) = cursor.table(design)?;
            let range = cursor.range(table.schema())?;
            let is_key = range == KeyRange::single(range.start.clone());
            let span = if is_key { Span::Key(range.start) } else { Span::Range(range) };
            footprint.add(id, span, access);
            cursor.skip_blanks();
            if !cursor.eat(",") {
                break;
            }
            cursor.skip_blanks();
        }
        cursor.expect_text_end()?;
        Ok(footprint)
    }
}

impl Cursor<'_> {
    fn access(&mut self) -> Result<Access, ParseError> {
        if self.eat_word("write") {
            Ok(Access::Write)
        } else if self.eat_word("read") {
            Ok(Access::Read)
        } else {
            Err(self.expected("`read` or `write`"))
        }
    }
}
