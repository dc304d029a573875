//! Time zones: conversion between local times and instants.
//!
//! ```text
//!   instant ──local──▶  local time   2026-03-29 00:59 UTC ──▶ 01:59 in Berlin, 01:00 UTC ──▶ 03:00
//!           ◀─instant──              02:30 was skipped: the offset before applies, 01:30 UTC
//!                                    2026-10-25 02:30 was repeated: the second, 01:30 UTC
//! ```
//!
//! An instant is stored as microseconds since 1970 in UTC, whatever zone it was written in; zones
//! only matter for input and output. The rules are compiled into the program, so that all nodes
//! have the same.

use crate::datum::Datum;
use crate::types::SqlType;
use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};
use std::sync::Arc;

const SECOND_US: i64 = 1_000_000;
const DAY_US: i64 = 86_400 * SECOND_US;
/// 400 years.
const CYCLE_US: i64 = 146_097 * DAY_US;

/// A time zone.
#[derive(Clone, PartialEq, Debug)]
pub struct Zone {
    name: Arc<str>,
    /// `None`: UTC.
    rules: Option<TimeZone>,
}

impl Default for Zone {
    fn default() -> Zone {
        Zone::utc()
    }
}

impl Zone {
    /// UTC.
    pub fn utc() -> Zone {
        Zone { name: Arc::from("UTC"), rules: None }
    }

    /// The zone with a name: one of the time zone database, a POSIX rule (`EST5EDT`, `<+02>-02`,
    /// `+05:30`), or hours east of Greenwich (`2`, `-3.5`).
    pub fn named(name: &str) -> Option<Zone> {
        let name = name.trim().trim_matches('\'');
        if matches!(name, "Z" | "z" | "+00:00" | "-00:00") {
            return Some(Zone::utc());
        }
        if let Some(hours) = name.parse::<f64>().ok().filter(|hours| hours.is_finite()) {
            return Zone::east((hours * 3600.0).round() as i64);
        }
        if let Some(zone) = Zone::west(name) {
            return Some(zone);
        }
        let found = match TimeZone::get(name) {
            Ok(rules) => {
                let known = rules.iana_name().unwrap_or(name);
                Zone { name: Arc::from(known), rules: Some(rules) }
            }
            Err(_) if name.contains(|c: char| c.is_ascii_digit()) => {
                Zone { name: Arc::from(name), rules: Some(TimeZone::posix(name).ok()?) }
            }
            Err(_) => return None,
        };
        let is_utc = found.rules.as_ref().is_some_and(|rules| *rules == TimeZone::UTC);
        Some(if is_utc { Zone { rules: None, ..found } } else { found })
    }

    /// The zone of a POSIX rule without an abbreviation, whose offset counts to the west: `+05:30`,
    /// `-3`, `2:30:15`.
    pub(crate) fn west(name: &str) -> Option<Zone> {
        let number = name.trim();
        let (sign, number) = match number.strip_prefix('-') {
            Some(number) => (1, number),
            None => (-1, number.strip_prefix('+').unwrap_or(number)),
        };
        let mut seconds = 0;
        for (part, unit) in number.splitn(3, ':').zip([3600, 60, 1]) {
            let is_number = !part.is_empty() && part.bytes().all(|sign| sign.is_ascii_digit());
            let part = part.parse::<i32>().ok().filter(|_| is_number)?;
            seconds += unit * Some(part).filter(|part| unit == 3600 || *part < 60)?;
        }
        let offset = Offset::from_seconds(sign * seconds).ok()?;
        Some(Zone { name: Arc::from(name), rules: Some(TimeZone::fixed(offset)) })
    }

    /// A fixed offset in seconds east of Greenwich, with PostgreSQL's name for it, in which the
    /// number behind the brackets counts to the west.
    pub(crate) fn east(seconds: i64) -> Option<Zone> {
        if seconds == 0 {
            return Some(Zone { name: Arc::from("<+00>-00"), rules: None });
        }
        let (east, west) = if seconds < 0 { ('-', '+') } else { ('+', '-') };
        let shown = hours(seconds.abs());
        let name = format!("<{east}{shown}>{west}{shown}");
        let offset = Offset::from_seconds(i32::try_from(seconds).ok()?).ok()?;
        Some(Zone { name: Arc::from(name), rules: Some(TimeZone::fixed(offset)) })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The UTC offset at an instant, in microseconds.
    pub(crate) fn ahead(&self, micros: i64) -> i64 {
        let Some(rules) = &self.rules else { return 0 };
        // Rules end shortly before the end of the year 9999, but continue to apply: weekdays and
        // leap years repeat every 400 years. Before the first known year, nothing changes.
        let least = Timestamp::MIN.as_microsecond() + 2 * DAY_US;
        let most = Timestamp::MAX.as_microsecond() - 2 * DAY_US;
        let cycles = if micros > most { (micros - most) / CYCLE_US + 1 } else { 0 };
        let moment = Timestamp::from_microsecond((micros - cycles * CYCLE_US).max(least));
        let seconds = moment.map_or(0, |moment| rules.to_offset(moment).seconds());
        i64::from(seconds) * SECOND_US
    }

    /// The local time at an instant: microseconds since 1970.
    pub fn local(&self, micros: i64) -> i64 {
        if matches!(micros, i64::MIN | i64::MAX) {
            return micros;
        }
        micros.saturating_add(self.ahead(micros))
    }

    /// The instant of a local time. Of a repeated local time it is the second one; for a skipped
    /// local time, the offset before the gap applies.
    pub fn instant(&self, local: i64) -> i64 {
        if self.rules.is_none() || matches!(local, i64::MIN | i64::MAX) {
            return local;
        }
        let before = self.ahead(local.saturating_sub(DAY_US));
        let after = self.ahead(local.saturating_add(DAY_US));
        let moment = |offset: i64| local.saturating_sub(offset);
        let is_right = |offset: i64| self.ahead(moment(offset)) == offset;
        if is_right(after) { moment(after) } else { moment(before) }
    }

    /// A value of one type prepared for conversion to another: an instant becomes a local time, or
    /// the reverse.
    pub fn retyped(&self, value: Datum, from: SqlType, to: SqlType) -> Datum {
        let (from, to) = (from.plain(), to.plain());
        let is_moment = |ty| ty == SqlType::TimestampTz;
        match value {
            Datum::Timestamp(moment) if is_moment(from) && to == SqlType::TimeTz => {
                let within = self.local(moment).rem_euclid(DAY_US);
                Datum::TimeTz(within, (self.ahead(moment) / SECOND_US) as i32)
            }
            Datum::Timestamp(moment) if is_moment(from) && !is_moment(to) => {
                Datum::Timestamp(self.local(moment))
            }
            Datum::Timestamp(wall) if is_moment(to) && !is_moment(from) => {
                Datum::Timestamp(self.instant(wall))
            }
            Datum::Float(real) if from == SqlType::Float4 && matches!(to, SqlType::Numeric(_)) => {
                Datum::Float(crate::functions::six_digits(real))
            }
            Datum::Int(day) if is_moment(to) && from == SqlType::Date => {
                Datum::Timestamp(self.instant(day.saturating_mul(DAY_US)))
            }
            other => other,
        }
    }

    /// The UTC offset in the text of an instant: `+02`, `-03:30`.
    pub(crate) fn suffix(&self, micros: i64) -> String {
        suffix(self.ahead(micros) / SECOND_US)
    }

    /// Its abbreviation at an instant: `CET`, `-03:30`.
    pub(crate) fn abbreviation(&self, micros: i64) -> String {
        // A zone of a fixed offset has it in its name: `<-03:30>+03:30`.
        let bracketed = self.name.strip_prefix('<').and_then(|name| name.split_once('>'));
        if let Some((abbreviation, _)) = bracketed {
            return abbreviation.to_owned();
        }
        match (&self.rules, Timestamp::from_microsecond(micros)) {
            (Some(rules), Ok(moment)) => rules.to_offset_info(moment).abbreviation().to_owned(),
            _ => "UTC".to_owned(),
        }
    }

    /// The names of the time zone database.
    pub(crate) fn names() -> impl Iterator<Item = String> {
        jiff::tz::db().available().map(|name| name.to_string())
    }

    /// True if daylight saving time applies at an instant.
    pub(crate) fn saves_daylight(&self, micros: i64) -> bool {
        match (&self.rules, Timestamp::from_microsecond(micros)) {
            (Some(rules), Ok(moment)) => rules.to_offset_info(moment).dst().is_dst(),
            _ => false,
        }
    }

    /// True if its UTC offset never changes.
    pub(crate) fn is_fixed(&self) -> bool {
        self.rules.as_ref().is_none_or(|rules| rules.to_fixed_offset().is_ok())
    }
}

/// A UTC offset in seconds as text: `+02`, `-03:30`.
pub(crate) fn suffix(seconds: i64) -> String {
    let sign = if seconds < 0 { '-' } else { '+' };
    format!("{sign}{}", hours(seconds.abs()))
}

/// Seconds as hours, with minutes and seconds if there are any.
fn hours(seconds: i64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (minutes, seconds) {
        (0, 0) => format!("{hours:02}"),
        (_, 0) => format!("{hours:02}:{minutes:02}"),
        _ => format!("{hours:02}:{minutes:02}:{seconds:02}"),
    }
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
    fn local_times_convert_to_instants() {
        let berlin = Zone::named("europe/berlin").expect("a zone");
        assert_eq!(berlin.name(), "Europe/Berlin");
        for (wall, moment, suffix) in [
            ("2026-01-15 12:00", "2026-01-15 11:00", "+01"),
            ("2026-07-15 12:00", "2026-07-15 10:00", "+02"),
            ("2026-03-29 01:59", "2026-03-29 00:59", "+01"),
            ("2026-03-29 03:00", "2026-03-29 01:00", "+02"),
            ("2026-10-25 02:30", "2026-10-25 01:30", "+01"),
            ("1880-01-01 00:00", "1879-12-31 23:06:32", "+00:53:28"),
            ("205000-07-10 17:32", "205000-07-10 15:32", "+02"),
            ("205000-01-10 17:32", "205000-01-10 16:32", "+01"),
        ] {
            assert_eq!(berlin.instant(at(wall)), at(moment), "{wall}");
            assert_eq!(berlin.local(at(moment)), at(wall), "{moment}");
            assert_eq!(berlin.suffix(at(moment)), suffix, "{moment}");
        }
        // A skipped local time, and a repeated one.
        assert_eq!(berlin.instant(at("2026-03-29 02:30")), at("2026-03-29 01:30"));
        assert_eq!(berlin.local(at("2026-10-25 00:30")), at("2026-10-25 02:30"));
        assert_eq!(berlin.local(i64::MAX), i64::MAX);
    }

    #[test]
    fn zones_have_many_names() {
        for (name, known, suffix) in [
            ("UTC", "UTC", "+00"),
            ("2", "<+02>-02", "+02"),
            ("-3.5", "<-03:30>+03:30", "-03:30"),
            ("25", "<+25>-25", "+25"),
            ("<+02>-02", "<+02>-02", "+02"),
            ("EST5EDT", "EST5EDT", "-05"),
            ("asia/kathmandu", "Asia/Kathmandu", "+05:30"),
            ("+05:30", "+05:30", "-05:30"),
            ("-2:30:15", "-2:30:15", "+02:30:15"),
        ] {
            let zone = Zone::named(name).unwrap_or_else(|| panic!("{name} is a zone"));
            assert_eq!((zone.name(), &*zone.suffix(0)), (known, suffix), "{name}");
        }
        for wrong in ["Nowhere/Land", "", "168", "+02:00x", "+05:60", "+0530", "1:", "+-1"] {
            assert_eq!(Zone::named(wrong), None, "{wrong}");
        }
    }
}
