//! Runs the golden scripts in `scripts/`: designs, changes and questions as a person would type
//! them, with the answers. `UPDATE_GOLDENFILES=1 cargo test -p isomer-design` rewrites the answers.
//!
//! ```text
//!   sites, table, column, key, partition    lines of a design file, collected
//!   design, other                           the lines become the design, or a second one
//!   summary, text                           the design for a person, or as a file
//!   split, merge, add_replica, …            make one change
//!   each accounts[0..99) add_replica s2     make a change to every partition that starts there
//!   singles accounts 0 99                   cut a range into single-key partitions
//!   diff                                    the changes that lead to the other design, made
//!   plan <reason>, step <change>: <reason>  a plan, collected; `check` validates and prints it
//!   home <footprint>                        which sites can run it, or what each site lacks
//!   routing                                 the size of the routing table
//!   encode, row                             a key or a row as bytes, read back
//! ```
//!
//! After every command the runner checks the invariants: those of the design, that the routing
//! table after each change equals a new one, and that the design and each change survive
//! printing.

use goldenscript::Context;
use isomer_design::{
    Change, Design, Footprint, Key, Plan, Route, RoutingTable, SiteSet, Step, TableDesign, Value,
};
use std::error::Error;
use std::fmt::Write as _;

type Answer = Result<String, Box<dyn Error>>;

struct Runner {
    lines: String,
    design: Design,
    other: Option<Design>,
    routing: RoutingTable,
    plan: Plan,
}

#[test]
fn scripts() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        println!("script {}", path.display());
        goldenscript::run(&mut Runner::new(), &path).unwrap();
    }
}

impl goldenscript::Runner for Runner {
    type Command = goldenscript::Command;

    fn run(&mut self, command: &goldenscript::Command, _: &Context) -> Answer {
        let mut line = command.name.clone();
        for argument in &command.args {
            line = format!("{line} {argument}");
        }
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        match word {
            "sites" | "table" | "column" | "key" | "partition" => {
                self.lines += &line;
                self.lines.push('\n');
                Ok(String::new())
            }
            "design" => self.set_design(),
            "other" => {
                self.other = Some(Design::parse(&std::mem::take(&mut self.lines))?);
                Ok(String::new())
            }
            "text" => Ok(self.design.to_text()),
            "summary" => Ok(self.design.summary()),
            "each" => self.each(rest),
            "singles" => self.singles(rest),
            "diff" => self.diff(),
            "plan" => {
                self.plan = Plan::new(rest);
                Ok(String::new())
            }
            "step" => self.step(rest),
            "check" => self.check_plan(),
            "home" => self.home(rest),
            "routing" => Ok(self.routing_size()),
            "encode" => self.encode(rest),
            "row" => self.row(rest),
            _ => self.change(&line),
        }
    }

    fn end_command(&mut self, _: &goldenscript::Command, _: &Context) -> Answer {
        self.design.check()?;
        assert_eq!(self.routing, RoutingTable::of(&self.design));
        if self.design.partition_count() < 1000 {
            assert_eq!(Design::parse(&self.design.to_text()).as_ref(), Ok(&self.design));
        }
        Ok(String::new())
    }
}

impl Runner {
    fn new() -> Runner {
        let design = Design::new([isomer_design::SiteId(1)]).unwrap();
        let routing = RoutingTable::of(&design);
        Runner { lines: String::new(), design, other: None, routing, plan: Plan::default() }
    }

    fn set_design(&mut self) -> Answer {
        self.design = Design::parse(&std::mem::take(&mut self.lines))?;
        self.routing = RoutingTable::of(&self.design);
        Ok(String::new())
    }

    fn change(&mut self, line: &str) -> Answer {
        let change = Change::parse(line, &self.design)?;
        assert_eq!(
            Change::parse(&change.to_text(&self.design), &self.design).as_ref(),
            Ok(&change)
        );
        self.apply(&change)?;
        Ok(String::new())
    }

    fn apply(&mut self, change: &Change) -> Result<(), Box<dyn Error>> {
        self.design.apply(change)?;
        self.routing = self.routing.after(&self.design, change);
        Ok(())
    }

    /// `accounts[0..99) add_replica s2`
    fn each(&mut self, rest: &str) -> Answer {
        let (place, operator, site) = three_words(rest)?;
        let (name, range) = place.split_once('[').ok_or("name a range such as accounts[0..9)")?;
        let (_, table) = self.named(name)?;
        let range = table.schema().parse_range(&format!("[{range}"))?;
        let starts: Vec<String> = table
            .partitions()
            .iter()
            .filter(|(start, _)| range.contains(start))
            .map(|(start, _)| table.schema().partition_name(start))
            .collect();
        for partition in &starts {
            self.change(&format!("{operator} {partition} {site}"))?;
        }
        Ok(format!("{} changes", starts.len()))
    }

    /// `accounts 0 99`
    fn singles(&mut self, rest: &str) -> Answer {
        let (name, from, to) = three_words(rest)?;
        let (id, _) = self.named(name)?;
        let before = self.design.partition_count();
        for number in from.parse()?..=to.parse::<i64>()? {
            self.apply(&Change::Split { table: id, at: Key::int(number) })?;
        }
        let count = self.design.partition_count();
        Ok(format!("{} splits, {count} partitions", count - before))
    }

    fn diff(&mut self) -> Answer {
        let other = self.other.take().ok_or("describe the other design first")?;
        let changes = self.design.diff(&other)?;
        let mut text = String::new();
        for change in &changes {
            writeln!(text, "{}", change.to_text(&self.design))?;
            self.apply(change)?;
        }
        assert_eq!(self.design, other);
        Ok(if changes.is_empty() { "no changes".to_owned() } else { text })
    }

    /// `split accounts at 5: both halves are hot`, after `cost 0.2 benefit 3.1` if predicted.
    fn step(&mut self, rest: &str) -> Answer {
        let (change, reason) = rest.split_once(": ").ok_or("give a reason after a colon")?;
        let (change, predicted) = match change.strip_prefix("cost ") {
            Some(predicted) => {
                let (cost, rest) = predicted.split_once(" benefit ").ok_or("and the benefit")?;
                let (benefit, change) = rest.split_once(' ').ok_or("and the change")?;
                (change, Some((cost.parse()?, benefit.parse()?)))
            }
            None => (change, None),
        };
        let step = Step::new(Change::parse(change, &self.design)?, reason);
        self.plan.push(match predicted {
            Some((cost, benefit)) => step.predicted(cost, benefit),
            None => step,
        });
        Ok(String::new())
    }

    fn check_plan(&mut self) -> Answer {
        let after = self.plan.validate(&self.design)?;
        Ok(format!("{}leads to\n{}", self.plan.to_text(&self.design), indent(&after.summary())))
    }

    fn home(&mut self, rest: &str) -> Answer {
        let footprint = Footprint::parse(rest, &self.design)?;
        let nothing = if footprint.is_empty() { "nothing" } else { "" };
        let mut text = format!("{nothing}{}\n", footprint.to_text(&self.design));
        match self.routing.home(&footprint) {
            Route::Sites(sites) => writeln!(text, "  can run at {sites}")?,
            Route::UnknownTable(table) => writeln!(text, "  no table {table}")?,
            Route::Nowhere { masters, holders } => {
                let none = |sites: &SiteSet| match sites.len() {
                    0 => "none".to_owned(),
                    _ => sites.to_string(),
                };
                let (masters, holders) = (none(&masters), none(&holders));
                writeln!(text, "  nowhere: masters {masters}, holders of all {holders}")?;
                for site in self.design.sites().iter() {
                    for missing in self.routing.missing_at(&footprint, site) {
                        writeln!(text, "  {site} cannot {}", missing.to_text(&self.design))?;
                    }
                }
            }
        }
        Ok(text)
    }

    fn routing_size(&self) -> String {
        let (partitions, entries) = (self.design.partition_count(), self.routing.entries());
        // Rounded up, so that small differences do not change the scripts.
        let kib = self.routing.bytes().div_ceil(1024);
        format!("partitions {partitions}  entries {entries}  KiB {kib}")
    }

    /// `accounts 3/'Ann'`
    fn encode(&self, rest: &str) -> Answer {
        let (name, text) = rest.split_once(' ').unwrap_or((rest, ""));
        let (_, table) = self.named(name)?;
        let key = table.schema().parse_key(text)?;
        assert_eq!(table.schema().parse_key(&table.schema().format_key(&key))?, key);
        Ok(format!("{} = {}", table.schema().format_key(&key), hex(&key)))
    }

    /// `accounts 7 'Ann' 12.50`
    fn row(&self, rest: &str) -> Answer {
        let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let schema = self.named(name)?.1.schema();
        let mut values = Vec::new();
        for (index, text) in rest.split_whitespace().enumerate() {
            let ty = schema.columns().get(index).map(|column| column.ty);
            let value = ty.and_then(|ty| ty.parse(text));
            values.push(if text == "null" { Value::Null } else { value.unwrap_or(text.into()) });
        }
        let (key, row) = schema.encode_row(&values)?;
        assert_eq!(schema.decode_row(&key, &row)?, values);
        Ok(format!("key {}\nrow {}", hex(&key), hex(&row)))
    }

    fn named(&self, name: &str) -> Result<(isomer_design::TableId, &TableDesign), Box<dyn Error>> {
        self.design.find_table(name).ok_or_else(|| format!("there is no table {name}").into())
    }
}

fn three_words(text: &str) -> Result<(&str, &str, &str), Box<dyn Error>> {
    match text.split(' ').collect::<Vec<_>>()[..] {
        [first, second, third] => Ok((first, second, third)),
        _ => Err(format!("three words are needed, not `{text}`").into()),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}
