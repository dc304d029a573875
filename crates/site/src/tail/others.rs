//! At the others: the tails that a site keeps, whom it does not hear, and what it takes from a tail.

use super::{FrameBytes, Tail, TailCopy, TailFrame};
use crate::error::Refusal;
use crate::failover::PATIENCE_NS;
use crate::frame::{FrameKind, Hearing, TxnId};
use crate::link::outgoing::feed_item;
use crate::message::{FeedItem, Message, TailItem};
use crate::partition::SitePartition;
use crate::record::{FrameWriter, read_any_frame, read_frame};
use crate::site::Site;
use isomer_design::{SiteId, SiteSet, Time};
use isomer_log::LogError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a site keeps of the logs of others, and whom it does not hear any more.
#[derive(Default)]
pub(crate) struct OtherTails {
    tails: BTreeMap<SiteId, Tail>,
    pub(super) fenced: SiteSet,
    /// Those whose part others have taken over: nobody waits for them.
    replaced: SiteSet,
    /// Those whose tails were here before this site started again, and have not begun anew.
    lost: SiteSet,
}

/// What a site knows of one that is gone, after [`Step::Fence`](crate::Step::Fence).
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Fenced {
    /// The last run of it that was heard of; 0: none.
    pub run: u64,
    /// Its tail, if there is one of that run.
    pub tail: Option<TailCopy>,
    /// More of it may have been here before this site started again. Others may have relied on that.
    pub has_lost_tail: bool,
    /// Transactions that it coordinates, and whose outcome is not known here.
    pub in_doubt: Vec<TxnId>,
    /// Transactions that were committed here, and that it has not acknowledged; with the times of their commits.
    pub decided: Vec<(TxnId, Time)>,
}

/// True for what nobody may rely on before others have it.
fn is_awaited_kind(frame: &[u8]) -> bool {
    let (head, _) = read_any_frame(frame).expect("it was read before");
    matches!(head.kind, FrameKind::Prepare(_) | FrameKind::Decide { .. })
}

impl Site {
    /// True if a site is not heard any more.
    pub(crate) fn is_fenced(&self, site: SiteId) -> bool {
        self.links.other_tails.lock().fenced.contains(site)
    }

    /// True if others have taken over from all of these.
    pub(crate) fn are_replaced(&self, sites: &SiteSet) -> bool {
        (sites - &self.links.other_tails.lock().replaced).is_empty()
    }

    /// Keeps what a feed of a site brings of its tail. Says whether the site waits for word of it.
    pub(crate) fn keep_tail(&self, from: SiteId, run: u64, items: &[FeedItem]) -> bool {
        let mut others = self.links.other_tails.lock();
        let mut is_awaited = false;
        for item in items {
            if let FeedItem::Tail(TailItem::Begins { received, settled, before }) = item {
                let (received, settled) = (*received, *settled);
                let unended = before.unended.iter().cloned().collect();
                let versions = before.versions.iter().cloned().collect();
                let tail = Tail { run, received, settled, unended, versions, ..Tail::default() };
                others.tails.insert(from, tail);
                others.lost = others.lost.without(from);
                is_awaited = true;
                continue;
            }
            let Some(tail) = others.tails.get_mut(&from).filter(|tail| tail.run == run) else {
                continue;
            };
            match item {
                FeedItem::Tail(TailItem::Frame { frame, position, .. }) => {
                    tail.push(*position, frame);
                    is_awaited |= is_awaited_kind(frame);
                }
                FeedItem::Tail(TailItem::Settled(up_to)) => tail.settle(*up_to),
                FeedItem::Tail(TailItem::Finished(txn)) => drop(tail.unended.remove(txn)),
                FeedItem::Tail(TailItem::Ends) => drop(others.tails.remove(&from)),
                FeedItem::Tail(TailItem::Begins { .. })
                | FeedItem::Record { .. }
                | FeedItem::Joined { .. } => {}
            }
        }
        is_awaited
    }

    /// This site starts again: what it may have kept of the tails of those that it follows was in memory.
    pub(crate) fn lose_tails(&self) {
        let followed = self.followed().into_iter();
        let is_backed = |replicas: &[Arc<SitePartition>]| {
            replicas.iter().any(|replica| self.is_backed(replica.table))
        };
        let lost = followed.filter(|(_, replicas)| is_backed(replicas)).map(|(site, _)| site);
        self.links.other_tails.lock().lost = lost.collect();
    }

    /// Says how much of a site's tail is here.
    pub(crate) fn tell_tail(&self, of: SiteId) {
        let others = self.links.other_tails.lock();
        let tail = others.tails.get(&of).map(|tail| (tail.run, tail.received));
        drop(others);
        if let Some((incarnation, received)) = tail {
            self.send(of, Message::Tailed { incarnation, received });
        }
    }

    /// Hears no more of a site, and says what is known of it.
    ///
    /// # Errors
    /// [`Refusal::Log`].
    pub async fn fence(&self, site: SiteId) -> Result<Fenced, Refusal> {
        {
            // Who decides after this finds the site fenced.
            let _shaping = self.shaping.write();
            if !self.is_fenced(site) {
                self.log_hearing(site, Hearing::Fenced)?;
                self.set_hearing(site, Hearing::Fenced);
            }
        }
        // Who waits for it to say that there is no more asks elsewhere.
        let replicas = self.followed().remove(&site).unwrap_or_default();
        replicas.iter().for_each(|replica| replica.progress.wake());
        // Who waits for it to keep this site's tail may hold what it is waited for.
        self.stop_keeping(site);
        // What was decided before may be durable yet.
        self.lasting_for_others(self.log.end()).await?;
        let run = self.run_of(site);
        let (in_doubt, decided) = self.shared_with(site);
        let others = self.links.other_tails.lock();
        let tail = others.tails.get(&site).filter(|tail| tail.run == run).map(|tail| TailCopy {
            received: tail.received,
            frames: tail
                .frames
                .iter()
                .map(|(position, frame)| TailFrame {
                    position: *position,
                    bytes: FrameBytes(frame.clone()),
                })
                .collect(),
            before: tail.before(),
        });
        let has_lost_tail = others.lost.contains(site);
        Ok(Fenced { run, tail, has_lost_tail, in_doubt, decided })
    }

    /// Applies what was history at a fenced site, as if it had come from there. Done when it is applied.
    ///
    /// # Errors
    /// [`Refusal::Unavailable`] if something stays in the way of it for long; [`Refusal::Log`].
    pub(crate) async fn take_frames(
        &self,
        from: SiteId,
        frames: &[TailFrame],
    ) -> Result<(), Refusal> {
        let mut items = Vec::new();
        for TailFrame { position, bytes } in frames {
            let frame = &bytes.0;
            let (_, records) = read_frame(frame).expect("it was read before");
            for (at, record) in records.iter().enumerate() {
                items.extend(feed_item(from, record, at, frame, *position));
            }
        }
        let touched = self.take_items(from, items);
        let until = self.time.now().0 + PATIENCE_NS;
        while touched
            .iter()
            .any(|partition| !partition.is_gone() && !partition.pending.lock().is_empty())
        {
            self.serving()?;
            if self.time.now().0 > until {
                return Err(Refusal::Unavailable(self.id));
            }
            touched.iter().for_each(|partition| self.apply_pending(partition));
            self.next_tick().await;
        }
        self.lasting(self.log.end()).await
    }

    /// Ends transactions as a fenced site, their coordinator, had decided.
    ///
    /// # Errors
    /// [`Refusal::Log`].
    pub(crate) async fn end_in_doubt(
        &self,
        outcomes: Vec<(TxnId, Option<Time>)>,
    ) -> Result<(), Refusal> {
        outcomes.into_iter().for_each(|(txn, at)| self.hear_outcome(txn, at));
        self.lasting_for_others(self.log.end()).await?;
        Ok(())
    }

    /// Others have taken over from a site: no client waits for its word. If it is this one, nothing that it has begun
    /// waits any more for those who do not hear it.
    ///
    /// # Errors
    /// [`Refusal::Log`].
    pub(crate) async fn replaced(&self, site: SiteId) -> Result<(), Refusal> {
        // Of itself a site is told again after a restart, before others hear it.
        if site != self.id && !self.are_replaced(&SiteSet::of(site)) {
            let _shaping = self.shaping.read();
            self.log_hearing(site, Hearing::Replaced)?;
        }
        self.set_hearing(site, Hearing::Replaced);
        self.wake_coordinators();
        self.wake_unacknowledged();
        self.ticked.wake();
        Ok(self.lasting_for_others(self.log.end()).await?)
    }

    /// True if others have taken over from this site itself.
    pub(crate) fn is_replaced(&self) -> bool {
        self.links.other_tails.lock().replaced.contains(self.id)
    }

    /// A fenced site has come back, and has let go of what is not its own any more.
    ///
    /// # Errors
    /// [`Refusal::Log`]; it is not heard yet.
    pub(crate) async fn admit(&self, site: SiteId) -> Result<(), Refusal> {
        if !self.is_fenced(site) {
            self.set_hearing(site, Hearing::Open);
            return Ok(());
        }
        {
            let _shaping = self.shaping.read();
            self.log_hearing(site, Hearing::Open)?;
        }
        self.set_hearing(site, Hearing::Open);
        self.review_keeping(site);
        // What it has said meanwhile was not heard.
        self.meet(&[site]);
        Ok(self.lasting_for_others(self.log.end()).await?)
    }

    /// To be called with the shape held still.
    fn log_hearing(&self, site: SiteId, how: Hearing) -> Result<(), LogError> {
        let mut frame = FrameWriter::new(FrameKind::Hears(site, how));
        let time = self.store.clock.tick(self.time.now());
        self.log.append(frame.finish(time)).map(drop)
    }

    /// How a site is heard from now on, or was as the log says.
    pub(crate) fn set_hearing(&self, site: SiteId, how: Hearing) {
        let mut others = self.links.other_tails.lock();
        let put = |set: &mut SiteSet, is_in: bool| {
            let all = std::mem::take(set);
            *set = if is_in { all.with(site) } else { all.without(site) };
        };
        put(&mut others.fenced, how != Hearing::Open && site != self.id);
        put(&mut others.replaced, how == Hearing::Replaced);
    }

    /// The sites that are fenced.
    pub(crate) fn hearings(&self) -> Vec<(SiteId, Hearing)> {
        let others = self.links.other_tails.lock();
        let how = |site| match others.replaced.contains(site) {
            true => (site, Hearing::Replaced),
            false => (site, Hearing::Fenced),
        };
        others.fenced.iter().map(how).collect()
    }
}
