//! Restraints: what operators let strategies do, by table, by time of the day, and by rate.
//!
//! ```text
//!   a plan ──┬─ mode of its table ──── off, recommend ─▶ dropped
//!            │                    └─── approve ────────▶ proposed
//!            └─ auto ─ the window is open? ─ changes disturb little? ─ the budgets have room?
//!                                                             └─▶ carried out, else dropped
//! ```
//!
//! **The mode of a table** restricts the mode of the server, and never extends it: the lesser of
//! both counts, in the order off, recommend, approve, auto. **The window** is a part of each day in
//! UTC, in which strategies may begin changes. **The budget of changes** is their number in any
//! [`BUDGET_NS`]. A plan is cut where the budget ends, but not between a split and the change that
//! it is for: a split alone is of no use. A budget that is smaller than such a unit lets none of
//! it begin.
//!
//! **The budget of bytes** is a mean rate. Only new replicas copy rows; splits and new masters cost
//! nothing. The size of a copy is known when it has ended, so copies begin one after the other, and
//! the next one waits until the budget has paid for the last. A copy larger than the budget of a
//! second begins like any other, and the wait behind it is longer.
//!
//! **The limit on disturbance** is in microseconds of the 99th percentile of durations. The caller
//! measures by how much changes raise it ([`crate::pulse`]). Above the limit no change begins. The
//! measurement is of the last minute, so after a minute without changes the next is tried.
//!
//! Proposals wait for an operator, so neither the window nor the budgets restrict them.
//!
//! A dropped change is planned again while the load still asks for it, because its strategy hears
//! of it. Changes that operators start
//! are not restrained. Times are arguments.

use crate::learned::Mode;
use isomer_design::{Change, Plan, Step, TableId, Time};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::str::FromStr;

/// The time over which the budget of changes is counted, in nanoseconds.
pub const BUDGET_NS: u64 = 60 * 1_000_000_000;

/// A copy that has not ended after this time is not waited for any more.
const COPY_NS_MAX: u64 = 10 * 60 * 1_000_000_000;

const DAY_S: u64 = 24 * 60 * 60;
const NS: u64 = 1_000_000_000;

/// A part of each day, in UTC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Its first minute of the day.
    from: u32,
    /// The first minute behind it; before `from` if the window spans midnight.
    to: u32,
}

impl Window {
    /// True if the window is open.
    pub fn contains(&self, now: Time) -> bool {
        let minute = (now.0 / NS % DAY_S / 60) as u32;
        match self.from < self.to {
            true => (self.from..self.to).contains(&minute),
            false => minute >= self.from || minute < self.to,
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [from, to] = [self.from, self.to].map(|at| format!("{:02}:{:02}", at / 60, at % 60));
        write!(f, "{from}-{to}")
    }
}

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Window, String> {
        let minute = |text: &str| {
            let (hour, minute) = text.trim().split_once(':')?;
            let (hour, minute): (u32, u32) = (hour.parse().ok()?, minute.parse().ok()?);
            (hour < 24 && minute < 60 || (hour, minute) == (24, 0)).then_some(hour * 60 + minute)
        };
        let both = text.split_once('-').and_then(|(from, to)| Some((minute(from)?, minute(to)?)));
        match both {
            Some((from, to)) if from != to && from < 24 * 60 => Ok(Window { from, to }),
            _ => {
                Err("It is two times of the day in UTC, such as '22:00-06:00', or 'always'."
                    .to_owned())
            }
        }
    }
}

/// The reason why a change of a strategy was not begun.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Withheld {
    /// All changes are turned off.
    Switch,
    /// The mode of the table.
    Mode,
    /// The window is closed.
    Window,
    /// The budget of changes is spent.
    Budget,
    /// The budget of changes is smaller than what belongs together.
    Unit,
    /// The budget of bytes is spent, or a copy is under way.
    Bytes,
    /// The last changes have disturbed transactions too much.
    Disturbance,
}

impl Withheld {
    /// All reasons.
    pub const ALL: [Withheld; 7] = [
        Withheld::Switch,
        Withheld::Mode,
        Withheld::Window,
        Withheld::Budget,
        Withheld::Unit,
        Withheld::Bytes,
        Withheld::Disturbance,
    ];

    /// The reason in one word.
    pub fn name(self) -> &'static str {
        match self {
            Withheld::Switch => "switch",
            Withheld::Mode => "mode",
            Withheld::Window => "window",
            Withheld::Budget => "budget",
            Withheld::Unit => "unit",
            Withheld::Bytes => "bytes",
            Withheld::Disturbance => "disturbance",
        }
    }

    /// The reason as a clause.
    pub fn why(self) -> &'static str {
        match self {
            Withheld::Switch => "changes of the design are turned off",
            Withheld::Mode => "the mode of its table does not permit it",
            Withheld::Window => "the window of changes is closed",
            Withheld::Budget => "the changes of this minute are made",
            Withheld::Unit => "it needs more changes at once than the budget of a minute has",
            Withheld::Bytes => "the copies so far have spent the budget of bytes",
            Withheld::Disturbance => "the last changes have raised the 99th percentile by too much",
        }
    }
}

/// The parts of a plan by what becomes of them.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Sifted {
    /// Is carried out.
    pub carried: Plan,
    /// Waits for an operator.
    pub proposed: Plan,
    /// The changes that are dropped, and the reasons.
    pub withheld: Vec<(Change, Withheld)>,
}

/// See the [module documentation](self).
#[derive(Clone, Default, Debug)]
pub struct Restraints {
    /// The modes of tables, by the store tables of their rows, indexes and layouts.
    pub modes: BTreeMap<TableId, Mode>,
    /// When changes may begin; `None`: always.
    pub window: Option<Window>,
    /// The budget of changes; `None`: none.
    pub per_minute: Option<u32>,
    /// The budget of bytes that are copied a second; `None`: none.
    pub bytes_per_second: Option<u64>,
    /// The limit on the rise of the 99th percentile, in microseconds; `None`: none.
    pub added_p99_us: Option<u64>,
    /// When changes were begun in the last [`BUDGET_NS`].
    begun: VecDeque<Time>,
    /// Copies that have begun, and when.
    copying: Vec<(Change, Time)>,
    /// The time from which on the budget has paid for the copies that have ended.
    paid_at: Time,
}

/// True if a change copies rows.
fn copies(change: &Change) -> bool {
    matches!(change, Change::AddReplica { .. })
}

/// The steps by what belongs together: a change, and the splits directly before it in its table.
/// Splits that no other change follows are on their own.
fn units(steps: Vec<Step>) -> Vec<Vec<Step>> {
    let is_split = |step: &Step| matches!(step.change, Change::Split { .. });
    let mut units: Vec<Vec<Step>> = Vec::new();
    for step in steps {
        let splits_for = |last: &Step| is_split(last) && last.change.table() == step.change.table();
        match units.last_mut().filter(|unit| unit.last().is_some_and(splits_for)) {
            Some(unit) => unit.push(step),
            None => units.push(vec![step]),
        }
    }
    let apart = |unit: Vec<Step>| match unit.iter().all(is_split) {
        true => unit.into_iter().map(|step| vec![step]).collect(),
        false => vec![unit],
    };
    units.into_iter().flat_map(apart).collect()
}

impl Restraints {
    /// Sorts the changes that a strategy wants now by their fate, in the server's mode. Changes
    /// have raised the 99th percentile by `added_us`, if that is known.
    pub fn sift(&mut self, now: Time, server: Mode, added_us: Option<f64>, plan: Plan) -> Sifted {
        let with = |steps| Plan { reason: plan.reason.clone(), steps };
        let (mut carried, mut proposed, mut sifted) = (Vec::new(), Vec::new(), Sifted::default());
        while self.begun.front().is_some_and(|at| at.0 + BUDGET_NS <= now.0) {
            self.begun.pop_front();
        }
        self.copying.retain(|(_, begun)| now.0.saturating_sub(begun.0) < COPY_NS_MAX);
        let is_open = self.window.is_none_or(|window| window.contains(now));
        let limit = self.added_p99_us.zip(added_us);
        let disturbs = limit.is_some_and(|(limit, added)| added > limit as f64);
        let mut permitted = Vec::new();
        for step in plan.steps.iter().cloned() {
            let why = match self.mode_of(server, &step.change) {
                Mode::Off | Mode::Recommend => Withheld::Mode,
                Mode::Approve => {
                    proposed.push(step);
                    continue;
                }
                Mode::Auto if !is_open => Withheld::Window,
                Mode::Auto if disturbs => Withheld::Disturbance,
                Mode::Auto => {
                    permitted.push(step);
                    continue;
                }
            };
            sifted.withheld.push((step.change, why));
        }
        // Changes behind one that waits wait with it, because they may need it.
        let mut cut = None;
        for unit in units(permitted) {
            cut = cut.or_else(|| self.must_wait(now, &unit));
            for step in unit {
                if let Some(why) = cut {
                    sifted.withheld.push((step.change, why));
                    continue;
                }
                self.begun.push_back(now);
                if copies(&step.change) {
                    self.copying.push((step.change.clone(), now));
                }
                carried.push(step);
            }
        }
        if self.per_minute.is_none() {
            self.begun.clear();
        }
        Sifted { carried: with(carried), proposed: with(proposed), ..sifted }
    }

    /// Why changes that belong together may not begin yet.
    fn must_wait(&self, now: Time, unit: &[Step]) -> Option<Withheld> {
        let copies = unit.iter().any(|step| copies(&step.change));
        let is_copying = !self.copying.is_empty() || now < self.paid_at;
        if self.bytes_per_second.is_some() && copies && is_copying {
            return Some(Withheld::Bytes);
        }
        let most = self.per_minute? as usize;
        if unit.len() > most {
            return Some(Withheld::Unit);
        }
        (self.begun.len() + unit.len() > most).then_some(Withheld::Budget)
    }

    /// A change has ended, and has copied these bytes: none if it failed.
    pub fn ended(&mut self, now: Time, change: &Change, bytes: usize) {
        let Some(at) = self.copying.iter().position(|(begun, _)| begun == change) else { return };
        self.copying.swap_remove(at);
        let Some(rate) = self.bytes_per_second else { return };
        let pays_ns = bytes as f64 * NS as f64 / rate.max(1) as f64;
        self.paid_at = Time(self.paid_at.0.max(now.0).saturating_add(pays_ns as u64));
    }

    /// Sets the budget of bytes, and forgets the cost of earlier copies.
    pub fn set_bytes_per_second(&mut self, rate: Option<u64>) {
        (self.bytes_per_second, self.paid_at) = (rate, Time(0));
    }

    fn mode_of(&self, server: Mode, change: &Change) -> Mode {
        let of_table = change.table().and_then(|table| self.modes.get(&table));
        of_table.map_or(server, |mode| (*mode).min(server))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_design::{Key, SiteId};

    fn plan(tables: &[u32]) -> Plan {
        let step = |table: &u32| {
            let change = Change::Split { table: TableId(*table), at: Key::int(5) };
            Step::new(change, "hot")
        };
        Plan { reason: "hot".to_owned(), steps: tables.iter().map(step).collect() }
    }

    fn tables(plan: &Plan) -> Vec<u32> {
        plan.changes().filter_map(|change| Some(change.table()?.0)).collect()
    }

    fn withheld(sifted: &Sifted) -> Vec<(u32, Withheld)> {
        let of_table = |(change, why): &(Change, Withheld)| Some((change.table()?.0, *why));
        sifted.withheld.iter().filter_map(of_table).collect()
    }

    /// 2026-03-01 at this minute of the day.
    fn at(minute: u64) -> Time {
        Time((1_772_323_200 + minute * 60) * NS)
    }

    #[test]
    fn a_window_is_a_part_of_each_day_also_over_midnight() {
        let night: Window = "22:00-06:00".parse().expect("a window");
        let open = |window: Window, minute| window.contains(at(minute));
        assert!(open(night, 22 * 60) && open(night, 0) && open(night, 5 * 60 + 59));
        assert!(!open(night, 6 * 60) && !open(night, 21 * 60 + 59));
        let day: Window = "6:30 - 24:00".parse().expect("a window");
        assert!(open(day, 6 * 60 + 30) && open(day, 23 * 60 + 59) && !open(day, 6 * 60 + 29));
        assert_eq!(
            (night.to_string(), day.to_string()),
            ("22:00-06:00".into(), "06:30-24:00".into())
        );
        for wrong in
            ["", "22:00", "22-6", "25:00-06:00", "22:61-06:00", "06:00-06:00", "24:00-1:00"]
        {
            assert!(wrong.parse::<Window>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_mode_of_a_table_restricts_that_of_the_server() {
        let mut restraints = Restraints::default();
        for (table, mode) in [(1, Mode::Off), (2, Mode::Recommend), (3, Mode::Approve)] {
            restraints.modes.insert(TableId(table), mode);
        }
        restraints.modes.insert(TableId(4), Mode::Auto);
        let sifted = restraints.sift(at(0), Mode::Auto, None, plan(&[1, 2, 3, 4, 5]));
        assert_eq!((tables(&sifted.carried), tables(&sifted.proposed)), (vec![4, 5], vec![3]));
        assert_eq!(withheld(&sifted), [(1, Withheld::Mode), (2, Withheld::Mode)]);
        let sifted = restraints.sift(at(0), Mode::Approve, None, plan(&[1, 3, 4, 5]));
        assert_eq!((tables(&sifted.carried), tables(&sifted.proposed)), (vec![], vec![3, 4, 5]));
    }

    #[test]
    fn outside_of_the_window_plans_are_dropped_and_proposals_wait() {
        let window = "22:00-06:00".parse().ok();
        let mut restraints = Restraints { window, ..Restraints::default() };
        restraints.modes.insert(TableId(3), Mode::Approve);
        let sifted = restraints.sift(at(12 * 60), Mode::Auto, None, plan(&[1, 3]));
        assert_eq!((tables(&sifted.carried), tables(&sifted.proposed)), (vec![], vec![3]));
        assert_eq!(withheld(&sifted), [(1, Withheld::Window)]);
        let sifted = restraints.sift(at(23 * 60), Mode::Auto, None, plan(&[1]));
        assert_eq!(tables(&sifted.carried), [1]);
    }

    #[test]
    fn a_plan_is_cut_where_the_budget_of_the_minute_ends() {
        let mut restraints = Restraints { per_minute: Some(3), ..Restraints::default() };
        let mut carried =
            |time, plan| tables(&restraints.sift(time, Mode::Auto, None, plan).carried);
        assert_eq!(carried(at(0), plan(&[1, 2])), [1, 2]);
        assert_eq!(carried(Time(at(0).0 + NS), plan(&[3, 4])), [3]);
        assert!(carried(Time(at(1).0 - 1), plan(&[5])).is_empty());
        assert_eq!(carried(at(1), plan(&[6, 7, 8])), [6, 7]);
    }

    #[test]
    fn a_split_begins_only_with_the_change_that_it_is_for() {
        let moves = |table: u32| {
            let start = Key::int(5);
            let change = Change::Remaster { table: TableId(table), start, to: SiteId(2) };
            let mut plan = plan(&[table, table]);
            plan.steps.push(Step::new(change, "hot"));
            plan
        };
        let both = |one: Plan, other: Plan| Plan {
            steps: [one.steps, other.steps].concat(),
            ..Plan::default()
        };
        let mut restraints = Restraints { per_minute: Some(5), ..Restraints::default() };
        let sifted = restraints.sift(at(0), Mode::Auto, None, both(moves(1), moves(2)));
        assert_eq!(tables(&sifted.carried), [1, 1, 1], "three more do not fit");
        assert_eq!(withheld(&sifted), [(2, Withheld::Budget); 3]);
        restraints.per_minute = Some(2);
        let sifted = restraints.sift(at(5), Mode::Auto, None, both(moves(1), plan(&[2])));
        assert!(sifted.carried.is_empty());
        assert_eq!(withheld(&sifted), [1, 1, 1, 2].map(|table| (table, Withheld::Unit)));
    }
}
