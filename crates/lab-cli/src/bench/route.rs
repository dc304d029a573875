//! `isomer-lab bench route`: the cost of routing and planning by the number of sites and
//! partitions.
//!
//! No site runs. The benchmark builds a design of `--partitions` partitions with two replicas each
//! for each number of sites, its routing table, and an autopilot that has observed transactions and
//! the load of the sites. All designs are measured in turns, and the median counts:
//!
//! | figure | of a transaction with three keys |
//! | --- | --- |
//! | route | making its footprint, and finding the sites that can run it |
//! | decide | all costs before it is sent, with its share of measuring, learning and planning |
//! | think | a planning pass, for a transaction that no site can run; most need none |
//! | state | design and routing table, in bytes for each partition |
//!
//! Of ten transactions four write at one site, five read at one of three, and one writes at two.
//! Accesses lie in 16,384 places all over the design, which do not fit into the caches. With JSON,
//! a last line compares the largest number of sites with the smallest, in the form of the
//! laboratory's results.

use isomer::failure::Failure;
use isomer::{clock, out, text};
use isomer_design::{
    Column, ColumnType, Design, Footprint, Key, Placement, RoutingTable, Schema, SiteId, TableId,
    Time,
};
use isomer_lab::{Mean, Row};
use isomer_plan::learned::{Mode, Tuning};
use isomer_plan::strategy::Learned;
use isomer_strategy::{Measured, Occasion, Report, Request, SiteLoad, Stage, Strategy, Verdict};
use isomer_workload::{Random, random};
use rand::RngExt;
use serde::Serialize;
use std::hint::black_box;

const TABLE: TableId = TableId(1);
const PARTITION_KEYS: u64 = 10;
const REPLICAS: u64 = 2;
/// Partitions that the first key of a transaction is drawn from.
const PLACES: u64 = 16_384;
const ROUNDS: usize = 31;
/// Transactions routed in a round, decided in a round, and observed by the autopilot before.
const ROUTED: u64 = 2000;
const DECIDED: u64 = 10_000;
const LEARNED: u64 = 100_000;
/// Virtual time from one transaction to the next.
const EVERY_NS: u64 = 10_000;

/// The cost of routing and planning per transaction, by the number of sites and partitions
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  isomer-lab bench route
  isomer-lab bench route --partitions 100000 --sites 4,16,64 --json")]
pub(crate) struct RouteArgs {
    /// Numbers of sites, one design for each
    #[arg(long, value_delimiter = ',', default_values_t = [16, 1000])]
    sites: Vec<u16>,
    /// Partitions of each design
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1000..=100_000_000))]
    partitions: u64,
    /// Seed of the keys
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Prints one line of JSON for each design, and one that compares them
    #[arg(long)]
    json: bool,
}

/// Figures of one design, in nanoseconds.
#[derive(Serialize)]
struct Figures {
    bench: &'static str,
    sites: u16,
    partitions: u64,
    replicas: u64,
    seed: u64,
    route_ns: f64,
    decide_ns: f64,
    think_ns: f64,
    /// Bytes of design and routing table for each partition.
    state_bytes: f64,
}

/// Measures all designs.
pub(super) fn run(args: &RouteArgs) -> Result<(), Failure> {
    let mut subjects = Vec::new();
    for &sites in &args.sites {
        eprintln!("{} partitions at {sites} sites", text::count(args.partitions));
        subjects.push(Subject::new(sites, args)?);
    }
    subjects.iter_mut().for_each(|subject| (0..LEARNED).for_each(|_| subject.transact()));
    let mut rounds: Vec<Vec<[f64; 2]>> = subjects.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for (subject, rounds) in subjects.iter_mut().zip(&mut rounds) {
            rounds.push(subject.round());
        }
    }
    let begun = clock::now();
    let now = || clock::elapsed_ns(begun);
    let figures = subjects.iter().zip(&rounds).map(|(subject, rounds)| Figures {
        bench: "route",
        sites: subject.sites,
        partitions: args.partitions,
        replicas: REPLICAS,
        seed: args.seed,
        route_ns: median(rounds.iter().map(|[route, _]| *route)),
        decide_ns: median(rounds.iter().map(|[_, decide]| *decide)),
        think_ns: subject.think(&now),
        state_bytes: subject.state_bytes(),
    });
    let figures: Vec<Figures> = figures.collect();
    match args.json {
        true => tell_lines(args, &figures, &rounds),
        false => tell_table(&figures),
    }
}

fn tell_table(figures: &[Figures]) -> Result<(), Failure> {
    let head = ["sites", "partitions", "route", "decide", "think", "state"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(figures.iter().map(|figures| {
        vec![
            figures.sites.to_string(),
            text::count(figures.partitions),
            text::duration(figures.route_ns),
            text::duration(figures.decide_ns),
            text::duration(figures.think_ns),
            format!("{:.0} B", figures.state_bytes),
        ]
    }));
    out::print(text::columns(&rows, 0));
    Ok(())
}

fn tell_lines(
    args: &RouteArgs,
    figures: &[Figures],
    rounds: &[Vec<[f64; 2]>],
) -> Result<(), Failure> {
    for figures in figures {
        out::line(serde_json::to_string(figures).map_err(Failure::failed)?);
    }
    let ends = figures.first().zip(rounds.first()).zip(figures.last().zip(rounds.last()));
    let Some(((few, few_rounds), (many, many_rounds))) = ends else { return Ok(()) };
    let RouteArgs { partitions, seed, .. } = args;
    let factors = few_rounds.iter().zip(many_rounds).map(|(few, many)| many[1] / few[1]);
    let factors: Vec<f64> = factors.collect();
    let ours = median(factors.iter().copied());
    let goal = 2.0;
    let row = Row {
        experiment: "route".to_owned(),
        figure: String::new(),
        system: "learned".to_owned(),
        x: Some(f64::from(many.sites)),
        metric: format!(
            "routing and planning per transaction, {} partitions: times as much as at {} sites",
            text::count(*partitions),
            few.sites
        ),
        paper: None,
        goal: Some(goal),
        reached: Some(ours <= goal),
        ours,
        ci95: Mean::of(&factors).and_then(|mean| mean.ci95),
        seeds: 1,
        command: format!(
            "isomer-lab bench route --sites {},{} --partitions {partitions} --seed {seed} --json",
            few.sites, many.sites
        ),
    };
    out::line(serde_json::to_string(&row).map_err(Failure::failed)?);
    Ok(())
}

/// A design with its routing table and its autopilot.
struct Subject {
    sites: u16,
    partitions: u64,
    rng: Random,
    design: Design,
    table: RoutingTable,
    learned: Learned,
    now_ns: u64,
    ticket: u64,
}

impl Subject {
    fn new(sites: u16, args: &RouteArgs) -> Result<Subject, Failure> {
        let mut design = Design::new((1..=sites).map(SiteId)).map_err(Failure::usage)?;
        let columns = vec![Column::new("id", ColumnType::Int64)];
        let schema = Schema::new("rows", columns, &["id"]).map_err(Failure::failed)?;
        let partitions = (0..args.partitions).map(|at| (start(at), place(at, sites)));
        design.create_table(TABLE, schema, partitions).map_err(Failure::failed)?;
        let table = RoutingTable::of(&design);
        // In this mode the autopilot plans changes, but does not carry them out: there are no
        // sites.
        let learned = Learned::new(Tuning { mode: Mode::Recommend, ..Tuning::default() });
        let (partitions, rng) = (args.partitions, random(args.seed));
        Ok(Subject { sites, partitions, rng, design, table, learned, now_ns: 0, ticket: 0 })
    }

    /// Draws the footprint of a transaction with three keys.
    fn footprint(&mut self) -> Footprint {
        let places = PLACES.min(self.partitions - 1);
        let first = self.rng.random_range(0..places) * ((self.partitions - 1) / places);
        let kind = self.rng.random_range(0..10);
        let second = if kind == 0 { first + 1 } else { first };
        let key = |partition: u64, key: u64| Key::int((partition * PARTITION_KEYS + key) as i64);
        let keys = [key(first, 1), key(first, 5), key(second, 7)];
        keys.into_iter().fold(Footprint::new(), |all, key| match kind {
            0..5 => all.write(TABLE, key),
            _ => all.read(TABLE, key),
        })
    }

    /// Routes one transaction, decides about it, and reports it as run.
    fn transact(&mut self) {
        self.now_ns += EVERY_NS;
        self.ticket += 1;
        let footprint = self.footprint();
        let request = Request {
            footprint: &footprint,
            route: self.table.home(&footprint),
            last_site: None,
            ticket: self.ticket,
            now: Time(self.now_ns),
            reserved: false,
            stage: Stage::Whole,
            design: &|| self.design.clone(),
        };
        let Ok(Verdict::Run(decision)) = self.learned.decide(&request) else {
            panic!("the table exists, and the autopilot reserves nothing")
        };
        let measured = self.learned.wants(self.ticket).then(|| Measured {
            service_ns: 50_000,
            rows: [3, 3],
            ..Measured::default()
        });
        self.learned.observe(&Report {
            ticket: self.ticket,
            footprint: &footprint,
            site: decision.place.site(),
            changes: 0,
            now: Time(self.now_ns),
            latency_ns: 100_000,
            measured,
        });
        if measured.is_some() && self.learned.wants_loads(Time(self.now_ns)) {
            let load = |site| SiteLoad {
                site,
                busy: Some(0.5),
                memory_bytes: 0,
                memory_max: None,
                hot_locks: Vec::new(),
                process: None,
            };
            let loads: Vec<SiteLoad> = (1..=self.sites).map(|site| load(SiteId(site))).collect();
            self.learned.loads(Time(self.now_ns), &loads);
            self.learned.plan_globally(&self.occasion());
        }
        if decision.is_occasion {
            self.learned.plan(&self.occasion());
        }
    }

    fn occasion(&self) -> Occasion<'_> {
        Occasion { now: Time(self.now_ns), design: &self.design, worked_ns: &|| 0 }
    }

    /// Measures nanoseconds to route a transaction, and to decide about one.
    fn round(&mut self) -> [f64; 2] {
        let begun = clock::now();
        for _ in 0..ROUTED {
            let footprint = self.footprint();
            black_box(self.table.home(&footprint));
        }
        let routed = clock::elapsed_ns(begun);
        (0..DECIDED).for_each(|_| self.transact());
        let decided = clock::elapsed_ns(begun) - routed;
        [routed as f64 / ROUTED as f64, decided as f64 / DECIDED as f64]
    }

    fn think(&self, now: &dyn Fn() -> u64) -> f64 {
        let (keys, apart) = (self.partitions * PARTITION_KEYS, PARTITION_KEYS);
        isomer_lab::think(&self.design, TABLE, (keys as i64, apart as i64), now)
    }

    fn state_bytes(&self) -> f64 {
        let design = self.design.table(TABLE).map_or(0, |table| table.partitions().bytes());
        (design + self.table.bytes()) as f64 / self.partitions as f64
    }
}

fn start(at: u64) -> Key {
    if at == 0 { Key::min() } else { Key::int((at * PARTITION_KEYS) as i64) }
}

/// The master, and replicas a third and two thirds of the sites further on. Neighbouring partitions
/// are at different sites.
fn place(at: u64, sites: u16) -> Placement {
    let sites = u64::from(sites);
    let site = |further: u64| SiteId(((at + further) % sites) as u16 + 1);
    let replicas = (1..=REPLICAS).map(|replica| site(replica * sites / (REPLICAS + 1)));
    let master = site(0);
    Placement::new(master, replicas.filter(|replica| *replica != master))
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
