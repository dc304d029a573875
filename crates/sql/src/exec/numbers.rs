//! Functions of sequences.
//!
//! `nextval` is answered by the transaction, as all sessions share the numbers; the last number
//! issued to a session belongs to the session.

use super::Exec;
use crate::catalog::Named;
use crate::datum::Datum;
use crate::error::{SqlError, clipped, code};
use crate::functions::Func;
use crate::rights::check::denied;
use crate::rights::{Kind, Object, Rights};
use crate::sequence::Sequence;
use std::sync::Arc;

impl Exec<'_> {
    pub(super) fn of_sequence(&self, func: Func, args: &[Datum]) -> Result<Datum, SqlError> {
        if args.iter().any(Datum::is_null) {
            return Ok(Datum::Null);
        }
        let given = &self.around.given;
        let Some(name) = args.first() else {
            let (of, last) = given.last().ok_or_else(|| undefined("lastval is"))?;
            self.check_sequence(&*self.sequence(&of.to_string())?, Rights::SELECT | Rights::USAGE)?;
            return Ok(Datum::Int(last));
        };
        let sequence = match name {
            Datum::Int(oid) => self.sequence(&oid.to_string())?,
            name => self.sequence(&clipped(name.as_text().unwrap_or("")))?,
        };
        match func {
            Func::NextVal | Func::NextOwn => {
                if func == Func::NextVal {
                    self.check_sequence(&sequence, Rights::USAGE | Rights::UPDATE)?;
                }
                let value = self.txn.borrow_mut().next_number(&sequence)?;
                given.note(sequence.oid, value);
                Ok(Datum::Int(value))
            }
            Func::CurrVal => {
                self.check_sequence(&sequence, Rights::SELECT | Rights::USAGE)?;
                let what = || undefined(&format!("currval of sequence \"{}\" is", sequence.name));
                given.of(sequence.oid).map(Datum::Int).ok_or_else(what)
            }
            Func::SetVal => {
                self.check_sequence(&sequence, Rights::UPDATE)?;
                let value = args[1].as_int().unwrap_or(0);
                let is_called = args.get(2).and_then(Datum::as_bool).unwrap_or(true);
                sequence.check_value(value)?;
                self.txn.borrow_mut().set_number(&sequence, value, is_called)?;
                if is_called {
                    given.correct(sequence.oid, value);
                }
                Ok(Datum::Int(value))
            }
            _ => {
                let (last, is_called) = self.around.design.last_number(&sequence)?;
                let is_last = func == Func::SequenceLast;
                Ok(if is_last { Datum::Int(last) } else { Datum::Bool(is_called) })
            }
        }
    }

    /// Checks that the user has one of these rights.
    fn check_sequence(&self, sequence: &Sequence, any: Rights) -> Result<(), SqlError> {
        let (identity, object) = (&self.around.identity, Object::Relation(sequence.oid));
        match identity.rights_to(self.catalog, object, Kind::Sequence).has_any(any) {
            true => Ok(()),
            false => Err(denied(&format!("sequence {}", sequence.name))),
        }
    }

    /// A sequence by its name or its oid.
    fn sequence(&self, name: &str) -> Result<Arc<Sequence>, SqlError> {
        let Ok(oid) = name.parse::<u32>() else {
            return self.catalog.sequence(&Named::read(name)).cloned();
        };
        self.budget.tick(self.catalog.sequences.len())?;
        let found = self.catalog.sequences.values().find(|sequence| sequence.oid == oid);
        found.cloned().ok_or_else(|| {
            let message = format!("could not open relation with OID {oid}");
            SqlError::new(code::UNDEFINED_TABLE, message)
        })
    }
}

fn undefined(what: &str) -> SqlError {
    SqlError::new(code::NOT_READY, format!("{what} not yet defined in this session"))
}
