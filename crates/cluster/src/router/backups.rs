//! Backups: as many replicas as each table asks for, to begin with and after sites were lost.
//!
//! ```text
//!   accounts: 0 ─▶ 1     replicas that are lacking are added ─▶ every site: commits wait from now on ─▶ design
//!   s2 has failed        partitions with too few replicas ─▶ backlog: add them elsewhere
//! ```
//!
//! They are at other processes than their masters, while others have room
//! ([`isomer_design::Domains`]); those beside their masters are moved away once others have.
//!
//! Until a lost backup is replaced, commits wait for those that are left ([`isomer_site`], `backup`): the table goes
//! on, and may lose one site less. No change takes a backup away that a partition needs.

use super::Router;
use crate::error::Error;
use crate::protocol;
use crate::transport::Transport;
use isomer_design::{Backups, Change, Design, Invalid, KeyRange, Plan, SiteId, Step, TableId};

impl<T: Transport> Router<T> {
    /// Lets a table have so many backups. When this is done, whatever was committed before is at so many other
    /// sites, and whatever is acknowledged from now on.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there are not as many sites, or they have failed; [`Error::Change`] if a site refuses:
    /// replicas may have been added then.
    pub async fn set_backups(&self, table: TableId, backups: Backups) -> Result<(), Error> {
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
        if placed.any(|(_, placement)| placement.replicas.len() < usize::from(backups.count)) {
            let others = design.sites().iter().filter(|site| self.is_usable(*site)).count() - 1;
            let (table, count) =
                (design.table(table).map_err(Box::new)?.name().to_owned(), backups.count);
            return Err(Box::new(Invalid::Backups { table, count, others }).into());
        }
        let before = self.design().table(table).map_err(Box::new)?.backups();
        let sites: Vec<SiteId> =
            design.sites().iter().filter(|site| self.is_usable(*site)).collect();
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

    /// Tells a site how many backups a table has.
    pub(crate) async fn tell_backups(
        &self,
        site: SiteId,
        table: TableId,
        backups: Backups,
    ) -> Result<(), Error> {
        let step = isomer_site::Step::Backups(table, backups);
        protocol::ask(&self.transport, site, step).await.map_err(Error::Site)?;
        Ok(())
    }

    /// Has the replicas added that partitions lack as backups, while transactions run.
    pub(crate) fn restore_backups(&self) {
        let plan = self.lacking(&self.design(), "a backup is missing", None);
        if !plan.steps.is_empty() {
            // Where too much is to be done already, the next loss or start finds what is left.
            let _ = self.backlog.add(plan);
        }
    }

    fn lacking(&self, design: &Design, reason: &str, table: Option<TableId>) -> Plan {
        let lacking =
            design.lacking(&self.transport.domains(), |site| self.is_usable(site)).into_iter();
        let of = lacking.filter(|change| table.is_none() || change.table() == table);
        Plan {
            reason: "tables are to have their backups".to_owned(),
            steps: of.map(|change| Step::new(change, reason)).collect(),
        }
    }

    fn is_usable(&self, site: SiteId) -> bool {
        self.transport.failure(site).is_none() && !self.given_up.lock().contains_key(&site)
    }

    /// Refuses a change that would take away a backup that is needed.
    pub(super) fn check_backups(&self, change: &Change) -> Result<(), Error> {
        let Change::RemoveReplica { table, start, site } = change else { return Ok(()) };
        let design = self.design();
        let Ok(found) = design.table(*table) else { return Ok(()) };
        let Some((_, placement)) = found.partition_of(start) else { return Ok(()) };
        let (count, domains) = (found.backups().count, self.transport.domains());
        let left = placement.replicas.without(*site);
        let is_enough = domains.suffice(count, placement.master, &placement.replicas, &left);
        if is_enough || !self.is_usable(*site) {
            return Ok(());
        }
        let partition = format!("{}[{}]", found.name(), found.schema().format_key(start));
        Err(Box::new(Invalid::NeededBackup { partition, site: *site, count }).into())
    }
}
