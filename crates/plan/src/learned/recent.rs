//! Recent changes and changes in flight: so that nothing is done twice, undone at once, or done too
//! often.
//!
//! | rule | what it says |
//! | --- | --- |
//! | in flight | a change that was asked for is not asked for again until its outcome is known |
//! | cooldown | a partition that was changed less than [`Tuning::cooldown_ns`] ago is left alone |
//! | undoing | a change that takes back one of the last [`Tuning::undo_ns`] is charged [`Tuning::undo_charge`] times its cost |
//! | budget | a token bucket: as many a second as the [regime](super::regime) allows, bursts of a quarter of a second |
//!
//! Memory is bounded: changes older than all rules look back are forgotten, and at most
//! [`Tuning::UNDER_WAY_MAX`] are kept.

use super::tuning::Tuning;
use isomer_design::{Change, Design, Key, KeyRange, SiteId, TableId};
use std::collections::{BTreeMap, VecDeque};

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Recent {
    tuning: Tuning,
    /// What was made, in order, and when it was made last.
    made: VecDeque<(u64, Change)>,
    last: BTreeMap<Change, u64>,
    /// When a partition was changed last, by its start.
    places: BTreeMap<(TableId, Key), u64>,
    /// What is on its way, by where it is, and since when.
    asked: BTreeMap<(TableId, Key), Vec<(Change, u64)>>,
    /// How many changes may be made at once, and since when.
    budget: f64,
    filled_ns: u64,
}

impl Recent {
    /// Nothing was changed.
    pub fn new(tuning: Tuning, now_ns: u64) -> Recent {
        let (made, last) = (VecDeque::new(), BTreeMap::new());
        let (places, asked) = (BTreeMap::new(), BTreeMap::new());
        let budget = at_once(tuning.changes_per_second).min(tuning.changes_per_second);
        Recent { tuning, made, last, places, asked, budget, filled_ns: now_ns }
    }

    /// A change is asked for.
    pub fn ask(&mut self, now_ns: u64, change: &Change) {
        self.asked.retain(|_, asked| {
            asked.retain(|(_, at)| now_ns.saturating_sub(*at) < Tuning::LOST_NS);
            !asked.is_empty()
        });
        if let Some(place) = place(change).filter(|_| self.asked.len() < Tuning::UNDER_WAY_MAX) {
            self.asked.entry(place).or_default().push((change.clone(), now_ns));
        }
    }

    /// A change was made, or was not.
    pub fn hear(&mut self, now_ns: u64, change: &Change, made: bool) {
        if let Some(place) = place(change)
            && let Some(asked) = self.asked.get_mut(&place)
        {
            asked.retain(|(other, _)| other != change);
            if asked.is_empty() {
                self.asked.remove(&place);
            }
        }
        if !made {
            return;
        }
        if let Some(place) = place(change) {
            self.places.insert(place, now_ns);
        }
        self.last.insert(change.clone(), now_ns);
        self.made.push_back((now_ns, change.clone()));
        let horizon = self.tuning.undo_ns.max(self.tuning.cooldown_ns);
        while let Some((at, _)) = self.made.front()
            && (self.made.len() > Tuning::UNDER_WAY_MAX || now_ns.saturating_sub(*at) > horizon)
        {
            let (at, old) = self.made.pop_front().expect("it was just looked at");
            if self.last.get(&old).is_some_and(|last| *last <= at) {
                self.last.remove(&old);
            }
            if let Some(place) = place(&old)
                && self.places.get(&place).is_some_and(|last| *last <= at)
            {
                self.places.remove(&place);
            }
        }
    }

    /// True if a change of a partition is on its way.
    pub fn is_asked(&self, now_ns: u64, table: TableId, range: &KeyRange) -> bool {
        let asked = self.asked.range((table, range.start.clone())..);
        let there = asked.take_while(|((t, at), _)| *t == table && range.is_below_end(at));
        let mut since = there.flat_map(|(_, changes)| changes).map(|(_, at)| at);
        since.any(|at| now_ns.saturating_sub(*at) < Tuning::LOST_NS)
    }

    /// A design as it will be when all that is on its way has arrived.
    pub fn with_in_flight(&self, now_ns: u64, design: &Design) -> Design {
        let mut with_in_flight = design.clone();
        for (change, at) in self.asked.values().flatten() {
            if now_ns.saturating_sub(*at) < Tuning::LOST_NS {
                // What is refused was overtaken, or has been made and not been heard of yet.
                let _ = with_in_flight.apply(change);
            }
        }
        with_in_flight
    }

    /// True if masters are on their way.
    pub fn is_moving(&self, now_ns: u64) -> bool {
        let moves = |change: &Change| matches!(change, Change::Remaster { .. });
        let mut asked = self.asked.values().flatten();
        asked.any(|(change, at)| moves(change) && now_ns.saturating_sub(*at) < Tuning::LOST_NS)
    }

    /// True if hardly anything was changed within [`Tuning::undo_ns`].
    pub fn is_quiet(&self, now_ns: u64) -> bool {
        let lately = self.made.iter().rev().take(Tuning::QUIET_MAX + 1);
        let lately = lately.filter(|(at, _)| now_ns.saturating_sub(*at) < self.tuning.undo_ns);
        lately.count() <= Tuning::QUIET_MAX
    }

    /// True if the partition that starts here was changed a moment ago.
    pub fn rests(&self, now_ns: u64, table: TableId, start: &Key) -> bool {
        let last = self.places.get(&(table, start.clone()));
        last.is_some_and(|at| now_ns.saturating_sub(*at) < self.tuning.cooldown_ns)
    }

    /// By what the cost of a change counts: more than once if it takes back a recent one. `from`
    /// is the master before a remaster.
    pub fn charge(&self, now_ns: u64, change: &Change, from: SiteId) -> f64 {
        let made = self.last.get(&change.opposite(from));
        let recent = made.is_some_and(|at| now_ns.saturating_sub(*at) < self.tuning.undo_ns);
        if recent { self.tuning.undo_charge } else { 1.0 }
    }

    /// How many changes may be made now, at so many a second. It may have been overdrawn.
    pub fn budget(&mut self, now_ns: u64, rate: f64) -> f64 {
        let seconds = now_ns.saturating_sub(self.filled_ns) as f64 / 1e9;
        self.budget = (self.budget + seconds * rate).min(at_once(rate));
        self.filled_ns = self.filled_ns.max(now_ns);
        self.budget
    }

    /// So many changes are asked for.
    pub fn spend(&mut self, changes: usize) {
        self.budget -= changes as f64;
    }
}

/// The size of the bucket at a rate: five hundred moves at once stop everybody who needs any of
/// what is moved. At least one.
fn at_once(rate: f64) -> f64 {
    (Tuning::BURST_S * rate).max(1.0)
}

/// The partition that a change touches.
fn place(change: &Change) -> Option<(TableId, Key)> {
    Some((change.table()?, change.start()?.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_design::{Column, ColumnType, Placement, Schema};

    const T: TableId = TableId(1);
    const S1: SiteId = SiteId(1);
    const S2: SiteId = SiteId(2);
    const SECOND: u64 = 1_000_000_000;

    fn recent() -> Recent {
        Recent::new(Tuning::default(), 0)
    }

    fn remaster(to: SiteId) -> Change {
        Change::Remaster { table: T, start: Key::int(5), to }
    }

    #[test]
    fn what_is_taken_back_at_once_costs_more() {
        let mut recent = recent();
        recent.hear(SECOND, &remaster(S2), true);
        assert_eq!(recent.charge(2 * SECOND, &remaster(S1), S2), 4.0);
        assert_eq!(
            recent.charge(2 * SECOND, &remaster(SiteId(3)), S1),
            1.0,
            "nobody moved it to s1"
        );
        assert_eq!(recent.charge(12 * SECOND, &remaster(S1), S2), 1.0);
        assert!(
            recent.rests(SECOND + 1, T, &Key::int(5)) && !recent.rests(2 * SECOND, T, &Key::int(5))
        );
    }

    #[test]
    fn a_design_is_foreseen_with_what_is_on_its_way_and_no_more() {
        let schema = Schema::new("t", vec![Column::new("id", ColumnType::Int64)], &["id"]).unwrap();
        let mut design = Design::new([S1, S2]).unwrap();
        let placement = Placement::new(S1, [S2]);
        let parts = [(Key::min(), placement.clone()), (Key::int(5), placement)];
        design.create_table(T, schema, parts).unwrap();
        let mut recent = recent();
        recent.ask(SECOND, &remaster(S2));
        // Overtaken: there is no such site any more.
        recent.ask(SECOND, &Change::Remaster { table: T, start: Key::min(), to: SiteId(9) });
        let masters = |design: &Design| {
            [1, 7].map(|key| design.partition_of(T, &Key::int(key)).unwrap().1.master)
        };
        assert_eq!(masters(&recent.with_in_flight(2 * SECOND, &design)), [S1, S2]);
        assert_eq!(masters(&recent.with_in_flight(20 * SECOND, &design)), [S1, S1], "it was lost");
        recent.hear(2 * SECOND, &remaster(S2), true);
        assert_eq!(masters(&recent.with_in_flight(2 * SECOND, &design)), [S1, S1]);
    }

    #[test]
    fn what_is_on_its_way_is_known_but_not_for_ever() {
        let mut recent = recent();
        let asked =
            |recent: &Recent, now, from, to| recent.is_asked(now, T, &KeyRange::ints(from, to));
        recent.ask(0, &remaster(S2));
        assert!(asked(&recent, 1, 0, 10) && !asked(&recent, 1, 6, 10) && !asked(&recent, 1, 0, 5));
        recent.hear(1, &remaster(S2), false);
        assert!(!asked(&recent, 1, 0, 10) && !recent.rests(2, T, &Key::int(5)));
        recent.ask(2, &remaster(S2));
        assert!(!asked(&recent, 6 * SECOND, 0, 10), "nobody has heard of it for five seconds");
    }

    #[test]
    fn the_budget_is_kept_on_average_and_may_be_nothing() {
        let mut recent = recent();
        recent.budget(0, 10.0);
        recent.spend(12);
        let budget = [0, SECOND / 2, SECOND].map(|at| recent.budget(at, 10.0));
        assert_eq!(budget, [-9.5, -4.5, 0.5]);
        assert_eq!(recent.budget(100 * SECOND, 10.0), 2.5, "what is not used is not saved up");
        assert_eq!(recent.budget(101 * SECOND, 0.5), 1.0, "at least one at a time");
        recent.spend(1);
        assert_eq!([102, 103].map(|at| recent.budget(at * SECOND, 0.5)), [0.5, 1.0]);
        recent.spend(1);
        assert_eq!(recent.budget(1000 * SECOND, 0.0), 0.0);
    }

    #[test]
    fn it_is_quiet_when_hardly_anything_was_changed_for_a_while() {
        let mut recent = recent();
        (0..=Tuning::QUIET_MAX as u64).for_each(|at| {
            assert!(recent.is_quiet(at));
            recent.hear(at, &remaster(S2), true);
        });
        assert!(!recent.is_quiet(9 * SECOND) && recent.is_quiet(10 * SECOND));
    }

    #[test]
    fn memory_is_bounded() {
        let mut recent = recent();
        for key in 0..10_000 {
            let change = Change::Split { table: T, at: Key::int(key) };
            recent.ask(1, &change);
            recent.hear(1, &change, true);
        }
        assert!(
            recent.made.len() <= Tuning::UNDER_WAY_MAX
                && recent.places.len() <= Tuning::UNDER_WAY_MAX
        );
    }
}
