//! What became of a commit whose answer was lost.
//!
//! The site that was asked may be gone before it has answered. Then others take over from it, or it comes back, and its
//! rows say what became of the commit: each has the time at which it was written.
//!
//! ```text
//!   7: 40 @90 ─▶ 30            sent to s2, which is killed
//!
//!   nothing was published      the rows are still locked, so no other open transaction can have written them: ask again
//!     ├─ committed             it had not been
//!     └─ 7 is not @90          look: 7 is 30, like all that was to be written of one time ─▶ it had been
//!   published @95              the locks are released, so it only looks
//!     ├─ 7 is 30 @95           committed
//!     └─ 7 is 40 @90           it is gone with s2: the client runs it again
//!
//!   published, only inserts    they stay locked until the answer is there (nobody waits for rows that are new), so
//!     └─ 8 is not there        it is gone with s2, and not deleted since
//! ```
//!
//! **Why asking again is safe.** A request is sent again where the rows are, and whoever has them by then has done with the
//! first one: a site is reached again only when nothing of that connection is under way there any more, and others take
//! over only when they hear no more of what it does. If the first one has committed, some version is not the expected one.
//!
//! **Rows that were to be inserted** are no such proof where somebody deletes them without a row lock: procedures do
//! ([`crate::Database::run`]). Where there have been any, a transaction that only inserts is not sent again, and rows of it
//! that are not there prove nothing.
//!
//! **Earlier owners.** The log of s2 may be at another process by now, and the one before may show
//! what it had. So a row as it was proves nothing before the lease of that process has ended.
//!
//! **What stays unknown.** A look at one time may come before a commit of a site that is ahead of the clock. So rows that are
//! still as they were prove something only if the time is known; else it is looked again for a while. A published commit
//! that has changed a row which is not there now was lost with what it had changed, or somebody has deleted it since. A commit
//! that has only deleted is known by its rows, but not its time; it counts as made, too, if what it deleted was itself lost
//! with the site.

use super::gateway::Gateway;
use super::snapshot::{Seen, Snapshot};
use crate::error::Error;
use crate::router::{Call, Ran, Session, unless};
use crate::transport::Transport;
use isomer_design::{Key, SiteId, TableId, Time};
use isomer_site::{
    Abort, CheckedWrite, CheckedWrites, Committed, Expect, Failure, Published, Request,
};
use isomer_strategy::Place;
use std::cell::Cell;

/// It is asked and looked so often.
const ATTEMPTS_MAX: usize = 64;

/// Why a transaction has not committed.
pub(super) enum NotCommitted {
    Because(Error),
    /// It had been published, and is gone with its site.
    Undone,
}

/// What the rows say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    /// Committed; where all were deletions the time is not known.
    Committed(Option<Time>),
    Undone,
    Unknown,
}

/// A commit that is to be known for certain.
pub(super) struct Commit<'a, T> {
    pub(super) gateway: &'a Gateway<T>,
    pub(super) session: &'a mut Session,
    pub(super) call: Call<'a>,
    pub(super) writes: &'a CheckedWrites,
}

impl<T: Transport> Commit<'_, T> {
    /// Commits; if the answer is lost, finds out what became of it.
    pub(super) async fn until_known(
        mut self,
        mut request: Request<'_>,
        published: Published<'_>,
    ) -> Result<Ran, NotCommitted> {
        let published_at = Cell::new(None);
        let mut noted = |time| {
            published_at.set(Some(time));
            published(time);
        };
        let lost = match self.ask(request.again(), &mut noted).await {
            Err(error) if is_lost(&error) => error,
            answer => return answer.map_err(NotCommitted::Because),
        };
        if published_at.get().is_none() && !self.is_proof() {
            return Err(NotCommitted::Because(lost));
        }
        let gateway = self.gateway;
        let transport = gateway.transport();
        let newest_from = transport.now().0 + transport.stale_for();
        for _ in 0..ATTEMPTS_MAX {
            let mut is_worth_a_look = true;
            if published_at.get().is_none() {
                match self.ask(request.again(), &mut noted).await {
                    Err(error) if is_lost(&error) || is_passing(&error) => is_worth_a_look = false,
                    // It has committed before, or somebody else has.
                    Err(Error::Abort(Abort::Changed { .. } | Abort::ReadChanged { .. })) => {}
                    Err(_) => break,
                    Ok(ran) => return Ok(ran),
                }
            }
            let call = self.call;
            if is_worth_a_look {
                let is_newest = transport.now().0 >= newest_from;
                match unless(call.over, self.look(published_at.get())).await {
                    Ok(Ok(Outcome::Committed(commit))) => return Ok(self.committed(commit)),
                    Ok(Ok(Outcome::Undone)) if is_newest => return Err(NotCommitted::Undone),
                    Ok(Ok(Outcome::Undone)) => {
                        let stale = async {
                            while transport.now().0 < newest_from {
                                transport.retry(self.home()).await;
                            }
                        };
                        if unless(call.over, stale).await.is_err() {
                            break;
                        }
                        continue;
                    }
                    // The site may have gone once more.
                    Ok(Ok(Outcome::Unknown) | Err(Error::Gone)) => {}
                    Ok(Err(_)) | Err(_) => break,
                }
            }
            if unless(call.over, self.gateway.transport().retry(self.home())).await.is_err() {
                break;
            }
        }
        Err(NotCommitted::Because(lost))
    }

    async fn ask(&mut self, request: Request<'_>, noted: Published<'_>) -> Result<Ran, Error> {
        let router = self.gateway.router();
        let answer = router.serve_until(self.session, request, noted, self.call).await;
        answer.map(|(ran, _)| ran)
    }

    /// True if these writes cannot be made twice.
    fn is_proof(&self) -> bool {
        is_proof(self.writes, self.gateway.router().has_procedures())
    }

    /// Where the first of the rows is.
    fn home(&self) -> SiteId {
        let routing = self.gateway.router().routing_table();
        let mut masters = rows(self.writes).filter_map(|(table, key, _)| {
            routing.placement(table, key).map(|placement| placement.master)
        });
        masters.next().unwrap_or(SiteId(1))
    }

    /// As if the answer had come.
    fn committed(self, commit: Option<Time>) -> Ran {
        let router = self.gateway.router();
        commit.into_iter().for_each(|time| router.has_committed(time));
        let snapshot = commit.map_or(router.present(), |time| Time(time.0 - 1));
        let committed = Committed { snapshot, commit };
        self.session.has_seen(committed.session());
        Ran { place: Place::At(self.home()), committed, changes: 0, is_found: true }
    }

    /// What the rows say now, at their masters, as far as that is durable, and at the backups.
    async fn look(&self, published: Option<Time>) -> Result<Outcome, Error> {
        let mut snapshot = Snapshot::take(self.gateway).await?;
        let looked = self.look_in(&mut snapshot, published).await;
        snapshot.end(self.gateway, &mut Seen::default());
        looked
    }

    async fn look_in(
        &self,
        snapshot: &mut Snapshot<T>,
        published: Option<Time>,
    ) -> Result<Outcome, Error> {
        let is_locked = only_inserts(self.writes) && self.is_proof();
        let mut evidence = Evidence { published, is_locked, is_ours: true, at: None };
        let mut outcome = None;
        for (table, key, write) in rows(self.writes) {
            let mut found = None;
            let visit = |row: &[u8], time| found = Some((time, write.row.as_deref() == Some(row)));
            snapshot.get_at_master(self.gateway, table, key, visit).await?;
            outcome = outcome.or(evidence.add(write, found));
            // One row proves it, but backups are to have all of them before it is told.
            if outcome == Some(Outcome::Undone) {
                break;
            }
        }
        snapshot.until_durable(self.gateway.transport()).await?;
        Ok(outcome.unwrap_or_else(|| evidence.end()))
    }
}

/// True if the site was gone before it could answer.
fn is_lost(error: &Error) -> bool {
    matches!(error, Error::Failure(Failure::Stopped(_) | Failure::Unknown(_)))
}

/// True if nothing was written, as a site that has a part of it was about to be lost or to come back.
fn is_passing(error: &Error) -> bool {
    matches!(error, Error::Failure(Failure::Participant(_) | Failure::Log(_)))
}

/// True if rows are inserted, and nothing else: they stay locked until the answer is there.
pub(super) fn only_inserts(writes: &CheckedWrites) -> bool {
    rows(writes).all(|(.., write)| write.expect == Expect::Version(None) && write.row.is_some())
}

/// True if these writes cannot be made twice.
fn is_proof(writes: &CheckedWrites, has_procedures: bool) -> bool {
    rows(writes).any(|(.., write)| match write.expect {
        Expect::Version(Some(_)) => true,
        Expect::Version(None) => write.row.is_some() && !has_procedures,
        Expect::Anything => false,
    })
}

fn rows(writes: &CheckedWrites) -> impl Iterator<Item = (TableId, &Key, &CheckedWrite)> {
    writes.iter().flat_map(|(table, rows)| rows.iter().map(|(key, write)| (*table, key, write)))
}

/// What rows have said so far.
struct Evidence {
    published: Option<Time>,
    /// Nobody else can have written them since.
    is_locked: bool,
    /// Each is as it was to be written, and all have one time.
    is_ours: bool,
    at: Option<Time>,
}

impl Evidence {
    /// A row as it was found: its time, and whether it is what was to be written. Says what that proves by itself.
    fn add(&mut self, write: &CheckedWrite, found: Option<(Time, bool)>) -> Option<Outcome> {
        let time = found.map(|(time, _)| time);
        // What it was to replace has gone, and so has whatever replaced that.
        let is_older = |expected: &Time| time.is_some_and(|time| time < *expected);
        if matches!(&write.expect, Expect::Version(Some(expected)) if is_older(expected)) {
            return Some(Outcome::Undone);
        }
        if let Some(published) = self.published {
            let is_expected = write.expect == Expect::Version(time);
            let is_expected = is_expected && (time.is_some() || self.is_locked);
            return match time {
                Some(time) if time == published => Some(Outcome::Committed(Some(time))),
                _ if is_expected => Some(Outcome::Undone),
                _ => None,
            };
        }
        match (found, &write.row) {
            (Some((time, true)), Some(_)) => {
                self.is_ours &= self.at.is_none_or(|at| at == time);
                // It is what was to be written, and was so before.
                self.is_ours &= write.expect != Expect::Version(Some(time));
                self.at = Some(time);
            }
            (None, None) => {}
            _ => self.is_ours = false,
        }
        None
    }

    /// What all of them prove together.
    fn end(self) -> Outcome {
        match self.published {
            None if self.is_ours => Outcome::Committed(self.at),
            _ => Outcome::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(expect: Option<u64>, row: Option<&str>) -> CheckedWrite {
        let row = row.map(|row| row.as_bytes().to_vec());
        CheckedWrite { expect: Expect::Version(expect.map(Time)), row }
    }

    /// The version that was expected, the row that was to be written, and the time of what is found, and whether it is that.
    type Row<'r> = (Option<u64>, Option<&'r str>, Option<(u64, bool)>);

    /// What rows prove that are found at these times, or not at all, as they were to be written or not.
    fn proven(published: Option<u64>, rows: &[Row<'_>]) -> Outcome {
        proven_if(false, published, rows)
    }

    fn proven_if(is_locked: bool, published: Option<u64>, rows: &[Row<'_>]) -> Outcome {
        let published = published.map(Time);
        let mut evidence = Evidence { published, is_locked, is_ours: true, at: None };
        let mut said = rows.iter().filter_map(|(expect, row, found)| {
            let found = found.map(|(time, is_ours)| (Time(time), is_ours));
            evidence.add(&write(*expect, *row), found)
        });
        let first = said.next();
        first.unwrap_or_else(|| evidence.end())
    }

    #[test]
    fn what_is_locked_and_as_it_was_to_be_written_was_committed() {
        let changed = (Some(90), Some("30"), Some((95, true)));
        let inserted = (None, Some("new"), Some((95, true)));
        let deleted = (Some(80), None, None);
        assert_eq!(proven(None, &[changed, inserted, deleted]), Outcome::Committed(Some(Time(95))));
        assert_eq!(proven(None, &[deleted]), Outcome::Committed(None));
        // Of two commits, or of somebody else, or not changed at all.
        let other = (None, Some("new"), Some((96, true)));
        assert_eq!(proven(None, &[changed, other]), Outcome::Unknown);
        assert_eq!(proven(None, &[(Some(90), Some("30"), Some((95, false)))]), Outcome::Unknown);
        assert_eq!(proven(None, &[(Some(90), Some("30"), Some((90, true)))]), Outcome::Unknown);
        assert_eq!(proven(None, &[(None, Some("new"), None)]), Outcome::Unknown);
        assert_eq!(proven(None, &[(Some(80), None, Some((80, false)))]), Outcome::Unknown);
    }

    #[test]
    fn what_was_published_is_known_by_its_time() {
        let overwritten = (Some(90), Some("30"), Some((99, false)));
        let kept = (None, Some("new"), Some((95, true)));
        let committed = Outcome::Committed(Some(Time(95)));
        assert_eq!(proven(Some(95), &[overwritten, kept]), committed);
        assert_eq!(proven(Some(95), &[overwritten]), Outcome::Unknown);
        let as_before = (Some(90), Some("30"), Some((90, false)));
        assert_eq!(proven(Some(95), &[overwritten, as_before]), Outcome::Undone);
        // The version that it was to replace was lost, too.
        assert_eq!(proven(Some(95), &[(Some(90), Some("30"), Some((80, false)))]), Outcome::Undone);
        assert_eq!(proven(None, &[(Some(90), Some("30"), Some((80, false)))]), Outcome::Undone);
        // It may have been deleted since, or never have been there, unless it has been locked ever since.
        let inserted = (None, Some("new"), None);
        assert_eq!(proven(Some(95), &[inserted]), Outcome::Unknown);
        assert_eq!(proven_if(true, Some(95), &[inserted]), Outcome::Undone);
        assert_eq!(proven_if(true, Some(95), &[kept]), committed);
    }

    #[test]
    fn what_could_be_made_twice_is_not_asked_for_again() {
        let of = |write: CheckedWrite| {
            CheckedWrites::from([(TableId(1), [(Key::int(7), write)].into_iter().collect())])
        };
        let anything = CheckedWrite { expect: Expect::Anything, row: Some(Vec::new()) };
        for (writes, alone, with_procedures) in [
            (write(Some(90), Some("30")), true, true),
            (write(None, Some("new")), true, false),
            (write(None, None), false, false),
            (anything, false, false),
        ] {
            let writes = of(writes);
            assert_eq!([false, true].map(|has| is_proof(&writes, has)), [alone, with_procedures]);
        }
    }
}
