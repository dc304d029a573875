//! The environment of an embedded conductor: the storage of definitions, and the sites of the
//! process.

use super::ordered::{OrderThreads, begin_order};
use crate::conductor::{Definition, Home};
use crate::embedded::Runtime;
use crate::error::Error;
use crate::joined::Guests;
use crate::storage::Storage;
use isomer_design::{Design, SiteId, SiteSet};
use isomer_site::TailCopy;
use std::sync::Arc;

/// See the [module documentation](self).
pub(super) struct Surroundings {
    pub(super) runtime: Arc<Runtime>,
    pub(super) storage: Arc<dyn Storage>,
    /// The options of the sites' logs.
    pub(super) log: isomer_log::Options,
    pub(super) order: Arc<OrderThreads>,
}

impl Home for Surroundings {
    fn keep(&self, after: &Design, definition: Definition) -> Result<(), Error> {
        Ok(self.storage.keep(after, definition)?)
    }

    fn keep_lost(&self, design: &Design, lost: &SiteSet) -> Result<(), Error> {
        Ok(self.storage.keep_lost(design, lost)?)
    }

    fn guests(&self) -> Guests {
        self.storage.guests()
    }

    fn keep_guests(&self, design: &Design, guests: Guests) -> Result<(), Error> {
        Ok(self.storage.keep_guests(design, guests)?)
    }

    fn history(&self, site: SiteId) -> Result<Option<TailCopy>, Error> {
        Ok(self.storage.history(site)?)
    }

    fn begin_order(&self) -> Result<(), Error> {
        begin_order(&self.order, &*self.storage)
    }

    fn open_site(&self, site: SiteId) -> Result<(), Error> {
        if self.runtime.hosts_site(site) {
            self.runtime.open(&*self.storage, self.log, &[site], &|_| {}, &mut Vec::new())?;
        }
        Ok(())
    }

    fn close_site(&self, site: SiteId) {
        self.runtime.remove(site);
    }
}
