//! A sorted map from the start of a range to the value of the range, for many concurrent readers.
//!
//! *Problem.* The router looks up the partition of every item of every transaction, and every site
//! looks up its own partitions. There may be tens of thousands of partitions, most of them of one
//! key, and a few change every second. Readers must never wait for a change, nor see half of one.
//!
//! *Structure.* An entry is a start key and a value; it covers the keys from its start to the next
//! start. Entries are in order in chunks of at most [`CHUNK_ENTRIES_MAX`], and the chunks are in
//! order in one top vector. Both are behind `Arc`s, so a clone is one reference count. A change to
//! a map with other readers copies one chunk and the top vector, and shares the rest. For 50,000
//! entries these are about 60 entries and 800 chunks:
//!
//! ```text
//!   top words    [ 81 00…        | 82 03e9…           | 82 07d1…      ]   one u64 per chunk
//!   chunks           │                 │                    │
//!                    ▼                 ▼                    ▼
//!   words        [81 00…, 81 05…]  [82 03e9…, 82 03ea…]   …               one u64 per entry
//!   entries      [(0, a), (5, b)]  [(1001, c), (1002, a)] …
//!
//!   get(7):   last top word ≤ 81 07…  → first chunk;  last word ≤ 81 07… in it → (5, b)
//! ```
//!
//! *Words.* A binary search that follows pointers to keys would miss the cache at every step. So
//! each level keeps the first eight bytes of its keys, as big-endian numbers, in a dense array, and
//! searches that. In a chunk, it first searches the first word of each cache line. Whole keys are
//! compared only if a word equals that of the wanted key, and only among the entries of this word.
//!
//! *Invariants.* Starts strictly increase, within and across chunks; no chunk is empty; words
//! mirror the keys at both levels.
//!
//! *Left out.* Keys with the same first eight bytes (long texts with one prefix) need comparisons
//! of whole keys: a logarithmic number, but each a cache miss. Removing the common prefix of a
//! chunk's keys would avoid that.

use crate::Key;
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// Words that fill a cache line.
const LINE_WORDS: usize = 8;
const CHUNK_LINES: usize = 8;
const CHUNK_WORDS: usize = CHUNK_LINES * LINE_WORDS;

/// The most entries of one chunk, which a change copies. The last word has room for the entry that
/// makes a chunk too large, until the chunk is divided.
pub const CHUNK_ENTRIES_MAX: usize = CHUNK_WORDS - 1;

/// Chunks with fewer entries are joined with a neighbour, so that maps which shrink stay dense.
const CHUNK_ENTRIES_MIN: usize = CHUNK_ENTRIES_MAX / 4;

const _: () = assert!(CHUNK_ENTRIES_MIN * 2 < CHUNK_ENTRIES_MAX, "a joined chunk must have room");

/// An immutable sorted map in which the entry with the greatest start not beyond a key covers it.
///
/// ```
/// use isomer_design::{Key, RangeMap};
/// let map = RangeMap::new().insert(Key::min(), "cold").insert(Key::int(5), "hot");
/// let cooler = map.remove(&Key::int(5));
/// assert_eq!(map.get(&Key::int(7)), Some((&Key::int(5), &"hot")));
/// assert_eq!(cooler.get(&Key::int(7)), Some((&Key::min(), &"cold")));
/// ```
pub struct RangeMap<V> {
    top: Arc<Top<V>>,
}

#[derive(Clone)]
struct Top<V> {
    words: Vec<u64>,
    chunks: Vec<Arc<Chunk<V>>>,
    len: usize,
}

#[derive(Clone)]
#[repr(C, align(64))]
struct Chunk<V> {
    /// The first word of each line of words.
    heads: [u64; CHUNK_LINES],
    /// Filled up with the greatest word.
    words: [u64; CHUNK_WORDS],
    entries: Vec<(Key, V)>,
}

/// The position of an entry: its chunk, and its index in the chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Position {
    chunk: usize,
    index: usize,
}

impl<V> RangeMap<V> {
    /// A map that covers nothing.
    pub fn new() -> RangeMap<V> {
        RangeMap { top: Arc::new(Top { words: Vec::new(), chunks: Vec::new(), len: 0 }) }
    }

    /// A map of the given entries, whose starts must strictly increase.
    ///
    /// # Panics
    /// If they do not: that would make every later lookup wrong.
    pub fn from_sorted(entries: impl IntoIterator<Item = (Key, V)>) -> RangeMap<V> {
        let entries: Vec<(Key, V)> = entries.into_iter().collect();
        let ordered = entries.windows(2).all(|pair| pair[0].0 < pair[1].0);
        assert!(ordered, "the starts given to RangeMap::from_sorted must strictly increase");
        let mut top = Top { words: Vec::new(), chunks: Vec::new(), len: entries.len() };
        top.replace(0..0, entries);
        RangeMap { top: Arc::new(top) }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.top.len
    }

    /// True if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.top.len == 0
    }

    /// The entry that covers `key`: the one with the greatest start not beyond it.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<(&Key, &V)> {
        let word = word_of(key);
        let chunk = self.top.find(word, key)?;
        let chunk = &self.top.chunks[chunk];
        let (start, value) = &chunk.entries[chunk.find(word, key)?];
        Some((start, value))
    }

    /// As [`RangeMap::get`] for many keys, each in its map. Advances all of them one step at a
    /// time, so that their cache misses overlap.
    pub fn get_each<'m, 'k>(
        keys: impl Iterator<Item = (&'m RangeMap<V>, &'k [u8])> + Clone,
        mut visit: impl FnMut(&'m Key, &'m V),
    ) where
        V: 'm,
    {
        let words = keys.clone().map(|(_, key)| word_of(key));
        let chunks: SmallVec<[Option<&'m Chunk<V>>; 16]> = keys
            .clone()
            .zip(words.clone())
            .map(|((map, key), word)| Some(&*map.top.chunks[map.top.find(word, key)?]))
            .collect();
        let lines: SmallVec<[usize; 16]> = chunks
            .iter()
            .zip(words.clone())
            .map(|(chunk, word)| chunk.map_or(0, |chunk| chunk.line_of(word)))
            .collect();
        let entries: SmallVec<[Option<&'m (Key, V)>; 16]> = chunks
            .iter()
            .zip(&lines)
            .zip(words.zip(keys))
            .map(|((chunk, line), (word, (_, key)))| {
                let chunk = (*chunk)?;
                chunk.entries.get(chunk.find_in(*line, word, key)?)
            })
            .collect();
        entries.iter().flatten().for_each(|(start, value)| visit(start, value));
    }

    /// The value of the entry that starts at `start` exactly.
    pub fn get_exact(&self, start: &[u8]) -> Option<&V> {
        self.get(start).filter(|(found, _)| found.as_bytes() == start).map(|(_, value)| value)
    }

    /// The last entry that starts before `key`.
    pub fn before(&self, key: &[u8]) -> Option<(&Key, &V)> {
        let floor = self.top.floor(key)?;
        let (start, _) = self.top.at(floor)?;
        let found = if start.as_bytes() == key { self.top.previous(floor)? } else { floor };
        self.top.at(found)
    }

    /// The last entry.
    pub fn last(&self) -> Option<(&Key, &V)> {
        let chunk = self.top.chunks.len().checked_sub(1)?;
        let index = self.top.chunks[chunk].entries.len().checked_sub(1)?;
        self.top.at(Position { chunk, index })
    }

    /// The first entry that starts after `key`, which is the end of the range that covers `key`.
    pub fn after(&self, key: &[u8]) -> Option<(&Key, &V)> {
        self.top.at(self.top.first_after(key))
    }

    /// All entries in order.
    pub fn iter(&self) -> RangeMapIter<'_, V> {
        RangeMapIter { top: &self.top, next: Position { chunk: 0, index: 0 } }
    }

    /// The entries from the one that covers `key` on; if none does, from the first after it.
    pub fn iter_from(&self, key: &[u8]) -> RangeMapIter<'_, V> {
        let next = self.top.floor(key).unwrap_or(Position { chunk: 0, index: 0 });
        RangeMapIter { top: &self.top, next }
    }

    /// The memory held, in bytes, without memory behind pointers in values.
    pub fn heap_bytes(&self) -> usize {
        let chunk_bytes = |chunk: &Arc<Chunk<V>>| {
            size_of::<Chunk<V>>()
                + chunk.entries.capacity() * size_of::<(Key, V)>()
                + chunk.entries.iter().map(|(start, _)| start.heap_bytes()).sum::<usize>()
        };
        size_of::<Top<V>>()
            + self.top.words.capacity() * size_of::<u64>()
            + self.top.chunks.capacity() * size_of::<Arc<Chunk<V>>>()
            + self.top.chunks.iter().map(chunk_bytes).sum::<usize>()
    }
}

impl<V: Clone> RangeMap<V> {
    /// The map with an entry added, or its value replaced. Unchanged parts are shared.
    #[must_use = "the map itself does not change"]
    pub fn insert(&self, start: Key, value: V) -> RangeMap<V> {
        let mut map = self.clone();
        map.set(start, value);
        map
    }

    /// The map without the entry that starts at `start`. Unchanged parts are shared.
    #[must_use = "the map itself does not change"]
    pub fn remove(&self, start: &[u8]) -> RangeMap<V> {
        let mut map = self.clone();
        map.unset(start);
        map
    }

    /// Adds an entry in place, or replaces its value; returns the old value. Copies only parts that
    /// are shared with clones of this map.
    pub fn set(&mut self, start: Key, value: V) -> Option<V> {
        let word = word_of(&start);
        let top = Arc::make_mut(&mut self.top);
        if top.chunks.is_empty() {
            top.replace(0..0, vec![(start, value)]);
            top.len = 1;
            return None;
        }
        // A start before all others belongs to the first chunk, which then begins with it.
        let chunk_index = top.find(word, &start).unwrap_or(0);
        let chunk = Arc::make_mut(&mut top.chunks[chunk_index]);
        let index = match chunk.find(word, &start) {
            Some(found) if chunk.entries[found].0 == start => {
                return Some(std::mem::replace(&mut chunk.entries[found].1, value));
            }
            Some(found) => found + 1,
            None => 0,
        };
        chunk.insert(index, start, value);
        top.words[chunk_index] = chunk.words[0];
        let overfull = chunk.entries.len() > CHUNK_ENTRIES_MAX;
        top.len += 1;
        if overfull {
            top.rebuild(chunk_index..chunk_index + 1);
        }
        None
    }

    /// Removes the entry that starts at `start` in place; returns its value. Copies only parts that
    /// are shared with clones of this map.
    pub fn unset(&mut self, start: &[u8]) -> Option<V> {
        let found = self.top.floor(start)?;
        if self.top.at(found)?.0.as_bytes() != start {
            return None;
        }
        let top = Arc::make_mut(&mut self.top);
        let chunk = Arc::make_mut(&mut top.chunks[found.chunk]);
        let value = chunk.remove(found.index);
        let left = chunk.entries.len();
        top.words[found.chunk] = chunk.words[0];
        top.len -= 1;
        if left < CHUNK_ENTRIES_MIN {
            let last = (found.chunk + 2).min(top.chunks.len());
            top.rebuild(last.saturating_sub(2)..last);
        }
        Some(value)
    }
}

impl<V> Top<V> {
    /// The last chunk whose first start is not beyond `key`.
    #[inline]
    fn find(&self, word: u64, key: &[u8]) -> Option<usize> {
        let count = self.words.partition_point(|&other| other <= word);
        last_not_beyond(&self.words, count, word, key, |index| &self.chunks[index].entries[0].0)
    }

    /// The position of the entry that covers `key`.
    fn floor(&self, key: &[u8]) -> Option<Position> {
        let word = word_of(key);
        let chunk = self.find(word, key)?;
        let index = self.chunks[chunk].find(word, key)?;
        Some(Position { chunk, index })
    }

    /// The position of the first entry after `key`, which may be past the end.
    fn first_after(&self, key: &[u8]) -> Position {
        match self.floor(key) {
            Some(floor) => self.next(floor),
            None => Position { chunk: 0, index: 0 },
        }
    }

    fn next(&self, at: Position) -> Position {
        if at.index + 1 < self.chunks[at.chunk].entries.len() {
            Position { index: at.index + 1, ..at }
        } else {
            Position { chunk: at.chunk + 1, index: 0 }
        }
    }

    fn previous(&self, at: Position) -> Option<Position> {
        if at.index > 0 {
            return Some(Position { index: at.index - 1, ..at });
        }
        let chunk = at.chunk.checked_sub(1)?;
        Some(Position { chunk, index: self.chunks[chunk].entries.len() - 1 })
    }

    #[inline]
    fn at(&self, position: Position) -> Option<(&Key, &V)> {
        let (start, value) = self.chunks.get(position.chunk)?.entries.get(position.index)?;
        Some((start, value))
    }

    /// Replaces some chunks by chunks of equal size with these entries.
    fn replace(&mut self, old: std::ops::Range<usize>, entries: Vec<(Key, V)>) {
        let count = entries.len().div_ceil(CHUNK_ENTRIES_MAX);
        let (len, mut entries) = (entries.len(), entries.into_iter());
        // Chunk i takes the entries from i·len/count on: sizes differ by one at most.
        let chunks: Vec<Arc<Chunk<V>>> = (0..count)
            .map(|i| (i + 1) * len / count - i * len / count)
            .map(|size| Arc::new(Chunk::new(entries.by_ref().take(size).collect())))
            .collect();
        self.words.splice(old.clone(), chunks.iter().map(|chunk| chunk.words[0]));
        self.chunks.splice(old, chunks);
    }
}

impl<V: Clone> Top<V> {
    /// Divides the entries of some chunks again.
    fn rebuild(&mut self, old: std::ops::Range<usize>) {
        let entries =
            self.chunks[old.clone()].iter().flat_map(|chunk| chunk.entries.iter().cloned());
        let entries = entries.collect();
        self.replace(old, entries);
    }
}

impl<V> Chunk<V> {
    fn new(entries: Vec<(Key, V)>) -> Chunk<V> {
        let mut words = [u64::MAX; CHUNK_WORDS];
        for (word, (start, _)) in words.iter_mut().zip(&entries) {
            *word = word_of(start);
        }
        let mut chunk = Chunk { heads: [0; CHUNK_LINES], words, entries };
        chunk.set_heads();
        chunk
    }

    fn insert(&mut self, index: usize, start: Key, value: V) {
        self.words.copy_within(index..CHUNK_WORDS - 1, index + 1);
        self.words[index] = word_of(&start);
        self.set_heads();
        self.entries.insert(index, (start, value));
    }

    fn remove(&mut self, index: usize) -> V {
        self.words.copy_within(index + 1.., index);
        self.words[CHUNK_WORDS - 1] = u64::MAX;
        self.set_heads();
        self.entries.remove(index).1
    }

    fn set_heads(&mut self) {
        self.heads = std::array::from_fn(|line| self.words[line * LINE_WORDS]);
    }

    /// The last entry whose start is not beyond `key`.
    #[inline]
    fn find(&self, word: u64, key: &[u8]) -> Option<usize> {
        self.find_in(self.line_of(word), word, key)
    }

    /// The line of words in which the search continues: the last one that does not begin beyond
    /// `word`. Looks at all heads, because a branch would be unpredictable.
    #[inline]
    fn line_of(&self, word: u64) -> usize {
        self.heads[1..].iter().map(|&head| usize::from(head <= word)).sum()
    }

    /// As `find`, given the line.
    #[inline]
    fn find_in(&self, line: usize, word: u64, key: &[u8]) -> Option<usize> {
        let start = line * LINE_WORDS;
        let words = &self.words[start..start + LINE_WORDS];
        let within: usize = words.iter().map(|&other| usize::from(other <= word)).sum();
        // The padding words are beyond all words but the greatest.
        let count = (start + within).min(self.entries.len());
        last_not_beyond(&self.words, count, word, key, |index| &self.entries[index].0)
    }
}

/// The first eight bytes of a key as a number, filled up with zeros: numbers order like the keys,
/// except that keys which differ later, or by trailing zeros only, have equal numbers.
#[inline]
fn word_of(key: &[u8]) -> u64 {
    if let Some((head, _)) = key.split_first_chunk::<8>() {
        return u64::from_be_bytes(*head);
    }
    key.iter().rev().fold(0, |word, &byte| word >> 8 | u64::from(byte) << 56)
}

/// The index of the last start that is not beyond `key`, given the words of all starts and how
/// many of them are not beyond that of `key`.
#[inline]
fn last_not_beyond<'a>(
    words: &[u64],
    count: usize,
    word: u64,
    key: &[u8],
    start_of: impl Fn(usize) -> &'a Key,
) -> Option<usize> {
    let last = count.checked_sub(1)?;
    if words[last] < word || start_of(last).as_bytes() <= key {
        return Some(last);
    }
    // Equal words: compare whole keys, among the starts of this word.
    let (mut low, mut high) = (words[..last].partition_point(|&other| other < word), last);
    while low < high {
        let middle = low + (high - low) / 2;
        if start_of(middle).as_bytes() <= key {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low.checked_sub(1)
}

/// The entries of a [`RangeMap`] in order.
pub struct RangeMapIter<'a, V> {
    top: &'a Top<V>,
    next: Position,
}

impl<'a, V> Iterator for RangeMapIter<'a, V> {
    type Item = (&'a Key, &'a V);

    fn next(&mut self) -> Option<(&'a Key, &'a V)> {
        let entry = self.top.at(self.next)?;
        self.next = self.top.next(self.next);
        Some(entry)
    }
}

impl<'a, V> IntoIterator for &'a RangeMap<V> {
    type Item = (&'a Key, &'a V);
    type IntoIter = RangeMapIter<'a, V>;

    fn into_iter(self) -> RangeMapIter<'a, V> {
        self.iter()
    }
}

impl<V> Clone for RangeMap<V> {
    fn clone(&self) -> RangeMap<V> {
        RangeMap { top: self.top.clone() }
    }
}

impl<V> Default for RangeMap<V> {
    fn default() -> RangeMap<V> {
        RangeMap::new()
    }
}

impl<V: PartialEq> PartialEq for RangeMap<V> {
    fn eq(&self, other: &RangeMap<V>) -> bool {
        Arc::ptr_eq(&self.top, &other.top) || (self.len() == other.len() && self.iter().eq(other))
    }
}

impl<V: Eq> Eq for RangeMap<V> {}

impl<V: fmt::Debug> fmt::Debug for RangeMap<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

#[cfg(test)]
mod tests;
