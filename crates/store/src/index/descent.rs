//! Looking up many keys at once.
//!
//! A lookup is a chain of cache misses, three for a node or leaf, and each decides the address of
//! the next one. A processor that looks up one key waits most of the time. So many keys descend
//! together: one step of each in turn, and each step only prefetches the line that the key's next
//! step reads.
//!
//! ```text
//!            key a          key b          key c
//!   heads    fetch          fetch          fetch        when c has started its fetch,
//!   words    read, fetch    read, fetch    read, fetch  that of a has arrived
//!   child    read, fetch    read, fetch    read, fetch
//!   heads    ...
//! ```

use super::leaf::{Leaf, Word};
use super::node::Child;
use super::{Index, Spot};
use crate::epoch::Guard;
use smallvec::SmallVec;

/// The state of one key's descent.
struct Lane<'g> {
    child: Child,
    height: usize,
    word: Word,
    /// The line, then the index of the entry, in the node or leaf.
    at: usize,
    index: &'g Index,
}

/// The leaves of keys, with room for a small footprint.
pub type Spots<'g> = SmallVec<[Spot<'g>; 4]>;

impl Index {
    /// Finds the leaves of many keys, each in its index, and prefetches their rows.
    pub fn spots<'g, 'k>(
        keys: impl Iterator<Item = (&'g Index, &'k [u8])> + Clone,
        guard: &'g Guard,
    ) -> Spots<'g> {
        let mut lanes: SmallVec<[Lane<'g>; 4]> = keys
            .clone()
            .map(|(index, key)| {
                let root = index.root(guard);
                Lane { child: root.child, height: root.height, word: Word::of(key), at: 0, index }
            })
            .collect();
        while lanes.iter().any(|lane| lane.height > 0) {
            lanes.iter_mut().for_each(Lane::words_of_node);
            lanes.iter_mut().zip(keys.clone()).for_each(|(lane, (_, key))| lane.child_of_node(key));
            lanes.iter_mut().for_each(Lane::down);
        }
        lanes.iter_mut().for_each(|lane| lane.at = lane.leaf().warm_words(lane.word));
        lanes.iter_mut().for_each(|lane| lane.at = lane.leaf().warm_pointer(lane.at, lane.word));
        lanes.iter().for_each(|lane| lane.leaf().warm_row(lane.at));
        let spot = |lane: &Lane<'g>| Spot {
            index: lane.index,
            leaf: lane.leaf(),
            word: lane.word,
            at: lane.at,
        };
        lanes.iter().map(spot).collect()
    }
}

impl<'g> Lane<'g> {
    fn words_of_node(&mut self) {
        if self.height > 0 {
            // SAFETY: above height 0 children are nodes; they are freed after the guard.
            self.at = unsafe { self.child.node.as_ref() }.warm_words(self.word);
        }
    }

    fn child_of_node(&mut self, key: &[u8]) {
        if self.height > 0 {
            // SAFETY: as above.
            self.at = unsafe { self.child.node.as_ref() }.warm_child(self.at, self.word, key);
        }
    }

    fn down(&mut self) {
        if self.height == 0 {
            return;
        }
        // SAFETY: as above.
        self.child = unsafe { self.child.node.as_ref() }.children[self.at];
        self.height -= 1;
        match self.height {
            0 => self.leaf().warm_heads(),
            // SAFETY: as above.
            _ => unsafe { self.child.node.as_ref() }.warm_heads(),
        }
    }

    /// The leaf in which the descent ended.
    fn leaf(&self) -> &'g Leaf {
        assert_eq!(self.height, 0, "leaves are at the bottom");
        // SAFETY: at height 0 the child is a leaf; it is freed after the guard.
        unsafe { self.child.leaf.as_ref() }
    }
}
