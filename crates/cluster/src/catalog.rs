//! The catalog: which sites and tables a database has. Where partitions are stands in the sites' logs.
//!
//! It is text in the form of a design in which every table is one partition at the first site. The first line has the
//! number of its format: a newer program reads older ones (1 had no number), and writes its own with the next change; a
//! number that it does not know is refused by name.

use isomer_design::{Backups, Design, Placement, Schema, SiteId, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The format of the catalog that is written here, and the newest that is read.
const FORMAT: u32 = 2;
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
    pub(crate) tables: Vec<(TableId, Arc<Schema>)>,
    /// Of the tables that ask for some.
    pub(crate) backups: BTreeMap<TableId, Backups>,
}

impl Catalog {
    /// Sites, and no tables.
    pub(crate) fn of(sites: Vec<SiteId>) -> Catalog {
        Catalog { sites, tables: Vec::new(), backups: BTreeMap::new() }
    }

    /// What a text says, as [`read`] has understood it.
    pub(crate) fn from_design(design: &Design) -> Catalog {
        let tables = design.tables().map(|(id, table)| (id, table.schema().clone())).collect();
        let backed = design.tables().filter(|(_, table)| table.backups() != Backups::NONE);
        let backups = backed.map(|(id, table)| (id, table.backups())).collect();
        Catalog { sites: design.sites().iter().collect(), tables, backups }
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

    fn to_design(&self) -> Design {
        let mut design = Design::new(self.sites.iter().copied()).expect("sites were valid before");
        for (id, schema) in &self.tables {
            let everything = [(isomer_design::Key::min(), Placement::at(self.sites[0]))];
            design.create_table(*id, schema.clone(), everything).expect("tables were valid before");
            // There may be fewer sites by now: then a table asks for more than there can be.
            let others = self.sites.len().saturating_sub(1).min(usize::from(u8::MAX)) as u8;
            let backups = self.backups(*id);
            let backups = Backups { count: backups.count.min(others), ..backups };
            design.set_backups(*id, backups).expect("there are as many sites");
        }
        design
    }
}

/// Reads the text of a catalog.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn read(text: &str) -> Result<Design, String> {
    check_format(text)?;
    Design::parse(text).map_err(|error| error.to_string())
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
