//! Prescient routing: statements on ordered tables get their sites from whole batches, before they
//! run (Hermes, section 3.2).
//!
//! ```text
//!   gateway b                 conductor                            process a
//!   rows 7 and 9: whose? ───▶ gathers ─▶ batch ─▶ router ─▶ turns
//!            ◀──── at s1 ──── when its turn has come
//!   ships the statement ─────────────────────────────────────────▶ runs; its commit moves 7, 9 here
//!   it has ended ───────────▶ the next statement about 7 or 9 has its turn
//! ```
//!
//! *Problem.* A transaction that ran at its client's gateway has read rows of many processes before
//! it was ordered, and of the writers of one row in a batch one is applied: the others run again.
//! *Solution.* A statement outside of a block, or a CALL, whose rows are known before it runs asks
//! the conductor first. A batch of such statements shows the near future, so the router places
//! them together: those about the same rows run at one site, one after the other ([`Turns`]), and
//! the rows that they write stay there ([`crate::fusion`]).
//!
//! **A batch closes** when the order has ended one of its own, or has nothing to do. So statements
//! gather while others are made durable, and a lone one waits for nothing.
//!
//! **Advice.** Turns prevent conflicts between statements that have asked; what a commit has read
//! is validated in the order all the same. So a lost turn, a site that has failed since, or a
//! transaction that has not asked costs time, and never an answer. The statement then runs at its
//! client's gateway.
//!
//! **Processes.** All sites of a process are equally near, so the router sees one of them, the
//! first. Processes that are down or drained get no statements.
//!
//! **Left out.** The statements of a block, rows that are found by an index, and reads alone: they
//! run where they do without a router. Moves of rows that are only read.

use crate::fusion::parse;
use isomer_batch::{Turn, Turns};
use isomer_design::{Design, Footprint, Key, RoutingTable, SiteId, SiteSet};
use isomer_strategy::batch::{Back, Homes, Moved, Route};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Poll, Waker};

/// The most records that are remembered away from home.
const FUSED_MAX: usize = 1 << 20;
/// The most tickets that are remembered because they ended before they arrived.
const GIVEN_UP_MAX: usize = 4096;

/// A statement: the seat of its gateway, and a number there.
pub(crate) type Ticket = (u64, u64);

/// Where rows and sites are, as the conductor knows it.
pub(crate) trait Map {
    /// The routing table, a new one after each change of the design.
    fn table(&self) -> Arc<RoutingTable>;

    /// The design of that table, or a later one.
    fn plan(&self) -> Design;

    /// The sites that statements may be sent to.
    fn usable(&self) -> SiteSet;

    /// The name of a site's process; `None`: this one.
    fn process_of(&self, site: SiteId) -> Option<String>;
}

/// See the [module documentation](self).
pub(crate) struct Ahead {
    state: Mutex<State>,
    /// True if there is a router.
    is_on: AtomicBool,
    /// Commits that the order has not answered.
    unanswered: AtomicUsize,
    /// The number of the last statement of this process.
    last: AtomicU64,
    batches: AtomicU64,
    statements: AtomicU64,
}

/// Counts of statements that were routed since the database was opened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AheadCounters {
    /// Batches.
    pub batches: u64,
    /// Statements in them.
    pub statements: u64,
}

struct State {
    route: Option<(String, Arc<dyn Route>)>,
    turns: Turns<Ticket>,
    known: Option<Known>,
    /// Turns that were not taken yet.
    granted: BTreeMap<Ticket, Option<SiteId>>,
    waiting: HashMap<Ticket, Waker>,
    /// Those that ended before they arrived.
    given_up: BTreeSet<Ticket>,
}

/// The homes of a routing table, with one site for each process.
struct Known {
    of: Arc<RoutingTable>,
    usable: SiteSet,
    homes: Arc<Homes>,
    first: BTreeMap<SiteId, SiteId>,
}

impl Default for Ahead {
    fn default() -> Ahead {
        let (granted, waiting, given_up) = Default::default();
        let turns = Turns::new(FUSED_MAX);
        let state = State { route: None, turns, known: None, granted, waiting, given_up };
        let (is_on, unanswered, last, batches, statements) = Default::default();
        Ahead { state: Mutex::new(state), is_on, unanswered, last, batches, statements }
    }
}

impl Ahead {
    /// Sets the router, with its name; `None`: statements run at their gateways, and those that
    /// wait begin.
    pub(crate) fn set_route(&self, route: Option<(String, Arc<dyn Route>)>) {
        let mut state = self.state.lock();
        if route.is_none() {
            let before = std::mem::replace(&mut state.turns, Turns::new(FUSED_MAX));
            let waiting: Vec<Ticket> =
                before.tickets().filter(|ticket| state.waiting.contains_key(ticket)).collect();
            waiting.into_iter().for_each(|ticket| state.grant(Turn { ticket, site: None }));
        }
        self.is_on.store(route.is_some(), Ordering::Relaxed);
        state.route = route;
    }

    /// True if statements ask for their turns.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// The name of the router.
    pub(crate) fn name(&self) -> Option<String> {
        self.state.lock().route.as_ref().map(|(name, _)| name.clone())
    }

    /// True if the rows that a statement writes stay at its site.
    pub(crate) fn keeps_rows(&self) -> bool {
        let movement = self.state.lock().route.as_ref().map(|(_, route)| route.movement());
        movement.is_some_and(|it| it.moved != Moved::Nothing && it.back == Back::Evicted)
    }

    /// A new ticket of this process.
    pub(crate) fn number(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Counts of statements that were routed.
    pub(crate) fn counters(&self) -> AheadCounters {
        let [batches, statements] =
            [&self.batches, &self.statements].map(|count| count.load(Ordering::Relaxed));
        AheadCounters { batches, statements }
    }
}

impl State {
    fn grant(&mut self, turn: Turn<Ticket>) {
        self.granted.insert(turn.ticket, turn.site);
        self.waiting.remove(&turn.ticket).into_iter().for_each(Waker::wake);
    }

    fn end(&mut self, ticket: Ticket) {
        if !self.turns.has(ticket) {
            self.given_up.insert(ticket);
            if self.given_up.len() > GIVEN_UP_MAX {
                self.given_up.pop_first();
            }
            return;
        }
        self.granted.remove(&ticket);
        if self.waiting.contains_key(&ticket) {
            self.grant(Turn { ticket, site: None });
        }
        self.turns.end(ticket).into_iter().for_each(|turn| self.grant(turn));
    }

    /// The homes of all rows, as they are now.
    fn homes(&mut self, map: &impl Map) -> Arc<Homes> {
        let (table, usable) = (map.table(), map.usable());
        if let Some(known) = &self.known
            && Arc::ptr_eq(&known.of, &table)
            && known.usable == usable
        {
            return known.homes.clone();
        }
        let design = map.plan();
        let first = first_of_each_process(map, design.sites());
        let of = |site: SiteId| first.get(&site).copied().unwrap_or(site);
        let mut homes = Homes::mapped(&design, of);
        let firsts: SiteSet = usable.iter().map(of).collect();
        let others: Vec<SiteId> =
            homes.sites().iter().filter(|site| !firsts.contains(*site)).collect();
        others.into_iter().for_each(|site| homes.remove_site(site));
        let homes = Arc::new(homes);
        self.known = Some(Known { of: table, usable, homes: homes.clone(), first });
        homes
    }
}

/// The first site of the process of each site.
fn first_of_each_process(map: &impl Map, sites: &SiteSet) -> BTreeMap<SiteId, SiteId> {
    let mut firsts: BTreeMap<Option<String>, SiteId> = BTreeMap::new();
    let first = |site: SiteId| (site, *firsts.entry(map.process_of(site)).or_insert(site));
    sites.iter().map(first).collect()
}

impl Ahead {
    /// Waits for the turn of a statement, and returns its site; `None`: it runs at its gateway. If
    /// this is dropped before it is ready, the statement has ended. Otherwise [`Ahead::end`] ends
    /// it.
    pub(crate) async fn turn(
        &self,
        map: &impl Map,
        ticket: Ticket,
        footprint: Footprint,
        is_wanted: impl Fn() -> bool,
    ) -> Option<SiteId> {
        {
            let mut state = self.state.lock();
            // Its end, or that of its gateway, may have come first.
            if state.given_up.remove(&ticket) || state.route.is_none() || !is_wanted() {
                return None;
            }
            state.turns.ask(ticket, footprint);
        }
        let mut asking = Asking { ahead: self, ticket, is_over: false };
        if self.unanswered.load(Ordering::SeqCst) == 0 {
            self.close(map);
        }
        let site = poll_fn(|cx| {
            let mut state = self.state.lock();
            if let Some(site) = state.granted.remove(&ticket) {
                state.waiting.remove(&ticket);
                return Poll::Ready(site);
            }
            state.waiting.insert(ticket, cx.waker().clone());
            Poll::Pending
        })
        .await;
        asking.is_over = true;
        site
    }

    /// A statement has ended, or will not come.
    pub(crate) fn end(&self, ticket: Ticket) {
        self.state.lock().end(ticket);
    }

    /// The statements of a seat have ended.
    pub(crate) fn end_seat(&self, seat: u64) {
        let mut state = self.state.lock();
        let of_seat: Vec<Ticket> = state.turns.tickets().filter(|(of, _)| *of == seat).collect();
        of_seat.into_iter().for_each(|ticket| state.end(ticket));
        state.given_up.retain(|(of, _)| *of != seat);
    }

    /// Routes the statements that have gathered.
    pub(crate) fn close(&self, map: &impl Map) {
        if !self.is_on() {
            return;
        }
        let mut state = self.state.lock();
        let (Some((_, route)), count @ 1..) = (state.route.clone(), state.turns.gathered()) else {
            return;
        };
        let homes = state.homes(map);
        let turns = state.turns.close(&*route, &homes);
        turns.into_iter().for_each(|turn| state.grant(turn));
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.statements.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Rows of the fused table were written: their places, and whether they are there.
    pub(super) fn moved(&self, map: &impl Map, places: &[(Key, bool)]) {
        let mut state = self.state.lock();
        let homes = state.homes(map);
        let State { turns, known, .. } = &mut *state;
        let first = known.as_ref().map(|known| &known.first);
        // A row that moves on is removed at one place, and is at another.
        for is_there in [false, true] {
            for (place, _) in places.iter().filter(|(_, there)| *there == is_there) {
                let Some((site, table, key)) = parse(place) else { continue };
                let site = first.and_then(|first| first.get(&site)).copied().unwrap_or(site);
                turns.moved(&(table, key), Some(site).filter(|_| is_there), &homes);
            }
        }
    }

    /// A commit is about to enter the order, and is not answered until the result is dropped.
    pub(crate) fn unanswered<'a, M: Map>(&'a self, map: &'a M) -> Unanswered<'a, M> {
        self.unanswered.fetch_add(1, Ordering::SeqCst);
        Unanswered(self, map)
    }
}

/// A statement that waits for its turn, until this is dropped.
struct Asking<'a> {
    ahead: &'a Ahead,
    ticket: Ticket,
    is_over: bool,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let mut state = self.ahead.state.lock();
            state.waiting.remove(&self.ticket);
            state.end(self.ticket);
        }
    }
}

/// A commit that the order has not answered, until this is dropped.
pub(crate) struct Unanswered<'a, M: Map>(&'a Ahead, &'a M);

impl<M: Map> Drop for Unanswered<'_, M> {
    fn drop(&mut self) {
        // The last one: no batch of the order ends after it.
        if self.0.unanswered.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.close(self.1);
        }
    }
}
