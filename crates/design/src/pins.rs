//! Pins: ranges of a table's keys that strategies leave where they are.
//!
//! ```text
//!   table accounts: pin [5..10)
//!     accounts[]     [..5)     s1       a strategy may split, move and copy it
//!     accounts[5]    [5..10)   s1       only an operator's own statement does
//!     accounts[10]   [10..)    s2       as the first
//! ```
//!
//! A pin is a property of the design and not of a placement: an operator can still move a pinned
//! partition, and so does a takeover when its site fails. The bounds of a pin are meant to be
//! bounds of partitions. A partition that reaches over such a bound is pinned as a whole.
//!
//! **Invariants.** The ranges of [`Pins`] are not empty, in order, and do not touch.

use crate::{Change, Key, KeyRange};
use std::sync::Arc;

/// The pinned ranges of a table. See the [module documentation](self).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Pins(Arc<[KeyRange]>);

impl Pins {
    /// The ranges, in order.
    pub fn ranges(&self) -> &[KeyRange] {
        &self.0
    }

    /// True if nothing is pinned.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if a key of the range is pinned.
    pub fn share_key_with(&self, range: &KeyRange) -> bool {
        self.0.iter().any(|pinned| !pinned.intersection(range).is_empty())
    }

    /// True if a change is not a strategy's to make: it would place or copy a partition with a
    /// pinned key, split one between pinned keys, or join one with another. `partition` is the one
    /// that changes.
    pub(crate) fn forbid(&self, change: &Change, partition: Option<&KeyRange>) -> bool {
        let mut pins = self.0.iter();
        match change {
            Change::Split { at, .. } => pins.any(|pin| pin.start < *at && pin.contains(at)),
            Change::Merge { at, .. } => pins.any(|pin| pin.start <= *at && reaches(&pin.end, at)),
            _ => partition.is_some_and(|partition| self.share_key_with(partition)),
        }
    }

    /// These, and a range.
    #[must_use]
    pub fn with(&self, range: &KeyRange) -> Pins {
        if range.is_empty() {
            return self.clone();
        }
        let touches = |other: &KeyRange| {
            reaches(&other.end, &range.start) && reaches(&range.end, &other.start)
        };
        let (joined, mut apart): (Vec<KeyRange>, Vec<KeyRange>) =
            self.0.iter().cloned().partition(touches);
        apart.push(joined.into_iter().fold(range.clone(), |all, one| KeyRange {
            start: all.start.min(one.start),
            end: all.end.zip(one.end).map(|(a, b)| a.max(b)),
        }));
        apart.sort();
        Pins(apart.into())
    }

    /// These, without a range.
    #[must_use]
    pub fn without(&self, range: &KeyRange) -> Pins {
        let below = KeyRange::new(Key::min(), Some(range.start.clone()));
        let above = range.end.clone().map(|end| KeyRange::new(end, None));
        let rest = self.0.iter().flat_map(|pinned| {
            let above = above.as_ref().map(|above| pinned.intersection(above));
            [Some(pinned.intersection(&below)), above]
        });
        Pins(rest.flatten().filter(|left| !left.is_empty()).collect())
    }
}

/// True if a range with this end has keys up to `key`, or ends there.
fn reaches(end: &Option<Key>, key: &Key) -> bool {
    end.as_ref().is_none_or(|end| key <= end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Design, SiteId, TableId};

    fn shown(pins: &Pins) -> String {
        let shown: Vec<String> = pins.ranges().iter().map(ToString::to_string).collect();
        shown.join(" ")
    }

    #[test]
    fn ranges_are_joined_and_cut() {
        let all = KeyRange::all();
        let from = |key| KeyRange::new(Key::int(key), None);
        let pins = Pins::default().with(&KeyRange::ints(5, 10)).with(&KeyRange::ints(20, 30));
        assert_eq!(shown(&pins), "[5..10) [20..30)");
        assert_eq!(shown(&pins.with(&KeyRange::ints(10, 20))), "[5..30)");
        assert_eq!(shown(&pins.with(&KeyRange::ints(7, 25))), "[5..30)");
        assert_eq!(shown(&pins.with(&from(8))), "[5..)");
        assert_eq!(shown(&pins.with(&KeyRange::ints(3, 3))), "[5..10) [20..30)");
        assert_eq!(shown(&pins.without(&KeyRange::ints(7, 8))), "[5..7) [8..10) [20..30)");
        assert_eq!(shown(&pins.without(&KeyRange::ints(7, 25))), "[5..7) [25..30)");
        assert_eq!(shown(&pins.without(&from(9))), "[5..9)");
        assert!(pins.without(&all).is_empty());
        assert_eq!(shown(&pins.with(&all)), shown(&Pins::default().with(&all)));
        assert!(pins.share_key_with(&KeyRange::ints(9, 20)));
        assert!(!pins.share_key_with(&KeyRange::ints(10, 20)));
    }

    #[test]
    fn changes_of_pinned_partitions_are_known() {
        let text = "sites s1 s2\ntable t\ncolumn k int64\nkey k\npin [5..10)\n\
                    partition [] master s1\npartition [5] master s1 replicas s2\npartition [10] master s1";
        let design = Design::parse(text).expect("a design");
        assert_eq!(Design::parse(&design.to_text()), Ok(design.clone()));
        assert!(design.summary().starts_with("sites s1 s2\ntable t  pin [5..10)\n"));
        let (table, site) = (TableId(1), SiteId(2));
        let key = Key::int;
        for (change, is_pinned) in [
            (Change::Split { table, at: key(3) }, false),
            (Change::Split { table, at: key(7) }, true),
            (Change::Split { table, at: key(12) }, false),
            (Change::Merge { table, at: key(5) }, true),
            (Change::Merge { table, at: key(10) }, true),
            (Change::AddReplica { table, start: Key::min(), site }, false),
            (Change::AddReplica { table, start: key(10), site }, false),
            (Change::Remaster { table, start: key(5), to: site }, true),
            (Change::RemoveReplica { table, start: key(5), site }, true),
            (Change::AddSite { site: SiteId(3) }, false),
        ] {
            assert_eq!(design.is_pinned(&change), is_pinned, "{change:?}");
        }
    }
}
