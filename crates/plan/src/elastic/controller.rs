//! The loop as a state machine: its inputs are periods, footprints and completed changes, its
//! outputs are plans.

use super::away::Away;
use super::fleet::{self, Spare};
use super::planner::Aim;
use super::{Options, Overload, Period, Planned, Planner, planner};
use crate::problem::plural;
use isomer_design::{Change, Design, Footprint, Plan, SiteId, Time};
use std::collections::VecDeque;

/// The most episodes that are remembered.
const EPISODES_MAX: usize = 200;

/// One pass of the loop: an overload or a spare site, and the reaction to it.
#[derive(Clone, PartialEq, Debug)]
pub struct Episode {
    /// The number of the episode, from 1.
    pub number: u64,
    /// When the overload had lasted long enough to count.
    pub begun: Time,
    /// The overload in words.
    pub overload: String,
    /// The aim of the plans.
    pub aim: Aim,
    /// The site with the most load.
    pub hottest: SiteId,
    /// Its load in multiples of the mean.
    pub times: f64,
    /// The number of footprints that the plans were made from, and the seconds of recording.
    pub recorded: (usize, f64),
    /// The plans.
    pub planned: Planned,
    /// The outcome.
    pub outcome: Outcome,
    /// When the last change was made.
    pub moved: Option<Time>,
}

/// The outcome of an episode.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// Footprints are being recorded.
    Recording,
    /// Plans are being made or executed.
    Moving,
    /// Too few footprints were recorded to plan from.
    TooLittle,
    /// No move would help.
    NothingToMove,
    /// Plans were made, but not executed.
    Recommended,
    /// The changes were made, except for the refused ones.
    Moved {
        /// Changes that the router refused.
        refused: usize,
    },
    /// After the changes, the load of the most loaded site in multiples of the mean is known.
    Settled {
        /// Changes that the router refused.
        refused: usize,
        /// Multiples of the mean load.
        times: f64,
    },
}

#[derive(Debug)]
enum State {
    /// No overload, or not for long enough.
    Watching {
        seen: u32,
        /// The number of consecutive periods with a spare site.
        spare: u32,
    },
    Recording {
        since_ns: u64,
        recorded: Vec<Footprint>,
    },
    Planning,
    Moving {
        waiting: VecDeque<Plan>,
        under_way: Vec<Change>,
        heard_ns: u64,
        refused: usize,
    },
    Settling {
        periods: u32,
        refused: usize,
    },
}

/// See the [module documentation](super).
#[derive(Debug)]
pub struct Controller {
    planner: Planner,
    options: Options,
    state: State,
    away: Away,
    patience_ns: u64,
    hopeless: Option<Hopeless>,
    episodes: VecDeque<Episode>,
    /// The number of episodes so far.
    count: u64,
}

/// An overload that no move has cured.
#[derive(Clone, Copy, Debug)]
struct Hopeless {
    site: SiteId,
    times: f64,
    /// The overload is not planned for before this time.
    until_ns: u64,
}

impl Hopeless {
    /// True if it is the same overload and not much worse.
    fn is_same(&self, (site, times): (SiteId, f64)) -> bool {
        site == self.site && times < 1.3 * self.times
    }
}

/// The recorded footprints, as input for a plan.
#[derive(Debug)]
pub struct Recorded {
    aim: Aim,
    footprints: Vec<Footprint>,
    seconds: f64,
    away: Away,
}

impl Recorded {
    /// Makes the plans. Takes as long as the planner does.
    pub fn plan(mut self, planner: Planner, options: &Options, design: &Design) -> Proposed {
        let recorded = (&self.footprints[..], self.seconds);
        let wanted = (options.imbalance, self.aim);
        let planned = planner::plan(planner, wanted, design, recorded, &mut self.away);
        Proposed { planned, away: self.away }
    }
}

/// The proposed plans, and the ranges that are away from home once they are executed.
#[derive(Debug)]
pub struct Proposed {
    planned: Planned,
    away: Away,
}

impl Controller {
    /// The next episode has a number after this one.
    pub(crate) fn number_after(&mut self, number: u64) {
        self.count = self.count.max(number);
    }

    /// A loop without any history.
    pub fn new(planner: Planner, options: Options) -> Controller {
        let patience_ns = options.patience_ns;
        let state = State::Watching { seen: 0, spare: 0 };
        let (away, episodes) = (Away::default(), VecDeque::new());
        let hopeless = None;
        Controller { planner, options, state, away, patience_ns, hopeless, episodes, count: 0 }
    }

    /// The planner in use.
    pub fn planner(&self) -> Planner {
        self.planner
    }

    /// The constants.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The newest episodes, the newest first.
    pub fn episodes(&self) -> impl Iterator<Item = &Episode> {
        self.episodes.iter().rev()
    }

    /// The ranges that are away from home.
    pub fn away(&self) -> &Away {
        &self.away
    }

    /// Restores the ranges that were away from home in an earlier run.
    pub fn recall(&mut self, away: Away) {
        self.away = away;
    }

    /// Evaluates a period that has ended.
    pub fn period(&mut self, now: Time, period: &Period) {
        let overload = period.overload(&self.options);
        self.look_for_spare(now, period, overload.as_ref());
        let Some(hottest) = period.hottest() else { return };
        match &mut self.state {
            State::Watching { seen, .. } => {
                *seen = if overload.is_some() { *seen + 1 } else { 0 };
                let waits = |it: &Hopeless| now.0 < it.until_ns && it.is_same(hottest);
                let is_due = *seen >= self.options.periods && !self.hopeless.iter().any(waits);
                if let Some(overload) = overload.filter(|_| is_due) {
                    let fleet = self.options.fleet.as_ref();
                    let has_room = fleet.is_some_and(|fleet| period.sites.len() < fleet.sites_max);
                    let aim = Aim::Relief { may_add: has_room && overload.is_of_all() };
                    self.begin(now, overload.to_string(), hottest, aim);
                }
            }
            State::Moving { heard_ns, refused, .. } => {
                if now.0.saturating_sub(*heard_ns) > self.options.give_up_ns {
                    let refused = *refused + 1;
                    self.moved(now, refused);
                }
            }
            State::Settling { periods, refused } => match periods.checked_sub(1) {
                Some(left) => *periods = left,
                None => {
                    let refused = *refused;
                    self.settled(now, hottest.1, overload.is_none(), refused);
                }
            },
            State::Recording { .. } | State::Planning => {}
        }
    }

    /// Begins to empty a site that has been spare for long enough.
    fn look_for_spare(&mut self, now: Time, period: &Period, overload: Option<&Overload>) {
        let State::Watching { spare, .. } = &mut self.state else { return };
        let found = fleet::spare(period, &self.options, overload);
        *spare = if found.is_some() { *spare + 1 } else { 0 };
        let calm = self.options.fleet.as_ref().map_or(0, |fleet| fleet.calm);
        if let Some(Spare { site, busy_left }) = found.filter(|_| *spare >= calm) {
            *spare = 0;
            let others = plural(period.sites.len() - 1, "site");
            let why = format!(
                "without {site}, {others} would use {:.0} % of their processors",
                busy_left * 100.0
            );
            let hottest = period.hottest().unwrap_or((site, 1.0));
            self.begin(now, why, hottest, Aim::Removal(site));
        }
    }

    fn begin(&mut self, now: Time, overload: String, hottest: (SiteId, f64), aim: Aim) {
        self.count += 1;
        self.state = State::Recording { since_ns: now.0, recorded: Vec::new() };
        if self.episodes.len() == EPISODES_MAX {
            self.episodes.pop_front();
        }
        self.episodes.push_back(Episode {
            number: self.count,
            begun: now,
            overload,
            aim,
            hottest: hottest.0,
            times: hottest.1,
            recorded: (0, 0.0),
            planned: Planned::default(),
            outcome: Outcome::Recording,
            moved: None,
        });
    }

    /// True if footprints are wanted.
    pub fn is_recording(&self) -> bool {
        match &self.state {
            State::Recording { recorded, .. } => recorded.len() < self.options.footprints,
            _ => false,
        }
    }

    /// Records the footprint of a running transaction.
    pub fn record(&mut self, footprint: &Footprint) {
        if let State::Recording { recorded, .. } = &mut self.state
            && recorded.len() < self.options.footprints
        {
            recorded.push(footprint.clone());
        }
    }

    /// Returns the recorded footprints, a sample of one transaction in `one_in`, once there are
    /// enough or the time is over. Pass the plans made from them to [`Controller::adopt`].
    pub fn take_recorded(&mut self, now: Time, one_in: u64) -> Option<Recorded> {
        let State::Recording { since_ns, recorded } = &mut self.state else { return None };
        let past_ns = now.0.saturating_sub(*since_ns);
        let is_over = past_ns >= self.options.window_ns;
        let is_quiet = |episode: &Episode| matches!(episode.aim, Aim::Removal(_));
        let footprints_min = match self.episodes.back().is_some_and(is_quiet) {
            // A spare site sees few transactions, so one footprint is enough.
            true => 1,
            false => self.options.footprints_min,
        };
        let is_enough = recorded.len() >= self.options.footprints
            || (is_over && recorded.len() >= footprints_min);
        if !is_enough {
            if past_ns >= self.options.give_up_ns.max(self.options.window_ns) {
                self.end(now, Outcome::TooLittle);
            }
            return None;
        }
        let aim = self.episodes.back().map_or(Aim::Relief { may_add: false }, |it| it.aim);
        let footprints = std::mem::take(recorded);
        let seconds = past_ns as f64 / 1e9;
        self.state = State::Planning;
        if let Some(episode) = self.episodes.back_mut() {
            episode.recorded = (footprints.len(), seconds);
            episode.outcome = Outcome::Moving;
        }
        // The sample, treated as a complete recording of a shorter time.
        let seconds = seconds / one_in.max(1) as f64;
        Some(Recorded { aim, footprints, seconds, away: self.away.clone() })
    }

    /// Adopts plans: executes them, or only remembers them.
    pub fn adopt(&mut self, now: Time, proposed: Proposed, carry_out: bool) {
        let Proposed { planned, away } = proposed;
        let plans: VecDeque<Plan> = planned.plans.iter().cloned().collect();
        if let Some(episode) = self.episodes.back_mut() {
            episode.planned = planned;
        }
        match (plans.is_empty(), carry_out) {
            (true, _) => self.end(now, Outcome::NothingToMove),
            (false, false) => self.end(now, Outcome::Recommended),
            (false, true) => {
                self.away = away;
                let (under_way, heard_ns) = (Vec::new(), now.0);
                self.state = State::Moving { waiting: plans, under_way, heard_ns, refused: 0 };
            }
        }
    }

    /// True if a plan is ready to execute.
    pub fn has_plan(&self) -> bool {
        matches!(&self.state, State::Moving { waiting, under_way, .. } if under_way.is_empty() && !waiting.is_empty())
    }

    /// The next plan to execute. Report the results of its changes to [`Controller::changed`].
    pub fn next_plan(&mut self, now: Time) -> Option<Plan> {
        let State::Moving { waiting, under_way, heard_ns, .. } = &mut self.state else {
            return None;
        };
        if !under_way.is_empty() {
            return None;
        }
        let plan = waiting.pop_front()?;
        *under_way = plan.steps.iter().map(|step| step.change.clone()).collect();
        *heard_ns = now.0;
        Some(plan)
    }

    /// Reports the result of a change, which may come from a plan of this loop or from elsewhere.
    /// After a refused change, the rest of its plan is dropped.
    pub fn changed(&mut self, now: Time, change: &Change, is_made: bool) {
        let State::Moving { waiting, under_way, heard_ns, refused } = &mut self.state else {
            return;
        };
        let Some(at) = under_way.iter().position(|other| other == change) else { return };
        *heard_ns = now.0;
        if is_made {
            under_way.remove(at);
        } else {
            *refused += under_way.len();
            under_way.clear();
        }
        if under_way.is_empty() && waiting.is_empty() {
            let refused = *refused;
            self.moved(now, refused);
        }
    }

    fn moved(&mut self, now: Time, refused: usize) {
        self.state = State::Settling { periods: self.options.settle, refused };
        if let Some(episode) = self.episodes.back_mut() {
            episode.outcome = Outcome::Moved { refused };
            episode.moved = Some(now);
        }
    }

    fn settled(&mut self, now: Time, times: f64, is_cured: bool, refused: usize) {
        if let Some(episode) = self.episodes.back_mut() {
            episode.outcome = Outcome::Settled { refused, times };
            let is_of_sites = |plan: &Plan| plan.changes().any(|change| change.table().is_none());
            // A load that is better but still too high is worth another attempt at once. So is a
            // site that was added or removed, because that changes the mean.
            let has_other_sites = refused == 0 && episode.planned.plans.iter().any(is_of_sites);
            if is_cured || has_other_sites || times < episode.times * 0.9 {
                self.patience_ns = self.options.patience_ns;
                self.hopeless = None;
                self.state = State::Watching { seen: 0, spare: 0 };
                return;
            }
        }
        self.wait(now);
    }

    fn end(&mut self, now: Time, outcome: Outcome) {
        if let Some(episode) = self.episodes.back_mut() {
            episode.outcome = outcome;
        }
        self.wait(now);
    }

    /// Suspends planning for this overload, twice as long each time.
    fn wait(&mut self, now: Time) {
        // A failed removal of a site says nothing about overloads.
        if let Some(Episode { hottest: site, times, aim: Aim::Relief { .. }, .. }) =
            self.episodes.back()
        {
            let until_ns = now.0 + self.patience_ns;
            self.hopeless = Some(Hopeless { site: *site, times: *times, until_ns });
            self.patience_ns = (2 * self.patience_ns).min(self.options.patience_max_ns);
        }
        self.state = State::Watching { seen: 0, spare: 0 };
    }
}
