//! SQL: from the text of a statement to a procedure over keys.
//!
//! ```text
//!   text ──parse──▶ statement ──bind──▶ plan ──exec──▶ rows, writes
//!            │          │                 │               │
//!        sqlparser   catalog: names,   spans of keys,   a Transaction: get, scan,
//!                   types, indexes    slots, types     lock, put
//! ```
//!
//! | module | contents |
//! | --- | --- |
//! | [`parameters`] | parameters of tables |
//! | [`parse`] | the grammar, and Isomer's own statements |
//! | [`sequence`] | sequences |
//! | [`catalog`], [`define`] | tables, keys and indexes as SQL knows them, and their definitions |
//! | [`catalog::procedures`] | procedures |
//! | [`foreign`], [`view`], [`comment`] | foreign keys; views; comments |
//! | `bind` | resolves names to slots and determines types |
//! | `optimize` | join order and access paths |
//! | [`plan`], [`expr`] | statements after compilation |
//! | `exec` | executes them |
//! | [`budget`] | memory and time of a statement |
//! | [`types`], [`datum`], [`numeric`], [`text`], [`binary`] | values, and their formats |
//! | [`row_value`] | rows as values |
//! | [`name`] | names of objects |
//! | [`enums`], [`domains`] | enums; types with conditions over other types |
//! | [`zone`] | time zones |
//! | [`statistics`] | statistics of tables and columns |
//! | [`system`] | the catalog as tables |
//! | [`statement`] | a compiled statement, and how to run it |
//!
//! A statement that names its rows by key (`where id = $1`) is compiled to spans of keys, once.
//! Each execution evaluates the spans and looks up the keys. Other statements run on the same
//! steps, followed by grouping, hashing and sorting, within a [budget] of memory and time.
//!
//! A subquery in an expression is a function of its correlated values, and runs as seldom as
//! possible: the head of `bind/inner.rs` has an example.
//!
//! Left out: sockets, threads, clocks (the time is an argument, in [`transaction::Surroundings`]);
//! triggers.

mod array;
pub mod binary;
mod bind;
pub mod budget;
pub mod catalog;
pub mod checks;
pub mod comment;
pub mod dates;
pub mod datum;
pub mod define;
pub mod domains;
pub mod enums;
pub mod error;
mod exec;
pub mod expr;
pub mod fields;
pub mod foreign;
pub mod functions;
pub mod interval;
mod json;
pub mod name;
pub mod numeric;
mod optimize;
pub mod parameters;
pub mod parse;
pub mod pattern;
pub mod plan;
pub mod prefix;
pub mod refuse;
pub mod regex;
mod relation_texts;
pub mod rights;
pub mod row_value;
pub mod sequence;
pub mod shown;
pub mod statement;
pub mod statistics;
pub mod system;
pub mod text;
pub mod transaction;
pub mod types;
pub mod view;
pub mod zone;

pub use datum::Datum;
pub use error::{SqlError, code};
pub use types::SqlType;
