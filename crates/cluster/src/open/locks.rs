//! Row locks: exclusion, queues and deadlock detection.
//!
//! A state machine: requests in, answers out, without threads and time. Its user lets the owners
//! wait, and wakes those that it names ([`super::gateway`]).
//!
//! ```text
//!   row accounts/7    held by T1            queue: T2, T5        first come, first served
//!   row accounts/9    held by T2, T3 (shared)
//!
//!   T1 asks for accounts/9, exclusively:  T1 ─▶ T2 ─▶ T1        a cycle: T1 is refused, nothing
//!                                              └▶ (T3)           has changed
//! ```
//!
//! **Order.** A request waits for every holder and for every earlier request that it conflicts
//! with, so requests do not overtake each other. There is one exception. A holder that wants a
//! stronger mode of its own row goes to the front of the queue. Otherwise it would wait for owners
//! that wait for it.
//!
//! **Deadlocks** are found when they would arise, by a search of the waits-for graph from the new
//! request. An owner waits for one row at a time, so the search is short. The request that would
//! close the cycle is refused.
//!
//! **Tables** are locked like rows, at a place of their own, in PostgreSQL's eight modes. Rows are
//! locked in some of these ([`LockMode`]), which conflict as PostgreSQL's row modes do. `RowShare`
//! is its key share, `Shared` its share, `ShareUpdateExclusive` its no key update, `AllButReads`
//! its update. `Exclusive` is the mode of a deletion, which also conflicts with `AccessShare`: the
//! lock of an insert that meets an existing row. An owner may hold a place in several modes at
//! once.
//!
//! **Waiting for the current holders.** An owner that only waits until the current holders have
//! ended does not enter the queue. No request waits for it, so it does not delay others.
//!
//! **Handing over.** A session's advisory locks belong to its current transaction, so the waits-for
//! graph sees through them.
//!
//! **Invariants.** Conflicting owners never hold a row together. A row without a holder has no
//! queue. The waits-for graph has no cycle.
//!
//! Locks are not rows. A row that does not exist yet can be locked, which orders two inserts of one
//! key.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use isomer_design::{Key, TableId};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// The holder of locks: a number that is not used twice.
pub type Owner = u64;

/// A row, existing or not.
type Place = (TableId, Key);

/// How a place is locked: a row in some of these modes, a table in any. An `x` marks modes that two
/// owners cannot hold together at one place.
///
/// ```text
///                           AS RS RE SU S  SR E  AE
///   AccessShare             .  .  .  .  .  .  .  x    reads the table
///   RowShare                .  .  .  .  .  .  x  x    locks rows for others' changes
///   RowExclusive            .  .  .  .  x  x  x  x    changes rows
///   ShareUpdateExclusive    .  .  .  x  x  x  x  x
///   Shared                  .  .  x  x  .  x  x  x    keeps out changes
///   ShareRowExclusive       .  .  x  x  x  x  x  x
///   AllButReads             .  x  x  x  x  x  x  x    EXCLUSIVE, as PostgreSQL has it for tables
///   Exclusive               x  x  x  x  x  x  x  x    keeps out all others: ACCESS EXCLUSIVE
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[allow(missing_docs, reason = "the table above says what they are")]
pub enum LockMode {
    AccessShare,
    RowShare,
    RowExclusive,
    ShareUpdateExclusive,
    Shared,
    ShareRowExclusive,
    AllButReads,
    Exclusive,
}

impl LockMode {
    /// The modes that conflict with this one: a bit for each.
    fn conflicts(self) -> u8 {
        match self {
            LockMode::AccessShare => 0b1000_0000,
            LockMode::RowShare => 0b1100_0000,
            LockMode::RowExclusive => 0b1111_0000,
            LockMode::ShareUpdateExclusive => 0b1111_1000,
            LockMode::Shared => 0b1110_1100,
            LockMode::ShareRowExclusive => 0b1111_1100,
            LockMode::AllButReads => 0b1111_1110,
            LockMode::Exclusive => 0b1111_1111,
        }
    }
}

/// The modes in which an owner holds a place.
#[derive(Clone, Copy)]
struct Modes(u8);

impl Modes {
    fn of(mode: LockMode) -> Modes {
        Modes(1 << mode as u8)
    }

    fn and(self, mode: LockMode) -> Modes {
        Modes(self.0 | Modes::of(mode).0)
    }

    fn conflicts(self, mode: LockMode) -> bool {
        self.0 & mode.conflicts() != 0
    }

    fn each(self) -> impl Iterator<Item = LockMode> {
        let all = [
            LockMode::AccessShare,
            LockMode::RowShare,
            LockMode::RowExclusive,
            LockMode::ShareUpdateExclusive,
            LockMode::Shared,
            LockMode::ShareRowExclusive,
            LockMode::AllButReads,
            LockMode::Exclusive,
        ];
        all.into_iter().filter(move |held| self.0 & Modes::of(*held).0 != 0)
    }

    /// True if these modes conflict with all modes that `mode` conflicts with.
    fn covers(self, mode: LockMode) -> bool {
        let kept_out = self.each().fold(0, |kept_out, held| kept_out | held.conflicts());
        kept_out & mode.conflicts() == mode.conflicts()
    }
}

/// A lock that is held or requested.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockShown {
    /// The table.
    pub table: TableId,
    /// The row, or the place of the table itself.
    pub key: Key,
    /// The transaction.
    pub owner: Owner,
    /// How it is locked.
    pub mode: LockMode,
    /// False while the transaction waits for it.
    pub is_granted: bool,
}

/// The answer to a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Asked {
    /// The owner holds the row. True if it did not before.
    Granted(bool),
    /// The owner waits for these.
    Waits(Vec<Owner>),
    /// Waiting would close this circle of owners; nothing has changed.
    Deadlock(Vec<Owner>),
}

/// All row locks. See the [module documentation](self).
#[derive(Default)]
pub struct RowLocks {
    rows: HashMap<Place, Row, FixedState>,
    /// The row that an owner waits for.
    waiting: HashMap<Owner, Place, FixedState>,
}

#[derive(Default)]
struct Row {
    /// Usually one, which needs no allocation.
    holders: SmallVec<[(Owner, Modes); 1]>,
    queue: VecDeque<(Owner, LockMode)>,
    /// Owners that wait until these holders have released the row.
    outliving: Vec<(Owner, Vec<Owner>)>,
}

impl RowLocks {
    /// No locks.
    pub fn new() -> RowLocks {
        RowLocks::default()
    }

    /// The number of locked rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True if no row is locked.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Requests a row. If the row is not free and `may_wait` is false, the answer is `Waits` but
    /// the owner does not wait.
    ///
    /// # Panics
    /// If the owner waits already.
    pub fn ask(&mut self, owner: Owner, place: Place, mode: LockMode, may_wait: bool) -> Asked {
        assert!(!self.waiting.contains_key(&owner), "an owner waits for one row at a time");
        let row = self.rows.entry(place.clone()).or_default();
        let held = row.holders.iter().position(|(holder, _)| *holder == owner);
        if held.is_some_and(|at| row.holders[at].1.covers(mode)) {
            return Asked::Granted(false);
        }
        let before = row.before(owner, mode, held.is_some());
        if before.is_empty() {
            match held {
                Some(at) => row.holders[at].1 = row.holders[at].1.and(mode),
                None => row.holders.push((owner, Modes::of(mode))),
            }
            return Asked::Granted(held.is_none());
        }
        if !may_wait {
            return Asked::Waits(before);
        }
        if let Some(circle) = self.circle(owner, &before) {
            return Asked::Deadlock(circle);
        }
        let row = self.rows.get_mut(&place).expect("somebody holds it");
        if held.is_some() {
            row.queue.push_front((owner, mode));
        } else {
            row.queue.push_back((owner, mode));
        }
        self.waiting.insert(owner, place);
        Asked::Waits(before)
    }

    /// Waits until the current holders of a row have released it. The answer is `Granted` if there
    /// are none.
    ///
    /// # Panics
    /// If the owner waits already.
    pub fn wait_for_holders(&mut self, owner: Owner, place: Place) -> Asked {
        assert!(!self.waiting.contains_key(&owner), "an owner waits for one row at a time");
        let holders = self.rows.get(&place).map_or(&[][..], |row| &row.holders);
        let others = holders.iter().map(|(holder, _)| *holder).filter(|holder| *holder != owner);
        let before: Vec<Owner> = others.collect();
        if before.is_empty() {
            return Asked::Granted(false);
        }
        if let Some(circle) = self.circle(owner, &before) {
            return Asked::Deadlock(circle);
        }
        let row = self.rows.get_mut(&place).expect("somebody holds it");
        row.outliving.push((owner, before.clone()));
        self.waiting.insert(owner, place);
        Asked::Waits(before)
    }

    /// The locks of the places that `is_wanted` accepts, and of each place with a waiting owner,
    /// sorted by table.
    pub fn shown(&self, is_wanted: impl Fn(TableId, &Key) -> bool) -> Vec<LockShown> {
        let mut shown = Vec::new();
        for ((table, key), row) in &self.rows {
            if row.queue.is_empty() && row.outliving.is_empty() && !is_wanted(*table, key) {
                continue;
            }
            let mut show = |owner, mode, is_granted| {
                shown.push(LockShown { table: *table, key: key.clone(), owner, mode, is_granted });
            };
            for (owner, modes) in &row.holders {
                modes.each().for_each(|mode| show(*owner, mode, true));
            }
            row.queue.iter().for_each(|(owner, mode)| show(*owner, *mode, false));
            let waits = row.outliving.iter().map(|(owner, _)| *owner);
            waits.for_each(|owner| show(owner, LockMode::AccessShare, false));
        }
        shown.sort_by(|a, b| {
            let place = |lock: &LockShown| (lock.table, !lock.is_granted, lock.owner);
            place(a).cmp(&place(b)).then_with(|| a.key.cmp(&b.key))
        });
        shown
    }

    /// The owners that block this one.
    pub fn blockers(&self, owner: Owner) -> Vec<Owner> {
        self.waits_for(owner)
    }

    /// The number of owners that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// True if the owner waits.
    pub fn is_waiting(&self, owner: Owner) -> bool {
        self.waiting.contains_key(&owner)
    }

    /// The row that the owner waits for, unless it holds it already in another mode.
    pub fn waits_anew(&self, owner: Owner) -> Option<Place> {
        let place = self.waiting.get(&owner)?;
        let held = self.rows[place].holders.iter().any(|(holder, _)| *holder == owner);
        (!held).then(|| place.clone())
    }

    /// Ends the wait of an owner. Returns the owners that can continue because of that.
    pub fn give_up(&mut self, owner: Owner) -> Vec<Owner> {
        let Some(place) = self.waiting.remove(&owner) else { return Vec::new() };
        let row = self.rows.get_mut(&place).expect("a row with a queue exists");
        row.queue.retain(|(waiting, _)| *waiting != owner);
        row.outliving.retain(|(waiting, _)| *waiting != owner);
        self.advance(&place)
    }

    /// Releases rows of an owner. Returns the owners that can continue because of that.
    pub fn release<'p>(
        &mut self,
        owner: Owner,
        places: impl IntoIterator<Item = &'p Place>,
    ) -> Vec<Owner> {
        let mut woken = Vec::new();
        for place in places {
            let Some(row) = self.rows.get_mut(place) else { continue };
            row.holders.retain(|(holder, _)| *holder != owner);
            let outlived = row.outlived_by(owner);
            outlived.iter().for_each(|owner| drop(self.waiting.remove(owner)));
            woken.extend(outlived);
            if row.holders.is_empty() && row.queue.is_empty() {
                self.rows.remove(place);
            } else {
                woken.extend(self.advance(place));
            }
        }
        woken
    }

    /// The places that some owners hold, by owner.
    pub fn held_by(&self, is_wanted: impl Fn(Owner) -> bool) -> Vec<(Owner, Vec<Place>)> {
        let mut held: HashMap<Owner, Vec<Place>, FixedState> = HashMap::default();
        for (place, row) in &self.rows {
            for (owner, _) in row.holders.iter().filter(|(owner, _)| is_wanted(*owner)) {
                held.entry(*owner).or_default().push(place.clone());
            }
        }
        held.into_iter().collect()
    }

    /// Transfers rows from one owner to another, which holds none of them.
    pub fn hand_over<'p>(
        &mut self,
        from: Owner,
        to: Owner,
        places: impl IntoIterator<Item = &'p Place>,
    ) {
        for place in places {
            let Some(row) = self.rows.get_mut(place) else { continue };
            row.holders.iter_mut().filter(|(holder, _)| *holder == from).for_each(|it| it.0 = to);
            let awaited = row.outliving.iter_mut().flat_map(|(_, before)| before);
            awaited.filter(|holder| **holder == from).for_each(|holder| *holder = to);
        }
    }

    /// Grants a row to the requests in its queue that can have it.
    fn advance(&mut self, place: &Place) -> Vec<Owner> {
        let mut woken = Vec::new();
        let Some(row) = self.rows.get_mut(place) else { return woken };
        let mut at = 0;
        while let Some(&(owner, mode)) = row.queue.get(at) {
            if row.ahead(owner, mode, at).next().is_some() {
                if mode == LockMode::Exclusive {
                    // It conflicts with all later requests.
                    break;
                }
                at += 1;
                continue;
            }
            row.queue.remove(at);
            match row.holders.iter_mut().find(|(holder, _)| *holder == owner) {
                Some((_, held)) => *held = held.and(mode),
                None => row.holders.push((owner, Modes::of(mode))),
            }
            self.waiting.remove(&owner);
            woken.push(owner);
        }
        woken
    }

    /// The owners on the cycle that would exist if `owner` waited for `before`.
    fn circle(&self, owner: Owner, before: &[Owner]) -> Option<Vec<Owner>> {
        let mut paths: Vec<Vec<Owner>> = before.iter().map(|&next| vec![owner, next]).collect();
        let mut visited: Vec<Owner> = Vec::new();
        while let Some(path) = paths.pop() {
            let at = *path.last().expect("a path has two owners at least");
            if at == owner {
                return Some(path);
            }
            if visited.contains(&at) {
                continue;
            }
            visited.push(at);
            for next in self.waits_for(at) {
                paths.push(path.iter().copied().chain([next]).collect());
            }
        }
        None
    }

    fn waits_for(&self, owner: Owner) -> Vec<Owner> {
        let Some(place) = self.waiting.get(&owner) else { return Vec::new() };
        let row = &self.rows[place];
        if let Some((_, before)) = row.outliving.iter().find(|(waiting, _)| *waiting == owner) {
            return before.clone();
        }
        let at = row.queue.iter().position(|(waiting, _)| *waiting == owner);
        let at = at.expect("who waits is in the queue");
        let mode = row.queue[at].1;
        row.ahead(owner, mode, at).collect()
    }
}

impl Row {
    /// Removes a holder. Returns the owners that have waited only for it.
    fn outlived_by(&mut self, holder: Owner) -> Vec<Owner> {
        self.outliving.iter_mut().for_each(|(_, before)| before.retain(|other| *other != holder));
        let done = self.outliving.extract_if(.., |(_, before)| before.is_empty());
        done.map(|(owner, _)| owner).collect()
    }

    /// The owners that the request at position `at` of the queue waits for.
    fn ahead(&self, owner: Owner, mode: LockMode, at: usize) -> impl Iterator<Item = Owner> {
        let queue = self.queue.iter().take(at).map(|(other, mode)| (*other, Modes::of(*mode)));
        let ahead = self.holders.iter().copied().chain(queue);
        let is_ahead =
            move |(other, held): &(Owner, Modes)| *other != owner && held.conflicts(mode);
        ahead.filter(is_ahead).map(|(other, _)| other)
    }

    /// The owners that a new request would wait for.
    fn before(&self, owner: Owner, mode: LockMode, is_holder: bool) -> Vec<Owner> {
        let at = if is_holder { 0 } else { self.queue.len() };
        self.ahead(owner, mode, at).collect()
    }
}
