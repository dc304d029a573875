//! Questions of gateways to the gateway of the conductor's process, and its replies.

use isomer_cluster::{Database, Error};
use isomer_sql::datum::Datum;
use serde::{Deserialize, Serialize};

/// A question of a gateway to that of the conductor.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum Question {
    /// What have I missed?
    State,
    /// The rows of a view.
    Rows(String),
    /// Carry out a proposal, on behalf of a role.
    Approve(u64, String),
    Reject(u64, String, Option<String>),
}

/// The answer.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum Reply {
    /// A state of the definitions, as text.
    State(String),
    Rows(Vec<Vec<Cell>>),
    Done,
    /// A message, a detail and a hint.
    Refused(String, Option<String>, Option<String>),
}

/// A value of a view.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum Cell {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    Timestamp(i64),
}

impl Cell {
    pub(crate) fn of(value: Datum) -> Cell {
        match value {
            Datum::Bool(value) => Cell::Bool(value),
            Datum::Int(value) => Cell::Int(value),
            Datum::Float(value) => Cell::Float(value),
            Datum::Text(value) => Cell::Text(value),
            Datum::Bytes(value) => Cell::Bytes(value),
            Datum::Timestamp(value) => Cell::Timestamp(value),
            // No column of these views has another type.
            _ => Cell::Null,
        }
    }

    pub(crate) fn datum(self) -> Datum {
        match self {
            Cell::Null => Datum::Null,
            Cell::Bool(value) => Datum::Bool(value),
            Cell::Int(value) => Datum::Int(value),
            Cell::Float(value) => Datum::Float(value),
            Cell::Text(value) => Datum::Text(value),
            Cell::Bytes(value) => Datum::Bytes(value),
            Cell::Timestamp(value) => Datum::Timestamp(value),
        }
    }
}

/// Asks the gateway of the conductor.
///
/// # Errors
/// [`Error::NoSeat`] if there is no reply.
pub(crate) fn ask(database: &Database, question: &Question) -> Result<Reply, Error> {
    let question = serde_json::to_vec(question).expect("names of fields are text");
    let reply = database.others().question(question)?;
    serde_json::from_slice(&reply).map_err(|error| Error::AtConductor(error.to_string()))
}
