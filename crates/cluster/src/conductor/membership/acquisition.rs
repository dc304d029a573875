//! Acquisition of released masterships, within the readmission of a site ([`super::readmission`]).
//!
//! A released mastership belongs to the site that the last master named. One of the two may have
//! been down since, so the release may not have been applied.

use super::readmission::Readmission;
use crate::conductor::protocol;
use crate::transport::Transport;
use futures_util::future::{Either, select};
use isomer_design::{Key, KeyRange, SiteId, TableId};
use isomer_site::{Holding, Refusal, Step};
use std::pin::pin;

impl<T: Transport> Readmission<'_, T> {
    /// Makes the masters of the site's holdings acquire them, where they were only released.
    /// Nothing is reserved, because a task that has reserved one may wait for its master.
    pub(super) async fn acquire_released(&self, held: &[Holding]) -> Result<(), Refusal> {
        let site = self.site;
        for holding in held {
            self.acquire_if_released(site, holding).await?;
            // The site may be behind, and not know that the part was split off.
            let is_part = |start: &Key| holding.source.is_some() && *start != holding.range.start;
            for start in self.mastered_within(site, holding.table, &holding.range) {
                if is_part(&start) {
                    self.acquire_unless_overtaken(site, (holding.table, start), site).await?;
                }
            }
        }
        Ok(())
    }

    /// The first keys of the partitions that the site masters within a range, by the design.
    pub(super) fn mastered_within(
        &self,
        site: SiteId,
        table: TableId,
        range: &KeyRange,
    ) -> Vec<Key> {
        let design = self.conductor.design();
        let within = design.partitions_in(table, range);
        let mastered = within.filter(|(_, placement)| placement.master == site);
        mastered.map(|(range, _)| range.start).collect()
    }

    /// Makes the master of a holding acquire it, if it was only released.
    pub(super) async fn acquire_if_released(
        &self,
        site: SiteId,
        holding: &Holding,
    ) -> Result<(), Refusal> {
        let (table, start) = (holding.table, &holding.range.start);
        let Some(master) = self.master_of(table, start) else { return Ok(()) };
        let is_released = match holding.released_to {
            Some(to) => to == master,
            // The release may not have arrived here yet.
            None => holding.source.is_some() && master == site,
        };
        match is_released {
            true => self.acquire_unless_overtaken(site, (table, start.clone()), master).await,
            false => Ok(()),
        }
    }

    /// Makes the master of a partition acquire it, unless a later change or failure of that master
    /// overtakes this.
    async fn acquire_unless_overtaken(
        &self,
        site: SiteId,
        (table, start): (TableId, Key),
        master: SiteId,
    ) -> Result<(), Refusal> {
        // A master that is readmitted later acquires it then.
        let is_there = || master == site || !self.conductor.is_given_up(master);
        let is_needed = || self.master_of(table, &start) == Some(master) && is_there();
        if !is_needed() {
            return Ok(());
        }
        let overtaken = async {
            while is_needed() {
                self.conductor.transport.retry(master).await;
            }
        };
        let acquire = Step::Acquire(table, start.clone());
        let acquired = protocol::ask(&self.conductor.transport, master, acquire);
        match select(pin!(acquired), pin!(overtaken)).await {
            Either::Left((acquired, _)) => acquired.map(drop),
            Either::Right(_) => Ok(()),
        }
    }
}
