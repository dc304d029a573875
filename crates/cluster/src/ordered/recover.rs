//! Recovery: executes what a crash has cut off.
//!
//! ```text
//!   the order ∪ frames of the sites ─▶ outcomes that are known
//!   batch with an outcome            ─▶ applied at its time, where it is not there yet
//!   batch without                    ─▶ decided now: no site has rows of it, nor of a later one
//! ```
//!
//! The time of a partition's last event says which batches it has, so no site needs a note of the
//! last batch.

use super::engine::Ordering;
use super::order::BadOrder;
use crate::transport::Transport;
use isomer_site::{BatchOutcome, OrderedCommit};
use std::collections::BTreeMap;

impl<T: Transport> Ordering<T> {
    /// Executes what the sites lack. `recovered` are the outcomes in the logs of the sites. Returns
    /// the number of batches that were decided now.
    ///
    /// # Errors
    /// [`BadOrder`].
    pub(crate) async fn recover(&self, recovered: Vec<BatchOutcome>) -> Result<u64, BadOrder> {
        let batches = self.order.read()?;
        let reported = batches.iter().flat_map(|batch| batch.outcomes.iter().cloned());
        let reported: BTreeMap<u64, BatchOutcome> = reported.map(|it| (it.number, it)).collect();
        let mut outcomes = reported.clone();
        outcomes.extend(recovered.into_iter().map(|it| (it.number, it)));
        let last = batches.last().map_or(0, |batch| batch.number);
        let known = outcomes.last_key_value().map_or(0, |(number, _)| *number);
        if known > last {
            return Err(BadOrder::Short { last, known });
        }
        self.progress.lock().next = last + 1;
        let mut decided = 0;
        for batch in batches.iter().filter(|batch| !batch.commits.is_empty()) {
            let outcome = outcomes.get(&batch.number);
            if outcome.is_none() && batch.number < known {
                return Err(BadOrder::NoOutcome(batch.number, known));
            }
            decided += u64::from(outcome.is_none());
            let commits: Vec<&OrderedCommit> = batch.commits.iter().collect();
            self.execute(batch.number, &commits, outcome).await?;
            if let Some(outcome) = outcome.filter(|it| !reported.contains_key(&it.number)) {
                self.progress.lock().unsettled.push_back((outcome.clone(), None));
            }
        }
        Ok(decided)
    }
}
