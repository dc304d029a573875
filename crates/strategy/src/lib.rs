//! Strategies: what decides where a transaction runs, and what is changed for it.
//!
//! This crate holds the contract between the router, which asks and acts, and the planners, which
//! decide: the trait [`Strategy`], what crosses it, and the strategies that need no planner. So an
//! embedder of the router compiles no planner, and a planner knows no router.
//!
//! ```text
//!   isomer-plan ──▶ isomer-strategy ◀── isomer-cluster
//!      decide          contract             act
//! ```
//!
//! The router asks its strategy once for every transaction, and does what it says. A strategy is a
//! pure function of what it is shown and of what it has been told before: it knows no sites, sockets,
//! threads or clocks, and it cannot alter the design, only ask for changes.
//!
//! ```text
//!   footprint ─▶ routing table ─▶ Route ──▶ Strategy::decide ──▶ Verdict::Run(Decision)
//!                                              ▲  │                 place: where it will run
//!                     design (cheap to clone) ─┘  │                 first: changes it must wait for
//!                                                 │                 meanwhile: changes that may pay later
//!                 asked again, with the footprint ▼
//!                 reserved for it ◀──────── Verdict::Reserve
//!
//!   a transaction has run ───────▶ Strategy::observe     some of them measured, phase by phase
//!   a change was made or not ────▶ Strategy::changed
//!   how busy the sites are ──────▶ Strategy::loads       from time to time
//! ```
//!
//! | strategy | changes | when no site can run a transaction |
//! | --- | --- | --- |
//! | [`Static`] | never any | refuses it |
//! | [`TwoPhase`] | never any | runs it over several, by two-phase commit |
//! | [`OnDemand`] | the necessary ones (MorphoSys, sections 3.1 and 5.3.3) | makes one site able to |
//!
//! Those that plan are in `isomer-plan`: the autopilot, Clay, adaptive replication and others.

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

/// What a strategy is shown of a transaction.
pub struct Request<'a> {
    /// What the transaction will read and write.
    pub footprint: &'a Footprint,
    /// Where the design lets it run.
    pub route: Route,
    /// The site at which its session ran last.
    pub last_site: Option<SiteId>,
    /// A number that differs from transaction to transaction, to break ties with.
    pub ticket: u64,
    /// The time.
    pub now: Time,
    /// Nobody else changes the partitions of the footprint: what is decided now will be done.
    pub reserved: bool,
    /// The design; ask only if it is needed, it is locked for a moment.
    pub design: &'a dyn Fn() -> Design,
}

/// What a strategy says of a transaction.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    /// Do this.
    Run(Decision),
    /// Changes may have to be made first: ask again with the footprint reserved.
    Reserve,
}

/// What is to be done with a transaction.
#[derive(Clone, PartialEq, Debug)]
pub struct Decision {
    /// Where it runs.
    pub place: Place,
    /// Changes that must be made before.
    pub first: Plan,
    /// Changes that need not be waited for. They are made whatever becomes of the transaction.
    pub deferred: Plan,
}

impl Decision {
    /// Run it there, and change nothing.
    pub fn at(site: SiteId) -> Decision {
        Decision::of(Place::At(site))
    }

    /// Run it over several sites, and change nothing.
    pub fn across(coordinator: SiteId) -> Decision {
        Decision::of(Place::Distributed { coordinator })
    }

    fn of(place: Place) -> Decision {
        Decision { place, first: Plan::default(), deferred: Plan::default() }
    }
}

/// Where a transaction runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// At one site, which masters all that is written and holds all that is read.
    At(SiteId),
    /// Wherever its keys are, by two-phase commit.
    Distributed {
        /// The site that runs the procedure and decides.
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

/// Why a strategy lets a transaction run nowhere.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// No single site can run it, and the strategy changes nothing.
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

/// A transaction that has run.
pub struct Report<'a> {
    /// Its number, as in the [`Request`].
    pub ticket: u64,
    /// What it read and wrote.
    pub footprint: &'a Footprint,
    /// Where it ran; of several sites, the coordinator.
    pub site: SiteId,
    /// How many changes it waited for.
    pub changes: usize,
    /// When it had run.
    pub now: Time,
    /// From the session's request to its answer, in nanoseconds.
    pub latency_ns: u64,
    /// Where its time went, if the strategy [wanted](Strategy::wants) to know.
    pub measured: Option<Measured>,
}

/// Where the time of a transaction went, from the router to its site and back, in nanoseconds, and for
/// how many rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Measured {
    /// On the way to the site and back, and until a thread took it.
    pub service_ns: u64,
    /// Waiting for locks.
    pub lock_ns: u64,
    /// Waiting for copies to be up to date.
    pub wait_ns: u64,
    /// The procedure.
    pub run_ns: u64,
    /// From the end of the procedure until all is durable.
    pub commit_ns: u64,
    /// For how much of all this it held locks.
    pub held_ns: u64,
    /// Rows read and written.
    pub rows: [usize; 2],
}

/// A change that was asked for.
pub struct Changed<'a> {
    /// The change.
    pub change: &'a Change,
    /// Rows that were copied for it.
    pub rows: usize,
    /// How long it took, in nanoseconds; or why it was not made.
    pub took_ns: Result<u64, String>,
    /// When that was known.
    pub now: Time,
}

/// How a site is.
#[derive(Clone, PartialEq, Debug)]
pub struct SiteLoad {
    /// The site.
    pub site: SiteId,
    /// The share of its processors' time that was in use lately, 0 to 1; `None` if nobody knows.
    pub busy: Option<f64>,
    /// Bytes of rows and index.
    pub memory_bytes: usize,
    /// How many bytes there may be.
    pub memory_max: Option<usize>,
    /// The locks with long queues.
    pub hot_locks: Vec<HotLock>,
}

/// See the [module documentation](self).
pub trait Strategy: Send + Sync {
    /// The name by which it is chosen and shown.
    fn name(&self) -> &'static str;

    /// Decides about one transaction. Called on the way of every transaction, from many threads. A
    /// decision with changes to be made first counts only if the footprint was reserved.
    ///
    /// # Errors
    /// [`Refused`] if it is to run nowhere.
    fn decide(&self, request: &Request<'_>) -> Result<Verdict, Refused>;

    /// True if the transaction with this ticket is to be measured.
    fn wants(&self, _ticket: u64) -> bool {
        false
    }

    /// Hears how a transaction went.
    fn observe(&self, _report: &Report<'_>) {}

    /// Hears what became of a change that it asked for, or that somebody else did.
    fn changed(&self, _changed: &Changed<'_>) {}

    /// What it has learned and decided, as text for [`Strategy::recall`]; `None` if it learns
    /// nothing. Required, as is the other, so that a strategy around another one cannot lose what
    /// that one knows.
    fn memory(&self, design: &Design) -> Option<String>;

    /// Goes on with what it knew when [`Strategy::memory`] was asked for.
    ///
    /// # Errors
    /// In words, if it cannot make sense of it; it then begins anew.
    fn recall(&self, memory: &str) -> Result<(), String>;

    /// Thinks about all transactions together, for as long as that takes. Asked after [`Strategy::loads`], on no
    /// transaction's way, by one thread at a time.
    fn plan_globally(&self, _now: Time, _design: &Design) {}

    /// True if it is time to tell the strategy how the sites are.
    fn wants_loads(&self, _now: Time) -> bool {
        false
    }

    /// Hears how the sites are.
    fn loads(&self, _now: Time, _loads: &[SiteLoad]) {}
}

/// One of several sites that can run a transaction: where its session ran last, so that it need not
/// wait for replication; otherwise one by the ticket, so that readers spread.
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

    fn plan_globally(&self, now: Time, design: &Design) {
        S::plan_globally(self, now, design);
    }

    fn wants_loads(&self, now: Time) -> bool {
        S::wants_loads(self, now)
    }

    fn loads(&self, now: Time, loads: &[SiteLoad]) {
        S::loads(self, now, loads);
    }
}
