//! The outcome of a commit whose answer was lost.
//!
//! The asked site may fail before it has answered. Then others take over from it, or it restarts.
//! The rows of the transaction show the outcome, because each has the time at which it was written.
//!
//! ```text
//!   7: 40 @90 ─▶ 30            sent to s2, which is killed
//!
//!   not published              the rows are still locked against other transactions: send it again
//!     ├─ it commits            the first attempt had not committed
//!     └─ 7 is not @90          read: 7 is 30, and all writes have one time ─▶ it had committed
//!   published @95              the locks are released: only read
//!     ├─ 7 is 30 @95           committed
//!     └─ 7 is 40 @90           lost with s2: the client runs it again
//!
//!   published, only inserts    they stay locked until the outcome is known (no other transaction
//!     └─ 8 is missing          waits for new rows): lost with s2, and not deleted since
//! ```
//!
//! **Why a request can be sent again.** It is sent to the current master of the rows, where the
//! first request has ended. A site can be reached again only once no request of the lost connection
//! is under way there. Others take over only after fencing the failed site. If the first request
//! has committed, some version is not the expected one, and the second one fails.
//!
//! **Inserted rows** are no such proof if procedures may have deleted them without a row lock
//! ([`crate::Database::run`]). Once a procedure has written, a transaction that only inserts is not
//! sent again, and its missing rows prove nothing.
//!
//! **Earlier owners.** The log of s2 may be at another process by now, and the previous process may
//! still serve old rows. So a row in its old version proves nothing until the lease of that process
//! has ended.
//!
//! **What stays unknown.** A read at one time may precede a commit of a site whose clock is ahead.
//! So unchanged rows prove something only if the commit time is known; otherwise they are read
//! again for a while. If a published commit has changed a row that is missing now, either the
//! commit was lost, or another transaction has deleted the row since. A commit that has only
//! deleted rows is known by these, but its time is not. It counts as committed also if the deleted
//! rows were themselves lost with the site.

use super::commit::footprint;
use super::gateway::{CancelToken, Gateway};
use super::snapshot::{Seen, Snapshot};
use super::transaction::OpenError;
use crate::error::Error;
use crate::router::{Call, Ran, Session, unless};
use crate::transport::Transport;
use isomer_design::{Key, SiteId, TableId, Time};
use isomer_site::{
    Abort, Body, CheckedWrite, CheckedWrites, Committed, Expect, Failure, Published, ReadSet,
    Request,
};
use isomer_strategy::Place;
use std::cell::Cell;
use std::task::Waker;

/// The number of times that the request is sent again or the rows are read.
const ATTEMPTS_MAX: usize = 64;
/// The time for which attempts do not count while the process has no seat, or a site cannot be
/// asked: longer than a takeover by a new conductor.
const OUTAGE_NS: u64 = 30_000_000_000;

/// Why a transaction has not committed.
pub(super) enum NotCommitted {
    Because(Error),
    /// It had been published, and was lost with its site.
    Undone,
}

/// The outcome that the rows prove.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    /// Committed. The time is unknown if all writes were deletions.
    Committed(Option<Time>),
    Undone,
    Unknown,
}

/// A commit whose outcome must be known.
pub(super) struct Commit<'a, T> {
    pub(super) gateway: &'a Gateway<T>,
    pub(super) session: &'a mut Session,
    pub(super) call: Call<'a>,
    pub(super) writes: &'a CheckedWrites,
}

impl<T: Transport> Commit<'_, T> {
    /// Commits. If the answer is lost, finds out the outcome.
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
        match self.ask(request.again(), &mut noted).await {
            Err(error) if is_lost(&error) => {
                self.after_loss(request, error, &published_at, &mut noted).await
            }
            answer => answer.map_err(NotCommitted::Because),
        }
    }

    /// Finds out the outcome of a request whose answer was lost. The request is sent again, unless
    /// it `noted` a publication, whose time is then in `published_at`.
    async fn after_loss(
        mut self,
        mut request: Request<'_>,
        lost: Error,
        published_at: &Cell<Option<Time>>,
        noted: Published<'_>,
    ) -> Result<Ran, NotCommitted> {
        if published_at.get().is_none() && !self.is_proof() {
            return Err(NotCommitted::Because(lost));
        }
        let gateway = self.gateway;
        let transport = gateway.transport();
        let lost_at = transport.now().0;
        let newest_from = lost_at + transport.stale_for();
        let is_outage = || transport.now().0 < lost_at + OUTAGE_NS;
        let mut attempts = 0;
        while attempts < ATTEMPTS_MAX {
            attempts += 1;
            let mut is_worth_a_look = true;
            if published_at.get().is_none() {
                match self.ask(request.again(), &mut *noted).await {
                    Err(Error::NoSeat) => {
                        let seated = self.gateway.router().until_succeeded(self.home());
                        is_worth_a_look = unless(self.call.over, seated).await.unwrap_or(false);
                    }
                    Err(error) if is_lost(&error) || is_passing(&error) => {
                        is_worth_a_look = false;
                        attempts -= usize::from(is_outage());
                    }
                    // An earlier attempt has committed, or another transaction has changed a row.
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
                    // The site may have failed again.
                    Ok(Ok(Outcome::Unknown) | Err(Error::Gone)) => {}
                    Ok(Err(_)) if is_outage() => attempts -= 1,
                    Ok(Err(_)) => break,
                    Err(_) => break,
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

    /// The master of the first row.
    fn home(&self) -> SiteId {
        let routing = self.gateway.router().routing_table();
        let mut masters = rows(self.writes).filter_map(|(table, key, _)| {
            routing.placement(table, key).map(|placement| placement.master)
        });
        masters.next().unwrap_or(SiteId(1))
    }

    /// The result as if the answer had arrived.
    fn committed(self, commit: Option<Time>) -> Ran {
        let router = self.gateway.router();
        commit.into_iter().for_each(|time| router.has_committed(time));
        let snapshot = commit.map_or(router.present(), |time| Time(time.0 - 1));
        let committed = Committed { snapshot, commit };
        self.session.has_seen(committed.session());
        Ran { place: Place::At(self.home()), committed, changes: 0, is_found: true }
    }

    /// Reads the rows at their masters and derives the outcome, once that is durable there and at
    /// the backups.
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
            // One row proves it, but backups must have all rows before the client is told.
            if outcome == Some(Outcome::Undone) {
                break;
            }
        }
        snapshot.until_durable(self.gateway.transport()).await?;
        Ok(outcome.unwrap_or_else(|| evidence.end()))
    }
}

/// Finds out the outcome of a commit that the gateway of another process was about to make for a
/// client of this one, and makes it if it was not made. `published` is the time of its publication,
/// if that is known.
pub(crate) async fn find_out<T: Transport>(
    gateway: &Gateway<T>,
    (reads, writes): (&ReadSet, &CheckedWrites),
    published: Option<Time>,
    cancel: &CancelToken,
) -> Result<Ran, OpenError> {
    let footprint = footprint(gateway.router(), writes, reads);
    let body = match reads.is_empty() {
        true => Body::Writes(writes),
        false => Body::Validated { reads, writes },
    };
    let request = Request { seat: gateway.seat(), ..Request::new(&footprint, body) };
    let over = |waker: &Waker| cancel.poll_over(waker);
    let mut session = Session::new(published.map_or(1, |time| time.0));
    let (ticket, _) = gateway.router().ticket(&mut session);
    let call = Call { ticket, is_wanted: false, before: None, over: &over };
    let commit = Commit { gateway, session: &mut session, call, writes };
    let lost = Error::Failure(Failure::Stopped(commit.home()));
    let published_at = Cell::new(published);
    let mut noted = |time| {
        published_at.set(Some(time));
        gateway.router().has_committed(time);
    };
    match commit.after_loss(request, lost, &published_at, &mut noted).await {
        Ok(ran) => Ok(ran),
        Err(NotCommitted::Undone) => Err(OpenError::Undone),
        Err(NotCommitted::Because(error)) => {
            if error.is_unknown() {
                gateway.note_unknown();
            }
            Err(error.into())
        }
    }
}

/// True if the site failed before it could answer.
fn is_lost(error: &Error) -> bool {
    matches!(error, Error::Failure(Failure::Stopped(_) | Failure::Unknown(_)))
}

/// True if nothing was written because a participant was failing, restarting or out of reach.
fn is_passing(error: &Error) -> bool {
    use Failure::{Log, Participant, Unreachable, Unseated};
    matches!(error, Error::Failure(Log(_) | Participant(_) | Unreachable { .. } | Unseated(_)))
}

/// True if all writes are inserts: their locks are kept until the answer is known.
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

/// The evidence of the rows read so far.
struct Evidence {
    published: Option<Time>,
    /// True if no other transaction can have written the rows since.
    is_locked: bool,
    /// True if each row is as it was to be written, and all have one time.
    is_ours: bool,
    at: Option<Time>,
}

impl Evidence {
    /// Adds a row: its time and whether it equals the write. Returns the outcome if this row proves
    /// it alone.
    fn add(&mut self, write: &CheckedWrite, found: Option<(Time, bool)>) -> Option<Outcome> {
        let time = found.map(|(time, _)| time);
        // The version that it was to replace was lost, with all later ones.
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
                // The row had this value and this version before.
                self.is_ours &= write.expect != Expect::Version(Some(time));
                self.at = Some(time);
            }
            (None, None) => {}
            _ => self.is_ours = false,
        }
        None
    }

    /// The outcome that all rows prove together.
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

    /// The expected version; the row to write; the time of the row found, and whether it equals the
    /// write.
    type Row<'r> = (Option<u64>, Option<&'r str>, Option<(u64, bool)>);

    /// The outcome that rows prove, if each is found with this time, or not at all.
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
        // Rows of two commits, of another transaction, or not changed at all.
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
        // It may have been deleted since, or never existed, unless it has been locked all the time.
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
