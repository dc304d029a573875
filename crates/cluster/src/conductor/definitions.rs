//! Definitions: tables, sites, backups and pins, which are in no site's log.
//!
//! The log of a site says what the site holds. The conductor's log ([`Home::keep`]) says which
//! tables exist, their names, and how many backups each asks for. So a definition has an order:
//!
//! ```text
//!   definition     order of its steps                            after a crash in between
//!   create table   sites: an empty partition ─▶ log ─▶ design    only at sites: forgotten
//!   drop table     log ─▶ design ─▶ sites: forget it             only at sites: forgotten
//!   backups        log ─▶ replicas ─▶ sites ─▶ design            (undone if a site refuses)
//!   pins           log ─▶ design
//!   add site       open its log ─▶ log ─▶ design                 only in the log: it is empty
//!   remove site    design ─▶ log ─▶ close its log
//! ```
//!
//! Definitions are made one after the other: each reserves [`DEFINITIONS`], a table that does not
//! exist. A readmission reserves it only to find out which tables were dropped: it may take long.

use super::membership::not_known;
use super::{Conductor, Reservation, backups, copy, drained, membership, protocol};
use crate::catalog::{Definition, Missing};
use crate::conductor::copy::home;
use crate::error::{Error, OpenDatabaseError};
use crate::fusion::is_reserved;
use crate::gateways::messages::News;
use crate::joined::Guests;
use crate::transport::Transport;
use isomer_design::{
    Backups, Change, Design, Invalid, Key, KeyRange, Placement, Schema, SiteId, SiteSet, TableId,
};
use isomer_site::{Step, TailCopy};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number that stands for all definitions in reservations. No table has it.
const DEFINITIONS: TableId = TableId(0);

/// How long a definition waits for the readmission of sites that are up again, in nanoseconds.
const READMISSION_NS: u64 = 10_000_000_000;

/// The environment of a conductor: its log, and the sites of its process.
pub trait Home: Send + Sync {
    /// Keeps a definition, durably, as a whole or not at all. `after` is the design with it.
    ///
    /// # Errors
    /// [`Error`]; nothing was kept then.
    fn keep(&self, _after: &Design, _definition: Definition) -> Result<(), Error> {
        Ok(())
    }

    /// Keeps the sites in whose place others act, durably. Where another process can become the
    /// conductor, it reads them; elsewhere nothing is kept.
    ///
    /// # Errors
    /// [`Error`], for example if another process is the conductor now.
    fn keep_lost(&self, _design: &Design, _lost: &SiteSet) -> Result<(), Error> {
        Ok(())
    }

    /// The processes that have joined the cluster.
    fn guests(&self) -> Guests {
        Guests::default()
    }

    /// Keeps the processes that have joined the cluster, durably.
    ///
    /// # Errors
    /// [`Error`], for example if none can join.
    fn keep_guests(&self, _design: &Design, _guests: Guests) -> Result<(), Error> {
        Err(OpenDatabaseError::NoCluster.into())
    }

    /// Takes over the log of a failed site, and reads it. From then on the site's process cannot
    /// write it. `None` where logs end with their processes.
    ///
    /// # Errors
    /// [`Error`], if the log cannot be read.
    fn history(&self, _site: SiteId) -> Result<Option<TailCopy>, Error> {
        Ok(None)
    }

    /// Begins the order of commits to ordered tables, unless it has begun.
    ///
    /// # Errors
    /// [`Error::Open`], if there can be none here.
    fn begin_order(&self) -> Result<(), Error> {
        let what = "there is no log for it".to_owned();
        Err(OpenDatabaseError::Order(what).into())
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

/// A home that keeps nothing, for the simulator and the laboratory, whose sites are always open.
impl Home for () {}

impl<T: Transport> Conductor<T> {
    /// Creates a table. `partitions` has the first key of each partition and its placement. The
    /// first partition begins at [`Key::min`].
    ///
    /// # Errors
    /// [`Error::TableExists`], [`Error::Invalid`], [`Error::Change`]; no table was created then.
    pub async fn create_table(
        &self,
        schema: Schema,
        partitions: Vec<(Key, Placement)>,
    ) -> Result<TableId, Error> {
        let _reserved = self.reserve_definitions().await;
        let id = TableId(self.last_table.lock().0 + 1);
        self.create_reserved(id, schema, partitions).await.map(|()| id)
    }

    /// Like [`Conductor::create_table`], with a number that the caller chooses, and no table has
    /// had.
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
        let partitions = match is_reserved(schema.name()) {
            true => partitions,
            false => drained::keep_away(self, partitions),
        };
        after.create_table(id, schema.clone(), partitions.clone()).map_err(Box::new)?;
        let mut by_site: BTreeMap<SiteId, Vec<KeyRange>> = BTreeMap::new();
        for (range, placement) in after.partitions_in(id, &KeyRange::all()) {
            by_site.entry(placement.master).or_default().push(range);
        }
        by_site.keys().try_for_each(|site| self.check_site(*site))?;
        // The number is used up even if this fails: sites that hold a part of the table forget it
        // only at the next start.
        {
            let mut last = self.last_table.lock();
            *last = id.max(*last);
        }
        for (site, ranges) in by_site {
            let created = protocol::ask(&self.transport, site, Step::Create(id, ranges)).await;
            created.map_err(Error::Site)?;
        }
        home(self).keep(&after, Definition::Table(id))?;
        let mut design = self.design.lock();
        design.create_table(id, schema, partitions).map_err(Box::new)?;
        self.table.store(Arc::new(self.table.load().with_table(&design, id)));
        copy::tell_table(self, &design, id);
        Ok(())
    }

    /// Removes a table from the design once no task relies on its partitions, and makes the sites
    /// forget it. Transactions that read it at the same time have to restart.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such table.
    pub async fn drop_table(&self, id: TableId) -> Result<(), Error> {
        super::ordered::settle_before_drop(self, id).await?;
        let _reserved = self.reserve_definitions().await;
        let mut after = self.design();
        after.drop_table(id).map_err(Box::new)?;
        // From here on the drop is durable: sites that still hold a part of the table forget it at
        // the next start.
        home(self).keep(&after, Definition::Dropped(id))?;
        let everything = |design: &Design| -> Vec<(TableId, KeyRange)> {
            design.partitions_in(id, &KeyRange::all()).map(|(range, _)| (id, range)).collect()
        };
        let _partitions = self.reserve(everything).await;
        let (masters, sites) = {
            let mut design = self.design.lock();
            let all = KeyRange::all();
            let placed = design.partitions_in(id, &all);
            let masters: SiteSet = placed.map(|(_, placement)| placement.master).collect();
            design.drop_table(id).map_err(Box::new)?;
            self.table.store(Arc::new(self.table.load().without_table(id)));
            self.ordered.forget(id);
            self.news.add(|| News::Dropped(id));
            (masters, design.sites().clone())
        };
        // Masters first: they make sure that no tail of theirs is at followers of this table alone.
        let followers = &sites - &masters;
        // A site that cannot be reached forgets the table when it rejoins.
        for site in
            masters.iter().chain(followers.iter()).filter(|site| self.check_site(*site).is_ok())
        {
            // A site that cannot write its log reports that to every client. It forgets at the next
            // start.
            let _ = protocol::ask(&self.transport, site, Step::Forget(id)).await;
        }
        Ok(())
    }

    /// Sets the number of backups of a table: a commit is acknowledged when that number of other
    /// sites has it. On return this holds for all rows of the table. Missing replicas are added.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there are not enough sites, or they have failed. [`Error::Change`] if
    /// a site refuses. The old number of backups is in force then; replicas that were added stay.
    pub async fn set_backups(&self, table: TableId, backups: Backups) -> Result<(), Error> {
        self.give_backups(table, backups, Missing::Refused).await
    }

    /// As [`Conductor::set_backups`]; says whether backups may be missing.
    ///
    /// # Errors
    /// As [`Conductor::set_backups`].
    pub async fn give_backups(
        &self,
        table: TableId,
        backups: Backups,
        missing: Missing,
    ) -> Result<(), Error> {
        until_readmitted(self, missing).await;
        let _reserved = self.reserve_definitions().await;
        let mut after = self.design();
        after.set_backups(table, backups).map_err(Box::new)?;
        home(self).keep(&after, Definition::Table(table))?;
        let set = self.set_backups_reserved(table, backups, missing).await;
        if set.is_err() {
            home(self).keep(&self.design(), Definition::Table(table))?;
        }
        set
    }

    async fn set_backups_reserved(
        &self,
        table: TableId,
        backups: Backups,
        missing: Missing,
    ) -> Result<(), Error> {
        let wanted = |design: &Design| -> Result<Design, Error> {
            let mut wanted = design.clone();
            wanted.set_backups(table, backups).map_err(Box::new)?;
            Ok(wanted)
        };
        let design = wanted(&self.design())?;
        let mut asked = design.sites().iter().filter(|site| is_asked(self, *site, missing));
        asked.try_for_each(|site| check_readmitted(self, site))?;
        let mut changes = backups::lacking(self, &design, "it is to be a backup");
        changes.steps.retain(|step| step.change.table() == Some(table));
        let added = self.change_all(&changes).await;
        if missing == Missing::Refused {
            added?;
        }
        let design = wanted(&self.design())?;
        let all = KeyRange::all();
        let mut placed = design.partitions_in(table, &all);
        let sites: Vec<SiteId> =
            design.sites().iter().filter(|site| self.is_usable(*site)).collect();
        let is_short = |placement: Placement| placement.replicas.len() < usize::from(backups.count);
        if missing == Missing::Refused && placed.any(|(_, placement)| is_short(placement)) {
            let may_hold = sites.iter().filter(|site| !drained::is_drained(self, **site));
            let (count, others) = (backups.count, may_hold.count().saturating_sub(1));
            let table = design.table(table).map_err(Box::new)?.name().to_owned();
            return Err(Box::new(Invalid::Backups { table, count, others }).into());
        }
        let before = self.design().table(table).map_err(Box::new)?.backups();
        for site in &sites {
            let told = tell_backups(self, *site, table, backups).await;
            let is_down = missing == Missing::Added && !self.is_usable(*site);
            if told.is_err() && !is_down {
                for site in &sites {
                    // A site that does not receive the old number waits for more acknowledgements
                    // than needed.
                    let _ = tell_backups(self, *site, table, before).await;
                }
                return told;
            }
        }
        {
            let mut design = self.design.lock();
            design.set_backups(table, backups).map_err(Box::new)?;
            copy::tell_table(self, &design, table);
        }
        if missing == Missing::Added {
            backups::restore(self);
        }
        Ok(())
    }

    /// Tells every site how many backups each table asks for, and replaces missing ones. For a
    /// database that was just opened. A site that is away has the numbers in its log.
    ///
    /// # Errors
    /// [`Error::Site`], of the first site that refuses.
    pub async fn assure_backups(&self) -> Result<(), Error> {
        let design = self.design();
        for site in design.sites().iter().filter(|site| self.is_usable(*site)) {
            self.tell_all_backups(site, &design).await?;
        }
        backups::restore(self);
        Ok(())
    }

    /// Tells a site how many backups each table asks for.
    pub(super) async fn tell_all_backups(
        &self,
        site: SiteId,
        design: &Design,
    ) -> Result<(), Error> {
        for (table, found) in design.tables().filter(|(_, found)| found.backups() != Backups::NONE)
        {
            tell_backups(self, site, table, found.backups()).await?;
        }
        Ok(())
    }

    /// Adds a site. The caller has reserved definitions.
    pub(super) async fn add_site(&self, site: SiteId) -> Result<(), Error> {
        let change = Change::AddSite { site };
        let mut after = self.design();
        after.apply(&change).map_err(Box::new)?;
        home(self).open_site(site)?;
        let added = async {
            // Asked once, without retries: a site that does not answer cannot be added.
            if let Err(refusal) = self.transport.step(site, Step::Describe).await {
                return Err(Error::Change { change: Box::new(change.clone()), refusal });
            }
            home(self).keep(&after, Definition::Sites)
        };
        added.await.inspect_err(|_| home(self).close_site(site))?;
        self.tell_all_backups(site, &after).await?;
        self.enter(&change)
    }

    /// Removes a site that holds nothing. The caller has reserved definitions. A failed site
    /// is not asked, if others have taken over all that it had.
    pub(super) async fn remove_site(&self, site: SiteId) -> Result<(), Error> {
        let change = Change::RemoveSite { site };
        let is_gone = self.may_be_empty(site);
        if !is_gone {
            check_readmitted(self, site)?;
            // Other sites may still lack outcomes of transactions that this site has coordinated.
            if let Err(refusal) = protocol::ask(&self.transport, site, Step::Finish).await {
                return Err(Error::Change { change: Box::new(change), refusal });
            }
        }
        self.enter(&change)?;
        let design = self.design();
        home(self).keep(&design, Definition::Sites)?;
        if !is_gone {
            // Again, because the site could decide transactions until now. If its log fails in
            // between, the removal stands.
            let _ = protocol::ask(&self.transport, site, Step::Finish).await;
        }
        home(self).close_site(site);
        for other in design.sites().iter() {
            // A site with a failed log does not cut its feed.
            let _ = protocol::ask(&self.transport, other, Step::Dismiss(site)).await;
        }
        membership::forget(self, site);
        Ok(())
    }

    /// Waits until no definition is under way, and blocks others.
    pub(super) async fn reserve_definitions(&self) -> Reservation<'_> {
        self.reservations.take(&[definitions()]).await
    }
}

/// Waits until the sites that a number of backups needs are readmitted, for up to
/// [`READMISSION_NS`]. The caller has reserved nothing: a readmission may wait for that.
async fn until_readmitted<T: Transport>(conductor: &Conductor<T>, missing: Missing) {
    let is_waited_for =
        |site: &SiteId| is_asked(conductor, *site, missing) && is_returning(conductor, *site);
    until_none(conductor, is_waited_for).await;
}

/// Waits until the readmission of a site has ended, if one is under way, for up to
/// [`READMISSION_NS`].
pub(super) async fn until_returned<T: Transport>(conductor: &Conductor<T>, site: SiteId) {
    until_none(conductor, |other| *other == site && is_returning(conductor, site)).await;
}

async fn until_none<T: Transport>(
    conductor: &Conductor<T>,
    is_waited_for: impl Fn(&SiteId) -> bool,
) {
    let transport = &conductor.transport;
    let until = transport.now().0 + READMISSION_NS;
    while transport.now().0 < until
        && !transport.is_closing()
        && let Some(site) = conductor.design().sites().iter().find(&is_waited_for)
    {
        transport.retry(site).await;
    }
}

/// True for a site that must be told the number of backups of a table.
fn is_asked<T: Transport>(conductor: &Conductor<T>, site: SiteId, missing: Missing) -> bool {
    missing == Missing::Refused || conductor.is_usable(site)
}

/// Fails if a site cannot be reached, or was away and is not readmitted yet. A site whose log
/// has failed needs no definition: it restarts before it serves again.
fn check_readmitted<T: Transport>(conductor: &Conductor<T>, site: SiteId) -> Result<(), Error> {
    conductor.check_site(site)?;
    match is_returning(conductor, site) {
        true => Err(not_known(site)),
        false => Ok(()),
    }
}

/// True for a site that can be reached, was away, and is not readmitted yet.
fn is_returning<T: Transport>(conductor: &Conductor<T>, site: SiteId) -> bool {
    let is_up = conductor.transport.failure(site).is_none() && conductor.check_site(site).is_ok();
    is_up && conductor.is_given_up(site)
}

async fn tell_backups<T: Transport>(
    conductor: &Conductor<T>,
    site: SiteId,
    table: TableId,
    backups: Backups,
) -> Result<(), Error> {
    let step = Step::Backups(table, backups);
    protocol::ask(&conductor.transport, site, step).await.map_err(Error::Site)?;
    Ok(())
}

/// The range that stands for all definitions.
pub(super) fn definitions() -> (TableId, KeyRange) {
    (DEFINITIONS, KeyRange::all())
}
