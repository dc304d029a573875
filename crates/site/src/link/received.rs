//! What of a log its followers do not need any more.
//!
//! A master keeps its log for followers that have not made its events durable in their own. Each event has
//! a time, in whichever log it is, and each replica a time up to which it is complete. So a follower can say
//! one time that is right for the log of every site: it has made durable what any of its replicas lacks up
//! to then.
//!
//! ```text
//!   s1: its log grows, and it marks now and then     s2: p (master s1) complete to @350, q (s3) to @320
//!       where it ended at what time:
//!       100 @200   200 @300   300 @400
//!   s1 ── ask 7 ──▶ s2      notes @320, and where its own log ends: 90
//!                           … its log is durable up to 90
//!   s1 ◀─ 7: @320 ─ s2
//!   needed from 200 on: all before is of @300 or earlier
//! ```
//!
//! That s2 speaks of `q`, too, matters where masters change: if s1 has mastered `q` for a while, and s2 has
//! missed that, `q` is complete to a time before, so what s1 has logged of it stays. Nobody has to know which
//! terms there were, or who followed whom.
//!
//! **A copy on its way.** What a site does not hold yet is not part of what it says. So a master keeps its log
//! from where it gave the copy's snapshot, until the site subscribes the replica, or is let go; by then that is durable. What
//! was said or asked before is void then. So it is where a mastership was acquired: the old master is a replica
//! since it has released it.
//!
//! **A new run** of a master knows nothing of all this: which terms it had, who followed then, what was
//! said, and which copies were on their way. So it keeps the whole log that it finds, until each other site
//! has said that it is beyond the log's end, and has subscribed whatever it is to follow.
//!
//! Left out: while a master is down, its replicas are complete to the time when it went, so the sites that
//! hold them let nobody cut a log.

use crate::message::{Message, Question};
use crate::partition::{SitePartition, Table};
use crate::site::Site;
use isomer_design::{Key, SiteId, SiteSet, TableId, Time};
use isomer_log::Position;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A site that holds the log is asked again after so many ticks: to find the answer, it looks at all its
/// replicas.
const ASKED_AGAIN: u32 = 16;
/// So many places in the log are marked at most; then every other is forgotten.
const MARKS_MAX: usize = 4096;

/// Up to where another site needs this log.
#[derive(Default)]
pub(super) struct Needs {
    /// It may need the log up to here: it was sent something of it, or has begun to follow.
    until: Position,
    /// It has made durable what it lacked up to here.
    received: Position,
    /// Copies that it may not hold yet, and where their snapshots were taken.
    copies: BTreeMap<(TableId, Key), Position>,
    /// The last question.
    number: u64,
    /// Answers to questions up to this one are void.
    void: u64,
    /// Ticks in which it held the log.
    holding: u32,
}

impl Needs {
    /// It needs the log up to here.
    pub(super) fn raise(&mut self, until: Position) {
        self.until = self.until.max(until);
    }

    /// From where on it needs the log, copies on their way left aside.
    fn from(&self) -> Position {
        if self.received < self.until { self.received } else { Position::MAX }
    }

    /// It is to follow what begins at `from`: what it has said so far does not count that in.
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

    /// A copy has come: what is said of the log from now on counts it in.
    fn hold(&mut self, copy: &(TableId, Key)) {
        if let Some(from) = self.copies.remove(copy) {
            self.renew(from);
        }
    }

    /// A tick has passed: gives the number of a question, if it is time for one.
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

    /// An answer may come after the next question: where a log is synced once a second, all of them do.
    fn hear(&mut self, number: u64, received: Position) {
        if number > self.void {
            self.received = self.received.max(received);
        }
    }
}

/// Where the log ended, at what times.
#[derive(Default)]
pub(crate) struct Marks(VecDeque<(Time, Position)>);

impl Marks {
    /// Nothing that is in the log before `end` is later than `time`.
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

    /// All before this position is at or before `time`.
    fn position(&self, time: Time) -> Position {
        let known = self.0.partition_point(|(marked, _)| *marked <= time);
        known.checked_sub(1).map_or(0, |at| self.0[at].1)
    }
}

/// What this site is asked, and is about to answer.
#[derive(Default)]
pub(super) struct Answers {
    asked: BTreeMap<SiteId, Question>,
    ready: Option<Answer>,
}

/// To be sent when our own log is durable up to `end`.
struct Answer {
    to: BTreeMap<SiteId, Question>,
    up_to: Time,
    end: Position,
}

impl Site {
    /// The log is still needed by followers from here on.
    pub(crate) fn needed_by_followers(&self) -> Position {
        let links = self.links.outgoing.lock();
        let needed = links.iter().map(|(site, link)| {
            let copies = link.needs.copies.iter().filter(|(copy, _)| self.is_expected(*site, copy));
            copies.map(|(_, from)| *from).fold(link.needs.from(), Position::min)
        });
        needed.min().unwrap_or(Position::MAX)
    }

    /// A copy on its way to a site is still wanted, as far as is known here: the site has not been let go.
    fn is_expected(&self, site: SiteId, (table, start): &(TableId, Key)) -> bool {
        let Some(table) = self.table(*table) else { return false };
        let map = table.partitions.load();
        let partition = Table::find(&map, start.as_bytes());
        partition.is_some_and(|p| !p.is_master() || p.followers().contains(site))
    }

    /// Nothing is kept any longer for a site that is gone for good.
    pub(crate) fn dismiss(&self, site: SiteId) {
        self.links.outgoing.lock().remove(&site);
    }

    /// These sites may have to be given a copy of a partition, from a position of the log on.
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

    /// Copies of these partitions are not on their way to a site any more: it has subscribed them, or was let go.
    pub(crate) fn has_copies<'p>(
        &self,
        site: SiteId,
        held: impl Iterator<Item = &'p Arc<SitePartition>>,
    ) {
        let mut links = self.links.outgoing.lock();
        let needs = &mut links.entry(site).or_default().needs;
        held.for_each(|partition| needs.hold(&(partition.table, partition.range.start.clone())));
    }

    /// Marks where the log ends. Part of a tick.
    pub(crate) fn mark_log(&self) {
        // In this order: what is in the log has had its time before.
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

    /// Tells those who asked up to when their logs are not needed here any more. Part of a tick.
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
            // What was applied is in the log by now.
            answers.ready = Some(Answer { to, up_to, end: self.log.end() });
        }
    }

    /// The replicas here lack nothing up to this time.
    fn has_all_up_to(&self) -> Time {
        let complete = |replica: &Arc<SitePartition>| {
            let complete = replica.safe_time();
            // What it was split into may lack what it no longer waits for.
            if replica.is_gone() { replica.last() } else { complete }
        };
        self.followed().values().flatten().map(complete).min().unwrap_or(Time::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of the next question.
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
