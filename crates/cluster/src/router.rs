//! The router: which site runs a transaction, and what is changed first.
//!
//! ```text
//!   footprint ─▶ routing table ─▶ strategy ─┬─ a site ──────────────▶ execute
//!                                           │                            │ the design has changed
//!                                           ▼                            ▼ in the meantime
//!                                  reserve the footprint's partitions, decide again,
//!                                  make the changes (independent ones at once), execute
//!
//!   … ─▶ strategy ─▶ several sites ─▶ distribute the footprint ─▶ coordinate: two-phase commit
//!
//!   changes that may pay later ─▶ conductor: deferred plans
//!   a transaction, loads of sites ─▶ conductor: planning ticks of the strategy
//! ```
//!
//! A common transaction reads an immutable routing table, asks the strategy, and runs: no lock, no
//! shared counter. A site does not trust the router. If the design has changed, the site says so,
//! and the transaction reserves its partitions, so that no other task can move them away. A site
//! runs a procedure only if it can commit it there, so nothing runs twice.
//!
//! The design changes at the [conductor](Conductor), and nowhere else. The router asks it for a
//! reservation, for changes of reserved partitions, and whether a site is declared dead.

use crate::branches::branches;
use crate::conductor::{Conductor, Reservation, is_new, link_of, sites_of};
use crate::error::Error;
use crate::open::CancelReason;
use crate::ordered::OrderedTables;
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

/// A transaction with reserved partitions that finds its keys elsewhere this number of times has
/// found a fault of the router.
const LOST_MAX: u32 = 100;
/// The longest wait for the next conductor, in nanoseconds.
const SUCCESSION_NS: u64 = 30_000_000_000;
/// A transaction that met a change this number of times reserves what it needs.
const STALE_MAX: u32 = 8;

/// The state of one client: its next transaction sees at least the time that the last ones have
/// seen, wherever it runs.
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

    /// The time up to which the session has seen the database. To continue in another session, a
    /// client passes it to [`Session::has_seen`].
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
    /// The site, or the coordinator if it ran over several.
    pub place: Place,
    /// Its times.
    pub committed: Committed,
    /// The number of changes that were made for it.
    pub changes: usize,
    /// True if the answer was lost and the rows have shown that it has committed. `place` is where
    /// the rows are. Its snapshot is unknown, except that it was before the commit.
    pub is_found: bool,
}

/// See the [module documentation](self).
pub struct Router<T> {
    conductor: Arc<Conductor<T>>,
    /// The time of the latest commit that was ahead of the clock when it became visible.
    latest: AtomicU64,
    /// True once a transaction without row locks has written.
    has_procedures: AtomicBool,
}

/// The parameters of a transaction that arrives at the router.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    /// Its number.
    pub(crate) ticket: u64,
    /// True if the strategy wants a report of it.
    pub(crate) is_wanted: bool,
    /// Its earlier reads, if it is the commit of an open transaction.
    pub(crate) before: Option<&'a Heard>,
    pub(crate) over: Over<'a>,
}

/// The footprint of a transaction, and its measured times.
#[derive(Clone, Default)]
pub(crate) struct Heard {
    pub(crate) footprint: Footprint,
    pub(crate) measured: Measured,
}

impl Heard {
    /// Joins these reads and a commit, as if they had been one transaction.
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

/// Ready once a client no longer waits for its transaction. Changes that have begun for it are
/// completed nevertheless.
pub(crate) type Over<'a> = &'a dyn Fn(&Waker) -> Poll<CancelReason>;

/// For a client that waits for ever.
const NEVER: Over<'static> = &|_| Poll::Pending;

/// Waits for a future. Drops it if its client no longer waits.
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

    /// The tables whose transactions are ordered.
    #[inline]
    pub fn ordered(&self) -> &OrderedTables {
        &self.conductor.ordered
    }

    /// The conductor, which changes the design.
    pub fn conductor(&self) -> &Conductor<T> {
        &self.conductor
    }

    /// The way to the sites.
    pub fn transport(&self) -> &T {
        self.conductor.transport()
    }

    /// The current design; cheap.
    pub fn design(&self) -> Design {
        self.conductor.design()
    }

    /// The current routing table.
    pub fn routing_table(&self) -> Arc<RoutingTable> {
        self.conductor.routing_table()
    }

    fn strategy(&self) -> &dyn Strategy {
        self.conductor.strategy()
    }

    /// A time that includes all commits that were acknowledged until now. This is the clock's time,
    /// or that of a commit ahead of the clock.
    pub fn present(&self) -> Time {
        self.transport().now().max(self.latest())
    }

    /// True once a transaction has written rows without their row locks.
    pub(crate) fn has_procedures(&self) -> bool {
        self.has_procedures.load(Ordering::Relaxed)
    }

    pub(crate) fn latest(&self) -> Time {
        Time(self.latest.load(Ordering::SeqCst))
    }

    /// A commit became visible: the present is not before it from now on.
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

    /// Runs a transaction at the one site that can, after the changes that enable it; or over
    /// several sites, if the strategy says so. Returns how it ran, and the output of the procedure
    /// that it [calls](Body::Call).
    ///
    /// The router fills in the request's session, branches and `is_measured`.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn serve(
        &self,
        session: &mut Session,
        mut request: Request<'_>,
        published: Published<'_>,
    ) -> Result<(Ran, Vec<u8>), Error> {
        request.seat = link_of(&self.conductor).map_or(0, |link| link.seat());
        self.ordered().check_unordered(&request)?;
        if !request.footprint.is_read_only() && !self.has_procedures() {
            self.has_procedures.store(true, Ordering::Relaxed);
        }
        let (ticket, is_wanted) = self.ticket(session);
        let call = Call { ticket, is_wanted, before: None, over: NEVER };
        self.serve_until(session, request, published, call).await
    }

    /// Like [`Router::serve`], until its client no longer waits for it.
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
        for look in 1..=STALE_MAX {
            let routing = self.routing_table();
            let Verdict::Run(decision) = self.decide(session, &asked, false)? else { break };
            // Queued whatever becomes of this transaction, because the strategy relies on it.
            self.conductor.queue(decision.deferred, decision.is_occasion, asked.begun);
            let sent = request.again();
            match self.execute(session, &asked, decision.place, sent, &mut *published, 0).await {
                // Its process may have no seat for long.
                Err(Error::Failure(Failure::Unseated(site))) if look == STALE_MAX => {
                    return Err(Failure::Unseated(site).into());
                }
                Err(Error::Failure(failure)) if failure.is_stale_route() => {}
                Err(Error::Failure(Failure::Unreachable { site, why })) => {
                    self.until_returned(site, why, &routing, over).await?;
                    continue;
                }
                result => return result,
            }
            if let Some(link) = link_of(&self.conductor) {
                link.has_missed();
                unless(over, self.transport().retry(self.nearest())).await.map_err(unwritten)?;
                continue;
            }
            // Its partitions are being changed. It continues after that.
            let partitions = partitions_of(&self.design(), footprint);
            unless(over, self.conductor.passed(&partitions)).await.map_err(unwritten)?;
        }
        match link_of(&self.conductor) {
            Some(_) => self.run_at_conductor(session, &request, published, over).await,
            None => self.run_reserved(session, &asked, request, published).await,
        }
    }

    /// A site, to wait for its next tick.
    fn nearest(&self) -> SiteId {
        self.conductor.routing().sites().first().unwrap_or(SiteId(0))
    }

    /// Has the conductor, which is in another process, run a transaction with its partitions
    /// reserved.
    async fn run_at_conductor(
        &self,
        session: &mut Session,
        request: &Request<'_>,
        published: Published<'_>,
        over: Over<'_>,
    ) -> Result<(Ran, Vec<u8>), Error> {
        let link = link_of(&self.conductor).expect("the conductor is in another process");
        let running = link.run(self.transport(), session.seen, request);
        let canceled = |why| Error::Canceled { why, may_be_written: true };
        let ran = unless(over, running).await.map_err(canceled)??;
        ran.committed.commit.into_iter().for_each(published);
        session.has_seen(ran.committed.session());
        self.has_committed(ran.committed.session());
        let (place, committed, changes) = (ran.place(), ran.committed, ran.changes);
        session.last_site = Some(place.site());
        Ok((Ran { place, committed, changes, is_found: false }, ran.output))
    }

    /// A number for a transaction that begins, and whether the strategy wants a report of it.
    pub(crate) fn ticket(&self, session: &mut Session) -> (u64, bool) {
        let ticket = session.next_ticket();
        (ticket, self.strategy().wants(ticket))
    }

    /// Reports an open transaction to the strategy as if it had come with its whole footprint: its
    /// reads, wherever they ran, and its commit, if any. Changes that the strategy wants for such
    /// transactions are deferred.
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
            let routing = self.routing_table();
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
                        // A readmission of the site may wait for the partition.
                        reserved = None;
                        let pause = self.transport().retry(place.site());
                        unless(asked.over, pause).await.map_err(unwritten)?;
                        if let Some(gone) =
                            self.conductor.membership().waited_for().filter(|_| !is_given_up)
                        {
                            let why = "a mastership that it has released may not have arrived";
                            let why = why.to_owned();
                            self.until_returned(gone, why, &routing, asked.over).await?;
                        }
                    }
                }
                Err(Error::Failure(Failure::Unreachable { site, why })) => {
                    // Others may be able to take over from it once the partition is free.
                    reserved = None;
                    self.until_returned(site, why, &routing, asked.over).await?;
                }
                Err(Error::Change { change, refusal: Refusal::Log(LogError::Gone { what }) }) => {
                    // The master failed during the change. There may be a new master by now.
                    reserved = None;
                    let (master, _) = sites_of(&self.design(), &change);
                    let site = master.unwrap_or(place.site());
                    unless(asked.over, self.transport().retry(site)).await.map_err(unwritten)?;
                    self.until_returned(site, what.to_string(), &routing, asked.over).await?;
                }
                result => return result,
            }
        }
        Err(Error::Lost(LOST_MAX))
    }

    /// Waits for a transaction that runs at a site. Once any site is declared dead, it drops the
    /// reservation. The commit may wait for the dead site, while the takeover from that site, or
    /// the removal of its copies, waits for the partitions.
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
                Either::Right(_) if self.conductor.membership().has_given_up() => break,
                Either::Right(_) => {}
            }
        }
        *reserved = None;
        run.await
    }

    /// Waits until a site can be reached again and is readmitted; or until the routing differs from
    /// the routing by which it was asked, because others may have taken over. Fails if clients
    /// should not wait for that.
    async fn until_returned(
        &self,
        site: SiteId,
        why: String,
        asked_by: &Arc<RoutingTable>,
        over: Over<'_>,
    ) -> Result<(), Error> {
        let is_other = || !Arc::ptr_eq(asked_by, &self.routing_table());
        if is_other() {
            return Ok(());
        }
        if self.conductor.is_given_up(site) && self.transport().failure(site).is_none() {
            return unless(over, self.transport().retry(site)).await.map_err(unwritten);
        }
        match unless(over, self.transport().returns(site)).await.map_err(unwritten)? {
            true => Ok(()),
            // The next conductor may let others take over from the site.
            false if unless(over, self.until_succeeded(site)).await.map_err(unwritten)? => Ok(()),
            // The takeover may have ended during the wait.
            false if is_other() => Ok(()),
            false => Err(Error::Failure(Failure::Unreachable { site, why })),
        }
    }

    /// Waits while another process takes the conductor's place: for a seat there; or for the
    /// takeover from a site that cannot be reached, if this process is the next conductor. False if
    /// there is no such wait.
    pub(crate) async fn until_succeeded(&self, site: SiteId) -> bool {
        let now = &|| self.transport().now();
        match link_of(&self.conductor) {
            Some(link) if !link.is_seated(now()) => link.seated_within(now, SUCCESSION_NS).await,
            // The design may have changed since.
            Some(link) if link.is_new(now()) => {
                self.transport().retry(self.nearest()).await;
                true
            }
            // The wire may declare a process lost before the lease from its conductor has ended.
            Some(link) => !link.answers(now).await && link.seated_within(now, SUCCESSION_NS).await,
            None => {
                let is_taken_over = self.conductor.membership().is_replaced(site);
                let waits = is_new(&self.conductor, SUCCESSION_NS) && !is_taken_over;
                if waits {
                    self.transport().retry(self.nearest()).await;
                }
                waits
            }
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
        Ok(match self.strategy().decide(&request)? {
            Verdict::Run(decision) => {
                Verdict::Run(crate::conductor::around_pins(&self.conductor, &request, decision))
            }
            Verdict::Reserve => Verdict::Reserve,
        })
    }

    /// Runs a transaction at its place, and reports it to the strategy.
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
            // This transaction is not measured. Until the strategy knows the loads, no other
            // transaction may succeed and report them.
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

/// The error of a transaction whose client stopped waiting before it ran.
fn unwritten(why: CancelReason) -> Error {
    Error::Canceled { why, may_be_written: false }
}

/// The breakdown of the time between `begun`, when a transaction was sent, and `now`, when its
/// answer arrived.
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
