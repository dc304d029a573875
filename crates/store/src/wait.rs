//! Waiting without blocking: who has to wait leaves a waker and is told when to try again.
//!
//! Nothing below the edge may block, as the same code runs on many threads, on a server's workers
//! and on the one thread of the simulator. A busy lock is an answer; the [`Waker`] decides what
//! waiting means.

use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering};
use isomer_design::Time;
use std::collections::VecDeque;
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

/// Those who wait for something to reach a time, each for its own: nobody is woken before.
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
    /// Leaves a waker for when `time` is reached. The caller must look once more whether it is.
    pub(crate) fn set(&self, time: Time, waker: &Waker) {
        let mut set = self.set.lock();
        set.retain(|(_, other)| !other.will_wake(waker));
        set.push((time, waker.clone()));
        self.earliest.fetch_min(time.0, Ordering::SeqCst);
    }

    /// The time is reached, and everybody can see it; costs one load when nobody waits for that.
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

/// A lock that answers "busy" instead of blocking, and keeps a queue of those who want to be told.
///
/// ```text
///   state    queue
///   held     ─                    given back: free
///   held     t2, t3               given back: free, and t2 is woken; who comes by may be faster
///   held     t2 (tried), t3       t2 came too late: it is first again
///   held     t3                   given back to t2, overtaken too often: it is never free in between
/// ```
///
/// One waiter is woken at a time, so no time is spent on those who would find it taken again. Who comes
/// by while a woken one is on its way takes a free lock: that keeps a busy lock in use. But a waiter that
/// was overtaken [`OVERTAKEN_MAX`] times is handed the lock the next time, so nobody starves.
///
/// A waiter has a [`Turn`]; if it does not want the lock any more, it must [`leave`](Lock::leave).
#[derive(Default)]
pub struct Lock {
    /// [`HELD`], [`WANTED`].
    state: AtomicU32,
    queue: Mutex<Queue>,
}

const HELD: u32 = 1;
/// The queue must be looked at when the lock is given back.
const WANTED: u32 = 2;

/// So often a waiter is woken and comes too late. A lock that is handed to a sleeper is idle until it is up, so
/// that should be rare.
const OVERTAKEN_MAX: u32 = 3;

/// A place in the queue of a [`Lock`]; none at first.
#[derive(Default, Debug)]
pub struct Turn {
    number: u32,
    overtaken: u32,
    is_urgent: bool,
}

impl Turn {
    /// A place before all others. For what is rare, and helps those who queue.
    pub fn urgent() -> Turn {
        Turn { is_urgent: true, ..Turn::default() }
    }
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiter>,
    /// The turn to which the held lock was handed over, if that has not noticed yet.
    granted: u32,
    last_turn: u32,
}

struct Waiter {
    turn: u32,
    waker: Waker,
    /// How often it was woken, and came too late.
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
        // Another's change of the state is as good as another's lock: whoever waits looks again.
        state & HELD == 0
            && self.state.compare_exchange(state, held, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Takes the lock, or queues for it and returns `false`: then the waker will be woken.
    #[must_use]
    #[inline]
    pub fn try_lock(&self, turn: &mut Turn, waker: &Waker) -> bool {
        (turn.number == 0 && self.try_once()) || self.take_turn(turn, waker)
    }

    /// Gives the lock back, and tells who is next.
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
        // It was woken and does not come: if nobody has the lock, the next one has to be told.
        let is_free = self.state.load(Ordering::SeqCst) & HELD == 0;
        let next =
            if queued == queue.waiting.len() && is_free { queue.waiting.pop_front() } else { None };
        drop(queue);
        next.into_iter().for_each(|next| next.waker.wake());
    }

    /// True if somebody holds the lock.
    pub fn is_held(&self) -> bool {
        self.state.load(Ordering::SeqCst) & HELD != 0
    }

    /// How many wait for it.
    pub fn queued(&self) -> usize {
        self.queue.lock().waiting.len()
    }

    #[cold]
    fn take_turn(&self, turn: &mut Turn, waker: &Waker) -> bool {
        let mut queue = self.queue.lock();
        let queue = &mut *queue;
        let is_granted = turn.number != 0 && queue.granted == turn.number;
        // From here on whoever gives the lock back asks for the queue first.
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
