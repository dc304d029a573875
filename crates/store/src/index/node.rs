//! The upper levels of the index: nodes that never change.

use super::leaf::{LINE_WORDS, Leaf, NO_WORD, Word};
use crate::heap::Heap;
use crate::row::prefetch;
use isomer_design::Key;
use std::ptr::{self, NonNull};

const NODE_LINES: usize = 8;
pub(super) const NODE_CHILDREN: usize = NODE_LINES * LINE_WORDS;

/// An immutable inner node: child `i` covers the keys from separator `i` (child 0: from the node's
/// own lower bound) up to separator `i + 1`.
///
/// A search reads three cache lines, whatever the node's size: the heads, the line of words that
/// the heads select, and the child. Words after the last entry have the greatest value.
#[repr(C, align(64))]
pub(super) struct Node {
    /// The first word of each line of words.
    heads: [u64; NODE_LINES],
    words: [[u64; LINE_WORDS]; NODE_LINES],
    pub(super) children: [Child; NODE_CHILDREN],
    pub(super) count: usize,
    /// The whole separators, for comparisons of equal words that do not hold the whole key.
    pub(super) separators: Box<[Key]>,
}

/// A leaf at height 0, a node above it.
#[derive(Clone, Copy)]
pub(super) union Child {
    pub(super) leaf: NonNull<Leaf>,
    pub(super) node: NonNull<Node>,
}

impl Node {
    pub(super) fn allocate(heap: &Heap, entries: Vec<(Key, Child)>) -> NonNull<Node> {
        let last = entries.len() - 1;
        let word = |i: usize| match i {
            // The first child also covers all smaller keys.
            0 => 0,
            _ => entries.get(i).map_or(NO_WORD, |(key, _)| Word::of(key).0),
        };
        let words = std::array::from_fn(|line| {
            std::array::from_fn(|column| word(line * LINE_WORDS + column))
        });
        let node = Node {
            heads: std::array::from_fn(|line| word(line * LINE_WORDS)),
            words,
            children: std::array::from_fn(|i| entries[i.min(last)].1),
            count: entries.len(),
            separators: entries.into_iter().map(|(key, _)| key).collect(),
        };
        let slot = heap.allocate(0, size_of::<Node>()).cast::<Node>();
        // SAFETY: the slot is large enough, aligned to 64 bytes as its size is a multiple of 64,
        // and not yet shared.
        unsafe { slot.write(node) };
        slot
    }

    /// # Safety
    /// The node came from `allocate` on this heap, and no operation can reach it any more.
    pub(super) unsafe fn free(heap: &Heap, node: NonNull<Node>) {
        heap.retire(0, size_of::<Node>());
        // SAFETY: the caller's promise.
        unsafe { Node::reuse(heap, node) };
    }

    /// # Safety
    /// As for [`Node::free`], for a node that [`Heap::retire`] has stopped counting.
    pub(super) unsafe fn reuse(heap: &Heap, node: NonNull<Node>) {
        // SAFETY: the caller's promise.
        unsafe {
            node.drop_in_place();
            heap.reuse(0, node.cast(), size_of::<Node>());
        }
    }

    /// The child that covers `key`.
    pub(super) fn child_of(&self, word: Word, key: &[u8]) -> usize {
        self.child_in(self.line_of(word), word, key)
    }

    /// Like [`Node::child_of`], given the result of [`Node::line_of`].
    fn child_in(&self, line: usize, word: Word, key: &[u8]) -> usize {
        let mut at = self.last_in(line, word);
        if !word.is_whole_key() {
            // Among separators with an equal word, those greater than the key do not count.
            while at > 0 && self.word(at) == word.0 && self.separators[at].as_bytes() > key {
                at -= 1;
            }
        }
        at
    }

    /// The child that covers the last keys before `end` (`None`: of all).
    pub(super) fn child_before(&self, end: Option<(Word, &[u8])>) -> usize {
        let Some((word, end)) = end else { return self.count - 1 };
        let at = self.child_of(word, end);
        // The first child also covers the keys before its separator.
        at - usize::from(at > 0 && *self.separators[at] == *end)
    }

    /// The line of words in which a search continues.
    fn line_of(&self, word: Word) -> usize {
        last_not_beyond(&self.heads, word)
    }

    /// The last place in a line whose word is at most `word`.
    fn last_in(&self, line: usize, word: Word) -> usize {
        line * LINE_WORDS + last_not_beyond(&self.words[line], word)
    }

    /// First step: prefetches the line that a search reads first.
    pub(super) fn warm_heads(&self) {
        prefetch(ptr::from_ref(&self.heads).cast());
    }

    /// Second step: prefetches a line of words.
    pub(super) fn warm_words(&self, word: Word) -> usize {
        let line = self.line_of(word);
        prefetch(ptr::from_ref(&self.words[line]).cast());
        line
    }

    /// Last step: finds the child and prefetches its pointer.
    pub(super) fn warm_child(&self, line: usize, word: Word, key: &[u8]) -> usize {
        let at = self.child_in(line, word, key);
        prefetch(ptr::from_ref(&self.children[at]).cast());
        at
    }

    fn word(&self, at: usize) -> u64 {
        self.words[at / LINE_WORDS][at % LINE_WORDS]
    }

    /// The node's entries with child `at` replaced.
    pub(super) fn replaced(&self, at: usize, with: Vec<(Key, Child)>) -> Vec<(Key, Child)> {
        let children = self.children[..self.count].iter().copied();
        let mut entries: Vec<(Key, Child)> =
            self.separators.iter().cloned().zip(children).collect();
        entries.splice(at..=at, with);
        entries
    }
}

/// The place of the last word in a line that is at most `word`; the first word always is. Compares
/// all words, because a branch would be mispredicted half of the time.
fn last_not_beyond(line: &[u64; LINE_WORDS], word: Word) -> usize {
    line[1..].iter().map(|&other| usize::from(other <= word.0)).sum()
}
