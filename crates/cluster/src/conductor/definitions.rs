//! Definitions: tables, sites and backups, which no site's log can tell.
//!
//! A site's log says what the site holds. Which tables there are, under which names, and how many
//! backups each asks for, the conductor's log says ([`Home::keep`]). So a definition has an order:
//!
//! ```text
//!   create table    sites: an empty partition ─▶ log ─▶ design    a table of the log that no site has was lost
//!   drop table      log ─▶ design ─▶ sites: forget it             a table that the log lacks is forgotten at the next start
//!   backups         log ─▶ replicas ─▶ sites ─▶ design            taken back if a site refuses
//!   add site        its log is opened ─▶ log ─▶ design            a site of the log that the design lacks holds nothing
//!   remove site     design ─▶ log ─▶ its log is closed
//! ```
//!
//! Definitions are made one after the other: each reserves [`DEFINITIONS`], a table that does not
//! exist. So does a readmission, for which no table may come or go.

use super::{Conductor, Reservation, protocol};
use crate::catalog::Definition;
use crate::error::Error;
use crate::transport::Transport;
use isomer_design::{
    Backups, Change, Design, Invalid, Key, KeyRange, Placement, Schema, SiteId, TableId,
};
use isomer_site::Step;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number that stands for all definitions where ranges are reserved. Tables have others.
const DEFINITIONS: TableId = TableId(0);

/// The surroundings of a conductor: its log, and the sites of its process.
pub trait Home: Send + Sync {
    /// Keeps a definition, durably, as a whole or not at all. `after` is the design with it.
    ///
    /// # Errors
    /// [`Error`]; nothing was kept then.
    fn keep(&self, _after: &Design, _definition: Definition) -> Result<(), Error> {
        Ok(())
    }

    /// Opens the log of a new site, if the site is to be in this process.
    ///
    /// # Errors
    /// [`Error`]; nothing is left open then.
    fn open_site(&self, _site: SiteId) -> Result<(), Error> {
        Ok(())
    }

    /// Closes a site that is not of the database any more, if it is in this process.
    fn close_site(&self, _site: SiteId) {}
}

/// A conductor that keeps nothing: the simulator's and the laboratory's, whose sites are always there.
impl Home for () {}

impl<T: Transport> Conductor<T> {
    /// Creates a table. `partitions` says where its partitions begin and which site masters each; the
    /// first begins at [`Key::min`].
    ///
    /// # Errors
    /// [`Error::TableExists`], [`Error::Invalid`], [`Error::Change`]; no table has been made then.
    pub async fn create_table(
        &self,
        schema: Schema,
        partitions: Vec<(Key, Placement)>,
    ) -> Result<TableId, Error> {
        let _reserved = self.reserve_definitions().await;
        let id = TableId(self.last_table.lock().0 + 1);
        self.create_reserved(id, schema, partitions).await.map(|()| id)
    }

    /// As [`Conductor::create_table`], with a number of the caller's choice, which no table has had before.
    ///
    /// # Errors
    /// As [`Conductor::create_table`].
    pub async fn create_table_as(
        &self,
        id: TableId,
        schema: Schema,
        partitions: Vec<(Key, Placement)>,
    ) -> Result<(), Error> {
        let _reserved = self.reserve_definitions().await;
        self.create_reserved(id, schema, partitions).await
    }

    async fn create_reserved(
        &self,
        id: TableId,
        schema: Schema,
        partitions: Vec<(Key, Placement)>,
    ) -> Result<(), Error> {
        let mut after = self.design();
        if after.find_table(schema.name()).is_some() {
            return Err(Error::TableExists(schema.name().to_owned()));
        }
        let schema = Arc::new(schema);
        after.create_table(id, schema.clone(), partitions.clone()).map_err(Box::new)?;
        let mut by_site: BTreeMap<SiteId, Vec<KeyRange>> = BTreeMap::new();
        for (range, placement) in after.partitions_in(id, &KeyRange::all()) {
            by_site.entry(placement.master).or_default().push(range);
        }
        by_site.keys().try_for_each(|site| self.check_site(*site))?;
        // The number is used even if this fails: sites that hold a part of the table forget it only
        // at the next start.
        {
            let mut last = self.last_table.lock();
            *last = id.max(*last);
        }
        for (site, ranges) in by_site {
            let created = protocol::ask(&self.transport, site, Step::Create(id, ranges)).await;
            created.map_err(Error::Site)?;
        }
        self.home.keep(&after, Definition::Table(id))?;
        let mut design = self.design.lock();
        design.create_table(id, schema, partitions).map_err(Box::new)?;
        self.table.store(Arc::new(self.table.load().with_table(&design, id)));
        Ok(())
    }

    /// Takes a table out of the design, once no task relies on its partitions, and lets the sites forget
    /// it. Transactions that read it meanwhile are told to start again.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such table.
    pub async fn drop_table(&self, id: TableId) -> Result<(), Error> {
        let _reserved = self.reserve_definitions().await;
        let mut after = self.design();
        after.drop_table(id).map_err(Box::new)?;
        // From here on the table is gone: what sites still hold of it, they forget at the next start.
        self.home.keep(&after, Definition::Dropped(id))?;
        let everything = |design: &Design| -> Vec<(TableId, KeyRange)> {
            design.partitions_in(id, &KeyRange::all()).map(|(range, _)| (id, range)).collect()
        };
        let _partitions = self.reserve(everything).await;
        let sites = {
            let mut design = self.design.lock();
            design.drop_table(id).map_err(Box::new)?;
            self.table.store(Arc::new(self.table.load().without_table(id)));
            design.sites().clone()
        };
        // A site that cannot be reached forgets when it comes back.
        for site in sites.iter().filter(|site| self.check_site(*site).is_ok()) {
            // A site that cannot write its log tells every client; it forgets at the next start.
            let _ = protocol::ask(&self.transport, site, Step::Forget(id)).await;
        }
        Ok(())
    }

    /// Sets the number of backups of a table: a commit is acknowledged when that number of other
    /// sites has it. When this is done, that is true of all that the table holds. Replicas that the
    /// table lacks for that are added.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there are not enough sites, or they have failed; [`Error::Change`] if a site
    /// refuses. The table has the backups of before then; replicas that were added stay.
    pub async fn set_backups(&self, table: TableId, backups: Backups) -> Result<(), Error> {
        let _reserved = self.reserve_definitions().await;
        let mut after = self.design();
        after.set_backups(table, backups).map_err(Box::new)?;
        self.home.keep(&after, Definition::Table(table))?;
        let set = self.set_backups_reserved(table, backups).await;
        if set.is_err() {
            self.home.keep(&self.design(), Definition::Table(table))?;
        }
        set
    }

    async fn set_backups_reserved(&self, table: TableId, backups: Backups) -> Result<(), Error> {
        let wanted = |design: &Design| -> Result<Design, Error> {
            let mut wanted = design.clone();
            wanted.set_backups(table, backups).map_err(Box::new)?;
            Ok(wanted)
        };
        let design = wanted(&self.design())?;
        design.sites().iter().try_for_each(|site| self.check_site(site))?;
        let changes = self.lacking(&design, "it is to be a backup", Some(table));
        self.change_all(&changes).await?;
        let design = wanted(&self.design())?;
        let all = KeyRange::all();
        let mut placed = design.partitions_in(table, &all);
        let sites: Vec<SiteId> =
            design.sites().iter().filter(|site| self.is_usable(*site)).collect();
        if placed.any(|(_, placement)| placement.replicas.len() < usize::from(backups.count)) {
            let (count, others) = (backups.count, sites.len() - 1);
            let table = design.table(table).map_err(Box::new)?.name().to_owned();
            return Err(Box::new(Invalid::Backups { table, count, others }).into());
        }
        let before = self.design().table(table).map_err(Box::new)?.backups();
        for site in &sites {
            let told = self.tell_backups(*site, table, backups).await;
            if told.is_err() {
                for site in &sites {
                    // A site that cannot be told back waits for more than it has to.
                    let _ = self.tell_backups(*site, table, before).await;
                }
                return told;
            }
        }
        self.design.lock().set_backups(table, backups).map_err(Box::new)?;
        Ok(())
    }

    /// Has every site know how many backups each table asks for, and replaces those that are lost:
    /// for a database that was just opened.
    ///
    /// # Errors
    /// [`Error::Site`], of the first site that refuses.
    pub async fn assure_backups(&self) -> Result<(), Error> {
        let design = self.design();
        for site in design.sites().iter() {
            self.tell_all_backups(site, &design).await?;
        }
        self.restore_backups();
        Ok(())
    }

    async fn tell_all_backups(&self, site: SiteId, design: &Design) -> Result<(), Error> {
        for (table, found) in design.tables().filter(|(_, found)| found.backups() != Backups::NONE)
        {
            self.tell_backups(site, table, found.backups()).await?;
        }
        Ok(())
    }

    async fn tell_backups(
        &self,
        site: SiteId,
        table: TableId,
        backups: Backups,
    ) -> Result<(), Error> {
        let step = Step::Backups(table, backups);
        protocol::ask(&self.transport, site, step).await.map_err(Error::Site)?;
        Ok(())
    }

    /// Adds a site. Definitions are reserved.
    pub(super) async fn add_site(&self, site: SiteId) -> Result<(), Error> {
        let change = Change::AddSite { site };
        let mut after = self.design();
        after.apply(&change).map_err(Box::new)?;
        self.home.open_site(site)?;
        let added = async {
            // Once, without waiting: where it cannot be asked, it cannot be added.
            if let Err(refusal) = self.transport.step(site, Step::Describe).await {
                return Err(Error::Change { change: Box::new(change.clone()), refusal });
            }
            self.home.keep(&after, Definition::Sites)
        };
        added.await.inspect_err(|_| self.home.close_site(site))?;
        self.tell_all_backups(site, &after).await?;
        self.enter(&change)
    }

    /// Removes a site that holds nothing. Definitions are reserved.
    pub(super) async fn remove_site(&self, site: SiteId) -> Result<(), Error> {
        self.check_site(site)?;
        let change = Change::RemoveSite { site };
        // Others may still have to hear of transactions that it has decided about.
        if let Err(refusal) = protocol::ask(&self.transport, site, Step::Finish).await {
            return Err(Error::Change { change: Box::new(change), refusal });
        }
        self.enter(&change)?;
        let design = self.design();
        self.home.keep(&design, Definition::Sites)?;
        // Once more, as it could decide until now; a log that fails in between does not bring the site back.
        let _ = protocol::ask(&self.transport, site, Step::Finish).await;
        self.home.close_site(site);
        for other in design.sites().iter() {
            // Where a log has failed, nothing is cut.
            let _ = protocol::ask(&self.transport, other, Step::Dismiss(site)).await;
        }
        Ok(())
    }

    /// Waits until no definition is under way, and keeps others from beginning.
    pub(super) async fn reserve_definitions(&self) -> Reservation<'_> {
        self.reservations.take(&[definitions()]).await
    }
}

/// The range that stands for all definitions.
pub(super) fn definitions() -> (TableId, KeyRange) {
    (DEFINITIONS, KeyRange::all())
}
