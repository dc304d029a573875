//! Scripts about recordings: lines as input, accesses or errors as output.

use crate::run;
use goldenscript::{Command, Context, Runner};
use isomer_plan::heat::{HeatGraph, Sampling};
use isomer_plan::recording::import::{Importer, Kind};
use isomer_plan::recording::{CSV_HEADER, CsvWriter, OnFault, Recording, Source, Statistics, open};
use std::error::Error;
use std::fmt::Write as _;

#[test]
fn recording_scripts() {
    run("recording", || State { lines: CSV_HEADER.to_owned() + "\n" });
}

struct State {
    lines: String,
}

type Outcome<T> = Result<T, Box<dyn Error>>;

fn copy(mut source: impl Source) -> Outcome<String> {
    let mut writer = CsvWriter::new(Vec::new())?;
    while let Some(access) = source.next_access()? {
        writer.push(&access)?;
    }
    let mut out = String::from_utf8(writer.finish()?)?;
    let skipped = source.skipped();
    skipped.first.iter().try_for_each(|fault| writeln!(out, "skipped: {fault}"))?;
    if skipped.lines > 0 {
        writeln!(out, "{} lines skipped", skipped.lines)?;
    }
    Ok(out)
}

impl State {
    fn graph(&self) -> Outcome<String> {
        let recording = Recording::read(open(self.lines.as_bytes(), OnFault::Stop)?)?;
        let graph = HeatGraph::of(&recording, Sampling::ALL)?;
        let mut out = String::new();
        for vertex in 0..graph.len() as u32 {
            let edges: Vec<String> = graph
                .neighbours(vertex)
                .map(|(to, weight)| format!("{} {weight}", graph.label(to)))
                .collect();
            let (label, weight) = (graph.label(vertex), graph.weight(vertex));
            writeln!(out, "{label} {weight} with {}", edges.join(", "))?;
        }
        Ok(out)
    }

    fn stat(&self) -> Outcome<String> {
        let recording = Recording::read(open(self.lines.as_bytes(), OnFault::Stop)?)?;
        let stat = Statistics::of(&recording);
        let mut out = format!(
            "{} transactions, {} accesses in {} s, {:.2} keys each, {:.0} % with several\n",
            stat.transactions,
            stat.accesses,
            stat.seconds,
            stat.keys_per_transaction,
            100.0 * stat.multi_key_share,
        );
        for table in stat.tables {
            let (keys, accesses, writes) = (table.keys, table.accesses, table.writes);
            writeln!(out, "{}: {keys} keys, {accesses} accesses, {writes} writes", table.name)?;
        }
        Ok(out)
    }
}

impl Runner for State {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Outcome<String> {
        let mut args = command.consume_args();
        match command.name.as_str() {
            // lines "a" "b": the whole text, header included
            "lines" | "more" => {
                if command.name == "lines" {
                    self.lines.clear();
                }
                while let Some(line) = args.next_pos() {
                    self.lines += line;
                    self.lines.push('\n');
                }
                Ok(String::new())
            }
            "read" => copy(open(self.lines.as_bytes(), OnFault::Stop)?),
            "read_skipping" => copy(open(self.lines.as_bytes(), OnFault::Skip)?),
            "import" => {
                let kind: Kind = args.next_pos().unwrap_or("").parse()?;
                copy(Importer::new(kind, self.lines.as_bytes(), OnFault::Skip, 1)?)
            }
            "collect" => {
                let source = open(self.lines.as_bytes(), OnFault::Stop)?;
                Ok(format!("{} transactions\n", Recording::read(source)?.len()))
            }
            "stat" => self.stat(),
            "graph" => self.graph(),
            other => Err(format!("no command {other}").into()),
        }
    }
}
