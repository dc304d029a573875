//! Keys, bounds and ranges as text.

use super::cursor::{Cursor, ParseError};
use crate::{KEY_BYTES_MAX, Key, KeyRange, RowError, Schema};

impl Schema {
    /// A key or a bound between keys as text: `7`, `3/7`, `'Ann'/-1`; nothing for the bound before
    /// all keys, `7+` for the bound just after 7, `x0a` for bytes that are no list of columns.
    pub fn format_key(&self, key: &[u8]) -> String {
        let (values, used) = self.decode_prefix(key);
        let columns: Vec<String> = self
            .key_columns()
            .zip(&values)
            .map(|(column, value)| column.ty.format(value))
            .collect();
        match &key[used..] {
            [] => columns.join("/"),
            [0] if used > 0 => columns.join("/") + "+",
            _ => key.iter().fold("x".to_owned(), |text, byte| text + &format!("{byte:02x}")),
        }
    }

    /// Reads a key or a bound as [`Schema::format_key`] writes it.
    pub fn parse_key(&self, text: &str) -> Result<Key, ParseError> {
        let mut cursor = Cursor::new(text);
        cursor.skip_blanks();
        let key = cursor.key(self)?;
        cursor.expect_text_end()?;
        Ok(key)
    }

    /// A range of keys as text: `[5..9)`, `[..9)`, `[5..)`, `[5]` for one key.
    pub fn format_range(&self, range: &KeyRange) -> String {
        let start = self.format_key(&range.start);
        match &range.end {
            Some(end) if *end == range.start.successor() && !start.is_empty() => {
                format!("[{start}]")
            }
            Some(end) => format!("[{start}..{})", self.format_key(end)),
            None => format!("[{start}..)"),
        }
    }

    /// Reads a range as [`Schema::format_range`] writes it.
    pub fn parse_range(&self, text: &str) -> Result<KeyRange, ParseError> {
        let mut cursor = Cursor::new(text);
        cursor.skip_blanks();
        let range = cursor.range(self)?;
        cursor.expect_text_end()?;
        Ok(range)
    }
}

impl Cursor<'_> {
    /// Reads a key or a bound, which may be empty.
    pub(crate) fn key(&mut self, schema: &Schema) -> Result<Key, ParseError> {
        let before = self.clone();
        if self.is_line_end() || self.rest().starts_with([']', ')', ' ']) || self.is_range_mark() {
            return Ok(Key::min());
        }
        if let Some(bytes) = self.eat_hex() {
            if bytes.len() > KEY_BYTES_MAX {
                let table = schema.name().to_owned();
                return Err(before.error(RowError::KeyTooLong { table, bytes: bytes.len() }));
            }
            return Ok(Key::from_bytes(&bytes));
        }
        let mut values = Vec::new();
        for column in schema.key_columns() {
            values.push(self.value(column.ty)?);
            if values.len() == schema.key_columns().len() || !self.eat("/") {
                break;
            }
        }
        let key = schema.encode_prefix(&values).map_err(|error| before.error(error))?;
        Ok(if self.eat("+") { key.successor() } else { key })
    }

    /// Reads a bound in brackets: `[5]`, `[]`.
    pub(crate) fn bracketed_key(&mut self, schema: &Schema) -> Result<Key, ParseError> {
        self.expect("[")?;
        let key = self.key(schema)?;
        self.expect("]")?;
        self.skip_blanks();
        Ok(key)
    }

    /// Reads a range: `[5..9)`, `[..9)`, `[5..)`, `[5]`.
    pub(crate) fn range(&mut self, schema: &Schema) -> Result<KeyRange, ParseError> {
        self.expect("[")?;
        let start = self.key(schema)?;
        if self.eat("]") {
            return Ok(KeyRange::single(start));
        }
        if !self.eat("..") {
            return Err(self.expected("`..` or `]`"));
        }
        let end = if self.rest().starts_with(')') { None } else { Some(self.key(schema)?) };
        self.expect(")")?;
        Ok(KeyRange::new(start, end))
    }

    fn is_range_mark(&self) -> bool {
        self.rest().starts_with("..")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Column, ColumnType, Value};

    fn schema(types: &[ColumnType]) -> Schema {
        let names: Vec<String> = (0..types.len()).map(|n| format!("c{n}")).collect();
        let columns = names.iter().zip(types).map(|(name, ty)| Column::new(name, *ty)).collect();
        let key: Vec<&str> = names.iter().map(String::as_str).collect();
        Schema::new("things", columns, &key).unwrap()
    }

    #[test]
    fn keys_print_by_their_types_and_come_back() {
        let mixed = schema(&[ColumnType::Text, ColumnType::Float64, ColumnType::Timestamp]);
        let key = |values: &[Value]| mixed.encode_prefix(values).unwrap();
        let name = Value::from("it's ] / 1..2");
        for (key, text) in [
            (Key::min(), ""),
            (key(std::slice::from_ref(&name)), r"'it\'s ] / 1..2'"),
            (key(&[name.clone(), Value::from(-0.5)]), r"'it\'s ] / 1..2'/-0.5"),
            (
                key(&[name, Value::from(1e300), Value::Timestamp(1)]).successor(),
                r"'it\'s ] / 1..2'/1e300/1970-01-01T00:00:00.000001Z+",
            ),
            (Key::from_bytes(&[0x61]), "x61"),
        ] {
            assert_eq!(mixed.format_key(&key), text);
            assert_eq!(mixed.parse_key(text), Ok(key), "{text}");
        }
    }

    #[test]
    fn ranges_print_and_come_back() {
        let numbers = schema(&[ColumnType::Float64]);
        for text in ["[0.5..1.5)", "[..1.5)", "[0.5..)", "[..)", "[0.5]", "[0.5+..1e300+)"] {
            let range = numbers.parse_range(text).unwrap();
            assert_eq!(numbers.format_range(&range), text);
        }
        assert_eq!(numbers.parse_range("[..)"), Ok(KeyRange::all()));
    }

    #[test]
    fn wrong_keys_say_where_and_what_was_expected() {
        let pair = schema(&[ColumnType::Int64, ColumnType::Text]);
        let error = |text| pair.parse_key(text).unwrap_err().to_string();
        assert_eq!(
            error("7/Ann"),
            "line 1, column 3: expected a text such as 'abc' (text), found `Ann`"
        );
        assert_eq!(
            error("7/'Ann"),
            "line 1, column 3: expected a text such as 'abc' (text), found `'Ann`"
        );
        assert_eq!(
            error("7/'Ann'/9"),
            "line 1, column 8: expected the end of the line, found `/9`"
        );
        assert_eq!(
            error("99999999999999999999"),
            "line 1, column 1: expected a whole number such as 7 (int64), \
             found `99999999999999999999`"
        );
    }
}
