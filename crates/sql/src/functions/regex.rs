//! Functions of regular expressions.
//!
//! ```text
//!   substring('foobar' from 'o(.)b')          o           the first group, or the whole match
//!   regexp_match('foobar', '(o.)(.)')         {oo,b}      the groups, or the whole match
//!   regexp_replace('foobar', 'o(.)', '<\1>')  f<o>bar     the first match; with the flag g, all
//! ```

use crate::budget::Budget;
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::regex::{Flags, Found, Regex, similar};
use std::ops::Range;

/// A function of regular expressions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "they are what SQL calls so")]
pub enum RegexFunc {
    Substring,
    Match,
    Like,
    Count,
    Replace,
    /// `regexp_replace` with a start position and the number of the match that is replaced.
    ReplaceFrom,
    /// `regexp_instr`
    Place,
    /// `regexp_substr`
    Part,
    Split,
    /// A pattern of SIMILAR TO as a regular expression.
    Similar,
}

/// The index of the argument that has the flags.
pub(super) fn flags_at(func: RegexFunc) -> usize {
    match func {
        RegexFunc::Replace | RegexFunc::Count => 3,
        RegexFunc::Part => 4,
        RegexFunc::ReplaceFrom | RegexFunc::Place => 5,
        _ => 2,
    }
}

/// True for arguments that are numbers.
pub(crate) fn is_number(func: RegexFunc, at: usize) -> bool {
    match func {
        RegexFunc::Count => at == 2,
        RegexFunc::ReplaceFrom => matches!(at, 3 | 4),
        RegexFunc::Place => matches!(at, 2..=4 | 6),
        RegexFunc::Part => matches!(at, 2 | 3 | 5),
        _ => false,
    }
}

/// Calls a function with texts.
pub(super) fn call(func: RegexFunc, args: &[Datum], budget: &Budget) -> Result<Datum, SqlError> {
    let text = |at: usize| args.get(at).and_then(Datum::as_text).unwrap_or("");
    // An optional numeric argument, checked against its bounds.
    let number = |at: usize, name: &str, least: i64, most: i64| {
        let Some(number) = args.get(at).and_then(Datum::as_int) else { return Ok(None) };
        match usize::try_from(number) {
            Ok(found) if (least..=most).contains(&number) => Ok(Some(found)),
            _ => {
                let message = format!("invalid value for parameter \"{name}\": {number}");
                Err(SqlError::new(code::INVALID_PARAMETER, message))
            }
        }
    };
    let start = |at: usize| Ok::<_, SqlError>(number(at, "start", 1, i64::MAX)?.unwrap_or(1) - 1);
    if func == RegexFunc::Similar {
        let escape = args.get(1).map_or("\\", |_| text(1));
        return similar(text(0), escape, budget).map(Datum::Text);
    }
    let flags = if func == RegexFunc::Substring { "" } else { text(flags_at(func)) };
    let (flags, all) = Flags::read(flags)?;
    if let (true, Some((name, hint))) = (all, takes_no_g(func)) {
        let message = format!("{name} does not support the \"global\" option");
        let error = SqlError::new(code::INVALID_PARAMETER, message);
        return Err(if hint.is_empty() { error } else { error.hint(hint) });
    }
    let regex = Regex::new(text(1), flags)?;
    Ok(match func {
        RegexFunc::Like => Datum::Bool(regex.is_in(text(0), budget)?),
        RegexFunc::Substring => match regex.find(text(0), budget)? {
            Some(found) => {
                let part = found.groups.first().cloned().unwrap_or(Some(found.whole));
                part.map_or(Ok(Datum::Null), |part| super::copy(&text(0)[part], budget))?
            }
            None => Datum::Null,
        },
        RegexFunc::Match => match regex.find(text(0), budget)? {
            Some(found) => groups(text(0), &found, budget)?,
            None => Datum::Null,
        },
        RegexFunc::Count => {
            let mut count = 0;
            regex.each_from(text(0), start(2)?, budget, &mut |_| {
                count += 1;
                Ok(true)
            })?;
            Datum::Int(count)
        }
        RegexFunc::Replace => {
            let which = if all { None } else { Some(1) };
            Datum::Text(replaced(&regex, text(0), text(2), (0, which), budget)?)
        }
        RegexFunc::ReplaceFrom => {
            let from = start(3)?;
            let which = Some(number(4, "n", 0, i64::MAX)?.unwrap_or(1)).filter(|n| *n > 0);
            Datum::Text(replaced(&regex, text(0), text(2), (from, which), budget)?)
        }
        RegexFunc::Place => {
            let (from, nth) = (start(2)?, number(3, "n", 1, i64::MAX)?.unwrap_or(1));
            let is_end = number(4, "endoption", 0, 1)? == Some(1);
            let group = number(6, "subexpr", 0, i64::MAX)?.unwrap_or(0);
            let part = nth_part(&regex, text(0), (from, nth, group), budget)?;
            let place = part.map(|part| if is_end { part.end } else { part.start });
            Datum::Int(place.map_or(0, |place| text(0)[..place].chars().count() as i64 + 1))
        }
        RegexFunc::Part => {
            let (from, nth) = (start(2)?, number(3, "n", 1, i64::MAX)?.unwrap_or(1));
            let group = number(5, "subexpr", 0, i64::MAX)?.unwrap_or(0);
            let part = nth_part(&regex, text(0), (from, nth, group), budget)?;
            part.map_or(Ok(Datum::Null), |part| super::copy(&text(0)[part], budget))?
        }
        RegexFunc::Split => {
            let mut parts = Vec::new();
            split(&regex, text(0), budget, &mut |part| {
                parts.push(part);
                Ok(true)
            })?;
            budget.charge(2 * text(0).len() + 3 * parts.len())?;
            Datum::Text(crate::array::format(parts.into_iter().map(Some)))
        }
        RegexFunc::Similar => unreachable!("it was looked at before"),
    })
}

fn takes_no_g(func: RegexFunc) -> Option<(&'static str, &'static str)> {
    Some(match func {
        RegexFunc::Match => ("regexp_match()", "Use the regexp_matches function instead."),
        RegexFunc::Like => ("regexp_like()", ""),
        RegexFunc::Count => ("regexp_count()", ""),
        RegexFunc::Split => ("regexp_split_to_array()", ""),
        RegexFunc::Place => ("regexp_instr()", ""),
        RegexFunc::Part => ("regexp_substr()", ""),
        RegexFunc::Substring | RegexFunc::Replace | RegexFunc::ReplaceFrom | RegexFunc::Similar => {
            return None;
        }
    })
}

/// The groups of a match as an array; the whole match, if there are no groups.
pub(crate) fn groups(text: &str, found: &Found, budget: &Budget) -> Result<Datum, SqlError> {
    let whole = [Some(found.whole.clone())];
    let parts = if found.groups.is_empty() { &whole[..] } else { &found.groups };
    let parts = || parts.iter().map(|part| part.clone().map(|part| &text[part]));
    budget.charge(parts().map(|part| 2 * part.map_or(4, str::len) + 3).sum())?;
    Ok(Datum::Text(crate::array::format(parts())))
}

/// The parts of a text between the matches.
pub(crate) fn split<'t>(
    regex: &Regex,
    text: &'t str,
    budget: &Budget,
    take: &mut dyn FnMut(&'t str) -> Result<bool, SqlError>,
) -> Result<(), SqlError> {
    let (mut from, mut wanted) = (0, true);
    regex.each(text, budget, &mut |found| {
        // An empty match at the beginning, at the end, or right behind the previous match separates
        // nothing.
        let is_nothing = found.whole.is_empty()
            && (found.whole.start == from || found.whole.start == text.len());
        if !is_nothing {
            wanted = take(&text[from..found.whole.start])?;
            from = found.whole.end;
        }
        Ok(wanted)
    })?;
    if wanted {
        take(&text[from..])?;
    }
    Ok(())
}

/// The `nth` match from a position on, or one of its groups. If the expression has no groups, group
/// 1 is the whole match.
fn nth_part(
    regex: &Regex,
    text: &str,
    (from, nth, group): (usize, usize, usize),
    budget: &Budget,
) -> Result<Option<Range<usize>>, SqlError> {
    let (mut number, mut part) = (0, None);
    regex.each_from(text, from, budget, &mut |found| {
        number += 1;
        if number == nth {
            let is_whole = group == 0 || (group == 1 && found.groups.is_empty());
            part = match is_whole {
                true => Some(found.whole),
                false => found.groups.into_iter().nth(group - 1).flatten(),
            };
        }
        Ok(number < nth)
    })?;
    Ok(part)
}

/// A text in which matches from a position on are replaced: all of them, or the one with this
/// number. `\1` in the replacement is the first group, `\&` the whole match.
fn replaced(
    regex: &Regex,
    text: &str,
    with: &str,
    (start, which): (usize, Option<usize>),
    budget: &Budget,
) -> Result<String, SqlError> {
    let (mut written, mut from, mut number) = (String::new(), 0, 0);
    let push = |written: &mut String, part: &str| -> Result<(), SqlError> {
        // A growing text reserves up to the same size again.
        budget.charge(2 * part.len())?;
        written.push_str(part);
        Ok(())
    };
    regex.each_from(text, start, budget, &mut |found| {
        number += 1;
        if which.is_some_and(|which| number < which) {
            return Ok(true);
        }
        push(&mut written, &text[from..found.whole.start])?;
        let mut signs = with.chars();
        let mut rest = signs.as_str();
        while let Some(sign) = signs.next() {
            let mut ahead = signs.clone();
            let part = match (sign, ahead.next()) {
                ('\\', Some('&')) => Some(Some(found.whole.clone())),
                ('\\', Some(digit @ '1'..='9')) => {
                    let group = digit as usize - '1' as usize;
                    Some(found.groups.get(group).cloned().flatten())
                }
                ('\\', Some('\\')) => None,
                _ => {
                    push(&mut written, &rest[..sign.len_utf8()])?;
                    rest = signs.as_str();
                    continue;
                }
            };
            match part {
                Some(part) => push(&mut written, part.map_or("", |part| &text[part]))?,
                None => push(&mut written, "\\")?,
            }
            signs = ahead;
            rest = signs.as_str();
        }
        from = found.whole.end;
        Ok(which.is_none())
    })?;
    push(&mut written, &text[from..])?;
    Ok(written)
}
