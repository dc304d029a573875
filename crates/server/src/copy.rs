//! COPY with text lines, in both directions; [`csv`] and [`packed`] have the other formats.
//!
//! ```text
//!   7 <tab> Kim <tab> \N <newline>          columns between tabs, \N for NULL
//!   8 <tab> a\tb <tab> c <newline>          a tab in a value is written \t
//! ```
//!
//! Rows are inserted in batches. All of them belong to one statement, so an error undoes them all.

mod csv;
mod packed;

use crate::session::{Call, Flush, Session};
use crate::wire::{Out, Reader, violation};
use isomer_sql::budget::Holding;
use isomer_sql::catalog::Catalog;
use isomer_sql::dates::TimeStyle;
use isomer_sql::datum::Datum;
use isomer_sql::foreign::Checks;
use isomer_sql::plan::Insert;
use isomer_sql::statement::{Action, Compiled, Copy, CopyDirection, CopyFormat, settle};
use isomer_sql::system::{self, SettingsView};
use isomer_sql::transaction::{Surroundings, Transaction};
use isomer_sql::zone::Zone;
use isomer_sql::{SqlError, SqlType, binary, code, text};
use std::cmp::Ordering;
use std::sync::Arc;

const BATCH_ROWS: usize = 1000;
/// The bytes after which a batch is inserted.
const BATCH_BYTES: usize = 4 << 20;
/// The most bytes of a line.
const LINE_BYTES_MAX: usize = 64 << 20;

/// The quotes of a csv COPY.
fn quotes_of(format: CopyFormat) -> Option<csv::Quotes> {
    match format {
        CopyFormat::Csv { quote, escape } => Some(csv::Quotes { quote, escape }),
        _ => None,
    }
}

/// A COPY FROM STDIN in progress.
pub(crate) struct CopyIn {
    compiled: Arc<Compiled>,
    /// The input after the last whole line, and the bytes of it that were searched for an end of
    /// line.
    rest: Vec<u8>,
    looked_to: usize,
    place: csv::Place,
    rows: Vec<Vec<Datum>>,
    rows_bytes: usize,
    /// The memory of the input and the rows.
    kept: Holding,
    /// The deferred foreign key checks of the rows, made at the end, and their memory.
    checks: Checks,
    checks_kept: Holding,
    lines: u64,
    count: u64,
    /// True after the header of a binary COPY.
    begun: bool,
    /// True after the line that ends the data.
    ended: bool,
}

impl CopyIn {
    /// The end of the next line or record.
    fn line_end(&mut self, format: CopyFormat) -> Option<usize> {
        let quotes = quotes_of(format);
        while let Some(byte) = self.rest.get(self.looked_to) {
            self.looked_to += 1;
            if self.place.ends(*byte, quotes) {
                return Some(self.looked_to - 1);
            }
        }
        None
    }
}

impl Session {
    pub(crate) fn begin_copy(
        &mut self,
        call: Call<'_>,
        out: &mut Out,
        flush: &mut dyn Flush,
    ) -> Result<(), SqlError> {
        self.begin_statement()?;
        let catalog = self.catalog();
        let compiled = self.plan(call, &catalog)?;
        let Action::Copy(copy) = &compiled.action else { unreachable!("a COPY stays one") };
        match &copy.direction {
            CopyDirection::In(plan) => {
                self.backend().planned_for = compiled.version;
                let held = self.backend().hold_all(&plan.table);
                if held.is_err() && self.catalog().version != catalog.version {
                    // A definition has overtaken the plan. This cannot happen once the table is
                    // locked.
                    return self.begin_copy(call, out, flush);
                }
                held?;
                describe(b'G', plan.source.output.len(), copy.format, out);
                self.copy = Some(CopyIn {
                    compiled: compiled.clone(),
                    rest: Vec::new(),
                    looked_to: 0,
                    place: csv::Place::default(),
                    rows: Vec::new(),
                    rows_bytes: 0,
                    kept: self.memory.statement.keep(0)?,
                    checks: Checks::default(),
                    checks_kept: self.memory.statement.keep(0)?,
                    lines: 0,
                    count: 0,
                    begun: false,
                    ended: false,
                });
                self.copying = Some(call.describes);
                Ok(())
            }
            CopyDirection::Out(plan) => {
                describe(b'H', plan.output.len(), copy.format, out);
                let around = self.surroundings();
                let types: Vec<SqlType> = plan.output.iter().map(|column| column.ty).collect();
                if copy.header {
                    let names = plan.output.iter().map(|column| Datum::text(&column.name));
                    let names: Vec<Datum> = names.collect();
                    let texts = vec![SqlType::Text; names.len()];
                    let zone = around.settings.zone();
                    out.message(b'd', |body| put_line(copy, &texts, &names, zone, body));
                }
                // The header is in one message with the first row, as clients expect.
                let is_binary = copy.format == CopyFormat::Binary;
                let mut head = is_binary;
                let budget = self.memory.statement.clone();
                let rows = compiled.copy_out(
                    self.backend(),
                    &around,
                    &catalog,
                    &mut |values: &[Datum]| {
                        let kinds = types.iter().copied();
                        let known = (&*catalog, &around);
                        let values = &*system::with_names(values, kinds, |_| !is_binary, known);
                        // Each character may need a backslash.
                        let (mark, bytes) = (budget.mark(), 2 * Out::row_bytes(values));
                        budget.charge(bytes)?;
                        out.reserve(bytes);
                        let zone = around.settings.zone();
                        out.message(b'd', |body| {
                            if std::mem::take(&mut head) {
                                packed::put_head(body);
                            }
                            put_line(copy, &types, values, zone, body);
                        });
                        budget.back_to(mark);
                        flush.flush_some(out)
                    },
                )?;
                if is_binary {
                    out.message(b'd', |body| {
                        if head {
                            packed::put_head(body);
                        }
                        packed::put_end(body);
                    });
                }
                out.empty(b'c');
                out.complete(&format!("COPY {rows}"));
                Ok(())
            }
        }
    }

    /// Handles a message during a COPY. The remaining messages of a failed COPY are ignored.
    pub(crate) fn copy_message(
        &mut self,
        tag: u8,
        reader: &mut Reader<'_>,
        out: &mut Out,
        flush: &mut dyn Flush,
    ) {
        let Some(mut copy) = self.copy.take() else { return };
        let _limited = self.watched();
        let ended = match tag {
            b'd' => self.copy_data(&mut copy, reader.rest()).err().map(Err),
            b'c' => Some(self.copy_end(&mut copy).map(|()| copy.count)),
            b'f' => {
                let why = reader.text().unwrap_or("no reason given");
                let message = format!("COPY from stdin failed: {why}");
                Some(Err(SqlError::new(code::CANCELED, message)))
            }
            b'S' | b'H' => None,
            other => {
                let what = format!("a message of type {other:#x} in the middle of a COPY");
                Some(Err(violation(&what)))
            }
        };
        self.copy = Some(copy);
        if let Some(ended) = ended {
            self.end_copy(ended, out, flush);
        }
    }

    /// Ends a COPY, reports its result, and runs the rest of a simple query.
    pub(crate) fn end_copy(
        &mut self,
        done: Result<u64, SqlError>,
        out: &mut Out,
        flush: &mut dyn Flush,
    ) {
        self.copy = None;
        let Some(simple) = self.copying.take() else { return };
        let failed = done.is_err();
        let pending = self.pending.take();
        match done {
            Ok(count) => out.complete(&format!("COPY {count}")),
            Err(error) => self.tell(error, out),
        }
        if let (Some((text, at)), false) = (pending, failed) {
            self.go_on(&text, at, out, flush);
        } else if simple {
            self.end_simple(!failed, out);
        } else if failed {
            self.skip_to_sync();
        }
    }

    fn copy_data(&mut self, copy: &mut CopyIn, data: &[u8]) -> Result<(), SqlError> {
        let compiled = copy.compiled.clone();
        let Action::Copy(options) = &compiled.action else { return Ok(()) };
        let CopyDirection::In(plan) = &options.direction else { return Ok(()) };
        self.backend().check_cancel()?;
        // A growing buffer has room for twice its size.
        copy.kept.resize(2 * (copy.rest.len() + data.len()) + copy.rows_bytes)?;
        copy.rest.extend_from_slice(data);
        if options.format == CopyFormat::Binary {
            return self.packed_data(copy, options, plan);
        }
        let mut at = 0;
        while let Some(end) = copy.line_end(options.format) {
            let line = &copy.rest[at..end];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            at = end + 1;
            copy.lines += 1;
            if copy.ended || (options.header && copy.lines == 1) {
                continue;
            }
            if line == b"\\." {
                copy.ended = true;
                continue;
            }
            let columns = &plan.source.output;
            // The values, and the texts that they are parsed from.
            copy.kept.more(line_bytes(line, columns.len()))?;
            copy.rows_bytes += line_bytes(line, columns.len());
            let types = columns.iter().map(|column| column.ty);
            let times = (self.settings.times(), self.begun_us());
            let row = match quotes_of(options.format) {
                Some(quotes) => read_record(options, line, quotes, types, times),
                None => read_line(options, line, types, times),
            };
            copy.rows.push(row.map_err(|error| located(error, &plan.table.name, copy.lines))?);
            if copy.rows.len() >= BATCH_ROWS || copy.rows_bytes >= BATCH_BYTES {
                self.copy_rows(copy, options)?;
            }
        }
        copy.rest.drain(..at);
        copy.looked_to -= at;
        if copy.rest.is_empty() && copy.rest.capacity() > BATCH_BYTES {
            copy.rest = Vec::new();
        }
        if copy.rest.len() > LINE_BYTES_MAX {
            let message = format!("line {} is longer than 64 MB", copy.lines + 1);
            return Err(SqlError::new(code::PROGRAM_LIMIT, message));
        }
        Ok(())
    }

    /// Reads binary data.
    fn packed_data(
        &mut self,
        copy: &mut CopyIn,
        options: &Copy,
        plan: &Insert,
    ) -> Result<(), SqlError> {
        let columns = &plan.source.output;
        let mut at = 0;
        while at < copy.rest.len() {
            let rest = &copy.rest[at..];
            if copy.ended {
                let message = "received copy data after EOF marker";
                return Err(SqlError::new(code::BAD_COPY, message));
            }
            let found = match copy.begun {
                true => packed::row(rest, columns.iter().map(|column| column.ty)),
                false => packed::head(rest),
            };
            let line = copy.lines + 1;
            match found.map_err(|error| located(error, &plan.table.name, line))? {
                packed::Found::Part => break,
                packed::Found::Head(size) => (at, copy.begun) = (at + size, true),
                packed::Found::End => (at, copy.ended) = (at + 2, true),
                packed::Found::Row(row, size) => {
                    (at, copy.lines) = (at + size, line);
                    let bytes = 2 * size + columns.len() * size_of::<Datum>();
                    copy.kept.more(bytes)?;
                    copy.rows_bytes += bytes;
                    copy.rows.push(row);
                }
            }
            if copy.rows.len() >= BATCH_ROWS || copy.rows_bytes >= BATCH_BYTES {
                self.copy_rows(copy, options)?;
            }
        }
        copy.rest.drain(..at);
        if copy.rest.len() > LINE_BYTES_MAX {
            let message = format!("row {} is longer than 64 MB", copy.lines + 1);
            return Err(SqlError::new(code::PROGRAM_LIMIT, message));
        }
        Ok(())
    }

    fn copy_end(&mut self, copy: &mut CopyIn) -> Result<(), SqlError> {
        let compiled = copy.compiled.clone();
        let Action::Copy(options) = &compiled.action else { return Ok(()) };
        let is_binary = options.format == CopyFormat::Binary;
        if is_binary && !(copy.begun && copy.rest.is_empty()) {
            return Err(SqlError::new(code::BAD_COPY, "unexpected EOF in COPY data"));
        }
        if copy.place.is_quoted() {
            let error = SqlError::new(code::BAD_COPY, "unterminated CSV quoted field");
            let CopyDirection::In(plan) = &options.direction else { return Err(error) };
            return Err(located(error, &plan.table.name, copy.lines + 1));
        }
        if !copy.rest.is_empty() {
            self.copy_data(copy, b"\n")?;
        }
        self.copy_rows(copy, options)?;
        let (around, catalog) = (self.surroundings(), self.catalog());
        settle(&mut copy.checks, self.backend(), &around, &catalog)
    }

    fn copy_rows(&mut self, copy: &mut CopyIn, options: &Copy) -> Result<(), SqlError> {
        let rows = std::mem::take(&mut copy.rows);
        copy.rows_bytes = 0;
        let (around, catalog) = (self.surroundings(), self.catalog());
        let rows = numbered(rows, options, &catalog, &around)?;
        copy.count += options.insert(rows, &mut copy.checks, self.backend(), &around, &catalog)?;
        copy.checks_kept.resize(copy.checks.bytes())
    }
}

/// The rows of a COPY with the numbers of the catalog objects that they name.
fn numbered(
    mut rows: Vec<Vec<Datum>>,
    options: &Copy,
    catalog: &Catalog,
    around: &Surroundings,
) -> Result<Vec<Vec<Datum>>, SqlError> {
    let CopyDirection::In(plan) = &options.direction else { return Ok(rows) };
    let types = plan.source.output.iter().map(|column| column.ty);
    for (at, ty) in types.enumerate() {
        let SqlType::Reg(reg) = ty else { continue };
        for value in rows.iter_mut().filter_map(|row| row.get_mut(at)) {
            if let Datum::Text(name) = value {
                *value = Datum::Int(system::object_number(catalog, around, reg, name)?);
            }
        }
    }
    Ok(rows)
}

fn line_bytes(line: &[u8], columns: usize) -> usize {
    3 * line.len() + columns * size_of::<Datum>() + size_of::<Vec<Datum>>()
}

fn located(error: SqlError, table: &str, line: u64) -> SqlError {
    let place = format!("COPY {table}, line {line}");
    let detail = match &error.detail {
        Some(detail) => format!("{detail} {place}"),
        None => place,
    };
    error.detail(detail)
}

fn describe(tag: u8, columns: usize, format: CopyFormat, out: &mut Out) {
    let binary = i16::from(format == CopyFormat::Binary);
    out.message(tag, |body| {
        body.push(binary as u8);
        body.extend((columns as i16).to_be_bytes());
        (0..columns).for_each(|_| body.extend(binary.to_be_bytes()));
    });
}

fn read_line(
    copy: &Copy,
    line: &[u8],
    types: impl ExactSizeIterator<Item = SqlType>,
    (times, now_us): (&TimeStyle, i64),
) -> Result<Vec<Datum>, SqlError> {
    let line = binary::utf8(line)?;
    let expected = types.len();
    let fields = split(line, copy.delimiter);
    check_count(fields.len(), expected)?;
    let read = |(field, ty): (&str, SqlType)| {
        if field == copy.null {
            return Ok(Datum::Null);
        }
        if field.contains('\\') {
            text::parse_sent(&unescape(field), ty, times, now_us)
        } else {
            text::parse_sent(field, ty, times, now_us)
        }
    };
    fields.into_iter().zip(types).map(read).collect()
}

fn check_count(given: usize, expected: usize) -> Result<(), SqlError> {
    let what = match given.cmp(&expected) {
        Ordering::Equal => return Ok(()),
        Ordering::Less => "missing",
        Ordering::Greater => "extra",
    };
    let message = format!("{what} data: {expected} columns are expected, {given} are given");
    Err(SqlError::new(code::BAD_COPY, message))
}

/// Parses a record of the format csv, which has several lines if ends of lines are quoted.
fn read_record(
    copy: &Copy,
    record: &[u8],
    quotes: csv::Quotes,
    types: impl ExactSizeIterator<Item = SqlType>,
    (times, now_us): (&TimeStyle, i64),
) -> Result<Vec<Datum>, SqlError> {
    let fields = csv::fields(binary::utf8(record)?, copy, quotes)?;
    check_count(fields.len(), types.len())?;
    let read = |(field, ty): (Option<String>, SqlType)| match field {
        None => Ok(Datum::Null),
        Some(field) => text::parse_sent(&field, ty, times, now_us),
    };
    fields.into_iter().zip(types).map(read).collect()
}

/// The parts between delimiters that are not escaped by a backslash.
fn split(line: &str, delimiter: char) -> Vec<&str> {
    let (mut fields, mut from, mut escaped) = (Vec::new(), 0, false);
    for (at, sign) in line.char_indices() {
        if escaped {
            escaped = false;
        } else if sign == '\\' {
            escaped = true;
        } else if sign == delimiter {
            fields.push(&line[from..at]);
            from = at + sign.len_utf8();
        }
    }
    fields.push(&line[from..]);
    fields
}

fn unescape(field: &str) -> String {
    let mut text = String::with_capacity(field.len());
    let mut signs = field.chars();
    while let Some(sign) = signs.next() {
        if sign != '\\' {
            text.push(sign);
            continue;
        }
        match signs.next() {
            Some('b') => text.push('\u{8}'),
            Some('f') => text.push('\u{c}'),
            Some('n') => text.push('\n'),
            Some('r') => text.push('\r'),
            Some('t') => text.push('\t'),
            Some('v') => text.push('\u{b}'),
            Some(other) => text.push(other),
            None => text.push('\\'),
        }
    }
    text
}

fn put_line(copy: &Copy, types: &[SqlType], values: &[Datum], zone: &Zone, body: &mut Vec<u8>) {
    if let Some(quotes) = quotes_of(copy.format) {
        return csv::put_row(copy, quotes, types, values, zone, body);
    }
    if copy.format == CopyFormat::Binary {
        return packed::put_row(types, values, body);
    }
    for (at, (value, ty)) in values.iter().zip(types).enumerate() {
        if at > 0 {
            body.extend(copy.delimiter.to_string().as_bytes());
        }
        if value.is_null() {
            body.extend(copy.null.as_bytes());
            continue;
        }
        for sign in text::format_in(value, *ty, zone).chars() {
            match sign {
                '\\' => body.extend(b"\\\\"),
                '\n' => body.extend(b"\\n"),
                '\r' => body.extend(b"\\r"),
                '\t' => body.extend(b"\\t"),
                '\u{8}' => body.extend(b"\\b"),
                '\u{b}' => body.extend(b"\\v"),
                '\u{c}' => body.extend(b"\\f"),
                sign => {
                    if sign == copy.delimiter {
                        body.push(b'\\');
                    }
                    body.extend(sign.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
        }
    }
    body.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_where_no_backslash_stands() {
        assert_eq!(split("a\tb\\\tc\t", '\t'), ["a", "b\\\tc", ""]);
        assert_eq!(unescape("a\\tb\\\\c\\N"), "a\tb\\cN");
    }
}
