//! The gateways whose commits the sites of a process accept.
//!
//! A gateway with a seat at the conductor looks at its lease before it commits, and may stand still
//! between the look and the commit. Its seat ends meanwhile, and a definition that does not wait
//! for it any more changes the table that it is about to write. So each commit names a seat, and
//! the site looks at it again, at the moment of the commit:
//!
//! ```text
//!   b    looks at its lease ─ stands still ──────────────────────────────── commit, seat 5 ─▶ c
//!   a    the conductor: seat 5 has ended ─ news ─▶ c takes note ─▶ the definition goes on     │
//!   c                                                                               refused ◀─┘
//! ```
//!
//! | the commit is of | the site |
//! | --- | --- |
//! | the conductor's gateway | accepts it; the network refuses those of an earlier conductor |
//! | a seat of this term | accepts it, unless the seat has ended |
//! | a seat of an earlier term | refuses it: the seat has ended with its conductor |
//! | any seat, while the process has lost its own, or has one of an earlier term | refuses it for now: the process may not know which seats have ended |
//! | any seat, while the process never had one | accepts it |
//!
//! A process that has lost its seat learns nothing about seats, and no definition waits for it. Its
//! own lease ends before the conductor ends its seat, so it then refuses all others.
//!
//! **Left out.** A process without a gateway (`isomer node`), and one that has just started, do not
//! know which seats have ended. A process that stands still as a whole between this look and the
//! entry in the log, which is a stretch of code without a wait: its log may not be taken over
//! meanwhile, if the failover timeout is longer than the lease.

use crate::error::Failure;
use isomer_design::{SiteId, Time};
use parking_lot::RwLock;
use std::collections::BTreeSet;

/// The bits of a seat's number that count the seats of a conductor's term. The others are the term.
pub const SEAT_BITS: u32 = 24;

/// See the [module documentation](self).
#[derive(Default, Debug)]
pub struct Admission(RwLock<Known>);

#[derive(Default, Debug)]
struct Known {
    /// The conductor's term.
    term: u64,
    /// The seats of this term that have ended.
    ended: BTreeSet<u64>,
    /// The lease of this process ends at this time.
    until: Time,
    /// This process has the conductor, and needs no lease.
    conducts: bool,
    /// This process has, or had, a seat or the conductor.
    is_told: bool,
}

impl Admission {
    /// This process has the conductor from now on, in a term in which no seat has ended.
    pub fn conduct(&self, term: u64) {
        let (ended, until) = (BTreeSet::new(), Time::ZERO);
        *self.0.write() = Known { term, ended, until, conducts: true, is_told: true };
    }

    /// The conductor's term.
    pub fn term(&self) -> u64 {
        self.0.read().term
    }

    /// This process has got a seat, of the conductor's term, in which other seats have ended.
    pub fn join(&self, seat: u64, ended: impl IntoIterator<Item = u64>, until: Time) {
        let mut known = self.0.write();
        // The answer of a conductor in whose place this process is now comes too late.
        if !known.conducts {
            let (term, ended) = (seat >> SEAT_BITS, ended.into_iter().collect());
            *known = Known { term, ended, until, conducts: false, is_told: true };
        }
    }

    /// The lease of this process lasts until then.
    pub fn renew(&self, until: Time) {
        self.0.write().until = until;
    }

    /// A seat has ended. No commit in its name is accepted once this has returned.
    pub fn end(&self, seat: u64) {
        self.0.write().ended.insert(seat);
    }

    /// Looks at the seat of a commit at a site; 0 is the conductor's own gateway.
    ///
    /// # Errors
    /// [`Failure::SeatEnded`], [`Failure::Unseated`].
    pub fn check(&self, site: SiteId, seat: u64, now: Time) -> Result<(), Failure> {
        if seat == 0 {
            return Ok(());
        }
        let (known, term) = (self.0.read(), seat >> SEAT_BITS);
        if !known.is_told {
            Ok(())
        } else if term < known.term || known.ended.contains(&seat) {
            Err(Failure::SeatEnded(site))
        } else if term > known.term || !known.conducts && now >= known.until {
            Err(Failure::Unseated(site))
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: SiteId = SiteId(3);

    fn seat(term: u64, number: u64) -> u64 {
        term << SEAT_BITS | number
    }

    #[test]
    fn a_seat_is_accepted_until_it_ends_by_a_process_that_knows_that_it_would() {
        let admission = Admission::default();
        let check = |term, number, now| admission.check(SITE, seat(term, number), Time(now));
        assert!(admission.check(SITE, 0, Time(1)).is_ok());
        assert!(check(2, 7, 1).is_ok(), "it hears of no seat");
        admission.join(seat(2, 9), [seat(2, 5)], Time(10));
        assert!(check(2, 7, 1).is_ok() && check(2, 9, 9).is_ok());
        assert!(matches!(check(2, 5, 1), Err(Failure::SeatEnded(_))), "it had ended before");
        assert!(matches!(check(1, 7, 1), Err(Failure::SeatEnded(_))), "of an earlier term");
        assert!(matches!(check(3, 7, 1), Err(Failure::Unseated(_))), "of a later term");
        assert!(matches!(check(2, 7, 10), Err(Failure::Unseated(_))), "its lease is over");
        admission.renew(Time(20));
        assert!(check(2, 7, 10).is_ok());
        admission.end(seat(2, 7));
        assert!(matches!(check(2, 7, 10), Err(Failure::SeatEnded(_))));
        admission.conduct(3);
        admission.join(seat(2, 11), [], Time(10));
        assert!(check(3, 7, 10).is_ok() && check(2, 9, 10).is_err());
    }
}
