//! The ranges that were moved for their heat, and their homes.
//!
//! Moving a clump cuts partitions into pieces, and every piece is an entry of the routing table
//! (Clay, section 7.4). So each moved range is remembered with the site that it came from. Once it
//! has cooled, it goes back, and where both sides of a cut are alike again, they are merged. Cuts
//! that existed before are left alone.

use super::blocks::Blocks;
use isomer_design::{Key, KeyRange, SiteId, TableId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The first line of the text form.
const VERSION: &str = "away 1";

/// All ranges that are away from home, without overlap, and the cuts made for them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Away {
    /// By table and first key.
    moved: BTreeMap<(TableId, Key), Moved>,
    cuts: BTreeSet<(TableId, Key)>,
}

/// A moved range and its home.
#[derive(Clone, PartialEq, Debug)]
pub struct Moved {
    /// The table.
    pub table: TableId,
    /// The keys.
    pub range: KeyRange,
    /// The site that it came from.
    pub home: SiteId,
}

impl Away {
    /// The number of ranges that are away.
    pub fn len(&self) -> usize {
        self.moved.len()
    }

    /// True if everything is at home.
    pub fn is_empty(&self) -> bool {
        self.moved.is_empty()
    }

    /// All ranges that are away.
    pub fn iter(&self) -> impl Iterator<Item = &Moved> {
        self.moved.values()
    }

    /// Records a cut of a partition at a key.
    pub fn cut(&mut self, table: TableId, at: Key) {
        self.cuts.insert((table, at));
    }

    /// Forgets cuts for which `is_cut` is false.
    pub fn retain_cuts(&mut self, is_cut: impl FnMut(&(TableId, Key)) -> bool) {
        self.cuts.retain(is_cut);
    }

    /// Records the move of a range. A range that was already away keeps its first home; a range
    /// that has gone home is forgotten.
    pub fn moved(&mut self, table: TableId, range: &KeyRange, from: SiteId, to: SiteId) {
        let before = (table, range.start.clone());
        let first = self.moved.range(..&before).next_back();
        let first = first.filter(|(_, moved)| overlap(moved, table, range));
        let rest = self.moved.range(before.clone()..);
        let rest = rest.take_while(|(_, moved)| overlap(moved, table, range));
        let overlapping: Vec<_> =
            first.into_iter().chain(rest).map(|(key, _)| key.clone()).collect();
        let mut home = None;
        for key in overlapping {
            let moved = self.moved.remove(&key).expect("it was just found");
            home.get_or_insert(moved.home);
            without(moved, range).into_iter().for_each(|part| self.put(part));
        }
        let home = home.unwrap_or(from);
        if home != to {
            self.put(Moved { table, range: range.clone(), home });
        }
    }

    fn put(&mut self, moved: Moved) {
        self.moved.insert((moved.table, moved.range.start.clone()), moved);
    }

    /// Forgets a site that is to be removed: its ranges are at home where they are now.
    pub fn forget_home(&mut self, site: SiteId) {
        self.moved.retain(|_, moved| moved.home != site);
    }

    /// The blocks that are away and have cooled, with their homes. A block has cooled if its share
    /// of all accesses is below `cool`.
    pub fn cooled<'a>(
        &'a self,
        blocks: &'a Blocks,
        share: impl Fn(usize) -> f64 + 'a,
        cool: f64,
    ) -> impl Iterator<Item = (usize, SiteId)> + 'a {
        let within = move |moved: &'a Moved| {
            blocks.within(moved.table, &moved.range).map(move |block| (block, moved.home))
        };
        self.moved.values().flat_map(within).filter(move |(block, _)| share(*block) < cool)
    }

    /// The text form, for [`Away::parse`].
    pub fn to_text(&self) -> String {
        let mut text = format!("{VERSION}\n");
        for Moved { table, range, home } in self.moved.values() {
            let end = range.end.as_ref().map_or("-".to_owned(), hex);
            let _ = writeln!(text, "moved {} {} {end} {}", table.0, hex(&range.start), home.0);
        }
        for (table, at) in &self.cuts {
            let _ = writeln!(text, "cut {} {}", table.0, hex(at));
        }
        text
    }

    /// Reads what [`Away::to_text`] wrote.
    ///
    /// # Errors
    /// A message that names the line.
    pub fn parse(text: &str) -> Result<Away, String> {
        let mut lines = text.lines();
        if lines.next() != Some(VERSION) {
            return Err(format!("it does not begin with `{VERSION}`"));
        }
        let mut away = Away::default();
        for line in lines {
            away.read(line).ok_or_else(|| format!("cannot read `{line}`"))?;
        }
        Ok(away)
    }

    fn read(&mut self, line: &str) -> Option<()> {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["moved", table, start, end, home] => {
                let end = match end {
                    "-" => None,
                    end => Some(unhex(end)?),
                };
                let (table, home) = (TableId(table.parse().ok()?), SiteId(home.parse().ok()?));
                self.put(Moved { table, range: KeyRange::new(unhex(start)?, end), home });
            }
            ["cut", table, at] => self.cut(TableId(table.parse().ok()?), unhex(at)?),
            _ => return None,
        }
        Some(())
    }
}

/// True if a moved range has keys of this range of a table.
fn overlap(moved: &Moved, table: TableId, range: &KeyRange) -> bool {
    moved.table == table && !moved.range.intersection(range).is_empty()
}

/// The parts of a moved range outside `range`.
fn without(moved: Moved, range: &KeyRange) -> Vec<Moved> {
    let Moved { table, range: own, home } = moved;
    let before = KeyRange::new(own.start.clone(), Some(range.start.clone()));
    let after = range.end.clone().map(|end| KeyRange::new(end, own.end.clone()));
    let parts = [Some(before), after].into_iter().flatten();
    let parts = parts.map(|part| part.intersection(&own)).filter(|part| !part.is_empty());
    parts.map(|range| Moved { table, range, home }).collect()
}

/// Keys begin with `x`, so that the empty key is a word too.
fn hex(key: &Key) -> String {
    let mut text = "x".to_owned();
    key.as_bytes().iter().for_each(|byte| text += &format!("{byte:02x}"));
    text
}

fn unhex(text: &str) -> Option<Key> {
    let digits =
        text.strip_prefix('x').filter(|digits| digits.is_ascii() && digits.len() % 2 == 0)?;
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).ok();
    let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
    Some(Key::from_bytes(&bytes?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: TableId = TableId(1);

    fn range(from: i64, to: i64) -> KeyRange {
        KeyRange::new(Key::int(from), Some(Key::int(to)))
    }

    fn homes(away: &Away) -> Vec<(KeyRange, u16)> {
        away.iter().map(|moved| (moved.range.clone(), moved.home.0)).collect()
    }

    #[test]
    fn home_is_where_it_came_from_first() {
        let mut away = Away::default();
        away.moved(T, &range(10, 20), SiteId(1), SiteId(2));
        away.moved(T, &range(10, 20), SiteId(2), SiteId(3));
        assert_eq!(homes(&away), [(range(10, 20), 1)]);
        away.moved(T, &range(14, 16), SiteId(3), SiteId(1));
        assert_eq!(homes(&away), [(range(10, 14), 1), (range(16, 20), 1)]);
        away.moved(T, &range(0, 100), SiteId(3), SiteId(1));
        assert!(away.is_empty());
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let mut away = Away::default();
        away.moved(T, &range(10, 20), SiteId(1), SiteId(2));
        away.moved(TableId(7), &KeyRange::all(), SiteId(3), SiteId(2));
        away.cut(T, Key::int(10));
        assert_eq!(Away::parse(&away.to_text()), Ok(away));
        let wrong = |text: &str| Away::parse(text).unwrap_err();
        assert_eq!(wrong("away 2\n"), "it does not begin with `away 1`");
        assert_eq!(wrong("away 1\nmoved 1 x0 - 1\n"), "cannot read `moved 1 x0 - 1`");
    }
}
