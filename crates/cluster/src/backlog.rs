//! Plans that no transaction waits for, until somebody carries them out.

use isomer_design::Plan;
use isomer_store::Waiters;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::Poll;

/// More plans than this do not wait: by the time it is their turn, the design would be another.
const PLANS_MAX: usize = 64;

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct Backlog {
    queue: Mutex<Queue>,
    more: Waiters,
}

#[derive(Default)]
struct Queue {
    plans: VecDeque<Plan>,
    closed: bool,
}

impl Backlog {
    /// Adds a plan; gives it back if there is no room.
    pub(crate) fn add(&self, plan: Plan) -> Result<(), Plan> {
        {
            let mut queue = self.queue.lock();
            if queue.closed || queue.plans.len() >= PLANS_MAX {
                return Err(plan);
            }
            queue.plans.push_back(plan);
        }
        self.more.wake();
        Ok(())
    }

    /// The next plan, once there is one; `None` if there will be no more.
    pub(crate) async fn next(&self) -> Option<Plan> {
        let look = || {
            let mut queue = self.queue.lock();
            match queue.plans.pop_front() {
                _ if queue.closed => Poll::Ready(None),
                Some(plan) => Poll::Ready(Some(plan)),
                None => Poll::Pending,
            }
        };
        poll_fn(|cx| {
            let found = look();
            if found.is_ready() {
                return found;
            }
            self.more.register(cx.waker());
            look()
        })
        .await
    }

    /// The plans that wait.
    pub(crate) fn waiting(&self) -> Vec<Plan> {
        self.queue.lock().plans.iter().cloned().collect()
    }

    /// Nothing more is carried out.
    pub(crate) fn close(&self) {
        self.queue.lock().closed = true;
        self.more.wake();
    }
}
