//! Messages between sites. Each is a value that can cross a network.
//!
//! Sites exchange messages about replication, and about outcomes of transactions over several sites
//! ([`crate::two_phase`]). Changes and transactions come from the router. A **link** is the stream
//! of feeds from one site to another. The receiver opens it, and reopens it after a loss
//! ([`crate::link`]); each stream has an [`Epoch`]. Within a stream, the receiver orders feeds by
//! their numbers, drops duplicates, and notices gaps.
//!
//! ```text
//!   s1 (master of p)                         s2 (replica of p)
//!   commit ─▶ log ─▶ durable ─▶ Feed 7 ────▶ in order ─▶ pending of p ─▶ installed, logged
//!                               Feed 8 ────▶ closed up to @90: p is complete up to @90
//!                     ◀──────────────────── Close @95: a reader needs it
//!                               Feed 9 ─╳
//!                               Feed 10 ───▶ 9 is missing: kept, but not for long
//!                     ◀──────────────────── Subscribe, epoch 2: p at version 31
//!                epoch 2:       Feed 1 ────▶ p v32, joined: the stream covers p from here on
//! ```
//!
//! **Loss.** The network may lose any message, and no sender waits for an acknowledgement. So each
//! kind of message says why its loss does no harm, or how it is repeated.

use crate::frame::TxnId;
use crate::place::Reached;
use crate::tail::settled::Settled;
use isomer_design::{Key, KeyRange, SiteId, TableId, Time, Version};
use isomer_log::Position;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A message between sites.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Message {
    /// A site has started. Its followers reopen their links.
    ///
    /// If lost: followers notice that the site is silent, and reopen the link.
    Hello {
        /// The sender's incarnation.
        incarnation: u64,
    },
    /// Replicas ask the master for all events after their versions. Answered by one feed.
    ///
    /// If it or its answer is lost: replicas that have not joined ask again at the next check, all
    /// of them if there is a gap in the stream.
    Subscribe {
        /// The stream for the answer. A new one ends earlier ones.
        epoch: Epoch,
        /// The replicas.
        replicas: Vec<Subscription>,
    },
    /// Events, and the time up to which there are no others.
    ///
    /// If lost: the next one reveals a gap, and there is always a next one, because heartbeats are
    /// feeds.
    Feed(Feed),
    /// A reader needs the feed to be closed up to this time.
    ///
    /// If lost: the reader waits for the next heartbeat.
    Close {
        /// The time.
        at_least: Time,
    },
    /// A reader needs an idle partition to be complete up to this time.
    ///
    /// If it or its answer is lost: the reader waits for the next heartbeat.
    AskCloseAhead {
        /// The table.
        table: TableId,
        /// The partition's first key.
        start: Key,
        /// The time.
        at_least: Time,
    },
    /// The master promises that a partition will have no events for some time.
    ///
    /// The promise binds the master even if the message is lost; then the reader waits for the next
    /// heartbeat. It covers no earlier events: a replica without the last one ignores it.
    CloseAhead {
        /// The table.
        table: TableId,
        /// The partition's first key.
        start: Key,
        /// The time of its last event.
        last: Time,
        /// The time up to which it will have no others.
        until: Time,
    },
    /// A participant asks for the outcome of a transaction over several sites.
    ///
    /// Repeated until the outcome arrives.
    Ask {
        /// The transaction.
        txn: TxnId,
    },
    /// The coordinator tells the outcome.
    ///
    /// A commit is told again until each participant has acknowledged it. An abort is told once. A
    /// participant that misses it asks, and a transaction that the coordinator does not know was
    /// aborted.
    Outcome {
        /// The transaction.
        txn: TxnId,
        /// The time of its commit; `None`: it was aborted, or has written nothing at the receiver.
        at: Option<Time>,
    },
    /// A participant has made commits durable, and will not ask again.
    ///
    /// If lost: the coordinator tells the outcome again, and gets another acknowledgement.
    Done {
        /// The transactions.
        txns: Vec<TxnId>,
    },
    /// The sender wants to cut its log.
    ///
    /// Repeated until it may.
    AskReceived {
        /// The question.
        question: Question,
    },
    /// The sender has made durable all events up to a time that its replicas follow, in whichever
    /// log.
    ///
    /// If lost: the question is repeated; meanwhile the receiver keeps more of its log.
    Received {
        /// The question.
        question: Question,
        /// The time. `Time::MAX`: all its replicas have all events.
        up_to: Time,
    },
    /// The sender has applied events of the receiver's log ([`crate::backup`]).
    ///
    /// If lost: the receiver asks for it.
    Ack {
        /// Each partition, and the version that the sender has of it.
        events: Vec<Reached>,
    },
    /// The sender waits for acknowledgements of events of these partitions.
    ///
    /// Repeated until it has enough.
    AskAck {
        /// Their tables and first keys.
        partitions: Vec<(TableId, Key)>,
    },
    /// The sender keeps the tail of the receiver's log ([`crate::tail`]) up to a position.
    ///
    /// If lost: the next feed with tail items leads to another.
    Tailed {
        /// The receiver's incarnation.
        incarnation: u64,
        /// The position.
        received: Position,
    },
    /// The sender waits for an acknowledgement of its tail.
    ///
    /// Repeated until that arrives.
    AskTailed,
}

impl Message {
    /// True for messages that a site sends as a master or coordinator, roles that a fenced site has
    /// lost. Its messages as a follower or participant stay valid.
    pub(crate) fn is_of_master(&self) -> bool {
        match self {
            Message::Feed(_)
            | Message::CloseAhead { .. }
            | Message::Outcome { .. }
            | Message::AskAck { .. } => true,
            Message::Hello { .. }
            | Message::Subscribe { .. }
            | Message::Close { .. }
            | Message::AskCloseAhead { .. }
            | Message::Ask { .. }
            | Message::Done { .. }
            | Message::AskReceived { .. }
            | Message::Received { .. }
            | Message::Ack { .. }
            | Message::Tailed { .. }
            | Message::AskTailed => false,
        }
    }
}

/// Identifies a question, to tell its answer from those of earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Question {
    /// The incarnation of the site that asks.
    pub incarnation: u64,
    /// Counts from 1 over the run.
    pub number: u64,
}

/// Identifies one stream from a site to another. The receiver chooses it; a later one is greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Epoch {
    /// The receiver's incarnation.
    pub incarnation: u64,
    /// How many times it has opened the link in this run.
    pub number: u64,
}

/// The state of a replica that subscribes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Subscription {
    /// The table.
    pub table: TableId,
    /// The replica's keys.
    pub range: KeyRange,
    /// The version it has.
    pub version: Version,
    /// The position in the master's log from which to read on; 0 if it has nothing from there.
    pub position: Position,
}

/// One message of a stream.
#[derive(Clone, Debug)]
pub struct Feed {
    /// The sender's incarnation.
    pub from: u64,
    /// The stream.
    pub epoch: Epoch,
    /// The stream has all frames of the sender's log from this position on that concern partitions
    /// which the receiver followed then.
    pub since: Position,
    /// Counts from 1 over the stream.
    pub number: u64,
    /// Events, in the order of the sender's log.
    pub items: Vec<FeedItem>,
    /// Every event up to this time is in this feed or an earlier one.
    pub closed: Time,
}

/// One event of a feed.
#[derive(Clone, Debug)]
pub enum FeedItem {
    /// A record of the sender's log.
    Record {
        /// The sender.
        from: SiteId,
        /// The partition's table.
        table: TableId,
        /// The partition's first key.
        start: Key,
        /// The version the event applies to.
        previous: Version,
        /// The version it leads to.
        version: Version,
        /// Its frame.
        frame: Arc<[u8]>,
        /// Its index among the records of the frame.
        at: usize,
        /// The end of the frame in the sender's log.
        position: Position,
    },
    /// All events that a replica asked for have been sent; from here on the stream covers it.
    Joined {
        /// The table.
        table: TableId,
        /// The replica's keys.
        range: KeyRange,
    },
    /// An item of the tail of the sender's log.
    Tail(TailItem),
}

/// An item of the tail of a master's log, for a follower that keeps it ([`crate::tail`]).
#[derive(Clone, Debug)]
pub enum TailItem {
    /// The tail begins here. Items that were kept so far are void.
    Begins {
        /// The position up to which it has been sent, this feed included.
        received: Position,
        /// The position up to which it is stable.
        settled: Position,
        /// The effects of the stable frames.
        before: Settled,
    },
    /// The next frame.
    Frame {
        /// The sender.
        from: SiteId,
        /// The end of the frame in the sender's log.
        position: Position,
        /// The frame.
        frame: Arc<[u8]>,
    },
    /// Frames up to here are stable.
    Settled(Position),
    /// All participants have acknowledged this decision.
    Finished(TxnId),
    /// The tail is no longer kept, until it begins again.
    Ends,
}

/// Sends messages to other sites. Messages may be delayed, reordered, duplicated or lost.
pub trait Network: Send + Sync {
    /// Sends a message; never blocks.
    fn send(&self, from: SiteId, to: SiteId, message: Message);

    /// Reports, once for each failed log, why the replicas of a site fall behind: no caller waits
    /// for them, so no client gets an error. By default the report goes to standard error.
    fn trouble(&self, site: SiteId, what: &str) {
        eprintln!("site {site}: {what}");
    }
}

/// The clock of a site.
pub trait TimeSource: Send + Sync {
    /// Nanoseconds since an epoch that all sites of the database share.
    fn now(&self) -> Time;
}
