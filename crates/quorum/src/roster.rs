//! Membership: which folders make up the group, so that a member that has lost its folder never
//! votes as if it remembered.
//!
//! # The problem
//!
//! A majority guarantees something only if its members remember. A node whose folder was emptied
//! has forgotten its votes and the entries that it has acknowledged. If it came back under its old
//! name, two members without an acknowledged record could elect a leader.
//!
//! # Folders have numbers
//!
//! A folder draws a number at random when it is created. The **roster** is the list of the numbers
//! of all members, and each member stores it before it takes part in anything. Every message names
//! the roster, and a message of another roster is ignored.
//!
//! ```text
//!   a  draws 7 ──meet 7──▶ b, c            a is the first in the list, and has met all: the roster
//!   b  draws 4 ──meet 4──▶ a, c            is a7 b4 c9. a stores it, and then tells the others
//!   b  asks a, which says: a7 b4 c9        b is in it, and adopts it
//!   …  b's folder is emptied: b draws 5
//!   b  ──meet 5──▶ a, c                    both say: the roster is a7 b4 c9. b is not in it: refused
//! ```
//!
//! * The **founder** is the first member of the list, and no other. It founds a roster once all
//!   others have answered it and none has a roster. An answer names the number of the folder that
//!   has asked, so a late envelope to an earlier folder counts for nothing.
//! * The other members **adopt** a roster that their own number is in, from any member.
//!
//! **Why two rosters never both decide.** A folder of the founder founds one roster in its life.
//! Let another member lose its folder: the new number is in that roster only if the founder has not
//! founded before, and then nothing was decided. Let the founder lose its folder: its new folder
//! founds another roster only if every other member has answered *it* without having one. Then no
//! other member had adopted the first roster when the first folder was lost, so nothing was decided
//! by it. Members that adopt it later, from a late envelope, are missing in the second one. Each
//! member stores one roster for ever, so at most one of the two has a majority.
//!
//! # What was left out
//!
//! Changes of the roster. A node that has lost its folder is refused, and says so; the others go
//! on. It comes back with a copy of its folder that is not older than its last run. A folder that
//! was restored from an older copy is not detected.

use std::collections::BTreeMap;

/// The place of the founder in the list.
const FOUNDER: usize = 0;

/// The words of a member about itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Said {
    /// The number of its folder.
    pub number: u128,
    /// The names of all members, in their order.
    pub names: Vec<String>,
    /// The roster that it has stored, if any: the number of each member.
    pub roster: Option<Vec<u128>>,
    /// The number of the listener's folder, as far as the speaker has heard of it.
    pub listener: Option<u128>,
}

/// The state of this member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It waits for these others: the founder for all that have not answered yet, and all others
    /// for the founder.
    Waits(Vec<String>),
    /// It takes part.
    Member,
    /// It must not take part, for this reason.
    Refused(String),
}

/// The membership of one process. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Membership {
    names: Vec<String>,
    own: usize,
    number: u128,
    roster: Option<Vec<u128>>,
    /// The last number that each of the others has said.
    heard: BTreeMap<usize, u128>,
    /// Numbers of the others without a roster that have answered this folder in this run.
    met: BTreeMap<usize, u128>,
    refused: Option<String>,
}

impl Membership {
    /// The member at place `own` of the list, whose folder has this number and maybe a roster.
    ///
    /// # Errors
    /// A message, if the roster is that of other members.
    pub fn new(
        names: Vec<String>,
        own: usize,
        number: u128,
        roster: Option<Vec<(String, u128)>>,
    ) -> Result<Membership, String> {
        if let Some(stored) = &roster {
            let before: Vec<&str> = stored.iter().map(|(name, _)| &**name).collect();
            if before != names {
                return Err(format!(
                    "the logs are at the nodes {}, and the list has {}; nodes with logs cannot be added, removed or \
                     renamed",
                    before.join(", "),
                    names.join(", ")
                ));
            }
        }
        let roster = roster.map(|stored| stored.into_iter().map(|(_, number)| number).collect());
        let (heard, met) = (BTreeMap::new(), BTreeMap::new());
        Ok(Membership { names, own, number, roster, heard, met, refused: None })
    }

    /// The names of all members.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// This member's state.
    pub fn standing(&self) -> Standing {
        if let Some(why) = &self.refused {
            return Standing::Refused(why.clone());
        }
        if self.roster.is_some() {
            return Standing::Member;
        }
        if self.own != FOUNDER {
            return Standing::Waits(vec![self.names[FOUNDER].clone()]);
        }
        let others = (0..self.names.len()).filter(|at| *at != self.own);
        let missing = others.filter(|at| !self.met.contains_key(at));
        Standing::Waits(missing.map(|at| self.names[at].clone()).collect())
    }

    /// The number by which messages name the roster; `None` before there is one.
    pub fn roster(&self) -> Option<u128> {
        // The numbers are random, so different rosters differ in this as well.
        self.roster.as_ref().map(|roster| roster.iter().fold(0, |all, number| all ^ number))
    }

    /// This member's words about itself to another member.
    pub fn says(&self, to: usize) -> Said {
        let (number, names, roster) = (self.number, self.names.clone(), self.roster.clone());
        Said { number, names, roster, listener: self.heard.get(&to).copied() }
    }

    /// The number of this member's folder.
    pub fn number(&self) -> u128 {
        self.number
    }

    /// The stored roster, with the names.
    pub fn stored(&self) -> Option<Vec<(String, u128)>> {
        let roster = self.roster.as_ref()?;
        Some(self.names.iter().cloned().zip(roster.iter().copied()).collect())
    }

    /// Takes the words of another member. Returns a new roster, which must be durable before this
    /// member takes part.
    pub fn hears(&mut self, from: usize, said: Said) -> Option<Vec<(String, u128)>> {
        if said.names != self.names {
            self.refused = Some(format!(
                "`{}` has the nodes {} in its list, and `{}` has {}; give all processes the same list",
                self.names[from],
                said.names.join(", "),
                self.names[self.own],
                self.names.join(", ")
            ));
            return None;
        }
        self.heard.insert(from, said.number);
        match (&self.roster, &said.roster) {
            (Some(_), _) => {
                self.refused = None;
                None
            }
            (None, Some(roster)) if roster.get(self.own) == Some(&self.number) => {
                Some(self.store(roster.clone()))
            }
            (None, Some(_)) => {
                let own = &self.names[self.own];
                self.refused = Some(format!(
                    "`{own}` begins without the logs that it has kept for the others, and must not vote as if it knew \
                     them: give it the folder that it had"
                ));
                None
            }
            (None, None) if self.own != FOUNDER => None,
            // It was meant for another folder, or for none: it may be late.
            (None, None) if said.listener != Some(self.number) => None,
            (None, None) => {
                self.met.insert(from, said.number);
                if self.met.len() + 1 < self.names.len() {
                    return None;
                }
                let number = |at: usize| self.met.get(&at).copied().unwrap_or(self.number);
                Some(self.store((0..self.names.len()).map(number).collect()))
            }
        }
    }

    fn store(&mut self, roster: Vec<u128>) -> Vec<(String, u128)> {
        self.refused = None;
        self.roster = Some(roster);
        self.stored().expect("it was just stored")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        ["a", "b", "c"].map(str::to_owned).to_vec()
    }

    fn member(own: usize, number: u128) -> Membership {
        Membership::new(names(), own, number, None).expect("a list")
    }

    /// `to` asks, and `from` answers.
    fn meet(from: &mut Membership, to: &mut Membership) {
        from.hears(to.own, to.says(from.own));
        to.hears(from.own, from.says(to.own));
    }

    #[test]
    fn the_founder_waits_for_all_and_the_others_adopt_its_roster() {
        let (mut a, mut b, mut c) = (member(0, 7), member(1, 4), member(2, 9));
        meet(&mut c, &mut b);
        assert_eq!(b.standing(), Standing::Waits(vec!["a".to_owned()]));
        meet(&mut b, &mut a);
        assert_eq!(a.standing(), Standing::Waits(vec!["c".to_owned()]));
        meet(&mut c, &mut a);
        assert_eq!((a.standing(), a.roster()), (Standing::Member, Some(7 ^ 4 ^ 9)));
        meet(&mut a, &mut c);
        meet(&mut c, &mut b);
        assert_eq!((c.standing(), c.roster()), (Standing::Member, a.roster()));
        assert_eq!((b.standing(), b.roster()), (Standing::Member, a.roster()));
    }

    #[test]
    fn a_member_without_its_folder_is_refused_and_its_folder_is_accepted_again() {
        let (mut a, mut b, mut c) = (member(0, 7), member(1, 4), member(2, 9));
        meet(&mut b, &mut a);
        meet(&mut c, &mut a);
        meet(&mut a, &mut b);
        let mut emptied = member(1, 5);
        meet(&mut c, &mut emptied);
        meet(&mut a, &mut emptied);
        let Standing::Refused(why) = emptied.standing() else { panic!("it takes part") };
        assert!(why.starts_with("`b` begins without the logs"), "{why}");
        meet(&mut a, &mut b);
        assert_eq!(b.standing(), Standing::Member);
    }

    /// Both were found by seeds of the simulation: a and c have a roster, and may have decided
    /// together, and b has met a before that.
    #[test]
    fn words_from_before_there_was_a_roster_found_nothing() {
        let (mut a, mut b, mut c) = (member(0, 7), member(1, 4), member(2, 9));
        a.hears(2, c.says(0));
        let late = a.says(2);
        meet(&mut a, &mut b);
        meet(&mut b, &mut a);
        meet(&mut c, &mut a);
        meet(&mut a, &mut c);
        assert_eq!((a.standing(), c.standing()), (Standing::Member, Standing::Member));
        let mut emptied = member(2, 5);
        emptied.hears(0, late);
        meet(&mut emptied, &mut b);
        meet(&mut b, &mut emptied);
        assert_eq!((b.roster(), emptied.roster()), (None, None));
        meet(&mut a, &mut emptied);
        assert!(matches!(emptied.standing(), Standing::Refused(_)));
        // b adopts the roster of a, although it has met the new folder of c.
        meet(&mut a, &mut b);
        assert_eq!(b.roster(), a.roster());
    }

    #[test]
    fn a_founder_that_has_lost_its_folder_counts_only_answers_to_its_new_one() {
        let (mut a, mut b, mut c) = (member(0, 7), member(1, 4), member(2, 9));
        meet(&mut b, &mut a);
        let late = c.says(0);
        meet(&mut c, &mut a);
        meet(&mut a, &mut c);
        let mut emptied = member(0, 5);
        meet(&mut b, &mut emptied);
        emptied.hears(2, late);
        assert_eq!(emptied.standing(), Standing::Waits(vec!["c".to_owned()]));
        meet(&mut c, &mut emptied);
        assert!(matches!(emptied.standing(), Standing::Refused(_)));
    }

    #[test]
    fn another_list_is_refused_with_both_lists() {
        let mut a = member(0, 7);
        let names_of_b = vec!["b".to_owned()];
        let said = Said { number: 1, names: names_of_b, roster: None, listener: None };
        a.hears(1, said);
        let Standing::Refused(why) = a.standing() else { panic!("it takes part") };
        assert_eq!(
            why,
            "`b` has the nodes b in its list, and `a` has a, b, c; give all processes the same list"
        );
        let stored = vec![("a".to_owned(), 7), ("d".to_owned(), 8)];
        assert!(Membership::new(names(), 0, 7, Some(stored)).is_err());
    }
}
