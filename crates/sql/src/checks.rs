//! Check constraints of tables: the columns that they mention, and default names.
//!
//! ```text
//!   create table t (a int check (a > 0), b int, check (b > 0), check (a > b), check (a < 9))
//!                   t_a_check                   t_b_check      t_check        t_a_check1
//! ```
//!
//! A check that mentions one column is named after it, independent of its place in the statement.

use crate::catalog::{Check, made_name};
use crate::error::{SqlError, code};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Token, Tokenizer};
use std::collections::{BTreeMap, BTreeSet};

/// The columns that a condition mentions, in its order.
pub fn mentioned<'c>(condition: &str, columns: &[&'c str]) -> Vec<&'c str> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, condition).tokenize().unwrap_or_default();
    let signs: Vec<&Token> =
        tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
    let mut found = Vec::new();
    for (at, sign) in signs.iter().enumerate() {
        let Token::Word(word) = sign else { continue };
        // Functions, tables and types have names as well.
        let is_other = matches!(signs.get(at + 1), Some(Token::LParen | Token::Period))
            || matches!(at.checked_sub(1).map(|at| signs[at]), Some(Token::DoubleColon));
        let name = match word.quote_style {
            Some(_) => word.value.clone(),
            None => word.value.to_lowercase(),
        };
        let column = columns.iter().find(|column| **column == name);
        if let (Some(column), false) = (column, is_other)
            && !found.contains(column)
        {
            found.push(*column);
        }
    }
    found
}

/// Names checks.
pub struct Names<'t> {
    table: &'t str,
    columns: Vec<&'t str>,
    taken: BTreeSet<String>,
    /// For each base name, the next number that may be free.
    numbers: BTreeMap<String, usize>,
}

impl<'t> Names<'t> {
    /// For a table with these columns; `taken` are the names of existing constraints.
    pub fn new(
        table: &'t str,
        columns: impl IntoIterator<Item = &'t str>,
        taken: impl IntoIterator<Item = String>,
    ) -> Names<'t> {
        let (columns, taken) = (columns.into_iter().collect(), taken.into_iter().collect());
        Names { table, columns, taken, numbers: BTreeMap::new() }
    }

    /// A check with its explicit name, or a free one.
    ///
    /// # Errors
    /// 42710 if the name is taken.
    pub fn named(&mut self, name: Option<String>, condition: String) -> Result<Check, SqlError> {
        let name = match name {
            Some(name) if self.taken.contains(&name) => {
                let message = format!("check constraint \"{name}\" already exists");
                return Err(SqlError::new(code::DUPLICATE_OBJECT, message));
            }
            Some(name) => name,
            None => self.free(&condition),
        };
        self.taken.insert(name.clone());
        Ok(Check { name, condition })
    }

    fn free(&mut self, condition: &str) -> String {
        let mentioned = mentioned(condition, &self.columns);
        let column = match mentioned.as_slice() {
            [column] => *column,
            _ => "",
        };
        let number = self.numbers.entry(made_name(self.table, column, "check")).or_default();
        let mut name = made_name(self.table, column, "check");
        while self.taken.contains(&name) {
            *number += 1;
            name = made_name(self.table, column, &format!("check{number}"));
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_names_are_recognized() {
        let columns = ["a", "b", "Big", "length", "date"];
        for (condition, expected) in [
            ("a > 0 AND A < b", &["a", "b"][..]),
            ("\"Big\" > 0 AND big > 1", &["Big"]),
            ("s <> 'a' AND t.b > 0", &["b"]),
            ("length(s) > 0 AND x::date > y", &[]),
            ("a.x > 0", &[]),
        ] {
            assert_eq!(mentioned(condition, &columns), expected, "{condition}");
        }
    }
}
