//! Intervals: months, days and microseconds, which are not multiples of each other.
//!
//! ```text
//!   2026-01-31 + 1 month = 2026-02-28              months differ in length
//!   2026-03-28 12:00 + 1 day = 2026-03-29 12:00    the same local time; in Berlin 23 hours later
//! ```
//!
//! So an interval is three numbers, each with its own sign. In comparisons a month is thirty days
//! and a day is 24 hours. So `1 month` and `30 days` are equal, though adding them gives different
//! results. Intervals can be grouped, but cannot be part of a key.

use crate::error::{SqlError, clipped, code};
use crate::fields::Fields;
use crate::numeric::Decimal;
use std::cmp::Ordering;
use std::fmt::Write;

const SECOND_US: i64 = 1_000_000;
const DAY_US: i64 = 86_400 * SECOND_US;
const MONTH_DAYS: i64 = 30;

/// A distance between two times.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Interval {
    /// Months; twelve are a year.
    pub months: i32,
    /// Days.
    pub days: i32,
    /// Microseconds.
    pub micros: i64,
}

pub(crate) fn out_of_range() -> SqlError {
    SqlError::new(code::DATETIME_OVERFLOW, "interval out of range")
}

impl Interval {
    /// An interval of microseconds.
    pub fn micros(micros: i64) -> Interval {
        Interval { micros, ..Interval::default() }
    }

    /// Its parts as bytes, the most significant first; the stored form.
    pub(crate) fn bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.micros.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.days.to_be_bytes());
        bytes[12..].copy_from_slice(&self.months.to_be_bytes());
        bytes
    }

    /// See [`Interval::bytes`].
    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<Interval> {
        let (micros, rest) = bytes.split_first_chunk::<8>()?;
        let (days, months) = rest.split_first_chunk::<4>()?;
        Some(Interval {
            micros: i64::from_be_bytes(*micros),
            days: i32::from_be_bytes(*days),
            months: i32::from_be_bytes(months.try_into().ok()?),
        })
    }

    /// Its length in microseconds, with months of thirty days.
    pub(crate) fn length(self) -> i128 {
        let days = i128::from(self.months) * i128::from(MONTH_DAYS) + i128::from(self.days);
        days * i128::from(DAY_US) + i128::from(self.micros)
    }

    /// The order of two intervals by length.
    pub(crate) fn order(self, other: Interval) -> Ordering {
        self.length().cmp(&other.length())
    }

    pub(crate) fn plus(self, other: Interval) -> Result<Interval, SqlError> {
        let sum = || {
            Some(Interval {
                months: self.months.checked_add(other.months)?,
                days: self.days.checked_add(other.days)?,
                micros: self.micros.checked_add(other.micros)?,
            })
        };
        sum().ok_or_else(out_of_range)
    }

    pub(crate) fn negated(self) -> Result<Interval, SqlError> {
        let negative = || {
            Some(Interval {
                months: self.months.checked_neg()?,
                days: self.days.checked_neg()?,
                micros: self.micros.checked_neg()?,
            })
        };
        negative().ok_or_else(out_of_range)
    }

    /// A multiple of the interval. Fractions of a month become days, and fractions of a day
    /// microseconds.
    pub(crate) fn times(self, factor: f64) -> Result<Interval, SqlError> {
        self.scaled(|part| part * factor)
    }

    /// A fraction of the interval. See [`Interval::times`].
    pub(crate) fn over(self, divisor: f64) -> Result<Interval, SqlError> {
        if divisor == 0.0 {
            return Err(SqlError::new(code::DIVISION_BY_ZERO, "division by zero"));
        }
        self.scaled(|part| part / divisor)
    }

    fn scaled(self, scale: impl Fn(f64) -> f64) -> Result<Interval, SqlError> {
        // Rounded to microseconds, so that float errors do not become another microsecond.
        let rounded = |value: f64| (value * 1e6).round_ties_even() / 1e6;
        let whole = |value: f64| {
            let fits = value >= f64::from(i32::MIN) && value <= f64::from(i32::MAX);
            if fits { Ok(value as i32) } else { Err(out_of_range()) }
        };
        let (all_months, all_days) = (scale(self.months.into()), scale(self.days.into()));
        let (months, days) = (whole(all_months)?, whole(all_days)?);
        let month_rest = rounded((all_months - f64::from(months)) * MONTH_DAYS as f64);
        let day_rest = all_days - f64::from(days) + month_rest - month_rest.trunc();
        let mut seconds = rounded(day_rest * 86_400.0);
        let mut more_days = month_rest.trunc();
        if seconds.abs() >= 86_400.0 {
            let over = (seconds / 86_400.0).trunc();
            more_days += over;
            seconds -= over * 86_400.0;
        }
        let days = i64::from(days) + more_days as i64;
        let micros = (scale(self.micros as f64) + seconds * 1e6).round_ties_even();
        if !(micros >= i64::MIN as f64 && micros < i64::MAX as f64) {
            return Err(out_of_range());
        }
        let days = i32::try_from(days).map_err(|_| out_of_range())?;
        Ok(Interval { months, days, micros: micros as i64 })
    }

    /// `justify_hours`: whole days of hours become days.
    pub(crate) fn justified_hours(self) -> Result<Interval, SqlError> {
        let (mut days, mut micros) =
            (i64::from(self.days) + self.micros / DAY_US, self.micros % DAY_US);
        if days > 0 && micros < 0 {
            (days, micros) = (days - 1, micros + DAY_US);
        } else if days < 0 && micros > 0 {
            (days, micros) = (days + 1, micros - DAY_US);
        }
        let days = i32::try_from(days).map_err(|_| out_of_range())?;
        Ok(Interval { days, micros, ..self })
    }

    /// `justify_days`: thirty days become a month.
    pub(crate) fn justified_days(self) -> Result<Interval, SqlError> {
        let days = i64::from(self.days);
        let (mut months, mut days) =
            (i64::from(self.months) + days / MONTH_DAYS, days % MONTH_DAYS);
        if months > 0 && days < 0 {
            (months, days) = (months - 1, days + MONTH_DAYS);
        } else if months < 0 && days > 0 {
            (months, days) = (months + 1, days - MONTH_DAYS);
        }
        let months = i32::try_from(months).map_err(|_| out_of_range())?;
        Ok(Interval { months, days: days as i32, ..self })
    }

    /// `justify_interval`: both, and all parts with one sign.
    pub(crate) fn justified(self) -> Result<Interval, SqlError> {
        let mut days = i64::from(self.days) + self.micros / DAY_US;
        let mut micros = self.micros % DAY_US;
        let mut months = i64::from(self.months) + days / MONTH_DAYS;
        days %= MONTH_DAYS;
        if months > 0 && (days < 0 || (days == 0 && micros < 0)) {
            (months, days) = (months - 1, days + MONTH_DAYS);
        } else if months < 0 && (days > 0 || (days == 0 && micros > 0)) {
            (months, days) = (months + 1, days - MONTH_DAYS);
        }
        if days > 0 && micros < 0 {
            (days, micros) = (days - 1, micros + DAY_US);
        } else if days < 0 && micros > 0 {
            (days, micros) = (days + 1, micros - DAY_US);
        }
        let months = i32::try_from(months).map_err(|_| out_of_range())?;
        Ok(Interval { months, days: days as i32, micros })
    }

    /// Without the parts that are smaller than the last of some fields.
    #[must_use]
    pub(crate) fn within(self, fields: Fields) -> Interval {
        self.down_to(last(fields))
    }

    /// Without the parts that are smaller than a unit.
    #[must_use]
    pub(crate) fn down_to(self, unit: Unit) -> Interval {
        let time = |unit_us: i64| Interval { micros: self.micros / unit_us * unit_us, ..self };
        match unit {
            Unit::Year => Interval { months: self.months / 12 * 12, days: 0, micros: 0 },
            Unit::Month => Interval { days: 0, micros: 0, ..self },
            Unit::Day => Interval { micros: 0, ..self },
            Unit::Hour => time(3600 * SECOND_US),
            Unit::Minute => time(60 * SECOND_US),
            _ => self,
        }
    }

    /// A field of the interval, as in `extract`.
    pub(crate) fn field(self, field: &str) -> Option<Decimal> {
        let whole = |value: i64| Some(Decimal::int(value));
        let exact = |mantissa: i64, scale| Some(Decimal::new(mantissa.into(), scale));
        let months = i64::from(self.months);
        let (years, months) = (months / 12, months % 12);
        let in_minute = self.micros % (60 * SECOND_US);
        match field {
            "year" | "years" | "y" => whole(years),
            "month" | "months" | "mon" => whole(months),
            "quarter" => whole(months / 3 + 1),
            "day" | "days" | "d" => whole(self.days.into()),
            "hour" | "hours" | "h" => whole(self.micros / (3600 * SECOND_US)),
            "minute" | "minutes" | "min" => whole(self.micros / (60 * SECOND_US) % 60),
            "second" | "seconds" | "sec" => exact(in_minute, 6),
            "milliseconds" | "millisecond" | "ms" => exact(in_minute, 3),
            "microseconds" | "microsecond" | "us" => whole(in_minute),
            "decade" => whole(years / 10),
            "century" => whole(years / 100),
            "millennium" => whole(years / 1000),
            "epoch" => {
                // A year counts as 365.25 days here, a month as thirty.
                let days = i128::from(years) * 36525
                    + (i128::from(months) * 30 + i128::from(self.days)) * 100;
                let micros = days * i128::from(DAY_US) / 100 + i128::from(self.micros);
                Some(Decimal::new(micros, 6))
            }
            _ => None,
        }
    }

    /// The interval truncated to years, months and so on.
    pub(crate) fn truncated(self, unit: &str) -> Option<Interval> {
        let months =
            |unit: i32| Some(Interval { months: self.months / unit * unit, days: 0, micros: 0 });
        let micros = |unit: i64| Some(Interval { micros: self.micros / unit * unit, ..self });
        match unit {
            "millennium" | "millenniums" | "millennia" => months(12_000),
            "century" | "centuries" => months(1_200),
            "decade" | "decades" => months(120),
            "year" | "years" => months(12),
            "quarter" => months(3),
            "month" | "months" => months(1),
            "day" | "days" => Some(Interval { micros: 0, ..self }),
            "hour" | "hours" => micros(3600 * SECOND_US),
            "minute" | "minutes" => micros(60 * SECOND_US),
            "second" | "seconds" => micros(SECOND_US),
            "milliseconds" | "millisecond" => micros(1000),
            "microseconds" | "microsecond" => Some(self),
            _ => None,
        }
    }

    /// Reads an interval: `1 year 2 mons 3 days 04:05:06.7`, `@ 1 day ago`, `1-2 3 4:05:06`,
    /// `P1Y2M3DT4H5M6S`. A number without a unit is of the last of the `fields`, or of seconds. All
    /// fields are read.
    ///
    /// # Errors
    /// 22007 if the text is not an interval, 22015 if it is out of range.
    pub(crate) fn parse(text: &str, fields: Option<Fields>) -> Result<Interval, SqlError> {
        let bad = || {
            let message = format!("invalid input syntax for type interval: \"{}\"", clipped(text));
            SqlError::new(code::INVALID_DATETIME, message)
                .hint("Write it as 1 year 2 months 3 days 04:05:06.")
        };
        let large = || {
            let message = format!("interval field value out of range: \"{}\"", clipped(text));
            SqlError::new("22015", message)
        };
        let mut sum = Sum::default();
        let trimmed = text.trim();
        let read = match trimmed.strip_prefix('P') {
            Some(rest) => sum.iso(rest),
            None => sum.words(&trimmed.to_ascii_lowercase(), fields),
        };
        match read {
            Ok(()) if !sum.fits() => Err(large()),
            Ok(()) => sum.interval().ok_or_else(out_of_range),
            Err(Wrong::Form) => Err(bad()),
            Err(Wrong::Size) => Err(large()),
        }
    }
}

/// The unit of the last field.
fn last(fields: Fields) -> Unit {
    Unit::of(fields.last()).expect("a field is a unit")
}

/// A unit of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    Micros,
    Millis,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
    Decade,
    Century,
    Millennium,
}

impl Unit {
    /// The unit with a name.
    pub(crate) fn of(word: &str) -> Option<Unit> {
        // Only the first ten letters are significant.
        Some(match word.get(..10).unwrap_or(word) {
            "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecon" => Unit::Micros,
            "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecon" => Unit::Millis,
            "s" | "sec" | "secs" | "second" | "seconds" => Unit::Second,
            "m" | "min" | "mins" | "minute" | "minutes" => Unit::Minute,
            "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Hour,
            "d" | "day" | "days" => Unit::Day,
            "w" | "week" | "weeks" => Unit::Week,
            "mon" | "mons" | "month" | "months" => Unit::Month,
            "y" | "yr" | "yrs" | "year" | "years" => Unit::Year,
            "dec" | "decs" | "decade" | "decades" => Unit::Decade,
            "c" | "cent" | "century" | "centuries" => Unit::Century,
            "mil" | "mils" | "millennium" | "millennia" => Unit::Millennium,
            _ => return None,
        })
    }
}

enum Wrong {
    /// The text is not an interval.
    Form,
    /// A number is too large.
    Size,
}

/// The parts that were read.
#[derive(Default)]
struct Sum {
    years: i128,
    months: i128,
    days: i128,
    micros: i128,
    /// The units that were read.
    seen: Vec<Unit>,
}

/// Parses digits with a sign and a point: whether they are negative, the digits before the point,
/// and those behind it.
fn digits(text: &str) -> Result<(bool, i128, &str), Wrong> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !is_number(whole) || !is_number(fraction) {
        return Err(Wrong::Form);
    }
    let value = if whole.is_empty() { 0 } else { whole.parse::<u64>().map_err(|_| Wrong::Size)? };
    Ok((text.starts_with('-'), value.into(), fraction))
}

impl Sum {
    /// True if each part is in range; years and months together may still be too many.
    fn fits(&self) -> bool {
        let small = |part: i128| i32::try_from(part).is_ok();
        let is_small = small(self.years) && small(self.months) && small(self.days);
        is_small && i64::try_from(self.micros).is_ok()
    }

    fn interval(&self) -> Option<Interval> {
        Some(Interval {
            months: (self.years * 12 + self.months).try_into().ok()?,
            days: self.days.try_into().ok()?,
            micros: self.micros.try_into().ok()?,
        })
    }

    /// Adds a number in a unit. The fraction is carried into smaller units.
    fn add(&mut self, number: &str, unit: Unit) -> Result<(), Wrong> {
        let (is_below, whole, behind) = digits(number)?;
        let sign = if is_below { -1 } else { 1 };
        let fraction: f64 = format!("0.{behind}0").parse().map_err(|_| Wrong::Form)?;
        let rounded = |value: f64| value.round_ties_even() as i128;
        let mut time = |unit_us: i64| {
            self.micros +=
                sign * (whole * i128::from(unit_us) + rounded(fraction * unit_us as f64));
        };
        match unit {
            Unit::Micros => time(1),
            Unit::Millis => time(1000),
            Unit::Second => time(SECOND_US),
            Unit::Minute => time(60 * SECOND_US),
            Unit::Hour => time(3600 * SECOND_US),
            Unit::Day | Unit::Week => {
                let length = if unit == Unit::Day { 1.0 } else { 7.0 };
                self.add_days(
                    sign * whole * length as i128,
                    f64::from(sign as i8) * fraction * length,
                );
            }
            Unit::Month => {
                self.months += sign * whole;
                self.add_days(0, f64::from(sign as i8) * fraction * MONTH_DAYS as f64);
            }
            years => {
                let length = match years {
                    Unit::Year => 1,
                    Unit::Decade => 10,
                    Unit::Century => 100,
                    _ => 1000,
                };
                let more = rounded(fraction * 12.0 * length as f64);
                self.years += sign * whole * length;
                self.months += sign * more;
            }
        }
        Ok(())
    }

    fn add_days(&mut self, days: i128, more: f64) {
        self.days += days + more.trunc() as i128;
        self.micros += (more.fract() * DAY_US as f64).round_ties_even() as i128;
    }

    /// `04:05:06.7`, or `04:05`, with an optional sign. Two parts are minutes and seconds if they
    /// have a point, or if the fields are MINUTE TO SECOND.
    fn clock(&mut self, text: &str, fields: Option<Fields>) -> Result<(), Wrong> {
        let ends_in_seconds = fields == Some(Fields::MinuteToSecond);
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let parts: Vec<&str> = unsigned.split(':').collect();
        let (hours, minutes, seconds) = match parts.as_slice() {
            [minutes, seconds] if ends_in_seconds || seconds.contains('.') => {
                ("0", *minutes, *seconds)
            }
            [hours, minutes] => (*hours, *minutes, "0"),
            [hours, minutes, seconds] => (*hours, *minutes, *seconds),
            _ => return Err(Wrong::Form),
        };
        let whole = |part: &str| match digits(part)? {
            (false, value, "") if !part.is_empty() => Ok(value),
            _ => Err(Wrong::Form),
        };
        let (hours, minutes) = (whole(hours)?, whole(minutes)?);
        let (_, whole_seconds, behind) = digits(seconds)?;
        if minutes > 59 || whole_seconds > 59 {
            return Err(Wrong::Size);
        }
        let fraction: f64 = format!("0.{behind}0").parse().map_err(|_| Wrong::Form)?;
        let fraction = (fraction * SECOND_US as f64).round_ties_even() as i128;
        let seconds = (hours * 60 + minutes) * 60 + whole_seconds;
        let micros = seconds * i128::from(SECOND_US) + fraction;
        self.micros += if text.starts_with('-') { -micros } else { micros };
        Ok(())
    }

    /// Years and months, as `1-2`.
    fn years_and_months(&mut self, text: &str) -> Result<(), Wrong> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (years, months) = unsigned.split_once('-').ok_or(Wrong::Form)?;
        let whole = |part: &str| match digits(part)? {
            (false, value, "") if !part.is_empty() => Ok(value),
            _ => Err(Wrong::Form),
        };
        let (years, months) = (whole(years)?, whole(months)?);
        if months > 11 {
            return Err(Wrong::Size);
        }
        let sign = if text.starts_with('-') { -1 } else { 1 };
        self.years += sign * years;
        self.months += sign * months;
        Ok(())
    }

    /// Numbers with their units, a time of day, and `ago`, which negates all parts.
    fn words(&mut self, text: &str, fields: Option<Fields>) -> Result<(), Wrong> {
        let default = fields.map_or(Unit::Second, last);
        let tokens = tokens(text)?;
        let is_ago = tokens.last() == Some(&"ago");
        let count = tokens.len() - usize::from(is_ago);
        // From the end, as a unit follows its number.
        let (mut unit, mut any) = (None, false);
        for token in tokens[..count].iter().rev() {
            let (first, rest) = (token.as_bytes()[0], &token[1..]);
            if *token == "@" {
                continue;
            }
            if first.is_ascii_alphabetic() {
                unit = Some(Unit::of(token).ok_or(Wrong::Form)?);
                continue;
            }
            any = true;
            if token.contains(':') {
                use Unit::{Hour, Micros, Millis, Minute, Second};
                self.note(&[Hour, Minute, Second, Millis, Micros])?;
                self.clock(token, fields)?;
                unit = Some(Unit::Day);
            } else if rest.contains('-') {
                self.note(&[Unit::Year, Unit::Month])?;
                self.years_and_months(token)?;
                unit = Some(Unit::Month);
            } else {
                let own = unit.unwrap_or(default);
                self.note(&[own])?;
                self.add(token, own)?;
                // As in `1 2:03`: a number before hours without a unit is of days.
                unit = Some(if own == Unit::Hour { Unit::Day } else { own });
            }
        }
        if !any {
            return Err(Wrong::Form);
        }
        if is_ago {
            (self.years, self.months) = (-self.years, -self.months);
            (self.days, self.micros) = (-self.days, -self.micros);
        }
        Ok(())
    }

    /// Each unit may occur once.
    fn note(&mut self, units: &[Unit]) -> Result<(), Wrong> {
        if units.iter().any(|unit| self.seen.contains(unit)) {
            return Err(Wrong::Form);
        }
        self.seen.extend(units);
        Ok(())
    }

    /// The text behind the P of ISO 8601: `1Y2M3DT4H5M6S`, `0001-02-03T04:05:06`.
    fn iso(&mut self, text: &str) -> Result<(), Wrong> {
        let (date, time) = text.split_once('T').unwrap_or((text, ""));
        if date.is_empty() && time.is_empty() {
            return Err(Wrong::Form);
        }
        self.iso_part(
            date,
            &[('Y', Unit::Year), ('M', Unit::Month), ('W', Unit::Week), ('D', Unit::Day)],
            '-',
        )?;
        self.iso_part(time, &[('H', Unit::Hour), ('M', Unit::Minute), ('S', Unit::Second)], ':')
    }

    fn iso_part(&mut self, text: &str, units: &[(char, Unit)], between: char) -> Result<(), Wrong> {
        if text.is_empty() {
            return Ok(());
        }
        if !text.ends_with(|c: char| c.is_ascii_alphabetic()) {
            // The alternative format has no letters: years, months, days; hours, minutes, seconds.
            let plain: Vec<Unit> =
                units.iter().filter(|(sign, _)| *sign != 'W').map(|(_, unit)| *unit).collect();
            // Without separators, all but the years have two digits.
            let years = if between == '-' { 4 } else { 2 };
            let is_plain = text.len() == years + 4 && text.bytes().all(|b| b.is_ascii_digit());
            let parts: Vec<&str> = match is_plain {
                true => vec![&text[..years], &text[years..years + 2], &text[years + 2..]],
                false => text.split(between).collect(),
            };
            if parts.len() > plain.len() || (between == '-' && text.starts_with('-')) {
                return Err(Wrong::Form);
            }
            return parts.iter().zip(plain).try_for_each(|(part, unit)| self.add(part, unit));
        }
        let mut rest = text;
        while let Some(at) = rest.find(|c: char| c.is_ascii_alphabetic()) {
            let sign = rest[at..].chars().next().ok_or(Wrong::Form)?;
            let unit = units.iter().find(|(known, _)| *known == sign).ok_or(Wrong::Form)?.1;
            self.add(&rest[..at], unit)?;
            rest = &rest[at + 1..];
        }
        if rest.is_empty() { Ok(()) } else { Err(Wrong::Form) }
    }
}

/// Words and numbers, even without blanks between them: `1day` is two tokens.
fn tokens(text: &str) -> Result<Vec<&str>, Wrong> {
    let (bytes, mut at, mut tokens) = (text.as_bytes(), 0, Vec::new());
    while at < bytes.len() {
        let from = at;
        let is_number = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b':' | b'-');
        match bytes[at] {
            byte if byte.is_ascii_whitespace() || byte == b',' => {
                at += 1;
                continue;
            }
            b'@' => at += 1,
            byte if byte.is_ascii_alphabetic() => {
                while bytes.get(at).is_some_and(u8::is_ascii_alphabetic) {
                    at += 1;
                }
            }
            b'+' | b'-' => {
                at += 1;
                // Blanks may follow a sign.
                if bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
                    return Err(Wrong::Form);
                }
                while bytes.get(at).is_some_and(is_number) {
                    at += 1;
                }
            }
            byte if is_number(&byte) => {
                while bytes.get(at).is_some_and(is_number) {
                    at += 1;
                }
            }
            _ => return Err(Wrong::Form),
        }
        tokens.push(&text[from..at]);
    }
    if tokens.is_empty() { Err(Wrong::Form) } else { Ok(tokens) }
}

/// In PostgreSQL's default style: `1 year 2 mons -3 days +04:05:06.7`.
impl std::fmt::Display for Interval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (mut text, mut was_below) = (String::new(), false);
        let parts = [(self.months / 12, "year"), (self.months % 12, "mon"), (self.days, "day")];
        for (value, unit) in parts.into_iter().filter(|(value, _)| *value != 0) {
            let blank = if text.is_empty() { "" } else { " " };
            let plus = if was_below && value > 0 { "+" } else { "" };
            let plural = if value == 1 { "" } else { "s" };
            write!(text, "{blank}{plus}{value} {unit}{plural}")?;
            was_below = value < 0;
        }
        if text.is_empty() || self.micros != 0 {
            let blank = if text.is_empty() { "" } else { " " };
            let sign = match self.micros {
                ..0 => "-",
                _ if was_below => "+",
                _ => "",
            };
            let micros = self.micros.unsigned_abs();
            let seconds = micros / SECOND_US as u64;
            let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
            write!(text, "{blank}{sign}{hours:02}:{minutes:02}:{rest:02}")?;
            let fraction = micros % SECOND_US as u64;
            if fraction > 0 {
                text.push_str(format!(".{fraction:06}").trim_end_matches('0'));
            }
        }
        f.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_read_in_many_forms() {
        for (text, shown) in [
            ("1 day 2 hours", "1 day 02:00:00"),
            ("@ 1 year 2 mons -3 days ago", "-1 years -2 mons +3 days"),
            ("1.5 weeks", "10 days 12:00:00"),
            ("1.5 months", "1 mon 15 days"),
            ("1-2 3 4:05:06", "1 year 2 mons 3 days 04:05:06"),
            ("-1 +02:03", "-1 days +02:03:00"),
            ("P1Y2M3DT4H5M6.5S", "1 year 2 mons 3 days 04:05:06.5"),
            ("P0001-02-03T04:05:06", "1 year 2 mons 3 days 04:05:06"),
            ("P1W", "7 days"),
            ("100", "00:01:40"),
            ("1:2.5", "00:01:02.5"),
            ("34 years 6mon", "34 years 6 mons"),
            ("-00:00:00.000001", "-00:00:00.000001"),
            ("0", "00:00:00"),
        ] {
            let read = Interval::parse(text, None).unwrap_or_else(|e| panic!("{text}: {e:?}"));
            assert_eq!(read.to_string(), shown, "{text}");
            assert_eq!(Interval::parse(shown, None).expect(shown), read, "{shown}");
        }
        for (text, expected) in [
            ("", code::INVALID_DATETIME),
            ("1 day 2 days", code::INVALID_DATETIME),
            ("day", code::INVALID_DATETIME),
            ("1 fortnight", code::INVALID_DATETIME),
            ("P", code::INVALID_DATETIME),
            ("3000000000 months", "22015"),
            ("1:99", "22015"),
        ] {
            assert_eq!(Interval::parse(text, None).unwrap_err().code, expected, "{text}");
        }
    }

    #[test]
    fn parts_of_parts_go_to_smaller_units() {
        let read = |text| Interval::parse(text, None).expect(text);
        assert_eq!(read("1 month").times(1.5).expect("short").to_string(), "1 mon 15 days");
        assert_eq!(read("1 day").over(2.0).expect("short").to_string(), "12:00:00");
        assert_eq!(
            read("35 days 25 hours").justified().expect("short").to_string(),
            "1 mon 6 days 01:00:00"
        );
        assert_eq!(read("1 month").order(read("30 days")), Ordering::Equal);
        assert!(read("1 year").times(1e10).is_err());
    }
}
