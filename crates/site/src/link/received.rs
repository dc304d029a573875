//! Which part of a log its followers no longer need.
//!
//! A master keeps its log for followers that have not made its events durable in their own logs.
//! Each event has a time, the same in every log, and each replica a time up to which it is
//! complete. So a follower can answer with one time that holds for the logs of all sites: it has
//! made durable every event up to that time that any of its replicas follows.
//!
//! ```text
//!   s1: its log grows, and it marks at times         s2: p (master s1) complete to @350, q (s3) to @320
//!       where it ended at what time:
//!       100 @200   200 @300   300 @400
//!   s1 ── ask 7 ──▶ s2      notes @320, and where its own log ends: 90
//!                           … its log is durable up to 90
//!   s1 ◀─ 7: @320 ─ s2
//!   needed from 200 on: all frames before are of @300 or earlier
//! ```
//!
//! The answer covers `q`, too, because masters change. Suppose that s1 has mastered `q` for a
//! while, and s2 has missed that. Then `q` is complete up to an earlier time, so the frames of s1
//! about `q` stay. No site has to know the terms of a partition, or its followers.
//!
//! **A copy on its way.** An answer does not cover partitions that the site does not hold yet. So a
//! master keeps its log from the copy's snapshot on, until the site subscribes the replica, or
//! stops following; by then the copy is durable. Earlier answers and questions are void then. The
//! same holds when a mastership is acquired: the old master is a replica since its release.
//!
//! **A new run** of a master does not know the terms, followers, answers and copies of its earlier
//! runs. So it keeps the whole log that it finds, until each other site has answered that it is
//! beyond the log's end, and has subscribed all that it is to follow.
//!
//! **Left out.** While a master is down, its replicas are complete up to the time of the failure
//! only. So the sites that hold them keep all other masters from cutting their logs.

use crate::message::{Message, Question};
use crate::partition::{SitePartition, Table};
use crate::site::Site;
use isomer_design::{Key, SiteId, SiteSet, TableId, Time};
use isomer_log::Position;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Ticks between two questions to a site that holds the log. To answer, the site looks at all its
/// replicas.
const ASKED_AGAIN: u32 = 16;
/// The most marks that are kept of a log; beyond that, every other one is dropped.
const MARKS_MAX: usize = 4096;

/// Which part of this log another site needs.
#[derive(Default)]
pub(super) struct Needs {
    /// It may need the log up to here: it was sent frames of it, or has begun to follow.
    until: Position,
    /// It has made durable what it needs up to here.
    received: Position,
    /// Copies that it may not hold yet, and the log positions of their snapshots.
    copies: BTreeMap<(TableId, Key), Position>,
    /// The number of the last question.
    number: u64,
    /// Answers to questions up to this number are void.
    void: u64,
    /// The number of ticks in which it held the log.
    holding: u32,
}

impl Needs {
    /// It needs the log up to here.
    pub(super) fn raise(&mut self, until: Position) {
        self.until = self.until.max(until);
    }

    /// The position from which it needs the log, apart from copies on their way.
    fn from(&self) -> Position {
        if self.received < self.until { self.received } else { Position::MAX }
    }

    /// It begins to follow a partition from position `from`, which earlier answers do not cover.
    pub(super) fn renew(&mut self, from: Position) {
        self.received = self.received.min(from);
        self.void = self.number;
    }

    /// A copy is on its way whose snapshot was taken at `from`.
    fn expect(&mut self, copy: (TableId, Key), from: Position) {
        self.raise(from);
        let expected = self.copies.entry(copy).or_insert(from);
        *expected = from.min(*expected);
    }

    /// A copy has arrived: later answers cover it.
    fn hold(&mut self, copy: &(TableId, Key)) {
        if let Some(from) = self.copies.remove(copy) {
            self.renew(from);
        }
    }

    /// Counts a tick. Returns the number of a question, if one is due.
    pub(super) fn ask(&mut self) -> Option<u64> {
        if self.from() == Position::MAX {
            return None;
        }
        self.holding = self.holding.wrapping_add(1);
        self.holding.is_multiple_of(ASKED_AGAIN).then(|| {
            self.number += 1;
            self.number
        })
    }

    /// Records an answer. It may follow the next question: if a log is synced once a second, all
    /// do.
    fn hear(&mut self, number: u64, received: Position) {
        if number > self.void {
            self.received = self.received.max(received);
        }
    }
}

/// Where the log ended at what times.
#[derive(Default)]
pub(crate) struct Marks(VecDeque<(Time, Position)>);

impl Marks {
    /// Adds a mark: no frame before `end` is later than `time`.
    pub(crate) fn add(&mut self, time: Time, end: Position) {
        if self.0.back().is_some_and(|(_, marked)| *marked == end) {
            return;
        }
        if self.0.len() >= MARKS_MAX {
            let mut at = 0;
            self.0.retain(|_| {
                at += 1;
                at % 2 == 0
            });
        }
        self.0.push_back((time, end));
    }

    /// A position such that all frames before it are at or before `time`.
    fn position(&self, time: Time) -> Position {
        let known = self.0.partition_point(|(marked, _)| *marked <= time);
        known.checked_sub(1).map_or(0, |at| self.0[at].1)
    }
}

/// The questions that this site was asked, and the answer that it is about to send.
#[derive(Default)]
pub(super) struct Answers {
    asked: BTreeMap<SiteId, Question>,
    ready: Option<Answer>,
}

/// An answer that is sent when the site's own log is durable up to `end`.
struct Answer {
    to: BTreeMap<SiteId, Question>,
    up_to: Time,
    end: Position,
}

impl Site {
    /// The first position of the log that a follower still needs.
    pub(crate) fn needed_by_followers(&self) -> Position {
        let links = self.links.outgoing.lock();
        let needed = links.iter().map(|(site, link)| {
            let copies = link.needs.copies.iter().filter(|(copy, _)| self.is_expected(*site, copy));
            copies.map(|(_, from)| *from).fold(link.needs.from(), Position::min)
        });
        needed.min().unwrap_or(Position::MAX)
    }

    /// True if a copy on its way is still wanted, as far as is known here: the site still follows.
    fn is_expected(&self, site: SiteId, (table, start): &(TableId, Key)) -> bool {
        let Some(table) = self.table(*table) else { return false };
        let map = table.partitions.load();
        let partition = Table::find(&map, start.as_bytes());
        partition.is_some_and(|p| !p.is_master() || p.followers().contains(site))
    }

    /// Keeps nothing for a site any longer, because it has left the cluster.
    pub(crate) fn dismiss(&self, site: SiteId) {
        self.links.outgoing.lock().remove(&site);
    }

    /// These sites may have to receive a copy of a partition, from a position of the log on.
    pub(crate) fn expect_copies(
        &self,
        partition: &SitePartition,
        followers: &SiteSet,
        from: Position,
    ) {
        let mut links = self.links.outgoing.lock();
        for site in followers.iter() {
            let copy = (partition.table, partition.range.start.clone());
            links.entry(site).or_default().needs.expect(copy, from);
        }
    }

    /// Copies of these partitions are no longer on their way: the site has subscribed them, or has
    /// stopped following.
    pub(crate) fn has_copies<'p>(
        &self,
        site: SiteId,
        held: impl Iterator<Item = &'p Arc<SitePartition>>,
    ) {
        let mut links = self.links.outgoing.lock();
        let needs = &mut links.entry(site).or_default().needs;
        held.for_each(|partition| needs.hold(&(partition.table, partition.range.start.clone())));
    }

    /// Marks the end of the log. Part of a tick.
    pub(crate) fn mark_log(&self) {
        // The order matters: a frame that is in the log has had its time before.
        let end = self.log.end();
        self.links.marks.lock().add(self.store.clock.last(), end);
    }

    pub(super) fn hear_received(&self, from: SiteId, question: Question, up_to: Time) {
        if question.incarnation != self.incarnation {
            return;
        }
        let received = self.links.marks.lock().position(up_to);
        if let Some(link) = self.links.outgoing.lock().get_mut(&from) {
            link.needs.hear(question.number, received);
        }
    }

    pub(super) fn asked_what_is_received(&self, from: SiteId, question: Question) {
        self.links.answers.lock().asked.insert(from, question);
    }

    /// Answers the questions of other sites: up to which time their logs are not needed here. Part
    /// of a tick.
    pub(crate) fn answer_what_is_received(&self) {
        let durable = self.log.durable();
        let mut answers = self.links.answers.lock();
        if let Some(Answer { to, up_to, .. }) = answers.ready.take_if(|ready| ready.end <= durable)
        {
            for (site, question) in to {
                self.send(site, Message::Received { question, up_to });
            }
        }
        if answers.ready.is_none() && !answers.asked.is_empty() {
            let to = std::mem::take(&mut answers.asked);
            let up_to = self.has_all_up_to();
            // Events that were applied are in the log by now.
            answers.ready = Some(Answer { to, up_to, end: self.log.end() });
        }
    }

    /// The time up to which the replicas here lack no event.
    fn has_all_up_to(&self) -> Time {
        let complete = |replica: &Arc<SitePartition>| {
            let complete = replica.safe_time();
            // The parts of a replica that was split may still lack events that it no longer waits
            // for.
            if replica.is_gone() { replica.last() } else { complete }
        };
        self.followed().values().flatten().map(complete).min().unwrap_or(Time::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks until there is a question, and returns its number.
    fn asked(needs: &mut Needs) -> u64 {
        (0..ASKED_AGAIN).find_map(|_| needs.ask()).expect("it is asked while it holds the log")
    }

    #[test]
    fn a_question_from_before_a_copy_came_is_void() {
        let copy = (TableId(1), Key::int(5));
        let mut needs = Needs::default();
        needs.raise(900);
        let first = asked(&mut needs);
        needs.hear(first, 800);
        needs.expect(copy.clone(), 300);
        let before = asked(&mut needs);
        assert_eq!(needs.from(), 800);
        needs.hold(&copy);
        assert_eq!(needs.from(), 300, "what it said before did not count the copy in");
        needs.hear(before, 900);
        assert_eq!(needs.from(), 300);
        let after = asked(&mut needs);
        needs.hear(after, 900);
        assert_eq!(needs.from(), Position::MAX);
    }

    #[test]
    fn an_answer_that_comes_after_the_next_question_counts() {
        let mut needs = Needs::default();
        needs.raise(900);
        let (first, _second) = (asked(&mut needs), asked(&mut needs));
        needs.hear(first, 700);
        assert_eq!(needs.from(), 700);
    }

    #[test]
    fn marks_grow_coarser_and_stay_true() {
        let mut marks = Marks::default();
        let many = 3 * MARKS_MAX as u64;
        (1..=many).for_each(|at| marks.add(Time(at), 10 * at));
        assert!(marks.0.len() <= MARKS_MAX);
        for time in (0..=many).step_by(97) {
            let position = marks.position(Time(time));
            assert!(position <= 10 * time && position + 640 >= 10 * time, "{time}: {position}");
        }
        assert_eq!(marks.position(Time::MAX), 10 * many);
    }
}
