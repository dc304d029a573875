//! Strategies: decide where transactions run and which changes of the design to make.
//!
//! This crate is the interface between the router, which asks and acts, and the planners, which
//! decide. It contains the trait [`Strategy`], the types that cross it, and the strategies that
//! need no planner. An embedder of the router therefore compiles no planner, and a planner does not
//! depend on the router.
//!
//! ```text
//!   isomer-plan ──▶ isomer-strategy ◀── isomer-cluster
//!      decide          contract             act
//! ```
//!
//! The router asks its strategy about every transaction and does what it answers. A strategy is a
//! function of its arguments and of the reports it has received. It has no access to sites,
//! sockets, threads or clocks, and it cannot alter the design, only request changes.
//!
//! ```text
//!   footprint ─▶ routing table ─▶ Route ──▶ Strategy::decide ──▶ Verdict::Run(Decision)
//!                                              ▲  │                 place: where it runs
//!                     design (cheap to clone) ─┘  │                 first: changes made before
//!                                                 │                 deferred: changes made later
//!                                                 │                 is_occasion: a plan is wanted
//!                 asked again, with the footprint ▼
//!                 reserved for it ◀──────── Verdict::Reserve
//!
//!   a transaction has run ───────▶ Strategy::observe     with times of its phases, if wanted
//!   a change was made or failed ─▶ Strategy::changed
//!   an occasion ─────────────────▶ Strategy::plan        on the thread that plans
//!   load of the sites ───────────▶ Strategy::loads       from time to time
//! ```
//!
//! | strategy | changes the design | if no site can run a transaction |
//! | --- | --- | --- |
//! | [`Static`] | never | refuses it |
//! | [`TwoPhase`] | never | runs it at several sites by two-phase commit |
//! | [`OnDemand`] | if necessary (MorphoSys, sections 3.1, 5.3.3) | enables one site to run it |
//!
//! The strategies with a planner are in `isomer-plan`: the autopilot, Clay, adaptive replication
//! and others.

pub mod batch;
mod needs;
mod on_demand;
mod static_design;
mod two_phase;

pub use needs::{Need, needs};
pub use on_demand::OnDemand;
pub use static_design::Static;
pub use two_phase::{TwoPhase, coordinator};

use isomer_design::{
    Change, Design, Footprint, HotLock, Plan, Route, SiteId, SiteSet, TableId, Time,
};

/// A transaction as a strategy sees it.
pub struct Request<'a> {
    /// The declared reads and writes.
    pub footprint: &'a Footprint,
    /// The sites that can run it under the current design.
    pub route: Route,
    /// The site of the last transaction of its session.
    pub last_site: Option<SiteId>,
    /// A number that differs between transactions, to break ties with.
    pub ticket: u64,
    /// The current time.
    pub now: Time,
    /// True if the partitions of the footprint are reserved: until the decision is carried out, no
    /// other change touches them.
    pub reserved: bool,
    /// Which part of the transaction the footprint covers.
    pub stage: Stage,
    /// Returns the design. Call it only if needed, because it takes a lock.
    pub design: &'a dyn Fn() -> Design,
}

/// Which part of a transaction a request covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stage {
    /// All of it, or the commit of an open transaction whose reads were not noted.
    #[default]
    Whole,
    /// The commit of an open transaction whose reads were noted. A request of stage
    /// [`Stage::Ended`] follows.
    Commit,
    /// An open transaction that has ended, with all its reads and writes. Requests of this stage
    /// come only for transactions that the strategy [wants](Strategy::wants).
    Ended,
}

/// The answer of a strategy to a request.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    /// Carry out this decision.
    Run(Decision),
    /// Ask again with the footprint reserved, because changes may be necessary first.
    Reserve,
}

/// A decision about a transaction.
#[derive(Clone, PartialEq, Debug)]
pub struct Decision {
    /// Where the transaction runs.
    pub place: Place,
    /// Changes that must be made before the transaction runs.
    pub first: Plan,
    /// Changes that the transaction does not wait for. They are made whether it commits or not.
    pub deferred: Plan,
    /// The strategy wants to [plan](Strategy::plan) now, beside the transactions.
    pub is_occasion: bool,
}

impl Decision {
    /// Run at one site without changes.
    pub fn at(site: SiteId) -> Decision {
        Decision::of(Place::At(site))
    }

    /// Run at several sites without changes.
    pub fn across(coordinator: SiteId) -> Decision {
        Decision::of(Place::Distributed { coordinator })
    }

    fn of(place: Place) -> Decision {
        let (first, deferred) = (Plan::default(), Plan::default());
        Decision { place, first, deferred, is_occasion: false }
    }
}

/// When a strategy plans, and what it is shown then.
pub struct Occasion<'a> {
    /// The time.
    pub now: Time,
    /// The design.
    pub design: &'a Design,
    /// The processor time of this thread so far, in nanoseconds; 0 where it is not measured.
    pub worked_ns: &'a dyn Fn() -> u64,
}

/// Where a transaction runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// At one site, which masters the write set and holds the read set.
    At(SiteId),
    /// At all sites that hold its keys, by two-phase commit.
    Distributed {
        /// The site that runs the procedure and decides the outcome.
        coordinator: SiteId,
    },
}

impl Place {
    /// The site where the procedure runs.
    pub fn site(self) -> SiteId {
        match self {
            Place::At(site) | Place::Distributed { coordinator: site } => site,
        }
    }
}

/// Why a strategy refuses a transaction.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// No single site can run it, and the strategy does not change the design.
    #[error(
        "no single site masters all that the transaction writes and holds all that it reads \
         ({footprint}), and the strategy `{strategy}` does not change the design; \
         use `on-demand` or `static-2pc`, or place these keys together"
    )]
    NotSingleSite {
        /// The footprint.
        footprint: String,
        /// The strategy's name.
        strategy: &'static str,
    },
    /// A table of the footprint does not exist.
    #[error("there is no table {0}; create it first")]
    UnknownTable(TableId),
}

/// The report of a transaction that has run.
pub struct Report<'a> {
    /// Its number, as in [`Request::ticket`].
    pub ticket: u64,
    /// Its reads and writes.
    pub footprint: &'a Footprint,
    /// The site where it ran; the coordinator, if it was distributed.
    pub site: SiteId,
    /// The number of changes that it waited for.
    pub changes: usize,
    /// The time when it ended.
    pub now: Time,
    /// The time from the session's request to its answer, in nanoseconds.
    pub latency_ns: u64,
    /// The times of its phases, if the strategy [wanted](Strategy::wants) them.
    pub measured: Option<Measured>,
}

/// The times of the phases of a transaction in nanoseconds, and its number of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Measured {
    /// The transfer to the site and back, including the wait for a thread.
    pub service_ns: u64,
    /// The wait for locks.
    pub lock_ns: u64,
    /// The wait for replicas to be up to date.
    pub wait_ns: u64,
    /// The run of the procedure.
    pub run_ns: u64,
    /// From the end of the procedure until the commit is durable.
    pub commit_ns: u64,
    /// The part of all these during which it held locks.
    pub held_ns: u64,
    /// The numbers of rows read and written.
    pub rows: [usize; 2],
}

/// The kind of reason for which a change was not made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Cause {
    /// It does not fit the design, which has changed since it was planned.
    Unfit,
    /// A site refused it.
    Site,
    /// A site, a log or a process failed.
    Failure,
    /// A change that it builds on was not made.
    Earlier,
    /// A reconfiguration holds its table.
    Held,
    /// An operator has pinned its range.
    Pinned,
    /// Changes of the design are turned off.
    Off,
    /// A restraint of the operator's: mode, window, budget or disturbance.
    Withheld,
    /// Too many plans were waiting.
    Queue,
}

impl Cause {
    /// The cause in one word.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Unfit => "unfit",
            Cause::Site => "site",
            Cause::Failure => "failure",
            Cause::Earlier => "earlier",
            Cause::Held => "held",
            Cause::Pinned => "pinned",
            Cause::Off => "off",
            Cause::Withheld => "withheld",
            Cause::Queue => "queue",
        }
    }
}

/// The reason why a change was not made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotMade {
    /// Its kind.
    pub cause: Cause,
    /// The reason as text.
    pub why: String,
}

/// The outcome of a change.
pub struct Changed<'a> {
    /// The change.
    pub change: &'a Change,
    /// The number of rows copied for it.
    pub rows: usize,
    /// The bytes of these rows.
    pub bytes: usize,
    /// Its duration in nanoseconds, or the reason why it failed.
    pub took_ns: Result<u64, NotMade>,
    /// The time when the outcome was known.
    pub now: Time,
}

/// The load of a site.
#[derive(Clone, PartialEq, Debug)]
pub struct SiteLoad {
    /// The site.
    pub site: SiteId,
    /// The share of processor time in use, from 0 to 1; `None` if unknown.
    pub busy: Option<f64>,
    /// The size of rows and indexes in bytes.
    pub memory_bytes: usize,
    /// The memory limit in bytes, if there is one.
    pub memory_max: Option<usize>,
    /// The locks with long queues of waiters.
    pub hot_locks: Vec<HotLock>,
    /// The process of the site, where it is known.
    pub process: Option<ProcessLoad>,
}

/// The load of a process: its sites, SQL for the clients that are connected to it, and routing.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ProcessLoad {
    /// The first of its sites.
    pub first: SiteId,
    /// The share of the time of its processors in use, from 0 to 1.
    pub busy: f64,
}

/// See the [module documentation](self).
pub trait Strategy: Send + Sync {
    /// The name by which users select it.
    fn name(&self) -> &'static str;

    /// Decides about a transaction. Called for every transaction, by many threads at once. A
    /// decision with changes in [`Decision::first`] is valid only if the footprint was reserved.
    ///
    /// # Errors
    /// [`Refused`] if the transaction cannot run.
    fn decide(&self, request: &Request<'_>) -> Result<Verdict, Refused>;

    /// True if the phases of the transaction with this ticket are to be measured.
    fn wants(&self, _ticket: u64) -> bool {
        false
    }

    /// Receives the report of a transaction.
    fn observe(&self, _report: &Report<'_>) {}

    /// Receives the outcome of a change, whether this strategy requested it or not.
    fn changed(&self, _changed: &Changed<'_>) {}

    /// Returns the learned state as text for [`Strategy::recall`], or `None` if there is none. This
    /// method and `recall` have no default, so that a strategy that wraps a second one cannot
    /// forget to pass on its state.
    fn memory(&self, design: &Design) -> Option<String>;

    /// Restores the state that [`Strategy::memory`] returned.
    ///
    /// # Errors
    /// A message, if the text is invalid. The strategy then starts without learned state.
    fn recall(&self, memory: &str) -> Result<(), String>;

    /// Plans for the opportunities that decisions have [left](Decision::is_occasion). Returns
    /// changes to make beside the transactions. Called by the one thread that plans.
    fn plan(&self, _occasion: &Occasion<'_>) -> Plan {
        Plan::default()
    }

    /// Plans for all transactions together; may take long. Called after [`Strategy::loads`], by the
    /// one thread that plans.
    fn plan_globally(&self, _occasion: &Occasion<'_>) {}

    /// True if [`Strategy::loads`] is due.
    fn wants_loads(&self, _now: Time) -> bool {
        false
    }

    /// Receives the loads of the sites.
    fn loads(&self, _now: Time, _loads: &[SiteLoad]) {}
}

/// Chooses one of the sites that can run a transaction: the site of its session's last transaction,
/// which need not wait for replication, or else a site by ticket, which spreads readers.
pub fn pick(candidates: &SiteSet, request: &Request<'_>) -> SiteId {
    if let Some(last) = request.last_site.filter(|&site| candidates.contains(site)) {
        return last;
    }
    let at = request.ticket as usize % candidates.len();
    candidates.nth(at).expect("a route has at least one site")
}

impl<S: Strategy + ?Sized> Strategy for std::sync::Arc<S> {
    fn name(&self) -> &'static str {
        S::name(self)
    }

    fn decide(&self, request: &Request<'_>) -> Result<Verdict, Refused> {
        S::decide(self, request)
    }

    fn wants(&self, ticket: u64) -> bool {
        S::wants(self, ticket)
    }

    fn observe(&self, report: &Report<'_>) {
        S::observe(self, report);
    }

    fn changed(&self, changed: &Changed<'_>) {
        S::changed(self, changed);
    }

    fn memory(&self, design: &Design) -> Option<String> {
        S::memory(self, design)
    }

    fn recall(&self, memory: &str) -> Result<(), String> {
        S::recall(self, memory)
    }

    fn plan(&self, occasion: &Occasion<'_>) -> Plan {
        S::plan(self, occasion)
    }

    fn plan_globally(&self, occasion: &Occasion<'_>) {
        S::plan_globally(self, occasion);
    }

    fn wants_loads(&self, now: Time) -> bool {
        S::wants_loads(self, now)
    }

    fn loads(&self, now: Time, loads: &[SiteLoad]) {
        S::loads(self, now, loads);
    }
}
