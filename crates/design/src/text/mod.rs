//! The text form: keys, ranges, footprints, changes and whole designs, printed and parsed.
//!
//! Printed text can be parsed, with the same value as the result. Keys are written by the types of
//! the key columns, so the text form of anything with a key needs the design that has the table.
//!
//! ```text
//!   key            7    3/7    'Ann'/-1    nothing for the bound before all keys
//!                  7+   the bound just after 7         x0a   a bound that is no list of columns
//!   partition      accounts[5]    by its first key; the first partition is accounts[]
//!   range          accounts[5..9)    accounts[..9)    accounts[5..)    accounts[5] for one key
//!   site           s1
//! ```

mod change;
mod cursor;
mod design;
mod footprint;
mod key;

pub use cursor::{ParseError, Problem};
