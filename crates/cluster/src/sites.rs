//! Sites that come and go while the database runs: with their logs, and in the catalog.
//!
//! A site is entered in the catalog before it is in the design, and leaves the design before it leaves the catalog: one
//! that the catalog has and the design has not, as the process ended in between, holds nothing.

use crate::catalog::Catalog;
use crate::embedded::{Embedded, Runtime};
use crate::error::Error;
use crate::event::ChangeEvent;
use crate::protocol;
use crate::router::Router;
use crate::storage::Storage;
use crate::transport::Transport;
use isomer_design::{Change, SiteId};
use isomer_site::{Answer, Refusal, Step};
use parking_lot::Mutex;
use std::sync::Arc;

/// What it takes to add a site, or remove one.
pub(crate) struct Sites {
    pub(crate) router: Arc<Router<Embedded>>,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) catalog: Arc<Mutex<Catalog>>,
    /// How the sites' logs are.
    pub(crate) log: isomer_log::Options,
}

impl Sites {
    /// Adds or removes the sites that the strategy wants to be added or removed, until the router is closed.
    pub(crate) fn make_wanted(&self) {
        while let Some((change, reason)) = self.runtime.block_on(self.router.next_of_sites()) {
            if let Err(error) = self.change(change.clone(), &reason) {
                self.router.leave(std::iter::once(&change), &error.to_string());
            }
        }
    }

    /// Makes a change of the design, of whatever kind.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it does not fit the design, [`Error::Change`] if a site refuses.
    pub(crate) fn change(&self, change: Change, reason: &str) -> Result<ChangeEvent, Error> {
        match change {
            Change::AddSite { site } => self.add(site, change, reason),
            Change::RemoveSite { site } => self.remove(site, change, reason),
            change => self.runtime.block_on(self.router.change(change, reason)),
        }
    }

    fn add(&self, site: SiteId, change: Change, reason: &str) -> Result<ChangeEvent, Error> {
        let mut catalog = self.catalog.lock();
        self.router.design().validate(&change).map_err(Box::new)?;
        let mut entered = catalog.clone();
        entered.sites.push(site);
        entered.sites.sort();
        let here: &[SiteId] = if self.runtime.hosts_site(site) { &[site] } else { &[] };
        if here.is_empty() {
            // Once, without waiting: where it cannot be asked, it cannot be added.
            let described = self.router.transport().step(site, Step::Describe);
            if let Err(refusal) = self.runtime.block_on(described) {
                return Err(Error::Change { change: Box::new(change), refusal });
            }
        }
        self.runtime.open(&*self.storage, self.log, here, &|_| {}, &mut Vec::new())?;
        if let Err(error) = self.storage.write_catalog(&entered) {
            self.runtime.remove(site);
            return Err(error.into());
        }
        *catalog = entered;
        for (table, backups) in catalog.backed() {
            self.runtime.block_on(self.router.tell_backups(site, table, backups))?;
        }
        self.runtime.block_on(self.router.change(change, reason))
    }

    fn remove(&self, site: SiteId, change: Change, reason: &str) -> Result<ChangeEvent, Error> {
        let mut catalog = self.catalog.lock();
        self.router.design().validate(&change).map_err(Box::new)?;
        self.router.check_site(site)?;
        // Others may still have to hear of transactions that it has decided about.
        if let Err(refusal) = self.ask(site, Step::Finish) {
            return Err(Error::Change { change: Box::new(change), refusal });
        }
        let event = self.runtime.block_on(self.router.change(change, reason))?;
        catalog.sites.retain(|other| *other != site);
        self.storage.write_catalog(&catalog)?;
        // Once more, as it could decide until now; a log that fails in between does not bring the site back.
        let _ = self.ask(site, Step::Finish);
        self.runtime.remove(site);
        for other in catalog.sites.iter() {
            // Where a log has failed, nothing is cut.
            let _ = self.ask(*other, Step::Dismiss(site));
        }
        Ok(event)
    }

    fn ask(&self, site: SiteId, step: Step) -> Result<Answer, Refusal> {
        self.runtime.block_on(protocol::ask(self.router.transport(), site, step))
    }
}
