//! Clients in a closed loop: each sends its next transaction when it has the answer to the previous
//! one.
//!
//! Each client has its own stack ([`isomer_sim::world`]), so its procedure can be suspended. After
//! the procedure has run, the client spends the time that its rows, partitions and commit cost, and
//! only then commits. Virtual time thus passes with the locks held, and contention is real.

use crate::cluster::{Cluster, session};
use crate::costs::Work;
use crate::drive::Drive;
use crate::tally::{Done, Tally};
use isomer_cluster::{Abort, Error, Txn};
use isomer_design::{Footprint, TableId};
use isomer_sim::world::{Stack, TaskId};
use isomer_strategy::Place;
use isomer_workload::{Outcome, Transaction, Watch, Watched, random};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The state shared by all clients.
pub(crate) struct Clients {
    pub(crate) cluster: Rc<Cluster>,
    pub(crate) tally: RefCell<Tally>,
    /// The virtual time at which they began.
    pub(crate) begun_ns: u64,
    pub(crate) stopping: Cell<bool>,
}

impl Clients {
    /// Starts `count` clients.
    pub(crate) fn start<W: Drive>(
        self: &Rc<Clients>,
        workload: &W,
        count: u64,
        seed: u64,
    ) -> Vec<TaskId> {
        let start = |number: u64| {
            let (clients, mut workload) = (self.clone(), workload.clone());
            workload.become_client(number, count);
            let rng = random(seed.wrapping_mul(1_000_003).wrapping_add(number));
            self.cluster.world.spawn_on_stack(String::new(), move |stack| {
                Box::pin(async move { clients.go(workload, number, rng, stack).await })
            })
        };
        (0..count).map(start).collect()
    }

    async fn go<W: Drive>(
        &self,
        mut workload: W,
        number: u64,
        mut rng: isomer_workload::Random,
        stack: Stack<'_>,
    ) {
        let Cluster { world, machines, router, .. } = &*self.cluster;
        let mut session = session(number);
        let mut footprint = Footprint::new();
        // Spreads the first transactions over 10 ms.
        world.sleep(world.draw(0..10_000_000)).await;
        while !self.stopping.get() {
            let begun = world.now().0;
            workload.time_passes((begun - self.begun_ns) as f64 / 1e9);
            let transaction = workload.next(&mut rng);
            footprint.clear();
            transaction.footprint_into(&mut footprint);
            let mut end = None;
            let mut procedure = |txn: &mut Txn<'_>| {
                let mut data = Watched { txn, watch: Work::default() };
                let outcome = transaction.run(&mut data)?;
                let spend_ns = machines.costs.of_work(data.txn, data.watch);
                let abort = outcome.rolled_back().map(Abort::because);
                end = Some(outcome);
                world.pause(stack, machines.charge(spend_ns));
                abort.map_or(Ok(()), Err)
            };
            let result = router.run(&mut session, &footprint, &mut procedure).await;
            let now = world.now().0;
            let mut tally = self.tally.borrow_mut();
            match (result, end) {
                (Ok(ran), Some(Outcome::Commit { added })) => tally.commit(&Done {
                    kind: transaction.name(),
                    now_ns: now,
                    took_ns: now - begun,
                    added,
                    across: matches!(ran.place, Place::Distributed { .. }),
                }),
                (Err(Error::Abort(Abort::Rolled(_))), Some(Outcome::Rollback { .. })) => {
                    tally.rolled_back += 1;
                }
                (Err(Error::Refused(_)), _) => tally.refused += 1,
                (Err(error), _) => tally.fail(format!("{}: {error}", transaction.name())),
                (Ok(_), _) => {
                    tally.fail(format!("{}: committed without an end", transaction.name()))
                }
            }
        }
    }
}

impl Watch for Work {
    fn read(&mut self, _table: TableId, _key: &[u8], _row: Option<&[u8]>) {
        self.reads += 1;
    }

    fn wrote(&mut self) {
        self.writes += 1;
    }

    fn met(&mut self) {
        self.scanned += 1;
    }
}
