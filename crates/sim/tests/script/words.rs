//! Formats of a script: names of sites, and readable lines of the trace.

use isomer_design::{Backups, KeyRange, SiteId};
use std::error::Error;

/// `s1`
pub(super) fn site(text: &str) -> Result<SiteId, Box<dyn Error>> {
    let number = text.strip_prefix('s').ok_or(format!("`{text}` is no site, as s1 is"))?;
    Ok(SiteId(number.parse()?))
}

/// Names the table, and removes times and counters that tell a reader nothing.
pub(super) fn tidy(line: &str) -> String {
    let mut tidied = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(['@', 't']) {
        let (before, found) = rest.split_at(at);
        let digits = found[1..].bytes().take_while(u8::is_ascii_digit).count();
        let is_time = found.starts_with('@') && digits > 0;
        let is_table =
            found.starts_with("t1") && digits == 1 && !before.ends_with(char::is_alphanumeric);
        tidied += if is_time { before.trim_end() } else { before };
        tidied += if is_time {
            ""
        } else if is_table {
            "accounts"
        } else {
            &found[..1]
        };
        rest = if is_time || is_table { &found[1 + digits..] } else { &found[1..] };
    }
    tidied = tidied.trim_start().to_owned() + rest;
    match tidied.split_once("feed ") {
        Some((before, after)) => {
            let after =
                after.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches(',');
            format!("{before}{}", after.trim_start())
        }
        None => tidied,
    }
}

/// False for a heartbeat.
pub(super) fn says_something(envelope: &str) -> bool {
    !envelope.starts_with("feed") || envelope.contains(',')
}

/// All keys of a table.
pub(super) fn everything() -> KeyRange {
    KeyRange::all()
}

/// `1 on disk` or `2 in memory`
pub(super) fn backups(text: &str) -> Result<Backups, Box<dyn Error>> {
    let (count, place) = text.split_once(' ').ok_or("how many backups, and where")?;
    Ok(Backups { count: count.parse()?, on_disk: place == "on disk" })
}
