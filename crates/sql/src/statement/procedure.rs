//! CALL, and the statements of a procedure's body.

use super::{Action, Compiled, compile_within};
use crate::budget::Budget;
use crate::catalog::{Catalog, Procedure};
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::exec::{Exec, Nowhere, Unplaced, check_place, value_of};
use crate::expr::Expr;
use crate::parse::{Parsed, read};
use crate::transaction::{Surroundings, Transaction};
use crate::types::SqlType;
use sqlparser::ast::Statement;
use std::sync::Arc;

/// A CALL with resolved names.
#[derive(Debug)]
pub struct ProcedureCall {
    /// The procedure.
    pub procedure: Arc<Procedure>,
    /// The values of its arguments, over the parameters of the statement.
    pub arguments: Vec<Expr>,
}

/// A statement of a body.
#[derive(Clone, Debug)]
pub struct BodyStatement {
    /// The statement.
    pub parsed: Parsed,
    /// Its plan.
    pub compiled: Arc<Compiled>,
}

impl ProcedureCall {
    /// Evaluates the arguments.
    ///
    /// # Errors
    /// Any error of the expressions.
    pub fn values(
        &self,
        txn: &mut dyn Transaction,
        params: &[Datum],
        around: &Surroundings,
        catalog: &Catalog,
    ) -> Result<Vec<Datum>, SqlError> {
        let exec = Exec::new(txn, params, around, catalog);
        self.arguments.iter().map(|argument| value_of(&exec, argument)).collect()
    }

    /// The same before the CALL runs, if the arguments depend on no session.
    ///
    /// # Errors
    /// [`Unplaced`]; also if an expression has an error.
    pub fn values_alone(
        &self,
        params: &[Datum],
        around: &Surroundings,
        catalog: &Catalog,
    ) -> Result<Vec<Datum>, Unplaced> {
        self.arguments.iter().try_for_each(check_place)?;
        self.values(&mut Nowhere, params, around, catalog).map_err(|_| Unplaced::Rows)
    }
}

/// Compiles the statements of a body.
///
/// # Errors
/// Any error in a statement, with its position in the body; 0A000 for statements that a body cannot
/// have.
pub fn compile_body(
    procedure: &Arc<Procedure>,
    catalog: &Catalog,
    budget: &Budget,
) -> Result<Vec<BodyStatement>, SqlError> {
    let parsed = read(&procedure.body, budget, &mut Vec::new())?;
    let one = |parsed: Parsed| {
        let compiled = Arc::new(compile_of_body(procedure, &parsed, catalog, budget)?);
        Ok(BodyStatement { parsed, compiled })
    };
    parsed.into_iter().map(one).collect()
}

/// Compiles one statement of a body.
///
/// # Errors
/// As [`compile_body`].
pub fn compile_of_body(
    procedure: &Arc<Procedure>,
    parsed: &Parsed,
    catalog: &Catalog,
    budget: &Budget,
) -> Result<Compiled, SqlError> {
    check(parsed)?;
    let types: Vec<SqlType> = procedure.types();
    let compiled =
        compile_within(parsed, &procedure.body, catalog, &types, budget, Some(procedure))?;
    if compiled.params.len() > types.len() {
        let message = format!("there is no parameter ${}", compiled.params.len());
        return Err(SqlError::new(code::UNDEFINED_PARAMETER, message));
    }
    match compiled.action {
        Action::Select(_)
        | Action::Insert(_)
        | Action::Update(_)
        | Action::Delete(_)
        | Action::Merge(_)
        | Action::Call(_) => Ok(compiled),
        _ => Err(refused("this statement")),
    }
}

/// Refuses statements that a body cannot have.
fn check(parsed: &Parsed) -> Result<(), SqlError> {
    let (Parsed::Sql(statement) | Parsed::Overriding(statement, _)) = parsed else {
        return Err(refused(match parsed {
            Parsed::Nothing(tag) => tag,
            Parsed::Maintain(maintenance) => maintenance.tag(),
            Parsed::Table(..) => "CREATE TABLE",
            Parsed::Alter(_) | Parsed::Reshard(_) => "ALTER",
            Parsed::Domain(_) => "a definition of a domain",
            Parsed::Sequence(_) => "a definition of a sequence",
            Parsed::Procedure(_) => "a definition of a procedure",
            Parsed::User(_) => "a definition of a role",
            Parsed::Rights(_) => "GRANT or REVOKE",
            Parsed::Cursor(_) => "a cursor",
            Parsed::Constraints(_) => "SET CONSTRAINTS",
            _ => "a statement about the design",
        }));
    };
    let is_of_transaction = matches!(
        **statement,
        Statement::StartTransaction { .. }
            | Statement::Commit { .. }
            | Statement::Rollback { .. }
            | Statement::Savepoint { .. }
            | Statement::ReleaseSavepoint { .. }
    );
    match &**statement {
        Statement::Query(_)
        | Statement::Insert(_)
        | Statement::Update(_)
        | Statement::Delete(_)
        | Statement::Merge(_)
        | Statement::Call(_) => Ok(()),
        other => {
            let text = other.to_string();
            let words = if is_of_transaction { 1 } else { 2 };
            let words: Vec<&str> = text.split_whitespace().take(words).collect();
            let words = words.join(" ");
            Err(match is_of_transaction {
                true => {
                    let message = format!("{words} is not allowed in an SQL function");
                    SqlError::new(code::FEATURE_NOT_SUPPORTED, message)
                        .hint("The transaction of the CALL begins and ends outside of it.")
                }
                false => refused(&words),
            })
        }
    }
}

fn refused(what: &str) -> SqlError {
    SqlError::unsupported(format!("{what} in the body of a procedure"))
        .hint("It may have SELECT, INSERT, UPDATE, DELETE and CALL.")
}
