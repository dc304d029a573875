//! How every participant comes to hear the outcome, whatever is lost or dies.
//!
//! The coordinator tells it when its decision is durable, and again from time to time to those who have
//! not acknowledged it. A participant that hears nothing asks. Nothing here waits: it happens when a
//! message arrives, and at every tick.

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

/// After this long without a word, in nanoseconds, a participant asks, and a coordinator tells again. Much
/// longer than a commit takes under load: what is asked too early makes the load heavier.
const SILENCE_NS: u64 = 200_000_000;

impl Site {
    /// How many transactions over several sites have not come to their end here.
    pub fn unfinished(&self) -> usize {
        let transactions = self.transactions.lock();
        transactions.undecided.len()
            + transactions.decided.len()
            + transactions.branches.len()
            + transactions.ended.len()
    }

    /// Waits until the site is needed for no transaction over several sites. To be asked before a site
    /// goes away for good.
    ///
    /// # Errors
    /// [`LogError`], if the log has failed: what has not ended then ends after a restart.
    pub async fn finish(&self) -> Result<(), LogError> {
        while self.unfinished() > 0 {
            self.serving()?;
            self.next_tick().await;
        }
        Ok(())
    }

    /// Tells the participants of a decision that is durable.
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

    /// A participant asks for an outcome.
    pub(crate) fn asked_for_outcome(&self, from: SiteId, txn: TxnId) {
        let transactions = self.transactions.lock();
        if transactions.undecided.contains(&txn) {
            return; // It will hear.
        }
        let at = match transactions.decided.get(&txn) {
            Some(decided) if decided.position > self.log.durable() => return,
            Some(decided) => Some(decided.at),
            None => None,
        };
        drop(transactions);
        self.send(from, Message::Outcome { txn, at });
    }

    /// The coordinator tells an outcome: the time of the commit, or none if there was an abort.
    pub(crate) fn hear_outcome(&self, txn: TxnId, at: Option<Time>) {
        let mut transactions = self.transactions.lock();
        let Some(branch) = transactions.branches.get(&txn) else {
            let is_ending = transactions.ended.iter().any(|(other, _)| *other == txn);
            if at.is_some() && !is_ending {
                // It has ended, perhaps in an earlier run: backups may still have to hear of it.
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
                Ok(_) => {} // Who forgets an abort asks again.
                // It stays prepared, and hears of it again.
                Err(error) => {
                    return self.trouble(&format!("{txn} cannot be ended: {error}"));
                }
            }
        }
        let branch = transactions.branches.remove(&txn);
        drop(transactions);
        branch.into_iter().for_each(|branch| self.release_pin(branch));
    }

    /// A participant has ended its parts for good.
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

    /// A site has begun a new run: what earlier ones left open is asked for at the next tick.
    pub(crate) fn has_restarted(&self, coordinator: SiteId, incarnation: u64) {
        let mut transactions = self.transactions.lock();
        let left = |txn: &TxnId| txn.coordinator == coordinator && txn.incarnation < incarnation;
        let branches = transactions.branches.iter_mut().filter(|(txn, _)| left(txn));
        branches.for_each(|(_, branch)| branch.heard = Time::ZERO);
    }

    /// Acknowledges what has ended for good, and is at as many backups as it has to be.
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

    /// The same, if a coordinator may wait for it.
    pub(crate) fn tell_done_early(&self) {
        let is_waited_for = |(_, seen): &(TxnId, Seen)| seen.ticket > 0;
        let is_early = self.transactions.lock().ended.iter().any(is_waited_for);
        if is_early {
            self.tell_done();
        }
    }

    /// What this site has open with another: transactions that the other coordinates, and decisions that it has not
    /// acknowledged, with their times.
    pub(crate) fn shared_with(&self, site: SiteId) -> (Vec<TxnId>, Vec<(TxnId, Time)>) {
        let transactions = self.transactions.lock();
        let in_doubt = transactions.branches.keys().filter(|txn| txn.coordinator == site);
        let decided = transactions.decided.iter().filter(|(_, d)| d.waiting.contains(site));
        (in_doubt.copied().collect(), decided.map(|(txn, d)| (*txn, d.at)).collect())
    }

    /// What has not come to its end: shares that are prepared here, and decisions of this site.
    pub(crate) fn unended(&self) -> Vec<(TxnId, Unended)> {
        let transactions = self.transactions.lock();
        let prepared = transactions.branches.iter().filter_map(|(txn, branch)| {
            Some((*txn, Unended::Prepared(FrameBytes::of(&branch.prepared.as_ref()?.frame))))
        });
        let decided = transactions.decided.iter().map(|(txn, d)| (*txn, Unended::Decided(d.at)));
        prepared.chain(decided).collect()
    }

    /// True if the transaction was committed here, and not all have acknowledged that.
    pub(crate) fn is_decided(&self, txn: TxnId) -> bool {
        self.transactions.lock().decided.contains_key(&txn)
    }

    /// Those who wait for acknowledgements may have to wait no more.
    pub(crate) fn wake_coordinators(&self) {
        let transactions = self.transactions.lock();
        let waiters = transactions.decided.values().filter_map(|decided| decided.waiter.as_ref());
        waiters.for_each(|waiter| waiter.wake_by_ref());
    }

    /// Ready when all participants have acknowledged a commit, but those whose part others have taken over.
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

    /// Acknowledges, asks, tells again: what a tick does for transactions over several sites.
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
        // Who has only entered is told by nobody else that its coordinator is gone.
        let is_lost = |txn: &TxnId, branch: &mut Branch| {
            branch.prepared.is_none() && self.is_fenced(txn.coordinator)
        };
        let lost: Vec<_> = branches.extract_if(.., is_lost).collect();
        lost.into_iter().for_each(|(_, branch)| self.release_pin(branch));
        let telling = decided.iter_mut().filter(|(_, d)| d.position <= durable && is_due(d.told));
        telling.for_each(|(txn, decided)| self.tell_again(*txn, decided));
    }

    /// Enters a decision that was found in the log or a checkpoint.
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
