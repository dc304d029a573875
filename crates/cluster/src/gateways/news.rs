//! The news of a conductor: what all gateways learn, in one order, each item with a number.
//!
//! ```text
//!   add ─▶ 16  17  18          a gateway with the news up to 16 reads 17 and 18;
//!                              one with those up to 9 has missed some, and joins anew
//! ```
//!
//! Nothing is kept while no gateway of another process has joined, because the design that the next
//! one gets has it all.

use super::messages::News;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};

/// The most items that are kept.
const KEPT_MAX: usize = 4096;
/// The most items in one answer.
const TOLD_MAX: usize = 256;

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct Log {
    is_read: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// The number of the last item.
    last: u64,
    kept: VecDeque<News>,
    waiting: Vec<Waker>,
}

impl Inner {
    fn wake(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }
}

impl Log {
    /// True from when a gateway of another process joins, until the last of them has left.
    pub(crate) fn is_read(&self) -> bool {
        self.is_read.load(Ordering::SeqCst)
    }

    /// Keeps items from now on. Returns the number of the last one.
    pub(crate) fn begin(&self) -> u64 {
        self.is_read.store(true, Ordering::SeqCst);
        self.inner.lock().last
    }

    /// Keeps nothing from now on, until the next [`begin`](Self::begin).
    pub(crate) fn end(&self) {
        self.is_read.store(false, Ordering::SeqCst);
        self.inner.lock().kept.clear();
    }

    /// Adds an item, and returns its number.
    pub(crate) fn add(&self, item: impl FnOnce() -> News) -> u64 {
        if !self.is_read() {
            return 0;
        }
        let mut inner = self.inner.lock();
        inner.last += 1;
        inner.kept.push_back(item());
        if inner.kept.len() > KEPT_MAX {
            inner.kept.pop_front();
        }
        inner.wake();
        inner.last
    }

    /// The number of the last item.
    pub(crate) fn last(&self) -> u64 {
        self.inner.lock().last
    }

    /// The next items after a number. `None` if some of them are not kept any more.
    fn after(&self, number: u64) -> Option<Vec<(u64, News)>> {
        let inner = self.inner.lock();
        let first = inner.last + 1 - inner.kept.len() as u64;
        if number > inner.last || number + 1 < first {
            return None;
        }
        let skipped = (number + 1 - first) as usize;
        let told = inner.kept.iter().skip(skipped).take(TOLD_MAX);
        Some((number + 1..).zip(told.cloned()).collect())
    }

    /// Like [`after`](Self::after), once there are any, or `is_over`.
    pub(crate) async fn next(
        &self,
        number: u64,
        is_over: impl Fn() -> bool,
    ) -> Option<Vec<(u64, News)>> {
        poll_fn(|cx| {
            // In this order, so that an item that is added after the look finds the waker.
            self.inner.lock().waiting.push(cx.waker().clone());
            match self.after(number) {
                Some(items) if items.is_empty() && !is_over() => Poll::Pending,
                items => Poll::Ready(items),
            }
        })
        .await
    }

    /// Makes all that wait look at the time.
    pub(crate) fn tick(&self) {
        self.inner.lock().wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use isomer_design::TableId;

    fn dropped(number: u32) -> News {
        News::Dropped(TableId(number))
    }

    #[test]
    fn a_reader_gets_what_comes_after_its_number_or_learns_that_it_is_too_late() {
        let log = Log::default();
        assert_eq!(log.add(|| dropped(1)), 0, "there is no reader yet");
        assert_eq!(log.begin(), 0);
        assert_eq!((log.add(|| dropped(2)), log.add(|| dropped(3))), (1, 2));
        assert_eq!(log.after(0), Some(vec![(1, dropped(2)), (2, dropped(3))]));
        assert_eq!((log.after(1).map(|items| items.len()), log.after(2)), (Some(1), Some(vec![])));
        assert_eq!(log.after(3), None, "the number is another log's");
        for number in 0..KEPT_MAX as u32 {
            log.add(|| dropped(number));
        }
        assert_eq!(log.after(1), None);
        assert!(log.after(2).is_some_and(|items| items.len() == TOLD_MAX));
        log.end();
        assert_eq!((log.add(|| dropped(9)), log.after(4)), (0, None));
        assert_eq!(log.begin(), log.last());
        assert_eq!(log.after(log.last()), Some(vec![]));
    }

    #[test]
    fn a_wait_ends_with_an_item_or_by_the_clock() {
        let log = Log::default();
        log.begin();
        let is_over = std::cell::Cell::new(false);
        let mut next = Box::pin(log.next(0, || is_over.get()));
        assert!(next.as_mut().now_or_never().is_none());
        log.add(|| dropped(1));
        assert_eq!(next.now_or_never(), Some(Some(vec![(1, dropped(1))])));
        let mut next = Box::pin(log.next(1, || is_over.get()));
        assert!(next.as_mut().now_or_never().is_none());
        is_over.set(true);
        assert_eq!(next.now_or_never(), Some(Some(vec![])));
    }
}
