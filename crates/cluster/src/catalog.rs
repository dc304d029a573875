//! The catalog: which sites and tables a database has. Where partitions are stands in the sites' logs.
//!
//! It is text: a design in which every table is one partition at the first site, and behind it the
//! changes since, so that a definition costs one table and not all of them:
//!
//! ```text
//!   # An Isomer database, format 3: ..       the whole: replaced as a whole
//!   sites s1 s2
//!   table accounts t1 ..
//!   # change of 94 bytes, 5d0c8a11           how long a change is, and its CRC-32
//!   # enter t2                               a table that is new, or asks for other backups
//!   sites s1 s2
//!   table orders t2 ..
//!   # change of 22 bytes, 0f31c2aa
//!   # drop t1
//!   sites s1 s2
//! ```
//!
//! In a file changes are appended; in a log each is a frame. A change that is cut short at the end
//! of a file was never acknowledged, and counts for nothing. Every change names the sites, so the
//! last frame of a log says which there are. The whole is written again by the first change of a
//! process, and when the changes have become longer than it.
//!
//! The first line has the number of the format: a newer program reads older ones (1 had no number,
//! 2 no changes), and writes its own with the next change; a number that it does not know is
//! refused by name.

use isomer_design::{Backups, Design, Key, Placement, Schema, SharedMap, SiteId, TableId};
use std::sync::Arc;

/// The format of the catalog that is written here, and the newest that is read.
const FORMAT: u32 = 3;
/// The beginning of the line before a change in a file.
const CHANGE: &str = "# change of ";
/// The beginnings of a change; the number of a table follows.
const ENTER: &str = "# enter ";
const DROP: &str = "# drop ";
/// Changes up to this size do not have the whole written again.
const CHANGES_BYTES_MIN: u64 = 64 << 10;
/// What a catalog begins with, and then its number.
const TITLE: &str = "# An Isomer database, format ";

/// The same of the catalog of a [node](crate::Node), which has no tables: whoever opened it as a database's would let its
/// sites forget all theirs.
const NODE_TITLE: &str = "# Sites of an Isomer node, format ";

/// Whose a catalog is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A database's: that of the process with the router.
    Database,
    /// A node's: that of a process that hosts sites of a database.
    Node,
}

impl Kind {
    /// In words.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Database => "a database",
            Kind::Node => "a node",
        }
    }

    /// Whose the text of a catalog is.
    pub(crate) fn of(text: &str) -> Kind {
        if text.starts_with(NODE_TITLE) { Kind::Node } else { Kind::Database }
    }
}

/// Sites and tables.
#[derive(Clone, Debug)]
pub(crate) struct Catalog {
    pub(crate) sites: Vec<SiteId>,
    tables: SharedMap<TableId, Arc<Schema>>,
    names: SharedMap<String, TableId>,
    /// Of the tables that ask for some.
    backups: SharedMap<TableId, Backups>,
}

/// A change of one table, which the catalog after it has the rest of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TableChange {
    /// The table is new, or asks for other backups.
    Enter(TableId),
    /// The table has gone.
    Drop(TableId),
}

/// How much of a catalog is kept as a whole, and how much as changes, in bytes.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Written {
    whole: u64,
    changes: u64,
}

impl Written {
    pub(crate) fn whole(bytes: u64) -> Written {
        Written { whole: bytes, changes: 0 }
    }

    pub(crate) fn add(&mut self, bytes: u64) {
        self.changes += bytes;
    }

    /// True if the next change is a reason to write the whole again.
    pub(crate) fn is_long(&self) -> bool {
        self.changes > self.whole.max(CHANGES_BYTES_MIN)
    }
}

impl Catalog {
    /// Sites, and no tables.
    pub(crate) fn of(sites: Vec<SiteId>) -> Catalog {
        let (tables, names, backups) = Default::default();
        Catalog { sites, tables, names, backups }
    }

    fn from_design(design: &Design) -> Catalog {
        let mut catalog = Catalog::of(design.sites().iter().collect());
        for (id, table) in design.tables() {
            catalog.enter(id, table.schema().clone());
            catalog.set_backups(id, table.backups());
        }
        catalog
    }

    /// The tables, by their numbers.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (TableId, &Arc<Schema>)> {
        self.tables.iter().map(|(id, schema)| (*id, schema))
    }

    /// True if there is a table of this number.
    pub(crate) fn has(&self, table: TableId) -> bool {
        self.tables.contains_key(&table)
    }

    /// A table by its name.
    pub(crate) fn find(&self, name: &str) -> Option<(TableId, &Arc<Schema>)> {
        let id = *self.names.get(name)?;
        Some((id, self.tables.get(&id)?))
    }

    /// Adds a table, whose name no other one has.
    pub(crate) fn enter(&mut self, table: TableId, schema: Arc<Schema>) {
        self.names.insert(schema.name().to_owned(), table);
        self.tables.insert(table, schema);
    }

    /// Removes a table.
    pub(crate) fn drop_table(&mut self, table: TableId) {
        if let Some(schema) = self.tables.remove(&table) {
            self.names.remove(schema.name());
        }
        self.backups.remove(&table);
    }

    /// The tables that ask for backups, and for how many.
    pub(crate) fn backed(&self) -> impl Iterator<Item = (TableId, Backups)> {
        self.backups.iter().map(|(table, backups)| (*table, *backups))
    }

    /// How many backups a table is to have.
    fn backups(&self, table: TableId) -> Backups {
        self.backups.get(&table).copied().unwrap_or(Backups::NONE)
    }

    /// Says how many.
    pub(crate) fn set_backups(&mut self, table: TableId, backups: Backups) {
        self.backups.remove(&table);
        if backups != Backups::NONE {
            self.backups.insert(table, backups);
        }
    }

    /// The text that is kept.
    pub(crate) fn to_text(&self, kind: Kind) -> String {
        let design = self.to_design().to_text();
        match kind {
            Kind::Database => format!(
                "{TITLE}{FORMAT}: its sites and tables. Where partitions are stands in the sites' logs.\n{design}"
            ),
            Kind::Node => format!(
                "{NODE_TITLE}{FORMAT}: its sites. Their tables are in the catalog of the database.\n{design}"
            ),
        }
    }

    /// The text of a change, of which this is the catalog after it.
    pub(crate) fn change_text(&self, change: TableChange) -> String {
        match change {
            TableChange::Enter(table) => {
                format!("{ENTER}{table}\n{}", self.design_of([table]).to_text())
            }
            TableChange::Drop(table) => format!("{DROP}{table}\n{}", self.design_of([]).to_text()),
        }
    }

    /// As a design, with every table as one partition.
    pub(crate) fn to_design(&self) -> Design {
        self.design_of(self.tables.keys().copied())
    }

    fn design_of(&self, tables: impl IntoIterator<Item = TableId>) -> Design {
        let mut design = Design::new(self.sites.iter().copied()).expect("sites were valid before");
        for id in tables {
            let everything = [(Key::min(), Placement::at(self.sites[0]))];
            let schema = self.tables.get(&id).expect("a table that is written is there").clone();
            design.create_table(id, schema, everything).expect("tables were valid before");
            // There may be fewer sites by now: then a table asks for more than there can be.
            let others = self.sites.len().saturating_sub(1).min(usize::from(u8::MAX)) as u8;
            let backups = self.backups(id);
            let backups = Backups { count: backups.count.min(others), ..backups };
            design.set_backups(id, backups).expect("there are as many sites");
        }
        design
    }

    /// Takes in a change that was [written](Catalog::change_text).
    fn take_in(&mut self, text: &str) -> Result<(), String> {
        let after = parse(text)?;
        let first = text.lines().next().unwrap_or_default();
        if let Some(table) = first.strip_prefix(DROP) {
            let number = table.strip_prefix('t').and_then(|number| number.parse().ok());
            self.drop_table(TableId(number.ok_or_else(|| format!("there is no table {table}"))?));
        }
        for (table, schema) in after.tables() {
            self.drop_table(table);
            self.enter(table, schema.clone());
            self.set_backups(table, after.backups(table));
        }
        self.sites = after.sites;
        Ok(())
    }
}

/// Reads the text of a catalog, with the changes that were appended to it.
///
/// # Errors
/// A sentence, if it is damaged.
pub(crate) fn read(text: &str) -> Result<Catalog, String> {
    check_format(text)?;
    let line = format!("\n{CHANGE}");
    let end = text.find(&line).map_or(text.len(), |at| at + 1);
    let (whole, mut changes) = text.split_at(end);
    let mut catalog = parse(whole)?;
    while !changes.is_empty() {
        match next_change(changes) {
            Some((change, true, rest)) => {
                catalog.take_in(change)?;
                changes = rest;
            }
            // The process ended while it appended this.
            Some((_, false, "")) => break,
            None if !changes.contains('\n') => break,
            _ => return Err("a change in it is damaged".to_owned()),
        }
    }
    Ok(catalog)
}

/// Reads the frames of a catalog's log; `None` if there are none.
///
/// # Errors
/// A sentence, if they are damaged.
pub(crate) fn read_frames(frames: &[Vec<u8>]) -> Result<Option<Catalog>, String> {
    let mut catalog: Option<Catalog> = None;
    for frame in frames {
        let text = std::str::from_utf8(frame).map_err(|error| error.to_string())?;
        match &mut catalog {
            Some(catalog) if is_change(text) => catalog.take_in(text)?,
            // A log is cut at whole catalogs, but by whole segments.
            None if is_change(text) => {}
            _ => catalog = Some(read(text)?),
        }
    }
    Ok(catalog)
}

/// The sites that the last frame of a catalog's log names.
///
/// # Errors
/// A sentence, if it is damaged.
pub(crate) fn sites_of_frame(frame: &[u8]) -> Result<Vec<SiteId>, String> {
    let text = std::str::from_utf8(frame).map_err(|error| error.to_string())?;
    Ok(if is_change(text) { parse(text)? } else { read(text)? }.sites)
}

fn is_change(text: &str) -> bool {
    text.starts_with(ENTER) || text.starts_with(DROP)
}

/// A change as it is appended to a file.
pub(crate) fn framed(change: &str) -> String {
    format!("{CHANGE}{} bytes, {:08x}\n{change}", change.len(), crc32fast::hash(change.as_bytes()))
}

/// The next change that was appended, whether all of it is there, and what is behind it; `None` if
/// the line that says how long it is was cut short.
fn next_change(text: &str) -> Option<(&str, bool, &str)> {
    let (line, rest) = text.split_once('\n')?;
    let (bytes, sum) = line.strip_prefix(CHANGE)?.split_once(" bytes, ")?;
    let (bytes, sum): (usize, u32) = (bytes.parse().ok()?, u32::from_str_radix(sum, 16).ok()?);
    let Some((change, rest)) = rest.split_at_checked(bytes) else { return Some((rest, false, "")) };
    Some((change, crc32fast::hash(change.as_bytes()) == sum, rest))
}

fn parse(text: &str) -> Result<Catalog, String> {
    Design::parse(text).map(|design| Catalog::from_design(&design)).map_err(|e| e.to_string())
}

fn check_format(catalog: &str) -> Result<(), String> {
    let title = catalog.strip_prefix(TITLE).or(catalog.strip_prefix(NODE_TITLE));
    let Some(title) = title else { return Ok(()) };
    let number = title.split(|sign: char| !sign.is_ascii_digit()).next().unwrap_or_default();
    match number.parse::<u32>() {
        Ok(1..=FORMAT) => Ok(()),
        Ok(_) => Err(format!(
            "it has format {number}, and this program knows those up to {FORMAT}; open it with a newer one"
        )),
        Err(_) => Err("its first line does not say which format it has".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_design::{Column, ColumnType};

    fn schema(name: &str) -> Arc<Schema> {
        let columns = vec![Column::new("id", ColumnType::Int64)];
        Arc::new(Schema::new(name, columns, &["id"]).expect("a schema"))
    }

    /// A catalog's text before and after each of some changes.
    fn texts() -> (String, Vec<(String, String)>) {
        let mut catalog = Catalog::of(vec![SiteId(1), SiteId(2)]);
        catalog.enter(TableId(1), schema("first"));
        let (text, mut changes) = (catalog.to_text(Kind::Database), Vec::new());
        catalog.enter(TableId(2), schema("second"));
        changes.push((catalog.change_text(TableChange::Enter(TableId(2))), catalog.clone()));
        catalog.set_backups(TableId(2), Backups { count: 1, on_disk: true });
        changes.push((catalog.change_text(TableChange::Enter(TableId(2))), catalog.clone()));
        catalog.drop_table(TableId(1));
        changes.push((catalog.change_text(TableChange::Drop(TableId(1))), catalog.clone()));
        let after = |(text, after): (String, Catalog)| (text, after.to_text(Kind::Database));
        (text, changes.into_iter().map(after).collect())
    }

    #[test]
    fn changes_that_were_appended_are_read_and_one_that_was_cut_short_is_not() {
        let (whole, changes) = texts();
        let (mut file, mut before) = (whole.clone(), whole.clone());
        for (change, after) in &changes {
            let framed = framed(change);
            for cut in 0..framed.len() {
                let text = format!("{file}{}", &framed[..cut]);
                let read = read(&text).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
                assert_eq!(read.to_text(Kind::Database), before, "cut at {cut}");
            }
            file += &framed;
            assert_eq!(read(&file).expect("it is whole").to_text(Kind::Database), *after);
            before.clone_from(after);
        }
        for (right, wrong) in [("second", "sexond"), ("# change of 1", "# change of x")] {
            let damaged = file.replacen(right, wrong, 1);
            let refused = read(&damaged).err();
            assert_eq!(refused.as_deref(), Some("a change in it is damaged"), "{wrong}");
        }
        let frames: Vec<Vec<u8>> = std::iter::once(whole.into_bytes())
            .chain(changes.iter().map(|(change, _)| change.clone().into_bytes()))
            .collect();
        let read = read_frames(&frames).expect("they are whole").expect("there are frames");
        assert_eq!(read.to_text(Kind::Database), before);
        assert_eq!(sites_of_frame(&frames[3]), Ok(vec![SiteId(1), SiteId(2)]));
    }
}
