//! Backups: each table has as many replicas as it asks for, from the start and after sites fail.
//!
//! ```text
//!   accounts: 0 ─▶ 1   add missing replicas ─▶ every site: commits wait from now on ─▶ design
//!   s2 has failed      partitions with too few replicas ─▶ backlog: add them elsewhere
//! ```
//!
//! A backup is at another process than its master while another process has room
//! ([`isomer_design::Domains`]). A backup beside its master is moved once another process has room.
//!
//! Until a failed backup is replaced, commits wait for the remaining ones ([`isomer_site`],
//! `backup`): the table stays available, and tolerates one failure less. No change removes a backup
//! that a partition needs.

use super::change::sites_of;
use super::{Conductor, Deferred};
use crate::error::Error;
use crate::transport::Transport;
use isomer_design::{Change, Design, Invalid, Plan, SiteId, Step, TableId};

/// The reason of changes that replace missing replicas.
const LACKING: &str = "a backup is missing";

impl<T: Transport> Conductor<T> {
    /// Queues the addition of missing backups, while transactions run.
    pub(super) fn restore_backups(&self) {
        if !self.lacking(&self.design(), LACKING, None).is_empty() {
            // If the queue is full, the next failure or start finds the backups that are still
            // missing.
            let _ = self.deferred.add(Deferred::Backups);
        }
    }

    /// Adds the replicas that partitions lack as backups. A site may refuse a copy until it has
    /// dropped an older one, so this repeats until no addition is possible. For the partitions of a
    /// failed site, its takeover or readmission checks again.
    pub(super) async fn add_lacking_backups(&self) {
        while !self.deferred.is_closed() {
            let mut plan = self.lacking(&self.design(), LACKING, None);
            plan.steps.retain(|step| self.is_possible(&step.change));
            let Some(Step { change, .. }) = plan.steps.first() else { return };
            let master = sites_of(&self.design(), change).0;
            if self.carry_out_deferred(&plan).await == 0
                && let Some(master) = master
            {
                self.transport.retry(master).await;
            }
        }
    }

    /// True if no site that takes steps of the change is down or being readmitted.
    fn is_possible(&self, change: &Change) -> bool {
        let (master, target) = sites_of(&self.design(), change);
        let mut sites = master.into_iter().chain(target);
        sites.all(|site| self.is_usable(site) && !self.is_given_up(site))
    }

    pub(super) fn lacking(&self, design: &Design, reason: &str, table: Option<TableId>) -> Plan {
        let lacking =
            design.lacking(&self.transport.domains(), |site| self.is_usable(site)).into_iter();
        let of = lacking.filter(|change| table.is_none() || change.table() == table);
        Plan {
            reason: "tables are to have their backups".to_owned(),
            steps: of.map(|change| Step::new(change, reason)).collect(),
        }
    }

    pub(super) fn is_usable(&self, site: SiteId) -> bool {
        self.transport.failure(site).is_none() && !self.membership.is_passed_by(site)
    }

    /// Refuses a change that would remove a needed backup.
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
