//! The memory of a thread that waits: returned to the system.
//!
//! ```text
//!   stack       ███████▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒░░░░░░░░░░░░      █ in use   ▒ used before   ░ never used
//!               top   ◀── returned ──▶          lowest
//!   allocator   one page or more for each size of block: those without a block are returned
//! ```
//!
//! A thread that has run one statement has used 130 kB of its stack, and 60 kB in empty pages of
//! the allocator. With hundreds of idle sessions that is most of their memory.
//!
//! **Left out.** Pages with a block in use stay. Other systems than Linux keep the stack.

// The program's allocator, which this links.
use mimalloc as _;

#[allow(unsafe_code, reason = "the allocator has no other name for it")]
unsafe extern "C" {
    /// Frees the calling thread's empty pages.
    safe fn mi_collect(force: bool);
}

/// Returns the unused memory of the calling thread to the system.
pub(crate) fn give_back() {
    mi_collect(true);
    unused_stack();
}

/// Returns the stack below the caller's frame to the system.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "calls of the system")]
#[inline(never)]
fn unused_stack() {
    /// The distance to the frame of this function: room for the functions that it calls.
    const MARGIN: usize = 8 << 10;
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut lowest, mut bytes) = (std::ptr::null_mut(), 0);
    // SAFETY: the attributes are initialised by the first call if it succeeds, read by the second,
    // and destroyed once.
    let known = unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return;
        }
        let got = libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut lowest, &raw mut bytes);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        got == 0
    };
    // SAFETY: it has no preconditions.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(0);
    let here = (&raw const bytes).addr();
    if !known || page == 0 || !(lowest.addr()..lowest.addr() + bytes).contains(&here) {
        return;
    }
    let unused = here.saturating_sub(lowest.addr() + MARGIN) / page * page;
    // SAFETY: the range is a part of this thread's own stack below all of its frames, since the
    // stack grows downwards. No value lives there; later frames find zeros.
    unsafe { libc::madvise(lowest, unused, libc::MADV_DONTNEED) };
}

#[cfg(not(target_os = "linux"))]
fn unused_stack() {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses a stack of half a MiB, and returns a sum of what it wrote there.
    #[inline(never)]
    fn deep(seed: u8) -> usize {
        let mut frame = [seed; 512 << 10];
        std::hint::black_box(&mut frame);
        frame.iter().map(|byte| usize::from(*byte)).sum()
    }

    /// Values in use survive, on the stacks and in the heaps of several threads.
    #[test]
    fn what_is_in_use_stays_while_the_rest_is_returned() {
        let turns = || {
            let mut kept = vec![vec![7_u8; 100]; 1000];
            for turn in 1..20_u8 {
                let local = [turn; 4096];
                assert_eq!(deep(turn), usize::from(turn) * (512 << 10));
                kept.truncate(1000 - usize::from(turn) * 40);
                give_back();
                assert!(local.iter().all(|byte| *byte == turn));
                assert!(kept.iter().flatten().all(|byte| *byte == 7));
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(turns);
            }
        });
        turns();
    }
}
