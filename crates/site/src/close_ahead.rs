//! Closed timestamps of single partitions.
//!
//! A read that combines a replica with newer data must wait until the replica's closed timestamp
//! passes its snapshot. A feed closes all of a site's partitions at once, and can advance only once
//! the site's log is durable. For a partition without writes (the items of TPC-C) that wait is
//! useless, and locks are held during it. So its master may close such a partition alone, ahead of
//! time: it promises that there will be no events.
//!
//! ```text
//!   s1 (master of p, last written @100)            s2 (replica of p)
//!                     ◀── AskCloseAhead @900 ────── a reader of p and of a row written @900
//!   lock free, idle for 800:
//!   closes p for a quarter of that ─ CloseAhead @1100 ▶ has the event @100: safe time is @1100
//!   a commit on p: not before @1101
//! ```
//!
//! **Enforcement.** Before an event of the partition gets its time, the clock is raised beyond the
//! closed timestamp. So the promise holds for commits, prepared transactions and splits. It also
//! holds for later masters, whose clocks are raised by the event that hands over the mastership. A
//! promise is made under the partition's lock, so no event is in progress. It names the last event:
//! a replica that has not applied that event ignores the promise.
//!
//! **Restart.** Neither promises nor the clock are logged, and promises of other sites may have
//! raised the clock. After recovery the clock therefore starts after the latest promise that any
//! site can have made.
//!
//! **Requests** come only from transactions that hold locks while they wait, because other
//! transactions queue for these locks. A scan of a thousand partitions would send a thousand
//! requests where one for the feed is enough.
//!
//! **Cost.** A write to a closed partition gets a time up to 1 s ahead of real time, and so do
//! later events of that site until real time has caught up. So a promise is short for partitions
//! with rare but regular writes. It counts from real time, not from the site's clock, so promises
//! cannot drive the clock ever further ahead.

use crate::backup::is_backed_up;
use crate::message::Message;
use crate::partition::SitePartition;
use crate::site::Site;
use isomer_design::{Key, SiteId, TableId, Time};

/// A partition is closed ahead for its idle time divided by this.
const PROMISED_OF: u64 = 4;

/// Limits of closing ahead. See the [module documentation](self).
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
    /// Announces that an event of a partition is about to get its time, and raises the clock beyond
    /// its promise. The caller holds the lock.
    #[inline]
    pub(crate) fn begin_publishing(&self, partition: &SitePartition) {
        partition.begin_publishing();
        self.store.clock.raise(partition.closed_ahead_until());
    }

    /// Asks the master of a replica that lags to close this partition, if it is idle, or else its
    /// feed.
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

    /// Asks the master of a replica that lags to close its feed.
    pub(crate) fn request_feed_close(&self, partition: &SitePartition, time: Time) {
        let is_new = partition.feed().is_none_or(|feed| feed.ask(time));
        if let Some(source) = partition.source().filter(|_| is_new) {
            self.network.send(self.id, source, Message::Close { at_least: time });
        }
    }

    /// The time up to which a partition with its last event at `last` may be closed, if that is at
    /// least `at_least`.
    fn may_promise(&self, last: Time, at_least: Time) -> Option<Time> {
        let now = self.time.now().0;
        let silent_ns = now.saturating_sub(last.0);
        let until = Time(now + (silent_ns / PROMISED_OF).min(self.close_ahead.most_ns));
        (silent_ns >= self.close_ahead.after_ns && until >= at_least).then_some(until)
    }

    /// Handles a request to close a partition ahead. If that is not allowed, closes the feed.
    pub(crate) fn asked_to_close_ahead(
        &self,
        from: SiteId,
        table: TableId,
        start: Key,
        at_least: Time,
    ) {
        match self.promise(from, table, &start, at_least) {
            Some((last, until)) => {
                self.network.send(self.id, from, Message::CloseAhead { table, start, last, until });
            }
            None => self.close_feed(from, at_least),
        }
    }

    /// Closes a partition ahead up to at least a time, if that is allowed.
    fn promise(
        &self,
        to: SiteId,
        table: TableId,
        start: &Key,
        at_least: Time,
    ) -> Option<(Time, Time)> {
        let partition = self.table(table)?.starting_at(start)?;
        if !partition.lock.try_once() {
            return None;
        }
        let last = partition.last();
        // A site of this process shows only events that backups have.
        let is_shown = !self.domains.fail_together(self.id, to) || is_backed_up(self, &partition);
        let is_fit = partition.is_master() && !partition.is_gone() && is_shown;
        let until = self.may_promise(last, at_least).filter(|_| is_fit);
        until.into_iter().for_each(|until| partition.close_ahead(until));
        partition.lock.unlock();
        until.map(|until| (last, until))
    }

    /// Handles a promise of the master: no events after `last`, up to `until`.
    pub(crate) fn hear_close_ahead(&self, table: TableId, start: &Key, last: Time, until: Time) {
        let partition = self.table(table).and_then(|table| table.starting_at(start));
        if let Some(partition) = partition.filter(|partition| partition.last() >= last) {
            partition.close_ahead(until);
        }
    }

    /// Raises the clock beyond every promise that any site can have made so far, and so beyond
    /// every time at which an earlier run of this one can have been read.
    pub(crate) fn outlive_promises(&self) {
        self.store.clock.raise(Time(self.time.now().0 + self.close_ahead.most_ns));
    }
}
