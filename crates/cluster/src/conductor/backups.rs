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
use isomer_design::{Change, Design, Invalid, Plan, Step};

/// The reason of changes that replace missing replicas.
const LACKING: &str = "a backup is missing";

/// Queues the addition of missing backups, while transactions run.
pub(super) fn restore<T: Transport>(conductor: &Conductor<T>) {
    if !lacking(conductor, &conductor.design(), LACKING).is_empty() {
        // If the queue is full, the next failure or start finds the backups that are still
        // missing.
        let _ = conductor.deferred.add(Deferred::Backups);
    }
}

/// Adds the replicas that partitions lack as backups. A site may refuse a copy until it has
/// dropped an older one, so this repeats until no addition is possible. For the partitions of a
/// failed site, its takeover or readmission checks again.
pub(super) async fn add_lacking<T: Transport>(conductor: &Conductor<T>) {
    while !conductor.deferred.is_closed() {
        let mut plan = lacking(conductor, &conductor.design(), LACKING);
        plan.steps.retain(|step| is_possible(conductor, &step.change));
        let Some(Step { change, .. }) = plan.steps.first() else { return };
        let master = sites_of(&conductor.design(), change).0;
        if conductor.carry_out_deferred(&plan).await == 0
            && let Some(master) = master
        {
            conductor.transport.retry(master).await;
        }
    }
}

/// True if no site that takes steps of the change is down or being readmitted.
fn is_possible<T: Transport>(conductor: &Conductor<T>, change: &Change) -> bool {
    let (master, target) = sites_of(&conductor.design(), change);
    let mut sites = master.into_iter().chain(target);
    sites.all(|site| conductor.is_usable(site) && !conductor.is_given_up(site))
}

/// The changes that add the missing backups of a design.
pub(super) fn lacking<T: Transport>(
    conductor: &Conductor<T>,
    design: &Design,
    reason: &str,
) -> Plan {
    let domains = conductor.transport.domains();
    let changes = design.lacking(&domains, |site| conductor.is_usable(site));
    Plan {
        reason: "tables are to have their backups".to_owned(),
        steps: changes.into_iter().map(|change| Step::new(change, reason)).collect(),
    }
}

/// Refuses a change that would remove a needed backup.
///
/// # Errors
/// [`Invalid::NeededBackup`].
pub(super) fn check<T: Transport>(conductor: &Conductor<T>, change: &Change) -> Result<(), Error> {
    let Change::RemoveReplica { table, start, site } = change else { return Ok(()) };
    let design = conductor.design();
    let Ok(found) = design.table(*table) else { return Ok(()) };
    let Some((_, placement)) = found.partition_of(start) else { return Ok(()) };
    let (count, domains) = (found.backups().count, conductor.transport.domains());
    let left = placement.replicas.without(*site);
    let is_enough = domains.suffice(count, placement.master, &placement.replicas, &left);
    if is_enough || !conductor.is_usable(*site) {
        return Ok(());
    }
    let partition = format!("{}[{}]", found.name(), found.schema().format_key(start));
    Err(Box::new(Invalid::NeededBackup { partition, site: *site, count }).into())
}
