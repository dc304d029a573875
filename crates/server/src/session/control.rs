//! Transaction blocks and savepoints.

use super::{Savepoint, Session};
use crate::backend::Backend;
use crate::tally::RolledBack;
use crate::wire::Out;
use isomer_cluster::open::{reach_of, sites_read};
use isomer_design::{Key, SiteId, TableId};
use isomer_sql::catalog::{Catalog, Handle};
use isomer_sql::statement::{Control, Modes};
use isomer_sql::{SqlError, code};
use isomer_strategy::Place;

/// Rows of a transaction that are looked at for where they are.
const SPREAD_ROWS_MAX: usize = 256;

impl Session {
    pub(super) fn control(
        &mut self,
        control: &Control,
        out: &mut Out,
    ) -> Result<&'static str, SqlError> {
        match control {
            Control::Begin(modes) => {
                if self.in_block {
                    let message = "there is already a transaction in progress";
                    out.notice("WARNING", &SqlError::new(code::ACTIVE_TRANSACTION, message));
                    if modes.level.is_some() {
                        self.change_modes(*modes)?;
                    }
                } else {
                    if self.txn.is_none() {
                        self.begin(*modes);
                    }
                    self.modes = *modes;
                    self.in_block = true;
                }
                Ok("BEGIN")
            }
            Control::Commit => self.end_block(true, out),
            Control::Rollback => self.end_block(false, out),
            Control::Chain(commits) => {
                self.needs_block(match commits {
                    true => "COMMIT AND CHAIN",
                    false => "ROLLBACK AND CHAIN",
                })?;
                let own = self.txn.as_ref();
                let modes = own.map_or(self.modes, |own| Modes {
                    level: Some(own.level()),
                    read_only: Some(own.read_only),
                });
                let tag = self.end_block(*commits, out)?;
                self.begin(modes);
                (self.modes, self.in_block) = (modes, true);
                Ok(tag)
            }
            Control::Savepoint(name) => {
                self.needs_block("SAVEPOINT")?;
                let (mark, settings) = (self.backend().savepoint(), self.settings_mark());
                self.savepoints.push(Savepoint { name: name.clone(), mark, settings });
                Ok("SAVEPOINT")
            }
            Control::Release(name) => {
                self.needs_block("RELEASE SAVEPOINT")?;
                let at = self.savepoint(name)?;
                self.savepoints.truncate(at);
                self.release_cursors(at);
                Ok("RELEASE")
            }
            Control::RollbackTo(name) => {
                self.needs_block("ROLLBACK TO SAVEPOINT")?;
                let at = self.savepoint(name)?;
                let Savepoint { mark, settings, .. } = &self.savepoints[at];
                let (mark, settings) = (mark.clone(), settings.clone());
                self.savepoints.truncate(at + 1);
                self.cursors_back_to(at);
                self.backend().back_to(&mark);
                self.settings_back_to(settings, out);
                self.failed = false;
                Ok("ROLLBACK")
            }
            Control::Constraints(statement) => {
                if self.in_block {
                    self.begin_statement()?;
                    let around = self.surroundings();
                    self.backend().set_constraints(statement, &around)?;
                } else {
                    let message = "SET CONSTRAINTS can only be used in transaction blocks";
                    out.notice("WARNING", &SqlError::new(code::NO_ACTIVE_TRANSACTION, message));
                }
                Ok("SET CONSTRAINTS")
            }
            Control::Snapshot(name) => {
                read_from_snapshot(self, name, out)?;
                Ok("SET")
            }
            Control::Set(modes, for_session) => {
                if *for_session {
                    let settings = std::sync::Arc::make_mut(&mut self.settings);
                    settings.level = modes.level.unwrap_or(settings.level);
                    settings.read_only = modes.read_only.unwrap_or(settings.read_only);
                } else if self.in_block {
                    self.change_modes(*modes)?;
                } else {
                    let message = "SET TRANSACTION can only be used in transaction blocks";
                    out.notice("WARNING", &SqlError::new(code::NO_ACTIVE_TRANSACTION, message));
                }
                Ok("SET")
            }
        }
    }

    /// Restarts a block without statements in other modes.
    fn change_modes(&mut self, modes: Modes) -> Result<(), SqlError> {
        let has_savepoints = !self.savepoints.is_empty();
        let old = self.backend();
        let now = Modes { level: Some(old.level()), read_only: Some(old.read_only) };
        let wanted = Modes {
            level: modes.level.or(now.level),
            read_only: modes.read_only.or(now.read_only),
        };
        if wanted == now {
            return Ok(());
        }
        if old.is_used || has_savepoints {
            let message = "SET TRANSACTION must be called before any query";
            return Err(SqlError::new(code::ACTIVE_TRANSACTION, message));
        }
        self.modes = wanted;
        self.begin(wanted);
        Ok(())
    }

    pub(super) fn needs_block(&self, what: &str) -> Result<(), SqlError> {
        if self.in_block {
            return Ok(());
        }
        let message = format!("{what} can only be used in transaction blocks");
        Err(SqlError::new(code::NO_ACTIVE_TRANSACTION, message))
    }

    fn savepoint(&self, name: &str) -> Result<usize, SqlError> {
        self.savepoints.iter().rposition(|other| other.name == name).ok_or_else(|| {
            SqlError::new(code::NO_SAVEPOINT, format!("savepoint \"{name}\" does not exist"))
        })
    }

    /// Users are not transactional. Commits earlier work first; a block continues with a new
    /// transaction, and its client gets a notice.
    pub(super) fn commit_before_user(&mut self, out: &mut Out) -> Result<(), SqlError> {
        if !self.in_block {
            return self.end_implicit();
        }
        self.savepoints.clear();
        if let Some(before) = self.txn.take() {
            let wrote = !before.txn.is_read_only();
            self.commit(before)?;
            if wrote {
                let message = "a statement about users takes effect at once, and has committed what \
                               the block did before";
                out.notice("WARNING", &SqlError::new(code::ACTIVE_TRANSACTION, message));
            }
        }
        Ok(())
    }

    /// Commits, and remembers the sites of the commit.
    pub(super) fn commit(&mut self, backend: Backend) -> Result<(), SqlError> {
        self.commit_as(backend, self.settings.is_asynchronous())
    }

    fn commit_as(&mut self, mut backend: Backend, is_asynchronous: bool) -> Result<(), SqlError> {
        backend.check_deferred(&self.surroundings())?;
        let shapes = std::mem::take(&mut self.shapes);
        let now = self.engine.database().now();
        let spread = match shapes.iter().any(|shape| shape.wants_rows(now)) {
            true => spread(&self.engine.catalog(), &backend),
            false => None,
        };
        self.sites_read = match self.settings.slow_ms {
            Some(_) => sites_read(&backend.txn),
            None => Vec::new(),
        };
        let reached = reach_of(&backend.txn);
        shapes.iter().for_each(|shape| shape.reached(reached));
        let ran = backend.commit(is_asynchronous)?;
        if let Some(ran) = ran {
            self.last_commit = Some(ran);
            self.route = Some(ran.place);
            shapes.iter().for_each(|shape| shape.committed(ran.place));
            if let (Place::Distributed { .. }, Some(rows)) = (ran.place, &spread) {
                shapes.iter().for_each(|shape| shape.spread(rows, now));
            }
        }
        Ok(())
    }

    fn end_block(&mut self, commits: bool, out: &mut Out) -> Result<&'static str, SqlError> {
        if !self.in_block {
            let message = "there is no transaction in progress";
            out.notice("WARNING", &SqlError::new(code::NO_ACTIVE_TRANSACTION, message));
        }
        let failed = std::mem::replace(&mut self.failed, false);
        self.in_block = false;
        self.modes = Modes::default();
        // The setting within the block, if the block has changed it.
        let is_asynchronous = self.settings.is_asynchronous();
        self.end_settings(commits && !failed, out);
        self.savepoints.clear();
        self.transaction_until = None;
        self.portals.retain(|name, _| name.is_empty());
        let txn = self.txn.take();
        if !commits || failed {
            let why = if failed { RolledBack::Failed } else { RolledBack::Asked };
            txn.into_iter().for_each(|backend| backend.end(why));
            self.end_cursors(false);
            return Ok("ROLLBACK");
        }
        let committed = txn.map_or(Ok(()), |backend| self.commit_as(backend, is_asynchronous));
        self.end_cursors(committed.is_ok());
        committed.map(|()| "COMMIT")
    }
}

/// The first row that a transaction has written at each site, in words; none if all are at one.
fn spread(catalog: &Catalog, backend: &Backend) -> Option<String> {
    let rows = isomer_cluster::open::spread(&backend.txn, SPREAD_ROWS_MAX);
    let shown = |(id, key, site): &(TableId, Key, SiteId)| {
        let (name, table) =
            (catalog.relation(*id)?, catalog.tables.with(Handle::Part(*id)).next()?);
        let (_, schema) = table.parts().find(|(part, _)| part == id)?;
        Some(format!("{}[{}] at {site}", name.label(), schema.format_key(key)))
    };
    let shown: Vec<String> = rows.iter().filter_map(shown).collect();
    (shown.len() > 1).then(|| shown.join(", "))
}

/// SET TRANSACTION SNAPSHOT: a block without statements reads from the snapshot of another
/// transaction.
fn read_from_snapshot(session: &mut Session, name: &str, out: &mut Out) -> Result<(), SqlError> {
    let is_first = session.savepoints.is_empty();
    if !session.in_block {
        let message = "SET TRANSACTION can only be used in transaction blocks";
        out.notice("WARNING", &SqlError::new(code::NO_ACTIVE_TRANSACTION, message));
    }
    let backend = session.backend();
    if backend.is_used || !is_first {
        let message = "SET TRANSACTION SNAPSHOT must be called before any query";
        return Err(SqlError::new(code::ACTIVE_TRANSACTION, message));
    }
    backend.read_from(name)
}
