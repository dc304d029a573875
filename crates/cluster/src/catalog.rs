//! The catalog is the conductor's log: the sites and tables of a database, and the number of
//! backups of each table. The sites' logs have the placement of partitions.
//!
//! It is text: a design in which every table is one partition at the first site, followed by the
//! changes since. So a definition costs the text of one table and not of all:
//!
//! ```text
//!   # An Isomer database, format 6: ..       the whole catalog: replaced as a whole
//!   sites s1 s2
//!   table accounts t1 ..
//!   # change of 94 bytes, 5d0c8a11           the length of a change, and its CRC-32
//!   # enter t2                               a table is new, or has other backups or pins
//!   sites s1 s2
//!   table orders t2 ..
//!   # change of 22 bytes, 0f31c2aa
//!   # drop t1
//!   sites s1 s2
//! ```
//!
//! In a log that other processes can take, the second line of the whole catalog is `# term 8,
//! lost: s3`: the term of the conductor, which each process that takes the log counts up, and the
//! sites in whose place others act. A change of these has the same line instead of `# enter`.
//!
//! In a file, changes are appended; in a log, each is a frame. An incomplete change at the end of a
//! file was never acknowledged, and is ignored. Every change names the sites, so the last frame of
//! a log suffices to find them. The whole catalog is written again by the first change of a
//! process, and when the changes have become longer than it.
//!
//! The first line has the number of the format. A newer program reads older formats (1 had no
//! number, 2 no changes, 3 no pins, 4 no terms, 5 no ordered tables, 6 no [processes that have
//! joined](crate::joined)), and writes its own with the next change. An unknown number is refused
//! with a message.

use isomer_design::{Backups, Design, Key, Placement, SiteId, SiteSet, TableDesign, TableId};
use serde::{Deserialize, Serialize};

/// The format of the catalog that is written here, and the newest that is read.
const FORMAT: u32 = 7;
/// The beginning of the line before a change in a file.
const CHANGE: &str = "# change of ";
/// The beginnings of a change; the number of a table follows.
const ENTER: &str = "# enter ";
const DROP: &str = "# drop ";
/// The size in bytes up to which changes do not cause a rewrite of the whole catalog.
const CHANGES_BYTES_MIN: u64 = 64 << 10;
/// The first line of a catalog, before the number of its format.
const TITLE: &str = "# An Isomer database, format ";

/// The beginning of the line with the conductor's term and the lost sites.
const TERM: &str = "# term ";

/// The first line of a [node](crate::Node)'s catalog, which has no tables. Opened as a database's
/// catalog, it would make the sites forget their tables.
const NODE_TITLE: &str = "# Sites of an Isomer node, format ";

/// The kind of process that a catalog belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A database's, that is, of the process with the router.
    Database,
    /// A node's, that is, of a process that hosts sites of a database.
    Node,
}

impl Kind {
    /// The kind in words.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Database => "a database",
            Kind::Node => "a node",
        }
    }

    /// The kind of a catalog with this text.
    pub(crate) fn of(text: &str) -> Kind {
        if text.starts_with(NODE_TITLE) { Kind::Node } else { Kind::Database }
    }
}

/// The consequence if a table cannot have all its backups now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Missing {
    /// The number of backups is refused, and also while any site cannot be reached.
    Refused,
    /// They are added once there is a site for them. Sites that are down learn the number when they
    /// are readmitted.
    Added,
}

/// A part of the design that the catalog keeps, and that has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Definition {
    /// A table is new, has another number of backups, or has other pins.
    Table(TableId),
    /// A table was dropped.
    Dropped(TableId),
    /// A site was added or removed.
    Sites,
}

/// The bytes of the whole catalog, and of the changes since.
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

    /// True if the next change should rewrite the whole catalog.
    pub(crate) fn is_long(&self) -> bool {
        self.changes > self.whole.max(CHANGES_BYTES_MIN)
    }
}

/// The text of a whole catalog for a design.
pub(crate) fn whole(design: &Design, kind: Kind) -> String {
    let tables = design.tables().map(|(id, _)| id);
    let text = reduced(design, tables).to_text();
    match kind {
        Kind::Database => format!(
            "{TITLE}{FORMAT}: its sites and tables. Where partitions are stands in the sites' logs.\n{text}"
        ),
        Kind::Node => format!(
            "{NODE_TITLE}{FORMAT}: its sites. Their tables are in the catalog of the database.\n{text}"
        ),
    }
}

/// The conductor's part of a catalog that other processes can take.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Succession {
    /// Each process that takes the catalog begins the next term.
    pub(crate) term: u64,
    /// The sites in whose place others act.
    pub(crate) lost: SiteSet,
}

impl Succession {
    /// Reads it from the frames of a catalog's log; nothing if they have none.
    pub(crate) fn read(frames: &[Vec<u8>]) -> Succession {
        let texts = frames.iter().filter_map(|frame| std::str::from_utf8(frame).ok());
        let lines = texts.flat_map(|text| text.lines().find_map(|line| line.strip_prefix(TERM)));
        lines.last().map_or_else(Succession::default, Succession::parse)
    }

    fn parse(line: &str) -> Succession {
        let mut words = line.split_whitespace();
        let term = words.next().map(|term| term.trim_end_matches(','));
        let term = term.and_then(|term| term.parse().ok()).unwrap_or(0);
        let site = |word: &str| word.strip_prefix('s')?.parse().ok().map(SiteId);
        Succession { term, lost: words.filter_map(site).collect() }
    }

    fn line(&self) -> String {
        let lost: Vec<String> = self.lost.iter().map(|site| site.to_string()).collect();
        match lost.is_empty() {
            true => format!("{TERM}{}", self.term),
            false => format!("{TERM}{}, lost: {}", self.term, lost.join(" ")),
        }
    }

    /// The text of the whole catalog.
    pub(crate) fn whole(&self, design: &Design) -> String {
        let text = whole(design, Kind::Database);
        let (title, rest) = text.split_once('\n').expect("a catalog has a title");
        format!("{title}\n{}\n{rest}", self.line())
    }

    /// The text of a change of this part.
    pub(crate) fn change(&self, design: &Design) -> String {
        format!("{}\n{}", self.line(), reduced(design, []).to_text())
    }
}

/// The text of a change; `after` is the design with it. `None` if the whole catalog must be
/// written.
pub(crate) fn change(after: &Design, definition: Definition) -> Option<String> {
    match definition {
        Definition::Table(table) => {
            Some(format!("{ENTER}{table}\n{}", reduced(after, [table]).to_text()))
        }
        Definition::Dropped(table) => {
            Some(format!("{DROP}{table}\n{}", reduced(after, []).to_text()))
        }
        Definition::Sites => None,
    }
}

/// The part of a design that a catalog keeps: some tables, each as one partition at the first site.
fn reduced(design: &Design, tables: impl IntoIterator<Item = TableId>) -> Design {
    let mut kept = Design::new(design.sites().iter()).expect("sites were valid before");
    for id in tables {
        let table = design.table(id).expect("a table that is written is there");
        enter(&mut kept, id, table);
    }
    kept
}

/// Adds a table as one partition, in place of the one of this number. If there are fewer sites than
/// its number of backups needs, it gets the highest number that is possible.
fn enter(kept: &mut Design, id: TableId, table: &TableDesign) {
    // There is none if the table is new.
    let _ = kept.drop_table(id);
    let first = kept.sites().first().expect("a design has a site");
    let everything = [(Key::min(), Placement::at(first))];
    kept.create_table(id, table.schema().clone(), everything).expect("tables were valid before");
    let others = kept.sites().len().saturating_sub(1).min(usize::from(u8::MAX)) as u8;
    let backups = table.backups();
    let backups = Backups { count: backups.count.min(others), ..backups };
    kept.set_backups(id, backups).expect("there are as many sites");
    kept.set_pins(id, table.pins().clone()).expect("it was just created");
    kept.set_ordered(id, table.is_ordered()).expect("it was just created");
}

/// Applies a change that was [written](change).
fn take_in(catalog: &mut Design, text: &str) -> Result<(), String> {
    let after = Design::parse(text).map_err(|invalid| invalid.to_string())?;
    let first = text.lines().next().unwrap_or_default();
    if let Some(table) = first.strip_prefix(DROP) {
        let number = table.strip_prefix('t').and_then(|number| number.parse().ok());
        let number = number.ok_or_else(|| format!("there is no table {table}"))?;
        // A table may have been created and dropped since the whole was written.
        let _ = catalog.drop_table(TableId(number));
    }
    if after.sites() != catalog.sites() {
        let (before, sites) = (catalog.clone(), after.sites().iter());
        *catalog = Design::new(sites).map_err(|invalid| invalid.to_string())?;
        before.tables().for_each(|(id, table)| enter(catalog, id, table));
    }
    after.tables().for_each(|(id, table)| enter(catalog, id, table));
    Ok(())
}

/// Reads the text of a catalog, with the changes that were appended to it.
///
/// # Errors
/// A message, if it is damaged.
pub(crate) fn read(text: &str) -> Result<Design, String> {
    check_format(text)?;
    let line = format!("\n{CHANGE}");
    let end = text.find(&line).map_or(text.len(), |at| at + 1);
    let (whole, mut changes) = text.split_at(end);
    let mut catalog = Design::parse(whole).map_err(|invalid| invalid.to_string())?;
    while !changes.is_empty() {
        match next_change(changes) {
            Some((change, true, rest)) => {
                take_in(&mut catalog, change)?;
                changes = rest;
            }
            // The process ended while it appended this change.
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
/// A message, if they are damaged.
pub(crate) fn read_frames(frames: &[Vec<u8>]) -> Result<Option<Design>, String> {
    let mut catalog: Option<Design> = None;
    for frame in frames {
        let text = std::str::from_utf8(frame).map_err(|error| error.to_string())?;
        match &mut catalog {
            Some(catalog) if is_change(text) => take_in(catalog, text)?,
            // A log is cut by whole segments, so it may begin with changes before the first whole
            // catalog.
            None if is_change(text) => {}
            _ => catalog = Some(read(text)?),
        }
    }
    Ok(catalog)
}

/// The sites that the last frame of a catalog's log names.
///
/// # Errors
/// A message, if it is damaged.
pub(crate) fn sites_of_frame(frame: &[u8]) -> Result<Vec<SiteId>, String> {
    let text = std::str::from_utf8(frame).map_err(|error| error.to_string())?;
    let design = match is_change(text) {
        true => Design::parse(text).map_err(|invalid| invalid.to_string())?,
        false => read(text)?,
    };
    Ok(design.sites().iter().collect())
}

fn is_change(text: &str) -> bool {
    text.starts_with(ENTER) || text.starts_with(DROP) || text.starts_with(TERM)
}

/// A change as it is appended to a file.
pub(crate) fn framed(change: &str) -> String {
    format!("{CHANGE}{} bytes, {:08x}\n{change}", change.len(), crc32fast::hash(change.as_bytes()))
}

/// The next appended change, whether it is complete, and the text after it. `None` if the line with
/// its length is incomplete.
fn next_change(text: &str) -> Option<(&str, bool, &str)> {
    let (line, rest) = text.split_once('\n')?;
    let (bytes, sum) = line.strip_prefix(CHANGE)?.split_once(" bytes, ")?;
    let (bytes, sum): (usize, u32) = (bytes.parse().ok()?, u32::from_str_radix(sum, 16).ok()?);
    let Some((change, rest)) = rest.split_at_checked(bytes) else { return Some((rest, false, "")) };
    Some((change, crc32fast::hash(change.as_bytes()) == sum, rest))
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
    use isomer_design::{Column, ColumnType, Schema};
    use std::sync::Arc;

    fn schema(name: &str) -> Arc<Schema> {
        let columns = vec![Column::new("id", ColumnType::Int64)];
        Arc::new(Schema::new(name, columns, &["id"]).expect("a schema"))
    }

    /// A catalog's text, and each of some changes with the text after it.
    fn texts() -> (String, Vec<(String, String)>) {
        let mut design = Design::new([SiteId(1), SiteId(2)]).expect("two sites");
        let at_second = || [(Key::min(), Placement::at(SiteId(2)))];
        let [first, second] = [TableId(1), TableId(2)];
        design.create_table(first, schema("first"), at_second()).expect("a table");
        let (text, mut changes) = (whole(&design, Kind::Database), Vec::new());
        let mut written = |design: &Design, definition| {
            let change = change(design, definition).expect("it is of a table");
            changes.push((change, whole(design, Kind::Database)));
        };
        design.create_table(second, schema("second"), at_second()).expect("a table");
        written(&design, Definition::Table(second));
        design.set_backups(second, Backups { count: 1, on_disk: true }).expect("two sites");
        written(&design, Definition::Table(second));
        design.drop_table(first).expect("it is there");
        written(&design, Definition::Dropped(first));
        (text, changes)
    }

    #[test]
    fn changes_that_were_appended_are_read_and_one_that_was_cut_short_is_not() {
        let (text, changes) = texts();
        let (mut file, mut before) = (text.clone(), text.clone());
        for (change, after) in &changes {
            let framed = framed(change);
            for cut in 0..framed.len() {
                let text = format!("{file}{}", &framed[..cut]);
                let read = read(&text).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
                assert_eq!(whole(&read, Kind::Database), before, "cut at {cut}");
            }
            file += &framed;
            let read = read(&file).expect("it is whole");
            assert_eq!(whole(&read, Kind::Database), *after);
            before.clone_from(after);
        }
        for (right, wrong) in [("second", "sexond"), ("# change of 1", "# change of x")] {
            let damaged = file.replacen(right, wrong, 1);
            let refused = read(&damaged).err();
            assert_eq!(refused.as_deref(), Some("a change in it is damaged"), "{wrong}");
        }
        let frames: Vec<Vec<u8>> = std::iter::once(text.into_bytes())
            .chain(changes.iter().map(|(change, _)| change.clone().into_bytes()))
            .collect();
        let read = read_frames(&frames).expect("they are whole").expect("there are frames");
        assert_eq!(whole(&read, Kind::Database), before);
        assert_eq!(sites_of_frame(&frames[3]), Ok(vec![SiteId(1), SiteId(2)]));
    }

    #[test]
    fn the_last_line_with_the_term_and_the_lost_sites_counts() {
        let design = Design::new([1, 2, 3].map(SiteId)).expect("three sites");
        let first = Succession { term: 7, lost: SiteSet::EMPTY };
        let then = Succession { term: 8, lost: [SiteId(1), SiteId(3)].into_iter().collect() };
        let mut frames = vec![whole(&design, Kind::Database).into_bytes()];
        assert_eq!(Succession::read(&frames), Succession::default());
        frames.push(first.whole(&design).into_bytes());
        frames.push(change(&design, Definition::Dropped(TableId(4))).expect("text").into_bytes());
        assert_eq!(Succession::read(&frames), first);
        frames.push(then.change(&design).into_bytes());
        assert_eq!(Succession::read(&frames), then);
        // To a reader of tables, the line is nothing.
        let read = read_frames(&frames).expect("they are whole").expect("there are frames");
        assert_eq!(whole(&read, Kind::Database), whole(&design, Kind::Database));
        assert_eq!(sites_of_frame(&frames[3]).map(|sites| sites.len()), Ok(3));
    }
}
