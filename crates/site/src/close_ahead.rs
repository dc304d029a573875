//! Closed timestamps of single partitions.
//!
//! A read that combines a replica with newer data must wait until the replica's closed timestamp
//! passes its snapshot. A feed closes all of a site's partitions at once, and can advance only once
//! the site's log is durable. For a partition that nobody writes (the items of TPC-C) that wait is
//! for nothing, and it is spent with locks held. So its master may close such a partition by
//! itself, ahead of time: it promises silence.
//!
//! ```text
//!   s1 (master of p, last written @100)            s2 (replica of p)
//!                     ◀──── AskSilence @900 ─────── a reader of p and of something written @900
//!   lock free, idle for 800:
//!   closes p for a quarter of that ─ Silence @1100 ▶ has the event @100: safe time is @1100
//!   a commit on p: not before @1101
//! ```
//!
//! **Enforcement.** Before an event of the partition gets its time, the clock is raised beyond the
//! closed timestamp. So the promise holds for commits, prepared transactions and splits, and for
//! later masters, whose clocks are raised by the event that hands the mastership over. It is made
//! under the partition's lock, so no event is under way there. It names the last event: a replica
//! that has not applied that one ignores it.
//!
//! **Restart.** Promises are not logged, nor is how far the clock was, which promises of other sites may
//! have raised, and up to which somebody may have read here. So after recovery the clock begins after the
//! latest promise that any site can have made before.
//!
//! **Who asks.** Only transactions that hold locks while they wait, as others queue behind them. A
//! scan of a thousand partitions would send a thousand requests where one for the feed is enough.
//!
//! **Cost.** A write to a closed partition gets a time up to 1 s ahead of real time, and so do
//! later events of that site until real time has caught up. So a promise is short where writes are
//! not that rare, and it is counted from real time, not from the site's clock: promises cannot
//! drive the clock further and further ahead.

use crate::message::Message;
use crate::partition::SitePartition;
use crate::site::Site;
use isomer_design::{Key, SiteId, TableId, Time};

/// A partition that was idle for some time is closed ahead for a quarter of it.
const PROMISED_OF: u64 = 4;

/// When silence is promised, and for how long. See the [module documentation](self).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CloseAhead {
    /// A partition is closed ahead only if it was idle for this long, in nanoseconds.
    pub after_ns: u64,
    /// The farthest that it is closed ahead of real time, in nanoseconds.
    pub most_ns: u64,
}

impl Default for CloseAhead {
    /// After 0.2 s of idleness, and for 1 s at most.
    fn default() -> CloseAhead {
        CloseAhead { after_ns: 200_000_000, most_ns: 1_000_000_000 }
    }
}

impl Site {
    /// Says that an event of a partition is about to get its time, after all that was promised. The
    /// caller holds the lock.
    #[inline]
    pub(crate) fn begin_publishing(&self, partition: &SitePartition) {
        partition.begin_publishing();
        self.store.clock.raise(partition.closed_ahead_until());
    }

    /// Asks the master of a replica that is behind to close this partition, if it is idle, or else
    /// its feed.
    pub(crate) fn request_partition_close(&self, partition: &SitePartition, time: Time) {
        if self.may_promise(partition.last(), time).is_none() {
            return self.request_feed_close(partition, time);
        }
        if let Some(source) = partition.source().filter(|_| partition.ask(time)) {
            let (table, start) = (partition.table, partition.range.start.clone());
            let ask = Message::AskCloseAhead { table, start, at_least: time };
            self.network.send(self.id, source, ask);
        }
    }

    /// Asks the master of a replica that is behind to close its feed.
    pub(crate) fn request_feed_close(&self, partition: &SitePartition, time: Time) {
        let is_new = partition.feed().is_none_or(|feed| feed.ask(time));
        if let Some(source) = partition.source().filter(|_| is_new) {
            self.network.send(self.id, source, Message::Close { at_least: time });
        }
    }

    /// The time up to which a partition may be closed whose last event was at `last`, if that is at
    /// least `at_least`.
    fn may_promise(&self, last: Time, at_least: Time) -> Option<Time> {
        let now = self.time.now().0;
        let silent_ns = now.saturating_sub(last.0);
        let until = Time(now + (silent_ns / PROMISED_OF).min(self.close_ahead.most_ns));
        (silent_ns >= self.close_ahead.after_ns && until >= at_least).then_some(until)
    }

    /// A replica asks for silence; without that, its feed is closed.
    pub(crate) fn asked_to_close_ahead(
        &self,
        from: SiteId,
        table: TableId,
        start: Key,
        at_least: Time,
    ) {
        match self.promise(table, &start, at_least) {
            Some((last, until)) => {
                self.network.send(self.id, from, Message::CloseAhead { table, start, last, until });
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
        until.into_iter().for_each(|until| partition.close_ahead(until));
        partition.lock.unlock();
        until.map(|until| (last, until))
    }

    /// The master of a partition has promised silence after its last event.
    pub(crate) fn hear_close_ahead(&self, table: TableId, start: &Key, last: Time, until: Time) {
        let partition = self.table(table).and_then(|table| table.starting_at(start));
        if let Some(partition) = partition.filter(|partition| partition.last() >= last) {
            partition.close_ahead(until);
        }
    }

    /// Raises the clock beyond every promise that any site can have made until now, and so beyond every time at
    /// which an earlier run of this one can have been read.
    pub(crate) fn outlive_promises(&self) {
        self.store.clock.raise(Time(self.time.now().0 + self.close_ahead.most_ns));
    }
}
