//! What is to be done and no transaction waits for, until somebody does it.

use isomer_store::Waiters;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::Poll;

/// See the [module documentation](self).
pub(crate) struct Backlog<T> {
    queue: Mutex<Queue<T>>,
    more: Waiters,
    max: usize,
}

struct Queue<T> {
    items: VecDeque<T>,
    closed: bool,
}

impl<T> Backlog<T> {
    /// With room for so many.
    pub(crate) fn new(max: usize) -> Backlog<T> {
        let queue = Mutex::new(Queue { items: VecDeque::new(), closed: false });
        Backlog { queue, more: Waiters::default(), max }
    }

    /// Adds something; gives it back if there is no room.
    pub(crate) fn add(&self, item: T) -> Result<(), T> {
        {
            let mut queue = self.queue.lock();
            if queue.closed || queue.items.len() >= self.max {
                return Err(item);
            }
            queue.items.push_back(item);
        }
        self.more.wake();
        Ok(())
    }

    /// The next, once there is one; `None` if there will be no more.
    pub(crate) async fn next(&self) -> Option<T> {
        let look = || {
            let mut queue = self.queue.lock();
            match queue.items.pop_front() {
                _ if queue.closed => Poll::Ready(None),
                Some(item) => Poll::Ready(Some(item)),
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

    /// All that waits.
    pub(crate) fn waiting(&self) -> Vec<T>
    where
        T: Clone,
    {
        self.queue.lock().items.iter().cloned().collect()
    }

    /// True once it is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.queue.lock().closed
    }

    /// Nothing more is done.
    pub(crate) fn close(&self) {
        self.queue.lock().closed = true;
        self.more.wake();
    }
}
