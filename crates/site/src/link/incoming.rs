//! Receiving: one stream from each site that masters something replicated here.
//!
//! A feed is put in order, its events are queued at their partitions (which then count as lagging),
//! and the feed's word of completeness is passed on. Then the queues are worked off, partition by
//! partition, by whoever comes first: the thread that received the feed, or a reader who waits
//! ([`crate::refresh`]).
//!
//! **Opening a link anew** gives it the next epoch. Replicas leave the old stream, keep what they
//! know themselves to be complete up to, and subscribe with their versions. Feeds of the old stream
//! are ignored from then on; events of it that wait in queues are as true as before.
//!
//! | what is noticed | at | what is done |
//! | --- | --- | --- |
//! | the master has begun a new run | its hello, or a feed of it | opens the link anew |
//! | a gap that does not close | a tick | opens the link anew |
//! | a master that says nothing | a tick, now and then | opens the link anew |
//! | a replica that has not joined | a tick, now and then | subscribes it again |

use crate::message::{Epoch, Feed, FeedItem, Message, Subscription};
use crate::partition::SitePartition;
use crate::site::Site;
use isomer_design::{KeyRange, SiteId, TableId, Time};
use isomer_log::Position;
use isomer_store as store;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// A message subscribes so many replicas at most.
const SUBSCRIBED_AT_ONCE: usize = 500;
/// Silent masters, and replicas that have not joined, are looked for so often while a master may be
/// silent.
const LOOKS: u64 = 4;

/// The feeds from one site.
pub(super) struct Incoming {
    /// How often the link was opened in this run: the stream's epoch.
    number: u64,
    /// The sender's run that the stream is of; 0 until something was heard of it.
    sender: u64,
    /// The number of the feed that is next.
    next: u64,
    /// Feeds that came before their turn.
    early: BTreeMap<u64, Feed>,
    /// Since when early ones wait.
    waiting_since: Time,
    /// When a feed in its turn came last, or the stream was opened.
    heard: Time,
    /// Up to when earlier streams were closed; at first, when the link was opened.
    closed_before: Time,
    stream: Stream,
}

/// A stream, as those see it who follow it.
#[derive(Clone, Default)]
pub(crate) struct Stream {
    /// It has what was written from this position of the sender's log on, as [`Feed::since`] says; `None`: nothing
    /// has come by it yet.
    pub(crate) since: Option<Position>,
    /// Up to when it is known to have told everything.
    pub(crate) feed: Arc<store::Feed>,
}

impl Incoming {
    fn new(now: Time) -> Incoming {
        Incoming {
            number: 1,
            sender: 0,
            next: 1,
            early: BTreeMap::new(),
            waiting_since: now,
            heard: now,
            closed_before: now,
            stream: Stream::default(),
        }
    }

    /// Ends the present stream, and begins the next.
    fn open(&mut self, sender: u64, now: Time) {
        *self = Incoming {
            number: self.number + 1,
            sender: self.sender.max(sender),
            closed_before: self.closed(),
            ..Incoming::new(now)
        };
    }

    fn closed(&self) -> Time {
        self.stream.feed.closed().max(self.closed_before)
    }

    fn has_gap(&self, now: Time, patience_ns: u64) -> bool {
        !self.early.is_empty() && now.0.saturating_sub(self.waiting_since.0) >= patience_ns
    }

    fn is_silent(&self, now: Time, patience_ns: u64) -> bool {
        now.0.saturating_sub(self.heard.0) >= patience_ns
    }
}

impl Site {
    /// The present stream from a site, if there is one.
    pub(crate) fn stream_from(&self, site: SiteId) -> Option<Stream> {
        let incoming = self.links.incoming.lock();
        incoming.get(&site).map(|link| link.stream.clone())
    }

    /// Up to when the feeds that replicas here depend on are closed; `Time::MAX` if there are none.
    pub(crate) fn closed(&self) -> Time {
        let incoming = self.links.incoming.lock();
        incoming.values().map(Incoming::closed).min().unwrap_or(Time::MAX)
    }

    /// Asks masters for everything after what these replicas have; not for those whose installation could be undone.
    pub(crate) fn subscribe(&self, partitions: &[Arc<SitePartition>]) {
        let mut replicas: BTreeMap<SiteId, Vec<Subscription>> = BTreeMap::new();
        for partition in partitions {
            let Some(source) = partition.source() else { continue };
            if !self.is_to_stay(partition) {
                continue;
            }
            replicas.entry(source).or_default().push(Subscription {
                table: partition.table,
                range: partition.range.clone(),
                version: partition.version(),
                position: partition.origin(),
            });
        }
        for (source, replicas) in replicas {
            let number = {
                let mut incoming = self.links.incoming.lock();
                let now = self.time.now();
                incoming.entry(source).or_insert_with(|| Incoming::new(now)).number
            };
            let epoch = Epoch { incarnation: self.incarnation, number };
            for replicas in replicas.chunks(SUBSCRIBED_AT_ONCE) {
                self.send(source, Message::Subscribe { epoch, replicas: replicas.to_vec() });
            }
        }
    }

    /// False while a replica was installed, and a crash would undo that.
    fn is_to_stay(&self, partition: &SitePartition) -> bool {
        let mut installed = self.links.installed.lock();
        installed.retain(|(.., position)| {
            !matches!(self.log.poll_durable(*position, Waker::noop()), Poll::Ready(Ok(())))
        });
        let is_of = |(table, range, _): &(TableId, KeyRange, Position)| {
            *table == partition.table && range.overlaps(&partition.range)
        };
        !installed.iter().any(is_of)
    }

    /// The replicas here that need a feed, by the site it comes from.
    pub(crate) fn followed(&self) -> BTreeMap<SiteId, Vec<Arc<SitePartition>>> {
        let mut followed: BTreeMap<SiteId, Vec<Arc<SitePartition>>> = BTreeMap::new();
        for table in self.tables().iter() {
            for (_, partition) in table.partitions.load().iter() {
                // Nothing more comes for those that were let go. What is to be mastered here may be promoted elsewhere.
                let ended = partition.is_unfollowed();
                if let Some(source) = partition.source().filter(|_| !ended) {
                    followed.entry(source).or_default().push(partition.clone());
                }
            }
        }
        followed
    }

    /// A site has begun a new run. If something was heard of it or expected from it, that begins
    /// anew.
    pub(super) fn hear_hello(&self, from: SiteId, incarnation: u64) {
        let known = self.links.incoming.lock().get(&from).map(|link| link.sender);
        if known.is_some_and(|sender| sender < incarnation) {
            self.open_link(from, incarnation);
        }
    }

    /// Opens a link anew. `sender` is the other site's run, as far as it is known.
    pub(super) fn open_link(&self, from: SiteId, sender: u64) {
        if let Some(link) = self.links.incoming.lock().get_mut(&from) {
            link.open(sender, self.time.now());
        }
        let replicas = self.followed().remove(&from).unwrap_or_default();
        replicas.iter().for_each(|partition| partition.follow(partition.safe_time(), None));
        self.subscribe(&replicas);
    }

    /// Opens links anew on which something is missing, and subscribes replicas again that were not
    /// answered. Part of a tick.
    pub(crate) fn watch_links(&self) {
        let (now, link_timeouts) = (self.time.now(), self.link_timeouts);
        let mut broken: Vec<SiteId> = {
            let incoming = self.links.incoming.lock();
            let links = incoming.iter().filter(|(_, link)| link.has_gap(now, link_timeouts.gap_ns));
            links.map(|(site, _)| *site).collect()
        };
        if self.is_time_to_look(now) {
            for (site, replicas) in self.followed() {
                let stream = self.stream_from(site);
                let is_silent = {
                    let incoming = self.links.incoming.lock();
                    incoming
                        .get(&site)
                        .is_some_and(|link| link.is_silent(now, link_timeouts.silent_ns))
                };
                if is_silent || broken.contains(&site) {
                    broken.push(site);
                    continue;
                }
                let has_joined = |partition: &SitePartition| match (partition.feed(), &stream) {
                    (Some(feed), Some(stream)) => Arc::ptr_eq(&feed, &stream.feed),
                    _ => false,
                };
                let left: Vec<_> = replicas.into_iter().filter(|p| !has_joined(p)).collect();
                self.subscribe(&left);
            }
        }
        broken.sort_unstable();
        broken.dedup();
        broken.into_iter().for_each(|site| self.open_link(site, 0));
    }

    fn is_time_to_look(&self, now: Time) -> bool {
        let mut looked = self.links.looked.lock();
        let is_due = now.0.saturating_sub(looked.0) >= self.link_timeouts.silent_ns / LOOKS;
        if is_due {
            *looked = now;
        }
        is_due
    }

    pub(super) fn receive_feed(&self, from: SiteId, feed: Feed) {
        let now = self.time.now();
        let (mut touched, mut is_awaited) = (Vec::new(), false);
        {
            let mut incoming = self.links.incoming.lock();
            let Some(link) = incoming.get_mut(&from) else { return };
            if feed.epoch != (Epoch { incarnation: self.incarnation, number: link.number }) {
                return; // Of an earlier stream.
            }
            if link.sender != 0 && link.sender < feed.from {
                // The other site has lost what the stream was to it: its numbers begin anew.
                drop(incoming);
                return self.open_link(from, feed.from);
            }
            if feed.from < link.sender || feed.number < link.next {
                return;
            }
            link.sender = feed.from;
            if link.early.is_empty() {
                link.waiting_since = now;
            }
            link.early.insert(feed.number, feed);
            while let Some(feed) = link.early.remove(&link.next) {
                link.next += 1;
                (link.heard, link.waiting_since) = (now, now);
                link.stream.since = Some(feed.since);
                is_awaited |= self.keep_tail(from, feed.from, &feed.items);
                for item in feed.items {
                    self.take_item(from, item, &link.stream.feed, &mut touched);
                }
                link.stream.feed.close(feed.closed);
            }
        }
        if is_awaited {
            self.tell_tail(from);
        }
        self.apply_touched(&mut touched);
    }

    fn apply_touched(&self, touched: &mut Vec<Arc<SitePartition>>) {
        touched.dedup_by(|a, b| Arc::ptr_eq(a, b));
        touched.iter().for_each(|partition| self.apply_pending(partition));
        self.send_acks();
    }

    /// Takes events that did not come by a stream. Gives the partitions that they are of.
    pub(crate) fn take_items(&self, from: SiteId, items: Vec<FeedItem>) -> Vec<Arc<SitePartition>> {
        let (feed, mut touched) = (Arc::default(), Vec::new());
        for item in items {
            self.take_item(from, item, &feed, &mut touched);
        }
        self.apply_touched(&mut touched);
        touched
    }

    /// The last run of a site that was heard of; 0: none.
    pub(crate) fn run_of(&self, site: SiteId) -> u64 {
        self.links.incoming.lock().get(&site).map_or(0, |link| link.sender)
    }

    /// Queues one event at its partition. The queue counts before the feed is closed further.
    fn take_item(
        &self,
        from: SiteId,
        item: FeedItem,
        feed: &Arc<store::Feed>,
        touched: &mut Vec<Arc<SitePartition>>,
    ) {
        match &item {
            FeedItem::Joined { table, range } => {
                for partition in self.table_or_new(*table).overlapping(range) {
                    // The stream of a partition is the one that begins where it does.
                    if partition.source() == Some(from) && range.contains(&partition.range.start) {
                        partition.join(feed.clone(), range.covers(&partition.range));
                    }
                }
            }
            FeedItem::Record { table, start, previous, version, .. } => {
                let table = self.table_or_new(*table);
                let mut early_events = self.links.early_events.lock();
                let Some(partition) = table.starting_at(start) else {
                    let place = (table.id, start.clone());
                    early_events.entry(place).or_default().insert(*previous, item);
                    return;
                };
                let mut pending = partition.pending.lock();
                if *version > partition.version() {
                    pending.insert(*previous, item);
                    partition.set_lagging(true);
                    drop(pending);
                    touched.push(partition);
                }
            }
            FeedItem::Tail(_) => {}
        }
    }
}
