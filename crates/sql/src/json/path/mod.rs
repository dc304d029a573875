//! Paths of SQL/JSON, as those of PostgreSQL's type `jsonpath`.
//!
//! ```text
//!   $.a[*] ? (@ > 1).size()      a list of steps, each of which has items as results
//!   ────┬───  ──┬──  ──┬──
//!   steps    a predicate, itself of lists of steps
//! ```
//!
//! A path is [read] from a text and [walked](walk) on a value. Items are parts of the text of the
//! value; only numbers and objects that a path computes have texts of their own. Numbers are exact,
//! of any length.
//!
//! In lax mode an array stands for its elements where a path expects none, and a missing member is
//! no error. A *quiet* walk ends at an error, with the items that were found before it. Predicates
//! are unknown where their operands have errors.
//!
//! The crate `sql-json-path` was no choice: it computes with floats, and its parser and evaluator
//! have no limit of depth.
//!
//! Left out: `.datetime()`, refused by name.

mod place;
mod read;
mod tokens;
mod walk;

use crate::expr::{Arith, Compare};
use crate::numeric::Decimal;
use crate::regex::Regex;
pub(crate) use read::read;
pub(crate) use walk::{Item, Walk};

/// A path.
pub(crate) struct Path {
    is_strict: bool,
    steps: Steps,
}

type Steps = Vec<Step>;

/// A step: the first one of a list has items of its own, and each later one gets those before it.
enum Step {
    /// `$`
    Root,
    /// `@`
    Current,
    Last,
    Null,
    Bool(bool),
    Number(Decimal),
    Text(String),
    /// `$name`
    Variable(String),
    /// `.name`
    Key(String),
    /// `.*`
    AnyKey,
    /// `[*]`
    AnyElement,
    /// `[1, 2 to 3]`
    Elements(Vec<(Steps, Option<Steps>)>),
    /// `.**`, with its first and its last level.
    Descend(u32, u32),
    Filter(Box<Step>),
    Method(Method),
    Arith(Arith, Box<[Steps; 2]>),
    /// A sign before an expression: true for `-`.
    Sign(bool, Steps),
    And(Box<[Step; 2]>),
    Or(Box<[Step; 2]>),
    Not(Box<Step>),
    IsUnknown(Box<Step>),
    Compare(Compare, Box<[Steps; 2]>),
    Exists(Steps),
    StartsWith(Box<[Steps; 2]>),
    Like(Steps, Regex),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    Abs,
    Size,
    Type,
    Floor,
    Double,
    Ceiling,
    KeyValue,
}

impl Method {
    fn named(name: &str) -> Option<Method> {
        Some(match name {
            "abs" => Method::Abs,
            "size" => Method::Size,
            "type" => Method::Type,
            "floor" => Method::Floor,
            "double" => Method::Double,
            "ceiling" => Method::Ceiling,
            "keyvalue" => Method::KeyValue,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Method::Abs => "abs",
            Method::Size => "size",
            Method::Type => "type",
            Method::Floor => "floor",
            Method::Double => "double",
            Method::Ceiling => "ceiling",
            Method::KeyValue => "keyvalue",
        }
    }
}
