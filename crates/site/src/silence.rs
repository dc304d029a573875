//! Partitions that are rarely written promise their silence ahead of time.
//!
//! Whoever reads a replica together with something fresher waits until the master has said that it has nothing older;
//! and the feed, which says so for all of a site's partitions at once, cannot before what went before is durable. For a
//! partition that nobody writes (the items of TPC-C) that is a wait for nothing, each time anew, and with locks held.
//!
//! ```text
//!   s1 (master of p, last written @100)            s2 (replica of p)
//!                     ◀──── ask for silence @900 ── a reader of p and of what was written @900
//!   lock free, silent for 800:
//!   promises a quarter of that ── silence @1100 ──▶ holds what was written @100: complete up to @1100
//!   a commit on p: not before @1101
//! ```
//!
//! **The promise is kept** by the clock: before an event of the partition gets its time, the clock is raised beyond what
//! was promised. So the promise holds for commits, prepared transactions, splits, and for whoever is the master later. It
//! is given with the partition's lock, so nothing is on its way there; and it speaks of the keys and the history that the
//! partition has then: whoever has not seen the last event takes no notice of it.
//!
//! **A site that comes back** does not know what it has promised, so its clock begins after all of it.
//!
//! **Who asks.** Transactions that hold locks while they wait: others wait for these. A scan of a thousand partitions would
//! ask a thousand times for what one word about the feed tells.
//!
//! **What it costs.** A write to a partition that has promised silence is up to a second ahead of real time, and what comes
//! after it as well, until real time has caught up. So promises are short where writes are not that rare, and are given
//! in real time, not in the clock's: they cannot drive it further and further ahead.

use crate::message::Message;
use crate::partition::SitePartition;
use crate::site::Site;
use isomer_design::{Key, SiteId, TableId, Time};

/// Of the time for which nothing has happened, one part of so many is promised.
const PROMISED_OF: u64 = 4;

/// When silence is promised, and for how long. See the [module documentation](self).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Silence {
    /// Nothing is promised unless nothing has happened for so many nanoseconds.
    pub after_ns: u64,
    /// No more nanoseconds than this.
    pub most_ns: u64,
}

impl Default for Silence {
    /// After a fifth of a second, and for a second at most.
    fn default() -> Silence {
        Silence { after_ns: 200_000_000, most_ns: 1_000_000_000 }
    }
}

impl Site {
    /// Says that an event of a partition is about to get its time, after all that was promised. The caller holds the lock.
    #[inline]
    pub(crate) fn begin_publishing(&self, partition: &SitePartition) {
        partition.begin_publishing();
        self.store.clock.raise(partition.silent_until());
    }

    /// Asks the master of a replica that is behind to say that there is no more, of this partition if that is silent.
    pub(crate) fn hurry_partition(&self, partition: &SitePartition, time: Time) {
        if self.may_promise(partition.last(), time).is_none() {
            return self.hurry_feed(partition, time);
        }
        if let Some(source) = partition.source().filter(|_| partition.ask(time)) {
            let (table, start) = (partition.table, partition.range.start.clone());
            let ask = Message::AskSilence { table, start, at_least: time };
            self.network.send(self.id, source, ask);
        }
    }

    /// Asks the master of a replica that is behind to close its feed.
    pub(crate) fn hurry_feed(&self, partition: &SitePartition, time: Time) {
        let is_new = partition.feed().is_none_or(|feed| feed.ask(time));
        if let Some(source) = partition.source().filter(|_| is_new) {
            self.network.send(self.id, source, Message::Close { at_least: time });
        }
    }

    /// Up to when silence may be promised, if something has happened last at a time, and if that is far enough.
    fn may_promise(&self, last: Time, at_least: Time) -> Option<Time> {
        let now = self.time.now().0;
        let silent_ns = now.saturating_sub(last.0);
        let until = Time(now + (silent_ns / PROMISED_OF).min(self.silence.most_ns));
        (silent_ns >= self.silence.after_ns && until >= at_least).then_some(until)
    }

    /// A replica asks for silence; without that, its feed is closed.
    pub(crate) fn asked_for_silence(
        &self,
        from: SiteId,
        table: TableId,
        start: Key,
        at_least: Time,
    ) {
        match self.promise(table, &start, at_least) {
            Some((last, until)) => {
                self.network.send(self.id, from, Message::Silence { table, start, last, until });
            }
            None => self.close_feed(from, at_least),
        }
    }

    /// Promises silence at least up to a time, if it may.
    fn promise(&self, table: TableId, start: &Key, at_least: Time) -> Option<(Time, Time)> {
        let partition = self.table(table)?.starting_at(start)?;
        if !partition.lock.try_once() {
            return None;
        }
        let last = partition.last();
        let is_fit = partition.is_master() && !partition.is_gone();
        let until = self.may_promise(last, at_least).filter(|_| is_fit);
        until.into_iter().for_each(|until| partition.keep_silent(until));
        partition.lock.unlock();
        until.map(|until| (last, until))
    }

    /// The master of a partition has promised silence after its last event.
    pub(crate) fn hear_silence(&self, table: TableId, start: &Key, last: Time, until: Time) {
        let partition = self.table(table).and_then(|table| table.starting_at(start));
        if let Some(partition) = partition.filter(|partition| partition.last() >= last) {
            partition.keep_silent(until);
        }
    }

    /// After this time there is nothing that a site may have promised before it went down.
    pub(crate) fn outlive_promises(&self) {
        self.store.clock.raise(Time(self.time.now().0 + self.silence.most_ns));
    }
}
