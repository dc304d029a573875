//! Sending: one stream to each site that follows a partition here.
//!
//! The driver of the site's disk calls [`Site::ship`] after a sync. Durable frames go, in the order
//! of the log, to the sites that follow their partitions. With them goes the closed time, up to
//! which there are no other events. Only durable frames are sent, so a replica never has events
//! that its master could lose.
//!
//! **In the same process** a replica fails with its master. Its feed is closed only as far as
//! enough backups in other processes have all events: readers there wait for that.
//!
//! **Heartbeats** carry the closed time alone. To limit messages between idle sites, they grow
//! rarer while no reader asks for the feed to be closed (at 1, 2, 4, 8, 16, 32, 48 ticks after the
//! last request). A reader of a replica that lags asks ([`crate::close_ahead`]), and gets frequent
//! heartbeats from then on.

use super::received::Needs;
use crate::message::{Epoch, Feed, FeedItem, Message, Question, TailItem};
use crate::partition::SitePartition;
use crate::record::{Event, Record, read_frame};
use crate::site::{Outgoing, Site};
use crate::tail::{TailNews, backed_until};
use isomer_design::{Key, SiteId, SiteSet, Time};
use isomer_log::Position;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The longest time between heartbeats, in ticks. The history that is kept for snapshots goes back
/// to the last heartbeat.
const RARELY: u32 = 16;

/// The feeds to one site.
#[derive(Default)]
pub(super) struct Link {
    /// The current stream; `None` until the receiver has asked for one.
    epoch: Option<Epoch>,
    /// The number of feeds sent by the stream.
    sent: u64,
    /// Where the log ended when the stream was opened.
    opened_at: Position,
    /// The receiver follows, or has followed, a partition here.
    interested: bool,
    /// A reader at the receiver waits for the feed to be closed up to this time.
    wants: Time,
    /// Ticks since the last such request.
    unasked: u32,
    /// Which part of this log the receiver needs.
    pub(super) needs: Needs,
    /// It has been sent a hello of this run.
    greeted: bool,
    /// The receiver is to keep the tail of this log.
    keeps_tail: bool,
    /// The receiver follows no partition with backups here any more. Votes do not rest on its tail:
    /// after a restart it would not report the loss.
    has_left: bool,
    /// The stream that has carried the tail from its beginning.
    tail_begun_in: Option<Epoch>,
    /// The receiver was sent the tail in some stream, and not its end.
    has_tail: bool,
    /// The receiver is to be told that it keeps the tail no longer.
    tail_ends: bool,
    /// The position up to which the receiver has acknowledged the tail, in the current stream.
    tailed: Position,
    /// The stable position that it was last told.
    told_settled: Position,
}

impl Link {
    /// Opens a stream, unless it is the current one. `end` is the end of the log. False if the
    /// receiver has opened a later one.
    fn open(&mut self, epoch: Epoch, end: Position) -> bool {
        if self.epoch < Some(epoch) {
            (self.epoch, self.sent, self.opened_at) = (Some(epoch), 0, end);
            self.tailed = 0;
        }
        self.epoch == Some(epoch)
    }

    /// The receiver follows a partition here from now on, and readers are likely. `end` is the end
    /// of the log.
    fn interest(&mut self, end: Position) {
        (self.interested, self.unasked) = (true, 0);
        self.needs.raise(end);
    }

    /// Tells the receiver, if it is to know, that it keeps the tail no longer. Its tail would be an
    /// old one soon.
    fn end_tail(&mut self, items: &mut Vec<FeedItem>) {
        if std::mem::take(&mut self.tail_ends) {
            self.has_tail = false;
            items.push(FeedItem::Tail(TailItem::Ends));
        }
    }

    fn want(&mut self, closed: Time) {
        self.wants = self.wants.max(closed);
        self.unasked = 0;
    }

    /// Counts a tick. True if a heartbeat is due.
    fn tick(&mut self) -> bool {
        self.unasked = self.unasked.wrapping_add(1);
        self.unasked.is_multiple_of(RARELY)
            || (self.unasked < RARELY && self.unasked.is_power_of_two())
    }
}

impl Site {
    /// Closes the feed to a site up to a time, as soon as all earlier frames are durable.
    pub(crate) fn close_feed(&self, to: SiteId, at_least: Time) {
        self.store.clock.raise(at_least);
        let mut links = self.links.outgoing.lock();
        links.get_mut(&to).into_iter().for_each(|link| link.want(at_least));
        drop(links);
        self.ship();
    }

    /// Sends the frames that have become durable.
    pub fn ship(&self) {
        self.send_acks();
        self.ship_and_say(|_| false);
        self.tell_done_early();
    }

    /// Sends the frames that have become durable, and the heartbeats that are due. Asks sites that
    /// hold the log how much of it they have received.
    pub(crate) fn ship_at_tick(&self) {
        self.send_acks();
        self.ship_and_say(Link::tick);
        self.mark_log();
        let incarnation = self.incarnation;
        for (site, link) in self.links.outgoing.lock().iter_mut() {
            if let Some(number) = link.needs.ask() {
                let question = Question { incarnation, number };
                self.send(*site, Message::AskReceived { question });
            }
        }
    }

    /// Sends a hello to a site, once per run. A new run does not know which earlier frames a site
    /// lacks, so it keeps all of them until each site has told what it has received.
    pub(super) fn introduce(&self, to: SiteId) {
        let mut links = self.links.outgoing.lock();
        let link = links.entry(to).or_default();
        if !std::mem::replace(&mut link.greeted, true) {
            link.needs.raise(self.opened_at);
            self.send(to, Message::Hello { incarnation: self.incarnation });
        }
    }

    /// Sends a hello to a site that may have lost the last one.
    pub(super) fn introduce_again(&self, to: SiteId) {
        self.links.outgoing.lock().entry(to).or_default().greeted = false;
        self.introduce(to);
    }

    /// Sends the frames that have become durable, and the closed time where it is wanted or due.
    fn ship_and_say(&self, is_due: impl Fn(&mut Link) -> bool) {
        let mut links = self.links.outgoing.lock();
        let (frames, closed, durable) = self.take_outgoing();
        let tail = self.tail_of(&frames, durable, &links);
        let items: Vec<(&SiteSet, FeedItem)> =
            frames.iter().flat_map(|frame| feed_items(self.id, frame)).collect();
        let is_beside = |site: SiteId| self.domains.fail_together(self.id, site);
        let backed = match links.keys().any(|site| is_beside(*site)) {
            true => backed_until(self, durable, closed),
            false => closed,
        };
        for (site, link) in links.iter_mut() {
            let closed = if is_beside(*site) { backed } else { closed };
            let followed = |(followers, item): &(&SiteSet, FeedItem)| {
                followers.contains(*site).then(|| item.clone())
            };
            let mut items: Vec<FeedItem> = items.iter().filter_map(followed).collect();
            match &tail {
                Some((frames, news)) => self.add_tail(link, frames, news, &mut items),
                None if link.epoch.is_some() => link.end_tail(&mut items),
                None => {}
            }
            if !items.is_empty() {
                link.interested = true;
                link.needs.raise(durable);
            }
            let is_wanted = link.wants != Time::ZERO && link.wants <= closed;
            let has_news = is_due(link) || is_wanted || !items.is_empty();
            // Without a stream, the receiver will find them in the log when it opens one.
            if link.epoch.is_some() && link.interested && has_news {
                if is_wanted {
                    link.wants = Time::ZERO;
                }
                self.send_feed(*site, link, items, closed);
            }
        }
    }

    /// Extends the tail by the frames that are sent now. `None` if no site keeps it.
    fn tail_of(
        &self,
        frames: &[Outgoing],
        up_to: Position,
        links: &BTreeMap<SiteId, Link>,
    ) -> Option<(Vec<TailItem>, TailNews)> {
        if !links.values().any(|link| link.keeps_tail) {
            self.end_tail();
            return None;
        }
        let is_of_tail = |frame: &&Outgoing| frame.is_kept || self.has_backers(frame);
        let of_tail: Vec<&Outgoing> = frames.iter().filter(is_of_tail).collect();
        let news = self.extend_tail(of_tail.iter().copied(), up_to);
        let item = |outgoing: &Outgoing| TailItem::Frame {
            from: self.id,
            position: outgoing.position,
            frame: outgoing.frame.clone(),
        };
        Some((of_tail.into_iter().map(item).collect(), news))
    }

    /// Adds the items for a site that keeps the tail.
    fn add_tail(
        &self,
        link: &mut Link,
        frames: &[TailItem],
        news: &TailNews,
        items: &mut Vec<FeedItem>,
    ) {
        if link.epoch.is_none() {
            return;
        }
        if !link.keeps_tail {
            return link.end_tail(items);
        }
        if !news.has_begun {
            if link.tail_begun_in.take().is_some() {
                items.push(FeedItem::Tail(TailItem::Ends));
            }
            return;
        }
        if link.tail_begun_in != link.epoch {
            (link.tail_begun_in, link.told_settled) = (link.epoch, news.settled);
            (link.has_tail, link.tail_ends) = (true, false);
            items.splice(0..0, self.whole_tail());
            return;
        }
        items.splice(0..0, frames.iter().cloned().map(FeedItem::Tail));
        items.extend(news.finished.iter().map(|txn| FeedItem::Tail(TailItem::Finished(*txn))));
        // No reason to send a feed by itself: a receiver may keep frames for longer.
        if !items.is_empty() && link.told_settled < news.settled {
            link.told_settled = news.settled;
            items.push(FeedItem::Tail(TailItem::Settled(news.settled)));
        }
    }

    /// Records the position up to which a site keeps the tail.
    pub(super) fn hear_tailed(&self, from: SiteId, incarnation: u64, received: Position) {
        if incarnation != self.incarnation {
            return;
        }
        if let Some(link) = self.links.outgoing.lock().get_mut(&from) {
            link.tailed = received.max(link.tailed);
        }
        self.ticked.wake();
    }

    /// The sites whose tails votes may rest on, and those of them that have the tail up to a
    /// position.
    pub(crate) fn tail_keepers(&self, position: Position) -> (SiteSet, SiteSet) {
        let links = self.links.outgoing.lock();
        let keeping = links.iter().filter(|(_, link)| link.keeps_tail && !link.has_left);
        let have = keeping.clone().filter(|(_, link)| link.tailed >= position);
        (keeping.map(|(site, _)| *site).collect(), have.map(|(site, _)| *site).collect())
    }

    /// True if a site has acknowledged the tail up to a position.
    pub(crate) fn keeps_tail_up_to(&self, site: SiteId, position: Position) -> bool {
        let links = self.links.outgoing.lock();
        links.get(&site).is_some_and(|link| link.keeps_tail && link.tailed >= position)
    }

    /// Brings a site's tail up to date, and asks it for an acknowledgement.
    pub(crate) fn ask_for_tail(&self, site: SiteId) {
        self.review_keeping(site);
        self.ship();
        let mut links = self.links.outgoing.lock();
        let has_begun = |link: &&mut Link| link.epoch.is_some() && link.tail_begun_in == link.epoch;
        if let Some(link) = links.get_mut(&site).filter(has_begun) {
            self.send_feed(site, link, self.tail_up_to_now(), Time::ZERO);
        }
        drop(links);
        self.send(site, Message::AskTailed);
    }

    /// Asks for acknowledgements of the tail up to a position. A site that no longer follows a
    /// partition here may have no stream for it, so it is reviewed first.
    pub(crate) fn ask_for_tails(&self, position: Position) {
        let links = self.links.outgoing.lock();
        let lacks = |(_, link): &(&SiteId, &Link)| link.keeps_tail && link.tailed < position;
        let lacking: Vec<SiteId> = links.iter().filter(lacks).map(|(site, _)| *site).collect();
        drop(links);
        for site in lacking {
            self.review_keeping(site);
            self.send(site, Message::AskTailed);
        }
    }

    /// Followers of a partition with backups, except fenced ones, are to keep the tail.
    pub(crate) fn begin_keeping(&self, partition: &SitePartition) {
        if self.is_backed(partition.table) {
            let followers = partition.followers();
            let heard: SiteSet = followers.iter().filter(|site| !self.is_fenced(*site)).collect();
            let mut links = self.links.outgoing.lock();
            for site in heard.iter() {
                let link = links.entry(site).or_default();
                (link.keeps_tail, link.has_left) = (true, false);
            }
        }
    }

    /// A fenced site keeps no tail.
    pub(crate) fn stop_keeping(&self, site: SiteId) {
        if let Some(link) = self.links.outgoing.lock().get_mut(&site) {
            (link.keeps_tail, link.tail_begun_in) = (false, None);
        }
        self.ticked.wake();
    }

    /// Decides whether a site is to keep the tail, after its followed partitions may have changed.
    /// A learner without a stream need not: its copy may never arrive, and waiting for it could
    /// block the change that installs it.
    pub(crate) fn review_keeping(&self, site: SiteId) {
        match is_backer(self, site) && !self.is_fenced(site) {
            true => {
                let mut links = self.links.outgoing.lock();
                let link = links.entry(site).or_default();
                (link.keeps_tail, link.has_left) = (true, false);
            }
            false => self.stop_keeping(site),
        }
    }

    /// These sites follow a partition whose term begins at a position of the log. They get
    /// heartbeats, and the log is kept for them.
    pub(crate) fn expect_followers(&self, followers: &SiteSet, begin: Position) {
        let end = self.log.end();
        let mut links = self.links.outgoing.lock();
        for site in followers.iter() {
            let link = links.entry(site).or_default();
            link.interest(end);
            link.needs.renew(begin);
        }
    }

    /// Opens a stream, unless it is the current one. Returns where the log ended when it was
    /// opened, or `None` if the receiver has opened a later one.
    pub(super) fn open_stream(&self, to: SiteId, epoch: Epoch) -> Option<Position> {
        let mut links = self.links.outgoing.lock();
        let link = links.entry(to).or_default();
        let is_present = link.open(epoch, self.log.end());
        is_present.then(|| {
            link.interest(self.log.end());
            link.opened_at
        })
    }

    /// Sends the answer to a subscription, if its stream is still the current one.
    pub(super) fn answer(&self, to: SiteId, epoch: Epoch, mut items: Vec<FeedItem>) {
        let mut links = self.links.outgoing.lock();
        if let Some(link) = links.get_mut(&to).filter(|link| link.epoch == Some(epoch)) {
            if link.tail_begun_in == link.epoch {
                // Frames from before the site followed any partition are stable history.
                link.told_settled = self.tail_settled();
                items.extend(self.tail_up_to_now());
            }
            self.send_feed(to, link, items, Time::ZERO);
        }
    }

    /// Sends the next feed of the current stream.
    fn send_feed(&self, to: SiteId, link: &mut Link, items: Vec<FeedItem>, closed: Time) {
        let epoch = link.epoch.expect("a feed is sent by a stream that was opened");
        link.sent += 1;
        let (from, number, since) = (self.incarnation, link.sent, link.opened_at);
        self.send(to, Message::Feed(Feed { from, epoch, since, number, items, closed }));
    }
}

/// Closes the feeds for which readers at other sites of the master's process wait, after an
/// acknowledgement of a backup.
pub(super) fn close_beside(master: &Site) {
    let is_awaited = |(site, link): (&SiteId, &Link)| {
        link.wants != Time::ZERO && master.domains.fail_together(master.id, *site)
    };
    let is_any_awaited = master.links.outgoing.lock().iter().any(is_awaited);
    if is_any_awaited {
        master.ship();
    }
}

/// Ends the reliance of a site on a follower's copy of its tail, unless it still follows a
/// partition with backups. The follower still keeps the tail. Returns true if votes may rest on it.
pub(crate) fn review_leaving(master: &Site, follower: SiteId) -> bool {
    let is_backer = is_backer(master, follower);
    if let Some(link) = master.links.outgoing.lock().get_mut(&follower) {
        link.has_left = !is_backer;
    }
    master.ticked.wake();
    is_backer
}

/// Ends the tail of a site that follows no partition with backups here any more, once enough
/// others have what only this site may have had ([`crate::tail::replace_tail_of`]).
pub(crate) fn end_keeping(master: &Site, site: SiteId) {
    master.review_keeping(site);
    let mut links = master.links.outgoing.lock();
    if let Some(link) = links.get_mut(&site) {
        link.tail_ends = link.has_tail && !link.keeps_tail;
    }
}

/// True if `follower` follows a partition with backups that `master` masters.
fn is_backer(master: &Site, follower: SiteId) -> bool {
    let tail_begun_in = |link: &Link| link.tail_begun_in;
    let begun = master.links.outgoing.lock().get(&follower).and_then(tail_begun_in);
    let is_backed_by = |partition: &SitePartition| {
        partition.is_master()
            && partition.followers().contains(follower)
            && (begun.is_some() || !master.is_learner(partition, follower))
    };
    let tables = master.tables();
    tables
        .iter()
        .filter(|table| table.is_backed())
        .any(|table| table.partitions.load().iter().any(|(_, partition)| is_backed_by(partition)))
}

fn feed_items(from: SiteId, outgoing: &Outgoing) -> Vec<(&SiteSet, FeedItem)> {
    let (_, records) = read_frame(&outgoing.frame).expect("the site wrote the frame itself");
    let records = records.iter().enumerate().zip(&outgoing.followers);
    let followed = records.filter(|(_, followers)| !followers.is_empty());
    followed
        .flat_map(|((at, record), followers)| {
            let items = feed_item(from, record, at, &outgoing.frame, outgoing.position);
            items.map(move |item| (followers, item))
        })
        .collect()
}

/// A record as an event of its partition. A merge is also the last event of the right partition, so
/// that a replica of the right partition learns of its end.
pub(crate) fn feed_item(
    from: SiteId,
    record: &Record<'_>,
    at: usize,
    frame: &Arc<[u8]>,
    position: Position,
) -> impl Iterator<Item = FeedItem> {
    let event = |start: &Key, previous| FeedItem::Record {
        from,
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

    #[test]
    fn a_request_that_was_overtaken_opens_nothing() {
        let mut link = Link::default();
        let epoch = |incarnation, number| Epoch { incarnation, number };
        assert!(link.open(epoch(5, 2), 100));
        link.sent = 7;
        assert!(link.open(epoch(5, 2), 200), "it is the present one");
        assert_eq!((link.sent, link.opened_at), (7, 100));
        assert!(!link.open(epoch(5, 1), 300) && !link.open(epoch(4, 9), 300));
        assert!(link.open(epoch(6, 1), 300), "a new run");
        assert_eq!((link.sent, link.opened_at), (0, 300));
    }
}
