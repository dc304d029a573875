//! The ordered index of one table at one site: keys to the newest version of each row.
//!
//! A B+-tree in which the upper levels are immutable. A lookup walks down through nodes that never
//! change, so it needs neither locks nor validation until it reaches a leaf; a leaf that fills up is
//! replaced by two, and the path above it is copied, under one mutex per table:
//!
//! ```text
//!        root ──▶ ┌───────────────┐        split of leaf B          ┌────────────────┐ ◀── root
//!                 │ A │ B │ C     │   ──────────────────────▶       │ A │ B' │ B" │ C│
//!                 └─┬───┬───┬─────┘                                 └─┬───┬────┬───┬─┘
//!                   ▼   ▼   ▼                                         ▼   ▼    ▼   ▼
//!                   A   B   C     B is marked obsolete: whoever       A   B'   B"  C
//!                                 still holds it starts again
//! ```
//!
//! A path copy costs a few kilobytes of copying for every sixteen or more inserts. What it buys is
//! that the hot path is the short one: read-only walks over nodes that stay in the cache.
//!
//! **Leaves** hold up to 32 entries: a word and a pointer to the newest version. The word is the
//! first seven bytes of the key and its length (capped at 8), so that words order as keys do, and
//! keys of up to seven bytes are equal exactly if their words are. Only longer keys with equal words
//! are compared in full, which costs a trip to the row.
//!
//! **Readers of a leaf** use its sequence number: read, search, and check that the number is the
//! same. Replacing the pointer of an entry does not change the number, as either pointer is a correct
//! answer; moving entries does.
//!
//! **Invariants.** (1) A leaf covers the same keys until it is obsolete, but that it may grow when an
//! empty neighbour is unlinked. (2) Entries of a leaf are sorted by key, without duplicates. (3) A
//! pointer in a leaf changes only while its latch is held. (4) Nodes and leaves are freed after every
//! operation that could have seen them has ended ([`crate::epoch`]). (5) Whoever looks at rows without
//! holding the latch has a context that is pinned ([`crate::context`]), or rows could go under its
//! eyes: so they are read through contexts only. (6) Where the keys of a node begin is for its parent
//! to say: the node's own first separator may be too high, after its first child was unlinked.
//!
//! **Left out.** Merging half-empty leaves and nodes (empty ones are unlinked), shrinking the tree's
//! height, and prefix truncation: composite keys whose first seven bytes agree are compared through
//! the rows.

use crate::epoch::{Guard, flush};
use crate::heap::Heap;
use crate::row::{Row, prefetch, prefetch_all};
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Mutex, Ordering, fence, spin};
use isomer_design::{Key, KeyRange};
use std::ptr::{self, NonNull};
use std::sync::Arc;

const LEAF_ENTRIES: usize = 32;
/// Words that fill a cache line.
const LINE_WORDS: usize = 8;
const NODE_LINES: usize = 8;
const NODE_CHILDREN: usize = NODE_LINES * LINE_WORDS;

/// The first seven bytes of a key and its length, capped at 8: orders as the keys do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Word(u64);

impl Word {
    fn of(key: &[u8]) -> Word {
        let mut bytes = [0u8; 8];
        let count = key.len().min(7);
        bytes[..count].copy_from_slice(&key[..count]);
        bytes[7] = key.len().min(8) as u8;
        Word(u64::from_be_bytes(bytes))
    }

    /// True if equal words mean equal keys.
    fn is_whole_key(self) -> bool {
        self.0 as u8 <= 7
    }
}

// ---------------------------------------------------------------------------------------- leaves

/// An operation holds the latch: pointers may change.
const LATCHED: u64 = 1;
/// Entries are being moved: readers must wait.
const MOVING: u64 = 2;
/// The leaf was replaced: start again from the root.
const OBSOLETE: u64 = 4;
const SEQUENCE_STEP: u64 = 8;

#[repr(C, align(64))]
struct Leaf {
    /// Sequence number and the three bits above.
    state: AtomicU64,
    count: AtomicU32,
    words: [AtomicU64; LEAF_ENTRIES],
    rows: [AtomicPtr<Row>; LEAF_ENTRIES],
}

/// Where a key is, or would be inserted, in a leaf.
type Position = Result<usize, usize>;

impl Leaf {
    fn allocate(heap: &Heap, entries: &[(u64, *mut Row)]) -> NonNull<Leaf> {
        let slot = heap.allocate(0, size_of::<Leaf>()).cast::<Leaf>();
        let leaf = Leaf {
            state: AtomicU64::new(0),
            count: AtomicU32::new(entries.len() as u32),
            words: std::array::from_fn(|i| AtomicU64::new(entries.get(i).map_or(0, |e| e.0))),
            rows: std::array::from_fn(|i| {
                AtomicPtr::new(entries.get(i).map_or(ptr::null_mut(), |e| e.1))
            }),
        };
        // SAFETY: the slot is large enough, aligned to 64 bytes as its size is a multiple of 64, and
        // not yet shared.
        unsafe { slot.write(leaf) };
        slot
    }

    fn count(&self) -> usize {
        // A torn read under a racing move is possible and caught by the sequence number; clamp, so
        // that it cannot index out of bounds before that.
        (self.count.load(Ordering::Relaxed) as usize).min(LEAF_ENTRIES)
    }

    fn row(&self, at: usize) -> *mut Row {
        self.rows[at].load(Ordering::Acquire)
    }

    /// As `search`, but looks at one place first.
    fn search_from(&self, at: usize, word: Word, key: &[u8]) -> Position {
        let there = at < self.count() && self.words[at].load(Ordering::Relaxed) == word.0;
        if there && word.is_whole_key() { Ok(at) } else { self.search(word, key) }
    }

    /// Binary search. `Err` is where the key would be inserted.
    fn search(&self, word: Word, key: &[u8]) -> Position {
        let count = self.count();
        // Halving without branches: which way a key goes is anybody's guess.
        let (mut low, mut rest) = (0, count);
        while rest > 1 {
            let half = rest / 2;
            let less = self.words[low + half - 1].load(Ordering::Relaxed) < word.0;
            low += if less { half } else { 0 };
            rest -= half;
        }
        if rest == 1 && self.words[low].load(Ordering::Relaxed) < word.0 {
            low += 1;
        }
        let found = |at: usize| at < count && self.words[at].load(Ordering::Relaxed) == word.0;
        if !found(low) {
            return Err(low);
        }
        if word.is_whole_key() {
            return Ok(low);
        }
        self.search_long(found, low, key)
    }

    /// Among entries with equal words, from `at` on, compares whole keys.
    #[cold]
    fn search_long(&self, found: impl Fn(usize) -> bool, mut at: usize, key: &[u8]) -> Position {
        while found(at) {
            // SAFETY: rows reachable from a leaf are alive while the caller's guard is; a null can
            // only be seen during a move, and the caller then tries again.
            let Some(row) = (unsafe { self.row(at).as_ref() }) else { return Err(at) };
            match row.key().cmp(key) {
                std::cmp::Ordering::Less => at += 1,
                std::cmp::Ordering::Equal => return Ok(at),
                std::cmp::Ordering::Greater => return Err(at),
            }
        }
        Err(at)
    }

    /// Runs `read` until it was not disturbed by a move; `None` if the leaf is obsolete.
    fn read<T>(&self, mut read: impl FnMut(&Leaf) -> T) -> Option<T> {
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
    fn latch(&self) -> Option<Latched<'_>> {
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
struct Latched<'a> {
    leaf: &'a Leaf,
}

impl Latched<'_> {
    /// Lets `change` move entries, with readers kept out meanwhile.
    fn moving(&self, change: impl FnOnce(&Leaf)) {
        let state = self.leaf.state.load(Ordering::Relaxed);
        self.leaf.state.store(state | MOVING, Ordering::Relaxed);
        fence(Ordering::Release);
        change(self.leaf);
        self.leaf.state.store((state + SEQUENCE_STEP) & !MOVING, Ordering::Release);
    }

    fn insert(&self, at: usize, word: Word, row: *mut Row) {
        self.moving(|leaf| {
            let count = leaf.count();
            for i in (at..count).rev() {
                leaf.words[i + 1].store(leaf.words[i].load(Ordering::Relaxed), Ordering::Relaxed);
                leaf.rows[i + 1].store(leaf.rows[i].load(Ordering::Relaxed), Ordering::Relaxed);
            }
            leaf.words[at].store(word.0, Ordering::Relaxed);
            leaf.rows[at].store(row, Ordering::Release);
            leaf.count.store(count as u32 + 1, Ordering::Relaxed);
        });
    }

    fn remove(&self, at: usize) {
        self.moving(|leaf| {
            let count = leaf.count();
            for i in at + 1..count {
                leaf.words[i - 1].store(leaf.words[i].load(Ordering::Relaxed), Ordering::Relaxed);
                leaf.rows[i - 1].store(leaf.rows[i].load(Ordering::Relaxed), Ordering::Relaxed);
            }
            // Behind the last entry there is always null: a reader that races with a move and sees a
            // count too large then finds nothing, rather than a row that may be gone.
            leaf.rows[count - 1].store(ptr::null_mut(), Ordering::Relaxed);
            leaf.count.store(count as u32 - 1, Ordering::Relaxed);
        });
    }

    fn entries(&self) -> Vec<(u64, *mut Row)> {
        (0..self.leaf.count())
            .map(|i| {
                let word = self.leaf.words[i].load(Ordering::Relaxed);
                (word, self.leaf.rows[i].load(Ordering::Relaxed))
            })
            .collect()
    }

    /// Marks the leaf as replaced; every other user starts again from the root.
    fn retire(self) {
        self.leaf.state.fetch_or(OBSOLETE, Ordering::Release);
    }
}

impl Drop for Latched<'_> {
    fn drop(&mut self) {
        // Only who holds the latch writes the state.
        let state = self.leaf.state.load(Ordering::Relaxed);
        self.leaf.state.store(state & !LATCHED, Ordering::Release);
    }
}

// ----------------------------------------------------------------------------------- upper levels

/// An immutable inner node: child `i` covers the keys from separator `i` (child 0: from the node's
/// own lower bound) up to separator `i + 1`.
///
/// A search reads three cache lines, whatever the node's size: the heads, the line of words that they
/// name, and the child. Words behind the last one are the greatest there is.
#[repr(C, align(64))]
struct Node {
    /// The first word of each line of words.
    heads: [u64; NODE_LINES],
    words: [[u64; LINE_WORDS]; NODE_LINES],
    children: [Child; NODE_CHILDREN],
    count: usize,
    /// The whole separators; consulted only when words are equal and do not hold the whole key.
    separators: Box<[Key]>,
}

/// A leaf at height 0, a node above it.
#[derive(Clone, Copy)]
union Child {
    leaf: NonNull<Leaf>,
    node: NonNull<Node>,
}

/// A way down on which it has come to `child`.
struct Lane {
    child: Child,
    height: usize,
    word: Word,
    /// The line, then the place of the next child.
    at: usize,
}

struct Root {
    height: usize,
    child: Child,
}

impl Node {
    fn allocate(heap: &Heap, entries: Vec<(Key, Child)>) -> NonNull<Node> {
        let last = entries.len() - 1;
        let word = |i: usize| match i {
            // The first child covers whatever comes before, too.
            0 => 0,
            _ => entries.get(i).map_or(u64::MAX, |(key, _)| Word::of(key).0),
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
        // SAFETY: the slot is large enough, aligned to 64 bytes as its size is a multiple of 64, and
        // not yet shared.
        unsafe { slot.write(node) };
        slot
    }

    /// # Safety
    /// The node came from `allocate` on this heap, and nobody can reach it any more.
    unsafe fn free(heap: &Heap, node: NonNull<Node>) {
        // SAFETY: the caller's promise.
        unsafe {
            node.drop_in_place();
            heap.free(0, node.cast(), size_of::<Node>());
        }
    }

    /// The child that covers `key`.
    fn child_of(&self, word: Word, key: &[u8]) -> usize {
        self.child_in(self.line_of(word), word, key)
    }

    /// The same, given what [`Node::line_of`] said.
    fn child_in(&self, line: usize, word: Word, key: &[u8]) -> usize {
        let mut at = self.last_in(line, word);
        if !word.is_whole_key() {
            // Of the separators with an equal word, those beyond the key do not count.
            while at > 0 && self.word(at) == word.0 && self.separators[at].as_bytes() > key {
                at -= 1;
            }
        }
        at
    }

    /// The line of words in which a search goes on.
    fn line_of(&self, word: Word) -> usize {
        last_not_beyond(&self.heads, word)
    }

    /// The last place in a line whose word is not beyond `word`.
    fn last_in(&self, line: usize, word: Word) -> usize {
        line * LINE_WORDS + last_not_beyond(&self.words[line], word)
    }

    fn word(&self, at: usize) -> u64 {
        self.words[at / LINE_WORDS][at % LINE_WORDS]
    }

    /// The node's entries with child `at` replaced.
    fn replaced(&self, at: usize, with: Vec<(Key, Child)>) -> Vec<(Key, Child)> {
        let children = self.children[..self.count].iter().copied();
        let mut entries: Vec<(Key, Child)> =
            self.separators.iter().cloned().zip(children).collect();
        entries.splice(at..=at, with);
        entries
    }
}

/// The last of a line's words that is not beyond `word`; the first one never is. Looks at all of them:
/// which way a branch would go is anybody's guess.
fn last_not_beyond(line: &[u64; LINE_WORDS], word: Word) -> usize {
    line[1..].iter().map(|&other| usize::from(other <= word.0)).sum()
}

/// The way from the root to a leaf: nodes and the child taken in each.
struct Path<'g> {
    steps: Vec<(NonNull<Node>, usize)>,
    leaf: &'g Leaf,
}

impl Path<'_> {
    /// Where the keys of the path's node at `depth` begin.
    fn lower_bound(&self, depth: usize) -> Key {
        let Some(above) = depth.checked_sub(1) else { return Key::min() };
        let (parent, at) = self.steps[above];
        // SAFETY: nodes on a path are freed after the guard it was found under.
        unsafe { parent.as_ref() }.separators[at].clone()
    }
}

// ------------------------------------------------------------------------------------------ index

/// See the [module documentation](self).
pub struct Index {
    root: AtomicPtr<Root>,
    /// Held while the upper levels change.
    shape: Mutex<()>,
    heap: Arc<Heap>,
}

/// Room for the pointers of one leaf.
pub(crate) type LeafRows = [*mut Row; LEAF_ENTRIES];

// SAFETY: all shared state is behind atomics, latches and the shape mutex, by the protocol above.
unsafe impl Send for Index {}
// SAFETY: as above.
unsafe impl Sync for Index {}

/// Where a key is in an index: the leaf, remembered so that the next use of the key need not walk
/// again. It is good as long as the guard it was found under.
#[derive(Clone, Copy)]
pub struct Spot<'g> {
    index: &'g Index,
    leaf: &'g Leaf,
    word: Word,
    /// Where in the leaf the key was last; entries move, so this is where to look first.
    at: usize,
}

impl<'g> Spot<'g> {
    pub(crate) fn is_in(&self, index: &Index) -> bool {
        ptr::eq(self.index, index)
    }

    pub(crate) fn index(&self) -> &'g Index {
        self.index
    }

    /// Asks the cache for the newest version of `key`, whose leaf was asked for by [`Index::spot`].
    ///
    /// # Safety
    /// The caller's context is pinned or held.
    pub(crate) unsafe fn warm(&mut self, key: &[u8]) {
        if let Some(Ok(at)) = self.leaf.read(|leaf| leaf.search(self.word, key)) {
            Row::prefetch(self.leaf.rows[at].load(Ordering::Relaxed));
            self.at = at;
        }
    }

    /// The newest version of `key`, deletions included.
    ///
    /// # Safety
    /// The caller's context is pinned or held for as long as the row is used.
    pub(crate) unsafe fn newest(&mut self, key: &[u8], guard: &'g Guard) -> Option<&'g Row> {
        for round in 0.. {
            let find =
                |leaf: &Leaf| leaf.search_from(self.at, self.word, key).ok().map(|at| leaf.row(at));
            match self.leaf.read(find) {
                // SAFETY: a pinned context keeps the rows alive that it meets.
                Some(row) => return row.and_then(|row| unsafe { row.as_ref() }),
                None => self.find_again(key, guard, round),
            }
        }
        unreachable!("a leaf that is obsolete leaves the tree")
    }

    /// Makes `row` the newest version of its key; returns the version it supersedes.
    pub(crate) fn install(&mut self, row: NonNull<Row>, guard: &'g Guard) -> Option<NonNull<Row>> {
        // SAFETY: the caller hands over a row that is alive and not yet linked.
        let new = unsafe { row.as_ref() };
        for round in 0.. {
            if let Some(latched) = self.leaf.latch() {
                let leaf = latched.leaf;
                match leaf.search_from(self.at, self.word, new.key()) {
                    Ok(at) => {
                        let old = leaf.row(at);
                        new.set_older(old);
                        leaf.rows[at].store(row.as_ptr(), Ordering::Release);
                        return NonNull::new(old);
                    }
                    Err(at) if leaf.count() < LEAF_ENTRIES => {
                        latched.insert(at, self.word, row.as_ptr());
                        return None;
                    }
                    Err(_) => {
                        drop(latched);
                        self.index.split(self.word, new.key(), guard);
                    }
                }
            }
            self.find_again(new.key(), guard, round);
        }
        unreachable!("a leaf has room after a few splits")
    }

    /// Walks again, as the leaf was replaced; it may be in the tree for a moment more.
    fn find_again(&mut self, key: &[u8], guard: &'g Guard, round: u32) {
        if round > 0 {
            spin(round);
        }
        *self = self.index.spot(key, guard);
    }
}

/// What [`Index::alter`] does with the entry of a key.
pub(crate) enum Alter {
    Keep,
    /// Takes the key out of the index.
    Remove,
}

impl Index {
    pub(crate) fn new(heap: Arc<Heap>) -> Index {
        let leaf = Leaf::allocate(&heap, &[]);
        let root = Box::new(Root { height: 0, child: Child { leaf } });
        Index { root: AtomicPtr::new(Box::into_raw(root)), shape: Mutex::new(()), heap }
    }

    /// Finds the leaf that covers `key`, and asks the cache for it.
    pub fn spot<'g>(&'g self, key: &[u8], guard: &'g Guard) -> Spot<'g> {
        let word = Word::of(key);
        Spot { index: self, leaf: self.walk(word, key, guard), word, at: 0 }
    }

    /// Rows of this index live in `heap`.
    pub(crate) fn is_in(&self, heap: &Arc<Heap>) -> bool {
        Arc::ptr_eq(&self.heap, heap)
    }

    /// Shows `change` the newest version of `key` with the leaf latched, so that nobody else
    /// installs or collects versions of it meanwhile.
    pub(crate) fn alter(&self, key: &[u8], guard: &Guard, change: impl FnOnce(&Row) -> Alter) {
        let latched = self.latch(key, guard);
        let Ok(at) = latched.leaf.search(Word::of(key), key) else { return };
        // SAFETY: linked rows are alive; the latch keeps this one linked.
        let Some(row) = (unsafe { latched.leaf.row(at).as_ref() }) else { return };
        if let Alter::Remove = change(row) {
            latched.remove(at);
            let emptied = latched.leaf.count() == 0;
            drop(latched);
            if emptied {
                self.unlink_empty(key, guard);
            }
        }
    }

    fn latch<'g>(&self, key: &[u8], guard: &'g Guard) -> Latched<'g> {
        for round in 0.. {
            if let Some(latched) = self.walk(Word::of(key), key, guard).latch() {
                return latched;
            }
            spin(round);
        }
        unreachable!("a leaf that is obsolete leaves the tree")
    }

    /// Copies pointers to the newest versions (deletions included) of the first keys of `range` to
    /// `rows`: as many as one leaf holds. Returns how many, and where the rest of the range begins.
    ///
    /// # Safety
    /// The caller's context is pinned or held.
    pub(crate) unsafe fn first_rows(
        &self,
        range: &KeyRange,
        guard: &Guard,
        rows: &mut LeafRows,
    ) -> (usize, Option<Key>) {
        for round in 0.. {
            let (leaf, bound) = self.walk_with_bound(&range.start, guard);
            if let Some(count) = leaf.read(|leaf| leaf.copy_from(&range.start, rows)) {
                let bound = bound.filter(|bound| range.is_below_end(bound));
                let end = bound.as_ref().or(range.end.as_ref());
                // The leaf may hold keys behind the end, and behind the bound if it has grown.
                // SAFETY: a pinned context keeps the rows alive that it meets.
                let behind =
                    |row: &*mut Row| end.is_some_and(|end| unsafe { &**row }.key() >= &**end);
                let within =
                    count - rows[..count].iter().rev().take_while(|row| behind(row)).count();
                return (within, bound);
            }
            spin(round);
        }
        unreachable!("a leaf that is obsolete leaves the tree")
    }

    /// Takes a key out of the index, for good, if `condition` holds for its newest version. Returns
    /// that version, which is now the caller's to free.
    pub(crate) fn remove_if(
        &self,
        key: &[u8],
        guard: &Guard,
        condition: impl FnOnce(&Row) -> bool,
    ) -> Option<NonNull<Row>> {
        let mut removed = None;
        self.alter(key, guard, |newest| {
            if !condition(newest) {
                return Alter::Keep;
            }
            removed = Some(NonNull::from(newest));
            Alter::Remove
        });
        removed
    }

    /// # Safety
    /// Nobody can reach `row` any more, and the caller owns it.
    pub(crate) unsafe fn free_row(&self, context: usize, row: NonNull<Row>) {
        // SAFETY: the caller's promise; rows of this index are allocated on its heap.
        unsafe { Row::free(&self.heap, context, row) };
    }

    /// Frees `row`, which was unlinked, once the operations under way have ended.
    ///
    /// # Safety
    /// The caller owns `row`, and nobody can come to look at it any more.
    pub(crate) unsafe fn defer_free_row(&self, context: usize, row: NonNull<Row>, guard: &Guard) {
        let heap = self.heap.clone();
        // SAFETY: the caller's promise; the guard's readers go first.
        unsafe { guard.defer(move || Row::free(&heap, context, row)) };
    }

    fn root<'g>(&self, _guard: &'g Guard) -> &'g Root {
        // SAFETY: the root is never null, and replaced roots are freed after the guard.
        unsafe { &*self.root.load(Ordering::Acquire) }
    }

    fn walk<'g>(&self, word: Word, key: &[u8], guard: &'g Guard) -> &'g Leaf {
        let root = self.root(guard);
        let mut child = root.child;
        for _ in 0..root.height {
            // SAFETY: above height 0 children are nodes; they are freed after the guard.
            let node = unsafe { child.node.as_ref() };
            child = node.children[node.child_of(word, key)];
        }
        // SAFETY: at height 0 the child is a leaf; it is freed after the guard.
        let leaf: &'g Leaf = unsafe { child.leaf.as_ref() };
        prefetch_all(leaf);
        leaf
    }

    /// Finds the leaves of many keys, and asks the cache for them. Goes down all ways together, one
    /// step each in turn, so that the trips to memory for one key overlap with those for the others.
    pub(crate) fn spots<'g>(
        keys: &[(&'g Index, &[u8])],
        guard: &'g Guard,
        spots: &mut Vec<Spot<'g>>,
    ) {
        let mut lanes: Vec<Lane> = Vec::with_capacity(keys.len());
        lanes.extend(keys.iter().map(|(index, key)| {
            let root = index.root(guard);
            Lane { child: root.child, height: root.height, word: Word::of(key), at: 0 }
        }));
        loop {
            let mut going = false;
            for lane in lanes.iter_mut().filter(|lane| lane.height > 0) {
                // SAFETY: above height 0 children are nodes; they are freed after the guard.
                let node = unsafe { lane.child.node.as_ref() };
                lane.at = node.line_of(lane.word);
                prefetch(ptr::from_ref(&node.words[lane.at]).cast());
                going = true;
            }
            if !going {
                break;
            }
            for (lane, (_, key)) in lanes.iter_mut().zip(keys).filter(|(lane, _)| lane.height > 0) {
                // SAFETY: as above.
                let node = unsafe { lane.child.node.as_ref() };
                lane.at = node.child_in(lane.at, lane.word, key);
                prefetch(ptr::from_ref(&node.children[lane.at]).cast());
            }
            for lane in lanes.iter_mut().filter(|lane| lane.height > 0) {
                // SAFETY: as above.
                lane.child = unsafe { lane.child.node.as_ref() }.children[lane.at];
                lane.height -= 1;
                match lane.height {
                    // SAFETY: at height 0 the child is a leaf; it is freed after the guard.
                    0 => prefetch_all(unsafe { lane.child.leaf.as_ref() }),
                    // SAFETY: above, it is a node.
                    _ => prefetch(ptr::from_ref(unsafe { &lane.child.node.as_ref().heads }).cast()),
                }
            }
        }
        spots.extend(lanes.iter().zip(keys).map(|(lane, (index, _))| Spot {
            index,
            // SAFETY: the way has come down to height 0.
            leaf: unsafe { lane.child.leaf.as_ref() },
            word: lane.word,
            at: 0,
        }));
    }

    /// As `walk`, and where the leaf's keys end.
    fn walk_with_bound<'g>(&self, key: &[u8], guard: &'g Guard) -> (&'g Leaf, Option<Key>) {
        let path = self.path(Word::of(key), key, guard);
        let bound = path.steps.iter().rev().find_map(|(node, at)| {
            // SAFETY: nodes on a path are freed after the guard.
            unsafe { node.as_ref() }.separators.get(at + 1)
        });
        (path.leaf, bound.cloned())
    }

    fn path<'g>(&self, word: Word, key: &[u8], guard: &'g Guard) -> Path<'g> {
        let root = self.root(guard);
        let mut child = root.child;
        let mut steps = Vec::with_capacity(root.height);
        for _ in 0..root.height {
            // SAFETY: above height 0 children are nodes; they are freed after the guard.
            let (pointer, node) = unsafe { (child.node, child.node.as_ref()) };
            let at = node.child_of(word, key);
            steps.push((pointer, at));
            child = node.children[at];
        }
        // SAFETY: at height 0 the child is a leaf; it is freed after the guard.
        Path { steps, leaf: unsafe { child.leaf.as_ref() } }
    }

    /// Splits the leaf that covers `key`, if it is still full.
    fn split(&self, word: Word, key: &[u8], guard: &Guard) {
        let _shape = self.shape.lock();
        let path = self.path(word, key, guard);
        let Some(latched) = path.leaf.latch() else { return };
        if latched.leaf.count() < LEAF_ENTRIES {
            return;
        }
        let entries = latched.entries();
        // Keys that arrive in order leave full leaves behind them.
        let appending = latched.leaf.search(word, key) == Err(LEAF_ENTRIES);
        let middle = if appending { LEAF_ENTRIES - 1 } else { LEAF_ENTRIES / 2 };
        // SAFETY: linked rows are alive while the latch is held.
        let separator = Key::from_bytes(unsafe { &*entries[middle].1 }.key());
        let left = Child { leaf: Leaf::allocate(&self.heap, &entries[..middle]) };
        let right = Child { leaf: Leaf::allocate(&self.heap, &entries[middle..]) };
        latched.retire();
        self.replace(&path, |lower| vec![(lower, left), (separator, right)], guard);
        self.defer_free_leaf(path.leaf, guard);
        guard.flush_some();
    }

    /// Takes an empty leaf out of the tree, unless it is the only one, and the nodes above it that
    /// have no other child.
    fn unlink_empty(&self, key: &[u8], guard: &Guard) {
        let _shape = self.shape.lock();
        let path = self.path(Word::of(key), key, guard);
        // SAFETY: nodes on a path are freed after the guard.
        if path.steps.iter().all(|(node, _)| unsafe { node.as_ref() }.count == 1) {
            return;
        }
        let Some(latched) = path.leaf.latch() else { return };
        if latched.leaf.count() > 0 {
            return;
        }
        latched.retire();
        self.replace(&path, |_| Vec::new(), guard);
        self.defer_free_leaf(path.leaf, guard);
    }

    /// Copies the path with its leaf replaced, and makes the copy the tree.
    fn replace(&self, path: &Path<'_>, with: impl FnOnce(Key) -> Vec<(Key, Child)>, guard: &Guard) {
        let old_root = self.root.load(Ordering::Relaxed);
        // SAFETY: the shape mutex is held, so the root is the current one and alive.
        let height = unsafe { &*old_root }.height;
        let mut changed: Option<Vec<(Key, Child)>> = None;
        let mut with = Some(with);
        for (depth, (node, at)) in path.steps.iter().enumerate().rev() {
            // SAFETY: nodes on a path are freed after the guard.
            let old = unsafe { node.as_ref() };
            let below = changed.take().unwrap_or_else(|| {
                (with.take().expect("the leaf is replaced once"))(old.separators[*at].clone())
            });
            let own_lower = path.lower_bound(depth);
            changed = Some(self.nodes(own_lower, old.replaced(*at, below)));
            self.defer_free_node(*node, guard);
        }
        let top = changed.unwrap_or_else(|| (with.take().expect("a lone leaf"))(Key::min()));
        let root = match <[(Key, Child); 1]>::try_from(top) {
            Ok([(_, child)]) => Root { height, child },
            Err(top) => {
                Root { height: height + 1, child: Child { node: Node::allocate(&self.heap, top) } }
            }
        };
        self.root.store(Box::into_raw(Box::new(root)), Ordering::Release);
        // SAFETY: nobody can reach the old root any more once the guard's readers have gone.
        unsafe { guard.defer(move || drop(Box::from_raw(old_root))) };
    }

    /// Packs entries into nodes: none, one, or two if they are too many; each under its lower bound.
    fn nodes(&self, lower: Key, mut entries: Vec<(Key, Child)>) -> Vec<(Key, Child)> {
        if entries.is_empty() {
            return entries;
        }
        if entries.len() <= NODE_CHILDREN {
            return vec![(lower, Child { node: Node::allocate(&self.heap, entries) })];
        }
        let upper = entries.split_off(entries.len() / 2);
        let separator = upper[0].0.clone();
        vec![
            (lower, Child { node: Node::allocate(&self.heap, entries) }),
            (separator, Child { node: Node::allocate(&self.heap, upper) }),
        ]
    }

    fn defer_free_node(&self, node: NonNull<Node>, guard: &Guard) {
        let heap = self.heap.clone();
        // SAFETY: the node leaves the tree with this change of shape, and is freed after its readers.
        unsafe { guard.defer(move || Node::free(&heap, node)) };
    }

    fn defer_free_leaf(&self, leaf: &Leaf, guard: &Guard) {
        let (heap, leaf) = (self.heap.clone(), NonNull::from(leaf).cast::<u8>());
        // SAFETY: the leaf is obsolete and out of the tree, and is freed after its readers.
        unsafe { guard.defer(move || heap.free(0, leaf, size_of::<Leaf>())) };
    }
}

impl Leaf {
    /// Copies the pointers of the entries from `key` on; returns how many.
    fn copy_from(&self, key: &[u8], rows: &mut LeafRows) -> usize {
        let (Ok(at) | Err(at)) = self.search(Word::of(key), key);
        let count = self.count();
        for i in at..count {
            rows[i - at] = self.row(i);
        }
        count.saturating_sub(at)
    }
}

impl Drop for Index {
    /// Frees the nodes, which own separators. Leaves and rows go with the heap.
    fn drop(&mut self) {
        flush();
        let root = self.root.load(Ordering::Relaxed);
        // SAFETY: the index is dropped, so nobody else uses the tree.
        unsafe {
            self.drop_child((*root).child, (*root).height);
            drop(Box::from_raw(root));
        }
    }
}

impl Index {
    /// # Safety
    /// Called once per child, from the drop of the index.
    unsafe fn drop_child(&self, child: Child, height: usize) {
        if height == 0 {
            return; // Leaves and rows live in the heap's regions, which go with it.
        }
        // SAFETY: above height 0 children are nodes.
        let node = unsafe { child.node };
        // SAFETY: nobody else uses the tree.
        let (children, count) = unsafe { (node.as_ref().children, node.as_ref().count) };
        for &child in &children[..count] {
            // SAFETY: each child has one parent.
            unsafe { self.drop_child(child, height - 1) };
        }
        // SAFETY: the children are done, and nobody else uses the node.
        unsafe { Node::free(&self.heap, node) };
    }
}
