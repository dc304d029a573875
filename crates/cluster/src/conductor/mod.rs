//! The conductor: the one place where the design of a database changes.
//!
//! ```text
//!   operators ─▶ definitions: tables, sites, backups  ─┐
//!   operators ─▶ reconfigurations: plans              ─┤          steps
//!   strategy  ─▶ deferred plans                       ─┼─▶ change ─────▶ sites
//!   router    ─▶ changes for a transaction, reserved  ─┤     │
//!   failures  ─▶ membership: takeover, readmission    ─┘     ├─▶ design ─▶ routing table ─▶ router
//!                                                            └─▶ watchers, strategy
//! ```
//!
//! It owns the design. A change is validated against the design, and its partitions are
//! [reserved](reservation). A [protocol] then carries it out at the sites, and one swap enters it
//! in the routing table. [Routers](crate::Router) read that table, an immutable value. In the
//! common case they ask nothing else of the conductor.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`change`] | one change: reserve, validate, carry out, enter, report; plans in stages |
//! | [`definitions`] | tables, sites and backups, which are in the conductor's log and in no site's |
//! | [`backups`] | missing backups of tables, and replicas that must stay |
//! | [`drained`] | sites that an operator has emptied, which get nothing new |
//! | [`pins`] | changes that a strategy may not make |
//! | [`reconfigure`] | the plans of operators, one change after the other |
//! | [`membership`] | the failure, takeover and readmission of sites |
//! | [`protocol`] | the steps of each change at the sites |
//! | [`reservation`] | ranges that one task changes or relies on |
//! | [`copy`] | the design of a conductor in another process |
//! | [`backlog`], [`event`] | deferred work; subscribers of changes |
//!
//! *Invariants.*
//! - A partition is changed by one task at a time, which has reserved it.
//! - A site holds what the design gives it, or is declared dead.
//! - The conductor's log has a table before any router sees it, and loses it before any site
//!   forgets it.

mod backlog;
mod backups;
mod change;
mod copy;
mod definitions;
mod drained;
mod event;
mod membership;
mod nodes;
mod ordered;
mod pins;
pub(crate) mod protocol;
mod reconfigure;
mod reservation;

pub use crate::catalog::Definition;
pub use change::Job;
pub(crate) use change::sites_of;
pub(crate) use copy::{
    become_conductor, begin_news, copy_of, follow, follow_anew, is_new, link_of,
};
pub use definitions::Home;
pub use drained::drain_reason;
pub(crate) use drained::is_drained;
pub use event::ChangeEvent;
pub use membership::FailedOver;
pub(crate) use membership::{Unheard, has_not_heard, is_returning};
pub(crate) use nodes::{add_node, remove_node};
pub(crate) use ordered::set_ordered;
pub(crate) use pins::{around_pins, set_pins, turn_plans};
pub(crate) use reservation::Reservation;

use crate::error::Error;
use crate::fusion::Mover;
use crate::gateways::link::Link;
use crate::gateways::messages::News;
use crate::gateways::news;
use crate::ordered::ahead::Ahead;
use crate::ordered::{OrderQueue, OrderedTables};
use crate::transport::Transport;
use arc_swap::ArcSwap;
use backlog::Backlog;
use backups::Repairs;
pub(crate) use backups::leaves_backups;
use change::Jobs;
use drained::Drained;
use event::Watchers;
use futures_util::StreamExt;
use futures_util::future::{Either, join, select};
use futures_util::stream::FuturesUnordered;
use isomer_design::{Change, Design, KeyRange, Plan, RoutingTable, SiteId, TableId, Time};
use isomer_strategy::{Cause, Occasion, SiteLoad, Strategy};
use membership::Membership;
use parking_lot::Mutex;
use reconfigure::Reconfigurations;
pub(crate) use reconfigure::{number_from, states};
use reservation::Reservations;
use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

/// The most deferred plans that wait; a plan beyond that is dropped, because the design would have
/// changed before its turn.
const PLANS_MAX: usize = 64;
/// The number of deferred plans that are carried out at once.
const PLANS_AT_ONCE: usize = 64;

/// The strategy of a conductor, and its environment.
pub(crate) struct Around {
    pub(crate) strategy: Box<dyn Strategy>,
    pub(crate) home: Box<dyn Home>,
}

/// See the [module documentation](self).
pub struct Conductor<T> {
    transport: T,
    around: Around,
    /// Set when a copy becomes the conductor.
    later: OnceLock<Around>,
    design: Mutex<Design>,
    table: ArcSwap<RoutingTable>,
    reservations: Reservations,
    watchers: Watchers,
    jobs: Jobs,
    reconfigurations: Reconfigurations,
    membership: Membership,
    deferred: Backlog<Plan>,
    repairs: Repairs,
    drained: Drained,
    /// No deferred change of the strategy begins.
    are_plans_off: AtomicBool,
    occasions: Backlog<Planning>,
    /// The highest number of a table so far: none is given twice while the process runs.
    last_table: Mutex<TableId>,
    /// The changes of the design, for gateways of other processes.
    pub(crate) news: news::Log,
    /// The tables whose transactions are ordered.
    pub(crate) ordered: OrderedTables,
    /// Their commits, which wait for the order.
    pub(crate) order: Arc<OrderQueue>,
    /// Statements on them that ask where to run.
    pub(crate) ahead: Ahead,
    /// Which of their rows move to the sites of this process.
    pub(crate) mover: Mover,
    /// The way to the conductor, if this one is, or was, only a copy.
    link: Option<Arc<Link>>,
    /// True while it is a copy.
    is_copy: AtomicBool,
}

/// A planning tick of the strategy.
#[derive(Clone, Copy)]
enum Planning {
    /// A decision left an opportunity: [`Strategy::plan`].
    ForOne(Time),
    /// The strategy has received the loads: [`Strategy::plan_globally`].
    Globally(Time),
}

impl<T: Transport> Conductor<T> {
    /// A conductor of sites that hold `design`. New tables get numbers above `last_table`.
    pub fn new(
        transport: T,
        design: Design,
        last_table: TableId,
        strategy: Box<dyn Strategy>,
        home: Box<dyn Home>,
    ) -> Conductor<T> {
        let ordered = OrderedTables::default();
        ordered.follow_design(&design);
        Conductor {
            transport,
            around: Around { strategy, home },
            later: OnceLock::new(),
            table: ArcSwap::from_pointee(RoutingTable::of(&design)),
            design: Mutex::new(design),
            reservations: Reservations::default(),
            watchers: Watchers::default(),
            jobs: Jobs::default(),
            reconfigurations: Reconfigurations::default(),
            membership: Membership::default(),
            deferred: Backlog::new(PLANS_MAX),
            repairs: Repairs::default(),
            drained: Drained::default(),
            are_plans_off: AtomicBool::new(false),
            occasions: Backlog::new(2),
            last_table: Mutex::new(last_table),
            news: news::Log::default(),
            ordered,
            order: Arc::default(),
            ahead: Ahead::default(),
            mover: Mover::default(),
            link: None,
            is_copy: AtomicBool::new(false),
        }
    }

    /// The way to the sites.
    pub fn transport(&self) -> &T {
        &self.transport
    }

    /// The strategy, which decides for routers and receives each change.
    pub fn strategy(&self) -> &dyn Strategy {
        &*copy::around(self).strategy
    }

    /// The knowledge and decisions of the strategy, as text. `None` if it learns nothing.
    pub fn memory(&self) -> Option<String> {
        self.strategy().memory(&self.design())
    }

    /// The current design; cheap.
    pub fn design(&self) -> Design {
        self.design.lock().clone()
    }

    /// The sites as members.
    pub(crate) fn membership(&self) -> &Membership {
        &self.membership
    }

    /// The current routing table.
    pub fn routing_table(&self) -> Arc<RoutingTable> {
        self.table.load_full()
    }

    /// The routing table for the length of one decision, without a shared counter.
    pub(crate) fn routing(&self) -> arc_swap::Guard<Arc<RoutingTable>> {
        self.table.load()
    }

    /// Calls `watcher` for every change from now on.
    pub fn watch(&self, watcher: impl Fn(&ChangeEvent) + Send + Sync + 'static) {
        self.watchers.add(Arc::new(watcher));
    }

    /// Reserves ranges that are a function of the design. Reserves again until the ranges match the
    /// design that is in force under the reservation.
    pub(crate) async fn reserve(
        &self,
        ranges: impl Fn(&Design) -> Vec<(TableId, KeyRange)>,
    ) -> Reservation<'_> {
        loop {
            let wanted = ranges(&self.design());
            let reserved = self.reservations.take(&wanted).await;
            if ranges(&self.design()) == wanted {
                return reserved;
            }
        }
    }

    /// Waits for each range until the task that holds it, or takes it during the wait, has released
    /// it.
    pub(crate) async fn passed(&self, ranges: &[(TableId, KeyRange)]) {
        self.reservations.passed(ranges).await;
    }

    /// Enters a change that sites have made in the design and in the routing table.
    fn enter(&self, change: &Change) -> Result<(), Error> {
        let mut design = self.design.lock();
        design.apply(change).map_err(Box::new)?;
        let table = self.table.load().after(&design, change);
        self.table.store(Arc::new(table));
        self.news.add(|| News::Changed(change.clone()));
        Ok(())
    }

    /// Reports the load of each site to the strategy, if it wants loads at `now`. The strategy then
    /// plans.
    pub(crate) fn tell_loads(&self, now: Time) {
        if self.strategy().wants_loads(now) {
            let (table, domains) = (self.table.load(), self.transport.domains());
            let sites = table.sites();
            let load = |site: SiteId| {
                let mut load = self.transport.load(site);
                if let Some(process) = &mut load.process {
                    let first = sites.iter().find(|other| domains.share(site, *other));
                    process.first = first.unwrap_or(site);
                }
                load
            };
            let loads: Vec<SiteLoad> = sites.iter().map(load).collect();
            self.strategy().loads(now, &loads);
            // If the queue is full, a planning tick is already pending, and one is enough.
            let _ = self.occasions.add(Planning::Globally(now));
        }
    }

    /// Queues the deferred changes of a decision for [`Conductor::run_deferred`], and its planning
    /// tick, if there is one, for [`Conductor::plan`].
    pub(crate) fn queue(&self, deferred: Plan, is_occasion: bool, now: Time) {
        self.defer(deferred);
        if is_occasion {
            let _ = self.occasions.add(Planning::ForOne(now));
        }
    }

    fn defer(&self, plan: Plan) {
        let plan = pins::permitted(self, plan);
        if plan.is_empty() {
            return;
        }
        if let Err(plan) = self.deferred.add(plan) {
            self.leave(plan.changes(), Cause::Queue, "too many plans were waiting");
        }
    }

    /// Carries out the work that no transaction waits for, until the conductor is
    /// [closed](Conductor::close): plans of the strategy, and missing backups. Runs beside the
    /// transactions. When this returns, all work that it began is done.
    pub async fn run_deferred(&self) {
        join(run_plans(self), backups::keep(self)).await;
    }

    /// Lets the strategy plan at each tick, until the conductor is [closed](Conductor::close). Runs
    /// beside the transactions and [`Conductor::run_deferred`], on a thread of its own if there are
    /// threads, because a plan may take seconds.
    pub async fn plan(&self) {
        while let Some(planning) = self.occasions.next().await {
            let (Planning::ForOne(now) | Planning::Globally(now)) = planning;
            let (design, worked_ns) = (&self.design(), &|| self.transport.worked_ns());
            let occasion = Occasion { now, design, worked_ns };
            match planning {
                Planning::ForOne(_) => self.defer(self.strategy().plan(&occasion)),
                Planning::Globally(_) => self.strategy().plan_globally(&occasion),
            }
        }
    }

    /// Ends [`Conductor::run_deferred`], [`Conductor::plan`], [`Conductor::run_reconfigurations`],
    /// [`Conductor::fail_over`] and [`Conductor::readmit_returned`].
    pub fn close(&self) {
        self.membership.close();
        self.deferred.close();
        self.repairs.close();
        self.occasions.close();
        self.reconfigurations.close();
    }
}

/// Carries out deferred plans, several at once. A plan may wait long for a partition without
/// delaying the plans behind it.
async fn run_plans<T: Transport>(conductor: &Conductor<T>) {
    let mut under_way = FuturesUnordered::new();
    loop {
        let plan = if under_way.is_empty() {
            conductor.deferred.next().await
        } else if under_way.len() >= PLANS_AT_ONCE {
            under_way.next().await;
            continue;
        } else {
            match select(pin!(conductor.deferred.next()), under_way.next()).await {
                Either::Left((plan, _)) => plan,
                Either::Right(_) => continue,
            }
        };
        let Some(plan) = plan else { break };
        under_way.push(async move {
            conductor.carry_out_deferred(&plan, &|| !pins::are_plans_off(conductor)).await;
        });
    }
    // Work that was begun is completed, because sites may have done more of it than the design
    // says.
    while under_way.next().await.is_some() {}
}
