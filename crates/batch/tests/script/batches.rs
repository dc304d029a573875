//! Scripts about batches at three sites.

use crate::procedures::{ACCOUNTS, footprint, procedures};
use crate::{Outcome, parse};
use goldenscript::{Command, Context, Runner};
use isomer_batch::{
    ASK_AFTER_NS, Answer, Batch, Checkpoint, ClientId, FusionTable, Homes, Input, MemoryOrder,
    MemoryRows, Message, Migration, Order, Output, Planner, Provision, Replacement, Request, Site,
};
use isomer_design::{Design, Footprint, Key, KeyRange, SiteId, Time};
use isomer_plan::route::engine::EngineRouter;
use isomer_plan::route::{Alpha, Options};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;

#[test]
fn batch_scripts() {
    crate::run("batches", || Bench::new(EngineRouter::Hermes(Options::default()), None));
}

pub(crate) const DESIGN: &str = "
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
      partition [] master s2
";

struct Node {
    planner: Planner,
    site: Site,
    rows: MemoryRows,
    is_down: bool,
    saved: (Planner, Checkpoint, MemoryRows),
}

struct Bench {
    now: Time,
    order: MemoryOrder,
    nodes: BTreeMap<SiteId, Node>,
    wire: VecDeque<(SiteId, SiteId, Message)>,
    held: BTreeSet<(SiteId, SiteId)>,
    waiting: Vec<Arc<Request>>,
    last: BTreeMap<ClientId, Request>,
    shown: BTreeSet<u64>,
    out: String,
}

fn node(id: SiteId, planner: Planner, rows: MemoryRows) -> Node {
    let checkpoint = Checkpoint::initial(&rows);
    let site = Site::new(id, procedures(), checkpoint.clone());
    let saved = (planner.clone(), checkpoint, rows.clone());
    Node { planner, site, rows, is_down: false, saved }
}

fn site(text: Option<&str>) -> Outcome<SiteId> {
    Ok(SiteId(parse("site", text.and_then(|name| name.strip_prefix('s')))?))
}

fn text(answer: &Answer) -> String {
    match answer {
        Ok(output) if output.is_empty() => "done".to_owned(),
        Ok(output) => String::from_utf8_lossy(output).into_owned(),
        Err(abort) => format!("aborted: {abort}"),
    }
}

impl Bench {
    fn new(router: EngineRouter, fusion_max: Option<usize>) -> Bench {
        let homes = Homes::of(&Design::parse(DESIGN).unwrap());
        let fusion = FusionTable::new(Replacement::Fifo, fusion_max);
        let planner = Planner::new(homes, Arc::new(router), fusion);
        let sites = (1..=3).map(SiteId);
        let nodes = sites.map(|id| (id, node(id, planner.clone(), MemoryRows::new()))).collect();
        Bench {
            now: Time::ZERO,
            order: MemoryOrder::new(),
            nodes,
            wire: VecDeque::new(),
            held: BTreeSet::new(),
            waiting: Vec::new(),
            last: BTreeMap::new(),
            shown: BTreeSet::new(),
            out: String::new(),
        }
    }

    /// Creates accounts at their homes.
    fn rows(&mut self, from: i64, to: i64, balance: &str) {
        for key in from..to {
            let home = SiteId((key / 10).min(2) as u16 + 1);
            let rows = &mut self.nodes.get_mut(&home).unwrap().rows;
            rows.put((ACCOUNTS, Key::int(key)), balance.as_bytes().into());
        }
        for (&id, old) in &mut self.nodes {
            *old = node(id, old.planner.clone(), old.rows.clone());
        }
    }

    fn request(&mut self, client: ClientId, command: &Command) -> Outcome<()> {
        let mut args = command.consume_args();
        let knows_none = args.take_key("footprint") == Some("none");
        let words: Vec<&str> = std::iter::from_fn(|| args.next_pos()).collect();
        args.reject_next()?;
        let numbers = words.iter().map(|word| parse("number", Some(word)));
        let numbers = numbers.collect::<Outcome<Vec<i64>>>()?;
        let declared = footprint(&command.name, &numbers);
        let request = Request {
            client,
            sequence: self.last.get(&client).map_or(1, |last| last.sequence + 1),
            attempt: 0,
            procedure: command.name.clone(),
            params: words.join(" ").into_bytes(),
            footprint: if knows_none { Footprint::new() } else { declared },
        };
        self.last.insert(client, request.clone());
        self.waiting.push(Arc::new(request));
        Ok(())
    }

    fn provision(&mut self, provision: Provision) {
        let _ = writeln!(self.out, "{} {provision}", self.order.durable());
        let batch = Batch { provisions: vec![provision], ..Batch::default() };
        self.order.append(batch).unwrap();
        self.order.sync();
        self.settle();
    }

    /// Runs the sites and delivers messages until nothing is left to do.
    fn settle(&mut self) {
        loop {
            for id in self.nodes.keys().copied().collect::<Vec<_>>() {
                self.take_plans(id);
            }
            let free =
                self.wire.iter().position(|(from, to, _)| !self.held.contains(&(*from, *to)));
            let Some(free) = free else { return };
            let (from, to, message) = self.wire.remove(free).unwrap();
            let _ = writeln!(self.out, "{from} → {to}  {message}");
            self.input(to, Input::Message(from, message));
        }
    }

    fn take_plans(&mut self, id: SiteId) {
        loop {
            let node = self.nodes.get_mut(&id).unwrap();
            if node.is_down {
                return;
            }
            let Some(batch) = self.order.read(node.planner.next()).unwrap() else { return };
            let plan = node.planner.plan(&batch);
            if self.shown.insert(plan.batch) {
                let _ = write!(self.out, "{plan}");
            }
            self.input(id, Input::Plan(Arc::new(plan)));
        }
    }

    fn input(&mut self, id: SiteId, input: Input) {
        let node = self.nodes.get_mut(&id).unwrap();
        for output in node.site.step(self.now, input, &mut node.rows) {
            match output {
                Output::Send(to, message) => {
                    if self.held.contains(&(id, to)) {
                        let _ = writeln!(self.out, "{id} ⇥ {to}  {message}");
                    }
                    self.wire.push_back((id, to, message));
                }
                Output::Answer(client, sequence, answer) => {
                    let _ = writeln!(self.out, "{client}#{sequence}: {} ({id})", text(&answer));
                }
                Output::Resubmit(request) => {
                    let _ = writeln!(self.out, "{request} needs {} ({id})", request.footprint);
                    self.waiting.push(Arc::new(request));
                }
                Output::Finished(_) => {}
            }
        }
    }

    fn show(&mut self) {
        for (id, node) in &self.nodes {
            let row = |((_, key), row): (&(_, Key), &Arc<[u8]>)| {
                format!("{key}={}", String::from_utf8_lossy(row))
            };
            let rows: Vec<String> = node.rows.iter().map(row).collect();
            let rows = if rows.is_empty() { "no rows".to_owned() } else { rows.join(" ") };
            let _ = writeln!(self.out, "{id}  {rows}");
        }
        let planner = &self.nodes[&SiteId(1)].planner;
        let fused: Vec<String> =
            planner.fusion().iter().map(|((_, key), site)| format!("{key}@{site}")).collect();
        let fused = if fused.is_empty() { "nothing".to_owned() } else { fused.join(" ") };
        let _ = writeln!(self.out, "fused: {fused}");
    }

    fn link(&self, command: &Command) -> Outcome<(SiteId, SiteId)> {
        let mut args = command.consume_args();
        Ok((site(args.next_pos())?, site(args.next_pos())?))
    }

    fn set_up(&mut self, command: &Command) -> Outcome<()> {
        let mut args = command.consume_args();
        let fusion = args.take_key("fusion").map(|most| parse("size", Some(most))).transpose()?;
        let alpha = args.take_key("alpha").map(str::parse::<Alpha>).transpose()?;
        let mut router: EngineRouter = args.next_pos().ok_or("which router?")?.parse()?;
        if let (EngineRouter::Hermes(options), Some(alpha)) = (&mut router, alpha) {
            options.alpha = alpha;
        }
        *self = Bench::new(router, fusion);
        Ok(())
    }
}

impl Runner for Bench {
    type Command = Command;

    fn run(&mut self, command: &Command, context: &Context) -> Outcome<String> {
        if let Some(name) = &context.prefix {
            let client = ClientId(parse("client", name.strip_prefix('c'))?);
            match command.name.as_str() {
                "again" => {
                    let last = self.last.get(&client).ok_or("the client has not asked")?;
                    self.waiting.push(Arc::new(last.clone()));
                }
                _ => self.request(client, command)?,
            }
            return Ok(String::new());
        }
        let mut args = command.consume_args();
        match command.name.as_str() {
            "router" => self.set_up(command)?,
            "rows" => {
                let (from, to) = (parse("key", args.next_pos())?, parse("key", args.next_pos())?);
                self.rows(from, to, args.next_pos().unwrap_or("0"));
            }
            "batch" => {
                let requests = std::mem::take(&mut self.waiting);
                self.order.append(Batch { requests, ..Batch::default() })?;
                self.order.sync();
                self.settle();
            }
            "add" => {
                let id = site(args.next_pos())?;
                // The new site's planner is a clone of another site's planner from before the batch
                // that adds it.
                let planner = self.nodes[&SiteId(2)].planner.clone();
                let joins = Checkpoint::joining(planner.next());
                let added = Node {
                    site: Site::new(id, procedures(), joins.clone()),
                    rows: MemoryRows::new(),
                    is_down: false,
                    saved: (planner.clone(), joins, MemoryRows::new()),
                    planner,
                };
                self.nodes.entry(id).or_insert(added);
                self.provision(Provision::AddSite(id));
            }
            "remove" => self.provision(Provision::RemoveSite(site(args.next_pos())?)),
            "move" => {
                let start = match args.next_pos() {
                    Some("start") => Key::min(),
                    from => Key::int(parse("key", from)?),
                };
                let end = Key::int(parse("key", args.next_pos())?);
                let (table, range) = (ACCOUNTS, KeyRange::new(start, Some(end)));
                let to = site(args.next_pos())?;
                let rows_max: usize =
                    parse("number of rows", args.take_key("rows").or(Some("999")))?;
                let old = self.nodes[&SiteId(2)].planner.homes().home(table, &range.start);
                let old = old.ok_or("no such table")?;
                let mut migration = Migration { table, rest: Some(range), to };
                while let Some(chunk) = migration.next_chunk(&self.nodes[&old].rows, rows_max) {
                    self.provision(chunk);
                }
            }
            "hold" => drop(self.held.insert(self.link(command)?)),
            "free" => {
                self.held.remove(&self.link(command)?);
                self.settle();
            }
            "lose" => {
                let link = self.link(command)?;
                self.wire.retain(|(from, to, _)| (*from, *to) != link);
                self.held.remove(&link);
            }
            "down" => self.nodes.get_mut(&site(args.next_pos())?).unwrap().is_down = true,
            "crash" => {
                let id = site(args.next_pos())?;
                let node = self.nodes.get_mut(&id).unwrap();
                let (planner, checkpoint, rows) = node.saved.clone();
                node.site = Site::new(id, procedures(), checkpoint);
                (node.planner, node.rows, node.is_down) = (planner, rows, true);
                self.wire.retain(|(_, to, _)| *to != id);
            }
            "up" => {
                self.nodes.get_mut(&site(args.next_pos())?).unwrap().is_down = false;
                self.settle();
            }
            "save" => {
                let id = site(args.next_pos())?;
                let node = self.nodes.get_mut(&id).unwrap();
                let checkpoint = node.site.checkpoint().ok_or(format!("{id} is not idle"))?;
                let next = checkpoint.next();
                node.saved = (node.planner.clone(), checkpoint, node.rows.clone());
                self.input(id, Input::Saved(next));
                self.settle();
            }
            "tick" => {
                self.now.0 += ASK_AFTER_NS;
                for id in self.nodes.keys().copied().collect::<Vec<_>>() {
                    self.input(id, Input::Tick);
                }
                self.settle();
            }
            "show" => self.show(),
            "locks" => {
                for (id, node) in &self.nodes {
                    for (step, waits) in node.site.locks().waits() {
                        let _ = match waits {
                            0 => writeln!(self.out, "{id}  {step} has its locks"),
                            waits => writeln!(self.out, "{id}  {step} waits for {waits}"),
                        };
                    }
                }
            }
            other => return Err(format!("no command {other}").into()),
        }
        Ok(std::mem::take(&mut self.out))
    }
}
