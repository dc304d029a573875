//! Scripts about placements: keys with weights and sites, edges, then a planner.

use crate::{parse, run, site};
use goldenscript::{Command, Context, Runner};
use isomer_plan::baseline::{drtmb, estore, metis, optimum, schism};
use isomer_plan::clay::{self, ClumpIndex, Step};
use isomer_plan::drift;
use isomer_plan::heat::HeatGraph;
use isomer_plan::problem::{
    Cost, Loads, MappedDesign, Placement, Problem, Proposal, plan_text, site_name,
};
use isomer_plan::recording::{KeyRef, KeyTable, Vertex};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::sync::Arc;

#[test]
fn clay_scripts() {
    run("clay", State::default);
}

#[test]
fn drift_scripts() {
    run("drift", State::default);
}

#[test]
fn baseline_scripts() {
    run("baselines", State::default);
}

/// The state of a script.
struct State {
    sites: usize,
    cost: Cost,
    /// By key: weight and site.
    keys: BTreeMap<(String, i64), (f64, u16)>,
    edges: Vec<(String, String, f64)>,
    clumps: ClumpIndex,
    last: Option<Proposal>,
}

impl Default for State {
    fn default() -> State {
        State {
            sites: 1,
            cost: Cost::flat(50.0),
            keys: BTreeMap::new(),
            edges: Vec::new(),
            clumps: ClumpIndex::new(),
            last: None,
        }
    }
}

type Outcome<T> = Result<T, Box<dyn Error>>;

fn name(text: &str) -> Outcome<(String, i64)> {
    let (table, key) = text.split_once('/').ok_or("a key is written table/number")?;
    Ok((table.to_owned(), parse("key", key)?))
}

impl State {
    fn graph(&self) -> Outcome<HeatGraph> {
        let mut keys = KeyTable::new();
        for (table, key) in self.keys.keys() {
            keys.intern(table, KeyRef::Int(*key))?;
        }
        keys.sort();
        let weights: Vec<f64> = self.keys.values().map(|value| value.0).collect();
        let vertex = |text: &str| -> Outcome<Vertex> {
            let (table, key) = name(text)?;
            keys.find(&table, KeyRef::Int(key)).ok_or_else(|| format!("no key {text}").into())
        };
        let edge = |(a, b, weight): &(String, String, f64)| Ok((vertex(a)?, vertex(b)?, *weight));
        let edges = self.edges.iter().map(edge).collect::<Outcome<Vec<_>>>()?;
        Ok(HeatGraph::with_keys(Arc::new(keys), &weights, &edges)?)
    }

    fn placement(&self) -> Placement {
        Placement::new(self.sites, self.keys.values().map(|value| value.1).collect())
    }

    fn plan(&mut self, command: &Command) -> Outcome<String> {
        let mut args = command.consume_args();
        let graph = self.graph()?;
        let placement = self.placement();
        let imbalance = args.take_key("epsilon").map_or(Ok(0.1), |v| parse("epsilon", v))?;
        let mut options = clay::Options::default();
        if let Some(value) = args.take_key("threshold") {
            options.threshold = Some(parse("threshold", value)?);
        }
        if let Some(value) = args.take_key("look_ahead") {
            options.look_ahead = parse("look_ahead", value)?;
        }
        if let Some(value) = args.take_key("add") {
            options.sites_added_max = parse("add", value)?;
        }
        let low_high = match (args.take_key("low"), args.take_key("high")) {
            (Some(low), Some(high)) => Some((parse("low", low)?, parse("high", high)?)),
            _ => None,
        };
        let hot_share = args.take_key("hot").map_or(Ok(0.01), |v| parse("hot", v))?;
        let planner = args.next_pos().unwrap_or("clay").to_owned();
        args.reject_next()?;
        let problem = Problem { graph: &graph, placement: &placement, cost: self.cost, imbalance };
        let mut out = String::new();
        let mut tell = |step: Step| {
            let _ = writeln!(out, "{}", step.describe(&graph));
        };
        let proposal = match planner.as_str() {
            "clay" => clay::plan_step_by_step(&problem, &options, &mut tell)?,
            "scale_in" => clay::scale_in(&problem, low_high)?,
            "drift" => {
                let options = drift::Options { clay: options, gain_min: 0.0, ..Default::default() };
                drift::plan(&problem, &options)?
            }
            "estore" => {
                let options = estore::Options { hot_share, chunk_keys: 2 };
                estore::plan(&problem, options)?
            }
            "drtmb" => {
                let options = drtmb::Options { partitions_per_site: 2, backups: 1, hot_share };
                drtmb::plan(&problem, options)?
            }
            "metis" => metis::plan(&problem, 0.1)?,
            "schism" => schism::plan(&problem, schism::Options::default())?,
            "optimum" => optimum::plan(&problem)?,
            other => return Err(format!("no planner {other}").into()),
        };
        for step in &proposal.moves {
            writeln!(out, "{}: {}", site_name(step.to), step.reason)?;
        }
        proposal.lost.iter().try_for_each(|line| writeln!(out, "lost: {line}"))?;
        proposal.notes.iter().try_for_each(|line| writeln!(out, "note: {line}"))?;
        let after = Loads::of(&graph, &proposal.placement, self.cost);
        let moved = proposal.keys_moved(&placement);
        writeln!(out, "after: {}; {moved} keys moved", show(&after))?;
        self.last = Some(proposal);
        Ok(out)
    }

    /// The last proposal as changes of the design, and the design that they lead to.
    fn changes(&self) -> Outcome<String> {
        let proposal = self.last.as_ref().ok_or("nothing was planned")?;
        let graph = self.graph()?;
        let mapped = MappedDesign::of_placement(graph.keys(), &self.placement())?;
        let plan = mapped.plan(proposal)?;
        let after = plan.validate(mapped.design())?;
        let wanted = MappedDesign::of_placement(graph.keys(), &proposal.placement)?;
        assert_eq!(after, *wanted.design());
        Ok(plan_text(&plan, mapped.design()) + &after.summary())
    }

    /// Makes the last proposal the current placement.
    fn apply(&mut self) -> Outcome<String> {
        let proposal = self.last.take().ok_or("nothing was planned")?;
        self.clumps.record(&self.graph()?, &self.placement(), &proposal);
        self.adopt(&proposal.placement);
        Ok(format!("{} moved clumps are remembered\n", self.clumps.clumps().len()))
    }

    fn adopt(&mut self, placement: &Placement) {
        self.sites = placement.sites();
        for (value, &site) in self.keys.values_mut().zip(placement.site_of()) {
            value.1 = site;
        }
    }

    fn compact(&mut self, hot_share: f64) -> Outcome<String> {
        let graph = self.graph()?;
        let before = self.placement();
        let (after, moves) = self.clumps.compact(&graph, &before, self.cost, hot_share);
        self.adopt(&after);
        let mut out = String::new();
        for step in moves {
            writeln!(out, "{}: {}", site_name(step.to), step.reason)?;
        }
        let text = self.clumps.to_text();
        assert_eq!(ClumpIndex::parse(&text)?, self.clumps);
        out += &text;
        let entries = [before, after].map(|placement| placement.routing_entries(&graph));
        writeln!(out, "routing entries: {} before, {} after", entries[0], entries[1])?;
        Ok(out)
    }
}

fn show(loads: &Loads) -> String {
    let each = |(at, load): (usize, &f64)| format!("{} {load:.1}", site_name(at as u16));
    loads.0.iter().enumerate().map(each).collect::<Vec<_>>().join(", ")
}

impl Runner for State {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Outcome<String> {
        let mut args = command.consume_args();
        match command.name.as_str() {
            // sites 3 k=50 | sites 6 near=1.1 far=50 per_server=2
            "sites" => {
                self.sites = parse("sites", args.next_pos().ok_or("how many?")?)?;
                let k = args.take_key("k").map_or(Ok(50.0), |v| parse("k", v))?;
                self.cost = Cost::flat(k);
                if let Some(near) = args.take_key("near") {
                    self.cost.near = parse("near", near)?;
                    let per_server = args.take_key("per_server").unwrap_or("1");
                    self.cost.sites_per_server = parse("per_server", per_server)?;
                }
            }
            // key parts/1 parts/2 at=s1 weight=10
            "key" => {
                let at = site(args.take_key("at").ok_or("at which site?")?)?;
                let weight = args.take_key("weight").map_or(Ok(1.0), |v| parse("weight", v))?;
                while let Some(key) = args.next_pos() {
                    self.keys.insert(name(key)?, (weight, at));
                }
            }
            // heat parts/1 parts/2 weight=3
            "heat" => {
                let weight: f64 = parse("weight", args.take_key("weight").ok_or("how much?")?)?;
                while let Some(key) = args.next_pos() {
                    self.keys.get_mut(&name(key)?).ok_or("no such key")?.0 = weight;
                }
            }
            // edge parts/1 parts/2 weight=2; a second edge between the same keys replaces the first
            "edge" => {
                let weight: f64 =
                    args.take_key("weight").map_or(Ok(1.0), |v| parse("weight", v))?;
                let a = args.next_pos().ok_or("between which keys?")?.to_owned();
                while let Some(b) = args.next_pos() {
                    self.edges.retain(|(c, d, _)| (c, d) != (&a, &b.to_owned()));
                    self.edges.push((a.clone(), b.to_owned(), weight));
                }
            }
            "loads" => {
                let loads = Loads::of(&self.graph()?, &self.placement(), self.cost);
                return Ok(format!("{}; mean {:.1}\n", show(&loads), loads.mean()));
            }
            "plan" => return self.plan(command),
            "changes" => return self.changes(),
            "apply" => return self.apply(),
            "compact" => {
                let hot = args.take_key("hot").ok_or("which share is hot?")?;
                return self.compact(parse("hot", hot)?);
            }
            other => return Err(format!("no command {other}").into()),
        }
        args.reject_next()?;
        Ok(String::new())
    }
}
