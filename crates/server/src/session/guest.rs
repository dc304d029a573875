//! A session for one statement of a client of another process.

use super::{Call, Flush, PlanAgain, Session, may_run_again};
use crate::wire::{Formats, Out};
use isomer_cluster::Ran;
use isomer_cluster::gateways::shipping::Witness;
use isomer_sql::SqlError;
use isomer_sql::budget::Budget;
use isomer_sql::catalog::Catalog;
use isomer_sql::datum::Datum;
use isomer_sql::statement::{Action, Compiled};
use std::rc::Rc;
use std::sync::Arc;

/// A session that runs one statement.
pub(crate) struct Guest<'s> {
    session: &'s mut Session,
}

/// A plan, how to plan again, parameters, formats, and whether the result begins with its columns.
pub(crate) type Planned<'c> = (&'c Arc<Compiled>, PlanAgain<'c>, &'c [Datum], &'c Formats, bool);

/// Makes the witness of a commit, for the messages to the client and the number of rows.
pub(crate) type SeesCommit<'w> = &'w dyn Fn(&[u8], u64) -> Arc<dyn Witness>;

impl<'s> Guest<'s> {
    /// A statement that began at a time, in microseconds since 1970. `takes_rows`: the rows of
    /// ordered tables that it writes move here.
    pub(crate) fn begin(session: &'s mut Session, begun_us: i64, takes_rows: bool) -> Guest<'s> {
        session.memory.statement.begin();
        session.shipping.takes_rows = takes_rows;
        session.begins_at = Some(begun_us);
        Guest { session }
    }

    pub(crate) fn budget(&self) -> Rc<Budget> {
        self.session.memory.statement.clone()
    }

    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.session.catalog()
    }

    /// Runs the statement and commits it. Repeats it as a session does, for conflicts. The result
    /// of `witness` for the messages and the number of rows sees the commit.
    ///
    /// # Errors
    /// Any error of the statement; nothing of it remains, unless the error says otherwise.
    pub(crate) fn run(
        &mut self,
        (compiled, again, params, formats, describes): Planned<'_>,
        out: &mut Out,
        flush: &mut dyn Flush,
        witness: SeesCommit<'_>,
    ) -> Result<(), SqlError> {
        let session = &mut *self.session;
        let call = Call { describes, ..Call::new(compiled, again, params, formats) };
        for run in 1.. {
            if run == 1 {
                super::ship::look_near(session, call);
            }
            let done = match compiled.action {
                Action::Call(_) => super::calls::run(session, call, out),
                _ => session.query(call, out, flush),
            };
            if let Err(error) = done {
                session.fail();
                return Err(error);
            }
            if let Some(backend) = &mut session.txn {
                backend.txn.witness = Some(witness(&out.bytes, session.rows));
            }
            match session.end_implicit() {
                Err(error) if may_run_again(&error, run) && out.back_to(0) => {}
                ended => return ended,
            }
        }
        unreachable!("a statement is repeated a few times")
    }

    /// Ends the session: the number of rows, and the sites of the commit. From the return on, other
    /// gateways can have its locks.
    pub(crate) fn end(self) -> (u64, Option<Ran>) {
        let session = self.session;
        session.memory.statement.end();
        session.engine.gateway().until_released(session.cancel.owner());
        (session.rows, session.last_commit.take())
    }
}
