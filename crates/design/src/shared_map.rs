//! A sorted map whose versions share their common parts.
//!
//! A catalog and a design are values: a change makes a new version, and readers keep the old one.
//! With thousands of tables, the cost of a copy and of a comparison of two versions must not be
//! proportional to the number of tables. So this map is a persistent weight-balanced tree:
//!
//! | operation | cost |
//! | --- | --- |
//! | clone | one reference count |
//! | insert, remove, change | copies of the log n nodes on the path that other versions share |
//! | [`changes`](SharedMap::changes) | log n for each entry that differs: shared subtrees are skipped |
//!
//! *Invariant.* Of two sibling subtrees, neither has more than `DELTA` times the nodes of the
//! other, unless both together have one node. `DELTA` and `RATIO` are the only pair of integers for
//! which single and double rotations keep this (Hirai and Yamamoto, Balancing weight-balanced
//! trees).

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::mem;
use std::sync::Arc;

const DELTA: usize = 3;
const RATIO: usize = 2;

/// See the [module documentation](self).
pub struct SharedMap<K, V> {
    root: Link<K, V>,
}

type Link<K, V> = Option<Arc<Node<K, V>>>;

#[derive(Clone)]
struct Node<K, V> {
    key: K,
    value: V,
    len: usize,
    left: Link<K, V>,
    right: Link<K, V>,
}

impl<K, V> SharedMap<K, V> {
    /// A map without entries.
    pub fn new() -> SharedMap<K, V> {
        SharedMap { root: None }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        len(&self.root)
    }

    /// True if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// The entries, in the order of their keys.
    pub fn iter(&self) -> Iter<'_, K, V> {
        let mut iter = Iter { stack: Vec::new() };
        iter.descend(&self.root);
        iter
    }

    /// The keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &K> + Clone {
        self.iter().map(|(key, _)| key)
    }

    /// The values, in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> + Clone {
        self.iter().map(|(_, value)| value)
    }

    /// The entry with the greatest key.
    pub fn last(&self) -> Option<(&K, &V)> {
        let mut node = self.root.as_deref()?;
        while let Some(right) = node.right.as_deref() {
            node = right;
        }
        Some((&node.key, &node.value))
    }
}

impl<K: Ord, V> SharedMap<K, V> {
    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let mut link = &self.root;
        while let Some(node) = link {
            match key.cmp(node.key.borrow()) {
                Ordering::Less => link = &node.left,
                Ordering::Greater => link = &node.right,
                Ordering::Equal => return Some(&node.value),
            }
        }
        None
    }

    /// True if there is an entry with this key.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// The entries from a key on, in order.
    pub fn from<Q: Ord + ?Sized>(&self, key: &Q) -> Iter<'_, K, V>
    where
        K: Borrow<Q>,
    {
        let (mut iter, mut link) = (Iter { stack: Vec::new() }, &self.root);
        while let Some(node) = link {
            match key.cmp(node.key.borrow()) {
                Ordering::Greater => link = &node.right,
                Ordering::Less | Ordering::Equal => {
                    iter.stack.push(node);
                    link = if key == node.key.borrow() { &None } else { &node.left };
                }
            }
        }
        iter
    }

    /// Calls `visit`, in order, for each key with different values in this map and in `newer`, or
    /// in only one of them, with the value here and the value there. `is_same` compares two values.
    pub fn changes<'m>(
        &'m self,
        newer: &'m SharedMap<K, V>,
        is_same: impl Fn(&V, &V) -> bool,
        mut visit: impl FnMut(&'m K, Option<&'m V>, Option<&'m V>),
    ) {
        let (mut old, mut new) = (Walk::of(&self.root), Walk::of(&newer.root));
        loop {
            match (old.0.last(), new.0.last()) {
                (None, None) => return,
                (Some(Part::Tree(a)), Some(Part::Tree(b))) => {
                    let (size, other) = (a.len, b.len);
                    if Arc::ptr_eq(a, b) {
                        (_, _) = (old.0.pop(), new.0.pop());
                        continue;
                    }
                    if size >= other {
                        old.open();
                    }
                    if other >= size {
                        new.open();
                    }
                }
                (Some(Part::Tree(_)), _) => old.open(),
                (_, Some(Part::Tree(_))) => new.open(),
                (a, b) => {
                    let (a, b) = (a.map(Part::entry), b.map(Part::entry));
                    let order = match (a, b) {
                        (Some((a, _)), Some((b, _))) => a.cmp(b),
                        (Some(_), None) => Ordering::Less,
                        _ => Ordering::Greater,
                    };
                    match (order, a, b) {
                        (Ordering::Less, Some((key, value)), _) => visit(key, Some(value), None),
                        (Ordering::Greater, _, Some((key, value))) => {
                            visit(key, None, Some(value));
                        }
                        (_, Some((key, a)), Some((_, b))) if !is_same(a, b) => {
                            visit(key, Some(a), Some(b));
                        }
                        _ => {}
                    }
                    if order.is_le() {
                        old.0.pop();
                    }
                    if order.is_ge() {
                        new.0.pop();
                    }
                }
            }
        }
    }
}

impl<K: Ord + Clone, V: Clone> SharedMap<K, V> {
    /// Inserts a value. Returns the former value of the key.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        insert(&mut self.root, key, value)
    }

    /// Removes an entry. Returns its value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        // A key that is missing must not copy the path to its place.
        self.contains_key(key).then(|| remove(&mut self.root, key)).flatten()
    }

    /// A mutable reference to the value of a key.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        if !self.contains_key(key) {
            return None;
        }
        let mut link = &mut self.root;
        loop {
            let node = Arc::make_mut(link.as_mut()?);
            match key.cmp(node.key.borrow()) {
                Ordering::Less => link = &mut node.left,
                Ordering::Greater => link = &mut node.right,
                Ordering::Equal => return Some(&mut node.value),
            }
        }
    }

    /// Keeps the entries for which `stays` is true.
    pub fn retain(&mut self, mut stays: impl FnMut(&K, &V) -> bool) {
        let goes = self.iter().filter(|(key, value)| !stays(key, value));
        let goes: Vec<K> = goes.map(|(key, _)| key.clone()).collect();
        goes.iter().for_each(|key| drop(self.remove(key)));
    }

    /// Replaces the values for which `change` returns a new one.
    pub fn change(&mut self, mut change: impl FnMut(&V) -> Option<V>) {
        let changed = self.iter().filter_map(|(key, value)| Some((key.clone(), change(value)?)));
        let changed: Vec<(K, V)> = changed.collect();
        self.extend(changed);
    }
}

fn len<K, V>(link: &Link<K, V>) -> usize {
    link.as_ref().map_or(0, |node| node.len)
}

fn insert<K: Ord + Clone, V: Clone>(link: &mut Link<K, V>, key: K, value: V) -> Option<V> {
    let Some(node) = link else {
        *link = Some(Arc::new(Node { key, value, len: 1, left: None, right: None }));
        return None;
    };
    let node = Arc::make_mut(node);
    let before = match key.cmp(&node.key) {
        Ordering::Less => insert(&mut node.left, key, value),
        Ordering::Greater => insert(&mut node.right, key, value),
        Ordering::Equal => return Some(mem::replace(&mut node.value, value)),
    };
    balance(link);
    before
}

fn remove<K: Ord + Clone + Borrow<Q>, V: Clone, Q: Ord + ?Sized>(
    link: &mut Link<K, V>,
    key: &Q,
) -> Option<V> {
    let node = Arc::make_mut(link.as_mut()?);
    let removed = match key.cmp(node.key.borrow()) {
        Ordering::Less => remove(&mut node.left, key),
        Ordering::Greater => remove(&mut node.right, key),
        Ordering::Equal => match take_first(&mut node.right) {
            Some((next, value)) => {
                node.key = next;
                Some(mem::replace(&mut node.value, value))
            }
            None => {
                let (value, left) = (node.value.clone(), node.left.take());
                *link = left;
                return Some(value);
            }
        },
    };
    balance(link);
    removed
}

/// Removes the first entry of a subtree.
fn take_first<K: Clone, V: Clone>(link: &mut Link<K, V>) -> Option<(K, V)> {
    let node = Arc::make_mut(link.as_mut()?);
    let first = match take_first(&mut node.left) {
        Some(first) => first,
        None => {
            let (first, right) = ((node.key.clone(), node.value.clone()), node.right.take());
            *link = right;
            return Some(first);
        }
    };
    balance(link);
    Some(first)
}

/// Restores the invariant of a node after one of its subtrees has gained or lost an entry.
fn balance<K: Clone, V: Clone>(link: &mut Link<K, V>) {
    let Some(node) = link else { return };
    let node = Arc::make_mut(node);
    let (left, right) = (len(&node.left), len(&node.right));
    node.len = 1 + left + right;
    // True if the outer subtree of the heavier child is large enough for a single rotation.
    let is_single = |inner: &Link<K, V>, outer: &Link<K, V>| len(inner) < RATIO * len(outer);
    if left + right < 2 {
    } else if right > DELTA * left {
        let child = node.right.as_mut().expect("it is the heavier one");
        if !is_single(&child.left, &child.right) {
            rotate_right(&mut node.right);
        }
        rotate_left(link);
    } else if left > DELTA * right {
        let child = node.left.as_mut().expect("it is the heavier one");
        if !is_single(&child.right, &child.left) {
            rotate_left(&mut node.left);
        }
        rotate_right(link);
    }
}

/// The right child takes the place of its parent.
fn rotate_left<K: Clone, V: Clone>(link: &mut Link<K, V>) {
    let mut parent = link.take().expect("there is a node to rotate");
    let old = Arc::make_mut(&mut parent);
    let mut child = old.right.take().expect("there is a child to take its place");
    let new = Arc::make_mut(&mut child);
    old.right = new.left.take();
    old.len = 1 + len(&old.left) + len(&old.right);
    new.len = 1 + old.len + len(&new.right);
    new.left = Some(parent);
    *link = Some(child);
}

/// The left child takes the place of its parent.
fn rotate_right<K: Clone, V: Clone>(link: &mut Link<K, V>) {
    let mut parent = link.take().expect("there is a node to rotate");
    let old = Arc::make_mut(&mut parent);
    let mut child = old.left.take().expect("there is a child to take its place");
    let new = Arc::make_mut(&mut child);
    old.left = new.right.take();
    old.len = 1 + len(&old.left) + len(&old.right);
    new.len = 1 + len(&new.left) + old.len;
    new.right = Some(parent);
    *link = Some(child);
}

/// The entries of a [`SharedMap`], in order.
pub struct Iter<'m, K, V> {
    /// Nodes to visit, the next one last; their left subtrees have been visited.
    stack: Vec<&'m Node<K, V>>,
}

impl<'m, K, V> Iter<'m, K, V> {
    fn descend(&mut self, mut link: &'m Link<K, V>) {
        while let Some(node) = link {
            self.stack.push(node);
            link = &node.left;
        }
    }
}

impl<'m, K, V> Iterator for Iter<'m, K, V> {
    type Item = (&'m K, &'m V);

    fn next(&mut self) -> Option<(&'m K, &'m V)> {
        let node = self.stack.pop()?;
        self.descend(&node.right);
        Some((&node.key, &node.value))
    }
}

impl<K, V> Clone for Iter<'_, K, V> {
    fn clone(&self) -> Self {
        Iter { stack: self.stack.clone() }
    }
}

/// The parts of a map that remain to be compared, the next one last.
struct Walk<'m, K, V>(Vec<Part<'m, K, V>>);

enum Part<'m, K, V> {
    Tree(&'m Arc<Node<K, V>>),
    Entry(&'m K, &'m V),
}

impl<'m, K, V> Part<'m, K, V> {
    fn entry(&self) -> (&'m K, &'m V) {
        match self {
            Part::Tree(node) => (&node.key, &node.value),
            Part::Entry(key, value) => (key, value),
        }
    }
}

impl<'m, K, V> Walk<'m, K, V> {
    fn of(root: &'m Link<K, V>) -> Walk<'m, K, V> {
        Walk(root.iter().map(Part::Tree).collect())
    }

    /// Replaces the next subtree by its parts.
    fn open(&mut self) {
        let Some(Part::Tree(node)) = self.0.pop() else { return };
        self.0.extend(node.right.as_ref().map(Part::Tree));
        self.0.push(Part::Entry(&node.key, &node.value));
        self.0.extend(node.left.as_ref().map(Part::Tree));
    }
}

impl<K, V> Clone for SharedMap<K, V> {
    fn clone(&self) -> Self {
        SharedMap { root: self.root.clone() }
    }
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        SharedMap::new()
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for SharedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Ord, V: PartialEq> PartialEq for SharedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        let mut is_equal = self.len() == other.len();
        if is_equal {
            self.changes(other, V::eq, |_, _, _| is_equal = false);
        }
        is_equal
    }
}

impl<K: Ord, V: Eq> Eq for SharedMap<K, V> {}

impl<K: Ord + Clone, V: Clone> Extend<(K, V)> for SharedMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        entries.into_iter().for_each(|(key, value)| drop(self.insert(key, value)));
    }
}

impl<K: Ord + Clone, V: Clone> FromIterator<(K, V)> for SharedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = SharedMap::new();
        map.extend(entries);
        map
    }
}

impl<'m, K, V> IntoIterator for &'m SharedMap<K, V> {
    type Item = (&'m K, &'m V);
    type IntoIter = Iter<'m, K, V>;

    fn into_iter(self) -> Iter<'m, K, V> {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Checks the invariants of a subtree, and gives its height.
    fn check<K: Ord, V>(link: &Link<K, V>) -> usize {
        let Some(node) = link else { return 0 };
        let (left, right) = (len(&node.left), len(&node.right));
        assert_eq!(node.len, 1 + left + right);
        assert!(left + right < 2 || (left <= DELTA * right && right <= DELTA * left));
        1 + check(&node.left).max(check(&node.right))
    }

    /// Pseudo-random numbers, the same in each run.
    fn numbers() -> impl FnMut(u64) -> u64 {
        let mut state = 7_u64;
        move |below| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        }
    }

    #[test]
    fn it_is_a_sorted_map() {
        let (mut draw, mut map, mut model) = (numbers(), SharedMap::new(), BTreeMap::new());
        for round in 0..20_000 {
            // Grows first, and shrinks then.
            let key = draw(1000);
            match draw(10) < if round < 10_000 { 7 } else { 3 } {
                true => assert_eq!(map.insert(key, round), model.insert(key, round)),
                false => assert_eq!(map.remove(&key), model.remove(&key)),
            }
            let probe = draw(1000);
            assert_eq!(map.get(&probe), model.get(&probe));
            if round % 1000 == 0 {
                assert!(check(&map.root) <= 25);
                assert!(map.iter().eq(&model));
                assert!(map.from(&probe).eq(model.range(probe..)));
                assert_eq!(map.last(), model.last_key_value());
            }
        }
        map.retain(|key, _| key % 2 == 0);
        model.retain(|key, _| key % 2 == 0);
        map.change(|value| (value % 3 == 0).then_some(0));
        model.values_mut().filter(|value| **value % 3 == 0).for_each(|value| *value = 0);
        check(&map.root);
        assert!(map.iter().eq(&model));
    }

    #[test]
    fn the_changes_between_two_versions_cost_what_has_changed() {
        let old: SharedMap<u64, u64> = (0..10_000).map(|key| (2 * key, key)).collect();
        let mut new = old.clone();
        new.insert(5001, 0);
        new.insert(7000, 1);
        new.remove(&0);
        *new.get_mut(&2).expect("it is there") = 9;
        let (mut seen, compared) = (Vec::new(), std::cell::Cell::new(0));
        let is_same = |a: &u64, b: &u64| {
            compared.set(compared.get() + 1);
            a == b
        };
        old.changes(&new, is_same, |key, was, is| seen.push((*key, was.copied(), is.copied())));
        assert_eq!(
            seen,
            [
                (0, Some(0), None),
                (2, Some(1), Some(9)),
                (5001, None, Some(0)),
                (7000, Some(3500), Some(1))
            ]
        );
        assert!(compared.get() < 200, "{}", compared.get());
        // The old version is as it was.
        assert!(old.iter().map(|(key, value)| (*key, *value)).eq((0..10_000).map(|n| (2 * n, n))));
    }

    #[test]
    fn changes_between_any_two_maps_are_found() {
        let mut draw = numbers();
        for _ in 0..300 {
            let mut make = |base: &SharedMap<u64, u64>| {
                let mut map = base.clone();
                for _ in 0..draw(60) {
                    match draw(2) {
                        0 => drop(map.insert(draw(50), draw(3))),
                        _ => drop(map.remove(&draw(50))),
                    }
                }
                map
            };
            let base = make(&SharedMap::new());
            let (a, b) = (make(&base), make(&base));
            let mut patched: BTreeMap<u64, u64> = a.iter().map(|(k, v)| (*k, *v)).collect();
            a.changes(&b, u64::eq, |key, was, is| {
                assert_eq!(patched.get(key), was);
                assert_ne!(was, is);
                match is {
                    Some(value) => drop(patched.insert(*key, *value)),
                    None => drop(patched.remove(key)),
                }
            });
            assert!(b.iter().eq(&patched));
            assert_eq!(a == b, a.iter().eq(b.iter()));
        }
    }
}
