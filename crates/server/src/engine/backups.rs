//! Backups of tables: of their rows, their indexes, and the definitions of all tables.
//!
//! A table that is to survive the loss of a site needs its definition too. So the catalog's tables
//! have at least as many backups as any other table. They have one backup in any case in a cluster
//! where another process can take the place of the one that serves.

use super::Engine;
use crate::backend::database;
use isomer_design::{Backups, TableId};
use isomer_sql::SqlError;
use isomer_sql::catalog::Table;

/// The prefix of the store tables that hold definitions.
const SYSTEM: &str = "isomer_";

impl Engine {
    /// Sets the number of backups of a table.
    pub(crate) fn set_backups(&self, table: &Table, backups: Backups) -> Result<(), SqlError> {
        let mut wanted = self.database().design();
        wanted.set_backups(table.id, backups).map_err(|invalid| {
            let mut error = database(Box::new(invalid).into());
            error.message = self.with_name(&wanted, table.id, error.message);
            error
        })?;
        // Definitions first, because rows are useless without them.
        back_definitions(self, backups)?;
        for (id, _) in table.parts() {
            self.database().set_backups(id, backups).map_err(database)?;
        }
        back_definitions(self, Backups::NONE)
    }

    /// A notice for a table whose backups share processes with their masters or with each other.
    pub(crate) fn backups_together(&self, table: &Table) -> Option<SqlError> {
        let mut parts = table.parts();
        parts.any(|(id, _)| self.database().has_backups_together(id)).then(|| {
            let name = &table.name;
            let message = format!("some backups of table \"{name}\" share a process with their master or with each other");
            SqlError::new("00000", message)
                .detail("Too few other processes have room for them. They are moved when one has.")
        })
    }

    /// Gives a store table the number of backups of another.
    pub(crate) fn inherit_backups(&self, from: TableId, to: TableId) -> Result<(), SqlError> {
        match self.backups_of(from) {
            Backups::NONE => Ok(()),
            backups => self.database().set_backups(to, backups).map_err(database),
        }
    }

    /// The number of backups of a store table.
    pub(crate) fn backups_of(&self, table: TableId) -> Backups {
        self.database().design().table(table).map_or(Backups::NONE, |table| table.backups())
    }

    /// Gives the catalog's tables at least as many backups from now on, whatever other tables ask
    /// for, so that another process can serve the database if this one fails.
    ///
    /// # Errors
    /// If a site refuses; the tables have fewer backups then.
    pub fn keep_definitions(&self, least: Backups) -> Result<(), SqlError> {
        let _ = self.least_backups.set(least);
        back_definitions(self, Backups::NONE)
    }
}

/// Gives the catalog's tables the highest number of backups of any table, at least `at_least`.
fn back_definitions(engine: &Engine, at_least: Backups) -> Result<(), SqlError> {
    let design = engine.database().design();
    let (system, tables): (Vec<_>, Vec<_>) =
        design.tables().partition(|(_, table)| table.name().starts_with(SYSTEM));
    let least = engine.least_backups.get().copied();
    let all = tables.iter().map(|(_, table)| table.backups()).chain([at_least]).chain(least);
    let most = all.fold(Backups::NONE, |most, backups| Backups {
        count: most.count.max(backups.count),
        on_disk: most.on_disk || backups.on_disk,
    });
    for (id, _) in system.iter().filter(|(_, table)| table.backups() != most) {
        engine.database().set_backups(*id, most).map_err(database)?;
    }
    Ok(())
}
