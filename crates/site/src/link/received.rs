//! What of a log its followers do not need any more.
//!
//! A master keeps its log for followers that have not made its events durable in their own. Each feed
//! says up to which position of the log it and those before have everything, and the follower says now
//! and then up to where it has logged that:
//!
//! ```text
//!   s1 (master)                                  s2 (follower)
//!   log ───┬────────┬───────┬──▶                 feed, up to 300: events of p are queued, logged
//!        100      200     300                    all applied? its own log ends at 90
//!          needed from 200 on ◀── received 200   feed, up to 400: an event of q (at 350) waits
//!          needed from 300 on ◀── received 300   its own log is durable up to 90
//! ```
//!
//! So the log is bounded by how far followers lag, not by when they make checkpoints; and one that
//! follows only what never changes does not hold it at all, as nothing was sent to it.
//!
//! **When a follower may say so.** All its replicas have joined the streams of their masters: of one
//! that has not, it is not known what it lacks, nor whose log has that. And what has come and is not
//! applied, in a queue or of a partition that does not exist yet, is not counted. Then everything up to
//! the position is in its own log, and it waits until that is durable.
//!
//! **A new run** of a master knows nothing of all this: which terms it had, who followed then, and what
//! was said. So it keeps the whole log that it finds, greets every other site with its end, and asks
//! again until each has said that it lacks nothing up to there. Who follows nothing says so, too.
//!
//! Left out: an event that came for a replica which was dropped meanwhile holds the log until the next
//! start, as it cannot be told from one whose replica is still to come.

use crate::message::{FeedItem, Message};
use crate::partition::{SitePartition, Table};
use crate::site::Site;
use isomer_design::{SiteId, Version};
use isomer_log::Position;
use std::collections::BTreeMap;
use std::sync::Arc;

/// More is said after so many ticks, or so many bytes of the master's log: to find out what can be said
/// takes a look at all replicas.
const TICKS: u32 = 16;
const BYTES: u64 = 1 << 20;

/// A site that has begun a new run asks how much of its log is received here.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    /// Where its log ended.
    position: Position,
    /// Where our own has to be durable before it is answered; `None` if something may be lacking.
    ready: Option<Position>,
}

/// What a follower is about to say, and has said.
#[derive(Clone, Copy, Default)]
pub(super) struct Claim {
    /// A position of the sender's log, and where our own has to be durable before it is said.
    next: Option<(Position, Position)>,
    said: Position,
    /// Ticks since there is more to say.
    waits: u32,
}

impl Claim {
    /// A tick has passed: is it time to find out whether more can be said?
    fn is_due(&mut self, position: Position) -> bool {
        if self.next.is_some() || position <= self.said {
            self.waits = 0;
            return false;
        }
        self.waits += 1;
        self.waits.is_multiple_of(TICKS) || position - self.said >= BYTES
    }
}

impl Site {
    /// The log is still needed by followers from here on.
    pub(crate) fn needed_by_followers(&self) -> Position {
        let links = self.links.outgoing.lock();
        links.values().map(|link| link.needed()).min().unwrap_or(Position::MAX)
    }

    /// Nothing is kept any longer for a site that is gone for good.
    pub fn dismiss(&self, site: SiteId) {
        self.links.outgoing.lock().remove(&site);
    }

    pub(super) fn hear_received(&self, from: SiteId, position: Position) {
        if let Some(link) = self.links.outgoing.lock().get_mut(&from) {
            link.received = link.received.max(position);
        }
    }

    /// A site has begun a new run, and keeps its log until it is told that it need not.
    pub(super) fn asked_what_is_received(&self, from: SiteId, end: Position) {
        self.links.asked.lock().insert(from, Asked { position: end, ready: None });
    }

    /// Tells masters up to where their logs are not needed here any more. Part of a tick.
    pub(crate) fn claim_received(&self) {
        let durable = self.log.durable();
        let mut incoming = self.links.incoming.lock();
        let mut asked = self.links.asked.lock();
        asked.retain(|site, asked| {
            let is_ready = asked.ready.is_some_and(|end| end <= durable);
            if is_ready {
                self.send(*site, Message::Received { position: asked.position });
            }
            !is_ready
        });
        let mut is_news = asked.values().any(|asked| asked.ready.is_none());
        for (site, link) in incoming.iter_mut() {
            if let Some((position, _)) = link.claim.next.take_if(|(_, end)| *end <= durable) {
                link.claim.said = position;
                self.send(*site, Message::Received { position });
            }
            is_news |= link.claim.is_due(link.position);
        }
        // Nothing more is queued while the links are held.
        let have_joined = |(site, replicas): (&SiteId, &Vec<Arc<SitePartition>>)| {
            let link = incoming.get(site);
            link.is_some_and(|link| replicas.iter().all(|replica| link.has_joined(replica)))
        };
        if !is_news || !self.followed().iter().all(have_joined) {
            return;
        }
        let waiting = self.waiting();
        // What was applied is in the log by now.
        let end = self.log.end();
        for (site, asked) in asked.iter_mut().filter(|(_, asked)| asked.ready.is_none()) {
            let first = waiting.get(site).copied().unwrap_or(Position::MAX);
            asked.ready = (first > asked.position).then_some(end);
        }
        for (site, link) in incoming.iter_mut().filter(|(_, link)| link.claim.next.is_none()) {
            let first = waiting.get(site).copied().unwrap_or(Position::MAX);
            let position = link.position.min(first.saturating_sub(1));
            if position > link.claim.said {
                link.claim.next = Some((position, end));
            }
        }
    }

    /// What was said may have been lost.
    pub(super) fn claim_again(&self) {
        self.links.incoming.lock().values_mut().for_each(|link| link.claim.said = 0);
    }

    /// Of the events of each site that have come and are not applied, the position of the first.
    fn waiting(&self) -> BTreeMap<SiteId, Position> {
        let mut waiting: BTreeMap<SiteId, Position> = BTreeMap::new();
        let mut add = |item: &FeedItem, seen: Version| {
            if let FeedItem::Record { from, version, position, .. } = item
                && *version > seen
            {
                let first = waiting.entry(*from).or_insert(*position);
                *first = (*first).min(*position);
            }
        };
        let orphans = self.links.orphans.lock();
        for ((table, start), events) in orphans.iter() {
            let table = self.table(*table);
            let map = table.as_ref().map(|table| table.partitions.load());
            // The partition that holds the keys now may have seen the event, before a merge.
            let holder = map.as_ref().and_then(|map| Table::find(map, start.as_bytes()));
            let seen = holder.map_or(0, |holder| holder.version());
            events.values().for_each(|item| add(item, seen));
        }
        for table in self.tables().iter() {
            for (_, partition) in table.partitions.load().iter().filter(|(_, p)| !p.is_master()) {
                let pending = partition.pending.lock();
                pending.values().for_each(|item| add(item, partition.version()));
            }
        }
        waiting
    }
}
