//! One version of one row.
//!
//! ```text
//!   0        8        16     18     20       24
//!   ┌────────┬────────┬──────┬──────┬────────┬───────────┬──────────────┐
//!   │ older  │ time   │ key  │ kind │ value  │ key bytes │ value bytes  │
//!   │ version│        │ bytes│      │ bytes  │           │              │
//!   └────────┴────────┴──────┴──────┴────────┴───────────┴──────────────┘
//! ```
//!
//! The index points to the newest version of a key; each version points to the one it superseded. A
//! snapshot at time `t` sees, of each key, the newest version with `time <= t`. Versions never
//! change after they are linked, except for `older`, which the collector may move past versions
//! that no snapshot needs (see [`crate::garbage`]).

use crate::heap::Heap;
use crate::sync::{AtomicPtr, Ordering};
use isomer_design::Time;
use std::ptr::NonNull;

const HEADER_BYTES: usize = size_of::<Row>();
const TOMBSTONE: u16 = 1;

/// Bytes of a version of a row, without rounding and without its index entry.
pub fn row_bytes(key: &[u8], value: &[u8]) -> usize {
    HEADER_BYTES + key.len() + value.len()
}

/// The header of a version; key and value follow it in memory.
#[repr(C)]
pub struct Row {
    older: AtomicPtr<Row>,
    time: Time,
    key_bytes: u16,
    kind: u16,
    value_bytes: u32,
}

impl Row {
    /// Writes a new version into the heap. `value` is `None` for a deletion.
    pub(crate) fn allocate(
        heap: &Heap,
        context: usize,
        key: &[u8],
        value: Option<&[u8]>,
        time: Time,
    ) -> NonNull<Row> {
        let body = value.unwrap_or_default();
        let bytes = HEADER_BYTES + key.len() + body.len();
        let slot = heap.allocate(context, bytes).cast::<Row>();
        let row = Row {
            older: AtomicPtr::new(std::ptr::null_mut()),
            time,
            key_bytes: u16::try_from(key.len()).expect("keys are at most KEY_BYTES_MAX bytes"),
            kind: if value.is_none() { TOMBSTONE } else { 0 },
            value_bytes: u32::try_from(body.len()).expect("values are below 4 GiB"),
        };
        // SAFETY: the slot has room for header, key and value, and is not yet shared.
        unsafe {
            slot.write(row);
            let bytes = slot.cast::<u8>().add(HEADER_BYTES);
            bytes.copy_from_nonoverlapping(NonNull::from(key).cast(), key.len());
            bytes.add(key.len()).copy_from_nonoverlapping(NonNull::from(body).cast(), body.len());
        }
        slot
    }

    /// Frees a version.
    ///
    /// # Safety
    /// `row` came from [`Row::allocate`] on this heap, and no reader can reach it any more.
    pub(crate) unsafe fn free(heap: &Heap, context: usize, row: NonNull<Row>) {
        // SAFETY: the row is alive until the call to `free` below.
        let bytes = unsafe { row.as_ref() }.bytes();
        // SAFETY: the caller's promise; `bytes` is what `allocate` computed.
        unsafe { heap.free(context, row.cast(), bytes) };
    }

    /// Like [`Row::free`], for a version that [`Heap::retire`] has stopped counting.
    ///
    /// # Safety
    /// As for [`Row::free`].
    pub(crate) unsafe fn reuse(heap: &Heap, context: usize, row: NonNull<Row>) {
        // SAFETY: as there.
        unsafe { heap.reuse(context, row.cast(), row.as_ref().bytes()) };
    }

    pub(crate) fn bytes(&self) -> usize {
        debug_assert!(self.kind <= TOMBSTONE, "freed versions are not read");
        HEADER_BYTES + usize::from(self.key_bytes) + self.value_bytes as usize
    }

    /// The commit time of the transaction that wrote this version.
    pub fn time(&self) -> Time {
        self.time
    }

    /// The encoded primary key.
    pub fn key(&self) -> &[u8] {
        debug_assert!(self.kind <= TOMBSTONE, "freed versions are not read");
        // SAFETY: `allocate` wrote that many bytes right after the header, in the same slot.
        unsafe {
            let start = std::ptr::from_ref(self).cast::<u8>().add(HEADER_BYTES);
            std::slice::from_raw_parts(start, usize::from(self.key_bytes))
        }
    }

    /// The value, or `None` if this version is a deletion.
    pub fn value(&self) -> Option<&[u8]> {
        debug_assert!(self.kind <= TOMBSTONE, "freed versions are not read");
        if self.kind == TOMBSTONE {
            return None;
        }
        // SAFETY: `allocate` wrote that many bytes right after the key, in the same slot.
        unsafe {
            let start = std::ptr::from_ref(self).cast::<u8>();
            let start = start.add(HEADER_BYTES + usize::from(self.key_bytes));
            Some(std::slice::from_raw_parts(start, self.value_bytes as usize))
        }
    }

    pub(crate) fn older(&self) -> *mut Row {
        debug_assert!(self.kind <= TOMBSTONE, "freed versions are not read");
        self.older.load(Ordering::Acquire)
    }

    pub(crate) fn set_older(&self, older: *mut Row) {
        self.older.store(older, Ordering::Release);
    }

    /// The version of this chain that a snapshot at `time` sees; `None` if the row did not exist
    /// then.
    ///
    /// Stops at the first version that is old enough, so it never follows a link to a collected
    /// version: those are older than any version a snapshot needs.
    ///
    /// # Safety
    /// A context is pinned to `time`, a guard protects the versions on the path, and this version
    /// was the newest under both.
    pub(crate) unsafe fn visible(&self, time: Time) -> Option<&Row> {
        let mut row = self;
        while row.time > time {
            // SAFETY: a version newer than the snapshot superseded one that the snapshot may need,
            // so the collector keeps the latter; null marks the first version of a key.
            row = unsafe { row.older().as_ref() }?;
        }
        (row.kind != TOMBSTONE).then_some(row)
    }

    /// Prefetches the version into the cache.
    pub(crate) fn prefetch(row: *const Row) {
        prefetch(row.cast());
        prefetch(row.cast::<u8>().wrapping_add(64));
    }
}

/// Prefetches a whole value that is about to be used.
pub fn prefetch_all<T>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<u8>();
    (0..size_of::<T>().div_ceil(64)).for_each(|line| prefetch(start.wrapping_add(line * 64)));
}

/// Prefetches the cache line at `address`; any address is allowed.
pub(crate) fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults and has no effect but on the cache.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
