//! The ordered index of one table at one site: keys to the newest version of each row.
//!
//! A B+-tree in which the upper levels are immutable. A lookup walks down through nodes that never
//! change, so it needs neither locks nor validation until it reaches a leaf. A full leaf is
//! replaced by two, and the path above it is copied, under one mutex per table:
//!
//! ```text
//!        root ──▶ ┌───────────────┐        split of leaf B          ┌────────────────┐ ◀── root
//!                 │ A │ B │ C     │   ──────────────────────▶       │ A │ B' │ B" │ C│
//!                 └─┬───┬───┬─────┘                                 └─┬───┬────┬───┬─┘
//!                   ▼   ▼   ▼                                         ▼   ▼    ▼   ▼
//!                   A   B   C     B is marked obsolete: its users     A   B'   B"  C
//!                                 start again from the root
//! ```
//!
//! A path copy costs a few kilobytes of copying for every sixteen or more inserts. In return the
//! frequent operations are the cheap ones: read-only walks over nodes that stay in the cache.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`leaf`] | entries, how readers and writers share them, and the words of keys |
//! | [`node`] | the upper levels |
//! | [`descent`] | looking up many keys at once |
//!
//! **Words.** Leaves and nodes search words: the first seven bytes of a key and its length (capped
//! at 8). Words order as keys do, and keys of up to seven bytes are equal exactly if their words
//! are. Only longer keys with equal words are compared in full, which costs an access to the row.
//!
//! **Invariants.** (1) A leaf covers the same keys until it is obsolete, except that its range
//! grows when an empty neighbour is unlinked. (2) Entries of a leaf are sorted by key, without
//! duplicates. (3) A pointer in a leaf changes only while its latch is held. (4) Nodes and leaves
//! are freed after every operation that could have seen them has ended ([`crate::epoch`]). (5) An
//! operation that accesses rows without the latch has a pinned context ([`crate::context`]),
//! because rows may be freed otherwise. So rows are read through contexts only. (6) The parent
//! defines where the keys of a node begin: the node's own first separator may be too high, after
//! its first child was unlinked.
//!
//! **Left out.** Merging half-empty leaves and nodes (empty ones are unlinked), reducing the height
//! of the tree, and prefix truncation: composite keys whose first seven bytes agree are compared
//! through the rows.

use crate::epoch::{Guard, flush};
use crate::heap::Heap;
use crate::row::Row;
use crate::sync::{AtomicPtr, Mutex, Ordering, spin};
use isomer_design::{Direction, Key, KeyRange};
use leaf::{LEAF_ENTRIES, Latched, Leaf, Word};
use node::{Child, NODE_CHILDREN, Node};
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::Arc;

mod descent;
mod leaf;
mod node;

pub use descent::Spots;
pub(crate) use leaf::LeafRows;

struct Root {
    height: usize,
    child: Child,
}

/// The path from the root to a leaf: nodes, and the number of the child taken in each.
struct Path<'g> {
    steps: Vec<(NonNull<Node>, usize)>,
    leaf: &'g Leaf,
}

impl Path<'_> {
    /// The lower bound of the keys of the path's node at `depth`.
    fn lower_bound(&self, depth: usize) -> Key {
        let Some(above) = depth.checked_sub(1) else { return Key::min() };
        let (parent, at) = self.steps[above];
        // SAFETY: nodes on a path are freed after the guard under which the path was found.
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

// SAFETY: all shared state is behind atomics, latches and the shape mutex, by the protocol above.
unsafe impl Send for Index {}
// SAFETY: as above.
unsafe impl Sync for Index {}

/// The place of a key in an index: the leaf, kept so that the next use of the key need not walk
/// down again. It is valid while the guard lives under which it was found.
#[derive(Clone, Copy)]
pub struct Spot<'g> {
    index: &'g Index,
    leaf: &'g Leaf,
    word: Word,
    /// The key's last known place in the leaf, where the search starts, because entries move.
    at: usize,
}

impl<'g> Spot<'g> {
    pub(crate) fn is_in(&self, index: &Index) -> bool {
        ptr::eq(self.index, index)
    }

    pub(crate) fn index(&self) -> &'g Index {
        self.index
    }

    /// The newest version of `key`, deletions included.
    ///
    /// # Safety
    /// The caller's context is pinned or has a hold for as long as the row is used.
    pub(crate) unsafe fn newest(&mut self, key: &[u8], guard: &'g Guard) -> Option<&'g Row> {
        for round in 0.. {
            let find =
                |leaf: &Leaf| leaf.search_from(self.at, self.word, key).ok().map(|at| leaf.row(at));
            match self.leaf.read(find) {
                // SAFETY: a pinned context keeps the rows alive that it accesses.
                Some(row) => return row.and_then(|row| unsafe { row.as_ref() }),
                None => self.find_again(key, guard, round),
            }
        }
        unreachable!("a leaf that is obsolete leaves the tree")
    }

    /// Makes `row` the newest version of its key. Returns the version it supersedes.
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
                        latched.point(at, row.as_ptr());
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

    /// Walks down again after the leaf was replaced. The old leaf may stay in the tree for a
    /// moment.
    fn find_again(&mut self, key: &[u8], guard: &'g Guard, round: u32) {
        if round > 0 {
            spin(round);
        }
        *self = self.index.spot(key, guard);
    }
}

/// The effect of [`Index::alter`] on the entry of a key.
pub(crate) enum Alter {
    Keep,
    /// Removes the key from the index.
    Remove,
}

impl Index {
    pub(crate) fn new(heap: Arc<Heap>) -> Index {
        let leaf = Leaf::allocate(&heap, &[]);
        let root = Box::new(Root { height: 0, child: Child { leaf } });
        Index { root: AtomicPtr::new(Box::into_raw(root)), shape: Mutex::new(()), heap }
    }

    /// Finds the leaf that covers `key`.
    pub fn spot<'g>(&'g self, key: &[u8], guard: &'g Guard) -> Spot<'g> {
        let word = Word::of(key);
        Spot { index: self, leaf: self.walk(word, key, guard), word, at: 0 }
    }

    /// True if the rows of this index are allocated in `heap`.
    pub(crate) fn is_in(&self, heap: &Arc<Heap>) -> bool {
        Arc::ptr_eq(&self.heap, heap)
    }

    /// Calls `change` with the newest version of `key` and the leaf latched, so that no other
    /// operation installs or collects versions of that key meanwhile.
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

    /// Copies pointers to the newest versions (deletions included) of the keys of one leaf to
    /// `rows`, in key order. It takes the first leaf of `range`, or the last one if `way` is
    /// backward. Returns their places in `rows`, and the rest of the range.
    ///
    /// # Safety
    /// The caller's context is pinned or has a hold.
    pub(crate) unsafe fn rows_of_a_leaf(
        &self,
        range: KeyRange,
        way: Direction,
        guard: &Guard,
        rows: &mut LeafRows,
    ) -> (Range<usize>, Option<KeyRange>) {
        match way {
            // SAFETY: the caller's promise.
            Direction::Forward => unsafe {
                let (count, next) = self.first_rows(&range, guard, rows);
                (0..count, next.map(|start| KeyRange { start, ..range }))
            },
            // SAFETY: the caller's promise.
            Direction::Backward => unsafe {
                let (found, next) = self.last_rows(&range, guard, rows);
                (found, next.map(|end| KeyRange { end: Some(end), ..range }))
            },
        }
    }

    /// The first rows of `range`: their number, and the start of the rest.
    ///
    /// # Safety
    /// The caller's context is pinned or has a hold.
    unsafe fn first_rows(
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
                // The leaf may hold keys past the end, and past the bound if its range has grown.
                // SAFETY: a pinned context keeps the rows alive that it accesses.
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

    /// The last rows of `range`: their places in `rows`, and the end of the rest.
    ///
    /// # Safety
    /// The caller's context is pinned or has a hold.
    unsafe fn last_rows(
        &self,
        range: &KeyRange,
        guard: &Guard,
        rows: &mut LeafRows,
    ) -> (Range<usize>, Option<Key>) {
        let end = range.end.as_ref().map(|end| end.as_bytes());
        for round in 0.. {
            let (leaf, bound) = self.walk_before(end, guard);
            if let Some(count) = leaf.read(|leaf| leaf.copy_before(end, rows)) {
                let bound = bound.filter(|bound| *bound > range.start);
                let start = bound.as_ref().unwrap_or(&range.start);
                // The leaf may hold keys before the range, and before the bound if its range has
                // grown. SAFETY: a pinned context keeps the rows alive that it accesses.
                let before = |row: &&*mut Row| unsafe { &***row }.key() < &**start;
                let first = rows[..count].iter().take_while(before).count();
                return (first..count, bound);
            }
            spin(round);
        }
        unreachable!("a leaf that is obsolete leaves the tree")
    }

    /// Removes a key from the index if `condition` holds for its newest version. Returns that
    /// version, which the caller now has to free.
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
    /// No operation can access `row` any more, and the caller owns it.
    pub(crate) unsafe fn free_row(&self, context: usize, row: NonNull<Row>) {
        // SAFETY: the caller's promise; rows of this index are allocated on its heap.
        unsafe { Row::free(&self.heap, context, row) };
    }

    /// Frees `row`, which was unlinked, once the operations in progress have ended.
    ///
    /// # Safety
    /// The caller owns `row`, and no new operation can access it.
    pub(crate) unsafe fn defer_free_row(&self, context: usize, row: NonNull<Row>, guard: &Guard) {
        let heap = self.heap.clone();
        // SAFETY: the caller owns the row, which is alive until it is freed.
        heap.retire(context, unsafe { row.as_ref() }.bytes());
        // SAFETY: the caller's promise; the guard's readers go first.
        unsafe { guard.defer(move || Row::reuse(&heap, context, row)) };
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
        unsafe { child.leaf.as_ref() }
    }

    /// The leaf that covers the last keys before `end` (`None`: of all), and the lower bound of its
    /// keys (`None`: no bound).
    fn walk_before<'g>(&self, end: Option<&[u8]>, guard: &'g Guard) -> (&'g Leaf, Option<Key>) {
        let end = end.map(|end| (Word::of(end), end));
        let path = self.path_by(|node| node.child_before(end), guard);
        // The node above defines where a first child begins.
        let bound = path.steps.iter().rev().find(|(_, at)| *at > 0).map(|(node, at)| {
            // SAFETY: nodes on a path are freed after the guard.
            unsafe { node.as_ref() }.separators[*at].clone()
        });
        (path.leaf, bound)
    }

    /// Like `walk`, with the upper bound of the leaf's keys.
    fn walk_with_bound<'g>(&self, key: &[u8], guard: &'g Guard) -> (&'g Leaf, Option<Key>) {
        let path = self.path(Word::of(key), key, guard);
        let bound = path.steps.iter().rev().find_map(|(node, at)| {
            // SAFETY: nodes on a path are freed after the guard.
            unsafe { node.as_ref() }.separators.get(at + 1)
        });
        (path.leaf, bound.cloned())
    }

    fn path<'g>(&self, word: Word, key: &[u8], guard: &'g Guard) -> Path<'g> {
        self.path_by(|node| node.child_of(word, key), guard)
    }

    /// The path that takes the child `choose` selects in each node.
    fn path_by<'g>(&self, choose: impl Fn(&Node) -> usize, guard: &'g Guard) -> Path<'g> {
        let root = self.root(guard);
        let mut child = root.child;
        let mut steps = Vec::with_capacity(root.height);
        for _ in 0..root.height {
            // SAFETY: above height 0 children are nodes; they are freed after the guard.
            let (pointer, node) = unsafe { (child.node, child.node.as_ref()) };
            let at = choose(node);
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
        // Keys that arrive in ascending order leave full leaves behind.
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

    /// Unlinks an empty leaf, unless it is the only one, and the nodes above it that have no other
    /// child.
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

    /// Copies the path with its leaf replaced, and makes the copy the current tree.
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
        // SAFETY: new operations cannot reach the old root, and older ones have ended when this
        // runs.
        unsafe { guard.defer(move || drop(Box::from_raw(old_root))) };
    }

    /// Packs entries into nodes, each under its lower bound: none, one, or two if one is too small.
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
        heap.retire(0, size_of::<Node>());
        // SAFETY: the node leaves the tree with this change of shape, and is freed after its
        // readers.
        unsafe { guard.defer(move || Node::reuse(&heap, node)) };
    }

    fn defer_free_leaf(&self, leaf: &Leaf, guard: &Guard) {
        let (heap, leaf) = (self.heap.clone(), NonNull::from(leaf).cast::<u8>());
        heap.retire(0, size_of::<Leaf>());
        // SAFETY: the leaf is obsolete and out of the tree, and is freed after its readers.
        unsafe { guard.defer(move || heap.reuse(0, leaf, size_of::<Leaf>())) };
    }
}

impl Drop for Index {
    /// Frees the nodes, which own separators. Leaves and rows are freed with the heap.
    fn drop(&mut self) {
        flush();
        let root = self.root.load(Ordering::Relaxed);
        // SAFETY: the index is being dropped, so no other thread uses the tree.
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
            return; // Leaves and rows live in the heap's regions and are freed with them.
        }
        // SAFETY: above height 0 children are nodes.
        let node = unsafe { child.node };
        // SAFETY: no other thread uses the tree.
        let (children, count) = unsafe { (node.as_ref().children, node.as_ref().count) };
        for &child in &children[..count] {
            // SAFETY: each child has one parent.
            unsafe { self.drop_child(child, height - 1) };
        }
        // SAFETY: the children are freed, and no other thread uses the node.
        unsafe { Node::free(&self.heap, node) };
    }
}
