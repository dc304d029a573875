//! Scripts about a sequencer.

use crate::{Outcome, parse};
use goldenscript::{Command, Context, Runner};
use isomer_batch::{Batch, ClientId, Limits, Request, Sequencer};
use isomer_design::{Footprint, Time};

#[test]
fn sequencer_scripts() {
    let limits = Limits { requests_max: 3, wait_ns_max: 10_000_000 };
    crate::run("sequencer", || Sequencing(Sequencer::new(limits)));
}

struct Sequencing(Sequencer);

impl Sequencing {
    fn show(&self, closed: Option<Batch>) -> String {
        let closes = self.0.closes_at().map(|at| format!("open until {} ms\n", at.0 / 1_000_000));
        let names = |batch: Batch| {
            let names: Vec<String> = batch.requests.iter().map(ToString::to_string).collect();
            format!("batch: {}\n", names.join(", "))
        };
        closed.map(names).unwrap_or_default() + &closes.unwrap_or_default()
    }
}

impl Runner for Sequencing {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Outcome<String> {
        let mut args = command.consume_args();
        if command.name == "limits" {
            let requests_max = parse("number of requests", args.take_key("requests"))?;
            let wait: u64 = parse("time", args.take_key("wait"))?;
            self.0 = Sequencer::new(Limits { requests_max, wait_ns_max: wait * 1_000_000 });
            return Ok(String::new());
        }
        let now = Time(parse::<u64>("time", args.next_pos())? * 1_000_000);
        let closed = match command.name.as_str() {
            "ask" => {
                let client = args.next_pos().and_then(|name| name.strip_prefix('c'));
                let attempt = args.take_key("attempt").map_or(Ok(0), |n| parse("attempt", Some(n)));
                let request = Request {
                    client: ClientId(parse("client", client)?),
                    sequence: parse("sequence number", args.next_pos())?,
                    attempt: attempt?,
                    procedure: "pay".to_owned(),
                    params: Vec::new(),
                    footprint: Footprint::new(),
                };
                self.0.submit(now, request)
            }
            "tick" => self.0.tick(now),
            other => return Err(format!("no command {other}").into()),
        };
        args.reject_next()?;
        Ok(self.show(closed))
    }
}
