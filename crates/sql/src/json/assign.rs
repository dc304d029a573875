//! Assignment to a part of a `jsonb`: `set j['a'][2] = ..`.
//!
//! ```text
//!   {"a": [1]}  j['a'][3] = 5   {"a": [1, null, null, 5]}   missing values are made, gaps are null
//!   NULL        j['b'][0] = 5   {"b": [5]}                  a number makes an array, a key an
//!                                                           object
//! ```

use super::{Node, items, members, quote, unquoted};
use crate::budget::Budget;
use crate::error::{SqlError, clipped, code};
use std::borrow::Cow;

/// A value with a new one at the end of a path. `begins_array` is the text of a new array, for a
/// path without a value.
pub(crate) fn assign(
    value: Option<&str>,
    path: &[Option<String>],
    begins_array: bool,
    new: &str,
    budget: &Budget,
) -> Result<String, SqlError> {
    let Some(path) = path.iter().map(Option::as_deref).collect::<Option<Vec<&str>>>() else {
        let message = "jsonb subscript in assignment must not be null";
        return Err(SqlError::new("22004", message));
    };
    let nothing = if begins_array { "[]" } else { "{}" };
    Assign { path: &path, new, budget }.within(value.unwrap_or(nothing), 0)
}

struct Assign<'a> {
    path: &'a [&'a str],
    new: &'a str,
    budget: &'a Budget,
}

impl Assign<'_> {
    /// The new form of a value at this level of the path.
    fn within(&self, value: &str, level: usize) -> Result<String, SqlError> {
        let Some(part) = self.path.get(level) else { return Ok(self.new.to_owned()) };
        self.budget.charge(value.len())?;
        match Node::of(value) {
            Node::Object(all) => self.in_object(all, part, level),
            Node::Array(all) => self.in_array(all, part, level),
            _ => {
                let detail =
                    "The path assumes key is a composite object, but it is a scalar value.";
                let error = SqlError::new(code::INVALID_PARAMETER, "cannot replace existing key");
                Err(error.detail(detail))
            }
        }
    }

    fn in_object(&self, all: &str, part: &str, level: usize) -> Result<String, SqlError> {
        let mut key = String::new();
        quote(part, &mut key);
        let (mut changed, mut found) = (Vec::new(), false);
        for (name, value) in members(all) {
            let is_it = *unquoted(name)? == *part;
            found |= is_it;
            changed.push((
                name,
                match is_it {
                    true => Cow::Owned(self.within(value, level + 1)?),
                    false => Cow::Borrowed(value),
                },
            ));
        }
        if !found {
            changed.push((&key, Cow::Owned(self.made(level + 1)?)));
        }
        super::change::object(changed)
    }

    fn in_array(&self, all: &str, part: &str, level: usize) -> Result<String, SqlError> {
        let Ok(number) = part.trim_start().parse::<i32>() else {
            let (at, part) = (level + 1, clipped(part));
            let message = format!("path element at position {at} is not an integer: \"{part}\"");
            return Err(SqlError::new(code::INVALID_TEXT, message));
        };
        let count = items(all).count();
        let from_end = count.checked_sub(number.unsigned_abs() as usize);
        let place = if number < 0 { from_end } else { usize::try_from(number).ok() };
        let Some(place) = place else {
            let message =
                format!("path element at position {} is out of range: {number}", level + 1);
            return Err(SqlError::new(code::INVALID_PARAMETER, message));
        };
        let mut changed: Vec<Cow<'_, str>> = items(all).map(Cow::Borrowed).collect();
        match changed.get_mut(place) {
            Some(item) => *item = Cow::Owned(self.within(item, level + 1)?),
            None => {
                self.fill(&mut changed, place)?;
                changed.push(Cow::Owned(self.made(level + 1)?));
            }
        }
        Ok(super::change::array(changed))
    }

    /// Appends nulls, up to `count` elements.
    fn fill(&self, elements: &mut Vec<Cow<'_, str>>, count: usize) -> Result<(), SqlError> {
        const EACH: usize = 2 * size_of::<Cow<'_, str>>() + 8;
        self.budget.charge(count.saturating_mul(EACH))?;
        elements.resize(count.max(elements.len()), Cow::Borrowed("null"));
        Ok(())
    }

    /// A new value for the rest of the path, where there was none.
    fn made(&self, level: usize) -> Result<String, SqlError> {
        self.budget.deeper()?;
        let Some(part) = self.path.get(level) else { return Ok(self.new.to_owned()) };
        let inner = Cow::Owned(self.made(level + 1)?);
        if let Ok(number) = part.parse::<i32>() {
            let mut elements = Vec::new();
            self.fill(&mut elements, usize::try_from(number).unwrap_or(0))?;
            elements.push(inner);
            return Ok(super::change::array(elements));
        }
        let mut key = String::new();
        quote(part, &mut key);
        super::change::object(vec![(&key, inner)])
    }
}
