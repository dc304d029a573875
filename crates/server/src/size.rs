//! Memory sizes in PostgreSQL's notation: `64MB`, `1.5 GB`; and those of tables, as counted last.

use isomer_design::{TableId, Time};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The bytes of the rows of each store table at their masters, and when they were counted.
#[derive(Default)]
pub(crate) struct Sizes(pub(crate) Mutex<(Time, BTreeMap<TableId, u64>)>);

/// From the largest on. As in PostgreSQL, case matters.
const UNITS: [(&str, usize); 5] =
    [("TB", 1 << 40), ("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10), ("B", 1)];
/// A smaller site has hardly room for the database's own tables.
const SITE_BYTES_MIN: usize = 1 << 20;
/// More than any machine has, and exact in a float.
const BYTES_MAX: f64 = (1u64 << 50) as f64;

/// Parses the memory limit of a site's rows in bytes; `None` means no limit.
///
/// # Errors
/// The right form.
pub fn read_site_memory(text: &str) -> Result<Option<usize>, String> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("default") {
        return Ok(None);
    }
    let bytes = read_bytes(text).ok_or(
        "Sizes are written as 512MB, 4GB or 1.5TB (units are B, kB, MB, GB and TB), or as a number of kilobytes; 0 is \
         no limit.",
    )?;
    match bytes {
        0 => Ok(None),
        1..SITE_BYTES_MIN => Err(format!(
            "That is {}; a site needs at least {}, and 0 is no limit.",
            show_bytes(bytes),
            show_bytes(SITE_BYTES_MIN)
        )),
        bytes => Ok(Some(bytes)),
    }
}

/// Formats the limit so that it can be parsed again.
pub fn show_site_memory(max: Option<usize>) -> String {
    max.map_or_else(|| "0".to_owned(), show_bytes)
}

/// Reads a number of bytes above 0; without a unit it is in bytes.
pub(crate) fn read_rate(text: &str) -> Option<u64> {
    let text = text.trim();
    let bytes = match text.parse::<u64>() {
        Ok(bytes) => bytes,
        Err(_) => read_bytes(text)? as u64,
    };
    Some(bytes).filter(|bytes| *bytes > 0 && *bytes as f64 <= BYTES_MAX)
}

/// Without a unit it is in kilobytes.
fn read_bytes(text: &str) -> Option<usize> {
    let digits = text.find(|sign: char| !sign.is_ascii_digit() && sign != '.');
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let unit = match unit.trim() {
        "" => 1 << 10,
        unit => UNITS.iter().find(|(name, _)| *name == unit)?.1,
    };
    let bytes = (number.parse::<f64>().ok()? * unit as f64).round();
    (bytes <= BYTES_MAX).then_some(bytes as usize)
}

/// With the largest unit that needs no fraction.
pub(crate) fn show_bytes(bytes: usize) -> String {
    let (name, unit) = UNITS
        .iter()
        .find(|(_, unit)| bytes.is_multiple_of(*unit))
        .expect("every number of bytes is one of bytes");
    format!("{}{name}", bytes / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_shown_with_units_or_refused_with_what_would_be_right() {
        let shown = |text| read_site_memory(text).map(show_site_memory);
        for (given, expected) in [
            ("0", "0"),
            ("default", "0"),
            ("4GB", "4GB"),
            ("4096 MB", "4GB"),
            ("1.5GB", "1536MB"),
            ("2048", "2MB"),
            ("1048577B", "1048577B"),
        ] {
            assert_eq!(shown(given).as_deref(), Ok(expected), "{given}");
        }
        for wrong in ["", "GB", "-1", "4 GiB", "4gb", "much", "1e9", "9999999TB"] {
            assert!(shown(wrong).unwrap_err().starts_with("Sizes are written as"), "{wrong}");
        }
        let small = shown("4").unwrap_err();
        assert_eq!(small, "That is 4kB; a site needs at least 1MB, and 0 is no limit.");
    }
}
