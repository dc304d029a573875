//! Microseconds and days since 1970 as calendar text, and back.
//!
//! ```text
//!   2020-08-31T09:30:00.25Z     the years 0000 to 9999; the fraction ends with its last digit
//!   @-62167219200000001         anything outside these years: the number itself
//!   2020-08-31, -719529         days
//! ```
//!
//! The calendar is the Gregorian one, carried back before its start, without leap seconds. Counting
//! years from March puts the leap day at the end of a year, where it disturbs nothing.

const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
/// From 1 March of year 0 to 1 January 1970.
const DAYS_BEFORE_1970: i64 = 719_468;
/// The calendar repeats after 400 years.
const DAYS_PER_ERA: i64 = 146_097;

pub(crate) fn format(micros: i64) -> String {
    let seconds = micros.div_euclid(MICROS_PER_SECOND);
    let (year, month, day) = date_of(seconds.div_euclid(SECONDS_PER_DAY));
    if !(0..=9999).contains(&year) {
        return format!("@{micros}");
    }
    let second = seconds.rem_euclid(SECONDS_PER_DAY);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let fraction = match micros.rem_euclid(MICROS_PER_SECOND) {
        0 => String::new(),
        fraction => format!(".{fraction:06}").trim_end_matches('0').to_owned(),
    };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

pub(crate) fn parse(text: &str) -> Option<i64> {
    if let Some(micros) = text.strip_prefix('@') {
        return micros.parse().ok();
    }
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    let days = days_of(year, month, day);
    let exists = date_of(days) == (year, month, day) && hour < 24 && minute < 60 && second < 60;
    if !exists || fraction.is_empty() || fraction.len() > 6 {
        return None;
    }
    let [fraction] = numbers(&format!("{fraction:0<6}"), '.', [6])?;
    let seconds = days * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second;
    Some(seconds * MICROS_PER_SECOND + fraction)
}

/// Days since 1970 as a date; outside of the years above as their number.
pub(crate) fn format_date(days: i64) -> String {
    // Far from any year, and the sums below do not overflow.
    if !(-1_000_000_000..=1_000_000_000).contains(&days) {
        return days.to_string();
    }
    match date_of(days) {
        (year @ 0..=9999, month, day) => format!("{year:04}-{month:02}-{day:02}"),
        _ => days.to_string(),
    }
}

pub(crate) fn parse_date(text: &str) -> Option<i64> {
    // Older catalogs have numbers only.
    if let Ok(days) = text.parse() {
        return Some(days);
    }
    let [year, month, day] = numbers(text, '-', [4, 2, 2])?;
    let days = days_of(year, month, day);
    (date_of(days) == (year, month, day)).then_some(days)
}

/// Numbers of fixed widths, with `mark` between them.
fn numbers<const N: usize>(text: &str, mark: char, widths: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(mark);
    let mut numbers = [0; N];
    for (number, width) in numbers.iter_mut().zip(widths) {
        let part = parts.next()?;
        if part.len() != width || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

/// The year, month and day that lie `days` after 1 January 1970.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + DAYS_BEFORE_1970;
    let (era, day_of_era) = (days.div_euclid(DAYS_PER_ERA), days.rem_euclid(DAYS_PER_ERA));
    // Take the leap days out, and every year has 365 days.
    let leaps = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leaps) / 365;
    let day_of_year = day_of_era - days_before_year(year_of_era);
    // From March on, five months have 153 days, whichever five they are.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// The days from 1 January 1970 to the given date; wrong for dates that do not exist.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let month_from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    era * DAYS_PER_ERA + days_before_year(year_of_era) + day_of_year - DAYS_BEFORE_1970
}

/// The days of an era before one of its years.
fn days_before_year(year_of_era: i64) -> i64 {
    year_of_era * 365 + year_of_era / 4 - year_of_era / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times_print_and_come_back() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (951_782_400_250_000, "2000-02-29T00:00:00.25Z"),
            (1_598_866_200_000_000, "2020-08-31T09:30:00Z"),
            (-62_167_219_200_000_000, "0000-01-01T00:00:00Z"),
            (253_402_300_799_999_999, "9999-12-31T23:59:59.999999Z"),
            (253_402_300_800_000_000, "@253402300800000000"),
            (i64::MIN, "@-9223372036854775808"),
        ] {
            assert_eq!(format(micros), text);
            assert_eq!(parse(text), Some(micros), "{text}");
        }
    }

    #[test]
    fn every_day_of_nine_centuries_comes_back() {
        let mut date = (1599, 12, 31);
        for days in days_of(1600, 1, 1)..days_of(2500, 1, 1) {
            let next = date_of(days);
            assert!(next > date, "{date:?} {next:?}");
            assert_eq!(days_of(next.0, next.1, next.2), days);
            date = next;
        }
        assert_eq!(date, (2499, 12, 31));
    }

    #[test]
    fn times_that_do_not_exist_are_refused() {
        for text in [
            "2021-02-29T00:00:00Z",
            "2020-13-01T00:00:00Z",
            "2020-00-01T00:00:00Z",
            "2020-01-01T24:00:00Z",
            "2020-01-01T00:00:00",
            "2020-01-01T00:00:00.Z",
            "2020-01-01T00:00:00.1234567Z",
            "2020-1-1T00:00:00Z",
            "2020-01-01",
            "+020-01-01T00:00:00Z",
            "@",
            "",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
