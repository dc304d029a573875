//! A transaction of a client: an open transaction of the database, with what SQL needs besides.

use crate::engine::Engine;
use crate::limits;
use isomer_cluster::{
    Error, Expect, Isolation, LockMode, OpenError, OpenTransaction, Patience, Savepoint,
};
use isomer_design::{Direction, Key, KeyRange, TableId, Time};
use isomer_sql::budget::Holding;
use isomer_sql::catalog::Table;
use isomer_sql::transaction::{Base, LockKind, LockedRow, Transaction, Visit};
use isomer_sql::{SqlError, code};
use std::sync::Arc;
use std::time::Duration;

/// What is planned now is for whatever the catalog is.
pub(crate) const NEWEST: u64 = u64::MAX - 1;

/// A client's transaction.
pub(crate) struct Backend {
    pub(crate) txn: OpenTransaction,
    engine: Arc<Engine>,
    patience: Arc<Patience>,
    /// Tables that the transaction has written to, which nobody may drop or alter meanwhile.
    tables: Vec<TableId>,
    /// The version of the catalog that the statement at work was planned for.
    pub(crate) planned_for: u64,
    pub(crate) read_only: bool,
    /// True once a statement has run.
    pub(crate) is_used: bool,
    /// When it began: microseconds since 1970.
    pub(crate) begun_us: i64,
    /// The memory of what it has written.
    written: Holding,
}

/// What a written row takes beside its key and its bytes.
const WRITTEN_BYTES: usize = 64;

impl Backend {
    pub(crate) fn new(
        txn: OpenTransaction,
        engine: Arc<Engine>,
        patience: Arc<Patience>,
        read_only: bool,
        begun_us: i64,
        written: Holding,
    ) -> Backend {
        let (tables, is_used, planned_for) = (Vec::new(), false, NEWEST);
        Backend {
            txn,
            engine,
            patience,
            tables,
            planned_for,
            read_only,
            is_used,
            begun_us,
            written,
        }
    }

    pub(crate) fn savepoint(&mut self) -> Savepoint {
        self.txn.savepoint()
    }

    pub(crate) fn isolation(&self) -> Isolation {
        self.txn.isolation()
    }

    pub(crate) fn back_to(&mut self, savepoint: Savepoint) {
        // Whether the tables' locks are older than the savepoint is not known: they are asked for again.
        self.tables.clear();
        self.txn.back_to(savepoint);
    }

    /// Keeps others from dropping or altering a table and its indexes until the transaction ends.
    pub(crate) fn hold(&mut self, table: &Table) -> Result<(), SqlError> {
        table.parts().try_for_each(|(id, _)| self.hold_table(id))
    }

    /// Refuses to read a table whose rows were all written after what the transaction sees.
    fn check_filled(&self, table: TableId) -> Result<(), SqlError> {
        let is_late = |time: Time| self.engine.is_filled_after(time, table);
        if self.txn.fixed_time().is_some_and(is_late) {
            let message = "the table was altered after what the transaction sees";
            let hint = "Run the transaction again.";
            return Err(SqlError::new(code::SERIALIZATION, message).hint(hint));
        }
        Ok(())
    }

    fn hold_table(&mut self, table: TableId) -> Result<(), SqlError> {
        if self.tables.contains(&table) {
            return Ok(());
        }
        self.txn.lock(table, &Key::min(), LockMode::Shared, true).map_err(explain)?;
        if self.engine.is_stale(table, self.planned_for) {
            let message = "the table was dropped or altered while the statement waited";
            return Err(SqlError::new(code::SERIALIZATION, message).hint("Run it again."));
        }
        self.tables.push(table);
        Ok(())
    }
}

impl Transaction for Backend {
    fn reads_one_row(&mut self) {
        self.txn.reads_one_row();
    }

    fn get(
        &mut self,
        table: TableId,
        key: &Key,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, SqlError> {
        self.check_filled(table)?;
        self.txn.get(table, key, visit).map_err(explain)
    }

    fn scan(
        &mut self,
        table: TableId,
        range: &KeyRange,
        way: Direction,
        visit: Visit<'_>,
    ) -> Result<(), SqlError> {
        self.check_filled(table)?;
        self.txn.scan(table, range, way, visit).map_err(explain)
    }

    fn scan_newest(
        &mut self,
        table: TableId,
        range: &KeyRange,
        visit: Visit<'_>,
    ) -> Result<(), SqlError> {
        self.txn.scan_newest(table, range, visit).map_err(explain)
    }

    fn lock(
        &mut self,
        table: TableId,
        key: &Key,
        kind: LockKind,
        waits: bool,
    ) -> Result<bool, SqlError> {
        if self.read_only {
            return Err(read_only());
        }
        self.hold_table(table)?;
        let mode = match kind {
            LockKind::Shared => LockMode::Shared,
            LockKind::Exclusive => LockMode::Exclusive,
        };
        match self.txn.lock(table, key, mode, waits) {
            Ok(()) => Ok(true),
            Err(OpenError::Locked) => Ok(false),
            Err(error) => Err(explain(error)),
        }
    }

    fn outlive(&mut self, table: TableId, key: &Key) -> Result<(), SqlError> {
        self.txn.outlive(table, key).map_err(explain)
    }

    fn look_again(&mut self) {
        self.txn.look_again();
    }

    fn get_locked(
        &mut self,
        table: TableId,
        key: &Key,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<LockedRow, SqlError> {
        let locked = self.txn.get_locked(table, key, visit).map_err(explain)?;
        let base = match locked.base {
            Expect::Version(time) => Base::Version(time),
            Expect::Anything => Base::Any,
        };
        Ok(LockedRow { exists: locked.exists, base })
    }

    fn put(
        &mut self,
        table: TableId,
        key: Key,
        base: Base,
        row: Option<Vec<u8>>,
    ) -> Result<(), SqlError> {
        if self.read_only {
            return Err(read_only());
        }
        self.hold_table(table)?;
        let bytes = key.as_bytes().len() + row.as_ref().map_or(0, Vec::len);
        self.written.more(WRITTEN_BYTES + bytes)?;
        let expect = match base {
            Base::Version(time) => Expect::Version(time),
            Base::Any => Expect::Anything,
        };
        self.txn.put(table, key, expect, row).map_err(explain)
    }

    fn next_value(&mut self, sequence: &str) -> Result<i64, SqlError> {
        self.engine.next_value(sequence)
    }

    fn check_cancel(&self) -> Result<(), SqlError> {
        self.patience.over().map_or(Ok(()), |why| Err(limits::ended(why)))
    }

    fn pause(&self, time: Duration) -> Result<(), SqlError> {
        self.engine.gateway().pause(&self.patience, time).map_err(explain)
    }
}

fn read_only() -> SqlError {
    SqlError::new(code::READ_ONLY, "cannot execute this statement in a read-only transaction")
}

/// An error of the database as clients know it.
pub(crate) fn explain(error: OpenError) -> SqlError {
    match error {
        OpenError::Deadlock(_) => {
            SqlError::new(code::DEADLOCK, "deadlock detected").detail(error.to_string())
        }
        OpenError::Canceled(why) => limits::ended(why),
        OpenError::Locked => SqlError::new(code::LOCK_NOT_AVAILABLE, error.to_string()),
        OpenError::Changed => SqlError::new(
            code::SERIALIZATION,
            "could not serialize access due to concurrent update",
        )
        .hint("Run the transaction again."),
        OpenError::TooLarge => SqlError::new(code::OUT_OF_MEMORY, error.to_string()),
        OpenError::Database(error) => database(error),
    }
}

/// An error of the database as clients know it.
pub(crate) fn database(error: Error) -> SqlError {
    let code = match &error {
        Error::Gone => code::SERIALIZATION,
        Error::Invalid(_) | Error::Change { .. } => code::INVALID_PARAMETER,
        Error::Failure(_) if error.is_unknown() => "08007",
        Error::Failure(_) => "53000",
        Error::Refused(_) => code::NOT_READY,
        _ => code::INTERNAL,
    };
    SqlError::new(code, error.to_string())
}
