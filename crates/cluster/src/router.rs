//! The router: which site runs a transaction, and what is changed first.
//!
//! ```text
//!   footprint ─▶ routing table ─▶ strategy ─┬─ a site ──────────────▶ execute
//!                                           │                            │ the site has changed
//!                                           ▼                            ▼ under us
//!                                  reserve the footprint's partitions, decide again,
//!                                  make the changes (independent ones at once), execute
//!
//!   … ─▶ strategy ─▶ several sites ─▶ which serves what ─▶ coordinate: two-phase commit
//!
//!   what may pay later ─▶ conductor: deferred plans
//!   a transaction, loads of sites ─▶ conductor: occasions on which the strategy plans
//! ```
//!
//! The common transaction reads an immutable routing table, asks the strategy, and runs: no lock, no
//! shared counter. A site never takes the router's word for it: if the design has moved on, the site
//! says so, and the transaction goes the reserved way, where no other task can pull its partitions
//! away. A site runs a procedure only if it can commit it there, so nothing runs twice.
//!
//! The design changes at the [conductor](Conductor), and nowhere else. The router asks it for a
//! reservation, for changes of what is reserved, and whether a site is given up.

use crate::branches::branches;
use crate::conductor::{Conductor, Reservation, sites_of};
use crate::error::Error;
use crate::open::CancelReason;
use crate::transport::Transport;
use futures_util::future::{Either, select};
use isomer_design::{Design, Footprint, KeyRange, RoutingTable, SiteId, Span, TableId, Time};
use isomer_log::LogError;
use isomer_site::{
    Body, Committed, Failure, Procedure, Published, Refusal, Reply, Request, Timing,
};
use isomer_strategy::{Measured, Place, Report, Stage, Strategy, Verdict};
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Poll, Waker};

/// A transaction that finds its keys elsewhere this often, with its partitions reserved, has found a
/// fault.
const LOST_MAX: u32 = 100;
/// A transaction that met a change this often reserves what it needs.
const STALE_MAX: u32 = 8;

/// What one client has seen: its next transaction sees at least that, wherever it runs.
#[derive(Clone, Debug)]
pub struct Session {
    seen: Time,
    last_site: Option<SiteId>,
    ticket: u64,
}

impl Session {
    /// A session that has seen nothing. `seed` spreads the sessions' reads over replicas.
    pub fn new(seed: u64) -> Session {
        Session { seen: Time::ZERO, last_site: None, ticket: seed }
    }

    /// Up to which time the session has seen the database. A client that goes on with another
    /// session hands this on with [`Session::has_seen`].
    pub fn seen(&self) -> Time {
        self.seen
    }

    /// The session's next transaction will see the database as of `time` or later.
    pub fn has_seen(&mut self, time: Time) {
        self.seen = self.seen.max(time);
    }

    fn next_ticket(&mut self) -> u64 {
        self.ticket =
            self.ticket.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.ticket >> 33
    }
}

/// How a transaction ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ran {
    /// Where: at one site, or over several.
    pub place: Place,
    /// When.
    pub committed: Committed,
    /// How many changes were made for it.
    pub changes: usize,
    /// The answer was lost: its rows have said that it has committed, and `place` is where these are. What its snapshot was is
    /// not known, but that it was before the commit.
    pub is_found: bool,
}

/// See the [module documentation](self).
pub struct Router<T> {
    conductor: Arc<Conductor<T>>,
    /// The time of the latest commit that was ahead of the clock when it could be seen.
    latest: AtomicU64,
    /// A transaction has written that holds no row locks.
    has_procedures: AtomicBool,
}

/// How a transaction comes to the router.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    /// Its number.
    pub(crate) ticket: u64,
    /// The strategy wants to hear of it.
    pub(crate) is_wanted: bool,
    /// What it has read before, by other ways.
    pub(crate) before: Option<&'a Heard>,
    pub(crate) over: Over<'a>,
}

/// What a transaction has read or written, and what that took.
#[derive(Clone, Default)]
pub(crate) struct Heard {
    pub(crate) footprint: Footprint,
    pub(crate) measured: Measured,
}

impl Heard {
    /// This, and then a commit: as if it had been one.
    fn with(&self, commit: &Footprint, measured: Measured) -> Heard {
        let mut footprint = self.footprint.clone();
        let items = commit.items().iter();
        items.for_each(|item| footprint.add(item.table, item.span.clone(), item.access));
        let Measured { rows: [read, _], run_ns, .. } = self.measured;
        let [read_again, written] = measured.rows;
        let (rows, run_ns) = ([read.max(read_again), written], run_ns + measured.run_ns);
        Heard { footprint, measured: Measured { rows, run_ns, ..measured } }
    }
}

/// One transaction on its way through the router.
struct Asked<'a> {
    footprint: &'a Footprint,
    ticket: u64,
    begun: Time,
    before: Option<&'a Heard>,
    stage: Stage,
    over: Over<'a>,
}

/// Ready once a client waits no longer for its transaction. Changes that have begun for it are completed all the
/// same.
pub(crate) type Over<'a> = &'a dyn Fn(&Waker) -> Poll<CancelReason>;

/// Who waits for ever.
const NEVER: Over<'static> = &|_| Poll::Pending;

/// Waits for a future, unless its client waits no longer: then that is dropped.
pub(crate) async fn unless<F: Future>(
    over: Over<'_>,
    future: F,
) -> Result<F::Output, CancelReason> {
    let mut future = pin!(future);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Ok(done)),
        Poll::Pending => over(cx.waker()).map(Err),
    })
    .await
}

impl<T: Transport> Router<T> {
    /// A router over the sites of a conductor.
    pub fn new(conductor: Arc<Conductor<T>>) -> Router<T> {
        let (latest, has_procedures) = (AtomicU64::new(0), AtomicBool::new(false));
        Router { conductor, latest, has_procedures }
    }

    /// The conductor, which changes the design.
    pub fn conductor(&self) -> &Conductor<T> {
        &self.conductor
    }

    /// The way to the sites.
    pub fn transport(&self) -> &T {
        self.conductor.transport()
    }

    /// The design as it is; cheap.
    pub fn design(&self) -> Design {
        self.conductor.design()
    }

    /// The routing table as it is.
    pub fn routing_table(&self) -> Arc<RoutingTable> {
        self.conductor.routing_table()
    }

    fn strategy(&self) -> &dyn Strategy {
        self.conductor.strategy()
    }

    /// A time at which all is seen whose clients were told of it until now: that of the clock, or of a commit
    /// that a site made ahead of it.
    pub fn present(&self) -> Time {
        self.transport().now().max(self.latest())
    }

    /// True if anybody has ever written rows without their row locks.
    pub(crate) fn has_procedures(&self) -> bool {
        self.has_procedures.load(Ordering::Relaxed)
    }

    pub(crate) fn latest(&self) -> Time {
        Time(self.latest.load(Ordering::SeqCst))
    }

    /// A commit can be seen: the present is not before it from now on.
    pub(crate) fn has_committed(&self, time: Time) {
        self.note_committed(time, self.transport().now());
    }

    fn note_committed(&self, time: Time, now: Time) {
        if time > now {
            self.latest.fetch_max(time.0, Ordering::SeqCst);
        }
    }

    /// Runs code of this process as a transaction: [`Router::serve`] without wishes.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn run(
        &self,
        session: &mut Session,
        footprint: &Footprint,
        procedure: &mut dyn Procedure,
    ) -> Result<Ran, Error> {
        let request = Request::new(footprint, Body::Here(procedure));
        self.serve(session, request, &mut |_| {}).await.map(|(ran, _)| ran)
    }

    /// Runs a transaction at the one site that can, after the changes that make it able to; or, if the
    /// strategy says so, over several sites. Says how it ran, and what the procedure gave that it
    /// [calls](Body::Call).
    ///
    /// Session, shares and measuring of the request are the router's to fill in.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn serve(
        &self,
        session: &mut Session,
        request: Request<'_>,
        published: Published<'_>,
    ) -> Result<(Ran, Vec<u8>), Error> {
        if !request.footprint.is_read_only() && !self.has_procedures() {
            self.has_procedures.store(true, Ordering::Relaxed);
        }
        let (ticket, is_wanted) = self.ticket(session);
        let call = Call { ticket, is_wanted, before: None, over: NEVER };
        self.serve_until(session, request, published, call).await
    }

    /// As [`Router::serve`], until nobody waits for it any more.
    pub(crate) async fn serve_until(
        &self,
        session: &mut Session,
        mut request: Request<'_>,
        published: Published<'_>,
        call: Call<'_>,
    ) -> Result<(Ran, Vec<u8>), Error> {
        let footprint = request.footprint;
        let Call { ticket, is_wanted, before, over } = call;
        let stage = if before.is_some() { Stage::Commit } else { Stage::Whole };
        let asked = Asked { footprint, ticket, begun: self.transport().now(), before, stage, over };
        request.is_measured = is_wanted;
        for _ in 0..STALE_MAX {
            let Verdict::Run(decision) = self.decide(session, &asked, false)? else { break };
            // Whatever becomes of this transaction: the strategy counts on it.
            self.conductor.queue(decision.deferred, decision.is_occasion, asked.begun);
            let sent = request.again();
            match self.execute(session, &asked, decision.place, sent, &mut *published, 0).await {
                Err(Error::Failure(failure)) if failure.is_stale_route() => {}
                Err(Error::Failure(Failure::Unreachable { site, why })) => {
                    self.until_returned(site, why, over).await?;
                    continue;
                }
                result => return result,
            }
            // What it needs is being changed: it goes on when that is done.
            let partitions = partitions_of(&self.design(), footprint);
            unless(over, self.conductor.passed(&partitions)).await.map_err(unwritten)?;
        }
        self.run_reserved(session, &asked, request, published).await
    }

    /// A number for a transaction that begins, and whether the strategy wants to hear of it.
    pub(crate) fn ticket(&self, session: &mut Session) -> (u64, bool) {
        let ticket = session.next_ticket();
        (ticket, self.strategy().wants(ticket))
    }

    /// Tells the strategy of a transaction that has read, wherever its rows were, and perhaps committed, as if it had
    /// come with its whole footprint. What it wants to change for such transactions is done later.
    pub(crate) fn hear(&self, session: &Session, ticket: u64, heard: &Heard) {
        let Heard { footprint, measured } = heard;
        let Measured { service_ns, lock_ns, wait_ns, run_ns, commit_ns, .. } = measured;
        let now = self.transport().now();
        let took_ns = service_ns + lock_ns + wait_ns + run_ns + commit_ns;
        let begun = Time(now.0.saturating_sub(took_ns));
        let stage = Stage::Ended;
        let asked = Asked { footprint, ticket, begun, before: None, stage, over: NEVER };
        let first = footprint.items().first();
        let first = first
            .and_then(|i| self.conductor.routing().placement(i.table, i.span.start()).cloned());
        let Some(first) = first else { return };
        let mut site = first.master;
        if let Ok(Verdict::Run(decision)) = self.decide(session, &asked, false) {
            site = decision.place.site();
            self.conductor.queue(decision.deferred, decision.is_occasion, now);
        }
        self.tell(&asked, site, 0, Some(*measured), now);
    }

    async fn run_reserved(
        &self,
        session: &mut Session,
        asked: &Asked<'_>,
        mut request: Request<'_>,
        published: Published<'_>,
    ) -> Result<(Ran, Vec<u8>), Error> {
        let reserve = || self.conductor.reserve(|design| partitions_of(design, asked.footprint));
        let mut reserved = Some(unless(asked.over, reserve()).await.map_err(unwritten)?);
        let (mut changes, mut lost) = (0, 0);
        while lost < LOST_MAX {
            if reserved.is_none() {
                reserved = Some(unless(asked.over, reserve()).await.map_err(unwritten)?);
            }
            let Verdict::Run(decision) = self.decide(session, asked, true)? else {
                lost += 1;
                continue;
            };
            self.conductor.queue(decision.deferred, decision.is_occasion, asked.begun);
            let place = decision.place;
            let done = match self.conductor.carry_out_plan(&decision.first).await {
                Ok(made) => {
                    changes += made.len();
                    let sent = request.again();
                    let run = self.execute(session, asked, place, sent, &mut *published, changes);
                    self.unreserved_if_lost(run, &mut reserved, place.site()).await
                }
                Err(error) => Err(error),
            };
            match done {
                Err(Error::Failure(failure)) if failure.is_stale_route() => {
                    let is_given_up = self.conductor.is_given_up(place.site());
                    lost += u32::from(!is_given_up);
                    if is_given_up || lost.is_multiple_of(STALE_MAX) {
                        // Whoever readmits the site may wait for the partition.
                        reserved = None;
                        let pause = self.transport().retry(place.site());
                        unless(asked.over, pause).await.map_err(unwritten)?;
                        if let Some(gone) = self.conductor.waited_for().filter(|_| !is_given_up) {
                            let why = "a mastership that it has released may not have arrived";
                            self.until_returned(gone, why.to_owned(), asked.over).await?;
                        }
                    }
                }
                Err(Error::Failure(Failure::Unreachable { site, why })) => {
                    // Others may be able to take over from it, if they get the partition.
                    reserved = None;
                    self.until_returned(site, why, asked.over).await?;
                }
                Err(Error::Change { change, refusal: Refusal::Log(LogError::Gone { what }) }) => {
                    // The master has gone while it was asked to change something. There may be another by now.
                    reserved = None;
                    let (master, _) = sites_of(&self.design(), &change);
                    let site = master.unwrap_or(place.site());
                    unless(asked.over, self.transport().retry(site)).await.map_err(unwritten)?;
                    self.until_returned(site, what.to_string(), asked.over).await?;
                }
                result => return result,
            }
        }
        Err(Error::Lost(LOST_MAX))
    }

    /// Waits for a transaction that runs at a site. Once any site is given up it gives back what it has reserved: its commit may
    /// wait for that site, and whoever takes over from it, or lets its copies go, for the partitions.
    async fn unreserved_if_lost<R>(
        &self,
        run: impl Future<Output = R>,
        reserved: &mut Option<Reservation<'_>>,
        site: SiteId,
    ) -> R {
        let mut run = pin!(run);
        loop {
            match select(run.as_mut(), pin!(self.transport().retry(site))).await {
                Either::Left((done, _)) => return done,
                Either::Right(_) if self.conductor.has_given_up() => break,
                Either::Right(_) => {}
            }
        }
        *reserved = None;
        run.await
    }

    /// Waits until a site can be reached again, and is readmitted; fails if its clients should not wait for that.
    async fn until_returned(&self, site: SiteId, why: String, over: Over<'_>) -> Result<(), Error> {
        if self.conductor.is_given_up(site) && self.transport().failure(site).is_none() {
            return unless(over, self.transport().retry(site)).await.map_err(unwritten);
        }
        match unless(over, self.transport().returns(site)).await.map_err(unwritten)? {
            true => Ok(()),
            false => Err(Error::Failure(Failure::Unreachable { site, why })),
        }
    }

    fn decide(
        &self,
        session: &Session,
        asked: &Asked<'_>,
        reserved: bool,
    ) -> Result<Verdict, Error> {
        let request = isomer_strategy::Request {
            footprint: asked.footprint,
            route: self.conductor.routing().home(asked.footprint),
            last_site: session.last_site,
            ticket: asked.ticket,
            now: asked.begun,
            reserved,
            stage: asked.stage,
            design: &|| self.design(),
        };
        Ok(self.strategy().decide(&request)?)
    }

    /// Runs a transaction where it is to run, and tells the strategy how that went.
    async fn execute(
        &self,
        session: &mut Session,
        asked: &Asked<'_>,
        place: Place,
        mut request: Request<'_>,
        published: Published<'_>,
        changes: usize,
    ) -> Result<(Ran, Vec<u8>), Error> {
        let (site, begun) = (place.site(), self.transport().now());
        request.session = session.seen;
        let is_written = Cell::new(false);
        let mut noted = |time| {
            is_written.set(true);
            published(time);
        };
        let running = self.execute_at(place, asked, request, &mut noted);
        let is_lost = !self.transport().drop_revokes(site) && !asked.footprint.is_read_only();
        let canceled = |why| Error::Canceled { why, may_be_written: is_lost || is_written.get() };
        let reply = unless(asked.over, running).await.map_err(canceled)?;
        if matches!(reply, Err(Failure::Full(_))) {
            // It is not measured, and there may be no other for as long as the strategy does not know.
            self.conductor.tell_loads(self.transport().now());
        }
        let reply = reply?;
        let Reply { committed, output, timing } = reply;
        let now = self.transport().now();
        session.has_seen(committed.session());
        self.note_committed(committed.session(), now);
        session.last_site = Some(site);
        let measured = timing.map(|timing| measured(begun, now, timing));
        match (asked.before, measured) {
            (Some(before), Some(commit)) => {
                self.hear(session, asked.ticket, &before.with(asked.footprint, commit));
            }
            (_, measured) => self.tell(asked, site, changes, measured, now),
        }
        Ok((Ran { place, committed, changes, is_found: false }, output))
    }

    async fn execute_at(
        &self,
        place: Place,
        asked: &Asked<'_>,
        mut request: Request<'_>,
        published: Published<'_>,
    ) -> Result<Reply, Failure> {
        match place {
            Place::At(site) => self.transport().execute(site, request, published).await,
            Place::Distributed { coordinator } => {
                let (footprint, ticket) = (asked.footprint, asked.ticket);
                let branches = branches(&self.conductor.routing(), footprint, coordinator, ticket);
                let request = Request { branches: Some(&branches), ..request.again() };
                self.transport().execute(coordinator, request, published).await
            }
        }
    }

    fn tell(
        &self,
        asked: &Asked<'_>,
        site: SiteId,
        changes: usize,
        measured: Option<Measured>,
        now: Time,
    ) {
        let (ticket, footprint) = (asked.ticket, asked.footprint);
        let latency_ns = now.0.saturating_sub(asked.begun.0);
        let report = Report { ticket, footprint, site, changes, now, latency_ns, measured };
        self.strategy().observe(&report);
        if measured.is_some() {
            self.conductor.tell_loads(now);
        }
    }
}

/// A transaction that its client waited for no longer, before it was run.
fn unwritten(why: CancelReason) -> Error {
    Error::Canceled { why, may_be_written: false }
}

/// Where the time of a transaction went that was sent at `begun` and whose answer is here now.
fn measured(begun: Time, now: Time, timing: Timing) -> Measured {
    let total_ns = now.0.saturating_sub(begun.0);
    let service_ns = total_ns.saturating_sub(timing.total_ns());
    let Timing { lock_ns, wait_ns, run_ns, commit_ns, held_ns, rows } = timing;
    Measured { service_ns, lock_ns, wait_ns, run_ns, commit_ns, held_ns, rows }
}

/// The partitions that a footprint touches.
fn partitions_of(design: &Design, footprint: &Footprint) -> Vec<(TableId, KeyRange)> {
    let mut ranges: Vec<(TableId, KeyRange)> = Vec::new();
    for item in footprint.items() {
        let table = item.table;
        match &item.span {
            Span::Key(key) => {
                let partition = design.partition_of(table, key);
                ranges.extend(partition.map(|(range, _)| (table, range)));
            }
            Span::Range(range) => {
                ranges.extend(design.partitions_in(table, range).map(|(range, _)| (table, range)));
            }
        }
    }
    ranges.sort();
    ranges.dedup();
    ranges
}
