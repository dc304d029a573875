//! The patterns of `to_char`, `to_date` and `to_timestamp` of times, read into their parts.
//!
//! ```text
//!   FMDDth "of" Month     an unpadded DD with `th`, the text ` of `, a Month in this case
//!   \"YY\"                a quote, two digits of a year, a quote
//! ```
//!
//! Case is significant: `Month`, `MONTH` and `month` are three fields; `mONTH` is the text `m`
//! followed by other parts.

/// A part of a pattern.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Part {
    /// A field of a time.
    Field(Field),
    /// A character in quotes.
    Quoted(char),
    /// Any other character.
    Sign(char),
}

/// A field as a pattern has it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Field {
    /// Its name in upper case.
    pub(super) name: &'static str,
    pub(super) letters: Letters,
    /// `FM`: no padding.
    pub(super) is_plain: bool,
    /// `TM`: names of months and days in the language of the session.
    pub(super) is_local: bool,
    /// `TH`; true for `th`.
    pub(super) ordinal: Option<bool>,
}

/// The letter case of a field.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Letters {
    Capitals,
    /// `Month`
    Name,
    Small,
}

/// Longer names precede their prefixes.
const FIELDS: [&str; 54] = [
    "A.D.", "A.M.", "AD", "AM", "B.C.", "BC", "CC", "DAY", "DDD", "DD", "DY", "D", "FF1", "FF2",
    "FF3", "FF4", "FF5", "FF6", "FX", "HH24", "HH12", "HH", "IDDD", "ID", "IW", "IYYY", "IYY",
    "IY", "I", "J", "MI", "MM", "MONTH", "MON", "MS", "OF", "P.M.", "PM", "Q", "RM", "SSSSS",
    "SSSS", "SS", "TZH", "TZM", "TZ", "US", "WW", "W", "Y,YYY", "YYYY", "YYY", "YY", "Y",
];

/// The parts of a pattern, in their order.
pub(super) fn parts(pattern: &str) -> Vec<Part> {
    let (mut parts, mut rest) = (Vec::new(), pattern);
    while let Some(sign) = rest.chars().next() {
        let (is_plain, is_local) = (starts(rest, "FM"), starts(rest, "TM"));
        if is_plain || is_local {
            rest = &rest[2..];
        }
        if let Some((name, letters)) = field(rest) {
            rest = &rest[name.len()..];
            let ordinal = starts(rest, "TH").then(|| rest.starts_with('t'));
            // `SP`, a number in words, has no effect.
            if ordinal.is_some() || rest.starts_with("SP") {
                rest = &rest[2..];
            }
            parts.push(Part::Field(Field { name, letters, is_plain, is_local, ordinal }));
        } else if is_plain || is_local {
            // Where no field follows, the prefix is dropped.
        } else if let Some(quoted) = rest.strip_prefix('"') {
            rest = unquoted(quoted, &mut parts);
        } else if rest.starts_with("\\\"") {
            parts.push(Part::Sign('"'));
            rest = &rest[2..];
        } else {
            parts.push(Part::Sign(sign));
            rest = &rest[sign.len_utf8()..];
        }
    }
    parts
}

/// Reads up to the closing quote, which a backslash escapes. Returns the rest of the text.
fn unquoted<'p>(text: &'p str, parts: &mut Vec<Part>) -> &'p str {
    let mut chars = text.chars();
    while let Some(sign) = chars.next() {
        match sign {
            '"' => break,
            '\\' => parts.push(Part::Quoted(chars.next().unwrap_or('\\'))),
            sign => parts.push(Part::Quoted(sign)),
        }
    }
    chars.as_str()
}

/// True if a text begins with this word, entirely in upper or in lower case.
fn starts(text: &str, with: &str) -> bool {
    text.starts_with(with) || text.starts_with(&with.to_lowercase())
}

fn field(text: &str) -> Option<(&'static str, Letters)> {
    FIELDS.iter().copied().find_map(|name| {
        let written = text.get(..name.len())?;
        if written == name {
            return Some((name, Letters::Capitals));
        }
        if written == name.to_lowercase() {
            return Some((name, Letters::Small));
        }
        let is_name = matches!(name, "DAY" | "DY" | "MONTH" | "MON")
            && written[..1] == name[..1]
            && written[1..] == name[1..].to_lowercase();
        is_name.then_some((name, Letters::Name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_parts() {
        let names = |pattern: &str| -> Vec<String> {
            let shown = |part: &Part| match part {
                Part::Field(field) => field.name.to_owned(),
                Part::Quoted(sign) => format!("'{sign}'"),
                Part::Sign(sign) => sign.to_string(),
            };
            parts(pattern).iter().map(shown).collect()
        };
        assert_eq!(names("IIWID"), ["I", "IW", "ID"]);
        assert_eq!(names("SS.FF3"), ["SS", ".", "FF3"]);
        assert_eq!(names("FM\"a\\\"\"mONTH"), ["'a'", "'\"'", "m", "O", "N", "T", "H"]);
        assert_eq!(names("\\\"YY\\x"), ["\"", "YY", "\\", "x"]);
        assert_eq!(names("FMDDth TMMonth"), ["DD", " ", "MONTH"]);
    }
}
