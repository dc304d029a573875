//! Futures without a runtime.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// Runs futures at once, on the task that waits for them; gives their results in order.
pub async fn join_all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut running: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let mut results: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    poll_fn(move |cx| {
        for (future, result) in running.iter_mut().zip(&mut results) {
            if result.is_none()
                && let Poll::Ready(done) = future.as_mut().poll(cx)
            {
                *result = Some(done);
            }
        }
        if results.iter().all(Option::is_some) {
            return Poll::Ready(results.iter_mut().filter_map(Option::take).collect());
        }
        Poll::Pending
    })
    .await
}
