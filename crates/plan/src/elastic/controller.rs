//! The loop as a state machine: it is told of periods, footprints and changes, and says what is to be done.

use super::away::Away;
use super::fleet::{self, Spare};
use super::planner::Aim;
use super::{Options, Overload, Period, Planned, Planner, planner};
use crate::problem::plural;
use isomer_design::{Change, Design, Footprint, Plan, SiteId, Time};
use std::collections::VecDeque;

/// So many episodes are remembered.
const EPISODES_MAX: usize = 200;

/// One turn of the loop: an overload, or a site that is not needed, and what was done about it.
#[derive(Clone, PartialEq, Debug)]
pub struct Episode {
    /// Counts from 1.
    pub number: u64,
    /// When the overload had lasted long enough.
    pub begun: Time,
    /// What it was, in words.
    pub overload: String,
    /// What plans were made for.
    pub aim: Aim,
    /// The site with the most load.
    pub hottest: SiteId,
    /// How many times the mean that was.
    pub times: f64,
    /// How many footprints the plans were made from, and in how many seconds they were recorded.
    pub recorded: (usize, f64),
    /// What was planned.
    pub planned: Planned,
    /// What has become of it.
    pub outcome: Outcome,
    /// When the last change was made.
    pub moved: Option<Time>,
}

/// What became of an episode.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// Footprints are being recorded.
    Recording,
    /// Plans are being made, or carried out.
    Moving,
    /// There was too little to plan from.
    TooLittle,
    /// No move would help.
    NothingToMove,
    /// Plans were made, but not carried out.
    Recommended,
    /// The changes were made; so many were not.
    Moved {
        /// Changes that the router refused.
        refused: usize,
    },
    /// After the changes, this is how many times the mean load the most loaded site has.
    Settled {
        /// Changes that the router refused.
        refused: usize,
        /// Times the mean load.
        times: f64,
    },
}

#[derive(Debug)]
enum State {
    /// Nothing is wrong, or not for long enough.
    Watching {
        seen: u32,
        /// For so many periods there has been a site that is not needed.
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
    /// How many there were.
    count: u64,
}

/// An overload that no move has cured.
#[derive(Clone, Copy, Debug)]
struct Hopeless {
    site: SiteId,
    times: f64,
    /// It is looked at again then.
    until_ns: u64,
}

impl Hopeless {
    /// True if it is the same overload, and not much worse.
    fn is_same(&self, (site, times): (SiteId, f64)) -> bool {
        site == self.site && times < 1.3 * self.times
    }
}

/// What was recorded, to plan from.
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

/// What is to be done, if it is done: what is away from home then.
#[derive(Debug)]
pub struct Proposed {
    planned: Planned,
    away: Away,
}

impl Controller {
    /// A loop that has seen nothing yet.
    pub fn new(planner: Planner, options: Options) -> Controller {
        let patience_ns = options.patience_ns;
        let state = State::Watching { seen: 0, spare: 0 };
        let (away, episodes) = (Away::default(), VecDeque::new());
        let hopeless = None;
        Controller { planner, options, state, away, patience_ns, hopeless, episodes, count: 0 }
    }

    /// Who plans.
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

    /// What is away from home.
    pub fn away(&self) -> &Away {
        &self.away
    }

    /// Goes on with what was away from home when it was asked last.
    pub fn recall(&mut self, away: Away) {
        self.away = away;
    }

    /// A period is over.
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

    /// Begins to empty a site that has not been needed for long enough.
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

    /// A transaction that runs.
    pub fn record(&mut self, footprint: &Footprint) {
        if let State::Recording { recorded, .. } = &mut self.state
            && recorded.len() < self.options.footprints
        {
            recorded.push(footprint.clone());
        }
    }

    /// What was recorded, one transaction in so many, if it is enough, or the time for it is over. The plans made from
    /// it are to be [adopted](Controller::adopt).
    pub fn take_recorded(&mut self, now: Time, one_in: u64) -> Option<Recorded> {
        let State::Recording { since_ns, recorded } = &mut self.state else { return None };
        let past_ns = now.0.saturating_sub(*since_ns);
        let is_over = past_ns >= self.options.window_ns;
        let is_quiet = |episode: &Episode| matches!(episode.aim, Aim::Removal(_));
        let footprints_min = match self.episodes.back().is_some_and(is_quiet) {
            // Where little runs, little has to be known.
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
        // As if all had been recorded, in a shorter time.
        let seconds = seconds / one_in.max(1) as f64;
        Some(Recorded { aim, footprints, seconds, away: self.away.clone() })
    }

    /// Plans were made. They are carried out, or only remembered.
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

    /// True if there is a plan to be carried out now.
    pub fn has_plan(&self) -> bool {
        matches!(&self.state, State::Moving { waiting, under_way, .. } if under_way.is_empty() && !waiting.is_empty())
    }

    /// The plan that is to be carried out now. What becomes of its changes is to be [told](Controller::changed).
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

    /// What became of a change, of a plan of this loop or of somebody else's. After one that was refused, the rest of
    /// its plan is not made.
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
            // What is better, but not well, is worth another try at once. So is a site more or less, which has changed the
            // mean.
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

    /// Nothing is planned for such an overload for a while, and the next time for twice as long.
    fn wait(&mut self, now: Time) {
        // That a site could not be removed says nothing of overloads.
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
