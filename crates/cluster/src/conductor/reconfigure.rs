//! Reconfigurations: the conductor makes the changes of operators' plans, one after the other.
//!
//! The state machine ([`crate::reconfiguration`]) decides what each event means for a plan. This
//! module carries out its changes and keeps the list of all reconfigurations.

use super::backlog::found;
use super::{Conductor, backups, drained};
use crate::error::Error;
use crate::reconfiguration::{Control, Progress, Reconfiguration};
use crate::transport::Transport;
use isomer_design::{Change, Design, Plan, SiteId, Step, TableId};
use isomer_store::Waiters;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::task::Poll;

/// The number of ended reconfigurations that are remembered.
const ENDED_MAX: usize = 100;

/// All reconfigurations that are remembered, the oldest first.
#[derive(Default)]
pub(super) struct Reconfigurations {
    list: Mutex<List>,
    /// Wakes the task that makes their changes.
    more: Waiters,
}

#[derive(Default)]
struct List {
    all: Vec<Reconfiguration>,
    count: u64,
    is_closed: bool,
}

impl List {
    fn get(&mut self, number: u64) -> Result<&mut Reconfiguration, Error> {
        let why = match (1..=self.count).contains(&number) {
            true => format!("reconfiguration {number} is of the past, and is not remembered"),
            false => format!("there is no reconfiguration {number}"),
        };
        let found = self.all.iter_mut().find(|it| it.number == number);
        found.ok_or(Error::Reconfiguration(why))
    }

    /// The first reconfiguration that holds one of these tables.
    fn holder(&self, tables: &BTreeSet<TableId>) -> Option<&Reconfiguration> {
        let holds = |it: &&Reconfiguration| !it.has_ended() && !it.tables().is_disjoint(tables);
        self.all.iter().find(holds)
    }

    fn forget_old(&mut self) {
        let ended = self.all.iter().filter(|it| it.has_ended()).count();
        let mut surplus = ended.saturating_sub(ENDED_MAX);
        self.all.retain(|it| {
            let is_kept = surplus == 0 || !it.has_ended();
            surplus -= usize::from(!is_kept);
            is_kept
        });
    }
}

impl Reconfigurations {
    /// The number of the reconfiguration that holds one of these tables.
    pub(super) fn holder(&self, tables: &BTreeSet<TableId>) -> Option<u64> {
        self.list.lock().holder(tables).map(|it| it.number)
    }

    pub(super) fn close(&self) {
        self.list.lock().is_closed = true;
        self.more.wake();
    }

    /// Waits for the next change of any reconfiguration, and returns it with the reconfiguration's
    /// number. `None` once closed.
    async fn next(&self) -> Option<(u64, Step)> {
        let look = || {
            let mut list = self.list.lock();
            if list.is_closed {
                return Poll::Ready(None);
            }
            let next = |it: &mut Reconfiguration| Some((it.number, it.take_next()?));
            match list.all.iter_mut().find_map(next) {
                Some(next) => Poll::Ready(Some(next)),
                None => Poll::Pending,
            }
        };
        found(&self.more, look).await
    }
}

impl<T: Transport> Conductor<T> {
    /// Begins to carry out a plan, after validating it against the current design. Returns its
    /// number.
    ///
    /// # Errors
    /// [`Error::InvalidPlan`]. [`Error::Reconfiguration`] if the plan is empty, adds or removes
    /// sites, or needs a table that another reconfiguration holds.
    pub fn reconfigure(&self, plan: Plan) -> Result<u64, Error> {
        let refused = |what: &str| Err(Error::Reconfiguration(what.to_owned()));
        let drained = drained::drained_by(&plan);
        if plan.is_empty() && drained.is_empty() {
            return refused("the plan has no changes");
        }
        if plan.changes().any(Change::is_of_sites) {
            return refused("a plan cannot add or remove sites; do that before or after it");
        }
        plan.validate(&self.design()).map_err(Box::new)?;
        let mut list = self.reconfigurations.list.lock();
        let begun = Reconfiguration::new(list.count + 1, plan, self.transport.now());
        if let Some(holder) = list.holder(&begun.tables()) {
            let number = holder.number;
            return refused(&format!(
                "reconfiguration {number} holds a table of the plan; wait until it has ended, or cancel it"
            ));
        }
        list.count += 1;
        let number = begun.number;
        list.all.push(begun);
        drop(list);
        drained::note(self, &drained, number);
        self.reconfigurations.more.wake();
        Ok(number)
    }

    /// Pauses, resumes or cancels a reconfiguration.
    ///
    /// # Errors
    /// [`Error::Reconfiguration`] if no reconfiguration has this number, or it is too late.
    pub fn control_reconfiguration(&self, number: u64, control: Control) -> Result<(), Error> {
        let now = self.transport.now();
        let asked = self.reconfigurations.list.lock().get(number)?.control(control, now);
        asked.map_err(Error::Reconfiguration)?;
        self.reconfigurations.more.wake();
        Ok(())
    }

    /// Begins a reconfiguration that undoes an earlier one. Returns its number.
    ///
    /// # Errors
    /// As [`Conductor::reconfigure`]: the design may have changed since. [`Error::Reconfiguration`]
    /// if it was reversed already.
    pub fn reverse_reconfiguration(&self, number: u64) -> Result<u64, Error> {
        let plan = {
            let mut list = self.reconfigurations.list.lock();
            let it = list.get(number)?.clone();
            if let Some(other) = it.reversed_by(&list.all) {
                let other = other.number;
                let why =
                    format!("reconfiguration {number} is reversed by reconfiguration {other}");
                return Err(Error::Reconfiguration(why));
            }
            it.reverse().map_err(Error::Reconfiguration)?
        };
        let reversal = self.reconfigure(plan)?;
        // Only operators look at this.
        if let Ok(it) = self.reconfigurations.list.lock().get(reversal) {
            it.reverses = Some(number);
        }
        Ok(reversal)
    }

    /// All reconfigurations that are remembered, the oldest first.
    pub fn reconfigurations(&self) -> Vec<Reconfiguration> {
        self.reconfigurations.list.lock().all.clone()
    }

    /// Makes the changes of reconfigurations until the conductor is [closed](Conductor::close).
    /// Runs beside the transactions.
    pub async fn run_reconfigurations(&self) {
        while let Some((number, step)) = self.reconfigurations.next().await {
            let before = master_before(&self.design(), &step.change);
            let made = self.change(step.change.clone(), &step.reason).await;
            let now = self.transport.now();
            let mut list = self.reconfigurations.list.lock();
            let it = list.get(number).expect("what has not ended is remembered");
            match made {
                Ok(event) => {
                    let copied = [event.rows, event.bytes];
                    it.changed(step.change.opposite(before), copied, now);
                }
                Err(error) => {
                    let is_so_already = self.design().is_so_already(&step.change);
                    it.refused(error.to_string(), is_so_already, now);
                }
            }
            let has_ended = it.has_ended();
            list.forget_old();
            drop(list);
            if has_ended {
                // No backup was added to its tables while it held them.
                backups::restore(self);
            }
        }
    }
}

/// Makes `number` the smallest number of the next reconfiguration.
pub(crate) fn number_from<T: Transport>(conductor: &Conductor<T>, number: u64) {
    let mut list = conductor.reconfigurations.list.lock();
    list.count = list.count.max(number.saturating_sub(1));
}

/// The numbers and states of all reconfigurations that are remembered, the oldest first.
pub(crate) fn states<T: Transport>(conductor: &Conductor<T>) -> Vec<(u64, Progress)> {
    conductor.reconfigurations.list.lock().all.iter().map(|it| (it.number, it.progress)).collect()
}

/// The state of a reconfiguration that is remembered.
pub(super) fn progress_of<T: Transport>(conductor: &Conductor<T>, number: u64) -> Option<Progress> {
    conductor.reconfigurations.list.lock().get(number).ok().map(|it| it.progress)
}

/// The master of the partition that a change is about.
fn master_before(design: &Design, change: &Change) -> SiteId {
    let place = change.table().zip(change.start());
    let found = place.and_then(|(table, start)| design.partition_of(table, start));
    let first = || design.sites().first().expect("a design has a site");
    found.map_or_else(first, |(_, placement)| placement.master)
}
