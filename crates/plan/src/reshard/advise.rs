//! Advice on the shard key: ranks the candidate columns of a table by a recording.
//!
//! A recording for this purpose lists, per access to the table, the values of all candidate
//! columns. It is a CSV with `time,transaction,access`, a column `table` if it covers several
//! tables, and one column per candidate. For each candidate:
//!
//! | figure | good | why |
//! | --- | --- | --- |
//! | cardinality | high | few values cannot be spread |
//! | hottest value | small share | one value cannot be split |
//! | monotonicity | near 0 | a key that only grows sends all inserts to the last site |
//! | single-site share | high | transactions that stay on one site need no coordination |
//! | imbalance | near 1 | load when values are dealt over the sites in ranges |
//! | rows to move | few | what changing to it costs, from the current key, in recorded accesses |
//!
//! The rank follows a score from 0 to 1: the single-site share, divided by the imbalance.
//! Monotonicity lowers it, and so does a cardinality below the number of sites. The score is a
//! heuristic, so the figures are reported with it.

use super::{Chunks, Placement, TableError};
use crate::assign::check_sites;
use crate::recording::{
    Lines, OnFault, RecordedKey, RecordingError, parse_key, parse_time, unpack,
};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::collections::BTreeSet;
use std::io::Read;

/// The figures of one candidate.
#[derive(Clone, PartialEq, Debug)]
pub struct Candidate {
    /// The column.
    pub column: String,
    /// Distinct values.
    pub cardinality: usize,
    /// The share of accesses to the most frequent value.
    pub hottest: f64,
    /// From 0 (values come in any order) to 1 (each new value is above all earlier ones).
    pub monotonicity: f64,
    /// The share of transactions whose accesses fall on one site.
    pub single_site: f64,
    /// The highest number of accesses of a site over the mean.
    pub imbalance: f64,
    /// Accesses to rows whose site would change from that of the current key.
    pub rows_moved: Option<u64>,
    /// The score that decides the rank: higher is better.
    pub score: f64,
}

/// Accesses to a table.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rows {
    /// The candidate columns.
    pub columns: Vec<String>,
    /// The number of the transaction of each access.
    pub transactions: Vec<u64>,
    /// For each column, its value at each access.
    pub values: Vec<Vec<RecordedKey>>,
}

/// Ranks all columns except `time`, `transaction`, `table` and `access` as keys of a table, best
/// first. `current` is the present key. A recording without a column `table` is taken to be of this
/// table.
pub fn advise(
    input: impl Read,
    table: &str,
    sites: usize,
    current: Option<&str>,
) -> Result<Vec<Candidate>, TableError> {
    rank(&read(input, table)?, sites, current)
}

/// Ranks the columns of accesses as keys, best first. `current` is the present key.
///
/// # Errors
/// If `current` is none of the columns, or there are more sites than accesses.
pub fn rank(
    rows: &Rows,
    sites: usize,
    current: Option<&str>,
) -> Result<Vec<Candidate>, TableError> {
    check_sites(sites, rows.transactions.len())?;
    let today = match current {
        None => None,
        Some(name) => {
            Some(rows.columns.iter().position(|column| column == name).ok_or_else(|| {
                TableError::Column { name: name.to_owned(), known: rows.columns.join(", ") }
            })?)
        }
    };
    let deals: Vec<Vec<u32>> = rows.values.iter().map(|values| deal(values, sites)).collect();
    let mut candidates = Vec::new();
    for (at, column) in rows.columns.iter().enumerate() {
        let rows_moved = match today {
            Some(today) if today != at => Some(moved(&deals[today], &rows.values[at], sites)?),
            Some(_) => Some(0),
            None => None,
        };
        candidates.push(candidate(column, rows, at, &deals[at], sites, rows_moved));
    }
    candidates.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.column.cmp(&b.column)));
    Ok(candidates)
}

fn read(input: impl Read, table: &str) -> Result<Rows, TableError> {
    let mut lines = Lines::new(unpack(input)?, OnFault::Stop);
    if !lines.advance()? {
        return Err(RecordingError::Empty.into());
    }
    let names: Vec<String> = (0..lines.count()).map(|at| lines.field(at).to_owned()).collect();
    let fixed = ["time", "transaction", "access"];
    if fixed.iter().any(|name| !names.iter().any(|other| other == name)) {
        return Err(header_error(&names));
    }
    let place = |name: &str| names.iter().position(|other| other == name).unwrap_or(0);
    let (time, transaction) = (place("time"), place("transaction"));
    let of_table = names.iter().position(|name| name == "table");
    let is_candidate = |&at: &usize| !fixed.contains(&names[at].as_str()) && Some(at) != of_table;
    let candidates: Vec<usize> = (0..names.len()).filter(is_candidate).collect();
    let mut others: BTreeSet<String> = BTreeSet::new();
    if candidates.is_empty() {
        return Err(header_error(&names));
    }
    let columns: Vec<String> = candidates.iter().map(|&at| names[at].clone()).collect();
    let values = vec![Vec::new(); columns.len()];
    let mut rows = Rows { columns, transactions: Vec::new(), values };
    while lines.advance()? {
        let id = lines.field(transaction).parse::<u64>();
        let wrong = |at: usize, field, problem| {
            Err(RecordingError::Malformed(lines.fault_in(at, field, problem)).into())
        };
        if lines.count() != names.len() {
            let problem = format!("{} fields, the header has {}", lines.count(), names.len());
            return wrong(lines.count().min(names.len()), "line", problem);
        }
        if parse_time(lines.field(time)).is_none() {
            let problem = format!("\"{}\" is no time: seconds or a date are", lines.field(time));
            return wrong(time, "time", problem);
        }
        let Ok(id) = id else {
            let problem = format!("\"{}\" is no number", lines.field(transaction));
            return wrong(transaction, "transaction", problem);
        };
        if let Some(at) = of_table
            && lines.field(at) != table
        {
            if !others.contains(lines.field(at)) {
                others.insert(lines.field(at).to_owned());
            }
            continue;
        }
        rows.transactions.push(id);
        for (values, &at) in rows.values.iter_mut().zip(&candidates) {
            values.push(parse_key(lines.field(at)).into());
        }
    }
    if rows.transactions.is_empty() && !others.is_empty() {
        let known = others.into_iter().collect::<Vec<_>>().join(", ");
        return Err(RecordingError::UnknownTable { name: table.to_owned(), known }.into());
    }
    if rows.transactions.is_empty() {
        return Err(RecordingError::Empty.into());
    }
    Ok(rows)
}

fn header_error(names: &[String]) -> TableError {
    let expected = "time, transaction, access and at least one candidate column".to_owned();
    RecordingError::Header { found: names.join(","), expected }.into()
}

/// Ranges over the sorted values with about as many accesses each; a value is never split.
fn deal(values: &[RecordedKey], sites: usize) -> Vec<u32> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].cmp(&values[b]));
    let mut site_of = vec![0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let value = &values[order[start]];
        let length = order[start..].partition_point(|&at| values[at] == *value);
        // The middle of a value's accesses decides its site.
        let site = ((start + length / 2) * sites / order.len()) as u32;
        order[start..start + length].iter().for_each(|&at| site_of[at] = site);
        start += length;
    }
    site_of
}

/// Accesses whose site changes under the balanced placement of the new ranges.
fn moved(today: &[u32], new: &[RecordedKey], sites: usize) -> Result<u64, TableError> {
    let mut local = vec![vec![0u64; sites]; sites];
    for (&from, chunk) in today.iter().zip(deal(new, sites)) {
        local[chunk as usize][from as usize] += 1;
    }
    let mut chunks = Chunks::new(sites);
    for row in local {
        chunks.push(row.into_iter().enumerate().map(|(site, rows)| (site as u32, rows)))?;
    }
    Ok(Placement::balanced(&chunks)?.transfer(&chunks))
}

fn candidate(
    column: &str,
    rows: &Rows,
    at: usize,
    site_of: &[u32],
    sites: usize,
    rows_moved: Option<u64>,
) -> Candidate {
    let values = &rows.values[at];
    let mut counts: HashMap<&RecordedKey, u64, FixedState> = HashMap::default();
    let (mut news, mut rising, mut highest) = (0u64, 0u64, None);
    for value in values {
        let count = counts.entry(value).or_insert(0);
        *count += 1;
        if *count == 1 {
            news += u64::from(highest.is_some());
            rising += u64::from(highest.is_some_and(|highest| value > highest));
        }
        highest = highest.max(Some(value));
    }
    let total = values.len() as f64;
    let hottest = counts.values().copied().max().unwrap_or(0) as f64 / total;
    // By chance half of the first few new values rise, and later ones rarely.
    let monotonicity = rising as f64 / news.max(1) as f64;
    let mut per_site = vec![0u64; sites];
    site_of.iter().for_each(|&site| per_site[site as usize] += 1);
    let most = per_site.iter().copied().max().unwrap_or(0) as f64;
    let imbalance = most * sites as f64 / total;
    let single_site = single_site(&rows.transactions, site_of);
    let spread = (counts.len() as f64 / sites as f64).min(1.0);
    let score = single_site / imbalance * spread * (1.0 - monotonicity / 2.0);
    let (column, cardinality) = (column.to_owned(), counts.len());
    Candidate {
        column,
        cardinality,
        hottest,
        monotonicity,
        single_site,
        imbalance,
        rows_moved,
        score,
    }
}

fn single_site(transactions: &[u64], site_of: &[u32]) -> f64 {
    let mut first: HashMap<u64, (u32, bool), FixedState> = HashMap::default();
    for (&transaction, &site) in transactions.iter().zip(site_of) {
        let entry = first.entry(transaction).or_insert((site, true));
        entry.1 &= entry.0 == site;
    }
    first.values().filter(|entry| entry.1).count() as f64 / first.len().max(1) as f64
}
