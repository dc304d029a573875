//! `isomer design apply`.

use super::{ApplyArgs, open};
use crate::failure::Failure;
use crate::{out, text};
use isomer_cluster::Database;
use isomer_design::{Change, Design, KeyRange};
use serde_json::json;
use std::fs;
use std::path::Path;

const REASON: &str = "asked for on the command line";

pub(super) fn run(args: &ApplyArgs) -> Result<(), Failure> {
    let wanted = match &args.plan {
        Some(file) => read_plan(file)?,
        None => args.changes.iter().map(|text| Wanted::of(text.clone(), REASON)).collect(),
    };
    let db = open(&args.folder)?;
    db.set_site_memory(args.site_memory.flatten());
    let trials = try_all(&wanted, db.design())?;
    for trial in &trials {
        if args.dry_run {
            trial.show(args.json);
        } else {
            carry_out(&db, trial, args.json)?;
        }
    }
    Ok(())
}

/// A requested change, before it is parsed.
struct Wanted {
    text: String,
    reason: String,
    /// Its line number in the plan's file.
    line: Option<usize>,
}

impl Wanted {
    fn of(text: String, reason: &str) -> Wanted {
        Wanted { text, reason: reason.to_owned(), line: None }
    }
}

/// Reads the changes of a plan's file. A reason applies to the changes after it until the next
/// reason.
fn read_plan(file: &Path) -> Result<Vec<Wanted>, Failure> {
    let text = fs::read_to_string(file)
        .map_err(|error| Failure::failed(format!("{}: {error}", file.display())))?;
    let mut wanted = Vec::new();
    let mut reason = REASON;
    for (line, text) in (1..).zip(text.lines().map(str::trim)) {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        reason = text.rsplit_once("   # ").map_or(reason, |(_, told)| told);
        wanted.push(Wanted { line: Some(line), ..Wanted::of(text.to_owned(), reason) });
    }
    Ok(wanted)
}

/// A possible change, and its effect on the design.
struct Trial {
    change: Change,
    reason: String,
    text: String,
    /// Partitions or sites that exist before the change and not after it; and the other way round.
    before: Vec<String>,
    after: Vec<String>,
}

/// Tries the changes in order, each on the design that the earlier ones lead to.
fn try_all(wanted: &[Wanted], mut design: Design) -> Result<Vec<Trial>, Failure> {
    let mut trials = Vec::new();
    for Wanted { text, reason, line } in wanted {
        let place = line.map(|line| format!("line {line}: ")).unwrap_or_default();
        let wrong =
            |what: String| Failure::failed(format!("{place}`{text}`: {what}; nothing was changed"));
        let change = Change::parse(text, &design).map_err(|error| wrong(error.to_string()))?;
        let old = design.clone();
        design.apply(&change).map_err(|invalid| wrong(invalid.to_string()))?;
        let (before, after) = (lines(&old, &change), lines(&design, &change));
        trials.push(Trial {
            text: change.to_text(&design),
            change,
            reason: reason.clone(),
            before: before.iter().filter(|line| !after.contains(line)).cloned().collect(),
            after: after.iter().filter(|line| !before.contains(line)).cloned().collect(),
        });
    }
    Ok(trials)
}

/// The partitions, or sites, of a design that a change can affect, as text.
fn lines(design: &Design, change: &Change) -> Vec<String> {
    let key = match change {
        Change::Split { at, .. } | Change::Merge { at, .. } => at,
        Change::AddReplica { start, .. }
        | Change::RemoveReplica { start, .. }
        | Change::Remaster { start, .. } => start,
        Change::AddSite { .. } | Change::RemoveSite { .. } => {
            return vec![format!("sites {}", design.sites())];
        }
    };
    let table = change.table().and_then(|id| design.table(id).ok());
    let Some(table) = table else { return Vec::new() };
    // The partition of the key, and the one before it.
    let first = table.partitions().before(key).map(|(start, _)| start.clone());
    let range = KeyRange::new(first.unwrap_or_default(), Some(key.successor()));
    let line = |(range, placement): (KeyRange, isomer_design::Placement)| {
        format!("{}{} {placement}", table.name(), table.schema().format_range(&range))
    };
    table.partitions_in(&range).map(line).collect()
}

impl Trial {
    fn show(&self, is_json: bool) {
        if is_json {
            let (change, before, after) = (&self.text, &self.before, &self.after);
            out::line(json!({ "change": change, "before": before, "after": after }));
            return;
        }
        out::line(&self.text);
        self.before.iter().for_each(|line| out::line(format_args!("  - {line}")));
        self.after.iter().for_each(|line| out::line(format_args!("  + {line}")));
    }
}

fn carry_out(db: &Database, trial: &Trial, is_json: bool) -> Result<(), Failure> {
    let event = db.change(trial.change.clone(), &trial.reason)?;
    if is_json {
        out::line(json!({ "change": event.text, "took_ns": event.took_ns }));
    } else {
        out::line(format_args!("done  {}  ({})", event.text, text::duration(event.took_ns as f64)));
    }
    Ok(())
}
