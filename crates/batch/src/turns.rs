//! Turns: statements of a running database that are routed before they run.
//!
//! A [planner](crate::Planner) needs requests whose rows are all known, and an engine that runs
//! them in one order. A database has both kinds of statements, so it uses the two halves of that
//! idea that help without the rest. The site of each statement is chosen from a whole batch, and
//! statements that conflict get their turns one after the other.
//!
//! ```text
//!   ask    pay(7, 9)   pay(9, 3)   read(5)                       gathered
//!   close  ─▶ router:  pay(9, 3) at s2, pay(7, 9) at s2, read(5) at s1
//!          ─▶ locks:   s2: pay(9, 3) has its turn;  pay(7, 9) waits for 9;  s1: read(5) has its turn
//!   end    pay(9, 3)  ─▶ pay(7, 9) has its turn, at s2, where 9 and 3 are now
//! ```
//!
//! The user decides when a batch is closed, and says when a statement has ended, whatever became of
//! it. Two statements that conflict never have their turns together, and each waits for earlier
//! ones only. So each gets its turn once these have ended.
//!
//! The fusion table holds what the router expects: a statement's written rows are at its site from
//! the moment of routing on ([`Turns::moved`] corrects that). It is advice. Rows are found wherever
//! they are, so a wrong entry costs messages, and nothing else.
//!
//! Sites without a place for new statements are not among the [`Homes`]' sites. Records there are
//! ignored by the router, and locked like all others.

use crate::locks::{Lock, Locks};
use crate::plan::StepId;
use isomer_design::{Access, Footprint, Item, SiteId, Span};
use isomer_strategy::batch::{
    Back, FusionTable, Homes, Moved, Movement, Places, RecordId, Replacement, Route,
};
use std::collections::BTreeMap;

/// The turn of a statement has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn<T> {
    /// The statement.
    pub ticket: T,
    /// Its site; `None` if the router knows nothing about its rows.
    pub site: Option<SiteId>,
}

/// A statement that was routed.
#[derive(Clone, Copy, Debug)]
struct Routed<T> {
    ticket: T,
    site: Option<SiteId>,
    has_turn: bool,
    /// It has ended before its turn.
    is_over: bool,
}

/// Statements that wait for their turns, or have them. See the [module documentation](self).
/// A ticket `T` identifies a statement until it has ended.
#[derive(Debug)]
pub struct Turns<T> {
    /// The next batch, in the order of arrival.
    gathered: Vec<(T, Footprint)>,
    routed: BTreeMap<StepId, Routed<T>>,
    steps: BTreeMap<T, StepId>,
    locks: Locks,
    fusion: FusionTable<RecordId, SiteId>,
    batches: u64,
}

impl<T: Copy + Ord> Turns<T> {
    /// No statements. Up to `fused_max` records away from home are remembered.
    pub fn new(fused_max: usize) -> Turns<T> {
        let fusion = FusionTable::new(Replacement::Lru, Some(fused_max));
        let (gathered, routed, steps, locks) = Default::default();
        Turns { gathered, routed, steps, locks, fusion, batches: 0 }
    }

    /// A statement waits for the next batch.
    pub fn ask(&mut self, ticket: T, footprint: Footprint) {
        self.gathered.push((ticket, footprint));
    }

    /// The number of statements that wait for the next batch.
    pub fn gathered(&self) -> usize {
        self.gathered.len()
    }

    /// The numbers of statements that have their turns, and of those that wait for others.
    pub fn running(&self) -> (usize, usize) {
        let running = self.routed.values().filter(|it| it.has_turn).count();
        (running, self.routed.len() - running)
    }

    /// The number of records that are expected away from home.
    pub fn fused(&self) -> usize {
        self.fusion.len()
    }

    /// Routes the batch that has gathered. Returns those that have their turns at once.
    pub fn close(&mut self, route: &dyn Route, homes: &Homes) -> Vec<Turn<T>> {
        let batch = std::mem::take(&mut self.gathered);
        if batch.is_empty() {
            return Vec::new();
        }
        self.batches += 1;
        let mut turns = Vec::new();
        for (at, (place, site)) in self.routes(&batch, route, homes).into_iter().enumerate() {
            let (ticket, footprint) = &batch[place];
            let step = StepId { batch: self.batches, step: at as u32 };
            if let Some(site) = site {
                self.expect_moves(footprint, site, route.movement(), homes);
            }
            let has_turn = self.locks.acquire(step, locks(footprint));
            let routed = Routed { ticket: *ticket, site, has_turn, is_over: false };
            self.routed.insert(step, routed);
            self.steps.insert(*ticket, step);
            turns.extend(has_turn.then_some(Turn { ticket: *ticket, site }));
        }
        while self.fusion.evict_over_size().is_some() {}
        turns
    }

    /// The order of a batch, by the places of its statements, and their sites.
    fn routes(
        &self,
        batch: &[(T, Footprint)],
        route: &dyn Route,
        homes: &Homes,
    ) -> Vec<(usize, Option<SiteId>)> {
        let places = Places::new(homes, &self.fusion);
        let known: Vec<Footprint> =
            batch.iter().map(|(_, footprint)| known(footprint, &places, homes)).collect();
        let with_rows = known.iter().enumerate().filter(|(_, known)| !known.items().is_empty());
        let (at, footprints): (Vec<usize>, Vec<&Footprint>) = with_rows.unzip();
        let unknown = known.iter().enumerate().filter(|(_, known)| known.items().is_empty());
        let mut routes: Vec<_> = unknown.map(|(place, _)| (place, None)).collect();
        let routed = route.route(&footprints, &places);
        routes.extend(routed.into_iter().map(|it| (at[it.at], Some(it.site))));
        routes
    }

    /// Notes where the written records of a statement will be.
    fn expect_moves(
        &mut self,
        footprint: &Footprint,
        site: SiteId,
        movement: Movement,
        homes: &Homes,
    ) {
        if movement.moved == Moved::Nothing || movement.back != Back::Evicted {
            return;
        }
        for item in footprint.items().iter().filter(|item| item.access == Access::Write) {
            let Span::Key(key) = &item.span else { continue };
            if let Some(home) = homes.home(item.table, key) {
                self.fusion.set(&(item.table, key.clone()), site, home);
            }
        }
    }

    /// A record was found to have moved to a site, or home.
    pub fn moved(&mut self, record: &RecordId, to: Option<SiteId>, homes: &Homes) {
        match (to, homes.home(record.0, &record.1)) {
            (Some(site), Some(home)) => self.fusion.set(record, site, home),
            _ => self.fusion.remove(record),
        }
        while self.fusion.evict_over_size().is_some() {}
    }

    /// A statement has ended, or does not want its turn any more. Returns those whose turns have
    /// come. Has no effect on a ticket that is not known.
    pub fn end(&mut self, ticket: T) -> Vec<Turn<T>> {
        self.gathered.retain(|(gathered, _)| *gathered != ticket);
        let mut turns = Vec::new();
        let mut ended: Vec<StepId> = self.steps.remove(&ticket).into_iter().collect();
        while let Some(step) = ended.pop() {
            let routed = self.routed.get_mut(&step).expect("a routed statement is listed");
            if !routed.has_turn {
                routed.is_over = true;
                continue;
            }
            self.routed.remove(&step);
            for next in self.locks.release(step) {
                let routed = self.routed.get_mut(&next).expect("a waiting statement is listed");
                routed.has_turn = true;
                match routed.is_over {
                    true => ended.push(next),
                    false => turns.push(Turn { ticket: routed.ticket, site: routed.site }),
                }
            }
        }
        turns
    }

    /// True if a statement has not ended.
    pub fn has(&self, ticket: T) -> bool {
        self.steps.contains_key(&ticket) || self.gathered.iter().any(|(it, _)| *it == ticket)
    }

    /// The tickets of all statements that have not ended.
    pub fn tickets(&self) -> impl Iterator<Item = T> {
        self.gathered.iter().map(|(ticket, _)| *ticket).chain(self.steps.keys().copied())
    }
}

fn locks(footprint: &Footprint) -> Vec<Lock> {
    let lock =
        |item: &Item| Lock { table: item.table, span: item.span.clone(), access: item.access };
    footprint.items().iter().map(lock).collect()
}

/// The part of a footprint whose records are at sites for statements.
fn known(footprint: &Footprint, places: &Places<'_>, homes: &Homes) -> Footprint {
    let mut known = Footprint::new();
    for item in footprint.items() {
        let Some(home) = homes.home(item.table, item.span.start()) else { continue };
        let at = match &item.span {
            Span::Key(key) => places.of(&(item.table, key.clone())),
            Span::Range(_) => home,
        };
        if homes.sites().contains(at) && homes.sites().contains(home) {
            known.add(item.table, item.span.clone(), item.access);
        }
    }
    known
}
