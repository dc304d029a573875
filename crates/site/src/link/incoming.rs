//! Receiving: one stream from each site that masters a partition with a replica here.
//!
//! Feeds are put in order. Their events are queued at their partitions, which count as lagging from
//! then on; then the stream is closed up to the feed's time. The queues are worked off partition by
//! partition, by the thread that received the feed or by a waiting reader ([`crate::refresh`]).
//!
//! **Reopening a link** gives it the next epoch. Replicas leave the old stream, keep their safe
//! time, and subscribe with their versions. Feeds of the old stream are ignored from then on. Its
//! events that are queued already stay valid.
//!
//! | event | noticed by | action |
//! | --- | --- | --- |
//! | the master has begun a new run | its hello, or a feed of it | reopens the link |
//! | a gap that does not close | a tick | reopens the link |
//! | a silent master | a tick, periodically | reopens the link |
//! | a replica that has not joined | a tick, periodically | subscribes it again |

use crate::message::{Epoch, Feed, FeedItem, Message, Subscription};
use crate::partition::SitePartition;
use crate::site::Site;
use isomer_design::{KeyRange, SiteId, TableId, Time};
use isomer_log::Position;
use isomer_store as store;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// The most replicas in one subscription message.
const SUBSCRIBED_AT_ONCE: usize = 500;
/// Silent masters and replicas that have not joined are looked for every `silent_ns / LOOKS`.
const LOOKS: u64 = 4;

/// The feeds from one site.
pub(super) struct Incoming {
    /// How many times the link was opened in this run: the epoch of the stream.
    number: u64,
    /// The sender's incarnation that the stream is of; 0 until its first feed or hello.
    sender: u64,
    /// The number of the next feed in order.
    next: u64,
    /// Feeds that arrived out of order.
    early: BTreeMap<u64, Feed>,
    /// Since when early feeds wait.
    waiting_since: Time,
    /// When a feed in order last arrived, or the stream was opened.
    heard: Time,
    /// The closed time of earlier streams; for the first stream, when the link was opened.
    closed_before: Time,
    stream: Stream,
}

/// A stream, as its replicas see it.
#[derive(Clone, Default)]
pub(crate) struct Stream {
    /// It has all frames from this position of the sender's log on, as [`Feed::since`] says;
    /// `None`: no feed of it has arrived yet.
    pub(crate) since: Option<Position>,
    /// Its closed time.
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

    /// Ends the current stream, and begins the next.
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
    /// The current stream from a site, if there is one.
    pub(crate) fn stream_from(&self, site: SiteId) -> Option<Stream> {
        let incoming = self.links.incoming.lock();
        incoming.get(&site).map(|link| link.stream.clone())
    }

    /// The time up to which all feeds of replicas here are closed; `Time::MAX` if there are none.
    pub(crate) fn closed(&self) -> Time {
        let incoming = self.links.incoming.lock();
        incoming.values().map(Incoming::closed).min().unwrap_or(Time::MAX)
    }

    /// Asks masters for all events after the versions of these replicas. Skips replicas whose
    /// installation is not durable.
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

    /// False while the installation of a replica is not durable, so that a crash could undo it.
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

    /// The replicas here that need a feed, by the site that sends it.
    pub(crate) fn followed(&self) -> BTreeMap<SiteId, Vec<Arc<SitePartition>>> {
        let mut followed: BTreeMap<SiteId, Vec<Arc<SitePartition>>> = BTreeMap::new();
        for table in self.tables().iter() {
            for (_, partition) in table.partitions.load().iter() {
                // A replica that was unfollowed gets no more events. One that is to become master
                // here may yet be promoted elsewhere.
                let ended = partition.is_unfollowed();
                if let Some(source) = partition.source().filter(|_| !ended) {
                    followed.entry(source).or_default().push(partition.clone());
                }
            }
        }
        followed
    }

    /// A site has begun a new run. If there is a link from it, reopens that.
    pub(super) fn hear_hello(&self, from: SiteId, incarnation: u64) {
        let known = self.links.incoming.lock().get(&from).map(|link| link.sender);
        if known.is_some_and(|sender| sender < incarnation) {
            self.open_link(from, incarnation);
        }
    }

    /// Reopens a link. `sender` is the incarnation of the other site, or 0.
    pub(super) fn open_link(&self, from: SiteId, sender: u64) {
        if let Some(link) = self.links.incoming.lock().get_mut(&from) {
            link.open(sender, self.time.now());
        }
        let replicas = self.followed().remove(&from).unwrap_or_default();
        replicas.iter().for_each(|partition| partition.follow(partition.safe_time(), None));
        self.subscribe(&replicas);
    }

    /// Reopens links that miss feeds, and subscribes replicas again that have not joined. Part of a
    /// tick.
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
                return; // It belongs to an earlier stream.
            }
            if link.sender != 0 && link.sender < feed.from {
                // The other site has restarted and lost the state of the stream: its numbers begin
                // again.
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

    /// Applies events that did not arrive by a stream. Returns their partitions.
    pub(crate) fn take_items(&self, from: SiteId, items: Vec<FeedItem>) -> Vec<Arc<SitePartition>> {
        let (feed, mut touched) = (Arc::default(), Vec::new());
        for item in items {
            self.take_item(from, item, &feed, &mut touched);
        }
        self.apply_touched(&mut touched);
        touched
    }

    /// The latest known incarnation of a site; 0: none.
    pub(crate) fn run_of(&self, site: SiteId) -> u64 {
        self.links.incoming.lock().get(&site).map_or(0, |link| link.sender)
    }

    /// Queues one event at its partition. Must precede the close of its feed.
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
                    // A partition belongs to the stream that covers its first key.
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
