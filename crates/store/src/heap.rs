//! The heap for rows and index leaves: size classes on huge pages.
//!
//! A transaction that touches a few random rows has a few cache misses. With small pages, each of
//! them is two: one more for the address translation. So the heap asks for huge pages, and packs
//! rows with no header of its own and at most 15 bytes of rounding.
//!
//! ```text
//!   region 2..64 MiB, huge pages          pool 0 (contexts 0, 64, …)        exchange
//!   ┌──────────┬──────────┬─────────      ┌ bump: next free byte of a piece   spare lists of 512
//!   │ piece    │ piece    │ ...           │ free[9]  → ▢ → ▢                  slots, per class
//!   └──────────┴──────────┴─────────      └ free[10] → ▢
//! ```
//!
//! Contexts whose numbers agree modulo [`POOLS`] share a pool, so its mutex is rarely contended.
//! Freed slots go to the freeing pool. A pool with too many free slots hands a list of them to the
//! exchange, so that memory freed by one worker serves another.
//!
//! **Accounting.** Each pool counts its own bytes, so transactions share no counter. The exact sum
//! needs a visit to every pool. A pool adds its count to a global one whenever the difference
//! exceeds [`TOLD_BYTES`], so the global count is off by at most [`ABOUT_BYTES`]. Memory that new
//! operations cannot reach does not count as used, even while older operations may access it. So
//! the sum does not depend on the progress of other threads.
//!
//! **Left out.** Returning regions to the system before the heap is dropped, and moving free memory
//! between size classes.

use crossbeam_utils::CachePadded;
// Not shuttle's mutex: no thread waits inside the heap, and epochs free when no schedule runs.
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicIsize, Ordering};

/// Slots are multiples of this many bytes, and aligned to it (to 64 if the size is a multiple of
/// 64).
const GRAIN: usize = 16;
/// Sizes up to this come from pools; anything larger is allocated on its own.
const POOLED_BYTES_MAX: usize = 4096;
const CLASSES: usize = POOLED_BYTES_MAX / GRAIN + 1;
const PIECE_BYTES: usize = 256 << 10;
const REGION_BYTES_MIN: usize = 2 << 20;
const REGION_BYTES_MAX: usize = 64 << 20;
/// A pool hands over a list of this many free slots when it holds at least twice as many.
const LIST_SLOTS: usize = 512;
const POOLS: usize = 64;
/// The change of a pool's count that is added to the global count.
const TOLD_BYTES: isize = 16 << 10;
/// The maximal error of [`Heap::about_bytes`].
pub(crate) const ABOUT_BYTES: usize = POOLS * TOLD_BYTES as usize;
/// Builds with assertions overwrite freed memory with this, so that a late reader notices.
const POISON: u8 = 0xdb;
/// Alignment of slots that are allocated on their own: the largest that any caller needs.
const LARGE_ALIGN: usize = 64;

/// Memory for rows and leaves.
pub(crate) struct Heap {
    pools: Box<[CachePadded<Mutex<Pool>>]>,
    shared: Mutex<Shared>,
    /// Bytes in use, except for the pools' `untold_bytes`.
    told_bytes: CachePadded<AtomicIsize>,
}

#[derive(Default)]
struct Shared {
    regions: Vec<Region>,
    /// Start and length of the unused rest of the newest region.
    rest: (usize, usize),
    spare: Vec<Vec<FreeList>>,
    /// Address and size of slots too large for a pool, which are freed with the heap.
    large: BTreeMap<usize, usize>,
}

struct Pool {
    bump: usize,
    bump_end: usize,
    free: Box<[FreeList]>,
    live_bytes: isize,
    /// The part of `live_bytes` that is not in the global count yet.
    untold_bytes: isize,
}

impl Pool {
    fn count(&mut self, bytes: isize, told: &AtomicIsize) {
        self.live_bytes += bytes;
        self.untold_bytes += bytes;
        if self.untold_bytes.abs() >= TOLD_BYTES {
            told.fetch_add(std::mem::take(&mut self.untold_bytes), Ordering::Relaxed);
        }
    }
}

/// Free slots of one class, linked through their first word.
#[derive(Clone, Copy)]
struct FreeList {
    head: *mut u8,
    count: usize,
}

// SAFETY: a free list owns the slots it links; it moves between threads only behind a mutex.
unsafe impl Send for FreeList {}

impl Default for FreeList {
    fn default() -> FreeList {
        FreeList { head: ptr::null_mut(), count: 0 }
    }
}

impl FreeList {
    fn push(&mut self, slot: *mut u8) {
        // SAFETY: the slot is free, at least GRAIN bytes long and aligned to it.
        unsafe { slot.cast::<*mut u8>().write(self.head) };
        self.head = slot;
        self.count += 1;
    }

    fn pop(&mut self) -> Option<*mut u8> {
        let slot = NonNull::new(self.head)?.as_ptr();
        // SAFETY: `push` wrote the link when the slot became free.
        self.head = unsafe { slot.cast::<*mut u8>().read() };
        self.count -= 1;
        Some(slot)
    }

    fn split_off(&mut self, count: usize) -> FreeList {
        let mut list = FreeList::default();
        for _ in 0..count {
            list.push(self.pop().expect("a list is split below its count"));
        }
        list
    }
}

struct Region {
    base: usize,
    bytes: usize,
}

impl Region {
    fn map(bytes: usize) -> Region {
        // Two megabytes more, so that an aligned start can be chosen.
        let want = bytes + REGION_BYTES_MIN;
        // SAFETY: a fresh anonymous mapping; nothing else refers to it.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                want,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        assert!(
            base != libc::MAP_FAILED,
            "out of memory: the system refused {want} bytes for rows"
        );
        #[cfg(all(target_os = "linux", not(feature = "shuttle")))]
        // SAFETY: advice on a mapping of our own; a refusal costs speed, not correctness.
        unsafe {
            libc::madvise(base, want, libc::MADV_HUGEPAGE);
        }
        Region { base: base as usize, bytes: want }
    }

    fn usable(&self) -> (usize, usize) {
        let start = self.base.next_multiple_of(REGION_BYTES_MIN);
        (start, self.base + self.bytes - start)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` and is dropped once, with the heap that owns all
        // slots.
        unsafe { libc::munmap(self.base as *mut libc::c_void, self.bytes) };
    }
}

impl Heap {
    pub(crate) fn new() -> Heap {
        let pool = || Pool {
            bump: 0,
            bump_end: 0,
            free: vec![FreeList::default(); CLASSES].into_boxed_slice(),
            live_bytes: 0,
            untold_bytes: 0,
        };
        Heap {
            pools: (0..POOLS).map(|_| CachePadded::new(Mutex::new(pool()))).collect(),
            shared: Mutex::new(Shared { spare: vec![Vec::new(); CLASSES], ..Shared::default() }),
            told_bytes: CachePadded::default(),
        }
    }

    /// A slot of at least `bytes` bytes, uninitialised, from the pool of `context`.
    pub(crate) fn allocate(&self, context: usize, bytes: usize) -> NonNull<u8> {
        let class = bytes.div_ceil(GRAIN);
        let mut pool = self.pools[context % POOLS].lock();
        pool.count((class * GRAIN) as isize, &self.told_bytes);
        if class >= CLASSES {
            drop(pool);
            return self.allocate_large(bytes);
        }
        if pool.free[class].head.is_null() {
            if let Some(list) = self.take_spare(class) {
                pool.free[class] = list;
            } else {
                return self.bump(&mut pool, class);
            }
        }
        let slot = pool.free[class].pop().expect("the list was just seen to hold a slot");
        NonNull::new(slot).expect("free lists link real slots")
    }

    /// Frees a slot.
    ///
    /// # Safety
    /// Like [`Heap::reuse`], but the slot still counts as used.
    pub(crate) unsafe fn free(&self, context: usize, slot: NonNull<u8>, bytes: usize) {
        self.retire(context, bytes);
        // SAFETY: the caller's promise.
        unsafe { self.reuse(context, slot, bytes) };
    }

    /// Stops counting a slot as used. Operations that began earlier may still access it.
    pub(crate) fn retire(&self, context: usize, bytes: usize) {
        let class = bytes.div_ceil(GRAIN);
        self.pools[context % POOLS].lock().count(-((class * GRAIN) as isize), &self.told_bytes);
    }

    /// Makes a retired slot available again.
    ///
    /// # Safety
    /// `slot` came from `allocate(_, bytes)` of this heap with the same `bytes`, and no operation
    /// can access it any more.
    pub(crate) unsafe fn reuse(&self, context: usize, slot: NonNull<u8>, bytes: usize) {
        let class = bytes.div_ceil(GRAIN);
        if cfg!(debug_assertions) {
            // SAFETY: the slot is free and at least that long.
            unsafe { slot.write_bytes(POISON, bytes) };
        }
        let mut pool = self.pools[context % POOLS].lock();
        if cfg!(feature = "shuttle") {
            return; // Not used again: a late reader is sure to meet the poison.
        }
        if class >= CLASSES {
            drop(pool);
            self.shared.lock().large.remove(&(slot.as_ptr() as usize));
            // SAFETY: the caller's promise; `allocate_large` used the same layout.
            return unsafe { std::alloc::dealloc(slot.as_ptr(), large_layout(bytes)) };
        }
        pool.free[class].push(slot.as_ptr());
        if pool.free[class].count >= 2 * LIST_SLOTS {
            let list = pool.free[class].split_off(LIST_SLOTS);
            self.shared.lock().spare[class].push(list);
        }
    }

    /// Bytes in used slots, rounding included. Visits every pool.
    pub(crate) fn live_bytes(&self) -> usize {
        self.pools.iter().map(|pool| pool.lock().live_bytes).sum::<isize>().max(0) as usize
    }

    /// Like [`Heap::live_bytes`], off by at most [`ABOUT_BYTES`], at the cost of one load.
    pub(crate) fn about_bytes(&self) -> usize {
        self.told_bytes.load(Ordering::Relaxed).max(0) as usize
    }

    fn take_spare(&self, class: usize) -> Option<FreeList> {
        self.shared.lock().spare[class].pop()
    }

    fn bump(&self, pool: &mut Pool, class: usize) -> NonNull<u8> {
        let bytes = class * GRAIN;
        let align = if bytes.is_multiple_of(64) { 64 } else { GRAIN };
        let mut start = pool.bump.next_multiple_of(align);
        if start + bytes > pool.bump_end {
            (pool.bump, pool.bump_end) = self.shared.lock().next_piece();
            start = pool.bump.next_multiple_of(align);
        }
        pool.bump = start + bytes;
        NonNull::new(start as *mut u8).expect("pieces lie in mapped memory")
    }

    fn allocate_large(&self, bytes: usize) -> NonNull<u8> {
        // SAFETY: the layout has a size above POOLED_BYTES_MAX.
        let slot = unsafe { std::alloc::alloc(large_layout(bytes)) };
        let slot = NonNull::new(slot)
            .unwrap_or_else(|| std::alloc::handle_alloc_error(large_layout(bytes)));
        self.shared.lock().large.insert(slot.as_ptr() as usize, bytes);
        slot
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        for (address, bytes) in std::mem::take(&mut self.shared.lock().large) {
            // SAFETY: `allocate_large` made it with this layout; the heap's users are gone.
            unsafe { std::alloc::dealloc(address as *mut u8, large_layout(bytes)) };
        }
    }
}

fn large_layout(bytes: usize) -> std::alloc::Layout {
    std::alloc::Layout::from_size_align(bytes, LARGE_ALIGN)
        .expect("rows are far below the address space")
}

impl Shared {
    fn next_piece(&mut self) -> (usize, usize) {
        if self.rest.1 < PIECE_BYTES {
            let last = self.regions.last().map_or(REGION_BYTES_MIN / 2, |region| region.bytes);
            let region = Region::map((last * 2).clamp(REGION_BYTES_MIN, REGION_BYTES_MAX));
            self.rest = region.usable();
            self.regions.push(region);
        }
        let (start, bytes) = self.rest;
        self.rest = (start + PIECE_BYTES, bytes - PIECE_BYTES);
        (start, start + PIECE_BYTES)
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn freed_slots_are_used_again_by_any_pool() {
        let heap = Heap::new();
        let slots: Vec<_> = (0..4 * LIST_SLOTS).map(|_| heap.allocate(0, 100)).collect();
        assert_eq!(heap.live_bytes(), 4 * LIST_SLOTS * 112);
        for &slot in &slots {
            // SAFETY: each slot was allocated above with the same size and is freed once.
            unsafe { heap.free(1, slot, 100) };
        }
        assert_eq!(heap.live_bytes(), 0);
        let again: std::collections::BTreeSet<_> =
            (0..LIST_SLOTS).map(|_| heap.allocate(2, 100)).collect();
        assert!(again.iter().all(|slot| slots.contains(slot)), "pool 2 takes what pool 1 freed");
    }

    #[test]
    fn what_is_in_use_is_known_about_without_a_look_at_every_pool() {
        let heap = Heap::new();
        let mut live = 0;
        for number in 0..10 * POOLS {
            heap.allocate(number, 4000);
            live += 4000;
            assert_eq!(heap.live_bytes(), live);
            assert!(heap.about_bytes().abs_diff(live) <= ABOUT_BYTES);
        }
        assert!(heap.about_bytes() > 0, "every pool has told something");
    }

    #[test]
    fn leaves_are_aligned_to_cache_lines_and_large_rows_work() {
        let heap = Heap::new();
        heap.allocate(0, 24);
        assert_eq!(heap.allocate(0, 576).as_ptr() as usize % 64, 0);
        let large = heap.allocate(0, 1 << 20);
        // SAFETY: allocated on the line above with the same size.
        unsafe { heap.free(0, large, 1 << 20) };
        assert_eq!(heap.live_bytes(), 32 + 576);
    }
}
