//! Functions of dates and times. Times are local times: microseconds since 1970.

use super::spans::is_infinite;
use super::time_patterns::{self, Field, Letters, Part};
use crate::dates::{civil, days};
use crate::datum::Datum;
use crate::error::{SqlError, clipped, code};
use crate::interval::Interval;
use crate::numeric::Decimal;
use crate::types::SqlType;
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

/// A time divided into its fields.
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

/// The zone that the patterns `TZ`, `TZH`, `TZM` and `OF` show.
#[derive(Clone, Default)]
pub(super) struct ShownZone {
    /// Its abbreviation; empty for local times.
    letters: String,
    /// Its UTC offset in seconds.
    ahead: i64,
}

impl ShownZone {
    /// The zone at an instant.
    pub(super) fn at(zone: &Zone, moment: i64) -> ShownZone {
        let letters = if is_infinite(moment) { String::new() } else { zone.abbreviation(moment) };
        ShownZone { letters, ahead: zone.ahead(moment) / SECOND_US }
    }
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

    /// The ISO 8601 year and week: week 1 is the one with the year's first Thursday.
    fn week(&self) -> (i64, i64) {
        let thursday = self.day_number - (self.weekday() + 6).rem_euclid(7) + 3;
        let year = civil(thursday).0;
        (year, (thursday - days(year, 1, 1)) / 7 + 1)
    }
}

/// The zone with a name, or with an abbreviation, which goes first. A number alone is an offset to
/// the west, unlike in SET TIME ZONE.
pub(super) fn zone_named(name: &str) -> Result<Zone, SqlError> {
    // A fraction is ignored.
    let whole = name.split('.').next().unwrap_or(name);
    let by_rule = || Zone::west(whole).or_else(|| Zone::named(name));
    crate::dates::zone_abbreviated(name).or_else(by_rule).ok_or_else(|| {
        let message = format!("time zone \"{}\" not recognized", clipped(name));
        SqlError::new(code::INVALID_PARAMETER, message)
    })
}

/// The zone that an argument names, or of which it is the offset.
pub(super) fn zone_of(arg: &Datum) -> Result<Zone, SqlError> {
    match arg {
        Datum::Interval(ahead) => zone_ahead(*ahead),
        arg => zone_named(arg.as_text().unwrap_or_default()),
    }
}

/// The zone of an interval that is the offset to the east.
fn zone_ahead(ahead: Interval) -> Result<Zone, SqlError> {
    if ahead.months != 0 || ahead.days != 0 {
        let span = Datum::Interval(ahead);
        let shown = crate::text::format(&span, SqlType::Interval);
        let message = format!("interval time zone \"{shown}\" must not include months or days");
        return Err(SqlError::new(code::INVALID_PARAMETER, message));
    }
    Zone::east(ahead.micros / SECOND_US)
        .ok_or_else(|| SqlError::new(code::INVALID_PARAMETER, "interval time zone is out of range"))
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
    // Displayed years have no year 0.
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
    truncated(&clipped(unit).to_lowercase(), micros).map(Datum::Timestamp)
}

/// `date_trunc` of an instant in a zone. The start of an hour or a smaller unit keeps the UTC
/// offset of the instant. So it stays in the first or the second of two hours with the same local
/// time.
pub(super) fn truncate_moment(unit: &str, moment: i64, zone: &Zone) -> Result<i64, SqlError> {
    let unit = clipped(unit).to_lowercase();
    let begin = truncated(&unit, zone.local(moment))?;
    let is_of_day = matches!(&*unit, "us" | "ms")
        || ["hour", "minute", "second"].iter().any(|part| unit.contains(part));
    match is_of_day && !is_infinite(moment) {
        true => Ok(begin - zone.ahead(moment)),
        false => Ok(zone.instant(begin)),
    }
}

fn truncated(unit: &str, micros: i64) -> Result<i64, SqlError> {
    if is_infinite(micros) {
        return Ok(micros);
    }
    let parts = Parts::of(micros);
    let to = |length: i64| micros - micros.rem_euclid(length);
    let begin = |year: i64, month: i64| days(year, month, 1) * DAY_US;
    Ok(match unit {
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
    })
}

const ROMAN: [&str; 12] =
    ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// A month as a Roman numeral, by its number from 1.
pub(super) fn roman(month: i64) -> &'static str {
    ROMAN[(month - 1) as usize]
}

/// A local time in the format of a pattern: `YYYY-MM-DD HH24:MI:SS`, `FMDay, DDth "of" Month`.
pub(super) fn to_char(value: &Datum, pattern: &str, zone: &ShownZone) -> Datum {
    let Datum::Timestamp(micros) = *value else { return Datum::Null };
    if is_infinite(micros) || pattern.is_empty() {
        return Datum::Null;
    }
    let times = Parts::of(micros);
    let shown = time_patterns::parts(pattern).into_iter().map(|part| match part {
        Part::Quoted(sign) | Part::Sign(sign) => String::from(sign),
        Part::Field(field) => shown(&times, field, zone),
    });
    Datum::Text(shown.collect())
}

/// The letters of a name in the case of its field.
fn in_case(name: &str, field: Field) -> String {
    match field.letters {
        Letters::Capitals => name.to_uppercase(),
        Letters::Name => name.to_owned(),
        Letters::Small => name.to_lowercase(),
    }
}

/// One field, padded with blanks or zeros unless it has `FM`.
fn shown(parts: &Parts, field: Field, zone: &ShownZone) -> String {
    let name = |name: &str, width: usize| match field.is_plain || field.is_local {
        true => in_case(name, field),
        false => format!("{:width$}", in_case(name, field)),
    };
    let either = |signs: [&str; 2], at: bool| in_case(signs[usize::from(at)], field);
    let (iso_year, iso_week) = parts.week();
    // There is no year 0: the year before 1 is 1 BC.
    let counted = |year: i64| if year > 0 { year } else { 1 - year };
    let (year, iso_year) = (counted(parts.year), counted(iso_year));
    let week_day = (parts.weekday() + 6).rem_euclid(7) + 1;
    let within = (parts.hour * 60 + parts.minute) * 60 + parts.second;
    let fraction = |digits: usize| (parts.micros / 10i64.pow(6 - digits as u32), digits);
    let (sign, ahead) = (if zone.ahead < 0 { '-' } else { '+' }, zone.ahead.abs());
    // A number, and its minimal number of digits.
    let (number, width) = match field.name {
        "A.D." | "B.C." => return either(["A.D.", "B.C."], parts.year <= 0),
        "AD" | "BC" => return either(["AD", "BC"], parts.year <= 0),
        "A.M." | "P.M." => return either(["A.M.", "P.M."], parts.hour >= 12),
        "AM" | "PM" => return either(["AM", "PM"], parts.hour >= 12),
        "MONTH" => return name(MONTHS[(parts.month - 1) as usize], 9),
        "MON" => return name(&MONTHS[(parts.month - 1) as usize][..3], 0),
        "DAY" => return name(WEEKDAYS[parts.weekday() as usize], 9),
        "DY" => return name(&WEEKDAYS[parts.weekday() as usize][..3], 0),
        "RM" => return name(roman(parts.month), 4),
        "FX" => return String::new(),
        "TZ" => return in_case(&zone.letters, field),
        "TZH" => return format!("{sign}{:02}", ahead / 3600),
        "TZM" => (ahead % 3600 / 60, 2),
        "OF" => {
            let width = if field.is_plain { 0 } else { 2 };
            let hours = format!("{sign}{:0width$}", ahead / 3600);
            return match ahead % 3600 / 60 {
                0 => hours,
                minutes => format!("{hours}:{minutes:02}"),
            };
        }
        "HH24" => (parts.hour, 2),
        "HH12" | "HH" => ((parts.hour + 11) % 12 + 1, 2),
        "MI" => (parts.minute, 2),
        "SS" => (parts.second, 2),
        "MS" => fraction(3),
        "US" => fraction(6),
        "SSSS" | "SSSSS" => (within, 1),
        "Y,YYY" => {
            let shown = format!("{},{:03}", year / 1000, year % 1000);
            return with_ordinal(shown, field.ordinal);
        }
        "YYYY" => (year, 4),
        "YYY" => (year % 1000, 3),
        "YY" => (year % 100, 2),
        "Y" => (year % 10, 1),
        "IYYY" => (iso_year, 4),
        "IYY" => (iso_year % 1000, 3),
        "IY" => (iso_year % 100, 2),
        "I" => (iso_year % 10, 1),
        "IDDD" => ((iso_week - 1) * 7 + week_day, 3),
        "ID" => (week_day, 1),
        "IW" => (iso_week, 2),
        "MM" => (parts.month, 2),
        "DDD" => (parts.day_of_year(), 3),
        "DD" => (parts.day, 2),
        "D" => (parts.weekday() + 1, 1),
        "WW" => ((parts.day_of_year() - 1) / 7 + 1, 2),
        "W" => ((parts.day - 1) / 7 + 1, 1),
        "CC" if parts.year > 0 => ((parts.year - 1) / 100 + 1, 2),
        "CC" => (parts.year / 100 - 1, 3),
        "J" => (parts.day_number + 2_440_588, 1),
        "Q" => ((parts.month - 1) / 3 + 1, 1),
        fraction_of => fraction(fraction_of[2..].parse().unwrap_or(6)),
    };
    // These digits are those behind a decimal point.
    let keeps_zeros = matches!(field.name, "MS" | "US" | "TZM") || field.name.starts_with("FF");
    let width = if field.is_plain && !keeps_zeros { 0 } else { width };
    with_ordinal(format!("{number:0width$}"), field.ordinal)
}

/// A number with its ordinal suffix; true for lower case.
pub(super) fn with_ordinal(mut number: String, ordinal: Option<bool>) -> String {
    let Some(is_small) = ordinal else { return number };
    let tens = number.len().checked_sub(2).map(|at| number.as_bytes()[at]);
    let ending = match number.as_bytes().last() {
        _ if tens == Some(b'1') => "TH",
        Some(b'1') => "ST",
        Some(b'2') => "ND",
        Some(b'3') => "RD",
        _ => "TH",
    };
    number.push_str(&if is_small { ending.to_lowercase() } else { ending.to_owned() });
    number
}
