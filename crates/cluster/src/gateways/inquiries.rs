//! Questions to the gateways of all processes: which sessions are there, cancel this one.
//!
//! ```text
//!   b                           a, with the conductor               c, d
//!   inquire ──────────────────▶ question 3 ── news ───────────────▶ c, d
//!                                          ◀─ poll: reply to 3 ──── c
//!                                             a second is over      d stands still
//!            ◀── a's and c's replies, and that d gave none ──
//! ```
//!
//! A question is an item of the [news](super::news), and a reply comes with the next poll of the
//! gateway. So questions need no connection to a gateway, and a gateway answers them in the order
//! of the news. A gateway that gives no reply within [`REPLY_NS`] delays the others by that time,
//! and is named in the answer.

use super::messages::Seat;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The longest wait for the replies of gateways, in nanoseconds.
pub(super) const REPLY_NS: u64 = 1_000_000_000;

/// A gateway's reply to a question.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Replied {
    /// The name of its process; empty without one.
    pub name: String,
    /// `None` if it gave none in time.
    pub reply: Option<Vec<u8>>,
}

/// The questions that wait for replies.
#[derive(Default)]
pub(super) struct Inquiries {
    last: u64,
    open: BTreeMap<u64, BTreeMap<Seat, Replied>>,
}

impl Inquiries {
    /// A question to the gateways with these seats and names. Returns its number.
    pub(super) fn open(&mut self, asked: impl Iterator<Item = (Seat, String)>) -> u64 {
        self.last += 1;
        let asked = asked.map(|(seat, name)| (seat, Replied { name, reply: None }));
        self.open.insert(self.last, asked.collect());
        self.last
    }

    /// A gateway has replied. No effect if the question is not open any more.
    pub(super) fn reply(&mut self, seat: Seat, number: u64, reply: Vec<u8>) {
        let of = self.open.get_mut(&number).and_then(|asked| asked.get_mut(&seat));
        of.into_iter().for_each(|replied| replied.reply = Some(reply.clone()));
    }

    /// True if no reply of a gateway for which `is_there` holds is missing.
    pub(super) fn is_complete(&self, number: u64, is_there: impl Fn(Seat) -> bool) -> bool {
        let asked = self.open.get(&number);
        let is_missing =
            |(seat, replied): (&Seat, &Replied)| replied.reply.is_none() && is_there(*seat);
        !asked.is_some_and(|asked| asked.iter().any(is_missing))
    }

    /// Ends a question. Returns the replies so far.
    pub(super) fn close(&mut self, number: u64) -> Vec<Replied> {
        self.open.remove(&number).unwrap_or_default().into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_complete_once_all_that_are_there_have_replied() {
        let mut all = Inquiries::default();
        let names = ["b", "c"].map(str::to_owned);
        let number = all.open((1..).zip(names));
        assert!(!all.is_complete(number, |_| true));
        all.reply(1, number, vec![7]);
        all.reply(5, number, vec![8]);
        all.reply(2, number + 1, vec![9]);
        assert!(!all.is_complete(number, |_| true) && all.is_complete(number, |seat| seat != 2));
        let [b, c] = &all.close(number)[..] else { panic!("two were asked") };
        assert_eq!((&*b.name, &b.reply), ("b", &Some(vec![7])));
        assert_eq!((&*c.name, &c.reply), ("c", &None));
        all.reply(2, number, vec![9]);
        assert!(all.close(number).is_empty());
    }
}
