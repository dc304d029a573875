//! How often a password may be guessed.
//!
//! Each user has, for each address, a token bucket: a wrong answer takes a token, and one comes back
//! every few seconds. Who finds the bucket empty waits for the next token; where some wait already,
//! he is refused at once.
//!
//! ```text
//!   ada from 10.0.0.7    ● ● ● ● ● ○ ○ ○ ○ ○      ten at once, then one in three seconds
//!   ada from 10.0.0.8    ● ● ● ● ● ● ● ● ● ●      elsewhere nobody notices
//! ```
//!
//! While the bucket is full, logins take nothing in advance, so a pool of connections with the right
//! password is let in however large it is. After a wrong answer each attempt takes one until it is
//! known to be right.
//!
//! A user that does not exist has a bucket like any other. So many are remembered; when there are
//! more, the fullest is forgotten, so who guesses cannot make his own forgotten by guessing for
//! many users.
//!
//! A state machine: the time comes in as an argument.

use crate::socket::Origin;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Tokens in a full bucket.
const MOST: u32 = 10;
/// One comes back in this time.
const EACH: Duration = Duration::from_secs(3);
/// Nobody waits longer than this.
const WAIT_MAX: Duration = Duration::from_secs(6);
/// Buckets that are remembered.
const BUCKETS_MAX: usize = 4096;

/// All buckets that are not full.
#[derive(Default)]
pub(crate) struct Guesses {
    /// When a bucket will be full again.
    full_at: BTreeMap<(String, Origin), Instant>,
}

/// What an attempt may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// It begins after this time. True: it has taken a token, which it gets back if it is
    /// right.
    After(Duration, bool),
    /// It is refused. After this time there may be a token again.
    Refused(Duration),
}

impl Guesses {
    /// An attempt begins.
    pub(crate) fn begin(&mut self, user: &str, origin: Origin, now: Instant) -> Turn {
        let key = (user.to_owned(), origin);
        let Some(full_at) = self.full_at.get_mut(&key).filter(|full_at| **full_at > now) else {
            self.full_at.remove(&key);
            return Turn::After(Duration::ZERO, false);
        };
        let missing = full_at.duration_since(now) + EACH;
        let wait = missing.saturating_sub(EACH * MOST);
        if wait > WAIT_MAX {
            return Turn::Refused(wait);
        }
        *full_at += EACH;
        Turn::After(wait, true)
    }

    /// An attempt has ended, which had this turn.
    pub(crate) fn end(
        &mut self,
        user: &str,
        origin: Origin,
        now: Instant,
        has_taken: bool,
        is_right: bool,
    ) {
        let key = (user.to_owned(), origin);
        match (has_taken, is_right) {
            (true, false) | (false, true) => {}
            (true, true) => {
                if let Some(full_at) = self.full_at.get_mut(&key) {
                    *full_at -= EACH;
                }
            }
            (false, false) => {
                self.make_room(now);
                let full_at = self.full_at.entry(key).or_insert(now);
                *full_at = (*full_at).max(now) + EACH;
            }
        }
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

    fn at(address: u8) -> Origin {
        Origin::of(IpAddr::from([10, 0, 0, address]))
    }

    /// How many attempts with wrong passwords are answered in so many seconds, one after the other.
    fn answered(guesses: &mut Guesses, mut now: Instant, seconds: u64) -> u32 {
        let (end, mut answered) = (now + Duration::from_secs(seconds), 0);
        while now < end {
            match guesses.begin("ada", at(7), now) {
                Turn::After(wait, has_taken) => {
                    now += wait + Duration::from_millis(4);
                    guesses.end("ada", at(7), now, has_taken, false);
                    answered += 1;
                }
                Turn::Refused(_) => now += Duration::from_millis(1),
            }
        }
        answered
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a time to begin with")]
    fn a_minute_is_long_enough_for_thirty_guesses_and_nobody_else_waits() {
        let (mut guesses, begun) = (Guesses::default(), Instant::now());
        let many = answered(&mut guesses, begun, 60);
        assert!((25..=35).contains(&many), "{many}");
        let later = begun + Duration::from_secs(60);
        let free = Turn::After(Duration::ZERO, false);
        assert_eq!(guesses.begin("ada", at(8), later), free, "another address");
        assert_eq!(guesses.begin("bob", at(7), later), free, "another user");
        assert!(
            matches!(guesses.begin("ada", at(7), later), Turn::After(wait, true) if wait <= WAIT_MAX)
        );
        let much_later = later + Duration::from_secs(60);
        assert_eq!(guesses.begin("ada", at(7), much_later), free, "time heals");
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a time to begin with")]
    fn attempts_at_once_get_no_more_than_one_by_one_and_right_ones_get_theirs_back() {
        let (mut guesses, now) = (Guesses::default(), Instant::now());
        // A pool that begins at once is let in.
        for _ in 0..1000 {
            assert_eq!(guesses.begin("ada", at(7), now), Turn::After(Duration::ZERO, false));
        }
        guesses.end("ada", at(7), now, false, false);
        let turns: Vec<Turn> = (0..100).map(|_| guesses.begin("ada", at(7), now)).collect();
        let waits = |turn: &Turn| matches!(turn, Turn::After(wait, true) if !wait.is_zero());
        let at_once = turns.iter().filter(|turn| **turn == Turn::After(Duration::ZERO, true));
        assert_eq!((at_once.count(), turns.iter().filter(|t| waits(t)).count()), (9, 2));
        for _ in 0..11 {
            guesses.end("ada", at(7), now, true, true);
        }
        assert_eq!(guesses.begin("ada", at(7), now), Turn::After(Duration::ZERO, true));
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a time to begin with")]
    fn who_guesses_for_many_users_is_remembered_for_each() {
        let (mut guesses, now) = (Guesses::default(), Instant::now());
        for _ in 0..MOST {
            guesses.end("ada", at(7), now, false, false);
        }
        for user in 0..2 * BUCKETS_MAX {
            guesses.end(&user.to_string(), at(7), now, false, false);
        }
        assert!(guesses.full_at.len() <= BUCKETS_MAX);
        assert!(
            matches!(guesses.begin("ada", at(7), now), Turn::After(wait, true) if wait > Duration::ZERO)
        );
    }
}
