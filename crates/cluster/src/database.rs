//! An open database: the public face of this crate.
//!
//! Submodules: how a database is [opened](opening), its [options], and its [background] threads.

mod background;
mod explorer;
mod home;
mod opening;
mod options;
mod ordered;
mod others;

pub use explorer::Explorer;
pub use options::Options;
pub(crate) use options::log_options;
pub use ordered::{FusedRows, OrderRouter, StatementTurn, order_hashes};
pub use others::Others;

use crate::catalog::Missing;
use crate::conductor::{
    ChangeEvent, Conductor, FailedOver, Job, is_returning, link_of, number_from, states,
};
use crate::embedded::{Embedded, Runtime, SiteReport};
use crate::error::Error;
use crate::fusion::is_reserved;
use crate::gateways::desk::Desk;
use crate::gateways::messages::Define;
use crate::node::{Endpoint, Node};
use crate::reach::Reach;
use crate::reconfiguration::{Control, Progress, Reconfiguration};
use crate::router::{Ran, Router, Session};
use crate::transport::Transport;
use background::Background;
use isomer_design::{
    Backups, Change, Design, Direction, Domains, Footprint, Key, KeyRange, Pins, Placement, Plan,
    Schema, SiteId, TableDesign, TableId, Time,
};
use isomer_log::LogError;
use isomer_site::{
    Abort, Body, CheckedWrites, CopyReport, Failure, Read, ReadSpan, Request, TimeSource, Txn,
};
use isomer_strategy::SiteLoad;
use ordered::OrderThreads;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The number of attempts for a procedure whose explored footprint was wrong.
const EXPLORED_MAX: usize = 20;
/// The strategy's state is written to disk after this number of design changes.
const REMEMBERED_EVERY: u64 = 500;

/// A database of several sites in this process.
///
/// ```
/// use isomer_cluster::{Database, Options};
/// use isomer_design::{Column, ColumnType, Footprint, Key, Schema, SiteId, Value};
///
/// # fn main() -> Result<(), isomer_cluster::Error> {
/// let db = Database::open(Options::in_memory(2))?;
/// let columns = vec![Column::new("id", ColumnType::Int64), Column::new("balance", ColumnType::Int64)];
/// let schema = Schema::new("accounts", columns, &["id"])?;
/// // Accounts below 100 begin at site 1, the others at site 2.
/// let accounts = db.create_table(schema.clone(), &[(Key::min(), SiteId(1)), (Key::int(100), SiteId(2))])?;
///
/// // A transfer over both sites: the design is rearranged so that one site can run it.
/// let mut session = db.session();
/// let (from, to) = (Key::int(7), Key::int(107));
/// let footprint = Footprint::new().write(accounts, from.clone()).write(accounts, to.clone());
/// let ran = db.run(&mut session, &footprint, |txn| {
///     let (_, row) = schema.encode_row(&[Value::Int64(7), Value::Int64(40)]).expect("it fits");
///     txn.put(accounts, &from, &row)?;
///     let (_, row) = schema.encode_row(&[Value::Int64(107), Value::Int64(60)]).expect("it fits");
///     txn.put(accounts, &to, &row)
/// })?;
/// assert!(ran.changes > 0, "a partition moved");
/// # Ok(())
/// # }
/// ```
pub struct Database {
    conductor: Arc<Conductor<Embedded>>,
    router: Arc<Router<Embedded>>,
    background: Background,
    sessions: AtomicU64,
    /// The sites of this process. They outlive a gateway whose conductor is in another process.
    node: Arc<Node>,
    /// Serves gateways of other processes, if the conductor is here and has a gateway.
    desk: OnceLock<Arc<Desk<Embedded>>>,
    failed_over: Arc<Mutex<Vec<FailedOver>>>,
    /// The engine of ordered tables, once there are any.
    order: Arc<OrderThreads>,
    notes: Vec<String>,
}

impl Database {
    /// True if opening the database has created it.
    pub fn is_new(&self) -> bool {
        self.node.storage.is_new()
    }

    /// Notes about the state in which the database was found.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Creates a table. `placement` has the first key and the master of each partition. The first
    /// partition begins at [`Key::min`].
    ///
    /// # Errors
    /// [`Error::TableExists`], [`Error::Invalid`]; nothing has changed then.
    pub fn create_table(
        &self,
        schema: Schema,
        placement: &[(Key, SiteId)],
    ) -> Result<TableId, Error> {
        if is_reserved(schema.name()) {
            return Err(Error::TableExists(schema.name().to_owned()));
        }
        let at = |(start, site): &(Key, SiteId)| (start.clone(), Placement::at(*site));
        let partitions: Vec<_> = placement.iter().map(at).collect();
        if link_of(&self.conductor).is_some() {
            let (id, schema) = (TableId(1), Arc::new(schema));
            let mut only = Design::new(self.design().sites().iter()).map_err(Box::new)?;
            only.create_table(id, schema, partitions).map_err(Box::new)?;
            let made = self.others().define(Define::CreateTable(only.to_text()))?;
            return Ok(TableId(made as u32));
        }
        self.node.runtime.block_on(self.conductor.create_table(schema, partitions))
    }

    /// Sets the number of backups of a table: a commit is acknowledged when that number of other
    /// sites has it. On return this holds for all rows of the table. Missing replicas are added,
    /// and replaced when their sites fail. If the files of a site are lost, the database can be
    /// opened without them ([`Options::accept_loss`]), and has all acknowledged commits.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there are too few sites. Nothing has changed then, except that
    /// replicas that were added stay.
    pub fn set_backups(&self, table: TableId, backups: Backups) -> Result<(), Error> {
        self.give_backups(table, backups, Missing::Refused)
    }

    /// As [`Database::set_backups`]; says whether backups may be missing.
    ///
    /// # Errors
    /// As [`Database::set_backups`].
    pub fn give_backups(
        &self,
        table: TableId,
        backups: Backups,
        missing: Missing,
    ) -> Result<(), Error> {
        if self.is_gateway_only() {
            return self.others().define(Define::Backups(table, backups, missing)).map(drop);
        }
        let given = self.conductor.give_backups(table, backups, missing);
        self.node.runtime.block_on(given)
    }

    /// Says which ranges of a table strategies leave where they are.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such table; nothing has changed then.
    pub fn set_pins(&self, table: TableId, pins: Pins) -> Result<(), Error> {
        if self.is_gateway_only() {
            return self.others().define(Define::Pins(table, pins.ranges().to_vec())).map(drop);
        }
        self.node.runtime.block_on(crate::conductor::set_pins(&self.conductor, table, pins))
    }

    /// Permits or stops the deferred changes of the strategy. Stopping drops the plans that wait,
    /// and completes the changes that have begun. Missing backups are added and replicas take over
    /// in any case.
    pub fn turn_plans(&self, on: bool) {
        if self.is_gateway_only() {
            // If the conductor is lost, the next one reads the setting.
            let _ = self.others().define(Define::TurnPlans(on));
            return;
        }
        crate::conductor::turn_plans(&self.conductor, on);
    }

    /// Removes a table with all its rows, at once. Transactions that read it have to restart.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such table.
    pub fn drop_table(&self, id: TableId) -> Result<(), Error> {
        if self.is_gateway_only() {
            return self.others().define(Define::DropTable(id)).map(drop);
        }
        self.node.runtime.block_on(self.conductor.drop_table(id))
    }

    /// The table of this name.
    ///
    /// # Errors
    /// [`Error::UnknownTable`].
    pub fn table(&self, name: &str) -> Result<(TableId, Arc<Schema>), Error> {
        self.find_table(name).ok_or_else(|| {
            let design = self.design();
            let known: Vec<&str> = design.tables().map(|(_, table)| table.name()).collect();
            Error::UnknownTable { name: name.to_owned(), known: known.join(", ") }
        })
    }

    /// The table of this name, if there is one.
    pub fn find_table(&self, name: &str) -> Option<(TableId, Arc<Schema>)> {
        self.design().find_table(name).map(|(id, table)| (id, table.schema().clone()))
    }

    /// A new session. Sessions are independent. Within one, each transaction sees the reads and
    /// writes of the earlier ones.
    pub fn session(&self) -> Session {
        let number = self.sessions.fetch_add(1, Ordering::Relaxed);
        Session::new(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Runs a transaction: at one site, on one snapshot, all or nothing.
    ///
    /// The footprint declares its reads and writes. The procedure may run again if its first run
    /// could not commit.
    ///
    /// # Errors
    /// [`Error`]; nothing was written then, unless [`Error::is_unknown`].
    pub fn run(
        &self,
        session: &mut Session,
        footprint: &Footprint,
        mut procedure: impl FnMut(&mut Txn<'_>) -> Result<(), Abort>,
    ) -> Result<Ran, Error> {
        self.node.runtime.block_on(self.router.run(session, footprint, &mut procedure))
    }

    /// Like [`Database::run`], and serializable: such transactions, and open ones that are
    /// [serializable](crate::Isolation::Serializable), behave as if each ran alone at the time of
    /// its commit.
    ///
    /// Its reads are locked as if they were writes, at their masters, from before it runs until it
    /// has committed. A read-only transaction locks nothing, because any snapshot is a place in the
    /// order of commits.
    ///
    /// # Errors
    /// As [`Database::run`].
    pub fn run_serializable(
        &self,
        session: &mut Session,
        footprint: &Footprint,
        mut procedure: impl FnMut(&mut Txn<'_>) -> Result<(), Abort>,
    ) -> Result<Ran, Error> {
        let locked = self.lock_all(session, footprint);
        let request = Request::new(&locked, Body::Here(&mut procedure)).serializable();
        let ran = self.node.runtime.block_on(self.router.serve(session, request, &mut |_| {}));
        ran.map(|(ran, _)| ran)
    }

    /// Like [`Database::call`], and serializable like [`Database::run_serializable`].
    ///
    /// # Errors
    /// As [`Database::run`].
    pub fn call_serializable(
        &self,
        session: &mut Session,
        footprint: &Footprint,
        name: &str,
        params: &[u8],
    ) -> Result<(Ran, Vec<u8>), Error> {
        let locked = self.lock_all(session, footprint);
        let request = Request::new(&locked, Body::Call { name, params }).serializable();
        self.node.runtime.block_on(self.router.serve(session, request, &mut |_| {}))
    }

    /// The footprint with the locks that a serializable transaction needs. Its commit is later than
    /// all commits acknowledged until now.
    fn lock_all(&self, session: &mut Session, footprint: &Footprint) -> Footprint {
        session.has_seen(self.router.present());
        match footprint.is_read_only() {
            true => footprint.clone(),
            false => footprint.clone().locked(),
        }
    }

    /// Calls a procedure that the database was [opened with](Options::procedure), as a transaction.
    /// Returns how it ran, and its output.
    ///
    /// # Errors
    /// As [`Database::run`].
    pub fn call(
        &self,
        session: &mut Session,
        footprint: &Footprint,
        name: &str,
        params: &[u8],
    ) -> Result<(Ran, Vec<u8>), Error> {
        let request = Request::new(footprint, Body::Call { name, params });
        self.node.runtime.block_on(self.router.serve(session, request, &mut |_| {}))
    }

    /// Writes rows as a transaction that expects certain versions of them. It is data, so the rows
    /// may be at any site.
    ///
    /// # Errors
    /// As [`Database::run`]; [`Abort::Changed`] if a row has another version.
    pub fn write(
        &self,
        session: &mut Session,
        footprint: &Footprint,
        writes: &CheckedWrites,
    ) -> Result<Ran, Error> {
        let request = Request::new(footprint, Body::Writes(writes));
        let ran = self.node.runtime.block_on(self.router.serve(session, request, &mut |_| {}));
        ran.map(|(ran, _)| ran)
    }

    /// Runs a transaction whose footprint is found by reading. `explore` reads without a
    /// transaction and returns the footprint. If the procedure goes outside of it, both run again.
    ///
    /// # Errors
    /// As [`Database::run`].
    pub fn run_exploring(
        &self,
        session: &mut Session,
        mut explore: impl FnMut(&mut Explorer<'_>) -> Result<Footprint, Error>,
        mut procedure: impl FnMut(&mut Txn<'_>) -> Result<(), Abort>,
    ) -> Result<Ran, Error> {
        let mut tries = 0;
        loop {
            tries += 1;
            let footprint = explore(&mut Explorer { database: self, session })?;
            match self.run(session, &footprint, &mut procedure) {
                Err(Error::Abort(Abort::OutsideFootprint { .. })) if tries < EXPLORED_MAX => {}
                result => return result,
            }
        }
    }

    /// Makes a change of the design, while transactions run.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it does not fit the design, [`Error::Change`] if a site refuses; the
    /// old design is in force then.
    pub fn change(&self, change: Change, reason: &str) -> Result<ChangeEvent, Error> {
        if self.is_gateway_only() {
            let begun = self.now();
            let text = change.to_text(&self.design());
            self.others().define(Define::Changes(vec![(change.clone(), reason.to_owned())]))?;
            let (reason, took_ns) = (reason.to_owned(), self.now().0.saturating_sub(begun.0));
            return Ok(ChangeEvent { change, text, reason, begun, took_ns, rows: 0, bytes: 0 });
        }
        self.node.runtime.block_on(self.conductor.change(change, reason))
    }

    /// Makes the changes of a plan, independent ones at once.
    ///
    /// # Errors
    /// The first error.
    pub fn change_all(&self, plan: &Plan) -> Result<Vec<ChangeEvent>, Error> {
        if self.is_gateway_only() {
            return self.others().define(Define::Changes(sent(plan))).map(|_| Vec::new());
        }
        self.node.runtime.block_on(self.conductor.change_all(plan))
    }

    /// Begins to carry out a plan beside the transactions, after validating it against the current
    /// design. Returns its number. Until it has ended, its tables are changed by others only if a
    /// transaction could not run otherwise.
    ///
    /// # Errors
    /// [`Error::InvalidPlan`]. [`Error::Reconfiguration`] if the plan is empty, adds or removes
    /// sites, or needs a table that another reconfiguration holds.
    pub fn reconfigure(&self, plan: Plan) -> Result<u64, Error> {
        if self.is_gateway_only() {
            let steps = sent(&plan);
            return self.others().define(Define::Reconfigure(plan.reason, steps));
        }
        self.conductor.reconfigure(plan)
    }

    /// Pauses, resumes or cancels a reconfiguration. A canceled one undoes its changes.
    ///
    /// # Errors
    /// [`Error::Reconfiguration`] if no reconfiguration has this number, or it is too late.
    pub fn control_reconfiguration(&self, number: u64, control: Control) -> Result<(), Error> {
        if self.is_gateway_only() {
            return self.others().define(Define::Control(number, control)).map(drop);
        }
        self.conductor.control_reconfiguration(number, control)
    }

    /// Begins a reconfiguration that undoes an earlier one. Returns its number.
    ///
    /// # Errors
    /// As [`Database::reconfigure`]: the design may have changed since.
    pub fn reverse_reconfiguration(&self, number: u64) -> Result<u64, Error> {
        if self.is_gateway_only() {
            return self.others().define(Define::Reverse(number));
        }
        self.conductor.reverse_reconfiguration(number)
    }

    /// The reconfigurations since the database was opened, the oldest first, with the last hundred
    /// of the ended ones.
    pub fn reconfigurations(&self) -> Vec<Reconfiguration> {
        self.conductor.reconfigurations()
    }

    /// The changes of the design that are being made, or wait.
    pub fn jobs(&self) -> Vec<Job> {
        self.conductor.jobs()
    }

    /// The current design.
    pub fn design(&self) -> Design {
        self.conductor.design()
    }

    /// The strategy's name.
    pub fn strategy(&self) -> &'static str {
        self.conductor.strategy().name()
    }

    /// The number of entries of the routing table, and their size in bytes.
    pub fn routing_size(&self) -> (usize, usize) {
        let table = self.conductor.routing_table();
        (table.entries(), table.bytes())
    }

    /// Calls `watcher` for every change from now on, on the thread that made it.
    pub fn watch(&self, watcher: impl Fn(&ChangeEvent) + Send + Sync + 'static) {
        self.conductor.watch(watcher);
    }

    /// The state of the sites of this process.
    pub fn sites(&self) -> Vec<SiteReport> {
        self.node.runtime.report(&self.node.checkpointer)
    }

    /// The load and location of the sites of other processes, as far as this process knows them.
    /// The process with the conductor knows which of them are back and not readmitted yet.
    pub fn sites_elsewhere(&self) -> Vec<(SiteLoad, Option<Reach>)> {
        let transport = self.conductor.transport();
        let elsewhere = |site: &SiteId| !self.node.runtime.hosts_site(*site);
        let design = self.design();
        let sites = design.sites().iter().filter(elsewhere);
        let reach = |site: SiteId| {
            let mut reach = transport.reach(site)?;
            if reach.trouble.is_none() && is_returning(&self.conductor, site) {
                reach.trouble = Some("it is back, and not readmitted yet".to_owned());
            }
            Some(reach)
        };
        sites.map(|site| (transport.load(site), reach(site))).collect()
    }

    /// The number of backups that partitions lack, of those that their tables ask for.
    pub fn backups_missing(&self) -> usize {
        let (design, transport) = (self.design(), self.conductor.transport());
        let all = KeyRange::all();
        let missing = |(id, table): (TableId, &TableDesign)| -> usize {
            let count = usize::from(table.backups().count);
            let is_there = |site: &SiteId| transport.failure(*site).is_none();
            let has = |placement: Placement| placement.replicas.iter().filter(is_there).count();
            let placed = design.partitions_in(id, &all);
            placed.map(|(_, placement)| count.saturating_sub(has(placement))).sum()
        };
        design.tables().filter(|(_, table)| table.backups().count > 0).map(missing).sum()
    }

    /// True if there are several processes and a partition of the table has too few backups at
    /// other processes than its master's. The loss of a process may then take more than one copy.
    pub fn has_backups_together(&self, table: TableId) -> bool {
        let (design, domains) = (self.design(), self.conductor.transport().domains());
        let Ok(found) = design.table(table) else { return false };
        let (count, all) = (usize::from(found.backups().count), KeyRange::all());
        let is_together =
            |placement: Placement| domains.beyond(placement.master, &placement.replicas) < count;
        domains != Domains::default()
            && design.partitions_in(table, &all).any(|(_, placement)| is_together(placement))
    }

    /// The sites that must not rejoin with empty files: they have rows, or no other site has taken
    /// over from them.
    pub fn sites_with_rows(&self) -> BTreeSet<SiteId> {
        let sites = self.design().sites().clone();
        sites.iter().filter(|site| !self.conductor.may_be_empty(*site)).collect()
    }

    /// The failure of a site's log, wherever the site is.
    pub fn failure(&self, site: SiteId) -> Option<LogError> {
        self.conductor.transport().failure(site)
    }

    /// The takeovers from sites whose logs have failed, with the outcome for their partitions.
    pub fn failed_over(&self) -> Vec<FailedOver> {
        self.failed_over.lock().clone()
    }

    /// Why the database cannot serve anything any more, and the way out. One cause is that every
    /// partition is at a site with a failed log, and has no copy that could take over. The other is
    /// that another process has taken a log, and with it the database.
    pub fn is_lost(&self) -> Option<String> {
        if let Some((site, fenced)) = self.node.runtime.fenced() {
            return Some(format!("another process has the database now: site {site}: {fenced}"));
        }
        if let Some(fenced) = self.node.storage.fenced() {
            return Some(format!("another process has the database now: its catalog: {fenced}"));
        }
        let passed_by = self.failed_over.lock();
        let passed_by = passed_by.iter().map(|done| done.site);
        // A site at a node may have rejoined.
        let passed_by: Vec<SiteId> =
            passed_by.filter(|site| self.failure(*site).is_some()).collect();
        let failed = *passed_by.iter().min()?;
        let design = self.design();
        let mut masters = design.tables().flat_map(|(_, table)| table.partitions().iter());
        let is_served = masters.any(|(_, placement)| !passed_by.contains(&placement.master));
        let why = self.failure(failed).map_or_else(String::new, |failure| failure.to_string());
        (!is_served).then(|| {
            format!(
                "nothing can be served any more: site {failed}: {why}; mend what keeps its log, and start again"
            )
        })
    }

    /// The memory limit for rows and index of each site, in bytes; `None` if there is none.
    pub fn site_memory(&self) -> Option<usize> {
        self.node.runtime.memory.get()
    }

    /// Sets the memory limit of each site in bytes, until the database is closed. A site beyond the
    /// new limit is full.
    pub fn set_site_memory(&self, bytes: Option<usize>) {
        self.node.runtime.memory.set(bytes);
    }

    /// Exempts a table from the memory limit: a table that must be written to before others can be
    /// dropped.
    pub fn spare(&self, table: TableId) {
        self.node.runtime.memory.spare(table);
    }

    /// Reads a range at one site, whatever its role there, including all commits until now. For
    /// checks that copies agree.
    ///
    /// # Errors
    /// [`Error::Failure`] if the site holds no copy.
    pub fn read_at(
        &self,
        site: SiteId,
        session: &Session,
        table: TableId,
        range: &KeyRange,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Error> {
        let transport = self.conductor.transport();
        let span = ReadSpan::Range(range, Direction::Forward);
        let read = Read { table, span, limit: usize::MAX };
        let mut visit = |key: &[u8], value: &[u8], _: Time| {
            visit(key, value);
            ControlFlow::Continue(())
        };
        self.node.runtime.block_on(async {
            loop {
                let at = self.router.present().max(session.seen());
                match transport.read_at(site, read, at, None, &mut visit).await {
                    // No lease covers this read, so the site may have freed the history. No rows
                    // were shown.
                    Err(Failure::Forgotten { .. }) => {}
                    // After a restart, the history of a copy may begin only at a later time.
                    Err(Failure::NotHere { .. }) if self.is_held(site, table, range) => {
                        transport.retry(site).await;
                    }
                    seen => break transport.until_durable(site, seen?).await,
                }
            }
        })?;
        Ok(())
    }

    fn is_held(&self, site: SiteId, table: TableId, range: &KeyRange) -> bool {
        let design = self.design();
        let mut partitions = design.partitions_in(table, range).peekable();
        partitions.peek().is_some()
            && partitions.all(|(_, placement)| placement.holders().contains(site))
    }

    /// Makes a checkpoint of every site and cuts its log, independent of the automatic ones
    /// ([`Options::checkpoints`]). Does nothing for a database in memory.
    ///
    /// # Errors
    /// [`Error::Checkpoint`]; the previous checkpoints stay in force.
    pub fn checkpoint(&self) -> Result<(), Error> {
        self.checkpoint_while(&|| true).map(drop)
    }

    /// Like [`Database::checkpoint`], while `goes_on` returns true. Returns false if it was
    /// stopped. Sites that have finished theirs keep it, the others keep the previous one.
    ///
    /// # Errors
    /// [`Error::Checkpoint`]; the previous checkpoints stay in force.
    pub fn checkpoint_while(&self, goes_on: &dyn Fn() -> bool) -> Result<bool, Error> {
        Ok(self.node.checkpoint_while(goes_on)?)
    }

    pub(crate) fn shared_router(&self) -> &Arc<Router<Embedded>> {
        &self.router
    }

    /// Writes the state of the strategy to disk, so that [`look`](crate::look) finds it.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn remember(&self) -> std::io::Result<()> {
        match (self.node.storage.folder(), self.conductor.memory()) {
            (Some(folder), Some(memory)) => folder.write_memory(self.strategy(), &memory),
            _ => Ok(()),
        }
    }

    /// True if the conductor is in another process.
    pub fn is_gateway_only(&self) -> bool {
        link_of(&self.conductor).is_some()
    }

    /// The gateways of other processes.
    pub fn others(&self) -> Others<'_> {
        Others::of(self)
    }

    /// The time of its sites.
    pub fn now(&self) -> Time {
        self.node.runtime.clock.now()
    }

    pub(crate) fn runtime(&self) -> &Arc<Runtime> {
        &self.node.runtime
    }

    /// The sites of this process, as other processes reach them.
    pub fn endpoint(&self) -> Endpoint {
        self.node.endpoint()
    }
}

/// The changes of a plan with their reasons.
fn sent(plan: &Plan) -> Vec<(Change, String)> {
    plan.steps.iter().map(|step| (step.change.clone(), step.reason.clone())).collect()
}

impl Drop for Database {
    fn drop(&mut self) {
        if self.is_gateway_only() {
            // The sites go on.
            self.background.join();
            return;
        }
        self.node.runtime.begin_to_close();
        ordered::stop_order(self);
        // The desk has the gateway, and with it the folder.
        self.node.runtime.desk.lock().take();
        self.conductor.close();
        self.node.checkpointer.stop();
        self.background.join();
        // If this fails, the strategy starts anew. No client is left to receive the error.
        let _ = self.remember();
    }
}

/// The copies at the sites of this process, each with its site. Reads all rows, to count them.
pub fn inventory(database: &Database) -> Vec<(SiteId, CopyReport)> {
    database.node.runtime.inventory()
}

/// The zone of a database's process, if it has one.
pub fn zone_of(database: &Database) -> Option<String> {
    database.node.runtime.zone()
}

/// Makes `number` the smallest number of the next reconfiguration, so that numbers in a history
/// that the database does not have stay unique.
pub fn number_reconfigurations_from(database: &Database, number: u64) {
    number_from(&database.conductor, number);
}

/// False for the removal of a replica that a table of a design needs as a backup.
pub fn is_permitted(database: &Database, design: &Design, change: &Change) -> bool {
    crate::conductor::leaves_backups(&database.conductor, design, change)
}

/// The numbers and states of [`Database::reconfigurations`], without their plans.
pub fn reconfiguration_states(database: &Database) -> Vec<(u64, Progress)> {
    states(&database.conductor)
}

/// True if the sites of a database are in several processes.
pub fn is_spread(database: &Database) -> bool {
    let (design, domains) = (database.design(), database.conductor.transport().domains());
    let sites = design.sites();
    sites.first().is_some_and(|first| domains.beyond(first, sites) > 0)
}
