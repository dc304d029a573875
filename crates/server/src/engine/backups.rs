//! Backups of tables: of their rows, their indexes, and the definitions of all tables.
//!
//! A table that is to survive the loss of a site needs its definition too. So the catalog's tables
//! have at least as many backups as any other table. They have one backup in any case in a cluster
//! where another process can take the place of the one that serves.
//!
//! **The default.** A new table without a number of its own gets one backup in a cluster of several
//! processes, and none elsewhere, unless `ALTER SYSTEM SET default_backups` says otherwise. It is
//! created while processes are down as well: their backups are added later. Temporary tables have
//! none.

use super::{Engine, damaged};
use crate::backend::{database, explain};
use crate::plan_names::with_name;
use crate::steering::SYSTEM;
use isomer_cluster::{CancelToken, Error, Failure, Missing, is_spread};
use isomer_design::{Backups, TableId};
use isomer_sql::catalog::Table;
use isomer_sql::{SqlError, code};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

/// The setting with the number of backups of new tables.
const DEFAULT: &str = "default_backups";
/// A process that is not reached is declared dead, or is reached again, within this number of looks
/// at this interval; unless failover is off.
const LOOKS: u32 = 100;
const LOOK: Duration = Duration::from_millis(100);

/// The number of backups of new tables, if an operator has set it, plus one; else 0.
#[derive(Default)]
pub(super) struct DefaultBackups(AtomicU16);

/// The number of backups that a new table gets unless it says otherwise.
pub(crate) fn default_backups(engine: &Engine) -> Backups {
    let count = match engine.default_backups.0.load(Ordering::SeqCst) {
        0 => u8::from(is_spread(engine.database())),
        set => (set - 1) as u8,
    };
    Backups { count, on_disk: count > 0 }
}

/// Reads the stored default.
pub(super) fn read_default(engine: &Engine) -> Result<(), SqlError> {
    let kept = engine.kept(DEFAULT)?;
    let set = kept.map_or(Ok(None), |count| parse_default(&count).map_err(damaged))?;
    set_default(engine, set);
    Ok(())
}

fn set_default(engine: &Engine, count: Option<u8>) {
    engine.default_backups.0.store(count.map_or(0, |count| u16::from(count) + 1), Ordering::SeqCst);
}

/// Parses the number of backups of new tables; `None` means one in a cluster, else none.
fn parse_default(text: &str) -> Result<Option<u8>, String> {
    match text.trim() {
        text if text.eq_ignore_ascii_case("default") => Ok(None),
        text => text.parse().map(Some).map_err(|_| {
            "It is a number from 0 to 255, or default: one in a cluster of several processes."
                .to_owned()
        }),
    }
}

/// Sets the number of backups of new tables, also for later starts of the server.
///
/// # Errors
/// 22023 if it is no number; errors of the database.
pub(crate) fn set_default_backups(engine: &Engine, text: &str) -> Result<(), SqlError> {
    let set = parse_default(text).map_err(|right| {
        let message = format!("invalid value for parameter \"{DEFAULT}\": \"{text}\"");
        SqlError::new(code::INVALID_PARAMETER, message).hint(right)
    })?;
    let others = engine.database().design().sites().len().saturating_sub(1);
    if let Some(count) = set.filter(|count| usize::from(*count) > others) {
        let message = format!("invalid value for parameter \"{DEFAULT}\": \"{count}\"");
        let error = SqlError::new(code::INVALID_PARAMETER, message);
        return Err(error.hint(format!("There are {others} other sites for them.")));
    }
    let kept = set.map_or_else(|| "default".to_owned(), |count| count.to_string());
    engine.keep(DEFAULT, kept)?;
    set_default(engine, set);
    Ok(())
}

/// Gives a new table the default number of backups. Backups that have no place now are added later.
///
/// # Errors
/// 57P03 if it stays unknown whether a process is down; errors of the database.
pub(crate) fn give_default_backups(
    engine: &Engine,
    table: &Table,
    cancel: &CancelToken,
) -> Result<(), SqlError> {
    let backups = default_backups(engine);
    if backups == Backups::NONE {
        return Ok(());
    }
    let give = || -> Result<(), Error> {
        back_definitions(engine, backups, Missing::Added)?;
        for (id, _) in table.parts() {
            engine.database().give_backups(id, backups, Missing::Added)?;
        }
        Ok(())
    };
    for _ in 0..LOOKS {
        match give() {
            Err(Error::Failure(Failure::Unreachable { .. })) => {
                engine.gateway().pause(cancel, LOOK).map_err(explain)?;
            }
            given => return given.map_err(database),
        }
    }
    give().map_err(database)
}

impl Engine {
    /// Sets the number of backups of a table.
    pub(crate) fn set_backups(&self, table: &Table, backups: Backups) -> Result<(), SqlError> {
        let mut wanted = self.database().design();
        wanted.set_backups(table.id, backups).map_err(|invalid| {
            let mut error = database(Box::new(invalid).into());
            error.message = with_name(self.relation(table.id), &wanted, table.id, error.message);
            error
        })?;
        // Definitions first, because rows are useless without them.
        back_definitions(self, backups, Missing::Refused).map_err(database)?;
        for (id, _) in table.parts() {
            self.database().set_backups(id, backups).map_err(database)?;
        }
        back_definitions(self, Backups::NONE, Missing::Added).map_err(database)
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

    /// Gives a new store table the number of backups of another.
    pub(crate) fn inherit_backups(&self, from: TableId, to: TableId) -> Result<(), SqlError> {
        match self.backups_of(from) {
            Backups::NONE => Ok(()),
            backups => {
                let given = self.database().give_backups(to, backups, Missing::Added);
                given.map_err(database)
            }
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
        back_definitions(self, Backups::NONE, Missing::Added).map_err(database)
    }
}

/// Gives the catalog's tables the highest number of backups of any table, at least `at_least`.
fn back_definitions(engine: &Engine, at_least: Backups, missing: Missing) -> Result<(), Error> {
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
        engine.database().give_backups(*id, most, missing)?;
    }
    Ok(())
}
