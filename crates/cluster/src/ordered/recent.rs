//! The outcomes of commits of gateways elsewhere.
//!
//! A gateway that gets no answer does not know whether its commit was applied. It asks again by the
//! commit's name: this conductor, or the next one, which has read the order.
//!
//! ```text
//!   in the order, not executed yet     the answer comes with the execution
//!   executed lately                    its answer
//!   not in the order                   never: the name is refused from now on, should it still come
//! ```

use super::queue::{Applied, NotOrdered};
use isomer_site::CommitId;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// The names that are kept. Gateways ask within seconds.
const KEPT: usize = 100_000;

/// The answer to a commit, once there is one.
#[derive(Default)]
pub(crate) struct Outcome(Mutex<Answer>);

#[derive(Default)]
struct Answer {
    is: Option<Result<Applied, NotOrdered>>,
    waiting: Vec<Waker>,
}

impl Outcome {
    pub(crate) fn answer(&self, answer: Result<Applied, NotOrdered>) {
        let mut state = self.0.lock();
        state.is.get_or_insert(answer);
        state.waiting.drain(..).for_each(Waker::wake);
    }

    pub(super) async fn wait(&self) -> Result<Applied, NotOrdered> {
        poll_fn(|cx| {
            let mut state = self.0.lock();
            match &state.is {
                Some(answer) => Poll::Ready(answer.clone()),
                None => {
                    state.waiting.push(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

/// See the [module documentation](self).
#[derive(Default)]
pub(super) struct Recent {
    outcomes: HashMap<CommitId, Arc<Outcome>>,
    /// The names, oldest first.
    names: VecDeque<CommitId>,
}

impl Recent {
    /// The outcome of a new commit; `None` if a gateway knows that it never comes.
    pub(super) fn begin(&mut self, id: CommitId) -> Option<Arc<Outcome>> {
        if id.gateway == 0 {
            return Some(Arc::default());
        }
        match self.outcomes.contains_key(&id) {
            true => None,
            false => Some(self.keep(id)),
        }
    }

    /// The outcome of a commit that may have come. If it has not, it never will.
    pub(super) fn find(&mut self, id: CommitId) -> Arc<Outcome> {
        if let Some(known) = self.outcomes.get(&id) {
            return known.clone();
        }
        let never = self.keep(id);
        never.answer(Err(NotOrdered::Never));
        never
    }

    fn keep(&mut self, id: CommitId) -> Arc<Outcome> {
        let outcome = Arc::<Outcome>::default();
        self.outcomes.insert(id, outcome.clone());
        self.names.push_back(id);
        if self.names.len() > KEPT
            && let Some(oldest) = self.names.pop_front()
        {
            self.outcomes.remove(&oldest);
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use isomer_design::{SiteId, Time};

    #[test]
    fn a_name_has_one_outcome_and_one_that_was_asked_for_first_never_comes() {
        let mut recent = Recent::default();
        let [first, second] = [1, 2].map(|number| CommitId { gateway: 9, number });
        let outcome = recent.begin(first).expect("it is new");
        assert!(recent.find(first).wait().now_or_never().is_none(), "it is not executed yet");
        outcome.answer(Ok(Applied { time: Time(5), site: SiteId(1) }));
        assert!(recent.find(first).wait().now_or_never().expect("an answer").is_ok());
        let never = recent.find(second).wait().now_or_never().expect("an answer");
        assert!(matches!(never, Err(NotOrdered::Never)));
        assert!(recent.begin(second).is_none(), "it has come too late");
    }
}
