//! Reading: the rows that a context lends from an index.
//!
//! ```text
//!   read, scan             the versions visible to the snapshot, borrowed until it ends
//!   newest, scan_newest    newest versions, deletions included, borrowed until the guard ends
//! ```
//!
//! The pin alone keeps the versions that a snapshot sees, so a long reader may hold many of them
//! without a guard. A newest version that the snapshot does not see may be freed after the guard.

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

    /// Like [`Context::get`], starting from the leaf in `spot`.
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
        // SAFETY: the context is pinned or has a hold for as long as the row is borrowed.
        unsafe { spot.newest(key, guard) }
    }

    /// Visits the rows of `range` that the snapshot sees, in key order.
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

    /// Like [`Context::scan`], in the direction `way`.
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

    /// Like [`Context::scan_newest`], in the direction `way`.
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
            // One guard per leaf, so that a long scan does not delay the freeing of memory.
            let guard = pin();
            // SAFETY: the context is pinned or has a hold.
            let (found, next) = unsafe { index.rows_of_a_leaf(rest, way, &guard, &mut rows) };
            rows[found.clone()].iter().for_each(|&row| Row::prefetch(row));
            for &row in way.through(rows[found].iter()) {
                // SAFETY: such a context keeps the rows alive that it accesses.
                if visit(unsafe { &*row }).is_break() {
                    return;
                }
            }
            let Some(next) = next else { return };
            rest = next;
        }
    }

    /// The times of all versions in the chain of `key`, newest first, and whether the last link
    /// dangles. For scripts that show the effect of garbage collection.
    ///
    /// # Safety
    /// The build has assertions, one thread uses the store, and the key's rows are small. Then
    /// freed rows are still mapped, and a time out of order shows that a row was freed.
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

    /// Lends a version that the snapshot sees, until the snapshot ends.
    fn lend(&self, seen: &Row) -> &Row {
        // SAFETY: the pin keeps the versions that the snapshot sees; `unpin`, `snapshot` and `hold`
        // need exclusive access to the context.
        unsafe { &*std::ptr::from_ref(seen) }
    }

    pub(crate) fn assert_holds(&self, index: &Index) {
        assert!(index.is_in(&self.store.heap), "contexts use the indexes of their own store");
        assert!(self.bound().is_some(), "rows are read with a snapshot or a hold");
    }
}
