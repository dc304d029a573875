//! The autopilot in SQL: its mode, its decisions, and the changes in flight.
//!
//! ```text
//!   ALTER SYSTEM SET autopilot = auto     SHOW autopilot     isomer.decisions     isomer.jobs
//!           │                                     │                  │                 │
//!           └───────────▶ the strategy ([`Decider`]) ◀───── journal ─┘       router ◀──┘
//! ```
//!
//! A decision is a row of `isomer.decisions`, the newest first: its trigger, the changes and their
//! reasons, the outcome, the predicted and the measured saving. Both savings have one unit:
//! microseconds per transaction that uses the changed partitions (`foretold_us`, `measured_us`).
//! The measured one is `before_us` minus `after_us`. `costs_us` is the one-off cost of the changes.
//! The episodes of an elastic loop have the same form, with their gain in words, because it is not
//! in microseconds. `isomer.benefit` sums up the promises and effects of all decisions.

use crate::chronicle::{Event, part_of};
use crate::engine::Engine;
use crate::indexes::Build;
use crate::pilot::Decider;
use crate::plan_names::with_name;
use crate::remembered::UNDER_WAY;
use crate::shapes::place;
use isomer_cluster::Job;
use isomer_design::{Change, Design, Footprint, Item, Step, TableId};
use isomer_plan::elastic::{Episode, Outcome};
use isomer_plan::learned::journal::{ChangeResult, Entry};
use isomer_plan::learned::{Budget, Mode, Tuning};
use isomer_sql::datum::Datum;
use isomer_sql::{SqlError, code};
use isomer_strategy::Strategy as _;

impl Engine {
    /// Sets the mode of the autopilot, also for later starts of the server.
    ///
    /// # Errors
    /// 22023 for an unknown mode; errors of the database.
    pub fn set_autopilot(&self, mode: &str) -> Result<(), SqlError> {
        let mode: Mode = mode.parse().map_err(|wrong: String| {
            let message = format!("invalid value for parameter \"autopilot\": \"{mode}\"");
            SqlError::new(code::INVALID_PARAMETER, message).hint(wrong)
        })?;
        self.keep_autopilot(mode)?;
        self.autopilot().set_mode(mode);
        Ok(())
    }

    /// Limits the processor time of the autopilot to a percentage of one core, also after restarts.
    ///
    /// # Errors
    /// 22023 if it is no percentage from 0 to 100; 0A000 if the strategy has no budget; errors of
    /// the database.
    pub(crate) fn set_autopilot_processor(&self, percent: &str) -> Result<(), SqlError> {
        let Decider::Learned(learned) = self.autopilot() else {
            let message = "this strategy has no budget of processor time".to_owned();
            let error = SqlError::new(code::FEATURE_NOT_SUPPORTED, message);
            return Err(error.hint("It plans only while a site is overloaded.".to_owned()));
        };
        let given = match percent {
            "default" => Ok(100.0 * Tuning::default().processor_share),
            text => text.trim_end_matches('%').trim().parse(),
        };
        let Some(given) = given.ok().filter(|given| (0.0..=100.0).contains(given)) else {
            let name = "autopilot_processor_percent";
            let message = format!("invalid value for parameter \"{name}\": \"{percent}\"");
            let hint = "It is a percentage of one core, from 0 to 100.".to_owned();
            return Err(SqlError::new(code::INVALID_PARAMETER, message).hint(hint));
        };
        self.keep_autopilot_processor(given)?;
        learned.set_processor_share(given / 100.0);
        Ok(())
    }

    /// One row: the strategy in use, and its cost.
    pub(crate) fn autopilot_rows(&self) -> Vec<Vec<Datum>> {
        let decider = self.autopilot();
        let budget = decider.budget();
        let percent =
            |share: fn(&Budget) -> f64| number(budget.as_ref().map(|it| 100.0 * share(it)));
        let [passes, samples] = match decider {
            Decider::Learned(learned) => {
                [learned.thoughts(), learned.samples() as u64].map(|count| Datum::Int(count as i64))
            }
            Decider::Elastic(_) => [Datum::Null, Datum::Null],
        };
        vec![vec![
            Datum::text(decider.name()),
            Datum::Text(decider.mode().to_string()),
            percent(Budget::share),
            percent(Budget::used),
            number(budget.as_ref().map(|it| it.spent_ns() as f64 / 1e6)),
            passes,
            samples,
        ]]
    }

    /// A change in words, with its table's SQL name.
    fn shown(&self, design: &Design, change: &Change, text: String) -> String {
        match change.table() {
            Some(table) => with_name(self.relation(table), design, table, text),
            None => text,
        }
    }

    fn footprint(&self, design: &Design, footprint: &Footprint) -> String {
        let item = |item: &Item| {
            let mut one = Footprint::new();
            one.add(item.table, item.span.clone(), item.access);
            with_name(self.relation(item.table), design, item.table, one.to_text(design))
        };
        footprint.items().iter().map(item).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn decision_rows(&self) -> Vec<Vec<Datum>> {
        let design = self.database().design();
        match self.autopilot() {
            Decider::Learned(learned) => learned.with_journal(|journal| {
                journal.entries().filter_map(|entry| self.decision(entry, &design)).collect()
            }),
            Decider::Elastic(elastic) => elastic.with_controller(|controller| {
                controller.episodes().map(|episode| self.episode(episode, &design)).collect()
            }),
        }
    }

    /// One row about the learned strategy's decisions that are kept.
    pub(crate) fn benefit_rows(&self) -> Vec<Vec<Datum>> {
        let Decider::Learned(learned) = self.autopilot() else { return Vec::new() };
        let summary = learned.with_journal(|journal| journal.summary());
        let shares = [summary.median_error, summary.as_promised, summary.taken_back];
        let [error, kept, undone] = shares.map(|share| number(share.map(|share| 100.0 * share)));
        let counts = [summary.decisions, summary.measured].map(|count| Datum::Int(count as i64));
        vec![counts.into_iter().chain([error, kept, undone]).collect()]
    }

    pub(crate) fn change_rows(&self) -> Vec<Vec<Datum>> {
        let (design, catalog) = (self.database().design(), self.catalog());
        let row = |event| {
            let Event::Change { number, at_us, text, reason, took_us, table, key } = event else {
                return None;
            };
            let part = part_of(table, key.as_deref());
            let shown_key = part.as_ref().and_then(|(table, key)| {
                let schema = design.table(*table).ok()?.schema();
                Some(if key.is_empty() { String::new() } else { schema.format_key(key) })
            });
            let relation = table.and_then(|table| catalog.relation(TableId(table)));
            let relation = relation.map(|name| Datum::Text(name.label()));
            let text = match table {
                Some(table) => {
                    with_name(self.relation(TableId(table)), &design, TableId(table), text)
                }
                None => text,
            };
            Some(vec![
                Datum::Int(number as i64),
                Datum::Text(text),
                Datum::Text(reason),
                Datum::Float(took_us),
                Datum::Timestamp(at_us),
                relation.unwrap_or(Datum::Null),
                shown_key.map_or(Datum::Null, Datum::Text),
            ])
        };
        self.chronicle.changes().into_iter().filter_map(row).collect()
    }

    pub(crate) fn job_rows(&self) -> Vec<Vec<Datum>> {
        let (design, now) = (self.database().design(), self.database().now());
        let row = |job: Job| {
            let (state, begun) = match job.begun {
                Some(begun) => (UNDER_WAY, begun),
                None => ("waits", now),
            };
            vec![
                Datum::Text(self.shown(&design, &job.change, job.change.to_text(&design))),
                Datum::Text(job.reason),
                Datum::text(state),
                Datum::Float(now.0.saturating_sub(begun.0) as f64 / 1000.0),
            ]
        };
        let build = |build: &std::sync::Arc<Build>| {
            vec![
                Datum::text(&*build.statement),
                Datum::text("a definition"),
                Datum::Text(build.state(self)),
                Datum::Float(now.0.saturating_sub(build.begun.0) as f64 / 1000.0),
            ]
        };
        let builds = self.builds.lock().iter().map(build).collect::<Vec<_>>();
        self.database().jobs().into_iter().map(row).chain(builds).collect()
    }

    /// Changes in a few words, and their reasons.
    fn told(&self, design: &Design, steps: &[&Step]) -> [Datum; 3] {
        let changes = steps.iter().take(CHANGES_TOLD);
        let changes = changes.map(|s| self.shown(design, &s.change, s.change.to_text(design)));
        let mut changes: Vec<String> = changes.collect();
        if steps.len() > CHANGES_TOLD {
            changes.push(format!("and {} more", steps.len() - CHANGES_TOLD));
        }
        let mut reasons: Vec<&str> = Vec::new();
        for step in steps {
            if !reasons.contains(&&*step.reason) && reasons.len() < CHANGES_TOLD {
                reasons.push(&step.reason);
            }
        }
        match steps.is_empty() {
            true => [Datum::Int(0), Datum::Null, Datum::Null],
            false => {
                let count = Datum::Int(steps.len() as i64);
                [count, Datum::Text(changes.join("; ")), Datum::Text(reasons.join("; "))]
            }
        }
    }

    /// The row of an episode.
    fn episode(&self, episode: &Episode, design: &Design) -> Vec<Datum> {
        let [before, after] = episode.planned.imbalance;
        let [across, across_after] = episode.planned.across.map(|share| 100.0 * share);
        let foreseen = format!(
            "{before:.1} to {after:.1} times the mean load, {across:.0} to {across_after:.0} % of what is accessed together across sites"
        );
        let steps = episode.planned.plans.iter().flat_map(|plan| &plan.steps);
        let steps: Vec<&Step> = steps.collect();
        let [changes, change, reason] = self.told(design, &steps);
        vec![
            Datum::Int(episode.number as i64),
            Datum::text(&*episode.overload),
            Datum::Null,
            changes,
            change,
            reason,
            Datum::Text(outcome_of(episode)),
            Datum::Null,
            Datum::Null,
            Datum::Null,
            Datum::Null,
            Datum::Null,
            Datum::Null,
            Datum::text(&*foreseen),
            Datum::Timestamp((episode.begun.0 / 1000) as i64),
        ]
    }

    /// The row of a decision. The first candidate is the chosen one.
    fn decision(&self, entry: &Entry, design: &Design) -> Option<Vec<Datum>> {
        let (chosen, others) = entry.candidates.split_first()?;
        let considered: Vec<String> = others
            .iter()
            .map(|other| format!("{}: net {:.0} us", place(other.place), other.net_us()))
            .collect();
        let steps: Vec<&Step> = chosen.steps().collect();
        let [changes, change, reason] = self.told(design, &steps);
        Some(vec![
            Datum::Int(entry.number as i64),
            Datum::Text(self.footprint(design, &entry.trigger)),
            Datum::Text(place(entry.place)),
            changes,
            change,
            reason,
            Datum::Text(outcome(&entry.fates, entry.in_force)),
            number(entry.effect.foretold_us(chosen.saves_us)),
            number(entry.effect.measured_us()),
            number(entry.effect.before_us),
            number(entry.effect.after_us),
            Datum::Float(chosen.cost_us),
            entry.taken_back_by.map_or(Datum::Null, |number| Datum::Int(number as i64)),
            Datum::Text(considered.join("; ")),
            Datum::Timestamp((entry.at_ns / 1000) as i64),
        ])
    }
}

/// The number of changes that a decision lists; `isomer.changes` has all changes that were made.
const CHANGES_TOLD: usize = 4;

/// A share as a percentage, in the form of settings.
pub(crate) fn shown_percent(share: f64) -> String {
    format!("{}", (share * 1e6).round() / 1e4)
}

fn number(number: Option<f64>) -> Datum {
    number.map_or(Datum::Null, Datum::Float)
}

/// The outcome of the changes of an episode.
fn outcome_of(episode: &Episode) -> String {
    let refused = |count: &usize| match count {
        0 => String::new(),
        count => format!("; {count} changes were refused"),
    };
    match &episode.outcome {
        Outcome::Recording | Outcome::Moving => UNDER_WAY.to_owned(),
        Outcome::TooLittle => "too little ran to plan from".to_owned(),
        Outcome::NothingToMove => "no move helps".to_owned(),
        Outcome::Recommended => "recommended".to_owned(),
        Outcome::Moved { refused: count } => format!("made{}", refused(count)),
        Outcome::Settled { refused: count, times } => {
            format!("made: now {times:.1} times the mean load{}", refused(count))
        }
    }
}

/// The outcome of the changes of a decision.
fn outcome(fates: &[ChangeResult], in_force: bool) -> String {
    let made = fates.iter().filter_map(|fate| match fate {
        ChangeResult::Made(ns) => Some(*ns as f64 / 1000.0),
        _ => None,
    });
    let failed = fates.iter().find_map(|fate| match fate {
        ChangeResult::Failed(why) => Some(why),
        _ => None,
    });
    let count = made.clone().count();
    let longest = made.fold(0.0, f64::max);
    match (count, failed) {
        (0, Some(why)) => format!("not made: {why}"),
        (0, None) if in_force => UNDER_WAY.to_owned(),
        (0, None) => "recommended".to_owned(),
        (count, _) if count == fates.len() => format!("made in {longest:.0} us"),
        (count, Some(why)) => format!("made {count} of {}; not made: {why}", fates.len()),
        (count, None) if in_force => format!("made {count} of {}; {UNDER_WAY}", fates.len()),
        // By later decisions that asked for the same.
        (count, None) => format!("recommended; {count} of {} were made", fates.len()),
    }
}
