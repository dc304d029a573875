//! A bounded queue of work that no transaction waits for.

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
    /// A queue of up to `max` items.
    pub(crate) fn new(max: usize) -> Backlog<T> {
        let queue = Mutex::new(Queue { items: VecDeque::new(), closed: false });
        Backlog { queue, more: Waiters::default(), max }
    }

    /// Adds an item. Returns it if the queue is full or closed.
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

    /// Waits for the next item. `None` once the queue is closed.
    pub(crate) async fn next(&self) -> Option<T> {
        let look = || {
            let mut queue = self.queue.lock();
            match queue.items.pop_front() {
                _ if queue.closed => Poll::Ready(None),
                Some(item) => Poll::Ready(Some(item)),
                None => Poll::Pending,
            }
        };
        found(&self.more, look).await
    }

    /// Removes all items that wait, and returns them.
    pub(crate) fn take_all(&self) -> Vec<T> {
        self.queue.lock().items.drain(..).collect()
    }

    /// All items that wait.
    pub(crate) fn waiting(&self) -> Vec<T>
    where
        T: Clone,
    {
        self.queue.lock().items.iter().cloned().collect()
    }

    /// Closes the queue: items that wait are not handed out any more.
    pub(crate) fn close(&self) {
        self.queue.lock().closed = true;
        self.more.wake();
    }
}

/// Repeats `look` until it finds something: at once, and whenever `more` is woken.
pub(super) async fn found<T>(more: &Waiters, look: impl Fn() -> Poll<T>) -> T {
    poll_fn(|cx| {
        let found = look();
        if found.is_ready() {
            return found;
        }
        more.register(cx.waker());
        look()
    })
    .await
}
