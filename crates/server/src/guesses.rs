//! Login throttling: limits the rate of wrong passwords.
//!
//! Each user has a token bucket per client address. A wrong password takes a token, and one returns
//! every few seconds. If the bucket is empty, the client gets the answer once there is a token
//! again. If several clients wait already, it is refused at once and takes none.
//!
//! ```text
//!   ada from 10.0.0.7    ● ● ● ● ● ○ ○ ○ ○ ○      ten at once, then one in three seconds
//!   ada from 10.0.0.8    ● ● ● ● ● ● ● ● ● ●      other addresses do not notice
//! ```
//!
//! A right password takes no token and never waits, even if other clients at the same address
//! guess. A proxy, or the machine itself, may be the address of many clients.
//!
//! A user that does not exist has a bucket like any other. Up to [`BUCKETS_MAX`] buckets are kept.
//! Beyond that the fullest is dropped, so a client cannot clear its own bucket by guessing for many
//! users.
//!
//! This is a state machine: the time is an argument.

use crate::socket::Origin;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Tokens in a full bucket.
const MOST: u32 = 10;
/// The time in which one token returns.
const EACH: Duration = Duration::from_secs(3);
/// The longest wait for a token; beyond it a client is refused.
const WAIT_MAX: Duration = Duration::from_secs(6);
/// The most buckets that are kept.
const BUCKETS_MAX: usize = 4096;

/// All buckets that are not full.
#[derive(Default)]
pub(crate) struct Guesses {
    /// The time at which each bucket will be full again.
    full_at: BTreeMap<(String, Origin), Instant>,
}

/// The time at which a client learns that its password was wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// After this delay.
    After(Duration),
    /// At once, because too many were wrong. There may be a token again after this time.
    Refused(Duration),
}

impl Guesses {
    /// Records a wrong password.
    pub(crate) fn wrong(&mut self, user: &str, origin: Origin, now: Instant) -> Turn {
        self.make_room(now);
        let full_at = self.full_at.entry((user.to_owned(), origin)).or_insert(now);
        let next = (*full_at).max(now) + EACH;
        let wait = next.duration_since(now).saturating_sub(EACH * MOST);
        if wait > WAIT_MAX {
            return Turn::Refused(wait);
        }
        *full_at = next;
        Turn::After(wait)
    }

    fn make_room(&mut self, now: Instant) {
        if self.full_at.len() < BUCKETS_MAX {
            return;
        }
        self.full_at.retain(|_, full_at| *full_at > now);
        if self.full_at.len() >= BUCKETS_MAX
            && let Some((fullest, _)) = self.full_at.iter().min_by_key(|(_, full_at)| **full_at)
        {
            let fullest = fullest.clone();
            self.full_at.remove(&fullest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    const FREE: Turn = Turn::After(Duration::ZERO);

    fn at(address: u8) -> Origin {
        Origin::of(IpAddr::from([10, 0, 0, address]))
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a time to begin with")]
    fn ten_wrong_answers_are_told_at_once_and_others_wait_or_are_refused() {
        let (mut guesses, now) = (Guesses::default(), Instant::now());
        let mut wrong = |user, address, after: u64| {
            guesses.wrong(user, at(address), now + Duration::from_secs(after))
        };
        for _ in 0..MOST {
            assert_eq!(wrong("ada", 7, 0), FREE);
        }
        assert_eq!(wrong("ada", 7, 0), Turn::After(EACH));
        assert_eq!(wrong("ada", 7, 0), Turn::After(2 * EACH));
        for _ in 0..100 {
            assert_eq!(wrong("ada", 7, 0), Turn::Refused(3 * EACH));
        }
        assert_eq!(wrong("ada", 8, 0), FREE, "another address");
        assert_eq!(wrong("bob", 7, 0), FREE, "another user");
        assert_eq!(wrong("ada", 7, 3), Turn::After(2 * EACH), "a token has come back");
        assert_eq!(wrong("ada", 7, 60), FREE, "time heals");
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a time to begin with")]
    fn buckets_of_many_users_are_remembered_the_emptiest_longest() {
        let (mut guesses, now) = (Guesses::default(), Instant::now());
        for _ in 0..MOST {
            guesses.wrong("ada", at(7), now);
        }
        for user in 0..2 * BUCKETS_MAX {
            guesses.wrong(&user.to_string(), at(7), now);
        }
        assert!(guesses.full_at.len() <= BUCKETS_MAX);
        assert_eq!(guesses.wrong("ada", at(7), now), Turn::After(EACH));
    }
}
