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
//!
//! **In a cluster** the sites go on while the process with the order fails, and another process
//! opens the order. The sites have ended all batches but the last one with an outcome
//! ([`super::engine`]). The sites that have entered that batch hold their partitions until the new
//! engine enters it again; no earlier batch may be entered before. A batch without an outcome is
//! decided only once each site was asked for its outcomes, or others have taken over from the site
//! and its log was read.

use super::engine::{Executed, Ordering};
use super::order::BadOrder;
use super::queue::Decided;
use super::recent::Outcome;
use crate::transport::Transport;
use isomer_design::{SiteId, SiteSet};
use isomer_log::LogError;
use isomer_site::{
    BatchAnswer, BatchOutcome, BatchStep, OrderedBatch, OrderedCommit, applied_writes,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The order as it was found, before it is executed.
pub struct Found {
    batches: Vec<OrderedBatch>,
    /// The outcomes that the order has.
    reported: BTreeMap<u64, BatchOutcome>,
    /// Those who may ask what became of the commits of each batch.
    asked: BTreeMap<u64, Vec<Option<Arc<Outcome>>>>,
}

impl Found {
    /// The last batch with commits.
    fn last(&self) -> Option<&OrderedBatch> {
        self.batches.iter().rev().find(|batch| !batch.commits.is_empty())
    }
}

impl<T: Transport> Ordering<T> {
    /// Reads the order. From now on commits can be submitted, and takeovers complete the last
    /// batch, if a site that can be asked now knows its outcome.
    ///
    /// # Errors
    /// [`BadOrder`].
    pub async fn read(&self) -> Result<Found, BadOrder> {
        let batches = self.order.read()?;
        let reported = batches.iter().flat_map(|batch| batch.outcomes.iter().cloned());
        let reported = reported.map(|it| (it.number, it)).collect();
        let note = |commit: &OrderedCommit| self.queue.note_found(commit.id);
        let asked = batches.iter().map(|it| (it.number, it.commits.iter().map(note).collect()));
        let asked = asked.collect();
        let found = Found { batches, reported, asked };
        self.progress.lock().next = found.batches.last().map_or(0, |batch| batch.number) + 1;
        if found.last().is_some() && self.is_apart {
            let mut outcomes: Vec<BatchOutcome> = found.reported.values().cloned().collect();
            for site in self.router.design().sites().iter() {
                outcomes.extend(self.tell(site).await.unwrap_or_default());
            }
            let known = outcomes.iter().map(|outcome| outcome.number).max().unwrap_or(0);
            let batches = found.batches.iter().filter(|it| it.number >= known);
            self.queue.may_lack(batches.cloned().collect(), &outcomes);
        }
        self.queue.begin();
        Ok(found)
    }

    /// Executes what the sites lack. Returns the number of batches that were decided now.
    ///
    /// # Errors
    /// [`BadOrder`].
    pub async fn recover(&self, found: Found) -> Result<u64, BadOrder> {
        let mut outcomes = found.reported.clone();
        if found.last().is_some_and(|last| !outcomes.contains_key(&last.number)) {
            outcomes.extend(self.ask_for_outcomes().await?.into_iter().map(|it| (it.number, it)));
        }
        let last = found.batches.last().map_or(0, |batch| batch.number);
        let known = outcomes.last_key_value().map_or(0, |(number, _)| *number);
        if known > last {
            return Err(BadOrder::Short { last, known });
        }
        let mut decided = 0;
        for batch in found.batches.iter().filter(|batch| !batch.commits.is_empty()) {
            let outcome = outcomes.get(&batch.number);
            if outcome.is_none() && batch.number < known {
                return Err(BadOrder::NoOutcome(batch.number, known));
            }
            decided += u64::from(outcome.is_none());
            let commits: Vec<&OrderedCommit> = batch.commits.iter().collect();
            let executed = match outcome {
                // All sites have it. To enter it again would let partitions go that they hold.
                Some(outcome) if self.is_apart && batch.number < known => Executed::of(outcome),
                outcome => self.execute(batch.number, &commits, outcome).await?,
            };
            let asked = found.asked.get(&batch.number).into_iter().flatten();
            for (asked, answer) in asked.zip(executed.answers()) {
                asked.iter().for_each(|asked| asked.answer(answer.clone()));
            }
            if let Some(outcome) = outcome.filter(|it| !found.reported.contains_key(&it.number)) {
                self.progress.lock().unsettled.push_back((outcome.clone(), None));
            }
        }
        if self.is_apart {
            let design = self.router.design();
            design.sites().iter().for_each(|site| self.queue.may_wait(site));
            self.let_sites_go_on(&SiteSet::EMPTY).await;
        }
        Ok(decided)
    }

    /// The outcomes that the sites know. Waits for each site, unless others have replaced it.
    async fn ask_for_outcomes(&self) -> Result<Vec<BatchOutcome>, LogError> {
        let mut outcomes = Vec::new();
        for site in self.router.design().sites().iter() {
            loop {
                if let Some(told) = self.tell(site).await {
                    outcomes.extend(told);
                    break;
                }
                if self.router.conductor().membership().is_replaced(site) {
                    break;
                }
                if self.router.transport().is_closing() {
                    return Err(self.order.failed("this process stops"));
                }
                self.router.transport().retry(site).await;
            }
        }
        outcomes.extend(self.queue.of_lost());
        Ok(outcomes)
    }

    async fn tell(&self, site: SiteId) -> Option<Vec<BatchOutcome>> {
        match self.router.transport().batch(site, BatchStep::Tell).await {
            Ok(BatchAnswer::Outcomes(outcomes)) => Some(outcomes),
            _ => None,
        }
    }
}

/// The part of a batch with this outcome that sites may lack.
pub(super) fn decided(batch: &OrderedBatch, outcome: BatchOutcome) -> Decided {
    let commits: Vec<&OrderedCommit> = batch.commits.iter().collect();
    Decided { writes: applied_writes(&commits, &outcome.applied), outcomes: vec![outcome] }
}
