//! The conductor's side: the seats of gateways of other processes, and what they ask for.
//!
//! ```text
//!   seat 1 of b   heard 0.2 s ago   news up to 18    lock requests 41 (waits), 42
//!   seat 2 of c   heard 5.1 s ago   ─▶ ends: its locks are released, its waits are over,
//!                                      no announcement waits for it
//! ```
//!
//! *Invariants.*
//! - A lock that the desk has granted is held by a living seat, or is about to be released.
//! - A request that was given up holds nothing, whichever of the two arrives first: the request or
//!   word of its end. So requests have numbers, and a number that was given up is remembered.

use super::inquiries::{Inquiries, REPLY_NS, Replied};
use super::link::{in_term, seat_of};
use super::messages::{
    Answer, Ask, Define, Freed, LockAnswer, News, Place, RanThere, Sample, Seat, Wrong, read, write,
};
use super::{LEASE_NS, Listener, POLL_NS, samples};
use crate::conductor::{
    Conductor, add_node, begin_news, remove_node, set_ordered, set_pins, turn_plans,
};
use crate::error::Error;
use crate::open::{CancelReason, CancelToken, Gateway, OpenError, Owner};
use crate::router::{Call, Heard, Session};
use crate::transport::Transport;
use futures_util::future::LocalBoxFuture;
use isomer_design::{Design, Pins, Plan, Step, Time};
use isomer_site::Request;
use isomer_site::wire::Execute;
use isomer_strategy::Place as At;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};

/// The most numbers of requests that were given up before they arrived.
const GIVEN_UP_MAX: usize = 4096;

/// Serves gateways of other processes.
pub(crate) trait Serves: Send + Sync {
    /// Answers a request.
    fn serve<'a>(&'a self, request: &'a [u8]) -> LocalBoxFuture<'a, Vec<u8>>;
}

/// See the [module documentation](self).
pub struct Desk<T: Transport> {
    gateway: Arc<Gateway<T>>,
    /// The name of this process.
    name: String,
    seats: Mutex<Seats>,
    listener: OnceLock<Arc<dyn Listener>>,
    /// The number of samples so far.
    heard: AtomicU64,
    /// The tickets that the strategy wants, and when it was asked.
    wanted: Mutex<(Time, Arc<[u64]>)>,
}

struct Seats {
    last: Seat,
    taken: BTreeMap<Seat, Taken>,
    inquiries: Inquiries,
    /// The seats that have ended, and the number of the news of the last end.
    ended: Vec<Seat>,
    left: u64,
    waiting: Vec<Waker>,
}

impl Seats {
    fn wake(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }
}

/// A seat with a gateway.
struct Taken {
    name: String,
    heard: Time,
    /// It has the news up to this number.
    has: u64,
    /// Announcements up to this number have taken effect.
    past: u64,
    misses: u64,
    /// The number of its last request that freed locks.
    freed: u64,
    /// Lock requests under way.
    waits: HashMap<u64, Arc<CancelToken>>,
    /// The last place that each owner was granted, and the number of the request.
    granted: HashMap<Owner, (u64, Place)>,
    /// Requests that were given up before they arrived.
    given_up: BTreeSet<u64>,
}

/// A gateway as operators see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeatShown {
    /// The name of its process.
    pub name: String,
    /// The time since it was heard of, in nanoseconds.
    pub silent_ns: u64,
    /// The number of news that it does not have yet.
    pub behind: u64,
    /// Its lock requests that wait.
    pub waits: usize,
    /// Its transactions and reads that found their rows elsewhere than it expected.
    pub misses: u64,
}

impl<T: Transport> Desk<T> {
    /// A desk beside the gateway of the conductor's process, which has this name. Its first seat
    /// has a number above `last`, which no seat of an earlier conductor should have.
    pub(crate) fn new(gateway: Arc<Gateway<T>>, name: String, last: Seat) -> Desk<T> {
        let (taken, inquiries, ended, left, waiting) = Default::default();
        let seats = Seats { last, taken, inquiries, ended, left, waiting };
        let (listener, heard, wanted) = Default::default();
        Desk { gateway, name, seats: Mutex::new(seats), listener, heard, wanted }
    }

    /// Sets the listener of the conductor's process. May be called once.
    pub fn listen(&self, listener: Arc<dyn Listener>) {
        let is_first = self.listener.set(listener).is_ok();
        assert!(is_first, "a process has one gateway");
    }

    fn conductor(&self) -> &Conductor<T> {
        self.gateway.router().conductor()
    }

    fn now(&self) -> Time {
        self.conductor().transport().now()
    }

    /// The gateways of other processes.
    pub fn seats(&self) -> Vec<SeatShown> {
        let (now, last) = (self.now(), self.conductor().news.last());
        let shown = |taken: &Taken| SeatShown {
            name: taken.name.clone(),
            silent_ns: now.0.saturating_sub(taken.heard.0),
            behind: last.saturating_sub(taken.has),
            waits: taken.waits.len(),
            misses: taken.misses,
        };
        self.seats.lock().taken.values().map(shown).collect()
    }

    /// Ends the seats of gateways that were not heard of for long, and wakes those that wait for
    /// the time. To be called every few milliseconds.
    pub(crate) fn tick(&self) {
        let now = self.now();
        let is_over = |taken: &Taken| now.0.saturating_sub(taken.heard.0) > LEASE_NS;
        let mut seats = self.seats.lock();
        let over: Vec<Seat> =
            seats.taken.iter().filter(|(_, taken)| is_over(taken)).map(|(seat, _)| *seat).collect();
        let ended: Vec<_> = over.iter().filter_map(|seat| self.remove(&mut seats, *seat)).collect();
        // The listener's announcements may have taken effect.
        seats.wake();
        drop(seats);
        for ended in &ended {
            let name = &ended.2.name;
            tracing::warn!("the gateway of {name} was not heard of: its locks end");
            self.end(ended);
        }
        self.conductor().news.tick();
    }

    /// Ends the questions to other processes at each snapshot, once no other process has a seat. To
    /// be called every second or so.
    ///
    /// The sites accept no commit in the name of a seat that has ended. So the commits that other
    /// gateways have acknowledged, or will, have got their times before, and are not later than the
    /// latest times of the sites' processes. Once each of these has said that time, the present of
    /// this gateway includes them. If one cannot be asked, the questions go on: its rows may be
    /// seen again.
    pub(crate) async fn settle(&self) {
        let news = &self.conductor().news;
        let last = {
            let seats = self.seats.lock();
            if !news.is_read() || !seats.taken.is_empty() {
                return;
            }
            seats.last
        };
        let (latest, is_of_all) = self.conductor().transport().latest().await;
        if !is_of_all {
            return;
        }
        self.gateway.router().has_committed(latest);
        // A gateway that joins now begins the questions again.
        let seats = self.seats.lock();
        if seats.last == last {
            news.end();
        }
    }

    /// Takes a seat away. From the return on, the sites here accept none of its commits, and an
    /// [announcement](Self::announce) waits until the others have heard the same.
    fn remove(&self, seats: &mut Seats, seat: Seat) -> Option<(Seat, u64, Taken)> {
        let taken = seats.taken.remove(&seat)?;
        self.conductor().transport().admission().into_iter().for_each(|it| it.end(seat));
        seats.ended.push(seat);
        seats.left = self.conductor().news.add(|| News::Left(seat));
        Some((seat, seats.left, taken))
    }

    /// Ends a seat that was taken away, by the news of this number.
    fn end(&self, (seat, number, taken): &(Seat, u64, Taken)) {
        let (seat, number) = (*seat, *number);
        if let Some(listener) = self.listener.get() {
            listener.left(number, seat);
        }
        taken.waits.values().for_each(|wait| wait.end(CancelReason::Gone));
        self.conductor().ahead.end_seat(seat);
        for (owner, places) in self.gateway.held_by(|owner| seat_of(owner) == in_term(seat)) {
            self.gateway.give_back(owner, &places);
        }
    }

    /// Tells all gateways but that of `from`, and waits until each has heard it or has lost its
    /// seat. Returns the number of the announcement.
    pub(crate) async fn announce(&self, from: Seat, announcement: &[u8]) -> u64 {
        let item = || News::Announced(from, announcement.to_vec());
        let number = self.conductor().news.add(item);
        if from != 0
            && let Some(listener) = self.listener.get()
        {
            listener.hear(number, from, announcement);
        }
        // In this order: a gateway that does not hear it has lost its seat, and its commits are
        // refused wherever the others are.
        self.until(|seat, taken| *seat == from || taken.has >= number).await;
        let left = self.seats.lock().left;
        self.until(|seat, taken| *seat == from || taken.has >= left).await;
        number
    }

    /// Waits until an announcement has taken effect at all gateways but that of `but`: see
    /// [`Listener::past`].
    pub(crate) async fn until_past(&self, but: Seat, number: u64) {
        self.until(|seat, taken| *seat == but || taken.past >= number).await;
        if but == 0 {
            return;
        }
        let Some(listener) = self.listener.get() else { return };
        poll_fn(|cx| match listener.past() >= number {
            true => Poll::Ready(()),
            false => {
                self.seats.lock().waiting.push(cx.waker().clone());
                Poll::Pending
            }
        })
        .await;
    }

    /// Waits until all seats satisfy a condition.
    async fn until(&self, is_so: impl Fn(&Seat, &Taken) -> bool) {
        poll_fn(|cx| {
            let mut seats = self.seats.lock();
            if seats.taken.iter().all(|(seat, taken)| is_so(seat, taken)) {
                return Poll::Ready(());
            }
            seats.waiting.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    async fn answer(&self, ask: Ask<'static>) -> Answer {
        match ask {
            Ask::Join { name } => self.join(name),
            Ask::Poll { seat, after, past, misses, samples, replies } => {
                self.hear(&samples);
                self.take_replies(seat, replies);
                self.poll(seat, (after, past, misses)).await
            }
            Ask::Lock { seat, number, owner, place, mode, waits } => {
                let wait = |cancel: Arc<CancelToken>| {
                    let place = place.clone();
                    async move { self.gateway.lock_here(owner, place, mode, waits, &cancel).await }
                };
                self.lock(seat, number, (owner, place.clone()), wait).await
            }
            Ask::WaitForHolders { seat, number, owner, place } => {
                let wait = |cancel: Arc<CancelToken>| {
                    let place = place.clone();
                    async move {
                        let waited =
                            self.gateway.wait_for_holders_here(owner, place, &cancel).await;
                        waited.map(|()| false)
                    }
                };
                self.lock(seat, number, (owner, place.clone()), wait).await
            }
            Ask::Free { seat, number, freed } => self.free(seat, number, freed),
            Ask::Run { seat, session, request } => self.run(seat, session, &request).await,
            Ask::Announce { seat, announcement } => {
                let number = self.announce(seat, &announcement).await;
                self.done(number)
            }
            Ask::UntilPast { seat, number } => {
                self.until_past(seat, number).await;
                self.done(number)
            }
            Ask::Define { definition, .. } => match self.define(definition).await {
                Ok(number) => self.done(number),
                Err(error) => Answer::Refused(error.into()),
            },
            Ask::Question { question, .. } => match self.listener.get() {
                Some(listener) => Answer::Told(listener.answer(&question)),
                None => Answer::NoSeat,
            },
            Ask::Inquire { seat, .. } if !self.is_taken(seat) => Answer::NoSeat,
            Ask::Inquire { seat, question } => Answer::Replies(self.inquire(seat, &question).await),
            Ask::Order { seat, commit } if self.is_taken(seat) => {
                let conductor = self.conductor();
                let _unanswered = conductor.ahead.unanswered(conductor);
                Answer::Ordered(conductor.order.submit(commit).await)
            }
            Ask::OutcomeOf { seat, id } if self.is_taken(seat) => {
                Answer::Ordered(self.conductor().order.outcome_of(id).await)
            }
            Ask::Order { .. } | Ask::OutcomeOf { .. } => Answer::NoSeat,
            Ask::Turn { seat, number, footprint } => {
                let (conductor, is_wanted) = (self.conductor(), || self.is_taken(seat));
                let turn = conductor.ahead.turn(conductor, (seat, number), footprint, is_wanted);
                Answer::Turn(turn.await)
            }
        }
    }

    fn take_replies(&self, seat: Seat, replies: Vec<(u64, Vec<u8>)>) {
        let inquiries = &mut self.seats.lock().inquiries;
        replies.into_iter().for_each(|(number, reply)| inquiries.reply(seat, number, reply));
    }

    /// A question to all gateways but that of `from`. Returns its number.
    fn open_inquiry(&self, from: Seat) -> u64 {
        let Seats { taken, inquiries, .. } = &mut *self.seats.lock();
        let asked = taken.iter().filter(|(seat, _)| **seat != from);
        inquiries.open(asked.map(|(seat, taken)| (*seat, taken.name.clone())))
    }

    /// Asks all gateways but that of `from`, and waits for their replies: see
    /// [`super::inquiries`].
    pub(crate) async fn inquire(&self, from: Seat, question: &[u8]) -> Vec<Replied> {
        let begun = self.now();
        let number = self.open_inquiry(from);
        let mut asking = Asking { desk: self, number: Some(number) };
        self.conductor().news.add(|| News::Asked(from, number, question.to_vec()));
        let own = self.listener.get().filter(|_| from != 0);
        let own =
            own.map(|own| Replied { name: self.name.clone(), reply: Some(own.reply(question)) });
        poll_fn(|cx| {
            let mut seats = self.seats.lock();
            let is_there = |seat| seats.taken.contains_key(&seat);
            if seats.inquiries.is_complete(number, is_there) || self.now().0 > begun.0 + REPLY_NS {
                return Poll::Ready(());
            }
            seats.waiting.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
        own.into_iter().chain(asking.close()).collect()
    }

    fn is_taken(&self, seat: Seat) -> bool {
        self.seats.lock().taken.contains_key(&seat)
    }

    fn done(&self, number: u64) -> Answer {
        Answer::Done(self.conductor().news.last(), number)
    }

    fn join(&self, name: String) -> Answer {
        let mut seats = self.seats.lock();
        let (design, after) = begin_news(self.conductor());
        // A process has one gateway, so an earlier one of its name has ended.
        let earlier: Vec<Seat> =
            seats.taken.iter().filter(|(_, it)| it.name == name).map(|(seat, _)| *seat).collect();
        let ended: Vec<_> =
            earlier.iter().filter_map(|seat| self.remove(&mut seats, *seat)).collect();
        seats.last += 1;
        let (seat, over) = (seats.last, seats.ended.clone());
        let (heard, has, past, misses, freed) = (self.now(), after, after, 0, 0);
        let (waits, granted, given_up) = Default::default();
        let taken = Taken { name, heard, has, past, misses, freed, waits, granted, given_up };
        seats.taken.insert(seat, taken);
        seats.wake();
        drop(seats);
        ended.iter().for_each(|ended| self.end(ended));
        Answer::Joined { seat, ended: over, after, design: design.to_text() }
    }

    async fn poll(&self, seat: Seat, (after, past, misses): (u64, u64, u64)) -> Answer {
        let begun = self.now();
        {
            let mut seats = self.seats.lock();
            let Some(taken) = seats.taken.get_mut(&seat) else { return Answer::NoSeat };
            taken.heard = begun;
            (taken.has, taken.past) = (taken.has.max(after), taken.past.max(past));
            taken.misses = misses;
            seats.wake();
        }
        let is_over = || self.now().0 > begun.0 + POLL_NS;
        match self.conductor().news.next(after, is_over).await {
            Some(news) => {
                let wanted = self.wanted().len() as u64;
                Answer::News { news, wanted }
            }
            None => {
                let ended = self.remove(&mut self.seats.lock(), seat);
                ended.iter().for_each(|ended| self.end(ended));
                Answer::NoSeat
            }
        }
    }

    /// Reports transactions of a gateway to the strategy, like those of this one that it samples.
    fn hear(&self, samples: &[Sample]) {
        let tickets = self.wanted();
        let session = Session::new(0);
        for sample in samples.iter().filter(|_| !tickets.is_empty()) {
            let at = self.heard.fetch_add(1, Ordering::Relaxed) as usize % tickets.len();
            let (footprint, measured) = (sample.footprint.clone(), samples::measured(sample));
            self.gateway.router().hear(&session, tickets[at], &Heard { footprint, measured });
        }
    }

    /// The tickets that the strategy wants, as it was asked last.
    fn wanted(&self) -> Arc<[u64]> {
        let now = self.now();
        let mut wanted = self.wanted.lock();
        if now.0 >= wanted.0.0 + POLL_NS {
            *wanted = (now, samples::wanted(self.conductor().strategy()).into());
        }
        wanted.1.clone()
    }

    /// Waits for a lock in the name of a seat.
    async fn lock<W: Future<Output = Result<bool, OpenError>>>(
        &self,
        seat: Seat,
        number: u64,
        (owner, place): (Owner, Place),
        wait: impl FnOnce(Arc<CancelToken>) -> W,
    ) -> Answer {
        let cancel = Arc::new(CancelToken::default());
        {
            let mut seats = self.seats.lock();
            let Some(taken) = seats.taken.get_mut(&seat) else { return Answer::NoSeat };
            if taken.given_up.remove(&number) {
                return Answer::Locked(LockAnswer::GivenUp);
            }
            taken.waits.insert(number, cancel.clone());
        }
        let under_way = UnderWay { desk: self, seat, number };
        let locked = wait(cancel).await;
        drop(under_way);
        let mut seats = self.seats.lock();
        let taken = seats.taken.get_mut(&seat);
        let is_given_up = taken.is_none_or(|taken| {
            let is_given_up = taken.given_up.remove(&number);
            if matches!(locked, Ok(true)) && !is_given_up {
                taken.granted.insert(owner, (number, place.clone()));
            }
            is_given_up
        });
        drop(seats);
        Answer::Locked(match locked {
            Ok(true) if is_given_up => {
                self.gateway.give_back(owner, &[place]);
                LockAnswer::GivenUp
            }
            Ok(is_new) => LockAnswer::Granted(is_new),
            Err(OpenError::Deadlock(circle)) => LockAnswer::Deadlock(circle),
            Err(OpenError::Locked) => LockAnswer::NotFree,
            Err(_) => LockAnswer::GivenUp,
        })
    }

    fn free(&self, seat: Seat, number: u64, freed: Vec<Freed>) -> Answer {
        match self.seats.lock().taken.get_mut(&seat) {
            None => return Answer::NoSeat,
            // It was sent again.
            Some(taken) if number <= taken.freed => return Answer::Done(0, 0),
            Some(taken) => taken.freed = number,
        }
        for freed in freed {
            match freed {
                Freed::Release(owner, places) => {
                    self.forget(seat, owner, &places);
                    self.gateway.give_back(owner, &places);
                }
                Freed::HandOver(from, to, places) => {
                    self.forget(seat, from, &places);
                    self.gateway.hand_over_here(from, to, &places);
                }
                Freed::GiveUp { number, owner, place } => self.give_up(seat, number, owner, place),
                Freed::Turn(number) => self.conductor().ahead.end((seat, number)),
            }
        }
        Answer::Done(0, 0)
    }

    /// An owner gives up places that it was granted.
    fn forget(&self, seat: Seat, owner: Owner, places: &[Place]) {
        let mut seats = self.seats.lock();
        let Some(taken) = seats.taken.get_mut(&seat) else { return };
        if taken.granted.get(&owner).is_some_and(|(_, place)| places.contains(place)) {
            taken.granted.remove(&owner);
        }
    }

    fn give_up(&self, seat: Seat, number: u64, owner: Owner, place: Place) {
        let mut seats = self.seats.lock();
        let Some(taken) = seats.taken.get_mut(&seat) else { return };
        if taken.granted.get(&owner).is_some_and(|(granted, _)| *granted == number) {
            taken.granted.remove(&owner);
            drop(seats);
            self.gateway.give_back(owner, &[place]);
            return;
        }
        // It waits, has ended without a lock, or has not arrived yet.
        taken.given_up.insert(number);
        if taken.given_up.len() > GIVEN_UP_MAX {
            taken.given_up.pop_first();
        }
        if let Some(wait) = taken.waits.get(&number) {
            wait.end(CancelReason::Asked);
        }
    }

    async fn run(&self, seat: Seat, seen: Time, request: &Execute<'_>) -> Answer {
        if !self.seats.lock().taken.contains_key(&seat) {
            return Answer::NoSeat;
        }
        let router = self.gateway.router();
        let mut session = Session::new(seen.0);
        session.has_seen(seen);
        let (ticket, _) = router.ticket(&mut session);
        let call = Call { ticket, is_wanted: false, before: None, over: &|_| Poll::Pending };
        let request = Request { seat, ..request.request() };
        match router.serve_until(&mut session, request, &mut |_| {}, call).await {
            Ok((ran, output)) => Answer::Ran(Box::new(RanThere {
                site: ran.place.site(),
                is_distributed: matches!(ran.place, At::Distributed { .. }),
                committed: ran.committed,
                changes: ran.changes,
                output,
            })),
            Err(error) => Answer::Refused(error.into()),
        }
    }

    async fn define(&self, definition: Define) -> Result<u64, Error> {
        let conductor = self.conductor();
        match definition {
            Define::CreateTable(text) => {
                let wrong = || Error::AtConductor("the table cannot be read".to_owned());
                let of = Design::parse(&text).map_err(|_| wrong())?;
                let (_, table) = of.tables().next().ok_or_else(wrong)?;
                let partitions = table.partitions().iter();
                let partitions =
                    partitions.map(|(start, at)| (start.clone(), at.clone())).collect();
                let schema = (**table.schema()).clone();
                return Ok(conductor.create_table(schema, partitions).await?.0.into());
            }
            Define::DropTable(table) => conductor.drop_table(table).await?,
            Define::Backups(table, backups, missing) => {
                conductor.give_backups(table, backups, missing).await?;
            }
            Define::Ordered(tables, is_ordered) => {
                set_ordered(conductor, &tables, is_ordered).await?;
            }
            Define::Pins(table, ranges) => {
                let pins = ranges.iter().fold(Pins::default(), |pins, range| pins.with(range));
                set_pins(conductor, table, pins).await?;
            }
            Define::TurnPlans(on) => turn_plans(conductor, on),
            Define::Changes(steps) => {
                let reason = "asked for by an operator".to_owned();
                drop(conductor.change_all(&plan(reason, steps)).await?);
            }
            Define::Reconfigure(reason, steps) => {
                return conductor.reconfigure(plan(reason, steps));
            }
            Define::Control(number, control) => {
                conductor.control_reconfiguration(number, control)?
            }
            Define::Reverse(number) => return conductor.reverse_reconfiguration(number),
            Define::AddNode(joined) => drop(add_node(conductor, joined).await?),
            Define::RemoveNode(name) => remove_node(conductor, &name).await?,
        }
        Ok(0)
    }
}

fn plan(reason: String, steps: Vec<(isomer_design::Change, String)>) -> Plan {
    let steps = steps.into_iter().map(|(change, reason)| Step::new(change, reason));
    Plan { reason, steps: steps.collect() }
}

impl<T: Transport + Send + Sync> Serves for Desk<T> {
    fn serve<'a>(&'a self, request: &'a [u8]) -> LocalBoxFuture<'a, Vec<u8>> {
        Box::pin(async move {
            let Some(ask) = read(request) else {
                let what = "the request of a gateway cannot be read; let both be of one release";
                return write(&Answer::Refused(Wrong::Other(what.to_owned())));
            };
            write(&self.answer(ask).await)
        })
    }
}

/// A question to all gateways, until this is dropped.
struct Asking<'d, T: Transport> {
    desk: &'d Desk<T>,
    number: Option<u64>,
}

impl<T: Transport> Asking<'_, T> {
    fn close(&mut self) -> Vec<Replied> {
        let number = self.number.take();
        number.map_or_else(Vec::new, |number| self.desk.seats.lock().inquiries.close(number))
    }
}

impl<T: Transport> Drop for Asking<'_, T> {
    fn drop(&mut self) {
        self.close();
    }
}

/// A lock request under way, until this is dropped.
struct UnderWay<'d, T: Transport> {
    desk: &'d Desk<T>,
    seat: Seat,
    number: u64,
}

impl<T: Transport> Drop for UnderWay<'_, T> {
    fn drop(&mut self) {
        if let Some(taken) = self.desk.seats.lock().taken.get_mut(&self.seat) {
            taken.waits.remove(&self.number);
        }
    }
}
