//! The cores of a virtual machine: who goes on before who begins, and else first come, first served.
//!
//! Whoever computes holds a core, and time passes while it does; whoever waits for a lock, a replica
//! or the log gives it back, as a thread that sleeps does. When it is woken it goes before those who have not begun yet,
//! as a system's scheduler has it with threads that have slept: it may have been woken by a lock, and as long as it waits
//! for a core nobody gets anything done with that.
//!
//! ```text
//!   2 cores     c1 ████████░░░░░░████          ░ waits for its log: no core
//!               c2 ██████████████
//!               c3         ██████████          came third: begins when c1 sleeps
//!               c4                 ████████    came before c1 was woken, and begins after it has gone on
//! ```
//!
//! Left out: time slices. Work here is short, so nobody is interrupted.

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
    /// Those who go on, and those who begin.
    queues: [RefCell<VecDeque<Waiting>>; 2],
    in_use: Cell<u64>,
    /// Nanoseconds that cores were in use, summed up over cores, until `counted_to`.
    used_ns: Cell<u64>,
    counted_to: Cell<u64>,
    /// When somebody last asked how busy they were, how much they had been used then, and the answer.
    lately: Cell<(u64, u64, f64)>,
}

/// Over how long the use of cores is averaged for whoever asks.
const LATELY_NS: u64 = 500_000_000;

/// Who is next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rank {
    /// It has begun and may hold locks: before those who begin.
    GoesOn,
    /// It has not begun.
    Begins,
}

/// A core in use. Dropping it gives it back.
pub(crate) struct Core<'c>(&'c Rc<Cores>);

enum Waiting {
    Task(Rc<Turn>),
    Work(u64, Box<dyn FnOnce()>),
}

/// A task's place in the queue.
#[derive(Default)]
struct Turn {
    came: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Cores {
    /// So many cores, all free.
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

    /// Waits for a core, to begin or to go on.
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

    /// Goes on and computes for so long.
    pub(crate) async fn compute(self: &Rc<Cores>, ns: u64) {
        let _core = self.take(Rank::GoesOn).await;
        self.world.sleep(ns).await;
    }

    /// Has something computed for so long and then done; nobody waits for it, so it is behind those who go on.
    pub(crate) fn submit(self: &Rc<Cores>, ns: u64, done: impl FnOnce() + 'static) {
        self.submit_as(Rank::Begins, ns, Box::new(done));
    }

    /// The same for what somebody waits for: it goes before what has not begun.
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

    /// Nanoseconds of computing so far, over all cores.
    pub(crate) fn used_ns(&self) -> u64 {
        let now = self.world.now().0;
        let since = now.saturating_sub(self.counted_to.replace(now));
        self.used_ns.set(self.used_ns.get() + since * self.in_use.get());
        self.used_ns.get()
    }

    /// The share of the cores that was in use since about [`LATELY_NS`] ago.
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

    /// The next in the queue gets it.
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

    /// In which order those who come at once get the only core.
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
    fn who_goes_on_is_before_who_begins() {
        use Rank::{Begins, GoesOn};
        assert_eq!(order(&[Begins, Begins, GoesOn, Begins, GoesOn]), [0, 2, 4, 1, 3]);
    }
}
