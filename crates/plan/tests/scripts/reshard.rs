//! Scripts about new chunks, sockets and rounds.

use crate::{parse, run};
use goldenscript::{Command, Context, Runner};
use isomer_plan::generate::random;
use isomer_plan::reshard::network::{Network, Piece, Pull};
use isomer_plan::reshard::rounds::{self, Replica};
use isomer_plan::reshard::sockets::{self, Topology};
use isomer_plan::reshard::transfer::{Sharing, pulls};
use isomer_plan::reshard::{Chunks, KeyChange, Placement, RowSource, chunks_of_table};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;

#[test]
fn reshard_scripts() {
    run("reshard", || State {
        chunks: Chunks::new(1),
        topology: None,
        network: Network::default(),
        pulls: Vec::new(),
        placement: None,
        replicas: Vec::new(),
    });
}

struct State {
    chunks: Chunks,
    topology: Option<Topology>,
    network: Network,
    pulls: Vec<Pull>,
    placement: Option<Placement>,
    replicas: Vec<Replica>,
}

type Outcome<T> = Result<T, Box<dyn Error>>;

impl State {
    fn place(&mut self, how: &str) -> Outcome<String> {
        let placement = match how {
            "greedy" => Placement::greedy(&self.chunks),
            "balanced" => Placement::balanced(&self.chunks)?,
            other => return Err(format!("no placement {other}").into()),
        };
        let mut out = String::new();
        for (chunk, site) in placement.sites.iter().enumerate() {
            let local = self.chunks.local().at(chunk, *site);
            writeln!(out, "NC{} to s{}: {local} are there", chunk + 1, site + 1)?;
        }
        let counts = placement.counts(self.chunks.sites());
        let travel = placement.transfer(&self.chunks);
        writeln!(out, "{travel} travel; chunks per site {counts:?}")?;
        self.placement = Some(placement);
        Ok(out)
    }

    /// New chunks of a table of the columns old, new and weight, and its design when balanced.
    fn table(&mut self, command: &Command) -> Outcome<String> {
        let mut args = command.consume_args();
        let chunks = parse("chunks", args.take_key("chunks").ok_or("how many?")?)?;
        let sites = parse("sites", args.take_key("sites").unwrap_or("2"))?;
        let weight = args.take_key("weight");
        let mut text = "old,new,weight\n".to_owned();
        while let Some(row) = args.next_pos() {
            text += &format!("{row}\n");
        }
        args.reject_next()?;
        let (old, new, source) = ("old", "new", RowSource::Ranges);
        let change = KeyChange { old, new, weight, chunks, sites, source };
        let new = chunks_of_table(text.as_bytes(), &change)?;
        self.chunks = new.chunks.clone();
        let placed = self.place("balanced")?;
        let placement = self.placement.as_ref().ok_or("placed just now")?;
        Ok(placed + &new.design("rows", "new", placement)?.to_text())
    }

    fn sockets(&self, total: u64) -> Outcome<String> {
        let placement = self.placement.as_ref().ok_or("place first")?;
        let flows = self.chunks.flows(placement);
        let mut out = String::new();
        for share in sockets::share(&flows, self.topology.as_ref(), total)? {
            let (flow, n) = (share.flow, share.sockets);
            let (from, to) = (flow.from + 1, flow.to + 1);
            writeln!(out, "s{from} to s{to}: {} over {n} sockets", flow.amount)?;
        }
        Ok(out)
    }

    /// The bytes from site to site, the sockets, and the time of the end.
    fn carry(&self, pulls: &[Pull]) -> Outcome<String> {
        let (all_s, ends) = self.network.carry(pulls)?;
        let mut by_pairs: BTreeMap<String, (f64, f64, usize)> = BTreeMap::new();
        for (pull, end_s) in pulls.iter().zip(ends) {
            let sites = |piece: &Piece| format!("s{} to s{}", piece.from + 1, piece.to + 1);
            let mut pairs: Vec<String> = pull.pieces.iter().map(sites).collect();
            pairs.dedup();
            let of = by_pairs.entry(pairs.join(", ")).or_default();
            of.0 = f64::max(of.0, end_s);
            of.1 += pull.pieces.iter().map(|piece| piece.bytes / 1e6).sum::<f64>();
            of.2 += pull.sockets;
        }
        let mut out = String::new();
        for (pairs, (end_s, mb, sockets)) in by_pairs {
            writeln!(out, "{pairs}: {mb:.0} MB over {sockets}, {end_s:.2} s")?;
        }
        writeln!(out, "{all_s:.2} s in all")?;
        Ok(out)
    }

    fn rounds(&self) -> Outcome<String> {
        let mut out = String::new();
        for (at, round) in rounds::plan(&self.replicas)?.iter().enumerate() {
            let names: Vec<&str> = round.replicas.iter().map(|r| r.name.as_str()).collect();
            let wide = if round.is_wide() { ", across the wide area" } else { "" };
            let centres = round.centres.join(" ");
            writeln!(out, "round {}: {} in {centres}{wide}", at + 1, names.join(" "))?;
        }
        Ok(out)
    }
}

impl Runner for State {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Outcome<String> {
        let mut args = command.consume_args();
        match command.name.as_str() {
            "sites" => {
                self.chunks = Chunks::new(parse("sites", args.next_pos().ok_or("how many?")?)?)
            }
            // chunk s1=2 s3=1
            "chunk" => {
                let mut parts = Vec::new();
                while let Some((site, amount)) = args.next_key() {
                    parts.push((u32::from(crate::site(site)?), parse("amount", amount)?));
                }
                self.chunks.push(parts)?;
            }
            // table "a,1,10" "b,2,10" chunks=2 sites=2 weight=weight
            "table" => return self.table(command),
            "place" => return self.place(args.next_pos().unwrap_or("balanced")),
            // link s1 rack1 latency=0.5
            "link" => {
                let latency = parse("latency", args.take_key("latency").unwrap_or("1"))?;
                let (a, b) = (args.next_pos().ok_or("from?")?, args.next_pos().ok_or("to?")?);
                self.topology.get_or_insert_default().link(a, b, latency);
            }
            // cable s1 rack1 latency=0.5 mbit=100
            "cable" => {
                let latency = parse("latency", args.take_key("latency").unwrap_or("1"))?;
                let mbit: f64 = parse("mbit", args.take_key("mbit").unwrap_or("100"))?;
                let (a, b) = (args.next_pos().ok_or("from?")?, args.next_pos().ok_or("to?")?);
                self.network.link(a, b, latency, mbit * 1e6 / 8.0);
            }
            // pull s1 s2 mb=10 sockets=2
            "pull" => {
                let mb: f64 = parse("mb", args.take_key("mb").ok_or("how much?")?)?;
                let sockets = parse("sockets", args.take_key("sockets").unwrap_or("1"))?;
                let from = u32::from(crate::site(args.next_pos().ok_or("from?")?)?);
                let to = u32::from(crate::site(args.next_pos().ok_or("to?")?)?);
                let piece = Piece { from, to, bytes: mb * 1e6 / sockets as f64 };
                self.pulls.push(Pull { sockets, pieces: vec![piece; sockets] });
            }
            "carry" => {
                let pulls = std::mem::take(&mut self.pulls);
                return self.carry(&pulls);
            }
            // transfer fair sockets=6: each of the chunks' amounts is a megabyte
            "transfer" => {
                let sockets = parse("sockets", args.take_key("sockets").unwrap_or("1"))?;
                let sharing = match args.next_pos().ok_or("how?")? {
                    "fixed" => Sharing::Fixed(sockets as usize),
                    "per_chunk" => Sharing::PerChunk,
                    "by_size" => Sharing::BySize(sockets),
                    "fair" => Sharing::Fair(sockets),
                    other => return Err(format!("no sharing {other}").into()),
                };
                let placement = self.placement.as_ref().ok_or("place first")?;
                let how = (sharing, 1e6);
                let all = pulls(&self.chunks, placement, how, &self.network, &mut random(1))?;
                return self.carry(&all);
            }
            "sockets" => {
                return self.sockets(parse("sockets", args.next_pos().ok_or("how many?")?)?);
            }
            // replica s1 name=a1 centre=east primary=yes
            "replica" => self.replicas.push(Replica {
                site: crate::site(args.next_pos().ok_or("of which site?")?)?,
                name: args.take_key("name").ok_or("which name?")?.to_owned(),
                centre: args.take_key("centre").ok_or("where?")?.to_owned(),
                primary: args.take_key("primary") == Some("yes"),
            }),
            "rounds" => return self.rounds(),
            other => return Err(format!("no command {other}").into()),
        }
        args.reject_next()?;
        Ok(String::new())
    }
}
