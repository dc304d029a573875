//! Validates the definition of a foreign key: the named objects exist, and their types match.

use super::{Action, ForeignKey, is_comparable, unique_over};
use crate::bind::folded;
use crate::catalog::Table;
use crate::error::{SqlError, code};
use crate::refuse;
use sqlparser::ast::{
    ConstraintReferenceMatchKind, DeferrableInitial, ForeignKeyConstraint, Ident, ReferentialAction,
};

impl ForeignKey {
    /// The requested key from a new child to an existing parent, with the given oid and name.
    ///
    /// # Errors
    /// 42703, 42704, 42804, 42830, 0A000.
    pub fn wanted(
        asked: &ForeignKeyConstraint,
        (oid, name): (u32, String),
        child: &Table,
        parent: &Table,
    ) -> Result<ForeignKey, SqlError> {
        let columns = named(child, &asked.columns)?;
        let referenced = match asked.referred_columns.as_slice() {
            [] if !parent.has_key() => {
                let message =
                    format!("there is no primary key for referenced table \"{}\"", parent.name);
                return Err(SqlError::new(code::UNDEFINED_OBJECT, message));
            }
            [] => parent.key.clone(),
            columns => named(parent, columns)?,
        };
        if columns.len() != referenced.len() {
            let message = "number of referencing and referenced columns for foreign key disagree";
            return Err(SqlError::new(code::INVALID_FOREIGN_KEY, message));
        }
        let is_twice = |at: &usize| referenced.iter().filter(|other| *other == at).count() > 1;
        if referenced.iter().any(is_twice) {
            let message = "foreign key referenced-columns list must not contain duplicates";
            return Err(SqlError::new(code::INVALID_FOREIGN_KEY, message));
        }
        let is_ready = unique_over(parent, &referenced)
            .is_some_and(|index| index.is_none_or(|index| index.readable.is_some()));
        if !is_ready {
            let message = format!(
                "there is no unique constraint matching given keys for referenced table \"{}\"",
                parent.name
            );
            return Err(SqlError::new(code::INVALID_FOREIGN_KEY, message));
        }
        for (&own, &other) in columns.iter().zip(&referenced) {
            let (own, other) = (&child.columns[own], &parent.columns[other]);
            if !is_comparable(own.ty, other.ty) {
                let message = format!("foreign key constraint \"{name}\" cannot be implemented");
                let detail = format!(
                    "Key columns \"{}\" and \"{}\" are of incompatible types: {} and {}.",
                    own.name,
                    other.name,
                    crate::bind::bare(own.ty),
                    crate::bind::bare(other.ty)
                );
                return Err(SqlError::new(code::DATATYPE_MISMATCH, message).detail(detail));
            }
        }
        let (deferrable, deferred) = deferrable(asked)?;
        let full = match asked.match_kind {
            None | Some(ConstraintReferenceMatchKind::Simple) => false,
            Some(ConstraintReferenceMatchKind::Full) => true,
            Some(ConstraintReferenceMatchKind::Partial) => {
                return Err(SqlError::unsupported("MATCH PARTIAL"));
            }
        };
        Ok(ForeignKey {
            oid,
            name,
            columns,
            parent: parent.oid,
            referenced,
            full,
            on_update: action(asked.on_update),
            on_delete: action(asked.on_delete),
            deferrable,
            deferred,
            validated: true,
        })
    }
}

fn named(table: &Table, columns: &[Ident]) -> Result<Vec<usize>, SqlError> {
    let place = |name: &Ident| {
        let name = folded(name);
        table.columns.iter().position(|column| column.name == name).ok_or_else(|| {
            let message =
                format!("column \"{name}\" referenced in foreign key constraint does not exist");
            SqlError::new(code::UNDEFINED_COLUMN, message)
        })
    };
    columns.iter().map(place).collect()
}

fn action(asked: Option<ReferentialAction>) -> Action {
    match asked {
        None | Some(ReferentialAction::NoAction) => Action::NoAction,
        Some(ReferentialAction::Restrict) => Action::Restrict,
        Some(ReferentialAction::Cascade) => Action::Cascade,
        Some(ReferentialAction::SetNull) => Action::SetNull,
        Some(ReferentialAction::SetDefault) => Action::SetDefault,
    }
}

/// The DEFERRABLE and INITIALLY DEFERRED options of the key.
fn deferrable(asked: &ForeignKeyConstraint) -> Result<(bool, bool), SqlError> {
    let Some(given) = &asked.characteristics else { return Ok((false, false)) };
    refuse::enforced(given.enforced)?;
    let deferred = given.initially == Some(DeferrableInitial::Deferred);
    if deferred && given.deferrable == Some(false) {
        let message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
        return Err(SqlError::new(code::SYNTAX, message));
    }
    Ok((deferred || given.deferrable == Some(true), deferred))
}
