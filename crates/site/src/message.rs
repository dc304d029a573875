//! What sites say to each other. Everything is a value that could cross a network.
//!
//! Sites talk about replication, and about the outcome of transactions over several sites
//! ([`crate::two_phase`]); changes and transactions come from the router. A **link** is the stream
//! of feeds from one site to another. The receiver opens it, and opens it anew whenever it misses
//! something ([`crate::link`]); each stream has an [`Epoch`]. Within it, the receiver puts feeds in
//! order by their numbers, drops duplicates, and notices what is missing.
//!
//! ```text
//!   s1 (master of p)                         s2 (replica of p)
//!   commit ─▶ log ─▶ durable ─▶ Feed 7 ────▶ in order ─▶ pending of p ─▶ installed, logged
//!                               Feed 8 ────▶ closed up to @90: p is complete up to @90
//!                     ◀──────────────────── Close @95: a reader needs it
//!                               Feed 9 ─╳
//!                               Feed 10 ───▶ 9 is missing: kept, but not for long
//!                     ◀──────────────────── Subscribe, epoch 2: p at version 31
//!                epoch 2:       Feed 1 ────▶ p v32, joined: everything is told again from here on
//! ```
//!
//! **Loss.** The network may lose any message, and no sender waits for an acknowledgement. So each
//! kind of message says below why its loss does no harm, or what repeats it.

use crate::backup::Reached;
use crate::frame::TxnId;
use crate::tail::Settled;
use isomer_design::{Key, KeyRange, SiteId, TableId, Time, Version};
use isomer_log::Position;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A message between sites.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Message {
    /// A site has started: who follows it opens the link anew.
    ///
    /// If it is lost, followers notice that the site is silent, and open the link all the same.
    Hello {
        /// The sender's run.
        incarnation: u64,
    },
    /// Replicas ask the master for everything after what they have. Answered by one feed.
    ///
    /// If it or its answer is lost, they ask again: those that have not joined at the next look
    /// around, all of them if there is a gap in the stream.
    Subscribe {
        /// The stream that is to bring the answer. A new one ends those before.
        epoch: Epoch,
        /// The replicas.
        replicas: Vec<Subscription>,
    },
    /// Events, and up to when there are no others.
    ///
    /// If it is lost, the next one leaves a gap, and there is always a next one: heartbeats are
    /// feeds.
    Feed(Feed),
    /// A reader needs the feed to be closed up to this time.
    ///
    /// If it is lost, the reader waits for the next heartbeat.
    Close {
        /// The time.
        at_least: Time,
    },
    /// A reader needs a partition, in which nothing has happened for some time, to be complete up
    /// to this time.
    ///
    /// If it or its answer is lost, the reader waits for the next heartbeat.
    AskCloseAhead {
        /// The table.
        table: TableId,
        /// The partition's first key.
        start: Key,
        /// The time.
        at_least: Time,
    },
    /// The master promises that nothing will happen in a partition.
    ///
    /// It binds the master whether or not it arrives; if it is lost, the reader waits for the next
    /// heartbeat. It claims nothing of earlier events: who has not seen the last one takes no
    /// notice.
    CloseAhead {
        /// The table.
        table: TableId,
        /// The partition's first key.
        start: Key,
        /// When something happened there last.
        last: Time,
        /// Up to when nothing will.
        until: Time,
    },
    /// A participant asks what became of a transaction over several sites.
    ///
    /// It asks again until it hears the outcome.
    Ask {
        /// The transaction.
        txn: TxnId,
    },
    /// The coordinator says what became of it.
    ///
    /// A commit is told again until each participant is done. An abort is told once; who misses
    /// that asks, and a transaction that the coordinator does not know was aborted.
    Outcome {
        /// The transaction.
        txn: TxnId,
        /// The time of its commit; `None`: it was aborted, or has written nothing at the receiver.
        at: Option<Time>,
    },
    /// A participant has made commits durable, and will not ask again.
    ///
    /// If it is lost, the coordinator tells the outcome again, and is answered again.
    Done {
        /// The transactions.
        txns: Vec<TxnId>,
    },
    /// The sender would like to cut its log.
    ///
    /// It asks again until it may.
    AskReceived {
        /// The question.
        question: Question,
    },
    /// The sender has made durable all that its replicas lacked up to a time, wherever it was logged.
    ///
    /// If it is lost, it is asked for again; until then, the receiver keeps more of its log.
    Received {
        /// What is answered.
        question: Question,
        /// The time; `Time::MAX`: it has no replica that lacks anything.
        up_to: Time,
    },
    /// The sender has applied events that the receiver wrote ([`crate::backup`]).
    ///
    /// If it is lost, it is asked for.
    Ack {
        /// Each partition, and the version that it has there.
        events: Vec<Reached>,
    },
    /// The sender waits for acknowledgements of events of these partitions.
    ///
    /// It asks again until it has enough.
    AskAck {
        /// Their tables and first keys.
        partitions: Vec<(TableId, Key)>,
    },
    /// The sender keeps the tail of the receiver's log ([`crate::tail`]) up to here.
    ///
    /// If it is lost, the next feed with something of the tail leads to another.
    Tailed {
        /// The receiver's run.
        incarnation: u64,
        /// The position.
        received: Position,
    },
    /// The sender waits for word of its tail.
    ///
    /// It asks again until it has it.
    AskTailed,
}

impl Message {
    /// True for what a site says as a master, or as a coordinator: whoever is fenced is neither any more. What it says
    /// as a follower or participant is as true as ever.
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

/// Names a question, so that its answer is told from those of earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Question {
    /// The asker's run.
    pub incarnation: u64,
    /// Counts from 1 over the run.
    pub number: u64,
}

/// Names one stream from a site to another. The receiver chooses it; a later one is greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Epoch {
    /// The receiver's run.
    pub incarnation: u64,
    /// How often it has opened the link in this run.
    pub number: u64,
}

/// What a replica has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Subscription {
    /// The table.
    pub table: TableId,
    /// The replica's keys.
    pub range: KeyRange,
    /// The version it has.
    pub version: Version,
    /// Where to read on in the master's log; 0 if it has nothing from there.
    pub position: Position,
}

/// One step of a link.
#[derive(Clone, Debug)]
pub struct Feed {
    /// The sender's run.
    pub from: u64,
    /// The stream it is of.
    pub epoch: Epoch,
    /// What was written to the sender's log from here on, and concerns partitions that the receiver
    /// followed then, goes by this stream.
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
        /// The frame it is in.
        frame: Arc<[u8]>,
        /// Which of the frame's records.
        at: usize,
        /// Position in the sender's log behind the frame.
        position: Position,
    },
    /// Everything that a replica asked for has been sent; from here on the feed speaks for it.
    Joined {
        /// The table.
        table: TableId,
        /// The replica's keys.
        range: KeyRange,
    },
    /// Something of the tail of the sender's log.
    Tail(TailItem),
}

/// What a backup is told of the tail of its master's log ([`crate::tail`]).
#[derive(Clone, Debug)]
pub enum TailItem {
    /// What was kept of it so far is void; this is where it begins.
    Begins {
        /// Up to where the sender has sent it, this feed included.
        received: Position,
        /// Up to where it is settled.
        settled: Position,
        /// What is known of the frames that are settled.
        before: Settled,
    },
    /// The next frame.
    Frame {
        /// The sender.
        from: SiteId,
        /// Position in the sender's log behind the frame.
        position: Position,
        /// The frame.
        frame: Arc<[u8]>,
    },
    /// Up to here everybody has what concerns him.
    Settled(Position),
    /// All have heard of this decision.
    Finished(TxnId),
    /// Nothing is kept of it until it begins anew.
    Ends,
}

/// How a site reaches the others. Messages may be late, out of order, doubled or lost.
pub trait Network: Send + Sync {
    /// Sends a message on its way; never blocks.
    fn send(&self, from: SiteId, to: SiteId, message: Message);

    /// Hears, once for each failed log, why a site's replicas fall behind: no caller waits for
    /// them, so nobody else would be told. Unless it is taken elsewhere, it goes to standard error.
    fn trouble(&self, site: SiteId, what: &str) {
        eprintln!("site {site}: {what}");
    }
}

/// Where a site takes the time from.
pub trait TimeSource: Send + Sync {
    /// Nanoseconds since an epoch that all sites of the database share.
    fn now(&self) -> Time;
}
