//! Plans: the proposals of a strategy, in order, with reasons.
//!
//! A plan has two readers. The router carries out its changes one after the other, so each must be
//! valid in the design that the earlier ones lead to. An operator wants reasons: every step has one
//! in words, and the cost and benefit that the strategy predicted, in the strategy's own unit.
//!
//! ```text
//!   plan: keys 3 and 7 share a lock
//!     1. split accounts at 5             cost 0.2  benefit 3.1   3 and 7 are written apart
//!     2. add_replica accounts[5] s2      cost 4.0                7 will be mastered at s2
//! ```

use crate::{Change, Design, Invalid};
use std::fmt;
use thiserror::Error;

/// The most bytes of a change that an error quotes.
const QUOTED_BYTES_MAX: usize = 80;

/// One change of a plan, with its reason.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// The change.
    pub change: Change,
    /// Why the strategy wants it.
    pub reason: String,
    /// Its predicted cost.
    pub predicted_cost: Option<f64>,
    /// Its predicted benefit.
    pub predicted_benefit: Option<f64>,
}

/// An ordered list of changes, with the reason for all of them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plan {
    /// Why the plan was made.
    pub reason: String,
    /// The changes, in order.
    pub steps: Vec<Step>,
}

/// The first step of a plan that is not possible.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("step {step}, {change}: {invalid}")]
pub struct InvalidStep {
    /// The number of the step, counted from 1.
    pub step: usize,
    /// The change, as text.
    pub change: String,
    /// Why it is not possible after the steps before it.
    #[source]
    pub invalid: Box<Invalid>,
}

impl Step {
    /// A step without predictions.
    pub fn new(change: Change, reason: impl Into<String>) -> Step {
        Step { change, reason: reason.into(), predicted_cost: None, predicted_benefit: None }
    }

    /// Sets the predicted cost and benefit.
    #[must_use]
    pub fn predicted(self, cost: f64, benefit: f64) -> Step {
        Step { predicted_cost: Some(cost), predicted_benefit: Some(benefit), ..self }
    }
}

impl Plan {
    /// A plan without steps.
    pub fn new(reason: impl Into<String>) -> Plan {
        Plan { reason: reason.into(), steps: Vec::new() }
    }

    /// A plan of one change.
    pub fn of(change: Change, reason: impl Into<String>) -> Plan {
        let reason = reason.into();
        Plan { reason: reason.clone(), steps: vec![Step::new(change, reason)] }
    }

    /// Adds a step.
    pub fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// True if there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The changes in order.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.steps.iter().map(|step| &step.change)
    }

    /// Checks the plan step by step, and returns the design that it leads to.
    pub fn validate(&self, design: &Design) -> Result<Design, InvalidStep> {
        let mut design = design.clone();
        for (index, step) in self.steps.iter().enumerate() {
            design.apply(&step.change).map_err(|invalid| InvalidStep {
                step: index + 1,
                change: step.change.to_text(&design),
                invalid: Box::new(invalid),
            })?;
        }
        Ok(design)
    }

    /// Reads a plan: one change on each line, as [`Change::to_text`] writes it, for the design that
    /// the earlier ones lead to. Empty lines and lines that begin with `#` are ignored. Text after
    /// `   # ` is the reason of that change and the following ones.
    ///
    /// # Errors
    /// A message with the line.
    pub fn parse(text: &str, design: &Design, reason: &str) -> Result<Plan, String> {
        let (mut design, mut plan) = (design.clone(), Plan::new(reason));
        let mut reason = reason;
        for (number, line) in (1..).zip(text.lines().map(str::trim)) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (change, told) = line.split_once("   # ").unwrap_or((line, reason));
            reason = told;
            let wrong = |what: String| {
                let end = change.floor_char_boundary(QUOTED_BYTES_MAX);
                let cut = if end < change.len() { "…" } else { "" };
                format!("line {number}: `{}{cut}`: {what}", &change[..end])
            };
            let parsed =
                Change::parse(change, &design).map_err(|error| wrong(error.to_string()))?;
            design.apply(&parsed).map_err(|invalid| wrong(invalid.to_string()))?;
            plan.push(Step::new(parsed, reason));
        }
        Ok(plan)
    }

    /// The plan as text, with table names and keys as the design's schemas write them.
    pub fn to_text(&self, design: &Design) -> String {
        self.lines(|change| change.to_text(design))
    }

    fn lines(&self, write_change: impl Fn(&Change) -> String) -> String {
        let changes: Vec<String> = self.changes().map(write_change).collect();
        let width = changes.iter().map(|change| change.chars().count()).max().unwrap_or(0);
        let mut text = format!("plan: {}\n", self.reason);
        if self.is_empty() {
            text.push_str("  nothing to do\n");
        }
        let predicts = self.steps.iter().any(|step| step.predicts());
        for (index, (step, change)) in self.steps.iter().zip(&changes).enumerate() {
            let predictions = if predicts { step.predictions() } else { String::new() };
            let line = format!("  {}. {change:width$}{predictions}   {}", index + 1, step.reason);
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

impl Step {
    fn predicts(&self) -> bool {
        self.predicted_cost.is_some() || self.predicted_benefit.is_some()
    }

    fn predictions(&self) -> String {
        let column = |name: &str, predicted: Option<f64>| match predicted {
            Some(number) => format!("   {name} {number:<6.3}"),
            None => format!("   {:1$}", "", name.len() + 7),
        };
        column("cost", self.predicted_cost) + &column("benefit", self.predicted_benefit)
    }
}

/// With table numbers for names; [`Plan::to_text`] is for people.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines(Change::to_string))
    }
}
