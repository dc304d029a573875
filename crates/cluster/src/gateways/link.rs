//! The side of a gateway whose conductor is in another process.
//!
//! ```text
//!   no seat ── join ──▶ seated ── polls get answers ──▶ seated
//!      ▲                   │  no answer for LEASE - MARGIN: it serves nothing, and polls on
//!      └─── "no seat" ─────┴───────────────────────────────────────────────┐
//!                                    another conductor, or it was too late ┘
//! ```
//!
//! *Invariants.*
//! - News are applied in the order of their numbers, each once.
//! - A release is sent before a later lock request of the same owner.
//! - Transactions of an earlier seat lock and commit nothing: their locks have ended.

use super::inquiries::Replied;
use super::messages::{
    Answer, Ask, Define, Freed, LockAnswer, News, Place, RanThere, Sample, Seat, read, write,
};
use super::{LEASE_NS, Listener, MARGIN_NS};
use crate::conductor::{Conductor, follow, follow_anew};
use crate::error::Error;
use crate::open::{CancelToken, LockMode, OpenError, Owner};
use crate::ordered::{Applied, NotOrdered};
use crate::remote::Unanswered;
use crate::router::unless;
use crate::transport::Transport;
use isomer_design::{Design, Footprint, SiteId, Time};
use isomer_site::wire::ClientId;
use isomer_site::wire::Execute;
use isomer_site::{CommitId, Failure, OrderedCommit, Request, SEAT_BITS};
use parking_lot::Mutex;
use std::collections::{BTreeSet, VecDeque};
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};

/// The bits of an owner that number the transactions of a seat.
const TXN_BITS: u32 = 40;
/// The most samples between two polls.
const SAMPLES_MAX: usize = 1024;
/// How long a gateway asks what became of an ordered commit, in nanoseconds.
const OUTCOME_NS: u64 = 30_000_000_000;
/// The pause between two such questions, in nanoseconds.
const PAUSE_NS: u64 = 100_000_000;
/// The most frees in one request.
const FREED_MAX: usize = 1024;

/// The owner of a transaction: its seat, without the term, and its number there.
pub(crate) fn owner(seat: Seat, number: u64) -> Owner {
    in_term(seat) << TXN_BITS | number
}

/// The number of a seat in its term.
pub(crate) fn in_term(seat: Seat) -> Seat {
    seat & ((1 << SEAT_BITS) - 1)
}

/// The seat of an owner, without the term.
pub(crate) fn seat_of(owner: Owner) -> Seat {
    owner >> TXN_BITS
}

/// See the [module documentation](self).
pub struct Link {
    /// The name of this process.
    name: String,
    /// The number of this run of the gateway.
    id: ClientId,
    /// 0 without a seat.
    seat: AtomicU64,
    /// It has the news up to this number.
    has: AtomicU64,
    /// The lease ends at this time.
    until: AtomicU64,
    /// The number of the last lock request.
    last: AtomicU64,
    freeing: Mutex<Freeing>,
    /// Owners that wait for a lock.
    waiting: Mutex<BTreeSet<Owner>>,
    /// Those that wait for news, or for a seat.
    until_news: Mutex<Vec<Waker>>,
    listener: OnceLock<Arc<dyn Listener>>,
    /// Transactions and reads that found their rows elsewhere.
    misses: AtomicU64,
    /// The time at which it got its seat.
    seated_at: AtomicU64,
    /// The time since which this process has the conductor; 0: it does not.
    over_since: AtomicU64,
    /// The part of the tickets that the strategy at the conductor samples.
    wanted: AtomicU64,
    samples: Mutex<Vec<Sample>>,
    /// Replies to questions of other gateways, by their numbers, for the next poll.
    replies: Mutex<Vec<(u64, Vec<u8>)>>,
}

/// Frees that were not acknowledged yet.
#[derive(Default)]
struct Freeing {
    waiting: VecDeque<Freed>,
    sent: Vec<Freed>,
    /// The number of the last request.
    last: u64,
    wakers: Vec<Waker>,
}

impl Freeing {
    fn has(&self, owner: Owner) -> bool {
        let is_of = |freed: &Freed| match freed {
            Freed::Release(of, _) | Freed::GiveUp { owner: of, .. } => *of == owner,
            Freed::HandOver(from, to, _) => *from == owner || *to == owner,
            Freed::Turn(_) => false,
        };
        self.waiting.iter().chain(&self.sent).any(is_of)
    }

    fn wake(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }
}

/// The state of a gateway's seat.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkShown {
    /// The number of its seat; 0: none.
    pub number: u64,
    /// True while it may serve.
    pub is_seated: bool,
    /// The number of the last news.
    pub has: u64,
    /// Transactions and reads that found their rows elsewhere.
    pub misses: u64,
}

impl Link {
    /// The name of this process.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A gateway without a seat, of the process of this name.
    pub(crate) fn new(name: &str, id: ClientId) -> Link {
        let [seat, has, until, last, misses] = [0; 5].map(AtomicU64::new);
        let (freeing, waiting, until_news) = Default::default();
        let (name, listener) = (name.to_owned(), OnceLock::new());
        let (over_since, seated_at, wanted, samples, replies) = Default::default();
        Link {
            name,
            id,
            seat,
            has,
            until,
            last,
            freeing,
            waiting,
            until_news,
            listener,
            misses,
            over_since,
            seated_at,
            wanted,
            samples,
            replies,
        }
    }

    /// See [`super::samples`].
    pub(super) fn wanted(&self) -> u64 {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Keeps a sample for the next poll, unless there are too many.
    pub(super) fn sample(&self, sample: impl FnOnce() -> Sample) {
        let mut samples = self.samples.lock();
        if samples.len() < SAMPLES_MAX {
            samples.push(sample());
        }
    }

    /// Sets the listener. May be called once.
    pub(crate) fn listen(&self, listener: Arc<dyn Listener>) {
        let is_first = self.listener.set(listener).is_ok();
        assert!(is_first, "a process has one gateway");
    }

    /// The state, for operators.
    pub(crate) fn shown(&self, now: Time) -> LinkShown {
        let (has, misses) = (self.has.load(Ordering::SeqCst), self.misses.load(Ordering::Relaxed));
        LinkShown { number: self.seat(), is_seated: self.is_seated(now), has, misses }
    }

    pub(crate) fn seat(&self) -> Seat {
        self.seat.load(Ordering::SeqCst)
    }

    /// True while the lease lasts.
    pub(crate) fn is_seated(&self, now: Time) -> bool {
        self.seat() != 0 && now.0 < self.until.load(Ordering::SeqCst)
    }

    /// An error unless the owner's transaction belongs to this seat, and the lease lasts.
    pub(crate) fn check(&self, owner: Owner, now: Time) -> Result<(), Error> {
        match self.is_seated(now) && seat_of(owner) == in_term(self.seat()) {
            true => Ok(()),
            false => Err(Error::NoSeat),
        }
    }

    /// Waits for a seat while there is none.
    pub(crate) async fn seated(&self, now: impl Fn() -> Time) {
        self.news(|| self.is_seated(now()) || self.ended().is_some()).await;
    }

    /// Waits for a seat, or until this process has the conductor itself, but not longer than a time
    /// in nanoseconds. Each attempt to reach the conductor looks at the time.
    pub(crate) async fn seated_within(&self, now: impl Fn() -> Time, longest_ns: u64) -> bool {
        let until = now().0 + longest_ns;
        let has_come = || self.is_seated(now()) || self.ended().is_some();
        self.news(|| has_come() || now().0 > until).await;
        has_come()
    }

    /// Waits until the conductor has answered what was asked after this moment, or the lease has
    /// ended, or this process has the conductor itself. True if it has answered.
    pub(crate) async fn answers(&self, now: impl Fn() -> Time) -> bool {
        let renewed = now().0 + LEASE_NS - MARGIN_NS;
        let has_answered = || self.until.load(Ordering::SeqCst) >= renewed;
        let is_over = || !self.is_seated(now()) || self.ended().is_some();
        self.news(|| has_answered() || is_over()).await;
        has_answered() && !is_over()
    }

    /// True for a moment after it got its seat: requests of before may have an old route.
    pub(crate) fn is_new(&self, now: Time) -> bool {
        now.0 < self.seated_at.load(Ordering::SeqCst) + LEASE_NS
    }

    /// The time since which this process has the conductor, if it does.
    pub(crate) fn ended(&self) -> Option<Time> {
        Some(Time(self.over_since.load(Ordering::SeqCst))).filter(|time| *time != Time::ZERO)
    }

    /// This process has the conductor from now on.
    pub(crate) fn end(&self, now: Time) {
        self.over_since.store(now.0, Ordering::SeqCst);
        // The locks were those of the conductor before: there is nothing to free.
        self.forget_frees();
        self.wake();
    }

    pub(crate) fn has_missed(&self) {
        self.misses.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn is_waiting(&self, owner: Owner) -> bool {
        self.waiting.lock().contains(&owner)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.lock().len()
    }

    /// Waits until something is so that news, a seat or a tick can change.
    async fn news(&self, is_so: impl Fn() -> bool) {
        poll_fn(|cx| {
            self.until_news.lock().push(cx.waker().clone());
            if is_so() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn wake(&self) {
        self.until_news.lock().drain(..).for_each(Waker::wake);
    }

    async fn ask(&self, transport: &impl Transport, ask: &Ask<'_>) -> Result<Answer, Unanswered> {
        let is_urgent = matches!(
            ask,
            Ask::Join { .. } | Ask::Poll { .. } | Ask::Free { .. } | Ask::Inquire { .. }
        );
        let answer = transport.ask_conductor(write(ask), is_urgent).await?;
        read(&answer).ok_or(Unanswered::Lost)
    }

    /// Joins the conductor, or asks it for news and applies them. Returns false if it gave no
    /// answer.
    pub(crate) async fn step<T: Transport>(&self, conductor: &Conductor<T>) -> bool {
        let transport = conductor.transport();
        let (seat, asked) = (self.seat(), transport.now());
        let ask = match seat {
            0 => Ask::Join { name: self.name.clone() },
            seat => {
                // Without a layer above, no statement runs.
                let has = self.has.load(Ordering::SeqCst);
                let past = self.listener.get().map_or(has, |listener| listener.past());
                let samples = std::mem::take(&mut *self.samples.lock());
                let misses = self.misses.load(Ordering::Relaxed);
                let replies = std::mem::take(&mut *self.replies.lock());
                Ask::Poll { seat, after: has, past, misses, samples, replies }
            }
        };
        let until = asked.0 + LEASE_NS - MARGIN_NS;
        match self.ask(transport, &ask).await {
            Ok(Answer::Joined { seat, ended, after, design }) => {
                let Ok(design) = Design::parse(&design) else { return false };
                let admission = transport.admission();
                admission.into_iter().for_each(|it| it.join(seat, ended.clone(), Time(until)));
                follow_anew(conductor, design);
                self.forget_frees();
                self.replies.lock().clear();
                self.has.store(after, Ordering::SeqCst);
                let listener = self.listener.get();
                listener.iter().for_each(|listener| listener.leaving());
                self.until.store(until, Ordering::SeqCst);
                self.seated_at.store(asked.0, Ordering::SeqCst);
                self.seat.store(seat, Ordering::SeqCst);
                if listener.is_some_and(|listener| !listener.joined(after)) {
                    self.seat.store(0, Ordering::SeqCst);
                }
            }
            Ok(Answer::News { news, wanted }) => {
                self.wanted.store(wanted, Ordering::Relaxed);
                for (number, news) in news {
                    self.apply(conductor, number, news);
                    self.has.store(number, Ordering::SeqCst);
                }
                transport.admission().into_iter().for_each(|it| it.renew(Time(until)));
                self.until.store(until, Ordering::SeqCst);
            }
            Ok(_) => self.seat.store(0, Ordering::SeqCst),
            Err(_) => {
                self.wake();
                return false;
            }
        }
        self.wake();
        true
    }

    fn apply<T: Transport>(&self, conductor: &Conductor<T>, number: u64, news: News) {
        let listener = self.listener.get();
        let is_applied = match news {
            News::Announced(from, _) if from == self.seat() => true,
            News::Announced(from, announcement) => {
                listener.is_none_or(|listener| listener.hear(number, from, &announcement))
            }
            News::Left(seat) => {
                // Before the poll that acknowledges it.
                conductor.transport().admission().into_iter().for_each(|it| it.end(seat));
                listener.is_none_or(|listener| listener.left(number, seat))
            }
            News::Asked(from, _, _) if from == self.seat() => true,
            News::Asked(_, asked, question) => {
                let reply = listener.map(|listener| listener.reply(&question));
                self.replies.lock().extend(reply.map(|reply| (asked, reply)));
                true
            }
            news => follow(conductor, news),
        };
        if !is_applied {
            // The copy is not what it should be: the gateway joins again, and gets a new copy.
            self.seat.store(0, Ordering::SeqCst);
        }
    }

    /// Locks a place: [`crate::open::Gateway::lock_here`], at the conductor.
    pub(crate) async fn lock(
        &self,
        transport: &impl Transport,
        (owner, place): (Owner, Place),
        mode: LockMode,
        waits: bool,
        cancel: &CancelToken,
    ) -> Result<bool, OpenError> {
        let ask = |seat, number, place| Ask::Lock { seat, number, owner, place, mode, waits };
        self.wait(transport, (owner, place), ask, cancel).await
    }

    /// Waits for the current holders of a place.
    pub(crate) async fn wait_for_holders(
        &self,
        transport: &impl Transport,
        owner: Owner,
        place: Place,
        cancel: &CancelToken,
    ) -> Result<(), OpenError> {
        let ask = |seat, number, place| Ask::WaitForHolders { seat, number, owner, place };
        self.wait(transport, (owner, place), ask, cancel).await.map(drop)
    }

    async fn wait<'a>(
        &self,
        transport: &impl Transport,
        (owner, place): (Owner, Place),
        ask: impl FnOnce(Seat, u64, Place) -> Ask<'a>,
        cancel: &CancelToken,
    ) -> Result<bool, OpenError> {
        self.check(owner, transport.now())?;
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let request = ask(self.seat(), number, place.clone());
        let mut waiting = Waiting { link: self, owner, unknown: Some((number, place)), cancel };
        self.waiting.lock().insert(owner);
        cancel.set_waiting(true);
        let asked = async {
            self.until_freed(owner).await;
            self.ask(transport, &request).await
        };
        let answer = unless(&|waker| cancel.poll_over(waker), asked).await;
        let locked = match answer.map_err(OpenError::Canceled)? {
            Ok(Answer::Locked(LockAnswer::Granted(is_new))) => Ok(is_new),
            Ok(Answer::Locked(LockAnswer::NotFree)) => Err(OpenError::Locked),
            Ok(Answer::Locked(LockAnswer::Deadlock(circle))) => Err(OpenError::Deadlock(circle)),
            Ok(Answer::Refused(wrong)) => Err(Error::from(wrong).into()),
            // Its locks have ended with its seat; or the answer was lost, and the lock is given up.
            Ok(_) | Err(_) => return Err(Error::NoSeat.into()),
        };
        waiting.unknown = None;
        locked
    }

    /// Drops all frees, because the locks have ended with the seat.
    fn forget_frees(&self) {
        let mut freeing = self.freeing.lock();
        let mut before = std::mem::take(&mut *freeing);
        drop(freeing);
        before.wake();
    }

    /// Waits until the conductor has all releases of an owner.
    async fn until_freed(&self, owner: Owner) {
        poll_fn(|cx| {
            let mut freeing = self.freeing.lock();
            if !freeing.has(owner) || self.ended().is_some() {
                return Poll::Ready(());
            }
            freeing.wakers.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Waits until the conductor has all releases of an owner, or the seat is lost, and with it the
    /// locks.
    pub(crate) async fn until_released(&self, owner: Owner, now: impl Fn() -> Time) {
        poll_fn(|cx| {
            let mut freeing = self.freeing.lock();
            if !freeing.has(owner) || !self.is_seated(now()) {
                return Poll::Ready(());
            }
            freeing.wakers.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Sends word of a release, soon.
    pub(crate) fn release(&self, owner: Owner, places: &[Place]) {
        self.free(Freed::Release(owner, places.to_vec()));
    }

    /// Sends word of a transfer, soon.
    pub(crate) fn hand_over(&self, from: Owner, to: Owner, places: &[Place]) {
        self.free(Freed::HandOver(from, to, places.to_vec()));
    }

    fn free(&self, freed: Freed) {
        let mut freeing = self.freeing.lock();
        freeing.waiting.push_back(freed);
        freeing.wake();
    }

    /// Sends the next frees, once there are any. Returns false if the conductor gave no answer; the
    /// next call sends them again.
    pub(crate) async fn send_frees(&self, transport: &impl Transport) -> bool {
        let (number, freed) = poll_fn(|cx| {
            let mut freeing = self.freeing.lock();
            if freeing.sent.is_empty() {
                let count = freeing.waiting.len().min(FREED_MAX);
                freeing.sent = freeing.waiting.drain(..count).collect();
                freeing.last += u64::from(count > 0);
            }
            if freeing.sent.is_empty() {
                freeing.wakers.push(cx.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready((freeing.last, freeing.sent.clone()))
        })
        .await;
        let seat = self.seat();
        let answer = self.ask(transport, &Ask::Free { seat, number, freed }).await;
        let mut freeing = self.freeing.lock();
        // After a join there are other ones.
        if answer.is_ok() && freeing.last == number {
            freeing.sent.clear();
        }
        freeing.wake();
        answer.is_ok()
    }

    /// Lets the conductor run a transaction whose partitions keep changing.
    pub(crate) async fn run(
        &self,
        transport: &impl Transport,
        session: Time,
        request: &Request<'_>,
    ) -> Result<Box<RanThere>, Error> {
        let Some(sent) = Execute::of(request) else {
            return Err(Error::AtConductor("code cannot be sent to another process".to_owned()));
        };
        let ask = Ask::Run { seat: request.seat, session, request: sent };
        match self.ask(transport, &ask).await {
            Ok(Answer::Ran(ran)) => Ok(ran),
            Ok(Answer::Refused(wrong)) => Err(wrong.into()),
            Ok(_) => Err(Error::NoSeat),
            Err(lost) => Err(match lost {
                Unanswered::Unreachable(_) => Error::NoSeat,
                // It may have committed.
                Unanswered::Lost => Error::Failure(Failure::Stopped(SiteId(0))),
            }),
        }
    }

    /// Tells all other gateways, and waits until they have heard it.
    ///
    /// # Errors
    /// [`Error::NoSeat`]: some may not have heard it.
    pub(crate) async fn announce(
        &self,
        transport: &impl Transport,
        announcement: Vec<u8>,
    ) -> Result<u64, Error> {
        self.ordered(transport, &Ask::Announce { seat: self.seat(), announcement }).await
    }

    /// Waits until an announcement has taken effect at all other gateways.
    ///
    /// # Errors
    /// [`Error::NoSeat`].
    pub(crate) async fn until_past(
        &self,
        transport: &impl Transport,
        number: u64,
    ) -> Result<(), Error> {
        self.ordered(transport, &Ask::UntilPast { seat: self.seat(), number }).await.map(drop)
    }

    /// Has the conductor change the design, and waits until the change is known here.
    pub(crate) async fn define(
        &self,
        transport: &impl Transport,
        definition: Define,
    ) -> Result<u64, Error> {
        self.ordered(transport, &Ask::Define { seat: self.seat(), definition }).await
    }

    /// Has the conductor put a commit into the order. A commit without a name gets one. If no
    /// answer comes, asks for the [outcome](Link::outcome).
    ///
    /// # Errors
    /// [`Error::NoSeat`]: it is not in the order. [`Failure::Stopped`]: it may be.
    pub(crate) async fn order<T: Transport>(
        &self,
        conductor: &Conductor<T>,
        mut commit: OrderedCommit,
    ) -> Result<Result<Applied, NotOrdered>, Error> {
        if commit.id.gateway == 0 {
            commit.id = conductor.order.name(self.id);
        }
        let id = commit.id;
        let ask = Ask::Order { seat: self.seat(), commit };
        match self.ask(conductor.transport(), &ask).await {
            Ok(Answer::Ordered(Err(NotOrdered::Unknown(_)))) | Err(Unanswered::Lost) => {}
            Ok(Answer::Ordered(outcome)) => return Ok(outcome),
            Ok(_) | Err(Unanswered::Unreachable(_)) => return Err(Error::NoSeat),
        }
        self.outcome(conductor, id).await
    }

    /// Asks the conductor, or the next one, for the outcome of an ordered commit. If it is not in
    /// the order, it never will be.
    ///
    /// # Errors
    /// [`Failure::Stopped`]: none has answered for long.
    pub(crate) async fn outcome<T: Transport>(
        &self,
        conductor: &Conductor<T>,
        id: CommitId,
    ) -> Result<Result<Applied, NotOrdered>, Error> {
        let transport = conductor.transport();
        let until = transport.now().0 + OUTCOME_NS;
        while transport.now().0 < until {
            let left = until.saturating_sub(transport.now().0);
            self.seated_within(|| transport.now(), left).await;
            let answer = match self.ended() {
                Some(_) => {
                    conductor.order.running().await;
                    return Ok(conductor.order.outcome_of(id).await);
                }
                None => self.ask(transport, &Ask::OutcomeOf { seat: self.seat(), id }).await,
            };
            match answer {
                Ok(Answer::Ordered(Err(NotOrdered::NotHere | NotOrdered::Unknown(_)))) => {}
                Ok(Answer::Ordered(outcome)) => return Ok(outcome),
                Ok(_) | Err(_) => {}
            }
            // Until the next news, or the next attempt to get some.
            let (has, asked) = (self.has.load(Ordering::SeqCst), transport.now());
            self.news(|| {
                let is_news = self.has.load(Ordering::SeqCst) != has || self.ended().is_some();
                is_news || transport.now().0 > asked.0 + PAUSE_NS
            })
            .await;
        }
        Err(Error::Failure(Failure::Stopped(SiteId(0))))
    }

    /// Asks where a statement on ordered tables is to run, and waits for its turn. `None`: here.
    pub(crate) async fn turn(
        &self,
        transport: &impl Transport,
        number: u64,
        footprint: Footprint,
    ) -> Option<SiteId> {
        let ask = Ask::Turn { seat: self.seat(), number, footprint };
        match self.ask(transport, &ask).await {
            Ok(Answer::Turn(site)) => site,
            Ok(_) | Err(_) => None,
        }
    }

    /// A statement that has asked for its turn has ended, or will not come.
    pub(crate) fn end_turn(&self, number: u64) {
        self.free(Freed::Turn(number));
    }

    /// Asks the layer above the conductor's gateway.
    ///
    /// # Errors
    /// [`Error::NoSeat`].
    pub(crate) async fn question(
        &self,
        transport: &impl Transport,
        question: Vec<u8>,
    ) -> Result<Vec<u8>, Error> {
        match self.ask(transport, &Ask::Question { seat: self.seat(), question }).await {
            Ok(Answer::Told(answer)) => Ok(answer),
            Ok(_) | Err(_) => Err(Error::NoSeat),
        }
    }

    /// Asks the layers above all other gateways.
    ///
    /// # Errors
    /// [`Error::NoSeat`].
    pub(crate) async fn inquire(
        &self,
        transport: &impl Transport,
        question: Vec<u8>,
    ) -> Result<Vec<Replied>, Error> {
        match self.ask(transport, &Ask::Inquire { seat: self.seat(), question }).await {
            Ok(Answer::Replies(replies)) => Ok(replies),
            Ok(_) | Err(_) => Err(Error::NoSeat),
        }
    }

    async fn ordered(&self, transport: &impl Transport, ask: &Ask<'_>) -> Result<u64, Error> {
        let seat = self.seat();
        match self.ask(transport, ask).await {
            Ok(Answer::Done(after, number)) => {
                let has = || self.has.load(Ordering::SeqCst) >= after || self.seat() != seat;
                self.news(has).await;
                Ok(number)
            }
            Ok(Answer::Refused(wrong)) => Err(wrong.into()),
            Ok(_) | Err(_) => Err(Error::NoSeat),
        }
    }
}

/// A request for a lock, until this is dropped.
struct Waiting<'l> {
    link: &'l Link,
    owner: Owner,
    cancel: &'l CancelToken,
    /// The request, while it may hold a lock that the owner does not know of.
    unknown: Option<(u64, Place)>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.cancel.set_waiting(false);
        self.link.waiting.lock().remove(&self.owner);
        if let Some((number, place)) = self.unknown.take() {
            self.link.free(Freed::GiveUp { number, owner: self.owner, place });
        }
    }
}
