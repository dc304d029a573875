//! Functions of intervals and of times of day, and their arithmetic with dates and times.
//!
//! Months and days are added to the local time, hours and smaller units to the instant. So a day
//! later is the same hour, even across a change of daylight saving time.

use super::times::{self, ShownZone};
use super::{read_times, show_spans};
use crate::dates::{DAYS, civil, days};
use crate::datum::Datum;
use crate::error::{SqlError, clipped, code};
use crate::interval::{self, Interval};
use crate::numeric::Decimal;
use crate::transaction::Surroundings;
use crate::types::SqlType;

const SECOND_US: i64 = 1_000_000;
const MINUTE_US: i64 = 60 * SECOND_US;
const HOUR_US: i64 = 60 * MINUTE_US;
const DAY_US: i64 = 24 * HOUR_US;

/// A function of intervals and times of day.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "they are what SQL calls so")]
pub enum TimeFunc {
    /// A text as a time of the type with this oid, read with the settings of the session.
    Read,
    /// The time of day at an instant, with its zone; a time of day gets today's UTC offset.
    ZonedClock,
    /// A time of day in another zone, with the UTC offset that this has now.
    ClockThere,
    /// A time and an interval: the sum, or the difference if the last argument is true. The first
    /// of these variants is for local times, the second for instants, the third for times of day.
    Plus,
    PlusMoment,
    PlusClock,
    /// A day and a time of day combined.
    Together,
    /// From one time to another.
    Between,
    ClockBetween,
    Sum,
    Difference,
    Times,
    Over,
    Negated,
    Age,
    JustifyDays,
    JustifyHours,
    JustifyInterval,
    MakeInterval,
    MakeTime,
    MakeDate,
    MakeTimestamp,
    ToTimestamp,
    /// A field of an interval or of a time of day.
    Field,
    /// The UTC offset of the zone at an instant.
    ZoneField,
    Trunc,
    /// `date_trunc` of an instant: a unit, the instant, and a zone if it differs from the
    /// session's.
    TruncMoment,
    /// The start of the interval that contains a time, if intervals follow one another from an
    /// origin on.
    Bin,
    IsFinite,
    CurrentTime,
    LocalTimeOfDay,
    /// `to_char` of an instant and a pattern; of an interval and a pattern.
    ShowMoment,
    ShowSpan,
    /// `to_timestamp` of a text and a pattern.
    ReadMoment,
    /// OVERLAPS, of the ends of two periods.
    Overlaps,
}

impl TimeFunc {
    /// True if the result depends on the clock, or on the zone or the date order of the session.
    pub(crate) fn asks_around(self, args: usize) -> bool {
        use TimeFunc::*;
        match self {
            Read | ZonedClock | ClockThere | PlusMoment | ZoneField | CurrentTime
            | LocalTimeOfDay | ShowMoment | ReadMoment => true,
            Age => args < 2,
            TruncMoment => args < 3,
            _ => false,
        }
    }
}

pub(crate) fn timestamp_out_of_range() -> SqlError {
    SqlError::new(code::DATETIME_OVERFLOW, "timestamp out of range")
}

/// True for the infinite times.
pub(crate) fn is_infinite(micros: i64) -> bool {
    matches!(micros, i64::MIN | i64::MAX)
}

/// Checks that a time is in the supported range.
fn in_range(micros: Option<i64>) -> Result<i64, SqlError> {
    let is_there =
        |micros: &i64| DAYS.contains(&micros.div_euclid(DAY_US)) && !is_infinite(*micros);
    micros.filter(is_there).ok_or_else(timestamp_out_of_range)
}

/// Converts an instant into local time, or the reverse; infinite times stay infinite.
///
/// # Errors
/// 22008 if the result is out of range.
pub(crate) fn moved(micros: i64, to: impl FnOnce(i64) -> i64) -> Result<i64, SqlError> {
    if is_infinite(micros) { Ok(micros) } else { in_range(Some(to(micros))) }
}

/// A number of months later: the same day of the month, or the last one.
fn months_later(micros: i64, months: i32) -> Result<i64, SqlError> {
    let (day, within) = (micros.div_euclid(DAY_US), micros.rem_euclid(DAY_US));
    let (year, month, of_month) = civil(day);
    let all = year * 12 + i64::from(month) - 1 + i64::from(months);
    let (year, month) = (all.div_euclid(12), all.rem_euclid(12) + 1);
    let (next_year, next_month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    let length = days(next_year, next_month, 1) - days(year, month, 1);
    let day = days(year, month, i64::from(of_month).min(length));
    in_range(day.checked_mul(DAY_US).and_then(|micros| micros.checked_add(within)))
}

/// The local time some months and days later.
fn days_later(wall: i64, span: Interval) -> Result<i64, SqlError> {
    let wall = if span.months == 0 { wall } else { months_later(wall, span.months)? };
    in_range(i64::from(span.days).checked_mul(DAY_US).and_then(|days| wall.checked_add(days)))
}

/// The local time an interval later.
pub(crate) fn later(wall: i64, span: Interval) -> Result<i64, SqlError> {
    if is_infinite(wall) {
        return Ok(wall);
    }
    in_range(days_later(wall, span)?.checked_add(span.micros))
}

/// The instant an interval later, where months and days are added in a zone.
pub(crate) fn moment_later(
    moment: i64,
    span: Interval,
    zone: &crate::zone::Zone,
) -> Result<i64, SqlError> {
    if is_infinite(moment) {
        return Ok(moment);
    }
    let moment = match (span.months, span.days) {
        (0, 0) => moment,
        _ => zone.instant(days_later(zone.local(moment), span)?),
    };
    in_range(moment.checked_add(span.micros))
}

/// From one time to another, in days and smaller units.
fn between(from: i64, to: i64) -> Result<Interval, SqlError> {
    if is_infinite(from) || is_infinite(to) {
        return Err(SqlError::new(code::DATETIME_OVERFLOW, "cannot subtract infinite timestamps"));
    }
    let micros = to.checked_sub(from).ok_or_else(interval::out_of_range)?;
    Interval::micros(micros).justified_hours()
}

/// From one time to another, in calendar years, months and days.
fn age(to: i64, from: i64) -> Result<Interval, SqlError> {
    if is_infinite(from) || is_infinite(to) {
        return Err(SqlError::new(code::DATETIME_OVERFLOW, "cannot subtract infinite timestamps"));
    }
    let is_before = to < from;
    let (early, late) = if is_before { (to, from) } else { (from, to) };
    let parts = |micros: i64| {
        let (year, month, day) = civil(micros.div_euclid(DAY_US));
        (year * 12 + i64::from(month) - 1, i64::from(day), micros.rem_euclid(DAY_US))
    };
    let ((a_months, a_day, a_micros), (b_months, b_day, b_micros)) = (parts(early), parts(late));
    let (mut months, mut count, mut micros) =
        (b_months - a_months, b_day - a_day, b_micros - a_micros);
    if micros < 0 {
        (micros, count) = (micros + DAY_US, count - 1);
    }
    while count < 0 {
        // The length of the earlier time's month.
        let month = a_months;
        let (year, month) = (month.div_euclid(12), month.rem_euclid(12) + 1);
        let (next_year, next_month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
        count += days(next_year, next_month, 1) - days(year, month, 1);
        months -= 1;
    }
    let months = i32::try_from(months).map_err(|_| interval::out_of_range())?;
    let span = Interval { months, days: count as i32, micros };
    if is_before { span.negated() } else { Ok(span) }
}

/// The start of the interval that contains a time.
fn bin(stride: Interval, micros: i64, origin: i64) -> Result<i64, SqlError> {
    let overflow = |what: &str| SqlError::new(code::DATETIME_OVERFLOW, what);
    if is_infinite(micros) {
        return Ok(micros);
    }
    if is_infinite(origin) {
        return Err(overflow("origin out of range"));
    }
    if stride.months != 0 {
        let what = "timestamps cannot be binned into intervals containing months or years";
        return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, what));
    }
    let stride =
        i64::from(stride.days).checked_mul(DAY_US).and_then(|days| days.checked_add(stride.micros));
    let stride = stride.ok_or_else(|| overflow("interval out of range"))?;
    if stride <= 0 {
        return Err(overflow("stride must be greater than zero"));
    }
    let past = micros.checked_sub(origin).ok_or_else(|| overflow("interval out of range"))?;
    in_range(micros.checked_sub(past.rem_euclid(stride)))
}

/// Calls a function.
///
/// # Errors
/// 22007, 22008, 22015 and others, by the function.
/// Whether two periods have a time in common, each given by its two ends in any order. A period of
/// one time has that time; other periods do not have their end. An unknown end makes the result
/// unknown only where it decides.
fn overlap(ends: &[Datum]) -> Datum {
    // The known start first, and an end that is known and not before it.
    let ordered = |a: &Datum, b: &Datum| match (a.is_null(), b.is_null()) {
        (true, true) => None,
        (true, false) => Some((b.clone(), Datum::Null)),
        (false, false) if a.compare(b).is_gt() => Some((b.clone(), a.clone())),
        _ => Some((a.clone(), b.clone())),
    };
    let [a, b, c, d] = ends else { return Datum::Null };
    let (Some(first), Some(second)) = (ordered(a, b), ordered(c, d)) else { return Datum::Null };
    let order = first.0.compare(&second.0);
    if order.is_eq() {
        let is_known = !first.1.is_null() && !second.1.is_null();
        return if is_known { Datum::Bool(true) } else { Datum::Null };
    }
    let (early, late) = if order.is_lt() { (first, second) } else { (second, first) };
    match (early.1.is_null(), late.1.is_null()) {
        (true, _) => Datum::Null,
        _ if late.0.compare(&early.1).is_lt() => Datum::Bool(true),
        (_, true) => Datum::Null,
        _ => Datum::Bool(false),
    }
}

pub(super) fn call(
    func: TimeFunc,
    args: &[Datum],
    around: &Surroundings,
) -> Result<Datum, SqlError> {
    use TimeFunc::*;
    let style = around.settings.times();
    let zone = &style.zone;
    let text = |at: usize| args.get(at).and_then(Datum::as_text).unwrap_or("");
    let int = |at: usize| args.get(at).and_then(Datum::as_int).unwrap_or(0);
    let is_minus = || args.get(2).and_then(Datum::as_bool) == Some(true);
    let span = |at: usize| match args.get(at) {
        Some(Datum::Interval(span)) => *span,
        Some(Datum::Int(micros)) => Interval::micros(*micros),
        _ => Interval::default(),
    };
    let signed = || if is_minus() { span(1).negated() } else { Ok(span(1)) };
    let time = |at: usize| match args.get(at) {
        Some(Datum::Timestamp(micros)) => *micros,
        _ => 0,
    };
    Ok(match func {
        Overlaps => overlap(args),
        Read => {
            let ty = SqlType::numbered(int(1)).unwrap_or(SqlType::Timestamp);
            crate::text::parse_at(text(0), ty, style, Some(around.begun_us))?
        }
        ZonedClock => {
            let (within, at) = match args[0] {
                Datum::Timestamp(moment) => (zone.local(moment).rem_euclid(DAY_US), moment),
                _ => (int(0), around.begun_us),
            };
            Datum::TimeTz(within, (zone.ahead(at) / SECOND_US) as i32)
        }
        ClockThere => {
            let Datum::TimeTz(within, ahead) = args[0] else { return Ok(Datum::Null) };
            let there = times::zone_of(&args[1])?.ahead(around.begun_us) / SECOND_US;
            let within = within + (there - i64::from(ahead)) * SECOND_US;
            Datum::TimeTz(within.rem_euclid(DAY_US), there as i32)
        }
        Plus => Datum::Timestamp(later(time(0), signed()?)?),
        PlusMoment => Datum::Timestamp(moment_later(time(0), signed()?, zone)?),
        PlusClock => {
            let micros = signed()?.micros;
            match args[0] {
                Datum::TimeTz(within, ahead) => {
                    Datum::TimeTz((within + micros % DAY_US).rem_euclid(DAY_US), ahead)
                }
                _ => Datum::Int((int(0) + micros % DAY_US).rem_euclid(DAY_US)),
            }
        }
        Together => match (time(0), &args[1]) {
            (day, _) if is_infinite(day) => Datum::Timestamp(day),
            (day, Datum::TimeTz(within, ahead)) => {
                let within = within - i64::from(*ahead) * SECOND_US;
                Datum::Timestamp(in_range(day.checked_add(within))?)
            }
            (day, _) => Datum::Timestamp(in_range(day.checked_add(int(1)))?),
        },
        Between => Datum::Interval(between(time(1), time(0))?),
        ClockBetween => Datum::Interval(Interval::micros(int(0) - int(1))),
        Sum => Datum::Interval(span(0).plus(span(1))?),
        Difference => Datum::Interval(span(0).plus(span(1).negated()?)?),
        Times => Datum::Interval(span(0).times(args[1].to_f64())?),
        Over => Datum::Interval(span(0).over(args[1].to_f64())?),
        Negated => Datum::Interval(span(0).negated()?),
        Age => Datum::Interval(match args {
            [_, _] => age(time(0), time(1))?,
            _ => {
                let today = zone.local(around.begun_us).div_euclid(DAY_US) * DAY_US;
                age(today, time(0))?
            }
        }),
        JustifyDays => Datum::Interval(span(0).justified_days()?),
        JustifyHours => Datum::Interval(span(0).justified_hours()?),
        JustifyInterval => Datum::Interval(span(0).justified()?),
        MakeInterval => Datum::Interval(make_interval(args)?),
        MakeTime => Datum::Int(clock(int(0), int(1), args[2].to_f64())?),
        MakeDate => Datum::Int(date(int(0), int(1), int(2))?),
        MakeTimestamp => {
            let day = date(int(0), int(1), int(2))?;
            let within = clock(int(3), int(4), args[5].to_f64())?;
            Datum::Timestamp(in_range(day.checked_mul(DAY_US).map(|day| day + within))?)
        }
        ToTimestamp => {
            let seconds = args[0].to_f64();
            if seconds.is_nan() {
                return Err(SqlError::new(code::DATETIME_OVERFLOW, "timestamp cannot be NaN"));
            }
            let micros = (seconds * 1e6).round_ties_even();
            Datum::Timestamp(match seconds {
                _ if seconds == f64::INFINITY => i64::MAX,
                _ if seconds == f64::NEG_INFINITY => i64::MIN,
                _ => in_range((micros.abs() < 9.2e18).then_some(micros as i64))?,
            })
        }
        Field => field(&clipped(text(0)).to_lowercase(), &args[1])?,
        ZoneField => {
            let ahead = match args[1] {
                Datum::TimeTz(_, ahead) => i64::from(ahead),
                _ => zone.ahead(time(1)) / SECOND_US,
            };
            Datum::Numeric(Decimal::int(match text(0) {
                "timezone_hour" => ahead / 3600,
                "timezone_minute" => ahead / 60 % 60,
                _ => ahead,
            }))
        }
        Trunc => {
            let unit = clipped(text(0)).to_lowercase();
            let found = span(1).truncated(&unit);
            Datum::Interval(found.ok_or_else(|| unit_error(&unit, SqlType::Interval))?)
        }
        TruncMoment => {
            let named = args.get(2).map(|_| times::zone_named(text(2))).transpose()?;
            let zone = named.as_ref().unwrap_or(zone);
            Datum::Timestamp(times::truncate_moment(text(0), time(1), zone)?)
        }
        Bin => match (&args[1], &args[2]) {
            (Datum::Timestamp(micros), Datum::Timestamp(origin)) => {
                Datum::Timestamp(bin(span(0), *micros, *origin)?)
            }
            _ => Datum::Null,
        },
        IsFinite => Datum::Bool(match args[0] {
            Datum::Timestamp(micros) | Datum::Int(micros) => !is_infinite(micros),
            _ => true,
        }),
        ShowMoment => {
            around.budget.charge(16 * text(1).len())?;
            let wall = Datum::Timestamp(zone.local(time(0)));
            times::to_char(&wall, text(1), &ShownZone::at(zone, time(0)))
        }
        ShowSpan => {
            around.budget.charge(16 * text(1).len())?;
            show_spans::to_char(span(0), text(1))?
        }
        ReadMoment => {
            let (wall, ahead) = read_times::read(text(0), text(1))?;
            let to = |wall| ahead.map_or(zone.instant(wall), |ahead| wall - ahead * SECOND_US);
            Datum::Timestamp(moved(wall, to)?)
        }
        CurrentTime | LocalTimeOfDay => {
            let within = zone.local(around.begun_us).rem_euclid(DAY_US);
            match func {
                LocalTimeOfDay => Datum::Int(within),
                _ => Datum::TimeTz(within, (zone.ahead(around.begun_us) / SECOND_US) as i32),
            }
        }
    })
}

fn out_of_range(what: &str) -> SqlError {
    SqlError::new(code::DATETIME_OVERFLOW, format!("{what} field value out of range"))
}

/// `make_date`: negative years are BC.
fn date(year: i64, month: i64, day: i64) -> Result<i64, SqlError> {
    let counted = if year < 0 { year + 1 } else { year };
    let wrong = || {
        let message = format!("date field value out of range: {year}-{month:02}-{day:02}");
        SqlError::new(code::DATETIME_OVERFLOW, message)
    };
    if year == 0 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return Err(wrong());
    }
    let date = days(counted, month, day);
    let is_there = civil(date) == (counted, month as u32, day as u32) && DAYS.contains(&date);
    if is_there { Ok(date) } else { Err(wrong()) }
}

/// `make_time`: microseconds since midnight.
fn clock(hours: i64, minutes: i64, seconds: f64) -> Result<i64, SqlError> {
    let is_there =
        (0..=24).contains(&hours) && (0..60).contains(&minutes) && (0.0..=60.0).contains(&seconds);
    if !is_there {
        return Err(out_of_range("time"));
    }
    let within = hours * HOUR_US + minutes * MINUTE_US + (seconds * 1e6).round_ties_even() as i64;
    if within > DAY_US { Err(out_of_range("time")) } else { Ok(within) }
}

/// `make_interval` of years, months, weeks, days, hours, minutes and seconds.
fn make_interval(args: &[Datum]) -> Result<Interval, SqlError> {
    let int = |at: usize| args.get(at).and_then(Datum::as_int).unwrap_or(0);
    let seconds = args.get(6).map_or(0.0, Datum::to_f64);
    let micros = (seconds * 1e6).round_ties_even();
    let make = || {
        if micros.is_nan() || micros.abs() >= 9.2e18 {
            return None;
        }
        let time = int(4).checked_mul(HOUR_US)?.checked_add(int(5).checked_mul(MINUTE_US)?)?;
        Some(Interval {
            months: i32::try_from(int(0).checked_mul(12)?.checked_add(int(1))?).ok()?,
            days: i32::try_from(int(2).checked_mul(7)?.checked_add(int(3))?).ok()?,
            micros: time.checked_add(micros as i64)?,
        })
    };
    make().ok_or_else(interval::out_of_range)
}

fn unit_error(unit: &str, ty: SqlType) -> SqlError {
    const KNOWN: [&str; 26] = [
        "year",
        "years",
        "month",
        "months",
        "day",
        "days",
        "dow",
        "doy",
        "isodow",
        "isoyear",
        "week",
        "weeks",
        "quarter",
        "decade",
        "century",
        "millennium",
        "julian",
        "timezone",
        "timezone_hour",
        "timezone_minute",
        "hour",
        "minute",
        "second",
        "milliseconds",
        "microseconds",
        "epoch",
    ];
    let unit = clipped(unit);
    match KNOWN.contains(&&*unit) {
        true => {
            let message = format!("unit \"{unit}\" not supported for type {ty}");
            SqlError::new(code::FEATURE_NOT_SUPPORTED, message)
        }
        false => {
            let message = format!("unit \"{unit}\" not recognized for type {ty}");
            SqlError::new(code::INVALID_PARAMETER, message)
        }
    }
}

fn field(field: &str, value: &Datum) -> Result<Datum, SqlError> {
    let (within, ahead, ty) = match value {
        Datum::Interval(span) => {
            let found = span.field(field).map(Datum::Numeric);
            return found.ok_or_else(|| unit_error(field, SqlType::Interval));
        }
        Datum::TimeTz(within, ahead) => (*within, i64::from(*ahead), SqlType::TimeTz),
        Datum::Int(within) => (*within, 0, SqlType::Time),
        _ => return Ok(Datum::Null),
    };
    let in_minute = within % MINUTE_US;
    let exact = |mantissa: i64, scale| Decimal::new(mantissa.into(), scale);
    Ok(Datum::Numeric(match field {
        "hour" | "hours" | "h" => Decimal::int(within / HOUR_US),
        "minute" | "minutes" | "min" | "m" => Decimal::int(within / MINUTE_US % 60),
        "second" | "seconds" | "sec" | "s" => exact(in_minute, 6),
        "milliseconds" | "millisecond" | "ms" => exact(in_minute, 3),
        "microseconds" | "microsecond" | "us" => Decimal::int(in_minute),
        "epoch" => exact(within - ahead * SECOND_US, 6),
        "timezone" if ty == SqlType::TimeTz => Decimal::int(ahead),
        "timezone_hour" if ty == SqlType::TimeTz => Decimal::int(ahead / 3600),
        "timezone_minute" if ty == SqlType::TimeTz => Decimal::int(ahead / 60 % 60),
        other => return Err(unit_error(other, ty)),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> i64 {
        match crate::text::parse(text, SqlType::Timestamp) {
            Ok(Datum::Timestamp(micros)) => micros,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn months_and_days_are_those_of_the_calendar() {
        let span = |text| Interval::parse(text, None).expect(text);
        for (from, by, to) in [
            ("2026-01-31", "1 month", "2026-02-28"),
            ("2024-01-31 10:00", "1 month 1 day", "2024-03-01 10:00"),
            ("2026-03-31", "-1 month", "2026-02-28"),
            ("2026-12-31", "14 months 25:00", "2028-03-01 01:00"),
            ("0001-01-01", "-1 year", "0001-01-01 BC"),
        ] {
            assert_eq!(later(at(from), span(by)).expect(from), at(to), "{from} + {by}");
        }
        let berlin = crate::zone::Zone::named("Europe/Berlin").expect("a zone");
        let moment = berlin.instant(at("2026-03-28 12:00"));
        let next = moment_later(moment, span("1 day"), &berlin).expect("it is there");
        assert_eq!(next - moment, 23 * HOUR_US);
        for (to, from, shown) in [
            ("2026-03-01", "2026-01-31", "1 mon 1 day"),
            ("2001-04-10", "1957-06-13", "43 years 9 mons 27 days"),
            ("2026-01-31", "2026-03-01", "-1 mons -1 days"),
            ("2026-01-01 10:00", "2025-12-31 11:00", "23:00:00"),
        ] {
            assert_eq!(age(at(to), at(from)).expect(to).to_string(), shown, "{to} {from}");
        }
    }
}
