//! Functions of dates and times, over what the wall shows: microseconds since 1970 there.

use super::spans::is_infinite;
use crate::dates::{civil, days};
use crate::datum::Datum;
use crate::error::{SqlError, clipped, code};
use crate::numeric::Decimal;
use crate::zone::Zone;

pub(super) const DAY_US: i64 = 86_400_000_000;
pub(super) const HOUR_US: i64 = 3_600_000_000;
pub(super) const MINUTE_US: i64 = 60_000_000;
pub(super) const SECOND_US: i64 = 1_000_000;

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(super) const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A time in its parts.
#[derive(Clone, Copy)]
struct Parts {
    /// Since 1970.
    day_number: i64,
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
}

impl Parts {
    fn of(micros: i64) -> Parts {
        let (day_number, within) = (micros.div_euclid(DAY_US), micros.rem_euclid(DAY_US));
        let (year, month, day) = civil(day_number);
        Parts {
            day_number,
            year,
            month: month.into(),
            day: day.into(),
            hour: within / HOUR_US,
            minute: within / MINUTE_US % 60,
            second: within / SECOND_US % 60,
            micros: within % SECOND_US,
        }
    }

    /// From 0, which is Sunday.
    fn weekday(&self) -> i64 {
        (self.day_number + 4).rem_euclid(7)
    }

    /// From 1.
    fn day_of_year(&self) -> i64 {
        self.day_number - days(self.year, 1, 1) + 1
    }

    /// The year and the number of the week, as ISO 8601 counts: that with the year's first Thursday is the first.
    fn week(&self) -> (i64, i64) {
        let thursday = self.day_number - (self.weekday() + 6).rem_euclid(7) + 3;
        let year = civil(thursday).0;
        (year, (thursday - days(year, 1, 1)) / 7 + 1)
    }
}

/// The zone of a name.
pub(super) fn zone_named(name: &str) -> Result<Zone, SqlError> {
    Zone::named(name).ok_or_else(|| {
        let message = format!("time zone \"{}\" not recognized", clipped(name));
        SqlError::new(code::INVALID_PARAMETER, message)
    })
}

fn unknown_unit(unit: &str) -> SqlError {
    let message = format!("unit \"{}\" not recognized for type timestamp", clipped(unit));
    SqlError::new(code::INVALID_PARAMETER, message)
}

pub(super) fn extract(field: &str, value: &Datum) -> Result<Datum, SqlError> {
    let Datum::Timestamp(micros) = *value else { return Ok(Datum::Null) };
    if is_infinite(micros) {
        return match field {
            "year" | "decade" | "century" | "millennium" | "isoyear" | "epoch" | "julian" => {
                Err(SqlError::unsupported("infinity as a number"))
            }
            _ => Ok(Datum::Null),
        };
    }
    let parts = Parts::of(micros);
    // There is no year 0 among those that people count.
    let counted = |year: i64| if year > 0 { year } else { year - 1 };
    let in_hundreds = |length: i64| match parts.year {
        year @ 1.. => (year + length - 1) / length,
        year => -((length - year) / length),
    };
    let exact = |mantissa: i64, scale| Datum::Numeric(Decimal::new(mantissa.into(), scale));
    let whole = |value: i64| Datum::Numeric(Decimal::int(value));
    let in_minute = parts.second * SECOND_US + parts.micros;
    Ok(match clipped(field).to_lowercase().as_str() {
        "year" | "years" | "y" => whole(counted(parts.year)),
        "month" | "months" | "mon" => whole(parts.month),
        "day" | "days" | "d" => whole(parts.day),
        "hour" | "hours" | "h" => whole(parts.hour),
        "minute" | "minutes" | "min" => whole(parts.minute),
        "second" | "seconds" | "sec" => exact(in_minute, 6),
        "milliseconds" | "millisecond" | "ms" => exact(in_minute, 3),
        "microseconds" | "microsecond" | "us" => whole(in_minute),
        "epoch" => exact(micros, 6),
        "dow" => whole(parts.weekday()),
        "isodow" => whole((parts.weekday() + 6).rem_euclid(7) + 1),
        "doy" => whole(parts.day_of_year()),
        "week" => whole(parts.week().1),
        "isoyear" => whole(counted(parts.week().0)),
        "julian" => {
            let day = Decimal::int(parts.day_number + 2_440_588);
            let within = Decimal::int(micros.rem_euclid(DAY_US)).over(&Decimal::int(DAY_US))?;
            Datum::Numeric(if within.is_zero() { day } else { day.plus(&within)? })
        }
        "quarter" => whole((parts.month - 1) / 3 + 1),
        "decade" => whole(parts.year.div_euclid(10)),
        "century" => whole(in_hundreds(100)),
        "millennium" => whole(in_hundreds(1000)),
        other => return Err(unknown_unit(other)),
    })
}

/// `date_trunc`: the beginning of the year, the month and so on.
pub(super) fn truncate(unit: &str, value: &Datum) -> Result<Datum, SqlError> {
    let Datum::Timestamp(micros) = *value else { return Ok(Datum::Null) };
    if is_infinite(micros) {
        return Ok(Datum::Timestamp(micros));
    }
    let parts = Parts::of(micros);
    let to = |length: i64| micros - micros.rem_euclid(length);
    let begin = |year: i64, month: i64| days(year, month, 1) * DAY_US;
    Ok(Datum::Timestamp(match clipped(unit).to_lowercase().as_str() {
        "microseconds" | "microsecond" | "us" => micros,
        "milliseconds" | "millisecond" | "ms" => to(1_000),
        "second" | "seconds" => to(SECOND_US),
        "minute" | "minutes" => to(MINUTE_US),
        "hour" | "hours" => to(HOUR_US),
        "day" | "days" => to(DAY_US),
        "week" => (parts.day_number - (parts.weekday() + 6).rem_euclid(7)) * DAY_US,
        "month" | "months" => begin(parts.year, parts.month),
        "quarter" => begin(parts.year, (parts.month - 1) / 3 * 3 + 1),
        "year" | "years" => begin(parts.year, 1),
        "decade" => begin(parts.year.div_euclid(10) * 10, 1),
        "century" => begin((parts.year - 1).div_euclid(100) * 100 + 1, 1),
        "millennium" => begin((parts.year - 1).div_euclid(1000) * 1000 + 1, 1),
        other => return Err(unknown_unit(other)),
    }))
}

/// What `to_char` understands, the longer before what they begin with; `th` and what needs a zone are refused.
pub(super) const PATTERNS: [&str; 37] = [
    "HH24", "HH12", "HH", "MI", "SS", "MS", "US", "AM", "PM", "A.M.", "P.M.", "Y,YYY", "YYYY",
    "YYY", "YY", "Y", "IYYY", "IYY", "IY", "IDDD", "ID", "IW", "MONTH", "MON", "MM", "DAY", "DY",
    "DDD", "DD", "D", "WW", "W", "CC", "J", "Q", "TZ", "OF",
];

/// A time in the form of a pattern: `YYYY-MM-DD HH24:MI:SS`, `FMDay, DD "of" Month`.
pub(super) fn to_char(value: &Datum, pattern: &str) -> Result<Datum, SqlError> {
    let Datum::Timestamp(micros) = *value else { return Ok(Datum::Null) };
    if is_infinite(micros) {
        return Ok(Datum::Null);
    }
    let parts = Parts::of(micros);
    let (mut text, mut rest) = (String::new(), pattern);
    while let Some(sign) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let (inside, after) = quoted.split_once('"').unwrap_or((quoted, ""));
            text.push_str(inside);
            rest = after;
            continue;
        }
        let is_plain = rest.get(..2).is_some_and(|fill| fill.eq_ignore_ascii_case("FM"));
        let body = if is_plain { &rest[2..] } else { rest };
        let begins = |known: &&&str| {
            body.get(..known.len()).is_some_and(|start| start.eq_ignore_ascii_case(known))
        };
        let Some(known) = PATTERNS.iter().find(begins) else {
            // FM without a pattern is nothing.
            if !is_plain {
                text.push(sign);
            }
            rest = if is_plain { body } else { &rest[sign.len_utf8()..] };
            continue;
        };
        let (written, after) = body.split_at(known.len());
        let is_suffixed = after.get(..2).is_some_and(|end| end.eq_ignore_ascii_case("th"));
        if is_suffixed || matches!(*known, "TZ" | "OF") {
            let what = if is_suffixed { "TH" } else { known };
            return Err(SqlError::unsupported(format!("the pattern {what} of to_char")));
        }
        text.push_str(&shown(&parts, known, written, is_plain));
        rest = after;
    }
    Ok(Datum::Text(text))
}

/// One pattern, with blanks or zeros that fill it up unless it is plain.
fn shown(parts: &Parts, known: &str, written: &str, is_plain: bool) -> String {
    let number = |value: i64, width: usize| {
        if is_plain { value.to_string() } else { format!("{value:0width$}") }
    };
    let name = |name: &str, width: usize| {
        let name = match written.as_bytes() {
            [first, ..] if first.is_ascii_lowercase() => name.to_lowercase(),
            [_, second, ..] if second.is_ascii_uppercase() => name.to_uppercase(),
            _ => name.to_owned(),
        };
        if is_plain { name } else { format!("{name:width$}") }
    };
    let (iso_year, iso_week) = parts.week();
    let iso_day = (parts.weekday() + 6).rem_euclid(7) + 1;
    let half = |signs: [&str; 2]| {
        let half = signs[usize::from(parts.hour >= 12)];
        let is_small = written.starts_with(|c: char| c.is_ascii_lowercase());
        if is_small { half.to_lowercase() } else { half.to_owned() }
    };
    let month = MONTHS[(parts.month - 1) as usize];
    let weekday = WEEKDAYS[parts.weekday() as usize];
    match known {
        "HH24" => number(parts.hour, 2),
        "HH12" | "HH" => number((parts.hour + 11) % 12 + 1, 2),
        "MI" => number(parts.minute, 2),
        "SS" => number(parts.second, 2),
        "MS" => number(parts.micros / 1000, 3),
        "US" => number(parts.micros, 6),
        "AM" | "PM" => half(["AM", "PM"]),
        "A.M." | "P.M." => half(["A.M.", "P.M."]),
        "Y,YYY" => format!("{},{:03}", parts.year / 1000, parts.year % 1000),
        "YYYY" => number(parts.year, 4),
        "YYY" => number(parts.year % 1000, 3),
        "YY" => number(parts.year % 100, 2),
        "Y" => number(parts.year % 10, 1),
        "IYYY" => number(iso_year, 4),
        "IYY" => number(iso_year % 1000, 3),
        "IY" => number(iso_year % 100, 2),
        "IDDD" => {
            let first = days(iso_year, 1, 4);
            let monday = first - (first + 3).rem_euclid(7);
            number(parts.day_number - monday + 1, 3)
        }
        "ID" => number(iso_day, 1),
        "IW" => number(iso_week, 2),
        "MONTH" => name(month, 9),
        "MON" => name(&month[..3], 3),
        "MM" => number(parts.month, 2),
        "DAY" => name(weekday, 9),
        "DY" => name(&weekday[..3], 3),
        "DDD" => number(parts.day_of_year(), 3),
        "DD" => number(parts.day, 2),
        "D" => number(parts.weekday() + 1, 1),
        "WW" => number((parts.day_of_year() - 1) / 7 + 1, 2),
        "W" => number((parts.day - 1) / 7 + 1, 1),
        "CC" => number((parts.year - 1) / 100 + 1, 2),
        "J" => (parts.day_number + 2_440_588).to_string(),
        _ => ((parts.month - 1) / 3 + 1).to_string(),
    }
}
