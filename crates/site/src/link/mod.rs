//! Links: how the events of masters reach the replicas that follow them (log shipping).
//!
//! ```text
//!   s1 (master)                                              s2 (replica)
//!   durable frames ─▶ stream of feeds, epoch 1: 1 2 3 ╳ 5 6 ─▶ 1 2 3, and a gap
//!        log       ◀── subscribe, epoch 2: version 31 ──────── opens the link anew
//!         └─▶ what it lacks, joined ─▶ epoch 2: 1 2 3 ───────▶ in order, nothing missing
//! ```
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`outgoing`] | sending: frames that are durable, and heartbeats |
//! | [`catch_up`] | what a subscriber lacks, and the proof that it is no more than that |
//! | [`incoming`] | receiving: order, gaps, opening a link anew |
//! | [`received`] | what of a log its followers do not need any more |
//!
//! **A stream** is from one run of a master to one run of a follower, and has an epoch, which the
//! follower chooses. Its feeds are numbered. So a follower knows of every feed whether it is of the
//! present stream, in its turn, early, or doubled; and if one does not come, it opens a new stream
//! with the versions that its replicas have. That is the only way in which anything is sent again,
//! and a master keeps nothing for followers but its log. When it wants to cut that, it asks them up to
//! when they have made all that they follow durable themselves ([`received`]).
//!
//! **What a stream promises.** Of a partition that has *joined* it, every event after the version
//! with which its replica subscribed is in the stream, or is not durable yet. And a feed that is
//! *closed* up to a time says that it and those before hold every event of joined partitions up to
//! then.
//!
//! **Loss.** A gap lasts for [`LinkTimeouts::gap_ns`] at most. If the last feeds of a stream are
//! lost, the next heartbeat leaves a gap; if there are no heartbeats, the master does not know of
//! the stream, or is down, and the link is opened anew after [`LinkTimeouts::silent_ns`]. A replica
//! that is not joined asks again from time to time. Hellos only save time.

pub(crate) mod catch_up;
pub(crate) mod incoming;
pub(crate) mod outgoing;
mod received;

use crate::message::{FeedItem, Message};
use crate::partition::{SitePartition, Table};
use crate::site::Site;
use crate::tail::{OtherTails, OwnTail};
use incoming::Incoming;
use isomer_design::{Key, KeyRange, SiteId, TableId, Time, Version};
use isomer_log::Position;
use outgoing::Link;
use parking_lot::Mutex;
use received::{Answers, Marks};
use std::collections::BTreeMap;
use std::sync::Arc;

/// When something is taken for lost that another site should have sent. To be wrong costs a few
/// messages and some reading in the master's log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkTimeouts {
    /// A feed is waited for so many nanoseconds, while later ones are there.
    pub gap_ns: u64,
    /// A master may say nothing for so many nanoseconds. Must be longer than the time between two
    /// heartbeats: 16 ticks at most.
    pub silent_ns: u64,
}

impl Default for LinkTimeouts {
    /// 50 ms for a gap. 3 s for silence: an idle site of the embedded runtime ticks every 64 ms.
    fn default() -> LinkTimeouts {
        LinkTimeouts { gap_ns: 50_000_000, silent_ns: 3_000_000_000 }
    }
}

/// The links of a site, both ways.
#[derive(Default)]
pub(crate) struct Links {
    incoming: Mutex<BTreeMap<SiteId, Incoming>>,
    outgoing: Mutex<BTreeMap<SiteId, Link>>,
    answers: Mutex<Answers>,
    marks: Mutex<Marks>,
    /// The tail of this site's log, as others are to keep it; what is kept of theirs.
    pub(crate) own_tail: Mutex<OwnTail>,
    pub(crate) other_tails: Mutex<OtherTails>,
    /// Replicas that were installed here, by their ranges, and where in the log. While that is not durable they are not
    /// subscribed: a master takes a subscription for a sign that the copy will be there.
    pub(crate) installed: Mutex<Vec<(TableId, KeyRange, Position)>>,
    /// When this site looked last for masters that are silent, and replicas that have not joined.
    looked: Mutex<Time>,
    /// Events of partitions that do not exist here yet: their replica is being installed, or a
    /// split that makes them has not been applied. Also the lock under which partitions come to be.
    pub(crate) early_events: Mutex<EarlyEvents>,
}

pub(crate) type EarlyEvents = BTreeMap<(TableId, Key), BTreeMap<Version, FeedItem>>;

impl Site {
    /// Says hello to the other sites, and subscribes the replicas that are here. To be called once
    /// the site can receive messages.
    pub fn greet(&self, others: impl Iterator<Item = SiteId>) {
        others.for_each(|other| self.introduce(other));
        let replicas: Vec<_> = self.followed().into_values().flatten().collect();
        self.subscribe(&replicas);
    }

    /// The process of other sites can be reached, for the first time or again: what was sent there before may be
    /// lost. So they are greeted again, and what is followed there is asked for again.
    pub fn meet(&self, others: &[SiteId]) {
        others.iter().for_each(|other| self.introduce_again(*other));
        let followed = self.followed();
        let here = followed.keys().filter(|source| others.contains(source));
        here.for_each(|source| self.open_link(*source, 0));
    }

    /// Takes a message from another site.
    pub fn receive(&self, from: SiteId, message: Message) {
        if message.is_of_master() && self.is_fenced(from) {
            return;
        }
        match message {
            Message::Hello { incarnation } => {
                self.has_restarted(from, incarnation);
                self.hear_hello(from, incarnation);
                self.introduce(from);
            }
            Message::Subscribe { epoch, replicas } => self.catch_up(from, epoch, replicas),
            Message::Feed(feed) => self.receive_feed(from, feed),
            Message::Close { at_least } => self.close_feed(from, at_least),
            Message::AskCloseAhead { table, start, at_least } => {
                self.asked_to_close_ahead(from, table, start, at_least);
            }
            Message::CloseAhead { table, start, last, until } => {
                self.hear_close_ahead(table, &start, last, until);
            }
            Message::Ask { txn } => self.asked_for_outcome(from, txn),
            Message::Outcome { txn, at } => self.hear_outcome(txn, at),
            Message::Done { txns } => self.hear_done(from, &txns),
            Message::AskReceived { question } => self.asked_what_is_received(from, question),
            Message::Received { question, up_to } => self.hear_received(from, question, up_to),
            Message::Ack { events } => self.hear_ack(from, events),
            Message::AskAck { partitions } => self.asked_for_acks(from, partitions),
            Message::Tailed { incarnation, received } => {
                self.hear_tailed(from, incarnation, received);
            }
            Message::AskTailed => self.tell_tail(from),
        }
    }

    pub(crate) fn send(&self, to: SiteId, message: Message) {
        self.network.send(self.id, to, message);
    }
}

impl Table {
    /// Makes `new` the partitions in place of those that begin at the keys of `old`, with the
    /// events that have arrived for them. Needs the early events' lock, under which events find their
    /// partition.
    pub(crate) fn adopt(early_events: &mut EarlyEvents, new: &[Arc<SitePartition>]) {
        for partition in new {
            let place = (partition.table, partition.range.start.clone());
            let mut pending = partition.pending.lock();
            let events = early_events.remove(&place).unwrap_or_default();
            pending.extend(
                events.into_iter().filter(|(previous, _)| *previous >= partition.version()),
            );
            partition.set_lagging(!pending.is_empty());
        }
    }
}
