//! Readmission of sites of other processes that have restarted.
//!
//! The design has changed while the site was down. If its log had failed, replicas were promoted in
//! its place. Replicas that it had were removed, and tables were dropped. The site must discard all
//! that its log still has of them, or it would block the next copy that is placed there. The site
//! holds everything that the design still gives it: a site loses nothing without a step that it
//! answers, or a later term.
//!
//! ```text
//!   s1 restarts ─▶ admit      it learns which sites are up; unless replaced, others accept it
//!                  acquire    masterships that were released to it while it was down
//!                  discard    partitions that the design does not give it
//!                  reconcile  its part of refused changes: borders, releases, followers
//!                  drop       copies of which it has only a part
//!                  rejoin     all sites accept its messages, and its partitions may change again
//! ```
//!
//! **A site that has lost its files** rejoins empty, once others have taken over all that it had
//! (`may_be_empty`). Before that its process is refused. It then gets new copies like any other
//! site.
//!
//! **Its log is the design.** A change ended as refused, because the conductor did not know what
//! the site had done of it. Others may have seen what is in the site's log. So the conductor does
//! not undo it, but enters it in the design.

use super::lost::note_found;
use super::state::Towards;
use super::together::work_on_all;
use super::unheard::hear;
use super::{describe, places, ranges};
use crate::conductor::{Conductor, Reservation, backups, drained, protocol};
use crate::transport::Transport;
use futures_util::future::{Either, join_all, select};
use isomer_design::{Change, Design, Key, KeyRange, Placement, SiteId, SiteSet, TableId};
use isomer_log::LogError;
use isomer_site::{Holding, Refusal, Step};
use std::collections::BTreeSet;
use std::pin::pin;

/// Holdings that wait for longer than this number of retries may wait for those behind them.
const RETRIES_UNTIL_MORE: usize = 32;

/// The readmission of one site. See the [module documentation](self).
pub(super) struct Readmission<'c, T> {
    pub(super) conductor: &'c Conductor<T>,
    pub(super) site: SiteId,
}

/// A holding, and why it was not readmitted.
type Refused = (Holding, Refusal);

impl<'c, T: Transport> Readmission<'c, T> {
    pub(super) fn of(conductor: &'c Conductor<T>, site: SiteId) -> Readmission<'c, T> {
        Readmission { conductor, site }
    }

    /// Makes the site drop what the design does not give it any more, and makes it a member again.
    ///
    /// # Errors
    /// [`Refusal`], of the first step that is refused.
    pub(super) async fn run(&self) -> Result<(), Refusal> {
        let site = self.site;
        if !self.conductor.design().sites().contains(site) {
            return Ok(());
        }
        let Some(transit) = self.conductor.membership.begin(&SiteSet::of(site), Towards::Back)
        else {
            // The site has restarted once more. The task that readmits it may wait for sites that
            // this run of it is fenced from.
            self.tell_whom_to_hear(site).await?;
            return Err(Refusal::Unavailable(site));
        };
        self.conductor.nothing_said_of(site).await;
        hear(self.conductor, site).await?;
        let held = self.meet(|_| true).await?;
        self.forget_dropped(&held).await?;
        self.readmit_each(held).await?;
        self.let_go_of_lost(site).await?;
        self.conductor.transport.step(site, Step::Admit(site)).await?;
        if !self.conductor.membership.admit(site) {
            return Err(Refusal::Unavailable(site));
        }
        note_found(self.conductor, site);
        // After the admission, because a site that is only now restarting asks afterwards which
        // sites to accept.
        self.have_heard(site).await?;
        drop(transit);
        self.acquire_released(&describe(&self.conductor.transport, site).await?).await?;
        self.let_go_of_unplaced(site).await?;
        drained::forget(self.conductor, site);
        // No copies were placed there until now.
        backups::restore_at(self.conductor, site);
        Ok(())
    }

    /// Readmits holdings. Concurrently: a partition to reconcile may be locked by a task that waits
    /// for another partition to reconcile. For the same reason, refused holdings are tried again
    /// while others are under way. Once all others have ended, the readmission has to begin again.
    async fn readmit_each(&self, held: Vec<Holding>) -> Result<(), Refusal> {
        let readmit = async |holding: &Holding| self.readmit_holding(holding).await;
        let again = async |refused| self.again(refused).await;
        let pause = async || {
            for _ in 0..RETRIES_UNTIL_MORE {
                self.conductor.transport.retry(self.site).await;
            }
        };
        work_on_all(held, readmit, again, pause).await
    }

    /// The holdings in place of refused ones, as the site has them now. Meets the site again,
    /// because it may have restarted.
    async fn again(&self, refused: Vec<Refused>) -> Result<Vec<Holding>, Vec<Refused>> {
        self.conductor.transport.retry(self.site).await;
        let is_refused = |now: &Holding| {
            let is_part = |of: &Holding| of.table == now.table && of.range.overlaps(&now.range);
            refused.iter().any(|(of, _)| is_part(of))
        };
        self.meet(is_refused).await.map_err(|_| refused)
    }

    /// True if the site is down again, or the database is closing.
    fn is_over(&self) -> bool {
        let (site, transport) = (self.site, &self.conductor.transport);
        transport.failure(site).is_some()
            || transport.is_closing()
            || self.conductor.check_site(site).is_err()
    }

    /// Makes the site forget tables that were dropped while it was down. A table that is being
    /// created is not in the design yet, so these wait for the end of each definition.
    async fn forget_dropped(&self, held: &[Holding]) -> Result<(), Refusal> {
        let is_unknown = |table: &TableId| self.conductor.design().table(*table).is_err();
        let mut tables: BTreeSet<TableId> = held.iter().map(|holding| holding.table).collect();
        tables.retain(is_unknown);
        if tables.is_empty() {
            return Ok(());
        }
        let _definitions = self.conductor.reserve_definitions().await;
        for table in tables.into_iter().filter(is_unknown) {
            self.conductor.transport.step(self.site, Step::Forget(table)).await?;
        }
        Ok(())
    }

    /// Discards what the design does not give the site, and reconciles the rest with the design.
    async fn readmit_holding(&self, holding: &Holding) -> Result<(), Refusal> {
        let site = self.site;
        let (table, range) = (holding.table, holding.range.clone());
        if self.conductor.design().table(table).is_err() {
            // It has been dropped by now.
            return self.conductor.transport.step(site, Step::Forget(table)).await.map(drop);
        }
        // Nothing is reserved yet, because a task that has reserved the partition may wait for the
        // site.
        let is_well = || {
            self.is_placed(site, table, &range)
                && self.is_as_designed(site, holding)
                && !self.is_torn(site, holding)
        };
        if is_well() || self.is_kept(site, holding) {
            return Ok(());
        }
        self.unfollow_unplaced(holding).await?;
        let is_to_go = || !self.is_placed(site, table, &range) || self.is_torn(site, holding);
        let waiting = match is_to_go() {
            true => self.waiting_for(site, holding).await?,
            false => Vec::new(),
        };
        // Once reserved, changes that were under way there have ended.
        let _reserved = self.reserve_with(holding, &waiting).await?;
        if is_to_go() {
            return match self.mastered_within(site, table, &range).is_empty() {
                true => self.let_go_with(site, holding, &waiting).await,
                // A part was released to the site since. It is acquired first, while nothing is
                // reserved.
                false => Err(Refusal::Unavailable(site)),
            };
        }
        if !self.is_as_designed(site, holding) {
            let now = describe(&self.conductor.transport, site).await?;
            for holding in now.iter().filter(|h| h.table == table && h.range.overlaps(&range)) {
                self.end_half_made(site, holding).await?;
            }
        }
        Ok(())
    }

    /// Ends the following of a partition by sites without a copy, by the design and the changes
    /// under way. Nothing is reserved, because a transaction that has reserved the partition may
    /// wait for their acknowledgements. No such change begins before the site is readmitted.
    async fn unfollow_unplaced(&self, holding: &Holding) -> Result<(), Refusal> {
        let Holding { table, range, followers, .. } = holding;
        if holding.source.is_some() || self.master_of(*table, &range.start) != Some(self.site) {
            return Ok(());
        }
        let adds = |follower: SiteId, change: &Change| match change {
            Change::AddReplica { table: of, start, site } => {
                of == table && range.contains(start) && *site == follower
            }
            Change::Remaster { table: of, start, .. } => of == table && range.contains(start),
            _ => false,
        };
        let design = self.conductor.design();
        let is_placed = |follower: SiteId| {
            let mut within = design.partitions_in(*table, range);
            within.any(|(_, placement)| placement.holds(follower))
                || self.conductor.jobs.any(|change| adds(follower, change))
        };
        let unplaced = followers.iter().filter(|follower| !is_placed(*follower));
        let each = unplaced.map(|follower| {
            let unfollow = Step::Unfollow(*table, range.start.clone(), follower);
            self.conductor.transport.step(self.site, unfollow)
        });
        // Concurrently, as for changes that are half made.
        join_all(each).await.into_iter().try_for_each(|done| done.map(drop))
    }

    /// The copies at the site that may have to be merged with a copy that the design does not give
    /// it, before they can apply later events: those that touch it and are behind their masters,
    /// and so on.
    async fn waiting_for(&self, site: SiteId, gone: &Holding) -> Result<Vec<KeyRange>, Refusal> {
        let (table, design) = (gone.table, self.conductor.design());
        if !is_beside(&design, site, gone) {
            return Ok(Vec::new());
        }
        let held = describe(&self.conductor.transport, site).await?.into_iter();
        let is_given = |copy: &Holding| {
            copy.table == table
                && copy.source.is_some()
                && design
                    .partitions_in(table, &copy.range)
                    .any(|(_, placement)| placement.replicas.contains(site))
        };
        let mut copies: Vec<Holding> = held.filter(is_given).collect();
        let mut waiting = vec![gone.range.clone()];
        let mut at = 0;
        while let Some(range) = waiting.get(at).cloned() {
            let touches = |copy: &mut Holding| {
                copy.range.end.as_ref() == Some(&range.start)
                    || range.end.as_ref() == Some(&copy.range.start)
            };
            for copy in copies.extract_if(.., touches).collect::<Vec<_>>() {
                if self.is_behind(&copy).await? {
                    waiting.push(copy.range);
                }
            }
            at += 1;
        }
        waiting.remove(0);
        Ok(waiting)
    }

    /// Reserves a copy that a site is to drop, and those that wait for it. Waits no longer once the
    /// site is down again: the change that has reserved them may wait for the site.
    async fn reserve_with(
        &self,
        gone: &Holding,
        waiting: &[KeyRange],
    ) -> Result<Reservation<'_>, Refusal> {
        let touched = || std::iter::once(&gone.range).chain(waiting);
        let within = |design: &Design| -> Vec<(TableId, KeyRange)> {
            let parts = touched().flat_map(|range| design.partitions_in(gone.table, range));
            let parts: BTreeSet<KeyRange> = parts.map(|(range, _)| range).collect();
            parts.into_iter().map(|range| (gone.table, range)).collect()
        };
        let over = async {
            while !self.is_over() {
                self.conductor.transport.retry(self.site).await;
            }
        };
        match select(pin!(self.conductor.reserve(within)), pin!(over)).await {
            Either::Left((reserved, _)) => Ok(reserved),
            Either::Right(_) => Err(Refusal::Unavailable(self.site)),
        }
    }

    /// Makes a site drop a copy of which the design does not give it all, and the copies that wait
    /// for it. All of them are reserved.
    async fn let_go_with(
        &self,
        site: SiteId,
        gone: &Holding,
        waiting: &[KeyRange],
    ) -> Result<(), Refusal> {
        let now = self.waiting_for(site, gone).await?;
        if now.iter().any(|range| !waiting.contains(range)) {
            return Err(Refusal::Unavailable(site)); // Others are to be reserved.
        }
        for range in now.iter().chain([&gone.range]) {
            self.let_go_of_torn(site, gone.table, range).await?;
        }
        Ok(())
    }

    /// True unless a copy has all events that the master of its keys has. A copy of a failed master
    /// counts as complete, because it may be needed in a takeover.
    async fn is_behind(&self, copy: &Holding) -> Result<bool, Refusal> {
        let start = &copy.range.start;
        let Some(master) = self.master_of(copy.table, start) else { return Ok(true) };
        if self.conductor.transport.failure(master).is_some() {
            return Ok(false);
        }
        let held = describe(&self.conductor.transport, master).await?;
        let is_it = |held: &Holding| held.table == copy.table && held.range == copy.range;
        Ok(!held.iter().any(|held| is_it(held) && held.version <= copy.version))
    }

    /// True if the design gives the site a part of the range.
    fn is_placed(&self, site: SiteId, table: TableId, range: &KeyRange) -> bool {
        self.conductor
            .design()
            .partitions_in(table, range)
            .any(|(_, placement)| placement.holds(site))
    }

    /// True for a copy that the design does not give the site, of a failed master, if the copy is
    /// beside another. The second may wait to be merged with it, which only the master can tell.
    /// The readmission of the master drops the copy.
    fn is_kept(&self, site: SiteId, gone: &Holding) -> bool {
        let is_away = |master: SiteId| {
            self.conductor.transport.failure(master).is_some()
                && !self.conductor.membership.is_replaced(master)
        };
        gone.source.is_some_and(is_away)
            && !self.is_placed(site, gone.table, &gone.range)
            && is_beside(&self.conductor.design(), site, gone)
    }

    /// True for a copy of which the design gives the site only a part. The copy is behind. The
    /// copies that it would be split from, or merged with, may be discarded by now.
    fn is_torn(&self, site: SiteId, holding: &Holding) -> bool {
        let design = self.conductor.design();
        let mut within = design.partitions_in(holding.table, &holding.range);
        holding.source.is_some() && within.any(|(_, placement)| !placement.holds(site))
    }

    /// Makes other sites drop copies of the site's partitions that the design does not give them.
    /// They were removed while the site was down, when it was unknown whether another site had all
    /// their events. All sites drop copies that changes left to this readmission, but for those of
    /// masters that are down: their readmissions do that.
    async fn let_go_of_unplaced(&self, master: SiteId) -> Result<(), Refusal> {
        let is_there = |other: &SiteId| self.conductor.transport.failure(*other).is_none();
        let serves = |of: SiteId| is_there(&of) && !self.conductor.is_given_up(of);
        for other in self.conductor.design().sites().iter().filter(is_there) {
            for holding in describe(&self.conductor.transport, other).await? {
                let Holding { table, range, source, .. } = &holding;
                let is_copy = match other == master {
                    true => source.is_some() && !self.is_kept(other, &holding),
                    false => source.is_some_and(|of| of == master || serves(of)),
                };
                if !is_copy || self.is_placed(other, *table, range) {
                    continue;
                }
                let waiting = self.waiting_for(other, &holding).await?;
                let _reserved = self.reserve_with(&holding, &waiting).await?;
                if !self.is_placed(other, *table, range) {
                    self.let_go_with(other, &holding, &waiting).await?;
                }
            }
        }
        Ok(())
    }

    /// Removes replicas from the design whose keys the site does not hold completely. The site was
    /// told to discard keys before it could report that it had been split from them, or merged with
    /// them.
    async fn let_go_of_lost(&self, site: SiteId) -> Result<(), Refusal> {
        let held = describe(&self.conductor.transport, site).await?;
        for place in places(&self.conductor.design(), |placement| placement.replicas.contains(site))
        {
            for (table, range) in ranges(&self.conductor.design(), [&place]) {
                let of = |h: &&Holding| h.table == table && h.range.overlaps(&range);
                if range.is_covered(held.iter().filter(of).map(|holding| &holding.range)) {
                    continue;
                }
                let _reserved = self.conductor.reserve(|design| ranges(design, [&place])).await;
                let is_given = |(_, placement): (_, Placement)| placement.replicas.contains(site);
                if self.conductor.design().partition_of(table, &range.start).is_some_and(is_given) {
                    self.let_go_of_torn(site, table, &range).await?;
                }
            }
        }
        Ok(())
    }

    /// Removes the site's replicas within a range from the design, then makes it discard what it
    /// holds of them and of the range. In this order, because the site may fail before the end.
    /// Backups are added anew.
    async fn let_go_of_torn(
        &self,
        site: SiteId,
        table: TableId,
        range: &KeyRange,
    ) -> Result<(), Refusal> {
        let mut left = vec![range.clone()];
        for (range, placement) in self.conductor.design().partitions_in(table, range) {
            if placement.replicas.contains(site) {
                let start = range.start.clone();
                // First, so that no takeover from the master relies on a copy that the site
                // discards.
                self.enter_made(Change::RemoveReplica { table, start: start.clone(), site });
                let unfollow = Step::Unfollow(table, start.clone(), site);
                match protocol::ask(&self.conductor.transport, placement.master, unfollow).await {
                    Err(Refusal::Log(LogError::Gone { .. })) => {}
                    Err(refusal) => {
                        self.enter_made(Change::AddReplica { table, start, site });
                        return Err(refusal);
                    }
                    Ok(_) => {}
                }
                left.push(range);
            }
        }
        for range in left {
            self.conductor.transport.step(site, Step::Discard(table, range)).await?;
        }
        Ok(())
    }

    /// False if the design says that the site masters a part of the holding, and the holding
    /// differs from the design. A mastership that the site only has to acquire matches the design.
    fn is_as_designed(&self, site: SiteId, holding: &Holding) -> bool {
        let as_designed = |(range, placement): (KeyRange, Placement)| {
            let roles = match holding.source {
                None => placement.replicas == holding.followers,
                Some(_) => holding.released_to.is_none_or(|to| to == site),
            };
            placement.master != site || range == holding.range && roles
        };
        self.conductor.design().partitions_in(holding.table, &holding.range).all(as_designed)
    }

    /// The master of the partition that begins at `start`.
    pub(super) fn master_of(&self, table: TableId, start: &Key) -> Option<SiteId> {
        let design = self.conductor.design();
        let found = design.partition_of(table, start).filter(|(range, _)| range.start == *start);
        found.map(|(_, placement)| placement.master)
    }

    /// Enters the part of an interrupted change that the site has made. A change that was under way
    /// when its master failed ended as refused, and may have been made there in part. The site's
    /// state becomes the design, except for followers that have no copy yet.
    async fn end_half_made(&self, master: SiteId, holding: &Holding) -> Result<(), Refusal> {
        let Holding { table, range, followers, .. } = holding;
        let (table, start) = (*table, &range.start);
        let placement =
            self.conductor.design().partition_of(table, start).map(|(_, placement)| placement);
        if placement.is_none_or(|placement| placement.master != master) {
            return Ok(());
        }
        if let Some(to) = holding.released_to.filter(|to| *to != master) {
            self.enter_made(Change::Remaster { table, start: start.clone(), to });
            // At once: a task that has reserved another partition to reconcile may wait for its
            // master.
            self.acquire_if_released(master, holding).await?;
        }
        if holding.source.is_some() {
            return Ok(());
        }
        let design = self.conductor.design();
        let within = || design.partitions_in(table, range).map(|(_, placement)| placement.replicas);
        let both = within().fold(followers.clone(), |both, replicas| &both & &replicas);
        // Concurrently: a follower with a copy waits until the others have as much, or are
        // unfollowed as well.
        let unknown = followers - &both;
        let each = unknown.iter().map(|site| Step::Unfollow(table, start.clone(), site));
        // All of them to their ends: a step that is left alone may still be made.
        let each = each.map(|step| self.conductor.transport.step(master, step));
        join_all(each).await.into_iter().try_for_each(|done| done.map(drop))?;
        self.enter_borders(table, range, &both);
        let others = within().fold(followers.clone(), |all, replicas| &all | &replicas);
        for site in (&others - &both).iter() {
            self.discard_at(site, table, range).await?;
        }
        Ok(())
    }

    /// Enters the changes that have led to the partition's current borders and followers.
    fn enter_borders(&self, table: TableId, is: &KeyRange, followers: &SiteSet) {
        if !self.begins_there(table, &is.start) {
            self.enter_made(Change::Split { table, at: is.start.clone() });
        }
        if let Some(end) = is.end.clone().filter(|end| !self.begins_there(table, end)) {
            self.enter_made(Change::Split { table, at: end });
        }
        let design = self.conductor.design();
        for (KeyRange { start, .. }, placement) in design.partitions_in(table, is) {
            for site in placement.replicas.iter().filter(|site| !followers.contains(*site)) {
                self.enter_made(Change::RemoveReplica { table, start: start.clone(), site });
            }
        }
        let starts = design.partitions_in(table, is).map(|(range, _)| range.start);
        for at in starts.filter(|start| *start > is.start) {
            self.enter_made(Change::Merge { table, at });
        }
    }

    fn begins_there(&self, table: TableId, key: &Key) -> bool {
        self.master_of(table, key).is_some()
    }

    /// Enters a change of reserved partitions that a site has made.
    fn enter_made(&self, change: Change) {
        self.conductor
            .enter(&change)
            .expect("it was valid when it was asked for, and nothing was changed since");
    }

    /// Makes a site discard what it holds of a range. A site that is down does so when it is
    /// readmitted.
    async fn discard_at(
        &self,
        site: SiteId,
        table: TableId,
        range: &KeyRange,
    ) -> Result<(), Refusal> {
        match self.conductor.transport.failure(site) {
            Some(_) => Ok(()),
            None => {
                let step = Step::Discard(table, range.clone());
                self.conductor.transport.step(site, step).await.map(drop)
            }
        }
    }
}

/// True if the design gives a site a replica beside a range.
fn is_beside(design: &Design, site: SiteId, gone: &Holding) -> bool {
    let Ok(table) = design.table(gone.table) else { return false };
    let before =
        table.partitions().before(&gone.range.start).map(|(_, placement)| placement.clone());
    let after = gone.range.end.as_ref().and_then(|end| design.partition_of(gone.table, end));
    let beside = before.into_iter().chain(after.map(|(_, placement)| placement));
    beside.into_iter().any(|placement| placement.replicas.contains(site))
}
