//! Functions of texts. Positions count characters, not bytes. The memory of a result is reserved
//! before it is made.

use crate::budget::Budget;
use crate::datum::Datum;
use crate::error::{SqlError, code};

/// The longest text: longer ones do not fit into a message.
const TEXT_BYTES_MAX: usize = 1 << 30;

/// Reserves memory for a result of this many bytes.
fn room(bytes: Option<usize>, budget: &Budget) -> Result<String, SqlError> {
    let bytes = bytes.filter(|bytes| *bytes <= TEXT_BYTES_MAX).ok_or_else(|| {
        let message = "requested length too large: a text has at most 1 GB";
        SqlError::new(code::PROGRAM_LIMIT, message)
    })?;
    budget.charge(bytes)?;
    Ok(String::with_capacity(bytes))
}

/// Copies a part of an argument.
pub(super) fn copy(text: &str, budget: &Budget) -> Result<Datum, SqlError> {
    budget.charge(text.len())?;
    Ok(Datum::text(text))
}

/// An upper bound of the size of a text after a change of case: the size of a character can
/// triple.
pub(super) fn cased_bytes(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { 3 * text.len() }
}

/// A text in lower case.
pub(crate) fn lower(text: &str, budget: &Budget) -> Result<String, SqlError> {
    budget.charge(cased_bytes(text))?;
    Ok(text.to_lowercase())
}

/// Joins the texts among values with a separator.
pub(super) fn join(values: &[Datum], between: &str, budget: &Budget) -> Result<Datum, SqlError> {
    let parts = || values.iter().filter_map(Datum::as_text);
    let gaps = parts().count().saturating_sub(1).checked_mul(between.len());
    let bytes = gaps.and_then(|gaps| parts().map(str::len).sum::<usize>().checked_add(gaps));
    let mut joined = room(bytes, budget)?;
    for (at, part) in parts().enumerate() {
        joined.push_str(if at > 0 { between } else { "" });
        joined.push_str(part);
    }
    Ok(Datum::Text(joined))
}

/// A text in which each occurrence of `from` is replaced.
pub(super) fn replace(
    text: &str,
    from: &str,
    to: &str,
    budget: &Budget,
) -> Result<Datum, SqlError> {
    if from.is_empty() {
        return copy(text, budget);
    }
    budget.tick(text.len() / 16)?;
    let count = text.matches(from).count();
    let kept = text.len() - count * from.len();
    let bytes = count.checked_mul(to.len()).and_then(|new| new.checked_add(kept));
    let mut replaced = room(bytes, budget)?;
    for (at, part) in text.split(from).enumerate() {
        replaced.push_str(if at > 0 { to } else { "" });
        replaced.push_str(part);
    }
    Ok(Datum::Text(replaced))
}

/// Converts a pattern of LIKE with another escape character, or none, into one with the backslash.
pub(super) fn like_escape(pattern: &str, escape: &str, budget: &Budget) -> Result<Datum, SqlError> {
    let mut chars = escape.chars();
    let (escape, rest) = (chars.next(), chars.next());
    if rest.is_some() {
        return Err(SqlError::new("22025", "invalid escape string")
            .hint("Escape string must be empty or one character."));
    }
    let mut escaped = room(pattern.len().checked_mul(2), budget)?;
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if Some(c) == escape {
            // Without a character behind it, a text that comes this far is refused.
            escaped.push('\\');
            escaped.extend(chars.next());
        } else {
            if c == '\\' {
                escaped.push('\\');
            }
            escaped.push(c);
        }
    }
    Ok(Datum::Text(escaped))
}

pub(super) fn substring(text: &str, from: i64, length: Option<i64>) -> Result<&str, SqlError> {
    if length.is_some_and(|length| length < 0) {
        return Err(SqlError::new("22011", "negative substring length not allowed"));
    }
    let end = length.map_or(i64::MAX, |length| from.saturating_add(length));
    let start = from.max(1);
    let count = usize::try_from(end.saturating_sub(start)).unwrap_or(0);
    let skip = usize::try_from(start - 1).unwrap_or(usize::MAX);
    Ok(characters(text, skip, count))
}

/// `count` characters of a text behind the first `skip`.
fn characters(text: &str, skip: usize, count: usize) -> &str {
    let place =
        |text: &str, at: usize| text.char_indices().nth(at).map_or(text.len(), |(at, _)| at);
    let rest = &text[place(text, skip)..];
    &rest[..place(rest, count)]
}

/// The first (or last) `count` characters; with a negative count, all but that many.
pub(super) fn take(text: &str, count: i64, from_end: bool) -> &str {
    let length = text.chars().count() as i64;
    let count = if count < 0 { length.saturating_add(count).max(0) } else { count.min(length) };
    let skip = if from_end { length - count } else { 0 };
    characters(text, skip as usize, count as usize)
}

pub(super) fn repeat(text: &str, count: i64, budget: &Budget) -> Result<Datum, SqlError> {
    let count = usize::try_from(count).unwrap_or(0);
    let mut repeated = room(text.len().checked_mul(count), budget)?;
    (0..if text.is_empty() { 0 } else { count }).for_each(|_| repeated.push_str(text));
    Ok(Datum::Text(repeated))
}

pub(super) fn pad(
    text: &str,
    length: i64,
    with: &str,
    left: bool,
    budget: &Budget,
) -> Result<Datum, SqlError> {
    let length = usize::try_from(length).unwrap_or(0);
    let have = text.chars().count();
    let cut = characters(text, 0, length);
    let missing = if with.is_empty() { 0 } else { length.saturating_sub(have) };
    let width = with.chars().map(char::len_utf8).max().unwrap_or(0);
    let bytes = missing.checked_mul(width).and_then(|fill| fill.checked_add(cut.len()));
    let mut padded = room(bytes, budget)?;
    if !left {
        padded.push_str(cut);
    }
    padded.extend(with.chars().cycle().take(missing));
    if left {
        padded.push_str(cut);
    }
    Ok(Datum::Text(padded))
}
