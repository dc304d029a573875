//! `to_date` and `to_timestamp` with two arguments: a time is read in the format of a pattern.
//!
//! ```text
//!   to_timestamp('16 May, 1976 8:30', 'DD Mon, YYYY HH24:MI')
//!     DD    16      all adjacent digits, but at most two if another number follows immediately
//!     ' '           a separator of the pattern matches any separator of the text, or none
//!     Mon   May     names in any case
//!     ', '          …
//! ```
//!
//! Blanks in front of a field are ignored. Fields that are missing in the pattern are those of
//! midnight on the first of January of the year 0 (1 BC in PostgreSQL). Errors name the field.

use super::time_patterns::{self, Field, Part};
use super::times::{DAY_US, HOUR_US, MINUTE_US, MONTHS, SECOND_US, WEEKDAYS, roman};
use crate::dates::{civil, days};
use crate::error::{SqlError, clipped, code};
use std::collections::BTreeMap;

/// A text as a time: microseconds since 1970 in local time, and the UTC offset in seconds if the
/// pattern has one (`TZH`, `TZM`).
///
/// # Errors
/// `22007` for a text that does not match the pattern, `22008` for a date or time of day that does
/// not exist; `0A000` for patterns that are not supported.
pub(super) fn read(text: &str, pattern: &str) -> Result<(i64, Option<i64>), SqlError> {
    let mut reader = Reader { rest: text, passed: "", skipped: 0, fields: BTreeMap::new() };
    reader.skip_blanks();
    let parts = time_patterns::parts(pattern);
    for (at, part) in parts.iter().enumerate() {
        if reader.rest.is_empty() {
            break;
        }
        match part {
            Part::Quoted(_) => reader.pass_letter(),
            Part::Sign(sign) if sign.is_alphanumeric() => reader.pass_letter(),
            Part::Sign(_) => reader.pass_separator(),
            Part::Field(Field { name: "FX", .. }) => return Err(unsupported("FX")),
            Part::Field(field) => {
                let is_number_next = parts.get(at + 1).is_some_and(is_number);
                let is_free = field.is_plain || field.ordinal.is_some() || !is_number_next;
                reader.skip_blanks();
                if matches!(field.name, "TZH" | "TZM") {
                    zone_sign(&mut reader, field.name);
                }
                reader.field(field.name, is_free)?;
                if field.ordinal.is_some() {
                    (0..2).for_each(|_| reader.pass_letter());
                }
                reader.skip_blanks();
            }
        }
    }
    Ok((reader.time(text)?, zone(&reader, text)?))
}

fn begins_with(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start))
}

/// True for a numeric field: a numeric field before it must have its full number of digits and no
/// more.
fn is_number(part: &Part) -> bool {
    match part {
        Part::Field(field) => digits_of(field.name).is_some(),
        Part::Quoted(sign) | Part::Sign(sign) => sign.is_ascii_digit(),
    }
}

/// How many digits a field has; `None` if it is not numeric.
fn digits_of(known: &str) -> Option<usize> {
    Some(match known {
        "J" => 10,
        "US" => 6,
        "SSSSS" | "SSSS" => 5,
        "YYYY" | "IYYY" | "Y,YYY" => 4,
        "YYY" | "IYY" | "DDD" | "IDDD" | "MS" => 3,
        "YY" | "IY" | "MM" | "DD" | "HH24" | "HH12" | "HH" | "MI" | "SS" | "WW" | "IW" | "CC"
        | "TZH" | "TZM" => 2,
        "Y" | "I" | "D" | "ID" | "W" | "Q" => 1,
        _ => return known.strip_prefix("FF").and_then(|digits| digits.parse().ok()),
    })
}

fn unsupported(what: &str) -> SqlError {
    SqlError::unsupported(format!("the pattern {what} of to_date and to_timestamp"))
}

fn invalid(message: String) -> SqlError {
    SqlError::new(code::INVALID_DATETIME, message)
}

/// Reads the sign of a UTC offset, which may have been passed as a separator. An offset that
/// begins with `TZM` is positive.
fn zone_sign(reader: &mut Reader<'_>, known: &str) {
    let mut sign = 1;
    if known == "TZH" {
        let passed = reader.skipped > 0 && reader.passed.ends_with('-');
        sign = if passed || reader.rest.starts_with('-') { -1 } else { 1 };
        if reader.rest.starts_with(['+', '-']) {
            reader.rest = &reader.rest[1..];
        }
    }
    reader.fields.entry("zone sign").or_insert(sign);
}

/// The UTC offset in seconds, if there is one.
fn zone(reader: &Reader<'_>, text: &str) -> Result<Option<i64>, SqlError> {
    let Some(sign) = reader.fields.get("zone sign") else { return Ok(None) };
    let (hours, minutes) = (reader.get("TZH", 0), reader.get("TZM", 0));
    match (0..=15).contains(&hours) && (0..60).contains(&minutes) {
        true => Ok(Some(sign * (hours * 60 + minutes) * 60)),
        false => {
            let message = format!("time zone displacement out of range: \"{}\"", clipped(text));
            Err(SqlError::new("22009", message))
        }
    }
}

/// The rest of a text, and the fields that were read.
struct Reader<'t> {
    rest: &'t str,
    /// The separator that was passed last.
    passed: &'t str,
    /// Blanks and separators that were passed and that the pattern has not named.
    skipped: i32,
    fields: BTreeMap<&'static str, i64>,
}

impl Reader<'_> {
    fn pass_letter(&mut self) {
        match self.skipped > 0 {
            true => self.skipped -= 1,
            false => self.rest = self.rest.get(self.next_len()..).unwrap_or(""),
        }
    }

    fn next_len(&self) -> usize {
        self.rest.chars().next().map_or(0, char::len_utf8)
    }

    fn pass_separator(&mut self) {
        self.skipped -= 1;
        if self.rest.starts_with(|c: char| c.is_ascii() && !c.is_ascii_alphanumeric()) {
            (self.passed, self.rest) = self.rest.split_at(1);
            self.skipped += 1;
        }
    }

    fn skip_blanks(&mut self) {
        let left = self.rest.trim_start();
        self.skipped += (self.rest.len() - left.len()) as i32;
        self.rest = left;
    }

    fn field(&mut self, known: &'static str, is_free: bool) -> Result<(), SqlError> {
        match known {
            "TZ" | "OF" => return Err(unsupported(known)),
            "RM" => {
                // Longer names precede their prefixes.
                let mut months: Vec<i64> = (1..=12).collect();
                months.sort_by_key(|month| std::cmp::Reverse(roman(*month).len()));
                let names: Vec<&str> = months.iter().map(|month| roman(*month)).collect();
                let at = self.one_of(known, &names)?;
                self.set("MM", months[at])?;
            }
            "MONTH" => self.name(known, "MM", &MONTHS, None)?,
            "MON" => self.name(known, "MM", &MONTHS, Some(3))?,
            // The weekday follows from the date.
            "DAY" => self.name(known, "weekday", &WEEKDAYS, None)?,
            "DY" => self.name(known, "weekday", &WEEKDAYS, Some(3))?,
            "AM" | "PM" => self.name(known, "half", &["AM", "PM"], None)?,
            "A.M." | "P.M." => self.name(known, "half", &["A.M.", "P.M."], None)?,
            "BC" | "AD" => self.name(known, "era", &["BC", "AD"], None)?,
            "B.C." | "A.D." => self.name(known, "era", &["B.C.", "A.D."], None)?,
            "Y,YYY" => {
                let (thousands, _) = self.number(known, None)?;
                self.pass_separator();
                let (rest, _) = self.number(known, Some(3))?;
                self.set("YYYY", thousands * 1000 + rest)?;
            }
            _ => {
                let digits = digits_of(known).expect("all others are numbers");
                let (value, length) = self.number(known, Some(digits).filter(|_| !is_free))?;
                let fraction =
                    |digits: usize| value * 10i64.pow(digits.saturating_sub(length) as u32);
                match known {
                    "MS" => self.set("MS", fraction(3))?,
                    "US" => self.set("US", fraction(6))?,
                    _ if known.starts_with("FF") => self.set("US", fraction(6))?,
                    "HH24" => self.set("hour", value)?,
                    "HH12" | "HH" => {
                        if !(1..=12).contains(&value) {
                            let message =
                                format!("hour \"{value}\" is invalid for the 12-hour clock");
                            let hint = "Use the 24-hour clock, or give an hour between 1 and 12.";
                            return Err(invalid(message).hint(hint));
                        }
                        self.set("hour", value)?;
                        self.fields.insert("is of 12", 1);
                    }
                    "SSSS" | "SSSSS" => self.set("SSSS", value)?,
                    "YYY" | "YY" | "Y" => self.set("YYYY", near_2020(value))?,
                    "IYY" | "IY" | "I" => self.set("IYYY", near_2020(value))?,
                    // A quarter alone does not determine a date.
                    "Q" => {}
                    other => self.set(other, value)?,
                }
                if matches!(known, "YY" | "Y") {
                    self.fields.insert("of century", value);
                }
            }
        }
        Ok(())
    }

    fn set(&mut self, field: &'static str, value: i64) -> Result<(), SqlError> {
        match self.fields.insert(field, value) {
            Some(other) if other != value => {
                let message =
                    format!("conflicting values for \"{field}\" field in formatting string");
                let detail = "This value contradicts a previous setting for the same field type.";
                Err(invalid(message).detail(detail))
            }
            _ => Ok(()),
        }
    }

    /// Reads a number of exactly this many digits, or fewer if there are no more; without a limit,
    /// all digits. Returns its length as well.
    fn number(&mut self, known: &str, digits: Option<usize>) -> Result<(i64, usize), SqlError> {
        let is_signed = digits.is_none() && self.rest.starts_with(['-', '+']);
        let start = usize::from(is_signed);
        let is_digit = |byte: &u8| byte.is_ascii_digit();
        let length = self.rest.as_bytes()[start..].iter().take_while(|byte| is_digit(byte)).count();
        let length = digits.map_or(length, |digits| length.min(digits));
        if length == 0 {
            let digits = digits_of(known).unwrap_or(usize::MAX);
            let shown: String = self.rest.chars().take(digits).collect();
            let message = format!("invalid value \"{}\" for \"{known}\"", clipped(&shown));
            return Err(invalid(message).detail("Value must be an integer."));
        }
        let (read, rest) = self.rest.split_at(start + length);
        let value = read.parse().ok().filter(|value| i32::try_from(*value).is_ok());
        let value: i64 = value.ok_or_else(|| {
            let message = format!("value for \"{known}\" in source string is out of range");
            let detail = "Value must be in the range -2147483648 to 2147483647.";
            SqlError::new(code::DATETIME_OVERFLOW, message).detail(detail)
        })?;
        self.rest = rest;
        self.skipped = 0;
        Ok((value, length))
    }

    /// Reads one of some names, or of their abbreviations.
    fn name(
        &mut self,
        known: &str,
        field: &'static str,
        names: &[&'static str],
        length: Option<usize>,
    ) -> Result<(), SqlError> {
        let short = |name: &&'static str| &name[..length.unwrap_or(name.len())];
        let at = self.one_of(known, &names.iter().map(short).collect::<Vec<_>>())?;
        self.set(field, at as i64 + 1)
    }

    /// The index of the first of some words that the text begins with.
    fn one_of(&mut self, known: &str, words: &[&str]) -> Result<usize, SqlError> {
        let Some(at) = words.iter().position(|word| begins_with(self.rest, word)) else {
            let message = format!("invalid value \"{}\" for \"{known}\"", clipped(self.rest));
            let detail = "The given value did not match any of the allowed values for this field.";
            return Err(invalid(message).detail(detail));
        };
        self.rest = &self.rest[words[at].len()..];
        self.skipped = 0;
        Ok(at)
    }

    /// The time that the fields describe.
    fn time(&self, text: &str) -> Result<i64, SqlError> {
        let out_of_range = || {
            let message = format!("date/time field value out of range: \"{}\"", clipped(text));
            SqlError::new(code::DATETIME_OVERFLOW, message)
        };
        let within = self.within_day().ok_or_else(out_of_range)?;
        let day = self.day()?.ok_or_else(out_of_range)?;
        day.checked_mul(DAY_US).and_then(|day| day.checked_add(within)).ok_or_else(out_of_range)
    }

    fn get(&self, field: &str, usual: i64) -> i64 {
        self.fields.get(field).copied().unwrap_or(usual)
    }

    fn has(&self, fields: &[&str]) -> bool {
        fields.iter().any(|field| self.fields.contains_key(field))
    }

    fn within_day(&self) -> Option<i64> {
        let seconds = self.get("SSSS", 0);
        let mut hour = self.get("hour", seconds / 3600);
        match self.get("half", 0) {
            2 if hour < 12 => hour += 12,
            1 if hour == 12 => hour = 0,
            0 if hour == 12 && self.has(&["is of 12"]) => hour = 0,
            _ => {}
        }
        let (minute, second) = (self.get("MI", seconds / 60 % 60), self.get("SS", seconds % 60));
        let fraction = self.get("MS", 0) * 1000 + self.get("US", 0);
        let fits = (0..24).contains(&hour)
            && (0..SECOND_US).contains(&fraction)
            && [minute, second].iter().all(|part| (0..60).contains(part))
            && (0..86_400).contains(&seconds);
        let whole = hour * HOUR_US + minute * MINUTE_US + second * SECOND_US;
        fits.then_some(whole + fraction)
    }

    /// The astronomical year: the year before 1 is 0.
    fn year(&self) -> i64 {
        let year = match (self.fields.get("CC"), self.fields.get("of century")) {
            (Some(century), Some(0)) => century * 100,
            (Some(century), Some(year)) => (century - 1) * 100 + year % 100,
            (Some(century), None) if !self.has(&["YYYY"]) => (century - 1) * 100 + 1,
            _ => self.get("YYYY", 0),
        };
        let is_before_christ = self.get("era", 2) == 1;
        match year.signum() {
            1 if is_before_christ => 1 - year,
            // The year before 1 is -1 here.
            -1 => year + 1,
            _ => year,
        }
    }

    /// The day since 1970; `None` if no date was read.
    fn day(&self) -> Result<Option<i64>, SqlError> {
        let is_iso = self.has(&["IYYY", "IW", "ID", "IDDD"]);
        if is_iso && self.has(&["YYYY", "MM", "DD", "DDD", "WW", "W", "CC"]) {
            let hint =
                "Do not mix Gregorian and ISO week date conventions in a formatting template.";
            return Err(invalid("invalid combination of date conventions".to_owned()).hint(hint));
        }
        if let Some(julian) = self.fields.get("J") {
            return Ok(Some(julian - 2_440_588));
        }
        if is_iso {
            return Ok(self.iso_day());
        }
        let (year, month) = (self.year(), self.get("MM", 1));
        let of_year = self.fields.get("DDD").copied();
        let of_year = of_year.or_else(|| Some((self.fields.get("WW")? - 1) * 7 + 1));
        if let Some(day) = of_year.filter(|_| !self.has(&["MM", "DD"])) {
            let found = days(year, 1, 1) + day - 1;
            return Ok((day > 0 && civil(found).0 == year).then_some(found));
        }
        let of_month = self.fields.get("W").map_or(1, |week| (week - 1) * 7 + 1);
        let day = self.get("DD", of_month);
        let is_month = (1..=12).contains(&month) && (1..=31).contains(&day);
        let found = is_month.then(|| days(year, month, day));
        Ok(found.filter(|found| civil(*found).1 == month as u32))
    }

    fn iso_day(&self) -> Option<i64> {
        let fourth = days(self.get("IYYY", 0), 1, 4);
        let monday = fourth - (fourth + 3).rem_euclid(7);
        if let Some(day) = self.fields.get("IDDD") {
            return (1..=371).contains(day).then(|| monday + day - 1);
        }
        let (week, day) = (self.get("IW", 1), self.get("ID", 1));
        ((1..=53).contains(&week) && (1..=7).contains(&day))
            .then(|| monday + (week - 1) * 7 + day - 1)
    }
}

/// Completes a year whose first digits are missing: the candidate nearest to 2020.
fn near_2020(year: i64) -> i64 {
    match year {
        0..70 => year + 2000,
        70..100 => year + 1900,
        100..520 => year + 2000,
        520..1000 => year + 1000,
        _ => year,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_as(text: &str, pattern: &str) -> String {
        match read(text, pattern) {
            Ok((micros, ahead)) => {
                let micros = micros - ahead.unwrap_or(0) * SECOND_US;
                let (year, month, day) = civil(micros.div_euclid(DAY_US));
                let within = micros.rem_euclid(DAY_US);
                let clock = [within / HOUR_US, within / MINUTE_US % 60, within / SECOND_US % 60];
                let [hour, minute, second] = clock;
                let micros = within % SECOND_US;
                format!("{year}-{month}-{day} {hour}:{minute}:{second}.{micros}")
            }
            Err(error) => format!("{}: {}", error.code, error.message),
        }
    }

    /// The results of PostgreSQL 15.
    #[test]
    fn times_are_read_in_the_form_of_a_pattern() {
        let all = [
            ("0097/Feb/16 --> 08:14:30", "YYYY/Mon/DD --> HH:MI:SS", "97-2-16 8:14:30.0"),
            ("97/2/16 8:14:30", "FMYYYY/FMMM/FMDD FMHH:FMMI:FMSS", "97-2-16 8:14:30.0"),
            ("2011$03!18 23_38_15", "YYYY-MM-DD HH24:MI:SS", "2011-3-18 23:38:15.0"),
            ("1985 January 12", "YYYY FMMonth DD", "1985-1-12 0:0:0.0"),
            (
                "My birthday-> Year: 1976, Month: May",
                "\"My birthday-> Year:\" YYYY, \"Month:\" Month",
                "1976-5-1 0:0:0.0",
            ),
            ("05121445482000", "MMDDHH24MISSYYYY", "2000-5-12 14:45:48.0"),
            ("2000January09Sunday", "YYYYFMMonthDDFMDay", "2000-1-9 0:0:0.0"),
            ("97/Feb/16", "YY:Mon:DD", "1997-2-16 0:0:0.0"),
            ("19971116", "YYYYMMDD", "1997-11-16 0:0:0.0"),
            ("20000-1116", "YYYY-MMDD", "20000-11-16 0:0:0.0"),
            ("9-1116", "Y-MMDD", "2009-11-16 0:0:0.0"),
            ("95-1116", "YY-MMDD", "1995-11-16 0:0:0.0"),
            ("995-1116", "YYY-MMDD", "1995-11-16 0:0:0.0"),
            ("2005426", "YYYYWWD", "2005-10-15 0:0:0.0"),
            ("2005300", "YYYYDDD", "2005-10-27 0:0:0.0"),
            ("2005527", "IYYYIWID", "2006-1-1 0:0:0.0"),
            ("  2005 03 02", "YYYYMMDD", "2005-3-2 0:0:0.0"),
            ("2000 - JUN", "YYYY MON", "2000-6-1 0:0:0.0"),
            ("2000JUN", "YYYY///MON", "2000-6-1 0:0:0.0"),
            ("2000//JUN", "YYYY/MON", "22007: invalid value \"/JUN\" for \"MON\""),
            ("97/Feb/16", "YYMonDD", "22007: invalid value \"/Feb/16\" for \"MON\""),
            ("2011-12-18 11:38 PM", "YYYY-MM-DD HH12:MI PM", "2011-12-18 23:38:0.0"),
            ("2011-12-18 11:38 A.M.", "YYYY-MM-DD HH12:MI P.M.", "2011-12-18 11:38:0.0"),
            ("2018-11-02 12:34:56.025", "YYYY-MM-DD HH24:MI:SS.MS", "2018-11-2 12:34:56.25000"),
            ("2018-11-02 12:34:56.5", "YYYY-MM-DD HH24:MI:SS.MS", "2018-11-2 12:34:56.500000"),
            ("2018-11-02 12:34:56.000123", "YYYY-MM-DD HH24:MI:SS.US", "2018-11-2 12:34:56.123"),
            ("3 4 21 01", "W MM CC YY", "2001-4-15 0:0:0.0"),
            ("2458872", "J", "2020-1-23 0:0:0.0"),
            ("44-02-01 BC", "YYYY-MM-DD BC", "-43-2-1 0:0:0.0"),
            ("2000-01-01 3661", "YYYY-MM-DD SSSS", "2000-1-1 1:1:1.0"),
            ("January 8, 1999", "Month DD, YYYY", "1999-1-8 0:0:0.0"),
            ("1997", "YYYYMM", "1997-1-1 0:0:0.0"),
            ("", "YYYY", "0-1-1 0:0:0.0"),
            ("2004 366", "YYYY DDD", "2004-12-31 0:0:0.0"),
            ("2005 366", "YYYY DDD", "22008: date/time field value out of range: \"2005 366\""),
            (
                "2015-02-29",
                "YYYY-MM-DD",
                "22008: date/time field value out of range: \"2015-02-29\"",
            ),
            (
                "2011-12-18 25:00",
                "YYYY-MM-DD HH24:MI",
                "22008: date/time field value out of range: \"2011-12-18 25:00\"",
            ),
            ("2011-xx-01", "YYYY-MM-DD", "22007: invalid value \"xx\" for \"MM\""),
            ("199711xy", "YYYYMMDD", "22007: invalid value \"xy\" for \"DD\""),
            (
                "2011-12-18 13:00",
                "YYYY-MM-DD HH12:MI",
                "22007: hour \"13\" is invalid for the 12-hour clock",
            ),
            ("10000000000", "FMYYYY", "22008: value for \"YYYY\" in source string is out of range"),
            (
                "2005-01-01 2",
                "YYYY-MM-DD DD",
                "22007: conflicting values for \"DD\" field in formatting string",
            ),
            ("2005-01-01 1", "YYYY-MM-DD IW", "22007: invalid combination of date conventions"),
            ("2000", "YYYY FX", "2000-1-1 0:0:0.0"),
            ("2000-01-01 10:00 +02", "YYYY-MM-DD HH24:MI TZH", "2000-1-1 8:0:0.0"),
            ("2000-01-01 10:00 -02:30", "YYYY-MM-DD HH24:MI TZH:TZM", "2000-1-1 12:30:0.0"),
            ("2000-01-01 10:00-2", "YYYY-MM-DD HH24:MITZH", "2000-1-1 12:0:0.0"),
        ];
        for (text, pattern, expected) in all {
            assert_eq!(read_as(text, pattern), expected, "{text} as {pattern}");
        }
    }

    #[test]
    fn patterns_that_are_not_understood_are_refused() {
        assert!(read_as("2000 CET", "YYYY TZ").starts_with("0A000"));
        assert!(read_as("2000", "FXYYYY").starts_with("0A000"));
    }
}
