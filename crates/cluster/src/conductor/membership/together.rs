//! Work on many items at once, where one item may wait for another.
//!
//! ```text
//!   items ─▶ up to AT_ONCE under way ─▶ done
//!               │        └─ none has ended during a pause: AT_ONCE more, as the ones that are
//!               │           under way may wait for one behind them
//!               └─ refused ─▶ again, while others are under way
//! ```
//!
//! A bound is needed because each piece of work may hold the description of a whole site.

use super::AT_ONCE;
use futures_util::StreamExt;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use std::collections::VecDeque;

/// The end of a task.
enum Ended<I, R> {
    /// An item is done, or was refused.
    Item(Result<(), (I, R)>),
    /// The items to try again, or all that were refused before.
    Again(Result<Vec<I>, Vec<(I, R)>>),
    /// A pause is over.
    Pause,
}

/// Works on all items. Items that were refused are tried again, as `again` returns them, while
/// others are under way. Returns a refusal once only refused items are left.
pub(super) async fn work_on_all<I, R>(
    items: Vec<I>,
    work: impl AsyncFn(&I) -> Result<(), R>,
    again: impl AsyncFn(Vec<(I, R)>) -> Result<Vec<I>, Vec<(I, R)>>,
    pause: impl AsyncFn(),
) -> Result<(), R> {
    let (work, again, pause) = (&work, &again, &pause);
    let mut under_way: FuturesUnordered<LocalBoxFuture<'_, Ended<I, R>>> = FuturesUnordered::new();
    let (mut waiting, mut refused) = (VecDeque::from(items), Vec::new());
    let (mut count, mut is_again, mut is_pausing) = (0, false, false);
    let (mut most, mut has_any_ended) = (AT_ONCE, false);
    loop {
        while count < most
            && let Some(item) = waiting.pop_front()
        {
            count += 1;
            under_way.push(Box::pin(async move {
                let done = work(&item).await;
                Ended::Item(done.map_err(|refusal| (item, refusal)))
            }));
        }
        if count == 0 && !is_again {
            return refused.pop().map_or(Ok(()), |(_, refusal)| Err(refusal));
        }
        if !is_again && !refused.is_empty() {
            is_again = true;
            let refused = std::mem::take(&mut refused);
            under_way.push(Box::pin(async move { Ended::Again(again(refused).await) }));
        }
        if !is_pausing && !waiting.is_empty() {
            (is_pausing, has_any_ended) = (true, false);
            under_way.push(Box::pin(async move {
                pause().await;
                Ended::Pause
            }));
        }
        match under_way.next().await.expect("an item, or the next attempt, is under way") {
            Ended::Item(done) => {
                count -= 1;
                has_any_ended = true;
                refused.extend(done.err());
            }
            Ended::Again(now) => {
                is_again = false;
                match now {
                    Ok(now) => waiting.extend(now),
                    Err(still) => refused.extend(still),
                }
            }
            Ended::Pause => {
                is_pausing = false;
                most += if has_any_ended { 0 } else { AT_ONCE };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    /// Polls a future again and again, as if it were always woken.
    fn run<T>(future: impl Future<Output = T>) -> Option<T> {
        let (mut future, mut cx) = (pin!(future), Context::from_waker(Waker::noop()));
        (0..10_000).find_map(|_| match future.as_mut().poll(&mut cx) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        })
    }

    async fn once_more() {
        let mut is_first = true;
        poll_fn(|cx| {
            cx.waker().wake_by_ref();
            if std::mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    #[test]
    fn an_item_may_wait_for_one_far_behind_it() {
        let (last, is_done) = (3 * AT_ONCE, Cell::new(false));
        let most = Cell::new(0_usize);
        let under_way = Cell::new(0_usize);
        let work = async |item: &usize| {
            under_way.set(under_way.get() + 1);
            most.set(most.get().max(under_way.get()));
            while *item != last && !is_done.get() {
                once_more().await;
            }
            is_done.set(true);
            under_way.set(under_way.get() - 1);
            Ok::<(), ()>(())
        };
        let pause = async || {
            assert!(under_way.get() > 0, "a pause is only needed while work is under way");
            once_more().await;
        };
        let done = run(work_on_all((0..=last).collect(), work, async |all| Err(all), pause));
        assert_eq!(done, Some(Ok(())));
        assert!(most.get() > last, "all of them have to be under way");
    }

    #[test]
    fn items_that_wait_for_none_are_worked_on_in_turns() {
        let (most, under_way) = (Cell::new(0_usize), Cell::new(0_usize));
        let work = async |_: &usize| {
            under_way.set(under_way.get() + 1);
            most.set(most.get().max(under_way.get()));
            once_more().await;
            under_way.set(under_way.get() - 1);
            Ok::<(), ()>(())
        };
        let pause = async || {
            once_more().await;
            once_more().await;
            once_more().await;
        };
        let done = run(work_on_all((0..10 * AT_ONCE).collect(), work, async |all| Err(all), pause));
        assert_eq!((done, most.get()), (Some(Ok(())), AT_ONCE));
    }

    #[test]
    fn what_was_refused_is_tried_again_while_others_are_under_way() {
        let tried = RefCell::new(Vec::new());
        let work = async |item: &u32| {
            tried.borrow_mut().push(*item);
            match item {
                // Item 2 is under way until item 1 was tried again.
                2 => {
                    while tried.borrow().iter().filter(|item| **item == 1).count() < 2 {
                        once_more().await;
                    }
                    Ok(())
                }
                _ => Err("not yet"),
            }
        };
        let again = async |refused: Vec<(u32, &'static str)>| {
            once_more().await;
            Ok(refused.into_iter().map(|(item, _)| item).collect())
        };
        let done = run(work_on_all(vec![1, 2], work, again, once_more));
        assert_eq!(done, Some(Err("not yet")), "the last refusal, once nothing else is under way");
        assert!(tried.borrow().len() >= 3, "{tried:?}");
    }
}
