//! Waiting without blocking: a caller that has to wait leaves a waker and retries when it is woken.
//!
//! No code below the process's edge may block, because the same code runs on many threads, on a
//! server's workers, and on the one thread of the simulator. A busy lock is a return value; the
//! [`Waker`] decides how to wait.

use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering};
use isomer_design::Time;
use std::collections::VecDeque;
use std::task::Waker;

/// The wakers that wait for one condition.
///
/// To wait: [`register`](Waiters::register), check the condition again, and only then sleep. To
/// wake: make the change visible, then [`wake`](Waiters::wake). At least one of the two sees the
/// other.
#[derive(Default)]
pub struct Waiters {
    some: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
}

impl Waiters {
    /// Holds no waker yet.
    pub fn new() -> Waiters {
        Waiters { some: AtomicBool::new(false), wakers: Mutex::new(Vec::new()) }
    }

    /// Registers a waker. The caller must check the condition again before it sleeps.
    pub fn register(&self, waker: &Waker) {
        let mut wakers = self.wakers.lock();
        if !wakers.iter().any(|other| other.will_wake(waker)) {
            wakers.push(waker.clone());
        }
        self.some.store(true, Ordering::SeqCst);
    }

    /// Wakes and removes all wakers. Costs one load when there are none.
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

/// Wakers that wait for a value to reach a time, each for its own time. None is woken earlier.
pub(crate) struct Alarms {
    earliest: AtomicU64,
    set: Mutex<Vec<(Time, Waker)>>,
}

impl Default for Alarms {
    fn default() -> Alarms {
        Alarms { earliest: AtomicU64::new(u64::MAX), set: Mutex::new(Vec::new()) }
    }
}

impl Alarms {
    /// Registers a waker for `time`. The caller must check again whether that time is reached.
    pub(crate) fn set(&self, time: Time, waker: &Waker) {
        let mut set = self.set.lock();
        set.retain(|(_, other)| !other.will_wake(waker));
        set.push((time, waker.clone()));
        self.earliest.fetch_min(time.0, Ordering::SeqCst);
    }

    /// Wakes the wakers up to `time`, which must already be visible. Costs one load if there are
    /// none.
    pub(crate) fn ring(&self, time: Time) {
        if self.earliest.load(Ordering::SeqCst) > time.0 {
            return;
        }
        let mut set = self.set.lock();
        let (rings, later) = set.drain(..).partition::<Vec<_>, _>(|(at, _)| *at <= time);
        let earliest = later.iter().map(|(at, _)| at.0).min().unwrap_or(u64::MAX);
        self.earliest.store(earliest, Ordering::SeqCst);
        *set = later;
        drop(set);
        rings.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

/// A lock that returns "busy" instead of blocking, and keeps a queue of waiters.
///
/// ```text
///   state    queue
///   held     ─                    unlocked: free
///   held     t2, t3               unlocked: free, and t2 is woken; another caller may be faster
///   held     t2 (overtaken), t3   t2 came too late: it is first again
///   held     t3                   handed to t2, which was overtaken too often: never free
/// ```
///
/// One waiter is woken at a time, since the others would find the lock taken again. A caller that
/// arrives before the woken waiter takes the free lock, which keeps a busy lock in use. But a
/// waiter that was overtaken [`OVERTAKEN_MAX`] times is handed the lock the next time, so no waiter
/// starves.
///
/// A waiter has a [`Turn`]. If it stops waiting, it must [`leave`](Lock::leave).
#[derive(Default)]
pub struct Lock {
    /// [`HELD`], [`WANTED`].
    state: AtomicU32,
    queue: Mutex<Queue>,
}

const HELD: u32 = 1;
/// The queue must be consulted at the unlock.
const WANTED: u32 = 2;

/// A waiter that was woken this many times and came too late is handed the lock the next time. A
/// handed-over lock is idle until the waiter runs, so this should be rare.
const OVERTAKEN_MAX: u32 = 3;

/// A place in the queue of a [`Lock`]; initially none.
#[derive(Default, Debug)]
pub struct Turn {
    number: u32,
    overtaken: u32,
    is_urgent: bool,
}

impl Turn {
    /// A place before all others. For rare operations that shorten the queue.
    pub fn urgent() -> Turn {
        Turn { is_urgent: true, ..Turn::default() }
    }
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiter>,
    /// The turn to which the held lock was handed over, until that waiter takes it; otherwise 0.
    granted: u32,
    last_turn: u32,
}

struct Waiter {
    turn: u32,
    waker: Waker,
    /// How many times it was woken and came too late.
    overtaken: u32,
}

impl Waiter {
    fn of(turn: &Turn, waker: &Waker) -> Waiter {
        Waiter { turn: turn.number, waker: waker.clone(), overtaken: turn.overtaken }
    }
}

impl Lock {
    /// A free lock.
    pub fn new() -> Lock {
        Lock::default()
    }

    /// Takes the lock if it is free.
    #[must_use]
    #[inline]
    pub fn try_once(&self) -> bool {
        let state = self.state.load(Ordering::SeqCst);
        let held = state | HELD;
        // A concurrent change of the state counts as "busy": a waiter checks again under the queue.
        state & HELD == 0
            && self.state.compare_exchange(state, held, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Takes the lock, or queues for it and returns `false`: then the waker is woken later.
    #[must_use]
    #[inline]
    pub fn try_lock(&self, turn: &mut Turn, waker: &Waker) -> bool {
        (turn.number == 0 && self.try_once()) || self.take_turn(turn, waker)
    }

    /// Releases the lock and wakes the next waiter.
    #[inline]
    pub fn unlock(&self) {
        if self.state.compare_exchange(HELD, 0, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            self.pass_on();
        }
    }

    /// Gives up a turn, if there is one.
    pub fn leave(&self, turn: &mut Turn) {
        let number = std::mem::take(turn).number;
        if number == 0 {
            return;
        }
        let mut queue = self.queue.lock();
        if queue.granted == number {
            queue.granted = 0;
            drop(queue);
            return self.pass_on();
        }
        let queued = queue.waiting.len();
        queue.waiting.retain(|waiter| waiter.turn != number);
        // This waiter was woken but does not come. If the lock is free, the next one must be woken.
        let is_free = self.state.load(Ordering::SeqCst) & HELD == 0;
        let next =
            if queued == queue.waiting.len() && is_free { queue.waiting.pop_front() } else { None };
        drop(queue);
        next.into_iter().for_each(|next| next.waker.wake());
    }

    /// True if the lock is held.
    pub fn is_held(&self) -> bool {
        self.state.load(Ordering::SeqCst) & HELD != 0
    }

    /// The number of waiters.
    pub fn queued(&self) -> usize {
        self.queue.lock().waiting.len()
    }

    #[cold]
    fn take_turn(&self, turn: &mut Turn, waker: &Waker) -> bool {
        let mut queue = self.queue.lock();
        let queue = &mut *queue;
        let is_granted = turn.number != 0 && queue.granted == turn.number;
        // From here on, an unlock consults the queue first.
        if is_granted || self.state.fetch_or(HELD | WANTED, Ordering::SeqCst) & HELD == 0 {
            queue.waiting.retain(|waiter| waiter.turn != turn.number);
            if is_granted {
                queue.granted = 0;
            }
            *turn = Turn::default();
            return true;
        }
        let is_new = turn.number == 0;
        if is_new {
            queue.last_turn = queue.last_turn.checked_add(1).unwrap_or(1);
            turn.number = queue.last_turn;
        }
        match queue.waiting.iter_mut().find(|waiter| waiter.turn == turn.number) {
            Some(waiter) => waiter.waker.clone_from(waker),
            None if is_new && !turn.is_urgent => queue.waiting.push_back(Waiter::of(turn, waker)),
            None => {
                turn.overtaken += u32::from(!is_new);
                queue.waiting.push_front(Waiter::of(turn, waker));
            }
        }
        false
    }

    #[cold]
    fn pass_on(&self) {
        let mut queue = self.queue.lock();
        let next = queue.waiting.pop_front();
        let wanted = if queue.waiting.is_empty() { 0 } else { WANTED };
        let is_handed_over = next.as_ref().is_some_and(|next| next.overtaken >= OVERTAKEN_MAX);
        let state = if is_handed_over { HELD | WANTED } else { wanted };
        if is_handed_over {
            queue.granted = next.as_ref().map_or(0, |next| next.turn);
        }
        let before = self.state.swap(state, Ordering::SeqCst);
        assert!(before & HELD != 0, "a lock that is given back was held");
        drop(queue);
        next.into_iter().for_each(|next| next.waker.wake());
    }
}
