//! Scripts about restraints and the pulse of the load: `scripts/restraints`.
//!
//! | command | meaning |
//! | --- | --- |
//! | `sites N`, `table NAME`, `change ..` | a design, as for other planners |
//! | `budget per_minute=N bytes=N added_us=N` | what operators permit |
//! | `load seconds=N rate=N us=N` | transactions of this duration |
//! | `wait seconds=N` | no transaction |
//! | `plan CHANGE..` | what a strategy wants now, and what becomes of it |
//! | `ended CHANGE bytes=N ms=N` | a change has taken this time, and copied these bytes |
//! | `pulse` | the rise of the 99th percentile by changes |

use super::{parse, set_up};
use goldenscript::{Command, Context, Runner};
use isomer_design::{Change, Design, Plan, SiteId, Step, Time};
use isomer_plan::learned::Mode;
use isomer_plan::pulse::Pulse;
use isomer_plan::restraints::Restraints;
use std::error::Error;
use std::fmt::Write as _;
use std::str::FromStr;

const NS: u64 = 1_000_000_000;

struct State {
    design: Design,
    restraints: Restraints,
    pulse: Pulse,
    now: Time,
}

#[test]
fn restraint_scripts() {
    super::run("restraints", || State {
        design: Design::new([SiteId(1)]).expect("a site"),
        restraints: Restraints::default(),
        pulse: Pulse::default(),
        // 2026-03-01 at 12:00 UTC.
        now: Time((1_772_323_200 + 12 * 3600) * NS),
    });
}

/// A number of a key, if it is given.
fn number<T: FromStr>(
    name: &'static str,
    given: Option<&str>,
) -> Result<Option<T>, Box<dyn Error>> {
    given.map(|text| parse(name, text)).transpose()
}

impl Runner for State {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Result<String, Box<dyn Error>> {
        if let Some(done) = set_up(&mut self.design, command) {
            return done;
        }
        let mut args = command.consume_args();
        let mut text = String::new();
        match command.name.as_str() {
            "budget" => {
                let bytes = number("bytes", args.take_key("bytes"))?;
                self.restraints.set_bytes_per_second(bytes);
                self.restraints.per_minute = number("per_minute", args.take_key("per_minute"))?;
                self.restraints.added_p99_us = number("added_us", args.take_key("added_us"))?;
            }
            "load" => {
                let mut key = |name| number::<u64>(name, args.take_key(name));
                let [seconds, rate, us] = [key("seconds")?, key("rate")?, key("us")?];
                let (rate, us) = (rate.ok_or("how many?")?, us.ok_or("how long?")?);
                for _ in 0..seconds.unwrap_or(1) {
                    for _ in 0..rate {
                        self.pulse.ran(self.now, true);
                        self.pulse.took(self.now, us * 1000);
                    }
                    self.now = Time(self.now.0 + NS);
                }
            }
            "wait" => {
                let seconds: Option<u64> = number("seconds", args.take_key("seconds"))?;
                self.now = Time(self.now.0 + seconds.ok_or("how long?")? * NS);
            }
            "plan" => {
                let mut plan = Plan::new("the load asks for it");
                let mut after = self.design.clone();
                while let Some(change) = args.next_pos() {
                    let change = Change::parse(change, &after)?;
                    after.apply(&change)?;
                    plan.push(Step::new(change, "hot"));
                }
                let added = self.pulse.added_p99_us(self.now);
                let sifted = self.restraints.sift(self.now, Mode::Auto, added, plan);
                for change in sifted.carried.changes() {
                    let _ = writeln!(text, "begins: {}", change.to_text(&self.design));
                    self.design.apply(change)?;
                }
                for (change, why) in &sifted.withheld {
                    let change = change.to_text(&self.design);
                    let _ = writeln!(text, "waits: {change} ({}: {})", why.name(), why.why());
                }
            }
            "ended" => {
                let change = Change::parse(args.next_pos().ok_or("which?")?, &self.design)?;
                let bytes = number("bytes", args.take_key("bytes"))?.unwrap_or(0);
                let ms: u64 = number("ms", args.take_key("ms"))?.unwrap_or(1);
                let begun = Time(self.now.0.saturating_sub(ms * 1_000_000));
                self.pulse.changed(begun, self.now);
                self.restraints.ended(self.now, &change, bytes);
            }
            "pulse" => {
                text = match self.pulse.added_p99_us(self.now) {
                    Some(us) => format!("changes add {us:.0} us\n"),
                    None => "not known\n".to_owned(),
                };
            }
            other => return Err(format!("there is no command {other}").into()),
        }
        args.reject_next()?;
        Ok(text)
    }
}
