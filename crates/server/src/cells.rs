//! Values of views, as they are sent to other gateways and kept in the histories.

use isomer_sql::datum::Datum;
use serde::{Deserialize, Serialize};

/// A value of a view.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
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
