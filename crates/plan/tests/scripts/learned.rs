//! Scripts about the autopilot: a design, recent transactions, then a transaction and the decision
//! for it.
//!
//! | command | effect |
//! | --- | --- |
//! | `sites N` | a design of sites s1 to sN |
//! | `table NAME` | a table whose key is one number, mastered at s1 |
//! | `change CHANGE…` | changes the design |
//! | `design` | shows it |
//! | `ran FOOTPRINT times=N at=SITE us=T` | N transactions ran within the last second |
//! | | without `at`, over several sites |
//! | `loads s1=BUSY …` | a second passes with these loads, and with: |
//! | | `of_s1=BUSY`, the load of the process of s1 with SQL for its clients |
//! | | `full=SITE`, a site without room, or filled by `filled=PERCENT` |
//! | | `crowd=KEY waiting=N wanted=K1,K2…`, N waiters for the partition of the key |
//! | | in the first table, and the keys that they want |
//! | `decide FOOTPRINT` | shows the decision, which is executed at once |
//! | `ask FOOTPRINT` | as `decide`, but all changes stay in flight |
//! | `withhold FOOTPRINT` | as `decide`, but an operator permits none of the changes |
//! | `reflect` | draws a global plan |
//! | `wait MS` | time passes |
//! | `mode MODE`, `options changes_per_second=N measured_per_second=N` | sets tuning |
//! | `why KEY` | the decisions that moved a key of the first table |

use crate::{parse, run, set_up, site};
use goldenscript::{Command, Context, Runner};
use isomer_design::{Change, Design, Footprint, HotLock, Key, RoutingTable, SiteId, TableId, Time};
use isomer_plan::learned::{Mode, Tuning};
use isomer_plan::restraints::Withheld;
use isomer_plan::strategy::Learned;
use isomer_strategy::{
    Cause, Changed, Decision, Measured, NotMade, Occasion, Place, ProcessLoad, Report, Request,
    SiteLoad, Stage, Strategy, Verdict,
};
use std::error::Error;
use std::fmt::Write as _;

#[test]
fn learned_scripts() {
    run("learned", State::default);
}

const MS: u64 = 1_000_000;

struct State {
    design: Design,
    learned: Learned,
    tuning: Tuning,
    now: u64,
    ticket: u64,
}

impl Default for State {
    fn default() -> State {
        let tuning = Tuning::default();
        State {
            design: Design::new([SiteId(1)]).expect("one site makes a design"),
            learned: Learned::new(tuning),
            tuning,
            now: 1000 * MS,
            ticket: 0,
        }
    }
}

type Outcome<T> = Result<T, Box<dyn Error>>;

impl Runner for State {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Outcome<String> {
        if let Some(done) = set_up(&mut self.design, command) {
            self.now += MS;
            return done;
        }
        let mut args = command.consume_args();
        match command.name.as_str() {
            "ran" => {
                let times: u64 = args.take_key("times").map_or(Ok(1), |n| parse("times", n))?;
                let at = args.take_key("at").map(site_id).transpose()?;
                let us: f64 = args.take_key("us").map_or(Ok(100.0), |us| parse("us", us))?;
                let text = args.next_pos().ok_or("which?")?;
                let footprint = Footprint::parse(text, &self.design)?;
                for _ in 0..times {
                    self.ticket += 1;
                    let at = at.map_or_else(|| self.set_out(&footprint), Ok)?;
                    self.ran(&footprint, at, us);
                }
            }
            "loads" => {
                let full = args.take_key("full").map(site_id).transpose()?;
                let filled = args.take_key("filled").map_or(Ok(96), |n| parse("percent", n))?;
                let crowd = args.take_key("crowd").map(|key| parse("key", key)).transpose()?;
                let waiting = args.take_key("waiting").map_or(Ok(0), |n| parse("waiting", n))?;
                let wanted = args.take_key("wanted").unwrap_or_default();
                let wanted = wanted.split(',').filter(|key| !key.is_empty());
                let keys: Vec<Key> = wanted
                    .map(|key| Ok(Key::int(parse("key", key)?)))
                    .collect::<Result<_, Box<dyn Error>>>()?;
                let crowd = crowd.and_then(|key| {
                    let table = TableId(1);
                    let (range, placement) = self.design.partition_of(table, &Key::int(key))?;
                    Some((placement.master, HotLock { table, start: range.start, waiting, keys }))
                });
                self.now += 1000 * MS;
                let mut loads = Vec::new();
                for id in self.design.sites().iter() {
                    let busy = args.take_key(&id.to_string());
                    let busy = busy.map(|busy| parse("load", busy)).transpose()?;
                    let memory_bytes = if full == Some(id) { filled } else { 10 };
                    let here = crowd.iter().filter(|(master, _)| *master == id);
                    let hot_locks = here.map(|(_, crowd)| crowd.clone()).collect();
                    let memory_max = Some(100);
                    let process = args.take_key(&format!("of_{id}"));
                    let process = process.map(|busy| parse("load", busy)).transpose()?;
                    let process = process.map(|busy| ProcessLoad { first: id, busy });
                    let load =
                        SiteLoad { site: id, busy, memory_bytes, memory_max, hot_locks, process };
                    loads.push(load);
                }
                self.learned.loads(Time(self.now), &loads);
                // Learned at once, as by the planning thread.
                self.learned.with_journal(|_| ());
            }
            "reflect" => self.learned.plan_globally(&self.occasion()),
            "mode" => self.learned.set_mode(args.next_pos().ok_or("which?")?.parse::<Mode>()?),
            "options" => {
                if let Some(rate) = args.take_key("changes_per_second") {
                    self.tuning.changes_per_second = parse("changes_per_second", rate)?;
                }
                if let Some(rate) = args.take_key("measured_per_second") {
                    self.tuning.measured_per_second = parse("measured_per_second", rate)?;
                }
                self.learned = Learned::new(self.tuning);
            }
            "wait" => {
                let ms: u64 = parse("milliseconds", args.next_pos().ok_or("how long?")?)?;
                self.now += ms * MS;
            }
            "decide" | "ask" | "withhold" => {
                let text = args.next_pos().ok_or("for what?")?;
                let footprint = Footprint::parse(text, &self.design)?;
                let (text, wanted) = self.decide(&footprint)?;
                let refused = match command.name.as_str() {
                    "decide" => self.make(&wanted),
                    "withhold" => {
                        let why = Withheld::Window;
                        wanted.iter().for_each(|change| self.learned.withheld(change, why));
                        String::new()
                    }
                    _ => String::new(),
                };
                return Ok(text + &refused);
            }
            "why" => {
                let key = Key::int(parse("key", args.next_pos().ok_or("which?")?)?);
                return Ok(self.learned.with_journal(|journal| {
                    let about = journal.about(TableId(1), &key);
                    about.map(|entry| told(&entry.to_text(&self.design))).collect()
                }));
            }
            other => return Err(format!("there is no command {other}").into()),
        }
        args.reject_next()?;
        self.now += MS;
        Ok(String::new())
    }
}

/// A decision without its figures, which change with every tuning: the alternatives, best first,
/// and the reason.
fn told(text: &str) -> String {
    let line = |line: &str| match (line.split_once(": saves "), line.rsplit_once(": ")) {
        (Some((place, _)), _) => format!("{place}\n"),
        (_, Some((step, served))) if served.contains(" a second ") => format!("{step}\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// Sites of a design are counted from s1, planners count theirs from zero.
fn site_id(text: &str) -> Outcome<SiteId> {
    Ok(SiteId(site(text)? + 1))
}

impl State {
    fn occasion(&self) -> Occasion<'_> {
        Occasion { now: Time(self.now), design: &self.design, worked_ns: &|| 0 }
    }

    fn request<'a>(&self, footprint: &'a Footprint, design: &'a dyn Fn() -> Design) -> Request<'a> {
        Request {
            footprint,
            route: RoutingTable::of(&self.design).home(footprint),
            last_site: None,
            ticket: self.ticket,
            now: Time(self.now),
            reserved: true,
            stage: Stage::Whole,
            design,
        }
    }

    /// Sends a transaction to a site that can run it under the design, without a planning pass.
    fn set_out(&mut self, footprint: &Footprint) -> Outcome<SiteId> {
        let (mode, design) = (self.learned.mode(), self.design.clone());
        self.learned.set_mode(Mode::Off);
        let verdict = self.learned.decide(&self.request(footprint, &|| design.clone()));
        self.learned.set_mode(mode);
        let Verdict::Run(decision) = verdict? else { return Err("it was reserved".into()) };
        Ok(decision.place.site())
    }

    /// Reports a measured transaction that ran at a site.
    fn ran(&mut self, footprint: &Footprint, at: SiteId, us: f64) {
        let ns = |share: f64| (us * share * 1000.0) as u64;
        let written =
            footprint.items().iter().filter(|item| item.access == isomer_design::Access::Write);
        let measured = Measured {
            service_ns: ns(0.5),
            lock_ns: ns(0.1),
            wait_ns: 0,
            run_ns: ns(0.3),
            commit_ns: ns(0.1),
            held_ns: ns(0.4),
            rows: [footprint.items().len(), written.count()],
        };
        let report = Report {
            ticket: self.ticket,
            footprint,
            site: at,
            changes: 0,
            now: Time(self.now),
            latency_ns: ns(1.0),
            measured: Some(measured),
        };
        self.learned.observe(&report);
    }

    /// The decision as text, and the changes that it wants.
    fn decide(&mut self, footprint: &Footprint) -> Outcome<(String, Vec<Change>)> {
        self.ticket = 0;
        let known = self.learned.with_journal(|journal| journal.len());
        let design = self.design.clone();
        let design = || design.clone();
        let verdict = self.learned.decide(&self.request(footprint, &design))?;
        let Verdict::Run(Decision { place, first, is_occasion, .. }) = verdict else {
            return Err("it was reserved".into());
        };
        let plan =
            if is_occasion { self.learned.plan(&self.occasion()) } else { Default::default() };
        let text = self.learned.with_journal(|journal| {
            let new = journal.entries().take((journal.len() - known) as usize);
            new.map(|entry| told(&entry.to_text(&self.design))).collect::<String>()
        });
        let text = match place {
            _ if !text.is_empty() => text,
            Place::At(site) => format!("runs at {site}, nothing changes\n"),
            Place::Distributed { .. } => "runs over several sites, nothing changes\n".to_owned(),
        };
        Ok((text, first.changes().chain(plan.changes()).cloned().collect()))
    }

    /// Makes changes; returns those that the design refuses.
    fn make(&mut self, changes: &[Change]) -> String {
        let mut text = String::new();
        for change in changes {
            let made = self.design.apply(change);
            let took_ns = made
                .map(|()| 500_000)
                .map_err(|invalid| NotMade { cause: Cause::Unfit, why: invalid.to_string() });
            if let Err(NotMade { why, .. }) = &took_ns {
                let _ = writeln!(text, "not made: {why}");
            }
            let now = Time(self.now);
            self.learned.changed(&Changed { change, rows: 100, bytes: 10_000, took_ns, now });
        }
        text
    }
}
