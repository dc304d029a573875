//! Scripts about batches and the routers.

use crate::{parse, run};
use goldenscript::{Command, Context, Runner};
use isomer_plan::route::{
    Batch, Fused, FusionTable, Home, Options, Replacement, Routed, Tie, Transaction, calvin, fuse,
    gstore, hermes, leap, optimum, textbook, tpart,
};
use std::error::Error;
use std::fmt::Write as _;

#[test]
fn route_scripts() {
    run("route", || State {
        sites: 1,
        width: 10,
        fusion: FusionTable::new(Replacement::Clock, None),
        transactions: Vec::new(),
    });
}

struct State {
    sites: u16,
    width: u64,
    fusion: FusionTable<u64, u16>,
    transactions: Vec<Transaction>,
}

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Keys as `1.2.3`.
fn keys(text: Option<&str>) -> Outcome<Vec<u64>> {
    text.unwrap_or("").split('.').filter(|t| !t.is_empty()).map(|t| parse("key", t)).collect()
}

fn show(routed: &Routed) -> String {
    let mut out = String::new();
    for site in 0..routed.loads.len() {
        let here = routed.transactions.iter().filter(|route| usize::from(route.site) == site);
        let names: Vec<String> =
            here.map(|route| format!("{}:T{}", route.order + 1, route.id)).collect();
        let names = if names.is_empty() { "-".to_owned() } else { names.join(" ") };
        let _ = writeln!(out, "site {site}  {names}");
    }
    let (reads, moves) = (routed.remote_reads, routed.migrations);
    let _ = writeln!(out, "{reads} remote reads, {moves} migrations");
    if !routed.evicted.is_empty() {
        let keys: Vec<String> = routed.evicted.iter().map(u64::to_string).collect();
        let _ = writeln!(out, "evicted: {}", keys.join(" "));
    }
    out
}

impl State {
    fn route(&mut self, command: &Command) -> Outcome<String> {
        let mut args = command.consume_args();
        let mut options = Options::default();
        if let Some(alpha) = args.take_key("alpha") {
            options.alpha = alpha.parse()?;
        }
        options.reorder = args.take_key("reorder") != Some("off");
        options.polish = args.take_key("polish") == Some("on");
        if args.take_key("tie") == Some("txn") {
            options.tie = Tie::TransactionModulo;
        }
        let router = args.next_pos().unwrap_or("hermes").to_owned();
        let keep = args.take_key("keep") == Some("on");
        args.reject_next()?;
        let batch = Batch::new(self.transactions.clone())?;
        let home = Home::new(self.sites, self.width)?;
        home.check(&batch)?;
        let mut routed = match router.as_str() {
            "hermes" => {
                let routed = hermes(&batch, &Fused { home, fusion: &self.fusion }, options);
                if !options.polish {
                    // Every script is checked against the oracle.
                    assert_eq!(
                        routed,
                        textbook(&batch, &Fused { home, fusion: &self.fusion }, options)
                    );
                }
                routed
            }
            "optimum" => optimum(
                &batch,
                &Fused { home, fusion: &self.fusion },
                options.alpha,
                options.reorder,
            )?,
            "calvin" => calvin(&batch, &home),
            "gstore" => gstore(&batch, &home),
            "leap" => leap(&batch, &home),
            "tpart" => tpart(&batch, &home, 8000),
            other => return Err(format!("no router {other}").into()),
        };
        if keep {
            fuse(&mut self.fusion, &batch, |&key| home.of(key), &mut routed);
            self.transactions.clear();
        }
        Ok(show(&routed))
    }
}

impl Runner for State {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Outcome<String> {
        let mut args = command.consume_args();
        match command.name.as_str() {
            // sites 3 width=10
            "sites" => {
                self.sites = parse("sites", args.next_pos().ok_or("how many?")?)?;
                self.width = args.take_key("width").map_or(Ok(10), |v| parse("width", v))?;
            }
            // fusion clock size=2
            "fusion" => {
                let rule = match args.next_pos() {
                    Some("fifo") => Replacement::Fifo,
                    Some("lru") => Replacement::Lru,
                    _ => Replacement::Clock,
                };
                let size = args.take_key("size").map(|v| parse("size", v)).transpose()?;
                self.fusion = FusionTable::new(rule, size);
            }
            // txn 1 read=1.2 write=2
            "txn" => {
                let id = parse("transaction", args.next_pos().ok_or("which number?")?)?;
                let (read, write) = (keys(args.take_key("read"))?, keys(args.take_key("write"))?);
                self.transactions.push(Transaction { id, read, write });
            }
            "route" => return self.route(command),
            "fused" => {
                let entry = |(key, site): (&u64, u16)| format!("{key}@{site}");
                let entries: Vec<String> = self.fusion.iter().map(entry).collect();
                return Ok(format!("{}\n", entries.join(" ")));
            }
            other => return Err(format!("no command {other}").into()),
        }
        args.reject_next()?;
        Ok(String::new())
    }
}
