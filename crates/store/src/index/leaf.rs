//! Leaves of the index: the entries of up to 32 keys, and the protocol by which threads share them.
//!
//! ```text
//!   line 0   state, count, heads: the first words of lines 2 to 4
//!   line 1   word  word  word  word  word  word  word  word
//!     to 4   ...                         behind the last entry: the greatest word there is
//!   line 5   row   row   row   row   row   row   row   row
//!     to 8   ...                         behind the last entry: null
//! ```
//!
//! A search reads three lines, and each decides which one follows: heads, words, the row's pointer.
//!
//! **Readers** use the sequence number: they read it, search, and check that it has not changed.
//! Values read in between may be torn, so the search must stay within bounds for any of them.
//! **Writers** hold the latch.

use crate::heap::Heap;
use crate::row::{Row, prefetch};
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence, spin};
use std::ptr::{self, NonNull};

pub(super) const LEAF_ENTRIES: usize = LEAF_LINES * LINE_WORDS;
/// Words that fill a cache line.
pub(super) const LINE_WORDS: usize = 8;
const LEAF_LINES: usize = 4;
/// Greater than the word of any key.
pub(super) const NO_WORD: u64 = u64::MAX;

/// The first seven bytes of a key and its length, capped at 8: orders as the keys do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Word(pub(super) u64);

impl Word {
    pub(super) fn of(key: &[u8]) -> Word {
        let mut bytes = [0u8; 8];
        let count = key.len().min(7);
        bytes[..count].copy_from_slice(&key[..count]);
        bytes[7] = key.len().min(8) as u8;
        Word(u64::from_be_bytes(bytes))
    }

    /// True if equal words imply equal keys.
    pub(super) fn is_whole_key(self) -> bool {
        self.0 as u8 <= 7
    }
}

/// A writer holds the latch: pointers may change.
const LATCHED: u64 = 1;
/// A writer moves entries: readers must wait.
const MOVING: u64 = 2;
/// The leaf was replaced: start again from the root.
const OBSOLETE: u64 = 4;
const SEQUENCE_STEP: u64 = 8;

/// See the [module documentation](self).
#[repr(C, align(64))]
pub(super) struct Leaf {
    /// Sequence number and the three bits above.
    state: AtomicU64,
    count: AtomicU32,
    heads: [AtomicU64; LEAF_LINES - 1],
    words: [Line; LEAF_LINES],
    rows: [AtomicPtr<Row>; LEAF_ENTRIES],
}

#[repr(C, align(64))]
struct Line([AtomicU64; LINE_WORDS]);

impl Line {
    /// The number of words in the line that are less than `word`. Compares all of them, because a
    /// branch would be mispredicted half of the time.
    fn less(&self, word: Word) -> usize {
        self.0.iter().map(|other| usize::from(other.load(Ordering::Relaxed) < word.0)).sum()
    }
}

/// The place of a key in a leaf, or (`Err`) the place to insert it.
pub(super) type Position = Result<usize, usize>;

impl Leaf {
    pub(super) fn allocate(heap: &Heap, entries: &[(u64, *mut Row)]) -> NonNull<Leaf> {
        let slot = heap.allocate(0, size_of::<Leaf>()).cast::<Leaf>();
        let word = |i: usize| AtomicU64::new(entries.get(i).map_or(NO_WORD, |entry| entry.0));
        let leaf = Leaf {
            state: AtomicU64::new(0),
            count: AtomicU32::new(entries.len() as u32),
            heads: std::array::from_fn(|line| word((line + 1) * LINE_WORDS)),
            words: std::array::from_fn(|line| {
                Line(std::array::from_fn(|column| word(line * LINE_WORDS + column)))
            }),
            rows: std::array::from_fn(|i| {
                AtomicPtr::new(entries.get(i).map_or(ptr::null_mut(), |entry| entry.1))
            }),
        };
        // SAFETY: the slot is large enough, aligned to 64 bytes as its size is a multiple of 64,
        // and not yet shared.
        unsafe { slot.write(leaf) };
        slot
    }

    pub(super) fn count(&self) -> usize {
        // A read that races with a move may be torn. The sequence number shows that only
        // afterwards, so the clamp prevents an index out of bounds until then.
        (self.count.load(Ordering::Relaxed) as usize).min(LEAF_ENTRIES)
    }

    fn set(&self, at: usize, word: u64, row: *mut Row) {
        self.words[at / LINE_WORDS].0[at % LINE_WORDS].store(word, Ordering::Relaxed);
        self.rows[at].store(row, Ordering::Release);
    }

    pub(super) fn row(&self, at: usize) -> *mut Row {
        self.rows[at].load(Ordering::Acquire)
    }

    fn word(&self, at: usize) -> u64 {
        self.words[at / LINE_WORDS].0[at % LINE_WORDS].load(Ordering::Relaxed)
    }

    /// Like `search`, but compares the entry at `at` first.
    pub(super) fn search_from(&self, at: usize, word: Word, key: &[u8]) -> Position {
        let there = at < LEAF_ENTRIES && self.word(at) == word.0;
        if there && word.is_whole_key() { Ok(at) } else { self.search(word, key) }
    }

    /// The place of `key`; `Err` holds the place to insert it.
    pub(super) fn search(&self, word: Word, key: &[u8]) -> Position {
        let at = self.first_in(self.line_of(word), word);
        if at == LEAF_ENTRIES || self.word(at) != word.0 {
            return Err(at);
        }
        if word.is_whole_key() { Ok(at) } else { self.search_long(word, at, key) }
    }

    /// The line of words in which a search continues.
    fn line_of(&self, word: Word) -> usize {
        self.heads.iter().map(|head| usize::from(head.load(Ordering::Relaxed) < word.0)).sum()
    }

    /// The first place in a line whose word is not less than `word`.
    fn first_in(&self, line: usize, word: Word) -> usize {
        line * LINE_WORDS + self.words[line].less(word)
    }

    /// Compares whole keys among the entries with equal words, from `at` on.
    #[cold]
    fn search_long(&self, word: Word, mut at: usize, key: &[u8]) -> Position {
        while at < LEAF_ENTRIES && self.word(at) == word.0 {
            // SAFETY: rows reachable from a leaf are alive while the caller's guard is. Only a
            // reader that races with a move sees a null, and it then retries.
            let Some(row) = (unsafe { self.row(at).as_ref() }) else { return Err(at) };
            match row.key().cmp(key) {
                std::cmp::Ordering::Less => at += 1,
                std::cmp::Ordering::Equal => return Ok(at),
                std::cmp::Ordering::Greater => return Err(at),
            }
        }
        Err(at)
    }

    /// First step: prefetches the line that a search reads first. The later steps prefetch the rest
    /// and return where the key probably is. They need no sequence check, because their results are
    /// hints.
    pub(super) fn warm_heads(&self) {
        prefetch(ptr::from_ref(self).cast());
    }

    /// Second step: prefetches a line of words.
    pub(super) fn warm_words(&self, word: Word) -> usize {
        let line = self.line_of(word);
        prefetch(ptr::from_ref(&self.words[line]).cast());
        line
    }

    /// Third step: prefetches a pointer.
    pub(super) fn warm_pointer(&self, line: usize, word: Word) -> usize {
        let at = self.first_in(line, word).min(LEAF_ENTRIES - 1);
        prefetch(ptr::from_ref(&self.rows[at]).cast());
        at
    }

    /// Last step: prefetches the row.
    pub(super) fn warm_row(&self, at: usize) {
        Row::prefetch(self.row(at));
    }

    /// Runs `read` until no move disturbs it; `None` if the leaf is obsolete.
    pub(super) fn read<T>(&self, mut read: impl FnMut(&Leaf) -> T) -> Option<T> {
        let mut round = 0;
        loop {
            let before = self.state.load(Ordering::Acquire);
            if before & OBSOLETE != 0 {
                return None;
            }
            if before & MOVING == 0 {
                let result = read(self);
                fence(Ordering::Acquire);
                if self.state.load(Ordering::Relaxed) | LATCHED == before | LATCHED {
                    return Some(result);
                }
            }
            spin(round);
            round += 1;
        }
    }

    /// Takes the latch; `None` if the leaf is obsolete.
    pub(super) fn latch(&self) -> Option<Latched<'_>> {
        let mut round = 0;
        loop {
            let state = self.state.load(Ordering::Relaxed);
            if state & OBSOLETE != 0 {
                return None;
            }
            if state & LATCHED == 0
                && self
                    .state
                    .compare_exchange_weak(
                        state,
                        state | LATCHED,
                        Ordering::Acquire,
                        Ordering::Relaxed,
                    )
                    .is_ok()
            {
                return Some(Latched { leaf: self });
            }
            spin(round);
            round += 1;
        }
    }
}

/// A leaf whose latch is held: the only way to change it.
pub(super) struct Latched<'a> {
    pub(super) leaf: &'a Leaf,
}

impl Latched<'_> {
    /// Runs `change`, which moves entries, while readers are kept out.
    fn moving(&self, change: impl FnOnce(&Leaf)) {
        let state = self.leaf.state.load(Ordering::Relaxed);
        self.leaf.state.store(state | MOVING, Ordering::Relaxed);
        fence(Ordering::Release);
        change(self.leaf);
        for (line, head) in self.leaf.heads.iter().enumerate() {
            head.store(self.leaf.word((line + 1) * LINE_WORDS), Ordering::Relaxed);
        }
        self.leaf.state.store((state + SEQUENCE_STEP) & !MOVING, Ordering::Release);
    }

    pub(super) fn insert(&self, at: usize, word: Word, row: *mut Row) {
        self.moving(|leaf| {
            let count = leaf.count();
            (at..count).rev().for_each(|i| leaf.set(i + 1, leaf.word(i), leaf.row(i)));
            leaf.set(at, word.0, row);
            leaf.count.store(count as u32 + 1, Ordering::Relaxed);
        });
    }

    pub(super) fn remove(&self, at: usize) {
        self.moving(|leaf| {
            let last = leaf.count() - 1;
            (at..last).for_each(|i| leaf.set(i, leaf.word(i + 1), leaf.row(i + 1)));
            // A reader that races with the move finds a null here instead of a row that may be
            // freed.
            leaf.set(last, NO_WORD, ptr::null_mut());
            leaf.count.store(last as u32, Ordering::Relaxed);
        });
    }

    /// Replaces the pointer of an entry, which disturbs no reader.
    pub(super) fn point(&self, at: usize, row: *mut Row) {
        self.leaf.rows[at].store(row, Ordering::Release);
    }

    pub(super) fn entries(&self) -> Vec<(u64, *mut Row)> {
        (0..self.leaf.count()).map(|i| (self.leaf.word(i), self.leaf.row(i))).collect()
    }

    /// Marks the leaf as replaced. Every other operation on it starts again from the root.
    pub(super) fn retire(self) {
        self.leaf.state.fetch_or(OBSOLETE, Ordering::Release);
    }
}

impl Drop for Latched<'_> {
    fn drop(&mut self) {
        // Only the owner of the latch writes the state.
        let state = self.leaf.state.load(Ordering::Relaxed);
        self.leaf.state.store(state & !LATCHED, Ordering::Release);
    }
}

impl Leaf {
    /// Copies the pointers of the entries from `key` on. Returns their number.
    pub(super) fn copy_from(&self, key: &[u8], rows: &mut LeafRows) -> usize {
        let (Ok(at) | Err(at)) = self.search(Word::of(key), key);
        let count = self.count();
        for i in at..count {
            rows[i - at] = self.row(i);
        }
        count.saturating_sub(at)
    }
}

impl Leaf {
    /// Copies the pointers of the entries before `end` (`None`: of all). Returns their number.
    pub(super) fn copy_before(&self, end: Option<&[u8]>, rows: &mut LeafRows) -> usize {
        let count = match end.map(|end| self.search(Word::of(end), end)) {
            Some(Ok(at) | Err(at)) => at.min(self.count()),
            None => self.count(),
        };
        for (i, row) in rows[..count].iter_mut().enumerate() {
            *row = self.row(i);
        }
        count
    }
}

/// Room for the pointers of one leaf.
pub(crate) type LeafRows = [*mut Row; LEAF_ENTRIES];
