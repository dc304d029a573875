//! The tails of other sites that this site keeps, and the sites that it has fenced.

use super::{FrameBytes, Tail, TailCopy, TailFrame};
use crate::error::Refusal;
use crate::frame::{FrameKind, Hearing, TxnId};
use crate::limits::PATIENCE_NS;
use crate::link::outgoing::feed_item;
use crate::message::{FeedItem, Message, TailItem};
use crate::partition::Table;
use crate::record::{FrameWriter, read_any_frame, read_frame};
use crate::site::Site;
use isomer_design::{SiteId, SiteSet, Time};
use isomer_log::LogError;
use isomer_log::Position;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The tails that a site keeps for others, and the sites that it has fenced.
#[derive(Default)]
pub(crate) struct OtherTails {
    tails: BTreeMap<SiteId, Tail>,
    pub(super) fenced: SiteSet,
    /// Fenced sites that other sites have taken over from. No request waits for them.
    replaced: SiteSet,
    /// Sites whose tails this site had before its restart, and has not received again.
    lost: SiteSet,
    /// Those of them whose last partition with backups has ended here with its table.
    forgotten: SiteSet,
}

/// The knowledge that a site has of a failed one, as [`Step::Fence`](crate::Step::Fence) returns
/// it.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Fenced {
    /// The latest incarnation of the failed site that is known here; 0: none.
    pub run: u64,
    /// Its tail, if a tail of that incarnation is here.
    pub tail: Option<TailCopy>,
    /// This site follows a partition with backups of the failed site. Otherwise its tail may be an
    /// old one: the end of a following may not have arrived.
    pub follows: bool,
    /// This site may have lost a longer tail in a restart, on which others may have relied.
    pub has_lost_tail: bool,
    /// Transactions that the failed site coordinates and that are in doubt here.
    pub in_doubt: Vec<TxnId>,
    /// Transactions that committed here and that it has not acknowledged, with their commit times.
    pub decided: Vec<(TxnId, Time)>,
    /// All replicas here have the events of its log up to this position; `None`: there are none.
    pub heard: Option<Position>,
}

/// True for a frame on which no site may rely before followers have it.
pub(super) fn is_awaited_kind(frame: &[u8]) -> bool {
    let (head, _) = read_any_frame(frame).expect("it was read before");
    matches!(head.kind, FrameKind::Prepare(_) | FrameKind::Decide { .. })
}

/// The masters of the replicas at a site that are backups.
fn backed_masters(site: &Site) -> SiteSet {
    let mut masters = SiteSet::EMPTY;
    for table in site.tables().iter().filter(|table| table.is_backed()) {
        let map = table.partitions.load();
        let sources = map.iter().filter_map(|(_, partition)| partition.source());
        masters = sources.fold(masters, |masters, site| masters.with(site));
    }
    masters
}

/// Called before a table ends here. The masters that its replicas follow do not know whether
/// this site has lost their tails, so it keeps reporting that.
pub(crate) fn forget_masters(site: &Site, table: &Table) {
    let map = table.partitions.load();
    let sources: SiteSet = map.iter().filter_map(|(_, partition)| partition.source()).collect();
    let mut others = site.links.other_tails.lock();
    let hidden = &sources & &others.lost;
    others.forgotten = &others.forgotten | &hidden;
}

impl Site {
    /// True if messages of a site are ignored.
    pub(crate) fn is_fenced(&self, site: SiteId) -> bool {
        self.links.other_tails.lock().fenced.contains(site)
    }

    /// True if other sites have taken over from all of these.
    pub(crate) fn are_replaced(&self, sites: &SiteSet) -> bool {
        (sites - &self.links.other_tails.lock().replaced).is_empty()
    }

    /// Stores the tail items of a site's feed. Returns true if the sender waits for an
    /// acknowledgement.
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
                others.forgotten = others.forgotten.without(from);
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

    /// Called after a restart: the tails that this site kept were in memory, so they are lost.
    /// Includes those of masters that have just ended the following: they may not have replaced
    /// this site's copy of the tail yet ([`super::replace_tail_of`]).
    pub(crate) fn lose_tails(&self) {
        self.links.other_tails.lock().lost = backed_masters(self);
    }

    /// Tells a site how much of its tail is here.
    pub(crate) fn tell_tail(&self, of: SiteId) {
        let others = self.links.other_tails.lock();
        let tail = others.tails.get(&of).map(|tail| (tail.run, tail.received));
        drop(others);
        if let Some((incarnation, received)) = tail {
            self.send(of, Message::Tailed { incarnation, received });
        }
    }

    /// Fences a site: ignores it from now on, and returns what is known of it.
    ///
    /// # Errors
    /// [`Refusal::Log`].
    pub async fn fence(&self, site: SiteId) -> Result<Fenced, Refusal> {
        {
            // Decisions that are made after this find the site fenced.
            let _shaping = self.shaping.write();
            if !self.is_fenced(site) {
                self.log_hearing(site, Hearing::Fenced)?;
                self.set_hearing(site, Hearing::Fenced);
            }
        }
        // Readers that wait for the closed timestamp of the site look for another copy.
        let replicas = self.followed().remove(&site).unwrap_or_default();
        replicas.iter().for_each(|replica| replica.progress.wake());
        // Transactions that wait for the site to keep this site's tail may hold locks that a
        // takeover needs.
        self.stop_keeping(site);
        // Decisions made before the fence may still become durable.
        self.lasting_for_others(self.log.end()).await?;
        let run = self.run_of(site);
        let (in_doubt, decided) = self.shared_with(site);
        let masters = backed_masters(self);
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
        // Once its last replica is dropped, others have the tail; unless its table was dropped.
        let follows = masters.contains(site);
        let has_lost_tail =
            others.lost.contains(site) && (follows || others.forgotten.contains(site));
        let heard = replicas.iter().map(|replica| replica.origin()).min();
        Ok(Fenced { run, tail, follows, has_lost_tail, in_doubt, decided, heard })
    }

    /// Applies the history of a fenced site, as if that site had sent it. Ready when it is durable
    /// here.
    ///
    /// # Errors
    /// [`Refusal::Unavailable`] if an event cannot be applied within [`PATIENCE_NS`];
    /// [`Refusal::Log`].
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

    /// Ends in-doubt transactions as their coordinator, a fenced site, has decided.
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

    /// Records that other sites have taken over from `site`: requests no longer wait for it. If it
    /// is this site, its own commits stop waiting for sites that ignore it.
    ///
    /// # Errors
    /// [`Refusal::Log`].
    pub(crate) async fn replaced(&self, site: SiteId) -> Result<(), Refusal> {
        // A restarted site receives this about itself again, before other sites lift the fence.
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

    /// Lifts the fence of a site that has rejoined, and has dropped what it lost in the takeover.
    ///
    /// # Errors
    /// [`Refusal::Log`]; the fence stands then.
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
        // Messages that it sent while it was fenced were dropped.
        self.meet(&[site]);
        Ok(self.lasting_for_others(self.log.end()).await?)
    }

    /// Logs the fence, or its end. The caller holds `shaping`.
    fn log_hearing(&self, site: SiteId, how: Hearing) -> Result<(), LogError> {
        let mut frame = FrameWriter::new(FrameKind::Hears(site, how));
        let time = self.store.clock.tick(self.time.now());
        self.log.append(frame.finish(time)).map(drop)
    }

    /// Sets how messages of a site are taken, as decided now or as read from the log.
    pub(crate) fn set_hearing(&self, site: SiteId, how: Hearing) {
        let mut others = self.links.other_tails.lock();
        let put = |set: &mut SiteSet, is_in: bool| {
            let all = std::mem::take(set);
            *set = if is_in { all.with(site) } else { all.without(site) };
        };
        put(&mut others.fenced, how != Hearing::Open && site != self.id);
        put(&mut others.replaced, how == Hearing::Replaced);
    }

    /// The fenced sites, and whether they were taken over from.
    pub(crate) fn hearings(&self) -> Vec<(SiteId, Hearing)> {
        let others = self.links.other_tails.lock();
        let how = |site| match others.replaced.contains(site) {
            true => (site, Hearing::Replaced),
            false => (site, Hearing::Fenced),
        };
        others.fenced.iter().map(how).collect()
    }
}
