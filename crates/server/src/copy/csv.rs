//! COPY in the format csv.
//!
//! ```text
//!   7,"Kim ""the swift""",,""<newline>      a quote in quotes is escaped; NULL, then an empty text
//! ```
//!
//! Quotes may begin and end anywhere in a field. Between them, delimiters and ends of lines are
//! part of the value.

use isomer_sql::datum::Datum;
use isomer_sql::statement::Copy;
use isomer_sql::zone::Zone;
use isomer_sql::{SqlError, SqlType, code, text};

/// The quote character, and the character that escapes it inside of quotes.
#[derive(Clone, Copy)]
pub(super) struct Quotes {
    pub(super) quote: char,
    pub(super) escape: char,
}

/// The state of a search for the end of a record.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    quoted: bool,
    escaped: bool,
}

impl Place {
    /// Consumes a byte; true if the record ends with it.
    pub(super) fn ends(&mut self, byte: u8, quotes: Option<Quotes>) -> bool {
        let Some(Quotes { quote, escape }) = quotes else { return byte == b'\n' };
        let (quote, escape) = (quote as u8, escape as u8);
        if std::mem::take(&mut self.escaped) {
            return false;
        }
        if self.quoted && byte == escape && escape != quote {
            self.escaped = true;
        } else if byte == quote {
            // A doubled quote ends the quotes and begins them again.
            self.quoted = !self.quoted;
        }
        byte == b'\n' && !self.quoted
    }

    /// True inside of quotes.
    pub(super) fn is_quoted(self) -> bool {
        self.quoted
    }
}

/// The fields of a record; `None` stands for NULL.
///
/// # Errors
/// 22P04 if a quote is not closed.
pub(super) fn fields(
    record: &str,
    copy: &Copy,
    quotes: Quotes,
) -> Result<Vec<Option<String>>, SqlError> {
    let Quotes { quote, escape } = quotes;
    let (mut fields, mut field, mut had_quotes) = (Vec::new(), String::new(), false);
    let mut signs = record.chars().peekable();
    let mut quoted = false;
    let end = |field: &mut String, had_quotes: &mut bool| {
        let value = std::mem::take(field);
        let is_null = !std::mem::take(had_quotes) && value == copy.null;
        if is_null { None } else { Some(value) }
    };
    while let Some(sign) = signs.next() {
        let next = signs.peek().copied();
        if quoted && sign == escape && next.is_some_and(|next| next == quote || next == escape) {
            field.extend(signs.next());
        } else if sign == quote {
            (quoted, had_quotes) = (!quoted, true);
        } else if sign == copy.delimiter && !quoted {
            fields.push(end(&mut field, &mut had_quotes));
        } else {
            field.push(sign);
        }
    }
    if quoted {
        return Err(SqlError::new(code::BAD_COPY, "unterminated CSV quoted field"));
    }
    fields.push(end(&mut field, &mut had_quotes));
    Ok(fields)
}

/// Appends a field, quoted if necessary; `alone` if it is the only one of its record.
pub(super) fn put(value: &str, copy: &Copy, quotes: Quotes, alone: bool, body: &mut Vec<u8>) {
    let Quotes { quote, escape } = quotes;
    let special =
        |sign: char| sign == copy.delimiter || sign == quote || sign == '\n' || sign == '\r';
    if value != copy.null && !(alone && value == "\\.") && !value.contains(special) {
        body.extend(value.as_bytes());
        return;
    }
    let mut quoted = String::with_capacity(value.len() + 2);
    quoted.push(quote);
    for sign in value.chars() {
        if sign == quote || sign == escape {
            quoted.push(escape);
        }
        quoted.push(sign);
    }
    quoted.push(quote);
    body.extend(quoted.as_bytes());
}

/// Appends a row.
pub(super) fn put_row(
    copy: &Copy,
    quotes: Quotes,
    types: &[SqlType],
    values: &[Datum],
    zone: &Zone,
    body: &mut Vec<u8>,
) {
    for (at, (value, ty)) in values.iter().zip(types).enumerate() {
        if at > 0 {
            body.extend(copy.delimiter.to_string().as_bytes());
        }
        match value {
            Datum::Null => body.extend(copy.null.as_bytes()),
            value => put(&text::format_in(value, *ty, zone), copy, quotes, types.len() == 1, body),
        }
    }
    body.push(b'\n');
}
