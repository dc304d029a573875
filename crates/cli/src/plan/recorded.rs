//! A recorded run of the engine of batches: its lines of JSON, and routing them again.
//!
//! ```text
//!   {"router":"hermes",…,"sites":[1,2],"homes":[[1,null,1],[1,[100],2]]}   the first line
//!   {"batch":0,"asked":[{"read":[[1,[7]]],"write":[[1,[8]]]}],
//!    "decided":[[0,[2]]],"moved":[[1,[8],1,2]]}                            a line for each batch
//! ```
//!
//! A record is a table and the integers of its key. A move has the site that the record leaves and
//! the one that it goes to. The engine (`isomer_batch::Planner`) made the recorded decisions. This
//! module runs the routers on homes and a fusion table of its own, and reports the first difference
//! from the engine.

use isomer_batch::{Decided, Homes, Move, RecordId, Recorded};
use isomer_design::{Access, Footprint, Key, KeyRange, SiteId, Span, TableId};
use isomer_plan::route::{
    Alpha, Batch, FusionTable, Options, Places, Replacement, Routed, Tie, Transaction, calvin,
    fuse, gstore, hermes, leap, tpart,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, Write};

/// A table and a key of whole numbers.
type Record = (u32, Vec<i64>);

/// The first line: the router, and the initial sites of records.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The router.
    pub router: RecordedRouter,
    /// Hermes: the share by which a site may exceed its part of a batch.
    pub alpha: String,
    /// Hermes: whether transactions may change places.
    pub reorder: bool,
    /// T-Part: the weight of remote reads, in ten thousandths.
    pub beta: u32,
    /// The most entries of the fusion table.
    pub fusion_size: Option<usize>,
    /// The entries that leave a full fusion table.
    pub fusion_rule: Rule,
    /// All sites.
    sites: Vec<u16>,
    /// Table, first key and site of each range; null is the first key of a table.
    homes: Vec<(u32, Option<Vec<i64>>, u16)>,
}

/// The router of a recorded run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordedRouter {
    Hermes,
    Calvin,
    Gstore,
    Leap,
    Tpart,
}

/// The entries that leave a full fusion table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    Fifo,
    Lru,
    Clock,
}

impl Rule {
    pub fn replacement(self) -> Replacement {
        match self {
            Rule::Fifo => Replacement::Fifo,
            Rule::Lru => Replacement::Lru,
            Rule::Clock => Replacement::Clock,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    batch: u64,
    asked: Vec<Asked>,
    /// Index of each transaction, and the sites that run it.
    decided: Vec<(usize, Vec<u16>)>,
    moved: Vec<(u32, Vec<i64>, u16, u16)>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    read: Vec<Record>,
    write: Vec<Record>,
}

/// Counts of a recording that the routers agree with.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Agreed {
    pub batches: u64,
    pub transactions: u64,
    pub moves: u64,
}

/// Writes the first line.
pub fn write_header(
    out: &mut impl Write,
    header: &Header,
) -> Result<(), Box<dyn std::error::Error>> {
    writeln!(out, "{}", serde_json::to_string(header)?)?;
    Ok(())
}

impl Header {
    /// The header of a run of Hermes with the paper's tolerance and these initial homes.
    ///
    /// # Errors
    /// If a home begins at a key that is not made of integers.
    pub fn of_hermes(homes: &Homes, tables: &[TableId]) -> Result<Header, String> {
        let mut ranges = Vec::new();
        for &table in tables {
            for (range, site) in homes.pieces(table, &KeyRange::all()) {
                let start =
                    if range.start == Key::min() { None } else { Some(numbers(&range.start)?) };
                ranges.push((table.0, start, site.0));
            }
        }
        Ok(Header {
            router: RecordedRouter::Hermes,
            alpha: "0.1".to_owned(),
            reorder: true,
            beta: 8000,
            fusion_size: None,
            fusion_rule: Rule::Clock,
            sites: homes.sites().iter().map(|site| site.0).collect(),
            homes: ranges,
        })
    }
}

fn numbers(key: &Key) -> Result<Vec<i64>, String> {
    key.to_ints()
        .ok_or_else(|| format!("[{key}] is not of whole numbers: only such keys can be recorded"))
}

/// Writes the line of a batch.
///
/// # Errors
/// If writing fails, or if the batch has ranges, keys other than integers, or changes of sites.
pub fn write_batch(
    out: &mut impl Write,
    recorded: &Recorded,
) -> Result<(), Box<dyn std::error::Error>> {
    let batch = recorded.batch;
    if recorded.provisioned {
        let why = "batch {batch} changes sites or homes: such runs cannot be recorded";
        return Err(why.replace("{batch}", &batch.to_string()).into());
    }
    let asked: Result<Vec<Asked>, String> = recorded.asked.iter().map(asked).collect();
    let site = |site: &SiteId| site.0;
    let decided = recorded.decided.iter();
    let decided = decided.map(|one| (one.at, one.executors.iter().map(site).collect())).collect();
    let moved = recorded.moved.iter().map(|one| {
        let (table, key) = &one.record;
        Ok((table.0, numbers(key)?, one.from.0, one.to.0))
    });
    let moved: Result<Vec<_>, String> = moved.collect();
    let line = Line { batch, asked: asked?, decided, moved: moved? };
    writeln!(out, "{}", serde_json::to_string(&line)?)?;
    Ok(())
}

fn asked(footprint: &Footprint) -> Result<Asked, String> {
    let mut asked = Asked { read: Vec::new(), write: Vec::new() };
    for item in footprint.items() {
        let Span::Key(key) = &item.span else {
            return Err("a transaction has a range: only single records can be recorded".to_owned());
        };
        let record = (item.table.0, numbers(key)?);
        match item.access {
            Access::Read => asked.read.push(record),
            Access::Write => asked.write.push(record),
        }
    }
    Ok(asked)
}

/// Routes a recording again, and compares each batch with the engine's decisions.
///
/// # Errors
/// A text that says what cannot be read, or where the engine and the router differ.
pub fn route_again(input: impl BufRead) -> Result<Agreed, Box<dyn std::error::Error>> {
    let mut lines = input.lines().enumerate();
    let (_, first) =
        lines.next().ok_or("the recording is empty: its first line says who routes")?;
    let header: Header =
        serde_json::from_str(&first?).map_err(|error| format!("line 1: {error}"))?;
    let mut again = Again::new(header)?;
    let mut agreed = Agreed::default();
    for (at, line) in lines {
        let wrong = |error: serde_json::Error| format!("line {}: {error}", at + 1);
        let recorded = read(serde_json::from_str(&line?).map_err(wrong)?);
        again.compare(&recorded)?;
        agreed.batches += 1;
        agreed.transactions += recorded.asked.len() as u64;
        agreed.moves += recorded.moved.len() as u64;
    }
    Ok(agreed)
}

fn read(line: Line) -> Recorded {
    let record = |(table, key): Record| (TableId(table), Key::ints(&key));
    let footprint = |asked: Asked| {
        let mut footprint = Footprint::new();
        for (records, access) in [(asked.read, Access::Read), (asked.write, Access::Write)] {
            for (table, key) in records.into_iter().map(record) {
                footprint.add(table, Span::Key(key), access);
            }
        }
        footprint
    };
    let decided = line
        .decided
        .into_iter()
        .map(|(at, sites)| Decided { at, executors: sites.into_iter().map(SiteId).collect() });
    let moved = line.moved.into_iter().map(|(table, key, from, to)| Move {
        record: record((table, key)),
        from: SiteId(from),
        to: SiteId(to),
    });
    Recorded {
        batch: line.batch,
        asked: line.asked.into_iter().map(footprint).collect(),
        decided: decided.collect(),
        moved: moved.collect(),
        provisioned: false,
    }
}

/// A router with homes and a fusion table of its own.
struct Again {
    header: Header,
    alpha: Alpha,
    places: Known,
}

/// The sites of records; sites are numbered from 0.
struct Known {
    sites: Vec<SiteId>,
    homes: HomesByTable,
    fusion: FusionTable<RecordId, u16>,
}

impl Places<RecordId> for Known {
    fn sites(&self) -> u16 {
        self.sites.len() as u16
    }

    fn home(&self, record: &RecordId) -> u16 {
        home(&self.homes, record)
    }

    fn of(&self, record: &RecordId) -> u16 {
        self.fusion.get(record).unwrap_or_else(|| self.home(record))
    }
}

/// First keys of ranges, and their sites.
type HomesByTable = BTreeMap<TableId, BTreeMap<Key, u16>>;

fn home(homes: &HomesByTable, (table, key): &RecordId) -> u16 {
    let home = homes[table].range(..=key.clone()).next_back();
    *home.expect("a table's homes begin at its first key").1
}

impl Again {
    fn new(header: Header) -> Result<Again, String> {
        let sites: BTreeSet<u16> = header.sites.iter().copied().collect();
        let sites: Vec<SiteId> = sites.into_iter().map(SiteId).collect();
        let mut homes = HomesByTable::new();
        for (table, start, site) in &header.homes {
            let site = sites.binary_search(&SiteId(*site));
            let site = site.map_err(|_| format!("a home of t{table} is at a site that is none"))?;
            let start = start.as_ref().map_or(Key::min(), |key| Key::ints(key));
            homes.entry(TableId(*table)).or_default().insert(start, site as u16);
        }
        if let Some((table, _)) = homes.iter().find(|(_, homes)| !homes.contains_key(&Key::min())) {
            return Err(format!("no home of {table} begins at its first key, which is null"));
        }
        let alpha = header.alpha.parse().map_err(|error| format!("{error}"))?;
        let fusion = FusionTable::new(header.fusion_rule.replacement(), header.fusion_size);
        Ok(Again { alpha, places: Known { sites, homes, fusion }, header })
    }

    /// Routes a batch, and returns the first difference from the engine as an error.
    fn compare(&mut self, recorded: &Recorded) -> Result<(), String> {
        let number = recorded.batch;
        if let Some(table) = self.unknown_table(recorded) {
            return Err(format!("batch {number}: {table} has no home in the first line"));
        }
        let (decided, moved) = self.route(&recorded.asked)?;
        for (place, (theirs, ours)) in recorded.decided.iter().zip(&decided).enumerate() {
            if theirs != ours {
                return Err(format!(
                    "batch {number}: the engine has transaction {} at {} in place {place}, the router transaction {} at {}",
                    theirs.at,
                    names(&theirs.executors),
                    ours.at,
                    names(&ours.executors)
                ));
            }
        }
        if recorded.decided.len() != decided.len() {
            let (theirs, ours) = (recorded.decided.len(), decided.len());
            return Err(format!("batch {number}: the engine runs {theirs} transactions of {ours}"));
        }
        let by_record = |moves: &[Move]| {
            let mut moves = moves.to_vec();
            // The moves of one record stay in their order.
            moves.sort_by(|one, other| one.record.cmp(&other.record));
            moves
        };
        let (theirs, ours) = (by_record(&recorded.moved), by_record(&moved));
        let differ = theirs.iter().zip(&ours).find(|(theirs, ours)| theirs != ours);
        match differ {
            Some((theirs, ours)) => Err(format!(
                "batch {number}: the engine moves {}, the router {}",
                in_words(theirs),
                in_words(ours)
            )),
            None if theirs.len() != ours.len() => Err(format!(
                "batch {number}: the engine moves {} records, the router {}",
                theirs.len(),
                ours.len()
            )),
            None => Ok(()),
        }
    }

    fn unknown_table(&self, recorded: &Recorded) -> Option<TableId> {
        let items = recorded.asked.iter().flat_map(|footprint| footprint.items());
        items.map(|item| item.table).find(|table| !self.places.homes.contains_key(table))
    }

    fn route(&mut self, asked: &[Footprint]) -> Result<(Vec<Decided>, Vec<Move>), String> {
        let transactions = asked.iter().enumerate().map(|(at, footprint)| {
            let record = |item: &isomer_design::Item| (item.table, item.span.start().clone());
            let items = footprint.items();
            let written = items.iter().filter(|item| item.access == Access::Write);
            // A written record must come to the transaction as well, so it counts as read.
            Transaction {
                id: at as u64,
                read: items.iter().map(record).collect(),
                write: written.map(record).collect(),
            }
        });
        let batch = Batch::new(transactions.collect()).map_err(|error| error.to_string())?;
        let Header { router, reorder, beta, .. } = self.header;
        let alpha = self.alpha;
        let places = &self.places;
        let mut routed: Routed<RecordId> = match router {
            RecordedRouter::Hermes => {
                let tie = Tie::LowestSite;
                hermes(&batch, places, Options { alpha, reorder, tie, polish: false })
            }
            RecordedRouter::Calvin => calvin(&batch, places),
            RecordedRouter::Gstore => gstore(&batch, places),
            RecordedRouter::Leap => leap(&batch, places),
            RecordedRouter::Tpart => tpart(&batch, places, beta),
        };
        let decided = routed.transactions.iter().map(|route| Decided {
            at: route.id as usize,
            executors: self.executors(&batch.transactions()[route.id as usize], route.site),
        });
        let decided = decided.collect();
        let mut moved = self.moves(&batch, &routed);
        if matches!(router, RecordedRouter::Hermes | RecordedRouter::Leap) {
            let batch = if router == RecordedRouter::Leap { all_written(&batch)? } else { batch };
            let Known { homes, fusion, .. } = &mut self.places;
            let home = |record: &RecordId| home(homes, record);
            let evicted = fuse(fusion, &batch, home, &mut routed);
            let back = evicted.into_iter().map(|(record, from)| {
                let to = self.places.home(&record);
                self.step(&record, from, to)
            });
            moved.extend(back);
        }
        Ok((decided, moved))
    }

    /// The moves of a routed batch, without those of entries that leave the fusion table.
    fn moves(&self, batch: &Batch<RecordId>, routed: &Routed<RecordId>) -> Vec<Move> {
        let (mut now, mut moves): (BTreeMap<RecordId, u16>, _) = (BTreeMap::new(), Vec::new());
        for route in &routed.transactions {
            let transaction = &batch.transactions()[route.id as usize];
            let going = match self.header.router {
                RecordedRouter::Calvin => &[][..],
                RecordedRouter::Hermes | RecordedRouter::Tpart => &transaction.write,
                RecordedRouter::Leap | RecordedRouter::Gstore => &transaction.read,
            };
            let mut moved = Vec::new();
            for record in going {
                let from = now.get(record).copied().unwrap_or_else(|| self.places.of(record));
                if from != route.site {
                    moved.push((record, from));
                    moves.push(self.step(record, from, route.site));
                    now.insert(record.clone(), route.site);
                }
            }
            if self.header.router == RecordedRouter::Gstore {
                for (record, from) in moved {
                    moves.push(self.step(record, route.site, from));
                    now.insert(record.clone(), from);
                }
            }
        }
        if self.header.router == RecordedRouter::Tpart {
            for (record, at) in &now {
                let home = self.places.home(record);
                let back = (*at != home).then(|| self.step(record, *at, home));
                moves.extend(back);
            }
        }
        moves
    }

    /// The sites that run a transaction: the routed one; with Calvin, all that hold written
    /// records.
    fn executors(&self, transaction: &Transaction<RecordId>, site: u16) -> Vec<SiteId> {
        let places = &self.places;
        let name = |site: u16| places.sites[usize::from(site)];
        if self.header.router != RecordedRouter::Calvin {
            return vec![name(site)];
        }
        let holders: BTreeSet<u16> =
            transaction.write.iter().map(|record| places.of(record)).collect();
        let mut holders: Vec<u16> = holders.into_iter().collect();
        holders.sort_by_key(|&holder| (holder != site, holder));
        if holders.is_empty() { vec![name(site)] } else { holders.into_iter().map(name).collect() }
    }

    fn step(&self, record: &RecordId, from: u16, to: u16) -> Move {
        let name = |site: u16| self.places.sites[usize::from(site)];
        Move { record: record.clone(), from: name(from), to: name(to) }
    }
}

/// The same transactions, with all of their records as written.
fn all_written(batch: &Batch<RecordId>) -> Result<Batch<RecordId>, String> {
    let written = batch.transactions().iter().map(|one| Transaction {
        id: one.id,
        read: one.read.clone(),
        write: one.read.clone(),
    });
    Batch::new(written.collect()).map_err(|error| error.to_string())
}

fn names(sites: &[SiteId]) -> String {
    sites.iter().map(SiteId::to_string).collect::<Vec<_>>().join(", ")
}

fn in_words(one: &Move) -> String {
    let Move { record: (table, key), from, to } = one;
    format!("{table}[{key}] from {from} to {to}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_batch::{ClientId, Planner, Request};
    use isomer_design::{Column, ColumnType, Design, Placement, Schema};
    use isomer_plan::generate::random;
    use isomer_plan::route::engine::EngineRouter;
    use rand::RngExt;
    use std::sync::Arc;

    const T: TableId = TableId(1);
    const ROUTERS: [(RecordedRouter, EngineRouter); 5] = [
        (
            RecordedRouter::Hermes,
            EngineRouter::Hermes(Options {
                alpha: Alpha::PAPER,
                reorder: true,
                tie: Tie::LowestSite,
                polish: false,
            }),
        ),
        (RecordedRouter::Calvin, EngineRouter::Calvin),
        (RecordedRouter::Gstore, EngineRouter::GStore),
        (RecordedRouter::Leap, EngineRouter::Leap),
        (RecordedRouter::Tpart, EngineRouter::TPart { beta: 8000 }),
    ];

    /// The lines of a run of the engine's planner over random batches.
    fn recording(names: (RecordedRouter, EngineRouter), rule: Rule, seed: u64) -> Vec<String> {
        let mut design = Design::new((1..=4).map(SiteId)).unwrap();
        let schema = Schema::new("rows", vec![Column::new("id", ColumnType::Int64)], &["id"]);
        let starts = (0..4).map(|site| {
            let start = if site == 0 { Key::min() } else { Key::int(site * 10) };
            (start, Placement::at(SiteId(site as u16 + 1)))
        });
        design.create_table(T, schema.unwrap(), starts).unwrap();
        let homes = Homes::of(&design);
        let header = Header {
            router: names.0,
            fusion_size: Some(7),
            fusion_rule: rule,
            ..Header::of_hermes(&homes, &[T]).unwrap()
        };
        let fusion = FusionTable::new(rule.replacement(), Some(7));
        let mut planner = Planner::new(homes, Arc::new(names.1), fusion);
        let (mut out, mut random) = (Vec::new(), random(seed));
        write_header(&mut out, &header).unwrap();
        for sequence in 1..=20 {
            let request = |client| {
                let keys = 0..random.random_range(1..5);
                let footprint = keys.fold(Footprint::new(), |all, _| {
                    let key = Key::int(random.random_range(0..40));
                    if random.random_bool(0.5) { all.write(T, key) } else { all.read(T, key) }
                });
                let (procedure, params) = ("p".to_owned(), Vec::new());
                let client = ClientId(client);
                Arc::new(Request { client, sequence, attempt: 0, procedure, params, footprint })
            };
            let requests = (0..12).map(request).collect();
            let batch = isomer_batch::Batch { requests, provisions: Vec::new() };
            let plan = planner.plan(&batch);
            write_batch(&mut out, &Recorded::of(&batch, &plan)).unwrap();
        }
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
    }

    fn again(lines: &[String]) -> Result<Agreed, String> {
        let text = lines.join("\n");
        route_again(text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn every_router_does_what_the_engine_did() {
        for (router, rule) in
            ROUTERS.into_iter().zip([Rule::Fifo, Rule::Lru, Rule::Clock].iter().cycle())
        {
            for seed in 0..20 {
                let agreed = again(&recording(router, *rule, seed));
                let agreed =
                    agreed.unwrap_or_else(|why| panic!("{router:?} {rule:?} {seed}: {why}"));
                assert_eq!((agreed.batches, agreed.transactions), (20, 240));
                assert_eq!(agreed.moves > 100, router.0 != RecordedRouter::Calvin, "{agreed:?}");
            }
        }
        for rule in [Rule::Fifo, Rule::Lru, Rule::Clock] {
            for seed in 20..40 {
                again(&recording(ROUTERS[0], rule, seed)).unwrap();
                again(&recording(ROUTERS[3], rule, seed)).unwrap();
            }
        }
    }

    #[test]
    fn another_order_of_batches_or_transactions_is_noticed() {
        let lines = recording(ROUTERS[0], Rule::Clock, 1);
        let mut swapped = lines.clone();
        swapped.swap(3, 4);
        let why = again(&swapped).unwrap_err();
        assert!(why.starts_with("batch 3: the engine"), "{why}");
        let mut lines = lines;
        let mut line: Line = serde_json::from_str(&lines[5]).unwrap();
        line.decided.swap(0, 1);
        lines[5] = serde_json::to_string(&line).unwrap();
        let why = again(&lines).unwrap_err();
        assert!(why.starts_with("batch 4: the engine has transaction"), "{why}");
    }

    #[test]
    fn a_move_that_was_not_made_and_another_rule_are_noticed() {
        let lines = recording(ROUTERS[0], Rule::Clock, 2);
        let mut fewer = lines.clone();
        let mut line: Line = serde_json::from_str(&fewer[9]).unwrap();
        line.moved.pop().unwrap();
        fewer[9] = serde_json::to_string(&line).unwrap();
        let why = again(&fewer).unwrap_err();
        assert!(why.starts_with("batch 8: the engine moves"), "{why}");
        let mut other = lines;
        other[0] = other[0].replace("\"clock\"", "\"fifo\"");
        assert!(again(&other).is_err());
    }
}
