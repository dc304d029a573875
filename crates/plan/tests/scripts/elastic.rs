//! Scripts about the elastic loop: a design and a load, and their course over time.
//!
//! | command | effect |
//! | --- | --- |
//! | `sites N`, `table NAME`, `change CHANGE…`, `design` | as in the scripts about the autopilot |
//! | `loop PLANNER [p99_ms=N] [mode=MODE] [sites=N..M]` | a new loop, with N to M sites |
//! | `power RATE` | this many accesses per second keep the processors of a site busy |
//! | | without it, the utilisation is unknown |
//! | `load FOOTPRINT rate=N` | from now on N such transactions per second; 0: none |
//! | `latency MS` | the latency of transactions from now on |
//! | `run SECONDS` | time passes; changes are made at once, except refused ones |
//! | `refuse CHANGE` | the router refuses this change |
//! | `restart` | the loop keeps only its saved state |
//! | `episodes`, `away` | the episodes of the loop; the ranges that are away from home |

use crate::{parse, run, set_up};
use goldenscript::{Command, Context, Runner};
use isomer_design::{Change, Design, Footprint, RoutingTable, SiteId, Time};
use isomer_plan::elastic::{Episode, Fleet, Options, Outcome, Planner};
use isomer_plan::learned::Mode;
use isomer_plan::strategy::Elastic;
use isomer_strategy::{
    Cause, Changed, Measured, NotMade, Occasion, Report, Request, SiteLoad, Stage, Strategy,
    Verdict,
};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;

#[test]
fn elastic_scripts() {
    run("elastic", State::default);
}

struct State {
    design: Design,
    strategy: Elastic,
    options: Options,
    /// Transactions a second, by their text.
    load: BTreeMap<String, (Footprint, u64)>,
    refused: Vec<Change>,
    latency_ms: u64,
    power: Option<u64>,
    /// Accesses at each site since its last load report.
    accesses: BTreeMap<SiteId, u64>,
    looked_ms: u64,
    now_ms: u64,
    ticket: u64,
}

impl Default for State {
    fn default() -> State {
        let design = Design::new([SiteId(1)]).expect("one site makes a design");
        State {
            design,
            strategy: Elastic::new(Planner::Clay),
            options: Options::default(),
            load: BTreeMap::new(),
            refused: Vec::new(),
            latency_ms: 1,
            power: None,
            accesses: BTreeMap::new(),
            looked_ms: 0,
            now_ms: 0,
            ticket: 0,
        }
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
            "loop" => {
                let planner = parse("planner", args.next_pos().ok_or("which?")?)?;
                let p99_ms: Option<f64> =
                    args.take_key("p99_ms").map(|ms| parse("p99_ms", ms)).transpose()?;
                let p99_us_max = p99_ms.map(|ms| ms * 1000.0);
                let fleet = args.take_key("sites").map(fleet).transpose()?;
                self.options = Options { p99_us_max, fleet, ..Options::default() };
                self.strategy = Elastic::with(planner, self.options.clone());
                let mode: Mode = args.take_key("mode").map_or(Ok(Mode::Auto), str::parse)?;
                self.strategy.set_mode(mode);
            }
            "load" => {
                let rate = parse("rate", args.take_key("rate").ok_or("which rate?")?)?;
                let text = args.next_pos().ok_or("which footprint?")?.to_owned();
                let footprint = Footprint::parse(&text, &self.design)?;
                self.load.insert(text, (footprint, rate));
            }
            "power" => {
                self.power = Some(parse("rate", args.next_pos().ok_or("how much?")?)?);
            }
            "latency" => {
                self.latency_ms = parse("ms", args.next_pos().ok_or("how long?")?)?;
            }
            "refuse" => {
                let text = args.next_pos().ok_or("which change?")?;
                self.refused.push(Change::parse(text, &self.design)?);
            }
            "run" => {
                let seconds: u64 = parse("seconds", args.next_pos().ok_or("how long?")?)?;
                args.reject_next()?;
                return self.pass(seconds * 1000);
            }
            "restart" => {
                let memory = self.strategy.memory(&self.design).expect("it remembers");
                let planner = self.strategy.with_controller(|controller| controller.planner());
                self.strategy = Elastic::with(planner, self.options.clone());
                self.strategy.recall(&memory)?;
            }
            "episodes" => {
                return Ok(self.strategy.with_controller(|controller| {
                    controller.episodes().collect::<Vec<_>>().into_iter().rev().map(told).collect()
                }));
            }
            "away" => {
                let (design, mut text) = (&self.design, String::new());
                self.strategy.with_controller(|controller| {
                    for moved in controller.away().iter() {
                        let schema = design.table(moved.table).expect("it is there").schema();
                        let start = schema.format_key(&moved.range.start);
                        let _ = writeln!(
                            text,
                            "{}[{start}] is at home at {}",
                            schema.name(),
                            moved.home
                        );
                    }
                });
                return Ok(text);
            }
            other => return Err(format!("there is no command {other}").into()),
        }
        args.reject_next()?;
        Ok(String::new())
    }
}

fn fleet(text: &str) -> Result<Fleet, Box<dyn Error>> {
    let (min, max) = text.split_once("..").ok_or("write sites=1..4")?;
    Ok(Fleet::between(parse("sites", min)?, parse("sites", max)?))
}

fn told(episode: &Episode) -> String {
    let Episode { number, begun, overload, recorded, planned, outcome, .. } = episode;
    let mut text = format!("{number}. {:.0} s: {overload}\n", begun.0 as f64 / 1e9);
    if recorded.0 > 0 {
        let _ = writeln!(text, "   recorded {} footprints in {:.0} s", recorded.0, recorded.1);
        let [before, after] = planned.imbalance;
        let [across, across_after] = planned.across.map(|share| share * 100.0);
        let _ = writeln!(
            text,
            "   plans: {}; {before:.1} ▶ {after:.1} times the mean, {across:.0} ▶ {across_after:.0} % of pairs across",
            planned.plans.len(),
        );
    }
    let _ = match outcome {
        Outcome::Settled { refused: 0, times } => {
            writeln!(text, "   now {times:.1} times the mean")
        }
        Outcome::Settled { refused, times } => {
            writeln!(text, "   now {times:.1} times the mean; {refused} changes were refused")
        }
        Outcome::Recording => writeln!(text, "   footprints are being recorded"),
        Outcome::Moving => writeln!(text, "   changes are under way"),
        Outcome::TooLittle => writeln!(text, "   too little to plan from"),
        Outcome::NothingToMove => writeln!(text, "   no move helps"),
        Outcome::Recommended => writeln!(text, "   recommended"),
        Outcome::Moved { .. } => writeln!(text, "   moved; the effect is not known yet"),
    };
    text
}

impl State {
    /// Lets time pass by milliseconds, and runs each transaction at its time.
    fn pass(&mut self, ms: u64) -> Result<String, Box<dyn Error>> {
        let mut text = String::new();
        for _ in 0..ms {
            self.now_ms += 1;
            let second = self.now_ms % 1000;
            let due = |rate: u64| (second + 1) * rate / 1000 - second * rate / 1000;
            let load: Vec<(Footprint, u64)> = self
                .load
                .values()
                .map(|(footprint, rate)| (footprint.clone(), due(*rate)))
                .collect();
            for (footprint, times) in load {
                for _ in 0..times {
                    self.transaction(&footprint, &mut text)?;
                }
            }
            self.look();
        }
        Ok(text)
    }

    fn look(&mut self) {
        let now = Time(self.now_ms * 1_000_000);
        if self.strategy.wants_loads(now) {
            let (accesses, ms) = (std::mem::take(&mut self.accesses), self.now_ms - self.looked_ms);
            self.looked_ms = self.now_ms;
            let busy = |site| {
                let can_be = self.power? as f64 * ms as f64 / 1000.0;
                Some(accesses.get(&site).copied().unwrap_or(0) as f64 / can_be)
            };
            let load = |site| SiteLoad {
                site,
                busy: busy(site),
                memory_bytes: 0,
                memory_max: None,
                hot_locks: Vec::new(),
                process: None,
            };
            let loads: Vec<SiteLoad> = self.design.sites().iter().map(load).collect();
            self.strategy.loads(now, &loads);
            let design = &self.design;
            self.strategy.plan_globally(&Occasion { now, design, worked_ns: &|| 0 });
        }
    }

    fn transaction(
        &mut self,
        footprint: &Footprint,
        text: &mut String,
    ) -> Result<(), Box<dyn Error>> {
        self.ticket += 1;
        let (design, now) = (self.design.clone(), Time(self.now_ms * 1_000_000));
        let request = Request {
            footprint,
            route: RoutingTable::of(&design).home(footprint),
            last_site: None,
            ticket: self.ticket,
            now,
            reserved: false,
            stage: Stage::Whole,
            design: &|| design.clone(),
        };
        let Verdict::Run(decision) = self.strategy.decide(&request)? else {
            return Err("nothing is to be reserved".into());
        };
        let accesses = self.accesses.entry(decision.place.site()).or_default();
        *accesses += footprint.items().len() as u64;
        if self.strategy.wants(self.ticket) {
            self.strategy.observe(&Report {
                ticket: self.ticket,
                footprint,
                site: decision.place.site(),
                changes: 0,
                now,
                latency_ns: self.latency_ms * 1_000_000,
                measured: Some(Measured::default()),
            });
        }
        if !decision.deferred.steps.is_empty() {
            let seconds = self.now_ms as f64 / 1000.0;
            let _ = writeln!(text, "{seconds:.1} s: {}", decision.deferred.reason);
        }
        for step in &decision.deferred.steps {
            let refused = self.refused.contains(&step.change);
            let took_ns = match refused {
                true => Err(NotMade { cause: Cause::Site, why: "refused".to_owned() }),
                false => Ok(1000),
            };
            let how = if refused { "refused: " } else { "" };
            let _ = writeln!(text, "  {how}{}", step.change.to_text(&self.design));
            if !refused {
                self.design.apply(&step.change)?;
            }
            self.strategy.changed(&Changed {
                change: &step.change,
                rows: 0,
                bytes: 0,
                took_ns,
                now,
            });
            if refused {
                break;
            }
        }
        Ok(())
    }
}
