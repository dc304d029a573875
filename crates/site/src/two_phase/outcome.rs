//! Delivery of outcomes to participants, despite lost messages and failed sites.
//!
//! The coordinator tells the participants once its decision is durable. It repeats that to those
//! that have not acknowledged it. A participant without news asks. Nothing here waits: all of it
//! runs when a message arrives, and at every tick.

use super::participant::Branch;
use super::{Decided, TransactionTable};
use crate::backup::Seen;
use crate::frame::TxnId;
use crate::message::Message;
use crate::site::Site;
use crate::tail::{FrameBytes, Unended};
use isomer_design::{SiteId, SiteSet, Time};
use isomer_log::LogError;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::Poll;

/// Without news for this many nanoseconds, a participant asks and a coordinator repeats its
/// message. Much longer than a commit takes under load, because early questions would add to the
/// load.
const SILENCE_NS: u64 = 200_000_000;

impl Site {
    /// The number of transactions over several sites that are not finished here.
    pub fn unfinished(&self) -> usize {
        let transactions = self.transactions.lock();
        transactions.undecided.len()
            + transactions.decided.len()
            + transactions.branches.len()
            + transactions.ended.len()
    }

    /// Waits until no transaction over several sites needs this site. Required before the site
    /// leaves the cluster.
    ///
    /// # Errors
    /// [`LogError`] if the log has failed; open transactions then end after a restart.
    pub async fn finish(&self) -> Result<(), LogError> {
        while self.unfinished() > 0 {
            self.serving()?;
            self.next_tick().await;
        }
        Ok(())
    }

    /// Tells the participants a durable decision.
    pub(super) fn tell(&self, txn: TxnId) {
        if let Some(decided) = self.transactions.lock().decided.get_mut(&txn) {
            self.tell_again(txn, decided);
        }
    }

    fn tell_again(&self, txn: TxnId, decided: &mut Decided) {
        decided.told = self.time.now();
        for site in decided.waiting.iter() {
            self.send(site, Message::Outcome { txn, at: Some(decided.at) });
        }
    }

    /// Answers a participant's question for an outcome.
    pub(crate) fn asked_for_outcome(&self, from: SiteId, txn: TxnId) {
        let transactions = self.transactions.lock();
        if transactions.undecided.contains(&txn) {
            return; // The decision will be sent.
        }
        let at = match transactions.decided.get(&txn) {
            Some(decided) if decided.position > self.log.durable() => return,
            Some(decided) => Some(decided.at),
            None => None,
        };
        drop(transactions);
        self.send(from, Message::Outcome { txn, at });
    }

    /// Applies an outcome: the commit time, or `None` for an abort.
    pub(crate) fn hear_outcome(&self, txn: TxnId, at: Option<Time>) {
        let mut transactions = self.transactions.lock();
        let Some(branch) = transactions.branches.get(&txn) else {
            let is_ending = transactions.ended.iter().any(|(other, _)| *other == txn);
            if at.is_some() && !is_ending {
                // It has ended, perhaps in an earlier run; backups may not have acknowledged it
                // yet.
                let seen = Seen { position: 0, ticket: self.last_ticket() };
                transactions.ended.push((txn, seen));
                drop(transactions);
                self.tell_done();
            }
            return;
        };
        if let Some(prepared) = &branch.prepared {
            match self.end_prepared(txn, branch, prepared, at) {
                Ok(position) if at.is_some() => {
                    let seen = Seen { position, ticket: self.last_ticket() };
                    transactions.ended.push((txn, seen));
                }
                Ok(_) => {} // An abort is not acknowledged: a participant without it asks again.
                // It stays prepared until the outcome comes again.
                Err(error) => {
                    return self.trouble(&format!("{txn} cannot be ended: {error}"));
                }
            }
        }
        let branch = transactions.branches.remove(&txn);
        drop(transactions);
        branch.into_iter().for_each(|branch| self.release_pin(branch));
    }

    /// Records that a participant has ended these transactions durably.
    pub(crate) fn hear_done(&self, from: SiteId, txns: &[TxnId]) {
        let mut transactions = self.transactions.lock();
        for txn in txns {
            let Some(decided) = transactions.decided.get_mut(txn) else { continue };
            decided.waiting = decided.waiting.without(from);
            if decided.waiting.is_empty()
                && let Some(Decided { waiter: Some(waiter), .. }) = transactions.decided.remove(txn)
            {
                waiter.wake();
            }
        }
    }

    /// A coordinator has restarted: the next tick asks for the transactions of its earlier runs.
    pub(crate) fn has_restarted(&self, coordinator: SiteId, incarnation: u64) {
        let mut transactions = self.transactions.lock();
        let left = |txn: &TxnId| txn.coordinator == coordinator && txn.incarnation < incarnation;
        let branches = transactions.branches.iter_mut().filter(|(txn, _)| left(txn));
        branches.for_each(|(_, branch)| branch.heard = Time::ZERO);
    }

    /// Acknowledges ended transactions that are durable, also at the backups.
    pub(crate) fn tell_done(&self) {
        let durable = self.log.durable();
        let mut transactions = self.transactions.lock();
        if transactions.ended.is_empty() {
            return;
        }
        let is_safe = |seen: &Seen| seen.position <= durable && self.is_acknowledged(seen.ticket);
        let mut done: BTreeMap<SiteId, Vec<TxnId>> = BTreeMap::new();
        for (txn, _) in transactions.ended.extract_if(.., |(_, seen)| is_safe(seen)) {
            done.entry(txn.coordinator).or_default().push(txn);
        }
        drop(transactions);
        for (coordinator, txns) in done {
            self.send(coordinator, Message::Done { txns });
        }
    }

    /// The same, if a coordinator may be waiting for backups.
    pub(crate) fn tell_done_early(&self) {
        let is_waited_for = |(_, seen): &(TxnId, Seen)| seen.ticket > 0;
        let is_early = self.transactions.lock().ended.iter().any(is_waited_for);
        if is_early {
            self.tell_done();
        }
    }

    /// The open transactions that this site shares with another: in-doubt transactions that the
    /// other one coordinates, and decisions that it has not acknowledged, with their times.
    pub(crate) fn shared_with(&self, site: SiteId) -> (Vec<TxnId>, Vec<(TxnId, Time)>) {
        let transactions = self.transactions.lock();
        let in_doubt = transactions.branches.keys().filter(|txn| txn.coordinator == site);
        let decided = transactions.decided.iter().filter(|(_, d)| d.waiting.contains(site));
        (in_doubt.copied().collect(), decided.map(|(txn, d)| (*txn, d.at)).collect())
    }

    /// Open transactions for the tail: branches that are prepared here, and decisions of this site.
    pub(crate) fn unended(&self) -> Vec<(TxnId, Unended)> {
        let transactions = self.transactions.lock();
        let prepared = transactions.branches.iter().filter_map(|(txn, branch)| {
            Some((*txn, Unended::Prepared(FrameBytes::of(&branch.prepared.as_ref()?.frame))))
        });
        let decided = transactions.decided.iter().map(|(txn, d)| (*txn, Unended::Decided(d.at)));
        prepared.chain(decided).collect()
    }

    /// True if the transaction was committed here, and not all participants have acknowledged that.
    pub(crate) fn is_decided(&self, txn: TxnId) -> bool {
        self.transactions.lock().decided.contains_key(&txn)
    }

    /// Wakes all coordinators that wait for acknowledgements, so that they check again.
    pub(crate) fn wake_coordinators(&self) {
        let transactions = self.transactions.lock();
        let waiters = transactions.decided.values().filter_map(|decided| decided.waiter.as_ref());
        waiters.for_each(|waiter| waiter.wake_by_ref());
    }

    /// Ready when all participants have acknowledged a commit, except those that were taken over
    /// from.
    pub(super) async fn until_done(&self, txn: TxnId) {
        poll_fn(|cx| {
            let mut transactions = self.transactions.lock();
            let Some(decided) = transactions.decided.get_mut(&txn) else { return Poll::Ready(()) };
            if self.are_replaced(&decided.waiting) {
                return Poll::Ready(());
            }
            decided.waiter = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Acknowledges, asks and repeats. Part of a tick.
    pub(crate) fn pursue(&self) {
        let now = self.time.now();
        let is_due = |since: Time| now.0.saturating_sub(since.0) >= SILENCE_NS;
        let durable = self.log.durable();
        self.tell_done();
        let mut transactions = self.transactions.lock();
        let TransactionTable { decided, branches, .. } = &mut *transactions;
        let asking = branches
            .iter_mut()
            .filter(|(txn, branch)| txn.coordinator != self.id && is_due(branch.heard));
        for (txn, branch) in asking {
            branch.heard = now;
            self.send(txn.coordinator, Message::Ask { txn: *txn });
        }
        // A branch that has only entered gets no other notice that its coordinator was fenced.
        let is_lost = |txn: &TxnId, branch: &mut Branch| {
            branch.prepared.is_none() && self.is_fenced(txn.coordinator)
        };
        let lost: Vec<_> = branches.extract_if(.., is_lost).collect();
        lost.into_iter().for_each(|(_, branch)| self.release_pin(branch));
        let telling = decided.iter_mut().filter(|(_, d)| d.position <= durable && is_due(d.told));
        telling.for_each(|(txn, decided)| self.tell_again(*txn, decided));
    }

    /// Restores a decision that was found in the log or a checkpoint.
    pub(crate) fn restore_decision(&self, txn: TxnId, at: Time, waiting: SiteSet) {
        let decided = Decided { at, position: 0, waiting, told: Time::ZERO, waiter: None };
        self.transactions.lock().decided.insert(txn, decided);
    }

    /// The decisions that participants may still ask for.
    pub(crate) fn decisions(&self) -> Vec<(TxnId, Decided)> {
        let transactions = self.transactions.lock();
        transactions.decided.iter().map(|(txn, decided)| (*txn, decided.clone())).collect()
    }
}
