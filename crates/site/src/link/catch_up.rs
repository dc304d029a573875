//! Catching up: the events in this log that a subscriber has missed.
//!
//! **Contract.** A replica with version `v` of some keys asks the site that it believes to be their
//! master. After the answer, every event of these keys after `v` in this log is in the stream, or
//! is not durable yet and will be. If this site is their master and the subscriber a follower, the
//! answer ends with `joined`: from there on, the stream covers the replica.
//!
//! The events of a key are one chain of versions, which moves from log to log with the mastership:
//!
//! ```text
//!   version     … 26 │ 27 ······ 34 │ 35 ·· 37 │ 38 ·····▶
//!   in log of     s2 │ s1, 1st term │ s2       │ s1, 2nd term
//!
//!   a replica at 26 asks s1 ─▶ 27 … 34, 38 …; it applies 34, a release, asks s2 for the next ones,
//!                              and then finds 38 … in its queue
//! ```
//!
//! The log is read from a position such that no event after `v` lies before it. These are the
//! cases, from the cheapest to the one that is always right:
//!
//! 1. *All partitions over the keys are at `v` or below.* Nothing is read. An event in this log has
//!    raised its partition's version, so none leads beyond `v`.
//! 2. *The last term began at version `v + 1` or below, since the stream was opened, and the
//!    subscriber is a follower.* Nothing is read. Events after `v` are of that term, and the stream
//!    carries all events of that term.
//! 3. *The replica has read this log up to a position.* The log is read from there.
//! 4. *The last term began at version `v + 1` or below.* The log is read from the beginning of the
//!    term, because events after `v` are of that term.
//! 5. *None of these.* The log is read from its beginning.
//!
//! An answer is right for every later version of these keys, too. So it does no harm if it is late,
//! or if the replica was dropped and installed again in between.

use super::outgoing::feed_item;
use crate::message::{Epoch, FeedItem, Subscription};
use crate::partition::{SitePartition, Term};
use crate::record::read_frame;
use crate::site::Site;
use isomer_design::{Key, KeyRange, SiteId, TableId};
use isomer_log::{LogError, Position};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A subscription, and the partitions of this site over its keys.
struct Wanted {
    subscription: Subscription,
    held: Vec<Arc<SitePartition>>,
    /// The position from which the log must be read; `None`: nothing is read.
    from: Option<Position>,
}

impl Site {
    /// Sends a subscriber the events that it lacks, by the stream that it names. The subscriber
    /// need not be a follower.
    pub(super) fn catch_up(&self, to: SiteId, epoch: Epoch, replicas: Vec<Subscription>) {
        let Some(opened_at) = self.open_stream(to, epoch) else {
            return; // The receiver has reopened the link since, and asked again.
        };
        // Frames that are shipped from now on go by the stream, too, before the answer or after it.
        let mut wanted: Vec<Wanted> = replicas
            .into_iter()
            .map(|subscription| {
                let held = self.table_or_new(subscription.table).overlapping(&subscription.range);
                let begins_there =
                    |p: &&Arc<SitePartition>| subscription.range.contains(&p.range.start);
                self.has_copies(to, held.iter().filter(begins_there));
                self.end_learning(to, held.iter().filter(begins_there));
                let from = begins(opened_at, to, &subscription, &held);
                Wanted { subscription, held, from }
            })
            .collect();
        wanted.sort_by(|a, b| a.place().cmp(&b.place()));
        let mut items = match self.missed(&wanted) {
            Ok(items) => items,
            // The replicas stay behind, and ask again. A site's own log is expected to be readable.
            Err(error) => {
                return self.trouble(&format!("cannot send {to} what it missed: {error}"));
            }
        };
        let begin = self.log.begin();
        for Wanted { subscription, held, from } in &wanted {
            if from.is_some_and(|from| from < begin) && !connects(&items, subscription, held) {
                let Subscription { table, range, version, .. } = subscription;
                self.trouble(&format!(
                    "cannot send {to} what it missed of {table}{range}: it has version {version}, \
                     and the log begins at {begin}, after that"
                ));
                continue;
            }
            let followed = held.iter().filter(|p| p.is_master() && p.followers().contains(to));
            // Only the intersection joins: events of other keys may be missing.
            items.extend(followed.map(|partition| FeedItem::Joined {
                table: subscription.table,
                range: partition.range.intersection(&subscription.range),
            }));
        }
        // Ships first: a follower that keeps the tail gets the frames of the answer before the
        // answer.
        self.ship();
        self.answer(to, epoch, items);
    }

    /// The durable events that are wanted, in the order of the log.
    fn missed(&self, wanted: &[Wanted]) -> Result<Vec<FeedItem>, LogError> {
        let mut items = Vec::new();
        let Some(from) = wanted.iter().filter_map(|wanted| wanted.from).min() else {
            return Ok(items);
        };
        let durable = self.log.durable();
        self.log.read(from.max(self.log.begin()), &mut |position, frame| {
            if position >= durable {
                return ControlFlow::Break(());
            }
            missed_in(self.id, position, frame, wanted, &mut items);
            ControlFlow::Continue(())
        })?;
        Ok(items)
    }
}

impl Wanted {
    fn place(&self) -> (TableId, &Key) {
        (self.subscription.table, &self.subscription.range.start)
    }
}

/// The log position from which to read for a subscription: the cases at the head of this module.
fn begins(
    opened_at: Position,
    to: SiteId,
    subscription: &Subscription,
    held: &[Arc<SitePartition>],
) -> Option<Position> {
    let Subscription { range, version, position, .. } = subscription;
    // The mark is tested first: without a mark, the version counts all events in the log.
    let is_at = |p: &Arc<SitePartition>| !p.is_publishing() && p.version() <= *version;
    if covers(held, range) && held.iter().all(is_at) {
        return None;
    }
    let term = held.iter().map(|p| p.term()).reduce(Term::with).unwrap_or(Term::UNKNOWN);
    let is_term = term.first <= version.saturating_add(1);
    let is_followed = |p: &Arc<SitePartition>| p.is_master() && p.followers().contains(to);
    if is_term && term.begin >= opened_at && held.iter().all(is_followed) {
        return None;
    }
    Some(match position {
        0 if is_term => term.begin,
        position => *position,
    })
}

/// True if the partitions, in order and without gaps, cover the range.
fn covers(held: &[Arc<SitePartition>], range: &KeyRange) -> bool {
    let meet =
        |pair: &[Arc<SitePartition>]| pair[0].range.end.as_ref() == Some(&pair[1].range.start);
    let (Some(first), Some(last)) = (held.first(), held.last()) else { return false };
    let all = KeyRange::new(first.range.start.clone(), last.range.end.clone());
    all.covers(range) && held.windows(2).all(meet)
}

/// True if a log that was cut still has the next event of the replica. That event is in its
/// master's log.
fn connects(items: &[FeedItem], subscription: &Subscription, held: &[Arc<SitePartition>]) -> bool {
    let Subscription { table, range, version, .. } = subscription;
    let next = |item: &FeedItem| {
        matches!(item, FeedItem::Record { table: of, start, previous, .. }
            if of == table && *start == range.start && previous == version)
    };
    held.first().is_some_and(|p| p.version() == *version) || items.iter().any(next)
}

/// Adds the events of one frame that subscribers lack.
fn missed_in(
    from: SiteId,
    position: Position,
    frame: &[u8],
    wanted: &[Wanted],
    items: &mut Vec<FeedItem>,
) {
    let Ok((head, records)) = read_frame(frame) else { return };
    if head.kind.origin().is_some() {
        return;
    }
    let lacks = |item: &FeedItem| {
        let FeedItem::Record { table, start, previous, version, .. } = item else { return false };
        let behind = wanted.partition_point(|wanted| wanted.place() <= (*table, start));
        let Some(Wanted { subscription, .. }) = wanted[..behind].last() else { return false };
        let is_of = subscription.table == *table && subscription.range.contains(start);
        // The drop of a replica here leads to no version, and concerns this site only.
        is_of && *version > subscription.version && version > previous
    };
    let mut shared: Option<Arc<[u8]>> = None;
    for (at, record) in records.iter().enumerate() {
        let shared = shared.get_or_insert_with(|| Arc::from(frame));
        // The replica will read on from this frame itself; a repeated event does no harm.
        items.extend(feed_item(from, record, at, shared, position).filter(lacks));
    }
}
