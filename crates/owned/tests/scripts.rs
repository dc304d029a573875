//! Golden scripts about the ownership of a log, over a modelled partition (`model/mod.rs`). Nothing
//! arrives before the script says so.
//!
//! ```text
//! a: open                 a starts (again in its folder): reads safe records, sends a claim
//! a: write v1             a sends a value; a long one takes several records
//! a: renew                a sends an empty record, for its lease
//! a: stop                 a ends, and releases the log, if it may
//! a: crash                a is killed; its records in flight may still land
//! a: show                 the values that a returns to a client, if its lease permits
//! land a [twice]          a's oldest record arrives at the leader; or a copy of it does
//! replicate               the replicas have all records of the leader, which are safe then
//! leader                  another broker leads, without the records that were not safe
//! answer a [unsaid]       a's oldest safe record is acknowledged; without its offset if unsaid
//! settle                  land, replicate and answer, until nothing is in flight
//! pass 100                100 milliseconds pass
//! read                    the verdict on each safe record, and the values in the log
//! ```

mod model;

use goldenscript::{Command, Context, Runner};
use model::World;
use std::error::Error;
use std::path::Path;
use std::time::Duration;

struct Script(World);

impl Script {
    fn told(&mut self, name: &str, said: bool) -> Result<bool, Box<dyn Error>> {
        let Some(at) = self.0.answerable_of(name) else { return Ok(false) };
        self.0.answer(at, said)?;
        Ok(true)
    }

    fn settle(&mut self) -> Result<(), Box<dyn Error>> {
        loop {
            while let Some(at) = self.0.oldest() {
                self.0.land(at);
            }
            self.0.replicate();
            let names: Vec<String> = self.0.writers.keys().cloned().collect();
            let mut is_quiet = true;
            for name in names {
                is_quiet &= !self.told(&name, true)?;
            }
            if is_quiet && self.0.oldest().is_none() {
                return Ok(());
            }
        }
    }

    fn read(&mut self) -> Result<(), Box<dyn Error>> {
        let lines = self.0.verdicts();
        self.0.said.extend(lines);
        let values = self.0.read()?;
        self.0.said.push(format!("values: {}", values.join(" ")));
        Ok(())
    }

    fn of_a_process(&mut self, name: &str, command: &Command) -> Result<(), Box<dyn Error>> {
        let mut args = command.consume_args();
        match command.name.as_str() {
            "open" => self.0.open(name, 100)?,
            "write" => {
                let value = args.next_pos().ok_or("what?")?;
                self.0.write(name, value);
            }
            "renew" => self.0.renew(name),
            "stop" => self.0.stop(name),
            "crash" => self.0.crash(name),
            "show" => {
                let shown = self.0.show(name).map_or_else(
                    || "nothing: it does not know who owns the log".to_owned(),
                    |values| values.join(" "),
                );
                self.0.said.push(format!("shows {shown}"));
            }
            other => return Err(format!("a process cannot {other}").into()),
        }
        args.reject_next()
    }

    fn of_the_partition(&mut self, command: &Command) -> Result<(), Box<dyn Error>> {
        let mut args = command.consume_args();
        let first = args.next_pos().map(str::to_owned);
        let how = args.next_pos().map(str::to_owned);
        args.reject_next()?;
        let name = || first.clone().ok_or("whose?");
        match (command.name.as_str(), how.as_deref()) {
            ("land", how) => {
                let at = self.0.oldest_of(&name()?).ok_or("it has nothing on its way")?;
                if how == Some("twice") { self.0.land_twice(at) } else { self.0.land(at) }
            }
            ("answer", how) => {
                if !self.told(&name()?, how != Some("unsaid"))? {
                    return Err("there is nothing safe to be told of".into());
                }
            }
            ("replicate", None) => self.0.replicate(),
            ("leader", None) => self.0.change_leader(),
            ("settle", None) => self.settle()?,
            ("pass", None) => {
                self.0.now += Duration::from_millis(name()?.parse()?);
                let names: Vec<String> = self.0.writers.keys().cloned().collect();
                names.iter().for_each(|name| self.0.acknowledge(name));
            }
            ("read", None) => self.read()?,
            (other, _) => return Err(format!("unknown command {other}").into()),
        }
        Ok(())
    }
}

impl Runner for Script {
    type Command = Command;

    fn run(&mut self, command: &Command, context: &Context) -> Result<String, Box<dyn Error>> {
        let prefix = match &context.prefix {
            Some(name) => {
                self.of_a_process(name, command)?;
                format!("{name}: ")
            }
            None => {
                self.of_the_partition(command)?;
                String::new()
            }
        };
        let said = std::mem::take(&mut self.0.said);
        // The prefix already names the process.
        Ok(said
            .iter()
            .map(|line| format!("{}\n", line.strip_prefix(&prefix).unwrap_or(line)))
            .collect())
    }
}

#[test]
fn scripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let mut scripts: Vec<_> = std::fs::read_dir(folder)
        .expect("the scripts are there")
        .map(|entry| entry.expect("it can be listed").path())
        .collect();
    scripts.sort();
    for script in scripts {
        goldenscript::run(&mut Script(World::new(None)), &script)
            .unwrap_or_else(|error| panic!("{}: {error}", script.display()));
    }
}
