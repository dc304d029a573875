//! Links: how the events of masters reach the replicas that follow them.
//!
//! **Sending.** Whoever drives the site's disk calls [`Site::ship`] after a sync. Frames that are
//! durable go, in the order of the log, to the sites that follow their partitions; with them goes the
//! time up to which there is nothing else. What is not durable is not sent: a replica never holds
//! what its master could lose.
//!
//! **Heartbeats** say the time alone, tick after tick, and so that not everybody writes to everybody all
//! the time, they grow rarer where nobody asks how far the feed has come (at 1, 2, 4, 8, 16, 32, 48 ticks since).
//! Who reads a replica that is not that far does ask ([`crate::silence`]), and is told often from then on.
//!
//! **Receiving.** A feed is put in order, its events are queued at their partitions (which then count
//! as lagging), and the feed's word of completeness is passed on. Then the queues are worked off,
//! partition by partition, by whoever comes first: the thread that received the feed, or a reader
//! who waits ([`crate::refresh`]).
//!
//! **Starting anew.** A run of a site has an incarnation. When either side of a link starts anew, the
//! link does: feeds of the old one are ignored, and the replica subscribes again with the version it
//! has and the position up to which it has read the master's log.

use crate::message::{Feed, FeedItem, Message};
use crate::partition::{SitePartition, Table};
use crate::record::{Event, Record, read_frame};
use crate::site::{Outgoing, Site};
use isomer_design::{Key, KeyRange, SiteId, SiteSet, TableId, Time, Version};
use isomer_log::{LogError, Position};
use isomer_store as store;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A heartbeat that nobody asks for is sent every so many ticks at least: the history that is kept for
/// snapshots goes back to the last one.
const RARELY: u32 = 16;

/// The links of a site, both ways.
#[derive(Default)]
pub(crate) struct Links {
    incoming: Mutex<BTreeMap<SiteId, Incoming>>,
    outgoing: Mutex<BTreeMap<SiteId, Link>>,
    /// Events of partitions that do not exist here yet: their replica is being installed, or a split
    /// that makes them has not been applied. Also the lock under which partitions come to be.
    pub(crate) orphans: Mutex<Orphans>,
}

pub(crate) type Orphans = BTreeMap<(TableId, Key), BTreeMap<Version, FeedItem>>;

/// The feeds from one site.
struct Incoming {
    incarnation: u64,
    next: u64,
    early: BTreeMap<u64, Feed>,
    feed: Arc<store::Feed>,
}

/// The feeds to one site.
#[derive(Default)]
struct Link {
    /// The receiver's run; 0 until it has said hello.
    incarnation: u64,
    sent: u64,
    /// The receiver follows, or has followed, something here.
    interested: bool,
    /// What was appended from here on goes to the receiver's present run, if it follows it.
    opened_at: Position,
    /// Somebody there waits for the feed to be closed up to this time.
    wants: Time,
    /// Ticks since somebody there waited for that.
    unasked: u32,
    /// The receiver's checkpoint holds everything before this position of our log.
    checkpointed: Position,
}

impl Link {
    /// The receiver follows something here from now on, and is likely to read it.
    fn interest(&mut self) {
        (self.interested, self.unasked) = (true, 0);
    }

    fn want(&mut self, closed: Time) {
        self.wants = self.wants.max(closed);
        self.unasked = 0;
    }

    /// A tick has passed: is it time to say up to when that was all?
    fn tick(&mut self) -> bool {
        self.unasked = self.unasked.wrapping_add(1);
        self.unasked.is_multiple_of(RARELY)
            || (self.unasked < RARELY && self.unasked.is_power_of_two())
    }
}

impl Site {
    /// Says hello to the other sites. To be called once the site can receive messages.
    pub fn greet(&self, others: impl Iterator<Item = SiteId>) {
        for other in others {
            self.send(other, Message::Hello { incarnation: self.incarnation, answer: true });
        }
    }

    /// Takes a message from another site.
    pub fn receive(&self, from: SiteId, message: Message) {
        match message {
            Message::Hello { incarnation, answer } => {
                self.open_outgoing(from, incarnation);
                self.has_restarted(from, incarnation);
                if answer {
                    let hello = Message::Hello { incarnation: self.incarnation, answer: false };
                    self.send(from, hello);
                }
                self.open_incoming(from, incarnation);
            }
            Message::Subscribe { incarnation, table, range, version, position } => {
                self.open_outgoing(from, incarnation);
                self.catch_up(from, table, &range, version, position);
            }
            Message::Feed(feed) => self.receive_feed(from, feed),
            Message::Close { at_least } => self.close_feed(from, at_least),
            Message::AskSilence { table, start, at_least } => {
                self.asked_for_silence(from, table, start, at_least);
            }
            Message::Silence { table, start, last, until } => {
                self.hear_silence(table, &start, last, until);
            }
            Message::Ask { txn } => self.asked_for_outcome(from, txn),
            Message::Outcome { txn, at } => self.hear_outcome(txn, at),
            Message::Done { txns } => self.hear_done(from, &txns),
            Message::Checkpointed { position } => {
                self.links.outgoing.lock().entry(from).or_default().checkpointed = position;
            }
        }
    }

    /// Closes the feed to a site up to a time, as soon as all that is before is durable.
    pub(crate) fn close_feed(&self, to: SiteId, at_least: Time) {
        self.store.clock.raise(at_least);
        let mut links = self.links.outgoing.lock();
        links.get_mut(&to).into_iter().for_each(|link| link.want(at_least));
        drop(links);
        self.ship();
    }

    /// Sends what has become durable.
    pub fn ship(&self) {
        self.ship_and_say(|_| false);
    }

    /// Sends what has become durable, and to followers that have not heard for long up to when that was all, even if
    /// there is nothing to send.
    pub(crate) fn ship_at_tick(&self) {
        self.ship_and_say(Link::tick);
    }

    /// Sends what has become durable, and up to when that was all where it is wanted or due.
    fn ship_and_say(&self, is_due: impl Fn(&mut Link) -> bool) {
        let mut links = self.links.outgoing.lock();
        let (frames, closed) = self.take_outgoing();
        let items: Vec<(&SiteSet, FeedItem)> = frames.iter().flat_map(feed_items).collect();
        for (site, link) in links.iter_mut() {
            let followed = |(followers, item): &(&SiteSet, FeedItem)| {
                followers.contains(*site).then(|| item.clone())
            };
            let items: Vec<FeedItem> = items.iter().filter_map(followed).collect();
            link.interested |= !items.is_empty();
            let is_wanted = link.wants != Time::ZERO && link.wants <= closed;
            let has_news = is_due(link) || is_wanted || !items.is_empty();
            if link.incarnation != 0 && link.interested && has_news {
                if is_wanted {
                    link.wants = Time::ZERO;
                }
                self.send_feed(*site, link, items, closed);
            }
        }
    }

    /// The feed of another site's events, as it stands in this run of both.
    pub(crate) fn feed_from(&self, site: SiteId) -> Option<(u64, Arc<store::Feed>)> {
        let incoming = self.links.incoming.lock();
        incoming.get(&site).map(|link| (link.incarnation, link.feed.clone()))
    }

    /// Up to when the feeds that replicas here depend on are closed; `Time::MAX` if there are none.
    pub(crate) fn closed(&self) -> Time {
        let incoming = self.links.incoming.lock();
        let closed = incoming.values().map(|link| link.feed.closed());
        closed.filter(|&time| time != Time::ZERO).min().unwrap_or(Time::MAX)
    }

    /// The log is still needed by followers from here on.
    pub(crate) fn needed_by_followers(&self) -> Position {
        let links = self.links.outgoing.lock();
        let interested = links.values().filter(|link| link.interested);
        interested.map(|link| link.checkpointed).min().unwrap_or(Position::MAX)
    }

    /// These sites follow something here: they are to get heartbeats, and the log is kept for them.
    pub(crate) fn expect_followers(&self, followers: &SiteSet) {
        let mut links = self.links.outgoing.lock();
        followers.iter().for_each(|site| links.entry(site).or_default().interest());
    }

    /// Asks the master of a replica for everything after what the replica has.
    pub(crate) fn subscribe(&self, partition: &SitePartition, position: Position) {
        let Some(source) = partition.source() else { return };
        let subscribe = Message::Subscribe {
            incarnation: self.incarnation,
            table: partition.table,
            range: partition.range.clone(),
            version: partition.version(),
            position,
        };
        self.send(source, subscribe);
    }

    pub(crate) fn send(&self, to: SiteId, message: Message) {
        self.network.send(self.id, to, message);
    }

    fn send_feed(&self, to: SiteId, link: &mut Link, items: Vec<FeedItem>, closed: Time) {
        link.sent += 1;
        let (from, number) = (self.incarnation, link.sent);
        let feed = Feed { from, to: link.incarnation, number, items, closed };
        self.send(to, Message::Feed(feed));
    }

    fn open_outgoing(&self, site: SiteId, incarnation: u64) {
        let mut links = self.links.outgoing.lock();
        let link = links.entry(site).or_default();
        if link.incarnation < incarnation {
            link.incarnation = incarnation;
            link.sent = 0;
            link.opened_at = self.log.end();
        }
    }

    fn open_incoming(&self, site: SiteId, incarnation: u64) {
        {
            let mut incoming = self.links.incoming.lock();
            if incoming.get(&site).is_some_and(|link| link.incarnation >= incarnation) {
                return;
            }
            let (next, early) = (1, BTreeMap::new());
            let feed = Arc::new(store::Feed::default());
            incoming.insert(site, Incoming { incarnation, next, early, feed });
        }
        let tables = self.tables();
        for table in tables.iter() {
            for (_, partition) in table.partitions.load().iter() {
                if partition.source() == Some(site) {
                    partition.follow(partition.complete(), None);
                    self.subscribe(partition, partition.origin());
                }
            }
        }
    }

    fn receive_feed(&self, from: SiteId, feed: Feed) {
        if feed.to != self.incarnation {
            return;
        }
        self.open_incoming(from, feed.from);
        let mut touched = Vec::new();
        {
            let mut incoming = self.links.incoming.lock();
            let link = incoming.get_mut(&from).expect("the link was just opened");
            if feed.from != link.incarnation || feed.number < link.next {
                return;
            }
            link.early.insert(feed.number, feed);
            while let Some(feed) = link.early.remove(&link.next) {
                link.next += 1;
                for item in feed.items {
                    self.take_item(from, item, &link.feed, &mut touched);
                }
                link.feed.close(feed.closed);
            }
        }
        touched.dedup_by(|a, b| Arc::ptr_eq(a, b));
        touched.iter().for_each(|partition| self.apply_pending(partition));
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
                let mut orphans = self.links.orphans.lock();
                let Some(partition) = table.starting_at(start) else {
                    let place = (table.id, start.clone());
                    orphans.entry(place).or_default().insert(*previous, item);
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
        }
    }

    /// Sends a subscriber what it has missed of the events in this log, whoever is master now. Where
    /// that is this site, and the subscriber follows, its feed speaks for the replica from then on.
    fn catch_up(
        &self,
        to: SiteId,
        table: TableId,
        range: &KeyRange,
        version: Version,
        from: Position,
    ) {
        let mut links = self.links.outgoing.lock();
        let link = links.entry(to).or_default();
        link.interest();
        let held = self.table_or_new(table).overlapping(range);
        let mastered = held.iter().filter(|partition| partition.is_master());
        // A replica that comes from another master knows no position in this log. What it lacks
        // begins where mastership did; if that is not known, or longer ago, anywhere in the log.
        let begin = held.iter().map(|partition| partition.reign()).min().unwrap_or(0);
        let ahead = held.first().is_some_and(|p| !p.is_master() && p.version() <= version);
        let is_current =
            |p: &Arc<SitePartition>| p.is_master() && p.range == *range && p.version() == version;
        // Everything since mastership began goes that way already.
        let is_told = begin > 0
            && begin >= link.opened_at
            && held.iter().all(|p| p.is_master() && p.followers().contains(to));
        let missed = match from {
            _ if held.first().is_some_and(is_current) => Ok(Vec::new()), // The log need not be read.
            0 if ahead || is_told => Ok(Vec::new()), // Events come with the feed, or are still to come.
            0 => self.missed(table, range, version, begin).and_then(|items| {
                let connects = begin == 0 || connects(&items, &held, range, version);
                if connects { Ok(items) } else { self.missed(table, range, version, 0) }
            }),
            _ => self.missed(table, range, version, from),
        };
        let mut items = match missed {
            Ok(items) => items,
            // The replica stays behind; reading our own log should not fail.
            Err(error) => {
                return self.trouble(&format!("cannot send {to} what it missed: {error}"));
            }
        };
        items.extend(
            mastered
                .filter(|partition| partition.followers().contains(to))
                // Of what was not asked about, events may be missing.
                .map(|partition| FeedItem::Joined {
                    table,
                    range: partition.range.intersection(range),
                }),
        );
        self.send_feed(to, link, items, Time::ZERO);
    }

    /// The durable events from `from` on that a replica of `range` at `version` may lack.
    fn missed(
        &self,
        table: TableId,
        range: &KeyRange,
        version: Version,
        from: Position,
    ) -> Result<Vec<FeedItem>, LogError> {
        let durable = self.log.durable();
        let mut items = Vec::new();
        self.log.read(from.max(self.log.begin()), &mut |position, frame| {
            if position >= durable {
                return ControlFlow::Break(());
            }
            items.extend(missed_in(position, frame, table, range, version));
            ControlFlow::Continue(())
        })?;
        Ok(items)
    }
}

/// True if `items` begin where the replica is, or there are none because it lacks none.
fn connects(
    items: &[FeedItem],
    held: &[Arc<SitePartition>],
    range: &KeyRange,
    version: Version,
) -> bool {
    let up_to_date = held.first().is_some_and(|p| p.version() == version);
    let next = |item: &FeedItem| {
        matches!(item, FeedItem::Record { start, previous, .. }
            if *start == range.start && *previous == version)
    };
    up_to_date || items.iter().any(next)
}

impl Table {
    /// Makes `new` the partitions in place of those that begin at the keys of `old`, with the events
    /// that have arrived for them. Needs the orphans' lock, under which events find their partition.
    pub(crate) fn adopt(orphans: &mut Orphans, new: &[Arc<SitePartition>]) {
        for partition in new {
            let place = (partition.table, partition.range.start.clone());
            let mut pending = partition.pending.lock();
            let events = orphans.remove(&place).unwrap_or_default();
            pending.extend(
                events.into_iter().filter(|(previous, _)| *previous >= partition.version()),
            );
            partition.set_lagging(!pending.is_empty());
        }
    }
}

fn feed_items(outgoing: &Outgoing) -> Vec<(&SiteSet, FeedItem)> {
    let (_, records) = read_frame(&outgoing.frame).expect("the site wrote the frame itself");
    let records = records.iter().enumerate().zip(&outgoing.followers);
    let followed = records.filter(|(_, followers)| !followers.is_empty());
    followed
        .flat_map(|((at, record), followers)| {
            let items = feed_item(record, at, &outgoing.frame, outgoing.position);
            items.map(move |item| (followers, item))
        })
        .collect()
}

/// A record as an event of its partition. A merge is the last event of the right partition, too, so
/// that a replica of it knows what it waits for.
fn feed_item(
    record: &Record<'_>,
    at: usize,
    frame: &Arc<[u8]>,
    position: Position,
) -> impl Iterator<Item = FeedItem> {
    let event = |start: &Key, previous| FeedItem::Record {
        table: record.table,
        start: start.clone(),
        previous,
        version: record.version,
        frame: frame.clone(),
        at,
        position,
    };
    let right = match &record.event {
        Event::Merge { right, right_version } => Some(event(right, *right_version)),
        _ => None,
    };
    std::iter::once(event(&record.start, record.previous)).chain(right)
}

/// The events of one frame that a subscriber to `range` at `version` may lack.
fn missed_in(
    position: Position,
    frame: &[u8],
    table: TableId,
    range: &KeyRange,
    version: Version,
) -> Vec<FeedItem> {
    let Ok((head, records)) = read_frame(frame) else { return Vec::new() };
    if head.kind.origin().is_some() {
        return Vec::new();
    }
    let shared: Arc<[u8]> = Arc::from(frame);
    let wanted = |item: &FeedItem| {
        // The end of a replica here leads to no version, and concerns nobody else.
        matches!(item, FeedItem::Record { table: of, start, previous, version: to, .. }
            if *of == table && range.contains(start) && *to > version && *to > *previous)
    };
    // The replica will read on from the frame itself: meeting it twice does no harm.
    let records = records.iter().enumerate();
    records
        .flat_map(|(at, record)| feed_item(record, at, &shared, position))
        .filter(wanted)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_grow_rarer_until_somebody_asks() {
        let mut link = Link::default();
        let due: Vec<u32> = (1..=50).filter(|_| link.tick()).collect();
        assert_eq!(due, [1, 2, 4, 8, 16, 32, 48]);
        link.want(Time(7));
        let due: Vec<u32> = (1..=10).filter(|_| link.tick()).collect();
        assert_eq!(due, [1, 2, 4, 8]);
    }
}
