//! The cores of a virtual machine. Resumed work has priority over new work; otherwise first come,
//! first served.
//!
//! A task holds a core while it computes. A task that waits for a lock, a replica or the log
//! releases its core, like a sleeping thread. When it wakes up, it gets a core before tasks that
//! have not begun, as with schedulers that favour threads that have slept. It may hold a lock, and
//! then other tasks are blocked until it gets a core.
//!
//! ```text
//!   2 cores     c1 ████████░░░░░░████          ░ waits for its log: no core
//!               c2 ██████████████
//!               c3         ██████████          third: begins when c1 sleeps
//!               c4                 ████████    arrived before c1 woke up; begins after c1 resumed
//! ```
//!
//! Left out: time slices. Work is short, so it is never preempted.

use isomer_sim::world::World;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// See the [module documentation](self).
pub(crate) struct Cores {
    world: Rc<World>,
    cores: u64,
    /// Queues of resumed work and of new work.
    queues: [RefCell<VecDeque<Waiting>>; 2],
    in_use: Cell<u64>,
    /// Nanoseconds for which cores were in use, summed over all cores, until `counted_to`.
    used_ns: Cell<u64>,
    counted_to: Cell<u64>,
    /// The last sample of [`Cores::lately_busy`]: its time, the core time used until then, and the
    /// result.
    lately: Cell<(u64, u64, f64)>,
}

/// The interval over which the use of cores is averaged.
const LATELY_NS: u64 = 500_000_000;

/// The priority of work in the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rank {
    /// Resumed work, which may hold locks; before new work.
    GoesOn,
    /// New work.
    Begins,
}

/// A core in use. Released on drop.
pub(crate) struct Core<'c>(&'c Rc<Cores>);

enum Waiting {
    Task(Rc<Turn>),
    Work(u64, Box<dyn FnOnce()>),
}

/// The place of a task in the queue.
#[derive(Default)]
struct Turn {
    came: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Cores {
    /// Creates `cores` free cores.
    pub(crate) fn new(world: Rc<World>, cores: u16) -> Rc<Cores> {
        Rc::new(Cores {
            world,
            cores: u64::from(cores.max(1)),
            queues: Default::default(),
            in_use: Cell::new(0),
            used_ns: Cell::new(0),
            counted_to: Cell::new(0),
            lately: Cell::new((0, 0, 0.0)),
        })
    }

    /// Waits for a core.
    pub(crate) async fn take(self: &Rc<Cores>, rank: Rank) -> Core<'_> {
        if self.in_use.get() < self.cores {
            self.use_one_more();
            return Core(self);
        }
        let turn = Rc::new(Turn::default());
        self.queues[rank as usize].borrow_mut().push_back(Waiting::Task(turn.clone()));
        poll_fn(|cx| {
            if turn.came.get() {
                return Poll::Ready(());
            }
            *turn.waker.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
        Core(self)
    }

    /// Waits for a core as resumed work and computes for `ns` nanoseconds.
    pub(crate) async fn compute(self: &Rc<Cores>, ns: u64) {
        let _core = self.take(Rank::GoesOn).await;
        self.world.sleep(ns).await;
    }

    /// Computes for `ns` nanoseconds and then calls `done`. Has the priority of new work, because
    /// no task waits for it.
    pub(crate) fn submit(self: &Rc<Cores>, ns: u64, done: impl FnOnce() + 'static) {
        self.submit_as(Rank::Begins, ns, Box::new(done));
    }

    /// Like [`Cores::submit`], but with the priority of resumed work, because a task waits for it.
    pub(crate) fn submit_ahead(self: &Rc<Cores>, ns: u64, done: impl FnOnce() + 'static) {
        self.submit_as(Rank::GoesOn, ns, Box::new(done));
    }

    fn submit_as(self: &Rc<Cores>, rank: Rank, ns: u64, done: Box<dyn FnOnce()>) {
        if self.in_use.get() < self.cores {
            self.use_one_more();
            self.begin(ns, done);
        } else {
            self.queues[rank as usize].borrow_mut().push_back(Waiting::Work(ns, done));
        }
    }

    fn begin(self: &Rc<Cores>, ns: u64, done: Box<dyn FnOnce()>) {
        let cores = self.clone();
        self.world.after(ns, move || {
            done();
            cores.give_back();
        });
    }

    /// The core time used so far in nanoseconds, summed over all cores.
    pub(crate) fn used_ns(&self) -> u64 {
        let now = self.world.now().0;
        let since = now.saturating_sub(self.counted_to.replace(now));
        self.used_ns.set(self.used_ns.get() + since * self.in_use.get());
        self.used_ns.get()
    }

    /// The share of the cores in use, averaged over at least the last [`LATELY_NS`].
    pub(crate) fn lately_busy(&self) -> f64 {
        let (now, used) = (self.world.now().0, self.used_ns());
        let (since, used_then, busy) = self.lately.get();
        if now < since + LATELY_NS {
            return busy;
        }
        let busy = (used - used_then) as f64 / ((now - since) * self.cores) as f64;
        self.lately.set((now, used, busy));
        busy
    }

    fn use_one_more(&self) {
        self.used_ns();
        self.in_use.set(self.in_use.get() + 1);
    }

    /// Passes the core to the next work in the queue, or frees it.
    fn give_back(self: &Rc<Cores>) {
        let next = self.queues.iter().find_map(|queue| queue.borrow_mut().pop_front());
        match next {
            Some(Waiting::Work(ns, done)) => self.begin(ns, done),
            Some(Waiting::Task(turn)) => {
                turn.came.set(true);
                let waker = turn.waker.borrow_mut().take();
                waker.expect("whoever queues leaves its waker").wake();
            }
            None => {
                self.used_ns();
                self.in_use.set(self.in_use.get() - 1);
            }
        }
    }
}

impl Drop for Core<'_> {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_sim::world::Manners;

    /// Returns the order in which tasks that arrive together get the only core.
    fn order(ranks: &[Rank]) -> Vec<usize> {
        let world = World::new(1, Manners::orderly());
        let (cores, order) = (Cores::new(world.clone(), 1), Rc::<RefCell<Vec<usize>>>::default());
        for (number, rank) in ranks.iter().copied().enumerate() {
            let (cores, order, sleeper) = (cores.clone(), order.clone(), world.clone());
            world.spawn(String::new(), async move {
                sleeper.sleep(1 + number as u64).await;
                let _core = cores.take(rank).await;
                order.borrow_mut().push(number);
                sleeper.sleep(1000).await;
            });
        }
        world.run_for(1_000_000, || false);
        let used_ns = cores.used_ns();
        world.end();
        assert_eq!(used_ns, 1000 * ranks.len() as u64);
        order.take()
    }

    #[test]
    fn resumed_work_is_before_new_work() {
        use Rank::{Begins, GoesOn};
        assert_eq!(order(&[Begins, Begins, GoesOn, Begins, GoesOn]), [0, 2, 4, 1, 3]);
    }
}
