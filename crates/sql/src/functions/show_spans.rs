//! `to_char` of intervals.
//!
//! The parts of an interval are shown as they are: `HH24` of 40 hours is `40`, and a negative part
//! has its sign. Years, months and days are not those of a date, so patterns for names, eras and
//! zones are refused.
//!
//! ```text
//!   1 year 2 mons 40:05:06   YYYY-MM HH24:MI    0001-02 40:05
//!   -1 mons -02:03:00        MM HH24:MI         -01 -02:-03
//! ```

use super::time_patterns::{self, Field, Letters, Part};
use super::times::{HOUR_US, MINUTE_US, SECOND_US, roman, with_ordinal};
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::interval::Interval;

/// The day of the Julian calendar on which a year, month and day would be. Unlike those of a date,
/// months and days can be zero or negative.
fn julian(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) =
        if month > 2 { (year + 4800, month + 1) } else { (year + 4799, month + 13) };
    let century = year / 100;
    year * 365 - 32_167 + year / 4 - century + century / 4 + 7834 * month / 256 + day
}

/// The parts of an interval.
struct Parts {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
}

impl Parts {
    fn of(span: Interval) -> Parts {
        Parts {
            year: i64::from(span.months / 12),
            month: i64::from(span.months % 12),
            day: i64::from(span.days),
            hour: span.micros / HOUR_US,
            minute: span.micros / MINUTE_US % 60,
            second: span.micros / SECOND_US % 60,
            micros: span.micros % SECOND_US,
        }
    }

    /// Its days, with months of thirty days.
    fn days(&self) -> i64 {
        (self.year * 12 + self.month) * 30 + self.day
    }

    /// The ISO 8601 year, week and day of the year.
    fn week(&self) -> (i64, i64, i64) {
        let today = julian(self.year, self.month, self.day);
        // The Monday of a year's first week.
        let first = |year: i64| {
            let fourth = julian(year, 1, 4);
            fourth - fourth.rem_euclid(7)
        };
        let year = [self.year + 1, self.year].into_iter().find(|year| first(*year) <= today);
        let year = year.unwrap_or(self.year - 1);
        let day = today - first(year);
        (year, day / 7 + 1, day + 1)
    }

    /// The Roman numeral of the months; negative months count from December on.
    fn roman(&self) -> &'static str {
        match (self.year, self.month) {
            (0, 0) => "",
            (1.., 0) => roman(12),
            (_, 0) => roman(1),
            (_, month @ 1..) => roman(month),
            (_, month) => roman(13 + month),
        }
    }
}

/// An interval in the format of a pattern; NULL if the pattern is empty.
///
/// # Errors
/// 22007 for patterns that only dates have.
pub(super) fn to_char(span: Interval, pattern: &str) -> Result<Datum, SqlError> {
    if pattern.is_empty() {
        return Ok(Datum::Null);
    }
    let (parts, mut text) = (Parts::of(span), String::new());
    for part in time_patterns::parts(pattern) {
        match part {
            Part::Quoted(sign) | Part::Sign(sign) => text.push(sign),
            Part::Field(field) => text.push_str(&shown(&parts, field)?),
        }
    }
    Ok(Datum::Text(text))
}

fn shown(parts: &Parts, field: Field) -> Result<String, SqlError> {
    let in_case = |name: &str| match field.letters {
        Letters::Small => name.to_lowercase(),
        _ => name.to_owned(),
    };
    let is_late = parts.hour % 24 >= 12;
    let (iso_year, iso_week, iso_day) = parts.week();
    let signed = |number: i64, width: usize| (number, width + usize::from(number < 0));
    let fraction = |digits: usize| (parts.micros / 10i64.pow(6 - digits as u32), digits);
    let (number, width) = match field.name {
        "A.M." | "P.M." => return Ok(in_case(if is_late { "P.M." } else { "A.M." })),
        "AM" | "PM" => return Ok(in_case(if is_late { "PM" } else { "AM" })),
        "RM" if parts.year == 0 && parts.month == 0 => return Ok(String::new()),
        "RM" if field.is_plain => return Ok(in_case(parts.roman())),
        "RM" => return Ok(format!("{:4}", in_case(parts.roman()))),
        "FX" => return Ok(String::new()),
        "Q" if parts.month == 0 => return Ok(String::new()),
        "MONTH" | "MON" | "DAY" | "DY" | "TZ" | "TZH" | "TZM" | "OF" | "A.D." | "B.C." | "AD"
        | "BC" | "D" | "ID" => {
            let message = "invalid format specification for an interval value";
            let hint = "Intervals are not tied to specific calendar dates.";
            return Err(SqlError::new(code::INVALID_DATETIME, message).hint(hint));
        }
        "HH24" => signed(parts.hour, 2),
        "HH12" | "HH" => match parts.hour % 12 {
            0 => (12, if parts.hour < 0 { 3 } else { 2 }),
            hour => (hour, if parts.hour < 0 { 3 } else { 2 }),
        },
        "MI" => signed(parts.minute, 2),
        "SS" => signed(parts.second, 2),
        "MS" => fraction(3),
        "US" => fraction(6),
        "SSSS" | "SSSSS" => ((parts.hour * 60 + parts.minute) * 60 + parts.second, 1),
        "Y,YYY" => {
            let shown = format!("{},{:03}", parts.year / 1000, parts.year % 1000);
            return Ok(with_ordinal(shown, field.ordinal));
        }
        "YYYY" => signed(parts.year, 4),
        "YYY" => signed(parts.year % 1000, 3),
        "YY" => signed(parts.year % 100, 2),
        "Y" => (parts.year % 10, 1),
        "IYYY" => (iso_year, 4 + usize::from(parts.year < 0)),
        "IYY" => (iso_year % 1000, 3 + usize::from(parts.year < 0)),
        "IY" => (iso_year % 100, 2 + usize::from(parts.year < 0)),
        "I" => (iso_year % 10, 1),
        "IDDD" => (iso_day, 3),
        "IW" => (iso_week, 2),
        "MM" => signed(parts.month, 2),
        "DDD" => (parts.days(), 3),
        "DD" => (parts.day, 2),
        "WW" => ((parts.days() - 1) / 7 + 1, 2),
        "W" => ((parts.day - 1) / 7 + 1, 1),
        "CC" => signed(parts.year / 100, 2),
        "J" => (julian(parts.year, parts.month, parts.day), 1),
        "Q" => ((parts.month - 1) / 3 + 1, 1),
        fraction_of => fraction(fraction_of[2..].parse().unwrap_or(6)),
    };
    // These digits are those behind a decimal point.
    let is_fraction = matches!(field.name, "MS" | "US") || field.name.starts_with("FF");
    let width = if field.is_plain && !is_fraction { 0 } else { width };
    Ok(with_ordinal(format!("{number:0width$}"), field.ordinal))
}
