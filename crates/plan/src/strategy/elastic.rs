//! The [elastic loop](crate::elastic) as a strategy: counters on every transaction's path,
//! everything else beside it.
//!
//! ```text
//!   decide   ── counters: one addition ──▶ where its rows are, or over several sites
//!               reads of open transactions: one in 64 is told, and counts for 64
//!               while it records: a share of the footprints, open transactions with their reads
//!               when a plan is due: hands it out, to be carried out beside the transactions
//!   observe  ── one latency in 64
//!   loads    ── each second: a period ──▶ controller
//!   plan_globally ─ what was recorded ──▶ planner, with the controller unlocked
//! ```
//!
//! **Cost.** A transaction adds to a counter of its site, in one of [`STRIPES`] arrays to avoid
//! contention. It reads one word that is rarely written. No transaction waits for the controller:
//! if its lock is taken, the transaction proceeds without it.

use crate::elastic::away::Away;
use crate::elastic::{Controller, Options, Period, Planner, SitePeriod};
use crate::learned::Mode;
use isomer_design::{Access, Design, Footprint, Plan, SITES_MAX, Time};
use isomer_strategy::{
    Changed, Decision, Occasion, Refused, Report, Request, SiteLoad, Stage, Strategy, TwoPhase,
    Verdict,
};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// The number of arrays of counters, which are summed each period.
const STRIPES: usize = 16;
/// One open transaction in this many is measured.
const MEASURED_ONE_IN: u64 = 64;
/// The most latencies kept per period.
const LATENCIES_MAX: usize = 10_000;

/// An entry for each site by its number, and one more.
const PLACES: usize = SITES_MAX as usize + 1;

/// Accesses per site, by the site's number; entry 0 counts transactions.
type Stripe = [AtomicU64; PLACES];

/// See the [module documentation](self).
pub struct Elastic {
    planner: Planner,
    mode: AtomicU8,
    period_ns: u64,
    stripes: Vec<Stripe>,
    /// The end of the current period.
    period_ends: AtomicU64,
    /// One transaction in this many is recorded; 0 records none.
    record_one_in: AtomicU64,
    /// True if some counted accesses stand for 64.
    has_sampled: AtomicBool,
    /// True if a plan is ready to execute.
    has_plan: AtomicBool,
    latencies_us: Mutex<Vec<f64>>,
    /// The last plan, for an operator to approve.
    proposed: Mutex<Option<Plan>>,
    inner: Mutex<Inner>,
}

struct Inner {
    controller: Controller,
    began: Option<Time>,
    /// The counters at the beginning of the period.
    before: Vec<u64>,
    /// One transaction in this many was recorded since recording began.
    recorded_one_in: u64,
}

impl Elastic {
    /// A loop without any history, with the constants of [`Options::default`].
    pub fn new(planner: Planner) -> Elastic {
        Elastic::with(planner, Options::default())
    }

    /// A loop without any history.
    pub fn with(planner: Planner, options: Options) -> Elastic {
        let stripe = || std::array::from_fn(|_| AtomicU64::new(0));
        Elastic {
            planner,
            mode: AtomicU8::new(Mode::Auto as u8),
            period_ns: options.period_ns,
            stripes: (0..STRIPES).map(|_| stripe()).collect(),
            period_ends: AtomicU64::new(0),
            record_one_in: AtomicU64::new(0),
            has_sampled: AtomicBool::new(false),
            has_plan: AtomicBool::new(false),
            latencies_us: Mutex::default(),
            proposed: Mutex::default(),
            inner: Mutex::new(Inner {
                controller: Controller::new(planner, options),
                began: None,
                before: vec![0; PLACES],
                recorded_one_in: 1,
            }),
        }
    }

    /// Whether plans are executed.
    pub fn mode(&self) -> Mode {
        Mode::of(self.mode.load(Ordering::Relaxed))
    }

    /// From now on plans are executed, only remembered, or not made.
    pub fn set_mode(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
    }

    /// Reads the controller: its episodes, and the ranges that are away from home.
    pub fn with_controller<T>(&self, look: impl FnOnce(&Controller) -> T) -> T {
        look(&self.inner.lock().controller)
    }

    /// The next episode has a number after this one.
    pub fn number_after(&self, number: u64) {
        self.inner.lock().controller.number_after(number);
    }

    /// Takes the plan that waits for an operator's approval.
    pub fn take_proposed(&self) -> Option<Plan> {
        self.proposed.lock().take()
    }

    /// Counts the accesses of a transaction at a site. Of an open transaction that has ended it
    /// counts the reads, because its writes were counted at the commit. Each counts for
    /// [`MEASURED_ONE_IN`] transactions unless all are recorded.
    fn count(&self, request: &Request<'_>, site: usize) {
        let stripe = &self.stripes[request.ticket as usize % STRIPES];
        let items = request.footprint.items();
        let (transactions, accesses) = match request.stage {
            Stage::Whole | Stage::Commit => (1, items.len() as u64),
            Stage::Ended => {
                let each = if self.is_recording() { 1 } else { MEASURED_ONE_IN };
                let read = items.iter().filter(|item| item.access == Access::Read).count() as u64;
                if each > 1 {
                    self.has_sampled.store(true, Ordering::Relaxed);
                }
                (if read == items.len() as u64 { each } else { 0 }, each * read)
            }
        };
        stripe[0].fetch_add(transactions, Ordering::Relaxed);
        stripe[site].fetch_add(accesses, Ordering::Relaxed);
    }

    fn is_recording(&self) -> bool {
        self.record_one_in.load(Ordering::Relaxed) > 0
    }

    fn record(&self, ticket: u64, one_in: u64, footprint: &Footprint) {
        if ticket.is_multiple_of(one_in)
            && let Some(mut inner) = self.inner.try_lock()
        {
            inner.controller.record(footprint);
            if !inner.controller.is_recording() {
                self.record_one_in.store(0, Ordering::Relaxed);
            }
        }
    }

    /// The counts since the last call.
    fn counted(&self, before: &mut [u64]) -> Vec<f64> {
        let sum =
            |at: usize| self.stripes.iter().map(|stripe| stripe[at].load(Ordering::Relaxed)).sum();
        let since = |(at, before): (usize, &mut u64)| {
            let now: u64 = sum(at);
            (now - std::mem::replace(before, now)) as f64
        };
        before.iter_mut().enumerate().map(since).collect()
    }

    /// Begins to record if the controller wants footprints. The sampling rate is such that a second
    /// yields enough at the current rate of transactions.
    fn ask_for_footprints(&self, inner: &mut Inner, rate: f64) {
        if inner.controller.is_recording() && self.record_one_in.load(Ordering::Relaxed) == 0 {
            let wanted = inner.controller.options().footprints as f64;
            inner.recorded_one_in = ((rate / wanted) as u64).max(1);
            self.record_one_in.store(inner.recorded_one_in, Ordering::Relaxed);
        }
    }
}

impl Strategy for Elastic {
    fn name(&self) -> &'static str {
        self.planner.name()
    }

    fn decide(&self, request: &Request<'_>) -> Result<Verdict, Refused> {
        let Verdict::Run(mut decision) = TwoPhase.decide(request)? else {
            return Ok(Verdict::Reserve);
        };
        self.count(request, usize::from(decision.place.site().0));
        let one_in = self.record_one_in.load(Ordering::Relaxed);
        if one_in > 0 && request.stage != Stage::Commit {
            self.record(request.ticket, one_in, request.footprint);
        }
        if self.has_plan.load(Ordering::Relaxed)
            && self.mode() == Mode::Auto
            && let Some(mut inner) = self.inner.try_lock()
        {
            let deferred = inner.controller.next_plan(request.now).unwrap_or_default();
            self.has_plan.store(false, Ordering::Relaxed);
            decision = Decision { deferred, ..decision };
        }
        Ok(Verdict::Run(decision))
    }

    fn wants(&self, ticket: u64) -> bool {
        self.is_recording() || ticket.is_multiple_of(MEASURED_ONE_IN)
    }

    fn observe(&self, report: &Report<'_>) {
        if report.measured.is_some()
            && let Some(mut latencies) = self.latencies_us.try_lock()
            && latencies.len() < LATENCIES_MAX
        {
            latencies.push(report.latency_ns as f64 / 1000.0);
        }
    }

    fn changed(&self, changed: &Changed<'_>) {
        let mut inner = self.inner.lock();
        inner.controller.changed(changed.now, changed.change, changed.took_ns.is_ok());
        self.has_plan.store(inner.controller.has_plan(), Ordering::Relaxed);
    }

    fn memory(&self, _design: &Design) -> Option<String> {
        Some(self.inner.lock().controller.away().to_text())
    }

    fn recall(&self, memory: &str) -> Result<(), String> {
        self.inner.lock().controller.recall(Away::parse(memory)?);
        Ok(())
    }

    fn plan_globally(&self, occasion: &Occasion<'_>) {
        let (mode, now, design) = (self.mode(), occasion.now, occasion.design);
        let (recorded, options) = {
            let mut inner = self.inner.lock();
            let one_in = inner.recorded_one_in;
            match inner.controller.take_recorded(now, one_in) {
                Some(recorded) => (recorded, inner.controller.options().clone()),
                None => return,
            }
        };
        self.record_one_in.store(0, Ordering::Relaxed);
        let proposed = recorded.plan(self.planner, &options, design);
        let mut inner = self.inner.lock();
        inner.controller.adopt(now, proposed, mode == Mode::Auto);
        if mode == Mode::Approve {
            let episode = inner.controller.episodes().next();
            let whole = episode.map(|episode| Plan {
                reason: episode.overload.clone(),
                steps: episode.planned.plans.iter().flat_map(|plan| plan.steps.clone()).collect(),
            });
            *self.proposed.lock() = whole.filter(|plan| !plan.is_empty());
        }
        self.has_plan.store(inner.controller.has_plan(), Ordering::Relaxed);
    }

    fn wants_loads(&self, now: Time) -> bool {
        self.mode() != Mode::Off && now.0 >= self.period_ends.load(Ordering::Relaxed)
    }

    fn loads(&self, now: Time, loads: &[SiteLoad]) {
        let ends = self.period_ends.load(Ordering::Relaxed);
        let next = now.0 + self.period_ns;
        let is_first = |ends| {
            self.period_ends.compare_exchange(ends, next, Ordering::Relaxed, Ordering::Relaxed)
        };
        if now.0 < ends || is_first(ends).is_err() {
            return;
        }
        let latencies_us = std::mem::take(&mut *self.latencies_us.lock());
        let inner = &mut *self.inner.lock();
        let counted = self.counted(&mut inner.before);
        // The beginning of the first period is unknown.
        let Some(began) = inner.began.replace(now).filter(|began| *began < now) else { return };
        let seconds = (now.0 - began.0) as f64 / 1e9;
        let site = |load: &SiteLoad| SitePeriod {
            site: load.site,
            accesses: counted[usize::from(load.site.0)],
            busy: load.busy,
        };
        let sites = loads.iter().map(site).collect();
        let each = match self.has_sampled.swap(false, Ordering::Relaxed) {
            true => MEASURED_ONE_IN as f64,
            false => 1.0,
        };
        let period = Period { seconds, transactions: counted[0], sites, each, latencies_us };
        inner.controller.period(now, &period);
        self.has_plan.store(inner.controller.has_plan(), Ordering::Relaxed);
        self.ask_for_footprints(inner, counted[0] / seconds);
    }
}
