//! The autopilot's memory across restarts of the database: learned costs, and the last decisions as
//! text.
//!
//! It is one line of JSON with a version. Costs continue where they were. Decisions are text from
//! then on, and explain how a key came to be where it is. The workload is not saved: it may have
//! changed by the time the database runs again, and a new sample takes seconds.

use super::cost::Costs;
use super::journal::{Entry, Journal, Summary};
use super::tuning::Tuning;
use isomer_design::{Design, Key};
use serde::{Deserialize, Serialize};

/// The version that this code writes and reads.
const VERSION: u32 = 2;

/// See the [module documentation](self).
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    version: u32,
    /// The learned costs.
    pub costs: Costs,
    /// The last decisions, oldest first.
    pub decisions: Vec<DecisionText>,
    /// Their promises and effects up to the last shutdown.
    pub summary: Summary,
}

/// The fields that all versions have.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// A decision as text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecisionText {
    /// Its number.
    pub number: u64,
    /// The changed ranges: the table's name, and the range of its keys.
    pub about: Vec<(String, String)>,
    /// The decision in words.
    pub text: String,
}

impl Memory {
    /// The memory to save: the last of the decisions `before` and in the journal.
    pub fn of(costs: Costs, before: &[DecisionText], journal: &Journal, design: &Design) -> Memory {
        let mut new: Vec<DecisionText> = journal
            .entries()
            .take(Tuning::JOURNAL_MAX)
            .map(|entry| DecisionText::of(entry, design))
            .collect();
        new.reverse();
        let kept = Tuning::JOURNAL_MAX - new.len();
        let before = before[before.len().saturating_sub(kept)..].iter().cloned();
        let (decisions, summary) = (before.chain(new).collect(), journal.summary());
        Memory { version: VERSION, costs, decisions, summary }
    }

    /// The text form, one line.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("numbers and texts can be written")
    }

    /// Reads the text form.
    ///
    /// # Errors
    /// A message, if the text is invalid or of another version.
    pub fn parse(text: &str) -> Result<Memory, String> {
        let wrong = |error| format!("what the autopilot remembered cannot be read: {error}");
        // Another version may have other fields.
        let Version { version } = serde_json::from_str(text).map_err(wrong)?;
        if version != VERSION {
            return Err(format!(
                "what the autopilot remembered has version {version}, and this is version {VERSION}"
            ));
        }
        let memory: Memory = serde_json::from_str(text).map_err(wrong)?;
        let costs = Costs::resumed(memory.costs);
        Ok(Memory { costs, ..memory })
    }

    /// The decisions that changed the partition of a key, the newest first.
    pub fn about<'m>(
        &'m self,
        design: &'m Design,
        table: &'m str,
        key: &'m Key,
    ) -> impl Iterator<Item = &'m DecisionText> {
        let holds = move |(name, range): &(String, String)| {
            let schema = design.find_table(name).map(|(_, found)| found.schema());
            let range = schema.and_then(|schema| schema.parse_range(range).ok());
            name == table && range.is_some_and(|range| range.contains(key))
        };
        self.decisions.iter().rev().filter(move |told| told.about.iter().any(holds))
    }
}

impl DecisionText {
    fn of(entry: &Entry, design: &Design) -> DecisionText {
        let about = entry.ranges.iter().filter_map(|range| {
            let table = design.table(range.table).ok()?;
            Some((table.name().to_owned(), table.schema().format_range(&range.keys)))
        });
        DecisionText { number: entry.number, about: about.collect(), text: entry.to_text(design) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::Parts;
    use crate::learned::Work;

    #[test]
    fn costs_go_on_where_they_were() {
        let mut costs = Costs::default();
        let work = Work { load: 0.5, rows: [3.0, 3.0], ..Work::default() };
        let took = Parts { service: 120.0, read_write: 40.0, ..Parts::default() };
        (0..100).for_each(|_| costs.learn_transaction(&work, &took));
        let design = Design::new([isomer_design::SiteId(1)]).unwrap();
        let memory = Memory::of(costs.clone(), &[], &Journal::default(), &design);
        let again = Memory::parse(&memory.to_text()).unwrap();
        let predicted = |costs: &Costs| costs.transaction(&work).total();
        assert!((predicted(&again.costs) - predicted(&costs)).abs() < 1e-6);
        let told = |costs: &Costs| costs.functions().map(|(name, f)| (name, f.observed()));
        assert_eq!(told(&again.costs), told(&costs));
    }

    #[test]
    fn invalid_memory_and_other_versions_are_refused_in_words() {
        let memory = Memory { version: VERSION, ..Memory::default() };
        let text = memory.to_text();
        assert!(Memory::parse(&text).is_ok());
        let other = text.replacen("\"version\":2", "\"version\":7", 1);
        assert!(Memory::parse(&other).unwrap_err().contains("has version 7"));
        assert!(Memory::parse("{}").unwrap_err().contains("cannot be read"));
    }

    #[test]
    fn a_function_that_was_something_else_begins_anew() {
        let text = Memory { version: VERSION, ..Memory::default() }.to_text();
        // One weight too few for a function with one input.
        let fewer = text.replacen("\"weights\":[50.0,200.0]", "\"weights\":[50.0]", 1);
        assert_ne!(fewer, text);
        assert_eq!(Memory::parse(&fewer).unwrap().costs, Costs::default());
    }
}
