//! Scripts about strategies that need no learning: a design, transactions, and the resulting
//! changes.
//!
//! | command | effect |
//! | --- | --- |
//! | `sites N`, `table NAME`, `change CHANGE…`, `design` | as in the scripts about the autopilot |
//! | `strategy NAME` | from now on `adr` or `clay` decides, without a past |
//! | `run FOOTPRINT times=N` | N transactions, 1 ms apart: their sites, and the changes |
//! | `wait MS` | time passes |

use crate::{parse, run, set_up};
use goldenscript::{Command, Context, Runner};
use isomer_design::{Design, Footprint, RoutingTable, SiteId, Time};
use isomer_plan::strategy::{Adr, PeriodicClay};
use isomer_strategy::{Place, Request, Stage, Strategy, Verdict};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;

#[test]
fn strategy_scripts() {
    run("strategy", State::default);
}

struct State {
    design: Design,
    strategy: Box<dyn Strategy>,
    now_ms: u64,
    ticket: u64,
}

impl Default for State {
    fn default() -> State {
        let design = Design::new([SiteId(1)]).expect("one site makes a design");
        State { design, strategy: Box::new(Adr::default()), now_ms: 0, ticket: 0 }
    }
}

impl Runner for State {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Result<String, Box<dyn Error>> {
        if let Some(done) = set_up(&mut self.design, command) {
            return done;
        }
        let mut args = command.consume_args();
        match command.name.as_str() {
            "strategy" => {
                self.strategy = match args.next_pos().ok_or("which?")? {
                    "adr" => Box::new(Adr::default()),
                    "clay" => Box::new(PeriodicClay::default()),
                    other => return Err(format!("there is no strategy {other} here").into()),
                }
            }
            "wait" => {
                self.now_ms += parse::<u64>("ms", args.next_pos().ok_or("how long?")?)?;
            }
            "run" => {
                let times = args.take_key("times").map_or(Ok(1), |times| parse("times", times))?;
                let text = args.next_pos().ok_or("which?")?;
                return self.run_all(&Footprint::parse(text, &self.design)?, times);
            }
            other => return Err(format!("there is no command {other}").into()),
        }
        args.reject_next()?;
        Ok(String::new())
    }
}

impl State {
    fn run_all(&mut self, footprint: &Footprint, times: u64) -> Result<String, Box<dyn Error>> {
        let (mut places, mut text) = (BTreeMap::<String, u64>::new(), String::new());
        for _ in 0..times {
            (self.now_ms, self.ticket) = (self.now_ms + 1, self.ticket + 1);
            let design = self.design.clone();
            let request = Request {
                footprint,
                route: RoutingTable::of(&design).home(footprint),
                last_site: None,
                ticket: self.ticket,
                now: Time(self.now_ms * 1_000_000),
                reserved: false,
                stage: Stage::Whole,
                design: &|| design.clone(),
            };
            let Verdict::Run(decision) = self.strategy.decide(&request)? else {
                return Err("nothing is to be reserved".into());
            };
            let place = match decision.place {
                Place::At(site) => format!("at {site}"),
                Place::Distributed { coordinator } => {
                    format!("over several sites, from {coordinator}")
                }
            };
            *places.entry(place).or_default() += 1;
            for step in &decision.deferred.steps {
                let _ = writeln!(text, "{}: {}", step.change.to_text(&self.design), step.reason);
                self.design.apply(&step.change)?;
            }
        }
        let places = places.iter().map(|(place, times)| format!("{times} ran {place}\n"));
        Ok(places.collect::<String>() + &text)
    }
}
