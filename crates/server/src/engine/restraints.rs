//! Restraints of strategies as they are stored: settings of the database.
//!
//! The modes of tables are one setting, by the oids of the tables. A catalog tells which store
//! tables they are about: those of the rows, indexes and layouts.

use crate::limits::read_us;
use crate::size::read_rate;
use isomer_design::TableId;
use isomer_plan::learned::Mode;
use isomer_plan::restraints::Window;
use isomer_sql::catalog::Catalog;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The names of the settings.
pub(crate) const MODES: &str = "table_modes";
pub(crate) const WINDOW: &str = "change_window";
pub(crate) const RATE: &str = "changes_per_minute";
pub(crate) const BYTES: &str = "change_bytes_per_second";
pub(crate) const ADDED_P99: &str = "change_added_p99";
/// The words for none of them.
pub(crate) const ALWAYS: &str = "always";
pub(crate) const UNLIMITED: &str = "unlimited";

/// The modes of tables, by their oids.
#[derive(Default)]
pub(crate) struct TableModes(Mutex<BTreeMap<u32, Mode>>);

impl TableModes {
    /// Sets the mode of a table; `auto` is no restriction.
    pub(crate) fn set(&self, oid: u32, mode: Mode) {
        let mut modes = self.0.lock();
        match mode {
            Mode::Auto => drop(modes.remove(&oid)),
            mode => drop(modes.insert(oid, mode)),
        }
    }

    /// The modes as they are stored.
    pub(crate) fn text(&self) -> String {
        let modes = self.0.lock();
        let words: BTreeMap<u32, &str> =
            modes.iter().map(|(oid, mode)| (*oid, mode.name())).collect();
        serde_json::to_string(&words).expect("words are text")
    }

    /// Reads modes that were stored; those in an unknown form are dropped.
    pub(super) fn read(&self, text: Option<&str>) {
        let words: BTreeMap<u32, String> =
            text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let modes = words.into_iter().filter_map(|(oid, mode)| Some((oid, mode.parse().ok()?)));
        *self.0.lock() = modes.collect();
    }

    /// Forgets the modes of tables that are not in a catalog: new tables may get their oids.
    /// False if there are none.
    pub(super) fn forget_unused(&self, catalog: &Catalog) -> bool {
        let mut modes = self.0.lock();
        let before = modes.len();
        modes.retain(|oid, _| catalog.table_of(*oid).is_some());
        modes.len() < before
    }

    /// The modes by the store tables of a catalog.
    pub(crate) fn parts(&self, catalog: &Catalog) -> BTreeMap<TableId, Mode> {
        let modes = self.0.lock();
        let of_table = |(oid, mode): (&u32, &Mode)| {
            let table = catalog.table_of(*oid)?;
            Some(table.parts().map(|(id, _)| (id, *mode)).collect::<Vec<_>>())
        };
        modes.iter().filter_map(of_table).flatten().collect()
    }
}

/// Reads a window; `None`: always.
pub(crate) fn window(text: &str) -> Result<Option<Window>, String> {
    match text {
        ALWAYS | "default" => Ok(None),
        text => text.parse().map(Some),
    }
}

/// Reads a budget; `None`: none.
pub(crate) fn rate(text: &str) -> Result<Option<u32>, String> {
    match text {
        UNLIMITED | "default" => Ok(None),
        text => {
            let wrong = |_| "It is a number of changes in each minute, or unlimited.".to_owned();
            text.parse().map(Some).map_err(wrong)
        }
    }
}

/// Reads a budget of bytes a second, such as `10MB`; `None`: none.
pub(crate) fn bytes(text: &str) -> Result<Option<u64>, String> {
    match text {
        UNLIMITED | "default" => Ok(None),
        text => {
            let right = "It is a size such as 10MB that is copied in each second, or unlimited.";
            read_rate(text).map(Some).ok_or_else(|| right.to_owned())
        }
    }
}

/// Reads a limit on the rise of the 99th percentile, such as `5ms`, in microseconds; `None`: none.
pub(crate) fn added_p99(text: &str) -> Result<Option<u64>, String> {
    let wrong = || "It is a duration such as 5ms, or unlimited.".to_owned();
    match text {
        UNLIMITED | "default" => Ok(None),
        text => read_us(text).map(Some).ok_or_else(wrong),
    }
}
