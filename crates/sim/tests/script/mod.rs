//! The script runner: from commands to their effects.

mod client;
mod show;
mod words;

use client::{Desk, Statement};
use isomer_cluster::FailedOver;
use isomer_design::{Backups, Change, Column, ColumnType, Footprint, Key, Placement, Schema};
use isomer_design::{Domains, SiteId, SiteSet, TableId};
use isomer_sim::checkers::CHECKERS;
use isomer_sim::cluster::{Client, Cluster, Recorder};
use isomer_sim::history::History;
use isomer_sim::world::{Gate, Manners, TaskId, World};
use isomer_strategy::{OnDemand, Strategy, TwoPhase};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::rc::Rc;
use words::{backups, says_something, site, tidy};

type Answer = Result<String, Box<dyn Error>>;

/// How long the world runs after a command, in virtual nanoseconds.
const QUIET_NS: u64 = 30_000_000;
const WAIT_NS: u64 = 100_000_000;
const SETTLE_NS: u64 = 500_000_000;

/// See the head of `scripts.rs`.
#[derive(Default)]
pub(crate) struct Runner {
    cluster: Option<Rc<Cluster>>,
    desks: BTreeMap<String, Desk>,
    /// Operators in the background: their commands, and the results.
    operators: Vec<Operator>,
    /// The sites of each process, for the next `open`.
    domains: Domains,
}

/// The command of an operator.
enum Wanted {
    Change(Change),
    Backups(TableId, Backups),
}

struct Operator {
    name: String,
    task: TaskId,
    result: Rc<RefCell<Option<String>>>,
    /// The wait that was last shown.
    waits: String,
}

impl goldenscript::Runner for Runner {
    type Command = goldenscript::Command;

    fn run(&mut self, command: &goldenscript::Command, _: &goldenscript::Context) -> Answer {
        let mut line = command.name.clone();
        for argument in &command.args {
            line = format!("{line} {argument}");
        }
        // A line names the client or operator itself, so that the name does not prefix other
        // output.
        let (quiet, line) = match line.strip_prefix("quietly ") {
            Some(line) => (true, line),
            None => (false, &line[..]),
        };
        let named =
            line.split_once(": ").filter(|(name, _)| name.chars().all(char::is_alphanumeric));
        let (name, line) = named.unwrap_or(("", line));
        let output = self.obey(name, line)?;
        Ok(if quiet { String::new() } else { output })
    }

    fn end_block(&mut self, _: &goldenscript::Block) -> Answer {
        if self.cluster.is_some() {
            self.check(&self.cluster().history_so_far())?;
        }
        Ok(String::new())
    }

    fn end_script(&mut self) -> Result<(), Box<dyn Error>> {
        let world = self.world().clone();
        world.let_all_go();
        world.sites().into_iter().for_each(|site| world.start(site));
        for (name, desk) in std::mem::take(&mut self.desks) {
            if desk.is_open(&world) {
                desk.tell(&world, Statement::Rollback);
            }
            world.run_for(SETTLE_NS, || !desk.is_open(&world));
            assert!(!desk.is_open(&world), "{name} never came to its end");
        }
        world.run_for(SETTLE_NS, || world.foreground().is_empty());
        assert!(world.foreground().is_empty(), "not finished: {:?}", world.foreground());
        world.run_for(SETTLE_NS, || false);
        assert_eq!(self.cluster().why_not_settled(), None);
        let cluster = self.cluster().clone();
        let history = self.on_task(async move { cluster.gather().await })??;
        world.end();
        self.check(&history)
    }
}

impl Runner {
    fn obey(&mut self, name: &str, line: &str) -> Answer {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == "processes" {
            let process = |sites: &str| sites.split('+').map(site).collect::<Result<SiteSet, _>>();
            self.domains = rest.split(' ').map(process).collect::<Result<_, _>>()?;
            return Ok(String::new());
        }
        let output = match word {
            "open" => self.open(rest)?,
            "gone" => self.gone(rest)?,
            "returns" => self.returns(rest)?,
            "rows" => self.rows(rest)?,
            "begin" | "get" | "put" | "insert" | "delete" | "scan" | "commit" | "rollback"
            | "has" | "lock" | "share" | "savepoint" | "back" => self.client(name, line)?,
            "hold" => self.gate(rest, |world, gate| world.hold(gate))?,
            "free" => self.gate(rest, |world, gate| world.let_go(gate))?,
            "messages" => self.messages(rest)?,
            "deliver" => self.deliver(rest)?,
            "muddle" => self.muddle(rest)?,
            "lose" => self.lose(rest)?,
            "crash" => self.crash(rest)?,
            "checkpoint" => {
                self.world().checkpoint(site(rest)?);
                String::new()
            }
            "restart" => {
                self.world().start(site(rest)?);
                String::new()
            }
            "wait" => {
                let times = if rest.is_empty() { Ok(1) } else { rest.parse::<u64>() };
                let times = times.map_err(|_| format!("`{rest}` is no number of times"))?;
                self.world().run_for(times * WAIT_NS, || false);
                String::new()
            }
            "settle" => self.settle(),
            "show" => return show::show(self.cluster(), rest),
            _ => self.operator(name, line)?,
        };
        self.world().run_for(QUIET_NS, || false);
        Ok(output + &self.happened())
    }

    fn cluster(&self) -> &Rc<Cluster> {
        self.cluster.as_ref().expect("the script begins with `open`")
    }

    fn world(&self) -> &Rc<World> {
        &self.cluster().world
    }

    fn check(&self, history: &History) -> Result<(), Box<dyn Error>> {
        if let Some(words) = self.world().panicked() {
            return Err(words.into());
        }
        for (name, checker) in CHECKERS {
            checker(history).map_err(|what| format!("{name}: {what}"))?;
        }
        Ok(())
    }

    /// `accounts[] s1, accounts[10] s2, and s3`, after the name of a strategy or none
    fn open(&mut self, rest: &str) -> Answer {
        let (strategy, rest): (Box<dyn Strategy>, _) = match rest.strip_prefix("static-2pc ") {
            Some(rest) => (Box::new(TwoPhase), rest),
            None => (Box::new(OnDemand::default()), rest),
        };
        let mut partitions: Vec<(Key, Placement)> = Vec::new();
        let mut sites = BTreeSet::new();
        let mut name = "";
        for part in rest.split(", ") {
            let (place, at) = part.rsplit_once(' ').ok_or("a partition and its site")?;
            sites.insert(site(at)?);
            let Some((table, start)) = place.strip_suffix(']').and_then(|p| p.split_once('['))
            else {
                continue; // A site without partitions yet.
            };
            name = table;
            let start = if start.is_empty() { Key::min() } else { Key::int(start.parse()?) };
            partitions.push((start, Placement::at(site(at)?)));
        }
        let columns =
            vec![Column::new("id", ColumnType::Int64), Column::new("value", ColumnType::Int64)];
        let schema = Schema::new(name, columns, &["id"])?;
        let sites: Vec<SiteId> = sites.into_iter().collect();
        let world = World::new(1, Manners::orderly());
        world.set_domains(std::mem::take(&mut self.domains));
        let cluster = Cluster::start(world, &sites, strategy)?;
        *self = Runner { cluster: Some(cluster.clone()), ..Runner::default() };
        self.on_task(async move { cluster.create_table(TableId(1), schema, partitions).await })??;
        self.world().take_lines();
        Ok(String::new())
    }

    /// `accounts[0..20) = 100`
    fn rows(&mut self, rest: &str) -> Answer {
        let (range, value) = rest.split_once(" = ").ok_or("a range and a value")?;
        let (table, range) = show::range(self.cluster(), range)?;
        let bound = |key: &Key| key.to_ints().map_or(0, |ints| ints[0]);
        let value: i64 = value.parse()?;
        let keys = bound(&range.start)..range.end.as_ref().map_or(0, bound);
        let cluster = self.cluster().clone();
        self.on_task(async move {
            let mut client = Client::new(0);
            let design = cluster.conductor().design();
            // One transaction for each partition.
            for (part, _) in design.partitions_in(table, &range) {
                let keys = || keys.clone().map(Key::int).filter(|key| part.contains(key));
                let footprint = keys().fold(Footprint::new(), |f, key| f.write(table, key));
                let mut put = |txn: &mut Recorder<'_, '_>| {
                    keys().try_for_each(|key| txn.put(table, &key, value))
                };
                cluster.run(&mut client, &footprint, &mut put).await.map_err(|e| e.to_string())?;
            }
            Ok::<(), String>(())
        })??;
        self.world().take_lines();
        Ok(String::new())
    }

    fn client(&mut self, name: &str, line: &str) -> Answer {
        if name.is_empty() {
            return Err("a client has a name, as in `c1: commit`".into());
        }
        let cluster = self.cluster().clone();
        if let Some(other) =
            line.strip_prefix("has seen what ").and_then(|o| o.strip_suffix(" has"))
        {
            let seen = self.desks.get(other).ok_or("no such client")?.seen();
            self.desks.get(name).ok_or("no such client")?.has_seen(seen);
            return Ok(String::new());
        }
        let number = self.desks.len() as u64 + 1;
        let desk = self.desks.entry(name.to_owned()).or_insert_with(|| Desk::new(number));
        desk.hear(&cluster, line)?;
        Ok(String::new())
    }

    fn operator(&mut self, name: &str, line: &str) -> Answer {
        let cluster = self.cluster().clone();
        let design = cluster.conductor().design();
        let wanted = match line.strip_prefix("backups ") {
            Some(rest) => Wanted::Backups(TableId(1), backups(rest)?),
            None => Wanted::Change(Change::parse(line, &design)?),
        };
        let result: Rc<RefCell<Option<String>>> = Rc::default();
        let slot = result.clone();
        let asked = line.to_owned();
        let task = self.world().spawn(String::new(), async move {
            cluster.world.doing(|| "waits for the router".into());
            let done = match wanted {
                Wanted::Change(change) => {
                    cluster.conductor().change(change, "the script says so").await.map(drop)
                }
                Wanted::Backups(table, backups) => cluster.set_backups(table, backups).await,
            };
            *slot.borrow_mut() = Some(match done {
                Ok(_) => format!("done: {asked}"),
                Err(error) => format!("refused: {error}"),
            });
        });
        let name = name.to_owned();
        self.operators.push(Operator { name, task, result, waits: String::new() });
        Ok(String::new())
    }

    /// `s1 s2`: their process fails, and others take over.
    fn gone(&mut self, rest: &str) -> Answer {
        let sites = rest.split(' ').map(site).collect::<Result<Vec<SiteId>, _>>()?;
        sites.iter().for_each(|site| self.world().crash_hard(*site));
        sites.iter().for_each(|site| self.world().give_up(*site));
        self.desks.values().for_each(|desk| desk.wake(self.world()));
        for site in sites {
            self.operate(async move |cluster: &Cluster| {
                let told = |over: &FailedOver| cluster.world.note(format_args!("{over}"));
                cluster.conductor().pass_by(site, &told).await.to_string()
            });
        }
        Ok(String::new())
    }

    /// `s1 s2`: they restart, and rejoin.
    fn returns(&mut self, rest: &str) -> Answer {
        let sites = rest.split(' ').map(site).collect::<Result<Vec<SiteId>, _>>()?;
        sites.iter().for_each(|site| self.world().start(*site));
        sites.iter().for_each(|site| self.world().wait_for_again(*site));
        for site in sites {
            self.operate(async move |cluster: &Cluster| {
                while cluster.conductor().readmit(site).await.is_err() {
                    cluster.world.sleep(10_000_000).await;
                }
                format!("site {site} is readmitted")
            });
        }
        Ok(String::new())
    }

    /// Runs an operator's command in the background, and shows its result.
    fn operate(&mut self, work: impl AsyncFnOnce(&Cluster) -> String + 'static) {
        let cluster = self.cluster().clone();
        let result: Rc<RefCell<Option<String>>> = Rc::default();
        let slot = result.clone();
        let task = self.world().spawn(String::new(), async move {
            let said = work(&cluster).await;
            *slot.borrow_mut() = Some(said);
        });
        self.operators.push(Operator { name: String::new(), task, result, waits: String::new() });
    }

    fn gate(&mut self, rest: &str, action: impl Fn(&Rc<World>, Gate)) -> Answer {
        let words: Vec<&str> = rest.split(' ').collect();
        let gate = match words[..] {
            ["messages", from, to] => Gate::Messages(site(from)?, site(to)?),
            ["requests", at] => Gate::Requests(site(at)?),
            ["answers", at] => Gate::Answers(site(at)?),
            ["disk", at] => Gate::Disk(site(at)?),
            ["publish", at] => Gate::Publish(site(at)?),
            ["cut", at] => Gate::Cut(site(at)?),
            _ => {
                let gates =
                    "messages s1 s2, requests s1, answers s1, disk s1, publish s1 or cut s1";
                return Err(gates.into());
            }
        };
        action(self.world(), gate);
        Ok(String::new())
    }

    fn messages(&mut self, rest: &str) -> Answer {
        let (from, to) = rest.split_once(' ').ok_or("two sites")?;
        let held = self.world().held_messages(site(from)?, site(to)?);
        let events: Vec<String> = held
            .iter()
            .filter(|envelope| says_something(envelope))
            .map(|envelope| tidy(envelope))
            .collect();
        Ok(events.iter().map(|envelope| format!("held: {envelope}\n")).collect())
    }

    fn deliver(&mut self, rest: &str) -> Answer {
        let words: Vec<&str> = rest.split(' ').collect();
        let [from, to, count] = words[..] else { return Err("two sites and a number".into()) };
        let (from, to) = (site(from)?, site(to)?);
        // Heartbeats do not count.
        let mut left: usize = count.parse()?;
        while left > 0 {
            let held = self.world().held_messages(from, to);
            let Some(first) = held.first() else { break };
            left -= usize::from(says_something(first));
            self.world().deliver_held(from, to, 1);
        }
        Ok(String::new())
    }

    fn muddle(&mut self, rest: &str) -> Answer {
        let (from, to) = rest.split_once(' ').ok_or("two sites")?;
        self.world().muddle_held(site(from)?, site(to)?);
        Ok(String::new())
    }

    fn lose(&mut self, rest: &str) -> Answer {
        let (from, to) = rest.split_once(' ').ok_or("two sites")?;
        let (from, to) = (site(from)?, site(to)?);
        // Heartbeats before it arrive.
        while self.world().held_messages(from, to).first().is_some_and(|l| !says_something(l)) {
            self.world().deliver_held(from, to, 1);
        }
        match self.world().lose_held(from, to) {
            true => Ok(String::new()),
            false => Err("no envelope is held".into()),
        }
    }

    fn crash(&mut self, rest: &str) -> Answer {
        self.world().crash_hard(site(rest)?);
        self.desks.values().for_each(|desk| desk.wake(self.world()));
        Ok(String::new())
    }

    fn settle(&mut self) -> String {
        let world = self.world().clone();
        world.run_for(SETTLE_NS, || false);
        let waiting = world.foreground().len();
        match self.cluster().why_not_settled() {
            Some(why) => tidy(&format!("not settled: {why}\n")),
            None if waiting > 0 => "settled, but somebody still waits\n".into(),
            None => "settled\n".into(),
        }
    }

    /// Runs a future to its end.
    fn on_task<T: 'static>(
        &self,
        future: impl Future<Output = T> + 'static,
    ) -> Result<T, Box<dyn Error>> {
        let result = Rc::new(RefCell::new(None));
        let slot = result.clone();
        let task = self.world().spawn("the script".into(), async move {
            let done = future.await;
            *slot.borrow_mut() = Some(done);
        });
        self.world().run_for(100 * SETTLE_NS, || self.world().is_done(task));
        let done = result.borrow_mut().take();
        Ok(done.ok_or_else(|| self.world().panicked().unwrap_or("it does not end".into()))?)
    }

    /// The effects of the last command, in words.
    fn happened(&mut self) -> String {
        let mut output = String::new();
        let mut said = BTreeSet::new();
        for line in self.world().take_lines() {
            let line = tidy(line.get(12..).unwrap_or_default());
            // Clients show their answers themselves.
            let told = [" committed ", " refused write", " refused read"];
            if !told.iter().any(|words| line.contains(words)) && said.insert(line.clone()) {
                output += &format!("{line}\n");
            }
        }
        let world = self.cluster().world.clone();
        for (name, desk) in &mut self.desks {
            for words in desk.news(&world) {
                output += &format!("{name}: {}\n", tidy(&words));
            }
        }
        self.operators.retain_mut(|operator| {
            let Operator { name, .. } = operator;
            let mark = if name.is_empty() { String::new() } else { format!("{name}: ") };
            if let Some(result) = operator.result.borrow_mut().take() {
                output += &format!("{mark}{}\n", tidy(&result));
                return false;
            }
            let waits = world.what_is_done_by(operator.task).unwrap_or_default();
            if waits != operator.waits {
                output += &format!("{mark}{}\n", tidy(&waits));
                operator.waits = waits;
            }
            true
        });
        output
    }
}
