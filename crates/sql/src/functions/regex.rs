//! Functions of regular expressions.
//!
//! ```text
//!   substring('foobar' from 'o(.)b')            o                    the first group, or all of what fits
//!   regexp_match('foobar', '(o.)(.)')           {oo,b}               the groups, or all of what fits
//!   regexp_replace('foobar', 'o(.)', '<\1>')    f<o>bar              once; each time with the flag g
//! ```

use crate::budget::Budget;
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::regex::{Flags, Found, Regex, similar};

/// A function of regular expressions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "they are what SQL calls so")]
pub enum RegexFunc {
    Substring,
    Match,
    Like,
    Count,
    Replace,
    Split,
    /// A pattern of SIMILAR TO as a regular expression.
    Similar,
}

/// The number of the argument that has the flags.
pub(super) fn flags_at(func: RegexFunc) -> usize {
    if matches!(func, RegexFunc::Replace | RegexFunc::Count) { 3 } else { 2 }
}

/// Calls a function with texts.
pub(super) fn call(func: RegexFunc, args: &[Datum], budget: &Budget) -> Result<Datum, SqlError> {
    let text = |at: usize| args.get(at).and_then(Datum::as_text).unwrap_or("");
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
            let start = args.get(2).and_then(Datum::as_int).unwrap_or(1);
            let from = usize::try_from(start - 1).map_err(|_| {
                let message = format!("invalid value for parameter \"start\": {start}");
                SqlError::new(code::INVALID_PARAMETER, message)
            })?;
            let mut count = 0;
            regex.each_from(text(0), from, budget, &mut |_| {
                count += 1;
                Ok(true)
            })?;
            Datum::Int(count)
        }
        RegexFunc::Replace => Datum::Text(replaced(&regex, text(0), text(2), all, budget)?),
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
        RegexFunc::Substring | RegexFunc::Replace | RegexFunc::Similar => return None,
    })
}

/// What groups hold as an array; what fits, if there are none.
pub(crate) fn groups(text: &str, found: &Found, budget: &Budget) -> Result<Datum, SqlError> {
    let whole = [Some(found.whole.clone())];
    let parts = if found.groups.is_empty() { &whole[..] } else { &found.groups };
    let parts = || parts.iter().map(|part| part.clone().map(|part| &text[part]));
    budget.charge(parts().map(|part| 2 * part.map_or(4, str::len) + 3).sum())?;
    Ok(Datum::Text(crate::array::format(parts())))
}

/// The parts of a text between those that fit.
pub(crate) fn split<'t>(
    regex: &Regex,
    text: &'t str,
    budget: &Budget,
    take: &mut dyn FnMut(&'t str) -> Result<bool, SqlError>,
) -> Result<(), SqlError> {
    let (mut from, mut wanted) = (0, true);
    regex.each(text, budget, &mut |found| {
        // Nothing is cut off by what is empty at the beginning, the end, or right behind what fitted before.
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

/// A text with another in the place of what fits: `\1` in it is the first group, `\&` all of what fits.
fn replaced(
    regex: &Regex,
    text: &str,
    with: &str,
    all: bool,
    budget: &Budget,
) -> Result<String, SqlError> {
    let (mut written, mut from) = (String::new(), 0);
    let push = |written: &mut String, part: &str| -> Result<(), SqlError> {
        // A text that grows has room for as much again.
        budget.charge(2 * part.len())?;
        written.push_str(part);
        Ok(())
    };
    regex.each(text, budget, &mut |found| {
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
        Ok(all)
    })?;
    push(&mut written, &text[from..])?;
    Ok(written)
}
