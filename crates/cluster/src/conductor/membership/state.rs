//! The state of each site as the conductor knows it, apart from where its process is.
//!
//! ```text
//!              give_up                    replace
//!     Up  ─────────────────▶  Away  ─────────────────▶  Replaced
//!      ▲   declared dead         others have taken         │
//!      │                         over its masterships      │
//!      └────────────────────── admit ◀─────────────────────┘
//!            readmitted: it has dropped what the design does not give it
//! ```
//!
//! Beside this state, one of two tasks may be under way with a site: a takeover or a readmission.
//! Each undoes what the other does, so one excludes the other ([`Members::begin`]). A task may also
//! be about to tell a site whether to accept messages of another site. A late message would undo a
//! newer one, so takeovers and readmissions of that other site wait ([`Members::say_of`]).
//!
//! This is a value without time, I/O or threads.

use isomer_design::{SiteId, SiteSet, Time};
use isomer_site::TxnId;
use std::collections::BTreeMap;

/// The task that is under way with a site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Towards {
    /// Others take over from it.
    Gone,
    /// It is readmitted.
    Back,
}

/// The outcome of a takeover from a site, kept until the site is readmitted.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Replaced {
    /// The number of its partitions that others have taken over.
    pub(super) moved: usize,
    /// The transactions that it had decided to commit, if its tail was found. A site that was down
    /// at the same time may be in doubt of one; all other transactions that the replaced site had
    /// coordinated were aborted.
    pub(super) decided: Option<BTreeMap<TxnId, Time>>,
}

/// See the [module documentation](self).
#[derive(Clone, Default, PartialEq, Eq, Debug)]
enum Standing {
    /// It serves, or restarts by itself.
    #[default]
    Up,
    /// It was declared dead: what it holds is unknown until it is readmitted.
    Away,
    /// Others have taken over from it.
    Replaced(Replaced),
}

/// One site.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Member {
    standing: Standing,
    towards: Option<Towards>,
    /// The number of tasks that are about to tell a site whether to accept messages of this one.
    said_of: usize,
    /// A takeover from another site has ended without an answer of this one. Its readmission must
    /// begin after that.
    is_untold: bool,
}

/// All sites. A site without an entry is up.
#[derive(Default, Debug)]
pub(super) struct Members(BTreeMap<SiteId, Member>);

impl Members {
    /// Declares a site dead. A site that is replaced stays so.
    pub(super) fn give_up(&mut self, site: SiteId) {
        let member = self.0.entry(site).or_default();
        if member.standing == Standing::Up {
            member.standing = Standing::Away;
        }
    }

    /// Records that others have taken over `moved` partitions from a site, and the transactions
    /// that it had decided. The `untold` sites do not know that yet.
    pub(super) fn replace(
        &mut self,
        site: SiteId,
        moved: usize,
        decided: Option<BTreeMap<TxnId, Time>>,
        untold: &SiteSet,
    ) {
        for other in untold.iter() {
            self.0.entry(other).or_default().is_untold = true;
        }
        let member = self.0.entry(site).or_default();
        if !matches!(member.standing, Standing::Replaced(_)) {
            member.standing = Standing::Replaced(Replaced::default());
        }
        if let Standing::Replaced(all) = &mut member.standing {
            all.moved += moved;
            if let Some(decided) = decided {
                all.decided.get_or_insert_default().extend(decided);
            }
        }
    }

    /// Records that a site is readmitted; false if its readmission has to begin again, because a
    /// takeover from another site has ended without its answer.
    pub(super) fn admit(&mut self, site: SiteId) -> bool {
        let member = self.0.entry(site).or_default();
        if !member.is_untold {
            member.standing = Standing::Up;
        }
        !member.is_untold
    }

    /// A site is not of the database any more.
    pub(super) fn forget(&mut self, site: SiteId) {
        self.0.entry(site).or_default().standing = Standing::Up;
    }

    /// Begins a task with sites; false while one is under way with any of them.
    pub(super) fn begin(&mut self, sites: &SiteSet, towards: Towards) -> bool {
        if sites.iter().any(|site| self.towards(site).is_some()) {
            return false;
        }
        for site in sites.iter() {
            let member = self.0.entry(site).or_default();
            (member.towards, member.is_untold) = (Some(towards), false);
        }
        true
    }

    /// Ends the task with sites.
    pub(super) fn end(&mut self, sites: &SiteSet) {
        for site in sites.iter() {
            self.0.entry(site).or_default().towards = None;
        }
    }

    /// A task is about to tell a site whether to accept messages of `other`.
    pub(super) fn say_of(&mut self, other: SiteId) {
        self.0.entry(other).or_default().said_of += 1;
    }

    /// The task has told the site.
    pub(super) fn said(&mut self, other: SiteId) {
        self.0.entry(other).or_default().said_of -= 1;
    }

    /// True while a task is about to tell a site whether to accept messages of `other`.
    pub(super) fn is_said_of(&self, other: SiteId) -> bool {
        self.0.get(&other).is_some_and(|member| member.said_of > 0)
    }

    /// True from when a site is declared dead until it is readmitted.
    pub(super) fn is_passed_by(&self, site: SiteId) -> bool {
        self.0.get(&site).is_some_and(|member| member.standing != Standing::Up)
    }

    /// True from the start of a takeover from a site until the site is readmitted, and during its
    /// readmission.
    pub(super) fn is_given_up(&self, site: SiteId) -> bool {
        self.is_passed_by(site) || self.towards(site).is_some()
    }

    /// True if any site is being readmitted.
    pub(super) fn is_any_returning(&self) -> bool {
        self.0.values().any(|member| member.towards == Some(Towards::Back))
    }

    /// True if any site is declared dead.
    pub(super) fn has_given_up(&self) -> bool {
        self.0.values().any(|member| member.standing != Standing::Up)
    }

    /// A site that is declared dead, and from which no site has taken over: what it has released
    /// may arrive only after it restarts.
    pub(super) fn waited_for(&self) -> Option<SiteId> {
        let mut members = self.0.iter();
        members.find(|(_, member)| member.standing == Standing::Away).map(|(site, _)| *site)
    }

    /// The outcome of the takeover from a site, if others have taken over from it.
    pub(super) fn replaced(&self, site: SiteId) -> Option<&Replaced> {
        match &self.0.get(&site)?.standing {
            Standing::Replaced(replaced) => Some(replaced),
            Standing::Up | Standing::Away => None,
        }
    }

    /// True while others take over from a site.
    pub(super) fn is_taken_over(&self, site: SiteId) -> bool {
        self.towards(site) == Some(Towards::Gone)
    }

    fn towards(&self, site: SiteId) -> Option<Towards> {
        self.0.get(&site)?.towards
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S1: SiteId = SiteId(1);

    #[test]
    fn a_site_is_given_up_replaced_and_readmitted() {
        let mut members = Members::default();
        assert!(!members.is_given_up(S1) && !members.has_given_up());
        members.give_up(S1);
        assert_eq!((members.waited_for(), members.replaced(S1)), (Some(S1), None));
        let txn = TxnId { coordinator: S1, incarnation: 1, number: 7 };
        let none = SiteSet::EMPTY;
        members.replace(S1, 2, None, &none);
        members.replace(S1, 3, Some(BTreeMap::from([(txn, Time(5))])), &none);
        members.give_up(S1);
        let replaced = members.replaced(S1).expect("it stays replaced");
        assert_eq!(replaced.moved, 5);
        assert_eq!(replaced.decided, Some(BTreeMap::from([(txn, Time(5))])));
        assert!(members.waited_for().is_none() && members.has_given_up());
        assert!(members.admit(S1));
        assert!(!members.is_given_up(S1) && members.replaced(S1).is_none());
    }

    #[test]
    fn a_site_that_a_takeover_has_not_told_begins_its_readmission_again() {
        let mut members = Members::default();
        let (of_s1, s2) = (SiteSet::of(S1), SiteId(2));
        members.replace(S1, 0, None, &SiteSet::EMPTY);
        assert!(members.begin(&of_s1, Towards::Back));
        members.replace(s2, 1, None, &of_s1);
        assert!(!members.admit(S1) && members.replaced(S1).is_some());
        members.end(&of_s1);
        assert!(members.begin(&of_s1, Towards::Back) && members.admit(S1));
    }

    #[test]
    fn a_takeover_and_a_readmission_exclude_each_other() {
        let mut members = Members::default();
        let both: SiteSet = [S1, SiteId(2)].into_iter().collect();
        assert!(members.begin(&both, Towards::Gone) && members.is_taken_over(S1));
        assert!(!members.begin(&SiteSet::of(S1), Towards::Back), "a takeover is under way");
        assert!(members.is_given_up(S1) && !members.is_passed_by(S1));
        members.end(&both);
        assert!(members.begin(&SiteSet::of(S1), Towards::Back) && !members.is_taken_over(S1));
    }

    #[test]
    fn each_task_that_says_something_of_a_site_is_waited_for() {
        let mut members = Members::default();
        members.say_of(S1);
        members.say_of(S1);
        members.said(S1);
        assert!(members.is_said_of(S1));
        members.said(S1);
        assert!(!members.is_said_of(S1));
    }
}
