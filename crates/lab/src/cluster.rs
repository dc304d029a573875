//! A database on virtual machines: setup, loading, and the check at the end.

use crate::costs::Costs;
use crate::drive::Drive;
use crate::machines::{Hardware, Machines};
use crate::system::{Decider, System};
use crate::transport::LabTransport;
use isomer_cluster::{Conductor, Router, Session};
use isomer_design::{
    Change, Design, Footprint, Key, KeyRange, Placement, Schema, SiteId, TableId, Time,
};
use isomer_plan::strategy::Learned;
use isomer_sim::world::World;
use isomer_site::{Abort, Txn};
use isomer_workload::{Examiner, LoadRow, Totals};
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

/// The maximum number of rows loaded by one transaction.
const BATCH_ROWS: usize = 1000;
/// The number of tasks that add replicas concurrently during setup.
const BUILDERS: usize = 32;
/// The limit of virtual time for setup and for the check; beyond it they count as hung.
const PATIENCE_NS: u64 = 3_600_000_000_000;

/// See the [module documentation](self).
pub(crate) struct Cluster {
    pub(crate) world: Rc<World>,
    pub(crate) machines: Rc<Machines>,
    pub(crate) conductor: Arc<Conductor<LabTransport>>,
    pub(crate) router: Router<LabTransport>,
    /// The autopilot, if the system uses it.
    pub(crate) learned: Option<Arc<Learned>>,
}

/// An initial partition with its placement and rows.
struct Part {
    table: TableId,
    range: KeyRange,
    placement: Placement,
    rows: Vec<LoadRow>,
}

impl Cluster {
    /// Starts a database, creates the tables of a workload, and loads its rows with the initial
    /// placement of a system.
    ///
    /// # Errors
    /// The problem in words.
    pub(crate) fn start(
        world: Rc<World>,
        hardware: Hardware,
        costs: &Costs,
        system: &System,
        workload: &impl Drive,
        partition_rows: u64,
    ) -> Result<Rc<Cluster>, String> {
        // A serial system executes one transaction at a time, so none waits for a disk.
        let sync_us = if system.serial { 0 } else { hardware.sync_us };
        let hardware = Hardware { sync_us, ..hardware };
        let machines = Machines::start(world.clone(), hardware, costs);
        let sites = (1..=machines.hardware.sites).map(SiteId);
        let design = Design::new(sites).map_err(|invalid| invalid.to_string())?;
        let Decider { strategy, learned } = (system.strategy)();
        let transport = LabTransport::new(machines.clone());
        let conductor = Conductor::new(transport, design, TableId(0), strategy, Box::new(()));
        #[allow(clippy::arc_with_non_send_sync, reason = "on threads it is shared")]
        let conductor = Arc::new(conductor);
        let router = Router::new(conductor.clone());
        let cluster = Rc::new(Cluster { world, machines, conductor, router, learned });
        let parts = cluster.parts(system, workload, partition_rows);
        if system.serial {
            let parts =
                parts.iter().map(|part| (part.table, &part.range.start, part.placement.master));
            cluster.machines.make_serial(parts);
        }
        let problem = Rc::new(RefCell::new(None));
        let setting_up = {
            let (cluster, problem) = (cluster.clone(), problem.clone());
            let tables = workload.tables();
            cluster.clone().world.spawn("set-up".into(), async move {
                let done = cluster.set_up(tables, parts).await;
                *problem.borrow_mut() = done.err();
            })
        };
        let world = &cluster.world;
        world.run_for(PATIENCE_NS, || world.is_done(setting_up));
        cluster.finished(world.is_done(setting_up), "the set-up")?;
        let problem = problem.take();
        problem.map_or(Ok(cluster), Err)
    }

    /// The initial partitions of a workload, with the borders that the workload requests.
    fn parts(&self, system: &System, workload: &impl Drive, rows: u64) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        let borders = workload.borders(rows);
        for (table, _) in workload.tables() {
            let starts = std::iter::once(Key::min())
                .chain(borders.get(&table).into_iter().flatten().cloned());
            let starts: Vec<Key> = starts.collect();
            let everywhere = system.knows && workload.constant_tables().contains(&table);
            for (at, start) in starts.iter().enumerate() {
                let range = KeyRange::new(start.clone(), starts.get(at + 1).cloned());
                let placement = system.place(
                    at,
                    starts.len(),
                    self.machines.hardware.sites,
                    &self.world,
                    everywhere,
                );
                parts.push(Part { table, range, placement, rows: Vec::new() });
            }
        }
        let mut at = 0;
        for row in workload.load() {
            while parts[at].table != row.table || !parts[at].range.contains(&row.key) {
                at += 1;
            }
            parts[at].rows.push(row);
        }
        parts
    }

    async fn set_up(
        self: &Rc<Cluster>,
        tables: Vec<(TableId, Schema)>,
        parts: Vec<Part>,
    ) -> Result<(), String> {
        for (id, schema) in tables {
            let of_table = || parts.iter().filter(|part| part.table == id);
            let masters = of_table()
                .map(|part| (part.range.start.clone(), Placement::at(part.placement.master)));
            let created = self.conductor.create_table_as(id, schema, masters.collect()).await;
            created.map_err(|error| error.to_string())?;
        }
        let mut replicas = Vec::new();
        for part in parts {
            self.load(&part).await?;
            let Part { table, range, placement, .. } = part;
            let adds = placement.replicas.iter().map(|site| Change::AddReplica {
                table,
                start: range.start.clone(),
                site,
            });
            replicas.extend(adds);
        }
        self.make_all(replicas).await
    }

    async fn load(&self, part: &Part) -> Result<(), String> {
        let site = &self.machines.host(part.placement.master).site;
        for rows in part.rows.chunks(BATCH_ROWS) {
            let (first, last) = (&rows[0], &rows[rows.len() - 1]);
            let range = KeyRange::new(first.key.clone(), Some(last.key.successor()));
            let footprint = Footprint::new().write_range(part.table, range);
            let mut insert = |txn: &mut Txn<'_>| -> Result<(), Abort> {
                rows.iter().try_for_each(|row| txn.insert(row.table, &row.key, &row.row))
            };
            let loaded = site.execute(&footprint, Time::ZERO, &mut insert).await;
            loaded.map_err(|failure| failure.to_string())?;
        }
        Ok(())
    }

    /// Makes changes, up to `BUILDERS` at a time.
    async fn make_all(self: &Rc<Cluster>, changes: Vec<Change>) -> Result<(), String> {
        let left = Rc::new(RefCell::new(changes.into_iter()));
        let problem = Rc::new(RefCell::new(None));
        let builders: Vec<_> = (0..BUILDERS)
            .map(|_| {
                let (cluster, left, problem) = (self.clone(), left.clone(), problem.clone());
                self.world.spawn("builder".into(), async move {
                    loop {
                        let Some(change) = left.borrow_mut().next() else { break };
                        if let Err(error) = cluster.conductor.change(change, "set-up").await {
                            *problem.borrow_mut() = Some(error.to_string());
                        }
                    }
                })
            })
            .collect();
        while !builders.iter().all(|builder| self.world.is_done(*builder)) {
            self.world.sleep(100_000).await;
        }
        problem.take().map_or(Ok(()), Err)
    }

    /// Reads every row at its master and runs the examiner of the workload over all rows.
    pub(crate) fn examine<W: Drive>(self: &Rc<Cluster>, workload: &W) -> Result<Totals, String> {
        self.machines.set_charging(false);
        let found = Rc::new(RefCell::new(Ok(Totals::default())));
        let reading = {
            let (cluster, found, workload) = (self.clone(), found.clone(), workload.clone());
            self.world.spawn("audit".into(), async move {
                let mut examiner = workload.examiner();
                let totals = cluster.read_all(&mut *examiner).await;
                *found.borrow_mut() = totals.and_then(|totals| examiner.verdict().map(|()| totals));
            })
        };
        self.world.run_for(PATIENCE_NS, || self.world.is_done(reading));
        self.finished(self.world.is_done(reading), "the audit")?;
        found.replace(Ok(Totals::default()))
    }

    async fn read_all(&self, examiner: &mut dyn Examiner) -> Result<Totals, String> {
        let design = self.conductor.design();
        let mut all = Totals::default();
        for (table, found) in design.tables() {
            for (range, placement) in found.partitions_in(&KeyRange::all()) {
                let site = &self.machines.host(placement.master).site;
                let footprint = Footprint::new().read_range(table, range.clone());
                let mut read = |txn: &mut Txn<'_>| {
                    txn.scan(table, &range, |key, row| {
                        all.count(row);
                        examiner.see(table, key, row);
                        ControlFlow::Continue(())
                    })
                };
                let done = site.execute(&footprint, Time::ZERO, &mut read).await;
                done.map_err(|failure| failure.to_string())?;
            }
        }
        Ok(all)
    }

    pub(crate) fn finished(&self, done: bool, what: &str) -> Result<(), String> {
        match self.world.panicked() {
            Some(said) => Err(format!("{what} panicked: {said}")),
            None if !done => Err(format!("{what} came to no end")),
            None => Ok(()),
        }
    }
}

/// Creates a session for a client.
pub(crate) fn session(client: u64) -> Session {
    Session::new(client)
}
