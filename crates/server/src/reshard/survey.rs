//! Surveys the rows to move and their new partitions, before anything is written.
//!
//! One pass over the rows counts them, looks for NULL in the new row key, and takes a sample. The
//! sample, sorted in the new order, is cut into the table's number of partitions. Each part goes to
//! the site that has most of its rows, with no site above its share ([`Placement::balanced`],
//! Morphus, section 3.2). Rows with the same shard key stay together until the partition is split.

use super::nulls;
use crate::backend::{FULL, explain};
use crate::engine::{Engine, damaged};
use crate::limits;
use isomer_cluster::{CancelToken, Isolation};
use isomer_design::{Direction, Key, KeyRange, Schema, SiteId, Value};
use isomer_plan::reshard::{Chunks, Placement};
use isomer_sql::catalog::{Table, place_of, quoted, row_schema};
use isomer_sql::{SqlError, code};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The rows of a page, which is read in one snapshot.
const PAGE_ROWS: usize = 10_000;
/// The most rows of the sample. It has at least half of that if the table has.
const SAMPLE_MAX: usize = 8_192;
/// The most distinct values that are counted.
const VALUES_MAX: usize = 10_000;

/// A table's rows in another layout.
pub(super) struct Survey {
    pub(super) rows: u64,
    /// The first keys of the partitions, and their masters.
    pub(super) partitions: Vec<(Key, SiteId)>,
    place: Vec<usize>,
    shard: Vec<usize>,
    /// For each column of the row key, the number of rows in which it is NULL.
    nulls: Vec<u64>,
    /// The current number of partitions.
    partitions_now: usize,
    /// The number of distinct values of the shard key; `None` if above `VALUES_MAX`.
    values: Option<usize>,
    /// The share of the sample with its most frequent shard key.
    largest: f64,
    /// The share of the rows that change their site.
    moved: f64,
    /// The total bytes of keys and rows, and the share of each site.
    bytes: u64,
    parts: Vec<(SiteId, f64)>,
}

/// A sampled row: its new row key, the length of the shard key in it, and its current site.
type Sampled = (Key, usize, SiteId);

/// The pass over the rows.
struct Pass<'t> {
    table: &'t Table,
    /// The schema of the new layout, for encoding row keys.
    schema: Schema,
    place: Vec<usize>,
    shard: &'t [usize],
    rows: u64,
    bytes: u64,
    nulls: Vec<u64>,
    values: BTreeSet<Key>,
    sample: Vec<Sampled>,
    /// One in this many rows is sampled.
    step: u64,
}

impl Survey {
    pub(super) fn of(
        engine: &Arc<Engine>,
        cancel: &Arc<CancelToken>,
        table: &Table,
        (key, shard): (&[usize], &[usize]),
    ) -> Result<Survey, SqlError> {
        let place = place_of(key, shard, table.columns.len());
        let schema = row_schema(&table.name, &table.columns, &place)?;
        let mut pass = Pass {
            table,
            schema,
            nulls: vec![0; place.len()],
            place,
            shard,
            rows: 0,
            bytes: 0,
            values: BTreeSet::new(),
            sample: Vec::new(),
            step: 1,
        };
        pass.run(engine, cancel)?;
        pass.sample.sort();
        let (partitions, moved) = cut(engine, table, &pass.sample)?;
        let parts = parts(&partitions, &pass.sample);
        let Pass { rows, bytes, nulls, values, sample, place, .. } = pass;
        let largest = most_frequent(&sample) as f64 / sample.len().max(1) as f64;
        let values = (values.len() < VALUES_MAX).then_some(values.len());
        let shard = shard.to_vec();
        let now = engine.database().design();
        let partitions_now = now.table(table.id).map_err(damaged)?.partitions().len();
        Ok(Survey {
            rows,
            partitions,
            place,
            shard,
            nulls,
            partitions_now,
            values,
            largest,
            moved,
            bytes,
            parts,
        })
    }

    /// Refuses a layout for which a site lacks memory. Indexes and versions are not counted here;
    /// if a site refuses them later, the change is undone.
    pub(super) fn check_room(&self, engine: &Engine, table: &Table) -> Result<(), SqlError> {
        for report in engine.database().sites() {
            let part = self.parts.iter().find(|(site, _)| *site == report.site);
            let (Some((site, part)), Some(most)) = (part, report.memory_max) else { continue };
            let (needs, free) =
                ((self.bytes as f64 * part) as usize, most.saturating_sub(report.memory_bytes));
            if needs > free {
                let message = format!(
                    "site {site} has no room for the rows of \"{}\" in another order: they take {} kB there at least, and {} kB are free",
                    table.name,
                    needs.div_ceil(1024),
                    free / 1024,
                );
                return Err(SqlError::new(code::OUT_OF_MEMORY, message).hint(FULL));
            }
        }
        Ok(())
    }

    /// Refuses rows with NULL in the new row key.
    pub(super) fn check(&self, table: &Table) -> Result<(), SqlError> {
        let found = self.nulls.iter().zip(&self.place).find(|(count, _)| **count > 0);
        found.map_or(Ok(()), |(count, &at)| Err(nulls(table, at, *count)))
    }

    /// Refuses a key with fewer values than the table has partitions, because some partitions would
    /// stay empty.
    pub(super) fn check_values(&self, table: &Table) -> Result<(), SqlError> {
        let few = self.values.filter(|&values| values < self.partitions_now);
        let (Some(values), false) = (few, self.shard.is_empty() || self.rows == 0) else {
            return Ok(());
        };
        let message = format!(
            "shard key ({}) has too few different values: {values}, and table \"{}\" has {} partitions",
            self.names(table),
            table.name,
            self.partitions_now,
        );
        let detail = format!(
            "Rows that have the shard key in common stay in one partition; the most frequent value is in {:.0} % of them.",
            100.0 * self.largest,
        );
        Err(SqlError::new(code::INVALID_PARAMETER, message)
            .detail(detail)
            .hint("FORCE shards the table by it all the same, in fewer partitions."))
    }

    /// The names of the shard key's columns.
    fn names(&self, table: &Table) -> String {
        let names = self.shard.iter().map(|&at| quoted(&table.columns[at].name));
        names.collect::<Vec<_>>().join(", ")
    }

    /// Notices about the new layout.
    pub(super) fn notices(&self, table: &Table) -> Vec<String> {
        let key = match self.shard.is_empty() {
            true => "without a shard key".to_owned(),
            false => format!("by shard key ({})", self.names(table)),
        };
        let mut sites: Vec<String> = self.partitions.iter().map(|(_, at)| at.to_string()).collect();
        sites.sort();
        sites.dedup();
        let mut said = vec![format!(
            "{} rows {key}: {} partition{} at {}, {:.0} % of the rows change their site",
            self.rows,
            self.partitions.len(),
            if self.partitions.len() == 1 { "" } else { "s" },
            sites.join(" "),
            100.0 * self.moved,
        )];
        let has_key = !self.shard.is_empty() && self.rows > 0;
        if let (Some(values), true) = (self.values, has_key)
            && values < self.partitions_now
        {
            said.push(format!("{key} there are few values: {values} different ones"));
        }
        // Rows with equal shard keys stay together, so their site gets at least that share of the
        // load.
        if has_key && self.largest > 0.5 {
            let percent = 100.0 * self.largest;
            said.push(format!(
                "{key} one value is in {percent:.0} % of the rows, which stay at one site"
            ));
        }
        said
    }
}

impl Pass<'_> {
    fn run(&mut self, engine: &Arc<Engine>, cancel: &Arc<CancelToken>) -> Result<(), SqlError> {
        let mut rest = KeyRange::all();
        loop {
            cancel.over().map_or(Ok(()), |why| Err(limits::ended(why)))?;
            let mut txn = engine.gateway().begin(Isolation::ReadCommitted, cancel.clone());
            let (mut count, mut last, mut seen) = (0, None, Ok(()));
            let design = engine.database().design();
            let scanned = txn.scan(self.table.id, &rest, Direction::Forward, |key, row| {
                let site = || design.partition_of(self.table.id, key).map(|(_, at)| at.master);
                seen = self.row(key, row, &site);
                count += 1;
                last = Some(Key::from_bytes(key));
                match seen.is_ok() && count < PAGE_ROWS {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            });
            scanned.map_err(explain)?;
            seen?;
            match last {
                Some(last) if count == PAGE_ROWS => rest = rest.after(&last, Direction::Forward),
                _ => return Ok(()),
            }
        }
    }

    fn row(
        &mut self,
        key: &[u8],
        row: &[u8],
        site: &dyn Fn() -> Option<SiteId>,
    ) -> Result<(), SqlError> {
        let read = |slot: usize| self.table.schema.read_column(key, row, slot).map_err(damaged);
        let place = self.place.iter().map(|&at| read(at)).collect::<Result<Vec<_>, _>>()?;
        self.rows += 1;
        self.bytes += (key.len() + row.len()) as u64;
        let is_null = |value: &Value| *value == Value::Null;
        self.nulls
            .iter_mut()
            .zip(&place)
            .for_each(|(count, value)| *count += u64::from(is_null(value)));
        if place.iter().any(is_null) {
            return Ok(());
        }
        let shard = self.schema.encode_prefix(&place[..self.shard.len()]).map_err(damaged)?;
        let shard_bytes = shard.len();
        if self.values.len() < VALUES_MAX {
            self.values.insert(shard);
        }
        if !self.rows.is_multiple_of(self.step) {
            return Ok(());
        }
        let place = self.schema.encode_key(&place).map_err(damaged)?;
        self.sample.extend(site().map(|site| (place, shard_bytes, site)));
        if self.sample.len() > SAMPLE_MAX {
            // Keeps every second row, for twice the step.
            let mut at = 0_usize;
            self.sample.retain(|_| {
                at += 1;
                at.is_multiple_of(2)
            });
            self.step *= 2;
        }
        Ok(())
    }
}

/// The count of the most frequent shard key in a sorted sample.
fn most_frequent(sample: &[Sampled]) -> usize {
    let shard = |one: &Sampled| one.0.as_bytes()[..one.1].to_vec();
    sample.chunk_by(|a, b| shard(a) == shard(b)).map(<[_]>::len).max().unwrap_or(0)
}

/// The share of a sorted sample at each site.
fn parts(partitions: &[(Key, SiteId)], sample: &[Sampled]) -> Vec<(SiteId, f64)> {
    let mut parts: Vec<(SiteId, f64)> = Vec::new();
    for (at, (start, site)) in partitions.iter().enumerate() {
        let before = |key: &Key| sample.partition_point(|one| one.0 < *key);
        let end = partitions.get(at + 1).map_or(sample.len(), |(end, _)| before(end));
        let part = (end - before(start)) as f64 / sample.len().max(1) as f64;
        match parts.iter_mut().find(|(other, _)| other == site) {
            Some((_, sum)) => *sum += part,
            None => parts.push((*site, part)),
        }
    }
    parts
}

/// The partitions for a sorted sample, in the table's number, and the share of the rows that change
/// their site.
fn cut(
    engine: &Engine,
    table: &Table,
    sample: &[Sampled],
) -> Result<(Vec<(Key, SiteId)>, f64), SqlError> {
    let design = engine.database().design();
    let found = design.table(table.id).map_err(damaged)?;
    let masters: Vec<SiteId> = found.partitions().iter().map(|(_, at)| at.master).collect();
    let sites: Vec<SiteId> = masters.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let parts = masters.len();
    // Each part begins with a value of the shard key; the first begins with the lowest key.
    let begin = |part: usize| {
        let (place, shard_bytes, _) = &sample[part * sample.len() / parts];
        let bytes =
            if *shard_bytes == 0 { place.as_bytes() } else { &place.as_bytes()[..*shard_bytes] };
        Key::from_bytes(bytes)
    };
    let mut starts = vec![Key::min()];
    if !sample.is_empty() {
        let first = begin(0);
        starts.extend((1..parts).map(begin).filter(|start| *start > first));
        starts.dedup();
    }
    let mut chunks = Chunks::new(sites.len());
    for (at, start) in starts.iter().enumerate() {
        let from = sample.partition_point(|one| one.0 < *start);
        let to = starts
            .get(at + 1)
            .map_or(sample.len(), |end| sample.partition_point(|one| one.0 < *end));
        let count = |site: &SiteId| {
            let here = sample[from..to].iter().filter(|one| one.2 == *site).count() as u64;
            (sites.iter().position(|other| other == site).expect("one of them") as u32, here)
        };
        chunks.push(sites.iter().map(count)).map_err(damaged)?;
    }
    let placement = Placement::balanced(&chunks).map_err(damaged)?;
    let moved = placement.transfer(&chunks) as f64 / sample.len().max(1) as f64;
    let at = placement.sites.iter().map(|&site| sites[site as usize]);
    Ok((starts.into_iter().zip(at).collect(), moved))
}
