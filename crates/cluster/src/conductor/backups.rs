//! Backups: each table has as many replicas as it asks for, from the start and after sites fail.
//!
//! ```text
//!   accounts: 0 ─▶ 1   add missing replicas ─▶ every site: commits wait from now on ─▶ design
//!   s2 has failed      partitions with too few replicas ─▶ repair: add them elsewhere
//! ```
//!
//! A backup is at another process than its master while another process has room
//! ([`isomer_design::Domains`]). A backup beside its master is moved once another process has room.
//!
//! **A site that was away** may not know how many backups a table asks for: the table is new, or
//! the site has lost its files. It is told after its readmission, and gets no copies before that.
//!
//! **A repair is level-triggered.** It compares the design with the wanted numbers, in passes until
//! nothing lacks, and begins whenever a site fails or comes back ([`restore`]).
//!
//! Until a failed backup is replaced, commits wait for the remaining ones ([`isomer_site`],
//! `backup`): the table stays available, and tolerates one failure less. No change removes a backup
//! that a partition needs.

use super::Conductor;
use super::backlog::found;
use super::change::sites_of;
use super::drained::is_drained;
use crate::error::Error;
use crate::transport::Transport;
use futures_util::future::select;
use isomer_design::{Change, Design, Invalid, Plan, SiteId, SiteSet, Step};
use isomer_log::LogError;
use isomer_store::Waiters;
use parking_lot::Mutex;
use std::pin::pin;
use std::task::Poll;

/// The reason of changes that replace missing replicas.
const LACKING: &str = "a backup is missing";

/// Ticks of a site between two passes of a repair that can add nothing now.
const TICKS_BETWEEN_PASSES: usize = 32;

/// The task that adds missing backups: whether it has to look.
#[derive(Default)]
pub(super) struct Repairs {
    state: Mutex<State>,
    more: Waiters,
}

#[derive(Default)]
struct State {
    is_due: bool,
    is_closed: bool,
    /// Sites that may not know the numbers of backups.
    untold: SiteSet,
}

impl Repairs {
    /// A partition may lack backups, or may get those that it lacks now.
    fn look(&self) {
        self.state.lock().is_due = true;
        self.more.wake();
    }

    /// Waits until there is something to look for. False once closed.
    async fn next(&self) -> bool {
        let look = || {
            let mut state = self.state.lock();
            match std::mem::take(&mut state.is_due) {
                _ if state.is_closed => Poll::Ready(false),
                true => Poll::Ready(true),
                false => Poll::Pending,
            }
        };
        found(&self.more, look).await
    }

    /// Ends [`keep`].
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.more.wake();
    }
}

/// Begins the addition of missing backups, while transactions run. Called whenever a site fails or
/// comes back, and whenever changes of a table are permitted again.
pub(super) fn restore<T: Transport>(conductor: &Conductor<T>) {
    conductor.repairs.look();
}

/// As [`restore`], when a site was readmitted: it learns the numbers of backups before it gets
/// copies.
pub(super) fn restore_at<T: Transport>(conductor: &Conductor<T>, site: SiteId) {
    conductor.repairs.state.lock().untold.insert(site);
    restore(conductor);
}

/// True for a site that may not know the numbers of backups.
pub(super) fn is_untold<T: Transport>(conductor: &Conductor<T>, site: SiteId) -> bool {
    conductor.repairs.state.lock().untold.contains(site)
}

/// Tells sites that were away the numbers of backups. A site that fails meanwhile is told after its
/// next readmission.
async fn tell_untold<T: Transport>(conductor: &Conductor<T>) {
    let untold = conductor.repairs.state.lock().untold.clone();
    for site in untold.iter() {
        let told = conductor.tell_all_backups(site, &conductor.design()).await;
        if told.is_ok() || !conductor.is_usable(site) {
            let mut state = conductor.repairs.state.lock();
            state.untold = state.untold.without(site);
        }
    }
}

/// Adds missing backups until the conductor is closed.
pub(super) async fn keep<T: Transport>(conductor: &Conductor<T>) {
    while conductor.repairs.next().await {
        add_lacking(conductor).await;
    }
}

/// Adds the replicas that partitions lack as backups, in passes until none is lacking. The wanted
/// number is a state, and each pass compares the design with it. So it does not matter why a pass
/// could not add a replica: a site may refuse a copy until it has dropped an older one, or be in a
/// takeover or readmission, or an operator's plan may hold the table.
async fn add_lacking<T: Transport>(conductor: &Conductor<T>) {
    loop {
        tell_untold(conductor).await;
        let mut plan = lacking(conductor, &conductor.design(), LACKING);
        let is_done = plan.is_empty() && !is_any_in_transit(conductor);
        if is_done || conductor.repairs.state.lock().is_closed {
            return;
        }
        plan.steps.retain(|step| is_possible(conductor, &step.change));
        if plan.is_empty() || conductor.carry_out_deferred(&plan, &|| true).await == 0 {
            pause(conductor).await;
        }
    }
}

/// True while a member counts as failed: it was readmitted, and the transport has not received its
/// next lease; or it has just failed. Whether it can have copies is known soon.
fn is_any_in_transit<T: Transport>(conductor: &Conductor<T>) -> bool {
    let is_gone = |site| matches!(conductor.transport.failure(site), Some(LogError::Gone { .. }));
    let is_member = |site| !conductor.membership.is_passed_by(site);
    conductor.design().sites().iter().any(|site| is_gone(site) && is_member(site))
}

/// Waits until another pass may add more: for a site that comes back or fails, or some ticks.
async fn pause<T: Transport>(conductor: &Conductor<T>) {
    let site = conductor.design().sites().iter().find(|site| conductor.is_usable(*site));
    let Some(site) = site else {
        conductor.repairs.next().await;
        return;
    };
    let ticks = async {
        for _ in 0..TICKS_BETWEEN_PASSES {
            conductor.transport.retry(site).await;
        }
    };
    select(pin!(conductor.repairs.next()), pin!(ticks)).await;
}

/// True if no site that takes steps of the change is down or being readmitted, and no plan of an
/// operator holds the table.
fn is_possible<T: Transport>(conductor: &Conductor<T>, change: &Change) -> bool {
    let tables = change.table().into_iter().collect();
    if conductor.reconfigurations.holder(&tables).is_some() {
        return false;
    }
    let (master, target) = sites_of(&conductor.design(), change);
    if target.is_some_and(|site| is_untold(conductor, site)) {
        return false;
    }
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
    let may_hold = |site| conductor.is_usable(site) && !is_drained(conductor, site);
    let changes = design.lacking(&domains, may_hold);
    Plan {
        reason: "tables are to have their backups".to_owned(),
        steps: changes.into_iter().map(|change| Step::new(change, reason)).collect(),
    }
}

/// False for a change of a design that would remove a needed backup.
pub(crate) fn leaves_backups<T: Transport>(
    conductor: &Conductor<T>,
    design: &Design,
    change: &Change,
) -> bool {
    check(conductor, design, change).is_ok()
}

/// Refuses a change that would remove a needed backup.
///
/// # Errors
/// [`Invalid::NeededBackup`].
pub(super) fn check<T: Transport>(
    conductor: &Conductor<T>,
    design: &Design,
    change: &Change,
) -> Result<(), Error> {
    let Change::RemoveReplica { table, start, site } = change else { return Ok(()) };
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
