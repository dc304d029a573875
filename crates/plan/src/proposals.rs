//! Plans that wait for an operator: a state machine.
//!
//! ```text
//!   a plan ─▶ proposed ── approve ─▶ approved ─▶ running ─▶ done
//!                │  │                    │          └─────▶ refused (a change failed, or it was cancelled)
//!                │  └─ reject ─▶ rejected └─ not possible any more ─▶ refused
//!                └─ after PENDING_NS ─▶ expired
//! ```
//!
//! **Invariants.** A plan is dropped if a pending or running proposal makes a change of the same
//! kind in the same partition, so a planner that repeats itself makes one proposal. After a
//! rejection plans for the same partitions are dropped for [`REST_NS`]. Up to [`PENDING_MAX`]
//! proposals are pending, and the last [`KEPT_MAX`] are kept. A planner's plan that is not worth
//! the attention of a person is dropped ([`WORTH_US`]). One for more of the load takes the place of
//! those that move masters of its tables and have at most half as many changes.
//!
//! **Operators propose as well**, so that another operator can look at a plan before it is carried
//! out. An earlier rejection does not keep them from it, and a planner's proposal that changes the
//! same partitions gives way.
//!
//! **Effect.** The load is measured in the [`MEASURED_NS`] before the approval, and in those after
//! the last change. That compares all transactions of the database, whatever they use; the effect
//! of a planner's decision on the transactions that use its partitions is in its journal.
//!
//! Times are arguments. The caller validates an approved plan against the design, carries it out,
//! and reports what came of it.

use crate::pulse::{KEPT_S, Measure};
use isomer_design::{Change, Design, Key, Plan, TableId, Time};
use std::collections::{BTreeSet, VecDeque};

/// A proposal that waits this long expires: the load that it was made for is over.
pub const PENDING_NS: u64 = 15 * 60 * 1_000_000_000;
/// After a rejection the same partitions are not proposed for this long.
pub const REST_NS: u64 = 10 * 60 * 1_000_000_000;
/// The load is measured for this long before and after a plan.
pub const MEASURED_NS: u64 = 60 * 1_000_000_000;
/// The least that a planner's plan must save above its cost, in microseconds of all clients within
/// the planner's horizon of seconds. Once a hot spot is cured, the sites are nearly alike, and
/// differences of some 100 us lead to plans that move partitions to and fro.
pub const WORTH_US: f64 = 5_000.0;
/// The most proposals of planners that wait at a time, and of operators.
pub const PENDING_MAX: usize = 20;
const SECOND_NS: u64 = 1_000_000_000;
/// The most proposals that are kept.
pub const KEPT_MAX: usize = 200;

/// Where a proposal is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    /// It waits for an operator.
    Proposed,
    /// An operator has approved it, and it is validated.
    Approved,
    /// It is carried out as the reconfiguration of this number; as a statement it has none.
    Running(Option<u64>),
    /// Its changes were made, by the reconfiguration of this number, or the statement has ended.
    Done(Option<u64>),
    /// It could not be carried out, for this reason.
    Refused(String),
    /// An operator has rejected it.
    Rejected,
    /// No operator has decided in time.
    Expired,
}

impl State {
    /// The state in one word.
    pub fn name(&self) -> &'static str {
        match self {
            State::Proposed => "proposed",
            State::Approved => "approved",
            State::Running(_) => "running",
            State::Done(_) => "done",
            State::Refused(_) => "refused",
            State::Rejected => "rejected",
            State::Expired => "expired",
        }
    }

    /// True while partitions of the proposal are not proposed again.
    fn is_open(&self) -> bool {
        matches!(self, State::Proposed | State::Approved | State::Running(_))
    }
}

/// A plan with its fate.
#[derive(Clone, PartialEq, Debug)]
pub struct Proposal {
    /// Counts from 1.
    pub number: u64,
    /// When it was proposed.
    pub at: Time,
    /// The changes, and why; none if it is a statement.
    pub plan: Plan,
    /// A statement in SQL that is to be run, for what is no change of a plan: a new shard key.
    pub statement: Option<String>,
    /// Where it is.
    pub state: State,
    /// When and by which user it was approved or rejected, and the reason that the user gave.
    pub decided: Option<(Time, String, Option<String>)>,
    /// The decision of the planner's journal that measures its effect.
    pub decision: Option<u64>,
    /// The user who proposed it; `None`: the autopilot.
    pub by: Option<String>,
    /// When its last change was made.
    pub ended: Option<Time>,
    /// The load before the approval, and after the last change.
    pub load: [Option<Measure>; 2],
    /// The expected saving of its changes, and their cost, in microseconds.
    pub forecast: [Option<f64>; 2],
    parts: Parts,
}

impl Proposal {
    /// The tables that its changes or its statement are about.
    pub fn tables(&self) -> BTreeSet<TableId> {
        self.parts.iter().map(|(_, table, _)| *table).collect()
    }

    /// The tables of which it moves masters.
    fn remastered(&self) -> BTreeSet<TableId> {
        let moves = self.parts.iter().filter(|(change, ..)| *change == "remaster");
        moves.map(|(_, table, _)| *table).collect()
    }

    /// True if it waits, and is of a planner.
    fn is_of_planner(&self) -> bool {
        self.state == State::Proposed && self.by.is_none()
    }

    /// True if it yields to a planner's plan with this many changes.
    fn yields_to(&self, changes: usize) -> bool {
        let is_small = 2 * self.plan.steps.len() <= changes;
        self.is_of_planner() && is_small && !self.remastered().is_empty()
    }

    /// When it expires.
    pub fn expires(&self) -> Time {
        Time(self.at.0 + PENDING_NS)
    }

    fn end(&mut self, number: Option<u64>, ended: Result<Time, String>) {
        self.state = match ended {
            Ok(at) => {
                self.ended = Some(at);
                State::Done(number)
            }
            Err(why) => State::Refused(why),
        };
    }
}

/// A decision of a planner's journal.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Of {
    /// Its number.
    pub decision: u64,
    /// The expected saving of all its changes, and their cost, in microseconds; `None` for a plan
    /// that has only some of them.
    pub forecast: Option<[f64; 2]>,
}

/// Why a plan is not taken as a proposal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Dropped {
    /// It has no change.
    Empty,
    /// It adds or removes a site, which operators do at once.
    Sites,
    /// [`PENDING_MAX`] proposals wait.
    Full,
    /// The proposal of this number is open, and changes the same partitions.
    Open(u64),
    /// The proposal of this number was rejected lately, and would have changed the same partitions.
    Rejected(u64),
}

/// Why an operator's word about a proposal has no effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// There is none of this number.
    Unknown,
    /// It is not kept any more: it has ended, or the process that kept it did.
    Gone,
    /// It is in this state, and not proposed.
    State(State),
}

/// See the [module documentation](self).
#[derive(Clone, Default, Debug)]
pub struct Proposals {
    kept: VecDeque<Proposal>,
    count: u64,
}

/// The sum of what the changes of a plan are predicted to save, and to cost.
fn forecast(plan: &Plan) -> [Option<f64>; 2] {
    let sum = |of: fn(&isomer_design::Step) -> Option<f64>| {
        let known: Vec<f64> = plan.steps.iter().filter_map(of).collect();
        (!known.is_empty()).then(|| known.iter().sum())
    };
    [sum(|step| step.predicted_benefit), sum(|step| step.predicted_cost)]
}

/// Kinds of changes with the partitions that they touch, by their first keys.
pub type Parts = BTreeSet<(&'static str, TableId, Key)>;

/// The partitions of a design that the changes of a plan touch.
pub fn parts(plan: &Plan, design: &Design) -> Parts {
    let part = |change: &Change| {
        let (table, start) = (change.table()?, change.start()?);
        let start = match design.partition_of(table, start) {
            Some((range, _)) => range.start,
            None => start.clone(),
        };
        Some((change.operator(), table, start))
    };
    plan.changes().filter_map(part).collect()
}

/// The steps of a strategy's plan that the design permits, and `is_permitted` with the design that
/// the earlier ones lead to. A strategy drops copies that are backups, too: where its plan is
/// carried out at once, such a change fails alone, but a plan that is approved is carried out as a
/// whole or not at all.
pub fn possible(
    plan: Plan,
    design: &Design,
    is_permitted: impl Fn(&Design, &Change) -> bool,
) -> Plan {
    let mut design = design.clone();
    let mut is_possible =
        |change: &Change| is_permitted(&design, change) && design.apply(change).is_ok();
    let steps = plan.steps.into_iter().filter(|step| is_possible(&step.change)).collect();
    Plan { reason: plan.reason, steps }
}

/// False for the removal of a replica that a table needs as a backup, wherever its sites are.
pub fn leaves_backups(design: &Design, change: &Change) -> bool {
    let Change::RemoveReplica { table, start, site } = change else { return true };
    let Ok(found) = design.table(*table) else { return false };
    let left = found.partition_of(start).map(|(_, placement)| placement.replicas.without(*site));
    left.is_some_and(|left| left.len() >= usize::from(found.backups().count))
}

impl Proposals {
    /// The next proposal has a number after this one.
    pub fn number_after(&mut self, number: u64) {
        self.count = self.count.max(number);
    }

    /// Takes a plan of a decision as a proposal, with the [parts] that it touches. Returns its
    /// number, or `None` if the plan is dropped.
    pub fn offer(&mut self, now: Time, plan: Plan, of: Option<Of>, parts: Parts) -> Option<u64> {
        let told = of.and_then(|of| of.forecast).map(|of| of.map(Some));
        let expected = told.unwrap_or_else(|| forecast(&plan));
        let [benefit, cost] = expected;
        if benefit.is_some_and(|benefit| benefit - cost.unwrap_or(0.0) < WORTH_US) {
            return None;
        }
        let number = self.admit(now, plan, parts, true).ok()?;
        let proposal = self.kept.back_mut()?;
        (proposal.decision, proposal.forecast) = (of.map(|of| of.decision), expected);
        let (moved, changes) = (proposal.remastered(), proposal.plan.steps.len());
        self.end_others(
            number,
            &moved,
            |other| other.yields_to(changes),
            |number| format!("proposal {number}, for more of the load, takes its place"),
        );
        Some(number)
    }

    /// Takes a plan of an operator as a proposal, with the [parts] that it touches. Returns its
    /// number.
    ///
    /// # Errors
    /// If the plan is dropped.
    pub fn propose(
        &mut self,
        now: Time,
        plan: Plan,
        by: &str,
        parts: Parts,
    ) -> Result<u64, Dropped> {
        let number = self.admit(now, plan, parts, false)?;
        self.kept.back_mut().expect("it was just added").by = Some(by.to_owned());
        Ok(number)
    }

    /// Takes a statement of an operator as a proposal, with the [parts] that it touches. Returns
    /// its number.
    ///
    /// # Errors
    /// If it is dropped.
    pub fn propose_statement(
        &mut self,
        now: Time,
        (statement, why): (&str, &str),
        by: &str,
        parts: Parts,
    ) -> Result<u64, Dropped> {
        let plan = Plan::new(why);
        let number = self.place(now, plan, parts, false)?;
        let proposal = self.kept.back_mut().expect("it was just added");
        proposal.by = Some(by.to_owned());
        proposal.statement = Some(statement.to_owned());
        Ok(number)
    }

    fn admit(
        &mut self,
        now: Time,
        plan: Plan,
        parts: Parts,
        is_of_planner: bool,
    ) -> Result<u64, Dropped> {
        // Sites are added and removed by operators only.
        let is_of_tables = plan.changes().all(|change| change.table().is_some());
        if plan.is_empty() {
            return Err(Dropped::Empty);
        }
        if !is_of_tables {
            return Err(Dropped::Sites);
        }
        self.place(now, plan, parts, is_of_planner)
    }

    fn place(
        &mut self,
        now: Time,
        plan: Plan,
        parts: Parts,
        is_of_planner: bool,
    ) -> Result<u64, Dropped> {
        self.expire(now);
        let yields = |it: &Proposal| match is_of_planner {
            true => it.yields_to(plan.steps.len()),
            false => it.is_of_planner(),
        };
        let waits = |it: &&Proposal| {
            it.state == State::Proposed && it.by.is_none() == is_of_planner && !yields(it)
        };
        if self.kept.iter().filter(waits).count() >= PENDING_MAX {
            return Err(Dropped::Full);
        }
        let rests = |it: &Proposal| {
            let at = it.decided.as_ref().map_or(it.at, |(at, ..)| *at);
            it.state == State::Rejected && now.0 < at.0 + REST_NS
        };
        let places: BTreeSet<(TableId, &Key)> =
            parts.iter().map(|(_, table, start)| (*table, start)).collect();
        let is_there = |(_, table, start): &(&str, TableId, Key)| places.contains(&(*table, start));
        for it in self.kept.iter().filter(|it| it.parts.iter().any(is_there)) {
            if it.state.is_open() && !it.parts.is_disjoint(&parts) && !yields(it) {
                return Err(Dropped::Open(it.number));
            }
            if is_of_planner && rests(it) {
                return Err(Dropped::Rejected(it.number));
            }
        }
        self.count += 1;
        if !is_of_planner {
            let number = self.count;
            let gives_way = |it: &&mut Proposal| yields(it) && !it.parts.is_disjoint(&parts);
            for it in self.kept.iter_mut().filter(gives_way) {
                let why = format!("proposal {number}, of an operator, takes its place");
                it.state = State::Refused(why);
            }
        }
        if self.kept.len() == KEPT_MAX {
            let ended = self.kept.iter().position(|it| !it.state.is_open()).unwrap_or_default();
            self.kept.remove(ended);
        }
        let (number, state, forecast) = (self.count, State::Proposed, forecast(&plan));
        self.kept.push_back(Proposal {
            number,
            at: now,
            plan,
            statement: None,
            state,
            decided: None,
            decision: None,
            by: None,
            ended: None,
            load: [None; 2],
            forecast,
            parts,
        });
        Ok(number)
    }

    /// A user approves a proposal. Returns it; the caller carries it out.
    ///
    /// # Errors
    /// If there is none that waits.
    pub fn approve(&mut self, now: Time, number: u64, by: &str) -> Result<Proposal, Wrong> {
        let proposal = self.waiting(now, number)?;
        proposal.state = State::Approved;
        proposal.decided = Some((now, by.to_owned(), None));
        Ok(proposal.clone())
    }

    /// A user rejects a proposal.
    ///
    /// # Errors
    /// If there is none that waits.
    pub fn reject(
        &mut self,
        now: Time,
        number: u64,
        (by, why): (&str, Option<&str>),
    ) -> Result<(), Wrong> {
        let proposal = self.waiting(now, number)?;
        proposal.state = State::Rejected;
        proposal.decided = Some((now, by.to_owned(), why.map(str::to_owned)));
        Ok(())
    }

    /// An approved proposal is carried out as a reconfiguration, or cannot be.
    pub fn started(&mut self, number: u64, started: Result<u64, String>) {
        let approved = |it: &&mut Proposal| it.number == number && it.state == State::Approved;
        let Some(proposal) = self.kept.iter_mut().find(approved) else { return };
        let running = |number| State::Running(Some(number));
        proposal.state = started.map_or_else(State::Refused, running);
        if matches!(proposal.state, State::Running(_)) {
            // They were made for masters that move now, and would often move them back.
            let moved = proposal.remastered();
            self.end_others(number, &moved, |_| true, |number| {
                format!(
                    "proposal {number} moves masters of its table; changes that the load needs after that are proposed anew"
                )
            });
        }
    }

    /// Ends other proposals of a planner that move masters of these tables.
    fn end_others(
        &mut self,
        number: u64,
        tables: &BTreeSet<TableId>,
        is_meant: impl Fn(&Proposal) -> bool,
        why: impl Fn(u64) -> String,
    ) {
        for other in self.kept.iter_mut().filter(|other| other.number != number) {
            if other.is_of_planner() && is_meant(other) && !other.remastered().is_disjoint(tables) {
                other.state = State::Refused(why(number));
            }
        }
    }

    /// Ends a proposal that waits and cannot be carried out any more.
    pub fn refuse(&mut self, number: u64, why: String) {
        let waits = |it: &&mut Proposal| it.number == number && it.state == State::Proposed;
        if let Some(proposal) = self.kept.iter_mut().find(waits) {
            proposal.state = State::Refused(why);
        }
    }

    /// The statement of an approved proposal runs now.
    pub fn runs(&mut self, number: u64) {
        let approved = |it: &&mut Proposal| it.number == number && it.state == State::Approved;
        if let Some(proposal) = self.kept.iter_mut().find(approved) {
            proposal.state = State::Running(None);
        }
    }

    /// The statement of a proposal has ended: when, or why without success.
    pub fn has_run(&mut self, number: u64, ended: Result<Time, String>) {
        let running = |it: &&mut Proposal| it.number == number && it.state == State::Running(None);
        if let Some(proposal) = self.kept.iter_mut().find(running) {
            proposal.end(None, ended);
        }
    }

    /// Asks for each reconfiguration under way whether it has ended: when, or why without success.
    /// Returns the decisions whose plans have.
    pub fn follow(&mut self, ended: impl Fn(u64) -> Option<Result<Time, String>>) -> Vec<u64> {
        let mut decisions = Vec::new();
        for proposal in &mut self.kept {
            if let State::Running(Some(number)) = proposal.state
                && let Some(ended) = ended(number)
            {
                proposal.end(Some(number), ended);
                decisions.extend(proposal.decision);
            }
        }
        decisions
    }

    /// Measures the load before and after approved plans, as far as it is known by now.
    pub fn weigh(&mut self, now: Time, measure: impl Fn(Time, Time) -> Measure) {
        for proposal in &mut self.kept {
            let Some((approved, ..)) = proposal.decided else { continue };
            let is_carried_out =
                matches!(proposal.state, State::Approved | State::Running(_) | State::Done(_));
            if is_carried_out && proposal.load[0].is_none() {
                let from = Time(approved.0.saturating_sub(MEASURED_NS));
                proposal.load[0] = Some(measure(from, approved));
            }
            let Some(ended) = proposal.ended else { continue };
            // As long as the load of that time is known.
            if now.0 < ended.0 + (KEPT_S - 1) * SECOND_NS {
                // The second of the last change belongs to neither.
                let (from, until) = (ended.0 + SECOND_NS, ended.0 + MEASURED_NS);
                proposal.load[1] = Some(measure(Time(from), Time(until).min(now)));
            }
        }
    }

    /// Ends proposals that have waited for too long.
    pub fn expire(&mut self, now: Time) {
        for proposal in &mut self.kept {
            if proposal.state == State::Proposed && now >= proposal.expires() {
                proposal.state = State::Expired;
            }
        }
    }

    /// The proposals that are kept, the oldest first.
    pub fn all(&self) -> impl Iterator<Item = &Proposal> {
        self.kept.iter()
    }

    fn waiting(&mut self, now: Time, number: u64) -> Result<&mut Proposal, Wrong> {
        self.expire(now);
        let gone = if (1..=self.count).contains(&number) { Wrong::Gone } else { Wrong::Unknown };
        let found = self.kept.iter_mut().find(|it| it.number == number).ok_or(gone)?;
        match &found.state {
            State::Proposed => Ok(found),
            other => Err(Wrong::State(other.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_design::Step;

    fn split(at: i64) -> Plan {
        let change = Change::Split { table: TableId(1), at: Key::int(at) };
        Plan {
            reason: "hot".to_owned(),
            steps: vec![Step::new(change, "hot").predicted(2.0, 2.0 * WORTH_US)],
        }
    }

    /// Partitions have two keys each.
    fn offer(proposals: &mut Proposals, at: u64, key: i64) -> Option<u64> {
        let part = ("split", TableId(1), Key::int(key / 2 * 2));
        proposals.offer(Time(at), split(key), None, Parts::from([part]))
    }

    fn states(proposals: &Proposals) -> Vec<&'static str> {
        proposals.all().map(|it| it.state.name()).collect()
    }

    #[test]
    fn a_strategy_proposes_what_is_possible() {
        let text = "sites s1 s2 s3\ntable t\ncolumn a int64\nkey a\nbackups 1 on disk\n\
             partition [] master s1 replicas s2\npartition [5] master s2 replicas s1\n";
        let design = Design::parse(text).expect("a design");
        let wanted = "remaster t[] s2\nremove_replica t[] s1\nremaster t[] s3\n\
             add_replica t[5] s3\nremove_replica t[5] s1\n";
        let change = |line: &str| Change::parse(line, &design).expect("a change");
        let steps = wanted.lines().map(|line| Step::new(change(line), "hot"));
        let plan = Plan { reason: "hot".to_owned(), steps: steps.collect() };
        let possible = possible(plan, &design, leaves_backups);
        let told: Vec<String> = possible.changes().map(|change| change.to_text(&design)).collect();
        assert_eq!(told, ["remaster t[] s2", "add_replica t[5] s3", "remove_replica t[5] s1"]);
    }

    #[test]
    fn a_plan_that_is_pending_is_not_proposed_again() {
        let mut proposals = Proposals::default();
        assert_eq!(offer(&mut proposals, 0, 5), Some(1));
        assert_eq!(offer(&mut proposals, 1, 5), None);
        assert_eq!(offer(&mut proposals, 1, 4), None, "it is the same partition");
        assert_eq!(offer(&mut proposals, 1, 6), Some(2));
        assert_eq!(proposals.offer(Time(1), Plan::default(), None, Parts::new()), None);
        let forecast = proposals.all().next().map(|it| it.forecast);
        assert_eq!(forecast, Some([Some(2.0 * WORTH_US), Some(2.0)]));
    }

    #[test]
    fn a_planners_plan_that_saves_little_is_no_proposal() {
        let (mut proposals, mut plan) = (Proposals::default(), split(5));
        plan.steps[0].predicted_benefit = Some(1.0 + WORTH_US);
        let parts = Parts::from([("split", TableId(1), Key::int(4))]);
        assert_eq!(proposals.offer(Time(0), plan.clone(), None, parts.clone()), None);
        assert_eq!(proposals.propose(Time(0), plan, "ann", parts), Ok(1), "ann wants it");
    }

    #[test]
    fn an_approved_plan_runs_and_ends() {
        let mut proposals = Proposals::default();
        offer(&mut proposals, 0, 5);
        offer(&mut proposals, 0, 6);
        offer(&mut proposals, 0, 8);
        assert_eq!(proposals.approve(Time(1), 1, "ann").map(|it| it.plan), Ok(split(5)));
        assert_eq!(proposals.approve(Time(1), 1, "ann"), Err(Wrong::State(State::Approved)));
        proposals.started(1, Ok(4));
        assert_eq!(offer(&mut proposals, 2, 5), None, "it runs");
        proposals.follow(|number| (number == 4).then_some(Ok(Time(5))));
        proposals.approve(Time(1), 2, "ann").expect("it waits");
        proposals.started(2, Err("the design has changed".to_owned()));
        proposals.approve(Time(1), 3, "ann").expect("it waits");
        proposals.started(3, Ok(5));
        proposals.follow(|_| Some(Err("it was cancelled".to_owned())));
        assert_eq!(states(&proposals), ["done", "refused", "refused"]);
        assert_eq!(offer(&mut proposals, 2, 5), Some(4), "the load may ask for it anew");
        assert_eq!(proposals.approve(Time(3), 44, "ann"), Err(Wrong::Unknown));
        let mut next = Proposals::default();
        next.number_after(4);
        assert_eq!(next.approve(Time(4), 4, "ann"), Err(Wrong::Gone));
    }

    #[test]
    fn a_plan_ends_others_that_move_masters_of_its_tables() {
        let mut proposals = Proposals::default();
        let mut offer = |change: &'static str, table: u32, key: i64| {
            let part = (change, TableId(table), Key::int(key));
            proposals.offer(Time(0), split(key), None, Parts::from([part])).expect("it is new");
        };
        offer("remaster", 1, 0);
        offer("remaster", 1, 1001);
        offer("split", 1, 0);
        offer("remaster", 2, 0);
        let by_ann = Parts::from([("remaster", TableId(1), Key::int(7))]);
        proposals.propose(Time(0), split(7), "ann", by_ann).expect("it is new");
        proposals.approve(Time(1), 1, "ann").expect("it waits");
        proposals.started(1, Ok(4));
        let now = states(&proposals);
        assert_eq!(now, ["running", "refused", "proposed", "proposed", "proposed"]);
    }

    #[test]
    fn a_plan_for_more_of_the_load_takes_the_place_of_small_ones() {
        let mut proposals = Proposals::default();
        let mut offer = |keys: std::ops::Range<i64>| {
            let part = |key| ("remaster", TableId(1), Key::int(key));
            let mut plan = split(0);
            plan.steps = keys.clone().flat_map(|key| split(key).steps).collect();
            let of = Of { decision: 7, forecast: Some([3.0 * WORTH_US, WORTH_US]) };
            proposals.offer(Time(0), plan, Some(of), keys.map(part).collect())
        };
        // They also make room for it.
        for key in 0..PENDING_MAX as i64 {
            assert_eq!(offer(key..key + 1), Some(key as u64 + 1));
        }
        assert_eq!(offer(100..101), None, "enough wait");
        assert_eq!(offer(0..40), Some(PENDING_MAX as u64 + 1));
        assert_eq!(offer(0..42), None, "the load is nearly the same");
        assert_eq!(
            states(&proposals).iter().filter(|state| **state == "refused").count(),
            PENDING_MAX
        );
        let last = proposals.all().last().expect("a proposal");
        assert_eq!(last.forecast, [Some(3.0 * WORTH_US), Some(WORTH_US)]);
    }

    #[test]
    fn an_operator_proposes_what_is_not_open() {
        let mut proposals = Proposals::default();
        let part = |key: i64| Parts::from([("split", TableId(1), Key::int(key))]);
        let mut propose = |key: i64| proposals.propose(Time(1), split(key), "ann", part(key));
        assert_eq!((propose(4), propose(4)), (Ok(1), Err(Dropped::Open(1))));
        let empty = proposals.propose(Time(1), Plan::default(), "ann", Parts::new());
        assert_eq!(empty, Err(Dropped::Empty));
        let change = Change::RemoveSite { site: isomer_design::SiteId(3) };
        let removes = Plan { reason: String::new(), steps: vec![Step::new(change, "")] };
        assert_eq!(proposals.propose(Time(1), removes, "ann", part(8)), Err(Dropped::Sites));
        proposals.reject(Time(2), 1, ("bob", None)).expect("it waits");
        assert_eq!(offer(&mut proposals, 3, 4), None, "the autopilot respects a rejection");
        assert_eq!(proposals.propose(Time(3), split(4), "ann", part(4)), Ok(2));
        assert_eq!(proposals.all().last().and_then(|it| it.by.as_deref()), Some("ann"));
    }

    #[test]
    fn a_planners_proposal_gives_way_to_an_operator() {
        let mut proposals = Proposals::default();
        let _ = [4, 8].map(|key| offer(&mut proposals, 0, key));
        let part = Parts::from([("split", TableId(1), Key::int(4))]);
        assert_eq!(proposals.propose(Time(1), split(4), "ann", part), Ok(3));
        assert_eq!(states(&proposals), ["refused", "proposed", "proposed"]);
    }

    #[test]
    fn a_statement_waits_runs_and_ends_like_a_plan() {
        let mut proposals = Proposals::default();
        let part = Parts::from([("shard", TableId(1), Key::min())]);
        let statement = ("alter table t shard by (a)", "advice");
        let mut propose = || proposals.propose_statement(Time(1), statement, "ann", part.clone());
        assert_eq!((propose(), propose()), (Ok(1), Err(Dropped::Open(1))));
        let approved = proposals.approve(Time(2), 1, "bob").expect("it waits");
        assert_eq!(approved.statement.as_deref(), Some("alter table t shard by (a)"));
        proposals.runs(1);
        proposals.follow(|_| Some(Err("it is no reconfiguration".to_owned())));
        assert_eq!(states(&proposals), ["running"]);
        proposals.has_run(1, Ok(Time(5)));
        proposals.has_run(1, Err("it has ended".to_owned()));
        assert_eq!(states(&proposals), ["done"]);
    }

    #[test]
    fn the_load_is_measured_before_and_after_a_plan() {
        let s = |second: u64| Time(second * 1_000_000_000);
        let mut proposals = Proposals::default();
        offer(&mut proposals, 0, 5);
        let measure = |from: Time, to: Time| Measure {
            transactions: (to.0 - from.0) / 1_000_000_000,
            ..Measure::default()
        };
        proposals.weigh(s(90), measure);
        assert_eq!(proposals.all().next().map(|it| it.load), Some([None; 2]));
        proposals.approve(s(100), 1, "ann").expect("it waits");
        proposals.started(1, Ok(4));
        proposals.weigh(s(101), measure);
        proposals.follow(|_| Some(Ok(s(110))));
        let mut seen = |now| {
            proposals.weigh(now, measure);
            let load = proposals.all().next().expect("a proposal").load;
            load.map(|load| load.map(|load| load.transactions))
        };
        assert_eq!(seen(s(116)), [Some(60), Some(5)]);
        assert_eq!(seen(s(200)), [Some(60), Some(59)]);
        assert_eq!(seen(s(10_000)), [Some(60), Some(59)], "what is not known any more stays");
    }

    #[test]
    fn operators_have_room_of_their_own() {
        let mut proposals = Proposals::default();
        for at in 0..2 * PENDING_MAX as i64 {
            offer(&mut proposals, 0, 2 * at);
        }
        assert_eq!(proposals.all().count(), PENDING_MAX);
        let part = Parts::from([("split", TableId(2), Key::int(7))]);
        assert_eq!(proposals.propose(Time(0), split(7), "ann", part), Ok(PENDING_MAX as u64 + 1));
    }

    #[test]
    fn after_a_rejection_the_same_is_not_proposed_for_a_while() {
        let mut proposals = Proposals::default();
        offer(&mut proposals, 0, 5);
        proposals.reject(Time(7), 1, ("bob", Some("not today"))).expect("it waits");
        assert_eq!(proposals.reject(Time(8), 1, ("bob", None)), Err(Wrong::State(State::Rejected)));
        assert_eq!(offer(&mut proposals, 6 + REST_NS, 5), None);
        let moves = Parts::from([("remaster", TableId(1), Key::int(4))]);
        assert_eq!(proposals.offer(Time(9), split(5), None, moves), None, "another change there");
        assert_eq!(offer(&mut proposals, 7 + REST_NS, 5), Some(2));
    }

    #[test]
    fn a_proposal_without_an_answer_expires() {
        let mut proposals = Proposals::default();
        offer(&mut proposals, 0, 5);
        assert_eq!(
            proposals.approve(Time(PENDING_NS), 1, "ann"),
            Err(Wrong::State(State::Expired))
        );
        assert_eq!(offer(&mut proposals, PENDING_NS, 5), Some(2));
    }

    #[test]
    fn what_waits_and_what_is_kept_is_bounded() {
        let mut proposals = Proposals::default();
        for at in 0..=PENDING_MAX as i64 {
            offer(&mut proposals, 0, 2 * at);
        }
        assert_eq!(proposals.all().count(), PENDING_MAX);
        for at in 0..1000 {
            let Some(number) = offer(&mut proposals, 1, 100 + 2 * at) else {
                let first = proposals.all().find(|it| it.state == State::Proposed);
                let number = first.map(|it| it.number).expect("some wait");
                proposals.reject(Time(1), number, ("bob", None)).expect("it waits");
                continue;
            };
            proposals.reject(Time(1), number, ("bob", None)).expect("it waits");
        }
        assert!(proposals.all().count() <= KEPT_MAX);
    }
}
