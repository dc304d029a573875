//! Recent changes and changes in flight: so that no change is made twice, undone at once, or made
//! too often.
//!
//! | rule | meaning |
//! | --- | --- |
//! | in flight | a change is not asked for again until its outcome is known |
//! | undoing | undoing a change of the last horizon costs [`Tuning::undo_charge`] times as much |
//! | budget | a token bucket at the rate of the [regime](super::regime), with bursts of 0.1 s |
//! | limit | the rate that operators permit, if it is lower |
//!
//! Memory is bounded: changes older than the horizon are forgotten, and at most
//! [`Tuning::UNDER_WAY_MAX`] are kept.

use super::tuning::Tuning;
use isomer_design::{Change, Design, Key, KeyRange, SiteId, TableId};
use std::collections::BTreeMap;

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Recent {
    tuning: Tuning,
    /// The time of the last execution of each change.
    made: BTreeMap<Change, u64>,
    /// The changes in flight by partition, and the times of their requests.
    asked: BTreeMap<(TableId, Key), Vec<(Change, u64)>>,
    /// The current credit of changes, and the time of its last refill.
    budget: f64,
    filled_ns: u64,
    /// The rate of operators.
    rate_max: f64,
}

impl Recent {
    /// No changes yet.
    pub fn new(tuning: Tuning, now_ns: u64) -> Recent {
        let (made, asked) = (BTreeMap::new(), BTreeMap::new());
        let budget = at_once(tuning.changes_per_second).min(tuning.changes_per_second);
        Recent { tuning, made, asked, budget, filled_ns: now_ns, rate_max: f64::INFINITY }
    }

    /// Records the request of a change.
    pub fn ask(&mut self, now_ns: u64, change: &Change) {
        self.asked.retain(|_, asked| {
            asked.retain(|(_, at)| is_within(&self.tuning, now_ns, *at));
            !asked.is_empty()
        });
        if let Some(place) = place(change).filter(|_| self.asked.len() < Tuning::UNDER_WAY_MAX) {
            self.asked.entry(place).or_default().push((change.clone(), now_ns));
        }
    }

    /// Records the result of a change.
    pub fn hear(&mut self, now_ns: u64, change: &Change, made: bool) {
        if let Some(place) = place(change)
            && let Some(asked) = self.asked.get_mut(&place)
        {
            asked.retain(|(other, _)| other != change);
            if asked.is_empty() {
                self.asked.remove(&place);
            }
        }
        if self.made.len() >= Tuning::UNDER_WAY_MAX {
            self.made.retain(|_, at| is_within(&self.tuning, now_ns, *at));
        }
        if made && self.made.len() < Tuning::UNDER_WAY_MAX {
            self.made.insert(change.clone(), now_ns);
        }
    }

    /// The changes in flight.
    fn in_flight<'a>(
        &'a self,
        now_ns: u64,
        asked: impl Iterator<Item = &'a Vec<(Change, u64)>>,
    ) -> impl Iterator<Item = &'a Change> {
        let asked = asked.flatten().filter(move |(_, at)| is_within(&self.tuning, now_ns, *at));
        asked.map(|(change, _)| change)
    }

    /// True if a change of a partition is in flight.
    pub fn is_asked(&self, now_ns: u64, table: TableId, range: &KeyRange) -> bool {
        let asked = self.asked.range((table, range.start.clone())..);
        let there = asked.take_while(|((t, at), _)| *t == table && range.is_below_end(at));
        self.in_flight(now_ns, there.map(|(_, changes)| changes)).next().is_some()
    }

    /// The design after all changes in flight.
    pub fn with_in_flight(&self, now_ns: u64, design: &Design) -> Design {
        let mut with_in_flight = design.clone();
        for change in self.in_flight(now_ns, self.asked.values()) {
            // A refused change was overtaken by another, or was made and not yet reported.
            let _ = with_in_flight.apply(change);
        }
        with_in_flight
    }

    /// True if a master is being moved.
    pub fn is_moving(&self, now_ns: u64) -> bool {
        let mut asked = self.in_flight(now_ns, self.asked.values());
        asked.any(|change| matches!(change, Change::Remaster { .. }))
    }

    /// True if a partition is being split.
    pub fn is_splitting(&self, now_ns: u64) -> bool {
        let mut asked = self.in_flight(now_ns, self.asked.values());
        asked.any(|change| matches!(change, Change::Split { .. }))
    }

    /// The factor of the cost of a change: above 1 if it undoes a recent one. `from` is the master
    /// before a remaster.
    pub fn charge(&self, now_ns: u64, change: &Change, from: SiteId) -> f64 {
        let made = self.made.get(&change.opposite(from));
        let recent = made.is_some_and(|at| is_within(&self.tuning, now_ns, *at));
        if recent { self.tuning.undo_charge } else { 1.0 }
    }

    /// Limits the changes per minute; `None`: no limit.
    pub fn limit(&mut self, per_minute: Option<u32>) {
        // A little less than permitted, so that rounding does not exceed it.
        let rate = per_minute.map(|most| 0.99 * f64::from(most) / 60.0);
        self.rate_max = rate.unwrap_or(f64::INFINITY);
    }

    /// The number of changes allowed now, at `rate` per second; negative if overdrawn.
    pub fn budget(&mut self, now_ns: u64, rate: f64) -> f64 {
        let rate = rate.min(self.rate_max);
        let seconds = now_ns.saturating_sub(self.filled_ns) as f64 / 1e9;
        self.budget = (self.budget + seconds * rate).min(at_once(rate));
        self.filled_ns = self.filled_ns.max(now_ns);
        self.budget
    }

    /// Spends credit for requested changes.
    pub fn spend(&mut self, changes: usize) {
        self.budget -= changes as f64;
    }
}

/// The size of the bucket at a rate, at least 1. It is small because five hundred simultaneous
/// moves stop all transactions that need the moved partitions.
fn at_once(rate: f64) -> f64 {
    (Tuning::LOADS_EVERY_NS as f64 / 1e9 * rate).max(1.0)
}

/// True if `at` is less than a horizon ago. A change in flight without a result for that time is
/// lost.
fn is_within(tuning: &Tuning, now_ns: u64, at: u64) -> bool {
    now_ns.saturating_sub(at) < tuning.horizon_ns
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
    fn undoing_a_recent_change_costs_more() {
        let mut recent = recent();
        recent.hear(SECOND, &remaster(S2), true);
        assert_eq!(recent.charge(2 * SECOND, &remaster(S1), S2), 4.0);
        assert_eq!(
            recent.charge(2 * SECOND, &remaster(SiteId(3)), S1),
            1.0,
            "nobody moved it to s1"
        );
        assert_eq!(recent.charge(9 * SECOND, &remaster(S1), S2), 1.0);
    }

    #[test]
    fn a_design_is_predicted_with_the_changes_in_flight() {
        let schema = Schema::new("t", vec![Column::new("id", ColumnType::Int64)], &["id"]).unwrap();
        let mut design = Design::new([S1, S2]).unwrap();
        let placement = Placement::new(S1, [S2]);
        let parts = [(Key::min(), placement.clone()), (Key::int(5), placement)];
        design.create_table(T, schema, parts).unwrap();
        let mut recent = recent();
        recent.ask(SECOND, &remaster(S2));
        // Overtaken: the site no longer exists.
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
    fn changes_in_flight_are_remembered_for_a_horizon() {
        let mut recent = recent();
        let asked =
            |recent: &Recent, now, from, to| recent.is_asked(now, T, &KeyRange::ints(from, to));
        recent.ask(0, &remaster(S2));
        assert!(asked(&recent, 1, 0, 10) && !asked(&recent, 1, 6, 10) && !asked(&recent, 1, 0, 5));
        recent.hear(1, &remaster(S2), false);
        assert!(!asked(&recent, 1, 0, 10));
        recent.ask(2, &remaster(S2));
        assert!(!asked(&recent, 8 * SECOND, 0, 10), "no result for seven seconds");
    }

    #[test]
    fn the_budget_is_kept_on_average_and_may_be_nothing() {
        let mut recent = recent();
        recent.budget(0, 10.0);
        recent.spend(12);
        let budget = [0, SECOND / 2, SECOND].map(|at| recent.budget(at, 10.0));
        assert_eq!(budget, [-11.0, -6.0, -1.0]);
        assert_eq!(recent.budget(100 * SECOND, 25.0), 2.5, "unused credit is not saved up");
        assert_eq!(recent.budget(101 * SECOND, 0.5), 1.0, "at least one at a time");
        recent.spend(1);
        assert_eq!([102, 103].map(|at| recent.budget(at * SECOND, 0.5)), [0.5, 1.0]);
        recent.spend(1);
        assert_eq!(recent.budget(1000 * SECOND, 0.0), 0.0);
        recent.limit(Some(6));
        assert!(recent.budget(1010 * SECOND, 10.0) < 1.0, "operators permit one in ten seconds");
        assert_eq!(recent.budget(1011 * SECOND, 10.0), 1.0);
    }

    #[test]
    fn memory_is_bounded() {
        let mut recent = recent();
        for key in 0..10_000 {
            let change = Change::Split { table: T, at: Key::int(key) };
            recent.ask(1, &change);
            recent.hear(1, &change, true);
        }
        assert!(recent.made.len() <= Tuning::UNDER_WAY_MAX);
    }
}
