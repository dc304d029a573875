//! Parses dates and times in the notations of people.
//!
//! ```text
//!   2026-11-26 09:30:00.5+01   Thu Nov 26 09:30:00 2026 PST   11/26/2026 9:30 PM   26.11.2026
//!   20261126T093000            January 8, 99 BC               2026.330             J2461371
//! ```
//!
//! A text is split into numbers, words, dates, clocks and zones, which their first characters tell
//! apart; then each is interpreted. The meaning of a number depends on its number of digits and on
//! the parts found so far. In `1/8/1999` the session's `DateStyle` decides which number is the
//! month; in `8-Jan-1999` nothing is ambiguous.

use crate::error::{SqlError, clipped, code};
use crate::types::SqlType;
use crate::zone::Zone;

const SECOND_US: i64 = 1_000_000;
const MINUTE_US: i64 = 60 * SECOND_US;
const HOUR_US: i64 = 60 * MINUTE_US;
const DAY_US: i64 = 24 * HOUR_US;

/// The first and the last day: of 4714 BC and of 5874897.
pub(crate) const DAYS: std::ops::RangeInclusive<i64> = -2_440_588..=2_145_042_541;
/// The days of a timestamp since 1970: microseconds cover no more.
pub(crate) const TIMESTAMP_DAYS: std::ops::RangeInclusive<i64> = -2_440_588..=106_751_990;

/// The settings of a session for times.
#[derive(Clone, Default, Debug)]
pub struct TimeStyle {
    /// Its time zone.
    pub zone: Zone,
    /// The order of day, month and year.
    pub order: Order,
}

/// The order of day, month and year in ambiguous dates.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Order {
    /// The month, the day, the year.
    #[default]
    Mdy,
    /// The day, the month, the year.
    Dmy,
    /// The year, the month, the day.
    Ymd,
}

/// The zone that is written beside a time.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Beside {
    /// This number of microseconds ahead of UTC.
    Offset(i64),
    /// A named zone.
    Zone(Zone),
}

/// The meaning of a text.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Moment {
    /// A local time: the day since 1970, microseconds since midnight, and the zone if given.
    At(i64, i64, Option<Beside>),
    /// After all other times, or before.
    Infinity { is_later: bool },
    /// The beginning of 1970, in UTC.
    Epoch,
    /// The beginning of the transaction.
    Now,
    /// This number of days after the transaction's day, at this number of microseconds after
    /// midnight; and the zone if given.
    Today(i64, i64, Option<Beside>),
}

/// The fault of a date or a time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum WrongTime {
    /// Invalid syntax.
    Form,
    /// There is no such month, day or hour.
    Field,
    /// There is no such offset.
    Offset,
    /// An unknown zone.
    Zone,
}

impl WrongTime {
    pub(crate) fn error(self, text: &str, ty: SqlType) -> SqlError {
        let shown = clipped(text);
        let (code, message) = match self {
            WrongTime::Form => {
                (code::INVALID_DATETIME, format!("invalid input syntax for type {ty}: \"{shown}\""))
            }
            WrongTime::Field => (
                code::DATETIME_OVERFLOW,
                format!("date/time field value out of range: \"{shown}\""),
            ),
            WrongTime::Offset => {
                ("22009", format!("time zone displacement out of range: \"{shown}\""))
            }
            WrongTime::Zone => {
                (code::INVALID_PARAMETER, format!("time zone in \"{shown}\" not recognized"))
            }
        };
        SqlError::new(code, message).hint("Write it as 2026-11-21 09:30:00.5, the year first.")
    }
}

/// Parses a date with or without a time.
pub(crate) fn moment(text: &str, order: Order) -> Result<Moment, WrongTime> {
    let mut reader = Reader::new(order, false);
    reader.all(text)?;
    let within = reader.within_day()?;
    match reader.special {
        // A day may have a time; the others stand alone.
        Some(Moment::Today(after, ..)) if !reader.date_is_there() => {
            Ok(Moment::Today(after, within.unwrap_or(0), reader.zone))
        }
        Some(word) if !reader.date_is_there() && within.is_none() && reader.zone.is_none() => {
            Ok(word)
        }
        Some(_) => Err(WrongTime::Form),
        None => {
            let day = reader.day()?;
            if reader.is_moscow {
                reader.zone = Some(Beside::Offset(moscow_offset(Some(day))));
            }
            Ok(Moment::At(day, within.unwrap_or(0), reader.zone))
        }
    }
}

/// Parses a time of day and its zone: an offset, or a name, with the date if one is written.
pub(crate) fn time_of_day(text: &str) -> Result<(i64, Option<Beside>, Option<i64>), WrongTime> {
    let mut reader = Reader::new(Order::default(), true);
    reader.all(text)?;
    if reader.special.is_some() {
        return Err(WrongTime::Form);
    }
    let day = if reader.date_is_there() { Some(reader.day()?) } else { None };
    let within = reader.within_day()?.ok_or(WrongTime::Form)?;
    if matches!(reader.zone, Some(Beside::Zone(_))) && day.is_none() {
        return Err(WrongTime::Form);
    }
    Ok((within, reader.zone, day))
}

/// The meaning of a text, if it is the same in all orders.
pub(crate) fn plain_moment(text: &str) -> Option<Result<Moment, WrongTime>> {
    let read = moment(text, Order::Mdy);
    let is_one = [Order::Dmy, Order::Ymd].into_iter().all(|order| moment(text, order) == read);
    is_one.then_some(read)
}

/// True if the meaning of a text changes with the time: `now`, `today`.
pub(crate) fn is_of_now(text: &str) -> bool {
    matches!(moment(text, Order::default()), Ok(Moment::Now | Moment::Today(..)))
}

/// Year, month and day of a day since 1970, in the Gregorian calendar.
pub(crate) fn civil(days: i64) -> (i64, u32, u32) {
    // Counted from the first of March of the year 0, so that the leap day is the last of a year.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month as u32, day as u32)
}

/// The day since 1970.
pub(crate) fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Number,
    Date,
    Clock,
    Zone,
    Word,
}

/// Splits a text into its parts.
fn parts(text: &str) -> Result<Vec<(Kind, &str)>, WrongTime> {
    let (bytes, mut at, mut parts) = (text.as_bytes(), 0, Vec::new());
    let skip = |mut at: usize, is: &dyn Fn(u8) -> bool| {
        while bytes.get(at).is_some_and(|byte| is(*byte)) {
            at += 1;
        }
        at
    };
    let is_digit = |byte: u8| byte.is_ascii_digit();
    while at < bytes.len() {
        let from = at;
        let kind = match bytes[at] {
            byte if byte.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            byte if is_digit(byte) => {
                at = skip(at, &is_digit);
                match bytes.get(at) {
                    Some(b':') => {
                        at = skip(at, &|byte| is_digit(byte) || matches!(byte, b':' | b'.'));
                        Kind::Clock
                    }
                    Some(&between @ (b'-' | b'/' | b'.')) => {
                        let behind = skip(at + 1, &|byte| byte.is_ascii_alphanumeric());
                        let is_word = bytes.get(at + 1).is_some_and(u8::is_ascii_alphabetic);
                        let again = bytes.get(behind) == Some(&between);
                        if between == b'.' && !again {
                            at = skip(at + 1, &is_digit);
                            Kind::Number
                        } else {
                            // A word may be followed by letters that begin a time; digits are
                            // followed by digits.
                            at = match (again, is_word) {
                                (true, true) => {
                                    let end =
                                        skip(behind + 1, &|byte| byte.is_ascii_alphanumeric());
                                    let time = time_begins(&text[behind + 1..end]);
                                    time.map_or(end, |time| behind + 1 + time)
                                }
                                (true, false) => {
                                    skip(behind, &|byte| is_digit(byte) || byte == between)
                                }
                                (false, _) => behind,
                            };
                            Kind::Date
                        }
                    }
                    _ => Kind::Number,
                }
            }
            b'.' => {
                at = skip(at + 1, &is_digit);
                Kind::Number
            }
            byte if byte.is_ascii_alphabetic() || !byte.is_ascii() => {
                at = skip(at, &|byte| byte.is_ascii_alphabetic() || !byte.is_ascii());
                let word = &text[from..at];
                match bytes.get(at) {
                    // A month that begins a date.
                    Some(&between @ (b'-' | b'.')) if month(word).is_some() => {
                        at = skip(at, &|byte| byte.is_ascii_alphanumeric() || byte == between);
                        Kind::Date
                    }
                    Some(b'/' | b'_') if !word.is_empty() => {
                        let is_name = |byte: u8| {
                            byte.is_ascii_alphanumeric()
                                || matches!(byte, b'/' | b'_' | b'-' | b'+')
                        };
                        at = skip(at, &is_name);
                        Kind::Word
                    }
                    // A zone rule with hours, such as GMT+8, which counts to the west.
                    Some(b'+' | b'-')
                        if bytes.get(at + 1).is_some_and(u8::is_ascii_digit)
                            && month(word).is_none()
                            && word.len() > 2 =>
                    {
                        at = skip(at + 1, &is_digit);
                        Kind::Word
                    }
                    // Such as EST5EDT.
                    Some(byte) if is_digit(*byte) && word.len() > 2 && month(word).is_none() => {
                        at = skip(at, &|byte| byte.is_ascii_alphanumeric());
                        Kind::Word
                    }
                    Some(b'.') => {
                        at += 1;
                        parts.push((Kind::Word, word));
                        continue;
                    }
                    _ => Kind::Word,
                }
            }
            b'+' | b'-' => {
                at = skip(at + 1, &|byte| byte.is_ascii_whitespace());
                if bytes.get(at).is_some_and(|byte| is_digit(*byte)) {
                    at = skip(at, &|byte| is_digit(byte) || matches!(byte, b':' | b'.'));
                    Kind::Zone
                } else {
                    at = skip(at, &|byte| byte.is_ascii_alphabetic());
                    Kind::Word
                }
            }
            byte if byte.is_ascii_punctuation() => {
                at += 1;
                continue;
            }
            _ => return Err(WrongTime::Form),
        };
        parts.push((kind, &text[from..at]));
    }
    Ok(parts)
}

/// The position of the T in `26T09`, which is the last part of a date and the first of a time.
fn time_begins(part: &str) -> Option<usize> {
    let at = part.find(['t', 'T'])?;
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    (at > 0 && is_number(&part[..at]) && is_number(&part[at + 1..])).then_some(at)
}

fn month(word: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let word = word.to_ascii_lowercase();
    let fits = |name: &&str| {
        **name == word || name[..3] == word || (word == "sept" && name.starts_with("sept"))
    };
    MONTHS.iter().position(fits).map(|at| at as i64 + 1)
}

fn is_weekday(word: &str) -> bool {
    matches!(
        word,
        "sun"
            | "sunday"
            | "mon"
            | "monday"
            | "tue"
            | "tues"
            | "tuesday"
            | "wed"
            | "weds"
            | "wednesday"
            | "thu"
            | "thur"
            | "thurs"
            | "thursday"
            | "fri"
            | "friday"
            | "sat"
            | "saturday"
    )
}

/// The zone with an abbreviation: one offset, or that of its place at each time.
pub(crate) fn zone_abbreviated(word: &str) -> Option<Zone> {
    if !(1..=6).contains(&word.len()) || !word.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return None;
    }
    let word = word.to_ascii_lowercase();
    match (fixed_offset(&word), &*word) {
        (Some(seconds), _) => Zone::east(seconds),
        (None, "msk") => Zone::named("Europe/Moscow"),
        (None, word) => Zone::named(zone_of_letters(word)?),
    }
}

/// The offset of letters in seconds east of Greenwich, for those with one offset at all times.
fn fixed_offset(word: &str) -> Option<i64> {
    Some(match word {
        "hst" | "taht" => -36_000,
        "mart" => -34_200,
        "akst" | "gamt" => -32_400,
        "akdt" | "pst" => -28_800,
        "mst" | "pdt" => -25_200,
        "cst" | "galt" | "mdt" => -21_600,
        "act" | "cdt" | "cot" | "est" | "pet" => -18_000,
        "amt" | "ast" | "bot" | "edt" => -14_400,
        "nft" | "nst" => -12_600,
        "adt" | "bra" | "brt" | "clst" | "gft" | "pmst" | "pyst" | "uyt" | "wgt" => -10_800,
        "ndt" => -9000,
        "brst" | "fnt" | "pmdt" | "uyst" | "wgst" => -7200,
        "azot" | "egt" | "fnst" => -3600,
        "azost" | "egst" | "gmt" | "uct" | "ut" | "utc" | "wet" | "z" | "zulu" => 0,
        "bst" | "cet" | "met" | "mez" | "wat" | "wetdst" => 3600,
        "bdst" | "cest" | "cetdst" | "eet" | "ist" | "mest" | "mesz" | "metdst" | "sast" => 7200,
        "eat" | "eest" | "eetdst" | "fet" | "idt" => 10_800,
        "irt" => 12_600,
        "msd" | "mut" | "ret" | "sct" => 14_400,
        "aft" => 16_200,
        "must" | "mvt" | "pkt" | "tft" | "tjt" | "uzt" => 18_000,
        "npt" => 20_700,
        "almt" | "bdt" | "btt" | "kgst" | "pkst" | "uzst" | "xjt" | "yekst" => 21_600,
        "mmt" => 23_400,
        "almst" | "cxt" | "ict" | "wast" => 25_200,
        "awst" | "bnt" | "bort" | "cct" | "hkt" | "myt" | "pht" | "wadt" => 28_800,
        "acwst" => 31_500,
        "awsst" | "jayt" | "jst" | "kst" | "pwt" | "ulast" | "wdt" => 32_400,
        "acst" | "cast" => 34_200,
        "aest" | "chut" | "ddut" | "kdt" | "ligt" | "mpt" | "pgt" | "trut" | "yapt" => 36_000,
        "acdt" | "acsst" | "cadt" | "lhst" | "sadt" => 37_800,
        "aedt" | "aesst" | "pont" | "vut" => 39_600,
        "fjt" | "gilt" | "mht" | "nzst" | "nzt" | "tvt" | "wakt" | "wft" => 43_200,
        "chast" => 45_900,
        "fjst" | "nzdt" | "tot" => 46_800,
        "chadt" => 49_500,
        _ => return None,
    })
}

/// The zone of letters whose offset has changed over the years.
fn zone_of_letters(word: &str) -> Option<&'static str> {
    Some(match word {
        "arst" | "art" => "America/Argentina/Buenos_Aires",
        "pyt" => "America/Asuncion",
        "vet" => "America/Caracas",
        "gyt" => "America/Guyana",
        "clt" => "America/Santiago",
        "davt" => "Antarctica/Davis",
        "mawt" => "Antarctica/Mawson",
        "anast" | "anat" => "Asia/Anadyr",
        "tmt" => "Asia/Ashgabat",
        "azst" | "azt" => "Asia/Baku",
        "kgt" => "Asia/Bishkek",
        "lkt" => "Asia/Colombo",
        "irkst" | "irkt" => "Asia/Irkutsk",
        "petst" | "pett" => "Asia/Kamchatka",
        "krast" | "krat" => "Asia/Krasnoyarsk",
        "magst" | "magt" => "Asia/Magadan",
        "novst" | "novt" => "Asia/Novosibirsk",
        "omsst" | "omst" => "Asia/Omsk",
        "sgt" => "Asia/Singapore",
        "gest" | "get" => "Asia/Tbilisi",
        "ulat" => "Asia/Ulaanbaatar",
        "vlast" | "vlat" => "Asia/Vladivostok",
        "yakst" | "yakt" => "Asia/Yakutsk",
        "yekt" => "Asia/Yekaterinburg",
        "amst" => "Asia/Yerevan",
        "fkst" | "fkt" => "Atlantic/Stanley",
        "lhdt" => "Australia/Lord_Howe",
        "volt" => "Europe/Volgograd",
        "iot" => "Indian/Chagos",
        "easst" | "east" => "Pacific/Easter",
        "tkt" => "Pacific/Fakaofo",
        "lint" => "Pacific/Kiritimati",
        "kost" => "Pacific/Kosrae",
        "nut" => "Pacific/Niue",
        "ckt" => "Pacific/Rarotonga",
        _ => return None,
    })
}

/// Moscow's standard time, with one hour more from 2011 to 2014, when the clocks stayed at summer
/// time.
fn moscow_offset(day: Option<i64>) -> i64 {
    let (from, to) = (days(2011, 3, 27), days(2014, 10, 26));
    let is_later = day.is_some_and(|day| (from..to).contains(&day));
    if is_later { 4 * HOUR_US } else { 3 * HOUR_US }
}

/// The parts of a date and a time found so far.
struct Reader {
    order: Order,
    /// Only a time is expected: numbers are times.
    is_time: bool,
    year: Option<i64>,
    month: Option<i64>,
    day_of_month: Option<i64>,
    day_of_year: Option<i64>,
    /// The day since 1970, if it was written as one number.
    julian: Option<i64>,
    /// The month was written as a word.
    has_month_word: bool,
    /// The year has two digits, and is of this century or the last.
    is_short_year: bool,
    is_before_christ: bool,
    /// Hours, minutes, and microseconds.
    time: Option<(i64, i64, i64)>,
    is_afternoon: Option<bool>,
    zone: Option<Beside>,
    /// The zone is Moscow's standard time, whose offset depends on the day.
    is_moscow: bool,
    special: Option<Moment>,
    /// The letter before the next part: J, T.
    next: Option<u8>,
}

fn number(text: &str) -> Result<i64, WrongTime> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(WrongTime::Form);
    }
    text.parse().map_err(|_| WrongTime::Field)
}

/// Rounds the fraction of a second to microseconds.
fn micros_of(fraction: &str) -> Result<i64, WrongTime> {
    if fraction.is_empty() {
        return Ok(0);
    }
    let seven: String = format!("{fraction:0<7}").chars().take(7).collect();
    Ok((number(&seven)? + 5) / 10)
}

fn once<T>(place: &mut Option<T>, value: T) -> Result<(), WrongTime> {
    if place.is_some() {
        return Err(WrongTime::Form);
    }
    *place = Some(value);
    Ok(())
}

impl Reader {
    fn new(order: Order, is_time: bool) -> Reader {
        Reader {
            order,
            is_time,
            year: None,
            month: None,
            day_of_month: None,
            day_of_year: None,
            julian: None,
            has_month_word: false,
            is_short_year: false,
            is_before_christ: false,
            time: None,
            is_afternoon: None,
            zone: None,
            is_moscow: false,
            special: None,
            next: None,
        }
    }

    fn all(&mut self, text: &str) -> Result<(), WrongTime> {
        let parts = parts(text.trim())?;
        if parts.is_empty() {
            return Err(WrongTime::Form);
        }
        for (kind, part) in parts {
            if self.next == Some(b'j') {
                self.next = None;
                self.julian(part)?;
                continue;
            }
            let is_clock = self.next.take() == Some(b't');
            match kind {
                Kind::Number if is_clock => self.clock_digits(part)?,
                Kind::Number => self.plain(part)?,
                Kind::Date => self.date(part)?,
                Kind::Clock => self.clock(part)?,
                Kind::Zone => self.offset(part)?,
                Kind::Word => self.word(part)?,
            }
        }
        if self.next.is_some() { Err(WrongTime::Form) } else { Ok(()) }
    }

    fn date_is_there(&self) -> bool {
        self.year.is_some()
            || self.month.is_some()
            || self.day_of_month.is_some()
            || self.julian.is_some()
    }

    fn date_is_whole(&self) -> bool {
        let parts = self.year.is_some() && self.month.is_some() && self.day_of_month.is_some();
        parts || self.julian.is_some() || (self.year.is_some() && self.day_of_year.is_some())
    }

    /// A day counted from 4714 BC, possibly with a fraction.
    fn julian(&mut self, text: &str) -> Result<(), WrongTime> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let number = number(whole)?;
        if self.date_is_there() {
            return Err(WrongTime::Form);
        }
        self.julian = Some(number - 2_440_588);
        if !fraction.is_empty() {
            let part: f64 = format!("0.{fraction}").parse().map_err(|_| WrongTime::Form)?;
            once(&mut self.time, (0, 0, (part * DAY_US as f64).round() as i64))?;
        }
        Ok(())
    }

    /// A number that stands alone.
    fn plain(&mut self, text: &str) -> Result<(), WrongTime> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let has_point = text.contains('.');
        if self.is_time && !self.date_is_there() {
            return self.clock_digits(text);
        }
        if has_point && self.year.is_none() && self.month.is_none() && whole.len() == 4 {
            // A year and the day of the year.
            once(&mut self.year, number(whole)?)?;
            return once(&mut self.day_of_year, number(fraction)?);
        }
        if whole.len() >= 6 && !self.date_is_there() {
            let (year, rest) = whole.split_at(whole.len() - 4);
            once(&mut self.year, number(year)?)?;
            self.is_short_year = year.len() == 2;
            once(&mut self.month, number(&rest[..2])?)?;
            return once(&mut self.day_of_month, number(&rest[2..])?);
        }
        if self.date_is_whole() || (has_point && whole.len() > 2) {
            return self.clock_digits(text);
        }
        if whole.len() >= 6 && self.time.is_none() {
            return self.clock_digits(text);
        }
        if has_point {
            return Err(WrongTime::Form);
        }
        self.part_of_date(whole)
    }

    /// `093000.5`, `0930`.
    fn clock_digits(&mut self, text: &str) -> Result<(), WrongTime> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let two = |at: usize| whole.get(at..at + 2).map_or(Ok(0), number);
        match whole.len() {
            6 => {
                let micros = two(4)? * SECOND_US + micros_of(fraction)?;
                once(&mut self.time, (two(0)?, two(2)?, micros))
            }
            4 if fraction.is_empty() => once(&mut self.time, (two(0)?, two(2)?, 0)),
            2 if fraction.is_empty() && self.next.is_none() && self.is_hours_alone() => {
                once(&mut self.time, (two(0)?, 0, 0))
            }
            _ => Err(WrongTime::Form),
        }
    }

    /// Hours alone are a time after a T.
    fn is_hours_alone(&self) -> bool {
        !self.is_time && self.date_is_whole()
    }

    /// `2026-11-26`, `26-Nov-2026`, `11/26/2026`.
    fn date(&mut self, text: &str) -> Result<(), WrongTime> {
        // A second date of digits is a time and its zone without a space.
        if self.date_is_whole() {
            if let Some((time, offset)) = text.split_once('-') {
                self.clock_digits(time)?;
                return self.offset(&format!("-{offset}"));
            }
            return Err(WrongTime::Form);
        }
        let all =
            || text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
        if all().count() > 3 {
            return Err(WrongTime::Form);
        }
        for word in all().filter(|part| part.as_bytes()[0].is_ascii_alphabetic()) {
            once(&mut self.month, month(word).ok_or(WrongTime::Form)?)?;
            self.has_month_word = true;
        }
        for digits in all().filter(|part| !part.as_bytes()[0].is_ascii_alphabetic()) {
            self.part_of_date(digits)?;
        }
        // An incomplete date may be completed elsewhere only if the month was a word.
        if self.date_is_whole() { Ok(()) } else { Err(WrongTime::Form) }
    }

    /// A number of a date: the year, the month or the day.
    fn part_of_date(&mut self, digits: &str) -> Result<(), WrongTime> {
        let (value, is_long) = (number(digits)?, digits.len() >= 3);
        let mut year = None;
        match (self.year, self.month, self.day_of_month) {
            (None, None, None) if is_long || self.order == Order::Ymd => year = Some(value),
            (None, None, None) if self.order == Order::Dmy => self.day_of_month = Some(value),
            (None, None, None) => self.month = Some(value),
            (Some(_), None, None) if digits.len() == 3 => self.day_of_year = Some(value),
            (Some(_), None, None) => self.month = Some(value),
            (None, Some(_), None)
                if self.has_month_word && (is_long || self.order == Order::Ymd) =>
            {
                year = Some(value);
            }
            (None, Some(_), None) => self.day_of_month = Some(value),
            (Some(before), Some(_), None)
                if self.has_month_word && is_long && self.is_short_year =>
            {
                self.day_of_month = Some(before);
                year = Some(value);
            }
            (Some(_), Some(_), None) => self.day_of_month = Some(value),
            (None, None, Some(_)) => self.month = Some(value),
            (None, Some(_), Some(_)) => year = Some(value),
            _ => return Err(WrongTime::Form),
        }
        if let Some(year) = year {
            self.year = Some(year);
            self.is_short_year = digits.len() <= 2;
        }
        Ok(())
    }

    /// `09:30:00.5`, `9:30`.
    fn clock(&mut self, text: &str) -> Result<(), WrongTime> {
        let (hours, rest) = text.split_once(':').ok_or(WrongTime::Form)?;
        let (minutes, seconds) = rest.split_once(':').unwrap_or((rest, "0"));
        // Two parts with a point are not read as minutes and seconds here.
        let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
        let (hours, minutes, seconds) = (number(hours)?, number(minutes)?, number(seconds)?);
        if seconds > 60 {
            return Err(WrongTime::Field);
        }
        once(&mut self.time, (hours, minutes, seconds * SECOND_US + micros_of(fraction)?))
    }

    /// `+01`, `-0330`, `+05:30`.
    fn offset(&mut self, text: &str) -> Result<(), WrongTime> {
        let digits = text[1..].trim_start();
        let (hours, rest) = match digits.split_once(':') {
            Some((hours, rest)) => (hours, rest),
            None if digits.len() > 2 => digits.split_at(digits.len() - 2),
            None => (digits, "0"),
        };
        let (minutes, seconds) = rest.split_once(':').unwrap_or((rest, "0"));
        let (hours, minutes, seconds) = (number(hours)?, number(minutes)?, number(seconds)?);
        if hours > 15 || minutes > 59 || seconds > 59 {
            return Err(WrongTime::Offset);
        }
        let ahead = ((hours * 60 + minutes) * 60 + seconds) * SECOND_US;
        let ahead = if text.starts_with('-') { -ahead } else { ahead };
        once(&mut self.zone, Beside::Offset(ahead))
    }

    fn word(&mut self, text: &str) -> Result<(), WrongTime> {
        let word = text.to_ascii_lowercase();
        if let Some(month) = month(&word) {
            // The number that seemed to be the month was the day.
            if self.month.is_some() && !self.has_month_word && self.day_of_month.is_none() {
                self.day_of_month = self.month.take();
            }
            self.has_month_word = true;
            return once(&mut self.month, month);
        }
        match word.as_str() {
            "am" | "pm" => once(&mut self.is_afternoon, word == "pm"),
            "bc" => {
                self.is_before_christ = true;
                Ok(())
            }
            "ad" | "at" | "on" | "st" | "nd" | "rd" | "th" => Ok(()),
            _ if is_weekday(&word) => Ok(()),
            "j" | "jd" | "julian" => {
                self.next = Some(b'j');
                Ok(())
            }
            "t" => {
                self.next = Some(b't');
                Ok(())
            }
            "allballs" => {
                once(&mut self.time, (0, 0, 0))?;
                once(&mut self.zone, Beside::Offset(0))
            }
            "dst" => match &mut self.zone {
                Some(Beside::Offset(ahead)) => {
                    *ahead += HOUR_US;
                    Ok(())
                }
                _ => Err(WrongTime::Form),
            },
            "infinity" | "+infinity" => {
                once(&mut self.special, Moment::Infinity { is_later: true })
            }
            "-infinity" => once(&mut self.special, Moment::Infinity { is_later: false }),
            "epoch" => once(&mut self.special, Moment::Epoch),
            "now" => once(&mut self.special, Moment::Now),
            "today" => once(&mut self.special, Moment::Today(0, 0, None)),
            "tomorrow" => once(&mut self.special, Moment::Today(1, 0, None)),
            "yesterday" => once(&mut self.special, Moment::Today(-1, 0, None)),
            "msk" => {
                self.is_moscow = true;
                once(&mut self.zone, Beside::Offset(moscow_offset(None)))
            }
            word => {
                let zone = match fixed_offset(word) {
                    Some(seconds) => Beside::Offset(seconds * SECOND_US),
                    None => match Zone::named(zone_of_letters(word).unwrap_or(text)) {
                        Some(zone) => Beside::Zone(zone),
                        None if text.contains('/') => return Err(WrongTime::Zone),
                        None => return Err(WrongTime::Form),
                    },
                };
                once(&mut self.zone, zone)
            }
        }
    }

    /// The day since 1970.
    fn day(&self) -> Result<i64, WrongTime> {
        if !self.date_is_whole() {
            return Err(WrongTime::Form);
        }
        if let Some(day) = self.julian {
            return if DAYS.contains(&day) { Ok(day) } else { Err(WrongTime::Field) };
        }
        let year = self.year.ok_or(WrongTime::Form)?;
        let year = match year {
            ..=0 => return Err(WrongTime::Field),
            _ if self.is_before_christ => 1 - year,
            ..70 if self.is_short_year => year + 2000,
            _ if self.is_short_year => year + 1900,
            _ => year,
        };
        if year > 6_000_000 {
            return Err(WrongTime::Field);
        }
        let day = match (self.day_of_year, self.month, self.day_of_month) {
            (Some(of_year), None, None) => {
                let day = days(year, 1, 1) + of_year - 1;
                if of_year < 1 || civil(day).0 != year {
                    return Err(WrongTime::Field);
                }
                day
            }
            (_, Some(month @ 1..=12), Some(of_month @ 1..=31)) => {
                let day = days(year, month, of_month);
                if civil(day) != (year, month as u32, of_month as u32) {
                    return Err(WrongTime::Field);
                }
                day
            }
            _ => return Err(WrongTime::Field),
        };
        if DAYS.contains(&day) { Ok(day) } else { Err(WrongTime::Field) }
    }

    /// Microseconds since midnight; 24:00 ends a day.
    fn within_day(&self) -> Result<Option<i64>, WrongTime> {
        let Some((hours, minutes, micros)) = self.time else {
            return if self.is_afternoon.is_some() { Err(WrongTime::Form) } else { Ok(None) };
        };
        let hours = match self.is_afternoon {
            Some(_) if hours > 12 => return Err(WrongTime::Field),
            Some(true) if hours < 12 => hours + 12,
            Some(false) if hours == 12 => 0,
            _ => hours,
        };
        if hours > 24 || minutes > 59 {
            return Err(WrongTime::Field);
        }
        let within = hours * HOUR_US + minutes * MINUTE_US + micros;
        if within > DAY_US { Err(WrongTime::Field) } else { Ok(Some(within)) }
    }
}
