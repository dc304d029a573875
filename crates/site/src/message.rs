//! What sites say to each other. Everything is a value that could cross a network.
//!
//! Sites talk about replication, and about the outcome of transactions over several sites
//! ([`crate::two_phase`]); changes and transactions come from the router. A **link** is
//! the stream of feeds from one site to another, for one run of each: the receiver puts feeds in
//! order by their number, drops duplicates, and forgets the link when either side starts anew.
//!
//! ```text
//!   s1 (master of p)                         s2 (replica of p)
//!   commit ─▶ log ─▶ durable ─▶ Feed 7 ────▶ in order ─▶ pending of p ─▶ installed, logged
//!                               Feed 8 ────▶ closed up to @90: p is complete up to @90
//!                     ◀──────────────────── Close @95: a reader needs it
//!                               Feed 9 ────▶ closed up to @97
//! ```

use crate::frame::TxnId;
use isomer_design::{Key, KeyRange, SiteId, TableId, Time, Version};
use isomer_log::Position;
use std::sync::Arc;

/// A message between sites.
#[derive(Clone, Debug)]
pub enum Message {
    /// A site has started, and asks for an answer or gives it.
    Hello {
        /// The sender's run.
        incarnation: u64,
        /// True if the receiver should say hello too.
        answer: bool,
    },
    /// A replica asks the master for everything after what it has.
    Subscribe {
        /// The sender's run.
        incarnation: u64,
        /// The table.
        table: TableId,
        /// The replica's keys.
        range: KeyRange,
        /// The version it has.
        version: Version,
        /// Where to read on in the master's log.
        position: Position,
    },
    /// Events, and up to when there are no others.
    Feed(Feed),
    /// A reader needs the feed to be closed up to this time.
    Close {
        /// The time.
        at_least: Time,
    },
    /// A reader needs a partition, in which nothing has happened for some time, to be complete up to this time.
    AskSilence {
        /// The table.
        table: TableId,
        /// The partition's first key.
        start: Key,
        /// The time.
        at_least: Time,
    },
    /// The master promises that nothing will happen in a partition.
    Silence {
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
    Ask {
        /// The transaction.
        txn: TxnId,
    },
    /// The coordinator says what became of it.
    Outcome {
        /// The transaction.
        txn: TxnId,
        /// The time of its commit; `None`: it was aborted, or has written nothing at the receiver.
        at: Option<Time>,
    },
    /// A participant has made commits durable, and will not ask again.
    Done {
        /// The transactions.
        txns: Vec<TxnId>,
    },
    /// The sender's checkpoint holds everything before this position of the receiver's log.
    Checkpointed {
        /// The position.
        position: Position,
    },
}

/// One step of a link.
#[derive(Clone, Debug)]
pub struct Feed {
    /// The sender's run.
    pub from: u64,
    /// The receiver's run, as the sender knows it.
    pub to: u64,
    /// Counts from 1 over the link.
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
    /// Everything that a subscriber asked for has been sent; from here on the feed speaks for it.
    Joined {
        /// The table.
        table: TableId,
        /// The subscriber's keys.
        range: KeyRange,
    },
}

/// How a site reaches the others. Messages may be late, out of order or doubled, but are not lost
/// while both sides run.
pub trait Network: Send + Sync {
    /// Sends a message on its way; never blocks.
    fn send(&self, from: SiteId, to: SiteId, message: Message);

    /// Hears, once for each failed log, why a site's replicas fall behind: no caller waits for them, so
    /// nobody else would be told. Unless it is taken elsewhere, it goes to standard error.
    fn trouble(&self, site: SiteId, what: &str) {
        eprintln!("site {site}: {what}");
    }
}

/// Where a site takes the time from.
pub trait TimeSource: Send + Sync {
    /// Nanoseconds since an epoch that all sites of the database share.
    fn now(&self) -> Time;
}
