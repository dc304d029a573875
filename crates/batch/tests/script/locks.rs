//! Scripts about one lock manager.

use crate::{Outcome, parse};
use goldenscript::{Command, Context, Runner};
use isomer_batch::{Lock, Locks, StepId};
use isomer_design::{Access, Key, KeyRange, Span, TableId};

#[test]
fn lock_scripts() {
    crate::run("locks", Locking::default);
}

#[derive(Default)]
struct Locking(Locks);

fn span(word: &str) -> Outcome<Span> {
    Ok(match word.split_once("..") {
        Some((from, "")) => Span::Range(KeyRange::new(Key::int(parse("key", Some(from))?), None)),
        Some((from, to)) => {
            Span::Range(KeyRange::ints(parse("key", Some(from))?, parse("key", Some(to))?))
        }
        None => Span::Key(Key::int(parse("key", Some(word))?)),
    })
}

/// Reads `write 5 read 10..20`.
pub(crate) fn wanted<'w>(mut words: impl Iterator<Item = &'w str>) -> Outcome<Vec<(Access, Span)>> {
    let mut wanted = Vec::new();
    while let Some(word) = words.next() {
        let access = match word {
            "read" => Access::Read,
            "write" => Access::Write,
            _ => return Err(format!("{word}: read or write?").into()),
        };
        wanted.push((access, span(words.next().ok_or("what?")?)?));
    }
    Ok(wanted)
}

fn steps(steps: &[StepId]) -> String {
    let names: Vec<String> = steps.iter().map(|step| step.step.to_string()).collect();
    if names.is_empty() { "nobody".to_owned() } else { names.join(" ") }
}

impl Runner for Locking {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Outcome<String> {
        let mut args = command.consume_args();
        match command.name.as_str() {
            "ask" => {
                let step = StepId { batch: 0, step: parse("step", args.next_pos())? };
                let wanted = wanted(std::iter::from_fn(|| args.next_pos()))?;
                let lock = |(access, span)| Lock { table: TableId(1), span, access };
                self.0.acquire(step, wanted.into_iter().map(lock).collect());
                let waits = self.0.waits().find(|(other, _)| *other == step).unwrap().1;
                Ok(match waits {
                    0 => format!("{} has its locks\n", step.step),
                    waits => format!("{} waits for {waits}\n", step.step),
                })
            }
            "release" => {
                let step = StepId { batch: 0, step: parse("step", args.next_pos())? };
                Ok(format!("next: {}\n", steps(&self.0.release(step))))
            }
            "places" => Ok(format!("{} records and segments\n", self.0.places())),
            other => Err(format!("no command {other}").into()),
        }
    }
}
