//! Hand-written histories as scripts. The checker must find each anomaly at exactly the levels that
//! forbid it, and no other anomaly.

use goldenscript::{Command, Context, Runner};
use isomer_check::{Anomaly, History, Level, judge};
use std::error::Error;
use std::fmt::Write;
use std::path::Path;

/// The lines of a history until it is judged.
#[derive(Default)]
struct Judge(String);

impl Runner for Judge {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Result<String, Box<dyn Error>> {
        if command.name != "judge" {
            writeln!(self.0, "{}", command.name)?;
            return Ok(String::new());
        }
        let history: History = std::mem::take(&mut self.0).parse()?;
        assert_eq!(history.to_text().parse::<History>()?, history, "text and history must agree");
        let (mut said, mut before) = (String::new(), String::new());
        for level in [Level::ReadCommitted, Level::Snapshot, Level::Serializable] {
            let wrong = judge(&history.clone().at(level)).into_iter();
            let wrong: Vec<String> = wrong.map(|anomaly| without_levels(&anomaly)).collect();
            let verdict = if wrong.is_empty() { "fine".to_owned() } else { wrong.join("\n") };
            let is_same = verdict == before && verdict != "fine";
            writeln!(said, "{level}: {}", if is_same { "the same" } else { &verdict })?;
            before = verdict;
        }
        Ok(said)
    }
}

/// Removes the level, which is the same for all lines.
fn without_levels(anomaly: &Anomaly) -> String {
    anomaly.to_string().replace(" read-committed:", ":").replace(" serializable:", ":")
}

#[test]
fn scripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    for entry in std::fs::read_dir(folder).expect("the folder of scripts") {
        let path = entry.expect("a file").path();
        goldenscript::run(&mut Judge::default(), &path).expect("the script holds");
    }
}

#[test]
fn an_invalid_line_is_refused_with_its_number_and_text() {
    for (line, wrong) in [
        ("read x []", "has no `:`"),
        ("a: look x []", "`look x []` is neither"),
        ("a: read x 1", "`read x 1` is neither"),
        ("a 3..x: read x []", "`3..x` is no span"),
        (": read x []", "names no transaction"),
    ] {
        let refused = line.parse::<History>().expect_err("a fault");
        assert!(refused.starts_with("line 1: ") && refused.contains(wrong), "{refused}");
    }
}
