//! Scripts about turns of statements.

use crate::batches::DESIGN;
use crate::locks::wanted;
use crate::{Outcome, parse};
use goldenscript::{Command, Context, Runner};
use isomer_batch::{Homes, Turn, Turns};
use isomer_design::{Design, Footprint, Key, SiteId, TableId};
use isomer_plan::route::Options;
use isomer_plan::route::engine::{EngineRouter, LiveRouter};

#[test]
fn turn_scripts() {
    crate::run("turns", || Statements::new(EngineRouter::Hermes(Options::default()), 100));
}

struct Statements {
    router: LiveRouter,
    turns: Turns<u32>,
    homes: Homes,
}

impl Statements {
    fn new(router: EngineRouter, fused_max: usize) -> Statements {
        let homes = Homes::of(&Design::parse(DESIGN).unwrap());
        Statements { router: LiveRouter(router), turns: Turns::new(fused_max), homes }
    }
}

fn shown(turns: &[Turn<u32>]) -> String {
    let turn = |turn: &Turn<u32>| match turn.site {
        Some(site) => format!("{} has its turn at {site}\n", turn.ticket),
        None => format!("{} has its turn\n", turn.ticket),
    };
    turns.iter().map(turn).collect()
}

impl Runner for Statements {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Outcome<String> {
        let mut args = command.consume_args();
        let accounts = TableId(1);
        match command.name.as_str() {
            "router" => {
                let most = args.take_key("fusion").map(|most| parse("size", Some(most)));
                let router: EngineRouter = args.next_pos().ok_or("which router?")?.parse()?;
                *self = Statements::new(router, most.transpose()?.unwrap_or(100));
                Ok(String::new())
            }
            "ask" => {
                let ticket = parse("statement", args.next_pos())?;
                let mut footprint = Footprint::new();
                for (access, span) in wanted(std::iter::from_fn(|| args.next_pos()))? {
                    footprint.add(accounts, span, access);
                }
                self.turns.ask(ticket, footprint);
                Ok(String::new())
            }
            "close" => Ok(shown(&self.turns.close(&self.router, &self.homes))),
            "end" => Ok(shown(&self.turns.end(parse("statement", args.next_pos())?))),
            "moved" => {
                let record = (accounts, Key::int(parse("record", args.next_pos())?));
                let to = args.next_pos().filter(|to| *to != "home");
                let site = to.map(|to| parse("site", to.strip_prefix('s'))).transpose()?;
                self.turns.moved(&record, site.map(SiteId), &self.homes);
                Ok(String::new())
            }
            "without" => {
                let site = args.next_pos().and_then(|site| site.strip_prefix('s'));
                self.homes.remove_site(SiteId(parse("site", site)?));
                Ok(String::new())
            }
            "show" => {
                let ((run, wait), fused) = (self.turns.running(), self.turns.fused());
                let gathered = self.turns.gathered();
                Ok(format!("{gathered} gathered, {run} run, {wait} wait; {fused} fused\n"))
            }
            other => Err(format!("no command {other}").into()),
        }
    }
}
