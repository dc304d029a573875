//! Rows as values: `ROW (1, 'a')`, and `t` in a query over `t`.
//!
//! ```text
//!   ROW (1, 'a b', NULL)      columns f1 integer, f2 text, f3 text
//!   as text                   (1,"a b",)
//!   as JSON                   {"f1":1,"f2":"a b","f3":null}
//! ```
//!
//! All values of one expression share a description of their columns. Two rows are compared column
//! by column, NULL last; the equality of rows that are written out, `(a, b) = (c, d)`, is not this
//! one but that of their columns. No table stores a row in a column.

use crate::datum::Datum;
use crate::types::SqlType;
use crate::zone::Zone;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A value of each column.
#[derive(Clone, Debug)]
pub struct RowValue {
    columns: Arc<[(String, SqlType)]>,
    values: Vec<Datum>,
}

impl RowValue {
    /// A row of NULLs in columns with these names and types.
    pub(crate) fn of_nulls(columns: Vec<(String, SqlType)>) -> RowValue {
        let values = vec![Datum::Null; columns.len()];
        RowValue { columns: columns.into(), values }
    }

    /// A row with the same columns.
    pub(crate) fn with(&self, values: &[Datum]) -> RowValue {
        RowValue { columns: self.columns.clone(), values: values.to_vec() }
    }

    /// The name and type of each column.
    pub(crate) fn columns(&self) -> &[(String, SqlType)] {
        &self.columns
    }

    /// The columns with their values.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, SqlType, &Datum)> {
        let columns = self.columns.iter().map(|(name, ty)| (name.as_str(), *ty));
        columns.zip(&self.values).map(|((name, ty), value)| (name, ty, value))
    }

    /// True if each value is NULL.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.iter().all(Datum::is_null)
    }

    /// True if no value is NULL.
    pub(crate) fn is_full(&self) -> bool {
        !self.values.iter().any(Datum::is_null)
    }

    /// The row as text. `zone`: where instants are local times.
    pub(crate) fn shown(&self, zone: Option<&Zone>) -> String {
        let mut text = String::from("(");
        for (at, (_, ty, value)) in self.fields().enumerate() {
            text.push_str(if at > 0 { "," } else { "" });
            if value.is_null() {
                continue;
            }
            let shown: Cow<'_, str> = match zone {
                Some(zone) => crate::text::format_in(value, ty, zone),
                None => crate::text::format(value, ty),
            };
            let is_plain = |c: char| !matches!(c, '"' | '\\' | '(' | ')' | ',' | ' ' | '\t'..='\r');
            if !shown.is_empty() && shown.chars().all(is_plain) {
                text.push_str(&shown);
                continue;
            }
            text.push('"');
            for c in shown.chars() {
                if matches!(c, '"' | '\\') {
                    text.push(c);
                }
                text.push(c);
            }
            text.push('"');
        }
        text.push(')');
        text
    }

    /// Appends the binary form: the number of columns, and of each the type, length and value.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let word = |value: usize| (value as i32).to_be_bytes();
        out.extend(word(self.values.len()));
        for (_, ty, value) in self.fields() {
            out.extend(ty.oid().to_be_bytes());
            if value.is_null() {
                out.extend((-1i32).to_be_bytes());
                continue;
            }
            let at = out.len();
            out.extend([0; 4]);
            crate::binary::encode(value, ty, out);
            let length = word(out.len() - at - 4);
            out[at..at + 4].copy_from_slice(&length);
        }
    }

    /// The order of rows: that of their first different values; a shorter row is less.
    pub(crate) fn order(&self, other: &RowValue) -> Ordering {
        let both = self.values.iter().zip(&other.values);
        let differ = both.map(|(a, b)| a.order(b)).find(|order| order.is_ne());
        differ.unwrap_or_else(|| self.values.len().cmp(&other.values.len()))
    }

    /// True if both have the same columns and identical values.
    pub(crate) fn is_identical(&self, other: &RowValue) -> bool {
        let mut both = self.values.iter().zip(&other.values);
        self.columns == other.columns && both.all(|(a, b)| a.is_identical(b))
    }

    /// The memory of the values.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<RowValue>() + self.values.iter().map(Datum::bytes).sum::<usize>()
    }
}

impl Hash for RowValue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.values.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[Datum]) -> RowValue {
        let types = [("a", SqlType::Int4), ("b", SqlType::Text), ("c", SqlType::Text)];
        let columns = types.map(|(name, ty)| (name.to_owned(), ty)).to_vec();
        RowValue::of_nulls(columns).with(values)
    }

    #[test]
    fn a_row_is_written_as_postgresql_does() {
        for (b, c, shown) in [
            (Datum::text("x"), Datum::Null, "(1,x,)"),
            (Datum::text(""), Datum::text("a b"), r#"(1,"","a b")"#),
            (Datum::text(r#"a"b\c"#), Datum::text("(,)"), r#"(1,"a""b\\c","(,)")"#),
            (Datum::text("{1,2}"), Datum::text("\n"), "(1,\"{1,2}\",\"\n\")"),
        ] {
            assert_eq!(row(&[Datum::Int(1), b, c]).shown(None), shown);
        }
    }

    #[test]
    fn rows_are_in_the_order_of_their_first_difference() {
        let of = |a: Datum, b: &str| row(&[a, Datum::text(b), Datum::Null]);
        let (small, large) = (of(Datum::Int(9), "z"), of(Datum::Int(10), "a"));
        assert_eq!(small.order(&large), Ordering::Less);
        assert_eq!(of(Datum::Null, "a").order(&large), Ordering::Greater);
        assert_eq!(large.order(&large.clone()), Ordering::Equal);
        assert!(row(&[Datum::Null, Datum::Null, Datum::Null]).is_empty());
        assert!(!small.is_empty() && !small.is_full());
    }
}
