//! `isomer.copies`: rows, bytes and lag of each copy of a partition, and the load of partitions.
//!
//! ```text
//!   b: SELECT .. FROM isomer.copies ──┬─ copies ──▶ all processes: each counts the rows at its sites
//!                                     └─ load ────▶ the one with the conductor: the last minute
//! ```

use crate::engine::Engine;
use crate::engine::questions::{Question, Reply, ToldCopy, ToldLoad, ask_within};
use crate::heat::LAYERS;
use crate::sums;
use isomer_cluster::{CopyReport, inventory};
use isomer_design::{Key, SiteId, TableId};
use isomer_sql::catalog::Catalog;
use isomer_sql::datum::Datum;
use std::collections::BTreeMap;
use std::time::Duration;

/// The time over which load is averaged, in seconds.
const SECONDS: u64 = 60;
/// The age up to which sizes are shown again.
const FRESH_NS: u64 = 1_000_000_000;
/// The longest wait for the load.
const WAIT: Duration = Duration::from_secs(1);

/// The copies at the sites of this process.
pub(crate) fn here(engine: &Engine) -> Vec<ToldCopy> {
    let told = |(site, copy): (SiteId, CopyReport)| ToldCopy {
        site,
        table: copy.table,
        start: copy.range.start.as_bytes().to_vec(),
        end: copy.range.end.map(|end| end.as_bytes().to_vec()),
        is_master: copy.is_master,
        rows: copy.rows,
        bytes: copy.bytes,
        lag_ns: copy.lag_ns,
    };
    inventory(engine.database()).into_iter().map(told).collect()
}

/// The load of the partitions over the last minute, at the process with the conductor. It is
/// estimated from sampled transactions.
pub(crate) fn load(engine: &Engine) -> Vec<ToldLoad> {
    let (design, now) = (engine.database().design(), engine.database().now().0);
    let mut sums: BTreeMap<(TableId, Key), [u64; 2]> = BTreeMap::new();
    let columns = (SECONDS / LAYERS[0]) as usize;
    let shown = engine.steering.heat.lock().shown(now);
    for range in shown.iter().filter(|range| range.seconds == LAYERS[0]) {
        let Some((part, _)) = design.partition_of(range.table, &range.start) else { continue };
        let sum = sums.entry((range.table, part.start)).or_default();
        // The last column is not complete yet.
        for cell in range.columns.iter().rev().skip(1).take(columns) {
            sum.iter_mut().zip(cell).for_each(|(sum, count)| *sum += u64::from(*count));
        }
    }
    let told = |((table, start), sum): ((TableId, Key), [u64; 2])| {
        ToldLoad(table, start.as_bytes().to_vec(), sum.map(|count| count as f64 / SECONDS as f64))
    };
    sums.into_iter().map(told).collect()
}

/// The load of the partitions; `None` while the process with the conductor gives no answer.
fn load_anywhere(engine: &Engine) -> Option<Vec<ToldLoad>> {
    if !engine.database().is_gateway_only() {
        return Some(load(engine));
    }
    match ask_within(engine.database(), &Question::Load, WAIT) {
        Ok(Reply::Load(load)) => Some(load),
        _ => None,
    }
}

/// The bytes of the rows of a store table at their masters, in all processes that answer. They are
/// counted for all tables at once, at most once a second.
pub(crate) fn bytes(engine: &Engine, table: TableId) -> u64 {
    let now = engine.database().now();
    let mut sizes = engine.sizes.0.lock();
    let (at, known) = &mut *sizes;
    if now.0.saturating_sub(at.0) >= FRESH_NS {
        known.clear();
        for copy in here(engine).into_iter().chain(sums::copies(engine)) {
            if copy.is_master {
                *known.entry(copy.table).or_default() += copy.bytes;
            }
        }
        *at = now;
    }
    known.get(&table).copied().unwrap_or(0)
}

/// The rows of the view, sorted by relation, key and site.
pub(crate) fn rows(engine: &Engine, catalog: &Catalog) -> Vec<Vec<Datum>> {
    let design = engine.database().design();
    let load = load_anywhere(engine);
    let by_part = load.map(|load| {
        let part = |ToldLoad(table, start, load)| ((table, start), load);
        load.into_iter().map(part).collect::<BTreeMap<_, _>>()
    });
    let mut copies = here(engine);
    copies.extend(sums::copies(engine));
    let row = |copy: ToldCopy| {
        let name = name_of(catalog, copy.table)?;
        let schema = design.table(copy.table).ok()?.schema().clone();
        let key = |key: &[u8]| match key.is_empty() {
            true => String::new(),
            false => schema.format_key(&Key::from_bytes(key)),
        };
        let lag_ms = (!copy.is_master).then_some(copy.lag_ns as f64 / 1e6);
        let of_part = |by_part: &BTreeMap<_, [f64; 2]>| {
            by_part.get(&(copy.table, copy.start.clone())).copied().unwrap_or_default()
        };
        let load = by_part.as_ref().filter(|_| copy.is_master).map(of_part);
        let float = |value: Option<f64>| value.map_or(Datum::Null, Datum::Float);
        let row = vec![
            Datum::Text(name.clone()),
            Datum::Text(key(&copy.start)),
            copy.end.as_deref().map_or(Datum::Null, |end| Datum::Text(key(end))),
            Datum::Text(copy.site.to_string()),
            Datum::Bool(copy.is_master),
            Datum::Int(copy.rows as i64),
            Datum::Int(copy.bytes as i64),
            float(lag_ms),
            float(load.map(|[reads, _]| reads)),
            float(load.map(|[_, writes]| writes)),
        ];
        Some(((name, copy.start, copy.site), row))
    };
    let rows: BTreeMap<_, _> = copies.into_iter().filter_map(row).collect();
    rows.into_values().collect()
}

/// The name of a table or index, as in `isomer.partitions`. `None` for tables of the system.
fn name_of(catalog: &Catalog, id: TableId) -> Option<String> {
    Some(catalog.relation(id)?.label())
}
