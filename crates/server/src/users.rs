//! Users: their names, and what is known of their passwords. Every user may do everything.

use crate::engine::{Engine, damaged};
use crate::scram::Verifier;
use isomer_design::{Column, ColumnType, Key, Schema, SchemaError, Value};
use isomer_sql::parse::UserStatement;
use isomer_sql::{SqlError, code};
use std::ops::ControlFlow;

/// The table that they are kept in.
pub(crate) fn schema() -> Result<Schema, SchemaError> {
    let columns =
        vec![Column::new("name", ColumnType::Text), Column::new("verifier", ColumnType::Text)];
    Schema::new("isomer_users", columns, &["name"])
}

impl Engine {
    /// Makes, changes or drops a user; the tag of the statement.
    pub(crate) fn change_user(
        &self,
        statement: &UserStatement,
        salt: [u8; 16],
    ) -> Result<&'static str, SqlError> {
        let (name, password, tag) = match statement {
            UserStatement::Create { name, password } => (name, password.as_deref(), "CREATE ROLE"),
            UserStatement::Alter { name, password } => (name, password.as_deref(), "ALTER ROLE"),
            UserStatement::Drop { name, .. } => (name, None, "DROP ROLE"),
        };
        let exists = self.users()?.iter().any(|(other, _)| other == name);
        let missing =
            || SqlError::new(code::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"));
        let verifier = || password.map_or(String::new(), |text| Verifier::of(text, salt).write());
        let row = match statement {
            UserStatement::Create { .. } if exists => {
                let message = format!("role \"{name}\" already exists");
                return Err(SqlError::new(code::DUPLICATE_OBJECT, message));
            }
            UserStatement::Drop { if_exists: true, .. } if !exists => return Ok(tag),
            UserStatement::Alter { .. } | UserStatement::Drop { .. } if !exists => {
                return Err(missing());
            }
            UserStatement::Drop { .. } => None,
            UserStatement::Create { .. } | UserStatement::Alter { .. } => Some(verifier()),
        };
        let (table, schema) = &self.users_table;
        let values = [Value::from(name.as_str()), Value::from(row.as_deref().unwrap_or_default())];
        let (key, bytes): (Key, Vec<u8>) = schema.encode_row(&values).map_err(damaged)?;
        self.write(*table, &[(key, row.map(|_| bytes))])?;
        Ok(tag)
    }

    /// What is known of a user's password.
    pub(crate) fn verifier(&self, name: &str) -> Result<Option<Verifier>, SqlError> {
        let users = self.users()?;
        let found = users.iter().find(|(other, _)| other == name);
        Ok(found.and_then(|(_, verifier)| Verifier::read(verifier)))
    }

    /// True if somebody has a password.
    pub(crate) fn has_users(&self) -> Result<bool, SqlError> {
        Ok(self.users()?.iter().any(|(_, verifier)| !verifier.is_empty()))
    }

    fn users(&self) -> Result<Vec<(String, String)>, SqlError> {
        let (table, schema) = &self.users_table;
        let mut users = Vec::new();
        self.each_row(*table, |key, row| {
            if let Ok([Value::Text(name), Value::Text(verifier)]) =
                schema.decode_row(key, row).as_deref()
            {
                users.push((name.to_string(), verifier.to_string()));
            }
            ControlFlow::Continue(())
        })?;
        Ok(users)
    }
}
