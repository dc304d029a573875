//! Lines of comma-separated fields, with the position of each field for error messages.

use super::{Fault, OnFault, RecordingError, Skipped};
use std::io::{BufRead, BufReader, Read};

/// The number of skipped lines whose faults are remembered.
const FAULTS_KEPT: usize = 5;

/// Reads lines, splits them at commas (quotes protect commas), and counts them.
pub(crate) struct Lines<R> {
    input: BufReader<R>,
    raw: Vec<u8>,
    /// The fields' text, without quotes.
    text: String,
    /// Per field: its end in `text`, and its first column in the line, from 1.
    fields: Vec<(usize, usize)>,
    /// Lines read, the header included.
    pub(crate) line: u64,
    on_fault: OnFault,
    skipped: u64,
    faults: Vec<Fault>,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(input: R, on_fault: OnFault) -> Lines<R> {
        Lines {
            input: BufReader::with_capacity(1 << 18, input),
            raw: Vec::new(),
            text: String::new(),
            fields: Vec::new(),
            line: 0,
            on_fault,
            skipped: 0,
            faults: Vec::new(),
        }
    }

    /// Moves to the next line that is not empty; false at the end.
    pub(crate) fn advance(&mut self) -> Result<bool, RecordingError> {
        loop {
            self.raw.clear();
            if self.input.read_until(b'\n', &mut self.raw)? == 0 {
                return Ok(false);
            }
            self.line += 1;
            while matches!(self.raw.last(), Some(b'\n' | b'\r')) {
                self.raw.pop();
            }
            if self.raw.is_empty() {
                continue;
            }
            match self.split() {
                Ok(()) => return Ok(true),
                Err(fault) => self.fault(fault)?,
            }
        }
    }

    fn split(&mut self) -> Result<(), Fault> {
        self.text.clear();
        self.fields.clear();
        let Ok(line) = std::str::from_utf8(&self.raw) else {
            return Err(self.fault_at(1, "line", "not UTF-8 text".to_owned()));
        };
        if self.raw.contains(&b'"') {
            return self.split_quoted();
        }
        self.text.push_str(line);
        let mut start = 0;
        for (at, &byte) in self.raw.iter().enumerate() {
            if byte == b',' {
                self.fields.push((at, start + 1));
                start = at + 1;
            }
        }
        self.fields.push((self.raw.len(), start + 1));
        Ok(())
    }

    /// As `split`, for a line with quotes; then `text` holds the unquoted fields.
    fn split_quoted(&mut self) -> Result<(), Fault> {
        let line = String::from_utf8_lossy(&self.raw).into_owned();
        let (mut quoted, mut column, mut start) = (false, 0, 1);
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            column += 1;
            match c {
                '"' if quoted && chars.peek() == Some(&'"') => {
                    chars.next();
                    column += 1;
                    self.text.push('"');
                }
                '"' => quoted = !quoted,
                ',' if !quoted => {
                    // The comma stays in the text so that both forms of lines share `field`.
                    self.fields.push((self.text.len(), start));
                    self.text.push(',');
                    start = column + 1;
                }
                c => self.text.push(c),
            }
        }
        self.fields.push((self.text.len(), start));
        if quoted {
            return Err(self.fault_at(start, "line", "a quote is not closed".to_owned()));
        }
        Ok(())
    }

    /// The number of fields of the line.
    pub(crate) fn count(&self) -> usize {
        self.fields.len()
    }

    /// The text of field `index`; empty if the line has fewer fields.
    pub(crate) fn field(&self, index: usize) -> &str {
        let start = match index {
            0 => 0,
            _ => self.fields.get(index - 1).map_or(self.text.len(), |&(end, _)| end + 1),
        };
        let end = self.fields.get(index).map_or(self.text.len(), |&(end, _)| end);
        self.text.get(start..end).unwrap_or("")
    }

    /// The whole line.
    pub(crate) fn whole(&self) -> &str {
        &self.text
    }

    /// A fault of field `index`.
    pub(crate) fn fault_in(&self, index: usize, field: &'static str, problem: String) -> Fault {
        let column = self.fields.get(index).map_or(self.raw.len() + 1, |&(_, column)| column);
        self.fault_at(column, field, problem)
    }

    fn fault_at(&self, column: usize, field: &'static str, problem: String) -> Fault {
        Fault { line: self.line, column, field, problem }
    }

    /// Stops with the fault or counts it and continues, as `on_fault` says.
    pub(crate) fn fault(&mut self, fault: Fault) -> Result<(), RecordingError> {
        if self.on_fault == OnFault::Stop {
            return Err(RecordingError::Malformed(fault));
        }
        self.skipped += 1;
        if self.faults.len() < FAULTS_KEPT {
            self.faults.push(fault);
        }
        Ok(())
    }

    pub(crate) fn skipped(&self) -> Skipped<'_> {
        Skipped { lines: self.skipped, first: &self.faults }
    }
}

/// Microseconds from `seconds[.decimals]` or `YYYY-MM-DD[ T]HH:MM[:SS[.decimals]][Z]`.
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    match text.as_bytes() {
        [_, _, _, _, b'-', ..] => parse_date_time(text),
        _ => parse_seconds(text),
    }
}

fn parse_seconds(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return None;
    }
    let mut micros = 0i64;
    for place in 0..6 {
        micros = micros * 10 + fraction.as_bytes().get(place).map_or(0, |b| i64::from(b - b'0'));
    }
    let total = whole.parse::<i64>().ok()?.checked_mul(1_000_000)?.checked_add(micros)?;
    Some(if negative { -total } else { total })
}

fn parse_date_time(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, clock) = text.split_at_checked(10)?;
    let mut date = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let mut clock = clock.get(1..).unwrap_or("").split(':');
    let hours =
        clock.next().filter(|t| !t.is_empty()).map_or(Some(0), |t| t.parse::<i64>().ok())?;
    let minutes = clock.next().map_or(Some(0), |t| t.parse::<i64>().ok())?;
    let micros = clock.next().map_or(Some(0), parse_seconds)?;
    if !(0..=24).contains(&hours)
        || !(0..60).contains(&minutes)
        || !(0..=60_999_999).contains(&micros)
    {
        return None;
    }
    let days = days_since_1970(year, month, day);
    Some((days * 86_400 + hours * 3600 + minutes * 60) * 1_000_000 + micros)
}

/// Days of the Gregorian calendar, counting years from March so that leap days come last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_seconds_or_as_dates() {
        assert_eq!(parse_time("1.5"), Some(1_500_000));
        assert_eq!(parse_time("0.000001"), Some(1));
        assert_eq!(parse_time("-2"), Some(-2_000_000));
        assert_eq!(parse_time("1970-01-02"), Some(86_400_000_000));
        assert_eq!(parse_time("2013-01-01T05:15"), Some(1_357_017_300_000_000));
        assert_eq!(parse_time("2015-01-01T00:00:01Z"), Some(1_420_070_401_000_000));
        assert_eq!(parse_time("2010-07-19 19:12:12.25"), Some(1_279_566_732_250_000));
        for wrong in [
            "",
            "1.x",
            "NaN",
            "2013-13-01",
            "inf",
            "1e9",
            "99999999999999999",
            "2013-01-01 9223372036854775807:00",
            "2013-01-01 00:61",
        ] {
            assert_eq!(parse_time(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn fields_may_be_quoted() {
        let mut lines = Lines::new(&b"a,\"b,\"\"c\"\"\",d\n\nx,y,\n"[..], OnFault::Stop);
        assert!(lines.advance().unwrap());
        let fields: Vec<&str> = (0..lines.count()).map(|i| lines.field(i)).collect();
        assert_eq!(fields, ["a", "b,\"c\"", "d"]);
        assert!(lines.advance().unwrap());
        assert_eq!((lines.line, lines.count(), lines.field(1), lines.field(2)), (3, 3, "y", ""));
        assert!(!lines.advance().unwrap());
    }
}
