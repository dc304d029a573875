//! Sites that come back: what the router does about a site of another process that has begun a new run.
//!
//! The design has gone on without it. Replicas were promoted in its place if its log had failed; replicas that it had
//! were let go; tables were dropped. What it holds of all that, by its log, it must let go of, or it would be in the way
//! of the next copy that is to be made there. What the design still gives it, it holds: nothing is taken from a site
//! without a step that it answers, or a later term.
//!
//! ```text
//!   s1 is back ─▶ hear       it is told whom to hear; unless others have taken over from it, it is heard at once
//!                 acquire    what was released to it meanwhile
//!                 discard    what the design does not give it
//!                 mend       what it has made of changes that ended as refused: borders, releases, followers
//!                 let go     copies that it has only a part of: what they would be split from is discarded
//!                 admit      all hear it, and the design of what it masters may change again
//! ```
//!
//! **A site that has lost its files** comes back with nothing, once others have taken over all that
//! it had ([`Router::may_be_empty`]); else its process is refused. It is a site like any other
//! then, and gets new copies.
//!
//! **What it has made is the design.** The change ended as refused, as nobody knew what the site had done of it. What is
//! in its log others may have seen. So the router does not take it back, but enters it.

use super::Router;
use super::failover::{AT_ONCE, places, ranges};
use super::takeover::{Replaced, Towards};
use crate::error::Error;
use crate::protocol;
use crate::transport::Transport;
use futures_util::StreamExt;
use futures_util::future::{Either, select, try_join_all};
use futures_util::stream::{FuturesUnordered, iter};
use isomer_design::{Change, Design, Key, KeyRange, Placement, SiteId, SiteSet, TableId};
use isomer_log::LogError;
use isomer_site::{Answer, Failure, Holding, Refusal, Step, TxnId};
use std::pin::pin;

impl<T: Transport> Router<T> {
    /// A site of another process has begun a new run.
    pub fn site_returned(&self, site: SiteId) {
        // As many fit as there can be sites.
        let _ = self.returned.add(site);
    }

    /// The next site that has come back and is to be [readmitted](Router::readmit); `None` once the router is
    /// [closed](Router::close).
    pub(crate) async fn next_returned(&self) -> Option<SiteId> {
        self.returned.next().await
    }

    /// [Readmits](Router::readmit) a site, and those that come back before that is done: at once, as one may wait for a word
    /// of another. Ready when all are, or gone again, or the router is [closed](Router::close).
    pub(crate) async fn readmit_all(&self, first: SiteId, is_known: impl Fn(TableId) -> bool) {
        let mut under_way = FuturesUnordered::new();
        under_way.push(self.readmit_in_the_end(first, &is_known));
        while !under_way.is_empty() {
            match select(pin!(self.returned.next()), under_way.next()).await {
                Either::Left((Some(next), _)) => {
                    under_way.push(self.readmit_in_the_end(next, &is_known));
                }
                Either::Left((None, _)) => return,
                Either::Right(_) => {}
            }
        }
    }

    /// Readmits a site, however often it has to be tried. One that goes away meanwhile comes back once more.
    async fn readmit_in_the_end(&self, site: SiteId, is_known: &impl Fn(TableId) -> bool) {
        while self.readmit(site, is_known).await.is_err() && self.check_site(site).is_ok() {
            self.transport.retry(site).await;
        }
    }

    /// Has a site let go of what the design does not give it any more. Meanwhile no table may come or go; `is_known`
    /// says which there are.
    ///
    /// # Errors
    /// [`Refusal`], of the first step that is refused.
    pub async fn readmit(
        &self,
        site: SiteId,
        is_known: impl Fn(TableId) -> bool,
    ) -> Result<(), Refusal> {
        if !self.design().sites().contains(site) {
            return Ok(());
        }
        let Some(transit) = self.begin_transit(&SiteSet::of(site), Towards::Back) else {
            // It has begun one more run meanwhile. Whoever readmits it may wait for what it does not hear.
            self.tell_whom_to_hear(site).await?;
            return Err(Refusal::Unavailable(site));
        };
        self.nothing_said_of(site).await;
        let is_replaced = self.is_replaced(site);
        match is_replaced {
            true => drop(self.transport.step(site, Step::Replaced(site)).await?),
            // All that it says is as true as ever, and others may wait for a word of it.
            false => self.have_heard(site).await?,
        }
        self.tell_whom_to_hear(site).await?;
        if !is_replaced {
            // Before anything is reserved: whoever has may wait for it.
            self.acquire_released(site).await?;
        }
        // At once: what is to be mended of one may be locked by who waits for what is to be mended of another.
        let held = self.describe(site).await?.into_iter();
        let each = held.map(|holding| self.readmit_holding(site, holding, &is_known));
        let done: Vec<Result<(), Refusal>> = iter(each).buffer_unordered(AT_ONCE).collect().await;
        done.into_iter().collect::<Result<(), Refusal>>()?;
        self.let_go_of_lost(site).await?;
        self.transport.step(site, Step::Admit(site)).await?;
        self.given_up.lock().remove(&site);
        // After that: who is back only then asks whom to hear.
        self.have_heard(site).await?;
        drop(transit);
        self.acquire_released(site).await?;
        self.let_go_of_unplaced(site).await?;
        // Nothing was copied to it meanwhile.
        self.restore_backups();
        Ok(())
    }

    /// Discards what the design does not give a site, and mends what it has otherwise.
    async fn readmit_holding(
        &self,
        site: SiteId,
        holding: Holding,
        is_known: impl Fn(TableId) -> bool,
    ) -> Result<(), Refusal> {
        let (table, range) = (holding.table, holding.range.clone());
        if !is_known(table) {
            return self.transport.step(site, Step::Forget(table)).await.map(drop);
        }
        // Whoever has reserved it may wait for the site.
        let is_well = || {
            self.is_placed(site, table, &range)
                && self.is_as_designed(site, &holding)
                && !self.is_torn(site, &holding)
        };
        if is_well() {
            return Ok(());
        }
        // What was being changed there is changed by then.
        let within = |design: &Design| -> Vec<(TableId, KeyRange)> {
            design.partitions_in(table, &range).map(|(range, _)| (table, range)).collect()
        };
        let _reserved = self.reserve(within).await;
        if !self.is_placed(site, table, &range) {
            return self.transport.step(site, Step::Discard(table, range)).await.map(drop);
        }
        if self.is_torn(site, &holding) {
            return match self.mastered_within(site, table, &range).is_empty() {
                true => self.let_go_of_torn(site, table, &range).await,
                // A part was released to it meanwhile. That is acquired first, while nothing is reserved.
                false => Err(Refusal::Unavailable(site)),
            };
        }
        if !self.is_as_designed(site, &holding) {
            let now = self.describe(site).await?;
            for holding in now.iter().filter(|h| h.table == table && h.range.overlaps(&range)) {
                self.end_half_made(site, holding).await?;
            }
        }
        Ok(())
    }

    async fn describe(&self, site: SiteId) -> Result<Vec<Holding>, Refusal> {
        match self.transport.step(site, Step::Describe).await? {
            Answer::Holdings(held) => Ok(held),
            _ => unreachable!("a description was asked for"),
        }
    }

    /// True if the design gives a site some of a range.
    fn is_placed(&self, site: SiteId, table: TableId, range: &KeyRange) -> bool {
        self.design().partitions_in(table, range).any(|(_, placement)| placement.holds(site))
    }

    /// True for a copy of which the design gives the site only a part. It is behind: what it would be split from, or merged
    /// with, may be discarded by now.
    fn is_torn(&self, site: SiteId, holding: &Holding) -> bool {
        let design = self.design();
        let mut within = design.partitions_in(holding.table, &holding.range);
        holding.source.is_some() && within.any(|(_, placement)| !placement.holds(site))
    }

    /// Has others let go of copies of what a site masters that the design does not give them: the
    /// site was down when they were taken away, and it was not known whether any other site had all
    /// that they have. The site itself lets go of copies that changes left to its readmission.
    async fn let_go_of_unplaced(&self, master: SiteId) -> Result<(), Refusal> {
        let is_there = |other: &SiteId| self.transport.failure(*other).is_none();
        for other in self.design().sites().iter().filter(is_there) {
            for Holding { table, range, source, .. } in self.describe(other).await? {
                let is_copy =
                    if other == master { source.is_some() } else { source == Some(master) };
                if !is_copy || self.is_placed(other, table, &range) {
                    continue;
                }
                let within = |design: &Design| -> Vec<(TableId, KeyRange)> {
                    design.partitions_in(table, &range).map(|(range, _)| (table, range)).collect()
                };
                let _reserved = self.reserve(within).await;
                if !self.is_placed(other, table, &range) {
                    self.transport.step(other, Step::Discard(table, range)).await?;
                }
            }
        }
        Ok(())
    }

    /// Takes the partitions from a site of whose keys it does not hold all that the design gives it: it was told to discard
    /// them before it could say that it had been split from them, or merged with them.
    async fn let_go_of_lost(&self, site: SiteId) -> Result<(), Refusal> {
        let held = self.describe(site).await?;
        for place in places(&self.design(), |placement| placement.replicas.contains(site)) {
            for (table, range) in ranges(&self.design(), [&place]) {
                let of = |h: &&Holding| h.table == table && h.range.overlaps(&range);
                if range.is_covered(held.iter().filter(of).map(|holding| &holding.range)) {
                    continue;
                }
                let _reserved = self.reserve(|design| ranges(design, [&place])).await;
                let is_given = |(_, placement): (_, Placement)| placement.replicas.contains(site);
                if self.design().partition_of(table, &range.start).is_some_and(is_given) {
                    self.let_go_of_torn(site, table, &range).await?;
                }
            }
        }
        Ok(())
    }

    /// Takes the partitions that a site has a part of within a range from it, and has it let go of what it holds of them and of
    /// the range: in this order, as it may be gone before the end. Backups are made anew.
    async fn let_go_of_torn(
        &self,
        site: SiteId,
        table: TableId,
        range: &KeyRange,
    ) -> Result<(), Refusal> {
        let mut left = vec![range.clone()];
        for (range, placement) in self.design().partitions_in(table, range) {
            if placement.replicas.contains(site) {
                let start = range.start.clone();
                // First: nobody is to take over from the master with what it has let go.
                self.enter_made(Change::RemoveReplica { table, start: start.clone(), site });
                let unfollow = Step::Unfollow(table, start.clone(), site);
                match protocol::ask(&self.transport, placement.master, unfollow).await {
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
            self.transport.step(site, Step::Discard(table, range)).await?;
        }
        Ok(())
    }

    /// False if the design says that a site masters something there, and not as the site has it. What it has only to
    /// acquire is as it should be.
    fn is_as_designed(&self, site: SiteId, holding: &Holding) -> bool {
        let as_designed = |(range, placement): (KeyRange, Placement)| {
            let roles = match holding.source {
                None => placement.replicas == holding.followers,
                Some(_) => holding.released_to.is_none_or(|to| to == site),
            };
            placement.master != site || range == holding.range && roles
        };
        self.design().partitions_in(holding.table, &holding.range).all(as_designed)
    }

    /// Has the masters of what a site holds acquire it, where a release is all that there is. Nothing is reserved: whoever
    /// has reserved it may wait for the master.
    async fn acquire_released(&self, site: SiteId) -> Result<(), Refusal> {
        for holding in self.describe(site).await? {
            self.acquire_if_released(site, &holding).await?;
            // It may be a part that the site has not heard of, as it is behind.
            let is_part = |start: &Key| holding.source.is_some() && *start != holding.range.start;
            for start in self.mastered_within(site, holding.table, &holding.range) {
                if is_part(&start) {
                    self.acquire_unless_overtaken(site, (holding.table, start), site).await?;
                }
            }
        }
        Ok(())
    }

    /// The first keys of what a site masters within a range, by the design.
    fn mastered_within(&self, site: SiteId, table: TableId, range: &KeyRange) -> Vec<Key> {
        let design = self.design();
        let within = design.partitions_in(table, range);
        let mastered = within.filter(|(_, placement)| placement.master == site);
        mastered.map(|(range, _)| range.start).collect()
    }

    async fn acquire_if_released(&self, site: SiteId, holding: &Holding) -> Result<(), Refusal> {
        let (table, start) = (holding.table, &holding.range.start);
        let Some(master) = self.master_of(table, start) else { return Ok(()) };
        let is_released = match holding.released_to {
            Some(to) => to == master,
            // The release may not have come here yet.
            None => holding.source.is_some() && master == site,
        };
        match is_released {
            true => self.acquire_unless_overtaken(site, (table, start.clone()), master).await,
            false => Ok(()),
        }
    }

    /// Has the master of a partition acquire it, while a site is readmitted.
    async fn acquire_unless_overtaken(
        &self,
        site: SiteId,
        (table, start): (TableId, Key),
        master: SiteId,
    ) -> Result<(), Refusal> {
        // Who is readmitted later does it then.
        let is_there = || master == site || !self.is_given_up(master);
        let is_needed = || self.master_of(table, &start) == Some(master) && is_there();
        if !is_needed() {
            return Ok(());
        }
        let overtaken = async {
            while is_needed() {
                self.transport.retry(master).await;
            }
        };
        let acquire = Step::Acquire(table, start.clone());
        let acquired = protocol::ask(&self.transport, master, acquire);
        match select(pin!(acquired), pin!(overtaken)).await {
            Either::Left((acquired, _)) => acquired.map(drop),
            Either::Right(_) => Ok(()),
        }
    }

    /// The master of the partition that begins at `start`.
    fn master_of(&self, table: TableId, start: &Key) -> Option<SiteId> {
        let design = self.design();
        let found = design.partition_of(table, start).filter(|(range, _)| range.start == *start);
        found.map(|(_, placement)| placement.master)
    }

    /// A change that was under way when its master went ended as refused. It may have been made there, or half of it: what
    /// the site has of it is the design from now on, but for followers that have no copy yet.
    async fn end_half_made(&self, master: SiteId, holding: &Holding) -> Result<(), Refusal> {
        let Holding { table, range, followers, .. } = holding;
        let (table, start) = (*table, &range.start);
        let placement = self.design().partition_of(table, start).map(|(_, placement)| placement);
        if placement.is_none_or(|placement| placement.master != master) {
            return Ok(());
        }
        if let Some(to) = holding.released_to.filter(|to| *to != master) {
            self.enter_made(Change::Remaster { table, start: start.clone(), to });
            // At once: whoever has reserved something else that is to be mended may wait for its master.
            self.acquire_if_released(master, holding).await?;
        }
        if holding.source.is_some() {
            return Ok(());
        }
        let design = self.design();
        let within = || design.partitions_in(table, range).map(|(_, placement)| placement.replicas);
        let both = within().fold(followers.clone(), |both, replicas| &both & &replicas);
        // At once: one that has a copy waits for the others to have as much, unless they are let go as well.
        let unknown = followers - &both;
        let each = unknown.iter().map(|site| Step::Unfollow(table, start.clone(), site));
        try_join_all(each.map(|step| self.transport.step(master, step))).await?;
        self.enter_borders(table, range, &both);
        let others = within().fold(followers.clone(), |all, replicas| &all | &replicas);
        for site in (&others - &both).iter() {
            self.discard_at(site, table, range).await?;
        }
        Ok(())
    }

    /// Enters the changes that have made a partition what it is.
    fn enter_borders(&self, table: TableId, is: &KeyRange, followers: &SiteSet) {
        if !self.begins_there(table, &is.start) {
            self.enter_made(Change::Split { table, at: is.start.clone() });
        }
        if let Some(end) = is.end.clone().filter(|end| !self.begins_there(table, end)) {
            self.enter_made(Change::Split { table, at: end });
        }
        let design = self.design();
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
        self.enter(&change)
            .expect("it was valid when it was asked for, and nothing was changed since");
    }

    /// Has a site let go of what it holds of a range; one that is away does when it is back.
    async fn discard_at(
        &self,
        site: SiteId,
        table: TableId,
        range: &KeyRange,
    ) -> Result<(), Refusal> {
        match self.transport.failure(site) {
            Some(_) => Ok(()),
            None => {
                let step = Step::Discard(table, range.clone());
                self.transport.step(site, step).await.map(drop)
            }
        }
    }

    /// Lets the others hear a site again, but those whose logs have failed: they are told when they are back.
    async fn have_heard(&self, site: SiteId) -> Result<(), Refusal> {
        for other in self.design().sites().iter().filter(|other| *other != site) {
            if self.transport.failure(other).is_some() {
                continue;
            }
            match protocol::ask(&self.transport, other, Step::Admit(site)).await {
                Err(Refusal::Log(error)) if error.is_final() => {}
                admitted => drop(admitted?),
            }
        }
        Ok(())
    }

    /// Tells a site whom to hear. What is under way may wait for it to know who is heard, and who says nothing any more.
    async fn tell_whom_to_hear(&self, site: SiteId) -> Result<(), Refusal> {
        for other in self.design().sites().iter().filter(|other| *other != site) {
            self.let_hear(site, other).await?;
        }
        Ok(())
    }

    /// Has a site hear another one, or not, as the others do: what they were told meanwhile it was not.
    async fn let_hear(&self, site: SiteId, other: SiteId) -> Result<(), Refusal> {
        // Whoever takes over from it, or readmits it, waits until this has been said.
        let _saying = self.say_of(other);
        loop {
            let replaced = self.given_up.lock().get(&other).cloned().flatten();
            let is_replaced = replaced.is_some();
            match replaced {
                Some(Replaced { decided, .. }) => {
                    let fenced = self.transport.step(site, Step::Fence(other)).await?;
                    if let (Answer::Fenced(fenced), Some(decided)) = (fenced, decided) {
                        // They were down together, so the site could not be told before.
                        let outcome = |txn: &TxnId| (*txn, decided.get(txn).copied());
                        let outcomes = fenced.in_doubt.iter().map(outcome).collect();
                        self.transport.step(site, Step::EndInDoubt(outcomes)).await?;
                    }
                    self.transport.step(site, Step::Replaced(other)).await?;
                }
                // Whoever takes over from it will say.
                None if self.is_taken_over(other) => {}
                None => drop(self.transport.step(site, Step::Admit(other)).await?),
            }
            // Whoever had begun to readmit it may have let it be heard meanwhile, before the last of these steps.
            if self.is_replaced(other) == is_replaced {
                return Ok(());
            }
        }
    }

    /// True if others have taken over from a site that is not readmitted yet.
    pub(super) fn is_replaced(&self, site: SiteId) -> bool {
        self.given_up.lock().get(&site).is_some_and(Option::is_some)
    }

    /// True if a site may come back with nothing: others have taken over all that it had.
    pub(crate) fn may_be_empty(&self, site: SiteId) -> bool {
        self.is_replaced(site)
            && places(&self.design(), |placement| placement.holds(site)).is_empty()
    }

    /// Refuses a change that needs a site that cannot be reached, before it is begun: once begun, it would wait for
    /// it, and all that waits for the change with it.
    pub(super) fn check_reached(&self, design: &Design, change: &Change) -> Result<(), Error> {
        // A copy is let go without the site that has it, if that is passed by.
        let is_let_go = |site: &SiteId| match change {
            Change::RemoveReplica { site: of, .. } if of == site => {
                self.transport.failure(*site).is_some()
            }
            _ => false,
        };
        let (master, target) = sites_of(design, change);
        let mut needed = master.into_iter().chain(target).filter(|site| !is_let_go(site));
        needed.try_for_each(|site| self.check_site(site))
    }

    /// Refuses what needs a site that cannot be reached.
    pub(crate) fn check_site(&self, site: SiteId) -> Result<(), Error> {
        match self.transport.reach(site).and_then(|reach| reach.trouble) {
            Some(why) => Err(Error::Failure(Failure::Unreachable { site, why })),
            None => Ok(()),
        }
    }
}

/// The sites that take steps of a change: the master, and another one.
pub(super) fn sites_of(design: &Design, change: &Change) -> (Option<SiteId>, Option<SiteId>) {
    let (table, key, target) = match change {
        Change::Split { table, at } | Change::Merge { table, at } => (*table, at, None),
        Change::AddReplica { table, start, site }
        | Change::RemoveReplica { table, start, site } => (*table, start, Some(*site)),
        Change::Remaster { table, start, to } => (*table, start, Some(*to)),
        Change::AddSite { .. } | Change::RemoveSite { .. } => return (None, None),
    };
    let master = design.partition_of(table, key).map(|(_, placement)| placement.master);
    (master, target)
}
