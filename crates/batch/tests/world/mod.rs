//! A simulation: two copies of a small database, one order that feeds both, and a network that
//! delays, loses, repeats and reorders messages. Every choice is drawn from the seed, so a run can
//! be repeated exactly.
//!
//! ```text
//!   clients ──▶ sequencers ──▶ order ──▶ copy A: s1 s2 s3    each site has its own planner,
//!      ▲                        │  └───▶ copy B: s1 s2 s3    crashes and recovers by itself
//!      └── answers ─────────────│──────────┘
//!                               └──────▶ serial execution    the expected results
//! ```
//!
//! | checker | guarantee |
//! | --- | --- |
//! | answers | every answer to a client, first or repeated, is the one of serial execution |
//! | copies agree | after each batch, copies of a site have equal hashes; all planners agree |
//! | rows | the sites together hold the rows of serial execution, each at its planned place |
//! | settles | after the last fault, all clients are answered and all locks released |
//! | histories | list operations are strictly serializable (`isomer-check`) |

pub(crate) mod plant;
pub(crate) mod procedures;
pub(crate) mod serial;

use isomer_batch::{
    Answer, Batch, Checkpoint, ClientId, Finished, FusionTable, Homes, Input, Leg, Limits,
    MemoryOrder, MemoryRows, Message, Order, Output, Plan, Planner, Procedures, Provision,
    Replacement, Request, Sequencer, Site, Work,
};
use isomer_check::{History, Level, Op, Outcome, Transaction, judge};
use isomer_design::{Design, Footprint, Key, KeyRange, SiteId, TableId, Time};
use isomer_plan::route::Options;
use isomer_plan::route::engine::EngineRouter;
use plant::Plant;
use procedures::{ACCOUNTS, footprint, procedures};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Random;
use serial::Serial;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A guarantee that was violated, and by what.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) checker: &'static str,
    pub(crate) what: String,
}

fn broken(checker: &'static str, what: String) -> Result<(), Failure> {
    Err(Failure { checker, what })
}

/// How often each event of interest has occurred.
pub(crate) type Seen = BTreeMap<&'static str, u64>;

/// The durable state of a site.
#[derive(Clone)]
struct Saved {
    planner: Planner,
    checkpoint: Checkpoint,
    rows: MemoryRows,
}

struct Node {
    planner: Planner,
    site: Site,
    rows: MemoryRows,
    saved: Saved,
}

struct Client {
    id: ClientId,
    random: Random,
    sequence: u64,
    /// Its unanswered request.
    open: Option<Request>,
    begun: u64,
    left: u32,
}

pub(crate) struct World {
    random: Random,
    plant: Option<Plant>,
    now: Time,
    steps: u64,
    order: MemoryOrder,
    sequencers: Vec<Sequencer>,
    procedures: Procedures,
    /// By copy.
    nodes: Vec<BTreeMap<SiteId, Node>>,
    wires: Vec<Vec<(SiteId, SiteId, Message)>>,
    serial: Serial,
    /// A planner before the first batch.
    blank: Planner,
    clients: BTreeMap<ClientId, Client>,
    finished: BTreeMap<(SiteId, u64), Finished>,
    planned: BTreeMap<u64, u64>,
    history: Vec<Transaction>,
    seen: Seen,
    pub(crate) router: EngineRouter,
}

const DESIGN: &str = "
    sites s1 s2 s3
    table accounts
      column id int64
      key id
      partition []   master s1
      partition [10] master s2
      partition [20] master s3
    table lists
      column id int64
      key id
      partition []  master s1
      partition [2] master s2
      partition [4] master s3
";

/// Chooses a router by seed.
fn router(seed: u64) -> EngineRouter {
    match seed % 8 {
        0 => EngineRouter::Calvin,
        1 => EngineRouter::GStore,
        2 => EngineRouter::Leap,
        3 => EngineRouter::TPart { beta: 8000 },
        4 => EngineRouter::Hermes(Options { reorder: false, ..Options::default() }),
        _ => EngineRouter::Hermes(Options::default()),
    }
}

impl World {
    pub(crate) fn new(seed: u64, plant: Option<Plant>) -> World {
        let mut random = Random::seed_from_u64(seed);
        let homes = Homes::of(&Design::parse(DESIGN).unwrap());
        let mut all = MemoryRows::new();
        for key in (0..30).filter(|_| random.random_bool(0.8)) {
            all.put((ACCOUNTS, Key::int(key)), b"10".as_slice().into());
        }
        let rules = [Replacement::Fifo, Replacement::Lru, Replacement::Clock];
        let rule = rules[random.random_range(0..3)];
        let fusion = FusionTable::new(rule, Some(random.random_range(0..12)));
        let router = router(seed);
        let planner = Planner::new(homes.clone(), Arc::new(router), fusion);
        let procedures = procedures();
        let node = |site: SiteId| {
            let mut rows = MemoryRows::new();
            for (record, row) in all.iter() {
                if homes.home(record.0, &record.1) == Some(site) {
                    rows.put(record.clone(), row.clone());
                }
            }
            let checkpoint = Checkpoint::initial(&rows);
            let site = Site::new(site, procedures.clone(), checkpoint.clone());
            let saved = Saved { planner: planner.clone(), checkpoint, rows: rows.clone() };
            Node { planner: planner.clone(), site, rows, saved }
        };
        // The fourth site exists, but has no work until it is added.
        let nodes = || (1..=4).map(SiteId).map(|site| (site, node(site))).collect();
        let client = |id: u64| Client {
            id: ClientId(id),
            random: Random::seed_from_u64(seed * 1000 + id),
            sequence: 0,
            open: None,
            begun: 0,
            left: 12,
        };
        let limits = Limits {
            requests_max: random.random_range(1..9),
            wait_ns_max: random.random_range(1..40) * 1_000_000,
        };
        World {
            plant,
            now: Time::ZERO,
            steps: 0,
            order: MemoryOrder::new(),
            sequencers: (0..2).map(|_| Sequencer::new(limits)).collect(),
            nodes: vec![nodes(), nodes()],
            wires: vec![Vec::new(), Vec::new()],
            serial: Serial::new(planner.clone(), procedures.clone(), all.clone()),
            blank: planner.clone(),
            clients: (1..=8).map(|id| (ClientId(id), client(id))).collect(),
            finished: BTreeMap::new(),
            planned: BTreeMap::new(),
            history: Vec::new(),
            seen: Seen::new(),
            procedures,
            random,
            router,
        }
    }

    /// Injects faults for a while, stops them, and checks that the system recovers.
    pub(crate) fn run(mut self) -> Result<Seen, Failure> {
        for _ in 0..2500 {
            self.happen(true)?;
        }
        for _ in 0..40_000 {
            if self.why_not_settled().is_none() {
                return self.check_end().map(|()| self.seen);
            }
            self.happen(false)?;
        }
        let mut what = self.why_not_settled().unwrap_or_default();
        for (copy, id, node) in self.all_nodes() {
            let (next, durable) = (node.site.next(), self.order.durable());
            let waits: Vec<_> = node.site.locks().waits().take(9).collect();
            what += &format!("\n{id} of copy {copy}: {next} of {durable} batches, waits {waits:?}");
        }
        Err(Failure { checker: "settles", what })
    }

    fn see(&mut self, what: &'static str, times: usize) {
        *self.seen.entry(what).or_default() += times as u64;
    }

    /// Does one randomly chosen action.
    fn happen(&mut self, faults: bool) -> Result<(), Failure> {
        self.steps += 1;
        self.now.0 += self.random.random_range(0..1_000_000);
        match self.random.random_range(0..100) {
            0..8 => self.ask(),
            8 => self.ask_again(),
            9..13 => self.close_batches(),
            13..19 => self.sync(),
            19 if faults => self.provision(),
            20..45 => self.take_plans()?,
            45..85 => self.deliver(faults)?,
            85..93 => self.tick()?,
            93..96 => self.save()?,
            96 if faults => self.crash()?,
            97 if faults => self.order.crash(),
            _ => {}
        }
        Ok(())
    }

    fn ask(&mut self) {
        let index = self.random.random_range(0..self.clients.len());
        let client = self.clients.values_mut().nth(index).unwrap();
        if client.open.is_none() && client.left > 0 {
            client.left -= 1;
            client.sequence += 1;
            client.begun = self.steps;
            let request = client.draw();
            client.open = Some(request.clone());
            self.submit(request);
        }
    }

    /// Repeats an open request, because its client timed out or a sequencer lost its batch.
    fn ask_again(&mut self) {
        let index = self.random.random_range(0..self.clients.len());
        if let Some(mut request) = self.clients.values().nth(index).unwrap().open.clone() {
            if self.plant == Some(Plant::RunTwice) {
                request.attempt += 1;
            }
            self.submit(request);
        }
    }

    fn submit(&mut self, request: Request) {
        let at = self.random.random_range(0..self.sequencers.len());
        let batch = self.sequencers[at].submit(self.now, request);
        batch.into_iter().for_each(|batch| self.order.append(batch).unwrap());
    }

    /// Adds or removes a site, or moves a range.
    fn provision(&mut self) {
        let site = SiteId(self.random.random_range(1..5));
        let low = self.random.random_range(0..30);
        let range = KeyRange::ints(low, low + self.random.random_range(1..15));
        let range = if self.random.random_bool(0.2) { KeyRange::all() } else { range };
        let table = TableId(self.random.random_range(1..3));
        let provision = match self.random.random_range(0..6) {
            0 => Provision::AddSite(site),
            1 => Provision::RemoveSite(site),
            _ => Provision::MoveRange { table, range, to: site },
        };
        self.order.append(Batch { provisions: vec![provision], ..Batch::default() }).unwrap();
    }

    fn close_batches(&mut self) {
        for sequencer in &mut self.sequencers {
            let batch = sequencer.tick(self.now);
            batch.into_iter().for_each(|batch| self.order.append(batch).unwrap());
        }
    }

    fn sync(&mut self) {
        self.order.sync();
        while let Ok(Some(batch)) = self.order.read(self.serial.planner.next()) {
            let before = self.serial.planner.homes().sites().len();
            self.serial.run(&batch);
            let after = self.serial.planner.homes().sites().len();
            self.see("site added", usize::from(after > before));
            self.see("site removed", usize::from(after < before));
        }
    }

    fn some_node(&mut self) -> (usize, SiteId) {
        let copy = self.random.random_range(0..self.nodes.len());
        let at = self.random.random_range(0..self.nodes[copy].len());
        (copy, *self.nodes[copy].keys().nth(at).unwrap())
    }

    /// One site of each copy takes its next plan. Plans are taken faster than batches arrive;
    /// otherwise no run would end.
    fn take_plans(&mut self) -> Result<(), Failure> {
        for copy in 0..self.nodes.len() {
            let at = self.random.random_range(0..self.nodes[copy].len());
            let id = *self.nodes[copy].keys().nth(at).unwrap();
            self.take_plan(copy, id)?;
        }
        Ok(())
    }

    fn take_plan(&mut self, copy: usize, id: SiteId) -> Result<(), Failure> {
        let node = self.nodes[copy].get_mut(&id).unwrap();
        if node.site.open_batches() > 3 || node.site.next() >= self.order.durable() {
            return Ok(());
        }
        let batch = self.order.read(node.planner.next()).unwrap().unwrap();
        let plan = Arc::new(node.planner.plan(&batch));
        let agreed = *self.planned.entry(plan.batch).or_insert(plan.digest);
        if agreed != plan.digest {
            return broken("copies agree", format!("{id} of copy {copy} plans otherwise:\n{plan}"));
        }
        self.look(&plan);
        let planted = self.plant.map(|plant| plant.plan(&plan, id, &self.serial.aborted));
        self.input(copy, id, Input::Plan(planted.unwrap_or(plan)))
    }

    /// Counts the events of interest in a plan.
    fn look(&mut self, plan: &Plan) {
        self.see("repeat", plan.repeats.len());
        self.see("provision refused", plan.refused.len());
        for (at, step) in plan.steps.iter().enumerate() {
            self.see("several executors", usize::from(step.executors.len() > 1));
            for leg in &step.legs {
                match leg {
                    Leg::Range { to: Some(_), .. } => self.see("range moved", 1),
                    Leg::Range { fused, .. } => self.see("fused in a range", fused.len()),
                    Leg::Record { from, to, .. } if from != to => {
                        let aborts = self.serial.aborted.contains(&plan.id(at));
                        let is_carried = matches!(step.work, Work::Carry);
                        self.see("moved", 1);
                        self.see("moved and aborted", usize::from(aborts));
                        self.see("carried home", usize::from(is_carried));
                    }
                    Leg::Record { .. } => {}
                }
            }
        }
    }

    fn deliver(&mut self, faults: bool) -> Result<(), Failure> {
        let copy = self.random.random_range(0..self.wires.len());
        if self.wires[copy].is_empty() {
            return Ok(());
        }
        let at = self.random.random_range(0..self.wires[copy].len());
        let (from, to, message) = self.wires[copy].swap_remove(at);
        if faults && self.random.random_bool(0.1) {
            return Ok(());
        }
        if faults && self.random.random_bool(0.1) {
            self.wires[copy].push((from, to, message.clone()));
        }
        let message = self.plant.map_or(message.clone(), |plant| plant.message(message));
        self.input(copy, to, Input::Message(from, message))
    }

    fn tick(&mut self) -> Result<(), Failure> {
        let (copy, id) = self.some_node();
        self.input(copy, id, Input::Tick)
    }

    fn save(&mut self) -> Result<(), Failure> {
        let (copy, id) = self.some_node();
        let node = self.nodes[copy].get_mut(&id).unwrap();
        let Some(checkpoint) = node.site.checkpoint() else { return Ok(()) };
        let next = checkpoint.next();
        let mut planner = node.planner.clone();
        if self.plant == Some(Plant::TablesNotSaved) {
            planner = self.blank.clone();
            while planner.next() < next {
                planner.plan(&Batch::default());
            }
        }
        node.saved = Saved { planner, checkpoint, rows: node.rows.clone() };
        self.see("checkpoint", 1);
        let nodes = self.nodes.iter().flat_map(BTreeMap::values);
        let forgotten = nodes.map(|node| node.saved.checkpoint.next()).min().unwrap();
        self.order.truncate(forgotten.min(self.serial.planner.next())).unwrap();
        self.input(copy, id, Input::Saved(next))
    }

    /// A site loses its memory and recovers from its checkpoint.
    fn crash(&mut self) -> Result<(), Failure> {
        let (copy, id) = self.some_node();
        let node = self.nodes[copy].get_mut(&id).unwrap();
        let Saved { planner, checkpoint, rows } = node.saved.clone();
        node.site = Site::new(id, self.procedures.clone(), checkpoint);
        (node.planner, node.rows) = (planner, rows);
        if self.plant == Some(Plant::RowRots) {
            let rotten = node.rows.iter().next().map(|(record, _)| record.clone());
            rotten.into_iter().for_each(|record| node.rows.put(record, b"7".as_slice().into()));
        }
        self.see("crash", 1);
        Ok(())
    }

    fn input(&mut self, copy: usize, id: SiteId, input: Input) -> Result<(), Failure> {
        let node = self.nodes[copy].get_mut(&id).unwrap();
        let outputs = node.site.step(self.now, input, &mut node.rows);
        for output in outputs {
            match output {
                Output::Send(to, message) => {
                    self.see(
                        "asked for a push",
                        usize::from(matches!(message, Message::Ask { .. })),
                    );
                    self.wires[copy].push((id, to, message));
                }
                Output::Answer(client, sequence, answer) => {
                    self.answer(client, sequence, answer)?;
                }
                Output::Resubmit(request) => {
                    self.see("restart", 1);
                    self.submit(request);
                }
                Output::Finished(finished) => {
                    let place = (id, finished.batch);
                    let agreed = *self.finished.entry(place).or_insert(finished);
                    if agreed != finished {
                        let what = format!("{id} of copy {copy}: {finished:?}, was {agreed:?}");
                        return broken("copies agree", what);
                    }
                }
            }
        }
        Ok(())
    }

    fn answer(&mut self, id: ClientId, sequence: u64, answer: Answer) -> Result<(), Failure> {
        let right = self.serial.answers.get(&(id, sequence));
        if right != Some(&answer) {
            let (told, right) = (text(&answer), right.map(text));
            let what = format!("{id}#{sequence} is told {told}, should be {right:?}");
            return broken("answers", what);
        }
        self.see("answer", 1);
        self.see("abort", usize::from(answer.is_err()));
        let client = self.clients.get_mut(&id).unwrap();
        if let Some(request) = client.open.take_if(|open| open.sequence == sequence) {
            let seen = seen(&request, &answer, client.begun, self.steps);
            self.history.extend(seen);
        }
        Ok(())
    }

    fn why_not_settled(&self) -> Option<String> {
        if let Some(client) = self.clients.values().find(|c| c.open.is_some() || c.left > 0) {
            return Some(format!("{} waits: {:?}", client.id, client.open));
        }
        for (copy, id, node) in self.all_nodes() {
            if node.site.next() < self.order.durable() || !node.site.locks().is_empty() {
                return Some(format!("{id} of copy {copy} is not idle"));
            }
        }
        None
    }

    fn all_nodes(&self) -> impl Iterator<Item = (usize, SiteId, &Node)> {
        let copies = self.nodes.iter().enumerate();
        copies.flat_map(|(copy, nodes)| nodes.iter().map(move |(&id, node)| (copy, id, node)))
    }

    fn check_end(&mut self) -> Result<(), Failure> {
        self.sync();
        for copy in 0..self.nodes.len() {
            self.check_rows(copy)?;
        }
        for (copy, id, node) in self.all_nodes() {
            if node.site.locks().places() > 0 {
                return broken("settles", format!("{id} of copy {copy} knows of locks"));
            }
        }
        let history = History { transactions: std::mem::take(&mut self.history) };
        let anomalies = judge(&history.at(Level::Serializable));
        match anomalies.first() {
            Some(anomaly) => broken("histories", format!("{anomaly:?}")),
            None => Ok(()),
        }
    }

    fn check_rows(&self, copy: usize) -> Result<(), Failure> {
        let mut all = MemoryRows::new();
        let mut count = 0;
        for (id, node) in &self.nodes[copy] {
            for (record, row) in node.rows.iter() {
                let planner = &self.serial.planner;
                let home = planner.homes().home(record.0, &record.1);
                let place = planner.fusion().get(record).or(home);
                if place != Some(*id) {
                    return broken("rows", format!("{record:?} is at {id}, not {place:?}"));
                }
                all.put(record.clone(), row.clone());
                count += 1;
            }
        }
        if all != self.serial.rows || count != all.iter().count() {
            let right = &self.serial.rows;
            return broken("rows", format!("copy {copy} has {all:?}, should be {right:?}"));
        }
        Ok(())
    }
}

impl Client {
    fn draw(&mut self) -> Request {
        let mut random = self.random.clone();
        let account = |random: &mut Random| {
            // A few keys are hot.
            let most = if random.random_bool(0.5) { 30 } else { 4 };
            random.random_range(0..most) * 7 % 30
        };
        let (a, b) = (account(&mut random), account(&mut random));
        let low = random.random_range(0..28);
        let range = [low, low + random.random_range(1..12)];
        let unique = (self.id.0 * 1000 + self.sequence) as i64;
        let (procedure, args) = match random.random_range(0..100) {
            0..25 => ("transfer", vec![a, b, random.random_range(0..8)]),
            25..35 => ("show", vec![a, b]),
            35..45 => ("sum", range.to_vec()),
            45..52 => ("open", vec![a, 5]),
            52..59 => ("close", vec![a]),
            59..79 => ("append", vec![a % 6, unique, b % 6]),
            79..86 => ("follow", vec![a]),
            86..91 => ("sweep", range.to_vec()),
            91..97 => ("enter", vec![range[0], range[1], 3]),
            97..99 => ("panic", vec![a]),
            _ => ("unknown", vec![]),
        };
        let mut footprint = footprint(procedure, &args);
        if random.random_bool(0.05) {
            footprint = Footprint::new();
        }
        self.random = random;
        let params = args.iter().map(i64::to_string).collect::<Vec<_>>().join(" ").into_bytes();
        let procedure = procedure.to_owned();
        let (client, sequence) = (self.id, self.sequence);
        Request { client, sequence, attempt: 0, procedure, params, footprint }
    }
}

/// Formats an answer for reports.
pub(crate) fn text(answer: &Answer) -> String {
    match answer {
        Ok(output) => String::from_utf8_lossy(output).into_owned(),
        Err(abort) => format!("aborted: {abort}"),
    }
}

/// The list operations that a client saw, for the history checker.
fn seen(request: &Request, answer: &Answer, begun: u64, ended: u64) -> Option<Transaction> {
    if request.procedure != "append" {
        return None;
    }
    let numbers = |text: &[u8]| -> Vec<i64> {
        let text = std::str::from_utf8(text).unwrap();
        text.split_whitespace().map(|word| word.parse().unwrap()).collect()
    };
    let args = numbers(&request.params);
    let read = answer.as_ref().map_or(Vec::new(), |read| numbers(read));
    Some(Transaction {
        name: format!("{}#{}", request.client, request.sequence),
        session: Some(request.client.to_string()),
        begun: Some(begun),
        ended: Some(ended),
        outcome: Outcome::Committed,
        level: Level::Serializable,
        statements: vec![vec![
            Op::Read(args[2].to_string(), read),
            Op::Append(args[0].to_string(), args[1]),
        ]],
    })
}
