//! Sites that stay down, and the ends of their logs as their successors have cut them.
//!
//! Frames that a site had logged after that end are void: no client was told of them, and the site
//! discards them when it rejoins. The reader of the logs for the history must skip them.

use super::World;
use isomer_design::SiteId;
use isomer_log::Position;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// A part of a site's log that is not part of the history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Void {
    /// The site.
    pub site: SiteId,
    /// From this position on.
    pub from: Position,
    /// Up to this one.
    pub until: Position,
}

/// Sites that were declared dead, and the void parts of logs.
#[derive(Default)]
pub(super) struct Gone {
    given_up: RefCell<BTreeSet<SiteId>>,
    void: RefCell<Vec<Void>>,
}

impl World {
    /// Declares a site dead.
    pub fn give_up(&self, site: SiteId) {
        self.gone.given_up.borrow_mut().insert(site);
    }

    pub(crate) fn is_given_up(&self, site: SiteId) -> bool {
        self.gone.given_up.borrow().contains(&site)
    }

    /// Records that other sites have taken over from a site, whose log ends at `end`.
    pub(super) fn set_taken_over(&self, site: SiteId, end: Option<Position>) {
        if let Some(from) = end {
            self.gone.void.borrow_mut().push(Void { site, from, until: Position::MAX });
        }
    }

    /// A site is up again.
    pub fn wait_for_again(&self, site: SiteId) {
        self.gone.given_up.borrow_mut().remove(&site);
    }

    /// A site has discarded the partitions that others have taken over.
    pub fn set_readmitted(&self, site: SiteId) {
        let end = self.log(site).map_or(0, |log| isomer_log::Log::end(&*log));
        let mut void = self.gone.void.borrow_mut();
        let open = |void: &&mut Void| void.site == site && void.until == Position::MAX;
        void.iter_mut().filter(open).for_each(|void| void.until = end);
    }

    /// All parts of logs that are not part of the history.
    pub fn void(&self) -> Vec<Void> {
        self.gone.void.borrow().clone()
    }
}
