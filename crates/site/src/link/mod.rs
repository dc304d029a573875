//! Links: how the events of masters reach the replicas that follow them (log shipping).
//!
//! ```text
//!   s1 (master)                                              s2 (replica)
//!   durable frames ─▶ stream of feeds, epoch 1: 1 2 3 ╳ 5 6 ─▶ 1 2 3, and a gap
//!        log       ◀── subscribe, epoch 2: version 31 ──────── reopens the link
//!         └─▶ missed events, joined ─▶ epoch 2: 1 2 3 ───────▶ in order, nothing missing
//! ```
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`outgoing`] | sending: frames that are durable, and heartbeats |
//! | [`catch_up`] | the events that a subscriber has missed, and the proof that these are all |
//! | [`incoming`] | receiving: order, gaps, reopening a link |
//! | [`received`] | which part of a log its followers no longer need |
//!
//! **A stream** is from one run of a master to one run of a follower, and has an epoch, which the
//! follower chooses. Its feeds are numbered. So a follower knows whether a feed is of the current
//! stream, next in order, early, or a duplicate. If one is missing, it opens a new stream with the
//! versions that its replicas have. That is the only retransmission, so a master keeps nothing for
//! followers but its log. Before it cuts the log, it asks them up to which time they have made
//! durable all that they follow ([`received`]).
//!
//! **A stream promises** two things. For a partition that has *joined* it, every event after the
//! version with which its replica subscribed is in the stream, or is not durable yet. A feed that
//! is *closed* up to a time promises that it and the earlier feeds hold every event of joined
//! partitions up to that time.
//!
//! **Loss.** A gap lasts at most [`LinkTimeouts::gap_ns`]. If the last feeds of a stream are lost,
//! the next heartbeat reveals a gap. Without heartbeats the master does not know of the stream, or
//! is down, and the link is reopened after [`LinkTimeouts::silent_ns`]. A replica that has not
//! joined subscribes again periodically. Hellos only save time.

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
use outgoing::{Link, close_beside};
use parking_lot::Mutex;
use received::{Answers, Marks};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Timeouts after which messages of another site count as lost. A false alarm costs a few messages
/// and some reads of the master's log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkTimeouts {
    /// How long to wait for a missing feed once later ones are here, in nanoseconds.
    pub gap_ns: u64,
    /// How long a master may be silent, in nanoseconds. Must be longer than the time between two
    /// heartbeats, which is at most 16 ticks.
    pub silent_ns: u64,
}

impl Default for LinkTimeouts {
    /// 50 ms for a gap. 3 s for silence, because an idle site of the embedded runtime ticks every
    /// 64 ms.
    fn default() -> LinkTimeouts {
        LinkTimeouts { gap_ns: 50_000_000, silent_ns: 3_000_000_000 }
    }
}

/// The links of a site, in both directions.
#[derive(Default)]
pub(crate) struct Links {
    incoming: Mutex<BTreeMap<SiteId, Incoming>>,
    outgoing: Mutex<BTreeMap<SiteId, Link>>,
    answers: Mutex<Answers>,
    marks: Mutex<Marks>,
    /// The tail of this site's log, which followers keep, and the tails that this site keeps.
    pub(crate) own_tail: Mutex<OwnTail>,
    pub(crate) other_tails: Mutex<OtherTails>,
    /// Replicas that were installed here: their ranges, and the log position of the installation.
    /// They subscribe once that is durable, because a master takes a subscription as proof that the
    /// copy stays.
    pub(crate) installed: Mutex<Vec<(TableId, KeyRange, Position)>>,
    /// When this site last checked for silent masters and replicas that have not joined.
    looked: Mutex<Time>,
    /// Events of partitions that do not exist here yet: their replica is being installed, or the
    /// split that makes them has not been applied. Also the lock under which partitions are
    /// created.
    pub(crate) early_events: Mutex<EarlyEvents>,
}

pub(crate) type EarlyEvents = BTreeMap<(TableId, Key), BTreeMap<Version, FeedItem>>;

impl Site {
    /// Sends a hello to the other sites, and subscribes the replicas that are here. To be called
    /// once the site can receive messages.
    pub fn greet(&self, others: impl Iterator<Item = SiteId>) {
        others.for_each(|other| self.introduce(other));
        let replicas: Vec<_> = self.followed().into_values().flatten().collect();
        self.subscribe(&replicas);
    }

    /// Sends hellos and reopens links to sites whose process can be reached, for the first time or
    /// again. Earlier messages to them may be lost.
    pub fn meet(&self, others: &[SiteId]) {
        others.iter().for_each(|other| self.introduce_again(*other));
        let followed = self.followed();
        let here = followed.keys().filter(|source| others.contains(source));
        here.for_each(|source| self.open_link(*source, 0));
    }

    /// Handles a message from another site.
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
            Message::Ack { events } => {
                self.hear_ack(from, events);
                close_beside(self);
            }
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
    /// Gives new partitions the events that have arrived for them early. The caller holds the lock
    /// of the early events, under which events find their partition.
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
