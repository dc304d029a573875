//! Waiting without blocking: who has to wait leaves a waker and is told when to try again.
//!
//! Nothing below the edge may block, as the same code runs on many threads, on a server's workers
//! and on the one thread of the simulator. A busy lock is an answer; the [`Waker`] decides what
//! waiting means.

use crate::sync::{AtomicBool, AtomicU32, Mutex, Ordering};
use std::task::Waker;

/// Those who wait for one thing to happen.
///
/// To wait: [`register`](Waiters::register), look again, and only then go to sleep. To wake: make the
/// change visible, then [`wake`](Waiters::wake). One of the two sees the other.
#[derive(Default)]
pub struct Waiters {
    some: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
}

impl Waiters {
    /// Nobody waits.
    pub fn new() -> Waiters {
        Waiters { some: AtomicBool::new(false), wakers: Mutex::new(Vec::new()) }
    }

    /// Leaves a waker. The caller must look once more before it relies on being woken.
    pub fn register(&self, waker: &Waker) {
        let mut wakers = self.wakers.lock();
        if !wakers.iter().any(|other| other.will_wake(waker)) {
            wakers.push(waker.clone());
        }
        self.some.store(true, Ordering::SeqCst);
    }

    /// Wakes everyone who waits; costs one load when nobody does.
    pub fn wake(&self) {
        if self.some.load(Ordering::SeqCst) {
            let wakers = {
                let mut wakers = self.wakers.lock();
                self.some.store(false, Ordering::SeqCst);
                std::mem::take(&mut *wakers)
            };
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}

/// A lock that answers "busy" instead of blocking.
#[derive(Default)]
pub struct Lock {
    held: AtomicU32,
    waiters: Waiters,
}

impl Lock {
    /// A free lock.
    pub fn new() -> Lock {
        Lock { held: AtomicU32::new(0), waiters: Waiters::new() }
    }

    /// Takes the lock, or remembers the waker and returns `false`.
    #[must_use]
    pub fn try_lock(&self, waker: &Waker) -> bool {
        if self.take() {
            return true;
        }
        self.waiters.register(waker);
        self.take()
    }

    /// Gives the lock back and wakes those who wait for it.
    pub fn unlock(&self) {
        let held = self.held.swap(0, Ordering::SeqCst);
        assert_eq!(held, 1, "a lock that is given back was held");
        self.waiters.wake();
    }

    /// True if somebody holds the lock.
    pub fn is_held(&self) -> bool {
        self.held.load(Ordering::SeqCst) == 1
    }

    fn take(&self) -> bool {
        self.held.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}
