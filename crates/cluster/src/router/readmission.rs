//! Sites that come back: what the router does about a site of another process that has begun a new run.
//!
//! The design has gone on without it. Replicas were promoted in its place if its log had failed; replicas that it had
//! were let go; tables were dropped. What it holds of all that, by its log, it must let go of, or it would be in the way
//! of the next copy that is to be made there. What the design still gives it, it holds: nothing is taken from a site
//! without a step that it answers, or a later term.

use super::Router;
use crate::error::Error;
use crate::protocol;
use crate::transport::Transport;
use isomer_design::{Change, Design, KeyRange, SiteId, SiteSet, TableId};
use isomer_site::{Answer, Failure, Refusal, Step};

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

    /// Ready when it may be worth asking a site again that refused.
    pub(crate) async fn retry(&self, site: SiteId) {
        self.transport.retry(site).await;
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
        let _transit = self.begin_transit(site).ok_or(Refusal::Unavailable(site))?;
        let is_replaced = self.given_up.lock().get(&site) == Some(&true);
        match is_replaced {
            true => drop(self.transport.step(site, Step::Replaced(site)).await?),
            // All that it says is as true as ever, and others may wait for a word of it.
            false => self.have_heard(site).await?,
        }
        // What is under way may wait for it to know who is heard, and who says nothing any more.
        for other in self.design().sites().iter().filter(|other| *other != site) {
            self.let_hear(site, other).await?;
        }
        let Answer::Holdings(held) = self.transport.step(site, Step::Describe).await? else {
            unreachable!("a description was asked for")
        };
        for holding in held {
            let (table, range) = (holding.table, holding.range);
            if !is_known(table) {
                self.transport.step(site, Step::Forget(table)).await?;
                continue;
            }
            // What was being changed there is changed by then.
            let within = |design: &Design| -> Vec<(TableId, KeyRange)> {
                design.partitions_in(table, &range).map(|(range, _)| (table, range)).collect()
            };
            let _reserved = self.reserve(within).await;
            let design = self.design();
            let mut placements = design.partitions_in(table, &range);
            if !placements.any(|(_, placement)| placement.holds(site)) {
                self.transport.step(site, Step::Discard(table, range.clone())).await?;
            } else if holding.source.is_none() {
                self.end_half_made(site, table, &range, &holding.followers).await?;
            }
        }
        self.transport.step(site, Step::Admit(site)).await?;
        self.given_up.lock().remove(&site);
        // After that: who is back only then asks whom to hear.
        self.have_heard(site).await?;
        // Nothing was copied to it meanwhile.
        self.restore_backups();
        Ok(())
    }

    /// A change that was under way when its master went may have been made there, or half of it: the site comes back with
    /// followers that the design does not know, or without some that it does.
    async fn end_half_made(
        &self,
        master: SiteId,
        table: TableId,
        range: &KeyRange,
        followers: &SiteSet,
    ) -> Result<(), Refusal> {
        let start = &range.start;
        let placement = match self.design().partition_of(table, start) {
            Some((is, placement)) if is == *range && placement.master == master => placement,
            _ => return Ok(()),
        };
        for site in followers.iter().filter(|site| !placement.replicas.contains(*site)) {
            self.transport.step(master, Step::Unfollow(table, start.clone(), site)).await?;
            self.discard_at(site, table, range).await?;
        }
        for site in placement.replicas.iter().filter(|site| !followers.contains(*site)) {
            let gone = Change::RemoveReplica { table, start: start.clone(), site };
            self.enter(&gone).expect("the design has this replica, and its partition is reserved");
            self.discard_at(site, table, range).await?;
        }
        Ok(())
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

    /// Lets the others hear a site again.
    async fn have_heard(&self, site: SiteId) -> Result<(), Refusal> {
        for other in self.design().sites().iter().filter(|other| *other != site) {
            if self.transport.failure(other).is_none() {
                protocol::ask(&self.transport, other, Step::Admit(site)).await?;
            }
        }
        Ok(())
    }

    /// Has a site hear another one, or not, as the others do: what they were told meanwhile it was not.
    async fn let_hear(&self, site: SiteId, other: SiteId) -> Result<(), Refusal> {
        let given_up = self.given_up.lock().get(&other).copied();
        let steps: &[Step] = match given_up {
            None => &[Step::Admit(other)],
            // Whoever takes over from it, or readmits it, will say.
            Some(false) => &[],
            Some(true) => &[Step::Fence(other), Step::Replaced(other)],
        };
        for step in steps {
            self.transport.step(site, step.clone()).await?;
        }
        Ok(())
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
        let mut needed = sites_of(design, change).into_iter().filter(|site| !is_let_go(site));
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

/// The sites that take steps of a change.
fn sites_of(design: &Design, change: &Change) -> Vec<SiteId> {
    let (table, key, target) = match change {
        Change::Split { table, at } | Change::Merge { table, at } => (*table, at, None),
        Change::AddReplica { table, start, site }
        | Change::RemoveReplica { table, start, site } => (*table, start, Some(*site)),
        Change::Remaster { table, start, to } => (*table, start, Some(*to)),
        Change::AddSite { .. } | Change::RemoveSite { .. } => return Vec::new(),
    };
    let master = design.partition_of(table, key).map(|(_, placement)| placement.master);
    master.into_iter().chain(target).collect()
}
