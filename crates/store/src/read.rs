//! Reading: what a context lends of the rows in an index.
//!
//! ```text
//!   read, scan             the versions that the context's snapshot sees, as long as it is used
//!   newest, scan_newest    newest versions, deletions included, as long as the guard is held
//! ```
//!
//! The versions that a snapshot sees are kept by its pin alone, so a long reader may hold many of
//! them and no guard. A newest version that the snapshot does not see may be on its way out.

use crate::context::Context;
use crate::epoch::{Guard, pin};
use crate::index::{Index, Spot};
use crate::row::Row;
use isomer_design::{Direction, KeyRange};
use std::ops::ControlFlow;

impl Context<'_> {
    /// The row of `key` as the snapshot sees it.
    ///
    /// # Panics
    /// If the context has no snapshot, or the index is another store's.
    pub fn get(&self, index: &Index, key: &[u8]) -> Option<&Row> {
        let guard = pin();
        self.read(&mut index.spot(key, &guard), key, &guard)
    }

    /// As [`Context::get`], starting from the leaf remembered in `spot`.
    ///
    /// # Panics
    /// As [`Context::get`].
    pub fn read<'g>(&self, spot: &mut Spot<'g>, key: &[u8], guard: &'g Guard) -> Option<&Row> {
        let snapshot = self.snapshot.expect("a context that reads has a snapshot");
        self.assert_holds(spot.index());
        // SAFETY: the context is pinned to the snapshot, and the guard is held meanwhile.
        let seen = unsafe { spot.newest(key, guard)?.visible(snapshot) }?;
        Some(self.lend(seen))
    }

    /// The newest version of `key`, deletions included.
    ///
    /// # Panics
    /// If the context is neither pinned nor held, or the index is another store's.
    pub fn newest<'c, 'g: 'c>(
        &'c self,
        spot: &mut Spot<'g>,
        key: &[u8],
        guard: &'g Guard,
    ) -> Option<&'c Row> {
        self.assert_holds(spot.index());
        // SAFETY: the context holds on for as long as the row is borrowed.
        unsafe { spot.newest(key, guard) }
    }

    /// Visits the rows of `range` as the snapshot sees them, in the order of their keys.
    ///
    /// # Panics
    /// As [`Context::get`].
    pub fn scan<'c>(
        &'c self,
        index: &Index,
        range: &KeyRange,
        visit: impl FnMut(&'c Row) -> ControlFlow<()>,
    ) {
        self.scan_along(index, range, Direction::Forward, visit);
    }

    /// As [`Context::scan`], or from the last row to the first.
    ///
    /// # Panics
    /// As [`Context::get`].
    pub fn scan_along<'c>(
        &'c self,
        index: &Index,
        range: &KeyRange,
        way: Direction,
        mut visit: impl FnMut(&'c Row) -> ControlFlow<()>,
    ) {
        let snapshot = self.snapshot.expect("a context that reads has a snapshot");
        self.scan_newest_along(index, range, way, |newest| {
            // SAFETY: the context is pinned to the snapshot, and the guard of the scan is held.
            match unsafe { newest.visible(snapshot) } {
                Some(seen) => visit(self.lend(seen)),
                None => ControlFlow::Continue(()),
            }
        });
    }

    /// Visits the newest versions (deletions included) of the keys of `range`, in order.
    ///
    /// # Panics
    /// As [`Context::newest`].
    pub fn scan_newest(
        &self,
        index: &Index,
        range: &KeyRange,
        visit: impl FnMut(&Row) -> ControlFlow<()>,
    ) {
        self.scan_newest_along(index, range, Direction::Forward, visit);
    }

    /// As [`Context::scan_newest`], or from the last key to the first.
    ///
    /// # Panics
    /// As [`Context::newest`].
    pub fn scan_newest_along(
        &self,
        index: &Index,
        range: &KeyRange,
        way: Direction,
        mut visit: impl FnMut(&Row) -> ControlFlow<()>,
    ) {
        self.assert_holds(index);
        let mut rest = range.clone();
        let mut rows = [std::ptr::null_mut(); _];
        loop {
            // A guard for each leaf: long scans do not hold up what others want to free.
            let guard = pin();
            // SAFETY: the context holds on.
            let (found, next) = unsafe { index.rows_of_a_leaf(rest, way, &guard, &mut rows) };
            rows[found.clone()].iter().for_each(|&row| Row::prefetch(row));
            for &row in way.through(rows[found].iter()) {
                // SAFETY: a context that holds on keeps the rows alive that it meets.
                if visit(unsafe { &*row }).is_break() {
                    return;
                }
            }
            let Some(next) = next else { return };
            rest = next;
        }
    }

    /// The times of all versions in the chain of `key`, newest first, and whether the last link
    /// dangles. For scripts that show what garbage collection does.
    ///
    /// # Safety
    /// The build has assertions, one thread uses the store, and the key's rows are small: then what
    /// was freed is still mapped, and shows by a time that does not belong there.
    #[doc(hidden)]
    pub unsafe fn chain(&self, index: &Index, key: &[u8]) -> (Vec<isomer_design::Time>, bool) {
        let guard = pin();
        let mut spot = index.spot(key, &guard);
        let mut next = self.newest(&mut spot, key, &guard);
        let mut times = Vec::new();
        while let Some(row) = next {
            if times.last().is_some_and(|&newer| row.time() >= newer) {
                return (times, true);
            }
            times.push(row.time());
            // SAFETY: the caller's promise.
            next = unsafe { row.older().as_ref() };
        }
        (times, false)
    }

    /// Lends a version that the snapshot sees for as long as the snapshot is used.
    fn lend(&self, seen: &Row) -> &Row {
        // SAFETY: the pin keeps the versions that the snapshot sees; `unpin`, `snapshot` and `hold`
        // need the context to themselves.
        unsafe { &*std::ptr::from_ref(seen) }
    }

    pub(crate) fn assert_holds(&self, index: &Index) {
        assert!(index.is_in(&self.store.heap), "contexts use the indexes of their own store");
        assert!(self.bound().is_some(), "rows are looked at with a hold on the past");
    }
}
