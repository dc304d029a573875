//! The object `whole` of a checkpoint: its parts, in order, each with its length and its checksum.
//!
//! ```text
//! # A checkpoint of Isomer, format 1
//! part 4194812 1a2b3c4d
//! part 730011 00ff17e2
//! whole 2
//! ```
//!
//! The last line holds the number of parts, so that a truncated copy is detected.

use std::fmt::Write;

const TITLE: &str = "# A checkpoint of Isomer, format 1";

/// The properties of a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) bytes: u64,
    pub(crate) sum: u32,
}

impl Part {
    pub(crate) fn of(bytes: &[u8]) -> Part {
        Part { bytes: bytes.len() as u64, sum: crc32fast::hash(bytes) }
    }
}

pub(crate) fn write(parts: &[Part]) -> String {
    let mut text = format!("{TITLE}\n");
    for Part { bytes, sum } in parts {
        writeln!(text, "part {bytes} {sum:08x}").expect("text can be written to");
    }
    text + &format!("whole {}\n", parts.len())
}

/// Parses the format of [`write()`].
///
/// # Errors
/// A message that says what is wrong.
pub(crate) fn read(text: &[u8]) -> Result<Vec<Part>, String> {
    let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
    let rest = text.strip_prefix(TITLE).and_then(|rest| rest.strip_prefix('\n'));
    let rest = rest.ok_or_else(|| format!("it does not begin with `{TITLE}`"))?;
    let lines =
        rest.strip_suffix('\n').and_then(|lines| lines.rsplit_once('\n').or(Some(("", lines))));
    let (lines, last) = lines.ok_or("it is cut short")?;
    let parts: Vec<Part> = lines.lines().map(part).collect::<Result<_, String>>()?;
    match last.strip_prefix("whole ").and_then(|count| count.parse::<usize>().ok()) {
        Some(count) if count == parts.len() => Ok(parts),
        _ => Err(format!("its last line is `{last}`, and should be `whole {}`", parts.len())),
    }
}

fn part(line: &str) -> Result<Part, String> {
    let numbers = line.strip_prefix("part ").and_then(|numbers| numbers.split_once(' '));
    let read = numbers.and_then(|(bytes, sum)| {
        Some(Part { bytes: bytes.parse().ok()?, sum: u32::from_str_radix(sum, 16).ok()? })
    });
    read.ok_or_else(|| format!("`{line}` is no part, as in `part 4194812 1a2b3c4d`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_are_read_back_and_truncated_ones_refused() {
        for parts in [vec![], vec![Part::of(b"one")], vec![Part::of(b"one"), Part::of(b"")]] {
            let text = write(&parts);
            assert_eq!(read(text.as_bytes()), Ok(parts));
            for end in 0..text.len() {
                assert!(read(&text.as_bytes()[..end]).is_err(), "{}", &text[..end]);
            }
        }
        let odd = format!("{TITLE}\npart x\nwhole 1\n");
        assert_eq!(
            read(odd.as_bytes()),
            Err("`part x` is no part, as in `part 4194812 1a2b3c4d`".to_owned())
        );
    }
}
