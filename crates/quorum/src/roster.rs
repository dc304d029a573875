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
//!   a  draws 7 ──meet 7──▶ b, c            a has met all: the roster is a7 b4 c9, in its journal
//!   b  draws 4 ──meet 4──▶ a, c            b asks, and a says: the roster is a7 b4 c9; b adopts it
//!   …  b's folder is emptied: b draws 5
//!   b  ──meet 5──▶ a, c                    both say: the roster is a7 b4 c9. b is not in it: refused
//! ```
//!
//! * A member without a roster **adopts** the roster of any other member, if its own number is in
//!   it.
//! * It **founds** one if all others have answered in this run, and none has a roster.
//!
//! **Why two rosters never both decide.** Let `b` lose its folder before the others have met it.
//! Its next incarnation founds another roster only if each other member has answered it without
//! having one. Then none of them has counted a vote of the first incarnation. Each member stores
//! one roster for ever, so at most one of the two has a majority.
//!
//! # What was left out
//!
//! Changes of the roster. A node that has lost its folder is refused, and says so; the others go
//! on. It comes back with a copy of its folder that is not older than its last run. A folder that
//! was restored from an older copy is not detected.

use std::collections::BTreeMap;

/// The words of a member about itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Said {
    /// The number of its folder.
    pub number: u128,
    /// The names of all members, in their order.
    pub names: Vec<String>,
    /// The roster that it has stored, if any: the number of each member.
    pub roster: Option<Vec<u128>>,
}

/// The state of this member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It waits for these others, which have not answered yet.
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
    /// Numbers of the others without a roster that have answered in this run.
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
        Ok(Membership { names, own, number, roster, met: BTreeMap::new(), refused: None })
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
        let others = (0..self.names.len()).filter(|at| *at != self.own);
        let missing = others.filter(|at| !self.met.contains_key(at));
        Standing::Waits(missing.map(|at| self.names[at].clone()).collect())
    }

    /// The number by which messages name the roster; `None` before there is one.
    pub fn roster(&self) -> Option<u128> {
        // The numbers are random, so different rosters differ in this as well.
        self.roster.as_ref().map(|roster| roster.iter().fold(0, |all, number| all ^ number))
    }

    /// This member's words about itself.
    pub fn says(&self) -> Said {
        let (number, names, roster) = (self.number, self.names.clone(), self.roster.clone());
        Said { number, names, roster }
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
        self.roster = Some(roster.clone());
        self.names.iter().cloned().zip(roster).collect()
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

    fn meet(from: &Membership, to: &mut Membership) {
        to.hears(from.own, from.says());
    }

    #[test]
    fn members_without_a_roster_found_one_and_later_ones_adopt_it() {
        let (mut a, b, mut c) = (member(0, 7), member(1, 4), member(2, 9));
        meet(&b, &mut a);
        assert_eq!(a.standing(), Standing::Waits(vec!["c".to_owned()]));
        meet(&c, &mut a);
        assert_eq!((a.standing(), a.roster()), (Standing::Member, Some(7 ^ 4 ^ 9)));
        meet(&a, &mut c);
        assert_eq!((c.standing(), c.roster()), (Standing::Member, a.roster()));
    }

    #[test]
    fn a_member_without_its_folder_is_refused_and_its_folder_is_accepted_again() {
        let (mut a, mut b, c) = (member(0, 7), member(1, 4), member(2, 9));
        meet(&b, &mut a);
        meet(&c, &mut a);
        meet(&a, &mut b);
        let mut emptied = member(1, 5);
        meet(&c, &mut emptied);
        meet(&a, &mut emptied);
        let Standing::Refused(why) = emptied.standing() else { panic!("it takes part") };
        assert!(why.starts_with("`b` begins without the logs"), "{why}");
        meet(&a, &mut b);
        assert_eq!(b.standing(), Standing::Member);
    }

    #[test]
    fn a_member_without_its_folder_founds_nothing_while_another_has_a_roster() {
        // b has answered c before it lost its folder; a has founded a roster with that answer.
        let (mut a, b, mut c) = (member(0, 7), member(1, 4), member(2, 9));
        meet(&b, &mut c);
        meet(&b, &mut a);
        meet(&c, &mut a);
        let mut emptied = member(1, 5);
        meet(&emptied.clone(), &mut c);
        meet(&c, &mut emptied);
        meet(&a, &mut emptied);
        assert!(matches!(emptied.standing(), Standing::Refused(_)));
        // c adopts the roster of a, and the first folder of b is in it.
        meet(&a, &mut c);
        assert_eq!(c.roster(), a.roster());
    }

    #[test]
    fn another_list_is_refused_with_both_lists() {
        let mut a = member(0, 7);
        let said = Said { number: 1, names: vec!["b".to_owned()], roster: None };
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
