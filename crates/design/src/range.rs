//! Half-open ranges of keys, and the two directions through them.

use crate::key::Key;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;

/// The keys from `start` (inclusive) to `end` (exclusive; `None` is "to the end of the table").
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KeyRange {
    /// First key of the range.
    pub start: Key,
    /// First key after the range.
    pub end: Option<Key>,
}

/// The direction in which the keys of a range are visited.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub enum Direction {
    /// From the least key up.
    #[default]
    Forward,
    /// From the greatest key down.
    Backward,
}

impl Direction {
    /// `Less` if `a` is visited before `b`.
    pub fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Direction::Forward => a.cmp(b),
            Direction::Backward => b.cmp(a),
        }
    }

    /// The items in this direction; `order` is forward.
    pub fn through<I: DoubleEndedIterator>(self, mut order: I) -> impl Iterator<Item = I::Item> {
        std::iter::from_fn(move || match self {
            Direction::Forward => order.next(),
            Direction::Backward => order.next_back(),
        })
    }
}

impl KeyRange {
    /// Every key of a table.
    pub fn all() -> KeyRange {
        KeyRange { start: Key::min(), end: None }
    }

    /// The keys from `start` up to, not including, `end`.
    pub fn new(start: Key, end: Option<Key>) -> KeyRange {
        KeyRange { start, end }
    }

    /// The range of one key.
    pub fn single(key: Key) -> KeyRange {
        let end = Some(key.successor());
        KeyRange { start: key, end }
    }

    /// The keys that begin with `prefix`, such as those of one warehouse.
    ///
    /// ```
    /// use isomer_design::{Key, KeyRange};
    /// let district = KeyRange::starting_with(Key::ints(&[1, 3]));
    /// assert!(district.contains(&Key::ints(&[1, 3, 7])) && !district.contains(&Key::ints(&[1, 4])));
    /// assert_eq!(district.to_string(), "[1/3..1/4)");
    /// ```
    pub fn starting_with(prefix: Key) -> KeyRange {
        // The least bytes after all that begin with the prefix: the prefix with its last byte below
        // ff raised.
        let raised = prefix.iter().rposition(|&byte| byte < 0xff).map(|last| {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            Key::from_bytes(&end)
        });
        KeyRange { start: prefix, end: raised }
    }

    /// The keys of a one-column `int64` table from `start` up to, not including, `end`.
    pub fn ints(start: i64, end: i64) -> KeyRange {
        KeyRange { start: Key::int(start), end: Some(Key::int(end)) }
    }

    /// True if no key can be in the range.
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    /// True if `key` lies in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.start.as_bytes() <= key && self.is_below_end(key)
    }

    /// True if `key` is less than the end of the range.
    pub fn is_below_end(&self, key: &[u8]) -> bool {
        self.end.as_ref().is_none_or(|end| key < end.as_bytes())
    }

    /// True if every key of `other` lies in this range.
    pub fn covers(&self, other: &KeyRange) -> bool {
        self.start <= other.start
            && match (&self.end, &other.end) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(mine), Some(theirs)) => theirs <= mine,
            }
    }

    /// True if these ranges, in order, hold all keys of this one.
    pub fn is_covered<'r>(&self, by: impl Iterator<Item = &'r KeyRange>) -> bool {
        let mut next = Some(self.start.clone());
        for range in by {
            if next.as_ref().is_some_and(|next| range.contains(next)) {
                next = range.end.clone();
            }
        }
        match (next, &self.end) {
            (None, _) => true,
            (Some(next), Some(end)) => next >= *end,
            (Some(_), None) => false,
        }
    }

    /// The keys that lie in both ranges.
    pub fn intersection(&self, other: &KeyRange) -> KeyRange {
        let start = (&self.start).max(&other.start).clone();
        let end = match (&self.end, &other.end) {
            (Some(mine), Some(theirs)) => Some(mine.min(theirs).clone()),
            (end, None) | (None, end) => end.clone(),
        };
        KeyRange { start, end }
    }

    /// The rest of the range after `key` has been visited.
    ///
    /// ```
    /// use isomer_design::{Direction, Key, KeyRange};
    /// let three = Key::int(3);
    /// assert_eq!(KeyRange::ints(0, 9).after(&three, Direction::Backward), KeyRange::ints(0, 3));
    /// let above = KeyRange::ints(0, 9).after(&three, Direction::Forward);
    /// assert!(!above.contains(&three) && above.contains(&Key::int(4)));
    /// ```
    #[must_use]
    pub fn after(self, key: &Key, way: Direction) -> KeyRange {
        match way {
            Direction::Forward => KeyRange { start: key.successor(), ..self },
            Direction::Backward => KeyRange { end: Some(key.clone()), ..self },
        }
    }

    /// True if some key lies in both ranges.
    pub fn overlaps(&self, other: &KeyRange) -> bool {
        self.is_below_end(&other.start) && other.is_below_end(&self.start)
    }
}

impl fmt::Display for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = if self.start.is_empty() { String::new() } else { self.start.to_string() };
        match &self.end {
            Some(end) if *end == self.start.successor() => write!(f, "[{start}]"),
            Some(end) => write!(f, "[{start}..{end})"),
            None => write!(f, "[{start}..)"),
        }
    }
}

impl fmt::Debug for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_contain_cover_and_overlap() {
        let range = KeyRange::ints(5, 9);
        assert_eq!(range.intersection(&KeyRange::ints(7, 12)), KeyRange::ints(7, 9));
        assert_eq!(range.intersection(&KeyRange::all()), range);
        assert!(range.contains(&Key::int(5)) && range.contains(&Key::int(8)));
        assert!(!range.contains(&Key::int(9)) && !range.contains(&Key::int(4)));
        assert!(KeyRange::all().covers(&range) && !range.covers(&KeyRange::all()));
        let parts = [KeyRange::ints(0, 4), KeyRange::ints(4, 7), KeyRange::ints(8, 20)];
        assert!(KeyRange::ints(1, 7).is_covered(parts.iter()));
        assert!(!KeyRange::ints(1, 9).is_covered(parts.iter()), "7 is missing");
        assert!(!KeyRange::ints(8, 21).is_covered(parts.iter()));
        assert!(KeyRange::all().is_covered([KeyRange::all()].iter()));
        assert!(range.overlaps(&KeyRange::ints(8, 20)) && !range.overlaps(&KeyRange::ints(9, 20)));
        assert!(KeyRange::single(Key::int(5)).contains(&Key::int(5)));
        assert!(!KeyRange::single(Key::int(5)).contains(&Key::int(6)));
        assert!(KeyRange::ints(4, 4).is_empty());
        assert!(KeyRange::starting_with(Key::min()) == KeyRange::all());
        let high = KeyRange::starting_with(Key::from_bytes(&[7, 0xff]));
        assert!(high.contains(&[7, 0xff, 0xff]) && !high.contains(&[8]) && !high.contains(&[7]));
        assert_eq!(format!("{} {}", KeyRange::single(Key::int(5)), KeyRange::all()), "[5] [..)");
    }
}
