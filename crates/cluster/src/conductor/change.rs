//! How the design changes: in one place, one change after the other for each partition.
//!
//! ```text
//!   reserved ─▶ validated ─▶ steps at the sites ([`protocol`]) ─▶ routing table swapped ─▶ events
//!                            a job: under way, for operators
//! ```

use super::definitions::{definitions, until_returned};
use super::event::ChangeEvent;
use super::protocol::{self, Made};
use super::{Conductor, backups, pins};
use crate::error::Error;
use crate::transport::Transport;
use futures_util::future::join_all;
use isomer_design::{Change, Design, KeyRange, Plan, SiteId, Step, TableId, Time};
use isomer_log::LogError;
use isomer_site::Refusal;
use isomer_strategy::{Cause, Changed, NotMade};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// A change that is being made, or waits until it is.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// The change.
    pub change: Change,
    /// Why it is made.
    pub reason: String,
    /// When it was begun; `None` if it waits.
    pub begun: Option<Time>,
}

/// The changes that are being made.
#[derive(Default)]
pub(super) struct Jobs {
    under_way: Mutex<Vec<Job>>,
}

/// A job in the list of changes under way, until this is dropped.
struct UnderWay<'j> {
    jobs: &'j Jobs,
    job: Job,
}

impl Jobs {
    /// True if a change under way satisfies the predicate.
    pub(super) fn any(&self, is_such: impl Fn(&Change) -> bool) -> bool {
        self.under_way.lock().iter().any(|job| is_such(&job.change))
    }

    fn begin(&self, job: Job) -> UnderWay<'_> {
        self.under_way.lock().push(job.clone());
        UnderWay { jobs: self, job }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut under_way = self.jobs.under_way.lock();
        if let Some(at) = under_way.iter().position(|job| *job == self.job) {
            under_way.remove(at);
        }
    }
}

impl<T: Transport> Conductor<T> {
    /// Makes a change of the design, once no other task changes or relies on what it touches.
    ///
    /// # Errors
    /// [`Error::Invalid`] and [`Error::Change`]; the old design is in force then.
    pub async fn change(&self, change: Change, reason: &str) -> Result<ChangeEvent, Error> {
        if let Change::RemoveSite { site } = change {
            until_returned(self, site).await;
        }
        let _reserved = self.reserve(|design| touched(design, &change)).await;
        self.carry_out(change, reason).await
    }

    /// Makes the changes of a plan, those of different partitions at once.
    ///
    /// # Errors
    /// The first error; changes that do not depend on the failed one may have been made.
    pub async fn change_all(&self, plan: &Plan) -> Result<Vec<ChangeEvent>, Error> {
        let steps: Vec<&Step> = plan.steps.iter().collect();
        let _reserved = self.reserve(|design| touched_by(design, &steps)).await;
        self.carry_out_plan(plan).await
    }

    /// The changes that are being made, and those that wait for [`Conductor::run_deferred`].
    pub fn jobs(&self) -> Vec<Job> {
        let mut jobs = self.jobs.under_way.lock().clone();
        for waiting in self.deferred.waiting() {
            let waits = |step: Step| Job { change: step.change, reason: step.reason, begun: None };
            jobs.extend(waiting.steps.into_iter().map(waits));
        }
        jobs
    }

    /// Carries out a plan whose partitions are reserved. Stages after a failed one are dropped.
    pub(crate) async fn carry_out_plan(&self, plan: &Plan) -> Result<Vec<ChangeEvent>, Error> {
        let mut events = Vec::new();
        let mut stages = stages(&self.design(), plan).into_iter();
        while let Some(chains) = stages.next() {
            let chains = chains.into_iter().map(|chain| self.carry_out_chain(chain, &|| true));
            let done: Result<Vec<Vec<ChangeEvent>>, Error> =
                join_all(chains).await.into_iter().collect();
            if let Err(error) = &done {
                let left = stages.by_ref().flatten().flatten();
                self.leave(left.map(|step| &step.change), Cause::Earlier, &error.to_string());
            }
            events.extend(done?.into_iter().flatten());
        }
        Ok(events)
    }

    /// Carries out a plan that no transaction waits for, reserving each partition only for its own
    /// changes. A failed change stops the later changes of its partition and no others. No change
    /// begins while `may_begin` returns false. Returns the number of changes made.
    pub(super) async fn carry_out_deferred(
        &self,
        plan: &Plan,
        may_begin: &dyn Fn() -> bool,
    ) -> usize {
        let tables = plan.changes().filter_map(Change::table).collect();
        if let Some(number) = self.reconfigurations.holder(&tables) {
            let why = format!("reconfiguration {number} holds a table of it");
            self.leave(plan.changes(), Cause::Held, &why);
            return 0;
        }
        let mut made = 0;
        for chains in stages(&self.design(), plan) {
            let chains = chains.into_iter().map(|chain| async move {
                let _reserved = self.reserve(|design| touched_by(design, &chain)).await;
                // On an error, the strategy has already received the changes that were dropped.
                self.carry_out_chain(chain, may_begin).await.map_or(0, |events| events.len())
            });
            made += join_all(chains).await.into_iter().sum::<usize>();
        }
        made
    }

    /// Stops before the first change that may not begin.
    async fn carry_out_chain(
        &self,
        chain: Vec<&Step>,
        may_begin: &dyn Fn() -> bool,
    ) -> Result<Vec<ChangeEvent>, Error> {
        let mut events = Vec::new();
        let mut steps = chain.into_iter();
        while let Some(step) = steps.next() {
            if !may_begin() {
                let left = [step].into_iter().chain(steps).map(|step| &step.change);
                self.leave(left, Cause::Off, pins::OFF);
                break;
            }
            let made = self.carry_out(step.change.clone(), &step.reason).await;
            if let Err(error) = &made {
                let left = steps.by_ref().map(|step| &step.change);
                self.leave(left, Cause::Earlier, &error.to_string());
            }
            events.push(made?);
        }
        Ok(events)
    }

    /// Reports changes to the strategy that it asked for, and that will not be made.
    pub(super) fn leave<'c>(
        &self,
        changes: impl Iterator<Item = &'c Change>,
        cause: Cause,
        why: &str,
    ) {
        let now = self.transport.now();
        for change in changes {
            let took_ns = Err(NotMade { cause, why: why.to_owned() });
            self.strategy().changed(&Changed { change, rows: 0, bytes: 0, took_ns, now });
        }
    }

    /// Carries out a change whose partitions are reserved. Reports it to the strategy and the
    /// watchers.
    async fn carry_out(&self, change: Change, reason: &str) -> Result<ChangeEvent, Error> {
        let begun = self.transport.now();
        let job = Job { change: change.clone(), reason: reason.to_owned(), begun: Some(begun) };
        let under_way = self.jobs.begin(job);
        let made = self.make(&change).await;
        drop(under_way);
        let now = self.transport.now();
        let took_ns = now.0.saturating_sub(begun.0);
        let [rows, bytes] = *made.as_ref().unwrap_or(&[0; 2]);
        let took = made
            .as_ref()
            .map(|_| took_ns)
            .map_err(|error| NotMade { cause: error.cause(), why: error.to_string() });
        self.strategy().changed(&Changed { change: &change, rows, bytes, took_ns: took, now });
        made?;
        Ok(self.announce(change, reason, begun, (took_ns, [rows, bytes])))
    }

    /// Reports a change that was made to the watchers.
    fn announce(
        &self,
        change: Change,
        reason: &str,
        begun: Time,
        (took_ns, [rows, bytes]): (u64, [usize; 2]),
    ) -> ChangeEvent {
        let text = change.to_text(&self.design());
        let reason = reason.to_owned();
        let event = ChangeEvent { change, text, reason, begun, took_ns, rows, bytes };
        self.watchers.tell(&event);
        event
    }

    /// Reports a change that no task has asked for to the strategy and the watchers.
    pub(super) fn tell_of(&self, change: Change, reason: &str, begun: Time) {
        let now = self.transport.now();
        let took_ns = now.0.saturating_sub(begun.0);
        let took = Ok(took_ns);
        let changed = Changed { change: &change, rows: 0, bytes: 0, took_ns: took, now };
        self.strategy().changed(&changed);
        self.announce(change, reason, begun, (took_ns, [0; 2]));
    }

    /// Makes a change true at the sites and in the routing table. Returns the number of rows
    /// copied, and of their bytes.
    async fn make(&self, change: &Change) -> Result<[usize; 2], Error> {
        let before = self.design();
        before.validate(change).map_err(Box::new)?;
        match *change {
            Change::AddSite { site } => return self.add_site(site).await.map(|()| [0; 2]),
            Change::RemoveSite { site } => return self.remove_site(site).await.map(|()| [0; 2]),
            _ => {}
        }
        self.check_members(&before, change)?;
        backups::check(self, &before, change)?;
        // A replica that is removed leaves the routing table first, so no reader is sent to it. All
        // other changes are made at the sites before the router uses them.
        let routed_first = matches!(change, Change::RemoveReplica { .. });
        if routed_first {
            self.enter(change)?;
        }
        let made = protocol::carry_out(
            &self.transport,
            &before,
            change,
            |site| self.is_given_up(site),
            || self.membership.is_any_returning(),
        )
        .await;
        match made {
            Ok(Made { rows, bytes, is_acquired }) => {
                if !routed_first {
                    self.enter(change)?;
                }
                if let Change::Remaster { table, start, to } = change
                    && !is_acquired
                    && !self.is_given_up(*to)
                {
                    // The new master was readmitted before the change was entered.
                    let acquire = isomer_site::Step::Acquire(*table, start.clone());
                    let _ = protocol::ask(&self.transport, *to, acquire).await;
                }
                Ok([rows, bytes])
            }
            Err(refusal) => {
                let is_gone = matches!(refusal, Refusal::Log(LogError::Gone { .. }));
                if is_gone {
                    // Its readmission shows how much of the change it has made.
                    sites_of(&before, change).0.inspect(|site| self.give_up(*site));
                }
                // The site may have dropped its copy, and the master may have acknowledged commits
                // without it.
                if let (true, Change::RemoveReplica { table, start, site }) =
                    (routed_first && !is_gone, change)
                {
                    let (table, start, site) = (*table, start.clone(), *site);
                    self.enter(&Change::AddReplica { table, start, site })?;
                }
                Err(Error::Change { change: Box::new(change.clone()), refusal })
            }
        }
    }
}

/// The partitions that steps touch in the current design.
fn touched_by(design: &Design, steps: &[&Step]) -> Vec<(TableId, KeyRange)> {
    let mut ranges: Vec<_> = steps.iter().flat_map(|step| touched(design, &step.change)).collect();
    ranges.sort();
    ranges.dedup();
    ranges
}

/// The partitions that a change touches.
fn touched(design: &Design, change: &Change) -> Vec<(TableId, KeyRange)> {
    let at = |table: &TableId, key: &isomer_design::Key| {
        design.partition_of(*table, key).map(|(range, _)| (*table, range))
    };
    match change {
        Change::Split { table, at: key } => at(table, key).into_iter().collect(),
        Change::Merge { table, at: key } => {
            let left = design.table(*table).ok().and_then(|found| found.partitions().before(key));
            let left = left.and_then(|(start, _)| at(table, start));
            left.into_iter().chain(at(table, key)).collect()
        }
        Change::AddReplica { table, start, .. }
        | Change::RemoveReplica { table, start, .. }
        | Change::Remaster { table, start, .. } => at(table, start).into_iter().collect(),
        Change::AddSite { .. } | Change::RemoveSite { .. } => vec![definitions()],
    }
}

/// The stages of a plan, one after the other. Each stage consists of chains that are independent of
/// each other. A chain has the steps of one partition of the current design. A stage with a merge
/// is a single chain: partitions that merge become one, and a split in the same stage may have to
/// wait for that.
fn stages<'p>(design: &Design, plan: &'p Plan) -> Vec<Vec<Vec<&'p Step>>> {
    let splits = |step: &Step| matches!(step.change, Change::Split { .. });
    let moves = |step: &Step| {
        matches!(
            step.change,
            Change::AddReplica { .. } | Change::RemoveReplica { .. } | Change::Remaster { .. }
        )
    };
    let stages = plan.steps.chunk_by(|a, b| moves(a) == moves(b));
    let stages = stages.map(|stage| {
        if !stage.iter().all(|step| splits(step) || moves(step)) {
            return vec![stage.iter().collect()];
        }
        let mut chains: BTreeMap<_, Vec<&Step>> = BTreeMap::new();
        for step in stage {
            chains.entry(touched(design, &step.change)).or_default().push(step);
        }
        chains.into_values().collect()
    });
    stages.collect()
}

/// The sites that take steps of a change: the master, and the target if there is one.
pub(crate) fn sites_of(design: &Design, change: &Change) -> (Option<SiteId>, Option<SiteId>) {
    let (table, key, target) = match change {
        Change::Split { table, at } | Change::Merge { table, at } => (*table, at, None),
        Change::AddReplica { table, start, site }
        | Change::RemoveReplica { table, start, site } => (*table, start, Some(*site)),
        Change::Remaster { table, start, to } => (*table, start, Some(*to)),
        Change::AddSite { .. } | Change::RemoveSite { .. } => return (None, None),
    };
    let master = design.partition_of(table, key).map(|(_, placement)| placement.master);
    (master, target)
}
